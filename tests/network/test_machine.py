"""A state machine over agents and their pools: any sequence of calls and messages keeps the model's promises."""

import numpy as np
from groups import gaussian_charter, identities
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from decbayes.network import Agent, Send, persist_first
from decbayes.network.simulation.guarantees import Ledger
from decbayes.network.simulation.simulated_sites import Disk, SimulatedSite

COUNT = 3
MEMBERS = identities(COUNT)
CHARTER = gaussian_charter(MEMBERS)
agents = st.integers(0, COUNT - 1)
choices = st.integers(0, 10**6)


class Agents(RuleBasedStateMachine):
    """Three agents, all links, and a bag of messages that arrive in any order, any number of times, or never."""

    @initialize()
    def begin(self):
        self.rng = np.random.default_rng(0)
        self.ledger = Ledger(CHARTER)
        self.sites = [
            SimulatedSite(i, key, Disk(self.ledger, i, key.id), f"agent {i}") for i, key in enumerate(MEMBERS)
        ]
        self.bag = []
        for site in self.sites:
            self._start(site)

    def _start(self, site):
        site.agent = Agent(CHARTER, site.identity, rng=self.rng, saved=site.disk.load())
        self.ledger.started(site)
        for name, data in site.shards.items():
            self._perform(site, site.agent.observe(data, shard=name, rng=self.rng))
        for other in self.sites:
            if other is not site:
                self._perform(site, site.agent.on_connect(other.name))

    def _perform(self, site, effects):
        for effect in persist_first(site.agent, effects, site.disk):
            if isinstance(effect, Send):
                self.bag.append((site.name, int(effect.peer), effect.message))
        self.ledger.check(site)

    @rule(number=agents, shard=st.sampled_from("abc"), size=st.integers(1, 3))
    def observe(self, number, shard, size):
        site = self.sites[number]
        data = site.shards.setdefault(shard, self.rng.normal(size=size))
        self._perform(site, site.agent.observe(data, shard=shard, rng=self.rng))

    @rule(number=agents)
    def refine(self, number):
        site = self.sites[number]
        self._perform(site, site.agent.refine(rng=self.rng))

    @rule(number=agents)
    def tick(self, number):
        self._perform(self.sites[number], self.sites[number].agent.on_tick())

    @rule(choice=choices, keep=st.booleans())
    def deliver(self, choice, keep):
        """Any message from the bag; kept, it may arrive again."""
        if self.bag:
            index = choice % len(self.bag)
            sender, receiver, message = self.bag[index] if keep else self.bag.pop(index)
            site = self.sites[receiver]
            self._perform(site, site.agent.on_bytes(sender, message))

    @rule(number=agents)
    def restart(self, number):
        self._start(self.sites[number])

    @rule(number=agents)
    def lose_the_disk(self, number):
        self.sites[number].disk.replace()
        self.ledger.replaced(self.sites[number], ())
        self._start(self.sites[number])

    @rule(number=agents)
    def fill_the_disk(self, number):
        self.sites[number].disk.full = not self.sites[number].disk.full

    @invariant()
    def nobody_holds_an_unknown_shard_or_counts_one_twice(self):
        known = {site.identity.id: site for site in getattr(self, "sites", ())}
        for site in known.values():
            for record in site.agent.pool.counted():
                data = [known[record.origin].shards[name] for name in record.header.shards]
                assert record.header.observations == sum(map(len, data))
                expected = np.concatenate(data).sum()
                np.testing.assert_allclose(record.posterior.contribution["mean"][0, 0], expected, rtol=0, atol=1e-9)

    def teardown(self):
        """When the faults end and messages flow, all agree and nothing is missing."""
        for site in getattr(self, "sites", ()):
            site.disk.full = False
        for _ in range(8 if hasattr(self, "sites") else 0):
            for site in self.sites:
                self._perform(site, site.agent.on_tick())
            while self.bag:
                self.deliver(0, False)
        if hasattr(self, "sites"):
            assert len({site.agent.posterior().digest for site in self.sites}) == 1
            total = sum(len(data) for site in self.sites for data in site.shards.values())
            assert self.sites[0].agent.merged().observations == total


Agents.TestCase.settings = settings(max_examples=30, stateful_step_count=50, deadline=None, derandomize=True)
TestAgents = Agents.TestCase
