"""Robust (sandwich) errors: valid even if variances are wrong, or if rows of a cluster depend on each other.

    V (Σ_c ũ_c ũ_cᵀ + P0) V,   ũ_c = (I − P_c V)⁻¹ u_c

V is the posterior covariance, P0 the prior precision, u_c the sum of a cluster's scores and P_c its information. A fit
follows clusters with much information, so their scores are too small; ũ_c are the scores without this pull (HC3 for
single rows, CR3 for clusters: to first order, a jackknife). V is that of the merged posterior, which sites have: each
corrects its own scores, and the sums add up.

Few clusters, or few that are informative about a coefficient, leave its error uncertain. By Satterthwaite, its square
has (Σ a_c)² / Σ a_c² degrees of freedom, where a_c is the diagonal of V P_c V. Deviations are widened as Student's t is
wider than a Gaussian, at 90 % intervals.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincc, ndtri, stdtrit

from decbayes.errors import NotCalibrated
from decbayes.families import Array
from decbayes.families.matrices import Indices
from decbayes.models.core.persons import EACH, Persons
from decbayes.models.core.points import check_structure, spans
from decbayes.models.regressions.messages.doubts import CLEARLY_MORE, SURE
from decbayes.models.regressions.varying.climb import FACTOR
from decbayes.models.regressions.varying.site_deviations import SiteDeviations
from decbayes.posterior import Posterior

if TYPE_CHECKING:
    from decbayes.models.regressions.regression import Regression

# Directions with this much less information than others are ignored.
RANK = 1e-9
# A score is not made larger than as if this share of its information were of other rows.
LEAST_LEFT = 0.05
# The upper end of a 90 % interval, where the widened deviations match Student's t.
UPPER = 0.95
TINY = float(np.finfo(float).tiny)


class ClusterRows(NamedTuple):
    """Rows of some clusters, the slope and the information of each row's log-likelihood, and where clusters begin."""

    matrix: Array
    slopes: Array
    weights: Array
    starts: Indices

    def unpulled(self, covariance: Array, power: float, least: float) -> Array:
        """(clusters, D): (I − P_c V)^(−power) u_c, where no less than a share `least` of V⁻¹ is left without a cluster.

        In units in which V is the identity, P_c changes only the directions of the cluster's rows.
        """
        root = np.linalg.cholesky(covariance)
        rows, counts = self.matrix @ root, np.diff(self.starts, append=len(self.matrix))
        scores = np.empty((len(counts), len(root)))
        for count in np.unique(counts):
            clusters = np.flatnonzero(counts == count)
            places = self.starts[clusters][:, None] + np.arange(count)
            pulled = np.einsum("cr,crd->cd", self.slopes[places], rows[places])
            _, _, basis = np.linalg.svd(rows[places], full_matrices=False)
            within = basis @ rows[places].swapaxes(1, 2)
            values, turned = np.linalg.eigh(within * self.weights[places][:, None, :] @ within.swapaxes(1, 2))
            axes = turned.swapaxes(1, 2) @ basis
            more = np.maximum(1.0 - values, least) ** -power - 1.0
            along = np.einsum("cad,cd->ca", axes, pulled)
            scores[clusters] = pulled + np.einsum("ca,cad->cd", more * along, axes)
        return np.asarray(np.linalg.solve(root.T, scores.T).T)

    def moved(self, covariance: Array) -> Array:
        """(clusters, D): diag V P_c V."""
        return np.asarray(np.add.reduceat(self.weights[:, None] * (self.matrix @ covariance) ** 2, self.starts))


