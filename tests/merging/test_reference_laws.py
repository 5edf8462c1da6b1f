"""Inner sums of merges against dense references: permutations one by one, and sums of counts."""

from itertools import permutations
from math import lgamma

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.special import logsumexp

from decbayes.merging.base.compatibility import model_differences
from decbayes.merging.base.division import Division, pruned, ratio
from decbayes.merging.base.problem import best_permutation, forbid_undefined, worthwhile
from decbayes.merging.base.subjects import column_sums
from decbayes.merging.matching._symmetrized import log_permanents, reordered
from decbayes.merging.matching.quadratic import Match, exchanges, off_diagonal
from decbayes.merging.reading._margins import next_best_losses
from decbayes.merging.robust._slots import tolerated_faults


def all_orders(count):
    return [np.array(order) for order in permutations(range(count))]


def matched(rng, size):
    return Match(rng.normal(size=(size, size)), *([rng.gamma(1.0, 2.0, (size, size))] for _ in range(2)))


def value_of(match, order):
    """J up to a constant, entry by entry; what rows sum to is in the linear part."""
    ((rest, own),) = match.pairs
    pairs = ((k, j) for k in range(len(order)) for j in range(len(order)))
    linear = sum(match.linear[k, order[k]] for k in range(len(order)))
    return linear + sum(lgamma(rest[k, j] + own[order[k], order[j]]) for k, j in pairs)


def test_a_site_with_transitions_is_worth_what_its_entries_add_up_to(rng):
    match = matched(rng, 4)
    orders = all_orders(4)
    values = np.array([value_of(match, order) for order in orders])
    np.testing.assert_allclose(match.values(np.array(orders)), values)
    np.testing.assert_allclose(match.value(orders[5]), values[5])
    assert match.bound() >= values.max()
    np.testing.assert_array_equal(match.best(None, rng), orders[values.argmax()])
    elsewhere = np.array(orders) != orders[3]
    expected = [values[3] - values[elsewhere[:, slot]].max() for slot in range(4)]
    np.testing.assert_allclose(match.losses(orders[3], np.zeros(4, dtype=bool)), expected)


def test_the_linear_part_of_a_match_takes_off_what_rows_sum_to(rng):
    gain, rest, own = rng.normal(size=(3, 3)), rng.gamma(2.0, size=(3, 3)), rng.gamma(2.0, size=(3, 3))
    expected = [[gain[k, c] - lgamma(rest[k].sum() + own[c].sum()) for c in range(3)] for k in range(3)]
    np.testing.assert_allclose(Match(gain, [rest], [own]).linear, expected)


def test_many_states_are_searched_to_where_no_exchange_helps(rng):
    match = matched(rng, 8)
    starts = match.starts(np.arange(8), rng)
    assert len(starts) > 4
    reached = [match.climbed(start) for start in starts]
    for start, end in zip(starts, reached, strict=True):
        assert match.value(end) >= match.value(start)
        assert match.values(exchanges(end)).max() <= match.value(end) + 1e-9
    best = match.searched(np.arange(8), np.random.default_rng(20140723))
    assert match.bound() >= match.value(best) >= max(map(match.value, reached[:4])) - 1e-9


def test_no_order_of_the_others_is_worth_more_than_the_bound_of_one_component(rng):
    """Slot k with component c: its entry, and the best way to pair the rest of its row, over all ways."""
    match, orders = matched(rng, 4), all_orders(3)
    ((rest, own),) = match.pairs
    bounds = np.empty((4, 4))
    for k, c in np.ndindex(4, 4):
        row, theirs = np.delete(rest[k], k), np.delete(own[c], c)
        best = max(sum(map(lgamma, row + theirs[order])) for order in orders)
        bounds[k, c] = lgamma(rest[k, k] + own[c, c]) + best
    np.testing.assert_allclose(match.bounds(), bounds)
    most = match.linear + bounds
    highest = max(all_orders(4), key=lambda order: most[range(4), order].sum())
    np.testing.assert_array_equal(match.starts(None, rng)[1], highest)
    assert match.bound() == pytest.approx(most[range(4), highest].sum())


