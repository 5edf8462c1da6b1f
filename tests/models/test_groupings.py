"""Own parts that correlate, and groups inside sites: against dense Gaussians, statsmodels, and laws of their own."""

import numpy as np
import pandas as pd
import pytest
from on_use import OnUse

import decbayes as db
from decbayes.checking import Information
from decbayes.errors import InvalidStructure, NotCalibrated
from decbayes.models.regressions._making import model_of_columns
from decbayes.models.regressions.formulas.formula import parsed
from decbayes.models.regressions.varying.site_effects import Moments, SiteEffects, groups_of
from decbayes.models.regressions.varying.variation import BETWEEN, WITHIN, Grouping

smf = OnUse("statsmodels.formula.api")

COLUMNS = ["y", "x", "z", "clinic", "ward"]


def patients(rng, sites=12, wards=3, rows=8, correlation=0.7):
    """Clinics that differ in level and slope, which correlate, and wards inside them that differ in level."""
    together = np.array([[1.0, correlation * 0.6], [correlation * 0.6, 0.36]])
    parts = []
    for site in range(sites):
        level, slope = rng.multivariate_normal([0.0, 0.0], together)
        for ward in range(wards):
            x = rng.normal(size=rows)
            y = 1.0 + level + 0.8 * rng.standard_normal() + (0.5 + slope) * x + 0.7 * rng.standard_normal(rows)
            parts.append(pd.DataFrame({"x": x, "y": y, "clinic": f"c{site}", "ward": f"w{ward}"}))
    frame = pd.concat(parts, ignore_index=True)
    return frame.assign(yes=frame.y > 1.0, n=rng.poisson(np.exp(np.clip(frame.y, -4, 3) - 1.0)))


@pytest.fixture(scope="module")
def frame():
    return patients(np.random.default_rng(3), sites=30)


def by_term(rows):
    return {(row["group"], row["term"]): row for row in rows}


@pytest.mark.filterwarnings("ignore")
def test_correlated_slopes_are_those_of_statsmodels(frame):
    model = db.LinearRegression.from_frame(frame, "y ~ x + (1 + x | clinic)")
    posterior = model.fit(frame).posterior
    oracle = smf.mixedlm("y ~ x", frame, groups="clinic", re_formula="~x").fit()
    # In the columns' own units; own parts of the agreed units have the level at the centre of x.
    centre = model.columns["x"].centre
    at_centre = np.array([[1.0, centre], [0.0, 1.0]])
    exact = at_centre @ oracle.cov_re.to_numpy() @ at_centre.T
    level, slope = model.coefficients(posterior)
    assert slope["mean"] == pytest.approx(oracle.params["x"], abs=0.05 * oracle.bse["x"])
    assert slope["deviation"] == pytest.approx(oracle.bse["x"], rel=0.08)
    assert level["mean"] == pytest.approx(oracle.params["Intercept"] + centre * oracle.params["x"], abs=0.02)
    deviations = np.sqrt(np.diag(exact))
    for row, deviation in zip(model.between(posterior), deviations, strict=True):
        assert row["mean"] == pytest.approx(deviation, rel=0.08)
    (row,) = model.correlations(posterior)
    assert row["mean"] == pytest.approx(exact[0, 1] / np.prod(deviations), abs=0.1)
    assert row["low"] < 0.7 < row["high"]


@pytest.mark.filterwarnings("ignore")
def test_wards_inside_clinics_are_those_of_statsmodels(frame):
    model = db.LinearRegression.from_frame(frame, "y ~ x + (1 | clinic/ward)")
    posterior = model.fit(frame).posterior
    oracle = smf.mixedlm("y ~ x", frame, groups="clinic", re_formula="1", vc_formula={"ward": "0 + C(ward)"}).fit()
    exact = {"clinic": oracle.cov_re.iloc[0, 0] ** 0.5, "ward": oracle.vcomp[0] ** 0.5}
    for (group, _), row in by_term(model.between(posterior)).items():
        assert row["mean"] == pytest.approx(exact[group], rel=0.1)
    level, slope = model.coefficients(posterior)
    assert slope["mean"] == pytest.approx(oracle.params["x"], abs=0.05 * oracle.bse["x"])
    assert level["deviation"] == pytest.approx(oracle.bse["Intercept"], rel=0.1)


