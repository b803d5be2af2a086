#!/usr/bin/env python3
"""The PyTorch side of the benchmark of probes: an epoch of training of each probe, one after the other.

  python bench/peers/probes_peer.py --compare .build/release/bench --threads 2 --rounds 2 --repetitions 1

The same sizes, splits, loss, batches and Adam as token_identifiability_bench; options are those of torch_peer.py.
"""
import torch
import torch.nn.functional as F
from torch import nn

import torch_peer

WIDTH, BATCH, SENTENCE = 384, 256, 50


class Probes:
    """An epoch of Adam for a probe of each layer and fold, then the loss of the validation tokens."""

    paths = ("torch",)
    program = "token_identifiability"
    type = "f32"

    def __init__(self, tokens, layers, folds, hidden=0):
        self.operation = "mlp_probes" if hidden else "linear_probes"
        self.sizes = f"tokens:{tokens}/layers:{layers}/folds:{folds}" + (f"/hidden:{hidden}" if hidden else "")
        parameters = 2 * WIDTH * hidden if hidden else WIDTH * WIDTH
        self.flops = tokens * layers * folds * parameters * (0.7 * (5 if hidden else 4) + 0.15 * 2)
        self.hidden, self.folds = hidden, folds
        self.x = torch_peer.uniform(tokens, WIDTH)
        self.e = torch_peer.uniform(layers, tokens, WIDTH) + 0.5 * self.x
        self.sentences = torch.randperm(tokens // SENTENCE)

    def split(self, fold):
        count = len(self.sentences)
        part = max(1, round(0.15 * count))
        circle = self.sentences.roll(-(fold * count // self.folds))
        tokens = (circle[:, None] * SENTENCE + torch.arange(SENTENCE)).flatten()
        return tokens[2 * part * SENTENCE :], tokens[part * SENTENCE : 2 * part * SENTENCE]

    def make(self):
        if not self.hidden:
            linear = nn.Linear(WIDTH, WIDTH, bias=False)
            nn.init.xavier_uniform_(linear.weight)
            return linear
        mlp = nn.Sequential(nn.Linear(WIDTH, self.hidden), nn.GELU(), nn.Linear(self.hidden, WIDTH))
        for layer in (mlp[0], mlp[2]):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
        return mlp

    def train(self, e, training, validation):
        probe = self.make()
        optimizer = torch.optim.Adam(probe.parameters(), lr=1e-3 if self.hidden else 0.01, fused=True)
        for tokens in training[torch.randperm(len(training))].split(BATCH):
            loss = (1 - F.cosine_similarity(probe(e[tokens]), self.x[tokens])).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            return sum(
                (1 - F.cosine_similarity(probe(e[tokens]), self.x[tokens])).sum().item()
                for tokens in validation.split(BATCH)
            ) / len(validation)

    def run(self, path):
        losses = []
        for fold in range(self.folds):
            training, validation = self.split(fold)
            losses += [self.train(e, training, validation) for e in self.e]
        return sum(losses) / len(losses)

    def verify(self, path):
        assert self.run(path) < 0.98


def workloads():
    yield lambda: Probes(5000, 6, 10)
    yield lambda: Probes(20000, 6, 10)
    yield lambda: Probes(2500, 6, 2, 1000)


if __name__ == "__main__":
    torch_peer.__doc__ = __doc__
    torch_peer.workloads = workloads
    torch_peer.main()
