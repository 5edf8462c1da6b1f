"""A map of topics: similar topics are close, frequent ones are large. A click shows a topic's words and its sites.

It works without scripts: links choose a topic, and three buttons choose the order of words.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from decbayes.families import Array
from decbayes.families.dirichlets.relevance import COMMON, leading, relevance
from decbayes.models.topics.quality import FACTOR, Quality
from decbayes.reporting.drawing import COLOURS, spanning, svg
from decbayes.reporting.markup import Markup, concat, figure, note, tag
from decbayes.views import Findings
from decbayes.views.values import number

# The map grows with the topics from this many on, so that there is room for all names.
ROOMY = 20
WIDTH, HEIGHT, MARGIN, LARGEST = 520.0, 420.0, 56.0, 46.0
LEAST, STROKE = 7.0, 2.0  # radius, and width of a line
LETTER, LINE = 7.5, 15.0  # width and height of the names' letters
# Circles come no closer than this share of touching, so that labels are readable; they move in this many steps.
APART, STEPS = 0.8, 300
WORDS, MOST_SITES, MOST_TOPICS = 12, 6, 100
# λ of pyLDAvis: the weight of a word's probability in the topic; the rest is how much more frequent it is there.
ORDERS = (1.0, 1.0 - COMMON, 0.4)
USUAL = 1
CAPTION = (
    "Topics that are close have similar words; circles are moved apart where names would overlap. Areas "
    "are shares of all words. "
)
CHOOSING = (
    "Choose a topic to see its words and the sites that have it. λ = 1 ranks words by probability, smaller λ favours "
    "words that other topics hardly use; elsewhere this report ranks by λ = 0.8."
)


def topic_map(findings: Findings) -> Markup | None:
    """The map and a panel per topic; None for fewer than two topics, too many to distinguish, or other words."""
    if FACTOR not in findings.merged.structure.labels:
        return None
    quality = Quality(findings.merged, WORDS)
    shown = [slot for slot in findings.visible if slot in quality.used]
    if not 1 < len(shown) <= MOST_TOPICS:
        return None
    buttons = [button(place, order) for place, order in enumerate(ORDERS)]
    ranked = [leading(relevance(quality.shares, quality.learned, 1.0 - order), WORDS) for order in ORDERS]
    largest_first = sorted(shown, key=lambda slot: -quality.learned[slot])
    panels = [panel(findings, quality, slot, ranked) for slot in largest_first]
    drawn = tag("div", drawing(quality, shown), class_="chart")
    beside = tag("div", panels, class_="panels")
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
    places, share = places_of(quality, shown), quality.learned / quality.learned.sum()
    width, height = np.array([WIDTH, HEIGHT]) * max(1.0, len(shown) / ROOMY) ** 0.5
    across = spanning(places[:, 0], MARGIN, width - MARGIN)
    up = spanning(places[:, 1], height - MARGIN, MARGIN)
    radii = np.maximum(LARGEST * np.sqrt(share[shown] / share[shown].max()), LEAST)
    marks = one_word_each([quality.names[slot] for slot in shown])
    halves = np.array([0.5 * LETTER * len(mark) for mark in marks])
    centres = move_apart(np.array([(across(x), up(y)) for x, y in places]), radii, halves, (width, height))
    drawn = []
    for place in np.argsort(-share[shown], kind="stable").tolist():
        slot, (x, y) = shown[place], centres[place]
        circle = tag("circle", cx=x, cy=y, r=radii[place], class_=f"blob c{slot % COLOURS}")
        label = tag("text", marks[place], class_="mark", x=x, y=y + 4.0)
        tooltip = tag("title", f"{quality.names[slot]}: {share[slot]:.1%}")
        drawn.append(tag("a", tooltip, circle, label, href=f"#topic-{slot}"))
    return svg(drawn, width, height, f"Map of {len(shown)} topics", role="group")


def move_apart(centres: Array, radii: Array, halves: Array, room: tuple[float, float] = (WIDTH, HEIGHT)) -> Array:
    """Circles moved apart, as far as there is room, until no name covers another; `halves` are half their widths."""
    least = APART * (radii[:, None] + radii)
    np.fill_diagonal(least, 0.0)
    low = np.column_stack([np.maximum(radii, halves), radii]) + STROKE
    high = np.array(room) - low
    beside = halves[:, None] + halves
    np.fill_diagonal(beside, 0.0)
    # Circles in the same place would have no direction to move in.
    centres = centres + 0.01 * np.arange(len(centres))[:, None]
    for _ in range(STEPS):
        offsets = centres[:, None] - centres
        distances = np.hypot(*offsets.transpose(2, 0, 1))
        near, (x, y) = distances < least, np.moveaxis(offsets, 2, 0)
        covering = (np.abs(x) < beside) & (np.abs(y) < LINE)
        if not near.any() and not covering.any():
            break
        missing = np.where(near, least - distances, 0.0) / np.maximum(distances, 1.0)
        moves = (missing[:, :, None] * offsets).sum(axis=1)
        moves[:, 1] += np.where(covering, np.where(y < 0, -1.0, 1.0) * (LINE - np.abs(y)), 0.0).sum(axis=1)
        centres = np.clip(centres + 0.25 * moves, low, high)
    return centres


def one_word_each(names: Sequence[str]) -> list[str]:
    """The first word of each name that no earlier one has as its mark."""
    marks: list[str] = []
    for name in names:
        words = name.split(", ")
        marks.append(next((word for word in words if word not in marks), words[0]))
    return marks


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
        note(f"{share:.1%} of all words. Frequencies of words: blue in this topic, grey in all topics together."),
        concat(lists),
        note(f"occurrences in the sites' topics: {sites}") if len(findings.sites) > 1 else None,
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
