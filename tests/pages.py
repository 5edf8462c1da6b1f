"""Runs a page of the documentation as a reader would: Python blocks and decbayes commands in order, in one folder."""

import contextlib
import io
import os
import random
import re
import shlex
import socket
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import forked
import pytest

from decbayes.cli import app, main
from paper.command import app as paper

# What a block prints is shown right below it, if at all.
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"(\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?)")
LEFT_OUT = "…"
# Fingerprints, which depend on last bits; and what rests on simulations, which are brief in tests.
DIGEST = re.compile(r"\b(?=[a-f]*\d)[0-9a-f]{8,}\b")
SIMULATED = re.compile(
    r"\(≥?\d+%\)|simulated sites|expected to be wrong|^ +\d +[\d.]+ +(?:about|below) [\d.]+ +\w+ [\d.]+ +-?[\d.]+$"
)
SUBSTITUTION = re.compile(r"\$\(decbayes ([^)]*)\)")
PORT = "7447"

# Libraries that make test does not install everywhere: blocks about them are left out where they are missing.
OPTIONAL = ("gensim", "tomotopy", "numpyro", "hmmlearn", "stepmix", "pyLDAvis")
# Commands that take long or never end by themselves: they are parsed, not run.
LONG = ("demo", "simulate")
PATIENCE = 60.0  # seconds until agents must have heard of each other


@dataclass
class Reader:
    """Somebody who follows a page: the names that Python knows, what commands printed, the agents that run."""

    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "__page__"})
    printed: list[str] = field(default_factory=list)
    agents: list[Any] = field(default_factory=list)
    port: str = PORT
    said: io.StringIO = field(default_factory=io.StringIO)
    skipped: bool = False
    """Whether a block was left out, since its library is missing."""
    unlike: list[str] = field(default_factory=list)
    """Lines that the page shows as output and nothing printed."""

    def follow(self, page: Path) -> None:
        text = page.read_text(encoding="utf-8")
        self.port = free_port()
        try:
            for block in BLOCK.finditer(text):
                line, self.said = text[: block.start(2)].count("\n"), io.StringIO()
                with contextlib.redirect_stdout(self.said), contextlib.redirect_stderr(self.said):
                    self.run_python(block[2], page, line) if block[1] == "python" else self.run_shell(block[2])
                if block[3] is not None and not self.skipped:
                    self.unlike += [f"{page.name}: {shown}" for shown in unlike(block[3], self.said.getvalue())]
        finally:
            self.stop_agents()

    def run_python(self, source: str, page: Path, line: int) -> None:
        try:
            exec(compile("\n" * line + source, str(page), "exec"), self.names)
        except ModuleNotFoundError as error:
            if error.name not in OPTIONAL:
                raise
            self.skipped = True

    def run_shell(self, source: str) -> None:
        for command in source.replace("\\\n", " ").replace(PORT, self.port).splitlines():
            if command.startswith("python -m paper "):
                paper.parse_args(shlex.split(command, comments=True)[3:], exit_on_error=False, print_error=False)
            elif command.startswith("decbayes "):
                self.run_command(SUBSTITUTION.sub(lambda inner: self.answer(shlex.split(inner[1])).strip(), command))

    def run_command(self, command: str) -> None:
        words = shlex.split(command, comments=True)[1:]
        if words[0] == "agent":
            self.start_agent(words)
        elif words[0] == "posterior" and "--agent" in words:
            self.printed.append(self.answer_of_all(words))
        elif words[0] in LONG:
            app.parse_args(words, exit_on_error=False, print_error=False)
        else:
            self.printed.append(self.answer(words))

    def answer(self, words: list[str]) -> str:
        """What a command prints; it must succeed."""
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), pytest.raises(SystemExit) as end:
            main(words)
        self.said.write(printed.getvalue())
        assert not end.value.code, f"decbayes {shlex.join(words)}: {end.value.code}\n{self.said.getvalue()}"
        return printed.getvalue()

    def start_agent(self, words: list[str]) -> None:
        """In a process of its own, as in a terminal of its own; it ends when its standard input does."""
        words = [word for word in words if word != "&"]
        with Path(os.devnull).open("wb") as nowhere:
            self.agents.append(forked.start([*words, "--stop-with-stdin"], output=nowhere))

    def answer_of_all(self, words: list[str]) -> str:
        """The answer once everybody has been heard of."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            assert all(agent.poll() is None for agent in self.agents), "an agent has ended by itself"
            with contextlib.suppress(AssertionError):
                answer = self.answer(words)
                if re.search(r"missing +none", answer):
                    return answer
            time.sleep(0.2)
        raise AssertionError(f"decbayes {shlex.join(words)}: not everybody was heard of in {PATIENCE} seconds")

    def stop_agents(self) -> None:
        for agent in self.agents:
            agent.stdin.close()
        for agent in self.agents:
            try:
                agent.wait(timeout=10)
            except subprocess.TimeoutExpired:
                agent.kill()
                agent.wait()


def unlike(shown: str, printed: str) -> list[str]:
    """The lines of a block that were not printed, in any order; words may be wrapped elsewhere."""
    words = DIGEST.sub("", printed).split()
    lines = [line for line in shown.splitlines() if not SIMULATED.search(line)]
    return [line for line in lines if not found(DIGEST.sub("", line), words)]


def found(line: str, words: list[str]) -> bool:
    """Whether words of a line were printed next to each other; what stands for … is not compared."""
    return all(
        any(map(same, [words[place : place + len(part)] for place in range(len(words))], [part] * len(words)))
        for part in (piece.split() for piece in line.split(LEFT_OUT))
        if part
    )


def same(printed: list[str], shown: list[str]) -> bool:
    """Whether all words are the same; a number may differ in its last digit, as between processors."""
    if len(printed) != len(shown):
        return False
    for ours, theirs in zip(map(NUMBER.split, printed), map(NUMBER.split, shown), strict=True):
        if ours[::2] != theirs[::2] or not all(map(close, ours[1::2], theirs[1::2])):
            return False
    return True


def close(printed: str, shown: str) -> bool:
    """Whether two numbers are the same, but for one in the last digit of a fraction."""
    if printed == shown:
        return True
    one, other = (number.replace(",", "") for number in (printed, shown))
    fraction = re.search(r"\.(\d+)", other)
    step = 10.0 ** -len(fraction[1]) if fraction and "e" not in other else 0.0
    return abs(float(one) - float(other)) <= 1.01 * step


def free_port() -> str:
    """A port that nothing listens at, and that no connection of another test is given meanwhile: those are higher."""
    for port in random.Random(os.getpid()).sample(range(20_000, 30_000), 100):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return str(port)
    raise AssertionError("a hundred ports are taken")
