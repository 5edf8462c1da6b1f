"""`decbayes tell`: orders to an agent, running or not, through its store."""

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from decbayes.cli.commands.network._ordering import Approver, Json, Store, Wait, order
from decbayes.errors import StoreFailed

app = App(
    name="tell", help="Give orders to your own agent without a restart: add, approve or withdraw data, retract, vote."
)

File = Annotated[Path, Parameter(help="A data file, as in `decbayes agent --data`.")]
ForGood = Annotated[bool, Parameter(help="Confirm that the retraction is for good.", negative="")]


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
    """Withdraw all of this agent's contribution, for good: it cannot contribute again under its key."""
    from decbayes.network.runtime.store.orders import Retract

    if not for_good:
        raise StoreFailed("A retraction is for good: the agent's key can never publish anything again. Add --for-good.")
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
    """Approve the contribution that waits: it is written into the ledger beside the store, and published.

    Look at it first: `decbayes preview STORE.draft --data FILE`. Every later version needs an approval of its own.
    """
    from decbayes.network.runtime.store.orders import Approve

    order(store, Approve(name, reason, digest), wait, as_json)


@app.command
def vote(
    store: Store,
    motion: Annotated[str, Parameter(help="The motion's name, as `decbayes status` shows it.")],
    /,
    *,
    approve: Approver = "",
    wait: Wait = 60.0,
    as_json: Json = False,
) -> None:
    """Vote for what another member has proposed. A vote cannot be taken back; a decision can be undone by another."""
    from decbayes.network.runtime.store.orders import Vote

    order(store, Vote(motion, approve), wait, as_json)


@app.command
def take(
    store: Store,
    file: Annotated[Path, Parameter(help="A file of decisions, as `decbayes charter export` writes it.")],
    /,
    *,
    wait: Wait = 60.0,
    as_json: Json = False,
) -> None:
    """Take in votes and decisions from a file, where there is no link to bring them."""
    from decbayes.network.runtime.store.orders import Take

    order(store, Take(readable(file)), wait, as_json)


def readable(file: Path) -> str:
    """The agent may run in another folder."""
    if not file.exists():
        raise StoreFailed(f"There is no file {file}.")
    return str(file.resolve())
