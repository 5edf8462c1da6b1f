"""Private releases of clusters in one and two dimensions: a histogram, what is found again, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest

import decbayes as db
from decbayes.errors import NotCalibrated, NotPrivate
from decbayes.models.mixtures.histogram import SIDE, CellGrid
from decbayes.page.describing import described
from decbayes.privacy import releasing
from decbayes.privacy.mechanism import Total
from decbayes.privacy.releasing import largest_norm, summed_records

PLANE = db.GaussianMixture(3, 2, covariance="full", prior_scale=0.25, prior_strength=0.0625)  # a box from -6 to 6
TABLE = db.LatentClasses(2, columns={"age": db.columns.Gaussian(50, 20), "dose": db.columns.Gaussian(0, 1)})
MODELS = {
    "plane": PLANE,
    "line": db.GaussianMixture(2, 1, variance=1.0, prior_variance=9.0),
    "diagonal": db.GaussianMixture(2, 2, covariance="diagonal", prior_mean=[3.0, 80.0], prior_strength=0.1),
    "spherical": db.GaussianMixture(2, 2, covariance="spherical", prior_strength=0.1),
    "table": TABLE,
}
CENTRES = np.array([[-3.0, -2.0], [3.0, -1.0], [0.0, 3.5]])


class Open:
    def spend(self, spending):
        pass


def clusters(rows, rng):
    return CENTRES[rng.choice(3, rows, p=[0.5, 0.3, 0.2])] + 0.6 * rng.normal(size=(rows, 2))


@pytest.mark.parametrize("name", MODELS)
def test_a_row_is_in_one_cell_or_none_wherever_it_is(name, rng):
    """Rows of all sizes, at the box's corners and beyond: at most one mark of one, and no sum differs by more."""
    mechanism = MODELS[name].mechanism()
    low, high = mechanism.low, mechanism.high
    edges = np.linspace(low, high, 2 * SIDE + 1)
    wild = low + (high - low) * rng.standard_cauchy((200, len(low))) * 10.0 ** rng.uniform(-2, 6, (200, 1))
    rows = np.concatenate([edges, np.nextafter(edges, -np.inf), np.nextafter(edges, np.inf), wild])
    marks = mechanism.record_statistics(mechanism.start(), rows, 0)
    assert marks.shape == (len(rows), mechanism.size(0))
    assert set(np.unique(marks)) == {0.0, 1.0}
    inside = ((rows >= low) & (rows < high)).all(axis=1)
    np.testing.assert_array_equal(marks.sum(axis=1), inside)
    whole, rest, alone = (summed_records(mechanism, mechanism.start(), some, 0) for some in (rows, rows[3:], rows[:3]))
    assert (whole - rest == alone).all()
    for row in rows:
        steps = summed_records(mechanism, mechanism.start(), row[None], 0)
        assert sum(int(step) ** 2 for step in steps) <= largest_norm(mechanism.size(0)) ** 2


def test_cells_are_those_of_numpy(rng):
    mechanism, points = PLANE.mechanism(), clusters(500, rng)
    np.testing.assert_allclose([mechanism.low, mechanism.high], [[-6.0, -6.0], [6.0, 6.0]])
    edges = np.linspace(-6.0, 6.0, SIDE + 1)
    expected = np.histogram2d(*points.T, [edges, edges])[0]
    np.testing.assert_array_equal(
        mechanism.record_statistics(mechanism.start(), points, 0).sum(axis=0), expected.ravel()
    )


def test_a_box_of_a_table_reaches_three_units_from_the_centre():
    mechanism = TABLE.mechanism()
    np.testing.assert_allclose([mechanism.low, mechanism.high], [[-10.0, -3.0], [110.0, 3.0]])


