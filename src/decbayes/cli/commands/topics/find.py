"""`decbayes find`: find topics by words, by likeness to another topic, or by a document."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.types import PositiveInt
from rich.table import Table

from decbayes.cli.commands.topics.editing import component_of
from decbayes.cli.shared.running import WrongArgument
from decbayes.cli.shared.standard_streams import json_option, print_json
from decbayes.cli.shared.terminal import output, plain
from decbayes.errors import InvalidData
from decbayes.files import load
from decbayes.models.topics.finding import MOST
from decbayes.models.topics.finding import find as find_topics
from decbayes.views import view_of

MEANING = {
    "words": "score: share of the words' occurrences in the topic, on average.",
    "like": "score: Σ √(p q) over all words, 1 for the same topic.",
    "document": "score: share of the document.",
}


def find(
    posterior: Annotated[Path, Parameter(help="A posterior file with topics.")],
    words: Annotated[list[str] | None, Parameter(help="Words to look for.")] = None,
    /,
    *,
    like: Annotated[str | None, Parameter(help="Find topics like this one: a number, an id or a name.")] = None,
    document: Annotated[Path | None, Parameter(help="Find the topics of the text in this file.")] = None,
    most: Annotated[PositiveInt, Parameter(help="How many topics to list.")] = MOST,
    as_json: Annotated[bool, json_option("topic", "topic", "name", "score", "words")] = False,
) -> None:
    """List topics by words, by similarity or by an example document, the best first."""
    requested = {"words": words or None, "like": like, "document": document}
    given = [name for name, value in requested.items() if value is not None]
    if len(given) != 1:
        raise WrongArgument("Give words, --like TOPIC or --document FILE: one of the three.")
    read = load(posterior)
    if view_of(read.structure).name != "words":
        raise InvalidData(f"{posterior} has no topics, so there are no words to find.")
    text = document.read_text(encoding="utf-8", errors="replace") if document is not None else None
    number = None if like is None else component_of(read, like)
    rows = find_topics(read, [word.lower() for word in words or ()], like=number, document=text, most=most)
    if as_json:
        print_json(*rows)
        return
    table = Table("topic", "name", "score", "words", box=None)
    for row in rows:
        listed = ", ".join(map(plain, row["words"]))
        table.add_row(str(row["topic"]), plain(row["name"]), f"{row['score']:.2f}", listed)
    output().print(table)
    output().print(MEANING[given[0]], style="dim")
