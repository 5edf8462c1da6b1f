"""What a group decides stays decided: a set that only grows, from which all agents read the same."""

from dataclasses import replace

import numpy as np
import pytest
from groups import ballot_on, gaussian_charter, identities, seated
from hypothesis import given, settings
from hypothesis import strategies as st

from decbayes.errors import InvalidCharter, Refused
from decbayes.network import (
    Admit,
    Agent,
    Amend,
    Ballot,
    Proof,
    Remove,
    Report,
    Rotate,
    Rules,
    SqliteStore,
    persist_first,
    sign_record,
)
from decbayes.network.protocol.group.ballots import open_ballot
from decbayes.network.protocol.group.decisions import MOST_VOTES, Decisions
from decbayes.network.protocol.group.motions import motion_on, sign_vote
from decbayes.network.protocol.group.roster import Void
from decbayes.network.protocol.records.accounts import accounts
from decbayes.network.simulation.recount import Recount
from decbayes.network.simulation.simulator import Simulation
from decbayes.network.simulation.topology import clique

MEMBERS = identities(8)
CHARTER = gaussian_charter(MEMBERS[:5])
SEATED = seated(CHARTER, MEMBERS[:5])
NEW = {member.public: member for member in MEMBERS[5:]}


def some_seats(count):
    return dict([*SEATED.items()][:count])


# Laws of the set, without agents


@st.composite
def ballots(draw):
    """Ballots as several partitions might have settled them: each after some of those before it."""
    drawn, decisions, numbers = [], Decisions(CHARTER), iter(range(1, 10**6))
    for _ in range(draw(st.integers(1, 6))):
        settled = [ballot for ballot in drawn if ballot.digest in decisions.settled]
        after = draw(st.lists(st.sampled_from(settled), unique_by=lambda ballot: ballot.digest)) if settled else []
        name = draw(st.sampled_from([*CHARTER.members, "new"]))
        key = draw(st.sampled_from([*NEW]))
        rules = Rules(agreement=draw(st.sampled_from([0.5, 0.6, 0.7])))
        question = draw(
            st.sampled_from([Remove(name), Rotate(name, key), Admit(name, key), Amend(rules, CHARTER.limits)])
        )
        voters = draw(st.sets(st.sampled_from([*SEATED]), min_size=1))
        signed = {seat: SEATED[seat] for seat in voters}
        ballot = ballot_on(question, signed, CHARTER, after, number=next(numbers))
        try:
            checked = open_ballot(ballot.content, decisions)
        except Refused:
            continue
        drawn.append(checked)
        decisions.add(checked)
    return drawn


def heard(ballots_heard):
    """What an agent knows that has heard these in some order, as often as it takes to understand all."""
    decisions = Decisions(CHARTER)
    for _ in ballots_heard:
        for ballot in ballots_heard:
            if decisions.knows(ballot.motion.after):
                decisions.add(ballot)
    return decisions


def settled_part(decisions):
    return frozenset(decisions.settled), decisions.roster, decisions.charter.fingerprint


@settings(max_examples=60, deadline=None)
@given(ballots(), st.randoms(use_true_random=False))
def test_what_is_in_force_depends_on_the_set_and_not_on_the_order(drawn, random):
    shuffled = [*drawn]
    random.shuffle(shuffled)
    one, other = (heard([b for b in each if b.digest in heard(drawn).settled]) for each in (drawn, shuffled))
    assert settled_part(one) == settled_part(other)
    assert one.root == other.root


@settings(max_examples=40, deadline=None)
@given(ballots())
def test_nothing_that_is_settled_is_ever_unsettled(drawn):
    decisions, before = Decisions(CHARTER), frozenset()
    for ballot in [*drawn, *drawn]:
        if decisions.knows(ballot.motion.after):
            decisions.add(ballot)
        assert before <= decisions.settled.keys()
        before = frozenset(decisions.settled)


