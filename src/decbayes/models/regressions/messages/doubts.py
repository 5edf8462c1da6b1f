"""What to know about the fit of one site's rows before others rely on it."""

from collections.abc import Collection, Iterator, Mapping

import numpy as np
from scipy.special import gammaincc

from decbayes.columns import Column
from decbayes.columns.cells import FEW_VALUES, seem_coded
from decbayes.errors import printable
from decbayes.families import Array
from decbayes.models.core.points import ENOUGH_ROWS, LONGEST_NAME, REPEATED_ROWS, are_repeated, missing_codes
from decbayes.remarks import CONSTANT, FAR_VALUES, REPEATED, ROUND, UNEVEN, Remark, listed

# With fewer events (or non-events) per coefficient, the expansion around a site's own estimate is rough.
LEAST_EVENTS = 5.0
# Most rows in which to search for a separating plane.
MANY_ROWS = 20_000
# Variance ratio above which intervals are clearly too narrow; and the p-value that this needs.
CLEARLY_MORE, SURE = 1.2, 1e-3
# A real column seems to be in another unit if its scale differs from the agreed one by more than the factor SCALES, its
# centre is more than AWAY of the larger scale off, and the centre has changed by about the same factor, up to ALIKE;
# with fewer rows this is not checked. (Ages in a children's clinic are nearer.)
AWAY, SCALES, ALIKE, LEAST_ROWS = 3.0, 6.0, 2.0, 5
# Share of a column's squared distances from its median: a row of totals has more.
NEARLY_ALL = 0.98

SINGLE_OUTCOME = Remark(
    "single outcome",
    "All rows have the same outcome: they say little about coefficients, and the prior decides much.",
    ROUND,
)
FEW_LEVELS = Remark("few levels", "The rows have few of the outcome's levels, and say little about the others.", ROUND)
SEPARATED = Remark("separated outcomes", "The predictors separate the outcomes of these rows.", ROUND)
FEW_EVENTS = Remark("few events", f"There are fewer than {LEAST_EVENTS:.0f} events per coefficient.", ROUND)
OVERDISPERSED = Remark(
    "overdispersion",
    "Counts vary more than Poisson counts do: intervals are too narrow, and sites seem to differ where they do not.",
    "Use negative-binomial-regression, or robust errors (decbayes calibrate --robust).",
)
OTHER_NOISE = Remark(
    UNEVEN,
    "The noise is not what the model assumes (it may grow with a column, for example): the interval of at least one "
    "coefficient is too narrow.",
    "Use robust errors: decbayes calibrate --robust.",
)
REPEATED_PERSONS = Remark(
    REPEATED,
    "Persons have several rows, which the model takes as independent: intervals are probably too narrow, and sites "
    "seem to differ where they do not.",
    "Use robust errors: decbayes calibrate --robust --person COLUMN.",
)
ONE_ROW = "Is it a row of totals, or a typing error? It alone decides coefficients."
SURVEY_WEIGHTS = Remark(
    "survey weights",
    "Weights are not whole numbers, so they are not frequencies. Yet each row counts as that many: intervals are as "
    "narrow as those of as many rows as the weights add up to.",
    "Use robust errors: decbayes calibrate --robust.",
)
FREQUENCIES = Remark(
    "weights",
    "Weights count as frequencies: a row of weight 3 is three persons with the same values.",
    "If they are survey weights, use robust errors: decbayes calibrate --robust.",
    severity="note",
)


def of_outcomes(targets: Array) -> Iterator[Remark]:
    """Yes or no: whether both occur."""
    if (targets == targets[0]).all():
        yield SINGLE_OUTCOME


def of_levels(present: int, every: int) -> Iterator[Remark]:
    """Levels of an outcome with more than two: whether a site has only one, or few of them."""
    if every > 2:
        yield SINGLE_OUTCOME if present == 1 else FEW_LEVELS


def of_events(targets: Array) -> Iterator[Remark]:
    """Whether anything has happened."""
    if len(targets) and not targets.any():
        yield SINGLE_OUTCOME


def of_counts(targets: Array, expected: Array, weights: Array, side: int) -> Iterator[Remark]:
    """Whether counts vary more than Poisson counts with these means, as far as that matters for coefficients.

    Z = (y − μ)² − y has the mean 0, the variance 2 μ² and the third moment 8 μ³ + 4 μ² if y is Poisson, also for rare
    counts, for which Pearson's statistic is a poor one. Its sum is compared with a gamma distribution of these moments.
    """
    counted = weights > 0
    yield from of_events(targets[counted])
    y, mean, times = targets[counted], np.maximum(expected[counted], 1e-9), weights[counted]
    first, second, third = (float(times @ mean**power) for power in (1, 2, 3))
    if times.sum() <= side or not second:
        return
    extra = float(times @ ((y - mean) ** 2 - y)) + side * second / first  # a fit makes residuals smaller
    variance, shape = 2.0 * second, 4.0 * (2.0 * second) ** 3 / (8.0 * third + 4.0 * second) ** 2
    improbable = gammaincc(shape, max(shape + extra * np.sqrt(shape / variance), 0.0)) < SURE
    if extra > (CLEARLY_MORE - 1.0) * first and improbable:
        yield OVERDISPERSED


