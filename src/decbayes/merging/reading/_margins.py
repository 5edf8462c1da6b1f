"""Margins of single matches: the loss in the objective if a component must go elsewhere."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from decbayes.base.arguments import check_kind
from decbayes.families import Array
from decbayes.families.matrices import Indices
from decbayes.families.rows import Rows
from decbayes.merging.alignment import Alignment
from decbayes.merging.base.components import Components, prior_components
from decbayes.merging.base.problem import Assignments, Problem, best_permutation
from decbayes.merging.grouping.search import SlotSearch
from decbayes.merging.matching.placement import Placement
from decbayes.merging.matching.quadratic import Chains
from decbayes.structure import CoupledSet, Permutation, identity, inverse

Losses = Callable[[int, NDArray[np.bool_]], Array]
"""The loss of each slot of a site if its component must go elsewhere, given the slots that are alike."""

CLOSE = 3.0  # nats of the objective: matches with a smaller margin should be checked


BySite = tuple[Mapping[CoupledSet, Array], ...]
"""Per posterior and coupled set: one number per component."""


def margins(alignment: Alignment) -> BySite:
    """How clear each match is: the loss in the objective when a component must go into another slot.

    All other posteriors stay in place. Zero means that the next best slot is as good; infinity, that there is no other.
    The objective is J if each site fills each slot once, otherwise that of `Grouping`; empty slots do not count. If a
    site has more than six states of sequences, only exchanges of two are tried, and its margins may be too large. A
    margin is not a probability: how certain a match is also depends on how good the sites' posteriors are. See
    `confidence` for a probability.

    Returns:
        `[i][coupled][k]`: the nats lost by component k of posterior i.

    >>> (db.merging.margins(alignment)[0][coupled] > 10.0).tolist()
    [True, True]
    """
    return by_site(alignment, component_margins)


def losses(alignment: Alignment) -> BySite:
    """How badly components fit their slots: the loss of each from sharing its slot, in nats.

    Part of this is noise; components that belong elsewhere, or nowhere, lose far more.

    Returns:
        `[i][coupled][k]`: the nats lost by component k of posterior i.

    >>> bool((db.merging.losses(alignment)[0][coupled] < 1.0).all())
    True
    """
    return by_site(alignment, component_losses)


def by_site(alignment: Alignment, values: Callable[[Problem, Sequence[Indices]], list[Array]]) -> BySite:
    """The values of all coupled sets' components, posterior by posterior."""
    check_kind(Alignment, alignment=alignment)
    sets = alignment.structure.symmetry
    columns = [values(alignment.problem(coupled), alignment.slots(coupled)) for coupled in sets]
    return tuple(
        {coupled: column[site] for coupled, column in zip(sets, columns, strict=True)}
        for site in range(len(alignment.posteriors))
    )


def component_margins(problem: Problem, slots: Sequence[Indices]) -> list[Array]:
    """Per site and component: the loss in the next best slot."""
    complete = all(len(site_slots) == problem.components == len(np.unique(site_slots)) for site_slots in slots)
    return matched_margins(problem, slots) if complete else grouped_margins(problem, slots)


def matched_margins(problem: Problem, slots: Sequence[Indices]) -> list[Array]:
    """For sites that fill each slot once: the loss in J if a match is forbidden and the next best is taken."""
    permutations = np.array([inverse(order) for order in slots])
    filled = np.array([touched(rows)[order] for rows, order in zip(problem.contents, permutations, strict=True)])
    losses = chain_losses(problem, permutations) if problem.two_sided else plain_losses(problem, permutations)
    margins = []
    for site, order in enumerate(filled):
        vacant = (filled.sum(axis=0) == order) & problem.exchangeable
        margins.append(losses(site, vacant)[slots[site]])
    return margins


def plain_losses(problem: Problem, permutations: Assignments) -> Losses:
    placement = Placement(problem, permutations)
    return lambda site, alike: next_best_losses(placement.gain(site), permutations[site], alike)


def chain_losses(problem: Problem, permutations: Assignments) -> Losses:
    """The same for components with transitions, which move with them."""
    chains = Chains(problem)
    for site, permutation in enumerate(permutations):
        chains.placement.place(site, permutation)
    return lambda site, alike: chains.match(site).losses(permutations[site], alike)


def touched(contents: Sequence[Rows]) -> NDArray[np.bool_]:
    """Which components have a contribution in any factor."""
    return np.asarray(np.any([(rows.written_out() != 0.0).any(axis=1) for rows in contents], axis=0))


def grouped_margins(problem: Problem, slots: Sequence[Indices]) -> list[Array]:
    """The loss in the objective of `Grouping` if a component goes into the next best slot."""
    anchors = None if problem.exchangeable else prior_components(problem.factors)
    return split(slot_search(problem, slots, anchors).margins(), slots)


def component_losses(problem: Problem, slots: Sequence[Indices]) -> list[Array]:
    """Per site and component: the loss in nats from sharing its slot."""
    return split(slot_search(problem, slots).lost(), slots)


def slot_search(problem: Problem, slots: Sequence[Indices], anchors: Components | None = None) -> SlotSearch:
    """The search of `Grouping` with all components in these slots."""
    components = Components.in_problem(problem)
    base = components.bases(problem.components)
    return SlotSearch(components, np.concatenate(slots), base, problem.components, anchors)


def split(values: Array, slots: Sequence[Indices]) -> list[Array]:
    """Values of all components, site by site."""
    return np.split(values, np.cumsum([len(site_slots) for site_slots in slots])[:-1])


def next_best_losses(gain: Array, permutation: Permutation, alike: NDArray[np.bool_]) -> Array:
    """Per slot: the loss if its component must go elsewhere and all slots are reassigned.

    Slots that are `alike` count as one. Around an optimal assignment the loss is the cheapest exchange of components
    along a cycle through the slot, found for all slots at once from all-pairs shortest paths (Floyd and Warshall).
    """
    slots = identity(len(gain))
    optimal = best_permutation(gain)
    placed = gain[:, optimal]
    step = np.diag(placed)[:, None] - placed
    path = step.copy()
    for via in slots:
        path = np.minimum(path, path[:, [via]] + path[[via], :])
    same_place = np.eye(len(gain), dtype=np.bool_) | np.logical_and.outer(alike, alike)
    leaving = np.where(same_place, np.inf, path + step.T).min(axis=1)
    now = inverse(optimal)[permutation]
    deficit = float((gain[slots, permutation] - gain[slots, optimal]).sum())
    return np.where(same_place[slots, now], np.maximum(leaving[now], 0.0), 0.0) + deficit
