"""Carries out the owner's orders in the background, and writes the answers into the store."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np

from decbayes.disclosure import Entry, Ledger, Manifest, release
from decbayes.disclosure.drafting import in_words
from decbayes.disclosure.identifiers import check_rows_are_persons
from decbayes.disclosure.ledger import today
from decbayes.disclosure.manifest import KEY
from decbayes.disclosure.releasing import person_digests
from decbayes.errors import DecbayesError, InvalidCharter, InvalidData, NotDisclosed, StoreFailed
from decbayes.files import save
from decbayes.network.protocol.agent import Agent
from decbayes.network.protocol.effects import Effect
from decbayes.network.protocol.group.charter import Charter
from decbayes.network.protocol.group.motions import Question, Show
from decbayes.network.protocol.records.accounts import next_epoch
from decbayes.network.protocol.records.merges import UNCOMPUTABLE
from decbayes.network.protocol.records.statements import Approval
from decbayes.network.protocol.site.evidence import Evidence, Learned
from decbayes.network.runtime.proposals import question_of
from decbayes.network.runtime.queues import Inbox, Worker
from decbayes.network.runtime.reports.description import OVERRULED
from decbayes.network.runtime.reports.log import Log
from decbayes.network.runtime.store import SqliteStore, orders
from decbayes.network.runtime.store.offline import read_ballots
from decbayes.network.runtime.store.orders import (
    Approve,
    Observe,
    Order,
    Propose,
    Replace,
    Retract,
    Take,
    Vote,
    Withdraw,
)

NONE = "none"  # in place of a column: each row is another person


@dataclass(frozen=True)
class OrderResult:
    """The result of an order's fit, and which files (by shard) count from now on or no longer count."""

    learned: Learned | None
    text: str
    added: tuple[tuple[str, str], ...] = ()
    withdrawn: tuple[str, ...] = ()
    approved: tuple[str, Approval] | None = None


Job = Callable[[], OrderResult]


