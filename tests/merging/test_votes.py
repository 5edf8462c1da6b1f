"""The parts of a robust merge: what components lose, what is tolerated, who is heard, and who is given a slot."""

from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.sparse import csr_array
from scipy.stats import chi2, chi2_contingency
from structures import draw, everything
from test_grouping import posterior

import decbayes as db
from decbayes.families import FullGaussian, Transitions
from decbayes.merging import robust_merge
from decbayes.merging.base.canonical import canonical_order
from decbayes.merging.robust import _ballot, _copies, _likeness, votes
from decbayes.merging.robust._allowances import mixture_losses
from decbayes.merging.robust._ballot import Ballot, by_label, weighted_part
from decbayes.merging.robust._slots import SlotWeights, elected, starting_candidates, trust

MEAN = db.models.GaussianMean(variance=2.0, prior_variance=1e6, dimension=1)
MIXTURE = db.GaussianMixture(3, 1, variance=1.0, prior_variance=1e4, ascent=db.Ascent(restarts=0))


def group_of(posteriors, cap=np.inf):
    """The components of all sites, as a robust merge compares them."""
    _, readings = canonical_order(posteriors)
    return Ballot(posteriors, [reading.components for reading in readings], cap, False, True).groups[0]


def means_of(*pairs):
    """Sites with so many observations that all have one value."""
    return [MEAN.fit(np.full((count, 1), float(value))).posterior for value, count in pairs]


def half_g(first, second):
    """Half of the likelihood-ratio statistic for two rows of counts being of one distribution."""
    table = np.array([first, second])
    table = table[:, table.any(axis=0)]
    return 0.5 * chi2_contingency(table, correction=False, lambda_="log-likelihood").statistic


def counted(rng, *topics, words=1000):
    return [rng.multinomial(words, topic).astype(float) for topic in topics]


def test_what_counts_lose_is_half_a_likelihood_ratio(rng):
    first, second = counted(rng, [0.5, 0.3, 0.2, 0.0], [0.1, 0.4, 0.2, 0.3])
    group = group_of([posterior([first]), posterior([second])])
    expected = half_g(first, second)
    np.testing.assert_allclose(group.likeness.lost[[0, 1], [1, 0]], expected)
    nothing = np.zeros((1, 4)), np.zeros(1)
    own = [first[None]], np.array([1000.0])
    assert group.losses(own, ([nothing[0]], nothing[1])) == 0.0
    np.testing.assert_allclose(group.losses(own, ([second[None]], np.array([1000.0]))), expected)


def test_those_compared_with_speak_with_the_evidence_in_the_middle_at_least(rng):
    rows = counted(rng, [0.5, 0.3, 0.2], [0.4, 0.4, 0.2], [0.5, 0.2, 0.3])
    rows[2] = rows[2] / 10.0
    group = group_of([posterior([row]) for row in rows])
    lost = group.likeness.lost
    assert lost[0, 1] == pytest.approx(half_g(rows[0], rows[1]))
    assert lost[0, 2] == pytest.approx(half_g(rows[0], 10.0 * rows[2]))
    assert lost[2, 0] == pytest.approx(half_g(rows[2], rows[0]))


def test_chance_makes_half_a_chi_square_and_a_few_deviations_of_it_are_tolerated():
    for parameters in (1.0, 7.0, 200.0):
        half = chi2(parameters).mean() / 2, chi2(parameters).std() / 2
        chance = half[0] + 2.5 * half[1]
        assert _likeness.tolerated(np.array(parameters), 40.0, 0.0) == pytest.approx(chance)
        assert _likeness.tolerated(np.array(parameters), 40.0, chance / 50.0) == pytest.approx(2.0 * chance)
        assert _likeness.tolerated(np.array(parameters), 40.0, chance / 101.0) == pytest.approx(chance)


def test_weights_fall_with_the_square_of_the_loss_and_vanish_at_three_times_the_tolerance():
    lost = 4.0 * np.array([0.0, 0.5, 1.0, 1.5, 2.0, 2.99, 3.01])
    np.testing.assert_allclose(_likeness.weights_of(lost, np.array(4.0)), [1, 1, 1, 1 / 2.25, 0.25, 1 / 2.99**2, 0.0])


