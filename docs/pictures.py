"""Draws the pictures of the documentation into docs/pictures: `python docs/pictures.py [NAME …]`.

Without a name also charts and diagrams (charts.py, diagrams.py). Those of the live page need data: page_pictures.py.
"""

import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory

import charts
import diagrams
import numpy as np
from failures import MEANS, MODEL, VARIANCE, WEIGHTS, draw, gaps, run_named, trial
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.console import Console
from small import shrink

import decbayes as db
from decbayes.cli.commands.planning import _simulation as simulation
from decbayes.families import Array
from decbayes.network.simulation.schedule import History, HistoryPlan
from decbayes.plot.style import GREY, INK, PALE, bare, canvas, colour, shades, styled

FOLDER = Path(__file__).parent / "pictures"
PAGE = Path(__file__).parent / "plot.md"
GRID = np.linspace(-3, 5, 600)
SPLIT_SEED = 38  # there is one point of the rare cluster, and the merge loses it


def bell(grid: Array, mean: float, variance: float) -> Array:
    return np.exp(-0.5 * (grid - mean) ** 2 / variance) / np.sqrt(2 * np.pi * variance)


def panels(count: int, *, height: float = 2.6, width: float = 2.3) -> tuple[Figure, list[Axes]]:
    figure = canvas(width * count, height)
    return figure, list(np.atleast_1d(figure.subplots(1, count)))


def draw_means(axes: Axes, posterior: db.Posterior, title: str) -> None:
    """What a posterior says of each cluster's mean, coloured by its label."""
    usual = posterior.parameters("components")
    for label, (mean, variance) in enumerate(zip(usual["mean"][:, 0], np.ravel(usual["variance"]), strict=True)):
        axes.fill_between(GRID, bell(GRID, mean, variance), color=colour(label), alpha=0.35, lw=0)
        axes.plot(GRID, bell(GRID, mean, variance), color=colour(label), lw=1.2, label=f"{label}")
    for mean in MEANS:
        axes.axvline(mean, color=GREY, lw=0.6, ls=":")
    axes.set(title=title, xlabel="cluster mean", yticks=[])


def draw_predictions(figure: Figure, axes: list[Axes], posteriors: dict[str, db.Posterior], points: Array) -> Figure:
    """Predictive densities over the true density, the points below."""
    truth = bell(GRID[:, None], MEANS, VARIANCE) @ WEIGHTS
    for panel, (name, posterior) in zip(axes, posteriors.items(), strict=True):
        panel.fill_between(GRID, truth, color=PALE, lw=0)
        db.plot.mixture(posterior, axes=panel)
        panel.plot(points, np.full(points.size, -0.03), "|", color=INK, ms=5, mew=0.8)
        panel.set(title=name, xlabel="x", ylabel="", xlim=GRID[[0, -1]], yticks=[])
    return figure


def mixture() -> Figure:
    """The picture of the quickstart: one agent, the naive merge, the merge, all data in one place."""
    each = trial(0, rounds=0)
    posteriors = {
        "one site alone": each.agents[0],
        "naive merge": db.merging.product(each.agents),
        "merge": each.rounds[0],
        "all data in one place": each.batch,
    }
    return draw_predictions(*panels(4), posteriors, each.shards.ravel())


def labels() -> Figure:
    """Three agents with labels of their own; the naive merge; the merge."""
    rng = np.random.default_rng(3)
    agents = [MODEL.fit(draw(15, rng), rng=rng).posterior for _ in range(3)]
    figure, axes = panels(5)
    for number, agent in enumerate(agents):
        draw_means(axes[number], agent, f"site {number}")
    draw_means(axes[3], db.merging.product(agents), "naive merge")
    draw_means(axes[4], db.merge(agents), "merge")
    axes[0].legend(title="label")
    return figure


def overlap() -> Figure:
    """Two agents, two components each: products of densities, matched and crossed."""
    first, second, variance = np.array([-0.8, 1.2]), np.array([-1.2, 0.7]), 0.15
    figure, axes = panels(2, width=4.4)
    for each, order, title in ((axes[0], [0, 1], "matched"), (axes[1], [1, 0], "crossed")):
        for slot in range(2):
            ours, theirs = bell(GRID, first[slot], variance), bell(GRID, second[order[slot]], variance)
            each.plot(GRID, ours, color=colour(slot), lw=1.2)
            each.plot(GRID, theirs, color=colour(slot), lw=1.2, ls="--")
            each.fill_between(GRID, ours * theirs, color=colour(slot), alpha=0.5, lw=0)
            area = float(np.trapezoid(ours * theirs, GRID))
            each.text(
                first[slot],
                -0.16,
                f"slot {slot}: {np.format_float_positional(area, 1, fractional=False)}",
                ha="center",
                color=colour(slot),
            )
        each.set(
            title=f"{title}: weight = product of the areas",
            xlim=(-3, 3),
            ylim=(-0.25, 1.15),
            yticks=[],
            xlabel="cluster mean",
        )
    return figure


def gain() -> Figure:
    """The gains of placing each component of an agent in each slot, and the assignment that is best."""
    from decbayes.merging.base.coupled import coupled_problem
    from decbayes.merging.base.problem import best_permutation
    from decbayes.merging.matching.placement import Placement

    agents = trial(0, rounds=0).agents
    structure = agents[0].structure
    (coupled,) = structure.symmetry
    alignment = db.align(agents, solver=db.solvers.Matching())
    assignments = np.array([permutation[coupled] for permutation in alignment.permutations])
    values = Placement(coupled_problem(agents, coupled, structure), assignments).gain(0)
    figure, (axes,) = panels(1, width=3.2, height=2.8)
    axes.imshow(values - values.max(axis=1, keepdims=True), cmap=shades(), vmin=-30)
    for slot, component in np.ndindex(values.shape):
        chosen = best_permutation(values)[slot] == component
        text = f"{values[slot, component] - values[slot].max():.1f}".replace("-", "−")
        look = {"color": "white", "weight": "bold"} if chosen else {"color": INK}
        axes.text(component, slot, text, ha="center", va="center", **look)
    axes.set(xlabel="component of site 0", ylabel="slot", xticks=range(3), yticks=range(3))
    axes.set_title("gain in J, minus the row's largest")
    bare(axes)
    return figure


