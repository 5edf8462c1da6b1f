"""Slots that begin beside those that are known already: for what several sites have found since."""

import numpy as np
from numpy.typing import NDArray

from decbayes.families import Array
from decbayes.families.matrices import Indices
from decbayes.merging.search import Search

# Components that are tried as the first of an empty slot.
CANDIDATES = 10
# Two sites have found something new if a component of each gains so many times the noise by leaving what is known for
# the other's, and the first so many nats per observation: a known topic that was cut in two does not fit its halves.
BORN, APART = 3.5, 0.5


def begin_at(search: Search, filled: Array, sites: Indices) -> None:
    """Empty slots begin with what is new; then each component goes to the slot that it gains most in."""
    known = filled > 0.0
    if not known.any():
        search.restart(np.zeros(len(search.labels), dtype=np.intp))
        known[0] = True
    for slot in np.flatnonzero(~known).tolist():
        search.move(found_apart(search, slot, known, sites)[0], slot)
        known[slot] = True
    search.restart(search.gains(np.arange(len(search.labels))).argmax(axis=1))


def found_apart(search: Search, slot: int, known: NDArray[np.bool_], sites: Indices) -> tuple[int, float]:
    """The component to begin an empty slot with, and what it and the first to follow it gain: the lesser of the two.

    It is one of those that fit the known slots worst, and a component of another site gains by following it. What one
    site has mixed up fits as badly, but nobody gains as much by following it.
    """
    everyone = np.arange(len(search.labels))
    held = np.where(known, search.gains(everyone), -np.inf).max(axis=1)
    lost, worth = search.alone() - held, []
    far = lost > APART * search.components.evidence
    worst = np.argsort(-lost, kind="stable")[:CANDIDATES]
    for component in worst.tolist():
        home = int(search.labels[component])
        search.move(component, slot)
        follow = np.where(sites != sites[component], search.gains(everyone)[:, slot] - held, -np.inf)
        worth.append(min(float(lost[component]), float(follow.max())) if far[component] else 0.0)
        search.move(component, home)
    best = int(np.argmax(worth))
    return int(worst[best]), worth[best]


def births(search: Search, known: NDArray[np.bool_], sites: Indices, noise: float) -> int:
    """How many of the slots that nobody knows are for something that two sites have found."""
    empty, known = np.flatnonzero(~known).tolist(), known.copy()
    for born, slot in enumerate(empty):
        component, worth = found_apart(search, slot, known, sites)
        if worth < BORN * noise:
            return born
        search.move(component, slot)
        known[slot] = True
    return len(empty)
