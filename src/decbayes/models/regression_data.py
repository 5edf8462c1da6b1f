"""Rows for a regression: complete ones of a file, and made-up ones."""

from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decbayes.columns import Categorical, Column, Gaussian, Poisson, YesNo
from decbayes.columns.frames import names_in, values_in
from decbayes.columns.kinds import is_missing, text_of
from decbayes.errors import InvalidData
from decbayes.families import Array
from decbayes.inputs.frames import read_frame
from decbayes.inputs.tables import Report
from decbayes.models.formulas import needed, parsed
from decbayes.models.transforms import Observed

Gaps = NDArray[np.bool_]


def complete(path: Path, frame: Mapping[str, Any], formula: str, report: Report) -> dict[str, Any]:
    """The columns of a file that are needed, without rows in which something is missing."""
    names = list(frame)
    if formula:
        said = parsed(formula, frame)
        names = [*needed(frame, said.target, said.terms), *([said.by] if said.by else [])]
    gaps: Gaps = np.any([[is_missing(value) for value in frame[name]] for name in names], axis=0)
    report_gaps(path, gaps, report)
    return {name: frame[name][~gaps] for name in names}


def predictors(path: Path, names: list[str], by: str, report: Report) -> Observed:
    """The complete rows of some columns of a file, and which rows these are; with the names of sites if there are."""
    frame = with_sites(path, names, by)
    gaps: Gaps = np.any([[is_missing(value) for value in frame[name]] for name in names], axis=0)
    report_gaps(path, gaps, report)
    whole = {name: values[~gaps] for name, values in frame.items()}
    return Observed(whole, rows=np.flatnonzero(~gaps), size=len(gaps))


def with_sites(path: Path, names: list[str], by: str) -> Mapping[str, Any]:
    """Some columns of a file, and the one that names sites if it has that."""
    frame = read_frame(path)
    if any(name not in frame for name in names):
        return read_frame(path, names)  # which says what is missing
    return {name: frame[name] for name in frame if name in names or name == by}


def report_gaps(path: Path, gaps: Gaps, report: Report) -> None:
    if gaps.all():
        raise InvalidData(f"{path}: every row has a missing value, and a regression needs complete rows.")
    if gaps.any():
        report(f"{path}: {gaps.sum():,} of {len(gaps):,} rows have missing values and are left out.")


def made_up(column: Column, size: int, rng: np.random.Generator) -> Array:
    """Values that a column might hold."""
    if isinstance(column, Categorical):
        return rng.integers(len(column.categories), size=size).astype(np.float64)
    if isinstance(column, YesNo):
        return rng.integers(2, size=size).astype(np.float64)
    if isinstance(column, Poisson):
        return rng.poisson(column.mean, size=size).astype(np.float64)
    assert isinstance(column, Gaussian)
    return rng.normal(column.centre, column.scale, size=size)


def site_numbers(frame: Any, by: str, rows: int, *, gaps: bool = False) -> Array:
    """A number for the site of each row, by its name in a column; NaN if there is none, and no row says which.

    The same name is the same number wherever it is met. Names themselves go nowhere.
    """
    if not by or by not in names_in(frame):
        return np.full(rows, np.nan)
    values = values_in(frame, by)
    unnamed = np.array([is_missing(value) for value in values], dtype=bool)
    if unnamed.any() and not gaps:
        raise InvalidData(f"{unnamed.sum():,} of {rows:,} rows do not say in '{by}' of which site they are.")
    numbers = {value: number_of(value) for value in {text_of(value) for value in values[~unnamed]}}
    return np.array([np.nan if gap else numbers[text_of(v)] for v, gap in zip(values, unnamed, strict=True)])


def number_of(name: str) -> float:
    """48 bits, which a float holds exactly."""
    return float(int.from_bytes(blake2b(name.encode(), digest_size=6).digest(), "big"))
