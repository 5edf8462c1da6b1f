"""Consistency checks of contributions, and how contributions depend on the posterior."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import block_diag
from scipy.special import softmax

from decbayes.errors import InvalidPosterior, NotCalibrated
from decbayes.families import Array, dense
from decbayes.families.moments import root_and_inverse
from decbayes.posterior import Posterior
from decbayes.structure import Structure

# Rounding error of a contribution, which is a difference of sums as large as the evidence of all sites.
ABSOLUTE, RELATIVE = 0.01, 1e-6


@dataclass(frozen=True)
class Tally:
    """The number of units in a contribution: observations, words of documents, or steps of sequences.

    Each of `totals` must equal the number of units, and each of `observed` the number of observations where units are
    something else. `parts` are non-negative counts: one per component if `within` has counts by factor, (K, n), which
    must not exceed them (data may be missing). `differences` compare two factors that count the same and must be zero.
    `slack` is what honest fits may lose, and `loose` how much an observation may add to a component beyond its units.
    Without `parts`, the limit is the number of all units.
    """

    totals: ArrayLike
    parts: Array
    differences: Mapping[str, Array] = field(default_factory=dict)
    slack: float = 0.0
    within: Mapping[str, Array] = field(default_factory=dict)
    observed: ArrayLike = ()
    loose: float = 0.0

    def contradiction(self, units: float, observations: float | None = None) -> str | None:
        """How the contribution contradicts itself or the stated number of units; None if it is consistent.

        `observations` defaults to `units`.
        """
        room = ABSOLUTE + RELATIVE * abs(units)
        off = largest(np.asarray(self.totals) - units)
        if not abs(off) <= room + self.slack:
            return f"its numbers hold {units + off:,.6g}, not the {units:,.6g} that it states"
        count = units if observations is None else observations
        off = largest(np.asarray(self.observed) - count)
        if not abs(off) <= room:
            return f"its numbers are of {count + off:,.6g} observations, not the {count:,.6g} that it states"
        if not self.parts.min(initial=0.0) >= -room:
            return f"a part of it holds {self.parts.min():,.6g}"
        for name, difference in self.differences.items():
            if not abs(largest(difference)) <= room:
                return f"'{name}' holds {largest(difference):+,.6g} in a component, beside what the others hold there"
        return self._beyond(self.each(units) + self.loose * count, room)

    def each(self, units: float) -> Array:
        """(K, 1): the units of each component; all units where parts are not counted."""
        return self.parts.reshape(-1, 1) if self.parts.size else np.full((1, 1), float(units))

    def _beyond(self, most: Array, room: float) -> str | None:
        for name, counts in self.within.items():
            if not (counts - most).max(initial=0.0) <= room:
                return f"'{name}' holds {(counts - most).max():,.6g} more in a component than the component has"
            if not counts.min(initial=0.0) >= -room:
                return f"'{name}' holds {counts.min():,.6g} in a component"
        return None


def largest(values: Array) -> float:
    """The value with the largest absolute value; NaN if there is one."""
    return float(max(values.max(initial=0.0), values.min(initial=0.0), key=abs))


# Largest number of natural parameters with a full matrix (128 MiB).
MOST_PARAMETERS = 4096
# Largest number of parameters to perturb one by one; each takes two passes over the data.
MOST_NUDGED = 512
# Size of a perturbation of a natural parameter, times the standard deviation of its statistic.
NUDGE = 1e-4
# Largest asymmetry of H that rounding explains, relative to its largest entry.
LOPSIDED = 0.1
# Smaller weights contribute nothing measurable.
NEGLIGIBLE = 1e-12


def size_of(structure: Structure) -> int:
    """The number of natural parameters; refused if their matrix would be too large."""
    size = sum(prior.size for prior in structure.prior.values())
    if size > MOST_PARAMETERS:
        raise NotCalibrated(
            f"{size:,} parameters are more than the {MOST_PARAMETERS:,} whose matrix is kept in memory. "
            "Calibrate with method='bootstrap'."
        )
    return size


def places_of(structure: Structure) -> NDArray[np.intp]:
    """(K, p): the positions of each component's parameters, factor after factor."""
    blocks, first = [], 0
    for prior in structure.prior.values():
        blocks.append(first + np.arange(prior.size).reshape(prior.shape))
        first += prior.size
    return np.concatenate(blocks, axis=1)


def mixture_information(structure: Structure, blocks: Iterable[Array], slopes: Array, statistics: Array) -> Array:
    """∂c/∂E[T] of observations that each belong to one component.

        Σ_n (diag r_n − r_n r_nᵀ) ⊗ t_n t_nᵀ

    `blocks` are features f of observations; r = softmax(f · slopes), t = f · statistics.
    """
    matrix, places = np.zeros((size_of(structure),) * 2), places_of(structure)
    components, width = len(places), len(slopes)
    sums = np.zeros((components, components, width, width))
    for features in blocks:
        shares = softmax(features @ slopes, axis=1)
        for k in range(components):
            for other in range(k, components):
                weights = shares[:, k] * ((k == other) - shares[:, other])
                # Most observations have negligible weights for most pairs.
                unsure = np.abs(weights) > NEGLIGIBLE
                some = features[unsure]
                sums[k, other] += some.T @ (weights[unsure, None] * some)
    for k in range(components):
        for other in range(k, components):
            block = statistics.T @ sums[k, other] @ statistics
            matrix[np.ix_(places[k], places[other])] = block
            matrix[np.ix_(places[other], places[k])] = block.T
    return matrix


