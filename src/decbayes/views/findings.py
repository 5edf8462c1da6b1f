"""A merge and everything derived from it, computed once."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from decbayes.errors import NotCalibrated
from decbayes.families import Array
from decbayes.families.matrices import Indices
from decbayes.merging import Alignment, Reliability, Tree, reading
from decbayes.merging.base.components import groups_of
from decbayes.merging.base.coupled import reordered
from decbayes.merging.base.lineage import as_components
from decbayes.merging.grouping.shared import Shared
from decbayes.merging.reading import CLOSE, DOUBTFUL, Heterogeneity, Influence, Parties
from decbayes.merging.remarking import remarks_on
from decbayes.models.topics.quality import CoOccurrence
from decbayes.posterior import Posterior
from decbayes.remarks import (
    DISSENT,
    LARGE,
    NOTHING_SHARED,
    OF_VALUES,
    SITE_ALONE,
    TOO_NARROW,
    UNITS,
    Remark,
    about_sites,
    by_number,
    warnings_in,
    with_measured_distance,
)
from decbayes.structure import CoupledSet
from decbayes.views.coefficient_view import has_robust_errors
from decbayes.views.text_summary import filled_slots
from decbayes.views.values import count_of, number, plural
from decbayes.views.view import Notes, View, view_of

# Components with fewer observations may describe single ones; statistical offices seldom publish such cells.
LEAST = 5.0
# How many matches to simulate.
SIMULATED = 100


@dataclass(frozen=True, eq=False)
class Sureness:
    """Sites × slots: how certain the least certain match is (NaN if the site has none there).

    A match is a component with data that shares its slot with another site's; several may be in one cell. `components`
    are their certainties, site by site; NaN for components that are no match.
    """

    values: Array
    components: tuple[Array, ...]
    bound: float
    words: str
    name: str = "margin"
    limit: str = f"under {CLOSE:g} nats"
    expected_wrong: float | None = None
    """The expected number of wrong matches; None if unknown."""

    @property
    def close(self) -> NDArray[np.bool_]:
        """Sites × slots: whether a match there is a close call."""
        return np.asarray(self.values < self.bound)

    @property
    def matches(self) -> int:
        return sum(int((~np.isnan(site)).sum()) for site in self.components)

    @property
    def close_calls(self) -> int:
        """How many of the matches are close calls."""
        return sum(int((site < self.bound).sum()) for site in self.components)

    def text(self, site: int, slot: int) -> str:
        """One value for people."""
        return self.worded(float(self.values[site, slot]))

    def worded(self, value: float) -> str:
        if np.isnan(value):
            return "–"
        return f"{value:.0%}" if self.name == "probability" else number(value)


def sureness(alignment: Alignment, coupled: CoupledSet, reliability: Reliability | None = None) -> Sureness:
    """How certain each match is. This is the only place that chooses the measure."""
    if reliability is not None:
        confidence = reading.confidence(alignment, reliability)
        components = tuple(site[coupled] for site in confidence.probabilities)
        values = least_sure(alignment, coupled, confidence.probabilities)
        words = (
            "the probability that a component belongs in its slot, learned from simulations of sites like these, is "
            f"below {DOUBTFUL:g}"
        )
        limit, (wrong, _) = f"probability under {DOUBTFUL:g}", confidence.expected_wrong(coupled)
        return Sureness(values, components, DOUBTFUL, words, "probability", limit, wrong)
    margins = match_margins(alignment, coupled)
    values = least_sure(alignment, coupled, [{coupled: site} for site in margins])
    words = f"the objective would lose less than {CLOSE:g} nats in the next best slot"
    return Sureness(values, margins, CLOSE, words)


def match_margins(alignment: Alignment, coupled: CoupledSet) -> tuple[Array, ...]:
    """Per site: the margin of each component; NaN if it is empty or alone in its slot, which is no match."""
    pairs = zip(reading.seen(alignment, coupled), reading.alone(alignment, coupled), strict=True)
    return tuple(
        np.where(seen & ~alone, site[coupled], np.nan)
        for site, (seen, alone) in zip(reading.margins(alignment), pairs, strict=True)
    )


def simulated_reliability(alignment: Alignment, length: float | None = None) -> Reliability | None:
    """How reliable matches are, from simulated sites; None if that takes long or is impossible."""
    from decbayes import calibration  # simulates sites, which loads all models

    if len(alignment.posteriors) < 2 or not calibration.quick(alignment):
        return None
    try:
        return calibration.reliability(alignment, matches=SIMULATED, length=length)
    except NotCalibrated:
        return None


def least_sure(alignment: Alignment, coupled: CoupledSet, values: Sequence[Mapping[CoupledSet, Array]]) -> Array:
    """Sites × slots: the smallest value of the components in each cell; NaN if there are none."""
    least = np.full((len(values), alignment.structure.components(coupled)), np.nan)
    for row, site, assignment, seen in zip(
        least, values, alignment.assignments, reading.seen(alignment, coupled), strict=True
    ):
        np.fmin.at(row, assignment[coupled][seen], site[coupled][seen])
    return least


@dataclass(frozen=True, eq=False)
class Findings:
    """An alignment, the names of its sites, and everything that follows from both.

    Components with fewer than `least` observations are not shown. `rows` are the persons, documents or sequences behind
    each posterior, if known; `calibrated` is the same merge with better intervals.
    """

    alignment: Alignment
    names: tuple[str, ...]
    least: float = LEAST
    reliability: Reliability | None = None
    counts: CoOccurrence | None = None
    rows: tuple[int, ...] | None = None
    calibrated: Posterior | None = None

    @classmethod
    def by_name(cls, alignment: Alignment, names: Sequence[str], **more: Any) -> "Findings":
        """Findings with sites sorted by name, so that their order does not change a bit."""
        texts = tuple(map(str, names))
        if len(texts) != len(alignment.posteriors) or len(set(texts)) != len(texts):
            raise ValueError(f"names must be distinct, one for each of the {len(alignment.posteriors)} posteriors.")
        sites = sorted(range(len(texts)), key=lambda site: by_number(texts[site]))
        divisions = alignment.divisions.items()
        ordered = replace(
            alignment,
            assignments=tuple(alignment.assignments[site] for site in sites),
            posteriors=reordered(alignment.posteriors, sites),
            order=tuple(sites.index(site) for site in alignment.order),
            divisions={coupled: part.of_sites(part.shares[site] for site in sites) for coupled, part in divisions},
        )
        if more.get("rows") is not None:
            more["rows"] = tuple(more["rows"][site] for site in sites)
        return cls(ordered, tuple(texts[site] for site in sites), **more)

    @property
    def sites(self) -> range:
        return range(len(self.names))

    @cached_property
    def merged(self) -> Posterior:
        merged, known = self.alignment.merged(), self.calibrated
        if known is None or replace(known, calibration=None).digest != merged.digest:
            return merged
        return replace(merged, calibration=known.calibration)

    @cached_property
    def view(self) -> View:
        return view_of(self.merged.structure)

    @property
    def unit(self) -> str:
        """What contributions count, in the plural."""
        return f"{self.view.unit}s"

    def nouns(self, count: int) -> str:
        """A number of components with their noun: 1 class, 3 classes."""
        return f"{number(count)} {plural(self.view.noun, count)}"

    @cached_property
    def sets(self) -> tuple[CoupledSet, ...]:
        return tuple(self.alignment.structure.symmetry)

    @cached_property
    def shared(self) -> dict[CoupledSet, Shared]:
        return dict(self.alignment.shared())

    @cached_property
    def sureness(self) -> dict[CoupledSet, Sureness]:
        return {coupled: sureness(self.alignment, coupled, self.reliability) for coupled in self.sets}

    @property
    def why_unknown(self) -> str:
        """Why no simulation can say how likely matches are right; empty if one may."""
        from decbayes.calibration import why_unknown  # simulates sites, which loads all models

        return why_unknown(self.alignment)

    @cached_property
    def influence(self) -> Influence:
        return reading.influence(self.alignment)

    @cached_property
    def parties(self) -> Parties:
        """The groups of sites that the merge depends on."""
        return reading.parties(self.alignment)

    @cached_property
    def heterogeneity(self) -> dict[CoupledSet, Heterogeneity]:
        """How much more sites differ than by chance."""
        from decbayes.calibration import heterogeneity  # simulates sites, which loads all models

        return dict(heterogeneity(self.alignment)) if len(self.sites) > 1 else {}

    @cached_property
    def standing_out(self) -> dict[tuple[str, str], list[int]]:
        """The sites that deserve a look, by reason: those that warnings name, and those that Bayes factors or their
        weight mark. A reason is worded for one site and for several.
        """
        if len(self.sites) < 2:
            return {}
        named: list[tuple[str, Collection[int]]] = [(one.kind, one.sites) for one in self.warnings if one.kind != UNITS]
        strangers = {site for kind, sites in named if kind in (NOTHING_SHARED, SITE_ALONE) for site in sites}
        disagreeing, large = flagged(self.influence.disagreeing), flagged(self.influence.large)
        named += [(DISSENT, [site for site in disagreeing if site not in strangers]), (LARGE, large)]
        others = "each other" if len(self.sites) == 2 else "most other sites"
        reasons = about_sites(named, self.view.noun, others)
        for site, column, _ in self.view.other_units(self.alignment):
            text = f"to have {column} in another unit than the others"
            reasons.setdefault((f"seems {text}", f"seem {text}"), []).append(site)
        return reasons

    @cached_property
    def usual(self) -> tuple[Remark, ...]:
        """The remarks on any merge, without those that do not apply to this one."""
        alignment = self.alignment
        remarks = remarks_on(alignment.posteriors, alignment.structure, self.shared, self.names, alignment.decided)
        return tuple(remark for remark in remarks if remark.kind not in self.settled)

    @cached_property
    def advice(self) -> tuple[Remark, ...]:
        """The remarks on merges of such a model."""
        return tuple(self.view.advice(self.alignment, self.names))

    @cached_property
    def warnings(self) -> tuple[Remark, ...]:
        """The warnings of the merge, and of the sites and groups that it depends on."""
        noticed = with_measured_distance((*self.usual, *self.advice, *self.parties.remarks(self.names)))
        return warnings_in(noticed)

    def flags(self, site: int) -> tuple[str, ...]:
        """What stands out about a site, in a few words."""
        return self.influence.flags(site, self.warnings) if len(self.sites) > 1 else ()

    @property
    def doubted(self) -> list[int]:
        """The sites whose values may be in another unit than agreed, or codes: these may decide the result."""
        doubts = [remark for remark in self.warnings if remark.kind in (*OF_VALUES, UNITS)]
        return sorted({site for remark in doubts for site in remark.sites})

    @property
    def settled(self) -> Collection[str]:
        """The kinds of sites' warnings that do not apply to the merge: intervals with robust errors are wide enough."""
        return TOO_NARROW if has_robust_errors(self.merged) else ()

    @property
    def undecided(self) -> list[str]:
        """Why it is unknown whether sites differ by more than chance; empty if it is known."""
        comparisons = self.heterogeneity.values()
        reasons = [self.view.undecided(self.alignment), *(comparison.reason for comparison in comparisons)]
        return [*dict.fromkeys(reason.rstrip(".") for reason in reasons if reason)]

    @property
    def length(self) -> float | None:
        """The mean length of documents in words, if the number of documents is known."""
        if self.rows is None or self.view.unit != "word":
            return None
        return float(self.evidence.sum()) / max(sum(self.rows), 1)

    @cached_property
    def evidence(self) -> Array:
        """How many observations each site has."""
        return self.view.observations(self.alignment, self.slots(0)[0])

    @cached_property
    def sizes(self) -> tuple[Array, str]:
        """How many persons, documents or sequences each site has, by its file or its contribution, and their name.

        If unknown, what contributions count, such as words; NaN if they count nothing, as in a weighted regression.
        """
        record = self.view.record
        if self.rows is not None:
            return np.array(self.rows, dtype=np.float64), record
        tallies = [self.view.tally(posterior) for posterior in self.alignment.posteriors]
        if any(tally is None for tally in tallies):
            return self.evidence, self.view.counted
        observed = np.array([agreed_total(tally.observed) for tally in tallies if tally is not None])
        if np.isfinite(observed).all():
            return observed, record
        return np.array([agreed_total(tally.totals) for tally in tallies if tally is not None]), self.view.counted

    @property
    def total(self) -> str:
        """The number at all sites together, in words; empty if unknown."""
        sizes, unit = self.sizes
        return count_of(float(sizes.sum()), unit) if np.isfinite(sizes).all() else ""

    @cached_property
    def shares(self) -> Array:
        """Each site's share of all data; of all information, if the amount of data is unknown."""
        sizes, _ = self.sizes
        known = np.isfinite(sizes).all() and sizes.sum() > 0.0
        return sizes / sizes.sum() if known else self.influence.share

    def slots(self, group: int) -> tuple[Array, Array]:
        """Sites × slots of one coupled set, or of a factor without one: evidence and log Bayes factors."""
        sizes = [len(self.merged.structure.prior[names[0]]) for names in groups_of(self.merged.structure)]
        place = slice(sum(sizes[:group]), sum(sizes[: group + 1]))
        return self.influence.evidence[:, place], self.influence.log_bayes_factor[:, place]

    def amounts(self, coupled: CoupledSet) -> Array:
        """The evidence in each slot of the merge. Parts of a divided component count in their own slots."""
        divided = coupled in self.alignment.divisions
        return as_components(self.merged).evidence if divided else self.shared[coupled].evidence.sum(axis=0)

    def hidden(self, coupled: CoupledSet) -> NDArray[np.bool_]:
        """Slots with too few observations to be shown; they are only counted."""
        evidence = self.shared[coupled].evidence.sum(axis=0)
        return np.asarray((evidence > 0) & (evidence < self.least))

    def filled_slots(self, coupled: CoupledSet) -> list[int]:
        """Slots that some site has filled; the others are only counted."""
        return filled_slots(self.merged, coupled)

    @cached_property
    def visible(self) -> list[int]:
        """The components that may be drawn: those of the first coupled set, if there is one."""
        return [slot for first in self.sets[:1] for slot in self.filled_slots(first) if not self.hidden(first)[slot]]

    @cached_property
    def notes(self) -> Notes:
        """What readers should know about all components and about each."""
        return self.view.notes(self.merged, self.counts)

    def titles(self, coupled: CoupledSet) -> list[str]:
        """The name of each component: "river, fish, boat"; or else its noun and number: "cluster 3"."""
        size = self.alignment.structure.components(coupled)
        names = [*self.view.names(self.merged)]
        numbered = [f"{self.view.noun} {slot}" for slot in range(size)]
        return [name or text for name, text in zip(names, numbered, strict=True)] if len(names) == size else numbered

    def labels(self, coupled: CoupledSet) -> list[str | int]:
        """The name of each component, or its number if it has no name or is not shown."""
        hidden = self.hidden(coupled)
        pairs = enumerate(self.titles(coupled))
        return [slot if hidden[slot] or title.endswith(f" {slot}") else title for slot, title in pairs]

    def captions(self, coupled: CoupledSet, posterior: Posterior | None = None) -> list[str]:
        """A few words on each component of the merge or of another posterior; empty if there are none."""
        texts = self.view.captions(posterior or self.merged)
        size = self.alignment.structure.components(coupled)
        return texts if len(texts) == size else [""] * size


