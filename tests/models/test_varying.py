"""Coefficients that differ from site to site: against integrals over everything, and dense Gaussians."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import expit, logsumexp

import decbayes as db
from decbayes.errors import InvalidData, InvalidStructure, MergeWarning, StructureMismatch
from decbayes.models.regressions._estimates import Estimates
from decbayes.models.regressions.formulas.formula import parsed
from decbayes.models.regressions.rows import table as regression_table
from decbayes.models.regressions.varying.site_effects import Moments, SiteEffects, places_among
from decbayes.models.regressions.varying.variation import BETWEEN, Grouping

SITES, ROWS = 12, 25
KINDS = [db.LinearRegression, db.LogisticRegression, db.PoissonRegression]


def clinics(rng, *, sites=SITES, rows=ROWS, between=0.8, slope=0.0):
    """A frame of several clinics that differ in how everything begins, and in what age does."""
    parts = []
    for site in range(sites):
        age = rng.normal(50, 10, rows)
        f = 0.4 + between * rng.standard_normal() + (0.05 + slope * rng.standard_normal()) * (age - 50)
        outcomes = {
            "pressure": f + rng.normal(size=rows),
            "smoker": rng.random(rows) < expit(f),
            "visits": rng.poisson(np.exp(np.minimum(f, 5))),
        }
        parts.append(pd.DataFrame({"age": age, **outcomes, "clinic": f"clinic {site}"}))
    return pd.concat(parts, ignore_index=True)


TARGETS = {db.LinearRegression: "pressure", db.LogisticRegression: "smoker", db.PoissonRegression: "visits"}


def regression(kind, frame, right="1 + (1 | clinic)", **settings):
    return kind.from_frame(frame, f"{TARGETS[kind]} ~ {right}", **settings)


def shards_of(frame):
    return [part for _, part in frame.groupby("clinic")]


def exact_mean(kind, frame, model):
    """Mean and deviation of the intercept, and mean of 1 / √Λ: all of it on a grid, each site's part by quadrature."""
    shape, rate = model.between_degrees / 2, model.between_degrees / 2 * model.prior_between
    scales = np.exp(np.linspace(np.log(0.05), np.log(4.0), 40))
    log_prior = stats.gamma(shape, scale=1 / rate).logpdf(scales**-2.0) - 2.0 * np.log(scales)
    sums = [part[TARGETS[kind]].to_numpy(dtype=float) for part in shards_of(frame)]
    if kind is db.LinearRegression:
        return exact_linear(sums, model, scales, log_prior)
    grid, nodes = np.linspace(-2.0, 3.0, 81), np.linspace(-6.0, 6.0, 401)
    total = stats.norm(0, model.prior_variance**0.5).logpdf(grid)[:, None] + log_prior[None, :]
    shares = stats.norm.logpdf(nodes)
    for y in sums:
        # A site of equal rows depends on its total alone.
        f = grid[:, None, None] + scales[None, :, None] * nodes
        n, s = len(y), y.sum()
        inner = s * f - n * (np.logaddexp(0, f) if kind is db.LogisticRegression else np.exp(f))
        total += logsumexp(inner + shares, axis=-1)
    weight = np.exp(total - logsumexp(total))
    mean = float((weight.sum(axis=1) * grid).sum())
    deviation = float(np.sqrt((weight.sum(axis=1) * (grid - mean) ** 2).sum()))
    return mean, deviation, float((weight.sum(axis=0) * scales).sum())


