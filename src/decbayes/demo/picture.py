"""The result as a picture: the clusters of each posterior, and how the sites came to agree."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from decbayes.demo.digits import SITES, Story
from decbayes.families import Array
from decbayes.plot import images
from decbayes.plot.style import AMPS, BATCH, DPI, GREY, INK, NAIVE, styled
from decbayes.plot.style import SITES as ALONE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = {
    "best site alone": ALONE,
    "naive merge": NAIVE,
    "AMPS": AMPS,
    "AMPS, refined": AMPS,
    "all data in one place": BATCH,
}
LABELS = {
    "best site alone": "best site\nalone",
    "naive merge": "naive\nmerge",
    "AMPS": "AMPS, one\nbroadcast",
    "AMPS, refined": "AMPS,\nrefined",
    "all data in one place": "all data in\none place",
}
SHAPE, DARKNESS = (8, 8), (0.0, 16.0)


def draw(story: Story, target: Path) -> dict[str, float]:
    """Write the picture; returns the score of each posterior in it."""
    from matplotlib.figure import Figure

    results = story.results()
    scores = {name: story.digits.score(posterior) for name, posterior in results.items()}
    clusters = {name: story.digits.clusters(posterior) for name, posterior in results.items()}
    with styled():
        figure = Figure(figsize=(7.2, 2.5), dpi=DPI)
        draw_clusters(figure.add_axes((0.115, 0.08, 0.465, 0.82)), clusters, scores)
        draw_climb(figure.add_axes((0.725, 0.27, 0.26, 0.63)), story, scores)
        target.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(target)
    return scores


def draw_clusters(axes: "Axes", clusters: dict[str, Array], scores: dict[str, float]) -> None:
    """Draw a row of mean images for each posterior, with its name and score."""
    rows = {LABELS[name]: means for name, means in clusters.items()}
    images(rows, SHAPE, limits=DARKNESS, cmap="gray_r", axes=axes)
    axes.set_anchor("N")
    for label, middle, (name, score) in zip(axes.get_yticklabels(), axes.get_yticks(), scores.items(), strict=True):
        label.set(color=COLOURS[name], linespacing=1.1, fontsize=8)
        at = axes.get_yaxis_transform()
        axes.text(1.01, float(middle), number_text(score), transform=at, va="center", color=COLOURS[name])
    axes.set_title("means of the ten clusters", fontsize=8, loc="left", pad=5)
    axes.set_title("score", fontsize=8, loc="right", pad=5, x=1.11)
    caption = "score: log density of a held-out image, on average"
    axes.text(0, -0.06, caption, transform=axes.transAxes, fontsize=7, color=GREY, va="top")


def draw_climb(axes: "Axes", story: Story, scores: dict[str, float]) -> None:
    """Draw each site's score alone, and how its merged posterior approaches the batch posterior."""
    for site in SITES:
        site_points = [point for point in story.points if point.site == site]
        times = [*(point.seconds for point in site_points), story.events[-1].seconds]
        values = [*(point.score for point in site_points), site_points[-1].score]
        axes.step(times, values, where="post", color=COLOURS["AMPS"], linewidth=0.9, alpha=0.6)
        axes.plot(times[:1], [story.digits.score(story.alone[site])], "o", color=COLOURS["best site alone"], ms=2.6)
    batch, end = scores["all data in one place"], story.events[-1].seconds
    axes.axhline(batch, color=COLOURS["all data in one place"], linewidth=0.8, linestyle=(0, (4, 3)))
    axes.set(xlim=(0, 1.02 * end), xlabel="seconds")
    axes.yaxis.set_major_formatter(lambda value, _: number_text(value, digits=0))
    axes.set_title("score of every site", fontsize=8, loc="left", pad=5)
    label_climb(axes, story, batch)


def label_climb(axes: "Axes", story: Story, batch: float) -> None:
    """Write names next to what they name, and numbers where something went wrong or came late."""
    low, _ = axes.get_ylim()
    height, end = batch - low, story.events[-1].seconds
    bottom = low - 0.16 * height
    axes.set_ylim(bottom, batch + 0.2 * height)
    small: dict[str, Any] = {"fontsize": 7, "ha": "right"}
    axes.text(end, batch + 0.03 * height, "all data in one place", va="bottom", color=INK, **small)
    paper = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}
    axes.text(end, batch - 0.2 * height, "merged,\nthen refined", va="top", color=COLOURS["AMPS"], bbox=paper, **small)
    alone = float(np.mean([story.digits.score(posterior) for posterior in story.alone.values()]))
    axes.text(end, alone, "alone", va="center", color=COLOURS["best site alone"], **small)
    marked = [event for event in story.events if event.mark]
    axes.vlines([event.seconds for event in marked], bottom, batch, color=GREY, linewidth=0.5)
    for numbers, seconds in group_close([event.seconds for event in marked], 0.12 * end):
        axes.text(seconds + 0.015 * end, bottom + 0.03 * height, ", ".join(map(str, numbers)), fontsize=6.5, color=INK)
    key = "   ".join(f"{number} {event.mark}" for number, event in enumerate(marked, start=1))
    axes.text(1.0, -0.33, key, transform=axes.transAxes, fontsize=6.5, color=GREY, ha="right", va="top")


def group_close(seconds: list[float], distance: float) -> list[tuple[list[int], float]]:
    """Group the numbers of events that are too close, with the position of the last in each group."""
    groups: list[tuple[list[int], float]] = []
    for number, when in enumerate(seconds, start=1):
        near = [] if not groups or when - groups[-1][1] >= distance else groups.pop()[0]
        groups.append(([*near, number], when))
    return groups


def number_text(value: float, *, digits: int = 1) -> str:
    return f"{value:.{digits}f}".replace("-", "−")
