"""Releases of a mechanism whose records are their own statistics: every number in them is known beforehand."""

from dataclasses import replace
from fractions import Fraction
from math import isqrt

import numpy as np
import pytest

import decbayes as db
from decbayes import files
from decbayes.errors import InvalidData, InvalidFile, NotPrivate
from decbayes.privacy import release_files, releasing
from decbayes.privacy.mechanism import Mechanism, PrivateMerge, growing, packed, raised, unpacked
from decbayes.privacy.releasing import (
    GRID,
    Release,
    Spending,
    check_one_round,
    largest_norm,
    noise_in,
    public_anchor,
    released,
    smallest_deviation,
    summed,
    summed_records,
    total_of,
)

STRUCTURE = db.models.GaussianMean(variance=1.0, dimension=2).structure
OTHER = db.models.GaussianMean(variance=2.0, dimension=2).structure
PRIOR = db.Posterior.of_prior(STRUCTURE)
EACH = db.Privacy(1.0, 1e-6, rows_per_person=2)
SHARED = db.Privacy(1.0, 1e-6, noise="shared", sites=3, colluders=1)


class Plain(Mechanism):
    """Records are their statistics; the first column says by how many units a record is outside."""

    budget_parts = growing(3)
    parameters = 2

    def start(self):
        return np.array([0.5, -0.5, 0.25])

    def size(self, number):
        return 2 + number

    def record_statistics(self, anchor, data, number):
        return data + anchor.sum()

    def portions(self, data):
        return [data[:3], data[3:]]

    def outside(self, data):
        return np.abs(data[:, 0]) > 0.7

    def estimate(self, totals, rate):
        raise NotImplementedError


class Books:
    def __init__(self):
        self.lines = []

    def spend(self, spending):
        self.lines.append(spending)


@pytest.fixture
def noise(monkeypatch):
    """What noise was asked for; none is added but ones."""
    asked = []
    monkeypatch.setattr(
        releasing, "discrete_gaussian", lambda variance, size: asked.append((variance, size)) or np.ones(size, int)
    )
    return asked


def merged(**changed):
    usual = {
        "posterior": PRIOR, "noise": np.zeros(2), "misfit": 1.0, "price": 1.0, "anchor": np.array([0.0, 0.1, 0.0]),
        "round": 1, "rounds": 3, "privacy": EACH, "releases": frozenset({"a", "b"}),
    }  # fmt: skip
    return PrivateMerge(**{**usual, **changed})


def release_of(privacy=EACH, **changed):
    usual = {
        "structure": STRUCTURE, "privacy": privacy, "round": 1, "anchor": np.array([0.5, 1.0]),
        "values": np.array([4, -8, 3]), "variance": 2**46, "ids": ("a",), "site": "north",
    }  # fmt: skip
    return Release(**{**usual, **changed})


def test_a_release_is_the_sum_of_records_on_the_grid_and_noise_and_its_line_says_what_it_spends(noise):
    """Each record is rounded by itself to steps of 2⁻²², in two portions; the line is what the noise implies."""
    books, rng = Books(), np.random.default_rng(0)
    rows = rng.uniform(-0.5, 0.5, (7, 3)) / 3.0
    found = released(STRUCTURE, Plain(), merged(), rows, EACH, ledger=books, model="plain")
    steps = sum(np.array([round(float(x) * 2**22) for x in row]) for row in rows + 0.1)
    assert found.values.tolist() == (steps + 1).tolist()
    bound = 2 * (2**22 + isqrt(3) + 1)
    (asked,) = noise
    assert asked == (found.variance, 3)
    deviation = isqrt(found.variance)
    assert deviation**2 == found.variance
    allowed = EACH.mu * (2.0 / 7.0) ** 0.5
    assert bound / deviation <= allowed < bound / (deviation - 1)
    (line,) = books.lines
    assert line == Spending(found.ids[0], "plain", "", EACH, bound / deviation, 1, "data", frozenset({"a", "b"})), (
        "as a ledger gets it, with the names that are usual"
    )
    assert (found.structure, found.privacy, found.round, found.site) == (STRUCTURE, EACH, 1, "")
    assert found.anchor.tolist() == [0.0, 0.1, 0.0]
    named = released(
        STRUCTURE, Plain(), PRIOR, rows[:, :2] / 9, EACH, ledger=books, model="m", site="north", data_set="d"
    )
    assert (named.site, named.round, named.anchor.tolist()) == ("north", 0, [0.5, -0.5, 0.25])
    assert (books.lines[-1].site, books.lines[-1].data_set, books.lines[-1].known) == ("north", "d", frozenset())
    assert len(named.ids[0]) == 32
    assert named.ids != found.ids


