"""Groups that open only sums: whatever happens, nothing but whole sums over one set of members ever opens."""

import dataclasses
from types import SimpleNamespace
from unittest.mock import ANY

import numpy as np
import pytest
from msgspec.structs import replace
from summing_groups import SEATS, Broken, SumHistory

from decbayes.network import Roster, Send, Show
from decbayes.network.protocol.records import verification
from decbayes.network.protocol.site.adding import AddingMember
from decbayes.network.protocol.site.member import Member
from decbayes.network.protocol.sums import Participation, Sums, chains, group_sums
from decbayes.network.protocol.sums import participation as part_module
from decbayes.network.protocol.talk.messages import Packets, encode
from decbayes.network.protocol.talk.sum_gossip import SumGossip
from decbayes.network.simulation.guarantees import Violation
from decbayes.secure import Agreement, audit, gathered, seat, terms

STEPS = 60


@pytest.mark.parametrize("seed", [*range(6), 95])  # 95: a part that fits nothing comes before those of the others
def test_histories_open_whole_sums_only(seed):
    SumHistory(seed).run(STEPS)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6, 400))
def test_more_histories_open_whole_sums_only(seed):
    SumHistory(seed).run(STEPS)


def test_rounds_go_on_over_fewer_once_a_member_of_an_open_sum_was_removed():
    history = SumHistory(0, **OUSTED).oust_after_opening()
    sums = history.simulation.sites[0].agent.pool.sums
    assert len(sums.opened.keys) == SEATS - 1
    assert len(sums.opened.results) > sums.opened.inherited >= 1
    assert len({len(terms.seats) for terms in history.observer.terms.values()}) == 2


def test_some_members_are_shown_as_was_decided_and_nobody_else():
    history = SumHistory(0, **OUSTED).audit_after_opening(("agent_1", "agent_3"))
    for site in history.simulation.sites:
        found = {each.member: each for each in site.agent.pool.sums.audited()}
        assert sorted(found) == ["agent_1", "agent_3"]
        for name, each in found.items():
            np.testing.assert_array_equal(each.share.steps(2.0**-20), history.observer.vectors[name])
            assert each.problem == ""
    assert [*history.observer.agreed.values()] == [{"agent_1", "agent_3"}]


# ---- broken protocols: each is caught


def opens_over_two_sets(patch):
    patch.setattr(Participation, "_opened", lambda self: {})


def is_free_again_once_a_sum_is_open(patch):
    opened = Participation._opened

    def forgets(self):
        done = {keys for chain in self._sums.chains.values() for keys in [chain.keys] if chain.results}
        return {number: keys for number, keys in opened(self).items() if keys not in done}

    patch.setattr(Participation, "_opened", forgets)
    begins_again_over_those_who_are_left(patch)


def is_free_again_at_each_start(patch):
    patch.setattr(Participation, "_opened", lambda self: self.__dict__.get("_at_hand", {}))
    written = Participation.written

    def remembers(self, played):
        self._at_hand = {played.round: played.keys} if played.opened else self.__dict__.get("_at_hand", {})
        return written(self, played)

    patch.setattr(Participation, "written", remembers)
    begins_again_over_those_who_are_left(patch)


def begins_again_over_those_who_are_left(patch):
    """Later sums are not continued over fewer members: these add all that they have once more."""
    patch.setattr(Sums, "_larger", lambda self, keys: [])
    turn = Participation._chain
    patch.setattr(Participation, "_chain", lambda self: turn(self) or (None if self._sums.why_not else self._sums.now))


def adds_all_again_in_each_round(patch):
    patch.setattr(Agreement, "added", lambda self, share, before: share.steps(self.step))


def lenient(patch, kind):
    """Three messages of a kind are enough."""
    waiting = gathered.Gathered.waiting_for

    def soon(self):
        first, missing = waiting(self)
        if first != kind or len(self.messages[kind]) < 3:
            return first, missing
        later = gathered.KINDS[gathered.KINDS.index(kind) + 1]
        return later, [name for name in self.terms.seats if name not in self.messages[later]]

    def some(about, messages, wanted, absent=0):
        return {message.seat: message for message in messages if message.kind == wanted}

    patch.setattr(gathered.Gathered, "waiting_for", soon)
    patch.setattr(seat, "one_of_each", some)


