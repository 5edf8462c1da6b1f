"""Sites with the same data, whose evidence would count more than once."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from scipy.sparse import csr_array

from decbayes.families import Array
from decbayes.merging.base.components import groups_of
from decbayes.merging.base.subjects import column_sums
from decbayes.posterior import Posterior
from decbayes.remarks import COUNTED_TWICE, MOST_NAMED, Remark, listed

# Totals of two sites are equal if their relative difference is smaller than this.
SAME = 1e-9
# Nats against equal totals by chance above which two sites are taken to hold the same data. It is twice the log of a
# million, because counts in columns that add up are counted twice.
NO_CHANCE = 28.0
# Data are assumed to have at most this many decimals; sums of other numbers are never equal by chance.
DECIMALS = 6
GOLDEN = 0.5 * (1.0 + np.sqrt(5.0))


def same_data(posteriors: Sequence[Posterior], names: Sequence[str]) -> Iterator[Remark]:
    """A warning about sites with the same data."""
    groups = repeated_data(posteriors)
    if copies := sorted(listed([names[site] for site in group]) for group in groups):
        yield Remark(
            COUNTED_TWICE,
            f"The same data seem to count more than once: they are at {'; and at '.join(copies[:MOST_NAMED])}.",
            "Keep one of them: intervals are too narrow otherwise.",
            "Their components add up to the same sums of statistics."
            if posteriors[0].structure.symmetry
            else "Their statistics are the same.",
            sites=tuple(sorted(site for group in groups for site in group)),
        )


def repeated_data(posteriors: Sequence[Posterior]) -> list[list[int]]:
    """Groups of sites with the same data, regardless of labels and starts.

    A site's statistics, summed over components, are those of all its data, and do not depend on the fit. Equal sums
    occur by chance only if they consist of a few small numbers.
    """
    totals = [data_totals(posterior) for posterior in posteriors]
    # Sorted by a projection, equal sums are neighbours; plain sums of counts are equal for all sites of one size.
    weights = 1.0 + np.arange(max(map(len, totals))) * GOLDEN % 1.0
    # Not `@`: BLAS takes longer to wake its threads than to multiply.
    sizes = np.array([(np.abs(total) * weights[: len(total)]).sum() for total in totals])
    order = np.argsort(sizes, kind="stable")
    groups = [[order[0]]]
    for before, site in pairwise(order):
        close = sizes[before] > 0.0 and sizes[site] - sizes[before] <= SAME * sizes[site]
        # Equal posteriors have equal sums: compare whole posteriors only then.
        if close and (same_totals(totals[before], totals[site]) or posteriors[before] == posteriors[site]):
            groups[-1].append(site)
        else:
            groups.append([site])
    return [[int(site) for site in group] for group in groups if len(group) > 1]


def data_totals(posterior: Posterior) -> Array:
    """Sums of a posterior's rows, factor by factor; whole rows of factors without components."""
    coupled = {name for of_set in posterior.structure.symmetry for name in of_set.factors}
    parts = []
    for name in (name for group in groups_of(posterior.structure) for name in group):
        part = posterior.contribution[name]
        summed = column_sums(part) if name in coupled else csr_array(part).toarray().ravel()
        parts.append(summed[:0] if posterior.structure.families[name].two_sided else summed)
    return np.concatenate(parts)


def same_totals(first: Array, second: Array) -> bool:
    """Whether two sites' sums are equal, and not by chance."""
    same = len(first) == len(second) and np.abs(first - second).max() <= SAME * np.abs(first).max()
    return bool(same and no_chance(first))


def no_chance(totals: Array) -> bool:
    """Whether another site hardly has equal sums by chance, as with a few small whole numbers."""
    scaled = np.full(len(totals), np.inf)
    for decimals in reversed(range(DECIMALS + 1)):
        tried = totals * 10.0**decimals
        scaled = np.where(np.abs(tried - np.round(tried)) < 1e-6, np.abs(np.round(tried)), scaled)
    nats = np.where(np.isinf(scaled), NO_CHANCE, 0.5 * np.log1p(4.0 * np.pi * np.where(np.isinf(scaled), 0.0, scaled)))
    return bool(nats.sum() >= NO_CHANCE)
