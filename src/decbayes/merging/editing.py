"""Changing components of a merge by hand: name, drop, join, split. A remark on the result records it."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from decbayes.base.arguments import check_kind
from decbayes.errors import StructureMismatch
from decbayes.families import Array, dense
from decbayes.families.matrices import Indices
from decbayes.merging._tree import tree
from decbayes.merging.aligning import align
from decbayes.merging.alignment import Alignment
from decbayes.merging.base.components import LEAST_EVIDENCE
from decbayes.merging.base.coupled import as_sequence
from decbayes.merging.base.lineage import Event, Lineage, as_components, ids_of, with_new_ids
from decbayes.merging.base.products import AssignedSums, weighted
from decbayes.merging.robust import robust_merge
from decbayes.posterior import Posterior
from decbayes.remarks import Remark

BY_HAND = "by hand"
# What a remark calls components by their numbers, which change if some are dropped or joined.
NUMBERED = re.compile(r"\b(?:topic|slot|component|cluster|class|feature)(?:e?s)? \d", re.IGNORECASE)
# Slots are the same if they differ by less than this part of their numbers; counts of slots that are NEAR are divided
# like them, if all counts of the merge are there.
EQUAL, NEAR, ALL = 1e-6, 0.2, 1e-3


def name(posterior: Posterior, names: Mapping[int, str]) -> Posterior:
    """Give components names, which stay with them through later merges (`since`). An empty name removes one.

    >>> model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=100.0)
    >>> posterior = model.fit(np.array([[-9.0], [9.0]]), rng=0).posterior
    >>> db.merging.name(posterior, {1: "far out"}).names
    ('', 'far out')
    """
    check_kind(Posterior, posterior=posterior)
    known = list(posterior.names or [""] * slots_of(posterior))
    for component, text in names.items():
        known[checked(posterior, component)] = text.strip()
    return replace(posterior, names=tuple(known) if any(known) else ())


def drop(posterior: Posterior, *components: int) -> Lineage:
    """Remove components, with everything learned about them.

    >>> model = db.GaussianMixture(3, 1, variance=1.0, prior_variance=100.0)
    >>> posterior = model.fit(np.array([[-9.0], [0.0], [9.0]]), rng=0).posterior
    >>> edited = db.merging.drop(posterior, 1)
    >>> len(edited.posterior.mean("components")), [event.kind for event in edited.events]
    (2, ['kept', 'kept', 'gone'])
    """
    check_kind(Posterior, posterior=posterior)
    gone = {checked(posterior, component) for component in components}
    size, ids = slots_of(posterior), ids_of(posterior)
    if not gone or len(gone) == size:
        raise StructureMismatch("Name the components to drop; at least one must be left.")
    stay = np.array([slot not in gone for slot in range(size)])
    emptied = masked(posterior, stay.astype(np.float64))
    # Dropped components are empty and add nothing to slot 0.
    places = np.where(stay, np.cumsum(stay) - 1, 0)
    events = [Event("gone", ids[slot]) for slot in sorted(gone)]
    return moved(replace(posterior, ids=ids), emptied, places, events, keep=stay)


def join(posterior: Posterior, first: int, *others: int) -> Lineage:
    """Add components to the first one, which keeps its id and name.

    >>> model = db.GaussianMixture(3, 1, variance=1.0, prior_variance=100.0)
    >>> posterior = model.fit(np.array([[-9.0], [8.0], [9.0]]), rng=0).posterior
    >>> edited = db.merging.join(posterior, 0, 1)
    >>> len(edited.posterior.mean("components")), [event.kind for event in edited.events]
    (2, ['kept', 'kept', 'joined'])
    """
    check_kind(Posterior, posterior=posterior)
    kept = checked(posterior, first)
    absorbed = {checked(posterior, component) for component in others} - {kept}
    if not absorbed:
        raise StructureMismatch("Name at least two components to join.")
    evidence, ids = as_components(posterior).evidence, ids_of(posterior)
    stay = np.array([slot not in absorbed for slot in range(len(ids))])
    places = np.cumsum(stay) - 1
    places[sorted(absorbed)] = places[kept]
    total = max(float(evidence[[kept, *absorbed]].sum()), LEAST_EVIDENCE)
    events = [Event("joined", ids[slot], ids[kept], float(evidence[slot]) / total) for slot in sorted(absorbed)]
    return moved(replace(posterior, ids=ids), posterior, places, events, keep=stay)


def split(posterior: Posterior, slot: int, posteriors: Iterable[Posterior]) -> Lineage:
    """Divide a slot in two: the sites' components in it are grouped so that the two parts differ most.

    All other slots, ids, names and remarks stay. The part with less evidence becomes the last slot.

    Args:
        posterior: a merge, plain or robust.
        slot: the component to divide.
        posteriors: those that were merged, one per site.

    >>> model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=100.0)
    >>> rng = np.random.default_rng(0)
    >>> sites = [model.fit(n + np.array([[-9.0], [9.0]]), rng=rng).posterior for n in range(2)]
    >>> edited = db.merging.split(db.merge(sites, components=1), 0, sites)
    >>> np.sort(edited.posterior.mean("components")[:, 0]).round()
    array([-8.,  9.])
    """
    check_kind(Posterior, posterior=posterior)
    slot, size = checked(posterior, slot), slots_of(posterior)
    parts = parts_in(posterior, slot, as_sequence(posteriors))
    if len(parts) < 2:
        raise StructureMismatch(
            f"Slot {slot} holds {len(parts)} components of all sites, so there is nothing to divide."
        )
    (coupled,) = posterior.structure.symmetry
    labels = np.concatenate([assignment[coupled] for assignment in tree(parts).cut(2).assignments])
    evidence = np.array([as_components(part).evidence.sum() for part in parts])
    leaving = labels == np.bincount(labels, evidence, minlength=2).argmin()
    share = float(evidence[leaving].sum() / evidence.sum())
    contribution = dict(posterior.contribution)
    for factor in coupled.factors:
        sums = np.array([dense(part.contribution[factor])[0] for part in parts])
        rows = dense(posterior.contribution[factor]).copy()
        half = np.sum(sums[leaving], axis=0)
        if is_divisible(posterior, factor):  # in proportion, so that no count is lost
            whole = sums.sum(axis=0)
            half = rows[slot] * np.divide(half, whole, out=np.full(len(whole), share), where=whole > 0.0)
        rows[slot] -= half
        contribution[factor] = np.vstack([rows, half])
    ids, structure = ids_of(posterior), posterior.structure.with_components(size + 1)
    names = (*posterior.names, "") if posterior.names else ()
    edited = Posterior(structure, contribution, (*ids, ""), None, posterior.remarks, names, posterior.merged_from)
    edited = replace(edited, ids=with_new_ids(edited, edited.ids))
    events = [Event("split", edited.ids[size], ids[slot], share)]
    return recorded(replace(posterior, ids=ids), edited, events, np.arange(size + 1))


def parts_in(posterior: Posterior, slot: int, posteriors: Sequence[Posterior]) -> list[Posterior]:
    """The sites' components in a slot of their merge, as they count there.

    A merge does not say how it was made, so the usual ways are tried until one makes this slot. Counts can be divided
    by the nearest one, too: after an earlier merge, some stay where they were.
    """
    (coupled,) = posterior.structure.symmetry
    factors = [name for name in coupled.factors if not posterior.structure.families[name].over_components]
    whole = np.hstack([dense(posterior.contribution[name]) for name in factors])
    given, counts = whole[slot], all(is_divisible(posterior, name) for name in factors)
    nearest, found = np.inf, list[Posterior]()
    for alignment in alignments_of(posterior, posteriors):
        merged = alignment.merged()
        rows = np.hstack([dense(merged.contribution[name]) for name in factors])
        apart = np.abs(rows - given).sum(axis=1) / max(np.abs(given).sum(), LEAST_EVIDENCE)
        complete = counts and abs(rows.sum() - whole.sum()) <= ALL * whole.sum()
        if apart.min() < min(nearest, NEAR if complete else EQUAL):
            nearest, found = float(apart.min()), list(parts_of(alignment, int(apart.argmin())))
        if nearest <= EQUAL:
            break
    if nearest == np.inf:
        raise StructureMismatch(
            f"These posteriors do not add up to slot {slot} of the merge. Give all that were merged, as they were "
            "merged; a slot that was joined by hand, or made in another way, cannot be divided."
        )
    return found


def alignments_of(posterior: Posterior, posteriors: Sequence[Posterior]) -> Iterator[Alignment]:
    """The usual ways to merge these posteriors, of which one may have made this merge."""
    size = slots_of(posterior)
    for components in (None, size):
        yield align(posteriors, components=components)
        yield robust_merge(posteriors, components=components).alignment
    yield align(posteriors, components=size, since=posterior)


def is_divisible(posterior: Posterior, factor: str) -> bool:
    """Whether a factor's contributions are counts, of which any part is a contribution."""
    family = posterior.structure.families[factor]
    return family.countable or family.over_components


