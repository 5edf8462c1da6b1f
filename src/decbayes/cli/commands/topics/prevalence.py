"""`decbayes prevalence`: the share of each topic, per site and over time."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter
from rich.table import Table

from decbayes.cli.shared.common_options import Reading, the_data
from decbayes.cli.shared.outputs import DPI, Dpi, check_output, check_picture, save_picture
from decbayes.cli.shared.running import WrongArgument
from decbayes.cli.shared.sharing import PersonOption, RulesOption, SiteOption, check_to_send, persons_of, rules_named
from decbayes.cli.shared.standard_streams import json_option, print_json, write_text
from decbayes.cli.shared.terminal import messages, plain, print_written
from decbayes.cli.shared.terminal import output as results
from decbayes.errors import InvalidData
from decbayes.files import load
from decbayes.models.core.model import Model
from decbayes.models.core.registry import model_for
from decbayes.models.topics._prevalence import Prevalence, added
from decbayes.models.topics._prevalence import prevalence as shares_of
from decbayes.models.topics.sources import OfTexts
from decbayes.posterior import Posterior

SUFFIX = ".prevalence"
KEYS = ("site", "period", "topic", "name", "share", "low", "high", "documents")
LENGTH = {"year": 4, "month": 7, "day": 10}
DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
AS_THEY_ARE = Reading()
MEANING = "share: mean share of documents. low, high: 90 % interval, from the spread between documents."


def prevalence(
    posterior: Annotated[Path, Parameter(help="The merged topics, the same at all sites.")],
    files: Annotated[
        list[Path], Parameter(help="This site's texts; or files of shares (.prevalence) to add up.", negative="")
    ],
    /,
    *,
    output: Annotated[
        Path | None, Parameter(name=["--output", "-o"], help="Write this site's shares to a .prevalence file.")
    ] = None,
    site: SiteOption = "",
    date: Annotated[str, Parameter(help="The column or key with the date of a document, such as 2024-05-31.")] = "",
    by: Annotated[Literal["year", "month", "day"], Parameter(help="Length of a period.")] = "month",
    picture: Annotated[Path | None, Parameter(help="Draw shares over time, or by site (.png, .svg, .pdf).")] = None,
    dpi: Dpi = DPI,
    person: PersonOption = "",
    rules: RulesOption = None,
    as_json: Annotated[bool, json_option("share", *KEYS)] = False,
    reading: Reading = AS_THEY_ARE,
) -> None:
    """Print the share of each topic in all documents, per site and period, with intervals; or write a site's sums."""
    check_output(output, posterior, *files)
    check_picture(picture, posterior, *files)
    read = load(posterior)
    if all(path.suffix == SUFFIX for path in files):
        shares = added(map(load_shares, files))
    else:
        model = model_for(read.structure)
        if not isinstance(model, OfTexts):
            raise InvalidData(f"{posterior} has no topics, so there are no shares of them.")
        shares = site_shares(model, read, files, site or files[0].name.split(".")[0], date, by, person, rules, reading)
    if output is not None:
        write_text(output, json.dumps(shares.plain()) + "\n")
        print_written(output, f"{sum(group.documents for group in shares.groups.values()):,} documents")
    rows = shares.rows(read)
    if picture is not None:
        from decbayes.plot import prevalence as drawn

        save_picture(drawn(rows).figure, picture, dpi)
    if as_json:
        print_json(*rows)
    elif output is None:
        print_rows(rows)


def load_shares(path: Path) -> Prevalence:
    try:
        return Prevalence.of_plain(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, RecursionError):
        raise InvalidData(f"{path} does not hold shares of topics, as `decbayes prevalence -o` writes them.") from None
    except InvalidData as error:
        raise InvalidData(f"{path}: {error}") from None


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
    in_force, options = rules_named(rules), reading.options(type(model))
    data = model.read(the_data(model, files), report=messages().print, **options)
    persons = persons_of(model, files, person, **options)
    check_to_send(model, data, in_force, persons)
    periods = periods_of(model, files, date, LENGTH[by], options) if date else None
    least = 0 if in_force is None else in_force.least_documents
    shares = shares_of(posterior, data, site=site, periods=periods, least=least, persons=persons)
    if periods is not None and (hidden := len(set(periods)) - len(shares.groups)):
        messages().print(f"{hidden} periods with fewer than {least} documents or persons are left out.")
    if not shares.groups:
        raise InvalidData("There is no period with enough documents. Take longer periods: --by year.")
    return shares


def periods_of(model: Model, files: Sequence[Path], column: str, length: int, options: dict[str, Any]) -> list[str]:
    """The period of each document, in the order in which they are read."""
    texts: Any = model
    how = {name: value for name, value in options.items() if name != "tokenizer"}
    dates = texts.ids(list(files), column, **how)
    places = [place for block in texts.stream(list(files), **options) for place in block.places or ()]
    known = [dates.get(place, "") for place in places]
    if not known or not all(DATE.match(text) for text in known):
        raise WrongArgument(f"Each document needs a date such as 2024-05-31 in '{column}'.")
    return [text[:length] for text in known]


def print_rows(rows: Sequence[Any]) -> None:
    table = Table("site", "period", "topic", "share", "90 %", "documents", box=None)
    for row in rows:
        bounds = f"{row['low']:.1%} to {row['high']:.1%}"
        name = plain(row["name"] or f"topic {row['topic']}")
        count = f"{row['documents']:,}"
        table.add_row(plain(row["site"]), row["period"], name, f"{row['share']:.1%}", bounds, count)
    results().print(table)
    results().print(MEANING, style="dim")
