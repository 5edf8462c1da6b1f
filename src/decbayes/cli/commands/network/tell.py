"""`decbayes tell`: give orders to your agent, running or not, through its store."""

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from decbayes.cli.commands.network._orders import IN_A_MINUTE, Answer, Approver, Store, give, orders
from decbayes.cli.shared.running import with_example
from decbayes.errors import StoreFailed

app = App(
    name="tell", help="Give orders to your own agent without a restart: add, approve or withdraw data, retract, vote."
)

File = Annotated[Path, Parameter(help="A data file, as in `decbayes agent --data`.")]
ForGood = Annotated[bool, Parameter(help="Confirm that the retraction is permanent.")]


@app.command
@with_example("decbayes tell observe a.store more.csv")
def observe(store: Store, file: File, /, *, answer: Answer = IN_A_MINUTE) -> None:
    """Fit the data of one more file and publish it. It counts once, even if you repeat this."""
    give(store, orders().Observe(readable(file)), answer)


@app.command
@with_example("decbayes tell withdraw a.store old.csv")
def withdraw(store: Store, file: File, /, *, answer: Answer = IN_A_MINUTE) -> None:
    """Withdraw a file's data. The rest is fitted again, so that the next version holds no trace of them."""
    give(store, orders().Withdraw(readable(file)), answer)


@app.command
@with_example("decbayes tell replace a.store wrong.csv right.csv")
def replace(store: Store, file: File, by: File, /, *, answer: Answer = IN_A_MINUTE) -> None:
    """Correct data: withdraw one file and publish another in its place, in one version."""
    give(store, orders().Replace(readable(file), readable(by)), answer)


@app.command
@with_example("decbayes tell retract a.store --for-good")
def retract(store: Store, /, *, for_good: ForGood = False, answer: Answer = IN_A_MINUTE) -> None:
    """Withdraw all of this agent's contribution, permanently: it cannot contribute again with its key."""
    if not for_good:
        raise StoreFailed(
            "A retraction is permanent: the agent's key can never publish anything again. Add --for-good to confirm."
        )
    give(store, orders().Retract(), answer)


@app.command
@with_example("decbayes tell approve a.store --name 'Dr Kim'")
def approve(
    store: Store,
    /,
    *,
    name: Annotated[str, Parameter(help="The name of the person who approves.")],
    reason: Annotated[str, Parameter(help="The reason.")] = "",
    digest: Annotated[
        str, Parameter(help="The digest that `decbayes status` shows; default: the one that waits now.")
    ] = "",
    answer: Answer = IN_A_MINUTE,
) -> None:
    """Approve the contribution that waits: it is recorded in the ledger beside the store, and published.

    Look at it first: `decbayes preview STORE.draft --data FILE`. Every later version needs another approval.
    """
    give(store, orders().Approve(name, reason, digest), answer)


@app.command
@with_example("decbayes tell vote a.store MOTION")
def vote(
    store: Store,
    motion: Annotated[str, Parameter(help="The motion's name, as shown by `decbayes status`.")],
    /,
    *,
    approve: Approver = "",
    answer: Answer = IN_A_MINUTE,
) -> None:
    """Vote for another member's proposal. A vote cannot be withdrawn, but another decision can undo a decision."""
    give(store, orders().Vote(motion, approve), answer)


@app.command
@with_example("decbayes tell take a.store decisions.ballots")
def take(
    store: Store,
    file: Annotated[Path, Parameter(help="A file of decisions, written by `decbayes charter export`.")],
    /,
    *,
    answer: Answer = IN_A_MINUTE,
) -> None:
    """Take in votes and decisions from a file, if no link brings them."""
    give(store, orders().Take(readable(file)), answer)


def readable(file: Path) -> str:
    """The file's full path, because the agent may run in another folder."""
    if not file.exists():
        raise StoreFailed(f"There is no file {file}.")
    return str(file.resolve())