@pytest.mark.parametrize(("beyond", "refused"), [(1, False), (2, True)])
def test_a_tenth_of_the_rows_may_lie_beyond_the_agreed_units(beyond, refused, noise):
    books, rows = Books(), np.zeros((10, 3))
    rows[:beyond, 0] = 0.75
    if refused:
        with pytest.raises(NotPrivate, match="Over 10% of the rows lie far beyond the agreed units"):
            released(STRUCTURE, Plain(), merged(), rows, EACH, ledger=books, model="")
        assert not books.lines
        assert not noise
    else:
        assert released(STRUCTURE, Plain(), merged(), rows, EACH, ledger=books, model="").round == 1


def test_a_release_that_the_ledger_refuses_is_never_returned(noise):
    class Full:
        def spend(self, spending):
            raise db.errors.BudgetExceeded("no")

    with pytest.raises(db.errors.BudgetExceeded):
        released(STRUCTURE, Plain(), PRIOR, np.zeros((2, 2)), EACH, ledger=Full(), model="")


@pytest.mark.parametrize(
    ("anchor", "reason"),
    [
        (merged(posterior=db.Posterior.of_prior(OTHER)), "of another model"),
        (merged(privacy=replace(EACH, rows_per_person=1)), "The releases so far promise"),
        (merged(round=3), "All 3 rounds are done"),
        (db.Posterior.of_prior(OTHER), "must be the prior of this model"),
        (np.zeros(3), "must be the prior of this model"),
        (db.models.GaussianMean(variance=1.0, dimension=2).fit(np.ones((3, 2))).posterior, "holds what data have"),
    ],
)
def test_only_public_anchors_are_taken(anchor, reason):
    with pytest.raises(NotPrivate, match=reason):
        public_anchor(STRUCTURE, Plain(), anchor, EACH)
    place, number, known = public_anchor(STRUCTURE, Plain(), merged(round=2), EACH)
    assert (place.tolist(), number, known) == ([0.0, 0.1, 0.0], 2, {"a", "b"})


@pytest.mark.parametrize("size", [1, 2, 8, 9, 400])
def test_no_record_of_norm_one_is_longer_in_steps_than_is_stated(size):
    """The worst that rounding can do is half a step in each of the numbers; the bound is at most twice that."""
    worst = 2**22 + Fraction(isqrt(size * 10**20) + 1, 2 * 10**10)
    assert worst <= largest_norm(size) <= 2**22 + size**0.5 + 1
    assert largest_norm(size) == 2**22 + int(size**0.5) + 1
    assert GRID.step == 2.0**-22


def test_a_record_may_be_as_long_as_the_bound_and_no_longer():
    class Stated(Plain):
        def record_statistics(self, anchor, data, number):
            return data * GRID.step

        def portions(self, data):
            return [data]

    most = largest_norm(2)
    for rows in ([[most, 0]], [[0, -most], [most, 0]]):
        assert summed_records(Stated(), None, np.array(rows), 0).tolist() == np.sum(rows, axis=0).tolist()
    for wrong in (np.array([[most, 1]]), np.array([[0.0, 0.0], [most + 1, 0]]), np.zeros((2, 3)), np.zeros(2)):
        with pytest.raises(InvalidData, match="larger than its stated bound"):
            summed_records(Stated(), None, wrong, 0)


def test_noise_is_never_less_than_promised_nor_a_step_more():
    """Exact fractions: bound / deviation ≤ μ, also where μ is next to a ratio of integers."""
    rng = np.random.default_rng(3)
    for _ in range(300):
        bound, near = int(rng.integers(1, 2**40)), int(rng.integers(1, 2**40))
        for mu in (
            float(rng.exponential()),
            bound / near,
            np.nextafter(bound / near, 0),
            np.nextafter(bound / near, 9),
        ):
            deviation = smallest_deviation(bound, float(mu))
            assert Fraction(bound, deviation) <= Fraction(float(mu))
            assert deviation == 1 or Fraction(bound, deviation - 1) > Fraction(float(mu))


