"""A group's sums as an agent knows them: a set of signed messages that only grows."""

import hashlib
from collections.abc import Collection, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from decbayes.errors import Refused, SumRefused
from decbayes.network.protocol.group.decisions import Decisions
from decbayes.network.protocol.group.motions import MOST_LATEST, Ballot, Proof, Show
from decbayes.network.protocol.group.roster import Roster
from decbayes.network.protocol.group.signed import Hash
from decbayes.network.protocol.sums.chains import Chain, keys_of, signed_message
from decbayes.secure.agreement import LOST, Merged
from decbayes.secure.audit import Finding, check_shown, findings, shown_numbers
from decbayes.secure.gathered import SHOWING, Gathered, turn
from decbayes.secure.terms import Message, check_message, message_from

INSTEAD = (
    "no member counts more than most_rows rows, a sum that contradicts itself is remarked on, held-back rows are "
    "scored under the same sums (rule validation), and members can decide to show what some or all have added"
)
# The most sets of members, under different versions of the charter; an honest group has few.
MOST_CHAINS = 64


class PacketBytes(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    after: Annotated[tuple[Hash, ...], Meta(max_length=MOST_LATEST)]
    message: bytes


_packets = msgspec.msgpack.Decoder(PacketBytes)


@dataclass(frozen=True)
class Packet:
    """A member's message, and the version of the charter whose seats its sum is over."""

    after: tuple[bytes, ...]
    message: Message

    @cached_property
    def digest(self) -> bytes:
        return self.message.digest

    @cached_property
    def content(self) -> bytes:
        return msgspec.msgpack.encode(PacketBytes(self.after, self.message.to_bytes()))


def packet_from(content: bytes) -> Packet:
    """Read a packet from untrusted bytes."""
    try:
        parts = _packets.decode(content)
        return Packet(parts.after, message_from(parts.message))
    except (msgspec.MsgspecError, ValueError, RecursionError, SumRefused) as error:
        raise Refused("envelope", f"not a message of a sum ({error}).") from None


class Sums:
    """The sums of a group over every set of members that has begun some."""

    def __init__(self, decisions: Decisions) -> None:
        self.chains: dict[tuple[tuple[bytes, ...], ...], Chain] = {}
        """By the public keys of their members, and those of the inherited sums."""
        self._decisions = decisions
        self._packets: dict[bytes, Packet] = {}
        self._root: bytes | None = None

    @property
    def now(self) -> Chain:
        """The sums over the seats in force; SumRefused if there can be none."""
        return self.chain(self._decisions.version)

    @property
    def in_force(self) -> Chain | None:
        """The sums over the seats in force; None if there can be none."""
        with suppress(SumRefused):
            return self.now
        return None

    @property
    def why_not(self) -> str:
        """Why the seats in force cannot have a sum; empty if they can."""
        try:
            _ = self.now
        except SumRefused as error:
            return str(error)
        return ""

    def chain(self, after: tuple[bytes, ...]) -> Chain:
        """The sums over the seats of a version of the charter, continuing those opened over more members."""
        members = self._decisions.roster_at(after).members
        larger = max(self._larger({*members.values()}), key=order_of, default=None)
        done = 0 if larger is None else len(larger.results)
        return self._continued(members, after, larger, done)

    def about(self, after: tuple[bytes, ...], terms: bytes) -> tuple[Chain, Gathered | None]:
        """The chain over the seats of a version of the charter that has these terms, and its sum with them.

        The sum may continue fewer open sums than are known here, if its sender did not know the others yet.
        """
        chain = self.chain(after)
        for same in (chain, *(one for one in list(self.chains.values()) if one.keys == chain.keys)):
            gathered = same.gathered(terms)
            if gathered is not None and gathered not in same.sums[: same.inherited]:
                return same, gathered
        for larger in self._larger({*chain.keys}):
            for done in range(len(larger.results)):
                if chain.agreement.next_terms(larger.results[:done]).digest == terms:
                    earlier = self._continued(chain.agreement.members, after, larger, done)
                    return earlier, earlier.gathered(terms)
        return chain, None

    def _continued(
        self, members: Mapping[str, bytes], after: tuple[bytes, ...], larger: Chain | None, done: int
    ) -> Chain:
        """The chain over these members that inherits the first `done` sums of a larger one."""
        before = [] if larger is None else larger.sums[:done]
        key = (tuple(sorted(members.values())), *map(keys_of, before))
        if key not in self.chains:
            agreement = self._decisions.founding.agreement(members)
            if len(self.chains) >= MOST_CHAINS:
                self.chains = {name: chain for name, chain in self.chains.items() if chain.begun}
            results = [] if larger is None else larger.results[:done]
            self.chains[key] = Chain(agreement, after, before, results)
        return self.chains[key]

    def _larger(self, keys: AbstractSet[bytes]) -> list[Chain]:
        """The chains with open sums over a strict superset of these members."""
        return [chain for chain in self._opened() if {*chain.keys} > keys]

    def _opened(self) -> list[Chain]:
        """The chains that have opened sums of their own."""
        return [chain for chain in list(self.chains.values()) if len(chain.results) > chain.inherited]

    def knows(self, after: tuple[bytes, ...]) -> bool:
        """Whether this is the canonical name of a version of the charter that is known here."""
        return list(after) == sorted(set(after)) and self._decisions.knows(after)

    def open_packet(self, content: bytes) -> tuple[Chain, Packet]:
        """Read a packet and check its size, envelope, predecessors, sum and signature."""
        limit = self._decisions.charter.limits.record_bytes
        if len(content) > limit:
            raise Refused("size", f"{len(content):,} bytes; a message of a sum has at most {limit:,}.")
        packet = packet_from(content)
        message = packet.message
        if message.digest in self._packets:
            raise Refused("replay", f"a {message.kind} message of {message.seat} is known.")
        if not self.knows(packet.after):
            raise Refused("ahead", "it comes after resolutions that are not known here yet.")
        try:
            chain, gathered = self.about(packet.after, message.terms)
            if gathered is None:
                raise Refused("ahead", "it belongs to a sum that has not begun here, or is over other members.")
            check_message(gathered.terms, message, message.kind)
            self._check_showing(chain, gathered, message)
        except SumRefused as error:
            raise Refused("sum", str(error)) from None
        if len(self.chains) >= MOST_CHAINS and not chain.begun:
            raise Refused("budget", "sums over too many sets of members.")
        return chain, Packet(chain.after, message)

    def _check_showing(self, chain: Chain, gathered: Gathered, message: Message) -> None:
        """Refuse audit messages about a private or unopened sum, or with other numbers than were masked."""
        if message.kind in SHOWING and (self._decisions.founding.privacy or gathered is chain.current):
            raise Refused("ahead", "it shows numbers of a sum that is private, or not open here yet.")
        if message.kind == "shown":
            shown_numbers(gathered.terms, gathered.messages, message)

    def add(self, chain: Chain, packet: Packet, roster: Roster) -> Proof | None:
        """Add a checked message; returns a proof against its member if it contradicts another message."""
        message = packet.message
        known = chain.add(message)
        if known is None:
            self._packets[packet.digest] = packet
        elif self._kept(chain, message):
            self._packets.pop(known.digest, None)
            self._packets[packet.digest] = packet
        self._root = None
        if known is None or known.digest == message.digest:
            return None
        first, second = (signed_message(one.header_bytes, one.signature, roster) for one in (known, message))
        return None if first is None or second is None else Proof(first, second)

    @staticmethod
    def _kept(chain: Chain, message: Message) -> bool:
        gathered = chain.gathered(message.terms)
        return gathered is not None and gathered.by_kind[message.kind].get(message.seat) is message

    def holds(self, digest: bytes) -> bool:
        return digest in self._packets

    def packet(self, digest: bytes) -> Packet | None:
        return self._packets.get(digest)

    def entries(self) -> list[bytes]:
        """The digests of all messages, sorted."""
        return sorted(self._packets)

    def in_order(self) -> Iterator[bytes]:
        """Digests in an order in which the receiver can read each message on arrival."""
        for chain in list(self.chains.values()):
            for gathered in chain.sums[chain.inherited :]:
                for messages in gathered.by_kind.values():
                    yield from (message.digest for message in messages.values())

    @property
    def root(self) -> bytes:
        """One hash of all messages; empty if there are none."""
        if self._root is None:
            self._root = hashlib.sha256(b"".join(self.entries())).digest() if self._packets else b""
        return self._root

    @property
    def opened(self) -> Chain | None:
        """The chain with the most open sums, which gives the posterior. Honest members open no other."""
        return max(self._opened(), key=order_of, default=None)

    @property
    def merged(self) -> Merged | None:
        """The last sum that was opened."""
        chain = self.opened
        return None if chain is None else chain.results[-1]

    def up_to(self, terms: bytes) -> tuple[Chain, list[Gathered]] | None:
        """The chain with an open sum, and its sums up to that one; None if the sum is not open here."""
        for chain in self._opened():
            for number, gathered in enumerate(chain.sums[: len(chain.results)], 1):
                if gathered.terms.digest == terms:
                    return chain, chain.sums[:number]
        return None

    def to_show(self, seats: Collection[str], number: int = 0) -> Show:
        """The question whether members (default: all) show what they added up to a round (default: the last)."""
        chain = self.opened
        if self._decisions.founding.privacy is not None:
            raise SumRefused("A private release without all of its noise protects nobody: it is never shown.")
        if chain is None or number > len(chain.results):
            raise SumRefused("No sum of that round is open yet: there is nothing to show.")
        last = chain.sums[(number or len(chain.results)) - 1].terms
        question = Show(last.digest, last.round, tuple(sorted({*seats} or last.seats)))
        self.check_audit(question)
        return question

    def check_audit(self, question: Show) -> None:
        """Refuse an audit after which the others' sum in any round would reveal too much about them."""
        audited = self.up_to(question.terms)
        for gathered in () if audited is None else audited[1]:
            check_shown(gathered.terms, question.seats)

    def audits(self) -> Iterator[tuple[Ballot, Show, Chain, list[Gathered]]]:
        """The audits that members have decided on, and the open sums they are about."""
        decisions = self._decisions
        for ballot in decisions.in_order():
            standing = ballot.settled and ballot.digest not in decisions.overruled
            if standing and isinstance(ballot.question, Show):
                audited = self.up_to(ballot.question.terms)
                if audited is not None:
                    yield ballot, ballot.question, *audited

    def audited(self) -> list[Finding]:
        """The findings of the last audit."""
        for _, question, chain, sums in reversed([*self.audits()]):
            return findings(chain.agreement, sums, question.seats)
        return []

    def state_of(self, seat: str) -> str:
        """How far a member is in the current sum."""
        chain = self.in_force
        if chain is None or seat not in chain.agreement.members:
            return "not adding up"
        current = chain.current
        if current is None:
            return "counted"
        sent = [kind for kind in current.messages if seat in current.messages[kind]]
        return {"key": "key sent", "masked": "masked", "opening": "opened"}[sent[-1]] if sent else "not heard of"

    def describe(self) -> dict[str, Any]:
        """The current round, the members it waits for, and the open sums."""
        founding, shown = self._decisions.founding, self.opened
        rules = founding.sums
        assert rules is not None
        about: dict[str, Any] = {**msgspec.to_builtins(rules), "lost": LOST.advice, "instead": INSTEAD}
        if founding.privacy is not None:
            about["privacy"] = str(founding.promised(len(founding.members) if shown is None else len(shown.keys)))
        about["opened"] = 0 if shown is None else len(shown.results)
        if shown is not None:
            share, held_back = shown.results[-1].share, shown.results[-1].share.held_back
            about |= {"members": sorted(shown.sums[0].terms.seats), "rows": share.rows}
            about |= {} if held_back is None else {"held_back": held_back._asdict()}
        if audited := self.audited():
            about["audit"] = [str(finding) for finding in audited]
        try:
            chain = self.now
        except SumRefused as error:
            return {**about, "why_not": str(error)}
        current = chain.sums[-1]
        kind, missing = (None, []) if chain.current is None else current.waiting_for()
        about |= {"round": current.number, "waiting_for": kind, "missing": missing, "why_not": chain.broken}
        return {**about, "text": turn(current.number, rules.rounds, kind, missing)}


def order_of(chain: Chain) -> tuple[int, list[tuple[bytes, ...]]]:
    """Sort key of chains: most rounds first, then an order that is the same everywhere."""
    return len(chain.results), [keys_of(one) for one in chain.sums]
