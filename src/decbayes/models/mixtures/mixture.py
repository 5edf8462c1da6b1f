"""Mixtures of any likelihood with a conjugate family, and those over columns of one kind by name."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import numpy as np

from decbayes.base.arguments import Above, check_positive, check_whole, names_of
from decbayes.columns import Column, YesNo
from decbayes.families import Array
from decbayes.inputs.large import read_points
from decbayes.inputs.tables import Report
from decbayes.models.core.dimensions import OfPoints
from decbayes.models.core.model import Columns as Names
from decbayes.models.core.model import ignore, split_names
from decbayes.models.core.persons import EACH, Persons
from decbayes.models.core.points import as_points, named_points, of_own_posterior
from decbayes.models.core.settings import agreed_fields, is_ours
from decbayes.models.likelihoods.discrete import Categories, Counted, YesOrNo
from decbayes.models.likelihoods.emissions import Emissions, Part
from decbayes.models.likelihoods.likelihood import Likelihood
from decbayes.models.likelihoods.point_pass import PointBlocks
from decbayes.models.mixtures.clusters import Clusters
from decbayes.models.mixtures.column_remarks import column_remarks
from decbayes.posterior import Posterior
from decbayes.remarks import Remark
from decbayes.structure import Structure


@dataclass(frozen=True)
class Mixture(Clusters, OfPoints):  # in this order: `Clusters` has an `ascent` of its own
    """x ~ Σ_k π_k p(x | θ_k), with a Dirichlet prior on π and a conjugate prior on each θ_k.

    Your own mixture needs a `likelihood` and a `component_prior`. All its fields, and those of its likelihood, are part
    of what sites agree on.

    `dimension` is the number of columns, by default that of the data; `columns` are their names.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Coins(db.extending.Mixture):
    ...     @property
    ...     def likelihood(self):
    ...         return db.BernoulliMixture(1).likelihood
    ...     def component_prior(self):
    ...         return db.families.Beta().natural(alpha=np.ones((1, self.dimension)), beta=np.ones((1, self.dimension)))
    >>> heads = np.array([[1, 1, 1, 1], [0, 0, 0, 0]] * 20)
    >>> np.sort(Coins(2).fit(heads, rng=0).posterior.mean("components")[:, 0]).round(1)
    array([0., 1.])
    """

    dimension: int = 0
    _: KW_ONLY
    columns: Sequence[str] = ()

    view: ClassVar[str] = "mixture"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole(0, dimension=self.dimension)
        object.__setattr__(self, "columns", names_of(columns=self.columns))
        object.__setattr__(self, "dimension", self.dimension or len(self.columns))
        if len(self.columns) not in (0, self.dimension):
            raise ValueError(f"{len(self.columns)} column names for {self.dimension} dimensions.")

    @property
    @abstractmethod
    def likelihood(self) -> Likelihood:
        """How observations depend on a component's parameters."""

    @abstractmethod
    def component_prior(self) -> Array:
        """(1, d): the natural parameters of the prior that all components share."""

    @property
    def entries(self) -> list[tuple[str, str]]:
        """For each number of a component, its column, and the category if it is a share of one."""
        return [(name, "yes" if self.column.shown_as_share else "") for name in self._names]

    @property
    def _names(self) -> Sequence[str]:
        return self.columns or [f"x{place}" for place in range(self.known_dimension())]

    @cached_property
    def emissions(self) -> Emissions:
        places, labels = tuple(range(self.known_dimension())), tuple(self.columns)
        return Emissions((Part("components", self.likelihood, self.component_prior(), places, labels),))

    def opened(self, data: Any) -> Any:
        """Points, read from a file if a path is given; of a frame, the columns that are called like the model's."""
        return named_points(super().opened(data), self.columns)

    def points(self, data: Any, *, unseen: bool = False) -> Array:
        emissions = self.emissions
        points = as_points(data, self.dimension, unseen=unseen or emissions.may_miss, columns=self.columns)
        emissions.check(points, self.columns)
        return points

    def unplaced(self) -> dict[str, Any]:
        fields = {} if is_ours(type(self)) else agreed_fields(self.likelihood)
        return {**super().unplaced(), **({"likelihood": fields} if fields else {})}

    @classmethod
    def settings_of(cls, structure: Structure) -> dict[str, Any]:
        family, width = structure.families["components"], structure.prior["components"].shape[1]
        names = structure.labels.get("components", ())
        return {**super().settings_of(structure), "dimension": family.dimension(width), "columns": names}


