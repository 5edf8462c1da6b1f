"""The registry of solvers by name."""

from typing import Any, TypeVar

from decbayes.merging.base.problem import Solver
from decbayes.registering import Registry

Kind = TypeVar("Kind", bound=type[Any])

GROUP = "decbayes.solvers"
"""The entry points under which installed packages offer theirs, NAME = "module:Class"."""


def register(solver: Kind) -> Kind:
    """Make a solver known by its name to `merge`, `align`, `refine` and the command line; also a class decorator.

    Args:
        solver: a class with a method `solve(problem)`, whose settings all have defaults. Its name is the name of the
            class in lower case. With `one_to_one = False` it may put several components of a site into one slot.

    A package can register solvers for everyone who installs it, with an entry point in the group "decbayes.solvers".

    >>> @db.solvers.register
    ... class AsLabelled:
    ...     def solve(self, problem: db.extending.Problem) -> db.extending.Solution:
    ...         slots = tuple(np.arange(rows[0].count) for rows in problem.contents)
    ...         return db.extending.Solution(slots, (), "none")
    >>> model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=100.0)
    >>> fits = [model.fit(np.array([[-9.0], [9.0], [8.0]]), rng=np.random.default_rng(0)).posterior for _ in range(2)]
    >>> db.align(fits, solver="aslabelled").optimality
    'none'
    """
    SOLVERS.add(solver)
    return solver


def name_of(solver: type[Any]) -> str:
    """The name of a solver's class in lower case, which no other class may have."""
    if not isinstance(solver, type) or not callable(getattr(solver, "solve", None)):
        raise TypeError(f"register takes a class with a method `solve`, not {solver!r}.")
    name = solver.__name__.lower()
    known = SOLVERS[name] if name in {*SOLVERS.shipped, *SOLVERS.registered} else solver
    if (known.__module__, known.__qualname__) != (solver.__module__, solver.__qualname__):
        raise ValueError(f"There is already a solver {name!r}, of {known.__module__}. Choose another name.")
    return name


SOLVERS: Registry[type[Any]] = Registry(
    {
        "exhaustive": "decbayes.merging.matching._exhaustive:Exhaustive",
        "grouping": "decbayes.merging.grouping.grouping:Grouping",
        "hierarchical": "decbayes.merging.matching.matching:Hierarchical",
        "matching": "decbayes.merging.matching.matching:Matching",
        "quadratic": "decbayes.merging.matching.quadratic:Quadratic",
        "swaps": "decbayes.merging.matching._swaps:Swaps",
    },
    name_of,
    GROUP,
)
"""All solvers by name."""


def checked_solver(solver: Solver | str | None, **settings: Any) -> Solver | None:
    """The solver itself, or the one with this name and these settings; None for the default."""
    if isinstance(solver, str) and solver in SOLVERS:
        made: Solver = SOLVERS[solver](**settings)
        return made
    if isinstance(solver, str | type) or (solver is not None and not hasattr(solver, "solve")):
        raise TypeError(f"solver must be one of {', '.join(SOLVERS)}, or an object such as Grouping(); not {solver!r}.")
    return solver
