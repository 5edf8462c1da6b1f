"""The LDA kernels against a dense reference, scikit-learn, and the laws of coordinate ascent."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.special import digamma, gammaln

from decbayes.kernels.document_updates import add_statistics, divergence, expect_topics, sort_by_word, update_documents

SHAPES = [(1, 1, 1), (7, 5, 3), (40, 30, 4), (25, 60, 9)]  # documents, words, topics; not only multiples of four


def corpus(rng, documents, words):
    counts = rng.poisson(rng.gamma(0.3, 3.0, (documents, words))).astype(np.int32)
    return csr_array(counts)


def random_topics(rng, words, components):
    return rng.gamma(1.0, 1.0, (words, components)) + 0.01


def expectations(topics):
    weights, scales = np.empty_like(topics), np.empty(len(topics))
    expect_topics(topics, topics.sum(axis=0), weights, scales)
    return weights, scales


def update(counts, topics, prior, gamma, *, tolerance=0.0, most_steps=1):
    """One pass; returns the expected statistics, the documents' parts of the bound and the steps taken."""
    weights, scales = expectations(topics)
    data, columns, offsets = parts(counts)
    bound, proportions, ratios = np.empty(len(gamma)), np.empty_like(gamma), np.empty(len(data))
    found, settings = (gamma.copy(), gamma, proportions, ratios, bound), (tolerance, most_steps)
    steps = update_documents(data, columns, offsets, weights, scales, prior, *found, *settings, *whole(len(gamma)))
    statistics = np.zeros_like(topics)
    words = by_word(columns, offsets, len(topics))
    add_statistics(*words, ratios, proportions, statistics, *whole(len(topics)))
    return statistics * weights, bound, steps


def whole(size):
    """All in one part."""
    return np.array([size]), np.zeros(1, dtype=np.int64)


def parts(counts):
    return counts.data.astype(np.int32), counts.indices.astype(np.int32), counts.indptr.astype(np.int64)


def by_word(columns, offsets, words):
    """Sorted in two calls, for the lower and the upper words."""
    entries, documents = np.empty((2, len(columns)), dtype=np.int32)
    starts = np.searchsorted(np.sort(columns), np.arange(words + 1))
    half = words // 2
    sort_by_word(columns, offsets, starts[: half + 1], 0, entries, documents)
    sort_by_word(columns, offsets, starts[half:], half, entries, documents)
    return starts, entries, documents


def topic_bound(topics, prior):
    return divergence(topics.ravel(), prior.ravel()) - divergence(topics.sum(axis=0), prior.sum(axis=0))


def dense_assignment(expected_topics, gamma):
    expected = digamma(gamma) - digamma(gamma.sum())
    phi = np.exp(expected[:, None] + expected_topics)
    return expected, phi / phi.sum(axis=0)


def dense_document(counts, topics, prior, gamma, steps):
    """The same coordinate ascent written from the model's definition, every φ stored."""
    expected_topics = (digamma(topics) - digamma(topics.sum(axis=0))).T
    expected, phi = dense_assignment(expected_topics, gamma)
    for _ in range(steps):
        gamma = prior + phi @ counts
        expected, phi = dense_assignment(expected_topics, gamma)
    bound = (counts * phi * (expected[:, None] + expected_topics - np.log(phi))).sum()
    bound += gammaln(prior.sum()) - gammaln(prior).sum() + ((prior - 1) * expected).sum()
    bound -= gammaln(gamma.sum()) - gammaln(gamma).sum() + ((gamma - 1) * expected).sum()
    return gamma, (counts * phi).T, bound


