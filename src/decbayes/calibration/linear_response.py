"""Linear response: the variance of a parameter is the change of its posterior mean under a small perturbation.

Mean field treats latent variables and parameters as independent and so misses their joint uncertainty. At a fixed point
λ = λ0 + Σ_i c_i(E[T]) a perturbation of the log posterior by t · f(θ) moves E[f] by

    Var[f] = Cov_q[f, f] + Cov_q[f, T] H (I − V H)⁻¹ Cov_q[T, f],    V = ∇²A(λ) = Cov_q[T, T],    H = Σ_i ∂c_i/∂E[T]

With V = L Lᵀ and Cov_q[f, T] = Z Lᵀ this is Var_q[f] + Z M (I − M)⁻¹ Zᵀ, where M = Lᵀ H L is symmetric, with
eigenvalues below 1 at every maximum of the bound.
"""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from scipy.linalg import block_diag

from decbayes.calibration.sites import Information, total
from decbayes.errors import NotCalibrated
from decbayes.families import Array, Family
from decbayes.models.core.information import finite_root, flat_contribution
from decbayes.posterior import Posterior

# Step of a natural parameter, in units of its information; finite differences of the mean need no smaller one.
NUDGE = 1e-3
# At an eigenvalue of 1 the bound is flat, and the data do not determine the posterior.
FLAT = 1.0 - 1e-6


class LinearResponse:
    """The response of a posterior to the data of all sites, given their total information."""

    def __init__(self, posterior: Posterior, information: Information) -> None:
        if information.at != posterior.digest:
            raise NotCalibrated("The sites' information belongs to another posterior: compute it at the merged one.")
        self.posterior, self.families = posterior, posterior.structure.families
        self._variances = [family.covariance(posterior.natural[name]) for name, family in self.families.items()]
        roots, self._inverses = zip(*map(finite_root, self._variances), strict=True)
        root = np.asarray(block_diag(*roots))
        if information.matrix.shape != (len(root),) * 2 or information.contribution.shape != (len(root),):
            raise NotCalibrated(
                f"The sites' information is about {len(information.contribution)} parameters, the posterior has "
                f"{len(root)}."
            )
        step = information.contribution - flat_contribution(posterior)
        with np.errstate(over="ignore", invalid="ignore"):
            product, slope = finite(root.T @ information.matrix @ root), finite(root.T @ step)
        self.eigenvalues: Array
        self.eigenvalues, self._axes = np.linalg.eigh(product)
        # Written as "not below 1", so that NaN is refused too.
        if not self.eigenvalues[-1] <= FLAT:
            raise NotCalibrated(
                "This posterior is not at a maximum of its bound: the sites' data would move it away. "
                "Refine it until it has converged (`refine`), then calibrate."
            )
        self._slope = self._axes.T @ slope

    def remaining(self) -> float:
        """The distance of the posterior from convergence: the root mean square over parameters, in deviations.

        At λ the next step is g = λ0 + Σ_i c_i − λ, and all steps together add up to (I − V H)⁻¹ V g.
        """
        moved = float(np.sum(self._slope**2 / (1.0 - self.eigenvalues)))
        parameters = int(np.count_nonzero(flat_contribution(self.posterior)))
        return float(np.sqrt(moved / max(parameters, 1)))

    def deviations(self) -> dict[str, dict[str, Array]]:
        """The standard deviation of every entry, by factor and quantity."""
        added = np.sum(self._seen**2 * (self.eigenvalues / (1.0 - self.eigenvalues)), axis=1)
        deviations: dict[str, dict[str, Array]] = {}
        first = 0
        for factor, family in self.families.items():
            deviations[factor] = {}
            for name, plain in family.quantities(family.deviation(self.posterior.natural[factor])).items():
                more = added[first : first + plain.size].reshape(plain.shape)
                # Features that share observations may have a smaller response than mean field.
                deviations[factor][name] = np.sqrt(np.maximum(plain**2 + more, 0.0))
                first += plain.size
        return deviations

    def covariance(self) -> Array:
        """The covariance of all entries: factors, quantities, components, entries, one after another."""
        matrix = np.asarray((self._seen / (1.0 - self.eigenvalues)) @ self._seen.T)
        deviations = [part.ravel() for factor in self.deviations().values() for part in factor.values()]
        # T determines a Gaussian's mean fully, and a share almost: the remaining variance is independent per entry.
        np.fill_diagonal(matrix, np.concatenate(deviations) ** 2)
        return matrix

    @cached_property
    def _seen(self) -> Array:
        """Z in the axes of M."""
        moved = [
            response(family, self.posterior.natural[name], np.diag(variance)) @ inverse.T
            for (name, family), variance, inverse in zip(
                self.families.items(), self._variances, self._inverses, strict=True
            )
        ]
        return np.asarray(block_diag(*moved) @ self._axes)


def finite(product: Array) -> Array:
    if not np.isfinite(product).all():
        raise NotCalibrated("The sites' information is too large to compute with.")
    return product


def covariance(posterior: Posterior, parts: Sequence[Information]) -> Array:
    """The covariance of all entries: factors in the structure's order, their quantities, components, entries.

    For differences and other sums of entries, whose variance does not follow from the deviations alone.
    """
    return LinearResponse(posterior, total(parts)).covariance()


def response(family: Family, natural: Array, variances: Array) -> Array:
    """∂E[θ]/∂λ = Cov_q[θ, T], (entries, K · d), by differences."""
    # A constant, such as the weight of a single component, does not respond to a step of any size.
    steps = NUDGE / np.sqrt(np.where(variances > 0.0, variances, 1.0))
    columns = []
    for place, step in enumerate(steps):
        nudge = np.zeros(natural.size)
        nudge[place] = step
        ahead, behind = (flat_mean(family, natural + sign * nudge.reshape(natural.shape)) for sign in (1.0, -1.0))
        columns.append((ahead - behind) / (2.0 * step))
    return np.stack(columns, axis=1)


def flat_mean(family: Family, natural: Array) -> Array:
    return np.concatenate([np.ravel(part) for part in family.quantities(family.expected(natural)).values()])
