"""The agent's side of a page, which hands over the newest values and never waits."""

import json
import secrets
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Condition, Thread
from typing import IO, Any

from decbayes.base.arguments import is_loopback
from decbayes.errors import TransportFailed

LOOPBACK = "127.0.0.1"
MOST_EVENTS = 1000  # waiting for the page; further ones are only counted
END_SECONDS = 2.0
UNRECORDED = ("path", "metrics", "health")  # useful only while the page is live


@dataclass(frozen=True)
class PageAddress:
    """The address of a page: on loopback, or on another host with a secret token in its path."""

    host: str = LOOPBACK
    port: int = 0
    token: str = field(default_factory=lambda: secrets.token_urlsafe(16), repr=False)

    @classmethod
    def parse(cls, words: Sequence[str], *, plain: bool | None = None) -> "PageAddress":
        """An address from PORT or HOST:PORT; default: any free port of this machine.

        `plain`: whether an unencrypted page beyond this machine is allowed; None if a command has no such option.
        """
        host, _, port = (words[0] if words else "0").rpartition(":")
        host = host.strip("[]") or LOOPBACK
        if not port.isdecimal() or int(port) > 65535:
            raise TransportFailed(
                f"'{words[0]}' is not an address of a page; write --page, --page PORT, or --page HOST:PORT."
            )
        if not is_loopback(host) and not plain:
            remedy = "reach it with `ssh -L`" if plain is None else "reach it with `ssh -L`, or allow it with --plain"
            raise TransportFailed(
                f"A page at {host} is not encrypted, so others could read it along the way. Leave the host out and "
                f"{remedy}."
            )
        return cls(host, int(port))

    @property
    def path(self) -> str:
        """The path under which the page is served."""
        return "/" if is_loopback(self.host) else f"/{self.token}/"


class Page:
    """A page in a separate process, which ends with this one.

    `show` replaces the value of a name, `tell` adds an event. Neither ever waits; after the page's process has ended
    they do nothing. With `record` all messages are also written to that file, one per line. `clock` returns the seconds
    since the start.
    """

    def __init__(
        self, address: PageAddress, record: Path | None = None, clock: Callable[[], float] | None = None
    ) -> None:
        began = time.monotonic()
        self._clock = clock or (lambda: time.monotonic() - began)
        self._recording: IO[str] | None = None if record is None else record.open("w", encoding="utf-8")
        self._values: dict[str, Any] = {}
        self._events: deque[dict[str, Any]] = deque()
        self._missed, self._closed, self._changed = 0, False, Condition()
        with listener(address) as sock:
            self.url = f"http://{url_host(address.host)}:{sock.getsockname()[1]}{address.path}"
            self._process = subprocess.Popen(
                [sys.executable, "-m", "decbayes.page", str(sock.fileno()), address.host],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                pass_fds=[sock.fileno()],
            )
        self._thread = Thread(target=self._write, daemon=True)
        self._values["path"] = address.path
        self._thread.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the page is still served."""
        return self._thread.is_alive() and self._process.poll() is None

    def show(self, name: str, value: Any) -> None:
        """Replace the value of a name by a JSON value."""
        with self._changed:
            self._values[name] = value
            self._changed.notify()

    def tell(self, event: dict[str, Any]) -> None:
        """Add an event; if too many are waiting, it is only counted."""
        with self._changed:
            if len(self._events) >= MOST_EVENTS:
                self._missed += 1
                return
            self._events.append(event)
            self._changed.notify()

    def end(self, text: str) -> None:
        """Announce the end: browsers show the last state as final, even after the page is gone."""
        self.show("ended", text)

    def close(self) -> None:
        """Let the page show the last values, then end it."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(END_SECONDS)
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _write(self) -> None:
        assert self._process.stdin is not None
        try:
            with self._process.stdin as pipe:
                while (message := self._next()) is not None:
                    self._record(message)
                    pipe.write(json.dumps(message, allow_nan=False).encode() + b"\n")
                    pipe.flush()
        except OSError:
            return
        finally:
            if self._recording is not None:
                self._recording.close()

    def _record(self, message: dict[str, Any]) -> None:
        if self._recording is not None:
            values = {name: value for name, value in message["values"].items() if name not in UNRECORDED}
            self._recording.write(json.dumps({**message, "values": values}, allow_nan=False) + "\n")
            self._recording.flush()

    def _next(self) -> dict[str, Any] | None:
        """Everything new since the last message; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._values or self._events)
            if not (self._values or self._events):
                return None
            now = round(self._clock(), 2)
            message = {"seconds": now, "values": self._values, "events": [*self._events], "missed": self._missed}
            self._values, self._missed = {}, 0
            self._events.clear()
            return message


def listener(address: PageAddress) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        return socket.create_server((address.host, address.port), family=family)
    except OSError as error:
        reason = str(error.strerror or error).partition(" (while")[0]  # Python adds the address
        raise TransportFailed(f"A page cannot be served at {address.host}:{address.port}: {reason}.") from None


def url_host(host: str) -> str:
    """The host as written in a URL; this machine's name if the page listens on all interfaces."""
    if host in ("0.0.0.0", "::"):
        return socket.gethostname()
    return f"[{host}]" if ":" in host else host
