"""Models that take their number of columns from the data, and are then as if somebody had given it."""

from dataclasses import replace

import numpy as np
import pytest

import decbayes as db
from decbayes.errors import InvalidData, InvalidStructure

MODELS = {
    "known variance": (db.GaussianMixture(2, variance=1.0), (20, 3)),
    "diagonal": (db.GaussianMixture(2, covariance="diagonal"), (20, 3)),
    "full": (db.GaussianMixture(2, covariance="full"), (20, 3)),
    "auto": (db.GaussianMixture("auto", covariance="spherical"), (20, 3)),
    "yes or no": (db.BernoulliMixture(2), (20, 3)),
    "counts": (db.PoissonMixture(2), (20, 3)),
    "categories": (db.CategoricalMixture(2, categories=2), (20, 3)),
    "mean": (db.models.GaussianMean(), (20, 3)),
    "features": (db.LatentFeatures(2), (20, 3)),
    "images": (db.LatentFeatures(2), (20, 2, 2)),
}


@pytest.fixture(params=MODELS)
def case(request):
    model, shape = MODELS[request.param]
    data = np.random.default_rng(0).integers(2, size=shape).astype(float)
    return model, replace(model, dimension=int(np.prod(shape[1:]))), data


def test_a_model_without_a_dimension_takes_that_of_its_data(case):
    model, given, data = case
    assert model.for_data(data) == given
    fitted, expected = model.fit(data, rng=0), given.fit(data, rng=0)
    assert fitted.posterior == expected.posterior
    assert fitted.bound == expected.bound
    assert given.for_data(data[:, :1]) is given


def test_it_predicts_with_a_posterior_that_says_the_dimension(case):
    model, given, data = case
    posterior = given.fit(data, rng=0).posterior
    for method in ("assign", "log_predictive", "information"):
        expected = getattr(given, method)(posterior, data)
        np.testing.assert_array_equal(getattr(model, method)(posterior, data), expected)
    assert model.contributed(posterior, data) == given.contributed(posterior, data)
    assert model.describe(posterior)[0].keys() == given.describe(posterior)[0].keys()
    assert model.tally(posterior).observed == pytest.approx(given.tally(posterior).observed)


def test_where_the_dimension_is_needed_and_unknown_one_line_says_what_to_do(case):
    with pytest.raises(InvalidStructure, match=r"Give `dimension`, or use `model.for_data\(data\)`") as error:
        _ = case[0].structure
    assert "\n" not in str(error.value)


def test_names_and_categories_say_the_dimension():
    assert db.GaussianMixture(2, variance=1.0, columns=["a", "b"]).dimension == 2
    assert db.CategoricalMixture(2, categories=[2, 3]).dimension == 2
    with pytest.raises(ValueError, match="2 column names for 3 dimensions"):
        db.GaussianMixture(2, 3, variance=1.0, columns=["a", "b"])


def test_a_vector_chunks_and_files_say_it(tmp_path):
    model, points = db.GaussianMixture(2, variance=1.0), np.arange(12.0).reshape(4, 3)
    assert model.for_data([1.0, 2.0]).dimension == 1
    assert model.for_data(db.streams.Chunks(lambda: iter([points, points]))).dimension == 3
    np.save(tmp_path / "points.npy", points)
    assert model.for_data(tmp_path / "points.npy").dimension == 3
    assert model.for_data(np.empty((0, 5))).dimension == 5
    for nothing in ([], iter([points])):
        with pytest.raises(InvalidData, match=r"give the model its `dimension`|Use Chunks"):
            model.for_data(nothing)


def test_streams_refinements_and_checks_need_no_dimension(rng):
    model = db.GaussianMixture(2, variance=1.0, prior_variance=9.0, ascent=db.Ascent(30, restarts=1))
    given = replace(model, dimension=2)
    shards = [rng.normal(size=(15, 2)) + 3.0 * rng.integers(2, size=(15, 1)) for _ in range(2)]
    fits = [fit.posterior for fit in model.fit_many(shards, rng=0)]
    merged = db.merge(fits)

    def results(known):
        yield db.refine(known, shards, fits, rounds=1, restarts=1, rng=0).merged
        yield db.streams.sda_bayes(known, [[shard] for shard in shards], rng=0)
        yield [*db.streams.epochs(known, [shards[:1], shards[1:]], rng=0)][-1]
        yield [*db.streams.epochs(known, [shards], start=merged, rng=0)][-1]
        yield [*db.streams.sequential(replace(known, components="auto"), shards, rng=0)][-1]
        yield db.calibrate(known, shards, db.refine(known, shards, fits, rng=0).merged)
        yield db.validate(known, {"merged": merged}, shards[0]).choice().name
        yield db.checking.diagnose(known, shards, merged, draws=100).shape
        yield db.checking.gibbs(known, shards[0], rng=0, draws=1)["weights"].tolist()
        yield db.simulate(known, 3, rng=0, posterior=merged).data.tolist()

    assert list(results(model)) == list(results(given))


def test_a_fit_is_printed_in_one_short_line():
    fit = db.models.GaussianMean().fit(np.zeros((5, 2)))
    assert repr(fit) == f"Fit(converged after 1 pass, bound {fit.bound[-1]:.6g})"
    long = db.extending.Fit(fit.posterior, tuple(map(float, range(200))), False)
    assert repr(long) == "Fit(not converged after 200 passes, bound 199)"


def test_a_mixture_by_its_number_alone_has_full_covariances() -> None:
    model = db.GaussianMixture(2)
    assert model == db.GaussianMixture(2, covariance="full")
    posterior = model.fit(np.random.default_rng(0).normal(size=(20, 3)), rng=0).posterior
    assert posterior.mean("components", "precision").shape == (2, 3, 3)
