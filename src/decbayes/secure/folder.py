"""Secure sums in a folder that members share: what lies there, which sum is next, and who must act.

    agreement.json, anchor.posterior        what all have agreed on
    round_1/north.key                       a member's three messages for the sum of round 1
    round_1/north.masked
    round_1/north.opening
    round_1-without-south/…                 the same round, begun again without a member

Nobody vouches for what lies in the folder. Only messages that their members have signed for the sum at hand count; all
else is named and left alone.
"""

import os
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from decbayes.errors import DecbayesError, InvalidFile, SumRefused
from decbayes.files import check_inside, load, save, write_whole
from decbayes.posterior import Posterior
from decbayes.secure.agreement import Agreement, Merged
from decbayes.secure.gathered import KINDS, Gathered, no_messages
from decbayes.secure.seat import opened
from decbayes.secure.terms import Message, Terms, check_message, message_from
from decbayes.structure import canonical_json

AGREEMENT, ANCHOR = "agreement.json", "anchor.posterior"
FIRST = re.compile(r"round_1(?:-without-(\w+(?:-\w+)*))?")
# Longer files are no agreement; a message has its numbers and little else.
MOST_BYTES, AROUND = 1 << 22, 4096


@dataclass
class Sum(Gathered):
    """What lies in the folder for one sum: the valid messages of each member by kind, and what is wrong there."""

    place: Path = Path()
    problems: tuple[str, ...] = ()


class Folder:
    """A folder of secure sums.

    Args:
        path: the folder, made by `begin`.

    >>> model = db.models.GaussianMean(variance=1.0, dimension=1)
    >>> publics = {name: bytes([number]) * 32 for number, name in enumerate(("north", "south", "west"))}
    >>> agreed = db.secure.Agreement("means", publics, db.Posterior.of_prior(model.structure))
    >>> folder = db.secure.Folder.begin("sums", agreed)
    >>> folder.next().waiting_for()
    ('key', ['north', 'south', 'west'])
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    @classmethod
    def begin(
        cls, path: str | os.PathLike[str], agreement: Agreement, *, note: Mapping[str, Any] | None = None
    ) -> "Folder":
        """Write what was agreed on into a folder that has no agreement yet; a `note` goes with the anchor."""
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
            return Agreement.of(file.read_bytes(), load(anchor))
        except SumRefused as error:
            raise SumRefused(f"{file}: {error}") from None

    def sums(self, without: Collection[str] | None = None) -> Iterator[Sum]:
        """The sums of the rounds so far, each opened but perhaps the last one.

        `without` names those who are left out of the first round, as long as no sum of it was opened; by default those
        of the smallest that was begun.
        """
        agreed = self.agreement
        anchor, left_out = agreed.anchor, None
        for number in range(1, agreed.rounds + 1):
            current = self.first(without) if left_out is None else self.looked_at(number, anchor, left_out)
            yield current
            if not current.is_open:
                return
            anchor, left_out = self.merged(current).posterior, agreed.members.keys() - current.terms.seats.keys()

    def next(self, without: Collection[str] | None = None) -> Sum:
        """The last sum that was begun, or the one that comes next."""
        return list(self.sums(without))[-1]

    def results(self) -> list[Merged]:
        """The merge after each round that was opened."""
        return [self.merged(each) for each in self.sums() if each.is_open]

    def merged(self, one: Sum) -> Merged:
        """The merge of an opened sum."""
        return self.agreement.merged(opened(one.terms, one.of("masked"), one.of("opening")), len(one.terms.seats))

    def first(self, without: Collection[str] | None = None) -> Sum:
        """The sum of the first round: the one that was opened; else that without some members, or the smallest."""
        tried = self.tried()
        if complete := [each for each in tried if each.is_open]:
            return complete[0]
        if without is not None:
            return self.looked_at(1, self.agreement.anchor, without)
        return min((each for each in tried if each.begun), key=lambda each: len(each.terms.seats), default=tried[0])

    def tried(self) -> list[Sum]:
        """All sums of the first round that were begun over different members, that over all of them first."""
        places = (FIRST.fullmatch(each.name) for each in self.path.iterdir() if each.is_dir())
        named = {frozenset(filter(None, (found[1] or "").split("-"))) for found in places if found}
        everybody: frozenset[str] = frozenset()
        possible = sorted((sorted(names) for names in named | {everybody} if self._possible(names)), key=len)
        return [self.looked_at(1, self.agreement.anchor, names) for names in possible]

    def _possible(self, without: Collection[str]) -> bool:
        try:
            self.agreement.terms(1, self.agreement.anchor, without)
        except SumRefused:
            return False
        return True

    def looked_at(self, number: int, anchor: Posterior, without: Collection[str]) -> Sum:
        """What lies there for one sum, over all members but some."""
        terms = self.agreement.terms(number, anchor, without)
        place = self.path / "-".join([f"round_{number}", *(["without", *sorted(without)] if without else [])])
        if place.is_symlink():
            raise SumRefused(f"{place} is a link that leads elsewhere. Remove it.")
        messages = no_messages()
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
        return Sum(terms, messages, place, tuple(problems))

    def publish(self, one: Sum, message: Message) -> None:
        """Write a message of this site. One that lies there already is never replaced."""
        file = check_inside(one.place / f"{message.seat}.{message.kind}", self.path)
        if file.exists() and file.read_bytes() != message.to_bytes():
            raise SumRefused(f"{file} is not what this site has written. Find out who has changed it, and remove it.")
        one.place.mkdir(exist_ok=True)
        write_whole(file, message.to_bytes())


def read_message(file: Path, terms: Terms) -> Message:
    """The message in a file, if it is the one that the file's name says, for this sum."""
    name, _, kind = file.name.rpartition(".")
    if not file.is_file() or kind not in KINDS or name not in terms.seats:
        raise InvalidFile("no file of this sum; it is left alone.")
    if file.stat().st_size > 8 * terms.length + AROUND:
        raise InvalidFile("too long for a message of this sum; it is left alone.")
    message = message_from(file.read_bytes())
    if message.seat != name:
        raise SumRefused(f"it is a message of {message.seat!r}, under another name.")
    check_message(terms, message, kind)
    return message
