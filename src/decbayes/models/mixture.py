"""Mixtures of any likelihood that has a conjugate family, over points in R^D."""

from abc import abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from decbayes.arguments import check_whole
from decbayes.families import Array
from decbayes.models.clusters import Clusters
from decbayes.models.emissions import Emissions, Part
from decbayes.models.likelihoods import Likelihood
from decbayes.models.points import as_points
from decbayes.structure import Structure


@dataclass(frozen=True)
class Mixture(Clusters):
    """x ~ Σ_k π_k p(x | θ_k), with a Dirichlet prior on π and a conjugate prior on each θ_k.

    A mixture of its own kind says its `likelihood`, its `component_prior` and what of its settings `constants` are. It
    need not say more. `columns` names the dimensions; sites that name them differently do not merge.
    """

    dimension: int = 1
    columns: tuple[str, ...] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole(1, dimension=self.dimension)
        if len(self.columns) not in (0, self.dimension):
            raise ValueError(f"{len(self.columns)} column names for {self.dimension} dimensions.")

    @property
    @abstractmethod
    def likelihood(self) -> Likelihood:
        """How observations depend on a component's parameters."""

    @abstractmethod
    def component_prior(self) -> Array:
        """(1, d): the natural parameters of the prior that all components share."""

    @cached_property
    def emissions(self) -> Emissions:
        places, labels = tuple(range(self.dimension)), tuple(self.columns)
        return Emissions((Part("components", self.likelihood, self.component_prior(), places, labels),))

    def points(self, data: Any, *, unseen: bool = False) -> Array:
        emissions = self.emissions
        points = as_points(data, self.dimension, unseen=unseen or emissions.may_miss)
        emissions.check(points, self.columns)
        return points

    @classmethod
    def settings_of(cls, structure: Structure) -> dict[str, Any]:
        family, width = structure.families["components"], structure.prior["components"].shape[1]
        names = structure.labels.get("components", ())
        return {**super().settings_of(structure), "dimension": family.dimension(width), "columns": names}
