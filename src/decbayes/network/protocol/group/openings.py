"""The prior of an epoch, seat by seat: the contributions of each member's earlier shards, in common slots.

    body = safetensors of the contributions, named by the seat's index among the epoch's parts

The prior in force is the sum over the seats that count, so a member that is removed later leaves the prior as well.
"""

import hashlib
from collections.abc import Iterable, Mapping

import numpy as np

from decbayes.base.tensors import Arrays, read_arrays, write_arrays
from decbayes.errors import InvalidCharter, InvalidFile, InvalidPosterior, Refused
from decbayes.families import dense
from decbayes.families.matrices import stored
from decbayes.files import contribution_arrays, contribution_from
from decbayes.merging import product
from decbayes.merging.base.products import weighted
from decbayes.merging.base.vocabularies import over_words
from decbayes.network.protocol.group.charter import Charter
from decbayes.network.protocol.group.motions import Open, PriorPart
from decbayes.posterior import Posterior
from decbayes.structure import Structure
from decbayes.updates import Epoch
from decbayes.updates.forgetting import all_kept, checked_forgetting, learned_shares

Parts = Mapping[str, Posterior]
"""Each seat's part of a prior, in the model's structure."""


def epoch_question(stated: Iterable[PriorPart], parts: Parts, ids: tuple[str, ...]) -> tuple[Open, bytes]:
    rows = tuple(sorted(stated, key=lambda part: part.seat))
    body = body_of([parts[row.seat] for row in rows])
    return Open(rows, ids, hashlib.sha256(body).digest()), body


def body_of(parts: Iterable[Posterior]) -> bytes:
    arrays = (contribution_arrays(part.contribution).items() for part in parts)
    return write_arrays({f"{place}/{name}": array for place, items in enumerate(arrays) for name, array in items})


def read_parts(question: Open, body: bytes, structure: Structure) -> Parts:
    """Read a body's parts and check their shapes, finiteness and encoding, and that every subset is proper."""
    if hashlib.sha256(body).digest() != question.body:
        raise Refused("digest", "the body is not the one that was voted on.")
    try:
        arrays = read_arrays(body)
        parts = [part_from(arrays, place, structure) for place in range(len(question.parts))]
    except (InvalidFile, InvalidPosterior, KeyError, TypeError, ValueError) as error:
        raise Refused("shape", f"the prior does not fit the structure ({error}).") from None
    if body_of(parts) != body:
        raise Refused("shape", "the body is not the canonical encoding of its parts.")
    check_proper(parts, structure)
    return {row.seat: part for row, part in zip(question.parts, parts, strict=True)}


def part_from(arrays: Arrays, place: int, structure: Structure) -> Posterior:
    named = {name.partition("/")[2]: array for name, array in arrays.items() if name.startswith(f"{place}/")}
    contribution = {name: contribution_from(named, name, structure) for name in structure.families}
    for name, part in contribution.items():
        if part.shape != structure.prior[name].shape or part.dtype != np.float64:
            raise InvalidFile(f"'{name}' has another shape")
        if not np.isfinite(stored(part)).all():
            raise InvalidFile(f"'{name}' holds NaN or infinite values")
    return Posterior(structure, contribution)


def check_proper(parts: list[Posterior], structure: Structure) -> None:
    """Refuse parts if any subset of them could make an improper prior.

    A prior with n of them is the average of the λ0 + n c_i, and domains are convex.
    """
    for name, family in structure.families.items():
        inside = (
            family.contains(structure.prior[name] + len(parts) * dense(part.contribution[name])) for part in parts
        )
        if not all(inside):
            raise Refused("domain", f"'{name}' of a part would leave {family.name} beside others like it.")


def widened(part: Posterior, structure: Structure) -> Posterior:
    """A part over all words in force; its counts of words that were added later are zero."""
    if part.structure.labels == structure.labels:
        return part
    return Posterior(structure, over_words(part.contribution, part.structure, structure))


def epoch_of(question: Open, parts: Parts, sitting: Iterable[str], structure: Structure) -> Epoch:
    """The prior in force and the shards in it, from the seats that count."""
    seats = {*sitting}
    rows = [row for row in question.parts if row.seat in seats]
    prior = product([parts[row.seat] for row in rows]) if rows else Posterior.of_prior(structure)
    named = Posterior(structure, dict(prior.contribution), question.ids)
    return Epoch(named, {row.seat: row.shards for row in rows}, sum(row.observations for row in rows))


def after_forgetting(charter: Charter, earlier: Parts, added: Parts, forgetting: float | str | None) -> Parts:
    """Each seat's part of the next prior: its earlier part after forgetting, plus its contribution of this epoch.

    All parts are scaled by the same factors per row, so forgetting commutes with summing them.
    """
    structure = charter.model.structure
    try:
        forgets = checked_forgetting(forgetting)
    except ValueError as error:
        raise InvalidCharter(str(error)) from None
    base = Posterior.of_prior(structure)
    if forgets == "learn":
        if not earlier:
            raise InvalidCharter("There is no earlier epoch whose evidence could be forgotten: leave --forgetting out.")
        old, new = (product([*parts.values()]) if parts else base for parts in (earlier, added))
        kept, whole = learned_shares(old, new), all_kept(base, 1.0)
    else:
        kept = whole = all_kept(base, 1.0 - float(forgets or 0.0))
    left = {seat: weighted(part, kept) for seat, part in earlier.items()}
    new_parts = {seat: weighted(part, whole) for seat, part in added.items()}
    return {
        seat: product([parts[seat] for parts in (left, new_parts) if seat in parts])
        for seat in sorted(left.keys() | new_parts.keys())
    }
