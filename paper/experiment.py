"""What an experiment is, and the loop that runs one: task by task, saving each, resuming where it was stopped."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from decbayes.errors import DecbayesError
from paper.claims import Claim
from paper.table import Measurement, Row, Table, read_table, versions, write_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Task:
    """A piece of work that is kept or lost as a whole: part of one trial, independent of all other tasks."""

    name: str
    trial: int
    work: Callable[[], list[Measurement]]


class Experiment(Protocol):
    """A figure of the paper: frozen settings, and what to compute, draw and claim."""

    label: ClassVar[str]
    caption: ClassVar[str]

    @property
    def name(self) -> str: ...

    @property
    def trials(self) -> int: ...

    @property
    def seed(self) -> int: ...

    def settings(self) -> Mapping[str, Any]:
        """What makes results comparable: with other settings a table is not continued."""

    def tasks(self) -> Sequence[Task]: ...

    def draw(self, table: Table) -> "Figure": ...

    def claims(self, table: Table) -> list[Claim]: ...


class OtherSettings(DecbayesError):
    """A table in the way, made with other settings."""


class NotRunYet(DecbayesError):
    """A drawing asked for before there is a table."""


OnTask = Callable[[int, int, str], None]
"""Called with the number of finished tasks, of all tasks, and the name of the one that begins."""


def settings_of(experiment: Any, *left_out: str) -> dict[str, Any]:
    """An experiment's fields as plain values, without those that only say how far or where to run it."""
    plain = {name: value for name, value in asdict(experiment).items() if name not in {"trials", *left_out}}
    return dict(json.loads(json.dumps(plain)))


@dataclass(frozen=True)
class TrialByTrial(ABC):
    """What figures share whose trials are one task each, and all of whose fields are settings."""

    trials: int = 20
    seed: int = 0

    def settings(self) -> Mapping[str, Any]:
        return settings_of(self)

    def tasks(self) -> Sequence[Task]:
        return [Task(f"trial {trial}", trial, partial(self._trial, trial)) for trial in range(self.trials)]

    @abstractmethod
    def _trial(self, trial: int) -> list[Measurement]: ...


def run(experiment: Experiment, folder: Path, progress: OnTask | None = None) -> Table:
    """Run the tasks that are not in the folder's CSV yet, saving after each; the table of this run's trials.

    Ctrl-C loses the task at hand only; the same call goes on from there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{experiment.name}.csv"
    table = earlier_rows(experiment, path)
    tasks = experiment.tasks()
    done = set(table.distinct("task"))
    for number, task in enumerate(tasks):
        if task.name not in done:
            if progress is not None:
                progress(number, len(tasks), task.name)
            table = table.extended(stamped(experiment.seed, task))
            write_table(table, path)
    return of_tasks(table, tasks)


def redraw(experiment: Experiment, folder: Path) -> Table:
    """The rows that the folder already holds for this experiment; nothing is computed."""
    path = folder / f"{experiment.name}.csv"
    if not path.is_file():
        raise NotRunYet(f"There is no {path} to draw from. Run the experiment first, without --redraw.")
    return of_tasks(earlier_rows(experiment, path), experiment.tasks())


def earlier_rows(experiment: Experiment, path: Path) -> Table:
    """What an earlier run has left, if it had the same settings; they are kept in a JSON file beside the table."""
    beside = path.with_suffix(".json")
    wanted = dict(experiment.settings())
    if not (path.exists() and beside.exists()):
        beside.write_text(json.dumps(wanted, indent=2, sort_keys=True) + "\n", encoding="utf-8")
        return Table()
    found = json.loads(beside.read_text(encoding="utf-8"))
    if found != wanted:
        differing = ", ".join(sorted(differences(found, wanted)))
        raise OtherSettings(
            f"{path} was made with other settings ({differing}). Give another --out folder, or delete that file."
        )
    return read_table(path)


def differences(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> Iterator[str]:
    for name in found.keys() | wanted.keys():
        if found.get(name) != wanted.get(name):
            yield f"{name} {found.get(name)} there, {wanted.get(name)} here"


def stamped(seed: int, task: Task) -> list[Row]:
    """Do a task's work and say on each row where it came from."""
    return [
        Row(
            task=task.name,
            seed=seed,
            trial=task.trial,
            setting=found.setting,
            method=found.method,
            member=found.member,
            measure=found.measure,
            value=float(found.value),
            seconds=round(float(found.seconds), 6),
            versions=versions(),
        )
        for found in task.work()
    ]


def of_tasks(table: Table, tasks: Sequence[Task]) -> Table:
    """Only the rows of these tasks: a table may hold more trials than were asked for."""
    names = {task.name for task in tasks}
    return Table(tuple(row for row in table.rows if row.task in names))
