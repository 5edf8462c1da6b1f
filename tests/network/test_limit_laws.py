"""What members may ask of each other, and what is checked before a record or a message of a sum is used."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest
from groups import gaussian_charter, identities
from masked_sums import NAMES, Sum, terms_of
from secure_sites import agreed
from test_small_rules import record

import decbayes as db
from decbayes.errors import InvalidFile, Refused
from decbayes.network import Limits, Rules, open_record, sign_record, verify
from decbayes.network.protocol.group.motions import Remove, motion_on, sign_vote
from decbayes.network.protocol.limits import PrivacyRules, SumRules
from decbayes.network.protocol.records.accounts import accounts
from decbayes.network.protocol.records.notes import check_magnitudes
from decbayes.network.protocol.records.pool import Change, Pool
from decbayes.network.protocol.records.record import HIGHEST_VERSION, Envelope, Header, rises
from decbayes.network.protocol.records.statements import Approval, Statement, check_statement, statement_from
from decbayes.network.protocol.records.verification import check_evidence, open_signed
from decbayes.network.protocol.sums.chains import Chain, SumHeader, better, signed_message
from decbayes.secure import Message
from decbayes.secure.gathered import Gathered

MEMBERS = identities(3)
CHARTER = gaussian_charter(MEMBERS[:2])
H = [bytes([number]) * 32 for number in range(12)]


def refused(action, *arguments):
    with pytest.raises(Refused) as error:
        action(*arguments)
    return error.value.reason


# ---- limits


def test_limits_are_positive_and_what_the_documentation_says():
    usual = Limits()
    assert {name: getattr(usual, name) for name in usual.__struct_fields__} == {
        "members": 1000, "record_bytes": 64 * 2**20, "observations": 10**12, "units": 10**6, "value": None,
        "magnitude": 1e15, "shards": 10_000, "refinements": 20, "versions": 20, "tick_bytes": 64 * 2**20,
        "tick_messages": 200,
    }  # fmt: skip
    for name in usual.__struct_fields__:
        for low in (0, -1):
            with pytest.raises(ValueError, match=f"limits must be positive: {name}$"):
                Limits(**{name: low})
        assert getattr(Limits(**{name: 1}), name) == 1


@pytest.mark.parametrize(
    ("kind", "name", "least", "most", "below", "above"),
    [
        (Rules, "agreement", 0.5, 0.999, 0.49, 1.0), (Rules, "least_observations", 1, 10**6, 0, None),
        (Rules, "share", 1e-9, 1.0, 0.0, 1.01), (Rules, "compare", 10, 10**6, 9, None),
        (Rules, "components", 1, 10**6, 0, None),
        (Rules, "validation", 0.0, 0.5, -0.1, 0.51), (SumRules, "rounds", 1, 1000, 0, 1001),
        (SumRules, "colluders", 1, 99, 0, None), (SumRules, "most_rows", 1.0, 1e9, 0.9, 1.1e9),
        (PrivacyRules, "epsilon", 1e-9, 100.0, 0.0, 100.1), (PrivacyRules, "delta", 1e-12, 0.999, 0.0, 1.0),
        (PrivacyRules, "rows_per_person", 1, 10**6, 0, None),
    ],
)  # fmt: skip
def test_rules_have_ranges(kind, name, least, most, below, above):
    rest = {"epsilon": 1.0, "delta": 1e-6} if kind is PrivacyRules else {}
    for fine in (least, most):
        assert getattr(msgspec.convert(rest | {name: fine}, kind), name) == fine
    for wrong in (below, above):
        if wrong is not None:
            with pytest.raises(msgspec.ValidationError):
                msgspec.convert(rest | {name: wrong}, kind)


def test_usual_rules():
    rules = Rules()
    assert (rules.agreement, rules.least_observations, rules.share, rules.compare) == (0.5, 1, 1.0, 100)
    assert (rules.robust, rules.components, rules.validation, rules.intervals) == (False, "model", 0.0, False)
    assert [each.notes for each in (rules, Rules(intervals=True), Rules(validation=0.1))] == [False, True, True]
    assert (SumRules().rounds, SumRules().colluders, SumRules().most_rows) == (3, 1, 1e6)
    private = PrivacyRules(epsilon=1.0, delta=1e-6)
    assert (private.rows_per_person, private.noise) == (1, "shared")


# ---- records


def header(**changed):
    fields = msgspec.structs.asdict(record(5).header)
    return msgspec.structs.replace(record(5).header, **changed) if changed else Header(**fields)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"observations": 0}, "evidence"), ({"observations": 101, "units": 101}, "evidence"),
        ({"units": 0}, "evidence"),
        ({"observations": 100, "units": 100}, None), ({"units": 2}, "evidence"), ({"closed": True}, "evidence"),
        ({"marks": (bytes(16), b"1" * 16)}, "evidence"), ({"shards": ("a", "b", "c")}, "evidence"),
        ({"shards": ("a", "b"), "marks": (bytes(16), b"1" * 16)}, None), ({"shards": ()}, "evidence"),
        ({"shards": (), "observations": 0, "units": 0}, None),
        ({"shards": (), "observations": 0, "units": 0, "closed": True}, None),
        ({"shards": (), "observations": 0, "units": 0, "marks": (bytes(16),)}, "evidence"),
    ],
)  # fmt: skip
def test_a_header_claims_what_the_charter_allows(changed, reason):
    charter = gaussian_charter(MEMBERS[:2], shards=2, observations=100)
    if reason is None:
        check_evidence(header(**changed), "agent 0", charter)
    else:
        assert refused(check_evidence, header(**changed), "agent 0", charter) == reason
    few = gaussian_charter(MEMBERS[:2], rules=Rules(least_observations=5))
    assert refused(check_evidence, header(observations=4, units=4), "agent 0", few) == "evidence"
    check_evidence(header(observations=5, units=5), "agent 0", few)


def test_versions_have_numbers_and_headers_one_way_to_write_them():
    assert HIGHEST_VERSION == 2**63 - 1
    for version, fine in ((1, True), (2**63 - 1, True), (0, False), (2**63, False)):
        content = record(version).content
        if fine:
            assert open_record(content, CHARTER).signed.version == version
        else:
            assert refused(open_record, content, CHARTER) == "version"
    assert [rises(part) for part in ((), ("a",), ("a", "b"), ("b", "a"), ("a", "a"))] == [
        True,
        True,
        True,
        False,
        False,
    ]
    assert [header(shards=part).canonical for part in (("a",), ("b", "a"), ("a\n",))] == [True, False, False]
    assert not header(marks=(b"2" * 16, b"1" * 16)).canonical
    size = len(record(5).content)
    assert refused(open_record, record(5).content, gaussian_charter(MEMBERS[:2], record_bytes=size - 1)) == "size"
    assert open_record(record(5).content, gaussian_charter(MEMBERS[:2], record_bytes=size))


@pytest.mark.parametrize(
    ("name", "fine", "wrong"),
    [
        ("group", "g" * 64, ["g" * 65]), ("structure", H[0], [bytes(31), bytes(33)]),
        ("epoch", H[0], [bytes(31), bytes(33)]),
        ("shards", ["s" * 64], [[""], ["s" * 65]]), ("marks", [bytes(16)], [[bytes(15)], [bytes(17)]]),
        ("ids", ["i" * 16], [["i" * 17]]), ("body", H[0], [b"", bytes(64)]),
    ],
)  # fmt: skip
def test_parts_of_a_header_have_sizes(name, fine, wrong):
    plain = msgspec.to_builtins(record(5).header, builtin_types=(bytes,))
    place = Header.__struct_fields__.index(name)
    assert msgspec.convert([*plain[:place], fine, *plain[place + 1 :]], Header)
    for each in wrong:
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert([*plain[:place], each, *plain[place + 1 :]], Header)


def test_an_envelope_has_a_short_header_and_one_signature():
    for header, signature, fine in (
        (bytes(1 << 20), bytes(64), True), (bytes((1 << 20) + 1), bytes(64), False),
        (b"", bytes(63), False), (b"", bytes(65), False),
    ):  # fmt: skip
        if fine:
            assert len(msgspec.convert([header, signature, b""], Envelope).header) == 1 << 20
        else:
            with pytest.raises(msgspec.ValidationError):
                msgspec.convert([header, signature, b""], Envelope)


def test_halves_of_proofs_are_of_this_group():
    roster = Pool(CHARTER).roster
    motion = motion_on(Remove("agent 1"), CHARTER.id, ())
    vote = sign_vote(motion, "agent 0", MEMBERS[0], 4)
    assert open_signed(vote.header_bytes, vote.signature, CHARTER, roster) == vote
    assert open_signed(record(5).signed.header_bytes, record(5).signed.signature, CHARTER, roster) == record(5).signed
    strange = sign_vote(motion, "agent 0", MEMBERS[2], 4)
    assert refused(open_signed, strange.header_bytes, strange.signature, CHARTER, roster) == "membership"
    for changed in ({"group": "x"}, {"protocol": 99}):
        content = msgspec.msgpack.encode(msgspec.structs.replace(vote.header, **changed))
        assert refused(open_signed, content, vote.signature, CHARTER, roster) == "envelope"
    assert refused(open_signed, b"junk", bytes(64), CHARTER, roster) == "envelope"


def test_a_value_beyond_the_limit_is_refused():
    charter = gaussian_charter(MEMBERS[:2], value=3)
    for value, fine in ((2.9, True), (3.1, False)):
        posterior = charter.model.fit(np.full(4, value)).posterior
        made = sign_record(charter, MEMBERS[0], 1, posterior=posterior, shards=frozenset("a"), observations=4)
        sealed = open_record(made.content, charter)
        if fine:
            assert verify(sealed, charter) == made
        else:
            assert refused(verify, sealed, charter) == "consistency"
    far = gaussian_charter(MEMBERS[:2], magnitude=10)
    posterior = far.model.fit(np.full(4, 3.0)).posterior
    made = sign_record(far, MEMBERS[0], 1, posterior=posterior, shards=frozenset("a"), observations=4)
    assert refused(verify, open_record(made.content, far), far) == "evidence"


def test_a_pool_knows_what_is_old_and_takes_what_is_newer():
    pool = Pool(CHARTER)
    assert (pool.version(MEMBERS[0].id), pool.knows(*record(5).signed.entry)) == (0, False)
    assert pool.add(record(5)) is Change.NEWER
    assert pool.add(record(4)) is Change.STALE
    assert pool.add(record(6)) is Change.NEWER
    assert pool.version(MEMBERS[0].id) == 6
    for entry, known in (
        (record(5).signed.entry, True), (record(6).signed.entry, True), (record(6, 2.0).signed.entry, False),
        (record(7).signed.entry, False),
    ):  # fmt: skip
        assert pool.knows(*entry) == known
    assert pool.superseded(H[0])
    assert not pool.superseded(MEMBERS[1].id)
    assert pool.add(record(6, 2.0)) is Change.EQUIVOCATION
    assert pool.add(record(9)) is Change.EXCLUDED
    assert pool.knows(*record(9).signed.entry)
    assert (pool.version(MEMBERS[0].id), pool.excluded()) == (0, [MEMBERS[0].id])
    now = pool.as_of_now()
    assert now == pool
    assert now.root == pool.root
    assert now != 3


def test_accounts_count_each_seat_once():
    pool = Pool(CHARTER)
    pool.add(record(5))
    found = accounts(pool)
    assert (found.prior, found.records, found.wrong, found.observations) == ({}, {"agent 0": 1}, (), 1)


def test_accounts_name_what_is_counted_twice(monkeypatch):
    pool = Pool(CHARTER)
    pool.add(record(5))
    (held,) = pool.counted()
    monkeypatch.setattr(pool, "counted", lambda: iter([held, held]))
    assert accounts(pool).wrong == ("agent 0 counts twice",)
    stranger = sign_record(CHARTER, MEMBERS[2], 1, posterior=held.posterior, shards=frozenset("a"), observations=1)
    monkeypatch.setattr(pool, "counted", lambda: iter([stranger]))
    assert accounts(pool).wrong == ("somebody counts and has no seat",)


def test_empty_parts_of_a_note_are_within_any_limit():
    check_magnitudes({"step": np.zeros(0), "at": np.full(8, 99)}, 0.5)
    with pytest.raises(InvalidFile, match="magnitude"):
        check_magnitudes({"step": np.array([0.6])}, 0.5)


def test_statements_come_back_and_are_short():
    rules = db.disclosure.Rules()
    for approval in (None, Approval("Kim", "why", "2026-01-31"), Approval("Kim")):
        assert statement_from(Statement(rules, approval).arrays()) == Statement(rules, approval)
    assert statement_from({}) is None
    for fine in (Approval("K" * 100, "r" * 1000, "d" * 100),):
        assert fine.proper
    for wrong in (
        Approval(""),
        Approval(" "),
        Approval("K" * 101),
        Approval("K", "r" * 1001),
        Approval("K", "", "d" * 101),
        Approval("a\nb"),
        Approval("K", "a\nb"),
        Approval("K", "", "\n"),
    ):
        assert not wrong.proper
    ((name, array),) = Statement(rules).arrays().items()
    for bad in (array[None], array.astype("<i8"), np.zeros(2049, dtype="<i4"), np.array([1], dtype="<i4")):
        with pytest.raises(InvalidFile, match="statement on disclosure"):
            statement_from({name: bad})
    padded = np.frombuffer(array.tobytes().ljust(8192), dtype="<i4")
    assert statement_from({name: padded}) == Statement(rules)
    with pytest.raises(InvalidFile, match="cannot be printed"):
        statement_from(Statement(rules, Approval("a\nb")).arrays())


def test_evidence_obeys_the_charters_rules_or_stricter_ones():
    charter = replace(CHARTER, disclosure=db.disclosure.Rules(approval=True))
    rules, kim = db.disclosure.Rules(), Approval("Kim")
    check_statement(Statement(rules, kim), charter)
    check_statement(None, CHARTER)
    for wrong in (None, Statement(rules), Statement(db.disclosure.Rules(least_cell=4), kim)):
        assert refused(check_statement, wrong, charter) == "rules"
    check_statement(Statement(db.disclosure.Rules(least_cell=6), kim), charter)


# ---- sums


def test_of_two_messages_the_one_that_others_have_opened_stays():
    """Else that of the lower digest, whichever came first."""
    made = Sum(terms_of(), {name: [1] * 6 for name in NAMES}).begin().mask()
    packets = {packet.seat: packet for packet in made.sent("masked")}
    east = packets["east"]
    other = msgspec.structs.replace(east, body=bytes(48))
    gathered = Gathered(made.terms, {"key": {}, "masked": dict(packets), "opening": {}})
    for one, two in ((east, other), (other, east)):
        assert better(gathered, one, two) == (one.digest < two.digest)
    assert better(gathered, east, east)
    made.open("north")
    gathered.messages["opening"] = {part.seat: part for part in made.sent("opening")}
    assert better(gathered, east, other)
    assert not better(gathered, other, east)
    made.open("east")
    part = made.seats["east"].sent["opening"]
    false = Message("opening", part.terms, "east", bytes(128), part.about)
    assert better(gathered, part, false)
    assert not better(gathered, false, part)
    alone = Gathered(made.terms, {"key": {}, "masked": dict(packets), "opening": {"east": part}})
    for one, two in ((east, other), (other, east)):
        assert better(alone, one, two) == (one.digest < two.digest), "its own opening proves nothing"


def test_signed_messages_of_sums_are_of_a_seat():
    roster = Pool(CHARTER).roster
    message = Message("key", H[0], "agent 0", b"body").signed(MEMBERS[0].private.sign)
    found = signed_message(message.header_bytes, message.signature, roster)
    assert (found.origin, found.header.seat, found.digest) == (MEMBERS[0].id, "agent 0", message.digest)
    assert found.only_once == ("sum", MEMBERS[0].id, H[0], "key")
    assert signed_message(b"junk", bytes(64), roster) is None
    assert refused(signed_message, message.header_bytes, bytes(64), roster) == "signature"
    stranger = Message("key", H[0], "nobody", b"body").signed(MEMBERS[0].private.sign)
    assert refused(signed_message, stranger.header_bytes, stranger.signature, roster) == "signature"
    fine = ["key", H[0], "s" * 256, H[1], bytes(32), bytes(32)]
    assert msgspec.convert(fine, SumHeader).seat == "s" * 256
    for place, wrong in ((1, bytes(31)), (2, "s" * 257), (3, bytes(33)), (4, bytes(33)), (5, bytes(33))):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert([*fine[:place], wrong, *fine[place + 1 :]], SumHeader)


def test_a_chain_of_sums_knows_its_members():
    chain = Chain(agreed(rounds=1), ())
    assert chain.keys == tuple(sorted(chain.agreement.members.values()))
    assert chain.name_of(chain.agreement.members["west"]) == "west"
    assert chain.name_of(b"") == ""
    assert (chain.begun, chain.inherited, len(chain.sums)) == (False, 0, 1)
    assert chain.current is chain.sums[0]
    assert chain.gathered(chain.sums[0].terms.digest) is chain.sums[0]
    assert chain.gathered(H[0]) is None
    assert chain.before is chain.agreement.anchor
