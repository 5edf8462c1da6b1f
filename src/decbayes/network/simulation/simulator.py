"""Many real agents in one process, with a virtual clock and simulated links of any quality.

Everything follows from the seed. Messages are lost, doubled and delayed (hence reordered); sites crash with or without
their disks; links are cut. A `Ledger` checks all guarantees after every event.
"""

import heapq
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

from decbayes.network.protocol.agent import Agent, persist_first
from decbayes.network.protocol.effects import Effect, Report, Send
from decbayes.network.protocol.group.charter import Charter
from decbayes.network.protocol.group.keys import Identity
from decbayes.network.protocol.records.record import Record
from decbayes.network.protocol.records.verification import Sealed, verify
from decbayes.network.simulation.guarantees import Ledger
from decbayes.network.simulation.simulated_sites import Disk, SimulatedSite
from decbayes.network.simulation.topology import Edge

# One of this many messages is overheard.
OVERHEAR = 5
LAST_REPORTS = 10_000

MakeAgent = Callable[..., Agent]


@dataclass(frozen=True)
class Weather:
    """How bad the links are: the share of messages lost and doubled, and the longest delay in steps."""

    loss: float = 0.0
    duplication: float = 0.0
    delay: int = 0


CALM = Weather()


@dataclass
class Traffic:
    """The traffic on all links."""

    messages: int = 0
    bytes: int = 0
    lost: int = 0


