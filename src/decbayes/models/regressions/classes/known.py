"""The evidence of rows about their class: log p(row | class), by the classes of a merged posterior.

Sites agree on the classes. A site computes these numbers from its own rows, as columns beside the predictors, and
nobody else sees them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from decbayes.columns import Column, Gaussian, declared, plain
from decbayes.columns.frames import names_in, values_in
from decbayes.errors import InvalidData, InvalidStructure
from decbayes.families import Array
from decbayes.models.core.persons import Persons, most_common
from decbayes.models.core.registry import model_for
from decbayes.models.core.settings import number_of
from decbayes.models.regressions.rows.stacking import Pairs, Stacked
from decbayes.models.regressions.rows.table import Table
from decbayes.models.tables.latent_classes import LatentClasses
from decbayes.posterior import Posterior


@dataclass(frozen=True, eq=False)
class Classes:
    """Classes with known parameters, and their names."""

    model: LatentClasses
    posterior: Posterior
    names: tuple[str, ...]

    @classmethod
    def of(cls, known: Any) -> "Classes":
        """The classes of a posterior, or of the plain values in a structure."""
        if isinstance(known, Posterior):
            model = model_for(known.structure)
            if not isinstance(model, LatentClasses):
                raise InvalidStructure(f"A posterior of LatentClasses is needed, not one of {type(model).__name__}.")
            names = [name or f"class {k}" for k, name in enumerate(known.names or [""] * number_of(known.structure))]
            return cls(model, known, tuple(names))
        try:
            columns, natural = declared([*known["columns"]]), known["natural"]
            model = LatentClasses(components=len(known["names"]), columns=columns)
            factors = {name: np.array(part, dtype=np.float64) for name, part in natural.items()}
            return cls(model, Posterior.from_natural(model.structure, factors), tuple(map(str, known["names"])))
        except (TypeError, KeyError, ValueError, AttributeError) as error:
            raise InvalidStructure(f"These are no classes ({type(error).__name__}).") from None

    def plain(self) -> dict[str, Any]:
        """As JSON has them."""
        natural = {name: np.asarray(part).tolist() for name, part in self.posterior.natural.items()}
        return {"columns": plain(self.model.columns), "natural": natural, "names": list(self.names)}

    @property
    def likelihoods(self) -> dict[str, Column]:
        """The columns that hold log p(row | class), one per class."""
        return {f"likelihood of {name}": Gaussian(0, 1) for name in self.names}

    @property
    def captions(self) -> dict[str, str]:
        """What sets each class apart, in a few words."""
        rows = self.model.describe(self.posterior, top=1)
        return {name: ", ".join(row[self.model.caption]) for name, row in zip(self.names, rows, strict=True)}

    @property
    def largest(self) -> str:
        """The name of the most frequent class."""
        return self.names[int(np.argmax(self.posterior.mean("weights")))]

    def joined(self, frame: Any) -> dict[str, Any]:
        """Add these columns to a frame; missing values of a row add nothing."""
        columns = {name: values_in(frame, name) for name in names_in(frame)}
        if not self.likelihoods.keys() <= columns.keys():
            points = self.model.points(frame)
            log_likelihoods = self.model.emissions.log_predictive(self.posterior.natural, points)
            columns |= dict(zip(self.likelihoods, log_likelihoods.T, strict=True))
        return columns


@dataclass(frozen=True)
class ClassesTable(Table):
    """Rows with the evidence about their class in place of an outcome."""

    classes: Classes | None = None

    def check_outcome(self, targets: Array, least: int, persons: Persons) -> None:
        if 0 < persons.among(targets != most_common(targets)) < least:
            raise InvalidData(
                f"All but fewer than {least} persons here belong to the same class, and the file would single out the "
                f"others. {Memberships.remedy}"
            )

    def _coded(self, frame: Any, target: bool) -> Array:
        assert self.classes is not None
        return super()._coded(self.classes.joined(frame) if target else frame, target)

    def _frame(self, path: Path, names: list[str]) -> Mapping[str, Any]:
        assert self.classes is not None
        if self.target not in names:
            return super()._frame(path, names)
        predictors = [name for name in names if name not in self.classes.likelihoods]
        frame = super()._frame(path, [*predictors, *self.classes.model.columns])
        whole = self.classes.joined(frame)
        return {name: whole[name] for name in (*predictors, *self.classes.likelihoods)}


@dataclass(frozen=True)
class Memberships(Pairs):
    """Unobserved classes, compared in pairs; the target of a row is its log-likelihood ratio for the first of a pair.

    `columns` hold log p(row | class), in the order of the `compared` classes.
    """

    remedy: ClassVar[str] = "Use fewer classes, or leave this site out."
    columns: tuple[str, ...] = ()

    @property
    def needs(self) -> tuple[str, ...]:
        return self.columns

    def likelihoods(self, values: Mapping[str, Array]) -> Array:
        return np.column_stack([values[name] for name in self.columns])

    def rows(self, target: Array, values: Mapping[str, Array]) -> Stacked:
        rows, (later, earlier), log_likelihoods = self.every(len(target)), self.pairs, self.likelihoods(values)
        constant = np.zeros((len(log_likelihoods), len(later)))
        constant[:, 0] = log_likelihoods[:, 0]
        return rows._replace(
            target=(log_likelihoods[:, later] - log_likelihoods[:, earlier]).ravel(), constant=constant.ravel()
        )

    def stated(self, target: Array, values: Mapping[str, Array]) -> Array:
        return np.asarray(self.likelihoods(values).argmax(axis=1), dtype=np.float64)

    def singled_out(self, target: Array, values: Mapping[str, Array]) -> Iterator[tuple[str, NDArray[np.bool_]]]:
        level = self.stated(target, values)
        yield from ((name, level == place) for place, name in enumerate(self.compared))
