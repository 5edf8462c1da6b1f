"""Robust errors: the sandwich by hand, sums over sites, files, and coverage where the model is wrong."""

import numpy as np
import pytest

import decbayes as db
from decbayes.calibration import Information
from decbayes.calibration.intervals import calibrated
from decbayes.errors import InvalidFile, NotCalibrated

FACTOR = "coefficients"


def overdispersed(rng, clusters=60, size=4):
    """Counts of clusters, each with a rate of its own."""
    cluster = np.repeat(np.arange(clusters), size)
    x = rng.normal(size=clusters)[cluster]
    return {"x": x, "y": rng.poisson(np.exp(0.5 + 0.3 * x + 0.7 * rng.normal(size=clusters)[cluster]))}, cluster


def model_of(kind=db.PoissonRegression, target="count", **settings):
    return kind("y", columns={"y": target, "x": "real"}, prior_variance=1e8, **settings)


def sandwich(x, residual, weight, groups):
    """HC1 or its form for clusters, without a prior."""
    bread = np.linalg.inv(x.T @ (weight[:, None] * x))
    names = np.unique(groups)
    sums = np.array([(residual[:, None] * x)[groups == name].sum(axis=0) for name in names])
    scale = len(names) / (len(names) - x.shape[1])
    return np.sqrt(np.diag(bread @ (scale * sums.T @ sums) @ bread))


@pytest.mark.parametrize("clustered", [False, True])
def test_poisson_errors_are_the_sandwich(rng, clustered):
    frame, cluster = overdispersed(rng)
    model = model_of(approximation="laplace")
    posterior = model.fit(frame).posterior
    robust = db.calibrate(model, [frame], posterior, method="robust", clusters=[cluster] if clustered else None)
    x = np.column_stack([np.ones(len(frame["x"])), frame["x"]])
    rate = np.exp(x @ posterior.mean(FACTOR)[0])
    groups = cluster if clustered else np.arange(len(x))
    np.testing.assert_allclose(robust.deviation(FACTOR)[0], sandwich(x, frame["y"] - rate, rate, groups), rtol=1e-3)
    assert robust.uncertainty == "calibrated by robust errors, 1 site"
    rows = model.coefficients(robust)
    assert rows[1]["deviation"] > 1.2 * model.coefficients(posterior)[1]["deviation"]
    assert model.ratios(robust)[0]["high"] == pytest.approx(np.exp(rows[1]["high"]))


def test_linear_errors_are_the_sandwich_for_noise_that_grows(rng):
    x = rng.normal(size=400)
    frame = {"x": x, "y": 1.0 + x + np.exp(x) * rng.normal(size=400)}
    model = db.LinearRegression("y", columns={"y": "real", "x": "real"}, prior_variance=1e8)
    posterior = model.fit(frame).posterior
    robust = db.calibrate(model, [frame], posterior, method="robust")
    design = np.column_stack([np.ones(400), x])
    residual = frame["y"] - design @ posterior.mean(FACTOR)[0]
    expected = sandwich(design, residual, np.ones(400), np.arange(400))
    np.testing.assert_allclose([row["deviation"] for row in model.coefficients(robust)], expected, rtol=0.02)


def test_rows_of_one_person_in_several_intervals_are_one_cluster(rng):
    died, lost = rng.exponential(3.0, 200), rng.uniform(1, 6, 200)
    frame = {"t": np.minimum(died, lost), "dead": died < lost, "x": rng.normal(size=200)}
    model = db.SurvivalRegression.from_frame(frame, "Surv(t, dead) ~ x", cuts=(1.0, 2.0, 4.0), rate=0.3)
    posterior = model.fit(frame).posterior
    scores = model.scores(posterior, frame)
    assert scores.shape == (200, 5)
    # At the fit they add up to what the prior pulls: P0 m.
    np.testing.assert_allclose(scores.sum(axis=0), posterior.mean(FACTOR)[0] / model.prior_variance, atol=1e-3)
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
        _ = Information.robust(model, frame, posterior) + Information.of(model, frame, posterior)
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
    with pytest.raises(InvalidFile):
        Information.from_bytes(damaged)


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
    assert held["robust"] > 165
