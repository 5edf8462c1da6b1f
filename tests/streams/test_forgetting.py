"""Days that differ: how much of earlier ones is kept, given and learned, and what components are called."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.sparse import csr_array
from scipy.stats import multivariate_normal, norm

import decbayes as db
from decbayes.streams.days import CAPS, Days
from decbayes.updates.forgetting import KEEP, learned_shares

MEAN = db.models.GaussianMean(variance=2.0, dimension=1, prior_variance=100.0)
WORDS = tuple("abcdefghijklmnop")


def test_a_share_that_is_forgotten_each_day_counts_days_geometrically(rng):
    days = [[rng.normal(size=(5, 1)), rng.normal(size=(3, 1))] for _ in range(4)]
    *_, last = db.streams.epochs(MEAN, days, rng=rng, forgetting=0.3)
    for name, part in last.contribution.items():
        each = [sum(MEAN.fit(shard, rng=rng).posterior.contribution[name] for shard in day) for day in days]
        np.testing.assert_allclose(part, sum(0.7**age * own for age, own in enumerate(reversed(each))), rtol=1e-10)


def test_nothing_forgotten_is_what_there_was_without_forgetting(rng):
    days = [[rng.normal(size=(5, 1))] for _ in range(3)]
    plain = list(db.streams.epochs(MEAN, days, rng=rng))
    assert list(db.streams.epochs(MEAN, days, rng=rng, forgetting=0.0)) == plain
    half = plain[0]
    assert list(db.streams.epochs(MEAN, days[1:], rng=rng, start=half)) == plain[1:]


@pytest.mark.parametrize("shift", [0.0, 1.0, 3.0, 30.0])
def test_the_share_that_is_kept_is_what_the_evidence_of_new_data_says(shift, rng):
    """E[ρ] by integrating the density of the new data, a Gaussian whose prior has kept so much of the old ones."""
    old, new = rng.normal(size=40), shift + rng.normal(size=10)
    before, after = (MEAN.fit(points[:, None], rng=rng).posterior for points in (old, new))
    (found,) = learned_shares(before, after).values()

    def density(share):
        precision = 1 / 100.0 + share * len(old) / 2.0
        mean = share * old.sum() / 2.0 / precision
        covariance = 2.0 * np.eye(len(new)) + 1 / precision
        return np.exp(multivariate_normal(np.full(len(new), mean), covariance).logpdf(new) + 5.0 * share + 20.0)

    expected = (
        quad(lambda share: share * density(share), 0, 1, epsabs=0, limit=200)[0] / quad(density, 0, 1, epsabs=0)[0]
    )
    assert found == pytest.approx([expected], abs=0.02)


@pytest.mark.parametrize("shift", [0.0, 4.0])
def test_the_most_that_is_kept_is_what_predicts_one_half_of_the_new_data_from_the_other(shift, rng):
    """Caps are weighted by the density of each half, given the other and what a cap leaves, in closed form."""
    old, new = rng.normal(size=400), shift + rng.normal(size=20)
    before = MEAN.fit(old[:, None], rng=rng).posterior
    (found,) = Days(MEAN, rng, None).capped(before, {"mean": np.array([0.9])}, [new[:, None]]).values()
    halves = [part.ravel() for part in db.checking.hold_back(MEAN, new[:, None], share=0.5)]

    def log_density(share):
        total = KEEP * share[1]
        for given, held in (halves, halves[::-1]):
            precision = 1 / 100.0 + (share[0] * len(old) + len(given)) / 2.0
            mean = (share[0] * old.sum() + given.sum()) / 2.0 / precision
            total += norm(mean, np.sqrt(2.0 + 1 / precision)).logpdf(held).sum()
        return total

    shares = np.minimum(0.9, CAPS)
    weights = np.array([log_density(share) for share in zip(shares, CAPS, strict=True)])
    weights = np.exp(weights - weights.max())
    assert found == pytest.approx([weights @ shares / weights.sum()], rel=1e-6)
    assert (found[0] < 0.7) == (shift > 0)


def test_a_component_that_new_data_say_nothing_about_is_kept_whole():
    model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=100.0)
    old = {"weights": np.array([[50.0], [50.0]]), "components": np.array([[100.0, -25.0], [-100.0, -25.0]])}
    new = {"weights": np.array([[30.0], [0.0]]), "components": np.array([[-90.0, -15.0], [0.0, 0.0]])}
    nothing = {name: 0.0 * part for name, part in new.items()}
    earlier, added, empty = (db.Posterior(model.structure, parts) for parts in (old, new, nothing))
    left = db.streams.forget(earlier, "learn", new=added).contribution
    np.testing.assert_array_equal(left["components"][1], old["components"][1])
    assert (np.abs(left["components"][0]) < 0.5 * np.abs(old["components"][0])).all()
    # Weights are one distribution: what one component's counts say is said of all of them.
    assert left["weights"][0] == left["weights"][1] < 50.0
    assert db.streams.forget(earlier, "learn", new=empty) == earlier


def documents(rng, topics, count=40):
    shares = rng.dirichlet(np.full(len(topics), 0.1), size=count)
    return csr_array(rng.multinomial(40, shares @ topics))


def world(changed):
    """Three topics of four words each; the last is about other words once it has changed, but for one."""
    topics = np.kron(np.eye(4), np.full(4, 0.25))[:3]
    return np.vstack([topics[:2], np.roll(topics[2], 3)]) if changed else topics


def changing(rng):
    for day in range(7):
        yield [documents(rng, world(day >= 4)) for _ in range(2)]


@pytest.fixture(scope="module")
def streams():
    """The posteriors after each day, by what is forgotten; and how well each predicts the world after the change."""
    rng = np.random.default_rng(3)
    model = db.LatentDirichletAllocation(3, WORDS, 0.1, 0.05, ascent=db.Ascent(60, 1e-4, restarts=2, warm_up=10))
    days = list(changing(rng))
    return model, {
        forgetting: list(db.streams.epochs(model, days, rng=np.random.default_rng(0), forgetting=forgetting))
        for forgetting in (None, 0.3, "learn")
    }


def test_topics_that_change_are_forgotten_and_others_are_not(streams):
    _, found = streams
    before, after = (found["learn"][day].contribution["topics"].sum(axis=1) for day in (3, 4))
    (changed,) = np.flatnonzero(found["learn"][6].contribution["topics"].toarray()[:, 13] > 100)
    new = 2 * 40 * 40 / 3  # words of a topic on a day
    left = (after - new) / before
    assert left[changed] < 0.1
    assert (np.delete(left, changed) > 0.4).all()


def test_what_forgets_predicts_the_new_world_better(streams, rng):
    model, found = streams
    observed, held = db.checking.hold_out(documents(rng, world(changed=True), 200), rng=rng, share=0.3)
    scores = {name: model.score(posteriors[4], observed, held) for name, posteriors in found.items()}
    assert scores["learn"] > scores[None] + 0.02
    assert scores["learn"] > scores[0.3] - 0.005


def test_components_keep_their_names_until_they_are_something_else(streams):
    _, found = streams
    first, before, after, last = (found["learn"][day].ids for day in (0, 3, 5, 6))
    assert len(set(first)) == 3
    assert first == before
    assert len(set(before) & set(after)) == 2
    assert after == last


def test_estimators_forget_by_the_same_rule(rng):
    points = [np.where(rng.random((60, 1)) < 0.5, -3.0, 3.0 + day) + rng.normal(size=(60, 1)) for day in (0, 0, 3)]
    estimator = db.sklearn.GaussianMixture(2, prior_mean=0.0, prior_scale=1.0, forgetting="learn", random_state=0)
    for day in points:
        estimator.partial_fit(day, sites=np.arange(60) % 2)
    assert len(estimator.posterior_.ids) == 2
    none = db.sklearn.GaussianMixture(2, prior_mean=0.0, prior_scale=1.0, random_state=0)
    for day in points:
        none.partial_fit(day, sites=np.arange(60) % 2)
    assert estimator.score(points[-1]) > none.score(points[-1])
    assert none.posterior_.contribution["weights"].sum() == pytest.approx(180)
    assert estimator.posterior_.contribution["weights"].sum() < 180


def test_files_forget_in_one_call(rng, tmp_path):
    db.save(MEAN.fit(rng.normal(size=(20, 1)), rng=rng).posterior, tmp_path / "monday.posterior")
    monday = db.load(tmp_path / "monday.posterior")
    left = db.streams.forget(monday, 0.25)
    np.testing.assert_allclose(left.contribution["mean"], 0.75 * monday.contribution["mean"])
    same = db.streams.forget(monday, "learn", new=monday)
    assert np.all(np.abs(same.contribution["mean"]) <= np.abs(monday.contribution["mean"]))
    assert db.streams.forget(monday, None) == monday


@pytest.mark.parametrize("wrong", [1.0, -0.1, "auto", np.nan, "0.1"])
def test_other_shares_are_refused(wrong, rng):
    with pytest.raises(ValueError, match="from 0 to below 1, or 'learn'"):
        next(db.streams.epochs(MEAN, [[np.zeros((1, 1))]], rng=rng, forgetting=wrong))


def test_learning_needs_new_data_of_the_same_kind(rng):
    posterior = MEAN.fit(np.zeros((2, 1)), rng=rng).posterior
    with pytest.raises(TypeError, match="new must be of type Posterior"):
        db.streams.forget(posterior, "learn")
    other = db.models.GaussianMean(variance=2.0, dimension=2)
    with pytest.raises(db.errors.DecbayesError, match="new data belong to"):
        db.streams.forget(posterior, "learn", new=db.Posterior.of_prior(other.structure))


def test_nothing_but_a_posterior_is_forgotten(rng):
    with pytest.raises(TypeError, match="posterior"):
        db.streams.forget({"mean": [1.0]}, 0.5)


@pytest.mark.parametrize(
    ("model", "missing"),
    [
        (db.GaussianMixture("auto", 1, variance=1.0), "fixed number of components"),
        (db.LatentDirichletAllocation(2, ("a", "b"), topic_prior="learn"), "fixed topic_prior"),
    ],
)
def test_what_every_step_would_find_for_itself_must_be_fixed_before(model, missing):
    with pytest.raises(ValueError, match=missing):
        next(db.streams.epochs(model, [[np.ones((3, 2))]], rng=0))
