"""Begin a study: write its protocol, simulate it, and move from files to a network."""

import csv
import io
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import numpy as np
from cyclopts import App, CycloptsError, Parameter
from cyclopts.types import NonNegativeInt, PositiveInt

from decbayes.base.writing import write_whole
from decbayes.cli.commands.study._questions import ask_for_protocol
from decbayes.cli.commands.study._where import (
    ANY_SITE,
    ANY_STUDY,
    AtSite,
    Where,
    print_turn,
    private_folder,
    write_pages,
)
from decbayes.cli.shared.common_options import Seed
from decbayes.cli.shared.running import WrongArgument, complaint, with_example
from decbayes.cli.shared.sharing import rules_in_force
from decbayes.cli.shared.terminal import messages
from decbayes.columns import Column, decoded
from decbayes.disclosure.ledger import today
from decbayes.errors import InvalidProtocol
from decbayes.files import save
from decbayes.models.core.model import Model, split_names
from decbayes.study.agreed_list import kind_of, reading_parameters
from decbayes.study.folder import CHECKLIST, PAGE, Study
from decbayes.study.protocol import FILE, Protocol

# Options of `decbayes fit` that are elsewhere in a protocol, or up to each site.
ELSEWHERE = frozenset({"data", "output", "like", "earlier", "forgetting", "rules", "person", "site", "seed", "as_json"})
MADE_UP = 500  # rows
FORMS = {"--approve": "SITE=NAME", "--units": "COLUMN=UNIT"}
Options = Annotated[
    str,
    Parameter(allow_leading_hyphen=True, help="Options of `decbayes fit MODEL`, which become part of the protocol."),
]


@with_example(
    "decbayes study new stay --model linear-regression --formula 'days ~ age + ward' \\",
    "    --sites north,south --approve 'north=Dr Kim'",
)
def new(
    name: Annotated[str, Parameter(help="A short name, which is also that of the folder.")],
    /,
    *options: Options,
    model: Annotated[str, Parameter(help="The model's name in `decbayes fit`: logistic-regression, topics, …")] = "",
    sites: Annotated[str, Parameter(help="The sites, separated by commas.")] = "",
    question: Annotated[str, Parameter(help="The question of the study, in one sentence.")] = "",
    authors: Annotated[str, Parameter(help="The authors, separated by commas.")] = "",
    approve: Annotated[
        tuple[str, ...], Parameter(help="SITE=NAME: the person who approves what leaves a site; once per site.")
    ] = (),
    merges: Annotated[str, Parameter(help="The site that merges; default: the first.")] = "",
    rounds: Annotated[NonNegativeInt, Parameter(help="Rounds after the first fits.")] = 0,
    units: Annotated[str, Parameter(help="Units of columns, for the report: age=years,stay=days.")] = "",
    person: Annotated[
        str, Parameter(help="The column that identifies persons, if a person may have several rows.")
    ] = "",
    rules: Annotated[
        str | None,
        Parameter(help="What may leave a site: a TOML file of disclosure rules; 'none' for public or made-up data."),
    ] = None,
) -> None:
    """Begin a study: write its protocol, a folder per site, and a checklist. On a terminal it asks for what is missing.

    All options of `decbayes fit MODEL`, such as --formula or --topics, are accepted and become part of the protocol.
    """
    words = list(options)
    if not (model and sites) and sys.stdin.isatty():
        model, sites, question, words = ask_for_protocol(model, sites, question, words)
    if missing := [option for option, value in (("--model", model), ("--sites", sites)) if not value]:
        raise WrongArgument(
            f"Give {' and '.join(missing)}; or run `decbayes study new {name}` on a terminal, which asks for them."
        )
    site_names = split_names(sites)
    if repeated := [site for site in dict.fromkeys(site_names) if site_names.count(site) > 1]:
        raise WrongArgument(f"--sites: '{repeated[0]}' is given twice; each site needs a name of its own.")
    protocol = Protocol(
        name=name,
        model=model,
        sites=dict.fromkeys(site_names, "") | named_pairs("--approve", approve, site_names),
        question=question,
        authors=split_names(authors),
        created=today(),
        merges=merges,
        rounds=rounds,
        units=named_pairs("--units", split_names(units)),
        person=person,
        rules=rules_in_force(rules),
    )
    settings = model_settings(kind_of(protocol), words)
    check_units(protocol.units, settings)
    study = Study.create(Path(name), protocol.with_settings(settings))
    write_pages(study)
    messages().print(
        f"{study.folder}: {FILE}, {PAGE}, {CHECKLIST}, and a folder per site. Read {study.folder / PAGE} first."
    )
    print_turn(study)


@with_example("decbayes study plan --observations 50,200")
def plan(
    *,
    observations: Annotated[
        str, Parameter(help="Rows per site; give several numbers, separated by commas, to compare them.")
    ],
    where: Where = ANY_STUDY,
    data_sets: Annotated[PositiveInt, Parameter(help="How many data sets to simulate.")] = 20,
    like: Annotated[
        Path | None,
        Parameter(help="A posterior of such data to draw the truth from. Default: a released one, or the prior."),
    ] = None,
    seed: Seed = 0,
) -> None:
    """Simulate the study before anybody fits: how good would its intervals be? The answer goes into the protocol."""
    study = where.open()
    sizes = [int(text) for text in split_names(observations) if text.isdecimal() and int(text)]
    if not sizes or len(sizes) < len(split_names(observations)):
        raise WrongArgument("--observations are numbers above 0, separated by commas, such as 50,200.")
    answers = [simulate(study, size, data_sets, like, seed) for size in sizes]
    advice = [f"{size:,} rows per site: {answer}" for size, answer in zip(sizes, answers, strict=True)]
    study.protocol.with_plan({"observations": sizes, "data_sets": data_sets, "advice": advice}).save(
        study.folder / FILE
    )
    write_pages(Study(study.folder))
    messages().print(f"{study.folder / PAGE} has the answer.")


