"""A running agent: one thread that calls it, a store, links, a log, and answers to questions."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import numpy as np

from decbayes.disclosure import Ledger
from decbayes.errors import DecbayesError, NotDisclosed
from decbayes.files import to_bytes
from decbayes.network.protocol.agent import Agent, persist_first
from decbayes.network.protocol.effects import Effect, Send
from decbayes.network.protocol.records.merges import UNCOMPUTABLE
from decbayes.network.protocol.records.record import Counted
from decbayes.network.protocol.site.evidence import Learned
from decbayes.network.protocol.sums import Due
from decbayes.network.protocol.talk.messages import message_bytes
from decbayes.network.runtime.links import Links
from decbayes.network.runtime.links.questions import Question
from decbayes.network.runtime.links.transport import SLACK, Transport
from decbayes.network.runtime.lookout import QUIET_TICKS, Lookout
from decbayes.network.runtime.owner import Owner, ledger_of
from decbayes.network.runtime.queues import SHARES, Call, Inbox, Worker
from decbayes.network.runtime.reports.description import TICK_SECONDS, about_members, answered, status_of
from decbayes.network.runtime.reports.log import Log
from decbayes.network.runtime.reports.metrics import LOOPBACK, Metrics
from decbayes.network.runtime.store import SqliteStore
from decbayes.network.runtime.store.ledgered import Ledgered
from decbayes.network.runtime.store.orders import withdrawn_shards
from decbayes.secure.private_rounds import PrivateShare

if TYPE_CHECKING:
    from decbayes.network.runtime.reports.watching import Watcher

# The most ticks that refining waits for a quiet time: in a large group there is always news.
MOST_QUIET_TICKS = 60
# Ticks without new evidence after which notes on the merge are made; long enough to refine first.
NOTE_TICKS = 25
MOST_QUESTIONS = 64
# The interval, in ticks, at which repeated refusals are counted in the log; the first of a kind is logged at once.
REFUSAL_TICKS = 50
# The interval, in ticks, at which orders are checked.
ORDER_TICKS = 5

Fit = Callable[[], Learned | None]


class Service:
    """Runs an agent until it is stopped.

    Fits, merges and answers run in threads of their own, so messages are always handled and relayed.
    """

    def __init__(
        self,
        agent: Agent,
        store: SqliteStore,
        links: Links,
        log: Log,
        *,
        rng: np.random.Generator,
        refinements: int = 0,
        metrics: Metrics | None = None,
        watcher: "Watcher | None" = None,
        person: str = "",
        ledger: Path | None = None,
        files: Sequence[Path] = (),
    ) -> None:
        self.agent, self.log = agent, log
        self._withdrawn = withdrawn_shards(store)
        self._metrics, self._watcher = metrics, watcher
        self._store, self._rng, self._refinements = store, rng, refinements
        self._books = Ledgered(store, ledger_of(store) if ledger is None else Ledger(ledger))
        self._inbox = Inbox(SHARES * (message_bytes(agent.charter) + SLACK))
        self._fits, self._answers, self._merges = Worker(), Worker(), Worker()
        self._owner = Owner(agent, store, self._fits, self._inbox, log, rng=rng, person=person, files=files)
        self._words = agent.charter.words
        self._failure: DecbayesError | None = None
        self._data: list[Any] = []
        self._refined_against: list[Counted] = []
        self._evidence_digest, self._ticks_same = b"", 0
        self._added: tuple[bytes, int] | None = None
        self._ticks_due = 0
        log.names = agent.pool.roster.names
        self.transport = Transport(agent, links, self._inbox, self._answer, self._turn_away)
        self._lookout = Lookout(agent, self.transport, self._inbox, self._merges, log)
        agent.called(self.transport.name)
        self._log_start(links)

    def _log_start(self, links: Links) -> None:
        agent, metrics, watcher = self.agent, self._metrics, self._watcher
        self.log(
            "listening",
            agent=agent.pool.roster.called(agent.id),
            id=agent.id.hex(),
            endpoints=self.transport.endpoints,
            charter=agent.pool.decisions.founding.short_fingerprint,
            version=agent.version,
            **({} if metrics is None else {"metrics": f"http://{LOOPBACK}:{metrics.port}/metrics"}),
            **({} if watcher is None else {"page": watcher.url}),
            **({} if links.tls is None else {"certificate_until": f"{links.tls.until:%Y-%m-%d %H:%M} UTC"}),
        )
        if agent.standing:
            self.log("revoked", why=agent.standing)
        if self.transport.unguarded:
            self.log("unguarded", why=self.transport.unguarded)

    def observe(self, data: Any, persons: Any = None) -> None:
        """Fit data in the background and publish the result; withdrawn data are skipped.

        `persons` identifies the person behind each observation, if persons may have several.
        """
        shard = self.agent.shard_id(data)
        if shard in self._withdrawn:
            self.log("skipped", shard=shard, why="it was withdrawn; `decbayes tell … observe` makes it count again")
            return
        if self.agent.counts(shard):
            self.log("skipped", shard=shard, why="it counts already")
        self._data.append(data)
        self._fit(partial(self.agent.learn, data, persons=persons, rng=self._rng))

    def run(self, stop: Event, *, until: Callable[[], bool] = lambda: False) -> None:
        """Serve until `stop` is set or `until()` holds, checked every second; raises the error of a failed fit."""
        if self.agent.narrow:
            self._count_again()
        due, over = time.monotonic() + TICK_SECONDS, False
        while not (stop.is_set() or over) and self._failure is None:
            call = self._inbox.take(due - time.monotonic())
            if call is not None:
                self._perform(call() or [])
            if time.monotonic() >= due:
                self._tick()
                over = self.agent.ticks % ORDER_TICKS == 0 and until()
                due = time.monotonic() + TICK_SECONDS
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """Close the links. The published contribution still counts for the others."""
        self.transport.close()
        for worker in (self._fits, self._answers, self._merges):
            worker.close()
        self.log("stopped", version=self.agent.version)

    # In the agent's thread

    def _perform(self, effects: list[Effect]) -> None:
        for effect in persist_first(self.agent, effects, self._books):
            if isinstance(effect, Send):
                self.transport.send(effect.peer, effect.message)
                continue
            self.log(effect.event, **effect.fields)
            if effect.event == "remembered":
                self._observe_again()
            elif effect.event == "adopted":
                self._adopt_charter()
            elif effect.event == "awaiting_approval":
                self._fits.submit(self._owner.draft)

    def _observe_again(self) -> None:
        """Observe all data again, since a lost disk may have lost some; data that already count are skipped."""
        for data in self._data:
            self._fit(partial(self.agent.learn, data, rng=self._rng))
        if self.agent.narrow:
            self._count_again()

    def _adopt_charter(self) -> None:
        """Fit data again that the charter now in force does not count yet."""
        self.log.names = self.agent.pool.roster.names
        for name, data in self.agent.again.items():
            self._fit(partial(self.agent.learn, data, shard=name, rng=self._rng))
        if self.agent.charter.words != self._words:
            self._count_again()

    def _count_again(self) -> None:
        """Count words that were added since own data were read."""
        self._words = self.agent.charter.words
        self._fit(partial(self._owner.count_again, self._owner.files()))

    def _tick(self) -> None:
        if not (self._fits.alive and self._answers.alive and self._merges.alive):
            raise RuntimeError("A thread of this agent has failed; the traceback above says why.")
        self._perform(self.agent.on_tick())
        if self.agent.ticks % ORDER_TICKS == 0:
            self._perform(self._owner.tick())
        self._show_status()
        self._lookout.tick()
        if self._watcher is not None and self._watcher.due(self.agent.pool.root):
            self._merges.submit(partial(self._watcher.merge, self.agent))
        if self._refinements and not self.agent.waiting:
            self._refine()
        self._add_up()
        if self.agent.charter.rules.notes:
            self._note_merge()
        if self.agent.ticks % REFUSAL_TICKS == 0:
            self.log.end_tick()

    def _show_status(self) -> None:
        if self.agent.ticks % ORDER_TICKS or (self._metrics is None and self._watcher is None):
            return
        status = self._status() | about_members(self.agent.pool, self._lookout.merged)
        if self._metrics is not None:
            self._metrics.status = status
        if self._watcher is not None:
            self._watcher.look(self.agent, status)
            if self._watcher.lost():
                self.log("page_lost", why="its process has ended; the agent continues without it")

    def _status(self) -> dict[str, Any]:
        around = {
            "crowded": self._lookout.crowded,
            "unguarded": self.transport.unguarded,
            "unreachable": dict(self.log.unreachable),
            "trouble": self.agent.trouble or self._owner.trouble or None,
        }
        return status_of(self.agent, self.transport.address) | around

    def _refine(self) -> None:
        """Refit against the others' evidence, once per change of it."""
        others = [record.merge_key for record in self.agent.pool.counted() if record.origin != self.agent.id]
        self._ticks_due = self._ticks_due + 1 if others != self._refined_against else 0
        if self._ticks_due >= (QUIET_TICKS if self._lookout.quiet >= QUIET_TICKS else MOST_QUIET_TICKS):
            self._refinements, self._ticks_due, self._refined_against = self._refinements - 1, 0, others
            self._fit(self._relearn)

    def _add_up(self) -> None:
        """Fit the contribution that a sum awaits, once per sum and set of data."""
        due = self.agent.due()
        if due is not None and self._added != (due.terms.digest, len(self._data)):
            self._added = due.terms.digest, len(self._data)
            self._fits.submit(partial(self._run_share, due))

    def _note_merge(self) -> None:
        """Once no new evidence arrives, publish the notes that others need to calibrate."""
        evidence = self.agent.pool.evidence_digest
        self._ticks_same = self._ticks_same + 1 if evidence == self._evidence_digest else 0
        self._evidence_digest = evidence
        if self._ticks_same == NOTE_TICKS:
            self._fits.submit(self._run_note)

    def _fit(self, job: Fit) -> None:
        self._fits.submit(partial(self._run_fit, job))

    def _publish(self, job: Fit, learned: Learned, done: Event) -> list[Effect]:
        """Publish the result of a fit, or fit again if the agent's evidence has changed meanwhile."""
        effects: list[Effect] = []
        if self.agent.outdated(learned) and not self.agent.retracted:
            self._fit(job)
        else:
            effects = self.agent.publish(learned)
        done.set()
        return effects

    def _fail(self, error: DecbayesError) -> None:
        self._failure = error

    def _answer(self, question: Question) -> list[Effect] | None:
        """Answer a question in another thread."""
        if max(self._answers.waiting, self._merges.waiting) > MOST_QUESTIONS:
            self.log("not_answered", question=question.text, why="too many questions")
            return None
        match question.text:
            case "status":
                self._answers.submit(partial(self._answer_status, question, self._status()))
            case "posterior":
                # Safe in another thread: the pool copies its records in one step before it merges them.
                self._merges.submit(partial(self._answer_merged, question))
            case other:
                self._answers.submit(partial(question.refuse, f"There is no question '{other}'."))
        return None

    def _turn_away(self, tell: Call) -> list[Effect]:
        """Refuse a question of a non-member, if that leaves room for members' questions."""
        if self._answers.waiting < MOST_QUESTIONS // 2:
            self._answers.submit(tell)
        return self.agent.on_stranger("a question")

    # In the workers' threads

    def _relearn(self) -> Learned | None:
        """Refine; if that fails, the agent continues without it."""
        try:
            return self.agent.relearn(rng=self._rng)
        except UNCOMPUTABLE as error:
            self._inbox.post(partial(self.log, "not_refined", why=str(error)))
            return None

    def _run_fit(self, job: Fit) -> None:
        try:
            learned = job()
        except NotDisclosed as error:
            self._inbox.post(partial(self.agent.withhold, str(error)))
            return
        except DecbayesError as error:
            self._inbox.post(partial(self._fail, error))
            return
        if learned is not None:
            # The next fit builds on this one, so it must wait until this one is published.
            done = Event()
            self._inbox.post(partial(self._publish, job, learned, done))
            done.wait()

    def _run_share(self, due: Due) -> None:
        try:
            share = self.agent.share(due)
            if isinstance(share, PrivateShare):
                self._books.check(share.spending)
        except UNCOMPUTABLE as error:
            self._inbox.post(partial(self.agent.withhold, str(error)))
        else:
            self._inbox.post(partial(self.agent.add, due, share))

    def _run_note(self) -> None:
        try:
            note = self.agent.look()
        except UNCOMPUTABLE as error:
            self._inbox.post(partial(self.log, "not_looked", why=str(error)))
            return
        self._inbox.post(partial(self.agent.attach, note))

    def _answer_status(self, question: Question, status: dict[str, Any]) -> None:
        """Answer with the status and the results of the last merge."""
        question.answer(b"", {**status, **about_members(self.agent.pool, self._lookout.merged)})

    def _answer_merged(self, question: Question) -> None:
        try:
            answer = answered(self.agent.pool)
        except UNCOMPUTABLE as error:
            question.refuse(str(error))
        else:
            question.answer(to_bytes(answer.posterior), answer.description)
