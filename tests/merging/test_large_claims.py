"""Sites that claim more than others about the coefficients of a regression are judged together.

Each site sends N(m, P⁻¹) about three coefficients, so that everything can be computed by hand.
"""

import numpy as np
import pytest
from test_votes import group_of, slot_weights

import decbayes as db
from decbayes.merging import aligning, robust_merge
from decbayes.merging.robust import _slots, votes
from decbayes.merging.robust._large_sites import uncapped
from decbayes.merging.robust._likeness import Likeness
from decbayes.posterior import Posterior

MODEL = db.LogisticRegression("y", columns={"y": "yes/no", "a": "real", "b": "real"})
USUAL = 100.0


def sent(mean, precision):
    precision = np.broadcast_to(precision, 3)
    rows = MODEL.structure.families["coefficients"].natural(mean=[mean], covariance=np.diag(1.0 / precision))
    return Posterior(MODEL.structure, {"coefficients": rows})


def honest(rng, count, precision=USUAL):
    return [sent(rng.normal(size=3) / np.sqrt(precision), precision) for _ in range(count)]


def moved(merged, reference):
    """How far the worst coefficient is from that of the honest sites' merge, in deviations."""
    right, spread = reference.mean("coefficients"), reference.deviation("coefficients")
    return np.abs((merged.mean("coefficients") - right) / spread).max()


def weighed(sites, weights=None):
    group = group_of(sites, cap=1.5)
    return slot_weights(group, [0] * len(sites), [1.0] * len(sites) if weights is None else weights, 1)


def test_two_of_three_sites_that_agree_are_not_left_out_for_the_third():
    """The large site has half a vote, and the other one less if it differs from that by a little more than usual."""
    model, out = db.LinearRegression("y", columns=dict.fromkeys(["a", "b", "y"], "real")), []
    for seed in range(30):
        rng, sites = np.random.default_rng(seed), []
        for size, sign in ((2000, 1.0), (300, 1.0), (100, -1.0)):
            columns = rng.normal(size=(size, 2))
            y = 5.0 + columns @ [1.0, -1.0] + rng.normal(size=size)
            sites.append(model.fit(np.column_stack([columns, sign * y])).posterior)
        out.append([site.is_out for site in robust_merge(sites).sites])
    assert out == [[False, False, True]] * 30


def test_three_of_ten_that_inflate_their_evidence_hardly_move_the_merge():
    """Each is two of its own deviations off, which is within the tolerance of most. Judged one by one, they would move
    the merge by more than a deviation in 20 of these 40 worlds, by 1.2 on average."""
    rng, away = np.random.default_rng(0), []
    for _ in range(40):
        sites = honest(rng, 7)
        liars = [sent(rng.normal(size=3) / 10.0 + [0.2, 0.0, 0.0], 5.0 * USUAL) for _ in range(3)]
        away.append(moved(robust_merge([*liars, *sites]).posterior, db.merging.product(sites)))
    assert np.mean(away) < 0.7
    assert np.mean(np.array(away) > 1.0) < 0.15


@pytest.mark.parametrize("seed", range(3))
def test_three_of_ten_in_other_units_that_each_other_site_tolerates_hardly_move_the_merge(seed):
    """All others are about two deviations from the lie, together five. Judged one by one, the three would move the
    merge by four."""
    rng = np.random.default_rng(seed)
    sites = [sent(0.5 * rng.normal(size=3) / 10.0 + [0.2, 0.0, 0.0], USUAL) for _ in range(7)]
    precise = np.array([100.0, 1.0, 1.0]) * USUAL
    liars = [sent(rng.normal(size=3) / np.sqrt(precise) + [0.02, 0.0, 0.0], precise) for _ in range(3)]
    assert moved(robust_merge([*liars, *sites]).posterior, db.merge(sites)) < 1.0


def test_large_sites_that_agree_as_well_as_they_claim_count_in_full():
    rng = np.random.default_rng(0)
    large = [sent(0.5 * rng.normal(size=3) / np.sqrt(5.0 * USUAL), 5.0 * USUAL) for _ in range(3)]
    sites = [*large, *honest(rng, 7)]
    merged = robust_merge(sites)
    assert {standing.counts for standing in merged.sites} == {1.0}
    assert merged.posterior == db.merge(sites)


