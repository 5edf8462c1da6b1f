"""Draws charts for the tops of pages into docs/pictures/charts: `python docs/charts.py [NAME …]`.

Charts of benchmarks read the tables of their own pages, so that a chart and its table cannot disagree. Charts of how-to
pages run the Python blocks of the page first.
"""

import contextlib
import io
import re
import subprocess
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from failures import run_named
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from decbayes.plot.style import AMPS, BATCH, GREY, INK, NAIVE, SITES, canvas, colour, styled

DOCS = Path(__file__).parent
FOLDER = DOCS / "pictures" / "charts"
LIGHT = "#9cc3e0"


def rows(page: str, first: str) -> list[list[str]]:
    """The body of the first table of a benchmark page after some words."""
    text = (DOCS / "benchmarks" / f"{page}.md").read_text(encoding="utf-8")
    text = text[text.index(first) :]
    table = re.search(r"^\|.*\n\|[-|: ]+\n((?:\|.*\n)+)", text, re.MULTILINE)
    assert table, f"{page}: no table after {first!r}"
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[1].splitlines()]


def number(cell: str) -> float:
    """The first number of a cell."""
    found = re.search(r"[−-]?\d[\d,]*\.?\d*", cell)
    return float(found[0].replace("−", "-").replace(",", "")) if found else np.nan


def names_of(page: str, *, commands: bool = False) -> dict[str, Any]:
    """The names that the Python blocks of a page leave behind, between its commands if these are run, too."""
    text = (DOCS / page).read_text(encoding="utf-8")
    blocks = re.findall(rf"^```(python{'|sh' if commands else ''})\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {"__name__": "__page__"}
    with TemporaryDirectory() as folder, chdir(folder), contextlib.redirect_stdout(io.StringIO()):
        for kind, block in blocks:
            if kind == "sh":
                subprocess.run(["bash", "-ec", block], check=True, capture_output=True)
            else:
                exec(block, names)
    return names


def axes_of(width: float = 7.2, height: float = 2.3) -> tuple[Figure, Axes]:
    figure = canvas(width, height)
    return figure, figure.add_subplot()


def dots(axes: Axes, labels: list[str], series: dict[str, tuple[list[float], str]]) -> None:
    """One line per label, one dot per series."""
    places = np.arange(len(labels))[::-1]
    for name, (values, shade) in series.items():
        axes.plot(values, places, "o", ms=4.5, color=shade, label=name)
    axes.set(yticks=places, yticklabels=labels, ylim=(-0.6, len(labels) - 0.4))
    axes.grid(axis="y", color="#eeeeee", lw=0.6)
    axes.tick_params(axis="y", length=0)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))


# Benchmarks.


def topics() -> Figure:
    figure, axes = axes_of()
    table = rows("topics", "## Unlike sites")
    kinds = {
        "one-to-one": (1, NAIVE),
        "Ward's clusters": (3, SITES),
        "merged": (4, LIGHT),
        "wide": (5, AMPS),
        "3 rounds": (6, INK),
    }
    dots(
        axes,
        [row[0] for row in table],
        {name: ([number(row[place]) for row in table], shade) for name, (place, shade) in kinds.items()},
    )
    axes.axvline(-7.518, color=GREY, lw=0.8, ls=":")
    axes.set(xlabel="log-likelihood per held-out word; dotted: one fit of all documents")
    return figure