def test_sites_agree_in_full_as_far_as_chance_goes_on_average_and_not_at_all_beyond_the_tolerance():
    parameters = np.full(4, 6.0)
    tolerance = chi2(6).mean() / 2 + 2.5 * chi2(6).std() / 2
    lost = np.array([1.0, chi2(6).mean() / 2, chi2(6).mean() / 2 + chi2(6).std() / 2, tolerance])
    np.testing.assert_allclose(_likeness.agreement(lost, np.full(4, tolerance), parameters), [1, 1, 0.6, 0], atol=1e-12)


def test_a_third_of_faulty_sites_does_not_make_disagreement_usual():
    """Three of ten means lie far off, each elsewhere; the others are a deviation of 0.2 apart, as chance makes it."""
    honest = [(0.2 * deviations, 50) for deviations in (-1.3, -0.8, -0.4, 0.0, 0.4, 0.8, 1.3)]
    assert group_of(means_of(*honest, (30.0, 50), (-40.0, 50), (50.0, 50))).likeness.usual == 0.0


def test_a_comparison_rests_on_the_observations_of_both():
    """The variance of a difference of means is σ² (1/n + 1/m)."""
    np.testing.assert_allclose(1.0 / _likeness.in_common(np.array([3.0, 8.0]), np.array([6.0, 8.0])), [0.5, 0.25])
    assert _likeness.in_common(np.array([0.0]), np.array([0.0])) == 0.0


@pytest.mark.parametrize("cap", [1.0, 1.5])
def test_nobody_votes_with_more_than_the_cap(cap):
    evidence = np.array([0.0, 10.0, 20.0, 30.0, 400.0])
    voting = evidence * votes.capped(evidence, cap)
    np.testing.assert_allclose(voting, np.minimum(evidence, cap * 25.0))
    np.testing.assert_array_equal(votes.capped(np.zeros(3), cap), 1.0)


def test_a_factor_is_believed_if_it_claims_over_twice_the_observations():
    """In units of the usual claim, three per observation."""
    evidence, claims = np.full(6, 10.0), np.array([30.0, 30.0, 30.0, 90.0, 50.0, 0.0])
    np.testing.assert_allclose(votes.claimed(evidence, claims), [10, 10, 10, 30, 10, 10])
    np.testing.assert_array_equal(votes.claimed(evidence, np.zeros(6)), evidence)


def test_rare_columns_are_compared_as_one(monkeypatch):
    counts = np.array([[5.0, -0.1, 1.0, 9.0, 2.0], [4.0, 3.0, 1.0, 9.0, -5.0]])
    counts, given = np.maximum(counts, 0.0), counts
    np.testing.assert_array_equal(votes.frequent(csr_array(given)), counts)
    monkeypatch.setattr(votes, "COLUMNS", 2)
    found = votes.frequent(csr_array(given))
    np.testing.assert_array_equal(found, np.column_stack([counts[:, [3, 0]], counts[:, [1, 2, 4]].sum(axis=1)]))


@pytest.mark.parametrize(("rows", "enough"), [([100.0, 3.0, 1.0, 0.0], 5.2), ([100.0, 3.0, 1.0] + [0.0] * 7, 2.6)])
def test_sites_vote_fully_for_what_holds_a_twentieth_or_a_quarter_of_the_average(rows, enough):
    group = group_of([posterior([[count, 0.0, 0.0] for count in rows])])
    np.testing.assert_allclose(np.sort(group.votes), np.sort(np.minimum(np.array(rows) / enough, 1.0)))


def test_parameters_are_those_that_data_can_tell_apart(rng):
    group = group_of([posterior([[40.0, 3.0, 0.25, 0.0], [9.0, 0.0, 0.0, 0.0]])])
    np.testing.assert_allclose(np.sort(group.parameters), [1.0, 1.25])
    plane = db.models.GaussianMean(variance=2.0, prior_variance=1e6, dimension=2)
    np.testing.assert_allclose(group_of([plane.fit(np.ones((9, 2))).posterior]).parameters, 2.0)


def test_the_usual_loss_is_the_quarter_of_what_nearest_components_lose(rng):
    truth = rng.dirichlet(np.ones(8), size=2)
    rows = [counted(rng, *truth, words=500 + 100 * site) for site in range(5)]
    group = group_of([posterior(site_rows) for site_rows in rows])
    flat = group.rows[0]
    rates = []
    for one in range(10):
        pairs = [other for other in range(10) if group.site[other] != group.site[one]]
        middle = np.median(group.evidence)
        louder = {other: max(1.0, middle / group.evidence[other]) for other in pairs}
        shared = {o: 1.0 / (1.0 / flat[one].sum() + 1.0 / (louder[o] * flat[o].sum())) for o in pairs}
        rates.append(min(half_g(flat[one], louder[other] * flat[other]) / shared[other] for other in pairs))
    assert group.likeness.usual == pytest.approx(np.quantile(rates, 0.25))


