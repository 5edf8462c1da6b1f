"""Simulated worlds by the formulas that they state: matches, curves, settings, differences, plans."""

from dataclasses import replace
from math import inf, sqrt

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.sparse import csr_array
from scipy.stats import ks_2samp, norm

import decbayes as db
from decbayes.calibration import differences, worlds
from decbayes.calibration.differences import Redrawing, small_enough
from decbayes.calibration.matches import (
    Matches,
    check_setting,
    checked_certainty,
    curves_of,
    distance,
    judged,
    learned,
    overlap,
    overlaps_of,
    rising_curve,
    shares_of,
)
from decbayes.calibration.plans import PlanReport, Share, about_matches, about_scores, mean_and_error
from decbayes.calibration.trials import BARS, DRAWS, Trial, covered_by, label_of, likely
from decbayes.calibration.worlds import Setting, Worlds, number_and_length, quick, sharpened, simulated_shard
from decbayes.errors import NotCalibrated, StructureMismatch

# ---- curves and matches


@pytest.mark.parametrize("seed", range(3))
def test_a_rising_curve_is_at_the_optimum_of_its_loss(seed):
    """Karush–Kuhn–Tucker: no slope is negative, and none can be changed for the better; ridges 0.1 and 1."""
    rng = np.random.default_rng(seed)
    inputs = rng.normal(3.0, [1.0, 5.0, 0.2], size=(80, 3))
    right = (rng.random(80) < 1 / (1 + np.exp(-(inputs[:, 0] - 3.0 - 0.4 * (inputs[:, 1] - 3.0))))).astype(float)
    curve = rising_curve(inputs, right)
    slopes, centre, scale = np.array(curve.slopes), inputs.mean(axis=0), inputs.std(axis=0)
    assert (slopes >= 0.0).all()
    score = curve.intercept + inputs @ slopes
    apart = 1 / (1 + np.exp(-score)) - right
    middle = curve.intercept + slopes @ centre
    assert apart.sum() + 0.1 * middle == pytest.approx(0.0, abs=1e-2)
    gradient = apart @ ((inputs - centre) / scale) + 1.0 * slopes * scale
    assert (np.abs(gradient[slopes > 0]) < 1e-2).all()
    assert (gradient[slopes == 0] > -1e-2).all()
    assert (slopes == 0).any()
    same = rising_curve(np.ones((9, 1)), np.ones(9))
    assert same.slopes == (0.0,)
    assert same.intercept > 1.0


@pytest.mark.parametrize(("first", "second"), [(30, 50), (1, 7), (12, 12)])
def test_the_distance_of_samples_is_kolmogorovs(first, second, rng):
    one, two = rng.normal(size=first), rng.normal(0.7, size=second)
    assert distance(one, two) == pytest.approx(ks_2samp(one, two).statistic)
    assert distance(one, one) == 0.0
    assert distance(np.zeros(0), two) == 1.0
    assert distance(np.zeros(0), np.zeros(0)) == 0.0


def test_curves_say_how_many_matches_were_right_and_belong_nowhere(rng):
    size = 60
    right = (rng.random(size) < 0.7).astype(float)
    nowhere = np.where(right == 0.0, rng.random(size) < 0.5, 0.0).astype(float)
    made = Matches(*(rng.gamma(2.0, size=size) for _ in range(3)), rng.random(size), right, nowhere)
    found = curves_of(made, made.margins + 1.0)
    assert (found.matches, found.right) == (size, pytest.approx(right.mean()))
    assert found.nowhere == pytest.approx(nowhere[right == 0.0].mean())
    assert found.unlike == pytest.approx(ks_2samp(made.margins + 1.0, made.margins).statistic)
    assert curves_of(replace(made, right=np.ones(size)), made.margins).nowhere == 0.0


@pytest.mark.parametrize(("size", "certainty"), [(100, 1.0), (100, 0.8), (100_000, 1.0)])
def test_no_match_is_called_99_per_cent_sure_and_fewer_if_clusters_overlap(size, certainty):
    """Of matches that simulations call sure, 1 to 2 % were wrong; more where clusters overlap."""
    made = Matches(*(np.ones(size) for _ in range(3)), np.full(size, 0.5), np.ones(size), np.zeros(size))
    most = curves_of(made, made.margins, certainty).most
    assert most == pytest.approx(0.99 * (0.95 if certainty == 0.8 else 1.0) * (size + 1) / (size + 2))
    assert most < 0.99


def test_joined_matches_follow_each_other(rng):
    size = 60
    made = Matches(*(rng.random(size) for _ in range(6)))
    both = Matches.joined([made, made])
    assert len(both) == 2 * size
    np.testing.assert_array_equal(both.overlaps, np.tile(made.overlaps, 2))


