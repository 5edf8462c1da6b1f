"""Which components get a slot, and how much each component counts in its slot."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtr

from decbayes.families import Array
from decbayes.families.matrices import Indices
from decbayes.merging.robust._likeness import agreement, in_common, weights_of
from decbayes.merging.robust.votes import Group, Sums

# Rounds of weighing each component against the others in its slot.
ROUNDS = 5
# Starting components tried for each fixed slot.
STARTS = 8
# Votes needed to add a slot beyond the requested number.
VOTES_FOR_NEW_SLOT = 2.0
# Rounds of exchanges in an election; the smallest gain that counts as a vote; weight of gains for components that
# already agree with an elected one.
EXCHANGES, LEAST_GAIN, COVERED = 3, 1e-9, 1e-3
# Sites are alike if they know this part of the slots that more than a few of them know.
ALIKE = 0.9
# A slot known to few sites is doubtful if chance explains so few with a probability below this.
UNLIKELY = 1e-4


@dataclass(frozen=True)
class SlotWeights:
    """A group's components in slots: how much each counts there, and how many nats it disagrees by."""

    group: Group
    slots: int
    labels: Indices
    weights: Array
    lost: Array
    tolerance: Array

    @property
    def votes(self) -> Array:
        """(sites, slots): the part of each site's vote that counts; it has one vote per slot."""
        counted = np.zeros((self.group.sites, self.slots))
        np.maximum.at(counted, (self.group.site, self.labels), self.group.votes * self.weights)
        return counted

    @cached_property
    def coverage(self) -> float:
        """How likely a site knows a slot, judged by slots that more sites know than may be faulty."""
        known = self.votes > 0.5
        sure = known[:, known.sum(axis=0) > tolerated_faults(self.group.sites)]
        return float(sure.sum() / (sure.size + 1.0))

    def chance(self, sites: ArrayLike) -> Array:
        """How likely at most this many sites know a component that all could have found."""
        return np.asarray(bdtr(sites, self.group.sites, self.coverage))

    def shares_nothing(self, strangers: NDArray[np.bool_]) -> bool:
        """Whether these sites share no slot with the others, who nearly all know the same ones."""
        known = self.votes > 0.5
        others, theirs = known[~strangers], known[strangers]
        common = others.sum(axis=0) > tolerated_faults(self.group.sites)
        return bool(not theirs[:, others.any(axis=0)].any() and others[:, common].mean() >= ALIKE)

    @property
    def core(self) -> Array:
        """1 for components that agree fully, else 0: only these define a slot.

        Even part of a component that disagrees could outweigh all others in some direction.
        """
        return (self.weights >= 1.0).astype(np.float64)

    def totals(self) -> Sums:
        return self.group.sums(self.labels, self.core, self.slots)

    def others(self) -> Sums:
        """Per component: the sum of the rest of the core in its slot."""
        totals, evidence = self.totals()
        pairs = zip(totals, self.group.rows, strict=True)
        rest = [total[self.labels] - self.core[:, None] * rows for total, rows in pairs]
        return rest, evidence[self.labels] - self.core * self.group.evidence

    def reweighed(self, others: Sums) -> "SlotWeights":
        """Weigh each component by how well it agrees with the given others."""
        group = self.group
        lost = group.claim_losses(others)
        return self.with_losses(lost, group.tolerance(in_common(group.tolerance_evidence, others[1])))

    def against_core(self) -> "SlotWeights":
        """Weigh each component against the rest of the core in its slot."""
        group, inside = self.group, self.core > 0.0
        if group.claims[1] is not group.evidence:
            return self.reweighed(self.others())
        # Claimed and voting evidence are the same: a component of the core and its others make up the slot's total, and
        # the others of any other component are that total. One sum per component is left to compute.
        sums, evidence = self.totals()
        sign = np.where(inside, -1.0, 1.0)
        pairs = zip(sums, group.rows, strict=True)
        rows = [np.concatenate([total, total[self.labels] + sign[:, None] * own]) for total, own in pairs]
        both = group.side((rows, np.concatenate([evidence, evidence[self.labels] + sign * group.evidence])))
        changed = self.slots + np.arange(len(inside))
        others = both.taken(np.where(inside, changed, self.labels))
        lost = group.lost(group.claim_side, others, both.peak[np.where(inside, self.labels, changed)])
        return self.with_losses(lost, group.tolerance(in_common(group.tolerance_evidence, others.evidence)))

    def with_losses(self, lost: Array, tolerance: Array) -> "SlotWeights":
        return replace(self, weights=weights_of(lost, tolerance), lost=lost, tolerance=tolerance)

    @property
    def verdict(self) -> tuple[Array, Array, Array]:
        return self.weights, self.lost, self.tolerance

    def stabilised(self) -> "SlotWeights":
        """Weigh components against the core until the core is stable.

        If it never is, parties that exclude each other alternate: take the lower weight of the last two rounds.
        """
        before = weighed = self
        for _ in range(ROUNDS):
            earlier, before, weighed = before, weighed, weighed.against_core()
            if (weighed.core == before.core).all():
                return weighed
            if (weighed.core == earlier.core).all():
                break
        pairs = zip(weighed.verdict, before.verdict, strict=True)
        lower = [np.where(weighed.weights <= before.weights, now, then) for now, then in pairs]
        return SlotWeights(self.group, self.slots, self.labels, *lower)


