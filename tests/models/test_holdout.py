"""Holding out: nothing is lost, the share is kept, and every part is equally likely to go."""

import numpy as np
import pytest
from scipy.sparse import csr_array, issparse

import decbayes as db
from decbayes.errors import InvalidData


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_tokens_are_split_without_loss(share, rng):
    counts = csr_array(rng.poisson(0.7, (50, 40)))
    observed, held = db.checking.hold_out(counts, share=share, rng=rng)
    np.testing.assert_array_equal((observed + held).toarray(), counts.toarray())
    assert min(observed.data.min(), held.data.min()) > 0
    lengths = counts.sum(axis=1)
    np.testing.assert_array_equal(held.sum(axis=1), np.maximum(1, np.round(share * lengths)))


def test_every_token_is_equally_likely_to_be_held_out(rng):
    counts = csr_array(np.tile([8, 0, 1, 1], (4000, 1)))
    _, held = db.checking.hold_out(counts, share=0.1, rng=rng)
    # One token in ten: 4000 draws with standard deviations of at most 25.
    np.testing.assert_allclose(held.sum(axis=0), [3200, 0, 400, 400], atol=100)


def test_short_documents_stay_observable():
    counts = csr_array(np.array([[0, 0], [1, 0], [1, 1]]))
    observed, held = db.checking.hold_out(counts, share=0.9, rng=np.random.default_rng(0))
    assert held.sum(axis=1).tolist() == [0, 0, 1]
    assert observed.sum(axis=1).tolist() == [0, 1, 1]


def test_components_of_vectors_are_split_without_loss(rng):
    vectors = rng.normal(size=(30, 20))
    observed, held = db.checking.hold_out(vectors, share=0.25, rng=rng)
    np.testing.assert_array_equal(np.isnan(observed), ~np.isnan(held))
    np.testing.assert_array_equal(np.where(np.isnan(observed), held, observed), vectors)
    assert (np.isnan(observed).sum(axis=1) == 5).all()
    assert np.isnan(observed).any(axis=0).all()


def test_the_same_seed_holds_out_the_same(rng):
    counts = csr_array(rng.poisson(1.0, (20, 30)))
    for data in (counts, counts.toarray()):
        first, second = (db.checking.hold_out(data, rng=np.random.default_rng(1))[1] for _ in range(2))
        np.testing.assert_array_equal(*(m.toarray() if issparse(m) else m for m in (first, second)))


@pytest.mark.parametrize("data", [csr_array(-np.eye(2)), csr_array(0.5 * np.eye(2)), np.array([[np.nan]]), np.ones(3)])
def test_what_cannot_be_split_is_refused(data, rng):
    with pytest.raises(InvalidData):
        db.checking.hold_out(data, rng=rng)


def test_documents_too_long_to_draw_from_are_named(rng):
    counts = csr_array(np.array([[1, 2], [600_000_000, 400_000_000]]))
    with pytest.raises(InvalidData, match=r"Document 1 has 1,000,000,000 tokens, .* Split it"):
        db.checking.hold_out(counts, rng=rng)
    with pytest.raises(InvalidData, match=r"shape \(2,\)"):
        db.checking.hold_out(counts[[0]].reshape(2), rng=rng)


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, np.nan, "0.1", None, np.array([0.1, 0.2])])
def test_a_share_is_a_part(share, rng):
    with pytest.raises(ValueError, match="between 0 and 1"):
        db.checking.hold_out(np.ones((2, 2)), share=share, rng=rng)


@pytest.mark.parametrize(("share", "held"), [(0.01, 1), (0.99, 3)])
def test_of_each_vector_at_least_one_number_is_held_out_and_one_stays(share, held):
    _, found = db.checking.hold_out(np.ones((3, 4)), share=share, rng=1)
    np.testing.assert_array_equal((~np.isnan(found)).sum(axis=1), held)
