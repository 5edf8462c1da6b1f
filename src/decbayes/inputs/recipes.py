"""How texts become words: part of a topic model's structure, so that all sites do the same."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any
from unicodedata import normalize

from decbayes.base.extras import missing
from decbayes.errors import InvalidData, InvalidStructure
from decbayes.inputs.tables import opened, reading

# Scripts without spaces between words: Chinese characters, kana, Thai.
UNSPACED = "\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"

NAMED = {
    # Two or more letters or digits, of any alphabet, with at least one letter.
    "words": r"[^\W\d_][^\W_]+|\d+[^\W\d_][^\W_]*",
    # The same, but each character of a script without spaces is a word.
    "characters": rf"[{UNSPACED}]|[^\W\d_{UNSPACED}][^\W_{UNSPACED}]+|\d+[^\W\d_{UNSPACED}][^\W_{UNSPACED}]*",
}
WORDS = re.compile(NAMED["words"])
SEPARATED = "".join(chr(code) if chr(code).isalnum() else " " for code in range(128))
LOWERED = SEPARATED.lower()
LONGEST_EXPRESSION, MOST_NGRAMS = 500, 5

# This many such characters in a row are a sentence, not a word; and the share of such words that is worth a remark.
SENTENCE, MANY = re.compile(f"[{UNSPACED}]{{5}}"), 0.1

UNSPACED_REMEDY = "--tokens characters --ngrams 2, or a --tokenizer such as jieba:lcut, finds words in them"

# Scripts with combining signs, which are no letters to regular expressions: from Devanagari to Sinhala, Tibetan,
# Burmese, Khmer.
SIGNED = re.compile("[\u0900-\u0dff\u0f00-\u109f\u1780-\u17ff]")
SIGNED_REMEDY = (
    r"--tokens '[^\W\d_][\w\u0900-\u0963\u0970-\u0dff]+' (Hindi, Tamil and other scripts of India), or a --tokenizer, "
    "keeps words whole"
)

Tokenizer = Callable[[str], Iterable[str]]

# Tokenizers that the user of this process has named: a file from elsewhere cannot make us run any other.
_trusted: dict[str, Tokenizer] = {}


@dataclass(frozen=True)
class Recipe:
    """How a text becomes words. Sites that count the same words must make them in the same way.

    `tokens` is "words", "characters" (Chinese, Japanese and Thai without a tokenizer) or a regular expression that
    matches one word; a `tokenizer`, a function or its name "module:function", replaces it. `ngrams=2` also counts pairs
    of neighbouring words. Texts are in lower case unless `lower` is false, and in Unicode's composed form (NFC).

    >>> recipe = db.texts.Recipe(ngrams=2)
    >>> recipe.words("New York, new ideas")
    ['new', 'york', 'new', 'ideas', 'new york', 'york new', 'new ideas']
    """

    tokens: str = "words"
    tokenizer: str | Tokenizer = ""
    ngrams: int = 1
    lower: bool = True

    def __post_init__(self) -> None:
        if callable(self.tokenizer):
            object.__setattr__(self, "tokenizer", trust(self.tokenizer))
        check(self)

    @classmethod
    def of(cls, written: "str | Recipe") -> "Recipe":
        """A recipe from its text, as files hold it."""
        if isinstance(written, Recipe):
            return written
        try:
            return cls(**json.loads(written)) if written else cls()
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidStructure(f"This is not a recipe for texts: {type(error).__name__}.") from None

    def __str__(self) -> str:
        """The differences from the usual recipe, as JSON; empty if there are none."""
        usual = {field.name: field.default for field in fields(self)}
        unusual = {name: value for name, value in asdict(self).items() if value != usual[name]}
        return json.dumps(unusual, sort_keys=True, ensure_ascii=False) if unusual else ""

    def words(self, text: str) -> list[str]:
        """The words of a text, and its n-grams."""
        words = self.cut(text)
        return words if self.ngrams == 1 else [*words, *ngrams(words, self.ngrams)]

    @property
    def pieces(self) -> Callable[[str], list[str]]:
        """A function that cuts texts into words and, if that is faster, some pieces that `is_word` refuses."""
        return lowered_pieces if self._usual else self.words

    def is_word(self, piece: str) -> bool:
        return not self._usual or (len(piece) > 1 and not piece.isdigit())

    @cached_property
    def _usual(self) -> bool:
        return self == USUAL

    @cached_property
    def cut(self) -> Callable[[str], list[str]]:
        """The function that cuts a text into single words."""
        find, prepared = self._finder(), lowered if self.lower else composed
        return lambda text: find(prepared(text))

    def _finder(self) -> Callable[[str], list[str]]:
        if not self.tokenizer and self.tokens == "words":
            return words_in
        if not self.tokenizer:
            return re.compile(NAMED.get(self.tokens, self.tokens)).findall
        function = trusted(str(self.tokenizer))
        return lambda text: [word for word in function(text) if word.strip()]

    def allows(self, asked: "Recipe") -> bool:
        """Whether this recipe has every setting of `asked` that is not the default."""
        return all(getattr(asked, field.name) in (field.default, getattr(self, field.name)) for field in fields(self))

    def __reduce__(self) -> tuple[Any, ...]:
        # The cutting function cannot be pickled, and is made again.
        return Recipe, (self.tokens, self.tokenizer, self.ngrams, self.lower)


def lowered(text: str) -> str:
    return text.lower() if text.isascii() else normalize("NFC", text.lower())


def composed(text: str) -> str:
    return text if text.isascii() else normalize("NFC", text)


def words_in(text: str) -> list[str]:
    """The matches of the expression for "words", twice as fast in plain ASCII."""
    if text.isascii():
        return [word for word in text.translate(SEPARATED).split() if len(word) > 1 and not word.isdigit()]
    return WORDS.findall(text)


def lowered_pieces(text: str) -> list[str]:
    """The words of a text, and single letters and numbers."""
    return text.translate(LOWERED).split() if text.isascii() else WORDS.findall(lowered(text))


def ngrams(words: Sequence[str], most: int) -> Iterator[str]:
    """Two neighbouring words as one, three, and so on."""
    for size in range(2, most + 1):
        yield from map(" ".join, zip(*(words[first:] for first in range(size)), strict=False))


def trust(tokenizer: Tokenizer | str) -> str:
    """Trust a tokenizer that the user has chosen, so that recipes in files may name it; return its name."""
    if not tokenizer:
        return ""
    name = tokenizer if isinstance(tokenizer, str) else f"{tokenizer.__module__}:{tokenizer.__qualname__}"
    _trusted[name] = loaded(name) if isinstance(tokenizer, str) else tokenizer
    return name


def trusted(name: str) -> Tokenizer:
    """A tokenizer by name. A name in a file stands for code, which runs only if the user has named it, too."""
    if name not in _trusted:
        raise InvalidData(
            f"These texts are cut into words by {name}, a function that a file names. If you trust it, name it "
            f"yourself: --tokenizer {name} (in Python: db.texts.Recipe(tokenizer=…))."
        )
    return _trusted[name]


def loaded(name: str) -> Tokenizer:
    module, _, attribute = name.partition(":")
    try:
        function = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError):
        function = None
    if not callable(function):
        raise InvalidStructure(
            f"There is no tokenizer {name}: give MODULE:FUNCTION, such as jieba:lcut, of something that is installed."
        )
    return function  # type: ignore[no-any-return]


def unspaced(words: Iterable[str]) -> bool:
    """Whether many words are sentences of a script without spaces."""
    sentences = [SENTENCE.search(word) is not None for word in words]
    return sum(sentences) > MANY * len(sentences)


def in_pieces(words: Iterable[str]) -> bool:
    """Whether many words are pieces, cut at the combining signs of their script."""
    pieces = [SIGNED.search(word) is not None for word in words]
    return sum(pieces) > MANY * len(pieces)


def check(recipe: Recipe) -> None:
    """Refuse anything that is not a recipe, without loading a tokenizer."""
    kinds = {"tokens": str, "tokenizer": str, "ngrams": int, "lower": bool}
    wrong = [name for name, kind in kinds.items() if not isinstance(getattr(recipe, name), kind)]
    if wrong or isinstance(recipe.ngrams, bool) or not 1 <= recipe.ngrams <= MOST_NGRAMS:
        raise InvalidStructure(
            f"A recipe's {wrong[0] if wrong else 'ngrams'} is invalid: ngrams are 1 to {MOST_NGRAMS}, tokens and "
            "tokenizer are strings, lower is true or false."
        )
    if recipe.tokenizer and recipe.tokens != "words":
        raise InvalidStructure("A tokenizer replaces the expression for tokens; give only one of them.")
    if recipe.tokenizer and not re.fullmatch(r"[\w.]+:[\w.<>]+", str(recipe.tokenizer)):
        raise InvalidStructure("A tokenizer is named MODULE:FUNCTION, such as jieba:lcut.")
    check_expression(NAMED.get(recipe.tokens, recipe.tokens))


def check_expression(expression: str) -> None:
    if len(expression) > LONGEST_EXPRESSION:
        raise InvalidStructure(f"An expression for tokens has at most {LONGEST_EXPRESSION} characters.")
    try:
        compiled = re.compile(expression)
    except (re.error, OverflowError, RecursionError) as error:
        raise InvalidStructure(
            f"The expression for tokens is not a regular expression ({error}); ready-made: {', '.join(NAMED)}."
        ) from None
    if compiled.groups > 1 or compiled.match("") is not None:
        raise InvalidStructure(
            "The expression for tokens must match at least one character, and have at most one group; "
            "(?:…) does not count."
        )


USUAL = Recipe()


# The library's names of its lists; the longer one of its two English ones.
PREFIX, ENGLISH = "STOPWORDS_", ("EN_PLUS", "EN")
# Function words that the list lacks.
ALSO_ENGLISH = ("also", "could", "mr", "mrs", "ms", "might", "must", "one", "shall", "us", "would")
AUTO, NONE = "auto", "none"
# Share of stop words among the words of documents, and number of distinct ones, that identify a language.
COVERED, DIFFERENT = 0.08, 12


def stop_words_of(names: Iterable[str], recipe: Recipe) -> frozenset[str]:
    """The words of languages and files, as the recipe makes them: "don't" may be two."""
    listed = [word for name in names for word in words_of(name)]
    return frozenset(part for word in listed for part in (word, *recipe.cut(word)))


def stopping(names: str, recipe: Recipe) -> tuple[frozenset[str], bool]:
    """The requested stop words, and whether to leave out those of the texts' language, too."""
    given = [name.strip() for name in names.split(",") if name.strip()]
    if NONE in given and len(given) > 1:
        raise InvalidData(f"--stop-words {NONE} keeps all words: it cannot be combined with other names.")
    return stop_words_of([name for name in given if name not in (AUTO, NONE)], recipe), AUTO in given