def tolerated_faults(sites: int) -> int:
    """The number of faulty sites that must not be able to support a component alone: fewer than a third."""
    return (sites - 1) // 3


def weigh(group: Group, labels: Indices, slots: int) -> SlotWeights:
    """Weigh components in the given slots, starting from the component that most sites agree with.

    Where slots are fixed, try several starts, because a site that knows little about some coefficient agrees with
    everybody, and take the one with the best agreement in the end.
    """
    start = SlotWeights(group, slots, labels, *(np.ones(len(labels)) for _ in range(3)))
    if not len(group.likeness.candidates):
        return start
    places = starting_candidates(group, labels, slots)[:, labels]
    if group.coupled is None:
        return best_start(start, places)
    known, centre = places[0] >= 0, group.likeness.candidates[places[0]]
    rows = [np.where(known[:, None], rows[centre], 0.0) for rows in group.rows]
    return start.reweighed((rows, np.where(known, group.evidence[centre], 0.0))).stabilised()


def best_start(start: SlotWeights, places: Indices) -> SlotWeights:
    """The best of several starts; the first core of each is the components that agree with one candidate."""
    group, slots, everybody = start.group, start.slots, np.arange(len(start.labels))
    agreeing = (places >= 0) & (group.likeness.weights[everybody, places] >= 1.0)
    tried = side_by_side(start, agreeing)
    # After one round most starts have the same core.
    tried = side_by_side(start, tried.against_core().core.reshape(-1, len(everybody)) > 0.0).stabilised()
    votes = tried.group.votes * agreement(tried.lost, tried.tolerance, tried.group.parameters)
    votes = votes.reshape(-1, len(everybody))
    # A start with which at least half of the sites disagree is taken only if that is true of all starts.
    disagreeing = np.where(tried.weights.reshape(votes.shape) < 0.5, 1.0, 0.0)
    for_few = by_slot(start, disagreeing) >= by_slot(start, np.full(votes.shape, 0.5))
    lost = np.where(for_few & ~for_few.all(axis=0), np.inf, 0.0)
    first = (by_slot(start, votes) - lost).argmax(axis=0)
    ahead = votes - votes[first[start.labels], everybody]
    best = (by_slot(start, trust(tried, first, start) * ahead) - lost).argmax(axis=0)[start.labels]
    return SlotWeights(
        group, slots, start.labels, *(part.reshape(len(votes), -1)[best, everybody] for part in tried.verdict)
    )


def side_by_side(start: SlotWeights, cores: NDArray[np.bool_]) -> SlotWeights:
    """The components once for each different core (row), in slots of their own."""
    different = np.array([*dict.fromkeys(map(tuple, cores.tolist()))], dtype=np.float64)
    times, nothing = len(different), np.zeros(different.size)
    labels = (start.labels + start.slots * np.arange(times)[:, None]).ravel()
    return SlotWeights(start.group.repeated(times), start.slots * times, labels, different.ravel(), nothing, nothing)


def by_slot(start: SlotWeights, amounts: Array) -> Array:
    """(starts, slots): sums of the components' amounts."""
    return np.array([np.bincount(start.labels, row, start.slots) for row in amounts])


