"""What a posterior holds, whatever its labels and the order of its components: hashes, by which data count once."""

import hashlib
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from decbayes.families import Contribution
from decbayes.families.matrices import arrays, is_sparse, stored
from decbayes.posterior import Posterior
from decbayes.structure import CoupledSet, Permutation

Components = Mapping[CoupledSet, Permutation]
"""Each coupled set's components in some order."""

# Rows of up to this many bytes are compared directly, longer ones by a hash.
SHORT = 1024
# The attribute in which a posterior caches its contents.
CONTENTS = "_contents"


def held_in(posterior: Posterior) -> tuple[str, ...]:
    """Hashes of the posteriors whose data are in this one: those it was merged from or built on, or else itself."""
    if posterior.merged_from or not has_data(posterior):
        return tuple(posterior.merged_from)
    _, content, _ = sorted_contents(posterior)
    return (content.hex(),)


def has_data(posterior: Posterior) -> bool:
    return any(stored(part).any() for part in posterior.contribution.values())


def sorted_contents(posterior: Posterior) -> tuple[Components, bytes, bytes]:
    """Each set's components in order, and two hashes of all contents: without labels and with them. Cached."""
    if CONTENTS not in vars(posterior):
        vars(posterior)[CONTENTS] = contents_of(posterior)
    contents: tuple[Components, bytes, bytes] = vars(posterior)[CONTENTS]
    return contents


def contents_of(posterior: Posterior) -> tuple[Components, bytes, bytes]:
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
