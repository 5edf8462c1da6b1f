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
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincc, ndtri, stdtrit

from decbayes.errors import NotCalibrated
from decbayes.families import Array
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

    def clusters(self, data: Any, clusters: Persons = EACH) -> Iterator[tuple[Array, Array]]:
        """u (clusters, D) and P (clusters, D, D), in blocks of clusters. By default each observation is a cluster."""
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
            matrix, counted = rows.matrix[selected], rows.weights[selected]
            squares = matrix[:, :, None] * (counted * weights[selected])[:, None, None] * matrix[:, None, :]
            yield (
                np.add.reduceat((counted * slopes[selected])[:, None] * matrix, starts),
                np.add.reduceat(squares, starts),
            )

    def halves(self, data: Any, clusters: Persons = EACH) -> tuple[tuple[float, ...], bool]:
        """How far random halves of the rows are apart, relative to what the model expects, without refits.

            W = P⁻¹ Σ_c ũ_c ũ_cᵀ,    ũ_c = (I − P_c V)^(−½) u_c,    P = Σ_c P_c

        Over all halvings, scores differ by W on average. Those of a fit are too small by its pull (HC2). The numbers
        are tr W / D, how unequal directions are, D tr W² / (tr W)², and, for each coefficient, W with the others fixed.

        Also whether the error of a coefficient is clearly larger than the model says. Under it, a = (V ũ_c)² has the
        mean b = diag V P_c V and the variance v b², and Σ a is compared with a gamma distribution of these moments.
        """
        shared, root, side = self._covariance, np.linalg.cholesky(self._covariance), len(self._covariance)
        middle, total, (found, expected, squares) = np.zeros((side, side)), np.zeros((side, side)), np.zeros((3, side))
        varied, count, sizes = 0.0, 0, np.diag(shared)[:, None]
        for scores, information in self.clusters(data, clusters):
            values, axes = np.linalg.eigh(root.T @ information @ root)
            along = np.einsum("cij,ci->cj", axes, scores @ root) / np.sqrt(np.maximum(1.0 - values, LEAST_LEFT))
            scaled = np.einsum("cij,cj->ic", axes, along)
            unpulled = np.linalg.solve(root.T, scaled)
            middle += unpulled @ unpulled.T
            total += information.sum(axis=0)
            a, b = (root @ scaled) ** 2 / sizes, np.einsum("cij,ji->ic", shared @ information, shared) / sizes
            found, expected, squares = found + a.sum(axis=1), expected + b.sum(axis=1), squares + (b**2).sum(axis=1)
            varied += float((((a - b) ** 2).sum(axis=0) / np.maximum((b**2).sum(axis=0), TINY)).sum())
            count += len(scores)
        ratio = np.linalg.pinv(total, rcond=RANK, hermitian=True) @ middle
        trace, rank = np.trace(ratio), np.linalg.matrix_rank(total, tol=RANK * np.abs(total).max())
        known, alone = np.diag(total), np.diag(middle)
        each = np.divide(alone, known, out=np.zeros(side), where=known > 0.0)
        larger = clearly_larger(found, expected, varied / count * squares)
        numbers = trace / rank, rank * np.sum(ratio * ratio.T) / trace**2, *each
        return tuple(map(float, numbers)), bool(larger.any())

    def sums(self, data: Any, clusters: Persons = EACH) -> tuple[Array, Array, int]:
        """What a site sends: Σ ũ ũᵀ, Σ a² as one row, and the number of clusters."""
        side, root = len(self._covariance), np.linalg.cholesky(self._covariance)
        middle, squares, count = np.zeros((side, side)), np.zeros((1, side)), 0
        # Without the cluster the prior remains, even if the merged posterior is not that of these rows.
        least = np.linalg.eigvalsh(root.T @ self._prior @ root)[0]
        for scores, information in self.clusters(data, clusters):
            scaled = root.T @ information @ root
            values, axes = np.linalg.eigh(scaled)
            along = np.einsum("cij,ci->cj", axes, scores @ root) / np.maximum(1.0 - values, least)
            without = np.linalg.solve(root.T, np.einsum("cij,cj->ic", axes, along))
            middle += without @ without.T
            squares += (np.einsum("ji,cik,jk->cj", root, scaled, root) ** 2).sum(axis=0)
            count += len(scores)
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
