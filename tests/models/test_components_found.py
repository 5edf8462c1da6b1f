"""Fits that find how many components there are: their moves against closed forms, and what they find."""

from dataclasses import replace
from math import lgamma, log

import corpus
import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.stats import betabinom, multivariate_normal

import decbayes as db
from decbayes.errors import StructureMismatch
from decbayes.models.core.ascent import Ascent
from decbayes.models.core.component_search import ComponentSearch, Moves
from decbayes.models.core.counts import as_counts
from decbayes.models.likelihoods.discrete import YesOrNo
from decbayes.models.likelihoods.emissions import plus
from decbayes.models.likelihoods.point_pass import PointBlocks
from decbayes.models.mixtures.empirical_prior import pseudo_counts
from decbayes.models.mixtures.moves import MixtureMoves
from decbayes.models.topics._fitting import topics_at
from decbayes.models.topics._topic_moves import ExpectedCounts, TopicMoves

KINDS = [{"variance": 1.0, "prior_variance": 50.0}, {"covariance": "diagonal"}, {"covariance": "full"}]
NAMES = ["known", "diagonal", "full"]


def clusters(rng, count=10, points=1000):
    """Points around centres on a grid, five standard deviations apart, and as many to predict."""
    grid = 5.0 * np.stack(np.meshgrid(range(4), range(3)), axis=-1).reshape(-1, 2)[:count]
    weights = rng.dirichlet(np.full(count, 5.0))
    return tuple(grid[rng.choice(count, points, p=weights)] + rng.normal(size=(points, 2)) for _ in range(2))


def number(posterior):
    (coupled,) = posterior.structure.symmetry
    return posterior.structure.components(coupled)


def mixture(count, **kind):
    return db.GaussianMixture(count, 2, **(kind or KINDS[0]))


# What the moves promise.


def log_evidence(points, labels, count):
    """log p(x, z) of hard assignments: Gaussians with shared unknown means, a Dirichlet-multinomial urn."""
    value = lgamma(count) - lgamma(count + len(points))
    for label in range(count):
        own = points[labels == label]
        value += lgamma(1 + len(own))
        covariance = np.eye(len(own)) + 50.0
        value += sum(multivariate_normal.logpdf(own[:, axis], cov=covariance) for axis in range(2) if len(own))
    return value


def test_the_gain_of_a_join_is_that_of_the_evidence_where_assignments_are_certain(rng):
    points, labels = rng.normal(0, 3, size=(12, 2)), np.repeat(np.arange(4), 3)
    model = mixture("auto")
    moves = MixtureMoves(model, PointBlocks(model.emissions, points), rng)
    sums = np.eye(4)[labels].T @ model.likelihood.features(points)
    state = plus(model.emissions, {name: rows.copy() for name, rows in mixture(4).structure.prior.items()}, sums)
    before = log_evidence(points, labels, 4)
    for gain, first, second in moves.gains(state):
        joined = np.where(labels == second, first, labels)
        relabelled = joined - (joined > second)
        assert gain == pytest.approx(log_evidence(points, relabelled, 3) - before, abs=1e-8)
        together = moves.joined(state, first, second)
        np.testing.assert_allclose(moves.evidence(together), np.bincount(relabelled), atol=1e-9)


def urn(counts, prior):
    """log of the probability of counts, drawn one after another: each draw makes its like more probable."""
    seen, total, value = np.full(len(counts), prior), prior * len(counts), 0.0
    for kind, times in enumerate(counts):
        for _ in range(times):
            value += np.log(seen[kind] / total)
            seen[kind] += 1
            total += 1
    return value


def topic_evidence(words, shares):
    """log p(words, topics) if every word's topic is known; (topics, words) and (documents, topics)."""
    return sum(urn(topic, 0.2) for topic in words) + sum(urn(document, 0.1) for document in shares)


