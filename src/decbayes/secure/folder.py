"""Secure sums in a shared folder: its messages, which sum is next, and who must act.

    agreement.json, anchor.posterior        what all have agreed on
    round_1/north.key                       a member's three messages for the sum of round 1
    round_1/north.masked
    round_1/north.opening
    round_1-without-south/…                 a round that was started again without a member

The folder is untrusted. Only messages that their members have signed for the current sum count; all other files are
reported and left alone.
"""

import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from decbayes.base.writing import check_inside, write_whole
from decbayes.errors import DecbayesError, InvalidFile, SumRefused
from decbayes.files import load, save
from decbayes.secure.agreement import Agreement, Merged
from decbayes.secure.audit import Finding, findings
from decbayes.secure.gathered import KINDS, SHOWING, Gathered, no_messages
from decbayes.secure.private_rounds import PrivateAgreement
from decbayes.secure.seat import opened
from decbayes.secure.terms import Message, Terms, check_message, digest_of, message_from
from decbayes.structure import canonical_json

AGREEMENT, ANCHOR = "agreement.json", "anchor.posterior"
PLACE = re.compile(r"round_([1-9][0-9]{0,3})(?:-without-(\w+(?:-\w+)*))?")
# The longest agreement, and the bytes of a message beyond its numbers.
MOST_BYTES, AROUND = 1 << 22, 4096


@dataclass
class Sum(Gathered):
    """One sum in the folder: the valid messages of each member by kind, and problems with other files."""

    place: Path = Path()
    problems: tuple[str, ...] = ()


@dataclass
class Opened:
    """The open sums, one per round, and the merge after each."""

    members: Mapping[str, bytes]
    sums: list[Sum] = field(default_factory=list)
    results: list[Merged] = field(default_factory=list)

    @property
    def left_out(self) -> frozenset[str]:
        """Members that have no part in the last open sum, nor in later ones."""
        return frozenset(self.members.keys() - self.sums[-1].terms.seats.keys()) if self.sums else frozenset()

    def add(self, one: Sum, result: Merged) -> None:
        self.sums.append(one)
        self.results.append(result)


