"""Robust errors: a jackknife by hand, statsmodels, sums over sites, files, and coverage if the model is wrong."""

from dataclasses import replace

import numpy as np
import pytest
from damage import unhashed
from on_use import OnUse
from scipy import stats

import decbayes as db
from decbayes.calibration import Information
from decbayes.calibration.intervals import calibrated
from decbayes.errors import InvalidFile, NotCalibrated

sm = OnUse("statsmodels.api")

FACTOR = "coefficients"


def overdispersed(rng, clusters=60, size=4):
    """Counts of clusters, each with a rate of its own."""
    cluster = np.repeat(np.arange(clusters), size)
    x = rng.normal(size=clusters)[cluster]
    return {"x": x, "y": rng.poisson(np.exp(0.5 + 0.3 * x + 0.7 * rng.normal(size=clusters)[cluster]))}, cluster


def model_of(kind=db.PoissonRegression, target="count", **settings):
    return kind("y", columns={"y": target, "x": "real"}, prior_variance=1e8, **settings)


def jackknifed(x, residual, weight, groups):
    """CR3 by rows, without a prior, (I − H)⁻¹ r of each cluster with its block of the hat matrix H; as much wider as
    Student's t is, with Satterthwaite's degrees of freedom.
    """
    root = np.sqrt(weight)[:, None] * x
    bread = np.linalg.inv(root.T @ root)
    found, known = np.zeros((2, 2)), []
    for name in np.unique(groups):
        own = root[groups == name]
        pull = np.eye(len(own)) - own @ bread @ own.T
        score = own.T @ np.linalg.solve(pull, (residual / np.sqrt(weight))[groups == name])
        found += np.outer(score, score)
        known.append(np.diag(bread @ own.T @ own @ bread))
    freedom = np.sum(known, axis=0) ** 2 / np.sum(np.square(known), axis=0)
    return np.sqrt(np.diag(bread @ found @ bread)), stats.t(freedom).ppf(0.95) / stats.norm.ppf(0.95)


@pytest.mark.parametrize("clustered", [False, True])
def test_poisson_errors_are_those_of_a_jackknife_with_students_t(rng, clustered):
    frame, cluster = overdispersed(rng)
    model = model_of(approximation="laplace")
    posterior = model.fit(frame).posterior
    mixed = rng.permutation(len(cluster))  # clusters need not be in order, nor rows of one together
    frame, cluster = {name: values[mixed] for name, values in frame.items()}, cluster[mixed]
    robust = db.calibrate(model, [frame], posterior, method="robust", clusters=[cluster] if clustered else None)
    x = np.column_stack([np.ones(len(frame["x"])), frame["x"]])
    rate = np.exp(x @ posterior.mean(FACTOR)[0])
    plain, wider = jackknifed(x, frame["y"] - rate, rate, cluster if clustered else np.arange(len(x)))
    np.testing.assert_allclose(robust.deviation(FACTOR)[0], plain * wider, rtol=2e-3)
    if clustered:
        assert (wider > 1.01).all()
    else:
        peer = sm.GLM(frame["y"], x, family=sm.families.Poisson()).fit()
        scores = x * (peer.resid_response / (1.0 - peer.get_hat_matrix_diag()))[:, None] @ peer.cov_params()
        np.testing.assert_allclose(robust.deviation(FACTOR)[0], np.sqrt((scores**2).sum(axis=0)) * wider, rtol=2e-3)
    assert robust.uncertainty == "calibrated by robust errors, 1 site"
    rows = model.coefficients(robust)
    assert rows[1]["deviation"] > 1.2 * model.coefficients(posterior)[1]["deviation"]
    assert model.ratios(robust)[0]["high"] == pytest.approx(np.exp(rows[1]["high"]))


