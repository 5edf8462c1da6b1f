"""Words whose counts a site has shared out among rare and absent words: they tell how many these are, not which."""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

# Fewer words than this hide nothing. Ratios that differ by less than SAME are equal.
SEVERAL, SAME = 3, 1e-9


def shared_out(topics: csr_array) -> NDArray[np.bool_]:
    """The words that keep the same proportions to each other in all topics of a site, as only shared counts do.

    Each word's mean of arbitrary numbers of its topics depends on these proportions alone. One topic tells nothing.
    """
    counts = csr_array(topics).maximum(0.0)
    totals, used = counts.sum(axis=0), np.bincount(counts.indices[counts.data > 0.0], minlength=counts.shape[1])
    known = np.flatnonzero(used > 1)
    means = (np.sqrt(np.arange(1.0, counts.shape[0] + 1.0)) @ counts)[known] / totals[known]
    hidden = np.zeros(len(totals), dtype=np.bool_)
    rounded, sizes = np.unique(np.round(means / SAME), return_counts=True)
    if sizes.max(initial=0) >= SEVERAL:
        hidden[known] = np.abs(means / SAME - rounded[sizes.argmax()]) <= 1.0
    return hidden
