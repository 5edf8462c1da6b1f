"""HTML and SVG from values, always escaped; the tables and notes of all sections."""

import struct
import zlib
from base64 import b64encode
from collections.abc import Collection, Iterable, Sequence
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decbayes.errors import printable

VOID = frozenset({"br", "col", "hr", "img", "meta"})
PNG_KINDS = {1: 0, 3: 2, 4: 6}  # by the number of channels
OPTIMALITY = {
    "none": "not proven",
    "swap": "no exchange of two components of one site improves it",
    "site": "no relabelling of one site improves it",
    "global": "no relabelling at all improves it",
}


class Markup(str):
    """Text that is already HTML; only functions of this module make it from other text."""

    __slots__ = ()


def tag(name: str, *children: Any, **attributes: Any) -> Markup:
    """One element. Children are markup, text, numbers, or collections of them; None is left out.

    `class_` is `class` and `stroke_width` is `stroke-width`.
    """
    opened = f"{name}{''.join(attribute(key, value) for key, value in attributes.items() if value is not None)}"
    inner = concat(children)
    if not inner and name in VOID:
        return Markup(f"<{opened}>")
    return Markup(f"<{opened}>{inner}</{name}>")


def concat(children: Any) -> Markup:
    """All children in order, with text escaped."""
    if isinstance(children, Markup):
        return children
    if children is None:
        return Markup("")
    if isinstance(children, str) or not isinstance(children, Iterable):
        return Markup(escape(readable(str(children))))
    return Markup("".join(map(concat, children)))


def attribute(key: str, value: Any) -> str:
    text = coordinate(value) if isinstance(value, float) else str(value)
    return f' {key.rstrip("_").replace("_", "-")}="{escape(readable(text))}"'


def readable(text: str) -> str:
    """Text without invisible characters, which could reverse the order of words."""
    return printable(text)


def coordinate(value: float) -> str:
    """A position in a drawing, to a tenth of a pixel."""
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def lines_of(texts: Iterable[str]) -> Markup:
    """Lines for a `pre`: text is escaped, line ends are kept."""
    return Markup("\n".join(concat(text) for text in texts))


def image(pixels: NDArray[np.uint8]) -> str:
    """(height, width, channels) as a data URL of a PNG.

    One channel is grey, three are colours, four are colours and opacity.
    """
    height, width, channels = pixels.shape
    raw = b"".join(b"\0" + row.tobytes() for row in np.ascontiguousarray(pixels))
    header = struct.pack(">IIBBBBB", width, height, 8, PNG_KINDS[channels], 0, 0, 0)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(raw, 9)), (b"IEND", b"")]
    content = b"\x89PNG\r\n\x1a\n" + b"".join(chunk(kind, data) for kind, data in parts)
    return f"data:image/png;base64,{b64encode(content).decode()}"


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def table(head: Sequence[Any], rows: Iterable[Sequence[Any]], *, right: Collection[int] = ()) -> Markup:
    """A table that scrolls if the page is narrow; the columns `right` are numbers to compare."""
    titles = [tag("th", text, scope="col", class_=side(place in right)) for place, text in enumerate(head)]
    body = [
        tag("tr", tag("th", first, scope="row"), [cell(value, place in right) for place, value in enumerate(others, 1)])
        for first, *others in rows
    ]
    return scrolling(tag("table", tag("thead", tag("tr", titles)), tag("tbody", body)), f"table by {head[0]}")


def scrolling(content: Markup, name: str) -> Markup:
    """Content that may be wider than the page: it scrolls, also with the keyboard."""
    return tag("div", content, class_="wide", tabindex=0, role="group", aria_label=name)


def cell(value: Any, right: bool) -> Markup:
    return tag("td", value, class_=side(right))


def side(right: bool) -> str | None:
    return "n" if right else None


def prose(text: str) -> Markup:
    """A sentence; what it quotes in backticks is code."""
    pieces = text.split("`")
    odd = len(pieces) % 2 == 0
    return concat(text if odd else [tag("code", piece) if place % 2 else piece for place, piece in enumerate(pieces)])


def note(text: str) -> Markup:
    return tag("p", prose(text), class_="note")


def figure(drawing: Markup, *caption: Any) -> Markup:
    return tag("figure", scrolling(drawing, "drawing"), tag("figcaption", caption))


def description(entries: Iterable[tuple[str, Any]], **attributes: Any) -> Markup:
    return tag("dl", [tag("div", tag("dt", name), tag("dd", value)) for name, value in entries], **attributes)


def left_out(count: int, noun: str, which: str = "") -> Markup | None:
    """How many things are not shown; None if all are."""
    what = f"further {noun}{which} is" if count == 1 else f"further {noun}s{which} are"
    return note(f"{count:,} {what} left out.") if count > 0 else None
