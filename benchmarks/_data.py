"""Where the data sets are. None is part of this repository; docs/benchmarks/data.md says where each comes from."""

import os
from pathlib import Path

FOLDER = Path(os.environ.get("DECBAYES_DATA", Path(__file__).parents[2] / "shared" / "data"))


def data_file(*parts: str, folder: Path = FOLDER) -> Path:
    """A file of a data set, or an end that says which one is missing."""
    path = folder.joinpath(*parts)
    if not path.is_file():
        raise SystemExit(
            f"This benchmark needs {'/'.join(parts)}, which is not in {folder}. Set DECBAYES_DATA to the folder with "
            "it; docs/benchmarks/data.md says where it comes from and what is in it."
        )
    return path
