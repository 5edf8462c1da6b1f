"""Coefficients that vary between sites: each site's deviation u is integrated out of its contribution.

    f = x (β + u_g),   u_g ~ N(0, Λ⁻¹) in the entries that vary, zero in all others

Rows of site g add s_g and P_g to the natural parameters of β + u_g, as if all sites shared them. To those of β alone
they add

    s_g − P_gV A⁻¹ s_V,   P_g − P_gV A⁻¹ P_Vg,   A = P_VV + Λ,   and u_g | β ~ N(A⁻¹ (s_V − P_Vg β), A⁻¹)

where V are the entries that vary. So u_g stays with the rows, and β's uncertainty includes it. If nothing varies, all
this is s_g and P_g themselves. Groups inside a site (wards, clinicians) have deviations beside the site's, which are
integrated out first, in the same way; the rest is what the site has.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from decbayes.families import Array
from decbayes.models.regressions.varying.variation import Grouping

# Relative step of Λ in finite differences.
NUDGE = 1e-4


class Moments(NamedTuple):
    """E[τ], E[τb] and E[τbbᵀ] of coefficients b, for each group or for all; without noise τ is 1."""

    weight: float
    first: Array
    second: Array


@dataclass(frozen=True)
class Level:
    """The groups of one grouping: `shift` s_g (G, D), `precision` P_g (G, D, D); Λ is the `prior` (V, V)."""

    shift: Array
    precision: Array
    varying: NDArray[np.intp]
    prior: Array

    @cached_property
    def spread(self) -> Array:
        """(G, V, V): A⁻¹ of each group."""
        inverse = self.precision[:, self.varying[:, None], self.varying] + self.prior
        return np.asarray(np.linalg.inv(inverse))

    @cached_property
    def centre(self) -> Array:
        """(G, V): the mean of u in each group if β is zero."""
        return np.asarray(np.einsum("gvw,gw->gv", self.spread, self.shift[:, self.varying]))

    @cached_property
    def slope(self) -> Array:
        """(G, V, D): the decrease of the mean of u with β."""
        return np.asarray(self.spread @ self.precision[:, self.varying])

    @cached_property
    def reduced(self) -> tuple[Array, Array]:
        """(G, D) and (G, D, D): the information of rows about β once u is integrated out."""
        shift = self.shift - np.einsum("gvd,gv->gd", self.slope, self.shift[:, self.varying])
        hidden = np.einsum("gvd,gve->gde", self.precision[:, self.varying], self.slope)
        return shift, self.precision - hidden

    @property
    def square(self) -> float:
        """½ Σ s A⁻¹ s: the part of the rows' squares that u explains."""
        return 0.5 * float(np.sum(self.shift[:, self.varying] * self.centre))

    def squares(self, moments: Moments) -> Array:
        """(G, V, V): E[τuuᵀ] of each group."""
        crossed = np.einsum("gvd,gd,gw->gvw", self.slope, moments.first, self.centre)
        sloped = np.einsum("gvd,gde,gwe->gvw", self.slope, moments.second, self.slope, optimize=True)
        centred = moments.weight * self.centre[:, :, None] * self.centre[:, None, :]
        return np.asarray(self.spread + centred - crossed - np.swapaxes(crossed, -1, -2) + sloped)

    @cached_property
    def moved(self) -> Array:
        """(G, D, D): the coefficient of β in the mean of β + u."""
        side = self.shift.shape[1]
        moved = np.broadcast_to(np.eye(side), (len(self.shift), side, side)).copy()
        moved[:, self.varying] -= self.slope
        return moved

    def inside(self, moments: Moments) -> Moments:
        """The moments of β + u in each group."""
        centre = np.zeros_like(self.shift)
        centre[:, self.varying] = self.centre
        along = np.einsum("gde,ge->gd", self.moved, moments.first)
        crossed = along[:, :, None] * centre[:, None, :]
        second = self.moved @ moments.second @ np.swapaxes(self.moved, -1, -2) + crossed
        second += np.swapaxes(crossed, -1, -2) + moments.weight * centre[:, :, None] * centre[:, None, :]
        second[:, self.varying[:, None], self.varying] += self.spread
        return Moments(moments.weight, along + moments.weight * centre, second)

    def coefficients(self, means: Array, covariances: Array) -> tuple[Array, Array]:
        """(G, D) and (G, D, D): mean and covariance of β + u in each group, given those of β."""
        inside = (self.moved @ means[..., None])[..., 0]
        wider = self.moved @ covariances @ np.swapaxes(self.moved, -1, -2)
        inside[:, self.varying] += self.centre
        wider[:, self.varying[:, None], self.varying] += self.spread
        return inside, wider

    def entropy(self) -> float:
        """The entropy of all u given β, without ½ log 2π per entry."""
        return 0.5 * float(np.linalg.slogdet(self.spread)[1].sum()) + 0.5 * self.centre.size


