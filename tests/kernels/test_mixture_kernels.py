"""The pass of a mixture, against SciPy's softmax and matrix products."""

import numpy as np
import pytest
from scipy.special import logsumexp, softmax

from decbayes.kernels.responsibilities import WIDTH, fill_tiles, weigh_points


def up_to_four(size):
    return -(-size // 4) * 4


@pytest.mark.parametrize("points", [1, WIDTH - 1, WIDTH, 2 * WIDTH + 5])
@pytest.mark.parametrize(("components", "features"), [(1, 1), (3, 4), (5, 7), (8, 12)])
def test_sums_and_heights_are_those_of_matrix_products(rng, points, components, features):
    values, slopes = rng.normal(size=(points, features)), rng.normal(size=(components, features))
    constants = 20.0 * rng.normal(size=components)
    tiles = np.full((-(-points // WIDTH), up_to_four(features), WIDTH), np.nan)
    fill_tiles(values, tiles)
    padded = np.zeros((up_to_four(components), tiles.shape[1]))
    padded[:components, :features] = slopes
    sums = np.zeros((len(padded), tiles.shape[1] + 1))
    total = weigh_points(tiles, points, padded, constants, sums)
    scores = values @ slopes.T + constants
    shares = softmax(scores, axis=1)
    assert total == pytest.approx(logsumexp(scores, axis=1).sum(), rel=1e-12)
    np.testing.assert_allclose(sums[:components, :features], shares.T @ values, atol=1e-10)
    np.testing.assert_allclose(sums[:components, -1], shares.sum(axis=0), rtol=1e-12)
    assert not sums[components:].any()
    assert not sums[:, features:-1].any()
