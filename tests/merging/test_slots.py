"""Slots are labelled as in the posterior with the most evidence."""

import numpy as np
import pytest
from structures import topics

import decbayes as db

SOLVERS = [
    db.solvers.Matching(),
    db.solvers.Matching(restarts=0),
    db.solvers.Swaps(),
    db.solvers.Exhaustive(),
    db.solvers.Hierarchical(fan_in=2),
]
WORDS = np.kron(np.eye(4), np.ones(3))  # four topics of three words each
EVIDENCE = (5.0, 400.0, 30.0)


def sites(rng):
    """Three sites that have found the same four topics, each in an order of its own, from little or much data."""
    structure, orders = topics(4, 12), [rng.permutation(4) for _ in EVIDENCE]
    counts = [evidence * WORDS[order] for evidence, order in zip(EVIDENCE, orders, strict=True)]
    return orders, [db.Posterior(structure, {"topics": part}) for part in counts]


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
@pytest.mark.parametrize("seed", range(4))
def test_slots_are_those_of_the_posterior_with_the_most_evidence(solver, seed):
    orders, posteriors = sites(np.random.default_rng(seed))
    merged = db.merge(posteriors, solver=solver).contribution["topics"].toarray()
    np.testing.assert_allclose(merged, sum(EVIDENCE) * WORDS[orders[1]])


def test_posteriors_are_taken_in_the_order_of_their_evidence(rng):
    _, posteriors = sites(rng)
    assert db.align(posteriors).order == (1, 2, 0)


def test_a_prior_that_tells_slots_apart_labels_them(rng):
    orders, posteriors = sites(rng)
    informed = topics(4, 12).with_prior({"topics": 0.5 + 2.0 * WORDS})
    placed = [db.Posterior(informed, dict(posterior.contribution)) for posterior in posteriors]
    merged = db.merge(placed).contribution["topics"].toarray()
    np.testing.assert_allclose(merged, sum(EVIDENCE) * WORDS)
    assert any((order != np.arange(4)).any() for order in orders)
