"""Children of this process: they end with it, also where a test, or the library, takes an interruption for its own."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

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
        signal.pthread_sigmask(signal.SIG_UNBLOCK, INTERRUPTIONS)
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
        signal.pthread_sigmask(signal.SIG_UNBLOCK, INTERRUPTIONS)
        action()
        status = 0
    finally:
        sys.stdout.flush()
        os._exit(status)


def in_parallel(actions: Sequence[Callable[[], object]], *, silent: bool = False) -> None:
    """Each in a child of its own. Silent ones run tests, which may catch interruptions: they are killed."""
    heed_signals()  # whoever has taken them meanwhile
    signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTIONS)  # until all children are known, so that none is forgotten
    children = [(forked if silent else _speaking)(action) for action in actions]
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, INTERRUPTIONS)
        ended = [_status(child) for child in children]
    except KeyboardInterrupt:
        for child in children:
            with suppress(ProcessLookupError):
                if silent:
                    os.killpg(child, signal.SIGKILL)
                else:
                    os.kill(child, signal.SIGTERM)
        raise
    if any(ended):
        raise RuntimeError(f"a child has ended with {ended}")


def _status(child: int) -> int:
    """Of a child that has ended; looking for it now and then, since a signal that another thread takes wakes nobody."""
    while True:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.1)