@pytest.mark.parametrize("away", [0.01, 0.07, 0.18, 0.5])
@pytest.mark.parametrize("large", [1, 2, 3])
def test_sites_that_claim_more_about_everything_move_the_others_by_a_deviation_or_less(away, large):
    """k sites of precision 500 that agree with each other, and 10 − k of precision 100 at zero. Together they lose
    ½ d² / (1 / 500 k + 1 / 100 (10 − k)) nats; chance explains 1.5 k + √(1.5 k)."""
    claims = [sent([away, 0.0, 0.0], 5.0 * USUAL)] * large
    shares = uncapped(weighed([*claims, *([sent(np.zeros(3), USUAL)] * (10 - large))]))
    np.testing.assert_array_equal(shares[large:], 1.0)
    np.testing.assert_allclose(shares[:large], shares[0])
    others, claim = (10 - large) * USUAL, 5.0 * USUAL * large
    lost, by_chance = 0.5 * away**2 / (1.0 / claim + 1.0 / others), 1.5 * large + np.sqrt(1.5 * large)
    limit, counted = (1.0 if lost <= by_chance else 0.6), shares[0] * claim
    moves = away * counted / (others + counted) * np.sqrt(others)
    assert moves <= limit + 1e-3
    by_excess = pytest.approx(min(1.0, (by_chance / lost) ** 2), rel=1e-3)
    assert shares[0] == by_excess or moves == pytest.approx(limit, abs=1e-3)


def test_a_site_that_claims_too_much_about_some_coefficients_counts_by_the_square_of_its_excess():
    """It knows two coefficients five times as well as others, and the third one as well as they do."""
    precision = np.array([5.0, 5.0, 1.0]) * USUAL
    group = weighed([sent([0.12, -0.09, 0.0], precision), *([sent(np.zeros(3), USUAL)] * 9)])
    lost = 0.5 * (0.12**2 + 0.09**2) / (1.0 / 500.0 + 1.0 / 900.0)
    by_chance = 1.0 + np.sqrt(1.0)  # of two coefficients
    assert uncapped(group)[0] == pytest.approx((by_chance / lost) ** 2, rel=1e-3)


def test_a_claim_is_not_doubted_for_a_coefficient_about_which_it_claims_no_more_than_others():
    """Of six sites one is 3.5 deviations off in a coefficient that all know equally well, and right in those that it
    knows best: an honest site's intercept may be. All others moved by a deviation if it counted for a third."""
    precision = np.array([5.0, 5.0, 1.0]) * USUAL
    off = 3.5 * np.sqrt(1.0 / 100.0 + 1.0 / 500.0)
    shares = uncapped(weighed([sent([0.0, 0.0, off], precision), *([sent(np.zeros(3), USUAL)] * 5)]))
    np.testing.assert_array_equal(shares, 1.0)


def test_few_large_sites_are_compared_with_all_that_are_not_excluded():
    """A small site that disagrees with them speaks against them; one that disagrees with everybody does not."""
    precise = np.array([100.0, 1.0, 1.0]) * USUAL
    sites = [*([sent(np.zeros(3), precise)] * 3), *([sent([0.13, 0.0, 0.0], USUAL)] * 6)]
    heard, silent = (
        uncapped(weighed([*sites, sent([away, 0.0, 0.0], USUAL)], [1.0] * 9 + [weight]))[0]
        for away, weight in ((0.3, 0.1), (9.0, 0.0))
    )
    assert heard < 0.01 < silent


def test_sites_that_are_doubted_stay_at_the_cap():
    group = weighed([sent([0.5, 0.0, 0.0], 5.0 * USUAL), *([sent(np.zeros(3), USUAL)] * 9)], [0.3] + [1.0] * 9)
    np.testing.assert_allclose(uncapped(group), [0.3, *[1.0] * 9])


def test_a_doubted_site_casts_no_doubt_on_another_large_one():
    group = weighed(
        [sent([0.5, 0.0, 0.0], 6.0 * USUAL), *([sent(np.zeros(3), 5.0 * USUAL)] * 2)] + [sent(np.zeros(3), USUAL)] * 7,
        [0.3] + [1.0] * 9,
    )
    np.testing.assert_array_equal(uncapped(group)[1:], 1.0)


