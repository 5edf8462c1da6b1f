"""What is refused, and why: one call on the wrong side of each rule, and one on the right side."""

import ast

import numpy as np
import pytest
from scipy.sparse import csr_array

import decbayes as db
from decbayes.errors import InvalidData, InvalidStructure, NotCalibrated, NothingToMerge, StructureMismatch
from decbayes.families import Dirichlets, Wishart
from decbayes.families.dirichlets.relevance import leading
from decbayes.families.matrices import split
from decbayes.merging.base import problem
from decbayes.models.core import information, registry
from decbayes.models.core.persons import Persons
from decbayes.models.core.settings import agreed_fields
from decbayes.models.covariates.topic_effects import check_enough
from decbayes.models.regressions.formulas.expressions import combined, range_of
from decbayes.models.regressions.messages.doubts import MANY_ROWS, separated
from decbayes.models.tables.tabular import kinds_from
from decbayes.models.topics.rare_words import spread_rare_counts
from decbayes.models.topics.sources import text_source

COLUMNS = {"y": "yes/no", "x": "real", "t": "real"}
FRAME = {
    "y": [True, False] * 20,
    "x": np.linspace(0.0, 3.0, 40),
    "t": np.linspace(1.0, 9.0, 40),
    "g": ["a", "b", "c", "a"] * 10,
}
WORDS = ("ball", "goal", "team", "vote", "party", "law")
COUNTS = np.array([[5, 4, 3, 0, 0, 0], [0, 0, 0, 4, 5, 3]] * 20)
SURVIVAL = db.SurvivalRegression("y", columns=COLUMNS, time="t", cuts=(2.0, 5.0))


@pytest.fixture(scope="module")
def topics():
    return db.LatentDirichletAllocation(2, WORDS, ascent=db.Ascent(restarts=0, passes=5)).fit(COUNTS, rng=0).posterior


@pytest.fixture(scope="module")
def clusters():
    model = db.GaussianMixture(3, 1, variance=1.0, prior_variance=100.0)
    return model.fit(np.array([[-9.0], [0.0], [9.0]]), rng=0).posterior


def survival(**changed):
    return db.SurvivalRegression("y", columns=COLUMNS, **{"time": "t", **changed})


def linear(*, columns=(), **settings):
    return db.LinearRegression("t", columns={"t": "real", "x": "real", "y": "yes/no", **dict(columns)}, **settings)


REGRESSIONS = {
    "weights that are no column": (lambda: linear(weights="w"), "needs a column 'w'"),
    "weights of yes or no": (lambda: linear(weights="y"), "must be a column of numbers"),
    "nothing to predict from": (
        lambda: db.LinearRegression("t", columns={"t": "real"}, intercept=False),
        "needs an intercept",
    ),
    "a formula as target": (lambda: db.LinearRegression("t ~ x", columns={"t": "real"}), "This is a formula"),
    "an unknown target": (lambda: db.LinearRegression("z", columns={"t": "real"}), "Say what it holds"),
    "no time": (lambda: survival(time=""), "Name the column with the time"),
    "an event that is a number": (lambda: db.SurvivalRegression("x", columns=COLUMNS, time="t"), "is real"),
    "an event of a frame that is a number": (
        lambda: db.SurvivalRegression.from_frame(FRAME, "Surv(t, x) ~ g"),
        "is not yes/no",
    ),
    "a column named interval": (
        lambda: db.SurvivalRegression("y", columns={**COLUMNS, "interval": "real"}, time="t", cuts=(2.0,)),
        "Rename the column",
    ),
    "nothing asked for": (lambda: db.LinearRegression.from_frame(FRAME), "Say what to predict"),
    "an answer that is no category": (
        lambda: db.LogisticRegression.from_frame(FRAME, "g ~ x", yes="z"),
        "no category 'z'",
    ),
    "an answer of yes or no": (lambda: db.LogisticRegression.from_frame(FRAME, "y ~ x", yes="z"), "no category 'z'"),
    "a site as a term": (lambda: db.LinearRegression.from_frame(FRAME, "t ~ x + site"), "site"),
    "sequences of no column": (
        lambda: db.HiddenMarkov.from_frame(FRAME, sequences="nobody", states=2),
        "no column 'nobody'",
    ),
    "times below zero": (lambda: predicted(times=[-1.0]), "at least 0"),
    "no times": (lambda: predicted(times=[]), "at least 0"),
    "times in rows": (lambda: predicted(times=[[1.0]]), "at least 0"),
    "events that are counts": (
        lambda: SURVIVAL.fit(np.column_stack([[2.0, 0.0], [1.0, 1.0], [3.0, 4.0]])),
        "must be yes or no",
    ),
    "predictions without cuts": (
        lambda: survival().predict(db.Posterior.of_prior(survival().structure), {"x": [1.0]}),
        "no last time",
    ),
}


def predicted(**given):
    return SURVIVAL.survival(db.Posterior.of_prior(SURVIVAL.structure), {"x": [1.0]}, **given)


