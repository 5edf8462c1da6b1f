"""Latent Dirichlet allocation: laws of the bound, of the posterior, and of refitting."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import coo_array, csc_array, csr_array, vstack

import decbayes as db
from decbayes.errors import InvalidData, InvalidStructure, StructureMismatch
from decbayes.models.core.ascent import FitInterrupted
from decbayes.models.topics import _fitting as topic_fit

TOPICS, WORDS = 4, 60
VOCABULARY = tuple(f"word{w}" for w in range(WORDS))


def corpus(rng, documents=120, length=80):
    """Documents of an LDA whose topics have a third of the vocabulary each, so that they overlap."""
    topics = rng.dirichlet(np.full(WORDS, 0.1), size=TOPICS)
    shares = rng.dirichlet(np.full(TOPICS, 0.2), size=documents)
    return csr_array(np.array([rng.multinomial(rng.poisson(length), share @ topics) for share in shares]))


@pytest.fixture
def model():
    return db.LatentDirichletAllocation(topics=TOPICS, vocabulary=VOCABULARY, topic_prior=0.05)


def to_the_end(model, **ascent):
    """The model, climbing until the bound is flat to rounding."""
    settings = {"passes": 3000, "tolerance": 1e-12, "warm_up": 0} | ascent
    return replace(model, document_steps=50, document_tolerance=1e-9, ascent=db.Ascent(**settings))


def alpha(posterior):
    return posterior.parameters("topics")["alpha"]


@pytest.mark.parametrize("seed", range(8))
def test_the_bound_never_falls_once_document_topics_are_carried_over(model, seed):
    rng = np.random.default_rng(seed)
    climbing = replace(model, document_steps=3, ascent=db.Ascent(passes=40, tolerance=0.0, warm_up=5))
    bound = np.array(climbing.fit(corpus(rng), rng=rng).bound)
    assert len(bound) == 40
    assert np.diff(bound[4:]).min() > -1e-9 * abs(bound[-1])


def test_a_fit_is_not_converged_while_document_topics_are_started_afresh(model, rng):
    fit = replace(model, ascent=db.Ascent(passes=30, tolerance=1e9, warm_up=20)).fit(corpus(rng), rng=rng)
    assert fit.converged
    assert len(fit.bound) == 22


def test_every_token_is_counted_once(model, rng):
    counts = corpus(rng)
    contribution = model.fit(counts, rng=rng).posterior.contribution["topics"]
    # Each word loses at most a negligible part of each topic.
    np.testing.assert_allclose(contribution.sum(axis=0), counts.sum(axis=0), atol=TOPICS * topic_fit.NEGLIGIBLE)


def test_leaving_out_negligible_counts_changes_nothing_that_matters(model, rng, monkeypatch):
    counts, (observed, held) = corpus(rng), db.checking.hold_out(corpus(rng), rng=rng)
    sparse = model.fit(counts, rng=np.random.default_rng(0)).posterior
    monkeypatch.setattr(topic_fit, "NEGLIGIBLE", 0.0)
    full = model.fit(counts, rng=np.random.default_rng(0)).posterior
    assert sparse.contribution["topics"].nnz < 0.9 * full.contribution["topics"].nnz
    scores = [model.score(posterior, observed, held) for posterior in (sparse, full)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-6)
    again = [model.fit(counts, start=posterior, rng=rng).bound[-1] for posterior in (sparse, full)]
    assert again[0] == pytest.approx(again[1], rel=1e-9)


def test_planted_topics_are_found(rng):
    topics = np.kron(np.eye(3), np.full(10, 0.1))
    shares = rng.dirichlet(np.full(3, 0.3), size=200)
    counts = csr_array(np.array([rng.multinomial(50, share @ topics) for share in shares]))
    model = db.LatentDirichletAllocation(topics=3, vocabulary=VOCABULARY[:30], topic_prior=0.01)
    posterior = model.fit(counts, rng=rng).posterior
    order = [int(np.argmax(posterior.mean("topics")[:, 10 * k])) for k in range(3)]
    np.testing.assert_allclose(posterior.mean("topics")[order], topics, atol=0.02)
    np.testing.assert_allclose(model.assign(posterior, counts)[:, order], shares, atol=0.25)


def test_the_same_seed_gives_the_same_bits(model, rng):
    counts = corpus(rng)
    first, second = (model.fit(counts, rng=np.random.default_rng(3)) for _ in range(2))
    assert first.posterior.digest == second.posterior.digest
    assert first.bound == second.bound


def test_no_documents_leave_the_prior_as_it_was(model, rng):
    earlier = model.fit(corpus(rng), rng=rng).posterior
    nothing = csr_array((0, WORDS), dtype=np.int64)
    assert model.fit(nothing, rng=rng).posterior == db.Posterior.of_prior(model.structure)
    assert model.fit(nothing, prior=earlier, rng=rng).posterior == earlier
    assert model.assign(earlier, nothing).shape == (0, TOPICS)


def test_empty_documents_say_nothing(model, rng):
    counts = corpus(rng)
    padded = vstack([csr_array((3, WORDS), dtype=counts.dtype), counts, csr_array((2, WORDS), dtype=counts.dtype)])
    plain = model.fit(counts, rng=np.random.default_rng(0))
    with_empty = model.fit(padded, rng=np.random.default_rng(0))
    assert plain.posterior == with_empty.posterior
    np.testing.assert_allclose(with_empty.bound, plain.bound, rtol=1e-12)
    np.testing.assert_allclose(model.assign(plain.posterior, padded)[0], 1 / TOPICS)


def test_more_topics_than_documents_still_part(rng):
    model = db.LatentDirichletAllocation(topics=8, vocabulary=VOCABULARY, topic_prior=0.05)
    posterior = model.fit(corpus(rng, documents=2), rng=rng).posterior
    assert len(np.unique(alpha(posterior).round(6), axis=0)) > 2


def test_a_posterior_as_prior_is_that_posteriors_alpha_as_topic_prior(model, rng):
    first, second = corpus(rng), corpus(rng)
    earlier = model.fit(first, rng=rng).posterior
    informed = replace(model, topic_prior=alpha(earlier))
    updated = model.fit(second, prior=earlier, rng=np.random.default_rng(0)).posterior
    direct = informed.fit(second, rng=np.random.default_rng(0)).posterior
    np.testing.assert_allclose(alpha(updated), alpha(direct), rtol=1e-6)


def test_a_prior_vector_is_the_same_for_every_topic(model, rng):
    vector = rng.gamma(1.0, 0.1, WORDS) + 0.01
    counts = corpus(rng)
    fits = [
        replace(model, topic_prior=prior).fit(counts, rng=np.random.default_rng(0)).posterior
        for prior in (vector, np.tile(vector, (TOPICS, 1)))
    ]
    assert fits[0] == fits[1]


def test_relabelling_the_start_relabels_the_posterior(model, rng):
    counts, order = corpus(rng), rng.permutation(TOPICS)
    start = model.fit(corpus(rng), rng=rng).posterior
    relabelled = db.Posterior(model.structure, {"topics": start.contribution["topics"][order]})
    plain, other = (model.fit(counts, start=s, rng=rng).posterior for s in (start, relabelled))
    np.testing.assert_allclose(alpha(other), alpha(plain)[order], rtol=1e-6)


def test_refits_with_the_others_evidence_as_prior_end_where_batch_inference_does(model, rng):
    counts = corpus(rng)
    shards = [counts[:70], counts[70:]]
    patient = to_the_end(model, passes=300, tolerance=1e-8)
    merged = model.fit(counts, rng=rng).posterior
    own = [0.6 * merged.contribution["topics"], 0.4 * merged.contribution["topics"]]
    for _ in range(150):
        for agent, others in ((0, 1), (1, 0)):
            cavity = db.Posterior(model.structure, {"topics": own[others]})
            merged = db.Posterior(model.structure, {"topics": own[0] + own[1]})
            refitted = patient.fit(shards[agent], prior=cavity, start=merged, rng=rng).posterior
            own[agent] = refitted.contribution["topics"] - cavity.contribution["topics"]
    merged = db.Posterior(model.structure, {"topics": own[0] + own[1]})
    batch = to_the_end(model, passes=2).fit(counts, start=merged, rng=rng).posterior
    np.testing.assert_allclose(alpha(batch), alpha(merged), atol=0.02)


def test_restarts_keep_the_best_bound(model, rng):
    counts = corpus(rng)
    single = [model.fit(counts, rng=generator).bound[-1] for generator in [np.random.default_rng(1)] * 4]
    several = replace(model, ascent=replace(model.ascent, restarts=3)).fit(counts, rng=np.random.default_rng(1))
    assert several.bound[-1] == max(single)


def test_a_given_start_is_climbed_from_at_once_and_once(model, rng):
    counts, seen = corpus(rng), []
    start = model.fit(counts, rng=rng).posterior
    eager = replace(model, ascent=db.Ascent(passes=30, tolerance=1e9, restarts=2, warm_up=10))
    eager.fit(counts, start=start, rng=rng, progress=seen.append)
    assert [(step.restart, step.number) for step in seen] == [(0, 1), (0, 2)]


def test_log_predictive_is_the_mixture_of_expected_topics(model, rng):
    posterior = model.fit(corpus(rng), rng=rng).posterior
    observed, held = db.checking.hold_out(corpus(rng, documents=40), rng=rng)
    probability = model.assign(posterior, observed) @ posterior.mean("topics")
    expected = (held.toarray() * np.log(probability)).sum() / held.sum()
    assert model.score(posterior, observed, held) == pytest.approx(expected, rel=1e-12)


def test_fitted_topics_predict_better_than_the_prior(model, rng):
    counts = corpus(rng, documents=240)
    posterior = model.fit(counts[:200], rng=rng).posterior
    observed, held = db.checking.hold_out(counts[200:], rng=rng)
    prior = db.Posterior.of_prior(model.structure)
    assert model.score(prior, observed, held) == pytest.approx(-np.log(WORDS))
    assert model.score(posterior, observed, held) > -np.log(WORDS) + 0.5


def test_an_interrupted_fit_hands_over_what_it_had(model, rng):
    counts, seen = corpus(rng), []

    def interrupt(step):
        seen.append(step)
        if len(seen) == 7:
            raise KeyboardInterrupt

    with pytest.raises(FitInterrupted) as caught:
        model.fit(counts, rng=np.random.default_rng(0), progress=interrupt)
    expected = replace(model, ascent=replace(model.ascent, passes=7)).fit(counts, rng=np.random.default_rng(0))
    assert caught.value.fit.posterior == expected.posterior
    assert caught.value.fit.bound == tuple(step.bound for step in seen) == expected.bound


def test_the_form_of_the_counts_does_not_matter(model, rng):
    counts = corpus(rng)
    doubled = csr_array(
        (np.repeat(counts.data, 2) * 0.5, np.repeat(counts.indices, 2), 2 * counts.indptr), shape=counts.shape
    )
    doubled.data[::2] -= 0.5 * (counts.data % 2)
    doubled.data[1::2] += 0.5 * (counts.data % 2)
    forms = [counts, counts.toarray(), counts.tocsc(), counts.astype(np.float32), counts.astype(np.int16), doubled]
    forms += [counts.toarray().astype(kind) for kind in (object, ">i4", np.float16, np.uint64)]
    before = doubled.copy()
    fits = [model.fit(form, rng=np.random.default_rng(0)).posterior for form in forms]
    assert all(posterior == fits[0] for posterior in fits)
    np.testing.assert_array_equal(doubled.data, before.data)


BAD_COUNTS = {
    "too few columns": (np.ones((2, WORDS - 1), dtype=int), "expects \\(documents, 60\\)"),
    "a word outside the vocabulary": (np.ones((2, WORDS + 1), dtype=int), "expects \\(documents, 60\\)"),
    "negative": (-np.eye(3, WORDS), "between 0"),
    "fractional": (0.5 * np.eye(3, WORDS), "integers"),
    "NaN": (np.full((1, WORDS), np.nan), "give it a sparse one"),
    "infinite": (np.full((1, WORDS), np.inf), "infinite"),
    "too large": (np.full((1, WORDS), 3e9), "between 0"),
    "text": (np.full((1, WORDS), "a"), "numbers"),
    "complex": (np.full((1, WORDS), 1j), "complex128.*real numbers"),
    "masked": (np.ma.masked_array(np.ones((1, WORDS)), mask=True), "masked.*filled"),
    "sparse complex": (csr_array(np.full((1, WORDS), 1j)), "integers"),
    "a vector": (np.ones(WORDS, dtype=int), "expects \\(documents, 60\\)"),
}


@pytest.mark.parametrize(("data", "message"), BAD_COUNTS.values(), ids=BAD_COUNTS)
def test_counts_that_no_document_has_are_refused(model, data, message, rng):
    with pytest.raises(InvalidData, match=message):
        model.fit(data, rng=rng)
    with pytest.raises(InvalidData, match=message):
        model.assign(db.Posterior.of_prior(model.structure), data)


@pytest.mark.parametrize("form", [csr_array, csc_array, coo_array])
@pytest.mark.parametrize(("narrow", "largest"), [(np.bool_, 1), (np.int8, 127), (np.uint8, 255), (np.int16, 32767)])
def test_entries_that_come_in_parts_are_added_up(model, form, narrow, largest):
    """The sum may be larger than the matrix's own type can hold."""
    values, places = np.full(3, largest, dtype=narrow), np.full(3, 7)
    rows = np.zeros(3, dtype=int)
    if form is coo_array:
        parts = coo_array((values, (rows, places)), shape=(1, WORDS))
    elif form is csr_array:
        parts = csr_array((values, places, [0, 3]), shape=(1, WORDS))
    else:
        parts = csc_array((values, rows, [0] * 8 + [3] * (WORDS - 7)), shape=(1, WORDS))
    whole = csr_array(([3 * largest], ([0], [7])), shape=(1, WORDS))
    fits = [model.fit(data, rng=np.random.default_rng(3)).posterior for data in (parts, whole)]
    assert fits[0] == fits[1]


