"""scikit-learn's Bayesian mixtures: exact round trips, the same updates, the same predictions where they agree."""

import numpy as np
import pytest
from on_use import OnUse

import decbayes as db
from decbayes.errors import NotConvertible, StructureMismatch
from decbayes.interop import from_sklearn, merge_sklearn, to_sklearn

pandas = pytest.importorskip("pandas", reason="needs the interop extra")
mixture = OnUse("sklearn.mixture")

KINDS = ["full", "diag", "spherical"]
D = 3
PARAMETERS = (
    "weight_concentration_",
    "weights_",
    "mean_precision_",
    "means_",
    "degrees_of_freedom_",
    "covariances_",
    "precisions_cholesky_",
    "precisions_",
    "weight_concentration_prior_",
    "mean_precision_prior_",
    "mean_prior_",
    "degrees_of_freedom_prior_",
    "covariance_prior_",
)


def points(rng, count=200):
    centres = np.array([[0.0, 0, 0], [5, 5, 0], [-5, 4, 3]])
    labels = rng.integers(3, size=count)
    return centres[labels] + rng.normal(size=(count, D)) * np.array([1.0, 0.5, 2.0])


def estimator(kind, **settings):
    covariance = {"full": 2 * np.eye(D) + 0.3, "diag": np.array([1.0, 2, 3]), "spherical": 1.5}[kind]
    shared = {
        "weight_concentration_prior_type": "dirichlet_distribution",
        "weight_concentration_prior": 0.7,
        "mean_prior": np.array([0.1, 0.2, 0.3]),
        "mean_precision_prior": 0.5,
        "degrees_of_freedom_prior": 5.0,
        "covariance_prior": covariance,
        "max_iter": 300,
        "random_state": 0,
    }
    return mixture.BayesianGaussianMixture(n_components=3, covariance_type=kind, **(shared | settings))


@pytest.mark.parametrize("kind", KINDS)
def test_every_fitted_attribute_survives_the_round_trip(kind, rng):
    fitted = estimator(kind).fit(points(rng))
    back = to_sklearn(from_sklearn(fitted))
    for name in PARAMETERS:
        np.testing.assert_allclose(getattr(back, name), getattr(fitted, name), rtol=1e-10, atol=1e-10, err_msg=name)
    assert from_sklearn(back).structure.description() == from_sklearn(fitted).structure.description()


