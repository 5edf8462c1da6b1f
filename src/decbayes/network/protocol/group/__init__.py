"""Who belongs to a group and what its members have agreed on: charter, keys, and the roster that follows from votes.

What members decide together belongs here; records, and what is counted, only ask the roster.
"""

from decbayes.network.protocol.group.charter import Charter
from decbayes.network.protocol.group.keys import AgentId, Identity, agent_id, short
from decbayes.network.protocol.group.roster import Roster

__all__ = ["AgentId", "Charter", "Identity", "Roster", "agent_id", "short"]
