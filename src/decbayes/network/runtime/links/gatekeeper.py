"""Starts an agent's gate, keeps it running, and knows which callers it has admitted."""

import json
import subprocess
import sys
import time
from collections import Counter, deque
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import Any, NamedTuple

from decbayes.base.arguments import is_loopback
from decbayes.errors import TransportFailed
from decbayes.network.runtime.links.endpoints import Links, parse

PROGRAM = Path(__file__).with_name("gate.py")
START_SECONDS = 20.0
# The time within which a caller must be admitted and answered by zenoh.
PATIENCE_SECONDS = 5.0
# The most simultaneous connections per certificate (or address), in addition to two per member.
FURTHER_LINKS = 64
MOST_REFUSALS = 1000


def is_exposed(links: Links) -> bool:
    """Whether strangers can call: with certificates, or beyond this machine."""
    beyond = links.tls is not None or any(not is_loopback(parse(endpoint)[0]) for endpoint in links.listen)
    return bool(links.listen) and beyond


def is_guarded(links: Links) -> bool:
    """Whether there is a gate: if strangers can call, unless discovery reveals zenoh's own endpoints."""
    return is_exposed(links) and links.discovery == "none"


def unguarded(links: Links) -> str:
    """Why strangers can keep members from linking; empty if they cannot.

    Discovery by gossip or multicast announces the endpoints of zenoh itself.
    """
    if not is_exposed(links) or is_guarded(links):
        return ""
    return (
        f"no gate bounds the connections of strangers with --discovery {links.discovery}: idle ones can keep members "
        "from linking. Where strangers can call, name neighbours with --connect instead"
    )


class Passed(NamedTuple):
    """A caller that the gate has admitted."""

    address: str
    name: str


@dataclass(frozen=True)
class Crowd:
    """Connections from one address that were closed because there were too many."""

    address: str
    connections: int


class Gatekeeper:
    """The process of one agent's gate, which is restarted if it ends."""

    def __init__(self, links: Links, listen: tuple[str, ...], inner: str, members: int) -> None:
        files = links.tls
        self._settings = {
            "listen": [parse(endpoint) for endpoint in listen],
            "inner": parse(inner),
            "tls": files and {name: str(getattr(files, name)) for name in ("authority", "certificate", "key")},
            "revoked": sorted(links.revoked),
            "known": [host for host, _ in map(parse, links.connect) if is_address(host)],
            "most_open": FURTHER_LINKS + 2 * members,
            "patience": PATIENCE_SECONDS,
        }
        self.inner_port = parse(inner)[1]
        self._passed: dict[int, Passed] = {}
        self._crowds: Counter[str] = Counter()
        # Reasons of refusals, for the agent to count.
        self.refusals: deque[str] = deque(maxlen=MOST_REFUSALS)
        self._closed = False
        self._begin()

    def passed(self, port: int) -> Passed | None:
        """The caller behind this local port."""
        return self._passed.get(port)

    def crowds(self) -> list[Crowd]:
        """The addresses that have crowded the gate since the last call, worst first."""
        crowds, self._crowds = self._crowds, Counter()
        return [Crowd(address, count) for address, count in crowds.most_common()]

    def close(self) -> None:
        self._closed = True
        self._end()

    def _begin(self) -> None:
        """Start the program and wait until it listens; TransportFailed says why it does not."""
        first: Queue[dict[str, Any]] = Queue()
        self._process = subprocess.Popen(
            [sys.executable, "-I", str(PROGRAM)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(self._settings) + "\n")
        self._process.stdin.flush()
        Thread(target=self._listen, args=(self._process, first), daemon=True).start()
        try:
            event = first.get(timeout=START_SECONDS)
        except Empty:
            event = {"event": "failed", "why": "it does not start"}
        if event["event"] != "ready":
            self._end()
            raise TransportFailed(f"the gate cannot open: {event.get('why', 'it has ended')}")

    def _end(self) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
            self._process.wait(timeout=5.0)
        except (OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()

    def _listen(self, process: "subprocess.Popen[str]", first: "Queue[dict[str, Any]]") -> None:
        """In a thread of its own: handle the program's events until it ends, then restart it."""
        assert process.stdout is not None
        opened = False
        for line in process.stdout:
            event = json.loads(line)
            if event["event"] in ("ready", "failed"):
                opened = event["event"] == "ready"
                first.put(event)
            else:
                self._handle(event)
        first.put({"event": "ended"})
        process.stdout.close()
        while opened and not self._closed:
            opened = not self._restart()

    def _handle(self, event: dict[str, Any]) -> None:
        match event:
            case {"event": "opened", "port": port, "address": address, "name": name}:
                self._passed[port] = Passed(address, name)
            case {"event": "closed", "port": port}:
                self._passed.pop(port, None)
            case {"event": "crowded", "address": address, "connections": count}:
                self._crowds[address] += count
            case {"event": "refused", "address": address, "why": why, "connections": count}:
                self.refusals.extend([f"{address}: {why}"] * count)

    def _restart(self) -> bool:
        """Restart the program; False if it does not listen."""
        self._passed.clear()
        self._process.wait()
        self.refusals.append("the gate of this agent has ended and is restarted")
        try:
            self._begin()
        except TransportFailed:
            time.sleep(1.0)
            return False
        return True


def is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
