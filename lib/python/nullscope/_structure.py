"""The structure that a task gives to attention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy

from . import _core
from ._progress import ProgressBar
from ._transformer import Transformer


@dataclass(frozen=True)
class Structure:
    """The pattern W and the subspace R, for all heads (layers, heads, ...)."""

    texts: int  # that were read
    w: numpy.ndarray  # (..., S, S): mean attention with its small entries cut, rows normalised
    mean: numpy.ndarray  # (..., S, S)
    emptied_rows: numpy.ndarray  # (...): rows of W that the cut emptied
    basis: numpy.ndarray  # (..., S, S): of R; orthonormal columns, then zeros
    spectrum: numpy.ndarray  # (..., S): singular values of all T side by side
    dimension: numpy.ndarray  # (...): dim R


def structure(
    model: Transformer,
    texts: Sequence,
    length: int,
    threshold: float = 0.4,
    factor: float = 0.0,
    effective: bool = False,
    empty_rows: str = "zeros",
    other_lengths: str = "cut",
    tolerance: float | None = None,
    progress: bool = True,
) -> Structure:
    """The attention pattern W and the subspace R of the task that the texts stand for, in one pass over them.

    Every text counts with its first `length` tokens; shorter ones are left out, or padded with zeros if `other_lengths`
    is "pad". Entries of the mean attention below `threshold` are multiplied by `factor`. `empty_rows` ("zeros" or
    "uniform") is what becomes of rows that are cut altogether; `tolerance` is that of R. Ctrl-C stops it.

    >>> import nullscope
    >>> model = nullscope.Transformer.create(["a b c d"], width=8, heads=2, key_size=2, value_size=2, positions=8)
    >>> found = nullscope.structure(model, ["a b c d", "d c b a", "a b"], length=4)
    >>> found.texts, found.w.shape, found.dimension.tolist()
    (2, (1, 2, 4, 4), [[4, 4]])
    """
    if other_lengths not in ("cut", "pad"):
        raise ValueError(f'structure: other_lengths is "{other_lengths}"; expected "cut" or "pad"')
    if empty_rows not in ("zeros", "uniform"):
        raise ValueError(f'structure: empty_rows is "{empty_rows}"; expected "zeros" or "uniform"')
    all_tokens = model._tokenize_all(texts)
    used = [t for t in all_tokens if other_lengths == "pad" or len(t) >= length]
    if not used:
        longest = max((len(t) for t in all_tokens), default=0)
        raise ValueError(f"structure: no text has {length} tokens; the longest has {longest}")
    with ProgressBar("structure", progress) as bar:
        found = _core.structure(
            model._core, [t.ids[:length] for t in used], [t.segments[:length] for t in used], length, effective,
            threshold, factor, empty_rows == "uniform", -1.0 if tolerance is None else tolerance, bar,
        )  # fmt: skip
    return Structure(texts=len(used), **found)
