"""How kernels are compiled, and where their machine code is kept.

Numba compiles a kernel on its first call and keeps the machine code in NUMBA_CACHE_DIR if that is set, else beside the
kernel's source, else in the user's cache folder. If none of these is writable, kernels are compiled anew in every
process, after one warning.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Any, TypeVar

import numba
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.runtime import rtsys

from decbayes.kernels import announce

# `reassoc` and `arcp` are omitted on purpose: they would reorder the error-free steps of the special functions.
FASTMATH = {"contract", "nnan", "ninf", "nsz"}
# For long sums whose terms the compiler may reorder (always in the same way), which lets them vectorise.
REORDERED = FASTMATH | {"reassoc"}

_Function = TypeVar("_Function", bound=Callable[..., Any])


def compiled(function: _Function) -> _Function:
    """A kernel called from Python."""
    return _kernel(function, fastmath=FASTMATH, error_model="numpy", nogil=True)


def compiled_reordered(function: _Function) -> _Function:
    """A kernel called from Python that consists mostly of long sums."""
    return _kernel(function, fastmath=REORDERED, error_model="numpy", nogil=True)


def compiled_exactly(function: _Function) -> _Function:
    """A kernel with Python's arithmetic."""
    # Stated explicitly: otherwise a kernel inherits these flags from the first kernel that calls it.
    return _kernel(function, nogil=True, fastmath=False, error_model="python")


def inlined(function: _Function) -> _Function:
    """A part of other kernels."""
    return _kernel(function, fastmath=FASTMATH, error_model="numpy", forceinline=True)


def inlined_reordered(function: _Function) -> _Function:
    """A part of other kernels that consists mostly of long sums."""
    return _kernel(function, fastmath=REORDERED, error_model="numpy", forceinline=True)


def expanded(function: _Function) -> _Function:
    """A term that is expanded in its callers before compilation and optimised together with them."""
    return numba.njit(inline="always")(function)  # type: ignore[no-any-return]


def _kernel(function: _Function, **flags: Any) -> _Function:
    kernel: Any = numba.njit(**flags)(function)
    try:
        kernel._cache = KernelCache(function)  # as `cache=True` does with numba's own
    except RuntimeError:  # there is no folder that can be written to
        warn_uncached()
    return kernel  # type: ignore[no-any-return]


@cache
def warn_uncached() -> None:
    """Warn once per process."""
    warnings.warn(
        "There is no folder in which compiled code can be kept, so the first fit and the first merge of every process "
        "take seconds longer. Set NUMBA_CACHE_DIR to a folder that can be written to.",
        RuntimeWarning,
        stacklevel=2,
    )


@cache
def fingerprint() -> bytes:
    """A hash of the source of all kernels: one is stale when another that it inlines changes."""
    sources = sorted((file for file in files(__package__).iterdir() if file.name.endswith(".py")), key=lambda f: f.name)
    return hashlib.sha256(b"".join(file.read_bytes() for file in sources)).digest()


class _Kept(CompileResultCacheImpl):  # type: ignore[misc]
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self.locator.get_source_stamp = fingerprint


class KernelCache(FunctionCache):  # type: ignore[misc]
    """Numba's cache, aware of kernels inlined from other files, and tolerant of a failing disk."""

    _impl_class = _Kept

    def load_overload(self, signature: Any, context: Any) -> Any:
        """Load a kernel without first loading all of Numba's compiler, which takes longer than a small fit."""
        rtsys.initialize(context)
        try:
            kept = self._load_overload(signature, context)
        except (OSError, EOFError):  # EOFError: cut short by a crash
            kept = None
        if kept is None:
            announce()
            context.refresh()  # it will be compiled
        return kept

    def save_overload(self, signature: Any, kernel: Any) -> None:
        try:
            super().save_overload(signature, kernel)
        except (OSError, EOFError):
            warn_uncached()
