"""The model of a fit, from options or another site's file, and the observations in a data file."""

import inspect
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from decbayes.cli.shared.model_options import as_option, missing_options, with_posteriors
from decbayes.cli.shared.running import WrongArgument
from decbayes.cli.shared.sharing import NONE, ReadingReport, least_listed, person_column
from decbayes.disclosure import Rules
from decbayes.errors import InvalidStructure, StructureMismatch
from decbayes.files import load
from decbayes.inputs.tables import Report
from decbayes.models.core.model import Model, split_names
from decbayes.models.core.registry import model_for
from decbayes.models.core.settings import LOCAL as NEED_NOT_AGREE
from decbayes.updates.rounds import Sent


def read_data(
    kind: type[Model],
    data: Any,
    known: Path | None,
    before: Sent | None,
    settings: dict[str, Any],
    rules: Rules | None,
    person: str,
    report: ReadingReport,
) -> tuple[Model, Any, str]:
    """The model, of another posterior if one is `known`, the observations, and the column that tells persons apart."""
    if known is None:
        settings |= vocabulary_limit(kind, settings, rules, person) | without_person(kind, data, settings, person)
    model, observations = model_and_data(kind, data, known, settings, report)
    if before is not None and before.posterior.structure != model.structure:
        raise WrongArgument(f"{known} has another number of {model.number}; leave --{model.number} out.")
    return model, observations, person or person_column(known, [data] if isinstance(data, Path) else data)


def vocabulary_limit(kind: type[Model], settings: dict[str, Any], rules: Rules | None, person: str) -> dict[str, int]:
    """In how many documents a word must occur, if the vocabulary is made from this site's texts."""
    if "least_documents" not in inspect.signature(kind.from_file).parameters or settings.get("vocabulary") is not None:
        return {}
    if person not in ("", NONE) and rules is not None:
        raise WrongArgument("With --person, give --vocabulary: `decbayes words --person` makes it.")
    return {"least_documents": least_listed(settings.get("least_documents"), rules)}


def without_person(kind: type[Model], data: Any, settings: dict[str, Any], person: str) -> dict[str, str]:
    """The columns of a table without the one that identifies persons, unless columns are given."""
    if person in ("", NONE) or kind.many_files or settings.get("columns") or settings.get("agreed_columns"):
        return {}
    from decbayes.inputs.mixed_tables import read_frame

    identifiers = {person, settings.get("sequences"), settings.get("by")}
    return {"columns": ",".join(name for name in read_frame(data) if name not in identifiers)}


def model_and_data(
    kind: type[Model], data: Any, like: Path | None, settings: dict[str, Any], report: Report
) -> tuple[Model, Any]:
    """The model of another posterior or of the settings, and the observations in the file."""
    names, by_list = split_names(settings.get("columns", "")), settings.get("agreed_columns") is not None
    if by_list and settings.get("kinds"):
        raise WrongArgument("--kinds and --agreed-columns exclude each other: the list has the kinds of columns.")
    result = new_model(kind, data, settings, report) if like is None else model_like(kind, data, like, settings, report)
    columns = getattr(result[0], "columns", None)
    if (by_list or like) and names and isinstance(columns, Mapping) and not columns.keys() <= {*names}:
        raise WrongArgument(
            f"The agreed columns are {', '.join(columns)}, but --columns differs. Leave it out, or agree on others."
        )
    return result


def new_model(kind: type[Model], data: Any, settings: dict[str, Any], report: Report) -> tuple[Model, Any]:
    """A new model and the observations in the file."""
    needed = missing_options(kind, settings)
    if needed:
        raise WrongArgument(f"Give {' and '.join(needed)}, or another site's posterior: --like FILE.")
    try:
        model, observations = kind.from_file(data, report=report, **with_posteriors(kind, settings))
        _ = model.structure
    except (ValueError, InvalidStructure) as error:
        raise WrongArgument(str(error)) from None
    return model, observations


def model_like(kind: type[Model], data: Any, like: Path, settings: dict[str, Any], report: Report) -> tuple[Model, Any]:
    """The model of another site's posterior, and the observations as that model reads them.

    The number of components may differ from the other site's: such posteriors still merge.
    """
    reading_options = {name: settings.pop(name) for name in kind.reading_options & settings.keys()}
    local = {field.name for field in fields(kind) if field.metadata == NEED_NOT_AGREE}
    local_settings = {name: settings.pop(name) for name in local & settings.keys()}
    number = settings.pop(kind.number, None)
    if settings:
        names = ", ".join(map(as_option, settings))
        raise WrongArgument(f"{names} and --like {like} exclude each other: the settings are those of that file.")
    model = model_for(load(like).structure)
    if type(model) is not kind:
        raise StructureMismatch(f"{like} is a posterior of {type(model).__name__}, not of {kind.__name__}.")
    if number is not None:
        model = model.sized(number)
    try:
        model = replace(model, **local_settings)
    except (ValueError, InvalidStructure) as error:
        raise WrongArgument(str(error)) from None
    return model, model.read(data, **reading_options, report=report)
