"""Tests of bench/report: the statistics, the schema, the comparison of runs and its exit codes, and the page."""

import copy
import io
import itertools
import json
import os
import random
import sys
import tempfile
import unittest
from contextlib import redirect_stderr, redirect_stdout

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench", "report"))
import charts
import compare
import page
import results
import samples
import suite


def run_of(times, failure=None):
    """A run with one benchmark of these times in seconds."""
    result = {"name": "gemm/f32/sycl/n:512", "program": "gemm", "operation": "gemm", "type": "f32", "path": "sycl",
              "sizes": {"n": 512}, "seconds": times, "gflops": [0.27 / t for t in times], "gigabytes_per_second": [],
              "intensity": 85.3, "roofline": [0.5] * len(times), "ceiling_gflops": [], "ceiling_gigabytes_per_second": [],
              "residuals": {"residual": 0.8}, "failure": failure}
    return {"schema": results.SCHEMA, "version": results.VERSION, "quick": False, "device": {"name": "a <device>"},
            "peaks": {"gflops": {"f32": 100.0}, "copy_gigabytes_per_second": {"4": 20.0, "512": 10.0}}, "programs": [],
            "results": [result]}


class Statistics(unittest.TestCase):
    def test_quantiles_interpolate(self):
        self.assertEqual(samples.median([3, 1, 2]), 2)
        self.assertEqual(samples.median([1, 2, 3, 4]), 2.5)
        self.assertEqual(samples.quartiles([1, 2, 3, 4, 5]), (2, 4))
        self.assertEqual(samples.quartiles([7]), (7, 7))

    def test_the_rank_test_agrees_with_all_permutations(self):
        a, b = [1.0, 2.0, 2.0, 5.0], [2.0, 6.0, 7.0]
        everything = a + b
        ranks = [2 * sum(y < x for y in everything) + sum(y == x for y in everything) + 1 for x in everything]
        mean = sum(ranks) * len(a) / len(everything)
        distances = [abs(sum(ranks[i] for i in chosen) - mean)
                     for chosen in itertools.combinations(range(len(everything)), len(a))]
        expected = sum(d >= distances[0] - 1e-9 for d in distances) / len(distances)
        self.assertAlmostEqual(samples.rank_test(a, b), expected, places=12)

    def test_the_rank_test_knows_its_limits(self):
        self.assertAlmostEqual(samples.rank_test([1, 2, 3, 4, 5], [6, 7, 8, 9, 10]), samples.smallest_p(5, 5))
        self.assertEqual(samples.rank_test([1, 1, 1], [1, 1, 1]), 1)
        self.assertEqual(samples.rank_test([], [1]), 1)

    def test_false_alarms_are_as_rare_as_promised(self):
        draw = random.Random(1)
        alarms = 0
        for _ in range(2000):
            a, b = ([draw.lognormvariate(0, 0.1) for _ in range(9)] for _ in range(2))
            alarms += samples.rank_test(a, b) <= 0.01
        self.assertLess(alarms, 2000 * 0.01 * 2)

    def test_many_values_take_the_normal_approximation(self):
        draw = random.Random(2)
        a, b = [draw.gauss(0, 1) for _ in range(20)], [draw.gauss(0.8, 1) for _ in range(20)]
        exact = samples.rank_test(a, b)
        longer = samples.rank_test(a + [0.3], b)  # 41 values
        self.assertLess(abs(exact - longer), 0.02)


class Comparison(unittest.TestCase):
    before = [1.00, 1.01, 1.02, 0.99, 1.00]

    def compared(self, after, *flags, failure=None):
        """Exit code and output of comparing a run of `before` with another one."""
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, name) for name in ("a.json", "b.json")]
            for path, run in zip(paths, (run_of(self.before), run_of(after, failure))):
                results.write(run, path)
            out = io.StringIO()
            with redirect_stdout(out):
                code = compare.main([*paths, *flags, "--page", os.path.join(folder, "page.html")])
            with open(os.path.join(folder, "page.html"), encoding="utf-8") as file:
                return code, out.getvalue(), file.read()

    def test_a_slowdown_ends_with_1(self):
        code, out, text = self.compared([1.2 * t for t in self.before])
        self.assertEqual(code, 1)
        self.assertIn("1 slower", out)
        self.assertIn('class="slower"', text)

    def test_a_speedup_does_not(self):
        code, out, _ = self.compared([0.8 * t for t in self.before])
        self.assertEqual((code, "1 faster" in out), (0, True))

    def test_noise_does_not_count(self):
        self.assertEqual(self.compared([1.5, 0.98, 1.3, 0.97, 1.2])[0], 0)

    def test_a_small_change_does_not_count_though_it_is_real(self):
        after = [1.03 * t for t in (1.0, 1.001, 1.002, 1.003, 1.004)]
        self.assertEqual(self.compared(after)[0], 0)
        self.assertEqual(self.compared(after, "--threshold", "0.01")[0], 1)

    def test_a_new_failure_ends_with_1(self):
        code, out, _ = self.compared([], failure="wrong result")
        self.assertEqual((code, "1 fail now" in out), (1, True))

    def test_too_few_repetitions_are_named(self):
        code, out, _ = self.compared([2.0, 2.1])
        self.assertEqual((code, "too few repetitions" in out), (0, True))

    def test_files_that_are_no_runs_end_with_2(self):
        with tempfile.TemporaryDirectory() as folder:
            good, bad = os.path.join(folder, "good.json"), os.path.join(folder, "bad.json")
            results.write(run_of(self.before), good)
            newer = run_of(self.before)
            newer["version"] = results.VERSION + 1
            for content in ("{", "[]", "{}", json.dumps(newer)):
                with open(bad, "w", encoding="utf-8") as file:
                    file.write(content)
                with self.assertRaises(SystemExit) as end, redirect_stderr(io.StringIO()):
                    compare.main([good, bad])
                self.assertEqual(end.exception.code, 2, content)


