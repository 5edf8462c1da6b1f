"""Descriptions of a merge, the members, an agent and its neighbours as plain dictionaries, for answers and status."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from decbayes.network.protocol.agent import Agent
from decbayes.network.protocol.effects import Peer
from decbayes.network.protocol.group.keys import agent_id, short
from decbayes.network.protocol.group.motions import Ballot
from decbayes.network.protocol.group.roster import Seat
from decbayes.network.protocol.records.accounts import accounts
from decbayes.network.protocol.records.merges import Merged
from decbayes.network.protocol.records.notes import Belief
from decbayes.network.protocol.records.pool import Pool
from decbayes.network.protocol.records.record import Record
from decbayes.network.protocol.site.publisher import TWIN
from decbayes.network.protocol.sums import Participation, Sums
from decbayes.network.protocol.talk.revisions import difference, other_release
from decbayes.posterior import Posterior


@dataclass(frozen=True)
class Answer:
    """A merged posterior, including earlier epochs, and a description of the set of records behind it."""

    posterior: Posterior
    description: dict[str, Any]


def answered(pool: Pool) -> Answer:
    """The merged posterior of a pool's current content, and its description."""
    pool = pool.as_of_now()
    merged, belief = pool.merged(), pool.believed()
    posterior = pool.charter.update.whole(belief.posterior)
    return Answer(posterior, {**set_description(merged, pool), **belief_description(belief, pool)})


def set_description(merged: Merged, pool: Pool) -> dict[str, Any]:
    """The set that a merged posterior was made from, and each member's part in it."""
    called, counted = pool.roster.called, accounts(pool)
    part = {} if merged.counting is None else {"counting": counted.observations - merged.observations + merged.counting}
    return {
        "counted": {called(origin): version for origin, version, _ in merged.entries},
        "observations": counted.observations,
        **part,
        "in_prior": dict(counted.prior),
        "set": merged.set_hash,
        **members_description(pool, merged),
        **({} if pool.sums is None else sums_description(merged, pool.sums)),
    }


def sums_description(merged: Merged, sums: Sums) -> dict[str, Any]:
    """The members in the last open sum, and the progress of the next one."""
    about = sums.describe()
    return {
        "counted": dict.fromkeys(about.get("members", ()), about["opened"]),
        "observations": merged.observations,
        "sums": about,
    }


def members_description(pool: Pool, merged: Merged | None) -> dict[str, Any]:
    """Each member's state and influence on a merge, and members that hold the same data."""
    called = pool.roster.called
    same = [sorted(map(called, origins)) for origins in pool.same_data()]
    return {"members": members(pool, merged), "same_data": same, **groups_description(pool, merged)}


def groups_description(pool: Pool, merged: Merged | None) -> dict[str, Any]:
    """The evidence of the largest third of the members, and the groups that the merge depends on, if known."""
    parties = None if merged is None else merged.parties_if_known
    if merged is None or parties is None:
        return {}
    names = [pool.roster.called(origin) for origin, _, _ in merged.entries]
    return {
        "groups": {
            "largest": parties.largest,
            "share": round(parties.share, 4),
            "members": len(names),
            **({"change": round(parties.change, 2)} if parties.groups else {}),
            "warnings": [str(remark) for remark in parties.remarks(names)],
        }
    }


def belief_description(belief: Belief, pool: Pool) -> dict[str, Any]:
    """Whether the merge is calibrated, and what members' notes say."""
    called, scores = pool.roster.called, belief.scores
    if not pool.charter.rules.notes:
        return {}
    description: dict[str, Any] = {
        "intervals": belief.posterior.uncertainty + (f": {belief.why}" if belief.why else ""),
        "stale_notes": [called(origin) for origin in belief.stale],
        "overlaps": {
            called(origin): [round(float(x), 4) for x in shares] for origin, shares in belief.overlaps.items()
        },
    }
    if scores is not None:
        description["scores"] = {str(name): round(scores.score(name), 6) for name in scores.names}
        description["gain"] = [
            round(scores.score("merged") - scores.score("own"), 6),
            round(scores.error("merged", "own"), 6),
        ]
        description["held_back"], description["per"] = scores.observations, scores.unit
    return description


def members(pool: Pool, merged: Merged | None) -> dict[str, dict[str, Any]]:
    """Each member's state, how much it has published, and what stands out about it."""
    return {seat.name: member(pool, seat, merged) for seat in pool.roster.seats.values()}


def member(pool: Pool, seat: Seat, merged: Merged | None) -> dict[str, Any]:
    newest = pool.roster.newest(seat.name, pool.records)
    record = None if newest is None else pool.records.get(newest)
    description: dict[str, Any] = {"state": state(pool, seat, record), "key": short(agent_id(seat.key))}
    if seat.name in pool.charter.counted:
        (part,) = [part for part in pool.roster.parts if part.seat == seat.name]
        description["in_prior"] = part.observations
    if record is not None:
        header = record.header
        description |= {"version": header.version, "observations": header.observations, "shards": len(header.shards)}
    return description | (part_in(merged, record) if merged is not None and record is not None else {})


