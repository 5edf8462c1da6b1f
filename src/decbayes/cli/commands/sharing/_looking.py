"""What `preview` and `release` look at: a file, the data behind it, and what has left so far."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
from cyclopts import Parameter

from decbayes.cli.shared.common_options import Reading, the_data
from decbayes.cli.shared.sharing import (
    HELD_BACK,
    NONE,
    VARIABLE,
    manifest_of,
    persons_of,
    rules_named,
    without_held_back,
)
from decbayes.cli.shared.terminal import many
from decbayes.columns.cells import is_missing, text_of
from decbayes.disclosure import Ledger, Manifest, Persons, Rules, prepared, preview
from decbayes.disclosure.origin import Made
from decbayes.disclosure.preparing import Prepared
from decbayes.disclosure.previewing import Preview
from decbayes.disclosure.releasing import person_digests
from decbayes.errors import NotDisclosed
from decbayes.files import load, load_note
from decbayes.inputs.mixed_tables import read_frame
from decbayes.models.core.model import Model
from decbayes.models.core.registry import model_for

LedgerOption = Annotated[
    Path | None,
    Parameter(help="What has left this site; default: releases.ledger beside the data.", show_default=False),
]


def judged_by(rules: str | None, path: Path, manifest: Manifest | None) -> Rules:
    """The rules by which the owner judges a file: the file's own, and those by which somebody is stricter."""
    asked = rules is not None or bool(os.environ.get(VARIABLE))
    stricter = rules_named(rules) if asked else Rules()
    if manifest is None or manifest.rules is None:
        return stricter or Rules()
    if stricter is None:
        raise NotDisclosed(f"{path} was made under disclosure rules, and is judged by them: leave out --rules {NONE}.")
    return manifest.rules.tightened(stricter) if asked else manifest.rules


def previewed(
    path: Path,
    files: Sequence[Path],
    rules: Rules,
    ledger: Ledger,
    reading: Reading,
    others: Sequence[Path] = (),
) -> tuple[Preview, Callable[[], list[str]]]:
    """What a file tells, given the data behind it; and what makes keyed digests of the persons in them, for the ledger
    and with a key beside it.
    """
    posterior, note, manifest = load(path), load_note(path), manifest_of(path)
    model = model_for(posterior.structure)
    look = partial(
        preview, posterior, rules=rules, manifest=manifest, ledger=ledger, others=[load(other) for other in others]
    )
    if not files:
        return look(), list
    safe = data_behind(model, files, reading, manifest)
    digests = partial(person_digests, model, safe.data, ledger, safe.persons)
    made: Made = "round" if note.get("round") else "on top" if note.get("holds") else "fit"
    seen = look(safe.data, members=digests() if ledger.path.exists() else [], persons=safe.persons, made=made)
    return replace(seen, private=(*pooled_away(model, files, manifest), *seen.private)), digests


def data_behind(model: Model, files: Sequence[Path], reading: Reading, manifest: Manifest | None) -> Prepared:
    """The data behind a file of this site, and whom they are about, as they were fitted."""
    reading_options = reading.options(type(model))
    read = model.read(the_data(model, files), **reading_options)
    if manifest is None:
        return Prepared(model, read)
    whole = Prepared(model, read, persons=persons_of(model, files, manifest.person, **reading_options))
    if manifest.rules is not None:
        whole = prepared(model, read, manifest.rules, agreed=True, persons=whole.persons, blind=False)
    held_back = (manifest.left_out or {}).get(HELD_BACK, 0)
    return without_held_back(whole, held_back / max(model.count(whole.data), 1))


def pooled_away(model: Model, files: Sequence[Path], manifest: Manifest | None) -> list[str]:
    """Categories in the data that the file does not name, for the owner only."""
    columns = getattr(model, "columns", None)
    if not isinstance(columns, Mapping) or len(files) != 1:
        return []
    person = "" if manifest is None else manifest.person or getattr(model, "sequences", "")
    categorical = [name for name, column in columns.items() if column.kind == "categorical"]
    frame = read_frame(the_data(model, files), [*categorical, *filter(None, [person])])
    whom = Persons.of(frame[person] if person else None)
    lines = []
    for name in categorical:
        labels = [None if is_missing(value) else text_of(value) for value in frame[name]]
        for label in sorted(set(filter(None, labels)) - set(columns[name].entries)):
            having = whom.among(np.array([each == label for each in labels]))
            lines.append(f"column '{name}': '{label}' ({many(having, 'person')}) is not named")
    return lines
