"""A merge as one file for any browser: what was found, which sites have it, and what deserves a look."""

import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from importlib.resources import files as resources
from pathlib import Path
from shlex import join
from typing import Any

import numpy as np

import decbayes
from decbayes.base.arguments import check_kind
from decbayes.base.writing import write_whole
from decbayes.merging import Alignment, Reliability
from decbayes.merging.reading import AGAINST
from decbayes.models.topics.quality import CoOccurrence
from decbayes.posterior import EXACT, JOINT
from decbayes.remarks import MOST_SHOWN, Remark, site_names
from decbayes.reporting._alignments import dendrogram, support
from decbayes.reporting._cards import cards, disagreements, empty_text
from decbayes.reporting._overviews import overview
from decbayes.reporting._remarks import checks, remarks
from decbayes.reporting._sites import participants_table
from decbayes.reporting.markup import (
    OPTIMALITY,
    Markup,
    concat,
    description,
    left_out,
    lines_of,
    note,
    prose,
    table,
    tag,
)
from decbayes.reporting.paper_tables import paper_table
from decbayes.views import Findings
from decbayes.views.answers import answer, interval_words
from decbayes.views.findings import LEAST, simulated_reliability
from decbayes.views.participants import About
from decbayes.views.values import Shape, count_of, number, plural
from decbayes.views.view import LEVEL

# Nothing is loaded and nothing runs, whatever a label contains: no script, no font, no address but embedded pictures.
FOOTER = "Made by decbayes. Nothing in this file is loaded from elsewhere."
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
MOST_SITES = 100
DIGITS = 12  # of a fingerprint
STATISTICIANS = "For statisticians"
NOTHING = About()
SURENESS = {
    "margin": "margin: how much worse the next best slot would be, in nats of the objective. It is no probability.",
    "probability": "probability: how often such a match was right at simulated sites like these. It is too high if the "
    "model is wrong, or if each site has only some of the components.",
}
SITES = "A site holds data; only its posterior was merged."
COMPONENTS = "A component is something that a site found. Matching components of different sites share one number."
APART = "apart: nats per observation that a site's version of a component loses by the merge."
NO_DATA = "This report is made from posterior files and contains no data."
CALIBRATE = (
    "To calibrate them, each site runs `decbayes calibrate merged.posterior DATA -o SITE.information` and sends the "
    "result. Then anybody runs `decbayes calibrate merged.posterior *.information -o calibrated.posterior`. In a "
    "study: `decbayes study calibrate` at each site, then `decbayes study report`."
)
FEW = "Still, a component with very few observations may describe them closely."


def report(
    alignment: Alignment,
    path: str | Path,
    *,
    names: Sequence[str] | None = None,
    title: str = "",
    shape: Shape | None = None,
    least: float = LEAST,
    command: str = "",
    reliability: Reliability | bool = True,
    counts: CoOccurrence | None = None,
    rows: Sequence[int] | None = None,
    about: About = NOTHING,
) -> None:
    """Write a merge as one HTML file for people who do not program: what was found, and how far to trust it.

    The file opens from disk, prints, and loads nothing from elsewhere. The same posteriors and names give the same
    bytes, in any order.

    `alignment` is the result of `db.align`, and `path` where to write. `names` are those of the sites, by default
    "site 0" and so on. `title` is the heading. `shape` is the height and width of components that are images.
    Components with fewer than `least` observations are counted but not shown, because they may describe single ones.
    `command` is shown as the way to reproduce the merge. Matches have the probabilities of `reliability`
    (`db.checking.reliability`), which is simulated if that takes seconds, or margins if it is False. With `counts`
    (`db.texts.Quality.co_occurrence`, summed over all sites) topics have their coherence. `rows` are the numbers of
    persons, documents or sequences behind the posteriors. `about` has the question, authors, units and descriptions
    of sites (`decbayes.views.participants.About`).

    >>> model, rng = db.GaussianMixture(2, 1, variance=1.0), np.random.default_rng(0)
    >>> sites = [np.array([0.0, 0.1, 9.0, 9.2]), np.array([8.9, 9.1, -0.1, 0.2])]
    >>> posteriors = [model.fit(points[:, None], rng=rng).posterior for points in sites]
    >>> db.report(db.align(posteriors), "report.html", names=["north", "south"], least=0)
    >>> "2 of 2 sites" in open("report.html", encoding="utf-8").read()
    True
    """
    check_kind(Alignment, alignment=alignment)
    known = {"least": least, "reliability": reliability, "counts": counts, "rows": rows}
    text = page(alignment, names=names, title=title, shape=shape, command=command, about=about, **known)
    write_whole(Path(path), text.encode())


