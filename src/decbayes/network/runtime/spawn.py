"""Agents in processes of their own, for demonstrations and tests."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Any, ClassVar

from decbayes.errors import TransportFailed
from decbayes.network.protocol.group.charter import Charter
from decbayes.network.protocol.group.keys import Identity

START_SECONDS = 60.0
STOP_SECONDS = 10.0


class AgentProcess:
    """One running `decbayes agent`, which ends with this process in any case."""

    def __init__(self, name: str, folder: Path, arguments: Sequence[str], prefix: Sequence[str] = ()) -> None:
        self.name, self.log = name, folder / f"{name}.log"
        with self.log.open("ab") as log:
            self._earlier = log.tell()
            self.process = self.begin(["agent", *arguments, "--stop-with-stdin"], prefix, log)

    def begin(self, arguments: Sequence[str], prefix: Sequence[str], log: IO[bytes]) -> subprocess.Popen[bytes]:
        """Start a command that writes to the log."""
        command = [*prefix, sys.executable, "-m", "decbayes", *arguments]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log)

    def events(self, event: str) -> list[dict[str, Any]]:
        """Its logged events with this name."""
        return [line for line in self._lines() if line["event"] == event]

    def endpoint(self) -> str:
        """The endpoint at which it listens; waits until it does."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            listening = self.events("listening")
            if listening:
                return str(listening[-1]["endpoints"][0])
            if self.process.poll() is not None:
                raise TransportFailed(f"The agent '{self.name}' has ended: {self.log.read_text()[-500:].strip()}")
            time.sleep(0.02)
        raise TransportFailed(f"The agent '{self.name}' does not listen after {START_SECONDS:.0f} s; see {self.log}.")

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        """Kill it, as a power cut would."""
        self.process.kill()
        self._reap()

    def stop(self) -> int:
        """Ask it to stop and wait; a process that does not stop is killed."""
        self.process.terminate()
        try:
            return self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()
        finally:
            self._reap()

    def _reap(self) -> None:
        self.process.wait()
        if self.process.stdin is not None:
            self.process.stdin.close()

    def _lines(self) -> Iterator[dict[str, Any]]:
        """The log lines since its start, without incomplete lines and errors that are not JSON."""
        for line in self.log.read_bytes()[self._earlier :].splitlines():
            try:
                yield json.loads(line)
            except ValueError:
                continue


@dataclass
class Party:
    """A context manager for a group of agent processes in one folder, which stops all of them."""

    folder: Path
    charter: Charter
    agents: dict[str, AgentProcess] = field(default_factory=dict)
    process: ClassVar[type[AgentProcess]] = AgentProcess

    def prepare(self, identities: dict[str, Identity]) -> None:
        self.charter.save(self.charter_file)
        for name, identity in identities.items():
            identity.save(self.folder / f"{name}.key")

    @property
    def charter_file(self) -> Path:
        return self.folder / "group.toml"

    def start(self, name: str, *arguments: str, prefix: Sequence[str] = ()) -> AgentProcess:
        """Start a member, with further arguments of `decbayes agent`."""
        files = ["--key", str(self.folder / f"{name}.key"), "--store", str(self.folder / f"{name}.store")]
        agent = self.process(name, self.folder, [str(self.charter_file), *files, *arguments], prefix)
        self.agents[name] = agent
        return agent

    def __enter__(self) -> "Party":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        running = [agent for agent in self.agents.values() if agent.running]
        for agent in running:
            agent.process.terminate()
        for agent in running:
            agent.stop()
