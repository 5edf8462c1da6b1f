"""An agent's own side: evidence fitted to its data, names of its shards, and publishing."""

from decbayes.network.protocol.site.evidence import Evidence, Learned
from decbayes.network.protocol.site.member import Member
from decbayes.network.protocol.site.publisher import Publisher

__all__ = ["Evidence", "Learned", "Member", "Publisher"]
