"""What is voted on, and what is checked before it counts: ballots, priors of epochs, proposals, keys."""

import hashlib
from dataclasses import replace
from itertools import combinations
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest
from groups import ballot_on, gaussian_charter, identities, seated
from summing_groups import SEATS, summing_charter

import decbayes as db
from decbayes.errors import InvalidCharter, InvalidKey, Refused
from decbayes.network import Admit, Amend, Ballot, Extend, Identity, Limits, Proof, Remove, Rotate, Rules
from decbayes.network.protocol.group import keys as keys_module
from decbayes.network.protocol.group.ballots import check_opening, open_ballot
from decbayes.network.protocol.group.decisions import Decisions, votes_hash
from decbayes.network.protocol.group.keys import short, signed_by, write_new
from decbayes.network.protocol.group.motions import Motion, Open, PriorPart, Show, VoteHeader, motion_on, sign_vote
from decbayes.network.protocol.group.openings import (
    after_forgetting,
    check_proper,
    epoch_of,
    epoch_question,
    read_parts,
)
from decbayes.network.protocol.group.roster import Roster
from decbayes.network.runtime.proposals import limits_from, question_of, rules_from

MEMBERS = identities(9)
CHARTER = gaussian_charter(MEMBERS[:5])
SEATED = seated(CHARTER, MEMBERS[:5])
FOUNDED = Roster.founded(CHARTER)
D = [hashlib.sha256(bytes([number])).digest() for number in range(12)]


def some(count):
    return dict([*SEATED.items()][:count])


# ---- ballots


def test_decisions_are_asked_for_by_digest_and_name():
    decisions = Decisions(CHARTER)
    few, enough = (
        ballot_on(Remove("agent 3"), some(2), CHARTER),
        ballot_on(Remove("agent 4"), some(3), CHARTER, number=2),
    )
    assert decisions.add(few)
    assert not decisions.add(few), "no news"
    assert decisions.needed(few.motion) == 3
    assert decisions.ballot(few.digest) == few
    assert decisions.named(few.name) == few
    assert decisions.named("") is None
    assert decisions.named("zz") is None
    pending = decisions.entries()
    assert pending == [(few.digest, votes_hash(few))]
    assert [decisions.wants(entry) for entry in (pending[0], (few.digest, D[0]), (D[1], D[0]))] == [False, True, True]
    before = decisions.root
    copied = decisions.copy()
    assert copied == decisions
    assert copied != 3
    assert decisions.add(enough)
    assert decisions.root != before
    assert copied != decisions
    assert decisions.ballot(enough.digest).settled
    assert decisions.ballot(few.digest) is None
    assert decisions.lapsed == [few]
    assert decisions.copy().root == decisions.root
    settled = decisions.entries()[0]
    assert not decisions.wants(settled)
    assert decisions.wants((settled[0], D[0]))
    assert not decisions.add(enough)
    more = Ballot(enough.motion, {"agent 3": sign_vote(enough.motion, "agent 3", MEMBERS[3], 5)})
    assert decisions.add(more)
    assert decisions.settled[enough.digest].votes.keys() == {*some(4)}
    assert decisions.wants(settled)
    again = ballot_on(Remove("agent 4"), some(1), CHARTER, number=9)
    assert decisions.decided_since(again)
    assert not decisions.decided_since(ballot_on(Remove("agent 3"), some(1), CHARTER, number=9))
    assert not decisions.decided_since(ballot_on(Remove("agent 4"), some(1), CHARTER, [enough], number=9))
    assert not decisions.decided_since(ballot_on(Remove("agent 4"), some(1), CHARTER, [few], number=9))
    later = ballot_on(Remove("agent 3"), some(1), CHARTER, number=10)
    assert not decisions.add(later), "put under a version that is not the present one"
    assert not decisions.pending
    assert decisions.motion(Remove("agent 3")) == Motion(
        later.motion.protocol, CHARTER.id, (enough.digest,), Remove("agent 3")
    )
    proof = Proof(*(sign_vote(each.motion, "agent 0", MEMBERS[0], 7) for each in (few, enough)))
    assert decisions.exclude(proof)
    assert not decisions.exclude(proof)
    joined = Decisions(CHARTER)
    joined.union(decisions)
    assert joined == decisions
    assert joined.roster.sitting.keys() == {"agent 1", "agent 2", "agent 3"}


