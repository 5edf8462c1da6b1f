"""A GPU as the library sees it: arrays on it, and kernels by name."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from importlib.resources import files
from typing import Any

# Shared memory in bytes that a kernel may use without a request, which takes as long as a launch.
USUAL_SHARED = 48 << 10


def source(file: str) -> str:
    """The text of a file of kernels, with its includes."""
    text = files(__package__).joinpath(file).read_text(encoding="utf-8")
    return re.sub(r'#include "(\w+\.cuh)"', lambda match: source(match[1]), text)


class Device:
    """The GPU that CuPy uses: NumPy-like arrays, and the kernels in this folder."""

    def __init__(self, cupy: Any) -> None:
        self.xp = cupy
        self._modules: dict[tuple[str, ...], Any] = {}
        self._kernels: dict[tuple[str, ...], Any] = {}

    def launch(
        self,
        file: str,
        name: str,
        blocks: int,
        threads: int,
        *arguments: Any,
        shared_bytes: int = 0,
        together: bool = False,
        **constants: int,
    ) -> None:
        """Run a kernel with this many blocks and threads; `constants` are known when its file is compiled.

        Blocks that wait for each other run `together`: at most `processors` of them.
        """
        if not blocks:
            return
        kernel = self._kernel(name, file, *(f"-D{constant}={value}" for constant, value in constants.items()))
        if shared_bytes > USUAL_SHARED and shared_bytes > kernel.max_dynamic_shared_size_bytes:
            kernel.max_dynamic_shared_size_bytes = shared_bytes
        kernel((blocks,), (threads,), arguments, shared_mem=shared_bytes)

    @property
    def processors(self) -> int:
        """The number of blocks of any size that run at once."""
        return int(self.xp.cuda.Device().attributes["MultiProcessorCount"])

    def to_device(self, array: Any) -> Any:
        """A NumPy array's content on the device."""
        # `asarray` would first copy it to pinned memory, with one thread.
        on_device = self.xp.empty(array.shape, array.dtype)
        on_device.set(array)
        return on_device

    def to_host(self, array: Any) -> Any:
        """A NumPy array with the same content."""
        return self.xp.asnumpy(array)

    def later(self, array: Any) -> Callable[[], Any]:
        """Start copying to the CPU; the returned call waits for that copy, but not for anything launched afterwards."""
        pinned = import_module("cupyx").empty_pinned  # other memory would be copied through a buffer, and waited for
        copy, copied = pinned(array.shape, array.dtype), self.xp.cuda.Event(disable_timing=True)
        array.get(out=copy, blocking=False)
        copied.record()

        def waited() -> Any:
            copied.synchronize()
            return copy

        return waited

    def free_bytes(self) -> int:
        pool = self.xp.get_default_memory_pool()
        return int(self.xp.cuda.Device().mem_info[0]) + int(pool.free_bytes())

    def _kernel(self, name: str, *compiled: str) -> Any:
        """A kernel from a file compiled with these definitions."""
        if (name, *compiled) not in self._kernels:
            if compiled not in self._modules:
                file, *defined = compiled
                self._modules[compiled] = self.xp.RawModule(code=source(file), options=("--std=c++17", *defined))
            self._kernels[name, *compiled] = self._modules[compiled].get_function(name)
        return self._kernels[name, *compiled]
