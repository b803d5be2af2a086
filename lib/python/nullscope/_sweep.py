"""The null-space sweep: rank, null space and correlation over the length of the sequence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy

from . import _core
from ._core import Device
from ._devices import chosen
from ._progress import ProgressBar
from ._transformer import Transformer, _class_of


@dataclass(frozen=True)
class Sweep:
    """One row per head. `columns` goes into pandas.DataFrame as it is; names and numbers are those of sweep.csv."""

    columns: dict[str, numpy.ndarray]
    _summary: list[dict[str, Any]] = field(repr=False)
    _csv: str = field(repr=False)

    def __len__(self) -> int:
        return len(self.columns["length"])

    def summary(self) -> list[dict[str, Any]]:
        """Means over the heads of each length, for concatenated and for added heads."""
        return [dict(line) for line in self._summary]

    def to_csv(self, path: str) -> None:
        """What `nullscope sweep` writes to sweep.csv."""
        with open(path, "w", newline="", encoding="utf-8") as file:
            file.write(self._csv)


def sweep(
    lengths: Sequence[int] = (16, 32, 64, 128, 256, 512),
    samples: int = 2,
    width: int = 512,
    heads: int = 8,
    key_size: int | None = None,
    heads_are: str = "both",
    pearson_up_to: int | None = None,
    query_sample: int | None = None,
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
    heads of all layers of a model, on its device; at each length it reads up to `samples` of the texts that are long
    enough, chosen by the seed and cut to that length.

    The correlation takes O(S^2) time and is left out, as NaN, above `pearson_up_to` (default: 4096 for added heads)
    and for heads with more than 512 columns. With `query_sample`, longer sequences get estimates from this many
    queries of each head, with standard errors. The same settings give the same numbers as `nullscope sweep`. A bar
    shows the progress in terminals and notebooks. Ctrl-C stops it.

    >>> import nullscope
    >>> found = nullscope.sweep([16, 48], samples=1, width=64, heads=2, heads_are="concatenated")
    >>> [(line["length"], line["rank"], line["null_dim_ones"]) for line in found.summary()]
    [(16, 16.0, 0.0), (48, 32.0, 15.0)]
    """
    if len(lengths) == 0:
        raise ValueError("sweep: there are no lengths")
    settings = {
        "lengths": list(lengths),
        "samples": samples,
        "width": width,
        "heads": heads,
        "key_size": key_size or 0,
        "heads_are": heads_are,
        "pearson_up_to": -1 if pearson_up_to is None else pearson_up_to,
        "query_sample": query_sample or 0,
        "seed": seed,
        "is_double": _class_of(dtype) is _core.Transformer64,
    }
    with ProgressBar("sweep", progress) as bar:
        if model is None:
            columns, summary, csv = _core.sweep(chosen(device), settings, bar)
        else:
            tokens = model._tokenize_all(texts)
            columns, summary, csv = _core.sweep(
                model._core, [t.ids for t in tokens], [t.segments for t in tokens], settings, bar
            )
    return Sweep({name: numpy.asarray(column) for name, column in columns.items()}, summary, csv)
