"""How much a site has to do with a merge, how far it disagrees, and how little a few faulty ones can do if asked to."""

import numpy as np
import pytest
from scipy.special import gammaln
from scipy.stats import multivariate_normal

import decbayes as db
from decbayes.errors import StructureMismatch
from decbayes.merging import Robust, robust_merge
from decbayes.posterior import Posterior

VARIANCE, PRIOR_VARIANCE = 2.0, 9.0
MEAN = db.GaussianMean(variance=VARIANCE, prior_mean=0.5, prior_variance=PRIOR_VARIANCE, dimension=1)
CENTRES = np.array([[-9.0, 0.0], [0.0, 9.0], [9.0, 0.0]])
MIXTURE = db.GaussianMixture(3, 2, variance=1.0, prior_variance=100.0)


def log_evidence(points):
    """log p(points) of the Gaussian mean model, by its joint normal distribution."""
    covariance = VARIANCE * np.eye(len(points)) + PRIOR_VARIANCE
    return multivariate_normal(np.full(len(points), 0.5), covariance).logpdf(points)


def sites(rng, count=12, *, points=60, move=0.0, faulty=0):
    posteriors = []
    for site in range(count):
        labels = rng.integers(3, size=points)
        data = CENTRES[labels] + rng.normal(size=(points, 2))
        if site < faulty:
            data[labels == 0] += move
        posteriors.append(MIXTURE.fit(data, rng=rng).posterior)
    return posteriors


def means(posterior):
    """Component means in the order of the true centres."""
    natural = posterior.natural["components"]
    found = -0.5 * natural[:, :2] / natural[:, 2:]
    return np.array([found[np.argmin(np.sum((found - centre) ** 2, axis=1))] for centre in CENTRES])


def test_the_log_bayes_factor_is_that_of_the_data_themselves(rng):
    shards = [rng.normal(mean, 1.4, size=5) for mean in (0.0, 0.2, 6.0)]
    influence = db.merging.influence(db.align([MEAN.fit(shard[:, None]).posterior for shard in shards]))
    for site, own in enumerate(shards):
        rest = np.concatenate([shard for other, shard in enumerate(shards) if other != site])
        expected = log_evidence(np.concatenate([own, rest])) - log_evidence(own) - log_evidence(rest)
        np.testing.assert_allclose(influence.log_bayes_factor[site].sum(), expected, rtol=1e-9)
    np.testing.assert_allclose(influence.share, 1 / 3)
    assert influence.disagreeing[2]
    assert influence.against[2] == influence.against.max()


def test_a_displaced_site_is_flagged_and_honest_ones_are_not(rng):
    influence = db.merging.influence(db.align(sites(rng, faulty=1, move=4.0)))
    assert [bool(influence.flags(site)) for site in range(12)] == [True] + 11 * [False]
    assert "disagrees" in influence.flags(0)[0]


def test_a_site_with_most_of_the_evidence_is_flagged(rng):
    posteriors = [*sites(rng, 5), *sites(rng, 1, points=900)]
    influence = db.merging.influence(db.align(posteriors))
    np.testing.assert_allclose(influence.share[5], 900 / 1200, rtol=1e-6)
    assert "75%" in influence.flags(5)[0]
    assert not any(influence.flags(site) for site in range(5))


@pytest.mark.parametrize(("count", "told"), [(3, False), (4, True)])
def test_what_is_usual_among_sites_can_be_told_from_four_on(count, told):
    """One of a few has most evidence, and all disagree alike; an empty site is no site to compare with."""
    evidence, factors = np.full((count + 1, 1), 100.0), np.full((count + 1, 1), -50.0)
    evidence[0], evidence[-1], factors[0], factors[-1] = 10_000.0, 0.0, -5_000.0, 0.0
    influence = db.merging.Influence(evidence, factors)
    np.testing.assert_array_equal(influence.large, [told] + [False] * count)
    np.testing.assert_array_equal(influence.disagreeing, [not told] * count + [False])


def test_sites_without_data_change_no_robust_merge(rng):
    """They are neither the middle site, whose evidence caps the others', nor copies of one another."""
    posteriors = sites(rng, 3)
    merged = robust_merge(posteriors)
    among = robust_merge([*posteriors, *[db.Posterior.of_prior(MIXTURE.structure)] * 5])
    np.testing.assert_allclose(means(among.posterior), means(merged.posterior), rtol=0, atol=1e-9)
    np.testing.assert_allclose(np.sort(among.weights[:3]), np.sort(merged.weights), atol=1e-9)
    np.testing.assert_array_equal(among.weights[3:], 1.0)


