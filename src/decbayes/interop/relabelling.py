"""Draws whose components have switched labels: refused, or relabelled so that all draws agree (Stephens 2000)."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from decbayes.errors import NotConvertible
from decbayes.families import Array
from decbayes.interop.projection import projected
from decbayes.structure import Structure
from decbayes.symmetry import CoupledSet

Orders = NDArray[np.intp]
"""(draws, components): which component of each draw is which."""

ROUNDS = 50
# A sampler in which more of the draws have other labels has switched them; fewer are components that overlap.
SWITCHED = 0.02


def check_labels(structure: Structure, statistics: Mapping[str, Array]) -> None:
    """Refuse draws in which labels have switched."""
    for coupled in structure.symmetry:
        draws, components, _ = statistics[coupled.factors[0]].shape
        own = np.tile(np.arange(components), (draws, 1))
        switched = float((by_density(structure, coupled, statistics, own) != own).any(axis=1).mean())
        if switched > SWITCHED:
            raise NotConvertible(
                f"In {switched:.0%} of the draws the components of {' and '.join(coupled.factors)} have other labels: "
                "the sampler has switched them. align=True relabels each draw so that all agree."
            )


def aligned_draws(structure: Structure, statistics: Mapping[str, Array]) -> dict[str, Orders]:
    """For each factor of a coupled set the order of each draw's components in which all draws agree best.

    In turn the posterior closest to the draws is found, and each draw relabelled so that it is most probable there.
    """
    found: dict[str, Orders] = {}
    for coupled in structure.symmetry:
        orders = by_pivot(coupled, statistics)
        for _ in range(ROUNDS):
            following = by_density(structure, coupled, statistics, orders)
            if (following == orders).all():
                break
            orders = following
        found |= dict.fromkeys(coupled.factors, orders)
    return found


def by_pivot(coupled: CoupledSet, statistics: Mapping[str, Array]) -> Orders:
    """Each draw's components next to those of one draw, the last, in units of the statistics' own deviations."""
    scaled = np.concatenate([standardised(statistics[name]) for name in coupled.factors], axis=2)
    return np.array([assigned(-distances(scaled[-1], draw)) for draw in scaled])


def by_density(structure: Structure, coupled: CoupledSet, statistics: Mapping[str, Array], orders: Orders) -> Orders:
    """Each draw's components where they are most probable, given the posterior closest to draws in these orders."""
    rows, scores = np.arange(len(orders))[:, None], np.zeros((*orders.shape, orders.shape[1]))
    for name in coupled.factors:
        family, own = structure.families[name], statistics[name]
        natural = projected(family, own[rows, orders].mean(axis=0), np.array(structure.prior[name]), name)
        scores += np.einsum("kd,sjd->skj", natural, own) - family.row_terms(natural)[:, None]
    return np.array([assigned(score) for score in scores])


def standardised(statistics: Array) -> Array:
    deviation = statistics.std(axis=(0, 1))
    return np.asarray(statistics / np.where(deviation > 0, deviation, 1.0))


def distances(pivot: Array, draw: Array) -> Array:
    return np.asarray(((pivot[:, None] - draw[None]) ** 2).sum(axis=2))


def assigned(scores: Array) -> NDArray[np.intp]:
    """Which component of a draw goes into each slot."""
    return np.asarray(linear_sum_assignment(scores, maximize=True)[1], dtype=np.intp)
