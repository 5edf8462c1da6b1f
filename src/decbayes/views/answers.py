"""The result in three sentences: what was found, how sure it is, and which sites differ."""

from collections.abc import Iterator, Sequence

import numpy as np

from decbayes.families import Array
from decbayes.posterior import EXACT, JOINT, NARROW
from decbayes.remarks import COUNTED_TWICE, FEW_SLOTS, ONE_BROADCAST, ROUND, too_narrow
from decbayes.views._effect_sentences import Effects
from decbayes.views.class_view import most_different
from decbayes.views.coefficient_view import has_robust_errors
from decbayes.views.findings import Findings
from decbayes.views.participants import About
from decbayes.views.values import (
    Interval,
    Profile,
    Shares,
    column_value,
    count_of,
    first_few,
    joined_words,
    number,
    percent,
    plural,
    range_text,
)
from decbayes.views.view import LEVEL

MOST_PARTS, MOST_COLUMNS = 3, 3
NOTHING = About()


def answer(findings: Findings, about: About = NOTHING) -> tuple[str, str, str]:
    """Three sentences from the merged posterior; numbers have intervals."""
    return (
        result(findings, about) + values_to_check(findings),
        certainty(findings, about),
        how_sites_agree(findings, about),
    )


def values_to_check(findings: Findings) -> str:
    """Which values to check before anybody relies on the result, if there are any."""
    names = first_few([findings.names[site] for site in findings.doubted])
    return f" First check the values of {names}, which may be wrong and decide this." if names else ""


def result(findings: Findings, about: About) -> str:
    """What was found, in numbers."""
    view, merged = findings.view, findings.merged
    estimates = view.ratios(merged) or [estimate for estimate in view.estimates(merged) if estimate.null is not None]
    if estimates:
        legend = getattr(view.model, "legend", "")
        return Effects(view.model, estimates, about).text() + (f" {legend[0].upper()}{legend[1:]}." if legend else "")
    if findings.sets:
        return parts(findings, about)
    profiles = view.profiles(merged)
    values = profiles[0].columns if profiles else {estimate.name: estimate for estimate in view.estimates(merged)}
    texts = [column_text(name, value, about) for name, value in values.items()]
    return (
        f"The estimates are {joined_words(texts[:MOST_COLUMNS])} ({LEVEL:.0%} intervals)."
        if texts
        else "All data were merged."
    )


def parts(findings: Findings, about: About) -> str:
    """The number of components; how frequent the largest are, and what they are like."""
    coupled = findings.sets[0]
    evidence = findings.amounts(coupled)
    filled = [int(slot) for slot in np.argsort(-evidence, kind="stable") if evidence[slot] > 0]
    shown = [slot for slot in filled if slot in set(findings.visible)][:MOST_PARTS]
    profiles = findings.view.profiles(findings.merged)
    profile_of_slot = {slot: profiles[slot] for slot in shown if slot < len(profiles)}
    telling = most_different([*profile_of_slot.values()], MOST_COLUMNS) if profile_of_slot else []
    shares = frequencies(findings, evidence)
    texts = [
        f"{component_name(findings, slot)} {shares[slot]}{details(profile_of_slot.get(slot), telling, about)}"
        for slot in shown
    ]
    what = f"{findings.nouns(len(filled))} {'was' if len(filled) == 1 else 'were'} found."
    if not texts:
        return what
    largest = "The largest: " if len(filled) > len(shown) else ""
    listed_parts = "; ".join(texts)
    written = largest + (listed_parts if largest else f"{listed_parts[0].upper()}{listed_parts[1:]}")
    stated = profile_of_slot or findings.view.frequencies(findings.merged)
    return f"{what} {written}{f' ({LEVEL:.0%} intervals)' if stated else ''}."


def component_name(findings: Findings, slot: int) -> str:
    """A component's number, or the name that people or its words give it."""
    title, noun = findings.titles(findings.sets[0])[slot], findings.view.noun
    return title if title == f"{noun} {slot}" else f"the {noun} “{title}”"


def frequencies(findings: Findings, evidence: Array) -> list[str]:
    """How frequent each component is, according to the posterior, or else by what was counted."""
    intervals = findings.view.frequencies(findings.merged)
    total = float(np.sum(evidence))
    if len(intervals) == len(evidence):
        texts = [f"{percent(share.mean)} of {findings.unit} ({range_text(share, percent)})" for share in intervals]
    else:
        texts = [f"{percent(amount / total)} of {findings.unit}" for amount in evidence]
    return [f"{findings.view.occurs} {text}" for text in texts]


def details(profile: Profile | None, telling: Sequence[str], about: About) -> str:
    texts = [column_text(name, profile.columns[name], about) for name in telling] if profile is not None else []
    return f", with {joined_words(texts)}" if texts else ""


def column_text(name: str, value: Interval | Shares, about: About) -> str:
    """A column of a component: its mean with the unit, or the most frequent category."""
    category, text = column_value(value, about.units.get(name, ""))
    return f"{name} = {category} in {text}" if category else f"{name} {text}"


def certainty(findings: Findings, about: About = NOTHING) -> str:
    """The data behind the result, and how far to trust its intervals and matches; persons only if fewer than rows."""
    sites, amount = count_of(max(len(findings.sites), about.sites), "site"), findings.total
    if amount and about.persons:
        at_most = "at most " if about.some_count_rows else ""
        amount = f"{at_most}{count_of(about.persons, 'person')} ({amount})"
    if amount and about.counting is not None:
        amount = f"{amount}, of which {about.counting:,} count,"
    rests = f"This rests on {amount} at {sites}" if amount else f"This rests on the data of {sites}"
    return f"{rests}; {'; '.join(doubts(findings))}."


