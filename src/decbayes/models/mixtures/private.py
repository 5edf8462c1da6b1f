"""Private releases of classes: first tables of pairs of columns, then memberships at an anchor.

A start without data finds few classes, so the first round releases a table for each pair of columns; a mixture fitted
to these noisy tables is the first anchor. Rounds of expectation maximisation follow, each from noisy sums: the number
of rows per class, and orthonormal contrasts of each column's categories. Nothing is clipped, since the shares of a row
add up to one. Noise makes counts negative; they are replaced by the nearest possible counts.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from decbayes.errors import InvalidData, NotPrivate
from decbayes.families import Array
from decbayes.models.likelihoods.discrete import Categories, YesOrNo
from decbayes.models.likelihoods.emissions import plus
from decbayes.posterior import NO_INTERVALS, Posterior
from decbayes.privacy.mechanism import Estimate, Mechanism, Total
from decbayes.remarks import Remark

if TYPE_CHECKING:
    from decbayes.models.mixtures.clusters import Clusters

Codes = NDArray[np.intp]
# Rounds after the tables: over-relaxed steps, then rounds whose sums are averaged.
EARLY, LATE, STEP = 8, 3, 1.2
# Their shares of the privacy budget, and that of the tables.
TABLES, STEPS, AVERAGED = 0.25, 0.30, 0.45
# Starts and passes of a fit to the tables, and rows to process at a time.
RESTARTS, PASSES, ROWS = 8, 150, 2048
# Pseudo-count of each category and class.
SMOOTHING = 0.5

MEANS_ONLY = Remark(
    NO_INTERVALS,
    "No interval is stated: none would contain the noise of private releases and all doubt about who belongs where.",
    "Use the means only.",
)


class RowMechanism(Mechanism):
    """Rounds of a mixture, which release means only."""

    cost = "Only means were released: no interval contains the noise"
    model: "Clusters"

    def price_at(self, quality: float) -> float:
        """Unknown, because there are no intervals."""
        return float("nan")

    def start(self) -> Array:
        return np.zeros(0)

    def portions(self, data: Any) -> Iterator[Any]:
        """A few rows at a time, because their statistics are large."""
        points = self.model.points(data)
        return (points[start : start + ROWS] for start in range(0, len(points), ROWS))

    def complete_rows(self, data: Any) -> Array:
        points = self.model.points(data)
        if np.isnan(points).any():
            raise InvalidData("A private release needs complete rows. Leave out those with missing values.")
        return points


class ClassMechanism(RowMechanism):
    """The rounds of a mixture of classes over categorical and yes/no columns."""

    budget_parts = (TABLES, *([STEPS / EARLY] * EARLY), *([AVERAGED / LATE] * LATE))

    def __init__(self, model: "Clusters") -> None:
        self.model, self.sizes, self.places = model, *discrete_columns(model)
        if model.auto:
            raise NotPrivate("The number of classes must be agreed on: 'auto' finds it in the data.")
        if len(self.sizes) < 3:
            raise NotPrivate("Classes are told apart by three columns or more; a private release needs as many.")
        self.classes, self.width = int(model.components), sum(self.sizes)
        ends = np.cumsum(self.sizes)
        self.blocks = [slice(end - size, end) for size, end in zip(self.sizes, ends, strict=True)]
        self.pairs = [(j, other) for j in range(len(self.sizes)) for other in range(j)]
        self.norm = float(np.sqrt(1.0 + sum(1.0 - 1.0 / size for size in self.sizes)))
        self.contrasts = contrasts(self.sizes, self.blocks)
        self.first_anchor: Array | None = None

    @property
    def parameters(self) -> int:
        return self.classes - 1 + self.classes * (self.width - len(self.sizes))

    def size(self, number: int) -> int:
        if number == 0:
            return sum(self.sizes[j] * self.sizes[other] for j, other in self.pairs)
        return self.classes * (1 + int(self.contrasts.shape[1]))

    def record_statistics(self, anchor: Array, data: Any, number: int) -> Array:
        marks = self.indicators(data)
        if number == 0:
            tables = [
                (marks[:, self.blocks[j], None] * marks[:, None, self.blocks[other]]).reshape(len(marks), -1)
                for j, other in self.pairs
            ]
            return np.asarray(np.concatenate(tables, axis=1) / np.sqrt(len(self.pairs)), dtype=np.float64)
        shares = self.shares_at(anchor, marks)
        described = np.concatenate([np.ones((len(marks), 1)), marks @ self.contrasts], axis=1)
        return np.asarray((shares[:, :, None] * described[:, None, :]).reshape(len(marks), -1) / self.norm)

    def indicators(self, data: Any) -> Array:
        """(N, categories of all columns): one-hot encoded rows."""
        points = self.complete_rows(data)[:, self.places]
        marks = np.zeros((len(points), self.width))
        for column, block in zip(points.T, self.blocks, strict=True):
            marks[np.arange(len(points)), block.start + column.astype(np.intp)] = 1.0
        return marks

    def shares_at(self, anchor: Array, marks: Array) -> Array:
        """(N, K): the shares of classes in each row, given the anchor's counts."""
        rows, counts = self.rows_and_counts(anchor)
        weights = (rows + SMOOTHING) / (rows + SMOOTHING).sum()
        within = np.concatenate(
            [
                (counts[:, block] + SMOOTHING) / (counts[:, block] + SMOOTHING).sum(axis=1, keepdims=True)
                for block in self.blocks
            ],
            axis=1,
        )
        lines = np.zeros((len(marks), self.classes)) + np.log(weights)
        # Column by column, not as a matrix product: a row's shares must not depend on the number of rows.
        for place in range(self.width):
            lines = lines + marks[:, place, None] * np.log(within[:, place])
        return np.asarray(softmax(lines, axis=1))

    def rows_and_counts(self, anchor: Array) -> tuple[Array, Array]:
        """(K,) rows per class, and (K, categories) counts."""
        whole = anchor.reshape(self.classes, 1 + self.width)
        return whole[:, 0], whole[:, 1:]

    def estimate(self, totals: Sequence[Total], rate: float) -> Estimate:
        if self.first_anchor is None:  # the same tables in all rounds
            self.first_anchor = self.from_tables(totals[0])
        anchor, late = self.first_anchor, []
        for number, total in enumerate(totals[1:], start=1):
            counts = self.from_sums(total)
            if number <= EARLY:
                previous = total.anchor.reshape(counts.shape)
                step = self.nearest_counts(counts).reshape(counts.shape) - previous
                anchor = self.nearest_counts(previous + STEP * step)
            else:
                late.append(counts)
                anchor = self.nearest_counts(np.mean(late, axis=0))
        rows, _ = self.rows_and_counts(anchor)
        noise = totals[-1].deviation * self.norm / np.sqrt(max(len(late), 1))
        quality = max(float(rows.sum()), 1.0) / totals[-1].copies * rate / self.parameters
        deviations = np.repeat((noise / np.maximum(rows, 1.0))[:, None], self.width, axis=1)
        posterior = self.posterior(anchor)
        misfit, remarks = self.misfit(late, noise), (MEANS_ONLY,)
        return Estimate(posterior, deviations, misfit, self.price_at(quality), anchor, quality, remarks)

    def misfit(self, late: Sequence[Array], noise: float) -> float:
        """The variance between the averaged sums, relative to their noise."""
        if len(late) < 2:
            return 1.0
        back = [np.concatenate([sums[:, :1], sums[:, 1:] @ self.contrasts], axis=1) for sums in late]
        return float(np.var(back, axis=0, ddof=1).mean() / (noise**2 * len(late)))

    def from_sums(self, total: Total) -> Array:
        """(K, 1 + categories): noisy rows and counts per class."""
        sums = total.values.reshape(self.classes, -1) * self.norm
        even = np.concatenate([np.full(size, 1.0 / size) for size in self.sizes])
        return np.concatenate([sums[:, :1], sums[:, :1] * even + sums[:, 1:] @ self.contrasts.T], axis=1)

    def nearest_counts(self, noisy: Array) -> Array:
        """The nearest possible counts: none negative, with sums in each column equal to the rows of the class."""
        rows = np.maximum(noisy[:, 0], 1.0)
        counts = np.concatenate(
            [[nearest_shares(row, total) for row, total in zip(noisy[:, 1:][:, block], rows, strict=True)]
             for block in self.blocks],
            axis=1,
        )  # fmt: skip
        return np.concatenate([rows[:, None], counts], axis=1).ravel()

    def from_tables(self, total: Total) -> Array:
        """The best of several mixtures of the noisy tables; choosing it costs no privacy, since tables are public."""
        tables, place, sums = np.zeros((self.width, self.width)), 0, []
        for j, other in self.pairs:
            size = self.sizes[j] * self.sizes[other]
            block = total.values[place : place + size] * np.sqrt(len(self.pairs))
            place += size
            sums.append(block.sum())
            tables[self.blocks[j], self.blocks[other]] = block.reshape(self.sizes[j], self.sizes[other])
        rows = max(float(np.mean(sums)), 1.0)
        for j, other in self.pairs:
            block = tables[self.blocks[j], self.blocks[other]]
            possible = nearest_shares(block.ravel(), rows).reshape(block.shape)
            tables[self.blocks[j], self.blocks[other]] = possible
            tables[self.blocks[other], self.blocks[j]] = possible.T
        rng = np.random.default_rng(0)
        fits = [fit_pairs(tables, self.blocks, self.classes, rng) for _ in range(RESTARTS)]
        _, weights, within = max(fits, key=lambda fit: fit[0])
        return np.concatenate([rows * weights[:, None], rows * weights[:, None] * within], axis=1).ravel()

    def posterior(self, anchor: Array) -> Posterior:
        """The posterior of rows with these counts: features of rows add up column by column."""
        rows, counts = self.rows_and_counts(anchor)
        base = np.zeros((1, len(self.sizes)))
        one_changed = np.repeat(base, self.width, axis=0)
        for column, block in enumerate(self.blocks):
            one_changed[block, column] = np.arange(self.sizes[column])
        emissions = self.model.emissions
        inverse = np.argsort(self.places)
        ground, changed = emissions.features(base[:, inverse]), emissions.features(one_changed[:, inverse])
        sums = rows[:, None] * ground + counts @ (changed - ground)
        before = Posterior.of_prior(self.model.structure).natural
        return Posterior.from_natural(self.model.structure, plus(emissions, before, sums))


