"""How much better more slots describe the topics of sites that did not shape them.

More slots always describe their own components better, whatever these are. So sites are left out in turn, and each of
their components is described as a mixture of the slots of all other sites, as a document would be.
"""

import numpy as np
from scipy.sparse import csr_array
from scipy.special import xlogy

from decbayes.families.matrices import Array, Indices
from decbayes.families.rows import SparseRows
from decbayes.merging.base.components import Components, sites_of
from decbayes.merging.base.problem import Problem
from decbayes.merging.grouping.joins import grown_labels
from decbayes.merging.grouping.search import SlotSearch

# The share of the gain that shows in predictions of documents, whose mixtures are known less well than those of topics.
KEPT = 0.7
# Groups of sites that are left out in turn, components of each that are described, and passes.
FOLDS, DESCRIBED, PASSES = 5, 20, 10
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
    gain = described = 0.0
    for fold in range(FOLDS):
        inside, others = some_of(np.flatnonzero(site % FOLDS == fold)), np.flatnonzero(site % FOLDS != fold)
        counts = rows[inside].toarray()
        used = np.flatnonzero(counts.any(axis=0))
        for sign, (labels, count) in ((-1.0, few), (1.0, many)):
            sums = slot_sums(rows[others], labels[others], count).toarray() + prior + 1.0
            gain += sign * mixed_fit(counts[:, used], sums[:, used] / sums.sum(axis=1, keepdims=True)).sum()
        described += counts.sum()
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
