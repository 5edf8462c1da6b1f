"""An order of posteriors, and of the components of each, that depends only on their contents.

Merging uses this order, so the result is a pure function of a *set* of posteriors: neither the order of arrival nor the
sites' labels change a bit of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from decbayes.contents import Components, component_keys, in_order, sorted_contents, unlabelled
from decbayes.merging.base.compatibility import agreeing
from decbayes.merging.base.coupled import in_memory
from decbayes.posterior import Posterior
from decbayes.structure import CoupledSet, Permutation, Structure

# Significant digits of ranks: the last bits of lnΓ differ between processors.
SIGNIFICANT = 6
# The attribute in which a posterior caches its reading.
READING = "_canonical"
# Posteriors in memory whose evidence is computed together.
AT_ONCE = 64


@dataclass(frozen=True)
class Canonical:
    """A posterior without its labels: each set's components sorted by content, and its rank among posteriors."""

    structure: Structure
    components: Components
    rank: tuple[float, bytes, bytes]
    ids: tuple[str, ...]


def canonical_order(posteriors: Sequence[Posterior], *, strictly: bool = False) -> tuple[list[int], list[Canonical]]:
    """Indices of the posteriors, most evidence first, and each one's canonical reading.

    Each posterior is read once and compared with the first: all must share one structure, but for the number of
    components unless `strictly`.
    """
    readings, compared = [], agreeing(posteriors, strictly=strictly)
    # Posteriors in files are read one by one.
    while block := list(islice(compared, AT_ONCE if in_memory(posteriors) else 1)):
        readings += canonical_readings(block)
    return sorted(range(len(posteriors)), key=lambda site: readings[site].rank), readings


def canonical_readings(posteriors: Sequence[Posterior]) -> list[Canonical]:
    """The canonical readings, cached in the posteriors, which are immutable."""
    unread = [posterior for posterior in posteriors if READING not in vars(posterior)]
    contents = [sorted_contents(posterior) for posterior in unread]
    moved = divergences(unread, [components for components, _, _ in contents])
    for posterior, (components, content, labelled), nats in zip(unread, contents, moved, strict=True):
        rank = -nats, content, labelled
        vars(posterior)[READING] = Canonical(posterior.structure, components, rank, tuple(posterior.ids))
    return [vars(posterior)[READING] for posterior in posteriors]


def canonical_components(posterior: Posterior, coupled: CoupledSet) -> Permutation:
    """The components of a set, sorted by content."""
    return in_order(component_keys(unlabelled(posterior, coupled)), posterior.ids)


def divergences(posteriors: Sequence[Posterior], components: Sequence[Components]) -> list[float]:
    """KL(posterior ‖ prior) in nats, rounded: how far each posterior has moved.

    Components are paired with the prior's in canonical order, regardless of labels. If priors differ between
    components, such a pair may leave the domain, and lnΓ overflows for huge numbers: such factors are not counted,
    because NaN cannot be ordered.
    """
    if any(posterior.structure != posteriors[0].structure for posterior in posteriors):
        singly = zip(posteriors, components, strict=True)
        return [divergences([posterior], [order])[0] for posterior, order in singly]
    if not posteriors:
        return []
    structure, totals = posteriors[0].structure, np.zeros(len(posteriors))
    sets = {name: coupled for coupled in structure.symmetry for name in coupled.factors}
    for name, family in structure.families.items():
        contributions = [posterior.contribution[name] for posterior in posteriors]
        orders = [orders_of[sets[name]] for orders_of in components] if name in sets else None
        totals += family.divergences(structure.prior[name], contributions, orders)
    return [0.0 if np.isnan(total) else float(f"{total:.{SIGNIFICANT}e}") for total in totals.tolist()]
