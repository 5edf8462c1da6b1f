"""Posterior predictive checks: level under the model, near zero where it is wrong, and additive across sites."""

import numpy as np
import pytest

import decbayes as db
from decbayes.calibration import PredictiveCheck
from decbayes.errors import InvalidData, NotCalibrated, StructureMismatch

MODEL = db.models.GaussianMean(variance=1.0, prior_variance=25.0, dimension=1)


def test_probabilities_are_level_where_the_model_is_true(rng):
    """New data of the same mean: the mean of 60 uniform numbers has a standard error of 0.037."""
    found = []
    for _ in range(60):
        mean = rng.normal(0.0, 5.0)
        posterior = MODEL.fit(rng.normal(mean, 1.0, size=200), rng=rng).posterior
        found.append(
            db.checking.predictive_check(MODEL, posterior, rng.normal(mean, 1.0, size=20), replicas=19).probability
        )
    assert abs(np.mean(found) - 0.5) < 4 * 0.037
    assert min(found) < 0.2 < 0.8 < max(found)


@pytest.mark.parametrize(("deviation", "expected"), [(2.0, 0.0), (0.3, 1.0)])
def test_data_that_spread_otherwise_than_the_model_says_are_found_out_at_both_ends(deviation, expected, rng):
    posterior = MODEL.fit(rng.normal(3.0, 1.0, size=200), rng=rng).posterior
    check = db.checking.predictive_check(MODEL, posterior, rng.normal(3.0, deviation, size=40))
    assert check.probability == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize("below", range(5))
def test_the_data_are_one_of_the_draws_that_they_are_compared_with(below):
    """With R replicas the probability is one of 1/(R+1), …, 1, each as likely where the model is true; never 0."""
    replicas = np.arange(4.0)
    check = PredictiveCheck("", np.append(below - 0.5, replicas), np.ones(5))
    assert check.probability == (1 + below) / 5


def test_checks_of_sites_add_up(rng):
    """Each site's data are a little too wide; together they say so plainly. Replicas differ between sites."""
    posterior = MODEL.fit(rng.normal(3.0, 1.0, size=500), rng=rng).posterior
    shards = [rng.normal(3.0, 1.35, size=15) for _ in range(12)]
    checks = [db.checking.predictive_check(MODEL, posterior, shard, site=site) for site, shard in enumerate(shards)]
    total = sum(checks)
    assert total.units[0] == 180
    assert total.scores[0] == pytest.approx(sum(MODEL.log_predictive(posterior, shard).sum() for shard in shards))
    assert total.probability <= 0.02 < np.median([check.probability for check in checks])
    assert (checks[0].scores[1:] != checks[1].scores[1:]).all()
    other = db.checking.predictive_check(MODEL, MODEL.fit(shards[0], rng=rng).posterior, shards[0])
    with pytest.raises(StructureMismatch, match="do not add up"):
        total + other


def test_what_cannot_be_checked_is_refused(rng):
    posterior = MODEL.fit(np.zeros(3), rng=rng).posterior
    with pytest.raises(InvalidData, match="no observations"):
        db.checking.predictive_check(MODEL, posterior, np.zeros((0, 1)))
    with pytest.raises(NotCalibrated, match="Replicas cannot be drawn"):
        db.checking.predictive_check(MODEL, posterior, np.zeros(3), length=5)
