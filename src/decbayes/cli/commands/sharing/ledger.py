"""`decbayes ledger`: what has left this site."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.table import Table

from decbayes.cli.shared.standard_streams import json_option, print_json
from decbayes.cli.shared.terminal import many, messages, output, plain
from decbayes.disclosure import Ledger
from decbayes.errors import InvalidData

KEYS = ("date", "file", "site", "model", "rows", "persons", "approver", "reason", "posterior")


def ledger(
    file: Annotated[Path, Parameter(help="The ledger that `decbayes release` writes.")] = Path("releases.ledger"),
    /,
    *,
    as_json: Annotated[bool, json_option("release", *KEYS)] = False,
) -> None:
    """Check the ledger and show it."""
    if not file.exists():
        raise InvalidData(
            f"There is no ledger {file}: nothing has been released in this folder yet, or it is elsewhere."
        )
    entries = Ledger(file).entries()
    if as_json:
        print_json(*({key: getattr(entry, key) for key in KEYS} for entry in entries))
        return
    table = Table(*KEYS[:-1], box=None)
    for entry in entries:
        table.add_row(*(plain(str(getattr(entry, key))) for key in KEYS[:-1]))
    output().print(table)
    head = f"; the last has the digest {entries[-1].digest[:16]}" if entries else ""
    messages().print(f"{many(len(entries), 'release')}, all links of the chain hold{head}")