def discrete_columns(model: "Clusters") -> tuple[tuple[int, ...], Codes]:
    """The number of categories of each column, and its place in the data."""
    sizes: list[int] = []
    places: list[int] = []
    for part in model.emissions.parts:
        if isinstance(part.likelihood, Categories):
            sizes += part.likelihood.sizes
        elif isinstance(part.likelihood, YesOrNo):
            sizes += [2] * len(part.places)
        else:
            raise NotPrivate(
                f"{type(model).__name__} has no private release of columns of numbers, which have no bound. Cut them "
                "into agreed categories, or yes and no."
            )
        places += part.places
    return tuple(int(size) for size in sizes), np.array(places, dtype=np.intp)


def contrasts(sizes: Sequence[int], blocks: Sequence[slice]) -> Array:
    """(categories, contrasts): orthonormal directions in which the shares of each column can differ."""
    whole = np.zeros((sum(sizes), sum(sizes) - len(sizes)))
    for number, (size, block) in enumerate(zip(sizes, blocks, strict=True)):
        basis = np.linalg.qr(np.column_stack([np.ones(size), np.eye(size)[:, 1:]]))[0][:, 1:]
        whole[block, block.start - number : block.start - number + size - 1] = basis
    return whole


def nearest_shares(values: Array, total: float) -> Array:
    """The nearest non-negative numbers with this sum."""
    ordered = np.sort(values)[::-1]
    excess = (np.cumsum(ordered) - total) / np.arange(1, len(values) + 1)
    return np.asarray(np.maximum(values - excess[np.flatnonzero(ordered > excess)[-1]], 0.0))


def fit_pairs(
    tables: Array, blocks: Sequence[slice], classes: int, rng: np.random.Generator
) -> tuple[float, Array, Array]:
    """Weights and shares of classes by expectation maximisation on tables of pairs; and their log-likelihood."""
    weights = rng.dirichlet(np.full(classes, 5.0))
    within = np.concatenate([rng.dirichlet(np.ones(block.stop - block.start), classes) for block in blocks], axis=1)
    for _ in range(PASSES):
        expected = (within.T * weights) @ within + 1e-12
        counts = weights[:, None] * within * (within @ (tables / expected)) + 1e-9
        weights = counts.sum(axis=1) / counts.sum()
        within = np.concatenate(
            [counts[:, block] / counts[:, block].sum(axis=1, keepdims=True) for block in blocks], axis=1
        )
    fitted = (within.T * weights) @ within + 1e-12
    return float((tables * np.log(fitted)).sum()), weights, within
