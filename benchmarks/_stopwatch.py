"""Where the time of one call goes: functions of the library are wrapped while it runs, and their seconds added up."""

import time
from contextlib import ExitStack, contextmanager
from functools import wraps
from importlib import import_module
from unittest.mock import patch


class Stopwatch:
    """Seconds by part. A part that calls another one is charged for what that leaves."""

    def __init__(self, parts, wait=lambda: None):
        """`parts` maps "module:function" or "module:Class.method" to a label; `wait` returns when a device is done."""
        self._parts, self._wait, self._inner = parts, wait, [0.0]
        self.seconds = dict.fromkeys(parts.values(), 0.0)

    @contextmanager
    def running(self):
        with ExitStack() as stack:
            for place, label in self._parts.items():
                module, _, path = place.partition(":")
                owner, _, name = path.rpartition(".")
                target = import_module(module)
                target = getattr(target, owner) if owner else target
                stack.enter_context(patch.object(target, name, self._timed(getattr(target, name), label)))
            yield self.seconds

    def _timed(self, function, label):
        @wraps(function)
        def timed(*arguments, **options):
            self._inner.append(0.0)
            begin = time.perf_counter()
            try:
                return function(*arguments, **options)
            finally:
                self._wait()
                whole = time.perf_counter() - begin
                self.seconds[label] += whole - self._inner.pop()
                self._inner[-1] += whole

        return timed


def told(seconds, whole):
    """The parts that took any time as a line, and what is in none of them."""
    parts = {**seconds, "rest": whole - sum(seconds.values())}
    return ", ".join(f"{label} {value:.3f}" for label, value in parts.items() if value >= 0.0005)
