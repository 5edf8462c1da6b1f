"""Whether sites hold the same documents: keyed sketches, which are useless without the group's key.

A sketch holds the smallest 64-bit keyed hashes of a site's documents, and the number of documents that are not empty.
Equal documents have equal hashes at all sites of a group. The smallest hashes of all sites tell how many different
documents there are, exactly if no site is larger than a sketch.
"""

import hashlib
import hmac
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import sqrt
from typing import Any

from decbayes.errors import InvalidData, NotDisclosed
from decbayes.remarks import Remark, listed

FORMAT = "decbayes sketch 1"
SIZE = 1024  # hashes in a sketch
LARGEST = 1 << 64
LEAST_KEY = 16  # bytes
# Warn if at least this share of documents counts more than once.
NOTABLE = 0.02
# An estimate below the number of documents counts only if it is lower by this share, three standard errors.
CLEARLY = 3.0 / sqrt(SIZE)
SPACES = re.compile(r"\s+")
MOST_NAMED = 3


@dataclass(frozen=True)
class Sketch:
    """The smallest keyed hashes of a site's different documents; `group` is a digest of the key, to compare keys.

    >>> from decbayes.updates.sketches import Sketch, overlap
    >>> key = b"a key of the whole group"
    >>> north = Sketch.of(["one letter", "another letter"], key)
    >>> south = Sketch.of(["Another  letter", "a third one"], key)
    >>> overlap([north, south]).different
    3.0
    """

    documents: int
    hashes: tuple[int, ...]
    group: str

    @classmethod
    def of(cls, texts: Iterable[str], key: bytes, *, least: int = 0) -> "Sketch":
        """The sketch of texts that are not empty, ignoring whitespace and case. Fewer than `least` are refused."""
        if len(key) < LEAST_KEY:
            raise InvalidData(
                f"The group's key has {len(key)} bytes; it needs {LEAST_KEY} or more, from a random source."
            )
        hashes = [hashed(text, key) for text in texts if text.strip()]
        if len(hashes) < max(least, 1):
            needed = f"at least {max(least, 1)} are needed"
            raise NotDisclosed(f"A sketch of {len(hashes)} documents would reveal too much about each; {needed}.")
        group = hmac.new(key, b"decbayes group", hashlib.sha256).hexdigest()[:16]
        return cls(len(hashes), tuple(sorted(set(hashes))[:SIZE]), group)

    @property
    def whole(self) -> bool:
        """Whether all different documents are in the sketch."""
        return len(self.hashes) < SIZE

    def plain(self) -> dict[str, Any]:
        """The sketch as JSON values."""
        hashes = [f"{value:016x}" for value in self.hashes]
        return {"format": FORMAT, "documents": self.documents, "group": self.group, "hashes": hashes}

    @classmethod
    def of_plain(cls, stored: Any) -> "Sketch":
        """The inverse of `plain`; anything else is refused."""
        try:
            hashes = tuple(int(text, 16) for text in stored["hashes"])
            documents, group = stored["documents"], stored["group"]
            proper = (
                stored["format"] == FORMAT
                and type(documents) is int
                and isinstance(group, str)
                and 0 < len(hashes) <= min(SIZE, documents)
                and list(hashes) == sorted(set(hashes))
                and 0 <= hashes[0] <= hashes[-1] < LARGEST
            )
            if not proper:
                raise ValueError
        except (KeyError, TypeError, ValueError):
            raise InvalidData("This is not a sketch of documents, as `decbayes sketch` writes it.") from None
        return cls(documents, hashes, group)


def hashed(text: str, key: bytes) -> int:
    normal = SPACES.sub(" ", text).strip().casefold()
    return int.from_bytes(hmac.new(key, normal.encode("utf-8", "surrogatepass"), hashlib.sha256).digest()[:8], "big")


