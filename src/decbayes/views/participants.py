"""The context of a report: the question, the authors, the participants, and what each gains."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from decbayes.columns import Column
from decbayes.families import Array
from decbayes.merging.remarking import are_budgets
from decbayes.posterior import Posterior
from decbayes.views.findings import Findings
from decbayes.views.values import Interval


@dataclass(frozen=True)
class Participant:
    """One site: how many rows it used and left out, and who approved its file."""

    rows: int = 0
    persons: int = 0
    has_person_column: bool = False
    """Whether a column identifies persons; otherwise each row is a person."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    changed: Sequence[str] = ()
    """What the disclosure rules changed before its data were fitted, or after."""
    approver: str = ""
    date: str = ""
    columns: Mapping[str, Column] = field(default_factory=dict)
    """Its columns, as far as known."""
    sites: int = 1
    """The number of sites in it: several in the file of a merge."""
    counting: int | None = None
    """How many rows a robust merge counts; None if all do."""


@dataclass(frozen=True)
class About:
    """The question of a report, its authors and date, the units of columns, and the sites by name."""

    question: str = ""
    authors: tuple[str, ...] = ()
    date: str = ""
    units: Mapping[str, str] = field(default_factory=dict)
    participants: Mapping[str, Participant] = field(default_factory=dict)

    @property
    def persons(self) -> int:
        """The number of persons at all sites, if it differs from the number of rows; otherwise 0."""
        sites = [*self.participants.values()]
        fewer = any(site.has_person_column or site.persons < site.rows for site in sites)
        return sum(site.persons for site in sites) if fewer and all(site.persons for site in sites) else 0

    @property
    def some_count_rows(self) -> bool:
        """Whether some sites have told persons apart and others not, so that there may be fewer persons."""
        return len({site.has_person_column for site in self.participants.values()}) > 1

    @property
    def sites(self) -> int:
        """The number of sites behind the files, as far as known: more than files if some are merges."""
        return sum(site.sites for site in self.participants.values())

    @property
    def counting(self) -> int | None:
        """How many of all rows count, if a robust merge is among the files that does not count all of them."""
        sites = [*self.participants.values()]
        in_part = any(site.counting is not None for site in sites)
        return sum(site.rows if site.counting is None else site.counting for site in sites) if in_part else None

    def with_unit(self, column: str) -> str:
        return f"{column} ({self.units[column]})" if column in self.units else column


def gains(findings: Findings) -> Array:
    """How many times narrower each site's intervals become by joining; NaN if unknown.

    Unknown for topics, because a merge divides their counts among slots.
    Without components: the median over parameters of the ratio of deviations, alone and merged. With components:
    √(rows in the merge / rows of the site), averaged over the site's rows, because intervals shrink with √N.
    """
    if not findings.sets:
        merged = deviations(findings, findings.merged)
        return np.array([median_gain(findings, site, merged) for site in findings.sites])
    if are_budgets(findings.alignment.structure):
        return np.full(len(findings.names), np.nan)
    evidence = findings.slots(0)[0]
    total = evidence.sum(axis=0)
    narrower = np.sqrt(np.divide(total, evidence, out=np.ones_like(evidence), where=evidence > 0))
    rows = evidence.sum(axis=1)
    return np.asarray(
        np.divide((narrower * evidence).sum(axis=1), rows, out=np.full(len(rows), np.nan), where=rows > 0)
    )


def median_gain(findings: Findings, site: int, merged: Sequence[float]) -> float:
    alone = deviations(findings, findings.alignment.posteriors[site])
    ratios = [
        site_deviation / all_sites for site_deviation, all_sites in zip(alone, merged, strict=True) if all_sites > 0.0
    ]
    return float(np.median(ratios)) if ratios else float("nan")


def deviations(findings: Findings, posterior: Posterior) -> list[float]:
    """The widths of intervals of parameters that belong to no component."""
    if estimates := findings.view.estimates(posterior):
        return [estimate.deviation for estimate in estimates]
    values = (value for part in findings.view.profiles(posterior) for value in part.columns.values())
    return [value.high - value.low for value in values if isinstance(value, Interval)]
