#!/usr/bin/env python3
"""Exact Hidden Token Attribution by PyTorch: vmap of jvp over all tangents, all layers at once.

  python bench/peers/attribution_peer.py                                   times PyTorch alone
  python bench/peers/attribution_peer.py --compare .build/release/bench    and Nullscope's program, before and after it

A random BERT of MiniLM's size, as in bench/attribution. One pass takes minutes, so there is one. See the README beside
this file.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import time

os.environ["TRANSFORMERS_VERBOSITY"] = "error"

import torch  # noqa: E402
import transformers  # noqa: E402

LAYERS, WIDTH = 6, 384


def make_model():
    config = transformers.BertConfig(
        hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=12, intermediate_size=1536,
        attn_implementation="eager")
    return transformers.BertModel(config, add_pooling_layer=False).eval()


def states_of(model):
    """x (S, d), the sum of the embeddings -> hidden states (layers, S, d)."""

    def states(x):
        hidden = model.embeddings.LayerNorm(x[None])
        result = []
        for layer in model.encoder.layer:
            hidden = layer(hidden)
            hidden = hidden[0] if isinstance(hidden, tuple) else hidden
            result.append(hidden[0])
        return torch.stack(result)

    return states


def norms_of(states, x, chunk, tangents=None):
    """(layers, S, S): |de_j / dx_i|, from the first `tangents` of all S d unit vectors."""
    tokens = x.shape[0]
    count = tangents or tokens * WIDTH
    squares = torch.zeros(LAYERS, tokens, tokens)
    push = torch.func.vmap(lambda v: torch.func.jvp(states, (x,), (v,))[1])
    for first in range(0, count, chunk):
        slots = torch.arange(first, min(first + chunk, count))
        v = torch.zeros(len(slots), tokens * WIDTH)
        v[torch.arange(len(slots)), slots] = 1
        pushed = push(v.view(-1, tokens, WIDTH)).square().sum(-1)  # (slots, layers, S)
        squares.index_add_(2, slots // WIDTH, pushed.permute(1, 2, 0))
    return squares.sqrt()


def verify(states, x, chunk):
    """One tangent against reverse mode: <u, J v> = <J^T u, v>. Then one chunk, to warm up."""
    v, u = torch.randn_like(x), torch.randn(LAYERS, *x.shape)
    left = (u * torch.func.jvp(states, (x,), (v,))[1]).sum().item()
    right = (torch.func.vjp(states, x)[1](u)[0] * v).sum().item()
    assert abs(left - right) < 1e-3 * abs(left), f"forward and reverse mode differ: {left}, {right}"
    assert torch.isfinite(norms_of(states, x, chunk, chunk)).all()


def time_nullscope(folder, tokens):
    """Seconds of one call of the C++ benchmark."""
    program = folder / "hidden_token_attribution_bench"
    name = f"hta/f32/sycl/layers:{LAYERS}/d:{WIDTH}/s:{tokens}/samples:0"
    command = [str(program), f"--benchmark_filter=^{re.escape(name)}$", "--benchmark_repetitions=1",
               "--benchmark_format=json", "--roofline=false"]
    result = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "NULLSCOPE_BENCH_LARGE": "1"})
    if result.returncode != 0:
        sys.exit(f"{program} failed:\n{result.stderr}")
    runs = json.loads(result.stdout)["benchmarks"]
    unit = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1}
    return min(run["real_time"] * unit[run["time_unit"]] for run in runs if run["run_type"] == "iteration")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compare", type=pathlib.Path, metavar="FOLDER", help="folder of Nullscope's benchmark programs")
    parser.add_argument("--tokens", type=int, default=32, choices=(6, 32), help="tokens of the text (default: 32)")
    parser.add_argument("--chunk", type=int, default=128, help="tangents that PyTorch pushes at once (default: 128)")
    parser.add_argument("--share", type=float, default=1, help="time this share of PyTorch's tangents, and scale (default: 1)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="PyTorch's threads (default: all)")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    states, x = states_of(make_model()), torch.randn(options.tokens, WIDTH) * 0.02
    verify(states, x, options.chunk)  # also warms up
    ours = [time_nullscope(options.compare, options.tokens)] if options.compare else []
    count = max(options.chunk, int(options.share * options.tokens * WIDTH))
    begin = time.perf_counter()
    with torch.no_grad():
        norms_of(states, x, options.chunk, count)
    theirs = (time.perf_counter() - begin) * options.tokens * WIDTH / count
    ours += [time_nullscope(options.compare, options.tokens)] if options.compare else []
    print(f"torch {torch.__version__}, {options.threads} threads, {options.tokens} tokens, chunks of {options.chunk}: {theirs:.1f} s")
    for seconds in ours:
        print(f"nullscope: {seconds:.1f} s, {theirs / seconds:.2f} times as fast")


if __name__ == "__main__":
    main()
