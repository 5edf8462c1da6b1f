"""Simulated plans: ranks of the truth are level where posteriors are exact, and work goes on where it ended."""

from dataclasses import replace

import numpy as np
import pytest

import decbayes as db
from decbayes.calibration import advice
from decbayes.calibration.plans import PlanReport
from decbayes.calibration.trials import BARS, DRAWS, Trial, beside, covered_by, placed, ranked, trial
from decbayes.errors import NotCalibrated

# Its merge is exact, so that intervals hold the truth as often as they say.
EXACT = db.checking.Plan(db.models.GaussianMean(dimension=2, variance=1.0, prior_variance=4.0), sites=3, observations=5)
CLUSTERS = db.GaussianMixture(2, 1, variance=0.25, prior_variance=25.0, weight_prior=20.0, ascent=db.Ascent(restarts=1))


@pytest.fixture(scope="module")
def exact():
    return db.checking.try_plan(EXACT, data_sets=150)


def test_ranks_are_level_and_intervals_hold_where_the_merge_is_exact(exact):
    counts = np.array(exact.ranks["mean"])
    assert counts.sum() == 150 * 2
    # χ² of 19 degrees of freedom: below 43.8 in 999 of 1,000 cases.
    assert ((counts - 15.0) ** 2 / 15.0).sum() < 43.8
    covered, lower, upper = exact.coverage["mean"]
    assert lower < 0.9 < upper < lower + 0.1
    assert exact.gap[0] == pytest.approx(0.0, abs=1e-9)
    assert exact.at_once["mean"][0] == pytest.approx(covered, abs=0.05)
    assert "its intervals can be used" in advice(EXACT, exact)


def test_a_posterior_that_is_too_sure_is_found_out(exact, monkeypatch):
    """The same merge with four times the evidence it has: 90 % intervals hold the truth in 59 % of cases."""
    merged = db.merging.Alignment.merged

    def boastful(found):
        honest = merged(found)
        return db.Posterior(honest.structure, {"mean": 4.0 * honest.contribution["mean"]})

    monkeypatch.setattr(db.merging.Alignment, "merged", boastful)
    plan = replace(EXACT, model=replace(EXACT.model, prior_variance=400.0))
    report = db.checking.try_plan(plan, data_sets=150)
    _, lower, upper = report.coverage["mean"]
    assert lower < 0.59 < upper < lower + 0.15
    ends = sum(report.ranks["mean"][0::19])
    assert ends > 3 * sum(exact.ranks["mean"][0::19])
    assert "too narrow" in advice(plan, report)


def test_intervals_of_ranks_hold_exactly_their_share():
    ranks = {"x": np.arange(DRAWS + 1)}
    assert covered_by(ranks, 0.9) == {"x": 0.9}
    assert covered_by(ranks, 0.5) == {"x": 0.5}


def test_improbable_values_count_neither_before_nor_after_calibration(monkeypatch):
    """What is left out of the one coverage is left out of the other, so that the two can be compared."""
    plan, rng = db.checking.Plan(CLUSTERS, sites=2, observations=40), np.random.default_rng
    both = trial(plan, rng(0))
    assert both.covered.keys() == both.covered_calibrated.keys() == {"components", "weights"}
    monkeypatch.setattr("decbayes.calibration.trials.likely", lambda family, values: np.zeros(np.shape(values), bool))
    neither = trial(plan, rng(0))
    assert neither.covered == neither.covered_calibrated == {}


def test_what_is_done_is_not_done_again(exact):
    told = []
    half = db.checking.try_plan(EXACT, data_sets=20)
    whole = db.checking.try_plan(EXACT, data_sets=30, done=half.trials, progress=told.append)
    assert len(told) == 10
    assert whole.trials == exact.trials[:30]


def test_components_are_put_beside_the_true_ones(rng):
    """Whatever the order of the posterior's components."""
    parameters = {"weights": np.array([0.3, 0.7]), "components": np.array([[4.0], [-4.0]])}
    data, labels = CLUSTERS.draw(parameters, 100, rng)
    posterior = CLUSTERS.from_assignments(data, 1 - labels)
    assert beside(posterior, parameters).tolist() == [1, 0]
    assert beside(CLUSTERS.from_assignments(data, labels), parameters).tolist() == [0, 1]


