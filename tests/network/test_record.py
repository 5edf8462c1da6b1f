"""Records: one encoding each, and nothing but genuine, harmless ones gets in."""

import hashlib

import msgspec
import numpy as np
import pytest
from groups import gaussian_charter, identities
from scipy.sparse import csr_array

from decbayes.base.tensors import write_arrays
from decbayes.errors import Refused
from decbayes.families import Dirichlet
from decbayes.network import REASONS, Agent, Charter, Identity, Limits, Rules, open_record, sign_record, verify
from decbayes.network.protocol.records.record import Envelope, Header, Record, SignedHeader, body_of
from decbayes.network.protocol.records.verification import check_domain
from decbayes.posterior import Posterior

MEMBERS = identities(3)
CHARTER = gaussian_charter(MEMBERS)


def record(
    charter=CHARTER, member=MEMBERS[0], version=5, data=(1.0, 2.0), shards=("a",), observations=2, posterior=None
):
    fitted = charter.model.fit(np.asarray(data), rng=None).posterior if posterior is None else posterior
    return sign_record(charter, member, version, posterior=fitted, shards=frozenset(shards), observations=observations)


def check(content, charter=CHARTER) -> Record:
    return verify(open_record(content, charter), charter)


def forged(base: Record, body: bytes | None = None, signer: Identity = MEMBERS[0], **changes) -> bytes:
    """A record whose header says something else, or whose body is another, properly signed all the same."""
    content = base.body if body is None else body
    header = msgspec.structs.replace(base.header, **{"body": hashlib.sha256(content).digest(), **changes})
    digest = hashlib.sha256(msgspec.msgpack.encode(header)).digest()
    return Record(SignedHeader(header, signer.sign(digest)), content, None).content


def body(matrix) -> bytes:
    return write_arrays({"contribution/mean/data": np.asarray(matrix, dtype="<f8")})


BASE = record()


def test_records_come_back_bit_for_bit():
    back = check(BASE.content)
    assert back == BASE
    assert back.content == BASE.content
    assert back.posterior.digest == BASE.posterior.digest
    assert (back.version, back.origin, back.header.shards) == (5, MEMBERS[0].id, ("a",))


def test_a_retraction_comes_back_empty():
    back = check(sign_record(CHARTER, MEMBERS[0], 6, posterior=None, shards=frozenset(), observations=0).content)
    assert back.empty
    assert back.posterior is None


