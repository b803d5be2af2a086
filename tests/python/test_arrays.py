"""Arrays in, arrays out: kinds, types, strides, read-only memory, empty arrays, foreign devices."""

import ctypes

import numpy
import pytest

import nullscope

RANDOM = numpy.random.default_rng(7)


def assert_same_values(a, b):
    numpy.testing.assert_array_equal(numpy.asarray(a), numpy.asarray(b))


def singular_values(a):
    return nullscope.svd(a, vectors="none").s


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_results_have_the_type_of_the_operand(dtype):
    u, s, vt = nullscope.svd(RANDOM.normal(size=(3, 5, 4)).astype(dtype))
    assert type(u) is numpy.ndarray and {u.dtype, s.dtype, vt.dtype} == {numpy.dtype(dtype)}
    assert u.shape == (3, 5, 4) and s.shape == (3, 4) and vt.shape == (3, 4, 4)
    u[...] = 0  # results are the caller's, to be written to


@pytest.mark.parametrize(
    "strided",
    [
        lambda a: a.transpose(0, 1, 3, 2).copy().transpose(0, 1, 3, 2),  # columns one after the other
        lambda a: numpy.repeat(a, 2, axis=-1)[..., ::2],
        lambda a: a[:, :, ::-1][:, :, ::-1],
        lambda a: numpy.ascontiguousarray(a[..., ::-1])[..., ::-1],  # negative
        lambda a: numpy.ascontiguousarray(a.transpose(1, 0, 2, 3)).transpose(1, 0, 2, 3),  # a batch that does not merge
        lambda a: numpy.asfortranarray(a),
        lambda a: (
            numpy.frombuffer(b"x" + a.tobytes(), dtype=numpy.uint8)[1:].view(a.dtype).reshape(a.shape)
        ),  # unaligned
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_strides(strided, dtype):
    a = RANDOM.normal(size=(3, 2, 5, 4)).astype(dtype)
    b = strided(a)
    assert_same_values(a, b)
    numpy.testing.assert_allclose(
        singular_values(b), numpy.linalg.svd(a, compute_uv=False), rtol=0, atol=50 * numpy.finfo(dtype).eps
    )


def test_read_only_and_repeated():
    a = RANDOM.normal(size=(4, 3))
    a.flags.writeable = False
    assert_same_values(singular_values(a), singular_values(a.copy()))
    repeated = numpy.broadcast_to(a, (2, 3, 4, 3))
    s = singular_values(repeated)
    assert s.shape == (2, 3, 3)
    numpy.testing.assert_allclose(s, numpy.broadcast_to(numpy.linalg.svd(a, compute_uv=False), s.shape), rtol=1e-13)


def test_the_same_bits_from_any_strides():
    a = RANDOM.normal(size=(9, 7))
    q, r = nullscope.qr(a)
    q2, r2 = nullscope.qr(numpy.asfortranarray(a))
    numpy.testing.assert_allclose(q @ r, q2 @ r2, rtol=0, atol=1e-13)


@pytest.mark.parametrize("shape", [(0, 5, 4), (3, 0, 5, 4)])
def test_empty_batches(shape):
    u, s, vt = nullscope.svd(numpy.empty(shape))
    assert u.shape == shape and s.shape == shape[:-2] + (4,) and vt.shape == shape[:-2] + (4, 4)


def test_empty_matrices():
    q, r = nullscope.qr(numpy.empty((2, 0, 3)))
    assert q.shape == (2, 0, 0) and r.shape == (2, 0, 3)
    with pytest.raises(ValueError, match=r"svd: a \(1, 0, 3\)"):  # the library's own message
        nullscope.svd(numpy.empty((0, 3)))


@pytest.mark.parametrize("dtype", ["int64", "int32", "bool", "float16", "complex128"])
def test_other_types_are_refused(dtype):
    with pytest.raises(TypeError, match=f"svd: a has elements of type {dtype}; expected float32 or float64"):
        nullscope.svd(numpy.ones((2, 2), dtype=dtype))


def test_no_arrays():
    for wrong in ([[1.0, 2.0]], 3.0, "text", None, object()):
        with pytest.raises(TypeError, match="svd: a is of type"):
            nullscope.svd(wrong)


def test_mixed_types():
    with pytest.raises(TypeError, match="attention: k has elements of type float64, but q of type float32"):
        nullscope.attention(numpy.ones((2, 2), "f4"), numpy.ones((2, 2)), numpy.ones((2, 2), "f4"))


def test_too_few_dimensions():
    with pytest.raises(ValueError, match=r"qr: a \(3\) should have 2 or more dimensions"):
        nullscope.qr(numpy.ones(3))


def test_messages_of_the_library():
    with pytest.raises(
        ValueError, match=r"attention: dimension 3 of q \(1, 1, 5, 4\) .* differs from dimension 3 of k"
    ):
        nullscope.attention(numpy.ones((5, 4)), numpy.ones((5, 3)), numpy.ones((5, 4)))


def test_nan_names_its_matrix():
    a = RANDOM.normal(size=(2, 3, 4, 4))
    a[1, 0, 2, 2] = numpy.nan
    with pytest.raises(nullscope.ComputationError) as failure:
        nullscope.svd(a)
    assert failure.value.failed_batch_ids == [3] and isinstance(failure.value, ArithmeticError)


class Tensor(ctypes.Structure):  # DLPack's DLTensor
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32)]


