"""Epochs: the merged posterior of earlier data becomes the prior of new data, and what it holds never counts again."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

from decbayes.merging import product
from decbayes.posterior import Posterior
from decbayes.structure import Structure


@dataclass(frozen=True)
class Epoch:
    """A prior made of earlier contributions, and the shards of each member that are in it."""

    prior: Posterior
    counted: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        counted = {name: tuple(sorted(set(shards))) for name, shards in sorted(self.counted.items())}
        object.__setattr__(self, "counted", MappingProxyType(counted))

    @cached_property
    def structure(self) -> Structure:
        """The model's structure on this prior: contributions of the epoch are counted from here."""
        return self.prior.structure.with_prior(self.prior.natural)

    def whole(self, posterior: Posterior) -> Posterior:
        """The posterior of the epoch's data and all before it, as the model knows it."""
        return product([self.prior, Posterior(self.prior.structure, dict(posterior.contribution))])

    def part(self, posterior: Posterior) -> Posterior:
        """What a whole posterior holds beyond the epoch's prior."""
        added = {name: c - self.prior.contribution[name] for name, c in posterior.contribution.items()}
        return Posterior(self.structure, added)
