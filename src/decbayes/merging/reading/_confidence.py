"""How likely a match is right, given its margin, its evidence and, where the site has said so, its overlap.

What these mean depends on the setting: how far sites' posteriors can be believed, how many sites there are. So the map
from them to a probability is learned from simulations of that setting (`decbayes.checking.reliability`), and used here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, logit

from decbayes.arguments import check_kind
from decbayes.errors import StructureMismatch
from decbayes.families import Array
from decbayes.merging.alignment import Alignment
from decbayes.merging.base.components import LEAST_EVIDENCE
from decbayes.merging.reading._margins import losses, margins
from decbayes.merging.reading._support import alone, observations
from decbayes.symmetry import CoupledSet

# Margins in nats and overlaps beyond which nothing is learned any more.
MOST_MARGIN, LEAST_OVERLAP = 1e6, 1e-3
LEAST_COUNT = 0.5
# How far an overlap moves the log-odds towards what simulated ones say: how mixed documents and other observations
# really are is more than a simulation knows.
BELIEVED = 1 / 3
DOUBTFUL = 0.8  # a probability below this deserves a look


@dataclass(frozen=True)
class Curve:
    """p = σ(intercept + Σ slope · feature), rising in every feature."""

    intercept: float
    slopes: tuple[float, ...]

    def __call__(self, features: Array) -> Array:
        return np.asarray(expit(self.intercept + features @ np.array(self.slopes)))


@dataclass(frozen=True)
class Reliability:
    """The probability that a match is right, as simulations of one setting have taught it.

    `matches` were simulated, of which the share `right` was right. Of the wrong ones the share `nowhere` belonged to no
    slot at all. `unlike` is how far the margins at hand are distributed otherwise than the simulated ones (the
    Kolmogorov–Smirnov distance); where it is large, the model describes the sites' data badly.
    """

    margins: Curve
    overlaps: Curve
    matches: int
    right: float
    nowhere: float
    unlike: float = 0.0

    def probabilities(self, margins: Array, evidence: Array, losses: Array, overlaps: Array) -> Array:
        """For each match the probability that it is right; overlaps that nobody has reported are NaN.

        One that somebody has reported goes a third of the way to what it would say by itself.
        """
        told = features(margins, evidence, losses, overlaps)
        known = ~np.isnan(overlaps)
        found = self.margins(told[:, :-1])
        moved = logit(self.overlaps(told[known])) - logit(found[known])
        found[known] = expit(logit(found[known]) + BELIEVED * moved)
        return found


def features(margins: Array, evidence: Array, losses: Array, overlaps: Array) -> Array:
    """(matches, 4): what the curves rise in. The overlap is last."""
    shares = np.clip(overlaps, LEAST_OVERLAP, 1.0 - LEAST_OVERLAP)
    return np.column_stack(
        [
            np.log1p(np.minimum(margins, MOST_MARGIN)),
            np.log(np.maximum(evidence, LEAST_COUNT)),
            -np.log1p(losses),
            logit(shares),
        ]
    )


@dataclass(frozen=True)
class Confidence:
    """For each posterior and component the probability that it belongs to its slot: `probabilities[i][coupled][k]`.

    That is, to what the other sites have put there; NaN where no other site has put anything, or the component has seen
    no data. With the rest of the probability it belongs to another slot, or to none. `self_reported` says that overlaps
    which the sites computed themselves have been used.
    """

    probabilities: tuple[Mapping[CoupledSet, Array], ...]
    reliability: Reliability
    self_reported: bool = False

    def nowhere(self) -> tuple[Mapping[CoupledSet, Array], ...]:
        """The probability that a component belongs to no slot at all."""
        share = self.reliability.nowhere
        return tuple({coupled: (1.0 - own) * share for coupled, own in each.items()} for each in self.probabilities)

    def expected_wrong(self, coupled: CoupledSet) -> tuple[float, int]:
        """How many matches are expected to be wrong, and of how many."""
        values = np.concatenate([each[coupled] for each in self.probabilities])
        known = values[~np.isnan(values)]
        return float((1.0 - known).sum()), len(known)


def confidence(alignment: Alignment, reliability: Reliability, overlaps: Sequence[Any] | None = None) -> Confidence:
    """For each posterior and component: the probability that it belongs to its slot.

        db.merging.confidence(alignment, db.checking.reliability(alignment))

    `reliability` says what margins and evidence are worth in this setting: `db.checking.reliability` learns it from
    simulations. `overlaps` has for each posterior what its site reports (`decbayes.checking.overlap`), or None.
    """
    check_kind(Reliability, reliability=reliability)
    probabilities: tuple[dict[CoupledSet, Array], ...] = tuple({} for _ in alignment.posteriors)
    all_margins, all_losses = margins(alignment), losses(alignment)
    for coupled in alignment.structure.symmetry:
        counts, lonely = observations(alignment, coupled), alone(alignment, coupled)
        shares = checked_overlaps(overlaps, [len(own) for own in counts])
        for site, by_set in enumerate(probabilities):
            sure = reliability.probabilities(
                all_margins[site][coupled], counts[site], all_losses[site][coupled], shares[site]
            )
            by_set[coupled] = np.where(lonely[site] | (counts[site] < LEAST_EVIDENCE), np.nan, sure)
    return Confidence(probabilities, reliability, overlaps is not None)


def checked_overlaps(overlaps: Sequence[Any] | None, sizes: Sequence[int]) -> list[Array]:
    """One share per component of each posterior; NaN where a site has said nothing."""
    if overlaps is None:
        return [np.full(size, np.nan) for size in sizes]
    if len(overlaps) != len(sizes):
        raise StructureMismatch(
            f"There are {len(sizes)} posteriors and overlaps of {len(overlaps)}; None is for unknown."
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
