"""Anything in a merge that deserves a look, and what to do about it."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from decbayes.merging import reading
from decbayes.structure import CoupledSet
from decbayes.views import Findings
from decbayes.views.text import counted, listed, number

MOST_NAMED = 5  # sites that stand out
ASK = (
    "It may be right, or have seen something else: ask how its data were collected. "
    "A robust merge (--robust) hardly counts sites that clearly disagree with most others."
)
CHECKED = (
    "copies of one posterior, sites without data, sites that are much larger than the others or disagree with them, "
    "components or terms in which sites differ by more than chance, components that mix different things, duplicates, "
    "components with very little data, and close calls"
)


@dataclass(frozen=True)
class Remark:
    """`serious` remarks may change the conclusions from the merge; the others are for information."""

    what: str
    remedy: str
    serious: bool = True


def remarks(findings: Findings) -> list[Remark]:
    """Everything that stands out, the serious first."""
    noticed = [*copies(findings), *idle(findings), *influential(findings)]
    for coupled in findings.sets:
        noticed += [*in_slots(findings, coupled), *varying(findings, coupled), *matches(findings, coupled)]
        noticed += [*thin(findings, coupled), *small(findings, coupled)]
    noticed += [*lineage(findings), *(Remark(*texts) for texts in findings.view.advice(findings.alignment))]
    return sorted(noticed, key=lambda remark: not remark.serious)


def copies(findings: Findings) -> Iterator[Remark]:
    by_digest: dict[str, list[str]] = {}
    for site in findings.sites:
        if findings.evidence[site] > 0:
            by_digest.setdefault(findings.alignment.posteriors[site].digest, []).append(findings.names[site])
    for names in by_digest.values():
        if len(names) > 1:
            yield Remark(
                f"{listed(names)} are the same posterior.", "The data behind it count more than once. Keep one of them."
            )


def idle(findings: Findings) -> Iterator[Remark]:
    names = [findings.names[site] for site in findings.sites if not findings.evidence[site] > 0]
    if names:
        yield Remark(f"No data: {listed(names)}.", "The posterior equals the prior. Was the right file fitted?")


def influential(findings: Findings) -> Iterator[Remark]:
    """Sites with very large influence, and sites that disagree with the others; the strongest by name."""
    flags = {site: findings.influence.flags(site) for site in findings.sites if len(findings.sites) > 1}
    flagged = sorted((site for site in flags if flags[site]), key=lambda site: -findings.influence.against[site])
    for site in flagged[:MOST_NAMED]:
        yield Remark(f"{findings.names[site]} {' and '.join(flags[site])}.", ASK)
    if len(flagged) > MOST_NAMED:
        more = len(flagged) - MOST_NAMED
        yield Remark(f"{counted(more, 'further site')} stand out.", "They are marked under What was merged.")


def in_slots(findings: Findings, coupled: CoupledSet) -> Iterator[Remark]:
    shared = findings.shared[coupled]
    if shared.unlike:
        yield Remark(
            f"{counted(len(shared.unlike), 'component')} mix different things: {listed(shared.unlike)}.",
            "Merge again with more components, or --components auto.",
        )
    if shared.duplicates:
        pairs = [f"{first} and {second}" for first, second in shared.duplicates]
        yield Remark(f"Nearly the same: {listed(pairs)}.", "Fewer components would merge them.")
    if shared.private:
        names = [f"{slot} ({findings.names[site]})" for slot, site in shared.private]
        yield Remark(
            f"{counted(len(names), 'component')} found by one site only: {listed(names)}.",
            "No other site confirms them. This is normal if sites see different things.",
            serious=False,
        )


def varying(findings: Findings, coupled: CoupledSet) -> Iterator[Remark]:
    """Components that are not the same everywhere."""
    if coupled not in findings.heterogeneity:
        return
    apart = findings.heterogeneity[coupled]
    names = [f"{slot} ({number(float(apart.ratio[slot]))} ×)" for slot in range(len(apart.ratio)) if apart.differ(slot)]
    if names:
        yield Remark(
            f"Sites differ by more than chance in {counted(len(names), 'component')}: {listed(names)}.",
            "×: spread between sites relative to chance. Intervals assume that all sites share the same values.",
        )


def thin(findings: Findings, coupled: CoupledSet) -> Iterator[Remark]:
    """Sites too small to find the components on their own."""
    few = reading.thin(findings.alignment, coupled)
    if few is not None:
        yield Remark(
            f"Sites have {few:.1f} observations per parameter of a component, too few to find components alone.",
            "Unless these posteriors were refined together, refine first; do not rely on the intervals.",
            serious=False,
        )


def matches(findings: Findings, coupled: CoupledSet) -> Iterator[Remark]:
    sure = findings.sureness[coupled]
    close, matched = int(sure.close.sum()), int((~np.isnan(sure.values)).sum())
    if close:
        yield Remark(
            f"{number(close)} of {number(matched)} matches are close calls ({sure.limit}).",
            "Check them before you rely on them; refinement resolves most of them.",
            serious=close > 0.1 * matched,
        )


def small(findings: Findings, coupled: CoupledSet) -> Iterator[Remark]:
    few = np.flatnonzero(findings.hidden(coupled)).tolist()
    if few:
        yield Remark(
            f"{counted(len(few), 'component')} with fewer than {findings.least:g} {findings.unit}: {listed(few)}.",
            "Not shown, since they may describe single observations. --least 0 shows everything, for your own use.",
        )


def lineage(findings: Findings) -> Iterator[Remark]:
    events = findings.alignment.lineage.events if findings.alignment.lineage is not None else ()
    changed = [str(event) for event in events if event.kind != "kept"]
    if events:
        kept = f"{len(events) - len(changed)} components kept their ids since the earlier merge."
        yield Remark(kept, f"Changed: {listed(changed)}." if changed else "Nothing else has changed.", serious=False)
