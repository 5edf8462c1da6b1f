"""Halves of a site's own rows: where the model does not hold, sites are compared with how far these are apart."""

import pickle
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

import decbayes as db
from decbayes import files
from decbayes.calibration import refitted_halves
from decbayes.calibration.refitted_halves import Halved
from decbayes.errors import DecbayesError, InvalidPosterior
from decbayes.merging.reading import Chance, Spread, _halves, widened
from decbayes.posterior import unchecked
from decbayes.views import view_of

LINEAR = db.LinearRegression("y", columns={"x": "real", "z": "real", "y": "real"})
CLUSTERS = db.GaussianMixture(2, 2, covariance="diagonal")
POINTS_ALIKE = db.Posterior.of_prior(CLUSTERS.structure)


def unequal_noise(rng, rows, effect=0.5):
    """Heavy tails, and noise that is larger far from the mean of x: no linear regression."""
    x, z = rng.normal(size=(2, rows))
    return np.column_stack([x, z, effect * x + np.exp(0.5 * np.abs(x)) * rng.standard_t(4, size=rows)])


def stated(model, shards, fits):
    return [db.checking.with_halves(model, fit, shard) for fit, shard in zip(fits, shards, strict=True)]


def probability(posteriors, **options):
    (compared,) = db.checking.heterogeneity(db.align(posteriors), **options).values()
    return compared.probability


def both(shards):
    """p of all coefficients: with and without what sites say of halves."""
    fits = [LINEAR.fit(shard).posterior for shard in shards]
    return probability(stated(LINEAR, shards, fits))[0], probability(fits)[0]


def test_random_parts_of_one_table_differ_as_often_as_they_should():
    equal = [both(np.array_split(unequal_noise(np.random.default_rng(seed), 600), 8)) for seed in range(25)]
    ours, plain = np.mean(np.array(equal) < 0.05, axis=0)
    assert plain > 0.3
    assert ours < 0.2  # 5 % of 25 sets, and three standard errors


def test_sites_of_such_a_table_that_differ_are_found():
    found = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        found.append(both([unequal_noise(rng, 200, 1.2 if site < 3 else 0.2) for site in range(8)])[0])
    assert np.mean(np.array(found) < 0.05) > 0.8


def test_where_the_model_holds_halves_are_as_far_apart_as_it_expects(rng):
    rows = [rng.normal(size=(300, 3)) for _ in range(12)]
    of_rows = [one.halves for one in stated(LINEAR, rows, [LINEAR.fit(shard).posterior for shard in rows])]
    assert np.shape(of_rows) == (12, 2 + 3)
    np.testing.assert_allclose(np.mean(of_rows, axis=0), 1.0, atol=0.1)
    points = [rng.normal(size=(200, 2)) + 8.0 * rng.integers(2, size=(200, 1)) for _ in range(4)]
    of_fits = stated(CLUSTERS, points, [fit.posterior for fit in CLUSTERS.fit_many(points, rng=rng)])
    # 32 halves of 8 degrees of freedom. With n rows, and k = 5 times as many drawn from each fit, the difference of a
    # fit of m = n / 2 rows varies by 1/m − 1/n + 1/(k n) + 1/(k m) per row, a third of that of two sites: 1.6/3.
    of_rows, expected = np.mean([one.halves for one in of_fits], axis=0)
    assert 0.4 < expected < 0.667
    assert 0.75 < of_rows / expected < 1.3


def test_a_persons_rows_stay_in_one_half(rng):
    rows = np.repeat(rng.normal(size=(100, 3)), 4, axis=0)
    posterior, persons = LINEAR.fit(rows).posterior, np.repeat(np.arange(100), 4)
    by_person, by_row = (db.checking.with_halves(LINEAR, posterior, rows, persons=who) for who in (persons, None))
    assert 3.0 < np.divide(by_person.halves[0], by_row.halves[0]) < 5.0


def test_counts_that_vary_more_than_the_model_allows_have_halves_that_do(rng):
    x = rng.normal(size=300)
    rows = np.column_stack([x, rng.poisson(np.exp(0.3 * x) * rng.gamma(0.5, 2.0, size=300))])
    model = db.PoissonRegression("y", columns={"x": "real", "y": "count"})
    said = db.checking.with_halves(model, model.fit_site(rows).posterior, rows)
    assert [remark.kind for remark in said.remarks] == ["overdispersion"]
    assert min(said.halves[0], *said.halves[2:]) > 2.0


