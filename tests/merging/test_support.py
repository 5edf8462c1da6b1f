"""How much evidence each site has in each slot, and whether that is enough."""

import numpy as np
import pytest
from test_grouping import COUPLED, posterior

import decbayes as db
from decbayes.merging.reading import _support

FIRST, SECOND, THIRD = np.array([[30.0, 20, 0, 0, 0, 0], [0, 0, 40.0, 10, 0, 0], [0, 0, 0, 0, 15.0, 25]])


@pytest.fixture
def aligned():
    """Two sites share one topic, the first in two parts; each has another one; a trace of a third is none."""
    return db.align(
        [posterior([FIRST, 2 * FIRST, SECOND]), posterior([THIRD, FIRST, 0.009 * SECOND])],
        components=3,
        solver=db.solvers.Grouping(passes=0),
    )


def test_support_is_what_sites_have_put_into_slots(aligned):
    slots = [assignment[COUPLED] for assignment in aligned.assignments]
    both, second, third = slots[0][0], slots[0][2], slots[1][0]
    assert (slots[0][1], slots[1][1], slots[1][2]) == (both, both, second)
    expected = np.zeros((2, 3))
    expected[0, [both, second]], expected[1, [both, second, third]] = [150.0, 50.0], [50.0, 0.45, 40.0]
    np.testing.assert_allclose(db.merging.support(aligned, COUPLED), expected)


def test_components_with_less_than_half_an_observation_fill_nothing(aligned):
    counts = db.merging.observations(aligned, COUPLED)
    np.testing.assert_allclose(counts, [[50.0, 100.0, 50.0], [40.0, 50.0, 0.45]])
    slots = [assignment[COUPLED] for assignment in aligned.assignments]
    filled = db.merging.fillings(aligned, COUPLED)
    assert filled[0][slots[0][0]] == (0, 1)
    assert filled[1][slots[1][1]] == (1,)
    assert filled[1][slots[0][2]] == ()
    np.testing.assert_array_equal(_support.seen(aligned, COUPLED), [[True, True, True], [True, True, False]])


def test_a_component_is_alone_where_no_other_site_has_half_an_observation(aligned):
    np.testing.assert_array_equal(_support.alone(aligned, COUPLED), [[False, False, True], [True, False, False]])


@pytest.mark.parametrize(("times", "thin"), [(0.2, 10.0 / 3.0), (0.5, None), (0.25, 12.5 / 3.0)])
def test_sites_are_thin_with_under_five_observations_per_parameter(times, thin):
    """Topics of four words that all occur have three parameters; traces do not count."""
    row = np.array([20.0, 15.0, 10.0, 5.0])
    sites = [posterior([times * row, 1e-3 * row]), posterior([times * row + [0.0, 0.5, -0.5, 0.0]])]
    found = db.merging.thin(db.align(sites), COUPLED)
    assert found == (None if thin is None else pytest.approx(thin))
    assert db.merging.thin(db.align(sites[:1]), COUPLED) is None


def influence(evidence, factors):
    return db.merging.Influence(np.array(evidence), np.array(factors))


def test_what_contradicts_the_others_is_what_ten_nats_speak_against():
    found = influence([[30.0, 70.0], [50.0, 0.0]], [[-10.5, -9.5], [20.0, 0.0]])
    np.testing.assert_allclose(found.apart, [0.3, 0.0])
    np.testing.assert_allclose(found.against, [0.2, 0.0])
    np.testing.assert_allclose(found.share, [100 / 150, 50 / 150])


@pytest.mark.parametrize(("share", "disagrees"), [(9.0, False), (11.0, True)])
def test_a_site_disagrees_if_over_a_tenth_of_its_evidence_does(share, disagrees):
    assert influence([[share, 100.0 - share]], [[-50.0, 1.0]]).disagreeing.tolist() == [disagrees]


@pytest.mark.parametrize(("nats", "disagrees"), [(0.74, False), (0.76, True)])
def test_a_site_disagrees_if_it_does_so_more_than_usual(nats, disagrees):
    """Half of six are within 0.1 nats per observation of the middle, 0.25; the limit is 0.75."""
    usual = np.array([0.1, 0.1, 0.2, 0.3, 0.3])
    found = influence(np.full((6, 1), 1000.0), -1000.0 * np.append(usual, nats)[:, None])
    middle = np.median(np.append(usual, nats))
    spread = np.median(np.abs(np.append(usual, nats) - middle))
    assert found.disagreeing[5] == disagrees == (nats > middle + 5.0 * spread)


@pytest.mark.parametrize(("times", "large"), [(4.9, False), (5.1, True)])
def test_a_site_is_large_with_five_times_the_evidence_in_the_middle(times, large):
    found = influence([[10.0], [10.0], [10.0], [10.0 * times], [0.0]], np.zeros((5, 1)))
    np.testing.assert_array_equal(found.large, [False, False, False, large, False])
    assert found.flags(3) == ((f"has {times / (3 + times):.0%} of all evidence",) if large else ())
