"""Linear response: how far each posterior mean moves when the data are nudged is what its variance should be.

Mean field keeps hidden variables and parameters apart and so misses what one does not know about the other. At a fixed
point λ = λ0 + Σ_i c_i(E[T]) a nudge of the log posterior by t · f(θ) moves E[f] by

    Var[f] = Cov_q[f, f] + Cov_q[f, T] H (I − V H)⁻¹ Cov_q[T, f],    V = ∇²A(λ) = Cov_q[T, T],    H = Σ_i ∂c_i/∂E[T]

With V = L Lᵀ and Cov_q[f, T] = Z Lᵀ that is Var_q[f] + Z M (I − M)⁻¹ Zᵀ, where M = Lᵀ H L is symmetric, and has
eigenvalues below 1 wherever the bound has a maximum.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from scipy.linalg import block_diag

from decbayes.calibration.sites import Information, total
from decbayes.errors import NotCalibrated
from decbayes.families import Array, Family
from decbayes.posterior import Posterior

# A nudge of a natural parameter, in units of the information that it carries: differences of the mean need no less.
NUDGE = 1e-3
# Directions in which T does not vary at all: a symmetric matrix is written out twice.
NOTHING = 1e-12
# At an eigenvalue of 1 the bound is flat, and the data do not say where the posterior is.
FLAT = 1.0 - 1e-6


def deviations(posterior: Posterior, information: Array) -> dict[str, dict[str, Array]]:
    """The standard deviation of every entry, by factor and quantity."""
    added = np.diag(added_covariance(posterior, information))
    found: dict[str, dict[str, Array]] = {}
    first = 0
    for factor, family in posterior.structure.families.items():
        found[factor] = {}
        for name, plain in family.quantities(family.deviation(posterior.natural[factor])).items():
            more = added[first : first + plain.size].reshape(plain.shape)
            # Rounding may leave a little less than nothing.
            found[factor][name] = np.sqrt(plain**2 + np.maximum(more, 0.0))
            first += plain.size
    return found


def covariance(posterior: Posterior, parts: Sequence[Information]) -> Array:
    """The covariance of all entries: factors in the structure's order, their quantities, components, entries.

    For differences and other sums of entries, whose variance the deviations alone do not tell.
    """
    whole = total(parts).matrix
    seen, eigenvalues = seen_directions(posterior, whole)
    matrix = np.asarray((seen / (1.0 - eigenvalues)) @ seen.T)
    found = [part.ravel() for factor in deviations(posterior, whole).values() for part in factor.values()]
    # T tells all of a Gaussian's mean, and nearly all of a share: the rest is each entry's own.
    np.fill_diagonal(matrix, np.concatenate(found) ** 2)
    return matrix


def added_covariance(posterior: Posterior, information: Array) -> Array:
    """What mean field misses of the covariance of all entries: factors, quantities, components, one after another."""
    seen, eigenvalues = seen_directions(posterior, information)
    return np.asarray((seen * (eigenvalues / (1.0 - eigenvalues))) @ seen.T)


def seen_directions(posterior: Posterior, information: Array) -> tuple[Array, Array]:
    """Z in the axes of M, and its eigenvalues there."""
    families = posterior.structure.families
    covariances = [family.covariance(posterior.natural[name]) for name, family in families.items()]
    roots, inverses = zip(*map(root_and_inverse, covariances), strict=True)
    root = np.asarray(block_diag(*roots))
    eigenvalues, axes = np.linalg.eigh(root.T @ information @ root)
    if eigenvalues[-1] > FLAT:
        raise NotCalibrated(
            "This posterior is not at a maximum of its bound: the sites' data would move it away. "
            "Refine it until it has converged (`refine`), then calibrate."
        )
    moved = [
        response(family, posterior.natural[name], np.diag(covariance)) @ inverse.T
        for (name, family), covariance, inverse in zip(families.items(), covariances, inverses, strict=True)
    ]
    return np.asarray(block_diag(*moved)) @ axes, eigenvalues


def root_and_inverse(covariance: Array) -> tuple[Array, Array]:
    """L with L Lᵀ = V, and its pseudo-inverse; T in its own deviations first, which may differ by many digits."""
    scale = np.sqrt(np.diag(covariance))
    eigenvalues, axes = np.linalg.eigh(covariance / np.outer(scale, scale))
    seen = eigenvalues > NOTHING * len(scale)
    lengths, directions = np.sqrt(eigenvalues[seen]), axes[:, seen]
    return scale[:, None] * directions * lengths, (directions / lengths).T / scale


def response(family: Family, natural: Array, variances: Array) -> Array:
    """∂E[θ]/∂λ = Cov_q[θ, T], (entries, K · d), by differences."""
    steps = NUDGE / np.sqrt(variances)
    columns = []
    for place, step in enumerate(steps):
        nudge = np.zeros(natural.size)
        nudge[place] = step
        ahead, behind = (flat_mean(family, natural + sign * nudge.reshape(natural.shape)) for sign in (1.0, -1.0))
        columns.append((ahead - behind) / (2.0 * step))
    return np.stack(columns, axis=1)


def flat_mean(family: Family, natural: Array) -> Array:
    return np.concatenate([np.ravel(part) for part in parts(family, natural)])


def parts(family: Family, natural: Array) -> Iterator[Array]:
    yield from family.quantities(family.expected(natural)).values()