def parts_of(alignment: Alignment, slot: int) -> Iterator[Posterior]:
    """Each site component's part in the slot, as a posterior with one component."""
    (coupled,) = alignment.structure.symmetry
    single = alignment.structure.with_components(1)
    for site, posterior in enumerate(alignment.posteriors):
        for component in range(posterior.structure.components(coupled)):
            only = np.zeros(posterior.structure.components(coupled))
            only[component] = 1.0
            alone = masked(posterior, only, elsewhere=0.0)
            sums = AssignedSums(alignment.structure)
            sums.add(alone, alignment.assignments[site], site, alignment.divisions)
            totals = sums.contributions()
            in_slot = {factor: totals[factor][[slot]] for factor in coupled.factors}
            part = Posterior(single, {**totals, **in_slot})
            if as_components(part).evidence.sum() >= LEAST_EVIDENCE:
                yield part


def masked(posterior: Posterior, stay: Array, elsewhere: float = 1.0) -> Posterior:
    """The posterior with each component's contribution times `stay`, and other factors times `elsewhere`."""
    (coupled,) = posterior.structure.symmetry
    prior = posterior.structure.prior
    others = {factor: np.full(len(prior[factor]), elsewhere) for factor in prior}
    return weighted(posterior, {**others, **dict.fromkeys(coupled.factors, stay)})


