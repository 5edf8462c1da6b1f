"""Rounds of private releases under secure sums: each member adds its share of one noise, and the sum is the release.

A masked release spends nothing, because nobody can read it. The site's ledger records the spending before the member
opens its part. An abandoned sum costs nothing.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import msgspec

from decbayes.disclosure.private_merging import private_merge
from decbayes.errors import SumRefused
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
    """An opened sum of private releases; the number of rows behind it is not released."""

    release: Release
    merge: PrivateMerge


@dataclass(frozen=True)
class PrivateAgreement(Agreement):
    """An agreement on sums of private releases, in the rounds of the model's mechanism.

    >>> columns = {"age": db.columns.Gaussian(centre=50, scale=20), "ill": db.columns.YesNo()}
    >>> prior = db.Posterior.of_prior(db.LogisticRegression("ill", columns=columns).structure)
    >>> publics = {name: bytes([number]) * 32 for number, name in enumerate(("north", "south", "west"))}
    >>> privacy = db.Privacy(1.0, 1e-6, noise="shared", sites=3)
    >>> agreed = db.secure.PrivateAgreement("study 12", publics, prior, rounds=5, privacy=privacy)
    >>> agreed.next_terms().round
    1
    """

    privacy: Privacy = field(kw_only=True)

    def __post_init__(self) -> None:
        if self.anchor != Posterior.of_prior(self.anchor.structure):
            raise SumRefused("Private releases begin at the prior, which depends on no data.")
        if self.rounds != self.mechanism.rounds:
            name = type(model_for(self.anchor.structure)).__name__
            raise SumRefused(f"{name} divides its budget among {self.mechanism.rounds} rounds, not {self.rounds}.")
        super().__post_init__()

    @cached_property
    def mechanism(self) -> Mechanism:
        return model_for(self.anchor.structure).mechanism()

    def plain(self) -> dict[str, Any]:
        return {**super().plain(), "privacy": self.privacy.plain()}

    def next_terms(self, results: Sequence[Merged] = (), without: Collection[str] = ()) -> Terms:
        number, seats = len(results), self.seats(without)
        place = place_of(self.anchor.structure, self.promise(len(seats)), releases_in(results))
        # After the last round the terms are not used.
        length = self.mechanism.size(min(number, self.rounds - 1))
        return Terms(self.fingerprint, number + 1, seats, place, length, GRID.step, self.colluders)

    def promise(self, sites: int) -> Privacy:
        """The same promise for another number of sites: fewer sites add larger shares of the noise."""
        if self.privacy.noise == "each" or self.privacy.sites == sites:
            return self.privacy
        if sites < self.colluders + FEWEST_HONEST:
            raise SumRefused(f"{sites} members cannot share the noise if {self.colluders} of them may collude.")
        return replace(self.privacy, sites=sites)

    def added(self, share: "Share | PrivateShare", before: Integers | None) -> Integers:
        """The release itself: single rows are bounded, and noise hides the difference of two sums."""
        assert isinstance(share, PrivateShare)
        return share.release.values

    def result(self, steps: Integers, results: Sequence[Merged], terms: Terms) -> PrivateMerged:
        number, before, sites = len(results), releases_in(results), len(terms.seats)
        privacy, anchor = self.promise(sites), merge_in(results)
        _, _, variance = noise_in(self.mechanism, privacy, number)
        release = Release(
            self.anchor.structure,
            privacy,
            number,
            self.mechanism.start() if anchor is None else anchor.anchor,
            steps,
            variance * sites,
            tuple(sorted(made_id(terms, name) for name in terms.seats)),
        )
        merge = private_merge(self.anchor.structure, [*before, release])
        posterior = replace(merge.posterior, remarks=ordered([*merge.posterior.remarks, LOST]))
        share = Share(posterior, rows=0.0, persons=0.0, units=0.0)
        return PrivateMerged(posterior, share, sites, release, merge)

    @classmethod
    def fields_in(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        return {**super().fields_in(values), "privacy": Privacy.of(values["privacy"])}


def releases_in(results: Sequence[Merged]) -> list[Release]:
    return [result.release for result in results if isinstance(result, PrivateMerged)]


def merge_in(results: Sequence[Merged]) -> PrivateMerge | None:
    """The anchor of the next round; None before the first."""
    return next((result.merge for result in reversed(results) if isinstance(result, PrivateMerged)), None)


@dataclass(frozen=True)
class PrivateShare:
    """A member's release with its share of the noise, and what opening its part will spend."""

    release: Release
    spending: Spending


FEWEST_HONEST = 2


class PendingSpending:
    """Collects spending in place of a ledger: a masked release spends nothing before its part is open."""

    def __init__(self) -> None:
        self.spending: list[Spending] = []

    def spend(self, spending: Spending) -> None:
        self.spending.append(spending)


def private_share(
    model: Model,
    data: Any,
    privacy: Privacy,
    before: PrivateMerge | None,
    known: frozenset[str],
    *,
    site: str = "",
    persons: Any = None,
    data_set: str = "data",
) -> PrivateShare:
    """What a site masks in the next round; `known` are the ids of its earlier releases in its ledger."""
    pending, anchor = PendingSpending(), before or Posterior.of_prior(model.structure)
    release = model.release(anchor, data, privacy, ledger=pending, site=site, persons=persons, data_set=data_set)
    return PrivateShare(release, replace(pending.spending[0], known=known))


def spent_bytes(spending: Spending) -> bytes:
    """Spending as bytes, to be stored until the part is open."""
    fields = {**vars(spending), "privacy": spending.privacy.plain(), "known": sorted(spending.known)}
    return msgspec.json.encode(fields)


def spent_in(content: bytes) -> Spending:
    fields = msgspec.json.decode(content)
    return Spending(**{**fields, "privacy": Privacy.of(fields["privacy"]), "known": frozenset(fields["known"])})