def public_stop_words(names: str, language: str, recipe: Recipe) -> str:
    """The stop words of these languages and of the detected one; those of files stay at the site."""
    named = [name for name in map(str.strip, names.split(",")) if name not in ("", AUTO, NONE, language)]
    languages = [name for name in (*named, language) if name and not Path(name).is_file()]
    return " ".join(sorted(stop_words_of(languages, recipe)))


def ends(word: str) -> tuple[str, ...]:
    """A word; of a pair or more, also the first and the last word: none of these may be a stop word."""
    parts = word.split(" ")
    return word, parts[0], parts[-1]


def detected(occurrences: Mapping[str, int]) -> tuple[str, frozenset[str]]:
    """The language whose stop words fill the documents, and these; nothing if there is none, or no list.

    `occurrences` is the number of documents with each word.
    """
    total = sum(occurrences.values())
    if find_spec("bm25s") is None or not total:
        return "", frozenset()
    best = ("", frozenset[str](), 0.0)
    for language, listed in languages().items():
        present = frozenset(word for word in listed if word in occurrences)
        share = sum(occurrences[word] for word in present) / total
        if len(present) >= DIFFERENT and share > max(best[2], COVERED):
            best = (language, frozenset(listed), share)
    return best[0], best[1]


def words_of(name: str) -> Iterator[str]:
    if Path(name).is_file():
        with reading(Path(name), "text"), opened(Path(name)) as file:
            yield from filter(None, map(str.strip, file))
        return
    known = languages()
    if name.lower() not in known:
        raise InvalidData(
            f"There are no stop words for {name}. Name one of {', '.join(sorted(known))}, or a file with one word per "
            "line."
        )
    yield from known[name.lower()]


def languages() -> dict[str, tuple[str, ...]]:
    """Stop words by the English name of the language: the lists of Snowball and NLTK, as bm25s has them."""
    library: Any = lists()
    named = {name.removeprefix(PREFIX): name for name in vars(library) if name.startswith(PREFIX)}
    english = next(named[name] for name in ENGLISH if name in named)
    listed_words = {name.lower(): listed for name, listed in named.items() if name not in ENGLISH} | {
        "english": english
    }
    words = {name: tuple(getattr(library, listed)) for name, listed in listed_words.items()}
    return words | {"english": (*words["english"], *ALSO_ENGLISH)}


def lists() -> Any:
    """Only the module with the lists: the whole library would also load JAX if installed."""
    spec = find_spec("bm25s")
    if spec is None or not spec.submodule_search_locations:
        raise missing("Stop words by language", ["bm25s"], ["texts"])
    file = spec_from_file_location("bm25s_stopwords", Path(spec.submodule_search_locations[0]) / "stopwords.py")
    assert file is not None
    assert file.loader is not None
    module = module_from_spec(file)
    file.loader.exec_module(module)
    return module