@pytest.mark.parametrize("what", REGRESSIONS)
def test_regressions_refuse(what):
    call, wrong = REGRESSIONS[what]
    with pytest.raises((InvalidStructure, InvalidData, ValueError), match=wrong):
        call()


def test_regressions_of_the_right_kind_are_made():
    assert linear(weights="x").weights == "x"
    assert db.LogisticRegression.from_frame(FRAME, "g ~ x", yes="b").columns["g"].categories[:2] == ("b", "a")
    assert predicted(times=[0.0])["mean"][0, 0] == 1.0
    assert predicted()["mean"].shape == (1, 2)


TEXTS = {
    "two questions": (lambda posterior: db.texts.find(posterior, ["ball"], like=1), "one of the three"),
    "no question": (lambda posterior: db.texts.find(posterior), "one of the three"),
    "unknown words": (lambda posterior: db.texts.find(posterior, ["z", "y"]), "None of these words is"),
    "an unknown word": (lambda posterior: db.texts.find(posterior, ["z"]), "This word is not"),
    "a topic that is not there": (lambda posterior: db.texts.find(posterior, like=2), "no topic 2"),
    "a topic below zero": (lambda posterior: db.texts.find(posterior, like=-1), "no topic -1"),
    "periods of other documents": (
        lambda posterior: db.texts.prevalence(posterior, COUNTS, periods=["x"]),
        "1 periods and 40",
    ),
    "a document of other words": (
        lambda posterior: db.texts.find(posterior, document="zebra yak"),
        "no word of the voc",
    ),
    "no files": (lambda posterior: text_source([]), "Name the files"),
    "no posteriors": (lambda posterior: db.texts.with_priors([], topic_prior=0.1), "no posteriors"),
    "seeds that are a list": (
        lambda posterior: db.LatentDirichletAllocation(2, WORDS, seeds=["a"]),
        "must be a string",
    ),
    "shares of another format": (
        lambda posterior: db.texts.Prevalence.of_plain({"format": 0, "posterior": "", "groups": []}),
        "does not hold",
    ),
    "no documents": (
        lambda posterior: db.texts.Quality(posterior).co_occurrence([COUNTS[:0]]).coherence(),
        "no documents",
    ),
}


@pytest.mark.parametrize("what", TEXTS)
def test_topics_refuse(what, topics):
    call, wrong = TEXTS[what]
    with pytest.raises((InvalidData, InvalidStructure, NothingToMerge, ValueError), match=wrong):
        call(topics)


def test_shares_of_topics_add_up_for_one_merge_alone(topics):
    one = db.texts.prevalence(topics, COUNTS, site="one")
    other = db.LatentDirichletAllocation(2, WORDS).fit(COUNTS[:9], rng=1).posterior
    with pytest.raises(StructureMismatch, match="other topics"):
        one + db.texts.prevalence(other, COUNTS, site="two")
    with pytest.raises(StructureMismatch, match="given twice"):
        one + db.texts.prevalence(topics, COUNTS, site="one")
    both = one + db.texts.prevalence(topics, COUNTS[:5], site="two")
    assert both.sites == ["one", "two"]
    assert db.texts.Prevalence(topics.digest, {}).rows(topics) == []


def test_topics_of_a_document_are_found_by_its_shares(topics):
    document = np.array([[2, 0, 1, 0, 0, 0]])
    shares = registry.model_for(topics.structure).assign(topics, document)[0]
    found = {row["topic"]: row["score"] for row in db.texts.find(topics, document="ball zebra team ball")}
    assert found == pytest.approx(dict(enumerate(shares)))


def test_estimates_have_moved_by_as_many_deviations_as_the_one_that_moved_most(topics):
    years = {"year": np.arange(40) % 7}
    north = db.texts.effects(topics, COUNTS, years, "year", site="north")
    south = db.texts.effects(topics, COUNTS[:13], {"year": years["year"][:13]}, given=north, site="south")
    (before, _), (after, covariance) = north.estimate(topics), (north + south).estimate(topics)
    moves = [abs(now - then) / covariance[k, k] ** 0.5 for k, (now, then) in enumerate(zip(after, before, strict=True))]
    assert (north + south).moved(north, topics) == pytest.approx(max(moves))
    assert max(moves) > 0.0


def test_a_fit_of_any_number_of_topics_has_those_of_its_start(topics):
    model = db.LatentDirichletAllocation("auto", WORDS, ascent=db.Ascent(restarts=0, passes=3))
    assert model.fit(COUNTS, rng=0, start=topics).posterior.mean("topics").shape == (2, 6)


def test_counts_without_rare_words_stay(rng):
    counts = rng.poisson(2.0, (3, 5)) * 1.0
    found = spread_rare_counts(csr_array(counts), np.zeros(5, dtype=bool), np.ones(5))
    np.testing.assert_array_equal(found.toarray(), counts)


