"""How news spreads: agents push short listings, compare hashes, and pull what they lack."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from decbayes.network.protocol.effects import Peer, Send
from decbayes.network.protocol.group.decisions import DecisionEntry
from decbayes.network.protocol.group.keys import AgentId
from decbayes.network.protocol.group.motions import Ballot
from decbayes.network.protocol.records.pool import Pool
from decbayes.network.protocol.records.record import Entry, Record
from decbayes.network.protocol.talk import messages
from decbayes.network.protocol.talk.messages import Digest, Listing, Pull
from decbayes.network.protocol.talk.revisions import REVISION

# Ticks after which a record that has not arrived is requested again.
PATIENCE = 2
# Requests for a record after which it is reported as overdue: about twenty seconds.
OVERDUE = 50
# The number of neighbours that news is pushed to; the others get it from these, or by comparing hashes.
FANOUT = 8

Introduce = Callable[[Peer], tuple[bytes, bytes]]
"""Returns our id and our signature of the link to a neighbour."""


@dataclass(frozen=True)
class Neighbour:
    """A neighbour's latest digest and the tick of its arrival."""

    digest: Digest
    tick: int


class Gossip:
    """One agent's neighbours, the news to send them, and the requests made to them."""

    def __init__(self, pool: Pool, rng: np.random.Generator, software: str, introduce: Introduce) -> None:
        self.peers: dict[Peer, Neighbour | None] = {}
        self.news: set[AgentId] = set()
        self.decided: set[bytes] = set()
        """Motions with votes that neighbours have not been sent yet."""
        self.ticks = 0
        self._pool, self._rng, self._software = pool, rng, software
        self._introduce = introduce
        # Versions that neighbours have listed but never sent.
        self.overdue: list[Entry] = []
        self._asked: dict[Entry | DecisionEntry, int] = {}
        self._vain: dict[AgentId, tuple[Entry, int]] = {}
        self._hopeless: dict[AgentId, Entry] = {}

    def connect(self, peer: Peer) -> Send:
        self.peers.setdefault(peer, None)
        return self._compare(peer)

    def disconnect(self, peer: Peer) -> None:
        self.peers.pop(peer, None)

    def hear(self, peer: Peer, digest: Digest) -> bool:
        """Keep a neighbour's digest; True if its charter or revision differs from the last one."""
        if peer not in self.peers:
            return False
        before, self.peers[peer] = self.peers[peer], Neighbour(digest, self.ticks)
        last = None if before is None else (before.digest.charter, before.digest.revision)
        return last != (digest.charter, digest.revision)

    def revision(self, peer: Peer) -> int:
        """The revision of the protocol that a neighbour follows; ours until it states one."""
        last = self.peers.get(peer)
        return REVISION if last is None else last.digest.revision

    @property
    def alike(self) -> list[Peer]:
        """The neighbours on our revision: with the others only greetings are exchanged."""
        return [peer for peer in self.peers if self.revision(peer) == REVISION]

    def tick(self) -> list[Send]:
        """Send the news, and compare hashes with one random neighbour."""
        self.ticks += 1
        self._asked = {entry: tick for entry, tick in self._asked.items() if tick + PATIENCE > self.ticks}
        if not self.peers:
            return []
        peers = list(self.peers)
        return [*self.tell_news(), self._compare(peers[int(self._rng.integers(len(peers)))])]

    def tell_news(self) -> list[Send]:
        """Push recent changes to a few neighbours."""
        peers = self.alike
        if not (self.news or self.decided) or not peers:
            return []
        entries = [entry for entry in self._pool.entries() if entry[0] in self.news]
        decided = [entry for entry in self._pool.decisions.entries() if entry[0] in self.decided]
        news = messages.listing(entries, sorted(self.news & self._pool.proofs.keys()), decided, complete=False)
        self.news.clear()
        self.decided.clear()
        return [Send(peers[index], news) for index in self._rng.permutation(len(peers))[:FANOUT]]

    def list_all(self, peer: Peer) -> Send:
        pool = self._pool
        return Send(peer, messages.listing(pool.entries(), pool.excluded(), pool.decisions.entries(), complete=True))

    def answer(self, peer: Peer, theirs: Listing) -> list[Send]:
        """Pull what a neighbour has and we lack; if its listing is complete, list what it lacks."""
        wanted = [entry for entry in theirs.entries if self._wants(entry)]
        accused = [origin for origin in theirs.excluded if self._unproven(origin)]
        undecided = [e for e in theirs.decisions if e not in self._asked and self._pool.decisions.wants(e)]
        sends = []
        if wanted or accused or undecided:
            self._remember(wanted, undecided)
            origins = dict.fromkeys([*(origin for origin, _, _ in wanted), *accused])
            motions = tuple(digest for digest, _ in undecided)
            sends.append(Send(peer, messages.encode(Pull(tuple(origins), motions))))
        return sends + (self._tell_missing(peer, theirs) if theirs.complete else [])

    def asked_for(self, message: Pull) -> list[Record]:
        return [self._pool.records[origin] for origin in dict.fromkeys(message.origins) if origin in self._pool.records]

    def decisions_asked_for(self, message: Pull) -> list[Ballot]:
        """The requested ballots in an order in which the receiver can read each on arrival."""
        asked = {*message.decisions}
        return [ballot for ballot in self._pool.decisions.in_order() if ballot.digest in asked]

    def reconsider(self) -> None:
        """Request refused records again, since another charter is in force."""
        self._hopeless.clear()
        self._asked.clear()

    def give_up(self, entry: Entry) -> None:
        """Never request this version again: it will be refused whoever sends it."""
        self._hopeless[entry[0]] = entry
        if len(self._hopeless) > 4 * self._pool.charter.limits.members:
            self._hopeless.clear()

    def _compare(self, peer: Peer) -> Send:
        fingerprint = bytes.fromhex(self._pool.decisions.founding.fingerprint)
        member, proof = self._introduce(peer)
        greeting = Digest(self._pool.root, fingerprint, self._software, member, proof, REVISION)
        return Send(peer, messages.encode(greeting))

    def _wants(self, entry: Entry) -> bool:
        """Whether a version is new or contradicts a known one, and was not requested recently."""
        origin, version, digest = entry
        if self._pool.superseded(origin) or entry in self._asked or self._hopeless.get(origin) == entry:
            return False
        return not self._pool.knows(origin, version, digest)

    def _unproven(self, origin: AgentId) -> bool:
        return origin in self._pool.roster.keys and origin not in self._pool.proofs

    def _remember(self, wanted: list[Entry], undecided: list[DecisionEntry]) -> None:
        # Invented versions in listings must not fill the memory; asking twice is harmless.
        if len(self._asked) > 4 * self._pool.charter.limits.members:
            self._asked.clear()
        self._asked |= dict.fromkeys([*wanted, *undecided], self.ticks)
        for entry in wanted:
            last, times = self._vain.get(entry[0], (entry, 0))
            self._vain[entry[0]] = entry, times + 1 if last == entry else 1
            if self._vain[entry[0]] == (entry, OVERDUE):
                self.overdue.append(entry)

    def _tell_missing(self, peer: Peer, theirs: Listing) -> list[Send]:
        known = {origin: (version, digest) for origin, version, digest in theirs.entries}
        missing = [entry for entry in self._pool.entries() if lacks(known.get(entry[0]), entry)]
        accused = [origin for origin in self._pool.excluded() if origin not in theirs.excluded]
        listed = {*theirs.decisions}
        decided = [entry for entry in self._pool.decisions.entries() if entry not in listed]
        if not (missing or accused or decided):
            return []
        return [Send(peer, messages.listing(missing, accused, decided, complete=False))]


def lacks(theirs: tuple[int, bytes] | None, ours: Entry) -> bool:
    """Whether our version of an origin is newer than theirs or contradicts it."""
    _, version, digest = ours
    return theirs is None or theirs[0] < version or (theirs[0] == version and theirs[1] != digest)
