"""The engine of all mixtures: each observation belongs to one of K components."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax

from decbayes.base.arguments import Above, Seed, check_positive, generator, real_array
from decbayes.errors import InvalidData
from decbayes.families import Array, Weights, dense
from decbayes.models.core.ascent import (
    Ascent,
    Fit,
    Keep,
    OnPass,
    Watch,
    as_arrays,
    fit_best,
    fit_of,
    on_top,
    progress_within,
)
from decbayes.models.core.component_search import check_number, known_number
from decbayes.models.core.dimensions import completed
from decbayes.models.core.information import Tally, mixture_information
from decbayes.models.core.model import Model, Row
from decbayes.models.core.points import (
    Points,
    check_fit,
    check_held,
    check_structure,
    in_blocks,
    of_own_posterior,
    open_points,
)
from decbayes.models.core.settings import LOCAL, Width, number_of
from decbayes.models.likelihoods.discrete import draw_categories
from decbayes.models.likelihoods.emissions import Emissions, Natural, Reference, coefficients, plus
from decbayes.models.likelihoods.gaps import observed_somewhere
from decbayes.models.likelihoods.likelihood import nearest, spread_out_centres, summed
from decbayes.models.likelihoods.point_pass import MOST_CANDIDATES, PointBlocks
from decbayes.models.likelihoods.starts import MOST_ROWS, ROWS_PER_GROUP, Start, groups_of_rows, kinds_of_starts
from decbayes.models.mixtures.consensus import FEWEST_ROWS, fit_pieces
from decbayes.models.mixtures.empirical_prior import are_rows_few, find_components
from decbayes.models.mixtures.moves import MixtureMoves
from decbayes.posterior import Posterior
from decbayes.remarks import Remark
from decbayes.structure import CoupledSet, Structure

if TYPE_CHECKING:
    from decbayes.privacy.mechanism import Mechanism

WIDTH = "Number of clusters; 'auto' to find it; 'wide' for small pieces of clusters that a merge puts together."
PIECES = Remark(
    "wide",
    "These are pieces of components, made for a merge.",
    'Fit "wide" at all small sites, and merge with components="auto". For this site alone, fit "auto".',
    severity="note",
)
HIDDEN = Remark(
    "one component",
    "One component was found, but there may be more: these are too few rows to tell.",
    'To merge with other sites, fit "wide" at all of them, and merge with components="auto".',
    severity="note",
)


@dataclass(frozen=True)
class Clusters(Model):
    """x ~ Σ_k π_k p(x | θ_k), with a Dirichlet prior on π and conjugate priors on each θ_k.

    A subclass defines what components emit and how data become a matrix of numbers.

    A fit starts from the nearest of centres chosen by "k-means++". With few points per component, the first start uses
    the groups of a "tree" that joins points, and every other one "random" responsibilities; the best bound wins. With
    very few, the tree is the only start: the bound would prefer to join what merges can still tell apart.

    With `components="auto"` a fit finds the number of components by splits, joins and deletions that raise its bound.
    Predictions accept posteriors of any number.

    With "wide" a small site describes its data by more and smaller components than it could tell apart: pieces on which
    several fits agree. `merge(components="auto")` combines those of all sites.
    """

    components: Annotated[Width, WIDTH, Above(0)]
    _: KW_ONLY
    weight_prior: Annotated[float, "Dirichlet prior α of the cluster weights.", Above(0)] = 1.0
    start_from: Annotated[Start | None, "How a fit starts; default: depends on the number of points."] = field(
        default=None, metadata=LOCAL
    )
    ascent: Ascent = field(default=Ascent(restarts=9))

    points_per_centre: ClassVar[int] = 10
    """With fewer points per component, starts are of all kinds."""

    number: ClassVar[str] = "components"
    caption: ClassVar[str] = "mean"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("wide", components=self.components)
        check_positive(weight_prior=self.weight_prior)
        if self.start_from not in (None, *get_args(Start)):
            raise ValueError(f"start_from is 'tree', 'k-means++' or 'random', not {self.start_from!r}.")

    @property
    @abstractmethod
    def emissions(self) -> Emissions:
        """The likelihood of observations given a component, and the prior of its parameters."""

    @abstractmethod
    def points(self, data: Any, *, unseen: bool = False) -> Array:
        """Observations as a matrix of numbers; NaN is a missing value, if the model or `unseen` allows any."""

    def constants(self) -> Mapping[str, Any]:
        """What sites must agree on besides the prior, such as known variances."""
        return {}

    def described(self) -> Structure:
        emissions = self.emissions
        weights = Weights().natural(alpha=np.full(self._count, self.weight_prior))
        return Structure(
            families={"weights": Weights(), **emissions.families},
            prior={"weights": weights, **emissions.prior(self._count)},
            symmetry=(CoupledSet(("weights", *emissions.families)),),
            labels=emissions.labels,
            model={"name": type(self).__name__, **self.constants()},
        )

    @classmethod
    def settings_of(cls, structure: Structure) -> dict[str, Any]:
        prior = structure.prior["weights"]
        weight = float(Weights().parameters(prior)["alpha"][0])
        return {**super().settings_of(structure), "components": len(prior), "weight_prior": weight}

    @on_top
    @completed
    def fit(
        self,
        data: Any,
        *,
        rng: Seed | None = None,
        prior: Posterior | None = None,
        start: Posterior | None = None,
        progress: OnPass | None = None,
    ) -> Fit:
        """Fit the data, on top of `prior` and starting from `start` if given.

        If the number of components is "auto", a prior or start of another number determines it.
        """
        if (known := known_number(self, prior, start)) is not None:
            return self.sized(known).fit(data, rng=rng, prior=prior, start=start, progress=progress)
        random = check_fit(self.structure, rng, prior, start)
        before = dict((prior or Posterior.of_prior(self.structure)).natural)
        blocks = PointBlocks(self.emissions, self._open(data))
        if not len(blocks):
            return Fit(Posterior.from_natural(self.structure, before), (0.0,), True)
        if self.auto:
            fit = self._fit_any_number(blocks, generator(random), progress)
        else:
            fit = self._fit_number(blocks, before, random, start, progress, alone=prior is None)
        return fit if prior is not None else with_remarks(fit, *self._doubts(fit.posterior, blocks))

    def _doubts(self, posterior: Posterior, blocks: PointBlocks) -> tuple[Remark, ...]:
        """Remarks on a posterior that was fitted on top of the model's own prior, and on its data."""
        return ()

    def _fit_any_number(self, blocks: PointBlocks, rng: np.random.Generator, progress: OnPass | None) -> Fit:
        moves = MixtureMoves(self, blocks, rng)
        enough = moves.rows >= FEWEST_ROWS
        if self.components == "wide" and enough:
            return with_remarks(fit_of(fit_pieces(moves, self.ascent, progress), self._of_any_number), PIECES)
        fit = fit_of(find_components(moves, self.ascent, progress), self._of_any_number)
        hidden = enough and number_of(fit.posterior.structure) == 1 and are_rows_few(moves)
        return with_remarks(fit, HIDDEN) if hidden else fit

    def _fit_number(
        self,
        blocks: PointBlocks,
        before: Natural,
        random: np.random.Generator | None,
        start: Posterior | None,
        progress: OnPass | None,
        *,
        alone: bool,
    ) -> Fit:
        if start is None:
            kinds, rng = self._starts(len(blocks), alone), generator(random)
            ascent, turns = replace(self.ascent, restarts=len(kinds) - 1), iter(kinds)

            def begin() -> Natural:
                return self._begin(blocks, before, next(turns), rng)
        else:
            ascent, begin = Ascent(self.ascent.passes, self.ascent.tolerance), partial(dict, start.natural)
        watch = progress_within(progress, len(blocks))
        return fit_best(
            begin,
            partial(self._pass, blocks, Reference(self.structure.families, before), watch=watch),
            partial(Posterior.from_natural, self.structure),
            ascent=ascent,
            observations=len(blocks),
            progress=progress,
            keep=Keep(dict, as_arrays),
        )

    @completed
    def from_assignments(self, data: Any, assignments: Any) -> Posterior:
        """The posterior given each observation's component number, or shares as `assign` gives them.

        It turns any library's clusters into a posterior, exactly, because priors are conjugate.
        """
        points = self.points(data)
        shares = as_responsibilities(assignments, len(points), self._count)
        emissions = self.emissions.seeing(points)
        before = Posterior.of_prior(self.structure).natural
        return Posterior.from_natural(self.structure, plus(emissions, before, shares.T @ emissions.features(points)))

    @completed
    def assign(self, posterior: Posterior, data: Any) -> Array:
        """(N, K): the probability that each observation belongs to each component."""
        check_structure(posterior, self.structure_for(posterior), "posterior")
        blocks = []
        for points in in_blocks(self._open(data)):
            emissions = self.emissions.seeing(points)
            scores = emissions.features(points) @ coefficients(emissions, posterior.natural)
            blocks.append(np.asarray(softmax(scores, axis=1)))
        return np.concatenate(blocks)

    @completed
    def log_predictive(self, posterior: Posterior, data: Any, held: Any = None) -> Array:
        """log p(x | posterior) per observation, all parameters integrated out.

        With `held` it is that of the held-out values, given the others of the same observation. Both arrays then have
        the data's shape, with NaN where a value is not in that part.
        """
        check_structure(posterior, self.structure_for(posterior), "posterior")
        if held is None:
            return np.concatenate([self._log_density(posterior, block) for block in in_blocks(self._open(data))])
        points, hidden = (self.points(part, unseen=True) for part in (data, held))
        check_held(points, hidden)
        together = np.where(np.isnan(hidden), points, hidden)
        return self._log_density(posterior, together) - self._log_density(posterior, points)

    def mechanism(self) -> "Mechanism":
        from decbayes.models.mixtures.histogram import HistogramMechanism
        from decbayes.models.mixtures.private import ClassMechanism

        box = self.box()
        return ClassMechanism(self) if box is None else HistogramMechanism(self, *box)

    def box(self) -> tuple[Array, Array] | None:
        """The lowest and highest values of agreed columns, if all columns are numbers."""
        return None

    @completed
    def information(self, posterior: Posterior, data: Any) -> Array:
        check_structure(posterior, self.structure_for(posterior), "posterior")
        blocks = PointBlocks(self.emissions, self._open(data))
        slopes = coefficients(blocks.emissions, posterior.natural)
        statistics = columns_of(posterior.structure, blocks.emissions)
        return mixture_information(posterior.structure, blocks.features(), slopes, statistics)

    @completed
    def units(self, data: Any, held: Any = None) -> Array:
        """Observations whose values are all missing do not count."""
        if held is not None:
            return super().units(data, held)
        seen = [~np.isnan(points).all(axis=1) for points in in_blocks(self._open(data))]
        return np.concatenate([np.empty(0), *seen])

    def units_of_one(self, most: int) -> tuple[int, int]:
        return (0, 1) if self.emissions.may_miss else (1, 1)

    @of_own_posterior
    @completed
    def tally(self, posterior: Posterior) -> Tally:
        return self.emissions.tally(dense(posterior.contribution["weights"])[:, 0], posterior.contribution)

    def largest_contribution(self, value: float) -> Mapping[str, Array]:
        return self.emissions.largest_contribution(value)

    def log_likelihoods(self, parameters: Mapping[str, Any], data: Any) -> Iterator[Array]:
        """log Σ_k exp(t(x_n) · T(θ_k)) + h(x_n): priors are conjugate, so contributions determine the likelihood."""
        families, prior = self.structure.families, self.structure.prior
        statistics = statistics_of(self.structure, parameters)
        expected = np.concatenate([family.expected_statistics(prior[name])[0] for name, family in families.items()])
        for points in in_blocks(self._open(data)):
            emissions = self.emissions.seeing(points)
            features, added = emissions.features(points), columns_of(self.structure, emissions)
            # The part of E[log p] that does not depend on the component, beside t(x_n) · E[T(θ_k)].
            base = coefficients(emissions, prior)[:, 0] - added @ expected
            seen, constant = features @ added, features @ base
            yield np.stack([logsumexp(seen @ draw.T, axis=1) + constant for draw in statistics])

    def draw(
        self, parameters: Mapping[str, Any], size: int, rng: np.random.Generator
    ) -> tuple[Array, NDArray[np.intp]]:
        """Observations given the parameters, and the component of each."""
        components = draw_categories(np.tile(parameters["weights"], (size, 1)), rng)
        return self.emissions.draw(parameters, components, rng), components

    def with_gaps(self, data: Array, hidden: NDArray[np.intp], source: Posterior, rng: np.random.Generator) -> Array:
        """Each observation keeps a value: those without any do not count."""
        return self.emissions.with_gaps(data, hidden, self.tally(source), partial(observed_somewhere, rng=rng))

    @completed
    def describe(self, posterior: Posterior, *, top: int = 10) -> list[Row]:
        """Each component's weight and profile."""
        check_structure(posterior, self.structure_for(posterior), "posterior")
        profile = self.profile(posterior)
        return [
            {"component": k, "weight": float(weight), **{name: values[k] for name, values in profile.items()}}
            for k, weight in enumerate(posterior.mean("weights"))
        ]

    @of_own_posterior
    def profile(self, posterior: Posterior) -> Mapping[str, Any]:
        """The properties that tell components apart, by name: one value per component."""
        return {"mean": posterior.mean("components")}

    @property
    def _count(self) -> int:
        return 1 if isinstance(self.components, str) else self.components

    def _of_any_number(self, natural: Natural) -> Posterior:
        return Posterior.from_natural(self.structure.with_components(len(natural["weights"])), natural)

    def _log_joint(self, posterior: Posterior, points: Array) -> Array:
        """(N, K): log p(x_n, component k | posterior)."""
        weights = np.log(posterior.mean("weights"))
        return np.asarray(self.emissions.log_predictive(posterior.natural, points) + weights)

    def _log_density(self, posterior: Posterior, points: Array) -> Array:
        return np.asarray(logsumexp(self._log_joint(posterior, points), axis=1))

    def _open(self, data: Any) -> Points:
        return open_points(self.opened(data), self.points)

    @property
    def _points_per_group(self) -> float:
        """With fewer points per component, the only start is the tree."""
        return ROWS_PER_GROUP

    def _starts(self, points: int, alone: bool) -> Sequence[Start]:
        """The kind of each start; `alone` if the prior knows no components."""
        starts = self.ascent.restarts + 1
        if self.start_from is not None:
            # A tree of all points is always the same.
            return [self.start_from] * (1 if self.start_from == "tree" and points <= MOST_ROWS else starts)
        rows, enough = points / self._count, self.points_per_centre
        return kinds_of_starts(starts, rows=rows, enough=enough, alone=alone, few=self._points_per_group)

    def _begin(self, blocks: PointBlocks, before: Natural, kind: Start, rng: np.random.Generator) -> Natural:
        """A first posterior: points are in groups, in their nearest centres, or in random mixes of components."""
        if kind == "tree":
            some = blocks.sample(max(MOST_ROWS, ROWS_PER_GROUP * self._count), rng)
            features = blocks.emissions.features(some)
            groups = groups_of_rows(blocks.emissions, self.structure.prior, features, self._count)
            sums = [summed(features, groups, self._count)]
        elif kind == "random":
            shares = (rng.dirichlet(np.ones(self._count), size=len(points)) for points in blocks)
            sums = [
                responsibilities.T @ features
                for responsibilities, features in zip(shares, blocks.features(), strict=True)
            ]
        else:
            candidates = blocks.sample(MOST_CANDIDATES, rng)
            places = self.embedding(blocks.emissions, candidates)
            centres = spread_out_centres(places(candidates), self._count, rng)
            pairs = zip(blocks, blocks.features(), strict=True)
            sums = [summed(features, nearest(places(points), centres), self._count) for points, features in pairs]
        return plus(blocks.emissions, before, np.add.reduce(sums))

    def embedding(self, emissions: Emissions, points: Array) -> Callable[[Array], Array]:
        """Coordinates of points for the choice of first centres; estimated from some of them."""
        return emissions.embedded

    def _pass(
        self, blocks: PointBlocks, before: Reference, natural: Natural, *, watch: Watch | None = None
    ) -> tuple[Natural, float]:
        """One pass over the data; the bound is that of the given parameters."""
        sums, height = blocks.weigh(coefficients(blocks.emissions, natural).T, watch)
        return plus(blocks.emissions, before.natural, sums), height - before.divergence(natural)


