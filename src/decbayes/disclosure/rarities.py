"""What a file reveals about rare categories, words, and moves between states."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.sparse import csr_array

from decbayes.columns import OTHER
from decbayes.disclosure.preparing import rows_of
from decbayes.disclosure.rules import Rules
from decbayes.errors import InvalidData
from decbayes.families import Array, dense
from decbayes.models.core.model import Model
from decbayes.models.core.persons import Persons
from decbayes.posterior import Posterior

Severity = Literal["fine", "look", "stop"]
MOST_WORDS = 20
# Counts that differ by less are considered the same.
READABLE = 0.05


@dataclass(frozen=True)
class Statement:
    """One finding about a file, and whether it prevents its release."""

    topic: str
    text: str
    severity: Severity = "fine"


def cells(model: Model, data: Any, persons: Persons) -> Iterator[tuple[str, str, int]]:
    """Columns, their categories, and the number of persons in each."""
    columns = getattr(model, "columns", None)
    if not isinstance(columns, dict):
        return
    points, having = rows_of(model, data), of_rows(model, data, persons)
    for place, (name, column) in enumerate(columns.items()):
        if column.shown_as_share:
            labels = column.entries if column.entries[0] else ("no", "yes")
            for number, label in enumerate(labels):
                yield name, label, having.among(points[:, place] == number)


def of_rows(model: Model, data: Any, persons: Persons) -> Persons:
    """The person of each row of a table; all rows of a sequence belong to one person."""
    steps: Any = getattr(model, "steps", None)
    return persons if steps is None else persons.of_parts(steps(data).sequence)


def about_columns(model: Model, data: Any, rules: Rules, persons: Persons) -> Iterator[Statement]:
    counted = [(having, name) for name, _, having in cells(model, data, persons) if having]
    if counted:
        smallest, name = min(counted)
        few = sum(having < rules.least_cell for having, _ in counted)
        text = f"{smallest} persons, in column '{name}'; {few} cells have fewer than {rules.least_cell}"
        yield Statement("smallest cell", text, "stop" if few else "fine")


def about_words(model: Model, posterior: Posterior, data: Any, rules: Rules, persons: Persons) -> Iterator[Statement]:
    having: Any = getattr(model, "documents_with", None)
    if having is None:
        return
    documents = having(data, persons)
    rare = (documents > 0) & (documents < rules.least_documents)
    counts: Array = getattr(model, "times_in")(data)  # noqa: B009
    if reveals_rare_words(posterior, counts, documents < rules.least_documents):
        yield Statement("rare words", f"the counts of {rare.sum():,} words of few documents can be read", "stop")
    else:
        yield Statement("rare words", f"{rare.sum():,} words of few documents, indistinguishable from absent ones")


def reveals_rare_words(posterior: Posterior, counts: Array, rare: Any) -> bool:
    """Whether the file has the true counts of rare words; not if all topics share them out in the same way."""
    topics = csr_array(posterior.contribution["topics"])[:, np.flatnonzero(rare)].toarray()
    totals = topics.sum(axis=1, keepdims=True)
    profiles = topics[totals[:, 0] > 1e-9] / totals[totals[:, 0] > 1e-9]
    if len(profiles) > 1 and np.ptp(profiles, axis=0).max() <= 1e-9:
        return False
    return bool(len(profiles)) and bool(np.abs(topics.sum(axis=0) - counts[rare]).max() < READABLE)


def about_moves(model: Model, posterior: Posterior, data: Any, rules: Rules, persons: Persons) -> Iterator[Statement]:
    persons_moving: Any = getattr(model, "persons_moving", None)
    if persons_moving is None:
        return
    slots, least = np.arange(len(posterior.natural["start"])), rules.least_cell
    rare = persons_moving(posterior, data, slots, persons)[:-1, :-1] < least
    counted = dense(model.contributed(posterior, data).contribution["transitions"])
    try:
        hidden = model.cells_hidden(posterior, posterior, data, slots, least, persons)
    except InvalidData as error:
        yield Statement("rare moves", str(error), "stop")
        return
    shown, safe = (dense(one.contribution["transitions"]) for one in (posterior, hidden))
    rare &= counted > READABLE
    read = rare & (np.abs(shown - counted) < READABLE) & (np.abs(shown - safe) > READABLE)
    pairs = f"{rare.sum():,} {'pair' if rare.sum() == 1 else 'pairs'} of states with moves of few persons"
    if read.any():
        yield Statement("rare moves", f"{pairs}, {read.sum():,} of which can be read", "stop")
    else:
        yield Statement("rare moves", f"{pairs}, indistinguishable from pairs without moves")


def rare_things(model: Model, data: Any, rules: Rules, persons: Persons) -> tuple[str, ...]:
    """Rare words and categories, for the owner of the data only."""
    lines = [
        f"column '{name}': '{label}' of {having} person{'s' if having > 1 else ''}"
        for name, label, having in cells(model, data, persons)
        if 0 < having < rules.least_cell and label != OTHER
    ]
    having: Any = getattr(model, "documents_with", None)
    if having is not None:
        documents = having(data, persons)
        rare = np.flatnonzero((documents > 0) & (documents < rules.least_documents))[:MOST_WORDS]
        words = [(getattr(model, "vocabulary")[place], round(float(documents[place]))) for place in rare]  # noqa: B009
        lines += [f"word '{word}' in {number} document{'s' if number > 1 else ''}" for word, number in words]
    return tuple(lines)
