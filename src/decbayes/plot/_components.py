"""Components of one posterior: words, images, points in space, columns of a table, states over time."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from decbayes.base.arguments import check_kind, check_whole
from decbayes.errors import DecbayesError, InvalidData, StructureMismatch
from decbayes.families import Array
from decbayes.models.core.points import as_points
from decbayes.plot.style import BLUE, GREY, INK, PALE, bare, canvas, colour, grid, new_axes, styled
from decbayes.posterior import Posterior
from decbayes.views import Image, Interval, Point, Profile, Shares, View, Words, view_of
from decbayes.views.class_view import by_weight, most_different
from decbayes.views.point_view import ellipse
from decbayes.views.text_summary import by_filled_slot
from decbayes.views.values import Shape, cut
from decbayes.views.view import as_images, contrast

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TAIL = 1e-3  # of the highest density; lower values are not drawn
# How many standard deviations to draw around the means: the first that suffices. A component with few data is wider
# than its standard deviation, and may have a heavy tail, which is cut off.
REACHES = (4, 8, 16, 32)
MOST_PANELS, MOST_COLUMNS = 40, 6
LONGEST_WORD = 18
GAP = 0.12  # between images, in widths of an image
Range = tuple[float, float]


def parts_of(kind: type[Any], posterior: Posterior, problem: str, **options: Any) -> tuple[View, list[Any]]:
    """The posterior's view and its components, if they are of this kind."""
    check_kind(Posterior, posterior=posterior)
    view = view_of(posterior.structure)
    parts = [*view.parts(posterior, **options)]
    if not parts or not isinstance(parts[0], kind):
        raise StructureMismatch(f"This is a posterior of {view.title}, {problem}.")
    return view, parts


@styled()
def topics(posterior: Posterior, *, top: int = 8, across: int = 5) -> "Figure":
    """Draw small bar charts of each topic's leading words, on one scale; empty slots are left out.

    `posterior` has topics, `top` is the number of words per topic, and `across` the number of charts in a row.

    >>> model = db.LatentDirichletAllocation(2, ("apple", "pear"))
    >>> [axes.get_title() for axes in db.plot.topics(db.Posterior.of_prior(model.structure)).axes]
    ['topic 0', 'topic 1']
    """
    check_whole(1, top=top)
    view, all_parts = parts_of(Words, posterior, "which has no words", top=top)
    names = by_filled_slot(posterior, view.names(posterior))
    titles, parts = [name or f"topic {topic}" for topic, name in names.items()], [all_parts[topic] for topic in names]
    longest = max(share for part in parts for _, share in part.words)
    figure, panels = grid(len(parts), across, width=1.55, height=0.65 + 0.145 * top)
    for topic, (axes, part) in enumerate(zip(panels, parts, strict=True)):
        words, shares = zip(*part.words[:top], strict=True)
        axes.barh(range(len(words)), shares, color=BLUE, height=0.7)
        axes.set_yticks(range(len(words)), [cut(word, LONGEST_WORD) for word in words])
        axes.set_title("\n".join(wrap(titles[topic], 17)[:2]), fontsize=7)
        axes.set(xlim=(0, 1.05 * longest), ylim=(len(words) - 0.4, -0.6))
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.locator_params(axis="x", nbins=3)
        axes.xaxis.set_major_formatter("{x:g}")
    figure.supxlabel("probability", fontsize=8)
    return figure


@styled()
def features(posterior: Posterior, shape: Shape, *, across: int = 5) -> "Figure":
    """Draw the mean of every feature, or of every component of a mixture, as a grey image.

    `posterior` has features, or is of a mixture of images. `shape` is the height and width in pixels, and `across` the
    number of images in a row. Contrast is as in `images`.

    >>> posterior = db.Posterior.of_prior(db.LatentFeatures(3, 6).structure)
    >>> len(db.plot.features(posterior, (2, 3)).axes)
    3
    """
    _, parts = parts_of(Image, posterior, "whose components are not images", shape=shape)
    figure, panels = grid(len(parts), across, width=1.1, height=1.1 * shape[0] / shape[1] + 0.25)
    for place, (axes, part) in enumerate(zip(panels, parts, strict=True)):
        draw_image(axes, part.pixels, (0, 0), (part.low, part.high), "gray")
        axes.set(title=str(place), xticks=[], yticks=[])
        bare(axes)
    return figure


