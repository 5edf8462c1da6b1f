"""Laws that tie the parts of every model together: bound, passes, predictions, information and draws."""

from dataclasses import replace

import numpy as np
import pytest
from zoo import ZOO

import decbayes as db
from decbayes.families import dense
from decbayes.models.core.ascent import best_climb

# Models whose first bound is that of the start, before anything is learned; others have made a step by then.
STEPWISE = [
    "known variance", "spherical", "diagonal", "full", "yes or no", "counts", "categories", "classes", "states",
    "correlated states", "states of known variance", "groups of regressions", "topics",
]  # fmt: skip
# Predictions take rows of one site by themselves; fits take them together. A learned prior of documents is no factor.
TOGETHER = ["linear, varying", "logistic, varying", "Poisson, varying", "topics, prior learned"]


def fitted(name):
    model, size = ZOO[name]
    rng = np.random.default_rng(3)
    data = db.simulate(model, size, rng=rng).data
    return model, data, model.fit(data, rng=rng).posterior


def times(posterior, factor):
    """The posterior of that many times the data."""
    contribution = {name: factor * part for name, part in posterior.contribution.items()}
    return db.Posterior(posterior.structure, contribution)


@pytest.mark.parametrize("name", STEPWISE)
def test_the_slope_of_the_bound_is_what_a_pass_changes(name):
    """d bound(λ) = (λ' − λ) · d E[T] for the λ' that a pass leads to, by finite differences, factor by factor.

    The bound, the hidden part of observations given λ, and the sums that make λ' must agree for that.
    """
    model, data, posterior = fitted(name)
    once = replace(model, ascent=replace(model.ascent, passes=1, warm_up=0))
    here, rng, step = times(posterior, 0.6), np.random.default_rng(4), 1e-4
    ahead = once.fit(data, start=here).posterior.natural
    for factor, family in model.structure.families.items():
        natural = np.asarray(here.natural[factor])
        way = (natural - model.structure.prior[factor]) * rng.normal(size=(len(natural), 1))
        moved = [dict(here.natural) | {factor: natural + side * way} for side in (-step, step)]
        low, high = (once.fit(data, start=db.Posterior.from_natural(here.structure, at)).bound[0] for at in moved)
        means = [family.expected_statistics(at[factor]) for at in moved]
        expected = np.sum((ahead[factor] - natural) * (means[1] - means[0]))
        assert high - low == pytest.approx(expected, rel=1e-4, abs=1e-9), factor


@pytest.mark.parametrize("name", [name for name in ZOO if name not in TOGETHER])
def test_where_parameters_are_known_the_bound_is_what_is_predicted(name):
    """After a million times the data there is nothing left to learn: log p(data) is that of predictions."""
    model, data, posterior = fitted(name)
    known = times(posterior, 1e6)
    fit = model.fit(data, prior=known, start=known, rng=0)
    assert fit.bound[-1] == pytest.approx(model.log_predictive(known, data).sum(), abs=1e-3)


@pytest.mark.parametrize("name", [*STEPWISE, "mean", "linear regression", "linear, varying", "features"])
def test_information_is_how_contributions_depend_on_beliefs(name):
    """∂c / ∂E[T] along a random direction, by differences of what data contribute and of E[T]."""
    model, data, posterior = fitted(name)
    rng, families, step = np.random.default_rng(5), model.structure.families, 1e-4
    belief = times(posterior, 0.9)  # off the fixed point
    way = {name: dense(part) * rng.normal(size=(len(dense(part)), 1)) for name, part in belief.contribution.items()}

    def at(share):
        natural = {name: np.asarray(belief.natural[name]) + share * way[name] for name in families}
        contributed = model.contributed(db.Posterior.from_natural(model.structure, natural), data)
        parts = [
            (dense(contributed.contribution[name]), family.expected_statistics(natural[name]))
            for name, family in families.items()
        ]
        return [np.concatenate([np.ravel(part) for part in several]) for several in zip(*parts, strict=True)]

    changed, believed = ((high - low) / (2 * step) for high, low in zip(at(step), at(-step), strict=True))
    found = model.information(belief, data) @ believed
    np.testing.assert_allclose(found, changed, atol=5e-3 * np.abs(changed).max() + 1e-3)


