"""What commands share that can show themselves on a page."""

import select
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.console import Console

if TYPE_CHECKING:
    from decbayes.page import Page

PageOption = Annotated[
    list[str] | None,
    Parameter(
        help="Show a live page in the browser: at any free port of 127.0.0.1, at this one, or at HOST:PORT.",
        consume_multiple=(0, 1),
        negative="",
    ),
]


@contextmanager
def showing(words: list[str] | None, console: Console) -> "Iterator[Page | None]":
    """A page, if one is asked for; says where it is."""
    from decbayes.page import Page, PageAddress

    if words is None:
        yield None
        return
    page = Page(PageAddress.parse(words))
    console.print(f"Page: {page.url}")
    try:
        yield page
    finally:
        page.close()


def both(first: Callable[[], None], second: Callable[[], None]) -> Callable[[], None]:
    def called() -> None:
        first()
        second()

    return called


def linger(show: Callable[[], None], console: Console) -> None:
    """Go on showing how things are until somebody presses Enter."""
    console.print("The page stays until you press Enter.")
    while not select.select([sys.stdin], [], [], 1.0)[0]:
        show()