class Owner:
    """Carries out each order once. Jobs run in the fitting thread, everything else in the agent's thread.

    A full disk loses nothing: failed writes are retried at each tick, and no order is begun twice.
    """

    def __init__(
        self,
        agent: Agent,
        store: SqliteStore,
        fits: Worker,
        inbox: Inbox,
        log: Log,
        *,
        rng: np.random.Generator,
        person: str = "",
        files: Sequence[Path] = (),
    ) -> None:
        self._agent, self._store, self._rng, self._person = agent, store, rng, person
        self._files = tuple(files)
        self._fits, self._inbox, self._log = fits, inbox, log
        self._begun: set[int] = set()
        self._answers: dict[int, str] = {}
        self._late: list[Callable[[], list[Effect]]] = []
        self.trouble = ""
        """What is wrong with the store, if that affects orders."""

    def tick(self) -> list[Effect]:
        """Begin all new orders; long ones run in another thread."""
        late, self._late = self._late, []
        effects = [effect for call in late for effect in call()]
        self._write_answers()
        try:
            waiting = orders.unanswered(self._store)
        except StoreFailed as error:
            self._complain(error)
            return effects
        if not self._answers and not self._late:
            self.trouble = ""
        for number, order in waiting:
            if number not in self._begun:
                self._begun.add(number)
                effects += self._begin(number, order)
        return effects

    def files(self) -> list[Path]:
        """The existing files that the agent was started with or ordered to observe."""
        paths = [*self._files, *map(Path, orders.observed_files(self._store))]
        return [path for path in dict.fromkeys(paths) if path.exists()]

    def _begin(self, number: int, order: Order) -> list[Effect]:
        job = self._job(order)
        if job is None:
            return self._at_once(number, order)
        self._fits.submit(partial(self._run, number, job))
        return []

    def _finish(self, number: int, job: Job, outcome: OrderResult, done: Event) -> list[Effect]:
        """Publish the result, or run the job again if the agent's evidence has changed meanwhile."""
        learned = outcome.learned
        try:
            if learned is not None and self._agent.outdated(learned):
                self._fits.submit(partial(self._run, number, job))
                return []
            effects = self._publish(outcome)
        except StoreFailed as error:
            self._complain(error)
            self._late.append(partial(self._finish, number, job, outcome, Event()))
            return []
        finally:
            done.set()
        self._answer(number, outcome.text)
        return effects

    def _publish(self, outcome: OrderResult) -> list[Effect]:
        """Record in the store which files count, then publish: after a crash the order is done again."""
        for path, shard in outcome.added:
            orders.remember(self._store, path, shard)
        for shard in outcome.withdrawn:
            orders.forget(self._store, shard)
        if outcome.approved is not None:
            return self._agent.approve(*outcome.approved)
        return [] if outcome.learned is None else self._agent.publish(outcome.learned)

    def _answer(self, number: int, text: str) -> None:
        self._answers[number] = text
        self._write_answers()

    def _write_answers(self) -> None:
        """Write pending answers; an order is over once its answer is durable."""
        for number, text in list(self._answers.items()):
            try:
                orders.answer(self._store, number, text)
            except StoreFailed as error:
                self._complain(error)
                return
            self._log("ordered", number=number, text=text)
            del self._answers[number]
            self._begun.discard(number)
            self.trouble = ""

    def _complain(self, error: StoreFailed) -> None:
        """Log once what is wrong with the store."""
        if str(error) not in (self.trouble, self._agent.trouble):
            self._log("store_failed", why=str(error))
        self.trouble = str(error)

    def _job(self, order: Order) -> Job | None:
        match order:
            case Observe(path):
                return partial(self._observe, path)
            case Withdraw(path):
                return partial(self._replace, path, None)
            case Replace(path, by):
                return partial(self._replace, path, by)
            case Approve():
                return partial(self._approve, order)
        return None

    def _at_once(self, number: int, order: Order) -> list[Effect]:
        """Carry out an order that needs no fit; it is answered once its vote, if any, is durable and counted."""
        try:
            effects, text = self._carry_out(order)
        except (DecbayesError, OSError) as error:
            effects, text = [], partial(str, f"not done: {error}")
        self._late.append(partial(self._answer_later, number, text))
        return effects

    def _answer_later(self, number: int, text: Callable[[], str]) -> list[Effect]:
        self._answer(number, text())
        return []

    def _carry_out(self, order: Order) -> tuple[list[Effect], Callable[[], str]]:
        agent = self._agent
        match order:
            case Retract():
                return agent.retract(), lambda: "retracted for good"
            case Vote(motion, approver):
                ballot = agent.pool.decisions.named(motion)
                if ballot is not None and agent.seat not in ballot.votes:
                    self._record(ballot.question, approver)
                return agent.vote(motion), partial(self._outcome, ballot.digest if ballot else b"")
            case Propose():
                return self._propose(order)
            case Take(path):
                return self._ballots_from(Path(path))
        raise AssertionError(order)

    def _propose(self, order: Propose) -> tuple[list[Effect], Callable[[], str]]:
        agent = self._agent
        question: Question
        body = b""
        if order.kind == "epoch":
            question, body = next_epoch(agent.pool, order.forgetting)
        elif order.kind == "show":
            if agent.pool.sums is None:
                raise InvalidCharter("This group has no sums: all contributions are visible.")
            question = agent.pool.sums.to_show(order.seats, order.round)
            self._record(question, order.approver)
        else:
            question = question_of(order, agent.charter)
        motion = agent.pool.decisions.motion(question).digest
        return agent.propose(question, body), partial(self._outcome, motion)

    def _record(self, question: Question, approver: str) -> None:
        """Record in the ledger what this site will show unmasked, before the site consents."""
        agent = self._agent
        if not isinstance(question, Show) or agent.part is None or agent.seat not in question.seats:
            return
        if not approver.strip():
            raise NotDisclosed(
                "This site's numbers would leave unmasked: name the person who approves that, --approve NAME."
            )
        share, why = agent.part.own_share(question.terms), "what it has added to secure sums, as members have decided"
        words, where = in_words(agent.charter.model), f"group {agent.charter.group}: audit"
        entry = Entry(today(), where, share.posterior.digest, agent.seat, words, round(share.rows), approver, why)
        ledger_of(self._store).append(entry)

    def _outcome(self, motion: bytes) -> str:
        """The current state of a motion, as an answer."""
        decisions = self._agent.pool.decisions
        settled, pending = decisions.settled.get(motion), decisions.pending.get(motion)
        if settled is not None and motion in decisions.overruled:
            return f"overruled: {settled.text} ({settled.name}) has no effect: {OVERRULED}"
        if settled is not None:
            return f"settled: {settled.text} ({settled.name}), by the votes of {', '.join(settled.votes)}"
        if pending is None:
            trouble = self._agent.trouble
            why = (
                f"the store fails: {trouble}"
                if trouble
                else "something else was settled meanwhile: see `decbayes status`"
            )
            return f"not settled yet: {why}"
        needed = decisions.needed(pending.motion)
        count, seats = len(pending.votes), len(decisions.roster.sitting)
        return (
            f"voted: {pending.text} ({pending.name}). {count} of {needed} votes needed ({seats} seats): "
            f"{', '.join(pending.votes)}. Others vote with `decbayes tell vote STORE {pending.name}`"
        )

    def _ballots_from(self, path: Path) -> tuple[list[Effect], Callable[[], str]]:
        """Take in ballots from a file, checked as if a neighbour had sent them."""
        decisions = self._agent.pool.decisions
        before = {*decisions.settled}
        effects = [effect for ballot in read_ballots(path) for effect in self._agent.on_ballot(str(path), ballot)]

        def summary() -> str:
            new = decisions.settled.keys() - before
            overruled = len(new & decisions.overruled)
            return f"taken in: {len(new)} newly settled resolutions" + (f", {overruled} overruled" if overruled else "")

        return effects, summary

    # In the fitting thread

    def _run(self, number: int, job: Job) -> None:
        try:
            outcome = job()
        except (*UNCOMPUTABLE, OSError) as error:
            self._inbox.post(partial(self._answer, number, f"not done: {error}"))
            return
        done = Event()
        self._inbox.post(partial(self._finish, number, job, outcome, done))
        # The next fit builds on this one, so it must wait until this one is published.
        done.wait()

    def _observe(self, path: str) -> OrderResult:
        if self._agent.retracted:
            raise InvalidData("This agent has retracted its contribution for good; nothing more is observed.")
        charter = self._agent.charter
        data, persons = read_site(charter, Path(path), self._person)
        shard, count = self._agent.shard_id(data), self._agent.charter.model.count(data)
        try:
            learned = self._agent.learn(data, persons=persons, rng=self._rng)
        except NotDisclosed as error:
            self._inbox.post(partial(self._agent.withhold, str(error)))
            return OrderResult(
                None, f"held back until the disclosure rules are obeyed: {error}", added=((path, shard),)
            )
        if charter.words != self._agent.charter.words:
            return self._observe(path)
        kept = f"these {count:,} are added to the sums" if self._agent.part else f"these {count:,} count already"
        text = f"observed {count:,}" if learned is not None else kept
        return OrderResult(learned, text, added=((path, shard),))

    def _replace(self, path: str, by: str | None) -> OrderResult:
        def kept_shard(file: str) -> str:
            return self._agent.hold(*read_site(self._agent.charter, Path(file), self._person))

        old = kept_shard(path)
        if by is None and self._agent.drop(old):
            return OrderResult(None, "withdrawn; it was never published", withdrawn=(old,))
        if old not in self._agent.evidence.shards:
            raise InvalidData(f"{path} is not in this agent's contribution: nothing is withdrawn.")
        kept = self._agent.evidence.shards - {old}
        added: tuple[tuple[str, str], ...] = ()
        if by is not None:
            added = ((by, kept_shard(by)),)
            kept |= {added[0][1]}
        learned = self._agent.correct(kept, rng=self._rng)
        text = f"withdrawn; {learned.evidence.observations:,} observations are left"
        return OrderResult(learned, text, added, (old,))

    def count_again(self, files: Sequence[Path]) -> Learned | None:
        """The agent's evidence counted again with the current vocabulary; None if its data are not available."""
        for path in files:
            self._agent.hold(*read_site(self._agent.charter, path, self._person))
        shards = self._agent.evidence.shards
        return self._agent.correct(shards, rng=self._rng) if shards and self._agent.holds(shards) else None

    def _approve(self, order: Approve) -> OrderResult:
        """Record the approved release in the ledger; publishing follows."""
        waiting, approval = self._agent.awaiting, Approval(order.name, order.reason, today())
        if waiting is None:
            raise NotDisclosed("Nothing waits for approval.")
        digest = waiting.posterior.digest
        if not digest.startswith(order.digest):
            raise NotDisclosed(f"The version that awaits approval now has the digest {digest[:12]}: preview it first.")
        if not approval.proper:
            raise NotDisclosed("An approval needs a name of 1 to 100 characters, and a reason of at most 1,000.")
        ledger = ledger_of(self._store)
        if not any(entry.posterior == digest for entry in ledger.entries()):
            data, persons = self._agent.data_of(waiting)
            members = person_digests(self._agent.charter.model, data, ledger, persons)
            release(
                self._manifest(waiting),
                f"group {self._agent.charter.group}",
                ledger,
                approver=approval.approver,
                reason=approval.reason,
                date=approval.date,
                members=members,
            )
        text = f"approved {digest[:12]}, {waiting.observations:,} observations; recorded in {ledger.path}"
        return OrderResult(None, text, approved=(digest, approval))

    def draft(self) -> None:
        """Write the evidence that awaits approval beside the store, so that it can be previewed."""
        waiting, path = self._agent.awaiting, self._store.path.with_suffix(".draft")
        if waiting is None:
            return
        try:
            save(waiting.posterior, path, note={KEY: self._manifest(waiting).plain()})
        except OSError as error:
            self._inbox.post(partial(self._log, "not_drafted", why=f"{path}: {error.strerror or error}"))

    def _manifest(self, evidence: Evidence) -> Manifest:
        agent = self._agent
        return Manifest(
            posterior=evidence.posterior.digest,
            model=in_words(agent.charter.model),
            rules=agent.rules,
            site=agent.pool.roster.called(agent.id),
            date=today(),
            rows=evidence.observations,
            persons=agent.persons_of(evidence),
            person="" if self._person == NONE else self._person,
            software=f"decbayes {agent.software}",
        )


def read_site(charter: Charter, path: Path, person: str, **reporting: Any) -> tuple[Any, Any]:
    """The data of a file, and the persons from its column `person`; None without such a column."""
    model = charter.model
    data = model.read(path, **reporting)
    if person == NONE or (not person and charter.disclosure is None):
        return data, None
    if not person:
        check_rows_are_persons(path, model)
        return data, None
    return data, model.persons(path, person)


def ledger_of(store: SqliteStore) -> Ledger:
    """The ledger of releases through an agent: a file beside its store."""
    return Ledger(store.path.with_suffix(".ledger"))
