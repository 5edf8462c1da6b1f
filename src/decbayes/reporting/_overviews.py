"""All components in one drawing: points in space, columns of a table, coefficients of every site."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from decbayes.families import Array
from decbayes.reporting._forests import forests
from decbayes.reporting.diagrams import transition_diagram
from decbayes.reporting.drawing import COLOURS, Line, Scale, intervals, polyline, spanning, svg
from decbayes.reporting.markup import Markup, concat, figure, left_out, table, tag
from decbayes.reporting.topic_map import topic_map
from decbayes.views import Entries, Findings, Interval, Matrix, Point, Profile, Shares, Words
from decbayes.views.class_view import by_weight, most_different
from decbayes.views.participants import About
from decbayes.views.point_view import ellipse
from decbayes.views.values import Part, column_value, number, plural
from decbayes.views.view import LEVEL

WIDTH, HEIGHT, LEFT = 640.0, 380.0, 46.0
TAIL = 1e-3  # of the highest density; lower values are not drawn
MOST_COLUMNS, MOST_COMPONENTS, MOST_CATEGORIES = 24, 40, 8
MOST_DIMENSIONS = 12
MOST_PARAMETERS, MOST_SITES = 100, 20
NOTHING = About()


def overview(findings: Findings, parts: Sequence[Part], about: About = NOTHING) -> Markup | None:
    """The merge in one drawing, if there is one for such components; otherwise parameters as numbers."""
    view, merged = findings.view, findings.merged
    if estimates := view.estimates(merged):
        return forests(findings, estimates, about)
    if not findings.sets or not parts:
        return parameters(findings, about)
    shown = {slot: parts[slot] for slot in findings.visible if slot < len(parts)}
    points = {slot: part for slot, part in shown.items() if isinstance(part, Point)}
    profiled = {slot: part for slot, part in profiles(findings, parts).items() if slot in shown}
    drawn = space(findings, points, about) if points else columns(findings, profiled, about) if profiled else None
    if any(isinstance(part, Words) for part in shown.values()):
        drawn = topic_map(findings)
    matrix = view.matrix(merged)
    return concat([drawn, transitions(findings, matrix)]) if matrix is not None else drawn


def profiles(findings: Findings, parts: Sequence[Part]) -> dict[int, Profile]:
    """Components column by column, if nothing else draws them."""
    drawn = {slot: part for slot, part in enumerate(parts) if isinstance(part, Profile)}
    plain = all(isinstance(part, Entries) for part in parts)
    return drawn or (dict(enumerate(findings.view.profiles(findings.merged))) if plain else {})


# Points in space


class Cluster(NamedTuple):
    label: int
    weight: float
    mean: Array
    covariance: Array


def space(findings: Findings, parts: dict[int, Point], about: About) -> Markup:
    """Ellipses in two dimensions, the density in one, an interval per column in more."""
    clusters = [Cluster(slot, part.weight, part.mean, part.covariance) for slot, part in parts.items()]
    names = [about.with_unit(name) for name in next(iter(parts.values())).names]
    # A density shows all components, so if some are hidden, the others are drawn one by one.
    if len(names) == 1 and not findings.hidden(findings.sets[0]).any():
        return density(findings, clusters, names[0])
    if len(names) == 2:
        return ellipses(findings, clusters, names, site_clusters(findings))
    return deviations(findings, clusters, names)


def site_clusters(findings: Findings) -> list[Cluster]:
    """The components of all sites with enough observations, with the slots that they are in."""
    if not 1 < len(findings.sites) <= MOST_SITES:
        return []
    clusters, coupled = [], findings.sets[0]
    for site in findings.sites:
        posterior = findings.alignment.posteriors[site]
        slots = findings.alignment.assignments[site][coupled]
        for part, slot in zip(findings.view.parts(posterior), slots.tolist(), strict=True):
            if isinstance(part, Point) and part.weight * findings.sizes[0][site] >= findings.least:
                clusters.append(Cluster(slot, part.weight, part.mean, part.covariance))
    return clusters


def ellipses(findings: Findings, clusters: Sequence[Cluster], names: Sequence[str], sites: Sequence[Cluster]) -> Markup:
    """Each component's mean and two standard deviations; thicker lines are more frequent, thin ones are sites'."""
    outlines = [ellipse(cluster.mean, cluster.covariance) for cluster in clusters]
    alone = [ellipse(cluster.mean, cluster.covariance) for cluster in sites]
    corners = np.concatenate([*outlines, *alone])
    across, up = spanning(corners[:, 0], LEFT, WIDTH - 8.0), spanning(corners[:, 1], HEIGHT - 40.0, 8.0)
    drawn = frame(across, up, names)

    def draw_outline(outline: Array, look: str, width: float) -> Markup:
        # Forty of the hundred points of an outline look smooth.
        places = np.array([[across(x), up(y)] for x, y in outline[np.linspace(0, len(outline) - 1, 40).astype(int)]])
        return polyline(places, class_=look, stroke_width=f"{width:.1f}")

    for cluster, outline in zip(sites, alone, strict=True):
        drawn.append(draw_outline(outline, f"outline alone c{cluster.label % COLOURS}", 1.0))
    for cluster, outline in zip(clusters, outlines, strict=True):
        drawn.append(draw_outline(outline, f"outline c{cluster.label % COLOURS}", 1.5 + 4.0 * cluster.weight))
        x, y = cluster.mean
        drawn.append(tag("text", cluster.label, class_="mark", x=across(x), y=up(y) + 4.0))
    name = f"{findings.nouns(len(clusters))}: two standard deviations around each mean"
    thin = f" Thin lines: each site{' in the last round' if findings.alignment.refined else ' alone'}." if sites else ""
    return figure(
        tag("div", svg(drawn, WIDTH, HEIGHT, name), class_="map"), f"{name}. Thicker lines: more frequent.{thin}"
    )


def frame(across: Scale, up: Scale, names: Sequence[str]) -> list[Markup]:
    """Two axes with a few round numbers and their names."""
    bottom = up.start
    lines = [tag("line", class_="grid", x1=across(t), x2=across(t), y1=8, y2=bottom) for t in across.ticks(6)]
    lines += [tag("line", class_="grid", x1=LEFT, x2=WIDTH - 8.0, y1=up(t), y2=up(t)) for t in up.ticks(5)]
    lines += [tag("text", number(t), class_="tick", x=across(t), y=bottom + 14.0) for t in across.ticks(6)]
    lines += [tag("text", number(t), class_="label", x=LEFT - 6.0, y=up(t) + 4.0) for t in up.ticks(5)]
    lines.append(tag("text", names[0], class_="tick name", x=(LEFT + WIDTH) / 2, y=bottom + 32.0))
    lines.append(tag("text", names[1], class_="tick name", transform=f"translate(11 {bottom / 2:.0f}) rotate(-90)"))
    return lines


def density(findings: Findings, clusters: Sequence[Cluster], name: str) -> Markup:
    """The predictive density, with a mark at each component's mean."""
    ends = [cluster.mean[0] + side * np.sqrt(cluster.covariance[0, 0]) for cluster in clusters for side in (-4, 4)]
    line = np.linspace(min(ends), max(ends), 400)
    height = findings.view.density(findings.merged, line)
    kept = np.flatnonzero(height > TAIL * height.max())
    line, height = (values[kept[0] : kept[-1] + 1] for values in (line, height))
    across, up = Scale(line[0], line[-1], LEFT, WIDTH - 8.0), Scale(0.0, 1.1 * height.max(), HEIGHT / 2, 8.0)
    drawn = frame(across, up, (name, "density"))
    drawn.append(polyline(np.array([[across(x), up(y)] for x, y in zip(line, height, strict=True)]), class_="curve"))
    for cluster in clusters:
        at, look = across(cluster.mean[0]), f"stem c{cluster.label % COLOURS}"
        drawn.append(tag("line", class_=look, x1=at, x2=at, y1=up.start, y2=up.start - 14.0))
        drawn.append(tag("text", cluster.label, class_="mark", x=at, y=up.start - 18.0))
    title = f"Predictive density of {name}, and the means of {findings.nouns(len(clusters))}"
    return figure(tag("div", svg(drawn, WIDTH, HEIGHT / 2 + 40.0, title), class_="map"), f"{title}.")