def flagged(sites: NDArray[np.bool_]) -> list[int]:
    places: list[int] = np.flatnonzero(sites).tolist()
    return places


def agreed_total(totals: ArrayLike) -> float:
    """The number that totals agree on; NaN if there are none."""
    return float(np.maximum(np.max(totals, initial=-np.inf), 0.0)) if np.size(totals) else np.nan


class Branches(NamedTuple):
    """A tree as line segments of shape (2, 2), and the site of all leaves below each (−1 if several).

    `leaves` are the components from left to right, ten apart, and `sites` the site of each.
    """

    lines: list[Array]
    owners: list[int]
    leaves: list[int]
    sites: Indices
    height: float

    @property
    def feet(self) -> Array:
        return np.asarray(5.0 + 10.0 * np.arange(len(self.leaves)))

    def ticks(self) -> list[int]:
        """Powers of ten, in nats; heights are log(1 + nats)."""
        return [0, *(10**power for power in range(int(np.log10(max(np.expm1(self.height), 1.0))) + 1))]


def branches(tree: Tree) -> Branches:
    """Lay out a tree with SciPy; heights are log(1 + nats lost by joining)."""
    from scipy.cluster.hierarchy import dendrogram

    linkage, sites = tree.linkage(), tree.sites()
    owner: list[int] = sites.tolist()
    for first, second in linkage[:, :2].astype(int).tolist():
        owner.append(owner[first] if owner[first] == owner[second] else -1)
    linkage[:, 2] = np.log1p(np.maximum(linkage[:, 2], 0.0))
    layout: dict[str, Any] = dendrogram(linkage, no_plot=True, link_color_func=lambda node: str(owner[node]))
    tree_lines = Branches(
        [], [], layout["leaves"], sites[layout["leaves"]], float(np.max(layout["dcoord"], initial=1.0))
    )
    below = dict(zip(tree_lines.feet.tolist(), tree_lines.sites.tolist(), strict=True))
    joins = zip(layout["icoord"], layout["dcoord"], map(int, layout["color_list"]), strict=True)
    for across, up, site in sorted(joins, key=lambda join: join[1][1]):
        corners = np.column_stack([across, up])
        tree_lines.lines.extend([corners[:2], corners[1:3], corners[2:]])
        tree_lines.owners.extend([below[across[0]], site, below[across[3]]])
        below[0.5 * (across[0] + across[3])] = site
    return tree_lines
