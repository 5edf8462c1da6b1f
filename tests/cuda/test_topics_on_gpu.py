"""The GPU's fits of topics against the processor's, through the same public functions."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.sparse import csr_array, vstack

import decbayes as db
from decbayes.calibration.worlds import fits
from decbayes.models.topics.cuda import climb as topic_search_cuda
from decbayes.models.topics.cuda import corpus as topic_chunks_cuda

WORDS = 60
VOCABULARY = tuple(f"word{w}" for w in range(WORDS))


def corpus(rng, documents=14, length=40, topics=4):
    truth = rng.dirichlet(np.full(WORDS, 0.1), size=topics)
    shares = rng.dirichlet(np.full(topics, 0.2), size=documents)
    lengths = rng.poisson(length, size=documents)
    lengths[0] = 0
    return csr_array(np.array([rng.multinomial(n, share @ truth) for n, share in zip(lengths, shares, strict=True)]))


def model_of(topics, **ascent):
    settings = {"passes": 3, "tolerance": 1e-3, "warm_up": 2} | ascent
    return db.LatentDirichletAllocation(topics, VOCABULARY, topic_prior=0.05, ascent=db.Ascent(**settings))


@pytest.mark.parametrize("topics", [1, pytest.param(32, marks=pytest.mark.slow), 40])
def test_a_fit_is_the_processors_but_for_single_precision(gpu, rng, topics):
    counts, model = corpus(rng), model_of(topics)
    ours, theirs = (model.fit(counts, rng=np.random.default_rng(1), device=name) for name in ("cuda", "cpu"))
    assert len(ours.bound) == len(theirs.bound)
    np.testing.assert_allclose(ours.bound, theirs.bound, rtol=1e-6)
    # Single precision has 7 digits, which a few dozen steps may blur by one or two.
    np.testing.assert_allclose(*(fit.posterior.natural["topics"] for fit in (ours, theirs)), rtol=1e-4, atol=2e-3)


def test_the_same_data_give_the_same_bits(gpu, rng):
    counts, model = corpus(rng), model_of(3)
    first, second = (model.fit(counts, rng=np.random.default_rng(1), device="cuda") for _ in range(2))
    assert first.posterior.digest == second.posterior.digest
    assert first.bound == second.bound


def test_documents_longer_than_the_shared_memory_holds_are_read_from_the_weights(gpu, rng, monkeypatch):
    counts, model = corpus(rng, documents=20), model_of(3)
    expected = model.fit(counts, rng=np.random.default_rng(1), device="cuda")
    monkeypatch.setattr(topic_chunks_cuda, "STAGED_WORDS", 5)
    monkeypatch.setattr(topic_chunks_cuda, "CLASSES", ((4, 1), (1 << 30, 3)))
    found = model.fit(counts, rng=np.random.default_rng(1), device="cuda")
    np.testing.assert_allclose(found.bound, expected.bound, rtol=1e-6)


def test_words_in_many_documents_are_summed_in_segments(gpu, rng, monkeypatch):
    counts, model = corpus(rng), model_of(3)
    expected = model.fit(counts, rng=np.random.default_rng(1), device="cuda")
    monkeypatch.setattr(topic_chunks_cuda, "SEGMENT", 7)
    monkeypatch.setattr(topic_search_cuda, "ROWS", 5)
    monkeypatch.setattr(topic_chunks_cuda, "DOCUMENTS", 3)
    found = model.fit(counts, rng=np.random.default_rng(1), device="cuda")
    np.testing.assert_allclose(found.bound, expected.bound, rtol=1e-6)


@pytest.mark.parametrize("free", [1 << 30, 20_000])
def test_what_does_not_fit_the_gpu_goes_there_in_chunks(gpu, rng, monkeypatch, free):
    """Chunks change the order of sums, not what is summed; document topics are carried over as well."""
    counts, model = corpus(rng), model_of(3, passes=8)
    expected = model.fit(counts, rng=np.random.default_rng(1), device="cpu")
    monkeypatch.setattr(type(gpu), "free_bytes", lambda self: free)
    found = model.fit(counts, rng=np.random.default_rng(1), device="cuda")
    np.testing.assert_allclose(found.bound, expected.bound, rtol=1e-6)


def test_many_sites_at_once_are_each_sites_own_fit(gpu, rng):
    shards, model = [corpus(rng, documents=size) for size in (30, 5, 12)], model_of(3, passes=20)
    together = model.fit_many(shards, rng=np.random.default_rng(5), device="cuda")
    alone = model.fit_many(shards, rng=np.random.default_rng(5), device="cpu")
    assert len({len(fit.bound) for fit in together}) > 1, "the sites converge at different times"
    for ours, theirs in zip(together, alone, strict=True):
        assert (len(ours.bound), ours.converged) == (len(theirs.bound), theirs.converged)
        np.testing.assert_allclose(ours.bound, theirs.bound, rtol=1e-6)
        np.testing.assert_allclose(*(fit.posterior.natural["topics"] for fit in (ours, theirs)), rtol=1e-3, atol=1e-2)


def test_the_best_of_several_starts_is_kept(gpu, rng):
    """Which start that is may differ where two are as good, but for single precision."""
    shards, one, several = [corpus(rng, documents=size) for size in (30, 12)], model_of(3), model_of(3, restarts=2)
    heights = [
        [fit.bound[-1] for fit in model.fit_many(shards, rng=np.random.default_rng(5), device=device)]
        for model, device in ((one, "cuda"), (several, "cuda"), (several, "cpu"))
    ]
    assert all(best >= first for best, first in zip(heights[1], heights[0], strict=True))
    np.testing.assert_allclose(heights[1], heights[2], rtol=1e-6)


def test_a_site_without_words_says_nothing(gpu, rng):
    model = model_of(3)
    empty, other = model.fit_many([csr_array((4, WORDS), dtype=np.int32), corpus(rng, 5)], rng=rng, device="cuda")
    assert empty.posterior == db.Posterior.of_prior(model.structure)
    assert other.posterior != empty.posterior
    assert model.fit(csr_array((4, WORDS), dtype=np.int32), rng=rng, device="cuda").posterior == empty.posterior


def test_predictions_are_the_processors(gpu, rng):
    model = model_of(3)
    posterior = model.fit(corpus(rng), rng=rng).posterior
    observed, held = db.checking.hold_out(corpus(rng, 20), rng=rng)
    expected = (
        model.assign(posterior, observed),
        model.log_predictive(posterior, observed),
        model.score(posterior, observed, held),
    )
    with db.devices.use_device("cuda"):
        found = (
            model.assign(posterior, observed),
            model.log_predictive(posterior, observed),
            model.score(posterior, observed, held),
        )
    np.testing.assert_allclose(found[0], expected[0], atol=1e-4)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-4, atol=1e-3)
    assert found[2] == pytest.approx(expected[2], abs=1e-4)


def launched(gpu, monkeypatch):
    """The names of kernels as they are launched."""
    names = []
    launch = gpu.launch
    monkeypatch.setattr(gpu, "launch", lambda *words, **options: (names.append(words[1]), launch(*words, **options)))
    return names


def test_simulated_sites_are_fitted_in_the_same_launches(gpu, rng, monkeypatch):
    model, shards = model_of(3, passes=2), [corpus(rng, 10) for _ in range(3)]
    posteriors = [model.fit(shard, rng=rng).posterior for shard in shards]
    setting = SimpleNamespace(posteriors=posteriors, of_structure=lambda structure: model)
    names = launched(gpu, monkeypatch)
    with db.devices.use_device("cuda"):
        found = fits(setting, shards, np.random.default_rng(3))
    assert names.count("sum_segments") == 2
    for own, expected in zip(found, fits(setting, shards, np.random.default_rng(3)), strict=True):
        np.testing.assert_allclose(own.natural["topics"], expected.natural["topics"], rtol=1e-4, atol=2e-3)


def test_refinement_refits_all_sites_in_the_same_launches(gpu, rng, monkeypatch):
    model, shards = model_of(3), [corpus(rng, 15) for _ in range(3)]
    posteriors = [model.fit(shard, rng=rng).posterior for shard in shards]
    few = replace(model, ascent=db.Ascent(passes=3))
    expected = db.refine(few, shards, posteriors, rounds=2, rng=np.random.default_rng(0), schedule="parallel")
    names = launched(gpu, monkeypatch)
    with db.devices.use_device("cuda"):
        found = db.refine(few, shards, posteriors, rounds=2, rng=np.random.default_rng(0), schedule="parallel")
    assert names.count("sum_segments") == 2 * 3
    held = db.checking.hold_out(vstack(shards), rng=rng)
    assert model.score(found.merged, *held) == pytest.approx(model.score(expected.merged, *held), abs=1e-3)