def test_matches_of_clusters_far_apart_are_right(rng):
    plan = db.checking.Plan(CLUSTERS, sites=3, observations=40)
    report = db.checking.try_plan(plan, data_sets=8)
    assert report.right[0] > 0.9
    assert report.matches().right.mean() == pytest.approx(report.right[0], abs=0.05)
    assert all(0.0 <= said <= 1.0 for said, _, _ in report.reliability())
    one = trial(replace(plan, sites=1), rng)
    assert one.matches["right"] == []


def test_topics_are_planned_by_words_and_rounds_go_through(rng):
    model = db.LatentDirichletAllocation(2, tuple("abcdefgh"), topic_prior=0.5)
    one = trial(db.checking.Plan(model, sites=2, observations=10, rounds=1, drawing={"length": 20}), rng)
    assert set(one.covered) == {"topics"}
    assert len(one.ranks["topics"]) == BARS


def test_advice_names_what_is_wrong():
    plan = db.checking.Plan(CLUSTERS, sites=50, observations=8)
    matches = {name: [] for name in ("margins", "evidence", "losses", "overlaps", "right", "nowhere")} | {
        "right": [0.0, 1.0]
    }

    def told(covered, at_once, gap, plan=plan, calibrated=None):
        wide = {} if calibrated is None else {"x": calibrated}
        each = Trial({"x": [1] * BARS}, {"x": covered}, {"x": at_once}, gap, matches, wide)
        return advice(plan, PlanReport((each,) * 40, 0.9))

    text = told(0.3, 0.8, 0.5)
    assert text.startswith("With 50 sites of 8 observations: ")
    assert "too narrow; refine (--rounds), or fewer, larger sites" in text
    assert "50% of matches are wrong" in text
    assert "0.50 nat worse than one fit of all data; refine" in text
    assert "so are those of one fit of all data (31%)" in told(0.3, 0.31, 0.0)
    assert "more rounds" in told(0.3, 0.8, 0.5, replace(plan, rounds=3))
    assert "calibrate them after the merge" in told(0.7, 0.7, 0.0, calibrated=0.89)
    assert "then 89% contain the truth" in told(0.7, 0.7, 0.0, calibrated=0.89)


def test_calibrated_intervals_of_a_plan_are_wider(rng):
    """Two clusters that overlap: the truth is drawn from a posterior that knows where they are."""
    model = db.GaussianMixture(2, dimension=1, variance=0.25, prior_variance=4.0, ascent=db.Ascent(restarts=1))
    points = rng.normal(np.array([-0.7, 0.7])[rng.integers(2, size=(4000, 1))], 0.5)
    plan = db.checking.Plan(model, sites=2, observations=100, truth=model.fit(points, rng=rng).posterior)
    report = db.checking.try_plan(plan, data_sets=12)
    assert report.calibrated.keys() == report.coverage.keys()
    assert report.calibrated["components"][0] > report.coverage["components"][0]


def test_transitions_are_put_beside_the_true_ones_by_rows_and_columns(rng):
    model = db.HiddenMarkov(states=2, columns={"x": db.columns.Gaussian(0, 1)})
    posterior = db.Posterior.of_prior(model.structure)
    values = np.array([[0.9, 0.1], [0.2, 0.8]])
    np.testing.assert_array_equal(placed(posterior, "transitions", values, np.array([1, 0])), [[0.8, 0.2], [0.1, 0.9]])


@pytest.mark.parametrize(
    "change",
    [
        {"sites": 0},
        {"observations": 1.5},
        {"rounds": -1},
        {"level": 1.0},
        {"model": replace(CLUSTERS, components="auto")},
    ],
)
def test_plans_that_make_no_sense_are_refused(change):
    with pytest.raises(ValueError, match=r"sites|observations|rounds|level|auto"):
        replace(EXACT, **change)


def test_what_cannot_be_simulated_is_said_before_the_work():
    with pytest.raises(NotCalibrated, match="cannot be simulated"):
        db.checking.try_plan(replace(EXACT, drawing={"length": 20.0}), data_sets=1)


def test_ranks_do_not_depend_on_the_posteriors_labels(rng):
    parameters = {"weights": np.array([0.3, 0.7]), "components": np.array([[4.0], [-4.0]])}
    data, labels = CLUSTERS.draw(parameters, 100, rng)
    for own in (labels, 1 - labels):
        ranks = ranked(CLUSTERS.from_assignments(data, own), parameters, np.random.default_rng(0))
        assert 0 < ranks["components"].min() <= ranks["components"].max() < DRAWS