@settings(max_examples=40, deadline=None)
@given(ballots(), st.integers(0, 6), st.integers(0, 6))
def test_sets_of_resolutions_join(drawn, first, second):
    """Union is commutative, idempotent, and takes in all that either side has settled."""
    one, two = heard(drawn[:first]), heard(drawn[second:])
    left, right = heard(drawn[:first]), heard(drawn[second:])
    left.union(two)
    right.union(one)
    assert settled_part(left) == settled_part(right)
    assert {*one.settled, *two.settled} <= left.settled.keys()
    again = settled_part(left)
    left.union(two)
    assert settled_part(left) == again


@settings(max_examples=60, deadline=None)
@given(ballots())
def test_a_plain_recount_gives_the_same_seats(drawn):
    """The oracle starts from the beginning each time and shares no code with agents."""
    decisions = heard(drawn)
    count = Recount(CHARTER)(decisions.settled, frozenset())
    assert count.voters == dict(decisions.roster.sitting)
    assert count.terms[0] == decisions.roster.rules


# Rules, by hand


@pytest.mark.parametrize(
    ("agreement", "votes", "settles"),
    [(0.5, 2, False), (0.5, 3, True), (0.6, 3, False), (0.6, 4, True), (0.8, 4, False), (0.8, 5, True)],
)
def test_more_than_the_agreed_share_of_all_seats_must_vote(agreement, votes, settles):
    """Of five seats: more than 2.5, 3 and 4 of them."""
    charter = gaussian_charter(MEMBERS[:5], rules=Rules(agreement=agreement))
    decisions = Decisions(charter)
    decisions.add(open_ballot(ballot_on(Remove("agent 0"), some_seats(votes), charter).content, decisions))
    assert ("agent 0" in decisions.roster.sitting) != settles


def test_votes_count_as_when_the_motion_was_put():
    """Adding a member once turned three of five into three of six, and brought a replaced key back."""
    decisions = Decisions(CHARTER)
    rotated = ballot_on(Rotate("agent 1", MEMBERS[5].public), some_seats(3), CHARTER)
    others = {name: SEATED[name] for name in ("agent 0", "agent 2", "agent 3")}
    added = ballot_on(Admit("agent 6", MEMBERS[6].public), others, CHARTER, number=2)
    for ballot in (rotated, added):
        decisions.add(open_ballot(ballot.content, decisions))
    assert decisions.roster.sitting["agent 1"] == MEMBERS[5].id
    assert len(decisions.roster.sitting) == 6
    assert decisions.roster.needed == 4


def test_of_two_keys_for_one_seat_the_first_in_the_common_order_is_in_force():
    two = [ballot_on(Rotate("agent 1", MEMBERS[n].public), some_seats(3), CHARTER, number=n) for n in (5, 6)]
    for order in (two, two[::-1]):
        decisions = heard(order)
        first = min(two, key=lambda ballot: ballot.digest)
        assert decisions.roster.seats["agent 1"].key == first.question.key
        assert decisions.roster.overruled == {each.digest for each in two if each is not first}


def test_a_removal_stands_whatever_becomes_of_the_key_meanwhile():
    removed = ballot_on(Remove("agent 1"), some_seats(3), CHARTER, number=1)
    for number in range(2, 8):  # whichever of the two comes first in the common order
        key = MEMBERS[5 + number % 3].public
        rotated = ballot_on(Rotate("agent 1", key), some_seats(3), CHARTER, number=number)
        assert "agent 1" not in heard([removed, rotated]).roster.sitting


def test_who_votes_twice_under_one_number_loses_the_seat_and_not_what_it_has_settled():
    """A minority that votes for different things on both sides of a partition."""
    here, there = (ballot_on(Remove(name), some_seats(3), CHARTER, number=4) for name in ("agent 3", "agent 4"))
    decisions = heard([here, there])
    assert decisions.proofs.keys() == {member.id for member in MEMBERS[:3]}
    assert {here.digest, there.digest} <= decisions.settled.keys()
    assert not decisions.roster.sitting.keys() & some_seats(3).keys()
    alone = heard([here])
    assert alone.proofs == {}


