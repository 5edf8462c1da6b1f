"""The prior of the words in a topic, learned: where it ends, how sites come to agree on it, what is refused."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.sparse import csr_array
from scipy.special import gammaln

import decbayes as db
from decbayes.errors import InvalidCharter, InvalidStructure, StructureMismatch
from decbayes.models.topics.word_prior import FIRST, fixed_point, shared_prior

WORDS = tuple(f"w{number}" for number in range(60))


def documents(rng, eta=0.2, topics=4, count=150, length=60):
    shares = rng.dirichlet(np.full(topics, 0.1), size=count)
    words = shares @ rng.dirichlet(np.full(len(WORDS), eta), size=topics)
    return csr_array(rng.multinomial(length, words / words.sum(axis=1, keepdims=True)))


def model(topics=4, document_prior=0.1, topic_prior="learn"):
    return db.LatentDirichletAllocation(
        topics, WORDS, document_prior, topic_prior, ascent=db.Ascent(200, 1e-5, warm_up=5)
    )


def best_eta(counts):
    """Where the topics are most probable, the prior of η included, by SciPy."""
    words, totals = counts.shape[1], counts.sum(axis=1)

    def loss(log_eta):
        eta = np.exp(log_eta)
        polya = gammaln(words * eta) - gammaln(words * eta + totals)
        return -(polya.sum() + (gammaln(eta + counts) - gammaln(eta)).sum() + log_eta - eta / FIRST)

    return np.exp(minimize_scalar(loss, bounds=(-12, 5), method="bounded", options={"xatol": 1e-9}).x)


def test_the_fixed_point_is_where_the_topics_are_most_probable(rng):
    counts = np.where(rng.random((3, 50)) < 0.6, 0.0, rng.gamma(0.5, 20.0, size=(3, 50)))
    values, totals = counts[counts > 0], counts.sum(axis=1)
    assert fixed_point(values, totals, 50, FIRST) == pytest.approx(best_eta(counts), rel=1e-3)
    assert fixed_point(np.zeros(0), np.zeros(3), 50, FIRST) == pytest.approx(FIRST, rel=1e-3)


@pytest.mark.parametrize("document_prior", [0.1, "learn"])
def test_a_fit_ends_where_topics_and_their_prior_agree_and_the_bound_is_higher(document_prior, rng):
    learning, data = model(document_prior=document_prior), documents(rng)
    found = learning.fit(data, rng=np.random.default_rng(0))
    eta = shared_prior(found.posterior.structure)
    assert eta == pytest.approx(best_eta(found.posterior.contribution["topics"].toarray()), rel=0.01)
    assert 0.1 < eta < 0.3  # 0.2 is what the topics were drawn with
    fixed = replace(learning, topic_prior=FIRST).fit(data, rng=np.random.default_rng(0))
    assert found.bound[-1] > fixed.bound[-1]
    assert db.model_for(found.posterior.structure).topic_prior == eta
    assert learning.score(found.posterior, *db.checking.hold_out(data, rng=rng)) < 0.0


def test_on_top_of_earlier_data_the_prior_is_theirs(rng):
    first = model().fit(documents(rng), rng=rng).posterior
    more = documents(rng)
    both = model().fit(more, prior=first, start=first, rng=rng).posterior
    assert both.structure == first.structure
    words = first.contribution["topics"].sum() + more.sum()
    assert both.contribution["topics"].sum() == pytest.approx(words), "what was known before is in it"


def test_sites_that_have_learned_apart_agree_and_merge(rng):
    fits = [model(topics).fit(documents(np.random.default_rng(1)), rng=rng).posterior for topics in (3, 4)]
    with pytest.raises(StructureMismatch):
        db.merge(fits)
    agreed = db.texts.with_priors(fits, topic_prior="learn", document_prior=0.2)
    for before, after in zip(fits, agreed, strict=True):
        np.testing.assert_array_equal(before.contribution["topics"].toarray(), after.contribution["topics"].toarray())
    together = np.vstack([fit.contribution["topics"].toarray() for fit in fits])
    assert shared_prior(agreed[0].structure) == pytest.approx(best_eta(together), rel=0.01)
    merged = db.merge(agreed)
    assert db.model_for(merged.structure).document_prior == 0.2
    (again,) = db.texts.with_priors([merged], topic_prior="learn")
    assert shared_prior(again.structure) == pytest.approx(best_eta(merged.contribution["topics"].toarray()), rel=0.01)


def test_a_number_of_topics_that_is_found_goes_with_a_document_prior_that_is_learned(rng):
    data = documents(rng, eta=0.1)
    found = model("auto", "learn", 0.1).fit(data, rng=rng)
    learning = db.model_for(found.posterior.structure)
    assert learning.topics == 4
    assert learning.learns
    sure = learning.fit(data, start=found.posterior, rng=rng)
    np.testing.assert_allclose(
        learning.document_prior_of(found.posterior), learning.document_prior_of(sure.posterior), rtol=0.05
    )
    half = [model("auto", "learn", 0.1).fit(part, rng=rng).posterior for part in (data[:75], data[75:])]
    assert len(db.merge(half, components="auto").structure.prior["topics"]) in (4, 5)


def test_what_sites_would_not_agree_on_is_refused(rng):
    with pytest.raises(ValueError, match="topic_prior"):
        next(db.streams.epochs(model(), [[documents(rng)]], rng=rng))
    with pytest.raises(ValueError, match="'learn'; not 'nonsense'"):
        model(topic_prior="nonsense")
    from decbayes.network import Charter

    settings = {"topics": 2, "topic_prior": "learn"}
    with pytest.raises(InvalidCharter, match="topic_prior"):
        _ = Charter("g", "LatentDirichletAllocation", settings, {"a": bytes(range(32))}, vocabulary=WORDS).model


def test_posteriors_that_hold_data_in_their_prior_and_other_models_keep_their_priors(rng):
    point = db.models.GaussianMean(variance=1.0, dimension=1).fit(np.zeros((3, 1)), rng=rng).posterior
    with pytest.raises(StructureMismatch, match="topic"):
        db.texts.with_priors([point], topic_prior=0.1)
    whole = model(topic_prior=0.1).fit(documents(rng), rng=rng).posterior
    later = db.Posterior.of_prior(whole.structure.with_prior(whole.natural))
    with pytest.raises(InvalidStructure, match="earlier data"):
        db.texts.with_priors([later], topic_prior=0.1)
    with pytest.raises(ValueError, match="in fits"):
        db.texts.with_priors([whole], document_prior="learn")


def test_an_interrupted_fit_leaves_topics_to_go_on_from(rng):
    data, seen = documents(rng), []

    def interrupting(reached):
        seen.append(reached)
        if len(seen) == 30:
            raise KeyboardInterrupt

    with pytest.raises(db.extending.FitInterrupted) as interruption:
        model().fit(data, rng=np.random.default_rng(0), progress=interrupting)
    assert interruption.value.paused is None
    start = interruption.value.fit.posterior
    rest, whole = model().fit(data, start=start, rng=rng), model().fit(data, rng=np.random.default_rng(0))
    assert shared_prior(rest.posterior.structure) == pytest.approx(shared_prior(whole.posterior.structure), rel=0.05)


@pytest.mark.parametrize("role", ["prior", "start"])
def test_a_prior_or_a_start_of_another_model_is_refused(role, rng):
    other = db.Posterior.of_prior(db.models.GaussianMean(dimension=1).structure)
    with pytest.raises(StructureMismatch, match=f"A {role} of GaussianMean has no topic prior"):
        model().fit(documents(rng), rng=rng, **{role: other})
