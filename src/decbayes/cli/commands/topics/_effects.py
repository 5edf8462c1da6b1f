"""Effects of covariates on topics: the command line around `db.texts.effects`."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from rich.table import Table

from decbayes.base.writing import check_inside
from decbayes.cli.shared.running import WrongArgument
from decbayes.cli.shared.terminal import messages, plain
from decbayes.cli.shared.terminal import output as results
from decbayes.columns import Column
from decbayes.errors import InvalidData
from decbayes.models.core.model import Model
from decbayes.models.core.persons import Persons
from decbayes.models.covariates import FORMAT, Effects, effects
from decbayes.models.topics.shares_by_period import Prevalence
from decbayes.posterior import Posterior

SUFFIX = ".prevalence"
# Rounds are steps of Newton's method: a step of half a deviation is followed by one of a few hundredths.
ENOUGH = 0.5
MEANING = (
    "share: for a document with central numbers and first categories; then: after the change. ratio: then / "
    "share, with its 90 % interval. A number changes by 1 (see per), a date by a year, a category from the first one."
)


@Parameter(name="*")
@dataclass(frozen=True)
class Covariates:
    """The covariates that shares may depend on."""

    formula: Annotated[str, Parameter(help="Covariates of documents (columns or keys), such as 'day + paper'.")] = ""
    agreed_columns: Annotated[
        Path | None, Parameter(help="With --formula: the agreed kinds of covariates (from `decbayes columns`).")
    ] = None
    folder: Annotated[
        Path | None, Parameter(help="With --formula: the shared folder; the next message is written there.")
    ] = None

    @property
    def requested(self) -> bool:
        return bool(self.formula or self.folder)

    @property
    def columns(self) -> dict[str, Column] | None:
        if self.agreed_columns is None:
            return None
        from decbayes.columns.sums import columns_among
        from decbayes.models.tables.tabular import read_list

        return columns_among(read_list(self.agreed_columns))


def field_by_document(model: Model, files: Sequence[Path], column: str, options: dict[str, Any]) -> list[str]:
    """A column or key of each document, in reading order; empty if a document lacks it."""
    texts: Any = model
    how = {name: value for name, value in options.items() if name != "tokenizer"}
    values = texts.ids(list(files), column, **how)
    places = [place for block in texts.stream(list(files), **options) for place in block.places or ()]
    return [values.get(place, "") for place in places]


def covariates_of(
    model: Model, files: Sequence[Path], covariates: Covariates, options: dict[str, Any]
) -> Mapping[str, list[Any]]:
    """A frame of the covariates, one row per document."""
    names = covariate_names(covariates, files)
    frame = {name: as_numbers(field_by_document(model, files, name, options)) for name in names}
    missing = [name for name, values in frame.items() if not any(value is not None for value in values)]
    if missing or not all(map(len, frame.values())):
        raise InvalidData(f"No document has a column or key '{(missing or names)[0]}'. Name another covariate.")
    return frame


def covariate_names(covariates: Covariates, files: Sequence[Path]) -> list[str]:
    """The covariates in a formula; without one, those of the files in the folder."""
    from decbayes.models.regressions.formulas.design import needed
    from decbayes.models.regressions.formulas.formula import parsed

    if not covariates.formula:
        return [*newest(messages_in(covariates.folder)).plan.columns]
    known = [*covariates.columns] if covariates.columns else fields_of(files)
    terms = parsed(f"topics ~ {covariates.formula.strip().removeprefix('~')}", known).terms
    return needed(known, *terms)


def fields_of(files: Sequence[Path]) -> list[str]:
    """The columns of the first table, or the keys of its first JSON line."""
    from decbayes.inputs.mixed_tables import read_frame

    path = files[0]
    if path.suffix != ".jsonl":
        return list(read_frame(path))
    with path.open(encoding="utf-8") as lines:
        first = next((line for line in lines if line.strip()), "{}")
    try:
        return [*json.loads(first)]
    except (ValueError, TypeError):
        raise InvalidData(f"{path} does not begin with a line of JSON, so its covariates are unknown.") from None


def as_numbers(values: Sequence[str]) -> list[Any]:
    """Convert texts to numbers if all of them are numbers; empty ones become None."""
    known = [value or None for value in values]
    try:
        return [None if value is None else float(value) for value in known]
    except ValueError:
        return known


def load_part(path: Path) -> Prevalence | Effects:
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        kind = Effects if isinstance(stored, dict) and stored.get("format") == FORMAT else Prevalence
        return kind.of_plain(stored)
    except (ValueError, RecursionError):
        raise InvalidData(f"{path} is not a file written by `decbayes prevalence -o`.") from None
    except InvalidData as error:
        raise InvalidData(f"{path}: {error}") from None


def messages_in(folder: Path | None) -> dict[str, dict[int, Effects]]:
    """The messages of each site, by round."""
    if folder is None or not folder.is_dir():
        raise WrongArgument(f"--folder {folder} is not a folder.")
    by_site: dict[str, dict[int, Effects]] = {}
    for path in sorted(folder.glob(f"[!.]*{SUFFIX}")):
        check_inside(path, folder)
        part = load_part(path)
        if isinstance(part, Effects):
            for site, message in part.messages.items():
                by_site.setdefault(site, {})[message.round] = Effects(part.plan, {site: message})
    return by_site


def newest(by_site: Mapping[str, Mapping[int, Effects]], before: int | None = None) -> Effects:
    """The newest message of each site, before a given round; of sites that came later, their first."""
    chosen = [
        rounds[max((number for number in rounds if before is None or number < before), default=min(rounds))]
        for rounds in by_site.values()
    ]
    if not chosen:
        raise InvalidData("There are no effects in the folder yet: name covariates with --formula.")
    return reduce(add, chosen)


def site_effects(
    posterior: Posterior,
    frame: Mapping[str, Any],
    data: Any,
    persons: Persons,
    least: int,
    site: str,
    covariates: Covariates,
    output: Path | None,
) -> tuple[Effects | None, Path | None]:
    """A site's next message and where to write it; None if others have to write first."""
    options: dict[str, Any] = {"site": site, "least": least, "persons": persons}
    if covariates.folder is None:
        return effects(posterior, data, frame, covariates.formula, columns=covariates.columns, **options), output
    by_site = messages_in(covariates.folder)
    if site not in by_site:
        given = newest(by_site) if by_site else None
        first = effects(posterior, data, frame, covariates.formula, given=given, columns=covariates.columns, **options)
        return first, output or covariates.folder / f"{site}{SUFFIX}"
    done, latest = max(by_site[site]), max(number for rounds in by_site.values() for number in rounds)
    behind = [name for name, rounds in sorted(by_site.items()) if max(rounds) == latest - 1]
    if len(by_site) < 2 or (done == latest and behind):
        messages().print(f"Nothing to do yet: waiting for {', '.join(map(plain, behind)) or 'another site'}.")
        return None, output
    number = done + 1 if done == latest else latest
    given = newest(by_site, number)
    message = effects(posterior, data, frame, covariates.formula, given=given, **options)
    return message, output or covariates.folder / f"{site}.{number}{SUFFIX}"


