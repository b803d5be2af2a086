"""Attention and effective attention against plain NumPy, and PyTorch where it is installed."""

import numpy
import pytest

import nullscope


def numbers(*shape, seed=3):
    return numpy.random.default_rng(seed).normal(size=shape)


def weights_of(q, k, bias=0.0, causal=False, scale=None):
    scores = (scale or q.shape[-1] ** -0.5) * q @ k.mT + bias
    if causal:
        queries, keys = scores.shape[-2:]
        scores = numpy.where(numpy.tri(queries, keys, keys - queries), scores, -numpy.inf)
    exponentials = numpy.exp(scores - scores.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("options", [{}, {"causal": True}, {"scale": 0.3}])
def test_attention(options):
    q, k, v = numbers(2, 3, 13, 5), numbers(2, 3, 17, 5, seed=4), numbers(2, 3, 17, 7, seed=5)
    a = weights_of(q, k, **options)
    out, log_sum_exp = nullscope.attention(q, k, v, with_log_sum_exp=True, **options)
    numpy.testing.assert_allclose(out, a @ v, atol=1e-13)
    assert log_sum_exp.shape == (2, 3, 13)
    numpy.testing.assert_allclose(nullscope.attention(q[0], k[0], v[0], **options), out[0], atol=1e-14)
    numpy.testing.assert_allclose(nullscope.attention(q[0, 0], k[0, 0], v[0, 0], **options), out[0, 0], atol=1e-14)


@pytest.mark.parametrize("shape", [(13, 13), (3, 13, 13), (2, 3, 13, 13), (2, 1, 13, 13)])
def test_bias(shape):
    q, k, v, bias = numbers(2, 3, 13, 5), numbers(2, 3, 13, 5, seed=4), numbers(2, 3, 13, 7, seed=5), numbers(*shape)
    numpy.testing.assert_allclose(nullscope.attention(q, k, v, bias=bias), weights_of(q, k, bias) @ v, atol=1e-13)


def test_lengths():
    q, k, v = numbers(2, 3, 13, 5), numbers(2, 3, 13, 5, seed=4), numbers(2, 3, 13, 7, seed=5)
    k[1, :, 9:] = numpy.nan  # padding is not seen
    out = nullscope.attention(q, k, v, lengths=[13, 9])
    numpy.testing.assert_allclose(out[1], weights_of(q[1], k[1, :, :9]) @ v[1, :, :9], atol=1e-13)


def test_bfloat16():
    torch = pytest.importorskip("torch")
    q, k, v = (torch.from_numpy(numbers(2, 24, 16, seed=s)).to(torch.bfloat16) for s in range(3))
    out = nullscope.attention(q, k, v)
    assert out.dtype == torch.float32
    expected = torch.nn.functional.scaled_dot_product_attention(q.double(), k.double(), v.double())
    assert (out - expected).abs().max() < 2**-7
    with pytest.raises(TypeError, match="bfloat16; expected float32 or float64"):
        nullscope.effective_attention(q, k, v)


def test_torch_agrees():
    torch = pytest.importorskip("torch")
    q, k, v = (torch.from_numpy(numbers(2, 3, 19, 8, seed=s)).float() for s in range(3))
    expected = torch.nn.functional.scaled_dot_product_attention(q.double(), k.double(), v.double())
    assert torch.allclose(nullscope.attention(q, k, v).double(), expected, atol=1e-5)


def check_effective(found, a, t, v):
    """The factors, numbers and dense matrices of heads against explicit projections."""
    u = numpy.linalg.svd(t, full_matrices=False)[0][..., : v.shape[-1]]
    effective = a @ u @ u.mT
    numpy.testing.assert_allclose(found.dense(), effective, atol=1e-12)
    numpy.testing.assert_allclose(found.p @ found.u.mT, effective, atol=1e-12)
    numpy.testing.assert_allclose(found.dense("raw"), a, atol=1e-13)
    numpy.testing.assert_allclose(found.dense("null"), a - effective, atol=1e-12)
    numpy.testing.assert_allclose(found.received_raw, a.sum(axis=-2), atol=1e-12)
    numpy.testing.assert_allclose(found.received_effective, effective.sum(axis=-2), atol=1e-12)
    for index in numpy.ndindex(a.shape[:-2]):
        correlation = numpy.corrcoef(a[index].ravel(), effective[index].ravel())[0, 1]
        assert abs(found.pearson[index] - correlation) < 1e-10
        assert abs(found.raw_norm[index] - numpy.linalg.norm(a[index])) < 1e-12
        assert abs(found.effective_norm[index] - numpy.linalg.norm(effective[index])) < 1e-12


@pytest.mark.parametrize("batch", [(), (2,)])
def test_effective_attention(batch):
    q, k, v = numbers(*batch, 3, 29, 5), numbers(*batch, 3, 29, 5, seed=4), numbers(*batch, 3, 29, 7, seed=5)
    h = numbers(3, 7, 20, seed=6)
    found = nullscope.effective_attention(q, k, v, h)
    assert found.rank.shape == (*batch, 3) and (found.rank == 7).all() and (found.null_dimension == 22).all()
    check_effective(found, weights_of(q, k), v @ h, v)


def test_effective_attention_of_one_head():
    q, k, v = numbers(11, 4), numbers(11, 4, seed=4), numbers(11, 3, seed=5)
    found = nullscope.effective_attention(q, k, v)
    assert found.rank == 3 and found.null_dimension == 8 and isinstance(found.pearson, float)
    assert found.dense().shape == (11, 11)


def test_effective_attention_with_bias():
    q, k, v, bias = numbers(3, 12, 5), numbers(3, 12, 5, seed=4), numbers(3, 12, 4, seed=5), numbers(12, 12, seed=8)
    found = nullscope.effective_attention(q, k, v, bias=bias)
    check_effective(found, weights_of(q, k, bias), v, v)


def test_effective_attention_without_padding():
    q, k, v, h = (
        numbers(2, 3, 20, 5),
        numbers(2, 3, 20, 5, seed=4),
        numbers(2, 3, 20, 6, seed=5),
        numbers(3, 6, 9, seed=6),
    )
    found = nullscope.effective_attention(q, k, v, h, lengths=[20, 13])
    assert found.null_dimension.tolist() == [[14] * 3, [7] * 3]
    alone = nullscope.effective_attention(q[1, :, :13], k[1, :, :13], v[1, :, :13], h)
    numpy.testing.assert_allclose(found.pearson[1], alone.pearson, atol=1e-13)
    dense = found.dense()
    numpy.testing.assert_allclose(dense[1, :, :13, :13], alone.dense(), atol=1e-13)
    assert (dense[1, :, 13:] == 0).all() and (dense[1, :, :, 13:] == 0).all()
    with pytest.raises(ValueError, match="a length of 21 in sequences of 20 tokens"):
        nullscope.effective_attention(q, k, v, h, lengths=[20, 21])
    with pytest.raises(ValueError, match="1 lengths for 2 sequences"):
        nullscope.effective_attention(q, k, v, h, lengths=[20])


def test_effective_attention_refuses():
    q, k, v = numbers(3, 12, 5), numbers(3, 12, 5), numbers(3, 12, 4)
    with pytest.raises(ValueError, match="q, k and v have 3, 2 and 3 heads"):
        nullscope.effective_attention(q, k[:2], v)
    with pytest.raises(ValueError, match="effective_attention: .*h"):
        nullscope.effective_attention(q, k, v, numbers(3, 5, 9))
    with pytest.raises(ValueError, match='the matrix is "all"'):
        nullscope.effective_attention(q, k, v).dense("all")
    v[1, 3, 2] = numpy.inf
    with pytest.raises(nullscope.ComputationError) as failure:
        nullscope.effective_attention(q, k, v)
    assert failure.value.failed_batch_ids == [1]
