"""Each site's influence on a merge, and its disagreement with all others: reported only, nothing is excluded."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from decbayes.base.arguments import check_kind
from decbayes.families import Array, dense
from decbayes.merging.alignment import Alignment
from decbayes.merging.base.components import group_evidence, groups_of, log_bayes_factors
from decbayes.merging.base.copies import repeated_data
from decbayes.merging.base.recentring import compared as as_compared
from decbayes.merging.remarking import are_budgets, separate, subjects_of, unlike_texts
from decbayes.posterior import Posterior
from decbayes.remarks import (
    COUNTED_TWICE,
    DISSENT,
    FIT_AGAIN,
    Remark,
    about_sites,
    site_names,
    warnings_in,
    with_shares,
)

if TYPE_CHECKING:
    from decbayes.merging.robust import Standing

# Log Bayes factors below this, in nats, are hardly chance, even with many sites and slots.
DISAGREES = -10.0
# A site is flagged if MUCH of its evidence disagrees, and UNUSUAL median deviations more than is usual among the sites.
MUCH, UNUSUAL = 0.1, 5.0
# Honest sites are seldom more than this many times larger than the median site.
LARGE = 5.0
AGAINST = "against: the share of its evidence that contradicts most other sites; after rounds, all others together."
# The fewest sites from which one can tell what is usual.
FEW = 4
# The most sites excluded from one slot before the others are compared.
MOST_EXCLUDED = 8


@dataclass(frozen=True, eq=False)
class Influence:
    """Each site's influence on a merge, and how far it disagrees with all others.

    Slots are those of all coupled sets, one after another, then the rows of factors that belong to none.

    Attributes:
        evidence: sites × slots, the number of observations of each site.
        log_bayes_factor: sites × slots, the log Bayes factor for "this site's version and the others' are the same"; 0
            if one of them has no data. The others are those that agree: one bad site does not mark honest ones. NaN for
            topics: their counts are divided among slots, and words that are rare at a site share their counts, so that
            versions in one slot look the same even if nothing is shared.
        standings: what a robust merge would make of each site; empty for files of a round and for two sites, where it
            cannot judge. Then flags rest on the Bayes factors.

    >>> found = db.merging.Influence(evidence=np.array([[90.0], [10.0]]), log_bayes_factor=np.array([[-40.0], [-40.0]]))
    >>> found.share
    array([0.9, 0.1])
    >>> found.flags(0)
    ('disagrees with the others in 100% of its evidence',)
    """

    evidence: Array
    log_bayes_factor: Array
    standings: "tuple[Standing, ...]" = ()

    @cached_property
    def share(self) -> Array:
        """Each site's share of all evidence."""
        evidence = self.evidence.sum(axis=1)
        return per_observation(evidence, np.full(len(evidence), evidence.sum()))

    @cached_property
    def apart(self) -> Array:
        """The share of each site's evidence that contradicts the other sites; NaN if unknown."""
        if self.standings:
            return np.array([standing.apart for standing in self.standings])
        known = ~np.isnan(self.log_bayes_factor)
        against = np.where(known, self.evidence * (self.log_bayes_factor < DISAGREES), np.nan).sum(axis=1)
        return per_observation(against, self.evidence.sum(axis=1))

    @cached_property
    def against(self) -> Array:
        """How strongly each site contradicts the other sites, in nats per observation."""
        nats = np.fmax(-self.log_bayes_factor, 0.0).sum(axis=1)
        return per_observation(nats, self.evidence.sum(axis=1))

    @property
    def comparisons(self) -> dict[str, Array]:
        """Per site, as far as known: the log Bayes factor of all slots ("log BF"), and `apart` ("against")."""
        columns = {"log BF": self.log_bayes_factor.sum(axis=1), "against": self.apart}
        return {name: column for name, column in columns.items() if not np.isnan(column).any()}

    @cached_property
    def times_median(self) -> Array:
        """Each site's evidence relative to the median site's; sites without evidence do not count for the median."""
        evidence = self.evidence.sum(axis=1)
        filled = evidence[evidence > 0]
        return np.asarray(evidence / (np.median(filled) if len(filled) else 1.0))

    @cached_property
    def large(self) -> NDArray[np.bool_]:
        """Sites with several times the evidence of the median site."""
        enough = (self.times_median > 0).sum() >= FEW
        return np.asarray(self.times_median > (LARGE if enough else np.inf))

    @cached_property
    def disagreeing(self) -> NDArray[np.bool_]:
        """Sites that disagree with the others, and more so than is usual among the sites.

        Such a site may be right, or may have different data.
        """
        if self.standings:
            return np.array([standing.disagrees for standing in self.standings])
        much = np.asarray(self.apart > MUCH)
        usual = self.against[self.evidence.sum(axis=1) > 0]
        if len(usual) < FEW:
            return much
        middle = np.median(usual)
        return np.asarray(much & (self.against > middle + UNUSUAL * np.median(np.abs(usual - middle))))

    def flags(self, site: int, remarks: Iterable[Remark] = ()) -> tuple[str, ...]:
        """The flags of a site, in a few words; with the remarks of the merge, also what their warnings say about it."""
        texts = {
            f"has {self.share[site]:.0%} of all evidence": self.large[site],
            f"disagrees with the others in {self.apart[site]:.0%} of its evidence": self.disagreeing[site],
        }
        said = about_sites((remark.kind, remark.sites) for remark in warnings_in(remarks) if remark.kind != DISSENT)
        return (
            *(text for text, holds in texts.items() if holds),
            *(text for (text, _), sites in said.items() if site in sites),
        )