def state(pool: Pool, seat: Seat, record: Record | None) -> str:
    """A member's state in a word or two."""
    if not seat.present:
        return "removed"
    if agent_id(seat.key) in pool.roster.void:
        return "excluded"
    if pool.sums is not None:
        return pool.sums.state_of(seat.name)
    if record is not None and not record.empty:
        return "counted"
    if record is not None and record.header.closed:
        return "retracted"
    in_prior = seat.name in pool.charter.counted
    return "in the prior" if in_prior else "nothing published" if record is not None else "not heard of"


def part_in(merged: Merged, record: Record) -> dict[str, Any]:
    """A member's share of the evidence, and how far it disagrees with the others."""
    places = [place for place, entry in enumerate(merged.entries) if entry[2] == record.digest]
    influence = merged.influence
    if not places or influence is None:
        return {}
    (site,) = places
    numbers = {
        "share": round(float(influence.share[site]), 4),
        "times_median": round(float(influence.times_median[site]), 2),
        "log_bayes_factor": round(float(influence.log_bayes_factor[site].sum()), 2),
        "apart": round(float(influence.apart[site]), 4),
    }
    known = {name: value for name, value in numbers.items() if isfinite(value)}
    return {**known, "flags": list(merged.flags(site))}


TICK_SECONDS = 0.2


def status_of(agent: Agent, address: Callable[[Peer], str]) -> dict[str, Any]:
    """The status that needs no merge."""
    called = agent.pool.roster.called
    return {
        "agent": called(agent.id),
        "software": agent.software,
        "charter": agent.pool.decisions.founding.short_fingerprint,
        "version": agent.version,
        "seat": agent.seat,
        "revoked": agent.standing,
        "decisions": decisions_of(agent.pool),
        "accounts": accounts_of(agent.pool),
        "waiting": agent.waiting,
        "withheld": agent.withheld,
        "awaiting_approval": approval_of(agent),
        "trouble": agent.trouble,
        "twin": agent.twin,
        "neighbours": [neighbour_of(agent, peer, address(peer)) for peer in agent.peers],
        "heard": {called(origin): version for origin, version, _ in agent.pool.entries()},
        "refused": dict(agent.refused),
        "root": agent.pool.root.hex(),
        **({} if agent.pool.sums is None or agent.part is None else {"sums": sums_of(agent.pool.sums, agent.part)}),
    }


def sums_of(sums: Sums, part: Participation) -> dict[str, Any]:
    """The current round, the members it waits for, and why it has stopped."""
    about = sums.describe()
    return {**about, "why_not": about["why_not"] or part.why_not}


def sum_lines(about: Mapping[str, Any]) -> list[str]:
    """Lines on the progress of a group's sums, and on what they cannot show."""
    opened = f", {about['opened']} open over {', '.join(about['members'])}" if about.get("opened") else ", none open"
    text = about.get("text") or f"no sum can begin: {about.get('why_not')}"
    lines = [f"{text}{opened}", f"not known: {about.get('lost')}", f"instead: {about.get('instead')}"]
    if scores := about.get("held_back"):
        lines.append(
            f"held back: {scores['score']:.4g} per unit with the merge before the last, {scores['gain']:+.2g} ± "
            f"{scores['error']:.2g} against members' own fits ({scores['units']:,.0f} units)"
        )
    lines += [f"audit: {finding}" for finding in about.get("audit", ())]
    return [*lines, *([f"privacy: {about['privacy']}"] if "privacy" in about else [])]


def decisions_of(pool: Pool) -> dict[str, Any]:
    """The group's decisions in the order in which they are applied, and its pending motions."""
    decisions, overruled = pool.decisions, pool.decisions.overruled
    ballots = decisions.in_order()
    return {
        "version": "-".join(short(digest) for digest in decisions.version) or "as founded",
        "seats": len(pool.roster.sitting),
        "settled": [
            {**motion_facts(ballot), "state": "overruled" if ballot.digest in overruled else "in force"}
            for ballot in ballots
            if ballot.settled
        ],
        "pending": [
            {**motion_facts(ballot), "needed": decisions.needed(ballot.motion)}
            for ballot in ballots
            if not ballot.settled
        ],
    }


OVERRULED = "another decision came first, or it needs the vote of a key that was taken away at the same time"


def motion_facts(ballot: Ballot) -> dict[str, Any]:
    return {"motion": ballot.name, "text": ballot.text, "votes": sorted(ballot.votes)}


