"""Moves of whole slots: split one and join two others while that gains; join slots that evidence cannot separate."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from scipy.special import entr

from decbayes.families import Array
from decbayes.families.matrices import Indices
from decbayes.merging.base.components import Components
from decbayes.merging.grouping.number import crowding
from decbayes.merging.grouping.search import LEAST_GAIN, SlotSearch

# Splits tried, best first, before a search gives up.
TRIED = 3
# Two slots are joined if their log Bayes factor exceeds this. Keeping them apart by mistake costs little; joining them
# may cost much, as a single point may be far from all others.
CLEARLY = 2.0


class Escaping(Protocol):
    """The interface of a search, on the CPU or a GPU, that escapes need."""

    components: Components
    count: int
    labels: Indices

    def restart(self, labels: Indices) -> None: ...
    def moves(self) -> float: ...
    def value(self) -> float: ...
    def join_losses(self) -> Array: ...
    def halves(self, groups: Sequence[Indices]) -> list[tuple[Indices, float]]: ...


def escape(search: Escaping, most: int) -> None:
    """Split a slot, join two others and move components while that gains, at most this many times."""
    value = search.value()
    known: dict[bytes, tuple[Indices, float]] = {}
    threshold = LEAST_GAIN * float(search.components.evidence.sum())
    for _ in range(most):
        labels = search.labels.copy()
        if not any(improves(search, proposal, value + threshold) for proposal in proposals(search, known, threshold)):
            search.restart(labels)
            return
        value = search.value()


def improves(search: Escaping, labels: Indices, value: float) -> bool:
    """Whether a search from these labels ends above the value; the search keeps the result in any case."""
    search.restart(labels)
    return search.moves() > value


def proposals(search: Escaping, known: dict[bytes, tuple[Indices, float]], threshold: float) -> list[Indices]:
    """Labels after splitting one slot and joining the two others that lose least, most promising first."""
    losses, options = search.join_losses(), []
    groups = {slot: np.flatnonzero(search.labels == slot) for slot in range(search.count if search.count > 2 else 0)}
    new = [members for members in groups.values() if len(members) > 1 and members.tobytes() not in known]
    known.update(zip((members.tobytes() for members in new), search.halves(new), strict=True))
    for slot, members in groups.items():
        if len(members) < 2:
            continue
        half, gain = known[members.tobytes()]
        others = losses.copy()
        others[slot, :] = others[:, slot] = np.inf
        first, second = sorted(np.unravel_index(np.argmin(others), others.shape))
        options.append((gain - float(others[first, second]), slot, members[half == 1], int(first), int(second)))
    options.sort(key=lambda option: (-option[0], option[1]))
    promising = [option for option in options[:TRIED] if option[0] > threshold]
    return [relabelled(search.labels, moved, first, second) for _, _, moved, first, second in promising]


def relabelled(labels: Indices, moved: Indices, first: int, second: int) -> Indices:
    """Join slot `second` to `first`, and give its number to the half that moves."""
    after = np.where(labels == second, first, labels)
    after[moved] = second
    return after


def vacate(search: SlotSearch) -> None:
    """Join slots while the evidence is against separating two of them; freed slots stay empty.

    A fit of all data leaves a component at the prior if it has nothing to explain. Two slots are joined if the Bayes
    factor of their parameters and weights (reduced for overlap) is clearly in favour, and noise could explain the loss.
    """
    while True:
        # Only where noise explains the loss: with many parameters the penalty alone would join clearly different slots.
        factors = np.where(search.join_losses() <= noise(search), bayes_factors(search), -np.inf)
        if not factors.max(initial=-np.inf) > CLEARLY:
            return
        first, second = sorted(np.unravel_index(np.argmax(factors), factors.shape))
        search.restart(np.where(search.labels == second, first, search.labels))


def bayes_factors(search: SlotSearch) -> Array:
    """(slots, slots): log evidence for joining two filled slots; −∞ for empty ones."""
    components, count = search.components, search.count
    merged = components.joined(search.labels, count)
    first, second = np.triu_indices(count, 1)
    factors = np.full((count, count), -np.inf)
    for_joining = weight_gain(search, merged.evidence, first, second)
    for factor, rows in zip(merged.factors, merged.rows, strict=True):
        prior, added = factor.prior[:1], rows.written_out()
        terms, empty = factor.family.row_terms(prior + added), factor.family.row_terms(prior)[0]
        joined = factor.family.row_terms(prior + added[first] + added[second])
        for_joining = for_joining + joined + empty - terms[first] - terms[second]
    filled = (merged.evidence[first] > 0.0) & (merged.evidence[second] > 0.0)
    factors[first[filled], second[filled]] = for_joining[filled]
    return factors


def noise(search: SlotSearch) -> Array:
    """(slots, slots): the loss of a join if both slots were one component split in the best possible way."""
    members = np.bincount(search.labels, minlength=search.count)
    freedom = search.freedom(np.arange(search.count))
    parameters = np.minimum(freedom[:, None], freedom)
    return np.asarray(0.5 * parameters * crowding(members[:, None] + members, parameters))


def weight_gain(search: SlotSearch, evidence: Array, first: Indices, second: Indices) -> Array:
    """The gain from one weight instead of two: the entropy of the memberships, less what overlap leaves undecided."""
    total = np.maximum(evidence[first] + evidence[second], 1e-300)
    shares = np.array([evidence[first], evidence[second]]) / total
    distance = 0.5 * np.maximum(loss_per_pair(search, evidence, first, second), 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        doubt = shares * np.log1p(shares[::-1] / shares * np.exp(-distance))
    return np.asarray(total * (entr(shares).sum(axis=0) - np.nan_to_num(doubt).sum(axis=0)))


def loss_per_pair(search: SlotSearch, evidence: Array, first: Indices, second: Indices) -> Array:
    """The loss of joining one observation from each slot; for known variances, twice Bhattacharyya's distance.

    Families with their own spread are skipped: a small component's variance makes it look far from all others.
    """
    weights = 1.0 / np.maximum(evidence, 1e-300)
    merged = search.components.joined(search.labels, search.count)
    lost = np.zeros(len(first))
    for factor, rows, base in zip(merged.factors, merged.rows, search.bases, strict=True):
        if factor.family.own_spread:
            continue
        one = rows.written_out() * weights[:, None]
        peaks = [factor.family.peak(part, size, base) for part, size in pairs(one, first, second)]
        lost += peaks[0] + peaks[1] - peaks[2]
    return lost


def pairs(one: Array, first: Indices, second: Indices) -> list[tuple[Array, Array]]:
    ones = np.ones(len(first))
    return [(one[first], ones), (one[second], ones), (one[first] + one[second], 2.0 * ones)]
