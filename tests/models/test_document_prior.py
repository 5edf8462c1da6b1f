"""The prior of the topics in a document, learned: where it ends, what sites learn together, that it only follows."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.sparse import csr_array
from scipy.special import gammaln

import decbayes as db
from decbayes.models.topics.document_prior import LearnedPrior, table_sums

WORDS = tuple("abcdefghi")
# Three topics without a common word: how often a document has each of them can be counted.
ALPHA = np.array([0.2, 0.6, 2.0])


def log_polya(alpha, counts):
    """log p(topics of the words | α) of all documents, θ integrated out."""
    return float(
        (
            gammaln(alpha.sum())
            - gammaln(alpha.sum() + counts.sum(axis=1))
            + (gammaln(alpha + counts) - gammaln(alpha)).sum(axis=1)
        ).sum()
    )


def best_alpha(counts, known):
    """Where the likelihood times the prior of α is highest, by SciPy."""

    def loss(log_alpha):
        alpha = np.exp(log_alpha)
        c, m = alpha.sum(), alpha / alpha.sum()
        prior = known.shares @ np.log(m) + known.shape * np.log(c) - known.rate * c
        return -log_polya(alpha, counts) - prior

    return np.exp(minimize(loss, np.zeros(counts.shape[1]), method="BFGS", options={"gtol": 1e-7}).x)


def topic_counts(rng, documents):
    return np.array([rng.multinomial(30, rng.dirichlet(ALPHA)) for _ in range(documents)])


def documents_of(rng, counts):
    """Three words per topic, in equal shares."""
    return csr_array(np.hstack([np.array([rng.multinomial(n, np.full(3, 1 / 3)) for n in own]) for own in counts.T]))


def model(prior="learn", **settings):
    ascent = db.Ascent(passes=2000, tolerance=1e-12, warm_up=5)
    return db.LatentDirichletAllocation(
        3, WORDS, prior, 0.01, document_steps=300, document_tolerance=1e-10, ascent=ascent, **settings
    )


def truth(learning):
    """Topics as they are, for fits to start from."""
    strong = np.kron(np.eye(3), np.full((1, 3), 1000.0))
    start = {name: np.array(part) for name, part in db.Posterior.of_prior(learning.structure).natural.items()}
    return db.Posterior.from_natural(learning.structure, start | {"topics": start["topics"] + strong})


def test_the_fixed_point_is_the_maximum_that_scipy_finds(rng):
    counts, known = rng.gamma(0.5, 4.0, size=(50, 4)), LearnedPrior(np.array([1.0, 2.0, 0.5, 1.0]), 1.5, 0.7)
    sums, heights = known.nothing, []
    for _ in range(3000):
        alpha = known.alpha(sums)
        heights.append(log_polya(alpha, counts) + known.log_density(alpha))
        sums = table_sums(alpha + counts, alpha)
    assert np.diff(heights).min() > -1e-9
    np.testing.assert_allclose(alpha, best_alpha(counts, known), rtol=1e-5)


def test_a_fit_learns_what_counting_would(rng):
    counts, learning = topic_counts(rng, 300), model()
    fit = learning.fit(documents_of(rng, counts), start=truth(learning), rng=rng)
    expected = best_alpha(counts, LearnedPrior.of(db.Posterior.of_prior(learning.structure)))
    np.testing.assert_allclose(learning.document_prior_of(fit.posterior), expected, rtol=0.02)
    np.testing.assert_allclose(learning.document_prior_of(fit.posterior), ALPHA, rtol=0.35)
    # Rounding of a bound of this size.
    assert np.diff(fit.bound[6:]).min() > -1e-9 * abs(fit.bound[-1])


def test_sites_learn_it_together(rng):
    """Merged α is that of all documents once each site has seen what the others say."""
    counts, learning = topic_counts(rng, 240), model()
    shards = [documents_of(rng, part) for part in np.array_split(counts, 3)]
    fits = [learning.fit(shard, start=truth(learning), rng=rng).posterior for shard in shards]
    together = best_alpha(counts, LearnedPrior.of(db.Posterior.of_prior(learning.structure)))
    np.testing.assert_allclose(learning.document_prior_of(db.merge(fits)), together, rtol=0.15)
    refined = db.refine(learning, shards, fits, rounds=25, rng=rng).merged
    np.testing.assert_allclose(learning.document_prior_of(refined), together, rtol=0.02)


def test_what_is_learned_of_documents_has_no_say_in_who_goes_where(rng):
    """Topics merge as without it (sums may be taken in another order), divided components included."""
    learning, fixed = model(), model(0.3)
    shards = [documents_of(rng, topic_counts(rng, 12)) for _ in range(4)]
    with_prior = [learning.fit(shard, rng=rng).posterior for shard in shards]
    without = [db.Posterior(fixed.structure, {"topics": own.contribution["topics"]}) for own in with_prior]
    divided = 0
    for slots in (3, 2, 5):
        merged, plain = db.align(with_prior, components=slots), db.align(without, components=slots)
        (own,), (other,) = merged.structure.symmetry, plain.structure.symmetry
        for site in range(4):
            np.testing.assert_array_equal(merged.assignments[site][own], plain.assignments[site][other])
        divided += len(merged.divisions)
        after, alone = merged.merged(), plain.merged()
        np.testing.assert_allclose(*(each.contribution["topics"].toarray() for each in (after, alone)), rtol=1e-9)
        tables = sum(posterior.contribution["shares"].sum() for posterior in with_prior)
        assert after.contribution["shares"].sum() == pytest.approx(tables)
        assert after.contribution["concentration"][0, 0] == pytest.approx(tables)
    assert divided


def test_a_topic_that_few_sites_have_is_rare_in_the_merge(rng):
    counts, learning = topic_counts(rng, 200), model()
    counts[100:, 2] = 0
    fits = [
        learning.fit(documents_of(rng, part), start=truth(learning), rng=rng).posterior for part in np.split(counts, 2)
    ]
    merged = learning.document_prior_of(db.merge(fits))
    alone = learning.document_prior_of(fits[0])
    assert merged[2] < 0.7 * alone[2]


def test_files_streams_and_predictions_know_it(rng, tmp_path):
    learning = model()
    data = documents_of(rng, topic_counts(rng, 60))
    first = learning.fit(data, rng=rng).posterior
    db.save(first, tmp_path / "learned.posterior")
    back = db.load(tmp_path / "learned.posterior")
    assert back == first
    again = db.model_for(back.structure)
    assert again.learns
    np.testing.assert_array_equal(again.assign(back, data), learning.assign(first, data))
    second = learning.fit(data, prior=first, start=first, rng=rng).posterior
    assert second.contribution["shares"].sum() > 1.5 * first.contribution["shares"].sum()
    fixed = model(tuple(learning.document_prior_of(first)))
    posterior = db.Posterior(fixed.structure, {"topics": first.contribution["topics"]})
    np.testing.assert_allclose(fixed.assign(posterior, data), learning.assign(first, data), atol=1e-9)


def test_one_number_per_topic_names_the_topics(rng):
    fixed = model(tuple(ALPHA))
    data = documents_of(rng, topic_counts(rng, 60))
    fit = fixed.fit(data, rng=rng).posterior
    assert fit.structure.symmetry == ()
    assert db.model_for(fit.structure) == db.LatentDirichletAllocation.from_structure(fit.structure)
    np.testing.assert_array_equal(db.model_for(fit.structure).document_prior_of(fit), ALPHA)
    assert db.merge([fit, fit], duplicates="allow") == db.merging.product([fit, fit])


def test_batches_learn_it_as_well(rng):
    counts = topic_counts(rng, 400)
    batches = db.LatentDirichletAllocation(
        3, WORDS, "learn", ascent=db.Ascent(passes=30, tolerance=1e-6, warm_up=3, batch=50)
    )
    fit = batches.fit(documents_of(rng, counts), rng=rng).posterior
    np.testing.assert_allclose(np.sort(batches.document_prior_of(fit)), ALPHA, rtol=0.4)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"prior": "auto"}, "'learn'; not 'auto'"),
        ({"prior": (0.1, 0.2)}, "2 numbers for 3 topics"),
        ({"prior": (0.1, -0.2, 1.0)}, "must be positive"),
    ],
)
def test_other_priors_are_refused(settings, words):
    with pytest.raises((ValueError, db.errors.DecbayesError), match=words):
        model(**settings)
    with pytest.raises(db.errors.DecbayesError, match="one number for all topics"):
        db.LatentDirichletAllocation("auto", WORDS, (0.1, 0.2))
