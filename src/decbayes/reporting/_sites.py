"""The participants: rows used and left out, the sites' columns, and what each gains by joining."""

from typing import Any

import numpy as np

from decbayes.remarks import changes_by_rules
from decbayes.reporting.markup import Markup, concat, left_out, note, table, tag
from decbayes.views import Findings
from decbayes.views.participants import About, Participant, gains
from decbayes.views.values import number

MOST_SITES = 100


def participants_table(findings: Findings, about: About) -> Markup | None:
    """One row per site: rows in its data, left out and used, who approved its file, and what it gains."""
    if len(findings.sites) == 1 and not about.participants:
        return None
    sites = [about.participants.get(findings.names[site], Participant()) for site in findings.sites]
    shown = findings.sites[:MOST_SITES]
    unit = f"{findings.sizes[1]}s"
    flow = any(site.rows for site in sites)
    people = bool(about.persons)
    approved = any(site.approver for site in sites)
    head = ["site", *(["in the data", "left out"] if flow else []), f"{unit} used", *(["persons"] if people else [])]
    narrower = gains(findings)
    gained = bool(np.isfinite(narrower).any())
    head += [*(["approved"] if approved else []), *(["by joining, its intervals become"] if gained else [])]
    rows = [
        (
            findings.names[site],
            *(flow_of(sites[site]) if flow else ()),
            number(findings.sizes[0][site]) if findings.total else "–",
            *((number(sites[site].persons),) if people else ()),
            *((approval(sites[site]),) if approved else ()),
            *((narrowing(float(narrower[site])),) if gained else ()),
        )
        for site in shown
    ]
    more = left_out(len(findings.sites) - len(rows), "site")
    method = "from the standard deviations of estimates" if not findings.sets else "estimated from the numbers of rows"
    return concat(
        [
            table(head, rows),
            more,
            *map(note, changes_by_rules({name: site.changed for name, site in about.participants.items()})),
            note(f"How much narrower intervals become: {method}.") if gained else None,
            first_table(about, findings),
        ]
    )


def flow_of(site: Participant) -> tuple[str, Markup | str]:
    """The rows in the data, and how many were left out for which reason."""
    if not site.rows:
        return "–", "–"
    left = sum(site.left_out.values())
    reasons = ", ".join(f"{number(rows)} {reason}" for reason, rows in site.left_out.items() if rows)
    return number(site.rows + left), concat(
        [number(left), tag("span", f" ({reasons})", class_="note") if reasons else None]
    )


def approval(site: Participant) -> str:
    return ", ".join(filter(None, (site.approver, site.date))) or "–"


def narrowing(times: float) -> str:
    if not np.isfinite(times):
        return "–"
    return f"{times:.1f} times narrower" if times >= 1.05 else "hardly narrower"


def first_table(about: About, findings: Findings) -> Markup | None:
    """The columns of each site, as far as known: rounded means and standard deviations."""
    columns = {name: about.participants[name].columns for name in findings.names if name in about.participants}
    names = list(dict.fromkeys(name for listed in columns.values() for name in listed))
    if not names or len(columns) > MOST_SITES:
        return None
    rows = [(about.with_unit(name), *(column_text(columns[site].get(name)) for site in columns)) for name in names]
    head = ("column", *columns)
    text = "The columns as listed by the sites: mean ± standard deviation, rounded; or categories."
    return concat([tag("h3", "What the sites' data are like"), table(head, rows), note(text)])


def column_text(column: Any) -> str:
    if column is None:
        return "–"
    if column.kind == "real":
        centre, scale = column.zero_and_unit
        return f"{number(centre)} ± {number(scale)}"
    levels = [entry for entry in column.entries if entry]
    if levels:
        return ", ".join(levels) if len(levels) <= 6 else f"{len(levels)} categories"
    return f"mean {number(column.mean)}" if column.kind == "count" else column.kind