def test_votes_of_one_member_beyond_a_few_are_dropped_the_same_everywhere():
    many = [ballot_on(Admit(f"new {n}", MEMBERS[5].public), some_seats(1), CHARTER, number=n) for n in range(1, 40)]
    one, two = heard(many), heard(many[::-1])
    assert len(one.pending) == MOST_VOTES
    assert one.root == two.root


@pytest.mark.parametrize(
    ("reason", "ballot"),
    [
        ("decision", ballot_on(Remove("nobody"), some_seats(1), CHARTER)),
        ("decision", ballot_on(Admit("agent 1", MEMBERS[5].public), some_seats(1), CHARTER)),
        ("decision", ballot_on(Rotate("agent 1", MEMBERS[2].public), some_seats(1), CHARTER)),
        ("decision", ballot_on(Admit("a\nb", MEMBERS[5].public), some_seats(1), CHARTER)),
        ("decision", ballot_on(Amend(CHARTER.rules, CHARTER.limits), some_seats(1), CHARTER)),
        ("decision", ballot_on(Amend(Rules(components="auto"), CHARTER.limits), some_seats(1), CHARTER)),
        ("decision", ballot_on(Remove("agent 1"), some_seats(1), CHARTER, body=b"x")),
        ("decision", ballot_on(Remove("agent 1"), {}, CHARTER)),
        ("membership", ballot_on(Remove("agent 1"), {"agent 0": MEMBERS[1]}, CHARTER)),
        ("membership", ballot_on(Remove("agent 1"), {"new": MEMBERS[5]}, CHARTER)),
        ("ahead", ballot_on(Remove("agent 1"), some_seats(1), CHARTER, [ballot_on(Remove("agent 2"), {}, CHARTER)])),
        ("group", ballot_on(Remove("agent 1"), some_seats(1), replace(CHARTER, id="another"))),
    ],
)
def test_motions_and_votes_are_checked(reason, ballot):
    with pytest.raises(Refused) as refused:
        open_ballot(ballot.content, Decisions(CHARTER))
    assert refused.value.reason == reason


# The three failures that this replaces, between agents


def group(rng, count=6):
    """Agents that have observed one shard each and agree; the last one has no seat yet."""
    simulation = Simulation(CHARTER, MEMBERS[:count], rng=rng)
    simulation.links = clique(count, rng)
    for number, site in enumerate(simulation.sites):
        simulation.start(site)
        simulation.observe(site, f"shard {number}", rng.normal(size=10 + number))
    talk(simulation)
    return simulation


def talk(simulation, rounds=4):
    for _ in range(rounds):
        simulation.round()


def decide(simulation, question, voters=(0, 1, 2)):
    for number in voters:
        site = simulation.sites[number]
        with_question = site.agent.propose(question) if question is not None else site.agent.propose_epoch()
        simulation.perform(site, with_question)
    talk(simulation)


def counts(simulation):
    """What each site's posterior counts; all must agree."""
    (found,) = {
        (tuple(sorted(accounts(s.agent.pool).prior.items())), tuple(sorted(accounts(s.agent.pool).records.items())))
        for s in simulation.sites
    }
    return dict(found[0]), dict(found[1])


