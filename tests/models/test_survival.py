"""Survival and overdispersed counts: likelihoods by hand, Cox's partial likelihood, one fit and a merge."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate, optimize, stats

import decbayes as db
from decbayes.disclosure.drafting import drafted
from decbayes.errors import InvalidData, InvalidStructure, NotDisclosed


def patients(rng, count=400, effect=0.7):
    """Two groups with hazards that change at 1 and 3, followed until a random end."""
    old, score = rng.random(count) < 0.5, rng.normal(10.0, 2.0, count)
    hazard = np.exp(effect * old + 0.15 * (score - 10.0))
    target = rng.exponential(size=count) / hazard
    # Cumulative baseline hazard: 0.5 t until 1, then 0.2 per unit until 3, then 0.4.
    happened = np.where(
        target < 0.5, target / 0.5, np.where(target < 0.9, 1 + (target - 0.5) / 0.2, 3 + (target - 0.9) / 0.4)
    )
    ended = rng.uniform(1.0, 6.0, count)
    return {"t": np.minimum(happened, ended), "dead": happened < ended, "old": old, "score": score}


def log_likelihood(model, beta, frame, start=0.0):
    """Σ log h(t) of those who died − the cumulative hazards, hazards as steps."""
    cuts, total = [0.0, *model.cuts, np.inf], 0.0
    zero, unit = model.columns["score"].zero_and_unit
    for place in range(len(frame["t"])):
        linear = beta[-2] * frame["old"][place] + beta[-1] * (frame["score"][place] - zero) / unit
        rates = model.rate * np.exp(beta[: len(cuts) - 1] + linear)
        time = frame["t"][place]
        spent = [max(min(time, high) - max(start, low), 0.0) for low, high in pairwise(cuts)]
        total -= float(np.dot(rates, spent))
        if frame["dead"][place]:
            total += float(np.log(rates[np.searchsorted(cuts[1:-1], time)]))
    return total


def formula(frame, text="Surv(t, dead) ~ old + score", **settings):
    return db.SurvivalRegression.from_frame(frame, text, **{"cuts": (1.0, 3.0), "rate": 0.3} | settings)


def test_a_hazard_without_cuts_is_said_to_be_constant(rng):
    frame = patients(rng, 60)
    assert formula(frame, cuts=()).modelled.endswith("; without cuts the hazard is constant in time")
    assert "constant" not in formula(frame).modelled


def test_the_fit_maximises_the_likelihood_of_piecewise_constant_hazards(rng):
    frame = patients(rng, 150)
    model = formula(frame, prior_variance=1e6, approximation="laplace")
    labels = model.structure.labels["coefficients"]
    assert labels == ("interval=0 to 1", "interval=1 to 3", "interval=from 3", "old", "score")
    best = optimize.minimize(lambda beta: -log_likelihood(model, beta, frame), np.zeros(5), method="BFGS").x
    natural = model.fit(frame).posterior.natural["coefficients"]
    np.testing.assert_allclose(model.outcome.moments(natural)[0], best, atol=2e-4)


def test_hazard_ratios_are_close_to_cox(rng):
    frame = patients(rng, 500)
    model = db.SurvivalRegression.from_frame(frame, "Surv(t, dead) ~ old + score", prior_variance=100.0)
    order = np.argsort(-frame["t"])
    x = np.column_stack([frame["old"], frame["score"] - 10.0])[order]
    dead = frame["dead"][order]

    def surprise(beta):
        risk = x @ beta
        return -np.sum((risk - np.logaddexp.accumulate(risk))[dead])

    cox = optimize.minimize(surprise, np.zeros(2), method="BFGS")
    slope = lambda beta: optimize.approx_fprime(beta, surprise, 1e-5)  # noqa: E731
    curvature = np.array([(slope(cox.x + step) - slope(cox.x - step)) / 0.02 for step in 0.01 * np.eye(2)])
    found = model.coefficients(model.fit(frame).posterior)[-2:]
    distance = [(row["mean"] - best) / row["deviation"] for row, best in zip(found, cox.x, strict=True)]
    assert np.abs(distance).max() < 0.35
    assert [row["deviation"] for row in found] == pytest.approx(np.sqrt(np.diag(np.linalg.inv(curvature))), rel=0.1)


def test_sites_merge_to_nearly_one_fit_and_rounds_to_that_fit(rng):
    frame = patients(rng, 600)
    model = formula(frame)
    points = model.points(frame)
    sites = np.array_split(points, 4)
    together = model.fit(points).posterior
    posteriors = [model.fit(site).posterior for site in sites]
    merged, refined = db.merge(posteriors), db.refine(model, sites, posteriors, rounds=3).merged
    one, two, all_at_once = (model.coefficients(posterior) for posterior in (merged, refined, together))
    apart = [
        [abs(row["mean"] - best["mean"]) / best["deviation"] for row, best in zip(rows, all_at_once, strict=True)]
        for rows in (one, two)
    ]
    assert max(apart[0]) < 1.0
    assert max(apart[1]) < 0.02


def test_late_entry_counts_only_time_at_risk(rng):
    frame = patients(rng, 200)
    entry = 0.5 * frame["t"]
    model = formula(frame | {"begin": entry}, "Surv(begin, t, dead) ~ old + score")
    rows = model.table.rows(model.points(frame | {"begin": entry}))
    exposure = np.bincount(rows.observation, weights=np.exp(rows.offset) / model.rate)
    np.testing.assert_allclose(exposure, frame["t"] - entry)
    assert rows.targets.sum() == frame["dead"].sum()


def test_predictive_densities_of_times_integrate_to_one(rng):
    frame = patients(rng, 60)
    model = formula(frame, "Surv(t, dead) ~ old", cuts=(1.0, 3.0))
    posterior = model.fit(frame).posterior

    def density(time, dead=True):
        row = {"t": [time], "dead": [dead], "old": [True]}
        return float(np.exp(model.log_predictive(posterior, row))[0])

    total = integrate.quad(density, 1e-9, 8.0, points=[1.0, 3.0], limit=100)[0] + density(8.0, dead=False)
    assert total == pytest.approx(1.0, abs=1e-4)


def test_survival_curves_fall_and_their_intervals_hold_draws(rng):
    frame = patients(rng, 300)
    model = formula(frame)
    posterior = model.fit(frame).posterior
    person = {"old": [True], "score": [11.0]}
    times = [0.0, 0.5, 1.0, 2.0, 4.0]
    curve = model.survival(posterior, person, times=times)
    assert curve["mean"][0, 0] == 1.0
    assert (np.diff(curve["mean"][0]) < 0).all()
    assert ((curve["low"] <= curve["mean"]) & (curve["mean"] <= curve["high"])).all()
    mean, covariance = model.outcome.moments(posterior.natural["coefficients"])
    betas = rng.multivariate_normal(mean, covariance, 4000)
    zero, unit = model.columns["score"].zero_and_unit
    linear = betas[:, 3] + betas[:, 4] * (11.0 - zero) / unit
    hazards = model.rate * np.exp(betas[:, :3] + linear[:, None])
    drawn = np.exp(-(hazards[:, 0] + hazards[:, 1] * 2.0 + hazards[:, 2] * 1.0))
    assert np.quantile(drawn, [0.05, 0.95]) == pytest.approx([curve["low"][0, -1], curve["high"][0, -1]], abs=0.01)
    assert model.predict(posterior, person)["mean"][0] == model.survival(posterior, person, times=[3.0])["mean"][0, 0]


def test_effects_may_change_with_time_and_baselines_with_sites(rng):
    frame = patients(rng, 300)
    changing = formula(frame, "Surv(t, dead) ~ old + old:interval")
    assert changing.structure.labels["coefficients"][-2:] == ("old:interval=1 to 3", "old:interval=from 3")
    assert changing.formula == "Surv(t, dead) ~ old + old:interval"
    assert db.model_for(changing.structure) == changing
    stratified = formula(frame, varying=["interval"])
    assert stratified.structure.labels["variation"] == changing.structure.labels["coefficients"][:3]
    assert stratified.fit(frame).converged


def test_cuts_agreed_from_counts_hide_small_steps(rng):
    frame = patients(rng, 400)
    model = formula(frame)
    sums = [model.sums(part, least=5) for part in np.array_split(model.points(frame), 4)]
    for site in sums:
        ((_, _, *steps),) = next(iter(site.values())).parts
        assert (np.diff([0, *(count for _, count in steps)]) >= 5).all()
    cuts = model.settled(db.columns.agree(*sums)).cuts
    between = np.histogram(frame["t"][frame["dead"]], [0.0, *cuts, np.inf])[0]
    assert 3 <= len(cuts) <= 5
    assert between.max() < 2.5 * between.min()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"t": -1.0}, "no time at risk"),
        ({"dead": 2.0}, "neither yes nor no"),
    ],
)
def test_impossible_rows_are_refused(change, message, rng):
    frame = patients(rng, 50)
    model = formula(frame)
    with pytest.raises(InvalidData, match=message):
        model.fit(
            {name: np.where(np.arange(50) == 3, change.get(name, values), values) for name, values in frame.items()}
        )


@pytest.mark.parametrize(
    ("text", "settings", "message"),
    [
        ("dead ~ old", {}, "Surv"),
        ("Surv(t, dead) ~ old", {"cuts": (3.0, 1.0)}, "rising order"),
        ("Surv(t, dead) ~ old", {"rate": 0.0}, "rate"),
    ],
)
def test_impossible_models_are_refused(text, settings, message, rng):
    with pytest.raises((InvalidStructure, ValueError), match=message):
        formula(patients(rng, 50), text, **settings)


def test_few_events_between_two_cuts_do_not_leave_the_site(rng, tmp_path):
    frame = patients(rng, 300)
    model = formula(frame, cuts=(0.0001, 3.0))
    with pytest.raises(NotDisclosed, match="Agree on fewer cuts"):
        db.save(model.fit(frame).posterior, tmp_path / "few.posterior", data=frame)


def test_one_survivor_behind_a_cut_is_a_matter_of_cuts_not_of_products(tmp_path):
    frame = {"t": np.repeat([0.5, 1.5, 2.5], [40, 7, 8]), "old": np.arange(55) % 3 == 0}
    frame["dead"] = np.append(np.arange(41) % 2 == 1, np.ones(14, dtype=bool))
    model = formula(frame, "Surv(t, dead) ~ old", cuts=(1.0, 2.0))
    with pytest.raises(NotDisclosed, match=r"some of the levels in 'interval'.*Agree on fewer cuts"):
        db.save(model.fit(frame).posterior, tmp_path / "few.posterior", data=frame)


class TestNegativeBinomial:
    def test_expectations_are_integrals(self):
        model = db.NegativeBinomialRegression("y", columns={"y": "count"}, dispersion=1.7)
        for y, mean, variance in [(0.0, 0.5, 0.3), (4.0, 1.0, 0.8), (30.0, 3.0, 0.1)]:
            values = model.outcome.expectations(*(np.array([part]) for part in (y, mean, variance)))

            def integrand(f, order=0, y=y, mean=mean, variance=variance):
                chance = 1.7 / (1.7 + np.exp(f))
                log = stats.nbinom.logpmf(y, 1.7, chance)
                centred = (f - mean) / variance
                weight = {0: 1.0, 1: centred, 2: 1.0 / variance - centred**2}[order]
                return log * weight * stats.norm.pdf(f, mean, variance**0.5)

            wide = 9.0 * variance**0.5
            for order, value in enumerate(values):
                found = integrate.quad(integrand, mean - wide, mean + wide, args=(order,))[0]
                assert value[0] == pytest.approx(found, rel=1e-4, abs=1e-5)

    def test_coverage_where_poisson_intervals_are_too_narrow(self, rng):
        x = rng.normal(size=4000)
        counts = rng.poisson(np.exp(0.5 + 0.4 * x) * rng.gamma(1.5, 1 / 1.5, 4000))
        frame = {"y": counts, "x": x}
        kinds = db.PoissonRegression, db.NegativeBinomialRegression
        plain, wider = (kind.from_frame(frame, "y ~ x") for kind in kinds)
        sums = [wider.sums(part, least=5) for part in np.array_split(wider.points(frame), 5)]
        wider = wider.settled(db.columns.agree(*sums))
        assert wider.dispersion == pytest.approx(1.5, rel=0.15)
        narrow, wide = (model.coefficients(model.fit(frame).posterior)[0] for model in (plain, wider))
        # Var(mean) is that of Poisson counts times 1 + mean / φ.
        ratio = wide["deviation"] / narrow["deviation"]
        assert ratio == pytest.approx(np.sqrt(1 + np.exp(0.5) / 1.5), rel=0.1)

    def test_huge_dispersion_is_poisson(self, rng):
        frame = {"y": rng.poisson(3.0, 100), "x": rng.normal(size=100)}
        plain = db.PoissonRegression.from_frame(frame, "y ~ x")
        wider = db.NegativeBinomialRegression.from_frame(frame, "y ~ x", dispersion=1e6)
        one, two = (model.coefficients(model.fit(frame).posterior) for model in (plain, wider))
        for row, other in zip(one, two, strict=True):
            assert row["mean"] == pytest.approx(other["mean"], abs=1e-3)
            assert row["deviation"] == pytest.approx(other["deviation"], rel=1e-3)

    def test_predicted_intervals_hold_new_counts(self, rng):
        frame = {"y": rng.negative_binomial(2.0, 2.0 / (2.0 + 6.0), 500)}
        model = db.NegativeBinomialRegression.from_frame(frame, "y ~ 1", dispersion=2.0)
        predicted = model.predict(model.fit(frame).posterior, frame)
        low, high = stats.nbinom.ppf([0.05, 0.95], 2.0, 2.0 / 8.0)
        assert predicted["low"][0] == pytest.approx(low, abs=1)
        assert predicted["high"][0] == pytest.approx(high, abs=2)


@pytest.mark.parametrize(("late", "refused"), [(0, False), (1, True), (4, True), (5, False)])
def test_an_interval_in_which_few_persons_die_is_refused(late, refused):
    """20 persons die before the cut and 20 live on; of those who die behind it there are so many."""
    columns = {"dead": "yes/no", "t": "real"}
    model = db.SurvivalRegression("dead", columns=columns, time="t", cuts=(1.0,), rate=0.5)
    frame = {"dead": [True] * 20 + [False] * 20 + [True] * late, "t": [0.5] * 20 + [2.0] * 20 + [1.5] * late}
    if refused:
        for outcomes in (1, 5):
            with pytest.raises(InvalidData, match="Fewer than 5 persons here have an outcome in"):
                model.pooled(frame, 5, outcomes, agreed=True)
    else:
        assert model.pooled(frame, 5, 1, agreed=True)[2] == []


def test_pieces_of_one_follow_up_are_not_said_to_depend_on_each_other():
    """Rows cut at any time have the same likelihood; overlaps and second events are something else."""
    rng = np.random.default_rng(5)
    count, half = 60, np.full(60, 0.5)
    whole = {"start": 0.0 * half, "stop": 1.0 + rng.exponential(2.0, count), "dead": rng.random(count) < 0.6}
    whole["x"] = rng.normal(size=count)
    kinds = {"start": "real", "stop": "real", "dead": "yes/no", "x": "real"}
    model = db.SurvivalRegression("dead", columns=kinds, time="stop", entry="start", cuts=(2.0,))
    first, rest = whole | {"stop": half, "dead": 0.0 * half}, whole | {"start": half}
    cases = {
        "pieces": (first, rest),
        "overlap": (first, whole),
        "two events": (first | {"dead": 0.0 * half + 1.0}, rest),
    }
    said = {}
    for name, parts in cases.items():
        frame = {column: np.concatenate([part[column] for part in parts]) for column in whole}
        persons = [*range(count), *range(count)]
        fitted = model.fit(frame).posterior
        draft, _ = drafted(fitted, model.points(frame), None, persons=persons)
        said[name] = [remark.kind for remark in draft.remarks]
        if name == "pieces":
            np.testing.assert_allclose(
                fitted.mean("coefficients"), model.fit(whole).posterior.mean("coefficients"), atol=1e-6
            )
    assert said == {"pieces": [], "overlap": ["repeated persons"], "two events": ["repeated persons"]}


def test_few_cuts_are_said_to_confound_columns_that_change_during_follow_up():
    kinds = {"start": "real", "stop": "real", "dead": "yes/no", "treated": "yes/no"}
    said = {}
    for entry in ("", "start"):
        for cuts in ((2.0,), (1.0, 2.0, 3.0)):
            columns = {name: kind for name, kind in kinds.items() if entry or name != "start"}
            model = db.SurvivalRegression("dead", columns=columns, time="stop", entry=entry, cuts=cuts)
            said[entry, len(cuts)] = "the hazard changes at 2 only" in model.modelled
    assert said == {("", 1): False, ("", 3): False, ("start", 1): True, ("start", 3): False}
