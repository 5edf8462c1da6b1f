"""How fits of mixtures and states start: the kind of each start, and the groups of a tree.

A tree joins rows as a merge joins components of sites: those first whose likelihood suffers least by it. The
variational bound would join more. Of a few rows it prefers one component to two that are clearly different, and a merge
of such sites can no longer tell them apart.
"""

from collections.abc import Mapping, Sequence
from itertools import chain, cycle, islice
from typing import Literal

from decbayes.families import Array
from decbayes.families.groups import PlainJoins
from decbayes.families.joining import joined
from decbayes.families.matrices import Indices
from decbayes.families.rows import DenseRows
from decbayes.models.likelihoods.emissions import Emissions

Start = Literal["tree", "k-means++", "random"]

# With fewer rows per component, the only start is the tree.
ROWS_PER_GROUP = 3
# Rows of a tree, whose cost grows with their square.
MOST_ROWS = 200


def kinds_of_starts(
    starts: int, *, rows: float, enough: float, alone: bool, few: float = ROWS_PER_GROUP
) -> Sequence[Start]:
    """The kind of each start, given the rows per component, and how many are `enough` for centres alone.

    `alone` if the prior knows no components, whose order a tree would not follow.
    """
    if rows >= enough:
        return ["k-means++"] * starts
    if alone and rows < few:
        return ["tree"]
    first: Sequence[Start] = ("tree",) if alone else ()
    others: Sequence[Start] = ("k-means++", "random")
    return list(islice(chain(first, cycle(others)), starts))


def groups_of_rows(emissions: Emissions, prior: Mapping[str, Array], features: Array, count: int) -> Indices:
    """The group of each row when `count` are left."""
    evidence, parts, contributions = features[:, -1], [], emissions.contributions(features)
    for name, family in emissions.families.items():
        base = count / len(features) * (prior[name][0] - family.apex(prior[name].shape[1]))
        parts.append(PlainJoins(family, base, DenseRows(contributions[name]), evidence))
    fewest = min(count, len(features))
    return joined(parts, len(features), fewest).labels(fewest)