def exact_linear(sums, model, scales, log_prior):
    """Given Λ everything is Gaussian and Gamma: one dense regression with correlated noise."""
    y = (np.concatenate(sums) - model.columns["pressure"].centre) / model.columns["pressure"].scale
    site = np.repeat(np.arange(len(sums)), [len(part) for part in sums])
    weights, means, spreads = [], [], []
    for scale in scales:
        noise = np.eye(len(y)) + scale**2 * (site[:, None] == site) + model.prior_variance * np.ones((len(y),) * 2)
        shape, rate = 0.5 * model.prior_degrees, 0.5 * model.prior_degrees * model.prior_noise
        square = rate + 0.5 * y @ np.linalg.solve(noise, y)
        weights.append(-0.5 * np.linalg.slogdet(noise)[1] - (shape + 0.5 * len(y)) * np.log(square))
        gain = model.prior_variance * np.linalg.solve(noise, np.ones(len(y)))
        means.append(gain @ y)
        variance = square / (shape + 0.5 * len(y) - 1)
        spreads.append((model.prior_variance * (1 - gain.sum()) * variance, square / (shape + 0.5 * len(y))))
    share = np.exp((total := np.array(weights) + log_prior) - logsumexp(total))
    mean = float(share @ means)
    variance = float(share @ [spread for spread, _ in spreads] + share @ (np.array(means) - mean) ** 2)
    size, zero = model.target_units
    between = float(share @ (scales * np.sqrt([noise for _, noise in spreads])))
    return zero + size * mean, size * variance**0.5, size * between


@pytest.mark.parametrize("kind", KINDS)
def test_estimates_are_those_of_the_integral_over_everything(kind, rng):
    frame = clinics(rng, rows=6 if kind is db.LinearRegression else ROWS)
    model = regression(kind, frame)
    posterior = model.fit(frame, rng=rng).posterior
    mean, deviation, between = exact_mean(kind, frame, model)
    (row,), (spread,) = model.coefficients(posterior), model.between(posterior)
    assert abs(row["mean"] - mean) < 0.1 * deviation
    assert row["deviation"] == pytest.approx(deviation, rel=0.05)
    # With the precision between sites taken as known they would be too narrow.
    assert row["deviation"] / Estimates(model, posterior, 0.9).widening()[0] < 0.97 * deviation
    assert spread["mean"] == pytest.approx(between, rel=0.07)


@pytest.mark.parametrize("kind", KINDS)
def test_refined_sites_end_where_all_rows_do(kind, rng):
    frame = clinics(rng, slope=0.03, sites=6)
    model = regression(kind, frame, "age + (1 + age | clinic)")
    shards = shards_of(frame)
    posteriors = [model.fit(shard, rng=rng).posterior for shard in shards]
    refined = db.refine(model, shards, posteriors, rounds=9, rng=rng).merged
    batch = model.fit(frame, rng=rng).posterior
    for own, exact in zip(model.coefficients(refined), model.coefficients(batch), strict=True):
        assert abs(own["mean"] - exact["mean"]) < 0.05 * exact["deviation"]
    for own, exact in zip(model.between(refined), model.between(batch), strict=True):
        assert own["mean"] == pytest.approx(exact["mean"], rel=0.05)


def test_one_round_is_said_to_be_too_few_for_what_varies(rng):
    frame = clinics(rng, slope=0.03, sites=6)
    model = regression(db.LinearRegression, frame, "age + (1 | clinic)")
    shards = shards_of(frame)
    posteriors = [model.fit(shard, rng=rng).posterior for shard in shards]
    with pytest.warns(MergeWarning, match="a single round: it, and intervals of what varies, may be far off"):
        db.refine(model, shards, posteriors, rounds=1, rng=rng)
    twice = db.refine(model, shards, posteriors, rounds=2, rng=rng).merged
    assert "few to vary" not in [remark.kind for remark in twice.remarks]