def per_observation(amounts: Array, observations: Array) -> Array:
    """Amounts per observation, 0 without observations."""
    return np.asarray(np.divide(amounts, observations, out=np.zeros(len(amounts)), where=observations > 0))


def influence(alignment: Alignment) -> Influence:
    """Each site's influence on a merge, and how far it disagrees with all others. Nothing is excluded.

    >>> model = db.models.GaussianMean(variance=1.0, prior_variance=100.0)
    >>> sites = [model.fit(np.full((20, 1), mean)).posterior for mean in (0.0, 0.1, -0.1, 0.05, 6.0)]
    >>> db.merging.influence(db.align(sites)).disagreeing
    array([False, False, False, False,  True])
    """
    check_kind(Alignment, alignment=alignment)
    judged, alignment = standings_in(alignment), replace(alignment, posteriors=as_compared(alignment.posteriors))
    groups, posteriors = groups_of(alignment.structure), range(len(alignment.posteriors))
    sites = map(alignment.in_slots, posteriors)  # one at a time, for memory
    evidence = np.array([np.concatenate([group_evidence(site, names) for names in groups]) for site in sites])
    if are_budgets(alignment.structure):
        return Influence(evidence, np.full(evidence.shape, np.nan), standings_in(alignment))
    excluded, total = np.zeros(evidence.shape, dtype=np.bool_), alignment.merged()
    for last in range(MOST_EXCLUDED, -1, -1):
        kept = without(alignment, total, groups, excluded)
        factors = np.array([compared(alignment.in_slots(site), kept, groups, excluded[site]) for site in posteriors])
        worst = odd_ones(np.where(excluded, np.inf, factors), (evidence > 0.0) & ~excluded)
        if not worst.any() or not last:
            return Influence(evidence, factors, judged)
        excluded |= worst
    raise AssertionError("the last pass returns")


def standings_in(alignment: Alignment) -> "tuple[Standing, ...]":
    """What a robust merge would make of each site; empty if it cannot judge, as for files of a round."""
    if alignment.decided == "rounds":
        return ()
    from decbayes.merging.robust import standings  # most readings of an alignment do without

    return standings(alignment.sent or alignment.posteriors)


