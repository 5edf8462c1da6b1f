"""A map of topics: near ones are alike, large ones are frequent. A click shows a topic's words and who has it.

It works without any script: links choose a topic, and the words' order is chosen by three buttons.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from decbayes.families import Array
from decbayes.families.dirichlets.relevance import COMMON, leading, relevance
from decbayes.models.topics.quality import FACTOR, Quality
from decbayes.reporting.drawing import COLOURS, spanning, svg
from decbayes.reporting.markup import Markup, figure, joined, note, tag
from decbayes.views import Findings
from decbayes.views.values import number

WIDTH, HEIGHT, MARGIN, LARGEST = 520.0, 420.0, 56.0, 46.0
WORDS, MOST_SITES, MOST_TOPICS = 12, 6, 100
# λ of pyLDAvis: how much a word's probability in the topic counts; the rest is how much more frequent it is there.
ORDERS = (1.0, 1.0 - COMMON, 0.4)
USUAL = 1
CAPTION = "Topics that are near each other have similar words; areas are shares of all words. "
CHOOSING = (
    "Choose a topic to see its words and the sites that have it. λ = 1 ranks words by probability, smaller λ favours "
    "words that other topics hardly use; elsewhere this report ranks by λ = 0.8."
)


def topic_map(findings: Findings) -> Markup | None:
    """The map and a panel per topic; nothing for fewer than two topics, or too many to tell apart, or other words."""
    if FACTOR not in findings.merged.structure.labels:
        return None
    quality = Quality(findings.merged, WORDS)
    shown = [slot for slot in findings.visible if slot in quality.used]
    if not 1 < len(shown) <= MOST_TOPICS:
        return None
    buttons = [button(place, order) for place, order in enumerate(ORDERS)]
    ranked = [leading(relevance(quality.shares, quality.learned, 1.0 - order), WORDS) for order in ORDERS]
    panels = [panel(findings, quality, slot, ranked) for slot in shown]
    drawn = tag("div", drawing(quality, shown), class_="chart")
    beside = tag("div", tag("p", "Choose a topic.", class_="note"), panels, class_="panels")
    return figure(
        tag("div", buttons, drawn, beside, class_="topic-map"), CAPTION, tag("span", CHOOSING, class_="screen")
    )


def button(place: int, order: float) -> list[Markup]:
    name = f"order-{place}"
    chosen = {"checked": "checked"} if place == USUAL else {}
    return [
        tag("input", type="radio", name_="order", id=name, class_=f"o{place}", **chosen),
        tag("label", f"λ = {order:g}", for_=name),
    ]


def places_of(quality: Quality, shown: Sequence[int]) -> Array:
    """(topics, 2): classical scaling of Hellinger distances."""
    squared = np.maximum(1.0 - quality.affinity[np.ix_(shown, shown)], 0.0)
    centre = np.eye(len(shown)) - 1.0 / len(shown)
    values, vectors = np.linalg.eigh(-0.5 * centre @ squared @ centre)
    first = np.argsort(-values, kind="stable")[:2]
    signs = np.where(vectors[np.abs(vectors[:, first]).argmax(axis=0), first] < 0.0, -1.0, 1.0)
    return np.asarray(signs * vectors[:, first] * np.sqrt(np.maximum(values[first], 0.0)))


def drawing(quality: Quality, shown: Sequence[int]) -> Markup:
    places = places_of(quality, shown)
    across = spanning(places[:, 0], MARGIN, WIDTH - MARGIN)
    up = spanning(places[:, 1], HEIGHT - MARGIN, MARGIN)
    share = quality.learned / quality.learned.sum()
    largest = float(share[shown].max())
    drawn = []
    for slot, (x, y) in sorted(zip(shown, places, strict=True), key=lambda pair: -share[pair[0]]):
        radius = max(LARGEST * float(np.sqrt(share[slot] / largest)), 7.0)
        name = quality.names[slot]
        circle = tag("circle", cx=across(x), cy=up(y), r=radius, class_=f"blob c{slot % COLOURS}")
        label = tag("text", name.split(",")[0], class_="mark", x=across(x), y=up(y) + 4.0)
        drawn.append(tag("a", tag("title", f"{name}: {share[slot]:.1%}"), circle, label, href=f"#topic-{slot}"))
    return svg(drawn, WIDTH, HEIGHT, f"Map of {len(shown)} topics", role="group")


def panel(findings: Findings, quality: Quality, slot: int, ranked: Sequence[NDArray[np.intp]]) -> Markup:
    """One topic: its words in each order, and the sites that have it."""
    (coupled, *_) = findings.sets
    evidence = findings.shared[coupled].evidence[:, slot]
    share = quality.learned[slot] / quality.learned.sum()
    order = np.argsort(-evidence, kind="stable")[:MOST_SITES]
    sites = ", ".join(
        f"{findings.names[site]} {number(float(evidence[site]))}" for site in order if evidence[site] > 0.0
    )
    lists = [words(quality, slot, columns[slot], place) for place, columns in enumerate(ranked)]
    return tag(
        "div",
        tag("h3", quality.names[slot], " ", tag("a", f"card {slot}", href=f"#component-{slot}", class_="no")),
        note(f"{share:.1%} of all words"),
        joined(lists),
        note(f"words at sites: {sites}") if len(findings.sites) > 1 else None,
        class_="panel",
        id=f"topic-{slot}",
    )


def words(quality: Quality, slot: int, columns: NDArray[np.intp], place: int) -> Markup:
    """Bars of p(w | topic), and thin ones of p(w) in all topics."""
    labels, shares = quality.posterior.structure.labels[FACTOR], quality.shares
    everywhere = quality.learned / quality.learned.sum() @ shares
    longest = float(max(shares[slot, columns].max(), everywhere[columns].max()))
    rows = [
        tag(
            "li",
            tag("span", labels[column]),
            tag("b", tag("i", style=f"width:{100 * shares[slot, column] / longest:.1f}%")),
            tag("b", tag("i", style=f"width:{100 * everywhere[column] / longest:.1f}%"), class_="all"),
        )
        for column in columns.tolist()
    ]
    return tag("ol", rows, class_=f"bars o{place}")
