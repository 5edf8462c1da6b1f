"""Hidden Markov models: sequences of rows whose state changes from step to step."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from decbayes.arguments import Above, check_positive, check_whole
from decbayes.columns import is_frame
from decbayes.errors import InvalidData
from decbayes.families import Array, Transitions, Weights
from decbayes.inputs.frames import read_frame
from decbayes.inputs.tables import Report
from decbayes.models.ascent import Ascent, Fit, OnPass, fit_best
from decbayes.models.clusters import nearest_centres
from decbayes.models.emissions import Emissions, Natural, Reference
from decbayes.models.model import Columns as Names
from decbayes.models.model import Row, View, ignore, split_names
from decbayes.models.points import check_fit, check_structure
from decbayes.models.profiles import class_summaries, profile_rows
from decbayes.models.table_likelihoods import draw_categories
from decbayes.models.tabular import Agreed, Kinds, Tabular, columns_text, kinds_from, read_columns
from decbayes.models.transforms import Observed
from decbayes.posterior import Posterior
from decbayes.structure import Structure
from decbayes.symmetry import CoupledSet

SequenceColumn = Annotated[str, "The column that tells sequences apart; rows of one are in order."]


@dataclass(frozen=True)
class Steps:
    """Sequences one after another: all their rows, and where each ends."""

    points: Array
    ends: NDArray[np.int64]

    def split(self, values: Any) -> list[Any]:
        return np.split(values, self.ends[:-1]) if len(self.ends) else []


@dataclass(frozen=True)
class HiddenMarkov(Tabular):
    """Each step of a sequence is in one of several states; the next state depends on the present one.

    A state emits rows as a class of `LatentClasses` does: columns of any kind, and values, or whole steps, may be
    missing. Data are lists of sequences, each a data frame or a matrix; a single one is one sequence.

    `transition_prior` is α of each next state, `stickiness` is added to it for staying, `start_prior` is α of each
    first state.
    """

    states: Annotated[int, "How many states.", Above(0)] = 2
    transition_prior: Annotated[float, "α of each next state.", Above(0)] = field(default=1.0, kw_only=True)
    stickiness: Annotated[float, "Added to the α of staying in a state."] = field(default=0.0, kw_only=True)
    start_prior: Annotated[float, "α of each first state.", Above(0)] = field(default=1.0, kw_only=True)
    ascent: Ascent = field(default=Ascent(restarts=9), kw_only=True)

    about: ClassVar[str] = "States of sequences: hidden Markov models of mixed columns with missing values."
    command: ClassVar[str] = "states"
    example: ClassVar[str] = "walks.csv --states 4 --sequences walk"
    caption: ClassVar[str] = "stands out by"
    view: ClassVar[View] = "states"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole(1, states=self.states)
        check_positive(transition_prior=self.transition_prior, start_prior=self.start_prior)
        if not self.stickiness >= 0:
            raise ValueError(f"stickiness must be a number, at least 0; not {self.stickiness!r}.")

    def agreement(self) -> Structure:
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

    @classmethod
    def settings_of(cls, structure: Structure) -> dict[str, Any]:
        alpha = Transitions().parameters(structure.prior["transitions"])["alpha"]
        start = Weights().parameters(structure.prior["start"])["alpha"]
        moves = float(alpha[0, -1])
        told = {"states": len(alpha), "transition_prior": moves, "stickiness": float(alpha[0, 0]) - moves}
        return {**super().settings_of(structure), **told, "start_prior": float(start[0])}

    def steps(self, data: Any) -> Steps:
        """Sequences as one matrix, and where each ends; empty ones are left out."""
        sequences = [data] if is_frame(data) or getattr(data, "ndim", 0) == 2 else list(data)
        parts = [part for part in map(self.points, sequences) if len(part)]
        width = len(self.columns)
        ends = np.cumsum([len(part) for part in parts], dtype=np.int64)
        return Steps(np.concatenate([np.empty((0, width)), *parts]), ends)

    def count(self, data: Any) -> int:
        return len(self.steps(data).ends)

    def units(self, data: Any, held: Any = None) -> Array:
        """A score is per step."""
        return np.diff(self.steps(data).ends, prepend=0).astype(np.float64)

    def taken(self, data: Any, rows: NDArray[np.intp]) -> list[Any]:
        sequences = self.sequences(data)
        return [sequences[row] for row in rows]

    def joined(self, shards: Sequence[Any]) -> list[Any]:
        return [sequence for shard in shards for sequence in self.sequences(shard)]

    def sequences(self, data: Any) -> list[Array]:
        steps = self.steps(data)
        return steps.split(steps.points)

    def fit(
        self,
        data: Any,
        *,
        rng: np.random.Generator,
        prior: Posterior | None = None,
        start: Posterior | None = None,
        progress: OnPass | None = None,
    ) -> Fit:
        """The posterior of the sequences, on top of `prior` if given, climbing from `start` if given."""
        steps = self.steps(data)
        check_fit(self.structure, rng, prior, start)
        before = dict((prior or Posterior.of_prior(self.structure)).natural)
        if not len(steps.points):
            return Fit(Posterior.from_natural(self.structure, before), (0.0,), True)
        emissions = self.emissions.seeing(steps.points)
        features = emissions.features(steps.points)
        begin = (
            partial(self._begin, emissions, features, steps, before, rng)
            if start is None
            else lambda: dict(start.natural)
        )
        return fit_best(
            begin,
            partial(self._pass, emissions, features, steps, Reference(self.structure.families, before)),
            partial(Posterior.from_natural, self.structure),
            ascent=self.ascent if start is None else Ascent(self.ascent.passes, self.ascent.tolerance),
            observations=len(steps.points),
            progress=progress,
        )

    def assign(self, posterior: Posterior, data: Any) -> Array:
        """(steps, states): the probability of each state given the whole sequence, sequences one after another."""
        steps, scores, start, moves = self._expected(posterior, data)
        smoothed(scores, steps, start, moves)
        return scores

    def filter(self, posterior: Posterior, data: Any) -> Array:
        """(steps, states): the probability of each state given the steps up to now."""
        from decbayes.kernels.chains import filtered

        steps, scores, start, moves = self._expected(posterior, data)
        filtered(scores, steps.ends, start, moves, np.empty(len(steps.ends)))
        return scores

    def path(self, posterior: Posterior, data: Any) -> list[NDArray[np.int64]]:
        """The most likely states of each sequence, all steps together."""
        from decbayes.kernels.chains import best_path

        steps, scores, start, moves = self._expected(posterior, data)
        found = np.empty(len(scores), dtype=np.int64)
        best_path(scores, steps.ends, np.log(start), np.log(moves), found)
        return steps.split(found)

    def log_predictive(self, posterior: Posterior, data: Any, held: Any = None) -> Array:
        """log p(sequence | posterior) of each: emissions integrate their parameters out at each step, transitions are
        at their means.
        """
        from decbayes.kernels.chains import filtered

        check_structure(posterior, self.structure, "posterior")
        if held is not None:
            raise InvalidData("A score of sequences is about whole ones; nothing of them can be held out.")
        steps = self.steps(data)
        scores = self.emissions.log_predictive(posterior.natural, steps.points)
        totals = np.zeros(len(steps.ends))
        filtered(
            np.ascontiguousarray(scores), steps.ends, posterior.mean("start"), posterior.mean("transitions"), totals
        )
        return totals

    def next_states(self, posterior: Posterior, data: Any) -> Array:
        """(sequences, states): the probability of each state one step after the end of each sequence."""
        steps = self.steps(data)
        return np.asarray(self.filter(posterior, data)[steps.ends - 1] @ posterior.mean("transitions"))

    def occupancy(self, posterior: Posterior) -> Array:
        """The share of steps that a long sequence spends in each state."""
        check_structure(posterior, self.structure, "posterior")
        return stationary(posterior.mean("transitions"))

    def dwell_times(self, posterior: Posterior) -> Array:
        """How many steps a visit to each state lasts, at the mean transitions."""
        check_structure(posterior, self.structure, "posterior")
        return np.asarray(1.0 / (1.0 - np.diag(posterior.mean("transitions"))))

    def from_states(self, data: Any, states: Array, moved: Array, begun: Array) -> Posterior:
        """The posterior of sequences whose states are known: probabilities at each step, and expected moves."""
        steps = self.steps(data)
        emissions = self.emissions.seeing(steps.points)
        before = Posterior.of_prior(self.structure).natural
        sums = states.T @ emissions.features(steps.points)
        return Posterior.from_natural(self.structure, plus(emissions, before, sums, moved, begun))

    def draw(
        self, parameters: Mapping[str, Any], size: int, rng: np.random.Generator, *, length: int = 60
    ) -> tuple[list[Array], list[NDArray[np.intp]]]:
        """So many sequences, given the parameters, and the states of each."""
        states = np.empty((length, size), dtype=np.intp)
        shares = np.tile(parameters["start"], (size, 1))
        for step in range(length):
            states[step] = draw_categories(shares, rng)
            shares = parameters["transitions"][states[step]]
        drawn = [self.emissions.draw(parameters, own, rng) for own in states.T]
        return drawn, list(states.T)

    def describe(self, posterior: Posterior, *, top: int = 10) -> list[Row]:
        """How often each state is visited and for how long, what sets it apart, and its columns."""
        share, lasts = self.occupancy(posterior), self.dwell_times(posterior)
        rows = class_summaries(self.columns, self.emissions, posterior, top, share)
        return [
            {"component": k, "share": float(share[k]), "steps per visit": float(lasts[k]), **row}
            for k, row in enumerate(rows)
        ]

    def profiles(self, posterior: Posterior, *, level: float = 0.9) -> list[Row]:
        """What each state is like: one row per state and column (and category), with intervals, for a data frame."""
        check_structure(posterior, self.structure, "posterior")
        return [*profile_rows(self.columns, self.emissions, posterior, level)]

    @classmethod
    def from_file(
        cls,
        path: Path,
        *,
        states: int = 2,
        sequences: SequenceColumn = "",
        columns: Names = "",
        kinds: Kinds = "",
        agreed_columns: Agreed = None,
        report: Report = ignore,
        **settings: Any,
    ) -> tuple[Self, Any]:
        """Rows of a sequence follow each other; --sequences names the column that tells sequences apart, without which
        there is one. Other columns are read as those of `decbayes fit classes`.
        """
        if agreed_columns is not None:
            model = cls(states=states, columns=read_columns(agreed_columns), **settings)
            return model, model.read(path, columns=sequences)
        names = split_names(columns)
        frame = read_frame(path, [*names, *([sequences] if names and sequences else [])])
        told = {name: values for name, values in frame.items() if name != sequences}
        model = cls.from_frame(told, kinds=kinds_from(kinds), report=report, states=states, **settings)
        report(f"{path}: {columns_text(model.columns)}")
        return model, cut(model.points(told), frame.get(sequences))

    def read(self, path: Path, *, columns: str = "", report: Report = ignore) -> Any:
        """The agreed columns of a file; `columns` names the one that tells sequences apart."""
        frame = read_frame(path, [*self.columns, *split_names(columns)])
        return cut(self.points({name: frame[name] for name in self.columns}), frame.get(columns))

    def stream(self, path: Any, *, columns: str = "", report: Report = ignore, **sources: Any) -> Iterator[Observed]:
        """All sequences at once, and which row of the file each step is."""
        frame = read_frame(Path(path), [*self.columns, *split_names(columns)])
        points = self.points({name: frame[name] for name in self.columns})
        rows = np.concatenate(cut(np.arange(len(points)), frame.get(columns)))
        yield Observed(cut(points, frame.get(columns)), rows=rows, size=len(points))

    def _expected(self, posterior: Posterior, data: Any) -> tuple[Steps, Array, Array, Array]:
        """Steps, expected log weights of states at each, and weights of first states and of moves."""
        check_structure(posterior, self.structure, "posterior")
        steps = self.steps(data)
        emissions = self.emissions.seeing(steps.points)
        scores = np.ascontiguousarray(emissions.features(steps.points) @ emissions.coefficients(posterior.natural))
        return steps, scores, *chain_weights(posterior.natural)

    def _begin(
        self, emissions: Emissions, features: Array, steps: Steps, before: Natural, rng: np.random.Generator
    ) -> Natural:
        """A first posterior: every step is in the state of its nearest centre."""
        places = emissions.embedded(steps.points)
        spread = places.std(axis=0)
        places = places[:, spread > 0] / spread[spread > 0] if spread.any() else places
        nearest = nearest_centres(places, self.states, rng)
        shares = np.eye(self.states)[nearest]
        last = np.zeros(len(shares), dtype=np.bool_)
        last[steps.ends - 1] = True
        moved = shares[:-1][~last[:-1]].T @ shares[1:][~last[:-1]]
        begun = shares[np.append(0, steps.ends[:-1])].sum(axis=0)
        return plus(emissions, before, shares.T @ features, moved, begun)

    def _pass(
        self, emissions: Emissions, features: Array, steps: Steps, before: Reference, natural: Natural
    ) -> tuple[Natural, float]:
        """One pass over the data; the bound is that of the parameters it was given."""
        bound = -before.divergence(natural)
        scores = np.ascontiguousarray(features @ emissions.coefficients(natural))
        weight, moved, begun = smoothed(scores, steps, *chain_weights(natural))
        return plus(emissions, before.natural, scores.T @ features, moved, begun), bound + weight


def smoothed(scores: Array, steps: Steps, start: Array, moves: Array) -> tuple[float, Array, Array]:
    """Probabilities of states in the place of scores; the log weight of all paths, expected moves and first states."""
    from decbayes.kernels.chains import smooth

    moved, begun = np.zeros(moves.shape), np.zeros(len(start))
    return smooth(scores, steps.ends, start, moves, moved, begun), moved, begun


def chain_weights(natural: Mapping[str, Array]) -> tuple[Array, Array]:
    """exp E[log π] and exp E[log A]."""
    start = np.exp(Weights().mean(natural["start"])[:, 0])
    return start, np.ascontiguousarray(np.exp(Transitions().mean(natural["transitions"])))


def plus(emissions: Emissions, natural: Mapping[str, Array], sums: Array, moved: Array, begun: Array) -> Natural:
    """Natural parameters with the evidence of some sequences added."""
    chain = {"start": natural["start"] + begun[:, None], "transitions": natural["transitions"] + moved}
    return {**chain, **emissions.plus(natural, sums)}


def stationary(moves: Array) -> Array:
    """The distribution that transitions leave as it is."""
    size = len(moves)
    equations = np.vstack([moves.T - np.eye(size), np.ones(size)])
    shares = np.linalg.lstsq(equations, np.append(np.zeros(size), 1.0), rcond=None)[0]
    return np.asarray(np.maximum(shares, 0.0) / np.maximum(shares, 0.0).sum())


def cut(points: Any, names: Any) -> list[Any]:
    """The rows of each sequence, in their order; sequences in the order of their first rows."""
    if names is None:
        return [points]
    texts = np.array([str(name) for name in names])
    _, first, which = np.unique(texts, return_index=True, return_inverse=True)
    return [points[which == sequence] for sequence in np.argsort(first)]
