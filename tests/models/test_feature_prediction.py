"""Prediction of held-out components against brute-force sums over assignments."""

from itertools import product

import numpy as np
import pytest
from feature_data import synthetic
from scipy import stats

import decbayes as db
from decbayes.errors import InvalidData
from decbayes.families import Beta, IsotropicGaussian


def posterior_of(model, rng, *, spread):
    features = IsotropicGaussian().natural(
        mean=rng.normal(size=(model.features, model.dimension)), variance=rng.uniform(0.5, 1.5, model.features) * spread
    )
    inclusion = Beta().natural(alpha=rng.uniform(1, 5, model.features), beta=rng.uniform(1, 5, model.features))
    return db.Posterior.from_natural(model.structure, {"features": features, "inclusion": inclusion})


def parts(data, rng, count):
    """Hold out `count` components of each row; one more is in neither part."""
    observed, held = data.copy(), np.full(data.shape, np.nan)
    for row in range(len(data)):
        chosen = rng.permutation(data.shape[1])[: count + 1]
        held[row, chosen[:count]] = data[row, chosen[:count]]
        observed[row, chosen] = np.nan
    return observed, held


def joint_density(model, posterior, values):
    """p(values) of one row, NaN left out: Σ_z p(z) Π_d N(value_d; Σ_k z_k m_kd, σ² + Σ_k z_k v_k)."""
    mean, variance = posterior.parameters("features").values()
    chance = posterior.mean("inclusion")
    seen, total = ~np.isnan(values), 0.0
    for choice in product((0, 1), repeat=model.features):
        z = np.array(choice)
        prior = np.prod(np.where(z, chance, 1 - chance))
        scale = np.sqrt(model.variance + z @ variance)
        total += prior * np.prod(stats.norm.pdf(values[seen], (z @ mean)[seen], scale))
    return total


def brute_force(model, posterior, observed, held):
    """Mean of log p(held component, observed) − log p(observed)."""
    logs = []
    for known, unknown in zip(observed, held, strict=True):
        for component in np.flatnonzero(~np.isnan(unknown)):
            both = known.copy()
            both[component] = unknown[component]
            ratio = joint_density(model, posterior, both) / joint_density(model, posterior, known)
            logs.append(np.log(ratio))
    return np.mean(logs)


@pytest.mark.parametrize("features", [1, 3])
@pytest.mark.parametrize("count", [1, 2])
def test_prediction_is_the_sum_over_all_assignments(features, count):
    rng = np.random.default_rng(features)
    model = db.LatentFeatures(features=features, dimension=4, variance=0.3)
    posterior = posterior_of(model, rng, spread=0.1)
    observed, held = parts(rng.normal(size=(12, 4)), rng, count)
    expected = brute_force(model, posterior, observed, held)
    assert model.score(posterior, observed, held) == pytest.approx(expected, rel=1e-9)


def test_prediction_with_many_features_is_close_to_the_sum_over_all_assignments(monkeypatch):
    """Beyond the features summed over, mean field: close where the noise is low."""
    monkeypatch.setattr("decbayes.models.features._feature_prediction.SUMMED", 3)
    rng = np.random.default_rng(5)
    model = db.LatentFeatures(features=6, dimension=12, variance=0.04)
    posterior = posterior_of(model, rng, spread=1e-3)
    z = rng.random((20, 6)) < 0.5
    observed, held = parts(z @ posterior.mean("features") + rng.normal(0, 0.2, (20, 12)), rng, 1)
    expected = brute_force(model, posterior, observed, held)
    assert model.score(posterior, observed, held) == pytest.approx(expected, abs=0.02)


def test_rows_without_a_held_out_component_have_no_say():
    rng = np.random.default_rng(0)
    model = db.LatentFeatures(dimension=10)
    posterior = posterior_of(model, rng, spread=0.01)
    observed, held = parts(rng.normal(size=(6, 10)), rng, 1)
    held[3:] = np.nan
    assert model.score(posterior, observed, held) == pytest.approx(model.score(posterior, observed[:3], held[:3]))


def test_components_that_nobody_saw_are_predicted_from_the_prior_alone():
    rng = np.random.default_rng(0)
    model = db.LatentFeatures(features=2, dimension=3)
    posterior = posterior_of(model, rng, spread=0.1)
    held = np.full((1, 3), np.nan)
    held[0, 1] = 0.4
    expected = np.log(joint_density(model, posterior, held[0]))
    assert model.score(posterior, np.full((1, 3), np.nan), held) == pytest.approx(expected)


def test_transform_finds_the_assignments_even_with_unseen_components():
    rng = np.random.default_rng(0)
    data, truth, assignments = synthetic(0, observations=200)
    model = db.LatentFeatures(dimension=10)
    natural = {
        "features": IsotropicGaussian().natural(mean=truth, variance=1e-4),
        "inclusion": Beta().natural(alpha=np.full(5, 50.0), beta=np.full(5, 50.0)),
    }
    posterior = db.Posterior.from_natural(model.structure, natural)
    assert np.mean(np.abs(model.assign(posterior, data) - assignments) > 0.5) < 0.01
    data[rng.random(data.shape) < 0.1] = np.nan
    assert np.mean(np.abs(model.assign(posterior, data) - assignments) > 0.5) < 0.05


@pytest.mark.parametrize(
    ("observed", "held", "says"),
    [
        (np.zeros((2, 10)), np.zeros((3, 10)), "shape"),
        (np.zeros((2, 10)), np.full((2, 10), np.nan), "nothing to predict"),
        (np.zeros((2, 9)), np.zeros((2, 9)), "expects"),
        (np.full((2, 10), np.inf), np.zeros((2, 10)), "infinite"),
        ([["a"] * 10], np.zeros((1, 10)), "numbers"),
        (np.zeros((2, 10)), np.zeros((2, 10)), "both observed and held out"),
    ],
)
def test_parts_that_do_not_fit_are_refused(observed, held, says):
    model = db.LatentFeatures(dimension=10)
    with pytest.raises(InvalidData, match=says):
        model.log_predictive(db.Posterior.of_prior(model.structure), observed, held)