@styled()
def images(
    rows: Mapping[str, ArrayLike],
    shape: Shape,
    *,
    limits: Range | None = None,
    cmap: Any = "gray",
    axes: "Axes | None" = None,
) -> "Axes":
    """Draw a row of images for each name, to compare several posteriors.

    `rows` has a matrix per name, one image per row, and `shape` is their height and width in pixels. Each image has its
    own contrast, so that faint ones are visible: black is zero, or mid grey if there are negative numbers. `limits`
    sets the numbers for black and white for all images. `cmap` is a colour map of matplotlib. `axes` are the axes to
    draw on, if given.

    >>> axes = db.plot.images({"north": np.eye(4), "south": np.ones((2, 4))}, (2, 2))
    >>> len(axes.images)
    6
    """
    lines = {name: as_images(values, shape) for name, values in rows.items()}
    signed = any(bool((line < 0).any()) for line in lines.values())
    height, width = shape[0] + GAP * shape[1], (1 + GAP) * shape[1]
    longest = max(map(len, lines.values()))
    axes = axes if axes is not None else new_axes(0.8 + 0.6 * longest, 0.1 + 0.6 * len(lines) * height / width)
    for down, line in enumerate(lines.values()):
        for across, picture in enumerate(line):
            black_and_white = limits if limits is not None else contrast(picture, signed=signed)
            draw_image(axes, picture, (down * height, across * width), black_and_white, cmap)
    axes.set(xlim=(-1, longest * width), ylim=(len(lines) * height, -1), xticks=[])
    axes.set_yticks([down * height + shape[0] / 2 for down in range(len(lines))], list(lines))
    axes.set_anchor("W")  # no gap between the images and their names at the left
    bare(axes)
    return axes


def draw_image(axes: "Axes", picture: Array, corner: tuple[float, float], greys: Range, cmap: Any) -> None:
    """Draw an image at its upper left corner, in a thin frame: a white edge would be lost on a white page."""
    (top, left), (height, width) = corner, picture.shape
    right, bottom = left + width, top + height
    axes.imshow(picture, extent=(left, right, bottom, top), cmap=cmap, vmin=greys[0], vmax=greys[1])
    axes.plot([left, right, right, left, left], [top, top, bottom, bottom, top], color=PALE, linewidth=0.5)


@styled()
def mixture(
    posterior: Posterior,
    data: ArrayLike | None = None,
    *,
    dimensions: tuple[int, int] = (0, 1),
    axes: "Axes | None" = None,
) -> "Axes":
    """Draw each component's mean and two standard deviations; thicker lines are more frequent.

    A mixture in one dimension is drawn as its predictive density. `posterior` is of a Gaussian mixture. `data` are
    points to draw behind it. `dimensions` are the two to draw, counted from 0. `axes` are the axes to draw on, if
    given.

    >>> model = db.GaussianMixture(2, 3, variance=1.0, columns=("length", "width", "height"))
    >>> axes = db.plot.mixture(db.Posterior.of_prior(model.structure), dimensions=(0, 2))
    >>> axes.get_xlabel(), axes.get_ylabel()
    ('length', 'height')
    """
    view, parts = parts_of(Point, posterior, "not of a mixture")
    axes = axes if axes is not None else new_axes(3.4, 2.6)
    names = parts[0].names
    points = (
        None if data is None else as_points(data, len(names), columns=posterior.structure.labels.get("components", ()))
    )
    if len(names) == 1:
        draw_density(axes, view, posterior, parts, points)
        axes.set(xlabel=names[0], ylabel="density")
        return axes
    pair = two_of(dimensions, len(names))
    draw_ellipses(axes, parts, pair, None if points is None else points[:, pair])
    axes.set(xlabel=names[pair[0]], ylabel=names[pair[1]])
    return axes


def two_of(dimensions: Sequence[int], available: int) -> list[int]:
    """Check that these are two different dimensions."""
    if len(dimensions) != 2 or len(set(dimensions) & set(range(available))) != 2:
        raise ValueError(f"dimensions must be two of {available}, counted from 0; not {dimensions}.")
    return list(dimensions)


def draw_ellipses(axes: "Axes", parts: Sequence[Point], pair: list[int], points: Array | None) -> None:
    if points is not None:
        axes.scatter(points[:, 0], points[:, 1], s=5, color=GREY, alpha=0.5, linewidths=0)
    for place, part in enumerate(parts):
        mean, covariance = part.mean[pair], part.covariance[np.ix_(pair, pair)]
        axes.plot(*ellipse(mean, covariance).T, color=colour(place), linewidth=0.5 + 3 * part.weight)
        axes.annotate(str(place), tuple(mean), ha="center", va="center", color=INK, weight="bold")