def test_means_that_differ_by_chance_are_tolerated_as_chance_is_and_others_more(rng):
    alike, unlike = (
        group_of(means_of(*((value, 50) for value in rng.normal(0.0, spread, size=12)))) for spread in (0.2, 3.0)
    )
    chance = chi2(1).mean() / 2 + 2.5 * chi2(1).std() / 2
    shared = _likeness.in_common(alike.evidence, alike.evidence)
    np.testing.assert_allclose(alike.tolerance(shared), chance)
    assert (unlike.tolerance(shared) > 5.0 * chance).all()


def slot_weights(group, labels, weights, slots):
    return SlotWeights(group, slots, np.array(labels), np.array(weights), *np.zeros((2, len(labels))))


def test_a_site_has_one_vote_per_slot():
    group = group_of([posterior([[50.0, 0.0], [0.0, 50.0]]), posterior([[50.0, 1.0], [1.0, 50.0]])])
    reached = slot_weights(group, [0, 0, 1, 1], [0.3, 1.0, 0.2, 0.0], 3)
    np.testing.assert_allclose(reached.votes, [[1.0, 0.0, 0.0], [0.0, 0.2, 0.0]])
    (totals,), evidence = reached.totals()
    np.testing.assert_allclose(totals, [group.rows[0][1], [0, 0], [0, 0]])
    np.testing.assert_allclose(evidence, [50.0, 0.0, 0.0])


def test_a_slot_begins_with_what_most_sites_agree_with():
    group = group_of(
        means_of(*((0.01 * site, 30) for site in range(4)), *((9.0 + 0.01 * site, 30) for site in range(3)))
    )
    chosen = starting_candidates(group, np.zeros(7, dtype=np.intp), 2)
    assert chosen[0, 0] < 4
    assert chosen[-1, 0] >= 4
    np.testing.assert_array_equal(chosen[:, 1], -1)


def electorate(rng, sites, kinds):
    """One component per site, each of some kind; components agree with those of their kind, more or less."""
    kind = np.asarray(kinds)
    weights = np.where(
        kind[:, None] == kind, rng.uniform(0.6, 1.0, size=(sites, sites)), rng.uniform(0, 0.1, (sites, sites))
    )
    likeness = SimpleNamespace(weights=weights)
    return SimpleNamespace(site=np.arange(sites), sites=sites, votes=np.ones(sites), likeness=likeness)


@pytest.mark.parametrize("seed", range(8))
def test_no_other_choice_of_candidates_is_heard_by_more(seed):
    rng = np.random.default_rng(seed)
    group = electorate(rng, 9, rng.integers(4, size=9))
    weights = group.likeness.weights
    best = max(weights[:, list(some)].max(axis=1).sum() for some in combinations(range(9), 3))
    chosen = elected(group, 3, 0)
    assert len(set(chosen.tolist())) == 3
    assert weights[:, chosen].max(axis=1).sum() == pytest.approx(best, rel=0.01)


@pytest.mark.parametrize(
    ("kinds", "slots"), [([0, 0, 0, 1, 1, 1, 2, 2, 2, 3], 3), ([0, 0, 1, 1], 2), ([0, 0, 1, 2], 1)]
)
def test_spare_slots_are_for_what_two_sites_share(kinds, slots):
    group = electorate(np.random.default_rng(0), len(kinds), kinds)
    group.likeness.weights = np.equal.outer(kinds, kinds).astype(float)
    assert len(elected(group, 1, 5)) == slots


def topic_sites(rng):
    first, second = np.array([6, 3, 1, 0, 0, 0]) / 10.0, np.array([0, 0, 0, 5, 4, 1]) / 10.0
    rows = [counted(rng, first, second) for _ in range(3)]
    return first, second, rows


