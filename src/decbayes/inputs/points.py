"""Points from tables, arrays and images."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy.sparse import issparse

from decbayes.errors import InvalidData
from decbayes.inputs.filed import FileArray, FileMatrix
from decbayes.inputs.large import read_any_table
from decbayes.inputs.tables import Observations, has_names


def read_points(path: Path, columns: Sequence[str] = (), agreed: Sequence[str] = ()) -> Observations:
    """A table of points: images become rows, a single column stays one. What is large stays in files.

    Where no columns are asked for, those that sites have agreed on are taken out of a file that names its columns.
    """
    table = read_any_table(path, columns or (agreed if agreed and has_names(path) else ()))
    if isinstance(table.values, FileArray):
        return Observations(table.values.flattened(), table.columns)
    if isinstance(table.values, FileMatrix):
        raise InvalidData(f"{path} holds a sparse matrix of {table.values.shape[0]:,} rows; points are dense.")
    values = np.asarray(table.values.toarray() if issparse(table.values) else table.values)
    if not values.size:
        raise InvalidData(f"{path} holds no observations.")
    rows = np.atleast_1d(values)
    return Observations(rows.reshape(len(rows), -1), table.columns)