class Folder:
    """A folder of secure sums.

    Args:
        path: the folder, created by `begin`.

    >>> model = db.models.GaussianMean(variance=1.0, dimension=1)
    >>> publics = {name: bytes([number]) * 32 for number, name in enumerate(("north", "south", "west"))}
    >>> agreed = db.secure.Agreement("means", publics, db.Posterior.of_prior(model.structure))
    >>> folder = db.secure.Folder.begin("sums", agreed)
    >>> folder.next().waiting_for()
    ('key', ['north', 'south', 'west'])
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._results: dict[tuple[bytes, ...], Merged] = {}

    @classmethod
    def begin(
        cls, path: str | os.PathLike[str], agreement: Agreement, *, note: Mapping[str, Any] | None = None
    ) -> "Folder":
        """Write the agreement into a folder that has none yet; the `note` is stored with the anchor."""
        folder = cls(path)
        if (folder.path / AGREEMENT).exists():
            raise SumRefused(f"{folder.path} holds an agreement already. Choose another folder.")
        folder.path.mkdir(parents=True, exist_ok=True)
        save(agreement.anchor, folder.path / ANCHOR, note=note)
        write_whole(folder.path / AGREEMENT, canonical_json(agreement.plain()) + b"\n")
        return folder

    @cached_property
    def agreement(self) -> Agreement:
        file, anchor = (check_inside(self.path / name, self.path) for name in (AGREEMENT, ANCHOR))
        if not file.is_file():
            raise InvalidFile(f"{self.path} holds no {AGREEMENT}: `decbayes secure new` begins secure sums.")
        if file.stat().st_size > MOST_BYTES:
            raise InvalidFile(f"{file} is too long for an agreement.")
        try:
            text = file.read_bytes()
            return (PrivateAgreement if b'"privacy"' in text else Agreement).of(text, load(anchor))
        except SumRefused as error:
            raise SumRefused(f"{file}: {error}") from None

    def opened(self) -> Opened:
        """The open sums of all rounds, and their results."""
        history = Opened(self.agreement.members)
        while len(history.sums) < self.agreement.rounds:
            complete = [one for one in self.tried(history) if one.is_open]
            if not complete:
                break
            try:
                history.add(complete[0], self._result(complete[0], history.results))
            except SumRefused:
                if complete[0].waiting_for()[0] is None:
                    raise
                break  # the missing part may still arrive
        return history

    def _result(self, one: Sum, before: list[Merged]) -> Merged:
        """The result of an open sum, computed once for the same messages."""
        key = one.terms.digest, digest_of(one.messages["masked"]), digest_of(one.messages["opening"])
        if key not in self._results:
            steps = opened(one.terms, one.of("masked"), one.of("opening"))
            self._results[key] = self.agreement.result(steps, before, one.terms)
        return self._results[key]

    def next(self) -> Sum:
        """The next sum to open, over the fewest members if several have begun; the last one if all are open."""
        history = self.opened()
        if len(history.sums) == self.agreement.rounds:
            return history.sums[-1]
        tried = self.tried(history)
        return min((one for one in tried if one.begun), key=lambda one: len(one.terms.seats), default=tried[0])

    def results(self) -> list[Merged]:
        """The merge after each open round."""
        return self.opened().results

    def audited(self) -> list[Finding]:
        """What each member added to the open sums, as far as it has shown it, and what is wrong with it."""
        return findings(self.agreement, self.opened().sums, self.agreement.members)

    def tried(self, history: Opened) -> list[Sum]:
        """All sums of the next round over different sets of members, the largest set first."""
        number = len(history.sums) + 1
        places = (PLACE.fullmatch(path.name) for path in self.path.iterdir() if path.is_dir())
        named = {frozenset((match[2] or "").split("-")) - {""} for match in places if match and int(match[1]) == number}
        possible = {names | history.left_out for names in named if history.left_out <= names} | {history.left_out}
        chosen = sorted((sorted(names) for names in possible if self._possible(history, names)), key=len)
        return [self.looked_at(history, names) for names in chosen]

    def _possible(self, history: Opened, without: Collection[str]) -> bool:
        try:
            self.agreement.next_terms(history.results, without)
        except SumRefused:
            return False
        return True

    def looked_at(self, history: Opened, without: Collection[str]) -> Sum:
        """Read the folder's messages for the sum after the open ones, over all members but some."""
        terms = self.agreement.next_terms(history.results, without)
        place = self.path / "-".join([f"round_{terms.round}", *(["without", *sorted(without)] if without else [])])
        if place.is_symlink():
            raise SumRefused(f"{place} is a link that leads elsewhere. Remove it.")
        messages = no_messages((*KINDS, *SHOWING))
        problems = []
        for file in sorted(place.iterdir()) if place.is_dir() else ():
            if file.name.startswith("."):
                continue
            try:
                message = read_message(check_inside(file, place), terms)
            except DecbayesError as error:
                problems.append(f"{file}: {error}")
            else:
                messages[message.kind][message.seat] = message
        showing = {kind: messages.pop(kind) for kind in SHOWING}
        return Sum(terms, messages, showing, place, tuple(problems))

    def publish(self, one: Sum, message: Message) -> None:
        """Write a message of this site. An existing message is never replaced."""
        file = check_inside(one.place / f"{message.seat}.{message.kind}", self.path)
        if file.exists() and file.read_bytes() != message.to_bytes():
            raise SumRefused(f"{file} is not what this site has written. Find out who has changed it, and remove it.")
        one.place.mkdir(exist_ok=True)
        write_whole(file, message.to_bytes())


def read_message(file: Path, terms: Terms) -> Message:
    """The message in a file, checked against the file's name and this sum."""
    name, _, kind = file.name.rpartition(".")
    if not file.is_file() or kind not in (*KINDS, *SHOWING) or name not in terms.seats:
        raise InvalidFile("not a file of this sum; it is left alone.")
    if file.stat().st_size > 8 * terms.length + AROUND:
        raise InvalidFile("too long for a message of this sum; it is left alone.")
    message = message_from(file.read_bytes())
    if message.seat != name:
        raise SumRefused(f"it is a message of {message.seat!r}, under another name.")
    check_message(terms, message, kind)
    return message
