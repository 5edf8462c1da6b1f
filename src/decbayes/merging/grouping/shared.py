"""Which sites support each merged component, with how much evidence, and how far their versions differ."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from decbayes.base.workers import gathered
from decbayes.families import Array
from decbayes.families.matrices import Indices
from decbayes.merging.base.components import LEAST_EVIDENCE, Components
from decbayes.merging.base.problem import Problem
from decbayes.merging.grouping.number import crowding, sampling_noise, within_bounds
from decbayes.merging.grouping.search import SlotSearch

# Observations per parameter that a site should have in a component: with fewer, its fit is far from that of all data.
LEAST_PER_PARAMETER = 5.0
# Two slots are nearly the same if joining them loses less than this, in nats per observation of the smaller one.
ALMOST = 0.05
# A slot holds different components if its best split gains more than this multiple of splitting noise: UNLIKE_IF_SMALL
# if the median component has fewer than SMALL observations, else UNLIKE. UNLIKE_OTHERWISE is for topics, whose number
# is a budget (more always fit better), and for features, of which an observation has several.
SMALL, UNLIKE_IF_SMALL, UNLIKE, UNLIKE_OTHERWISE = 10.0, 1.0, 1.8, 10.0


class Parts(NamedTuple):
    """Slots that hold no different components: (sites, parts) observations, and (parts, parts) how alike they are."""

    evidence: Array
    alike: Array


@dataclass(frozen=True, eq=False)
class Shared:
    """Which sites support each slot, and how far their versions differ: `alignment.shared()[coupled]`.

    Attributes:
        evidence: sites × slots, the number of observations of each site.
        split: per slot, the gain of its best split, relative to splitting noise.
        limit: a slot with a larger gain holds components that differ.
        predictive: per slot, how much better its best split would predict, in nats per observation of all slots.
        parameters: the median number of parameters that a component's data determine.
        per_parameter: the median number of observations per parameter of a component.
        halves: for each component, site after site, its half in the best split of its slot.
        sizes: the number of components of each site.
        versions: each site's version of each slot, in that slot.
        components: each component in its slot.

    >>> (shared,) = db.align(sites).shared().values()
    >>> shared.evidence.sum(axis=1)
    array([3., 3., 3.])
    >>> shared.sites(0)
    [0, 1, 2]
    """

    evidence: Array
    split: Array
    limit: float
    predictive: Array
    parameters: float
    per_parameter: float
    halves: Indices = field(repr=False)
    sizes: tuple[int, ...] = field(repr=False)
    versions: SlotSearch = field(repr=False)
    components: SlotSearch = field(repr=False)

    @cached_property
    def apart(self) -> Array:
        """Sites × slots: the loss of a site's version from the merge in nats per observation; NaN where it has none."""
        lost = self.versions.lost().reshape(self.evidence.shape)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.evidence > 0.0, lost / self.evidence, np.nan)

    @cached_property
    def whole_apart(self) -> Array:
        """Per site: the loss from treating its data and all others' as one component, in nats per observation.

        It depends only on the data, not on how a fit has divided them into components.
        """
        sites = np.repeat(np.arange(len(self.sizes)), self.sizes)
        wholes = self.components.components.joined(sites, len(self.sizes))
        lost = SlotSearch(wholes, np.zeros(len(self.sizes), dtype=np.intp), self.components.bases, 1).lost()
        return np.asarray(lost / np.maximum(wholes.evidence, LEAST_EVIDENCE))

    @cached_property
    def duplicates(self) -> tuple[tuple[int, int], ...]:
        """Pairs of slots that are nearly the same."""
        return near_duplicates(self.versions.join_losses(), self.evidence.sum(axis=0))

    @cached_property
    def alike(self) -> Array:
        """(slots, slots): how alike two slots are, from 0 to 1 (see `likeness`)."""
        return likeness(self.versions.join_losses(), self.evidence.sum(axis=0))

    @cached_property
    def parts(self) -> "Parts":
        """The slots, those that hold different components as two halves."""
        slots, count, found = self.components.labels, len(self.split), self.components.components
        labels = slots + count * self.halves * np.isin(slots, self.unlike)
        evidence = np.zeros((len(self.evidence), 2 * count))
        np.add.at(evidence, (np.repeat(np.arange(len(self.sizes)), self.sizes), labels), found.evidence)
        losses = SlotSearch(found, labels, self.components.bases, 2 * count).join_losses()
        return Parts(evidence, likeness(losses, evidence.sum(axis=0)))

    @property
    def unlike(self) -> tuple[int, ...]:
        """Slots that hold different components."""
        return tuple(np.flatnonzero(self.split > self.limit).tolist())

    def sites(self, slot: int) -> list[int]:
        """The sites that support a slot, most evidence first."""
        order = np.argsort(-self.evidence[:, slot], kind="stable")
        return [int(site) for site in order if self.evidence[site, slot] >= LEAST_EVIDENCE]

    @property
    def private(self) -> list[tuple[int, int]]:
        """(slot, site) of each slot that only one of several sites supports."""
        supporters = self.evidence >= LEAST_EVIDENCE
        alone = np.flatnonzero((supporters.sum(axis=0) == 1) & (len(supporters) > 1))
        return [(int(slot), int(supporters[:, slot].argmax())) for slot in alone]