@dataclass(frozen=True, eq=False)
class RobustErrors:
    """Robust errors of a regression at a posterior."""

    model: "Regression"
    posterior: Posterior

    def __post_init__(self) -> None:
        check_structure(self.posterior, self.model.structure, "posterior")
        if self.model.varying:
            raise NotCalibrated("Robust errors assume equal coefficients at all sites: leave `varying` out.")

    @cached_property
    def _covariance(self) -> Array:
        return self._covariance_of(self.posterior.natural[FACTOR])

    @cached_property
    def _prior(self) -> Array:
        """P0."""
        return np.asarray(np.linalg.inv(self._covariance_of(self.model.structure.prior[FACTOR])))

    def _covariance_of(self, natural: Array) -> Array:
        outcome = self.model.outcome
        return np.asarray(outcome.moments(natural)[1] * outcome.noise(self.posterior.natural[FACTOR]))

    def clusters(self, data: Any, clusters: Persons = EACH) -> "Iterator[ClusterRows]":
        """All rows, in blocks of clusters. By default each observation is a cluster."""
        model = self.model
        points, (size, zero) = model.points(data), model.target_units
        rows = model.table.rows(points)
        linear = SiteDeviations(model).linear(self.posterior, points, rows, None)
        slopes, weights = model.outcome.slopes(self.posterior.natural[FACTOR], (rows.targets - zero) / size, *linear)
        place = (np.arange(len(points)) if clusters.numbers is None else clusters.numbers)[rows.observation]
        order = np.argsort(place, kind="stable")
        first = np.append(np.unique(place[order], return_index=True)[1], len(order))
        for span in spans(len(first) - 1):
            selected, starts = order[first[span.start] : first[span.stop]], first[span] - first[span.start]
            counted = rows.weights[selected]
            yield ClusterRows(rows.matrix[selected], counted * slopes[selected], counted * weights[selected], starts)

    def halves(self, data: Any, clusters: Persons = EACH) -> tuple[tuple[float, ...], bool]:
        """How far random halves of the rows are apart, relative to what the model expects, without refits.

            W = P⁻¹ Σ_c ũ_c ũ_cᵀ,    ũ_c = (I − P_c V)^(−½) u_c,    P = Σ_c P_c

        Over all halvings, scores differ by W on average. Those of a fit are too small by its pull (HC2). The numbers
        are tr W / D, how unequal directions are, D tr W² / (tr W)², and, for each coefficient, W with the others fixed.
        There are none if the fit is exact.

        Also whether the error of a coefficient is clearly larger than the model says. Under it, a = (V ũ_c)² has the
        mean b = diag V P_c V and the variance v b², and Σ a is compared with a gamma distribution of these moments.
        """
        shared, side = self._covariance, len(self._covariance)
        (middle, total), (found, expected, squares) = np.zeros((2, side, side)), np.zeros((3, side))
        moments, count, rows, sizes = np.zeros(3), 0, 0.0, np.diag(shared)
        for block in self.clusters(data, clusters):
            unpulled = block.unpulled(shared, 0.5, LEAST_LEFT)
            middle += unpulled.T @ unpulled
            total += (block.weights[:, None] * block.matrix).T @ block.matrix
            a, b = (unpulled @ shared) ** 2 / sizes, block.moved(shared) / sizes
            found, expected, squares = found + a.sum(axis=0), expected + b.sum(axis=0), squares + (b**2).sum(axis=0)
            products = np.stack([a**2, a * b, b**2]).sum(axis=2)
            moments += (products / np.maximum(products[2], TINY)).sum(axis=1)
            count, rows = count + len(a), rows + len(block.matrix)
        if not middle.any():
            return (), False
        rank = int(np.linalg.matrix_rank(total, tol=RANK * np.linalg.norm(total, 2), hermitian=True))
        fitted = self.model.outcome.fitted_noise(rows, rank)
        varied = moments @ [fitted**2, -2.0 * fitted, 1.0] / count
        larger = clearly_larger(fitted * found, expected, varied * squares)
        ratio = np.linalg.pinv(total, rcond=RANK, hermitian=True) @ (fitted * middle)
        known, alone, trace = np.diag(total), fitted * np.diag(middle), np.trace(ratio)
        each = np.divide(alone, known, out=np.zeros(side), where=known > 0.0)
        numbers = trace / rank, rank * np.sum(ratio * ratio.T) / trace**2, *each
        return tuple(map(float, numbers)), bool(larger.any())

    def sums(self, data: Any, clusters: Persons = EACH) -> tuple[Array, Array, int]:
        """What a site sends: Σ ũ ũᵀ, Σ a² as one row, and the number of clusters."""
        covariance, root = self._covariance, np.linalg.cholesky(self._covariance)
        middle, squares, count = np.zeros(covariance.shape), np.zeros((1, len(covariance))), 0
        # Without the cluster the prior remains, even if the merged posterior is not that of these rows.
        least = np.linalg.eigvalsh(root.T @ self._prior @ root)[0]
        for block in self.clusters(data, clusters):
            without = block.unpulled(covariance, 1.0, least)
            middle += without.T @ without
            squares += (block.moved(covariance) ** 2).sum(axis=0)
            count += len(without)
        return middle, squares, count

    def deviations(self, middle: Array, squares: Array, clusters: int) -> Mapping[str, Mapping[str, Array]]:
        """Deviations of all parameters, from the sums of all sites."""
        covariance, natural, family = self._covariance, self.posterior.natural[FACTOR], self.model.outcome.family
        if clusters <= len(covariance):
            raise NotCalibrated(
                f"{clusters} clusters are too few for {len(covariance)} coefficients with robust errors."
            )
        before = np.diag(covariance @ self._prior @ covariance)
        freedom = (np.diag(covariance) - before) ** 2 / np.maximum(squares[0], TINY)
        wider = stdtrit(freedom.clip(1.0, clusters), UPPER) / ndtri(UPPER)
        deviation = np.sqrt(wider**2 * np.diag(covariance @ middle @ covariance) + before)
        first, *others = family.quantities(family.deviation(natural)).items()
        return {FACTOR: {first[0]: deviation[None, :], **dict(others)}}


def clearly_larger(found: Array, expected: Array, variance: Array) -> NDArray[np.bool_]:
    """Which of some sums of squares are larger than expected, by more than chance explains for any of them."""
    mean = np.maximum(expected, TINY)
    unit = np.maximum(variance, TINY) / mean
    return np.asarray((found > CLEARLY_MORE * mean) & (gammaincc(mean / unit, found / unit) < SURE / len(mean)))
