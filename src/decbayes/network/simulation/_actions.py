"""What can happen to a site of a simulated group: new data, faults, attacks, and decisions about members."""

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from decbayes.errors import InvalidCharter
from decbayes.families import dense
from decbayes.network.protocol.group.charter import Charter
from decbayes.network.protocol.group.motions import Ballot, Remove, Vote, sign_vote
from decbayes.network.protocol.records.record import Record, SignedHeader, sign_record
from decbayes.network.protocol.talk.messages import batches
from decbayes.network.simulation.simulated_sites import SimulatedSite
from decbayes.posterior import Posterior

if TYPE_CHECKING:
    from decbayes.network.simulation.schedule import History

SHARDS = 3

Action = Callable[["History", SimulatedSite], None]


def observe(history: "History", site: SimulatedSite) -> None:
    """Observe new data, or data that were observed before and must not count again."""
    # Withdrawn data are not observed again: a later shard has other content and hence another name.
    shard = f"shard {int(history.rng.integers(SHARDS)) + len(site.withdrawn)}"
    while shard in site.withdrawn:
        shard += "'"
    data = site.shards.get(shard)
    history.simulation.observe(site, shard, history.study.shard(history.rng) if data is None else data)


def refine(history: "History", site: SimulatedSite) -> None:
    # A traitor that is reminded of invented shards has no data for them.
    if site.agent is not None and site.agent.evidence.shards <= site.shards.keys():
        history.simulation.perform(site, site.agent.refine(rng=history.rng))


def look(history: "History", site: SimulatedSite) -> None:
    """A site publishes a note on the merge, which may have changed by the time the note arrives."""
    if site.agent is not None and site.agent.evidence.shards <= site.shards.keys():
        history.simulation.perform(site, site.agent.attach(site.agent.look()))


def retract(history: "History", site: SimulatedSite) -> None:
    if site.agent is not None and site.shards and history.rng.random() < 0.2:
        history.simulation.perform(site, site.agent.retract())


def withdraw(history: "History", site: SimulatedSite) -> None:
    """A site withdraws one of its shards."""
    agent = site.agent
    names = [] if agent is None else sorted(agent.evidence.shards)
    if agent is not None and names and {*names} == history.simulation.uncounted(site) and not agent.retracted:
        name = history.pick(names)
        site.withdrawn[name] = site.shards.pop(name)
        history.simulation.withdraw(site)


def decide(history: "History", site: SimulatedSite) -> None:
    """A site's owner votes for a pending motion, or proposes one."""
    agent = site.agent
    if agent is None or not history.plan.decides:
        return
    pending, question = sorted(agent.pool.decisions.pending), history.question(agent.pool.roster)
    with suppress(InvalidCharter):
        if pending and history.rng.random() < 0.75:
            history.simulation.perform(site, agent.vote(history.pick(pending).hex()))
        elif question is None:
            history.simulation.perform(site, agent.propose_epoch())
        else:
            history.simulation.perform(site, agent.propose(question))


def convene(history: "History", site: SimulatedSite) -> None:
    """Many sites vote for the same question within one step, so that something is settled."""
    running = history.simulation.running
    if site.agent is None or not history.plan.decides or not running:
        return
    question = history.question(site.agent.pool.roster)
    for voter in running:
        assert voter.agent is not None
        if history.rng.random() < 0.9:
            with suppress(InvalidCharter):
                effects = voter.agent.propose_epoch() if question is None else voter.agent.propose(question)
                history.simulation.perform(voter, effects)


def vote_twice(history: "History", site: SimulatedSite) -> None:
    """A traitor signs two votes for different questions under one number, and sends them to different sites."""
    simulation, traitor = history.simulation, history.simulation.sites[0]
    if traitor.agent is None or traitor.agent.standing or not history.plan.decides:
        return
    decisions, number = traitor.agent.pool.decisions, int(history.rng.integers(1, 1 << 40))
    questions = [Remove(other.seat) for other in simulation.sites[1:3]]
    listeners = [simulation.sites[number] for number in history.rng.permutation(len(simulation.sites))[:2]]
    for question, listener in zip(questions, listeners, strict=True):
        motion = decisions.motion(question)
        vote = sign_vote(motion, traitor.seat, traitor.identity, number)
        simulation.ledger.betray(vote)
        ballot = Ballot(motion, {traitor.seat: vote})
        simulation.inject(listener, batches([], [], simulation.charter, [ballot])[0])


