"""The default merge of topics on a GPU against that on the processor."""

import numpy as np
import pytest
from scipy.sparse import csr_array

import decbayes as db
from decbayes.families import Dirichlet
from decbayes.merging.base.components import Components, bases
from decbayes.merging.base.coupled import coupled_problem
from decbayes.merging.base.division import divided
from decbayes.merging.grouping import grouping, joins
from decbayes.merging.grouping.cuda import gpu_division as division_cuda
from decbayes.merging.grouping.cuda import gpu_search as grouping_cuda
from decbayes.merging.grouping.search import SlotSearch

WORDS, SLOTS = 40, 4


@pytest.fixture
def structure():
    prior = Dirichlet().natural(alpha=np.full((SLOTS, WORDS), 0.05))
    return db.extending.Structure(
        {"topics": Dirichlet()}, {"topics": prior}, (db.extending.CoupledSet(("topics",)),), sparse={"topics"}
    )


@pytest.fixture
def small(monkeypatch):
    """Few threads, which take turns here; and trees of few components."""
    monkeypatch.setattr(grouping_cuda, "THREADS", 64)
    monkeypatch.setattr(grouping, "LARGE", 0)
    monkeypatch.setattr(joins, "GROUP", 8)


def posteriors(structure, rng, sites=8):
    """Sites of different sizes whose topics are mixed up a little, in an order of each one's own."""
    truth = rng.dirichlet(np.full(WORDS, 0.2), size=SLOTS)
    found = []
    for _ in range(sites):
        mixed = rng.dirichlet(np.full(SLOTS, 0.3), size=SLOTS) @ truth
        found.append(db.Posterior(structure, {"topics": csr_array(rng.poisson(rng.uniform(5, 300) * mixed) * 1.0)}))
    return found


def components(structure, found):
    problem = coupled_problem(found, structure.symmetry[0], structure).loaded()
    parts = Components.of(problem.factors, problem.contents)
    return problem, parts, bases(parts.factors, float(parts.evidence.sum()), SLOTS)


def test_trees_join_what_they_join_on_the_processor(gpu, small, structure, rng):
    _, parts, base = components(structure, posteriors(structure, rng))
    expected = joins.grown_labels(parts.shortened(20), base, SLOTS)
    assert len(joins.tree_ends(len(parts), SLOTS)) > 2, "more than one tree"
    sent = grouping_cuda.sent_rows(gpu, parts.rows[0])
    np.testing.assert_array_equal(grouping_cuda.grown_labels(gpu, parts.rows[0], sent, SLOTS, short=20), expected)


@pytest.mark.parametrize(("team", "late"), [(1, -1), (3, -1), (3, 0), (3, 1), (3, 2)])
def test_moves_end_where_they_end_on_the_processor_whichever_block_is_late(
    gpu, small, structure, monkeypatch, team, late
):
    """With this seed and the second block late, the others once wrote gains that it was still looking at."""
    rng = np.random.default_rng(2)
    monkeypatch.setattr(grouping_cuda, "TEAM", team)
    monkeypatch.setattr(gpu, "late", late, raising=False)
    _, parts, base = components(structure, posteriors(structure, rng, sites=20))
    start = rng.integers(0, SLOTS, len(parts))
    ours = grouping_cuda.GpuSlotSearch(gpu, parts, start, SLOTS, grouping_cuda.sent_rows(gpu, parts.rows[0]))
    theirs = SlotSearch(parts, start, base, SLOTS)
    assert ours.value() == pytest.approx(theirs.value(), rel=1e-12)
    assert ours.moves() == pytest.approx(theirs.moves(), rel=1e-12)
    np.testing.assert_array_equal(ours.labels, theirs.labels)
    np.testing.assert_allclose(ours.join_losses(), theirs.join_losses(), rtol=1e-10, atol=1e-8)


def test_slots_fall_in_the_same_halves(gpu, small, structure, rng):
    _, parts, base = components(structure, posteriors(structure, rng))
    labels = np.arange(len(parts)) % 3
    ours = grouping_cuda.GpuSlotSearch(gpu, parts, labels, SLOTS, grouping_cuda.sent_rows(gpu, parts.rows[0]))
    theirs = SlotSearch(parts, labels, base, SLOTS)
    groups = [np.flatnonzero(labels == slot) for slot in range(3)]
    for (half, gain), (expected, worth) in zip(ours.halves(groups), theirs.halves(groups), strict=True):
        np.testing.assert_array_equal(half, expected)
        assert gain == pytest.approx(worth, rel=1e-9)


def test_counts_are_divided_as_on_the_processor(gpu, small, structure, rng):
    found = posteriors(structure, rng)
    problem, parts, _ = components(structure, found)
    labels = tuple(np.split(rng.integers(0, SLOTS, len(parts)), len(found)))
    ours, theirs = division_cuda.divided(gpu, problem, labels, 5), divided(problem, labels, 5, len(found))
    np.testing.assert_allclose(np.concatenate(ours.shares), np.concatenate(theirs.shares), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(ours.profiles, theirs.profiles, rtol=1e-9, atol=1e-12)
    received = np.zeros(ours.profiles.shape)
    for site, (rows,) in enumerate(problem.contents):
        theirs.add_to(received, site, rows, np.arange(SLOTS))
    np.testing.assert_allclose(ours.received, received, rtol=1e-9, atol=1e-9)
    assert ours.of_sites(ours.shares[:3]).received is None, "some sites put less into the slots"


def test_a_merge_is_the_processors(gpu, small, structure, rng, monkeypatch):
    found = posteriors(structure, rng)
    expected = db.align(found)
    launched = []
    launch = gpu.launch
    monkeypatch.setattr(gpu, "launch", lambda *words, **options: (launched.append(words[1]), launch(*words, **options)))
    with db.devices.use_device("cuda"):
        ours = db.align(found)
    assert {"join_nearest", "climb", "divide_columns"} <= set(launched)
    for own, theirs in zip(ours.assignments, expected.assignments, strict=True):
        np.testing.assert_array_equal(*(each[structure.symmetry[0]] for each in (own, theirs)))
    np.testing.assert_allclose(*(each.merged().natural["topics"] for each in (ours, expected)), rtol=1e-8)
    np.testing.assert_allclose(ours.in_slots(2).natural["topics"], expected.in_slots(2).natural["topics"], rtol=1e-8)


def test_robust_merges_sum_what_they_have_weighed(gpu, small, structure, rng):
    """What slots receive was summed before anybody was found to disagree."""
    loud = np.zeros((SLOTS, structure.prior["topics"].shape[1]))
    loud[:, 0] = 3000.0
    found = [*posteriors(structure, rng), db.Posterior(structure, {"topics": csr_array(loud)})]
    expected = db.merging.robust_merge(found)
    with db.devices.use_device("cuda"):
        ours = db.merging.robust_merge(found)
    np.testing.assert_allclose(ours.weights, expected.weights, rtol=1e-8)
    np.testing.assert_allclose(ours.posterior.natural["topics"], expected.posterior.natural["topics"], rtol=1e-8)
