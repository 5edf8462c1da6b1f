"""One member's part in its group's sums: what it sends when, and what it never does."""

from dataclasses import dataclass, replace

import msgspec

from decbayes.errors import Refused, StoreFailed, SumRefused
from decbayes.network.protocol.group.keys import Identity
from decbayes.network.protocol.group.motions import Show
from decbayes.network.protocol.sums.chains import Chain, keys_of
from decbayes.network.protocol.sums.group_sums import Packet, Sums
from decbayes.posterior import Posterior
from decbayes.privacy.accounting import Privacy
from decbayes.privacy.grid import Integers
from decbayes.privacy.mechanism import PrivateMerge
from decbayes.privacy.releasing import Spending
from decbayes.secure.anchored import Share
from decbayes.secure.audit import next_message
from decbayes.secure.gathered import SHOWING, Gathered
from decbayes.secure.private_rounds import PrivateAgreement, PrivateShare, merge_in, spent_bytes, spent_in
from decbayes.secure.seat import Seat
from decbayes.secure.terms import Kind, Message, Terms, digest_of


class SumPart(msgspec.Struct, frozen=True, array_like=True):
    """This member's part in one sum as stored: its key and thereby the numbers that it has masked."""

    after: tuple[bytes, ...]
    terms: bytes
    round: int
    keys: tuple[bytes, ...]
    seat: bytes
    opened: bool = False
    shards: tuple[str, ...] = ()
    spending: bytes = b""
    """The privacy that the opening spends, if sums are private."""

    @property
    def digest(self) -> bytes:
        return self.terms

    @property
    def content(self) -> bytes:
        return msgspec.msgpack.encode(self)

    @property
    def spent(self) -> Spending:
        return spent_in(self.spending)


def sum_part_from(content: bytes) -> SumPart:
    """Read this member's part from its store."""
    try:
        return msgspec.msgpack.decode(content, type=SumPart)
    except msgspec.ValidationError:
        raise StoreFailed(EARLIER) from None
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise Refused("envelope", "the row is damaged.") from None


@dataclass(frozen=True)
class Due:
    """A contribution that is due: the round, the merge before it, and this member's part in that merge."""

    terms: Terms
    before: Posterior
    previous: Posterior | None
    shards: tuple[str, ...]
    """The shards of the first round; empty in the first round."""
    privacy: Privacy | None = None
    """The promised privacy, if sums are private; `merge` is then the anchor, None in the first round."""
    merge: PrivateMerge | None = None
    released: frozenset[str] = frozenset()
    """The ids of this member's private releases so far."""


