"""A contribution's own numbers tell how many observations it holds: honest fits pass whatever the data, lies do not."""

import numpy as np
import pytest

import decbayes as db
from decbayes.families import dense
from decbayes.merging import align
from decbayes.posterior import Posterior

VOCABULARY = tuple("abcdefgh")
MODELS = {
    "mean": db.GaussianMean(variance=2.0, prior_variance=3.0, dimension=2),
    "known variance": db.GaussianMixture(3, 2, variance=0.5, prior_variance=40.0),
    "spherical": db.GaussianMixture(3, 2, covariance="spherical"),
    "diagonal": db.GaussianMixture(3, 2, covariance="diagonal"),
    "full": db.GaussianMixture(3, 2, covariance="full"),
    "states": db.HiddenMarkov(3, columns={"x": "real", "y": "real"}, covariance="full"),
    "topics": db.LatentDirichletAllocation(3, VOCABULARY),
    "features": db.LatentFeatures(3, 2, variance=0.3),
}
models = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)


def shards(model, rng):
    """Ordinary data, and as little, much, large, small, equal and far away as data may be."""
    if isinstance(model, db.LatentDirichletAllocation):
        for documents, rate in ((1, 0.3), (40, 2.0), (5, 3000.0), (300, 0.05)):
            yield rng.poisson(rate, size=(documents, len(VOCABULARY)))
        return
    for count in (1, 2, 30, 400):
        yield rng.normal(size=(count, 2))
    scales = (1e-6, 1e3) if not isinstance(model, db.LatentFeatures) else (1e-6, 10.0)
    for scale in scales:
        yield scale * rng.normal(size=(40, 2))
    yield np.ones((25, 2))
    yield rng.standard_cauchy(size=(60, 2)).clip(-1e3, 1e3)


def units(model, data):
    return round(float(np.sum(model.units(data))))


@models
def test_random_and_extreme_honest_fits_pass(model, rng):
    for data in shards(model, rng):
        posterior = model.fit(data, rng=rng).posterior
        assert model.tally(posterior).contradiction(units(model, data)) is None


@models
def test_fits_on_top_of_everybody_elses_evidence_pass(model, rng):
    """As refined contributions are: the posterior of own data under a strong prior, less that prior."""
    own, others = [*shards(model, rng)][-2:]
    alignment = align([model.fit(data, rng=rng).posterior for data in (own, others)])
    mine, theirs = alignment.relabelled()
    refined = model.fit(own, prior=theirs, start=mine, rng=rng).posterior
    parts = {
        name: dense(refined.contribution[name]) - dense(theirs.contribution[name]) for name in refined.contribution
    }
    difference = Posterior(model.structure, parts)
    assert model.tally(difference).contradiction(units(model, own)) is None


@models
def test_inflated_displaced_and_unbalanced_contributions_do_not_pass(model, rng):
    data = [*shards(model, rng)][1]
    posterior = model.fit(data, rng=rng).posterior
    told = units(model, data)

    def lie(change):
        parts = {name: np.array(dense(part)) for name, part in posterior.contribution.items()}
        change(parts)
        return model.tally(Posterior(model.structure, parts)).contradiction(told)

    def inflate(parts):
        for part in parts.values():
            part *= 1e9

    def one_factor(parts):
        next(iter(parts.values()))[:] *= 2

    assert lie(inflate) is not None
    assert lie(one_factor) is not None
    assert model.tally(posterior).contradiction(told + 1) is not None


def test_a_component_cannot_weigh_more_than_the_observations_it_claims(rng):
    """The weights say one observation, the component's precision says a billion."""
    model = MODELS["known variance"]
    posterior = model.fit(rng.normal(size=(1, 2)), rng=rng).posterior
    parts = {name: np.array(part) for name, part in posterior.contribution.items()}
    parts["components"][0] = [1e5 * 1e9, 1e5 * 1e9, -0.5 * 1e9]
    assert "components" in model.tally(Posterior(model.structure, parts)).contradiction(1)


@pytest.mark.parametrize("name", ["mean", "known variance", "spherical", "diagonal", "full"])
def test_what_one_observation_can_add_is_bounded_and_reached(name, rng):
    """No data within ±v adds more than the bound times its observations, and data at the corners adds all of it."""
    model, value = MODELS[name], 3.0
    bounds = model.largest_contribution(value)
    assert bounds
    for points in (rng.uniform(-value, value, size=(50, 2)), np.full((50, 2), value)):
        posterior = model.fit(points, rng=rng).posterior
        for factor, most in bounds.items():
            seen = np.abs(dense(posterior.contribution[factor])).sum(axis=0)
            assert (seen <= 50 * most * (1 + 1e-9) + 1e-9).all()
    np.testing.assert_allclose(seen, 50 * np.ravel(most), rtol=1e-6)


def test_states_cannot_be_left_more_often_than_they_are_entered(rng):
    """Nor have more values than steps, nor moves that take others back."""
    model = db.HiddenMarkov(
        2, stickiness=100.0, columns={"a": "yes/no", "n": "count", "c": db.columns.Categorical(3), "x": "real"}
    )
    data = db.simulate(model, 3, rng=rng, length=20).data
    data[0][4] = np.nan
    posterior = model.fit(data, rng=rng).posterior
    assert model.tally(posterior).contradiction(60) is None
    for name, change in {
        "transitions": np.array([[0.0, 5.0], [0.0, -5.0]]),
        "yes_no": np.full((2, 2), 40.0),
        "counts": np.array([[0.0, -100.0], [0.0, 0.0]]),
        "categorical": np.full((2, 3), 30.0),
    }.items():
        parts = {**posterior.contribution, name: posterior.contribution[name] + change}
        assert f"'{name}'" in model.tally(Posterior(model.structure, parts)).contradiction(60)
    back = np.max(np.diag(posterior.contribution["transitions"])) + 10.0
    parts = {
        **posterior.contribution,
        "transitions": posterior.contribution["transitions"] + back * (1 - 2 * np.eye(2)),
    }
    assert "'moves'" in model.tally(Posterior(model.structure, parts)).contradiction(60)