def vote_with_an_old_key(history: "History", site: SimulatedSite) -> None:
    """A thief votes for all pending motions with a replaced key."""
    stolen = [key for key in history.keys_of(site)[:-1] if key.id in site.keys]
    if not stolen or site.agent is None or site.agent.pool.roster.sitting.get(site.seat) == stolen[-1].id:
        return
    decisions = site.agent.pool.decisions
    for ballot in decisions.pending.values():
        vote = sign_vote(ballot.motion, site.seat, stolen[-1], int(history.rng.integers(1, 1 << 40)))
        forged = Ballot(ballot.motion, {**ballot.votes, site.seat: vote}, ballot.body)
        for listener in history.simulation.running:
            history.simulation.inject(listener, batches([], [], history.simulation.charter, [forged])[0])


def complete_with_an_old_key(history: "History", site: SimulatedSite) -> None:
    """A thief completes earlier motions with a replaced key, and sends them to some sites."""
    running = history.simulation.running
    stolen = {key.id: key for key in history.keys_of(site)[:-1] if key.id in site.keys and key is not site.identity}
    if not stolen or site.agent is None or site.agent.standing:
        return
    decisions = site.agent.pool.decisions
    for ballot in history.put.values():
        if not decisions.knows(ballot.motion.after) or site.seat in ballot.votes:
            continue
        key = stolen.get(decisions.roster_at(ballot.motion.after).sitting.get(site.seat, b""))
        if key is None or len(ballot.votes) + 1 < decisions.needed(ballot.motion):
            continue
        vote = sign_vote(ballot.motion, site.seat, key, int(history.rng.integers(1, 1 << 40)))
        history.simulation.ledger.steal(vote)
        forged = Ballot(ballot.motion, {**ballot.votes, site.seat: vote}, ballot.body)
        message = batches([], [], history.simulation.charter, [forged])[0]
        for number in history.rng.permutation(len(running))[: 1 + int(history.rng.integers(len(running)))]:
            history.simulation.inject(running[number], message)


def tamper_with_a_vote(history: "History", site: SimulatedSite) -> None:
    """Votes arrive that nobody has signed, or that were signed for another motion."""
    if site.agent is None:
        return
    decisions = site.agent.pool.decisions
    for ballot in [*decisions.pending.values(), *decisions.settled.values()][:2]:
        seat, vote = next(iter(ballot.votes.items()))
        other = next((name for name in decisions.roster.sitting if name not in ballot.votes), None)
        number = vote.number + int(history.rng.integers(2))
        voter = decisions.roster.sitting.get(other or "", vote.origin)
        header = replace(vote.header, seat=other or seat, voter=voter, number=number)
        forged = Ballot(ballot.motion, {**ballot.votes, header.seat: Vote(header, vote.signature)}, ballot.body)
        moved = Ballot(decisions.motion(Remove(seat)), {seat: vote})
        for tampered in (forged, moved):
            message = batches([], [], history.simulation.charter, [tampered])[0]
            history.simulation.inject(history.pick(history.simulation.running), message)


def back_up(history: "History", site: SimulatedSite) -> None:
    site.backup = site.disk.load()


def restore_backup(history: "History", site: SimulatedSite) -> None:
    """The disk fails and is replaced by an old copy."""
    if site.agent is not None and site.backup:
        history.simulation.restore_backup(site)
        history.simulation.start(site)


def start(history: "History", site: SimulatedSite) -> None:
    if site.agent is None:
        history.simulation.start(site)


def crash(history: "History", site: SimulatedSite) -> None:
    if site.agent is not None:
        history.simulation.stop(site)