def test_an_epoch_keeps_removals_and_rotations_and_counts_nothing_twice(rng):
    """b rotates, e is removed, the epoch opens: b's old key and e were back, and 1,450 observations became 2,050."""
    simulation = group(rng)
    b = simulation.sites[1]
    decide(simulation, Rotate("agent 1", MEMBERS[7].public))
    old = b.identity
    simulation.rekey(b, MEMBERS[7])
    decide(simulation, Remove("agent 4"))
    decide(simulation, None)
    prior, records = counts(simulation)
    assert prior == {"agent 0": 10, "agent 1": 11, "agent 2": 12, "agent 3": 13}
    assert records == {}
    simulation.rekey(b, old)  # it is started with its old key, by mistake
    simulation.observe(b, "more", rng.normal(size=5))
    talk(simulation)
    assert counts(simulation) == (prior, {}), "the old key adds nothing"
    assert "replaced this key" in b.agent.standing
    simulation.rekey(b, MEMBERS[7])
    talk(simulation)
    assert counts(simulation) == (prior, {"agent 1": 5})
    whole = simulation.sites[0].agent.posterior()
    data = [site.everything for site in simulation.sites[:4]]
    points = np.concatenate([np.ravel(shard) for shards in data for shard in shards.values()])
    batch = CHARTER.model.fit(points).posterior
    np.testing.assert_allclose(whole.natural["mean"], batch.natural["mean"], atol=1e-9)


def test_adding_a_member_reverses_nothing(rng):
    simulation = group(rng)
    decide(simulation, Remove("agent 4"))
    decide(simulation, Rotate("agent 1", MEMBERS[7].public))
    decide(simulation, Admit("site 5", MEMBERS[5].public), voters=(0, 2, 3))
    roster = simulation.sites[2].agent.pool.roster
    assert roster.sitting.keys() == {"agent 0", "agent 1", "agent 2", "agent 3", "site 5"}
    assert roster.sitting["agent 1"] == MEMBERS[7].id
    assert "agent 4" not in counts(simulation)[1]
    assert counts(simulation)[1]["site 5"] == 15, "the new member found out by itself"


def test_a_new_key_has_the_vote_and_the_old_one_has_none(rng):
    simulation = group(rng)
    b, a = simulation.sites[1], simulation.sites[0]
    decide(simulation, Rotate("agent 1", MEMBERS[7].public))
    simulation.rekey(b, MEMBERS[7])
    talk(simulation)
    decide(simulation, Remove("agent 4"), voters=(0, 2))
    (pending,) = a.agent.pool.decisions.pending.values()
    stolen = sign_vote(pending.motion, "agent 1", MEMBERS[1], 9)
    forged = Ballot(pending.motion, {**pending.votes, "agent 1": stolen})
    a.agent.on_ballot("thief", forged.content)
    assert a.agent.refused["membership"] > 0
    assert "agent 4" in a.agent.pool.roster.sitting, "the old key has no vote"
    simulation.perform(b, b.agent.vote(pending.name))
    talk(simulation)
    assert "agent 4" not in a.agent.pool.roster.sitting, "the new key has"


def test_a_removed_member_leaves_the_prior_and_may_come_back(rng):
    simulation = group(rng, 5)
    decide(simulation, None)
    decide(simulation, Remove("agent 4"))
    assert counts(simulation)[0].keys() == {"agent 0", "agent 1", "agent 2", "agent 3"}
    points = np.concatenate([np.ravel(data) for s in simulation.sites[:4] for data in s.shards.values()])
    whole = simulation.sites[0].agent.posterior()
    expected = CHARTER.model.fit(points).posterior
    np.testing.assert_allclose(whole.natural["mean"], expected.natural["mean"], atol=1e-9)
    decide(simulation, Admit("agent 4", MEMBERS[4].public))
    assert counts(simulation)[0]["agent 4"] == 14


def test_a_removed_agent_is_told_so_and_cannot_vote(rng):
    simulation = group(rng, 5)
    decide(simulation, Remove("agent 4"))
    last = simulation.sites[4].agent
    told = [r.fields["why"] for _, number, r in simulation.reports if number == 4 and r.event == "revoked"]
    assert "removed 'agent 4'" in told[0]
    with pytest.raises(InvalidCharter, match="removed 'agent 4'"):
        last.propose(Remove("agent 0"))