def dense_effects(rng, sites=3, wards=2, rows=5, side=3):
    """Random rows, and everything that `SiteEffects` says of them by one dense Gaussian."""
    site = np.repeat(np.arange(sites), wards * rows)
    names = np.column_stack([site, np.repeat(np.arange(sites * wards), rows)]).astype(float)
    design, y = rng.normal(size=(len(site), side)), rng.normal(size=len(site))
    groups = groups_of(names)
    outer = Grouping(BETWEEN, np.array([0, 2]), correlated=True)
    inner = Grouping(WITHIN, np.array([1]), correlated=False)
    priors = np.array([[2.0, 0.5], [0.5, 1.0]]), np.array([[3.0]])
    sums = [(design[groups.rows == g], y[groups.rows == g]) for g in range(len(groups.parents))]
    shift = np.array([x.T @ t for x, t in sums])
    precision = np.array([x.T @ x for x, _ in sums])
    effects = SiteEffects(shift, precision, (outer, inner), priors, groups.parents)
    own = np.hstack([design[:, [0, 2]] * (site == each)[:, None] for each in range(sites)])
    inside = np.column_stack([design[:, 1] * (groups.rows == each) for each in range(len(sums))])
    return effects, design, y, own, inside, priors


def test_what_is_left_of_rows_is_what_dense_gaussians_leave(rng):
    effects, design, y, own, inside, (outer, inner) = dense_effects(rng)
    random = np.hstack([own, inside])
    blocks = np.zeros((random.shape[1],) * 2)
    for place in range(3):
        blocks[2 * place : 2 * place + 2, 2 * place : 2 * place + 2] = outer
    blocks[6:, 6:] = inner[0, 0] * np.eye(6)
    noise = np.eye(len(y)) + random @ np.linalg.solve(blocks, random.T)
    left = np.linalg.solve(noise, np.column_stack([design, y]))
    shift, precision, square = effects.hidden()
    np.testing.assert_allclose(design.T @ y - shift, design.T @ left[:, -1])
    np.testing.assert_allclose(design.T @ design - precision, design.T @ left[:, :-1])
    assert y @ y - 2.0 * square == pytest.approx(y @ left[:, -1])
    # Given β = b ± 0, own parts are Gaussian around these means.
    b = rng.normal(size=3)
    spread = np.linalg.inv(random.T @ random + blocks)
    centre = spread @ random.T @ (y - design @ b)
    second = spread + np.outer(centre, centre)
    between, within = effects.squares(Moments(1.0, b, np.outer(b, b)))
    for place in range(3):
        np.testing.assert_allclose(between[place], second[2 * place : 2 * place + 2, 2 * place : 2 * place + 2])
    np.testing.assert_allclose(within[:, 0, 0], np.diag(second)[6:])
    assert effects.entropy() == pytest.approx(0.5 * np.linalg.slogdet(spread)[1] + 0.5 * len(spread))
    means, covariances = effects.coefficients(b, np.zeros((3, 3)))
    np.testing.assert_allclose(means[3] - b, [centre[2], centre[9], centre[3]])
    places = np.array([2, 9, 3])
    np.testing.assert_allclose(covariances[3], spread[np.ix_(places, places)])


