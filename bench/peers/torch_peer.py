#!/usr/bin/env python3
"""The PyTorch side of the attention and transformer benchmarks, at the same shapes and under the same kind of names.

  python bench/peers/torch_peer.py                                   times PyTorch alone
  python bench/peers/torch_peer.py --compare .build/release/bench    runs Nullscope's programs and PyTorch in turn

Names are <operation>/<type>/<path>/<sizes>, as in the C++ programs; the path says how PyTorch does it. Ratios are those
of the medians over all rounds. See the README beside this file.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

import torch
import torch.nn.functional as F

HEADS, WIDTH, MODEL_WIDTH = 12, 64, 768


def uniform(*shape):
    return torch.rand(*shape).mul_(2).sub_(1)


def weights(q, k):
    return torch.softmax(q @ k.transpose(-1, -2) / WIDTH**0.5, -1)


def correlations(raw, effective):
    """Pearson correlation of all entries, a number a head."""
    return torch.stack([torch.corrcoef(torch.stack([a.flatten(), e.flatten()]))[0, 1] for a, e in zip(raw, effective)])


class Attention:
    """out = softmax(q k^T / sqrt(d)) v, by scaled_dot_product_attention."""

    paths = ("torch",)
    program = "attention"
    type = "f32"

    def __init__(self, tokens, training=False):
        self.operation = "attention_training" if training else "attention"
        self.sizes = f"heads:{HEADS}/d:{WIDTH}/s:{tokens}"
        # Forward: q k^T and A v. Training: the scores again, and a product for each of dA, dQ, dK, dV.
        self.flops = (14 if training else 4) * HEADS * tokens**2 * WIDTH
        self.training = training
        self.operands = [uniform(1, HEADS, tokens, WIDTH).requires_grad_(training) for _ in range(3)]
        self.d_out = uniform(1, HEADS, tokens, WIDTH)

    def run(self, path):
        if not self.training:
            with torch.no_grad():
                return F.scaled_dot_product_attention(*self.operands)
        out = F.scaled_dot_product_attention(*self.operands)
        torch.autograd.grad(out, self.operands, self.d_out)
        return out

    def verify(self, path):
        q, k, v = (x.detach().double() for x in self.operands)
        expected = weights(q[:, :, :8], k) @ v
        error = (self.run(path).detach()[:, :, :8].double() - expected).abs().max().item()
        assert error < 1e-5, f"{self.operation}: error {error}"


class EffectiveAttention:
    """Effective attention and its correlation with the raw one, both dense.

    torch_svd  economy SVD of T = v h, as published code does it
    torch_qr   QR of v, which spans the same range if h has full rank
    """

    paths = ("torch_svd", "torch_qr")
    program = "effective_attention"
    operation = "effective_attention"
    type = "f32"

    def __init__(self, tokens):
        self.sizes = f"heads:{HEADS}/d:{MODEL_WIDTH}/s:{tokens}"
        self.flops = HEADS * (4 * tokens**2 * WIDTH + 6 * tokens * WIDTH**2)
        self.q, self.k, self.v = (uniform(HEADS, tokens, WIDTH) for _ in range(3))
        self.h = uniform(HEADS, WIDTH, MODEL_WIDTH)

    def basis(self, path):
        if path == "torch_qr":
            return torch.linalg.qr(self.v)[0]
        t = self.v @ self.h
        u, s, _ = torch.linalg.svd(t, full_matrices=False)
        tolerance = max(t.shape[-2:]) * torch.finfo(t.dtype).eps * s[:, :1]
        return u[:, :, : int((s > tolerance).sum(-1).max())]

    def run(self, path):
        with torch.no_grad():
            u = self.basis(path)
            raw = weights(self.q, self.k)
            return correlations(raw, raw @ u @ u.transpose(-1, -2))

    def verify(self, path):
        if path == "torch_svd":
            return
        error = (self.run("torch_svd") - self.run("torch_qr")).abs().max().item()
        assert error < 1e-4, f"the two ways differ by {error}"


class Transformer:
    """A BERT of MiniLM's size, random, by `transformers`: forward, with gradients, with a step of Adam."""

    paths = ("torch",)
    program = "transformer"
    type = "f32"

    def __init__(self, kind, batch=8, tokens=128):
        import transformers

        self.operation = f"transformer_{kind}"
        self.kind = kind
        self.sizes = f"batch:{batch}/s:{tokens}"
        config = transformers.BertConfig(
            hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536,
            hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
        self.model = transformers.BertModel(config, add_pooling_layer=False).train(kind != "forward")
        rows, d = batch * tokens, 384
        self.flops = (1 if kind == "forward" else 3) * 6 * rows * (24 * d * d + 4 * tokens * d)
        self.ids = torch.randint(0, config.vocab_size, (batch, tokens))
        self.d_hidden = uniform(batch, tokens, d)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.0)

    def run(self, path):
        if self.kind == "forward":
            with torch.no_grad():
                return self.model(self.ids, output_hidden_states=True).last_hidden_state
        self.optimizer.zero_grad()
        out = self.model(self.ids).last_hidden_state
        out.backward(self.d_hidden)
        if self.kind == "step":
            self.optimizer.step()
        return out

    def verify(self, path):
        assert torch.isfinite(self.run(path)).all()


