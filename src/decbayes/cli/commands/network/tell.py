"""`decbayes tell`: orders to an agent, running or not, through its store."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter
from cyclopts.types import NonNegativeFloat

from decbayes.cli.shared.streams import json_option, print_json
from decbayes.errors import InvalidCharter, StoreFailed
from decbayes.extras import require_extra

if TYPE_CHECKING:
    from decbayes.network.runtime.store.orders import Order

app = App(name="tell", help="Give orders to your own agent, without a restart: add or take back data, retract, vote.")

Store = Annotated[Path, Parameter(help="The agent's store.")]
File = Annotated[Path, Parameter(help="A data file, as in `decbayes agent --data`.")]
Name = Annotated[str, Parameter(help="The member's name in the charter.")]
Wait = Annotated[NonNegativeFloat, Parameter(help="Seconds to wait for the agent's answer.")]

Json = Annotated[bool, json_option("order", "answer", "done")]

LATER = "stored; the agent has not answered yet. It does this as soon as it runs."


@app.command
def observe(store: Store, file: File, /, *, wait: Wait = 60.0, as_json: Json = False) -> None:
    """Fit a further file's data and publish it. It counts once, however often this is repeated."""
    from decbayes.network.runtime.store.orders import Observe

    order(store, Observe(readable(file)), wait, as_json)


@app.command
def withdraw(store: Store, file: File, /, *, wait: Wait = 60.0, as_json: Json = False) -> None:
    """Take a file's data back. The rest is fitted anew, so that no trace of it is left in the next version."""
    from decbayes.network.runtime.store.orders import Withdraw

    order(store, Withdraw(readable(file)), wait, as_json)


@app.command
def replace(store: Store, file: File, by: File, /, *, wait: Wait = 60.0, as_json: Json = False) -> None:
    """Take a file's data back and publish another's instead, in one version: a correction."""
    from decbayes.network.runtime.store.orders import Replace

    order(store, Replace(readable(file), readable(by)), wait, as_json)


@app.command
def retract(store: Store, /, *, for_good: bool = False, wait: Wait = 60.0, as_json: Json = False) -> None:
    """Withdraw all evidence of this agent everywhere. It cannot contribute again under its key: say --for-good."""
    from decbayes.network.runtime.store.orders import Retract

    if not for_good:
        raise StoreFailed("A retraction is for good: the agent's key can publish no evidence again. Say --for-good.")
    order(store, Retract(), wait, as_json)


@app.command
def remove(store: Store, name: Name, /, *, wait: Wait = 60.0, as_json: Json = False) -> None:
    """Sign that a member be removed. It counts no more once more than the charter's `agreement` have signed that."""
    from decbayes.network.runtime.store.orders import Vote

    order(store, Vote(name, ""), wait, as_json)


@app.command
def rekey(store: Store, name: Name, key: str, /, *, wait: Wait = 60.0, as_json: Json = False) -> None:
    """Sign that a member gets another public key, as `decbayes keygen NEW --after OLD` prints it."""
    from decbayes.network.runtime.store.orders import Vote

    if not key:
        raise InvalidCharter("Give the new public key; `decbayes keygen NEW --after OLD` makes one.")
    order(store, Vote(name, key), wait, as_json)


@app.command
def keep(store: Store, name: Name, /, *, wait: Wait = 60.0, as_json: Json = False) -> None:
    """Take the vote about a member back."""
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
