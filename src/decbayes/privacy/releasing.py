"""A private release: noisy sums of one site's records on a grid, and everything that others need to use them."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isqrt, sqrt
from typing import Any, Protocol

import numpy as np

from decbayes.errors import InvalidData, InvalidFile, NotPrivate
from decbayes.families import Array
from decbayes.posterior import Posterior
from decbayes.privacy.accounting import Privacy
from decbayes.privacy.grid import Grid, Integers, discrete_gaussian, exact_sum
from decbayes.privacy.mechanism import Mechanism, PrivateMerge, Total
from decbayes.structure import Structure

STEPS = 2**22
"""The number of steps in a statistic of norm 1: rounding is far below the noise, and sums of 2³¹ records are exact."""

GRID = Grid(1.0 / STEPS)
# The largest share of rows beyond the agreed units: a wrong unit would go unnoticed under the noise.
MOST_OUTSIDE = 0.1
BLOCK = 1 << 15


@dataclass(frozen=True)
class Spending:
    """The cost of one release, for the site's ledger.

    Args:
        release: its id.
        model: the model, in words.
        privacy: the promise.
        mu: the amount spent of it.
        round: the number of the round, from 0.
        data_set: the data set whose budget it spends.
        known: the ids of all earlier releases behind the anchor.
    """

    release: str
    model: str
    site: str
    privacy: Privacy
    mu: float
    round: int
    data_set: str
    known: frozenset[str]


class Books(Protocol):
    """A ledger that records spending before anything is sent."""

    def spend(self, spending: Spending) -> None:
        """Record it durably; BudgetExceeded if the data set has less left."""


@dataclass(frozen=True, eq=False)
class Release:
    """What one site sends in one round: integers on a fixed-point grid, and public facts.

    `values` are in steps of the grid, and `variance` is that of their noise, in squared steps. `ids` are random names
    of the releases summed in them: one, or those of several sites. Only `values` depend on data.
    """

    structure: Structure
    privacy: Privacy
    round: int
    anchor: Array
    values: Integers
    variance: int
    ids: tuple[str, ...]
    site: str = ""

    def __post_init__(self) -> None:
        anchor, values = np.array(self.anchor, dtype=np.float64), np.array(self.values, dtype=np.int64)
        if anchor.ndim != 1 or values.ndim != 1 or not np.isfinite(anchor).all() or not len(values):
            raise InvalidFile("A release has an anchor and values, each a list of finite numbers.")
        if min(self.round, self.variance - 1) < 0 or not self.ids or len(set(self.ids)) < len(self.ids):
            raise InvalidFile("A release has a round from 0 on, noise, and an id of each site's part.")
        for name, array in (("anchor", anchor), ("values", values)):
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    @property
    def facts(self) -> dict[str, Any]:
        """Its public facts as plain values."""
        return {
            "privacy": self.privacy.plain(),
            "round": self.round,
            "variance": str(self.variance),
            "ids": list(self.ids),
            "site": self.site,
        }

    @property
    def open(self) -> bool:
        """Whether others may see it unmasked: it has all of its noise."""
        return self.privacy.noise == "each" or len(self.ids) >= self.privacy.sites


def released(
    structure: Structure,
    mechanism: Mechanism,
    anchor: Posterior | PrivateMerge,
    data: Any,
    privacy: Privacy,
    *,
    ledger: Books,
    model: str,
    site: str = "",
    data_set: str = "data",
) -> Release:
    """One site's release at an anchor, after recording its cost in the ledger."""
    place, number, known = public_anchor(structure, mechanism, anchor, privacy)
    outside = mechanism.outside(data)
    if outside.size and float(outside.mean()) > MOST_OUTSIDE:
        raise NotPrivate(
            f"Over {MOST_OUTSIDE:.0%} of the rows lie far beyond the agreed units, where they count for little. "
            "Does this site use another unit, or a code such as 999 for missing values? Nothing has left."
        )
    bound, deviation, variance = noise_in(mechanism, privacy, number)
    summed = summed_records(mechanism, place, data, number)
    values = summed + discrete_gaussian(variance, len(summed))
    release = Release(structure, privacy, number, place, values, variance, (secrets.token_hex(16),), site)
    ledger.spend(Spending(release.ids[0], model, site, privacy, bound / deviation, number, data_set, known))
    return release


