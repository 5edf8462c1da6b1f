"""Rows for a regression: complete ones of a file, and made-up ones."""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decbayes.columns import Column
from decbayes.columns.frames import names_in, values_in, warn
from decbayes.columns.values import is_missing, text_of
from decbayes.errors import InvalidData, InvalidStructure
from decbayes.families import Array
from decbayes.inputs.frames import read_frame
from decbayes.inputs.tables import Report
from decbayes.models.core.transforms import Observed
from decbayes.models.regressions.design import needed, parsed

Gaps = NDArray[np.bool_]

# In agreed units. A prior of the noise that says little allows for targets that are far away.
FAR, FAR_TARGET = 20.0, 1000.0


def asked_for(frame: Mapping[str, Any], formula: str, by: str = "") -> Mapping[str, Any]:
    """The columns that a formula names and the one that names sites, or all."""
    if by and by not in frame:
        raise InvalidData(f"There is no column '{by}' to name sites; there are {', '.join(frame)}.")
    if not formula:
        return frame
    said = parsed(formula, frame)
    check_among(said.target, list(frame))
    by = by or said.by
    return {name: frame[name] for name in [*needed(frame, said.target, said.terms), *([by] if by else [])]}


def check_among(target: str, names: Sequence[str]) -> None:
    if target not in names:
        raise InvalidStructure(f"There is no column '{target}' to predict; there are {', '.join(names)}.")


def complete(path: Path, frame: Mapping[str, Any], report: Report) -> Observed:
    """The rows of a file in which nothing is missing, and which rows these are."""
    gaps: Gaps = np.any([[is_missing(value) for value in values] for values in frame.values()], axis=0)
    report_gaps(path, gaps, report)
    whole = {name: values[~gaps] for name, values in frame.items()}
    return Observed(whole, rows=np.flatnonzero(~gaps), size=len(gaps))


def with_sites(path: Path, names: list[str], by: str) -> Mapping[str, Any]:
    """Some columns of a file, and the one that names sites if it has that."""
    frame = read_frame(path)
    if any(name not in frame for name in names):
        return read_frame(path, names)  # which says what is missing
    return {name: frame[name] for name in frame if name in names or name == by} or frame


def report_gaps(path: Path, gaps: Gaps, report: Report) -> None:
    if gaps.all():
        raise InvalidData(f"{path}: every row has a missing value, and a regression needs complete rows.")
    if gaps.any():
        report(f"{path}: {gaps.sum():,} of {len(gaps):,} rows have missing values and are left out.")


def report_far(columns: Mapping[str, Column], target: str, points: Array, report: Report = warn) -> None:
    """Priors take it that real columns are near zero, in agreed units; else they pull coefficients away."""
    for place, (name, column) in enumerate(columns.items()):
        if column.factor == "real" and len(points):
            centre, scale = column.zero_and_unit
            away = abs(float(points[:, place].mean()) - centre) / scale
            if away > (FAR_TARGET if name == target else FAR):
                report(
                    f"Column '{name}' is on average {away:.3g} agreed units from its agreed centre, where the prior "
                    "pulls coefficients to. Give it a centre and a scale, or let sites agree on them."
                )


def site_numbers(frame: Any, by: str, rows: int) -> Array:
    """A number for the site of each row, by its name in a column; NaN if there is no such column.

    The same name is the same number wherever it is met. Names themselves go nowhere.
    """
    if not by or by not in names_in(frame):
        return np.full(rows, np.nan)
    values = values_in(frame, by)
    unnamed = np.array([is_missing(value) for value in values], dtype=bool)
    if unnamed.any():
        raise InvalidData(f"{unnamed.sum():,} of {rows:,} rows do not say in '{by}' of which site they are.")
    names = list(map(text_of, values))
    numbers = {name: number_of(name) for name in set(names)}
    return np.array([numbers[name] for name in names])


def number_of(name: str) -> float:
    """48 bits, which a float holds exactly."""
    return float(int.from_bytes(blake2b(name.encode(), digest_size=6).digest(), "big"))


def told(labels: Sequence[str], parts: Mapping[str, Array]) -> list[dict[str, Any]]:
    """One row per term."""
    return [
        {"term": label, **{name: float(values[place]) for name, values in parts.items()}}
        for place, label in enumerate(labels)
    ]
