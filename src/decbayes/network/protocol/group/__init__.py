"""Who belongs to a group and what its members have decided: charter, keys, motions, votes and resolutions.

Other rooms ask the roster that follows from these.
"""

from decbayes.network.protocol.group.charter import Charter
from decbayes.network.protocol.group.decisions import Decisions
from decbayes.network.protocol.group.keys import AgentId, Identity, agent_id, short
from decbayes.network.protocol.group.motions import Ballot, Proof
from decbayes.network.protocol.group.roster import Roster, Seat

__all__ = [
    "AgentId",
    "Ballot",
    "Charter",
    "Decisions",
    "Identity",
    "Proof",
    "Roster",
    "Seat",
    "agent_id",
    "short",
]
