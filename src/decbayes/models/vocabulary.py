"""The words of a topic model in the order of its columns, however libraries keep them."""

from collections.abc import Iterable, Mapping
from operator import index
from typing import Any

from decbayes.errors import InvalidStructure

Vocabulary = Iterable[str] | Mapping[str, int] | Mapping[int, str]


def words_in_order(vocabulary: Vocabulary) -> tuple[str, ...]:
    """The words by column: of words in order, of {word: column} as scikit-learn's `CountVectorizer` keeps them
    (whose order is another one), or of {column: word} as gensim's `Dictionary` does.
    """
    if isinstance(vocabulary, str):
        raise InvalidStructure("The vocabulary must be a list of words, not one string.")
    if not isinstance(vocabulary, Mapping):
        return tuple(map(str, vocabulary))
    by_column = dict(map(column_and_word, vocabulary.items()))
    if sorted(by_column) != list(range(len(vocabulary))):
        raise InvalidStructure(f"The vocabulary's columns are not 0 to {len(vocabulary) - 1}, each of them once.")
    return tuple(by_column[column] for column in range(len(by_column)))


def column_and_word(item: tuple[Any, Any]) -> tuple[int, str]:
    key, value = item
    return (index(value), key) if isinstance(key, str) else (index(key), str(value))
