"""Alignment at scale: exact gains, the same bits on all workers and from files, and optimality as stated."""

import os
from concurrent import futures
from itertools import permutations
from threading import Lock
from weakref import ref

import joblib
import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.special import gammaln
from structures import draw, everything, mixture, topics

import decbayes as db
from decbayes import files
from decbayes.base import workers
from decbayes.families import Dirichlet
from decbayes.merging.base.coupled import coupled_problem
from decbayes.merging.matching.placement import Placement


def news(agents, rng, *, components=6, words=300, tokens=400):
    """Sparse topic posteriors with shared topics, labelled by each agent as it likes."""
    structure = topics(components, words)
    truth = rng.dirichlet(np.full(words, 0.05), size=components)
    posteriors = []
    for _ in range(agents):
        counts = [rng.multinomial(tokens // components, truth[k]) for k in rng.permutation(components)]
        posteriors.append(db.Posterior(structure, {"topics": np.array(counts, dtype=float)}))
    return posteriors


def dense_gain(rest, own):
    """The definition, with SciPy and without any sparsity: NaN where a sum leaves the domain."""
    gain = np.full((len(rest), len(own)), np.nan)
    for k, row in enumerate(rest + 1.0):
        for j, added in enumerate(own):
            if (row + added > 0).all():
                gain[k, j] = gammaln(row + added).sum() - gammaln((row + added).sum())
    return gain


def placement_of(posteriors, rng):
    (coupled,) = posteriors[0].structure.symmetry
    problem = coupled_problem(posteriors, coupled, posteriors[0].structure)
    return Placement(problem, np.array([rng.permutation(problem.components) for _ in posteriors]))


class TestGains:
    @pytest.mark.parametrize("largest", [3.0, 1e4])
    def test_sparse_gains_are_the_dense_definition(self, rng, largest):
        rest = rng.gamma(0.3, largest, size=(5, 200)) - 1.0 + 1e-3
        own = rng.gamma(0.5, largest, size=(5, 200)) * (rng.random((5, 200)) < 0.1)
        ours, exact = Dirichlet().gain(rest, csr_array(own)), dense_gain(rest, own)
        # Up to a constant a slot: each slot takes one component, so that it changes no comparison.
        differences = (ours - ours[:, :1]) - (exact - exact[:, :1])
        assert np.abs(differences).max() < 1e-9 * np.abs(exact).max()

    def test_a_component_is_allowed_exactly_where_the_sum_stays_in_the_domain(self, rng):
        rest = rng.gamma(0.3, 1.0, size=(4, 6)) - 1.0 + 0.1
        rest[1, 2], rest[2, [0, 5]] = -1.5, -1.2
        own = np.where(rng.random((4, 6)) < 0.5, rng.normal(0.5, 0.6, size=(4, 6)), 0.0)
        own[0, 2], own[1, [0, 5]] = 1.0, 1.0
        defined = np.isfinite(Dirichlet().gain(rest, csr_array(own)))
        np.testing.assert_array_equal(defined, np.isfinite(dense_gain(rest, own)))
        assert 0 < defined.sum() < defined.size

    @pytest.mark.parametrize("structure", [mixture(4), topics(4, 30)], ids=["mixture", "topics"])
    def test_kept_gains_are_those_computed_anew(self, rng, structure):
        placement = placement_of([draw(structure, rng) for _ in range(5)], rng)
        for _ in range(40):
            placement.gain(int(rng.integers(5)))
            agent = int(rng.integers(5))
            placement.place(agent, placement.assignments[agent][rng.permutation(4)])
        for agent in range(5):
            fresh = Placement(placement.problem, placement.assignments).gain(agent)
            np.testing.assert_allclose(placement.gain(agent), fresh, rtol=1e-9, atol=1e-9)

    def test_taking_an_agent_out_again_leaves_a_tiny_prior_exact(self):
        structure = topics(2, 3)
        tiny = structure.with_prior({"topics": Dirichlet().natural(alpha=np.full((2, 3), 1e-9))})
        large = db.Posterior(tiny, {"topics": np.array([[1e8, 0, 0], [0, 3.0, 0]])})
        placement = placement_of([large, db.Posterior(tiny, {"topics": np.zeros((2, 3))})], np.random.default_rng(0))
        alone = Placement(coupled_problem([large], tiny.symmetry[0], tiny))
        np.testing.assert_allclose(placement.gain(0), alone.gain(0), rtol=1e-12)

    def test_agents_are_passed_over_until_a_slot_of_theirs_changes(self, rng):
        placement = placement_of([draw(mixture(3), rng) for _ in range(2)], rng)
        assert not placement.up_to_date(0)
        placement.gain(0)
        assert placement.up_to_date(0)
        placement.place(0, np.roll(placement.assignments[0], 1))
        assert placement.up_to_date(0), "an agent's own moves do not change what it would gain"
        placement.place(1, np.roll(placement.assignments[1], 1))
        assert not placement.up_to_date(0)


class TestWorkers:
    def test_threads_do_not_change_a_bit(self, rng, monkeypatch):
        posteriors = news(12, rng)
        with joblib.parallel_config(n_jobs=1):
            alone = db.align(posteriors, solver=db.solvers.Matching(restarts=2))
        monkeypatch.setattr(workers, "WORTH_A_THREAD", 1)
        with joblib.parallel_config(n_jobs=3):
            together = db.align(posteriors, solver=db.solvers.Matching(restarts=2))
        assert together.objective == alone.objective
        assert together.merged() == alone.merged()

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
    @pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
    def test_a_forked_process_has_threads_of_its_own(self):
        assert workers.pool().submit(abs, -1).result(timeout=10) == 1
        child = os.fork()
        if not child:
            done = futures.wait([workers.pool().submit(abs, -1)], timeout=10).done
            os._exit(0 if done else 1)
        assert os.waitpid(child, 0)[1] == 0

    def test_loky_changes_nothing(self, rng):
        posteriors, solver = news(20, rng), db.solvers.Hierarchical(fan_in=3)
        with joblib.parallel_config("loky", n_jobs=2):
            assert db.merge(posteriors, solver=solver) == db.merge(posteriors, solver=solver)
            # What watches the progress cannot be sent to another process, and need not be.
            elsewhere = db.merge(posteriors, solver=solver, progress=Lock().locked)
        assert elsewhere == db.merge(posteriors, solver=solver)

    def test_a_dask_cluster_changes_nothing(self, rng):
        distributed = pytest.importorskip("distributed", reason="the extra `dask` is not installed")
        posteriors, solver = news(20, rng), db.solvers.Hierarchical(fan_in=3)
        cluster = distributed.LocalCluster(
            n_workers=1, threads_per_worker=2, dashboard_address=None, host="127.0.0.1", processes=True
        )
        with cluster, distributed.Client(cluster), joblib.parallel_config("dask"):
            elsewhere = db.merge(posteriors, solver=solver)
        assert elsewhere == db.merge(posteriors, solver=solver)


class TestLibrary:
    @pytest.fixture
    def saved(self, rng, tmp_path):
        posteriors = [draw(everything(), rng) for _ in range(7)]
        for index, posterior in enumerate(posteriors):
            db.save(posterior, tmp_path / f"{index}.posterior")
        return posteriors, db.merging.Library(sorted(tmp_path.glob("*.posterior")))

    def test_a_library_is_the_sequence_of_its_files(self, saved):
        posteriors, library = saved
        assert len(library) == 7
        assert list(library) == posteriors
        assert list(library[2:5]) == posteriors[2:5]

    @pytest.mark.parametrize(
        "solver", [db.solvers.Matching(restarts=1), db.solvers.Swaps(), db.solvers.Hierarchical(fan_in=2)], ids=repr
    )
    def test_files_and_memory_merge_alike(self, saved, solver):
        posteriors, library = saved
        assert db.merge(library, solver=solver) == db.merge(posteriors, solver=solver)
        assert db.merging.product(library) == db.merging.product(posteriors)
        assert db.merging.margins(db.align(library, solver=solver))[0].keys() == set(everything().symmetry)

    @pytest.mark.parametrize("seed", range(5))
    def test_files_and_memory_merge_alike_where_restarts_are_made_unasked(self, seed, tmp_path):
        rng = np.random.default_rng(seed)
        posteriors = [draw(mixture(6), rng) for _ in range(6)]
        for index, posterior in enumerate(posteriors):
            db.save(posterior, tmp_path / str(index))
        assert db.merge(db.merging.Library(sorted(tmp_path.iterdir()))) == db.merge(posteriors)

    def test_a_tree_holds_few_posteriors_at_a_time(self, rng, tmp_path, monkeypatch):
        for index, posterior in enumerate(news(40, rng)):
            db.save(posterior, tmp_path / f"{index:02d}.posterior")
        loaded, most = [], 0

        def counting(path, load=files.load):
            nonlocal most
            posterior = load(path)
            loaded.append(ref(posterior.contribution["topics"].data))
            most = max(most, sum(array() is not None for array in loaded))
            return posterior

        monkeypatch.setattr(files, "load", counting)
        with joblib.parallel_config(n_jobs=1):
            db.merge(db.merging.Library(sorted(tmp_path.iterdir())), solver=db.solvers.Hierarchical(fan_in=3))
        assert len(loaded) > 40
        assert most <= 6


class TestOptimality:
    def test_what_is_proven_is_said(self, rng):
        posteriors = news(9, rng)
        assert db.align(posteriors[:2], solver=db.solvers.Matching()).optimality == "global"
        assert db.align(posteriors, solver=db.solvers.Matching()).optimality == "site"
        assert db.align(posteriors, solver=db.solvers.Swaps()).optimality == "swap"
        assert db.align(posteriors, solver=db.solvers.Hierarchical(fan_in=2, polish=0)).optimality == "none"
        assert db.align(posteriors, solver=db.solvers.Hierarchical(fan_in=2, polish=None)).optimality == "site"
        assert (
            db.align([draw(mixture(2), rng) for _ in range(3)], solver=db.solvers.Exhaustive()).optimality == "global"
        )

    def test_no_relabelling_of_one_agent_raises_j(self, rng):
        posteriors = [draw(mixture(4), rng) for _ in range(5)]
        alignment = db.align(posteriors, solver=db.solvers.Matching(restarts=0))
        (coupled,) = mixture(4).symmetry
        for agent in range(5):
            for order in permutations(range(4)):
                changed = list(alignment.assignments)
                changed[agent] = {coupled: np.array(order)}
                assert db.merging.objective(posteriors, changed) <= alignment.objective[-1] + 1e-9

    def test_with_an_informed_prior_two_agents_are_no_special_case(self, rng):
        informed = mixture(3).with_prior(draw(mixture(3), rng).natural)
        posteriors = [draw(informed, rng) for _ in range(2)]
        assert db.align(posteriors, solver=db.solvers.Matching()).optimality == "site"

    def test_nothing_exceeds_the_bound_and_equal_agents_reach_it(self, rng):
        for structure in (mixture(3), topics(3, 8), everything()):
            posteriors = [draw(structure, rng) for _ in range(3)]
            best = db.align(posteriors, solver=db.solvers.Exhaustive())
            assert best.objective[-1] <= db.merging.upper_bound(best) + 1e-9 * abs(db.merging.upper_bound(best))
            alike = db.align([posteriors[0]] * 4, solver=db.solvers.Matching())
            assert db.merging.upper_bound(alike) == pytest.approx(alike.objective[-1], rel=1e-10)

    def test_posteriors_less_certain_than_the_prior_have_no_bound(self):
        doubtful, likewise = (
            db.Posterior(topics(2, 4), {"topics": np.array([[-0.03, 5.0, 0, 0], [-0.03, third, 0, 0]])})
            for third in (3.0, 4.0)
        )
        sure = db.Posterior(topics(2, 4), {"topics": np.full((2, 4), 1.0)})
        assert db.merging.upper_bound(db.align([doubtful, likewise, sure])) == np.inf
        assert db.merging.upper_bound(db.align([doubtful, sure, sure])) < np.inf

    def test_restarts_are_made_by_default_where_they_are_cheap(self, rng):
        posteriors = [draw(mixture(4), rng) for _ in range(6)]
        default, eight = (db.align(posteriors, solver=db.solvers.Matching(restarts=restarts)) for restarts in (None, 8))
        assert default.merged() == eight.merged()


def test_many_agents_are_aligned_as_they_were_labelled(rng):
    components, agents = 5, 300
    structure, truth = topics(components, 100), rng.dirichlet(np.full(100, 0.05), size=components) * 60
    orders = [rng.permutation(components) for _ in range(agents)]
    posteriors = [db.Posterior(structure, {"topics": rng.poisson(truth[order]).astype(float)}) for order in orders]
    for solver in (db.solvers.Matching(), db.solvers.Hierarchical()):
        alignment = db.align(posteriors, solver=solver)
        placed = [order[p[structure.symmetry[0]]] for order, p in zip(orders, alignment.permutations, strict=True)]
        assert (np.array(placed) == placed[0]).all()
