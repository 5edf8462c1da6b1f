"""Mixtures whose components have one variance for all dimensions."""

import numpy as np
import pytest
from draws import natural
from scipy import stats

import decbayes as db
from decbayes.models.likelihoods.likelihood import SphericalCovariance
from decbayes.models.likelihoods.real import DiagonalCovariance


def test_the_predictive_density_is_a_multivariate_student_t(rng):
    parameters, points = natural("IsotropicNormalGamma", rng, 2, 3), rng.normal(size=(5, 3))
    usual = SphericalCovariance().family.parameters(parameters)
    for k, density in enumerate(SphericalCovariance().log_predictive(parameters, points).T):
        scale = usual["rate"][k] / usual["shape"][k] * (1 + 1 / usual["strength"][k])
        theirs = stats.multivariate_t(usual["mean"][k], scale * np.eye(3), df=2 * usual["shape"][k])
        np.testing.assert_allclose(density, theirs.logpdf(points))


def test_the_expected_log_density_is_that_of_samples(rng):
    parameters, points = natural("IsotropicNormalGamma", rng, 2, 3), rng.normal(size=(4, 3))
    drawn = SphericalCovariance().family.sample(parameters, 100_000, rng)
    likelihood = SphericalCovariance()
    for k, expected in enumerate((likelihood.features(points) @ likelihood.coefficients(parameters)).T):
        spread = 1 / np.sqrt(drawn.precision[:, k, None])
        sampled = [stats.norm.logpdf(point, drawn.mean[:, k], spread).sum(axis=1) for point in points]
        error = 6 * np.std(sampled, axis=1) / np.sqrt(100_000)
        assert (np.abs(np.mean(sampled, axis=1) - expected) < error).all()


def test_in_one_dimension_it_is_the_diagonal_mixture(rng):
    models = [db.GaussianMixture(2, 1, covariance=kind, prior_scale=0.5) for kind in ("spherical", "diagonal")]
    points = rng.normal(size=40) + 6 * rng.integers(2, size=40)
    fits = [model.fit(points, rng=np.random.default_rng(1)) for model in models]
    np.testing.assert_allclose(fits[0].bound, fits[1].bound)
    scores = [model.log_predictive(fit.posterior, points) for model, fit in zip(models, fits, strict=True)]
    np.testing.assert_allclose(*scores)


@pytest.mark.parametrize("seed", range(5))
def test_the_bound_never_falls_and_responsibilities_add_up_in_the_posterior(seed):
    rng = np.random.default_rng(seed)
    model = db.GaussianMixture(3, 2, covariance="spherical", ascent=db.Ascent(restarts=0))
    fit = model.fit(rng.normal(size=(60, 2)), rng=rng)
    assert np.diff(fit.bound).min(initial=0.0) > -1e-9 * abs(fit.bound[-1])
    assert fit.posterior.contribution["weights"].sum() == pytest.approx(60.0)
    assert fit.posterior.contribution["components"][:, -1].sum() == pytest.approx(-30.0)


def test_what_each_point_adds_is_what_a_diagonal_mixture_sums_over_dimensions(rng):
    shares, points = rng.dirichlet(np.ones(2), size=7), rng.normal(size=(7, 3))
    spherical, diagonal = (
        likelihood.contribution(shares.T @ likelihood.features(points))
        for likelihood in (SphericalCovariance(), DiagonalCovariance())
    )
    count, square, shift, strength = np.split(diagonal, 4, axis=1)
    parts = [count.sum(axis=1), square.sum(axis=1), shift, strength[:, 0]]
    np.testing.assert_allclose(spherical, np.column_stack(parts))
