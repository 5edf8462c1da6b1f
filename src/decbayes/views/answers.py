"""The result in three sentences: what was found, how sure it is, and which sites differ."""

from collections.abc import Collection, Iterator, Sequence

import numpy as np

from decbayes.posterior import EXACT, JOINT
from decbayes.views.findings import Findings
from decbayes.views.participants import About
from decbayes.views.values import Estimate, counted, listed, number
from decbayes.views.view import LEVEL

MOST_EFFECTS, MOST_PARTS = 3, 3
NOTHING = About()
# Units whose plural is a word; symbols, such as kg, have none.
SINGULAR = {f"{word}s": word for word in ("year", "month", "week", "day", "hour", "minute", "second", "point")}


def answer(findings: Findings, about: About = NOTHING) -> tuple[str, str, str]:
    """Three sentences made from the merged posterior; numbers have their intervals."""
    return found(findings, about), certainty(findings, about), how_sites_agree(findings)


def found(findings: Findings, about: About) -> str:
    """What was found, with numbers."""
    view, merged = findings.view, findings.merged
    ratios = view.ratios(merged)
    estimates = ratios or [estimate for estimate in view.estimates(merged) if estimate.null is not None]
    if estimates:
        return effects(findings, estimates, about)
    if findings.sets:
        return parts(findings)
    first = next(iter(view.estimates(merged)), None)
    return f"{first.name} is {interval(first)}." if first else f"{findings.total or 'All data'} gave one posterior."


def effects(findings: Findings, estimates: Sequence[Estimate], about: About) -> str:
    """The clearest effects, or that none is clear."""
    clear = sorted((each for each in estimates if is_clear(each)), key=lambda each: -strength(each))
    modelled = findings.view.modelled.split(", by ")[0]
    subject = f"the {modelled}" if modelled else "the outcome"
    if not clear:
        first = max(estimates, key=strength)
        return (
            f"No effect on {subject} is clear: all {LEVEL:.0%} intervals contain the value of no effect. The strongest "
            f"is {about.named(first.name)}: {interval(first)}."
        )
    names = {other.name for other in estimates}
    texts = [effect(findings, each, "it" if place else subject, about, names) for place, each in enumerate(clear)]
    said = "; ".join(texts[:MOST_EFFECTS])
    more = f"; {counted(len(clear) - MOST_EFFECTS, 'further effect')} are clear" if len(clear) > MOST_EFFECTS else ""
    unclear = len(estimates) - len(clear)
    rest = f" For {counted(unclear, 'other term')} no effect is clear." if unclear else ""
    return f"{said[0].upper()}{said[1:]}{more} ({LEVEL:.0%} intervals).{rest}"


def cause(findings: Findings, name: str, per: float, about: About, terms: Collection[str]) -> str:
    """A unit of a column, such as "each year of age"; or a level of it, and the level that it is compared with."""
    columns = getattr(findings.view.model, "columns", {})
    if name in columns and not columns[name].flag:
        unit = about.units.get(name, "")
        return f"each {SINGULAR.get(unit, unit) or 'unit' if per == 1.0 else f'{per:g} {unit}'.strip()} of {name}"
    column, _, level = name.partition("=")
    levels = getattr(columns.get(column), "entries", ())
    others = [other for other in levels if f"{column}={other}" not in terms]
    return (
        f"{name}, compared with {others[0]}," if level and level in levels and len(others) == 1 else about.named(name)
    )


def effect(findings: Findings, estimate: Estimate, subject: str, about: About, names: Collection[str]) -> str:
    """What a unit of a column, or a level of it, does to the outcome, or to one level of an outcome."""
    model, factor = findings.view.model, bool(findings.view.ratio)
    target = getattr(model, "target", "")
    reference, *levels = getattr(getattr(model, "columns", {}).get(target), "entries", ()) or ("",)
    level, _, term = estimate.name.removesuffix(f", per {estimate.per:g}").rpartition(": ")
    if level in levels:
        subject = f"the odds of {target} = {level} against {reference}"
        names = {name.removeprefix(f"{level}: ") for name in names}
    else:
        term = estimate.name.removesuffix(f", per {estimate.per:g}")
    cause_of_it = cause(findings, term, estimate.per, about, names)
    if factor:
        return f"{cause_of_it} multiplies {subject} by {interval(estimate)}"
    change = Estimate(abs(estimate.mean), *sorted_ends(estimate), estimate.name, estimate.deviation)
    return f"{cause_of_it} {'raises' if estimate.mean > 0 else 'lowers'} {subject} by {interval(change)}"


def sorted_ends(estimate: Estimate) -> tuple[float, float]:
    """The ends of the interval of a change, as a raise or as a fall."""
    sign = 1.0 if estimate.mean > 0 else -1.0
    low, high = sorted((sign * estimate.low, sign * estimate.high))
    return low, high