def noisier_far_from_zero(rng, rows):
    x, z = rng.normal(size=(2, rows))
    return np.column_stack([x, z, 0.5 * x + np.abs(x) * rng.normal(size=rows)])


def test_intervals_that_are_too_narrow_are_not_called_exact_and_sites_are_still_compared(tmp_path):
    """The slope of x varies √3 times as much as the model says, which its intervals show."""
    rng, missed = np.random.default_rng(6), []
    for _ in range(60):
        rows = noisier_far_from_zero(rng, 200)
        slope = LINEAR.coefficients(LINEAR.fit(rows).posterior)[1]
        missed.append(not slope["low"] < 0.5 < slope["high"])
    assert np.mean(missed) > 0.2  # 10 % if they were right
    shards = [noisier_far_from_zero(rng, 200) for _ in range(5)]
    fits = stated(LINEAR, shards, [LINEAR.fit(shard).posterior for shard in shards])
    assert [[remark.kind for remark in fit.remarks] for fit in fits] == [["uneven noise"]] * 5
    alignment = db.align(fits)
    view = view_of(LINEAR.structure)
    why = "the noise is not what the model assumes"
    assert view.uncertainty(alignment.merged(), fits) == f"exact if the model held, but {why}"
    assert view.undecided(alignment) == ""
    assert view.differences(alignment)
    db.report(alignment, tmp_path / "report.html")
    assert f"I² and τ² are left out: {why}" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize("noise", ["normal", "skewed"])
def test_noise_that_is_the_same_everywhere_is_not_remarked_on(noise):
    rng, said = np.random.default_rng(7), 0
    for _ in range(100):
        x, z, e = rng.normal(size=(3, 200))
        rows = np.column_stack([x, z, x + (e if noise == "normal" else np.exp(e))])
        said += bool(db.checking.with_halves(LINEAR, LINEAR.fit(rows).posterior, rows).remarks)
    assert said <= 1


def test_noise_that_grows_with_a_column_is_also_seen_beside_many_others():
    """A fit of 31 coefficients makes the residuals of 150 rows smaller, and what chance does to them as well."""
    model = db.LinearRegression("y", columns=dict.fromkeys([*(f"x{number}" for number in range(30)), "y"], "real"))
    rng, said = np.random.default_rng(8), 0
    for _ in range(30):
        x, e = rng.normal(size=(150, 30)), rng.normal(size=150)
        rows = np.column_stack([x, x[:, 0] ** 2 * e])
        said += bool(db.checking.with_halves(model, model.fit(rows).posterior, rows).remarks)
    assert said > 0


def test_clusters_that_are_none_are_further_apart():
    """Random parts of one table in which no two Gaussians lie."""
    rng = np.random.default_rng(4)
    shards = np.array_split(rng.standard_t(2, size=(450, 2)), 3)
    fits = [fit.posterior for fit in CLUSTERS.fit_many(shards, rng=rng)]
    ours, plain = (probability(sites, worlds=4) for sites in (stated(CLUSTERS, shards, fits), fits))
    assert np.nanmin(plain) < 0.05
    assert np.nanmin(ours) > 0.05


def test_rounds_keep_what_the_first_fits_said():
    shards = np.array_split(unequal_noise(np.random.default_rng(5), 600), 8)
    fits = stated(LINEAR, shards, [LINEAR.fit(shard).posterior for shard in shards])
    refined = db.refine(LINEAR, shards, fits, rounds=1).alignment
    assert [site.halves for site in refined.posteriors] == [site.halves for site in fits]
    (after,) = db.checking.heterogeneity(refined).values()
    np.testing.assert_allclose(after.probability, probability(fits))


def test_of_many_rows_a_sample_is_fitted(monkeypatch, rng):
    points = rng.normal(size=(400, 2)) + 8.0 * rng.integers(2, size=(400, 1))
    sizes = []
    monkeypatch.setattr(refitted_halves, "MOST_ROWS", 100)
    monkeypatch.setattr(db.GaussianMixture, "taken", lambda self, data, rows: sizes.append(len(rows)) or data[rows])
    said = db.checking.with_halves(CLUSTERS, CLUSTERS.fit(points, rng=rng).posterior, points)
    # The sample and 8 halves of 8 degrees of freedom each; the same of rows drawn from its fit.
    assert (len(said.halves), sizes) == (2, [100, *8 * [50], 100, *8 * [50]])