def topic_work() -> Figure:
    figure, axes = axes_of(height=2.6)
    table = rows("topic-work", "### Diversity comes last")
    kinds = {
        "one fit, stopped": (1, SITES),
        "merge": (2, NAIVE),
        "one round": (3, LIGHT),
        "three rounds": (4, AMPS),
        "one fit, longer": (5, GREY),
        "pooled, from a merge": (6, INK),
    }
    for name, (place, shade) in kinds.items():
        pairs = [[float(part.replace("−", "-")) for part in row[place].split("/")] for row in table]
        axes.plot(*zip(*pairs, strict=True), "o", ms=4.5, color=shade, label=name)
    axes.axhline(0.0, color=GREY, lw=0.8, ls=":")
    axes.axvline(0.0, color=GREY, lw=0.8, ls=":")
    axes.set(xlabel="bound, nats per word; dotted: one fit of all documents", ylabel="diversity")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def regression() -> Figure:
    figure, axes = axes_of(height=2.5)
    table = rows("regression", "## Real data")
    values = np.array([[number(cell) for cell in row[1:6]] for row in table])
    best = values[:, 2:5].min(axis=1)
    order = np.argsort(values[:, 0])
    for name, column, shade in (
        ("best meta-analysis", best, NAIVE),
        ("one broadcast", values[:, 0], AMPS),
        ("one round", values[:, 1], LIGHT),
    ):
        axes.plot(np.maximum(column[order], 5e-4), "o", ms=3.6, color=shade, label=name)
    axes.set(
        yscale="log",
        xlabel=f"{len(table)} regressions, sorted by the error of one broadcast",
        ylabel="error (standard deviations)",
        xticks=[],
    )
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def classes() -> Figure:
    figure, axes = axes_of(height=2.5)
    table = rows("classes", "## Tables")
    parts = [[number(cell) for cell in row[5].split(",")] for row in table]
    gaps = np.array([np.array(each) - number(row[1]) for each, row in zip(parts, table, strict=True)])
    kinds = (("one site", SITES), ("one to one", NAIVE), ("merged", LIGHT), ("ten rounds", AMPS))
    dots(
        axes,
        [row[0] for row in table],
        {name: (list(gaps[:, place]), shade) for place, (name, shade) in enumerate(kinds)},
    )
    axes.set_xscale("symlog", linthresh=0.5)
    axes.set(
        xlabel="nats per row beside one fit of all rows; sites split by class",
        xticks=[-10, -1, 0],
        xticklabels=["−10", "−1", "0"],
        xlim=(1.5 * gaps.min(), 2 * gaps.max()),
    )
    return figure


def components() -> Figure:
    figure, axes = axes_of()
    table = [
        row
        for row in rows("components", "## The default number of slots")
        if row[0] not in ("time of a merge", "more than 0.2 behind")
    ]
    kinds = {"“largest”": (1, SITES), "“auto”": (2, NAIVE), "default": (3, AMPS)}
    dots(
        axes,
        [row[0] for row in table],
        {name: ([number(row[place]) for row in table], shade) for name, (place, shade) in kinds.items()},
    )
    axes.set(xlabel="nats per row behind the best fit of all rows")
    return figure


def merges() -> Figure:
    figure, axes = axes_of()
    table = rows("merges", "## Remarks")
    labels = [row[0].split(":")[0].split(", or")[0] for row in table]
    kinds = {"sensitivity": (3, AMPS), "specificity": (4, SITES)}
    dots(axes, labels, {name: ([number(row[place]) for row in table], shade) for name, (place, shade) in kinds.items()})
    axes.set(xlim=(0, 1.04), xlabel="share of random settings in which a remark is right")
    return figure


def statements() -> Figure:
    table = [row for row in rows("statements", "| equal sites |") if "(" in row[2]]
    figure, axes = axes_of(height=0.2 * len(table))
    values = [number(row[2]) for row in table]
    errors = [float(re.findall(r"\((.*?)\)", row[2])[0]) for row in table]
    labels = [row[0].partition(" (")[0] for row in table]
    places = np.arange(len(table))[::-1]
    axes.errorbar(values, places, xerr=errors, fmt="o", ms=4, color=AMPS, lw=1)
    axes.axvline(5, color=GREY, lw=0.8, ls=":")
    axes.set(yticks=places, yticklabels=labels, xlabel="equal sites that were said to differ (%), at p < 0.05")
    axes.set_xlim(0, max(16, 1 + max(map(sum, zip(values, errors, strict=True)))))
    return figure


def intervals() -> Figure:
    figure, axes = axes_of()
    table = rows("intervals", "| means / weights |")[:-1]  # the last is a sampler
    plain, calibrated = ([number(row[place]) for row in table] for place in (1, 2))
    dots(axes, [row[0] for row in table], {"mean field": (plain, NAIVE), "calibrated": (calibrated, AMPS)})
    axes.axvline(90, color=GREY, lw=0.8, ls=":")
    axes.set(xlabel="coverage of 90 % intervals of means (%), overlapping clusters")
    return figure


