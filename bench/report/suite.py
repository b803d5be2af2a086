#!/usr/bin/env python3
"""Runs the benchmark programs and writes one JSON file and one page:  ./run bench --report DIR [--quick]"""

import argparse
import datetime
import json
import os
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import compare
import page
import results
import sensors

FULL = {"repetitions": 9, "min_time": 0.05}
QUICK = {"repetitions": 5, "min_time": 0.02}  # 5 are the fewest for which compare.py can call a difference real


def programs_in(folder):
    return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith("_bench"))


def program_name(path):
    return os.path.basename(path).removesuffix("_bench")


def names_in(program, flags):
    """The benchmarks of a program, in the order in which they run, and what went wrong. Wrong flags are wrong for all."""
    found = subprocess.run([program, *flags, "--benchmark_list_tests"], capture_output=True, text=True, check=False)
    if found.returncode == 2:
        print(found.stderr.strip(), file=sys.stderr)
        sys.exit(2)
    error = "" if found.returncode == 0 else found.stderr.strip() or f"exit code {found.returncode}"
    return found.stdout.split() if not error else [], error


def quick_names(names):
    """One size of each operation and type, the middle one: all of its paths."""
    sizes = {}
    for name in names:
        operation, kind, path, *rest = name.split("/")
        sizes.setdefault((operation, kind), {}).setdefault("/".join(rest), []).append(name)
    chosen = []
    for by_size in sizes.values():
        groups = list(by_size.values())
        chosen += groups[(len(groups) - 1) // 2]
    return chosen


class Progress:
    """One line on a terminal, with the time that is left; nothing elsewhere."""

    def __init__(self, total):
        self.total, self.done, self.start = total, 0, time.monotonic()
        self.is_terminal = sys.stderr.isatty()

    def show(self, name):
        if not self.is_terminal:
            return
        elapsed = time.monotonic() - self.start
        left = f", about {elapsed / self.done * (self.total - self.done) / 60:.1f} min left" if self.done else ""
        sys.stderr.write(f"\r\033[K[{self.done}/{self.total}] {name}{left}")
        sys.stderr.flush()

    def end(self):
        if self.is_terminal:
            sys.stderr.write("\r\033[K")


def run_program(program, names, settings, device_flags, progress):
    """Runs these benchmarks of a program. Returns Google Benchmark's document and what went wrong, if anything."""
    with tempfile.TemporaryDirectory() as folder:
        out, log = os.path.join(folder, "out.json"), os.path.join(folder, "log")
        flags = [f"--benchmark_out={out}", f"--benchmark_repetitions={settings['repetitions']}",
                 f"--benchmark_min_time={settings['min_time']}",
                 "--benchmark_filter=^(" + "|".join(re.escape(n).replace("\\-", "-") for n in names) + ")$"]
        with open(log, "w+", encoding="utf-8") as errors:
            progress.show(program_name(program))
            running = subprocess.Popen([program, *device_flags, *flags], stdout=subprocess.PIPE, stderr=errors, text=True)
            seen = set()
            for printed in running.stdout:
                first = printed.split(" ", 1)[0].strip()
                if first in names and first not in seen:
                    seen.add(first)
                    progress.done += 1
                    progress.show(first)
            code = running.wait()
            errors.seek(0)
            tail = errors.read().strip().splitlines()[-5:]
        progress.done += len(names) - len(seen)
        try:
            with open(out, encoding="utf-8") as file:
                found = json.load(file)
        except (OSError, ValueError):
            return {}, f"exit code {code}, no results. " + " ".join(tail)
    failed = any(run.get("error_occurred") for run in found.get("benchmarks", []))
    return found, "" if code == 0 or failed else f"exit code {code}. " + " ".join(tail)


def peaks_of(context):
    """{"gflops": {"f32": 110.2}, "copy_gigabytes_per_second": {"4": 40.1}} from the lines that the programs report."""
    peaks = {"gflops": {}, "copy_gigabytes_per_second": {}}
    for key, value in context.items():
        if key.startswith("peak "):
            peaks["gflops"][key.removeprefix("peak ")] = float(value.split()[0])
        elif match := re.fullmatch(r"copy (\d+) MiB", key):
            peaks["copy_gigabytes_per_second"][match.group(1)] = float(value.split()[0])
    return peaks


def add_context(run, context):
    """What is known of the device; the first program that tells it counts, and the highest peaks."""
    device = run["device"]
    for key in ("device", "driver", "backend", "compute units"):
        if key in context:
            device.setdefault("name" if key == "device" else key.replace(" ", "_"), context[key])
    for key in ("nullscope", "runtime", "compiler"):
        if key in context:
            run.setdefault(key, context[key])
    for kind, values in peaks_of(context).items():
        for name, value in values.items():
            known = run["peaks"][kind]
            known[name] = max(value, known.get(name, 0))


def measure(args, device, budget=None):
    """Runs the suite on one device and returns the run as a document of the schema. After `budget` seconds no other program
    begins."""
    settings = dict(QUICK if args.quick else FULL)
    if args.repetitions:
        settings["repetitions"] = args.repetitions
    device_flags = ["--device", device] if device else []
    filters = [f"--benchmark_filter={args.filter}"] if args.filter else []
    selected, broken = [], []
    for program in programs_in(args.programs):
        names, error = names_in(program, device_flags + filters)
        if error:
            broken.append({"name": program_name(program), "seconds": 0, "error": error})
        if names:
            selected.append((program, quick_names(names) if args.quick else names))
    if not selected:
        print(f"bench: no benchmark has a name that matches {args.filter}; see ./run bench --benchmark_list_tests", file=sys.stderr)
        sys.exit(2)
    run = {"schema": results.SCHEMA, "version": results.VERSION, "quick": args.quick,
           "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
           "host": {"cpu": sensors.cpu_name(), "threads": os.cpu_count()}, "device": {}, "settings": settings,
           "peaks": {"gflops": {}, "copy_gigabytes_per_second": {}}, "sensors": [], "programs": broken, "results": []}
    progress = Progress(sum(len(names) for _, names in selected))
    for program, names in selected:
        start = time.monotonic()
        if budget and start - progress.start > budget:
            break
        found, error = run_program(program, names, settings, device_flags, progress)
        name = program_name(program)
        add_context(run, found.get("context", {}))
        run["programs"].append({"name": name, "seconds": round(time.monotonic() - start, 2), "error": error})
        run["results"] += results.results_of(found, name)
        is_cpu = run["device"].get("name", "") == sensors.cpu_name() or "CPU" in run["device"].get("name", "CPU")
        run["sensors"].append({"after": name, **sensors.read(is_cpu)})
    progress.end()
    run["seconds"] = round(time.monotonic() - progress.start, 1)
    return run


def write_report(run, folder):
    os.makedirs(folder, exist_ok=True)
    results.write(run, os.path.join(folder, "report.json"))
    with open(os.path.join(folder, "report.html"), "w", encoding="utf-8") as file:
        file.write(page.report(run))
    failures = page.failures(run)
    for failure in failures:
        print(f"FAILED {failure}")
    print(f"{len(page.measured(run))} benchmarks, {len(failures)} failures, {run['seconds'] / 60:.1f} min: "
          f"{os.path.join(folder, 'report.html')} and report.json")
    return not failures


def device_numbers(nullscope):
    found = subprocess.run([nullscope, "devices", "--json"], capture_output=True, text=True, check=True)
    return [str(i) for i in range(len(json.loads(found.stdout)))]


def main():
    parser = argparse.ArgumentParser(prog="./run bench", description=__doc__.split(":")[0] + ".",
                                     formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog="examples:\n  ./run bench --report here --quick\n"
                                            "  ./run bench --report here --filter '^gemm'\n"
                                            "  ./run bench --report all --device all --quick\n"
                                            "  ./run bench compare before/report.json after/report.json")
    parser.add_argument("--report", metavar="DIR", required=True, help="where report.json and report.html go")
    parser.add_argument("--quick", action="store_true", help="one size of each operation and type, 5 repetitions: a few minutes")
    parser.add_argument("--device", default="", help="as ./run devices names it; all: one after the other, and a comparison")
    parser.add_argument("--filter", metavar="REGEX", default="", help="only benchmarks whose name matches")
    parser.add_argument("--repetitions", type=int, metavar="N", help="of each benchmark (default 9, with --quick 5)")
    parser.add_argument("--programs", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--nullscope", required=True, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.device != "all":
        return 0 if write_report(measure(args, args.device), args.report) else 1
    is_fine, files = True, []
    for number in device_numbers(args.nullscope):
        folder = os.path.join(args.report, f"device-{number}")
        is_fine &= write_report(measure(args, number), folder)
        files.append(os.path.join(folder, "report.json"))
    if len(files) > 1:
        compare.main([*files, "--page", os.path.join(args.report, "compare.html"), "--threshold", "inf"])
    return 0 if is_fine else 1


if __name__ == "__main__":
    sys.exit(main())