def test_the_gain_of_joining_topics_is_that_of_the_evidence_where_topics_are_certain(rng):
    documents = rng.integers(1, 4, size=(6, 5))
    topic = np.array([0, 0, 1, 1, 2, 2])
    model = db.LatentDirichletAllocation("auto", tuple("abcde"), topic_prior=0.2)
    counts = as_counts(documents, 5)
    moves = TopicMoves(model, counts, topics_at(db.Posterior.of_prior(model.structure), counts), rng)
    words = np.array([documents[topic == k].sum(axis=0) for k in range(3)])
    shares = np.eye(3, dtype=int)[topic] * documents.sum(axis=1)[:, None]
    state = ExpectedCounts(words.T.astype(float), shares + 0.1)
    gains = list(moves.gains(state))
    assert {(first, second) for _, first, second in gains} == {(0, 1), (0, 2), (1, 2)}
    for gain, first, second in gains:
        fewer = [np.delete(each, second, axis=0) for each in (words, shares.T)]
        fewer[0][first] += words[second]
        fewer[1][first] += shares.T[second]
        change = topic_evidence(fewer[0], fewer[1].T) - topic_evidence(words, shares)
        assert gain == pytest.approx(change, abs=1e-8)
        np.testing.assert_allclose(moves.joined(state, first, second).document_topics, fewer[1].T + 0.1)


@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
def test_division_of_components_keeps_their_evidence(kind, rng):
    points, _ = clusters(rng, 3, 300)
    model = mixture("auto", **kind)
    moves = MixtureMoves(model, PointBlocks(model.emissions, points), rng)
    state, _ = moves.step(moves.begin(3))
    # A pass more at the same parameters: what is divided are the responsibilities of those.
    whole, divided = moves.step(state)[0], moves.divided(state)
    evidence = moves.evidence(divided)
    assert len(evidence) == 6
    assert (evidence > 1).all()
    np.testing.assert_allclose(evidence[:3] + evidence[3:], moves.evidence(whole), rtol=1e-9)


def test_division_of_topics_keeps_every_word(rng):
    matrix = corpus.counts(rng)
    model = db.LatentDirichletAllocation("auto", corpus.VOCABULARY, topic_prior=0.1)
    counts = as_counts(matrix, corpus.WORDS)
    moves = TopicMoves(model, counts, topics_at(db.Posterior.of_prior(model.structure), counts), rng)
    state, _ = moves.step(moves.begin(2))
    divided = moves.divided(state)
    assert divided.statistics.shape == (corpus.WORDS, 4)
    np.testing.assert_allclose(divided.statistics.sum(axis=1), np.asarray(matrix.sum(axis=0)).ravel(), rtol=1e-9)
    np.testing.assert_allclose((divided.document_topics - 0.1).sum(axis=1), state.document_topics.sum(axis=1) - 0.2)


def test_points_that_are_all_the_same_are_one_component(rng):
    fit = mixture("auto", covariance="full").fit(np.ones((50, 2)), rng=rng)
    assert number(fit.posterior) == 1


# The prior of a site's own columns.


def test_columns_have_the_strength_under_which_their_counts_are_most_probable(rng):
    yes, rows = rng.integers(0, [3, 20, 11], size=(4, 3)).astype(float), np.full((4, 3), 20.0)
    agreed = np.full((1, 6), 0.5)
    own, density = pseudo_counts(YesOrNo(), agreed, np.hstack([yes, rows - yes]), np.array([2.0, 8.0, 64.0]))
    frequencies = (yes.sum(axis=0) + 0.5) / 81.0
    for column, share in enumerate(frequencies):
        heights = {
            strength: betabinom.logpmf(yes[:, column], 20, strength * share, strength * (1 - share)).sum()
            - log(strength / 10.0) ** 2 / 8
            for strength in (2.0, 8.0, 64.0)
        }
        best = max(heights, key=heights.get)
        np.testing.assert_allclose(own[0, [column, 3 + column]], [best * share, best * (1 - share)])
        density += log(best / 10.0) ** 2 / 8
    assert density == pytest.approx(0.0, abs=1e-9)


def test_classes_are_found_in_few_rows_of_many_columns_and_none_in_noise():
    rng = np.random.default_rng(1)
    labels, model = rng.integers(8, size=200), db.BernoulliMixture("auto", 80, ascent=Ascent(restarts=0))
    rows = (rng.random((200, 80)) < rng.beta(1.0, 5.0, size=(8, 80))[labels]).astype(float)
    found = model.fit(rows, rng=1).posterior
    # Under the agreed prior it is two to four, with an index of 0.1 to 0.25.
    assert 6 <= number(found) <= 9
    assert db.checking.adjusted_rand(labels, model.assign(found, rows).argmax(axis=1)) > 0.5
    # What is sent are statistics on top of the agreed prior.
    np.testing.assert_allclose(found.contribution["components"].sum(axis=0)[:80], rows.sum(axis=0))
    noise = (rng.random((60, 80)) < rng.beta(1.0, 3.0, size=80)).astype(float)
    assert number(model.fit(noise, rng=1).posterior) == 1