def test_parts_that_add_up_to_more_than_fits_are_refused(model, rng):
    parts = csr_array(([2**30, 2**30], [7, 7], [0, 2]), shape=(1, WORDS))
    with pytest.raises(InvalidData, match="between 0 and"):
        model.fit(parts, rng=rng)


def test_a_matrix_that_names_a_word_past_its_own_width_is_refused(model, rng):
    counts = csr_array(np.eye(2, WORDS, dtype=int))
    counts.indices[0] = WORDS + 5
    with pytest.raises(InvalidData, match="word number 65"):
        model.fit(counts, rng=rng)


def test_held_out_words_must_belong_to_the_observed_documents(model):
    prior, counts = db.Posterior.of_prior(model.structure), csr_array(np.eye(3, WORDS, dtype=int))
    with pytest.raises(InvalidData, match="3 documents are observed, but words of 2"):
        model.log_predictive(prior, counts, counts[:2])
    with pytest.raises(InvalidData, match="nothing to predict"):
        model.log_predictive(prior, counts, csr_array((3, WORDS), dtype=int))


def test_a_posterior_over_another_vocabulary_is_refused(model, rng):
    other = replace(model, vocabulary=VOCABULARY[::-1])
    stranger, counts = db.Posterior.of_prior(other.structure), corpus(rng)
    for role in ("prior", "start"):
        with pytest.raises(StructureMismatch, match=role):
            model.fit(counts, rng=rng, **{role: stranger})
    with pytest.raises(StructureMismatch):
        model.assign(stranger, counts)


@pytest.mark.parametrize(
    "settings",
    [{"topics": 0}, {"vocabulary": ()}, {"vocabulary": ("a", "a")}, {"document_prior": 0.0}, {"document_steps": 0}],
)
def test_settings_that_make_no_model_are_refused(settings):
    with pytest.raises(ValueError):
        db.LatentDirichletAllocation(**({"topics": 2, "vocabulary": ("a", "b")} | settings))


@pytest.mark.parametrize("prior", [0.0, -1.0, np.nan, np.ones(3), np.ones((2, 3))])
def test_a_topic_prior_that_is_none_is_refused(model, prior):
    with pytest.raises(InvalidStructure):
        _ = replace(model, topic_prior=prior).structure


def test_importing_decbayes_and_describing_a_model_does_not_import_numba():
    code = (
        "import sys, decbayes as db; db.LatentDirichletAllocation(topics=2, vocabulary=('a', 'b')).structure; "
        "sys.exit('numba' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
