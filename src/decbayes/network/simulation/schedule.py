"""Random histories of a group: data arrives while sites join, leave, crash, lose disks, and some of them cheat."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace

from decbayes.families import dense
from decbayes.network.protocol.agent import Agent
from decbayes.network.protocol.charter import Charter
from decbayes.network.protocol.keys import Identity
from decbayes.network.protocol.limits import Limits
from decbayes.network.protocol.messages import batches
from decbayes.network.protocol.record import Record, SignedHeader, sign_record
from decbayes.network.simulation.ledger import Violation, check_agreement
from decbayes.network.simulation.simulator import MakeAgent, Simulation, Site, Weather
from decbayes.network.simulation.topology import TOPOLOGIES, groups
from decbayes.posterior import Posterior

# In so many rounds after the last fault everybody who is connected must agree: a line of eight needs about as many.
ROUNDS_TO_AGREE = 40
ROUGH = Weather(loss=0.1, duplication=0.2, delay=4)
# How often a vote is for the removal, for the new key, and for neither; or the first two the other way round.
HOW = np.array([0.8, 0.1, 0.1])
SHARDS = 3
POINTS = 4


@dataclass(frozen=True)
class Plan:
    """How long a history is, on which topology ("changing" rewires it now and then), and how bad things get."""

    agents: int = 8
    steps: int = 200
    topology: str = "random"
    weather: Weather = ROUGH
    faults: bool = True
    traitors: bool = False
    heal: bool = True
    removes: bool = True


class History:
    """One simulated group and what happens to it, step by step. All of it follows from the seed and the plan."""

    def __init__(self, plan: Plan, seed: int, *, make_agent: MakeAgent = Agent) -> None:
        self.plan, self.rng = plan, np.random.default_rng(seed)
        keys = simulated_identities(plan.agents)
        self.simulation = Simulation(
            simulated_charter(keys), keys, rng=self.rng, weather=plan.weather, make_agent=make_agent
        )
        self.last = "start"
        # Whom some want removed, or whose key they want replaced.
        self.accused = int(self.rng.integers(plan.agents))
        self.new_keys = {key.id: key for key in simulated_identities(1, "new")}
        self._rewire()
        for site in self.simulation.sites[: max(2, plan.agents // 2)]:
            self.simulation.start(site)

    def run(self) -> None:
        """All steps, then calm, then the final checks."""
        for _ in range(self.plan.steps):
            self.step()
        self.calm()
        self.agree()

    def step(self) -> None:
        """Something happens somewhere; some sites tick; what is due arrives."""
        sites = self.simulation.sites
        action = self._draw_action()
        self.last = action.__name__.removeprefix("_")
        action(self, sites[int(self.rng.integers(len(sites)))])
        for number in np.flatnonzero(self.rng.random(len(sites)) < 0.2):
            self.simulation.tick(sites[number])
        self.simulation.advance()
        self._rekey()

    def calm(self) -> None:
        """The faults end: disks have room, links are clean and, if the plan heals, everybody is back and connected."""
        simulation = self.simulation
        simulation.weather = Weather()
        for site in simulation.sites:
            site.disk.full = False
            if self.plan.heal and site.agent is None:
                simulation.start(site)
        if self.plan.heal:
            self._rewire()

    def agree(self) -> int:
        """Rounds until all connected sites agree, checked; a violation if they never do."""
        rounds = 0
        while rounds < ROUNDS_TO_AGREE and not self._settled():
            self.simulation.round()
            self._rekey()
            rounds += 1
        for group in self._groups():
            check_agreement(group, self.simulation.sites, self.simulation.ledger)
        return rounds

    def _settled(self) -> bool:
        """Whether all connected sites hold the same, and nobody who is listened to has more to say."""
        for group in self._groups():
            agents = [site.agent for site in group if site.agent is not None]
            speaking = [agent for agent in agents if agent.waiting and agent.id not in agent.pool.proofs]
            if len({agent.pool.root for agent in agents}) > 1 or (speaking and len(group) > 1):
                return False
        return True

    def _rekey(self) -> None:
        """Sites whose key the others have replaced go on with the new one."""
        for site in self.simulation.running:
            assert site.agent is not None
            key = self.new_keys.get(site.agent.pool.roster.newest(site.seat), site.first)
            if key.id != site.identity.id:
                self.simulation.rekey(site, key)

    def _groups(self) -> list[list[Site]]:
        simulation = self.simulation
        numbers = groups([site.number for site in simulation.running], simulation.links)
        return [[simulation.sites[number] for number in group] for group in numbers]

    def _draw_action(self) -> "Action":
        table = ACTIONS if self.plan.faults else PEACEFUL
        actions, ends = table
        chosen = actions[int(np.searchsorted(ends, self.rng.random() * ends[-1], side="right"))]
        return observe if chosen in (betray, exaggerate) and not self.plan.traitors else chosen

    def _rewire(self) -> None:
        kind = self.plan.topology
        if kind == "changing":
            kind = sorted(TOPOLOGIES)[int(self.rng.integers(len(TOPOLOGIES)))]
        self.simulation.connect(TOPOLOGIES[kind](self.plan.agents, self.rng))


Action = Callable[[History, Site], None]


def observe(history: History, site: Site) -> None:
    """New data, or data that was observed before and must not count again."""
    # What was withdrawn is not observed again: a later shard has another name, as it has other content.
    shard = f"shard {int(history.rng.integers(SHARDS)) + len(site.withdrawn)}"
    while shard in site.withdrawn:
        shard += "'"
    data = site.shards.get(shard)
    history.simulation.observe(site, shard, history.rng.normal(size=POINTS) if data is None else data)


def refine(history: History, site: Site) -> None:
    # A traitor that has been reminded of what it invented has no data for it.
    if site.agent is not None and site.agent.own.shards <= site.shards.keys():
        history.simulation.perform(site, site.agent.refine(rng=history.rng))


def retract(history: History, site: Site) -> None:
    if site.agent is not None and site.shards and history.rng.random() < 0.2:
        history.simulation.perform(site, site.agent.retract())


def withdraw(history: History, site: Site) -> None:
    """A site takes one of its shards back."""
    names = sorted(site.shards)
    if site.agent is not None and site.agent.own.shards == site.shards.keys() and names and not site.agent.retracted:
        name = names[int(history.rng.integers(len(names)))]
        site.withdrawn[name] = site.shards.pop(name)
        history.simulation.withdraw(site)


def vote(history: History, site: Site) -> None:
    """A site signs that one of them be removed or get another key, or takes that back."""
    subject = history.simulation.sites[history.accused].seat
    if site.agent is None or site.identity is not site.first:
        return
    (new,) = history.new_keys.values()
    key = (b"", new.public, None)[int(history.rng.choice(3, p=HOW if history.plan.removes else HOW[[1, 0, 2]]))]
    site.votes.pop(subject, None)
    if key is not None:
        site.votes[subject] = key
    history.simulation.perform(site, site.agent.vote(subject, key))


def back_up(history: History, site: Site) -> None:
    site.backup = site.disk.load()


def restore_backup(history: History, site: Site) -> None:
    """The disk fails, and an old copy takes its place."""
    if site.agent is not None and site.backup:
        history.simulation.restore_backup(site)
        history.simulation.start(site)


def start(history: History, site: Site) -> None:
    if site.agent is None:
        history.simulation.start(site)


def crash(history: History, site: Site) -> None:
    if site.agent is not None:
        history.simulation.stop(site)


def lose_disk(history: History, site: Site) -> None:
    """The machine burns down and is replaced; the data is still there."""
    if site.agent is not None:
        history.simulation.lose_disk(site)
        history.simulation.start(site)


def fill_disk(history: History, site: Site) -> None:
    site.disk.full = not site.disk.full


def cut(history: History, site: Site) -> None:
    """A partition: no link between two halves."""
    half = history.rng.random(len(history.simulation.sites)) < 0.5
    history.simulation.connect({(a, b) for a, b in history.simulation.links if half[a] == half[b]})


def heal(history: History, site: Site) -> None:
    history._rewire()


def replay(history: History, site: Site) -> None:
    """An old message arrives once more, perhaps at somebody else."""
    overheard = history.simulation.overheard
    if overheard:
        history.simulation.inject(site, overheard[int(history.rng.integers(len(overheard)))])


def forge(history: History, site: Site) -> None:
    """An old message arrives with one bit changed."""
    overheard = history.simulation.overheard
    if overheard:
        message = bytearray(overheard[int(history.rng.integers(len(overheard)))])
        message[int(history.rng.integers(len(message)))] ^= 1 << int(history.rng.integers(8))
        history.simulation.inject(site, bytes(message))


def tamper(history: History, site: Site) -> None:
    """A version that its origin has not signed arrives at somebody who has not heard of it, or of its number, yet."""
    own, running = site.disk.newest(), history.simulation.running
    unaware = [other for other in running if own is not None and not knows(other, own)]
    if own is not None and unaware:
        signature = bytes(byte ^ 1 for byte in own.signed.signature)
        header = replace(own.header, version=own.version + int(history.rng.integers(2)))
        forged = Record(SignedHeader(header, signature), own.body, own.posterior)
        message = batches([forged], [], history.simulation.charter)[0]
        history.simulation.inject(unaware[int(history.rng.integers(len(unaware)))], message)


def knows(site: Site, record: Record) -> bool:
    assert site.agent is not None
    return site.agent.pool.version(record.origin) >= record.version


def betray(history: History, site: Site) -> None:
    """A traitor signs something else under a version that it has used, and tells it to somebody.

    Where it can, to somebody who has not heard of the first; then nobody but all of them together can know.
    """
    simulation, traitor = history.simulation, history.simulation.sites[0]
    own = traitor.disk.newest()
    if own is None or own.posterior is None:
        return
    unaware = [s for s in simulation.running if s.agent is not None and s.agent.pool.version(own.origin) < own.version]
    listeners = unaware or simulation.running
    if listeners and (unaware or history.rng.random() < 0.1):
        record = another_record(simulation, traitor, own)
        simulation.ledger.betray(record)
        message = batches([record], [], simulation.charter)[0]
        simulation.inject(listeners[int(history.rng.integers(len(listeners)))], message)


def exaggerate(history: History, site: Site) -> None:
    """A liar signs a version that holds a thousand times what it states, and tells it to somebody."""
    simulation, liar = history.simulation, history.simulation.sites[0]
    own = liar.disk.newest()
    if own is None or own.posterior is None or not simulation.running:
        return
    inflated = Posterior(own.posterior.structure, {"mean": 1000 * dense(own.posterior.contribution["mean"])})
    simulation.ledger.traitors.add(own.origin)
    lie = sign_record(
        simulation.charter,
        liar.identity,
        own.version + int(history.rng.integers(1, 1 << 40)),
        posterior=inflated,
        shards=frozenset(own.header.shards),
        observations=own.header.observations,
    )
    listeners = simulation.running
    message = batches([lie], [], simulation.charter)[0]
    simulation.inject(listeners[int(history.rng.integers(len(listeners)))], message)


def another_record(simulation: Simulation, traitor: Site, own: Record) -> Record:
    """A record with the version of one there is, and another content."""
    return sign_record(
        simulation.charter,
        traitor.identity,
        own.version,
        posterior=own.posterior,
        shards=frozenset({*own.header.shards, "invented"}),
        observations=own.header.observations,
    )


def weighted(weights: dict[Action, float]) -> tuple[list[Action], np.ndarray[tuple[int], np.dtype[np.float64]]]:
    return list(weights), np.cumsum(list(weights.values()))


PEACEFUL = weighted({observe: 1.0})
ACTIONS = weighted(
    {
        observe: 6.0,
        refine: 1.0,
        retract: 0.3,
        withdraw: 1.0,
        vote: 4.0,
        back_up: 0.5,
        restore_backup: 0.5,
        start: 6.0,
        crash: 1.5,
        lose_disk: 0.7,
        fill_disk: 1.0,
        cut: 0.7,
        heal: 1.5,
        replay: 2.0,
        forge: 2.0,
        tamper: 1.0,
        betray: 1.0,
        exaggerate: 0.5,
    }
)


def simulated_identities(count: int, kind: str = "simulated") -> list[Identity]:
    """Keys that everybody knows: for simulations only."""
    return [Identity.from_seed(hashlib.sha256(f"{kind} {number}".encode()).digest()) for number in range(count)]


def simulated_charter(keys: list[Identity]) -> Charter:
    """A group that estimates one mean with a known variance, where the merge must equal the batch posterior."""
    return Charter(
        group="simulation",
        id="simulation",
        secret=bytes(32),
        model_name="GaussianMean",
        settings={"variance": 0.5, "prior_mean": 1.0, "prior_variance": 10.0},
        members={f"site {number}": key.public for number, key in enumerate(keys)},
        # Few versions to spare, so that whoever publishes often has to wait for others.
        limits=Limits(members=max(2, len(keys)), versions=2),
    )


def plan_for(seed: int, *, agents: int = 8, steps: int = 200) -> Plan:
    """The plan of the seed's history: topologies, weather, traitors and healing take turns."""
    kinds = [*sorted(TOPOLOGIES), "changing"]
    weathers = [Weather(), Weather(loss=0.3), Weather(delay=8), ROUGH]
    return Plan(
        agents=agents,
        steps=steps,
        topology=kinds[seed % len(kinds)],
        weather=weathers[seed // 2 % len(weathers)],
        traitors=seed % 5 == 4,
        heal=seed % 7 != 6,
        removes=seed % 3 != 2,
    )


def run_history(seed: int, *, agents: int = 8, steps: int = 200, make_agent: MakeAgent = Agent) -> History:
    """One whole history, checked at every step; a Violation names the seed that shows it again."""
    history = History(plan_for(seed, agents=agents, steps=steps), seed, make_agent=make_agent)
    try:
        history.run()
    except Violation as error:
        raise Violation(f"seed {seed}, step {history.simulation.time}, after {history.last}: {error}") from error
    return history
