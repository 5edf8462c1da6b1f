"""Remarks on a merge. `benchmarks/remarks.py` measures how often each one is right."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from scipy.sparse import csr_array

from decbayes.families import Array
from decbayes.families.matrices import Indices, stored
from decbayes.merging.base.components import LEAST_EVIDENCE, group_evidence
from decbayes.merging.base.copies import same_data
from decbayes.merging.base.problem import Decided
from decbayes.merging.base.subjects import Subjects
from decbayes.merging.grouping.shared import LEAST_PER_PARAMETER, Shared
from decbayes.posterior import Posterior
from decbayes.remarks import (
    CONSTANT,
    FEW_SLOTS,
    MOST_NAMED,
    NOTHING_SHARED,
    RULES,
    SITE_ALONE,
    UNAGREED,
    Remark,
    listed,
    ordered,
    site_names,
    warnings_in,
    with_shares,
)
from decbayes.structure import CoupledSet, Structure

# A site stands alone if more than this share of its evidence is in slots that no other site supports.
ALONE = 0.5
# Another site supports a slot if it has there SUPPORTED of the site's share, or FEW of its own data: a few outliers do
# not. Sites have something in common if COMMON of their data is.
SUPPORTED, FEW, COMMON = 0.2, 0.07, 0.03
# Warn if sites alone predict their data better by more than this, in nats per observation.
CLEAR_GAIN = 0.05
# The cost of few data, relative to that of as many parameters without a prior.
COST = 0.6
# Warn if splitting slots should improve predictions by more than this, in nats per observation.
COSTLY = 0.02
# What concerns at least this share of the sites concerns the merge, such as sites that have found one component only.
MANY = 0.2
# A site with this many times as many components as there are slots has sent pieces of components.
PIECES = 1.5
# Sites may miss components if one must gain more than this to be kept, in nats per observation.
UNPAID = 0.1
# With fewer observations at a site, pieces of components are no better than what "auto" finds.
ROWS_FOR_PIECES = 100
# Texts share hardly any words if the affinity of their frequent words is smaller than STRANGERS; from KIN on they have
# topics in common, whatever their slots.
STRANGERS, KIN = 0.25, 0.65
CODING = "Check that all sites use the same units, columns and coding."
LANGUAGES = "Check that all sites prepare texts in the same way; texts on other subjects merge better by themselves."
# What to do about slots that hold different components, by what decided their number.
MORE_SLOTS: Mapping[Decided, str] = {
    "given": "Merge with more components, and compare both on held-out data.",
    "largest": 'Merge with more components ("auto" looks for how many), and compare both on held-out data.',
    "auto": 'Merge with more components than "auto" took, and compare both on held-out data.',
    "predictions": "Merge with more components, and compare both on held-out data.",
    "rounds": "Begin again with more components, and compare both on held-out data.",
}


def remarks_on(
    posteriors: Sequence[Posterior],
    structure: Structure,
    shared: Mapping[CoupledSet, Shared],
    names: Sequence[str],
    decided: Decided = "given",
) -> tuple[Remark, ...]:
    """All remarks, warnings first. `names` are those of the sites, and `decided` is as in an alignment."""
    remarks = [*of_posteriors(posteriors, names)]
    before = len(remarks)
    for coupled, of_set in shared.items():
        if are_budgets(structure):
            remarks += unlike_texts(subjects_of(posteriors, of_set, coupled), names, decided)
        else:  # first: a site in other units also makes components differ
            remarks += separate(of_set.parts.evidence, names, of_set.parts.alike, of_set.evidence)
        remarks += few_slots(structure, coupled, of_set, decided)
        remarks += unlike_shares(structure, coupled, of_set)
        remarks += near_duplicates(of_set)
        if decided != "rounds":
            found = found_by_sites(posteriors, coupled)
            is_open = decided != "given" and structure.resizable and bool(weight_factors(structure, coupled))
            remarks += small_sites(of_set, found, classes(structure, coupled), unit_of(structure, coupled), is_open)
    unlike = any(remark.sites or remark.kind == FEW_SLOTS for remark in warnings_in(remarks[before:]))
    return ordered([*constant_columns(posteriors, names, unlike), *remarks])


def of_posteriors(posteriors: Sequence[Posterior], names: Sequence[str]) -> Iterator[Remark]:
    """Remarks that do not depend on the alignment."""
    yield from same_data(posteriors, names)
    yield from without_data(posteriors, names)
    yield from of_sites(posteriors, names)


def warnings_of_topics(
    subjects: Subjects, names: Sequence[str] | None = None, decided: Decided = "given"
) -> tuple[Remark, ...]:
    """The warnings for components that are budgets of counts."""
    names = names or site_names(len(subjects.posteriors))
    remarks = [*of_posteriors(subjects.posteriors, names), *unlike_texts(subjects, names, decided)]
    return warnings_in(ordered(remarks))


def subjects_of(posteriors: Sequence[Posterior], shared: Shared, coupled: CoupledSet) -> Subjects:
    slots = np.split(shared.components.labels, np.cumsum(shared.sizes)[:-1])
    return Subjects(posteriors, slots, len(shared.split), coupled)


def are_budgets(structure: Structure) -> bool:
    """Whether components are counts, of which more always fit better, as topics: remarks on slots are no warnings."""
    sets = structure.symmetry
    return len(sets) == 1 and all(structure.families[name].countable for name in sets[0].factors)


def few_slots(structure: Structure, coupled: CoupledSet, shared: Shared, decided: Decided) -> Iterator[Remark]:
    """Slots with different components: a warning if they clearly cost predictive accuracy.

    More slots always make topics finer, which deserves no warning. If the number was chosen by how well sites predict
    each other, new data may support more, and the remark says what speaks against it.
    """
    if not shared.unlike:
        return
    budget = all(structure.families[name].countable for name in coupled.factors)
    several, slots = len(shared.unlike) > 1, listed(list(map(str, shared.unlike)))
    unit = unit_of(structure, coupled).removesuffix("s")
    gain = float(shared.predictive[list(shared.unlike)].sum())
    serious = gain > COSTLY and not budget
    weighed = decided == "predictions"
    no_better = "may predict new data better, although the sites predict each other's data no better with them"
    better = no_better if weighed else "probably predict better"
    finer = "be finer" if budget else "be finer, and may or may not predict better"
    meaning = better if serious else finer
    count, would = len(shared.split), "" if serious and weighed else "would "
    more = f"with more than {count} slot{'' if count == 1 else 's'} the merge {would}{meaning}"
    yield Remark(
        FEW_SLOTS,
        f"Slot{'s' if several else ''} {slots} hold{'' if several else 's'} components that differ: {more}.",
        MORE_SLOTS[decided],
        f"Estimated gain of splitting {'them' if several else 'it'}: {gain:.2g} nats per {unit}." if serious else "",
        "warning" if serious else "note",
    )


def near_duplicates(shared: Shared) -> Iterator[Remark]:
    if shared.duplicates:
        pairs = listed([f"{first} and {second}" for first, second in shared.duplicates])
        yield Remark(
            "duplicate slots",
            f"Nearly the same: slots {pairs}.",
            "Join them (`decbayes join`, `db.merging.join`) if they mean the same.",
            severity="note",
        )


def found_by_sites(posteriors: Sequence[Posterior], coupled: CoupledSet) -> Indices:
    """The number of components found by each site."""
    return np.array([(group_evidence(one, coupled.factors) >= LEAST_EVIDENCE).sum() for one in posteriors])


def classes(structure: Structure, coupled: CoupledSet) -> bool:
    """Whether components are those of a mixture and have binary or categorical columns: its fits may be "wide"."""
    discrete = any(structure.families[name].categorical for name in coupled.factors)
    return discrete and bool(weight_factors(structure, coupled))


def unit_of(structure: Structure, coupled: CoupledSet) -> str:
    """What the evidence of components counts."""
    if are_budgets(structure):
        return "occurrences of words"
    return "steps" if any(structure.families[name].two_sided for name in coupled.factors) else "observations"


def small_sites(
    shared: Shared, components: Indices, classes: bool, unit: str, is_open: bool = False
) -> Iterator[Remark]:
    """Sites too small to find the components alone: a warning if many found just one where others found more.

    All data of such a site are in one slot, which then mixes several components. Only then are pieces of components
    better than what sites have found; sites that sent pieces already, far more than there are slots, are not asked for
    them. Sites that have searched for a number of components,
    if it `is_open`, have found as many as their own data pay for, and rounds that keep these numbers help little.
    """
    if len(components) < 2:
        return
    single, most = int((components == 1).sum()), int(components.max())
    searched = is_open and (most == 1 or len(set(shared.sizes)) > 1)
    unpaid = searched and price_of_component(shared) > UNPAID
    if shared.per_parameter >= LEAST_PER_PARAMETER and not unpaid:
        return
    collapsed, pieces = most > 1 and single >= MANY * len(components), most >= PIECES * len(shared.split)
    enough = np.median(shared.evidence.sum(axis=1)) >= ROWS_FOR_PIECES
    alone = f"{single} of {len(components)} sites found one component, others up to {most}: "
    few = "Sites have too few data to find the components alone"
    what = f"{few}: one broadcast may be far from one fit of all data."
    if collapsed:
        what = f"{alone}{few[0].lower()}{few[1:]}, and the merge may miss some of them."
    elif unpaid:
        what = "Each site found as many components as its own data support: all data together may support more."
    advice = "Take rounds (refine) before you rely on components or intervals."
    if classes and single and not pieces and enough:
        advice = 'Take rounds (refine); or fit "wide" at all sites, and merge with components="auto".'
    elif searched:
        advice = 'Take rounds with components="auto" (refine), in which sites find the number together.'
    yield Remark(
        "small sites",
        what,
        advice,
        f"The median component of a site has {shared.per_parameter:.1f} {unit} per parameter.",
        "warning" if collapsed else "note",
    )


def price_of_component(shared: Shared) -> float:
    """What a further component must gain at a site for a fit to keep it: (p + 1) / 2 · log n, per observation.

    Components that gain less at each site are missed by all of them, and found in all data.
    """
    rows = max(float(np.median(shared.evidence.sum(axis=1))), 1.0)
    return 0.5 * (shared.parameters + 1.0) * float(np.log(rows)) / rows


def separate(
    evidence: Array, names: Sequence[str], alike: Array | None = None, slots: Array | None = None
) -> Iterator[Remark]:
    """Sites with most of their evidence in unshared slots, or groups of sites that share none at all.

    `slots` is the evidence in each slot, if that of slots with different components is apart in `evidence`.
    """
    groups, alone = estranged(evidence, alike)
    yield from named_apart(groups, alone, names, f"{placed(groups, evidence if slots is None else slots)} {CODING}")


def placed(groups: Sequence[Sequence[int]], slots: Array) -> str:
    """What a merge does to groups of sites that share nothing."""
    averaged = len(groups) > 1 and len(estranged(slots)[0]) < len(groups)
    return f"The merge {'averages them in common slots' if averaged else 'only puts them side by side'}."


def named_apart(
    groups: Sequence[Sequence[int]], alone: Mapping[int, float], names: Sequence[str], advice: str
) -> Iterator[Remark]:
    """Groups of sites that share nothing; else sites with most of their evidence in slots of their own."""
    if len(groups) > 1:
        yield Remark(
            NOTHING_SHARED,
            f"{len(groups)} groups of sites have no component in common: {texts_of(groups, names)}.",
            advice,
            sites=in_minority(groups),
        )
    elif alone:
        which = with_shares([(names[site], share) for site, share in alone.items()], "its data")
        yield Remark(
            SITE_ALONE,
            f"Most of what {which} found is unknown to all other sites.",
            "Check its units and coding; if its data differ, no other site can confirm these components.",
            sites=(*alone,),
        )


def in_minority(groups: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """The sites outside the largest group; all sites if several groups are as large."""
    largest = max(map(len, groups))
    smaller = [group for group in groups if len(group) < largest]
    named = smaller if len(smaller) == len(groups) - 1 else groups
    return tuple(sorted(site for group in named for site in group))


def texts_of(groups: Sequence[Sequence[int]], names: Sequence[str]) -> str:
    texts = (listed([names[site] for site in group]) for group in groups)
    return "; ".join(sorted(texts, key=lambda text: (-len(text), text))[:MOST_NAMED])


def unlike_texts(subjects: Subjects, names: Sequence[str], decided: Decided) -> Iterator[Remark]:
    """Sites on different subjects: those that more slots would predict better, or that share no topics or words."""
    if decided != "rounds" and subjects.posteriors[0].structure.resizable:
        yield from subjects.fused(names)
    groups, alone = estranged_texts(subjects)
    strangers = subjects.words.groups(STRANGERS)
    if len(strangers) < max(len(groups), 2):
        yield from named_apart(groups, alone, names, f"{placed(groups, subjects.in_slots)} {LANGUAGES}")
    else:
        single = len(strangers) == len(names)
        yield Remark(
            NOTHING_SHARED,
            f"{len(strangers)} {'sites' if single else 'groups of sites'} share hardly any words: "
            f"{texts_of(strangers, names)}.",
            f"{'Do not merge them' if single else 'Merge each group by itself'}: topics of other languages or other "
            "recipes have nothing in common.",
            sites=in_minority(strangers),
        )


def estranged_texts(subjects: Subjects) -> tuple[list[list[int]], dict[int, float]]:
    """The same as `estranged` for topics: sites with the same frequent words share topics, even in other slots.

    Counts divided among slots do not tell: rare words share their counts, and make all slots look common.
    """
    groups, alone = estranged(subjects.evidence, joined=partial(subjects.words.joined, least=KIN))
    near = {site: np.delete(subjects.words.affinities(site), site).max() for site in alone}
    return groups, {site: alone[site] for site in alone if near[site] < KIN}


def estranged(
    evidence: Array, alike: Array | None = None, joined: Callable[[list[list[int]]], list[list[int]]] = list
) -> tuple[list[list[int]], dict[int, float]]:
    """Groups of sites that share no slot; if there is one group, sites with most of their evidence in their own slots.

    `alike` says how far evidence in one slot supports another; by default each slot only supports itself.
    `joined` joins groups that have something in common for other reasons.
    """
    from scipy.sparse.csgraph import connected_components  # slow to import

    evidence = np.where(evidence >= LEAST_EVIDENCE, evidence, 0.0)
    filled = np.flatnonzero(evidence.any(axis=1))
    if len(filled) < 2:
        return [], {}
    shares = evidence[filled] / evidence[filled].sum(axis=1, keepdims=True)
    supported = shares if alike is None else shares @ alike
    count, group = connected_components(csr_array(in_common(shares, supported) >= COMMON), directed=False)
    groups = joined([filled[group == one].tolist() for one in range(count)])
    if len(groups) > 1 or len(filled) < 3:
        return groups, {}
    unshared = only_here(shares, supported)
    return groups, {int(filled[site]): float(unshared[site]) for site in np.flatnonzero(unshared > ALONE)}


def in_common(shares: Array, supported: Array) -> Array:
    """(sites, sites): how much of the shares of two sites is in common, by the one that sees less in common."""
    common = np.array([np.minimum(site, supported).sum(axis=1) for site in shares])
    return np.asarray(np.minimum(common, common.T))


def only_here(shares: Array, supported: Array) -> Array:
    """Per site: the share of its evidence in slots that no other site supports."""
    most, second = np.partition(supported, -2, axis=0)[[-1, -2]]
    others = np.where(supported == most, second, most)
    return np.asarray(np.where(others < np.minimum(SUPPORTED * shares, FEW), shares, 0.0).sum(axis=1))


def unlike_shares(structure: Structure, coupled: CoupledSet, shared: Shared) -> Iterator[Remark]:
    """A warning if sites alone predict their data clearly better than the merge, because their shares differ."""
    having = shared.evidence.sum(axis=1) >= LEAST_EVIDENCE
    if having.sum() < 2 or not weight_factors(structure, coupled):
        return
    apart = shared.whole_apart[having]
    gain = float(share_gains(shared.evidence[having], shared.parameters, shared.alike, apart).mean())
    if gain > CLEAR_GAIN:
        yield Remark(
            "unlike shares",
            "Sites have the components in different shares: alone they may predict their own data better than merged.",
            "To predict at one site, keep its own weights: `merge --weights-of` its file, or `align(…).at_site(0)`.",
            f"Estimated gain: {gain:.2g} nats per observation.",
        )


def weight_factors(structure: Structure, coupled: CoupledSet) -> list[str]:
    """The factors that hold the shares of components; none if these depend on the state before."""
    families = {name: structure.families[name] for name in coupled.factors}
    weights = [name for name, family in families.items() if family.over_components and not family.follows]
    return [] if any(family.two_sided for family in families.values()) else weights


def share_gains(evidence: Array, parameters: float, alike: Array, apart: Array) -> Array:
    """Per site: nats per observation gained by its own shares of slots, less the cost of few data.

        min(Σ_k w_ik log (Z w_i)_k / (Z w)_k, D_i) − COST · k_i (p + 1) / (2 n_i)

    w_i are the shares of slots at site i with one observation added to each, w those of all sites, k_i the number of
    slots that the site fills, p the parameters of a component, n_i the site's observations. Z says how alike slots are:
    fits divide overlapping components differently at each site, and shares then differ although the sites do not. So
    they do where sites have divided the same data into other components: D_i (`apart`) is how far their data as a whole
    differ.
    """
    slots, observations = evidence.shape[1], evidence.sum(axis=1)
    site_shares = (evidence + 1.0) / (observations[:, None] + slots)
    everywhere = (evidence.sum(axis=0) + 1.0) / (observations.sum() + slots)
    divergence = (site_shares * np.log((site_shares @ alike) / (everywhere @ alike))).sum(axis=1)
    used = (evidence >= LEAST_EVIDENCE).sum(axis=1)
    return np.asarray(np.minimum(divergence, apart) - COST * used * (parameters + 1.0) / (2.0 * observations))


def without_data(posteriors: Sequence[Posterior], names: Sequence[str]) -> Iterator[Remark]:
    pairs = enumerate(posteriors)
    if empty := [site for site, one in pairs if not any(stored(part).any() for part in one.contribution.values())]:
        yield Remark(
            "no data",
            f"No data: {listed([names[site] for site in empty])}.",
            "The posterior equals the prior. Was the right file fitted?",
            sites=(*empty,),
        )


def of_sites(posteriors: Sequence[Posterior], names: Sequence[str]) -> Iterator[Remark]:
    """Warnings that the sites' posteriors carry, and what counts as something else, each once with its sites.

    Changes at many sites are a warning even if they matter little at each of them: they all go in one direction.
    """
    for remark, sites in said_by(posteriors).items():
        if not (remark.is_warning or remark.kind in (RULES, UNAGREED)):
            continue
        serious = remark.is_warning or (remark.kind == RULES and len(sites) >= MANY * len(names))
        what = f"{listed([names[site] for site in sites])}: {remark.what}"
        yield replace(remark, what=what, severity="warning" if serious else "note", sites=(*sites,))


def constant_columns(posteriors: Sequence[Posterior], names: Sequence[str], unlike: bool) -> Iterator[Remark]:
    """Columns that are constant at some sites only: a warning if there are components that differ."""
    why = "This may be why components differ: leave the columns out at all sites, or leave these sites out."
    for remark, sites in said_by(posteriors).items():
        if remark.kind == CONSTANT and len(sites) < len(names):
            what = f"{listed([names[site] for site in sites])}: {remark.what}"
            advice = why if unlike else remark.advice
            yield Remark(CONSTANT, what, advice, severity="warning" if unlike else "note", sites=(*sites,))


def said_by(posteriors: Sequence[Posterior]) -> dict[Remark, list[int]]:
    """What posteriors say of their own data, with the sites that say it.

    Advice may quote a site's values: it is that of the first site, so that all sites follow the same.
    """
    sites: dict[tuple[str, str, str], list[int]] = {}
    first: dict[tuple[str, str, str], Remark] = {}
    for site, posterior in enumerate(posteriors):
        for remark in dict.fromkeys(posterior.remarks):
            meaning = remark.kind, remark.what, remark.severity
            first.setdefault(meaning, remark)
            sites.setdefault(meaning, []).append(site)
    return {first[meaning]: sites[meaning] for meaning in first}
