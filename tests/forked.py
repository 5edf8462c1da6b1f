"""Real `decbayes` processes that start at once: forked from one process that has imported everything before.

An agent takes a second of processor time to import what it needs, and tests start a hundred of them. A server process,
one per worker of the tests and without threads, forks each of them instead. They are processes like any other: with
sockets, files and signals of their own, and killed and stopped as such. Only their clock is faster: four ticks of an
agent take the time of one, and so does all that waits for some ticks.
"""

import atexit
import ctypes
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

COMMANDS = ("agent", "charter", "keygen", "posterior", "status", "tell")
PRELOADED = (
    *(f"decbayes.cli.commands.network.{name}" for name in COMMANDS),
    "decbayes.calibration.intervals",
    "decbayes.network.runtime.links.ask",
    "decbayes.network.runtime.reports.watching",
    "decbayes.network.runtime.service",
)
FASTER = 4
TICKING = ("decbayes.network.runtime.reports.description", "decbayes.network.runtime.service")


class Forked:
    """A running `decbayes`, as `subprocess.Popen` would describe it."""

    def __init__(self, arguments: list[str], *, output: Any, namespace: str = "") -> None:
        reading, self._stdin = os.pipe()
        self._told, telling = os.pipe()
        request = json.dumps([str(Path.cwd()), namespace, list(map(str, arguments))]).encode()
        socket.send_fds(server(), [len(request).to_bytes(4, "big") + request], [reading, output.fileno(), telling])
        os.close(reading)
        os.close(telling)
        self.stdin = os.fdopen(self._stdin, "wb")
        self.returncode: int | None = None
        self.pid = int.from_bytes(os.read(self._told, 8), "big")
        assert self.pid, "the server that forks processes has ended"

    def poll(self) -> int | None:
        if self.returncode is None and select.select([self._told], [], [], 0)[0]:
            self._reap()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None and not select.select([self._told], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired("decbayes", timeout or 0.0)
        return self._reap()

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it may end between the two, as with subprocess.Popen
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _reap(self) -> int:
        if self.returncode is None:
            self.returncode = int.from_bytes(os.read(self._told, 8), "big", signed=True)
            os.close(self._told)
        return self.returncode


def start(arguments: list[str], *, output: Any, namespace: str = "") -> "Forked | subprocess.Popen[bytes]":
    """A process of `decbayes`, in a network namespace if one is named; not forked where that is known to be unsafe."""
    if sys.platform == "linux":
        return Forked(arguments, output=output, namespace=namespace)
    words = [sys.executable, "-m", "decbayes", *map(str, arguments)]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=output, stderr=output)


def run(*arguments: Any, timeout: float = 60.0) -> tuple[int, str]:
    """The exit status of a command, and all that it has printed."""
    with tempfile.TemporaryFile() as output:
        process = start([*arguments], output=output)
        process.stdin.close()
        try:
            status = process.wait(timeout)
        finally:
            process.kill()
        output.seek(0)
        return status, output.read().decode()


@cache
def server() -> socket.socket:
    """The connection to the process that forks; it ends with this one, when the connection does."""
    ours, theirs = socket.socketpair()
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    subprocess.Popen([sys.executable, __file__, str(theirs.fileno())], pass_fds=[theirs.fileno()], env=environment)
    theirs.close()
    assert ours.recv(1) == b"\1", "the server that forks processes has not started"
    atexit.register(ours.close)
    return ours


def serve(requests: socket.socket) -> None:
    from importlib import import_module

    for name in PRELOADED:
        import_module(name)
    for name in TICKING:
        import_module(name).TICK_SECONDS /= FASTER
    assert len([*Path("/proc/self/task").iterdir()]) == 1, "a process with threads cannot be forked safely"
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    requests.send(b"\1")
    while True:
        content, handles, _, _ = socket.recv_fds(requests, 1 << 20, 3)
        if not content:
            return
        while len(content) < 4 + int.from_bytes(content[:4], "big"):
            content += requests.recv(1 << 20)
        if not os.fork():
            requests.close()
            guard(*json.loads(content[4:]), *handles)
        for handle in handles:
            os.close(handle)


def guard(folder: str, namespace: str, arguments: list[str], reading: int, output: int, telling: int) -> None:
    """Fork the command; say its number at once, and how it ended when it has."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    child = os.fork()
    if not child:
        os.close(telling)
        os.chdir(folder)
        if namespace:
            enter(namespace)
        for handle, standard in ((reading, 0), (output, 1), (output, 2)):
            os.dup2(handle, standard)
        for handle in {reading, output} - {0, 1, 2}:
            os.close(handle)
        command(arguments)
    os.close(reading)
    os.close(output)
    os.write(telling, child.to_bytes(8, "big"))
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.write(telling, code.to_bytes(8, "big", signed=True))
    os._exit(0)


def enter(namespace: str) -> None:
    """What `ip netns exec` does. Python has `os.setns` from 3.12 on."""
    with Path("/var/run/netns", namespace).open() as handle:
        if ctypes.CDLL(None, use_errno=True).setns(handle.fileno(), 0):
            raise OSError(ctypes.get_errno(), "setns", namespace)


def command(arguments: list[str]) -> None:
    """What `python -m decbayes` does."""
    import traceback

    from decbayes.cli import main

    sys.argv, code = ["decbayes", *arguments], 1
    try:
        main(arguments)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
