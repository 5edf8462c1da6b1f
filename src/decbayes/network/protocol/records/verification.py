"""Checks of bytes from the network before anything in them is used.

Cheap checks come first, so that no work is done for strangers:

1. `open_record`: size, envelope, group, fingerprint, membership, version, epoch.
2. `verify`: digest, signature, evidence (what the charter lets a member claim), words, shape, finiteness, domain,
   rules, consistency.

The first check that fails is the reason of the refusal.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np

from decbayes.base.tensors import read_arrays
from decbayes.errors import InvalidFile, InvalidPosterior, Refused
from decbayes.families import Contribution, dense
from decbayes.families.matrices import smallest, stored
from decbayes.files import contribution_from
from decbayes.merging.base.vocabularies import over_words
from decbayes.models.core.information import ABSOLUTE
from decbayes.network.protocol.group.charter import PROTOCOL, Charter
from decbayes.network.protocol.group.keys import short
from decbayes.network.protocol.group.motions import Proof, Vote, VoteHeader
from decbayes.network.protocol.group.roster import Roster
from decbayes.network.protocol.group.signed import Signed
from decbayes.network.protocol.records.notes import Note, note_from
from decbayes.network.protocol.records.record import (
    HIGHEST_VERSION,
    Envelope,
    Header,
    Record,
    SignedHeader,
    body_of,
    charter_of_words,
)
from decbayes.network.protocol.records.statements import Statement, check_statement, statement_from
from decbayes.network.protocol.sums.chains import signed_message
from decbayes.posterior import Posterior
from decbayes.structure import Structure

REASONS = (
    "size",
    "envelope",
    "group",
    "fingerprint",
    "membership",
    "version",
    "epoch",
    "digest",
    "signature",
    "evidence",
    "words",
    "shape",
    "finiteness",
    "domain",
    "rules",
    "consistency",
)

_envelopes = msgspec.msgpack.Decoder(Envelope)
_headers = msgspec.msgpack.Decoder(Header)
_votes = msgspec.msgpack.Decoder(VoteHeader)


@dataclass(frozen=True)
class Sealed:
    """A record whose header has been checked, but not its content."""

    signed: SignedHeader
    body: bytes
    public: bytes
    seat: str


def open_record(content: bytes, charter: Charter, roster: Roster | None = None) -> Sealed:
    """Read a record's header: size, envelope, group, fingerprint, membership, version and epoch.

    >>> network.open_record(record.content, charter).signed.version
    1
    >>> network.open_record(b"noise", charter)
    Traceback (most recent call last):
        ...
    decbayes.errors.Refused: ...
    """
    if len(content) > charter.limits.record_bytes:
        raise Refused("size", f"{len(content):,} bytes; a record has at most {charter.limits.record_bytes:,}.")
    try:
        envelope = _envelopes.decode(content)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Refused("envelope", f"not a record ({error}).") from None
    if msgspec.msgpack.encode(envelope) != content:
        raise Refused("envelope", "not the canonical bytes of a record.")
    known = roster or Roster.founded(charter)
    signed = open_header(envelope.header, envelope.signature, charter, known)
    check_epoch(signed, charter)
    return Sealed(signed, envelope.body, known.keys[signed.origin], known.names[signed.origin])


def open_signed(content: bytes, signature: bytes, charter: Charter, roster: Roster) -> Signed[Any]:
    """Read one half of a proof: the header of a record, a vote or a sum message."""
    try:
        vote = Vote(_votes.decode(content), signature)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        summed = None if charter.sums is None else signed_message(content, signature, roster)
        return summed or open_header(content, signature, charter, roster)
    if vote.header_bytes != content or (vote.header.protocol, vote.header.group) != (PROTOCOL, charter.id):
        raise Refused("envelope", "not a vote in this group.")
    if vote.origin not in roster.keys:
        raise Refused("membership", f"{short(vote.origin)} is not a member's key.")
    return vote


def open_header(content: bytes, signature: bytes, charter: Charter, roster: Roster) -> SignedHeader:
    """Read a signed header of any epoch; its signature is not checked yet."""
    try:
        header = _headers.decode(content)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Refused("envelope", f"not a record's header ({error}).") from None
    signed = SignedHeader(header, signature)
    if signed.header_bytes != content or not header.canonical:
        raise Refused("envelope", "not the canonical bytes of a header.")
    try:
        check_header(header, charter, roster)
    except Refused as error:
        # Do not request this version again: it will always be refused, unless its origin may become a member.
        error.entry = signed.entry if error.reason != "membership" else None
        raise
    return signed


def check_header(header: Header, charter: Charter, roster: Roster) -> None:
    if header.protocol != PROTOCOL or header.group != charter.id:
        raise Refused("group", f"protocol {header.protocol}, group {header.group!r}: not ours.")
    agreed = bytes.fromhex(charter.founded.fingerprint)
    if header.structure != agreed:
        raise Refused("fingerprint", f"structure {header.structure.hex()[:12]} instead of {agreed.hex()[:12]}.")
    if header.origin not in roster.keys:
        raise Refused("membership", f"{short(header.origin)} is not a member's key.")
    if not 1 <= header.version <= HIGHEST_VERSION:
        raise Refused("version", f"{header.version} is not a version number.")


def check_epoch(signed: SignedHeader, charter: Charter) -> None:
    if signed.header.epoch != charter.opened:
        error = Refused("epoch", f"epoch {signed.header.epoch.hex()[:12]}: only records of one epoch merge.")
        error.entry = signed.entry
        raise error


def verify(sealed: Sealed, charter: Charter) -> Record:
    """Check a record's content: digest, signature, evidence, shape, finiteness, domain, rules and consistency.

    >>> network.verify(network.open_record(record.content, charter), charter) == record
    True
    """
    header = sealed.signed.header
    if hashlib.sha256(sealed.body).digest() != header.body:
        raise Refused("digest", "the body is not the one that was signed.")
    verify_signature(sealed.signed, sealed.public)
    try:
        check_evidence(header, sealed.seat, charter)
        content, note, statement, words = read_body(sealed.body, charter) if header.shards else NO_BODY
        posterior = None if content is None else with_ids(content, header.ids)
        if posterior is None and (sealed.body or header.ids):
            raise Refused("shape", "there is a contribution without shards.")
        if posterior is not None:
            check_statement(statement, charter)
            check_consistency(header, posterior, charter)
    except Refused as error:
        # The origin signed exactly this, so no other record has this digest.
        error.entry = sealed.signed.entry
        raise
    return Record(sealed.signed, sealed.body, posterior, note, statement, words)


def verify_signature(signed: Signed[Any], public: bytes) -> None:
    if not signed.signed_by(public):
        raise Refused("signature", f"{short(signed.origin)} has not signed this.")


def with_ids(posterior: Posterior, ids: tuple[str, ...]) -> Posterior:
    try:
        return replace(posterior, ids=ids)
    except InvalidPosterior as error:
        raise Refused("shape", str(error)) from None


Read = tuple[Posterior | None, Note | None, Statement | None, frozenset[bytes]]
NO_BODY: Read = (None, None, None, frozenset())


def read_body(body: bytes, charter: Charter) -> Read:
    """Read a body and check shapes, finiteness, domain and encoding; returns posterior, note, statement and words."""
    structure = charter.structure
    try:
        arrays = read_arrays(body)
        signed_by = charter_of_words(charter, arrays)
        counted = signed_by.structure
        parts = {name: contribution_from(arrays, name, counted) for name in counted.families}
        note = note_from(arrays, charter) if charter.rules.notes else None
        statement = None if charter.disclosure is None else statement_from(arrays)
    except (InvalidFile, KeyError, TypeError) as error:
        raise Refused("shape", f"the body does not fit the structure ({error}).") from None
    check_shapes(parts, counted)
    parts = over_words(parts, counted, structure)
    for name, part in parts.items():
        if not np.isfinite(stored(part)).all():
            raise Refused("finiteness", f"'{name}' holds NaN or infinite values.")
    check_domain(parts, charter)
    check_magnitude(parts, charter)
    try:
        posterior = Posterior(structure, parts)
    except InvalidPosterior as error:
        raise Refused("domain", str(error)) from None
    if body_of(signed_by, over_words(posterior.contribution, structure, counted), note, statement) != body:
        raise Refused("shape", "the body is not the canonical encoding of its contribution.")
    return posterior, note, statement, frozenset(signed_by.words_added)


def check_shapes(parts: Mapping[str, Contribution], structure: Structure) -> None:
    for name, part in parts.items():
        if part.shape != structure.prior[name].shape or part.dtype != np.float64:
            raise Refused("shape", f"'{name}' is {part.shape}, the structure says {structure.prior[name].shape}.")


def check_magnitude(parts: Mapping[str, Contribution], charter: Charter) -> None:
    """Refuse numbers so large that their sum could overflow."""
    for name, part in parts.items():
        largest = np.abs(stored(part)).max(initial=0.0)
        if largest > charter.limits.magnitude:
            raise Refused("evidence", f"'{name}' holds {largest:.3g}; the limit is {charter.limits.magnitude:.3g}.")


def check_domain(parts: Mapping[str, Contribution], charter: Charter) -> None:
    """Refuse a contribution that could make a merge improper.

    With N ≤ N_max agents the merge λ0 + Σ c_i is the average of the λ0 + N c_i, and each of these lies between λ0 and
    λ0 + N_max c_i. Domains are convex: if all λ0 + N_max c_i are inside, so is the merge of every subset. All of a
    member's components may share one slot, so N_max counts components where they are relabelled.
    """
    structure = charter.structure
    relabelled = {name for coupled in structure.symmetry for name in coupled.factors}
    for name, family in structure.families.items():
        prior = smallest(structure.prior[name])
        # A relabelled row may end up in any slot; slots usually share one prior.
        slots = np.unique(prior, axis=0)[:, None, :] if name in relabelled else prior[None]
        with np.errstate(all="ignore"):
            most = charter.limits.members * (len(prior) if name in relabelled else 1)
            extreme = most * dense(parts[name])
            inside = all(family.contains(slot + extreme) for slot in slots)
        if not inside:
            raise Refused("domain", f"'{name}' would leave {family.name} if all members contributed the same.")


def check_evidence(header: Header, seat: str, charter: Charter) -> None:
    """Refuse a header that claims more or less evidence than the charter allows."""
    limits, fewest = charter.limits, charter.least_observations
    if charter.sums is not None and header.shards:
        raise Refused("rules", "an unmasked contribution in a group that opens only sums.")
    if len(header.shards) > limits.shards or len(header.marks) > len(header.shards):
        raise Refused("evidence", f"{len(header.shards):,} shards and {len(header.marks):,} marks.")
    if not header.shards and (header.observations or header.units or header.marks):
        raise Refused("evidence", "observations without shards.")
    if header.shards and not fewest <= header.observations <= limits.observations:
        raise Refused(
            "evidence",
            f"{header.observations:,} observations; the charter allows {fewest:,} to {limits.observations:,}.",
        )
    least, most = charter.model.units_of_one(limits.units)
    if not least * header.observations <= header.units <= most * header.observations:
        raise Refused("evidence", f"{header.units:,} {charter.model.unit}s in {header.observations:,} observations.")
    if charter.counted.get(seat, frozenset()).intersection(header.shards):
        raise Refused("evidence", "a shard that is already in the epoch's prior.")
    if header.closed and header.shards:
        raise Refused("evidence", "a retraction must be empty.")


def check_consistency(header: Header, posterior: Posterior, charter: Charter) -> None:
    """Refuse a contribution whose evidence differs from its header, in total or in a component."""
    tally = charter.model.tally(posterior)
    if tally is None:
        return
    contradiction = tally.contradiction(header.units, header.observations)
    if contradiction is not None:
        raise Refused("consistency", f"{contradiction} ({charter.model.unit}s).")
    value = charter.limits.value
    for name, most in ({} if value is None else charter.model.largest_contribution(value)).items():
        room = (tally.each(header.units) + ABSOLUTE) * most
        if not (np.abs(dense(posterior.contribution[name])) <= room).all():
            raise Refused("consistency", f"'{name}' is beyond what numbers within ±{value:g} can add to it.")


def check_proof(proof: Proof, roster: Roster) -> None:
    """Refuse a pair of headers that does not prove an equivocation, in any epoch."""
    first, second = proof.first, proof.second
    if first.only_once != second.only_once or first.digest == second.digest:
        raise Refused("proof", "the two headers do not contradict each other.")
    for signed in (first, second):
        verify_signature(signed, roster.keys[signed.origin])
