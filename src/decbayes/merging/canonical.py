"""An order of posteriors, and of each one's components, that depends on their contents alone.

Merging happens in this order, so that the result is a pure function of a *set* of posteriors: neither the order of
arrival nor anybody's labels can change a bit of it.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from decbayes.families import Contribution
from decbayes.families.matrices import is_sparse
from decbayes.merging.agreement import agreeing
from decbayes.posterior import Posterior, arrays
from decbayes.structure import Structure
from decbayes.symmetry import CoupledSet, Permutation

# Log-gammas differ in their last bits between processors; ranks must not.
SIGNIFICANT = 6


@dataclass(frozen=True)
class Canonical:
    """How to read a posterior without its labels: each set's components sorted by content, and a rank among others."""

    structure: Structure
    components: Mapping[CoupledSet, Permutation]
    rank: tuple[float, bytes, bytes]
    ids: tuple[str, ...]


def canonical_order(posteriors: Sequence[Posterior], *, strictly: bool = False) -> tuple[list[int], list[Canonical]]:
    """Indices of the posteriors, most evidence first, and each one's canonical reading.

    Each posterior is looked at once, and compared with the first: all must share one structure, but for the number of
    components unless `strictly`.
    """
    readings = [canonical(posterior) for posterior in agreeing(posteriors, strictly=strictly)]
    return sorted(range(len(posteriors)), key=lambda site: readings[site].rank), readings


def canonical(posterior: Posterior) -> Canonical:
    structure = posterior.structure
    digest, labelled = hashlib.sha256(), hashlib.sha256()
    components = {}
    for coupled in structure.symmetry:
        hashes = component_hashes(unlabelled(posterior, coupled))
        components[coupled] = in_order(hashes, posterior.ids)
        digest.update(b"".join(sorted(hashes)))
        labelled.update(b"".join(hashes))
        for name in coupled.factors:
            if structure.families[name].two_sided:
                ordered = structure.families[name].relabelled(posterior.contribution[name], components[coupled])
                digest.update(content_hash(ordered, name))
    relabelled = {name for coupled in structure.symmetry for name in coupled.factors}
    for name in structure.families:
        if name not in relabelled:
            digest.update(content_hash(posterior.contribution[name], name))
    # Posteriors that differ in their labels alone are ordered by those: the first one names the slots.
    labelled.update("\n".join(posterior.ids).encode())
    rank = -information(posterior, components), digest.digest(), labelled.digest()
    return Canonical(structure, components, rank, posterior.ids)


def canonical_components(posterior: Posterior, coupled: CoupledSet) -> Permutation:
    """The components of a set, sorted by content."""
    return in_order(component_hashes(unlabelled(posterior, coupled)), posterior.ids)


def unlabelled(posterior: Posterior, coupled: CoupledSet) -> list[Contribution]:
    """What each component's rows say, whatever the labels of the others."""
    families = posterior.structure.families
    return [families[name].unlabelled(posterior.contribution[name]) for name in coupled.factors]


def in_order(hashes: Sequence[bytes], ids: Sequence[str]) -> Permutation:
    names = ids or [""] * len(hashes)
    return np.array(sorted(range(len(hashes)), key=lambda k: (hashes[k], names[k])), dtype=np.intp)


def component_hashes(contents: Sequence[Contribution]) -> list[bytes]:
    """For each component, a hash of its rows in all factors of a set."""
    rows = zip(*map(row_bytes, contents), strict=True)
    return [hashlib.sha256(b"".join(parts)).digest() for parts in rows]


def row_bytes(contribution: Contribution) -> list[bytes]:
    """The canonical bytes of each row."""
    if is_sparse(contribution):
        indices, data = contribution.indices.astype("<i4"), contribution.data.astype("<f8")
        spans = [slice(*ends) for ends in pairwise(contribution.indptr.tolist())]
        lengths = [(span.stop - span.start).to_bytes(8, "little") for span in spans]
        return [n + indices[s].tobytes() + data[s].tobytes() for n, s in zip(lengths, spans, strict=True)]
    step, whole = 8 * contribution.shape[1], contribution.astype("<f8").tobytes()
    return [whole[first : first + step] for first in range(0, len(whole), step)]


def content_hash(contribution: Contribution, name: str) -> bytes:
    digest = hashlib.sha256(name.encode())
    for part in arrays(contribution).values():
        digest.update(part.tobytes())
    return digest.digest()


def information(posterior: Posterior, components: Mapping[CoupledSet, Permutation]) -> float:
    """KL(posterior ‖ prior) in nats, rounded: how much evidence the posterior brings.

    Components are paired with the prior's in canonical order, whatever their labels. Where a prior tells components
    apart such a pair may leave the domain; the factor is then not counted, since NaN would have no place in an order.
    Nor has it where numbers are so large that their logarithms of Γ overflow.
    """
    order = {name: components[coupled] for coupled in components for name in coupled.factors}
    total = 0.0
    for name, family in posterior.structure.families.items():
        prior, contribution = posterior.structure.prior[name], posterior.contribution[name]
        rows = family.rows(contribution, order.get(name))
        if family.contains_sum(prior, rows).all():
            total += family.information(prior, rows)
    return 0.0 if np.isnan(total) else float(f"{total:.{SIGNIFICANT}e}")
