"""The features of each match of an alignment and, where the truth is known, whether it is right."""

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
from decbayes.structure import CoupledSet
from decbayes.updates.update import without

# Observations whose responsibilities are in memory at a time.
BLOCK = 2000
HALF, TENTH = 0.5, 0.1


@dataclass(frozen=True)
class Matches:
    """The matches of some alignments: their features, whether each is right, and whether it belongs to no slot.

    Components without data and those alone in their slots are omitted.
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
    def of(
        cls, alignment: Alignment, coupled: CoupledSet, overlaps: Sequence[Array], truths: Sequence[Array]
    ) -> "Matches":
        """`truths[i]`, (components, true components), counts the data of site i by component and true component."""
        evidence, alone = reading.observations(alignment, coupled), reading.alone(alignment, coupled)
        slots = [assignment[coupled] for assignment in alignment.assignments]
        right, nowhere = judged(slots, truths, alignment.structure.components(coupled))
        kept = np.concatenate([(counts >= LEAST_EVIDENCE) & ~by for counts, by in zip(evidence, alone, strict=True)])
        margins = [site[coupled] for site in reading.margins(alignment)]
        losses = [site[coupled] for site in reading.losses(alignment)]
        columns = (margins, evidence, losses, overlaps, right, nowhere)
        return cls(*(np.concatenate(column)[kept].astype(np.float64) for column in columns))


def judged(slots: Sequence[Any], truths: Sequence[Array], count: int) -> tuple[list[Array], list[Array]]:
    """Whether each component belongs to its slot, and whether it belongs to none.

    Its overlap with a slot is the share of its data that comes from the same true components as the other sites' data
    there: Σ_t min(share of t here, share of t there). It belongs to its slot if the overlap exceeds one half, and no
    other slot's overlap is larger by more than a tenth. True components that cannot be separated are mixed in the same
    proportions everywhere; that is not a wrong match.
    """
    evidence = np.zeros((len(slots), count, truths[0].shape[1]))
    for site, (site_slots, truth) in enumerate(zip(slots, truths, strict=True)):
        np.add.at(evidence[site], site_slots, truth)
    right, nowhere = [], []
    for site, (site_slots, truth) in enumerate(zip(slots, truths, strict=True)):
        others = shares_of(evidence.sum(axis=0) - evidence[site])
        common = np.minimum(shares_of(truth)[:, None, :], others).sum(axis=-1)
        with_slot, most = common[np.arange(len(site_slots)), site_slots], common.max(axis=1)
        right.append(((with_slot > HALF) & (with_slot >= most - TENTH)).astype(np.float64))
        nowhere.append((most <= HALF).astype(np.float64))
    return right, nowhere


def shares_of(amounts: Array) -> Array:
    """Each row divided by its sum; zeros for empty rows."""
    return np.asarray(amounts / np.maximum(amounts.sum(axis=-1, keepdims=True), 1e-300))


def in_common(model: Model, posterior: Posterior, other: Posterior, data: Any) -> Array:
    """(site's components, other components): the data that each pair shares, Σ_n r_nk ρ_ns."""
    model_here, model_there = model_of(model, posterior), model_of(model, other)
    data = model.joined([data])  # as numbers, once for all blocks
    shared, count = np.zeros((1, 1)), model.count(data)
    for first in range(0, count, BLOCK):
        part = model.taken(data, np.arange(first, min(first + BLOCK, count)))
        shares, weights = model_here.responsibilities(posterior, part)
        shared = shared + (weights[:, None] * shares).T @ model_there.responsibilities(other, part)[0]
    return np.asarray(shared)


def overlap(model: Model, alignment: Alignment, site: int, data: Any) -> Array:
    """Per component of a site: the share of its data that the merge of all others assigns to the same slot.

        Σ_n r_nk ρ_ns / Σ_n r_nk,   r from the site's own posterior, ρ from the others' merge, s the slot of k

    The site computes this from its own data and reports one number per component. A high share means that the others
    have the same component in that slot; nobody else can check it.

    Args:
        site: the index of the site's posterior in it.

    >>> model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=100.0)
    >>> rng = np.random.default_rng(0)
    >>> shards = [rng.choice([-5.0, 5.0], size=(30, 1)) + rng.normal(size=(30, 1)) for _ in range(2)]
    >>> found = db.align([model.fit(shard, rng=rng).posterior for shard in shards])
    >>> db.checking.overlap(model, found, 0, shards[0]).round(2)
    array([1., 1.])
    """
    if not 0 <= site < len(alignment.posteriors):
        raise StructureMismatch(f"site must be from 0 to {len(alignment.posteriors) - 1}, not {site!r}.")
    return own_overlap(model, alignment, site, data, alignment.without(site))


def overlaps_of(model: Model, alignment: Alignment, shards: Sequence[Any]) -> list[Array]:
    merged = alignment.merged()
    others = (without(merged, alignment.in_slots(site)) for site in range(len(shards)))
    return [own_overlap(model, alignment, site, shards[site], other) for site, other in enumerate(others)]


def own_overlap(model: Model, alignment: Alignment, site: int, data: Any, others: Posterior) -> Array:
    (coupled,) = alignment.structure.symmetry
    slots = alignment.assignments[site][coupled]
    common = shares_of(in_common(model, alignment.posteriors[site], others, data))
    return np.asarray(common[np.arange(len(slots)), slots])