def test_linear_errors_are_hc3_for_noise_that_grows(rng):
    x = rng.normal(size=400)
    frame = {"x": x, "y": 1.0 + x + np.exp(x) * rng.normal(size=400)}
    model = db.LinearRegression("y", columns={"y": "real", "x": "real"}, prior_variance=1e8)
    robust = db.calibrate(model, [frame], model.fit(frame).posterior, method="robust")
    design = np.column_stack([np.ones(400), x])
    _, wider = jackknifed(design, np.ones(400), np.ones(400), np.arange(400))
    expected = sm.OLS(frame["y"], design).fit().HC3_se * wider
    np.testing.assert_allclose([row["deviation"] for row in model.coefficients(robust)], expected, rtol=0.02)


@pytest.mark.filterwarnings("ignore:The merge is not refined")
@pytest.mark.parametrize("refined", [True, False])
def test_without_a_cluster_at_least_the_prior_is_left(rng, refined):
    """With a strong prior, and where a merge of fewer rows knows less than one cluster of these does."""
    frame, cluster = overdispersed(rng, clusters=8, size=20)
    model = db.PoissonRegression("y", columns={"y": "count", "x": "real"}, prior_variance=0.05)
    few = frame if refined else {name: values[::40] for name, values in frame.items()}
    posterior = model.fit(few).posterior
    robust = db.calibrate(model, [frame], posterior, method="robust", clusters=[cluster])
    mean, covariance = model.outcome.moments(posterior.natural[FACTOR])
    x = np.column_stack([np.ones(160), frame["x"]])
    rate = np.exp(x @ mean + 0.5 * np.einsum("ni,ij,nj->n", x, covariance, x))
    least, middle, known = np.linalg.eigvals(covariance / 0.05).min(), np.zeros((2, 2)), []
    for each in range(8):
        own, score = x[cluster == each], (x.T * (frame["y"] - rate))[:, cluster == each].sum(axis=1)
        information = own.T @ (rate[cluster == each, None] * own)
        values, vectors = np.linalg.eig(information @ covariance)
        score = vectors @ (np.linalg.solve(vectors, score) / np.maximum(1.0 - values, least))
        middle += np.outer(score, score)
        known.append(np.diag(covariance @ information @ covariance))
    before = np.diag(covariance @ covariance) / 0.05
    freedom = (np.diag(covariance) - before) ** 2 / np.sum(np.square(known), axis=0)
    wider = stats.t(freedom.clip(1.0, 8.0)).ppf(0.95) / stats.norm.ppf(0.95)
    expected = np.sqrt(wider**2 * np.diag(covariance @ middle @ covariance) + before)
    np.testing.assert_allclose(robust.deviation(FACTOR)[0], expected, rtol=1e-6)


def test_a_category_of_one_cluster_is_as_uncertain_as_the_prior_leaves_it(rng):
    """A jackknife falls back to the prior without that cluster: the error is about the estimate itself."""
    group = np.repeat(["a", "b", "c"], [60, 60, 4])
    frame = {"g": group, "y": rng.poisson(np.where(group == "c", 12.0, 2.0))}
    model = db.PoissonRegression("y", columns={"y": "count", "g": db.columns.Categorical("a", "b", "c")})
    posterior = model.fit(frame).posterior
    clusters = np.r_[np.arange(120), [120] * 4]
    _, b, c = model.coefficients(db.calibrate(model, [frame], posterior, method="robust", clusters=[clusters]))
    assert b["deviation"] < 0.3
    assert abs(c["mean"]) < c["deviation"] < 6.0 * abs(c["mean"])
    assert np.isfinite(c["deviation"])


def test_rows_of_one_person_in_several_intervals_are_one_cluster(rng):
    died, lost = rng.exponential(3.0, 200), rng.uniform(1, 6, 200)
    frame = {"t": np.minimum(died, lost), "dead": died < lost, "x": rng.normal(size=200)}
    model = db.SurvivalRegression.from_frame(frame, "Surv(t, dead) ~ x", cuts=(1.0, 2.0, 4.0), rate=0.3)
    posterior = model.fit(frame).posterior
    (rows,) = model.robust_errors(posterior).clusters(frame)
    assert len(rows.starts) == 200 < len(rows.matrix)
    precision = np.linalg.inv(model.outcome.moments(posterior.natural[FACTOR])[1]) - np.eye(5) / model.prior_variance
    information = (rows.weights[:, None] * rows.matrix).T @ rows.matrix
    np.testing.assert_allclose(information, precision, rtol=1e-3, atol=1e-3)
    # At the fit they add up to what the prior pulls: P0 m.
    np.testing.assert_allclose(rows.slopes @ rows.matrix, posterior.mean(FACTOR)[0] / model.prior_variance, atol=1e-3)
    robust = db.calibrate(model, [frame], posterior, method="robust")
    np.testing.assert_allclose(robust.deviation(FACTOR)[0, -1], posterior.deviation(FACTOR)[0, -1], rtol=0.25)