@pytest.mark.parametrize("noise", ["each", "shared"])
def test_a_noisy_histogram_finds_clusters_and_their_number(noise, monkeypatch, rng):
    random = np.random.default_rng(5)
    monkeypatch.setattr(
        releasing,
        "discrete_gaussian",
        lambda variance, size: np.rint(random.normal(0, variance**0.5, size)).astype(int),
    )
    points, held_out = clusters(3000, rng), clusters(2000, rng)
    shared = {"noise": "shared", "sites": 3} if noise == "shared" else {}
    privacy, prior = db.Privacy(1.0, 1e-6, **shared), db.Posterior.of_prior(PLANE.structure)
    releases = [
        PLANE.release(prior, rows, privacy, ledger=Open(), site=str(site))
        for site, rows in enumerate(np.split(points, 3))
    ]
    releases = [releasing.summed(releases)] if shared else releases
    merged = db.private_merge(PLANE.structure, releases)
    assert (merged.round, merged.rounds) == (1, 1)
    found = merged.posterior.mean("components")
    order = [int(np.argmin(((found - centre) ** 2).sum(axis=1))) for centre in CENTRES]
    assert np.abs(found[order] - CENTRES).max() < 0.25
    assert (merged.noise < 0.25).all()
    alone = db.GaussianMixture(1, 2, covariance="full", prior_scale=0.25, prior_strength=0.0625)
    worst = alone.score(alone.fit(points, rng=0).posterior, held_out)
    best = PLANE.score(PLANE.fit(points, rng=0).posterior, held_out)
    assert (PLANE.score(merged.posterior, held_out) - worst) / (best - worst) > 0.93
    assert [remark.kind for remark in merged.posterior.remarks] == ["differential privacy", "no intervals"]
    if noise == "shared":
        found = db.private_merge(PLANE.structure, releases, components="auto").posterior
        assert len(found.mean("weights")) == 3
    assert len(db.private_merge(PLANE.structure, releases, components=2).posterior.mean("weights")) == 2


def test_variances_are_those_of_rows_not_of_cells(rng):
    """A narrow cluster in wide cells, without noise: its deviation is found, not that of a cell."""
    mechanism = PLANE.mechanism()
    points = 0.4 * rng.normal(size=(20_000, 2)) + 0.1
    counts = mechanism.record_statistics(mechanism.start(), points, 0).sum(axis=0)
    mix = CellGrid(mechanism, counts).fit(1)
    precision = db.Posterior.from_natural(PLANE.structure.with_components(1), mix.natural).mean(
        "components", "precision"
    )
    np.testing.assert_allclose(np.sqrt(np.diag(np.linalg.inv(precision[0]))), 0.4, rtol=0.02)
    assert mix.background < 0.01


def test_noise_of_means_is_what_repeated_noise_makes_of_them(rng):
    """With memberships as given, a mean over noisy cells varies as stated."""
    mechanism = PLANE.mechanism()
    counts = mechanism.record_statistics(mechanism.start(), clusters(3000, rng), 0).sum(axis=0) + 1.0
    grid = CellGrid(mechanism, counts)
    mix = grid.fit(3)
    inner = len(grid.places) // len(grid.counts)
    shares = mix.shares.reshape(len(grid.counts), inner, -1).sum(axis=1) / grid.counts[:, None]
    found = []
    for _ in range(2000):
        noisy = shares * (grid.counts + 2.0 * rng.normal(size=len(grid.counts)))[:, None]
        found.append((noisy.T @ grid.middles) / noisy.sum(axis=0)[:, None])
    np.testing.assert_allclose(grid.noise(mix, 2.0), np.std(found, axis=0), rtol=0.1)


def test_empty_and_hopeless_histograms_still_give_a_posterior():
    mechanism = PLANE.mechanism()
    noise = np.random.default_rng(0).normal(0, 5, mechanism.cells)
    for values in (noise, -np.abs(noise), np.zeros(mechanism.cells)):
        estimate = mechanism.estimate([Total(values, 5.0, mechanism.start(), 1)], 0.05)
        assert np.isfinite(estimate.posterior.mean("components")).all()
        assert estimate.quality < mechanism.useless or values is noise


def without_intervals():
    """A merge of one noisy histogram of a table with one column."""
    model = db.LatentClasses(2, columns={"age": db.columns.Gaussian(50, 20)})
    rng = np.random.default_rng(1)
    ages = np.where(rng.random((2000, 1)) < 0.5, 30.0, 80.0) + 5 * rng.normal(size=(2000, 1))
    prior, privacy = db.Posterior.of_prior(model.structure), db.Privacy(3.0, 1e-6)
    return model, db.private_merge(model.structure, [model.release(prior, ages, privacy, ledger=Open())]).posterior


def test_no_interval_is_stated_that_would_not_hold(tmp_path):
    """Neither by the posterior nor by its profiles, also of a file; means are as before."""
    model, posterior = without_intervals()
    db.save(posterior, tmp_path / "merged.posterior")
    for each in (posterior, db.load(tmp_path / "merged.posterior")):
        assert each.means_only
        assert each.uncertainty == "not known: use the means only"
        assert np.isnan([each.interval("weights"), [each.deviation("weights")] * 2]).all()
        for row in [*each.summary(), *model.profiles(each)]:
            assert np.isnan(
                [value for name, value in row.items() if name in {"deviation", "lower", "low", "high"}]
            ).all()
        assert sorted(round(row["mean"], -1) for row in model.profiles(each)) == [30.0, 80.0]
    assert not db.Posterior.of_prior(model.structure).means_only
    page = described(model, posterior, None, []).posterior
    assert sorted(round(float(dict(row)["age"].split()[0]), -1) for row in page["rows"]) == [30.0, 80.0]