@pytest.mark.parametrize(
    ("reason", "content"),
    [
        ("size", BASE.content + b"\0" * (64 << 20)),
        ("envelope", b""),
        ("envelope", BASE.content + b"\0"),
        ("envelope", BASE.content[:-1]),
        ("envelope", msgspec.msgpack.encode([BASE.signed.header_bytes, BASE.signed.signature, BASE.body, b"more"])),
        ("envelope", msgspec.msgpack.encode(Envelope(b"\x90", BASE.signed.signature, BASE.body))),
        ("envelope", forged(BASE, shards=("b", "a"))),
        ("envelope", forged(BASE, shards=("a", "a"))),
        ("envelope", forged(BASE, marks=(b"m" * 16, b"m" * 16))),
        ("group", forged(BASE, group="another")),
        ("group", forged(BASE, protocol=1)),
        ("fingerprint", forged(BASE, structure=b"\1" * 32)),
        ("epoch", forged(BASE, epoch=b"\1" * 32)),
        ("membership", record(member=Identity.generate()).content),
        ("version", forged(BASE, version=0)),
        ("version", forged(BASE, version=-3)),
        ("version", forged(BASE, version=1 << 63)),
        ("digest", Record(BASE.signed, body([[9.0, -9.0]]), None).content),
        ("signature", forged(BASE, signer=MEMBERS[1])),
        ("signature", forged(BASE, origin=MEMBERS[1].id)),
        ("shape", forged(BASE, body=b"")),
        ("shape", forged(BASE, body=b"no safetensors")),
        ("shape", forged(BASE, body=body([[1.0, -1.0, 0.0]]))),
        ("shape", forged(BASE, body=body([[1.0, -1.0], [1.0, -1.0]]))),
        ("shape", forged(BASE, body=body([1.0, -1.0]))),
        ("shape", forged(BASE, body=body([[-0.0, -1.0]]))),
        ("shape", forged(BASE, body=write_arrays({"contribution/mean/data": np.array([[1, -1]], dtype="<i4")}))),
        ("shape", forged(BASE, body=write_arrays({"contribution/mean/data": np.zeros((1, 2)), "more": np.zeros(1)}))),
        ("finiteness", forged(BASE, body=body([[np.nan, -1.0]]))),
        ("finiteness", forged(BASE, body=body([[np.inf, -1.0]]))),
        ("domain", forged(BASE, body=body([[0.0, 1.0]]))),
        ("domain", forged(BASE, body=body([[0.0, 0.001]]))),
        ("evidence", forged(BASE, body=body([[1e16, -1.0]]))),
        ("evidence", forged(BASE, observations=10**13)),
        ("evidence", forged(BASE, observations=-1)),
        ("evidence", forged(BASE, observations=0, units=0)),
        ("evidence", forged(BASE, units=3)),
        ("evidence", forged(BASE, marks=(b"m" * 16, b"n" * 16))),
        ("evidence", forged(BASE, shards=(), observations=2, units=2, body=b"")),
        ("evidence", forged(BASE, closed=True)),
        ("shape", forged(BASE, shards=(), observations=0, units=0)),
        ("consistency", forged(BASE, observations=1, units=1)),
        ("consistency", forged(BASE, body=body([[3e9, -1e9]]))),
        ("consistency", forged(BASE, body=body([[3.0, -1.1]]))),
    ],
)
def test_each_fault_is_refused_under_its_own_reason(reason, content):
    with pytest.raises(Refused) as refusal:
        check(content)
    assert refusal.value.reason == reason


def test_an_agent_counts_refusals_by_reason_and_takes_the_next_valid_record(rng):
    agent = Agent(CHARTER, MEMBERS[2], rng=rng)
    bad = {
        "size": BASE.content + b"\0" * (64 << 20),
        "envelope": b"\xc1",
        "group": forged(BASE, group="another"),
        "fingerprint": forged(BASE, structure=b"\1" * 32),
        "membership": record(member=Identity.generate()).content,
        "version": forged(BASE, version=0),
        "epoch": forged(BASE, epoch=b"\1" * 32),
        "digest": Record(BASE.signed, body([[9.0, -9.0]]), None).content,
        "signature": forged(BASE, signer=MEMBERS[1]),
        "evidence": forged(BASE, observations=10**13),
        "words": forged(
            BASE, body=write_arrays({"contribution/mean/data": np.ones((1, 2)), "words": np.ones(8, "<i4")})
        ),
        "shape": forged(BASE, body=b"x"),
        "finiteness": forged(BASE, body=body([[np.nan, -1.0]])),
        "domain": forged(BASE, body=body([[0.0, 0.001]])),
        "consistency": forged(BASE, observations=1, units=1),
    }
    assert tuple(bad) == tuple(reason for reason in REASONS if reason != "rules"), "this charter has none"
    for content in bad.values():
        agent.on_record("somebody", content)
    assert agent.refused == dict.fromkeys(bad, 1)
    assert not agent.pool.records
    agent.on_record("somebody", BASE.content)
    assert agent.pool.records == {MEMBERS[0].id: BASE}


