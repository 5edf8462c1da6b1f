"""Documents of topic models: options for reading texts, and reports on them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from scipy.sparse import csr_array, issparse

from decbayes.base.arguments import Above
from decbayes.errors import InvalidData
from decbayes.families import Array
from decbayes.inputs.chunks import in_batches
from decbayes.inputs.documents import (
    Choice,
    Counting,
    Documents,
    counted_blocks,
    holds_counts,
    public_numbers,
    read_documents,
)
from decbayes.inputs.recipes import NAMED, SIGNED_REMEDY, UNSPACED_REMEDY, Recipe, in_pieces, stopping, trust, unspaced
from decbayes.inputs.tables import Report
from decbayes.inputs.texts import (
    Encoding,
    Format,
    LeftOut,
    Strict,
    TextColumns,
    Texts,
    TokenizerName,
    Whole,
    without_standard_input,
)
from decbayes.inputs.word_lists import Vocabulary, read_vocabulary
from decbayes.models.core.counts import Counts
from decbayes.models.core.model import Model, ignore, split_names
from decbayes.models.core.persons import Persons
from decbayes.models.core.settings import Number
from decbayes.models.core.transforms import BLOCK, Observed, in_slices

UNKNOWN = "not in the vocabulary"
# Without stop words and rare ones, a vocabulary has about a third of all occurrences.
FEW_KNOWN = 0.15


class OfTexts(Model):
    """A model of word counts that reads texts and knows how they become words."""

    vocabulary: Sequence[str]
    recipe: Recipe

    reading_options: ClassVar[frozenset[str]] = frozenset(
        {"columns", "format", "encoding", "whole", "strict", "tokenizer"}
    )
    many_files: ClassVar[bool] = True

    @classmethod
    def without_data(
        cls, *, words: Annotated[int, "Words in the vocabulary.", Above(0)] = 500, **settings: Any
    ) -> Self:
        """A vocabulary of made-up words."""
        settings["vocabulary"] = tuple(f"word{number}" for number in range(words))
        return cls(**settings)

    @classmethod
    def from_file(
        cls,
        path: Path | Sequence[Path],
        *,
        topics: Number = 20,
        vocabulary: Annotated[
            Path | None,
            "The words that all sites count, one per line, with their recipe and public numbers of documents.",
        ] = None,
        stop_words: Annotated[
            str, "Words to ignore: languages or files, separated by commas; 'auto': by the texts; 'none'."
        ] = "auto",
        ngrams: Annotated[int, "Count pairs of neighbouring words (2), also three (3), and so on."] = 1,
        tokens: Annotated[str, "What a word is: words, characters, or a regular expression."] = "words",
        tokenizer: TokenizerName = "",
        keep_case: Annotated[bool, "Do not turn texts into lower case."] = False,
        least_documents: Annotated[int, "Without a vocabulary: ignore words in fewer documents.", Above(0)] = 5,
        most_share: Annotated[float, "Without a vocabulary: ignore words in a larger share of them.", Above(0)] = 0.5,
        most_words: Annotated[int, "Without a vocabulary: keep only the most frequent ones.", Above(0)] = 0,
        columns: TextColumns = "",
        format: Format = "",
        encoding: Encoding = "utf-8",
        whole: Whole = False,
        strict: Strict = False,
        report: Report = ignore,
        **settings: Any,
    ) -> tuple[Self, Any]:
        """Texts are read from .txt, .jsonl, .csv, .tsv and .parquet files, folders of them, and standard input (-).

        Sites must count the same words: give all of them the same --vocabulary, or give the later ones --like with
        the first site's posterior. Without either, the vocabulary is the words of the file, without the rarest words
        and those that most documents contain. --stop-words, or a smaller --most-share, gives clearer topics. How texts
        become words (--tokens, --tokenizer, --ngrams, --keep-case) is kept with the words, for all who use them.
        """
        source = text_source(path, columns, format, encoding, whole, strict)
        listed = agreed_words(vocabulary, Recipe(tokens, trust(tokenizer), ngrams, not keep_case))
        words, recipe = listed.words, listed.recipe
        choice = Choice(least_documents, most_share, most_words, *stopping(stop_words, recipe))
        documents = read_documents(source, words, recipe=recipe, choice=choice)
        stopped = choice.stop_words or documents.chosen.language
        common = f" or in more than {most_share:.0%} of them" if most_share < 1.0 else ""
        rare = f"in fewer than {least_documents} documents{common}"
        report_reading(documents, UNKNOWN if words else f"stop words, {rare}" if stopped else rare, recipe, report)
        report_empty(documents, report)
        public = listed.documents if words else public_numbers(documents.counts, least_documents)
        model: Any = cls
        made = model(topics, documents.vocabulary, recipe=recipe, public_documents=public, **settings)
        return made, documents.counts

    def read(
        self, path: Any, *, columns: str = "", tokenizer: str = "", report: Report = ignore, **reading_options: Any
    ) -> Any:
        """Counts of the model's words, made by its recipe; `reading_options` are those of `from_file`."""
        trust(tokenizer)
        documents = read_documents(text_source(path, columns, **reading_options), self.vocabulary, recipe=self.recipe)
        report_reading(documents, UNKNOWN, self.recipe, report)
        report_empty(documents, report)
        return documents.counts

    def opened(self, data: Any) -> Any:
        """Counts, read from a file if a path is given; of a frame, the columns that are called like the words."""
        counts = super().opened(data)
        if isinstance(counts, Counts | np.ndarray) or issparse(counts):
            return counts
        from decbayes.columns.frames import by_name  # few have frames of counts

        return by_name(counts, self.vocabulary)

    def persons(
        self,
        path: Any,
        column: str,
        *,
        columns: str = "",
        tokenizer: str = "",
        report: Report = ignore,
        **reading_options: Any,
    ) -> Persons:
        """The author of each document, by a column of the table or a key of the JSON lines with the texts."""
        return authors(text_source(path, columns, **reading_options), column)

    def ids(self, path: Any, column: str, *, columns: str = "", **reading_options: Any) -> dict[str, str]:
        """The id of each document, by a column of the table or a key of the JSON lines, keyed by its position."""
        source = text_source(path, columns, **reading_options)
        if any(source.kind(file) == "txt" for file, _ in source.files(LeftOut())):
            raise InvalidData(f"Plain texts have no column '{column}'. Ids are in tables and JSON lines.")
        return by_place(source, column)

    def stream(
        self, path: Any, *, tokenizer: str = "", report: Report = ignore, **reading_options: Any
    ) -> Iterator[Observed]:
        """Counts of documents in blocks: texts are never in memory together."""
        trust(tokenizer)
        return streamed(text_source(path, **reading_options), Counting(self.vocabulary, self.recipe), report)

    def counted(self, texts: Iterable[str]) -> csr_array:
        """(documents, words): counts of the model's words in texts in memory."""
        return Counting(self.vocabulary, self.recipe)(list(texts))[0]

    def made(self) -> dict[str, str]:
        """The recipe for the structure; the usual one is omitted."""
        return {"recipe": str(self.recipe)} if str(self.recipe) else {}


