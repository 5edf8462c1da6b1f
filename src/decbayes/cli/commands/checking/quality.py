"""`decbayes quality`: how good topics are to read, on the documents of one site or of all."""

import json
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from cyclopts.types import NonNegativeInt, PositiveInt
from rich.table import Table

from decbayes.cli.shared.common_options import Reading, the_data
from decbayes.cli.shared.describe import known_model
from decbayes.cli.shared.outputs import check_output
from decbayes.cli.shared.running import WrongArgument
from decbayes.cli.shared.terminal import messages, output, plain
from decbayes.errors import InvalidData
from decbayes.families import Array
from decbayes.files import load, write_whole
from decbayes.models.core.registry import model_for
from decbayes.models.topics.quality import CoOccurrence, Quality
from decbayes.posterior import Posterior

AS_THEY_ARE = Reading()
SHOWN, FEW = 5, 3

Counts = Annotated[
    list[Path] | None,
    Parameter(
        help="Counts that sites have written with `quality -o`, for the coherence of topics on all of their documents.",
        consume_multiple=True,
        negative="",
    ),
]


def quality(
    posterior: Annotated[Path, Parameter(help="A posterior of topics.")],
    /,
    *,
    data: Annotated[
        list[Path] | None,
        Parameter(help="This site's documents, for the coherence.", consume_multiple=True, negative=""),
    ] = None,
    counts: Counts = None,
    counts_file: Annotated[
        Path | None, Parameter(name=["--output", "-o"], help="Where to write this site's counts, to send them.")
    ] = None,
    top: Annotated[PositiveInt, Parameter(help="Words per topic; the same at all sites.")] = 10,
    least: Annotated[NonNegativeInt, Parameter(help="Write counts of fewer documents as 0.")] = 5,
    as_json: Annotated[bool, Parameter(name="--json", negative="", help="One JSON object per topic.")] = False,
    reading: Reading = AS_THEY_ARE,
) -> None:
    """Print how coherent topics are, what tells them apart, and which are nearly the same."""
    check_output(counts_file, posterior, *(data or ()), *(counts or ()))
    if counts_file is not None and data is None:
        raise WrongArgument("-o writes counts of documents: name them with --data.")
    if data is not None and counts is not None:
        raise WrongArgument("Give either --data, this site's documents, or --counts of sites.")
    found = Quality(load(posterior), top)
    counted = None
    if data is not None:
        counted = counted_in(found, data, reading)
    elif counts is not None:
        counted = added_up(found, counts)
    if counts_file is not None and counted is not None:
        text = json.dumps(counted.without_few(least).plain(), ensure_ascii=False)
        write_whole(counts_file, f"{text}\n".encode())
    coherence = None if counted is None else counted.coherence()
    if as_json:
        for row in rows(found, coherence):
            print(json.dumps(row, ensure_ascii=False))
    else:
        print_quality(found, coherence, counted)


def counted_in(found: Quality, data: list[Path], reading: Reading) -> CoOccurrence:
    model = model_for(found.posterior.structure)
    blocks = model.stream(the_data(model, data), report=messages().print, **reading.options(type(model)))
    return found.co_occurrence(block.found() for block in blocks)


def added_up(found: Quality, files: list[Path]) -> CoOccurrence:
    """The counts of all sites; refused by name if they are none, or of other words."""
    total: CoOccurrence | None = None
    for path in files:
        counted = counts_in(path)
        if counted.words != found.words:
            raise InvalidData(f"{path} has counted other words. Count for the same posterior, with the same --top.")
        total = counted if total is None else total + counted
    assert total is not None
    return total


def counts_in(path: Path) -> CoOccurrence:
    try:
        return CoOccurrence.of_plain(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, RecursionError):
        raise InvalidData(f"{path} does not hold counts of words, as `decbayes quality -o` writes them.") from None
    except InvalidData as error:
        raise InvalidData(f"{path}: {error}") from None


def counted_for(posterior: Posterior, files: list[Path]) -> CoOccurrence:
    """The counts of all sites, which must be of the posterior's top words; how many these are, the files say."""
    return added_up(Quality(posterior, len(counts_in(files[0]).words[0])), files)


def rows(found: Quality, coherence: Array | None) -> list[dict[str, Any]]:
    """Plain values, one row per topic."""
    used, duplicates = set(found.used.tolist()), found.duplicates
    return [
        {
            "topic": topic,
            "used": topic in used,
            "words": list(found.words[topic]),
            "telling": list(found.telling[topic]),
            "coherence": None if coherence is None or topic not in used else float(coherence[topic]),
            "diversity": found.diversity,
            "duplicates": [sum(pair) - topic for pair in duplicates if topic in pair],
        }
        for topic in range(len(found.words))
    ]


def print_quality(found: Quality, coherence: Array | None, counted: CoOccurrence | None) -> None:
    table = Table("topic", *(["coherence"] if coherence is not None else []), "words", "telling words", box=None)
    for row in rows(found, coherence):
        if row["used"]:
            told = [f"{row['coherence']:.3f}"] if coherence is not None else []
            words = [plain(", ".join(row[name][:SHOWN])) for name in ("words", "telling")]
            table.add_row(str(row["topic"]), *told, *words)
    output().print(table)
    if counted is not None and len(found.used):
        output().print(counted.said(found.used))
    for line in remarks(found):
        output().print(line)


def remarks(found: Quality) -> list[str]:
    """What the topics alone say of themselves."""
    said = [found.said()]
    if found.duplicates:
        pairs = ", ".join(f"{first} and {second}" for first, second in found.duplicates)
        said.append(f"Nearly the same: topics {pairs}. A merge with fewer --components would join them.")
    return said


def remarks_on(posterior: Posterior, top: int, counts: list[Path] | None = None) -> list[str]:
    """How different topics are, what tells them apart and, given counts, their coherence; nothing without words."""
    found = quality_of(posterior, top)
    if found is None and counts:
        raise InvalidData("--counts are for topics: only these have words.")
    if found is None:
        return []
    apart = "; ".join(f"{topic} {', '.join(map(plain, found.telling[topic][:FEW]))}" for topic in found.used)
    said = [*remarks(found), *([f"words that tell topics apart: {apart}"] if len(found.used) > 1 else [])]
    if counts:
        counted = counted_for(posterior, counts)
        coherence = counted.coherence()
        each = ", ".join(f"{topic} {coherence[topic]:.3f}" for topic in found.used)
        said.append(f"{counted.said(found.used)}; by topic: {each}")
    return said


def quality_of(posterior: Posterior, top: int) -> Quality | None:
    """None where there are no topics."""
    model = known_model(posterior)
    return Quality(posterior, top) if model is not None and model.view == "words" else None
