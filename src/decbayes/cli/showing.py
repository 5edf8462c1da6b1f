"""The option of commands that can show themselves on a page."""

from typing import Annotated

from cyclopts import Parameter

PageOption = Annotated[
    list[str] | None,
    Parameter(
        help="Show a live page in the browser: at any free port of 127.0.0.1, at this one, or at HOST:PORT.",
        consume_multiple=(0, 1),
        negative="",
    ),
]
