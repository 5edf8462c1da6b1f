"""Each component on a card: what it is, which sites have it, and where sites disagree about it."""

from collections.abc import Iterator, Mapping, Sequence
from math import exp, log
from typing import Any

import numpy as np

from decbayes.families import dense
from decbayes.merging.reading import DISAGREES
from decbayes.posterior import Posterior
from decbayes.reporting.markup import Markup, concat, description, image, left_out, note, table, tag
from decbayes.structure import CoupledSet
from decbayes.views import Findings, Image, Profile, Words
from decbayes.views.participants import About
from decbayes.views.values import (
    DIVIDED,
    Part,
    Row,
    column_value,
    count_of,
    divided,
    number,
    percent,
    range_text,
    value_text,
)

MOST_CARDS, MOST_SUPPORTERS = 100, 12
MOST_FACTS = 8
MOST_DISAGREEMENTS = 20
MOST_QUOTED = 12  # sites, because describing one takes time
MILLION = 1e6
PERCENT = ("weight", "share in the long run", "how often")


def cards(findings: Findings, coupled: CoupledSet, parts: Sequence[Part], about: About) -> Markup:
    """A card for each of the components with the most evidence, and a line for each other one."""
    evidence = findings.amounts(coupled)
    largest = sorted(findings.filled_slots(coupled), key=lambda slot: -evidence[slot])
    bodies, hidden = bodies_of(findings, parts, len(evidence), about), findings.hidden(coupled)
    first, others = sorted(largest[:MOST_CARDS]), sorted(largest[MOST_CARDS:])
    concealed = note(f"Fewer than {findings.least:g} {findings.view.counted}s: not shown.")
    shown = [card(findings, coupled, slot, concealed if hidden[slot] else bodies[slot]) for slot in first]
    return concat([tag("div", shown, class_="cards"), remainder(findings, coupled, others)])


def card(findings: Findings, coupled: CoupledSet, slot: int, body: Markup) -> Markup:
    shared = findings.shared[coupled]
    support, total = shared.sites(slot), float(findings.amounts(coupled)[slot])
    share = total / max(float(findings.evidence.sum()), 1e-300)
    amount = f"{count_of(total, findings.view.counted)} ({percent(share)})"
    summary = [support_text(findings, support), amount, *spread(findings, coupled, slot)]
    return tag(
        "article",
        tag("h3", title(findings, coupled, slot), badge(findings, coupled, slot)),
        body,
        note(" · ".join(summary)) if support else note("Empty: no site has this component."),
        tag("div", tag("i", style=f"width:{100 * share:.1f}%"), class_="meter", aria_hidden="true"),
        supporters(findings, coupled, slot) if len(findings.sites) > 1 and support else None,
        class_="card",
        id=f"component-{slot}",
    )


def title(findings: Findings, coupled: CoupledSet, slot: int) -> list[Any]:
    """The name of a component, hidden if it has too few observations, and its number."""
    name = findings.titles(coupled)[slot]
    noun = f"{findings.view.noun} "
    if findings.hidden(coupled)[slot] or name == f"{noun}{slot}":
        return [noun.capitalize(), tag("span", slot, class_="no")]
    return [name, " ", tag("span", slot, class_="no")]


def spread(findings: Findings, coupled: CoupledSet, slot: int) -> list[str]:
    """How much more sites differ than by chance, if several sites have the component."""
    heterogeneity = findings.heterogeneity.get(coupled)
    if heterogeneity is None or not np.isfinite(heterogeneity.ratio[slot]):
        return []
    return [f"sites differ {heterogeneity.ratio[slot]:.1f} times as much as by chance"]


def support_text(findings: Findings, support: list[int]) -> str:
    if len(findings.sites) == 1:
        return "1 site"
    return (
        f"only {findings.names[support[0]]}" if len(support) == 1 else f"{len(support)} of {len(findings.sites)} sites"
    )