def doubts(findings: Findings) -> Iterator[str]:
    kind, view = findings.merged.uncertainty, findings.view
    words, narrow = view.uncertainty(findings.merged, findings.alignment.posteriors), why_narrow(findings)
    if kind == EXACT and words == EXACT:
        yield f"the intervals {'would be exact if the model held' if narrow else 'are exact for this model'}"
    elif kind == EXACT:
        yield f"the intervals would be {words}"
    elif kind == JOINT:
        yield f"the intervals are {'approximate' if words == JOINT else words}"
    elif NARROW in kind:
        yield "the intervals are too narrow to rely on until sites calibrate them (how: under “For statisticians”)"
    elif findings.merged.calibration is None:
        stated = view.profiles(findings.merged) or view.frequencies(findings.merged)
        several = plural(view.noun, 2)
        missing = f"its intervals are too narrow where {several} overlap: half of them may miss the truth there"
        yield f"the result is approximate{f', and {missing}' if stated and findings.sets else ''}"
    else:
        yield "the intervals are calibrated"
    if narrow:
        yield f"they are too narrow, because {narrow}"
    if any(remark.kind == ONE_BROADCAST or remark.advice == ROUND for remark in findings.warnings):
        yield "one broadcast is rough here, and a round (refine) brings it closer"
    if findings.sets and not view.frequencies(findings.merged):
        yield "shares are those of these data, and have no interval"
    matches = findings.sureness.values()
    wrong = [sureness.expected_wrong for sureness in matches if sureness.expected_wrong is not None]
    if findings.sets and len(findings.sites) > 1:
        matched = sum(sureness.matches for sureness in matches)
        known, several = len(wrong) == len(matches), plural(findings.view.noun, 2)
        how_many = "fewer than 1" if sum(wrong) < 1 else f"about {number(round(sum(wrong), 1))}"
        yield (
            f"{how_many} of {matched} matches of {several} {'is' if sum(wrong) < 1 else 'are'} expected to be wrong"
            if known
            else f"it is unknown whether all {several} of different sites were matched correctly"
        )


def interval_words(findings: Findings) -> str:
    """Where intervals come from, and why they are too narrow, if they are."""
    words, narrow = findings.view.uncertainty(findings.merged, findings.alignment.posteriors), why_narrow(findings)
    if findings.sets or not narrow:
        return words
    return f"{words}{' if the model held' if words == EXACT else ''}; they are too narrow, because {narrow}"


def why_narrow(findings: Findings) -> str:
    """Why intervals are too narrow: persons with several rows; regressions also assume equal sites, counted once.

    Robust errors assume no equal sites: their intervals are for the mean of these.
    """
    if findings.sets:
        return too_narrow(findings.alignment.posteriors)
    if any(differences(findings)) and not has_robust_errors(findings.merged):
        return "sites differ by more than chance or the model does not hold"
    repeated = any(remark.kind == COUNTED_TWICE for remark in findings.warnings)
    return "the same data seem to count more than once" if repeated else ""


def how_sites_agree(findings: Findings, about: About = NOTHING) -> str:
    if len(findings.sites) == 1 and about.sites > 1:
        return "The sites were merged before: a report of their own files compares them."
    if len(findings.sites) == 1:
        return "There is only one site, so there is nothing to compare."
    texts = [
        f"{first_few([findings.names[site] for site in sites])} {words[len(sites) > 1]}"
        for words, sites in findings.standing_out.items()
    ]
    differing = [*differences(findings)]
    # Where components overlap and sites do not say how far halves of their rows are apart, it is often not chance.
    doubtful = findings.sets and not all(spread.halves for spread in findings.heterogeneity.values())
    held = "if the model holds, " if doubtful else ""
    if texts:
        more = f"; {held}sites differ by more than chance in {first_few(differing)}" if differing else ""
        return f"{'; '.join(texts)}{more}."
    if differing:
        what = f"{held}sites differ by more than chance in {first_few(differing)}"
        one = findings.view.decisive(findings.alignment)
        which = "no single site stands out" if one is None else f"without {findings.names[one]} they would not"
        return f"{what[0].upper()}{what[1:]}; {which}."
    if others := warned_differences(findings):
        return f"No site stands out, but {' and '.join(others)}."
    if findings.undecided:
        return "No site stands out; whether sites differ by more than chance was not tested."
    allowed = f"; {first_few(sorted(findings.view.may_differ))} may differ" if findings.view.may_differ else ""
    return f"No site stands out, and no difference between sites is clear{allowed}."


def warned_differences(findings: Findings) -> list[str]:
    """What warnings say of differences without naming a site."""
    kinds, several = {remark.kind for remark in findings.warnings}, plural(findings.view.noun, 2)
    texts = {
        "unlike shares": f"sites have the {several} in different shares",
        FEW_SLOTS: f"some of the sites' {several} that were put together differ",
        "unsteady": "the merge depends on which sites take part",
    }
    return [text for kind, text in texts.items() if kind in kinds]


def differences(findings: Findings) -> Iterator[str]:
    """The terms or components in which sites differ although the model does not let them."""
    for term in findings.view.differences(findings.alignment):
        if term.notable and term.name not in findings.view.may_differ:
            yield term.name
    for coupled in findings.sets:
        heterogeneity = findings.heterogeneity.get(coupled)
        titles = findings.titles(coupled)
        if heterogeneity is not None:
            yield from (titles[slot] for slot in range(len(heterogeneity.ratio)) if heterogeneity.differ(slot))
