"""One member of the group without I/O: calls and messages in, effects out.

1. An agent signs a new version only after a neighbour has listed what it holds (`synced`): after a lost disk it thus
   learns its own highest version. The first version of a start, or after a reminder of a forgotten version, lies a
   random distance above the highest known one, so that versions known only far away are not reused either.
2. A version or a vote is persisted, then counted, then sent. Never in another order.
3. A settled resolution changes the charter in force at once. Records that the new charter refuses are dropped, and
   their data are observed again.
4. If somebody else replaces a version that this process has signed, two agents share a key, and this one falls silent.
5. News goes to neighbours in short listings; they pull what they lack. Everything accepted is relayed.
6. Neighbours compare one hash when they connect and at ticks; if it differs, they exchange listings.
7. With a neighbour on another revision of the protocol only these greetings are exchanged.
8. No clock is read. Ticks only pace the traffic; no outcome depends on them.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from decbayes.disclosure import Rules
from decbayes.errors import Refused, StoreFailed
from decbayes.network.protocol import events
from decbayes.network.protocol.effects import Effect, Peer, Persist, Report, Saved, Send, Store
from decbayes.network.protocol.group.ballots import open_ballot
from decbayes.network.protocol.group.charter import Charter
from decbayes.network.protocol.group.keys import AgentId, Identity, short
from decbayes.network.protocol.group.motions import Ballot, Proof, SignedBytes
from decbayes.network.protocol.limits import Allowance
from decbayes.network.protocol.records.pool import Change
from decbayes.network.protocol.records.record import Record
from decbayes.network.protocol.records.verification import Sealed, check_proof, open_record, open_signed, verify
from decbayes.network.protocol.site.adding import AddingMember
from decbayes.network.protocol.site.publisher import Verify
from decbayes.network.protocol.sums import SumPart
from decbayes.network.protocol.talk import messages
from decbayes.network.protocol.talk.gossip import Gossip, Neighbour
from decbayes.network.protocol.talk.guests import Guests
from decbayes.network.protocol.talk.messages import Batch, Digest, Listing, Packets, Pull
from decbayes.network.protocol.talk.revisions import difference
from decbayes.network.protocol.talk.sum_gossip import SumGossip


class Agent(AddingMember):
    """A member of a group: observes data, talks to neighbours, and returns the merged posterior at any time.

    `saved` are the items in its store. `verify` may be replaced by a caching version, as in the simulator. `software`
    is the program version shown to neighbours. `name` is how links address this agent: with it neighbours must prove
    that they are members, without it links are trusted. `rules` are the site's own disclosure rules, which hold where
    they are stricter than the charter's.

    >>> agent = network.Agent(charter, identity, rng=np.random.default_rng(0))
    >>> effects = agent.observe(np.ones((4, 1)), rng=np.random.default_rng(0))
    >>> agent.evidence.observations, agent.version  # published once a neighbour has listed what it holds
    (4, 0)
    """

    def __init__(
        self,
        charter: Charter,
        identity: Identity,
        *,
        rng: np.random.Generator,
        saved: Iterable[Saved] = (),
        verify: Verify = verify,
        software: str = "",
        name: str | None = None,
        rules: Rules | None = None,
    ) -> None:
        items = [*saved]
        super().__init__(charter, identity, rng, items, verify, rules)
        self._join_sums(items)
        self.software = software
        self.refused: Counter[str] = Counter()
        self.trouble: str | None = None
        limits = self.charter.limits
        self._bodies, self._checks = Allowance(limits.tick_bytes), Allowance(limits.tick_messages)
        self._versions = Allowance(1, limits.versions)
        self._guests = Guests(charter, identity, name)
        self._gossip = Gossip(self.pool, rng, software, self._guests.introduce)
        self._sum_gossip = None if self.pool.sums is None else SumGossip(self.pool.sums, rng)
        self._unsaved: dict[bytes, Saved] = {}

    @property
    def peers(self) -> Sequence[Peer]:
        """The current neighbours."""
        return tuple(self._gossip.peers)

    @property
    def neighbours(self) -> Mapping[Peer, Neighbour | None]:
        """The neighbours' latest digests; None for neighbours that have not sent one yet."""
        return dict(self._gossip.peers)

    @property
    def guests(self) -> Mapping[Peer, AgentId]:
        """The neighbours that have proved which member they are."""
        return dict(self._guests.members)

    @property
    def ticks(self) -> int:
        """The number of ticks since its start."""
        return self._gossip.ticks

    def called(self, name: str) -> None:
        """Set the name that links use for this agent: from now on neighbours must prove that they are members."""
        self._guests.name = name

    # Input from the transport

    def on_connect(self, peer: Peer) -> list[Effect]:
        """A neighbour has appeared: compare hashes with it at once."""
        return [self._gossip.connect(peer)]

    def on_disconnect(self, peer: Peer) -> list[Effect]:
        """A neighbour is gone. Its records still count."""
        self._gossip.disconnect(peer)
        self._guests.forget(peer)
        return []

    def on_tick(self) -> list[Effect]:
        """Send the news, compare hashes with one random neighbour, and retry failed writes."""
        for allowance in (self._bodies, self._checks, self._versions):
            allowance.refill()
        again = [Persist(item) for item in self._unsaved.values()]
        self._unsaved.clear()
        votes = self._vote_again()
        sums = [] if self._sum_gossip is None else self._sum_gossip.tick(self._gossip.alike)
        talk = [*self._gossip.tick(), *sums]
        return [*talk, *again, *votes, *self._publisher.publish(), *self._take_turn(), *self._report_overdue()]

    def on_bytes(self, peer: Peer, content: bytes) -> list[Effect]:
        """Handle a message from a neighbour; invalid ones are refused."""
        try:
            message = messages.decode(content, self.charter)
            if isinstance(message, Digest):
                self._guests.recognise(peer, message, self.pool.roster)
            elif apart := difference(self._gossip.revision(peer)):
                raise Refused("revision", f"the neighbour {apart}.")
            if isinstance(message, Pull) and not self._guests.admit(peer, self.pool.roster):
                message = Pull(tuple({*message.origins} & self.pool.proofs.keys()), message.decisions)
        except Refused as error:
            return [self._refuse(peer, error)]
        match message:
            case Digest():
                return self.on_digest(peer, message)
            case Listing():
                return self.on_listing(peer, message)
            case Pull():
                return self.on_pull(peer, message)
            case Batch():
                return self.on_batch(peer, message)
            case Packets():
                return self.on_packets(peer, message)

    def on_stranger(self, peer: Peer) -> list[Effect]:
        """Report a caller that does not hold the group's secret."""
        return [self._refuse(peer, Refused("stranger", "it does not hold the group's secret."))]

    def on_digest(self, peer: Peer, message: Digest) -> list[Effect]:
        """Compare a neighbour's hash with ours; if they are equal, it knows no version of ours that we have lost."""
        changed = self._gossip.hear(peer, message)
        reports: list[Effect] = [events.linked(peer, message, self.pool.decisions.founding)] if changed else []
        if difference(message.revision):
            return reports
        if message.root == self.pool.root:
            return reports + self._on_synced(root=True)
        sums = [] if self._sum_gossip is None else [self._sum_gossip.list_all(peer)]
        everything = [self._gossip.list_all(peer), *sums]
        affordable = self._bodies.spend(peer, sum(len(send.message) for send in everything))
        return reports + (everything if affordable else [])

    def on_listing(self, peer: Peer, message: Listing) -> list[Effect]:
        """Pull the listed records that we lack, and list those that the neighbour lacks."""
        effects: list[Effect] = [*self._gossip.answer(peer, message)]
        known = (version <= self.version for origin, version, _ in message.entries if origin == self.id)
        return effects + (self._on_synced() if message.complete and all(known) else [])

    def on_pull(self, peer: Peer, message: Pull) -> list[Effect]:
        """Send the requested bodies within the neighbour's budget; it will ask for the rest again."""
        affordable = [r for r in self._gossip.asked_for(message) if self._bodies.spend(peer, len(r.content))]
        proofs = [self.pool.proofs[origin] for origin in set(message.origins) & self.pool.proofs.keys()]
        ballots = [b for b in self._gossip.decisions_asked_for(message) if self._bodies.spend(peer, len(b.content))]
        return [Send(peer, batch) for batch in messages.batches(affordable, proofs, self.charter, ballots)]

    def on_batch(self, peer: Peer, message: Batch) -> list[Effect]:
        """Check the records, proofs and ballots in a batch, up to the neighbour's limit."""
        if not self._checks.spend(peer, messages.things_in(message)):
            return [self._refuse(peer, Refused("budget", "more records in a tick than a neighbour may send."))]
        effects = [effect for pair in message.proofs for effect in self.on_proof(peer, pair)]
        effects += [effect for ballot in message.ballots for effect in self.on_ballot(peer, ballot)]
        return effects + [effect for record in message.records for effect in self.on_record(peer, record)]

    def on_packets(self, peer: Peer, message: Packets) -> list[Effect]:
        """Handle sum messages from a neighbour: their digests, requests for them, or the messages themselves."""
        talk = self._sum_gossip
        if talk is None or self.part is None:
            return [self._refuse(peer, Refused("envelope", "this group has no sums."))]
        if not self._checks.spend(peer, 1 + len(message.packets)):
            return [self._refuse(peer, Refused("budget", "more messages in a tick than a neighbour may send."))]
        effects = [effect for content in message.packets for effect in self.on_packet(peer, content)]
        self.part.synced = self.part.synced or talk.complete(message)
        effects += talk.answer(peer, message)
        if message.wanted and self._may_pull(peer):
            affordable = [p for p in talk.asked_for(message) if self._bodies.spend(peer, len(p.content))]
            effects += talk.bodies(peer, affordable, self.charter)
        return [*effects, *self._take_turn()]

    def _may_pull(self, peer: Peer) -> bool:
        try:
            return self._guests.admit(peer, self.pool.roster)
        except Refused as error:
            self.refused[error.reason] += 1
            return False

    def on_packet(self, peer: Peer, content: bytes) -> list[Effect]:
        """Check a member's message to a sum and add it to the pool."""
        try:
            return self._add_packet(content)
        except Refused as error:
            return [self._refuse(peer, error)]

    def _add_packet(self, content: bytes) -> list[Effect]:
        """Add a sum message: it may prove that its member cheats, and it may open the sum."""
        assert self._sum_gossip is not None
        assert self.pool.sums is not None
        before = self.pool.sums.merged
        packet, proof = self.pool.add_packet(content)
        self._sum_gossip.news.append(packet.digest)
        effects: list[Effect] = [Persist(packet)]
        if proof is not None and self.pool.exclude(proof):
            effects += self._exclude(proof)
        after = self.pool.sums.merged
        if after is not None and after is not before:
            effects.append(events.opened(self.pool.sums.describe()))
        return effects

    def on_record(self, peer: Peer, content: bytes) -> list[Effect]:
        """Check a record and add it to the pool."""
        try:
            sealed = open_record(content, self.charter, self.pool.roster)
            self._check_new(sealed)
            record = self._checked_content(sealed)
        except Refused as error:
            if error.entry is not None:
                self._gossip.give_up(error.entry)
            return [self._refuse(peer, error)]
        self._versions.spend(record.origin, 1)
        if self.pool.add(record) is Change.EQUIVOCATION:
            return self._exclude(self.pool.proofs[record.origin])
        self._gossip.news.add(record.origin)
        effects: list[Effect] = [Persist(record), events.accepted(record, peer)]
        if record.origin == self.id:
            effects += [*self._publisher.remind(record), *self._on_synced()]
        return effects

    def _checked_content(self, sealed: Sealed) -> Record:
        """Verify a record's content. Checks are expensive, so invalid records count against the member's pace."""
        try:
            return self._verify(sealed, self.charter)
        except Refused as error:
            if error.entry is not None:
                self._versions.spend(sealed.signed.origin, 1)
            raise

    def on_proof(self, peer: Peer, pair: tuple[SignedBytes, SignedBytes]) -> list[Effect]:
        """Check a proof of equivocation: two headers with one number, both signed by the same member."""
        try:
            charter, roster = self.charter, self.pool.roster
            proof = Proof(*(open_signed(signed.header, signed.signature, charter, roster) for signed in pair))
            check_proof(proof, roster)
        except Refused as error:
            return [self._refuse(peer, error)]
        return self._exclude(proof) if self.pool.exclude(proof) else []

    def on_ballot(self, peer: Peer, content: bytes) -> list[Effect]:
        """Check votes for a motion and count them."""
        try:
            ballot = open_ballot(content, self.pool.decisions)
        except Refused as error:
            return [self._refuse(peer, error)]
        effects = self._count_votes(ballot)
        if effects is not None:
            return effects
        known = self.pool.decisions.ballot(ballot.digest) is not None
        why = ("replay", "its votes are known") if known else ("lapsed", "it was put under an earlier charter")
        return [self._refuse(peer, Refused(why[0], f"the motion {ballot.name}: {why[1]}."))]

    def _count_votes(self, ballot: Ballot) -> list[Effect] | None:
        """Count votes and return the effects; None if none of them is new."""
        decisions, void = self.pool.decisions, {*self.pool.proofs}
        before, overruled = decisions.ballot(ballot.digest), decisions.overruled
        if not self.pool.vote(ballot):
            return None
        effects = [e for key in self.pool.proofs.keys() - void for e in self._exclude(self.pool.proofs[key])]
        stored = decisions.ballot(ballot.digest)
        if stored is None:
            return effects
        self._gossip.decided.add(stored.digest)
        effects += [*self._write_earlier(), Persist(stored)]
        lost = sorted(decisions.overruled - overruled)
        if stored.digest not in lost:
            effects.append(events.decided(stored, before))
        effects += [events.overruled(decisions.settled[digest]) for digest in lost]
        return effects + self._adopt_charter()

    def _write_earlier(self) -> list[Effect]:
        """Write decisions that the disk had no room for before writing any that build on them."""
        earlier = {key: item for key, item in self._unsaved.items() if not isinstance(item, Record)}
        self._unsaved = {key: item for key, item in self._unsaved.items() if key not in earlier}
        return [Persist(item) for item in earlier.values()]

    def _on_ballot_persisted(self, ballot: Ballot) -> list[Effect]:
        """Votes are durable. Our own new vote counts from now on, unless its motion has lapsed meanwhile."""
        effects, decisions = self._count_votes(ballot), self.pool.decisions
        if effects is None and ballot.motion.after != decisions.version and ballot.digest not in decisions.settled:
            decisions.lapsed.append(ballot)
        return [*(effects or []), *self._gossip.tell_news()]

    def _adopt_charter(self) -> list[Effect]:
        """Switch to the charter in force if it has changed."""
        if not self.pool.outdated:
            return []
        self._gossip.reconsider()
        opened = self.pool.decisions.roster.opened
        stale = {key for key, item in self._unsaved.items() if isinstance(item, Record) and item.header.epoch != opened}
        self._unsaved = {key: item for key, item in self._unsaved.items() if key not in stale}
        return [*self._renew(), *self._publisher.publish()]

    def on_persisted(self, item: Saved) -> list[Effect]:
        """An item is durable. If it is our own new version or vote, it now counts and may be sent."""
        self.trouble = None
        if isinstance(item, Ballot):
            return self._on_ballot_persisted(item)
        if isinstance(item, SumPart):
            return self._on_part_persisted(item)
        published = self._publisher.persisted(item)
        if published is None:
            return []
        self._gossip.news.add(self.id)
        return [events.published(published), *self._gossip.tell_news(), *self._publisher.publish()]

    def _on_part_persisted(self, part: SumPart) -> list[Effect]:
        """This member's part in a sum is durable: add its messages and send them."""
        assert self.part is not None
        assert self._sum_gossip is not None
        effects: list[Effect] = []
        for packet in self.part.written(part):
            effects += [*self._add_packet(packet.content), events.summed(packet.message.kind, part)]
        return [*effects, *self._sum_gossip.tell_news(self._gossip.alike), *self._take_turn()]

    def on_persist_failed(self, item: Saved, why: str) -> list[Effect]:
        """The disk is full or broken: publish nothing new, keep serving, and retry at each tick."""
        # Only the newest record of another member is kept for retries; our own versions are never dropped.
        named_by_origin = isinstance(item, Record | Proof) and item.origin != self.id
        self._unsaved[item.origin if named_by_origin else item.digest] = item  # type: ignore[union-attr]
        # Reported again only if the problem changes.
        reports: list[Effect] = [] if self.trouble == why else [Report("store_failed", {"why": why})]
        self.trouble = why
        return reports

    # Consequences

    def _on_synced(self, *, root: bool = False) -> list[Effect]:
        """A neighbour has listed what it holds, and we know all of our own versions among it."""
        self._publisher.synced = True
        if self.part is not None and root:
            self.part.synced = True
        return [*self._publisher.publish(), *self._take_turn()]

    def _check_new(self, sealed: Sealed) -> None:
        signed = sealed.signed
        if signed.origin in self.pool.proofs:
            raise Refused("excluded", f"{short(signed.origin)} has signed two records under one version.")
        if self.pool.knows(signed.origin, signed.version, signed.digest):
            newest = signed.version == self.pool.version(signed.origin)
            raise Refused("replay" if newest else "stale", f"version {signed.version} of {short(signed.origin)}.")
        if not self._versions.has(signed.origin):
            raise Refused("pace", f"{short(signed.origin)} signs versions faster than others accept them.")

    def _exclude(self, proof: Proof) -> list[Effect]:
        self._gossip.news.add(proof.origin)
        report = Report("excluded", {"origin": proof.origin.hex()})
        return [*self._write_earlier(), Persist(proof), report, *self._adopt_charter()]

    def _report_overdue(self) -> list[Effect]:
        """Report records that never arrive: a transport may have discarded messages that are too long."""
        # An agent without a seat is sent no records, and has been told why.
        reports = [] if self.standing else [events.overdue(entry) for entry in self._gossip.overdue]
        self._gossip.overdue.clear()
        return [*reports]

    def _refuse(self, peer: Peer, error: Refused) -> Report:
        self.refused[error.reason] += 1
        return Report("refused", {"peer": peer, "reason": error.reason, "text": str(error)})


def persist_first(agent: Agent, effects: Iterable[Effect], store: Store) -> list[Send | Report]:
    """Carry out all writes and return the effects that remain to be sent or logged.

    Simultaneous writes share one transaction, so the disk is waited for once.

    >>> with network.SqliteStore("a.store", charter) as store:
    ...     agent = network.Agent(charter, identity, rng=np.random.default_rng(0), saved=store.load())
    ...     [effect.message[:1] for effect in network.persist_first(agent, agent.on_connect("b"), store)]
    [b'...']
    """
    waiting, remaining = list(effects), list[Send | Report]()
    while writes := [effect.item for effect in waiting if isinstance(effect, Persist)]:
        remaining += [effect for effect in waiting if not isinstance(effect, Persist)]
        waiting = write(agent, writes, store)
    return remaining + [effect for effect in waiting if not isinstance(effect, Persist)]


def write(agent: Agent, items: Sequence[Saved], store: Store) -> list[Effect]:
    """Make items durable and return the effects of success or failure."""
    try:
        store.put(items)
    except StoreFailed as error:
        return [effect for item in items for effect in agent.on_persist_failed(item, str(error))]
    return [effect for item in items for effect in agent.on_persisted(item)]
