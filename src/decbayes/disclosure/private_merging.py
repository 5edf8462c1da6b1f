"""Merges of private releases, and plans that state the cost of the noise before anything is released."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import ceil

import numpy as np

from decbayes.base.arguments import check_kind, check_whole
from decbayes.errors import NotPrivate
from decbayes.models.core.model import Model
from decbayes.models.core.registry import model_for
from decbayes.models.core.settings import Number
from decbayes.privacy.accounting import Privacy
from decbayes.privacy.mechanism import Estimate, Mechanism, PrivateMerge
from decbayes.privacy.releasing import Release, check_one_round, total_of
from decbayes.remarks import Remark
from decbayes.structure import Structure

# Tolerance for anchors: each machine that merges computes them, and they differ in the last digits.
SAME_ANCHOR = 1e-6
# Misfit between rounds that noise exceeds in one of a thousand cases.
STRANGE = 3.0


def private_merge(
    structure: Structure, releases: Iterable[Release], *, components: Number | None = None
) -> PrivateMerge:
    """The posterior of all sites' rows, from their private releases of all rounds so far.

    It costs no privacy, because it is computed from releases alone. Its intervals account for the noise. It is also the
    anchor of the next round, until all rounds are done.

    Args:
        releases: the releases of all sites and rounds, or one secure sum per round.
        components: another number of clusters than agreed, or "auto" for the best one by the noisy histograms, at no
            cost of privacy. Releases of other models allow only the agreed number.

    >>> columns = {"age": db.columns.Gaussian(centre=50, scale=20), "ill": db.columns.YesNo()}
    >>> model = db.LogisticRegression("ill", columns=columns)
    >>> rng = np.random.default_rng(0)
    >>> age = rng.normal(50, 20, 4000)
    >>> patients = {"age": age, "ill": rng.random(4000) < 1 / (1 + np.exp(3 - 0.05 * age))}
    >>> privacy, ledger = db.Privacy(epsilon=1.0, delta=1e-6), db.disclosure.Ledger("patients.ledger")
    >>> anchor, releases = db.Posterior.of_prior(model.structure), []
    >>> for _ in range(5):
    ...     releases.append(model.release(anchor, patients, privacy, ledger=ledger))
    ...     anchor = db.private_merge(model.structure, releases)
    >>> anchor.posterior.uncertainty
    'calibrated by noise of private releases, delta method'
    >>> bool(0.02 < model.coefficients(anchor.posterior)[1]["mean"] < 0.08)
    True
    """
    check_kind(Structure, structure=structure)
    rounds = by_round(structure, list(releases))
    mechanism = model_for(structure).mechanism()
    if components is not None:
        number = mechanism.best_number([total_of(sites) for sites in rounds]) if components == "auto" else components
        mechanism = with_components(structure, mechanism, number)
    privacy = rounds[-1][0].privacy
    totals, anchor = [], mechanism.start()
    for number, sites in enumerate(rounds):
        total = total_of(sites)
        check_anchor(total.anchor, anchor, number)
        totals.append(total)
        estimate = mechanism.estimate(totals, privacy.mu**2)
        anchor = estimate.anchor
    remarks = remarks_on(mechanism, estimate, privacy, len(rounds))
    return PrivateMerge(
        replace(estimate.posterior, remarks=(*remarks, *estimate.remarks)),
        estimate.noise,
        estimate.misfit,
        estimate.price,
        anchor,
        len(rounds),
        mechanism.rounds,
        privacy,
        frozenset(name for sites in rounds for release in sites for name in release.ids),
    )


def with_components(structure: Structure, mechanism: Mechanism, number: int) -> Mechanism:
    """The mechanism for another number of components, whose statistics are the same."""
    check_whole(1, components=number)
    if not mechanism.any_number:
        mechanism.best_number([])
    return model_for(structure.with_components(number)).mechanism()


def by_round(structure: Structure, releases: Sequence[Release]) -> list[list[Release]]:
    """The releases of each round, checked: the same sites in every round, each once."""
    if not releases:
        raise NotPrivate("There are no releases to merge.")
    if any(release.structure != structure for release in releases):
        raise NotPrivate("A release is of another model than the structure's.")
    rounds = [
        sorted((one for one in releases if one.round == number), key=lambda one: one.ids)
        for number in range(max(one.round for one in releases) + 1)
    ]
    everybody = sorted(one.site for one in rounds[0])
    for number, sites in enumerate(rounds):
        if not sites or sorted(one.site for one in sites) != everybody:
            raise NotPrivate(
                f"Round 0 has releases of {len(everybody)} sites, and round {number} of "
                f"{len(sites)} or of others. Every site takes part in every round."
            )
        names = [one.site for one in sites if one.site]
        parts = [name for one in sites for name in one.ids]
        if len(set(names)) < len(names) or len(set(parts)) < len(parts):
            raise NotPrivate(f"Round {number} has two releases of one site.")
        if not check_one_round(sites).privacy.same_as(rounds[0][0].privacy):
            raise NotPrivate(f"Round {number} promises {sites[0].privacy}; round 0 promises {rounds[0][0].privacy}.")
    return rounds


def check_anchor(used: np.ndarray, computed: np.ndarray, number: int) -> None:
    """Refuse releases at an anchor that the earlier releases do not imply: it may depend on someone's data."""
    if used.shape != computed.shape or not np.allclose(used, computed, rtol=SAME_ANCHOR, atol=SAME_ANCHOR):
        raise NotPrivate(
            f"Releases of round {number} were made at an anchor that those of earlier rounds do not imply. Merge the "
            "releases that the sites have used, all of them."
        )


