"""Each component on a card: what it is, which sites have it, and where sites disagree about it."""

from collections.abc import Callable, Iterator, Mapping
from math import isqrt
from typing import Any

import numpy as np

from decbayes.families import Array, dense
from decbayes.merging.reading import DISAGREES
from decbayes.models.core.model import Row
from decbayes.plot._images import as_images, contrast
from decbayes.posterior import Posterior
from decbayes.reporting.findings import Findings
from decbayes.reporting.markup import (
    Markup,
    captions,
    counted,
    image,
    joined,
    left_out,
    note,
    number,
    table,
    tag,
    value_text,
)
from decbayes.symmetry import CoupledSet

MOST_ROWS = 20
MOST_SITES = 12  # whose versions are worth the time


def disagreements(found: Findings) -> Markup | None:
    """The strongest disagreements of sites that stand out, in their own words and in everybody else's."""
    disagreeing = [site for site in found.sites if len(found.sites) > 1 and found.influence.disagreeing[site]]
    flagged = sorted(disagreeing, key=lambda site: -found.influence.against[site])
    if not flagged or not found.sets:
        return None
    rows = sorted((row for site in flagged[:MOST_SITES] for row in rows_of(found, site)), key=lambda row: row[0])
    shown = table(("site", "component", "log BF", "it says", "all others say"), [row[1:] for row in rows[:MOST_ROWS]])
    told = f"log BF: nats for both being the same thing. Below {DISAGREES:g} is hardly chance.".replace("-", "−")
    more = [
        left_out(len(rows) - MOST_ROWS, "further components are"),
        left_out(len(flagged) - MOST_SITES, "further sites are"),
    ]
    return joined([shown, more, note(told)])


def rows_of(found: Findings, site: int) -> Iterator[tuple[float, str, int, str, str, str]]:
    """What the site says of each component that it disagrees about; what rests on too little is not quoted."""
    own = found.alignment.in_slots(site)
    for place, coupled in enumerate(found.sets):
        evidence, factors = found.shared[coupled].evidence, found.slots(place)[1]
        its, theirs = told(found, own, coupled), told(found, without(found.merged, own), coupled)
        rest = evidence.sum(axis=0) - evidence[site]
        for slot in np.flatnonzero(factors[site] < DISAGREES).tolist():
            said = its[slot] if evidence[site, slot] >= found.least else "–"
            others = theirs[slot] if rest[slot] >= found.least else "–"
            yield float(factors[site, slot]), found.names[site], slot, number(float(factors[site, slot])), said, others


def told(found: Findings, posterior: Posterior, coupled: CoupledSet) -> list[str]:
    """A few words on each component of the set, or none where the model has none to say."""
    texts, size = captions(posterior, found.model), posterior.structure.components(coupled)
    return texts if len(texts) == size else ["–"] * size


def without(merged: Posterior, own: Posterior) -> Posterior:
    """What all others say: the merge without a site's contribution; all of it, where that is no distribution."""
    rest = {name: dense(merged.contribution[name]) - dense(part) for name, part in own.contribution.items()}
    natural = {name: merged.structure.prior[name] + part for name, part in rest.items()}
    inside = all(family.contains(natural[name]) for name, family in merged.structure.families.items())
    return Posterior(merged.structure, rest) if inside else merged


MOST_CARDS, MOST_SUPPORTERS, TOP, TELLING = 100, 12, 10, 5
MOST_ENTRIES = 8  # of a component that is described in plain values
SMALLEST_IMAGE, LARGEST_IMAGE = 16, 128 * 128
NOUNS = {"words": "Topic", "images": "Feature", "classes": "Class", "states": "State"}
BRIEF = ("weight", "share", "steps per visit", "stands out by")  # of components whose columns are drawn above the cards
Shape = tuple[int, int]
Body = Callable[[int], Markup]


