"""A robust merge: who is named, how little a few faulty sites move, and that it is a function of the set alone."""

import warnings
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.stats import chi2

import decbayes as db
from decbayes.errors import StructureMismatch
from decbayes.merging import Robust, Standing, robust_merge
from decbayes.merging.robust import _ballot
from decbayes.posterior import Posterior

# Robust merges begin with as many slots as the largest site has components.
plain = partial(db.merge, components="largest")

CENTRES = np.array([[-9.0, 0.0], [0.0, 9.0], [9.0, 0.0]])
KNOWN = db.GaussianMixture(3, 2, variance=1.0, prior_variance=100.0)
DIAGONAL = db.GaussianMixture(3, 2, covariance="diagonal")
MEAN = db.models.GaussianMean(variance=2.0, prior_variance=9.0, dimension=1)
WORDS = 40
TOPICS = db.LatentDirichletAllocation(3, tuple(map(str, range(WORDS))), ascent=db.Ascent(passes=60, tolerance=1e-4))


def points(rng, count=60, shares=(1 / 3, 1 / 3, 1 / 3)):
    labels = rng.choice(3, size=count, p=shares)
    return CENTRES[labels] + rng.normal(size=(count, 2)), labels


def fitted(model, shards, rng):
    return [model.fit(shard, rng=rng).posterior for shard in shards]


def means(posterior):
    """Of components, in the order of the true centres."""
    found = posterior.mean("components")
    return np.array([found[np.argmin(np.sum((found - centre) ** 2, axis=1))] for centre in CENTRES])


def moved(merged, honest):
    """How far the worst mean is from that of the honest sites' merge, in deviations: 10 sites have 200 points each."""
    return np.linalg.norm(means(merged) - means(honest), axis=1).max() * np.sqrt(200)


def flagged(merge):
    return [site for site, standing in enumerate(merge.sites) if standing.flagged]


def times(posterior, factor):
    return Posterior(posterior.structure, {name: factor * part for name, part in posterior.contribution.items()})


def counted_topics(rng, topics, documents=40):
    mixes = rng.dirichlet(np.full(3, 0.3), size=documents)
    return csr_array(rng.poisson(50 * mixes @ topics))


def told(value, count):
    """What a site says of so many observations that all have this value."""
    return MEAN.fit(np.full((count, 1), value)).posterior


@pytest.fixture(scope="module")
def honest():
    """Ten sites with the same three clusters, by known and unknown variances, and their shards."""
    rng = np.random.default_rng(1)
    shards = [points(rng) for _ in range(10)]
    return {model: fitted(model, [shard for shard, _ in shards], rng) for model in (KNOWN, DIAGONAL)}, shards


@pytest.mark.parametrize("model", [KNOWN, DIAGONAL])
@pytest.mark.parametrize("unit", [10.0, 100.0])
@pytest.mark.parametrize("faulty", [1, 3])
def test_sites_in_other_units_are_named_and_move_nothing(honest, rng, model, unit, faulty):
    posteriors, shards = honest[0][model], honest[1]
    wrong = fitted(model, [unit * shard for shard, _ in shards[:faulty]], rng)
    merged = robust_merge([*wrong, *posteriors[faulty:]])
    assert flagged(merged) == list(range(faulty))
    assert moved(merged.posterior, plain(posteriors[faulty:])) < 1.0
    assert merged.posterior.structure.components(model.structure.symmetry[0]) == 3


@pytest.mark.parametrize("model", [KNOWN, DIAGONAL])
def test_sites_with_random_components_are_named_and_move_nothing(honest, model):
    rng, posteriors, shards = np.random.default_rng(2), honest[0][model], honest[1]
    random = [rng.uniform(-20, 20, size=(3, 2))[labels] + rng.normal(size=(60, 2)) for _, labels in shards[:3]]
    merged = robust_merge([*fitted(model, random, rng), *posteriors[3:]])
    assert flagged(merged) == [0, 1, 2]
    assert moved(merged.posterior, plain(posteriors[3:])) < 1.0


@pytest.mark.parametrize("factor", [1.0, 5.0, 1e9])
def test_displaced_components_with_inflated_evidence_are_named_and_hardly_move_the_merge(honest, rng, factor):
    posteriors, shards = honest[0][KNOWN], honest[1]
    ways = np.array([[4.0, 0.0], [0.0, 4.0], [-4.0, 0.0]])
    displaced = [shard + way * (labels == 0)[:, None] for way, (shard, labels) in zip(ways, shards[:3], strict=True)]
    liars = [times(liar, factor) for liar in fitted(KNOWN, displaced, rng)]
    merged = robust_merge([*liars, *posteriors[3:]])
    assert flagged(merged) == [0, 1, 2]
    assert moved(merged.posterior, plain(posteriors[3:])) < 1.5
    assert moved(plain([*liars, *posteriors[3:]]), plain(posteriors[3:])) > 5.0


def test_evidence_that_hides_from_the_weights_is_capped(honest):
    """The means claim a million times the observations that the weights have, and are three site deviations away."""
    posteriors = honest[0][KNOWN]
    liar = dict(posteriors[0].contribution)
    liar["components"] = 1e6 * liar["components"]
    liar["components"][:, :2] += 3.0 / np.sqrt(20.0) * -2.0 * liar["components"][:, 2:]
    merged = robust_merge([Posterior(KNOWN.structure, liar), *posteriors[1:]])
    assert moved(merged.posterior, plain(posteriors[1:])) < 1.0


