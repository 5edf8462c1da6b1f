"""`decbayes tell`: orders to an agent, running or not, through its store."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter
from cyclopts.types import NonNegativeFloat

from decbayes.cli.shared.standard_streams import json_option, print_json
from decbayes.errors import InvalidCharter, StoreFailed
from decbayes.extras import require_extra

if TYPE_CHECKING:
    from decbayes.network.runtime.store.orders import Order

app = App(
    name="tell", help="Give orders to your own agent without a restart: add, approve or withdraw data, retract, vote."
)

Store = Annotated[Path, Parameter(help="The agent's store.")]
File = Annotated[Path, Parameter(help="A data file, as in `decbayes agent --data`.")]
Name = Annotated[str, Parameter(help="The member's name in the charter.")]
Key = Annotated[str, Parameter(help="The new public key.")]
ForGood = Annotated[bool, Parameter(help="Confirm that the retraction is for good.", negative="")]
Wait = Annotated[NonNegativeFloat, Parameter(help="Seconds to wait for the agent's answer.")]

Json = Annotated[bool, json_option("order", "answer", "done")]

LATER = "stored; the agent has not answered yet. It does this as soon as it runs."


@app.command
def observe(store: Store, file: File, /, *, wait: Wait = 60.0, as_json: Json = False) -> None:
    """Fit the data of one more file and publish it. It counts once, even if you repeat this."""
    from decbayes.network.runtime.store.orders import Observe

    order(store, Observe(readable(file)), wait, as_json)


@app.command
def withdraw(store: Store, file: File, /, *, wait: Wait = 60.0, as_json: Json = False) -> None:
    """Withdraw a file's data. The rest is fitted again, so that the next version holds no trace of it."""
    from decbayes.network.runtime.store.orders import Withdraw

    order(store, Withdraw(readable(file)), wait, as_json)


@app.command
def replace(store: Store, file: File, by: File, /, *, wait: Wait = 60.0, as_json: Json = False) -> None:
    """Correct data: withdraw one file and publish another in its place, in one version."""
    from decbayes.network.runtime.store.orders import Replace

    order(store, Replace(readable(file), readable(by)), wait, as_json)


@app.command
def retract(store: Store, /, *, for_good: ForGood = False, wait: Wait = 60.0, as_json: Json = False) -> None:
    """Withdraw all of this agent's evidence, for good: it cannot contribute again under its key."""
    from decbayes.network.runtime.store.orders import Retract

    if not for_good:
        raise StoreFailed("A retraction is for good: the agent's key can publish no evidence again. Say --for-good.")
    order(store, Retract(), wait, as_json)


@app.command
def approve(
    store: Store,
    /,
    *,
    name: Annotated[str, Parameter(help="Who approves.")],
    reason: Annotated[str, Parameter(help="Why it may leave.", show_default=False)] = "",
    digest: Annotated[
        str, Parameter(help="The digest that `decbayes status` shows; default: whatever waits now.", show_default=False)
    ] = "",
    wait: Wait = 60.0,
    as_json: Json = False,
) -> None:
    """Approve the evidence that waits: it is written into the ledger beside the store, and published.

    Look at it first: `decbayes preview STORE.draft --data FILE`. Every later version needs an approval of its own.
    """
    from decbayes.network.runtime.store.orders import Approve

    order(store, Approve(name, reason, digest), wait, as_json)


@app.command
def remove(store: Store, name: Name, /, *, wait: Wait = 60.0, as_json: Json = False) -> None:
    """Vote to remove a member. It stops counting once more than the charter's `agreement` share have voted so."""
    from decbayes.network.runtime.store.orders import Vote

    order(store, Vote(name, ""), wait, as_json)


@app.command
def rekey(store: Store, name: Name, key: Key, /, *, wait: Wait = 60.0, as_json: Json = False) -> None:
    """Vote for a member's new public key, as printed by `decbayes keygen NEW --after OLD`."""
    from decbayes.network.runtime.store.orders import Vote

    if not key:
        raise InvalidCharter("Give the new public key; `decbayes keygen NEW --after OLD` makes one.")
    order(store, Vote(name, key), wait, as_json)


@app.command
def keep(store: Store, name: Name, /, *, wait: Wait = 60.0, as_json: Json = False) -> None:
    """Withdraw the vote about a member."""
    from decbayes.network.runtime.store.orders import Vote

    order(store, Vote(name, None), wait, as_json)


def readable(file: Path) -> str:
    """The agent may run in another folder."""
    if not file.exists():
        raise StoreFailed(f"There is no file {file}.")
    return str(file.resolve())


def order(store: Path, given: "Order", wait: float, as_json: bool) -> None:
    require_extra("net", task="decbayes tell")
    from decbayes.network.runtime.store.orders import answer_to, give

    number = give(store, given)
    answer = answer_to(store, number, timeout=wait)
    if answer is not None and answer.startswith("not done"):
        raise StoreFailed(answer)
    if as_json:
        print_json({"answer": answer or LATER, "done": answer is not None})
    else:
        print(answer or LATER)