def lose_disk(history: "History", site: SimulatedSite) -> None:
    """The machine is lost and replaced; the data still exist."""
    if site.agent is not None:
        history.simulation.lose_disk(site)
        history.simulation.start(site)


def fill_disk(history: "History", site: SimulatedSite) -> None:
    site.disk.full = not site.disk.full


def cut(history: "History", site: SimulatedSite) -> None:
    """Cut all links between two random halves."""
    half = history.rng.random(len(history.simulation.sites)) < 0.5
    history.simulation.connect({(a, b) for a, b in history.simulation.links if half[a] == half[b]})


def heal(history: "History", site: SimulatedSite) -> None:
    history.rewire()


def replay(history: "History", site: SimulatedSite) -> None:
    """An old message arrives again, perhaps at another site."""
    if history.simulation.overheard:
        history.simulation.inject(site, history.pick(history.simulation.overheard))


def forge(history: "History", site: SimulatedSite) -> None:
    """An old message arrives with one bit changed."""
    if history.simulation.overheard:
        message = bytearray(history.pick(history.simulation.overheard))
        message[int(history.rng.integers(len(message)))] ^= 1 << int(history.rng.integers(8))
        history.simulation.inject(site, bytes(message))


def tamper(history: "History", site: SimulatedSite) -> None:
    """A version with a forged signature arrives at a site that does not know this version yet."""
    newest, running = site.disk.newest(), history.simulation.running
    unaware = [other for other in running if newest is not None and not knows(other, newest)]
    if newest is not None and unaware:
        signature = bytes(byte ^ 1 for byte in newest.signed.signature)
        header = replace(newest.header, version=newest.version + int(history.rng.integers(2)))
        forged = Record(SignedHeader(header, signature), newest.body, newest.posterior)
        message = batches([forged], [], history.simulation.charter)[0]
        history.simulation.inject(history.pick(unaware), message)


def knows(site: SimulatedSite, record: Record) -> bool:
    assert site.agent is not None
    return site.agent.pool.version(record.origin) >= record.version


def betray(history: "History", site: SimulatedSite) -> None:
    """A traitor signs something else under a version that it has used, and sends it to one site.

    If possible that site does not know the first one, so that only all sites together can notice.
    """
    simulation, traitor = history.simulation, history.simulation.sites[0]
    newest = traitor.disk.newest()
    if newest is None or newest.posterior is None:
        return
    unaware = [other for other in simulation.running if not knows(other, newest)]
    listeners = unaware or simulation.running
    if listeners and (unaware or history.rng.random() < 0.1):
        record = another_record(history.charter_of(traitor), traitor, newest)
        simulation.ledger.betray(record)
        simulation.inject(history.pick(listeners), batches([record], [], simulation.charter)[0])


def exaggerate(history: "History", site: SimulatedSite) -> None:
    """A liar signs a version with a thousand times the evidence that it states, and sends it to one site."""
    simulation, liar = history.simulation, history.simulation.sites[0]
    newest = liar.disk.newest()
    if newest is None or newest.posterior is None or not simulation.running:
        return
    contribution = newest.posterior.contribution
    inflated = Posterior(newest.posterior.structure, {name: 1000 * dense(part) for name, part in contribution.items()})
    simulation.ledger.traitors.add(newest.origin)
    lie = sign_record(
        history.charter_of(liar),
        liar.identity,
        newest.version + int(history.rng.integers(1, 1 << 40)),
        posterior=inflated,
        shards=frozenset(newest.header.shards),
        observations=newest.header.observations,
    )
    simulation.inject(history.pick(simulation.running), batches([lie], [], simulation.charter)[0])


def another_record(charter: Charter, traitor: SimulatedSite, original: Record) -> Record:
    """A record with the version of an existing one and other content."""
    return sign_record(
        charter,
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
        decide: 5.0,
        convene: 4.0,
        vote_twice: 0.3,
        vote_with_an_old_key: 1.0,
        complete_with_an_old_key: 1.0,
        tamper_with_a_vote: 0.5,
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
