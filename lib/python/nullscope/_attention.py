"""Attention, and the part of it that the output of a head can depend on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from . import _core
from ._core import Device
from ._devices import chosen
from ._linear_algebra import Array, plain, tolerances


def attention(
    q: Array,
    k: Array,
    v: Array,
    bias: Array | None = None,
    lengths: Sequence[int] | None = None,
    scale: float | None = None,
    causal: bool = False,
    with_log_sum_exp: bool = False,
    device: Device | str | None = None,
) -> Any:
    """softmax(scale q k^T + bias) v for each head, without storing the weights.

    q (batch, heads, queries, d_k), k (batch, heads, keys, d_k), v (batch, heads, keys, d_v), or without the batch, or
    of one head; float32, float64, or bfloat16 with results in float32. `bias` (..., queries, keys) is repeated over
    what it lacks, `lengths` are the keys of each sequence without padding, `scale` is 1 / sqrt(d_k) by default. With
    `with_log_sum_exp`, a pair: the output, and the log-sum-exp of the scores (..., queries).

    >>> import numpy, nullscope
    >>> q = k = numpy.zeros((4, 2))
    >>> v = numpy.array([[1.0], [2.0], [3.0], [4.0]])
    >>> nullscope.attention(q, k, v, causal=True).ravel().tolist()
    [1.0, 1.5, 2.0, 2.5]
    """
    if lengths is not None:
        import numpy

        lengths = numpy.ascontiguousarray(lengths, dtype=numpy.int64)
    out, log_sum_exp = _core.attention(chosen(device), q, k, v, bias, lengths, scale or 0.0, causal)
    return (out, log_sum_exp) if with_log_sum_exp else out


@dataclass(frozen=True)
class EffectiveAttention:
    """A = A_perp + A_par with A_par T = 0, as factors: A_perp = p u^T. Shapes begin with (batch, heads) or (heads)."""

    p: Array  # (..., queries, c): A u; zeros where there is padding, and from the rank on
    u: Array  # (..., keys, c): an orthonormal basis of the range of T
    s: Array  # (..., c): the singular values of T
    rank: Any  # of T; null_dimension = length - rank
    null_dimension: Any
    pearson: Any  # correlation of the entries of A and A_perp
    raw_norm: Any  # |A|_F, |A_perp|_F, |A_par|_F
    effective_norm: Any
    null_norm: Any
    log_sum_exp: Array  # (..., queries): of the scores
    received_raw: Array  # (..., keys): column sums of A and of A_perp
    received_effective: Array
    _operands: dict = field(repr=False)

    def dense(self, matrix: str = "effective") -> Array:
        """One of the matrices (..., queries, keys): "effective" A_perp, "raw" A, "null" A_par; zeros for padding."""
        of = self._operands
        return _core.dense_attention(
            of["device"], of["q"], of["k"], of["bias"], of["lengths"], of["scale"], of["causal"],
            self.log_sum_exp, self.p, self.u, matrix,
        )  # fmt: skip


def effective_attention(
    q: Array,
    k: Array,
    v: Array,
    h: Array | None = None,
    lengths: Sequence[int] | None = None,
    bias: Array | None = None,
    scale: float | None = None,
    causal: bool = False,
    relative: float | None = None,
    absolute: float = 0.0,
    device: Device | str | None = None,
) -> EffectiveAttention:
    """Effective attention of heads, with its exact correlation with the raw one, without an S x S matrix.

    q, k (batch, heads, S, d_k) and v (batch, heads, S, d_v), or without the batch, or of one head; h (heads, d_v, d)
    are the heads' rows of the output projection, T = v h, and T = v without it. `lengths` are the tokens of each
    sequence without padding. `relative` and `absolute` are the tolerance of the rank.

    >>> import numpy, nullscope
    >>> random = numpy.random.default_rng(0)
    >>> q, k, v = random.normal(size=(3, 2, 40, 8))
    >>> found = nullscope.effective_attention(q, k, v, random.normal(size=(2, 8, 16)))
    >>> found.rank.tolist(), found.null_dimension.tolist()
    ([8, 8], [32, 32])
    >>> bool(numpy.allclose(found.dense("null") @ v, 0, atol=1e-12))
    True
    """
    operands = {
        "device": chosen(device),
        "q": q,
        "k": k,
        "bias": bias,
        "lengths": [] if lengths is None else [int(length) for length in lengths],
        "scale": scale or 0.0,
        "causal": causal,
    }
    found = _core.effective_attention(
        operands["device"], q, k, v, h, bias, operands["lengths"], operands["scale"], causal,
        *tolerances(relative, absolute),
    )  # fmt: skip
    rank = found["rank"]
    tokens = k.shape[-2]
    if operands["lengths"]:
        import numpy

        tokens = numpy.reshape(operands["lengths"], (-1, 1) if rank.ndim == 2 else (1,) * rank.ndim)
    numbers = {name: plain(found.pop(name)) for name in ("pearson", "raw_norm", "effective_norm", "null_norm")}
    found["null_dimension"] = plain(tokens - rank)
    found["rank"] = plain(rank)
    return EffectiveAttention(**found, **numbers, _operands=operands)