def moved(
    before: Posterior, contents: Posterior, places: Indices, events: Sequence[Event], keep: NDArray[np.bool_]
) -> Lineage:
    """Component k of the contents in slot places[k], with the ids and names of those that are kept."""
    (coupled,) = before.structure.symmetry
    structure = before.structure.with_components(int(keep.sum()))
    sums = AssignedSums(structure)
    sums.add(contents, {coupled: places})
    stay = np.flatnonzero(keep).tolist()
    ids = tuple(before.ids[slot] for slot in stay)
    names = tuple(before.names[slot] for slot in stay) if before.names else ()
    remarks = [remark for remark in before.remarks if NUMBERED.search(f"{remark.what} {remark.rests_on}") is None]
    edited = Posterior(structure, sums.contributions(), ids, None, remarks, names, before.merged_from)
    return recorded(before, edited, events, places)


def recorded(before: Posterior, edited: Posterior, events: Sequence[Event], slots: Indices) -> Lineage:
    """The edit with the fate of each component, which a remark on the result repeats."""
    what = "; ".join(map(str, events))
    remark = Remark(
        BY_HAND, f"Changed by hand: {what}.", "A new merge of the sites' files will not have this change.", "", "note"
    )
    kept = [Event("kept", text) for text in edited.ids if text and text in before.ids]
    return Lineage(replace(edited, remarks=(*edited.remarks, remark)), (*kept, *events), slots, before)


def checked(posterior: Posterior, component: int) -> int:
    structure = posterior.structure
    if not structure.resizable or any(family.two_sided for family in structure.families.values()):
        raise StructureMismatch("Only topics, clusters and classes can be changed: components that share a prior.")
    size = slots_of(posterior)
    if isinstance(component, bool) or not isinstance(component, int | np.integer) or not 0 <= component < size:
        raise StructureMismatch(f"There is no component {component!r}; they are numbered from 0 to {size - 1}.")
    return int(component)


def slots_of(posterior: Posterior) -> int:
    return posterior.structure.components(posterior.structure.symmetry[0])