@pytest.mark.parametrize(
    ("kind", "formula"),
    [
        (db.LinearRegression, "y ~ x + (1 + x | clinic) + (1 | clinic:ward)"),
        pytest.param(db.LogisticRegression, "yes ~ x + (1 | clinic/ward)", marks=pytest.mark.slow),
        pytest.param(db.PoissonRegression, "n ~ x + (1 | clinic/ward)", marks=pytest.mark.slow),
    ],
)
def test_refined_sites_end_where_all_rows_do_and_names_stay_there(kind, formula):
    frame = patients(np.random.default_rng(0), sites=4)
    model = kind.from_frame(frame, formula)
    shards = [part for _, part in frame.groupby("clinic")]
    sent = [model.fit(shard).posterior for shard in shards]
    refined = db.refine(model, shards, sent, rounds=12).merged
    batch = model.fit(frame).posterior
    for own, exact in zip(model.coefficients(refined), model.coefficients(batch), strict=True):
        assert abs(own["mean"] - exact["mean"]) < 0.03 * exact["deviation"]
    for own, exact in zip(model.between(refined), model.between(batch), strict=True):
        assert own["mean"] == pytest.approx(exact["mean"], rel=0.03)
    information = model.information(batch, frame)
    np.testing.assert_allclose(information, information.T, atol=1e-4 * np.abs(information).max())
    calibrated = db.calibrate(model, [frame], batch, method="linear response")
    for grouping in model.variation.groupings:
        assert (np.diag(np.atleast_2d(calibrated.stretch(grouping.factor)[0])) > 1.0).all()


def test_a_known_ward_is_predicted_better_than_a_new_one_of_a_known_clinic_than_a_new_clinic(frame):
    model = db.LinearRegression.from_frame(frame, "y ~ x + (1 | clinic/ward)")
    posterior = model.fit(frame).posterior
    here = frame[frame.clinic == "c0"]
    rows = here[here.ward == "w0"].head(1)
    wide = [
        float(np.ptp([ends[0] for name, ends in model.predict(posterior, new, known=known).items() if name != "mean"]))
        for new, known in [(rows, here), (rows.assign(ward="w9"), here), (rows, None), (rows.assign(clinic="?"), here)]
    ]
    assert wide[0] < wide[1] < wide[2]
    assert wide[2] == pytest.approx(wide[3])
    told = pd.DataFrame(model.effects(posterior, here))
    assert sorted(told.group) == ["", "w0", "w1", "w2"]
    truth = here.groupby("ward").y.mean()
    assert np.corrcoef(told["mean"][1:], truth[told.group[1:]])[0, 1] > 0.9


def test_small_wards_count_as_one_that_has_enough_persons(frame):
    model = db.LinearRegression.from_frame(frame, "y ~ x + (1 | clinic/ward)")
    few = pd.concat([frame[frame.clinic == "c0"].head(10), frame[frame.clinic == "c1"]])
    _, points, _ = model.pooled(few, 5, 2, agreed=True)
    _, sizes = np.unique(points[:, -2:], axis=0, return_counts=True)
    assert sorted(sizes) == [8, 8, 8, 10]


@pytest.mark.parametrize(
    ("right", "expected"),
    [
        ("x + (1 + x | clinic)", (("intercept", "x"), "clinic", (), "", True)),
        ("x + (1 + x || clinic)", (("intercept", "x"), "clinic", (), "", False)),
        ("x + (1 | clinic/ward)", (("intercept",), "clinic", ("intercept",), "ward", True)),
        ("x + (1 | site/ward)", (("intercept",), "", ("intercept",), "ward", True)),
        ("x + (1 | site:ward) + (0 + x | site)", (("x",), "", ("intercept",), "ward", True)),
        ("x + (1 + x || clinic) + (1 | clinic:ward)", (("intercept", "x"), "clinic", ("intercept",), "ward", False)),
        ("x + (1 | clinic) + (0 + x | clinic)", (("intercept", "x"), "clinic", (), "", False)),
        ("x + (1 + x | site/ward)", (("intercept", "x"), "", ("intercept", "x"), "ward", True)),
    ],
)
def test_formulas_of_groupings_and_back(right, expected, frame):
    found = parsed(f"y ~ {right}", COLUMNS)
    assert (found.varying, found.by, found.varying_within, found.within, found.correlated) == expected
    model = db.LinearRegression.from_frame(frame, f"y ~ {right}")
    assert db.LinearRegression.from_frame(frame, model.formula) == model
    assert db.model_for(model.structure) == model


