"""Laws over every model that can be released privately: no record moves a sum by more than was promised."""

import numpy as np
import pytest
from scipy.stats import beta, chi2

import decbayes as db
from decbayes.errors import NotPrivate
from decbayes.privacy import discrete_gaussian
from decbayes.privacy.releasing import GRID, largest_norm, released, summed_records

REALS = {"age": db.columns.Gaussian(centre=50, scale=20), "dose": db.columns.Gaussian(centre=0, scale=1)}
OTHERS = {"ward": db.columns.Categorical("a", "b", "c"), "old": db.columns.YesNo()}
COUNTS = db.columns.Poisson(mean=3.0)


def models():
    return {
        "linear": db.LinearRegression("y", columns={**REALS, **OTHERS, "y": db.columns.Gaussian(10, 5)}),
        "logistic": db.LogisticRegression("y", columns={**REALS, **OTHERS, "y": db.columns.YesNo()}),
        "two categories": db.LogisticRegression("y", columns={**REALS, "y": db.columns.Categorical("no", "yes")}),
        "poisson": db.PoissonRegression("y", columns={**REALS, **OTHERS, "y": COUNTS}),
        "poisson, small": db.PoissonRegression("y", columns={**REALS, "y": db.columns.Poisson(mean=0.1)}),
        "poisson, offset": db.PoissonRegression(
            "y", columns={"age": REALS["age"], "dose": REALS["dose"], "y": COUNTS}, terms=["age"], offset="dose"
        ),
        "negative binomial": db.NegativeBinomialRegression("y", columns={**REALS, "y": COUNTS}, dispersion=0.7),
        "survival": db.SurvivalRegression(
            "y", columns={**REALS, "y": db.columns.YesNo(), "t": db.columns.Gaussian(5, 5)}, time="t",
            cuts=[1.0, 4.0, 9.0], terms=["age", "dose"],
        ),
        "survival, changing": db.SurvivalRegression(
            "y", columns={"age": REALS["age"], "y": db.columns.YesNo(), "t": db.columns.Gaussian(5, 5)}, time="t",
            cuts=[1.0, 4.0], terms=["age", "age:interval"],
        ),
    }  # fmt: skip


MODELS = models()


def strange_records(model, size, rng):
    """Rows far from anything usual: real values of all sizes, counts up to a million, times at risk of all lengths."""
    points = model.table.made_up(size, rng)
    for place, (name, column) in enumerate(model.columns.items()):
        if name == getattr(model, "time", None):
            points[:, place] = np.exp(rng.normal(0, 3, size))
        elif column.factor == "real":
            zero, unit = column.zero_and_unit
            points[:, place] = zero + unit * rng.standard_cauchy(size) * 10.0 ** rng.uniform(-2, 3, size)
        elif column.factor == "counts":
            points[:, place] = np.rint(10.0 ** rng.uniform(-1, 6, size))
    return points


def anchors(mechanism, rng, count):
    """The start, others nearby, and some at the end of what anchors can be."""
    start = mechanism.start()
    yield start
    for _ in range(count):
        moved = start + rng.normal(size=len(start)) * rng.choice([0.1, 1.0, 10.0])
        if mechanism.scores.estimates_noise:
            moved[-1] = rng.uniform(0.01, 3.0)
        yield moved.clip(-20, 20)


@pytest.mark.parametrize("name", MODELS)
def test_no_record_is_larger_than_its_bound(name, rng):
    """Random search among strange records; and the bound is no larger than it need be: some record comes near it."""
    model = MODELS[name]
    mechanism, largest = model.mechanism(), 0.0
    with np.errstate(over="ignore"):
        for anchor in anchors(mechanism, rng, 15):
            found = mechanism.record_statistics(anchor, strange_records(model, 300, rng), 0)
            assert found.shape[1] == mechanism.size(0)
            assert np.isfinite(found).all()
            largest = max(largest, float((found**2).sum(axis=1).max()))
    assert largest <= 1.0 + 1e-12
    assert largest > 0.5


@pytest.mark.parametrize("name", MODELS)
def test_an_adversary_finds_no_larger_record(name, rng):
    """Climb from the largest of many records by small changes; the bound holds before anything is shortened."""
    model = MODELS[name]
    mechanism = model.mechanism()
    anchor = list(anchors(mechanism, rng, 3))[-1]
    best, largest = strange_records(model, 200, rng), 0.0
    for _ in range(15):
        norms = np.linalg.norm(mechanism.unshortened(anchor, best), axis=1)
        largest = max(largest, float(norms.max()))
        best = np.repeat(best[np.argsort(norms)[-10:]], 20, axis=0)
        changed = best * np.exp(rng.normal(0, 0.3, best.shape)) + rng.normal(0, 0.01, best.shape)
        reals = [column.factor == "real" for column in model.columns.values()]
        best[1:, reals] = changed[1:, reals]
        if "t" in model.columns:
            best[:, -1] = np.abs(best[:, -1])
        for place, column in enumerate(model.columns.values()):
            if column.factor == "counts":
                best[:, place] = np.rint(np.abs(changed[:, place]))
    assert largest <= 1.0 + 1e-9


@pytest.mark.parametrize("name", MODELS)
def test_neighbouring_data_sets_differ_by_one_record_and_no_rounding(name, rng):
    """Exact integers: the sum with a record less the sum without it is that record's, to the last step."""
    model = MODELS[name]
    mechanism = model.mechanism()
    size = mechanism.size(0)
    anchor = mechanism.start() + 0.1
    points = strange_records(model, 61, rng)
    whole = summed_records(mechanism, anchor, points, 0)
    for left_out in (0, 17, 60):
        rest = summed_records(mechanism, anchor, np.delete(points, left_out, axis=0), 0)
        alone = summed_records(mechanism, anchor, points[left_out : left_out + 1], 0)
        assert (whole - rest == alone).all()
        assert sum(int(step) ** 2 for step in alone) <= largest_norm(size) ** 2


