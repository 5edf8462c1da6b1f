"""However a library keeps its words, they come out by column."""

import pytest

from decbayes.errors import InvalidStructure
from decbayes.models.core.counts import words_in_order

WORDS = ("pear", "apple", "quince")


@pytest.mark.parametrize(
    "vocabulary",
    [WORDS, list(WORDS), iter(WORDS), {"quince": 2, "pear": 0, "apple": 1}, {2: "quince", 0: "pear", 1: "apple"}],
)
def test_words_come_out_by_column(vocabulary):
    assert words_in_order(vocabulary) == WORDS


@pytest.mark.parametrize("vocabulary", ["pear", {"pear": 0, "apple": 0}, {"pear": 1, "apple": 2}])
def test_what_names_no_columns_is_refused(vocabulary):
    with pytest.raises(InvalidStructure, match="The vocabulary"):
        words_in_order(vocabulary)


@pytest.mark.parametrize("vocabulary", [{"pear": 0.5}, {0.5: "pear"}, {"pear": "apple"}])
def test_columns_are_whole_numbers(vocabulary):
    with pytest.raises(TypeError, match="integer"):
        words_in_order(vocabulary)
