"""`decbayes quality`: how readable topics are, on the documents of one site or of all."""

import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from cyclopts import Parameter
from cyclopts.types import NonNegativeInt, PositiveInt
from rich.table import Table

from decbayes.cli.shared.common_options import AS_THEY_ARE, Reading, model_input
from decbayes.cli.shared.outputs import check_output, output_option
from decbayes.cli.shared.running import WrongArgument
from decbayes.cli.shared.sharing import PersonOption, RulesOption, persons_of, rules_in_force
from decbayes.cli.shared.standard_streams import STANDARD_OUTPUT, json_option, print_json, write_text
from decbayes.cli.shared.terminal import messages, output, plain
from decbayes.cli.shared.topic_quality import Counts, distinctness, sum_counts
from decbayes.disclosure import Rules
from decbayes.errors import NotDisclosed
from decbayes.families import Array
from decbayes.files import load
from decbayes.models.core.registry import model_for
from decbayes.models.topics.quality import CoOccurrence, Quality

SHOWN = 5


def quality(
    posterior: Annotated[Path, Parameter(help="A posterior of topics.")],
    /,
    *,
    data: Annotated[
        list[Path] | None, Parameter(help="This site's documents, for the coherence.", consume_multiple=True)
    ] = None,
    counts: Counts = None,
    counts_file: Annotated[
        Path | None, output_option("Where to write this site's counts, for others to add up.")
    ] = None,
    top: Annotated[PositiveInt, Parameter(help="Words per topic; the same at all sites.")] = 10,
    least: Annotated[
        NonNegativeInt | None,
        Parameter(
            help="Write counts of fewer documents as 0. Default: the least number that the rules allow, usually 5."
        ),
    ] = None,
    rules: RulesOption = None,
    person: PersonOption = "",
    as_json: Annotated[
        bool, json_option("topic", "topic", "used", "words", "telling", "coherence", "diversity", "duplicates")
    ] = False,
    reading: Reading = AS_THEY_ARE,
) -> None:
    """Print how coherent topics are, which words distinguish them, and which are nearly the same."""
    check_output(counts_file, posterior, *(data or ()), *(counts or ()), text=True, as_json=as_json)
    if counts_file is not None and data is None:
        raise WrongArgument("-o writes counts of documents: name them with --data.")
    if data is not None and counts is not None:
        raise WrongArgument("Give either --data, this site's documents, or --counts of sites.")
    topics = Quality(load(posterior), top)
    counted = None
    if data is not None:
        counted = count_words(topics, data, reading, person)
    elif counts is not None:
        counted = sum_counts(topics, counts)
    if counts_file is not None and counted is not None:
        smallest = least_count(least, counted, rules_in_force(rules), "persons" if person else "documents")
        write_text(counts_file, json.dumps(counted.without_few(smallest).plain(), ensure_ascii=False) + "\n")
    if as_json:
        print_json(*rows(topics, None if counted is None else counted.coherence()))
    elif counts_file != STANDARD_OUTPUT:
        print_quality(topics, counted)


def least_count(least: int | None, counted: CoOccurrence, rules: Rules | None, unit: str) -> int:
    """The smallest number of documents or persons that counts for others may show."""
    usual = Rules().least_documents
    if rules is None:
        return usual if least is None else least
    if counted.documents < rules.least_observations:
        raise NotDisclosed(
            f"There are {counted.documents:.0f} {unit}; counts for others need at least {rules.least_observations}."
        )
    if least is not None and least < rules.least_documents:
        raise NotDisclosed(f"--least is {least}, but the disclosure rules need {rules.least_documents} or more.")
    return rules.least_documents if least is None else least


def count_words(topics: Quality, data: list[Path], reading: Reading, person: str) -> CoOccurrence:
    """Count documents, or the persons in a column."""
    model = model_for(topics.posterior.structure)
    options = reading.options(type(model))
    blocks = model.stream(model_input(model, data), report=messages().print, **options)
    return topics.co_occurrence((block.loaded() for block in blocks), persons_of(model, data, person, **options))


def rows(topics: Quality, coherence: Array | None) -> list[dict[str, Any]]:
    """One row of plain values per topic."""
    used, duplicates = set(topics.used.tolist()), topics.duplicates
    values = np.full(len(topics.words), np.nan) if coherence is None else coherence
    known = {topic: float(values[topic]) for topic in used if np.isfinite(values[topic])}
    return [
        {
            "topic": topic,
            "used": topic in used,
            "words": list(topics.words[topic]),
            "telling": list(topics.telling[topic]),
            "coherence": known.get(topic),
            "diversity": topics.diversity,
            "duplicates": [sum(pair) - topic for pair in duplicates if topic in pair],
        }
        for topic in range(len(topics.words))
    ]


def print_quality(topics: Quality, counted: CoOccurrence | None) -> None:
    table = Table("topic", *(["coherence"] if counted is not None else []), "words", "distinctive words", box=None)
    coherence = [] if counted is None else counted.coherence_texts()
    for row in rows(topics, None):
        if row["used"]:
            number = coherence[row["topic"] :][:1]
            words = [plain(", ".join(row[name][:SHOWN])) for name in ("words", "telling")]
            table.add_row(str(row["topic"]), *number, *words)
    output().print(table)
    if counted is not None and len(topics.used):
        output().print(counted.said(topics.used))
    for line in distinctness(topics):
        output().print(line)
