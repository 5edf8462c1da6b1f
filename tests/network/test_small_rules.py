"""Small rules of the protocol that histories seldom test by themselves."""

import numpy as np
import pytest
from groups import gaussian_charter, identities

from decbayes.errors import Refused
from decbayes.network import open_record, sign_record
from decbayes.network.protocol.gossip import lacks
from decbayes.network.protocol.pool import Pool, Proof
from decbayes.network.protocol.validation import check_proof

MEMBERS = identities(2)
CHARTER = gaussian_charter(MEMBERS)
OURS = b"us" * 16, 5, b"a" * 32


def record(version, value=1.0):
    posterior = CHARTER.model.fit(np.array([value]), rng=None).posterior
    return sign_record(CHARTER, MEMBERS[0], version, posterior=posterior, shards=frozenset("a"), observations=1)


@pytest.mark.parametrize(
    ("theirs", "lacking"),
    [
        (None, True),
        ((4, b"a" * 32), True),
        ((5, b"a" * 32), False),
        ((5, b"b" * 32), True),  # the other half of a contradiction
        ((6, b"b" * 32), False),
    ],
)
def test_a_neighbour_lacks_what_is_newer_and_what_contradicts_its_own(theirs, lacking):
    assert lacks(theirs, OURS) == lacking


def test_a_longer_way_to_write_the_same_record_is_refused():
    content = record(5).content
    assert content[0] == 0x93, "an array of three, in one byte"
    with pytest.raises(Refused) as refusal:
        open_record(b"\xdc\x00\x03" + content[1:], CHARTER)
    assert refusal.value.reason == "envelope"


def test_only_two_headers_that_differ_prove_anything():
    first, second, later = record(5).signed, record(5, 2.0).signed, record(6).signed
    check_proof(Proof(first, second), CHARTER)
    for other in (first, later):
        with pytest.raises(Refused, match="do not contradict"):
            check_proof(Proof(first, other), CHARTER)
    assert Proof(first, second).digest == Proof(second, first).digest


def test_pools_with_other_versions_have_other_hashes():
    pools = [Pool(CHARTER) for _ in range(3)]
    for pool, held in zip(pools, (record(5), record(6), record(5, 2.0)), strict=True):
        pool.add(held)
    assert len({pool.root for pool in pools}) == 3