@pytest.mark.parametrize(
    ("right", "said"),
    [
        ("x + (1 | clinic) + (1 | ward)", "such as diagnoses, are terms"),
        ("x + (1 | site) + (1 | ward)", "cross each other"),
        ("x + (1 | site) + (1 | ward) + (1 | clinic)", "cross each other"),
        ("x + (1 | clinic) + (1 | site:ward)", "cross each other"),
        ("x + (1 | site) + (1 | site)", "cross each other"),
        ("x + (1 | clinic/ward) + (1 | clinic)", "cross each other"),
        ("x + (1 | clinic:ward)", "cross each other"),
        ("x + (1 + x | site) + (1 + x || ward)", "for all groupings"),
        ("x + (1 | clinic/)", "needs the name of a column"),
    ],
)
def test_groupings_that_are_not_meant_are_refused_in_a_line(right, said, frame):
    with pytest.raises(InvalidStructure, match=said):
        db.LinearRegression.from_frame(frame, f"y ~ {right}")


def test_levels_that_sites_have_agreed_on_are_no_groups(frame):
    """A diagnosis that two sites have would be two groups, and no site could know."""
    agreed = {"y": db.columns.Gaussian(0, 1), "clinic": db.columns.Categorical(*"abc")}
    with pytest.warns(UserWarning, match=r"those that several sites share .* 'clinic \+ \(1 \| site\)'"):
        model_of_columns(db.LinearRegression, agreed, "y ~ 1 + (1 | clinic)", "", {})
    assert model_of_columns(db.LinearRegression, agreed, "y ~ clinic + (1 | site)", "", {}).terms == ("clinic",)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"within": "ward", "varying_within": ["intercept"]}, "what differs between sites, too"),
        ({"varying": ["intercept"], "within": "ward"}, "need both"),
        ({"varying": ["intercept"], "within": "x", "varying_within": ["intercept"]}, "cannot also be a column"),
    ],
)
def test_settings_that_make_no_sense(settings, said):
    with pytest.raises(InvalidStructure, match=said):
        db.LinearRegression("y", columns={"y": "real", "x": "real"}, **settings)


def test_half_cauchy_deviations_are_those_of_the_integral_over_everything(tmp_path):
    """One dense regression with correlated noise for each deviation on a grid of its own."""
    frame = patients(np.random.default_rng(5), sites=6, wards=1)
    model = db.LinearRegression.from_frame(frame, "y ~ 1 + (1 | clinic)")
    posterior = model.fit(frame).posterior
    shards = [part for _, part in frame.groupby("clinic")]
    calibrated = db.calibrate(model, shards, posterior, method="half-Cauchy")
    column = model.columns["y"]
    y = ((frame.y - column.centre) / column.scale).to_numpy()
    same_site = (frame.clinic.to_numpy()[:, None] == frame.clinic.to_numpy()).astype(float)
    scales, heights = np.linspace(0.005, 12.0, 1500), []
    shape, rate = 0.5 * model.prior_degrees, 0.5 * model.prior_degrees * model.prior_noise
    for scale in scales:
        noise = np.eye(len(y)) + model.prior_variance + scale**2 * same_site
        square = rate + 0.5 * y @ np.linalg.solve(noise, y)
        heights.append(-0.5 * np.linalg.slogdet(noise)[1] - (shape + 0.5 * len(y)) * np.log(square))
    odds = np.exp(np.array(heights) - max(heights)) / (1.0 + scales**2)
    below = np.cumsum(odds) / odds.sum()
    unit = model.noise(calibrated)
    (row,) = model.between(calibrated, level=0.9)
    for end, share in {"low": 0.05, "mean": 0.5, "high": 0.95}.items():
        assert row[end] / unit == pytest.approx(np.interp(share, below, scales), rel=0.03)
    db.save(calibrated, tmp_path / "one.posterior")
    assert model.between(db.load(tmp_path / "one.posterior")) == model.between(calibrated)
    assert calibrated.uncertainty.endswith("half-Cauchy between sites")
    plain = db.LinearRegression.from_frame(frame, "y ~ x")
    with pytest.raises(NotCalibrated, match="Nothing varies"):
        db.calibrate(plain, [frame], plain.fit(frame).posterior, method="half-Cauchy")


