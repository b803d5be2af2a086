"""Files that Python's safetensors package writes are read by Nullscope, and the other way round.

    safetensors_interop.py <the program safetensors_interop>

Python writes a file, the program reads it and writes it again with the numbers it converted, Python reads that and
compares everything with what it began with.
"""

import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import safetensors
from safetensors.numpy import save_file

BITS_16 = np.arange(65536, dtype=np.uint16)  # every 16-bit float there is
RANDOM = np.random.default_rng(7)


def arrays():
    """(name, type in the file, array); NumPy has no bfloat16, so its bits are given."""
    yield "f64", "float64", np.concatenate([RANDOM.standard_normal(9), [np.inf, -0.0, 1e300, 5e-324]])
    yield "f32", "float32", RANDOM.standard_normal((3, 5, 7)).astype(np.float32)
    yield "f16", "float16", BITS_16.view(np.float16)
    yield "bf16", "bfloat16", BITS_16.reshape(256, 256)
    yield "i64", "int64", np.array([-(2**63), 2**63 - 1, 0])
    yield "i32", "int32", np.array([[-(2**31), 2**31 - 1]], dtype=np.int32)
    yield "u8", "uint8", np.arange(255, dtype=np.uint8)
    yield "bool", "bool", np.array([True, False, True])
    yield "number", "float32", np.array(2.5, dtype=np.float32)
    yield "empty", "float64", np.zeros((3, 0, 2))
    yield 'name "é" \\ \n日本', "uint8", np.arange(3, dtype=np.uint8)


RAW = {  # every type that Nullscope lists but does not convert; F4 packs two elements into a byte
    "int8": 1, "int16": 2, "uint16": 2, "uint32": 4, "uint64": 8, "complex64": 8, "float8_e4m3fn": 1,
    "float8_e4m3fnuz": 1, "float8_e5m2": 1, "float8_e5m2fnuz": 1, "float8_e8m0fnu": 1, "float4_e2m1fn_x2": 1,
}


def spec(dtype, shape, array):
    return safetensors.TensorSpec(dtype=dtype, shape=shape, data_ptr=array.ctypes.data, data_len=array.nbytes)


def as_float(dtype, array):
    if dtype == "bfloat16":
        return (array.astype(np.uint32) << 16).view(np.float32)
    with np.errstate(over="ignore"):
        return array.astype(np.float32)


def same(array, data):
    """The same bytes, but for which NaN it is."""
    got = np.frombuffer(bytes(data), dtype=array.dtype).reshape(array.shape)
    if array.dtype.kind == "f":
        return np.array_equal(got, array, equal_nan=True) and np.array_equal(np.signbit(got), np.signbit(array))
    return np.array_equal(got, array)


def check(program, folder, write, expected, metadata, raw=()):
    """`expected` is a list of (name, type, array), `raw` the names of what is only listed. Returns the names of what
    went wrong."""
    original, copy = folder / "original.safetensors", folder / "copy.safetensors"
    write(original)
    subprocess.run([program, original, copy], check=True)
    found = dict(safetensors.deserialize(copy.read_bytes()))
    before = dict(safetensors.deserialize(original.read_bytes()))
    wrong = [name for name in raw if found.pop(name) != before[name]]  # type, shape and bytes
    for name, dtype, array in expected:
        converted = as_float(dtype, array) if "float" in dtype else array.astype(np.int64)
        prefix = "float/" if "float" in dtype else "int64/"
        for key, numbers in [(name, array), (prefix + name, converted)]:
            entry = found.pop(key)
            if list(entry["shape"]) != list(array.shape) or not same(numbers, entry["data"]):
                wrong.append(key)
    with safetensors.safe_open(copy, framework="np") as file:
        if file.metadata() != metadata:
            wrong.append(f"metadata {file.metadata()}")
        for name, dtype, array in expected:
            if dtype != "bfloat16" and file.get_tensor(name).dtype != array.dtype:
                wrong.append(f"type of {name}")
    return wrong + [f"unexpected {name}" for name in found]


def main():
    everything = list(arrays())
    specs = {name: spec(dtype, array.shape, array) for name, dtype, array in everything}
    numbers = RANDOM.integers(0, 256, 48, dtype=np.uint8)
    raw = {"raw " + dtype: spec(dtype, (2, 24 // size), numbers) for dtype, size in RAW.items()}
    simple = [row for row in everything if row[1] != "bfloat16"]
    metadata = {"format": "np", "text": 'quote " and\nline'}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        wrong = check(
            sys.argv[1], folder, lambda path: safetensors.serialize_file(specs | raw, path, metadata), everything,
            metadata, raw
        )
        wrong += check(
            sys.argv[1], folder, lambda path: save_file({n: a for n, _, a in simple}, path), simple, None
        )
        wrong += check(sys.argv[1], folder, lambda path: save_file({}, path), [], None)
    if wrong:
        sys.exit("differ: " + ", ".join(wrong))
    print(f"{len(everything) + len(raw)} tensors went to Nullscope and back")


if __name__ == "__main__":
    main()
