"""`decbayes ledger`: show what has left this site."""

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number
from rich.table import Table

from decbayes.cli.shared.standard_streams import json_option, print_json
from decbayes.cli.shared.terminal import messages, output, plain, plural
from decbayes.disclosure import Entry, Ledger
from decbayes.errors import InvalidData
from decbayes.privacy import epsilon_of

LEAST_SHOWN = 1e-3
KEYS = ("date", "file", "site", "model", "rows", "persons", "approver", "reason", "posterior")


def ledger(
    file: Annotated[Path, Parameter(help="The ledger that `decbayes release` writes.")] = Path("releases.ledger"),
    /,
    *,
    budget: Annotated[
        float | None,
        Parameter(help="The total ε that a data set may spend from now on; needs --approve.", validator=Number(gt=0)),
    ] = None,
    delta: Annotated[float, Parameter(help="With --budget: δ.", validator=Number(gt=0, lt=1))] = 1e-6,
    data_set: Annotated[str, Parameter(help="With --budget: the data set that it is for.")] = "data",
    approve: Annotated[str, Parameter(help="With --budget: the name of the person who decides.")] = "",
    as_json: Annotated[bool, json_option("release", *KEYS, "data_set", "round", "epsilon")] = False,
) -> None:
    """Check and show the ledger; or set the budget of a data set."""
    if budget is not None:
        Ledger(file).set_budget(data_set, budget, delta, approver=approve)
    if not file.exists():
        raise InvalidData(
            f"There is no ledger {file}: nothing has been released in this folder yet, or the ledger is elsewhere."
        )
    entries = Ledger(file).entries()
    if as_json:
        print_json(*({key: getattr(entry, key) for key in KEYS} | spent_values(entry) for entry in entries))
        return
    rows = [
        {key: str(getattr(entry, key) or "") for key in KEYS[:-1]} | {"private": spent_text(entry)} for entry in entries
    ]
    shown = [key for key in (*KEYS[:-1], "private") if any(row[key] for row in rows)]
    table = Table(*shown, box=None)
    for row in rows:
        table.add_row(*(plain(row[key]) for key in shown))
    output().print(table)
    for account in Ledger(file).accounts():
        output().print(
            plain(
                f"Data set '{account.data_set}': spent ε = {account.spent:.3g} of {account.budget.epsilon:g} at δ = "
                f"{account.budget.delta:g}, in {plural(account.releases, 'release')}; "
                + (f"ε = {account.left:.3g} left" if account.left > LEAST_SHOWN else "nothing left")
            )
        )
    head = f"; the last has the digest {entries[-1].digest[:16]}" if entries else ""
    messages().print(f"{plural(len(entries), 'release')}, all links of the chain are intact{head}")


def spent_values(entry: Entry) -> dict[str, Any]:
    """What a single private release has spent, for --json."""
    spent = entry.private
    if spent is None:
        return {}
    return {"data_set": spent.data_set, "round": spent.round, "epsilon": epsilon_of(spent.mu, spent.delta)}


def spent_text(entry: Entry) -> str:
    spent = entry.private
    if spent is None:
        return ""
    if not spent.mu:
        return f"budget of '{spent.data_set}': ε = {spent.epsilon:g}"
    return f"'{spent.data_set}', release {spent.round + 1}: ε = {epsilon_of(spent.mu, spent.delta):.3g} by itself"
