"""Priors that outweigh the data: columns far from the prior mean, or with a far smaller spread than the prior scale."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decbayes.errors import printable
from decbayes.families import Array, Family, dense
from decbayes.models.core.points import LONGEST_NAME
from decbayes.models.mixtures.column_remarks import LEAST_ROWS
from decbayes.posterior import Posterior
from decbayes.remarks import Remark, listed

# A prior adds to the scatter of each cluster. It outweighs a column if it adds TIMES as much as to one of mean 0 and
# spread 1, and distances from its mean add FAR of the scatter within clusters, or its scale adds WIDE of it.
TIMES, FAR, WIDE = 5.0, 0.1, 0.5
# The variance within clusters that the advice expects, as a share of that of all data. With more columns it lists none.
WITHIN = 1.0 / 3.0
MOST_VALUES = 12
KIND = "prior outweighs data"
# Times smaller prior scales to compare with, and nats per observation that one of them must gain. Clusters that shrink
# onto one value gain as much from any scale if a larger share of a column than LUMP has it.
SMALLER, GAINED, LUMP = (3.0, 10.0, 30.0, 100.0, 300.0, 1000.0), 0.3, 0.08
AGREED = "First check their units here: the prior that was agreed on expects others."


def of_points(
    posterior: Posterior, points: Array, names: Sequence[str], degrees: float, *, pooled: bool
) -> tuple[Remark, ...]:
    """A remark on the columns of a mixture in which the prior outweighs the data; `pooled` variances are one number.

    It leaves the site: the values in its advice are so rough that they tell nothing about single rows.
    """
    natural = posterior.natural["components"][dense(posterior.contribution["weights"])[:, 0] > 0.5]
    family, prior = posterior.structure.families["components"], posterior.structure.prior["components"]
    places = outweighed(family, prior, natural, points, degrees, pooled=pooled)
    if not len(places):
        return ()
    what = (
        f"The prior outweighs the data of {named(names, places)}: clusters may fuse, and their spreads are too large."
    )
    agreed = family.parameters(prior[:1])["mean"].any()
    expects = AGREED if agreed else "Unless given, it expects means near 0 and spreads near 1."
    return (Remark(KIND, what, f"{expects} {prior_to_give(*moments(points), pooled)}"),)


def of_scale(
    posterior: Posterior, prior_at: Callable[[float], Array], observations: int, scale: Any, points: Array
) -> tuple[Remark, ...]:
    """A remark if clusters are so narrow that a smaller prior `scale` would describe them much better.

    `prior_at(factor)` is the prior of a component with that scale times a factor. Given which observations are in which
    cluster, their probability is exp(A(λ0 + c) − A(λ0)), for any prior. Not if a column of `points` has lumps.
    """
    family, contribution = posterior.structure.families["components"], dense(posterior.contribution["components"])

    def height(factor: float) -> float:
        prior = np.repeat(prior_at(factor), len(contribution), axis=0)
        return float(family.log_partition(prior + contribution) - family.log_partition(prior))

    usual, (best, times) = height(1.0), max((height(1.0 / times), times) for times in SMALLER)
    if observations < LEAST_ROWS or best < usual + GAINED * observations or any(map(has_lumps, points.T)):
        return ()
    value = "" if np.ndim(scale) else f" ({scale / times:.1g})"
    advice = (
        f"At all sites, fit again with a --prior-scale (in Python prior_scale) about {times:g} times smaller{value}."
    )
    what = "Clusters are much narrower than the prior expects: fitted ones are too wide, and may fuse."
    return (Remark("wide prior", what, advice, f"That gains over {GAINED:g} nats per observation here."),)


def has_lumps(values: Array) -> bool:
    return bool(np.unique(values, return_counts=True)[1].max() > LUMP * len(values))


def named(names: Sequence[str], places: NDArray[np.intp]) -> str:
    return listed([printable(names[place])[:LONGEST_NAME] for place in places])


def outweighed(
    family: Family, prior: Array, natural: Array, points: Array, degrees: float, *, pooled: bool = False
) -> NDArray[np.intp]:
    """The columns in which the prior adds too much to the scatter, by what it adds to that of fitted clusters."""
    if not len(natural):
        return np.empty(0, dtype=np.intp)
    before, fitted = family.parameters(prior[:1]), family.parameters(natural)
    centre, variance = moments(points)
    strength = column(before["strength"])
    counts = np.maximum(column(fitted["strength"]) - strength, 0.5)
    distance = strength * (1.0 + strength / counts) * (fitted["mean"] - before["mean"]) ** 2
    width = np.broadcast_to(scatter(before, pooled), distance.shape)
    usual = strength[0] * ((centre - before["mean"][0]) ** 2 + variance)
    if pooled:
        distance, usual, variance = (
            np.broadcast_to(part.mean(-1, keepdims=True), part.shape) for part in (distance, usual, variance)
        )
    far, wide = distance.sum(axis=0), width.sum(axis=0)
    within = scatter(fitted, pooled).sum(axis=0) - far - wide
    much = usual + scatter(before, pooled)[0] > TIMES * degrees * variance
    enough = (variance > 0.0) & (len(points) >= LEAST_ROWS)
    return np.flatnonzero(enough & much & ((far > FAR * within) | (wide > WIDE * within)))


def moments(points: Array) -> tuple[Array, Array]:
    """The mean and variance of each column over known values."""
    known = ~np.isnan(points)
    count = np.maximum(known.sum(axis=0), 1)
    mean = np.where(known, points, 0.0).sum(axis=0) / count
    return mean, np.where(known, (points - mean) ** 2, 0.0).sum(axis=0) / count


def scatter(parameters: Any, pooled: bool) -> Array:
    """(K, D): sums of squares around the mean, per column; `pooled` ones are the columns' average."""
    if "inverse_scale" in parameters:
        return np.asarray(np.diagonal(parameters["inverse_scale"], axis1=-2, axis2=-1))
    total = 2.0 * column(parameters["rate"])
    return total / parameters["mean"].shape[1] if pooled else total


def column(values: Any) -> Array:
    """One number per component, or one per column as well, as a matrix."""
    return np.asarray(values, dtype=np.float64).reshape(len(values), -1)


def prior_to_give(centre: Array, variance: Array, pooled: bool) -> str:
    """What to type: means to the next power of ten above the spread, and a third of the variances, to one digit.

    Clusters are narrower than all data; how much narrower is not known before they are found.
    """
    if len(centre) > MOST_VALUES:
        return (
            "At all sites, subtract the same rough mean, divide by the same rough spread, and fit again with "
            f"--prior-scale={WITHIN:.1g}."
        )
    scale = np.where(variance > 0.0, np.mean(variance) if pooled else variance, 1.0)
    unit = 10.0 ** np.ceil(0.5 * np.log10(scale))
    means = [f"{value:.15g}" for value in np.round(centre / unit) * unit + 0.0]
    variances = [f"{float(f'{value:.1g}'):.15g}" for value in WITHIN * (scale[:1] if pooled else scale)]
    return (
        "Fit again, at all sites with the same rough mean of each column and a third of its variance: "
        f"--prior-mean={','.join(means)} --prior-scale={','.join(variances)} "
        f"(in Python prior_mean={in_python(means)}, prior_scale={in_python(variances)})."
    )


def in_python(values: Sequence[str]) -> str:
    return values[0] if len(values) == 1 else f"[{', '.join(values)}]"
