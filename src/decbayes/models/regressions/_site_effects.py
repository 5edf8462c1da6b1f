"""Coefficients that differ from site to site: each site's own part u is integrated out of its contribution.

    f = x (β + u_g),   u_g ~ N(0, diag(Λ)⁻¹) in the entries that vary, zero in all others

Rows of site g add s_g and P_g to the natural parameters of β + u_g, as if all sites shared them. To those of β alone
they add

    s_g − P_gV A⁻¹ s_V,   P_g − P_gV A⁻¹ P_Vg,   A = P_VV + Λ,   and u_g | β ~ N(A⁻¹ (s_V − P_Vg β), A⁻¹)

where V are the entries that vary. So u_g stays where the rows are, and β's uncertainty includes it. If nothing varies
all this is s_g and P_g themselves.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from decbayes.families import Array, Gamma

BETWEEN = "variation"
"""The factor of Λ."""


class Moments(NamedTuple):
    """E[τ], E[τβ] and E[τββᵀ]; without noise τ is 1."""

    weight: float
    first: Array
    second: Array


@dataclass(frozen=True)
class SiteEffects:
    """The sums of each site: `shift` s_g (G, D), `precision` P_g (G, D, D); Λ is the `prior` (V,)."""

    shift: Array
    precision: Array
    varying: NDArray[np.intp]
    prior: Array

    @cached_property
    def spread(self) -> Array:
        """A⁻¹ of each site, (G, V, V)."""
        inverse = self.precision[:, self.varying[:, None], self.varying] + np.diag(self.prior)
        return np.asarray(np.linalg.inv(inverse))

    @cached_property
    def centre(self) -> Array:
        """The mean of u at each site if β is zero, (G, V)."""
        return np.asarray(np.einsum("gvw,gw->gv", self.spread, self.shift[:, self.varying]))

    @cached_property
    def slope(self) -> Array:
        """How fast the mean of u falls with β, (G, V, D)."""
        return np.asarray(self.spread @ self.precision[:, self.varying])

    def half_way(self, other: "SiteEffects") -> "SiteEffects":
        """Between this and another, in natural parameters."""
        parts = [(self.shift, other.shift), (self.precision, other.precision), (self.prior, other.prior)]
        shift, precision, prior = (0.5 * (one + two) for one, two in parts)
        return SiteEffects(shift, precision, self.varying, prior)

    def hidden(self) -> tuple[Array, Array, float]:
        """Information about β lost by integrating out u: its part of Σ s_g, of Σ P_g; and ½ Σ s A⁻¹ s."""
        varying = self.shift[:, self.varying]
        shift = np.einsum("gvd,gv->d", self.slope, varying)
        precision = np.einsum("gvd,gve->de", self.precision[:, self.varying], self.slope)
        return shift, precision, 0.5 * float(np.sum(varying * self.centre))

    def squares(self, moments: Moments) -> Array:
        """E[τu²] of each site, (G, V)."""
        crossed = np.einsum("gvd,d->gv", self.slope, moments.first)
        sloped = np.einsum("gvd,de,gve->gv", self.slope, moments.second, self.slope)
        variance = np.diagonal(self.spread, axis1=-2, axis2=-1)
        return np.asarray(variance + moments.weight * self.centre**2 - 2.0 * self.centre * crossed + sloped)

    def response(self, moments: Moments) -> tuple[Array, Array]:
        """How −½ Σ_g E[τu²] depends on E[τ], E[τβ] and E[τββᵀ], (V, 1 + D + D²), and on Λ, (V, V)."""
        weight = -0.5 * np.sum(self.centre**2, axis=0)[:, None]
        first = np.einsum("gv,gvd->vd", self.centre, self.slope)
        second = -0.5 * np.einsum("gvd,gve->vde", self.slope, self.slope).reshape(len(weight), -1)
        crossed = np.einsum("gv,gwd,d->gvw", self.centre, self.slope, moments.first)
        means = moments.weight * np.einsum("gv,gw->gvw", self.centre, self.centre) - crossed
        means += np.einsum("gvd,de,gwe->gvw", self.slope, moments.second, self.slope) - np.swapaxes(crossed, -1, -2)
        precisions = np.sum(0.5 * self.spread**2 + self.spread * means, axis=0)
        return np.concatenate([weight, first, second], axis=1), np.asarray(precisions)

    def coefficients(self, mean: Array, covariance: Array) -> tuple[Array, Array]:
        """Mean and covariance of β + u at each site, (G, D) and (G, D, D), where β has these."""
        moved = np.broadcast_to(np.eye(len(mean)), (len(self.shift), len(mean), len(mean))).copy()
        moved[:, self.varying] -= self.slope
        means, covariances = moved @ mean, moved @ covariance @ np.swapaxes(moved, -1, -2)
        means[:, self.varying] += self.centre
        covariances[:, self.varying[:, None], self.varying] += self.spread
        return means, covariances

    def entropy(self) -> float:
        """Of all u given β, without ½ log 2π per entry."""
        return 0.5 * float(np.linalg.slogdet(self.spread)[1].sum()) + 0.5 * self.centre.size


@dataclass(frozen=True)
class SiteRows:
    """Rows, and the places of each site's rows among them."""

    design: Array
    parts: tuple[Any, ...]

    def sums(self, shift: Array, weight: Array) -> tuple[Array, Array]:
        """s_g and P_g, (G, D) and (G, D, D), given the shift and the weight of each row."""
        side = self.design.shape[1]
        shifts = [self.design[part].T @ shift[part] for part in self.parts]
        precisions = [self.design[part].T @ (weight[part, None] * self.design[part]) for part in self.parts]
        return np.reshape(shifts, (len(self.parts), side)), np.reshape(precisions, (len(self.parts), side, side))

    def linear(self, means: Array, covariances: Array) -> tuple[Array, Array]:
        """Mean and variance of f in each row, where each site has coefficients of its own."""
        mean, variance = np.zeros(len(self.design)), np.zeros(len(self.design))
        for part, centre, covariance in zip(self.parts, means, covariances, strict=True):
            rows = self.design[part]
            mean[part], variance[part] = rows @ centre, np.einsum("nd,nd->n", rows @ covariance, rows)
        return mean, variance