@with_example("decbayes study network")
def network(*, where: AtSite = ANY_SITE) -> None:
    """Turn the protocol into a charter, for agents that exchange what people sent as files.

    Each site runs it once, which makes the site's key. Once the keys of all sites are there, it writes the charter.
    """
    from decbayes.cli.commands.study._network import add_key, write_charter

    study, site = where.locate()
    add_key(study, site, private_folder(study, site))
    write_charter(study, site)


def simulate(study: Study, observations: int, data_sets: int, like: Path | None, seed: int) -> str:
    """The advice of `decbayes plan` for this study."""
    from decbayes.cli.commands.planning.plan import plan as try_plan
    from decbayes.cli.shared.model_options import options_before_data

    kind, protocol = kind_of(study.protocol), study.protocol
    names = {option.name for option in options_before_data(kind)}
    with TemporaryDirectory() as folder:
        truth = like or truth_of(study, Path(folder))
        settings = {} if truth else {name: value for name, value in protocol.settings.items() if name in names}
        values = try_plan(
            kind,
            sites=len(protocol.sites),
            observations=observations,
            rounds=protocol.rounds,
            data_sets=data_sets,
            like=truth,
            seed=seed,
            **settings,
        )
    return str(values["advice"])


def truth_of(study: Study, folder: Path) -> Path | None:
    """A posterior to draw the truth from: a released one, or a fit of made-up rows of the columns listed so far."""
    released = [files.released[0].path for files in study.sites.values() if 0 in files.released]
    if released or study.agreed_list is None or study.agreed_list.kind != "columns":
        return next(iter(released), None)
    if not study.lists():
        raise InvalidProtocol(
            "No site has listed its columns yet, so no rows can be made up: run `decbayes study check DATA` at one "
            "site, or give a posterior of such data with --like."
        )
    agreed, rows = folder / "agreed.columns", folder / "rows.csv"
    write_whole(agreed, study.agreed_list.joined(study.lists()).encode())
    write_whole(rows, made_up_rows(study.agreed_list.read(agreed), np.random.default_rng(0)).encode())
    settings = {name: value for name, value in study.protocol.settings.items() if name not in ("columns", "kinds")}
    model, observations = kind_of(study.protocol).from_file(rows, agreed_columns=agreed, **settings)
    save(model.fit(observations, rng=0).posterior, folder / "made-up.posterior")
    return folder / "made-up.posterior"


def made_up_rows(columns: Mapping[str, Column], rng: np.random.Generator) -> str:
    """A made-up table with these columns and without effects; numbers are positive, as times are."""
    values = decoded(np.abs(np.column_stack([column.made_up(MADE_UP, rng) for column in columns.values()])), columns)
    lines = io.StringIO()
    writer = csv.writer(lines)
    writer.writerow(columns)
    writer.writerows(zip(*values.values(), strict=True))
    return lines.getvalue()


def named_pairs(option: str, pairs: Sequence[str], known: Sequence[str] = ()) -> dict[str, str]:
    """NAME=VALUE pairs as a mapping; if names are known, others are refused."""
    split = [pair.partition("=") for pair in pairs]
    for name, sign, value in split:
        if not (name and sign and value):
            raise WrongArgument(f"{option} takes {FORMS[option]}, not '{name}{sign}{value}'.")
        if known and name not in known:
            raise WrongArgument(f"{option}: '{name}' is not one of the sites {', '.join(known)}.")
    return {name: value for name, _, value in split}


def model_settings(kind: type[Model], words: Sequence[str]) -> dict[str, Any]:
    """The options of a fit, parsed and checked as by `decbayes fit`."""
    from decbayes.cli.commands.everyday.fit import fit_command

    command: Callable[..., None] = fit_command(kind)
    parser = App(name="decbayes study new", default_command=command)
    try:
        _, bound, _ = parser.parse_args(["DATA", "-o", "x.posterior", *words], exit_on_error=False, print_error=False)
    except CycloptsError as error:
        raise WrongArgument(complaint(error, f"decbayes fit {kind.command}")) from None
    given = {name: value for name, value in bound.arguments.items() if value is not None}
    if wrong := sorted(given.keys() & ELSEWHERE - {"data", "output"}):
        raise WrongArgument(f"--{wrong[0]} is not part of a protocol; leave it out.")
    settings = {
        name: str(value) if isinstance(value, Path) else value for name, value in given.items() if name not in ELSEWHERE
    }
    if missing := [name for name in sorted(kind.agreed_settings) if name not in settings]:
        options = " and ".join(f"--{name.replace('_', '-')}" for name in missing)
        raise WrongArgument(f"In a study of this kind ({kind.command}) all sites use the same {options}: give it here.")
    if "formula" in reading_parameters(kind) and not names_outcome(settings):
        raise WrongArgument("Give a formula, such as --formula 'days ~ age + ward', or name a --target.")
    return settings


def check_units(units: Mapping[str, str], settings: Mapping[str, Any]) -> None:
    """Refuse units of columns that are not in the formula; for other models, `study check` knows the columns."""
    formula = str(settings.get("formula", ""))
    unused = [name for name in units if name not in formula]
    if formula and unused and "." not in formula.partition("~")[2].split():
        raise WrongArgument(
            f"--units: '{unused[0]}' is not a column of '{formula}'. Leave it out, or spell it as there."
        )


def names_outcome(settings: Mapping[str, Any]) -> bool:
    """Whether the options of a regression name its outcome."""
    outcome, _, terms = str(settings.get("formula", "")).partition("~")
    return bool(settings.get("target") or (outcome.strip() and terms.strip()))
