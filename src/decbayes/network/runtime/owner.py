"""Does what an agent's owner orders, beside the talk, and writes the answer into the store."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from decbayes.errors import DecbayesError, InvalidCharter, InvalidData
from decbayes.network.protocol.agent import Agent
from decbayes.network.protocol.charter import member_key
from decbayes.network.protocol.effects import Effect
from decbayes.network.protocol.evidence import Learned
from decbayes.network.protocol.keys import agent_id
from decbayes.network.runtime import orders
from decbayes.network.runtime.orders import Observe, Order, Replace, Retract, Vote, Withdraw
from decbayes.network.runtime.store import SqliteStore


@dataclass(frozen=True)
class Outcome:
    """What an order's fit has found, and which files count from now on, and which no more, by their shards."""

    learned: Learned | None
    text: str
    added: tuple[tuple[str, str], ...] = ()
    withdrawn: tuple[str, ...] = ()


Job = Callable[[], Outcome]


class Owner:
    """An agent's orders. All but the jobs themselves runs in the agent's thread."""

    def __init__(self, agent: Agent, store: SqliteStore, *, rng: np.random.Generator) -> None:
        self._agent, self._store, self._rng = agent, store, rng
        self._begun: set[int] = set()

    def due(self) -> tuple[list[Effect], list[tuple[int, Job]]]:
        """What can be done at once, and the jobs that the other new orders need."""
        effects: list[Effect] = []
        jobs: list[tuple[int, Job]] = []
        for number, order in orders.waiting(self._store):
            if number in self._begun:
                continue
            self._begun.add(number)
            job = self._job(order)
            if job is not None:
                jobs.append((number, job))
            else:
                effects += self._at_once(number, order)
        return effects, jobs

    def finish(self, number: int, outcome: Outcome) -> list[Effect]:
        """Publish what was found. The store knows first what counts: after a crash the order is done again."""
        for path, shard in outcome.added:
            orders.remember(self._store, path, shard)
        for shard in outcome.withdrawn:
            orders.forget(self._store, shard)
        effects = [] if outcome.learned is None else self._agent.publish(outcome.learned)
        self.answer(number, outcome.text)
        return effects

    def answer(self, number: int, text: str) -> None:
        orders.answer(self._store, number, text)
        self._begun.discard(number)

    def _job(self, order: Order) -> Job | None:
        match order:
            case Observe(path):
                return partial(self._observe, path)
            case Withdraw(path):
                return partial(self._replace, path, None)
            case Replace(path, by):
                return partial(self._replace, path, by)
        return None

    def _at_once(self, number: int, order: Order) -> list[Effect]:
        if isinstance(order, Retract):
            effects, text = self._agent.retract(), "retracted for good"
        else:
            assert isinstance(order, Vote)
            effects, text = self._vote(order)
        self.answer(number, text)
        return effects

    def _vote(self, order: Vote) -> tuple[list[Effect], str]:
        charter = self._agent.charter
        try:
            if order.member not in charter.members:
                raise InvalidCharter(f"There is no member '{order.member}' in the charter.")
            key = member_key(order.member, order.key) if order.key else None if order.key is None else b""
        except DecbayesError as error:
            return [], f"not done: {error}"
        count = len(charter.members)
        needed = int(charter.rules.agreement * count) + 1
        effects = self._agent.vote(agent_id(charter.members[order.member]), key)
        return effects, f"signed; it holds when {needed} of {count} members have signed the same"

    # In the fits' thread

    def _observe(self, path: str) -> Outcome:
        data = self._agent.charter.model.read(Path(path))
        shard, count = self._agent.shard_id(data), self._agent.charter.model.count(data)
        learned = self._agent.learn(data, rng=self._rng)
        text = f"observed {count:,}" if learned is not None else f"these {count:,} count already"
        return Outcome(learned, text, added=((path, shard),))

    def _replace(self, path: str, by: str | None) -> Outcome:
        read = self._agent.charter.model.read
        old = self._agent.shard_id(read(Path(path)))
        if old not in self._agent.own.shards:
            raise InvalidData(f"{path} is not in this agent's evidence: nothing is withdrawn.")
        kept = self._agent.own.shards - {old}
        added: tuple[tuple[str, str], ...] = ()
        if by is not None:
            added = ((by, self._agent.hold(read(Path(by)))),)
            kept |= {added[0][1]}
        learned = self._agent.correct(kept, rng=self._rng)
        text = f"withdrawn; {learned.evidence.observations:,} observations are left"
        return Outcome(learned, text, added, (old,))
