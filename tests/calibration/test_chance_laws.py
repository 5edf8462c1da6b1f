"""How far equal sites differ by chance: what is made of simulated spreads and of rows, against plain sums."""

from dataclasses import replace

import numpy as np
import pytest

import decbayes as db
from decbayes.base.tensors import write_arrays
from decbayes.calibration.differences import chance_of, in_slots_of, usual_spread
from decbayes.calibration.plans import PlanReport, advice
from decbayes.calibration.sites import PREFIX, Information
from decbayes.calibration.trials import BARS, Trial
from decbayes.errors import InvalidFile, NotCalibrated
from decbayes.models.regressions.messages.redrawn import drawn_rows


@pytest.mark.parametrize("scale", [0.2, 3.0])
def test_chance_is_the_mean_of_worlds_with_one_variance_for_all_slots(scale, rng):
    """Eight worlds, five slots; one is compared in three worlds, one in one, one has nothing to compare."""
    relative = rng.gamma(4.0 / scale, scale, size=(8, 5))
    relative[:5, 1], relative[:7, 2] = np.nan, np.nan
    freedom = np.array([6.0, 4.0, 5.0, 0.0, 9.0])
    relative[1, 1] = relative[0, 0]
    found = chance_of(relative, freedom)
    means, variances = {}, []
    for slot in (0, 1, 4):  # compared in half of the worlds at least
        seen = [value for value in relative[:, slot] if np.isfinite(value)]
        means[slot] = sum(seen) / len(seen)
        around = [(value / means[slot] - 1.0) ** 2 for value in seen]
        variances.append(sum(around) / (len(seen) - 1))
    wider = max(1.0, np.mean(variances) * 0.5 * np.mean(freedom[[0, 1, 4]]))
    assert (wider > 1.0) == (scale > 1.0)
    for slot in range(5):
        seen = np.isfinite(relative[:, slot]).sum()
        expected = [means[slot], 0.5 * freedom[slot] / wider] if slot in means else [np.nan] * 2
        expected.append(2.0 * expected[1] * seen)
        np.testing.assert_allclose([found.mean[slot], found.shape[slot], found.degrees[slot]], expected)
    assert np.isnan(chance_of(relative[:1], freedom).mean).all(), "one world says nothing"


def test_a_world_is_read_in_the_slots_of_the_merge_it_was_simulated_from(rng):
    model = db.GaussianMixture(3, 1, variance=1.0, prior_variance=1e4)
    centres = np.array([-50.0, 0.0, 50.0])

    def merged(spread):
        labels = np.repeat(np.arange(3), 20)
        points = [(centres[labels] + (spread * rng.normal(size=3))[labels])[:, None] for _ in range(4)]
        return db.align([model.from_assignments(each, labels) for each in points], components=3)

    alignment, other = merged(np.array([0.1, 0.1, 0.1])), merged(np.array([0.1, 2.0, 9.0]))
    (coupled,) = alignment.structure.symmetry
    found, as_sent = in_slots_of(alignment.merged(), other, alignment, coupled)
    order = np.argsort(alignment.merged().mean("components")[:, 0])
    assert (np.diff(found[order]) > 0).all()
    for spread, simulated in ((found, other), (as_sent, alignment)):
        expected = db.merging.reading.spread_of_components(simulated, coupled).relative
        np.testing.assert_allclose(np.sort(spread), np.sort(expected))


@pytest.mark.parametrize(("spreads", "judged"), [((4.0, 5.8), True), ((4.0, 6.2), False), ((np.nan, 6.0), False)])
def test_how_far_sites_differ_is_not_said_if_equal_ones_differ_five_times_as_much_as_by_chance(spreads, judged):
    """On average over slots: those with little spread would be left, and said to differ too often."""
    found = usual_spread(np.array([spreads, spreads]))
    np.testing.assert_array_equal(found, spreads if judged else [np.nan, np.nan])


def test_rows_are_drawn_with_the_moments_of_a_sites_rows(rng):
    """Σ w x xᵀ of an intercept, two numbers that go together, a flag and a column that never changes."""
    size = 5000
    first = rng.normal(3.0, 2.0, size)
    columns = [np.ones(size), first, 0.5 * first + rng.normal(size=size), rng.random(size) < 0.3, np.full(size, 7.0)]
    design, weights = np.column_stack(columns).astype(float), rng.gamma(2.0, size=size)
    rows = drawn_rows(design.T @ (weights[:, None] * design), np.random.default_rng(1))
    mean = weights @ design / weights.sum()
    away = design - mean
    covariance = away.T @ (weights[:, None] * away) / weights.sum()
    assert rows.shape == (2000, 5)
    np.testing.assert_array_equal(rows[:, 0], 1.0)
    assert set(np.unique(rows[:, 3])) == {0.0, 1.0}
    np.testing.assert_allclose(rows[:, 4], 7.0, atol=1e-3)
    np.testing.assert_allclose(rows.mean(axis=0), mean, atol=0.15)
    found = np.cov(rows.T, ddof=0)
    np.testing.assert_allclose(found[:3, :3], covariance[:3, :3], atol=0.25)
    assert abs(np.corrcoef(rows[:, 1], rows[:, 3])[0, 1]) < 0.1
    with pytest.raises(NotCalibrated, match="no rows have such sums"):
        drawn_rows(np.zeros((2, 2)), rng)
    with pytest.raises(NotCalibrated, match="no rows have such sums"):
        drawn_rows(np.array([[1.0, 2.0], [2.0, np.inf]]), rng)


