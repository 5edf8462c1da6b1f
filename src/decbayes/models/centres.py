"""First centres, chosen among the points, and which points are nearest to each."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from decbayes.families import Array
from decbayes.models.likelihoods import squared_distances


def scaled(places: Callable[[Array], Array], points: Array) -> Callable[[Array], Array]:
    """The same places where all directions count alike, whatever their units; learned from some of the points."""
    spread = places(points).std(axis=0)
    if not spread.any():
        return places
    return lambda some: np.asarray(places(some)[:, spread > 0] / spread[spread > 0])


def nearest_centres(places: Array, count: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """The nearest of so many spread-out centres, for each place."""
    return nearest(places, spread_out_centres(places, count, rng))


def nearest(places: Array, centres: Array) -> NDArray[np.intp]:
    return np.asarray(np.argmin(squared_distances(places, centres), axis=1))


def summed(features: Array, labels: NDArray[np.intp], count: int) -> Array:
    """(count, p): the sums of the features with each label."""
    return np.stack([features[labels == label].sum(axis=0) for label in range(count)])


def spread_out_centres(points: Array, count: int, rng: np.random.Generator) -> Array:
    """Centres chosen among the points, each with probability proportional to its squared distance (k-means++)."""
    chosen = [int(rng.integers(len(points)))]
    distance = squared_distances(points, points[chosen])[:, 0]
    while len(chosen) < min(count, len(points)) and distance.sum() > 0:
        chosen.append(int(rng.choice(len(points), p=distance / distance.sum())))
        distance = np.minimum(distance, squared_distances(points, points[chosen[-1:]])[:, 0])
    return points[chosen]
