"""Standard input and output: data in; results out, as text for people or JSON for programs."""

import csv
import json
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cyclopts import Parameter

from decbayes.base.writing import write_whole
from decbayes.cli.shared import running
from decbayes.errors import InvalidData
from decbayes.inputs.texts import STANDARD_INPUT, StandardInput

STANDARD_OUTPUT = Path(running.STANDARD_OUTPUT)
# Kinds of files on standard input by their first bytes; anything else is CSV.
BEGINNINGS = {b"\x93NUMPY": ".npy", b"PK": ".npz", b"PAR1": ".parquet", b"%%Matrix": ".mtx", b"\x1f\x8b": ".csv.gz"}
# Kept until the process ends, because their files are removed with them.
_copies: list[StandardInput] = []


def table_file(path: Path) -> Path:
    """A file of rows; standard input is copied into a file whose ending tells its kind."""
    if path.suffix == ".posterior":
        raise InvalidData(f"{path} is a posterior, but data are expected here. `decbayes show` prints a posterior.")
    if path != STANDARD_INPUT:
        return path
    copy = StandardInput("jsonl")
    with copy.path.open("rb") as file:
        start = file.read(8)
    kind = next((kind for beginning, kind in BEGINNINGS.items() if start.startswith(beginning)), ".csv")
    table = copy.path.with_name(f"standard input{kind}")
    if start.lstrip().startswith(b"{"):
        rows_to_csv(copy.path, table)
    else:
        copy.path.rename(table)
    running.ALIASES[str(table)] = "standard input"
    _copies.append(copy)
    return table


def rows_to_csv(lines: Path, table: Path) -> None:
    """Convert JSON lines, one object per row, to CSV."""
    try:
        rows = [json.loads(line) for line in lines.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (ValueError, RecursionError):
        rows = [None]
    if not all(isinstance(row, dict) for row in rows):
        raise InvalidData("standard input: each line of JSON must be one object, with a value per column.")
    names = list(dict.fromkeys(name for row in rows for name in row))
    with table.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(rows)


def write_text(path: Path, text: str) -> None:
    """Write to a file, completely or not at all, or to standard output."""
    if path != STANDARD_OUTPUT:
        write_whole(path, text.encode())
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode())


def json_option(what: str, *keys: str) -> Parameter:
    """--json and the keys of its objects, which stay the same in all versions."""
    return Parameter(name="--json", help=f"Print JSON, one line per {what}: {', '.join(keys)}.")


def print_json(*rows: Mapping[str, Any]) -> None:
    """Print one object per line; infinity and NaN become null, because JSON has neither."""
    for row in rows:
        print(json.dumps(plain_value(row)))


def plain_value(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): plain_value(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain_value(inner) for inner in value]
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "tolist"):
        return plain_value(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value


def print_fields(fields: Mapping[str, Any], *, as_json: bool) -> None:
    """Print one result as JSON or one line per field, without empty fields."""
    if as_json:
        print_json(fields)
        return
    width = max(map(len, fields)) + 2
    for name, value in fields.items():
        if value not in (None, "", (), [], {}):
            print(f"{name.replace('_', ' '):<{width}}{field_text(value)}")


def field_text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={inner}" for name, inner in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) else str(value)