def masks_for_those_who_are_there(patch):
    lenient(patch, "key")


def opens_before_all_have_masked(patch):
    lenient(patch, "masked")


def draws_new_secrets_at_each_start(patch):
    patch.setattr(Participation, "_lost", lambda self, chain, name: False)
    restore = Participation.restore

    def forgets(self, played):
        fresh = played.terms in self.__dict__.setdefault("_mine", set()) or self._writing is not None
        self._mine |= {played.terms} if fresh else set()
        return restore(self, played) if fresh else []

    patch.setattr(Participation, "restore", forgets)
    write = Participation._write

    def notes(self, chain, seat, *rest):
        self.__dict__.setdefault("_mine", set()).add(seat.terms.digest)
        return write(self, chain, seat, *rest)

    patch.setattr(Participation, "_write", notes)


def sends_before_it_is_durable(patch):
    def play(self):
        played = self.part.step(ready=bool(self._data.shards))
        return [] if played is None else self._on_part_persisted(played)

    patch.setattr(AddingMember, "_take_turn", play)


def believes_what_nobody_has_signed(patch):
    patch.setattr(group_sums, "check_message", lambda about, message, kind: None)


def passes_over_contradictions(patch):
    add = Sums.add

    def unmoved(self, *arguments):
        add(self, *arguments)

    patch.setattr(Sums, "add", unmoved)


def takes_the_last_to_arrive(patch):
    patch.setattr(chains, "better", lambda current, known, other: False)
    passes_over_contradictions(patch)
    patch.setattr(SumHistory, "doubled", lambda self: set())


def publishes_contributions(patch):
    patch.setattr(AddingMember, "learn", Member.learn)
    patch.setattr(verification, "check_evidence", lambda header, name, charter: None)


def counts_before_all_have_opened(patch):
    def added(about, packets, openings):
        return sum(np.frombuffer(packet.body, dtype="<u8") for packet in packets).view(np.int64)

    patch.setattr(chains, "opened", added)


def adds_new_data_to_later_rounds(patch):
    def keeps(self, data, *, shard=None, persons=None, rng):
        self._data.keep(shard, data, persons)

    patch.setattr(AddingMember, "learn", keeps)
    patch.setattr(Participation, "shards", property(lambda self: ()))
    more = SumHistory.do_more

    def observes(self, site):
        began = site.agent is not None and any(played.shards for played in site.agent.part._parts.values())
        if began:
            site.agent.observe(np.full((3, 1), 7.0), shard="more", rng=self.rng)

    assert more is not observes
    patch.setattr(SumHistory, "do_more", observes)


def adds_up_with_the_founders(patch):
    patch.setattr(Sums, "now", property(lambda self: self.chain(())))


def relays_nothing(patch):
    """Only what is new of its own is told to others."""
    answer = SumGossip.answer
    patch.setattr(SumGossip, "list_all", lambda self, peer: Send(peer, encode(Packets((), complete=True))))
    patch.setattr(SumGossip, "answer", lambda self, peer, theirs: answer(self, peer, replace(theirs, complete=False)))
    patch.setattr(SumGossip, "tick", lambda self, peers: self.news.clear() or [])


def adds_up_with_too_few(patch):
    patch.setattr(terms, "check_seats", lambda seats, colluders: None)


def shows_before_all_have_agreed(patch):
    patch.setattr(audit, "majority", lambda terms: 0)
    check = audit.one_of_each

    def lenient_consents(about, messages, kind, absent=0):
        given = check(about, messages, kind, absent)
        return given if kind != "consent" else dict.fromkeys(about.seats, next(iter(given.values())))

    patch.setattr(audit, "one_of_each", lenient_consents)


class Anybody(dict):
    """Votes of everybody, whoever is asked for."""

    def get(self, name, default=None):
        return SimpleNamespace(origin=ANY)


