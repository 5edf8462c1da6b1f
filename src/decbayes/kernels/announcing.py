"""Announces that a kernel is being compiled, which takes seconds, once. Imports nothing: listeners cost nothing."""

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
