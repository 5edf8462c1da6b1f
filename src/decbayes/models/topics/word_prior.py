"""The prior of the words in a topic, β_k ~ Dirichlet(η) with one η for all words, learned: Minka's fixed point.

Given the expected counts n_kv of V words in topics, n_k in all, the bound depends on η by

    Σ_k lnΓ(Vη) − lnΓ(Vη + n_k) + Σ_v lnΓ(η + n_kv) − lnΓ(η)

and η ← η Σ_kv (ψ(η + n_kv) − ψ(η)) / V Σ_k (ψ(Vη + n_k) − ψ(Vη)) never lowers it.

What a site contributes is its counts, whatever η is. But η is a part of the prior, which sites agree on: a fit
that learns it says the number, and others take that number (--like, a charter); or all posteriors move to one number
before they merge.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.special import digamma

from decbayes.base.arguments import check_kind, check_positive
from decbayes.errors import InvalidStructure, NothingToMerge, StructureMismatch
from decbayes.families import Array
from decbayes.families.matrices import smallest, stored
from decbayes.models.core.ascent import Fit, FitInterrupted, OnPass, Pass
from decbayes.models.core.counts import as_counts
from decbayes.models.topics.document_prior import SEARCHING
from decbayes.posterior import Posterior
from decbayes.structure import Structure

if TYPE_CHECKING:
    from decbayes.models.topics.lda import LatentDirichletAllocation

Learned = float | Literal["learn"]

# Where learning starts, and what it is worth: as much as one count of a word.
FIRST = 0.01
STEPS, TOLERANCE = 1000, 1e-5
# Digits of a learned η: few enough to write into a charter.
DIGITS = 3
# Fits in turn with a new η.
ROUNDS = 10


def learned_topic_prior(posteriors: Iterable[Posterior], start: float = FIRST) -> float:
    """η at which the topics of all posteriors together are most probable."""
    counts = [posterior.contribution["topics"] for posterior in posteriors]
    values = np.concatenate([stored(part)[stored(part) > 0.0] for part in counts])
    totals = np.concatenate([np.asarray(part.sum(axis=1)).ravel() for part in counts])
    return round_to(fixed_point(values, totals, counts[0].shape[1], start), DIGITS)


def fixed_point(values: Array, totals: Array, words: int, eta: float) -> float:
    """Minka's fixed point, from counts above zero and the topics' totals."""
    for _ in range(STEPS):
        tables = eta * (digamma(values + eta) - digamma(eta)).sum()
        rate = words * (digamma(totals + words * eta) - digamma(words * eta)).sum()
        before, eta = eta, float((1.0 + tables) / (1.0 / FIRST + rate))
        if abs(eta - before) <= TOLERANCE * before:
            break
    return eta


def round_to(value: float, digits: int) -> float:
    return float(f"{value:.{digits}g}")


def checked_topic_prior(given: Any) -> None:
    """Refuse words other than "learn"; the structure refuses wrong numbers."""
    if isinstance(given, str) and given != "learn":
        raise ValueError(f"topic_prior must be a positive number, one per word, or 'learn'; not {given!r}.")


def shared_prior(structure: Structure) -> Any:
    """The number that all words of all topics have as their prior; an array where they differ."""
    alpha = concentration(smallest(structure.prior["topics"]))
    return float(alpha[0, 0]) if alpha.size == 1 else alpha


def concentration(natural: Array) -> Array:
    """α from α − 1, with the digits that somebody wrote (0.1) rather than those that are left (0.09999999999999998)."""
    alpha = natural + 1.0
    written = np.round(alpha, 15)
    return np.where(written - 1.0 == natural, written, alpha)


def fit_learning(
    model: "LatentDirichletAllocation", data: Any, prior: Posterior | None, start: Posterior | None, **options: Any
) -> Fit:
    """Topics and η in turn, each given the other; where there is a prior, η is that of the prior."""
    known = prior if prior is not None else start
    eta = FIRST
    if known is not None:
        check_topics(known, "start" if prior is None else "prior")
        eta = shared_prior(known.structure)
    if prior is not None or not isinstance(eta, float):
        return replace(model, topic_prior=eta).fit(data, prior=prior, start=start, **options)
    counts = as_counts(model.opened(data), len(model.vocabulary))
    fit = in_turn(replace(model, topic_prior=eta), counts, start=start, **options)
    for _ in range(ROUNDS):
        learned = learned_topic_prior([fit.posterior], eta)
        if learned == eta:
            break
        eta, (begun,) = learned, with_priors([fit.posterior], topic_prior=learned)
        following = in_turn(replace(model, topic_prior=eta), counts, start=begun, **options)
        fit = Fit(following.posterior, (*fit.bound, *following.bound), following.converged)
    return fit


def fit_numbered_first(model: "LatentDirichletAllocation", data: Any, **options: Any) -> Fit:
    """The number of topics with a document prior that is given; then that prior, starting from the topics found."""
    first = in_turn(replace(model, document_prior=SEARCHING), data, **options)
    sized = model.sized(len(first.posterior.structure.prior["topics"]))
    nothing = Posterior.of_prior(sized.structure).contribution
    start = Posterior(sized.structure, {**nothing, **first.posterior.contribution})
    learned = in_turn(sized, data, start=start, **options)
    return Fit(learned.posterior, (*first.bound, *learned.bound), learned.converged)


class InTurn:
    """Tells of the passes of one of several fits; where an interrupted one was is not for the others to know."""

    def __init__(self, progress: OnPass) -> None:
        self._progress, self.within = progress, getattr(progress, "within", lambda done, total: None)

    def __call__(self, reached: Pass) -> None:
        self._progress(reached)


def in_turn(model: "LatentDirichletAllocation", data: Any, *, progress: OnPass | None, **options: Any) -> Fit:
    """One of several fits in turn: once interrupted, they go on from the posterior."""
    try:
        return model.fit(data, progress=None if progress is None else InTurn(progress), **options)
    except FitInterrupted as interruption:
        raise FitInterrupted(interruption.fit) from None


def with_priors(
    posteriors: Sequence[Posterior], *, topic_prior: Learned | None = None, document_prior: Any = None
) -> list[Posterior]:
    """Posteriors of topic models on priors that all agree on, so that they merge: what each site has counted stays.

        merged = db.merge(db.texts.with_priors(posteriors, topic_prior="learn"))
        merged, = db.texts.with_priors([merged], topic_prior="learn")  # learned again, from the merged topics

    They may come from sites, or from other libraries, with different priors: each with 1 / its number of topics, say.
    With "learn" the topic prior is the number at which the topics of all are most probable. A `document_prior` takes
    the place of one that was given or learned; to learn it needs documents, so "learn" is for fits.

    Args:
        posteriors: those of the sites.
        topic_prior: the new prior of words in topics; default: as it is.
        document_prior: the new prior of topics in documents; default: as it is.

    >>> counts = np.array([[5, 4, 0, 0], [0, 0, 4, 5]] * 5)
    >>> models = [db.LatentDirichletAllocation(2, list("abcd"), topic_prior=prior) for prior in (0.1, 0.5)]
    >>> fits = [model.fit(counts, rng=0).posterior for model in models]
    >>> merged = db.merge(db.texts.with_priors(fits, topic_prior=0.2))
    >>> merged.mean("topics").max(axis=1).round(2)
    array([0.55, 0.55])
    """
    if not len(posteriors):
        raise NothingToMerge("There are no posteriors to put on common priors.")
    for posterior in posteriors:
        check_topics(posterior)
    if document_prior is not None:
        if isinstance(document_prior, str):
            raise ValueError("document_prior is a number here. Sites learn one with document_prior='learn' in fits.")
        check_positive(document_prior=document_prior)
    eta = learned_topic_prior(posteriors) if topic_prior == "learn" else topic_prior
    return [on_priors(posterior, eta, document_prior) for posterior in posteriors]


def check_topics(posterior: Posterior, role: str = "posterior") -> None:
    check_kind(Posterior, **{role: posterior})
    name = posterior.structure.model.get("name", "an unnamed model")
    if name != "LatentDirichletAllocation":
        raise StructureMismatch(f"A {role} of {name} has no topic prior; only topic models have one.")


def on_priors(posterior: Posterior, topic_prior: Any, document_prior: Any) -> Posterior:
    """The same counts on other priors."""
    from decbayes.models.topics.lda import LatentDirichletAllocation

    before = LatentDirichletAllocation.from_structure(posterior.structure)
    if before.agreed is not None:
        raise InvalidStructure("The prior is what earlier data have taught, and holds them: it is not to be changed.")
    given = {"topic_prior": topic_prior, "document_prior": document_prior}
    model = replace(before, **{name: value for name, value in given.items() if value is not None})
    parts = {name: part for name, part in posterior.contribution.items() if name in model.structure.families}
    return Posterior(model.structure, parts, posterior.ids)
