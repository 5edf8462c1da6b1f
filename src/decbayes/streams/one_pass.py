"""Sequential variational approximation of a Dirichlet process mixture (Lin, NIPS 2013): one pass over a stream."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, xlogy

from decbayes.base.arguments import Seed, check_positive, generator
from decbayes.families import Array
from decbayes.models.core.points import as_points, check_structure
from decbayes.models.likelihoods.emissions import Natural, plus
from decbayes.models.mixtures.mixture import Mixture
from decbayes.models.mixtures.moves import evidence, join_gains, joined, prior_of, without
from decbayes.posterior import Posterior

# The first points, and later points without a component, are fitted together in groups of this size, because single
# points do not reveal a component's shape.
FIRST, ENOUGH = 1000, 10

# Other points are processed in blocks of at most this size, and at most this share of the points before them.
LARGEST_BLOCK, BLOCK_SHARE = 1024, 1 / 16

# Two components share a point if both have at least this share of it.
SHARED = 1e-6

# A component of fewer points than this is small.
SMALL = 10.0


def sequential(
    model: Mixture, chunks: Iterable[Any], *, rng: Seed, concentration: float = 1.0, start: Posterior | None = None
) -> Iterator[Posterior]:
    """One pass over a stream of points, in bounded memory: yields the posterior of all points so far after each chunk.

    The first thousand points are fitted together. From then on a point starts a new component if, under a Dirichlet
    process of this concentration, this is more probable than all existing components:

        concentration · p(x | prior) > Σ_k n_k p(x | q_k)

    Otherwise it is divided among them. Points for new components are fitted together at the end of their chunk. Two
    components are joined when that raises the bound; one with fewer than ten points that gains none while the stream
    doubles is dropped.

    Args:
        model: a mixture with `components="auto"`.
        concentration: how readily points start new components.
        start: a posterior to continue from, such as the last one of an interrupted stream.

    >>> model = db.GaussianMixture("auto", 1, variance=1.0, prior_variance=100.0, ascent=db.Ascent(30))
    >>> rng = np.random.default_rng(0)
    >>> chunks = [rng.choice([-9.0, 9.0], size=(20, 1)) + rng.normal(size=(20, 1)) for _ in range(3)]
    >>> [len(posterior.mean("components")) for posterior in db.streams.sequential(model, chunks, rng=rng)]
    [2, 2, 2]
    """
    random = generator(rng)
    check_positive(concentration=concentration)
    if not isinstance(model, Mixture) or not model.auto:
        raise ValueError('sequential finds how many components there are; give it a mixture with components="auto".')
    model = model if start is None else model.for_posterior(start)
    first, stream = None, None if start is None else Stream(model, start, concentration, random)
    for chunk in chunks:
        model = model.for_data(chunk)
        first = FirstPoints(model, random) if first is None else first
        points = as_points(chunk, model.dimension, columns=model.columns)
        if stream is None:
            points = first.add(points)
            stream = Stream(model, first.posterior, concentration, random) if len(first) == FIRST else None
        if stream is not None:
            stream.add(points)
        yield (stream or first).posterior


class FirstPoints:
    """The first points of a stream, fitted together; the number of components is searched again when they double."""

    def __init__(self, model: Mixture, rng: np.random.Generator) -> None:
        self._model, self._rng, self._points = model, rng, np.empty((0, model.dimension))
        self.posterior, self._next_search = Posterior.of_prior(model.structure), 0

    def __len__(self) -> int:
        return len(self._points)

    def add(self, points: Array) -> Array:
        """Fit these points as well; returns those beyond the limit."""
        room = FIRST - len(self)
        self._points = np.concatenate([self._points, points[:room]])
        search = len(self) >= min(self._next_search, FIRST)
        self._next_search = 2 * len(self) if search else self._next_search
        start = None if search else self.posterior
        self.posterior = self._model.fit(self._points, rng=self._rng, start=start).posterior
        return points[room:]


class Stream:
    """The state of a stream: natural parameters, and the overlap of each pair of components."""

    def __init__(self, model: Mixture, start: Posterior, concentration: float, rng: np.random.Generator) -> None:
        check_structure(start, model.structure_for(start), "start")
        self._model, self._structure, self._rng = model, model.structure, rng
        self._log_concentration = float(np.log(concentration))
        self._natural: Natural = dict(start.natural)
        self._waiting: list[Array] = []
        # The earlier overlap is unknown: join two components only when new points add a reason.
        self._shared = np.maximum(join_gains(self._structure, self._natural), 0.0)
        self._marked, self._doubling = self._evidence, 2.0 * self._evidence.sum()

    def add(self, points: Array) -> None:
        while len(points):
            size = int(np.clip(BLOCK_SHARE * self._evidence.sum(), 1, LARGEST_BLOCK))
            block, points = points[:size], points[size:]
            self._take(block)
        self._open()

    @property
    def posterior(self) -> Posterior:
        return Posterior.from_natural(self._structure.with_components(self._count), self._natural)

    @property
    def _count(self) -> int:
        return len(self._natural["weights"])

    @property
    def _evidence(self) -> Array:
        return evidence(self._structure, self._natural)

    def _take(self, points: Array) -> None:
        """Divide points among the existing components; those that fit none wait."""
        new, responsibilities = self._compare(points)
        self._waiting.extend(points[new])
        self._share(points[~new], responsibilities[~new])
        if len(self._waiting) >= ENOUGH:
            self._open()
        self._join()
        self._forget()

    def _compare(self, points: Array) -> tuple[NDArray[np.bool_], Array]:
        """Whether each point starts a new component, and its shares of the existing ones."""
        likelihood, nothing = self._model.likelihood, prior_of(self._structure, 1)["components"]
        alone = self._log_concentration + likelihood.log_predictive(nothing, points)[:, 0]
        scores = np.log(np.maximum(self._evidence, SHARED)) + likelihood.log_predictive(
            self._natural["components"], points
        )
        total = logsumexp(scores, axis=1)
        return alone > total, np.exp(scores - total[:, None])

    def _share(self, points: Array, responsibilities: Array) -> None:
        sums = responsibilities.T @ self._model.likelihood.features(points)
        self._natural = plus(self._model.emissions, self._natural, sums)
        touched = (responsibilities > SHARED).astype(np.float64)
        for first, second in np.argwhere(np.triu(touched.T @ touched, 1)):
            self._shared[first, second] += mixed(responsibilities[:, first], responsibilities[:, second])
            self._shared[second, first] = self._shared[first, second]

    def _open(self) -> None:
        """Fit new components to the waiting points."""
        if not self._waiting:
            return
        opened_natural = self._model.fit(np.array(self._waiting), rng=self._rng).posterior.natural
        opened = len(opened_natural["weights"])
        self._natural = {name: np.concatenate([rows, opened_natural[name]]) for name, rows in self._natural.items()}
        self._shared = np.pad(self._shared, (0, opened))
        self._marked = np.append(self._marked, np.full(opened, -np.inf))
        self._waiting = []
        self._join()

    def _join(self) -> None:
        """Join components while the bound gains more than the uncertainty about the points that two share."""
        while self._count > 1:
            gains = join_gains(self._structure, self._natural) - self._shared
            np.fill_diagonal(gains, -np.inf)
            first, second = sorted(map(int, np.unravel_index(np.argmax(gains), gains.shape)))
            if gains[first, second] <= 0.0:
                return
            self._natural = joined(self._structure, self._natural, first, second)
            # The overlap of a joined pair with a third is at most the sum of their overlaps.
            self._shared[first] += self._shared[second]
            self._shared[:, first] = self._shared[first]
            self._marked[first] += self._marked[second]
            self._drop(second)

    def _forget(self) -> None:
        """When the stream has doubled, drop small components that have gained nothing since."""
        if self._evidence.sum() < self._doubling:
            return
        idle = (self._evidence < SMALL) & (self._evidence - self._marked < 1.0)
        for component in np.flatnonzero(idle)[::-1][: self._count - 1]:
            self._natural = without(self._natural, int(component))
            self._drop(int(component))
        self._marked, self._doubling = self._evidence, 2.0 * self._evidence.sum()

    def _drop(self, component: int) -> None:
        self._shared = np.delete(np.delete(self._shared, component, axis=0), component, axis=1)
        self._marked = np.delete(self._marked, component)


def mixed(first: Array, second: Array) -> float:
    """The uncertainty about which of two components owns their shared points; it vanishes when they are joined."""
    both = first + second
    return float(np.sum(xlogy(both, both) - xlogy(first, first) - xlogy(second, second)))