def test_what_has_fallen_is_not_decided():
    """A replaced key has completed a removal beside its replacement: whoever wants it decides anew."""
    decisions, seats = Decisions(CHARTER), {name: SEATED[name] for name in SEATED}
    rotated = ballot_on(
        Rotate("agent 1", MEMBERS[5].public),
        {n: seats[n] for n in ("agent 0", "agent 2", "agent 3")},
        CHARTER,
        number=20,
    )
    stolen = ballot_on(Remove("agent 4"), {n: seats[n] for n in ("agent 1", "agent 2", "agent 3")}, CHARTER, number=30)
    wanted = ballot_on(Remove("agent 4"), some(1), CHARTER, number=9)
    decisions.add(stolen)
    assert decisions.decided_since(wanted)
    decisions.add(rotated)
    assert decisions.fallen == {stolen.digest}
    assert not decisions.decided_since(wanted)


def test_the_lowest_of_two_votes_of_a_seat_is_kept():
    motion = motion_on(Remove("agent 3"), CHARTER.id, ())
    one, two = (Ballot(motion, {"agent 0": sign_vote(motion, "agent 0", MEMBERS[0], n)}) for n in (4, 2))
    for first, second in ((one, two), (two, one)):
        assert first.joined(second).votes["agent 0"].number == 2
    assert one.joined(Ballot(motion, {"agent 1": sign_vote(motion, "agent 1", MEMBERS[1], 1)})).votes.keys() == {
        *some(2)
    }


def test_of_pending_votes_for_epochs_each_voters_newest_counts():
    parts = [(PriorPart("agent 0", (f"s{n}",), n, n),) for n in (1, 2)]
    made = [
        ballot_on(Open(p, (), bytes(32)), some(count), CHARTER, number=n)
        for n, (p, count) in enumerate(zip(parts, (2, 1), strict=True), 1)
    ]
    for order in (made, made[::-1]):
        decisions = Decisions(CHARTER)
        for ballot in order:
            decisions.add(ballot)
        assert decisions.pending[made[0].digest].votes.keys() == {"agent 1"}
        assert decisions.pending[made[1].digest].votes.keys() == {"agent 0"}
        again = ballot_on(Remove("agent 3"), some(1), CHARTER, number=1)
        decisions.add(again)
        assert not decisions.proofs, "a vote that was dropped is no proof against anybody"


HASHES = [bytes(32), 1, bytes(32)]


def refused(content, decisions=None):
    with pytest.raises(Refused) as error:
        open_ballot(content, decisions or Decisions(CHARTER))
    return error.value.reason