@pytest.mark.parametrize("sites", [3, 4, 12])
def test_the_shares_of_honest_sites_make_up_the_noise(sites):
    """Whatever colluders leave out; no site adds a step² more than it takes."""
    privacy = db.Privacy(2.0, 1e-5, noise="shared", sites=sites, colluders=1, rows_per_person=3)
    for number in range(3):
        bound, deviation, variance = noise_in(Plain(), privacy, number)
        assert bound == 3 * largest_norm(2 + number)
        assert deviation == smallest_deviation(bound, privacy.mu * (2**number / 7) ** 0.5)
        assert (variance - 1) * (sites - 1) < deviation**2 <= variance * (sites - 1)
    assert noise_in(Plain(), EACH, 0)[2] == noise_in(Plain(), EACH, 0)[1] ** 2


@pytest.mark.parametrize(
    "bad",
    [
        {"anchor": np.zeros((1, 2))}, {"values": np.zeros((1, 2), int)}, {"anchor": np.array([np.nan])},
        {"values": np.zeros(0, int)}, {"round": -1}, {"variance": 0}, {"ids": ()}, {"ids": ("a", "a")},
    ],
)  # fmt: skip
def test_releases_that_are_none_are_refused(bad):
    with pytest.raises(InvalidFile, match="A release has"):
        release_of(**bad)


def test_a_release_is_a_value():
    fine = release_of(round=0, variance=1)
    for array in (fine.anchor, fine.values):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    promise = {"epsilon": 1.0, "delta": 1e-6, "noise": "each", "colluders": 1, "rows_per_person": 2, "sites": 0}
    assert fine.facts == {"privacy": promise, "round": 0, "variance": "1", "ids": ["a"], "site": "north"}


def test_a_release_is_open_once_all_of_its_noise_is_in_it():
    assert release_of(EACH).open
    assert [release_of(SHARED, ids=tuple("abcd"[:n])).open for n in (1, 2, 3, 4)] == [False, False, True, True]


def test_a_sum_has_the_noise_of_all_and_their_names():
    parts = [release_of(SHARED, ids=(name,), site=name, variance=variance) for name, variance in (("b", 7), ("a", 9))]
    whole = summed(parts)
    assert whole.values.tolist() == [8, -16, 6]
    assert (whole.variance, whole.ids, whole.site, whole.round) == (16, ("a", "b"), "", 1)
    assert summed(parts, np.array([1, 2, 3])).values.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"structure": OTHER}, "of different models"),
        ({"privacy": replace(EACH, delta=1e-7)}, "One release of round 1 promises"),
        ({"round": 2}, "another, of round 2"),
        ({"anchor": np.array([0.5, 1.1])}, "at different anchors"),
        ({"values": np.array([4, -8])}, "at different anchors"),
    ],
)
def test_releases_of_one_round_agree_in_all_that_is_public(changed, reason):
    with pytest.raises(NotPrivate, match=reason):
        check_one_round([release_of(), release_of(), release_of(**changed)])
    assert check_one_round([release_of(site="first"), release_of(values=np.zeros(3, int))]).site == "first"


def test_a_total_is_in_agreed_units_with_the_deviation_of_its_noise():
    two = [release_of(ids=(name,), variance=8 * 4**22) for name in "ab"]
    total = total_of(two)
    assert total.values.tolist() == [8 / 2**22, -16 / 2**22, 6 / 2**22]
    assert total.deviation == 4.0
    assert total.anchor.tolist() == [0.5, 1.0]
    assert total.copies == 2
    assert total_of([release_of(SHARED, ids=tuple("abc"))]).copies == 1, "one noise of all sites together"
    with pytest.raises(NotPrivate, match=r"all 3 sites may be opened; here is one of 2\."):
        total_of([release_of(SHARED, ids=tuple("abc")), release_of(SHARED, ids=tuple("de"))])


def written(tmp_path, **changed):
    """A file with a release of which some facts were changed."""
    fine = release_of()
    note = fine.facts | {"anchor": fine.anchor.tolist(), "values": fine.values.tolist()} | changed
    files.save(PRIOR, tmp_path / "a.release", note={"release": note})
    return tmp_path / "a.release"


