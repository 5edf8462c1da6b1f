"""The seats and rules in force: a pure function of the charter and the settled resolutions.

1. Each resolution names those that it comes after. The set alone determines the order in which they are applied:
   predecessors first, then by digest.
2. A resolution takes effect only if its subject is still as it was when it was voted on. Of two that contradict each
   other, the first in that order is in force and the other is *overruled*.
3. A key that has signed two things under one number is *void*, as if by a resolution without predecessors.
"""

import hashlib
import heapq
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType

from decbayes.disclosure import Rules as DisclosureRules
from decbayes.network.protocol.group.charter import Charter
from decbayes.network.protocol.group.keys import AgentId, agent_id, short
from decbayes.network.protocol.group.motions import (
    Admit,
    Amend,
    Extend,
    Motion,
    Open,
    PriorPart,
    Question,
    Remove,
    Rotate,
    Show,
)
from decbayes.network.protocol.limits import Limits, Rules
from decbayes.structure import canonical_json

NOTHING = bytes(32)
"""Stands for a digest where there is no predecessor."""


@dataclass(frozen=True)
class Seat:
    """A voter and owner of shards: a permanent name, and all keys that it has had, the current one last.

    >>> network.Roster.founded(charter).seats["a"].key == identity.public
    True
    """

    name: str
    keys: tuple[bytes, ...]
    admitted: bytes = NOTHING
    """The resolution that gave the seat to the member."""
    present: bool = True

    @property
    def key(self) -> bytes:
        return self.keys[-1]


@dataclass(frozen=True)
class Void:
    """A key that has signed two things under one number."""

    key: AgentId

    @property
    def digest(self) -> bytes:
        return hashlib.sha256(b"void" + self.key).digest()


@dataclass(frozen=True)
class Roster:
    """The seats, rules and epoch in force.

    >>> roster = network.Roster.founded(charter)
    >>> roster.called(identity.id), roster.counts(identity.id, {identity.id})
    ('a', True)
    """

    seats: Mapping[str, Seat]
    rules: Rules
    limits: Limits
    disclosure: str = ""
    opened: bytes = NOTHING
    """The resolution that opened the epoch."""
    parts: tuple[PriorPart, ...] = ()
    """The parts of the epoch's prior, by seat."""
    words: Mapping[bytes, tuple[str, ...]] = field(default_factory=dict)
    """Words added to the charter's vocabulary, by the resolutions that added them."""
    shows: tuple[Show, ...] = ()
    """Audits of sums. All are of the same members, because two different sets would reveal more."""
    void: frozenset[AgentId] = frozenset()
    overruled: frozenset[bytes] = field(default=frozenset(), compare=False)
    """Resolutions without effect because earlier ones contradict them."""

    @classmethod
    def founded(cls, charter: Charter) -> "Roster":
        """The roster that the charter states, before any decision."""
        seats = {name: Seat(name, (public,)) for name, public in charter.members.items()}
        return cls(MappingProxyType(seats), charter.rules, charter.limits, rules_text(charter.disclosure))

    @cached_property
    def keys(self) -> Mapping[AgentId, bytes]:
        """All current and former public keys of seats: a former key may have signed before it was replaced."""
        return {agent_id(key): key for seat in self.seats.values() for key in seat.keys}

    @cached_property
    def names(self) -> Mapping[AgentId, str]:
        return {agent_id(key): seat.name for seat in self.seats.values() for key in seat.keys}

    @cached_property
    def members(self) -> Mapping[str, bytes]:
        """The public key of each seat that votes and counts."""
        return {name: self.seats[name].key for name in self.sitting}

    @cached_property
    def sitting(self) -> Mapping[str, AgentId]:
        """The seats that vote and count (neither removed nor excluded), with the id of their current key."""
        keys = {name: agent_id(seat.key) for name, seat in self.seats.items() if seat.present}
        return {name: key for name, key in keys.items() if key not in self.void}

    @property
    def needed(self) -> int:
        """The number of votes that settle a motion: more than the agreed share of all seats."""
        return int(self.rules.agreement * len(self.sitting)) + 1

    def called(self, origin: AgentId) -> str:
        """The name of the seat with this key, current or former; a short id for unknown keys."""
        return self.names.get(origin, short(origin))

    def sits(self, origin: AgentId) -> bool:
        """Whether this is the current key of a seat that counts."""
        return self.sitting.get(self.names.get(origin, "")) == origin

    def newest(self, seat: str, known: Container[AgentId]) -> AgentId | None:
        """The newest of a seat's keys that is in `known` and not void."""
        keys = (agent_id(key) for key in reversed(self.seats[seat].keys))
        return next((key for key in keys if key in known and key not in self.void), None)

    def counts(self, origin: AgentId, known: Container[AgentId]) -> bool:
        """Whether a record under this key counts: its seat does, and no record under a newer key is known."""
        seat = self.names.get(origin)
        return seat in self.sitting and self.newest(str(seat), known) == origin

    @cached_property
    def counted(self) -> Mapping[str, frozenset[str]]:
        """The shards of each seat that are in the prior."""
        return {part.seat: frozenset(part.shards) for part in self.parts if part.seat in self.sitting}

    def after(self, question: Question, digest: bytes, voted_on: "Roster") -> "Roster | None":
        """The roster with a resolution applied; None if it has no effect.

        `voted_on` is the roster under which it was put: the resolution's subject must still be as it was there.
        """
        match question:
            case Admit(name, key):
                return self._admitted(name, key, digest)
            case Remove(name):
                same = self._same(name, voted_on) and (name not in self.sitting or len(self.sitting) > 1)
                return self._seated(replace(self.seats[name], present=False)) if same else None
            case Rotate(name, key):
                same = self._same(name, voted_on) and self.seats[name].keys == voted_on.seats[name].keys
                fresh = same and agent_id(key) not in self.keys
                return self._seated(replace(self.seats[name], keys=(*self.seats[name].keys, key))) if fresh else None
            case Amend(rules, limits, disclosure):
                now, then = ((roster.rules, roster.limits, roster.disclosure) for roster in (self, voted_on))
                changes = now == then != (rules, limits, disclosure)
                possible = self._present <= limits.members and (self.opened == NOTHING or rules.components == "model")
                changed = replace(self, rules=rules, limits=limits, disclosure=disclosure)
                return changed if changes and possible else None
            case Extend(words):
                # Two resolutions may add the same words if their voters did not know of each other.
                return replace(self, words=MappingProxyType({**self.words, digest: words}))
            case Open(parts):
                possible = self.opened == voted_on.opened and self.rules.components == "model"
                return replace(self, opened=digest, parts=parts) if possible else None
            case Show(_, _, seats):
                possible = question not in self.shows and {show.seats for show in self.shows} <= {seats}
                return replace(self, shows=(*self.shows, question)) if possible else None

    @property
    def _present(self) -> int:
        return sum(seat.present for seat in self.seats.values())

    def _same(self, name: str, before: "Roster") -> bool:
        """Whether a seat has been present without interruption since `before`."""
        seats = self.seats.get(name), before.seats.get(name)
        return all(seat is not None and seat.present for seat in seats) and (
            self.seats[name].admitted == before.seats[name].admitted
        )

    def _admitted(self, name: str, key: bytes, digest: bytes) -> "Roster | None":
        known, owner = self.seats.get(name), self.names.get(agent_id(key))
        full = self._present >= self.limits.members
        if full or owner not in (None, name) or agent_id(key) in self.void or (known is not None and known.present):
            return None
        earlier = () if known is None else tuple(before for before in known.keys if before != key)
        return self._seated(Seat(name, (*earlier, key), digest))

    def _seated(self, seat: Seat) -> "Roster":
        return replace(self, seats=MappingProxyType(dict(sorted({**self.seats, seat.name: seat}.items()))))


