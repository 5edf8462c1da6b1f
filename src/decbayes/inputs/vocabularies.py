"""Lists of words in files: one per line, and the recipe that the words were made by in a line of its own."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from decbayes.errors import InvalidData, InvalidStructure
from decbayes.inputs.recipes import USUAL, Recipe
from decbayes.inputs.tables import opened, reading

# `sort -u` of several lists leaves one such line if the sites agree, and it may be anywhere.
MARK = "# decbayes recipe "


class Vocabulary(NamedTuple):
    """The words that count, and how texts become words."""

    words: tuple[str, ...]
    recipe: Recipe = USUAL

    def text(self) -> str:
        said = str(self.recipe)
        return "".join(f"{line}\n" for line in ([f"{MARK}{said}"] if said else []) + list(self.words))


def read_vocabulary(path: Path) -> Vocabulary:
    """One word per line. Two recipes in one list cannot both hold."""
    with reading(path, "text"), opened(path) as file:
        lines = [line.strip() for line in file if line.strip()]
    words = tuple(line for line in lines if not line.startswith(MARK))
    recipes = {line.removeprefix(MARK) for line in lines if line.startswith(MARK)}
    if not words:
        raise InvalidData(f"{path} holds no words; one per line is expected.")
    if len(set(words)) != len(words):
        twice = len(words) - len(set(words))
        raise InvalidData(f"{path}: {twice:,} words are listed more than once; `sort -u` removes them.")
    if len(recipes) > 1:
        raise InvalidData(
            f"{path}: its words were made by different recipes ({' and '.join(sorted(recipes))}), so sites would count "
            "different things. Let all sites run `decbayes words` with the same options."
        )
    try:
        return Vocabulary(words, Recipe.of(recipes.pop() if recipes else ""))
    except InvalidStructure as error:
        raise InvalidData(f"{path}: {error}") from None


def joined(lists: Iterable[tuple[Path, Vocabulary]]) -> Vocabulary:
    """The words of all lists, in alphabetical order; refused if they were made by different recipes."""
    (first, vocabulary), *others = lists
    for path, other in others:
        if other.recipe != vocabulary.recipe:
            recipes = " and ".join(str(each.recipe) or "the usual one" for each in (other, vocabulary))
            raise InvalidData(
                f"{path} and {first} were made by different recipes ({recipes}). Let all sites run `decbayes words` "
                "with the same options."
            )
    words = set(vocabulary.words).union(*(other.words for _, other in others))
    return Vocabulary(tuple(sorted(words)), vocabulary.recipe)
