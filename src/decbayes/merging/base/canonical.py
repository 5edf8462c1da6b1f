"""An order of posteriors, and of the components of each, that depends only on their contents.

Merging uses this order, so the result is a pure function of a *set* of posteriors: neither the order of arrival nor the
sites' labels change a bit of it.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any

import numpy as np

from decbayes.families import Contribution
from decbayes.families.matrices import arrays, is_sparse
from decbayes.merging.base.compatibility import agreeing
from decbayes.merging.base.coupled import in_memory
from decbayes.posterior import Posterior
from decbayes.structure import CoupledSet, Permutation, Structure

Components = Mapping[CoupledSet, Permutation]
"""Each coupled set's components in some order."""

# Significant digits of ranks: the last bits of lnΓ differ between processors.
SIGNIFICANT = 6
# Rows of up to this many bytes are compared directly, longer ones by a hash.
SHORT = 1024
# The attribute in which a posterior caches its reading.
READING = "_canonical"
# Posteriors in memory whose evidence is computed together.
AT_ONCE = 64


@dataclass(frozen=True)
class Canonical:
    """A posterior without its labels: each set's components sorted by content, and its rank among posteriors."""

    structure: Structure
    components: Components
    rank: tuple[float, bytes, bytes]
    ids: tuple[str, ...]

    @property
    def content(self) -> str:
        """A hash of the posterior that depends neither on its labels nor on the order of its components."""
        return self.rank[1].hex()


def canonical_order(posteriors: Sequence[Posterior], *, strictly: bool = False) -> tuple[list[int], list[Canonical]]:
    """Indices of the posteriors, most evidence first, and each one's canonical reading.

    Each posterior is read once and compared with the first: all must share one structure, but for the number of
    components unless `strictly`.
    """
    readings, compared = [], agreeing(posteriors, strictly=strictly)
    # Posteriors in files are read one by one.
    while block := list(islice(compared, AT_ONCE if in_memory(posteriors) else 1)):
        readings += canonical_readings(block)
    return sorted(range(len(posteriors)), key=lambda site: readings[site].rank), readings


def canonical_readings(posteriors: Sequence[Posterior]) -> list[Canonical]:
    """The canonical readings, cached in the posteriors, which are immutable."""
    unread = [posterior for posterior in posteriors if READING not in vars(posterior)]
    contents = [sorted_contents(posterior) for posterior in unread]
    moved = divergences(unread, [components for components, _, _ in contents])
    for posterior, (components, content, labelled), nats in zip(unread, contents, moved, strict=True):
        rank = -nats, content, labelled
        vars(posterior)[READING] = Canonical(posterior.structure, components, rank, tuple(posterior.ids))
    return [vars(posterior)[READING] for posterior in posteriors]


def sorted_contents(posterior: Posterior) -> tuple[Components, bytes, bytes]:
    """Each set's components in order, and two hashes of all contents: without labels and with them."""
    structure = posterior.structure
    digest, labelled = hashlib.sha256(), hashlib.sha256()
    components: dict[CoupledSet, Permutation] = {}
    plain = set(structure.families)
    for coupled in structure.symmetry:
        plain.difference_update(coupled.factors)
        keys = component_keys(unlabelled(posterior, coupled))
        components[coupled] = in_order(keys, posterior.ids)
        digest.update(b"".join(sorted(keys)))
        labelled.update(b"".join(keys))
        for name in coupled.factors:
            if structure.families[name].two_sided:
                ordered = structure.families[name].relabelled(posterior.contribution[name], components[coupled])
                digest.update(content_hash(ordered, name))
    for name in structure.families if plain else ():
        if name in plain:
            digest.update(content_hash(posterior.contribution[name], name))
    # Order posteriors that differ only in labels by their labels: the first one numbers the slots.
    labelled.update("\n".join(posterior.ids).encode())
    return components, digest.digest(), labelled.digest()


def canonical_components(posterior: Posterior, coupled: CoupledSet) -> Permutation:
    """The components of a set, sorted by content."""
    return in_order(component_keys(unlabelled(posterior, coupled)), posterior.ids)


def unlabelled(posterior: Posterior, coupled: CoupledSet) -> list[Contribution]:
    """Each component's rows, independent of the labels of the others."""
    families = posterior.structure.families
    return [families[name].unlabelled(posterior.contribution[name]) for name in coupled.factors]


def in_order(keys: Sequence[bytes], ids: Sequence[str]) -> Permutation:
    names = ids or [""] * len(keys)
    ranked = sorted(zip(keys, names, range(len(keys)), strict=True))
    return np.array([component for *_, component in ranked], dtype=np.intp)


def component_keys(contents: Sequence[Contribution]) -> list[bytes]:
    """A key per component that identifies its rows in all factors of a set: their bytes, or a hash if long."""
    whole = [part for part in contents if not is_sparse(part)]
    if len(whole) == len(contents):
        rows = np.ascontiguousarray(np.concatenate(whole, axis=1), dtype="<f8")
        return [row.tobytes() if row.nbytes <= SHORT else hashlib.sha256(row).digest() for row in rows]
    hashes = [hashlib.sha256() for _ in range(contents[0].shape[0])]
    for contribution in contents:
        add_rows(hashes, contribution)
    return [row.digest() for row in hashes]


def add_rows(hashes: Sequence[Any], contribution: Contribution) -> None:
    """Add each row to its hash, without copies: merges of topics read megabytes."""
    if not is_sparse(contribution):
        for row_hash, row in zip(hashes, np.ascontiguousarray(contribution, dtype="<f8"), strict=True):
            row_hash.update(row)
        return
    indices = contribution.indices.astype("<i4", copy=False)
    data = contribution.data.astype("<f8", copy=False)
    for row_hash, (start, stop) in zip(hashes, pairwise(contribution.indptr.tolist()), strict=True):
        row_hash.update((stop - start).to_bytes(8, "little"))
        row_hash.update(indices[start:stop])
        row_hash.update(data[start:stop])


def content_hash(contribution: Contribution, name: str) -> bytes:
    digest = hashlib.sha256(name.encode())
    for part in arrays(contribution).values():
        digest.update(part.tobytes())
    return digest.digest()


def divergences(posteriors: Sequence[Posterior], components: Sequence[Components]) -> list[float]:
    """KL(posterior ‖ prior) in nats, rounded: how far each posterior has moved.

    Components are paired with the prior's in canonical order, regardless of labels. If priors differ between
    components, such a pair may leave the domain, and lnΓ overflows for huge numbers: such factors are not counted,
    because NaN cannot be ordered.
    """
    if any(posterior.structure != posteriors[0].structure for posterior in posteriors):
        singly = zip(posteriors, components, strict=True)
        return [divergences([posterior], [order])[0] for posterior, order in singly]
    if not posteriors:
        return []
    structure, totals = posteriors[0].structure, np.zeros(len(posteriors))
    sets = {name: coupled for coupled in structure.symmetry for name in coupled.factors}
    for name, family in structure.families.items():
        contributions = [posterior.contribution[name] for posterior in posteriors]
        orders = [orders_of[sets[name]] for orders_of in components] if name in sets else None
        totals += family.divergences(structure.prior[name], contributions, orders)
    return [0.0 if np.isnan(total) else float(f"{total:.{SIGNIFICANT}e}") for total in totals.tolist()]