@dataclass(frozen=True)
class SiteEffects:
    """Deviations of all sites, and of the groups inside them if any.

    `shift` and `precision` are the sums of the finest groups of rows, `parents` the sites of these groups, `priors` the
    Λ of each grouping, the sites' first.
    """

    shift: Array
    precision: Array
    groupings: tuple[Grouping, ...]
    priors: tuple[Array, ...]
    parents: NDArray[np.intp]

    @cached_property
    def inner(self) -> Level | None:
        if len(self.groupings) < 2:
            return None
        return Level(self.shift, self.precision, self.groupings[1].places, self.priors[1])

    @cached_property
    def outer(self) -> Level:
        shift, precision = (self.shift, self.precision) if self.inner is None else self.inner.reduced
        if self.inner is not None:
            sites = int(self.parents.max(initial=-1)) + 1
            shift, precision = (summed_by(part, self.parents, sites) for part in (shift, precision))
        places = self.groupings[0].places if self.groupings else np.zeros(0, dtype=np.intp)
        prior = self.priors[0] if self.priors else np.zeros((0, 0))
        return Level(shift, precision, places, prior)

    def half_way(self, other: "SiteEffects") -> "SiteEffects":
        """The midpoint to another, in natural parameters."""
        shift, precision = 0.5 * (self.shift + other.shift), 0.5 * (self.precision + other.precision)
        priors = tuple(0.5 * (one + two) for one, two in zip(self.priors, other.priors, strict=True))
        return replace(self, shift=shift, precision=precision, priors=priors)

    def hidden(self) -> tuple[Array, Array, float]:
        """Information about β lost by integrating out u: its part of Σ s_g, of Σ P_g; and ½ Σ s A⁻¹ s."""
        if not self.groupings:
            return np.zeros(self.shift.shape[1:]), np.zeros(self.precision.shape[1:]), 0.0
        shift, precision = self.outer.reduced
        square = self.outer.square + (0.0 if self.inner is None else self.inner.square)
        return self.shift.sum(axis=0) - shift.sum(axis=0), self.precision.sum(axis=0) - precision.sum(axis=0), square

    def squares(self, moments: Moments) -> tuple[Array, ...]:
        """(G, V, V): E[τuuᵀ] of each group of each grouping."""
        outside = of_groups(moments, len(self.outer.shift))
        of_sites = self.outer.squares(outside)
        if self.inner is None:
            return (of_sites,)
        within = self.outer.inside(outside)
        of_parents = Moments(within.weight, within.first[self.parents], within.second[self.parents])
        return of_sites, self.inner.squares(of_parents)

    def coefficients(self, mean: Array, covariance: Array) -> tuple[Array, Array]:
        """(G, D) and (G, D, D): mean and covariance of the coefficients of each finest group, given those of β."""
        if not self.groupings:
            return np.tile(mean, (len(self.shift), 1)), np.tile(covariance, (len(self.shift), 1, 1))
        means, covariances = self.outer.coefficients(mean, covariance)
        if self.inner is None:
            return means, covariances
        return self.inner.coefficients(means[self.parents], covariances[self.parents])

    def entropy(self) -> float:
        return self.outer.entropy() + (0.0 if self.inner is None else self.inner.entropy())

    def log_spread(self) -> float:
        """Σ log|A⁻¹| of all groups."""
        levels = [self.outer, *([] if self.inner is None else [self.inner])]
        return float(sum(np.linalg.slogdet(level.spread)[1].sum() for level in levels))

    def log_odds(self) -> float:
        """½ Σ (log|Λ| + log|A⁻¹|) over all groups: the cost of integrating u out."""
        counts = len(self.outer.shift), len(self.shift)
        priors = [count * np.linalg.slogdet(prior)[1] for count, prior in zip(counts, self.priors, strict=False)]
        return 0.5 * (float(sum(priors)) + self.log_spread())

    def response(self, moments: Moments) -> tuple[list[Array], list[Array]]:
        """Derivatives of −½ Σ_g E[τuuᵀ] of each grouping by E[τ], E[τb], E[τbbᵀ], (V, 1 + D + D²), and by Λ of all."""
        side = self.shift.shape[1]
        units = np.eye(1 + side + side * side)
        nothing = self._statistics(Moments(0.0, np.zeros(side), np.zeros((side, side))))
        parts = [Moments(unit[0], unit[1 : 1 + side], unit[1 + side :].reshape(side, side)) for unit in units]
        linear = [self._statistics(Moments(weight, first, symmetrised(second))) for weight, first, second in parts]
        crossed = [
            np.stack([statistics[place] - nothing[place] for statistics in linear], axis=1)
            for place in range(len(nothing))
        ]
        steps = []
        for place, grouping in enumerate(self.groupings):
            size = NUDGE * float(np.abs(self.priors[place]).max())
            for direction in grouping.directions():
                ahead, behind = (
                    self.at(place, self.priors[place] + sign * size * direction)._statistics(moments)
                    for sign in (1.0, -1.0)
                )
                steps.append([(one - other) / (2.0 * size) for one, other in zip(ahead, behind, strict=True)])
        between = [np.stack([step[place] for step in steps], axis=1) for place in range(len(self.groupings))]
        return crossed, between

    def at(self, place: int, prior: Array) -> "SiteEffects":
        """The same rows with another Λ for one grouping."""
        return replace(self, priors=tuple(prior if at == place else other for at, other in enumerate(self.priors)))

    def _statistics(self, moments: Moments) -> list[Array]:
        pairs = zip(self.groupings, self.squares(moments), strict=True)
        return [grouping.entries(-0.5 * squares.sum(axis=0)) for grouping, squares in pairs]


