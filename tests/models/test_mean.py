"""The conjugate Gaussian has closed forms for everything."""

import numpy as np
import pytest
from scipy import stats

import decbayes as db
from decbayes.errors import InvalidData


def test_posterior_evidence_and_prediction_are_exact(rng):
    model = db.models.GaussianMean(variance=0.5, prior_mean=1.0, prior_variance=2.0, dimension=1)
    points = rng.normal(size=6)
    fit = model.fit(points)
    precision = 1 / 2.0 + 6 / 0.5
    mean = (1.0 / 2.0 + points.sum() / 0.5) / precision
    assert fit.posterior.mean("mean")[0, 0] == pytest.approx(mean)
    assert fit.posterior.parameters("mean")["variance"][0] == pytest.approx(1 / precision)
    evidence = stats.multivariate_normal(np.ones(6), 0.5 * np.eye(6) + 2.0).logpdf(points)
    assert fit.bound == (pytest.approx(evidence),)
    predictive = stats.norm(mean, np.sqrt(0.5 + 1 / precision)).logpdf([0.0, 3.0])
    np.testing.assert_allclose(model.log_predictive(fit.posterior, [0.0, 3.0]), predictive)


def test_no_data_is_the_prior():
    model = db.models.GaussianMean(variance=1.0, prior_variance=2.0, dimension=3)
    assert model.fit(np.empty((0, 3))).posterior == db.Posterior.of_prior(model.structure)


def test_an_earlier_posterior_serves_as_prior(rng):
    model = db.models.GaussianMean(variance=1.0, prior_variance=2.0, dimension=2)
    points = rng.normal(size=(8, 2))
    in_turn = model.fit(points[5:], prior=model.fit(points[:5]).posterior).posterior
    np.testing.assert_allclose(in_turn.natural["mean"], model.fit(points).posterior.natural["mean"], rtol=1e-12)


def test_wrong_dimensions_are_refused():
    with pytest.raises(InvalidData, match="expects"):
        db.models.GaussianMean(dimension=2).fit([1.0, 2.0, 3.0])
