"""The result as a table for a paper: HTML, CSV, LaTeX and Word."""

import csv
import io
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from decbayes.errors import DecbayesError
from decbayes.remarks import too_narrow
from decbayes.reporting._forests import compared_places, effect_places, pooling, site_estimates
from decbayes.reporting.markup import Markup, concat, note, table
from decbayes.views import Findings, Interval, Profile, Shares, Words
from decbayes.views.answers import interval_words
from decbayes.views.participants import About
from decbayes.views.values import count_of, interval_text, number, percent, range_text

LEVEL = 0.95
"""Papers usually state 95 % intervals."""
MOST_WORDS = 8
LATEX = {one: rf"\{one}" for one in "&%$#_{}"} | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}"}
LATEX |= {"^": r"\textasciicircum{}", "²": "$^2$", "τ": r"$\tau$", "−": "$-$", "±": r"$\pm$"}


@dataclass(frozen=True)
class PaperTable:
    """A title, the names of columns, rows of texts, and a note on their meaning."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    meaning: str = ""

    def html(self) -> Markup:
        """The table as part of a page."""
        shown = table(self.head, self.rows, right=range(1, len(self.head)))
        return concat([shown, note(self.meaning) if self.meaning else None])

    def csv(self) -> bytes:
        lines = io.StringIO()
        csv.writer(lines, lineterminator="\n").writerows([self.head, *self.rows])
        return lines.getvalue().encode()

    def latex(self) -> bytes:
        """A floating table; the preamble needs booktabs."""
        rows = [" & ".join(map(latex_text, row)) + r" \\" for row in (self.head, *self.rows)]
        lines = [
            r"\begin{table}", r"\centering", rf"\caption{{{latex_text(self.title)}}}",
            rf"\begin{{tabular}}{{l{'r' * (len(self.head) - 1)}}}", r"\toprule", rows[0], r"\midrule", *rows[1:],
            r"\bottomrule", r"\end{tabular}", rf"\par\small {latex_text(self.meaning)}", r"\end{table}", "",
        ]  # fmt: skip
        return "\n".join(lines).encode()

    def docx(self) -> bytes:
        """A Word document with this table."""
        return word_document(
            [paragraph(self.title, bold=True), word_table((self.head, *self.rows)), paragraph(self.meaning)]
        )


WRITERS: dict[str, Callable[[PaperTable], bytes]] = {
    ".csv": PaperTable.csv,
    ".tex": PaperTable.latex,
    ".docx": PaperTable.docx,
}


def check_ending(path: Path) -> None:
    """Refuse a file with an unknown ending, before the work begins."""
    if path.suffix not in WRITERS:
        raise DecbayesError(f"{path}: tables are written as {', '.join(WRITERS)}; choose one of these endings.")


def paper_table(findings: Findings, about: About) -> PaperTable:
    """The merge as a table: effects of a regression, or descriptions of components."""
    title = about.question or usual_name(findings)
    if findings.view.estimates(findings.merged):
        return effects_table(findings, about, title)
    parts = [*findings.view.parts(findings.merged, level=LEVEL)] if findings.sets else []
    shown = findings.visible
    profiles = [*findings.view.profiles(findings.merged, level=LEVEL)] if findings.sets else []
    if shown and parts and len(profiles) == len(parts):
        return profile_table(findings, about, title, {slot: profiles[slot] for slot in shown})
    return components_table(findings, title, parts, shown)


def usual_name(findings: Findings) -> str:
    name = findings.view.usual_name
    return f"{name[:1].upper()}{name[1:]}"


def effects_table(findings: Findings, about: About, title: str) -> PaperTable:
    """Each term with its ratio or coefficient, and I²."""
    merged, ratios = findings.merged, findings.view.ratios(findings.merged, level=LEVEL)
    coefficients = findings.view.estimates(merged, level=LEVEL)
    places = effect_places(coefficients) if ratios else range(len(coefficients))
    sites, shown, kind = site_estimates(findings), ratios or coefficients, findings.view.ratio or "coefficient"
    compared = sites and not too_narrow(findings.alignment.posteriors)
    intervals = interval_words(findings)
    narrow = "" if intervals == merged.uncertainty else ", probably too narrow"
    head = ("term", f"{kind} ({LEVEL:.0%} interval{narrow})", *(("I²",) if compared else ()))
    rows = []
    for place, term in zip(places, shown, strict=True):
        pooled = pooling(place, sites) if place in compared_places(coefficients) else None
        differ = (f"{pooled.i_squared:.0%}" if pooled else "–",) if compared else ()
        rows.append((about.with_unit(term.name), interval_text(term), *differ))
    at = count_of(max(len(findings.sites), about.sites), "site")
    size = f"{findings.total} at {at}. " if findings.total else ""
    text = f"{size}{usual_name(findings)}: {findings.view.modelled}. Intervals: {intervals}."
    return PaperTable(title, head, tuple(rows), text)


def profile_table(findings: Findings, about: About, title: str, parts: Mapping[int, Profile]) -> PaperTable:
    """Columns of the data as rows, components as columns."""
    first, names = next(iter(parts.values())), findings.titles(findings.sets[0])
    shares = findings.view.frequencies(findings.merged, level=LEVEL)
    rows = (
        [("share", *(f"{percent(shares[k].mean)} ({range_text(shares[k], percent)})" for k in parts))] if shares else []
    )
    for name, value in first.columns.items():
        entries: Sequence[str] = [*value.of] if isinstance(value, Shares) else [""]
        rows += [
            (
                f"{about.with_unit(name)}{f': {entry}' if entry else ''}",
                *(cell(part.columns[name], entry) for part in parts.values()),
            )
            for entry in entries
        ]
    meaning = f"Means or shares with {LEVEL:.0%} intervals: {interval_words(findings)}."
    return PaperTable(title, ("", *(names[slot] for slot in parts)), tuple(rows), meaning)


def cell(value: Interval | Shares, entry: str) -> str:
    shown = value.of[entry] if isinstance(value, Shares) else value
    if shown.unit == "probability":
        return f"{percent(shown.mean)} ({range_text(shown, percent)})"
    return interval_text(shown)


def components_table(findings: Findings, title: str, parts: Sequence[Any], shown: Sequence[int]) -> PaperTable:
    """One row per component: its share and a few words on it."""
    if not findings.sets:
        summary = findings.merged.summary(top=10, level=LEVEL)
        ends = [f"{number(row['lower'])} to {number(row['upper'])}" for row in summary]
        names = [str(row["entry"] or row["factor"]) for row in summary]
        rows = [(name, number(row["mean"]), end) for name, row, end in zip(names, summary, ends, strict=True)]
        return PaperTable(title, ("parameter", "mean", f"{LEVEL:.0%} interval"), tuple(rows))
    evidence = findings.amounts(findings.sets[0])
    names, captions = findings.titles(findings.sets[0]), findings.captions(findings.sets[0])
    texts = [words_of(parts[slot]) if slot < len(parts) else "" for slot in range(len(names))]
    rows = [(names[k], f"{evidence[k] / evidence.sum():.1%}", texts[k] or captions[k]) for k in shown]
    return PaperTable(title, (findings.view.noun, f"share of {findings.unit}", "description"), tuple(rows))


def words_of(part: Any) -> str:
    return ", ".join(word for word, _ in part.words[:MOST_WORDS]) if isinstance(part, Words) else ""


def latex_text(text: str) -> str:
    return "".join(LATEX.get(character, character) for character in text)


# A Word document is a zip file of a few XML files.

SPACE = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
XML = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"
MAIN = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
RELATIONS = "application/vnd.openxmlformats-package.relationships+xml"
SIDES = ("top", "bottom")


def word_document(parts: Sequence[str]) -> bytes:
    """The bytes of a .docx file; the same parts give the same bytes."""
    files = {
        "[Content_Types].xml": f'<Types xmlns="{PACKAGE}/content-types">'
        f'<Default Extension="rels" ContentType="{RELATIONS}"/><Default Extension="xml" ContentType="application/xml"/>'
        f'<Override PartName="/word/document.xml" ContentType="{MAIN}"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{PACKAGE}/relationships">'
        f'<Relationship Id="rId1" Type="{OFFICE}" Target="word/document.xml"/></Relationships>',
        "word/document.xml": f"<w:document {SPACE}><w:body>{''.join(parts)}</w:body></w:document>",
    }
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name), (XML + text).encode())
    return content.getvalue()


def paragraph(text: str, *, bold: bool = False) -> str:
    look = "<w:rPr><w:b/></w:rPr>" if bold else ""
    return f'<w:p><w:r>{look}<w:t xml:space="preserve">{escape(text)}</w:t></w:r></w:p>'


def word_table(rows: Sequence[Sequence[str]]) -> str:
    """A table with lines above, below and under the head, as in journals."""
    lines = "".join(f'<w:{side} w:val="single" w:sz="8" w:space="0" w:color="auto"/>' for side in SIDES)
    head, *others = ["".join(f"<w:tc>{paragraph(text)}</w:tc>" for text in row) for row in rows]
    first = f"<w:tr><w:trPr><w:tblHeader/></w:trPr>{head}</w:tr>"
    grid = "".join('<w:gridCol w:w="2400"/>' for _ in rows[0])
    body = first + "".join(f"<w:tr>{row}</w:tr>" for row in others)
    return f"<w:tbl><w:tblPr><w:tblBorders>{lines}</w:tblBorders></w:tblPr><w:tblGrid>{grid}</w:tblGrid>{body}</w:tbl>"
