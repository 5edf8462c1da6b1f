"""Talk with neighbours: messages as bytes, gossip about news, and proof of which member a neighbour is."""

from decbayes.network.protocol.talk.gossip import Gossip
from decbayes.network.protocol.talk.guests import Guests
from decbayes.network.protocol.talk.messages import message_bytes

__all__ = ["Gossip", "Guests", "message_bytes"]
