"""Slots that are joined after a refinement, by what all sites' data say together."""

import warnings
from itertools import combinations

import numpy as np
import pytest
from scipy.special import digamma, gammaln, logsumexp

import decbayes as db
from decbayes.errors import StructureMismatch
from decbayes.streams import refinement
from decbayes.updates import joining
from decbayes.updates.joining import wide_numbers

CENTRES = np.array([[-6.0, 0.0], [0.0, 5.0], [6.0, 0.0], [0.0, -5.0]])


def clusters(components):
    return db.GaussianMixture(components, 2, variance=1.0, prior_variance=30.0)


def sites_of(rng, sites=4, points=150):
    odds = [np.roll([0.5, 0.3, 0.1, 0.1], site) for site in range(sites)]
    return [CENTRES[rng.choice(4, p=each, size=points)] + rng.normal(size=(points, 2)) for each in odds]


def written_out(points, merged, weight_prior):
    """Σ_n log Σ_k exp(E[log π_k] + E[log N(x_n | μ_k)]) − KL, from means, variances and Dirichlet parameters."""
    alpha = merged.parameters("weights")["alpha"].ravel()
    means, variances = merged.parameters("components").values()
    squares = ((points[:, None] - means) ** 2).sum(axis=2) + 2 * variances
    logs = digamma(alpha) - digamma(alpha.sum()) - np.log(2 * np.pi) - 0.5 * squares
    prior = np.full(len(alpha), weight_prior)
    shares = gammaln(alpha.sum()) - gammaln(alpha).sum() - gammaln(prior.sum()) + gammaln(prior).sum()
    shares += ((alpha - prior) * (digamma(alpha) - digamma(alpha.sum()))).sum()
    ratio = variances / 30.0
    places = (ratio - 1 - np.log(ratio)).sum() + 0.5 * (means**2).sum() / 30.0
    return logsumexp(logs, axis=1).sum() - shares - places


def test_the_summed_bound_is_that_of_all_data(rng):
    model, shards = clusters(3), sites_of(rng)
    merged = db.merge([model.fit(shard, rng=rng).posterior for shard in shards])
    found = joining.bound(model, shards, merged, rng)
    assert found == pytest.approx(written_out(np.concatenate(shards), merged, model.weight_prior), rel=1e-9)


def test_orders_of_slots_count_and_empty_ones_have_none(rng):
    model, shards = clusters(3), sites_of(rng)
    merged = db.merge([model.fit(shard, rng=rng).posterior for shard in shards], components=3)
    wide = db.merging.pad(merged, 5)
    for posterior, orders in ((merged, 6), (wide, 60)):
        found = joining.height_of(model.sized(len(posterior.natural["weights"])), shards, posterior, rng)
        known = written_out(np.concatenate(shards), posterior, model.weight_prior)
        assert found == pytest.approx(known + np.log(orders), rel=1e-9)


def test_empty_slots_are_joined_to_others(rng):
    model, shards = clusters(4), sites_of(rng, 3, 60)
    wide = [db.merging.pad(model.fit(shard, rng=rng).posterior, 12) for shard in shards]
    found = db.refine(clusters(12), shards, wide, rounds=2, rng=rng, components=12).posteriors
    left = joining.narrowed(clusters(12), shards, list(found), "auto", rng)
    assert joining.slots_of(left[0]) == 4


def test_joined_slots_hold_what_both_held(rng):
    posterior = clusters(4).fit(sites_of(rng)[0], rng=rng).posterior
    found = joining.joined(posterior, ((1, 3),))
    for name, part in posterior.contribution.items():
        expected = part[[0, 1, 2]] + [[0.0], [1.0], [0.0]] * part[3]
        np.testing.assert_allclose(found.contribution[name], expected, rtol=1e-12, atol=1e-12)


@pytest.fixture(scope="module")
def sites():
    rng = np.random.default_rng(20140723)
    model, shards = clusters(6), sites_of(rng)
    return model, shards, [model.fit(shard, rng=rng).posterior for shard in shards]


@pytest.mark.parametrize(("asked", "left"), [("auto", 4), (5, 5), (3, 3), (9, 6)])
def test_slots_are_joined_for_as_long_as_the_bound_rises_or_down_to_a_number(asked, left, sites, rng):
    model, shards, posteriors = sites
    found = db.refine(model, shards, posteriors, rng=rng, components=asked)
    assert len(found.merged.natural["components"]) == left
    assert found.merged == db.merging.product(found.posteriors)
    assert len(found.shifts) == len(found.rounds) - (1 if left == 6 else 2)
    if left > 3:
        distance = np.linalg.norm(found.merged.mean("components")[:, None] - CENTRES, axis=2)
        assert distance.min(axis=0).max() < 0.5


