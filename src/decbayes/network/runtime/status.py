"""What an agent tells about itself, its neighbours and the members."""

from collections.abc import Callable, Mapping
from typing import Any

from decbayes.network.protocol.agent import Agent
from decbayes.network.protocol.effects import Peer
from decbayes.network.protocol.merges import Merged
from decbayes.network.protocol.pool import Pool
from decbayes.network.runtime.stored import belief_description, members_description

TICK_SECONDS = 0.2


def status_of(agent: Agent, address: Callable[[Peer], str]) -> dict[str, Any]:
    """What is known at once, without a merge."""
    called = agent.pool.roster.called
    return {
        "agent": called(agent.id),
        "software": agent.software,
        "charter": agent.charter.short_fingerprint,
        "version": agent.version,
        "waiting": agent.waiting,
        "trouble": agent.trouble,
        "twin": agent.twin,
        "neighbours": [neighbour_of(agent, peer, address(peer)) for peer in agent.peers],
        "heard": {called(origin): version for origin, version, _ in agent.pool.entries()},
        "refused": dict(agent.refused),
        "root": agent.pool.root.hex(),
    }


def neighbour_of(agent: Agent, peer: Peer, address: str) -> dict[str, Any]:
    """What is known of a neighbour: who it is, its charter and software, and whether it holds the same."""
    said = agent.neighbours[peer]
    told: dict[str, Any] = {"member": member_name(agent, peer), "address": address}
    if said is None:
        return {**told, "silent": True}
    return {
        **told,
        "software": said.digest.software,
        "charter": "same" if said.digest.charter.hex() == agent.charter.fingerprint else "another",
        "behind": said.digest.root != agent.pool.root,
        "seconds_ago": round((agent.ticks - said.tick) * TICK_SECONDS, 1),
    }


def member_name(agent: Agent, peer: Peer) -> str | None:
    """The member that a neighbour has shown to be."""
    who = agent.guests.get(peer)
    return agent.pool.roster.names.get(who) if who else None


def about_members(pool: Pool, merged: Merged | None) -> dict[str, Any]:
    """What is known of each member, with what the last merge has shown, and how far to believe that."""
    believed = {} if pool.belief is None else belief_description(pool.belief, pool)
    return {**members_description(pool, merged), **believed}


def problems(told: Mapping[str, Any], charter: str) -> list[str]:
    """What needs a look, most serious first."""
    neighbours, members = told.get("neighbours", []), told.get("members", {})
    texts = {
        "another agent runs with this agent's key": told.get("twin"),
        f"its store fails: {told.get('trouble')}": told.get("trouble"),
        f"its charter is another one ({told.get('charter')} instead of {charter})": told.get("charter") != charter,
        "no neighbour is linked": not neighbours,
        "its own evidence is not published yet": told.get("waiting"),
    }
    found = [text for text, holds in texts.items() if holds]
    found += [f"{neighbour_name(n)} has another charter" for n in neighbours if n.get("charter") == "another"]
    found += [f"{neighbour_name(n)} has not shown which member it is" for n in neighbours if n.get("member") is None]
    found += [f"{who} {flag}" for who, member in members.items() for flag in member.get("flags", ())]
    return found + [f"{' and '.join(map(str, names))} hold the same data set" for names in told.get("same_data", ())]


def neighbour_name(neighbour: Mapping[str, Any]) -> str:
    return str(neighbour.get("member") or neighbour.get("address"))
