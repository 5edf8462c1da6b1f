"""Results are those that were written down.

Laws say what is right. This says what is the same: a change that should not change results is noticed, whatever it
touches. If yours should change them, run `python tests/recorded`, and look at what it prints.
"""

import json
from pathlib import Path

import pytest
from plain import alike, differing, flat, summed
from scenarios import SCENARIOS, result_of

pytestmark = pytest.mark.usefixtures("as_shipped")
RECORDED = json.loads(Path(__file__).with_name("results.json").read_text())


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_results_are_those_that_were_written_down(scenario):
    found = dict(flat(result_of(scenario)))
    assert {name: found.get(name) for name in differing(RECORDED[scenario], found)} == {}


def test_every_recorded_result_has_a_scenario():
    assert set(RECORDED) == set(SCENARIOS)


def test_order_size_and_shape_of_an_array_are_noticed(rng):
    values = rng.normal(size=(4, 5))
    for other in (values[::-1], values * 1.001, values.T, values + 0.001, values[:3]):
        assert not alike(summed(values), summed(other))
    assert alike(summed(values), summed(values + 1e-9))
