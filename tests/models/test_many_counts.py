"""Many counts are looked through once, by all threads: with the same result, and the same errors, as few are."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from decbayes.errors import InvalidData
from decbayes.models.core import counts as module
from decbayes.models.core.counts import as_counts, times_of_words

WORDS = 6


def corpus(kind=np.int32, *, absent=False, **changed):
    """Documents with 3, 0, 2 and 1 words; word 5 does not occur if one is absent."""
    parts = {"data": [1, 2, 3, 4, 5, 6], "indices": [0, 2, 4 if absent else 5, 1, 3, 4], "indptr": [0, 3, 3, 5, 6]}
    data, indices, offsets = (np.array(changed.get(name, part)) for name, part in parts.items())
    return csr_array((data.astype(kind), indices.astype(np.int32), offsets.astype(np.int32)), shape=(4, WORDS))


@pytest.fixture
def looked_through(monkeypatch):
    monkeypatch.setattr(module, "MANY", 1)


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("absent", [False, True])
@pytest.mark.parametrize("threads", [1, 1 << 22])
def test_clean_counts_are_the_same_however_they_are_checked(monkeypatch, kind, absent, threads):
    monkeypatch.setattr(module, "MANY", threads)
    counts = corpus(kind, absent=absent)
    sparse, dense = as_counts(counts, WORDS), as_counts(counts.toarray(), WORDS)
    assert sparse.times is not None
    assert dense.times is None
    for name in ("data", "columns", "offsets", "words", "frequencies"):
        np.testing.assert_array_equal(getattr(sparse, name), getattr(dense, name))
        assert getattr(sparse, name).dtype == getattr(dense, name).dtype
    assert sparse.tokens == 21


def test_some_documents_count_only_their_own_words(looked_through):
    some = as_counts(corpus(), WORDS).span(slice(2, 4))
    np.testing.assert_array_equal(some.frequencies, [0, 4, 0, 5, 6, 0])


@pytest.mark.parametrize(
    "changed",
    [
        {"indices": [2, 0, 5, 1, 3, 4]},  # not in order
        {"indices": [0, 2, 2, 1, 3, 4]},  # a word twice
        {"data": [1, 0, 3, 4, 5, 6]},  # a zero
    ],
)
def test_counts_that_need_mending_are_mended(looked_through, changed):
    given = corpus(**changed)
    assert times_of_words(given, WORDS) is None
    wanted = given.toarray()
    counts = as_counts(given, WORDS)
    found = csr_array((counts.data, counts.columns, counts.offsets), shape=(4, len(counts.words))).toarray()
    np.testing.assert_array_equal(found, wanted[:, counts.words])


@pytest.mark.parametrize(
    "changed",
    [
        {"data": [1, -2, 3, 4, 5, 6]},
        {"data": [1, 2, 3, 4, 5, 2**31], "kind": np.int64},
        {"indices": [0, 2, 6, 1, 3, 4]},
    ],
)
def test_what_no_document_can_hold_is_refused(looked_through, changed):
    good = corpus(changed.pop("kind", np.int32))
    for name, values in changed.items():
        getattr(good, name)[:] = values
    with pytest.raises(InvalidData):
        as_counts(good, WORDS)