def draw_density(axes: "Axes", view: View, posterior: Posterior, parts: Sequence[Point], points: Array | None) -> None:
    if points is not None:
        axes.hist(points[:, 0], bins="auto", density=True, color=PALE)
    means, spreads = (
        np.array(values) for values in zip(*((p.mean[0], p.covariance[0, 0]) for p in parts), strict=True)
    )
    spreads = np.sqrt(spreads)
    for reach in REACHES:
        line = np.linspace((means - reach * spreads).min(), (means + reach * spreads).max(), 600)
        density = view.density(posterior, line)
        if max(density[0], density[-1]) < TAIL * density.max():
            break
    axes.plot(line, density, color=BLUE)


@styled()
def classes(posterior: Posterior, *, across: int = 4, level: float = 0.9) -> "Figure":
    """Draw each class column by column: its mean with an interval, or the shares of the categories.

    `posterior` is of a table's classes, or of states of sequences. `across` is the number of panels in a row, and
    `level` the probability of intervals. Classes are in order of frequency. If there are more
    than forty columns, those in which classes differ most are drawn.

    >>> columns = {"age": db.columns.Gaussian(50, 20), "ward": db.columns.Categorical("heart", "skin")}
    >>> posterior = db.Posterior.of_prior(db.LatentClasses(2, columns=columns).structure)
    >>> [axes.get_title() for axes in db.plot.classes(posterior).axes]
    ['age', 'ward']
    """
    view, parts = parts_of(Profile, posterior, "not of a table's columns", level=level)
    order = by_weight(dict(enumerate(parts)))
    weights = {k: "" if parts[k].weight is None else f" ({parts[k].weight:.0%})" for k in order}
    labels = [f"{view.noun} {k}{weight}" for k, weight in weights.items()]
    chosen = most_different(parts, MOST_PANELS)
    figure, panels = grid(len(chosen), across, width=1.9, height=0.6 + 0.22 * len(order))
    for place, (axes, name) in enumerate(zip(panels, chosen, strict=True)):
        draw_column(axes, [parts[k].columns[name] for k in order])
        axes.set(title=name, ylim=(len(order) - 0.4, -0.6))
        axes.set_yticks(range(len(order)), labels if place % across == 0 else [""] * len(order))
        axes.tick_params(axis="y", length=0)
    return figure


def draw_column(axes: "Axes", values: Sequence[Interval | Shares]) -> None:
    """Draw one column of all classes: intervals, or bars divided among the categories."""
    for place, value in enumerate(values):
        if isinstance(value, Shares):
            draw_shares(axes, value, place)
            continue
        axes.plot([value.low, value.high], [place, place], color=GREY, linewidth=2.5, solid_capstyle="butt")
        axes.plot(value.mean, place, "o", color=BLUE, markersize=3.5)
    first = values[0]
    if isinstance(first, Shares):
        axes.set(xlim=(0.0, 1.0), xticks=[])
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=2, handlelength=0.8, columnspacing=0.8)
        return
    axes.locator_params(axis="x", nbins=4)
    yes = first.unit == "probability"
    axes.set_xlabel("share of yes" if yes else "mean")
    if yes:
        axes.set_xlim(-0.02, 1.02)


def draw_shares(axes: "Axes", shares: Shares, place: int) -> None:
    left = 0.0
    for category, (name, share) in enumerate(shares.of.items()):
        label = name if not place else None
        axes.barh(place, share.mean, left=left, height=0.7, color=colour(category), label=label)
        left += share.mean


@styled()
def states(
    posterior: Posterior,
    sequence: Any,
    *,
    names: Sequence[str] = (),
    truth: Sequence[Any] | None = None,
    seconds: float | None = None,
) -> "Figure":
    """Draw one sequence with its most likely states, and below the probability of each state at each step.

    `posterior` is of a model of sequences, and `sequence` is one of those that its `fit` takes. `names` are those of
    the states. `truth` is the true state of each step, if known, drawn as a band on top. `seconds` is the length of a
    step.

    >>> model = db.HiddenMarkov(2, columns={"pulse": db.columns.Gaussian(70, 20)})
    >>> walk = np.array([60.0, 62.0, 61.0, 120.0, 118.0, 121.0])[:, None]
    >>> posterior = model.fit([walk], rng=np.random.default_rng(0)).posterior
    >>> len(db.plot.states(posterior, walk, truth=["rest"] * 3 + ["run"] * 3).axes)
    3
    """
    check_kind(Posterior, posterior=posterior)
    trace = view_of(posterior.structure).trace(posterior, sequence)
    if truth is not None and len(truth) != len(trace.values):
        raise InvalidData("`truth` must have as many entries as the sequence has steps.")
    labels = [*names] or [f"state {k}" for k in range(trace.probability.shape[1])]
    shown = trace.columns[:MOST_COLUMNS]
    figure, panels = stack_panels([0.25] * (truth is not None) + [0.75] * len(shown) + [0.8])
    times = np.arange(len(trace.values) + 1) * (seconds or 1.0)
    if truth is not None:
        draw_truth(panels.pop(0), times, truth)
    for place, (axes, name) in enumerate(zip(panels, shown, strict=False)):
        draw_steps(axes, times, trace.values[:, place], trace.path)
        name_panel(axes, name)
    draw_probability(panels[-1], times, trace.probability, labels)
    figure.align_ylabels(panels)
    panels[-1].set(xlabel="step" if seconds is None else "seconds", xlim=times[[0, -1]])
    return figure