def robust() -> Figure:
    figure, axes = axes_of(height=2.5)
    table = rows("robust", "## Robust merges")
    found = {row[0]: re.search(r"([\d.]+)→\*\*([\d.]+)", row[3]) for row in table}
    worst = {kind: [float(error) for error in match.groups()] for kind, match in found.items() if match}
    kinds = [*worst]
    places = np.arange(len(kinds))[::-1]
    for place, kind in zip(places, kinds, strict=True):
        before, after = (max(error, 0.05) for error in worst[kind])
        axes.annotate("", (after, place), (before, place), arrowprops={"arrowstyle": "->", "color": GREY, "lw": 1})
        axes.plot(before, place, "o", color=NAIVE, label="plain merge" if place == places[0] else None)
        axes.plot(after, place, "o", color=AMPS, label="robust merge" if place == places[0] else None)
    axes.set(
        xscale="log",
        yticks=places,
        yticklabels=kinds,
        xlabel="worst error (posterior deviations), 1 or 3 of 10 sites faulty",
        ylim=(-0.6, len(kinds) - 0.4),
    )
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def network() -> Figure:
    figure, axes = axes_of(height=2.5)
    table = rows("network", "| abuse | publication, s | link and question, s |")
    labels = [row[0].partition(", ")[0] for row in table]
    dots(
        axes,
        labels,
        {
            "publication": ([number(row[1]) for row in table], AMPS),
            "link, question": ([number(row[2]) for row in table], SITES),
        },
    )
    axes.set(xlim=(0, 1.6), xlabel="seconds while the abuse goes on")
    return figure


def privacy() -> Figure:
    figure, axes = axes_of(height=2.4)
    table = rows("privacy", "## What files reveal")
    for row in table:
        values = [100 * number(cell) for cell in row[3:6]]
        shade = AMPS if "Regression" in row[0] and "Mixture" not in row[0] else SITES
        axes.plot([50, 500, 5000], values, "o-", ms=3, lw=0.9, color=shade)
    axes.plot([], [], color=SITES, label="mixtures, classes, …")
    axes.plot([], [], color=AMPS, label="regressions")
    axes.axhline(50, color=GREY, lw=0.8, ls=":")
    axes.set(
        xscale="log",
        xticks=[50, 500, 5000],
        xticklabels=["50", "500", "5,000"],
        xlabel="records behind a file",
        ylabel="membership guessed right (%)",
    )
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def speed() -> Figure:
    figure, axes = axes_of(height=2.4)
    threads = [1, 2, 4, 8, 16]
    for place, row in enumerate(rows("speed", "## Several cores")):
        values = np.array([number(cell) for cell in row[1:6]])
        axes.plot(threads, values[0] / values, "o-", ms=3.5, color=colour(place), label=row[0])
    axes.plot([1, 16], [1, 16], color=GREY, lw=0.7, ls=":")
    axes.set(xscale="log", xticks=threads, xticklabels=threads, xlabel="threads", ylabel="times as fast as one thread")
    axes.minorticks_off()
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def gpu() -> Figure:
    figure, axes = axes_of(height=1.9)
    text = (DOCS / "benchmarks" / "gpu.md").read_text(encoding="utf-8")
    seconds = {
        kind: [float(found) for found in re.findall(rf"50 sites, {kind} *, any to any: .*?in all ([\d.]+) s", text)]
        for kind in ("cuda", "cpu")
    }
    single = [
        (
            float(re.findall(rf"K = +{k}, gpu +([\d.]+) s", text)[0]),
            float(re.findall(rf"K = +{k}, processor +([\d.]+) s", text)[0]),
        )
        for k in (20, 100)
    ]
    labels = ["one fit, 20 topics", "one fit, 100 topics", "50 sites, fit and merge"]
    on, off = (
        [pair[side] for pair in single] + [float(np.median(seconds[kind]))] for side, kind in enumerate(("cuda", "cpu"))
    )
    dots(axes, labels, {"NVIDIA H200": (on, AMPS), "16 cores": (off, SITES)})
    axes.set(xscale="log", xlabel="seconds, 20 Newsgroups")
    return figure


def alignment() -> Figure:
    figure, axes = axes_of(height=1.9)
    table = rows("alignment", "| sites | the paper's method |")
    paper = [number(row[1]) for row in table]
    dots(
        axes,
        [f"{row[0]} sites" for row in table],
        {
            "the paper's method": (paper, NAIVE),
            "Matching": ([seconds / number(row[2]) for seconds, row in zip(paper, table, strict=True)], LIGHT),
            "Hierarchical": ([seconds / number(row[3]) for seconds, row in zip(paper, table, strict=True)], AMPS),
        },
    )
    axes.set(xscale="log", xlabel="seconds of one core, topics of 20 Newsgroups")
    return figure


