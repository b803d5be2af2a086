"""Decompositions and null spaces against NumPy, by scaled residuals, on odd shapes."""

import numpy
import pytest

import nullscope

SHAPES = [(1, 1), (1, 7), (7, 1), (3, 3), (17, 5), (5, 17), (33, 31), (65, 64)]


def numbers(shape, dtype, seed=3):
    return numpy.random.default_rng(seed).normal(size=shape).astype(dtype)


def residual(found, expected):
    """|found - expected| / (|expected| min(m, n) eps)"""
    size = min(expected.shape[-2:])
    scale = numpy.linalg.norm(expected) * size * numpy.finfo(expected.dtype).eps
    return numpy.linalg.norm(found - expected) / max(scale, numpy.finfo(expected.dtype).tiny)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES)
def test_svd(shape, dtype):
    a = numbers((3, *shape), dtype)
    u, s, vt = nullscope.svd(a)
    assert residual(u * s[:, None, :] @ vt, a) < 10
    eye = numpy.broadcast_to(numpy.eye(s.shape[-1], dtype=dtype), (3, s.shape[-1], s.shape[-1]))
    assert residual(u.mT @ u, eye) < 10 and residual(vt @ vt.mT, eye) < 10
    theirs = numpy.linalg.svd(a.astype("float64"), compute_uv=False)
    assert (abs(s - theirs) / theirs[:, :1]).max() < 10 * max(shape) * numpy.finfo(dtype).eps


def test_svd_with_full_vectors():
    a = numbers((2, 9, 4), "float64")
    u, s, vt = nullscope.svd(a, vectors="full")
    assert u.shape == (2, 9, 9) and vt.shape == (2, 4, 4)
    assert residual(u[:, :, :4] * s[:, None, :] @ vt, a) < 10
    assert nullscope.svd(a, vectors="none").u is None
    with pytest.raises(ValueError, match='vectors is "some"'):
        nullscope.svd(a, vectors="some")
    with pytest.raises(ValueError, match='algorithm is "magic"'):
        nullscope.svd(a, algorithm="magic")


@pytest.mark.parametrize("shape", SHAPES)
def test_qr(shape):
    a = numbers((2, *shape), "float64")
    q, r = nullscope.qr(a)
    assert residual(q @ r, a) < 10 and (numpy.tril(r, -1) == 0).all()
    assert residual(numpy.abs(r), numpy.abs(numpy.linalg.qr(a).R)) < 100  # signs are arbitrary
    alone = nullscope.qr(a, with_q=False)
    assert alone.q is None and residual(numpy.abs(alone.r), numpy.abs(r)) < 10


def test_numerical_rank():
    a = numbers((4, 20, 3), "float64") @ numbers((4, 3, 15), "float64", 5)
    assert nullscope.numerical_rank(a).tolist() == [3, 3, 3, 3]
    assert nullscope.numerical_rank(a[0]) == 3
    assert nullscope.numerical_rank(a[0], relative=1.0) == 0
    assert nullscope.numerical_rank(a[0], absolute=1e9) == 0
    with pytest.raises(ValueError, match="relative is -1"):
        nullscope.numerical_rank(a, relative=-1)
    with pytest.raises(ValueError, match="relative is nan"):
        nullscope.numerical_rank(a, relative=float("nan"))


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
def test_range_basis(batch):
    v, h = numbers((*batch, 37, 6), "float64"), numbers((6, 11), "float64", 5)
    found = nullscope.range_basis(v, h, with_ones=True)
    t = v @ h
    theirs = numpy.linalg.svd(t, compute_uv=False)[..., :6]
    numpy.testing.assert_allclose(found.s, theirs, rtol=1e-12)
    assert (numpy.asarray(found.rank) == 6).all() and numpy.shape(found.rank) == batch
    assert (numpy.asarray(found.null_dimension_with_ones) == 30).all()
    u = found.basis
    numpy.testing.assert_allclose(u @ (u.mT @ t), t, atol=1e-12 * abs(t).max())
    ones = numpy.ones((37, 1))
    numpy.testing.assert_allclose(u @ (u.mT @ ones), numpy.broadcast_to(ones, (*batch, 37, 1)), atol=1e-13)


def test_one_projection_for_each_head_of_a_batch():
    v, h = numbers((2, 3, 20, 4), "float64"), numbers((3, 4, 9), "float64", 5)
    found = nullscope.range_basis(v, h)
    numpy.testing.assert_allclose(found.s, numpy.linalg.svd(v @ h, compute_uv=False)[..., :4], rtol=1e-12)
    with pytest.raises(
        ValueError, match=r"range_basis: the dimensions of h \(5, 4, 9\) before the last 2 should be \(2, 3\)"
    ):
        nullscope.range_basis(v, numbers((5, 4, 9), "float64"))


def test_projection():
    t, x = numbers((2, 12, 3), "float64"), numbers((2, 5, 12), "float64", 5)
    found = nullscope.range_basis(t)
    null, rest = nullscope.null_space_project(x, found), nullscope.null_space_project(x, found, part="range")
    numpy.testing.assert_allclose(null + rest, x, atol=1e-14)
    assert abs(null @ t).max() < 1e-13
    numpy.testing.assert_allclose(null, nullscope.null_space_project(x, found.basis), atol=0)
    with pytest.raises(ValueError, match=r"project: dimension 1 of u \(2, 12, 4\)"):
        nullscope.null_space_project(x[..., :11], found)


@pytest.mark.parametrize("draw", ["projected", "coefficients"])
def test_alternatives(draw):
    random = numpy.random.default_rng(0)
    a, v = random.dirichlet(numpy.ones(15), size=(2, 15)), random.normal(size=(2, 15, 4))
    found = nullscope.range_basis(v, with_ones=True)
    weights, step = nullscope.simplex_alternatives(a, found, count=3, seed=5, draw=draw)
    assert weights.shape == (2, 3, 15, 15) and step.shape == (2, 3, 15)
    numpy.testing.assert_allclose(weights.sum(axis=-1), 1, atol=1e-13)
    numpy.testing.assert_allclose(weights @ v[:, None], numpy.broadcast_to((a @ v)[:, None], (2, 3, 15, 4)), atol=1e-13)
    assert weights.min() > -1e-15 and abs(weights - a[:, None]).max(axis=(2, 3)).min() > 0.01
    again = nullscope.simplex_alternatives(a, found, count=3, seed=5, draw=draw)
    numpy.testing.assert_array_equal(weights, again.weights)
    with pytest.raises(ValueError, match="with_ones=True"):
        nullscope.simplex_alternatives(a, nullscope.range_basis(v))
    half = nullscope.simplex_alternatives(a, found, share=0.5, draw=draw).weights
    assert (nullscope.logit_rank(a) > 4).all() and (nullscope.logit_rank(half[:, 0]) > 4).all()


def test_scipy_agrees():
    linalg = pytest.importorskip("scipy.linalg")
    a = numbers((23, 9), "float64")
    assert nullscope.range_basis(a).null_dimension == linalg.null_space(a.T).shape[1]
    numpy.testing.assert_allclose(nullscope.svd(a).s, linalg.svdvals(a), rtol=1e-13)
