"""What a group has decided and is deciding: settled resolutions, pending motions and void keys.

1. A motion is *settled* once more than the agreed share of the seats have voted for it. Seats, keys and share are those
   under the resolutions that it comes after. Its votes are the proof; nobody's later admission, removal or cheating
   changes them. Sets of settled resolutions are joined by union, so agents with the same set have the same charter.
2. Those settled resolutions are in force that *stand* (`standing`): not those that a stolen key may have completed.
3. A motion is *pending* while it has too few votes. When anything else is settled it *lapses*; members that still want
   it sign it again under the new version. A lapsed motion that was settled elsewhere is accepted as settled.
4. Each voter's newest few pending votes are kept, only one of them for an epoch, so that nobody can fill the others'
   memory. "The newest few of a union" is a join, too.
5. Two votes under one number prove that their key cannot be trusted (`roster.Void`).
"""

import hashlib
from collections.abc import Iterable
from dataclasses import replace

import msgspec

from decbayes.disclosure import Rules as DisclosureRules
from decbayes.network.protocol.group.charter import Charter
from decbayes.network.protocol.group.keys import AgentId
from decbayes.network.protocol.group.motions import Ballot, Motion, Open, Proof, Question, Vote, motion_on
from decbayes.network.protocol.group.openings import Parts, epoch_of, read_parts, widened
from decbayes.network.protocol.group.roster import Roster, Void, history_of, in_order, latest, roster_of, with_all_keys
from decbayes.network.protocol.group.standing import fallen
from decbayes.structure import Structure
from decbayes.updates import Epoch

# The most pending votes kept per voter; an honest member has a handful.
MOST_VOTES = 16
DecisionEntry = tuple[bytes, bytes]
"""A motion's digest, and a hash of the votes for it."""


