"""Slots that are joined after a refinement, by what all sites' data say together."""

import numpy as np
import pytest
from scipy.special import digamma, gammaln, logsumexp

import decbayes as db
from decbayes.errors import StructureMismatch
from decbayes.streams import joining

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


def test_joined_slots_hold_what_both_held(rng):
    posterior = clusters(4).fit(sites_of(rng)[0], rng=rng).posterior
    found = joining.joined(posterior, 1, 3)
    for name, part in posterior.contribution.items():
        expected = part[[0, 1, 2]] + [[0.0], [1.0], [0.0]] * part[3]
        np.testing.assert_allclose(found.contribution[name], expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("asked", "left"), [("auto", 4), (5, 5), (3, 3), (9, 6)])
def test_slots_are_joined_for_as_long_as_the_bound_rises_or_down_to_a_number(asked, left, rng):
    model, shards = clusters(6), sites_of(rng)
    posteriors = [model.fit(shard, rng=rng).posterior for shard in shards]
    found = db.refine(model, shards, posteriors, rng=rng, components=asked)
    assert len(found.merged.natural["components"]) == left
    assert found.merged == db.merging.product(found.posteriors)
    assert len(found.shifts) == len(found.rounds) - (1 if left == 6 else 2)
    if left > 3:
        distance = np.linalg.norm(found.merged.mean("components")[:, None] - CENTRES, axis=2)
        assert distance.min(axis=0).max() < 0.5


def test_of_the_proposed_joins_the_best_is_made(rng, monkeypatch):
    model = clusters(4)
    own = [model.fit(sites_of(rng)[0], rng=rng).posterior]
    options = [[joining.joined(own[0], *pair)] for pair in ((0, 1), (2, 3), (0, 2))]
    worth = {own[0]: 0.0, options[0][0]: 5.0, options[1][0]: 9.0, options[2][0]: 7.0}
    monkeypatch.setattr(joining, "proposed", lambda own: options)
    monkeypatch.setattr(joining, "bound", lambda model, shards, merged, rng: worth[merged])
    assert joining.narrowed(model, [None], own, 3, rng) == options[1]


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
    model = db.GaussianMean(1, dimension=1)
    posteriors = [model.fit(np.ones((3, 1)), rng=rng).posterior]
    with pytest.raises(StructureMismatch, match="components share a prior"):
        db.refine(model, [np.ones((3, 1))], posteriors, rng=rng, components="auto")
    with pytest.raises(ValueError, match="at least 1"):
        db.refine(model, [np.ones((3, 1))], posteriors, rng=rng, components=0)