@pytest.mark.parametrize("name", ZOO)
def test_data_that_are_drawn_with_known_parameters_lead_back_to_these(name):
    """Many observations, one pass: every estimate is within a few of its own standard deviations of the truth."""
    model, _, posterior = fitted(name)
    known, sequences = times(posterior, 1e6), "states" in name
    options = {"length": 60} if sequences else {}
    drawn = db.simulate(model, 100 if sequences else 6000, rng=8, posterior=known, **options).data
    again = model.contributed(known, drawn)
    most = 12.0 if name == "topics" else 4.5  # topics of a document are a mean field, which is a little off
    for factor, family in model.structure.families.items():
        found, spread, truth = (
            family.quantities(of) for of in (
                family.expected(again.natural[factor]),
                family.deviation(again.natural[factor]),
                family.expected(known.natural[factor]),
            )
        )  # fmt: skip
        for quantity, values in truth.items():
            away = np.abs(np.asarray(found[quantity]) - values) / np.maximum(spread[quantity], 1e-6)
            assert away.max() < most, (factor, quantity)


@pytest.mark.parametrize("name", ["diagonal", "yes or no", "counts", "categories", "classes"])
def test_parts_of_a_row_have_the_probability_of_the_whole(name):
    """log p(a, b) = log p(a) + log p(b | a), for a row of which some values are given."""
    model, data, posterior = fitted(name)
    rows = np.asarray(data[:6], dtype=float)
    given, held = rows.copy(), rows.copy()
    given[:, 0], held[:, 1:] = np.nan, np.nan
    whole, part = (model.log_predictive(posterior, several) for several in (rows, given))
    np.testing.assert_allclose(part + model.log_predictive(posterior, given, held), whole, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", ZOO)
def test_parts_of_observations_are_accounted_for_by_components_as_they_are_assigned(name):
    """Which component each part is from: probabilities that add up, and add up to evidence in contributions."""
    model, data, posterior = fitted(name)
    shares, counts = model.responsibilities(posterior, data)
    assert shares.shape[0] == len(counts)
    assert (shares >= 0).all()
    if name not in ("features",):
        np.testing.assert_allclose(shares.sum(axis=1), 1.0, atol=1e-9)
    if "topics" in name:
        tokens = np.asarray(data.sum())
        assert counts.sum() == tokens
        expected = posterior.contribution["topics"].sum(axis=1)
        np.testing.assert_allclose(counts @ shares, np.ravel(expected), rtol=0.1, atol=0.02 * tokens)
        documents, words = np.nonzero(np.asarray(data.todense() if hasattr(data, "todense") else data))
        joint = model.assign(posterior, data)[documents] * posterior.mean("topics").T[words]
        np.testing.assert_allclose(shares, joint / joint.sum(axis=1, keepdims=True), rtol=1e-9)


@pytest.mark.parametrize("rounding", [-1e-13, 0.0, 1e-13])
def test_rounding_does_not_choose_among_starts_that_reach_the_same_bound(rounding):
    """Such starts often differ by labels alone, and a merge numbers its slots by them."""
    starts, bounds = iter(range(3)), {0: -500.0, 1: -500.0 * (1 + rounding), 2: -500.0 * (1 - rounding)}
    ascent = db.Ascent(passes=1, restarts=2)
    reached = best_climb(
        lambda: next(starts), lambda state: (state, bounds[state]), ascent=ascent, observations=10, progress=None
    )
    assert reached.state == 0


def test_a_start_that_reaches_a_higher_bound_wins():
    starts, bounds = iter(range(3)), [-500.0, -499.99999, -500.0]
    ascent = db.Ascent(passes=1, restarts=2)
    reached = best_climb(
        lambda: next(starts), lambda state: (state, bounds[state]), ascent=ascent, observations=10, progress=None
    )
    assert reached.state == 1
