"""Hidden Markov models: sequences of rows whose state changes from step to step."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from decbayes.base.arguments import Above, Seed, check_kind, check_positive, check_whole, generator, given
from decbayes.errors import InvalidData
from decbayes.families import Array, Transitions, Weights, dense
from decbayes.models.core.ascent import Ascent, Fit, Keep, OnPass, as_arrays, fit_best, on_top
from decbayes.models.core.information import Tally
from decbayes.models.core.model import Row
from decbayes.models.core.persons import Persons
from decbayes.models.core.points import check_fit, check_structure, of_own_posterior
from decbayes.models.core.settings import number_of
from decbayes.models.likelihoods.discrete import draw_categories
from decbayes.models.likelihoods.emissions import Emissions, Natural, Reference
from decbayes.models.likelihoods.gaps import observed
from decbayes.models.likelihoods.likelihood import nearest_centres, scaled
from decbayes.models.likelihoods.point_pass import PointBlocks
from decbayes.models.likelihoods.real import Covariance, RealColumns, real_likelihood
from decbayes.models.likelihoods.starts import MOST_ROWS, Start, groups_of_rows, kinds_of_starts
from decbayes.models.sequences.chains import (
    ChainBlocks,
    Sequential,
    Steps,
    chain_weights,
    moves_of,
    plus,
    smooth_states,
    stationary,
)
from decbayes.models.sequences.rare_moves import hidden, table_of
from decbayes.models.tables.profiles import Filled, class_summaries, fill, profile_rows
from decbayes.posterior import Posterior
from decbayes.structure import CoupledSet, Structure

# With fewer steps per state, every other start has random states: centres would leave states of single steps.
POINTS_PER_CENTRE = 10


@dataclass(frozen=True)
class HiddenMarkov(Sequential):
    """Each step of a sequence is in one of several states; the next state depends on the current one.

    A state emits rows as a class of `LatentClasses` does: columns of any kind, and values, or whole steps, may be
    missing. Data are lists of sequences, each a data frame or a matrix; a single one is one sequence.

    `transition_prior` is α of each next state, `stickiness` is added to it for staying, `start_prior` is α of each
    first state. By default real columns have separate variances in each state. With `covariance="full"` they are
    correlated and can only be missing together; with `variance` they have that known variance, in their squared agreed
    units.

    `states` is their number; `columns` says what the columns hold, and `from_frame` infers it. `sequences` names the
    column that identifies sequences.

    >>> readings = {"speed": np.array([0.1, 0.2, 0.1, 9.8, 10.1, 9.9, 10.0, 0.2] * 4)}
    >>> model = db.HiddenMarkov.from_frame(readings, states=2, kinds={"speed": "real"}, ascent=db.Ascent(restarts=1))
    >>> posterior = model.fit(readings, rng=0).posterior
    >>> (path,) = model.path(posterior, readings)
    >>> (path[:8] == path[0]).tolist()
    [True, True, True, False, False, False, False, True]
    """

    states: Annotated[int, "Number of states.", Above(0)] = 2
    _: KW_ONLY
    transition_prior: Annotated[float, "α of each next state.", Above(0)] = 1.0
    stickiness: Annotated[float, "Added to the α of staying in a state."] = 0.0
    start_prior: Annotated[float, "α of each first state.", Above(0)] = 1.0
    covariance: Annotated[Covariance, "Whether real columns are correlated within a state: diagonal or full."] = (
        "diagonal"
    )
    variance: Annotated[float | None, "Known variance of real columns, in their squared units.", Above(0)] = None
    ascent: Ascent = field(default=Ascent(restarts=9))

    about: ClassVar[str] = "States of sequences: hidden Markov models of mixed columns with missing values."
    command: ClassVar[str] = "states"
    example: ClassVar[str] = "walks.csv --states 4 --sequences walk"
    caption: ClassVar[str] = "stands out by"
    view: ClassVar[str] = "states"
    noun: ClassVar[str] = "state"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole(1, states=self.states)
        check_positive(transition_prior=self.transition_prior, start_prior=self.start_prior)
        if not self.stickiness >= 0:
            raise ValueError(f"stickiness must be a number, at least 0; not {self.stickiness!r}.")
        check_positive(**given(variance=self.variance))
        if self.covariance not in ("diagonal", "full") or (self.variance is not None and self.covariance == "full"):
            raise ValueError("covariance is 'diagonal' or 'full', and 'diagonal' where `variance` is known.")

    def described(self) -> Structure:
        size, emissions = self.states, self.emissions
        alpha = np.full((size, size), float(self.transition_prior)) + float(self.stickiness) * np.eye(size)
        return Structure(
            families={"start": Weights(), "transitions": Transitions(), **emissions.families},
            prior={
                "start": Weights().natural(alpha=np.full(size, float(self.start_prior))),
                "transitions": Transitions().natural(alpha=alpha),
                **emissions.prior(size),
            },
            symmetry=(CoupledSet(("start", "transitions", *emissions.families)),),
            labels=emissions.labels,
            model={"name": type(self).__name__, **self.constants()},
        )

    def structure_for(self, posterior: Posterior) -> Structure:
        """The model's structure with the posterior's number of states, which a merge may have changed."""
        check_kind(Posterior, posterior=posterior)
        return self.structure.with_components(number_of(posterior.structure))

    def constants(self) -> Mapping[str, Any]:
        full = {"covariance": "full"} if self.covariance == "full" else {}
        known = {} if self.variance is None else {"variance": float(self.variance)}
        return {**super().constants(), **full, **known}

    @classmethod
    def real_likelihood(cls, constants: Mapping[str, Any], **units: Any) -> RealColumns:
        known = {name: constants[name] for name in ("covariance", "variance") if name in constants}
        return real_likelihood(**known, **units)

    @classmethod
    def settings_of(cls, structure: Structure) -> dict[str, Any]:
        alpha = Transitions().parameters(structure.prior["transitions"])["alpha"]
        start = Weights().parameters(structure.prior["start"])["alpha"]
        moves = float(alpha[0, -1])
        settings = {"states": len(alpha), "transition_prior": moves, "stickiness": float(alpha[0, 0]) - moves}
        return {**super().settings_of(structure), **settings, "start_prior": float(start[0])}

    @on_top
    def fit(
        self,
        data: Any,
        *,
        rng: Seed | None = None,
        prior: Posterior | None = None,
        start: Posterior | None = None,
        progress: OnPass | None = None,
    ) -> Fit:
        """Fit the sequences, on top of `prior` and starting from `start` if given."""
        steps = self.steps(data)
        random = check_fit(self.structure, rng, prior, start)
        before = dict((prior or Posterior.of_prior(self.structure)).natural)
        if not len(steps.points):
            return Fit(Posterior.from_natural(self.structure, before), (0.0,), True)
        emissions = self.emissions.seeing(steps.points)
        if start is None:
            rows, starts_rng = len(steps.points) / self.states, generator(random)
            alone = prior is None and len(steps.points) <= MOST_ROWS
            kinds = kinds_of_starts(self.ascent.restarts + 1, rows=rows, enough=POINTS_PER_CENTRE, alone=alone)
            ascent, turns = replace(self.ascent, restarts=len(kinds) - 1), iter(kinds)

            def begin() -> Natural:
                return self._begin(emissions, steps, before, next(turns), starts_rng)
        else:
            ascent, begin = Ascent(self.ascent.passes, self.ascent.tolerance), partial(dict, start.natural)
        fit = fit_best(
            begin,
            partial(self._pass, emissions, ChainBlocks(emissions, steps), Reference(self.structure.families, before)),
            partial(Posterior.from_natural, self.structure),
            ascent=ascent,
            observations=len(steps.points),
            progress=progress,
            keep=Keep(dict, as_arrays),
        )
        if prior is not None:
            return fit
        units = self.of_units(fit.posterior, steps.points, visits(fit.posterior) > 0.5)
        on_columns = self.of_columns(PointBlocks(emissions, steps.points), correlated=self.covariance == "full")
        return replace(fit, posterior=replace(fit.posterior, remarks=(*units, *on_columns)))

    def assign(self, posterior: Posterior, data: Any) -> Array:
        """(steps, states): the probability of each state given the whole sequence; sequences are concatenated."""
        steps, scores, start, moves = self._expected(posterior, data)
        smooth_states(scores, steps, start, moves)
        return scores

    def filter(self, posterior: Posterior, data: Any) -> Array:
        """(steps, states): the probability of each state given the steps so far."""
        from decbayes.kernels.forward_backward import filtered

        steps, scores, start, moves = self._expected(posterior, data)
        filtered(scores, steps.ends, start, moves, np.empty(len(steps.ends)))
        return scores

    def path(self, posterior: Posterior, data: Any) -> list[NDArray[np.int64]]:
        """The most likely path of states in each sequence."""
        from decbayes.kernels.forward_backward import best_path

        steps, scores, start, moves = self._expected(posterior, data)
        states = np.empty(len(scores), dtype=np.int64)
        best_path(scores, steps.ends, np.log(start), np.log(moves), states)
        return steps.split(states)

    def log_predictive(self, posterior: Posterior, data: Any, held: Any = None) -> Array:
        """log p(sequence | posterior) of each: emission parameters are integrated out at each step, transitions are at
        their means."""
        from decbayes.kernels.forward_backward import filtered

        if held is not None:
            raise InvalidData("Scores are for whole sequences: no part of them can be held out.")
        steps = self.steps(data)
        totals = np.zeros(len(steps.ends))
        filtered(*self._predictive(posterior, steps), totals)
        return totals

    def next_states(self, posterior: Posterior, data: Any) -> Array:
        """(sequences, states): the probability of each state one step after the end of each sequence."""
        steps = self.steps(data)
        return np.asarray(self.filter(posterior, data)[steps.ends - 1] @ posterior.mean("transitions"))

    def next_rows(self, posterior: Posterior, data: Any, *, steps: int = 1, level: float = 0.9) -> list[Row]:
        """What follows each sequence: one row per sequence, step and column, as from `fill`."""
        check_whole(1, steps=steps)
        longer = self.steps(data).followed_by(steps)
        following = []
        for row in self._filled(posterior, longer, level).rows:
            place = row.pop("row")
            sequence = int(np.searchsorted(longer.ends, place, side="right"))
            step = place - int(longer.ends[sequence]) + steps + 1
            following.append({"sequence": sequence, "step": step, **row})
        return [row for row in following if row["step"] > 0]

    def fill(self, posterior: Posterior, data: Any, *, level: float = 0.9) -> Filled:
        """Predict missing values from the whole sequence, with their uncertainty; sequences are concatenated."""
        return self._filled(posterior, self.steps(data), level)

    def occupancy(self, posterior: Posterior) -> Array:
        """The share of steps that a long sequence spends in each state."""
        check_structure(posterior, self.structure_for(posterior), "posterior")
        return stationary(posterior.mean("transitions"))

    def dwell_times(self, posterior: Posterior) -> Array:
        """The mean length of a visit to each state, in steps, at the mean transitions."""
        check_structure(posterior, self.structure_for(posterior), "posterior")
        return np.asarray(1.0 / (1.0 - np.diag(posterior.mean("transitions"))))

    def from_states(self, data: Any, states: Array, moved: Array, first_states: Array) -> Posterior:
        """The posterior given state probabilities at each step, and expected moves and first states."""
        steps = self.steps(data)
        emissions = self.emissions.seeing(steps.points)
        before = Posterior.of_prior(self.structure).natural
        sums = states.T @ emissions.features(steps.points)
        return Posterior.from_natural(self.structure, plus(emissions, before, sums, moved, first_states))

    def draw(
        self,
        parameters: Mapping[str, Any],
        size: int,
        rng: np.random.Generator,
        *,
        length: Annotated[int, "Steps of each sequence.", Above(0)] = 60,
    ) -> tuple[list[Array], list[NDArray[np.intp]]]:
        """Sequences drawn from the parameters, and the states of each."""
        states = np.empty((length, size), dtype=np.intp)
        shares = np.tile(parameters["start"], (size, 1))
        for step in range(length):
            states[step] = draw_categories(shares, rng)
            shares = parameters["transitions"][states[step]]
        drawn = [self.emissions.draw(parameters, path, rng) for path in states.T]
        return drawn, list(states.T)

    def with_gaps(
        self, data: list[Array], hidden: list[NDArray[np.intp]], source: Posterior, rng: np.random.Generator
    ) -> list[Array]:
        tally, draw = self.tally(source), partial(observed, rng=rng)
        return [self.emissions.with_gaps(*sequence, tally, draw) for sequence in zip(data, hidden, strict=True)]

    def describe(self, posterior: Posterior, *, top: int = 10) -> list[Row]:
        """How often and for how long each state is visited, what sets it apart, and its columns."""
        share, dwell = self.occupancy(posterior), self.dwell_times(posterior)
        rows = class_summaries(self.columns, self.emissions, posterior, top, share, visits(posterior))
        return [
            {"component": k, "share in the long run": float(share[k]), "steps per visit": float(dwell[k]), **row}
            for k, row in enumerate(rows)
        ]

    def profiles(self, posterior: Posterior, *, level: float = 0.9) -> list[Row]:
        """Describe each state: one row per state and column (and category), with intervals, for a data frame."""
        check_structure(posterior, self.structure_for(posterior), "posterior")
        return [*profile_rows(self.columns, self.emissions, posterior, level)]

    @of_own_posterior
    def tally(self, posterior: Posterior) -> Tally:
        """Every step is a first one or follows a move. A state has at least as many steps as exits or values, and no
        move is made less often than never."""
        first_states, moved = (dense(posterior.contribution[name]) for name in ("start", "transitions"))
        steps = visits(posterior)
        emitted = self.emissions.tally(steps, posterior.contribution)
        ended = steps[:, None] - moved.sum(axis=1, keepdims=True)
        within = {**emitted.within, "transitions": ended, "moves": np.hstack([first_states, moved, moved.T])}
        return replace(emitted, within=within, observed=first_states.sum())

    def cells_hidden(
        self, posterior: Posterior, belief: Posterior, data: Any, slots: NDArray[np.intp], least: int, persons: Persons
    ) -> Posterior:
        """Make moves, first and last states of fewer than `least` persons look like those that nobody had."""
        first_states, moved = (dense(posterior.contribution[name]) for name in ("start", "transitions"))
        table = table_of(first_states[:, 0], moved)
        longer = np.diff(self.steps(data).ends, prepend=0) > 1
        moving = sum(bool(longer[rows].any()) for rows in persons.rows(len(longer)))
        safe = hidden(table, self.persons_moving(belief, data, slots, persons), least, moving)
        if safe is table:
            return posterior
        parts = {"start": safe[-1, :-1, None], "transitions": safe[:-1, :-1]}
        return replace(posterior, contribution={**posterior.contribution, **parts})

    def persons_moving(self, posterior: Posterior, data: Any, slots: NDArray[np.intp], persons: Persons) -> Array:
        """(K + 1, K + 1): how many persons are expected to make each move between slots, as in `table_of`."""
        steps, scores, start, moves = self._expected(posterior, data)
        sequences, into = steps.split(scores), np.eye(self.states)[slots]
        total = np.zeros((self.states + 1, self.states + 1))
        for rows in persons.rows(len(sequences)):
            tables = [moves_of(sequences[row], start, moves) for row in rows]
            first_states, moved = (sum(part) for part in zip(*tables, strict=True))
            total += np.minimum(table_of(first_states @ into, into.T @ moved @ into), 1.0)
        return total

    def largest_contribution(self, value: float) -> Mapping[str, Array]:
        return self.emissions.largest_contribution(value)

    def _filled(self, posterior: Posterior, steps: Steps, level: float) -> Filled:
        scores, _, *weights = self._predictive(posterior, steps)
        smooth_states(scores, steps, *weights)
        with np.errstate(divide="ignore"):
            return fill(self.columns, self.emissions, posterior, steps.points, np.log(scores), level)

    def _predictive(self, posterior: Posterior, steps: Steps) -> tuple[Array, NDArray[np.int64], Array, Array]:
        """log p(step | state) with parameters integrated out, ends of sequences, mean first states and moves."""
        check_structure(posterior, self.structure_for(posterior), "posterior")
        scores = np.ascontiguousarray(self.emissions.log_predictive(posterior.natural, steps.points))
        return scores, steps.ends, posterior.mean("start"), posterior.mean("transitions")

    def _expected(self, posterior: Posterior, data: Any) -> tuple[Steps, Array, Array, Array]:
        """Steps, expected log weights of states at each step, and weights of first states and of moves."""
        check_structure(posterior, self.structure_for(posterior), "posterior")
        steps = self.steps(data)
        emissions = self.emissions.seeing(steps.points)
        scores = np.ascontiguousarray(emissions.features(steps.points) @ emissions.coefficients(posterior.natural))
        return steps, scores, *chain_weights(posterior.natural)

    def _begin(
        self, emissions: Emissions, steps: Steps, before: Natural, kind: Start, rng: np.random.Generator
    ) -> Natural:
        """A first posterior: each step is in the state of its group or nearest centre, or in a random mix of states."""
        if kind == "tree":
            features = emissions.features(steps.points)
            shares = np.eye(self.states)[groups_of_rows(emissions, self.structure.prior, features, self.states)]
        elif kind == "k-means++":
            places = scaled(emissions.embedded, steps.points)
            shares = np.eye(self.states)[nearest_centres(places(steps.points), self.states, rng)]
        else:
            shares = rng.dirichlet(np.ones(self.states), size=len(steps.points))
        return plus(emissions, before, shares.T @ emissions.features(steps.points), *steps.counted(shares))

    def _pass(
        self, emissions: Emissions, blocks: ChainBlocks, before: Reference, natural: Natural
    ) -> tuple[Natural, float]:
        """One pass over the data; the bound is that of the given parameters."""
        weight, *added = blocks.weigh(emissions.coefficients(natural), *chain_weights(natural))
        return plus(emissions, before.natural, *added), weight - before.divergence(natural)


def visits(posterior: Posterior) -> Array:
    """The number of steps in each state: first steps of sequences, and moves into it."""
    first_states, moved = (dense(posterior.contribution[name]) for name in ("start", "transitions"))
    return np.asarray(first_states[:, 0] + moved.sum(axis=0))
