"""hmmlearn's states become posteriors and come back as models of its own."""

import numpy as np
import pytest

import decbayes as db
from decbayes.errors import NotConvertible
from decbayes.interop import from_hmmlearn, to_hmmlearn

hmm = pytest.importorskip("hmmlearn.hmm")

LENGTHS = [30, 20, 40]


@pytest.fixture
def walks(rng):
    states = np.cumsum(rng.random(90) < 0.1) % 2
    return rng.normal(np.array([[0.0, 5.0], [4.0, 1.0]])[states], 1.0), states


def test_a_posterior_has_the_states_that_hmmlearn_gives(walks):
    points, _ = walks
    estimator = hmm.GaussianHMM(2, "diag", random_state=0, n_iter=20).fit(points, LENGTHS)
    sequences = np.split(points, np.cumsum(LENGTHS)[:-1])
    model = db.HiddenMarkov(states=2, columns={"x": "real", "y": "real"})
    posterior = from_hmmlearn(estimator, model, sequences)
    shares = estimator.predict_proba(points, LENGTHS)
    count = -2 * posterior.contribution["real"][:, -1]
    np.testing.assert_allclose(count, shares.sum(axis=0), rtol=1e-6)
    np.testing.assert_allclose(posterior.contribution["start"][:, 0], shares[[0, 30, 50]].sum(axis=0), atol=1e-6)
    assert posterior.contribution["transitions"].sum() == pytest.approx(87)
    back = to_hmmlearn(posterior)
    np.testing.assert_allclose(back.means_, estimator.means_, atol=0.1)
    assert (back.predict(points, LENGTHS) == estimator.predict(points, LENGTHS)).mean() > 0.97


def test_counts_and_categories_too(rng):
    counts = rng.poisson(np.repeat([2.0, 9.0], 40))[:, None]
    estimator = hmm.PoissonHMM(2, random_state=0).fit(counts)
    model = db.HiddenMarkov(states=2, columns={"n": "count"})
    posterior = from_hmmlearn(estimator, model, [counts])
    shape = posterior.parameters("counts")["shape"][:, 0] - 0.5
    np.testing.assert_allclose(shape, estimator.predict_proba(counts).T @ counts[:, 0], rtol=1e-5)
    letters = np.repeat([0, 2], 30)[:, None]
    estimator = hmm.CategoricalHMM(2, n_features=3, random_state=0).fit(letters)
    spoken = db.HiddenMarkov(states=2, columns={"c": db.columns.Categorical(3)})
    assert from_hmmlearn(estimator, spoken, [letters]).contribution["categorical"].sum() == pytest.approx(60)


def test_what_does_not_fit_is_refused(walks):
    points, _ = walks
    estimator = hmm.GaussianHMM(2, random_state=0).fit(points)
    with pytest.raises(NotConvertible, match="2 states, this one 3"):
        from_hmmlearn(estimator, db.HiddenMarkov(states=3, columns={"x": "real", "y": "real"}), [points])
    counts = db.HiddenMarkov(states=2, columns={"x": "count", "y": "count"})
    with pytest.raises(NotConvertible, match="counts a PoissonHMM"):
        from_hmmlearn(estimator, counts, [np.abs(points).round()])
    with pytest.raises(NotConvertible, match="all real"):
        to_hmmlearn(db.Posterior.of_prior(counts.structure))
