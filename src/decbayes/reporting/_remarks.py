"""Everything in a merge that deserves a look, and what to do about it."""

from collections.abc import Iterator

import numpy as np

from decbayes.remarks import DISSENT, NOT_COMPARED, Remark, sites_first, with_measured_distance
from decbayes.structure import CoupledSet
from decbayes.views import Findings
from decbayes.views.comparison import changes_in
from decbayes.views.values import count_of, first_few, number, plural

MOST_NAMED = 5  # sites that stand out
SOME_WRONG = 1.0  # matches that are expected to be wrong
ASK = "It may be right, or have seen something else: ask how its data were collected."
ROBUST = "A robust merge (--robust) leaves out sites that clearly disagree with most others."


def checks(findings: Findings) -> str:
    """What was looked for in such a merge, and what could not be checked."""
    several, apart, undecided = len(findings.sites) > 1, findings.heterogeneity, findings.undecided
    components = plural(findings.view.noun, 2)
    looked_for = {
        "sites without data": True,
        "the same data at two sites (whole copies only)": several,
        "sites that are much larger than the others or disagree with them": several,
        "groups of sites on which the merge depends": bool(findings.parties.groups),
        f"{components} with very little data": bool(findings.sets),
        "sites that share nothing with others": several and bool(findings.sets),
        f"{components} that were put together and differ": several and bool(findings.sets),
        "duplicates": bool(findings.sets),
        "matches that are close calls": several and bool(findings.sets),
        f"{components if findings.sets else 'terms'} in which sites differ by more than chance": bool(apart)
        and not undecided,
    }
    *first, last = (what for what, holds in looked_for.items() if holds)
    checked = f"{', '.join(first)} and {last}" if first else last
    why = f" Not checked: whether sites differ by more than chance ({'; '.join(undecided)})." if undecided else ""
    return f"{checked}.{why}"


PROMISE = "differential privacy"
"""The kind of remark that states the promise of a private merge."""


def remarks(findings: Findings) -> tuple[Remark, ...]:
    """Everything that stands out, warnings first: the remarks of the merge, and those that take longer to find.

    Remarks of the model on its components, such as topics worth a look, come before general ones on matches.
    """
    noticed = [*merge_remarks(findings), *influence_remarks(findings), *findings.parties.remarks(findings.names)]
    # Sites that disagree stand out, and `checks` says what was not compared.
    noticed += [remark for remark in findings.advice if remark.kind not in (DISSENT, NOT_COMPARED)]
    kinds = (single_site_remarks, difference_remarks, match_remarks, small_component_remarks)
    noticed += [remark for coupled in findings.sets for kind in kinds for remark in kind(findings, coupled)]
    return sites_first(with_measured_distance([*noticed, *lineage_remarks(findings)]))


def merge_remarks(findings: Findings) -> tuple[Remark, ...]:
    """The remarks that the merge itself carries, and the promise to persons if releases are private."""
    posteriors = findings.alignment.posteriors
    promises = (remark for posterior in posteriors for remark in posterior.remarks if remark.kind == PROMISE)
    return (*promises, *findings.usual)


def influence_remarks(findings: Findings) -> Iterator[Remark]:
    """Sites with very large influence, and sites that disagree with the others; the strongest by name."""
    flags = {site: findings.influence.flags(site) for site in findings.sites if len(findings.sites) > 1}
    flagged = sorted((site for site in flags if flags[site]), key=lambda site: -findings.influence.against[site])
    advice = ASK if findings.alignment.decided == "rounds" else f"{ASK} {ROBUST}"  # it cannot judge files of a round
    for site in flagged[:MOST_NAMED]:
        yield Remark("stands out", f"{findings.names[site]} {' and '.join(flags[site])}.", advice)
    if len(flagged) > MOST_NAMED:
        more = len(flagged) - MOST_NAMED
        what = f"{count_of(more, 'further site')} {'stands' if more == 1 else 'stand'} out."
        yield Remark("stands out", what, "See “What was merged” for the reasons.")


