"""How far equal sites differ by chance: what is made of simulated spreads and of rows, against plain sums."""

from dataclasses import replace

import numpy as np
import pytest

import decbayes as db
from decbayes.base.tensors import hashed, write_arrays
from decbayes.calibration.differences import chance_of, in_slots_of, usual_spread
from decbayes.calibration.plans import PlanReport, advice
from decbayes.calibration.sites import PREFIX, Information
from decbayes.calibration.trials import BARS, Trial
from decbayes.errors import InvalidFile, NotCalibrated
from decbayes.merging.reading import Spread
from decbayes.models.regressions.messages.redrawn import drawn_rows, with_moments


@pytest.mark.parametrize("scale", [0.02, 1.0, 3.0])
def test_chance_is_the_mean_of_worlds_with_one_variance_for_all_slots(scale, rng):
    """Eight worlds, five slots; one is compared in three worlds, one in one, one has nothing to compare."""
    freedom = np.array([6.0, 4.0, 5.0, 0.0, 9.0])
    in_worlds = freedom + rng.integers(3, size=(8, 5))
    in_worlds[:5, 1], in_worlds[:7, 2] = 0.0, 0.0
    relative = rng.gamma(4.0 / scale, scale, size=(8, 5))
    found = chance_of(Spread(relative * in_worlds, in_worlds), freedom)
    means, squares, worlds = {}, 2.0, 2.0
    for slot in (0, 4):  # compared in half of the worlds at least
        weights = in_worlds[:, slot]
        means[slot] = np.average(relative[:, slot], weights=weights)
        squares += sum(0.5 * weights * (relative[:, slot] / means[slot] - 1.0) ** 2)
        worlds += 8 - 1
    variance = squares / worlds
    assert (variance < 1.0) == (scale < 0.5)
    for slot in range(5):
        expected = [np.nan] * 4
        if slot in means:
            degrees = in_worlds[:, slot].sum() / variance
            expected = [means[slot], 0.5 * freedom[slot] / variance, degrees, np.sqrt(2.0 / degrees)]
        np.testing.assert_allclose([part[slot] for part in list(vars(found).values())[:4]], expected)
    assert found.compared == worlds, "the variance is known from all slots, and a prior"
    one = Spread(relative[:1], in_worlds[:1])
    assert np.isnan(chance_of(one, freedom).mean).all(), "one world says nothing"


@pytest.mark.parametrize(("worlds", "error"), [(8, 0.02), (40, 0.012)])
@pytest.mark.parametrize("narrower", [0.5, 1.0, 2.0])
def test_five_per_cent_are_five_per_cent_whatever_the_variance_of_the_spreads(narrower, worlds, error, rng):
    """Spreads of yes/no outcomes vary less than a chi-square: taking that as the least variance gave 1 to 3 %.

    Those of overlapping states vary more: a prior of eight worlds, taken as known, gave 7 to 8 % with eight worlds.
    """
    freedom, sets = 20.0, 4000
    drawn = 0.7 * rng.gamma(0.5 * freedom * narrower, size=(sets, worlds + 1)) / (0.5 * freedom * narrower)
    chances = [
        chance_of(Spread(freedom * set_[1:, None], np.full((worlds, 1), freedom)), np.full(1, freedom))
        for set_ in drawn
    ]
    small = [chance.probability(set_[:1])[0] < 0.05 for chance, set_ in zip(chances, drawn, strict=True)]
    # Three standard errors, and what shrinking the variance costs.
    assert np.mean(small) == pytest.approx(0.05, abs=error)


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
    assert (np.diff(found.relative[order]) > 0).all()
    for spread, simulated in ((found, other), (as_sent, alignment)):
        expected = db.merging.reading.spread_of_components(simulated, coupled)
        for part, whole in zip(spread, expected, strict=True):
            np.testing.assert_allclose(np.sort(part), np.sort(whole))


@pytest.mark.parametrize(("spreads", "judged"), [((4.0, 5.8), True), ((4.0, 6.2), False), ((np.nan, 6.0), False)])
def test_how_far_sites_differ_is_not_said_if_equal_ones_differ_five_times_as_much_as_by_chance(spreads, judged):
    """On average over slots: those with little spread would be left, and said to differ too often."""
    statistic = np.array([spreads, spreads])
    found = usual_spread(Spread(np.nan_to_num(statistic), np.isfinite(statistic).astype(float)))
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


def test_a_sample_of_rows_is_stretched_to_the_moments_of_the_site(rng):
    """Otherwise logistic sites of 20 rows were simulated with less information, and 5 % meant 2.5 %."""
    site = np.column_stack([np.ones(30), rng.normal(2.0, 3.0, size=(30, 2)), rng.random(30) < 0.2])
    precision = site.T @ (rng.gamma(2.0, size=(30, 1)) * site)
    rows = np.column_stack([np.ones(12), rng.normal(size=(12, 2)), rng.integers(2, size=12)])
    weights = rng.gamma(2.0, size=12)
    moved = with_moments(rows, weights, precision)
    np.testing.assert_allclose(moved[:, 0], 1.0)
    sums = moved.T @ (weights[:, None] * moved)
    np.testing.assert_allclose(sums / weights.sum(), precision / precision[0, 0], rtol=1e-6)
    rows[:, 3] = 0.0
    assert np.ptp(with_moments(rows, weights, precision)[:, 0]) < 1e-6, "the intercept of rows without the last column"


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
        ({}, True), ({"sites": np.array([3, 7, 1], dtype="<i4"), "grid": np.ones((1, 2))}, True),
        ({"sites": np.array([3, 7, 0], dtype="<i4"), "grid": np.ones((1, 2))}, True),
        ({"sites": np.array([3, 7, 2], dtype="<i4"), "grid": np.ones((1, 2))}, False),
        ({"sites": np.array([3, 0, 1], dtype="<i4"), "grid": np.ones((1, 2))}, False),
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
    assert found.to_bytes() == hashed(content)
