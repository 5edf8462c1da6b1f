"""A member of a group and its data, without messages: calls in, effects out. `Agent` adds the messages."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from decbayes.disclosure import Rules
from decbayes.errors import InvalidCharter, NotDisclosed, Refused
from decbayes.models.core.persons import Persons
from decbayes.network.protocol.effects import Effect, Persist, Report, Saved
from decbayes.network.protocol.group.ballots import open_ballot
from decbayes.network.protocol.group.charter import Charter
from decbayes.network.protocol.group.keys import Identity
from decbayes.network.protocol.group.motions import Ballot, Open, Question, sign_vote
from decbayes.network.protocol.records.accounts import next_epoch
from decbayes.network.protocol.records.merges import Merged
from decbayes.network.protocol.records.notes import same_note
from decbayes.network.protocol.records.pool import Pool
from decbayes.network.protocol.records.record import Record
from decbayes.network.protocol.records.statements import Approval
from decbayes.network.protocol.records.verification import open_record
from decbayes.network.protocol.site.evidence import (
    Evidence,
    Learned,
    MergeNote,
    correct,
    fitted_data,
    fitted_part,
    learn,
    note_on_merge,
    nothing,
    persons_in,
    relearn,
    select_shards,
)
from decbayes.network.protocol.site.leaving import in_force
from decbayes.network.protocol.site.publisher import LEAP, Publisher, Verify, standing_of
from decbayes.network.protocol.site.shards import ShardData, shard_id
from decbayes.posterior import Posterior


class Member:
    """What an agent's owner asks of it: observe, refine, correct and retract data, vote, and merge.

    `rules` are the site's own disclosure rules, which hold where they are stricter than the charter's.
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
        self.identity, self.rng = identity, rng
        self.id = identity.id
        self.pool = Pool(charter)
        self._site_rules, self._verify = rules, verify
        self._number = int(rng.integers(1, LEAP))
        self.refinements = 0
        self.again: dict[str, Any] = {}
        """Data to observe again, because the charter in force refuses the record that held them."""
        self.withheld = ""
        """Why data are withheld under the disclosure rules; empty if none are."""
        self._data = ShardData(charter)
        self._withheld: frozenset[str] = frozenset()
        self.pool.restore(saved, self._checked)
        self._data.renew(self.charter)
        self._publisher = Publisher(self.charter, identity, self.pool, rng, verify, approval=self._approval)
        self._adopt_records()
        self._stood = self.standing

    @property
    def charter(self) -> Charter:
        """The charter in force: the founding one with all decisions since."""
        return self.pool.charter

    @property
    def rules(self) -> Rules | None:
        """The disclosure rules: the stricter of the group's and the site's own."""
        return in_force(self.charter.disclosure, self._site_rules)

    @property
    def _approval(self) -> bool:
        return self.rules is not None and self.rules.approval

    def observe(
        self, data: Any, *, shard: str | None = None, persons: Any = None, rng: np.random.Generator
    ) -> list[Effect]:
        """Fit new data and publish the result; a shard that already counts is not counted again.

        `learn` and `publish` are its two halves, for fits in another thread.
        """
        try:
            learned = self.learn(data, shard=shard, persons=persons, rng=rng)
        except NotDisclosed as error:
            return self.withhold(str(error))
        return [] if learned is None else self.publish(learned)

    def learn(
        self, data: Any, *, shard: str | None = None, persons: Any = None, rng: np.random.Generator
    ) -> Learned | None:
        """Fit new data on top of earlier own data without publishing; None if the data already count.

        By default a shard's name is a keyed digest that only this site can compute; all members see a name given as
        `shard`. `persons` identifies the person behind each observation, if persons have several; it never leaves the
        site. Data that break the disclosure rules raise NotDisclosed and are withheld until later data complete them.
        """
        name = shard if shard is not None else self.shard_id(data)
        self._data.keep(name, data, persons)
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
            shards = {name: self._data.shards[name] for name in names}
            return learn(self.charter, self.evidence, shards, rng, ids=ids, rules=self.rules, people=self._data.people)
        except NotDisclosed:
            self._withheld |= {*names}
            raise

    def _small(self, shard: str) -> bool:
        """Whether a shard is too small to be published alone."""
        known = {shard: self._data.shards[shard]}
        count = self.charter.model.count(fitted_part(self.charter, known[shard]))
        persons = persons_in(self.charter, known, self._data.people).total(count)
        return self.rules is not None and persons < self.rules.least_observations

    def withhold(self, why: str) -> list[Effect]:
        """Report once why data are not published."""
        before, self.withheld = self.withheld, why
        return [] if before == why else [Report("withheld", {"why": why})]

    def drop(self, shard: str) -> bool:
        """Forget a withheld shard; False if it was not withheld."""
        dropped = shard in self._withheld
        self._keep_back(self._withheld - {shard})
        return dropped

    def _keep_back(self, shards: frozenset[str]) -> None:
        self._withheld = shards
        self.withheld = self.withheld if shards else ""

    def hold(self, data: Any, persons: Any = None) -> str:
        """Keep data that do not count yet, and return their shard name."""
        name = self.shard_id(data)
        self._data.keep(name, data, persons)
        return name

    def holds(self, shards: frozenset[str]) -> bool:
        """Whether the data of these shards are in memory."""
        return shards <= self._data.shards.keys()

    def shard_id(self, data: Any) -> str:
        """The site's name for data, under which they count once."""
        return shard_id(data, self.identity.secret, len(self.charter.vocabulary))

    def counts(self, shard: str) -> bool:
        """Whether a shard of this site already counts, in its evidence or in the epoch's prior."""
        return shard in self.evidence.shards or shard in self.charter.counted.get(self.seat, ())

    @property
    def seat(self) -> str:
        """The seat that the agent's key belongs to, or belonged to; empty if none."""
        return self.pool.roster.names.get(self.id, "")

    @property
    def standing(self) -> str:
        """Why the agent's key does not count; empty if it does."""
        return standing_of(self.id, self.pool)

    def refine(self, *, rng: np.random.Generator) -> list[Effect]:
        """Refit all own data with everybody else's evidence as prior, and publish the result instead."""
        learned = self.relearn(rng=rng)
        return [] if learned is None else self.publish(learned)

    def relearn(self, *, rng: np.random.Generator) -> Learned | None:
        """The refined evidence, unpublished; None without own data, or if the charter allows no more refinements."""
        if not self.evidence.shards or self.refinements >= self.charter.limits.refinements:
            return None
        self.refinements += 1
        others = [r.posterior for r in self.pool.counted() if r.origin != self.id and r.posterior is not None]
        return relearn(self.charter, self.evidence, self._data.shards, others, rng, self.rules, self._data.people)

    def look(self) -> MergeNote:
        """A note on the current merge from own data; empty without data, or if the charter asks for no notes."""
        # A snapshot, because this runs in another thread while records arrive.
        pool, evidence = self.pool.as_of_now(), self.evidence
        if not self.charter.rules.notes or not evidence.shards:
            return MergeNote(pool.evidence_digest, None)
        note = note_on_merge(
            self.charter, evidence, self._data.shards, pool.merged(), self.id, self.rules, self._data.people
        )
        return MergeNote(pool.evidence_digest, note)

    def attach(self, made: MergeNote) -> list[Effect]:
        """Publish a note with the evidence, unless the merge has changed since."""
        note, published = made.note, self._publisher.published.note
        stale = made.evidence_digest != self.pool.evidence_digest or self.waiting or self.retracted
        if stale or note is None or (published is not None and same_note(note, published)):
            return []
        self._publisher.attach(note)
        return self._publisher.publish()

    def correct(self, shards: Iterable[str], *, rng: np.random.Generator) -> Learned:
        """The evidence of these shards alone, fitted from scratch: the others are withdrawn without a trace."""
        return correct(
            self.charter, self.evidence, self._data.shards, frozenset(shards), rng, self.rules, self._data.people
        )

    def publish(self, learned: Learned) -> list[Effect]:
        """Replace the agent's evidence, and publish it as soon as possible."""
        if self.retracted:
            return [Report("not_published", {"why": "this agent has retracted its contribution for good"})]
        if self.outdated(learned):
            why = "the agent's contribution, or the words that count, changed during the fit; fit again"
            return [Report("not_published", {"why": why})]
        self._keep_back(self._withheld - learned.evidence.shards)
        self._publisher.learn(learned.evidence)
        return self._publisher.publish()

    def outdated(self, learned: Learned) -> bool:
        """Whether the agent's evidence or the vocabulary has changed since a fit began."""
        words = learned.evidence.posterior.structure.labels
        return learned.replaces != self.evidence.shards or words != self.charter.structure.labels

    def approve(self, digest: str, approval: Approval) -> list[Effect]:
        """Publish the evidence that awaits approval, if it has this digest."""
        waiting = self.awaiting
        if waiting is None or waiting.posterior.digest != digest:
            return [Report("not_published", {"why": "another version awaits approval now; preview it first"})]
        self._publisher.approve(approval)
        return self._publisher.publish()

    def propose(self, question: Question, body: bytes = b"") -> list[Effect]:
        """Vote for a question under the charter in force; the first vote proposes it."""
        return self._vote(Ballot(self.pool.decisions.motion(question), {}, body))

    def propose_epoch(self, forgetting: float | str | None = None) -> list[Effect]:
        """Vote for making the current merge the prior of a new epoch."""
        return self.propose(*next_epoch(self.pool, forgetting))

    def vote(self, name: str) -> list[Effect]:
        """Vote for a motion by the beginning of its name; more votes for a settled one make it safer.

        An agent votes for a new epoch only if it would propose the same prior itself, without forgetting or with
        learned forgetting: nobody signs numbers that it cannot check.
        """
        ballot = self.pool.decisions.named(name)
        if ballot is None:
            some = ", ".join(sorted(ballot.name for ballot in self.pool.decisions.pending.values())) or "none"
            raise InvalidCharter(f"'{name}' does not identify one motion. Pending: {some}.")
        if not ballot.settled:
            self._check_epoch(ballot)
        return self._vote(ballot)

    def _check_epoch(self, ballot: Ballot) -> None:
        if isinstance(ballot.question, Open) and ballot.question not in self._possible_epochs():
            raise InvalidCharter(
                "This agent's records do not give the prior of that epoch: it has others by now, or more is forgotten "
                "than it knows of. Propose the epoch from here, with the same --forgetting, once no more news arrives."
            )

    def _possible_epochs(self) -> list[Question]:
        learn: list[float | str | None] = ["learn"] if self.charter.epoch is not None else []
        return [next_epoch(self.pool, forgetting)[0] for forgetting in (None, *learn)] if [*self.pool.counted()] else []

    def _vote(self, ballot: Ballot) -> list[Effect]:
        """Sign a vote; it counts and is sent once durable."""
        if self.standing:
            raise InvalidCharter(f"No vote: {self.standing}.")
        decisions = self.pool.decisions
        known = decisions.ballot(ballot.digest) or ballot
        if self.seat in known.votes or (known.settled and isinstance(known.question, Open)):
            return []
        self._number += 1
        vote = sign_vote(ballot.motion, self.seat, self.identity, self._number)
        signed = replace(ballot, votes={**ballot.votes, self.seat: vote})
        try:
            # Check it as all others will.
            return [Persist(replace(open_ballot(signed.content, decisions), settled=ballot.settled))]
        except Refused as error:
            raise InvalidCharter(f"The others would refuse it ({error})") from None

    def _vote_again(self) -> list[Effect]:
        """Sign lapsed motions that this agent voted for, and that are still undecided, under the new version."""
        decisions = self.pool.decisions
        lapsed, decisions.lapsed = decisions.lapsed, []
        effects: list[Effect] = []
        for ballot in lapsed:
            mine = ballot.votes.get(self.seat)
            # Votes under an earlier key may be a thief's, so they are not repeated.
            if mine is None or mine.origin != self.id or isinstance(ballot.question, Open):
                continue
            if decisions.decided_since(ballot):
                continue
            with suppress(InvalidCharter):
                effects += self.propose(ballot.question)
        return effects

    def retract(self) -> list[Effect]:
        """Retract the agent's evidence everywhere, for good."""
        self._publisher.retract()
        return self._publisher.publish()

    def merged(self) -> Merged:
        """The posterior of all evidence received, and the versions in it."""
        return self.pool.merged()

    def posterior(self) -> Posterior:
        """The posterior of all evidence received, including earlier epochs, in the model's structure."""
        return self.charter.update.whole(self.pool.posterior())

    @property
    def evidence(self) -> Evidence:
        """The evidence of the agent's own data, published or not."""
        return self._publisher.wanted.evidence

    @property
    def awaiting(self) -> Evidence | None:
        """Own evidence that must be approved before it is published; None if there is none."""
        return self._publisher.awaiting

    def data_of(self, evidence: Evidence) -> tuple[Any, Persons]:
        """The data behind evidence, as they were fitted, and their persons."""
        return fitted_data(self.charter, self._data.shards, evidence.shards, self.rules, self._data.people)

    def persons_of(self, evidence: Evidence) -> int:
        """The number of persons behind evidence; if its data are not in memory, the number of observations."""
        if not evidence.shards <= self._data.shards.keys():
            return evidence.observations
        return persons_in(self.charter, select_shards(self._data.shards, evidence.shards), self._data.people).total(
            evidence.observations
        )

    @property
    def narrow(self) -> bool:
        """Whether own evidence was published with a smaller vocabulary than the current one."""
        newest = self.pool.records.get(self.id)
        return newest is not None and not newest.empty and newest.words != self.charter.words_added.keys()

    @property
    def retracted(self) -> bool:
        return self._publisher.wanted.closed

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
        """Whether own evidence is not published yet, for instance because no neighbour has answered."""
        return self._publisher.waiting

    def _adopt_records(self) -> None:
        # A record under a replaced key remains valid, and is published again under the new key.
        newest = self.pool.roster.newest(self.seat, self.pool.records) if self.seat else None
        origins = [origin for origin in (self.id, newest) if origin in self.pool.records]
        if origins and origins[0] is not None:
            self._publisher.adopt(self.pool.records[origins[0]])

    def _renew(self) -> list[Effect]:
        """Switch to the charter in force if it has changed; data may have to be observed again."""
        if not self.pool.outdated:
            return []
        old = self.charter
        before = self.evidence.shards | old.counted.get(self.seat, frozenset())
        self.pool.renew(self._checked)
        self._data.renew(self.charter)
        # An agent that did not know its seat did not know either which of its data are in the prior.
        twice = self.evidence.shards & self.charter.counted.get(self.seat, frozenset())
        if twice or not old.reads_like(self.charter):
            self._publisher.renew(self.charter, approval=self._approval)
            self._adopt_records()
            withdrawn = self.evidence.shards - before
            if withdrawn and before <= self._data.shards.keys():
                # Shards that were withdrawn, but not yet from the published version, stay withdrawn.
                self._publisher.learn(nothing(self.charter))
        self.again = {
            name: self._data.shards[name]
            for name in sorted(before - self.evidence.shards)
            if name in self._data.shards and not self.counts(name)
        }
        reports: list[Effect] = [
            Report("adopted", {"new_epoch": old.opened != self.charter.opened, "observe_again": sorted(self.again)})
        ]
        stood, self._stood = self._stood, self.standing
        return reports if self._stood in ("", stood) else [*reports, Report("revoked", {"why": self._stood})]

    def _checked(self, record: Record) -> Record | None:
        """A record as read under the charter in force; None if it is refused."""
        try:
            return self._verify(open_record(record.content, self.charter, self.pool.decisions.ever), self.charter)
        except Refused:
            return None
