"""The emissions of a component: one likelihood, or several side by side with a factor each."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decbayes.errors import CannotDraw, InvalidData
from decbayes.families import Array, Contribution, Family, Weights, dense
from decbayes.models.core.information import Tally
from decbayes.models.core.points import check_rounding
from decbayes.models.core.settings import is_ours
from decbayes.models.likelihoods.columnwise import Columnwise
from decbayes.models.likelihoods.gaps import observed_shares
from decbayes.models.likelihoods.likelihood import Likelihood, check_likelihood, counts_of, largest_contribution

Natural = dict[str, Array]
Observed = Callable[[Array], NDArray[np.bool_]]
"""Which values are there, given the probability of each."""


@dataclass(frozen=True)
class Part:
    """One factor: its likelihood, the prior shared by all components, (1, d), and its columns of the data."""

    name: str
    likelihood: Likelihood
    prior: Array
    places: tuple[int, ...]
    labels: tuple[str, ...] = ()

    def of(self, points: Array) -> Array:
        """The columns of this part; all of them if it is the only one."""
        return points if len(self.places) == points.shape[1] else points[:, self.places]

    def seeing(self, points: Array) -> "Part":
        """The same part, for points with these gaps."""
        if not isinstance(self.likelihood, Columnwise):
            return self
        return replace(self, likelihood=self.likelihood.seeing(self.of(points)))


@dataclass(frozen=True)
class Emissions:
    """Parts that are independent given the component; features and sums are concatenated blocks, one per part."""

    parts: tuple[Part, ...]

    @property
    def families(self) -> dict[str, Family]:
        return {part.name: part.likelihood.family for part in self.parts}

    @property
    def labels(self) -> dict[str, tuple[str, ...]]:
        return {part.name: part.labels for part in self.parts if part.labels}

    @property
    def may_miss(self) -> bool:
        """Whether values may be missing."""
        return all(isinstance(part.likelihood, Columnwise) for part in self.parts)

    def prior(self, components: int) -> Natural:
        return {part.name: np.tile(part.prior, (components, 1)) for part in self.parts}

    def seeing(self, points: Array) -> "Emissions":
        """The same emissions, for points with these gaps."""
        return Emissions(tuple(part.seeing(points) for part in self.parts))

    def check(self, points: Array, names: Sequence[str] = ()) -> None:
        """Refuse values that a column cannot hold."""
        for part in self.parts:
            if isinstance(part.likelihood, Columnwise):
                check_columns(part.likelihood, part.of(points), [column_name(names, place) for place in part.places])
            elif not is_ours(type(part.likelihood)) and len(points):
                check_likelihood(part.likelihood, part.prior, part.of(points)[:1])

    def features(self, points: Array) -> Array:
        """(N, p): the features of all parts; the last one is 1."""
        blocks = [part.likelihood.features(part.of(points)) for part in self.parts]
        return blocks[0] if len(blocks) == 1 else np.column_stack(blocks)

    def coefficients(self, natural: Mapping[str, Array]) -> Array:
        """(p, K): features times these are E[log p(x | θ_k)]."""
        blocks = [part.likelihood.coefficients(natural[part.name]) for part in self.parts]
        for block in blocks:
            # The constant (for a Gaussian, half the squared distance of a component from zero in its own standard
            # deviations) may be large; scores of a component's points are small only because other terms cancel it.
            check_rounding(float(np.abs(block[-1]).max()))
        return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)

    def plus(self, natural: Mapping[str, Array], sums: Array) -> Natural:
        """Natural parameters plus the evidence in sums of features, (K, p)."""
        added = {name: natural[name] + evidence for name, evidence in self.contributions(sums).items()}
        for name, family in self.families.items():
            # Parameters outside the domain have lost all digits to rounding.
            check_rounding(0.0 if family.contains(added[name]) else np.inf)
        return added

    def contributions(self, sums: Array) -> Natural:
        """(K, d) per part: the evidence in sums of features, (K, p)."""
        return {
            part.name: part.likelihood.contribution(sums[:, span])
            for part, span in zip(self.parts, self._spans, strict=True)
        }

    def added(self) -> Natural:
        """(p, d) per part: what one unit of each feature adds to the natural parameters."""
        return self.contributions(np.eye(self._spans[-1].stop))

    def tally(self, counts: Array, contribution: Mapping[str, Contribution]) -> Tally:
        """Check the parts against the components' numbers of observations; some values may be missing."""
        within, differences = Natural(), Natural()
        for part in self.parts:
            statistics = dense(contribution[part.name])
            if isinstance(part.likelihood, Columnwise):
                within[part.name] = part.likelihood.counts(statistics)
            else:
                differences[part.name] = counts_of(part.likelihood, statistics, len(part.places)) - counts[:, None]
        return Tally(counts.sum(), counts, differences, within=within)

    def largest_contribution(self, value: float) -> Natural:
        """The most that one observation adds to each column of a part, if all its numbers are within ±`value`."""
        return {
            part.name: largest_contribution(part.likelihood, value, len(part.places))
            for part in self.parts
            if getattr(part.likelihood, "numeric", True)
        }

    def log_predictive(self, natural: Mapping[str, Array], points: Array) -> Array:
        """(N, K): log ∫ p(x_n | θ_k) q(θ_k) dθ_k; NaN values are missing."""
        parts = [part.likelihood.log_predictive(natural[part.name], part.of(points)) for part in self.parts]
        return np.asarray(sum(parts))

    def draw(self, parameters: Mapping[str, Any], components: NDArray[np.intp], rng: np.random.Generator) -> Array:
        """(N, D): one observation from each of these components."""
        points = np.empty((len(components), sum(len(part.places) for part in self.parts)))
        for part in self.parts:
            draw = getattr(part.likelihood, "draw", None)
            if draw is None:
                raise CannotDraw(f"{type(part.likelihood).__name__} does not say how to `draw` observations.")
            points[:, part.places] = draw(parameters[part.name], components, rng)
        return points

    def with_gaps(self, points: Array, components: NDArray[np.intp], tally: Tally, observed: Observed) -> Array:
        """Points of these components, with as many missing values as the contribution behind a tally."""
        columns, counts = np.zeros(points.shape[1], dtype=np.intp), np.empty((len(tally.parts), 0))
        for part in self.parts:
            if not isinstance(part.likelihood, Columnwise):
                return points
            # Columns that are missing together share one draw.
            own = np.zeros(len(part.places), np.intp) if part.likelihood.together else np.arange(len(part.places))
            columns[list(part.places)] = counts.shape[1] + own
            counts = np.hstack([counts, tally.within[part.name][:, : own[-1] + 1]])
        shares = observed_shares(counts, tally.parts)
        if (shares == 1.0).all():
            return points
        return np.where(observed(shares[components])[:, columns], points, np.nan)

    def embedded(self, points: Array) -> Array:
        """(N, q): the points as coordinates, whatever the kinds of columns."""
        parts = [embedded(part.likelihood, part.of(points)) for part in self.parts]
        return parts[0] if len(parts) == 1 else np.column_stack(parts)

    @cached_property
    def _spans(self) -> list[slice]:
        """The positions of each part's features."""
        widths = [part.likelihood.features(np.zeros((1, len(part.places)))).shape[1] for part in self.parts]
        return [slice(first, last) for first, last in pairwise([0, *accumulate(widths)])]


