"""Slots of a robust merge: who is compared with whom, where slots begin, and who is chosen for them."""

import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from test_grouping import posterior
from test_votes import group_of, half_g, means_of, slot_weights

import decbayes as db
from decbayes.merging.robust import _likeness
from decbayes.merging.robust._allowances import allowing_parts, mixture_losses
from decbayes.merging.robust._disagreement import hardly_disagreeing
from decbayes.merging.robust._large_sites import gain_of_others, uncapped, vouched
from decbayes.merging.robust._slots import elected, weigh


def test_a_component_is_compared_with_all_others_of_its_slot_that_agree(rng):
    """By hand, one by one: what disagrees speaks for nobody, and nobody is compared with itself."""
    rows = rng.integers(1, 50, size=(5, 2, 3)).astype(float)
    group = group_of([posterior(site_rows) for site_rows in rows])
    labels, weights = rng.integers(2, size=10), np.where(np.arange(10) % 3 == 0, 0.4, 1.0)
    (rest,), evidence = slot_weights(group, labels, weights, 2).others()
    for one in range(10):
        others = [k for k in range(10) if k != one and labels[k] == labels[one] and weights[k] == 1.0]
        np.testing.assert_allclose(rest[one], sum((group.rows[0][k] for k in others), np.zeros(3)))
        assert evidence[one] == pytest.approx(sum(group.evidence[k] for k in others))


@pytest.mark.parametrize("first", [0, 6])
def test_whoever_agrees_with_the_beginning_of_a_slot_is_heard_there(first):
    """Six means at zero, two at nine; the last is in a slot of its own, which begins with nothing."""
    near = [(0.05 * site, 30) for site in range(6)]
    group = group_of(means_of(*near, (9.0, 30), (9.05, 30), (50.0, 30)))
    nothing = slot_weights(group, [0] * 8 + [1], [0.0] * 9, 2)
    begun = replace(nothing, weights=np.where(np.arange(9) == first, 1.0, 0.0))
    reached = begun.stabilised()
    expected = [int(first < 6)] * 6 + [int(first == 6)] * 2 + [1]
    np.testing.assert_array_equal(reached.weights, expected)
    np.testing.assert_array_equal(reached.core, expected)


def test_a_compromise_gives_way_to_two_that_their_voters_like_better():
    """All like C nearly as much as their favourite, so that it is chosen first; with A and B everybody has more."""
    weights = np.array([[1.0, 0.0, 0.9]] * 3 + [[0.0, 1.0, 0.9]] * 3)
    likeness = SimpleNamespace(weights=weights)
    group = SimpleNamespace(site=np.arange(6), sites=6, votes=np.ones(6), likeness=likeness)
    assert elected(group, 1, 0).tolist() == [2]
    assert sorted(elected(group, 2, 0).tolist()) == [0, 1]


def test_a_vote_that_is_not_heard_comes_before_better_ones_for_what_has_a_slot():
    """Seven agree with A and nearly with B, six the other way round; one has C. B gets a slot that is left over."""
    weights = np.array([[1.0, 0.7, 0.0]] * 7 + [[0.7, 1.0, 0.0]] * 6 + [[0.0, 0.0, 1.0]])
    group = SimpleNamespace(site=np.arange(14), sites=14, votes=np.ones(14), likeness=SimpleNamespace(weights=weights))
    for slots, spare, chosen in ((1, 0, [0]), (1, 4, [0]), (2, 0, [0, 2]), (3, 0, [0, 1, 2]), (5, 5, [0, 1, 2])):
        assert sorted(elected(group, slots, spare).tolist()) == chosen


def test_two_parts_of_one_thing_count_if_they_agree_together(rng):
    """A site has split a topic that others have as one; what it has in another slot is judged by itself."""
    whole, other = np.array([60.0, 60.0, 0.0, 0.0]), np.array([0.0, 0.0, 60.0, 60.0])
    parts = [[120.0, 0.0, 0.0, 0.0], [0.0, 120.0, 0.0, 0.0], [0.0, 0.0, 120.0, 0.0]]
    group = group_of([*(posterior([(1.0 + 0.01 * site) * whole, other]) for site in range(4)), posterior(parts)])
    labels = np.array([int(row[:2].sum() < row[2:].sum()) for row in group.rows[0]])
    in_parts = (group.site == 4) & (labels == 0)
    assert (in_parts.sum(), ((group.site == 4) & (labels == 1)).sum()) == (2, 1)
    reached = allowing_parts(slot_weights(group, labels, np.where(group.site == 4, 0.0, 1.0), 2))
    np.testing.assert_array_equal(reached.weights, np.where((group.site < 4) | in_parts, 1.0, 0.0))


