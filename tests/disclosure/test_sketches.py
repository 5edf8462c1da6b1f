"""The same documents at several sites: sketches count them, and say nothing without the group's key."""

import numpy as np
import pytest
from scipy.stats import beta

from decbayes.errors import InvalidData, NotDisclosed
from decbayes.updates.sketches import LARGEST, SIZE, Sketch, different_at, overlap

KEY = bytes(range(32))


def letters(numbers):
    return [f"letter number {number}" for number in numbers]


def test_small_sites_are_counted_exactly():
    sites = [Sketch.of(letters(range(first, first + 100)), KEY) for first in (0, 60, 150)]
    found = overlap(sites)
    assert (found.documents, found.different) == (300, 250)
    assert found.shared == {(0, 1): 40.0, (0, 2): 0.0, (1, 2): 10.0}
    (remark,) = found.remarks("abc")
    assert remark.what == "17% of the 300 documents in sketches count more than once: several sites have them."
    assert "a and b 40; b and c 10" in remark.rests_on
    assert overlap(sites[::2]).remarks("ac") == ()


def test_repeats_of_one_site_are_not_shared_by_sites():
    """Ten of 130 documents are at two sites; sixty copies are at one, and empty texts are nowhere."""
    north = Sketch.of([*letters(range(50)), "", " \n"], KEY)
    south = Sketch.of([*letters(range(40, 60)), *letters([40] * 60)], KEY)
    found = overlap([north, south])
    assert (found.documents, found.different, found.shared, found.repeated) == (130, 60, {(0, 1): 10}, [0, 60])
    shared, repeated, missing = found.remarks(["north", "south"], ["west"])
    assert shared.what.startswith(f"{10 / 130:.0%} of the 130 documents in sketches count more than once")
    assert repeated.what == f"{60 / 130:.0%} of the 130 documents in sketches repeat others of the same site."
    assert repeated.rests_on == "By the sites' sketches: south 60."
    assert missing.what.endswith("not compared with others' documents: west.")
    assert not missing.is_warning
    (only,) = overlap([south, Sketch.of(letters(range(100, 150)), KEY)]).remarks("ab")
    assert only.kind == "documents repeated"


@pytest.mark.parametrize("times", [2, 50])
def test_the_last_of_hashes_that_are_even_says_how_many_there_are(times):
    """Of n numbers in [0, 1] the k-th is a Beta(k, n + 1 − k): (k − 1) over it has the mean n."""
    last, most = LARGEST // times, 10**9
    estimate = different_at(Sketch(most, (*range(SIZE - 1), last), "group"))
    n = np.round(estimate)
    mean = beta(SIZE, n + 1 - SIZE).expect(lambda u: (SIZE - 1) / u, lb=0.5 / times, ub=2.0 / times)
    assert estimate == pytest.approx(times * (SIZE - 1))
    assert mean == pytest.approx(n, rel=1e-6)
    assert different_at(Sketch(int(n), (*range(SIZE - 1), last), "group")) == n  # not clearly fewer


def test_large_sites_are_estimated_within_a_few_percent():
    """The count from 1,024 hashes has a relative error of about 1 / √1024; four of these are allowed."""
    sites = [Sketch.of(letters([*range(4000), *range(10_000 * n, 10_000 * n + 6000)]), KEY) for n in (1, 2, 3)]
    assert all(len(site.hashes) == SIZE for site in sites)
    found = overlap(sites)
    assert found.different == pytest.approx(4000 + 3 * 6000, rel=4 / np.sqrt(SIZE))
    assert found.twice == pytest.approx(8000 / 30_000, abs=0.1)


def test_spaces_and_case_make_no_difference_and_other_keys_do():
    first, second = Sketch.of(["A  letter\n"], KEY), Sketch.of(["a letter"], KEY)
    assert first == second
    other = Sketch.of(["a letter"], KEY[::-1])
    assert not set(other.hashes) & set(first.hashes)
    with pytest.raises(InvalidData, match="different keys"):
        overlap([first, other])
    with pytest.raises(InvalidData, match="3 bytes"):
        Sketch.of(["a letter"], b"abc")
    with pytest.raises(NotDisclosed, match="1 documents would reveal too much"):
        Sketch.of(["a letter"], KEY, least=20)


@pytest.mark.parametrize(
    "change",
    [{"documents": 0}, {"hashes": []}, {"hashes": ["zz"]}, {"hashes": ["2", "1"]}, {"format": "x"}, {"group": 1}],
)
def test_files_that_are_no_sketches_are_refused(change):
    plain = {"format": "decbayes sketch 1", "documents": 3, "group": "a", "hashes": ["1", "2"]}
    Sketch.of_plain(plain)
    with pytest.raises(InvalidData, match="not a sketch"):
        Sketch.of_plain({**plain, **change})