def test_a_site_that_claims_no_more_than_most_about_any_coefficient_counts_in_full():
    """Others know two coefficients as well, and one badly: its typical claim is larger, but no single one is."""
    others = [sent([0.2, 0.0, 0.0], np.roll([1.0, 1.0, 0.1], site % 3) * USUAL) for site in range(9)]
    group = weighed([sent(np.zeros(3), USUAL), *others])
    assert group.group.typical_scale[0] < 1.0 == group.group.coefficient_scale[0].min()
    np.testing.assert_array_equal(uncapped(group), 1.0)


def test_a_site_that_knows_one_coefficient_very_well_does_not_hide_one_that_claims_too_much_about_all():
    """It has more evidence in all, but its typical claim is smaller. One of six sites may be faulty."""
    known, inflated = sent(np.zeros(3), np.array([40.0, 1.0, 1.0]) * USUAL), sent([0.0, 0.3, 0.0], 5.0 * USUAL)
    shares = uncapped(weighed([inflated, known, *([sent(np.zeros(3), USUAL)] * 4)]))
    assert shares[0] < 0.2
    np.testing.assert_array_equal(shares[1:], 1.0)


def test_a_claim_is_the_geometric_mean_over_the_coefficients_a_site_knows():
    precision = np.array([[1.0, 2.0, 4.0], [1.0, 2.0, 0.0], [1.0, 2.0, 4.0], [8.0, 16.0, 0.0], [0.0, 0.0, 0.0]])
    np.testing.assert_allclose(votes.typical_ratios(precision), [1.0, 1.0, 1.0, 8.0, 0.0])


@pytest.mark.parametrize("cap", [np.inf, 1.5])
def test_components_are_weighed_against_the_rest_of_the_core(cap, rng):
    """Sums that are computed once give what all others would, one by one."""
    group = group_of([*honest(rng, 6), sent([0.5, 0.0, 0.0], USUAL), sent([0.1, 0.0, 0.0], 5.0 * USUAL)], cap=cap)
    begun = slot_weights(group, [0] * 8, [1.0] * 4 + [0.5] * 2 + [0.0, 1.0], 1)
    for now, then in zip(begun.against_core().verdict, begun.reweighed(begun.others()).verdict, strict=True):
        np.testing.assert_allclose(now, then, rtol=1e-6)


def test_parties_that_exclude_each_other_alternate_no_longer_than_needed(rng, monkeypatch):
    """Two and two far apart: nobody is in the core, then everybody, and so on."""
    group = group_of([sent([0.02 * n + 9.0 * (n > 1), 0.0, 0.0], USUAL) for n in range(4)])
    rounds, weigh = [], _slots.SlotWeights.against_core
    monkeypatch.setattr(_slots.SlotWeights, "against_core", lambda self: rounds.append(1) or weigh(self))
    reached = slot_weights(group, [0] * 4, [1.0] * 4, 1).stabilised()
    assert len(rounds) == 2
    np.testing.assert_array_equal(reached.core, 0.0)


def test_exact_copies_are_not_compared_in_pairs(rng, monkeypatch):
    sites, compared, among = honest(rng, 6), [], Likeness.among
    monkeypatch.setattr(Likeness, "among", lambda group: compared.append(group.sites) or among(group))
    merged = robust_merge([*sites, sites[2], sites[2]])
    assert compared == [6]
    assert [standing.copy_of for standing in merged.sites] == [None] * 6 + [2, 2]


@pytest.mark.parametrize("change", [1e-7, -1e-7])
def test_a_copy_of_a_near_copy_repeats_the_first(change, rng):
    sites = honest(rng, 6)
    shift = {"coefficients": sites[1].contribution["coefficients"] * np.append(np.ones(3), np.full(9, 1.0 + change))}
    near = Posterior(MODEL.structure, shift)
    copies = [standing.copy_of for standing in robust_merge([*sites, near, near]).sites]
    first = [site for site in (1, 6, 7) if copies[site] is None]
    assert len(first) == 1
    assert {copies[site] for site in (1, 6, 7)} == {None, first[0]}


def test_what_counts_is_recentred_once(rng, monkeypatch):
    monkeypatch.setattr(aligning, "recentred", lambda given: pytest.fail("again"))
    robust_merge(honest(rng, 5))
