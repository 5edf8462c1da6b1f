"""The prior of a topic's words, β_k ~ Dirichlet(η) with one η for all words, learned by Minka's fixed point.

Given the expected counts n_kv of V words in topics, n_k in all, the bound depends on η by

    Σ_k lnΓ(Vη) − lnΓ(Vη + n_k) + Σ_v lnΓ(η + n_kv) − lnΓ(η)

and η ← η Σ_kv (ψ(η + n_kv) − ψ(η)) / V Σ_k (ψ(Vη + n_k) − ψ(Vη)) never lowers it.

A site contributes its counts, whatever η is. But η is a part of the prior that sites agree on: a fit that learns it
states the number, and others use it (--like, a charter); or all posteriors move to one number before they merge.
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

# Where learning starts; this start weighs as much as one count of a word.
FIRST = 0.01
STEPS, TOLERANCE = 1000, 1e-5
# Digits of a learned η: few enough to write into a charter.
DIGITS = 3
# Largest number of alternating fits.
ROUNDS = 10


def learned_topic_prior(posteriors: Iterable[Posterior], start: float = FIRST) -> float:
    """The η at which the topics of all posteriors together are most probable."""
    counts = [posterior.contribution["topics"] for posterior in posteriors]
    values = np.concatenate([stored(part)[stored(part) > 0.0] for part in counts])
    totals = np.concatenate([np.asarray(part.sum(axis=1)).ravel() for part in counts])
    return float(f"{fixed_point(values, totals, counts[0].shape[1], start):.{DIGITS}g}")


def fixed_point(values: Array, totals: Array, words: int, eta: float) -> float:
    """Minka's fixed point, from positive counts and the topics' totals."""
    for _ in range(STEPS):
        tables = eta * (digamma(values + eta) - digamma(eta)).sum()
        rate = words * (digamma(totals + words * eta) - digamma(words * eta)).sum()
        before, eta = eta, float((1.0 + tables) / (1.0 / FIRST + rate))
        if abs(eta - before) <= TOLERANCE * before:
            break
    return eta


def checked_topic_prior(given: Any) -> None:
    """Refuse strings other than "learn"; the structure refuses wrong numbers."""
    if isinstance(given, str) and given != "learn":
        raise ValueError(f"topic_prior must be a positive number, one per word, or 'learn'; not {given!r}.")


def shared_prior(structure: Structure) -> Any:
    """The prior that all words of all topics share; an array if they differ."""
    alpha = concentration(smallest(structure.prior["topics"]))
    return float(alpha[0, 0]) if alpha.size == 1 else alpha


def concentration(natural: Array) -> Array:
    """α from α − 1, as somebody wrote it (0.1), not as rounding left it (0.09999999999999998)."""
    alpha = natural + 1.0
    written = np.round(alpha, 15)
    return np.where(written - 1.0 == natural, written, alpha)


def fit_learning(
    model: "LatentDirichletAllocation", data: Any, prior: Posterior | None, start: Posterior | None, **options: Any
) -> Fit:
    """Alternate between topics and η; a prior determines η."""
    known = prior if prior is not None else start
    eta = FIRST
    if known is not None:
        check_topics(known, "start" if prior is None else "prior")
        eta = shared_prior(known.structure)
    if prior is not None or not isinstance(eta, float):
        return replace(model, topic_prior=eta).fit(data, prior=prior, start=start, **options)
    counts = as_counts(model.opened(data), len(model.vocabulary))
    fit = fit_in_turn(replace(model, topic_prior=eta), counts, start=start, **options)
    for _ in range(ROUNDS):
        learned = learned_topic_prior([fit.posterior], eta)
        if learned == eta:
            break
        eta, (start_on_eta,) = learned, with_priors([fit.posterior], topic_prior=learned)
        following = fit_in_turn(replace(model, topic_prior=eta), counts, start=start_on_eta, **options)
        fit = Fit(following.posterior, (*fit.bound, *following.bound), following.converged)
    return fit if start is not None else replace(model, topic_prior=eta).doubted(fit, counts)


def fit_numbered_first(model: "LatentDirichletAllocation", data: Any, **options: Any) -> Fit:
    """Find the number of topics with a given document prior, then learn that prior, starting from the topics found."""
    first = fit_in_turn(replace(model, document_prior=SEARCHING), data, **options)
    sized = model.sized(len(first.posterior.structure.prior["topics"]))
    nothing = Posterior.of_prior(sized.structure).contribution
    start = Posterior(sized.structure, {**nothing, **first.posterior.contribution})
    learned = fit_in_turn(sized, data, start=start, **options)
    fit = Fit(learned.posterior, (*first.bound, *learned.bound), learned.converged)
    return sized.doubted(fit, data)


class PassesOnly:
    """Reports the passes of one of several fits, but does not resume any of them."""

    def __init__(self, progress: OnPass) -> None:
        self._progress, self.within = progress, getattr(progress, "within", lambda done, total: None)

    def __call__(self, reached: Pass) -> None:
        self._progress(reached)


def fit_in_turn(model: "LatentDirichletAllocation", data: Any, *, progress: OnPass | None, **options: Any) -> Fit:
    """One of several fits in turn; an interrupted one resumes from its posterior."""
    try:
        return model.fit(data, progress=None if progress is None else PassesOnly(progress), **options)
    except FitInterrupted as interruption:
        raise FitInterrupted(interruption.fit) from None


def with_priors(
    posteriors: Sequence[Posterior], *, topic_prior: Learned | None = None, document_prior: Any = None
) -> list[Posterior]:
    """Move posteriors of topic models to common priors, so that they merge; the sites' counts stay.

        merged = db.merge(db.texts.with_priors(posteriors, topic_prior="learn"))
        merged, = db.texts.with_priors([merged], topic_prior="learn")  # learned again, from the merged topics

    Sites and other libraries may have used different priors, such as 1 / their number of topics. With "learn" the topic
    prior is the number at which the topics of all are most probable. A `document_prior` replaces one that was given or
    learned; learning it needs documents, so "learn" is for fits.

    Args:
        topic_prior: the new prior of words in topics; default: unchanged.
        document_prior: the new prior of topics in documents; default: unchanged.

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
        raise InvalidStructure("The prior contains what earlier data have taught, so it cannot be changed.")
    settings = {"topic_prior": topic_prior, "document_prior": document_prior}
    model = replace(before, **{name: value for name, value in settings.items() if value is not None})
    parts = {name: part for name, part in posterior.contribution.items() if name in model.structure.families}
    return replace(posterior, structure=model.structure, contribution=parts, calibration=None)