def cards(found: Findings, coupled: CoupledSet, shape: Shape | None) -> Markup:
    """The components that rest on most evidence, each on a card; the others in one line each."""
    evidence = found.shared[coupled].evidence.sum(axis=0)
    largest = np.argsort(-evidence, kind="stable")[:MOST_CARDS]
    body, hidden = body_of(found, coupled, shape), found.hidden(coupled)
    first, others = sorted(largest.tolist()), sorted(set(range(len(evidence))) - set(largest.tolist()))
    shown = [card(found, coupled, slot, concealed(found) if hidden[slot] else body(slot)) for slot in first]
    return joined([tag("div", shown, class_="cards"), remainder(found, coupled, others)])


def card(found: Findings, coupled: CoupledSet, slot: int, body: Markup) -> Markup:
    shared = found.shared[coupled]
    support, total = shared.sites(slot), float(shared.evidence[:, slot].sum())
    share = total / max(float(found.evidence.sum()), 1e-300)
    summary = [
        support_text(found, support),
        f"{number(total)} {found.unit}",
        f"{share:.1%}",
        *spread(found, coupled, slot),
    ]
    return tag(
        "article",
        tag("h3", noun(found), " ", tag("span", slot, class_="no"), badge(found, coupled, slot)),
        body,
        note(" · ".join(summary)) if support else note("Nobody has put anything here."),
        tag("div", tag("i", style=f"width:{100 * share:.1f}%"), class_="meter", aria_hidden="true"),
        supporters(found, coupled, slot) if len(found.sites) > 1 and support else None,
        class_="card",
        id=f"component-{slot}",
    )


def concealed(found: Findings) -> Markup:
    return note(f"Fewer than {found.least:g} {found.unit}: not shown.")


def noun(found: Findings) -> str:
    """What a component is called where this model is at home."""
    return NOUNS.get(found.model.view if found.model is not None else "table", "Component")


def spread(found: Findings, coupled: CoupledSet, slot: int) -> list[str]:
    """By how much sites differ, where several have it."""
    apart = found.heterogeneity.get(coupled)
    known = apart is not None and np.isfinite(apart.ratio[slot])
    return [f"sites differ {apart.ratio[slot]:.1f} × chance"] if apart is not None and known else []


def support_text(found: Findings, support: list[int]) -> str:
    if len(found.sites) == 1:
        return "1 site"
    return f"only {found.names[support[0]]}" if len(support) == 1 else f"{len(support)} of {len(found.sites)} sites"


def badge(found: Findings, coupled: CoupledSet, slot: int) -> list[Markup]:
    """What deserves a look about a component, in a word."""
    shared = found.shared[coupled]
    texts = {
        "unlike": slot in shared.unlike,
        "duplicate": any(slot in pair for pair in shared.duplicates),
        "one site": len(found.sites) > 1 and len(shared.sites(slot)) == 1,
        "empty": not shared.sites(slot),
    }
    return [tag("span", text, class_="badge") for text, holds in texts.items() if holds]


def supporters(found: Findings, coupled: CoupledSet, slot: int) -> Markup:
    """Which sites have it, those with the most evidence first."""
    shared, sure = found.shared[coupled], found.sureness[coupled]
    support, measures = shared.sites(slot), (shared.evidence, sure.values, shared.apart)
    rows = [(found.names[site], *(number(each[site, slot]) for each in measures)) for site in support[:MOST_SUPPORTERS]]
    shown = table(("site", found.unit, sure.name, "apart"), rows, right=(1, 2, 3))
    more = left_out(len(support) - len(rows), "further sites with less are")
    return tag("details", tag("summary", "Who has it"), shown, more)


def remainder(found: Findings, coupled: CoupledSet, slots: list[int]) -> Markup | None:
    """What has no card, in one line each."""
    if not slots:
        return None
    shared = found.shared[coupled]
    count = shared.evidence.shape[1]
    named = found.captions if len(found.captions) == count else [""] * count
    hidden = found.hidden(coupled)
    rows = [
        (k, "" if hidden[k] else named[k], number(float(shared.evidence[:, k].sum())), len(shared.sites(k)))
        for k in slots
    ]
    summary = f"The other {len(slots)} components, which rest on less"
    return tag(
        "details", tag("summary", summary), table(("component", "what it is", found.unit, "sites"), rows, right=(2, 3))
    )


