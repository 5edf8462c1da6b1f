"""Reading ballots from untrusted bytes: every check before a vote counts."""

from dataclasses import replace

import msgspec

from decbayes.errors import DecbayesError, Refused
from decbayes.network.protocol.group.charter import NO_WORDS, PROTOCOL, Charter
from decbayes.network.protocol.group.decisions import Decisions, disclosure_from
from decbayes.network.protocol.group.keys import short
from decbayes.network.protocol.group.motions import (
    Admit,
    Amend,
    Ballot,
    BallotBytes,
    Extend,
    Motion,
    Open,
    Rotate,
    Show,
    Vote,
    VoteHeader,
)
from decbayes.network.protocol.group.openings import read_parts
from decbayes.network.protocol.group.roster import Roster

_ballots = msgspec.msgpack.Decoder(BallotBytes)
_motions = msgspec.msgpack.Decoder(Motion)
_votes = msgspec.msgpack.Decoder(VoteHeader)


def open_ballot(content: bytes, decisions: Decisions) -> Ballot:
    """Read a ballot and check its envelope, group, predecessors, question, body and votes."""
    most = decisions.charter.limits.record_bytes
    if len(content) > most:
        raise Refused("size", f"{len(content):,} bytes; a ballot has at most {most:,}.")
    try:
        parts = _ballots.decode(content)
        motion = _motions.decode(parts.motion)
        votes = [Vote(_votes.decode(signed.header), signed.signature) for signed in parts.votes]
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Refused("envelope", f"not a ballot ({error}).") from None
    ballot = Ballot(motion, {vote.seat: vote for vote in votes}, parts.body)
    if ballot.content != content or list(motion.after) != sorted(set(motion.after)):
        raise Refused("envelope", "not the canonical bytes of a ballot.")
    if motion.protocol != PROTOCOL or motion.group != decisions.founding.id:
        raise Refused("group", f"protocol {motion.protocol}, group {motion.group!r}: not ours.")
    if ballot.digest in decisions.settled and ballot.votes.keys() <= decisions.settled[ballot.digest].votes.keys():
        raise Refused("replay", f"the resolution {ballot.name} is known.")
    if not decisions.knows(motion.after):
        raise Refused("ahead", f"the motion {ballot.name} comes after resolutions that are not known here yet.")
    check_question(ballot, decisions)
    check_votes(ballot, decisions.roster_at(motion.after))
    return ballot


def check_question(ballot: Ballot, decisions: Decisions) -> None:
    """Refuse a motion that would have had no effect when it was put, or that no charter allows."""
    roster, question = decisions.roster_at(ballot.motion.after), ballot.question
    if roster.after(question, ballot.digest, roster) is None:
        raise Refused("decision", f"there was nothing to decide: {ballot.text}.")
    if bool(ballot.body) != isinstance(question, Open):
        raise Refused("decision", "only the prior of a new epoch has a body.")
    try:
        match question:
            case Admit(name) | Rotate(name):
                if not name.isprintable():
                    raise Refused("decision", "a name that cannot be printed.")
            case Amend(rules, limits, disclosure):
                # Building the charter checks it; `roster.after` has already checked the number of members.
                wide = msgspec.structs.replace(limits, members=max(limits.members, len(decisions.founding.members)))
                replace(decisions.founding, rules=rules, limits=wide, disclosure=disclosure_from(disclosure))
            case Extend(words):
                check_words(words, decisions.founding.with_words_of(roster.words))
            case Open():
                if decisions.founding.sums is not None:
                    raise Refused("decision", "where only sums are opened there are no epochs.")
                check_opening(question, roster)
                read_parts(question, ballot.body, decisions.structure_at(ballot.motion.after))
            case Show(_, _, seats):
                if decisions.founding.sums is None or decisions.founding.privacy is not None:
                    raise Refused("decision", "only sums without noise can be shown.")
                if list(seats) != sorted(set(seats)) or not {*seats} <= roster.sitting.keys():
                    raise Refused("decision", "the members to be shown must be distinct seats that count.")
    except Refused:
        raise
    except (msgspec.MsgspecError, DecbayesError) as error:
        raise Refused("decision", str(error)) from None


def check_words(words: tuple[str, ...], charter: Charter) -> None:
    """Refuse words that already count, or that the group's model cannot count."""
    if charter.sums is not None:
        raise Refused("decision", NO_WORDS)
    if list(words) != sorted(set(words)) or not words or not all(word.isprintable() for word in words):
        raise Refused("decision", "the new words are not distinct, sorted and printable.")
    if not {*words} - {*charter.words}:
        raise Refused("decision", "all of these words count already.")
    _ = charter.with_words_of({**charter.words_added, b"": words}).model


def check_opening(question: Open, roster: Roster) -> None:
    """Refuse an epoch with parts of seats that do not count, or without shards that are already in the prior."""
    seats = [part.seat for part in question.parts]
    if seats != sorted(set(seats)) or not set(seats) <= roster.sitting.keys():
        raise Refused("decision", "the parts of the prior must be those of distinct seats that count.")
    stated = {part.seat: frozenset(part.shards) for part in question.parts}
    if any(not shards <= stated.get(seat, frozenset()) for seat, shards in roster.counted.items()):
        raise Refused("decision", "shards that are in the prior already are missing from the next one.")
    proper = all(list(part.shards) == sorted(set(part.shards)) and part.shards for part in question.parts)
    if not proper or not seats or any(min(part.observations, part.units) < 0 for part in question.parts):
        raise Refused("decision", "the parts of the prior are malformed.")


def check_votes(ballot: Ballot, roster: Roster) -> None:
    if not ballot.votes:
        raise Refused("decision", "a motion without votes.")
    for seat, vote in ballot.votes.items():
        check_vote(vote, ballot)
        if roster.sitting.get(seat) != vote.origin:
            raise Refused("membership", f"{short(vote.origin)} was not the key of {seat!r} when this was proposed.")
        if not vote.signed_by(roster.keys[vote.origin]):
            raise Refused("signature", f"{short(vote.origin)} has not signed this vote.")


def check_vote(vote: Vote, ballot: Ballot) -> None:
    header = vote.header
    if header.protocol != PROTOCOL or header.group != ballot.motion.group or header.motion != ballot.digest:
        raise Refused("envelope", "a vote for another motion.")
    if not 1 <= header.number < 1 << 63:
        raise Refused("version", f"{header.number} is not the number of a vote.")