class Reference:
    """A prior to compare many posteriors with."""

    def __init__(self, families: Mapping[str, Family], natural: Mapping[str, Array]) -> None:
        self.families, self.natural = families, natural
        self._height = sum(family.log_partition(natural[name]) for name, family in families.items())

    def divergence(self, natural: Mapping[str, Array]) -> float:
        """Σ KL(q_λ ‖ prior) = Σ A(λ0) − A(λ) − ⟨λ0 − λ, ∇A(λ)⟩ over the factors."""
        total = self._height
        for name, family in self.families.items():
            step = self.natural[name] - natural[name]
            total -= family.log_partition(natural[name]) + float(
                np.vdot(step, family.expected_statistics(natural[name]))
            )
        return total


def coefficients(emissions: Emissions, natural: Mapping[str, Array]) -> Array:
    """(p, K): features times these are E[log π_k] + E[log p(x | θ_k)]; the last feature is 1."""
    slopes = emissions.coefficients(natural)
    slopes[-1] += Weights().expected_statistics(natural["weights"])[:, 0]
    return slopes


def plus(emissions: Emissions, natural: Mapping[str, Array], sums: Array) -> Natural:
    """Natural parameters plus the contribution of some points."""
    return {"weights": natural["weights"] + sums[:, -1:], **emissions.plus(natural, sums)}


def embedded(likelihood: Likelihood, points: Array) -> Array:
    return likelihood.embedded(points) if isinstance(likelihood, Columnwise) else points


def check_columns(likelihood: Columnwise, points: Array, names: Sequence[str]) -> None:
    wrong = likelihood.outside(points)
    for place in np.flatnonzero(wrong.any(axis=0))[:1]:
        rows = np.flatnonzero(wrong[:, place])
        raise InvalidData(
            f"Column {names[place]} must hold {likelihood.expects}; {len(rows):,} of {len(points):,} values do not, "
            f"the first in observation {rows[0]}."
        )


def column_name(names: Sequence[str], place: int) -> str:
    return f"'{names[place]}'" if names else f"number {place}"