class Suite(unittest.TestCase):
    def test_quick_takes_one_size_with_all_its_paths(self):
        names = [f"gemm/f32/{path}/n:{n}" for n in (1, 2, 3) for path in ("sycl", "onemkl")] + ["copy/f64/sycl/n:8"]
        self.assertEqual(suite.quick_names(names), ["gemm/f32/sycl/n:2", "gemm/f32/onemkl/n:2", "copy/f64/sycl/n:8"])

    def test_every_repetition_is_kept(self):
        document = {"benchmarks": [
            {"run_name": "gemm/f32/sycl/n:8", "run_type": "iteration", "real_time": 2.0, "time_unit": "ms", "GFLOP/s": 3.0,
             "residual": 0.5, "roofline": 0.25, "intensity": 4.0},
            {"run_name": "gemm/f32/sycl/n:8", "run_type": "iteration", "real_time": 3.0, "time_unit": "us", "GFLOP/s": 4.0},
            {"run_name": "gemm/f32/sycl/n:8", "run_type": "aggregate", "real_time": 9.0, "time_unit": "ms"},
            {"run_name": "svd/f64/sycl/n:8/batch:2", "run_type": "iteration", "error_occurred": True, "error_message": "bad",
             "real_time": 0, "time_unit": "ms"}]}
        gemm, svd = results.results_of(document, "p")
        self.assertEqual(gemm["seconds"], [2e-3, 3e-6])
        self.assertEqual(gemm["residuals"], {"residual": 0.5})
        self.assertEqual((svd["failure"], svd["sizes"], svd["seconds"]), ("bad", {"n": 8, "batch": 2}, []))

    def test_the_highest_peak_counts(self):
        run = {"device": {}, "peaks": {"gflops": {}, "copy_gigabytes_per_second": {}}}
        for peak in ("90.0", "110.5", "100.0"):
            suite.add_context(run, {"device": "x", "peak f32": f"{peak} GFLOP/s", "copy 4 MiB": f"{peak} GB/s"})
        self.assertEqual(run["peaks"], {"gflops": {"f32": 110.5}, "copy_gigabytes_per_second": {"4": 110.5}})


class Page(unittest.TestCase):
    def test_failures_and_names_are_shown_and_escaped(self):
        run = run_of([1.0, 1.1, 1.2])
        broken = copy.deepcopy(run["results"][0])
        broken.update(name="svd/f32/sycl/n:8", failure="residual 1e9 exceeds <10>", seconds=[])
        run["results"].append(broken)
        text = page.report(run)
        self.assertIn("residual 1e9 exceeds &lt;10&gt;", text)
        self.assertIn("a &lt;device&gt;", text)
        self.assertIn("memory 10 GB/s", text)  # the largest copy: beyond the caches
        self.assertNotIn("<device>", text)

    def test_a_ratio_above_1_means_faster_than_the_other_path(self):
        run = run_of([1.0] * 5)
        run["results"].append({**run["results"][0], "name": "gemm/f32/onemkl/n:512", "path": "onemkl", "seconds": [3.0] * 5})
        (_, sycl, other), = page.pairs_of(run)
        self.assertEqual(page.ratio_of(sycl, other), (3, 3, 3))

    def test_a_benchmark_that_failed_is_not_measured(self):
        self.assertEqual(len(page.measured(run_of([1.0] * 5))), 1)
        self.assertEqual(page.measured(run_of([1.0] * 5, failure="wrong result")), [])

    def test_a_run_without_results_is_a_page_too(self):
        run = run_of([1.0])
        run["results"] = []
        self.assertIn("0</b> benchmarks measured", page.report(run))

    def test_axes_hold_all_values(self):
        axis = charts.Axis([0.01, 5000], 10, 110)
        self.assertTrue(10 < axis.place(0.01) < axis.place(1) < axis.place(5000) < 110)
        self.assertTrue(list(axis.ticks()))


if __name__ == "__main__":
    unittest.main()
