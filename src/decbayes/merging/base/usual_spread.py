"""Regressions whose sites claim to know coefficients better than they do, compared at their usual spread.

If tails are heavy, counts vary more than the model allows, or rows of one person depend on each other, honest sites are
further apart than their precisions allow. So these are divided by how far random halves of the median site's own rows
are apart (`Posterior.halves`), or, where sites only say that their intervals are too narrow, by the spread of two sites
relative to chance: with

    Q_ij = s_iᵀ P_i⁻¹ s_i + s_jᵀ P_j⁻¹ s_j − (s_i + s_j)ᵀ (P_i + P_j)⁻¹ (s_i + s_j)

of each pair, by chance χ², the lower quartile over pairs of Q_ij relative to its quartile. Fewer than a third of faulty
sites hardly move it: nearly half of all pairs are honest.
"""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from scipy.special import gammaincinv

from decbayes.families import Array, dense
from decbayes.merging.base.canonical import canonical_order
from decbayes.posterior import Posterior
from decbayes.remarks import too_narrow

# The share of pairs below the spread that is usual; the fewest sites that have one; the most that are compared.
QUARTILE, FEWEST, MOST = 0.25, 3, 40
# Precisions relative to the best known direction that count as none.
UNKNOWN = 1e-9
# Standard deviations above the average up to which robust merges tolerate disagreement.
TAIL = 2.5


def at_usual_spread(posteriors: Sequence[Posterior], said: Sequence[Posterior]) -> Sequence[Posterior]:
    """The posteriors with precisions that explain their spread, if those that were sent (`said`) state it or remark
    that theirs do not."""
    structure, narrow = posteriors[0].structure, bool(too_narrow(said))
    if structure.symmetry or len(posteriors) < FEWEST or not (narrow or any(one.halves for one in said)):
        return posteriors
    for name, family in structure.families.items():
        order, _ = canonical_order(posteriors)
        chosen = [posteriors[site] for site in order[:MOST]]
        known = [family.quadratic(dense(one.contribution[name]), one.natural[name]) for one in chosen]
        vectors = [(shift[0], precision[0]) for shift, precision in filter(None, known) if len(shift) == 1]
        if len(vectors) < len(chosen):
            continue
        times = stated_spread(said, len(vectors[0][0])) or (spread(vectors) if narrow else 1.0)
        if times > 1.0:
            posteriors = [
                one.lessened({**one.contribution, name: dense(one.contribution[name]) / times}) for one in posteriors
            ]
    return posteriors


def stated_spread(said: Sequence[Posterior], width: int) -> float:
    """How far halves of the median site's rows are apart, relative to chance; 0 if most sites do not state it.

    Directions are unequal: with freedom p and D tr W² / (tr W)² = e, Q is about e times a χ² of p / e. What matters is
    how far its tail reaches, `TAIL` standard deviations above its mean.
    """
    stated = [one.halves[:2] for one in said if len(one.halves) == width + 2]
    if 2 * len(stated) <= len(said):
        return 0.0
    times, unequal = np.median(stated, axis=0)
    half, deviation = 0.5 * width, TAIL * np.sqrt(0.5 * width)
    return float(max(times * (half + deviation * np.sqrt(max(unequal, 1.0))) / (half + deviation), 1.0))


def spread(vectors: Sequence[tuple[Array, Array]]) -> float:
    """The usual spread of two vectors, each given by s and P, relative to chance."""
    alone = [explained(*vector) for vector in vectors]
    ratios = []
    for (one, first), (other, second) in combinations(zip(vectors, alone, strict=True), 2):
        joint, rank = explained(one[0] + other[0], one[1] + other[1])
        freedom = first[1] + second[1] - rank
        if freedom > 0:
            ratios.append((first[0] + second[0] - joint) / (2.0 * gammaincinv(0.5 * freedom, QUARTILE)))
    return float(np.quantile(ratios, QUARTILE, method="lower")) if ratios else 1.0


def explained(shift: Array, precision: Array) -> tuple[float, int]:
    """sᵀ P⁻¹ s, and the rank of P."""
    sizes, directions = np.linalg.eigh(precision)
    known = sizes > UNKNOWN * max(sizes.max(initial=0.0), UNKNOWN)
    along = (shift @ directions)[known]
    return float(along**2 @ (1.0 / sizes[known])), int(known.sum())
