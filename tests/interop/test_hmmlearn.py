"""hmmlearn's states become posteriors and come back as models of its own."""

from dataclasses import replace

import numpy as np
import pytest
from on_use import OnUse

import decbayes as db
from decbayes.errors import NotConvertible
from decbayes.interop import from_hmmlearn, to_hmmlearn

hmm, vhmm = OnUse("hmmlearn.hmm"), OnUse("hmmlearn.vhmm")

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


@pytest.mark.parametrize("covariance", ["spherical", "diag", "tied", "full"])
def test_states_with_any_covariance_have_the_steps_that_hmmlearn_gives_them(walks, covariance):
    points, _ = walks
    estimator = hmm.GaussianHMM(3, covariance, random_state=1, n_iter=3).fit(points, LENGTHS)
    model = db.HiddenMarkov(states=3, columns={"x": "real", "y": "real"}, covariance="full")
    posterior = from_hmmlearn(estimator, model, np.split(points, np.cumsum(LENGTHS)[:-1]))
    count = posterior.contribution["start"][:, 0] + posterior.contribution["transitions"].sum(axis=0)
    np.testing.assert_allclose(count, estimator.predict_proba(points, LENGTHS).sum(axis=0), rtol=1e-6)


@pytest.mark.parametrize("covariance", ["spherical", "diag", "tied", "full"])
def test_states_of_mixtures_are_states_of_their_own(walks, covariance):
    """K states with M mixtures each are K · M states."""
    points, _ = walks
    estimator = hmm.GMMHMM(2, 2, covariance_type=covariance, random_state=1, n_iter=3).fit(points, LENGTHS)
    sequences = np.split(points, np.cumsum(LENGTHS)[:-1])
    model = db.HiddenMarkov(states=4, columns={"x": "real", "y": "real"}, covariance="full")
    posterior = from_hmmlearn(estimator, model, sequences)
    shares = estimator.predict_proba(points, LENGTHS)
    count = posterior.contribution["start"][:, 0] + posterior.contribution["transitions"].sum(axis=0)
    np.testing.assert_allclose(count.reshape(2, 2).sum(axis=1), shares.sum(axis=0), rtol=1e-6)


@pytest.mark.parametrize("covariance", ["diagonal", "full"])
def test_variational_posteriors_are_taken_and_given_as_they_are(walks, covariance, rng):
    points, _ = walks
    columns = {"x": db.columns.Gaussian(2, 3), "y": db.columns.Gaussian(-1, 0.5)}
    model = db.HiddenMarkov(states=2, columns=columns, covariance=covariance)
    model = replace(model, ascent=db.Ascent(tolerance=1e-12, restarts=1))
    posterior = model.fit(np.split(points, np.cumsum(LENGTHS)[:-1]), rng=rng).posterior
    estimator = to_hmmlearn(posterior, variational=True)
    back = from_hmmlearn(estimator, model)
    for name, contribution in posterior.contribution.items():
        np.testing.assert_allclose(back.contribution[name], contribution, rtol=1e-9, atol=1e-9)
    # A pass of hmmlearn's own leaves a converged posterior as it is.
    estimator.n_iter, estimator.init_params = 1, ""
    again = from_hmmlearn(estimator.fit(points, LENGTHS), model)
    for name, contribution in posterior.contribution.items():
        np.testing.assert_allclose(again.contribution[name], contribution, rtol=1e-4, atol=1e-4)


def test_a_fitted_variational_model_contributes_what_its_states_do(walks):
    points, _ = walks
    estimator = vhmm.VariationalGaussianHMM(2, "full", random_state=0, n_iter=30).fit(points, LENGTHS)
    model = db.HiddenMarkov(states=2, columns={"x": "real", "y": "real"}, covariance="full")
    posterior = from_hmmlearn(estimator, model)
    assert posterior.contribution["transitions"].sum() == pytest.approx(87)
    np.testing.assert_allclose(posterior.contribution["real"][:, 1:5].sum(axis=0), (-0.5 * points.T @ points).ravel())
    letters = np.repeat([0, 2, 1], 30)[:, None]
    spoken = db.HiddenMarkov(states=2, columns={"c": db.columns.Categorical(3)})
    words = from_hmmlearn(vhmm.VariationalCategoricalHMM(2, random_state=0).fit(letters), spoken)
    np.testing.assert_allclose(words.contribution["categorical"].sum(axis=0), [30, 30, 30])
    again = from_hmmlearn(to_hmmlearn(words, variational=True), spoken)
    np.testing.assert_allclose(again.contribution["categorical"], words.contribution["categorical"])


@pytest.mark.parametrize(
    ("columns", "settings"),
    [
        ({"x": db.columns.Gaussian(2, 3), "y": "real"}, {"covariance": "full"}),
        ({"x": db.columns.Gaussian(2, 3), "y": "real"}, {"variance": 0.2}),
        ({"n": "count", "m": "count"}, {}),
        ({"c": db.columns.Categorical(3)}, {}),
    ],
)
def test_models_at_the_means_find_the_same_states(columns, settings, rng):
    model = db.HiddenMarkov(states=2, columns=columns, **settings)
    data = db.simulate(model, 4, rng=rng, length=80).data
    posterior = model.fit(data, rng=rng).posterior
    points = np.concatenate(data)
    given = points if "x" in columns else points.astype(int)
    states = to_hmmlearn(posterior).predict(given, [80] * 4)
    assert (states == np.concatenate(model.path(posterior, data))).mean() > 0.95


def test_what_does_not_fit_is_refused(walks):
    points, _ = walks
    estimator = hmm.GaussianHMM(2, random_state=0).fit(points)
    with pytest.raises(NotConvertible, match="2 states, this one 3"):
        from_hmmlearn(estimator, db.HiddenMarkov(states=3, columns={"x": "real", "y": "real"}), [points])
    counts = db.HiddenMarkov(states=2, columns={"x": "count", "y": "count"})
    with pytest.raises(NotConvertible, match="counts a PoissonHMM"):
        from_hmmlearn(estimator, counts, [np.abs(points).round()])
    mixed = db.Posterior.of_prior(db.HiddenMarkov(columns={"x": "real", "n": "count"}).structure)
    for variational, match in ((False, "all real, all counts"), (True, "same kind")):
        with pytest.raises(NotConvertible, match=match):
            to_hmmlearn(mixed, variational=variational)
    real = db.HiddenMarkov(states=2, columns={"x": "real", "y": "real"})
    with pytest.raises(NotConvertible, match="GaussianHMM has no posterior; give the data"):
        from_hmmlearn(estimator, real)
    full = vhmm.VariationalGaussianHMM(2, "full", random_state=0, n_iter=2).fit(points)
    with pytest.raises(NotConvertible, match="same kind"):
        from_hmmlearn(full, real)
