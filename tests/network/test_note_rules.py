"""What a note may hold, part by part, and when notes calibrate a merge."""

from dataclasses import replace

import numpy as np
import pytest
from groups import charter_of, gaussian_charter, identities, later_charter

import decbayes as db
from decbayes.disclosure import Rules as DisclosureRules
from decbayes.errors import InvalidFile, Refused
from decbayes.network import Limits, Rules
from decbayes.network.protocol.records.notes import fits, note_from, obstacle

KEYS = identities(2)
MODEL = db.GaussianMixture(2, 1, variance=1.0, prior_variance=9.0)
CHARTER = charter_of(MODEL, KEYS)
AT = np.arange(8, dtype="<i4")
SIDE = 4
SCORES = np.array([7.0, 6.5, -1.0, -2.0, -3.0, *np.arange(16.0)])
MATRIX = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 5.0], [3.0, 5.0, 6.0]])
WHOLE = {
    "at": AT,
    "step": np.array([1.0, -2.0, 0.5]),
    "slope": np.arange(1.0, 7.0),
    "overlaps": np.array([0.0, 1.0]),
    "scores": SCORES,
}


def read(charter=CHARTER, **change):
    parts = {name: part for name, part in (WHOLE | change).items() if part is not None}
    return note_from({f"note/{name}": part for name, part in parts.items()} | {"other": np.ones(2)}, charter)


def scored(place, value):
    changed = SCORES.copy()
    changed[place] = value
    return {"scores": changed}


def test_a_whole_note_is_what_was_sent():
    note = read()
    assert note.at == AT.tobytes().hex()
    np.testing.assert_array_equal(note.information.contribution, WHOLE["step"])
    np.testing.assert_array_equal(note.information.matrix, MATRIX)
    assert (note.information.at, note.information.sites) == (note.at, 1)
    np.testing.assert_array_equal(note.overlaps, [0.0, 1.0])
    assert (note.scores.observations, note.scores.names) == (7, ("merged", "others", "own"))
    np.testing.assert_array_equal(note.scores.sums, SCORES[1:5])
    np.testing.assert_array_equal(note.scores.products, np.arange(16.0).reshape(4, 4))
    for name, part in note.arrays().items():
        np.testing.assert_array_equal(part, WHOLE[name.removeprefix("note/")])
    bare = read(step=None, slope=None, overlaps=None, scores=None)
    assert (bare.information, bare.overlaps.size, bare.scores) == (None, 0, None)
    assert note_from({"other": np.ones(2)}, CHARTER) is None


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"more": np.ones(1)}, "unknown parts"), ({"at": None}, "unknown parts"), ({"at": AT[:7]}, "unknown parts"),
        ({"at": AT.astype("<i8")}, "unknown parts"), ({"step": np.array([1.0, np.nan, 0.0])}, "not finite"),
        ({"step": np.ones((3, 1))}, "not finite"), ({"grid": np.ones(3)}, "not finite"),
        ({"overlaps": np.array([0, 1], dtype="<f4")}, "not finite"),
        ({"overlaps": np.array([1.1])}, "shares from 0 to 1"), ({"overlaps": np.array([-0.1])}, "shares from 0 to 1"),
        ({"overlaps": np.zeros(3)}, "one per component"), ({"overlaps": np.zeros(2)}, ""),
        ({"slope": np.ones(5)}, "does not fit its vector"), ({"slope": None}, "does not fit its vector"),
        ({"step": None}, "does not fit its vector"), ({"scores": SCORES[:-1]}, "not those of a merge"),
        (scored(0, 4.0), "not those of a merge"), (scored(0, 5.0), ""), (scored(0, 5.5), "not those of a merge"),
        (scored(1, 0.9), "for no observations"), (scored(1, 1.0), ""),
    ],
)  # fmt: skip
def test_each_part_of_a_note_is_checked(change, wrong):
    if wrong:
        with pytest.raises(InvalidFile, match=wrong):
            read(**change)
    else:
        read(**change)


@pytest.mark.parametrize(("name", "place", "limit"), [("step", 0, 1.0), ("slope", 0, 2.0), ("scores", 5, 2.0)])
def test_numbers_have_the_limit_of_contributions_or_of_products_of_two(name, place, limit):
    charter = replace(CHARTER, limits=Limits(members=2, magnitude=1e3))
    for times, right in ((0.99, True), (1.01, False)):
        changed = WHOLE[name].copy()
        changed[place] = -times * 1e3**limit
        if right:
            read(charter, **{name: changed})
        else:
            with pytest.raises(InvalidFile, match=f"note's {name} is beyond"):
                read(charter, **{name: changed})


def test_scores_of_fewer_than_the_rules_ask_for_are_refused():
    for least, right in ((7, True), (8, False)):
        charter = replace(CHARTER, disclosure=replace(DisclosureRules(), least_observations=least))
        if right:
            read(charter)
        else:
            with pytest.raises(Refused, match="fewer observations"):
                read(charter)


def test_a_matrix_fits_if_its_bytes_do():
    small = Limits(members=2, record_bytes=8 * 100)
    assert [fits(size, replace(CHARTER, limits=small)) for size in (10, 11)] == [True, False]


def test_what_keeps_notes_from_calibrating_a_merge():
    mean = gaussian_charter(KEYS, rules=Rules(intervals=True))
    mixed = replace(CHARTER, rules=Rules(intervals=True))
    assert obstacle(mixed) == ""
    assert "no rule `intervals`" in obstacle(replace(CHARTER, rules=Rules(intervals=False)))
    assert "rules `robust`" in obstacle(replace(mixed, rules=Rules(intervals=True, robust=True)))
    assert "rules `robust`" in obstacle(replace(mixed, rules=Rules(intervals=True, share=0.9)))
    assert obstacle(replace(mixed, rules=Rules(intervals=True, share=1.0))) == ""
    assert "earlier epochs" in obstacle(later_charter(mean, mean.model.fit(np.ones((2, 1))).posterior))
