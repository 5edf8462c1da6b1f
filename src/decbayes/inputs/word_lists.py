"""Lists of words in files: one per line with its number of documents, and a line with the recipe of the words."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, islice, repeat
from math import inf
from pathlib import Path
from typing import NamedTuple

from decbayes.errors import InvalidData, InvalidStructure
from decbayes.inputs.recipes import USUAL, Recipe, ends
from decbayes.inputs.tables import ending, opened, reading

# `sort -u` of several lists leaves one such line if the sites agree, and it may be anywhere.
MARK = "# decbayes recipe "
# The number of documents behind a list, and words that most of them have: these do not count, unless lists of other
# sites are joined to it and most documents of all sites lack them.
SIZE, COMMON = "# decbayes documents ", "# decbayes common "
# Stop words of the texts' language, and the number of documents without them.
STOPPED = "# decbayes stopped "
OUR_LINES = (MARK, SIZE, COMMON, STOPPED)
LONGEST_NUMBER = 15
LIST, LOOKED_AT = ".words", 20


class Vocabulary(NamedTuple):
    """The words that count, and how texts become words.

    `documents` is the public number of documents with each word; empty if unknown. `size` is the number of documents, 0
    if unknown, and `common` are words that too many of them have, with numbers. `stopped` are stop words of languages,
    separated by spaces, with the number of documents in which they do not count, 0 if unknown.
    """

    words: tuple[str, ...]
    recipe: Recipe = USUAL
    documents: tuple[int, ...] = ()
    size: int = 0
    common: tuple[tuple[str, int], ...] = ()
    stopped: tuple[tuple[str, int], ...] = ()

    def text(self) -> str:
        recipe = str(self.recipe)
        numbers = [f"\t{number}" if number else "" for number in self.documents] or [""] * len(self.words)
        first = [f"{MARK}{recipe}"] if recipe else []
        first += [f"{SIZE}{self.size}"] if self.size else []
        first += [f"{COMMON}{word}\t{number}" for word, number in self.common]
        first += [f"{STOPPED}{words}\t{number}" for words, number in self.stopped]
        return "".join(f"{line}\n" for line in [*first, *map("".join, zip(self.words, numbers, strict=True))])

    @property
    def numbered(self) -> list[tuple[str, int]]:
        """The words that count with their numbers of documents, 0 if unknown."""
        return [*zip(self.words, self.documents or repeat(0), strict=False)]

    def without_common(self, most_share: float) -> "Vocabulary":
        """Remove words that more than this share of all documents have; other common words count again."""
        most = most_share * self.size if self.size else inf
        every = sorted([*self.numbered, *self.common])
        common = tuple((word, number) for word, number in every if number > most)
        return self.of([(word, number) for word, number in every if number <= most])._replace(common=common)

    def frequent(self, least: int, most_words: int) -> "Vocabulary":
        """Only words in this many documents or more, and only the most frequent of them; 0 keeps all."""
        if not self.documents:
            raise InvalidData("These lists have no numbers of documents, so nothing says which words are frequent.")
        kept = sorted(((word, number) for word, number in self.numbered if number >= least), key=lambda it: -it[1])
        if not kept:
            raise InvalidData(f"No word is in {least:,} documents: lower --least-documents or raise --most-share.")
        return self.of(sorted(kept[: most_words or None]))

    def of(self, kept: Sequence[tuple[str, int]]) -> "Vocabulary":
        """The same with only these words."""
        words, numbers = tuple(word for word, _ in kept), tuple(number for _, number in kept)
        return self._replace(words=words, documents=numbers if any(numbers) else ())

    def without_stopped(self) -> "Vocabulary":
        """Remove what some lists left out as stop words, unless the other lists have it in more documents than theirs.

        A stop word is in nearly all documents of its language: "the" in German ones is a quotation, "war" is a word in
        English ones and a stop word in German ones.
        """
        without: dict[str, float] = {}
        for words, number in self.stopped:
            without |= {word: without.get(word, 0.0) + (number or inf) for word in words.split()}
        listed = dict([*self.numbered, *self.common])
        return self.without(lambda word: listed[word] <= max(without.get(part, -1.0) for part in ends(word)))

    def without(self, stops: Callable[[str], bool]) -> "Vocabulary":
        """Remove stop words."""
        common = tuple((word, number) for word, number in self.common if not stops(word))
        return self.of([(word, number) for word, number in self.numbered if not stops(word)])._replace(common=common)


def read_vocabulary(path: Path) -> Vocabulary:
    """One word per line, and after a tab its number of documents. A list must not have two recipes."""
    with reading(path, "text"), opened(path) as file:
        lines = [line.strip() for line in file if line.strip()]
    listed = [word_and_number(line, path) for line in lines if not line.startswith(OUR_LINES)]
    common = tuple(word_and_number(line.removeprefix(COMMON), path) for line in lines if line.startswith(COMMON))
    stopped = tuple(word_and_number(line.removeprefix(STOPPED), path) for line in lines if line.startswith(STOPPED))
    sizes = [word_and_number(f"\t{line.removeprefix(SIZE)}", path)[1] for line in lines if line.startswith(SIZE)]
    recipes = {line.removeprefix(MARK) for line in lines if line.startswith(MARK)}
    if not listed:
        raise InvalidData(f"{path} holds no words; one per line is expected.")
    twice = Counter(word for word, number in listed if not number)
    if len(twice) < twice.total():
        raise InvalidData(
            f"{path}: {twice.total() - len(twice):,} words are listed more than once; `sort -u` removes them."
        )
    if len(recipes) > 1:
        raise InvalidData(
            f"{path}: its words were made by different recipes ({' and '.join(sorted(recipes))}), so sites would count "
            "different things. Let all sites run `decbayes words` with the same options."
        )
    try:
        whole = with_sums(listed, Recipe.of(recipes.pop() if recipes else ""))
        whole = whole._replace(stopped=stopped)
        return whole._replace(size=sizes[0], common=common) if len(sizes) == 1 else whole
    except InvalidStructure as error:
        raise InvalidData(f"{path}: {error}") from None


def word_and_number(line: str, path: Path) -> tuple[str, int]:
    """A word, and its number of documents; 0 if not stated."""
    word, _, number = (part.strip() for part in line.partition("\t"))
    if number and not (number.isascii() and number.isdigit() and len(number) <= LONGEST_NUMBER):
        raise InvalidData(f"{path}: a word is followed by a tab and its number of documents, or by nothing.")
    return word, int(number or 0)


def with_sums(listed: Iterable[tuple[str, int]], recipe: Recipe) -> Vocabulary:
    """Words in the order of their first mention, with the sums of their numbers."""
    total: Counter[str] = Counter()
    for word, number in listed:
        total[word] += number
    return Vocabulary(tuple(total), recipe, tuple(total.values()) if any(total.values()) else ())


def joined(lists: Iterable[tuple[Path, Vocabulary]]) -> Vocabulary:
    """The words of all lists, in alphabetical order; refused if they were made by different recipes."""
    (first, vocabulary), *others = lists
    for path, other in others:
        if other.recipe != vocabulary.recipe:
            recipes = " and ".join(str(words.recipe) or "the usual one" for words in (other, vocabulary))
            raise InvalidData(
                f"{path} and {first} were made by different recipes ({recipes}). Let all sites run `decbayes words` "
                "with the same options."
            )
    all_lists = (vocabulary, *(other for _, other in others))
    listed = chain.from_iterable(words.numbered for words in all_lists)
    stops = [entry for words in all_lists for entry in words.stopped]
    sizes = {words: [number for other, number in stops if other == words] for words, _ in stops}
    stopped = tuple((words, sum(numbers) if all(numbers) else 0) for words, numbers in sorted(sizes.items()))
    whole = with_sums(sorted(listed), vocabulary.recipe)._replace(stopped=stopped)
    if not all(words.size for words in all_lists):
        return whole
    common = {word for words in all_lists for word, _ in words.common}
    total = Counter(dict(whole.numbered))
    for words in all_lists:
        total.update(dict(words.common))
    kept = [(word, total[word]) for word in whole.words if word not in common]
    frequent = tuple((word, total[word]) for word in sorted(common))
    size = sum(words.size for words in all_lists)
    rest, numbers = tuple(word for word, _ in kept), tuple(number for _, number in kept)
    return Vocabulary(rest, whole.recipe, numbers, size, frequent, stopped)


def is_list(path: Path) -> bool:
    """Whether a file is a list of words with numbers, as `decbayes words` writes it, whatever its name."""
    if path.suffix == LIST:
        return True
    if not path.is_file() or ending(path) not in ("", "txt"):
        return False
    with opened(path, "utf-8", "surrogateescape") as file:
        lines = [line.rstrip("\n") for line in islice(file, LOOKED_AT)]
    marked = any(line.startswith(OUR_LINES) for line in lines)
    numbers = [line.rpartition("\t")[2] for line in lines if line and not line.startswith(OUR_LINES)]
    return marked or (bool(numbers) and all("\t" in line for line in lines) and all(map(str.isdecimal, numbers)))
