"""An independent, naive computation of the charter in force, from the beginning each time."""

import hashlib
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Any

from decbayes.network.protocol.group.charter import Charter
from decbayes.network.protocol.group.keys import AgentId
from decbayes.network.protocol.group.motions import Admit, Amend, Ballot, Extend, Open, Remove, Rotate
from decbayes.network.protocol.group.roster import rules_text


class Violation(AssertionError):
    """A guarantee of the protocol that was broken."""


@dataclass
class Count:
    """The seats with their keys and admissions, which of them are present, the rules and the epoch."""

    keys: dict[str, list[bytes]]
    since: dict[str, bytes]
    present: set[str]
    terms: tuple[Any, ...]
    epoch: bytes = bytes(32)
    in_prior: dict[str, tuple[str, ...]] = field(default_factory=dict)
    words: set[str] = field(default_factory=set)
    void: Set[AgentId] = frozenset()

    @property
    def voters(self) -> dict[str, AgentId]:
        """The seats that count, and the key with which each votes."""
        newest = {name: hashlib.sha256(self.keys[name][-1]).digest() for name in self.present}
        return {name: key for name, key in newest.items() if key not in self.void}

    def owner(self, key: bytes) -> str | None:
        return next((name for name, keys in self.keys.items() if key in keys), None)


class Recount:
    """Computes what follows from a charter and resolutions."""

    def __init__(self, charter: Charter) -> None:
        self._charter = charter
        self._known: dict[frozenset[bytes], Count] = {}
        self._stood: dict[frozenset[Any], set[bytes]] = {}

    def __call__(self, settled: Mapping[bytes, Ballot], void: Set[AgentId]) -> Count:
        marks = {hashlib.sha256(b"void" + key).digest(): key for key in void}
        name = frozenset([*((digest, *ballot.votes) for digest, ballot in settled.items()), *marks])
        if name not in self._stood:
            self._stood[name] = self._standing(settled, marks)
        return self._count({digest: settled[digest] for digest in self._stood[name]}, marks)

    def _standing(self, settled: Mapping[bytes, Ballot], marks: Mapping[bytes, AgentId]) -> set[bytes]:
        """The resolutions that do not depend on votes of a key that was taken away beside them, computed naively."""
        past = {digest: self._past(ballot, settled) for digest, ballot in settled.items()}
        enough, takes = {}, {}
        for digest, ballot in settled.items():
            then = self._count(*self._restricted(past[digest], settled, marks))
            check_votes(ballot, then)
            enough[digest] = then.terms[0].agreement * len(then.voters)
            match ballot.question:
                case Open() | Extend():
                    enough[digest] = -1.0
                case Remove(seat) | Rotate(seat, _):
                    takes[digest] = hashlib.sha256(then.keys[seat][-1]).digest()
        sure: set[bytes] = set()
        gone: set[bytes] = set()

        def votes(digest: bytes, strikers: Set[bytes]) -> int:
            beside = {d for d in strikers if digest != d and digest not in past[d] and d not in past[digest]}
            lost = {takes[d] for d in beside if d in takes}
            return sum(vote.origin not in lost for vote in settled[digest].votes.values())

        while True:
            safe = sure | {d for d in settled if votes(d, settled.keys() - gone) > enough[d]}
            safe |= {d for d in settled if any(d in past[later] for later in safe)}
            weak = {d for d in settled.keys() - sure if not votes(d, sure) > enough[d]}
            weak = {d for d in weak if all(later in gone for later in settled if d in past[later])}
            if (safe, weak) == (sure, gone) and takes.keys() <= sure | gone:
                return settled.keys() - gone
            # Resolutions that strike each other out stand once nothing else decides about them.
            sure, gone = (sure | takes.keys() - gone if (safe, weak) == (sure, gone) else safe), weak

    def _restricted(
        self, past: Set[bytes], settled: Mapping[bytes, Ballot], marks: Mapping[bytes, AgentId]
    ) -> tuple[dict[bytes, Ballot], dict[bytes, AgentId]]:
        return {d: settled[d] for d in past if d in settled}, {d: marks[d] for d in past if d in marks}

    def _count(self, settled: Mapping[bytes, Ballot], marks: Mapping[bytes, AgentId]) -> Count:
        """What follows if all of these stand."""
        name = frozenset([*settled, *marks])
        if name not in self._known:
            self._known[name] = self._compute(settled, marks)
        return self._known[name]

    def _compute(self, settled: Mapping[bytes, Ballot], marks: Mapping[bytes, AgentId]) -> Count:
        charter, done = self._charter, set[bytes]()
        members = {name: [key] for name, key in charter.members.items()}
        count = Count(
            members,
            {},
            {*members},
            (charter.rules, charter.limits, rules_text(charter.disclosure)),
            void={*marks.values()},
        )
        while len(done) < len(settled) + len(marks):
            # A void key is ordered like a resolution without predecessors.
            ready = {ballot.digest for ballot in settled.values() if {*ballot.motion.after} <= done} | marks.keys()
            digest = min(ready - done)
            if digest in settled:
                before = self._past(settled[digest], settled)
                apply(settled[digest], count, self._count(*self._restricted(before, settled, marks)))
            done.add(digest)
        return count

    def _past(self, ballot: Ballot, settled: Mapping[bytes, Ballot]) -> set[bytes]:
        past = {*ballot.motion.after}
        while True:
            more = {d for digest in past if digest in settled for d in settled[digest].motion.after} | past
            if more == past:
                return past
            past = more


def check_votes(ballot: Ballot, then: Count) -> None:
    right = [seat for seat, vote in ballot.votes.items() if then.voters.get(seat) == vote.origin]
    if not len(right) > then.terms[0].agreement * len(then.voters):
        raise Violation(f"'{ballot.text}' was settled by {len(right)} of {len(then.voters)} seats")


def apply(ballot: Ballot, now: Count, then: Count) -> None:
    """Apply a resolution, if its subject is still as it was when it was voted on."""
    question, digest, most = ballot.question, ballot.digest, now.terms[1].members
    match question:
        case Admit(name, key) if name not in now.present and now.owner(key) in (None, name) and len(now.present) < most:
            if hashlib.sha256(key).digest() not in now.void:
                now.keys[name] = [known for known in now.keys.get(name, []) if known != key] + [key]
                now.since[name] = digest
                now.present.add(name)
        case Remove(name) if same(name, now, then) and not (name in now.voters and len(now.voters) == 1):
            now.present.discard(name)
        case Rotate(name, key) if same(name, now, then) and now.owner(key) is None:
            if now.keys[name] == then.keys[name]:
                now.keys[name] = [*now.keys[name], key]
        case Amend(rules, limits, disclosure) if now.terms == then.terms and len(now.present) <= limits.members:
            now.terms = rules, limits, disclosure
        case Extend(words):
            now.words |= {*words}
        case Open(parts) if now.epoch == then.epoch:
            now.epoch, now.in_prior = digest, {part.seat: part.shards for part in parts}


def same(name: str, now: Count, then: Count) -> bool:
    both = name in now.present and name in then.present
    return both and now.since.get(name) == then.since.get(name)