def shared_components(problem: Problem, slots: Sequence[Indices]) -> Shared:
    """Each site's version of each slot, and what it loses by merging with the others."""
    count, sites = problem.components, len(slots)
    components = Components.in_problem(problem)
    versions = components.joined(
        np.concatenate([site * count + labels for site, labels in enumerate(slots)]), sites * count
    )
    base = components.bases(count)
    search = SlotSearch(versions, np.tile(np.arange(count), sites), base, count)
    labels = np.concatenate(slots)
    placed = SlotSearch(components, labels, base, count)
    gains, by_noise, halves = halved(placed)
    half_evidence = np.bincount(2 * labels + halves, components.evidence, 2 * count).astype(np.float64)
    return Shared(
        evidence=versions.evidence.reshape(sites, count),
        split=gains / by_noise,
        limit=unlike_above(problem, components.evidence),
        predictive=predictive_gains(gains - by_noise, half_evidence.reshape(count, 2)),
        parameters=2.0 * sampling_noise(components),
        per_parameter=data_per_parameter(components),
        halves=halves,
        sizes=tuple(map(len, slots)),
        versions=search,
        components=placed,
    )


def predictive_gains(gains: Array, evidence: Array) -> Array:
    """How much better two halves of a slot predict than the slot, in nats per observation of all slots.

    The gain g of a split, per observation, assumes that each observation's half is known:

        g = predictive gain + I,    I the information that an observation has about its half

    Overlapping halves therefore predict hardly better than the whole. For two Gaussians at distance d, with shares p
    and q, g = pq d² / 2, and I lies between two bounds (Kolchinsky and Tracey); this uses their mean,

        −p log(p + q e^−t) − q log(q + p e^−t)    with t = d² / 8 and t = d² / 2
    """
    sizes = evidence.sum(axis=1)
    p, q = np.clip(evidence.T / np.maximum(sizes, LEAST_EVIDENCE), 1e-9, 1.0)
    g = np.maximum(gains, 0.0) / np.maximum(sizes, LEAST_EVIDENCE)
    near = g / (4.0 * p * q)
    bounds = [-p * np.log(p + q * np.exp(-t)) - q * np.log(q + p * np.exp(-t)) for t in (near, 4.0 * near)]
    return np.asarray(np.maximum(g - np.mean(bounds, axis=0), 0.0) * sizes / max(float(sizes.sum()), 1.0))


def halved(search: SlotSearch) -> tuple[Array, Array, Indices]:
    """Per slot, the gain of its best split and that of splitting as many noisy copies; and each component's half.

    Noise is what components lose by sharing a slot after all slots are split.
    """
    gains, crowd, lost = np.zeros(search.count), np.ones(search.count), [np.zeros(0)]
    halves = np.zeros(len(search.labels), dtype=np.intp)
    groups = [np.flatnonzero(search.labels == slot) for slot in range(search.count)]
    crowded = [slot for slot, members in enumerate(groups) if len(members) > 1]
    numbers = sum(rows.size for rows in search.components.rows)
    splits = gathered([partial(best_split, search, groups[slot]) for slot in crowded], size=numbers)
    for slot, (gain, labels, shared) in zip(crowded, splits, strict=True):
        gains[slot], halves[groups[slot]] = gain, labels
        crowd[slot] = crowding(len(labels), float(search.freedom(np.array([slot]))[0]))
        lost.append(shared)
    shared = np.concatenate(lost)
    level = float(np.median(shared)) if len(shared) else 0.0
    return gains, crowd * within_bounds(level, sampling_noise(search.components)), halves


def best_split(search: SlotSearch, members: Indices) -> tuple[float, Indices, Array]:
    """The gain of splitting a slot, the half of each member, and the losses of members that share a half."""
    two, whole = search.split_start(members)
    two.restart(two.gains(np.arange(len(members))).argmax(axis=1))
    gain = two.moves() - whole
    return gain, two.labels, two.lost()[np.bincount(two.labels, minlength=2)[two.labels] > 1]


def data_per_parameter(components: Components) -> float:
    """Median number of observations per parameter of a component; infinite if no component has data."""
    known = components.evidence >= LEAST_EVIDENCE
    ratios = components.evidence[known] / np.maximum(components.effective_freedom()[known], 1.0)
    return float(np.median(ratios)) if len(ratios) else np.inf


def unlike_above(problem: Problem, evidence: Array) -> float:
    """The limit for the gain of a split; lower for small components, where noise hides much of it."""
    families = [factor.family for factor in problem.factors]
    if all(family.countable for family in families) or not any(family.exclusive for family in families):
        return UNLIKE_OTHERWISE
    known = evidence[evidence >= LEAST_EVIDENCE]
    return UNLIKE_IF_SMALL if len(known) and np.median(known) < SMALL else UNLIKE


def near_duplicates(losses: Array, evidence: Array) -> tuple[tuple[int, int], ...]:
    """Pairs of filled slots that could be joined with little loss."""
    filled = np.flatnonzero(evidence >= LEAST_EVIDENCE).tolist()
    return tuple(
        (first, second)
        for second in filled
        for first in filled
        if first < second and losses[first, second] < ALMOST * min(evidence[first], evidence[second])
    )


def likeness(losses: Array, evidence: Array) -> Array:
    """(slots, slots): how alike the data of two slots are: 1 for the same, 0 for slots far apart or empty.

    Joining n and m observations of two Gaussians at distance d loses nm / (n + m) · d² / 2. Their likeness is

        e^−t    with t = d² / 4

    which lies between the bounds of Kolchinsky and Tracey (see `predictive_gains`).
    """
    filled = evidence >= LEAST_EVIDENCE
    each = 1.0 / np.maximum(evidence, LEAST_EVIDENCE)
    distance = 2.0 * np.maximum(losses, 0.0) * (each[:, None] + each)
    alike = np.where(filled[:, None] & filled, np.exp(-0.25 * distance), 0.0)
    np.fill_diagonal(alike, 1.0)
    return np.asarray(alike)