def test_components_are_judged_by_what_their_data_have_in_common_with_the_others(rng):
    """Σ_t min(share here, share there), slot by slot and site by site."""
    slots = [np.array([0, 2, 1]), np.array([1, 1]), np.array([2, 0, 0])]
    truths = [rng.gamma(0.3, size=(len(each), 4)) for each in slots]
    right, nowhere = judged(slots, truths, 3)
    for site, (places, truth) in enumerate(zip(slots, truths, strict=True)):
        for k, own in enumerate(truth):
            common = []
            for slot in range(3):
                there = sum(
                    (
                        truths[other][m]
                        for other in range(3)
                        for m in range(len(slots[other]))
                        if other != site and slots[other][m] == slot
                    ),
                    np.zeros(4),
                )
                whole = there.sum() or 1.0
                common.append(sum(min(own[t] / own.sum(), there[t] / whole) for t in range(4)))
            mine = common[places[k]]
            assert right[site][k] == float(mine > 0.5 and mine >= max(common) - 0.1)
            assert nowhere[site][k] == float(max(common) <= 0.5)
    np.testing.assert_array_equal(shares_of(np.array([[1.0, 3.0], [0.0, 0.0]])), [[0.25, 0.75], [0.0, 0.0]])


MIXTURE = db.GaussianMixture(2, 1, variance=1.0, prior_variance=100.0)


def clusters(rng, sizes=((20, 10), (5, 25), (30, 30))):
    """Labelled sites with two clusters far apart, and their alignment."""
    shards = [np.repeat([-9.0, 9.0], size)[:, None] + rng.normal(size=(sum(size), 1)) for size in sizes]
    fitted = [MIXTURE.from_assignments(s, np.repeat([0, 1], size)) for s, size in zip(shards, sizes, strict=True)]
    return shards, db.align(fitted, components=2)


def test_an_overlap_is_the_share_of_data_that_the_others_put_into_the_same_slot(rng, monkeypatch):
    shards, aligned = clusters(rng)
    shards[0] = np.concatenate([shards[0], np.full((4, 1), 0.3)])
    expected = []
    (coupled,) = aligned.structure.symmetry
    slots = aligned.assignments[0][coupled]
    others = aligned.without(0)
    own = MIXTURE.responsibilities(aligned.posteriors[0], shards[0])[0]
    theirs = MIXTURE.responsibilities(others, shards[0])[0]
    for k, slot in enumerate(slots):
        expected.append(sum(own[n, k] * theirs[n, slot] for n in range(len(own))) / own[:, k].sum())
    np.testing.assert_allclose(overlap(MIXTURE, aligned, 0, shards[0]), expected, rtol=1e-6)
    monkeypatch.setattr("decbayes.calibration.matches.BLOCK", 7)
    np.testing.assert_allclose(overlaps_of(MIXTURE, aligned, shards)[0], expected, rtol=1e-6)
    for wrong in (-1, 3):
        with pytest.raises(StructureMismatch, match="site must be from 0 to 2"):
            overlap(MIXTURE, aligned, wrong, shards[0])
    overlap(MIXTURE, aligned, 2, shards[2])


# ---- worlds


def test_a_setting_simulates_as_much_data_as_sites_have(rng):
    _, aligned = clusters(rng)
    setting = Setting(aligned)
    assert setting.chosen == aligned.order
    sizes = [sum(((20, 10), (5, 25), (30, 30))[site]) for site in setting.chosen]
    assert [site.sum() for site in setting.evidence] == pytest.approx(sizes)
    assert setting.work == pytest.approx(sum(sizes) * 2 * (2 + 1))
    few = replace(setting, most=40.0)
    assert [site.sum() for site in few.evidence] == pytest.approx([min(size, 40.0) for size in sizes])
    for whole, part in zip(setting.evidence, few.evidence, strict=True):
        np.testing.assert_allclose(part / part.sum(), whole / whole.sum())
    some = replace(setting, sites=(2, 0))
    assert [site.sum() for site in some.evidence] == pytest.approx([60.0, 30.0])
    assert [p.digest for p in some.posteriors] == [aligned.posteriors[site].digest for site in (2, 0)]
    assert setting.length == 100.0
    starts = setting.of_structure(aligned.structure).ascent.restarts
    assert starts == min(3, db.model_for(aligned.structure).ascent.restarts)
    keys = [
        setting.key,
        few.key,
        some.key,
        replace(setting, length=50.0).key,
        replace(setting, ascent=db.Ascent(3)).key,
    ]
    assert len(set(keys)) == len(keys)
    assert Setting(db.align(aligned.posteriors[::-1], components=2)).key == setting.key


