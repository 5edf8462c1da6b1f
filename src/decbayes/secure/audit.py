"""What members have added to a sum, shown to all by all: how it is found out who has added wrong numbers.

    consent of every member ──► every member's key of that sum ──► its numbers, as its packet has them

A member's key of one sum makes the masks of its packet, and the member has signed the key's public half before. So
nobody can show other numbers than it has added. Nobody shows anything before all have agreed: all but one would show
that one.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from decbayes.errors import DecbayesError, SumRefused
from decbayes.privacy.grid import Integers
from decbayes.secure.agreement import Agreement, contradicted
from decbayes.secure.anchored import Share
from decbayes.secure.masks import pair_masks, public_half, unmasked
from decbayes.secure.seat import LOST, Seat
from decbayes.secure.terms import Kind, Message, Sign, Terms, check_message, digest_of, one_of_each


def consenting(seat: Seat, packets: Iterable[Message], sign: Sign) -> Message:
    """A member's word that it will show what it has added to a sum, if all others say so."""
    about = digest_of(one_of_each(seat.terms, packets, "masked"))
    return Message("consent", seat.terms.digest, seat.name, b"", about).signed(sign)


def showing(seat: Seat, packets: Iterable[Message], consents: Iterable[Message], sign: Sign) -> Message:
    """A member's key of a sum, once all members have agreed to show theirs."""
    about = digest_of(one_of_each(seat.terms, packets, "masked"))
    for name, consent in one_of_each(seat.terms, consents, "consent").items():
        if consent.about != about:
            raise SumRefused(f"{name} has agreed to show other masked numbers than these.")
    if seat.secrets is None:
        raise SumRefused(f"The key of {seat.name} for this sum is gone. {LOST}")
    return Message("shown", seat.terms.digest, seat.name, seat.secrets.private, about).signed(sign)


def shown_numbers(terms: Terms, sent: Mapping[Kind, Mapping[str, Message]], shown: Message) -> Integers:
    """What a member has masked; SumRefused if its key is not the one that it has signed. `sent`: by kind and seat."""
    check_message(terms, shown, "shown")
    own, keys = shown.seat, {name: message.body for name, message in sent["key"].items()}
    if public_half(shown.body) != keys[own]:
        raise SumRefused(f"{own} shows a key that is not the one it has signed for this sum.")
    words = np.frombuffer(sent["masked"][own].body, dtype="<u8")
    bare = unmasked(terms, own, sent["opening"][own].body, words) - pair_masks(terms, own, shown.body, keys)
    return bare.view(np.int64)


@dataclass(frozen=True)
class Finding:
    """What an audit says of one member: what it has added in all rounds, if shown, and what is wrong with it."""

    member: str
    share: Share | None
    problem: str = ""


def finding(agreement: Agreement, member: str, steps: Sequence[Integers]) -> Finding:
    """Whether data could have what a member has added in its rounds."""
    try:
        share = Share.of_steps(agreement.anchor.structure, np.sum(steps, axis=0), agreement.step)
    except DecbayesError as error:
        return Finding(member, None, f"no data have such numbers: {error}")
    if share.rows > agreement.most_rows * (1.0 + 1e-9):
        return Finding(member, share, f"it counts {share.rows:,.0f} rows, and {agreement.most_rows:,.0f} are agreed.")
    return Finding(member, share, contradicted(share) or "")
