"""The compiled kernels. Importing one imports numba, so callers import them where they use them.

Compiling one takes seconds, once; listeners learn of it here, without numba.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

_listeners: list[Callable[[], None]] = []


@contextmanager
def announced(listener: Callable[[], None]) -> Iterator[None]:
    """Call a listener whenever a kernel is about to be compiled."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def announce() -> None:
    for listener in _listeners:
        listener()
