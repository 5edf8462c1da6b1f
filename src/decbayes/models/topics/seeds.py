"""Words that topics start from."""

from collections.abc import Sequence
from typing import Any


def seed_groups(seeds: str) -> list[list[str]]:
    """The words of each topic: "nurse, ward; anchor, mast" is for two."""
    groups = [[word.strip() for word in group.split(",") if word.strip()] for group in seeds.split(";")]
    return [group for group in groups if group]


def check_seeds(seeds: Any, vocabulary: Sequence[str], topics: Any) -> None:
    """Refuse seeds for more topics than there are, and seeds without any known word."""
    if not isinstance(seeds, str):
        raise ValueError("seeds must be a string: words separated by commas, topics by semicolons.")
    groups, known = seed_groups(seeds), set(vocabulary)
    if isinstance(topics, int) and len(groups) > topics:
        raise ValueError(f"seeds are for {len(groups)} topics, and there are {topics}.")
    for group in groups:
        if not known.intersection(group):
            raise ValueError(f"None of the seeds {', '.join(group)} is a word of the vocabulary.")


def seeded_words(seeds: str, vocabulary: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """The columns of the seeds of each of the first topics."""
    groups = seed_groups(seeds)
    wanted = {word for group in groups for word in group}
    places = {word: place for place, word in enumerate(vocabulary) if word in wanted} if wanted else {}
    return tuple(tuple(places[word] for word in group if word in places) for group in groups)
