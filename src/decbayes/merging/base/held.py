"""Whose data are in a posterior, so that none count twice when merges are merged."""

from collections.abc import Sequence

from decbayes.contents import held_in
from decbayes.errors import StructureMismatch
from decbayes.merging.base.coupled import in_memory
from decbayes.posterior import Posterior

Held = frozenset[str]
"""Hashes of posteriors."""


def held_by(posteriors: Sequence[Posterior]) -> list[Held]:
    """What each posterior holds: the posteriors that were merged into it, or itself if it has data.

    Posteriors in files that were not merged are left out: they may be too many to read once more.
    """
    if not in_memory(posteriors):
        return [frozenset(posterior.merged_from) for posterior in posteriors]
    return [frozenset(held_in(posterior)) for posterior in posteriors]


def check_separate(
    posteriors: Sequence[Posterior],
    held: Sequence[Held],
    names: Sequence[str] = (),
    otherwise: str = 'duplicates="allow"',
) -> None:
    """Refuse a posterior beside another that was merged from it or built on it, and two that hold the same posterior,
    naming them.
    """
    first_with: dict[str, int] = {}
    for place, hashes in enumerate(held):
        for before in sorted({first_with.setdefault(content, place) for content in hashes} - {place}):
            one, other = posteriors[before], posteriors[place]
            if not (one.merged_from or other.merged_from) or one == other:
                continue
            what = "hold the same data: one was merged from the other, or built on it (`prior=`)"
            if one.merged_from and other.merged_from:
                what = "were merged from the same data, or built on them (`prior=`)"
            first, second = (names[site] if names else f"posterior {site}" for site in (before, place))
            raise StructureMismatch(
                f"{first} and {second} {what}, which would count twice. Merge the sites' own posteriors, each once, or "
                f"allow it: {otherwise}."
            )
