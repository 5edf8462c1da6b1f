"""Moves between states that too few persons made: a file does not tell them from moves that nobody made."""

import numpy as np
import pytest
from scipy.optimize import linprog

import decbayes as db
from decbayes.disclosure import Rules, guarded
from decbayes.errors import InvalidData, NotDisclosed
from decbayes.models.sequences.rare_moves import covered, hidden, remedy, shared_out, table_of

RULES = Rules()


def drawn(rng, states, sequences, stay=0.8):
    """How often each move was made, and by how many persons."""
    times, persons = np.zeros((states + 1, states + 1)), np.zeros((states + 1, states + 1))
    jump = rng.dirichlet(np.full(states, 0.3), size=states)
    for _ in range(sequences):
        path = [int(rng.integers(states))]
        while rng.random() < 0.95:
            path.append(path[-1] if rng.random() < stay else int(rng.choice(states, p=jump[path[-1]])))
        one = np.zeros_like(times)
        for first, second in zip([states, *path], [*path, states], strict=True):
            one[first, second] += 1
        times, persons = times + one, persons + (one > 0)
    return times, persons


def least_possible(table, cells, place):
    """The least that a cell can be, given all others that are shown and all sums: by linear programming."""
    size = len(table)
    places = list(zip(*np.nonzero(cells), strict=True))
    sums = np.zeros((2 * size, len(places)))
    for number, (row, column) in enumerate(places):
        sums[row, number] = sums[size + column, number] = 1.0
    part = np.where(cells, table, 0.0)
    solved = linprog(
        [float(each == place) for each in places], A_eq=sums, b_eq=np.append(part.sum(axis=1), part.sum(axis=0))
    )
    return solved.fun


@pytest.mark.parametrize("seed", range(6))
def test_sums_stay_and_each_rare_move_may_never_have_been_made(seed):
    rng = np.random.default_rng(seed)
    table, persons = drawn(rng, int(rng.integers(2, 6)), 40)
    rare = (persons < 5) & (table > 0)
    assert rare.any()
    safe, cells = hidden(table, persons, 5), covered(table, persons, rare, 5)
    np.testing.assert_allclose(safe.sum(axis=0), table.sum(axis=0), rtol=1e-6)
    np.testing.assert_allclose(safe.sum(axis=1), table.sum(axis=1), rtol=1e-6)
    np.testing.assert_array_equal(safe[~cells], table[~cells])
    assert (safe >= 0).all()
    assert safe[-1, -1] == 0
    for place in zip(*np.nonzero(rare), strict=True):
        assert least_possible(table, cells, place) < 1e-6


def test_what_is_shown_depends_on_sums_alone():
    """Persons swap where they go: no sum changes, and neither does the file."""
    table, _ = drawn(np.random.default_rng(5), 3, 60)
    cells = np.ones((4, 4), dtype=bool)
    cells[-1, -1] = cells[2, 2] = False
    swapped = table.copy()
    swapped[:2, :2] += [[-1, 1], [1, -1]]
    assert (swapped >= 0).all()
    weights = np.where(cells, np.random.default_rng(1).random((4, 4)), 0.0)
    np.testing.assert_allclose(shared_out(swapped, weights), shared_out(table, weights), atol=1e-8)


def test_where_nothing_can_hide_them_they_are_refused():
    """Three of thirty sequences have a second step; there is one state."""
    with pytest.raises(InvalidData, match="too short"):
        hidden(np.array([[3.0, 30.0], [30.0, 0.0]]), np.array([[3.0, 30.0], [30.0, 0.0]]), 5)


def one_who_went_elsewhere(rng):
    """Forty sequences that stay in one of two states; one of them changes state once."""
    states = [np.full(20, place % 2) for place in range(40)]
    states[0][10:] = 1
    return [(10.0 * each + rng.normal(size=20))[:, None] for each in states]


