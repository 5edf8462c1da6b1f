"""Private releases of clusters in one or two dimensions: one noisy histogram in an agreed box.

A row is in one cell or, outside the box, in none: whatever its values, it changes the sums by one. The merge fits the
mixture to the cells, integrating clusters over each cell, plus a uniform background that absorbs noise in empty
cells. Cells do not depend on the number of clusters, so it can be chosen later.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from decbayes.errors import NotPrivate
from decbayes.families import Array
from decbayes.models.likelihoods.emissions import Natural, coefficients, plus
from decbayes.models.mixtures.private import MEANS_ONLY, RowMechanism, nearest_shares
from decbayes.posterior import Posterior
from decbayes.privacy.mechanism import Estimate, Total

if TYPE_CHECKING:
    from decbayes.models.mixtures.clusters import Clusters

# Cells, and quadrature nodes within a cell, per dimension.
SIDE, NODES = 16, 3
# Starts, passes from each, passes of the best, and the gain below which passes end.
RESTARTS, PASSES, LAST, SAME = 6, 20, 200, 1e-4
MOST_CLUSTERS = 10
# Standard deviations of a box to each side, and largest width of a cell in standard deviations of a cluster.
REACH, WIDEST = 3.0, 2.0
# First, smallest and largest share of the background.
BACKGROUND, LEAST, MOST = 0.3, 1e-4, 0.9


@dataclass(frozen=True)
class CellFit:
    """A mixture fitted to cells: its posterior, the share of each cluster at each node, and the log-likelihood."""

    natural: Natural
    background: float
    shares: Array
    height: float


class HistogramMechanism(RowMechanism):
    """The single round for mixtures of one or two columns of numbers, in a box from `low` to `high`."""

    budget_parts = (1.0,)
    useless: ClassVar[float] = 1.0
    doubtful: ClassVar[float] = 5.0
    any_number = True

    def __init__(self, model: "Clusters", low: Array, high: Array) -> None:
        check_few(len(low))
        if model.auto:
            raise NotPrivate(
                "State a number of clusters: a plan needs one. `private_merge(…, components='auto')` may find another."
            )
        self.model, self.low, self.high = model, np.asarray(low, float), np.asarray(high, float)
        self.cells: int = SIDE ** len(low)
        # Parameters per cluster: one per feature, the last of which stands for its weight.
        self.per_cluster: int = model.emissions.features(self.low[None]).shape[1]

    @property
    def parameters(self) -> int:
        return int(self.model.components) * self.per_cluster - 1

    def size(self, number: int) -> int:
        return self.cells

    def record_statistics(self, anchor: Array, data: Any, number: int) -> Array:
        points = self.complete_rows(data)
        marks = np.zeros((len(points), self.cells))
        inside = np.flatnonzero(self.inside(points))
        places = (points[inside] - self.low) / (self.high - self.low) * SIDE
        cells = np.minimum(places.astype(np.intp), SIDE - 1)
        marks[inside, np.ravel_multi_index(tuple(cells.T), (SIDE,) * len(self.low))] = 1.0
        return marks

    def inside(self, points: Array) -> NDArray[np.bool_]:
        return np.asarray(((points >= self.low) & (points < self.high)).all(axis=1))

    def outside(self, data: Any) -> NDArray[np.bool_]:
        return ~self.inside(self.complete_rows(data))

    def estimate(self, totals: Sequence[Total], rate: float) -> Estimate:
        (total,) = totals
        rows, counts = self.counts(total)
        grid = CellGrid(self, counts)
        fit = grid.fit(int(self.model.components))
        posterior = Posterior.from_natural(self.model.structure, fit.natural)
        quality = rows / total.copies * rate / self.parameters
        noise = grid.noise(fit, total.deviation)
        return Estimate(posterior, noise, 1.0, float("nan"), np.zeros(0), quality, (MEANS_ONLY,))

    def counts(self, total: Total) -> tuple[float, Array]:
        """The number of rows in the box, and the nearest possible counts per cell."""
        rows = max(float(total.values.sum()), 1.0)
        return rows, nearest_shares(total.values, rows)

    def best_number(self, totals: Sequence[Total]) -> int:
        """The number of clusters with the best penalised likelihood of the noisy cells.

        Noise of standard deviation σ inflates the variance of counts, on average by the factor 1 + σ² · cells / rows;
        the likelihood is divided by it.
        """
        rows, counts = self.counts(totals[0])
        surplus, grid = 1.0 + totals[0].deviation ** 2 * self.cells / rows, CellGrid(self, counts)
        worth: list[float] = []
        while len(worth) < MOST_CLUSTERS and len(worth) < np.argmax([*worth, -np.inf]) + 3:
            number = len(worth) + 1
            worth.append(grid.fit(number).height / surplus - 0.5 * number * self.per_cluster * float(np.log(rows)))
        return int(np.argmax(worth)) + 1


class CellGrid:
    """The occupied cells, with nodes in each for numerical integration (Gauss–Legendre)."""

    def __init__(self, mechanism: HistogramMechanism, counts: Array) -> None:
        self.emissions, self.structure = mechanism.model.emissions, mechanism.model.structure
        dimension, seen = len(mechanism.low), np.flatnonzero(counts > 0)
        self.counts, self.cells = counts[seen], mechanism.cells
        width = (mechanism.high - mechanism.low) / SIDE
        corner = np.stack(np.unravel_index(seen, (SIDE,) * dimension), axis=1)
        nodes, weights = np.polynomial.legendre.leggauss(NODES)
        inner = np.stack(np.meshgrid(*[(nodes + 1) / 2] * dimension, indexing="ij"), axis=-1).reshape(-1, dimension)
        area = np.prod(np.stack(np.meshgrid(*[weights / 2] * dimension, indexing="ij")), axis=0).ravel()
        self.places = mechanism.low + (corner[:, None] + inner).reshape(-1, dimension) * width
        self.middles = mechanism.low + (corner + 0.5) * width
        self.scaled = self.middles / width
        self.log_area = np.tile(np.log(area * np.prod(width)), len(seen))
        self.features = self.emissions.features(self.places)

    def fit(self, clusters: int) -> CellFit:
        """The best of several fits; choosing it costs no privacy, since cells are public."""
        rng, before = np.random.default_rng(0), Posterior.of_prior(self.structure.with_components(clusters)).natural
        fits = [self.climb(dict(before), self.start(clusters, before, rng), PASSES) for _ in range(RESTARTS)]
        best = max(fits, key=lambda fit: fit.height)
        return self.climb(dict(before), best, LAST)

    def start(self, clusters: int, before: Any, rng: np.random.Generator) -> CellFit:
        """Assign every cell to the nearest of spread-out centres, drawn where there are many rows."""
        weight, centres = self.counts**2, []
        chance = weight
        for _ in range(clusters):
            # With fewer cells than clusters, some start at the same place.
            chance = chance if chance.sum() > 0 else weight
            centres.append(self.scaled[rng.choice(len(weight), p=chance / chance.sum())])
            distances = ((self.scaled[:, None] - np.array(centres)) ** 2).sum(axis=2)
            chance = distances.min(axis=1) * weight
        nearest = np.eye(clusters)[distances.argmin(axis=1)] * self.counts[:, None]
        inner = len(self.places) // len(self.counts)
        sums = np.repeat(nearest / inner, inner, axis=0).T @ self.features
        return CellFit(plus(self.emissions, before, sums), BACKGROUND, np.zeros(0), -np.inf)

    def climb(self, before: Natural, fit: CellFit, passes: int) -> CellFit:
        """Repeat the step until the likelihood of the cells stops rising."""
        for _ in range(passes):
            last, fit = fit.height, self.step(before, fit)
            if fit.height - last < SAME:
                break
        return fit

    def step(self, before: Natural, fit: CellFit) -> CellFit:
        """One pass: distribute the rows of each cell among clusters and background."""
        lines = self.features @ coefficients(self.emissions, fit.natural) + self.log_area[:, None]
        dense = (1.0 - fit.background) * np.exp(lines)
        cells = dense.reshape(len(self.counts), -1).sum(axis=1) + fit.background / self.cells
        inner = len(self.places) // len(self.counts)
        shares = dense * np.repeat(self.counts / cells, inner)[:, None]
        background = float((self.counts * fit.background / self.cells / cells).sum() / self.counts.sum())
        natural = plus(self.emissions, before, shares.T @ self.features)
        return CellFit(natural, min(max(background, LEAST), MOST), shares, float(self.counts @ np.log(cells)))

    def noise(self, fit: CellFit, deviation: float) -> Array:
        """(K, D): standard deviation of each cluster's mean from noise in the cells, given the clusters' shares."""
        inner = len(self.places) // len(self.counts)
        rows = np.maximum(fit.shares.sum(axis=0), 1.0)
        means = fit.shares.T @ self.places / rows[:, None]
        shares = fit.shares.reshape(len(self.counts), inner, -1).sum(axis=1) / self.counts[:, None]
        away = self.middles[:, None] - means
        return np.asarray(deviation * np.sqrt(((shares[:, :, None] * away) ** 2).sum(axis=0)) / rows[:, None])


def check_few(dimensions: int) -> None:
    if dimensions > 2:
        raise NotPrivate(
            f"Private releases of clusters are histograms, and in {dimensions} dimensions nearly all cells would hold "
            "noise alone. Choose one or two columns, or cut columns into agreed categories."
        )


def box_around(mean: Array, spread: Any, within: Any) -> tuple[Array, Array]:
    """Three standard deviations of means to each side; refused if a cell could hide whole clusters."""
    check_few(len(mean))
    if (2 * REACH * spread / SIDE > WIDEST * within).any():
        raise NotPrivate(
            "Private releases count points in a box around the prior mean, and this prior is so wide that clusters "
            "would be lost in its cells. State where means are: prior_mean, and a larger prior_strength or a "
            "smaller prior_variance."
        )
    return mean - REACH * spread, mean + REACH * spread