def test_worlds_are_made_once_and_always_the_same(rng, monkeypatch):
    _, aligned = clusters(rng)
    made = []
    monkeypatch.setattr(worlds, "simulated_world", lambda setting, rng: made.append(rng.integers(10**9)) or len(made))
    some = Worlds(Setting(aligned), Setting(aligned).key)
    assert some.first(2) == [1, 2]
    assert some.first(3) == [1, 2, 3]
    assert some.first(1) == [1]
    assert len({*made}) == 3
    again = Worlds(Setting(aligned), Setting(aligned).key)
    again.first(1)
    assert made[3] == made[0]
    assert some == again
    assert hash(some) == hash(again)
    assert some != Worlds(Setting(aligned), Setting(aligned, length=9.0).key)
    assert some != 3


def test_quick_is_what_takes_no_more_work_than_agreed(rng, monkeypatch):
    _, aligned = clusters(rng)
    work = Setting(aligned).work
    monkeypatch.setattr(worlds, "QUICK", work)
    assert quick(aligned)
    monkeypatch.setattr(worlds, "QUICK", work * 0.999)
    assert not quick(aligned)
    mean = db.models.GaussianMean(dimension=1)
    assert not quick(db.align([mean.fit(np.ones((3, 1))).posterior] * 2)), "nothing is matched"


def test_the_simulated_truth_has_ten_thousand_times_the_evidence(rng):
    _, aligned = clusters(rng)
    merged = aligned.merged()
    for name, part in sharpened(merged).contribution.items():
        np.testing.assert_allclose(part, 1e4 * np.asarray(merged.contribution[name]))


def test_a_simulated_site_has_its_slots_in_their_proportions(rng, monkeypatch):
    """Of mixtures by their weights; of topics only those with at least two hundredths of the words."""
    _, aligned = clusters(rng, sizes=((300, 100), (50, 350)))
    setting = Setting(aligned)
    parameters = {"weights": np.array([0.5, 0.5]), "components": np.array([[-90.0], [90.0]])}
    asked, draw = [], type(MIXTURE).draw
    monkeypatch.setattr(
        type(MIXTURE), "draw", lambda self, given, *rest: asked.append(given) or draw(self, given, *rest)
    )
    for site in range(2):
        evidence = setting.evidence[site]
        drawn = simulated_shard(setting, parameters, site, np.random.default_rng(1))
        assert drawn.shape == (400, 1)
        assert np.sum(asked[-1]["weights"]) == pytest.approx(1.0)
        assert np.mean(drawn < 0) == pytest.approx(evidence[0] / evidence.sum(), abs=0.08)


@pytest.mark.parametrize(("rare", "present"), [(15.0, 2), (25.0, 3)])
def test_a_site_has_not_seen_topics_with_hardly_a_word(rare, present, monkeypatch):
    model = db.LatentDirichletAllocation(3, tuple("abc"), topic_prior=0.1)
    counts = np.diag([500.0, 500.0 - rare, rare])
    sites = [db.Posterior(model.structure, {"topics": csr_array(counts + shift)}) for shift in (0.0, 1e-3)]
    setting = Setting(db.align(sites, components=3), length=50.0)
    assert number_and_length(setting, 0) == (20, {"length": 50.0})
    assert number_and_length(replace(setting, length=1e5), 0) == (1, {"length": 1e5}), "at least one"
    assert setting.work == pytest.approx(sum(site.sum() * 3 for site in setting.evidence) * 10)
    asked, kept = [], Setting.of_structure
    monkeypatch.setattr(
        Setting, "of_structure", lambda self, structure: asked.append(structure) or kept(self, structure)
    )
    simulated_shard(setting, {"topics": np.eye(3) * 0.97 + 0.01}, 0, np.random.default_rng(0))
    (coupled,) = asked[-1].symmetry
    assert asked[-1].components(coupled) == present


# ---- differences


def test_differences_are_simulated_for_a_part_of_many_sites_and_of_much_data(rng):
    _, aligned = clusters(rng)
    assert small_enough(aligned, None).most == inf
    assert small_enough(aligned, None).sites == ()
    _, large = clusters(rng, sizes=((10, 10), (600, 500)))
    assert small_enough(large, None).most == 1000.0
    _, edge = clusters(rng, sizes=((10, 10), (500, 499)))
    assert small_enough(edge, None).most == inf
    for count, every in ((30, 1), (31, 2), (60, 2), (61, 3)):
        many = db.align([*clusters(rng, sizes=((3, 3),) * count)[1].posteriors], components=2)
        assert small_enough(many, None).chosen == many.order[::every]
    with pytest.raises(NotCalibrated, match="One posterior alone"):
        small_enough(db.align(aligned.posteriors[:1], components=2), None)
    mean = db.models.GaussianMean(dimension=1)
    with pytest.raises(NotCalibrated, match="one set of components"):
        small_enough(db.align([mean.fit(np.ones((3, 1))).posterior] * 2), None)
    assert (differences.WORLDS, differences.MOST_SITES) == (8, 30)