def alignment() -> Figure:
    axes = db.plot.alignment(db.align(trial(0, rounds=0).agents))
    return axes.figure


def split() -> Figure:
    """A seed at which one point is all there is of a cluster: batch, merge, and refinement, with their scores."""
    each = trial(SPLIT_SEED)
    shown = {"batch": each.batch, "one broadcast": each.rounds[0], "one round more": each.rounds[1]}
    shown["ten rounds more"] = each.rounds[-1]
    named = {f"{name}: {each.score(posterior):.2f}".replace("-", "−"): posterior for name, posterior in shown.items()}
    return draw_predictions(*panels(4), named, each.shards.ravel())


def tail() -> Figure:
    """The gap to batch over a hundred seeds, sorted, by points an agent and rounds."""
    figure, axes = panels(3, width=3.2, height=2.8)
    for panel, points in zip(axes, (3, 10, 30), strict=True):
        losses = gaps(100, points)
        for round_, label in ((0, "one broadcast"), (1, "one round more"), (losses.shape[1] - 1, "ten rounds more")):
            panel.plot(np.arange(1, 101), np.sort(losses[:, round_]), label=label, lw=1.5)
        panel.axhline(0, color=GREY, lw=0.6)
        panel.set(title=f"{points} points per site", xlabel="seeds, sorted", ylim=(-0.15, 1.15))
    axes[0].set_ylabel("gap to batch (nats per point)")
    axes[0].legend()
    return figure


def simulated() -> Figure:
    """What `decbayes simulate --agents 12 --steps 60 --seed 3 --topology ring --picture` draws."""
    history = History(HistoryPlan(12, 60, "ring"), 3)
    return simulation.draw(simulation.watch(history, 0.0, Console(quiet=True), lambda: None))


def page() -> None:
    """The pictures of docs/plot.md, which its own code draws; it is run in the folder for them."""
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    folder = FOLDER / PAGE.stem
    folder.mkdir(exist_ok=True)
    with chdir(folder):
        exec("".join(blocks), {"__name__": "__page__"})
    for path in folder.glob("*.png"):
        shrink(path)


def shoot(page: str, name: str, *, width: int = 1200, height: int = 900) -> None:
    """A page of the present folder as a browser shows it: needs Debian's chromium, or another one of that name."""
    look = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--hide-scrollbars",
        "--screenshot=shot.png",
    ]
    with TemporaryDirectory() as profile:
        subprocess.run(
            ["chromium", *look, f"--window-size={width},{height}", f"--user-data-dir={profile}", page], check=True
        )
    picture = FOLDER / f"{name}.png"
    Path("shot.png").replace(picture)
    shrink(picture)


def report() -> None:
    """The report of docs/reports.md, as a browser shows it."""
    page = (Path(__file__).parent / "reports.md").read_text(encoding="utf-8")
    first, second, *_ = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    with TemporaryDirectory() as folder, chdir(folder):
        exec(first + second, {"__name__": "__page__"})
        shoot("report.html", "report")


def studies() -> None:
    """The report of the first study of docs/studies.md, as a browser shows it, on a desk and on a phone."""
    page = (Path(__file__).parent / "studies.md").read_text(encoding="utf-8").split("\n## ")[1]
    (making,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (commands,) = re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    with TemporaryDirectory() as folder, chdir(folder):
        exec(making, {"__name__": "__page__"})
        for line in commands.replace("\\\n", " ").splitlines():
            subprocess.run([sys.executable, "-m", *shlex.split(line)], check=True)
        shoot("survival/results/report.html", "study-report")
        shoot("survival/results/report.html", "study-report-phone", width=500, height=1500)


def preview() -> None:
    """The preview of docs/privacy.md, as a browser shows it."""
    page = (Path(__file__).parent / "privacy.md").read_text(encoding="utf-8")
    section = page[page.index("## See it before it goes") : page.index("## Approve and release")]
    (making,) = re.findall(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    with TemporaryDirectory() as folder, chdir(folder):
        exec(making, {"__name__": "__page__"})
        for line in re.findall(r"^decbayes (?:fit|preview) .*$", section, re.MULTILINE):
            subprocess.run([sys.executable, "-m", *line.split()], check=True)
        shoot("preview.html", "preview")


def drawn(picture: Callable[[], Figure]) -> Callable[[], None]:
    """Into a file of the function's name."""

    def save() -> None:
        with styled():
            picture().savefig(FOLDER / f"{picture.__name__}.png")
        shrink(FOLDER / f"{picture.__name__}.png")

    return save


FIGURES = (mixture, labels, overlap, gain, alignment, split, tail, simulated)
PICTURES = {figure.__name__: drawn(figure) for figure in FIGURES} | {
    PAGE.stem: page,
    "report": report,
    "studies": studies,
    "preview": preview,
    "charts": lambda: [chart() for chart in charts.CHARTS.values()] and None,
    "diagrams": lambda: diagrams.write([]),
}


if __name__ == "__main__":
    run_named(PICTURES, "The pictures of the documentation")