def deviations(findings: Findings, clusters: Sequence[Cluster], names: Sequence[str]) -> Markup:
    """One small drawing per column: each component's mean and one standard deviation of its observations."""
    means = np.array([cluster.mean for cluster in clusters])
    spreads = np.sqrt([np.diagonal(cluster.covariance) for cluster in clusters])
    distinctness = means.std(axis=0) / np.maximum(spreads.mean(axis=0), 1e-300)
    chosen = sorted(np.argsort(-distinctness, kind="stable")[:MOST_DIMENSIONS].tolist())
    lows, highs, few = means - spreads, means + spreads, range(min(len(means), MOST_COMPONENTS))

    def lines(column: int) -> list[Line]:
        values = [Interval(*(float(ends[k, column]) for ends in (means, lows, highs))) for k in few]
        return [Line(str(clusters[k].label), value) for k, value in zip(few, values, strict=True)]

    drawings = [panel(names[column], intervals(lines(column), name=names[column])) for column in chosen]
    noun = findings.view.noun
    notes = [f"Mean and one standard deviation of each {noun}'s observations."]
    if len(chosen) < len(names):
        notes.append(f" The {len(chosen)} columns in which {plural(noun, 2)} differ most, of {len(names)}.")
    if len(few) < len(means):
        notes.append(f" The first {len(few)} of {findings.nouns(len(means))}.")
    return figure(tag("div", drawings, class_="panels"), *notes)


def panel(name: str, drawing: Markup, look: str = "panel") -> Markup:
    return tag("div", tag("h3", name), drawing, class_=look)


# Columns of a table


