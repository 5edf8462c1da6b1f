"""How well a regression ranks observations, and whether it expects as many events as there are: sums over sites."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decbayes.errors import InvalidFile, NotCalibrated
from decbayes.families import Array
from decbayes.models.core.evaluation import Risks
from decbayes.models.core.model import Model, Row
from decbayes.models.core.persons import EACH, Persons, outcome_groups
from decbayes.posterior import Posterior

# Boundaries of risk groups, as differences of the linear predictor from that of a typical person.
EDGES = (-1.0, -0.5, 0.0, 0.5, 1.0)
# Rows of pairs compared at a time.
BLOCK = 500


@dataclass(frozen=True)
class Accuracy:
    """Sums that show how well a regression predicts; they add up across sites.

    Attributes:
        at: the digest of the posterior.
        concordant: pairs within a site in which the higher risk had the event earlier, or the larger outcome; ties are
            half.
        comparable: all pairs whose order is known.
        observed: events, or sums of outcomes, in each risk group.
        expected: the model's expectation of these.
        persons: the number of persons in each group.
        covers: the first and last risk group counted in each; by default those between groups that have persons.

    >>> rng = np.random.default_rng(0)
    >>> age = rng.normal(50, 10, 400)
    >>> data = {"age": age, "ill": rng.random(400) < 1 / (1 + np.exp(5 - 0.1 * age))}
    >>> model = db.LogisticRegression.from_frame(data, "ill ~ age")
    >>> accuracy = db.checking.Accuracy.of(model, data, model.fit(data).posterior)
    >>> 0.7 < accuracy.concordance < 0.8
    True
    """

    at: str
    concordant: float
    comparable: float
    observed: tuple[float, ...]
    expected: tuple[float, ...]
    persons: tuple[int, ...]
    covers: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "covers", self.covers or covered(self.persons))

    @classmethod
    def of(
        cls,
        model: Model,
        data: Any,
        posterior: Posterior,
        *,
        least: int = 5,
        least_outcome: int = 2,
        persons: Persons = EACH,
    ) -> "Accuracy":
        """The sums of one site's data. Groups are joined until each has at least the `least` persons, and none or at
        least `least_outcome` of each outcome of two, or of other outcomes than the most common one.
        """
        risks: Risks = model.risks(posterior, data)
        concordant, comparable = pairs(risks)
        group = np.searchsorted(EDGES, risks.risk)
        outcomes = outcome_groups(risks.observed)

        def having(rows: NDArray[np.bool_]) -> Array:
            return np.array([persons.among(rows), *(persons.among(rows & outcome) for outcome in outcomes)])

        joined, places = joined_groups(group, having, [least] + [least_outcome] * len(outcomes)), range(len(EDGES) + 1)

        def summed(part: Array) -> tuple[float, ...]:
            return tuple(float(part[joined == place].sum()) for place in places)

        kept = tuple(persons.among(joined == place) for place in places)
        observed, expected = summed(risks.observed), summed(risks.expected)
        return cls(posterior.digest, concordant, comparable, observed, expected, kept)

    def __add__(self, other: "Accuracy") -> "Accuracy":
        if self.at != other.at:
            raise NotCalibrated("The sites' sums belong to different posteriors: compute them at one merged posterior.")
        observed, expected, persons = (
            tuple(a + b for a, b in zip(*both, strict=True))
            for both in (
                (self.observed, other.observed),
                (self.expected, other.expected),
                (self.persons, other.persons),
            )
        )
        pairs = self.concordant + other.concordant, self.comparable + other.comparable
        covers = tuple(union(*both) for both in zip(self.covers, other.covers, strict=True))
        return Accuracy(self.at, *pairs, observed, expected, tuple(map(int, persons)), covers)

    @property
    def concordance(self) -> float:
        """The share of pairs in the right order: 0.5 by chance; for binary outcomes the area under the ROC curve."""
        return self.concordant / self.comparable if self.comparable else float("nan")

    @property
    def groups(self) -> list[Row]:
        """Observed and expected sums by risk, and their ratio; no two groups overlap.

        Small groups of a site count in the adjacent one, so groups that other sites keep apart are joined as well.
        """
        joined: list[tuple[tuple[int, int], Array]] = []
        sums = zip(self.persons, self.observed, self.expected, strict=True)
        for covers, values in zip(self.covers, map(np.array, sums), strict=True):
            if not values[0]:
                continue
            while joined and joined[-1][0][1] >= covers[0]:
                before, more = joined.pop()
                covers, values = union(before, covers), values + more
            joined.append((covers, values))
        return [
            {
                "risk": named(*covers),
                "persons": int(persons),
                "observed": float(observed),
                "expected": float(expected),
                "ratio": float(observed / expected),
            }
            for covers, (persons, observed, expected) in joined
        ]

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Accuracy":
        """The inverse of `to_json`, with checks."""
        try:
            values = json.loads(text)
            lists = {name: tuple(values[name]) for name in ("observed", "expected", "persons")}
            lists |= {"covers": tuple((int(first), int(last)) for first, last in values.get("covers", ()))}
            read = cls(**values | lists)
            numbers = [read.concordant, read.comparable, *read.observed, *read.expected, *read.persons]
            if not isinstance(read.at, str) or not np.isfinite(np.array(numbers, dtype=np.float64)).all():
                raise ValueError
            groups = len(EDGES) + 1
            if {len(part) for part in (read.observed, read.expected, read.persons, read.covers)} != {groups}:
                raise ValueError
            if not all(0 <= first <= place <= last < groups for place, (first, last) in enumerate(read.covers)):
                raise ValueError
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise InvalidFile("This is not a site's file of `decbayes accuracy`.") from None
        return read


def covered(persons: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """The groups counted in each one at a site: those below it down to the previous one with persons; the last also has
    all above.

    This does not reveal whether anybody was in a group that is not shown.
    """
    kept = [place for place, number in enumerate(persons) if number]
    groups = [(place, place) for place in range(len(persons))]
    for place, before in zip(kept, [-1, *kept], strict=False):
        groups[place] = before + 1, len(persons) - 1 if place == kept[-1] else place
    return tuple(groups)


def union(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    return min(one[0], other[0]), max(one[1], other[1])


def named(first: int, last: int) -> str:
    """The range of linear predictors of adjacent groups, in words."""
    ends = ["", *(f"{edge:g}" for edge in EDGES), ""]
    low, high = ends[first], ends[last + 1]
    if low and high:
        return f"{low} to {high}"
    return f"from {low}" if low else f"below {high}" if high else "all"


def pairs(risks: Risks) -> tuple[float, float]:
    """The number of pairs in the right order, with ties of the risk as half, and the number of comparable pairs."""
    concordant = comparable = 0.0
    for begin in range(0, len(risks.time), BLOCK):
        block = slice(begin, begin + BLOCK)
        first = risks.event[block, None].astype(bool) & (risks.time[block, None] < risks.time[None, :])
        first &= risks.entry[None, :] < risks.time[block, None]
        apart = risks.risk[block, None] - risks.risk[None, :]
        concordant += float((first & (apart > 0)).sum() + 0.5 * (first & (apart == 0)).sum())
        comparable += float(first.sum())
    return concordant, comparable


def joined_groups(
    group: NDArray[np.intp], persons: Callable[[NDArray[np.bool_]], Array], least: Sequence[float]
) -> NDArray[np.intp]:
    """The group in which each observation is counted: one with too few persons is joined to the next, the last to the
    one before, until none is left.
    """
    joined, minima = group.copy(), np.asarray(least, dtype=np.float64)
    while True:
        places = np.unique(joined)
        having = np.array([persons(joined == place) for place in places])
        few = ((having > 0) & (having < minima)).any(axis=1)
        if not few.any() or len(places) == 1:
            return joined
        small = int(few.argmax())
        joined[joined == places[small]] = places[small + 1 if small + 1 < len(places) else small - 1]