def single_site_remarks(findings: Findings, coupled: CoupledSet) -> Iterator[Remark]:
    shared = findings.shared[coupled]
    if shared.private:
        titles = findings.labels(coupled)
        names = [f"{titles[slot]} ({findings.names[site]})" for slot, site in shared.private]
        yield Remark(
            "one site",
            f"{findings.nouns(len(names))} found by one site only: {first_few(names, separator='; ')}.",
            "No other site confirms them. This is normal if sites see different things.",
            severity="note",
        )


def difference_remarks(findings: Findings, coupled: CoupledSet) -> Iterator[Remark]:
    """Components that differ between sites."""
    if coupled not in findings.heterogeneity:
        return
    heterogeneity = findings.heterogeneity[coupled]
    titles, ratios = findings.labels(coupled), heterogeneity.ratio
    differing = [slot for slot in range(len(ratios)) if heterogeneity.differ(slot)]
    names = [f"{titles[slot]} ({number(float(ratios[slot]))} × chance)" for slot in differing]
    if names:
        least = heterogeneity.p_text(int(np.nanargmin(heterogeneity.probability)))
        yield Remark(
            "sites differ",
            f"Sites differ by more than chance in {findings.nouns(len(names))}: {first_few(names, separator='; ')}.",
            "Do not rely on intervals there: they assume that sites share the same values and the model holds.",
            f"p {least} {heterogeneity.provided(f'{findings.view.record}s were independent')}.",
        )


def match_remarks(findings: Findings, coupled: CoupledSet) -> Iterator[Remark]:
    sureness = findings.sureness[coupled]
    close, matched = sureness.close_calls, sureness.matches
    calls = f"{number(close)} {'is a close call' if close == 1 else 'are close calls'} ({sureness.limit})"
    if len(findings.sites) > 1 and sureness.expected_wrong is None:
        yield Remark(
            "matches",
            f"Whether all {plural(findings.view.noun, 2)} were matched correctly is not known.",
            "Simulations cannot tell: compare them site by site, under “Which sites have it”."
            if findings.why_unknown
            else "decbayes report --confidence estimates how likely that is, by simulating such sites.",
            severity="note",
        )
    elif sureness.expected_wrong is not None and sureness.expected_wrong >= SOME_WRONG:
        expected, several = number(round(sureness.expected_wrong, 1)), plural(findings.view.noun, 2)
        yield Remark(
            "wrong matches",
            f"About {expected} of {number(matched)} matches of {several} are expected to be wrong.",
            "A round (refine) resolves most doubtful matches.",
            f"{calls[:1].upper()}{calls[1:]}." if close else "",
            severity="warning" if sureness.expected_wrong > 0.1 * matched else "note",
        )
        return
    if close:
        yield Remark(
            "close calls",
            f"Of {number(matched)} matches, {calls}.",
            "Check them before you rely on them; a round (refine) resolves most of them.",
            severity="warning" if close > 0.1 * matched else "note",
        )


def small_component_remarks(findings: Findings, coupled: CoupledSet) -> Iterator[Remark]:
    few = np.flatnonzero(findings.hidden(coupled)).tolist()
    if few:
        least = f"{findings.least:g} {findings.view.counted}s"
        yield Remark(
            "small components",
            f"{findings.nouns(len(few))} with fewer than {least}: {first_few(few)}.",
            "Not shown, because they may describe single observations. --least 0 shows everything, for your own use.",
        )


def lineage_remarks(findings: Findings) -> Iterator[Remark]:
    lineage = findings.alignment.lineage
    if lineage is not None and lineage.events:
        changed = [*changes_in(lineage).values()]
        kept = f"{len(lineage.events) - len(changed)} components kept their ids since the earlier merge."
        rest = f"Changed: {first_few(changed)}." if changed else "Nothing else has changed."
        yield Remark("ids", kept, rest, severity="note")
