"""Preview a file for `preview` and `release`: with the data behind it, and what has left so far."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
from cyclopts import Parameter

from decbayes.cli.shared.common_options import Reading, model_input
from decbayes.cli.shared.sharing import (
    HELD_BACK,
    NONE,
    VARIABLE,
    manifest_of,
    persons_of,
    rules_in_force,
    without_held_back,
)
from decbayes.cli.shared.terminal import plural
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
    Path | None, Parameter(help="The ledger of what has left this site; default: releases.ledger beside the data.")
]


def rules_to_judge_by(rules: str | None, path: Path, manifest: Manifest | None) -> Rules:
    """The rules for judging a file: those it was made under, and stricter ones if somebody asks for them."""
    given = rules is not None or bool(os.environ.get(VARIABLE))
    stricter = rules_in_force(rules) if given else Rules()
    if manifest is None or manifest.rules is None:
        return stricter or Rules()
    if stricter is None:
        raise NotDisclosed(f"{path} was made under disclosure rules, which still apply: leave out --rules {NONE}.")
    return manifest.rules.tightened(stricter) if given else manifest.rules


def preview_file(
    path: Path, files: Sequence[Path], rules: Rules, ledger: Ledger, reading: Reading, others: Sequence[Path] = ()
) -> tuple[Preview, Callable[[], list[str]]]:
    """What a file reveals, given the data behind it; and a function that makes keyed digests of persons."""
    posterior, note, manifest = load(path), load_note(path), manifest_of(path)
    model = model_for(posterior.structure)
    run_preview = partial(
        preview, posterior, rules=rules, manifest=manifest, ledger=ledger, others=[load(other) for other in others]
    )
    if not files:
        return run_preview(), list
    safe = data_behind(model, files, reading, manifest)
    digests = partial(person_digests, model, safe.data, ledger, safe.persons)
    made: Made = "round" if note.get("round") else "on top" if note.get("holds") else "fit"
    shown = run_preview(safe.data, members=digests() if ledger.path.exists() else [], persons=safe.persons, made=made)
    return replace(shown, private=(*unnamed_categories(model, files, manifest), *shown.private)), digests


def data_behind(model: Model, files: Sequence[Path], reading: Reading, manifest: Manifest | None) -> Prepared:
    """The data behind a file of this site, and the persons they are about, as they were fitted."""
    reading_options = reading.options(type(model))
    read = model.read(model_input(model, files), **reading_options)
    if manifest is None:
        return Prepared(model, read)
    whole = Prepared(model, read, persons=persons_of(model, files, manifest.person, **reading_options))
    if manifest.rules is not None:
        whole = prepared(model, read, manifest.rules, agreed=True, persons=whole.persons, blind=False)
    held_back = (manifest.left_out or {}).get(HELD_BACK, 0)
    return without_held_back(whole, held_back / max(model.count(whole.data), 1))


def unnamed_categories(model: Model, files: Sequence[Path], manifest: Manifest | None) -> list[str]:
    """Categories in the data that the file does not name; for the owner only."""
    columns = getattr(model, "columns", None)
    if not isinstance(columns, Mapping) or len(files) != 1:
        return []
    person = "" if manifest is None else manifest.person or getattr(model, "sequences", "")
    categorical = [name for name, column in columns.items() if column.kind == "categorical"]
    frame = read_frame(model_input(model, files), [*categorical, *filter(None, [person])])
    persons = Persons.of(frame[person] if person else None)
    lines = []
    for name in categorical:
        labels = [None if is_missing(value) else text_of(value) for value in frame[name]]
        for label in sorted(set(filter(None, labels)) - set(columns[name].entries)):
            count = persons.among(np.array([cell == label for cell in labels]))
            lines.append(f"column '{name}': '{label}' ({plural(count, 'person')}) is not named")
    return lines