def test_of_long_sequences_those_of_twenty_persons_are_compared(monkeypatch, rng):
    model = db.HiddenMarkov(2, columns={"x": "real"}, ascent=db.Ascent(restarts=1))
    sequences, sizes, taken = [rng.normal(size=(10, 1)) for _ in range(30)], [], db.HiddenMarkov.taken
    monkeypatch.setattr(_halves, "MOST_HALVES", 3)
    monkeypatch.setattr(refitted_halves, "MOST_ROWS", 100)
    monkeypatch.setattr(
        db.HiddenMarkov, "taken", lambda self, data, rows: sizes.append(len(rows)) or taken(self, data, rows)
    )
    assert len(db.checking.with_halves(model, model.fit(sequences, rng=rng).posterior, sequences).halves) == 2
    assert sizes == [20, 10, 10, 10] * 2


def test_a_half_that_ends_elsewhere_counts_for_four_times_the_median(monkeypatch):
    apart = iter([1.0, 1.0, 50.0])
    monkeypatch.setattr(Halved, "spread", lambda *_: Spread(np.array([60.0 * next(apart)]), np.array([60.0])))
    np.testing.assert_allclose(Halved(CLUSTERS, None, []).apart(POINTS_ALIKE, None), (1.0 + 1.0 + 4.0) / 3.0)


def test_halves_are_no_part_of_the_value_and_travel_in_files(tmp_path, rng):
    rows = rng.normal(size=(60, 3))
    posterior = LINEAR.fit(rows).posterior
    said = db.checking.with_halves(LINEAR, posterior, rows)
    assert (said, said.digest, hash(said)) == (posterior, posterior.digest, hash(posterior))
    db.save(said, tmp_path / "a.posterior", data=rows)
    for again in (
        db.load(tmp_path / "a.posterior"),
        pickle.loads(pickle.dumps(said)),
        said.lessened(said.contribution),
    ):
        assert again.halves == said.halves != ()
    assert db.merge([said, LINEAR.fit(rows[:30]).posterior]).halves == ()


@pytest.mark.parametrize("halves", [[float("nan")], [-1.0], [1e300], ["1"], [True], [[1.0]], [1.0] * 10_000])
def test_other_values_are_refused_in_memory_and_in_files(halves, rng):
    good = LINEAR.fit(rng.normal(size=(60, 3))).posterior
    with pytest.raises(InvalidPosterior, match="halves must be numbers"):
        db.Posterior(good.structure, good.contribution, halves=halves)
    with pytest.raises((DecbayesError, ValueError)):
        files.from_bytes(files.to_bytes(unchecked(good.structure, good.contribution, halves=halves)))


def test_a_site_that_claims_to_vary_wildly_hides_little():
    chance = Chance(np.ones(2), np.full(2, 20.0), np.full(2, 100.0))
    sites = [replace(POINTS_ALIKE, halves=halves) for halves in [(1.0, 1.0)] * 5 + [(1e6, 1.0)]]
    wider = widened(chance, sites, 8.0)
    np.testing.assert_allclose(wider.mean, (5 * 1.0 + 4.0) / 6)  # five sites say 1, one counts for 4
    alone = [replace(POINTS_ALIKE, halves=(1.0, 0.0))] * 3  # no rows that were drawn are apart
    np.testing.assert_allclose(widened(chance, alone, 8.0).mean, chance.mean)
    earlier = [replace(POINTS_ALIKE, halves=(9.0, 9.0, 9.0))] * 3  # one value per half, as files of earlier versions
    assert widened(chance, earlier, 8.0) is chance


def test_equal_sites_are_apart_as_halves_are_relative_to_those_of_drawn_rows():
    """Known as from both, and with more chance where sites vary unequally: a slot adds up few of them."""
    chance = Chance(np.ones(2), np.array([20.0, 40.0]), np.full(2, 1e9))
    even, uneven = (
        widened(chance, [replace(POINTS_ALIKE, halves=(value, 1.5)) for value in values], 10.0)
        for values in ([3.0] * 10, [1.0, 5.0] * 5)
    )
    np.testing.assert_allclose((even.mean, even.shape), (np.full(2, 2.0), chance.shape))
    # 8 halves of 10 degrees of freedom make values vary by 2 / 80 of their squares.
    np.testing.assert_allclose(even.degrees, 20.0 / (2.0 / 80.0 + 2.0 / 80.0), rtol=1e-6)
    # The variance of ten values of 1 and 5 is 40/9.
    relative = 40.0 / 81.0
    np.testing.assert_allclose(uneven.degrees, 20.0 / (relative + 2.0 / 80.0), rtol=1e-6)
    more = relative - 2.0 / 80.0
    np.testing.assert_allclose(1.0 / uneven.shape, (1.0 + more) / chance.shape + more / 9.0)