def feature_information(structure: Structure, points: Array, noise: float, means: Array, shares: Array) -> Array:
    """∂c/∂E[T] of observations that have several features each; `shares` is q(z), (N, K).

    The bound is linear in each of E[T] and z, so c = ∂L/∂E[T] moves with the other features and with z. The optimum of
    z balances ∂L/∂z with the slope of its entropy:

        ∂c/∂E[T] = L_TT + Σ_n L_Tz (1/z(1 − z) + L_zz)⁻¹ L_zT
    """
    matrix, places = np.zeros((size_of(structure),) * 2), places_of(structure)
    components, side = means.shape
    together = shares.T @ shares
    for k in range(components):
        for other in range(components):
            if k != other:
                matrix[places[k, :side], places[other, :side]] -= together[k, other] / noise
    overlap = means @ means.T / noise
    np.fill_diagonal(overlap, 0.0)
    for point, z in zip(points, shares, strict=True):
        cross = np.zeros((components, len(matrix)))
        for k in range(components):
            others = np.where(np.arange(components) == k, 0.0, z)
            cross[k][places[:, :side]] = -others[:, None] * means[k] / noise
            cross[k][places[k]] = [*(point - others @ means) / noise, -0.5 / noise, 1.0, -1.0]
        root = np.sqrt(z * (1.0 - z))
        scaled = root[:, None] * cross
        matrix += scaled.T @ np.linalg.solve(np.eye(components) + root[:, None] * overlap * root, scaled)
    return matrix


def nudged_information(contributed: Callable[[Posterior], Posterior], posterior: Posterior) -> Array:
    """∂c/∂E[T] by finite differences: refit with each natural parameter a little larger and smaller.

        ∂c/∂λ = H V,    so    H = ∂c/∂λ V⁻¹,    V = ∂E[T]/∂λ

    Where T does not vary, H is set to zero: V would cancel it anyway.
    """
    structure = posterior.structure
    if size_of(structure) > MOST_NUDGED:
        raise NotCalibrated(
            f"{size_of(structure):,} parameters are more than the {MOST_NUDGED} whose effect is tried one by one. "
            "Calibrate with method='bootstrap'."
        )
    slopes, roots, first = np.zeros((size_of(structure),) * 2), [], 0
    for name, family in structure.families.items():
        variance = family.covariance(posterior.natural[name])
        columns = [slope(contributed, posterior, name, place, variance) for place in range(len(variance))]
        root, inverse = finite_root(variance)
        slopes[:, first : first + len(variance)] = np.stack(columns, axis=1) @ inverse.T @ inverse
        roots.append(root)
        first += len(variance)
    return symmetric(slopes, np.asarray(block_diag(*roots)))


def symmetric(slopes: Array, root: Array) -> Array:
    """Remove rounding errors from H; refused if c is not the gradient of a bound, ∂L/∂E[T].

    Without a bound H is no second derivative and yields no variances. One cause is a prior that is estimated as a
    single value instead of a distribution.
    """
    product = root.T @ slopes @ root
    if np.abs(product - product.T).max() > LOPSIDED * max(1.0, np.abs(product).max()):
        raise NotCalibrated(
            "Linear response needs a model that maximises one bound over all its factors, and this one does not "
            "(topics with document_prior='learn' do not). Calibrate with method='bootstrap'."
        )
    return np.asarray(0.5 * (slopes + slopes.T))


def finite_root(variance: Array) -> tuple[Array, Array]:
    """The root of a factor's covariance and its inverse; refused if infinite."""
    if not np.isfinite(variance).all():
        raise NotCalibrated("A factor's variances are too large to compute with.")
    return root_and_inverse(variance)


def slope(
    contributed: Callable[[Posterior], Posterior], posterior: Posterior, factor: str, place: int, variance: Array
) -> Array:
    """∂c/∂λ for one natural parameter; zero if nothing depends on it."""
    if not variance[place, place] > 0.0:
        return np.zeros(size_of(posterior.structure))
    step, ends = NUDGE / np.sqrt(variance[place, place]), []
    for sign in (1.0, -1.0):
        natural = {name: np.array(part) for name, part in posterior.natural.items()}
        natural[factor].flat[place] += sign * step
        try:
            ends.append(flat_contribution(contributed(Posterior.from_natural(posterior.structure, natural))))
        except InvalidPosterior:
            raise NotCalibrated(
                f"'{factor}' is at the edge of its domain, so its effect cannot be computed. "
                "Calibrate with method='bootstrap'."
            ) from None
    return np.asarray((ends[0] - ends[1]) / (2.0 * step))


def flat_contribution(posterior: Posterior) -> Array:
    """λ − λ0 of all factors in the structure's order, row by row."""
    return np.concatenate([np.ravel(dense(posterior.contribution[name])) for name in posterior.structure.families])
