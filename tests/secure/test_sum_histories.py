"""Histories of secure sums in which anything goes wrong that can: promises hold after every step."""

import pytest
from sum_histories import History


@pytest.mark.parametrize("seed", range(2))
def test_promises_hold_after_every_step(seed, tmp_path):
    History(tmp_path, seed).run(40)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 200))
def test_promises_hold_after_every_step_of_many_histories(seed, tmp_path):
    History(tmp_path, seed, hostile=seed % 2 == 0).run(80).settle().check_end()


def test_what_was_interrupted_delayed_and_cut_off_opens_in_the_end(tmp_path):
    history = History(tmp_path, 5, hostile=False)
    history.do_without = history.do_again = history.do_damage = history.do_visit
    history.run(25).settle().check_end()
