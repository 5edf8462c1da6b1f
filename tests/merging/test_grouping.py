"""Any component into any slot: against all assignments of tiny problems, in blocks, and where sites differ."""

from itertools import product

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.special import xlogy
from structures import topics

import decbayes as db
from decbayes.merging.base import division
from decbayes.merging.base.components import chunks
from decbayes.merging.grouping import grouping
from decbayes.structure import CoupledSet

COUPLED = CoupledSet(("topics",))


def posterior(counts, words=None):
    counts = np.asarray(counts, dtype=float)
    return db.Posterior(topics(len(counts), words or counts.shape[1]), {"topics": csr_array(counts)})


def drawn(rng, truth, seen, tokens=60):
    """A site that has seen some of the true topics."""
    return posterior([rng.multinomial(rng.integers(tokens // 2, tokens), truth[topic]) for topic in seen])


def information(posteriors, labels, slots):
    """Σ_k sup_θ Σ_w m_kw log θ_w, written out from the counts m of each slot."""
    rows = np.vstack([each.contribution["topics"].toarray() for each in posteriors])
    sums = np.array([rows[np.asarray(labels) == slot].sum(axis=0) for slot in range(slots)])
    return float(xlogy(sums, sums).sum() - xlogy(sums.sum(axis=1), sums.sum(axis=1)).sum())


@pytest.mark.parametrize("seed", range(12))
def test_no_assignment_of_a_tiny_problem_is_better(seed):
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet(np.full(8, 0.3), size=4)
    posteriors = [drawn(rng, truth, rng.choice(4, 2, replace=False)) for _ in range(3)]
    found = db.align(posteriors, components=3, solver=db.solvers.Grouping(passes=0))
    labels = np.concatenate([slots[COUPLED] for slots in found.assignments])
    best = max(information(posteriors, candidate, 3) for candidate in product(range(3), repeat=6))
    assert information(posteriors, labels, 3) == pytest.approx(best, rel=1e-12)


def test_margins_are_what_the_best_other_slot_loses(rng):
    truth = rng.dirichlet(np.full(10, 0.3), size=3)
    posteriors = [drawn(rng, truth, (0, 1, 2, 0)) for _ in range(3)]
    found = db.align(posteriors, components=3, solver=db.solvers.Grouping(passes=0))
    labels = np.concatenate([slots[COUPLED] for slots in found.assignments])
    value = information(posteriors, labels, 3)
    margins = np.concatenate([margin[COUPLED] for margin in db.merging.margins(found)])
    for component, margin in enumerate(margins):
        elsewhere = [np.where(np.arange(len(labels)) == component, slot, labels) for slot in range(3)]
        others = [information(posteriors, other, 3) for other in elsewhere if other[component] != labels[component]]
        assert margin == pytest.approx(value - max(others), rel=1e-6, abs=1e-6)


def test_a_topic_that_a_site_has_split_becomes_one_again(rng):
    truth = rng.dirichlet(np.full(40, 0.1), size=3)
    whole, halves = drawn(rng, truth, (0, 1, 2), 900), drawn(rng, truth, (0, 0, 1), 900)
    slots = [assignment[COUPLED].tolist() for assignment in db.align([whole, halves]).assignments]
    assert slots[1] == [slots[0][0], slots[0][0], slots[0][1]]


def test_a_topic_that_is_two_is_divided_and_no_word_is_lost(rng):
    """A small site has found one topic where others know two: each word goes to the slot that explains it."""
    first, second = np.kron([1.0, 0.0], np.full(10, 30.0)), np.kron([0.0, 1.0], np.full(10, 30.0))
    posteriors = [posterior([first, second]) for _ in range(3)] + [posterior([first + second, 0.0 * first])]
    found = db.align(posteriors)
    merged = found.merged().contribution["topics"].toarray()
    assert merged.sum() == pytest.approx(sum(each.contribution["topics"].sum() for each in posteriors))
    shares = merged / merged.sum(axis=1, keepdims=True)
    assert max(shares[0][:10].sum(), shares[0][10:].sum()) > 0.99
    together = (
        db.merge(posteriors, solver=db.solvers.Grouping(passes=0), duplicates="allow").contribution["topics"].toarray()
    )
    assert max(together.min(axis=1)) > 0.0, "whole components would have mixed the two"
    assert db.merging.product(found.relabelled()).contribution["topics"].toarray() == pytest.approx(merged)


def test_a_site_that_fits_more_than_the_merge_keeps_loses_nothing(rng):
    truth = rng.dirichlet(np.full(30, 0.1), size=2)
    sites = [drawn(rng, truth, (0, 1, 0, 1), 400) for _ in range(3)]
    merged = db.merge(sites, components=2).contribution["topics"].toarray()
    near = np.abs(merged[:, None] / merged.sum(axis=1)[:, None, None] - truth).sum(axis=2)
    assert near.min(axis=1).max() < 0.2


def many_sites(rng, count):
    truth = rng.dirichlet(np.full(50, 0.1), size=5)
    return [drawn(rng, truth, rng.choice(5, 3, replace=False), 300) for _ in range(count)]


def test_files_and_memory_give_the_same_bits_in_one_piece_and_in_blocks(rng, tmp_path, monkeypatch):
    sites = many_sites(rng, 30)
    paths = [tmp_path / f"{number}.posterior" for number in range(len(sites))]
    for path, site in zip(paths, sites, strict=True):
        db.save(site, path)
    at_once = db.merge(sites, components=5)
    assert db.merge(db.merging.Library(paths), components=5) == at_once
    for module in (grouping, division):
        monkeypatch.setattr(module, "SITES_AT_A_TIME", 7)
    monkeypatch.setattr(grouping, "MOST_LOADED", 100)
    read = []
    monkeypatch.setattr(grouping, "chunks", lambda problem, many: read.append(many) or chunks(problem, many))
    in_blocks = db.merge(sites, components=5)
    assert set(read) == {7}
    assert db.merge(db.merging.Library(paths), components=5) == in_blocks
    # On a problem this clear both find the same slots, whatever they are called.
    first, second = (np.sort(each.contribution["topics"].toarray().sum(axis=1)) for each in (at_once, in_blocks))
    np.testing.assert_allclose(first, second, rtol=0.02)


def test_merging_merges_and_late_sites_works(rng):
    sites = many_sites(rng, 12)
    early = db.merge(sites[:8], components=5)
    late = db.merge([early, *sites[8:]])
    together = db.merge(sites, components=5)
    first, second = (np.sort(each.contribution["topics"].toarray().sum(axis=1)) for each in (late, together))
    np.testing.assert_allclose(first, second, rtol=0.05)


@pytest.mark.parametrize("seed", range(3))
def test_the_number_of_topics_is_found_where_each_site_sees_some(seed):
    """Twelve topics, eight sites that see five of them and fit eight: never a wild number."""
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet(np.full(300, 0.05), size=12)
    model = db.LatentDirichletAllocation(8, tuple(map(str, range(300))), document_prior=0.1, topic_prior=0.05)
    posteriors = []
    for site in range(8):
        seen = np.append(rng.choice(12, 4, replace=False), site)
        shares = rng.dirichlet(np.full(5, 0.2), size=60)
        posteriors.append(model.fit(csr_array(rng.multinomial(80, shares @ truth[seen])), rng=rng).posterior)
    visible = 12
    merged = db.merge(posteriors, components="auto")
    assert visible - 2 <= merged.structure.components(COUPLED) <= visible + 4


def test_the_number_of_clusters_is_found(rng):
    centres = np.array([[-8.0, 0.0], [0.0, 0.0], [8.0, 0.0], [0.0, 8.0]])
    model = db.GaussianMixture(components=6, dimension=2, variance=1.0, prior_variance=100.0, weight_prior=0.3)
    sites = [centres[rng.choice(4, 2, replace=False)] for _ in range(8)] + [centres]
    posteriors = [
        model.fit(own[rng.integers(len(own), size=60)] + rng.normal(size=(60, 2)), rng=rng).posterior for own in sites
    ]
    merged = db.merge(posteriors, components="auto")
    assert len(merged.mean("components")) == 4
    assert merged.contribution["weights"].sum() == pytest.approx(9 * 60)


class TestShared:
    def test_says_who_has_what(self, rng):
        truth = np.kron(np.eye(3), np.full(5, 0.2))
        sites = [drawn(rng, truth, seen, 400) for seen in ((0, 1), (1, 2), (1, 0))]
        found = db.align(sites, components=3)
        shared = found.shared()[COUPLED]
        slot = {topic: int(found.assignments[0][COUPLED][topic]) for topic in (0, 1)}
        slot[2] = int(found.assignments[1][COUPLED][1])
        assert set(shared.sites(slot[0])) == {0, 2}
        assert set(shared.sites(slot[1])) == {0, 1, 2}
        assert shared.private == [(slot[2], 1)]
        totals = [each.contribution["topics"].sum() for each in sites]
        np.testing.assert_allclose(shared.evidence.sum(axis=1), totals)
        assert np.isnan(shared.apart[0, slot[2]])
        assert np.nanmax(shared.apart) < 0.2
        assert (shared.duplicates, shared.unlike) == ((), ())

    def test_says_what_is_nearly_the_same_and_what_is_not(self, rng):
        truth = np.kron(np.eye(3), np.full(5, 0.2))
        sites = [drawn(rng, truth, (0, 1, 2), 4000) for _ in range(4)]
        assert len(db.align(sites, components=2).shared()[COUPLED].unlike) == 1
        assert db.align(sites, components=3).shared()[COUPLED].unlike == ()
        twice = [drawn(rng, truth, (0, 0, 1, 2), 4000) for _ in range(2)]
        assert len(db.align(twice, components=4).shared()[COUPLED].duplicates) == 1
