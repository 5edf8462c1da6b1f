"""`decbayes impute`: fill a site's table several times from the posterior of all sites."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from cyclopts import Parameter
from cyclopts.types import NonNegativeInt, PositiveInt

from decbayes.cli.shared.outputs import check_output, check_rows, output_option, row_writer
from decbayes.cli.shared.running import WrongArgument
from decbayes.cli.shared.standard_streams import STANDARD_OUTPUT, json_option, print_json, table_file
from decbayes.cli.shared.terminal import messages
from decbayes.columns.cells import is_missing
from decbayes.errors import StructureMismatch
from decbayes.files import load
from decbayes.inputs.mixed_tables import read_frame
from decbayes.models.core.registry import model_for
from decbayes.models.tables.latent_classes import LatentClasses

# Enough significant digits to write numbers exactly.
EXACT = 12


def impute(
    data: Annotated[Path, Parameter(help="This site's table, with missing values.")],
    posterior: Annotated[Path, Parameter(help="A posterior file of classes, the same at all sites.")],
    /,
    *,
    output: Annotated[Path, output_option("Names of the tables: here.csv makes here-1.csv, here-2.csv, …")],
    draws: Annotated[PositiveInt, Parameter(help="How many tables to write.")] = 20,
    seed: Annotated[NonNegativeInt, Parameter(help="Seed of the draws, the same at all sites.")] = 0,
    as_json: Annotated[bool, json_option("file", "file", "rows", "imputed")] = False,
) -> None:
    """Write tables whose missing values are drawn from the posterior; other columns are copied."""
    if output == STANDARD_OUTPUT:
        raise WrongArgument("Several tables are written: give a name after -o, such as here.csv.")
    check_rows(output)
    names = [numbered_path(output, draw + 1) for draw in range(draws)]
    for name in names:
        check_output(name, data, posterior, text=True)
    read = load(posterior)
    model = model_for(read.structure)
    if not isinstance(model, LatentClasses):
        raise StructureMismatch(f"{posterior} is a posterior of {type(model).__name__}; missing values need classes.")
    frame = read_frame(table_file(data))
    table = frame if all(name in frame for name in model.columns) else read_frame(table_file(data), list(model.columns))
    gaps = {name: np.array([is_missing(cell) for cell in table[name]]) for name in model.columns}
    for name, drawn in zip(names, model.imputations(read, table, draws=draws, seed=seed), strict=True):
        write_table(name, frame, drawn, gaps)
    rows, imputed = len(next(iter(gaps.values()))), int(sum(part.sum() for part in gaps.values()))
    messages().print(
        f"Wrote {names[0]} to {names[-1]}: {rows:,} rows, {imputed:,} values drawn. Keep them on this site: fit "
        "each table, merge each number over sites, and `decbayes pool` the merges."
    )
    if as_json:
        print_json(*({"file": name, "rows": rows, "imputed": imputed} for name in names))


def numbered_path(output: Path, number: int) -> Path:
    """The path of one table: here-3.csv.gz from here.csv.gz."""
    stem, dot, endings = output.name.partition(".")
    return output.with_name(f"{stem}-{number}{dot}{endings}")


def write_table(path: Path, frame: Mapping[str, Any], drawn: Mapping[str, Any], gaps: Mapping[str, Any]) -> None:
    """Write the table with drawn values in its gaps; all other cells stay as they are."""
    columns: dict[str, Sequence[Any]] = {
        name: [
            drawn[name][row] if name in gaps and gaps[name][row] else None if is_missing(cell) else cell
            for row, cell in enumerate(cells)
        ]
        for name, cells in frame.items()
    }
    with row_writer(path, digits=EXACT, formulas=True) as rows:
        rows.write(columns, (), np.empty((len(next(iter(columns.values()))), 0)))
