"""What a group may agree on, rule by rule; what its members want again; and when evidence is published."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from groups import ballot_on, charter_of, gaussian_charter, identities, later_charter, seated
from summing_groups import SEATS, summing_charter
from test_private_sums import private_charter

import decbayes as db
from decbayes.errors import InvalidCharter, SumRefused
from decbayes.network import (
    Agent,
    Charter,
    Limits,
    PrivacyRules,
    Remove,
    Rotate,
    Rules,
    SumRules,
    sign_record,
)
from decbayes.network.protocol.group.charter import abbreviated, check_adding_up, from_hex, member_key
from decbayes.network.protocol.group.motions import Open, PriorPart
from decbayes.network.protocol.records.pool import Pool
from decbayes.network.protocol.records.statements import Approval
from decbayes.network.protocol.records.verification import verify
from decbayes.network.protocol.site.evidence import learn, nothing
from decbayes.network.protocol.site.publisher import LEAP, Publisher, standing_of
from decbayes.updates import Epoch

KEYS = identities(SEATS)
CHARTER = gaussian_charter(KEYS[:3])
SUMS = summing_charter(KEYS)
CLUSTERS = db.GaussianMixture(2, 1, variance=1.0)
ANCHOR = db.Posterior.of_prior(CLUSTERS.structure)


# ---- what may be agreed on


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"rules": Rules(robust=True)}, "robust = true"), ({"rules": Rules(share=0.5)}, "the rule share"),
        ({"rules": Rules(intervals=True)}, "intervals = true"), ({"rules": Rules(components=2)}, "components"),
        ({"disclosure": db.disclosure.Rules(approval=True)}, "approval = true"),
        ({"sums": None, "anchor": ANCHOR}, "needs a group"),
        ({"sums": None, "privacy": PrivacyRules(epsilon=1.0, delta=1e-6)}, "needs a group"),
        ({"anchor": ANCHOR}, "The anchor does not fit"),
        ({"epoch": Epoch(db.Posterior.of_prior(SUMS.model.structure)), "opened": b"1" * 32}, "there are no epochs"),
        ({"members": {}}, "0 members"), ({"members": dict.fromkeys("ab", KEYS[0].public)}, "the same key"),
        ({"limits": Limits(members=4)}, "5 members; there must be 1 to limits.members = 4"),
    ],
)  # fmt: skip
def test_where_only_sums_are_opened_no_rule_needs_a_single_members_numbers(changed, why):
    with pytest.raises(InvalidCharter, match=why):
        replace(SUMS, **changed)
    assert replace(SUMS, disclosure=db.disclosure.Rules(), rules=Rules(validation=0.1), limits=Limits(members=5)).sums


def test_members_agree_beforehand_which_component_is_which():
    plain = charter_of(CLUSTERS, KEYS)
    members = {f"m{n}": key.public for n, key in enumerate(KEYS)}
    with pytest.raises(InvalidCharter, match="has components, and members must agree"):
        replace(plain, members=members, sums=SumRules())
    anchored = replace(plain, members=members, sums=SumRules(rounds=2, colluders=2, most_rows=9.0), anchor=ANCHOR)
    assert anchored.begins_at is ANCHOR
    agreed = anchored.agreement(anchored.members)
    assert (agreed.rounds, agreed.colluders, agreed.most_rows, agreed.complete) == (2, 2, 9.0, True)
    assert (agreed.name, agreed.rules) == (anchored.fingerprint, None)
    fewer = anchored.agreement({name: members[name] for name in ("m0", "m1", "m2", "m3")})
    assert not fewer.complete
    assert SUMS.begins_at == db.Posterior.of_prior(SUMS.model.structure)


def test_messages_of_sums_fit_into_the_limits():
    length = SUMS.agreement(SUMS.members).next_terms().length
    for room, fine in ((8 * length + 8192, True), (8 * length + 8191, False)):
        charter = replace(SUMS, limits=Limits(record_bytes=room))
        if fine:
            check_adding_up(charter)
        else:
            with pytest.raises(InvalidCharter, match="record_bytes is too small"):
                check_adding_up(charter)
    few = replace(SUMS, members=dict([*SUMS.members.items()][:2]))
    with pytest.raises(InvalidCharter, match="at least 3 members"):
        check_adding_up(few)
    check_adding_up(CHARTER)


def test_privacy_is_promised_for_as_many_as_take_part():
    shared, each = private_charter(colluders=1), private_charter(noise="each")
    assert shared.promised(4) == db.Privacy(3.0, 1e-6, "shared", 1, 1, 4)
    assert shared.promised(3).sites == 3
    with pytest.raises(SumRefused, match="2 members cannot share the noise if 1 of them"):
        shared.promised(2)
    assert each.promised(2) == db.Privacy(3.0, 1e-6)
    many = replace(shared, privacy=PrivacyRules(epsilon=3.0, delta=1e-6, rows_per_person=4))
    assert many.promised(4).rows_per_person == 4
    assert shared.agreement(shared.members).privacy == shared.promised(4)
    for changed, why in (
        ({"rules": Rules(validation=0.1)}, "validation beside privacy"),
        ({"sums": SumRules(rounds=2)}, "among 5 rounds; the sums have 2"),
        ({"anchor": db.Posterior.of_prior(shared.model.structure)}, "leave out the anchor"),
    ):  # fmt: skip
        with pytest.raises(InvalidCharter, match=why):
            replace(shared, **changed)
    mean = summing_charter(KEYS, rounds=5)
    with pytest.raises(InvalidCharter, match="nobody has bounded"):
        replace(mean, privacy=PrivacyRules(epsilon=1.0, delta=1e-6))


@pytest.mark.parametrize(
    "charter", [SUMS, private_charter(), CHARTER, replace(CHARTER, disclosure=db.disclosure.Rules())]
)
def test_charters_come_back_with_all_that_was_agreed_on(charter, tmp_path):
    charter.save(tmp_path / "group.toml")
    again = Charter.load(tmp_path / "group.toml")
    assert again == charter
    assert again.fingerprint == charter.fingerprint
    assert (again.sums, again.privacy, again.disclosure, again.secret) == (
        charter.sums, charter.privacy, charter.disclosure, charter.secret,
    )  # fmt: skip


@pytest.mark.parametrize(("extra", "why"), [(0, "is not a charter"), (1, "has more than 16,777,216 bytes")])
def test_a_charter_is_a_small_file(extra, why, tmp_path):
    with (tmp_path / "group.toml").open("wb") as file:
        file.truncate((16 << 20) + extra)
    with pytest.raises(InvalidCharter, match=why):
        Charter.load(tmp_path / "group.toml")
    plain = Charter("g", "GaussianMean", {"dimension": 1}, {"a": KEYS[0].public})
    assert (plain.opened, plain.limits, plain.rules, plain.words_added) == (bytes(32), Limits(), Rules(), {})
    assert (len(plain.secret), len(plain.id)) == (32, 32)
    assert "secret" not in repr(plain)


def test_an_anchor_travels_beside_its_charter(tmp_path):
    members = {f"m{n}": key.public for n, key in enumerate(KEYS)}
    charter = replace(charter_of(CLUSTERS, KEYS), members=members, sums=SumRules(), anchor=ANCHOR)
    charter.save(tmp_path / "group.toml")
    assert Charter.load(tmp_path / "group.toml").anchor == ANCHOR
    db.files.save(CLUSTERS.fit(np.zeros((3, 1)), rng=0).posterior, tmp_path / "group.anchor")
    with pytest.raises(InvalidCharter, match="its digest differs"):
        Charter.load(tmp_path / "group.toml")
    (tmp_path / "group.anchor").unlink()
    with pytest.raises(InvalidCharter, match="which is not beside it"):
        Charter.load(tmp_path / "group.toml")
    with pytest.raises(InvalidCharter, match="An epoch follows from resolutions"):
        later_charter(CHARTER, db.Posterior.of_prior(CHARTER.model.structure)).save(tmp_path / "later.toml")


def test_charters_that_read_records_alike_differ_in_members_alone():
    assert CHARTER.reads_like(replace(CHARTER, members={"x": KEYS[0].public}))
    prior = CHARTER.model.fit(np.ones(3)).posterior
    for other in (
        replace(CHARTER, rules=Rules(compare=50)), replace(CHARTER, limits=Limits(shards=5)),
        replace(CHARTER, disclosure=db.disclosure.Rules()), later_charter(CHARTER, prior),
    ):  # fmt: skip
        assert not CHARTER.reads_like(other)
        assert other.fingerprint != CHARTER.fingerprint
    later = later_charter(CHARTER, prior)
    assert (CHARTER.prior_digest, later.prior_digest) == ("", prior.digest)
    assert later.structure == Epoch(prior).structure
    assert CHARTER.structure == CHARTER.model.structure
    assert later.with_words_of({}).epoch is None
    assert CHARTER.with_words_of({}) is CHARTER
    counting = replace(later, epoch=Epoch(prior, {"agent 0": ("s", "t")}))
    assert counting.counted == {"agent 0": {"s", "t"}}
    with pytest.raises(InvalidCharter, match="a non-member"):
        replace(later, epoch=Epoch(prior, {"nobody": ("s",)}))
    with pytest.raises(InvalidCharter, match="posterior of another model"):
        replace(CHARTER, epoch=Epoch(ANCHOR))


def test_how_many_observations_a_record_needs():
    assert CHARTER.least_observations == 1
    assert replace(CHARTER, rules=Rules(least_observations=7)).least_observations == 7
    guarded = replace(CHARTER, disclosure=db.disclosure.Rules(least_observations=30))
    assert guarded.least_observations == 30
    with pytest.raises(InvalidCharter, match="least_observations is one of them"):
        replace(guarded, rules=Rules(least_observations=2))


def test_fingerprints_and_keys_as_people_write_them():
    assert abbreviated("0123456789abcdef" * 4) == "0123-4567-89ab-cdef-0123"
    assert CHARTER.short_fingerprint == abbreviated(CHARTER.fingerprint)
    assert from_hex("ab" * 32, 32, "The group's secret") == b"\xab" * 32
    for wrong in ("ab" * 31, "ab" * 33, "zz"):
        with pytest.raises(InvalidCharter, match="not 64 hexadecimal digits"):
            from_hex(wrong, 32, "The group's secret")
        with pytest.raises(InvalidCharter, match="The key of 'x' is not 64 hexadecimal digits"):
            member_key("x", wrong)
    assert member_key("x", KEYS[0].public.hex()) == KEYS[0].public


# ---- votes that are wanted again


def test_an_agent_votes_again_for_what_it_wanted_under_its_key_and_for_nothing_else():
    agent = Agent(CHARTER, KEYS[0], rng=np.random.default_rng(0))
    mine, others = seated(CHARTER, KEYS[:1]), seated(CHARTER, KEYS[1:2])
    wanted = ballot_on(Remove("agent 2"), mine, CHARTER)
    not_mine = ballot_on(Rotate("agent 2", KEYS[4].public), others, CHARTER)
    stolen = ballot_on(Remove("agent 1"), {"agent 0": KEYS[3]}, CHARTER)
    epoch = ballot_on(Open((PriorPart("agent 0", ("s",), 1, 1),), (), bytes(32)), mine, CHARTER)
    agent.pool.decisions.lapsed = [wanted, not_mine, stolen, epoch]
    (persist,) = agent._vote_again()
    assert (persist.item.question, persist.item.votes.keys()) == (Remove("agent 2"), {"agent 0"})
    assert agent.pool.decisions.lapsed == []
    assert agent._vote_again() == []
    agent.pool.decisions.lapsed = [ballot_on(Remove("nobody"), mine, CHARTER), wanted]
    assert [each.item.question for each in agent._vote_again()] == [Remove("agent 2")], "what cannot be is left out"


# ---- when evidence is published


def publisher_of(charter=CHARTER, key=KEYS[0], approval=False):
    made = Publisher(charter, key, Pool(charter), np.random.default_rng(1), verify, approval=approval)
    made.synced = True
    return made


def evidence_of(charter, **shards):
    own = nothing(charter)
    for name, data in shards.items():
        own = learn(charter, own, {name: np.array(data, dtype=float)[:, None]}, None).evidence
    return own


def saved(publisher):
    """What it would have written; and written it is."""
    effects = publisher.publish()
    records = [each.item for each in effects if hasattr(each, "item")]
    for record in records:
        publisher.persisted(record)
    return records, [each.event for each in effects if hasattr(each, "event")]


def test_versions_rise_by_one_after_a_leap():
    made = publisher_of()
    assert saved(made) == ([], []), "there is nothing to say"
    made.synced = False
    made.learn(evidence_of(CHARTER, a=[1.0, 2.0]))
    assert saved(made) == ([], []), "nobody was heard yet"
    made.synced = True
    (first,), _ = saved(made)
    assert 1 <= first.version < LEAP == 2**32
    assert (first.header.observations, first.header.shards, first.header.previous) == (2, ("a",), bytes(32))
    assert saved(made) == ([], []), "it is published"
    made.learn(evidence_of(CHARTER, a=[1.0, 2.0], b=[3.0]))
    (second,), _ = saved(made)
    assert second.version == first.version + 1
    assert second.header.previous == first.digest
    made.retract()
    (last,), _ = saved(made)
    assert (last.header.closed, last.empty, last.version) == (True, True, first.version + 2)


def test_nothing_is_signed_while_a_version_is_being_written():
    made = publisher_of()
    made.learn(evidence_of(CHARTER, a=[1.0]))
    (persist,) = made.publish()
    assert made.publish() == []
    assert made.persisted(SimpleNamespace()) is None, "something else"
    assert made.waiting
    assert made.persisted(persist.item) is persist.item
    assert not made.waiting
    assert made.persisted(persist.item) is None, "once"


def test_a_few_observations_are_held_back_until_there_are_enough():
    charter = gaussian_charter(KEYS[:3], rules=Rules(least_observations=3))
    made = publisher_of(charter)
    made.learn(evidence_of(charter, a=[1.0, 2.0]))
    assert saved(made) == ([], ["held_back"])
    assert saved(made) == ([], []), "said once"
    made.learn(evidence_of(charter, a=[1.0, 2.0], b=[3.0]))
    assert len(saved(made)[0]) == 1
    made.learn(evidence_of(charter, a=[1.0, 2.0], b=[3.0], c=[4.0, 5.0]))
    assert saved(made) == ([], ["held_back"]), "a version that differs by two would show them"
    made.learn(evidence_of(charter, a=[1.0, 2.0], b=[3.0], c=[4.0, 5.0, 6.0]))
    assert len(saved(made)[0]) == 1


def test_who_has_no_seat_publishes_nothing():
    made = publisher_of(key=KEYS[4])
    made.learn(evidence_of(CHARTER, a=[1.0]))
    assert saved(made) == ([], ["not_published"])
    pool = Pool(CHARTER)
    assert standing_of(KEYS[0].id, pool) == ""
    assert "has no seat in the group yet" in standing_of(KEYS[4].id, pool)
    gone = ballot_on(Remove("agent 0"), seated(CHARTER, KEYS[1:3]), CHARTER)
    pool.vote(gone)
    assert "have removed 'agent 0'" in standing_of(KEYS[0].id, pool)
    pool = Pool(CHARTER)
    pool.vote(ballot_on(Rotate("agent 0", KEYS[4].public), seated(CHARTER, KEYS[1:3]), CHARTER))
    assert "have replaced this key: 'agent 0' has another one" in standing_of(KEYS[0].id, pool)
    assert standing_of(KEYS[4].id, pool) == ""


def test_versions_end_at_the_highest_number():
    made = publisher_of()
    made.learn(evidence_of(CHARTER, a=[1.0]))
    made._step, made._highest = 1, 2**63 - 2
    assert saved(made)[0][0].version == 2**63 - 1
    made.learn(evidence_of(CHARTER, a=[1.0], b=[2.0]))
    assert saved(made) == ([], ["not_published"])


def test_what_the_others_would_refuse_does_not_count_here():
    made = publisher_of(gaussian_charter(KEYS[:3], shards=1))
    made.learn(evidence_of(CHARTER, a=[1.0], b=[2.0]))
    assert saved(made) == ([], ["not_published"])
    assert saved(made) == ([], []), "it is not tried again"
    made.learn(evidence_of(CHARTER, a=[1.0]))
    assert len(saved(made)[0]) == 1


def test_new_evidence_waits_for_approval_and_old_does_not():
    charter = replace(
        CHARTER, disclosure=db.disclosure.Rules(least_cell=1, least_outcome=1, least_observations=1, approval=True)
    )
    made = publisher_of(charter, approval=True)
    own = evidence_of(charter, a=[1.0, 2.0])
    made.learn(own)
    assert made.awaiting is own
    assert saved(made) == ([], ["awaiting_approval"])
    made.approve(Approval("Kim"))
    assert made.awaiting is None
    (record,), _ = saved(made)
    assert record.statement.approval == Approval("Kim")
    made.learn(replace(made.published.evidence, approval=None))
    assert made.awaiting is None, "the same evidence was approved before"


def test_a_version_that_others_know_is_taken_up_and_leapt_over():
    made = publisher_of()
    own = evidence_of(CHARTER, a=[1.0, 2.0])
    known = sign_record(CHARTER, KEYS[0], 50, posterior=own.posterior, shards=own.shards, observations=2)
    made._pool.add(known)
    made.learn(evidence_of(CHARTER, b=[5.0]))
    (report,) = made.remind(known)
    assert (report.event, report.fields["version"], report.fields["observe_again"]) == ("remembered", 50, [])
    assert made.wanted.evidence.shards == {"a", "b"}
    assert not made.twin
    (record,), _ = saved(made)
    assert record.version > 51, "it leaps again"
    twin = sign_record(
        CHARTER,
        KEYS[0],
        record.version + 9,
        posterior=own.posterior,
        shards=own.shards,
        observations=2,
        previous=record.digest,
    )
    made._pool.add(twin)
    (report,) = made.remind(twin)
    assert (report.event, made.twin) == ("twin", True)
    assert made.remind(twin) == [], "said once"
    assert len(saved(made)[0]) == 1, "one last version tells the other"
    assert saved(made) == ([], [])
