"""A structure tells every setting that has gone into it, however unusual."""

from dataclasses import fields, replace

import numpy as np
import pytest
from zoo import ZOO

import decbayes as db
from decbayes.models.mixtures.gaussian_mixture import UNUSED

UNUSUAL = {"prior_degrees": 6.5, "inclusion_prior": (0.7, 2.3)}
# How fits are made, which is nobody else's business, and numbers of things.
OWN = {"document_steps", "document_tolerance"}


def with_unusual_settings(model):
    """The same kind of model, all of its numbers changed."""
    changed, known = {}, getattr(model, "variance", None) is not None
    idle = UNUSED["known" if known else "unknown"] if isinstance(model, db.GaussianMixture) else ()
    for field in fields(model):
        value = getattr(model, field.name)
        if field.name in idle:
            with pytest.raises(ValueError, match=f"{field.name} is about clusters with"):
                replace(model, **{field.name: 7.0})
        elif field.name in UNUSUAL:
            changed[field.name] = UNUSUAL[field.name]
        elif isinstance(value, float) and field.name not in OWN:
            changed[field.name] = 1.7 * value + 0.4
    return replace(model, **changed), changed


def alone(model):
    """The model with a single component, if its number can be chosen."""
    number = next((name for name in ("components", "states", "features", "topics") if hasattr(model, name)), None)
    return None if number is None else replace(model, **{number: 1})


@pytest.mark.parametrize("single", [False, True], ids=["several", "one"])
@pytest.mark.parametrize("name", ZOO)
def test_settings_come_back_from_a_structure(name, single):
    model, _ = with_unusual_settings(ZOO[name][0])
    if single and (model := alone(model)) is None:
        return
    back = type(model)(**type(model).settings_of(model.structure))
    assert back.agreed is None, "not by handing the structure on"
    assert back.structure.fingerprint != ZOO[name][0].structure.fingerprint
    for factor, prior in model.structure.prior.items():
        np.testing.assert_allclose(back.structure.prior[factor], prior, rtol=1e-12)
    assert back.structure.model == model.structure.model


@pytest.mark.parametrize("name", ZOO)
def test_every_setting_that_a_structure_tells_is_in_it(name):
    """Of two models that differ in one of these, structures differ."""
    model, changed = with_unusual_settings(ZOO[name][0])
    told = type(model).settings_of(model.structure)
    for setting in changed.keys() & told.keys():
        other = replace(ZOO[name][0], **{setting: changed[setting]})
        if not np.array_equal(getattr(ZOO[name][0], setting), changed[setting]):
            assert other.structure.fingerprint != ZOO[name][0].structure.fingerprint, setting
            found = np.asarray(type(other).settings_of(other.structure)[setting])
            found = np.diag(found) if found.ndim == 2 else found  # a matrix whose zeros are zero but for rounding
            np.testing.assert_allclose(found, np.broadcast_to(changed[setting], found.shape), err_msg=setting)


BETWEEN = {"prior_between": 0.1, "between_degrees": 1.0}
NORMAL = {"prior_variance": 10.0, "approximation": "variational", **BETWEEN}
NOISY = {"prior_variance": 100.0, "prior_noise": 0.5, "prior_degrees": 1.0}
TABLE = {
    "category_prior": 0.5,
    "yes_no_prior": 0.5,
    "count_prior": 0.5,
    "prior_strength": 0.01,
    "prior_degrees": 2.0,
    "prior_scale": 0.3,
}
DEFAULTS = {
    db.models.GaussianMean: {"variance": 1.0, "prior_mean": 0.0, "prior_variance": 1.0},
    db.GaussianMixture: {
        "weight_prior": 1.0, "prior_mean": 0.0, "prior_variance": 1.0, "prior_strength": 0.01, "prior_scale": 1.0
    },
    db.BernoulliMixture: {"weight_prior": 1.0, "prior": 0.5},
    db.PoissonMixture: {"weight_prior": 1.0, "prior_shape": 0.5, "prior_rate": 0.1},
    db.CategoricalMixture: {"weight_prior": 1.0, "categories": 2, "prior": 0.5},
    db.LatentClasses: {"weight_prior": 1.0, **TABLE},
    db.HiddenMarkov: {"states": 2, "transition_prior": 1.0, "stickiness": 0.0, "start_prior": 1.0, **TABLE},
    db.LatentDirichletAllocation: {"document_prior": 0.1, "topic_prior": 0.01},
    db.LatentFeatures: {"features": 5, "variance": 0.04, "prior_variance": 1.0, "inclusion_prior": (1.0, 1.0)},
    db.LinearRegression: NOISY | BETWEEN,
    db.LogisticRegression: NORMAL,
    db.PoissonRegression: NORMAL,
    db.NegativeBinomialRegression: NORMAL | {"dispersion": 1.0},
    db.SurvivalRegression: NORMAL | {"rate": 1.0},
    db.OrderedRegression: NORMAL | {"link": "continuation"},
    db.MultinomialRegression: NORMAL,
    db.RegressionMixture: {"weight_prior": 1.0, **NOISY},
}  # fmt: skip


@pytest.mark.parametrize("kind", DEFAULTS, ids=lambda kind: kind.__name__)
def test_who_states_no_prior_has_that_of_earlier_releases(kind):
    """Else sites with two releases would no longer merge, and nobody would have changed anything."""
    stated = {field.name: field.default for field in fields(kind)}
    assert {name: stated[name] for name in DEFAULTS[kind]} == DEFAULTS[kind]