@pytest.mark.parametrize("kind", KINDS)
def test_the_exported_estimator_predicts_as_the_fitted_one(kind, rng):
    data, test = points(rng), points(rng, 50)
    fitted = estimator(kind).fit(data)
    back = to_sklearn(from_sklearn(fitted))
    np.testing.assert_allclose(back.score_samples(test), fitted.score_samples(test), rtol=1e-10)
    np.testing.assert_allclose(back.predict_proba(test), fitted.predict_proba(test), atol=1e-10)
    np.testing.assert_array_equal(back.predict(test), fitted.predict(test))
    assert back.score(test) == pytest.approx(fitted.score(test), rel=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_responsibilities_give_the_same_posterior_there_and_here(kind, rng):
    """One M-step of scikit-learn is our conjugate update: the parameters mean the same distributions."""
    data = points(rng)
    fitted = estimator(kind, reg_covar=0.0, tol=1e-12, max_iter=1000).fit(data)
    model = db.GaussianMixture(
        3,
        D,
        covariance={"diag": "diagonal"}.get(kind, kind),
        prior_mean=fitted.mean_prior_,
        prior_strength=0.5,
        prior_degrees=5.0,
        prior_scale=np.asarray(fitted.covariance_prior_) / 5.0,
        weight_prior=0.7,
    )
    posterior = from_sklearn(fitted)
    assert posterior.structure == model.structure
    responsibilities = fitted.predict_proba(data)
    added = model.likelihood.contribution(responsibilities.T @ model.likelihood.features(data))
    np.testing.assert_allclose(posterior.contribution["components"], added, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(posterior.contribution["weights"][:, 0], responsibilities.sum(axis=0), rtol=1e-6)


def test_full_covariances_have_the_same_responsibilities_and_a_bound_below_the_predictive(rng):
    fitted = estimator("full").fit(points(rng))
    posterior, test = from_sklearn(fitted), points(rng, 60)
    model = db.model_for(posterior.structure)
    np.testing.assert_allclose(model.assign(posterior, test), fitted.predict_proba(test), atol=1e-9)
    assert (fitted.score_samples(test) <= model.log_predictive(posterior, test)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_merged_estimators_are_close_to_one_that_saw_everything(kind, rng):
    data = points(rng, 900)
    parts = [estimator(kind, random_state=seed, n_init=3).fit(part) for seed, part in enumerate(np.split(data, 3))]
    merged, whole = merge_sklearn(parts), estimator(kind, n_init=3).fit(data)
    test = points(rng, 500)
    assert merged.score(test) == pytest.approx(whole.score(test), abs=0.01)
    np.testing.assert_allclose(merged.weight_concentration_.sum(), whole.weight_concentration_.sum(), rtol=1e-9)


def test_estimators_with_other_names_or_priors_are_refused_in_their_own_words(rng):
    data = points(rng)
    first = estimator("diag").fit(data)
    with pytest.raises(StructureMismatch, match=r"mean_prior_ of estimator 1 .* the same mean_prior=") as refused:
        merge_sklearn([first, estimator("diag", mean_prior=None).fit(data)])
    assert "[" not in str(refused.value), "a mean of data is quoted"
    named = [pandas.DataFrame(data, columns=list(names)) for names in ("abc", "abd")]
    with pytest.raises(StructureMismatch, match="feature_names_in_"):
        merge_sklearn([estimator("diag").fit(frame) for frame in named])
    with pytest.raises(StructureMismatch, match="column 2 is 'c' in one and 'd' in the other"):
        db.merge([from_sklearn(estimator("diag").fit(frame)) for frame in named])


def test_names_of_columns_come_back_with_the_estimator(rng):
    frames = [pandas.DataFrame(points(rng), columns=list("abc")) for _ in range(2)]
    merged = merge_sklearn([estimator("full").fit(frame) for frame in frames])
    assert list(merged.feature_names_in_) == ["a", "b", "c"]
    assert len(merged.predict(frames[0])) == 200


def test_what_has_no_counterpart_is_refused(rng):
    data = points(rng)
    process = mixture.BayesianGaussianMixture(n_components=2)
    with pytest.raises(NotConvertible, match="dirichlet_distribution"):
        from_sklearn(process.fit(data))
    # Said first, since nothing that is said of the priors would help before.
    with pytest.raises(NotConvertible, match="dirichlet_distribution"):
        merge_sklearn([process.fit(data), mixture.BayesianGaussianMixture(n_components=2).fit(data[:50])])
    with pytest.raises(NotConvertible, match="not fitted"):
        from_sklearn(estimator("full"))
    with pytest.raises(NotConvertible, match="point estimate"):
        from_sklearn(mixture.GaussianMixture(2).fit(data))
    with pytest.raises(NotConvertible, match="known variance"):
        to_sklearn(db.Posterior.of_prior(db.GaussianMixture(2, 2, variance=1.0).structure))
    with pytest.raises(NotConvertible, match="no estimator for the posterior of GaussianMean"):
        to_sklearn(db.Posterior.of_prior(db.models.GaussianMean(dimension=1).structure))


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_merged_merges_with_a_site_that_comes_later(kind, rng):
    """The prior has been turned into natural parameters and back: its last digits are not what they were."""
    prior = {"weight_concentration_prior": 0.1, "mean_precision_prior": 0.37, "degrees_of_freedom_prior": 4.3}
    fitted = [estimator(kind, mean_prior=[0.1, 7.3, -2.9], **prior).fit(points(rng)) for _ in range(3)]
    later = merge_sklearn([merge_sklearn(fitted[:2]), fitted[2]])
    assert later.weight_concentration_.sum() == pytest.approx(3 * 200 + later.n_components * 0.1, rel=1e-10)


def test_a_tied_covariance_is_every_components_own(rng):
    data = points(rng)
    tied = estimator("full").set_params(covariance_type="tied").fit(data)
    posterior = from_sklearn(tied)
    np.testing.assert_allclose(posterior.mean("components"), tied.means_)
    for precision in posterior.mean("components", "precision"):
        np.testing.assert_allclose(precision, np.linalg.inv(tied.covariances_), rtol=1e-6)
    assert posterior.contribution["weights"].sum() == pytest.approx(len(data))
    # Each observation counts once in what is known of the covariances.
    degrees = posterior.parameters("components")["degrees"]
    assert (degrees - tied.degrees_of_freedom_prior_).sum() == pytest.approx(len(data))