def test_ballots_are_taken_in_their_canonical_bytes_alone():
    decisions = Decisions(CHARTER)
    fine = ballot_on(Remove("agent 3"), some(2), CHARTER)
    assert open_ballot(fine.content, decisions) == fine
    assert refused(b"no ballot") == "envelope"
    assert refused(fine.content + b"\0") == "envelope"
    swapped = msgspec.msgpack.decode(fine.content)
    swapped[2] = swapped[2][::-1]
    assert refused(msgspec.msgpack.encode(swapped)) == "envelope"
    for after in ((D[1], D[0]), (D[0], D[0])):
        after = after if after[0] == after[1] else tuple(sorted(after, reverse=True))
        motion = motion_on(Remove("agent 3"), CHARTER.id, after)
        assert refused(Ballot(motion, {"agent 0": sign_vote(motion, "agent 0", MEMBERS[0], 1)}).content) == "envelope"
    other = Motion(99, CHARTER.id, (), Remove("agent 3"))
    assert refused(Ballot(other, {"agent 0": sign_vote(other, "agent 0", MEMBERS[0], 1)}).content) == "group"
    size = len(fine.content)
    for limit, reason in ((size - 1, "size"), (size, None)):
        narrow = Decisions(gaussian_charter(MEMBERS[:5], record_bytes=limit))
        if reason:
            assert refused(fine.content, narrow) == reason
        else:
            assert open_ballot(fine.content, narrow) == fine
    decisions.add(ballot_on(Remove("agent 3"), some(4), CHARTER))
    assert refused(fine.content, decisions) == "replay"
    assert refused(ballot_on(Remove("agent 3"), some(4), CHARTER).content, decisions) == "replay"
    assert open_ballot(ballot_on(Remove("agent 3"), SEATED, CHARTER).content, decisions).votes.keys() == {*SEATED}


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"protocol": 99}, "envelope"), ({"group": "another"}, "envelope"), ({"motion": D[0]}, "envelope"),
        ({"number": 0}, "version"), ({"number": 2**63}, "version"), ({"number": 1}, None),
        ({"number": 2**63 - 1}, None),
    ],
)  # fmt: skip
def test_a_vote_is_for_this_motion_under_a_number(changed, reason):
    motion = motion_on(Remove("agent 3"), CHARTER.id, ())
    usual = sign_vote(motion, "agent 0", MEMBERS[0], 5)
    header = msgspec.structs.replace(usual.header, **changed)
    signature = MEMBERS[0].sign(hashlib.sha256(msgspec.msgpack.encode(header)).digest(), keys_module.VOTE)
    content = Ballot(motion, {"agent 0": type(usual)(header, signature)}).content
    if reason:
        assert refused(content) == reason
    else:
        assert open_ballot(content, Decisions(CHARTER)).votes["agent 0"].number == changed["number"]
    unsigned = Ballot(motion, {"agent 0": type(usual)(usual.header, bytes(64))}).content
    assert refused(unsigned) == "signature"


@pytest.mark.parametrize(
    "parts",
    [
        (), (("agent 1", "s", 1, 1), ("agent 0", "t", 1, 1)), (("agent 0", "s", 1, 1), ("agent 0", "t", 1, 1)),
        (("nobody", "s", 1, 1),), (("agent 0", "", 1, 1),), (("agent 0", "ts", 1, 1),), (("agent 0", "ss", 1, 1),),
        (("agent 0", "s", -1, 1),), (("agent 0", "s", 1, -1),),
    ],
)  # fmt: skip
def test_an_epoch_states_parts_of_seats_that_count_each_once(parts):
    question = Open(tuple(PriorPart(seat, tuple(shards), *counts) for seat, shards, *counts in parts), (), bytes(32))
    with pytest.raises(Refused, match="parts of the prior"):
        check_opening(question, FOUNDED)
    everybody = Open(tuple(PriorPart(seat, ("s", "t"), 0, 0) for seat in FOUNDED.sitting), (), bytes(32))
    check_opening(everybody, FOUNDED)


def test_an_epoch_forgets_no_shard_of_the_prior():
    before = FOUNDED.after(Open((PriorPart("agent 1", ("s", "t"), 3, 3),), (), bytes(32)), D[0], FOUNDED)
    for shards, fine in ((("s", "t"), True), (("r", "s", "t"), True), (("s",), False), (("r",), False)):
        question = Open((PriorPart("agent 1", shards, 3, 3),), (), bytes(32))
        if fine:
            check_opening(question, before)
        else:
            with pytest.raises(Refused, match="missing from the next one"):
                check_opening(question, before)
    with pytest.raises(Refused, match="missing from the next one"):
        check_opening(Open((PriorPart("agent 0", ("s",), 3, 3),), (), bytes(32)), before)


def test_questions_that_the_group_cannot_be_asked():
    sums = summing_charter(identities(SEATS))
    members = seated(sums, identities(SEATS)[:1])
    (first, second, *_) = sorted(sums.members)
    shown = Decisions(sums)
    for seats, fine in (
        ((first, second), True),
        (tuple(sorted(sums.members)), True),
        ((second, first), False),
        ((first, first), False),
        (("x",), False),
    ):
        content = ballot_on(Show(D[0], 1, seats), members, sums).content
        if fine:
            assert open_ballot(content, shown).question.seats == seats
        else:
            assert refused(content, shown) == "decision"
    assert refused(ballot_on(Show(D[0], 1, ("agent 1",)), some(1), CHARTER).content) == "decision"
    assert refused(ballot_on(Extend(("word",)), members, sums).content, shown) == "decision"
    rows, body = epoch_question(
        [PriorPart(first, ("s",), 1, 1)], {first: db.Posterior.of_prior(sums.model.structure)}, ()
    )
    assert refused(ballot_on(rows, members, sums, body=body).content, shown) == "decision"
    narrow = Amend(Rules(agreement=0.7), Limits(members=5))
    assert open_ballot(ballot_on(narrow, some(1), CHARTER).content, Decisions(CHARTER)).question == narrow


