"""The alignment of one coupled set, as solvers see it; and solvers by name."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from decbayes.base.arguments import some
from decbayes.base.registering import Registry
from decbayes.families import Array, Family
from decbayes.families.rows import Rows
from decbayes.structure import Permutation

if TYPE_CHECKING:
    from decbayes.merging.base.division import Division

Assignments = NDArray[np.intp]
"""(sites, slots): which component of each site fills each slot."""

Slots = tuple[NDArray[np.intp], ...]
"""Per site: the slot of each component."""

Optimality = Literal["none", "swap", "site", "global"]
"""What is proven about an alignment, weakest first: nothing; no exchange of two components of one site raises J; no
relabelling of one site raises J; no relabelling of all sites raises J. Rounding differences do not count."""

Number = int | Literal["auto", "largest"] | None
"""The number of slots of a merge: "auto" estimates it, "largest" is the largest number of components of a posterior,
and None depends on the model (see `merge`)."""

Decided = Literal["given", "largest", "auto", "predictions", "rounds"]
"""What decided the number of slots: the caller, the largest site, "auto", or how well sites predict each other."""

OnMatch = Callable[[], None]
"""Called after each site is matched against the others."""

STRENGTH: tuple[Optimality, ...] = ("none", "swap", "site", "global")

Kind = TypeVar("Kind", bound=type[Any])

GROUP = "decbayes.solvers"
"""The group of entry points by which installed packages offer solvers, NAME = "module:Class"."""

# Improvements below this, relative to the score of a site's assignment, are rounding.
TOLERANCE = 1e-11


@dataclass(frozen=True)
class Factor:
    """One factor of a coupled set."""

    family: Family
    prior: Array


@dataclass(frozen=True)
class Problem:
    """A solver's input: the components of all sites in one coupled set, to be put into slots.

    The paper's solvers put one component of each site into each slot, so every site has as many components as there are
    slots, and maximise J = Σ_j A_j(λ0_j + Σ_i P_i c_ij) over permutations P_i.

    Attributes:
        factors: the family of each factor, and the prior of each slot.
        contents: `contents[i]` are site i's rows, one matrix per factor; `written_out()` makes it an array. They may be
            read from disk on every access.
        progress: called after each site is matched; see `announce`.
        since: the rows of an earlier merge whose slots the search keeps.
        ids: `ids[i]` are the ids of site i's components.
        pieces: whether components are pieces, which may mix what belongs into several slots.

    >>> class Counting:
    ...     def solve(self, problem: db.extending.Problem) -> db.extending.Solution:
    ...         print(problem.sites, "sites,", problem.components, "slots")
    ...         return db.solvers.Matching().solve(problem)
    >>> _ = db.merge(sites, solver=Counting())
    3 sites, 2 slots
    """

    factors: tuple[Factor, ...]
    contents: Sequence[tuple[Rows, ...]]
    progress: OnMatch | None = field(default=None, repr=False, compare=False)
    since: tuple[Rows, ...] | None = None
    ids: tuple[tuple[str, ...], ...] = ()
    pieces: bool = False

    @property
    def sites(self) -> int:
        return len(self.contents)

    @property
    def components(self) -> int:
        return len(self.factors[0].prior)

    @property
    def exchangeable(self) -> bool:
        """Whether the prior treats all components alike, so that only the relative labels of the sites matter."""
        return all(factor.family.exchangeable(factor.prior) for factor in self.factors)

    @property
    def two_sided(self) -> bool:
        """Whether a factor also has a column per component: then the assignment problem is quadratic."""
        return any(factor.family.two_sided for factor in self.factors)

    @property
    def one_sided(self) -> "Problem":
        """The same problem without such factors."""
        if not self.two_sided:
            return self
        kept = [place for place, factor in enumerate(self.factors) if not factor.family.two_sided]
        contents = tuple(tuple(rows[place] for place in kept) for rows in self.contents)
        return replace(self, factors=tuple(self.factors[place] for place in kept), contents=contents)

    def numbers(self, *, most: int) -> int:
        """The number of entries in all sites' rows; counting stops above `most`, because files must be read."""
        total = 0
        for contents in self.contents:
            total += sum(rows.size for rows in contents)
            if total > most:
                break
        return total

    def evaluations(self, *, most: int) -> int:
        """The number of entries for all sites' gains, the cost of a sweep; counted as in `numbers`."""
        return self.components * self.numbers(most=most // self.components)

    @property
    def solved_by_folding(self) -> bool:
        """Whether matching sites one after the other is exact: only one site has a position that matters."""
        return self.sites <= 1 + self.exchangeable

    def part(self, sites: slice) -> "Problem":
        return replace(self, contents=self.contents[sites])

    def loaded(self) -> "Problem":
        """The same problem with all rows in memory."""
        return replace(self, contents=tuple(self.contents))

    def announce(self) -> None:
        """Report that another site was matched."""
        if self.progress is not None:
            self.progress()

    def __getstate__(self) -> dict[str, Any]:
        # Workers in other processes cannot reach the callback.
        return {**self.__dict__, "progress": None}


@dataclass(frozen=True, eq=False)
class Solution:
    """A solver's result.

    Attributes:
        slots: per site, the slot of each component.
        objective: J after each step of the search; empty if the solver does not compute it.
        optimality: what is proven about it: "none", "swap", "site" or "global" (see `Alignment`).
        division: how counts of mixed components are divided among slots, if at all.

    >>> solution = db.extending.Solution.permuted(np.array([[1, 0], [0, 1]]), (), "none")
    >>> [slots.tolist() for slots in solution.slots]
    [[1, 0], [0, 1]]
    """

    slots: Slots
    objective: tuple[float, ...]
    optimality: Optimality
    division: "Division | None" = None

    @classmethod
    def permuted(cls, assignments: Assignments, objective: tuple[float, ...], optimality: Optimality) -> "Solution":
        """A solution in which each site fills each slot once."""
        slots = np.empty_like(assignments)
        np.put_along_axis(slots, assignments, np.arange(assignments.shape[1])[None], axis=1)
        return cls(tuple(slots), objective, optimality)


class Solver(Protocol):
    """A way to find good slots for the components of one coupled set: anything with `solve`.

    With `one_to_one = False` a solver may put several components of a site into one slot; otherwise sites are padded to
    as many components as there are slots. With `two_sided = True` it also sees transitions among components.
    `db.solvers.register` makes it known by name.

    >>> class AsLabelled:
    ...     def solve(self, problem: db.extending.Problem) -> db.extending.Solution:
    ...         return db.extending.Solution((np.arange(problem.components),) * problem.sites, (), "none")
    >>> db.align(sites, solver=AsLabelled()).one_to_one
    True
    """

    def solve(self, problem: Problem) -> Solution: ...


def solved(solver: Solver, problem: Problem, sizes: Sequence[int]) -> Solution:
    """What a solver answers; refused if it is not a slot for each component of each site, `sizes` of them."""
    solution = solver.solve(problem)
    wrong = f"{type(solver).__name__}.solve must return a db.extending.Solution"
    if not isinstance(solution, Solution):
        raise TypeError(f"{wrong}, not {type(solution).__name__}.")
    if [len(slots) for slots in solution.slots] != [*sizes]:
        raise ValueError(f"{wrong} with the slot of each component of each site: {some([*map(str, sizes)])}.")
    given = np.concatenate(solution.slots)
    if given.min(initial=0) < 0 or given.max(initial=0) >= problem.components:
        raise ValueError(f"{wrong} whose slots are numbers from 0 to {problem.components - 1}.")
    return solution


def forbid_undefined(gain: Array) -> Array:
    """The gain with a prohibitive loss wherever a sum would leave the domain."""
    defined = np.isfinite(gain)
    if defined.all():
        return gain
    largest = float(np.abs(gain[defined]).max(initial=1.0))
    return np.where(defined, gain, -1e6 * largest)


def best_permutation(gain: Array) -> Permutation:
    """The maximum-weight assignment of components to slots."""
    from scipy.optimize import linear_sum_assignment

    return np.asarray(linear_sum_assignment(gain, maximize=True)[1], dtype=np.intp)


def worthwhile(gain: Array, candidate: Permutation, current: Permutation) -> bool:
    """Whether the candidate beats the current permutation by more than rounding."""
    slots = np.arange(len(gain))
    kept = gain[slots, current]
    return bool((gain[slots, candidate] - kept).sum() > TOLERANCE * (1.0 + np.abs(kept).sum()))


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
        chosen: Solver = SOLVERS[solver](**settings)
        return chosen
    if isinstance(solver, type) or (solver is not None and not hasattr(solver, "solve")):
        raise TypeError(f"solver must be one of {', '.join(SOLVERS)}, or an object such as Grouping(); not {solver!r}.")
    return solver
