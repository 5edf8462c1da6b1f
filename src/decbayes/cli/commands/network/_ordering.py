"""Orders to an agent, running or not, through its store."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from cyclopts.types import NonNegativeFloat

from decbayes.base.extras import require_extra
from decbayes.cli.shared.standard_streams import json_option, print_json
from decbayes.errors import StoreFailed

if TYPE_CHECKING:
    from decbayes.network.runtime.store.orders import Order

Store = Annotated[Path, Parameter(help="The agent's store.")]
Wait = Annotated[NonNegativeFloat, Parameter(help="Seconds to wait for the agent's answer.")]
Approver = Annotated[
    str,
    Parameter(
        help="The name of whoever approves that this site's numbers are shown, if that is the motion.",
        show_default=False,
    ),
]
Json = Annotated[bool, json_option("order", "answer", "done")]

LATER = "stored; the agent has not answered yet. It does this as soon as it runs."


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