@pytest.mark.parametrize("larger", [1, 30])
def test_a_mixture_of_slots_of_any_sizes_loses_what_chance_makes_of_it(larger, rng):
    """The topics share all words: how much is of either follows from their shares, not from how large the slots are."""
    first, second = np.array([5, 3, 1, 1]) / 10.0, np.array([1, 3, 1, 5]) / 10.0
    component = rng.multinomial(4000, 0.5 * first + 0.5 * second).astype(float)
    rows = [[30_000 * larger * first, 30_000 * second] for _ in range(3)]
    group = group_of([*map(posterior, rows), posterior([component])])
    labels = np.array([int(row[0] < row[3]) for row in group.rows[0]])
    reached = slot_weights(group, labels, np.where(group.site < 3, 1.0, 0.0), 2)
    totals = reached.totals()[0][0]
    (lost,) = mixture_losses(reached, totals, 3)
    assert 0.0 <= lost < 20.0, "a few steps come close"
    assert min(half_g(component, total) for total in totals) > 100.0


def test_of_a_few_dozen_sites_everybody_is_compared_with_everybody():
    group = group_of(means_of(*((0.01 * site, 20) for site in range(60))))
    np.testing.assert_array_equal(_likeness.chosen_candidates(group), np.arange(60))


@pytest.mark.parametrize("away", [0.0, 0.1, 0.3])
def test_a_site_above_the_cap_counts_for_what_moves_the_others_by_at_most_a_deviation(away):
    """The others' 60 observations have variance 2. With n of the site's, their mean moves by away · n / (60 + n)."""
    group = group_of(means_of((0.0, 20), (0.1, 20), (-0.1, 20), (away, 2000)), cap=1.5)
    assert group.scale[3] == pytest.approx(30.0 / 2000.0)
    found = uncapped(slot_weights(group, [0] * 4, [1.0] * 4, 1))
    np.testing.assert_array_equal(found[:3], 1.0)
    deviations = away * 2000 * found / (60 + 2000 * found) / np.sqrt(2.0 / 60)
    assert found[3] == pytest.approx(1.0) if away < 0.15 else 0.015 < found[3] < 0.1
    assert deviations[3] < 1.01
    larger = away * 3000 * found / (60 + 3000 * found) / np.sqrt(2.0 / 60)
    assert found[3] == 1.0 or larger[3] > 1.0, "no less than that"
    disagreeing = slot_weights(group, [0] * 4, [1.0, 1.0, 1.0, 0.3], 1)
    np.testing.assert_array_equal(uncapped(disagreeing), group.scale)
    barely = slot_weights(group, [0] * 4, [1.0, 1.0, 1.0, 0.5], 1)
    assert uncapped(barely)[3] == pytest.approx(min(1.0, 2.0 * found[3]), rel=0.5), "half of it counts"


def test_each_component_of_a_site_above_the_cap_counts_by_itself():
    """One topic is the others', the second is a little off; the third is hardly known and counts as the second."""
    small, large = [[60.0, 60.0, 0.0, 0.0], [0.0, 0.0, 60.0, 60.0]], [[6e3, 6e3, 0.0, 0.0], [0.0, 0.0, 6.6e3, 5.4e3]]
    group = group_of([*[posterior(small)] * 4, posterior([*large, [1.0, 0.0, 0.0, 1.0]])], cap=1.5)
    labels = np.array([int(row[:2].sum() < row[2:].sum()) for row in group.rows[0]])
    shares = uncapped(slot_weights(group, labels, [1.0] * len(labels), 2))
    of_large, known = group.site == 4, group.known
    first, second, third = (
        shares[of_large & chosen].item() for chosen in (known & (labels == 0), known & (labels == 1), ~known)
    )
    np.testing.assert_array_equal(shares[~of_large], 1.0)
    assert first == 1.0
    assert group.scale[4] < second == third < 0.5


def test_sites_without_a_choice_of_slots_differ_by_what_is_beyond_chance():
    """Two means a fixed distance apart: the rate rises with the distance, and equal means are within chance."""
    alike, apart, further = (group_of(means_of(*((step * site, 50) for site in range(6)))) for step in (0.0, 1.0, 2.0))
    assert alike.likeness.usual == 0.0
    assert 0.0 < apart.likeness.usual < further.likeness.usual
    # Nearest neighbours are one step apart. D = ½ d² n / (2 σ²) with n observations of variance σ² = 2 on each side.
    lost, shared = 0.5 * 1.0 * 50 / (2 * 2.0), 25.0
    assert apart.likeness.lost[0, 1] == pytest.approx(lost, rel=1e-3)
    assert apart.likeness.usual < lost / shared