class OnAnotherDevice:
    """An array that says it is on CUDA device 3."""

    def __init__(self, array):
        self.array = array

    def __dlpack_device__(self):
        return (2, 3)

    def __dlpack__(self, **options):
        capsule = self.array.__dlpack__()
        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        tensor = Tensor.from_address(get(capsule, b"dltensor"))
        tensor.device_type, tensor.device_id = 2, 3
        return capsule


def test_memory_of_another_device():
    with pytest.raises(ValueError, match=r"svd: a \(2, 2\) is in memory that .* cannot read \(DLPack device 2:3\)"):
        nullscope.svd(OnAnotherDevice(numpy.eye(2)), device="cpu")


def test_host_arrays_are_not_copied():
    if not nullscope.device().reads_host_memory:
        pytest.skip("the device has memory of its own")
    out = nullscope.null_space_project(RANDOM.normal(size=(4, 8)), numpy.zeros((8, 1)))
    assert out.ctypes.data % 64 == 0  # the kernel wrote where the result is


def test_devices():
    assert any(d.name == nullscope.device().name for d in nullscope.devices())
    assert nullscope.device("cpu") is nullscope.device("cpu")
    with pytest.raises(nullscope.UnsupportedDevice, match='no device fits "nonsense"; there are'):
        nullscope.device("nonsense")
    assert issubclass(nullscope.UnsupportedDevice, ValueError)
    with pytest.raises(TypeError, match="device is of type int"):
        nullscope.svd(numpy.eye(2), device=3)


def test_torch():
    torch = pytest.importorskip("torch")
    a = torch.from_numpy(RANDOM.normal(size=(3, 6, 4)))
    u, s, vt = nullscope.svd(a)
    assert isinstance(u, torch.Tensor) and u.dtype == torch.float64
    assert torch.allclose(u * s[:, None, :] @ vt, a)
    assert torch.allclose(nullscope.svd(a.mT).s, torch.linalg.svdvals(a))
    assert torch.allclose(nullscope.svd(a[::2]).s, torch.linalg.svdvals(a[::2]))
    with pytest.raises(TypeError, match="a requires a gradient"):
        nullscope.svd(torch.ones(2, 2, requires_grad=True))
    assert nullscope.qr(torch.empty(0, 3, 2)).q.shape == (0, 3, 2)


def test_jax():
    jax = pytest.importorskip("jax")
    a = jax.numpy.asarray(RANDOM.normal(size=(6, 4)).astype("f4"))
    u, s, vt = nullscope.svd(a)
    assert isinstance(u, jax.Array)
    numpy.testing.assert_allclose(numpy.asarray(u * s @ vt), numpy.asarray(a), atol=1e-5)


def test_usm_arrays():
    dpnp = pytest.importorskip("dpnp", exc_type=ImportError)
    a = dpnp.asarray(RANDOM.normal(size=(6, 4)))
    u, s, vt = nullscope.svd(a)
    assert type(u) is type(a)
    numpy.testing.assert_allclose(dpnp.asnumpy(s), numpy.linalg.svd(dpnp.asnumpy(a), compute_uv=False), rtol=1e-12)
    assert nullscope.numerical_rank(a.T) == 4