def test_copies_count_once_whatever_their_labels_and_evidence(honest):
    posteriors = honest[0][KNOWN]
    copies = [posteriors[0], relabelled(posteriors[1]), times(posteriors[2], 0.9)]
    merged = robust_merge([*posteriors, *copies])
    assert merged.posterior == robust_merge(posteriors).posterior
    assert [merged.sites[site].copy_of for site in (10, 12)] == [0, 2]
    # If two differ only in their labels, either may count: a merge is a function of a set.
    repeats = {frozenset((site, standing.copy_of)) for site, standing in enumerate(merged.sites) if standing.flagged}
    assert repeats == {frozenset(pair) for pair in ((0, 10), (1, 11), (2, 12))}


def shared_lie(shards, rng):
    """Three sites have the same in the place of a cluster."""
    return fitted(
        KNOWN,
        [np.where((labels == 0)[:, None], 30.0 + rng.normal(size=shard.shape), shard) for shard, labels in shards[:3]],
        rng,
    )


def test_a_lie_that_three_sites_share_is_told_from_what_all_others_know(honest, rng):
    posteriors, shards = honest[0][KNOWN], honest[1]
    held = [*shared_lie(shards, rng), *posteriors[3:]]
    for merged in (robust_merge(held), robust_merge(held, components=3)):
        assert flagged(merged) == [0, 1, 2]
        assert len(merged.posterior.mean("components")) == 3
        assert moved(merged.posterior, plain(posteriors[3:])) < 1.0
    assert moved(plain(held), plain(posteriors[3:])) > 10.0


def test_what_three_sites_have_beside_all_that_others_know_keeps_its_slot(honest, rng):
    """They contradict nobody. The remarks name them, since they could have made it up."""
    posteriors, shards = honest[0][KNOWN], honest[1]
    wide = db.GaussianMixture(4, 2, variance=1.0, prior_variance=100.0)
    more = [np.concatenate([shard, 30.0 + rng.normal(size=(30, 2))]) for shard, _ in shards[:3]]
    merged = robust_merge([*fitted(wide, more, rng), *posteriors[3:]])
    assert (flagged(merged), merged.tolerated) == ([], 3)
    (said,) = [remark for remark in merged.remarks() if remark.kind == "few sites"]
    (extra,) = np.flatnonzero(merged.posterior.mean("components")[:, 0] > 20.0)
    assert f"slot {extra}: site 0, site 1, site 2." in said.what
    assert said.is_warning


def test_what_three_of_unlike_sites_share_is_kept_and_they_are_named_together(rng):
    """True or invented, they send the same: three of ten that know a fourth cluster, in the place of one of theirs."""
    shards = [points(rng, shares=np.roll([0.5, 0.5, 0.0], site)) for site in range(10)]
    shared = [
        np.where((labels == site)[:, None], 30.0 + rng.normal(size=(60, 2)), shard)
        for site, (shard, labels) in enumerate(shards[:3])
    ]
    merged = robust_merge(fitted(KNOWN, [*shared, *(shard for shard, _ in shards[3:])], rng))
    assert flagged(merged) == []
    (slot,) = np.flatnonzero(merged.posterior.mean("components")[:, 0] > 20.0)
    assert merged.thin_slots() == {slot: [0, 1, 2]}
    assert "few sites" in [remark.kind for remark in merged.warnings()]


@pytest.mark.parametrize("faulty", [1, 3])
def test_unlike_sites_keep_what_more_of_them_know(faulty):
    """Each of ten has two of three clusters; some put one of theirs elsewhere."""
    rng, shards = np.random.default_rng(faulty), []
    for site in range(10):
        shares = np.roll([0.5, 0.5, 0.0], site)
        shard, labels = points(rng, shares=shares)
        if site < faulty:
            shard[labels == site] = rng.uniform(25, 40, size=2) + rng.normal(size=((labels == site).sum(), 2))
        shards.append(shard)
    held = fitted(KNOWN, shards, rng)
    merged = robust_merge(held)
    assert flagged(merged) == list(range(faulty))
    assert np.abs(means(merged.posterior) - CENTRES).max() < 0.7 < 3 < np.abs(means(plain(held)) - CENTRES).max()


