"""Decompositions of batches of matrices, and the null space of T = V H."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from . import _core
from ._core import Device
from ._devices import chosen

Array = Any  # of NumPy, PyTorch, JAX, dpctl or dpnp; results are of the same kind


class SVD(NamedTuple):
    """a = u diag(s) vt."""

    u: Array  # (..., m, k)
    s: Array  # (..., k), descending
    vt: Array  # (..., k, n)


class QR(NamedTuple):
    """a = q r."""

    q: Array  # (..., m, k), orthonormal columns; None if it was not asked for
    r: Array  # (..., k, n), upper triangular


def plain(numbers: Any) -> Any:
    """The number itself if there is no batch."""
    return numbers if numbers.ndim else numbers.item()


def tolerances(relative: float | None, absolute: float) -> tuple[float, float]:
    if relative is not None and not relative >= 0:
        raise ValueError(f"relative is {relative}; expected a number from 0 on, or None for the default")
    return (-1.0 if relative is None else relative, absolute)


def svd(a: Array, vectors: str = "thin", algorithm: str = "automatic", device: Device | str | None = None) -> SVD:
    """Singular value decompositions a = u diag(s) vt of all matrices of a (..., m, n), float32 or float64.

    `vectors` is "thin", "full" or "none" (then u and vt are None); `algorithm` is "automatic", "bidiagonal", "jacobi"
    or "lapack". Raises `ComputationError` with `failed_batch_ids` for matrices that hold NaN or infinity.

    >>> import numpy, nullscope
    >>> a = numpy.arange(12.0).reshape(2, 3, 2)
    >>> u, s, vt = nullscope.svd(a)
    >>> bool(numpy.allclose(u * s[:, None, :] @ vt, a))
    True
    """
    return SVD(*_core.svd(chosen(device), a, vectors, algorithm))


def numerical_rank(
    a: Array, relative: float | None = None, absolute: float = 0.0, device: Device | str | None = None
) -> Any:
    """Ranks of all matrices of a (..., m, n): the number of singular values above max(relative s_0, absolute).

    `relative` is max(m, n) eps by default. An int for one matrix, otherwise a NumPy array of the batch.

    >>> import numpy, nullscope
    >>> nullscope.numerical_rank(numpy.outer([1.0, 2.0, 3.0], [1.0, 1.0]))
    1
    """
    return plain(_core.numerical_rank(chosen(device), a, *tolerances(relative, absolute)))


def qr(a: Array, with_q: bool = True, device: Device | str | None = None) -> QR:
    """QR factorisations a = q r of all matrices of a (..., m, n). Without q it takes half the time.

    >>> import numpy, nullscope
    >>> a = numpy.array([[3.0, 1.0], [4.0, 2.0], [0.0, 2.0]])
    >>> q, r = nullscope.qr(a)
    >>> bool(numpy.allclose(q @ r, a) and numpy.allclose(q.T @ q, numpy.eye(2)))
    True
    """
    return QR(*_core.qr(chosen(device), a, with_q))


@dataclass(frozen=True)
class RangeBasis:
    """The range of T = v h, for each head of a batch. dim LN(T) is the dimension of its left null space."""

    basis: Array  # (..., S, k + 1): orthonormal columns, then zeros; of span(T, 1) if it was asked for
    s: Array  # (..., k): the singular values of T, descending
    rank: Any  # of T
    null_dimension: Any  # dim LN(T) = S - rank
    rank_with_ones: Any  # of [T, 1]; None if it was not asked for
    null_dimension_with_ones: Any  # dim LN([T, 1]); None if it was not asked for


def range_basis(
    v: Array,
    h: Array | None = None,
    with_ones: bool = False,
    relative: float | None = None,
    absolute: float = 0.0,
    device: Device | str | None = None,
) -> RangeBasis:
    """Rank and an orthonormal basis of the range of T = v h, without an SVD of T.

    v (..., S, d_v) are the values of heads without padding tokens, h (..., d_v, d) their rows of the output projection;
    h is repeated over dimensions that it lacks, and T = v without it. With `with_ones` the basis is that of
    span(T, 1), whose complement LN([T, 1]) holds the directions in which attention weights may change.

    >>> import numpy, nullscope
    >>> random = numpy.random.default_rng(0)
    >>> v, h = random.normal(size=(100, 16)), random.normal(size=(16, 32))
    >>> found = nullscope.range_basis(v, h, with_ones=True)
    >>> found.rank, found.null_dimension, found.null_dimension_with_ones
    (16, 84, 83)
    """
    basis, s, rank, ones = _core.range_basis(chosen(device), v, h, *tolerances(relative, absolute), with_ones)
    tokens = basis.shape[-2]
    return RangeBasis(
        basis,
        s,
        plain(rank),
        tokens - plain(rank),
        None if ones is None else plain(ones),
        None if ones is None else tokens - plain(ones),
    )


def basis_of(found: RangeBasis | Array) -> Array:
    return found.basis if isinstance(found, RangeBasis) else found


def null_space_project(
    x: Array, basis: RangeBasis | Array, part: str = "null_space", device: Device | str | None = None
) -> Array:
    """The part of the rows of x (..., rows, S) in the null space, x - x U U^T, or with part="range" x U U^T.

    `basis` is what `range_basis` gives, or an array U (..., S, k) with orthonormal or zero columns.

    >>> import numpy, nullscope
    >>> random = numpy.random.default_rng(0)
    >>> t = random.normal(size=(10, 3))
    >>> x = nullscope.null_space_project(random.normal(size=(2, 10)), nullscope.range_basis(t))
    >>> bool(abs(x @ t).max() < 1e-13)
    True
    """
    if part not in ("null_space", "range"):
        raise ValueError(f'part is "{part}"; expected "null_space" or "range"')
    return _core.project(chosen(device), x, basis_of(basis), part == "range")


class Alternatives(NamedTuple):
    """Other attention weights that give a head the same output."""

    weights: Array  # (..., count, rows, S): rows are not negative and sum to what those of a sum to
    step: Array  # (..., count, rows): the multiple of its random direction that was added to a row


def simplex_alternatives(
    a: Array,
    found: RangeBasis,
    count: int = 1,
    share: float = 1.0,
    seed: int = 0,
    draw: str = "projected",
    device: Device | str | None = None,
) -> Alternatives:
    """Random alternatives to the attention weights a (..., rows, S) within the simplex, with the same output.

    `found` is range_basis(..., with_ones=True) of the same heads. A step of `share` = 1 is the largest possible one and
    puts a zero into every row. `draw` is "projected" or "coefficients".

    >>> import numpy, nullscope
    >>> random = numpy.random.default_rng(0)
    >>> a, v = random.dirichlet(numpy.ones(12), size=5), random.normal(size=(12, 3))
    >>> other = nullscope.simplex_alternatives(a, nullscope.range_basis(v, with_ones=True)).weights[0]
    >>> bool(numpy.allclose(other @ v, a @ v) and other.min() > -1e-15 and abs(other - a).max() > 0.01)
    True
    """
    if not isinstance(found, RangeBasis) or found.rank_with_ones is None:
        raise ValueError("simplex_alternatives: found should be the result of range_basis(..., with_ones=True)")
    if draw not in ("projected", "coefficients"):
        raise ValueError(f'draw is "{draw}"; expected "projected" or "coefficients"')
    import numpy

    rank = numpy.ascontiguousarray(found.rank_with_ones, dtype=numpy.int64).reshape(-1)
    return Alternatives(
        *_core.simplex_alternatives(chosen(device), a, found.basis, rank, count, share, seed, draw == "coefficients")
    )


def logit_rank(
    a: Array, relative: float | None = None, absolute: float = 0.0, device: Device | str | None = None
) -> Any:
    """The rank of the logits of attention weights a (..., rows, S): log(a) minus its first column; -1 if one is zero.

    >>> import numpy, nullscope
    >>> random = numpy.random.default_rng(0)
    >>> scores = random.normal(size=(8, 3)) @ random.normal(size=(3, 8))
    >>> weights = numpy.exp(scores) / numpy.exp(scores).sum(axis=1, keepdims=True)
    >>> nullscope.logit_rank(weights) <= 4
    True
    """
    return plain(_core.logit_rank(chosen(device), a, *tolerances(relative, absolute)))
