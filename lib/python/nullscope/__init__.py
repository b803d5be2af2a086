"""The numerical side of transformer identifiability, on CPUs and GPUs through SYCL.

Arrays of NumPy, PyTorch, JAX, dpctl and dpnp go in, without a copy where the device can read their memory; results are
arrays of the same kind. Functions wait until their results are complete. The GIL is released meanwhile.

>>> import numpy, nullscope
>>> nullscope.numerical_rank(numpy.eye(3))
3
"""

from ._attention import EffectiveAttention, attention, effective_attention
from ._core import ComputationError, Device, FileError, UnsupportedDevice
from ._core import version as _version
from ._devices import device, devices
from ._explanations import Explanation, explain
from ._identifiability import Identifiability, token_identifiability
from ._linear_algebra import (
    QR,
    SVD,
    Alternatives,
    RangeBasis,
    logit_rank,
    null_space_project,
    numerical_rank,
    qr,
    range_basis,
    simplex_alternatives,
    svd,
)
from ._structure import Structure, structure
from ._sweep import Sweep, sweep
from ._text import Tokens, models
from ._transformer import Attribution, Encoding, Heads, TrainingStep, Transformer

__version__ = _version()
__all__ = [
    "Alternatives",
    "Attribution",
    "ComputationError",
    "Device",
    "EffectiveAttention",
    "Encoding",
    "Explanation",
    "FileError",
    "Heads",
    "Identifiability",
    "QR",
    "RangeBasis",
    "SVD",
    "Structure",
    "Sweep",
    "Tokens",
    "TrainingStep",
    "Transformer",
    "UnsupportedDevice",
    "attention",
    "device",
    "devices",
    "effective_attention",
    "explain",
    "logit_rank",
    "models",
    "null_space_project",
    "numerical_rank",
    "qr",
    "range_basis",
    "simplex_alternatives",
    "structure",
    "svd",
    "sweep",
    "token_identifiability",
]
