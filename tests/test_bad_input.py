"""Bad input gets a clear error that says what to do; the same numbers in another form give the same result."""

from functools import partial
from itertools import repeat

import numpy as np
import pytest
from draws import ALL
from scipy.sparse import csr_array
from structures import draw, mixture, single

import decbayes as db
from decbayes.errors import InvalidData, InvalidPosterior, InvalidStructure, StructureMismatch

POINTS = np.random.default_rng(5).normal(0.0, 3.0, size=(40, 2)).astype(np.float32).astype(np.float64)
SHORT = db.Ascent(passes=10, restarts=1)
MODELS = {
    "mean": db.models.GaussianMean(dimension=2),
    "known": db.GaussianMixture(2, 2, variance=1.0, ascent=SHORT),
    "spherical": db.GaussianMixture(2, 2, covariance="spherical", ascent=SHORT),
    "diagonal": db.GaussianMixture(2, 2, covariance="diagonal", ascent=SHORT),
    "full": db.GaussianMixture(2, 2, covariance="full", ascent=SHORT),
    "features": db.LatentFeatures(2, 2, ascent=SHORT),
}
CLUSTERS = {name: model for name, model in MODELS.items() if isinstance(model, db.GaussianMixture)}


def read_only(array):
    copy = array.copy()
    copy.flags.writeable = False
    return copy


SAME = {
    "float32": POINTS.astype(np.float32),
    "column by column": np.asfortranarray(POINTS),
    "every other row": np.repeat(POINTS, 2, axis=0)[::2],
    "read-only": read_only(POINTS),
    "lists": POINTS.tolist(),
    "objects": POINTS.astype(object),
    "big-endian": POINTS.astype(">f8"),
    "nothing masked": np.ma.masked_array(POINTS),
}


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("form", SAME)
def test_the_form_of_the_numbers_changes_no_bit(kind, form):
    model, (one, other) = MODELS[kind], (np.random.default_rng(0) for _ in range(2))
    given = SAME[form]
    before = np.array(given, dtype=np.float64)
    assert model.fit(given, rng=one).posterior == model.fit(POINTS, rng=other).posterior
    np.testing.assert_array_equal(np.array(given, dtype=np.float64), before)


def test_a_data_frame_is_its_numbers(rng):
    pandas = pytest.importorskip("pandas")
    model = MODELS["full"]
    expected = model.fit(POINTS, rng=np.random.default_rng(0)).posterior
    assert model.fit(pandas.DataFrame(POINTS, columns=["a", "b"]), rng=np.random.default_rng(0)).posterior == expected
    with pytest.raises(InvalidData, match="must be numbers: some are missing, texts") as refused:
        model.fit(pandas.DataFrame({"a": [1.0], "b": ["long"]}), rng=rng)
    assert "long" not in str(refused.value)


BAD = {
    "masked": (np.ma.masked_array(POINTS, mask=POINTS > 3), "masked.*filled"),
    "complex": (POINTS + 1j, "complex128.*real numbers"),
    "dates": (np.zeros((3, 2), dtype="datetime64[s]"), "datetime64.*real numbers"),
    "sparse": (csr_array(POINTS), "sparse matrix.*toarray"),
    "a whole number that is too large": ([[10**400, 1]], "too large"),
    "ragged": ([[1.0, 2.0], [3.0]], "inhomogeneous"),
    "an iterator of vectors": (repeat(POINTS[0]), "come in chunks|have shape"),
    "numbers whose squares overflow": (POINTS * 1e200, "counts as infinite"),
}


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("form", BAD)
def test_what_are_no_real_numbers_is_refused(kind, form, rng):
    data, reason = BAD[form]
    model, posterior = MODELS[kind], db.Posterior.of_prior(MODELS[kind].structure)
    calls = [lambda: model.fit(data, rng=rng)]
    if kind == "features":
        calls += [lambda: model.assign(posterior, data), lambda: model.log_predictive(posterior, POINTS, data)]
    else:
        calls += [lambda: model.log_predictive(posterior, data)]
    for call in calls:
        with pytest.raises(InvalidData, match=reason):
            call()


@pytest.mark.parametrize("kind", CLUSTERS)
def test_no_observations_have_no_responsibilities(kind):
    model = CLUSTERS[kind]
    assert model.assign(db.Posterior.of_prior(model.structure), np.empty((0, 2))).shape == (0, 2)


@pytest.mark.parametrize("kind", CLUSTERS)
@pytest.mark.parametrize("offset", [1e7, 1e9])
def test_data_too_far_from_zero_for_their_spread_are_refused(kind, offset, rng):
    settings = {"variance": 1.0, "prior_variance": 9.0} if kind == "known" else {"covariance": kind}
    model = db.GaussianMixture(2, 2, prior_mean=offset, **settings)
    with pytest.raises(InvalidData, match=r"lost in rounding.*Subtract one agreed offset"):
        model.fit(offset + POINTS / 3.0, rng=rng)


