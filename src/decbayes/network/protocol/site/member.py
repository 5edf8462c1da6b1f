"""A member of a group and its own data, without messages: calls in, effects out. `Agent` adds the messages."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from decbayes.disclosure import Rules
from decbayes.errors import NotDisclosed
from decbayes.network.protocol.effects import Effect, Report, Saved
from decbayes.network.protocol.group.charter import Charter
from decbayes.network.protocol.group.keys import AgentId, Identity
from decbayes.network.protocol.records.merges import Merged
from decbayes.network.protocol.records.notes import same_note
from decbayes.network.protocol.records.pool import Pool
from decbayes.network.protocol.records.statements import Approval
from decbayes.network.protocol.site.evidence import (
    Evidence,
    Learned,
    Look,
    correct,
    fitted,
    fitted_together,
    learn,
    noted,
    relearn,
)
from decbayes.network.protocol.site.leaving import in_force
from decbayes.network.protocol.site.publisher import Publisher, Verify
from decbayes.network.protocol.site.shard_ids import shard_id
from decbayes.posterior import Posterior


class Member:
    """What an agent's owner asks of it: to observe, refine, correct and retract data, to vote, and to merge.

    `rules` are the site's own disclosure rules: with those of the charter, whichever are stricter.
    """

    def __init__(
        self,
        charter: Charter,
        identity: Identity,
        rng: np.random.Generator,
        saved: Iterable[Saved],
        verify: Verify,
        rules: Rules | None = None,
    ) -> None:
        self.charter, self.identity, self.rng = charter, identity, rng
        self.id = identity.id
        self.pool = Pool(charter)
        self.rules = in_force(charter.disclosure, rules)
        self.refinements = 0
        self.withheld = ""
        """Why some data are not published: they break the disclosure rules."""
        self._shards: dict[str, Any] = {}
        self._withheld: frozenset[str] = frozenset()
        approval = self.rules is not None and self.rules.approval
        self._publisher = Publisher(charter, identity, self.pool, rng, verify, approval=approval)
        self._restore(saved)

    def observe(self, data: Any, *, shard: str | None = None, rng: np.random.Generator) -> list[Effect]:
        """Fit new data and publish the result; a shard that counts already is not counted again.

        `learn` and `publish` are its two halves, for those who fit in another thread.
        """
        try:
            learned = self.learn(data, shard=shard, rng=rng)
        except NotDisclosed as error:
            return self.withhold(str(error))
        return [] if learned is None else self.publish(learned)

    def learn(self, data: Any, *, shard: str | None = None, rng: np.random.Generator) -> Learned | None:
        """Fit new data on top of own earlier data; None if it counts already. Publishes nothing.

        A shard has a name that only this site can make from its content. A name that is given is seen by all members.
        Data that break the disclosure rules raise NotDisclosed and are withheld; later data may make up for it.
        """
        name = shard if shard is not None else self.shard_id(data)
        self._shards[name] = data
        if self.counts(name):
            return None
        named = self.evidence.shards and self.charter.structure.resizable
        ids = self.pool.merged().names(self.id) if named else ()
        small = [shard for shard in sorted(self._withheld - {name}) if not self.counts(shard) and self._small(shard)]
        if small:
            try:
                return self._learn([*small, name], rng, ids)
            except NotDisclosed:
                pass
        return self._learn([name], rng, ids)

    def _learn(self, names: Sequence[str], rng: np.random.Generator, ids: tuple[str, ...]) -> Learned:
        try:
            shards = {name: self._shards[name] for name in names}
            return learn(self.charter, self.evidence, shards, rng, ids=ids, rules=self.rules)
        except NotDisclosed:
            self._withheld |= {*names}
            raise

    def _small(self, shard: str) -> bool:
        """Whether a shard is too small to be published alone."""
        count = self.charter.model.count(fitted(self.charter, self._shards[shard]))
        return self.rules is not None and count < self.rules.least_observations

    def withhold(self, why: str) -> list[Effect]:
        """Say once why data are not published."""
        before, self.withheld = self.withheld, why
        return [] if before == why else [Report("withheld", {"why": why})]

    def drop(self, shard: str) -> bool:
        """Withdraw data that were withheld so far; whether there were such data."""
        dropped = shard in self._withheld
        self._keep_back(self._withheld - {shard})
        return dropped

    def _keep_back(self, shards: frozenset[str]) -> None:
        self._withheld = shards
        self.withheld = self.withheld if shards else ""

    def hold(self, data: Any) -> str:
        """Keep data at hand that does not count yet, and return its name."""
        name = self.shard_id(data)
        self._shards[name] = data
        return name

    def shard_id(self, data: Any) -> str:
        """The site's name for data, under which it counts once."""
        return shard_id(data, self.identity.secret)

    def counts(self, shard: str) -> bool:
        """Whether a shard of this site counts already, in its own evidence or in the epoch's prior."""
        seat = self.pool.roster.seat(self.id)
        return shard in self.evidence.shards or shard in self.charter.counted.get(seat, ())

    def refine(self, *, rng: np.random.Generator) -> list[Effect]:
        """Fit all own data again with everybody else's evidence as prior, and publish what that adds instead."""
        learned = self.relearn(rng=rng)
        return [] if learned is None else self.publish(learned)

    def relearn(self, *, rng: np.random.Generator) -> Learned | None:
        """The refined evidence, unpublished; None without own data, or when the charter allows no more of them."""
        if not self.evidence.shards or self.refinements >= self.charter.limits.refinements:
            return None
        self.refinements += 1
        others = [r.posterior for r in self.pool.counted() if r.origin != self.id and r.posterior is not None]
        return relearn(self.charter, self.evidence, self._shards, others, rng, self.rules)

    def look(self) -> Look:
        """A note on the current merge from own data; empty without data, or if the charter asks for no notes."""
        # In a thread of its own: records come in meanwhile.
        pool, evidence = self.pool.as_of_now(), self.evidence
        if not self.charter.rules.notes or not evidence.shards:
            return Look(pool.evidence, None)
        return Look(pool.evidence, noted(self.charter, evidence, self._shards, pool.merged(), self.id, self.rules))

    def attach(self, look: Look) -> list[Effect]:
        """Publish a note with the evidence, unless the merge has changed since."""
        note, published = look.note, self._publisher.published.note
        stale = look.evidence != self.pool.evidence or self.waiting or self.retracted
        if stale or note is None or (published is not None and same_note(note, published)):
            return []
        self._publisher.attach(note)
        return self._publisher.publish()

    def correct(self, shards: Iterable[str], *, rng: np.random.Generator) -> Learned:
        """The evidence of these shards alone, fitted from the start: others are withdrawn without a trace."""
        return correct(self.charter, self.evidence, self._shards, frozenset(shards), rng, self.rules)

    def publish(self, learned: Learned) -> list[Effect]:
        """Replace the agent's evidence; it goes out as soon as it may."""
        if self.retracted:
            return [Report("not_published", {"why": "this agent has retracted its evidence for good"})]
        if learned.replaces != self.evidence.shards:
            return [Report("not_published", {"why": "the agent's evidence changed during the fit; fit again"})]
        self._keep_back(self._withheld - learned.evidence.shards)
        self._publisher.learn(learned.evidence)
        return self._publisher.publish()

    def approve(self, digest: str, approval: Approval) -> list[Effect]:
        """Publish the evidence that waits for approval, if it is the one with that digest."""
        waiting = self.awaiting
        if waiting is None or waiting.posterior.digest != digest:
            return [Report("not_published", {"why": "another version waits for approval by now; look at it first"})]
        self._publisher.approve(approval)
        return self._publisher.publish()

    def vote(self, member: AgentId, key: bytes | None) -> list[Effect]:
        """Vote to remove a member (an empty key) or to replace its key; None withdraws the vote."""
        others = {subject: chosen for subject, chosen in self.votes.items() if subject != member}
        votes = others if key is None else {**others, member: key}
        if votes != self.votes:
            self._publisher.vote(votes)
        return self._publisher.publish()

    def retract(self) -> list[Effect]:
        """Withdraw the agent's evidence everywhere, for good."""
        self._publisher.retract()
        return self._publisher.publish()

    def merged(self) -> Merged:
        """The posterior of all evidence received, and the set of versions in it."""
        return self.pool.merged()

    def posterior(self) -> Posterior:
        """The posterior of all evidence received, including earlier epochs, in the model's structure."""
        return self.charter.update.whole(self.pool.posterior())

    @property
    def evidence(self) -> Evidence:
        """The evidence of the agent's own data, published or not."""
        return self._publisher.stand.evidence

    @property
    def awaiting(self) -> Evidence | None:
        """Own evidence that somebody has to approve before it is published."""
        return self._publisher.awaiting

    def data_of(self, evidence: Evidence) -> Any:
        """The data behind evidence, as they were fitted."""
        return fitted_together(self.charter, self._shards, evidence.shards, self.rules)

    @property
    def votes(self) -> Mapping[AgentId, bytes]:
        """This agent's votes: members to remove (an empty key), or to give another key."""
        return self._publisher.stand.votes

    @property
    def retracted(self) -> bool:
        return self._publisher.stand.closed

    @property
    def twin(self) -> bool:
        """Whether another agent is running with the same key."""
        return self._publisher.twin

    @property
    def version(self) -> int:
        """The newest version of the agent's own evidence that is durable; 0 before the first."""
        return self.pool.version(self.id)

    @property
    def waiting(self) -> bool:
        """Whether own evidence is not yet published: no neighbour was heard so far, or the disk is full."""
        return self._publisher.waiting

    def _restore(self, saved: Iterable[Saved]) -> None:
        self.pool.restore(saved)
        # What the site has said under a key that was replaced still stands, and is published under the new one.
        held = [origin for origin in (self.id, self.pool.roster.seat(self.id)) if origin in self.pool.records]
        if held:
            self._publisher.adopt(self.pool.records[held[0]])
