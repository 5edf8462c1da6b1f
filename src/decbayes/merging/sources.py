"""Where solvers get the sites' rows from: memory, or a sequence that loads a posterior when it is asked for."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, overload

from decbayes.families.rows import Rows
from decbayes.merging.columns import same_columns
from decbayes.posterior import Posterior
from decbayes.symmetry import Permutation


def as_sequence(posteriors: Iterable[Posterior]) -> Sequence[Posterior]:
    """The posteriors as a tuple, their columns in one order; a sequence that loads them on access is left as it is."""
    if isinstance(posteriors, Sequence) and not in_memory(posteriors):
        return posteriors
    return same_columns(tuple(posteriors))


def in_memory(posteriors: Sequence[Posterior]) -> bool:
    """Whether the posteriors are all there; other sequences (a `Library`, say) may load them on access."""
    return isinstance(posteriors, list | tuple)


def reordered(posteriors: Sequence[Posterior], order: Sequence[int]) -> Sequence[Posterior]:
    """The posteriors in another order, without loading any."""
    return tuple(posteriors[site] for site in order) if in_memory(posteriors) else Reordered(posteriors, order)


@dataclass(frozen=True)
class Reordered(Sequence[Posterior]):
    """Some posteriors of a sequence, in another order."""

    posteriors: Sequence[Posterior]
    order: Sequence[int]

    def __len__(self) -> int:
        return len(self.order)

    @overload
    def __getitem__(self, index: int) -> Posterior: ...
    @overload
    def __getitem__(self, index: slice) -> "Reordered": ...
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return Reordered(self.posteriors, self.order[index])
        return self.posteriors[self.order[index]]


@dataclass(frozen=True)
class Mapped(Sequence[Posterior]):
    """Posteriors of a sequence, each changed when it is asked for."""

    posteriors: Sequence[Posterior]
    change: Callable[[Posterior], Posterior]

    def __len__(self) -> int:
        return len(self.posteriors)

    @overload
    def __getitem__(self, index: int) -> Posterior: ...
    @overload
    def __getitem__(self, index: slice) -> "Mapped": ...
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return Mapped(self.posteriors[index], self.change)
        return self.change(self.posteriors[index])


@dataclass(frozen=True)
class Contents(Sequence[tuple[Rows, ...]]):
    """Each site's rows in some factors of one coupled set, its components in the given order."""

    posteriors: Sequence[Posterior]
    orders: Sequence[Permutation] | None
    factors: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.posteriors)

    @overload
    def __getitem__(self, index: int) -> tuple[Rows, ...]: ...
    @overload
    def __getitem__(self, index: slice) -> "Contents": ...
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return Contents(self.posteriors[index], self.orders and self.orders[index], self.factors)
        posterior, order = self.posteriors[index], self.orders and self.orders[index]
        families = posterior.structure.families
        return tuple(families[name].rows(posterior.contribution[name], order) for name in self.factors)
