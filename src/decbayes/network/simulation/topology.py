"""Topologies of links in simulations and demonstrations."""

from collections.abc import Callable, Iterable

import numpy as np

Edge = tuple[int, int]
"""Two neighbours, the smaller number first."""


def clique(count: int, rng: np.random.Generator) -> set[Edge]:
    return {(a, b) for b in range(count) for a in range(b)}


def line(count: int, rng: np.random.Generator) -> set[Edge]:
    return {(a, a + 1) for a in range(count - 1)}


def ring(count: int, rng: np.random.Generator) -> set[Edge]:
    return line(count, rng) | ({(0, count - 1)} if count > 2 else set())


def tree(count: int, rng: np.random.Generator) -> set[Edge]:
    """A random tree: every node is linked to a random earlier one."""
    return {(int(rng.integers(b)), b) for b in range(1, count)}


def sparse(count: int, rng: np.random.Generator, *, degree: int = 4) -> set[Edge]:
    """A connected random graph with about `degree` neighbours per node."""
    edges = tree(count, rng)
    wanted = min(count * degree // 2, count * (count - 1) // 2)
    while len(edges) < wanted:
        a, b = sorted(int(end) for end in rng.integers(count, size=2))
        if a != b:
            edges.add((a, b))
    return edges


TOPOLOGIES: dict[str, Callable[[int, np.random.Generator], set[Edge]]] = {
    "clique": clique,
    "line": line,
    "random": sparse,
    "ring": ring,
    "tree": tree,
}


def groups(members: Iterable[int], edges: Iterable[Edge]) -> list[list[int]]:
    """The connected components of the graph among these members."""
    group = {member: {member} for member in members}
    for a, b in edges:
        if a in group and b in group and group[a] is not group[b]:
            group[a] |= group[b]
            for member in group[b]:
                group[member] = group[a]
    return [sorted(one) for one in {id(one): one for one in group.values()}.values()]
