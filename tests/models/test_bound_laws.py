"""What the bound of a fit is, for every model: its slope is what a pass would change, its height what is predicted."""

from dataclasses import replace

import numpy as np
import pytest
from zoo import ZOO

import decbayes as db
from decbayes.families import dense

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
        means = [family.mean(at[factor]) for at in moved]
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
            (dense(contributed.contribution[name]), family.mean(natural[name])) for name, family in families.items()
        ]
        return [np.concatenate([np.ravel(part) for part in several]) for several in zip(*parts, strict=True)]

    changed, believed = ((high - low) / (2 * step) for high, low in zip(at(step), at(-step), strict=True))
    found = model.information(belief, data) @ believed
    np.testing.assert_allclose(found, changed, atol=5e-3 * np.abs(changed).max() + 1e-3)
