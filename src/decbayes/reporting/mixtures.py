"""Mixtures in a report: ellipses in two dimensions, densities in one, an interval per column in more."""

from collections.abc import Sequence

import numpy as np

from decbayes.families import Array
from decbayes.models.core.model import Model
from decbayes.plot._mixture import component_shapes, ellipse
from decbayes.posterior import Posterior
from decbayes.reporting.drawing import COLOURS, Interval, Scale, intervals, polyline, spanning, svg
from decbayes.reporting.markup import Markup, number, scrolling, tag

WIDTH, HEIGHT, LEFT = 640.0, 380.0, 46.0
MOST_PANELS, MOST_COMPONENTS = 12, 40
DRAWN = 1e-3  # of the highest density: what is lower is not drawn


def mixture(model: Model, posterior: Posterior, slots: Sequence[int]) -> Markup | None:
    """What these components are like, in as many dimensions as there are."""
    if not slots:
        return None
    means, covariances = (each[slots] for each in component_shapes(posterior))
    weights, dimension, labels = posterior.mean("weights"), means.shape[1], [*map(str, slots)]
    names = posterior.structure.labels.get("components", tuple(f"x{axis}" for axis in range(dimension)))
    # A density shows all components: where some are hidden, the others are drawn one by one.
    if dimension == 1 and len(slots) == len(weights):
        return density(model, posterior, means[:, 0], np.sqrt(covariances[:, 0, 0]), names[0])
    if dimension == 2:
        return ellipses(labels, weights[slots], means, covariances, names)
    return panels(labels, means, np.sqrt(np.diagonal(covariances, axis1=1, axis2=2)), names)


def ellipses(labels: Sequence[str], weights: Array, means: Array, covariances: Array, names: tuple[str, ...]) -> Markup:
    """Each component's mean and two standard deviations, lines as thick as it is frequent."""
    outlines = [ellipse(mean, covariance) for mean, covariance in zip(means, covariances, strict=True)]
    corners = np.concatenate(outlines)
    across, up = spanning(corners[:, 0], LEFT, WIDTH - 8.0), spanning(corners[:, 1], HEIGHT - 40.0, 8.0)
    drawn = frame(across, up, names)
    for label, outline, mean, weight in zip(labels, outlines, means, weights, strict=True):
        look = f"outline c{int(label) % COLOURS}"
        # Forty of the hundred points of an outline are enough for the eye.
        places = np.array([[across(x), up(y)] for x, y in outline[np.linspace(0, len(outline) - 1, 40).astype(int)]])
        drawn.append(polyline(places, class_=look, stroke_width=f"{1.0 + 4.0 * weight:.1f}"))
        drawn.append(tag("text", label, class_="mark", x=across(mean[0]), y=up(mean[1]) + 4.0))
    name = f"{len(means)} components: two standard deviations around each mean"
    return figure(svg(drawn, WIDTH, HEIGHT, name), f"{name}. Thick lines are frequent components.")


def frame(across: Scale, up: Scale, names: tuple[str, ...]) -> list[Markup]:
    """Two axes with a few round numbers and their names."""
    bottom = up.start
    lines = [tag("line", class_="grid", x1=across(t), x2=across(t), y1=8, y2=bottom) for t in across.ticks(6)]
    lines += [tag("line", class_="grid", x1=LEFT, x2=WIDTH - 8.0, y1=up(t), y2=up(t)) for t in up.ticks(5)]
    lines += [tag("text", number(t), class_="tick", x=across(t), y=bottom + 14.0) for t in across.ticks(6)]
    lines += [tag("text", number(t), class_="label", x=LEFT - 6.0, y=up(t) + 4.0) for t in up.ticks(5)]
    lines.append(tag("text", names[0], class_="tick name", x=(LEFT + WIDTH) / 2, y=bottom + 32.0))
    lines.append(tag("text", names[1], class_="tick name", transform=f"translate(11 {bottom / 2:.0f}) rotate(-90)"))
    return lines


def density(model: Model, posterior: Posterior, means: Array, spreads: Array, name: str) -> Markup:
    """The predictive density, and a mark for each component's mean."""
    line = np.linspace((means - 4 * spreads).min(), (means + 4 * spreads).max(), 400)
    height = np.exp(model.log_predictive(posterior, line))
    kept = np.flatnonzero(height > DRAWN * height.max())
    line, height = (values[kept[0] : kept[-1] + 1] for values in (line, height))
    across, up = Scale(line[0], line[-1], LEFT, WIDTH - 8.0), Scale(0.0, 1.1 * height.max(), HEIGHT / 2, 8.0)
    drawn = frame(across, up, (name, "density"))
    drawn.append(polyline(np.array([[across(x), up(y)] for x, y in zip(line, height, strict=True)]), class_="curve"))
    for label, mean in enumerate(means):
        at = across(mean)
        drawn.append(tag("line", class_=f"stem c{label % COLOURS}", x1=at, x2=at, y1=up.start, y2=up.start - 14.0))
        drawn.append(tag("text", label, class_="mark", x=at, y=up.start - 18.0))
    title = f"Predictive density of {name}, and the means of {len(means)} components"
    return figure(svg(drawn, WIDTH, HEIGHT / 2 + 40.0, title), f"{title}.")


def panels(labels: Sequence[str], means: Array, spreads: Array, names: tuple[str, ...]) -> Markup:
    """One small drawing per column: each component's mean and one standard deviation of its observations."""
    apart = means.std(axis=0) / np.maximum(spreads.mean(axis=0), 1e-300)
    shown = sorted(np.argsort(-apart, kind="stable")[:MOST_PANELS].tolist())
    few = range(min(len(means), MOST_COMPONENTS))
    drawings = [
        panel(names[each], [deviation(labels[k], means[k, each], spreads[k, each]) for k in few]) for each in shown
    ]
    notes = ["Mean and one standard deviation of each component's observations."]
    if len(shown) < len(names):
        notes.append(f" The {len(shown)} columns in which components differ most, of {len(names)}.")
    if len(few) < len(means):
        notes.append(f" The first {len(few)} of {len(means)} components.")
    return figure(tag("div", drawings, class_="panels"), *notes)


def deviation(label: str, mean: float, spread: float) -> Interval:
    return Interval(label, float(mean), float(mean - spread), float(mean + spread))


def panel(name: str, rows: list[Interval]) -> Markup:
    return tag("div", tag("h3", name), intervals(rows, name=name), class_="panel")


def figure(drawing: Markup, *caption: str) -> Markup:
    return tag("figure", scrolling(drawing, "drawing"), tag("figcaption", caption))
