"""Tables of mixed columns from files: texts, numbers and missing values, by column name."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decbayes.errors import InvalidData
from decbayes.inputs.tables import (
    check_names,
    check_unpacked,
    csv_rows,
    ending,
    is_number,
    parquet_table,
    places,
    reading,
    same_width,
)

Frame = dict[str, NDArray[Any]]

# How files write missing values.
MISSING = {"", "na", "n/a", "nan", "null", "?", "."}


def read_frame(path: Path, columns: Sequence[str] = (), *, most: int | None = None) -> Frame:
    """The columns of a CSV or Parquet file by name; all, or those requested; the first `most` rows, or all."""
    check_unpacked(path)
    suffix = ending(path)
    if suffix not in ("csv", "tsv", "parquet"):
        raise InvalidData(f"{path}: a table whose columns have names is a .csv, .tsv or .parquet file.")
    if not path.stat().st_size:
        raise InvalidData(f"{path} is empty.")
    with reading(path, f".{suffix}"):
        frame = parquet_frame(path, most) if suffix == "parquet" else csv_frame(path, most)
        places(list(frame), columns)
        if not len(next(iter(frame.values()))):
            raise InvalidData("it holds no rows.")
    return {name: frame[name] for name in columns or frame}


def csv_frame(path: Path, most: int | None = None) -> Frame:
    rows = list(islice(csv_rows(path), None if most is None else most + 1))
    if not rows:
        raise InvalidData("it holds only blank lines.")
    names = [cell.strip() for cell in rows[0]]
    if all(is_number(name) for name in names):
        raise InvalidData("its first line is all numbers; a table begins with the names of its columns.")
    check_names(names)
    if len(names) == 1 and all("|" in row[0] for row in rows):
        raise InvalidData(
            "it has one column, and its lines contain '|'. Separate columns with commas, semicolons or tabs."
        )
    if len(set(names)) < len(names):
        raise InvalidData("two of its columns have the same name.")
    if len(rows) == 1:
        return {name: values_of([]) for name in names}
    cells = list(zip(*same_width(rows, len(names))[1:], strict=True))
    if sum(name in column for name, column in zip(names, cells, strict=True)) >= min(2, len(names)):
        raise InvalidData("its first line looks like a row of data; a table begins with the names of its columns.")
    return dict(zip(names, map(values_of, cells), strict=True))


def values_of(cells: Sequence[str]) -> NDArray[Any]:
    """Numbers if all cells are numbers or missing, else texts."""
    trimmed = [cell.strip() for cell in cells]
    values = [None if cell.lower() in MISSING else cell for cell in trimmed]
    if all(cell is None or is_number(cell) for cell in values):
        return np.array([np.nan if cell is None else float(cell) for cell in values])
    return np.array(values, dtype=object)


def parquet_frame(path: Path, most: int | None = None) -> Frame:
    frame, table = {}, parquet_table(path)
    table = table if most is None else table.slice(0, most)
    for name, column in zip(table.column_names, table.columns, strict=True):
        # Arrow may store categories separately.
        coded = str(column.type).startswith("dictionary")
        frame[name] = (column.cast(column.type.value_type) if coded else column).to_numpy()
    return frame
