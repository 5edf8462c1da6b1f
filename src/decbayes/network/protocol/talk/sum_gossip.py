"""How sum messages spread: agents push and compare their digests, and pull what they lack."""

from collections.abc import Iterable, Sequence

import numpy as np

from decbayes.network.protocol.effects import Peer, Send
from decbayes.network.protocol.group.charter import Charter
from decbayes.network.protocol.sums.group_sums import Packet, Sums
from decbayes.network.protocol.talk.gossip import FANOUT, PATIENCE
from decbayes.network.protocol.talk.messages import OVERHEAD, Packets, encode, message_bytes, packed

# The most requested digests that are remembered; asking twice is harmless.
MOST_ASKED = 4096


class SumGossip:
    """News of the group's sums for neighbours, and the requests made to them."""

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
        """Push the digests of new messages to a few neighbours."""
        news = tuple(digest for digest in self.news if self._sums.holds(digest))
        if not news or not peers:
            return []
        self.news.clear()
        message = encode(Packets(news))
        return [Send(peers[index], message) for index in self._rng.permutation(len(peers))[:FANOUT]]

    def list_all(self, peer: Peer) -> Send:
        return Send(peer, encode(Packets(tuple(self._sums.in_order()), complete=True)))

    def answer(self, peer: Peer, theirs: Packets) -> list[Send]:
        """Pull what a neighbour has and we lack; if its listing is complete, list what it lacks."""
        wanted = tuple(digest for digest in theirs.held if not self._sums.holds(digest) and digest not in self._asked)
        if len(self._asked) > MOST_ASKED:
            self._asked.clear()
        self._asked |= dict.fromkeys(wanted, self._ticks)
        sends = [Send(peer, encode(Packets(wanted=wanted)))] if wanted else []
        known = {*theirs.held}
        missing = tuple(digest for digest in self._sums.in_order() if digest not in known) if theirs.complete else ()
        return [*sends, Send(peer, encode(Packets(missing)))] if missing else sends

    def complete(self, theirs: Packets) -> bool:
        """Whether a neighbour has listed all that it holds, and we hold all of it, too."""
        return theirs.complete and all(map(self._sums.holds, theirs.held))

    def asked_for(self, theirs: Packets) -> list[Packet]:
        """The requested messages in the order of the request, in which the receiver can read each on arrival."""
        packets = (self._sums.packet(digest) for digest in dict.fromkeys(theirs.wanted))
        return [packet for packet in packets if packet is not None]

    @staticmethod
    def bodies(peer: Peer, packets: Iterable[Packet], charter: Charter) -> list[Send]:
        most = message_bytes(charter) - OVERHEAD
        return [
            Send(peer, encode(Packets(packets=part))) for part in packed([packet.content for packet in packets], most)
        ]