@pytest.mark.parametrize(
    ("kind", "short", "fine", "long"),
    [
        (Remove, [""], ["x"], ["x" * 257]),
        (Remove, [""], ["x" * 256], ["x" * 257]),
        (Admit, ["x", bytes(31)], ["x", bytes(32)], ["x", bytes(33)]),
        (Rotate, ["x", bytes(31)], ["x", bytes(32)], ["x", bytes(33)]),
        (Extend, [[""]], [["x" * 256]], [["x" * 257]]),
        (PriorPart, ["x", [""], 1, 1], ["x", ["s" * 64], 1, 1], ["x", ["s" * 65], 1, 1]),
        (Open, [[], [], bytes(31)], [[], ["i" * 16], bytes(32)], [[], ["i" * 17], bytes(32)]),
        (Open, [[], [], bytes(31)], [[], [""], bytes(32)], [[], [], bytes(33)]),
        (Show, [bytes(32), 1, []], [bytes(32), 1, ["x"] * 4096], [bytes(32), 1, ["x"] * 4097]),
        (VoteHeader, [3, "", "", *HASHES], [3, "g" * 64, "s", *HASHES], [3, "g" * 65, "s", *HASHES]),
    ],
)  # fmt: skip
def test_what_is_decided_has_a_size(kind, short, fine, long):
    tag = kind.__struct_config__.tag
    head = [] if tag is None else [tag]
    assert isinstance(msgspec.convert([*head, *fine], kind, strict=True), kind)
    for wrong in (short, long):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert([*head, *wrong], kind, strict=True)


def test_a_motion_comes_after_no_more_than_somebody_could_have_settled():
    for count, fine in ((4096, True), (4097, False)):
        plain = [3, "g" * 64, [bytes(32)] * count, ["remove", "x"]]
        if fine:
            assert len(msgspec.convert(plain, Motion).after) == count
        else:
            with pytest.raises(msgspec.ValidationError):
                msgspec.convert(plain, Motion)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert([3, "g" * 65, [], ["remove", "x"]], Motion)


# ---- the prior of an epoch

MODEL = CHARTER.model
PARTS = {f"agent {n}": MODEL.fit(np.full(n + 1, float(n))).posterior for n in range(3)}
ROWS = [PriorPart(seat, (f"shard {seat}",), n + 1, 2 * n + 2) for n, seat in enumerate(PARTS)]


def test_an_opening_is_its_parts_in_the_order_of_seats():
    question, body = epoch_question(ROWS[::-1], PARTS, ("a",))
    assert question == Open(tuple(ROWS), ("a",), hashlib.sha256(body).digest())
    again = read_parts(question, body, MODEL.structure)
    assert [*again] == [*PARTS]
    assert again == PARTS
    with pytest.raises(Refused, match="not the one that was voted on"):
        read_parts(question, body + b" ", MODEL.structure)


def body_with(arrays):
    from decbayes.base.tensors import write_arrays

    body = write_arrays(arrays)
    return Open(tuple(ROWS[:1]), (), hashlib.sha256(body).digest()), body


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        ({"0/contribution/mean/data": np.array([[1.0, -0.5]])}, None),
        ({"0/contribution/mean/data": np.array([[1.0, -0.5]], dtype=np.float32)}, "shape"),
        ({"0/contribution/mean/data": np.array([[1.0, -0.5, 0.0]])}, "shape"),
        ({"0/contribution/mean/data": np.array([[np.nan, -0.5]])}, "shape"),
        ({"0/contribution/mean/data": np.array([[np.inf, -0.5]])}, "shape"),
        ({"1/contribution/mean/data": np.array([[1.0, -0.5]])}, "shape"),
        ({}, "shape"),
        (
            {"0/contribution/mean/data": np.array([[1.0, -0.5]]), "1/contribution/mean/data": np.array([[1.0, -0.5]])},
            "shape",
        ),
        ({"0/contribution/mean/data": np.array([[1.0, 9.0]])}, "shape"),
    ],
)
def test_bodies_hold_finite_parts_of_the_agreed_shape(arrays, reason):
    question, body = body_with(arrays)
    if reason is None:
        (part,) = read_parts(question, body, MODEL.structure).values()
        assert part.contribution["mean"].tolist() == [[1.0, -0.5]]
    else:
        with pytest.raises(Refused) as error:
            read_parts(question, body, MODEL.structure)
        assert error.value.reason == reason


