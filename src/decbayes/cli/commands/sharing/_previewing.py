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
from decbayes.cli.shared.sharing import NONE, VARIABLE, as_fitted, made_in, manifest_of, rules_in_force
from decbayes.cli.shared.terminal import plural
from decbayes.columns.cells import is_missing, text_of
from decbayes.disclosure import Ledger, Manifest, Persons, Rules, preview
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
    reading_options = reading.options(type(model))
    data = model.read(model_input(model, files), **reading_options)
    safe = as_fitted(model, data, files, manifest, **reading_options)
    digests = partial(person_digests, model, safe.data, ledger, safe.persons)
    members = digests() if ledger.path.exists() else []
    shown = run_preview(safe.data, members=members, persons=safe.persons, made=made_in(note))
    return replace(shown, private=(*unnamed_categories(model, files, manifest), *shown.private)), digests


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
