"""What is known of each match of an alignment, and, where the truth is known, whether it is right."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from decbayes.calibration.validation import model_of
from decbayes.errors import StructureMismatch
from decbayes.families import Array
from decbayes.merging import Alignment, reading
from decbayes.merging.base.components import LEAST_EVIDENCE
from decbayes.models.core.model import Model
from decbayes.posterior import Posterior
from decbayes.symmetry import CoupledSet
from decbayes.updates.update import without

# Observations of which responsibilities are held in memory at a time.
BLOCK = 2000
HALF, TENTH = 0.5, 0.1


@dataclass(frozen=True)
class Matches:
    """All matches of some alignments: their margins, evidence and overlaps; whether each is right, or belongs nowhere.

    Components that have seen no data, and those in slots of their own, are left out.
    """

    margins: Array
    evidence: Array
    losses: Array
    overlaps: Array
    right: Array
    nowhere: Array

    def __len__(self) -> int:
        return len(self.right)

    @classmethod
    def joined(cls, parts: Sequence["Matches"]) -> "Matches":
        fields = ("margins", "evidence", "losses", "overlaps", "right", "nowhere")
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in fields))

    @classmethod
    def of(cls, found: Alignment, coupled: CoupledSet, overlaps: Sequence[Array], truths: Sequence[Array]) -> "Matches":
        """`truths[i]` is (components, true components): how much of each component of site i comes from each."""
        evidence, alone = reading.observations(found, coupled), reading.alone(found, coupled)
        slots = [own[coupled] for own in found.assignments]
        right, nowhere = judged(slots, truths, found.structure.components(coupled))
        kept = np.concatenate([(own >= LEAST_EVIDENCE) & ~by for own, by in zip(evidence, alone, strict=True)])
        margins, losses = ([own[coupled] for own in each] for each in (reading.margins(found), reading.losses(found)))
        columns = (margins, evidence, losses, overlaps, right, nowhere)
        return cls(*(np.concatenate(column)[kept].astype(np.float64) for column in columns))


def judged(slots: Sequence[Any], truths: Sequence[Array], count: int) -> tuple[list[Array], list[Array]]:
    """Whether each component belongs to its slot; and whether it belongs to none.

    What it has in common with a slot is the share of its data that comes from the same sources as what the other sites
    have put there: Σ_t min(share of t here, share of t there). It belongs to its slot if that is more than half, and
    with no other slot it has more in common by more than a tenth. Sources that nobody can tell apart are found mixed
    everywhere, in the same proportions; that is no wrong match.
    """
    held = np.zeros((len(slots), count, truths[0].shape[1]))
    for site, (own, truth) in enumerate(zip(slots, truths, strict=True)):
        np.add.at(held[site], own, truth)
    right, nowhere = [], []
    for site, (own, truth) in enumerate(zip(slots, truths, strict=True)):
        others = shares_of(held.sum(axis=0) - held[site])
        common = np.minimum(shares_of(truth)[:, None, :], others).sum(axis=-1)
        here, most = common[np.arange(len(own)), own], common.max(axis=1)
        right.append(((here > HALF) & (here >= most - TENTH)).astype(np.float64))
        nowhere.append((most <= HALF).astype(np.float64))
    return right, nowhere


def shares_of(amounts: Array) -> Array:
    """Each row as shares of its sum; zeros where there is nothing."""
    return np.asarray(amounts / np.maximum(amounts.sum(axis=-1, keepdims=True), 1e-300))


def in_common(model: Model, own: Posterior, other: Posterior, data: Any) -> Array:
    """(own components, other's components): how much of the data each pair accounts for together, Σ_n r_nk ρ_ns."""
    mine, theirs = model_of(model, own), model_of(model, other)
    found, count = np.zeros((1, 1)), model.count(data)
    for first in range(0, count, BLOCK):
        part = model.taken(data, np.arange(first, min(first + BLOCK, count)))
        shares, weights = mine.responsibilities(own, part)
        found = found + (weights[:, None] * shares).T @ theirs.responsibilities(other, part)[0]
    return np.asarray(found)


def overlap(model: Model, found: Alignment, site: int, data: Any) -> Array:
    """For each component of a site: the share of what it accounts for that everybody else's merge gives to its slot.

        Σ_n r_nk ρ_ns / Σ_n r_nk,   r of the site's own posterior, ρ of the others' merge, s the slot of k

    The site computes it from its own data, and reports one number per component. A high share says that the others know
    the same thing under that number; nobody else can check it.

    Args:
        model: the model that was fitted.
        found: the alignment of all sites.
        site: the number of the site's posterior in it.
        data: the site's data.

    >>> model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=100.0)
    >>> rng = np.random.default_rng(0)
    >>> shards = [rng.choice([-5.0, 5.0], size=(30, 1)) + rng.normal(size=(30, 1)) for _ in range(2)]
    >>> found = db.align([model.fit(shard, rng=rng).posterior for shard in shards])
    >>> db.checking.overlap(model, found, 0, shards[0]).round(2)
    array([1., 1.])
    """
    if not 0 <= site < len(found.posteriors):
        raise StructureMismatch(f"There are posteriors 0 to {len(found.posteriors) - 1}; {site!r} is none of them.")
    return own_overlap(model, found, site, data, found.without(site))


def overlaps_of(model: Model, found: Alignment, shards: Sequence[Any]) -> list[Array]:
    """The overlaps of all sites."""
    merged = found.merged()
    others = (without(merged, found.in_slots(site)) for site in range(len(shards)))
    return [own_overlap(model, found, site, shards[site], other) for site, other in enumerate(others)]


def own_overlap(model: Model, found: Alignment, site: int, data: Any, others: Posterior) -> Array:
    (coupled,) = found.structure.symmetry
    slots = found.assignments[site][coupled]
    common = shares_of(in_common(model, found.posteriors[site], others, data))
    return np.asarray(common[np.arange(len(slots)), slots])