def test_parts_are_proper_whoever_is_removed_later():
    """λ0 has a precision of 1/4, as −1/8: a part may take away half of it beside none like it, and not beside two."""
    prior = MODEL.structure.prior["mean"]
    half = db.Posterior(MODEL.structure, {"mean": np.array([[0.0, -0.5 * prior[0, 1]]])})
    fine = PARTS["agent 2"]
    check_proper([half], MODEL.structure)
    check_proper([fine, fine, fine], MODEL.structure)
    for parts in ([half, fine], [fine, half, fine]):
        with pytest.raises(Refused, match="beside others like it"):
            check_proper(parts, MODEL.structure)


def test_the_prior_in_force_is_of_the_seats_that_count():
    question, _ = epoch_question(ROWS, PARTS, ())
    epoch = epoch_of(question, PARTS, ["agent 0", "agent 2", "agent 9"], MODEL.structure)
    expected = PARTS["agent 0"].contribution["mean"] + PARTS["agent 2"].contribution["mean"]
    np.testing.assert_allclose(epoch.prior.contribution["mean"], expected)
    assert epoch.counted == {"agent 0": ("shard agent 0",), "agent 2": ("shard agent 2",)}
    assert epoch.observations == 1 + 3
    nobody = epoch_of(question, PARTS, [], MODEL.structure)
    assert nobody.prior == db.Posterior.of_prior(MODEL.structure)


@pytest.mark.parametrize(("forgetting", "left"), [(None, 1.0), (0.0, 1.0), (0.25, 0.75)])
def test_forgetting_scales_all_parts_alike(forgetting, left):
    earlier = {seat: PARTS[seat] for seat in ("agent 0", "agent 1")}
    added = {seat: PARTS[seat] for seat in ("agent 1", "agent 2")}
    found = after_forgetting(CHARTER, earlier, added, forgetting)
    assert [*found] == ["agent 0", "agent 1", "agent 2"]
    for seat, part in found.items():
        expected = sum(left * parts[seat].contribution["mean"] for parts in (earlier, added) if seat in parts)
        np.testing.assert_allclose(part.contribution["mean"], expected)


def test_what_cannot_be_forgotten_is_said():
    with pytest.raises(InvalidCharter, match="leave --forgetting out"):
        after_forgetting(CHARTER, {}, PARTS, "learn")
    with pytest.raises(InvalidCharter):
        after_forgetting(CHARTER, PARTS, PARTS, 1.5)
    # Much that is new and unlike what was: hardly anything of that is kept, and all of what is new.
    far = {"agent 0": MODEL.fit(np.full(400, 60.0)).posterior}
    found = after_forgetting(CHARTER, PARTS, far, "learn")
    np.testing.assert_allclose(found["agent 0"].contribution["mean"], far["agent 0"].contribution["mean"], rtol=0.01)
    kept = found["agent 2"].contribution["mean"] / PARTS["agent 2"].contribution["mean"]
    assert (kept < 0.5).all()
    only_old = after_forgetting(CHARTER, PARTS, {}, "learn")
    np.testing.assert_allclose(
        only_old["agent 2"].contribution["mean"], PARTS["agent 2"].contribution["mean"], rtol=0.5
    )


# ---- questions from what people write


def proposed(kind, name="", key="", rules=None, limits=None, words=()):
    return SimpleNamespace(kind=kind, name=name, key=key, rules=rules or {}, limits=limits or {}, words=words)


