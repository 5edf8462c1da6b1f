"""Further rounds: each site refits its data with all other sites' contributions as its prior."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import inf
from typing import Any

import numpy as np

from decbayes.base.arguments import Seed, check_whole, given_generator, is_number
from decbayes.base.display import Displayed
from decbayes.errors import StructureMismatch
from decbayes.merging import align
from decbayes.merging.alignment import Alignment, remarks_in_time
from decbayes.merging.base.problem import Solver
from decbayes.merging.placing import as_labelled
from decbayes.models.core.model import Model
from decbayes.posterior import Posterior
from decbayes.remarks import Remark, warn_of
from decbayes.streams.course import ROUNDS, Course, Ends, Schedule
from decbayes.streams.extrapolation import Extrapolation
from decbayes.updates import Update
from decbayes.updates.joining import Target, height_of, narrowed, sized, wide_numbers
from decbayes.updates.rounds import ROUNDS_BEFORE, slots_of

# Rounds after which restarts are compared.
TRIED = 3
# If more than this share of the slots remains after joining, there were too few at the start.
FULL = 0.75


@dataclass(frozen=True, repr=False)
class Refinement(Displayed):
    """The result of `refine`; `merged` is the posterior of all data, with remarks.

    Attributes:
        posteriors: each site's newest contribution, in common slots.
        rounds: the merged posterior before and after each round.
        shifts: the shift of the merged posterior in each round: the root mean square over parameters, in units of their
            standard deviations.
        converged: whether the last shift is within the tolerance.

    >>> model = db.models.GaussianMean(variance=1.0)
    >>> shards = [np.zeros((5, 1)), np.ones((5, 1))]
    >>> refined = db.refine(model, shards, [model.fit(s).posterior for s in shards], rng=np.random.default_rng(0))
    >>> refined.converged, refined.shifts
    (True, (0.0,))
    """

    posteriors: tuple[Posterior, ...]
    rounds: tuple[Posterior, ...]
    shifts: tuple[float, ...]
    converged: bool

    @property
    def merged(self) -> Posterior:
        return self.rounds[-1]

    @property
    def alignment(self) -> Alignment:
        """The contributions in their common slots, for `db.checking` and `db.merging`."""
        return replace(as_labelled(self.posteriors), rounds=len(self.shifts))

    def __repr__(self) -> str:
        return f"Refinement({self.headline})"

    def __str__(self) -> str:
        return f"Refinement of {self.headline}\n{self.merged}"

    @property
    def headline(self) -> str:
        """The number of sites and rounds, and whether they converged."""
        state = "converged" if self.converged else "not converged: more rounds would move it further"
        sites, rounds = len(self.posteriors), len(self.shifts)
        return f"{sites} site{'' if sites == 1 else 's'}, {rounds} round{'' if rounds == 1 else 's'}, {state}"

    def followed_by(self, later: "Refinement") -> "Refinement":
        """Both refinements in sequence, the second with fewer slots."""
        return Refinement(later.posteriors, self.rounds + later.rounds, self.shifts + later.shifts, later.converged)


def refine(
    model: Model,
    shards: Iterable[Any],
    posteriors: Iterable[Posterior],
    *,
    rounds: int | None = None,
    tolerance: float = 0.01,
    most: int = 50,
    rng: Seed | None = None,
    schedule: Schedule = "sequential",
    solver: Solver | str | Sequence[Solver | str] | None = None,
    damping: float = 1.0,
    afresh: bool | Sequence[bool] = False,
    extrapolate: int = 0,
    components: Target | None = None,
    restarts: int = 0,
) -> Refinement:
    """Refit every shard against the cavity of the merged posterior, for a number of rounds or until convergence.

        c_i ← fit(data_i, prior = λ0 + Σ_{j≠i} c_j, start = λ0 + Σ_j c_j) − prior

    Each new contribution replaces the site's old one, so nothing counts twice. The fixed points are those of batch
    variational Bayes. Because a merge is blurred, the first round of topics uses less of the prior and goes further.
    Several solvers, both settings of `afresh`, and `restarts` give several starts: each is refined for a few rounds,
    and the one with the best bound of all data continues, which helps against local optima.

    Args:
        model: the model that was fitted. Its `ascent` limits the passes of a refit; a few are enough, because the next
            round continues from there.
        posteriors: each site's posterior, fitted to its data alone. If they have more components than the model, they
            are first merged into as many as it has: topics from sites that fit twice as many are more coherent.
        rounds: the number of rounds. Default: until the parameters converge.
        tolerance: they have converged when a round moves them by less than this many standard deviations (root mean
            square).
        most: the largest number of rounds if `rounds` is not given.
        schedule: "sequential": each site sees all earlier updates; "parallel": all refit against the last round, in
            parallel as set by `joblib.parallel_config`; "asynchronous": each sees the others as they were up to one
            round ago.
        solver: how components are aligned first, an object of `db.solvers` or its name; or several.
        damping: below 1, a site goes only that part of the way to its new contribution. "parallel" rounds that
            oscillate then converge.
        afresh: in the first round each site drops its result and fits its data alone, starting from the merged
            posterior: small sites may have ended in poor optima. `(False, True)` tries both.
        extrapolate: like expectation maximisation, rounds are slow if components overlap. Sites then extrapolate from
            this many earlier rounds, provided that the bound of all data (one number per site) is no lower there.
        components: join slots afterwards and refine the rest: down to this number, or "auto" to the one with the best
            bound of all data. Each site computes its part of the bound for every number of slots. With "auto", sites
            of a mixture or of classes first refit their data with more components than there should be, because small
            sites find too few.
        restarts: the number of additional random starts of all sites.

    >>> model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=100.0)
    >>> rng = np.random.default_rng(0)
    >>> shards = [rng.choice([-3.0, 3.0], size=(20, 1)) + rng.normal(size=(20, 1)) for _ in range(3)]
    >>> posteriors = [model.fit(shard, rng=rng).posterior for shard in shards]
    >>> refined = db.refine(model, shards, posteriors, rng=rng)
    >>> batch = model.fit(np.concatenate(shards), rng=rng).posterior
    >>> means = [np.sort(posterior.mean("components")[:, 0]) for posterior in (refined.merged, batch)]
    >>> bool(np.allclose(*means, atol=0.05))
    True
    """
    random = given_generator(rng)
    limit = {"most": most} if rounds is None else {"rounds": rounds}
    check_whole(0, **limit, restarts=restarts, extrapolate=extrapolate)
    if not is_number(tolerance) or not tolerance >= 0:
        raise ValueError(f"tolerance must be a number of standard deviations, at least 0; not {tolerance!r}.")
    data, fitted = tuple(shards), tuple(posteriors)
    if len(data) != len(fitted):
        raise StructureMismatch(f"There are {len(data)} shards but {len(fitted)} posteriors.")
    if schedule not in ROUNDS:
        raise ValueError(f"schedule is one of {', '.join(ROUNDS)}, not {schedule!r}.")
    check_target(components, fitted)
    model = model.for_posterior(fitted[0]) if fitted else model
    search = Search(
        model, data, Ends(rounds, tolerance, most), random, schedule, damping, extrapolate, several(solver),
        several(afresh), components,
    )  # fmt: skip
    wide = search.widened(wide_numbers(fitted), 1 + restarts) if components == "auto" else None
    refinement, doubts = remarked(wide or search.from_starts(model, [fitted, *search.fitted(model, restarts)]))
    warn_of(doubts)
    return refinement


def remarked(refinement: Refinement) -> tuple[Refinement, tuple[Remark, ...]]:
    """The refinement with remarks on its result, and the warnings among them."""
    remarks, doubts = remarks_in_time(refinement.alignment)
    merged = replace(refinement.merged, remarks=remarks)
    return replace(refinement, rounds=(*refinement.rounds[:-1], merged)), doubts


@dataclass(frozen=True)
class Search:
    """Refinements of the same data from several starts; slots may be joined afterwards."""

    model: Model
    shards: Sequence[Any]
    ends: Ends
    rng: np.random.Generator | None
    schedule: Schedule
    damping: float
    extrapolate: int
    solvers: Sequence[Solver | str | None]
    afresh: Sequence[bool]
    components: Target | None

    def course(self, model: Model, contributions: list[Posterior], *, afresh: bool = False) -> Course:
        memory = Extrapolation(self.extrapolate) if self.extrapolate else None
        update = Update(model, damping=self.damping)
        return Course(update, self.shards, contributions, self.schedule, self.rng, afresh, memory)

    def fitted(self, model: Model, times: int) -> list[Sequence[Posterior]]:
        return [[fit.posterior for fit in model.fit_many(self.shards, rng=self.rng)] for _ in range(times)]

    def from_starts(self, model: Model, fits: Sequence[Sequence[Posterior]], most: int | None = None) -> Refinement:
        """Rounds from the best of all starts, up to a limit; then joins and rounds as long as a join gains."""
        starts = [in_common_slots(model, posteriors, solver) for posteriors in fits for solver in self.solvers]
        trials = [self.course(model, start, afresh=fresh) for start, fresh in product(starts, self.afresh)]
        first = self.ends if most is None else self.ends.at_most(most)
        refinement = refined(most_promising(trials, self.ends).until(first), self.ends)
        return refinement if self.components is None else self.joined(refinement, rest=most is not None)

    def joined(self, refinement: Refinement, rest: bool) -> Refinement:
        """Joins, and rounds after them; with `rest`, rounds follow even if no join gains."""
        assert self.components is not None
        while True:
            left = narrowed(self.model, self.shards, list(refinement.posteriors), self.components, self.rng)
            if slots_of(left[0]) == slots_of(refinement.posteriors[0]) and not rest:
                return refinement
            later = self.course(sized(self.model, left[0]), left).until(self.ends)
            refinement, rest = refinement.followed_by(refined(later, self.ends)), False

    def widened(self, numbers: Sequence[int], times: int) -> Refinement | None:
        """The best of ever larger starts, up to the first that has slots to spare."""
        best, height = None, -inf
        for number in numbers:
            wide = self.model.sized(number)
            candidate = self.from_starts(wide, self.fitted(wide, times), ROUNDS_BEFORE)
            new_height = height_of(sized(self.model, candidate.merged), self.shards, candidate.merged, self.rng)
            if new_height <= height:
                break
            best, height = candidate, new_height
            if slots_of(candidate.merged) <= FULL * number:
                break
        return best


def several(given: Any) -> Sequence[Any]:
    return given if isinstance(given, Sequence) and not isinstance(given, str) else [given]


def most_promising(trials: Sequence[Course], ends: Ends) -> Course:
    """The start with the best bound after a few rounds."""
    if len(trials) == 1:
        return trials[0]
    return max((trial.until(ends.at_most(TRIED)) for trial in trials), key=lambda trial: trial.bound(trial.history[-1]))


def refined(course: Course, ends: Ends) -> Refinement:
    shifts = tuple(course.shifts)
    return Refinement(
        tuple(course.contributions), tuple(course.history), shifts, bool(shifts) and shifts[-1] <= ends.tolerance
    )


def in_common_slots(model: Model, fitted: Sequence[Posterior], solver: Solver | str | None) -> list[Posterior]:
    """The sites' contributions in common slots: as many as the model has, if sites fitted more."""
    wanted = getattr(model, model.number) if model.number else "auto"
    wider = not isinstance(wanted, str) and bool(fitted) and fitted[0].structure.resizable
    narrow = wider and max(map(slots_of, fitted)) > int(wanted)
    return list(align(fitted, components=int(wanted) if narrow else "largest", solver=solver).relabelled())


def check_target(components: Any, posteriors: Sequence[Posterior]) -> None:
    if components is None:
        return
    if components != "auto":
        check_whole(1, components=components)
    structure = posteriors[0].structure if posteriors else None
    if structure is not None and (not structure.resizable or any(f.two_sided for f in structure.families.values())):
        raise StructureMismatch(
            "Slots can be joined only if components share a prior and are not states of a sequence. "
            "Leave out `components`; for another number of states, fit and merge again."
        )