def test_sums_for_many_deviations_of_one_site_say_no_more_than_its_contribution(rng):
    """So they need no rounding. Those of several sites could be separated, and are left out under rules."""
    frame = patients(rng, sites=2, wards=1, rows=40)
    model = db.LinearRegression.from_frame(frame, "y ~ x + (1 | clinic)")
    posterior = model.fit(frame).posterior
    site = Information.usual(model, frame[frame.clinic == "c0"], posterior, rules=True)
    assert site.grid.size
    assert not Information.usual(model, frame, posterior, rules=True).grid.size
    assert Information.usual(model, frame, posterior).grid.size
    (grouping,) = model.variation.groupings
    before, side = float(grouping.precision(posterior.natural)[0, 0]), 2
    count, square, shift, precision = np.split(site.contribution[: 2 + side + side**2], [1, 2, 2 + side])
    known = -2.0 * precision.reshape(side, side)[0]
    # Undo what integrating out the deviation took away, then take it away for each other deviation.
    all_of_it = before * known[0] / (before - known[0])
    row, level = known * (all_of_it + before) / before, shift[0] * (all_of_it + before) / before
    (scan,) = model.half_cauchy(posterior).scans
    for sums, after in zip(site.grid, scan.precisions[:, 0, 0], strict=True):
        taken = 1.0 / (all_of_it + before) - 1.0 / (all_of_it + after)
        expected = [
            *count, *(square - 0.5 * taken * level**2), *(shift + taken * level * row),
            *(precision - 0.5 * taken * np.outer(row, row).ravel()),
            0.5 * np.log(after / (all_of_it + after)),
        ]  # fmt: skip
        np.testing.assert_allclose(sums, expected, rtol=1e-7, atol=1e-7)


def test_half_cauchy_correlations_are_those_of_the_integral_over_everything():
    """Two deviations and their correlation on a grid, one dense regression with correlated noise for each point."""
    frame = patients(np.random.default_rng(8), sites=8, wards=1, rows=4)
    model = db.LinearRegression.from_frame(frame, "y ~ x + (1 + x | clinic)")
    posterior = model.fit(frame).posterior
    calibrated = db.calibrate(model, [frame], posterior, method="half-Cauchy")
    y, x = (((frame[n] - model.columns[n].centre) / model.columns[n].scale).to_numpy() for n in ("y", "x"))
    same_site = frame.clinic.to_numpy()[:, None] == frame.clinic.to_numpy()
    parts = [same_site, same_site * x[:, None] * x, same_site * (x[:, None] + x)]
    roots, shares = (np.arange(26) + 0.5) * 0.1, (np.arange(16) + 0.5) / 8.0 - 1.0
    one, other, together = (part.ravel() for part in np.meshgrid(roots**2, roots**2, shares, indexing="ij"))
    fixed = np.eye(len(y)) + model.prior_variance * (1.0 + x[:, None] * x)
    noise = fixed + np.einsum("gk,knm->gnm", np.stack([one**2, other**2, together * one * other], axis=1), parts)
    solved = np.linalg.solve(noise, np.tile(y[:, None], (len(noise), 1, 1)))[..., 0] @ y
    square = 0.5 * model.prior_degrees * model.prior_noise + 0.5 * solved
    height = -0.5 * np.linalg.slogdet(noise)[1] - 0.5 * (model.prior_degrees + len(y)) * np.log(square)
    odds = np.exp(height - height.max()) * np.sqrt(one * other) / ((1.0 + one**2) * (1.0 + other**2))
    unit = model.noise(calibrated)
    rows = [*model.between(calibrated), *model.correlations(calibrated)]
    slope = unit / model.columns["x"].scale
    for row, values, size in zip(rows, (one, other, together), (unit, slope, 1.0), strict=True):
        levels = np.unique(values)
        share = np.array([odds[values == level].sum() for level in levels])
        below = (np.cumsum(share) - 0.5 * share) / share.sum()
        for end, probability in {"low": 0.05, "mean": 0.5, "high": 0.95}.items():
            exact = np.interp(probability, below, levels)
            assert row[end] / size == pytest.approx(exact, rel=0.07, abs=0.05), (row["term"], end)