def remarks_on(mechanism: Mechanism, estimate: Estimate, privacy: Privacy, done: int) -> list[Remark]:
    """Remarks on the promised privacy, its cost, and any doubts."""
    remarks = [
        Remark(
            "differential privacy",
            f"Released with differential privacy: {privacy}.",
            "State this promise with the result.",
            f"{mechanism.cost.format(price=estimate.price)}; {done} of {mechanism.rounds} rounds are done.",
            "note",
        )
    ]
    if estimate.quality < mechanism.useless:
        remarks.append(
            Remark(
                "much noise",
                "There is so much noise that estimates and their intervals may be far off.",
                "More rows per site, shared noise (secure sums), fewer terms or a larger ε would help.",
                f"Q = n μ² / p is about {estimate.quality:.2g}; below {mechanism.useless:g} a plan is refused.",
            )
        )
    if estimate.misfit > STRANGE:
        remarks.append(
            Remark(
                "rounds differ",
                "Rounds differ by more than their noise explains.",
                "Compare the agreed units with what columns usually hold, and ask whether all sites used the same data "
                "in every round.",
                f"Their squared distance is {estimate.misfit:.2g} times what noise would cause.",
            )
        )
    return remarks


@dataclass(frozen=True)
class PrivatePlan:
    """The expected cost of private releases.

    Attributes:
        privacy: the promise.
        quality: Q = n μ² / p, with n the rows per independent noise and p the number of parameters.
        price: the approximate width of intervals relative to those without noise; NaN for models without intervals.
        rounds: the number of releases per site.
        rows_needed: the fewest rows per site without a warning.
        remarks: a warning if the price is high.
    """

    privacy: Privacy
    quality: float
    price: float
    rounds: int
    rows_needed: int
    remarks: tuple[Remark, ...] = ()

    def __str__(self) -> str:
        wider = f"Intervals would be about {self.price:.2g} times as wide as without noise"
        cost = wider if self.price == self.price else "Means would be released, without intervals"
        rounds = "1 round" if self.rounds == 1 else f"{self.rounds} rounds"
        text = f"{cost} (Q = {self.quality:.3g}), after {rounds}. {self.privacy}."
        return " ".join([text, *map(str, self.remarks)])


def private_plan(model: Model, *, sites: int, rows: int, privacy: Privacy) -> PrivatePlan:
    """The cost of privacy, from public numbers alone; NotPrivate if the result would be useless.

    Args:
        rows: the approximate number of rows per site.

    >>> columns = {"age": db.columns.Gaussian(centre=50, scale=20), "ill": db.columns.YesNo()}
    >>> model = db.LogisticRegression("ill", columns=columns)
    >>> plan = db.private_plan(model, sites=10, rows=5000, privacy=db.Privacy(epsilon=1.0, delta=1e-6))
    >>> round(plan.price, 1), plan.rounds
    (1.1, 5)
    >>> db.private_plan(model, sites=10, rows=50, privacy=db.Privacy(epsilon=1.0, delta=1e-6))
    Traceback (most recent call last):
    decbayes.errors.NotPrivate: Useless here: Q = 1.4, and below 10 noise drowns 50 rows per site. ...
    """
    check_whole(1, sites=sites, rows=rows)
    check_kind(Model, model=model)
    if privacy.noise == "shared" and privacy.sites != sites:
        raise NotPrivate(f"The promise is about {privacy.sites} sites that share the noise, the plan about {sites}.")
    mechanism = model.mechanism()
    per_row = privacy.honest * (privacy.mu / privacy.rows_per_person) ** 2 / mechanism.parameters
    quality = rows * per_row
    needed, least = ceil(mechanism.doubtful / per_row), ceil(mechanism.useless / per_row)
    if quality < mechanism.useless:
        raise NotPrivate(
            f"Useless here: Q = {quality:.2g}, and below {mechanism.useless:g} noise drowns {rows:,} rows per site. "
            f"{least:,} rows per site would do, {needed:,} would do well; so would a larger ε, fewer terms, or one "
            "noise that sites share."
        )
    remarks: tuple[Remark, ...] = ()
    if quality < mechanism.doubtful:
        remarks = (
            Remark(
                "much noise",
                "Noise will be a large part of the uncertainty.",
                f"With {needed:,} rows per site it would be small.",
                f"Q is below {mechanism.doubtful:g}.",
            ),
        )
    return PrivatePlan(privacy, quality, mechanism.price_at(quality), mechanism.rounds, needed, remarks)
