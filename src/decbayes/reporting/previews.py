"""A preview as one HTML file, for the person who decides whether a file may leave."""

from collections.abc import Sequence

import numpy as np

from decbayes.disclosure.previewing import STANDS_OUT, TELLS_MEMBERS, Preview
from decbayes.disclosure.rarities import Statement
from decbayes.families import Array
from decbayes.reporting.drawing import svg
from decbayes.reporting.markup import Markup, description, figure, note, prose, tag
from decbayes.reporting.reports import FOOTER, head

WIDTH = 560.0
HEIGHT = 150.0
LINE, SPACE = 22.0, 62.0
MOST_BARS, MOST_RECORDS = 20, 60
MARKS = {"fine": "✓", "look": "?", "stop": "✗"}
MEANINGS = {"fine": "obeys the rules", "look": "look at this", "stop": "breaks a rule"}


def preview_page(preview: Preview) -> str:
    """The page as text. It may quote rare words and categories, so it is only for the owner of the data."""
    title = f"Before it leaves: {preview.title}"
    content = tag(
        "body",
        tag("header", tag("h1", title), verdict(preview), figures(preview)),
        tag("main", facts(preview), statements(preview.statements), pictures(preview), private(preview.private)),
        tag("footer", tag("p", FOOTER)),
    )
    return f"<!doctype html>\n{tag('html', head(title), content, lang='en')}\n"


def verdict(preview: Preview) -> Markup:
    worst = max((statement.severity for statement in preview.statements), key=list(MARKS).index, default="fine")
    return tag(
        "p", tag("b", MARKS[worst], class_=f"mark {worst}", aria_hidden="true"), prose(preview.verdict), class_="lead"
    )


def figures(preview: Preview) -> Markup:
    shown = [may_leave(preview)]
    if preview.membership is not None:
        shown.append(("of pairs: member distinguished from non-member (chance: 50 %)", f"{preview.membership:.0%}"))
    groups = preview.sizes[preview.sizes > 0.5]
    if len(groups):
        shown.append((f"smallest group ({preview.least:g} needed)", f"{groups.min():,.0f}"))
    if len(preview.deviations):
        shown.append(("posterior deviations: the most that one person moves it", f"{preview.deviations[0]:.2f}"))
    return tag("div", [tag("div", tag("b", value), tag("span", name)) for name, value in shown], class_="figures")


def may_leave(preview: Preview) -> tuple[str, str]:
    if not preview.may_leave:
        return "may leave", "no"
    return ("may leave, once approved", "yes") if preview.checked else ("may leave: the data were not checked", "?")


def facts(preview: Preview) -> Markup | None:
    if not preview.facts:
        return None
    return tag("section", tag("h2", "The manifest of the file"), description(preview.facts, class_="told"))


def statements(statements_shown: Sequence[Statement]) -> Markup:
    order = ["stop", "look", "fine"]
    rows = [
        tag(
            "tr",
            tag(
                "td",
                tag(
                    "b",
                    MARKS[statement.severity],
                    class_=f"mark {statement.severity}",
                    title=MEANINGS[statement.severity],
                ),
            ),
            tag("th", statement.topic, scope="row"),
            tag("td", statement.text),
        )
        for statement in sorted(statements_shown, key=lambda statement: order.index(statement.severity))
    ]
    legend = [tag("span", f"{mark} {MEANINGS[severity]}") for severity, mark in MARKS.items()]
    shown = tag("table", tag("tbody", rows), class_="checks")
    return tag("section", tag("h2", "What it reveals to others"), shown, tag("p", legend, class_="legend"))


def pictures(preview: Preview) -> Markup | None:
    drawn = []
    if len(preview.sizes):
        text = f"Persons, documents or sequences behind each group. Dashed: {preview.least:g}, the fewest allowed."
        drawn.append(figure(groups(preview.sizes, preview.least), text))
    if preview.membership is not None:
        text = (
            "A reader with this file and somebody's record guesses whether it was used. Measured on your own data, "
            "with files of half of them: this file reveals less."
        )
        drawn.append(figure(scale(preview.membership), text))
    if len(preview.deviations):
        text = (
            "How far the result moves without a single person, the largest first, in posterior standard deviations. "
            f"Dashed: {STANDS_OUT:g}; a person above it can be noticed."
        )
        drawn.append(figure(records(preview.deviations[:MOST_RECORDS]), text))
    return tag("section", tag("h2", "Groups and persons"), tag("div", drawn, class_="panels wider")) if drawn else None


