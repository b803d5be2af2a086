"""What a call from Python costs, and the batched SVD against PyTorch's.

    peers/bin/python bench/peers/python_calls.py [--threads 2]

An empty batch goes through everything but kernels: operands, a context, memory for results, arrays. Its time is what
Python adds to a call. Paths are verified, interleaved, and compared by medians.
"""

import argparse
import statistics
import time

import numpy
import nullscope
import torch


def median_of(function, repetitions):
    times = []
    for _ in range(repetitions):
        begin = time.perf_counter()
        function()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def call_times():
    for kind, make in (("numpy", numpy.zeros), ("torch", lambda shape: torch.zeros(shape, dtype=torch.float64))):
        empty, small = make((0, 4, 4)), make((1, 4, 4))
        for name, function in (("svd", nullscope.svd), ("qr", nullscope.qr)):
            function(small)
            added, whole = (median_of(lambda x=x: function(x), 2000) for x in (empty, small))
            print(f"{name} of {kind} arrays: empty batch {added * 1e6:.1f} us, one 4 x 4 matrix {whole * 1e6:.1f} us")


def svd_times(batch, size):
    a = torch.randn(batch, size, size, generator=torch.Generator().manual_seed(1))
    u, s, vt = nullscope.svd(a)
    assert torch.allclose(u * s[:, None, :] @ vt, a, atol=1e-3) and torch.allclose(
        s, torch.linalg.svdvals(a), atol=1e-3
    )
    torch.linalg.svd(a, full_matrices=False)
    pairs = [
        (median_of(lambda: nullscope.svd(a), 1), median_of(lambda: torch.linalg.svd(a, full_matrices=False), 1))
        for _ in range(7)
    ]
    ours, theirs = (statistics.median(column) for column in zip(*pairs))
    print(
        f"svd of {batch} matrices {size} x {size}, f32: {ours * 1e3:.2f} ms, PyTorch {theirs * 1e3:.2f} ms, "
        f"ratio {theirs / ours:.2f}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    torch.set_num_threads(parser.parse_args().threads)
    print(nullscope.device(), "PyTorch", torch.__version__, "threads", torch.get_num_threads())
    call_times()
    svd_times(256, 64)
    svd_times(1024, 16)