def test_what_one_of_unlike_sites_alone_has_found_is_kept_and_named(rng):
    """Nobody can say whether it is true: it gets a slot, a twentieth of its share, and a remark; the rest of the site
    agrees and counts. Among like sites it is a contradiction, since the site lacks what all others have."""
    shards = [points(rng, shares=np.roll([0.5, 0.5, 0.0], site)) for site in range(10)]
    lie = 40.0 + rng.normal(size=(60, 2))
    lies = [np.where((labels == site % 3)[:, None], lie, shard) for site, (shard, labels) in enumerate(shards[:3])]
    alone = np.concatenate([shards[9][0], -30.0 + rng.normal(size=(25, 2))])
    wide = replace(KNOWN, components=3)
    held = fitted(wide, [*lies, *(shard for shard, _ in shards[3:9]), alone], rng)
    merged = robust_merge(held)
    found = merged.posterior.mean("components")
    (slot,) = np.flatnonzero((found < -20.0).all(axis=1))
    assert np.abs(found[slot] + 30.0).max() < 0.7
    assert merged.sites[9].against == merged.sites[9].alone == pytest.approx(25 / 85, abs=0.01)
    assert merged.reasons()[9] == "is the only one to have found 29% of what it reports; the rest agrees and counts"
    assert merged.sites[9].flagged
    assert not merged.sites[9].is_out
    assert np.flatnonzero(merged.weights[9]).size == 3
    assert (merged.weights[9][[slot, *np.flatnonzero(merged.weights[9])]] > 0.99).all()
    (said,) = [remark for remark in merged.warnings() if remark.kind == "few sites"]
    assert f"slot {slot}: site 9" in said.what
    share = merged.posterior.mean("weights")[slot].item()
    assert share == pytest.approx((1 + 1.25) / (10 * 60 + 1.25 + len(found)), rel=0.02)  # the prior is one of each
    claiming = db.Posterior(held[9].structure, {name: 4.0 * part for name, part in held[9].contribution.items()})
    merged = robust_merge([*held[:9], claiming])
    assert np.flatnonzero(merged.weights[9]).size == 1
    assert merged.reasons()[9].endswith("of what it reports; the rest is left out")
    like = fitted(KNOWN, [points(rng)[0] for _ in range(9)], rng)
    shard, labels = points(rng)
    shard[labels == 0] = -30.0
    (odd,) = fitted(KNOWN, [shard], rng)
    merged = robust_merge([*like, odd])
    assert flagged(merged) == [9]
    assert 9 not in merged.merged
    assert merged.reasons()[9].endswith("and is left out")
    assert merged.sites[9].alone > 0.2


def test_what_more_sites_know_wins_however_little_of_their_data_it_is(rng):
    shards = [points(rng, 100, [0.6, 0.3, 0.1]) for _ in range(10)]
    for shard, labels in shards[:3]:
        shard[labels == 0] = 40.0 + rng.normal(size=((labels == 0).sum(), 2))
    merged = robust_merge(fitted(KNOWN, [shard for shard, _ in shards], rng), components=3)
    assert np.abs(means(merged.posterior) - CENTRES).max() < 0.7


def test_most_sites_are_believed_even_if_the_others_have_more_evidence():
    few, many = [told(6.0 + 0.05 * site, 90) for site in range(9)], [told(0.05 * site, 60) for site in range(11)]
    merged = robust_merge([*few, *many])
    assert abs(merged.posterior.mean("mean").item() - 0.25) < 0.1
    assert merged.weights[:9].max() == 0.0 < 0.9 < merged.weights[9:].min()
    assert flagged(merged) == list(range(9))


@pytest.mark.parametrize(("away", "least", "most"), [(0.5, 1.0, 1.0), (1.2, 0.1, 0.99), (3.0, 0.0, 0.0)])
def test_the_weight_follows_from_the_nats_lost_by_joining(away, least, most):
    """½ P Q / (P + Q) d² for means with precisions P and Q: 1 up to the t that one of six exceeds by chance in 5 % of
    merges, then (t / D)², 0 beyond 3 (½ + 2.5 √½)."""
    values = [0.0, 0.01, -0.01, 0.02, -0.02]
    merged = robust_merge([told(value, 20) for value in (*values, away)])
    lost = 0.5 * 10.0 * 50.0 / 60.0 * away**2
    by_chance = 0.5 * chi2(1).isf(0.05 / 6)
    expected = 0.0 if lost > 3.0 * (0.5 + 2.5 * np.sqrt(0.5)) else min(1.0, by_chance / lost) ** 2
    np.testing.assert_allclose(merged.weights[:, 0], [1, 1, 1, 1, 1, expected], rtol=0.01)
    assert least <= merged.weights[5, 0] <= most


def test_sites_that_all_differ_by_more_than_chance_are_not_flagged_for_it():
    """Means that vary between sites by five times what sampling makes, as regressions of many hospitals do."""
    rng = np.random.default_rng(5)
    model = db.models.GaussianMean(variance=1.0, prior_variance=100.0, dimension=6)
    sites = [model.fit(rng.normal(size=6) + 0.2 * rng.normal(size=(25, 6))).posterior for _ in range(20)]
    assert flagged(robust_merge(sites)) == []
    far = model.fit(8.0 + 0.2 * rng.normal(size=(25, 6))).posterior
    assert flagged(robust_merge([*sites, far])) == [20]


def test_a_large_site_with_which_all_agree_counts_for_more_than_the_cap_and_another_one_for_nothing(honest, rng):
    posteriors = honest[0][KNOWN]
    for shift, low, high in ((0.0, 0.2, 1.0), (3.0, 0.0, 0.0)):
        (large,) = fitted(KNOWN, [points(rng, 600)[0] + shift], rng)
        assert low <= robust_merge([*posteriors, large]).sites[10].counts <= high


