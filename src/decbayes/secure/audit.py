"""Audits: members show what they added to a sum, to find out who has added wrong numbers.

    consent of many members ──► the keys of the named members ──► their numbers, from their packets

A member's key for one sum determines the masks of its packet, and the member has signed the key's public half before.
So nobody can show other numbers than it has added. No member is shown without its consent:

1. The named members show nothing before all of them have consented, together with so many members that any two such
   majorities have an honest member in common. Each member consents once per sum, so only one set per sum is shown.
2. The audit reveals the sum over the members that are not named. They must be none, or enough for a sum of their own.
3. Only open sums are shown, and no private ones.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from decbayes.errors import DecbayesError, SumRefused
from decbayes.privacy.grid import Integers
from decbayes.secure.agreement import Agreement, contradiction_in
from decbayes.secure.anchored import Share
from decbayes.secure.gathered import Gathered
from decbayes.secure.masks import Masks, public_half
from decbayes.secure.seat import LOST, Seat
from decbayes.secure.terms import (
    FEWEST,
    PURPOSE,
    Kind,
    Message,
    Sign,
    Terms,
    check_message,
    check_seats,
    digest_of,
    one_of_each,
)
from decbayes.structure import canonical_json


def consent_message(seat: Seat, packets: Iterable[Message], sign: Sign, names: Collection[str]) -> Message:
    """A member's consent that these members of a sum, perhaps itself, show what they have added."""
    check_shown(seat.terms, names)
    return Message("consent", seat.terms.digest, seat.name, b"", about_shown(seat.terms, packets, names)).signed(sign)


def key_message(
    seat: Seat, packets: Iterable[Message], consents: Iterable[Message], sign: Sign, names: Collection[str]
) -> Message:
    """A member's key for a sum, once all named members and enough others have consented."""
    check_shown(seat.terms, names)
    about, count = about_shown(seat.terms, packets, names), len(seat.terms.seats)
    given = one_of_each(seat.terms, consents, "consent", absent=count)
    agreed = {name for name, consent in given.items() if consent.about == about}
    missing = sorted({*names} - agreed)
    if missing or seat.name not in names:
        raise SumRefused(f"No member is shown before all named members have agreed: {', '.join(missing)} has not.")
    if len(agreed) < majority(seat.terms):
        raise SumRefused(f"{len(agreed)} members have agreed, and {majority(seat.terms)} of {count} must.")
    if seat.secrets is None:
        raise SumRefused(f"The key of {seat.name} for this sum is gone. {LOST}")
    return Message("shown", seat.terms.digest, seat.name, seat.secrets.private, about).signed(sign)


def majority(terms: Terms) -> int:
    """The smallest size at which any two sets of members overlap in more members than may collude."""
    return (len(terms.seats) + terms.colluders) // 2 + 1


def check_shown(terms: Terms, names: Collection[str]) -> None:
    """Refuse to show these members if the sum over the others would reveal too much about them."""
    left = {name: key for name, key in terms.seats.items() if name not in names}
    if not names or not {*names} <= terms.seats.keys():
        raise SumRefused(f"Name members of the sum of round {terms.round}: {', '.join(terms.seats)}.")
    try:
        check_seats(left, terms.colluders) if left else None
    except SumRefused:
        raise SumRefused(
            f"In round {terms.round} only {', '.join(left)} would not be shown, and their sum would be known. Name all "
            f"members, or leave at least {max(FEWEST, terms.colluders + 2)} out."
        ) from None


def about_shown(terms: Terms, packets: Iterable[Message], names: Collection[str]) -> bytes:
    """The digest that a consent is about: these masked numbers and these members."""
    packed = digest_of(one_of_each(terms, packets, "masked"))
    return hashlib.sha256(PURPOSE + packed + canonical_json(sorted(names))).digest()


def next_message(seat: Seat, one: Gathered, names: Collection[str], sign: Sign) -> Message | None:
    """The next message of a consenting member: its consent and then, if it is named and enough consent, its key."""
    if "consent" not in seat.sent:
        return consent_message(seat, one.of("masked"), sign, names)
    if "shown" in seat.sent or seat.name not in names:
        return None
    try:
        return key_message(seat, one.of("masked"), one.showing["consent"].values(), sign, names)
    except SumRefused:
        return None


def shown_numbers(terms: Terms, sent: Mapping[Kind, Mapping[str, Message]], shown: Message) -> Integers:
    """The numbers that a member has masked; SumRefused if it shows another key than it signed.

    `sent` has the messages of the sum by kind and seat.
    """
    check_message(terms, shown, "shown")
    member, keys = shown.seat, {name: message.body for name, message in sent["key"].items()}
    if public_half(shown.body) != keys[member]:
        raise SumRefused(f"{member} shows a key that is not the one it has signed for this sum.")
    words = np.frombuffer(sent["masked"][member].body, dtype="<u8") - Masks.of(terms, member, shown.body, keys).words()
    return words.view(np.int64)


@dataclass(frozen=True)
class Finding:
    """An audit's result for one member: what it added in all rounds, if shown, and what is wrong with it."""

    member: str
    share: Share | None
    problem: str = ""

    def plain(self) -> dict[str, Any]:
        return {"member": self.member, "rows": self.share and round(self.share.rows), "problem": self.problem}

    def __str__(self) -> str:
        counted = "" if self.share is None else f"{self.share.rows:,.0f} rows; "
        return f"{self.member}: {counted}{self.problem or 'consistent with data'}"


def finding(agreement: Agreement, member: str, steps: Sequence[Integers]) -> Finding:
    """Check whether any data could have given what a member added in its rounds."""
    try:
        share = Share.of_steps(agreement.anchor.structure, np.sum(steps, axis=0), agreement.step)
    except DecbayesError as error:
        return Finding(member, None, f"no data give such numbers: {error}")
    if share.rows > agreement.most_rows * (1.0 + 1e-9):
        return Finding(
            member, share, f"it counts {share.rows:,.0f} rows; at most {agreement.most_rows:,.0f} were agreed."
        )
    return Finding(member, share, contradiction_in(share) or "")


def findings(agreement: Agreement, sums: Sequence[Gathered], members: Iterable[str]) -> list[Finding]:
    """What members added to open sums, as far as they have shown it, and what is wrong with it."""
    results = []
    for member in members:
        parts = [one for one in sums if member in one.terms.seats]
        try:
            steps = [shown_numbers(one.terms, one.messages, one.showing["shown"][member]) for one in parts]
        except KeyError:
            results.append(Finding(member, None, "it has not shown its numbers."))
        except SumRefused as error:
            results.append(Finding(member, None, str(error)))
        else:
            results += [finding(agreement, member, steps)] if steps else []
    return results