# What the search does with them.


class Counted(Moves):
    """States that are only a number; the bound is highest at `best`, and what is forbidden is never a way there."""

    observations = rows = 10_000

    def __init__(self, best, forbidden=""):
        self.best, self.forbidden = best, forbidden

    def begin(self, count):
        return count

    def step(self, state):
        return state, -100.0 * abs(abs(state) - self.best) - 1e6 * (state < 0)

    def evidence(self, state):
        return np.arange(1.0, abs(state) + 1)

    def gains(self, state):
        gain = -1.0 if self.forbidden == "unpromising" else 1000.0
        return [(gain, first, first + 1) for first in range(state - 1)]

    def joined(self, state, first, second):
        assert self.forbidden != "unpromising", "a join that cannot gain is not tried"
        return 1 - state if self.forbidden == "join" else state - 1

    def without(self, state, component):
        assert component < 4, "the smallest come first"
        return 1 - state if self.forbidden == "delete" else state - 1

    def divided(self, state):
        return 2 * state


@pytest.mark.parametrize("forbidden", ["", "join", "delete", "unpromising"])
@pytest.mark.parametrize("best", [1, 7, 20, 33, 90])
def test_a_search_ends_where_the_bound_is_highest(best, forbidden):
    found = ComponentSearch(Counted(best, forbidden), db.Ascent(), None).run()
    assert (found.state, found.converged) == (best, True)
    assert np.all(np.diff(found.bound) >= 0)


# What fits find.


@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
def test_ten_clusters_are_found_and_predict_as_with_the_true_number(kind, rng):
    points, held_out = clusters(rng, points=600)
    model, true = mixture("auto", **kind), mixture(10, **kind)
    fit, batch = model.fit(points, rng=rng), true.fit(points, rng=rng)
    assert abs(number(fit.posterior) - 10) <= 1
    assert model.score(fit.posterior, held_out) > true.score(batch.posterior, held_out) - 0.01
    assert fit.converged
    assert np.all(np.diff(fit.bound) >= 0)
    assert fit.bound[-1] > batch.bound[-1] + lgamma(11) - 0.5, "as high as the best of ten fits of the true number"


def test_more_clusters_than_a_search_begins_with_are_found(rng):
    grid = 8.0 * np.stack(np.meshgrid(range(6), range(5)), axis=-1).reshape(-1, 2)
    points = np.repeat(grid, 30, axis=0) + rng.normal(size=(900, 2))
    fit = mixture("auto", variance=1.0, prior_variance=400.0).fit(points, rng=rng)
    assert abs(number(fit.posterior) - 30) <= 1


def topic_corpus(rng, topics=12, words=300, documents=400):
    drawn = rng.dirichlet(np.full(words, 0.05), size=topics)

    def draw(count):
        shares = rng.dirichlet(np.full(topics, 0.1), size=count)
        return csr_array(np.array([rng.multinomial(60, share @ drawn) for share in shares]))

    return draw(documents), draw(100)


def test_twelve_topics_are_found_and_predict_as_with_the_true_number(rng):
    documents, new = topic_corpus(rng)
    vocabulary = tuple(f"w{word}" for word in range(300))
    model = db.LatentDirichletAllocation("auto", vocabulary, topic_prior=0.05)
    true = replace(model, topics=12, ascent=replace(model.ascent, restarts=4))
    fit, batch = model.fit(documents, rng=rng), true.fit(documents, rng=rng)
    observed, held = db.checking.hold_out(new, rng=rng)
    assert abs(number(fit.posterior) - 12) <= 1
    assert model.score(fit.posterior, observed, held) > true.score(batch.posterior, observed, held) - 0.02
    assert np.all(np.diff(fit.bound) >= 0)


# What a number that is only known after the fit means for everything else.


@pytest.fixture(scope="module")
def found():
    """A model of any number, and two sites that see different clusters."""
    model, rng = mixture("auto"), np.random.default_rng(20140723)
    points, _ = clusters(rng, 6, 600)
    left = points[:, 0] < 8.0
    return model, [model.fit(points[left], rng=rng).posterior, model.fit(points[~left], rng=rng).posterior], points