def test_a_cluster_that_one_site_has_found_in_two_parts_counts_in_full(rng):
    wide = CENTRES[[0]] + rng.normal(size=(300, 2)) * [1.5, 1.0]
    posteriors = [*fitted(KNOWN, [points(rng)[0] for _ in range(5)], rng), KNOWN.fit(wide, rng=rng).posterior]
    parts = db.merging.fillings(db.align(posteriors, components="largest"), KNOWN.structure.symmetry[0])[5]
    merged = robust_merge(posteriors, Robust(cap=100.0))
    slot = int(np.argmin(np.abs(merged.posterior.mean("components") - CENTRES[0]).sum(axis=1)))
    assert max(map(len, parts)) > 1
    assert merged.weights[5, slot] > 0.9


def test_two_classes_that_one_fit_has_joined_contradict_nobody(rng):
    """Its other classes count. The same class with some answers turned round is no join, and is named."""
    model = db.BernoulliMixture(3, 24, ascent=db.Ascent(restarts=4))
    chances = rng.choice([0.1, 0.9], size=(3, 24))

    def drawn(*rows):
        return (rng.random((90, 24)) < np.repeat(rows, 30, axis=0)).astype(float)

    sites = fitted(model, [drawn(*chances) for _ in range(7)], rng)
    turned = np.where(np.arange(24) < 8, 1.0 - chances[0], chances[0])
    for first, components in ((chances[0], 2), (turned, 3)):
        fitting = replace(model, components=components, ascent=db.Ascent(restarts=8))
        (odd,) = fitted(fitting, [drawn(first, *chances[1:])], rng)
        merge, named = robust_merge([odd, *sites]), components == 3
        assert flagged(merge) == [0] * named
        assert (0 in merge.merged) != named
        if not named:
            assert sorted(merge.weights[0].round(1)) == [0.0, 1.0, 1.0]  # nothing in one slot, so all of nothing


def test_what_lies_between_two_clusters_that_the_site_has_as_well_is_no_join_of_them(honest):
    site = honest[0][DIAGONAL][0]
    first, second, third = (np.argmin(np.abs(site.mean("components") - centre).sum(axis=1)) for centre in CENTRES)
    parts = {name: np.array(part) for name, part in site.contribution.items()}
    parts["components"][first] = 0.5 * (parts["components"][second] + parts["components"][third])
    odd = Posterior(site.structure, parts)
    assert flagged(robust_merge([odd, *honest[0][DIAGONAL][1:]])) == [0]


def test_topics_of_faulty_sites_are_named_and_hardly_move_those_of_unequal_sites(rng):
    topics = rng.dirichlet(np.full(WORDS, 0.1), size=3)
    sizes = [120, 15, 40, 40, 40, 40, 40]
    posteriors = [TOPICS.fit(counted_topics(rng, topics, size), rng=rng).posterior for size in sizes]
    liar = TOPICS.fit(counted_topics(rng, rng.dirichlet(np.full(WORDS, 0.1), size=3)), rng=rng).posterior
    merged = robust_merge([liar, *posteriors])

    def distance(posterior):
        found = posterior.mean("topics")
        return max(np.abs(found - topic).sum(axis=1).min() for topic in topics)

    assert flagged(merged) == [0]
    assert distance(merged.posterior) < distance(plain(posteriors)) + 0.05 < distance(plain([liar, *posteriors]))


def test_a_mixed_up_vocabulary_is_found_though_topics_of_short_texts_may_be_any_of_several(rng):
    """Sites' topics differ so much that each other one is tolerated; there are no slots for those of nobody else."""
    topics, words = rng.dirichlet(np.full(100, 0.1), size=8), tuple(map(str, range(100)))
    model = db.LatentDirichletAllocation(8, words, ascent=db.Ascent(passes=30, tolerance=1e-3))
    shards = [rng.poisson(8 * rng.dirichlet(np.full(8, 0.3), size=40) @ topics) for _ in range(8)]
    shards[0] = shards[0][:, rng.permutation(100)]
    assert flagged(robust_merge(fitted(model, map(csr_array, shards), rng))) == [0]


def test_a_topic_that_mixes_two_slots_counts(rng):
    """A small site that cannot tell two topics apart disagrees with each, and agrees with both together."""
    topics = rng.dirichlet(np.full(WORDS, 0.1), size=3)
    posteriors = [TOPICS.fit(counted_topics(rng, topics), rng=rng).posterior for _ in range(5)]
    counts = np.zeros((3, WORDS))
    counts[0], counts[1] = 400 * topics[2], 400 * (topics[0] + topics[1]) / 2
    mixed = Posterior(TOPICS.structure, {"topics": csr_array(counts)})
    assert robust_merge([*posteriors, mixed]).sites[5].counts > 0.95


def test_a_topic_that_one_site_has_found_in_two_parts_counts_in_full(rng):
    """Each part lacks words of the topic and disagrees with it; together they are the topic."""
    topics = rng.dirichlet(np.full(WORDS, 0.1), size=3)
    posteriors = [TOPICS.fit(counted_topics(rng, topics), rng=rng).posterior for _ in range(5)]
    counts, first = np.zeros(TOPICS.structure.prior["topics"].shape), rng.random(WORDS) < 0.5
    counts[:3] = 400 * topics[0] * first, 400 * topics[0] * ~first, 400 * topics[1]
    merged = db.merging.robust_merge([*posteriors, Posterior(TOPICS.structure, {"topics": csr_array(counts)})])
    assert merged.sites[-1].counts > 0.95
    assert merged.sites[-1].against == 0.0


