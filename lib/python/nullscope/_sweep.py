"""The null-space sweep: rank, null space and correlation over the length of the sequence."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from ._attention import effective_attention
from ._core import Device
from ._devices import chosen
from ._linear_algebra import range_basis
from ._progress import ProgressBar
from ._transformer import Heads, Transformer

_MOST_COLUMNS = 512  # of a head, for the correlation


@dataclass(frozen=True)
class Sweep:
    """One row per head. `columns` goes into pandas.DataFrame as it is."""

    columns: dict[str, numpy.ndarray]

    def __len__(self) -> int:
        return len(self.columns["length"])

    def summary(self) -> list[dict[str, Any]]:
        """Means over the heads of each length, for concatenated and for added heads."""
        keys = list(zip(self.columns["heads_are"].tolist(), self.columns["length"].tolist()))
        lines = []
        for key in dict.fromkeys(keys):
            rows = numpy.array([k == key for k in keys])
            means = {
                name: float(self.columns[name][rows].mean())
                for name in ("rank", "null_dimension", "null_dimension_with_ones", "pearson")
            }
            lines.append({"heads_are": key[0], "length": key[1], "count": int(rows.sum()), **means})
        return lines

    def to_csv(self, path: str) -> None:
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(self.columns)
            writer.writerows(zip(*(column.tolist() for column in self.columns.values())))


def sweep(
    lengths: Sequence[int] = (16, 32, 64, 128, 256, 512),
    samples: int = 2,
    width: int = 512,
    heads: int = 8,
    key_size: int | None = None,
    heads_are: str = "both",
    pearson_up_to: int = 4096,
    model: Transformer | None = None,
    texts: Sequence[str] = (),
    dtype: str = "float64",
    seed: int = 1,
    progress: bool = True,
    device: Device | str | None = None,
) -> Sweep:
    """rank(T), dim LN(T), dim LN([T, 1]) and the correlation of raw and effective attention over the length.

    The heads are random: normal tokens E, weights with deviation 1 / sqrt(rows), q = E W_Q, k = E W_K, v = E W_V.
    `heads_are` is "concatenated" (d_v = width / heads), "added" (d_v = width) or "both". With `model`, they are the
    heads of all layers of a model that reads up to `samples` of the texts that are long enough, cut to each length.
    The correlation takes O(S^2) time and is left out, as NaN, above `pearson_up_to`. A bar shows the progress in
    terminals and notebooks. Ctrl-C stops it.

    >>> import nullscope
    >>> found = nullscope.sweep([16, 48], samples=1, width=64, heads=2, heads_are="concatenated")
    >>> [(line["length"], line["rank"], line["null_dimension_with_ones"]) for line in found.summary()]
    [(16, 16.0, 0.0), (48, 32.0, 15.0)]
    """
    if heads_are not in ("concatenated", "added", "both"):
        raise ValueError(f'sweep: heads_are is "{heads_are}"; expected "concatenated", "added" or "both"')
    if model is None and width % heads:
        raise ValueError(f"sweep: a width of {width} cannot be divided among {heads} heads")
    if any(length < 1 for length in lengths):
        raise ValueError("sweep: lengths are positive")
    where = chosen(device)
    if model is not None:
        units = list(_model_units(model, texts, sorted(set(lengths)), samples))
    else:
        kinds = ("concatenated", "added") if heads_are == "both" else (heads_are,)
        sizes = (width, heads, key_size or width // heads)
        units = [
            (k, s, i, 0, (*sizes, seed, dtype)) for s in sorted(set(lengths)) for k in kinds for i in range(samples)
        ]
    columns: dict[str, list] = {name: [] for name in _COLUMNS}
    cost = [float(length) ** 2 + 1000 for _, length, *_ in units]
    done = 0.0
    with ProgressBar("sweep", progress) as bar:
        for (kind, length, sample, layer, source), one in zip(units, cost):
            if model is None:
                _add_rows(columns, kind, length, sample, layer, _random_heads(kind, length, sample, *source), False,
                          pearson_up_to, where)  # fmt: skip
            else:
                for number in range(1, model.config["layers"] + 1):
                    found = model.encode([source], heads_of_layer=number, pool=None)[0].heads
                    _add_rows(
                        columns, kind, length, sample, number, found, model.config["causal"], pearson_up_to, where
                    )
            done += one
            bar(done / sum(cost))
    return Sweep({name: numpy.array(column) for name, column in columns.items()})


_COLUMNS = (
    "heads_are", "length", "sample", "layer", "head", "rank", "null_dimension", "null_dimension_with_ones", "pearson",
)  # fmt: skip


def _random_heads(
    kind: str, length: int, sample: int, width: int, heads: int, key_size: int, seed: int, dtype: str
) -> Heads:
    random = numpy.random.default_rng([seed, length, sample, kind == "added"])
    value_size = width if kind == "added" else width // heads

    def normal(*shape: int) -> numpy.ndarray:
        return random.standard_normal(shape, dtype=dtype)

    tokens = normal(length, width)
    by_width, by_value = width**-0.5, value_size**-0.5
    q, k = (tokens @ (by_width * normal(heads, width, key_size)) for _ in range(2))
    v = tokens @ (by_width * normal(heads, width, value_size))
    return Heads(q, k, v, by_value * normal(heads, value_size, width), None)


def _model_units(model: Transformer, texts: Sequence[str], lengths: list[int], samples: int) -> Iterator[tuple]:
    tokens = sorted(model._tokenize_all(texts), key=len, reverse=True)
    if not tokens or len(tokens[0]) < lengths[0]:
        longest = len(tokens[0]) if tokens else 0
        raise ValueError(f"sweep: no text has {lengths[0]} tokens; the longest has {longest}")
    for length in lengths:
        for sample, text in enumerate([t for t in tokens if len(t) >= length][:samples]):
            yield model.config["heads_are"], length, sample, 0, text.ids[:length]


def _add_rows(
    columns: dict,
    kind: str,
    length: int,
    sample: int,
    layer: int,
    heads: Heads,
    causal: bool,
    up_to: int,
    device: Device,
) -> None:
    found = range_basis(heads.v, heads.h, with_ones=True, device=device)
    count = len(heads.v)
    pearson = numpy.full(count, numpy.nan)
    columns_of_head = max(heads.q.shape[-1], min(length, heads.v.shape[-1]))
    if length <= up_to and columns_of_head <= _MOST_COLUMNS:
        pearson = effective_attention(
            heads.q, heads.k, heads.v, heads.h, bias=heads.bias, causal=causal, device=device
        ).pearson
    values = (
        [kind] * count, [length] * count, [sample] * count, [layer] * count, range(count), found.rank,
        found.null_dimension, found.null_dimension_with_ones, pearson,
    )  # fmt: skip
    for name, column in zip(_COLUMNS, values):
        columns[name].extend(column)