def test_reasons_are_checked_in_their_order():
    """A record with two faults is refused for the one that is checked first, so strangers cost next to nothing."""
    stranger = Identity.generate()
    nan = body([[np.nan, -1.0]])
    faulty = [
        ("group", forged(BASE, group="another", structure=b"\1" * 32)),
        ("fingerprint", forged(BASE, structure=b"\1" * 32, origin=stranger.id)),
        ("membership", forged(BASE, origin=stranger.id, version=0)),
        ("version", forged(BASE, version=0, signer=stranger)),
        ("signature", forged(BASE, signer=stranger, body=nan)),
        ("evidence", forged(BASE, body=nan, observations=10**13)),
        ("finiteness", forged(BASE, body=nan, observations=1, units=1)),
        ("domain", forged(BASE, body=body([[0.0, 1.0]]), observations=1, units=1)),
    ]
    for reason, content in faulty:
        with pytest.raises(Refused) as refusal:
            check(content)
        assert refusal.value.reason == reason


def test_a_contribution_that_is_fine_alone_and_improper_fifty_times_is_refused():
    """α0 = 1 and a contribution of −0.5: a fine Dirichlet, yet the merge of three would be negative."""
    charter = Charter(
        group="weights",
        model_name="GaussianMixture",
        settings={"components": 2, "dimension": 1, "variance": 1.0, "weight_prior": 1.0},
        members={"one": MEMBERS[0].public},
        limits=Limits(members=50),
    )
    empty = Posterior.of_prior(charter.structure).contribution
    harmful = Posterior(charter.structure, {**empty, "weights": np.array([[-0.5], [3.0]])})
    harmless = Posterior(charter.structure, {**empty, "weights": np.array([[-0.01], [3.0]])})
    check_domain(harmless.contribution, charter)
    with pytest.raises(Refused, match="domain"):
        check(record(charter, posterior=harmful).content, charter)


def test_relabelling_onto_another_slots_prior_is_part_of_the_domain_check():
    """With unlike priors a row that is fine on its own slot may be improper on another, where a merge may put it."""
    from decbayes.structure import CoupledSet, Structure

    class Unlike:
        limits = Limits(members=4)
        structure = Structure(
            families={"topics": Dirichlet()},
            prior={"topics": Dirichlet().natural(alpha=[[0.1, 0.1], [5.0, 5.0]])},
            symmetry=(CoupledSet(("topics",)),),
        )

    check_domain({"topics": np.array([[1.0, 1.0], [0.0, 0.0]])}, Unlike)
    with pytest.raises(Refused, match="domain"):
        check_domain({"topics": np.array([[1.0, 1.0], [-1.0, 0.0]])}, Unlike)


def test_sparse_contributions_travel_sparse_and_non_canonical_ones_are_refused():
    from decbayes.network.protocol.records.verification import read_body
    from decbayes.structure import Structure

    class Topics:
        limits, rules, disclosure, words_added = Limits(members=4), Rules(), None, {}
        structure = Structure(
            families={"topics": Dirichlet()},
            prior={"topics": Dirichlet().natural(alpha=np.full((20, 5000), 0.01))},
            sparse=frozenset({"topics"}),
        )

    counts = csr_array(([3.0, 4.0], ([0, 7], [11, 4000])), shape=(20, 5000))
    content = body_of(Topics, Posterior(Topics.structure, {"topics": counts}).contribution)
    assert len(content) < 600, "two numbers, not a hundred thousand"
    assert read_body(content, Topics)[:3] == (Posterior(Topics.structure, {"topics": counts}), None, None)
    parts = {
        "data": np.array([3.0, 0.0]),
        "indices": np.array([1, 2], "<i4"),
        "indptr": np.r_[0, np.full(20, 2)].astype("<i4"),
    }
    explicit_zero = write_arrays({f"contribution/topics/{name}": part for name, part in parts.items()})
    with pytest.raises(Refused, match="canonical"):
        read_body(explicit_zero, Topics)
    parts["indices"] = np.array([1, 5000], "<i4")
    with pytest.raises(Refused, match="shape"):
        read_body(write_arrays({f"contribution/topics/{name}": part for name, part in parts.items()}), Topics)


def test_the_header_is_as_documented():
    assert Header.__struct_fields__ == (
        "protocol", "group", "structure", "epoch", "origin", "version", "previous", "shards", "marks", "observations",
        "units", "closed", "ids", "body",
    )  # fmt: skip