@pytest.mark.parametrize(("documents", "words", "components"), SHAPES)
@pytest.mark.parametrize("steps", [1, 6])
def test_agrees_with_the_dense_reference(documents, words, components, steps, rng):
    counts, topics = corpus(rng, documents, words), random_topics(rng, words, components)
    prior, gamma = rng.gamma(2.0, 0.5, components), rng.gamma(2.0, 1.0, (documents, components))
    reference = [dense_document(n, topics, prior, g, steps) for n, g in zip(counts.toarray(), gamma, strict=True)]
    statistics, bound, taken = update(counts, topics, prior, gamma, most_steps=steps)
    assert taken == steps * documents
    np.testing.assert_allclose(gamma, [r[0] for r in reference], rtol=1e-11)
    np.testing.assert_allclose(statistics, sum(r[1] for r in reference), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(bound, [r[2] for r in reference], rtol=1e-11, atol=1e-10)


@pytest.mark.parametrize("seed", range(5))
def test_a_documents_bound_never_falls_in_its_inner_loop(seed):
    rng = np.random.default_rng(seed)
    counts, topics = corpus(rng, 30, 50), random_topics(rng, 50, 6)
    gamma, bounds = np.ones((30, 6)), []
    for _ in range(40):
        bounds.append(update(counts, topics, np.full(6, 0.1), gamma, most_steps=1)[1])
    assert np.diff(bounds, axis=0).min() > -1e-10


@pytest.mark.parametrize("seed", range(5))
def test_the_bound_never_falls_over_passes_that_carry_document_topics_over(seed):
    rng = np.random.default_rng(seed)
    counts, topics, prior = corpus(rng, 60, 40), random_topics(rng, 40, 5), rng.gamma(1.0, 0.1, (40, 5)) + 1e-3
    gamma, bounds = np.ones((60, 5)), []
    for _ in range(30):
        statistics, bound, _ = update(counts, topics, np.full(5, 0.2), gamma, most_steps=3)
        bounds.append(bound.sum() + topic_bound(topics, prior))
        topics = prior + statistics
    assert np.diff(bounds).min() > -1e-9 * abs(bounds[-1])


def test_topic_bound_is_the_negative_divergence_of_dirichlets(rng):
    topics, prior = random_topics(rng, 12, 3), random_topics(rng, 12, 3)
    expected = digamma(topics) - digamma(topics.sum(axis=0))
    terms = ((prior - topics) * expected + gammaln(topics) - gammaln(prior)).sum(axis=0)
    terms += gammaln(prior.sum(axis=0)) - gammaln(topics.sum(axis=0))
    ours = topic_bound(topics, prior)
    np.testing.assert_allclose(ours, terms.sum(), rtol=1e-12)


def test_agrees_with_scikit_learn_given_its_start_and_its_document_topics(rng):
    decomposition = pytest.importorskip("sklearn.decomposition")
    counts, components, seed = corpus(rng, 150, 80), 7, 3
    peer = decomposition.LatentDirichletAllocation(
        components, doc_topic_prior=0.1, topic_word_prior=0.05, max_iter=4, max_doc_update_iter=60, random_state=seed
    ).fit(counts.astype(float))
    draws = np.random.RandomState(seed)  # scikit-learn's own generator, in its order of use
    topics = np.ascontiguousarray(draws.gamma(100.0, 0.01, (components, 80)).T)
    for _ in range(4):
        gamma = draws.gamma(100.0, 0.01, (150, components))
        statistics, _, _ = update(
            counts, topics, np.full(components, 0.1), gamma, tolerance=peer.mean_change_tol, most_steps=60
        )
        topics = 0.05 + statistics
    np.testing.assert_allclose(topics.T, peer.components_, rtol=1e-6)
    gamma = np.ones((150, components))
    update(counts, topics, np.full(components, 0.1), gamma, tolerance=peer.mean_change_tol, most_steps=60)
    shares = gamma / gamma.sum(axis=1, keepdims=True)
    # Absolute: scikit-learn adds the machine epsilon to Σ_k φ, visible in the smallest shares.
    np.testing.assert_allclose(shares, peer.transform(counts.astype(float)), atol=1e-6)


def test_a_converged_document_stops_early(rng):
    counts, topics = corpus(rng, 40, 30), random_topics(rng, 30, 4)
    loose, tight = np.ones((40, 4)), np.ones((40, 4))
    few = update(counts, topics, np.full(4, 0.1), loose, tolerance=1e-3, most_steps=1000)[2]
    many = update(counts, topics, np.full(4, 0.1), tight, tolerance=1e-9, most_steps=1000)[2]
    assert 40 < few < many < 40 * 1000
    np.testing.assert_allclose(loose, tight, atol=0.2)


def test_words_are_found_where_they_occur(rng):
    counts = corpus(rng, 30, 20)
    starts, entries, documents = by_word(*parts(counts)[1:], 20)
    columns = counts.tocsc()
    columns.sort_indices()
    np.testing.assert_array_equal(starts, columns.indptr)
    np.testing.assert_array_equal(documents, columns.indices)
    np.testing.assert_array_equal(counts.data[entries], columns.data)


def test_words_and_documents_without_evidence_stay_finite():
    counts = csr_array(np.array([[2, 0, 1], [0, 0, 0]], dtype=np.int32))
    topics = np.array([[5.0, 1e-4], [1e-4, 5.0], [1e-4, 1e-4]])  # exp ψ(1e-4) underflows: word 2 is unseen by both
    gamma = np.ones((2, 2))
    statistics, bound, _ = update(counts, topics, np.array([0.1, 0.1]), gamma, most_steps=20)
    np.testing.assert_allclose(gamma[1], 0.1)
    np.testing.assert_allclose(statistics.sum(axis=1), [2.0, 0.0, 1.0])
    assert np.isfinite(bound).all()
    assert bound[1] == pytest.approx(0.0, abs=1e-12)
