"""Rows for a regression: complete ones of a file, and made-up ones."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decbayes.columns import Categorical, Column, Gaussian, Poisson, YesNo
from decbayes.columns.kinds import is_missing
from decbayes.errors import InvalidData
from decbayes.families import Array
from decbayes.inputs.frames import read_frame
from decbayes.inputs.tables import Report
from decbayes.models.design import needed, parsed
from decbayes.models.transforms import Observed

Gaps = NDArray[np.bool_]


def complete(path: Path, frame: Mapping[str, Any], formula: str, report: Report) -> dict[str, Any]:
    """The columns of a file that are needed, without rows in which something is missing."""
    names = list(frame)
    if formula:
        target, terms, _ = parsed(formula, frame)
        names = needed(frame, target, terms)
    gaps: Gaps = np.any([[is_missing(value) for value in frame[name]] for name in names], axis=0)
    report_gaps(path, gaps, report)
    return {name: frame[name][~gaps] for name in names}


def predictors(path: Path, names: list[str], report: Report) -> Observed:
    """The complete rows of some columns of a file, and which rows these are."""
    frame = read_frame(path, names)
    gaps: Gaps = np.any([[is_missing(value) for value in frame[name]] for name in names], axis=0)
    report_gaps(path, gaps, report)
    whole = {name: values[~gaps] for name, values in frame.items()}
    return Observed(whole, rows=np.flatnonzero(~gaps), size=len(gaps))


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
