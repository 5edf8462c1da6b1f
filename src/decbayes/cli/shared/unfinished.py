"""Resume interrupted fits: a folder beside the posterior keeps the state, and the same command continues.

If the model can save all of its state, the result has the same bits as without the interruption. Otherwise the fit
continues from the posterior. The folder is for this site only: nothing in it is hidden.
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


class PassRecorder:
    """Passes each state to a progress bar and remembers the last."""

    def __init__(self, bar: OnPass, begun: int = 0, left: Paused | None = None) -> None:
        self._bar, self.begun, self.left, self.last = bar, begun, left, Pass(0, 0, -np.inf)
        self.within = getattr(bar, "within", lambda done, total: None)

    def __call__(self, state: Pass) -> None:
        self.last = state
        self._bar(replace(state, number=state.number + (0 if state.restart else self.begun)))


@dataclass(frozen=True)
class Unfinished:
    """The state of a command at its interruption."""

    posterior: Posterior
    passes: int
    starts: int
    paused: Paused | None = None

    @classmethod
    def of(cls, output: Path, command: str) -> "Unfinished | None":
        """The state that an earlier run of the same command left, unless the output has changed since."""
        folder = folder_of(output)
        try:
            note = json.loads((folder / NOTE).read_text(encoding="utf-8"))
            paused = None if note["paused"] is None else read_state(note["paused"], folder)
            state = cls(load(folder / STATE), int(note["passes"]), int(note["starts"]), paused)
            unchanged = note["draft"] == load(output).digest
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return state if unchanged and note.get("command") == command else None

    @classmethod
    def after(cls, report: PassRecorder, interruption: FitInterrupted, resumed: "Unfinished | None") -> "Unfinished":
        """The state of an interrupted fit, which may itself have resumed an earlier one."""
        paused, last = interruption.paused, report.last
        if paused is not None:
            return cls(interruption.fit.posterior, len(paused.bound), paused.restart, paused)
        done = last.number + (report.begun if not last.restart else 0)
        return cls(interruption.fit.posterior, done, (resumed.starts if resumed else 0) + last.restart)

    def recorder(self, bar: OnPass) -> PassRecorder:
        return PassRecorder(bar, self.passes if self.paused is None else 0, self.paused)

    def save(self, output: Path, command: str, draft: Posterior) -> None:
        """Save the state, and which draft of it is in the output."""
        note = {"command": command, "draft": draft.digest, "passes": self.passes, "starts": self.starts}
        folder, draft_folder = folder_of(output), output.with_name(f"{output.name}.unfinished.part")
        shutil.rmtree(draft_folder, ignore_errors=True)
        draft_folder.mkdir(mode=0o700)
        # No disclosure rules apply: it is private to this site and no result.
        write_whole(draft_folder / STATE, to_bytes(self.posterior), private=True)
        note["paused"] = None if self.paused is None else write_state(self.paused, draft_folder, "state")
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


def write_state(paused: Paused, folder: Path, name: str) -> dict[str, Any]:
    """A state for the note; its arrays are written beside the note."""
    for array, values in paused.state.items():
        write_array(folder / f"{name}-{array}.npy", values)
    best = None if paused.best is None else write_state(paused.best, folder, "best")
    plain = {"restart": paused.restart, "bound": paused.bound, "converged": paused.converged}
    return {**plain, "name": name, "arrays": list(paused.state), "best": best}


def write_array(path: Path, values: Any) -> None:
    """As `numpy.save`, but block by block if the array is in a file."""
    if not isinstance(values, FileArray):
        np.save(path, values, allow_pickle=False)
        return
    header = {"descr": values.dtype.str, "fortran_order": False, "shape": values.shape}
    with path.open("wb") as file:
        np.lib.format.write_array_header_2_0(file, header)
        for first in range(0, len(values), ROWS):
            file.write(values[first : first + ROWS].tobytes())


def read_state(note: Mapping[str, Any], folder: Path) -> Paused:
    state = {array: open_array(folder / f"{note['name']}-{array}.npy") for array in note["arrays"]}
    best = None if note["best"] is None else read_state(note["best"], folder)
    return Paused(int(note["restart"]), tuple(map(float, note["bound"])), state, bool(note["converged"]), best)


def open_array(path: Path) -> Any:
    """An array whose rows are read on demand."""
    mapped = np.load(path, mmap_mode="r", allow_pickle=False)
    return FileArray.of_map(mapped) or np.array(mapped)


def command_key(kind: type[Model], data: Sequence[Path], options: Mapping[str, Any]) -> str:
    """A key for a command that is the same for the same options and unchanged files."""
    files = [[str(path.resolve()), *state_of(path)] for path in data]
    parts = [kind.__name__, files, sorted(map(repr, options.items()))]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def state_of(path: Path) -> list[int]:
    """Numbers that change when a file is written; standard input always counts as changed."""
    if path == STANDARD_INPUT:
        return [time.time_ns()]
    states = [inner.stat() for inner in sorted(path.rglob("*")) if inner.is_file()] if path.is_dir() else [path.stat()]
    return [len(states), *(number for state in states for number in (state.st_size, state.st_mtime_ns))]


def fit_or_resume(
    model: Model, observations: Any, left: Unfinished | None, seed: int, report: PassRecorder, **where: Any
) -> Fit:
    """Fit a model, or resume an interrupted fit and the starts that it had not tried."""
    whole = type(model).fit_site is not Model.fit_site  # such a model makes its broadcast at the end of a fit
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