@pytest.mark.parametrize(
    "changed",
    [
        {"further": 1}, {"site": 3}, {"site": "x" * 10_000}, {"ids": [3]}, {"ids": ["a", "a"]}, {"ids": []},
        {"round": 1.0}, {"round": -1}, {"values": [1.5]}, {"values": [True]}, {"values": [2**53]},
        {"values": [-(2**53)]}, {"values": []}, {"values": [2**70]}, {"anchor": ["1"]}, {"anchor": [None]},
        {"variance": "0"},
        {"variance": "-5"}, {"variance": 4}, {"variance": "1" + "0" * 40}, {"variance": "1" * 51}, {"variance": "x"},
        {"privacy": {"epsilon": 1.0}}, {"privacy": []},
    ],
    ids=str,
)  # fmt: skip
def test_a_file_that_says_something_else_is_refused(changed, tmp_path):
    with pytest.raises(InvalidFile, match="cannot be read"):
        db.privacy.load_release(written(tmp_path, **changed))


@pytest.mark.parametrize(
    ("name", "value", "read"),
    [
        ("values", [2**53 - 1, -(2**53) + 1], [2**53 - 1, -(2**53) + 1]),
        ("anchor", [1, 0.5], [1.0, 0.5]),
        ("variance", "1" + "0" * 39, 10**39),
        ("variance", "9" * 40, 10**40 - 1),
        ("round", 0, 0),
        ("ids", ["b", "c"], ("b", "c")),
    ],
)
def test_what_a_file_may_hold_at_most_is_read(name, value, read, tmp_path):
    found = getattr(db.privacy.load_release(written(tmp_path, **{name: value})), name)
    assert (found.tolist() if isinstance(found, np.ndarray) else found) == read


def test_lists_longer_than_any_round_has_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(release_files, "MOST", 3)
    assert len(db.privacy.load_release(written(tmp_path)).values) == 3
    with pytest.raises(InvalidFile, match="cannot be read"):
        db.privacy.load_release(written(tmp_path, values=[1, 2, 3, 4]))


def test_a_file_lacks_nothing_of_its_release(tmp_path):
    db.privacy.save_release(release_of(), tmp_path / "a.release")
    again = db.privacy.load_release(tmp_path / "a.release")
    assert again.facts == release_of().facts
    assert again.anchor.tolist() == [0.5, 1.0]
    assert again.values.tolist() == [4, -8, 3]
    assert again.structure == STRUCTURE
    files.save(PRIOR, tmp_path / "b.release")
    with pytest.raises(InvalidFile, match="is a posterior, not a private release"):
        db.privacy.load_release(tmp_path / "b.release")


def test_shares_of_rounds_double_and_add_up():
    assert growing(1) == (1.0,)
    assert growing(3) == pytest.approx((1 / 7, 2 / 7, 4 / 7))
    assert Plain().rounds == 3


def test_packed_matrices_have_the_same_norm_and_come_back(rng):
    square = rng.normal(size=(4, 3, 3))
    matrices = square + square.transpose(0, 2, 1)
    numbers = packed(matrices)
    assert numbers.shape == (4, 6)
    np.testing.assert_allclose(np.linalg.norm(numbers, axis=1), np.linalg.norm(matrices, axis=(1, 2)))
    for matrix, flat in zip(matrices, numbers, strict=True):
        np.testing.assert_allclose(unpacked(flat, 3), matrix, atol=1e-14)


def test_raised_matrices_keep_their_directions(rng):
    axes = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    found = raised((axes * [-2.0, 0.3, 5.0]) @ axes.T, 0.5)
    np.testing.assert_allclose(found, (axes * [0.5, 0.5, 5.0]) @ axes.T, atol=1e-12)


def test_the_price_falls_with_what_data_say():
    assert Plain().price_at(20.0) == pytest.approx(2.0**0.5)
    assert Plain().price_at(20.0 / 3.0) == pytest.approx(2.0)
    assert (Plain.useless, Plain.doubtful, Plain.any_number) == (10.0, 50.0, False)
    assert Mechanism.outside(Plain(), None).size == 0
    with pytest.raises(NotPrivate, match="merge them with the agreed one"):
        Plain().best_number([])