def badge(findings: Findings, coupled: CoupledSet, slot: int) -> list[Markup]:
    """A badge for a component that deserves a look."""
    shared = findings.shared[coupled]
    texts = {
        "components differ": slot in shared.unlike,
        "duplicate": any(slot in pair for pair in shared.duplicates),
        "one site": len(findings.sites) > 1 and len(shared.sites(slot)) == 1,
        "empty": not shared.sites(slot),
    }
    return [tag("span", text, class_="badge") for text, holds in texts.items() if holds]


def supporters(findings: Findings, coupled: CoupledSet, slot: int) -> Markup:
    """The sites that have it, those with the most evidence first."""
    shared, sure = findings.shared[coupled], findings.sureness[coupled]
    support, known = shared.sites(slot), sure.expected_wrong is not None
    rows = [
        (findings.names[site], number(round(shared.evidence[site, slot])), *([sure.text(site, slot)] * known))
        for site in support[:MOST_SUPPORTERS]
    ]
    shown = table(("site", f"{findings.view.counted}s", *(["probability"] * known)), rows, right=(1, 2))
    more = left_out(len(support) - len(rows), "site", " with less evidence")
    sums_differ = divided(findings.amounts(coupled), shared.evidence.sum(axis=0))
    return tag("details", tag("summary", "Sites that have it"), shown, more, note(DIVIDED) if sums_differ else None)


def remainder(findings: Findings, coupled: CoupledSet, slots: list[int]) -> Markup | None:
    """The components without a card, one line each."""
    if not slots:
        return None
    shared, texts, hidden = findings.shared[coupled], findings.captions(coupled), findings.hidden(coupled)
    amounts = findings.amounts(coupled)
    rows = [(k, "" if hidden[k] else texts[k], number(round(float(amounts[k]))), len(shared.sites(k))) for k in slots]
    shown = table((findings.view.noun, "description", f"{findings.view.counted}s", "sites"), rows, right=(2, 3))
    return tag("details", tag("summary", f"The other {findings.nouns(len(slots))}, which have less evidence"), shown)


def bodies_of(findings: Findings, parts: Sequence[Part], count: int, about: About) -> list[Markup]:
    """The body of each card; empty if the view does not describe this set's components."""
    if len(parts) != count:
        return [Markup("")] * count
    notes, details = [*findings.notes.parts] or [""] * count, facts_of(findings, parts, about)
    return [body(slot, part, details[slot], notes[slot]) for slot, part in enumerate(parts)]


def facts_of(findings: Findings, parts: Sequence[Part], about: About) -> list[Row]:
    """Each component column by column, with units and intervals; or else the plain values of its part."""
    profiles = findings.view.profiles(findings.merged)
    if len(profiles) != len(parts) or any(isinstance(part, Words | Image) for part in parts):
        return [part.facts for part in parts]
    frequencies = findings.view.frequencies(findings.merged)
    shares = [{"share": f"{percent(frequency.mean)} ({range_text(frequency, percent)})"} for frequency in frequencies]

    def texts(part: Profile) -> Row:
        values = {name: column_value(value, about.units.get(name, "")) for name, value in part.columns.items()}
        return {name: " ".join(filter(None, value)) for name, value in values.items()}

    return [{**(shares[slot] if shares else {}), **texts(part)} for slot, part in enumerate(profiles)]


def body(slot: int, part: Part, details: Row, text: str) -> Markup:
    """Bars of words or an image; then the facts.

    Each topic has its own scale: a topic that is nearly one word would leave no bars to the others.
    """
    if isinstance(part, Words):
        longest = max((share for _, share in part.words), default=1.0)
        drawing = tag("ol", [bar(word, share, longest) for word, share in part.words], class_="bars")
    elif isinstance(part, Image):
        drawing = tag("img", src=image(greys(part)), alt=f"component {slot}", class_="pixels")
    else:
        drawing = Markup("")
    return concat([drawing, facts(details) if details else None, note(text) if text else None])


def bar(word: str, share: float, longest: float) -> Markup:
    size = f"width:{100 * share / longest:.1f}%"
    return tag("li", tag("span", word), tag("b", tag("i", style=size)), tag("em", f"{share:.1%}"))


