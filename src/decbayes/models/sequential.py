"""Models of sequences: each a table whose rows follow each other."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from decbayes.columns import is_frame, names_in, warn
from decbayes.columns.frames import values_in
from decbayes.columns.values import is_missing
from decbayes.errors import InvalidData
from decbayes.families import Array
from decbayes.inputs.frames import Frame, read_frame
from decbayes.inputs.tables import Report
from decbayes.models.chains import Steps
from decbayes.models.model import Columns as Names
from decbayes.models.model import ignore, split_names
from decbayes.models.tabular import Agreed, Kinds, Tabular, columns_text, kinds_from, read_columns
from decbayes.models.transforms import Observed


@dataclass(frozen=True)
class Sequential(Tabular):
    """A model whose observations are sequences: a list of data frames or matrices, or one of either.

    `sequences` names a column that tells sequences apart, and is none of the model's own. A table that has it holds
    several sequences, whose rows are in order; one that has not is a single sequence.
    """

    sequences: Annotated[str, "The column that tells sequences apart; rows of one are in order."] = field(
        default="", kw_only=True
    )

    unit: ClassVar[str] = "step"

    def constants(self) -> Mapping[str, Any]:
        return {**super().constants(), **({"sequences": self.sequences} if self.sequences else {})}

    def steps(self, data: Any) -> Steps:
        """Sequences as one matrix, and where each ends."""
        if isinstance(data, str) or not hasattr(data, "__iter__"):
            raise InvalidData("Sequences are a list of data frames or matrices, or one of either.")
        tables = [data] if is_frame(data) or getattr(data, "ndim", 0) == 2 else list(data)
        parts = [part for table in tables for part in cut(self.points(table), self._names(table))]
        return Steps.of(parts, len(self.columns))

    def separate(self, data: Any) -> list[Array]:
        """Each sequence as a matrix of its own."""
        steps = self.steps(data)
        return steps.split(steps.points)

    def count(self, data: Any) -> int:
        return len(self.steps(data).ends)

    def units(self, data: Any, held: Any = None) -> Array:
        """A score is per step."""
        return np.diff(self.steps(data).ends, prepend=0).astype(np.float64)

    def taken(self, data: Any, rows: NDArray[np.intp]) -> list[Any]:
        sequences = self.separate(data)
        return [sequences[row] for row in rows]

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
        own = [name for name in (tuple(names) or names_in(frame)) if name != sequences]
        return super().from_frame(frame, kinds=kinds, names=own, report=report, sequences=sequences, **settings)

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
        """Rows of a sequence follow each other; --sequences names the column that tells sequences apart, without which
        there is one. Other columns are read as those of `decbayes fit classes`.
        """
        if agreed_columns is not None:
            model = cls(columns=read_columns(agreed_columns), sequences=sequences, **settings)
            return model, model.read(path)
        names = split_names(columns)
        frame = read_frame(path, [*names, *([sequences] if names and sequences else [])])
        model = cls.from_frame(frame, kinds=kinds_from(kinds), sequences=sequences, report=report, **settings)
        report(f"{path}: {columns_text(model.columns)}")
        return model, model.separate(frame)

    def read(self, path: Path, *, columns: str = "", report: Report = ignore) -> Any:
        """The agreed columns of a file."""
        return self.separate(self._rows(path))

    def stream(self, path: Any, *, report: Report = ignore, **sources: Any) -> Iterator[Observed]:
        """All sequences at once, and which row of the file each step is."""
        frame = self._rows(Path(path))
        names = self._names(frame)
        points = self.points(frame)
        rows = np.concatenate(cut(np.arange(len(points)), names))
        yield Observed(cut(points, names), rows=rows, size=len(points))

    def _rows(self, path: Path) -> Frame:
        return read_frame(path, [*self.columns, *([self.sequences] if self.sequences else [])])

    def _names(self, table: Any) -> Any:
        """Which sequence each row belongs to, if a column says it."""
        if not self.sequences or not is_frame(table) or self.sequences not in names_in(table):
            return None
        names = values_in(table, self.sequences)
        nameless = sum(map(is_missing, names))
        if nameless:
            raise InvalidData(
                f"{nameless:,} of {len(names):,} rows lack '{self.sequences}', which says their sequence."
            )
        return names


def cut(points: Any, names: Any) -> list[Any]:
    """The rows of each sequence, in their order; sequences in the order of their first rows."""
    if names is None:
        return [points]
    texts = np.array([str(name) for name in names])
    _, first, which = np.unique(texts, return_index=True, return_inverse=True)
    return [points[which == sequence] for sequence in np.argsort(first)]
