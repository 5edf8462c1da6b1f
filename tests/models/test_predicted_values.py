"""Predictions of single columns against mixtures of SciPy's distributions, and small rules of starts and priors."""

import numpy as np
import pytest
from scipy.stats import nbinom, t

from decbayes.models.features._starts import CONTRASTS, independent_directions
from decbayes.models.likelihoods.discrete import Categories, Counted, YesOrNo
from decbayes.models.likelihoods.real import real_likelihood
from decbayes.models.topics.word_prior import concentration

SHARES = np.array([[0.2, 0.8], [0.55, 0.45], [0.9, 0.1], [0.5, 0.5]])
LEVEL = 0.7


def test_yes_is_predicted_where_it_is_more_probable_than_no():
    likelihood = YesOrNo()
    natural = likelihood.family.natural(alpha=[[3.0, 9.0], [8.0, 2.0]], beta=[[5.0, 1.0], [2.0, 7.0]])
    for place, chance in enumerate([[3 / 8, 8 / 10], [9 / 10, 2 / 9]]):
        yes = SHARES @ chance
        assert yes.min() < 0.5 < yes.max()
        found = likelihood.predicted(natural, place, SHARES, LEVEL)
        np.testing.assert_array_equal(found["value"], yes > 0.5)
        np.testing.assert_allclose(found["probability"], np.maximum(yes, 1.0 - yes))


def test_the_most_probable_category_is_predicted():
    likelihood = Categories((2, 3))
    alpha = np.array([[2.0, 3.0, 1.0, 5.0, 4.0], [4.0, 1.0, 6.0, 1.0, 3.0]])
    shares = [alpha[:, :2] / alpha[:, :2].sum(axis=1, keepdims=True), alpha[:, 2:] / alpha[:, 2:].sum(axis=1)[:, None]]
    for place, of_column in enumerate(shares):
        found = likelihood.predicted(alpha - 1.0, place, SHARES, LEVEL)
        np.testing.assert_array_equal(found["value"], (SHARES @ of_column).argmax(axis=1))
        np.testing.assert_allclose(found["probability"], (SHARES @ of_column).max(axis=1))


def test_counts_have_the_quantiles_of_negative_binomial_distributions():
    likelihood, shape, rate = Counted(), np.array([[3.0, 40.0], [30.0, 2.0]]), np.array([[2.0, 1.5], [1.2, 0.5]])
    natural = likelihood.family.natural(shape=shape, rate=rate)
    for place in range(2):
        found = likelihood.predicted(natural, place, SHARES, LEVEL)
        parts = [nbinom(shape[k, place], rate[k, place] / (1.0 + rate[k, place])) for k in range(2)]
        for name, share in (("low", 0.15), ("value", 0.5), ("high", 0.85)):
            for row, mixed in enumerate(SHARES):
                below = mixed @ [part.cdf(np.arange(200)) for part in parts]
                assert found[name][row] == int(np.argmax(below >= share))


@pytest.mark.parametrize(("kind", "units"), [("diagonal", (3.0, 0.5)), ("full", (-1.0, 20.0)), ("known", (0.3, 2.0))])
def test_real_values_have_the_mean_and_the_quantiles_of_their_mixture(kind, units, rng):
    described = {"variance": 0.3} if kind == "known" else {"covariance": kind}
    likelihood = real_likelihood(**described, centre=(units[0],) * 2, scale=(units[1],) * 2)
    prior = likelihood.prior(2, strength=0.5, degrees=9.0, scale=0.7)
    points = units[0] + units[1] * np.array([[0.5, -2.0], [1.0, 3.0], [0.0, 0.7], [-2.0, 1.5]])
    weights = np.array([[3.0, 1.0, 0.5, 2.0], [1.0, 4.0, 2.0, 0.2]])
    natural = prior + likelihood.contribution(weights @ likelihood.features(points))
    mean, scale, freedom = likelihood.marginal(natural)
    mean, scale = units[0] + units[1] * mean, units[1] * scale
    for place in range(2):
        found = likelihood.predicted(natural, place, SHARES, LEVEL)
        values = [t(freedom[k, place], mean[k, place], scale[k, place]) for k in range(2)]
        np.testing.assert_allclose(found["value"], SHARES @ [value.mean() for value in values])
        for name, share in (("low", 0.15), ("high", 0.85)):
            below = np.array([value.cdf(found[name]) for value in values])
            np.testing.assert_allclose((SHARES.T * below).sum(axis=0), share, rtol=1e-6)


@pytest.mark.parametrize("contrast", range(len(CONTRASTS)))
def test_independent_directions_are_where_a_step_of_the_algorithm_stays(contrast, rng):
    """The step is written out, with the polar factor from the eigenvectors of a product."""
    sources = np.column_stack([rng.random(400) < 0.3, rng.random(400) < 0.5, rng.exponential(size=400)]) * 1.0
    white = np.linalg.svd(sources @ rng.normal(size=(3, 3)) - 0.0, full_matrices=False)[0]
    white = (white - white.mean(axis=0)) @ np.linalg.inv(np.linalg.cholesky(np.cov(white.T, bias=True))).T
    turn = independent_directions(white, CONTRASTS[contrast], rng)
    np.testing.assert_allclose(turn @ turn.T, np.eye(3), atol=1e-9)
    value, slope = CONTRASTS[contrast](white @ turn.T)
    step = value.T @ white / len(white) - slope.mean(axis=0)[:, None] * turn
    sizes, axes = np.linalg.eigh(step @ step.T)
    after = axes @ np.diag(sizes**-0.5) @ axes.T @ step
    assert np.abs((after * turn).sum(axis=1)).min() > 1.0 - 1e-4


def test_priors_come_back_with_the_digits_that_somebody_wrote():
    for digits in (100, 1000):
        written = np.arange(1, 3 * digits) / digits
        np.testing.assert_array_equal(concentration(written - 1.0), written)