def test_counts_are_weighted_by_how_far_the_least_disagreeing_quarter_does(rng):
    """d_i in nats against all others as they are weighted, in turn; min(1, patience / d_i), where the patience is that
    of the rule or five times the disagreement per word that a quarter of the sites do not exceed."""
    words, alpha, family = 12, 0.5, db.families.Dirichlet()
    prior = family.natural(alpha=np.full((1, words), alpha))
    structure = db.extending.Structure({"topics": family}, {"topics": prior})
    away = np.array([0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.8, 1.0])[:, None]
    profiles = (1.0 - away) * rng.dirichlet(np.full(words, 9.0)) + away * rng.dirichlet(np.full(words, 2.0), size=9)
    counts = rng.poisson(3000.0 * profiles).astype(float)

    def evidence(rows):
        return gammaln(alpha + rows).sum() - gammaln((alpha + rows).sum())

    weights = np.ones(9)
    for _ in range(4):
        apart = []
        for site, own in enumerate(counts):
            rest = np.delete(weights[:, None] * counts, site, axis=0).sum(axis=0)
            apart.append(evidence(own) + evidence(rest) - evidence(own + rest) - evidence(0.0 * own))
        sizes = counts.sum(axis=1)
        patience = np.maximum(3.0, 5.0 * np.percentile(np.array(apart) / sizes, 25) * sizes)
        weights = np.where(apart > patience, patience / np.array(apart), 1.0)
    merged = robust_merge([Posterior(structure, {"topics": own[None]}) for own in counts], Robust(cap=1e9))
    assert patience.min() > 3.0
    assert weights.min() < 0.5
    np.testing.assert_allclose(merged.weights[:, 0], weights, rtol=1e-6)


def test_a_robust_merge_of_honest_sites_is_nearly_the_plain_one(rng):
    posteriors = sites(rng)
    robust = robust_merge(posteriors)
    deviation = 1 / np.sqrt(12 * 60 / 3)
    assert np.abs(means(robust.posterior) - means(db.merge(posteriors))).max() < 0.5 * deviation
    assert np.median(robust.weights) == 1.0


@pytest.mark.parametrize("move", [3.0, 6.0])
def test_a_few_displaced_sites_move_a_robust_merge_less_than_a_plain_one(rng, move):
    posteriors = sites(rng, faulty=3, move=move)
    plain, robust = (
        np.abs(means(merged) - CENTRES).max() for merged in (db.merge(posteriors), db.merge(posteriors, robust=True))
    )
    print(f"moved by {move}: plain {plain:.3f}, robust {robust:.3f}")
    assert robust < 0.5 * plain


def test_inflated_evidence_is_capped(rng):
    posteriors = sites(rng, faulty=1, move=4.0)
    liar = posteriors[0]
    inflated = Posterior(liar.structure, {name: 1e9 * part for name, part in liar.contribution.items()})
    merged = db.merge([inflated, *posteriors[1:]], robust=Robust(cap=1.5))
    assert np.abs(means(merged) - CENTRES).max() < 0.6
    assert np.abs(means(db.merge([inflated, *posteriors[1:]])) - CENTRES).max() > 3


def unlike_sites(rng, *, faulty):
    """Ten sites, each with two of the three clusters; some have invented a fourth, in the place of one of theirs."""
    posteriors = []
    for site in range(10):
        labels = (site + rng.integers(2, size=60)) % 3
        data = CENTRES[labels] + rng.normal(size=(60, 2))
        if site < faulty:
            data[labels == labels[0]] = np.array([40.0, 40.0]) + rng.normal(size=((labels == labels[0]).sum(), 2))
        posteriors.append(MIXTURE.fit(data, rng=rng).posterior)
    return posteriors


@pytest.mark.parametrize("faulty", [1, 3])
def test_what_few_sites_claim_takes_no_slot_from_what_more_sites_know(rng, faulty):
    posteriors = unlike_sites(rng, faulty=faulty)
    plain, robust = (
        np.abs(means(merged) - CENTRES).max() for merged in (db.merge(posteriors), db.merge(posteriors, robust=True))
    )
    print(f"{faulty} of 10: plain {plain:.2f}, robust {robust:.2f}")
    assert robust < 0.7 < 3 < plain


def test_what_more_sites_know_wins_however_little_of_their_data_it_is(rng):
    posteriors = []
    for site in range(10):
        labels = rng.choice(3, size=100, p=[0.6, 0.3, 0.1])
        data = CENTRES[labels] + rng.normal(size=(100, 2))
        if site < 3:
            data[labels == 0] = np.array([40.0, 40.0]) + rng.normal(size=((labels == 0).sum(), 2))
        posteriors.append(MIXTURE.fit(data, rng=rng).posterior)
    assert np.abs(means(db.merge(posteriors, robust=True)) - CENTRES).max() < 0.7


