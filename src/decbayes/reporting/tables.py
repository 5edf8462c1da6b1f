"""Tables and notes, as all sections print them."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from decbayes.reporting.markup import Markup, tag


def table(head: Sequence[Any], rows: Iterable[Sequence[Any]], *, right: Collection[int] = ()) -> Markup:
    """A table that scrolls by itself where the page is narrow; the columns `right` hold numbers to compare."""
    titles = [tag("th", text, scope="col", class_=side(place in right)) for place, text in enumerate(head)]
    body = [
        tag("tr", tag("th", first, scope="row"), [cell(each, place + 1 in right) for place, each in enumerate(others)])
        for first, *others in rows
    ]
    return scrolling(tag("table", tag("thead", tag("tr", titles)), tag("tbody", body)), f"table by {head[0]}")


def scrolling(content: Markup, name: str) -> Markup:
    """What may be wider than the page: it scrolls by itself, with the keyboard, too."""
    return tag("div", content, class_="wide", tabindex=0, role="group", aria_label=name)


def cell(value: Any, right: bool) -> Markup:
    return tag("td", value, class_=side(right))


def side(right: bool) -> str | None:
    return "n" if right else None


def note(text: str) -> Markup:
    return tag("p", text, class_="note")


def left_out(count: int, what: str) -> Markup | None:
    """What is not shown, said in so many words; nothing where all is shown."""
    return note(f"{count:,} {what} left out.") if count > 0 else None