def columns(findings: Findings, parts: dict[int, Profile], about: About) -> Markup:
    """Each component's mean in each column with an interval, or the shares of categories."""
    order = by_weight(parts)[:MOST_COMPONENTS]
    chosen = most_different([*parts.values()], MOST_COLUMNS)
    drawings = [panel(about.with_unit(name), column(name, parts, order)) for name in chosen]
    left, several = len(parts[order[0]].columns) - len(chosen), plural(findings.view.noun, 2)
    ordered = any(part.weight is not None for part in parts.values())
    frequent = f", the most frequent {findings.view.noun} first" if ordered else ""
    notes = [
        f"One row per {findings.view.noun}{frequent}: its mean with a {LEVEL:.0%} interval, or shares of categories.",
        *([f"Intervals are too narrow where {several} overlap."] * (findings.merged.calibration is None)),
        *([f"The {len(chosen)} columns in which {several} differ most; {left} are left out."] * (left > 0)),
        *([f"The {len(order)} most frequent of {findings.nouns(len(parts))}."] * (len(parts) > len(order))),
    ]
    return figure(tag("div", drawings, class_="panels"), " ".join(notes))


def column(name: str, parts: dict[int, Profile], order: Sequence[int]) -> Markup:
    values = {slot: parts[slot].columns[name] for slot in order}
    shares = {slot: value.of for slot, value in values.items() if isinstance(value, Shares)}
    means = {slot: value for slot, value in values.items() if isinstance(value, Interval)}
    if shares:
        return stacks(shares)
    yes = all(value.unit == "probability" for value in means.values())
    lines = [Line(str(slot), value.times(100.0) if yes else value) for slot, value in means.items()]
    return intervals(lines, name=name, axis="yes, in percent" if yes else "mean")


def stacks(shares: Mapping[int, Mapping[str, Interval]]) -> Markup:
    """One bar per component, divided among the most frequent categories, and a legend."""
    categories = [*next(iter(shares.values()))]
    frequent = sorted(categories, key=lambda name: -sum(of[name].mean for of in shares.values()))[:MOST_CATEGORIES]
    kept = [category for category in categories if category in set(frequent)]
    bars = [
        tag("div", tag("span", k, class_="no"), tag("span", segments(of, kept), class_="stack"), class_="share")
        for k, of in shares.items()
    ]
    keys = [tag("span", tag("i", class_=f"key b{place % COLOURS}"), name) for place, name in enumerate(kept)]
    rarer = len(categories) - len(kept)
    more = tag("span", f"and {rarer} rarer ones, left blank") if rarer else None
    return concat([bars, tag("p", keys, more, class_="legend")])


def segments(shares: Mapping[str, Interval], categories: Sequence[str]) -> list[Markup]:
    return [
        tag(
            "i",
            class_=f"b{place % COLOURS}",
            style=f"width:{100 * shares[category].mean:.1f}%",
            title=f"{category} {shares[category].mean:.0%}",
        )
        for place, category in enumerate(categories)
    ]


def transitions(findings: Findings, matrix: Matrix) -> Markup | None:
    """A table of probabilities from each component to each other, and a diagram if there are few."""
    numbers = range(len(matrix.values))
    if len(numbers) > MOST_COMPONENTS:
        return None
    head = tag("tr", tag("th", matrix.corner, scope="col"), [tag("th", k, scope="col") for k in numbers])
    body = [tag("tr", tag("th", k, scope="row"), map(move, row)) for k, row in enumerate(matrix.values)]
    table = figure(tag("table", tag("thead", head), tag("tbody", body), class_="matrix"), matrix.caption)
    drawing = transition_diagram(matrix.values, findings.titles(findings.sets[0]))
    text = "Circles: states, with the average length of a visit. Arrows: where visits go when they end (5% or more)."
    return concat([figure(drawing, text) if drawing else None, table])


def move(probability: float) -> Markup:
    return tag("td", f"{probability:.0%}" if probability >= 0.005 else "", class_=f"s{min(int(10 * probability), 9)}")


# Other parameters


def parameters(findings: Findings, about: About) -> Markup:
    """The first parameters of any posterior as numbers: mean, deviation and interval."""
    sets, alone = findings.sets, findings.view.profiles(findings.merged)
    if not sets and len(alone) == 1:
        values = [(about.with_unit(name), column_value(value)[1]) for name, value in alone[0].columns.items()]
        return table(("column", f"mean ({LEVEL:.0%} interval)"), values, right=(1,))
    hidden = {
        (name, k) for coupled in sets for name in coupled.factors for k in np.flatnonzero(findings.hidden(coupled))
    }
    summary = findings.merged.summary(top=10, level=LEVEL)
    shown = [row for row in summary if (row["factor"], row["component"]) not in hidden]
    rows = [
        (
            *(row["factor"], row["component"], row["entry"] or "–"),
            *map(number, (row["mean"], row["deviation"])),
            f"{number(row['lower'])} to {number(row['upper'])}",
        )
        for row in shown[:MOST_PARAMETERS]
    ]
    head = ("factor", "component", "entry", "mean", "standard deviation", f"{LEVEL:.0%} interval")
    return concat([table(head, rows, right=(3, 4, 5)), left_out(len(shown) - len(rows), "parameter")])
