"""Pieces of components on which several fits agree: what a small site can say reliably, for a merge to combine."""

import numpy as np

from decbayes.families import Array
from decbayes.families.matrices import Indices

# Rows per component of a fit, and average rows per piece, each with the largest number of them.
ROWS_FITTED, MOST_FITTED = 25, 20
ROWS_PIECE, MOST_PIECES = 10, 50
# Smaller pieces are joined to others: disclosure rules would hide them.
LEAST_ROWS = 5
# Rows to compare in pairs; the others follow.
MOST_COMPARED = 2000


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
