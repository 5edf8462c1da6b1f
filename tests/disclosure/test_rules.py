"""Rules are checked, ordered by strictness, and part of what a file says."""

import pytest

from decbayes.disclosure import Rules
from decbayes.errors import InvalidRules


@pytest.mark.parametrize(
    "values",
    [
        {"least_cell": 0},
        {"least_cell": 2.5},
        {"least_cell": "5"},
        {"least_cell": True},
        {"rows_per_coefficient": 0.5},
        {"most_levels": float("nan")},
        {"approval": 1},
        {"least_outcome": 6},
        {"least_observations": 4},
        {"least_cells": 5},
    ],
)
def test_bad_and_contradictory_rules_are_refused(values):
    with pytest.raises(InvalidRules):
        Rules.of(values)


@pytest.mark.parametrize("name", ["least_cell", "least_documents", "rows_per_coefficient"])
def test_a_larger_minimum_is_stricter(name):
    stricter = Rules(**{name: 20})
    assert stricter.looser_than(Rules()) == []
    assert Rules().looser_than(stricter) == [name]
    assert Rules().tightened(stricter) == stricter == stricter.tightened(Rules())


def test_what_obeys_either_rules_obeys_the_looser_of_both_rule_by_rule():
    first, second = Rules(least_cell=10, least_documents=3), Rules(least_cell=5, least_documents=8, most_levels=90)
    both = first.loosened(second)
    assert (both.least_cell, both.least_documents, both.most_levels) == (5, 3, 90)
    assert first.looser_than(both) == second.looser_than(both) == []


def test_more_levels_and_no_approval_are_looser():
    assert Rules(most_levels=100).looser_than(Rules()) == ["most_levels"]
    assert Rules().looser_than(Rules(approval=True)) == ["approval"]


def test_rules_survive_plain_values_and_files(tmp_path):
    rules = Rules(least_cell=10, least_observations=50, approval=True)
    assert Rules.of(rules.plain()) == rules
    path = tmp_path / "rules.toml"
    path.write_text("least_cell = 10\nleast_observations = 50\napproval = true\n")
    assert Rules.load(path) == rules


@pytest.mark.parametrize("text", ["least_cell = ", "least_cell = 0", "cells = 5", "\x00"])
def test_a_bad_file_of_rules_is_named(tmp_path, text):
    path = tmp_path / "rules.toml"
    path.write_text(text)
    with pytest.raises(InvalidRules, match=r"rules\.toml"):
        Rules.load(path)