def is_clear(estimate: Estimate) -> bool:
    return not estimate.low <= (estimate.null or 0.0) <= estimate.high


def strength(estimate: Estimate) -> float:
    """How many interval widths the value is from no effect, on the scale on which the interval is symmetric."""
    null = estimate.null or 0.0
    if null == 1.0 and estimate.low > 0.0:
        return float(abs(np.log(estimate.mean)) / max(np.log(estimate.high / estimate.low), 1e-12))
    return abs(estimate.mean - null) / max(estimate.high - estimate.low, 1e-12)


def interval(estimate: Estimate) -> str:
    return f"{number(estimate.mean)} ({number(estimate.low)} to {number(estimate.high)})"


def parts(findings: Findings) -> str:
    """How many components there are, and the largest of them with their shares."""
    coupled = findings.sets[0]
    evidence = findings.shared[coupled].evidence.sum(axis=0)
    filled = [int(slot) for slot in np.argsort(-evidence, kind="stable") if evidence[slot] > 0]
    shown = [slot for slot in filled if slot in set(findings.visible)][:MOST_PARTS]
    titles, captions = findings.titles(coupled), findings.captions(coupled)
    shares = {slot: f"{evidence[slot] / evidence.sum():.0%} of {findings.unit}" for slot in shown}
    texts = [f"{titles[slot]} ({shares[slot]}{detail(titles[slot], captions[slot])})" for slot in shown]
    lead = "the largest are " if len(filled) > len(shown) else ""
    noun = findings.view.noun
    what = f"{len(filled)} {noun if len(filled) == 1 else f'{noun}es' if noun.endswith('s') else f'{noun}s'}"
    return f"{what} {'was' if len(filled) == 1 else 'were'} found: {lead}{'; '.join(texts)}."


def detail(title: str, caption: str) -> str:
    """A few words on a component, if its title does not say them."""
    return f"; {caption}" if caption and caption not in title else ""


def certainty(findings: Findings, about: About = NOTHING) -> str:
    """What the result rests on, and what to think of its intervals and matches; persons are named if they are fewer."""
    sites, known = counted(len(findings.sites), "site"), [*about.participants.values()]
    amount = findings.total
    if amount and any(0 < site.persons < site.rows for site in known) and all(site.persons for site in known):
        amount = f"{counted(sum(site.persons for site in known), 'person')} ({amount})"
    rests = f"This rests on {amount} at {sites}" if amount else f"This rests on the data of {sites}"
    return f"{rests}; {'; '.join(doubts(findings))}."


def doubts(findings: Findings) -> Iterator[str]:
    kind = findings.merged.uncertainty
    if kind == EXACT:
        yield "the intervals are exact for this model"
    elif kind == JOINT:
        yield "the intervals are approximate"
    elif "not calibrated" in kind:
        yield "the intervals are approximate, and often somewhat too narrow (not calibrated)"
    else:
        yield f"the intervals are {kind}"
    sure = findings.sureness.values()
    wrong = [each.expected_wrong for each in sure if each.expected_wrong is not None]
    if findings.sets and len(findings.sites) > 1:
        matched = int(sum((~np.isnan(each.values)).sum() for each in sure))
        known = len(wrong) == len(sure)
        number_wrong = "fewer than 1" if sum(wrong) < 1 else f"about {number(round(sum(wrong)))}"
        yield (
            f"{number_wrong} of {matched} matches between sites are expected to be wrong"
            if known
            else "how many matches between sites are right is not known"
        )


def how_sites_agree(findings: Findings) -> str:
    """Which sites differ, and in what."""
    if len(findings.sites) == 1:
        return "There is one site, so that nothing can be compared."
    standing = [findings.names[site] for site in findings.sites if findings.influence.disagreeing[site]]
    differing = [*differences(findings)]
    if standing:
        verb = "disagrees" if len(standing) == 1 else "disagree"
        text = f"{listed(standing)} {verb} with the other sites"
        return f"{text}; sites differ by more than chance in {listed(differing)}." if differing else f"{text}."
    if differing:
        return f"Sites differ by more than chance in {listed(differing)}; no single site stands out."
    if findings.undecided:
        return "No site stands out; whether sites differ by more than chance was not tested."
    return "No site stands out, and sites differ no more than by chance."


def differences(findings: Findings) -> Iterator[str]:
    """The terms or components in which sites differ."""
    for term in findings.view.differences(findings.alignment):
        if term.notable:
            yield term.name
    for coupled in findings.sets:
        apart = findings.heterogeneity.get(coupled)
        titles = findings.titles(coupled)
        if apart is not None:
            yield from (titles[slot] for slot in range(len(apart.ratio)) if apart.differ(slot))
