"""Tidy tables: one measurement per row, in a CSV file that is replaced whole, so that it is never half written."""

import csv
import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import decbayes
from decbayes.errors import InvalidFile
from decbayes.families import Array


@dataclass(frozen=True)
class Measurement:
    """One number: `measure` of `method` in one `setting`; `member` counts agents, restarts or draws."""

    method: str
    measure: str
    value: float
    seconds: float = 0.0
    setting: str = ""
    member: int = 0


@dataclass(frozen=True)
class Row:
    """A measurement, where it came from, and what it was made with."""

    task: str
    seed: int
    trial: int
    setting: str
    method: str
    member: int
    measure: str
    value: float
    seconds: float
    versions: str


COLUMNS = tuple(field.name for field in fields(Row))


@dataclass(frozen=True)
class Table:
    """The rows of one experiment, in the order in which they were measured."""

    rows: tuple[Row, ...] = ()

    def where(self, **wanted: Any) -> "Table":
        """The rows whose columns have the wanted values."""
        chosen = (row for row in self.rows if all(getattr(row, name) == value for name, value in wanted.items()))
        return Table(tuple(chosen))

    def values(self, **wanted: Any) -> Array:
        return np.array([row.value for row in self.where(**wanted).rows])

    def seconds(self, **wanted: Any) -> Array:
        return np.array([row.seconds for row in self.where(**wanted).rows])

    def median(self, **wanted: Any) -> float:
        """The median value; NaN where there is no such row, so that no claim about it can hold."""
        values = self.values(**wanted)
        return float(np.median(values)) if len(values) else float("nan")

    def distinct(self, column: str) -> list[Any]:
        """The values of a column, in order of first appearance."""
        return list(dict.fromkeys(getattr(row, column) for row in self.rows))

    def extended(self, rows: Iterable[Row]) -> "Table":
        return Table((*self.rows, *rows))


def write_table(table: Table, path: Path) -> None:
    """Replace the file in one step: readers, and a run that is killed, see the old rows or the new ones."""
    partial = path.with_name(path.name + ".partial")
    with partial.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        writer.writerows([getattr(row, column) for column in COLUMNS] for row in table.rows)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def read_table(path: Path) -> Table:
    """The table that `write_table` wrote."""
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.reader(file)
        header = next(reader, [])
        if tuple(header) != COLUMNS:
            raise InvalidFile(f"{path} has the columns {header}, not {list(COLUMNS)}. Was it made by another version?")
        return Table(tuple(parse_row(cells, path) for cells in reader))


def parse_row(cells: Sequence[str], path: Path) -> Row:
    try:
        values = [field.type(cell) for field, cell in zip(fields(Row), cells, strict=True)]  # type: ignore[operator]
    except ValueError as error:
        raise InvalidFile(f"{path} holds a row that is no measurement: {list(cells)} ({error}).") from None
    return Row(*values)


@cache
def versions() -> str:
    """What the numbers were made with."""
    packages = ("numpy", "scipy", "numba")
    parts = [f"decbayes {decbayes.__version__}", f"python {platform.python_version()}"]
    return " ".join([*parts, *(f"{package} {version(package)}" for package in packages)])
