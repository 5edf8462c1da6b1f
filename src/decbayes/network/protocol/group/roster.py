"""Who is a member: those in the charter, unless the members vote otherwise.

A member's newest record carries its votes: remove that member, or replace its key by this one. What more than the
agreed share of the charter's members have in their newest records holds. So decisions spread, are kept and are undone
as records are, and agents with the same records agree on them. Only keys in the charter vote.
"""

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from decbayes.network.protocol.group.charter import Charter
from decbayes.network.protocol.group.keys import AgentId, agent_id, short


@dataclass(frozen=True)
class Roster:
    """A charter's members without those who were removed, and with replaced keys.

    >>> roster = network.Roster(charter)
    >>> roster.called(identity.id), roster.counts(identity.id, {identity.id})
    ('a', True)
    """

    charter: Charter
    removed: frozenset[AgentId] = frozenset()
    replaced: Mapping[AgentId, bytes] = field(default_factory=dict)

    @cached_property
    def keys(self) -> Mapping[AgentId, bytes]:
        """The public keys that may sign records."""
        return {**self.charter.keys, **{agent_id(key): key for key in self.replaced.values()}}

    @cached_property
    def names(self) -> Mapping[AgentId, str]:
        names = self.charter.names
        return {**names, **{agent_id(key): names[old] for old, key in self.replaced.items()}}

    def called(self, origin: AgentId) -> str:
        """A member's name, for any of its keys; a short id for keys that belong to nobody any more."""
        return self.names.get(origin, short(origin))

    @cached_property
    def earlier(self) -> Mapping[AgentId, AgentId]:
        """The key in the charter that a newer one has replaced."""
        return {agent_id(key): old for old, key in self.replaced.items()}

    @cached_property
    def present(self) -> frozenset[AgentId]:
        """The keys whose agents take part: each member's newest one, unless the member was removed."""
        return frozenset(self.newest(origin) for origin in self.charter.keys.keys() - self.removed)

    def seat(self, origin: AgentId) -> AgentId:
        """The key under which the charter lists a member, for any of its keys."""
        return self.earlier.get(origin, origin)

    def newest(self, origin: AgentId) -> AgentId:
        """The key that a member signs with now."""
        key = self.replaced.get(self.seat(origin))
        return self.seat(origin) if key is None else agent_id(key)

    def counts(self, origin: AgentId, known: Container[AgentId]) -> bool:
        """Whether a record under that key counts: it is a member's, and none under the member's newer key was heard."""
        newest = self.newest(origin)
        kept = origin in self.keys and self.seat(origin) not in self.removed
        return kept and (origin == newest or newest not in known)


Vote = tuple[AgentId, bytes]
"""The member it is about, and the key that member should have from now on; an empty key removes the member."""


def roster(charter: Charter, ballots: Iterable[tuple[AgentId, Iterable[Vote]]]) -> Roster:
    """The result of the votes; each ballot is a member and the votes in its newest record."""
    votes = Counter(vote for voter, cast in ballots if voter in charter.keys for vote in cast)
    needed = charter.rules.agreement * len(charter.members)
    decided = {subject: key for (subject, key), count in votes.items() if count > needed}
    removed = frozenset(subject for subject, key in decided.items() if not key)
    return Roster(charter, removed, {subject: key for subject, key in decided.items() if key})
