"""Robust merges of topics that sites do not share: slots that few know, and an alignment in place of a vote."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom
from test_grouping import posterior
from test_votes import half_g, slot_weights

from decbayes.merging.base.canonical import canonical_order
from decbayes.merging.robust import _likeness
from decbayes.merging.robust._ballot import Ballot
from decbayes.merging.robust._slots import without_doubtful_slots

KNOWN = np.array([[60.0, 30.0, 10.0, 0.0, 0.0, 0.0], [0.0, 0.0, 5.0, 50.0, 45.0, 0.0]])
ODD = np.array([10.0, 0.0, 0.0, 30.0, 20.0, 40.0])


def ballot_of(*sites):
    """Topics of sites in the order of their evidence."""
    posteriors = [posterior(rows) for rows in sites]
    order, readings = canonical_order(posteriors)
    sets = [readings[site].components for site in order]
    return Ballot([posteriors[site] for site in order], sets, np.inf, False, True)


def like(row, times):
    """The topic of `KNOWN` that has most in common with a row, or 2."""
    return int(np.argmax([*(KNOWN @ row), times * ODD @ row]))


@pytest.mark.parametrize(("sites", "doubted"), [(12, True), (4, False)])
def test_what_one_site_has_in_the_place_of_what_nearly_all_know_is_compared_with_that(sites, doubted):
    """Of few sites chance makes such a slot. Other slots are numbered anew, and the odd one is beside the nearest."""
    ballot = ballot_of(*(KNOWN + site for site in range(1, sites)), np.array([KNOWN[0], ODD]))
    (group,) = ballot.groups
    kinds = np.array([like(row, 1.0) for row in group.rows[0]])
    assert (kinds == 2).sum() == 1
    odd = int(kinds.argmax())
    slots = np.array([2, 0, 1])[kinds]  # the first slot is the second topic, the middle one the odd topic
    lost, tolerance = np.linspace(0.1, 0.9, len(kinds)), np.linspace(1.0, 2.0, len(kinds))
    before = replace(slot_weights(group, slots, np.ones(len(kinds)), 3), lost=lost, tolerance=tolerance)
    found = without_doubtful_slots(before)
    known = 2 * sites - 1
    assert before.coverage == pytest.approx(known / (2 * sites + 1))
    assert (binom.cdf(1, sites, before.coverage) < 1e-4) == doubted
    if not doubted:
        assert found is before
        return
    totals = [group.rows[0][kinds == kind].sum(axis=0) for kind in (1, 0)]
    apart = [half_g(ODD, total) for total in totals]
    nearest = int(np.argmin(apart))
    np.testing.assert_array_equal(np.delete(found.labels, odd), np.delete(np.array([1, 0, 9])[kinds], odd))
    assert (found.slots, found.labels[odd]) == (2, nearest)
    np.testing.assert_array_equal(np.delete(found.lost, odd), np.delete(lost, odd))
    assert found.lost[odd] == pytest.approx(apart[nearest])
    shared = 1.0 / (1.0 / ODD.sum() + 1.0 / totals[nearest].sum())
    allowed = _likeness.tolerated(group.parameters[odd], shared, group.likeness.usual)
    np.testing.assert_array_equal(np.delete(found.tolerance, odd), np.delete(tolerance, odd))
    assert found.tolerance[odd] == pytest.approx(float(allowed))
    np.testing.assert_allclose(found.weights, _likeness.weights_of(found.lost, found.tolerance))


@pytest.mark.parametrize(
    ("silenced", "further", "taken"), [(0.0, 0, False), (0.6, 0, True), (0.6, 1, True), (0.0, 1, True), (9.0, 0, False)]
)
def test_a_vote_is_taken_in_place_of_an_alignment_if_it_is_selective_and_more_are_heard(silenced, further, taken):
    """Two of seven sites have topics of their own, which an alignment puts beside those of the others."""
    own = [np.array([[0, 40, 0, 0, 0, 60.0], [0, 0, 70.0, 0, 0, 30]]), np.array([[20.0, 0, 0, 0, 80, 0], ODD])]
    ballot = ballot_of(*(KNOWN + site for site in range(5)), *own)
    (group,) = ballot.groups
    labels = np.array([like(row, 0.0) for row in group.rows[0]])
    weights = np.ones(len(labels))
    weights[: int(np.ceil(silenced))] -= min(silenced, 1.0)
    voted = slot_weights(group, labels, weights, 2 + further)
    aligned = ballot._aligned(replace(voted, weights=np.ones(len(labels)), slots=2), 2)
    assert len(labels) - 1.0 > aligned.votes.sum() + 0.5 > len(labels) - 9.0
    found = ballot._aligned(voted, 2)
    assert (found is voted) == taken
    if not taken:
        np.testing.assert_array_equal(found.labels, aligned.labels)
        assert (found.slots, aligned.slots) == (2, 2)
