"""A running agent: one thread that calls it, a store, links, a log, and answers to those who ask."""

import time
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any

import numpy as np

from decbayes.errors import DecbayesError, InvalidData
from decbayes.files import to_bytes
from decbayes.network.protocol.agent import Agent
from decbayes.network.protocol.effects import Effect, Send, Store, persist_first
from decbayes.network.protocol.evidence import Learned
from decbayes.network.protocol.messages import message_bytes
from decbayes.network.protocol.pool import Entry
from decbayes.network.runtime.links import Links
from decbayes.network.runtime.log import Log
from decbayes.network.runtime.queues import SHARES, Inbox
from decbayes.network.runtime.stored import set_description
from decbayes.network.runtime.transport import SLACK, Question, Transport

TICK_SECONDS = 0.2
# Refining waits for so long without news, but not longer than the second: in a large group there is always news.
QUIET_TICKS, MOST_QUIET_TICKS = 15, 60
# So long without a neighbour, and it is time to say so.
ALONE_TICKS = 25
ALONE = "No neighbour is there."
MOST_QUESTIONS = 64

Fit = Callable[[], Learned | None]


class Service:
    """Runs an agent until it is told to stop.

    Fits run in a thread of their own, answers in another: messages are handled and relayed all the while.
    """

    def __init__(
        self, agent: Agent, store: Store, links: Links, log: Log, *, rng: np.random.Generator, refinements: int = 0
    ) -> None:
        self.agent, self.log = agent, log
        self._store, self._rng, self._refinements = store, rng, refinements
        self._inbox = Inbox(SHARES * (message_bytes(agent.charter) + SLACK))
        self._fits, self._answers = Worker(), Worker()
        self._failure: DecbayesError | None = None
        self._data: list[Any] = []
        self._root = b""
        self._refined_against: list[Entry] = []
        self._unreachable: dict[str, str] = {}
        self._quiet = self._ticks_due = self._ticks_alone = self._dropped = 0
        self.transport = Transport(agent, links, self._inbox, self._answer)
        log(
            "listening",
            agent=agent.charter.names[agent.id],
            id=agent.id.hex(),
            endpoints=self.transport.endpoints,
            charter=agent.charter.short_fingerprint,
            version=agent.version,
            **({} if links.tls is None else {"certificate_until": f"{links.tls.until:%Y-%m-%d %H:%M} UTC"}),
        )

    def observe(self, data: Any) -> None:
        """Fit data beside the talk, and publish the result."""
        self._data.append(data)
        self._fit(partial(self.agent.learn, data, rng=self._rng))

    def run(self, stop: Event) -> None:
        """Serve until `stop` is set; raise what made a fit impossible."""
        due = time.monotonic() + TICK_SECONDS
        while not stop.is_set() and self._failure is None:
            call = self._inbox.take(due - time.monotonic())
            if call is not None:
                self._perform(call() or [])
            if time.monotonic() >= due:
                self._tick()
                due = time.monotonic() + TICK_SECONDS
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """Leave: close the links. What was published still counts with the others."""
        self.transport.close()
        self.log("stopped", version=self.agent.version)

    # In the agent's thread

    def _perform(self, effects: list[Effect]) -> None:
        for effect in persist_first(self.agent, effects, self._store):
            if isinstance(effect, Send):
                self.transport.send(effect.peer, effect.message)
                continue
            self.log(effect.event, **effect.fields)
            if effect.event == "remembered":
                self._observe_again()

    def _observe_again(self) -> None:
        """After a lost disk the agent may stand for a part of its data; what counts already is not counted twice."""
        for data in self._data:
            self._fit(partial(self.agent.learn, data, rng=self._rng))

    def _tick(self) -> None:
        if not (self._fits.alive and self._answers.alive):
            raise RuntimeError("A thread of this agent has failed; the traceback above says why.")
        self._perform(self.agent.on_tick())
        self._look_around()
        self._report_losses()
        self._report_refusals()
        self._report_unreachable()
        if self._refinements and not self.agent.waiting:
            self._refine()
        self.log.end_tick()

    def _look_around(self) -> None:
        root = self.agent.pool.root
        self._quiet = self._quiet + 1 if root == self._root else 0
        self._root = root
        self._ticks_alone = 0 if self.agent.peers else self._ticks_alone + 1
        if self._ticks_alone == ALONE_TICKS:
            waiting = " Nothing is published before one answers." if self.agent.waiting else ""
            who = "Nobody who is linked is of this group: compare charters." if self.transport.linked else ALONE
            self.log("alone", text=f"{who}{waiting}")

    def _refine(self) -> None:
        """Refit against the others' evidence, once for each time that it has changed."""
        others = [entry for entry in self.agent.pool.entries() if entry[0] != self.agent.id]
        self._ticks_due = self._ticks_due + 1 if others != self._refined_against else 0
        if self._ticks_due >= (QUIET_TICKS if self._quiet >= QUIET_TICKS else MOST_QUIET_TICKS):
            self._refinements, self._ticks_due, self._refined_against = self._refinements - 1, 0, others
            self._fit(self._relearn)

    def _fit(self, job: Fit) -> None:
        self._fits.submit(partial(self._run_fit, job))

    def _publish(self, job: Fit, learned: Learned, done: Event) -> list[Effect]:
        """Publish what was learned, or fit again if the agent's own evidence has changed meanwhile."""
        effects: list[Effect] = []
        if learned.replaces != self.agent.own.shards and not self.agent.retracted:
            self._fit(job)
        else:
            effects = self.agent.publish(learned)
        done.set()
        return effects

    def _report_losses(self) -> None:
        """Say when messages were dropped; what matters in them will be repeated."""
        dropped = self._inbox.dropped + self.transport.dropped
        if dropped > self._dropped:
            self.log("dropped", messages=dropped - self._dropped)
        self._dropped = dropped

    def _report_refusals(self) -> None:
        """Count what was refused before it came to the agent: links without a proper certificate."""
        while self.log.warnings:
            self.agent.refused["link"] += 1
            self.log("refused", reason="link", text=self.log.warnings.popleft())

    def _report_unreachable(self) -> None:
        """Say once why a neighbour cannot be reached; again when the reason has changed, or it was there in between."""
        reasons = dict(self.log.unreachable)
        for endpoint, why in reasons.items() - self._unreachable.items():
            self.log("unreachable", endpoint=endpoint, why=why)
        self._unreachable = reasons

    def _fail(self, error: DecbayesError) -> None:
        self._failure = error

    def _answer(self, question: Question) -> None:
        """Answer a question: what is known at once, what must be computed beside the talk."""
        if self._answers.waiting > MOST_QUESTIONS:
            self.log("not_answered", question=question.text, why="too many questions")
            return
        match question.text:
            case "status":
                self._answers.submit(partial(question.answer, b"", self._status()))
            case "posterior":
                # Safe beside the talk: the pool copies its records in one step before it merges them.
                self._answers.submit(partial(self._answer_merged, question))
            case other:
                self._answers.submit(partial(question.refuse, f"There is no question '{other}'."))

    def _status(self) -> dict[str, Any]:
        agent, names = self.agent, self.agent.charter.names
        return {
            "agent": names[agent.id],
            "version": agent.version,
            "waiting": agent.waiting,
            "trouble": agent.trouble,
            "neighbours": len(agent.peers),
            "heard": {names[origin]: version for origin, version, _ in agent.pool.entries()},
            "excluded": sorted(names[origin] for origin in agent.pool.proofs),
            "refused": dict(agent.refused),
            "root": agent.pool.root.hex(),
        }

    # In the workers' threads

    def _relearn(self) -> Learned | None:
        """Refining is optional: if some of the data is not at hand, the agent goes on without."""
        try:
            return self.agent.relearn(rng=self._rng)
        except InvalidData as error:
            self._inbox.post(partial(self.log, "not_refined", why=str(error)))
            return None

    def _run_fit(self, job: Fit) -> None:
        try:
            learned = job()
        except DecbayesError as error:
            self._inbox.post(partial(self._fail, error))
            return
        if learned is not None:
            # The next fit builds on this one: it must not begin before this one is taken over.
            done = Event()
            self._inbox.post(partial(self._publish, job, learned, done))
            done.wait()

    def _answer_merged(self, question: Question) -> None:
        try:
            merged = self.agent.merged()
        except DecbayesError as error:
            question.refuse(str(error))
        else:
            posterior = self.agent.charter.update.whole(merged.posterior)
            question.answer(to_bytes(posterior), set_description(merged, self.agent.charter.names))


class Worker:
    """A thread that does one job after another. It ends with the process, in the middle of a job if need be."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def waiting(self) -> int:
        return self._jobs.qsize()

    def submit(self, job: Callable[[], None]) -> None:
        self._jobs.put(job)

    def _run(self) -> None:
        while True:
            self._jobs.get()()
