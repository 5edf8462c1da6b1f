"""Components keep their ids from one merge to the next, and each has a history."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from decbayes.base.arguments import check_kind
from decbayes.errors import StructureMismatch
from decbayes.families import Array
from decbayes.families.matrices import Indices, arrays
from decbayes.merging.base.compatibility import alike, difference
from decbayes.merging.base.components import Components
from decbayes.merging.base.coupled import coupled_problem
from decbayes.merging.base.problem import best_permutation
from decbayes.posterior import Posterior
from decbayes.structure import Permutation, Structure

# Two components are the same if describing one observation of each with common parameters loses fewer nats than this.
# Two topics without a common word lose 2 log 2 = 1.39, two clusters three deviations apart 2.25.
SAME = 0.7
DIGITS = 8

Kind = Literal["kept", "born", "gone", "split", "joined"]


@dataclass(frozen=True)
class Event:
    """The fate of a component from one merge to the next.

    Attributes:
        kind: "kept" its id; "born", or "split" off another one, under a new id; "gone", or "joined" to another one.
        id: the id of the component.
        other: the id of the component that it split from or joined.
        share: the part of the other component's observations that split off, or that came with the join.

    >>> print(db.merging.Event("split", "5f0c", "a81d", 0.25))
    5f0c split off a81d (25% of it)
    """

    kind: Kind
    id: str
    other: str = ""
    share: float = 1.0

    def __str__(self) -> str:
        if self.kind == "split":
            return f"{self.id} split off {self.other} ({self.share:.0%} of it)"
        if self.kind == "joined":
            return f"{self.id} joined {self.other} ({self.share:.0%} of it)"
        return f"{self.id} {self.kind}"


@dataclass(frozen=True, eq=False)
class Lineage:
    """A merge whose components have the ids of an earlier one and, if possible, their numbers.

    Attributes:
        posterior: the merge, with ids.
        events: the fate of each component.
        slots: `slots[k]` is the new number of the merge's component k.
        before: the earlier merge.

    >>> model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=100.0)
    >>> posterior = model.fit(np.array([[-9.0], [9.0]]), rng=np.random.default_rng(0)).posterior
    >>> lineage = db.merging.follow(posterior, posterior)
    >>> [event.kind for event in lineage.events], lineage.slots
    (['kept', 'kept'], array([0, 1]))
    """

    posterior: Posterior
    events: tuple[Event, ...]
    slots: Indices
    before: Posterior = field(repr=False)


def ids_of(posterior: Posterior) -> tuple[str, ...]:
    """Unique ids of the components; missing ones are derived from the contents. Empty components have none."""
    return with_new_ids(posterior, posterior.ids)


def with_ids(posterior: Posterior) -> Posterior:
    """The posterior with an id for each component, if components can have ids."""
    return replace(posterior, ids=ids_of(posterior)) if posterior.structure.resizable else posterior


def with_new_ids(posterior: Posterior, ids: Sequence[str]) -> tuple[str, ...]:
    """These ids, with new ones for filled components that have none or a duplicate."""
    (coupled,) = posterior.structure.symmetry
    names = ids or [""] * posterior.structure.components(coupled)
    empty, given = posterior.untouched(coupled), []
    for component, name in enumerate(names):
        if not name or name in given:
            name = "" if empty[component] else made_id(posterior, component, ids)
        given.append(name)
    return tuple(given)


def made_id(posterior: Posterior, component: int, history: Sequence[str]) -> str:
    """An id derived from a component's content and the earlier ids."""
    (coupled,) = posterior.structure.symmetry
    digest = hashlib.sha256("\n".join(sorted(history)).encode())
    for name in coupled.factors:
        for part in arrays(posterior.contribution[name][[component]]).values():
            digest.update(part.size.to_bytes(8, "little") + part.tobytes())
    return digest.hexdigest()[:DIGITS]