def overview() -> Figure:
    """Three headlines side by side."""
    figure = canvas(7.2, 2.1)
    first, second, third = figure.subplots(1, 3)
    table = rows("topics", "## Unlike sites")
    gaps = [number(table[3][place]) + 7.518 for place in (1, 4, 6)]
    first.bar(["one-to-one", "merged", "3 rounds"], gaps, color=[NAIVE, LIGHT, AMPS], width=0.6)
    first.axhline(0, color=BATCH, lw=0.8)
    first.set(title="topics of 50 unlike sites", ylabel="nats, beside one fit")
    table = rows("intervals", "| means / weights |")
    second.plot(["mean field", "calibrated"], [number(table[4][1]), number(table[4][2])], "o", color=AMPS)
    second.axhline(90, color=GREY, lw=0.8, ls=":")
    second.set(title="coverage of 90 % intervals (%)", ylim=(70, 95), xlim=(-0.6, 1.6))
    table = rows("speed", "| library |")
    labels = [re.sub(r" `.*", "", row[0]) for row in table]
    third.plot([number(row[2]) for row in table], labels, "o", color=SITES, label="that library")
    third.plot([number(row[3]) for row in table], labels, "o", color=AMPS, label="decbayes")
    third.set(title="seconds to the same score", xscale="log", ylim=(-0.6, 4.6))
    third.legend(loc="upper left")
    return figure


# How-to pages.


def forest() -> Figure:
    """The coefficients of each clinic and of all, as regression.md fits them."""
    names = names_of("regression.md")
    model, table = names["model"], names["model"].coefficients
    sites = [model.fit(frame).posterior for frame in names["clinics"]]
    return estimates(
        [*(table(site, level=0.9) for site in sites), table(names["merged"], level=0.9)],
        {"age": "pressure per year of age", "ward=heart": "difference in pressure, heart ward and bone ward"},
        ["a", "b", "c", "d", "e"],
    )


def differing() -> Figure:
    """The intercept of each clinic, and of all, as sites-that-differ.md fits them."""
    names = names_of("sites-that-differ.md")
    fixed = [names["fixed"].coefficients(names["fixed"].fit(frame).posterior, level=0.9) for frame in names["unlike"]]
    both = names["varying"].coefficients(names["refined"].merged, level=0.9)
    return estimates([*fixed, both], {"intercept": "pressure", "age": "pressure per year of age"}, list("abcdefgh"))


def estimates(tables: list[list[dict[str, Any]]], terms: dict[str, str], sites: list[str]) -> Figure:
    """A forest plot per term, with what it measures: each site, and the merge below."""
    figure = canvas(7.2, 0.8 + 0.2 * len(tables))
    labels = [f"clinic {name}" for name in sites] + ["merged"]
    places = np.arange(len(tables))[::-1]
    for axes, (term, measured) in zip(figure.subplots(1, len(terms), sharey=True), terms.items(), strict=True):
        for place, table, label in zip(places, tables, labels, strict=True):
            row = next(row for row in table if row["term"] == term)
            shade = AMPS if label == "merged" else GREY
            axes.plot([row["low"], row["high"]], [place, place], color=shade, lw=2 if label == "merged" else 1)
            axes.plot(
                row["mean"], place, "D" if label == "merged" else "s", color=shade, ms=5 if label == "merged" else 3.5
            )
        axes.set(title=f"{term}: mean and 90 % interval", xlabel=measured, yticks=places, yticklabels=labels)
        axes.set_ylim(-0.6, len(tables) - 0.4)
        axes.xaxis.set_major_locator(MaxNLocator(4))
    return figure


def membership() -> Figure:
    """Odds ratios of class-membership.md, beside those of assigned classes and the truth."""
    names = names_of("class-membership.md")
    model, found, classes = names["model"], names["found"], names["classes"]
    labels = np.array(model.known.names, dtype=object)
    sites = [frame.assign(kind=labels[found.assign(classes, frame).argmax(axis=1)]) for frame in names["clinics"]]
    import decbayes as db

    columns = {"age": model.columns["age"], "sex": model.columns["sex"], "kind": db.columns.Categorical(*labels)}
    plain = db.MultinomialRegression("kind", columns=columns, reference=model.reference)
    assigned = plain.ratios(db.merge([plain.fit_site(site[["age", "sex", "kind"]]).posterior for site in sites]))
    # Classes in the order of the kinds that they are most like.
    order = [int(np.abs(names["saying_yes"] - part).sum(axis=1).argmin()) for part in classes.mean("yes_no")]
    kinds = dict(zip(labels, order, strict=True))
    figure = canvas(7.2, 1.9)
    rows = list(zip(model.ratios(names["merged"]), assigned, strict=True))
    for axes, term in zip(figure.subplots(1, 2), ("age", "sex=m"), strict=True):
        shown = [pair for pair in rows if pair[0]["term"].endswith(term)]
        for place, pair in enumerate(shown[::-1]):
            kind = kinds[pair[0]["term"].partition(":")[0]]
            truth = names["effects"][kind] - names["effects"][kinds[model.reference]]
            for shift, shade, row in zip((0.12, -0.12), (AMPS, NAIVE), pair, strict=True):
                axes.plot([row["low"], row["high"]], [place + shift] * 2, color=shade)
                axes.plot(row["ratio"], place + shift, "o", color=shade, markersize=4)
            axes.plot([np.exp(truth[1 if term == "age" else 2])] * 2, [place - 0.35, place + 0.35], ":", color=INK)
        axes.set(xscale="log", yticks=range(len(shown)), ylim=(-0.6, len(shown) - 0.4), xlabel=f"odds ratio, {term}")
        axes.set_yticklabels([pair[0]["term"].partition(":")[0] for pair in shown[::-1]])
        axes.minorticks_off()
        ticks = (0.9, 1.0, 1.1) if term == "age" else (0.25, 0.5, 1.0, 2.0, 4.0)
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    legend = {"membership": AMPS, "assigned classes": NAIVE, "dotted: truth": INK}
    left = figure.axes[0]
    for place, (text, shade) in enumerate(legend.items()):
        left.text(0.99, 0.95 - 0.13 * place, text, color=shade, ha="right", transform=left.transAxes)
    return figure