@dataclass(frozen=True)
class Overlap:
    """Documents of all sites, how many of them differ, and the estimated number that each pair of sites shares.

    `repeated` is the number of documents of each site that repeat others of the same site.
    """

    documents: int
    different: float
    shared: Mapping[tuple[int, int], float]
    repeated: Sequence[float] = ()

    @property
    def twice(self) -> float:
        """The share of documents that are counted again because another site has them."""
        return max(1.0 - (self.different + sum(self.repeated)) / self.documents, 0.0)

    def remarks(self, names: Sequence[str], without: Sequence[str] = ()) -> tuple[Remark, ...]:
        """Warnings if many documents count more than once, at several sites or at one; sites `without` a sketch."""
        return (*self._shared(names), *self._repeated(names), *no_sketch(without))

    def _shared(self, names: Sequence[str]) -> Iterator[Remark]:
        if self.twice >= NOTABLE:
            numbers = {f"{names[one]} and {names[other]}": count for (one, other), count in self.shared.items()}
            yield Remark(
                "documents twice",
                f"{self.twice:.0%} of the {self.documents:,} documents in sketches count more than once: several sites "
                "have them.",
                "Give shared documents to one site only: their topics look too frequent and too certain.",
                f"By the sites' sketches{most_of(numbers, '; shared by ')}.",
            )

    def _repeated(self, names: Sequence[str]) -> Iterator[Remark]:
        share = sum(self.repeated) / self.documents
        if share >= NOTABLE:
            yield Remark(
                "documents repeated",
                f"{share:.0%} of the {self.documents:,} documents in sketches repeat others of the same site.",
                "Leave them out there, unless each counts: their topics look too frequent and too certain.",
                f"By the sites' sketches{most_of(dict(zip(names, self.repeated, strict=True)), ': ')}.",
            )


def most_of(numbers: Mapping[str, float], introduction: str) -> str:
    """The largest of these numbers, with their names."""
    largest = sorted(numbers.items(), key=lambda item: -item[1])[:MOST_NAMED]
    named = "; ".join(f"{name} {number:,.0f}" for name, number in largest if number >= 1.0)
    return introduction + named if named else ""


def no_sketch(names: Sequence[str]) -> tuple[Remark, ...]:
    """A note on sites whose documents nobody could compare."""
    what = f"Without a sketch, not compared with others' documents: {listed(names)}."
    return (Remark("no sketch", what, "Write it there with `decbayes sketch`.", "", "note"),) if names else ()


def overlap(sketches: Sequence[Sketch]) -> Overlap:
    """The number of documents that sites share, according to their sketches."""
    if len({sketch.group for sketch in sketches}) > 1:
        raise InvalidData("These sketches were made with different keys, so they cannot be compared.")
    pairs = combinations(range(len(sketches)), 2)
    shared = {pair: shared_by(sketches[pair[0]], sketches[pair[1]]) for pair in pairs}
    repeated = [sketch.documents - different_at(sketch) for sketch in sketches]
    return Overlap(sum(sketch.documents for sketch in sketches), different(sketches), shared, repeated)


def different(sketches: Sequence[Sketch]) -> float:
    """The number of different documents: exact if sketches have all, else estimated from the smallest hashes of all.

    Every site that has one of these documents has it in its sketch. This gives the mean number of sites per document,
    which is one if nothing is shared.
    """
    hashes = sorted(set().union(*(sketch.hashes for sketch in sketches)))
    if all(sketch.whole for sketch in sketches):
        return float(len(hashes))
    smallest = set(hashes[:SIZE])
    times = sum(len(smallest.intersection(sketch.hashes)) for sketch in sketches) / len(smallest)
    return sum(map(different_at, sketches)) / times


def different_at(sketch: Sketch) -> float:
    """A site's number of different documents: all of them, unless its largest stored hash clearly implies fewer."""
    if sketch.whole:
        return float(len(sketch.hashes))
    estimate = (SIZE - 1) * LARGEST / max(sketch.hashes[-1], 1)
    return float(sketch.documents) if estimate > (1.0 - CLEARLY) * sketch.documents else estimate


def shared_by(first: Sketch, second: Sketch) -> float:
    """Documents of both sites: |A| + |B| − |A ∪ B|."""
    return max(different_at(first) + different_at(second) - different([first, second]), 0.0)