def test_a_redrawing_is_known_by_its_contents(rng):
    _, aligned = clusters(rng)
    one, same = Redrawing(aligned, "x"), Redrawing(db.align(aligned.posteriors[::-1], components=2), "x")
    assert one == same
    assert hash(one) == hash(same)
    assert one not in (Redrawing(aligned, "y"), 3)


# ---- reliability


def test_worlds_are_as_many_as_matches_need(rng, monkeypatch):
    """At least three, at most twelve; six matches are expected of each."""
    _, aligned = clusters(rng)
    asked = []
    monkeypatch.setattr("decbayes.calibration.matches.checked_certainty", lambda *_: 1.0)
    size = 40
    fake = Matches(*(rng.gamma(2.0, size=size) for _ in range(3)), rng.random(size), np.ones(size), np.zeros(size))
    monkeypatch.setattr("decbayes.calibration.matches.simulated_matches", lambda *_: fake)
    monkeypatch.setattr(Worlds, "first", lambda self, count: asked.append(count) or [None])
    for wanted in (1, 18, 19, 60, 72, 73, 400):
        learned(Worlds(Setting(aligned), (bytes([wanted % 256, 1]),)), wanted)
    assert asked == [3, 3, 4, 10, 12, 12, 12]
    for few, fine in ((29, False), (30, True)):
        part = Matches(*(column[:1].repeat(few) for column in vars(fake).values()))
        monkeypatch.setattr("decbayes.calibration.matches.simulated_matches", lambda *_, part=part: part)
        if fine:
            learned(Worlds(Setting(aligned), (bytes([few, 2]),)), 400)
        else:
            with pytest.raises(NotCalibrated, match="29 matches, too few"):
                learned(Worlds(Setting(aligned), (bytes([few, 2]),)), 400)


@pytest.mark.parametrize(("apart", "refused"), [(1.5, True), (2.1, False)])
def test_clusters_that_even_the_truth_cannot_tell_apart_are_refused(apart, refused, rng):
    """Two clusters of the same size, d deviations apart, are assigned with probability Φ(d / 2) on average."""
    labels = np.repeat([0, 1], 400)
    shards = [np.where(labels == 0, 0.0, apart)[:, None] + rng.normal(size=(800, 1)) for _ in range(2)]
    setting = Setting(db.align([MIXTURE.from_assignments(shard, labels) for shard in shards], components=2))
    assert (norm.cdf(apart / 2) < 0.8) == refused
    if refused:
        with pytest.raises(NotCalibrated, match=r"with probability 0\.7"):
            checked_certainty(setting, np.random.default_rng(0))
    else:
        assert checked_certainty(setting, np.random.default_rng(0)) == pytest.approx(norm.cdf(apart / 2), abs=0.02)


def test_what_cannot_be_matched_cannot_be_calibrated(rng):
    mean = db.models.GaussianMean(dimension=1)
    states = db.HiddenMarkov(2, columns={"x": db.columns.Gaussian(0, 1)})
    sequences = [states.fit([rng.normal(size=(9, 1))], rng=0).posterior for _ in range(2)]
    for alignment, why in (
        (db.align([mean.fit(np.ones((3, 1))).posterior] * 2), "one set of components"),
        (db.align(sequences), "Matches of states"),
        (db.align(clusters(rng)[1].posteriors[:1], components=2), "One posterior alone"),
    ):
        with pytest.raises(NotCalibrated, match=why):
            check_setting(Setting(alignment))
    check_setting(Setting(clusters(rng)[1]))


# ---- plans and trials


def test_means_over_data_sets_have_standard_errors():
    assert mean_and_error([1.0, 2.0, 6.0]) == pytest.approx((3.0, np.std([1, 2, 6], ddof=1) / sqrt(3)))
    assert mean_and_error([2.0]) == (2.0, inf)
    assert np.isnan(mean_and_error([])).all()


