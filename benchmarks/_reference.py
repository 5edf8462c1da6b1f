"""The paper's alignment written down plainly (section 3.2: SciPy, dense arrays), and matching by cosine similarity.

For comparison only. Nothing is shared with the library but the families' log-partitions, which are SciPy's.
"""

from functools import cache

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.special import gammaln

from decbayes.families import Dirichlet, dense


def paper_matching(posteriors, *, most_sweeps=1000):
    """Deassign, match, reassign until J stops increasing: (permutations, J after each sweep, matchings made)."""
    structure = posteriors[0].structure
    (coupled,) = structure.symmetry
    names = coupled.factors
    contents = [[dense(posterior.contribution[name]) for name in names] for posterior in posteriors]
    orders = [np.arange(structure.components(coupled)) for _ in posteriors]
    totals = [structure.prior[name] + sum(own[index] for own in contents) for index, name in enumerate(names)]
    families = [structure.families[name] for name in names]
    objective = [sum(family.log_partition(total) for family, total in zip(families, totals, strict=True))]
    for _ in range(most_sweeps):
        for agent, own in enumerate(contents):
            for total, rows in zip(totals, own, strict=True):
                total -= rows[orders[agent]]
            orders[agent] = linear_sum_assignment(weights(families, totals, own), maximize=True)[1]
            for total, rows in zip(totals, own, strict=True):
                total += rows[orders[agent]]
        objective.append(sum(family.log_partition(total) for family, total in zip(families, totals, strict=True)))
        if objective[-1] <= objective[-2] + 1e-9 * abs(objective[-2]):
            break
    return orders, objective, (len(objective) - 1) * len(posteriors)


def weights(families, totals, own):
    """(K, K): the row terms of slot k if component k' is assigned to it, one slot at a time."""
    slots = range(len(totals[0]))
    return np.array(
        [sum(terms(f, total[k], rows) for f, total, rows in zip(families, totals, own, strict=True)) for k in slots]
    )


def terms(family, total, rows):
    if family != Dirichlet():
        return family.row_terms(total + rows)
    # The library's own row terms copy the matrix once more, and fresh arrays of this size cost a third of the time.
    alpha = np.add(total + 1.0, rows, out=scratch(rows.shape))
    sums = gammaln(alpha.sum(axis=1))
    return gammaln(alpha, out=alpha).sum(axis=1) - sums


@cache
def scratch(shape):
    return np.empty(shape)


def cosine_permutations(posteriors, factor):
    """Match each agent's expected topics to the sum of those before it by cosine similarity, most evidence first."""
    order = sorted(range(len(posteriors)), key=lambda i: -posteriors[i].contribution[factor].sum())
    permutations, summed = {}, None
    for agent in order:
        means = posteriors[agent].mean(factor)
        unit = means / np.linalg.norm(means, axis=1, keepdims=True)
        if summed is None:
            permutations[agent], summed = np.arange(len(unit)), unit.copy()
        else:
            permutations[agent] = linear_sum_assignment(normalised(summed) @ unit.T, maximize=True)[1]
            summed += unit[permutations[agent]]
    return [permutations[agent] for agent in range(len(posteriors))]


def normalised(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)
