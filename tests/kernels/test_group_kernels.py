"""Kernels of groups of sparse counts, against SciPy's x log x."""

import numpy as np
from scipy.special import xlogy

from decbayes.kernels.joined_counts import STEEP, shared_likelihood, slot_join_losses, tabulate_g


def g(counts):
    """y log y, and a penalty below zero."""
    return xlogy(np.maximum(counts, 0.0), np.maximum(counts, 0.0)) + 1e4 * np.minimum(counts, 0.0)


def test_counts_below_zero_are_penalised(rng):
    counts = np.concatenate([rng.gamma(1.0, 5.0, 20), [0.0, -0.5, -2.0, 1e-12]])[None]
    table = np.empty_like(counts)
    tabulate_g(counts, table)
    np.testing.assert_allclose(table, g(counts), atol=1e-10)
    assert STEEP == 1e4


def test_slots_lose_by_joining_what_columns_and_totals_say(rng):
    counts = rng.poisson(1.0, size=(4, 30)).astype(float)
    losses, table = np.zeros((4, 4)), g(counts)
    slot_join_losses(counts, table, counts.sum(axis=1), losses)
    for p in range(4):
        for q in range(4):
            if p != q:
                both = counts[p] + counts[q]
                columns = g(counts[p]).sum() + g(counts[q]).sum() - g(both).sum()
                totals = g(counts[p].sum()) + g(counts[q].sum()) - g(both.sum())
                np.testing.assert_allclose(losses[p, q], columns - totals, atol=1e-8)


def test_the_likelihood_of_shares_is_that_of_the_mixture(rng):
    counts, shares, profiles = rng.poisson(1.0, (3, 8)), rng.dirichlet(np.ones(2), 3), rng.dirichlet(np.ones(8), 2).T
    rows, columns = np.nonzero(counts)
    ends = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=3))]).astype(np.int32)
    data = counts[rows, columns].astype(float)
    found = shared_likelihood(ends[:-1], ends[1:], columns.astype(np.int32), data, shares, profiles)
    np.testing.assert_allclose(found, (counts * np.log(shares @ profiles.T)).sum())
