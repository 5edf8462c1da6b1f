"""A solver from outside the package, in one file and with one registration, works wherever solvers have names."""

import sys
from pathlib import Path

import numpy as np
import pytest

import decbayes as db
from decbayes.cli import main
from decbayes.extending import Solution
from decbayes.merging.base.problem import SOLVERS

MODEL = db.GaussianMixture(3, 1, variance=0.25, prior_variance=100.0)


@pytest.fixture
def in_order(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parent)
    monkeypatch.setattr(SOLVERS, "registered", {})
    monkeypatch.delitem(sys.modules, "in_order", raising=False)
    from in_order import InOrder

    return InOrder


@pytest.fixture
def sites(rng):
    centres = np.array([-9.0, 0.0, 9.0])
    shards = [rng.normal(rng.choice(centres, size=60), 0.5)[:, None] for _ in range(3)]
    return shards, [MODEL.fit(shard, rng=rng).posterior for shard in shards]


def test_it_is_known_by_its_name_to_every_function_that_takes_a_solver(in_order, sites, rng):
    shards, posteriors = sites
    expected = db.merge(posteriors, solver=in_order())
    assert db.merge(posteriors, solver="inorder") == expected
    alignment = db.align(posteriors, solver="inorder")
    (coupled,) = alignment.structure.symmetry
    for posterior, slots in zip(posteriors, alignment.slots(coupled), strict=True):
        in_slots = np.empty(3)
        in_slots[slots] = posterior.mean("components")[:, 0]
        np.testing.assert_array_equal(np.argsort(in_slots), np.argsort(alignment.merged().mean("components")[:, 0]))
    refined = db.refine(MODEL, shards, posteriors, rounds=0, rng=rng, solver="inorder")
    assert db.merging.product(refined.posteriors) == expected
    both = db.refine(MODEL, shards, posteriors, rounds=1, rng=rng, solver=("inorder", "matching"))
    assert len(both.rounds) > 1


def test_the_command_line_takes_its_name(in_order, sites, tmp_path):
    paths = []
    for number, posterior in enumerate(sites[1]):
        paths.append(str(tmp_path / f"{number}.posterior"))
        db.save(posterior, paths[-1])
    target = tmp_path / "merged.posterior"
    with pytest.raises(SystemExit) as ended:
        main(["merge", *paths, "--solver", "inorder", "-o", str(target)])
    assert not ended.value.code
    assert db.load(target) == db.merge(sites[1], solver="inorder")


def test_a_name_belongs_to_one_class_and_unknown_ones_are_refused(in_order, sites):
    with pytest.raises(ValueError, match="already a solver 'matching'"):
        db.solvers.register(type("Matching", (), {"solve": in_order.solve}))
    with pytest.raises(TypeError, match="method `solve`"):
        db.solvers.register(in_order())
    with pytest.raises(TypeError, match=r"inorder.*not 'nearest'"):
        db.merge(sites[1], solver="nearest")
    assert db.solvers.register(in_order) is in_order


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda problem: None, "Clumsy.solve must return a db.extending.Solution, not NoneType"),
        (lambda problem: (np.arange(problem.components),) * (problem.sites - 1), "not tuple"),
        (lambda problem: Solution((np.arange(problem.components),) * (problem.sites - 1), (), "none"), "of each site"),
        (
            lambda problem: Solution((np.arange(problem.components) - 1,) * problem.sites, (), "none"),
            "from 0 to",
        ),
        (
            lambda problem: Solution((np.arange(problem.components) + 1,) * problem.sites, (), "none"),
            "from 0 to",
        ),
    ],
)
@pytest.mark.parametrize("one_to_one", [True, False])
def test_an_answer_that_is_no_solution_is_refused_with_what_it_should_be(sites, answer, message, one_to_one):
    """Slot −1 would be the last one without a word."""
    solve = {"solve": lambda self, problem: answer(problem), "one_to_one": one_to_one}
    with pytest.raises((TypeError, ValueError), match=message):
        db.merge(sites[1], solver=type("Clumsy", (), solve)())