def of_one_broadcast(events: float, others: float, side: int, separated: bool) -> Iterator[Remark]:
    """Whether a site's own estimate may be far from that of all sites; `others` are rows without an event."""
    if min(events, others) == 0:
        return  # a single outcome, which has its own remark
    if separated:
        yield SEPARATED
    elif min(events, others) < LEAST_EVENTS * side:
        yield FEW_EVENTS


def separated(design: Array, targets: Array) -> bool:
    """Whether a plane separates the rows by outcome, some rows off it: a linear programme.

    Not checked for more than MANY_ROWS rows, which would take long.
    """
    from scipy.optimize import linprog

    if len(design) > MANY_ROWS:
        return False
    sides = np.where(targets == 1.0, 1.0, -1.0)[:, None] * design
    solution = linprog(-sides.sum(axis=0), A_ub=-sides, b_ub=np.zeros(len(sides)), bounds=(-1.0, 1.0))
    return bool(solution.success and -solution.fun > 1e-9)


def of_values(columns: Mapping[str, Column], points: Array) -> Iterator[Remark]:
    """Numbers that seem to be in another unit than the agreed one, or to hold a code for missing values."""
    coded = []
    for name, values in zip(columns, points.T, strict=True):
        column = columns[name]
        if column.flag or len(values) < LEAST_ROWS:
            continue
        if seem_coded(values):
            coded.append(name)
        elif is_in_another_unit(column, values):
            yield Remark(
                FAR_VALUES,
                f"The values of {name} lie far from the agreed centre and scale.",
                "Does this site use another unit?",
            )
    if coded:
        yield missing_codes(coded)


def is_in_another_unit(column: Column, values: Array) -> bool:
    """Whether a real column's values lie far from the agreed centre, at another scale."""
    if column.factor != "real":
        return False
    zero, unit = column.zero_and_unit
    centre, times = float(values.mean()), float(values.std()) / unit
    far = abs(centre - zero) > AWAY * unit * max(times, 1.0) and not 1.0 / SCALES <= times <= SCALES
    return far and 1.0 / ALIKE < centre / (times * zero or np.inf) < ALIKE


def of_rows(columns: Mapping[str, Column], points: Array, predictors: Collection[str]) -> Iterator[Remark]:
    """Rows that occur twice, a row that outweighs all others, and predictors that are the same in all rows.

    The first was said of two and the second of one of 744 random parts, of 30 to 500 rows, of 62 ordinary tables.
    """
    if len(points) < ENOUGH_ROWS:
        return
    if are_repeated(points, [column.factor == "real" for column in columns.values()]):
        yield REPEATED_ROWS
    named = dict(zip(columns, points.T, strict=True))
    names = {name: printable(name)[:LONGEST_NAME] for name in columns}
    alone = [names[name] for name, column in columns.items() if column.factor == "real" and outweighs(named[name])]
    if alone:
        yield Remark("one row", f"Nearly all the variation in {listed(alone)} is due to one row.", ONE_ROW)
    constant = [names[name] for name in predictors if not columns[name].entries[0] and np.ptp(named[name]) == 0.0]
    if constant:
        what = f"Columns with one value in all rows: {listed(constant)}."
        yield Remark(CONSTANT, what, "Other sites estimate their coefficients.", severity="note")


def outweighs(values: Array) -> bool:
    """Whether one row has nearly all squared distances from the median."""
    squares = (values - np.median(values)) ** 2
    return len(np.unique(values)) > FEW_VALUES and bool(squares.max() > NEARLY_ALL * squares.sum())


def of_weights(weights: Array) -> Iterator[Remark]:
    """What the weights of rows count as, unless all are 1."""
    if (weights != np.rint(weights)).any():
        yield SURVEY_WEIGHTS
    elif (weights > 1.0).any():
        yield FREQUENCIES


def of_terms(labels: tuple[str, ...], matrix: Array, levels: list[int]) -> Iterator[Remark]:
    """Categories without rows; `levels` are the coefficients of the intercept, or of those in its place."""
    missing = [label for label, column in zip(labels, matrix.T, strict=True) if "=" in label and not column.any()]
    if missing:
        shown = ", ".join(missing[:3]) + (f" and {len(missing) - 3} more" if len(missing) > 3 else "")
        yield Remark(
            "missing category", f"No row counts as {shown}.", "Other sites estimate these terms.", severity="note"
        )
    factors: dict[str, list[int]] = {}
    for place, label in enumerate(labels):
        term = label.rpartition(": ")[2]  # without the level of an outcome
        if place not in levels and "=" in term and ":" not in term:
            factors.setdefault(term.partition("=")[0], []).append(place)
    always = matrix[:, levels].sum(axis=1)
    without = [name for name, places in factors.items() if (matrix[:, places].sum(axis=1) == always).all()]
    if without and levels:
        what = f"No row is in the reference category of {', '.join(without)}."
        yield Remark("missing category", what, "Other sites show how the rest compares with it.", severity="note")
