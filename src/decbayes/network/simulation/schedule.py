"""Random histories of a group: data arrive while sites join, leave, crash, lose disks, and some of them cheat."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from msgspec.structs import replace

from decbayes.network.protocol.group.charter import Charter
from decbayes.network.protocol.group.keys import Identity
from decbayes.network.protocol.group.motions import Admit, Amend, Ballot, Question, Remove, Rotate
from decbayes.network.protocol.group.roster import Roster
from decbayes.network.simulation._actions import (
    ACTIONS,
    PEACEFUL,
    Action,
    betray,
    exaggerate,
    look,
    observe,
    vote_twice,
)
from decbayes.network.simulation.guarantees import Violation, check_belief, check_same_merge
from decbayes.network.simulation.simulated_sites import SimulatedSite
from decbayes.network.simulation.simulator import Simulation, Weather
from decbayes.network.simulation.studies import ONE_MEAN, Study
from decbayes.network.simulation.topology import TOPOLOGIES, groups

# The rounds after the last fault within which connected sites must agree; a line of eight needs about this many.
ROUNDS_TO_AGREE = 40
LEAST_FOUNDERS = 3
Item = TypeVar("Item")
ROUGH = Weather(loss=0.1, duplication=0.2, delay=4)


@dataclass(frozen=True)
class HistoryPlan:
    """The length of a history, its topology ("changing" rewires it now and then), and its faults."""

    agents: int = 8
    steps: int = 200
    topology: str = "random"
    weather: Weather = ROUGH
    faults: bool = True
    traitors: bool = False
    heal: bool = True
    decides: bool = True
    looks: bool = True


class History:
    """One simulated group and its history, step by step. Everything follows from the seed and the plan."""

    def __init__(self, plan: HistoryPlan, seed: int, *, study: Study = ONE_MEAN) -> None:
        self.plan, self.study, self.rng = plan, study, np.random.default_rng(seed)
        keys = simulated_identities(plan.agents)
        # In groups that decide, the last site has no seat at first.
        founders = keys[:-1] if plan.decides and plan.faults and plan.agents > LEAST_FOUNDERS else keys
        self.simulation = Simulation(study.charter(founders), keys, rng=self.rng, weather=plan.weather)
        self.last = "start"
        self.put: dict[bytes, Ballot] = {}
        """All motions ever proposed, with the most votes they had anywhere: a thief may have kept them."""
        self._keys = {site.number: [site.first] for site in self.simulation.sites}
        self.rewire()
        for site in self.simulation.sites[: max(2, plan.agents // 2)]:
            self.simulation.start(site)

    def run(self) -> None:
        """Run all steps, then end the faults, then make the final checks."""
        for _ in range(self.plan.steps):
            self.step()
        self.calm()
        self.agree()

    def step(self) -> None:
        """Perform a random action at a random site, let some sites tick, and deliver messages that are due."""
        sites = self.simulation.sites
        action = self._draw_action()
        self.last = action.__name__.removeprefix("_")
        action(self, self.pick(sites))
        for number in np.flatnonzero(self.rng.random(len(sites)) < 0.2):
            self.simulation.tick(sites[number])
        self.simulation.advance()
        self._rekey()
        self._overhear()

    def pick(self, items: Sequence[Item]) -> Item:
        return items[int(self.rng.integers(len(items)))]

    def _overhear(self) -> None:
        for site in self.simulation.running if self.plan.decides else ():
            assert site.agent is not None
            for digest, ballot in site.agent.pool.decisions.pending.items():
                if digest not in self.put or len(self.put[digest].votes) < len(ballot.votes):
                    self.put[digest] = ballot

    def calm(self) -> None:
        """End the faults: disks have room, links are reliable and, if the plan heals, all sites run and are linked."""
        simulation = self.simulation
        simulation.weather = Weather()
        for site in simulation.sites:
            site.disk.full = False
            if self.plan.heal and site.agent is None:
                simulation.start(site)
        if self.plan.heal:
            self.rewire()

    def agree(self) -> int:
        """The number of rounds until all connected sites agree; a Violation if they never do.

        Then all sites publish notes on the merge, and must agree on its calibration as well.
        """
        rounds = self._settle()
        for group in self._groups():
            check_same_merge(group, self.simulation.sites, self.simulation.ledger, self.study.check)
        before = {site.number: site.agent.posterior() for site in self.simulation.running if site.agent is not None}
        for site in self.simulation.running if self._looks else ():
            look(self, site)
        self._settle()
        for group in self._groups() if self._looks else ():
            check_belief(group, before, self.simulation.ledger, self.study.check_deviations)
        return rounds

    @property
    def _looks(self) -> bool:
        """Whether sites publish notes on the merge, as plan and charter require."""
        return self.plan.looks and self.simulation.charter.rules.notes

    def _settle(self) -> int:
        rounds = 0
        while rounds < ROUNDS_TO_AGREE and not self._settled():
            self.simulation.round()
            self._rekey()
            rounds += 1
        return rounds

    def _settled(self) -> bool:
        """Whether all connected sites hold the same, and no member has anything left to publish or write."""
        for group in self._groups():
            agents = [site.agent for site in group if site.agent is not None]
            listened = [agent for agent in agents if not agent.standing]
            writing = any(agent.trouble is not None for agent in listened)
            speaking = len(group) > 1 and any(agent.waiting for agent in listened)
            speaking |= any(agent.pool.decisions.lapsed for agent in listened)
            if len({agent.pool.root for agent in agents}) > 1 or writing or speaking:
                return False
        return True

    def _rekey(self) -> None:
        """Restart sites whose key was replaced with their new key."""
        for site in self.simulation.running:
            assert site.agent is not None
            seat = site.agent.pool.roster.seats.get(site.seat)
            fresh = [key for key in self._keys[site.number] if seat is not None and key.public == seat.key]
            if fresh and fresh[0].id not in site.keys:
                self.simulation.rekey(site, fresh[0])

    def keys_of(self, site: SimulatedSite) -> list[Identity]:
        """All keys ever made for a site, the newest last."""
        return self._keys[site.number]

    def charter_of(self, site: SimulatedSite) -> Charter:
        return self.simulation.charter if site.agent is None else site.agent.charter

    def question(self, roster: Roster) -> Question | None:
        """A random question: add, remove, rotate or change rules; None for a new epoch."""
        kind, number = self.rng.random(), int(self.rng.integers(len(self.simulation.sites)))
        site = self.simulation.sites[number]
        seat = roster.seats.get(site.seat)
        if seat is None or not seat.present:
            return Admit(site.seat, self._keys[number][-1].public if seat is None else seat.key)
        if kind < 0.35:
            return None
        if kind < 0.65:
            return Rotate(site.seat, self._new_key(site).public)
        if kind < 0.8:
            agreement = 0.5 if roster.rules.agreement > 0.5 else 0.6
            limits = replace(roster.limits, refinements=int(self.rng.integers(5, 10)))
            return Amend(replace(roster.rules, agreement=agreement), limits, roster.disclosure)
        return Remove(site.seat)

    def _new_key(self, site: SimulatedSite) -> Identity:
        """A key that the site has not used yet; different ones may be proposed at the same time."""
        keys = self._keys[site.number]
        if keys[-1].id in site.keys or self.rng.random() < 0.3:
            keys += simulated_identities(1, f"key {len(keys)} of site {site.number}")
        return keys[-1]

    def _groups(self) -> list[list[SimulatedSite]]:
        simulation = self.simulation
        numbers = groups([site.number for site in simulation.running], simulation.links)
        return [[simulation.sites[number] for number in group] for group in numbers]

    def _draw_action(self) -> Action:
        actions, ends = ACTIONS if self.plan.faults else PEACEFUL
        chosen = actions[int(np.searchsorted(ends, self.rng.random() * ends[-1], side="right"))]
        unplanned = () if self.plan.traitors else (betray, exaggerate, vote_twice)
        return observe if chosen in unplanned or (chosen is look and not self._looks) else chosen

    def rewire(self) -> None:
        kind = self.plan.topology
        if kind == "changing":
            kind = self.pick(sorted(TOPOLOGIES))
        self.simulation.connect(TOPOLOGIES[kind](self.plan.agents, self.rng))


def simulated_identities(count: int, kind: str = "simulated") -> list[Identity]:
    """Publicly known keys, for simulations only."""
    return [Identity.from_seed(hashlib.sha256(f"{kind} {number}".encode()).digest()) for number in range(count)]


def plan_for(seed: int, *, agents: int = 8, steps: int = 200) -> HistoryPlan:
    """The plan for a seed, which varies topology, weather, traitors and healing."""
    kinds = [*sorted(TOPOLOGIES), "changing"]
    weathers = [Weather(), Weather(loss=0.3), Weather(delay=8), ROUGH]
    return HistoryPlan(
        agents=agents,
        steps=steps,
        topology=kinds[seed % len(kinds)],
        weather=weathers[seed // 2 % len(weathers)],
        traitors=seed % 5 == 4,
        heal=seed % 7 != 6,
        decides=seed % 3 != 2,
        looks=seed % 4 == 1,
    )


def run_history(seed: int, *, agents: int = 8, steps: int = 200, study: Study = ONE_MEAN) -> History:
    """Run one whole history, checked at every step; a Violation names the seed to reproduce it."""
    history = History(plan_for(seed, agents=agents, steps=steps), seed, study=study)
    try:
        history.run()
    except Violation as error:
        raise Violation(f"seed {seed}, step {history.simulation.time}, after {history.last}: {error}") from error
    return history


def run_varied(seed: int) -> History:
    """Run a history of three to eight sites and 80 to 200 steps: small groups are cheap and fail in other ways."""
    return run_history(seed, agents=3 + seed % 6, steps=80 + 40 * (seed // 6 % 4))