def of_regression(rng, count=8, faulty=0):
    frames = []
    for site in range(count):
        a, b = rng.normal(size=(2, 80))
        frames.append({"a": a * (10.0 if site < faulty else 1.0), "b": b, "y": a - b + rng.normal(size=80)})
    model = db.LinearRegression.from_frame(frames[-1], "y ~ a + b")
    return [model.fit(model.points(frame)).posterior for frame in frames]


def test_regressions_in_other_units_are_named_and_hardly_count(rng):
    posteriors = of_regression(rng, faulty=2)
    merged = robust_merge(posteriors)
    assert flagged(merged) == [0, 1]
    assert merged.posterior == plain(posteriors[2:])


@pytest.mark.parametrize(("knowing", "others"), [(5, 3), (3, 4)])
def test_sites_that_know_little_of_a_coefficient_do_not_speak_for_those_in_other_units(rng, knowing, others):
    """They agree with everybody: with those that know it, and with the three that have its column in other units.

    Of equal numbers those are believed who do not claim to know it far better than all others.
    """
    frames = []
    for spread, unit in [(1.0, 10.0)] * 3 + [(1.0, 1.0)] * knowing + [(0.1, 1.0)] * others:
        a, b = spread * rng.normal(size=80), rng.normal(size=80)
        frames.append({"a": unit * a, "b": b, "y": a - b + rng.normal(size=80)})
    model = db.LinearRegression.from_frame(frames[4], "y ~ a + b")
    assert flagged(robust_merge([model.fit(model.points(frame)).posterior for frame in frames])) == [0, 1, 2]


def coefficients_moved(merged, honest):
    """How far the worst coefficient is from that of the honest sites' merge, in deviations."""
    right, spread = honest.mean("coefficients"), honest.deviation("coefficients")
    return np.abs((merged.mean("coefficients") - right) / spread).max()


def test_sites_that_know_one_coefficient_far_better_than_others_are_heard_about_it():
    """Four know the first coefficient well, three the second; three more have the first one in other units.

    If sites are scaled down for what they know best, the four are left out, and the merge moves by 103 deviations.
    """
    rng = np.random.default_rng(5)
    example = {"y": rng.normal(size=50), **{name: rng.normal(size=50) for name in "abcd"}}
    model = db.LinearRegression.from_frame(example, "y ~ a + b + c + d")
    held = []
    for site in range(10):
        columns = 0.3 * rng.normal(size=(150, 4))
        columns[:, 1 - site % 2] *= 20.0 if site >= 3 else 1.0
        outcome = columns @ [0.8, 1.4, 1.4, -0.6] + rng.normal(size=150)
        columns[:, 0] *= 10.0 if site < 3 else 1.0
        held.append(model.fit(model.points({"y": outcome, **dict(zip("abcd", columns.T, strict=True))})).posterior)
    merged = robust_merge(held)
    assert flagged(merged) == [0, 1, 2]
    assert coefficients_moved(merged.posterior, db.merge(held[3:])) < 1.0


def test_first_broadcasts_of_counts_are_recentred_among_those_that_count():
    """Beside the two liars, they were moved to where the lie is."""
    rng = np.random.default_rng(11)
    columns, slopes = rng.normal(size=(9, 120, 2)), [[1.2, 1.0]] * 2 + [[0.3, -0.3]] * 7
    pairs = zip(columns, slopes, strict=True)
    frames = [{"a": x[:, 0], "b": x[:, 1], "y": rng.poisson(np.exp(x @ slope))} for x, slope in pairs]
    model = db.PoissonRegression.from_frame(frames[-1], "y ~ a + b")
    sent = [model.fit_site(model.points(frame)).posterior for frame in frames]
    merged = robust_merge(sent)
    assert flagged(merged) == [0, 1]
    assert merged.posterior == db.merge(sent[2:])


def test_sites_that_agree_in_full_outnumber_those_that_agree_in_part():
    """Three claim too much; three know little; to the other four the claim is less than three deviations away."""
    model = db.models.GaussianMean(variance=1.0, prior_variance=100.0)
    seen = [(1000, 0.0), (1001, 0.001), (1002, 0.002), *((100 + n, 0.27 + 0.001 * n) for n in range(4))]
    seen += [(4, -0.3), (5, 0.1), (6, 0.5)]
    posteriors = [model.fit(np.full((count, 1), mean)).posterior for count, mean in seen]
    merged = robust_merge(posteriors)
    assert flagged(merged) == [0, 1, 2]
    assert merged.posterior == plain(posteriors[3:])


def test_two_large_sites_that_differ_by_more_than_chance_are_no_copies(rng):
    """By what the cap leaves of their evidence, they could be."""
    model = db.models.GaussianMean(variance=1.0, prior_variance=100.0, dimension=6)
    sites = [model.fit(rng.normal(size=(50, 6))).posterior for _ in range(6)]
    large = [model.fit(np.full((100, 6), mean)).posterior for mean in np.pi * np.array([0.001, 0.0026, 0.001])]
    merged = robust_merge([*sites, *(times(site, 10_000.0 + n) for n, site in enumerate(large))])
    assert {site: standing.copy_of for site, standing in enumerate(merged.sites) if standing.copy_of is not None} == {
        6: 8
    }