@dataclass(frozen=True, kw_only=True)
class BernoulliMixture(Mixture):
    """Each of D answers is yes with a probability specific to the component; θ ~ Beta(prior, prior).

    `components` is the number of clusters, or "auto"; `dimension` the number of columns, by default that of the data;
    `columns` are their names. `weight_prior` is α of the clusters' weights.

    >>> answers = np.array([[1, 1, 1, 0], [1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 1]] * 10)
    >>> model = db.BernoulliMixture(2)
    >>> posterior = model.fit(answers, rng=0).posterior
    >>> clusters = model.assign(posterior, answers[:4]).argmax(axis=1)
    >>> (clusters == clusters[0]).tolist()
    [True, True, False, False]
    """

    prior: Annotated[float, "α of yes and of no.", Above(0)] = 0.5

    about: ClassVar[str] = "Clusters of yes and no: a mixture of Bernoulli distributions."
    command: ClassVar[str] = "yes-no"
    said_by_options: ClassVar[bool] = True
    points_per_centre: ClassVar[int] = 1000
    column: ClassVar[Column] = YesNo()
    example: ClassVar[str] = "answers.csv --components 4"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(prior=self.prior)

    @property
    def likelihood(self) -> YesOrNo:
        return YesOrNo()

    def component_prior(self) -> Array:
        alpha = np.full((1, self.dimension), float(self.prior))
        return self.likelihood.family.natural(alpha=alpha, beta=alpha)

    @classmethod
    def settings_of(cls, structure: Structure) -> dict[str, Any]:
        return {**super().settings_of(structure), "prior": float(structure.prior["components"][0, 0]) + 1.0}

    @of_own_posterior
    def profile(self, posterior: Posterior) -> Mapping[str, Any]:
        return {"mean": self.likelihood.expected(posterior.natural["components"])}


@dataclass(frozen=True, kw_only=True)
class PoissonMixture(Mixture):
    """Each of D counts has a rate specific to the component; rate ~ Gamma(prior_shape, prior_rate).

    Other settings are as in `BernoulliMixture`.

    >>> visits = np.array([[2, 30], [1, 25], [20, 3], [22, 1]] * 10)
    >>> posterior = db.PoissonMixture(2).fit(visits, rng=0).posterior
    >>> np.sort(posterior.mean("components")[:, 0]).round()
    array([ 2., 21.])
    """

    prior_shape: Annotated[float, "Shape of a rate's Gamma prior.", Above(0)] = 0.5
    prior_rate: Annotated[float, "Rate of a rate's Gamma prior.", Above(0)] = 0.1

    about: ClassVar[str] = "Clusters of counts: a mixture of Poisson distributions."
    command: ClassVar[str] = "counts"
    example: ClassVar[str] = "visits.csv --components 4"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(prior_shape=self.prior_shape, prior_rate=self.prior_rate)

    @property
    def likelihood(self) -> Counted:
        return Counted()

    def component_prior(self) -> Array:
        ones = np.ones((1, self.dimension))
        return self.likelihood.family.natural(shape=self.prior_shape * ones, rate=self.prior_rate * ones)

    def _doubts(self, posterior: Posterior, blocks: PointBlocks) -> tuple[Remark, ...]:
        return column_remarks(blocks, self._names)

    @classmethod
    def settings_of(cls, structure: Structure) -> dict[str, Any]:
        shape, rate = structure.families["components"].parameters(structure.prior["components"][:1]).values()
        return {**super().settings_of(structure), "prior_shape": float(shape[0, 0]), "prior_rate": float(rate[0, 0])}


