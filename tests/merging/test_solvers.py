"""Every solver against the exhaustive optimum, and the exhaustive optimum against plain enumeration."""

from itertools import permutations, product

import numpy as np
import pytest
from draws import ONE_SIDED
from structures import draw, everything, mixture, single, topics

import decbayes as db
from decbayes.errors import TooManyRelabellings

INSTANCES = 10


def structures(name, rows):
    if name == "mixture":
        return mixture(rows)
    if name == "sparse topics":
        return topics(rows, 8)
    return single(name, rows, 2)


def instances(name):
    """Random small problems: two to four agents, two to four components."""
    rng = np.random.default_rng(sum(map(ord, name)))
    for _ in range(INSTANCES):
        structure = structures(name, int(rng.integers(2, 5)))
        yield [draw(structure, rng) for _ in range(int(rng.integers(2, 5)))]


@pytest.mark.parametrize("name", [*ONE_SIDED, "mixture", "sparse topics"])
def test_solvers_never_beat_and_mostly_reach_the_exhaustive_optimum(name):
    reached = 0
    for posteriors in instances(name):
        best = db.align(posteriors, solver=db.solvers.Exhaustive()).objective[-1]
        slack = 1e-9 * (1 + abs(best))
        for solver in (
            db.solvers.Matching(restarts=8),
            db.solvers.Matching(restarts=0),
            db.solvers.Swaps(),
            db.solvers.Hierarchical(fan_in=2),
        ):
            alignment = db.align(posteriors, solver=solver)
            trace = np.array(alignment.objective)
            assert trace[-1] <= best + slack
            assert (np.diff(trace) >= 0).all()
            assert db.merging.objective(posteriors, alignment.assignments) == pytest.approx(
                trace[-1], rel=1e-9, abs=1e-9
            )
            if solver == db.solvers.Matching(restarts=8):
                reached += trace[-1] >= best - slack
    assert reached >= 0.9 * INSTANCES


@pytest.mark.parametrize("name", ["mixture", "Dirichlet", "NormalWishart", "sparse topics"])
def test_exhaustive_search_equals_plain_enumeration(name, rng):
    structure = structures(name, 3)
    posteriors = [draw(structure, rng) for _ in range(3)]
    (coupled,) = structure.symmetry
    orders = [{coupled: np.array(order)} for order in permutations(range(3))]
    enumerated = max(db.merging.objective(posteriors, choice) for choice in product(orders, repeat=3))
    assert db.align(posteriors, solver=db.solvers.Exhaustive()).objective[-1] == pytest.approx(enumerated, rel=1e-12)


def test_a_prior_that_tells_components_apart_is_respected(rng):
    structure = mixture(3)
    informed = structure.with_prior(draw(structure, rng).natural)
    posteriors = [draw(informed, rng) for _ in range(3)]
    (coupled,) = structure.symmetry
    orders = [{coupled: np.array(order)} for order in permutations(range(3))]
    enumerated = max(db.merging.objective(posteriors, choice) for choice in product(orders, repeat=3))
    assert db.align(posteriors, solver=db.solvers.Exhaustive()).objective[-1] == pytest.approx(enumerated, rel=1e-12)
    assert db.align(posteriors, solver=db.solvers.Matching()).objective[-1] == pytest.approx(enumerated, rel=1e-9)


def test_coupled_sets_are_solved_independently(rng):
    posteriors = [draw(everything(), rng) for _ in range(3)]
    joint = db.align(posteriors, solver=db.solvers.Exhaustive())
    for coupled in everything().symmetry:
        for order in permutations(range(everything().components(coupled))):
            for agent in range(3):
                changed = list(joint.assignments)
                changed[agent] = {**changed[agent], coupled: np.array(order)}
                assert db.merging.objective(posteriors, changed) <= joint.objective[-1] + 1e-9


def test_two_agents_are_matched_exactly_at_any_size(rng):
    posteriors = [draw(mixture(6), rng) for _ in range(2)]
    exact = db.align(posteriors, solver=db.solvers.Exhaustive())
    assert db.align(posteriors, solver=db.solvers.Matching(restarts=0)).objective[-1] == pytest.approx(
        exact.objective[-1]
    )


def test_exhaustive_search_refuses_what_would_not_end(rng):
    posteriors = [draw(mixture(8), rng) for _ in range(4)]
    with pytest.raises(TooManyRelabellings, match="Matching"):
        db.align(posteriors, solver=db.solvers.Exhaustive())


def test_a_tree_must_branch():
    with pytest.raises(ValueError, match="fan_in"):
        db.solvers.Hierarchical(fan_in=1)


@pytest.mark.parametrize("polish", [1, 0])
def test_a_tree_recovers_labels_that_are_plain_to_see(rng, polish):
    structure = topics(5, 40)
    truth = rng.dirichlet(np.full(40, 0.1), size=5) * 300
    posteriors, orders = [], []
    for _ in range(30):
        orders.append(rng.permutation(5))
        counts = rng.poisson(truth[orders[-1]]).astype(float)
        posteriors.append(db.Posterior(structure, {"topics": counts}))
    alignment = db.align(posteriors, solver=db.solvers.Hierarchical(fan_in=3, polish=polish))
    slots = np.array([order[p[structure.symmetry[0]]] for order, p in zip(orders, alignment.permutations, strict=True)])
    assert (slots == slots[0]).all()


@pytest.mark.parametrize(
    ("solver", "rounds"),
    [
        (db.solvers.Matching(restarts=2), 6),
        (db.solvers.Swaps(), 1),
        (db.solvers.Hierarchical(fan_in=2), 2),
        (db.solvers.Hierarchical(3, polish=0), 1),
    ],
    ids=str,
)
def test_progress_tells_of_every_agent_and_changes_nothing(solver, rounds, rng):
    posteriors = [draw(topics(3, 20), rng) for _ in range(6)]
    calls = []
    merged = db.merge(posteriors, solver=solver, progress=lambda: calls.append(1))
    assert len(calls) >= rounds * len(posteriors)
    assert merged == db.merge(posteriors, solver=solver)


@pytest.mark.parametrize("fan_in", [2, 3])
def test_a_tree_never_merges_more_at_once_than_it_may(fan_in, rng):
    """Twenty-nine sites: a tree of several levels, of which the lowest are made together by one worker."""
    seen = []

    class Watched:
        def solve(self, problem):
            seen.append(problem.sites)
            return db.solvers.Matching(restarts=0, sweeps=0).solve(problem)

    posteriors = [draw(topics(3, 6), rng) for _ in range(29)]
    solver = db.solvers.Hierarchical(fan_in=fan_in, inner=Watched())
    merged = db.merge(posteriors, solver=solver)
    assert max(seen) == fan_in
    # Each merge of n makes n − 1 fewer of them; one site alone is passed on without one.
    assert sum(count - 1 for count in seen) == 28
    assert merged.log_partition() <= db.merge(posteriors, solver=db.solvers.Matching()).log_partition() + 1e-9
