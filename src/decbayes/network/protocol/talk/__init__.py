"""Communication with neighbours: messages as bytes, gossip, and proofs of identity."""

from decbayes.network.protocol.talk.gossip import Gossip
from decbayes.network.protocol.talk.guests import Guests
from decbayes.network.protocol.talk.messages import message_bytes

__all__ = ["Gossip", "Guests", "message_bytes"]