class Simulation:
    """Sites, links and the messages in transit."""

    def __init__(
        self,
        charter: Charter,
        identities: Iterable[Identity],
        *,
        rng: np.random.Generator,
        weather: Weather = CALM,
        make_agent: MakeAgent = Agent,
    ) -> None:
        self.charter, self.rng, self.weather = charter, rng, weather
        self.ledger = Ledger(charter)
        self.sites = [
            SimulatedSite(number, key, Disk(self.ledger, number, key.id), charter.names.get(key.id, f"site {number}"))
            for number, key in enumerate(identities)
        ]
        self.ledger.sites = self.sites
        self.links: set[Edge] = set()
        self.time = 0
        self.traffic = Traffic()
        self.reports: deque[tuple[int, int, Report]] = deque(maxlen=LAST_REPORTS)
        # Some of the messages, for replays and forgeries.
        self.overheard: deque[bytes] = deque(maxlen=LAST_REPORTS)
        self.read: Callable[[Charter, Any], Any] = lambda _, data: data
        """How a site's data are read under a charter, for instance which words are counted."""
        self._make_agent = make_agent
        self._underway: list[tuple[int, int, int, int, bytes]] = []
        self._sequence = count()
        self._verified: dict[tuple[bytes | str, ...], Record] = {}

    # Events at sites

    def start(self, site: SimulatedSite) -> None:
        """Start a site's agent from its disk; it observes all data of its site again, as a real one does."""
        site.agent = self._make_agent(
            self.charter, site.identity, rng=self.rng, saved=site.disk.load(), verify=self._verify
        )
        site.starts += 1
        site.keys.add(site.identity.id)
        self.ledger.started(site)
        self.remember(site)
        for other in self.neighbours(site):
            self._meet(site, other)

    def remember(self, site: SimulatedSite) -> None:
        """Make the agent's evidence match its site's data, except those in the prior."""
        agent = site.agent
        assert agent is not None
        for name, data in site.shards.items():
            self.perform(site, agent.observe(self.read(agent.charter, data), shard=name, rng=self.rng))
        if agent.narrow and agent.evidence.shards <= site.shards.keys():
            self.withdraw(site)
        if not agent.evidence.shards <= site.shards.keys() and self.uncounted(site) <= agent.evidence.shards:
            self.withdraw(site)

    def uncounted(self, site: SimulatedSite) -> frozenset[str]:
        """The site's shards that are not in its agent's prior."""
        assert site.agent is not None
        return frozenset(site.shards) - site.agent.charter.counted.get(site.seat, frozenset())

    def withdraw(self, site: SimulatedSite) -> None:
        """Refit the agent's evidence from its site's remaining data."""
        assert site.agent is not None
        self.perform(site, site.agent.publish(site.agent.correct(self.uncounted(site), rng=self.rng)))

    def rekey(self, site: SimulatedSite, identity: Identity) -> None:
        """Restart a site's agent with another key."""
        self.stop(site)
        site.identity, site.disk.owner = identity, identity.id
        self.start(site)

    def stop(self, site: SimulatedSite) -> None:
        """Stop an agent at once. What it has sent still counts; the rest is on its disk, or lost."""
        site.agent = None
        for other in self.neighbours(site):
            assert other.agent is not None
            self.perform(other, other.agent.on_disconnect(site.name))

    def lose_disk(self, site: SimulatedSite) -> None:
        self.stop(site)
        site.disk.replace()
        self.ledger.replaced(site, ())

    def restore_backup(self, site: SimulatedSite) -> None:
        self.stop(site)
        site.disk.replace(site.backup)
        self.ledger.replaced(site, site.backup)

    def observe(self, site: SimulatedSite, shard: str, data: Any) -> None:
        """Give a site new data."""
        site.shards[shard] = data
        if site.agent is not None:
            self.perform(site, site.agent.observe(self.read(site.agent.charter, data), shard=shard, rng=self.rng))

    def connect(self, links: set[Edge]) -> None:
        """Replace the links: some are cut, others are new."""
        gone, new = self.links - links, links - self.links
        self.links = links
        for site, other in [(self.sites[a], self.sites[b]) for a, b in sorted(gone)]:
            for one, two in ((site, other), (other, site)):
                if one.agent is not None:
                    self.perform(one, one.agent.on_disconnect(two.name))
        for a, b in sorted(new):
            if self.sites[a].agent is not None and self.sites[b].agent is not None:
                self._meet(self.sites[a], self.sites[b])

    # Time and messages

    def tick(self, site: SimulatedSite) -> None:
        if site.agent is not None:
            self.perform(site, site.agent.on_tick())

    def advance(self) -> None:
        """Advance the clock by one step, and deliver everything that is due."""
        self.time += 1
        self.deliver()

    def deliver(self) -> None:
        """Deliver all messages that are due, including immediate answers."""
        while self._underway and self._underway[0][0] <= self.time:
            _, _, sender, receiver, message = heapq.heappop(self._underway)
            site = self.sites[receiver]
            if site.agent is not None and self.linked(sender, receiver):
                self.perform(site, site.agent.on_bytes(str(sender), message))

    def inject(self, receiver: SimulatedSite, message: bytes) -> None:
        """Deliver bytes that no agent has just sent: replays and forgeries."""
        if receiver.agent is not None:
            self.perform(receiver, receiver.agent.on_bytes("somebody", message))

    def round(self) -> None:
        """Let all sites tick once in random order, and deliver the messages that follow."""
        for number in self.rng.permutation(len(self.sites)):
            self.tick(self.sites[number])
        self.advance()

    def perform(self, site: SimulatedSite, effects: list[Effect]) -> None:
        """Carry out an agent's effects, and check the agent."""
        assert site.agent is not None
        remembered = False
        for effect in persist_first(site.agent, effects, site.disk):
            if isinstance(effect, Send):
                self._transmit(site, effect)
            else:
                self.reports.append((self.time, site.number, effect))
                remembered |= effect.event in ("remembered", "adopted")
        self.ledger.check(site)
        if remembered:
            self.remember(site)

    # Sites and links

    @property
    def running(self) -> list[SimulatedSite]:
        return [site for site in self.sites if site.agent is not None]

    def neighbours(self, site: SimulatedSite) -> list[SimulatedSite]:
        return [other for other in self.running if other is not site and self.linked(site.number, other.number)]

    def linked(self, a: int, b: int) -> bool:
        return (min(a, b), max(a, b)) in self.links

    def _meet(self, site: SimulatedSite, other: SimulatedSite) -> None:
        for one, two in ((site, other), (other, site)):
            assert one.agent is not None
            self.perform(one, one.agent.on_connect(two.name))

    def _transmit(self, site: SimulatedSite, effect: Send) -> None:
        if not effect.peer.isdecimal():
            return
        self.traffic.messages += 1
        self.traffic.bytes += len(effect.message)
        if self.traffic.messages % OVERHEAR == 1:
            self.overheard.append(effect.message)
        weather = self.weather
        if weather.loss and self.rng.random() < weather.loss:
            self.traffic.lost += 1
            return
        copies = 1 + int(bool(weather.duplication) and self.rng.random() < weather.duplication)
        for _ in range(copies):
            due = self.time + (int(self.rng.integers(weather.delay + 1)) if weather.delay else 0)
            entry = (due, next(self._sequence), site.number, int(effect.peer), effect.message)
            heapq.heappush(self._underway, entry)

    def _verify(self, sealed: Sealed, charter: Charter) -> Record:
        """Verify a record once for all agents, since the result depends on its bytes alone."""
        key = sealed.signed.digest, sealed.signed.signature, sealed.body, charter.fingerprint
        if key not in self._verified:
            self._verified[key] = verify(sealed, charter)
        return self._verified[key]
