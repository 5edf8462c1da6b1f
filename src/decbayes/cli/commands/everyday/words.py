"""`decbayes words`: list the words of one site's texts, for a vocabulary that all sites share."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from cyclopts import Parameter
from cyclopts.types import NonNegativeInt, PositiveInt
from cyclopts.validators import Number

from decbayes.cli.shared.common_options import AS_THEY_ARE, Reading
from decbayes.cli.shared.outputs import check_output, output_option
from decbayes.cli.shared.sharing import PersonOption, RulesOption, least_listed, rules_in_force
from decbayes.cli.shared.standard_streams import json_option, print_json, write_text
from decbayes.cli.shared.terminal import messages, plain, plural, print_written
from decbayes.disclosure import Rules
from decbayes.disclosure.preparing import check_size
from decbayes.errors import InvalidData
from decbayes.inputs.documents import Choice, holds_counts, public_numbers, read_documents
from decbayes.inputs.recipes import Recipe, public_stop_words, stopping, trust
from decbayes.inputs.texts import FORMATS, STANDARD_INPUT
from decbayes.inputs.word_lists import Vocabulary, is_list, joined
from decbayes.models.core.persons import EACH
from decbayes.models.topics import LatentDirichletAllocation
from decbayes.models.topics.sources import agreed_words, authors, report_reading, text_source
from decbayes.remarks import listed


def words(
    data: Annotated[list[Path], Parameter(help="Texts, as for `decbayes fit topics`; or .words files to combine.")],
    /,
    *,
    output: Annotated[Path, output_option("Where to write the words, one per line.")],
    least_documents: Annotated[
        PositiveInt | None,
        Parameter(
            help="Ignore words in fewer documents; default: the least number that the rules allow, and for lists none."
        ),
    ] = None,
    most_share: Annotated[
        float, Parameter(help="Ignore words in a larger share of the documents.", validator=Number(gt=0, lte=1))
    ] = 0.5,
    most_words: Annotated[NonNegativeInt, Parameter(help="Keep only the most frequent words; 0 keeps all.")] = 0,
    stop_words: Annotated[
        str,
        Parameter(
            help="Words to ignore: languages or files, separated by commas; 'auto' chooses by the texts; 'none'."
        ),
    ] = "auto",
    ngrams: Annotated[PositiveInt, Parameter(help="Also list pairs of neighbouring words (2), triples (3), …")] = 1,
    tokens: Annotated[str, Parameter(help="What counts: words, characters, or a regular expression.")] = "words",
    keep_case: Annotated[bool, Parameter(help="Do not convert texts to lower case.")] = False,
    person: PersonOption = "",
    rules: RulesOption = None,
    as_json: Annotated[bool, json_option("list", "file", "words")] = False,
    reading: Reading = AS_THEY_ARE,
) -> None:
    """Write the words of texts, one per line, and how they were made; or combine the lists of several sites.

    Each word has its number of documents, rounded down to a multiple of --least-documents. Combined lists add them up.
    """
    check_output(output, *data, text=True, as_json=as_json)
    lists = [path for path in data if is_list(path)]
    if lists and lists != data:
        raise InvalidData(
            f"{lists[0]} is a list of words, but other files are not: combine lists, or list the words of texts."
        )
    if lists:
        asked = Recipe(tokens, trust(reading.tokenizer), ngrams, not keep_case)
        combined = joined((path, agreed_words(path, asked)) for path in lists)
        named, auto = stopping(stop_words, combined.recipe)
        kept = combined.without_stopped() if auto else combined
        if left := {*combined.words, *dict(combined.common)} - {*kept.words, *dict(kept.common)}:
            what = f"Left out, because other lists leave them out as stop words: {listed([*left])}"
            messages().print(plain(f"{what}. --stop-words none keeps them."))
        vocabulary = kept.without(Choice(stop_words=named).stops).without_common(most_share)
        if vocabulary.common:
            left_out = plural(len(vocabulary.common), "word")
            messages().print(f"Left out, because more than {most_share:.0%} of all documents have them: {left_out}.")
        if least_documents or most_words:
            vocabulary = vocabulary.frequent(least_documents or 0, most_words)
    else:
        how: dict[str, Any] = {"stop_words": stop_words, "ngrams": ngrams, "tokens": tokens, "keep_case": keep_case}
        how |= {"least_documents": least_documents, "most_share": most_share, "most_words": most_words}
        vocabulary = words_of(data, reading, rules_in_force(rules), person, **how)
    write_text(output, vocabulary.text())
    print_written(output, f"{len(vocabulary.words):,} distinct words")
    if as_json:
        print_json({"file": output, "words": len(vocabulary.words)})


def words_of(
    data: Sequence[Path],
    reading: Reading,
    rules: Rules | None,
    person: str,
    *,
    stop_words: str = "auto",
    ngrams: int = 1,
    tokens: str = "words",
    keep_case: bool = False,
    least_documents: int | None = None,
    most_share: float = 0.5,
    most_words: int = 0,
) -> Vocabulary:
    """The words that a site may list, and how they were made."""
    recipe = Recipe(tokens, trust(reading.tokenizer), ngrams, not keep_case)
    choice = Choice(least_listed(least_documents, rules), most_share, most_words, *stopping(stop_words, recipe))
    vocabulary, language = list_words(list(data), reading, recipe, choice, person, rules)
    stopped = public_stop_words(stop_words, language, recipe)
    return vocabulary._replace(stopped=((stopped, vocabulary.size),) if stopped else ())


def list_words(
    data: list[Path], reading: Reading, recipe: Recipe, choice: Choice, person: str, rules: Rules | None
) -> tuple[Vocabulary, str]:
    """The words of these texts, and the language whose stop words were left out by default."""
    for path in data:
        if path != STANDARD_INPUT:
            path.stat()  # report a missing file as missing, not as one without texts
    how = reading
    source = text_source(data, how.columns, how.format, how.encoding, how.whole, how.strict)
    if STANDARD_INPUT not in data and holds_counts(source):
        raise InvalidData(
            f"{data[0]}: only texts have words to list (.{', .'.join(FORMATS)}). For a table, they are in its column "
            "'text', or in --columns NAME."
        )
    documents = read_documents(source, recipe=recipe, choice=choice)
    report_reading(documents, "too rare, too common or stop words", recipe, messages().print)
    counts, least = documents.counts, choice.least_documents
    people = authors(source, person) if person else EACH
    if rules is not None:
        check_size(people.total(counts.shape[0]), "persons" if person else "documents", rules)
    if not person:
        chosen = documents.chosen
        common = tuple((word, number // least * least) for word, number in chosen.common)
        size = chosen.size // least * least
        return Vocabulary(documents.vocabulary, recipe, public_numbers(counts, least), size, common), chosen.language
    model = LatentDirichletAllocation(1, documents.vocabulary)
    persons = model.documents_with(counts, people).astype(np.int64)
    enough = np.flatnonzero(persons >= least)
    if not len(enough):
        raise InvalidData(f"No word is used by {least} or more different persons.")
    numbers = tuple((persons[enough] // least * least).tolist())
    words = tuple(documents.vocabulary[place] for place in enough)
    return Vocabulary(words, recipe, numbers), documents.chosen.language
