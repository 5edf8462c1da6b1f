"""`decbayes export`: write a posterior's components as a table for other programs."""

import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from cyclopts import Parameter
from cyclopts.types import NonNegativeInt

from decbayes.cli.shared.common_options import Level
from decbayes.cli.shared.outputs import check_output, check_rows, output_option, row_writer
from decbayes.cli.shared.sharing import RulesOption, check_received_files, rules_given, rules_in_force, small_components
from decbayes.cli.shared.standard_streams import STANDARD_OUTPUT, json_option, print_json, write_text
from decbayes.cli.shared.terminal import messages, plural, print_written
from decbayes.disclosure import Rules
from decbayes.files import load
from decbayes.posterior import Posterior
from decbayes.views import view_of

EVERYTHING = 1 << 62
EXACT = 12
NUMBERS = ("mean", "deviation", "lower", "upper", "ratio", "ratio_lower", "ratio_upper", "ratio_per")
DESCRIBED = ("model", "structure", "posterior", "level", "uncertainty")


def export(
    posterior: Annotated[Path, Parameter(help="A posterior file.")],
    /,
    *,
    output: Annotated[
        Path, output_option("Output file: .csv, .csv.gz, .parquet or .json; - prints CSV, or JSON with --json.")
    ],
    top: Annotated[
        NonNegativeInt, Parameter(help="Words or other entries per component, largest first; 0 for all.")
    ] = 0,
    level: Level = 0.9,
    rules: RulesOption = None,
    formulas: Annotated[
        bool,
        Parameter(
            help="Leave CSV cells that begin with =, +, - or @ as they are. By default they get an apostrophe, "
            "because spreadsheets would run them."
        ),
    ] = False,
    as_json: Annotated[
        bool, json_option("file", "file and rows; or with -o - the posterior", *DESCRIBED, "parameters")
    ] = False,
) -> None:
    """Write one row per parameter, in the units of the data: component, name, mean, deviation and interval."""
    check_output(output, posterior, text=True)
    check_rows(output, ".json")
    read = load(posterior)
    check_received_files([posterior], [read], rules_given(rules))
    parameters = view_of(read.structure).parameters(read, top=top or EVERYTHING, level=level)
    all_rows = with_ids(read, [dict(row) for row in parameters])
    rows = without_small(read, all_rows, rules_in_force(rules))
    if output == STANDARD_OUTPUT and as_json:
        print_json(posterior_values(read, rows, level))
        return
    if output.suffix == ".json":
        write_text(output, json.dumps(posterior_values(read, rows, level), ensure_ascii=False, indent=1) + "\n")
    else:
        write_table(rows, [*all_rows[0]], output, formulas)
    print_written(output, f"{len(rows):,} rows")
    if as_json:
        print_json({"file": output, "rows": len(rows)})


def without_small(posterior: Posterior, rows: list[dict[str, Any]], rules: Rules | None) -> list[dict[str, Any]]:
    """Drop the rows of components that too few persons have, and print how many."""
    small = small_components(posterior, rules)
    if rules is None or not small.any():
        return rows
    (coupled,) = posterior.structure.symmetry
    left_out = plural(int(small.sum()), "component")
    messages().print(f"Left out: {left_out} of fewer than {rules.least_cell} persons.")
    return [row for row in rows if row["factor"] not in coupled.factors or not small[row["component"]]]


def with_ids(posterior: Posterior, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add the ids of components to rows, if there are any."""
    if not posterior.ids:
        return rows
    (coupled,) = posterior.structure.symmetry
    return [{**row, "id": posterior.ids[row["component"]] if row["factor"] in coupled.factors else ""} for row in rows]


def posterior_values(posterior: Posterior, rows: list[dict[str, Any]], level: float) -> dict[str, Any]:
    """A posterior in plain values, for programs."""
    structure = posterior.structure
    return {
        "model": dict(structure.model),
        "structure": structure.fingerprint,
        "posterior": posterior.digest,
        "level": level,
        "uncertainty": posterior.uncertainty,
        "parameters": [{name: value for name, value in row.items() if name != "uncertainty"} for row in rows],
    }


def write_table(rows: list[dict[str, Any]], names: list[str], output: Path, formulas: bool) -> None:
    first, numbers = [name for name in names if name not in NUMBERS], [name for name in NUMBERS if name in names]
    with row_writer(output, digits=EXACT, formulas=formulas) as target:
        values = np.array([[row[name] for name in numbers] for row in rows]).reshape(len(rows), len(numbers))
        target.write({name: [row[name] for row in rows] for name in first}, numbers, values)