def test_what_was_wanted_is_voted_on_again_under_the_next_version(rng):
    simulation = group(rng, 5)
    decide(simulation, Remove("agent 4"), voters=(0, 1))
    decide(simulation, Rotate("agent 3", MEMBERS[7].public), voters=(0, 1, 2))
    (pending,) = simulation.sites[2].agent.pool.decisions.pending.values()
    assert pending.votes.keys() == {"agent 0", "agent 1"}
    assert pending.motion.after == simulation.sites[2].agent.pool.decisions.version


def test_an_epoch_is_voted_for_only_by_who_would_propose_the_same(rng):
    simulation = group(rng, 5)
    first, second = simulation.sites[:2]
    simulation.perform(first, first.agent.propose_epoch())
    talk(simulation)
    (pending,) = second.agent.pool.decisions.pending.values()
    simulation.observe(second, "more", rng.normal(size=3))
    talk(simulation)
    with pytest.raises(InvalidCharter, match="do not give the prior"):
        second.agent.vote(pending.name)


@pytest.mark.parametrize("written", range(3))
def test_a_crash_at_any_step_of_a_vote_loses_nothing_that_was_sent(written, rng):
    """Before the vote is durable, after it, and after what it has settled is."""
    agent, saved = Agent(CHARTER, MEMBERS[0], rng=rng), []

    class Store:
        def put(self, items):
            saved.extend(items)

    effects = agent.propose(Remove("agent 3"))
    if written >= 1:
        left = persist_first(agent, effects, Store())
        assert any(isinstance(report, Report) and report.event == "voted" for report in left)
    if written == 2:
        others = {name: key for name, key in SEATED.items() if name in ("agent 1", "agent 2")}
        persist_first(agent, agent.on_ballot("b", ballot_on(Remove("agent 3"), others, CHARTER).content), Store())
    again = Agent(CHARTER, MEMBERS[0], rng=rng, saved=saved).pool.decisions
    assert (len(again.pending), len(again.settled)) == [(0, 0), (1, 0), (0, 1)][written]
    assert ("agent 3" in again.roster.sitting) == (written < 2)


# What a stolen key can do


def without(*names):
    return {name: SEATED[name] for name in SEATED if name not in names}


ROTATED = ballot_on(Rotate("agent 1", MEMBERS[5].public), without("agent 1", "agent 4"), CHARTER, number=20)
STOLEN = ballot_on(Remove("agent 4"), without("agent 0", "agent 4"), CHARTER, number=30)


def test_a_replaced_key_completes_nothing_that_was_put_before():
    """Three of five seats settle; one of the three is the one whose key was replaced meanwhile."""
    for order in ([ROTATED, STOLEN], [STOLEN, ROTATED]):
        decisions = heard(order)
        assert decisions.settled.keys() == {ROTATED.digest, STOLEN.digest}, "sets are joined by union"
        assert decisions.overruled == {STOLEN.digest}
        assert "agent 4" in decisions.roster.sitting
        assert decisions.version == (ROTATED.digest,)


def test_a_removal_takes_a_key_as_well():
    removed = ballot_on(Remove("agent 1"), without("agent 1", "agent 4"), CHARTER, number=20)
    assert heard([STOLEN, removed]).overruled == {STOLEN.digest}


def test_votes_of_others_that_come_later_let_a_resolution_stand():
    more = ballot_on(Remove("agent 4"), some_seats(1), CHARTER, number=40)
    one, two = heard([ROTATED, STOLEN, more]), heard([STOLEN, more, ROTATED])
    for decisions in (one, two):
        assert decisions.overruled == frozenset()
        assert decisions.roster.sitting.keys() == some_seats(4).keys()
    assert one.root == two.root != heard([ROTATED, STOLEN]).root


def test_what_a_majority_has_gone_on_from_stands():
    """They had heard of it before they heard of the new key."""
    rules = Amend(Rules(agreement=0.6), CHARTER.limits)
    later = ballot_on(rules, without("agent 1", "agent 4"), CHARTER, [STOLEN], number=50)
    assert heard([ROTATED, STOLEN, later]).overruled == frozenset()
    thief = ballot_on(rules, without("agent 0", "agent 4"), CHARTER, [STOLEN], number=50)
    assert heard([ROTATED, STOLEN, thief]).overruled == {STOLEN.digest, thief.digest}, "if the thief did not help"


