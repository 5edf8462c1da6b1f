"""The largest entries of sparse rows."""

import numpy as np
from scipy.sparse import csr_array

from decbayes.families.rows import sparse_rows


def test_a_row_keeps_its_largest_entries_and_of_equal_ones_the_first(rng):
    matrix = rng.integers(0, 6, size=(40, 30)).astype(float)
    matrix[3], matrix[:, -2:] = 0.0, 0.0
    found = sparse_rows(csr_array(matrix)).shortened(7).written_out()
    for row, kept in zip(matrix, found, strict=True):
        there = sorted((-value, column) for column, value in enumerate(row) if value)[:7]
        expected = np.zeros(30)
        for value, column in there:
            expected[column] = -value
        np.testing.assert_array_equal(kept, expected)