def simulated(model, rng, size, count=6):
    """Sites with data of one truth, and one, the first, with data of another."""
    data, other = (db.simulate(model, number, rng=rng).data for number in (count * size, size))
    return fitted(model, [other, *(data[site * size : (site + 1) * size] for site in range(count))], rng)


STATES = db.HiddenMarkov(
    states=2, columns={"a": db.columns.Gaussian(5, 2), "b": db.columns.Categorical(3)}, ascent=db.Ascent(passes=50)
)
FEATURES = db.LatentFeatures(2, 4, variance=0.05, ascent=db.Ascent(passes=50))


@pytest.fixture(scope="module")
def kinds():
    """Sites of several kinds of models, two of them faulty where that is little work."""
    rng = np.random.default_rng(4)
    wide = db.GaussianMixture(6, 2, variance=1.0, prior_variance=100.0)
    shards = [points(rng, 90)[0] * [2.0, 1.0] + 20.0 * (site < 2) for site in range(8)]
    topics = rng.dirichlet(np.full(WORDS, 0.1), size=3)
    answers = rng.beta(0.3, 0.3, size=(2, 8))[rng.integers(2, size=300)] > rng.random((300, 8))
    return {
        "clusters in parts": fitted(wide, shards, rng),
        "unknown variances": fitted(DIAGONAL, shards, rng),
        "classes": fitted(db.BernoulliMixture(2, 8), np.split(answers.astype(float), 6), rng),
        "topics": fitted(TOPICS, [counted_topics(rng, topics) for _ in range(5)], rng),
        "regression": of_regression(rng, faulty=1),
        "states": simulated(STATES, rng, 3),
        "features": simulated(FEATURES, rng, 40),
    }


KINDS = ["clusters in parts", "unknown variances", "classes", "topics", "regression", "states", "features"]


@pytest.fixture(params=KINDS)
def sites(request, kinds):
    return kinds[request.param]


def test_the_order_of_sites_changes_no_bit(sites):
    merged, others = robust_merge(sites), robust_merge(sites[::-1])
    assert others.posterior.digest == merged.posterior.digest
    np.testing.assert_array_equal(others.weights[::-1], merged.weights)
    assert others.sites[::-1] == merged.sites


def test_only_what_counts_is_aligned_and_that_once(sites, monkeypatch):
    """All else follows from comparisons of components, two at a time: an alignment of everybody would cost as much."""
    seen = []
    aligned = _ballot.aligned
    monkeypatch.setattr(
        _ballot, "aligned", lambda given, *rest, **how: seen.append(len(given)) or aligned(given, *rest, **how)
    )
    merged = robust_merge(sites)
    assert seen == [len(merged.merged)]
    assert merged.warnings() == tuple(remark for remark in merged.remarks() if remark.is_warning)


def test_labels_change_no_bit(sites):
    merged, others = robust_merge(sites), robust_merge([relabelled(own) for own in sites])
    for name, family in merged.posterior.structure.families.items():
        if not family.over_components:
            one, two = (sorted(map(tuple, each.posterior.natural[name])) for each in (merged, others))
            assert one == two
    # Sums of rows elsewhere in memory may round otherwise.
    one, two = ([replace(site, of_all=round(site.of_all, 12)) for site in each.sites] for each in (merged, others))
    assert one == two


def relabelled(posterior):
    """The same with the components of each coupled set in reverse order."""
    coupled = {name for each in posterior.structure.symmetry for name in each.factors}
    parts = dict(posterior.contribution)
    for name in coupled:
        both = posterior.structure.families[name].two_sided
        parts[name] = parts[name][::-1, ::-1] if both else parts[name][::-1]
    return Posterior(posterior.structure, parts)


def test_where_all_agree_a_robust_merge_is_the_plain_one(rng):
    shards = [points(rng, 60)[0] for _ in range(4)]
    posteriors = fitted(KNOWN, shards, rng)
    assert robust_merge(posteriors).posterior == plain(posteriors)
    assert robust_merge(posteriors).reasons() == {}


@pytest.mark.parametrize("count", [1, 2])
def test_of_one_or_two_sites_nobody_can_say_who_is_right(honest, rng, count):
    posteriors = [*honest[0][KNOWN][:1], *fitted(KNOWN, [10.0 * points(rng, 600)[0]], rng)][:count]
    merged = robust_merge(posteriors)
    assert merged.posterior == db.merge(posteriors)
    np.testing.assert_array_equal(merged.weights, 1.0)


@pytest.mark.parametrize("kind", ["states", "features"])
def test_other_states_and_features_are_named(kinds, kind):
    assert robust_merge(kinds[kind]).sites[0].flagged


def test_sites_without_data_change_nothing(honest):
    posteriors = honest[0][KNOWN][:4]
    merged = robust_merge(posteriors)
    among = robust_merge([*posteriors, *[Posterior.of_prior(KNOWN.structure)] * 5])
    np.testing.assert_allclose(means(among.posterior), means(merged.posterior), rtol=0, atol=1e-9)
    np.testing.assert_array_equal(among.weights[4:], 1.0)
    assert flagged(among) == []