def shows_what_its_owner_has_not_voted_for(patch):
    audits = Sums.audits
    patch.setattr(Sums, "audits", lambda self: ((SimpleNamespace(votes=Anybody()), *rest) for _, *rest in audits(self)))


def shows_all_but_one(patch):
    for module in (audit, group_sums):
        patch.setattr(module, "check_shown", lambda terms, names: None)


def agrees_twice(patch):
    later = Roster.after

    def again(self, question, digest, voted_on):
        return self if isinstance(question, Show) else later(self, question, digest, voted_on)

    patch.setattr(Roster, "after", again)
    said, audits = part_module.next_message, Sums.audits
    patch.setattr(Sums, "audits", lambda self: [*audits(self)][-1:])
    patch.setattr(
        part_module, "next_message", lambda seat, one, names, sign: said(forgetful(seat, one, names), one, names, sign)
    )


def forgetful(seat, one, names):
    """It does not know that it has agreed to show others."""
    agreed, about = seat.sent.get("consent"), audit.about_shown(one.terms, one.of("masked"), names)
    other = agreed is not None and agreed.about != about
    return dataclasses.replace(seat, sent={k: m for k, m in seat.sent.items() if k != "consent"}) if other else seat


QUIET = {"hostile": False, "votes": False}
VOTES = {"hostile": False, "votes": True}
CHEAT = {"hostile": True}
OUSTED = {**QUIET, "topology": "clique", "rounds": 20}
# Each with the kind of history that shows it, and a seed to begin with.
BROKEN = {
    opens_over_two_sets: (84, VOTES),
    is_free_again_once_a_sum_is_open: (0, OUSTED),
    is_free_again_at_each_start: (0, OUSTED),
    begins_again_over_those_who_are_left: (0, OUSTED),
    adds_all_again_in_each_round: (0, QUIET),
    masks_for_those_who_are_there: (0, QUIET),
    opens_before_all_have_masked: (0, QUIET),
    draws_new_secrets_at_each_start: (0, QUIET),
    sends_before_it_is_durable: (0, QUIET),
    believes_what_nobody_has_signed: (1, CHEAT),
    passes_over_contradictions: (0, CHEAT),
    takes_the_last_to_arrive: (0, CHEAT),
    publishes_contributions: (0, QUIET),
    counts_before_all_have_opened: (0, QUIET),
    adds_new_data_to_later_rounds: (0, QUIET),
    adds_up_with_the_founders: (1, VOTES),
    relays_nothing: (0, {**QUIET, "topology": "line"}),
    adds_up_with_too_few: (1, {**VOTES, "colluders": 3}),
}
EVERYBODY = tuple(f"agent_{number}" for number in range(SEATS))
# Each with the members that are to be shown, and who votes for it.
BROKEN_AUDITS = {
    shows_before_all_have_agreed: ([EVERYBODY], range(3)),
    shows_what_its_owner_has_not_voted_for: ([("agent_4",)], range(4)),
    shows_all_but_one: ([EVERYBODY[:-1]], range(SEATS)),
    agrees_twice: ([("agent_1",), ("agent_2",)], range(SEATS)),
}


@pytest.mark.parametrize("broken", [None, *BROKEN_AUDITS], ids=lambda broken: getattr(broken, "__name__", "none"))
def test_a_broken_audit_is_caught(broken, monkeypatch):
    for breaks, (audits, voters) in BROKEN_AUDITS.items():
        if broken is None:
            SumHistory(0, **OUSTED).audit_after_opening(*audits, voters=voters)
        elif broken is breaks:
            broken(monkeypatch)
            with pytest.raises((Broken, Violation)):
                SumHistory(0, **OUSTED).audit_after_opening(*audits, voters=voters)


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.__name__)
def test_a_broken_protocol_is_caught(broken, monkeypatch):
    broken(monkeypatch)
    first, kind = BROKEN[broken]
    for seed in range(first, first + 60):
        try:
            history = SumHistory(seed, **kind)
            history.oust_after_opening() if kind is OUSTED else history.run(STEPS)
        except (Broken, Violation):
            return
    pytest.fail("nobody has noticed")