def survival() -> Figure:
    """The curves of outcomes.md, with their intervals."""
    names = names_of("outcomes.md")
    figure, axes = axes_of(5.4, 2.3)
    times = np.linspace(0.05, 5.9, 60)
    curves = names["survival"].survival(names["followed"], {"old": [False, True]}, times=times)
    for place, name in enumerate(("young", "old")):
        axes.plot(times, curves["mean"][place], color=colour(place), label=name)
        axes.fill_between(times, curves["low"][place], curves["high"][place], color=colour(place), alpha=0.2, lw=0)
    axes.set(
        xlabel="years", ylabel="still alive", ylim=(0, 1.02), title="five hospitals merged: mean and 90 % interval"
    )
    axes.legend()
    return figure


def hormone_therapy() -> Figure:
    """The curves of survival.md, of its four hospitals after one round; needs lifelines, which has the data."""
    names = names_of("survival.md", commands=True)
    figure, axes = axes_of(5.4, 2.3)
    times = np.linspace(0.0, 2000.0, 80)
    for place, curve in enumerate(names["view"].curves(names["refined"], names["treated"], times=times)):
        label = ("without hormone therapy", "with hormone therapy")[place]
        axes.plot(times / 365.25, curve.mean, color=colour(place), label=label)
        axes.fill_between(times / 365.25, curve.low, curve.high, color=colour(place), alpha=0.2, lw=0)
    title = "age 53, grade II, 3 nodes: mean and 90 % interval"
    axes.set(xlabel="years", ylabel="free of relapse", ylim=(0, 1.02), title=title)
    axes.legend()
    return figure


def unlike_numbers() -> Figure:
    """Sites that found four and two clusters, and their merge, as in unknown-components.md."""
    names = names_of("unknown-components.md")
    figure = canvas(7.2, 2.4)
    shown = {
        "west found 4": (names["west"], [0, 1, 2, 3]),
        "east found 2": (names["east"], [3, 4]),
        "merged into 5": (names["merged"], [0, 1, 2, 3, 3, 4]),
    }
    for axes, (title, (posterior, clusters)) in zip(
        figure.subplots(1, 3, sharex=True, sharey=True), shown.items(), strict=True
    ):
        axes.plot(*names["readings"](120, clusters).T, ".", ms=2, color="#bbbbbb")
        axes.plot(*posterior.mean("components").T, "o", ms=8, mfc="none", mew=2, color=AMPS)
        axes.set(title=title, xticks=[], yticks=[])
    return figure


def drawn(picture: Callable[[], Figure]) -> Callable[[], None]:
    """Into a file of the function's name, with letters as letters: small, and sharp at any size."""

    def save() -> None:
        FOLDER.mkdir(parents=True, exist_ok=True)
        import matplotlib

        with styled(), matplotlib.rc_context({"svg.fonttype": "none", "font.family": "sans-serif"}):
            figure = picture()
            figure.savefig(FOLDER / f"{picture.__name__.replace('_', '-')}.svg", metadata={"Date": None})

    return save


FIGURES = (
    *(
        topics,
        topic_work,
        regression,
        classes,
        components,
        merges,
        statements,
        intervals,
        robust,
        network,
        privacy,
        speed,
        gpu,
        alignment,
    ),
    *(overview, forest, differing, membership, survival, hormone_therapy, unlike_numbers),
)
CHARTS = {figure.__name__: drawn(figure) for figure in FIGURES}

if __name__ == "__main__":
    run_named(CHARTS, "The charts of the documentation")