def test_transitions_of_a_component_whose_others_stay_are_its_row_and_its_column(rng):
    """The entry on the diagonal is in both."""
    match, current = matched(rng, 3), np.array([2, 0, 1])
    ((rest, own),) = match.pairs
    expected = [
        [
            sum(lgamma(rest[k, j] + own[c, current[j]]) + lgamma(rest[j, k] + own[current[j], c]) for j in range(3))
            for c in range(3)
        ]
        for k in range(3)
    ]
    np.testing.assert_allclose(match.around(current), expected)


def test_exchanges_are_all_pairs_and_off_diagonals_are_sorted():
    found = {tuple(order) for order in exchanges(np.array([2, 0, 1])).tolist()}
    assert found == {(0, 2, 1), (1, 0, 2), (2, 1, 0)}
    matrix = np.array([[9.0, 3.0, 1.0], [5.0, 9.0, 4.0], [2.0, 8.0, 9.0]])
    np.testing.assert_array_equal(off_diagonal(matrix), [[1.0, 3.0], [4.0, 5.0], [2.0, 8.0]])


def test_permanents_are_sums_over_all_permutations(rng):
    scores = rng.normal(scale=3.0, size=(5, 4, 4))
    terms = [scores[:, range(4), order].sum(axis=1) for order in all_orders(4)]
    np.testing.assert_allclose(log_permanents(scores), logsumexp(terms, axis=0))
    orders = np.array([[1, 0, 2], [2, 1, 0]])
    values = rng.normal(size=(2, 3, 2))
    np.testing.assert_array_equal(reordered(values, orders), [values[n][orders[n]] for n in range(2)])


def test_a_slot_loses_what_the_best_other_permutation_lacks(rng):
    """Components that must leave their slots, slots that are alike counting as one; the start need not be best."""
    for _ in range(20):
        gain, alike = rng.normal(size=(4, 4)), rng.random(4) < 0.3
        orders = all_orders(4)
        worth = np.array([gain[range(4), order].sum() for order in orders])
        for current in (best_permutation(gain), orders[int(rng.integers(24))]):
            found = next_best_losses(gain, current, alike)
            for slot in range(4):
                goes = [int(np.flatnonzero(order == current[slot])[0]) for order in orders]
                elsewhere = [to != slot and not (alike[to] and alike[slot]) for to in goes]
                least = gain[range(4), current].sum() - worth[elsewhere].max() if any(elsewhere) else np.inf
                np.testing.assert_allclose(found[slot], least, atol=1e-9)


def test_undefined_gains_are_never_chosen_and_rounding_is_no_gain(rng):
    gain = rng.normal(scale=50.0, size=(4, 4))
    gain[[0, 1, 1], [2, 0, 3]] = np.nan, -np.inf, np.inf
    order = best_permutation(forbid_undefined(gain))
    assert np.isfinite(gain[range(4), order]).all()
    np.testing.assert_array_equal(forbid_undefined(np.eye(2)), np.eye(2))
    large = 1e6 * np.ones((2, 2))
    for more, gains in ((1e-9, False), (1.0, True)):
        assert worthwhile(large + np.array([[0.0, more], [0.0, 0.0]]), np.array([1, 0]), np.array([0, 1])) == gains


def test_counts_that_stay_in_their_slots_are_neither_lost_nor_made(rng):
    """Two earlier slots and a new one: the new one keeps what it receives, the others' sum is divided anew."""
    received, steady = rng.gamma(1.0, 5.0, (6, 3)), np.zeros((6, 3))
    steady[:, :2] = rng.dirichlet(np.ones(3), 6)[:, :2]
    division = Division((), received, np.arange(3), steady)
    settled = division.steadied(received)
    np.testing.assert_allclose(settled.sum(axis=1), received.sum(axis=1))
    np.testing.assert_allclose(settled[:, 2], received[:, 2])
    assert (settled[:, :2] >= steady[:, :2] * received[:, :2].sum(axis=1, keepdims=True) - 1e-12).all()
    np.testing.assert_array_equal(Division((), received, np.arange(3)).steadied(received), received)
    shares = pruned(np.array([[0.5, 0.4995, 0.0005], [0.002, 0.998, 0.0]]))
    np.testing.assert_allclose(shares, [[0.5 / 0.9995, 0.4995 / 0.9995, 0.0], [0.002, 0.998, 0.0]])
    np.testing.assert_array_equal(ratio(np.array([3.0, 0.0, 2.0]), np.array([2.0, 0.0, 0.0])), [1.5, 0.0, 0.0])