def page(
    alignment: Alignment,
    *,
    names: Sequence[str] | None = None,
    title: str = "",
    shape: Shape | None = None,
    command: str = "",
    about: About = NOTHING,
    **known: Any,
) -> str:
    """The report as text; `known` are arguments of `Findings`."""
    return page_of(findings_of(alignment, names, **known), title=title, shape=shape, command=command, about=about)


def page_of(
    findings: Findings, *, title: str = "", shape: Shape | None = None, command: str = "", about: About = NOTHING
) -> str:
    sections = {
        "What was found": components(findings, shape, about),
        "What deserves a look": attention(findings),
        "Who took part": participants_table(findings, about),
        "Which sites have it": support(findings) if len(findings.sites) > 1 and findings.sets else None,
        "Where sites disagree": disagreements(findings),
    }
    details = {
        "A table for a paper": paper_table(findings, about).html(),
        "Which components are alike": dendrogram(findings),
        "What was merged": merged_sites(findings),
        "The model": about_the_model(findings),
        "How to reproduce it": reproduction(findings, command),
        "How to read this": reading(findings),
    }
    heading = title or about.question or f"Merge of {count_of(len(findings.sites), 'posterior')}"
    shown, folded = ({name: part for name, part in parts.items() if part} for parts in (sections, details))
    return f"<!doctype html>\n{tag('html', head(heading), body(heading, findings, about, shown, folded), lang='en')}\n"


def findings_of(alignment: Alignment, names: Sequence[str] | None, **known: Any) -> Findings:
    """The findings of an alignment; the reliability of matches is simulated if that takes seconds."""
    sites = names if names is not None else site_names(len(alignment.posteriors))
    if isinstance(known.setdefault("reliability", True), bool):
        length = Findings(alignment, tuple(map(str, sites)), rows=known.get("rows")).length
        known["reliability"] = simulated_reliability(alignment, length) if known["reliability"] else None
    return Findings.by_name(alignment, sites, **known)


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


def body(
    title: str, findings: Findings, about: About, sections: Mapping[str, Any], folded: Mapping[str, Any]
) -> Markup:
    links = [tag("a", name, href=f"#{anchor(name)}") for name in [*sections, STATISTICIANS]]
    byline = " · ".join(filter(None, (", ".join(about.authors), about.date)))
    top = tag(
        "header",
        tag("h1", title),
        tag("p", about.question, class_="by") if about.question and about.question != title else None,
        tag("p", byline, class_="by") if byline else None,
        [tag("p", sentence, class_="lead") for sentence in answer(findings, about)],
        figures(findings, about),
        tag("nav", links),
    )
    content = [tag("section", tag("h2", name, id=anchor(name)), part) for name, part in sections.items()]
    inner = [tag("section", tag("h2", name, id=anchor(name)), part) for name, part in folded.items()]
    fold = tag("details", tag("summary", STATISTICIANS, id=anchor(STATISTICIANS)), inner, class_="fold")
    return tag("body", top, tag("main", content, fold), tag("footer", FOOTER))


def anchor(name: str) -> str:
    return name.lower().replace(" ", "-")


