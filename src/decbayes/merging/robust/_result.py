"""The result of a robust merge: what became of each site, and what to know about the merge."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from decbayes.errors import printable
from decbayes.families import Array
from decbayes.merging.alignment import Alignment, quick_remarks, remarks_in_time
from decbayes.merging.base.components import LEAST_EVIDENCE, evidence_by_site
from decbayes.merging.robust._ballot import FLAGGED
from decbayes.merging.robust._disagreement import HARDLY
from decbayes.merging.robust._slots import tolerated_faults
from decbayes.merging.robust.votes import AVERAGE, KNOWN
from decbayes.posterior import Posterior
from decbayes.remarks import (
    COUNTS_LESS,
    FIT_AGAIN,
    Remark,
    listed,
    site_names,
    sites_first,
    warnings_in,
    without_advice_to_refine,
)

# A site is flagged if no other site confirms more than this share of its evidence.
ALONE = 0.5
# A site counts in full from this share of its evidence on.
IN_FULL = 1.0 - HARDLY
ASK = (
    "Ask how its data were collected (units, coding, period): it may be right, or have seen something else. "
    "Rounds (refine) count it again unless you leave its files out."
)
AGREED = "If its units are wrong, the agreed scales may be, too: agree on columns without it, and fit again."
RESTART = "If nothing is wrong with its data, fit it again with more restarts, or fewer components."
DIVIDED = (
    "As a whole their data are like the others', so their fits have probably divided the same data in another way: fit "
    "with more restarts, or fewer components."
)
DESCRIBED = (
    "They include a large site whose topics describe the words of the others better than the others' own topics do: "
    "with more texts, a site tells more topics apart."
)
UNCONFIRMED = "Ask these sites whether their data show it: no other site confirms it."
COPIED = "Ask whether both are fits of the same data, and merge only one of them."
LESS = "Compare that part of its data with the others'."
LARGE = "If you trust these data, merge without `robust`: then all of them count."
# Sites that have more evidence than most and count in part are a warning if this part of all evidence does not count.
MUCH = 0.1
# The smallest number of sites in which a majority can be recognised.
FEWEST = 3
TOO_FEW = Remark(
    "no majority",
    f"With fewer than {FEWEST} sites a robust merge cannot tell who is right: all sites count in full (copies once).",
    "Read the remarks about how sites differ, and ask both how their data were collected.",
)
# Remarks on how sites share slots; they are true only if all of a site's components are in the alignment.
ABOUT_SHARED_SLOTS = ("nothing shared", "site alone")


@dataclass(frozen=True)
class Standing:
    """What became of one site in a robust merge.

    Attributes:
        counts: the share of its evidence that counts.
        against: the share that clearly disagrees with what more sites say.
        alone: the share that no other site confirms.
        agrees: the share that would count if the site had no more evidence than others.
        of_all: its share of the evidence of all sites.
        alike: whether its data as a whole agree with those of most others. If its components do not, its fit has
            divided the same data in another way.
        describes: whether its topics describe those of the others better than they describe each other, so that all of
            a large site counts.
        copy_of: the site that it repeats, or None.
        left_out: whether it was left out because it shares nothing with the other sites.
        in_other_unit: a column that it seems to have in another unit, for which it was left out.

    >>> standing = db.merging.Standing(counts=0.0, against=0.6)
    >>> standing.flagged, standing.reason()
    (True, 'disagrees clearly with most sites in 60% of its evidence and is left out')
    """

    counts: float = 1.0
    against: float = 0.0
    alone: float = 0.0
    agrees: float = 1.0
    of_all: float = 0.0
    alike: bool = False
    describes: bool = False
    copy_of: int | None = None
    left_out: bool = False
    in_other_unit: str = ""

    @property
    def flagged(self) -> bool:
        """Whether somebody should check this site."""
        unknown = self.alone > ALONE and not (self.alike or self.describes)
        return self.copy_of is not None or self.disagrees or unknown

    @property
    def large(self) -> bool:
        """Whether only part of its evidence counts although all of it agrees: it has more than most sites."""
        return not self.flagged and self.counts < IN_FULL <= self.agrees

    @property
    def disagrees(self) -> bool:
        """Whether much of its evidence disagrees with what more sites say, or is unknown to them."""
        return self.left_out or self.against > FLAGGED or bool(self.in_other_unit)

    @property
    def only_alone(self) -> bool:
        """Whether all that disagrees is unknown to the others, who confirm the rest, so that the site counts."""
        return 0.0 < self.against <= self.alone and self.counts > 0.0

    @property
    def apart(self) -> float:
        """The share of its evidence that disagrees, or that no other site knows if it was left out for that."""
        return 1.0 if self.left_out else self.against

    @property
    def is_out(self) -> bool:
        """Whether the site was left out because it disagrees with the others."""
        return self.disagrees and not self.counts

    def reason(self, names: Sequence[str] | None = None) -> str:
        """Why the site counts for less or should be checked, in a few words; empty if neither."""
        if self.copy_of is not None:
            return f"repeats {names[self.copy_of] if names else f'site {self.copy_of}'} and is not counted again"
        if self.in_other_unit:
            return f"seems to have {printable(self.in_other_unit)} in another unit and is left out"
        another_way = f"finds other components in {self.apart:.0%} of data that as a whole are like the others'"
        if self.alike and self.is_out:
            return f"{another_way}, and is left out"
        if self.left_out:
            return "was left out: most of what it found is unknown to most sites"
        if self.is_out and self.agrees > 0.0 and self.alone >= self.against:
            return f"is the only one to have found {self.against:.0%} of what it reports, and is left out"
        if self.is_out:
            return f"disagrees clearly with most sites in {self.against:.0%} of its evidence and is left out"
        if self.disagrees and self.alone < self.against:
            return (
                f"disagrees clearly in {self.against:.0%} of its evidence, as at least half of the sites do, and counts"
            )
        if self.disagrees:
            rest = "agrees and counts" if self.counts > self.against else "is left out"
            found = f"is the only one to have found {self.against:.0%} of what it reports"
            return f"{another_way if self.alike else found}; the rest {rest}"
        if self.flagged:
            return f"is the only one to have found {self.alone:.0%} of what it reports"
        if self.large:
            return f"has more evidence than most sites and counts for {self.counts:.0%} of it"
        if self.counts < IN_FULL:
            return f"counts for {self.counts:.0%} of its evidence, because part of it disagrees with the others"
        return ""


@dataclass(frozen=True, eq=False)
class RobustMerge:
    """A robust merge.

    Attributes:
        posterior: the merged posterior.
        weights: sites × slots, how much of each site's evidence counts there, from 0 to 1.
        sites: what became of each site.
        alignment: the alignment of the sites that were merged, as they count.
        merged: the numbers of these sites. Some contribute only components that no other site has found.
        spare: the number of slots beyond those requested.
        judged: whether there were enough sites with data to tell which ones are right.
        misfit: whether sites that would have been left out count, because most sites disagree by more than chance
            explains: components may overlap, values be missing, or the model not describe the data.

    >>> model = db.models.GaussianMean(variance=1.0, prior_variance=100.0)
    >>> sites = [model.fit(np.full((20, 1), mean)).posterior for mean in (0.0, 0.1, -0.1, 0.05, 6.0)]
    >>> merge = db.merging.robust_merge(sites)
    >>> merge.weights.shape
    (5, 1)
    >>> merge.reasons()
    {4: 'disagrees clearly with most sites in 100% of its evidence and is left out'}
    """

    posterior: Posterior
    weights: Array
    sites: tuple[Standing, ...]
    alignment: Alignment
    merged: tuple[int, ...]
    spare: int = 0
    judged: bool = True
    misfit: bool = False

    def remarks(self, names: Sequence[str] | None = None) -> tuple[Remark, ...]:
        """What to know about the merge: a remark for each site that counts for less, then those of any merge."""
        sites = tuple(names) if names is not None else site_names(len(self.sites))
        return self._with(sites, quick_remarks(self.alignment, [sites[site] for site in self.merged]))

    def warnings(self) -> tuple[Remark, ...]:
        """The warnings among the remarks; for topics this is faster than all remarks."""
        sites = site_names(len(self.sites))
        return warnings_in(self._with(sites, remarks_in_time(self.alignment, [sites[site] for site in self.merged])[1]))

    def _with(self, sites: Sequence[str], usual: Iterable[Remark]) -> tuple[Remark, ...]:
        """Remarks of a robust merge, then the usual ones that are true of the sites as they are.

        Added slots always make shares differ, and components that do not count are in no slot.
        """
        untrue = ["unlike shares"] if self.spare else []
        if any(self.sites[site].counts < IN_FULL and self.sites[site].against for site in self.merged):
            untrue += ABOUT_SHARED_SLOTS
        fitting = [
            replace(remark, sites=tuple(self.merged[site] for site in remark.sites))
            for remark in usual
            if remark.kind not in untrue
        ]
        if self.alignment.counted != "all":  # a round would count again what is left out
            fitting = [*without_advice_to_refine(fitting)]
        whole = [*([] if self.judged else [TOO_FEW]), *self._of_fit(sites)]
        return sites_first([*whole, *self._of_sites(sites), *self._of_slots(sites), *fitting])

    def _of_fit(self, sites: Sequence[str]) -> Iterator[Remark]:
        if self.misfit:
            out = [name for name, standing in zip(sites, self.sites, strict=True) if standing.is_out]
            who = f"Only {listed(out)}, much further off than the others," if out else "So nobody"
            pairs = zip(sites, self.sites, strict=True)
            less = [name for name, standing in pairs if not standing.is_out and standing.counts < IN_FULL]
            verdict = (
                f"{who} {'are' if len(out) > 1 else 'is'} left out for that: {'the others' if out else 'all sites'}"
                f"{f' except {listed(less)}' if less else ''} count in full."
            )
            yield Remark(
                "many sites disagree",
                "Many sites disagree by more than is usual if components are well separated and the model describes "
                f"the data. {verdict}",
                "Components may overlap, or many values may be missing. If not, look for outliers, skewed columns "
                "(take logarithms) and too few components. Faults not much larger than these differences go unnoticed.",
                severity="warning" if out else "note",
            )

    def _of_sites(self, sites: Sequence[str]) -> Iterator[Remark]:
        evidence = {site: self.sites[site].of_all for site in self.merged}
        large = [site for site in evidence if self.sites[site].large]
        if large:
            total, counted = sum(evidence.values()), sum(evidence[site] * self.sites[site].counts for site in evidence)
            uncounted = sum(evidence[site] * (1.0 - self.sites[site].counts) for site in large)
            shares = listed([f"{sites[site]} ({self.sites[site].counts:.0%})" for site in large])
            yield Remark(
                COUNTS_LESS,
                f"Only part of the evidence of {shares} counts: {'they have' if len(large) > 1 else 'it has'} more "
                "than most sites, and more than these can check.",
                LARGE,
                f"Of the evidence of all sites in the merge, {counted / total:.0%} counts.",
                severity="warning" if uncounted > MUCH * total else "note",
                sites=(*large,),
            )
        for site, reason in self.reasons(sites).items():
            what, standing = f"{sites[site]} {reason}.", self.sites[site]
            if standing.large:
                continue
            kind = COUNTS_LESS if 0.0 < standing.counts < 1.0 else "site hardly counts"
            if standing.flagged:
                again = FIT_AGAIN if standing.alike else self._ask
                ask = again if standing.copy_of is None else COPIED
                yield Remark(kind, what, ask, sites=(site,))
            else:
                yield Remark(kind, what, LESS, severity="note", sites=(site,))

    @property
    def _ask(self) -> str:
        """What to do about a site that is left out; only fits of components depend on where they start."""
        structure = self.alignment.structure
        texts = {ASK: True, AGREED: structure.symmetry and "columns" in structure.model, RESTART: structure.symmetry}
        return " ".join(text for text, holds in texts.items() if holds)

    def _of_slots(self, sites: Sequence[str]) -> Iterator[Remark]:
        by_advice: dict[str, list[str]] = {UNCONFIRMED: [], DIVIDED: [], DESCRIBED: []}
        for slot, few in self.thin_slots().items():
            having = [self.sites[site] for site in few]
            likely = DIVIDED if all(site.alike for site in having) else UNCONFIRMED
            advice = DESCRIBED if any(site.describes for site in having) else likely
            by_advice[advice].append(f"slot {slot}: {listed([sites[site] for site in few])}")
        for advice, thin in by_advice.items():
            doubt = ", which could have made them up" if advice is UNCONFIRMED else ""
            if thin:
                yield Remark(
                    "few sites",
                    f"Some slots rest on few sites{doubt}: {listed(thin, '; ')}.",
                    advice,
                    f"{self.tolerated} of {len(sites)} sites or fewer; a robust merge withstands that many.",
                    severity="warning" if doubt else "note",
                )

    @property
    def tolerated(self) -> int:
        """The number of faulty sites that must not be able to support a component alone: fewer than a third."""
        return tolerated_faults(len(self.sites))

    def thin_slots(self) -> dict[int, list[int]]:
        """Slots supported by no more sites than may be faulty, with those sites: nobody else can check them."""
        slots: dict[int, list[int]] = {}
        for coupled in self.alignment.structure.symmetry if self.tolerated else ():
            pairs = zip(self.alignment.slots(coupled), evidence_by_site(self.alignment.problem(coupled)), strict=True)
            count = self.alignment.structure.components(coupled)
            evidence = np.array([np.bincount(slots, counts, minlength=count) for slots, counts in pairs])
            enough = 0.5 * min(KNOWN, AVERAGE / count) * evidence.sum(axis=1, keepdims=True)
            some = evidence >= LEAST_EVIDENCE
            known = some & (evidence > enough)
            # What nobody confirms counts little, also at the site that found it.
            for slot, column in enumerate(np.where(known.any(axis=0), known, some).T):
                having = sorted(self.merged[site] for site in np.flatnonzero(column))
                if 0 < len(having) <= self.tolerated:
                    slots[slot] = having
        return slots

    def reasons(self, names: Sequence[str] | None = None) -> dict[int, str]:
        """Why sites were left out, count for less or should be checked; sites without a reason are omitted."""
        reasons = {site: standing.reason(names) for site, standing in enumerate(self.sites)}
        return {site: reason for site, reason in reasons.items() if reason}
