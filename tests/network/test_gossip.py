"""What a neighbour lacks."""

import pytest

from decbayes.network.protocol.gossip import lacks

OURS = b"us" * 16, 5, b"a" * 32


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