def accounts_of(pool: Pool) -> dict[str, Any]:
    """The observations that the posterior counts, and any inconsistencies."""
    counted = accounts(pool)
    if pool.sums is not None:
        count = pool.merged().observations
        return {"observations": count, "in_sums": count, "wrong": []}
    return {
        "observations": counted.observations,
        "in_prior": sum(counted.prior.values()),
        "in_records": sum(counted.records.values()),
        "wrong": list(counted.wrong),
    }


def approval_of(agent: Agent) -> dict[str, Any] | None:
    """The own evidence that awaits approval; None if there is none."""
    waiting = agent.awaiting
    return None if waiting is None else {"digest": waiting.posterior.digest, "observations": waiting.observations}


def neighbour_of(agent: Agent, peer: Peer, address: str) -> dict[str, Any]:
    """A neighbour's identity, charter and software, and whether it holds the same records."""
    last = agent.neighbours[peer]
    known: dict[str, Any] = {"member": member_name(agent, peer), "address": address}
    if last is None:
        return {**known, "silent": True}
    return {
        **known,
        "software": last.digest.software,
        "differs": difference(last.digest.revision) or release_text(last.digest.software, agent.software),
        "charter": "same" if last.digest.charter.hex() == agent.pool.decisions.founding.fingerprint else "another",
        "behind": last.digest.root != agent.pool.root,
        "seconds_ago": round((agent.ticks - last.tick) * TICK_SECONDS, 1),
    }


def release_text(theirs: str, ours: str) -> str:
    """Why two versions of decbayes should not be in one group; empty if they may."""
    update = "update all agents, because merges of other versions may differ in their last bits"
    return f"runs decbayes {theirs}, this agent {ours}: {update}" if other_release(theirs, ours) else ""


def member_name(agent: Agent, peer: Peer) -> str | None:
    """The member that a neighbour has proved to be; None if it has not."""
    who = agent.guests.get(peer)
    return agent.pool.roster.names.get(who) if who else None


def about_members(pool: Pool, merged: Merged | None) -> dict[str, Any]:
    """The members with the results of the last merge, and whether it is calibrated."""
    believed = {} if pool.belief is None else belief_description(pool.belief, pool)
    return {**members_description(pool, merged), **believed}


def problems(status: Mapping[str, Any], charter: str) -> list[str]:
    """Everything wrong in a status, most serious first."""
    neighbours, members = status.get("neighbours", []), status.get("members", {})
    waits = status.get("awaiting_approval")
    texts = {
        f"this agent does not count: {status.get('revoked')}": status.get("revoked"),
        f"its posterior is counted wrongly, please report this: {wrong_accounts(status)}": wrong_accounts(status),
        TWIN: status.get("twin"),
        f"its store fails: {status.get('trouble')}": status.get("trouble"),
        f"its charter is another one ({status.get('charter')} instead of {charter})": status.get("charter") != charter,
        "no neighbour is linked": not neighbours,
        f"it holds data back, by the disclosure rules: {status.get('withheld')}": status.get("withheld"),
        approval_text(waits): waits,
        f"its group's sums have stopped: {status.get('sums', {}).get('why_not')}": status.get("sums", {}).get(
            "why_not"
        ),
        str(status.get("unguarded")): status.get("unguarded"),
        "its own contribution is not published yet": status.get("waiting") and not waits and not status.get("revoked"),
    }
    wrong = [text for text, holds in texts.items() if holds]
    wrong += [f"{endpoint} cannot be reached: {why}" for endpoint, why in status.get("unreachable", {}).items()]
    wrong += [f"{neighbour_name(n)} has another charter" for n in neighbours if n.get("charter") == "another"]
    wrong += [f"{neighbour_name(n)} {n['differs']}" for n in neighbours if n.get("differs")]
    wrong += [f"{neighbour_name(n)} has not shown which member it is" for n in neighbours if n.get("member") is None]
    wrong += [
        f"{address} opens more connections than are allowed ({count:,} closed in ten seconds): block it in the firewall"
        for address, count in status.get("crowded", {}).items()
    ]
    wrong += [f"{who} {flag}" for who, member in members.items() for flag in member.get("flags", ())]
    wrong += map(str, status.get("groups", {}).get("warnings", ()))
    return wrong + [f"{' and '.join(map(str, names))} hold the same data set" for names in status.get("same_data", ())]


def wrong_accounts(status: Mapping[str, Any]) -> str:
    return "; ".join(map(str, status.get("accounts", {}).get("wrong", ())))


def approval_text(waits: Mapping[str, Any] | None) -> str:
    if not waits:
        return ""
    count, digest = waits.get("observations", 0), str(waits.get("digest"))[:12]
    return f"its contribution of {count:,} observations ({digest}) waits for approval: `decbayes tell approve`"


def neighbour_name(neighbour: Mapping[str, Any]) -> str:
    return str(neighbour.get("member") or neighbour.get("address"))