def a_trial(right=(1.0, 0.0), covered=0.8, ranks=2, gap=0.1, names=("x",)):
    size = len(right)
    matches = {name: [0.5] * size for name in ("margins", "evidence", "losses", "overlaps", "nowhere")} | {
        "right": [*right]
    }
    return Trial(
        {name: [ranks] * BARS for name in names}, dict.fromkeys(names, covered), dict.fromkeys(names, covered + 0.1),
        gap, matches, dict.fromkeys(names, covered - 0.1),
    )  # fmt: skip


@pytest.mark.parametrize(("right", "number"), [(0, 4), (4, 4), (3, 10), (50, 50), (1, 1), (0, 1)])
def test_shares_of_yes_and_no_have_the_interval_of_a_proportion(right, number):
    """Where a share is twice its own standard error away, with the variance of the variances' usual denominator."""
    found = Share.of([1.0] * right + [0.0] * (number - right))
    variance = right * (number - right) / number / max(number - 1, 1)

    def apart(p):
        return (right / number - p) ** 2 - 4.0 * (p * (1 - p)) / number

    if right in (0, number):
        assert (found.lower == 0.0) == (right == 0)
        assert (found.upper == 1.0) == (right == number)
        inner = found.upper if right == 0 else found.lower
        assert inner == pytest.approx(brentq(apart, 1e-9, 1 - 1e-9))
    else:
        assert found.lower < brentq(apart, 1e-9, right / number) < right / number
        assert found.upper - found.lower == pytest.approx(4.0 * np.sqrt(number * variance + 1.0) / (number + 4.0))


def test_a_report_gathers_all_trials():
    report = PlanReport((a_trial(), a_trial((1.0, 1.0), 0.6, 3, 0.3, ("x", "y")), a_trial((), 0.7)), 0.9)
    assert report.coverage["x"] == Share.of([0.8, 0.6, 0.7])
    assert report.coverage["x"].share == pytest.approx(0.7)
    assert report.coverage["y"] == Share.of([0.6])
    assert report.at_once["x"][0] == pytest.approx(0.8)
    assert report.calibrated["x"][0] == pytest.approx(0.6)
    assert report.ranks == {"x": [7] * BARS, "y": [3] * BARS}
    assert (BARS, DRAWS) == (20, 99)
    assert report.right == Share.of([0.5, 1.0])
    assert report.gap == pytest.approx(mean_and_error([0.1, 0.3, 0.1]))
    assert report.matches().right.tolist() == [1.0, 0.0, 1.0, 1.0]
    assert report.reliability(3) == [], "fewer than two matches per bar"
    bars = PlanReport((a_trial((1.0, 0.0, 1.0, 1.0, 0.0)), a_trial((1.0,) * 5)), 0.9).reliability(5)
    assert [count for _, _, count in bars] == [2] * 5
    assert sum(count * true for _, true, count in bars) == pytest.approx(8.0)


@pytest.mark.parametrize(("gap", "told"), [(0.10, False), (0.12, True)])
def test_a_merge_is_said_to_be_behind_if_it_is_by_more_than_two_errors(gap, told):
    plan = db.checking.Plan(db.models.GaussianMean(dimension=1), sites=2, observations=5)
    report = PlanReport((a_trial(gap=gap - 0.03), a_trial(gap=gap + 0.03)), 0.9)
    assert report.gap == pytest.approx((gap, 0.03))
    assert ("worse than one fit of all data" in about_scores(plan, report)) == told
    fewer = PlanReport((a_trial(right=(1.0,) * 9 + (0.0,)), a_trial(right=(1.0,) * 8 + (0.0,))), 0.9)
    assert "11% of matches are wrong" in about_matches(fewer)
    assert about_matches(PlanReport((a_trial(right=(1.0,) * 10 + (0.0,)),), 0.9)) == ""


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9])
def test_ranks_within_the_middle_of_all_draws_are_covered(level):
    """A hundred places among 99 draws: those from (1 − level) / 2 on, up to (1 + level) / 2."""
    ranks = np.arange(100)
    inside = [rank for rank in ranks if (1 - level) / 2 <= rank / 100 < (1 + level) / 2]
    assert covered_by({"x": ranks, "none": np.zeros(0)}, level) == {"x": pytest.approx(len(inside) / 100)}


def test_improbable_words_are_not_ranked():
    topics = db.LatentDirichletAllocation(2, tuple("ab")).structure.families["topics"]
    values = np.array([0.004, 0.006, 0.9])
    assert likely(topics, values).tolist() == [False, True, True]
    means = db.models.GaussianMean(dimension=1).structure.families["mean"]
    assert likely(means, np.array([-3.0, 0.0])).tolist() == [True, True]
    assert [label_of("mean", part) for part in ("value", "variance")] == ["mean", "mean, variance"]