def with_all_keys(roster: Roster, questions: Iterable[Question]) -> Roster:
    """The roster with all keys that resolutions have named added as former keys, so that their records are kept.

    A resolution that does not stand may stand again when further votes or later resolutions arrive.
    """
    seats = dict(roster.seats)
    for question in questions:
        if isinstance(question, Admit | Rotate) and agent_id(question.key) not in roster.keys:
            seat = seats.get(question.seat, Seat(question.seat, (), present=False))
            seats[question.seat] = replace(seat, keys=(question.key, *seat.keys))
    return roster if seats == roster.seats else replace(roster, seats=MappingProxyType(seats))


def rules_text(disclosure: DisclosureRules | None) -> str:
    """The disclosure rules as motions encode them: canonical JSON, empty if there are none."""
    return "" if disclosure is None else canonical_json(disclosure.plain()).decode()


Settled = Mapping[bytes, Motion | Void]
"""Settled resolutions and void keys by digest. These sets only grow and are joined by union."""


def latest(settled: Settled) -> tuple[bytes, ...]:
    """The resolutions that no other one comes after: they name a version of the charter."""
    before = {digest for motion in settled.values() if isinstance(motion, Motion) for digest in motion.after}
    return tuple(sorted(settled.keys() - before))


def history_of(settled: Settled, after: Iterable[bytes]) -> dict[bytes, Motion | Void]:
    """These resolutions and everything they come after."""
    history: dict[bytes, Motion | Void] = {}
    waiting = [*after]
    while waiting:
        digest = waiting.pop()
        if digest not in history:
            history[digest] = element = settled[digest]
            waiting += element.after if isinstance(element, Motion) else ()
    return history


def in_order(settled: Settled) -> list[bytes]:
    """The order in which resolutions are applied: predecessors first, then by digest."""
    missing = {digest: len(m.after) if isinstance(m, Motion) else 0 for digest, m in settled.items()}
    following: dict[bytes, list[bytes]] = {digest: [] for digest in settled}
    for digest, motion in settled.items():
        for before in motion.after if isinstance(motion, Motion) else ():
            following[before].append(digest)
    ready = [digest for digest, count in missing.items() if not count]
    heapq.heapify(ready)
    order = []
    while ready:
        order.append(heapq.heappop(ready))
        for digest in following[order[-1]]:
            missing[digest] -= 1
            if not missing[digest]:
                heapq.heappush(ready, digest)
    return order


def roster_of(founded: Roster, settled: Settled, voted_on: Callable[[Motion], Roster]) -> Roster:
    """The roster in force after these resolutions; `voted_on` gives the roster under which a motion was put."""
    void = frozenset(element.key for element in settled.values() if isinstance(element, Void))
    roster, overruled = replace(founded, void=void), set()
    for digest in in_order(settled):
        motion = settled[digest]
        if isinstance(motion, Motion):
            following = roster.after(motion.question, digest, voted_on(motion))
            roster = roster if following is None else following
            overruled |= {digest} if following is None else set()
    return replace(roster, overruled=frozenset(overruled))
