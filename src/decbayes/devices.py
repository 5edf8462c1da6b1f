"""Where heavy work runs: on the CPU, or on a GPU if there is one.

As with `joblib.parallel_config`, the caller decides for everything that follows, in all threads. Work without a GPU
version stays on the CPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

from decbayes.base.extras import require
from decbayes.errors import MissingDevice, MissingExtra, warn

if TYPE_CHECKING:
    from decbayes.kernels.cuda.device import Device

__all__ = ["DeviceName", "use_device"]

DeviceName = Literal["cpu", "cuda", "auto"]

_used: DeviceName = "cpu"
_alike: ContextVar[bool] = ContextVar("alike", default=False)


class use_device:
    """Run everything that follows on the CPU ("cpu"), on a GPU ("cuda"), or on a GPU if there is one ("auto").

    db.devices.use_device("cuda")  # from here on

    with db.devices.use_device("cuda"):  # or for a while
        ...

    `name` is "cpu", "cuda" or "auto".

    >>> with db.devices.use_device("cpu"):
    ...     fit = db.models.GaussianMean().fit([1.0, 2.0])
    """

    def __init__(self, name: DeviceName) -> None:
        global _used
        wanted = checked(name)
        if wanted == "auto":  # decided once, so that there is one warning for everything that follows
            wanted = "cpu" if gpu_if_present("auto") is None else "cuda"
        self._before, _used = _used, wanted

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        global _used
        _used = self._before


@contextmanager
def everywhere_alike() -> Iterator[None]:
    """Stay on the CPU, whatever device is set, for results that several computers must reproduce to the last bit.

    This affects the current thread only; others may use a GPU meanwhile.
    """
    before = _alike.set(True)
    try:
        yield
    finally:
        _alike.reset(before)


def device_for(name: DeviceName | None = None) -> Device | None:
    """The GPU to use, or None for the CPU; without a name, the device that was set last."""
    if name is None and _alike.get():
        return None
    wanted = _used if name is None else checked(name)
    return None if wanted == "cpu" else gpu_if_present(wanted)


def gpu_if_present(wanted: DeviceName) -> Device | None:
    """The GPU. Without one, "auto" returns None and issues a warning."""
    try:
        return gpu()
    except (MissingExtra, MissingDevice) as error:
        if wanted == "cuda":
            raise
        warn(f"The processor is used. {error}", RuntimeWarning)
        return None


def checked(name: Any) -> DeviceName:
    if name not in get_args(DeviceName):
        raise ValueError(f"A device is one of {', '.join(get_args(DeviceName))}; not {name!r}.")
    return name  # type: ignore[no-any-return]


@cache
def gpu() -> Device:
    """The GPU that CuPy finds."""
    from decbayes.kernels.cuda.device import Device

    cupy = require("cupy", extra="gpu", task="A GPU")
    try:
        count = int(cupy.cuda.runtime.getDeviceCount())
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise MissingDevice(f"CuPy finds no GPU ({error}). `nvidia-smi` shows whether the driver does.") from None
    if not count:
        raise MissingDevice("CuPy finds no GPU. `nvidia-smi` shows whether the driver does.")
    return Device(cupy)