def loss_in(rng, component, *, slots=2):
    """What a component of a fourth site loses as a mixture of the slots of three others."""
    _, _, rows = topic_sites(rng)
    kept = [site_rows[:slots] for site_rows in rows]
    group = group_of([posterior(site_rows) for site_rows in [*kept, [component]]])
    first = np.array([row[:3].sum() > row[3:].sum() for row in group.rows[0]])
    reached = slot_weights(group, np.where(first, 0, slots - 1), [1.0] * (3 * slots) + [0.0], slots)
    totals = [np.sum([site_rows[slot] for site_rows in kept], axis=0) for slot in range(slots)]
    (lost,) = mixture_losses(reached, reached.totals()[0][0], 3)
    return lost, totals


def test_as_a_mixture_of_one_slot_a_component_loses_what_it_loses_beside_it(rng):
    component = rng.multinomial(300, [0.4, 0.4, 0.2, 0, 0, 0]).astype(float)
    lost, (total,) = loss_in(rng, component, slots=1)
    assert lost == pytest.approx(half_g(component, total), rel=1e-6)


def test_a_component_that_uses_one_slot_loses_what_it_loses_beside_that_one(rng):
    component = rng.multinomial(300, [0.4, 0.4, 0.2, 0, 0, 0]).astype(float)
    lost, totals = loss_in(rng, component)
    assert lost == pytest.approx(half_g(component, totals[0]), rel=1e-3)


@pytest.mark.parametrize("share", [0.3, 0.6])
def test_a_mixture_of_slots_loses_what_chance_makes_of_it(share, rng):
    first, second, _ = topic_sites(rng)
    component = rng.multinomial(400, share * first + (1.0 - share) * second).astype(float)
    lost, totals = loss_in(rng, component)
    assert lost < _likeness.tolerated(np.array(5.0), 0.0, 0.0)
    assert min(half_g(component, total) for total in totals) > 100.0
    # The best shares by a general optimiser: what the slots' own counts lose is small beside 3,000 of each.
    profiles = np.array([total / total.sum() for total in totals])

    def explained(logit):
        return -(component @ np.log(np.array([1.0, np.exp(logit[0])]) @ profiles / (1.0 + np.exp(logit[0])) + 1e-300))

    known = component[component > 0]
    expected = minimize(explained, [0.0]).fun + (known * np.log(known / known.sum())).sum()
    assert lost == pytest.approx(expected, rel=0.2)


@pytest.mark.parametrize("away", [0.0, 0.25, 0.52, 0.9])
def test_a_large_site_counts_as_far_as_it_moves_the_others_by_a_deviation(away):
    """Their mean of precision 50 moves by d Q / (50 + Q). It loses ½ d² / (1 / 50 + 1 / Q), Q what it claims."""
    merged = robust_merge(means_of(*((0.05 * site, 20) for site in range(-2, 3)), (away, 2000)))
    by_chance, capped = 0.5 * chi2(1).isf(0.05 / 6), 30.0 / 2000.0

    def moved(counts):
        return np.sqrt(50.0) * away * 1000.0 * counts / (50.0 + 1000.0 * counts)

    counts, step = merged.weights[5, 0], capped ** (-1.0 / 11.0)
    lost = 0.5 * away**2 / (1 / 50.0 + 1 / 1000.0)
    if lost > by_chance:
        weight = (by_chance / lost) ** 2 if lost <= 3.0 * (0.5 + 2.5 * np.sqrt(0.5)) else 0.0
        assert weight < 0.4, "else it counts for more"
        assert counts == pytest.approx(capped * weight, rel=0.01)
    else:
        assert counts == 1.0 or moved(counts) <= 1.0 < moved(counts * step)
    assert (counts == 1.0) == (moved(1.0) <= 1.0)


def clustered(sizes, moved=0.0):
    """A site with so many points in each of three clusters far apart; the first may be elsewhere."""
    rng = np.random.default_rng(sizes)
    parts = [
        centre + rng.normal(size=(size, 1)) for centre, size in zip((-100.0 + moved, 0.0, 100.0), sizes, strict=True)
    ]
    return MIXTURE.fit(np.concatenate(parts), rng=rng).posterior


def rows_at(part, centres):
    """The component that is nearest to each centre: its number."""
    means = part.mean("components")[:, 0]
    return [int(np.argmin(np.abs(means - centre))) for centre in centres]


@pytest.fixture(scope="module")
def displaced():
    """One of eight sites has a fifth of its points elsewhere."""
    sites = [clustered((30 + site, 30, 30 - site)) for site in range(1, 8)]
    return robust_merge([clustered((18, 45, 27), moved=7.0), *sites]), clustered((18, 45, 27), moved=7.0), sites