def body_of(found: Findings, coupled: CoupledSet, shape: Shape | None) -> Body:
    """How one component is best looked at."""
    model = found.model
    if model is None or len(model.describe(found.merged)) != found.merged.structure.components(coupled):
        return lambda slot: Markup("")
    if model.view == "words":
        return words(found)
    rows = model.describe(found.merged, top=TOP)
    form = shape or image_shape(rows[0].get("mean"), model.view == "images")
    if form is not None:
        return pictures(rows, form)
    if model.view in ("classes", "states"):
        return lambda slot: described({name: rows[slot][name] for name in BRIEF if name in rows[slot]})
    return lambda slot: described(rows[slot])


def words(found: Findings) -> Body:
    """The most probable words of a topic, with bars on one scale for all topics."""
    probability = found.merged.mean("topics")
    vocabulary = found.merged.structure.labels["topics"]
    longest = float(probability.max())

    def body(slot: int) -> Markup:
        best = np.argsort(-probability[slot], kind="stable")[:TOP]
        bars = tag("ol", [bar(vocabulary[word], probability[slot, word], longest) for word in best], class_="bars")
        return joined([bars, note(readable(found, slot))])

    return body


def readable(found: Findings, slot: int) -> str:
    """Which words tell a topic from the others and, where sites have counted, how coherent it is."""
    assert found.quality is not None
    told = f"told apart by {', '.join(found.quality.telling[slot][:TELLING])}"
    return told if found.coherence is None else f"{told} · coherence {number(float(found.coherence[slot]))}"


def bar(word: str, share: float, longest: float) -> Markup:
    size = f"width:{100 * share / longest:.1f}%"
    return tag("li", tag("span", word), tag("b", tag("i", style=size)), tag("em", f"{share:.1%}"))


def image_shape(mean: Any, images: bool) -> Shape | None:
    """The shape of a square image, where a model's numbers are pixels and there are enough of them."""
    pixels = np.size(mean) if images and isinstance(mean, np.ndarray) else 0
    side = isqrt(pixels)
    return (side, side) if side * side == pixels and SMALLEST_IMAGE <= pixels <= LARGEST_IMAGE else None


def pictures(rows: list[Row], shape: Shape) -> Body:
    """The mean of a component as a grey image; beside it how often it occurs."""
    drawn = as_images(np.array([np.ravel(row["mean"]) for row in rows]), shape)
    signed = bool((drawn < 0).any())

    def body(slot: int) -> Markup:
        address, others = image(greys(drawn[slot], signed)), {k: v for k, v in rows[slot].items() if k != "mean"}
        return joined([tag("img", src=address, alt=f"component {slot}", class_="pixels"), described(others)])

    return body


def greys(picture: Array, signed: bool) -> Any:
    low, high = contrast(picture, signed=signed)
    return np.round(255 * (np.clip(picture, low, high) - low) / (high - low)).astype(np.uint8)[..., None]


def described(row: Row) -> Markup:
    """What the model says of a component, in plain values: the first few."""
    told = [(name, value) for name, value in row.items() if name not in ("component", "feature", "topic")]
    lines = [tag("div", tag("dt", name), tag("dd", plain_value(name, value))) for name, value in told[:MOST_ENTRIES]]
    return joined([tag("dl", lines), left_out(len(told) - len(lines), "further values are")])


def plain_value(name: str, value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {share:.0%}" for key, share in [*value.items()][:3])
    return f"{value:.1%}" if name in ("weight", "share", "how often") else value_text(value)


def supported(found: Findings, coupled: CoupledSet) -> str:
    """How many components there are, and how many of them have seen data."""
    evidence = found.shared[coupled].evidence.sum(axis=0)
    filled = int((evidence > 0).sum())
    empty = len(evidence) - filled
    return counted(filled, "component") + (f", and {counted(empty, 'empty slot')}" if empty else "")