def follow(previous: Posterior, merged: Posterior) -> Lineage:
    """Give a merge the ids of an earlier one: matching components keep their ids, and new ones get new ids.

    Args:
        previous: the earlier merge. Components without ids get some, derived from their contents.
        merged: the later merge, of the same model; numbers of components may differ.

    >>> model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=100.0)
    >>> rng = np.random.default_rng(0)
    >>> monday = model.fit(np.array([[-9.0], [-8.0], [9.0], [8.0]]), rng=rng).posterior
    >>> tuesday = model.fit(np.array([[-9.0], [-8.0], [30.0], [31.0]]), rng=rng).posterior
    >>> sorted(event.kind for event in db.merging.follow(monday, tuesday).events)
    ['born', 'gone', 'kept']
    """
    check_kind(Posterior, previous=previous, merged=merged)
    check_followed(previous.structure, merged.structure)
    before, after = as_components(previous), as_components(merged)
    names, apart = ids_of(previous), distances(before, after)
    kept = matched(apart, before.evidence, after.evidence)
    nearest_before, nearest_after = apart.argmin(axis=0), apart.argmin(axis=1)
    ids, events = [""] * len(after), []
    for new in np.flatnonzero(after.evidence > 0.0).tolist():
        old, source = kept[new], int(nearest_before[new])
        ids[new] = names[old] if old >= 0 else made_id(merged, new, names)
        if old >= 0:
            events.append(Event("kept", ids[new]))
        elif apart[source, new] < SAME:
            events.append(Event("split", ids[new], names[source], share(after.evidence, nearest_before, source, new)))
        else:
            events.append(Event("born", ids[new]))
    for old in np.flatnonzero(before.evidence > 0.0).tolist():
        target = int(nearest_after[old])
        if old in kept:
            continue
        if apart[old, target] < SAME:
            part = share(before.evidence, nearest_after, target, old)
            events.append(Event("joined", names[old], ids[target], part))
        else:
            events.append(Event("gone", names[old]))
    slots = placed(kept, len(after))
    named = [previous.names[old] if old >= 0 else "" for old in kept] if previous.names else merged.names
    return Lineage(renumbered(replace(merged, names=named), slots, ids), tuple(events), slots, previous)


def check_followed(previous: Structure, merged: Structure) -> None:
    if not (merged.resizable and alike(previous, merged)):
        raise StructureMismatch(
            "Components can be followed only between posteriors of one model that has components, in any number: "
            f"{difference(previous, merged)}"
        )


def as_components(posterior: Posterior) -> Components:
    (coupled,) = posterior.structure.symmetry
    problem = coupled_problem((posterior,), coupled, posterior.structure)
    return Components.in_problem(problem)


def distances(before: Components, after: Components) -> Array:
    """(before, after): loss in nats of describing one observation of each with common parameters."""
    base = after.bases(len(after))
    lost = np.zeros((len(before), len(after)))
    for factor, old, new, factor_base in zip(before.factors, before.rows, after.rows, base, strict=True):
        first, second = per_observation(old.written_out(), before), per_observation(new.written_out(), after)
        peak, two = factor.family.peak, np.full(len(second), 2.0)
        alone = [peak(part, np.ones(len(part)), factor_base) for part in (first, second)]
        lost += alone[0][:, None] + alone[1] - [peak(row + second, two, factor_base) for row in first]
    lost[before.evidence <= 0.0], lost[:, after.evidence <= 0.0] = np.inf, np.inf
    return lost


def per_observation(rows: Array, components: Components) -> Array:
    return np.asarray(rows / np.maximum(components.evidence, 1e-300)[:, None])


def matched(apart: Array, before: Array, after: Array) -> Indices:
    """The earlier component that each new one continues, −1 for none: closest pairs, weighted by evidence."""
    size = max(apart.shape)
    gain = np.zeros((size, size))
    close = np.maximum(SAME - apart, 0.0) * np.sqrt(np.outer(before, after))
    gain[: len(apart), : apart.shape[1]] = np.where(np.isfinite(apart), close, 0.0)
    chosen = best_permutation(gain.T)[: apart.shape[1]]
    real = gain.T[np.arange(len(chosen)), chosen] > 0.0
    return np.where(real, chosen, -1).astype(np.intp)


def share(evidence: Array, nearest: Indices, target: int, one: int) -> float:
    """The share of one component in the evidence of all that are nearest to the target."""
    return float(evidence[one] / evidence[nearest == target].sum())


def placed(kept: Indices, count: int) -> Indices:
    """New numbers: that of the continued component if there is one; the others fill the gaps."""
    slots = np.where((kept >= 0) & (kept < count), kept, -1)
    slots[slots < 0] = np.setdiff1d(np.arange(count), slots)
    return slots.astype(np.intp)


def renumbered(posterior: Posterior, slots: Permutation, ids: Sequence[str]) -> Posterior:
    """The posterior with component k under the number slots[k]."""
    (coupled,) = posterior.structure.symmetry
    order = np.argsort(slots)
    families = posterior.structure.families
    rows = {name: families[name].relabelled(posterior.contribution[name], order) for name in coupled.factors}
    names = tuple(posterior.names[k] for k in order) if posterior.names else ()
    contribution = {**posterior.contribution, **rows}
    return replace(posterior, contribution=contribution, ids=tuple(ids[k] for k in order), names=names)