def test_resolutions_that_take_each_others_keys_stand_and_strike_the_rest():
    here = ballot_on(Rotate("agent 1", MEMBERS[5].public), without("agent 1", "agent 2"), CHARTER, number=20)
    there = ballot_on(Rotate("agent 0", MEMBERS[6].public), without("agent 0", "agent 2"), CHARTER, number=30)
    rules = ballot_on(Amend(Rules(agreement=0.6), CHARTER.limits), some_seats(3), CHARTER, number=40)
    decisions = heard([here, there, rules])
    assert decisions.overruled == {rules.digest}
    assert decisions.roster.seats["agent 0"].key == MEMBERS[6].public
    assert decisions.roster.seats["agent 1"].key == MEMBERS[5].public


def test_who_wants_what_has_fallen_votes_again_and_the_rotated_seat_does_so_itself(rng):
    """Nobody can tell an earlier vote under the old key from a thief's: it is not signed again by itself."""
    simulation = group(rng, 5)
    a, b = simulation.sites[:2]
    decide(simulation, Remove("agent 4"), voters=(0, 2))
    (pending,) = a.agent.pool.decisions.pending.values()
    decide(simulation, Rotate("agent 1", MEMBERS[7].public), voters=(0, 2, 3))
    simulation.rekey(b, MEMBERS[7])
    stolen = sign_vote(pending.motion, "agent 1", MEMBERS[1], 9)
    simulation.ledger.steal(stolen)
    simulation.perform(
        a, a.agent.on_ballot("thief", replace(pending, votes={**pending.votes, "agent 1": stolen}).content)
    )
    talk(simulation)
    assert "overruled" in [report.event for _, number, report in simulation.reports if number == 0]
    for site in simulation.sites:
        (again,) = site.agent.pool.decisions.pending.values()
        assert again.votes.keys() == {"agent 0", "agent 2"}
        assert "agent 4" in site.agent.pool.roster.sitting
    simulation.perform(b, b.agent.vote(again.name))
    talk(simulation)
    assert all("agent 4" not in site.agent.pool.roster.sitting for site in simulation.sites)
    a.agent.pool.decisions.lapsed.append(a.agent.pool.decisions.settled[pending.digest])
    assert a.agent._vote_again() == [], "what has been decided since is not wanted again"


def test_a_settled_resolution_takes_further_votes_and_then_stands_without_the_key_that_was_taken(tmp_path, rng):
    """More votes than needed are advised, and used to be refused once a motion was settled."""
    asked = ballot_on(Remove("agent 2"), {"agent 3": SEATED["agent 3"]}, CHARTER, [ROTATED], number=60)
    with SqliteStore(tmp_path / "a.store", CHARTER) as store:
        agent = Agent(CHARTER, MEMBERS[0], rng=rng)
        for ballot in (STOLEN, ROTATED, asked):
            persist_first(agent, agent.on_ballot("b", ballot.content), store)
        assert agent.pool.decisions.overruled == {STOLEN.digest}
        persist_first(agent, agent.vote(STOLEN.name), store)
        assert agent.pool.decisions.settled[STOLEN.digest].votes.keys() == {*STOLEN.votes, "agent 0"}
        assert agent.pool.decisions.overruled == frozenset()
        assert agent.vote(STOLEN.name) == [], "once"
    with SqliteStore(tmp_path / "a.store", CHARTER) as store:
        again = Agent(CHARTER, MEMBERS[0], rng=rng, saved=store.load()).pool.decisions
    assert again.entries() == agent.pool.decisions.entries()
    with pytest.raises(InvalidCharter, match="does not identify one motion"):
        agent.vote("")