def test_nobody_reads_from_a_file_that_one_person_went_from_one_state_to_another(rng):
    data = one_who_went_elsewhere(rng)
    model = db.HiddenMarkov(2, columns={"x": db.columns.Gaussian(5, 5)})
    posterior = model.fit(data, rng=0).posterior
    moved = posterior.contribution["transitions"]
    apart = moved[~np.eye(2, dtype=bool)]
    assert sorted(apart.round(3)) == [0, 1]
    safe = guarded(model, posterior, data, RULES)
    shown = safe.posterior.contribution["transitions"]
    assert any("Moves of fewer" in change for change in safe.changed)
    assert abs(shown[~np.eye(2, dtype=bool)] - apart).max() > 0.3
    # Visits are those of the values, and sequences are still forty.
    tally = model.tally(safe.posterior)
    assert tally.contradiction(800, 40) is None
    begun = safe.posterior.contribution["start"][:, 0]
    assert begun.sum() == pytest.approx(40)
    np.testing.assert_allclose(
        begun + shown.sum(axis=0), posterior.contribution["start"][:, 0] + moved.sum(axis=0), rtol=1e-6
    )


def test_five_persons_who_went_there_are_shown_as_they_are(rng):
    states = [np.full(20, place % 2) for place in range(40)]
    for place in (*range(0, 12, 2), *range(1, 13, 2)):
        states[place][10:] = 1 - states[place][10:]
    data = [(10.0 * each + rng.normal(size=20))[:, None] for each in states]
    model = db.HiddenMarkov(2, columns={"x": db.columns.Gaussian(5, 5)})
    posterior = model.fit(data, rng=0).posterior
    assert guarded(model, posterior, data, RULES).posterior is posterior


def test_many_moves_of_one_person_are_those_of_one(rng):
    """Twelve sequences that change state are one person's."""
    states = [np.full(20, place % 2) for place in range(60)]
    for place in range(0, 24, 2):
        states[place][10:] = 1
    data = [(10.0 * each + rng.normal(size=20))[:, None] for each in states]
    model = db.HiddenMarkov(2, columns={"x": db.columns.Gaussian(5, 5)})
    posterior = model.fit(data, rng=0).posterior
    whom = ["Kim" if place in range(0, 24, 2) else place for place in range(60)]
    assert not guarded(model, posterior, data, RULES).changed
    assert guarded(model, posterior, data, RULES, persons=whom).changed


def test_sequences_of_one_step_do_not_tell_who_has_a_second(rng):
    data = [rng.normal(size=(2 if place < 3 else 1, 1)) for place in range(40)]
    model = db.HiddenMarkov(1, columns={"x": db.columns.Gaussian()})
    with pytest.raises(NotDisclosed, match="too short"):
        guarded(model, model.fit(data, rng=0).posterior, data, RULES)


def test_a_table_of_moves_counts_where_sequences_end():
    table = table_of(np.array([2.0, 1.0]), np.array([[4.0, 1.0], [0.0, 3.0]]))
    np.testing.assert_array_equal(table, [[4, 1, 1], [0, 3, 2], [2, 1, 0]])


def test_preview_stops_a_file_from_which_rare_moves_can_be_read(rng):
    data = one_who_went_elsewhere(rng)
    model = db.HiddenMarkov(2, columns={"x": db.columns.Gaussian(5, 5)})
    posterior = model.fit(data, rng=0).posterior
    told = {each.topic: each for each in db.disclosure.preview(posterior, data).statements}
    assert told["rare moves"].severity == "stop"
    safe = guarded(model, posterior, data, RULES).posterior
    told = {each.topic: each for each in db.disclosure.preview(safe, data).statements}
    assert told["rare moves"].severity == "fine"


@pytest.mark.parametrize("states", [1, 2])
def test_nobody_is_asked_for_fewer_states_where_too_few_persons_move_at_all(states, rng):
    """Thirty sequences of one step and three of a hundred: no number of states hides who moved."""
    data = [rng.normal(size=(1, 1)) for _ in range(30)] + [rng.normal(size=(100, 1)) for _ in range(3)]
    model = db.HiddenMarkov(states, columns={"x": db.columns.Gaussian(0, 5)})
    with pytest.raises(NotDisclosed, match=r"more than one step: 3\. Fit classes instead") as raised:
        guarded(model, model.fit(data, rng=rng).posterior, data, RULES)
    assert "fewer states" not in str(raised.value)
    assert remedy(5, 5) == "Fit fewer states"