def test_standings_are_shares_of_a_sites_evidence(displaced):
    merged, _, _ = displaced
    standing = merged.sites[0]
    assert standing.against == pytest.approx(0.2, abs=1e-6)
    assert (standing.counts, 0 in merged.merged) == (0.0, False)
    np.testing.assert_array_equal(merged.weights[0], 0.0)
    np.testing.assert_array_equal(merged.weights[1:], 1.0)
    for other in merged.sites[1:]:
        assert (other.counts, other.against, other.alone) == (1.0, 0.0, 0.0)


def test_without_those_who_clearly_disagree_it_is_the_usual_merge_of_the_others(displaced):
    merged, _, sites = displaced
    assert merged.posterior == db.merge(sites)
    assert merged.posterior == robust_merge(sites).posterior


def test_sites_that_disagree_are_left_out_only_if_they_are_fewer_than_the_others():
    """Two parties of three, each of which clearly contradicts the other in one of three clusters."""
    sites = [clustered((30 + site, 40, 30), moved=7.0 * (site % 2)) for site in range(6)]
    merged = robust_merge(sites, components=3)
    assert sorted(merged.merged) in ([0, 2, 4], [1, 3, 5], [0, 1, 2, 3, 4, 5])


@pytest.mark.parametrize("share", [0.2, 0.4])
def test_what_nobody_confirms_is_a_share_too(share):
    """All know two clusters; one has part of its points in a third one that only it has."""
    sites = [clustered((0, 30 + site, 30 - site)) for site in range(6)]
    only = round(60 * share)
    merged = robust_merge([clustered((only, 30 - only // 2, 30 - only // 2)), *sites])
    assert merged.sites[0].alone == pytest.approx(share, abs=1e-6)
    assert (merged.sites[0].counts, merged.sites[0].against) == (1.0, 0.0)
    assert [standing.alone for standing in merged.sites[1:]] == [0.0] * 6


def test_sums_of_data_tell_other_units_only_if_they_hold_their_spread():
    """Columns around 0 have the same mean in any unit."""
    rng = np.random.default_rng(0)
    shards = [
        (10.0 if site == 5 else 1.0) * (np.resize([-6.0, 6.0], 60) + rng.normal(size=60))[:, None] for site in range(6)
    ]
    for settings, alike in (({"variance": 1.0, "prior_variance": 50.0}, 6 * [False]), ({}, 5 * [True] + [False])):
        model = db.GaussianMixture(2, 1, **settings)
        merged = robust_merge([model.fit(shard, rng=rng).posterior for shard in shards])
        assert merged.sites[5].reason().startswith("disagrees clearly with most sites in 100%")
        assert [site.alike for site in merged.sites] == alike


@pytest.mark.parametrize(("alone", "against", "flagged"), [(0.49, 0.09, False), (0.51, 0.0, True), (0.0, 0.11, True)])
def test_sites_are_flagged_for_half_alone_or_a_tenth_against(alone, against, flagged):
    assert db.merging.Standing(alone=alone, against=against).flagged == flagged


def test_copies_of_copies_repeat_the_first():
    sites = [clustered((30 + 3 * site, 30, 30 - 2 * site)) for site in range(1, 5)]
    merged = robust_merge([*sites, sites[1], sites[1]])
    assert [standing.copy_of for standing in merged.sites] == [None] * 4 + [1, 1]
    assert {standing.counts for standing in merged.sites[4:]} == {0.0}


@pytest.mark.parametrize("cap", [1.0, 1e-3])
def test_copies_are_found_at_what_both_claim_however_far_sites_are_scaled_down(cap, rng, monkeypatch):
    """Losses are proportional to the evidence with which the smaller of two sites votes. One site has no data."""
    claimed = np.triu(rng.gamma(50.0, 1.0, (7, 7)), 1)
    claimed[1, 4], claimed[2, 5] = 1e-9, 0.5  # the latter is as far apart as a few sites are by chance
    claimed[0, 3] = np.inf  # not compared
    voting = np.array([1.0, cap, 1.0, 1.0, 1.0, cap, 1.0])
    losses = (claimed + claimed.T) * np.minimum.outer(voting, voting)
    group = SimpleNamespace(sites=7, voting=voting, site=np.arange(7), known=np.ones(7, dtype=bool))
    group.parameters = np.array([10.0] * 6 + [0.0])
    monkeypatch.setattr(_copies, "totals_of", lambda group: np.full((7, 1), np.pi))
    monkeypatch.setattr(_copies, "site_losses", lambda group: losses)
    assert _copies.first_of(_copies.near_copies([group])) == {4: 1}
    group.parameters[:6] = (
        100.0  # of so many, half a nat would be no chance, but others are not a hundred times farther
    )
    assert _copies.first_of(_copies.near_copies([group])) == {4: 1}
    losses[2, 5] = losses[5, 2] = 0.3 * voting[5]
    assert _copies.first_of(_copies.near_copies([group])) == {4: 1, 5: 2}
    losses[:] = np.inf
    assert _copies.first_of(_copies.near_copies([group])) == {}


def test_components_that_are_repeated_are_those_of_further_sites():
    group = group_of(means_of((0.0, 10), (1.0, 20), (5.0, 30)))
    again = group.repeated(3)
    assert again.sites == 9
    np.testing.assert_array_equal(again.site, np.arange(9))
    np.testing.assert_array_equal(again.row, np.tile(group.row, 3))
    for name in ("evidence", "votes", "scale", "parameters", "claim"):
        np.testing.assert_array_equal(getattr(again, name), np.tile(getattr(group, name), 3))


def test_sites_lose_what_their_known_components_lose_beside_the_nearest(rng):
    site, known = np.repeat([0, 1, 2], [2, 3, 1]), np.array([True, False, True, True, False, True])
    candidates, lost = np.array([0, 2, 3, 4]), rng.gamma(1.0, 1.0, (6, 4))
    likeness = SimpleNamespace(candidates=candidates, lost=lost)
    losses = _copies.site_losses(SimpleNamespace(site=site, known=known, sites=3, likeness=likeness))
    for one in range(3):
        mine = [row for row in range(6) if site[row] == one and known[row]]
        assert losses[one, 0] == pytest.approx(sum(lost[row, 0] for row in mine))
        assert losses[one, 1] == pytest.approx(sum(min(lost[row, 1:]) for row in mine))
    assert np.isinf(losses[:, 2]).all()


@pytest.mark.parametrize("judging", [True, False])
@pytest.mark.parametrize("strangers", range(6))
@pytest.mark.parametrize("far", range(3))
@pytest.mark.parametrize(("fewer_slots", "more_votes"), [(1, 0.0), (0, 0.4), (0, 0.6), (-1, 0.4), (-1, 0.6)])
def test_strangers_that_are_far_off_go_if_that_saves_a_slot_or_half_a_vote(
    judging, strangers, far, fewer_slots, more_votes
):
    def outcome(out=()):
        rest = 5 - int(np.sum(out))
        votes = np.ones(rest) + (more_votes / rest if rest < 5 else 0.0)
        apart = np.arange(5) < strangers
        sites = tuple(np.flatnonzero(~np.asarray(out))) if len(out) else tuple(range(5))
        slots, alike = 4 - fewer_slots * (rest < 5), lambda strangers: False
        return SimpleNamespace(sites=sites, slots=slots, counted_votes=votes, strangers=apart, alike_but=alike)

    apart = np.where(np.arange(5) < far, 10.1, 9.9)
    ballot = SimpleNamespace(judging=judging, everybody=outcome, without=outcome, apart_from=lambda rest: apart)
    left_out = judging and strangers < 4 and (fewer_slots > 0 or more_votes > 0.5)
    expected = tuple(range(min(strangers, far) if left_out else 0, 5))
    assert Ballot.decided(ballot).sites == expected


@pytest.mark.parametrize(("ahead", "further", "silenced", "better"), [
    (0.6, 0, True, True), (0.4, 0, True, False), (0.6, 1, False, True), (0.6, 0, False, False), (-0.1, 1, True, False),
])  # fmt: skip
def test_a_vote_is_taken_over_an_alignment_for_half_a_vote_more(ahead, further, silenced, better, monkeypatch):
    """If it silences a component that its site knows, or has further slots."""
    group = SimpleNamespace(known=np.array([True, True, False]))
    weights = np.array([1.0, 0.4 if silenced else 0.6, 0.1])
    voted = SimpleNamespace(group=group, weights=weights, slots=3 + further, votes=np.full(4, 1.0 + ahead / 4))
    first = SimpleNamespace(votes=np.ones(4))
    for name, result in (("aligned", [None]), ("slots_in", ()), ("weigh", first)):
        monkeypatch.setattr(_ballot, name, lambda *given, result=result: result)
    ballot = SimpleNamespace(
        groups=(),
        posteriors=(SimpleNamespace(structure=SimpleNamespace(resizable=True)),),
        solver=None,
        weighted=lambda *given: (),
    )
    assert Ballot._aligned(ballot, voted, 3) is (voted if better else first)


def test_whoever_claims_far_more_about_what_differs_has_half_a_vote():
    group = SimpleNamespace(coefficients_of=lambda totals: None, coefficient_scale=np.array([[1.0], [0.0], [0.5]]))
    begun = SimpleNamespace(group=group, slots=1, labels=np.zeros(3, dtype=int))
    tried = SimpleNamespace(labels=np.zeros(6, dtype=int), totals=lambda: [None])
    np.testing.assert_allclose(trust(tried, np.zeros(1, dtype=int), begun), [[1.0, 0.5, 0.75]] * 2)


def test_a_transition_counts_as_the_less_of_the_two_states_that_it_is_between(rng):
    part, weights = rng.gamma(1.0, size=(3, 3)), np.array([1.0, 0.5, 0.0])
    found = weighted_part(Transitions(), part, weights)
    for i in range(3):
        for j in range(3):
            assert found[i, j] == part[i, j] * min(weights[i], weights[j])
    family = db.families.Dirichlet()
    np.testing.assert_array_equal(weighted_part(family, csr_array(part), weights).toarray(), weights[:, None] * part)


def test_amounts_go_back_to_their_labels(rng):
    amounts, order = rng.random(5), rng.permutation(5)
    np.testing.assert_array_equal(by_label(amounts[order], order), amounts)


def coefficient_rows(means, precision):
    """What fits say that have found these coefficients with this precision."""
    return np.column_stack([means @ precision, np.tile(-0.5 * precision.ravel(), (len(means), 1))])


def test_coefficients_have_the_means_and_variances_of_their_gaussian(rng):
    spread = rng.normal(size=(4, 4))
    precision, means = 100.0 * (spread @ spread.T + np.eye(4)), rng.normal(size=(3, 4))
    factor = votes.Factor(FullGaussian(), np.zeros((1, 20)))
    found, variances = votes.coefficients(factor, coefficient_rows(means, precision))
    np.testing.assert_allclose(found, means)
    np.testing.assert_allclose(variances, np.tile(np.diag(np.linalg.inv(precision)), (3, 1)))


def test_one_coefficient_far_off_is_tolerated_as_seldom_as_all_together():
    """Two fits with ten independent coefficients: the one that differs most, and all of them, seldom do by chance."""
    rng, size = np.random.default_rng(0), 10
    factor = votes.Factor(FullGaussian(), np.zeros((1, size + size**2)))
    means = rng.normal(size=(2, 1500, size)) / 10.0
    first, second = (coefficient_rows(each, 100.0 * np.eye(size)) for each in means)
    vectors = votes.coefficients(factor, first), votes.coefficients(factor, second)
    found = votes.one_by_one(*vectors, np.full(1500, float(size)))
    half = 100.0 / 4.0 * (means[0] - means[1]) ** 2
    tolerances = [chi2(p).mean() / 2 + 2.5 * chi2(p).std() / 2 for p in (1, size)]
    np.testing.assert_allclose(found, half.max(axis=1) * tolerances[1] / (tolerances[0] + np.log(size)), rtol=1e-6)
    assert np.mean(half.sum(axis=1) > tolerances[1]) < 0.05
    assert np.mean(found > tolerances[1]) < 0.05
    line = votes.Factor(FullGaussian(), np.zeros((1, 2)))
    single = coefficient_rows(means[0, :2, :1], 100.0 * np.eye(1))
    assert votes.coefficients(line, single) is None, "one coefficient is all of them"


@pytest.mark.parametrize("count", [3, 5])
def test_several_coupled_sets_of_different_sizes_are_merged_robustly(count, rng):
    """Their numbers of slots are fixed, also where the vote is compared with an ordinary alignment."""
    posteriors = [draw(everything(), rng) for _ in range(count)]
    found = robust_merge(posteriors)
    assert found.posterior.structure.symmetry == posteriors[0].structure.symmetry
    assert [standing.is_out for standing in db.merging.standings(posteriors)] == [one.is_out for one in found.sites]
