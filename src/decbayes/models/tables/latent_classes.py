"""Latent classes: tables of categorical, yes/no, count and real columns, with values missing anywhere."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self
from zlib import crc32

import numpy as np
from scipy.special import softmax

from decbayes.base.arguments import check_whole
from decbayes.columns import Gaussian, decoded
from decbayes.families import Array, dense
from decbayes.models.core.ascent import Ascent
from decbayes.models.core.model import Columns as Names
from decbayes.models.core.model import Row
from decbayes.models.core.points import check_structure
from decbayes.models.core.settings import LOCAL, Width
from decbayes.models.likelihoods.discrete import draw_categories
from decbayes.models.likelihoods.emissions import Emissions
from decbayes.models.likelihoods.likelihood import scaled
from decbayes.models.likelihoods.point_pass import PointBlocks
from decbayes.models.mixtures.clusters import Clusters, columns_of, statistics_of
from decbayes.models.mixtures.column_remarks import LOOKED_AT, repeated_rows
from decbayes.models.tables.profiles import Filled, class_summaries, fill, profile_rows, separation
from decbayes.models.tables.tabular import Agreed, Kinds, Tabular
from decbayes.posterior import Posterior
from decbayes.remarks import Remark


@dataclass(frozen=True, kw_only=True)
class LatentClasses(Tabular, Clusters):
    """Classes of the rows of a table with mixed columns, in which any value may be missing.

    Columns are independent within a class. `components` is the number of classes, or "auto" to find it; `weight_prior`
    is α of their weights, and `start_from` how a fit starts. `columns` says what each column holds
    (`decbayes.columns`); `from_frame` infers it. The priors of columns are `category_prior`, `yes_no_prior`,
    `count_prior`, `prior_strength`, `prior_degrees` and `prior_scale`: see `Tabular`.

    >>> rng = np.random.default_rng(0)
    >>> old = rng.random(200) < 0.5
    >>> patients = {"age": np.where(old, 80, 30) + rng.normal(0, 5, 200), "ward": np.where(old, "heart", "bone")}
    >>> model = db.LatentClasses.from_frame(patients, components=2)
    >>> posterior = model.fit(patients, rng=1).posterior
    >>> sorted(round(row["mean"]) for row in model.profiles(posterior) if row["column"] == "age")
    [29, 80]
    >>> model.fill(posterior, {"age": [85.0], "ward": [None]}).rows[0]["value"]
    'heart'
    """

    # As in other mixtures; dataclasses would inherit the default of `Tabular`, a single start.
    ascent: Ascent = field(default=Ascent(restarts=9), metadata=LOCAL)

    about: ClassVar[str] = "Classes of rows in a table of mixed columns with missing values."
    command: ClassVar[str] = "classes"
    example: ClassVar[str] = "patients.csv --components 4"
    caption: ClassVar[str] = "stands out by"
    view: ClassVar[str] = "classes"
    noun: ClassVar[str] = "class"
    points_per_centre: ClassVar[int] = 1000

    @classmethod
    def from_file(
        cls,
        path: Path,
        *,
        components: Width = 3,
        columns: Names = "",
        kinds: Kinds = "",
        agreed_columns: Agreed = None,
        **options: Any,
    ) -> tuple[Self, Any]:
        return super().from_file(
            path, components=components, columns=columns, kinds=kinds, agreed_columns=agreed_columns, **options
        )

    def _doubts(self, posterior: Posterior, blocks: PointBlocks) -> tuple[Remark, ...]:
        points, sizes = blocks.sample(LOOKED_AT, np.random.default_rng(0)), dense(posterior.contribution["weights"])
        units = self.of_units(posterior, points, sizes[:, 0] > 0.5)
        real = [column.factor == "real" for column in self.columns.values()]
        return (*units, *self.of_columns(blocks), *repeated_rows(blocks, real))

    def box(self) -> tuple[Array, Array] | None:
        """Three units to each side of the centre, if all columns are numbers in agreed units."""
        from decbayes.models.mixtures.histogram import REACH

        if not all(type(column) is Gaussian for column in self.columns.values()):
            return None
        centre, unit = np.array([column.zero_and_unit for column in self.columns.values()]).T
        return centre - REACH * unit, centre + REACH * unit

    def embedding(self, emissions: Emissions, points: Array) -> Callable[[Array], Array]:
        """All columns count equally, whatever their units."""
        return scaled(emissions.embedded, points)

    def describe(self, posterior: Posterior, *, top: int = 10) -> list[Row]:
        """The weight of each class, what sets it apart, and its columns."""
        check_structure(posterior, self.structure_for(posterior), "posterior")
        weights, evidence = posterior.mean("weights"), dense(posterior.contribution["weights"])[:, 0]
        rows = class_summaries(self.columns, self.emissions, posterior, top, weights, evidence)
        return [{"component": k, "weight": float(weights[k]), **row} for k, row in enumerate(rows)]

    def profiles(self, posterior: Posterior, *, level: float = 0.9) -> list[Row]:
        """Describe each class: one row per class and column (and category), with intervals, for a data frame.

        Intervals are calibrated if the posterior is. Mean-field intervals treat class membership as known, and are too
        narrow where classes overlap. `uncertainty` says which they are.
        """
        check_structure(posterior, self.structure_for(posterior), "posterior")
        return [*profile_rows(self.columns, self.emissions, posterior, level)]

    def separation(self, posterior: Posterior) -> list[Row]:
        """Rank columns by how well they tell classes apart: one row per column, for a data frame.

        `gain` is the log Bayes factor, in nats, of class-specific distributions of the column against a common one, and
        `probability` that of class-specific ones with even prior odds. Class membership is treated as known. Merged
        posteriors already hold the sums over all sites, so nobody sends anything for it.

        >>> rng = np.random.default_rng(0)
        >>> old = rng.random(200) < 0.5
        >>> patients = {"age": np.where(old, 80, 30) + rng.normal(0, 5, 200), "day": rng.choice(["even", "odd"], 200)}
        >>> model = db.LatentClasses.from_frame(patients, components=2)
        >>> rows = model.separation(model.fit(patients, rng=1).posterior)
        >>> [(row["column"], row["probability"] > 0.5) for row in rows]
        [('age', True), ('day', False)]
        """
        check_structure(posterior, self.structure_for(posterior), "posterior")
        return [*separation(self.columns, self.emissions, posterior)]

    def fill(self, posterior: Posterior, data: Any, *, level: float = 0.9) -> Filled:
        """Predict missing values from the others of the same row, with their uncertainty."""
        check_structure(posterior, self.structure_for(posterior), "posterior")
        points = self.points(data)
        return fill(self.columns, self.emissions, posterior, points, self._log_joint(posterior, points), level)

    def imputations(self, posterior: Posterior, data: Any, *, draws: int = 20, seed: int = 0) -> list[dict[str, Any]]:
        """Tables without gaps, as `pandas.DataFrame` takes them: missing values are drawn, again for each table.

        Each table has its own draw of all parameters from the posterior, the same at all sites that use one `seed`, and
        of each row's class. Analyse each table in the same way and `db.checking.pool` the results; see
        docs/imputation.md for how many classes that needs.

        >>> rng = np.random.default_rng(0)
        >>> frame = {"a": [*rng.normal(size=99), None], "b": rng.random(100) < 0.5}
        >>> model = db.LatentClasses.from_frame(frame, components=2)
        >>> tables = model.imputations(model.fit(frame, rng=1).posterior, frame, draws=3)
        >>> len({table["a"][99] for table in tables}), len({table["a"][0] for table in tables})
        (3, 1)
        """
        check_whole(1, draws=draws)
        check_whole(0, seed=seed)
        known = self.for_posterior(posterior)
        check_structure(posterior, known.structure_for(posterior), "posterior")
        points = known.points(data)
        emissions, structure = known.emissions.seeing(points), posterior.structure
        seen = emissions.features(points) @ columns_of(structure, emissions)
        # Sites must draw the same parameters, or the pooled spread between tables would be too small, but different
        # values: so their data enter the seed of these.
        checksum = crc32(np.ascontiguousarray(points).tobytes())
        tables = []
        for draw in range(draws):
            sampled = posterior.sample(1, np.random.default_rng([seed, draw]))
            parameters = {name: family.one_of(sampled[name], 0) for name, family in structure.families.items()}
            rng = np.random.default_rng([seed, draw, checksum])
            shares = np.asarray(softmax(seen @ statistics_of(structure, sampled)[0].T, axis=1))
            drawn = emissions.draw(parameters, draw_categories(shares, rng), rng)
            tables.append(known.decoded(np.where(np.isnan(points), drawn, points)))
        return tables

    def decoded(self, points: Array) -> dict[str, Any]:
        """A matrix of numbers as columns, as `pandas.DataFrame`, `polars.DataFrame` and `pyarrow.table` take them."""
        return decoded(points, self.columns)