def of_groups(moments: Moments, count: int) -> Moments:
    """The same moments for each group."""
    side = moments.first.shape[-1]
    return Moments(
        moments.weight,
        np.broadcast_to(moments.first, (count, side)),
        np.broadcast_to(moments.second, (count, side, side)),
    )


def symmetrised(matrix: Array) -> Array:
    return 0.5 * (matrix + matrix.T)


def summed_by(parts: Array, parents: NDArray[np.intp], count: int) -> Array:
    """Sums over the groups of each of `count` sites."""
    summed = np.zeros((count, *parts.shape[1:]))
    np.add.at(summed, parents, parts)
    return summed


@dataclass(frozen=True)
class SiteRows:
    """Rows, and the places of each group's rows among them."""

    design: Array
    parts: tuple[Any, ...]

    def sums(self, shift: Array, weight: Array) -> tuple[Array, Array]:
        """s_g and P_g, (G, D) and (G, D, D), given the shift and the weight of each row."""
        side = self.design.shape[1]
        shifts = [self.design[part].T @ shift[part] for part in self.parts]
        precisions = [self.design[part].T @ (weight[part, None] * self.design[part]) for part in self.parts]
        return np.reshape(shifts, (len(self.parts), side)), np.reshape(precisions, (len(self.parts), side, side))

    def linear(self, means: Array, covariances: Array) -> tuple[Array, Array]:
        """Mean and variance of f in each row, given the coefficients of each group."""
        mean, variance = np.zeros(len(self.design)), np.zeros(len(self.design))
        for part, centre, covariance in zip(self.parts, means, covariances, strict=True):
            rows = self.design[part]
            mean[part], variance[part] = rows @ centre, np.einsum("nd,nd->n", rows @ covariance, rows)
        return mean, variance


def rows_by(design: Array, groups: NDArray[np.intp], count: int) -> SiteRows:
    """Rows of `count` groups; `groups` has the number of each row's group."""
    if count == 1:
        return SiteRows(design, (slice(None),))
    order = np.argsort(groups, kind="stable")
    parts = np.split(order, np.searchsorted(groups[order], np.arange(1, count))) if count else ()
    return SiteRows(design, tuple(parts))


class Groups(NamedTuple):
    """The finest group of each row, the site of each group, and the numbers of both.

    Rows that do not name their site, or their group inside it, share one.
    """

    rows: NDArray[np.intp]
    parents: NDArray[np.intp]
    sites: Array
    numbers: Array


def groups_of(names: Array) -> Groups:
    """The groups of rows, given (N, 1) numbers of sites, or (N, 2) numbers of sites and of groups inside them."""
    sites, of_site = np.unique(names[:, 0], return_inverse=True)
    of_site = of_site.reshape(-1).astype(np.intp)
    if names.shape[1] == 1:
        return Groups(of_site, np.arange(len(sites)), sites, sites)
    inside, of_group = np.unique(names[:, 1], return_inverse=True)
    pairs, rows = np.unique(of_site * (len(inside) + 1) + of_group.reshape(-1), return_inverse=True)
    parents = (pairs // (len(inside) + 1)).astype(np.intp)
    return Groups(rows.reshape(-1).astype(np.intp), parents, sites, inside[pairs % (len(inside) + 1)])


def places_among(names: Sequence[Array], known: Sequence[Array]) -> NDArray[np.intp]:
    """The position of each row's names among the known ones, column by column; the end if unknown."""
    places = np.full(len(names[0]), len(known[0]), dtype=np.intp)
    for place in range(len(known[0])):
        alike = [same(column, number[place]) for column, number in zip(names, known, strict=True)]
        places[np.all(alike, axis=0)] = place
    return places


def same(numbers: Array, number: float) -> NDArray[np.bool_]:
    return np.asarray(np.isnan(numbers) if np.isnan(number) else numbers == number)
