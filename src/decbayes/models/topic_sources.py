"""Where topics come from: the options that say how texts are read, and what is said about them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from decbayes.errors import InvalidData
from decbayes.inputs.documents import Documents
from decbayes.inputs.recipes import UNSPACED_REMEDY, Recipe, unspaced
from decbayes.inputs.tables import Report
from decbayes.inputs.texts import Texts
from decbayes.inputs.vocabularies import read_vocabulary
from decbayes.models.model import split_names

TextColumns = Annotated[str, "Columns of a table that hold the texts, separated by commas; default: text."]
Tokenizer = Annotated[str, "MODULE:FUNCTION that cuts a text into words."]
Format = Annotated[str, "What files are, whatever their names: txt, jsonl, csv or parquet."]
Encoding = Annotated[str, "Encoding of the texts."]
Whole = Annotated[bool, "Each .txt file is one document; in folders it is anyway."]
Strict = Annotated[bool, "Stop at a line that is no document, instead of leaving it out."]

SOURCES = frozenset({"columns", "format", "encoding", "whole", "strict", "tokenizer"})


def text_source(
    path: str | Path | Sequence[str | Path], columns: str, format: str, encoding: str, whole: bool, strict: bool
) -> Texts:
    paths = (Path(path),) if isinstance(path, str | Path) else tuple(map(Path, path))
    if not paths:
        raise InvalidData("Name the files or folders with the texts.")
    return Texts(paths, tuple(split_names(columns)), format, encoding, whole, strict)


def agreed_words(vocabulary: Path | None, asked: Recipe) -> tuple[tuple[str, ...], Recipe]:
    """The words of a list and their recipe; the recipe that was asked for where there is no list.

    A tokenizer is asked for again by everybody who uses the list: it is code.
    """
    if vocabulary is None:
        return (), asked
    words, recipe = read_vocabulary(vocabulary)
    if not recipe.allows(asked):
        said = str(recipe) or "in the usual way"
        raise InvalidData(
            f"{vocabulary} says how texts become words ({said}); the options say something else. "
            "Leave --tokens, --tokenizer, --ngrams and --keep-case out, or make the list again with them."
        )
    return words, recipe


def report_reading(documents: Documents, cause: str, recipe: Recipe, report: Report) -> None:
    """Report what was left out, and words that look like sentences."""
    for line in documents.left_out:
        report(line)
    if documents.unknown:
        report(f"{documents.unknown:,} words of the documents are {cause} and are ignored.")
    if recipe.tokens == "words" and not recipe.tokenizer and unspaced(documents.vocabulary):
        report(f"Many words look like sentences of a script without spaces; {UNSPACED_REMEDY}.")