def text_source(
    path: str | Path | Sequence[str | Path],
    columns: str = "",
    format: str = "",
    encoding: str = "utf-8",
    whole: bool = False,
    strict: bool = False,
) -> Texts:
    paths = (Path(path),) if isinstance(path, str | Path) else tuple(map(Path, path))
    if not paths:
        raise InvalidData("Name the files or folders with the texts.")
    return Texts(paths, tuple(split_names(columns)), format, encoding, whole, strict)


def authors(source: Texts, column: str) -> Persons:
    """The author of each document, matched by positions of documents and authors in the files."""
    if any(source.kind(file) == "txt" for file, _ in source.files(LeftOut())):
        raise InvalidData(f"Plain texts have no column '{column}'. Authors are named in tables and JSON lines.")
    names = by_place(source, column)
    return Persons.of(names.get(place) or None for place, _ in source.read(LeftOut()))


def by_place(source: Texts, column: str) -> dict[str, str]:
    """A column's value for each document, such as an author or an id, by the document's position."""
    return dict(replace(source, columns=(column,), strict=False, numbers=True).read(LeftOut()))


def agreed_words(vocabulary: Path | None, asked: Recipe) -> Vocabulary:
    """The words of a list and their recipe; without a list, no words and the requested recipe.

    A tokenizer must be requested again by everybody who uses the list, because it is code.
    """
    if vocabulary is None:
        return Vocabulary((), asked)
    listed = read_vocabulary(vocabulary)
    if not listed.recipe.allows(asked):
        written = str(listed.recipe) or "in the usual way"
        raise InvalidData(
            f"{vocabulary} says how texts become words ({written}); the options say something else. "
            "Leave --tokens, --tokenizer, --ngrams and --keep-case out, or make the list again with them."
        )
    return listed


