"""Sites that count different words: each gets the words of all, with no counts for those it did not count.

All words have the same prior, so new words at one site cost the others nothing: their contributions to them are zero.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from scipy.sparse import csr_array

from decbayes.families import Contribution
from decbayes.posterior import Posterior
from decbayes.structure import Structure


def with_all_words(posteriors: Sequence[Posterior]) -> tuple[Posterior, ...]:
    """The posteriors over the words of all; unchanged if words agree or are not the only difference."""
    structures = [posterior.structure for posterior in posteriors]
    names = growing_factors(structures)
    if not names:
        return tuple(posteriors)
    words = {name: all_words([structure.labels[name] for structure in structures]) for name in names}
    return tuple(widened(posterior, words) for posterior in posteriors)


def growing_factors(structures: Sequence[Structure]) -> list[str]:
    """Factors with columns to add because some structure lacks words of another: sparse counts of words."""
    first = structures[0]
    for structure in structures:
        if structure.families != first.families or structure.labels.keys() != first.labels.keys():
            return []
    names = [name for name in first.labels if all(may_grow(structure, name) for structure in structures)]
    others = first.labels.keys() - set(names)
    if any(first.labels[name] != structure.labels[name] for structure in structures for name in others):
        return []
    agreed = all(len({float(structure.prior[name][0, 0]) for structure in structures}) == 1 for name in names)
    return [name for name in names if agreed and mergeable([structure.labels[name] for structure in structures])]


def mergeable(lists: Sequence[Sequence[str]]) -> bool:
    """Whether lists differ and each shares words with the first: lists without a common word are a mistake."""
    first = frozenset(lists[0])
    return any(frozenset(words) != first for words in lists) and all(first.intersection(words) for words in lists)


def may_grow(structure: Structure, name: str) -> bool:
    """Whether columns are words that all have the same prior."""
    prior = structure.prior[name]
    named = len(structure.labels[name]) == prior.shape[1] > 0
    return (
        named and structure.families[name].countable and name in structure.sparse and bool(prior.min() == prior.max())
    )


def all_words(lists: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """The words of all lists, in the order of a list that has them all, else sorted."""
    union = frozenset().union(*lists)
    return min((tuple(words) for words in lists if len(words) == len(union)), default=tuple(sorted(union)))


def widened(posterior: Posterior, words: dict[str, tuple[str, ...]]) -> Posterior:
    current = posterior.structure
    if all(current.labels[name] == listed for name, listed in words.items()):
        return posterior
    prior = {
        name: np.full((len(part), len(words[name])), part[0, 0]) if name in words else part
        for name, part in current.prior.items()
    }
    structure = Structure(
        current.families, prior, current.symmetry, {**current.labels, **words}, current.sparse, current.model
    )
    contribution = over_words(posterior.contribution, current, structure)
    return replace(posterior, structure=structure, contribution=contribution, calibration=None)


def over_words(parts: Mapping[str, Contribution], before: Structure, after: Structure) -> dict[str, Contribution]:
    """Contributions to one structure, over the words of another."""
    return {
        name: in_columns(csr_array(part), before.labels[name], after.labels[name])
        if before.labels.get(name) != after.labels.get(name)
        else part
        for name, part in parts.items()
    }


def in_columns(counts: csr_array, before: Sequence[str], words: Sequence[str]) -> csr_array:
    """Counts of some words in the columns of others; words without a column are dropped."""
    places = {word: place for place, word in enumerate(words)}
    left = [number for number, word in enumerate(before) if word in places]
    counts = counts if len(left) == len(before) else csr_array(counts[:, left])
    target = np.array([places[before[number]] for number in left], dtype=np.int32)
    return csr_array((counts.data, target[counts.indices], counts.indptr), shape=(counts.shape[0], len(words)))
