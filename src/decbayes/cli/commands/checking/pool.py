"""`decbayes pool`: combine regressions of several imputed tables by Rubin's rules."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
from cyclopts import Parameter
from cyclopts.types import PositiveInt

from decbayes.calibration import pool as pool_by_rubin
from decbayes.cli.shared.common_options import Level
from decbayes.cli.shared.describe import print_modelled, rows_table
from decbayes.cli.shared.standard_streams import json_option, print_json
from decbayes.cli.shared.terminal import messages, output
from decbayes.errors import StructureMismatch
from decbayes.files import load
from decbayes.models.core.registry import model_for
from decbayes.models.regressions.regression import Regression
from decbayes.posterior import Posterior

KEYS = ("term", "mean", "deviation", "low", "high", "degrees", "missing")


def pool(
    posteriors: Annotated[list[Path], Parameter(help="The merged posteriors of a regression, one per imputed table.")],
    /,
    *,
    rows: Annotated[
        PositiveInt | None, Parameter(help="The number of rows of all sites, for intervals with few data.")
    ] = None,
    level: Level = 0.9,
    as_json: Annotated[bool, json_option("term", *KEYS)] = False,
) -> None:
    """Print a regression's coefficients over imputed tables; intervals include the uncertainty about missing values."""
    read = [load(path) for path in posteriors]
    table = pooled_rows(read, rows, level)
    if as_json:
        print_json(*table)
        return
    print_modelled(read[0], messages().print)
    messages().print(
        f"{len(read)} imputed tables; {level:.0%} intervals by Student's t; missing: share of the information that is "
        "missing."
    )
    output().print(rows_table(table))


def pooled_rows(read: list[Posterior], rows: int | None, level: float) -> list[dict[str, Any]]:
    """Coefficients in the units of the columns, combined over imputed tables."""
    model = model_for(read[0].structure)
    if not isinstance(model, Regression):
        raise StructureMismatch(f"{type(model).__name__} has no coefficients to pool. Give regressions.")
    if any(posterior.structure != read[0].structure for posterior in read):
        raise StructureMismatch(
            "These posteriors are of different regressions. Give the same regression of several tables."
        )
    tables = [model.coefficients(posterior) for posterior in read]
    mean, deviation = (np.array([[row[name] for row in table] for table in tables]) for name in ("mean", "deviation"))
    degrees = np.inf if rows is None else max(float(rows - mean.shape[1]), 1.0)
    pooled = pool_by_rubin(mean, deviation**2, degrees=degrees)
    low, high = pooled.interval(level)
    parts = (pooled.estimate, pooled.error, low, high, pooled.degrees, pooled.missing)
    return [
        dict(zip(KEYS, (row["term"], *(float(part[place]) for part in parts)), strict=True))
        for place, row in enumerate(tables[0])
    ]