def trust(tried: SlotWeights, first: Indices, start: SlotWeights) -> Array:
    """(starts, components): the weight of a vote for each start compared with the first one.

    It is halved for a site that claims to know far more than others about the coefficient in which the two differ most:
    with wrong units, few sites seem to know it better than all others together.
    """
    group, slots, everybody = start.group, start.slots, np.arange(len(start.labels))
    about = np.zeros((len(tried.labels) // len(everybody), slots), dtype=np.intp)
    vectors = group.coefficients_of(tried.totals()[0])
    if vectors is not None:
        mean, variance = (part.reshape(len(about), slots, -1) for part in vectors)
        taken = first, np.arange(slots)
        about = ((mean - mean[taken]) ** 2 / (variance + variance[taken])).argmax(axis=2)
    return np.asarray(0.5 + 0.5 * group.coefficient_scale[everybody, about[:, start.labels]])


def starting_candidates(group: Group, labels: Indices, slots: int) -> Indices:
    """(starts, slots): the candidate that most sites in a slot agree with, then others by falling agreement.

    Values are positions in the list of candidates, −1 where there is none.
    """
    likeness, chosen = group.likeness, np.full((STARTS, slots), -1, dtype=np.intp)
    for slot in range(slots):
        inside, places = np.flatnonzero(labels == slot), np.flatnonzero(labels[likeness.candidates] == slot)
        if len(places):
            votes = support(group, inside, likeness.weights[np.ix_(inside, places)])
            ranked = places[np.argsort(-votes, kind="stable")]
            chosen[:, slot] = ranked[np.linspace(0, len(ranked) - 1, STARTS).astype(np.intp)]
    return chosen


def support(group: Group, components: Indices, agreeing: Array) -> Array:
    """Votes of all sites for each candidate (column): one per site, by its component that agrees best.

    Components must be sorted by site.
    """
    _, first_of_site = np.unique(group.site[components], return_index=True)
    votes = np.maximum.reduceat(group.votes[components, None] * agreeing, first_of_site, axis=0)
    return np.asarray(votes.sum(axis=0))


def elected(group: Group, slots: int, spare: int) -> Indices:
    """Positions of the candidates that get slots: greedily those that most sites agree with, then by exchanges.

    A spare slot is used if at least two sites need it.
    """
    everybody, weights = np.arange(len(group.site)), group.likeness.weights

    def gains(chosen: list[int]) -> Array:
        best = weights[:, chosen].max(axis=1, initial=0.0)
        louder = np.where(best > 0.5, COVERED, 1.0)[:, None] * np.maximum(weights - best[:, None], 0.0)
        return support(group, everybody, louder)

    chosen: list[int] = []
    for turn in range(min(slots + spare, weights.shape[1])):
        gain = gains(chosen)
        if chosen and gain.max() < (VOTES_FOR_NEW_SLOT if turn >= slots else LEAST_GAIN):
            break
        chosen.append(int(np.argmax(gain)))
    for _ in range(EXCHANGES):
        before = [*chosen]
        for place, now in enumerate(before):
            gain = gains(chosen[:place] + chosen[place + 1 :])
            if gain.max() > gain[now] + LEAST_GAIN:
                chosen[place] = int(np.argmax(gain))
        if chosen == before:
            break
    return np.array(chosen, dtype=np.intp)


def nearest_slots(group: Group, places: Indices) -> Indices:
    """Each component's slot: first that of the closest elected candidate, then that of the closest core."""
    chosen, everybody = group.likeness.candidates[places], np.arange(len(group.site))
    slots, labels = len(chosen), group.likeness.weights[:, places].argmax(axis=1)
    totals: Sums = [rows[chosen] for rows in group.rows], group.evidence[chosen]
    weighed = SlotWeights(group, slots, labels, *(np.zeros(len(labels)) for _ in range(3)))
    for _ in range(ROUNDS):
        all_lost, shared = np.zeros((len(labels), slots)), np.zeros((len(labels), slots))
        for slot in range(slots):
            inside = weighed.core * (weighed.labels == slot)
            rest = [total[slot] - inside[:, None] * rows for total, rows in zip(totals[0], group.rows, strict=True)]
            left = totals[1][slot] - inside * group.evidence
            all_lost[:, slot] = group.claim_losses((rest, left))
            shared[:, slot] = in_common(group.claims[1], left)
        before, labels = weighed, all_lost.argmin(axis=1)
        tolerance = group.tolerance(shared[everybody, labels])
        weighed = replace(weighed, labels=labels).with_losses(all_lost[everybody, labels], tolerance)
        if (labels == before.labels).all() and (weighed.core == before.core).all():
            break
        totals = weighed.totals()
    return weighed.labels


def without_doubtful_slots(weighed: SlotWeights) -> SlotWeights:
    """Drop slots that only few sites know although nearly all should, and reassign their components.

    Few means no more than may be faulty, and fewer than chance explains. How likely a site knows a slot is judged
    without those of the few that share less than half of their slots with many others.
    """
    group, known = weighed.group, weighed.votes > 0.5
    sites = known.sum(axis=0)
    few = (sites > 0) & (sites <= tolerated_faults(group.sites))
    sure = known[:, sites > tolerated_faults(group.sites)]
    judges = ~known | (2 * sure.sum(axis=1) >= known.sum(axis=1))[:, None]
    coverage = sure.sum(axis=1) @ judges / (judges.sum(axis=0) * sure.shape[1] + 1.0)
    doubtful = few & ~known[sure.all(axis=1)].any(axis=0) & (bdtr(sites, group.sites, coverage) < UNLIKELY)
    left = np.flatnonzero(~doubtful)
    odd = np.flatnonzero(doubtful[weighed.labels])
    if not len(odd) or not len(left):
        return weighed
    totals, evidence = weighed.totals()
    mine = [rows[odd] for rows in group.claims[0]], group.claims[1][odd]
    lost = np.array([group.losses(mine, ([t[[slot]] for t in totals], evidence[[slot]])) for slot in left]).T
    nearest = lost.argmin(axis=1)
    labels = np.cumsum(~doubtful)[weighed.labels] - 1
    all_lost, tolerance = weighed.lost.copy(), weighed.tolerance.copy()
    labels[odd], all_lost[odd] = nearest, lost.min(axis=1)
    tolerance[odd] = group.tolerance(in_common(mine[1], evidence[left[nearest]]), odd)
    return replace(weighed, slots=len(left), labels=labels).with_losses(all_lost, tolerance)