def test_a_site_that_agrees_with_both_parties_does_not_make_them_agree():
    """Six means at zero, three precise ones at two, and one that hardly knows: it agrees with either side, so that all
    begin as one. Then nobody agrees with the others, then again all with the little that is left, and so on."""
    group = group_of(means_of(*((0.02 * site, 200) for site in range(6)), *[(2.0, 300)] * 3, (1.0, 1)))
    begun = slot_weights(group, [0] * 10, np.ones(10), 1)
    assert begun.stabilised().weights[:9].max() < 1.0, "all together do not last"
    reached = weigh(group, np.zeros(10, dtype=np.intp), 1)
    np.testing.assert_array_equal(reached.weights[:9], [1.0] * 6 + [0.0] * 3)


def test_a_claim_is_refuted_at_the_evidence_that_it_claims():
    """Near 100 observations of others: 30 cannot tell, the 2,000 that a site claims can."""
    others = [(0.001 * site, 20) for site in range(5)]
    modest, bold = (group_of(means_of(*others, (0.6, count)), cap=1.5) for count in (30, 2000))
    assert bold.scale[5] == pytest.approx(30 / 2000), "what it counts for is another question"
    weights = [weigh(group, np.zeros(6, dtype=np.intp), 1).weights[5] for group in (modest, bold)]
    assert weights[0] == 1.0 > weights[1]
    # ½ d² / (1 / P + 1 / Q) with precisions P and Q.
    rest = [np.zeros_like(rows) + rows[:5].sum(axis=0) for rows in bold.rows], np.full(6, 100.0)
    assert bold.claim_losses(rest)[5] == pytest.approx(0.5 * 0.6**2 / (2.0 / 100 + 2.0 / 2000), rel=0.01)


def test_a_site_may_not_be_further_off_the_more_it_claims():
    """Eight means differ by more than chance; a ninth is far off, with ten or a thousand times their evidence."""
    others = [(float(site), 50) for site in range(8)]
    groups = [group_of(means_of(*others, (40.0, 50 * claim)), cap=1.5) for claim in (10, 1000)]
    assert groups[0].likeness.usual > 0.0
    few, many = (weigh(group, np.zeros(9, dtype=np.intp), 1) for group in groups)
    assert few.tolerance[8] == pytest.approx(many.tolerance[8], rel=0.01)
    assert few.weights[8] == many.weights[8] == 0.0


def test_what_a_row_moves_is_what_the_others_lose_at_the_common_peak(rng):
    """For means of known variance: ½ P δ², δ the way that the others' mean of precision P moves."""
    group = group_of(means_of((0.0, 50), (1.5, 10), (-0.7, 70)))
    rest = [np.tile(rows[:1], (2, 1)) for rows in group.rows], group.evidence[[0, 0]]
    amounts = np.array([[1.0, 1.0], [3.0, 3.0]])
    mine = [amounts[..., None] * rows[1:] for rows in group.rows], amounts * group.evidence[1:]
    counts = amounts * [10, 70]
    moves = np.array([1.5, -0.7]) * counts / (50 + counts)
    np.testing.assert_allclose(group.moved(mine, rest), 0.5 * 25.0 * moves**2, rtol=1e-2)


def test_no_site_votes_with_far_more_about_a_coefficient_than_others():
    """A column in units a hundred times smaller: ten thousand times the precision, with as many rows."""
    rng = np.random.default_rng(0)
    model = db.LinearRegression.from_frame({"y": rng.normal(size=20), "a": rng.normal(size=20)}, "y ~ a")
    warnings.simplefilter("ignore", UserWarning)
    frames = [{"a": rng.normal(size=60)} for _ in range(5)]
    for site, frame in enumerate(frames):
        frame["y"] = frame["a"] + rng.normal(size=60)
        frame["a"] = frame["a"] * (100.0 if site == 0 else 1.0)
    group = group_of([model.fit(model.points(frame)).posterior for frame in frames], cap=1.5)
    assert group.scale[0] < 1.5 / 5_000
    assert group.scale[1:].min() > 0.5


