"""States of a sequence over time: what was seen, how probable each state is, and what was really done."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from decbayes.arguments import check_kind
from decbayes.errors import InvalidData, StructureMismatch
from decbayes.plot.style import GREY, INK, PALE, bare, canvas, colour, styled
from decbayes.posterior import Posterior

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_COLUMNS = 6


@styled()
def states(
    posterior: Posterior,
    sequence: Any,
    *,
    names: Sequence[str] = (),
    truth: Sequence[Any] | None = None,
    seconds: float | None = None,
) -> "Figure":
    """One sequence: its columns over the most likely states, and below how probable each state is at each step.

    `names` are those of the states. `truth` says what each step really was, if somebody knows; it is drawn as a band on
    top. `seconds` is how long a step lasts.
    """
    from decbayes.models.core.registry import model_for
    from decbayes.models.sequences.hidden_markov import HiddenMarkov

    check_kind(Posterior, posterior=posterior)
    model = model_for(posterior.structure)
    if not isinstance(model, HiddenMarkov):
        raise StructureMismatch(f"This is a posterior of {type(model).__name__}, which has no states over time.")
    steps = model.steps([sequence])
    if len(steps.ends) != 1 or (truth is not None and len(truth) != len(steps.points)):
        raise InvalidData("One sequence is drawn, and `truth` has as many entries as it has steps.")
    labels = [*names] or [f"state {k}" for k in range(model.states)]
    shown = list(model.columns)[:MOST_COLUMNS]
    figure, panels = stacked([0.25] * (truth is not None) + [0.75] * len(shown) + [0.8])
    times = np.arange(len(steps.points) + 1) * (seconds or 1.0)
    if truth is not None:
        draw_truth(panels.pop(0), times, truth)
    path = model.path(posterior, [sequence])[0]
    for place, (axes, name) in enumerate(zip(panels, shown, strict=False)):
        draw_column(axes, times, steps.points[:, place], path)
        named(axes, name)
    draw_shares(panels[-1], times, model.assign(posterior, [sequence]), labels)
    figure.align_ylabels(panels)
    panels[-1].set(xlabel="step" if seconds is None else "seconds", xlim=times[[0, -1]])
    return figure


def stacked(heights: Sequence[float]) -> "tuple[Figure, list[Axes]]":
    """Panels below each other that share their time axis; only the last one shows it."""
    figure = canvas(6.6, sum(heights) + 0.5)
    below = figure.subplots(len(heights), 1, sharex=True, squeeze=False, gridspec_kw={"height_ratios": heights})
    panels = list(below[:, 0])
    for axes in panels[:-1]:
        axes.tick_params(axis="x", length=0, labelbottom=False)
    return figure, panels


def named(axes: "Axes", name: str) -> None:
    """A name left of a panel, as one reads."""
    axes.set_ylabel(name, rotation=0, ha="right", va="center")


def runs(values: Sequence[Any]) -> Iterator[tuple[int, int, Any]]:
    """Where each stretch of equal values begins and ends."""
    first = 0
    for value, stretch in groupby(values):
        end = first + len(list(stretch))
        yield first, end, value
        first = end


def draw_truth(axes: "Axes", times: Any, truth: Sequence[Any]) -> None:
    for number, (first, end, value) in enumerate(runs(truth)):
        axes.axvspan(times[first], times[end], color=PALE if number % 2 else "white", lw=0)
        axes.text(0.5 * (times[first] + times[end]), 0.5, str(value), ha="center", va="center", fontsize=7.5)
    axes.set(ylim=(0, 1), yticks=[])
    bare(axes)


def draw_column(axes: "Axes", times: Any, values: Any, path: Any) -> None:
    for first, end, state in runs(path.tolist()):
        axes.axvspan(times[first], times[end], color=colour(state), alpha=0.22, lw=0)
    axes.plot(0.5 * (times[1:] + times[:-1]), values, color=INK, lw=0.7)
    axes.locator_params(axis="y", nbins=3)
    axes.spines["bottom"].set_visible(False)


def draw_shares(axes: "Axes", times: Any, shares: Any, labels: Sequence[str]) -> None:
    """Probabilities of states, stacked to one."""
    edges = np.vstack([shares, shares[-1:]]).cumsum(axis=1)
    below = np.zeros(len(times))
    for k, label in enumerate(labels):
        axes.fill_between(times, below, edges[:, k], step="post", color=colour(k), lw=0, label=label)
        below = edges[:, k]
    axes.set(ylim=(0, 1), yticks=[0, 1])
    named(axes, "probability")
    axes.spines[:].set_color(GREY)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.45), ncols=min(len(labels), 6), handlelength=0.9)
