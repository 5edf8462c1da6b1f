"""Send orders to an agent, running or not, through its store; and settings as NAME=VALUE."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from cyclopts.types import NonNegativeFloat

from decbayes.base.extras import require_extra
from decbayes.cli.shared.standard_streams import json_option, print_json
from decbayes.cli.shared.terminal import messages
from decbayes.errors import InvalidCharter, StoreFailed

if TYPE_CHECKING:
    from decbayes.network.runtime.store.orders import Order

Store = Annotated[Path, Parameter(help="The agent's store.")]
Approver = Annotated[
    str, Parameter(help="If the motion is to show this site's numbers: the name of the person who approves that.")
]

LATER = "stored; the agent has not answered yet. It will act on it as soon as it runs."
# A running agent usually answers within so many seconds.
SOON = 3.0


@Parameter(name="*")
@dataclass(frozen=True)
class Answer:
    """How to wait for the agent's answer and print it."""

    wait: Annotated[NonNegativeFloat, Parameter(help="Seconds to wait for the agent's answer.")] = 60.0
    as_json: Annotated[bool, json_option("order", "answer", "done")] = False


IN_A_MINUTE = Answer()


def orders() -> ModuleType:
    """The module of all orders, loaded on use because it needs an extra."""
    require_extra("net", task="decbayes tell")
    from decbayes.network.runtime.store import orders

    return orders


def give(store: Path, order: "Order", answer: Answer) -> None:
    """Give an order to the agent, and print its answer."""
    number = orders().give(store, order)
    text = orders().answer_to(store, number, timeout=min(answer.wait, SOON))
    if text is None and answer.wait > SOON:
        messages().print(f"stored; waiting up to {answer.wait:g} s for an answer. Ctrl-C ends only the waiting.")
        text = orders().answer_to(store, number, timeout=answer.wait - SOON)
    if text is not None and text.startswith("not done"):
        raise StoreFailed(text)
    if answer.as_json:
        print_json({"answer": text or LATER, "done": text is not None})
    else:
        print(text or LATER)


def values(pairs: Sequence[str]) -> dict[str, Any]:
    """Settings by name: numbers, lists and so on as in JSON, anything else as a string."""
    return {name: value(text) for name, text in map(split, pairs)}


def value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def split(pair: str) -> tuple[str, str]:
    name, sign, text = pair.partition("=")
    if not (name and sign and text):
        raise InvalidCharter(f"'{pair}' is not of the form NAME=VALUE.")
    return name, text
