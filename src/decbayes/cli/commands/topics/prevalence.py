"""`decbayes prevalence`: the share of each topic per site and over time, and its dependence on covariates."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter
from rich.table import Table

from decbayes.cli.commands.topics._effects import (
    SUFFIX,
    Covariates,
    covariates_of,
    field_by_document,
    load_part,
    newest_effects,
    print_effects,
    site_effects,
)
from decbayes.cli.shared.common_options import AS_THEY_ARE, Reading, model_input
from decbayes.cli.shared.outputs import DPI, Dpi, check_output, check_picture, output_option, save_picture
from decbayes.cli.shared.running import WrongArgument
from decbayes.cli.shared.sharing import PersonOption, RulesOption, SiteOption, persons_of, rules_in_force, safe_to_send
from decbayes.cli.shared.standard_streams import json_option, print_json, write_text
from decbayes.cli.shared.terminal import messages, plain, plural, print_written
from decbayes.cli.shared.terminal import output as results
from decbayes.errors import InvalidData
from decbayes.files import load
from decbayes.models.core.model import Model
from decbayes.models.core.persons import Persons
from decbayes.models.core.registry import model_for
from decbayes.models.covariates import Effects
from decbayes.models.topics.shares_by_period import Prevalence, added
from decbayes.models.topics.shares_by_period import prevalence as shares_of
from decbayes.models.topics.sources import OfTexts
from decbayes.posterior import Posterior

KEYS = ("site", "period", "topic", "name", "share", "low", "high", "documents", "term", "per", "then", "ratio")
LENGTH = {"year": 4, "month": 7, "day": 10}
DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
NO_COVARIATES = Covariates()
MEANING = "share: mean share of documents. low, high: 90 % interval, from the spread between documents."


def prevalence(
    posterior: Annotated[Path, Parameter(help="The merged topics, the same at all sites.")],
    files: Annotated[list[Path], Parameter(help="This site's texts; or files of shares (.prevalence) to add up.")],
    /,
    *,
    output: Annotated[Path | None, output_option("Where to write this site's shares (.prevalence).")] = None,
    site: SiteOption = "",
    date: Annotated[str, Parameter(help="The column or key with dates of documents, such as 2024-05-31.")] = "",
    by: Annotated[Literal["year", "month", "day"], Parameter(help="Length of a period.")] = "month",
    covariates: Covariates = NO_COVARIATES,
    picture: Annotated[
        Path | None, Parameter(help="Write a picture of shares over time or by site, or of effects (.png, .svg, .pdf).")
    ] = None,
    dpi: Dpi = DPI,
    person: PersonOption = "",
    rules: RulesOption = None,
    as_json: Annotated[bool, json_option("share", *KEYS)] = False,
    reading: Reading = AS_THEY_ARE,
) -> None:
    """Print the share of each topic in all documents, per site and period, with intervals; or write a site's sums.

    With --formula: how shares depend on covariates. Each site runs the same command with --folder, once at first and
    once per round.
    """
    check_output(output, posterior, *files)
    check_picture(picture, posterior, *files)
    read = load(posterior)
    shares: Prevalence | Effects | None
    if all(path.suffix == SUFFIX for path in files):
        shares = sum_files(files, read)
    else:
        model, name = texts_model(posterior, read), site or files[0].name.split(".")[0]
        if covariates.requested:
            if date:
                raise WrongArgument("--date does not go with --formula: put the column of dates into the formula.")
            options = reading.options(type(model))
            frame = covariates_of(model, files, covariates, options)
            site_data = read_site(model, files, person, rules, options)
            shares, output = site_effects(read, frame, *site_data, name, covariates, output)
        else:
            shares = site_shares(model, read, files, name, date, by, person, rules, reading)
    if shares is None:
        return
    if output is not None:
        write_text(output, json.dumps(shares.plain()) + "\n")
        print_written(output, f"{documents_in(shares):,} documents")
    rows = shares.rows(read)
    if picture is not None:
        save_picture(draw(shares, rows).figure, picture, dpi)
    if as_json:
        print_json(*rows)
    elif output is None:
        (print_effects if isinstance(shares, Effects) else print_rows)(rows)


def draw(shares: Prevalence | Effects, rows: Sequence[Any]) -> Any:
    from decbayes import plot

    return (plot.topic_effects if isinstance(shares, Effects) else plot.prevalence)(rows)


def documents_in(shares: Prevalence | Effects) -> int:
    if isinstance(shares, Effects):
        return shares.documents
    return sum(group.documents for group in shares.groups.values())


def texts_model(path: Path, posterior: Posterior) -> OfTexts:
    model = model_for(posterior.structure)
    if not isinstance(model, OfTexts):
        raise InvalidData(f"{path} has no topics, so there are no shares to compute.")
    return model


def sum_files(files: Sequence[Path], posterior: Posterior) -> Prevalence | Effects:
    """The shares of all sites, or their messages about effects."""
    parts = [load_part(path) for path in files]
    shares = [part for part in parts if isinstance(part, Prevalence)]
    if len(shares) == len(parts):
        return added(shares)
    if shares:
        raise InvalidData("Some files hold shares, others effects of covariates. Give one kind.")
    return newest_effects([part for part in parts if isinstance(part, Effects)], posterior)


def read_site(
    model: OfTexts, files: Sequence[Path], person: str, rules: str | None, options: dict[str, Any]
) -> tuple[Any, Persons, int]:
    """Word counts, the persons behind documents, and the least number of documents behind a result."""
    in_force = rules_in_force(rules)
    data = model.read(model_input(model, files), report=messages().print, **options)
    persons = persons_of(model, files, person, **options)
    data = safe_to_send(model, data, in_force, persons)
    return data, persons, 0 if in_force is None else in_force.least_documents


def site_shares(
    model: OfTexts,
    posterior: Posterior,
    files: list[Path],
    site: str,
    date: str,
    by: str,
    person: str,
    rules: str | None,
    reading: Reading,
) -> Prevalence:
    """The sums of one site, under the rules: groups of too few persons are left out."""
    options = reading.options(type(model))
    data, persons, least = read_site(model, files, person, rules, options)
    periods = periods_of(model, files, date, LENGTH[by], options) if date else None
    shares = shares_of(posterior, data, site=site, periods=periods, least=least, persons=persons)
    if periods is not None and (hidden := len(set(periods)) - len(shares.groups)):
        left_out = f"{plural(hidden, 'period')} with fewer than {least} documents or persons"
        messages().print(f"{left_out}: left out, also from the totals.")
    if not shares.groups:
        raise InvalidData("No period has enough documents. Try longer periods: --by year.")
    return shares


def periods_of(model: Model, files: Sequence[Path], column: str, length: int, options: dict[str, Any]) -> list[str]:
    """The period of each document, in reading order."""
    dates = field_by_document(model, files, column, options)
    if not dates or not all(DATE.match(text) for text in dates):
        raise WrongArgument(f"Each document needs a date such as 2024-05-31 in '{column}'.")
    return [text[:length] for text in dates]


def print_rows(rows: Sequence[Any]) -> None:
    table = Table("site", "period", "topic", "share", "90 %", "documents", box=None)
    for row in rows:
        bounds = f"{row['low']:.1%} to {row['high']:.1%}"
        name = plain(row["name"] or f"topic {row['topic']}")
        count = f"{row['documents']:,}"
        table.add_row(plain(row["site"]), row["period"], name, f"{row['share']:.1%}", bounds, count)
    results().print(table)
    results().print(MEANING, style="dim")