def dissent(alignment: Alignment, names: Sequence[str]) -> Iterator[Remark]:
    """Warnings about sites that a robust merge would leave out, if no remark on shared slots names them."""
    if alignment.counted != "all":  # they are left out
        return
    names, named = names or site_names(len(alignment.posteriors)), set[int]()
    budgets = are_budgets(alignment.structure)
    for coupled, shared in alignment.shared().items():
        remarks = (
            unlike_texts(subjects_of(alignment.posteriors, shared, coupled), names, "rounds")
            if budgets
            else separate(shared.parts.evidence, names, shared.parts.alike)
        )
        named.update(site for remark in remarks for site in remark.sites)
    standings = standings_in(alignment)
    yield from near_copies(alignment, standings, names)
    apart = {
        site: standing
        for site, standing in enumerate(standings)
        if standing.disagrees and not standing.only_alone and site not in named
    }
    for alike in (False, True):
        which = [site for site, standing in apart.items() if standing.alike == alike]
        if which:
            shares = with_shares([(names[site], apart[site].apart) for site in which], "its evidence")
            many = len(which) > 1
            fault = f"clearly disagree{'' if many else 's'} with most sites"
            other_way = f"divide{'' if many else 's'} data like the others' into other components"
            out = f"Merge with robust=True (`--robust`) to leave {'them' if many else 'it'} out."
            yield Remark(
                DISSENT,
                f"{shares} {other_way if alike else fault}.",
                f"{FIT_AGAIN if alike else 'Check units, columns and coding there.'} {out}",
                sites=(*which,),
            )


def near_copies(alignment: Alignment, standings: "Sequence[Standing]", names: Sequence[str]) -> Iterator[Remark]:
    """Warnings about sites with nearly the same data; those with the same have another one."""
    copies = {site: standing.copy_of for site, standing in enumerate(standings) if standing.copy_of is not None}
    sent = alignment.sent or alignment.posteriors
    same = {site for group in (repeated_data(sent) if copies else ()) for site in group}
    for site, other in copies.items():
        if site not in same:
            yield Remark(
                COUNTED_TWICE,
                f"{names[other]} and {names[site]} are far more alike than chance explains: nearly the same data seem "
                "to count twice.",
                "Ask both. If so, keep one of them: intervals are too narrow otherwise.",
                sites=(other, site),
            )


def odd_ones(factors: Array, filled: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Sites × slots: in each slot of three or more sites, the site that disagrees most, if any does.

    One bad site makes honest ones disagree with the sum of all others, which includes it. The most negative factor
    belongs to the site without which the others agree most.
    """
    worst = np.zeros(factors.shape, dtype=np.bool_)
    slots = np.arange(factors.shape[1])
    place = factors.argmin(axis=0)
    worst[place, slots] = (factors[place, slots] < DISAGREES) & (filled.sum(axis=0) > 2)
    return worst


Groups = Sequence[Sequence[str]]
Contributions = dict[str, Array]


def without(alignment: Alignment, total: Posterior, groups: Groups, excluded: NDArray[np.bool_]) -> Contributions:
    """The contributions of all sites, without those of sites that are excluded from a slot."""
    kept = {name: dense(total.contribution[name]).copy() for names in groups for name in names}
    for site in np.flatnonzero(excluded.any(axis=1)).tolist():
        posterior, first = alignment.in_slots(site), 0
        for names in groups:
            size = len(kept[names[0]])
            rows = np.flatnonzero(excluded[site, first : first + size])
            for name in names:
                if len(kept[name]) == size:
                    kept[name][rows] -= dense(posterior.contribution[name])[rows]
            first += size
    return kept


def compared(posterior: Posterior, kept: Contributions, groups: Groups, excluded: NDArray[np.bool_]) -> Array:
    """The log Bayes factor of each row of a site; weights of components do not describe the components."""
    families, prior, parts, first = posterior.structure.families, posterior.structure.prior, [], 0
    for names in groups:
        used = [name for name in names if not families[name].over_components] or [*names]
        size, total = len(prior[names[0]]), np.zeros(1)
        apart = excluded[first : first + size, None]
        for name in used:
            contribution = dense(posterior.contribution[name])
            rest = kept[name] - np.where(apart if len(apart) == len(contribution) else False, 0.0, contribution)
            total = total + log_bayes_factors(families[name], prior[name], contribution, rest)
        parts.append(np.asarray(total))
        first += size
    return np.concatenate(parts)
