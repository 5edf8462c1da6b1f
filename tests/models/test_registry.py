"""A structure is enough to predict: the model it describes comes back from it."""

from dataclasses import fields, replace

import numpy as np
import pytest
from zoo import ZOO

import decbayes as db
from decbayes.errors import StructureMismatch
from decbayes.extending import LOCAL
from decbayes.models.regressions.regression import Regression

MODELS = [
    db.models.GaussianMean(variance=2.0, prior_mean=1.0, prior_variance=3.0, dimension=2),
    db.GaussianMixture(3, 2, variance=0.5, prior_mean=1.0, prior_variance=4.0, weight_prior=0.3),
    db.GaussianMixture(3, 2, covariance="spherical", prior_scale=0.7, prior_degrees=3.3),
    db.GaussianMixture(2, 3, covariance="diagonal", prior_scale=(0.1, 0.2, 0.3), columns=("a", "b", "c")),
    db.GaussianMixture(2, 2, covariance="full", prior_mean=(0.1, 0.2), prior_strength=0.123),
    db.LatentDirichletAllocation(3, ("apple", "pear", "plum"), document_prior=0.17, topic_prior=0.013),
    db.LatentFeatures(3, 4, variance=0.09, prior_variance=2.0, inclusion_prior=(0.3, 2.0)),
    db.BernoulliMixture(3, 2, prior=0.3, columns=("a", "b")),
    db.PoissonMixture(3, 2, prior_shape=0.3, prior_rate=0.7),
    db.CategoricalMixture(3, 2, categories=(2, 4), prior=0.3, columns=("a", "b")),
    db.HiddenMarkov(
        states=3,
        columns={"a": "real", "b": "yes/no", "c": "count"},
        sequences="walk",
        stickiness=4.0,
        transition_prior=0.5,
        start_prior=2.0,
    ),
    db.LinearRegression(
        "y", columns={"x": db.columns.Gaussian(5, 2), "y": "real"}, prior_noise=0.3, prior_variance=7.0
    ),
    db.LogisticRegression("y", columns={"x": db.columns.Categorical("a", "b"), "y": "yes/no"}, prior_variance=3.0),
    db.PoissonRegression("y", columns={"x": "real", "z": "real", "y": "count"}, terms=("x", "x:z"), intercept=False),
    db.LatentClasses(components=2, columns={"a": "real", "b": "yes/no", "c": "count"}, count_prior=0.3),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: str(model.structure.model))
def test_a_model_comes_back_from_its_structure(model):
    back = db.model_for(model.structure)
    assert type(back) is type(model)
    assert back.structure == model.structure
    assert dict(back.structure.model) == dict(model.structure.model)


@pytest.mark.parametrize("model", MODELS[:5], ids=lambda model: str(model.structure.model))
def test_it_predicts_and_fits_as_the_original(model, rng):
    points = rng.normal(size=(30, model.dimension))
    both = [replace(each, ascent=db.Ascent(restarts=0)) for each in (model, db.model_for(model.structure))]
    fits = [each.fit(points, rng=np.random.default_rng(1)) for each in both]
    assert fits[0].posterior == fits[1].posterior
    predictions = [each.log_predictive(fits[0].posterior, points) for each in both]
    np.testing.assert_array_equal(*predictions)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: str(model.structure.model))
def test_its_settings_are_the_real_ones(model):
    back = db.model_for(model.structure)
    given = {field.name for field in fields(model)} - {"ascent", "agreed", "prior_degrees"}
    for name in given:
        np.testing.assert_allclose(getattr(back, name), getattr(model, name)) if "prior" in name else None
    assert back.agreed is None or back.agreed == model.structure


