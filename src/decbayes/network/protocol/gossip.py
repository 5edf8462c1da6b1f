"""How news gets around: short listings are pushed, hashes are compared, and what is missing is pulled."""

import numpy as np

from decbayes.network.protocol import messages
from decbayes.network.protocol.charter import Charter
from decbayes.network.protocol.effects import Peer, Send
from decbayes.network.protocol.keys import AgentId
from decbayes.network.protocol.messages import Digest, Listing, Pull
from decbayes.network.protocol.pool import Entry, Pool
from decbayes.network.protocol.record import Record

# A record that was asked for and has not come is asked for again after so many ticks.
PATIENCE = 2
# So often asked for in vain, some twenty seconds, and it is time to say so.
OVERDUE = 50
# News goes to so many neighbours at once; the others hear of it from these, or by comparing hashes.
FANOUT = 8


class Gossip:
    """One agent's neighbours, what they have not been told yet, and what has been asked of them."""

    def __init__(self, charter: Charter, pool: Pool, rng: np.random.Generator) -> None:
        self.peers: list[Peer] = []
        self.news: set[AgentId] = set()
        self._charter, self._pool, self._rng = charter, pool, rng
        # Versions that neighbours have listed and never sent.
        self.overdue: list[Entry] = []
        self._asked: dict[Entry, int] = {}
        self._vain: dict[AgentId, tuple[Entry, int]] = {}
        self._tick = 0

    def connect(self, peer: Peer) -> Send:
        if peer not in self.peers:
            self.peers.append(peer)
        return self._compare(peer)

    def disconnect(self, peer: Peer) -> None:
        if peer in self.peers:
            self.peers.remove(peer)

    def tick(self) -> list[Send]:
        """Tell the news, and compare hashes with one random neighbour."""
        self._tick += 1
        self._asked = {entry: tick for entry, tick in self._asked.items() if tick + PATIENCE > self._tick}
        if not self.peers:
            return []
        return [*self.tell_news(), self._compare(self.peers[int(self._rng.integers(len(self.peers)))])]

    def tell_news(self) -> list[Send]:
        """Push what has changed since the last time to a few neighbours."""
        if not self.news or not self.peers:
            return []
        entries = [entry for entry in self._pool.entries() if entry[0] in self.news]
        news = messages.listing(entries, sorted(self.news & self._pool.proofs.keys()), complete=False)
        self.news.clear()
        chosen = self._rng.permutation(len(self.peers))[:FANOUT]
        return [Send(self.peers[index], news) for index in chosen]

    def list_all(self, peer: Peer) -> Send:
        return Send(peer, messages.listing(self._pool.entries(), sorted(self._pool.proofs), complete=True))

    def answer(self, peer: Peer, theirs: Listing) -> list[Send]:
        """Pull what a neighbour has and we lack; if it has listed all it has, tell it what it lacks."""
        wanted = [entry for entry in theirs.entries if self._wants(entry)]
        accused = [origin for origin in theirs.excluded if self._unproven(origin)]
        sends = []
        if wanted or accused:
            self._remember(wanted)
            origins = dict.fromkeys([*(origin for origin, _, _ in wanted), *accused])
            sends.append(Send(peer, messages.encode(Pull(tuple(origins)))))
        return sends + (self._tell_missing(peer, theirs) if theirs.complete else [])

    def asked_for(self, message: Pull) -> list[Record]:
        return [self._pool.records[origin] for origin in dict.fromkeys(message.origins) if origin in self._pool.records]

    def _compare(self, peer: Peer) -> Send:
        return Send(peer, messages.encode(Digest(self._pool.root)))

    def _wants(self, entry: Entry) -> bool:
        """Whether a version is new to us, or contradicts one that we hold, and was not asked for just now."""
        origin, version, digest = entry
        if origin not in self._charter.keys or self._pool.knows(origin, version, digest) or entry in self._asked:
            return False
        return version >= self._pool.version(origin)

    def _unproven(self, origin: AgentId) -> bool:
        return origin in self._charter.keys and origin not in self._pool.proofs

    def _remember(self, wanted: list[Entry]) -> None:
        # Neighbours who list versions that do not exist must not fill the memory; asking twice is harmless.
        if len(self._asked) > 4 * self._charter.limits.members:
            self._asked.clear()
        self._asked |= dict.fromkeys(wanted, self._tick)
        for entry in wanted:
            last, times = self._vain.get(entry[0], (entry, 0))
            self._vain[entry[0]] = entry, times + 1 if last == entry else 1
            if self._vain[entry[0]] == (entry, OVERDUE):
                self.overdue.append(entry)

    def _tell_missing(self, peer: Peer, theirs: Listing) -> list[Send]:
        known = {origin: (version, digest) for origin, version, digest in theirs.entries}
        missing = [entry for entry in self._pool.entries() if lacks(known.get(entry[0]), entry)]
        accused = sorted(self._pool.proofs.keys() - set(theirs.excluded))
        return [Send(peer, messages.listing(missing, accused, complete=False))] if missing or accused else []


def lacks(theirs: tuple[int, bytes] | None, ours: Entry) -> bool:
    """Whether somebody who holds that version of an origin should hear of ours: it is newer, or contradicts it."""
    _, version, digest = ours
    return theirs is None or theirs[0] < version or (theirs[0] == version and theirs[1] != digest)