def stack_panels(heights: Sequence[float]) -> "tuple[Figure, list[Axes]]":
    """Panels below each other that share their time axis; only the last one shows it."""
    figure = canvas(6.6, sum(heights) + 0.5)
    below = figure.subplots(len(heights), 1, sharex=True, squeeze=False, gridspec_kw={"height_ratios": heights})
    panels = list(below[:, 0])
    for axes in panels[:-1]:
        axes.tick_params(axis="x", length=0, labelbottom=False)
    return figure, panels


def name_panel(axes: "Axes", name: str) -> None:
    """Write a horizontal name left of a panel."""
    axes.set_ylabel(name, rotation=0, ha="right", va="center")


def runs(values: Sequence[Any]) -> Iterator[tuple[int, int, Any]]:
    """The start, end and value of each stretch of equal values."""
    first = 0
    for value, stretch in groupby(values):
        end = first + len(list(stretch))
        yield first, end, value
        first = end


def draw_truth(axes: "Axes", times: Any, truth: Sequence[Any]) -> None:
    for place, (first, end, value) in enumerate(runs(truth)):
        axes.axvspan(times[first], times[end], color=PALE if place % 2 else "white", lw=0)
        axes.text(0.5 * (times[first] + times[end]), 0.5, str(value), ha="center", va="center", fontsize=7.5)
    axes.set(ylim=(0, 1), yticks=[])
    bare(axes)


def draw_steps(axes: "Axes", times: Any, values: Any, path: Any) -> None:
    for first, end, state in runs(path.tolist()):
        axes.axvspan(times[first], times[end], color=colour(state), alpha=0.22, lw=0)
    axes.plot(0.5 * (times[1:] + times[:-1]), values, color=INK, lw=0.7)
    axes.locator_params(axis="y", nbins=3)
    axes.spines["bottom"].set_visible(False)


def draw_probability(axes: "Axes", times: Any, shares: Any, labels: Sequence[str]) -> None:
    """Draw the probabilities of states, stacked to one."""
    edges = np.vstack([shares, shares[-1:]]).cumsum(axis=1)
    below = np.zeros(len(times))
    for k, label in enumerate(labels):
        axes.fill_between(times, below, edges[:, k], step="post", color=colour(k), lw=0, label=label)
        below = edges[:, k]
    axes.set(ylim=(0, 1), yticks=[0, 1])
    name_panel(axes, "probability")
    axes.spines[:].set_color(GREY)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.45), ncols=min(len(labels), 6), handlelength=0.9)


DRAWINGS: dict[type[Any], Callable[[Posterior, Any], Any]] = {
    Words: lambda posterior, _: topics(posterior),
    Image: lambda posterior, part: features(posterior, part.pixels.shape),
    Point: lambda posterior, _: mixture(posterior).figure,
    Profile: lambda posterior, _: classes(posterior),
}


def components(posterior: Posterior, *, shape: Shape | None = None) -> "Figure":
    """Draw what suits the posterior's model: topics, features, a mixture or classes.

    `posterior` is of any model whose components can be drawn. `shape` is the height and width of components that are
    images.

    >>> model = db.LatentDirichletAllocation(2, ("apple", "pear"))
    >>> len(db.plot.components(db.Posterior.of_prior(model.structure)).axes)
    2
    """
    check_kind(Posterior, posterior=posterior)
    view = view_of(posterior.structure)
    parts = view.parts(posterior, shape=shape)
    drawing = DRAWINGS.get(type(parts[0])) if parts else None
    if drawing is not None:
        figure: Figure = drawing(posterior, parts[0])
        return figure
    if pixels := view.pixels(posterior):
        raise InvalidData(f"{pixels:,} pixels do not make a square image. Give its shape: --shape HEIGHT WIDTH.")
    raise DecbayesError(f"{view.title} cannot be drawn as components; try another function of decbayes.plot.")