@pytest.mark.parametrize("kind", CLUSTERS)
def test_an_offset_that_is_not_refused_changes_no_prediction(kind):
    settings = {"variance": 1.0, "prior_variance": 9.0} if kind == "known" else {"covariance": kind}
    scores = []
    for offset in (0.0, 1e5):
        model = db.GaussianMixture(
            2, 2, prior_mean=offset, ascent=db.Ascent(restarts=0, passes=40, tolerance=0.0), **settings
        )
        posterior = model.fit(offset + POINTS, rng=np.random.default_rng(0)).posterior
        scores.append(model.log_predictive(posterior, offset + POINTS))
    # Of sixteen digits ten are lost at a distance of 1e5 standard deviations.
    np.testing.assert_allclose(scores[1], scores[0], atol=3e-3)


def test_vectors_too_far_from_zero_for_their_noise_are_refused(rng):
    model = db.LatentFeatures(2, 2, variance=0.04, prior_variance=1e16)
    with pytest.raises(InvalidData, match="lost in rounding"):
        model.fit(1e8 + POINTS, rng=rng)


def test_the_evidence_of_a_mean_does_not_depend_on_where_zero_is(rng):
    points = rng.integers(-50, 50, size=(32, 2)).astype(float)  # sums and means are exact at any offset
    bounds = [db.models.GaussianMean(4.0, offset, 8.0, 2).fit(points + offset).bound[0] for offset in (0.0, 2.0**33)]
    assert bounds[1] == pytest.approx(bounds[0], rel=1e-12)


def test_a_fit_is_not_its_posterior(rng, tmp_path):
    model = CLUSTERS["known"]
    fit = model.fit(POINTS, rng=rng)
    calls = [
        lambda: db.merge([fit, fit]),
        lambda: db.save(fit, tmp_path / "a.posterior"),
        lambda: db.merging.symmetrize(fit),
        lambda: db.merging.pad(fit, model.structure),
        lambda: model.log_predictive(fit, POINTS),
        lambda: model.assign(None, POINTS),
        lambda: model.fit(POINTS, rng=rng, prior=fit),
        lambda: model.fit(POINTS, rng=rng, start=fit),
        lambda: db.plot.mixture(fit),
        lambda: db.interop.to_sklearn(fit),
    ]
    for call in calls:
        with pytest.raises(TypeError, match=r"must be of type Posterior, not .*fit\.posterior"):
            call()
    assert not list(tmp_path.iterdir())


def test_a_model_is_not_its_structure():
    model = CLUSTERS["known"]
    empty = db.Posterior.of_prior(model.structure)
    for call in (
        lambda: db.Posterior.of_prior(model),
        lambda: db.Posterior(model, {}),
        lambda: db.model_for(empty),
    ):
        with pytest.raises(TypeError, match=r"structure must be of type Structure, not .*model\.structure"):
            call()


COUNTS = {
    "components": lambda n: db.GaussianMixture(n, 2, variance=1.0),
    "dimension": lambda n: db.models.GaussianMean(dimension=n),
    "topics": lambda n: db.LatentDirichletAllocation(n, ("a", "b")),
    "features": lambda n: db.LatentFeatures(n, 2),
    "passes": lambda n: db.Ascent(passes=n),
    "restarts": lambda n: db.solvers.Matching(restarts=n),
    "fan_in": lambda n: db.solvers.Hierarchical(fan_in=n),
    "draws": lambda n: db.checking.gibbs(CLUSTERS["known"], POINTS, rng=np.random.default_rng(0), draws=n),
    "top": lambda n: db.Posterior.of_prior(mixture(2)).summary(top=n),
}


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("wrong", [0, -1, True, 1.5, "3", np.array([2, 3])], ids=repr)
def test_whole_numbers_are_whole(name, wrong):
    too_small = name not in ("passes", "restarts", "draws", "dimension") or not np.array_equal(wrong, 0)
    with pytest.raises(ValueError, match=f"{name} must be an integer of at least"):
        COUNTS[name](wrong if too_small else -1)


@pytest.mark.parametrize("wrong", [0.0, -1.0, np.nan, np.inf, "1", 1j, [1.0, 2.0], np.ma.masked], ids=repr)
def test_positive_settings_are_positive_numbers(wrong):
    for build in (
        lambda: db.models.GaussianMean(variance=wrong, dimension=1),
        lambda: db.GaussianMixture(2, 2, variance=wrong),
        lambda: db.LatentFeatures(2, 2, variance=wrong),
        lambda: db.LatentFeatures(2, 2, inclusion_prior=(1.0, wrong)),
        lambda: db.LatentDirichletAllocation(
            2, ("a", "b"), document_prior=[wrong] if isinstance(wrong, list) else wrong
        ),
    ):
        with pytest.raises(ValueError, match=r"(variance|inclusion_prior|document_prior).* must be"):
            build()