def test_sites_may_have_different_numbers_of_components(honest, rng):
    wide = db.GaussianMixture(5, 2, variance=1.0, prior_variance=100.0)
    posteriors = [*fitted(wide, [points(rng)[0]], rng), *honest[0][KNOWN]]
    merged = robust_merge(posteriors)
    assert len(merged.posterior.mean("components")) == 5
    assert len(robust_merge(posteriors, components=3).posterior.mean("components")) == 3
    assert np.abs(means(merged.posterior) - CENTRES).max() < 0.4


def test_a_site_that_counts_in_part_keeps_the_remarks_on_its_data():
    """Else intervals would be called exact although a site says that they are not."""
    rng, model = np.random.default_rng(3), db.LinearRegression("y", columns={"x": "real", "y": "real"})
    x = rng.normal(size=(4, 60))
    sites = [model.fit(np.column_stack([row, slope * row + rng.normal(size=60)])).posterior
             for slope, row in zip((0.0, 0.05, -0.05, 0.64), x, strict=True)]  # fmt: skip
    said = db.checking.Remark("other values", "The values of x lie far from the agreed ones.", "Check them.")
    merged = robust_merge([*sites[:3], replace(sites[3], remarks=(said,))])
    assert 0.0 < merged.sites[3].counts < 1.0
    assert f"site 3: {said.what}" in [remark.what for remark in merged.remarks()]


def test_reasons_are_told_in_plain_words(honest, rng):
    posteriors, shards = honest[0][KNOWN], honest[1]
    (stranger,) = fitted(KNOWN, [100.0 * shards[0][0]], rng)
    merged = robust_merge([stranger, *posteriors[1:], posteriors[1]])
    told = merged.reasons([*"abcdefghijk"])
    assert told[0] == "disagrees clearly with most sites in 100% of its evidence and is left out"
    assert told[10] == "repeats b and is not counted again"
    assert {*merged.merged} == {*range(1, 10)}
    assert Standing(left_out=True).reason() == "was left out: most of what it found is unknown to most sites"
    assert Standing(alone=0.7).reason() == "is the only one to have found 70% of what it reports"
    assert Standing(counts=0.4).reason() == "has more evidence than most sites and counts for 40% of it"
    disagrees = "counts for 40% of its evidence, because part of it disagrees with the others"
    assert Standing(counts=0.4, agrees=0.5).reason() == disagrees
    assert not Standing(counts=0.4).flagged
    half = Standing(counts=1.0, against=0.6, alone=0.1).reason()
    assert half == "disagrees clearly in 60% of its evidence, as at least half of the sites do, and counts"


def test_a_site_left_out_is_first_asked_for_its_units_which_may_be_in_agreed_scales(rng):
    kind = rng.integers(2, size=60)
    columns = {"fev": db.columns.Gaussian(2.5, 1.0)}
    models = db.LatentClasses(components=2, columns=columns), db.GaussianMixture(2, 1)
    for model in models:
        litres = [np.where(kind, 3.4, 1.6)[:, None] + rng.normal(0, 0.3, (60, 1)) for _ in range(4)]
        sites = [model.from_assignments(site, kind) for site in [*litres[:3], 1000 * litres[3]]]
        (said,) = [one.advice for one in db.merging.robust_merge(sites).remarks() if one.kind == "site hardly counts"]
        assert said.startswith("Ask how its data were collected (units")
        assert ("agreed scales" in said) == (model is models[0])
        assert said.endswith("fit it again with more restarts, or fewer components.")


def test_components_of_a_large_site_count_as_long_as_each_moves_the_others_by_about_a_deviation(rng):
    """As one share for all components, it would be that of the worst."""
    sites = fitted(KNOWN, [points(rng, count)[0] for count in (60, 60, 60, 60, 60, 3000)], rng)
    merged, others = robust_merge(sites), plain(sites[:5])
    counts = others.mean("weights") * 300.0
    away = np.linalg.norm(means(merged.posterior) - means(others), axis=1) * np.sqrt(counts.min())
    assert away.max() < 1.1
    shares = merged.weights[5]
    assert 90.0 / 3000.0 < shares.min() < 0.7 * shares.max()


def test_a_large_site_that_counts_is_put_into_the_slots_of_the_others():
    """Its frequencies count for less than its components, whose slots must not depend on that."""
    rng = np.random.default_rng(0)
    mixing, sizes = 0.3 * rng.normal(size=(30, 30)) / np.sqrt(30), (400, 60, 40, 40)
    shards = [(np.exp(rng.normal(size=(size, 30)) @ mixing) - 1.0) / 0.6 for size in sizes]
    model = db.GaussianMixture(2, 30, covariance="full", ascent=db.Ascent(restarts=0))
    sites = fitted(model, shards, rng)
    merged = robust_merge(sites)
    assert merged.sites[0].counts > 0.99
    assert "nothing shared" not in [remark.kind for remark in merged.remarks()]
    held_out = np.concatenate(shards)
    assert model.score(merged.posterior, held_out) > model.score(plain(sites), held_out) - 0.05


def test_a_large_site_that_counts_in_part_is_said_before_all_sites_that_are_left_out(rng):
    """Three of eleven sites are left out. Most data are at a site that counts in part."""
    shards = [points(rng)[0] for _ in range(11)]
    shards[0] = points(rng, 3000)[0]
    for site in (1, 2, 3):
        shards[site] = 10.0 * site * shards[site]
    merge = robust_merge(fitted(KNOWN, shards, rng))
    counts = merge.sites[0].counts
    assert flagged(merge) == [1, 2, 3]
    assert 0.03 < counts < 0.9
    first = merge.remarks()[0]
    assert (first.kind, first.severity) == ("site counts less", "warning")
    assert first.what.startswith(f"Only part of the evidence of site 0 ({counts:.0%}) counts: it has more than most")
    assert f"Of the evidence of all sites in the merge, {(3000 * counts + 420) / 3420:.0%} counts." == first.rests_on