def test_questions_are_what_people_write():
    key = MEMBERS[5].public
    assert question_of(proposed("add", "new", key.hex()), CHARTER) == Admit("new", key)
    assert question_of(proposed("remove", "agent 1"), CHARTER) == Remove("agent 1")
    assert question_of(proposed("rotate", "agent 1", key.hex()), CHARTER) == Rotate("agent 1", key)
    for wrong, why in (
        (proposed("add", "agent 1", key.hex()), "There is a member named 'agent 1' already"),
        (proposed("remove", "x"), "There is no member 'x'; the members are agent 0, agent 1"),
        (proposed("rotate", "x", key.hex()), "There is no member 'x'"),
        (proposed("dance"), "'dance' cannot be proposed"),
    ):
        with pytest.raises(InvalidCharter, match=why):
            question_of(wrong, CHARTER)


def test_rules_are_changed_by_name_and_the_others_stay():
    charter = replace(CHARTER, rules=Rules(agreement=0.6, robust=True), limits=Limits(members=50, shards=7))
    asked = proposed("rules", rules={"agreement": 0.7}, limits={"shards": 8})
    assert question_of(asked, charter) == Amend(Rules(agreement=0.7, robust=True), Limits(members=50, shards=8), "")
    guarded = replace(charter, disclosure=db.disclosure.Rules(most_levels=30))
    asked = proposed("rules", rules={"agreement": 0.7, "least_cell": 12})
    found = question_of(asked, guarded)
    assert found.rules == Rules(agreement=0.7, robust=True)
    assert msgspec.json.decode(found.disclosure) == db.disclosure.Rules(most_levels=30, least_cell=12).plain()
    for wrong, where in (
        (proposed("rules", rules={"least_cell": -1}), guarded), (proposed("rules", rules={"x": 1}), guarded),
        (proposed("rules", rules={"least_cell": 12}), charter), (proposed("rules", limits={"x": 1}), charter),
    ):  # fmt: skip
        with pytest.raises(InvalidCharter, match=r"^(rules|limits): "):
            question_of(wrong, where)
    assert rules_from({"share": 0.5}) == Rules(share=0.5)
    assert limits_from({"value": 2.0}) == Limits(value=2.0)


# ---- keys


def test_a_key_is_written_once_for_its_owner(tmp_path):
    one = Identity.from_seed(bytes(range(32)))
    assert one.secret == keys_module.keyed(bytes(range(32)), b"decbayes site secret")
    one.save(tmp_path / "a.key")
    assert (tmp_path / "a.key").stat().st_mode & 0o777 == 0o600
    again = Identity.load(tmp_path / "a.key")
    assert (again.public, again.secret, again.id) == (one.public, one.secret, hashlib.sha256(one.public).digest())
    later = Identity.generate(after=one)
    assert later.secret == one.secret
    assert later.public != one.public
    assert Identity.generate().secret != one.secret
    later.save(tmp_path / "b.key")
    assert Identity.load(tmp_path / "b.key").secret == one.secret
    with pytest.raises(FileExistsError):
        one.save(tmp_path / "a.key")
    (tmp_path / "c.key").write_bytes(b"no key")
    with pytest.raises(InvalidKey, match="not a private key"):
        Identity.load(tmp_path / "c.key")
    write_new(tmp_path / "public", b"x")
    assert (tmp_path / "public").stat().st_mode & 0o044 == 0o044
    assert short(D[0]) == D[0].hex()[:8]


def test_a_signature_is_for_one_purpose():
    one, digest = MEMBERS[0], D[0]
    signature = one.sign(digest)
    assert signed_by(one.public, digest, signature)
    assert not signed_by(one.public, digest, signature, keys_module.VOTE)
    assert signed_by(one.public, digest, one.sign(digest, keys_module.VOTE), keys_module.VOTE)
    assert not signed_by(one.public, D[1], signature)
    assert not signed_by(MEMBERS[1].public, digest, signature)
    for wrong in (b"", signature[:-1], signature + b"\0"):
        assert not signed_by(one.public, digest, wrong)
    assert len({*combinations((keys_module.PURPOSE, keys_module.LINK, keys_module.VOTE), 2)}) == 3