def test_sites_that_found_different_numbers_merge_and_are_scored_by_any_model(found):
    model, posteriors, points = found
    assert [number(posterior) for posterior in posteriors] == [4, 2]
    merged = db.merge(posteriors, components=6)
    own = db.model_for(merged.structure)
    assert own == replace(model.sized(6), ascent=own.ascent)
    assert model.structure == own.structure.with_components(1)
    assert model.score(merged, points) == own.score(merged, points)
    batch = own.fit(points, rng=np.random.default_rng(0)).posterior
    assert own.score(merged, points) > own.score(batch, points) - 0.02
    np.testing.assert_array_equal(model.assign(merged, points), own.assign(merged, points))


def test_files_keep_the_number_that_was_found(found, tmp_path):
    model, posteriors, _ = found
    db.save(posteriors[1], tmp_path / "a.posterior")
    loaded = db.load(tmp_path / "a.posterior")
    assert loaded == posteriors[1]
    assert db.model_for(loaded.structure).components == 2
    assert len(model.describe(loaded)) == 2


def test_a_start_or_a_prior_says_how_many_there_are(found, rng):
    model, (first, second), points = found
    for told in ({"start": first}, {"prior": first, "start": first}, {"prior": second}):
        fit = model.fit(points[:50], rng=rng, **told)
        assert fit.posterior.structure == [*told.values()][-1].structure
    untold = model.fit(points[:300], rng=np.random.default_rng(1), prior=db.Posterior.of_prior(model.structure))
    assert untold == model.fit(points[:300], rng=np.random.default_rng(1))
    refined = db.refine(model, [points[:50]], [model.fit(points[:50], rng=rng).posterior], rounds=1, rng=rng)
    assert len(refined.rounds) == 2


def test_posteriors_of_other_models_are_refused_whatever_their_number(found):
    _, (first, _), points = found
    with pytest.raises(StructureMismatch, match="The posterior belongs to"):
        mixture("auto", variance=2.0).score(first, points)
    with pytest.raises(StructureMismatch, match="The start belongs to"):
        mixture("auto", variance=2.0).fit(points, start=first, rng=np.random.default_rng(0))


def test_no_data_says_nothing(rng):
    model = mixture("auto")
    assert model.fit(np.empty((0, 2)), rng=rng).posterior == db.Posterior.of_prior(model.structure)
    topics = db.LatentDirichletAllocation("auto", ("a", "b"))
    assert topics.fit(np.zeros((3, 2), dtype=int), rng=rng).posterior == db.Posterior.of_prior(topics.structure)


@pytest.mark.parametrize("count", [0, 2.5, "many", None, True])
def test_what_is_no_number_of_components_is_refused(count):
    with pytest.raises(ValueError, match="components must be an integer of at least 1"):
        mixture(count)
    with pytest.raises(ValueError, match="topics must be an integer of at least 1"):
        db.LatentDirichletAllocation(count, ("a", "b"))


@pytest.mark.parametrize("after", [1, 30, 60])
def test_an_interrupted_search_keeps_the_best_state_so_far(after, rng):
    points, held_out = clusters(rng, 4, 400)
    model = mixture("auto")

    def interrupt(state):
        nonlocal after
        after -= 1
        if not after:
            raise KeyboardInterrupt

    with pytest.raises(db.extending.FitInterrupted) as caught:
        model.fit(points, rng=rng, progress=interrupt)
    fit = caught.value.fit
    assert not fit.converged
    assert model.score(fit.posterior, held_out) > -6.0


def test_a_sampler_needs_the_number(rng):
    with pytest.raises(ValueError, match="components must be an integer of at least 1, not 'auto'"):
        db.checking.gibbs(mixture("auto"), np.zeros((3, 2)), rng=rng, draws=1)


@pytest.mark.parametrize("call", [db.streams.epochs, db.streams.sda_bayes], ids=["epochs", "sda_bayes"])
def test_what_adds_to_the_same_components_needs_their_number(call, rng):
    with pytest.raises(ValueError, match="needs a fixed number of components"):
        list(call(mixture("auto"), [[np.zeros((3, 2))]], rng=rng))
