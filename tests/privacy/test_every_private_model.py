"""One law over every model that the package ships: bounded sums with the stated noise, or a refusal with the reason."""

from collections.abc import Mapping

import numpy as np
import pytest
from scipy.stats import chi2

import decbayes as db
from decbayes.errors import NotPrivate
from decbayes.models.core.model import Model
from decbayes.models.core.registry import MODELS, SHIPPED
from decbayes.privacy import releasing
from decbayes.privacy.releasing import largest_norm, summed_records

REAL, YES = db.columns.Gaussian(0, 1), db.columns.YesNo()
COUNT, THREE = db.columns.Poisson(mean=2.0), db.columns.Categorical(3)
RELEASED = {
    "BernoulliMixture": db.BernoulliMixture(2, dimension=4),
    "CategoricalMixture": db.CategoricalMixture(2, dimension=3, categories=[2, 3, 4]),
    "GaussianMixture": db.GaussianMixture(3, 2, covariance="full", prior_strength=0.1),
    "LatentClasses": db.LatentClasses(2, columns={"a": REAL, "b": REAL}),
    "LinearRegression": db.LinearRegression("y", columns={"a": REAL, "y": REAL}),
    "LogisticRegression": db.LogisticRegression("y", columns={"a": REAL, "y": YES}),
    "NegativeBinomialRegression": db.NegativeBinomialRegression("y", columns={"a": REAL, "y": COUNT}, dispersion=1.0),
    "PoissonRegression": db.PoissonRegression("y", columns={"a": REAL, "y": COUNT}),
    "SurvivalRegression": db.SurvivalRegression(
        "y", columns={"a": REAL, "y": YES, "t": db.columns.Gaussian(5, 5)}, time="t", cuts=[1.0, 4.0], terms=["a"]
    ),
}
KINDS = {db.BernoulliMixture: YES, db.CategoricalMixture: THREE}
CLASSES = db.LatentClasses(2, columns={"b": YES})
REFUSED = {
    "ClassMembership": lambda: db.models.ClassMembership(
        columns={"a": REAL}, terms=("a",), classes=db.Posterior.of_prior(CLASSES.structure)
    ),
    "MultinomialRegression": lambda: db.MultinomialRegression("y", columns={"a": REAL, "y": THREE}),
    "OrderedRegression": lambda: db.OrderedRegression("y", columns={"a": REAL, "y": THREE}),
    "PoissonMixture": lambda: db.PoissonMixture(2, dimension=3),
    "RegressionMixture": lambda: db.RegressionMixture(2, "y", columns={"a": REAL, "y": REAL}),
}


class Open:
    def spend(self, spending):
        self.last = spending


def wild_rows(model, rng):
    """Rows of all sizes that the model takes at all, most of them far from anything usual."""
    kinds = (
        list(model.columns.values())
        if isinstance(model.columns, Mapping)
        else [KINDS.get(type(model), REAL)] * model.dimension
    )
    rows = rng.standard_cauchy((60, len(kinds))) * 10.0 ** rng.uniform(-2, 4, (60, 1))
    for place, (kind, name) in enumerate(zip(kinds, [*model.columns] or [""] * len(kinds), strict=True)):
        if kind.factor == "counts" or name == getattr(model, "time", None):
            rows[:, place] = np.ceil(np.abs(rows[:, place]))
        elif kind.factor != "real":
            rows[:, place] = rng.integers(0, 2, 60)
    return rows


def test_every_shipped_model_is_under_this_law_or_has_no_mechanism():
    """A mechanism that nobody listed here fails: it would be used without a law."""
    own = {name for name in SHIPPED if MODELS[name].mechanism is not Model.mechanism}
    assert own == RELEASED.keys() | REFUSED.keys()


@pytest.mark.parametrize("name", REFUSED)
def test_models_that_cannot_be_bounded_say_so(name):
    with pytest.raises(NotPrivate):
        REFUSED[name]().mechanism()


@pytest.mark.parametrize("name", RELEASED)
def test_neighbours_differ_by_no_more_than_was_stated_and_noise_is_what_was_stated(name, rng, monkeypatch):
    monkeypatch.setattr(releasing, "MOST_OUTSIDE", 1.0)
    model, ledger = RELEASED[name], Open()
    mechanism, rows = model.mechanism(), wild_rows(model, rng)
    anchor, size = mechanism.start(), mechanism.size(0)
    with np.errstate(over="ignore"):
        whole = summed_records(mechanism, anchor, rows, 0)
        for left_out in range(0, 60, 7):
            rest = summed_records(mechanism, anchor, np.delete(rows, left_out, axis=0), 0)
            assert sum(int(step) ** 2 for step in whole - rest) <= largest_norm(size) ** 2
        privacy = db.Privacy(1.0, 1e-6, rows_per_person=2)
        prior = db.Posterior.of_prior(model.structure)
        sent = [model.release(prior, rows, privacy, ledger=ledger) for _ in range(6)]
    away = np.concatenate([(one.values - whole) / one.variance**0.5 for one in sent])
    low, high = chi2.ppf([1e-6, 1 - 1e-6], len(away))
    assert low < away @ away < high
    assert ledger.last.mu == pytest.approx(2 * largest_norm(size) / sent[0].variance ** 0.5, rel=1e-6)
    assert ledger.last.mu <= privacy.mu * mechanism.budget_parts[0] ** 0.5


@pytest.mark.parametrize("name", ["GaussianMixture", "LatentClasses", "LinearRegression", "PoissonRegression"])
@pytest.mark.parametrize(("beyond", "refused"), [(9, False), (11, True)])
def test_rows_beyond_the_agreed_units_stop_a_release_if_they_are_many(name, beyond, refused, rng):
    model, ledger = RELEASED[name], Open()
    rows = np.abs(rng.normal(size=(100, 2))).clip(0.0, 2.0).round()
    rows[:beyond, 0] = 999.0
    prior, privacy = db.Posterior.of_prior(model.structure), db.Privacy(1.0, 1e-6)
    if refused:
        with pytest.raises(NotPrivate, match="another unit"):
            model.release(prior, rows, privacy, ledger=ledger)
    else:
        model.release(prior, rows, privacy, ledger=ledger)
    assert hasattr(ledger, "last") is not refused


@pytest.mark.parametrize("name", RELEASED)
def test_all_rounds_together_spend_what_was_promised(name):
    """μ² adds up over rounds: whoever takes part in all of them is promised μ, and nothing of it is left over."""
    parts = RELEASED[name].mechanism().budget_parts
    assert min(parts) > 0.0
    assert sum(parts) == pytest.approx(1.0, abs=1e-12)
    assert sum(parts) <= 1.0 + 1e-15
