"""Every outcome of a regression against sums over a fine grid of its linear predictor."""

import numpy as np
import pytest
from scipy.special import log_expit, logsumexp, softmax
from scipy.stats import nbinom, norm, poisson, t

from decbayes.models.regressions.linear import Linear, log_student
from decbayes.models.regressions.logistic import Logistic
from decbayes.models.regressions.multinomial import normal_points, shares_at
from decbayes.models.regressions.negative_binomial import NegativeBinomial
from decbayes.models.regressions.ordered import GAP, NARROWEST, Cumulative, Step
from decbayes.models.regressions.poisson import PoissonOutcome


def gap(f):
    """log(1 − exp(−f)), and the parabola that touches it where gaps are narrowest."""
    at = np.maximum(f, NARROWEST)
    slope, bend = 1.0 / np.expm1(at), -np.exp(at) / np.expm1(at) ** 2
    return np.log(-np.expm1(-at)) + slope * (f - at) + 0.5 * bend * (f - at) ** 2


OUTCOMES = {
    "yes": (Logistic(), [0.0, 1.0], lambda y, f: log_expit(np.where(y == 1.0, f, -f))),
    "count": (PoissonOutcome(), [0.0, 1.0, 7.0, 300.0], lambda y, f: poisson.logpmf(y, np.exp(f))),
    "rare": (NegativeBinomial(0.4), [0.0, 2.0, 90.0], lambda y, f: nbinom.logpmf(y, 0.4, 0.4 / (0.4 + np.exp(f)))),
    "usual": (NegativeBinomial(5.0), [0.0, 2.0, 90.0], lambda y, f: nbinom.logpmf(y, 5.0, 5.0 / (5.0 + np.exp(f)))),
}
STEPS = np.linspace(-45.0, 45.0, 3001)  # a large count is far beyond what was expected
WEIGHTS = norm.pdf(STEPS) / norm.pdf(STEPS).sum()
PLACES = [(mean, variance) for mean in (-4.0, -0.3, 1.2, 5.0) for variance in (1e-4, 0.3, 2.0)]


@pytest.mark.parametrize("name", OUTCOMES)
def test_expectations_and_densities_are_those_of_a_grid(name):
    """E[log p(y|f)], and log E[p(y|f)], where f is Gaussian."""
    outcome, targets, log_p = OUTCOMES[name]
    near = 3e-3 if name == "yes" else 2e-4  # of odds, a mixture of Gaussians stands for the logistic function
    for mean, variance in PLACES:
        f = mean + np.sqrt(variance) * STEPS
        for y in targets:
            values, place = log_p(y, f), (np.array([mean]), np.array([variance]))
            value, _, _ = outcome.expectations(np.array([y]), *place)
            times = 5.0 + y if name in ("rare", "usual") else 1.0
            assert value[0] == pytest.approx(WEIGHTS[1000:2001] @ values[1000:2001], rel=1e-6, abs=times * near)
            density = outcome.log_density(None, *place, np.array([y]))[0]
            expected = logsumexp(values + norm.logpdf(STEPS)) - logsumexp(norm.logpdf(STEPS))
            assert density == pytest.approx(expected, rel=1e-6, abs=times * near)


@pytest.mark.parametrize("variance", [0.0, 0.5, 4.0])
def test_odds_that_are_far_off_have_the_mean_of_a_log_normal(variance):
    """For large −f, 1 / (1 + exp(−f)) is exp(f)."""
    density = OUTCOMES["yes"][0].log_density(None, np.array([-40.0, 40.0]), np.full(2, variance), np.array([1.0, 0.0]))
    np.testing.assert_allclose(density, -40.0 + 0.5 * variance, rtol=1e-9)


@pytest.mark.parametrize("name", [*OUTCOMES, "gap"])
def test_slopes_and_weights_are_those_of_expectations(name):
    """dE/dm and −2 dE/dv, by differences."""
    outcome, targets, _ = OUTCOMES.get(name, (Cumulative(ordered=("a", "b", "c")), [GAP, 0.0, 1.0], None))
    for mean, variance in [*PLACES, (0.5 * NARROWEST, 0.3)]:
        for y in targets:

            def at(m, v, y=y):
                return outcome.expectations(*(np.array([each]) for each in (y, m, v)))

            step = 1e-5 * max(1.0, abs(mean)) if mean > NARROWEST or name != "gap" else 1e-8
            slope = (at(mean + step, variance)[0] - at(mean - step, variance)[0]) / (2 * step)
            weight = -(at(mean, variance * 1.001)[0] - at(mean, variance * 0.999)[0]) / (0.001 * variance)
            assert at(mean, variance)[1] == pytest.approx(slope, rel=1e-4, abs=1e-5)
            assert at(mean, variance)[2] == pytest.approx(weight, rel=1e-3, abs=1e-5 + 1e-9 / variance)