@pytest.mark.slow
def test_small_sites_that_miss_classes_find_all_of_them_together():
    rng = np.random.default_rng(0)  # no site finds all six, on any processor that was tried
    chances = np.clip(rng.beta(1.0, 3.0, size=(6, 60)), 0.02, 0.98)
    classes = [rng.integers(6, size=60) for _ in range(8)]
    shards = [1.0 * (rng.random((60, 60)) < chances[own]) for own in classes]
    model = db.BernoulliMixture("auto", 60, ascent=db.Ascent(restarts=0))
    posteriors = [model.fit(shard, rng=rng).posterior for shard in shards]
    assert max(len(posterior.natural["weights"]) for posterior in posteriors) < 6
    found = db.refine(model, shards, posteriors, rng=rng, components="auto")
    assert len(found.merged.natural["weights"]) == 6
    labels = model.assign(found.merged, np.concatenate(shards)).argmax(axis=1)
    assert db.checking.adjusted_rand(np.concatenate(classes), labels) > 0.9


@pytest.mark.parametrize(
    ("found", "begun", "kept"),
    [([5], [20], 5), ([18, 12], [20, 40], 12), ([18, 9], [20, 40], 18), ([20, 39], [20, 40], 39)],
)
def test_a_start_whose_slots_are_nearly_all_needed_is_followed_by_a_wider_one(found, begun, kept, monkeypatch):
    """The wider one stays if its bound is higher."""
    heights, tried, left = {5: 0.0, 18: 0.0, 12: 100.0, 9: -100.0, 20: 0.0, 39: 1.0}, [], iter(found)

    class Result:
        def __init__(self, slots):
            self.merged = slots

    def start(self, model, fits, most):
        tried.append(model.components)
        return Result(next(left))

    monkeypatch.setattr(refinement, "slots_of", lambda slots: slots)
    monkeypatch.setattr(refinement, "sized", lambda model, slots: model)
    monkeypatch.setattr(refinement, "height_of", lambda model, shards, slots, rng: heights[slots])
    monkeypatch.setattr(refinement.Search, "from_starts", start)
    monkeypatch.setattr(refinement.Search, "fitted", lambda self, model, times: [])
    search = refinement.Search(clusters(6), (), None, None, "sequential", 1.0, 0, (), (), "auto")
    assert search.widened([20, 40], 1).merged == kept
    assert tried == begun


@pytest.mark.parametrize(("sites", "rows", "numbers"), [(4, 150, [20, 40, 60]), (2, 25, [5]), (1, 30, [])])
def test_sites_begin_with_twice_as_many_components_as_needed_if_they_have_rows_for_them(sites, rows, numbers, rng):
    shards = sites_of(rng, sites, rows)
    posteriors = [clusters(4).fit(shard, rng=rng).posterior for shard in shards]
    assert wide_numbers(posteriors) == numbers


def test_twice_as_many_are_twice_the_slots_of_a_merge(rng, monkeypatch):
    monkeypatch.setattr(joining, "FIRST", 3)
    shards = sites_of(rng, 4, 150)
    posteriors = [clusters(4).fit(shard, rng=rng).posterior for shard in shards]
    slots = len(db.merge(posteriors).natural["weights"])
    assert wide_numbers(posteriors)[:2] == [2 * slots, 4 * slots]


def test_a_refinement_carries_remarks_on_its_slots_warns_of_them_and_shows_them(rng):
    """Three clusters, of which each site sees two, in two slots and in three."""
    seen = ([-9.0, 0.0], [0.0, 9.0], [9.0, -9.0])
    shards = [np.repeat(centres, 40)[:, None] + rng.normal(size=(80, 1)) for centres in seen]
    for slots, expected in ((2, ["few slots", "unlike shares"]), (3, ["unlike shares"])):
        model = db.GaussianMixture(slots, 1, variance=1.0, prior_variance=100.0, ascent=db.Ascent(restarts=2))
        fitted = [model.fit(shard, rng=rng).posterior for shard in shards]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            refined = db.refine(model, shards, fitted, rng=rng, rounds=2)
        assert [remark.kind for remark in refined.merged.remarks] == expected
        (warning,) = caught
        assert (warning.category, warning.filename) == (db.errors.MergeWarning, __file__)
        assert ("components that differ" in str(warning.message)) == (slots == 2)
        assert refined.merged == db.merging.product(refined.posteriors)
        assert str(refined) == f"Refinement of {refined.headline}\n{refined.merged}"
        assert repr(refined).startswith("Refinement(3 sites, 2 rounds, ")


