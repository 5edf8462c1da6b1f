"""`decbayes columns`: describe a table's columns, so that sites can agree on them."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.table import Table

from decbayes.cli.shared.outputs import check_output, output_option
from decbayes.cli.shared.running import WrongArgument
from decbayes.cli.shared.sharing import NONE, PersonOption, RulesOption, persons_of, rules_in_force
from decbayes.cli.shared.standard_streams import STANDARD_OUTPUT, json_option, print_json, table_file, write_text
from decbayes.cli.shared.terminal import messages, output, plain
from decbayes.columns import Column, agree, coded, columns_of, unlike
from decbayes.columns.frames import names_in
from decbayes.disclosure import Persons, Rules
from decbayes.disclosure.identifiers import check_rows_are_persons
from decbayes.disclosure.preparing import listed, pooled_columns
from decbayes.errors import InvalidData
from decbayes.inputs.mixed_tables import read_frame
from decbayes.models.core.model import split_names
from decbayes.models.core.registry import kind_called
from decbayes.models.mixtures.column_remarks import alike
from decbayes.models.tables.tabular import columns_file, counts_hint, kinds_from, read_list
from decbayes.remarks import listed as listed_names
from decbayes.study.agreed_list import reading_parameters


def columns(
    sources: Annotated[list[Path], Parameter(help="Tables, or files written by this command.")],
    /,
    *,
    output_file: Annotated[Path | None, output_option("Where to write the columns.")] = None,
    columns: Annotated[str, Parameter(help="Columns to use, separated by commas; all of them if not given.")] = "",
    kinds: Annotated[
        str, Parameter(help="Kinds of columns, if the values are misleading: age=real,grade=categorical.")
    ] = "",
    sequences: Annotated[str, Parameter(help="The column that identifies sequences; it is not listed.")] = "",
    formula: Annotated[
        str,
        Parameter(
            help="The regression to fit, such as 'Surv(days, died) ~ age': lists its columns, and sums for what "
            "sites must agree on, such as cut points."
        ),
    ] = "",
    model: Annotated[
        str, Parameter(help="With --formula: the model's name in `decbayes fit`; not needed with Surv().")
    ] = "",
    yes: Annotated[str, Parameter(help="With --formula: the category that counts as yes, or as the event.")] = "",
    weights: Annotated[str, Parameter(help="With --formula: the column of row weights, if any.")] = "",
    person: PersonOption = "",
    rules: RulesOption = None,
    as_json: Annotated[bool, json_option("column", "column", "kind", "details")] = False,
) -> None:
    """Describe the columns of tables, and combine the columns of several sites."""
    if not sources:
        raise InvalidData("Name a table, or the columns of several sites.")
    check_output(output_file, *sources, text=True, as_json=as_json)
    in_force = rules_in_force(rules)
    options = {"formula": formula, "kinds": kinds, "columns": columns}
    options |= {name: value for name, value in (("yes", yes), ("weights", weights)) if value}
    sites = [
        formula_columns(model, source, options, person, in_force)
        if formula and source.suffix != ".columns"
        else columns_in(source, columns, kinds, (sequences, person), in_force)
        for source in sources
    ]
    for line in unlike(dict(zip((source.stem for source in sources), sites, strict=True))):
        messages().print(plain(line))
    agreed = agree(*sites)
    if output_file is not None:
        write_text(output_file, columns_file(agreed))
    if as_json:
        rows = [{"column": name, "kind": column.kind, "details": column.details()} for name, column in agreed.items()]
        print_json(*rows)
    elif output_file != STANDARD_OUTPUT:
        table = Table("column", "kind", "details", box=None)
        for name, column in agreed.items():
            table.add_row(plain(name), column.kind, plain(column.text()))
        output().print(table)


def formula_columns(
    model: str, source: Path, options: dict[str, str], person: str, rules: Rules | None
) -> dict[str, Column]:
    """The columns of a table that a regression uses, and the sums that sites need to agree on."""
    if not model and not options["formula"].lstrip().startswith("Surv"):
        raise WrongArgument("Name the model of the --formula: --model logistic-regression, for example.")
    try:
        kind = kind_called(model or "survival-regression")
        known = reading_parameters(kind)
        given = [name for name in ("formula", "yes", "weights") if name in options]
        if unknown := [name for name in given if name not in known and not hasattr(kind, name)]:
            raise WrongArgument(f"{kind.command} takes no --{unknown[0]}.")
        fitted, observations = kind.from_file(table_file(source), report=messages().print, **options)
    except (LookupError, ValueError) as error:
        raise WrongArgument(str(error)) from None
    rows, changed = listed(fitted, observations, rules, persons_of(fitted, [source], person, rules=rules))
    for change in changed:
        messages().print(plain(change))
    return rows


def columns_in(
    source: Path, names: str, kinds: str, id_columns: tuple[str, str], rules: Rules | None
) -> dict[str, Column]:
    """Describe a table's columns, except those that identify sequences and persons (`id_columns`)."""
    if source.suffix == ".columns":
        return read_list(source)
    path, chosen = table_file(source), split_names(names)
    stated, id_columns = any(id_columns), (id_columns[0], "" if id_columns[1] == NONE else id_columns[1])
    frame = read_frame(path, list(dict.fromkeys([*chosen, *filter(None, id_columns)])) if chosen else ())
    for name in filter(None, id_columns):
        if name not in names_in(frame):
            raise InvalidData(f"{source}: there is no column '{name}' that identifies sequences or persons.")
    used = [name for name in names_in(frame) if name not in filter(None, id_columns)]
    columns = columns_of(frame, kinds_from(kinds), names=used, report=messages().print)
    if hint := counts_hint(columns, kinds):
        messages().print(plain(hint.removeprefix(". ")))
    points = coded(frame, columns)
    if same := alike(points, columns):
        texts = [listed_names(names) for names in same]
        messages().print(plain(f"Columns that say the same: {listed_names(texts, '; ')}. Keep one of each."))
    if rules is None:
        return columns
    persons = Persons.of(next((frame[name] for name in reversed(id_columns) if name), None))
    pooled, changed = pooled_columns(columns, points, rules, persons)
    if not stated:
        check_rows_are_persons(path)
    for change in changed:
        messages().print(plain(change))
    return pooled