def test_a_cluster_that_one_site_has_found_in_two_parts_counts_in_full(rng):
    wide = CENTRES[[0]] + rng.normal(size=(300, 2)) * [1.5, 1.0]
    posteriors = [*sites(rng, 5), MIXTURE.fit(wide, rng=rng).posterior]
    parts = db.merging.fillings(db.align(posteriors), MIXTURE.structure.symmetry[0])[5]
    merged = robust_merge(posteriors, Robust(cap=100.0))
    slot = int(np.argmin(np.abs(merged.posterior.mean("components") - CENTRES[0]).sum(axis=1)))
    assert max(map(len, parts)) > 1
    assert merged.weights[5, slot] > 0.9


def test_most_sites_are_believed_where_nearly_half_agree_on_something_else(rng):
    posteriors = sites(rng, 20, points=90, faulty=9, move=np.array([-6.0, 0.0]))
    assert np.abs(means(db.merge(posteriors, robust=True)) - CENTRES).max() < 0.7
    assert np.abs(means(db.merge(posteriors)) - CENTRES).max() > 2


def told(value, count):
    """What a site says of so many observations that all have this value."""
    return MEAN.fit(np.full((count, 1), value)).posterior


def test_most_sites_are_believed_even_if_the_others_have_more_evidence():
    """Whoever starts from the mean of all starts nearer to the 9 than to the 11."""
    few, many = [told(6.0 + 0.1 * site, 90) for site in range(9)], [told(0.1 * site, 60) for site in range(11)]
    merged = robust_merge([*few, *many])
    assert abs(merged.posterior.mean("mean").item() - 0.5) < 0.1
    assert merged.weights[:9].max() < 0.1 < 0.9 < merged.weights[9:].min()


def test_the_mean_of_all_is_believed_where_more_agree_with_it_than_with_any_one_site():
    said = {8.8: 48, -5.1: 41, 2.2: 47, 4.0: 25, 3.4: 8, -1.9: 7, -2.5: 1}
    assert robust_merge([told(*each) for each in said.items()]).weights.sum() > 2.7


@pytest.fixture(scope="module")
def in_parts():
    """Sites that have found two of three wide clusters, each in several parts; two of them are faulty."""
    rng, posteriors = np.random.default_rng(4), []
    model = db.GaussianMixture(6, 2, variance=1.0, prior_variance=100.0)
    for site in range(8):
        labels = (site + rng.integers(2, size=90)) % 3
        data = CENTRES[labels] + rng.normal(size=(90, 2)) * [2.0, 1.0]
        if site < 2:
            data[labels == labels[0]] += 20
        posteriors.append(model.fit(data, rng=rng).posterior)
    return posteriors, robust_merge(posteriors)


def test_labels_change_no_bit_of_a_robust_merge(in_parts):
    posteriors, merged = in_parts
    others = robust_merge(
        Posterior(own.structure, {name: part[::-1] for name, part in own.contribution.items()}) for own in posteriors
    )
    one, two = (sorted(map(tuple, each.posterior.natural["components"])) for each in (merged, others))
    assert one == two
    assert sorted(map(tuple, merged.weights.T)) == sorted(map(tuple, others.weights.T))


def test_the_order_of_sites_changes_no_bit_of_a_robust_merge(in_parts):
    posteriors, merged = in_parts
    others = robust_merge(posteriors[::-1])
    assert others.posterior.digest == merged.posterior.digest
    np.testing.assert_array_equal(others.weights[::-1], merged.weights)


def test_copies_count_once(rng):
    posteriors = sites(rng, 6)
    once, twice = (robust_merge(held).posterior for held in (posteriors, [*posteriors, *posteriors[:2]]))
    np.testing.assert_allclose(means(twice), means(once), rtol=0, atol=1e-9)


def test_topics_of_a_few_random_sites_matter_less_in_a_robust_merge(rng):
    vocabulary = tuple(map(str, range(30)))
    model = db.LatentDirichletAllocation(3, vocabulary)
    topics = rng.dirichlet(np.full(30, 0.1), size=3)
    posteriors = []
    for site in range(10):
        own = rng.dirichlet(np.full(30, 0.1), size=3) if site < 2 else topics
        mixes = rng.dirichlet(np.full(3, 0.3), size=60)
        posteriors.append(model.fit(rng.poisson(50 * mixes @ own), rng=rng).posterior)

    def distance(merged):
        found = merged.mean("topics")
        return max(np.abs(found - topic).sum(axis=1).min() for topic in topics)

    plain, robust = distance(db.merge(posteriors)), distance(db.merge(posteriors, robust=True))
    print(f"total variation: plain {plain:.3f}, robust {robust:.3f}")
    assert robust < plain


def test_a_robust_merge_says_what_it_cannot_do(rng):
    with pytest.raises(StructureMismatch, match="as many slots"):
        db.merge(sites(rng, 2), components=5, robust=True)
    with pytest.raises(ValueError, match="cap"):
        Robust(cap=0.5)