def test_a_mechanism_that_breaks_its_bound_releases_nothing(rng):
    model = MODELS["logistic"]
    mechanism = model.mechanism()
    honest = mechanism.record_statistics
    mechanism.record_statistics = lambda *given: 3.0 * honest(*given)
    points = strange_records(model, 500, rng)
    with pytest.raises(db.errors.InvalidData, match="larger than its stated bound; nothing was released"):
        summed_records(mechanism, mechanism.start(), points, 0)


class Open:
    """A ledger with endless budget."""

    def spend(self, spending):
        self.last = spending


@pytest.mark.parametrize(("noise", "sites"), [("each", 0), ("shared", 4)])
def test_noise_has_the_stated_size(noise, sites, rng):
    """Σ (release − sum)² / variance is χ² with as many degrees as numbers; μ is the bound over the deviation."""
    model, ledger = MODELS["logistic"], Open()
    privacy = db.Privacy(1.0, 1e-6, noise=noise, sites=sites, rows_per_person=2)
    points = strange_records(model, 50, rng).clip(-4.0, 4.0)
    prior = db.Posterior.of_prior(model.structure)
    mechanism = model.mechanism()
    exact = summed_records(mechanism, mechanism.start(), points, 0)
    releases = [model.release(prior, points, privacy, ledger=ledger) for _ in range(12)]
    away = np.concatenate([(one.values - exact) / one.variance**0.5 for one in releases])
    low, high = chi2.ppf([1e-6, 1 - 1e-6], len(away))
    assert low < away @ away < high
    honest = sites - 1 if sites else 1
    one = releases[0]
    bound = 2 * largest_norm(mechanism.size(0))
    assert ledger.last.mu == pytest.approx(bound / (one.variance * honest) ** 0.5, rel=1e-6)
    assert ledger.last.mu <= privacy.mu * mechanism.budget_parts[0] ** 0.5
    assert len({one.ids for one in releases}) == 12
    assert GRID.step * one.variance**0.5 * honest**0.5 == pytest.approx(2 / ledger.last.mu, rel=1e-5)


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (db.models.GaussianMean(variance=1.0), "nobody has bounded"),
        (db.LogisticRegression("y", columns={**REALS, "y": "yes/no"}, varying=["age"]), "vary from site to site"),
        (db.PoissonRegression("y", columns={**REALS, "y": "count"}, weights="dose", terms=["age"]), "not one person"),
        (db.OrderedRegression("y", columns={**REALS, "y": db.columns.Categorical(3)}), "levels of one"),
    ],
)  # fmt: skip
def test_models_without_a_bound_refuse_with_the_reason(model, reason):
    with pytest.raises(NotPrivate, match=reason):
        model.mechanism()


def audited(without, with_record, delta):
    """A lower bound on ε, with 99.9 % confidence, from what a test on the first half of paired runs decides on the
    second: log((P(decide | in) − δ) / P(decide | out)), exact binomial limits.
    """
    half = len(without) // 2
    places = np.quantile(without[:half], [0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99])
    gains = [((with_record[:half] > t).mean() - delta) / max((without[:half] > t).mean(), 1e-9) for t in places]
    place = places[int(np.argmax(gains))]
    hits, false = (int((values[half:] > place).sum()) for values in (with_record, without))
    runs = len(without) - half
    low, high = beta.ppf(0.0005, hits, runs - hits + 1), beta.ppf(0.9995, false + 1, runs - false)
    return float(np.log(max(low - delta, 1e-12) / high))


@pytest.mark.slow
@pytest.mark.parametrize(("broken", "caught"), [(1.0, False), (2.0, True)])
def test_an_audit_finds_no_more_than_was_promised_and_a_wrong_bound(broken, caught, rng):
    """10⁵ paired runs of a small model, with and without the record that moves its sums most. With half of the noise
    that the bound asks for, the audit finds more than ε.
    """
    delta, model = 0.01, db.LogisticRegression("y", columns={"a": db.columns.YesNo(), "y": db.columns.YesNo()})
    privacy, ledger = db.Privacy(1.0, delta), Open()
    mechanism = model.mechanism()
    mechanism.budget_parts = (1.0,)
    anchor = np.array([-20.0, 0.0])  # where an event is most surprising
    record = summed_records(mechanism, anchor, np.array([[1.0, 1.0]]), 0) / largest_norm(mechanism.size(0))
    assert np.linalg.norm(record) > 0.9
    prior = db.Posterior.of_prior(model.structure)
    release = released(
        model.structure, mechanism, prior, np.empty((0, 2)), privacy, ledger=ledger, model="", site="", data_set=""
    )
    scale = largest_norm(mechanism.size(0)) * broken / release.variance**0.5
    assert ledger.last.mu * broken == pytest.approx(scale, rel=1e-9)
    noise = discrete_gaussian(release.variance, 2 * 100_000) / release.variance**0.5
    # The best test looks along the record, where the noise of all numbers adds up to one of the same size.
    without, with_record = np.split(noise, 2)
    found = audited(without, with_record + scale * np.linalg.norm(record), delta)
    assert (found > 1.0) == caught
    assert found > 0.6, "a tight bound: the audit comes near it"
