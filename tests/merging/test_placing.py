"""A late posterior goes into the slots of a merge that it is no part of."""

import numpy as np
from test_grouping import posterior

import decbayes as db
from decbayes.merging.placing import placed

TOPICS = np.array(
    [[60.0, 30.0, 10.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 50.0, 30.0, 20.0], [20.0, 0.0, 0.0, 0.0, 0.0, 80.0]]
)


def test_each_component_goes_to_the_slot_that_says_the_same_and_slots_keep_their_numbers():
    merged = db.merge([posterior(TOPICS), posterior(1.1 * TOPICS)])
    slots = [int(np.argmax(merged.mean("topics") @ topic)) for topic in TOPICS / TOPICS.sum(axis=1, keepdims=True)]
    assert sorted(slots) == [0, 1, 2]
    late = placed(posterior(TOPICS[[2, 0]]), merged)
    expected = np.zeros((3, 6))
    expected[[slots[2], slots[0]]] = TOPICS[[2, 0]]
    np.testing.assert_allclose(late.contribution["topics"].toarray(), expected)


def test_two_components_of_one_kind_share_its_slot():
    merged = db.merge([posterior(TOPICS), posterior(1.1 * TOPICS)])
    late = placed(posterior(TOPICS[[1, 1]]), merged).contribution["topics"].toarray()
    np.testing.assert_allclose(np.sort(late.sum(axis=1)), [0.0, 0.0, 200.0])