class Decisions:
    """The settled resolutions, the pending motions, and the void keys."""

    def __init__(self, founding: Charter) -> None:
        self.founding = founding
        self.settled: dict[bytes, Ballot] = {}
        self.pending: dict[bytes, Ballot] = {}
        self.proofs: dict[AgentId, Proof] = {}
        self.lapsed: list[Ballot] = []
        """Motions that were pending when something else was settled, and fallen resolutions, to be voted on again."""
        self.fallen: frozenset[bytes] = frozenset()
        """Settled resolutions that do not stand."""
        self._rosters: dict[tuple[bytes, ...], Roster] = {}
        self._numbers: dict[tuple[AgentId, int], Vote] = {}
        self._parts: tuple[bytes, Parts] | None = None
        self._charter: Charter | None = None
        self._root: bytes | None = None
        self._version: tuple[bytes, ...] = ()
        self._changed()

    @property
    def version(self) -> tuple[bytes, ...]:
        """The version of the charter: the resolutions that no other one comes after."""
        return self._version

    @property
    def roster(self) -> Roster:
        return self._rosters[self._version]

    @property
    def ever(self) -> Roster:
        """The roster with keys from resolutions that do not stand: their records are kept but do not count."""
        return with_all_keys(self.roster, (ballot.question for ballot in self.settled.values()))

    @property
    def overruled(self) -> frozenset[bytes]:
        """Settled resolutions without effect: others contradict them and come first, or they do not stand."""
        return self.roster.overruled | self.fallen

    @property
    def charter(self) -> Charter:
        if self._charter is None:
            self._charter = self._in_force()
        return self._charter

    def roster_at(self, after: tuple[bytes, ...]) -> Roster:
        """The roster in force under these resolutions and everything they come after."""
        if after not in self._rosters:
            history = history_of(self._elements, after)
            founded = Roster.founded(self.founding)
            self._rosters[after] = roster_of(founded, history, lambda motion: self.roster_at(motion.after))
        return self._rosters[after]

    def motion(self, question: Question) -> Motion:
        """A question as a motion under the current version."""
        return motion_on(question, self.founding.id, self._version)

    def knows(self, after: Iterable[bytes]) -> bool:
        """Whether these resolutions are known here."""
        return {*after} <= self._elements.keys()

    def enough(self, ballot: Ballot) -> bool:
        """Whether the votes settle the motion."""
        return len(ballot.votes) >= self.needed(ballot.motion)

    def needed(self, motion: Motion) -> int:
        """The number of votes that settle a motion, by the seats and rules under which it was put."""
        return self.roster_at(motion.after).needed

    def ballot(self, digest: bytes) -> Ballot | None:
        """A settled or pending motion with its votes; None if it is neither."""
        return self.settled.get(digest) or self.pending.get(digest)

    def named(self, name: str) -> Ballot | None:
        """The only motion, settled or pending, whose name begins like this; None if there is none or several."""
        matching = [ballot for ballot in self.in_order() if name and ballot.digest.hex().startswith(name)]
        return matching[0] if len(matching) == 1 else None

    def decided_since(self, ballot: Ballot) -> bool:
        """Whether the same question has been decided since a motion was put."""
        if not self.knows(ballot.motion.after):
            return False
        standing = self.settled.keys() - self.fallen - history_of(self._elements, ballot.motion.after).keys()
        return any(self.settled[digest].question == ballot.question for digest in standing)

    def add(self, ballot: Ballot) -> bool:
        """Add a checked ballot; True if it changes anything."""
        known = self.settled.get(ballot.digest)
        if known is not None:
            return self._join_votes(known, ballot)
        if self._cheats(ballot):
            # A voter's key is void from now on, but the ballot settles its motion all the same.
            if self.enough(ballot):
                self._settle(ballot)
            return True
        before = self.pending.get(ballot.digest)
        joined = ballot if before is None else before.joined(ballot)
        if self.enough(joined):
            self._settle(joined)
            return True
        if ballot.motion.after != self._version or (before is not None and joined.votes == before.votes):
            return False
        self.pending[ballot.digest] = joined
        self._trim()
        self._root = None
        return self.pending.get(ballot.digest) not in (None, before)

    def _join_votes(self, known: Ballot, ballot: Ballot) -> bool:
        """Add votes of further seats to a settled resolution, which may make it stand."""
        votes = {**ballot.votes, **known.votes}
        if len(votes) == len(known.votes):
            return False
        self.settled[known.digest] = replace(known, votes=votes)
        self._changed()
        return True

    def exclude(self, proof: Proof) -> bool:
        """Add a proof: its key is void here and, as the proof spreads, everywhere."""
        if proof.origin in self.proofs:
            return False
        self.proofs[proof.origin] = proof
        self._changed()
        return True

    def union(self, other: "Decisions") -> None:
        """Add everything from another agent's decisions."""
        for proof in other.proofs.values():
            self.exclude(proof)
        for ballot in other.in_order():
            self.add(ballot)

    def in_order(self) -> list[Ballot]:
        """All ballots, each after those that it refers to."""
        return [*self._resolutions(), *(self.pending[digest] for digest in sorted(self.pending))]

    def entries(self) -> list[DecisionEntry]:
        """All motions with a hash of their votes, for others to compare."""
        settled = [(digest, voters_hash(self.settled[digest])) for digest in sorted(self.settled)]
        return settled + [(digest, votes_hash(self.pending[digest])) for digest in sorted(self.pending)]

    @property
    def root(self) -> bytes:
        """One hash of everything settled, pending or void."""
        if self._root is None:
            parts = [digest + votes for digest, votes in self.entries()]
            self._root = hashlib.sha256(b"".join([*parts, *sorted(self.proofs)])).digest()
        return self._root

    def wants(self, entry: DecisionEntry) -> bool:
        """Whether an agent that lists this entry has news for us."""
        digest, votes = entry
        if digest in self.settled:
            return votes != voters_hash(self.settled[digest])
        return digest not in self.pending or votes_hash(self.pending[digest]) != votes

    def copy(self) -> "Decisions":
        """A copy for another thread."""
        copy = Decisions(self.founding)
        copy.settled, copy.pending, copy.proofs = dict(self.settled), dict(self.pending), dict(self.proofs)
        copy._parts, copy._rosters, copy._version = self._parts, dict(self._rosters), self._version
        copy._changed()
        return copy

    def parts(self) -> Parts:
        """Each counting seat's part of the prior in force."""
        roster = self.roster
        opened = self.settled.get(roster.opened)
        if opened is None:
            return {}
        assert isinstance(opened.question, Open)
        if self._parts is None or self._parts[0] != opened.digest:
            structure = self.structure_at(opened.motion.after)
            self._parts = opened.digest, read_parts(opened.question, opened.body, structure)
        now = self.structure_at(self._version)
        return {seat: widened(part, now) for seat, part in self._parts[1].items() if seat in roster.sitting}

    def structure_at(self, after: tuple[bytes, ...]) -> Structure:
        """The model's structure over the words that count under these resolutions."""
        return self.founding.with_words_of(self.roster_at(after).words).model.structure

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Decisions)
            and self.entries() == other.entries()
            and self.proofs.keys() == other.proofs.keys()
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def _elements(self) -> dict[bytes, Motion | Void]:
        void = [Void(key) for key in self.proofs]
        motions = {digest: ballot.motion for digest, ballot in self.settled.items()}
        return {**motions, **{element.digest: element for element in void}}

    def _resolutions(self) -> list[Ballot]:
        """The settled resolutions, each after those that it comes after."""
        return [self.settled[digest] for digest in in_order(self._elements) if digest in self.settled]

    def _settle(self, ballot: Ballot) -> None:
        self.settled[ballot.digest] = replace(ballot, settled=True)
        self.pending.pop(ballot.digest, None)
        self._changed()

    def _changed(self) -> None:
        """Something was settled or became void: if that changes the version, pending motions lapse."""
        self._root = None
        fell, self.fallen = self.fallen, fallen(self._resolutions(), lambda motion: self.roster_at(motion.after))
        self.lapsed += [self.settled[digest] for digest in sorted(self.fallen - fell)]
        version = latest({d: element for d, element in self._elements.items() if d not in self.fallen})
        if version == self._version and version in self._rosters:
            return
        self._charter, self._version = None, version
        self.roster_at(version)
        self.lapsed += self.pending.values()
        for ballot in self.pending.values():
            self._forget_numbers(ballot.votes.values())
        self.pending = {}

    def _forget_numbers(self, votes: Iterable[Vote]) -> None:
        for vote in votes:
            self._numbers.pop((vote.origin, vote.number), None)

    def _cheats(self, ballot: Ballot) -> bool:
        """Record votes by number and exclude voters that have used a number twice; True if there is a new one."""
        news = False
        for vote in ballot.votes.values():
            first = self._numbers.setdefault((vote.origin, vote.number), vote)
            news |= first.digest != vote.digest and self.exclude(Proof(first, vote))
        return news

    def _trim(self) -> None:
        """Keep each voter's newest few votes, and only the newest of its votes for epochs."""
        kept: set[bytes] = set()
        by_voter: dict[AgentId, list[tuple[Ballot, Vote]]] = {}
        for ballot in self.pending.values():
            for vote in ballot.votes.values():
                by_voter.setdefault(vote.origin, []).append((ballot, vote))
        for votes in by_voter.values():
            # An honest voter has no two votes with one number; the others are excluded.
            newest = sorted(votes, key=lambda pair: pair[1].number, reverse=True)
            epochs = [vote.digest for ballot, vote in newest if isinstance(ballot.question, Open)]
            kept |= {vote.digest for _, vote in newest[:MOST_VOTES]} - {*epochs[1:]}
        for digest, ballot in list(self.pending.items()):
            left = {seat: vote for seat, vote in ballot.votes.items() if vote.digest in kept}
            self._forget_numbers(vote for vote in ballot.votes.values() if vote.digest not in kept)
            self.pending[digest] = ballot if len(left) == len(ballot.votes) else replace(ballot, votes=left)
            if not left:
                del self.pending[digest]

    def _in_force(self) -> Charter:
        roster, founding = self.roster, self.founding
        if not self.settled and not self.proofs:
            return founding
        members = {name: seat.key for name, seat in roster.seats.items() if seat.present}
        return replace(
            founding,
            members=members,
            rules=roster.rules,
            limits=roster.limits,
            disclosure=disclosure_from(roster.disclosure),
            words_added=roster.words,
            epoch=self._epoch(roster),
            opened=roster.opened,
        )

    def _epoch(self, roster: Roster) -> Epoch | None:
        opened = self.settled.get(roster.opened)
        if opened is None:
            return None
        assert isinstance(opened.question, Open)
        return epoch_of(opened.question, self.parts(), roster.sitting, self.structure_at(self._version))


def votes_hash(ballot: Ballot) -> bytes:
    return hashlib.sha256(b"".join(vote.digest for vote in ballot.votes.values())).digest()


def voters_hash(ballot: Ballot) -> bytes:
    """Hash of the seats that voted for a resolution; which of its votes a seat used does not matter."""
    return hashlib.sha256(msgspec.msgpack.encode(["settled", *ballot.votes])).digest()


def disclosure_from(text: str) -> DisclosureRules | None:
    return DisclosureRules.of(msgspec.json.decode(text)) if text else None