ONE = {
    "name": "survival",
    "target": "died",
    "terms": ["age", "sex"],
    "columns": [["age", "real", 50, 10], ["g", "categories", "a", "b"]],
}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, []),
        ({"name": "linear"}, ["they are different models, survival and linear."]),
        ({"name": ""}, []),
        ({"target": "ill"}, ["one predicts 'died', the other 'ill'."]),
        ({"terms": ["sex", "age"]}, []),
        ({"terms": ["age"]}, ["only one of them has the term 'sex'."]),
        ({"terms": list("abcde")}, ["only one of them has the terms 'age', 'sex', 'a' and 4 more."]),
        ({"terms": "age"}, ["only one of them has the terms 'age', 'sex'."]),
        ({"varying": ["age"]}, ["only one of them has the varying term 'age'."]),
        ({"columns": [["age", "real", 50, 9], ["g", "categories", "a", "b"]]},
         ["the agreed centre, scale or mean of column 'age' differs."]),
        ({"columns": [["age", "count", 50, 10], ["g", "categories", "b", "a"]]},
         ["column 'age' is real in one and count in the other.",
          "the categories of column 'g' are in another order."]),
        ({"columns": [["age", "real", 50, 10], ["g", "categories", "a", "c"]]},
         ["only one of them has the categories 'b', 'c' in column 'g'."]),
        ({"columns": [["age", "real", 50, 10]]}, ["only one of them has the column 'g'."]),
        ({"columns": [["age"], ["g"]]}, []),
        ({"columns": 3}, []),
    ],
)  # fmt: skip
def test_models_differ_in_what_is_said_of_them(change, said):
    assert list(model_differences(ONE, ONE | change)) == said


def test_as_many_faults_are_tolerated_as_are_fewer_than_a_third():
    for sites in range(1, 40):
        assert tolerated_faults(sites) == max(faults for faults in range(sites) if 3 * faults < sites)


def test_sums_of_columns_are_as_many_as_columns_though_the_last_are_empty():
    counts = np.array([[1.0, 0.0, 2.0, 0.0], [0.0, 3.0, 1.0, 0.0]])
    np.testing.assert_array_equal(column_sums(csr_array(counts)), counts.sum(axis=0))
    np.testing.assert_array_equal(column_sums(counts), counts.sum(axis=0))


def test_a_search_starts_from_the_best_change_of_single_components(rng):
    """Which assignment that is, one by one: each component in its slot while all others are where they were."""
    for _ in range(5):
        match, current, orders = matched(rng, 7), rng.permutation(7), all_orders(7)
        alone = np.array(match.linear) + match.around(current)
        best = max(orders, key=lambda order: alone[range(7), order].sum())
        starts = {tuple(start.tolist()) for start in match.starts(current, rng)}
        assert {tuple(current.tolist()), tuple(best.tolist())} <= starts


def test_of_six_states_the_best_of_all_permutations_is_taken_where_a_search_ends_elsewhere():
    missed = 0
    for seed in range(25):
        match, orders = matched(np.random.default_rng(seed), 6), np.array(all_orders(6))
        best = match.values(orders).max()
        assert match.value(match.best(None, np.random.default_rng(0))) == pytest.approx(best)
        missed += match.value(match.searched(None, np.random.default_rng(0))) < best - 1e-9
    assert missed > 2


@pytest.mark.parametrize(("states", "starts"), [(16, 8), (17, 4)])
def test_up_to_sixteen_states_are_also_searched_from_four_random_orders(states, starts, rng):
    assert len(matched(rng, states).starts(rng.permutation(states), rng)) == starts
