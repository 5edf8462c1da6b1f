"""How much better more slots describe the topics of sites that did not shape them.

More slots always describe their own components better, whatever these are. So sites are left out in turn, and each of
their components is described as a mixture of the slots of all other sites, as a document would be. Words whose counts a
site shares out are left out of its description: equal counts everywhere always fit better in slots of their own.
"""

import numpy as np
from scipy.sparse import csr_array
from scipy.special import xlogy

from decbayes.families.matrices import Array, Indices
from decbayes.families.rows import SparseRows
from decbayes.merging.base.components import Components, sites_of
from decbayes.merging.base.problem import Problem
from decbayes.merging.base.subjects import shared_out
from decbayes.merging.grouping.joins import grown_labels
from decbayes.merging.grouping.search import SlotSearch

# The share of the gain that shows in predictions of documents, whose mixtures are known less well than those of topics.
KEPT = 0.7
# Groups of sites that are left out in turn, components of each that are described, and passes.
FOLDS, DESCRIBED, PASSES = 5, 20, 10
# Without a site that has more than this share of all counts, slots are hardly those of the merge.
LEFT_OUT = 0.5
# More slots describe other sites better from this gain on, in nats per observation. The search for the slots of MOST
# components takes long.
BETTER, MOST = 0.03, 1000
TINY = 1e-300

Slots = tuple[Indices, int]
"""The slot of each component, one site after another, and the number of slots."""


def better_elsewhere(problem: Problem, few: int, many: int) -> bool:
    """Whether a larger number of slots clearly describes the counts of other sites better."""
    components = Components.in_problem(problem)
    if len(components) > MOST:
        return False
    (rows,), (factor,) = components.rows, components.factors
    assert isinstance(rows, SparseRows), "counts are sparse"
    both = [searched(components, count) for count in (few, many)]
    return gain_elsewhere(rows.matrix(), sites_of(problem), factor.prior[0], *both) >= BETTER


def searched(components: Components, count: int) -> Slots:
    base = components.bases(count)
    search = SlotSearch(components, grown_labels(components, base, count), base, count)
    search.moves()
    return search.labels, count


def gain_elsewhere(rows: csr_array, site: Indices, prior: Array, few: Slots, many: Slots) -> float:
    """The gain from the second slots in nats per observation; `prior` are natural parameters of a Dirichlet, α − 1."""
    rows = rows.maximum(0.0)
    counts, gain, described = rows.sum(axis=1), 0.0, 0.0
    for fold in range(FOLDS):
        left_out = site % FOLDS == fold
        if counts[left_out].sum() > LEFT_OUT * counts.sum():
            continue
        others = np.flatnonzero(~left_out)
        both = [slot_sums(rows[others], labels[others], count).toarray() + prior + 1.0 for labels, count in (few, many)]
        inside = some_of(np.flatnonzero(left_out))
        for one in np.unique(site[inside]):
            shown = ~shared_out(rows[np.flatnonzero(site == one)])
            components = rows[inside[site[inside] == one]].toarray() * shown
            used = components.any(axis=0)
            before, after = (sums[:, used] / sums[:, shown].sum(axis=1, keepdims=True) for sums in both)
            gain += (mixed_fit(components[:, used], after) - mixed_fit(components[:, used], before)).sum()
            described += components.sum()
    return KEPT * gain / max(described, 1.0)


def slot_sums(rows: csr_array, slots: Indices, count: int) -> csr_array:
    places = np.arange(len(slots))
    return csr_array(csr_array((np.ones(len(slots)), (slots, places)), shape=(count, len(slots))) @ rows)


def some_of(components: Indices) -> Indices:
    """At most DESCRIBED of them, evenly spread."""
    places = np.linspace(0, max(len(components) - 1, 0), min(DESCRIBED, len(components)))
    return components[places.astype(np.intp)]


def mixed_fit(counts: Array, profiles: Array) -> Array:
    """Σ counts · log Σ_k θ_k profile_k of each row of counts, with the best shares θ of the profiles for it."""
    shares = np.full((len(counts), len(profiles)), 1.0 / len(profiles))
    for _ in range(PASSES):
        shares = shares * ((counts / np.maximum(shares @ profiles, TINY)) @ profiles.T)
        shares /= np.maximum(shares.sum(axis=1, keepdims=True), TINY)
    return np.asarray(xlogy(counts, np.maximum(shares @ profiles, TINY)).sum(axis=1))
