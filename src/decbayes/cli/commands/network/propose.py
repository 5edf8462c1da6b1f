"""`decbayes charter propose`: propose changes for a group to vote on; a proposal is the first vote."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter
from cyclopts.types import NonNegativeInt

from decbayes.cli.commands.network._orders import IN_A_MINUTE, Answer, Approver, Store, give, orders, values
from decbayes.cli.shared.running import with_example
from decbayes.errors import InvalidCharter
from decbayes.inputs.word_lists import read_vocabulary

app = App(
    name="propose",
    help="Propose a change for your group to vote on. It takes effect once enough members have voted for it.",
)

Name = Annotated[str, Parameter(help="The member's name.")]
Key = Annotated[str, Parameter(help="A public key, as printed by `decbayes keygen`.")]


@app.command
@with_example("decbayes charter propose add a.store d PUBLIC_KEY")
def add(store: Store, name: Name, key: Key, /, *, answer: Answer = IN_A_MINUTE) -> None:
    """Propose to give a seat to a new member, or its seat back to one that was removed."""
    give(store, orders().Propose("add", name, key), answer)


@app.command
@with_example("decbayes charter propose remove a.store d")
def remove(store: Store, name: Name, /, *, answer: Answer = IN_A_MINUTE) -> None:
    """Propose to remove a member. Its contribution stops counting, in records and in the prior."""
    give(store, orders().Propose("remove", name), answer)


@app.command
@with_example("decbayes charter propose rotate a.store d PUBLIC_KEY")
def rotate(store: Store, name: Name, key: Key, /, *, answer: Answer = IN_A_MINUTE) -> None:
    """Propose to replace a member's key by the one that `decbayes keygen NEW --after OLD` printed."""
    give(store, orders().Propose("rotate", name, key), answer)


@app.command
@with_example("decbayes charter propose rules a.store --rule robust=true")
def rules(
    store: Store,
    /,
    *,
    rules: Annotated[
        tuple[str, ...],
        Parameter(name="--rule", help="NAME=VALUE: a rule on how members count, or on what may leave their sites."),
    ] = (),
    limits: Annotated[
        tuple[str, ...], Parameter(name="--limit", help="NAME=VALUE: a limit on what members may send.")
    ] = (),
    answer: Answer = IN_A_MINUTE,
) -> None:
    """Propose other rules or limits; all others stay as they are."""
    if not rules and not limits:
        raise InvalidCharter("Give a rule or a limit to change: --rule NAME=VALUE, --limit NAME=VALUE.")
    give(store, orders().Propose("rules", rules=values(rules), limits=values(limits)), answer)


@app.command
@with_example("decbayes words harbour.jsonl -o harbour.txt", "decbayes charter propose words harbour.store harbour.txt")
def words(
    store: Store,
    file: Annotated[Path, Parameter(help="A list written by `decbayes words`; words that already count stay.")],
    /,
    *,
    answer: Answer = IN_A_MINUTE,
) -> None:
    """Propose to count more words. Sites count them in their files as soon as the motion is settled."""
    give(store, orders().Propose("words", words=read_vocabulary(file).words), answer)


@app.command
@with_example("decbayes charter propose epoch a.store")
def epoch(
    store: Annotated[Path, Parameter(help="The store of an agent that has the contributions of all members.")],
    /,
    *,
    forgetting: Annotated[
        float | Literal["learn"] | None,
        Parameter(help="Share to forget; 'learn' forgets what this epoch's data contradict."),
    ] = None,
    answer: Answer = IN_A_MINUTE,
) -> None:
    """Propose a new epoch: the merge so far becomes the prior, and its data are not counted again.

    Propose it once no more news arrives. Others vote for it if their agents have the same merge.
    """
    give(store, orders().Propose("epoch", forgetting=forgetting), answer)


@app.command
@with_example("decbayes charter propose show a.store --approve 'Dr Kim'")
def show(
    store: Store,
    names: Annotated[tuple[str, ...], Parameter(help="Members that should show their numbers; default: all.")] = (),
    /,
    *,
    number: Annotated[
        NonNegativeInt, Parameter(name="--round", help="Up to this round; default: the last open one.")
    ] = 0,
    approve: Approver = "",
    answer: Answer = IN_A_MINUTE,
) -> None:
    """Propose that members show their contributions to secure sums, to find out who added wrong numbers.

    No member is shown without its vote. `decbayes status` shows the result.
    """
    give(store, orders().Propose("show", seats=names, round=number, approver=approve), answer)
