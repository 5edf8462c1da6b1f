"""Sequences of table rows, and the computations of hidden Markov models along them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from decbayes.base.workers import gathered
from decbayes.columns.cells import is_missing
from decbayes.columns.frames import is_frame, names_in, pooled, values_in
from decbayes.errors import InvalidData, warn
from decbayes.families import Array, Transitions, Weights
from decbayes.inputs.chunks import each_chunk
from decbayes.inputs.mixed_tables import Frame, read_frame
from decbayes.inputs.tables import Report
from decbayes.models.core.model import Columns as Names
from decbayes.models.core.model import ignore, split_names
from decbayes.models.core.persons import EACH, Persons
from decbayes.models.core.transforms import Observed
from decbayes.models.likelihoods.emissions import Emissions, Natural
from decbayes.models.tables.tabular import Agreed, Kinds, Tabular, columns_text, counts_hint, kinds_from, read_columns
from decbayes.posterior import Posterior

# Steps per block; more if a sequence is longer.
BLOCK = 1 << 12


@dataclass(frozen=True)
class Steps:
    """Concatenated sequences: all their rows, and where each ends."""

    points: Array
    ends: NDArray[np.int64]

    @classmethod
    def of(cls, sequences: list[Array], width: int) -> "Steps":
        """Concatenate sequences, without empty ones."""
        parts = [part for part in sequences if len(part)]
        ends = np.cumsum([len(part) for part in parts], dtype=np.int64)
        return cls(np.concatenate([np.empty((0, width)), *parts]), ends)

    @property
    def firsts(self) -> NDArray[np.int64]:
        return np.append(0, self.ends[:-1]) if len(self.ends) else self.ends

    @property
    def sequence(self) -> NDArray[np.intp]:
        return np.repeat(np.arange(len(self.ends)), np.diff(self.ends, prepend=0))

    def split(self, values: Any) -> list[Any]:
        return np.split(values, self.ends[:-1]) if len(self.ends) else []

    def counted(self, shares: Array) -> tuple[Array, Array]:
        """Counts of moves and of first states, for steps that are independent given their shares."""
        goes_on = np.ones(len(shares), dtype=np.bool_)
        goes_on[self.ends - 1] = False
        moved = shares[:-1][goes_on[:-1]].T @ shares[1:][goes_on[:-1]]
        return moved, shares[self.firsts].sum(axis=0)

    def followed_by(self, missing: int) -> "Steps":
        """The same sequences, each with missing steps at its end."""
        gap = np.full((missing, self.points.shape[1]), np.nan)
        return Steps.of([np.concatenate([part, gap]) for part in self.split(self.points)], self.points.shape[1])


class ChainBlocks:
    """Features of whole sequences in blocks of some thousand steps, for threads; block sums are added in one order."""

    def __init__(self, emissions: Emissions, steps: Steps) -> None:
        number = steps.firsts // BLOCK
        cuts = steps.ends[:-1][np.diff(number) > 0]
        self.blocks = [(emissions.features(points), ends) for points, ends in zip(*cut_at(steps, cuts), strict=True)]

    def weigh(self, slopes: Array, start: Array, moves: Array) -> tuple[float, Array, Array, Array]:
        """The log weight of all paths, (K, p) sums of features by state, expected moves and first states."""
        parts = gathered(partial(weigh_block, features, ends, slopes, start, moves) for features, ends in self.blocks)
        weight, sums, moved, first_states = (sum(part[1:], start=part[0]) for part in zip(*parts, strict=True))
        return weight, sums, moved, first_states


def cut_at(steps: Steps, cuts: NDArray[np.int64]) -> tuple[list[Array], list[NDArray[np.int64]]]:
    """The steps between cuts, and where their sequences end."""
    points = np.split(steps.points, cuts)
    ends = np.split(steps.ends, np.searchsorted(steps.ends, cuts, side="right"))
    return points, [last - first for last, first in zip(ends, np.append(0, cuts), strict=True)]


def weigh_block(
    features: Array, ends: NDArray[np.int64], slopes: Array, start: Array, moves: Array
) -> tuple[float, Array, Array, Array]:
    scores = np.ascontiguousarray(features @ slopes)
    weight, moved, first_states = smooth_states(scores, Steps(features, ends), start, moves)
    return weight, scores.T @ features, moved, first_states


def smooth_states(scores: Array, steps: Steps, start: Array, moves: Array) -> tuple[float, Array, Array]:
    """Turn scores into state probabilities; return the log weight of all paths, expected moves and first states."""
    from decbayes.kernels.forward_backward import smooth

    moved, first_states = np.zeros(moves.shape), np.zeros(len(start))
    return smooth(scores, steps.ends, start, moves, moved, first_states), moved, first_states


def moves_of(scores: Array, start: Array, moves: Array) -> tuple[Array, Array]:
    """Expected first states and moves of one sequence; its scores become probabilities."""
    _, moved, first_states = smooth_states(scores, Steps(scores, np.array([len(scores)])), start, moves)
    return first_states, moved


def chain_weights(natural: Mapping[str, Array]) -> tuple[Array, Array]:
    """exp E[log π] and exp E[log A]."""
    start = np.exp(Weights().expected_statistics(natural["start"])[:, 0])
    return start, np.ascontiguousarray(np.exp(Transitions().expected_statistics(natural["transitions"])))


def plus(emissions: Emissions, natural: Mapping[str, Array], sums: Array, moved: Array, first_states: Array) -> Natural:
    """Natural parameters plus the evidence of some sequences."""
    chain = {"start": natural["start"] + first_states[:, None], "transitions": natural["transitions"] + moved}
    return {**chain, **emissions.plus(natural, sums)}


def stationary(moves: Array) -> Array:
    """The distribution that the transitions preserve."""
    size = len(moves)
    equations = np.vstack([moves.T - np.eye(size), np.ones(size)])
    shares = np.linalg.lstsq(equations, np.append(np.zeros(size), 1.0), rcond=None)[0]
    return np.asarray(np.maximum(shares, 0.0) / np.maximum(shares, 0.0).sum())


@dataclass(frozen=True, kw_only=True)
class Sequential(Tabular):
    """A model whose observations are sequences: a list of data frames or matrices, or one of either.

    `sequences` names the column that identifies sequences; it is not among the model's columns. A table with that
    column holds several sequences, whose rows are in order; a table without it is a single sequence.
    """

    sequences: Annotated[str, "The column that identifies sequences; rows of a sequence are in order."] = ""

    unit: ClassVar[str] = "step"
    record: ClassVar[str] = "sequence"

    def constants(self) -> Mapping[str, Any]:
        return {**super().constants(), **({"sequences": self.sequences} if self.sequences else {})}

    def steps(self, data: Any) -> Steps:
        if isinstance(data, str) or not hasattr(data, "__iter__"):
            raise InvalidData("Sequences are a list of data frames or matrices, or one of either.")
        tables = [data] if is_frame(data) or getattr(data, "ndim", 0) == 2 else list(each_chunk(data))
        plain = all(type(table) is np.ndarray and table.dtype == float for table in tables)
        if plain and {table.shape[1:] for table in tables} == {(len(self.columns),)}:
            # Numbers of many sequences are checked together; other kinds of arrays would not stay what they are.
            together = Steps.of(tables, len(self.columns))
            return replace(together, points=self.points(together.points))
        parts = [part for table in tables for part in cut(self.points(table), self._names(table))]
        return Steps.of(parts, len(self.columns))

    def separate(self, data: Any) -> list[Array]:
        steps = self.steps(data)
        return steps.split(steps.points)

    def count(self, data: Any) -> int:
        return len(self.steps(data).ends)

    def units(self, data: Any, held: Any = None) -> Array:
        """Scores are per step."""
        return np.diff(self.steps(data).ends, prepend=0).astype(np.float64)

    def taken(self, data: Any, rows: NDArray[np.intp]) -> list[Any]:
        sequences = self.separate(data)
        return [sequences[row] for row in rows]

    def pooled(
        self, data: Any, least: int, least_outcome: int, *, agreed: bool, persons: Persons = EACH
    ) -> tuple[Self, Any, list[str]]:
        """Count persons, each with one sequence or more, not rows."""
        steps = self.steps(data)
        behind = persons.of_parts(steps.sequence)
        columns, points, remarks = pooled(steps.points, self.columns, behind.counts, [least], agreed=agreed)
        return self if agreed else replace(self, columns=columns), steps.split(points), remarks

    def presence(self, posterior: Posterior, data: Any, persons: Persons = EACH) -> Array:
        """The expected number of sequences, or persons, that spend at least one step in each state."""
        return persons.of_parts(self.steps(data).sequence).present(self.assign(posterior, data))

    def joined(self, shards: Sequence[Any]) -> list[Any]:
        return [sequence for shard in shards for sequence in self.separate(shard)]

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        sequences: str = "",
        kinds: Mapping[str, str] | None = None,
        names: Iterable[str] = (),
        report: Report = warn,
        **settings: Any,
    ) -> Self:
        if sequences and sequences not in names_in(frame):
            raise InvalidData(f"There is no column '{sequences}' to tell sequences apart.")
        others = [name for name in (tuple(names) or names_in(frame)) if name != sequences]
        return super().from_frame(frame, kinds=kinds, names=others, report=report, sequences=sequences, **settings)

    @classmethod
    def from_file(
        cls,
        path: Path,
        *,
        sequences: str = "",
        columns: Names = "",
        kinds: Kinds = "",
        agreed_columns: Agreed = None,
        report: Report = ignore,
        **settings: Any,
    ) -> tuple[Self, Any]:
        """Rows of a sequence must be in order; --sequences names the column that identifies sequences. Without it the
        file is one sequence. Other columns are read as for `decbayes fit classes`.
        """
        if agreed_columns is not None:
            model = cls(columns=read_columns(agreed_columns), sequences=sequences, **settings)
            return model, model.read(path)
        names = split_names(columns)
        frame = read_frame(path, [*names, *([sequences] if names and sequences else [])])
        model = cls.from_frame(frame, kinds=kinds_from(kinds), sequences=sequences, report=report, **settings)
        report(f"{path}: {columns_text(model.columns)}{counts_hint(model.columns, kinds)}")
        return model, model.separate(frame)

    def read(self, path: Path, *, columns: str = "", report: Report = ignore) -> Any:
        """The agreed columns of a file."""
        return self.separate(self._rows(path))

    def persons(self, path: Any, column: str, **reading_options: Any) -> Persons:
        """The person behind each sequence of a file: the same in all its rows."""
        frame = read_frame(Path(path), list(dict.fromkeys([*self.columns, *filter(None, [self.sequences]), column])))
        labels = [set(map(str, rows)) for rows in cut(frame[column], self._names(frame))]
        if any(len(names) > 1 for names in labels):
            raise InvalidData(f"{path}: some sequences are about several persons, by column '{column}'.")
        return Persons.of(name for names in labels for name in names)

    def stream(self, path: Any, *, report: Report = ignore, **reading_options: Any) -> Iterator[Observed]:
        """All sequences at once, and the row of each step in the file."""
        frame = self._rows(Path(path))
        names = self._names(frame)
        points = self.points(frame)
        rows = np.concatenate(cut(np.arange(len(points)), names))
        yield Observed(cut(points, names), rows=rows, size=len(points))

    def _rows(self, path: Path) -> Frame:
        return read_frame(path, [*self.columns, *([self.sequences] if self.sequences else [])])

    def _names(self, table: Any) -> Any:
        """The sequence of each row, if a column identifies it."""
        if not self.sequences or not is_frame(table) or self.sequences not in names_in(table):
            return None
        names = values_in(table, self.sequences)
        nameless = sum(map(is_missing, names))
        if nameless:
            raise InvalidData(
                f"{nameless:,} of {len(names):,} rows lack '{self.sequences}', which identifies their sequence."
            )
        return names


def cut(points: Any, names: Any) -> list[Any]:
    """The rows of each sequence, in order; sequences are ordered by their first rows."""
    if names is None:
        return [points]
    texts = np.array([str(name) for name in names])
    _, first, which = np.unique(texts, return_index=True, return_inverse=True)
    return [points[which == sequence] for sequence in np.argsort(first)]