@pytest.mark.parametrize("kind", sorted({type(model) for model, _ in ZOO.values()}, key=lambda kind: kind.__name__))
def test_a_structure_tells_every_setting_that_is_not_declared_local(kind):
    """Otherwise sites that differ in it would merge in silence. Some settings matter only together with others."""
    models = [model for model in [*MODELS, *(model for model, _ in ZOO.values())] if type(model) is kind]
    if issubclass(kind, Regression):  # what a formula and options may add
        added = {"offset", "weights", "entry"} & kind.from_data
        added -= {"offset"} if issubclass(kind, db.MultinomialRegression) else set()  # which is refused
        further = {"terms": ("b",)} | dict.fromkeys(added, "a")
        small = next(model for model, _ in ZOO.values() if type(model) is kind)
        both = {"varying": ("a", "b"), "correlated": True, "varying_within": ("b",), "within": "ward"}
        models += [replace(small, **further)]
        models += [] if kind is db.models.ClassMembership else [replace(small, varying=("b",)), replace(small, **both)]
    told = set().union(*(kind.settings_of(model.structure) for model in models))
    silent = {field.name for field in fields(kind) if field.metadata != LOCAL} - told
    silent -= {"offset"} if issubclass(kind, db.MultinomialRegression) else set()  # which is refused
    if kind is db.models.ClassMembership:  # in which nothing varies, and whose target are the classes
        silent -= {"varying", "correlated", "varying_within", "within", "between_degrees", "prior_between", "target"}
    # The usual recipe of texts goes without saying; others are how regressions and sequences are computed and read.
    # Which level of an outcome is modelled stands in its column.
    assert silent <= {"ascent", "agreed", "recipe", "by", "approximation", "yes"}


def test_models_of_different_levels_have_different_structures():
    columns = {"g": db.columns.Categorical("a", "b", "c"), "x": "real"}
    first, second = (db.LogisticRegression("g", columns=columns, yes=level) for level in "bc")
    assert first.structure != second.structure


def test_other_tuning_keeps_the_prior_and_other_settings_do_not_pass_for_it(rng):
    structure = db.GaussianMixture(2, 1, variance=1.0, prior_mean=7.0).structure
    shifted = structure.with_prior({**structure.prior, "weights": [[0.0], [3.0]]})
    model = replace(db.model_for(shifted), ascent=db.Ascent(passes=3))
    assert model.structure == shifted
    assert (model.prior_mean, model.ascent.passes) == (7.0, 3)
    with pytest.raises(StructureMismatch, match="leave `agreed` out"):
        _ = replace(model, components=3).structure
    assert replace(model, components=3, agreed=None).structure.components(structure.symmetry[0]) == 3


def test_a_prior_that_no_argument_can_express_is_kept(rng):
    """An epoch's posterior is the prior of the next: its components differ."""
    model = db.GaussianMixture(2, 1, variance=1.0)
    posterior = model.fit(rng.normal(size=20), rng=rng).posterior
    structure = model.structure.with_prior(dict(posterior.natural))
    assert db.model_for(structure).structure == structure


def test_structures_of_other_models_are_refused():
    own = db.extending.Structure({"rate": db.families.Gamma()}, {"rate": [[0.0, -1.0]]}, model={"name": "mine"})
    with pytest.raises(StructureMismatch, match="belongs to mine, which is not registered"):
        db.model_for(own)
    for model in ({"name": "GaussianMixture"}, {"name": "GaussianMean", "variance": 1.0}):
        with pytest.raises(StructureMismatch, match="This is not a structure of Gaussian"):
            db.model_for(db.extending.Structure(own.families, own.prior, model=model))
    weights = {"weights": db.families.Weights(), "components": db.families.DiagonalGaussian()}
    prior = {"weights": [[0.0]], "components": [[0.0, -1.0]]}
    pretender = db.extending.Structure(
        weights, prior, model={"name": "GaussianMixture", "covariance": "known", "variance": 1.0}
    )
    with pytest.raises(StructureMismatch, match="not a structure of GaussianMixture"):
        db.model_for(pretender)


def test_models_are_found_by_the_names_of_their_commands():
    from decbayes.models.core.registry import MODELS, SHIPPED, command_name, kind_called

    for name, (_, command) in SHIPPED.items():
        assert kind_called(command) is MODELS[name]
        assert command_name(MODELS[name]) == command
    with pytest.raises(LookupError, match=r"No model is called 'topic'; there are .*topics"):
        kind_called("topic")
