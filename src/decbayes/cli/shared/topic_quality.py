"""How distinct topics are and, given counts, how coherent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from decbayes.cli.shared.outputs import check_each_once
from decbayes.cli.shared.terminal import plain, plural
from decbayes.errors import InvalidData
from decbayes.models import topics as topic_models
from decbayes.posterior import Posterior
from decbayes.remarks import MOST_SHOWN
from decbayes.views import view_of

if TYPE_CHECKING:
    from decbayes.models.topics import CoOccurrence, Quality


Counts = Annotated[
    list[Path] | None,
    Parameter(
        help="Counts written by sites with `quality -o`, for the coherence of topics on all their documents.",
        consume_multiple=True,
    ),
]


def sum_counts(topics: Quality, files: list[Path]) -> CoOccurrence:
    """Add the counts of all sites; refuse files without counts, or with those of other words."""
    check_each_once(files)
    total: CoOccurrence | None = None
    for path in files:
        counted = read_counts(path)
        if counted.words != topics.words:
            raise InvalidData(f"{path} counts other words. Count for the same posterior, with the same --top.")
        total = counted if total is None else total + counted
    assert total is not None
    return total


def read_counts(path: Path) -> CoOccurrence:
    try:
        return topic_models.CoOccurrence.of_plain(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, RecursionError):
        raise InvalidData(f"{path} does not hold counts of words, as `decbayes quality -o` writes them.") from None
    except InvalidData as error:
        raise InvalidData(f"{path}: {error}") from None


def counts_for(posterior: Posterior, files: list[Path]) -> CoOccurrence:
    """Add the counts of all sites, which must be those of the posterior's top words."""
    return sum_counts(topic_models.Quality(posterior, len(read_counts(files[0]).words[0])), files)


def distinctness(topics: Quality) -> list[str]:
    """How distinct the topics are, which needs no documents."""
    lines = [topics.said()]
    if topics.duplicates:
        names = [f"{topic} ({plain(name)})" for topic, name in enumerate(topics.names)]
        pairs = [f"{names[first]} and {names[second]}" for first, second in topics.duplicates]
        more = len(pairs) - MOST_SHOWN
        listed = "; ".join(pairs[:MOST_SHOWN]) + (f"; and {plural(more, 'more pair')}" if more > 0 else "")
        lines.append(f"Nearly the same: topics {listed}. A merge with fewer --components would join them.")
    return lines


def remarks_on(posterior: Posterior, top: int, counts: list[Path] | None = None) -> list[str]:
    """How distinct topics are and, given counts, how coherent; empty for models without words."""
    topics = view_of(posterior.structure).quality(posterior, top=top)
    if topics is None and counts:
        raise InvalidData("--counts are for topics: only these have words.")
    if topics is None:
        return []
    lines = distinctness(topics)
    if counts:
        counted = counts_for(posterior, counts)
        coherence = counted.coherence_texts()
        values = [f"{plain(topics.names[topic])} {coherence[topic]}" for topic in topics.used]
        lines.append(f"{counted.said(topics.used)}; by topic: {'; '.join(values)}")
    return lines
