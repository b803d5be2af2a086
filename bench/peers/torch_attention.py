#!/usr/bin/env python3
"""PyTorch beside `nullscope attention`: raw and effective attention of all heads of a BERT, between classes of tokens.

  python bench/peers/torch_attention.py --model FOLDER --file texts.txt --length 128 --program .build/release/lib/cli/nullscope

PyTorch takes batches of texts of the same length, the values of every layer by hooks, T = V H of all heads, one batched
economy SVD per layer, A U U^T, norms, correlation, entropy and class averages. Nullscope runs as a program, start and
files included. Both read the first `--texts` texts that fill the length. Prints seconds per text of both, the ratio, and
the largest difference of the class averages. PyTorch may take fewer texts (--torch-texts), as SVDs are slow.
"""
import argparse
import csv
import pathlib
import subprocess
import tempfile
import time

import torch
from transformers import AutoModel, AutoTokenizer


def read_texts(tokenizer, file, length, count):
    """Ids of texts that fill the length, and the texts themselves, cut so that they have exactly that many tokens."""
    texts, ids = [], []
    for line in open(file, encoding="utf-8"):
        found = tokenizer(line.strip(), truncation=True, max_length=length)["input_ids"]
        if len(found) == length:
            texts.append(line.strip())
            ids.append(found)
        if len(ids) == count:
            return texts, ids
    raise SystemExit(f"{file} has {len(ids)} texts of {length} tokens, not {count}")


def token_classes(tokenizer, ids):
    marks = {tokenizer.cls_token_id: 0, tokenizer.sep_token_id: 1}
    marks.update({tokenizer.convert_tokens_to_ids(mark): 2 for mark in ".,"})
    return torch.tensor([[marks.get(i, 3) for i in row] for row in ids])


def analyse(model, ids, classes):
    """Class averages (layers, heads, 4, raw and effective), and the numbers of each head, of one batch of texts."""
    values, hooks = [], []
    for layer in model.encoder.layer:
        keep = lambda _, __, out: values.append(out)
        hooks.append(layer.attention.self.value.register_forward_hook(keep))
    with torch.no_grad():
        attentions = model(torch.tensor(ids), output_attentions=True).attentions
    for hook in hooks:
        hook.remove()
    heads = model.config.num_attention_heads
    of_class = torch.nn.functional.one_hot(classes, 4).float()  # (B, S, 4)
    averages, numbers = [], []
    for layer, v, a in zip(model.encoder.layer, values, attentions):
        batch, tokens, width = v.shape
        v = v.view(batch, tokens, heads, -1).transpose(1, 2)
        h = layer.attention.output.dense.weight.t().view(heads, -1, width)
        t = v @ h  # (B, heads, S, d)
        u, s, _ = torch.linalg.svd(t, full_matrices=False)
        tolerance = max(tokens, width) * torch.finfo(s.dtype).eps * s[..., :1]
        keep = s > tolerance
        u = u * keep.unsqueeze(-2)
        effective = (a @ u) @ u.transpose(-1, -2)
        flat_a, flat_e = a.flatten(2), effective.flatten(2)
        da, de = flat_a - flat_a.mean(-1, True), flat_e - flat_e.mean(-1, True)
        pearson = (da * de).sum(-1) / (da.norm(dim=-1) * de.norm(dim=-1))
        entropy = -(a * a.clamp_min(1e-38).log()).sum(-1).mean(-1)
        numbers.append(torch.stack([keep.sum(-1).float(), pearson, flat_a.norm(dim=-1), flat_e.norm(dim=-1),
                                    (flat_a - flat_e).norm(dim=-1), entropy]))
        to_class = of_class.unsqueeze(1)
        averages.append(torch.stack([(x @ to_class).mean(2).sum(0) for x in (a, effective)], -1))  # (heads, 4, 2)
    return torch.stack(averages), numbers


def run_torch(model, ids, classes, batch):
    start = time.perf_counter()
    total = 0
    for first in range(0, len(ids), batch):
        averages, _ = analyse(model, ids[first:first + batch], classes[first:first + batch])
        total = total + averages
    return total / len(ids), (time.perf_counter() - start) / len(ids)


def run_program(program, model, texts, length, rounds):
    """The quickest of some runs; the first one may compile kernels."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "texts.txt"
        file.write_text("\n".join(texts) + "\n", encoding="utf-8")
        command = [program, "attention", "--model", model, "--file", str(file), "--max-length", str(length), "--output",
                   str(pathlib.Path(folder) / "out")]
        seconds = []
        for _ in range(rounds):
            start = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            seconds.append((time.perf_counter() - start) / len(texts))
        with open(pathlib.Path(folder) / "out" / "classes.csv", encoding="utf-8") as table:
            return list(csv.DictReader(table)), seconds


def largest_difference(rows, averages, names):
    worst = 0
    for row in rows:
        if row["from"] != "all":
            continue
        expected = averages[int(row["layer"]) - 1, int(row["head"]) - 1, names.index(row["to"])]
        worst = max(worst, abs(float(row["raw"]) - expected[0].item()),
                    abs(float(row["effective"]) - expected[1].item()))
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="folder of a BERT, such as MiniLM")
    parser.add_argument("--file", required=True, help="one text per line")
    parser.add_argument("--program", required=True)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--texts", type=int, default=400)
    parser.add_argument("--torch-texts", type=int, default=24)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=0)
    options = parser.parse_args()
    if options.threads > 0:
        torch.set_num_threads(options.threads)
    tokenizer = AutoTokenizer.from_pretrained(options.model)
    model = AutoModel.from_pretrained(options.model, attn_implementation="eager").eval()
    texts, ids = read_texts(tokenizer, options.file, options.length, options.texts)
    few = min(options.torch_texts, options.texts)
    classes = token_classes(tokenizer, ids[:few])
    names = [tokenizer.cls_token, tokenizer.sep_token, "periods and commas", "other"]

    analyse(model, ids[:1], classes[:1])  # warm
    averages, torch_seconds = run_torch(model, ids[:few], classes, options.batch)
    rows, _ = run_program(options.program, options.model, texts[:few], options.length, 1)
    _, seconds = run_program(options.program, options.model, texts, options.length, options.rounds)
    print(f"PyTorch {torch.__version__}: {1000 * torch_seconds:.2f} ms per text, {few} texts of {options.length} tokens")
    print(f"nullscope attention: {1000 * min(seconds):.2f} ms per text, {options.texts} texts, whole process"
          f" ({', '.join(f'{1000 * x:.2f}' for x in seconds)})")
    print(f"ratio {torch_seconds / min(seconds):.1f}")
    print(f"largest difference of class averages over the same {few} texts {largest_difference(rows, averages, names):.2e}")


if __name__ == "__main__":
    main()