@dataclass(frozen=True, kw_only=True)
class CategoricalMixture(Mixture):
    """Each of D columns is one of `categories`, counted from 0, with component-specific shares ~ Dirichlet(prior).

    `categories` is one number for all columns, or one per column. Other settings are as in `BernoulliMixture`.

    >>> answers = np.array([[0, 2], [0, 1], [1, 0], [1, 0]] * 10)
    >>> model = db.CategoricalMixture(2, categories=[2, 3])
    >>> posterior = model.fit(answers, rng=0).posterior
    >>> clusters = model.assign(posterior, answers[:4]).argmax(axis=1)
    >>> (clusters == clusters[0]).tolist()
    [True, True, False, False]
    """

    categories: Any = 2
    prior: Annotated[float, "α of each category.", Above(0)] = 0.5

    about: ClassVar[str] = "Clusters of categories, coded as 0, 1, 2, …"
    command: ClassVar[str] = "categories"
    points_per_centre: ClassVar[int] = 1000
    example: ClassVar[str] = "survey.csv --components 4"
    from_data: ClassVar[frozenset[str]] = frozenset({"dimension", "columns", "categories"})

    def __post_init__(self) -> None:
        object.__setattr__(self, "dimension", self.dimension or np.size(self.categories) * np.ndim(self.categories))
        super().__post_init__()
        check_positive(prior=self.prior)
        sizes = np.broadcast_to(np.asarray(self.categories), (self.dimension or 1,)).tolist()
        check_whole(1, **{f"categories[{place}]": size for place, size in enumerate(sizes)})
        object.__setattr__(self, "categories", tuple(sizes) if self.dimension else sizes[0])

    @property
    def likelihood(self) -> Categories:
        return Categories(self.categories)

    def component_prior(self) -> Array:
        return self.likelihood.family.natural(alpha=np.full((1, sum(self.categories)), float(self.prior)))

    @property
    def emissions(self) -> Emissions:
        (part,) = super().emissions.parts
        labels = tuple(f"{name}={category}" for name, category in self.entries) if self.columns else ()
        return Emissions((replace(part, labels=labels),))

    @property
    def entries(self) -> list[tuple[str, str]]:
        pairs = zip(self._names, self.categories, strict=True)
        return [(name, str(category)) for name, size in pairs for category in range(size)]

    def pooled(
        self, data: Any, least: int, least_outcome: int, *, agreed: bool, persons: Persons = EACH
    ) -> tuple[Self, Any, list[str]]:
        """Count rare categories as the most common one, since no other is agreed on."""
        points = self.points(data).copy()
        changed = 0
        for place in range(points.shape[1]):
            categories, times = np.unique(points[~np.isnan(points[:, place]), place], return_counts=True)
            having = np.array([persons.among(points[:, place] == category) for category in categories])
            rare = np.isin(points[:, place], categories[having < least])
            points[rare, place] = categories[times.argmax()] if len(times) else np.nan
            changed += bool(rare.any())
        remark = f"{changed} columns have categories of fewer than {least} persons; the most common counts instead."
        return self, points, [remark] if changed else []

    def constants(self) -> Mapping[str, Any]:
        return {"categories": list(self.categories), "columns": list(self.columns)}

    @classmethod
    def settings_of(cls, structure: Structure) -> dict[str, Any]:
        known, prior = dict(structure.model), float(structure.prior["components"][0, 0]) + 1.0
        settings = {"dimension": len(known["categories"]), "columns": tuple(known["columns"]), "prior": prior}
        return {**super().settings_of(structure), **settings}

    @classmethod
    def from_file(
        cls, path: Path, *, columns: Names = "", report: Report = ignore, **settings: Any
    ) -> tuple[Self, Any]:
        """Categories are numbers from 0; the largest number in a column determines how many it has. For named
        categories, other columns and missing values see `decbayes fit classes`.
        """
        table = read_points(path, split_names(columns))
        sizes = [int(largest) + 1 for largest in np.nanmax(table.values, axis=0)]
        model = cls(**settings, dimension=len(sizes), columns=table.columns, categories=sizes)
        return model, model.points(table.values)
