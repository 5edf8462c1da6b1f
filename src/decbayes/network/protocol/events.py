"""The events that an agent reports, for people to read in its log."""

from collections.abc import Mapping
from typing import Any

from decbayes.network.protocol.effects import Peer, Report
from decbayes.network.protocol.group.charter import Charter, abbreviated
from decbayes.network.protocol.group.motions import Ballot
from decbayes.network.protocol.records.record import Entry, Record
from decbayes.network.protocol.sums import SumPart
from decbayes.network.protocol.talk.messages import Digest
from decbayes.network.protocol.talk.revisions import difference
from decbayes.secure.gathered import WAITED_FOR
from decbayes.secure.terms import Kind


def linked(peer: Peer, message: Digest, founding: Charter) -> Report:
    """A neighbour has sent its first digest, or has changed its charter or revision."""
    details = {"charter": abbreviated(message.charter.hex()), "software": message.software}
    if apart := difference(message.revision):
        return Report("other_revision", {"peer": peer, **details, "why": apart})
    same = message.charter.hex() == founding.fingerprint
    return Report("linked" if same else "other_charter", {"peer": peer, **details})


def accepted(record: Record, peer: Peer) -> Report:
    details = {"peer": peer, "version": record.version, "observations": record.header.observations}
    return Report("accepted", {"origin": record.origin.hex(), **details})


def published(record: Record) -> Report:
    details = {"shards": len(record.header.shards), "observations": record.header.observations}
    return Report("published", {"version": record.version, **details})


def overdue(entry: Entry) -> Report:
    why = "requested many times; it is longer than this agent's charter allows, or a link is too slow"
    return Report("overdue", {"origin": entry[0].hex(), "version": entry[1], "why": why})


def summed(kind: Kind, part: SumPart) -> Report:
    """This member has sent a message to a sum."""
    return Report("summed", {"round": part.round, "step": WAITED_FOR[kind], "seats": len(part.keys)})


def opened(sums: Mapping[str, Any]) -> Report:
    """A sum has opened, after which these are the group's sums."""
    return Report("opened", {name: sums[name] for name in ("opened", "rounds", "members", "rows")})


def decided(ballot: Ballot, before: Ballot | None) -> Report:
    """Seats have voted for a motion, or have settled it."""
    if ballot.settled and not (before is not None and before.settled):
        return Report("settled", named(ballot) | {"votes": sorted(ballot.votes)})
    voters = ballot.votes.keys() - (set() if before is None else before.votes.keys())
    return Report("voted", named(ballot) | {"votes": sorted(voters)})


def overruled(ballot: Ballot) -> Report:
    return Report("overruled", named(ballot))


def named(ballot: Ballot) -> dict[str, Any]:
    return {"motion": ballot.name, "text": ballot.text}
