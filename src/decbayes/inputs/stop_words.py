"""Everyday words by language, and lists of them in files."""

from collections.abc import Iterable, Iterator
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from decbayes.errors import InvalidData
from decbayes.extras import missing
from decbayes.inputs.recipes import Recipe
from decbayes.inputs.tables import opened, reading

# The library's names of its lists; of its two English ones the longer.
PREFIX, ENGLISH = "STOPWORDS_", ("EN_PLUS", "EN")


def stop_words_of(names: Iterable[str], recipe: Recipe) -> frozenset[str]:
    """The words of languages and files, as the recipe makes words of them: "don't" may be two."""
    listed = [word for name in names for word in words_of(name)]
    return frozenset(part for word in listed for part in (word, *recipe.cut(word)))


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
    found = {name.lower(): listed for name, listed in named.items() if name not in ENGLISH} | {"english": english}
    return {name: tuple(getattr(library, listed)) for name, listed in found.items()}


def lists() -> Any:
    """The module with the lists alone: the library as a whole would also load JAX where that is installed."""
    spec = find_spec("bm25s")
    if spec is None or not spec.submodule_search_locations:
        raise missing("Stop words by language", ["bm25s"], ["texts"])
    file = spec_from_file_location("bm25s_stopwords", Path(spec.submodule_search_locations[0]) / "stopwords.py")
    assert file is not None
    assert file.loader is not None
    module = module_from_spec(file)
    file.loader.exec_module(module)
    return module