@pytest.mark.parametrize("rows", [15, 19])
def test_few_rows_say_nothing(rows, rng):
    data = rng.normal(size=(rows, 3))
    assert db.checking.with_halves(LINEAR, LINEAR.fit(data).posterior, data).halves == ()


def test_models_whose_sites_are_not_compared_say_nothing(rng):
    counts = rng.poisson(1.0, size=(60, 8))
    model = db.LatentDirichletAllocation(2, list("abcdefgh"))
    posterior = model.fit(counts, rng=0).posterior
    assert db.checking.with_halves(model, posterior, counts) is posterior
    assert (
        db.checking.with_halves(CLUSTERS, said := CLUSTERS.fit(counts[:, :2], rng=0).posterior, counts[:, :2]) == said
    )


def test_a_fit_without_errors_says_nothing():
    rows = np.zeros((40, 3))
    assert db.checking.with_halves(LINEAR, LINEAR.fit(rows).posterior, rows).halves == ()


def test_wide_tables_need_no_matrix_of_each_row(rng):
    """Scores of a row change along that row only; a matrix for each of these rows has 2.6 GB."""
    names = [f"x{number}" for number in range(400)]
    model = db.LinearRegression("y", columns=dict.fromkeys([*names, "y"], "real"))
    rows = rng.normal(size=(2000, 401))
    posterior = model.fit(rows).posterior
    tracemalloc.start()
    said = db.checking.with_halves(model, posterior, rows)
    assert tracemalloc.get_traced_memory()[1] < 3e8
    tracemalloc.stop()
    np.testing.assert_allclose(said.halves[0], 1.0, atol=0.1)


def test_small_sites_that_are_the_same_differ_as_often_as_they_should():
    """The noise of a small site's fit is too small; the comparison of sites allows for that already."""
    sites = [[np.random.default_rng((seed, site)).normal(size=(20, 3)) for site in range(6)] for seed in range(60)]
    assert 0.4 < np.mean([both(shards)[0] for shards in sites]) < 0.6


def test_p_is_said_to_hold_without_the_model_only_if_all_sites_state_halves(rng):
    shards = [rng.normal(size=(60, 3)) for _ in range(4)]
    fits = [LINEAR.fit(shard).posterior for shard in shards]
    said = stated(LINEAR, shards, fits)
    empty = db.Posterior.of_prior(LINEAR.structure)
    for sites, condition in (
        (said, ""),
        ([*said, empty], ""),
        ([*said[:3], fits[3]], " and the model held"),
        (fits, " and the model held"),
    ):
        (compared,) = db.checking.heterogeneity(db.align(sites)).values()
        assert compared.provided() == f"if the sites were the same{condition}"


def test_halves_do_not_leave_if_the_rules_hide_persons(tmp_path):
    points = np.append(np.random.default_rng(0).normal(size=100), [50.0, 51.0])
    model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=1000.0)
    said = db.checking.with_halves(model, model.fit(points, rng=1).posterior, points)
    db.save(said, tmp_path / "a.posterior", data=points)
    assert said.halves != () == db.load(tmp_path / "a.posterior").halves


def test_sites_are_compared_where_nobody_registered_the_model(rng):
    sites = [LINEAR.fit(rng.normal(size=(60, 3))).posterior for _ in range(4)]
    structure = replace(LINEAR.structure, model={**LINEAR.structure.model, "name": "somebody's"})
    unknown = [db.Posterior(structure, site.contribution) for site in sites]
    np.testing.assert_allclose(probability(unknown), probability(sites))


@pytest.mark.parametrize("value", [0.0, 1e9])
def test_no_value_that_files_may_hold_makes_equal_sites_differ(rng, value):
    rows = [replace(LINEAR.fit(rng.normal(size=(60, 3))).posterior, halves=(value,) * 5) for _ in range(4)]
    assert probability(rows)[0] > 0.05
    points = [rng.normal(size=(60, 2)) + 8.0 * rng.integers(2, size=(60, 1)) for _ in range(3)]
    fits = [fit.posterior for fit in CLUSTERS.fit_many(points, rng=rng)]
    for halves in ((value, value), (value, 0.0), (0.0, value)):
        assert np.nanmin(probability([replace(fit, halves=halves) for fit in fits], worlds=2)) > 0.01