def with_remarks(fit: Fit, *remarks: Remark) -> Fit:
    return replace(fit, posterior=replace(fit.posterior, remarks=(*fit.posterior.remarks, *remarks)))


def columns_of(structure: Structure, emissions: Emissions) -> Array:
    """(p, d): features times this matrix are what an observation adds to a component, factor after factor."""
    added = emissions.added()
    added["weights"] = np.zeros((len(next(iter(added.values()))), 1))
    added["weights"][-1] = 1.0
    return np.concatenate([added[name] for name in structure.families], axis=1)


def statistics_of(structure: Structure, parameters: Mapping[str, Any]) -> Array:
    """(draws, K, d): T(θ_k), factor after factor, for sampled parameters."""
    return np.concatenate([family.statistics(parameters[name]) for name, family in structure.families.items()], axis=-1)


def as_responsibilities(assignments: Any, observations: int, components: int) -> Array:
    """(N, K): shares that add up to one, from shares or from component numbers."""
    numbers = real_array(assignments)
    if numbers.shape == (observations,) and (np.isin(numbers, np.arange(components))).all():
        return np.eye(components)[numbers.astype(np.intp)]
    shares = numbers.astype(np.float64)
    if shares.shape != (observations, components) or not (shares >= 0).all() or not np.allclose(shares.sum(axis=1), 1):
        raise InvalidData(
            f"Assignments are {observations} numbers from 0 to {components - 1}, or {observations} × {components} "
            f"shares whose rows add up to one; these have the shape {numbers.shape}."
        )
    return shares
