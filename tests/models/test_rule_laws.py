"""Rules that models keep, each with cases on both sides of it: names in formulas, times at risk, classes and cells."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.special import digamma
from test_term_laws import COLUMNS, TERMS

import decbayes as db
from decbayes.errors import InvalidData, InvalidStructure, NotPrivate
from decbayes.models.core.counts import as_counts
from decbayes.models.mixtures import histogram
from decbayes.models.regressions.formulas.term_factors import factor_of
from decbayes.models.regressions.logistic import Logistic
from decbayes.models.regressions.negative_binomial import NegativeBinomial
from decbayes.models.regressions.poisson import PoissonOutcome
from decbayes.models.regressions.rows.stacking import Intervals
from decbayes.models.tables.profiles import standing_out
from decbayes.models.topics import _cpu_climb
from decbayes.models.topics._cpu_climb import TopicState
from decbayes.models.topics._fitting import topics_at
from decbayes.models.topics._topic_moves import ExpectedCounts, TopicMoves
from decbayes.models.topics.finding import find
from decbayes.models.topics.rare_words import places_by_use
from decbayes.privacy.mechanism import Total


@pytest.mark.parametrize("text", [*TERMS, "C(w, ref='b')", "bs(x, knots=(9.0, 12.0), degree=2)"])
def test_names_with_spaces_make_the_same_terms(text):
    """`the x` in place of x: the same numbers, units and bounds, under that name."""
    other = {name: f"the {name}" for name in COLUMNS}
    written = "".join(f"`{other[part]}`" if part in COLUMNS else part for part in _parts(text))
    one = factor_of(text, COLUMNS)
    written = written.strip("`") if text in COLUMNS else written
    two = factor_of(written, {other[name]: column for name, column in COLUMNS.items()})
    assert two.names == tuple(other[name] for name in one.names)
    assert (two.flag, two.categorical, two.unit) == (one.flag, one.categorical, one.unit)
    values = {name: np.array([0.0, 1.0, 1.0]) if name in "sw" else np.array([8.0, 10.5, 13.0]) for name in one.names}
    for whole in (False, True):
        found = two.numbers({other[name]: column for name, column in values.items()}, whole=whole)
        np.testing.assert_array_equal(found, one.numbers(values, whole=whole))
        assert all("the " in label for label in two.labels(whole=whole))
    assert one.flag == (one.names[0] in "sw")


def _parts(text):
    parts = [""]
    for letter in text:
        if letter.isalnum() != parts[-1][-1:].isalnum():
            parts.append("")
        parts[-1] += letter
    return parts


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("bs(x, df=3)", ""), ("bs(x, df=2)", "from 3 to 50"), ("bs(x, df=50)", ""), ("bs(x, df=51)", "from 3 to 50"),
        ("bs(x, df=1, degree=1)", ""), ("bs(x, df=0, degree=1)", "from 1 to 50"), ("ns(x, df=1)", ""),
        ("ns(x, df=0)", "from 1 to 50"), ("bs(x, df=five)", "of the form bs"), ("bs(x, df='five')", "integer"),
        ("bs(x, knots=(9.0, 9.0))", "knots must increase"), ("bs(x, knots=(16.0,))", "knots must increase"),
        ("ns(x, bounds=(12.0, 9.0))", "knots must increase"), ("bs(x, bounds=9.0)", "bounds must be numbers"),
        ("poly(x, 0)", "poly"), ("C(x)", "categorical column"), ("C(w, ref='z')", "z"), ("log(w)", "no numbers"),
        ("log(q)", "needs a column 'q'"), ("I(x +)", "not a formula"), ("I(x if z else n)", "more than a formula"),
        ("I(True * x)", "more than a formula"), ("log(x, z)", "more than a formula"), ("I(x % z)", "more than"),
        ("I(-x + z ^ 2)", ""), ("I(+x)", ""), ("C(q)", "categorical column"), ("C(w)", ""),
    ],
)  # fmt: skip
def test_terms_are_refused_for_what_is_wrong_with_them(text, wrong):
    if wrong:
        with pytest.raises(InvalidStructure, match=wrong):
            factor_of(text, COLUMNS)
    else:
        factor_of(text, COLUMNS)


@pytest.mark.parametrize(
    ("start", "stop", "wrong"),
    [([0.0, 1.0], [1.0, 2.0], 0), ([-0.1, 0.0], [1.0, 2.0], 1), ([1.0, 0.0], [1.0, np.inf], 2), ([0, 0], [0, 1e-9], 1)],
)
def test_everybody_has_some_time_at_risk(start, stop, wrong):
    intervals = Intervals("t", "s", (1.0,), 0.5)
    values = {"t": np.array(stop), "s": np.array(start)}
    if wrong:
        with pytest.raises(InvalidData, match=f"^{wrong} of 2 rows have no time at risk"):
            intervals.rows(np.ones(2), values)
        return
    rows = intervals.rows(np.ones(2), values)
    np.testing.assert_array_equal(rows.observation, [0, 1])
    np.testing.assert_array_equal(rows.target, [1.0, 1.0])


def test_what_stands_out_is_furthest_from_the_others_in_its_own_deviations():
    columns = {"a": db.columns.Gaussian(0, 10), "b": db.columns.YesNo(), "c": db.columns.Gaussian(0, 1)}
    means = {("c", ""): np.array([1.0, 0.0]), ("a", ""): np.array([0.0, 4.0]), ("b", ""): np.array([0.9, 0.1])}
    weights = np.array([0.5, 0.5])
    assert [text.split()[0] for text in standing_out(columns, means, weights, 0)] == ["b", "c", "a"]
    assert "90%" in standing_out(columns, means, weights, 0)[0]
    means["a", ""] = np.array([-90.0, 90.0])
    assert standing_out(columns, means, weights, 1)[0].startswith("a 90")


def test_words_are_divided_among_topics_as_the_posterior_says(rng):
    """n_dw times the softmax over topics of ψ(α_wk) − ψ(Σ_w α_wk) + ψ(γ_dk), one word of one document at a time."""
    documents = rng.integers(0, 4, size=(5, 6))
    model = db.LatentDirichletAllocation("auto", tuple("abcdef"), topic_prior=0.3)
    counts = as_counts(documents, 6)
    moves = TopicMoves(model, counts, topics_at(db.Posterior.of_prior(model.structure), counts), rng)
    words, gamma = rng.gamma(1.0, [1.0, 5.0, 25.0], size=(6, 3)), rng.gamma(1.0, size=(5, 3)) + 0.1
    found = [part.toarray() for part in moves._words_by_topic(ExpectedCounts(words, gamma))]
    for document in range(5):
        for word in range(6):
            alpha = words[word] + 0.3
            weights = np.exp(digamma(alpha) - digamma((words + 0.3).sum(axis=0)) + digamma(gamma[document]))
            expected = documents[document, word] * weights / weights.sum()
            np.testing.assert_allclose([part[document, word] for part in found], expected)


@pytest.mark.parametrize("passes", [0, 1])
def test_a_batch_counts_the_less_the_later_it_comes(passes, monkeypatch):
    """(1 + t)^−0.6 of all that is known, t counted on from pass to pass; an empty batch changes nothing."""
    monkeypatch.setattr(_cpu_climb, "bound_of_topics", lambda topics, before: 100.0)
    sizes, watched = [4, 0, 4, 2], []

    class Documents:
        def __len__(self):
            return 14

        def span(self, span):
            return SimpleNamespace(tokens=sizes[span.start // 4], first=span.start)

    search = SimpleNamespace(
        counts=Documents(), ascent=SimpleNamespace(batch=4), watch=watched.append,
        before=SimpleNamespace(plus=lambda statistics: statistics),
        _of_batch=lambda statistics, tables, part: (np.full(2, 10.0 + part.first), np.full(2, 1.0 * part.first), 3.0),
        _steps=lambda tables: tables, _log_density=lambda steps: float(steps[0]),
    )  # fmt: skip
    begun = TopicState(np.ones(2), np.zeros(0), passes=passes, tables=np.full(2, 5.0))
    state, bound = _cpu_climb.TopicSearch._in_batches(search, begun)
    statistics, tables = 1.0, 5.0
    for number, size in enumerate(sizes):
        if size:
            share = (1.0 + 4 * passes + number) ** -0.6
            statistics = (1 - share) * statistics + share * (10.0 + 4 * number)
            tables = (1 - share) * tables + share * 4 * number
    np.testing.assert_allclose(state.statistics, statistics)
    np.testing.assert_allclose(state.tables, tables)
    assert bound == pytest.approx(3 * 3.0 + 100.0 + tables)
    assert (state.passes, watched) == (passes + 1, [4, 8, 12, 14])


def test_private_classes_and_clusters_count_their_free_numbers():
    """Weights add up to one, and so do the categories of each column; a cluster has its features beside its weight."""
    classes = db.CategoricalMixture(3, dimension=3, categories=[2, 3, 4]).mechanism()
    assert classes.parameters == 2 + 3 * (1 + 2 + 3)
    assert classes.size(0) == 2 * 3 + 2 * 4 + 3 * 4
    assert classes.size(1) == 3 * (1 + 1 + 2 + 3)
    for covariance, each in (("full", 2 + 3 + 1), ("diagonal", 2 + 2 + 1), ("spherical", 2 + 1 + 1)):
        plane = db.GaussianMixture(3, 2, covariance=covariance, prior_scale=0.25, prior_strength=0.0625).mechanism()
        assert (plane.parameters, plane.size(0)) == (3 * each - 1, 16**2)


@pytest.mark.parametrize(
    ("heights", "number"),
    [
        ([0, 900, 950, 951, 952], 3),
        ([0, 900, 910, 920, 930], 2),
        ([0, 1, 2, 900, 900, 900, 900], 1),
        ([500 * n for n in range(14)], 10),
        ([0], 1),
    ],
)
def test_the_number_of_clusters_is_worth_its_price(heights, number, monkeypatch):
    """Heights over 1 + σ² · cells / rows, less ½ log(rows) for each number; two worse ones end the search."""
    mechanism = db.GaussianMixture(2, 1, variance=1.0, prior_variance=9.0).mechanism()
    tried = []

    def fitted(self, clusters):
        tried.append(clusters)
        return histogram.CellFit({}, 0.0, np.zeros(0), float([*heights, *heights[-1:] * 20][clusters - 1]))

    monkeypatch.setattr(histogram.CellGrid, "fit", fitted)
    total = Total(np.full(16, 100.0), 5.0, None, 1)  # 1600 rows: evidence counts 1 / 1.25, a cluster costs 3 · 3.69
    assert mechanism.best_number([total]) == number
    worth = [heights[min(n, len(heights) - 1)] / 1.25 - 0.5 * (n + 1) * 3 * np.log(1600.0) for n in range(14)]
    assert int(np.argmax(worth[: len(tried)])) + 1 == number
    assert tried == list(range(1, min(number + 2, 10) + 1))


@pytest.mark.parametrize(
    ("count", "share", "held"), [(2, 0.99, 1), (2, 0.01, 1), (1, 0.5, 0), (100, 0.05, 5), (3, 0.9, 2), (10, 0.0, 0)]
)
def test_some_are_held_back_and_some_are_kept(count, share, held):
    kept, back = db.checking.hold_back(
        db.models.GaussianMean(variance=1.0), np.arange(float(count))[:, None], share=share
    )
    assert (len(kept), len(back)) == (count - held, held)
    assert sorted([*kept[:, 0], *back[:, 0]]) == list(range(count))


@pytest.mark.parametrize("cuts", [(), (1.0, 4.0)])
def test_persons_are_followed_for_twice_the_last_cut_or_twice_the_time_an_event_takes(cuts):
    columns = {"y": db.columns.YesNo(), "t": db.columns.Gaussian(2.0, 1.0), "a": db.columns.YesNo()}
    model = db.SurvivalRegression(
        "y", columns=columns, time="t", cuts=cuts, rate=0.25, terms=("a",), prior_variance=1e-6
    )
    rows = db.simulate(model, 4000, rng=1).data
    time, died = rows[:, 1], rows[:, 0] == 1
    assert 7.8 < time.max() <= 8.0
    assert time[~died].min() >= 2.0
    assert time[died].min() < 0.05
    # Until 2 nobody is lost: events happen at the rate of 0.25.
    assert np.mean(time < 2.0) == pytest.approx(1 - np.exp(-0.5), abs=0.03)


def test_few_events_have_one_hazard(rng):
    """Without cuts a survival regression is that of a constant hazard: d / T, as the prior hardly says anything."""
    frame = {"days": rng.exponential(5.0, 40) + 0.1, "died": np.arange(40) < 9, "sex": np.repeat(["f", "m"], 20)}
    model = db.SurvivalRegression.from_frame(frame, "Surv(days, died) ~ sex", prior_variance=100.0)
    assert model.cuts == ()
    assert [row["term"] for row in model.coefficients(model.fit(frame).posterior)] == ["interval=from 0", "sex=m"]
    (hazard,) = model.baseline(model.fit(frame).posterior)
    assert hazard["hazard"] == pytest.approx(9 / frame["days"][:20].sum(), rel=0.1)


def test_rare_words_keep_their_order_however_documents_are_divided(rng):
    counts, rare = csr_array(rng.poisson(0.3, size=(30, 12))), np.arange(12) % 3 == 0
    whole = places_by_use([counts], rare)
    np.testing.assert_array_equal(places_by_use([counts[:11], counts[11:12], counts[12:]], rare), whole)
    np.testing.assert_array_equal(whole[~rare], np.flatnonzero(~rare))
    moved = counts.toarray()[:, np.argsort(whole)][:, rare]
    uses = [[(row, number) for row, number in enumerate(column) if number] for column in moved.T]
    assert uses == sorted(uses)


def test_what_cannot_be_is_refused_when_a_model_is_made():
    columns = {"a": db.columns.Gaussian(0, 1), "y": db.columns.YesNo()}
    with pytest.raises((ValueError, InvalidStructure), match="laplace"):
        db.LogisticRegression("y", columns=columns, approximation="exact")
    with pytest.raises((ValueError, InvalidStructure), match="one column or more"):
        db.LatentClasses(2, columns={})
    for wrong in (0, -1, 1.5):
        for make in (lambda n: db.LatentClasses(n, columns=columns), lambda n: db.HiddenMarkov(n, columns=columns)):
            with pytest.raises((ValueError, InvalidStructure)):
                make(wrong)


def test_a_merge_without_documents_has_no_topic_to_be_found():
    model = db.LatentDirichletAllocation(2, ("a", "b"))
    assert find(db.Posterior.of_prior(model.structure), ["a"]) == []
    assert db.LatentDirichletAllocation(2, ("a", "b"), seeds="").fit(np.ones((4, 2), dtype=int), rng=0).converged


@pytest.mark.parametrize("outcome", [Logistic(), PoissonOutcome(), NegativeBinomial(2.0)])
def test_the_most_improbable_outcome_has_a_logarithm(outcome):
    """Without an overflow or the logarithm of zero, and never above that of the more probable one."""
    mean, variance = np.array([-300.0, 40.0, 0.0]), np.array([1e-9, 1e-9, 25.0])
    yes, no = (outcome.log_density(None, mean, variance, np.full(3, target)) for target in (1.0, 0.0))
    assert np.isfinite([yes, no]).all()
    assert yes[0] == pytest.approx(-300.0, rel=0.02)
    assert no[1] < -35.0


@pytest.mark.parametrize("kind", [db.LogisticRegression, db.PoissonRegression])
def test_rows_come_near_the_most_that_a_site_may_contribute(kind):
    """Precision of rows at the ends of their range, where outcomes are as uncertain as can be: above half of it."""
    columns = {"a": db.columns.Gaussian(0, 1), "y": kind.outcome.holds()}
    model = kind("y", columns=columns, prior_variance=1e-6 if kind is db.LogisticRegression else 4.0)
    targets = np.repeat([0.0, 1.0], 50) if kind is db.LogisticRegression else np.full(100, 3.0)
    rows = np.column_stack([np.tile([-3.0, 3.0], 50), targets])
    seen = np.abs(model.fit(rows).posterior.contribution["coefficients"][0, 2:])
    most = 100 * model.largest_contribution(3.0)["coefficients"][0, 2:]
    assert (seen <= most * (1 + 1e-9)).all()
    assert seen[3] > 0.6 * most[3]


def test_a_box_is_refused_where_cells_would_hide_clusters():
    """Six deviations of means in sixteen cells: one cell may be two deviations of a cluster wide."""
    for wide, refused in ((5.3, False), (5.4, True)):
        model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=wide**2)
        if refused:
            with pytest.raises(NotPrivate, match="lost in its cells"):
                model.mechanism()
        else:
            mechanism = model.mechanism()
            np.testing.assert_allclose([mechanism.low, mechanism.high], [[-3 * wide], [3 * wide]])
