"""Columns that make a mixture find components that do not exist: one column twice, constant ones, coded gaps."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import compress

import numpy as np

from decbayes.columns import Column
from decbayes.columns.cells import FEW_VALUES, seem_coded
from decbayes.errors import printable
from decbayes.families import Array
from decbayes.models.core.points import ENOUGH_ROWS, LONGEST_NAME, REPEATED_ROWS, are_repeated, missing_codes
from decbayes.models.likelihoods.point_pass import PointBlocks
from decbayes.remarks import CONSTANT, Remark, listed

# Columns with a larger correlation say the same, if it is above the second in each group of neighbours.
ALIKE, AMONG_NEIGHBOURS = 0.999, 0.9
# Copies, up to rounding errors.
COPIES = 1.0 - 1e-9
# Rows to look at, the fewest to judge by, the rows and the number of groups of neighbours, and the most columns.
LOOKED_AT, LEAST_ROWS, IN_GROUP, GROUPS = 2_000, 30, 5, 10
MOST_COLUMNS = 500
# Positive values are skewed if their skewness is above the first (that of an exponential distribution), and if that of
# their logarithms is less than this share of it. Rare clusters far from the others are skewed on both scales.
SKEWED, LESS = 2.0, 0.5
# Most rows, and most numbers in them, among which to look for equal ones.
MOST_ROWS, MOST_CELLS = 5_000, 500_000


def table_remarks(
    blocks: PointBlocks, columns: Mapping[str, Column], *, correlated: bool = False
) -> tuple[Remark, ...]:
    """Remarks on the columns of a table of which some are real or counts."""
    numbers = [column.factor in ("real", "counts") for column in columns.values()]
    real = [column.factor == "real" for column in columns.values()]
    points = blocks.sample(LOOKED_AT, np.random.default_rng(0))[:, real]
    on_columns = column_remarks(blocks, columns, numbers, correlated=correlated)
    return (*on_columns, *skewed_columns(points, [*compress(columns, real)]))


def column_remarks(
    blocks: PointBlocks, columns: Iterable[str], numbers: Sequence[bool] | None = None, *, correlated: bool = False
) -> tuple[Remark, ...]:
    """Remarks on columns; where only some are real or counts, `numbers` says which.

    If columns may be `correlated` inside a component, only copies matter. The remarks leave the site: they name
    columns, and quote no value.
    """
    every = list(columns)
    chosen = [place for place in range(len(every)) if numbers is None or numbers[place]]
    if not 0 < len(chosen) <= MOST_COLUMNS or len(blocks) < LEAST_ROWS:
        return ()
    names = [printable(every[place])[:LONGEST_NAME] for place in chosen]
    points = blocks.sample(LOOKED_AT, np.random.default_rng(0))[:, chosen]
    constant = [place for place in range(len(names)) if is_constant([points[:, place]])]
    constant = [place for place in constant if is_constant(block[:, chosen[place]] for block in blocks)]
    same = [listed([names[place] for place in group]) for group in repeated(points, COPIES if correlated else ALIKE)]
    coded = [name for name, values in zip(names, points.T, strict=True) if seem_coded(values)]
    remarks = [missing_codes(coded)] if coded else []
    if same and correlated:
        remarks.append(
            Remark("repeated columns", f"Columns that are copies, up to their unit: {listed(same, '; ')}.",
                   "Keep one of each: their covariance is singular, and only the prior makes it possible to fit.")
        )  # fmt: skip
    elif same:
        remarks.append(
            Remark("repeated columns", f"Columns that say the same: {listed(same, '; ')}.",
                   "Keep one of each. Columns count as independent inside a component, so that repeated ones make "
                   "components that do not exist.", f"Their correlation is above {ALIKE}.")
        )  # fmt: skip
    if constant:
        what = f"Columns with one value in all rows: {listed([names[place] for place in constant])}."
        remarks.append(Remark(CONSTANT, what, "Leave them out, unless they vary at other sites.", "", "note"))
    return tuple(remarks)


def repeated_rows(blocks: PointBlocks, real: Sequence[bool]) -> tuple[Remark, ...]:
    """A remark if a table seems to hold its rows twice; `real` are its columns of real numbers."""
    rows = blocks.sample(min(MOST_ROWS, MOST_CELLS // len(real)), np.random.default_rng(0))
    said = len(rows) >= ENOUGH_ROWS and are_repeated(np.where(np.isnan(rows), np.inf, rows), real)
    return (REPEATED_ROWS,) if said else ()


def skewed_columns(points: Array, names: Sequence[str]) -> tuple[Remark, ...]:
    """A remark on real columns whose logarithms are described better by Gaussian components."""
    chosen = points[:, :MOST_COLUMNS].T
    skewed = [printable(name)[:LONGEST_NAME] for name, values in zip(names, chosen, strict=False) if is_skewed(values)]
    if not skewed:
        return ()
    what = f"Columns that would be much less skewed on a logarithmic scale: {listed(skewed)}."
    advice = (
        "At all sites, take logarithms (log(1 + x) if there are zeros) and fit again: components are spent on long "
        "tails, and equal sites may seem to differ."
    )
    return (Remark("skewed columns", what, advice),)


def is_skewed(values: Array) -> bool:
    known = values[~np.isnan(values)]
    positive = known[known > 0.0]
    if len(positive) < LEAST_ROWS or len(np.unique(positive)) <= FEW_VALUES or (known < 0.0).any() or seem_coded(known):
        return False
    usual = skewness(positive)
    return usual > SKEWED and abs(skewness(np.log(positive))) < LESS * usual


def skewness(values: Array) -> float:
    away = values - values.mean()
    return float(np.mean(away**3) / np.mean(away**2) ** 1.5)


def alike(points: Array, columns: Mapping[str, Column]) -> list[list[str]]:
    """The names of columns that say the same: numbers up to their unit, categories and answers in all rows."""
    names, rows = list(columns), points[:LOOKED_AT]
    numbers = [place for place, name in enumerate(names) if columns[name].factor in ("real", "counts")][:MOST_COLUMNS]
    groups = [[names[numbers[place]] for place in group] for group in repeated(rows[:, numbers], ALIKE)]
    contents: dict[bytes, list[str]] = {}
    for name, values in zip(names, points.T, strict=True):
        if columns[name].flag and len(values) >= LEAST_ROWS and not is_constant([values]):
            contents.setdefault(values.tobytes(), []).append(name)
    return groups + [group for group in contents.values() if len(group) > 1]


def is_constant(parts: Iterable[Array]) -> bool:
    """Whether a column has one value wherever it is known, and is known somewhere."""
    known = [part[~np.isnan(part)] for part in parts]
    ends = [end for part in known if len(part) for end in (part.min(), part.max())]
    return bool(ends) and min(ends) == max(ends)


def repeated(points: Array, alike: float) -> list[list[int]]:
    """Groups of columns with the same content up to their units, each with the first that has it."""
    groups: dict[int, list[int]] = {}
    pairs = np.argwhere(np.triu(np.abs(correlations(points)) > alike, 1)).tolist()
    taken: set[int] = set()
    for first, second in pairs:
        if first not in taken and second not in taken and alike_locally(points[:, first], points[:, second]):
            groups.setdefault(first, [first]).append(second)
            taken.add(second)
    return list(groups.values())


def correlations(points: Array) -> Array:
    """Correlations of columns over the rows where both are known; 0 if these are few or constant."""
    known = ~np.isnan(points)
    size = np.maximum(known.sum(axis=0), 1)
    mean = np.where(known, points, 0.0).sum(axis=0) / size
    away = np.where(known, points - mean, 0.0)
    scaled = away / np.maximum(np.abs(away).max(axis=0, initial=0.0), np.finfo(float).tiny)
    held = known.astype(float)
    both = np.maximum(held.T @ held, 1.0)
    sums, squares = scaled.T @ held, (scaled**2).T @ held
    spread = squares - sums**2 / both
    covariance = scaled.T @ scaled - sums * sums.T / both
    varied = (both >= LEAST_ROWS) & (np.minimum(spread, spread.T) > 1e-12 * both)
    return np.asarray(np.where(varied, covariance / np.sqrt(np.where(varied, spread * spread.T, 1.0)), 0.0))


def alike_locally(first: Array, second: Array) -> bool:
    """Whether the columns also go together among neighbours: clusters far apart make a correlation by themselves."""
    rows = np.flatnonzero(~np.isnan(first + second))
    order = rows[np.argsort(first[rows], kind="stable")]
    groups = np.array_split(order, min(len(order) // IN_GROUP, GROUPS))
    return all(together(first[group], second[group]) > AMONG_NEIGHBOURS for group in groups)


def together(first: Array, second: Array) -> float:
    """The size of a correlation; 1 if both are constant, 0 if only one is."""
    constant = np.ptp(first) == 0.0, np.ptp(second) == 0.0
    return float(all(constant)) if any(constant) else abs(float(np.corrcoef(first, second)[0, 1]))