def rows_by(design: Array, groups: NDArray[np.intp], count: int) -> SiteRows:
    """Rows of `count` sites; `groups` has the number of each row's site."""
    if count == 1:
        return SiteRows(design, (slice(None),))
    order = np.argsort(groups, kind="stable")
    parts = np.split(order, np.searchsorted(groups[order], np.arange(1, count))) if count else ()
    return SiteRows(design, tuple(parts))


def numbered(sites: Array) -> tuple[NDArray[np.intp], Array]:
    """The place of each row's site among all sites, and these; rows that do not name their site share one."""
    known, groups = np.unique(sites, return_inverse=True, equal_nan=True)
    return groups.reshape(-1).astype(np.intp), known


def places_among(sites: Array, numbers: Array) -> NDArray[np.intp]:
    """Where each row's site is among those with these numbers; behind all of them if it is none."""
    places = np.full(len(sites), len(numbers), dtype=np.intp)
    for place, number in enumerate(numbers):
        places[np.isnan(sites) if np.isnan(number) else sites == number] = place
    return places


@dataclass(frozen=True)
class Variation:
    """Which coefficients differ from site to site, and how far: what the posterior of Λ implies."""

    places: NDArray[np.intp]
    there: bool

    def precisions(self, natural: Mapping[str, Array]) -> Array:
        """(V,): E[Λ] of each coefficient that varies."""
        return Gamma().expected(natural[BETWEEN])[0] if self.there else np.zeros(0)

    def variances(self, natural: Mapping[str, Array]) -> Array:
        """(V,): E[1 / Λ] of each coefficient that varies, or where that is infinite, something large."""
        if not self.there:
            return np.zeros(0)
        shape, rate = Gamma().columns(natural[BETWEEN][0])
        return np.asarray(rate / np.maximum(shape - 1.0, 0.5))

    def updated(self, before: Mapping[str, Array], squares: Array) -> dict[str, Array]:
        """Λ given E[τu²] of each site: (½ per site, −½ E[τu²]) is added to the natural parameters."""
        sums = np.concatenate([np.full(squares.shape[1], 0.5 * len(squares)), -0.5 * squares.sum(axis=0)])
        return {BETWEEN: before[BETWEEN] + sums[None, :]}

    def widening(self, natural: Mapping[str, Array], contribution: Array, covariance: Array) -> Array:
        """(D,): how many times wider coefficients are since Λ is uncertain; 1 where nothing varies.

        With Λ known at its mean, the own parts of G sites leave their mean with a variance of 1 / (E[Λ] G); over all
        values of Λ it is E[1 / Λ] / G.
        """
        wider = np.ones(len(covariance))
        if self.there:
            shape, rate = Gamma().columns(natural[BETWEEN][0])
            sites = 2.0 * contribution[0, : len(shape)]
            uncertain = np.where(sites > 1.0, self.variances(natural) - rate / shape, 0.0) / np.maximum(sites, 1.0)
            wider[self.places] = np.sqrt(1.0 + uncertain / np.diag(covariance)[self.places])
        return wider


def deviation_between(shape: Array, rate: Array) -> tuple[Array, Array]:
    """Mean and standard deviation of 1 / √Λ where Λ is Gamma; infinite where there is none."""
    few = np.where(shape > 0.5, shape, np.nan)
    mean = np.sqrt(rate) * np.exp(gammaln(few - 0.5) - gammaln(few))
    variance = rate / np.where(shape > 1.0, shape - 1.0, np.nan) - mean**2
    return np.nan_to_num(mean, nan=np.inf), np.nan_to_num(np.sqrt(variance), nan=np.inf)
