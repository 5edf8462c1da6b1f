"""Fits that were interrupted: a folder beside the posterior says how far it is, and the same command goes on.

A fit whose model can say all of its state ends with the bits that it would have had without an interruption. Others
go on from the posterior. The folder is for this site only: nothing is hidden in it.
"""

import hashlib
import json
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from decbayes.base.writing import write_whole
from decbayes.files import load, to_bytes
from decbayes.inputs.filed import FileArray
from decbayes.inputs.large import ROWS
from decbayes.inputs.texts import STANDARD_INPUT
from decbayes.models.core.ascent import Ascent, Fit, FitInterrupted, OnPass, Pass, Paused
from decbayes.models.core.model import Model
from decbayes.posterior import Posterior
from decbayes.remarks import Remark

NOTE, STATE = "note.json", "best.posterior"
UNFINISHED = Remark(
    "unfinished", "The fit was interrupted before it had converged.", "Run its command again to finish it."
)


class Counted:
    """Tells a bar of each pass, and remembers the last."""

    def __init__(self, bar: OnPass, begun: int = 0, left: Paused | None = None) -> None:
        self._bar, self.begun, self.left, self.last = bar, begun, left, Pass(0, 0, -np.inf)
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
    paused: Paused | None = None

    @classmethod
    def of(cls, output: Path, command: str) -> "Unfinished | None":
        """What an earlier run of the same command has left, if nothing has changed it since."""
        folder = folder_of(output)
        try:
            note = json.loads((folder / NOTE).read_text(encoding="utf-8"))
            paused = None if note["paused"] is None else opened(note["paused"], folder)
            left = cls(load(folder / STATE), int(note["passes"]), int(note["starts"]), paused)
            unchanged = note["draft"] == load(output).digest
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return left if unchanged and note.get("command") == command else None

    @classmethod
    def after(cls, report: Counted, interruption: FitInterrupted, left: "Unfinished | None") -> "Unfinished":
        """The state of an interrupted fit, which may itself have continued an earlier one."""
        paused, reached = interruption.paused, report.last
        if paused is not None:
            return cls(interruption.fit.posterior, len(paused.bound), paused.restart, paused)
        done = reached.number + (report.begun if not reached.restart else 0)
        return cls(interruption.fit.posterior, done, (left.starts if left else 0) + reached.restart)

    def counted(self, bar: OnPass) -> Counted:
        return Counted(bar, self.passes if self.paused is None else 0, self.paused)

    def save(self, output: Path, command: str, draft: Posterior) -> None:
        """Keep the state, and which draft of it is in the output."""
        note = {"command": command, "draft": draft.digest, "passes": self.passes, "starts": self.starts}
        folder, draft_folder = folder_of(output), output.with_name(f"{output.name}.unfinished.part")
        shutil.rmtree(draft_folder, ignore_errors=True)
        draft_folder.mkdir(mode=0o700)
        # No disclosure rules are applied to it: nobody else may read it, and it is no result.
        write_whole(draft_folder / STATE, to_bytes(self.posterior), private=True)
        note["paused"] = None if self.paused is None else written(self.paused, draft_folder, "state")
        (draft_folder / NOTE).write_text(json.dumps(note), encoding="utf-8")
        forget(output)
        if folder.is_file():
            folder.unlink()
        draft_folder.rename(folder)


def folder_of(output: Path) -> Path:
    return output.with_name(f"{output.name}.unfinished")


def forget(output: Path) -> None:
    """Remove the state of an interrupted fit."""
    if (folder_of(output) / NOTE).is_file():
        shutil.rmtree(folder_of(output))


def written(paused: Paused, folder: Path, name: str) -> dict[str, Any]:
    """A state as a note holds it; its arrays are written beside the note."""
    for array, values in paused.state.items():
        write_array(folder / f"{name}-{array}.npy", values)
    best = None if paused.best is None else written(paused.best, folder, "best")
    plain = {"restart": paused.restart, "bound": paused.bound, "converged": paused.converged}
    return {**plain, "name": name, "arrays": list(paused.state), "best": best}


def write_array(path: Path, values: Any) -> None:
    """As `numpy.save` does, some rows at a time where the array lies in a file."""
    if not isinstance(values, FileArray):
        np.save(path, values, allow_pickle=False)
        return
    header = {"descr": values.dtype.str, "fortran_order": False, "shape": values.shape}
    with path.open("wb") as file:
        np.lib.format.write_array_header_2_0(file, header)
        for first in range(0, len(values), ROWS):
            file.write(values[first : first + ROWS].tobytes())


def opened(note: Mapping[str, Any], folder: Path) -> Paused:
    state = {array: open_array(folder / f"{note['name']}-{array}.npy") for array in note["arrays"]}
    best = None if note["best"] is None else opened(note["best"], folder)
    return Paused(int(note["restart"]), tuple(map(float, note["bound"])), state, bool(note["converged"]), best)


def open_array(path: Path) -> Any:
    """An array whose rows are read when they are needed."""
    mapped = np.load(path, mmap_mode="r", allow_pickle=False)
    return FileArray.of_map(mapped) or np.array(mapped)


def named(kind: type[Model], data: Sequence[Path], options: Mapping[str, Any]) -> str:
    """A key for a command: the same for the same options and unchanged files."""
    files = [[str(path.resolve()), *state_of(path)] for path in data]
    parts = [kind.__name__, files, sorted(map(repr, options.items()))]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def state_of(path: Path) -> list[int]:
    """Numbers that change when a file is written; standard input always counts as changed."""
    if path == STANDARD_INPUT:
        return [time.time_ns()]
    states = [inner.stat() for inner in sorted(path.rglob("*")) if inner.is_file()] if path.is_dir() else [path.stat()]
    return [len(states), *(number for state in states for number in (state.st_size, state.st_mtime_ns))]


def fit_on(model: Model, observations: Any, left: Unfinished | None, seed: int, report: Counted, **where: Any) -> Fit:
    """A fit; or the rest of one, and the starts that it had still to try."""
    whole = type(model).fit_site is not Model.fit_site  # what such a model broadcasts is made at the end of a fit
    if not where and (left is None or whole):
        return model.fit_site(observations, rng=np.random.default_rng(seed), progress=report)
    if left is None or left.paused is not None:
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
        further_fit = others.fit(observations, rng=np.random.default_rng([seed, left.starts]), progress=report, **where)
    except FitInterrupted as interruption:
        raise FitInterrupted(better(best, interruption.fit)) from None
    return better(best, further_fit)


def better(first: Fit, second: Fit) -> Fit:
    return second if second.bound and second.bound[-1] > first.bound[-1] else first
