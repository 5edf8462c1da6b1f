"""Children of this process: they end with it, also where a test, or the library, takes an interruption for its own."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

INTERRUPTIONS = (signal.SIGINT, signal.SIGTERM)


def heed_signals() -> None:
    """Be interrupted by either signal, also in the background, where shells have it ignored."""
    for number in INTERRUPTIONS:
        signal.signal(number, signal.default_int_handler)


def forked(action: Callable[[], object]) -> int:
    """A child that does this and ends, in a group of its own, silent."""
    child = os.fork()
    if child:
        with suppress(OSError):
            os.setpgid(child, child)
        return child
    status = 1
    try:
        os.setpgid(0, 0)
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        action()
        status = 0
    finally:
        os._exit(status)


def _speaking(action: Callable[[], object]) -> int:
    """A child that prints what it finds, and ends its own children when it is interrupted."""
    if child := os.fork():
        return child
    status = 1
    try:
        action()
        status = 0
    finally:
        sys.stdout.flush()
        os._exit(status)


def in_parallel(actions: Sequence[Callable[[], object]], *, silent: bool = False) -> None:
    """Each in a child of its own. Silent ones run tests, which may catch interruptions: they are killed.

    An interruption is noted, and looked at once all children are known. As an exception it could come between a fork
    and the note of its child: blocking signals does not prevent that, since another thread may take them.
    """
    interrupted: list[int] = []
    for number in INTERRUPTIONS:
        signal.signal(number, lambda number, frame: interrupted.append(number))

    def heeding(action: Callable[[], object]) -> None:
        heed_signals()
        if interrupted:
            raise KeyboardInterrupt
        action()

    children = [(forked if silent else _speaking)(partial(heeding, action)) for action in actions]
    ended = []
    for child in children:
        while not interrupted and (status := _status(child)) is None:
            time.sleep(0.1)
        if interrupted:
            break
        ended.append(status)
    heed_signals()
    if interrupted:
        for child in children[len(ended) :]:
            with suppress(ProcessLookupError):
                if silent:
                    os.killpg(child, signal.SIGKILL)
                else:
                    os.kill(child, signal.SIGTERM)
        raise KeyboardInterrupt
    if any(ended):
        raise RuntimeError(f"a child has ended with {ended}")


def _status(child: int) -> int | None:
    """Of a child, once it has ended."""
    found, status = os.waitpid(child, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None
