"""A merge that names sites which clearly disagree with most others, and hardly moves with them.

1. Copies of a site count once. No site votes with more than `cap` times the median site's evidence; where slots are
   fixed, no site has more than one vote.
2. All components are compared in pairs, as sent, at the evidence their sites claim (`votes.py`, `_likeness.py`). Slots
   go to the components that most sites agree with, so few sites cannot take a slot from many.
3. A component that disagrees with the rest of its slot by more than chance or usual differences explain counts for
   less, or for nothing if it is far off (`_slots.py`). Sites that clearly disagree are left out. So are sites that
   share nothing with the others, if more of the others' votes count without them. If most sites disagree by more than
   chance explains, components overlap, many values are missing or the model does not fit: then only sites that
   disagree far more than is usual are left out, and all others count in full (`_disagreement.py`).
4. The remaining sites are recentred and aligned as usual, with their weights (`_ballot.py`). A component that only one
   site has found can be neither confirmed nor refuted: it gets its own slot with little weight, and a remark.

This names and leaves out sites that clearly disagree as long as more honest sites know a component than faulty sites
contradict it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from decbayes.merging.alignment import Counted
from decbayes.merging.base.canonical import canonical_order
from decbayes.merging.base.coupled import as_sequence
from decbayes.merging.base.problem import Number, OnMatch, Solver
from decbayes.merging.base.recentring import in_other_units
from decbayes.merging.robust._ballot import Ballot, Outcome
from decbayes.merging.robust._copies import exact_copies, first_of, near_copies
from decbayes.merging.robust._result import FEWEST, RobustMerge, Standing
from decbayes.posterior import Posterior
from decbayes.remarks import Later


@dataclass(frozen=True)
class Robust:
    """Settings of a robust merge: `db.merge(posteriors, robust=db.merging.Robust(cap=2.0))`.

    Attributes:
        cap: the most evidence a site counts with, relative to the median site's. A larger site that the others agree
            with counts for more, as long as it moves their estimates by no more than about one deviation.

    >>> db.merging.Robust(cap=2.0)
    Robust(cap=2.0)
    """

    cap: float = 1.5

    def __post_init__(self) -> None:
        if not self.cap >= 1.0:
            raise ValueError("A robust merge needs a cap of at least 1.")


def robust_merge(
    posteriors: Iterable[Posterior],
    robust: Robust | None = None,
    *,
    components: Number = None,
    solver: Solver | str | None = None,
    progress: OnMatch | None = None,
) -> RobustMerge:
    """Merge without the sites that clearly disagree with most others, and see which these are.

    Sites that clearly disagree are named and left out, as long as more honest sites know a component than faulty ones
    contradict it. If no site stands out, this is the usual merge. It cannot judge fewer than three sites, components
    that only one site has found, or differences that chance could explain.

    Args:
        posteriors: one per site, of one structure; numbers of components may differ.
        robust: the cap. Default: `Robust()`.
        components: the number of slots, as for `merge`. By default, components that at least two sites have found and
            that fit no other slot get further slots.
        solver: how to align, an object of `db.solvers` or its name.
        progress: called without arguments after each site is matched.

    >>> model = db.models.GaussianMean(variance=1.0, prior_variance=100.0)
    >>> sites = [model.fit(np.full((20, 1), mean)).posterior for mean in (0.0, 0.1, -0.1, 0.05, 6.0)]
    >>> merged = db.merging.robust_merge(sites)
    >>> merged.weights[:, 0].round(1)
    array([1., 1., 1., 1., 0.])
    >>> abs(merged.posterior.mean("mean").item()) < 0.1 < db.merge(sites).mean("mean").item()
    True
    """
    rule, slots, given = robust or Robust(), "largest" if components is None else components, as_sequence(posteriors)
    odd = in_other_units(given)
    aside = odd if len(odd) <= len(given) - FEWEST and 2 * len(odd) < len(given) else {}
    return elect(given, rule.cap, components is None, slots, solver, progress, aside).merge()


def standings(posteriors: Iterable[Posterior]) -> tuple[Standing, ...]:
    """What a robust merge would make of each site, without merging; empty if too few sites have data to judge.

    Args:
        posteriors: one per site, of one structure; numbers of components may differ.

    >>> model = db.models.GaussianMean(variance=1.0, prior_variance=100.0)
    >>> sites = [model.fit(np.full((20, 1), mean)).posterior for mean in (0.0, 0.1, -0.1, 0.05, 6.0)]
    >>> [standing.is_out for standing in db.merging.standings(sites)]
    [False, False, False, False, True]
    """
    given = as_sequence(posteriors)
    election = elect(given) if len(given) >= FEWEST else None
    return election.standings() if election is not None and election.judged else ()


def elect(
    posteriors: Sequence[Posterior],
    cap: float = Robust.cap,
    spare: bool = True,
    slots: Number = "largest",
    solver: Solver | str | None = None,
    progress: OnMatch | None = None,
    aside: Mapping[int, str] = MappingProxyType({}),
) -> "Election":
    """The vote of all sites but copies and those set `aside`, with a column in another unit."""
    # In canonical order, so that the result is a function of the set.
    order, readings = canonical_order(posteriors)
    ordered_sites, sets = [posteriors[site] for site in order], [readings[site].components for site in order]
    ballot = Ballot(ordered_sites, sets, cap, spare, True, slots, solver, progress)
    counted, repeated = [place for place, site in enumerate(order) if site not in aside], dict[int, int]()
    ballot = ballot.among(counted) if aside else ballot
    # Exact copies are found fast, and fewer sites are then compared in pairs.
    for copies in (exact_copies, near_copies):
        found = {counted[one]: counted[other] for one, other in first_of(copies(ballot.as_sent)).items()}
        repeated = {one: found.get(other, other) for one, other in repeated.items()} | found
        if found:
            ballot = ballot.among([place for place, site in enumerate(counted) if site not in found])
            counted = [site for site in counted if site not in found]
    judged = sum(readings[order[place]].rank[0] < 0.0 for place in counted) >= FEWEST
    outcome = (ballot if judged else replace(ballot, judging=False)).decided()
    copied = {order[one]: order[other] for one, other in repeated.items()}
    kept = [order[place] for place in counted]
    return Election(outcome, kept, copied, aside, len(order), judged, ballot.alike.tolist())


@dataclass(frozen=True)
class Election:
    """An outcome in the caller's numbers of sites.

    Attributes:
        outcome: the outcome of the ballot.
        counted: the sites of the ballot, all but copies.
        repeated: the site that each copy repeats.
        aside: the sites with a column in another unit, and that column.
        sites: the number of all sites.
        judged: whether there are enough sites with data to tell which ones are right.
        alike: for each site of the ballot, whether its data as a whole agree with those of most others.
    """

    outcome: Outcome
    counted: Sequence[int]
    repeated: dict[int, int]
    aside: Mapping[int, str]
    sites: int
    judged: bool
    alike: Sequence[bool]

    def standings(self) -> tuple[Standing, ...]:
        shares = dict(zip(self.outcome.sites, self.outcome.standings(), strict=True))
        vouched = dict(zip(self.outcome.sites, np.any(self.outcome.vouched, axis=0).tolist(), strict=True))
        known = {site: Standing(0.0, alike=self.alike[place], left_out=True) for place, site in enumerate(self.counted)}
        known |= {
            self.counted[site]: Standing(*share, alike=self.alike[site], describes=vouched[site])
            for site, share in shares.items()
        }
        known |= {one: Standing(0.0, copy_of=other) for one, other in self.repeated.items()}
        known |= {site: Standing(0.0, in_other_unit=column) for site, column in self.aside.items()}
        return tuple(known[site] for site in range(self.sites))

    def merge(self) -> RobustMerge:
        outcome, sites = self.outcome, self.standings()
        by_slot = outcome.by_slot()
        weights = np.zeros((self.sites, by_slot.shape[1]))
        numbers = tuple(self.counted[outcome.sites[place]] for place in outcome.merged)
        weights[[*numbers]] = by_slot
        alignment = replace(outcome.alignment, counted=counted_of([sites[site].counts for site in numbers], self.sites))
        merged = outcome.alignment.merged()
        merge = RobustMerge(merged, weights, sites, alignment, numbers, outcome.spare, self.judged, outcome.spared)
        return replace(merge, posterior=replace(merge.posterior, remarks=Later(merge.remarks)))


def counted_of(counts: Sequence[float], given: int) -> Counted:
    """What counts of this many sites, if these are the shares of those that are merged."""
    if min(counts, default=1.0) < 1.0:
        return "in part"
    return "some" if len(counts) < given else "all"
