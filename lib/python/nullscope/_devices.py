"""Which devices there are, and the one that functions use by default."""

from __future__ import annotations

from functools import lru_cache

from . import _core
from ._core import Device


@lru_cache(maxsize=None)
def device(choice: str = "") -> Device:
    """Chooses a device.

    "" takes a GPU if there is one and otherwise what the runtime prefers; "cpu" and "gpu" take the first of that kind,
    "gpu:1" the second; "2" is a place in `devices()`; anything else is part of a name. Raises `UnsupportedDevice`, a
    `ValueError`, with the list of devices if none fits. The same choice gives the same object.

    >>> import nullscope
    >>> nullscope.device("cpu").kind
    'cpu'
    """
    return _core.select_device(choice)


def devices() -> list[Device]:
    """All devices, in the runtime's order; ONEAPI_DEVICE_SELECTOR, if set, has filtered them.

    >>> import nullscope
    >>> all(d.name and d.kind in ("cpu", "gpu", "accelerator") for d in nullscope.devices())
    True
    """
    return _core.devices()


def chosen(given: Device | str | None) -> Device:
    """What a function's argument `device` stands for."""
    if given is None:
        return device()
    if isinstance(given, str):
        return device(given)
    if isinstance(given, Device):
        return given
    raise TypeError(f"device is of type {type(given).__name__}; expected a nullscope.Device, its name, or None")
