"""The Gibbs sampler against the true posterior, summed over all allocations."""

from itertools import product

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

import decbayes as db

POINTS = np.array([-0.4, 0.1, 0.5, 2.0])
MODEL = db.GaussianMixture(components=2, dimension=1, variance=0.25, prior_variance=2.0, weight_prior=1.5)


def log_joint(allocation):
    """log p(x, z) with parameters integrated out, from textbook formulas."""
    total = gammaln(3.0) - gammaln(3.0 + len(POINTS))
    for k in range(2):
        members = POINTS[np.array(allocation) == k]
        total += gammaln(1.5 + len(members)) - gammaln(1.5)
        covariance = 0.25 * np.eye(len(members)) + 2.0
        if len(members):
            total -= 0.5 * (
                members @ np.linalg.solve(covariance, members) + np.linalg.slogdet(2 * np.pi * covariance)[1]
            )
    return total


def exact_moments():
    """E of the sum of the means, of their squares, and of the squared weights: unchanged by relabelling."""
    allocations = list(product(range(2), repeat=len(POINTS)))
    logs = np.array([log_joint(allocation) for allocation in allocations])
    moments = np.zeros(3)
    for weight, allocation in zip(np.exp(logs - logsumexp(logs)), allocations, strict=True):
        for k in range(2):
            members = POINTS[np.array(allocation) == k]
            precision = 1 / 2.0 + len(members) / 0.25
            mean, alpha = members.sum() / 0.25 / precision, 1.5 + len(members)
            total = 3.0 + len(POINTS)
            square = alpha * (alpha + 1) / (total * (total + 1))
            moments += weight * np.array([mean, mean**2 + 1 / precision, square])
    return moments


@pytest.mark.parametrize("relabel", [True, False])
def test_draws_have_the_moments_of_the_true_posterior(relabel, rng):
    draws = db.checking.gibbs(MODEL, POINTS, rng=rng, draws=3_000, burn_in=200, relabel=relabel)
    means, weights = draws["components"][:, :, 0], draws["weights"]
    values = np.stack([means.sum(axis=1), (means**2).sum(axis=1), (weights**2).sum(axis=1)])
    blocks = values.reshape(3, 30, 100).mean(axis=2)  # means of long blocks are nearly independent
    error = blocks.std(axis=1) / np.sqrt(30)
    assert (np.abs(values.mean(axis=1) - exact_moments()) < 5 * error).all()


def test_relabelling_moves_visit_all_labellings_and_their_absence_sticks(rng):
    """Figure 3: well separated clusters; a plain chain keeps its labels, a relabelling one has no preference."""
    model = db.GaussianMixture(components=3, dimension=1, variance=0.01, prior_variance=4.0)
    points = np.repeat([-2.0, 0.0, 2.0], 10) + rng.normal(0, 0.1, 30)
    free, stuck = (
        np.argsort(
            db.checking.gibbs(model, points, rng=np.random.default_rng(1), draws=600, burn_in=300, relabel=relabel)[
                "components"
            ][:, :, 0],
            axis=1,
        )
        for relabel in (True, False)
    )
    assert len({tuple(order) for order in free}) == 6
    assert len({tuple(order) for order in stuck}) == 1


def test_draws_are_shaped_as_posterior_samples(rng):
    model = db.GaussianMixture(components=3, dimension=2, variance=1.0)
    draws = db.checking.gibbs(model, rng.normal(size=(5, 2)), rng=rng, draws=4, burn_in=1, thinning=3)
    samples = model.fit(rng.normal(size=(5, 2)), rng=rng).posterior.sample(4, rng)
    assert {name: part.shape for name, part in draws.items()} == {name: part.shape for name, part in samples.items()}


def test_only_known_variances_are_sampled(rng):
    with pytest.raises(ValueError, match="known variance"):
        db.checking.gibbs(db.GaussianMixture(components=2, dimension=1, covariance="full"), [0.0], rng=rng, draws=1)