@pytest.mark.parametrize("wrong", [1.0, (1.0,), (1.0, 2.0, 3.0), {1.0, 2.0}], ids=repr)
def test_an_inclusion_prior_is_a_pair(wrong):
    with pytest.raises(ValueError, match="inclusion_prior must be the two parameters"):
        db.LatentFeatures(2, 2, inclusion_prior=wrong)
    pair = db.LatentFeatures(2, 2, inclusion_prior=np.array([1.0, 2.0]))
    assert pair.structure == db.LatentFeatures(2, 2, inclusion_prior=(1.0, 2.0)).structure


def test_a_long_prior_is_cut_short_in_the_message():
    words = tuple(map(str, range(5000)))
    model = db.LatentDirichletAllocation(2, words, topic_prior=[0.1] * 4999 + [0.0])
    with pytest.raises(InvalidStructure, match=r"topic_prior must be positive, not \[0.1 0.1 0.1 \.\.\."):
        model.structure  # noqa: B018


@pytest.mark.parametrize("wrong", [np.nan, [1.0, 2.0, 3.0], 1j, np.ma.masked, "far"], ids=repr)
def test_priors_that_fit_no_model_are_named(wrong):
    for name, build in (
        ("prior_mean", partial(db.models.GaussianMean, dimension=2)),
        ("prior_mean", partial(db.GaussianMixture, 2, 2, variance=1.0)),
        ("prior_scale", partial(db.GaussianMixture, 2, 2, covariance="full")),
        ("prior_scale", partial(db.GaussianMixture, 2, 2, covariance="diagonal")),
        ("prior_scale", partial(db.GaussianMixture, 2, 2, covariance="spherical")),
        ("topic_prior", partial(db.LatentDirichletAllocation, 2, ("a", "b"))),
    ):
        with pytest.raises((InvalidStructure, ValueError), match=f"{name} must be"):
            build(**{name: wrong}).structure  # noqa: B018


@pytest.mark.parametrize("wrong", [-1.0, np.nan, "1", None])
def test_a_tolerance_is_a_number_of_nats(wrong):
    """A negative one would make the moves of latent features go on for ever."""
    with pytest.raises(ValueError, match="tolerance must be"):
        db.Ascent(tolerance=wrong)


NO_SLOTS = {
    "floats": np.array([0.0, 1.0, 2.0]),
    "complex": np.array([0, 1, 2]) + 0j,
    "objects": np.array([0, 1, 2], dtype=object),
    "texts": ["0", "1", "2"],
    "masked": np.ma.masked_array([0, 1, 2], [False, True, False]),
    "negative": [0, 1, -1],
    "too large": [0, 1, 3],
    "a matrix": np.eye(3, dtype=int),
    "nothing": None,
}


@pytest.mark.parametrize("form", NO_SLOTS)
def test_assignments_name_slots(form, rng):
    posteriors = tuple(draw(mixture(3), rng) for _ in range(2))
    (coupled,) = mixture(3).symmetry
    relabellings = ({coupled: np.arange(3)}, {coupled: NO_SLOTS[form]})
    with pytest.raises(StructureMismatch, match=r"(?s)Assignment 1 has .* as integers from 0 to 2"):
        db.merging.objective(posteriors, relabellings)
    with pytest.raises(StructureMismatch, match="Assignment 1 has"):
        db.merging.Alignment(relabellings, (0.0,), posteriors, (0, 1), mixture(3))


def test_an_alignment_names_every_posterior_once(rng):
    found = db.align([draw(mixture(3), rng) for _ in range(2)])
    with pytest.raises(StructureMismatch, match="2 posteriors once"):
        db.merging.Alignment(found.assignments, (0.0,), found.posteriors, (0, 0), found.structure)
    with pytest.raises(StructureMismatch, match="2 posteriors and 1 assignments"):
        db.merging.Alignment(found.assignments[:1], (0.0,), found.posteriors, (0, 1), found.structure)
    with pytest.raises(StructureMismatch, match="must map each coupled set"):
        db.merging.objective(found.posteriors, [np.arange(3)] * 2)


@pytest.mark.parametrize("form", [list, tuple, iter])
def test_an_objective_takes_what_a_merge_takes(form, rng):
    posteriors = [draw(mixture(3), rng) for _ in range(2)]
    found = db.align(form(posteriors))
    lists = [{coupled: list(map(int, p)) for coupled, p in one.items()} for one in found.assignments]
    assert db.merging.objective(form(posteriors), form(lists)) == pytest.approx(found.objective[-1])


