"""Pieces of components on which several fits agree: what a small site can say reliably, for a merge to combine."""

from functools import reduce

import numpy as np
from scipy.special import softmax

from decbayes.families import Array
from decbayes.families.matrices import Indices
from decbayes.models.core.ascent import Ascent, Climb, OnPass, announce, climb
from decbayes.models.likelihoods.emissions import Natural, coefficients, plus
from decbayes.models.likelihoods.likelihood import summed
from decbayes.models.mixtures.empirical_prior import FIRST, discrete_columns, under_empirical_prior
from decbayes.models.mixtures.moves import MixtureMoves

# Rows per component of a fit, and average rows per piece, each with the largest number of them.
ROWS_FITTED, MOST_FITTED = 25, 20
ROWS_PIECE, MOST_PIECES = 10, 50
# With fewer rows a fit of pieces would have a single component.
FEWEST_ROWS = 2 * ROWS_FITTED
# Smaller pieces are joined to others: disclosure rules would hide them.
LEAST_ROWS = 5
# Rows to compare in pairs; the others follow.
MOST_COMPARED = 2000
# Starts of the fit from which the prior is estimated.
STARTS = 3


def fit_pieces(moves: MixtureMoves, ascent: Ascent, progress: OnPass | None) -> Climb[Natural]:
    """Pieces on which several fits agree, more and smaller than the components that this site could tell apart."""
    count, bounds = max(1, min(MOST_FITTED, moves.rows // ROWS_FITTED)), list[float]()

    def fit(moves: MixtureMoves) -> Climb[Natural]:
        reached = climb(
            moves.begin(count),
            moves.step,
            ascent,
            moves.observations,
            lambda number, bound: announce(progress, len(bounds), number, bound),
        )
        if reached.interrupted:
            raise KeyboardInterrupt
        bounds.append(max([reached.height, *bounds[-1:]]))
        return reached

    emissions = moves.blocks.emissions
    if discrete_columns(emissions):
        trial, _ = under_empirical_prior(moves, moves.whole(), np.array([FIRST[-1]]))
        best = reduce(Climb.or_higher, [fit(trial) for _ in range(STARTS)])
        moves, _ = under_empirical_prior(moves, trial.statistics(best.state))
    rows = moves.blocks.sample(MOST_COMPARED, moves.rng)
    features, together = emissions.features(rows), np.zeros((len(rows), len(rows)))
    fits = 2 * (1 + ascent.restarts)
    for _ in range(fits):
        shares = softmax(features @ coefficients(emissions, fit(moves).state), axis=1)
        together += shares @ shares.T / fits
    labels = agreed_pieces(together, max(1, min(MOST_PIECES, moves.rows // ROWS_PIECE)))
    sums = summed(features, labels, int(labels.max()) + 1)
    state = plus(emissions, moves.prior(len(sums)), sums)
    state = state if len(rows) == moves.rows else moves.step(state)[0]
    return Climb(moves.as_agreed(state), tuple(bounds), True)


def agreed_pieces(together: Array, count: int) -> Indices:
    """The piece of each row, given how often pairs of rows are together: Ward clusters, none of them small."""
    from scipy.cluster.hierarchy import fcluster, linkage  # slow to import
    from scipy.spatial.distance import squareform

    if len(together) < 2:
        return np.zeros(len(together), dtype=np.intp)
    apart = np.clip(1.0 - 0.5 * (together + together.T), 0.0, 1.0)
    np.fill_diagonal(apart, 0.0)
    labels = fcluster(linkage(squareform(apart, checks=False), "ward"), count, "maxclust") - 1
    large = np.flatnonzero(np.bincount(labels) >= LEAST_ROWS)
    if not len(large):
        return np.zeros(len(labels), dtype=np.intp)
    nearest = np.stack([together[:, labels == piece].mean(axis=1) for piece in large], axis=1).argmax(axis=1)
    return np.asarray(np.where(np.isin(labels, large), np.searchsorted(large, labels), nearest), dtype=np.intp)