def test_a_further_vote_leaves_pending_motions_in_the_store(tmp_path, rng):
    asked = ballot_on(Remove("agent 2"), {"agent 3": SEATED["agent 3"]}, CHARTER, [ROTATED], number=60)
    with SqliteStore(tmp_path / "a.store", CHARTER) as store:
        agent = Agent(CHARTER, MEMBERS[4], rng=rng)
        for ballot in (ROTATED, asked):
            persist_first(agent, agent.on_ballot("b", ballot.content), store)
        persist_first(agent, agent.vote(ROTATED.name), store)
        assert "agent 4" in agent.pool.decisions.settled[ROTATED.digest].votes
        held = {ballot.digest: {*ballot.votes} for ballot in store.load()}
    assert held == {ROTATED.digest: {*ROTATED.votes, "agent 4"}, asked.digest: {"agent 3"}}


def test_what_was_known_under_a_key_whose_rotation_falls_counts_again_once_it_stands(tmp_path, rng):
    """New rules in between had the record read again, and it was dropped: its key was nobody's just then."""
    replaced = ballot_on(Rotate("agent 0", MEMBERS[6].public), without("agent 0", "agent 1"), CHARTER, number=60)
    rules = Amend(Rules(least_observations=2), CHARTER.limits)
    amended = ballot_on(rules, without("agent 0", "agent 1"), CHARTER, [replaced], number=61)
    further = ballot_on(ROTATED.question, {"agent 4": SEATED["agent 4"]}, CHARTER, number=62)
    posterior = CHARTER.model.fit(np.ones(4)).posterior
    said = {"posterior": posterior, "shards": frozenset({"s"}), "observations": 4}
    renewed, steps = sign_record(CHARTER, MEMBERS[5], 1, **said), []
    with SqliteStore(tmp_path / "a.store", CHARTER) as store:
        agent = Agent(CHARTER, MEMBERS[2], rng=rng)
        for step in (ROTATED, renewed, replaced, amended, further):
            take = agent.on_record if step is renewed else agent.on_ballot
            persist_first(agent, take("b", step.content), store)
            restarted = Agent(CHARTER, MEMBERS[2], rng=rng, saved=store.load())
            for each in (agent, restarted):
                assert (step is ROTATED) or each.pool.version(MEMBERS[5].id) == 1
            steps.append([record.origin == MEMBERS[5].id for record in agent.pool.counted()])
            assert [record.digest for record in restarted.pool.counted()] == [r.digest for r in agent.pool.counted()]
    assert agent.charter.rules == Rules(least_observations=2)
    assert steps == [[], [True], [], [], [True]]


def test_a_void_key_has_its_place_in_the_order_as_what_comes_after_nothing():
    """A count by hand once had all void keys first, and another one of two contradicting rules in force."""
    void = Void(MEMBERS[4].id).digest
    voters = without("agent 4")
    early = (ballot_on(amend(number), voters, CHARTER, number=number) for number in range(1, 99))
    first = next(ballot for ballot in early if ballot.digest < void)
    late = (Ballot(motion_on(amend(number), CHARTER.id, (void,)), {}) for number in range(100, 999))
    put = next(ballot for ballot in late if ballot.digest < first.digest)
    second = replace(put, votes={name: sign_vote(put.motion, name, key, 500) for name, key in voters.items()})
    decisions = Decisions(CHARTER)
    votes = [sign_vote(motion_on(Remove(name), CHARTER.id, ()), "agent 4", MEMBERS[4], 7) for name in voters][:2]
    decisions.exclude(Proof(*votes))
    for ballot in (first, second):
        decisions.add(open_ballot(ballot.content, decisions))
    assert decisions.charter.rules == first.question.rules
    assert decisions.overruled == {second.digest}
    assert Recount(CHARTER)(decisions.settled, {MEMBERS[4].id}).terms[0] == first.question.rules


def amend(number):
    return Amend(Rules(least_observations=number), CHARTER.limits)