@pytest.mark.parametrize("solver", ["matched", db.solvers.Matching, 3])
def test_a_solver_is_a_name_or_an_object(solver, rng):
    with pytest.raises(TypeError, match=r"solver must be one of .*matching.*, or an object such as Grouping\(\)"):
        db.merge([draw(mixture(3), rng)], solver=solver)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("spoil", [lambda c: c + 1j, lambda c: np.ma.masked_array(c, c == c), lambda c: c.astype("M8")])
def test_contributions_are_real_numbers(name, spoil, rng):
    posterior = draw(single(name, 3, 2), rng)
    with pytest.raises(InvalidPosterior, match="'factor' must be a matrix of real numbers"):
        db.Posterior(posterior.structure, {"factor": spoil(posterior.contribution["factor"])})
    with pytest.raises(InvalidPosterior, match="'factor' must be a matrix of real numbers"):
        db.Posterior.from_natural(posterior.structure, {"factor": spoil(posterior.natural["factor"])})
    with pytest.raises(InvalidStructure, match="prior of 'factor' must be a matrix of real numbers"):
        posterior.structure.with_prior({"factor": spoil(np.array(posterior.structure.prior["factor"]))})


def test_a_sparse_complex_contribution_is_refused_and_sparse_natural_parameters_are_not(rng):
    posterior = draw(mixture(3), rng)
    parts = {name: csr_array(part + 1j) for name, part in posterior.contribution.items()}
    with pytest.raises(InvalidPosterior, match="complex128"):
        db.Posterior(posterior.structure, parts)
    natural = {name: csr_array(matrix) for name, matrix in posterior.natural.items()}
    assert db.Posterior.from_natural(posterior.structure, natural) == db.Posterior.from_natural(
        posterior.structure, posterior.natural
    )


def test_structures_are_made_of_families_and_coupled_sets():
    structure = mixture(2)
    with pytest.raises(TypeError, match=r"symmetry\[0\] must be of type CoupledSet"):
        db.extending.Structure(structure.families, structure.prior, (("means", "weights"),))
    with pytest.raises(TypeError, match=r"families\['means'\] must be of type Family, not str"):
        db.extending.Structure({"means": "Gaussian", "weights": "Weights"}, structure.prior)
    with pytest.raises(InvalidStructure, match=r"Labelled factors \['words'\] do not exist"):
        db.extending.Structure(structure.families, structure.prior, labels={"words": ("a",)})


def test_an_unknown_factor_is_named(rng):
    posterior = draw(mixture(2), rng)
    for ask in (posterior.mean, posterior.parameters, posterior.natural.__getitem__):
        with pytest.raises(KeyError, match="no factor 'topics'; there are"):
            ask("topics")


@pytest.mark.parametrize("count", [0, True, 2.5, "3", None, MODELS["known"]], ids=repr)
def test_padding_needs_a_number_or_a_structure(count):
    with pytest.raises(ValueError, match="components must be an integer of at least 1"):
        db.merging.pad(db.Posterior.of_prior(mixture(2)), count)


def test_one_path_is_no_library():
    with pytest.raises(TypeError, match=r"sorted\(Path\('posteriors'\)\.glob"):
        db.merging.Library("posteriors")


def test_pictures_show_data_of_the_mixtures_dimension(rng):
    pytest.importorskip("matplotlib")
    posterior = db.Posterior.of_prior(CLUSTERS["full"].structure)
    with pytest.raises(InvalidData, match=r"shape \(4, 3\)"):
        db.plot.mixture(posterior, np.ones((4, 3)))
    for pair in ((0, 5), (1, 1), (0, -1), (0, 1, 0)):
        with pytest.raises(ValueError, match="must be two of 2"):
            db.plot.mixture(posterior, dimensions=pair)
    with pytest.raises(StructureMismatch, match="not of a mixture"):
        db.plot.mixture(db.Posterior.of_prior(MODELS["features"].structure))


def test_streams_may_come_from_generators():
    model = db.models.GaussianMean(dimension=2)
    for merge in (db.streams.sda_bayes, db.streams.merge_batches):
        one = merge(model, [[POINTS[:20]], [POINTS[20:]]], rng=np.random.default_rng(0))
        shards = (iter([part]) for part in (POINTS[:20], POINTS[20:]))
        assert merge(model, shards, rng=np.random.default_rng(0)) == one


@pytest.mark.parametrize("form", ["masked", "complex", "dates", "ragged", "an iterator of vectors"])
def test_only_real_vectors_are_split(form, rng):
    with pytest.raises(InvalidData):
        db.checking.hold_out(BAD[form][0], rng=rng)


def test_what_keeps_topics_apart_is_named_and_not_their_number():
    priors = [
        db.Posterior.of_prior(db.LatentDirichletAllocation(topics, ("a", "b"), topic_prior=1 / topics).structure)
        for topics in (2, 4)
    ]
    with pytest.raises(StructureMismatch, match="the priors of 'topics' differ"):
        db.merge(priors)