def test_gaps_are_logarithms_of_their_probability():
    outcome, f = Cumulative(ordered=("a", "b", "c")), np.array([-2.0, 0.0, 0.3 * NARROWEST, 0.01, 0.5, 30.0])
    found = outcome.expectations(np.full(6, GAP), f, np.zeros(6))[0]
    np.testing.assert_allclose(found, gap(f), rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("name", ["count", "rare", "usual"])
@pytest.mark.parametrize("level", [0.2, 0.9, 0.998])
def test_intervals_of_counts_are_quantiles_of_new_ones(name, level):
    """The least count with so much probability up to it; none below has as much."""
    outcome, (means, variances) = OUTCOMES[name][0], np.array(PLACES).T
    found = outcome.predicted(None, means, variances, level)
    for place, (mean, variance) in enumerate(PLACES):
        rates = np.exp(mean + np.sqrt(variance) * STEPS)
        kind = (
            poisson(rates)
            if name == "count"
            else nbinom(outcome.dispersion, outcome.dispersion / (outcome.dispersion + rates))
        )
        for end, share in (("low", 0.5 - 0.5 * level), ("high", 0.5 + 0.5 * level)):
            count = found[end][place]
            room = 0.01 if name == "count" and variance > 0.1 else 1e-6  # rates of nodes are then far apart
            assert WEIGHTS @ kind.cdf(count) >= share - room
            assert WEIGHTS @ kind.cdf(count - 1.0) < share + room
    np.testing.assert_allclose(found["mean"], np.exp(means + 0.5 * variances))


def test_linear_outcomes_are_students(rng):
    y, mean, scale, degrees = rng.normal(size=4), rng.normal(size=4), rng.gamma(2.0, size=4), np.array([0.7, 2, 9, 400])
    np.testing.assert_allclose(log_student(y, mean, scale, degrees), t.logpdf(y, degrees, mean, scale))
    family = Linear.family
    natural = family.natural(mean=np.zeros((1, 2)), scaled_precision=np.eye(2), shape=3.0, rate=1.5)
    variance = np.array([0.0, 0.4])
    wide = np.sqrt(0.5 * (1.0 + variance))
    outcome, new = Linear(), t(6.0, np.array([1.0, -2.0]), wide)
    np.testing.assert_allclose(outcome.log_density(natural, *([1.0, -2.0], variance), np.zeros(2)), new.logpdf(0.0))
    found = outcome.predicted(natural, np.array([1.0, -2.0]), variance, 0.8)
    np.testing.assert_allclose([found["low"], found["high"]], [new.ppf(0.1), new.ppf(0.9)])
    assert outcome.noise(natural) == pytest.approx(0.5)
    slope, weight = outcome.slopes(natural, np.array([2.0]), np.array([0.5]), variance[:1])
    np.testing.assert_allclose([slope, weight], [[3.0], [2.0]])


@pytest.mark.parametrize("side", [1, 2, 3, 5])
def test_points_that_stand_for_a_gaussian_have_its_moments(side):
    points = normal_points(side)
    assert points.shape == (512, side)
    np.testing.assert_allclose(points.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(points.T @ points / 512, np.eye(side), atol=0.1)
    for share in (0.1, 0.4, 0.8):
        assert np.abs((points < norm.ppf(share)).mean(axis=0) - share).max() < 0.01


def test_shares_of_levels_agree_with_their_own_doubt(rng):
    """a = softmax(high − Σ a), also where doubt is large."""
    root = rng.normal(size=(20, 4, 4)) * rng.gamma(1.0, 3.0, size=(20, 1, 1))
    covariance, high = root @ root.transpose(0, 2, 1), 3.0 * rng.normal(size=(20, 4))
    found = shares_at(high, covariance)
    np.testing.assert_allclose(found, softmax(high - np.einsum("nij,nj->ni", covariance, found), axis=1), atol=1e-9)
    assert shares_at(high[:0], covariance[:0]).shape == (0, 4)


def test_expectations_of_dispersed_counts_come_with_their_constant():
    """Where f is known they are logarithms of probabilities, which add up to one."""
    for outcome in (PoissonOutcome(), NegativeBinomial(0.7)):
        y = np.arange(400.0)
        value = outcome.expectations(y, np.full(400, 1.1), np.zeros(400))[0]
        assert np.exp(value).sum() == pytest.approx(1.0, abs=2e-3)
        assert value[0] == pytest.approx(
            outcome.log_density(None, np.array([1.1]), np.zeros(1), np.zeros(1))[0], abs=1e-3
        )


@pytest.mark.parametrize("levels", [3, 5])
def test_an_observation_weighs_no_more_than_its_steps(levels):
    """One row for each level but the last, each of a yes or a no."""
    assert Step(ordered=tuple("abcde"[:levels])).heaviest == pytest.approx((levels - 1) * Logistic.heaviest)
