#!/usr/bin/env python3
"""PyTorch at the work of `nullscope train`: tokens per second of the classifier of Bhardwaj et al. 2021.

  python bench/peers/torch_classifier.py reviews.csv --max-length 256 --steps 10

One post-LN layer (nn.TransformerEncoderLayer), d = 512, 8 heads, feed-forward 2048 with ReLU, a table of all words of
the file, learned positions, a linear layer on the first token, Adam. Batches hold texts of similar length, as
Nullscope's do. Padding does not count as tokens.
"""
import argparse
import collections
import csv
import random
import re
import time

import torch
from torch import nn


class Classifier(nn.Module):
    def __init__(self, words, positions, classes, width=512, heads=8):
        super().__init__()
        self.token = nn.Embedding(words, width)
        self.position = nn.Embedding(positions, width)
        self.layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True)
        self.classifier = nn.Linear(width, classes)

    def forward(self, ids, padding):
        x = self.token(ids) + self.position(torch.arange(ids.shape[1]))
        return self.classifier(self.layer(x, src_key_padding_mask=padding)[:, 0])


def read(path, max_length):
    """Ids of each text, 0 for padding and 1 for [CLS], and its label."""
    with open(path, newline="", encoding="utf-8") as file:
        rows = [(re.findall(r"\w+|[^\w\s]", row["text"].lower()), row["label"]) for row in csv.DictReader(file)]
    counts = collections.Counter(word for words, _ in rows for word in words)
    number = {word: i + 2 for i, (word, _) in enumerate(counts.most_common())}
    labels = {label: i for i, label in enumerate(sorted({label for _, label in rows}))}
    examples = [([1] + [number[word] for word in words[: max_length - 1]], labels[label]) for words, label in rows]
    return examples, len(number) + 2, len(labels)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="CSV file with columns text and label")
    parser.add_argument("--max-length", type=int, default=256)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--steps", type=int, default=10, help="steps that are timed, after one that is not")
    parser.add_argument("--threads", type=int)
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    random.seed(1)
    torch.manual_seed(1)
    examples, words, classes = read(options.data, options.max_length)
    examples.sort(key=lambda example: len(example[0]))
    batches = [examples[i : i + options.batch] for i in range(0, len(examples), options.batch)]
    random.shuffle(batches)
    model = Classifier(words, options.max_length, classes)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    tokens = seconds = 0
    for step, batch in enumerate(batches[: options.steps + 1]):
        start = time.perf_counter()
        longest = max(len(ids) for ids, _ in batch)
        ids = torch.tensor([ids + [0] * (longest - len(ids)) for ids, _ in batch])
        loss = nn.functional.cross_entropy(model(ids, ids == 0), torch.tensor([label for _, label in batch]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step > 0:
            seconds += time.perf_counter() - start
            tokens += sum(len(ids) for ids, _ in batch)
    print(f"{words} words, {tokens} tokens in {seconds:.1f} s: {tokens / seconds:.0f} tokens per second")


if __name__ == "__main__":
    main()
