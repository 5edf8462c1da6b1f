"""Latent Dirichlet allocation by batch variational Bayes (section 3.2)."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import numpy as np
from scipy.sparse import csr_array

from decbayes.base.arguments import Above, Seed, as_shape, check_whole, children, generator, given_generator
from decbayes.base.workers import HEAVY, gathered
from decbayes.devices import DeviceName, device_for
from decbayes.families import Array, Dirichlet
from decbayes.inputs.recipes import USUAL, Recipe
from decbayes.models.core.ascent import Ascent, Fit, OnPass, fit_best, fit_of, on_top, progress_within
from decbayes.models.core.component_search import ComponentSearch, check_number, known_number
from decbayes.models.core.counts import Counts, as_counts, words_in_order
from decbayes.models.core.information import Tally
from decbayes.models.core.points import check_fit, of_own_posterior
from decbayes.models.core.settings import LOCAL, Method, Number, number_of
from decbayes.models.topics._fitting import (
    ENOUGH,
    NEGLIGIBLE,
    OTHERS,
    SHARPENING,
    Site,
    check_seeds,
    extrapolated,
    search_of,
    seeded_words,
    sharpened,
)
from decbayes.models.topics._passes import Steps
from decbayes.models.topics._prediction import PREDICTION_STEPS, PREDICTION_TOLERANCE
from decbayes.models.topics.document_prior import (
    CONCENTRATION,
    FAMILIES,
    SHARES,
    checked_number,
    checked_prior,
    factors,
    with_tables,
)
from decbayes.models.topics.rare_words import HidingRareWords, with_topics
from decbayes.models.topics.word_prior import (
    FIRST,
    check_topics,
    checked_topic_prior,
    fit_learning,
    fit_numbered_first,
    shared_prior,
)
from decbayes.posterior import Posterior
from decbayes.structure import CoupledSet, Structure

if TYPE_CHECKING:
    from decbayes.models.topics._topic_moves import ExpectedCounts


@dataclass(frozen=True)
class LatentDirichletAllocation(HidingRareWords):
    """Documents mix topics, θ_d ~ Dirichlet(document_prior); topics mix words, β_k ~ Dirichlet(topic_prior).

    `document_prior` is a number, or "learn": each fit then finds one number per topic, and a merge learns them from all
    sites together. It may also be one number per topic; topics are then never relabelled.

    `topic_prior` is a number, "learn" (each fit finds it and stores it in the posterior: see `texts.with_priors`), one
    number per word, or a topics × words matrix. Data are sparse (or dense) documents × words counts; empty documents
    are allowed and ignored. `vocabulary` is the words in the order of the columns, or a mapping between words and
    columns, as a `CountVectorizer` or a gensim `Dictionary` has it. `recipe` says how texts become words, for `read`
    and `counted`; sites must agree on it. `public_documents` is the number of documents with each word, as far as lists
    of words state it: it helps to hide rare words, and sites need not agree on it.

    A fit begins with `ascent.warm_up` passes that restart every document's topics, which finds better optima than
    carrying them over from pass to pass; later passes carry them over, so that the bound rises to a fixed point of
    batch variational Bayes. In each pass a document's topics take at most `document_steps` steps and stop once they
    change by less than `document_tolerance` words per topic.

    `seeds` are words that single topics start from, such as "nurse, ward; anchor, mast". The data decide what becomes
    of them: sites with other seeds, or none, merge with this one.

    With `topics="auto"` a fit finds the number of topics by splits, joins and deletions that raise its bound.
    Predictions accept posteriors of any number.

    >>> words = ["ball", "goal", "team", "vote", "party", "law"]
    >>> counts = np.array([[5, 4, 3, 0, 0, 0], [3, 5, 4, 0, 0, 1], [0, 0, 0, 4, 5, 3], [0, 1, 0, 5, 3, 4]] * 5)
    >>> model = db.LatentDirichletAllocation(2, words)
    >>> posterior = model.fit(counts, rng=0).posterior
    >>> sorted(row["words"][0] for row in model.describe(posterior, top=1))
    ['goal', 'vote']
    """

    topics: Annotated[Number, "Number of topics, or 'auto' to find it.", Above(0)]
    vocabulary: Sequence[str]
    document_prior: Annotated[
        float | Literal["learn"], "Dirichlet prior α of the topics in a document, or 'learn'.", Above(0)
    ] = 0.1
    topic_prior: Annotated[
        float | Literal["learn"] | Any, "Dirichlet prior α of the words in a topic, or 'learn'.", Above(0)
    ] = 0.01
    document_steps: Annotated[int, "Maximum number of steps per document in each pass.", Above(0)] = field(
        default=10, metadata=LOCAL
    )
    document_tolerance: Annotated[float, "Stop a document below this change, in words per topic.", Above(0)] = field(
        default=1e-3, metadata=LOCAL
    )
    recipe: Recipe = USUAL
    _: KW_ONLY
    seeds: Annotated[
        str, "Words that topics start from, topics separated by semicolons: 'nurse, ward; anchor, mast'."
    ] = field(default="", metadata=LOCAL)
    public_documents: Sequence[int] = field(default=(), compare=False, repr=False, metadata=LOCAL)
    ascent: Ascent = field(default=Ascent(passes=100, tolerance=1e-3, warm_up=10))

    about: ClassVar[str] = "Topics of documents: latent Dirichlet allocation of texts or of word counts."
    command: ClassVar[str] = "topics"
    example: ClassVar[str] = "letters.jsonl --vocabulary words.txt"
    from_data: ClassVar[frozenset[str]] = frozenset({"vocabulary", "public_documents"})
    in_parts: ClassVar[bool] = True
    number: ClassVar[str] = "topics"
    unit: ClassVar[str] = "word"
    record: ClassVar[str] = "document"
    in_batches: ClassVar[bool] = True
    calibrated_by: ClassVar[Method] = "bootstrap"
    view: ClassVar[str] = "words"
    noun: ClassVar[str] = "topic"

    def __post_init__(self) -> None:
        object.__setattr__(self, "vocabulary", words_in_order(self.vocabulary))
        object.__setattr__(self, "recipe", Recipe.of(self.recipe))
        check_number(topics=self.topics)
        check_whole(1, document_steps=self.document_steps)
        object.__setattr__(self, "document_prior", checked_prior(self.document_prior))
        checked_number(self.document_prior, self.topics)
        checked_topic_prior(self.topic_prior)
        if not self.vocabulary:
            raise ValueError("The vocabulary is empty; each column of the counts needs its word.")
        if len(set(self.vocabulary)) < len(self.vocabulary):
            raise ValueError("The vocabulary names some words twice; each column of the counts needs its own word.")
        check_seeds(self.seeds, self.vocabulary, self.topics)
        if len(self.public_documents) not in (0, len(self.vocabulary)):
            raise ValueError("There must be a public number of documents for each word of the vocabulary, or for none.")

    def with_words(self, words: Sequence[str]) -> Self:
        # Some document has each of them, but nobody has stated how many.
        public = (*self.public_documents, *[1] * len(words)) if self.public_documents else ()
        return replace(self, vocabulary=(*self.vocabulary, *words), public_documents=public)

    def described(self) -> Structure:
        shape, eta = (self._count, len(self.vocabulary)), FIRST if self.learns_words else self.topic_prior
        topics = Dirichlet().natural(alpha=as_shape("topic_prior", eta, shape, above=0.0))
        given: Any = self.document_prior
        fixed = isinstance(given, tuple)
        return Structure(
            families={"topics": Dirichlet(), **(FAMILIES if self.learns else {})},
            prior={"topics": topics, **(factors(self._count) if self.learns else {})},
            symmetry=() if fixed else (CoupledSet(("topics", SHARES) if self.learns else ("topics",)),),
            labels={"topics": self.vocabulary},
            sparse=frozenset({"topics"}),
            model={
                "name": "LatentDirichletAllocation",
                "document_prior": list(given) if fixed else given,
                **self.made(),
            },
        )

    @property
    def learns(self) -> bool:
        """Whether the documents' prior is learned."""
        return bool(self.document_prior == "learn")

    @property
    def learns_words(self) -> bool:
        """Whether the prior of the words in a topic is learned."""
        return isinstance(self.topic_prior, str)

    @property
    def undecided(self) -> str:
        return "topic_prior" if self.learns_words else super().undecided

    def structure_for(self, posterior: Posterior) -> Structure:
        """The model's structure, with the posterior's number of topics and topic prior where fits find these."""
        if not self.learns_words:
            return super().structure_for(posterior)
        check_topics(posterior)
        return replace(self, topic_prior=shared_prior(posterior.structure)).structure_for(posterior)

    @classmethod
    def settings_of(cls, structure: Structure) -> dict[str, Any]:
        shared = {"topics": len(structure.prior["topics"]), "vocabulary": structure.labels["topics"]}
        return {**super().settings_of(structure), **shared, "topic_prior": shared_prior(structure)}

    @on_top
    def fit(
        self,
        data: Any,
        *,
        rng: Seed | None = None,
        prior: Posterior | None = None,
        start: Posterior | None = None,
        progress: OnPass | None = None,
        device: DeviceName | None = None,
    ) -> Fit:
        """Fit the documents, on top of `prior` and starting from the topics of `start` if given.

        If the number of topics is "auto", a prior or start of another number determines it. `device` overrides
        `use_device`.
        """
        if self.learns_words:
            return fit_learning(self, data, prior, start, rng=given_generator(rng), progress=progress, device=device)
        if (known := known_number(self, prior, start)) is not None:
            sized = self.sized(known)
            return sized.fit(data, rng=rng, prior=prior, start=start, progress=progress, device=device)
        random = check_fit(self.structure, rng, prior, start)
        site = self._site(data, prior, start)
        if not site.counts.tokens:
            return Fit(site.prior, (0.0,), True)
        if self.auto and self.learns:
            return fit_numbered_first(self, site.counts, rng=random, progress=progress, device=device)
        if self.auto:
            from decbayes.models.topics._topic_moves import TopicMoves  # few fits need it

            moves = TopicMoves(self, site.counts.loaded(), site.before, generator(random))
            found = ComponentSearch(moves, self.ascent, progress).run()
            return self.doubted(fit_of(found, partial(self._of_any_number, site.counts)), site.counts, None)
        ascent, gpu = self._climbing(start), device_for(device)
        search = search_of(site, self._steps(), ascent, gpu, progress_within(progress, len(site.counts)))
        fit = fit_best(
            lambda: search.begin(site.first(random).written_out(), site.first_tables()),
            search.step,
            lambda reached: site.posterior(search.statistics(reached), search.tables(reached)),
            ascent=ascent,
            observations=site.counts.tokens,
            progress=progress,
            keep=search.keep,
        )
        return fit if prior is not None or start is not None else self.doubted(fit, site.counts, gpu)

    def doubted(self, fit: Fit, counts: Counts, gpu: Any = None) -> Fit:
        """Add remarks if texts are too short for the topics, or if a topic rests on few of them."""
        from decbayes.models.topics.fit_remarks import doubts

        model = self.sized(number_of(fit.posterior.structure)) if self.auto else self
        remarks = doubts(model, fit.posterior, counts, gpu)
        return replace(fit, posterior=replace(fit.posterior, remarks=remarks)) if remarks else fit

    def fit_many(
        self,
        shards: Sequence[Any],
        *,
        rng: Seed | None = None,
        priors: Sequence[Posterior] | None = None,
        starts: Sequence[Posterior] | None = None,
        device: DeviceName | None = None,
    ) -> list[Fit]:
        """A fit of each shard; on a GPU all in the same launches."""
        gpu = device_for(device)
        if gpu is None or self.auto or self.learns or self.learns_words:
            return super().fit_many(shards, rng=rng, priors=priors, starts=starts)
        from decbayes.models.topics.cuda.many_sites import fit_sites

        nothing = Posterior.of_prior(self.structure)  # once, not in each thread
        begins: Sequence[Posterior | None] = starts or [None] * len(shards)
        inputs = zip(shards, priors or [nothing] * len(shards), begins, strict=True)
        size = sum(getattr(shard, "nnz", HEAVY * len(shards)) for shard in shards)
        sites = gathered((partial(self._site, *site) for site in inputs), size=size)
        return fit_sites(sites, self._steps(), self._climbing(starts), gpu, children(rng, len(sites)))

    def contributed(self, posterior: Posterior, data: Any) -> Posterior:
        """Uses converged document topics, as predictions do."""
        steps: Any = {"document_steps": PREDICTION_STEPS, "document_tolerance": PREDICTION_TOLERANCE}
        return super(LatentDirichletAllocation, replace(self, **steps)).contributed(posterior, data)

    def first_refit(self, data: Any, others: Posterior, merged: Posterior) -> tuple[Self, Posterior]:
        """A few passes that restart every document's topics, with no more weight of the others than topics need.

        A merge is blurred, and all sites move at the same time. So the others count as OTHERS times the site's
        documents, or as ENOUGH documents per topic if that is more. The more of them a site needs, the further their
        words are settled beforehand, as their own refits will do.
        """
        topics = csr_array(others.contribution["topics"])
        words, known = self.units(self.opened(data)), float(topics.sum())
        needed = max(OTHERS, ENOUGH * topics.shape[0] / max(len(words), 1))
        part = min(1.0, needed * float(words.sum()) / known) if known > 0.0 else 1.0
        contributions: Any = {**others.contribution, "topics": sharpened(topics, merged.contribution["topics"], needed)}
        trusted = {name: part * contribution for name, contribution in contributions.items()}
        passes = min(SHARPENING, self.ascent.passes)
        return replace(self, ascent=Ascent(passes=passes, warm_up=passes)), replace(others, contribution=trusted)

    def overstepped(self, before: Posterior, after: Posterior) -> Posterior:
        """Go half as far again as the refit, word by word: the blur of a merge disappears slowly, as in EM."""
        return with_topics(after, extrapolated(before.contribution["topics"], after.contribution["topics"]))

    def draw(
        self,
        parameters: Mapping[str, Any],
        size: int,
        rng: np.random.Generator,
        *,
        length: Annotated[float, "Mean length of documents, in words.", Above(0)] = 100.0,
    ) -> tuple[csr_array, Array]:
        """Documents of about `length` words each, and the topics of each."""
        learned = parameters[CONCENTRATION][0, 0] * parameters[SHARES] if self.learns else self.document_prior
        shares = rng.dirichlet(np.broadcast_to(learned, self._count), size=size)
        words = shares @ parameters["topics"]
        tokens = rng.poisson(length, size=size)
        return csr_array(rng.multinomial(tokens, words / words.sum(axis=1, keepdims=True))), shares

    @classmethod
    def remedy(cls, first: Structure, second: Structure) -> str:
        """Topics over the same words merge on common priors."""
        same_words = first.labels == second.labels
        return "merge on common priors: --topic-prior learn --document-prior 0.1" if same_words else ""

    @of_own_posterior
    def tally(self, posterior: Posterior) -> Tally:
        topics, prior = csr_array(posterior.contribution["topics"]), posterior.structure.prior["topics"]
        counts, fewest = topics.sum(axis=1), topics.min(axis=1).toarray().reshape(-1, 1)  # a vector since SciPy 1.15
        tally = Tally(counts.sum(), counts, slack=NEGLIGIBLE * prior.size, within={"topics": fewest})
        return with_tables(posterior, tally) if self.learns else tally

    def _site(self, data: Any, prior: Posterior | None, start: Posterior | None) -> Site:
        counts = as_counts(self.opened(data), len(self.vocabulary))
        places = seeded_words(self.seeds, self.vocabulary)
        return Site(counts, prior or Posterior.of_prior(self.structure), start, places)

    def _climbing(self, start: Any) -> Ascent:
        """From given topics there is nothing to search for, except in the few passes of `first_refit`."""
        if start is None:
            return self.ascent
        searching = self.ascent.warm_up if self.ascent.warm_up == self.ascent.passes <= SHARPENING else 0
        return replace(self.ascent, warm_up=searching, restarts=0)

    def _steps(self) -> Steps:
        given = np.ones(self._count) if self.learns else self.document_prior
        return Steps(np.array(np.broadcast_to(given, self._count)), self.document_tolerance, self.document_steps)

    @property
    def _count(self) -> int:
        return 1 if self.topics == "auto" else self.topics

    def _of_any_number(self, counts: Counts, expected: "ExpectedCounts") -> Posterior:
        prior = Posterior.of_prior(self.sized(expected.statistics.shape[1]).structure)
        return Site(counts, prior).posterior(expected.statistics)