@pytest.mark.parametrize(
    ("call", "wrong"),
    [
        (lambda clusters: db.merging.join(clusters, 1), "at least two components"),
        (lambda clusters: db.merging.join(clusters, 1, 1), "at least two components"),
        (lambda clusters: db.merging.join(clusters, 0, 3), "no component 3"),
        (lambda clusters: db.merging.join(clusters, -1, 2), "no component -1"),
        (lambda clusters: db.merging.join(clusters, True, 2), "no component True"),
        (lambda clusters: db.merging.join(clusters, 0.0, 2), "no component 0.0"),
        (
            lambda clusters: db.merging.drop(db.models.GaussianMean(variance=1.0).fit(np.ones((3, 1))).posterior, 0),
            "Only topics",
        ),
    ],
)
def test_edits_refuse(call, wrong, clusters):
    with pytest.raises(StructureMismatch, match=wrong):
        call(clusters)
    assert len(db.merging.join(clusters, np.int64(0), 2).posterior.mean("components")) == 2


class Plain:
    """A likelihood that is no dataclass."""

    def __init__(self, **fields):
        self.__dict__.update(fields)


@pytest.mark.parametrize(
    ("call", "error", "wrong"),
    [
        (lambda: Dirichlets((2, 3)).dimension(4), ValueError, "has 5 columns; got 4"),
        (lambda: Wishart().dimension(1), ValueError, "got 1"),
        (lambda: Wishart().dimension(6), ValueError, "got 6"),
        (lambda: split(np.ones((2, 5)), 2), ValueError, "not 2 blocks"),
        (lambda: registry.name_of(Plain), TypeError, "register takes a class"),
        (lambda: registry.name_of(db.GaussianMixture(2, 1)), TypeError, "register takes a class"),
        (lambda: registry.name_of(db.GaussianMixture), ValueError, "ships a model"),
        (lambda: problem.name_of(Plain), TypeError, "method `solve`"),
        (lambda: problem.name_of(db.solvers.Matching()), TypeError, "method `solve`"),
        (lambda: problem.name_of(type("Matching", (db.solvers.Swaps,), {})), ValueError, "already a solver"),
        (lambda: kinds_from("age"), InvalidData, "COLUMN=KIND"),
        (lambda: kinds_from("age=real,=real"), InvalidData, "COLUMN=KIND"),
        (lambda: kinds_from("age="), InvalidData, "COLUMN=KIND"),
        (lambda: agreed_fields(Plain(r=2.0)), InvalidStructure, "holds r"),
        (lambda: check_enough(0, 2, 0, Persons()), InvalidData, "No document"),
        (lambda: check_enough(9, 2, 5, Persons()), InvalidData, "at least 5"),
        (lambda: information.finite_root(np.array([[np.inf]])), NotCalibrated, "too large"),
    ],
)
def test_parts_refuse(call, error, wrong):
    with pytest.raises(error, match=wrong):
        call()


def test_parts_take_what_they_can():
    assert (Dirichlets((2, 3)).dimension(5), Wishart().dimension(5), Wishart().dimension(2)) == (5, 2, 1)
    assert [part.shape for part in split(np.ones((2, 6)), 3)] == [(2, 2)] * 3
    assert problem.name_of(db.solvers.Matching) == "matching"
    assert kinds_from("age=real, sex = yes/no") == {"age": "real", "sex": "yes/no"}
    assert agreed_fields(Plain()) == {}
    check_enough(10, 2, 5, Persons())
    assert leading(np.ones((3, 4)), 0).shape == (3, 0)
    assert Persons.joined([(Persons(), 3), (Persons(), 2)]).numbers is None
    rows = np.column_stack([np.ones(MANY_ROWS + 1), np.arange(MANY_ROWS + 1.0)])
    sides = rows[:, 1] > 100
    assert separated(rows[:MANY_ROWS:50], sides[:MANY_ROWS:50] * 1.0)
    assert not separated(rows, sides * 1.0)


def test_ranges_of_roots_begin_at_zero_and_those_of_no_number_are_anything():
    assert combined(ast.Pow, (-2.0, 9.0), (0.5, 0.5)) == (0.0, 3.0)
    assert combined(ast.Pow, (-2.0, -1.0), (0.5, 0.5)) == (0.0, 0.0)
    assert range_of([1.0, np.nan]) == (-np.inf, np.inf)
    assert range_of([3.0, -1.0, 2.0]) == (-1.0, 3.0)


def test_parameters_whose_matrix_is_too_large_are_not_kept(monkeypatch, clusters):
    size = sum(prior.size for prior in clusters.structure.prior.values())
    monkeypatch.setattr(information, "MOST_PARAMETERS", size)
    assert information.size_of(clusters.structure) == size
    monkeypatch.setattr(information, "MOST_PARAMETERS", size - 1)
    with pytest.raises(NotCalibrated, match="bootstrap"):
        information.size_of(clusters.structure)
