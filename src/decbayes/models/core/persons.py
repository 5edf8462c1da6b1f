"""The persons behind observations: rules count persons, who may have several rows, sequences or documents."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decbayes.columns.cells import is_missing
from decbayes.errors import InvalidData
from decbayes.families import Array

Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Persons:
    """The person behind each observation. Without numbers, each observation is a separate person.

    Args:
        numbers: one number per observation, the same for all observations of a person, also in other files of the site.

    >>> visits = db.disclosure.Persons.of(["Kim", "Lee", "Kim"])
    >>> visits.among(np.array([True, False, True])), visits.total(3)
    (1, 2)
    """

    numbers: NDArray[np.intp] | None = None

    @classmethod
    def of(cls, labels: "Iterable[Any] | Persons | None") -> "Persons":
        """Persons by names or record numbers, one per observation; None if each observation is a separate person."""
        if labels is None or isinstance(labels, Persons):
            return labels or cls()
        names = list(labels)
        nameless = sum(map(is_missing, names))
        if nameless:
            raise InvalidData(f"{nameless:,} of {len(names):,} observations lack a person. Leave them out.")
        known = {name: number_of(name) for name in set(map(str, names))}
        return cls(np.array([known[str(name)] for name in names], dtype=np.intp))

    @classmethod
    def joined(cls, parts: "Sequence[tuple[Persons, int]]") -> "Persons":
        """Persons of several files, given with their numbers of observations; a person may be in more than one file."""
        if all(persons.numbers is None for persons, _ in parts):
            return cls()
        numbers: list[NDArray[np.intp]] = []
        for persons, count in parts:
            before = sum(map(len, numbers))
            numbers.append(np.arange(before, before + count) if persons.numbers is None else persons.numbers)
        return cls(np.concatenate(numbers))

    def checked(self, observations: int) -> "Persons":
        """These persons, if there is one per observation."""
        if self.numbers is not None and len(self.numbers) != observations:
            raise InvalidData(
                f"There are {observations:,} observations, and persons for {len(self.numbers):,}. Give one per "
                "observation: a row, a sequence or a document."
            )
        return self

    def check_most(self, observations: int, most: int) -> None:
        """Refuse persons with more observations than promised."""
        numbers = self.checked(observations).numbers
        if numbers is not None:
            largest = int(np.unique(numbers, return_counts=True)[1].max(initial=0))
            if largest > most:
                raise InvalidData(
                    f"A person has {largest} rows, and rows_per_person is {most}. Set it to the largest number of rows."
                )

    def total(self, observations: int) -> int:
        """The number of persons behind `observations` observations."""
        return observations if self.numbers is None else len(np.unique(self.numbers))

    def among(self, rows: Mask) -> int:
        """The number of persons behind the selected observations."""
        return int(rows.sum() if self.numbers is None else len(np.unique(self.numbers[rows])))

    def counts(self, rows: Mask) -> Array:
        """`among` as an array, the form that columns need."""
        return np.array([self.among(rows)])

    def taken(self, rows: NDArray[np.intp]) -> "Persons":
        """The persons behind the selected observations."""
        return self if self.numbers is None else Persons(self.numbers[rows])

    def of_parts(self, observation: NDArray[np.intp]) -> "Persons":
        """The persons behind parts of observations, such as steps, given the observation of each part."""
        return Persons(observation if self.numbers is None else self.numbers[observation])

    def present(self, shares: Array) -> Array:
        """(K,): the expected number of persons with at least one observation, given (N, K) shares."""
        return np.asarray(np.minimum(self.summed(shares), 1.0).sum(axis=0))

    def summed(self, values: Array) -> Array:
        """Sums of rows over the observations of each person."""
        if self.numbers is None:
            return values
        kept, place = np.unique(self.numbers, return_inverse=True)
        sums = np.zeros((len(kept), *values.shape[1:]))
        np.add.at(sums, place.reshape(-1), values)
        return sums

    def rows(self, observations: int) -> list[NDArray[np.intp]]:
        """The rows of each person, ordered by first row."""
        if self.numbers is None:
            return list(np.arange(observations)[:, None])
        _, first, place = np.unique(self.numbers, return_index=True, return_inverse=True)
        order = np.argsort(place.reshape(-1), kind="stable")
        groups = np.split(order, np.cumsum(np.bincount(place.reshape(-1)))[:-1])
        return [groups[person] for person in np.argsort(first)]


def number_of(name: str) -> int:
    """Hash a name to a number far above row numbers; collisions are practically impossible."""
    digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 2 | 1 << 61


EACH = Persons()


def outcome_groups(targets: Array, *, each: bool = False) -> list[Mask]:
    """Rows without the most common outcome, and with two outcomes also the others; or the rows of `each` outcome."""
    if each:
        return [targets == value for value in np.unique(targets)]
    others = targets != most_common(targets)
    return [others, ~others] if len(np.unique(targets)) == 2 else [others]


def most_common(numbers: Array) -> float:
    """The most common value; the smallest if there are several."""
    values, times = np.unique(numbers, return_counts=True)
    return float(values[times.argmax()]) if len(values) else np.nan
