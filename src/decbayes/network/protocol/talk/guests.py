"""Which member a neighbour is, proved by signing the two ends of the link with that member's key."""

import hashlib

from decbayes.errors import Refused
from decbayes.network.protocol.effects import Peer
from decbayes.network.protocol.group.charter import Charter
from decbayes.network.protocol.group.keys import LINK, AgentId, Identity, short, signed_by
from decbayes.network.protocol.group.roster import Roster
from decbayes.network.protocol.talk.messages import Digest


class Guests:
    """The neighbours that have proved who they are.

    1. Only members are sent records; former members are sent decisions.
    2. Messages of others are read all the same: records are signed by their origin, and votes may make the neighbour
       a member.
    3. Session names are drawn at each start, so a signature for one link proves nothing on another.
    4. Without a `name` of our own, links are trusted, as in simulations.
    """

    def __init__(self, charter: Charter, identity: Identity, name: str | None) -> None:
        self.name = name
        self.members: dict[Peer, AgentId] = {}
        self._charter, self._identity = charter, identity
        self._signed: dict[Peer, bytes] = {}
        self._seen: dict[Peer, tuple[bytes, bytes]] = {}

    def introduce(self, peer: Peer) -> tuple[AgentId, bytes]:
        """Our id and a signature that is valid for this link only."""
        if self.name is None:
            return b"", b""
        if peer not in self._signed:
            self._signed[peer] = self._identity.sign(self._ends(self.name, peer), LINK)
        return self._identity.id, self._signed[peer]

    def recognise(self, peer: Peer, digest: Digest, roster: Roster) -> None:
        """Check a neighbour's proof of identity; Refused if it is invalid."""
        shown = digest.member, digest.proof
        if self.name is None or self._seen.get(peer) == shown:
            return
        public = roster.keys.get(digest.member)
        if public is None:
            raise Refused("stranger", f"{short(digest.member) or 'nobody'} is not a member of the group.")
        if not signed_by(public, self._ends(peer, self.name), digest.proof, LINK):
            raise Refused("stranger", f"it has not shown that it is {short(digest.member)}.")
        self._seen[peer], self.members[peer] = shown, digest.member

    def admit(self, peer: Peer, roster: Roster) -> bool:
        """Whether a neighbour is sent records: True for members, False for former ones. Strangers are refused."""
        if self.name is None:
            return True
        if peer not in self.members:
            raise Refused("stranger", "it has not shown which member it is.")
        return roster.sits(self.members[peer])

    def forget(self, peer: Peer) -> None:
        for known in (self.members, self._signed, self._seen):
            known.pop(peer, None)

    def _ends(self, sender: str, receiver: str) -> bytes:
        return hashlib.sha256("\0".join((self._charter.id, sender, receiver)).encode()).digest()