def test_the_joins_that_lose_least_come_first(rng):
    """Of known variance: n m / (n + m) |x − y|² / 2, all pairs tried at each step."""
    posterior = clusters(6).fit(sites_of(rng)[0], rng=rng).posterior
    sizes = posterior.contribution["weights"].ravel()
    sums = sizes[:, None] * posterior.mean("components")
    groups = [[slot] for slot in range(6) if sizes[slot] > 1]

    def lost(one, other):
        n, m = sizes[one].sum(), sizes[other].sum()
        return n * m / (n + m) * ((sums[one].sum(0) / n - sums[other].sum(0) / m) ** 2).sum() / 2

    expected = {frozenset(group) for group in groups}
    while len(groups) > 1:
        one, other = min(combinations(groups, 2), key=lambda pair: lost(*pair))
        groups = [group for group in groups if group not in (one, other)] + [one + other]
        expected.add(frozenset(one + other))
    joins = joining.cheapest_joins(posterior)
    found, places = set(), np.arange(6)
    for made in range(6):
        left = joining.joined(posterior, joins[:made]).contribution["weights"].ravel()
        np.testing.assert_allclose(left.sum(), sizes.sum())
        found |= {frozenset(np.flatnonzero((places == slot) & (sizes > 1)).tolist()) for slot in places}
        if made < 5:
            kept, absorbed = joins[made]
            places = np.where(places == absorbed, kept, places)
            places = np.where(places == 5 - made, absorbed, places)
    assert expected <= found


def test_the_sites_parts_add_up_to_the_height_for_every_number_of_slots(rng):
    model, shards = clusters(4), sites_of(rng, 3, 40)
    merged = db.merge([model.fit(shard, rng=rng).posterior for shard in shards], components=4)
    joins = joining.cheapest_joins(merged)
    parts = [joining.site_heights(model, shard, merged, joins, 3, rng) for shard in shards]
    for made, found in enumerate(np.sum(parts, axis=0)):
        left = joining.joined(merged, joins[:made])
        known = written_out(np.concatenate(shards), left, model.weight_prior) + gammaln(5 - made)
        assert found == pytest.approx(known, rel=1e-9)
    assert joining.best_number([[0.0, 5.0, 3.0], [0.0, -1.0, 2.0]]) == 2


def test_topics_that_say_the_same_are_joined(rng):
    truth = rng.dirichlet(np.full(40, 0.1), size=3)
    documents = [rng.multinomial(60, rng.dirichlet(np.full(3, 0.2), size=40) @ truth) for _ in range(3)]
    model = db.LatentDirichletAllocation(5, [f"w{i:02d}" for i in range(40)], document_prior=0.1, topic_prior=0.1)
    posteriors = [model.fit(own, rng=rng).posterior for own in documents]
    found = db.refine(model, documents, posteriors, rng=rng, rounds=3, components=3).merged
    words = found.mean("topics")
    likeness = (words @ truth.T) / np.linalg.norm(words, axis=1)[:, None] / np.linalg.norm(truth, axis=1)
    assert likeness.max(axis=0).min() > 0.9


def test_what_cannot_be_joined_is_refused(rng):
    model = db.models.GaussianMean(1, dimension=1)
    posteriors = [model.fit(np.ones((3, 1)), rng=rng).posterior]
    with pytest.raises(StructureMismatch, match="components share a prior"):
        db.refine(model, [np.ones((3, 1))], posteriors, rng=rng, components="auto")
    with pytest.raises(ValueError, match="at least 1"):
        db.refine(model, [np.ones((3, 1))], posteriors, rng=rng, components=0)


def test_wide_starts_are_as_many_as_restarts_and_one_more(rng, monkeypatch):
    tried = []
    monkeypatch.setattr(refinement.Search, "widened", lambda self, numbers, times: tried.append(times))
    model, shards = clusters(2), sites_of(rng)
    posteriors = [model.fit(shard, rng=rng).posterior for shard in shards]
    db.refine(model, shards, posteriors, rng=rng, rounds=1, restarts=2, components="auto")
    assert tried == [3]
