"""`decbayes transform`: what a posterior says of each of many observations."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
from cyclopts import Parameter
from cyclopts.types import PositiveInt

from decbayes.cli.outputs import check_output
from decbayes.cli.reading import Reading, the_data
from decbayes.cli.rows import check_rows, writing
from decbayes.cli.terminal import messages, progress_bar
from decbayes.errors import InvalidData
from decbayes.files import load
from decbayes.models.registry import model_for
from decbayes.models.transforms import Block
from decbayes.models.transforms import transform as blocks_of

AS_THEY_ARE = Reading()


def transform(
    sources: Annotated[
        list[Path], Parameter(name="DATA MODEL", help="The data, as `decbayes fit` reads them; then a posterior file.")
    ],
    /,
    *,
    output: Annotated[Path, Parameter(name=["--output", "-o"], help="Where to write: .csv, .csv.gz or .parquet.")],
    digits: Annotated[
        PositiveInt,
        Parameter(help="Digits of shares after the point, in .csv files; other numbers have four more in all."),
    ] = 4,
    reading: Reading = AS_THEY_ARE,
) -> None:
    """Write one row per observation: where it stands, its largest component, and the shares of all."""
    *data, path = sources
    if not data:
        raise InvalidData("Name the data, and after them the posterior file.")
    check_output(output, *sources)
    check_rows(output)
    posterior = load(path)
    model = model_for(posterior.structure)
    options = reading.options(type(model))
    blocks = blocks_of(posterior, the_data(model, data), report=messages().print, **options)
    done = unknown = 0
    with writing(output, digits) as rows, progress_bar() as bar:
        task = bar.add_task("reading", total=None)
        for block in blocks:
            rows.write(first_columns(block), block.names, block.values)
            done, unknown = done + len(block.values), unknown + int(block.unknown.sum())
            bar.update(task, description=f"{done:,} written")
        if not done:
            raise InvalidData(f"{', '.join(map(str, data))} holds no observations.")
    messages().print(f"{output}: {done:,} rows")
    if unknown:
        messages().print(f"{unknown:,} of them hold nothing that the model knows; their numbers are the prior's.")


def first_columns(block: Block) -> dict[str, Any]:
    """Where an observation stands, its largest component, and how many of its words the model knows."""
    columns: dict[str, Any] = {"row" if block.known is None else "document": block.places}
    if block.shares:
        best = np.argmax(block.values, axis=1).tolist()
        unknown = block.unknown.tolist()
        columns[block.names[0].rsplit("_", 1)[0]] = [None if no else k for k, no in zip(best, unknown, strict=True)]
    if block.known is not None:
        columns["words"] = block.known.astype(np.int64).tolist()
    return columns