def public_anchor(
    structure: Structure, mechanism: Mechanism, anchor: Any, privacy: Privacy
) -> tuple[Array, int, frozenset[str]]:
    """The anchor, its round, and the releases behind it; refused if it may depend on data otherwise."""
    if isinstance(anchor, PrivateMerge):
        if anchor.posterior.structure != structure:
            raise NotPrivate("The anchor is of another model: continue from the private merge of this one's releases.")
        if not anchor.privacy.same_as(privacy):
            raise NotPrivate(f"The releases so far promise {anchor.privacy}; this one would promise {privacy}.")
        if anchor.round >= mechanism.rounds:
            raise NotPrivate(
                f"All {mechanism.rounds} rounds are done, and the budget is spent. The merge is the result."
            )
        return anchor.anchor, anchor.round, anchor.releases
    if not isinstance(anchor, Posterior) or anchor.structure != structure:
        raise NotPrivate("The anchor must be the prior of this model, or a private merge of its releases.")
    if anchor != Posterior.of_prior(structure):
        raise NotPrivate(
            "The anchor holds what data have contributed, and noise at such an anchor protects nobody. Begin with "
            "`db.Posterior.of_prior(model.structure)`; continue with what `private_merge` returns."
        )
    return mechanism.start(), 0, frozenset()


def noise_in(mechanism: Mechanism, privacy: Privacy, number: int) -> tuple[int, int, int]:
    """How far one person can change a round's sum, the noise deviation that hides it, and each site's variance."""
    bound = largest_norm(mechanism.size(number)) * privacy.rows_per_person
    deviation = smallest_deviation(bound, privacy.mu * sqrt(mechanism.budget_parts[number]))
    return bound, deviation, -(-deviation * deviation // privacy.honest)


def largest_norm(size: int) -> int:
    """The largest norm of a record's statistic in steps, including rounding."""
    return STEPS + isqrt(size) + 1


def smallest_deviation(bound: int, mu: float) -> int:
    """The noise's standard deviation in steps: the smallest integer not below bound / μ, by integers alone."""
    numerator, denominator = mu.as_integer_ratio()
    return -(-bound * denominator // numerator)


def summed_records(mechanism: Mechanism, anchor: Array, data: Any, number: int) -> Integers:
    """The exact sum of all records' statistics, each rounded to the grid."""
    size = mechanism.size(number)
    total = np.zeros(size, dtype=np.int64)
    for block in mechanism.portions(data):
        records = bounded(GRID.quantize(mechanism.record_statistics(anchor, block, number)), size)
        total = exact_sum(
            [total, *(records[start : start + BLOCK].sum(axis=0) for start in range(0, len(records), BLOCK))]
        )
    return total


def bounded(records: Integers, size: int) -> Integers:
    """The records; refused if one exceeds its bound, because then a mechanism is wrong and nothing must leave."""
    if (
        records.ndim != 2
        or records.shape[1] != size
        or ((records * records).sum(axis=1) > largest_norm(size) ** 2).any()
    ):
        raise InvalidData("A record's statistic is larger than its stated bound; nothing was released. Report this.")
    return records


def summed(releases: Sequence[Release], values: Any = None) -> Release:
    """The release of several sites together, as a secure sum opens it.

    Args:
        releases: the releases of all sites in one round.
        values: the opened sum, if it is not the sum of the releases' values.
    """
    first = check_one_round(releases)
    total = exact_sum([release.values for release in releases]) if values is None else values
    return replace(
        first,
        values=total,
        variance=sum(one.variance for one in releases),
        ids=tuple(sorted(name for one in releases for name in one.ids)),
        site="",
    )


def check_one_round(releases: Sequence[Release]) -> Release:
    """The first release; refused if others have another model, round, promise or anchor."""
    first = releases[0]
    for other in releases[1:]:
        if other.structure != first.structure:
            raise NotPrivate("The releases are of different models.")
        if other.privacy != first.privacy or other.round != first.round:
            raise NotPrivate(
                f"One release of round {first.round} promises {first.privacy}; another, of round {other.round}, "
                f"{other.privacy}."
            )
        if not np.array_equal(other.anchor, first.anchor) or other.values.shape != first.values.shape:
            raise NotPrivate(
                f"Releases of round {first.round} were made at different anchors. All sites use the same merge."
            )
    return first


def total_of(releases: Sequence[Release]) -> Total:
    """The sum of all sites in one round."""
    for release in releases:
        if not release.open:
            raise NotPrivate(
                "A release with shared noise protects nobody by itself. Only the secure sum of all "
                f"{release.privacy.sites} sites may be opened; here is one of {len(release.ids)}."
            )
    whole = summed(releases)
    deviation = sqrt(whole.variance) * GRID.step
    copies = len(whole.ids) if whole.privacy.noise == "each" else len(releases)
    return Total(GRID.values(whole.values), deviation, whole.anchor, copies)
