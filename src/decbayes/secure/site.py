"""One member's part in the sums of a folder. Its secrets are in another folder that only their owner can read."""

import json
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from decbayes.base.writing import write_whole
from decbayes.disclosure.ledger import Ledger
from decbayes.errors import SumRefused
from decbayes.privacy.grid import Integers
from decbayes.privacy.releasing import Spending
from decbayes.secure.anchored import Share
from decbayes.secure.audit import next_message
from decbayes.secure.folder import Folder, Opened, Sum
from decbayes.secure.gathered import turn
from decbayes.secure.private_rounds import PrivateAgreement, merge_in, spent_bytes, spent_in
from decbayes.secure.seat import Seat
from decbayes.secure.terms import Kind, Message, Sign, Terms

Contribute = Callable[[Any, Any, Any], Any]
"""Returns what a member adds in a round, a `Share`, given the round, the previous merge and its own part in that.

If sums are private it returns a `PrivateShare`, given the promise, the private merge and the ids of its releases."""

OPENED = "opened.json"


class Site:
    """A member of the sums in a folder.

    Args:
        folder: the shared folder with the messages.
        sign: signs with the member's private key.
        private: a folder that nobody else can read. Losing it ends this member's part in sums that are not open yet.
        ledger: the ledger that records what private sums spend.

    >>> from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    >>> keys = {name: Ed25519PrivateKey.generate() for name in ("north", "south", "west")}
    >>> publics = {name: key.public_key().public_bytes_raw() for name, key in keys.items()}
    >>> model = db.models.GaussianMean(variance=1.0, dimension=1)
    >>> agreed = db.secure.Agreement("means", publics, db.Posterior.of_prior(model.structure), rounds=1)
    >>> folder = db.secure.Folder.begin("sums", agreed)
    >>> share = db.secure.Share(model.fit(np.full((5, 1), 2.0)).posterior, rows=5, persons=5, units=5)
    >>> for _ in range(3):
    ...     for name, key in keys.items():
    ...         done = db.secure.Site(folder, name, key.sign, f"{name} only").advance(lambda *round: share)
    >>> folder.results()[0].share.rows
    15.0
    """

    def __init__(
        self, folder: Folder, name: str, sign: Sign, private: str | Path, *, ledger: Ledger | None = None
    ) -> None:
        if name not in folder.agreement.members:
            raise SumRefused(f"{name} is not a member; there are {', '.join(folder.agreement.members)}.")
        self.folder, self.name, self.sign, self.private = folder, name, sign, Path(private)
        self.ledger = ledger

    def advance(self, contribute: Contribute, without: Collection[str] = ()) -> list[str]:
        """Take all steps that are this member's turn, and return what was done.

        `without` names members to leave out from the current round on; all others must name the same.
        """
        done: list[str] = []
        while (step := self._step(contribute, frozenset(without))) is not None:
            done.append(step)
        return done

    def show(self) -> list[str]:
        """Consent to show what this member added to all open sums, and show it once all members have consented."""
        if isinstance(self.folder.agreement, PrivateAgreement):
            raise SumRefused("A private release without all of its noise protects nobody: it is never shown.")
        done = []
        for one in self.folder.opened().sums:
            seat = self._required_seat(one.terms)
            shown: dict[str, Message] = {kind: by[self.name] for kind, by in one.showing.items() if self.name in by}
            message = next_message(replace(seat, sent={**seat.sent, **shown}), one, one.terms.seats, self.sign)
            if message is not None:
                self.folder.publish(one, message)
                done.append(f"round {one.number}: {SAID[message.kind].format(self.name)}")
        if not self.folder.opened().sums:
            raise SumRefused("No sum is open yet: there is nothing to show.")
        return done

    def own_share(self) -> Share:
        """Everything that this member added to the open sums."""
        agreement = self.folder.agreement
        return Share.of_steps(agreement.anchor.structure, self._own_steps(self.folder.opened()), agreement.step)

    def _step(self, contribute: Contribute, without: frozenset[str]) -> str | None:
        """Store and publish the next message; None if it is not this member's turn."""
        history = self.folder.opened()
        current = self.current(without, history)
        kind, missing = current.waiting_for()
        if kind is None or self.name not in missing:
            return None
        if kind == "key":
            seat = self._keyed(current, self._stored(current.terms))
        elif kind == "masked":
            seat = self._mask(history, current, self._required_seat(current.terms), contribute)
        else:
            self._check_opened(current.terms)
            self._spend(current.terms)
            private = isinstance(self.folder.agreement, PrivateAgreement)
            seat = self._required_seat(current.terms).opening(current.of("masked"), self.sign, keep=not private)
            self._remember_opened(current.terms)
        self._store(seat)
        self.folder.publish(current, seat.sent[kind])
        return f"round {current.number}: {DONE[kind]}"

    def current(self, without: Collection[str] = (), history: Opened | None = None) -> Sum:
        """The next sum for this member, started again without the named members if there are any."""
        history, named = history or self.folder.opened(), frozenset(without)
        if self.name in history.left_out:
            raise SumRefused(f"The others have opened a sum without {self.name}, which no longer takes part.")
        if len(history.sums) == self.folder.agreement.rounds:
            if named - history.left_out:
                raise SumRefused(
                    f"A sum over {len(history.sums[-1].terms.seats)} members was opened, and it was the last one. "
                    "`decbayes secure result` writes it."
                )
            return history.sums[-1]
        current = self.folder.looked_at(history, history.left_out | (named or self._began_without(history)))
        if self.name not in current.terms.seats:
            raise SumRefused(f"{self.name} cannot continue without itself.")
        if named:
            self._give_up_all_but(current, history)
        return current

    def _began_without(self, history: Opened) -> frozenset[str]:
        """The members without whom this one has begun the next round, unless it has given up that sum."""
        members = self.folder.agreement.members.keys()
        for tried in self.folder.tried(history):
            seat = self._stored(tried.terms)
            if seat is not None and not seat.given_up:
                return frozenset(members - tried.terms.seats.keys())
        return frozenset()

    def _give_up_all_but(self, chosen: Sum, history: Opened) -> None:
        """Give up all sums of the same round over other members, which then stay closed."""
        for other in self.folder.tried(history):
            seat = self._stored(other.terms)
            if other.terms.digest != chosen.terms.digest and seat is not None:
                self._store(seat.giving_up())

    def _keyed(self, current: Sum, seat: Seat | None) -> Seat:
        self._check_opened(current.terms)
        return seat or Seat.begun(current.terms, self.name, self.sign)

    def _mask(self, history: Opened, current: Sum, seat: Seat, contribute: Contribute) -> Seat:
        """Mask this member's numbers; an interrupted command's numbers are used again."""
        if "masked" in seat.sent:
            return seat
        agreement = self.folder.agreement
        if isinstance(agreement, PrivateAgreement):
            ids = frozenset(self._spending(one.terms).release for one in history.sums)
            promise = agreement.promise(len(current.terms.seats))
            share = contribute(promise, merge_in(history.results), ids)
            self._private_folder()
            write_whole(self._file(current.terms, "spending"), spent_bytes(share.spending), private=True)
            steps = agreement.added(share, None)
        else:
            last = self._own_steps(history) if history.sums else None
            previous = (
                None if last is None else Share.of_steps(agreement.anchor.structure, last, agreement.step).posterior
            )
            merged = history.results[-1].posterior if history.results else agreement.anchor
            steps = agreement.added(contribute(current.number, merged, previous), last)
        return seat.masking(steps, current.of("key"), self.sign)

    def _own_steps(self, history: Opened) -> Integers:
        """Everything that this member added to open sums, in steps."""
        total: Integers = np.sum([self._required_seat(one.terms).added for one in history.sums], axis=0)
        return total

    def _spending(self, terms: Terms) -> Spending:
        file = self._file(terms, "spending")
        if not file.exists():
            raise SumRefused(f"What {self.name} has added to round {terms.round} is not in {self.private}. {RESTORE}")
        return spent_in(file.read_bytes())

    def _spend(self, terms: Terms) -> None:
        """Record what opening this part spends, if sums are private."""
        if isinstance(self.folder.agreement, PrivateAgreement):
            if self.ledger is None:
                raise SumRefused("Private sums need the site's ledger: it records what they spend.")
            self.ledger.spend(self._spending(terms), once=True)

    def _check_opened(self, terms: Terms) -> None:
        """Refuse a sum if one of the same model over other members was opened: the difference reveals some members.

        The anchor does not matter, since it only determines the slots. Later rounds add only changes, and private ones
        have noise and a budget.
        """
        if terms.round > 1 or isinstance(self.folder.agreement, PrivateAgreement):
            return
        before = self._opened().get(self._model())
        if before is not None and before != members_of(terms):
            raise SumRefused(
                f"{self.name} has opened a sum of this model over other members. Together they would show the "
                f"numbers of members that are in only one of them. {ACCEPT}"
            )

    def _remember_opened(self, terms: Terms) -> None:
        if terms.round > 1 or isinstance(self.folder.agreement, PrivateAgreement):
            return
        opened = self._opened() | {self._model(): members_of(terms)}
        write_whole(self._private_folder() / OPENED, json.dumps(opened).encode(), private=True)

    def _model(self) -> str:
        """The fingerprint of the model, the same for any number of components."""
        structure = self.folder.agreement.anchor.structure
        return (structure.with_components(1) if structure.resizable else structure).fingerprint

    def _opened(self) -> dict[str, list[str]]:
        file = self.private / OPENED
        return dict(json.loads(file.read_text(encoding="utf-8"))) if file.exists() else {}

    def _stored(self, terms: Terms) -> Seat | None:
        file = self._file(terms, "seat")
        return Seat.from_bytes(terms, file.read_bytes()) if file.exists() else None

    def _required_seat(self, terms: Terms) -> Seat:
        seat = self._stored(terms)
        if seat is None:
            raise SumRefused(f"The secrets of {self.name} for this sum are not in {self.private}. {RESTORE}")
        return seat

    def _store(self, seat: Seat) -> None:
        self._private_folder()
        write_whole(self._file(seat.terms, "seat"), seat.to_bytes(), private=True)

    def _private_folder(self) -> Path:
        self.private.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self.private

    def _file(self, terms: Terms, kind: str) -> Path:
        return self.private / f"{terms.digest.hex()[:32]}.{kind}"