def groups(sizes: Array, least: float) -> Markup:
    """Horizontal bars, one per group, the largest first."""
    shown = np.sort(sizes[sizes > 0.5])[::-1][:MOST_BARS]
    largest = max(float(shown.max(initial=0.0)), least)
    unit, height = (WIDTH - 2 * SPACE) / largest, LINE * len(shown) + 8
    drawn: list[Markup] = []
    for place, size in enumerate(shown.tolist()):
        middle, small = LINE * place + 0.5 * LINE + 4, size < least - 0.5
        colour = "var(--warn)" if small else "var(--blue)"
        drawn.append(text(f"{place + 1}", SPACE - 10, middle, "end"))
        drawn.append(tag("rect", x=SPACE, y=middle - 7, width=max(unit * size, 1.0), height=14.0, rx=2.0, fill=colour))
        drawn.append(text(f"{size:,.0f}", SPACE + unit * size + 8, middle, "start"))
    drawn.append(dashed_line(SPACE + unit * least, 0.0, SPACE + unit * least, height))
    return svg(drawn, WIDTH, height, "size of each group")


def scale(membership: float) -> Markup:
    """The result of the test between chance and certainty."""
    left, right, middle = 20.0, WIDTH - 30.0, 46.0

    def at(value: float) -> float:
        return left + (right - left) * (min(max(value, 0.5), 1.0) - 0.5) / 0.5

    colour = "var(--warn)" if membership > TELLS_MEMBERS else "var(--blue)"
    drawn = [
        tag("line", x1=left, x2=right, y1=middle, y2=middle, stroke="var(--line)", stroke_width=8.0,
            stroke_linecap="round"),
        tag("line", x1=left, x2=at(membership), y1=middle, y2=middle, stroke=colour, stroke_width=8.0,
            stroke_linecap="round"),
        tag("circle", cx=at(membership), cy=middle, r=9.0, fill=colour),
        text(f"{membership:.0%}", at(membership), middle - 26, "middle", size=15, strong=True),
        dashed_line(at(TELLS_MEMBERS), middle - 14, at(TELLS_MEMBERS), middle + 14),
    ]  # fmt: skip
    for value, name in ((0.5, "50 %: chance"), (TELLS_MEMBERS, f"{TELLS_MEMBERS:.0%}: look"), (1.0, "certain")):
        anchor = "start" if value == 0.5 else "end" if value == 1.0 else "middle"
        drawn.append(text(name, at(value), middle + 30, anchor))
    return svg(drawn, WIDTH, 92.0, "membership test")


def records(deviations: Array) -> Markup:
    """Vertical bars, one per record."""
    largest = max(float(deviations.max()), STANDS_OUT) * 1.1
    step = (WIDTH - SPACE) / max(len(deviations), 12)
    drawn: list[Markup] = [
        tag("line", x1=SPACE - 6, x2=WIDTH, y1=HEIGHT, y2=HEIGHT, stroke="var(--line)"),
        text("0", SPACE - 12, HEIGHT, "end"),
        text(f"{STANDS_OUT:g}", SPACE - 12, HEIGHT * (1 - STANDS_OUT / largest), "end"),
    ]
    if deviations.max() > 1.3 * STANDS_OUT:
        drawn.append(text(f"{deviations.max():.1f}", SPACE - 12, HEIGHT * (1 - deviations.max() / largest), "end"))
    for place, value in enumerate(deviations.tolist()):
        height, colour = HEIGHT * value / largest, "var(--warn)" if value > STANDS_OUT else "var(--blue)"
        drawn.append(
            tag("rect", x=SPACE + place * step, y=HEIGHT - height, width=max(step - 2, 1.0), height=height, fill=colour)
        )
    level = HEIGHT * (1 - STANDS_OUT / largest)
    drawn.append(dashed_line(SPACE - 6, level, WIDTH, level))
    return svg(drawn, WIDTH, HEIGHT + 8, "persons who stand out")


def text(words: str, x: float, y: float, anchor: str, *, size: int = 12, strong: bool = False) -> Markup:
    colour, weight = ("var(--ink)", "600") if strong else ("var(--soft)", None)
    return tag(
        "text", words, x=x, y=y, text_anchor=anchor, dominant_baseline="middle", fill=colour, font_size=size,
        font_weight=weight,
    )  # fmt: skip


def dashed_line(x1: float, y1: float, x2: float, y2: float) -> Markup:
    return tag("line", x1=x1, x2=x2, y1=y1, y2=y2, stroke="var(--warn)", stroke_width=1.5, stroke_dasharray="4 3")


def private(lines: Sequence[str]) -> Markup | None:
    if not lines:
        return None
    items = [tag("li", line) for line in lines]
    return tag("section", tag("h2", "For you only"), note("Rare in your data. Do not pass this on."), tag("ul", items))
