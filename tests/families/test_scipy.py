"""Agreement with SciPy's distributions, an oracle that shares no code with ours."""

import numpy as np
import pytest
from draws import natural
from scipy import stats

from decbayes.families import FAMILIES

THEIRS = {
    "Dirichlet": lambda usual, k: stats.dirichlet(usual["alpha"][k]),
    "IsotropicGaussian": lambda usual, k: stats.multivariate_normal(usual["mean"][k], usual["variance"][k]),
    "DiagonalGaussian": lambda usual, k: stats.multivariate_normal(usual["mean"][k], np.diag(usual["variance"][k])),
    "FullGaussian": lambda usual, k: stats.multivariate_normal(usual["mean"][k], usual["covariance"][k]),
}


@pytest.mark.parametrize("name", sorted(THEIRS))
def test_density_entropy_and_mean_agree_with_scipy(name, rng):
    family, point = FAMILIES[name], natural(name, rng)
    usual = family.parameters(point)
    draws = family.sample(point, 5, rng)
    theirs = [THEIRS[name](usual, k) for k in range(3)]
    density = [sum(theirs[k].logpdf(draw[k]) for k in range(3)) for draw in draws]
    np.testing.assert_allclose(family.log_density(point, draws), density, rtol=1e-9)
    assert family.entropy(point) == pytest.approx(sum(t.entropy() for t in theirs), rel=1e-9)
    expected = [t.mean() if callable(t.mean) else t.mean for t in theirs]
    np.testing.assert_allclose(family.expected(point), expected)


def test_weights_are_one_dirichlet(rng):
    family, alpha = FAMILIES["Weights"], np.array([0.5, 2.0, 4.0])
    draws = family.sample(family.natural(alpha=alpha), 5, rng)
    expected = [stats.dirichlet(alpha).logpdf(draw) for draw in draws]
    np.testing.assert_allclose(family.log_density(family.natural(alpha=alpha), draws), expected)
    assert family.entropy(family.natural(alpha=alpha)) == pytest.approx(stats.dirichlet(alpha).entropy())


@pytest.mark.parametrize("dimension", [1, 3])
def test_beta_agrees_with_scipy(dimension, rng):
    family, point = FAMILIES["Beta"], natural("Beta", rng, 2, dimension)
    alpha, beta = np.split(point + 1.0, 2, axis=1)
    draws, theirs = family.sample(point, 5, rng), stats.beta(alpha, beta)
    assert draws.shape == ((5, 2) if dimension == 1 else (5, 2, dimension))
    density = theirs.logpdf(draws.reshape(5, 2, dimension)).sum(axis=(1, 2))
    np.testing.assert_allclose(family.log_density(point, draws), density)
    assert family.entropy(point) == pytest.approx(theirs.entropy().sum())
    for ours, expected in ((family.expected(point), theirs.mean()), (family.deviation(point), theirs.std())):
        np.testing.assert_allclose(ours, expected.reshape(draws.shape[1:]))


def test_gamma_agrees_with_scipy(rng):
    family, point = FAMILIES["Gamma"], natural("Gamma", rng, 2, 3)
    usual = family.parameters(point)
    draws = family.sample(point, 5, rng)
    theirs = stats.gamma(usual["shape"], scale=1 / usual["rate"])
    np.testing.assert_allclose(family.log_density(point, draws), theirs.logpdf(draws).sum(axis=(1, 2)))
    assert family.entropy(point) == pytest.approx(theirs.entropy().sum())


def test_normal_gamma_is_a_gamma_times_a_normal(rng):
    family, point = FAMILIES["NormalGamma"], natural("NormalGamma", rng, 2, 3)
    usual = family.parameters(point)
    draws = family.sample(point, 5, rng)
    precision = stats.gamma(usual["shape"], scale=1 / usual["rate"]).logpdf(draws.precision)
    mean = stats.norm(usual["mean"], 1 / np.sqrt(usual["strength"] * draws.precision)).logpdf(draws.mean)
    np.testing.assert_allclose(family.log_density(point, draws), (precision + mean).sum(axis=(1, 2)))


def test_isotropic_normal_gamma_is_one_gamma_times_a_normal_in_each_dimension(rng):
    family, point = FAMILIES["IsotropicNormalGamma"], natural("IsotropicNormalGamma", rng, 2, 3)
    usual = family.parameters(point)
    draws = family.sample(point, 5, rng)
    precision = stats.gamma(usual["shape"], scale=1 / usual["rate"]).logpdf(draws.precision).sum(axis=1)
    spread = 1 / np.sqrt(usual["strength"] * draws.precision)
    mean = stats.norm(usual["mean"], spread[..., None]).logpdf(draws.mean).sum(axis=(1, 2))
    np.testing.assert_allclose(family.log_density(point, draws), precision + mean)


def test_normal_wishart_is_a_wishart_times_a_normal(rng):
    family, point = FAMILIES["NormalWishart"], natural("NormalWishart", rng, 2, 3)
    usual = family.parameters(point)
    draws = family.sample(point, 4, rng)
    expected = np.zeros(4)
    for draw in range(4):
        for k in range(2):
            precision = draws.precision[draw, k]
            scale = np.linalg.inv(usual["inverse_scale"][k])
            expected[draw] += stats.wishart(usual["degrees"][k], scale).logpdf(precision)
            covariance = np.linalg.inv(usual["strength"][k] * precision)
            expected[draw] += stats.multivariate_normal(usual["mean"][k], covariance).logpdf(draws.mean[draw, k])
    np.testing.assert_allclose(family.log_density(point, draws), expected, rtol=1e-9)


def test_gaussian_gamma_is_a_gamma_times_a_normal(rng):
    family, point = FAMILIES["GaussianGamma"], natural("GaussianGamma", rng, 2, 3)
    usual = family.parameters(point)
    draws = family.sample(point, 4, rng)
    expected = stats.gamma(usual["shape"], scale=1 / usual["rate"]).logpdf(draws.precision).sum(axis=1)
    for draw in range(4):
        for k in range(2):
            covariance = np.linalg.inv(usual["scaled_precision"][k] * draws.precision[draw, k])
            expected[draw] += stats.multivariate_normal(usual["mean"][k], covariance).logpdf(draws.mean[draw, k])
    np.testing.assert_allclose(family.log_density(point, draws), expected, rtol=1e-9)


def test_bernoulli_and_categorical_agree_with_scipy(rng):
    coins = np.array([0.2, 0.7])
    family = FAMILIES["Bernoulli"]
    draws = family.sample(family.natural(probability=coins), 6, rng)
    expected = stats.bernoulli(coins).logpmf(draws).sum(axis=1)
    np.testing.assert_allclose(family.log_density(family.natural(probability=coins), draws), expected)
    dice = np.array([[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]])
    family = FAMILIES["Categorical"]
    faces = family.sample(family.natural(probability=dice), 6, rng)
    expected = [sum(stats.multinomial(1, dice[k]).logpmf(face[k]) for k in range(2)) for face in faces]
    np.testing.assert_allclose(family.log_density(family.natural(probability=dice), faces), expected)
