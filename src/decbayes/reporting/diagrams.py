"""How states follow each other: circles for states, arrows as thick as moves are probable."""

from collections.abc import Sequence
from math import cos, hypot, pi, sin

import numpy as np

from decbayes.families import Array
from decbayes.reporting.drawing import COLOURS, svg
from decbayes.reporting.markup import Markup, coordinate, tag
from decbayes.views.class_view import duration
from decbayes.views.values import number

MOST_STATES = 6  # of more, arrows and shares cover each other
LEAST_SHOWN = 0.05  # rarer moves are not drawn
SIZE, RADIUS, CIRCLE = 440.0, 160.0, 36.0
LABEL = (28.0, 12.0)  # width and height of a share, in pixels
THICKEST = 9.0
ALONG = 0.3  # where on its arrow a share is: in the middle, those of crossing arrows would cover each other


def transition_diagram(probabilities: Array, titles: Sequence[str]) -> Markup | None:
    """States in a ring with the mean length of a visit, and arrows for where visits go when they end."""
    count = len(probabilities)
    if not 2 <= count <= MOST_STATES:
        return None
    places = [
        (SIZE / 2 + RADIUS * cos(2 * pi * k / count - pi / 2), SIZE / 2 + RADIUS * sin(2 * pi * k / count - pi / 2))
        for k in range(count)
    ]
    moves = moves_at_end(probabilities)
    drawn = [
        arrow(places[a], places[b], float(moves[a, b]))
        for a in range(count)
        for b in range(count)
        if a != b and moves[a, b] >= LEAST_SHOWN
    ]
    drawn += [state(k, places[k], duration(float(probabilities[k, k])), titles[k]) for k in range(count)]
    height = max(y for _, y in places) + CIRCLE + 24.0
    # Shares are drawn last, so that no line crosses them.
    parts = sorted((part for group in drawn for part in group), key=lambda part: "share-of-moves" in part)
    return svg(parts, SIZE, height, f"{count} states and the moves between them")


def moves_at_end(probabilities: Array) -> Array:
    """Where a visit goes when it ends: rows without the diagonal add up to 1."""
    moves = probabilities.copy()
    moves[range(len(moves)), range(len(moves))] = 0.0
    totals = moves.sum(axis=1, keepdims=True)
    totals[totals == 0.0] = 1.0
    return np.asarray(moves / totals)


def state(number_of: int, place: tuple[float, float], steps: float, title: str) -> list[Markup]:
    x, y = place
    length = f"{steps:.1f}" if steps < 100.0 else number(round(steps))
    return [
        tag("circle", tag("title", f"{title}: {number(steps)} steps per visit"), cx=x, cy=y, r=CIRCLE,
            class_=f"state c{number_of % COLOURS}"),
        tag("text", number_of, class_="mark", x=x, y=y - 2.0),
        tag("text", f"{length} steps", class_="tick", x=x, y=y + 14.0),
    ]  # fmt: skip


def arrow(start: tuple[float, float], end: tuple[float, float], share: float) -> list[Markup]:
    """A curved arrow from circle to circle, with its share; arrows there and back bend away from each other."""
    (x1, y1), (x2, y2) = start, end
    length = hypot(x2 - x1, y2 - y1)
    across = (-(y2 - y1) / length, (x2 - x1) / length)
    bend = 0.12 * length
    middle = ((x1 + x2) / 2 + bend * across[0], (y1 + y2) / 2 + bend * across[1])
    width = max(THICKEST * share, 0.8)
    head = 7.0 + 1.2 * width
    first, last = move_towards(start, middle, CIRCLE + 2.0), move_towards(end, middle, CIRCLE + 2.0)
    base = move_towards(last, middle, head)
    side = (base[1] - last[1], last[0] - base[0])
    corners = [last, *((base[0] + sign * 0.5 * side[0], base[1] + sign * 0.5 * side[1]) for sign in (1, -1))]
    curve = f"M{pair(first)}Q{pair(middle)} {pair(base)}"
    # Next to the line: half of the text's width and height, as far as they point away from it.
    bent = 2 * ALONG * (1 - ALONG) * bend
    out = bent + 0.5 * width + 7.0 + abs(across[0]) * 0.5 * LABEL[0] + abs(across[1]) * 0.5 * LABEL[1]
    label = (x1 + ALONG * (x2 - x1) + out * across[0], y1 + ALONG * (y2 - y1) + out * across[1])
    meaning = tag("title", f"{share:.0%} of visits end this way")
    return [
        tag("path", meaning, d=curve, class_="move", stroke_width=f"{width:.1f}"),
        tag("path", d=f"M{' L'.join(map(pair, corners))}Z", class_="head"),
        tag("text", f"{share:.0%}", class_="tick name share-of-moves", x=label[0], y=label[1] + 4.0),
    ]


def move_towards(place: tuple[float, float], towards: tuple[float, float], distance: float) -> tuple[float, float]:
    """A point moved some way towards another."""
    gap = hypot(towards[0] - place[0], towards[1] - place[1]) or 1.0
    return (place[0] + distance * (towards[0] - place[0]) / gap, place[1] + distance * (towards[1] - place[1]) / gap)


def pair(place: tuple[float, float]) -> str:
    return f"{coordinate(place[0])},{coordinate(place[1])}"
