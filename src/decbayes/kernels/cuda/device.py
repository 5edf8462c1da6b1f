"""A GPU as the models see it: arrays on it, and kernels by name."""

from __future__ import annotations

from importlib.resources import files
from typing import Any, Protocol


class Device(Protocol):
    """Arrays in the manner of NumPy, and a kernel of `topics.cu` compiled for a number of topics."""

    xp: Any

    def launch(self, name: str, blocks: int, threads: int, *arguments: Any, topics: int, shared_bytes: int = 0) -> None:
        """Run a kernel in so many blocks of so many threads."""

    def to_host(self, array: Any) -> Any:
        """A NumPy array with the same content."""

    def free_bytes(self) -> int:
        """How much memory is left."""


def source() -> str:
    """The kernels of topics."""
    return files(__package__).joinpath("topics.cu").read_text(encoding="utf-8")


class CudaDevice:
    """The GPU that CuPy uses."""

    def __init__(self, cupy: Any) -> None:
        self.xp = cupy
        self._modules: dict[int, Any] = {}
        self._kernels: dict[tuple[int, str], Any] = {}

    def launch(self, name: str, blocks: int, threads: int, *arguments: Any, topics: int, shared_bytes: int = 0) -> None:
        if not blocks:
            return
        kernel = self._kernel(topics, name)
        if shared_bytes > kernel.max_dynamic_shared_size_bytes:
            kernel.max_dynamic_shared_size_bytes = shared_bytes
        kernel((blocks,), (threads,), arguments, shared_mem=shared_bytes)

    def to_host(self, array: Any) -> Any:
        return self.xp.asnumpy(array)

    def free_bytes(self) -> int:
        pool = self.xp.get_default_memory_pool()
        return int(self.xp.cuda.Device().mem_info[0]) + int(pool.free_bytes())

    def _kernel(self, topics: int, name: str) -> Any:
        if (topics, name) not in self._kernels:
            self._kernels[topics, name] = self._module(topics).get_function(name)
        return self._kernels[topics, name]

    def _module(self, topics: int) -> Any:
        if topics not in self._modules:
            options = ("--std=c++17", f"-DTOPICS={topics}")
            self._modules[topics] = self.xp.RawModule(code=source(), options=options)
        return self._modules[topics]