DONE: dict[Kind, str] = {
    "key": "key sent",
    "masked": "contribution masked and sent",
    "opening": "part of the opening sent",
}
SAID = {"consent": "agreed to show what {} has added", "shown": "shown to all"}
ACCEPT = "If you accept that, or have other data now, give this site another folder for its secrets (--private)."
RESTORE = "Restore that folder; else the others must begin again without it."


def members_of(terms: Terms) -> list[str]:
    return sorted(key.hex() for key in terms.seats.values())


def whose_turn(folder: Folder, current: Sum) -> str:
    """A line that says whose turn it is."""
    rounds = folder.agreement.rounds
    done = len(folder.opened().sums) == rounds
    return turn(current.number, rounds, *((None, []) if done else current.waiting_for()))


def proposals(folder: Folder, current: Sum) -> list[str]:
    """One line per sum of this round that others have begun over other members."""
    members, history = folder.agreement.members.keys(), folder.opened()
    lines = []
    for other in folder.tried(history) if not current.is_open else ():
        left_out = sorted(members - other.terms.seats.keys() - history.left_out)
        if left_out and other.begun and other.terms.digest != current.terms.digest:
            who = ", ".join(other.messages["key"])
            lines.append(
                f"{who} wants to continue without {', '.join(left_out)}: add --without {' '.join(left_out)} to agree"
            )
    return lines
