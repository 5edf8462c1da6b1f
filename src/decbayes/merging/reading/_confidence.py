"""How likely a match is right, given its margin, its evidence and, if the site reports it, its overlap.

Their meaning depends on the setting: the quality of the sites' posteriors and the number of sites. So the map from them
to a probability is learned from simulations of that setting (`decbayes.checking.reliability`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, logit

from decbayes.base.arguments import check_kind
from decbayes.errors import StructureMismatch
from decbayes.families import Array
from decbayes.merging.alignment import Alignment
from decbayes.merging.base.components import LEAST_EVIDENCE, Components, bases
from decbayes.merging.grouping.search import SlotSearch
from decbayes.merging.grouping.shared import UNLIKE, halved, unlike_above
from decbayes.merging.reading._margins import losses, margins
from decbayes.merging.reading._support import alone, observations
from decbayes.structure import CoupledSet

# Caps on margins (in nats) and overlaps: beyond them, values carry no further information.
MOST_MARGIN, LEAST_OVERLAP = 1e6, 1e-3
LEAST_COUNT = 0.5
# How far an overlap moves the log-odds towards the simulated curve: real observations are more mixed than simulated
# ones.
BELIEVED = 1 / 3
DOUBTFUL = 0.8  # matches with a lower probability are flagged


@dataclass(frozen=True)
class Curve:
    """p = σ(intercept + Σ slope · feature), rising in every feature."""

    intercept: float
    slopes: tuple[float, ...]

    def __call__(self, features: Array) -> Array:
        return np.asarray(expit(self.intercept + features @ np.array(self.slopes)))


@dataclass(frozen=True)
class Reliability:
    """The probability that a match is right, learned from simulations of one setting by `db.checking.reliability`.

    Attributes:
        margins: the curve for matches without a reported overlap.
        overlaps: the curve for the others.
        matches: the number of simulated matches.
        right: the share of right matches among them.
        nowhere: the share of the wrong ones that belonged to no slot at all.
        unlike: the Kolmogorov–Smirnov distance between the actual margins and the simulated ones. If it is large, the
            model fits the sites' data badly.
        most: the highest probability to state, given the number of simulated matches and how far clusters overlap.

    >>> from decbayes.merging.reading import Curve
    >>> by_margin, by_overlap = Curve(0.0, slopes=(1.0, 0.0, 0.0)), Curve(0.0, slopes=(1.0, 0.0, 0.0, 1.0))
    >>> known = db.merging.Reliability(by_margin, by_overlap, matches=100, right=0.9, nowhere=0.5)
    >>> margins, others = np.array([0.0, np.e - 1.0]), np.ones(2)
    >>> known.probabilities(margins, others, others, np.full(2, np.nan)).round(2)
    array([0.5 , 0.73])
    """

    margins: Curve
    overlaps: Curve
    matches: int
    right: float
    nowhere: float
    unlike: float = 0.0
    most: float = 1.0

    def probabilities(self, margins: Array, evidence: Array, losses: Array, overlaps: Array) -> Array:
        """Per match: the probability that it is right; unreported overlaps are NaN.

        A reported overlap moves the log-odds a third of the way to its own curve. No probability exceeds `most`.
        """
        inputs = features(margins, evidence, losses, overlaps)
        known = ~np.isnan(overlaps)
        probabilities = self.margins(inputs[:, :-1])
        moved = logit(self.overlaps(inputs[known])) - logit(probabilities[known])
        probabilities[known] = expit(logit(probabilities[known]) + BELIEVED * moved)
        return np.minimum(probabilities, self.most)


def features(margins: Array, evidence: Array, losses: Array, overlaps: Array) -> Array:
    """(matches, 4): the features in which the curves rise. The overlap is last."""
    shares = np.clip(overlaps, LEAST_OVERLAP, 1.0 - LEAST_OVERLAP)
    return np.column_stack(
        [
            # Negative where another slot would suit the component better.
            np.log1p(np.clip(margins, 0.0, MOST_MARGIN)),
            np.log(np.maximum(evidence, LEAST_COUNT)),
            -np.log1p(losses),
            logit(shares),
        ]
    )


@dataclass(frozen=True, eq=False)
class Confidence:
    """The probability of each match.

    Attributes:
        probabilities: `[i][coupled][k]`, that component k of posterior i belongs with the other sites' components in
            its slot; NaN if there are none, or if the component has no data. Otherwise it belongs to another slot, or
            to none.
        reliability: the curves they are computed from.
        self_reported: whether self-reported overlaps were used.

    >>> coupled = db.extending.CoupledSet(("weights", "components"))
    >>> sure = db.merging.Confidence(({coupled: np.array([0.9, 0.8, np.nan])},), None)
    >>> wrong, matches = sure.expected_wrong(coupled)
    >>> round(wrong, 6), matches
    (0.3, 2)
    """

    probabilities: tuple[Mapping[CoupledSet, Array], ...]
    reliability: Reliability
    self_reported: bool = False

    def nowhere(self) -> tuple[Mapping[CoupledSet, Array], ...]:
        """The probability that a component belongs to no slot at all."""
        share = self.reliability.nowhere
        return tuple({coupled: (1.0 - right) * share for coupled, right in site.items()} for site in self.probabilities)

    def expected_wrong(self, coupled: CoupledSet) -> tuple[float, int]:
        """The expected number of wrong matches, and the number of matches."""
        values = np.concatenate([site[coupled] for site in self.probabilities])
        known = values[~np.isnan(values)]
        return float((1.0 - known).sum()), len(known)


def confidence(alignment: Alignment, reliability: Reliability, overlaps: Sequence[Any] | None = None) -> Confidence:
    """The probability that each component belongs to its slot.

    It is lower if the slot holds different components and most of the other sites' evidence there is unlike this one.

    Args:
        reliability: the map from margins and evidence to probabilities, which `db.checking.reliability` learns from
            simulations.
        overlaps: for each posterior the overlaps reported by its site (`db.checking.overlap`), or None.

    >>> model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=100.0)
    >>> rng = np.random.default_rng(0)
    >>> shards = [rng.choice([-5.0, 5.0], size=(30, 1)) + rng.normal(size=(30, 1)) for _ in range(3)]
    >>> alignment = db.align([model.fit(shard, rng=rng).posterior for shard in shards])
    >>> sure = db.merging.confidence(alignment, db.checking.reliability(alignment, matches=30))
    >>> (coupled,) = alignment.structure.symmetry
    >>> bool((sure.probabilities[0][coupled] > 0.8).all())
    True
    """
    check_kind(Alignment, alignment=alignment)
    check_kind(Reliability, reliability=reliability)
    probabilities: tuple[dict[CoupledSet, Array], ...] = tuple({} for _ in alignment.posteriors)
    all_margins, all_losses = margins(alignment), losses(alignment)
    for coupled in alignment.structure.symmetry:
        counts, lonely = observations(alignment, coupled), alone(alignment, coupled)
        shares = checked_overlaps(overlaps, [len(evidence) for evidence in counts])
        together = kept_together(alignment, coupled)
        for site, by_set in enumerate(probabilities):
            sure = together[site] * reliability.probabilities(
                all_margins[site][coupled], counts[site], all_losses[site][coupled], shares[site]
            )
            by_set[coupled] = np.where(lonely[site] | (counts[site] < LEAST_EVIDENCE), np.nan, sure)
    return Confidence(probabilities, reliability, overlaps is not None)


def kept_together(alignment: Alignment, coupled: CoupledSet) -> list[Array]:
    """Per site and component: a factor 1 − u (1 − s), below 1 if its slot holds different components.

    ρ is the gain of the slot's best split relative to splitting noise, and u = max(0, 1 − 1/ρ) how likely the split is
    real; words of topics scatter more, so there ρ is divided by the ratio of the limits above which slots count as
    unlike. s is the share of the other sites' evidence that would stay with the component.
    """
    problem, slots = alignment.problem(coupled), alignment.slots(coupled)
    components, labels = Components.of(problem.factors, [*problem.contents]), np.concatenate(slots)
    base = bases(components.factors, float(components.evidence.sum()), problem.components)
    gains, noise, halves = halved(SlotSearch(components, labels, base, problem.components))
    sites, places = np.repeat(np.arange(len(slots)), list(map(len, slots))), 2 * labels + halves
    evidence = np.zeros((len(slots), 2 * problem.components))
    np.add.at(evidence, (sites, places), components.evidence)
    others = evidence.sum(axis=0) - evidence
    whole = others[sites, 2 * labels] + others[sites, 2 * labels + 1]
    same = np.divide(others[sites, places], whole, out=np.ones(len(labels)), where=whole > 0.0)
    usual = max(1.0, unlike_above(problem, components.evidence) / UNLIKE)
    real = 1.0 - 1.0 / np.maximum(gains / (noise * usual), 1.0)
    return np.split(1.0 - real[labels] * (1.0 - same), np.cumsum(list(map(len, slots)))[:-1])


def checked_overlaps(overlaps: Sequence[Any] | None, sizes: Sequence[int]) -> list[Array]:
    """One share per component of each posterior; NaN if a site has reported none."""
    if overlaps is None:
        return [np.full(size, np.nan) for size in sizes]
    if len(overlaps) != len(sizes):
        raise StructureMismatch(
            f"There are {len(sizes)} posteriors but overlaps of {len(overlaps)}; give None if unknown."
        )
    return [own_overlaps(site, given, size) for site, (given, size) in enumerate(zip(overlaps, sizes, strict=True))]


def own_overlaps(site: int, given: Any, size: int) -> Array:
    if given is None:
        return np.full(size, np.nan)
    shares = np.asarray(given, dtype=np.float64)
    if shares.shape != (size,) or not ((shares >= 0.0) & (shares <= 1.0) | np.isnan(shares)).all():
        raise StructureMismatch(
            f"The overlaps of posterior {site} must be {size} shares from 0 to 1, one per component."
        )
    return shares
