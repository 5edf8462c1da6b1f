"""Which words a contribution counts: a record names the resolutions whose words its origin knew when it signed.

Earlier records count none of the words added later. A record with words that are not in force here is refused until
the charter changes.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from decbayes.errors import Refused
from decbayes.network.protocol.group.charter import Charter

WORDS, DIGEST = "words", 32


def words_array(charter: Charter) -> dict[str, np.ndarray[Any, Any]]:
    """The resolutions that added words, as a record names them; empty if there are none."""
    digests = b"".join(sorted(charter.words_added))
    return {WORDS: np.frombuffer(digests, dtype="<i4")} if digests else {}


def read_by(charter: Charter, arrays: Mapping[str, Any]) -> Charter:
    """The charter with the words that a record counts."""
    named = arrays.get(WORDS)
    if named is None:
        return charter.with_words_of({}) if charter.words_added else charter
    digests = named.tobytes()
    resolutions = {digests[first : first + DIGEST] for first in range(0, len(digests), DIGEST)}
    if not resolutions <= charter.words_added.keys():
        raise Refused("words", "it counts words that this group has not added, or that are not known here yet.")
    if resolutions == charter.words_added.keys():
        return charter
    return charter.with_words_of({digest: charter.words_added[digest] for digest in resolutions})
