"""What can happen to a site of a simulated group: data, faults, attacks, and what members decide about each other."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from decbayes.families import dense
from decbayes.network.protocol.records.record import Record, SignedHeader, sign_record
from decbayes.network.protocol.talk.messages import batches
from decbayes.network.simulation.simulated_sites import Site
from decbayes.network.simulation.simulator import Simulation
from decbayes.posterior import Posterior

if TYPE_CHECKING:
    from decbayes.network.simulation.schedule import History

# How often a vote is for the removal, for the new key, and for neither; or the first two the other way round.
HOW = np.array([0.8, 0.1, 0.1])
SHARDS = 3

Action = Callable[["History", Site], None]


def observe(history: "History", site: Site) -> None:
    """New data, or data that was observed before and must not count again."""
    # What was withdrawn is not observed again: a later shard has another name, as it has other content.
    shard = f"shard {int(history.rng.integers(SHARDS)) + len(site.withdrawn)}"
    while shard in site.withdrawn:
        shard += "'"
    data = site.shards.get(shard)
    history.simulation.observe(site, shard, history.study.shard(history.rng) if data is None else data)


def refine(history: "History", site: Site) -> None:
    # A traitor that has been reminded of what it invented has no data for it.
    if site.agent is not None and site.agent.evidence.shards <= site.shards.keys():
        history.simulation.perform(site, site.agent.refine(rng=history.rng))


def look(history: "History", site: Site) -> None:
    """A site publishes a note on the merge, which may have changed by the time the note arrives."""
    if site.agent is not None and site.agent.evidence.shards <= site.shards.keys():
        history.simulation.perform(site, site.agent.attach(site.agent.look()))


def retract(history: "History", site: Site) -> None:
    if site.agent is not None and site.shards and history.rng.random() < 0.2:
        history.simulation.perform(site, site.agent.retract())


def withdraw(history: "History", site: Site) -> None:
    """A site withdraws one of its shards."""
    names = sorted(site.shards)
    if (
        site.agent is not None
        and site.agent.evidence.shards == site.shards.keys()
        and names
        and not site.agent.retracted
    ):
        name = names[int(history.rng.integers(len(names)))]
        site.withdrawn[name] = site.shards.pop(name)
        history.simulation.withdraw(site)


def vote(history: "History", site: Site) -> None:
    """A site votes to remove a member or to replace its key, or withdraws the vote."""
    subject = history.simulation.sites[history.accused].seat
    if site.agent is None or site.identity is not site.first:
        return
    (new,) = history.new_keys.values()
    key = (b"", new.public, None)[int(history.rng.choice(3, p=HOW if history.plan.removes else HOW[[1, 0, 2]]))]
    site.votes.pop(subject, None)
    if key is not None:
        site.votes[subject] = key
    history.simulation.perform(site, site.agent.vote(subject, key))


def back_up(history: "History", site: Site) -> None:
    site.backup = site.disk.load()


def restore_backup(history: "History", site: Site) -> None:
    """The disk fails, and an old copy takes its place."""
    if site.agent is not None and site.backup:
        history.simulation.restore_backup(site)
        history.simulation.start(site)


def start(history: "History", site: Site) -> None:
    if site.agent is None:
        history.simulation.start(site)


def crash(history: "History", site: Site) -> None:
    if site.agent is not None:
        history.simulation.stop(site)


def lose_disk(history: "History", site: Site) -> None:
    """The machine burns down and is replaced; the data is still there."""
    if site.agent is not None:
        history.simulation.lose_disk(site)
        history.simulation.start(site)


def fill_disk(history: "History", site: Site) -> None:
    site.disk.full = not site.disk.full


def cut(history: "History", site: Site) -> None:
    """A partition: no link between two halves."""
    half = history.rng.random(len(history.simulation.sites)) < 0.5
    history.simulation.connect({(a, b) for a, b in history.simulation.links if half[a] == half[b]})


def heal(history: "History", site: Site) -> None:
    history.rewire()


def replay(history: "History", site: Site) -> None:
    """An old message arrives once more, perhaps at somebody else."""
    overheard = history.simulation.overheard
    if overheard:
        history.simulation.inject(site, overheard[int(history.rng.integers(len(overheard)))])


def forge(history: "History", site: Site) -> None:
    """An old message arrives with one bit changed."""
    overheard = history.simulation.overheard
    if overheard:
        message = bytearray(overheard[int(history.rng.integers(len(overheard)))])
        message[int(history.rng.integers(len(message)))] ^= 1 << int(history.rng.integers(8))
        history.simulation.inject(site, bytes(message))


def tamper(history: "History", site: Site) -> None:
    """A version that its origin has not signed arrives at somebody who has not heard of it, or of its number, yet."""
    newest, running = site.disk.newest(), history.simulation.running
    unaware = [other for other in running if newest is not None and not knows(other, newest)]
    if newest is not None and unaware:
        signature = bytes(byte ^ 1 for byte in newest.signed.signature)
        header = replace(newest.header, version=newest.version + int(history.rng.integers(2)))
        forged = Record(SignedHeader(header, signature), newest.body, newest.posterior)
        message = batches([forged], [], history.simulation.charter)[0]
        history.simulation.inject(unaware[int(history.rng.integers(len(unaware)))], message)


def knows(site: Site, record: Record) -> bool:
    assert site.agent is not None
    return site.agent.pool.version(record.origin) >= record.version


def betray(history: "History", site: Site) -> None:
    """A traitor signs something else under a version that it has used, and sends it to one site.

    Where it can, to somebody who has not heard of the first; then nobody but all of them together can know.
    """
    simulation, traitor = history.simulation, history.simulation.sites[0]
    newest = traitor.disk.newest()
    if newest is None or newest.posterior is None:
        return
    unaware = [
        s for s in simulation.running if s.agent is not None and s.agent.pool.version(newest.origin) < newest.version
    ]
    listeners = unaware or simulation.running
    if listeners and (unaware or history.rng.random() < 0.1):
        record = another_record(simulation, traitor, newest)
        simulation.ledger.betray(record)
        message = batches([record], [], simulation.charter)[0]
        simulation.inject(listeners[int(history.rng.integers(len(listeners)))], message)


def exaggerate(history: "History", site: Site) -> None:
    """A liar signs a version that holds a thousand times the evidence it states, and sends it to one site."""
    simulation, liar = history.simulation, history.simulation.sites[0]
    newest = liar.disk.newest()
    if newest is None or newest.posterior is None or not simulation.running:
        return
    contribution = newest.posterior.contribution
    inflated = Posterior(newest.posterior.structure, {name: 1000 * dense(part) for name, part in contribution.items()})
    simulation.ledger.traitors.add(newest.origin)
    lie = sign_record(
        simulation.charter,
        liar.identity,
        newest.version + int(history.rng.integers(1, 1 << 40)),
        posterior=inflated,
        shards=frozenset(newest.header.shards),
        observations=newest.header.observations,
    )
    listeners = simulation.running
    message = batches([lie], [], simulation.charter)[0]
    simulation.inject(listeners[int(history.rng.integers(len(listeners)))], message)


def another_record(simulation: Simulation, traitor: Site, original: Record) -> Record:
    """A record with the version of an existing one and other content."""
    return sign_record(
        simulation.charter,
        traitor.identity,
        original.version,
        posterior=original.posterior,
        shards=frozenset({*original.header.shards, "invented"}),
        observations=original.header.observations,
    )


def weighted(weights: dict[Action, float]) -> tuple[list[Action], np.ndarray[tuple[int], np.dtype[np.float64]]]:
    return list(weights), np.cumsum(list(weights.values()))


PEACEFUL = weighted({observe: 1.0})
ACTIONS = weighted(
    {
        observe: 6.0,
        refine: 1.0,
        look: 2.0,
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