def test_a_robust_merge_says_what_it_cannot_do(honest):
    posteriors = honest[0][KNOWN]
    with pytest.raises(StructureMismatch, match="cannot follow an earlier one"):
        db.merge(posteriors, since=posteriors[0], robust=True)
    with pytest.raises(ValueError, match="cap"):
        Robust(cap=0.5)


@pytest.mark.parametrize("model", [KNOWN, DIAGONAL])
def test_if_nobody_stands_out_it_is_the_usual_merge(honest, model):
    """And with a site that clearly disagrees, that of the others: what it is right about does not count either."""
    posteriors, shards = honest[0][model], honest[1]
    counting = [
        one for one, site in zip(posteriors, robust_merge(posteriors).weights, strict=True) if site.min() == 1.0
    ]
    assert len(counting) >= 6
    usual = db.merge(counting)
    assert robust_merge(counting).posterior == usual
    liar = shards[0][0] + 5.0 * (shards[0][1] == 0)[:, None]
    merged = robust_merge([times(*fitted(model, [liar], np.random.default_rng(3)), 5.0), *counting])
    assert merged.posterior == usual


@pytest.mark.parametrize("seed", [21, 23])
def test_a_site_just_above_the_cap_does_not_make_it_another_merge(seed):
    """No remark names a site of which less than half a percent would not count."""
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(60, 0.1), size=5)
    model = db.LatentDirichletAllocation(5, tuple(map(str, range(60))), ascent=db.Ascent(passes=30, tolerance=1e-3))
    shards = [rng.poisson(20 * rng.dirichlet(np.full(5, 0.3), size=size) @ topics) for size in [60] * 5 + [90]]
    posteriors = fitted(model, map(csr_array, shards), rng)
    merge = robust_merge(posteriors)
    assert merge.reasons() == {}
    assert merge.posterior == db.merge(posteriors)


@pytest.mark.parametrize("unit", [10.0, 100.0])
@pytest.mark.parametrize("faulty", [1, 3])
def test_a_column_in_other_units_is_found_where_sites_know_coefficients_unequally_well(unit, faulty):
    """The column hardly varies at one site, which therefore agrees with everybody: it let all agree with all."""
    rng = np.random.default_rng(101)
    example = {"y": rng.normal(size=50), **{name: rng.normal(size=50) for name in "abcd"}}
    model = db.LinearRegression.from_frame(example, "y ~ a + b + c + d")
    held = []
    for site in range(10):
        columns = rng.normal(size=(150, 4)) * np.exp(rng.normal(0.0, 0.5, size=4))
        columns[:, 0] *= 0.1 if site == 9 else 1.0
        frame = {
            "y": columns @ [0.8, 1.4, 1.4, -0.6] + rng.normal(size=150),
            **dict(zip("abcd", columns.T, strict=True)),
        }
        frame["a"] = frame["a"] * (unit if site < faulty else 1.0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            held.append(model.fit(model.points(frame)).posterior)
    merged, honest = robust_merge(held), db.merge(held[faulty:])
    assert flagged(merged) == list(range(faulty))
    assert coefficients_moved(merged.posterior, honest) < 1.0


def test_a_site_whose_own_component_lost_its_slot_to_a_faulty_one_is_heard_again(rng):
    """Two of three clusters are known to all; one site also has the third. A site in other units needs three slots."""
    shards = [points(rng, 90, (0.5, 0.5, 0.0))[0] for _ in range(6)]
    (faulty, own), expected = (100.0 * points(rng, 90)[0], points(rng, 90)[0]), CENTRES
    merged = robust_merge(fitted(KNOWN, [faulty, own, *shards], rng))
    assert flagged(merged) == [0]
    assert np.abs(means(merged.posterior) - expected).max() < 0.5


def test_a_site_that_tells_of_one_direction_is_no_copy_because_it_is_close_there(rng):
    """Outcomes that the rules hide leave the number of rows: six coefficients, of which such a site knows one sum."""
    model = db.LogisticRegression("y", columns={"y": "yes/no"} | dict.fromkeys("abcde", "real"))
    fits = []
    for _ in range(4):
        frame = {name: rng.normal(size=60) for name in "abcde"}
        fits.append(model.fit(frame | {"y": rng.permutation(60) < 20}).posterior)
    direction, known = np.array([1.0, 0.3, -0.2, 0.1, 0.0, 0.2]), 4.0
    other = fits[1].contribution["coefficients"][0]
    there = direction @ np.linalg.solve(-2.0 * other[6:].reshape(6, 6), other[:6])
    precision = known * np.outer(direction, direction)
    told = np.append(known * (there + 0.05) * direction, -0.5 * precision)[None]
    vague = replace(fits[0], contribution={"coefficients": told})
    assert [site.copy_of for site in robust_merge([vague, *fits[1:]]).sites] == 4 * [None]
