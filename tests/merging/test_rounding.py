"""What rounding may do to a search: nothing that is larger than rounding."""

import numpy as np
import pytest
from structures import draw, mixture, topics

import decbayes as db
from decbayes.merging.base.coupled import coupled_problem
from decbayes.merging.base.problem import worthwhile
from decbayes.merging.matching.matching import improve
from decbayes.merging.matching.placement import Placement


def of_all_sizes(structure, rng):
    """A posterior of between almost nothing and a billion observations."""
    posterior, size = draw(structure, rng), 10.0 ** rng.uniform(-7, 9)
    return db.Posterior(structure, {name: size * part for name, part in posterior.contribution.items()})


def problem_of(structure, rng, *, agents=5):
    (coupled,) = structure.symmetry
    return coupled_problem([of_all_sizes(structure, rng) for _ in range(agents)], coupled, structure)


@pytest.mark.parametrize("structure", [mixture(4), topics(4, 30)], ids=["mixture", "topics"])
class TestSumsAnew:
    def test_refreshed_totals_are_those_summed_anew_to_the_last_bit(self, structure, rng):
        drifted = 0
        for _ in range(10):
            placement = Placement(problem_of(structure, rng))
            for agent in [*range(5), *rng.integers(5, size=40)]:
                placement.place(int(agent), rng.permutation(4))
            exact = Placement(placement.problem, placement.assignments).objective()
            drifted += placement.objective() != exact
            placement.refresh()
            assert placement.objective() == exact
        assert drifted, "there was nothing to refresh"

    @pytest.mark.parametrize(
        "solver", [db.solvers.Matching(), db.solvers.Swaps(), db.solvers.Hierarchical(fan_in=2)], ids=repr
    )
    def test_a_solver_states_j_of_its_assignments_to_the_last_bit(self, structure, solver, rng):
        for _ in range(20):
            problem = problem_of(structure, rng)
            solution = solver.solve(problem)
            assert (
                solution.objective[-1]
                == Placement(problem, np.array([np.argsort(own) for own in solution.slots])).objective()
            )


class TestTolerance:
    """Two topics that share two million tokens and differ in five: J rises by some millionths of itself."""

    def posteriors(self):
        rows = np.array([[1e6, 1e6, 5.0, 0.0], [1e6, 1e6, 0.0, 5.0]])
        return [db.Posterior(topics(2, 4), {"topics": part}) for part in (rows, rows[::-1], rows)]

    @pytest.mark.parametrize("search", [db.solvers.Swaps().solve, lambda problem: improve(as_numbered(problem))])
    def test_small_improvements_are_made(self, search):
        problem = coupled_problem(self.posteriors(), topics(2, 4).symmetry[0], topics(2, 4))
        assignments = search(problem).slots
        np.testing.assert_array_equal(assignments[1], assignments[0][::-1])
        np.testing.assert_array_equal(assignments[2], assignments[0])

    def test_the_improvement_is_small(self):
        posteriors, (coupled,) = self.posteriors(), topics(2, 4).symmetry
        same, other = np.array([0, 1]), np.array([1, 0])
        right, left = (
            db.merging.objective(posteriors, [{coupled: order} for order in orders])
            for orders in ((same, other, same), (same, same, same))
        )
        assert 1.0 < right - left < 1e-5 * abs(right)

    def test_rounding_is_no_improvement(self):
        now, then = np.array([1, 0]), np.array([0, 1])
        assert not worthwhile(np.array([[1e9, 1e9], [1e9, 1e9 + 1e-4]]), then, now)
        assert worthwhile(np.array([[1e9, 1e9], [1e9, 1e9 + 1.0]]), then, now)


def as_numbered(problem):
    """Everybody's components in the slots of their own numbers."""
    return Placement(problem, np.tile(np.arange(problem.components), (problem.sites, 1)))