def refused_ways(model, posterior, tmp_path):
    """What would use deviations that mean nothing, by name."""
    rows = {"age": np.array([20.0, 30.0, 80.0, 90.0])}
    other = model.fit(rows, rng=0).posterior
    alone = db.GaussianMixture(2, 1, covariance="full", prior_strength=0.05)
    clusters = replace(alone.fit(np.array([[1.0], [2.0]]), rng=0).posterior, remarks=posterior.remarks)
    return {
        "merge": lambda: db.merge([posterior, other]),
        "merge of one": lambda: db.merge([posterior]),
        "robust merge": lambda: db.merge([other, posterior], robust=True),
        "product": lambda: db.merging.product([posterior, other]),
        "align": lambda: db.align([other, posterior]),
        "prior of a fit": lambda: model.fit(rows, prior=posterior, rng=0),
        "refine": lambda: db.refine(model, [rows, rows], [posterior, other], rng=0),
        "calibrate": lambda: db.calibrate(model, [rows], posterior),
        "draws": lambda: posterior.sample(10, 0),
        "draws for ArviZ": lambda: db.interop.to_arviz(posterior, draws=10, rng=0),
        "scikit-learn": lambda: db.interop.to_sklearn(clusters),
        "report": lambda: db.report(db.align([posterior]), tmp_path / "a.html"),
    }


def test_no_way_out_uses_deviations_that_mean_nothing(tmp_path):
    """Refused with one reason, in Python; the commands of these are `test_nothing_prints_an_interval…`."""
    model, posterior = without_intervals()
    for name, way in refused_ways(model, posterior, tmp_path).items():
        with pytest.raises(NotCalibrated, match="needs intervals"):
            print(name, way())
    assert not [*tmp_path.iterdir()]


def test_what_is_shown_of_means_alone_has_no_interval():
    _, posterior = without_intervals()
    shown = posterior._repr_html_()
    assert "nan" not in shown.lower()
    assert "Use the means only" in shown
    bars = [len(db.plot.components(each).axes[0].lines) for each in (posterior, replace(posterior, remarks=()))]
    assert bars[0] <= bars[1], "nothing that would be an interval is drawn"


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (db.GaussianMixture(2, 3, covariance="full"), "in 3 dimensions nearly all cells"),
        (db.LatentClasses(2, columns={name: db.columns.Gaussian(0, 1) for name in "abc"}), "in 3 dimensions"),
        (db.GaussianMixture("auto", 2, covariance="full", prior_strength=0.1), "State a number of clusters"),
        (db.GaussianMixture(2, 2, covariance="full"), "would be lost in its cells"),
        (db.GaussianMixture(2, 1, variance=1.0, prior_variance=100.0), "would be lost in its cells"),
    ],
)
def test_what_a_histogram_cannot_show_is_refused(model, reason):
    with pytest.raises(NotPrivate, match=reason):
        model.mechanism()


def test_a_plan_refuses_few_rows_and_says_how_many_would_do():
    privacy = db.Privacy(1.0, 1e-6)
    with pytest.raises(NotPrivate, match=r"Useless here: Q = 0\.49"):
        db.private_plan(PLANE, sites=5, rows=150, privacy=privacy)
    plan = db.private_plan(PLANE, sites=5, rows=5000, privacy=privacy)
    assert str(plan).startswith("Means would be released, without intervals (Q = ")
    assert plan.rounds == 1


def test_only_histograms_allow_another_number():
    model = db.BernoulliMixture(2, dimension=4)
    prior = db.Posterior.of_prior(model.structure)
    release = model.release(prior, np.ones((5, 4)), db.Privacy(1.0, 1e-6), ledger=Open())
    for number in (3, "auto"):
        with pytest.raises(NotPrivate, match="depend on the number of components"):
            db.private_merge(model.structure, [release], components=number)


def test_rows_with_missing_values_are_refused():
    with pytest.raises(db.errors.InvalidData, match="complete rows"):
        TABLE.release(
            db.Posterior.of_prior(TABLE.structure), np.array([[50.0, np.nan]]), db.Privacy(1.0, 1e-6), ledger=Open()
        )
