"""Words whose counts a site shares out by the disclosure rules: recognised in its file, and evidence of nothing."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from decbayes.merging.base.subjects import shared_out
from decbayes.merging.grouping.elsewhere import gain_elsewhere

TOPICS, SHOWN, RARE = 6, 40, 300
PRIOR = np.full(SHOWN + RARE, -0.99)


def site_counts(rng, mass):
    """Topics of one site: counts of words that it shows, and a mass of others by public numbers of documents."""
    shown = rng.poisson(20.0 * rng.dirichlet(np.full(SHOWN, 0.2), TOPICS) * SHOWN)
    shares = np.sqrt(np.linspace(5.0, 500.0, RARE))
    return np.hstack([shown, mass * rng.uniform(1.0, 2.0, (TOPICS, 1)) * shares / shares.sum()])


@pytest.mark.parametrize("mass", [0.1, 500.0])
def test_words_that_share_their_counts_are_found_exactly(rng, mass):
    found = shared_out(csr_array(site_counts(rng, mass)))
    np.testing.assert_array_equal(found, np.arange(SHOWN + RARE) >= SHOWN)


def test_words_of_one_topic_share_nothing(rng):
    """In a single topic all words have the same proportions, and so have words that only one topic uses."""
    assert not shared_out(csr_array(np.full((1, 20), 3.0))).any()
    assert not shared_out(csr_array(np.kron(np.eye(2), np.full(10, 3.0)))).any()
    assert not shared_out(csr_array((2, 5))).any()
    assert not shared_out(csr_array(rng.gamma(1.0, size=(TOPICS, 5000)))).any()


def test_how_many_counts_are_shared_out_does_not_change_what_slots_describe():
    gains = []
    for mass in (20.0, 2000.0):
        rng = np.random.default_rng(2)
        rows = csr_array(np.vstack([site_counts(rng, mass) for _ in range(4)]))
        few, many = np.tile(np.arange(TOPICS) // 2, 4), np.tile(np.arange(TOPICS), 4)
        gains.append(gain_elsewhere(rows, np.repeat(np.arange(4), TOPICS), PRIOR, (few, 3), (many, TOPICS)))
    assert gains[0] == pytest.approx(gains[1])
    assert gains[0] != 0.0


def test_slots_are_not_judged_without_the_site_that_fills_most_of_them():
    """Small sites have two topics of a large one in a slot of their own: the large one's slots describe both."""
    topics = np.kron(np.eye(2), np.full(10, 100.0))
    rows, site = csr_array(np.vstack([50.0 * topics, topics, topics])), np.repeat(np.arange(3), 2)
    few, many = np.array([0, 1, 2, 2, 2, 2]), np.array([0, 1, 2, 3, 2, 3])
    assert gain_elsewhere(rows, site, PRIOR[:20], (few, 3), (many, 4)) == pytest.approx(0.0, abs=1e-3)
    like_sites, one, two = csr_array(np.vstack([topics] * 3)), (np.zeros(6, int), 1), (np.tile([0, 1], 3), 2)
    assert gain_elsewhere(like_sites, site, PRIOR[:20], one, two) == pytest.approx(0.7 * np.log(2), rel=0.01)
