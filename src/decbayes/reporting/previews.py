"""A preview as one HTML file, for whoever decides whether a file may leave."""

from decbayes.disclosure.previewing import STANDS_OUT, Preview, Statement
from decbayes.families import Array
from decbayes.reporting.drawing import svg
from decbayes.reporting.markup import Markup, figure, note, tag
from decbayes.reporting.reports import FOOTER, head

WIDTH, HEIGHT = 560.0, 130.0
MOST_BARS = 60


def preview_page(preview: Preview) -> str:
    """The page as text. It may quote rare words and categories: it is for the owner of the data only."""
    title = f"Before it leaves: {preview.title}"
    content = tag(
        "body",
        tag("header", tag("h1", title), tag("p", preview.verdict, class_="lead"), facts(preview)),
        tag("main", statements(preview.statements), pictures(preview), private(preview.private)),
        tag("footer", tag("p", FOOTER)),
    )
    return f"<!doctype html>\n{tag('html', head(title), content, lang='en')}\n"


def facts(preview: Preview) -> Markup:
    figures = [("may leave", "yes, once approved" if preview.may_leave else "no")]
    figures += [("membership, 50 % is chance", f"{preview.membership:.0%}")] if preview.membership is not None else []
    if len(preview.sizes[preview.sizes > 0.5]):
        figures.append(("smallest group", f"{preview.sizes[preview.sizes > 0.5].min():.0f}"))
    return tag("div", [tag("div", tag("b", value), tag("span", name)) for name, value in figures], class_="figures")


def statements(said: tuple[Statement, ...]) -> Markup:
    order = {"stop": 0, "look": 1, "fine": 2}
    items = [
        tag("li", tag("b", each.topic), tag("span", each.text), class_=None if each.severity == "fine" else "serious")
        for each in sorted(said, key=lambda each: order[each.severity])
    ]
    return tag("section", tag("h2", "What the file says"), tag("ul", items, class_="remarks"))


def pictures(preview: Preview) -> Markup | None:
    drawn = []
    if len(preview.sizes):
        drawn.append(
            figure(bars(preview.sizes, "size of each component"), "Persons or documents behind each component.")
        )
    if len(preview.deviations):
        text = (
            f"How far the result moves without single records, in posterior deviations; the line is at {STANDS_OUT:g}."
        )
        drawn.append(figure(bars(preview.deviations[:MOST_BARS], "records that stand out", STANDS_OUT), text))
    return tag("section", tag("h2", "Groups and records"), drawn) if drawn else None


def bars(values: Array, name: str, mark: float | None = None) -> Markup:
    """Upright bars, the largest of them labelled."""
    largest = max(float(values.max()), mark or 0.0, 1e-9)
    width = WIDTH / max(len(values), 12)
    up = [HEIGHT * float(value) / largest for value in values]
    drawn = [
        tag("rect", x=place * width + 1, y=HEIGHT + 14 - height, width=width - 2, height=height, fill="var(--blue)")
        for place, height in enumerate(up)
    ]
    drawn.append(tag("text", f"{values.max():.3g}", x=0.0, y=10.0, fill="var(--soft)", font_size=12))
    if mark is not None:
        y = HEIGHT + 14 - HEIGHT * mark / largest
        drawn.append(tag("line", x1=0.0, x2=WIDTH, y1=y, y2=y, stroke="var(--warn)", stroke_dasharray="4 3"))
    return svg(drawn, WIDTH, HEIGHT + 16, name)


def private(lines: tuple[str, ...]) -> Markup | None:
    if not lines:
        return None
    items = [tag("li", line) for line in lines]
    return tag("section", tag("h2", "For you only"), note("Rare in your data. Do not pass this on."), tag("ul", items))
