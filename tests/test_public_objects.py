"""What public functions return can be copied, sent to other processes and compared; warnings name the user's line."""

import copy
import inspect
import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest

import decbayes as db
from decbayes.errors import MergeWarning
from decbayes.views import Findings


@pytest.fixture(scope="module")
def posteriors():
    """The sites share one cluster of two, so a merge in two slots should be checked."""
    rng = np.random.default_rng(0)
    model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=100.0)
    return [model.fit(np.repeat([[0.0], [far]], 30, axis=0), rng=rng).posterior for far in (9.0, 10.0, -20.0)]


@pytest.fixture(scope="module")
def alignment(posteriors):
    return db.align(posteriors)


def results(posteriors, alignment):
    yield alignment
    yield db.merging.tree(posteriors)
    yield db.merging.robust_merge(posteriors)
    yield db.merging.influence(alignment)
    yield db.merging.parties(alignment)
    yield next(iter(db.checking.heterogeneity(alignment).values()))
    yield Findings.by_name(alignment, ["a", "b", "c"])
    yield db.disclosure.Persons.of(["a", "b"])


def test_results_can_be_compared_copied_and_pickled(posteriors, alignment):
    for result in results(posteriors, alignment):
        for again in (pickle.loads(pickle.dumps(result)), copy.deepcopy(result), copy.copy(result)):
            assert type(again) is type(result)
            assert (again == result) in (True, False)
        assert result in {result}


def test_an_alignment_from_another_process_is_the_same(alignment):
    again = pickle.loads(pickle.dumps(alignment))
    assert again.merged() == alignment.merged()
    assert str(again) == str(alignment)
    with pytest.raises(TypeError):
        again.divisions[alignment.structure.symmetry[0]] = None


# As merge_sklearn, estimators and others call it, from within decbayes.
INSIDE = {"__name__": "decbayes.sklearn._somewhere", "merge": db.merge}
exec("def through_a_wrapper(posteriors): return merge(posteriors)", INSIDE)


@pytest.mark.parametrize("merge", [db.merge, INSIDE["through_a_wrapper"]])
def test_warnings_of_merges_point_at_the_users_line(posteriors, merge):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        merge(posteriors)
    files = {warning.filename for warning in caught if warning.category is MergeWarning}
    assert files == {__file__}


def test_functions_of_an_alignment_refuse_anything_else(posteriors):
    functions = [getattr(db.merging, name) for name in db.merging.__all__]
    asked = [
        one
        for one in functions
        if inspect.isfunction(one) and next(iter(inspect.signature(one).parameters)) == "alignment"
    ]
    assert len(asked) > 8
    for function in asked:
        further = [None] * (
            sum(one.default is one.empty for one in inspect.signature(function).parameters.values()) - 1
        )
        for wrong in (None, posteriors):
            with pytest.raises(TypeError, match="alignment must be of type Alignment"):
                function(wrong, *further)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda given: db.merge(given[0]), "not a single one"),
        (lambda given: db.merge(given, duplicates="Refuse"), "duplicates is 'refuse' or 'allow'"),
        (lambda given: db.merge(given, robust="no"), "robust is True, False or a Robust rule"),
        (lambda given: db.columns.columns_of(np.ones((3, 2))), "do not name their columns"),
        (lambda given: db.save(given[0], "a", note={"a": object()}), "A note has texts"),
        (lambda given: db.save(given[0], "a", data=[[1.0]], rules="none"), "rules must be of type Rules"),
    ],
)
def test_wrong_arguments_are_refused_in_a_line(posteriors, call, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((TypeError, ValueError, db.errors.DecbayesError), match=message) as error:
        call(posteriors)
    assert "\n" not in str(error.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "make",
    [
        lambda: db.GaussianMixture(2, 2, prior_mean=np.array([0.0, 1.0])),
        lambda: db.GaussianMixture(2, 2, prior_mean=[0, 1]),
        lambda: db.LatentClasses(2, columns={"age": db.columns.Gaussian(50, 20), "sick": "yes/no"}),
        lambda: db.LinearRegression("y", columns={"x": "real", "y": "real"}),
        lambda: db.LatentDirichletAllocation(2, ["a", "b"], topic_prior=np.array([0.1, 0.2])),
    ],
)
def test_models_are_values_whatever_their_settings(make):
    model, same, other = make(), make(), replace(make(), ascent=db.Ascent(passes=3))
    assert model == same != other
    assert {model: 1}[same] == 1
    assert pickle.loads(pickle.dumps(model)) == model
    assert db.model_for(model.structure) == db.model_for(same.structure)