def figures(findings: Findings, about: About) -> Markup:
    """The most important numbers."""
    several, (sizes, unit) = len(findings.sites) > 1, findings.sizes
    sites = max(len(findings.sites), about.sites)
    shown = {plural("site", sites): float(sites)}
    if about.persons:
        shown["persons"] = float(about.persons)
    if findings.total:
        shown[f"{unit}s"] = float(sizes.sum())
    if about.counting is not None:
        shown["of which count"] = float(about.counting)
    if findings.sets:
        count = sum(int((shared.evidence.sum(axis=0) > 0).sum()) for shared in findings.shared.values())
        shown[plural(findings.view.noun, count)] = float(count)
    if findings.sets and several:
        wrong = [sure.expected_wrong for sure in findings.sureness.values() if sure.expected_wrong is not None]
        if len(wrong) == len(findings.sureness):
            expected = float(np.round(sum(wrong), 1))
            shown[f"{plural('match', expected)} expected to be wrong"] = expected
    if several:
        standing_out = len({site for sites in findings.standing_out.values() for site in sites})
        shown["site that stands out" if standing_out == 1 else "sites that stand out"] = float(standing_out)
    boxes = [tag("div", tag("b", number(value)), tag("span", name)) for name, value in shown.items()]
    return tag("div", boxes, class_="figures")


def attention(findings: Findings) -> Markup:
    """What deserves a look, with remedies."""
    noticed = remarks(findings)
    if not noticed:
        return tag("p", f"Nothing stands out. Checked: {checks(findings)}")
    first, rest = noticed[:MOST_SHOWN], noticed[MOST_SHOWN:]
    more = tag("summary", count_of(len(rest), "further remark"))
    further = tag("details", more, tag("ul", map(item, rest), class_="remarks")) if rest else None
    return concat([tag("ul", map(item, first), class_="remarks"), further])


def item(remark: Remark) -> Markup:
    look, advice = "serious" if remark.is_warning else None, f"{remark.rests_on} {remark.advice}".strip()
    return tag("li", tag("b", prose(remark.what)), tag("span", prose(advice)), class_=look)


def components(findings: Findings, shape: Shape | None, about: About) -> Markup:
    """All components in one drawing, then each on a card."""
    parts = findings.view.parts(findings.merged, shape=shape) if findings.sets else ()
    shown, notes = [overview(findings, parts, about)], findings.notes.summary
    for coupled in findings.sets:
        title = tag("h3", " + ".join(coupled.factors)) if len(findings.sets) > 1 else None
        readable = f"{notes[0].upper()}{notes[1:]}." if notes else ""
        text = f"{empty_text(findings, coupled)}{readable}"
        shown += [title, note(text) if text else None, cards(findings, coupled, parts, about)]
    return concat(shown)


def merged_sites(findings: Findings) -> Markup:
    """Each file, its content, and how it agrees with the others."""
    flags = findings.flags
    first = set(sorted(findings.sites, key=lambda site: not flags(site))[:MOST_SITES])
    rows = [site_row(findings, site) for site in findings.sites if site in first]
    number_of = ["components"] if findings.sets else []
    compared = findings.influence.comparisons
    head = ("site", "posterior", *number_of, f"{findings.sizes[1]}s", "share", *compared, "stands out")
    more = left_out(len(findings.sites) - len(rows), "site", " not standing out")
    what = f"{findings.sizes[1]}s" if findings.total else "information"
    same = "components" if findings.sets else "parameters"
    meanings = {
        "log BF": f" log BF: nats in favour of the site's {same} being the same as the others' (below 0: against); "
        "wide priors raise it.",
        "against": f" {AGAINST}",
    }
    meaning = f"share: of all {what}.{''.join(meanings[name] for name in compared)}"
    return concat([table(head, rows, right=range(2, len(head) - 1)), more, note(meaning)])


def site_row(findings: Findings, site: int) -> tuple[Any, ...]:
    influence, posterior = findings.influence, findings.alignment.posteriors[site]
    compared = influence.comparisons.items()
    structure, share, flags = posterior.structure, findings.shares[site], findings.flags(site)
    return (
        findings.names[site],
        tag("code", posterior.digest[:DIGITS]),
        *([", ".join(str(structure.components(coupled)) for coupled in structure.symmetry)] if findings.sets else []),
        number(findings.sizes[0][site]) if findings.total else "–",
        concat([meter(share, findings.shares.max()), tag("span", f"{share:.1%}", class_="share-of")]),
        *(
            number(round(float(column[site]), 6) + 0.0) if name == "log BF" else f"{column[site]:.0%}"
            for name, column in compared
        ),
        tag("span", "; ".join(flags) or "–", class_="flags" if flags else None),
    )


