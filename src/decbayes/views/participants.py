"""What a report says besides the merge: the question, who asked it, who took part, and what each gains by it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from decbayes.columns import Column
from decbayes.families import Array
from decbayes.views.findings import Findings


@dataclass(frozen=True)
class Participant:
    """One site: how many rows it used and left out, and who approved its file."""

    rows: int = 0
    persons: int = 0
    left_out: Mapping[str, int] = field(default_factory=dict)
    approver: str = ""
    date: str = ""
    columns: Mapping[str, Column] = field(default_factory=dict)
    """What its columns hold, as far as the site has said it."""


@dataclass(frozen=True)
class About:
    """The question of a report, who asks it and when; the units of columns, and the sites by name."""

    question: str = ""
    authors: tuple[str, ...] = ()
    date: str = ""
    units: Mapping[str, str] = field(default_factory=dict)
    participants: Mapping[str, Participant] = field(default_factory=dict)

    def named(self, column: str) -> str:
        """A column with its unit, if it has one."""
        return f"{column} ({self.units[column]})" if column in self.units else column


def gains(findings: Findings) -> Array:
    """How many times narrower each site's intervals become by joining; NaN where that is not known.

    Of a regression: the median over coefficients of the ratio of standard deviations, alone and merged. Of components:
    √(rows in the merge / the site's rows), averaged over the site's rows, since intervals shrink with √N.
    """
    merged = findings.view.estimates(findings.merged)
    if merged:
        return np.array([regression_gain(findings, site, [e.deviation for e in merged]) for site in findings.sites])
    if not findings.sets:
        return np.full(len(findings.names), np.nan)
    evidence = findings.slots(0)[0]
    total = evidence.sum(axis=0)
    narrower = np.sqrt(np.divide(total, evidence, out=np.ones_like(evidence), where=evidence > 0))
    rows = evidence.sum(axis=1)
    return np.asarray(
        np.divide((narrower * evidence).sum(axis=1), rows, out=np.full(len(rows), np.nan), where=rows > 0)
    )


def regression_gain(findings: Findings, site: int, merged: Sequence[float]) -> float:
    alone = findings.view.estimates(findings.alignment.posteriors[site])
    ratios = [one.deviation / all_sites for one, all_sites in zip(alone, merged, strict=True) if all_sites > 0.0]
    return float(np.median(ratios)) if ratios else float("nan")
