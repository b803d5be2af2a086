"""Threads, signals, forked children, imports."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy
import pytest

import nullscope


def run(program, *arguments):
    """The output of a program in a process of its own."""
    found = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *arguments], capture_output=True, text=True, timeout=100
    )
    assert found.returncode == 0, found.stderr
    return found.stdout.strip()


def test_threads_share_a_device():
    matrices = numpy.random.default_rng(0).normal(size=(8, 30, 20))
    expected = [nullscope.svd(a).s for a in matrices]
    found, failures = [None] * len(matrices), []

    def work(i):
        try:
            for _ in range(20):
                found[i] = nullscope.svd(matrices[i]).s
        except Exception as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(matrices))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    for one, other in zip(found, expected):
        numpy.testing.assert_array_equal(one, other)


def test_the_gil_is_released():
    a = numpy.random.default_rng(0).normal(size=(1200, 1200))
    nullscope.svd(a[:2, :2])  # what is compiled and loaded is not measured
    ticks, done = [], threading.Event()

    def count():
        while not done.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    counter = threading.Thread(target=count)
    counter.start()
    begin = time.perf_counter()
    nullscope.svd(a)
    end = time.perf_counter()
    done.set()
    counter.join()
    during = sum(begin < tick < end for tick in ticks)
    assert during >= 5, f"{during} ticks in {end - begin:.3f} s"  # one at most if the GIL were held


@pytest.mark.parametrize("work", ["structure", "explain"])
def test_ctrl_c_stops_long_work(work):
    model = nullscope.Transformer.create(
        vocabulary=50,
        classes=2,
        width=64,
        heads=4,
        key_size=16,
        value_size=16,
        feed_forward=128,
        positions=64,
        layers=4,
    )
    random = numpy.random.default_rng(0)
    texts = random.integers(0, 50, size=(4000, 60)).tolist()
    nullscope.structure(model, texts[:2], 60)  # what is compiled is not interrupted
    nullscope.explain(model, texts[0], sampling="deletions", samples=200)
    interrupter = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    interrupter.start()
    begin = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        if work == "structure":
            nullscope.structure(model, texts, 60)
        else:
            nullscope.explain(model, texts[0], sampling="deletions", samples=20000)
        time.sleep(5)  # the work was done before the signal came
    interrupter.join()
    assert time.perf_counter() - begin < 5


def test_an_error_of_a_callable_comes_back():
    def broken(texts):
        raise LookupError("no such word")

    with pytest.raises(LookupError, match="no such word"):
        nullscope.explain(broken, "one two three")
    with pytest.raises(ValueError, match="3 texts|gave scores"):
        nullscope.explain(lambda texts: numpy.zeros((1, 2)), "one two three")


def test_a_forked_child_is_told():
    said = run(
        """
        import os, sys, numpy, nullscope
        nullscope.svd(numpy.eye(3))
        if os.fork() == 0:
            for use in (lambda: nullscope.svd(numpy.eye(3)), nullscope.devices):
                try:
                    use()
                except RuntimeError as failure:
                    print("fork" in str(failure), flush=True)
            sys.exit(7)  # through all that runs at the end of a process
        print(os.waitstatus_to_exitcode(os.wait()[1]))
        print(nullscope.svd(numpy.eye(3)).s.tolist())
        """
    )
    assert said.splitlines() == ["True", "True", "7", "[1.0, 1.0, 1.0]"]


def test_a_child_may_use_what_its_parent_only_imported():
    said = run(
        """
        import os, sys, numpy, nullscope
        if os.fork() == 0:
            print(nullscope.svd(2 * numpy.eye(2)).s.tolist(), flush=True)
            sys.exit(0)
        print(os.waitstatus_to_exitcode(os.wait()[1]))
        """
    )
    assert said.splitlines() == ["[2.0, 2.0]", "0"]


@pytest.mark.parametrize("order", ["torch, nullscope", "nullscope, torch"])
def test_beside_torch(order):
    pytest.importorskip("torch")
    said = run(
        f"""
        import {order}
        torch.manual_seed(0)
        a = torch.randn(300, 200, dtype=torch.float64)
        ours, theirs = nullscope.svd(a).s, torch.linalg.svdvals(a)
        product = a @ a.T
        ours_again = nullscope.svd(a[None].repeat(3, 1, 1)).s[2]
        print(torch.allclose(ours, theirs), torch.allclose(ours_again, theirs), torch.isfinite(product).all().item())
        """
    )
    assert said == "True True True"


def test_import_is_quick_and_touches_no_device():
    # Time of the CPU, because other tests run beside this one.
    program = "import time; begin = time.process_time(); import nullscope; print(time.process_time() - begin)"
    assert min(float(run(program)) for _ in range(3)) < 0.5
    said = run("import nullscope; print(nullscope.device.cache_info().currsize)")
    assert said == "0"