PLAN = db.checking.Plan(db.models.GaussianMean(dimension=1), sites=5, observations=8)
USED = "about as good as one fit of all data, and its intervals can be used"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, USED), ({"covered": 0.81}, USED), ({"covered": 0.79, "at_once": 0.79}, "are too narrow, and so are those"),
        ({"covered": 0.7, "at_once": 0.76}, "refine (--rounds)"), ({"covered": 0.7, "at_once": 0.74}, "and so are"),
        ({"covered": 0.7, "at_once": 0.9, "sites": 1}, "and so are"),
        ({"covered": 0.7, "at_once": 0.9, "rounds": 2}, "more rounds"),
        ({"covered": 0.7, "at_once": 0.7, "calibrated": 0.81}, "then 81% contain the truth"),
        ({"covered": 0.7, "at_once": 0.7, "calibrated": 0.79}, "and so are"),
        ({"right": 0.91}, USED), ({"right": 0.89}, "11% of matches are wrong"), ({"gap": 0.04}, USED),
        ({"gap": 0.06}, "predicts 0.06 nat worse"), ({"gap": 0.06, "rounds": 2}, "more rounds, or more data"),
        ({"covered": 0.76, "at_once": 0.76, "differing": 0.2, "sets": 40}, "so few data sets"),
        ({"covered": 0.72, "at_once": 0.72, "differing": 0.2, "sets": 40}, "are too narrow"),
        ({"differing": 0.1, "sets": 10}, "so few data sets"), ({"differing": 0.1, "sets": 20}, USED),
        ({"covered": 1.0, "at_once": 1.0, "sets": 4}, "so few data sets"),
        ({"covered": 1.0, "at_once": 1.0, "sets": 20}, USED),
    ],
)  # fmt: skip
def test_advice_begins_where_it_is_needed(change, said):
    """Of intervals at 90 % that hold a tenth less, of a tenth of wrong matches, of a twentieth of a nat."""
    usual = {"covered": 0.9, "at_once": 0.9, "gap": 0.0, "right": 1.0, "calibrated": 0.5, "differing": 0.0, "sets": 400}
    case = usual | {name: value for name, value in change.items() if name in usual}
    matches = {name: [] for name in ("margins", "evidence", "losses", "overlaps", "nowhere")} | {
        "right": [case["right"]]
    }

    def trial(side):
        covered = {"x": case["covered"] + side * case["differing"]}
        return Trial(
            {"x": [1] * BARS}, covered, {"x": case["at_once"]}, case["gap"], matches, {"x": case["calibrated"]}
        )

    plan = replace(PLAN, **{name: value for name, value in change.items() if name not in usual})
    assert said in advice(plan, PlanReport((trial(-1), trial(1)) * (case["sets"] // 2), 0.9))


@pytest.mark.parametrize(
    ("change", "right"),
    [
        ({}, True), ({"sites": np.array([3, 7], dtype="<i4"), "grid": np.ones((1, 2))}, True),
        ({"sites": np.array([3, 7], dtype="<i4")}, False), ({"sites": np.array([0], dtype="<i4")}, False),
        ({"sites": np.array([3, 7, 1], dtype="<i4")}, False), ({"sites": np.array([], dtype="<i4")}, False),
        ({"sites": np.array([3.0])}, False), ({"sites": np.array([[3]], dtype="<i4")}, False),
        ({"contribution": np.ones(3)}, False), ({"contribution": np.ones((2, 1))}, False),
        ({"contribution": np.array([1.0, np.nan])}, False), ({"matrix": np.array([[1.0, 2.0], [0.0, 1.0]])}, False),
        ({"matrix": np.ones((2, 3))}, False), ({"matrix": np.full((2, 2), np.inf)}, False),
        ({"more": np.ones(1)}, False),
        ({"matrix": np.ones((2, 2), dtype="<f4")}, False),
    ],
)  # fmt: skip
def test_information_of_a_site_is_checked_part_by_part(change, right):
    arrays = {"matrix": np.eye(2), "contribution": np.ones(2), "sites": np.array([3], dtype="<i4")} | change
    content = write_arrays({PREFIX + "digest": arrays.pop("matrix"), **arrays})
    if not right:
        with pytest.raises(InvalidFile):
            Information.from_bytes(content)
        return
    found = Information.from_bytes(content)
    assert (found.at, found.sites) == ("digest", 3)
    assert found.to_bytes() == content
