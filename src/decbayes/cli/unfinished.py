"""Fits that were interrupted: a note beside the posterior says how far it is, and the same command goes on."""

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from decbayes.files import load, save
from decbayes.inputs.texts import STANDARD_INPUT
from decbayes.models.ascent import Ascent, Fit, FitInterrupted, OnPass, Pass
from decbayes.models.model import Model
from decbayes.posterior import Posterior


class Counted:
    """Tells a bar of each pass, and remembers the last."""

    def __init__(self, bar: OnPass, begun: int = 0) -> None:
        self._bar, self.begun, self.last = bar, begun, Pass(0, 0, -np.inf)
        self.within = getattr(bar, "within", lambda done, total: None)

    def __call__(self, reached: Pass) -> None:
        self.last = reached
        self._bar(replace(reached, number=reached.number + (0 if reached.restart else self.begun)))


@dataclass(frozen=True)
class Unfinished:
    """The state that a command had reached when it was interrupted."""

    posterior: Posterior
    passes: int
    starts: int

    @classmethod
    def of(cls, output: Path, command: str) -> "Unfinished | None":
        """What an earlier run of the same command has left, if nothing has changed it since."""
        try:
            note = json.loads(note_of(output).read_text(encoding="utf-8"))
            left = cls(load(output), int(note["passes"]), int(note["starts"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return left if (note.get("command"), note.get("posterior")) == (command, left.posterior.digest) else None

    def save(self, output: Path, command: str) -> None:
        save(self.posterior, output)
        said = {"command": command, "posterior": self.posterior.digest, "passes": self.passes, "starts": self.starts}
        note_of(output).write_text(json.dumps(said), encoding="utf-8")


def note_of(output: Path) -> Path:
    return output.with_name(f"{output.name}.unfinished")


def named(kind: type[Model], data: Sequence[Path], options: Mapping[str, Any]) -> str:
    """A name for a command: the same options and files that have not been written since."""
    files = [[str(path.resolve()), *state_of(path)] for path in data]
    said = [kind.__name__, files, sorted(map(repr, options.items()))]
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()


def state_of(path: Path) -> list[int]:
    """What changes when somebody writes to a file; nobody knows whether standard input has changed."""
    if path == STANDARD_INPUT:
        return [time.time_ns()]
    state = path.stat()
    return [state.st_size, state.st_mtime_ns]


def fit_on(model: Model, observations: Any, left: Unfinished | None, seed: int, report: Counted, **where: Any) -> Fit:
    """A fit; or the rest of one, and the starts that it had still to try."""
    if left is None:
        return model.fit(observations, rng=np.random.default_rng(seed), progress=report, **where)
    ascent: Ascent = model.ascent
    begun = where.get("start")
    rest = replace(model, ascent=replace(ascent, passes=max(1, ascent.passes - left.passes)))
    where["start"] = left.posterior
    best = rest.fit(observations, rng=np.random.default_rng(seed), progress=report, **where)
    further = ascent.restarts - left.starts if begun is None else 0
    if further <= 0:
        return best
    del where["start"]
    others = replace(model, ascent=replace(ascent, restarts=further - 1))
    try:
        found = others.fit(observations, rng=np.random.default_rng([seed, left.starts]), progress=report, **where)
    except FitInterrupted as interruption:
        raise FitInterrupted(better(best, interruption.fit)) from None
    return better(best, found)


def better(first: Fit, second: Fit) -> Fit:
    return second if second.bound and second.bound[-1] > first.bound[-1] else first