def newest_effects(parts: Sequence[Effects], posterior: Posterior) -> Effects:
    """The newest message of each site; prints how far estimates moved in the last round."""
    by_site: dict[str, dict[int, Effects]] = {}
    for part in parts:
        for site, message in part.messages.items():
            if message.round in by_site.setdefault(site, {}):
                raise InvalidData(
                    f"The site {site or 'without a name'} is given twice. Give each site once, under its own name."
                )
            by_site[site][message.round] = Effects(part.plan, {site: message})
    last = max(number for rounds in by_site.values() for number in rounds)
    now = newest(by_site)
    if last == 0 and len(by_site) > 1:
        messages().print(
            "Every site has written once. Another round, the same command at every site, makes this exact."
        )
    elif any(len(rounds) > 1 for rounds in by_site.values()):
        moved = now.moved(newest(by_site, last), posterior)
        more = "Further rounds change little." if moved < ENOUGH else "Take another round."
        messages().print(f"The last round moved estimates by at most {moved:.2f} standard deviations. {more}")
    return now


def print_effects(rows: Sequence[Any]) -> None:
    table = Table("term", "topic", "share", "then", "ratio", "90 %", box=None)
    for row in rows:
        clear = row["low"] > 1.0 or row["high"] < 1.0
        term = row["term"] if row["per"] == 1.0 else f"{row['term']} per {row['per']:g}"
        bounds = f"{row['low']:.2f} to {row['high']:.2f}"
        shares = (f"{row[name]:.1%}" for name in ("share", "then"))
        name = plain(row["name"] or f"topic {row['topic']}")
        table.add_row(plain(term), name, *shares, f"{row['ratio']:.2f}", bounds, style="bold" if clear else "")
    results().print(table)
    results().print(MEANING, style="dim")