def test_what_sites_send_adds_up_to_that_of_all_rows_and_survives_a_file(rng):
    frame, _ = overdispersed(rng)
    model = model_of()
    posterior = model.fit(frame).posterior
    sites = np.array_split(model.points(frame), 3)
    parts = [Information.robust(model, site, posterior) for site in sites]
    read = [Information.from_bytes(part.to_bytes()) for part in parts]
    one, several = calibrated(posterior, [Information.robust(model, frame, posterior)]), calibrated(posterior, read)
    np.testing.assert_allclose(one.deviation(FACTOR), several.deviation(FACTOR), rtol=1e-10)
    assert read[0].clusters == 80


def test_other_sums_and_other_models_are_refused_in_a_line(rng):
    frame, _ = overdispersed(rng)
    model = model_of()
    posterior = model.fit(frame).posterior
    with pytest.raises(NotCalibrated, match="some is not"):
        _ = (robust := Information.robust(model, frame, posterior)) + replace(robust, clusters=0)
    few = {name: values[:2] for name, values in frame.items()}
    with pytest.raises(NotCalibrated, match="too few"):
        calibrated(posterior, [Information.robust(model, few, posterior)])
    mixture = db.PoissonMixture(2, 1)
    with pytest.raises(NotCalibrated, match="regressions"):
        db.calibrate(mixture, [np.ones((3, 1))], db.Posterior.of_prior(mixture.structure), method="robust")
    varying = db.PoissonRegression("y", columns={"y": "count", "x": "real"}, varying=("intercept",))
    with pytest.raises(NotCalibrated, match="varying"):
        Information.robust(varying, frame, varying.fit(frame).posterior)
    damaged = Information.robust(model, frame, posterior).to_bytes().replace(b'"sites"', b'"sitez"')
    for content in (damaged, unhashed(damaged)):
        with pytest.raises(InvalidFile):
            Information.from_bytes(content)


@pytest.mark.slow
def test_robust_intervals_cover_where_plain_ones_do_not():
    """90 % intervals of a slope, clustered counts: 200 simulations, so coverage is ± 0.02."""
    held = {"plain": 0, "robust": 0}
    for seed in range(200):
        frame, cluster = overdispersed(np.random.default_rng(seed))
        model = model_of()
        posterior = model.fit(frame).posterior
        robust = db.calibrate(model, [frame], posterior, method="robust", clusters=[cluster])
        for name, each in {"plain": posterior, "robust": robust}.items():
            row = model.coefficients(each)[1]
            held[name] += row["low"] <= 0.3 <= row["high"]
    assert held["plain"] < 130
    assert held["robust"] > 172


def test_errors_have_at_least_one_degree_of_freedom_and_at_most_one_per_cluster():
    """Sums of sites at a posterior that is not that of their rows may ask for less or more."""
    model = model_of()
    data = {"x": [0.0, 1.0, 2.0, 3.0, 1.0, 2.0], "y": [0, 2, 1, 9, 3, 2]}
    errors, middle = model.robust_errors(model.fit(data).posterior), np.eye(2)

    def deviation(squares, clusters=6):
        (first, *_) = errors.deviations(middle, np.array([[squares, squares]]), clusters)["coefficients"].values()
        return first[0]

    gaussian = deviation(1e-12, clusters=10**9)
    for squares, freedom in ((1e12, 1), (1e-12, 6)):
        np.testing.assert_allclose(
            deviation(squares) / gaussian, stats.t.ppf(0.95, freedom) / stats.norm.ppf(0.95), rtol=1e-4
        )
