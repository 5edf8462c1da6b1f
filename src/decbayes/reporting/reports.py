"""One file that anybody can open: what a merge found, who has it, and what deserves a look."""

from collections.abc import Sequence
from importlib.resources import files as resources
from pathlib import Path
from typing import Any

from decbayes.arguments import check_kind
from decbayes.files import write_whole
from decbayes.merging import Alignment, Reliability
from decbayes.models.topics.quality import CoOccurrence
from decbayes.reporting import sections
from decbayes.reporting.cards import Shape, disagreements
from decbayes.reporting.findings import LEAST, Findings
from decbayes.reporting.markup import Markup, counted, tag

# Nothing is loaded and nothing runs, whatever a label says: no script, no font, no address but pictures within.
FOOTER = "Made by decbayes. Nothing in this file is loaded from elsewhere."
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def report(
    alignment: Alignment,
    path: str | Path,
    *,
    names: Sequence[str] | None = None,
    title: str = "",
    shape: Shape | None = None,
    least: float = LEAST,
    command: str = "",
    reliability: Reliability | None = None,
    counts: CoOccurrence | None = None,
) -> None:
    """Write what a merge found as one HTML file that opens from disk, prints, and loads nothing from elsewhere.

    `names` are those of the sites; `shape` is the height and width of components that are images. What rests on fewer
    than `least` observations is counted and not shown, since it may describe single ones. With `reliability`
    (`decbayes.checking.reliability`) matches have probabilities in the place of margins, and with `counts`
    (`Quality.co_occurrence`, of all sites) topics have their coherence. The same posteriors and names give the
    same bytes, in whatever order.
    """
    check_kind(Alignment, alignment=alignment)
    text = page(
        alignment,
        names=names,
        title=title,
        shape=shape,
        least=least,
        command=command,
        reliability=reliability,
        counts=counts,
    )
    write_whole(Path(path), text.encode())


def page(
    alignment: Alignment,
    *,
    names: Sequence[str] | None = None,
    title: str = "",
    shape: Shape | None = None,
    least: float = LEAST,
    command: str = "",
    reliability: Reliability | None = None,
    counts: CoOccurrence | None = None,
) -> str:
    """The report as text."""
    sites = names if names is not None else [f"site {number}" for number in range(len(alignment.posteriors))]
    found = Findings.of(alignment, sites, least, reliability, counts)
    parts = {
        "What deserves a look": sections.attention(found),
        "What was found": sections.components(found, shape),
        "Which sites have it": sections.support(found) if len(sites) > 1 and found.sets else None,
        "Where sites disagree": disagreements(found),
        "Which components are alike": sections.tree(found),
        "What was merged": sections.sites(found),
        "The model": sections.agreement(found),
        "How to get the same": sections.reproduction(found, command),
        "How to read this": sections.reading(found),
    }
    kept = {name: content for name, content in parts.items() if content}
    heading = title or f"Merge of {counted(len(sites), 'posterior')}"
    return f"<!doctype html>\n{tag('html', head(heading), body(heading, found, kept), lang='en')}\n"


def head(title: str) -> Markup:
    style = resources("decbayes.reporting").joinpath("page.css").read_text(encoding="utf-8")
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name_="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", Markup(style)),
    )


def body(title: str, found: Findings, parts: dict[str, Any]) -> Markup:
    links = [tag("a", name, href=f"#{anchor(name)}") for name in parts]
    kind = type(found.model).__name__ if found.model is not None else "a model without a name"
    told = f"Model {kind}, structure {found.merged.structure.fingerprint[: sections.DIGITS]}"
    top = tag("header", tag("h1", title), tag("p", told, class_="note"), sections.figures(found), tag("nav", links))
    content = [tag("section", tag("h2", name, id=anchor(name)), part) for name, part in parts.items()]
    return tag("body", top, tag("main", content), tag("footer", FOOTER))


def anchor(name: str) -> str:
    return name.lower().replace(" ", "-")