def meter(share: float, longest: float) -> Markup:
    size = f"width:{100 * share / (longest or 1.0):.0f}%"
    return tag("span", tag("i", style=size), class_="meter short", aria_hidden="true")


def about_the_model(findings: Findings) -> Markup:
    """The model, its settings, and the fingerprints to compare with others."""
    alignment, structure = findings.alignment, findings.alignment.structure
    settings = {name: value for name, value in structure.model.items() if isinstance(value, str | float | int)}
    name = settings.pop("name", "") or "without a name"
    entries = {
        "model": name,
        **settings,
        "factors": ", ".join(f"{name} ({family.name})" for name, family in structure.families.items()),
        **({"number of components" if findings.sets else "merged": alignment.reason} if alignment.reason else {}),
        "structure": tag("code", structure.fingerprint),
        "merged posterior": tag("code", findings.merged.digest),
        "objective J": f"{alignment.objective[-1]:,.2f}".replace("-", "−") if alignment.objective else "–",
        **({"optimality": OPTIMALITY[alignment.optimality]} if findings.sets else {}),
    }
    return description(entries.items(), class_="told")


def reproduction(findings: Findings, command: str) -> Markup:
    """The command that reproduces the result, and the versions used."""
    files = [f"{findings.names[site]}.posterior" for site in findings.sites]
    merge = command or join(["decbayes", "merge", *files, "-o", "merged.posterior"])
    shown = merge if len(files) <= MOST_SITES else "decbayes merge *.posterior -o merged.posterior"
    used = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "numba"))
    text = (
        f"The same posteriors, in any order, give the merged posterior {findings.merged.digest[:DIGITS]}, as `show` "
        f"prints it. Made with decbayes {decbayes.__version__}, Python {platform.python_version()}, {used}. "
        "Other versions or processors may change the last digits, and with them the fingerprints."
    )
    return concat([tag("pre", lines_of([shown, "decbayes show merged.posterior"])), note(text)])


def reading(findings: Findings) -> Markup:
    """What the words mean, and the limits of this report."""
    intervals = intervals_text(findings)
    texts = [SITES, intervals, NO_DATA]
    if findings.sets:
        known = next(sure.name for sure in findings.sureness.values())
        close = f"close call: {next(iter(findings.sureness.values())).words}."
        texts = [f"{SITES} {COMPONENTS}", f"{SURENESS[known]} {close}", APART, intervals, f"{NO_DATA} {FEW}"]
    return tag("ul", [tag("li", prose(text)) for text in texts], class_="note")


def intervals_text(findings: Findings) -> str:
    """Where intervals come from, how far to trust them, and how to calibrate them."""
    merged = findings.merged
    words = interval_words(findings)
    if merged.uncertainty == EXACT:
        are = "are exact: the posterior of this model has a closed form" if words == EXACT else f"would be {words}"
        return f"Intervals and standard deviations {are}."
    if merged.calibration is not None or words != merged.uncertainty:
        return f"Intervals and standard deviations are {words}."
    if merged.uncertainty == JOINT:
        return (
            "Intervals and standard deviations are approximate. For a single fit they are close to exact ones. After "
            "one broadcast of small sites they may be off; rounds (refine) correct that."
        )
    where = f"where {plural(findings.view.noun, 2)} overlap: half of the {LEVEL:.0%} intervals may miss the truth there"
    narrow = f"too narrow {where}" if findings.sets else "often too narrow"
    text = f"Intervals and standard deviations come from variational Bayes ({merged.uncertainty}). They are {narrow}."
    return f"{text} {CALIBRATE}" if findings.view.calibrated_by == "linear response" else text
