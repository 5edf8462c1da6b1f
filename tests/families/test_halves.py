"""Halves of symmetric matrices, against whole ones."""

import numpy as np
import pytest

from decbayes.families.matrices import folded, mirrored, upper, upper_products


@pytest.mark.parametrize("side", [1, 2, 5])
def test_a_half_says_all_of_a_symmetric_matrix(side, rng):
    one, other = (rng.normal(size=(2, 3, side, side)) for _ in range(2))
    one, other = one + np.swapaxes(one, -1, -2), other + np.swapaxes(other, -1, -2)
    assert upper(one).shape == (2, 3, side * (side + 1) // 2)
    np.testing.assert_array_equal(mirrored(upper(one), side), one)
    np.testing.assert_allclose((folded(one) * upper(other)).sum(axis=-1), (one * other).sum(axis=(-1, -2)))
    vectors = rng.normal(size=(4, side))
    np.testing.assert_array_equal(mirrored(upper_products(vectors), side), vectors[:, :, None] * vectors[:, None, :])
