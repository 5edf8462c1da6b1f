"""Counting words in documents, in one pass."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from decbayes.kernels.compiled import compiled_exactly

LARGEST = np.iinfo(np.int32).max


@compiled_exactly
def add_words(
    data: NDArray[Any], columns: NDArray[Any], offsets: NDArray[Any], first: int, last: int, times: NDArray[np.int64]
) -> bool:
    """Add to `times` how often each word occurs in documents `first` to `last` − 1.

    False as soon as a document does not consist of positive counts of words in increasing order.
    """
    for document in range(first, last):
        start, stop, before = offsets[document], offsets[document + 1], -1
        if start < 0 or stop < start or stop > len(data):
            return False
        for entry in range(start, stop):
            word, count = columns[entry], data[entry]
            if word <= before or word >= len(times) or count < 1 or count > LARGEST:
                return False
            times[word] += count
            before = word
    return True
