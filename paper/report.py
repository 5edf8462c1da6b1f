"""One self-contained page: every figure with its claims, medians, versions and times."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path

import numpy as np

from paper.claims import Claim, number
from paper.experiment import Experiment, redraw
from paper.table import Row, Table

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
figure { margin: 1rem 0 } svg { max-width: 100%; height: auto }
figcaption, footer { color: #555; font-size: 0.9rem }
table { border-collapse: collapse; font-size: 0.85rem } td, th { padding: 0.15rem 0.8rem; text-align: right }
td:first-child, td:nth-child(2), td:nth-child(3), th:first-child, th:nth-child(2), th:nth-child(3) { text-align: left }
tr { border-bottom: 1px solid #ddd } .fails { color: #b00020; font-weight: bold }
"""


def write_report(experiments: Sequence[Experiment], folder: Path) -> Path:
    """report.html from the tables and drawings that are already in the folder."""
    sections = [section(experiment, redraw(experiment, folder), folder) for experiment in experiments]
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    page = (
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>decbayes: the paper\'s figures</title>\n'
        f"<style>{STYLE}</style>\n<h1>The paper's figures</h1>\n{''.join(sections)}"
        f"<footer>Made {made}.</footer></html>\n"
    )
    path = folder / "report.html"
    path.write_text(page, encoding="utf-8")
    return path


def section(experiment: Experiment, table: Table, folder: Path) -> str:
    drawing = (folder / f"{experiment.name}.svg").read_text(encoding="utf-8")
    return (
        f"<h2>{escape(experiment.name)}</h2>\n<figure>{drawing[drawing.index('<svg') :]}\n"
        f"<figcaption>{escape(experiment.caption)} ({escape(experiment.label)} of the paper)</figcaption></figure>\n"
        f"<ul>{''.join(map(claim_item, experiment.claims(table)))}</ul>\n"
        f"{medians_table(table)}\n<footer>{escape('; '.join(table.distinct('versions')))}. "
        f"Seed {experiment.seed}, {len(table.distinct('trial'))} trials.</footer>\n"
    )


def claim_item(claim: Claim) -> str:
    return f"<li{'' if claim.holds else ' class=fails'}>{escape(str(claim))}</li>"


def medians_table(table: Table) -> str:
    """Medians over trials and members; single draws and observations are left to the CSV."""
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in table.rows:
        if is_score(row.measure):
            groups.setdefault((row.setting, row.method, row.measure), []).append(row)
    head = cells("th", ("setting", "method", "measure", "median", "lowest", "highest", "seconds", "rows"))
    lines = [cells("td", (*key, *summary(Table(tuple(rows))))) for key, rows in groups.items()]
    body = "".join(f"<tr>{line}</tr>" for line in (head, *lines))
    return f"<details><summary>Numbers</summary><table>{body}</table></details>"


def is_score(measure: str) -> bool:
    return not measure.startswith(("weight ", "mean ", "observation", "pixel "))


def summary(rows: Table) -> tuple[str, ...]:
    values, seconds = rows.values(), rows.seconds()
    summaries = (np.median(values), values.min(), values.max())
    return (*(number(float(value), 3) for value in summaries), number(float(np.median(seconds)), 2), str(len(values)))


def cells(tag: str, texts: Iterable[str]) -> str:
    return "".join(f"<{tag}>{escape(text)}</{tag}>" for text in texts)