def report_reading(documents: Documents, cause: str, recipe: Recipe, report: Report) -> None:
    """Report what was left out, and words that look like sentences."""
    for line in documents.left_out:
        report(line)
    if documents.chosen.language:
        report(f"Stop words are left out ({documents.chosen.language.capitalize()}); --stop-words none keeps them.")
    if documents.unknown:
        total = documents.known + documents.unknown
        report(
            f"{documents.unknown:,} of {total:,} occurrences of words ({documents.unknown / total:.0%}) are ignored: "
            f"these words are {cause}."
        )
        if cause == UNKNOWN and documents.known < FEW_KNOWN * total:
            report(
                "Hardly any words are known: is the vocabulary short, are these texts in another language, or were its "
                "words made in another way?"
            )
    if recipe.tokenizer or recipe.tokens not in NAMED:
        return
    if recipe.tokens == "words" and unspaced(documents.vocabulary):
        report(f"Many words look like sentences of a script without spaces; {UNSPACED_REMEDY}.")
    if in_pieces(documents.vocabulary):
        report(f"Many words are pieces, cut at the combining signs of their script; {SIGNED_REMEDY}.")


def report_empty(documents: Documents, report: Report) -> None:
    """Report documents that are counted, but have no word of the vocabulary."""
    empty = [tokens_of(block) == 0 for block in counted_blocks(documents.counts)]
    number, size = int(sum(map(np.count_nonzero, empty))), sum(map(len, empty))
    if number:
        report(f"{number:,} of {size:,} documents have no known word: they are counted, but say nothing about topics.")


def streamed(source: Texts, counting: Counting, report: Report) -> Iterator[Observed]:
    """Counts of documents in blocks; at the end, report what was left out."""
    texts, _copy = without_standard_input(source)
    if holds_counts(texts):
        documents = read_documents(texts, counting.vocabulary)
        yield from in_slices(documents.counts)
        return report_reading(documents, UNKNOWN, counting.recipe, report)
    left_out, known, unknown = LeftOut(), [0], [0]

    def counted(batch: Sequence[tuple[str, str]]) -> csr_array:
        counts, ignored = counting(text for _, text in batch)
        known.append(int(counts.sum()))
        unknown.append(ignored)
        return counts

    for batch in in_batches(texts.read(left_out), BLOCK):
        yield Observed(partial(counted, batch), [place for place, _ in batch])
    read = Documents(None, (), sum(unknown), left_out, known=sum(known))
    return report_reading(read, UNKNOWN, counting.recipe, report)


def tokens_of(counts: Any) -> Array:
    """The number of words in each document."""
    return np.asarray(counts.sum(axis=1), dtype=np.float64).ravel()
