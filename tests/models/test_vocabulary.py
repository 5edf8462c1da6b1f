"""However a library keeps its words, they come out by column."""

import numpy as np
import pytest

import decbayes as db
from decbayes.errors import InvalidStructure
from decbayes.models.core.counts import words_in_order

WORDS = ("pear", "apple", "quince")


@pytest.mark.parametrize(
    "vocabulary",
    [WORDS, list(WORDS), iter(WORDS), {"quince": 2, "pear": 0, "apple": 1}, {2: "quince", 0: "pear", 1: "apple"}],
)
def test_words_come_out_by_column(vocabulary):
    assert words_in_order(vocabulary) == WORDS


@pytest.mark.parametrize("vocabulary", [set(WORDS), frozenset(WORDS), "pear"])
def test_what_has_no_order_is_refused(vocabulary):
    """A set has another order in each process, and with it another fingerprint."""
    with pytest.raises(TypeError, match=r"vocabulary must be a list of names, not (a set|one string)"):
        words_in_order(vocabulary)
    with pytest.raises(TypeError, match="labels must be a list"):
        db.extending.Structure({"a": db.families.Dirichlet()}, {"a": np.ones((2, 3))}, labels={"a": vocabulary})
    with pytest.raises(TypeError, match="categories must be a list"):
        db.columns.Categorical(set(WORDS))


@pytest.mark.parametrize("vocabulary", [{"pear": 0, "apple": 0}, {"pear": 1, "apple": 2}])
def test_what_names_no_columns_is_refused(vocabulary):
    with pytest.raises(InvalidStructure, match="The vocabulary"):
        words_in_order(vocabulary)


@pytest.mark.parametrize("vocabulary", [{"pear": 0.5}, {0.5: "pear"}, {"pear": "apple"}])
def test_columns_are_whole_numbers(vocabulary):
    with pytest.raises(TypeError, match="integer"):
        words_in_order(vocabulary)