def workloads():
    for kind in ("forward", "gradients", "step"):
        yield lambda kind=kind: Transformer(kind)
    for tokens in (1024, 2048, 4096):
        yield lambda tokens=tokens: Attention(tokens)
    for tokens in (1024, 2048, 4096):
        yield lambda tokens=tokens: Attention(tokens, training=True)
    yield lambda: EffectiveAttention(2048)


def name(work, path):
    return f"{work.operation}/{work.type}/{path}/{work.sizes}"


def time_torch(work, path, repetitions):
    """Seconds of each call, after one that is not counted."""
    work.run(path)
    seconds = []
    for _ in range(repetitions):
        begin = time.perf_counter()
        work.run(path)
        seconds.append(time.perf_counter() - begin)
    return seconds


def time_nullscope(folder, work, repetitions):
    """Seconds of each repetition of the C++ benchmark of the same name."""
    program = folder / f"{work.program}_bench"
    command = [
        str(program),
        f"--benchmark_filter=^{re.escape(name(work, 'sycl'))}$",
        f"--benchmark_repetitions={repetitions}",
        "--benchmark_format=json",
        "--roofline=false",
    ]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{program} failed:\n{result.stderr}")
    unit = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1}
    return [
        run["real_time"] * unit[run["time_unit"]]
        for run in json.loads(result.stdout)["benchmarks"]
        if run["run_type"] == "iteration" and not run.get("error_occurred")
    ]


def measure(make, options):
    """All times of one workload by name, in seconds, and its flops."""
    work = make()
    if options.filter and not any(re.search(options.filter, name(work, path)) for path in work.paths):
        return None
    for path in work.paths:
        work.verify(path)
    times = {}
    for _ in range(options.rounds):
        if options.compare:
            times.setdefault("sycl", []).extend(time_nullscope(options.compare, work, options.repetitions))
        for path in work.paths:
            times.setdefault(path, []).extend(time_torch(work, path, options.repetitions))
    return work, times


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compare", type=pathlib.Path, metavar="FOLDER", help="folder of Nullscope's benchmark programs")
    parser.add_argument("--filter", help="only names that match this regular expression")
    parser.add_argument("--rounds", type=int, default=5, help="turns of Nullscope and PyTorch (default: 5)")
    parser.add_argument("--repetitions", type=int, default=3, help="calls in each turn (default: 3)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="PyTorch's threads (default: all)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    if options.compare and not options.compare.is_dir():
        parser.error(f"--compare: there is no folder {options.compare}")
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)

    rows = []
    if not options.json:
        print(f"torch {torch.__version__}, {options.threads} threads, medians of {options.rounds * options.repetitions}")
        print(f"{'name':<58} {'ms':>9} {'GFLOP/s':>8} {'sycl is x times as fast':>24}")
    for make in workloads():
        measured = measure(make, options)
        if measured is None:
            continue
        work, times = measured
        medians = {path: statistics.median(seconds) for path, seconds in times.items()}
        for path, median in medians.items():
            row = {"name": name(work, path), "ms": median * 1e3, "GFLOP/s": work.flops / median / 1e9}
            if "sycl" in medians and path != "sycl":
                row["sycl_speedup"] = median / medians["sycl"]
            rows.append(row)
            if not options.json:
                ratio = f"{row['sycl_speedup']:.2f}" if "sycl_speedup" in row else ""
                print(f"{row['name']:<58} {row['ms']:>9.2f} {row['GFLOP/s']:>8.1f} {ratio:>24}", flush=True)
    if options.json:
        context = {"torch": torch.__version__, "threads": options.threads, "rounds": options.rounds}
        print(json.dumps({"context": context, "benchmarks": rows}, indent=2))


if __name__ == "__main__":
    main()
