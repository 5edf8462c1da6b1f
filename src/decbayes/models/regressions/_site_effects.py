"""Coefficients that differ from site to site: each site's own part is integrated out of what the site says.

    f = x (β + u_g),   u_g ~ N(0, diag(Λ)⁻¹) in the entries that vary, zero in all others

Rows of site g say s_g and P_g of β + u_g, as they would of coefficients that all sites share. Of β alone they say

    s_g − P_gV A⁻¹ s_V,   P_g − P_gV A⁻¹ P_Vg,   A = P_VV + Λ,   and u_g | β ~ N(A⁻¹ (s_V − P_Vg β), A⁻¹)

where V are the entries that vary. So u_g stays where the rows are, and β's uncertainty knows of it. With nothing that
varies all this is s_g and P_g themselves.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from decbayes.families import Array


class Moments(NamedTuple):
    """E[τ], E[τβ] and E[τββᵀ]; of coefficients without noise τ is 1."""

    weight: float
    first: Array
    second: Array


@dataclass(frozen=True)
class SiteEffects:
    """What rows of each site say: `shift` s_g (G, D), `precision` P_g (G, D, D); Λ as `prior` (V,)."""

    shift: Array
    precision: Array
    varying: NDArray[np.intp]
    prior: Array

    @cached_property
    def spread(self) -> Array:
        """A⁻¹ of each site, (G, V, V)."""
        own = self.precision[:, self.varying[:, None], self.varying] + np.diag(self.prior)
        return np.asarray(np.linalg.inv(own))

    @cached_property
    def centre(self) -> Array:
        """Of each site the mean of u where β is zero, (G, V)."""
        return np.asarray(np.einsum("gvw,gw->gv", self.spread, self.shift[:, self.varying]))

    @cached_property
    def slope(self) -> Array:
        """What u loses with β, (G, V, D)."""
        return np.asarray(self.spread @ self.precision[:, self.varying])

    def half_way(self, other: "SiteEffects") -> "SiteEffects":
        """Between this and another, in natural parameters."""
        parts = [(self.shift, other.shift), (self.precision, other.precision), (self.prior, other.prior)]
        shift, precision, prior = (0.5 * (one + two) for one, two in parts)
        return SiteEffects(shift, precision, self.varying, prior)

    def hidden(self) -> tuple[Array, Array, float]:
        """What rows would say of β were u zero, and do not say since it is not: of s, of P; and ½ Σ s A⁻¹ s."""
        own = self.shift[:, self.varying]
        shift = np.einsum("gvd,gv->d", self.slope, own)
        precision = np.einsum("gvd,gve->de", self.precision[:, self.varying], self.slope)
        return shift, precision, 0.5 * float(np.sum(own * self.centre))

    def squares(self, moments: Moments) -> Array:
        """E[τu²] of each site, (G, V)."""
        crossed = np.einsum("gvd,d->gv", self.slope, moments.first)
        sloped = np.einsum("gvd,de,gve->gv", self.slope, moments.second, self.slope)
        own = np.diagonal(self.spread, axis1=-2, axis2=-1)
        return np.asarray(own + moments.weight * self.centre**2 - 2.0 * self.centre * crossed + sloped)

    def response(self, moments: Moments) -> tuple[Array, Array]:
        """How −½ Σ_g E[τu²] depends on E[τ], E[τβ] and E[τββᵀ], (V, 1 + D + D²), and on Λ, (V, V)."""
        weight = -0.5 * np.sum(self.centre**2, axis=0)[:, None]
        first = np.einsum("gv,gvd->vd", self.centre, self.slope)
        second = -0.5 * np.einsum("gvd,gve->vde", self.slope, self.slope).reshape(len(weight), -1)
        crossed = np.einsum("gv,gwd,d->gvw", self.centre, self.slope, moments.first)
        means = moments.weight * np.einsum("gv,gw->gvw", self.centre, self.centre) - crossed
        means += np.einsum("gvd,de,gwe->gvw", self.slope, moments.second, self.slope) - np.swapaxes(crossed, -1, -2)
        own = np.sum(0.5 * self.spread**2 + self.spread * means, axis=0)
        return np.concatenate([weight, first, second], axis=1), np.asarray(own)

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
class Rows:
    """Rows and the places of those of each site among them."""

    design: Array
    parts: tuple[Any, ...]

    def told(self, shift: Array, weight: Array) -> tuple[Array, Array]:
        """s_g and P_g, (G, D) and (G, D, D), of rows whose shifts and weights are given."""
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


def rows_by(design: Array, groups: NDArray[np.intp], count: int) -> Rows:
    """Rows of so many sites; `groups` has the number of each row's site."""
    if count == 1:
        return Rows(design, (slice(None),))
    order = np.argsort(groups, kind="stable")
    return Rows(design, tuple(np.split(order, np.searchsorted(groups[order], np.arange(1, count)))) if count else ())


def numbered(sites: Array) -> tuple[NDArray[np.intp], Array]:
    """The place of each row's site among all sites, and these; rows that say nothing are of one site."""
    known, groups = np.unique(sites, return_inverse=True, equal_nan=True)
    return groups.reshape(-1).astype(np.intp), known


def between_contribution(squares: Array) -> Array:
    """(1, 2 V): what sites add to the natural parameters of Λ, (½ per site, −½ E[τu²])."""
    return np.concatenate([np.full(squares.shape[1], 0.5 * len(squares)), -0.5 * squares.sum(axis=0)])[None, :]
