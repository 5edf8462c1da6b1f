"""How messages of sums get around: their digests are pushed and compared, and what is missing is pulled."""

from collections.abc import Iterable, Sequence

import numpy as np

from decbayes.network.protocol.effects import Peer, Send
from decbayes.network.protocol.group.charter import Charter
from decbayes.network.protocol.sums.heard import Packet, Sums
from decbayes.network.protocol.talk.gossip import FANOUT, PATIENCE
from decbayes.network.protocol.talk.messages import OVERHEAD, Packets, encode, message_bytes, packed

# How many digests are remembered as asked for; asking twice is harmless.
MOST_ASKED = 4096


class SumGossip:
    """What neighbours have not been sent yet about the group's sums, and what they have been asked for."""

    def __init__(self, sums: Sums, rng: np.random.Generator) -> None:
        self.news: list[bytes] = []
        self._sums, self._rng = sums, rng
        self._asked: dict[bytes, int] = {}
        self._ticks = 0

    def tick(self, peers: Sequence[Peer]) -> list[Send]:
        self._ticks += 1
        self._asked = {digest: tick for digest, tick in self._asked.items() if tick + PATIENCE > self._ticks}
        return self.tell_news(peers)

    def tell_news(self, peers: Sequence[Peer]) -> list[Send]:
        """Push what has come in since the last time to a few neighbours."""
        news = tuple(digest for digest in self.news if self._sums.holds(digest))
        if not news or not peers:
            return []
        self.news.clear()
        message = encode(Packets(news))
        return [Send(peers[index], message) for index in self._rng.permutation(len(peers))[:FANOUT]]

    def list_all(self, peer: Peer) -> Send:
        return Send(peer, encode(Packets(tuple(self._sums.in_order()), complete=True)))

    def answer(self, peer: Peer, theirs: Packets) -> list[Send]:
        """Pull what a neighbour has and we lack; if it has listed all that it has, tell it what it lacks."""
        wanted = tuple(digest for digest in theirs.held if not self._sums.holds(digest) and digest not in self._asked)
        if len(self._asked) > MOST_ASKED:
            self._asked.clear()
        self._asked |= dict.fromkeys(wanted, self._ticks)
        sends = [Send(peer, encode(Packets(wanted=wanted)))] if wanted else []
        known = {*theirs.held}
        missing = tuple(digest for digest in self._sums.in_order() if digest not in known) if theirs.complete else ()
        return [*sends, Send(peer, encode(Packets(missing)))] if missing else sends

    def complete(self, theirs: Packets) -> bool:
        """Whether a neighbour has listed all that it holds, and we hold it, too."""
        return theirs.complete and all(map(self._sums.holds, theirs.held))

    def asked_for(self, theirs: Packets) -> list[Packet]:
        """What a neighbour wants, in its order: they were announced in an order in which each can be understood."""
        packets = (self._sums.packet(digest) for digest in dict.fromkeys(theirs.wanted))
        return [packet for packet in packets if packet is not None]

    @staticmethod
    def bodies(peer: Peer, packets: Iterable[Packet], charter: Charter) -> list[Send]:
        most = message_bytes(charter) - OVERHEAD
        return [
            Send(peer, encode(Packets(packets=part))) for part in packed([packet.content for packet in packets], most)
        ]