@pytest.mark.parametrize("own", [0, 1, 2])
def test_what_a_mixture_of_slots_loses_is_what_a_calculation_by_hand_says(own, rng):
    """Eight steps of EM from 90 % in its own slot, number by number; then D of all slots with and without it.

    The third slot is empty but for the component at most, which is in the core: it is not compared with itself.
    """
    rows = [np.array([[50.0, 30.0, 10.0, 2.0], [3.0, 12.0, 40.0, 21.0]]) + rng.integers(9, size=(2, 4)) for _ in "abc"]
    component = np.array([9.0, 17.0, 25.0, 4.0])
    group = group_of([*map(posterior, rows), posterior([component])])
    labels = np.array([*(int(row[0] < row[2]) for row in group.rows[0][:-1]), own])
    reached = slot_weights(group, labels, [1.0] * 7, 3)
    (lost,) = mixture_losses(reached, reached.totals()[0][0], 3)
    rest = [sum(site[slot] for site in rows) for slot in range(2)] + [np.zeros(4)]
    profiles = [[(rest[k][v] + 0.01) / (sum(rest[k]) + 0.04) for v in range(4)] for k in range(3)]
    shares = [0.1 / 3 + 0.9 * (own == k) for k in range(2)] + [1e-9]
    for _ in range(8):
        moved = [0.0] * 3
        for v in range(4):
            joint = [shares[k] * profiles[k][v] for k in range(3)]
            moved = [moved[k] + component[v] * joint[k] / sum(joint) for k in range(3)]
        moved = [max(each, 1e-9) for each in moved]
        shares = [each / sum(moved) for each in moved]
    divergence, mixed = 0.0, np.zeros(4)
    for k in range(3):
        part = np.array([component[v] * shares[k] * profiles[k][v] / sum(shares[j] * profiles[j][v] for j in range(3))
                         for v in range(4)])  # fmt: skip
        after = (rest[k] + part) / (rest[k].sum() + part.sum())
        mixed += part.sum() * after / component.sum()
        divergence += sum(n * np.log(n / rest[k].sum() / p) for n, p in zip(rest[k], after, strict=True) if n)
    divergence += sum(n * np.log(n / component.sum() / p) for n, p in zip(component, mixed, strict=True))
    assert lost == pytest.approx(divergence, rel=1e-6)
    assert lost > 1.0


@pytest.mark.parametrize(("spoilt", "counts"), [(0.0, True), (0.3, False)])
def test_a_large_site_counts_in_full_if_it_describes_the_topics_of_small_ones_better(spoilt, counts):
    """Topics of few words are far from the true ones; those of a large site are not, unless it has made some up."""
    rng = np.random.default_rng(0)
    truth, lie = rng.dirichlet(np.full(60, 0.3), 3), rng.dirichlet(np.full(60, 0.3), 3)
    small = [posterior([rng.multinomial(60, row) for row in truth]) for _ in range(5)]
    large = posterior([rng.multinomial(20_000, row) for row in (1 - spoilt) * truth + spoilt * lie])
    group = group_of([*small, large], cap=1.5)
    assert vouched(slot_weights(group, group.row, np.ones(len(group.site)), 3)).tolist() == 5 * [False] + [counts]


def test_large_sites_with_the_same_lie_do_not_vouch_for_each_other():
    rng = np.random.default_rng(0)
    truth, lie = rng.dirichlet(np.full(60, 0.3), 3), rng.dirichlet(np.full(60, 0.3), 3)
    small = [posterior([rng.multinomial(60, row) for row in truth]) for _ in range(6)]
    large = [posterior([rng.multinomial(20_000, row) for row in 0.5 * (truth + lie)]) for _ in range(2)]
    group = group_of([*small, *large], cap=1.5)
    assert not vouched(slot_weights(group, group.row, np.ones(len(group.site)), 3)).any()


def test_a_large_site_with_topics_of_its_own_counts_up_to_the_cap():
    """Nobody else describes them, and they describe nobody."""
    rng = np.random.default_rng(0)
    truth = np.kron(np.eye(6), np.full(10, 0.1))
    small = [posterior([rng.multinomial(60, row) for row in truth[:3]]) for _ in range(5)]
    large = posterior([rng.multinomial(20_000, row) for row in truth[3:]])
    group = group_of([*small, large], cap=1.5)
    labels = np.where(group.site == 5, 3 + group.row, group.row)
    weighed = slot_weights(group, labels, np.ones(len(group.site)), 6)
    assert gain_of_others(weighed, 5) < 0.0
    assert not vouched(weighed).any()


@pytest.mark.parametrize(
    ("evidence", "weight", "lost", "hardly"),
    [(90.0, 0.8, 1.0, True), (90.0, 0.6, 1.0, False), (15.0, 0.2, 1.0, True), (15.0, 0.2, 1e4, False)],
)
def test_a_site_hardly_disagrees_if_next_to_nothing_of_it_would_not_count(evidence, weight, lost, hardly):
    """One of 41 components counts for this much; what clearly disagrees is never next to nothing."""
    rows = [[50.0, 50.0]] * 40 + [[0.5 * evidence, 0.5 * evidence]]
    group = group_of([posterior(rows), posterior(rows)])
    less = (group.evidence == evidence) & (group.site == 0)
    part = slot_weights(group, np.zeros(82, dtype=np.intp), np.where(less, weight, 1.0), 1)
    np.testing.assert_array_equal(hardly_disagreeing(replace(part, lost=np.where(less, lost, 0.0))), [hardly, True])