def greys(part: Image) -> Any:
    inside = np.clip(part.pixels, part.low, part.high) - part.low
    return np.round(255 * inside / (part.high - part.low)).astype(np.uint8)[..., None]


def facts(row: Row) -> Markup:
    """The first few plain values of a component."""
    entries = [(name, fact_text(name, value)) for name, value in [*row.items()][:MOST_FACTS]]
    return concat([description(entries), left_out(len(row) - len(entries), "value")])


def fact_text(name: str, value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {share:.0%}" for key, share in [*value.items()][:3])
    return f"{value:.1%}" if name in PERCENT and isinstance(value, float) else value_text(value)


def disagreements(findings: Findings) -> Markup | None:
    """The strongest disagreements of sites that stand out: the site's version and that of all others."""
    influence = findings.influence
    apart = np.flatnonzero(influence.disagreeing).tolist() if len(findings.sites) > 1 else []
    flagged = sorted(apart, key=lambda site: -influence.against[site])
    if not flagged or not findings.sets:
        return None
    rows = sorted((row for site in flagged[:MOST_QUOTED] for row in quotes(findings, site)), key=lambda row: row[0])
    if not rows:  # unknown for topics
        return None
    head = ("site", findings.view.noun, "chance of being the same", "at this site", "at all others")
    shown = table(head, [row[1:] for row in rows[:MOST_DISAGREEMENTS]])
    meaning = (
        "Chance of being the same: the probability that both differ only by chance, if being the same and being "
        "different were equally likely beforehand."
    )
    more = [left_out(len(rows) - MOST_DISAGREEMENTS, "component"), left_out(len(flagged) - MOST_QUOTED, "site")]
    return concat([shown, more, note(meaning)])


def odds(log_bayes_factor: float) -> str:
    """A log Bayes factor in words.

    >>> from decbayes.reporting._cards import odds
    >>> odds(-7.0), odds(-300.0)
    ('1 in 1,100', 'under 1 in a million')
    """
    against = exp(min(-log_bayes_factor, log(2.0 * MILLION)))
    return "under 1 in a million" if against > MILLION else f"1 in {float(f'{1.0 + against:.2g}'):,.0f}"


def quotes(findings: Findings, site: int) -> Iterator[tuple[float, str, str | int, str, str, str]]:
    """The components that the site disagrees about; versions with too few observations are not quoted."""
    posterior = findings.alignment.in_slots(site)
    for place, coupled in enumerate(findings.sets):
        evidence, factors = findings.shared[coupled].evidence, findings.slots(place)[1][site]
        captions, titles = findings.captions(coupled, posterior), findings.titles(coupled)
        others = findings.captions(coupled, without(findings.merged, posterior))
        rest = evidence.sum(axis=0) - evidence[site]
        for slot in np.flatnonzero(factors < DISAGREES).tolist():
            quoted = captions[slot] if evidence[site, slot] >= findings.least else ""
            compared = others[slot] if rest[slot] >= findings.least else ""
            factor = float(factors[slot])
            shown = titles[slot] if evidence[:, slot].sum() >= findings.least else slot
            yield factor, findings.names[site], shown, odds(factor), quoted or "–", compared or "–"


def without(merged: Posterior, site: Posterior) -> Posterior:
    """The merge without a site's contribution, or the whole merge if the rest is not a distribution."""
    rest = {name: dense(merged.contribution[name]) - dense(part) for name, part in site.contribution.items()}
    natural = {name: merged.structure.prior[name] + part for name, part in rest.items()}
    inside = all(family.contains(natural[name]) for name, family in merged.structure.families.items())
    return Posterior(merged.structure, rest) if inside else merged


def empty_text(findings: Findings, coupled: CoupledSet) -> str:
    """How many slots are empty, beside how many components; nothing if all are filled."""
    filled = len(findings.filled_slots(coupled))
    empty = findings.alignment.structure.components(coupled) - filled
    return f"{findings.nouns(filled)}, and {count_of(empty, 'empty slot')}. " if empty else ""
