"""A running agent: one thread that calls it, a store, links, a log, and answers to those who ask."""

import time
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any

import numpy as np

from decbayes.errors import DecbayesError
from decbayes.files import to_bytes
from decbayes.network.agent import Agent
from decbayes.network.ask import describe
from decbayes.network.effects import Effect, Send, Store, settle
from decbayes.network.links import Links
from decbayes.network.log import Log
from decbayes.network.messages import message_bytes
from decbayes.network.pool import Entry
from decbayes.network.queues import Inbox
from decbayes.network.transport import Question, Transport

TICK_SECONDS = 0.2
# So long without news, and it is time to refine; so long without a neighbour, and it is time to say so.
QUIET_TICKS = 15
ALONE_TICKS = 25


class Service:
    """Runs an agent until it is told to stop.

    Fits run in a thread of their own, answers in another: messages are handled and relayed all the while.
    """

    def __init__(
        self, agent: Agent, store: Store, links: Links, log: Log, *, rng: np.random.Generator, refinements: int = 0
    ) -> None:
        self.agent, self.log = agent, log
        self._store, self._rng, self._refinements = store, rng, refinements
        self._inbox = Inbox(4 * message_bytes(agent.charter))
        self._fits, self._answers = Worker(), Worker()
        self._failure: DecbayesError | None = None
        self._root = b""
        self._refined_against: list[Entry] = []
        self._quiet = self._ticks_alone = self._dropped = self._strangers = 0
        self.transport = Transport(agent, links, self._inbox, self._answer)
        log(
            "listening",
            agent=agent.charter.names[agent.id],
            id=agent.id.hex(),
            endpoints=self.transport.endpoints,
            charter=agent.charter.short_fingerprint,
            version=agent.version,
        )

    def observe(self, data: Any) -> None:
        """Fit data beside the talk, and publish the result."""
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
        for effect in settle(self.agent, effects, self._store):
            if isinstance(effect, Send):
                self.transport.send(effect.peer, effect.message)
            else:
                self.log(effect.event, **effect.fields)

    def _tick(self) -> None:
        self._perform(self.agent.on_tick())
        self._look_around()
        self._report_losses()
        self._report_refusals()
        if self._refinements and self._quiet >= QUIET_TICKS and not self.agent.waiting:
            self._refine()
        self.log.end_tick()

    def _look_around(self) -> None:
        root = self.agent.pool.root
        self._quiet = self._quiet + 1 if root == self._root else 0
        self._root = root
        self._ticks_alone = 0 if self.agent.peers else self._ticks_alone + 1
        if self._ticks_alone == ALONE_TICKS:
            waiting = " Nothing is published before one answers." if self.agent.waiting else ""
            self.log("alone", text=f"No neighbour is there.{waiting}")

    def _refine(self) -> None:
        """Refit against the others' evidence, once for each time that it has changed."""
        others = [entry for entry in self.agent.pool.entries() if entry[0] != self.agent.id]
        if others and others != self._refined_against:
            self._refinements -= 1
            self._refined_against = others
            self._fit(partial(self.agent.relearn, rng=self._rng))

    def _fit(self, job: Callable[[], Any]) -> None:
        self._fits.submit(partial(self._fitted, job))

    def _report_losses(self) -> None:
        """Say when messages are lost for want of room; they will be repeated."""
        dropped = self._inbox.dropped + self.transport.dropped
        if dropped > self._dropped:
            self.log("dropped", messages=dropped - self._dropped)
        self._dropped = dropped

    def _report_refusals(self) -> None:
        """Count what was refused before it came to the agent: links without a proper certificate, and strangers."""
        while self.log.warnings:
            self._refuse("link", self.log.warnings.popleft())
        for _ in range(self.transport.strangers - self._strangers):
            self._strangers += 1
            self._refuse("stranger", "a message from somebody who is no neighbour.")

    def _refuse(self, reason: str, text: str) -> None:
        self.agent.refused[reason] += 1
        self.log("refused", reason=reason, text=text)

    def _fail(self, error: DecbayesError) -> None:
        self._failure = error

    def _answer(self, question: Question) -> None:
        """Answer a question: what is known at once, what must be computed beside the talk."""
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

    def _fitted(self, job: Callable[[], Any]) -> None:
        try:
            learned = job()
        except DecbayesError as error:
            self._inbox.post(partial(self._fail, error))
        else:
            if learned is not None:
                self._inbox.post(partial(self.agent.publish, learned))

    def _answer_merged(self, question: Question) -> None:
        try:
            merged = self.agent.merged()
        except DecbayesError as error:
            question.refuse(str(error))
        else:
            question.answer(to_bytes(merged.posterior), describe(merged, self.agent.charter.names))


class Worker:
    """A thread that does one job after another. It ends with the process, in the middle of a job if need be."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
        Thread(target=self._run, daemon=True).start()

    def submit(self, job: Callable[[], None]) -> None:
        self._jobs.put(job)

    def _run(self) -> None:
        while True:
            self._jobs.get()()