class Participation:
    """This member's messages in its group's sums. `synced`: a neighbour has listed all that it knows."""

    def __init__(self, identity: Identity, sums: Sums) -> None:
        self.synced = False
        self.why_not = ""
        """Why this member cannot continue; empty if it can."""
        self._identity, self._sums = identity, sums
        self._parts: dict[bytes, SumPart] = {}
        self._seats: dict[bytes, Seat] = {}
        self._added: dict[bytes, Integers] = {}
        self._writing: SumPart | None = None
        self._obstacle = ""

    def restore(self, part: SumPart) -> list[Packet]:
        """Restore a stored part; returns its messages, which may be sent again."""
        self._parts[part.terms] = part
        self._seats.pop(part.terms, None)
        gathered = self._sums.about(part.after, part.terms)[1] if self._sums.knows(part.after) else None
        seat = None if gathered is None else self._seat(gathered)
        return [] if seat is None else [Packet(part.after, message) for message in seat.sent.values()]

    @property
    def shards(self) -> tuple[str, ...]:
        """The shards that this member has masked; empty before the first time."""
        return next((part.shards for part in self._parts.values() if part.shards), ())

    def due(self) -> Due | None:
        """The contribution that is due from this member; None if there is none."""
        chain, gathered, kind = self._turn()
        if gathered is None or chain is None or kind != "masked" or self._writing is not None:
            return None
        if isinstance(chain.agreement, PrivateAgreement):
            return self._private(chain, gathered, chain.agreement)
        steps = self._steps(chain, gathered.number - 1)
        part = None if steps is None else Share.of_steps(chain.before.structure, steps, chain.agreement.step).posterior
        return Due(gathered.terms, chain.before, part, self.shards)

    def _private(self, chain: Chain, gathered: Gathered, agreement: PrivateAgreement) -> Due:
        parts = (self._parts.get(one.terms.digest) for one in chain.sums)
        ids = frozenset(part.spent.release for part in parts if part is not None and part.spending)
        merge = merge_in(chain.results)
        return Due(gathered.terms, chain.before, None, self.shards, agreement.privacy, merge, ids)

    def step(self, *, ready: bool) -> SumPart | None:
        """This member's next message other than masked numbers, to be stored; None if none. `ready`: it has data."""
        chain, gathered, kind = self._turn()
        self.why_not = self._obstacle
        if self._writing is not None:
            return None
        following = None if chain is None or gathered is None else self._following(chain, gathered, kind, ready)
        return following or self._show()

    def _following(self, chain: Chain, gathered: Gathered, kind: Kind | None, ready: bool) -> SumPart | None:
        """The next key or opening."""
        seat = self._seat(gathered)
        if kind is not None and seat is not None and kind in seat.sent:
            # It was stored but not sent, because the process ended in between.
            self._writing = self._parts[seat.terms.digest]
            return self._writing
        if kind == "key" and ready:
            return self._write(chain, seat or Seat.begun(gathered.terms, self._name(chain), self._sign))
        if kind == "opening" and seat is not None:
            try:
                private = isinstance(chain.agreement, PrivateAgreement)
                return self._write(chain, seat.opening(gathered.of("masked"), self._sign, keep=not private))
            except SumRefused as error:
                self.why_not = str(error)
        return None

    def _show(self) -> SumPart | None:
        """This member's next message in an audit that it has voted for."""
        for ballot, question, _, sums in self._sums.audits() if self.synced else ():
            for gathered in sums:
                seat = self._seat(gathered)
                vote = None if seat is None else ballot.votes.get(seat.name)
                if seat is None or vote is None or vote.origin != self._identity.id:
                    continue
                message = self._shown(seat, gathered, question)
                if message is not None:
                    after = replace(seat, sent={**seat.sent, message.kind: message})
                    self._writing = msgspec.structs.replace(self._parts[seat.terms.digest], seat=after.to_bytes())
                    return self._writing
        return None

    def _shown(self, seat: Seat, gathered: Gathered, question: Show) -> Message | None:
        unsent = [
            seat.sent[kind] for kind in SHOWING if kind in seat.sent and not self._sums.holds(seat.sent[kind].digest)
        ]
        if unsent:
            return unsent[0]
        try:
            self._sums.check_audit(question)
            return next_message(seat, gathered, question.seats, self._sign)
        except SumRefused:
            return None

    def own_share(self, terms: bytes) -> Share:
        """What this member added to the open sums up to this one."""
        chain, sums = self._sums.up_to(terms) or (None, [])
        steps = None if chain is None else self._steps(chain, len(sums))
        if chain is None or steps is None:
            raise SumRefused("That sum is not open here: there is nothing to show.")
        return Share.of_steps(chain.before.structure, steps, chain.agreement.step)

    def mask(self, due: Due, share: Share | PrivateShare, shards: tuple[str, ...]) -> SumPart | None:
        """Mask a contribution, to be stored, if it is still due."""
        chain, gathered, kind = self._turn()
        stale = gathered is None or kind != "masked" or gathered.terms.digest != due.terms.digest
        if chain is None or gathered is None or stale or self._writing is not None:
            return None
        seat = self._seat(gathered)
        if seat is None:
            return None
        before = None if isinstance(share, PrivateShare) else self._steps(chain, gathered.number - 1)
        added = chain.agreement.added(share, before)  # type: ignore[arg-type]
        masked = seat.masking(added, gathered.of("key"), self._sign)
        spending = spent_bytes(share.spending) if isinstance(share, PrivateShare) else b""
        return self._write(chain, masked, shards, spending)

    def written(self, part: SumPart) -> list[Packet]:
        """The messages of a part that is durable now, so that they may be sent."""
        if self._writing is part:
            self._writing = None
        return [packet for packet in self.restore(part) if not self._sums.holds(packet.digest)]

    # Which sum, and whose turn

    def _turn(self) -> tuple[Chain | None, Gathered | None, Kind | None]:
        """The sum in which it is this member's turn, and the kind of message that is due."""
        self._obstacle = self._sums.why_not
        chain = self._chain() if self.synced else None
        name = "" if chain is None else self._name(chain)
        gathered = None if chain is None else chain.current
        if chain is None or gathered is None or not name:
            return None, None, None
        if self._lost(chain, name):
            self._obstacle = LOST
            return None, None, None
        kind, missing = gathered.waiting_for()
        if not self._in_force(chain) and kind != "opening":
            return None, None, None
        if not self._in_force(chain) and name not in missing:
            self._obstacle = HALF
        return chain, gathered, kind if name in missing else None

    def _chain(self) -> Chain | None:
        """The chain that this member takes part in: a sum that it has begun to open is finished first."""
        mine = self._opened()
        last = max(mine, default=0)
        for chain in list(self._sums.chains.values()):
            if last and chain.keys == mine[last] and len(chain.results) < last <= len(chain.sums):
                return chain
            current = chain.current
            free = current is not None and current.number not in mine
            if free and not self._in_force(chain) and self._opened_by_others(chain):
                return chain
        now = self._sums.in_force
        # Otherwise the current chain has inherited all sums that this member has opened.
        if now is not None and len(now.results) < last:
            self._obstacle = OTHERS
            return None
        return now

    def _opened(self) -> dict[int, tuple[bytes, ...]]:
        """The members over which this one has opened its part, by round, from its store or its known messages."""
        mine = {part.round: part.keys for part in self._parts.values() if part.opened}
        for chain in list(self._sums.chains.values()):
            for gathered in chain.sums:
                if self._name(chain) in gathered.messages["opening"]:
                    mine.setdefault(gathered.number, keys_of(gathered))
        return mine

    def _opened_by_others(self, chain: Chain) -> bool:
        """Whether a member that still counts has opened the chain's current sum, which all have masked."""
        gathered = chain.current
        if gathered is None or gathered.waiting_for()[0] != "opening":
            return False
        now = self._sums.in_force
        present = set() if now is None else {*now.keys}
        about = digest_of(gathered.messages["masked"])
        parts = gathered.messages["opening"].items()
        return any(chain.agreement.members[seat] in present and part.about == about for seat, part in parts)

    def _in_force(self, chain: Chain) -> bool:
        return chain is self._sums.in_force

    def _lost(self, chain: Chain, name: str) -> bool:
        """Whether others know a message of this member that its store does not."""
        for gathered in chain.sums:
            seat = self._seat(gathered)
            sent = {} if seat is None else seat.sent
            for kind, messages in gathered.messages.items():
                known = messages.get(name)
                if known is not None and (kind not in sent or sent[kind].digest != known.digest):
                    return True
        return False

    # Helpers

    def _write(self, chain: Chain, seat: Seat, shards: tuple[str, ...] = (), spending: bytes = b"") -> SumPart:
        known = self._parts.get(seat.terms.digest)
        self._writing = SumPart(
            chain.after,
            seat.terms.digest,
            seat.terms.round,
            chain.keys,
            seat.to_bytes(),
            "opening" in seat.sent,
            shards or (() if known is None else known.shards),
            spending or (b"" if known is None else known.spending),
        )
        return self._writing

    def _seat(self, gathered: Gathered) -> Seat | None:
        digest = gathered.terms.digest
        if digest not in self._seats and digest in self._parts:
            self._seats[digest] = Seat.from_bytes(gathered.terms, self._parts[digest].seat)
        return self._seats.get(digest)

    def _steps(self, chain: Chain, number: int) -> Integers | None:
        """What this member added in the first `number` rounds together; None if nothing."""
        total: Integers | None = None
        for gathered in chain.sums[:number]:
            seat, digest = self._seat(gathered), gathered.terms.digest
            if seat is not None and digest not in self._added:
                self._added[digest] = seat.added
            if seat is not None:
                total = self._added[digest] if total is None else total + self._added[digest]
        return total

    def _name(self, chain: Chain) -> str:
        return chain.name_of(self._identity.public)

    def _sign(self, content: bytes) -> bytes:
        return self._identity.private.sign(content)


EARLIER = (
    "It holds sums of an earlier version, which cannot continue. Found a new group (`decbayes charter new`) with the "
    "same members: with others, the difference between both groups' sums would reveal data"
)
LOST = (
    "others know messages of this member's sums that its store does not: the store was lost, or is an old copy. Its "
    "seat needs a new key (`decbayes charter propose rotate`)"
)
OTHERS = (
    "this agent has opened a sum over other members than the current ones: some are new or have new keys. The last "
    "open sum is final"
)
HALF = (
    "this agent has opened its part of a sum that another member has not opened. A sum without that member would "
    "reveal its numbers: bring it back with its store; otherwise the last open sum is final"
)
