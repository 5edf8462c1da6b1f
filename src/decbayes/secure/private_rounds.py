"""Rounds of private releases under secure sums: each member adds its share of one noise, and the sum is the release.

A member's release is masked at once and spends nothing: nobody can read it. What it spends is in the site's ledger
before the member opens its part. A sum that is given up costs nobody anything.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from decbayes.disclosure.private_merging import private_merge
from decbayes.models.core.model import Model
from decbayes.models.core.registry import model_for
from decbayes.posterior import Posterior
from decbayes.privacy.accounting import Privacy
from decbayes.privacy.grid import Integers
from decbayes.privacy.mechanism import Mechanism, PrivateMerge
from decbayes.privacy.releasing import GRID, Release, Spending, noise_in
from decbayes.remarks import ordered
from decbayes.secure.agreement import LOST, Agreement, Merged
from decbayes.secure.anchored import Share
from decbayes.secure.noise import made_id, place_of
from decbayes.secure.terms import Terms


@dataclass(frozen=True)
class PrivateMerged(Merged):
    """An opened sum of private releases; how many rows are behind it is not released."""

    release: Release
    merge: PrivateMerge


@dataclass(frozen=True)
class PrivateAgreement(Agreement):
    """What members agree on whose sums are private releases. The rounds are those that the model's mechanism has."""

    privacy: Privacy = field(kw_only=True)

    @cached_property
    def mechanism(self) -> Mechanism:
        return model_for(self.anchor.structure).mechanism()

    def plain(self) -> dict[str, Any]:
        return {**super().plain(), "privacy": self.privacy.plain()}

    def next_terms(self, results: Sequence[Merged]) -> Terms:
        number = len(results)
        place = place_of(self.anchor.structure, self.privacy, releases_in(results))
        length = self.mechanism.size(number)
        return Terms(self.fingerprint, number + 1, self.members, place, length, GRID.step, self.colluders)

    def result(self, steps: Integers, results: Sequence[Merged]) -> PrivateMerged:
        number, terms, before = len(results), self.next_terms(results), releases_in(results)
        _, _, variance = noise_in(self.mechanism, self.privacy, number)
        anchor = merge_in(results)
        release = Release(
            self.anchor.structure,
            self.privacy,
            number,
            self.mechanism.start() if anchor is None else anchor.anchor,
            steps,
            variance * len(self.members),
            tuple(sorted(made_id(terms, name) for name in self.members)),
        )
        merge = private_merge(self.anchor.structure, [*before, release])
        posterior = replace(merge.posterior, remarks=ordered([*merge.posterior.remarks, LOST]))
        share = Share(posterior, rows=0.0, persons=0.0, units=0.0)
        return PrivateMerged(posterior, share, len(self.members), release, merge)


def releases_in(results: Sequence[Merged]) -> list[Release]:
    return [result.release for result in results if isinstance(result, PrivateMerged)]


def merge_in(results: Sequence[Merged]) -> PrivateMerge | None:
    """The anchor of the next round; None before the first."""
    return next((result.merge for result in reversed(results) if isinstance(result, PrivateMerged)), None)


@dataclass(frozen=True)
class PrivateShare:
    """A member's release with its share of the noise, and what it will have spent once its part is open."""

    release: Release
    spending: Spending

    def bounded(self, most: float) -> "PrivateShare":
        """Rows are bounded one by one already."""
        return self

    def steps(self, step: float) -> Integers:
        return self.release.values


class Later:
    """Books in which nothing is recorded yet: a masked release shows nothing before its part is open."""

    def __init__(self) -> None:
        self.spending: list[Spending] = []

    def spend(self, spending: Spending) -> None:
        self.spending.append(spending)


def private_share(
    model: Model,
    data: Any,
    privacy: Privacy,
    before: PrivateMerge | None,
    own: frozenset[str],
    *,
    site: str = "",
    persons: Any = None,
) -> PrivateShare:
    """What a site masks in the next round; `own` are the ids of its releases so far, which its ledger knows."""
    books, anchor = Later(), before or Posterior.of_prior(model.structure)
    release = model.release(anchor, data, privacy, ledger=books, site=site, persons=persons)
    return PrivateShare(release, replace(books.spending[0], known=own))
