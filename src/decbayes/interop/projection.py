"""The member of a family that is closest to some draws: E[T(θ)] is theirs.

    ∇A(λ) = mean of T(θ_s)        which is where KL(draws ‖ q_λ) is smallest

The function ⟨λ, t⟩ − A(λ) is concave, so that Newton's method with steps that stay in the domain finds its maximum.
"""

import numpy as np
from scipy.special import polygamma

from decbayes.errors import NotConvertible
from decbayes.families import Array, Dirichlet, Family, Weights

STEPS, HALVINGS = 500, 60
# A step that could raise ⟨λ, t⟩ − A(λ) by less, in nats per row, is rounding.
CONVERGED = 1e-12


def projected(family: Family, statistics: Array, start: Array, name: str) -> Array:
    """The natural parameters whose expected statistics are these, (K, d)."""
    natural, height = np.array(start), objective(family, start, statistics)
    for _ in range(STEPS):
        slope = statistics - family.mean(natural)
        step = newton_step(family, natural, slope)
        gain = float(np.sum(slope * step))
        if not np.isfinite(step).all():
            break
        if gain <= CONVERGED * len(natural):
            return natural
        natural, height, moved = line_search(family, natural, step, statistics, height)
        if not moved:
            break
    # Rounding may end a search a little early; anything else means that there is no maximum.
    if gain <= 1e-6 * len(natural):
        return natural
    raise NotConvertible(
        f"No {family.name} has the moments of '{name}': there are too few different draws, or some lie on the border."
    )


def objective(family: Family, natural: Array, statistics: Array) -> float:
    return float(np.sum(natural * statistics)) - family.log_partition(natural)


def line_search(
    family: Family, natural: Array, step: Array, statistics: Array, height: float
) -> tuple[Array, float, bool]:
    """The longest of the step's halves that stays in the domain and rises."""
    for halving in range(HALVINGS):
        trial = natural + 0.5**halving * step
        if family.contains(trial):
            reached = objective(family, trial, statistics)
            if reached > height:
                return trial, reached, True
    return natural, height, False


def newton_step(family: Family, natural: Array, slope: Array) -> Array:
    """∇²A(λ)⁻¹ (t − ∇A(λ)); matrices whose entries come twice make ∇²A singular."""
    if isinstance(family, Dirichlet):
        return np.array([share_step(alpha, row) for alpha, row in zip(natural + 1.0, slope, strict=True)])
    if isinstance(family, Weights):
        return share_step(natural[:, 0] + 1.0, slope[:, 0])[:, None]
    inverses = np.linalg.pinv(family.row_covariances(natural), rcond=1e-13, hermitian=True)
    return np.asarray(np.einsum("kij,kj->ki", inverses, slope))


def share_step(alpha: Array, slope: Array) -> Array:
    """Of a Dirichlet ∇²A is a diagonal matrix and one of rank one (Minka 2000)."""
    own, total = polygamma(1, alpha), polygamma(1, alpha.sum())
    with np.errstate(divide="ignore", invalid="ignore"):
        common = np.sum(slope / own) / (1.0 / total - np.sum(1.0 / own))
    return np.asarray((slope + common) / own)
