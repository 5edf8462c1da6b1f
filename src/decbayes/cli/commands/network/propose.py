"""`decbayes charter propose`: changes that a group decides on. The first to vote for something proposes it."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter
from cyclopts.types import NonNegativeInt

from decbayes.cli.commands.network._ordering import Approver, Json, Store, Wait, order
from decbayes.cli.commands.network._settings import values
from decbayes.errors import InvalidCharter
from decbayes.inputs.documents import read_vocabulary

app = App(
    name="propose",
    help="Propose a change for your group to vote on. It is in force once enough seats have voted for it.",
)

Name = Annotated[str, Parameter(help="The member's name.")]
Key = Annotated[str, Parameter(help="A public key, as `decbayes keygen` prints it.")]


@app.command
def add(store: Store, name: Name, key: Key, /, *, wait: Wait = 60.0, as_json: Json = False) -> None:
    """Propose to give a seat to a new member, or its seat back to one that was removed."""
    from decbayes.network.runtime.store.orders import Propose

    order(store, Propose("add", name, key), wait, as_json)


@app.command
def remove(store: Store, name: Name, /, *, wait: Wait = 60.0, as_json: Json = False) -> None:
    """Propose to remove a member. Its contribution stops counting, in records and in the prior."""
    from decbayes.network.runtime.store.orders import Propose

    order(store, Propose("remove", name), wait, as_json)


@app.command
def rotate(store: Store, name: Name, key: Key, /, *, wait: Wait = 60.0, as_json: Json = False) -> None:
    """Propose to replace a member's key by the one that `decbayes keygen NEW --after OLD` printed."""
    from decbayes.network.runtime.store.orders import Propose

    order(store, Propose("rotate", name, key), wait, as_json)


@app.command
def rules(
    store: Store,
    /,
    *,
    rules: Annotated[
        tuple[str, ...],
        Parameter(name="--rule", help="NAME=VALUE, a rule on how members count, or on what may leave their sites."),
    ] = (),
    limits: Annotated[
        tuple[str, ...], Parameter(name="--limit", help="NAME=VALUE, a limit on what members may send.")
    ] = (),
    wait: Wait = 60.0,
    as_json: Json = False,
) -> None:
    """Propose other rules or limits; those that are not named stay."""
    from decbayes.network.runtime.store.orders import Propose

    if not rules and not limits:
        raise InvalidCharter("Name a rule or a limit to change: --rule NAME=VALUE, --limit NAME=VALUE.")
    order(store, Propose("rules", rules=values(rules), limits=values(limits)), wait, as_json)


@app.command
def words(
    store: Store,
    file: Annotated[Path, Parameter(help="A list of words, as `decbayes words` writes it; those that count stay.")],
    /,
    *,
    wait: Wait = 60.0,
    as_json: Json = False,
) -> None:
    """Propose to count more words. Sites count them in their files as soon as it is settled.

    For example:

    ```sh
    decbayes words harbour.jsonl -o harbour.txt
    decbayes charter propose words harbour.store harbour.txt
    ```
    """
    from decbayes.network.runtime.store.orders import Propose

    order(store, Propose("words", words=read_vocabulary(file).words), wait, as_json)


@app.command
def epoch(
    store: Annotated[Path, Parameter(help="The store of an agent that has the contributions of all members.")],
    /,
    *,
    forgetting: Annotated[
        float | Literal["learn"] | None,
        Parameter(help="Share to forget, or 'learn' to forget what this epoch's data contradict."),
    ] = None,
    wait: Wait = 60.0,
    as_json: Json = False,
) -> None:
    """Propose a new epoch: the merge so far becomes the prior, and the data in it are not counted again.

    Propose it once no more news arrives. Others vote for it if their agents have merged the same.
    """
    from decbayes.network.runtime.store.orders import Propose

    order(store, Propose("epoch", forgetting=forgetting), wait, as_json)


@app.command
def show(
    store: Store,
    names: Annotated[tuple[str, ...], Parameter(help="Members that are to show their numbers; default: all.")] = (),
    /,
    *,
    number: Annotated[
        NonNegativeInt, Parameter(name="--round", help="Up to this round; default: the last open one.")
    ] = 0,
    approve: Approver = "",
    wait: Wait = 60.0,
    as_json: Json = False,
) -> None:
    """Propose that members show what they have added to secure sums, to find out who has added wrong numbers.

    No member is shown without its vote. `decbayes status` says what was found.
    """
    from decbayes.network.runtime.store.orders import Propose

    order(store, Propose("show", seats=names, round=number, approver=approve), wait, as_json)