def test_a_site_says_as_much_as_if_its_own_part_were_unknown_to_itself(rng):
    """Against one dense Gaussian over β and all sites' parts."""
    sites, side, varying = 3, 4, np.array([0, 2])
    roots = rng.normal(size=(sites, 6, side))
    precision, shift, prior = np.swapaxes(roots, 1, 2) @ roots, rng.normal(size=(sites, side)), np.array([0.7, 2.0])
    grouping = (Grouping(BETWEEN, varying, correlated=False),)

    def given(prior):
        return SiteEffects(shift, precision, grouping, (np.diag(prior),), np.arange(sites))

    effects = given(prior)
    size = side + sites * len(varying)
    whole, told = np.zeros((size, size)), np.zeros(size)
    whole[:side, :side] = np.eye(side)
    for site in range(sites):
        chosen = np.zeros((side, size))
        chosen[:, :side] = np.eye(side)
        own = side + 2 * site + np.arange(2)
        chosen[varying, own] = 1.0
        whole += chosen.T @ precision[site] @ chosen
        told += chosen.T @ shift[site]
        whole[own, own] += prior
    covariance, mean = np.linalg.inv(whole), np.linalg.solve(whole, told)
    hidden_shift, hidden_precision, _ = effects.hidden()
    marginal = np.eye(side) + precision.sum(axis=0) - hidden_precision
    np.testing.assert_allclose(np.linalg.inv(marginal), covariance[:side, :side])
    np.testing.assert_allclose(np.linalg.solve(marginal, shift.sum(axis=0) - hidden_shift), mean[:side])
    beta, spread = mean[:side], covariance[:side, :side]
    moments = Moments(1.0, beta, spread + np.outer(beta, beta))
    squares = (np.diag(covariance) + mean**2)[side:].reshape(sites, 2)
    np.testing.assert_allclose(np.diagonal(effects.squares(moments)[0], axis1=-2, axis2=-1), squares)
    means, covariances = effects.coefficients(beta, spread)
    chosen = np.zeros((side, size))
    chosen[:, :side] = np.eye(side)
    chosen[varying, side + np.arange(2)] = 1.0
    np.testing.assert_allclose(means[0], chosen @ mean)
    np.testing.assert_allclose(covariances[0], chosen @ covariance @ chosen.T)
    # Information: ∂/∂Λ of −½ E[uuᵀ] is ½ A⁻¹A⁻¹ + A⁻¹ m mᵀ entry by entry, and the slope in β is centre times slope.
    (crossed,), (own,) = effects.response(moments)
    level = effects.outer
    means = squares[:, 1] - level.spread[:, 1, 1]
    slope = np.sum(0.5 * level.spread[:, 1, 1] ** 2 + level.spread[:, 1, 1] * means)
    np.testing.assert_allclose(own[1, 1], slope, rtol=1e-6)
    np.testing.assert_allclose(crossed[:, 1 + 3], np.einsum("gv,gv->v", level.centre, level.slope[:, :, 3]), rtol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_a_known_site_is_predicted_better_than_a_new_one_and_no_surer_than_it_is(kind, rng):
    frame = clinics(rng, between=1.5, rows=40)
    model = regression(kind, frame, "age + (1 | clinic)")
    seen = frame.groupby("clinic").head(20)
    unseen = frame.drop(seen.index)
    posterior = model.fit(seen, rng=rng).posterior
    known, new = (model.log_predictive(posterior, unseen, known=rows).mean() for rows in (seen, None))
    assert known > new + 0.05
    (wide, narrow) = (model.predict(posterior, unseen, known=rows) for rows in (None, seen))
    assert np.median((wide["high"] - wide["low"]) / (narrow["high"] - narrow["low"] + 1e-9)) > 1.2
    if kind is db.LinearRegression:
        for told in (wide, narrow):
            inside = (unseen["pressure"] >= told["low"]) & (unseen["pressure"] <= told["high"])
            assert 0.8 < inside.mean() < 0.98
    stranger = unseen.assign(clinic="nobody knows")
    np.testing.assert_allclose(model.predict(posterior, stranger, known=seen)["mean"], wide["mean"])


def test_effects_are_for_whoever_holds_the_rows(rng):
    frame = clinics(rng, rows=60, between=2.0)
    model = regression(db.LinearRegression, frame, "age + (1 | clinic)")
    posterior = model.fit(frame).posterior
    effects = pd.DataFrame(model.effects(posterior, frame)).set_index("site")
    middle = frame.groupby("clinic")["pressure"].mean()
    assert list(effects.index) == list(dict.fromkeys(effects.index))
    told = effects["mean"].reindex(middle.index)
    assert np.corrcoef(told, middle)[0, 1] > 0.99
    # The posterior is as large whatever the number of sites, and has nothing of theirs.
    alone = model.fit(shards_of(frame)[0]).posterior
    assert {name: part.shape for name, part in alone.contribution.items()} == {
        name: part.shape for name, part in posterior.contribution.items()
    }
    assert "clinic 3" not in str(posterior.structure.description())


def test_linear_response_has_what_varies_in_it(rng):
    frame = clinics(rng, sites=6, rows=15)
    model = regression(db.PoissonRegression, frame, "age + (1 | clinic)")
    posterior = model.fit(frame, rng=rng).posterior
    calibrated = db.calibrate(model, [frame], posterior, method="linear response")
    own, better = (each.deviation("variation")[0, 0] for each in (posterior, calibrated))
    assert 1.0 < better / own < 1.5
    # log σ = −½ log Λ varies half as much as Λ does, relative to its mean.
    (row,), precision = model.between(calibrated, level=0.8), calibrated.mean("variation")[0, 0]
    relative = 0.5 * better / precision
    assert row["mean"] == pytest.approx(precision**-0.5)
    assert row["deviation"] == pytest.approx(row["mean"] * relative)
    reach = stats.norm.ppf(0.9) * relative
    np.testing.assert_allclose(np.log([row["low"], row["high"]]), np.log(row["mean"]) + reach * np.array([-1, 1]))


class TestSayingSo:
    @pytest.mark.parametrize(
        ("formula", "terms", "varying", "by"),
        [
            ("y ~ age + (1 | site)", ("age",), ("intercept",), ""),
            ("y ~ age + (1 + age | clinic)", ("age",), ("intercept", "age"), "clinic"),
            ("y ~ age + (0 + age | clinic)", ("age",), ("age",), "clinic"),
            ("y ~ (1 | clinic)", (), ("intercept",), "clinic"),
            ("y ~ . + (1 | clinic)", ("age", "sex"), ("intercept",), "clinic"),
        ],
    )
    def test_formulas(self, formula, terms, varying, by):
        assert parsed(formula, ["age", "sex", "clinic", "y"])[:5] == ("y", terms, True, "", varying)
        assert parsed(formula, ["age", "sex", "clinic", "y"]).by == by

    @pytest.mark.parametrize(
        ("formula", "message"),
        [
            ("pressure ~ age + (1 | ward)", "'ward' in the formula is neither a column"),
            ("pressure ~ age + (1 + smoker | site)", "'smoker' cannot vary from site to site: it is no term"),
            ("pressure ~ age - 1 + (1 | site)", "'intercept' cannot vary"),
            ("pressure ~ age + (1 | site", "not closed"),
        ],
    )
    def test_formulas_that_make_no_sense(self, formula, message, rng):
        with pytest.raises(InvalidStructure, match=message.replace("(", "\\(")):
            db.LinearRegression.from_frame(clinics(rng, sites=2), formula)

    def test_settings_that_make_no_sense(self, rng):
        frame = clinics(rng, sites=2)
        with pytest.raises(ValueError, match="needs approximation='variational'"):
            regression(db.LogisticRegression, frame, approximation="laplace")
        with pytest.raises(InvalidStructure, match="no term varies"):
            db.LinearRegression("y", columns={"x": "real", "y": "real"}, by="clinic")
        model, fixed = (regression(db.LinearRegression, frame, right) for right in ("(1 | clinic)", "age"))
        with pytest.raises(InvalidData, match="Nothing varies"):
            fixed.effects(db.Posterior.of_prior(fixed.structure), frame)
        frame.loc[3, "clinic"] = None
        with pytest.raises(InvalidData, match="1 of 50 rows do not name their group in 'clinic'"):
            model.fit(frame)

    def test_a_table_without_names_of_sites_is_one_site(self, rng, tmp_path):
        frame = clinics(rng, sites=1)
        model = regression(db.PoissonRegression, frame)
        frame.drop(columns="clinic").to_csv(tmp_path / "a.csv", index=False)
        rows = model.read(tmp_path / "a.csv")
        assert np.isnan(rows[:, -1]).all()
        one, other = (model.fit(data, rng=rng).posterior for data in (rows, frame))
        np.testing.assert_allclose(one.natural["coefficients"], other.natural["coefficients"])


def test_a_start_of_another_model_is_refused(rng):
    frame = clinics(rng, sites=2)
    other = db.Posterior.of_prior(db.models.GaussianMean(dimension=1).structure)
    for right in ("1 + (1 | clinic)", "age"):
        with pytest.raises(StructureMismatch, match="The start belongs to"):
            regression(db.LinearRegression, frame, right).fit(frame, start=other)


@pytest.mark.parametrize("kind", KINDS)
def test_a_frame_is_made_numbers_once(kind, rng, monkeypatch):
    frame, made = clinics(rng, sites=3), []
    model = regression(kind, frame, "age + (1 | clinic)")
    monkeypatch.setattr(
        regression_table, "coded", lambda *given, coded=regression_table.coded: made.append(1) or coded(*given)
    )
    posterior = model.fit(frame, rng=rng).posterior
    new = frame.drop(columns=model.target)
    for call in (
        lambda: model.fit(frame, rng=rng),
        lambda: model.log_predictive(posterior, frame),
        lambda: model.predict(posterior, new),
        lambda: model.effects(posterior, frame),
    ):
        made.clear()
        call()
        assert len(made) == 1
    assert model.count(frame) == len(frame)


def test_the_column_of_sites_is_kept_beside_a_formula(tmp_path, rng):
    """`--formula` with `--by` says the same as `(1 | s)`; a column that is not there is named."""
    path, sites = tmp_path / "a.csv", np.repeat(np.arange(6), 8)
    x = rng.normal(size=48)
    y = x + 3.0 * rng.normal(size=6)[sites] + 0.1 * rng.normal(size=48)
    pd.DataFrame({"y": y, "x": x, "s": [f"h{site}" for site in sites]}).to_csv(path, index=False)
    said = [{"formula": "y ~ x + (1 | s)"}, {"formula": "y ~ x", "varying": "intercept", "by": "s"}]
    found = [db.LinearRegression.from_file(path, report=lambda _: None, **each) for each in said]
    first, second = (model.fit(data, rng=np.random.default_rng(0)).bound[-1] for model, data in found)
    assert first == pytest.approx(second)
    with pytest.raises(InvalidData, match="no column 'nowhere' to name sites"):
        db.LinearRegression.from_file(path, report=lambda _: None, formula="y ~ x", varying="intercept", by="nowhere")


def test_dates_that_are_missing_are_missing_and_units_of_time_change_no_name():
    days = np.array(["2020-01-01", "NaT", "2020-01-02"], dtype="datetime64[ns]")
    found = [
        db.columns.columns_of(pd.DataFrame({"day": days.astype(f"datetime64[{unit}]")}), {"day": "categorical"})
        for unit in ("ns", "us")
    ]
    assert found[0] == found[1]
    assert len(found[0]["day"].categories) == 2


def test_rows_have_the_effect_of_their_own_site_whatever_others_are_known(rng):
    frame = clinics(rng, sites=4)
    model = regression(db.LinearRegression, frame)
    posterior = model.fit(frame).posterior
    known, rows = frame[frame["clinic"] != "clinic 3"], frame.iloc[::5]
    together = model.predict(posterior, rows, known=known)["mean"]
    for name, part in rows.groupby("clinic"):
        own = known[known["clinic"] == name] if name != "clinic 3" else None
        alone = model.predict(posterior, part, known=own)["mean"]
        np.testing.assert_allclose(together[(rows["clinic"] == name).to_numpy()], alone)
    numbers = np.array([np.nan, 7.0, 3.0, 5.0])
    np.testing.assert_array_equal(places_among([numbers], [np.array([3.0, np.nan])]), [1, 2, 0, 2])


def test_calibrated_deviations_between_sites_are_as_uncertain_as_exact_integration():
    """Means of 30 sites with noise 1: the posterior of the standard deviation between them, on a grid."""
    rng, sites, rows, deviation = np.random.default_rng(5), 30, 20, 0.5
    levels = deviation * rng.normal(size=sites)
    frames = [{"y": level + rng.normal(size=rows)} for level in levels]
    model = db.LinearRegression("y", columns={"y": "real"}, varying=("intercept",))
    start = [model.fit(frame).posterior for frame in frames]
    refined = db.refine(model, frames, start, rounds=12).merged
    plain, found = (
        model.between(refined)[0],
        model.between(db.calibrate(model, frames, refined, method="linear response"))[0],
    )
    means = np.array([frame["y"].mean() for frame in frames])
    noise = np.mean([frame["y"].var(ddof=1) for frame in frames])
    grid = np.exp(np.linspace(np.log(0.1), np.log(2.0), 800))  # of the standard deviation
    variance = grid**2 + noise / rows
    squares = ((means - means.mean()) ** 2).sum()
    precision = noise / grid**2  # Λ; the prior is Gamma(1/2, 1/2 · 0.1), and d log Λ = 2 d log deviation
    log_density = -0.5 * (sites - 1) * np.log(variance) - 0.5 * squares / variance
    log_density += 0.5 * np.log(precision) - 0.05 * precision
    below = np.cumsum(np.exp(log_density - log_density.max()))
    low, high = np.interp([0.05, 0.95], below / below[-1], grid)
    assert np.log(found["high"] / found["low"]) == pytest.approx(np.log(high / low), rel=0.1)
    assert np.log(plain["high"] / plain["low"]) < 0.85 * np.log(high / low)
    assert found["low"] == pytest.approx(low, rel=0.1)
    assert found["high"] == pytest.approx(high, rel=0.1)


class TestSitesAreComparedWithoutWhatVaries:
    def shards(self, rng, fault=1.0):
        """Eight sites of 200 rows with intercepts of their own; the last one's effect of age is that times `fault`."""
        frame = clinics(rng, sites=8, rows=200, between=2.0)
        last = frame["clinic"] == "clinic 7"
        frame.loc[last, "pressure"] += (fault - 1.0) * 0.05 * (frame.loc[last, "age"] - 50)
        model = regression(db.LinearRegression, frame, "age + (1 | clinic)")
        return model, shards_of(frame)

    def test_the_rest_is_that_of_least_squares_with_an_intercept_per_site(self, rng):
        model, shards = self.shards(rng)
        posteriors = [model.fit(shard).posterior for shard in shards]
        for shard, posterior in zip(shards, model.compared(posteriors), strict=True):
            x, y = (shard[name] - shard[name].mean() for name in ("age", "pressure"))
            x, y = x / model.columns["age"].zero_and_unit[1], y / model.target_units[0]
            count, squares, *shift = posterior.contribution["coefficients"][0][:4]
            precision = -2.0 * posterior.contribution["coefficients"][0][4:].reshape(2, 2)
            # What is left about the slope once the intercept is integrated out, too.
            along = precision[0, 1] / precision[0, 0]
            assert precision[1, 1] - along * precision[0, 1] == pytest.approx(x @ x, rel=1e-6)
            assert shift[1] - along * shift[0] == pytest.approx(x @ y, rel=1e-6)
            assert -2.0 * squares - shift[0] ** 2 / precision[0, 0] == pytest.approx(y @ y, rel=1e-6)
            assert 2.0 * count == pytest.approx(len(x) - 1, abs=0.1)

    def test_a_robust_merge_leaves_nobody_out_whose_intercept_is_another(self, rng):
        model, shards = self.shards(rng)
        posteriors = [model.fit(shard).posterior for shard in shards]
        assert not any(standing.disagrees for standing in db.merging.standings(posteriors))
        assert not db.merging.influence(db.align(posteriors)).disagreeing.any()

    def test_a_site_is_named_whose_other_effects_differ(self, rng):
        model, shards = self.shards(rng, fault=-1.0)
        posteriors = [model.fit(shard).posterior for shard in shards]
        with pytest.warns(MergeWarning, match="site 7"):
            merged = db.merge(posteriors)
        (named,) = (remark.sites for remark in merged.remarks if remark.kind == "site disagrees")
        assert named == (7,)
        assert db.merging.influence(db.align(posteriors)).disagreeing.tolist() == 7 * [False] + [True]
