"""Private merges: what they estimate, what their intervals contain, and what they refuse."""

import numpy as np
import pytest
from scipy.stats import nbinom, poisson

import decbayes as db
from decbayes.errors import InvalidFile, NotPrivate
from decbayes.models.regressions.private.bounded_scores import CountScores, RealScores, clipped_square
from decbayes.privacy import releasing, summed

COLUMNS = {"a": db.columns.Gaussian(0, 1), "b": db.columns.YesNo()}
TRUTH = np.array([0.4, 0.5, -0.6])


class Open:
    def spend(self, spending):
        pass


@pytest.fixture
def quick_noise(monkeypatch):
    """The same noise from a seeded generator: the sampler has tests of its own."""
    random = np.random.default_rng(5)
    monkeypatch.setattr(
        releasing,
        "discrete_gaussian",
        lambda variance, size: np.rint(random.normal(0, variance**0.5, size)).astype(int),
    )


def made(kind, rows, rng):
    """A model and rows with known coefficients."""
    a, b = rng.normal(size=rows).clip(-3, 3), rng.integers(2, size=rows)
    line = TRUTH[0] + TRUTH[1] * a + TRUTH[2] * b
    if kind == "linear":
        model = db.LinearRegression("y", columns={**COLUMNS, "y": db.columns.Gaussian(0, 1)})
        return model, np.column_stack([a, b, line + 0.7 * rng.normal(size=rows)])
    if kind == "logistic":
        model = db.LogisticRegression("y", columns={**COLUMNS, "y": db.columns.YesNo()})
        return model, np.column_stack([a, b, rng.random(rows) < 1 / (1 + np.exp(-line))])
    if kind == "survival":
        time = rng.exponential(np.exp(1.5 - line))  # longer than most are followed up
        ended = rng.uniform(0.5, 3.0, rows)
        columns = {**COLUMNS, "t": db.columns.Gaussian(1, 1), "y": db.columns.YesNo()}
        model = db.SurvivalRegression("y", columns=columns, terms=["a", "b"], time="t", cuts=[1.0])
        return model, np.column_stack([a, b, np.minimum(time, ended), time <= ended])
    columns = {**COLUMNS, "y": db.columns.Poisson(mean=2.0)}
    if kind == "poisson":
        return db.PoissonRegression("y", columns=columns), np.column_stack([a, b, rng.poisson(np.exp(line))])
    model = db.NegativeBinomialRegression("y", columns=columns, dispersion=2.0)
    return model, np.column_stack([a, b, rng.poisson(np.exp(line) * rng.gamma(2.0, 0.5, rows))])


def all_rounds(model, shards, privacy):
    anchor, releases = db.Posterior.of_prior(model.structure), []
    for _ in range(model.mechanism().rounds):
        sent = [model.release(anchor, rows, privacy, ledger=Open(), site=str(n)) for n, rows in enumerate(shards)]
        releases += [summed(sent)] if privacy.noise == "shared" else sent
        anchor = db.private_merge(model.structure, releases)
    return anchor, releases


KINDS = ["linear", "logistic", "poisson", "negative binomial", "survival"]


@pytest.mark.parametrize("kind", KINDS)
def test_with_hardly_any_noise_it_is_the_fit_of_all_rows(kind, quick_noise, rng):
    """At ε = 100 rounds of Newton's steps end near the ordinary posterior: clipping has moved no expectation."""
    model, points = made(kind, 20_000, rng)
    merged, _ = all_rounds(model, np.split(points, 2), db.Privacy(100.0, 1e-3))
    exact = model.coefficients(model.fit(points).posterior)
    for row, reference in zip(model.coefficients(merged.posterior), exact, strict=True):
        assert abs(row["mean"] - reference["mean"]) < 1.5 * reference["deviation"], row["term"]
        assert 0.95 < row["deviation"] / reference["deviation"] < 1.5
    assert 1.0 <= merged.price < 1.1
    assert merged.round == merged.rounds == 5


@pytest.mark.parametrize("noise", ["each", "shared"])
def test_intervals_contain_the_noise_and_say_so(noise, quick_noise, rng):
    """Over 12 data sets most 90 % intervals hold; the same intervals without the noise would not."""
    privacy = db.Privacy(1.0, 1e-6, noise=noise, sites=4 if noise == "shared" else 0)
    hold, narrow = [], []
    for _ in range(12):
        model, points = made("logistic", 4 * 1000, rng)
        merged, _ = all_rounds(model, np.split(points, 4), privacy)
        for row, truth in zip(model.coefficients(merged.posterior), TRUTH, strict=True):
            away = abs(row["mean"] - truth) / row["deviation"]
            hold.append(away < 1.645)
            narrow.append(away < 1.645 / merged.price)
    assert "noise of private releases" in merged.posterior.uncertainty
    assert 0.7 < np.mean(hold) <= 1.0  # 36 intervals at 0.9, four standard errors
    if noise == "each":
        assert np.mean(narrow) < np.mean(hold)
        assert merged.price > 1.2


def test_one_shared_noise_costs_less_than_one_of_each_site(quick_noise, rng):
    model, points = made("logistic", 8 * 500, rng)
    shards = np.split(points, 8)
    each, _ = all_rounds(model, shards, db.Privacy(1.0, 1e-6))
    shared, _ = all_rounds(model, shards, db.Privacy(1.0, 1e-6, noise="shared", sites=8))
    assert shared.price < 0.7 * each.price
    assert (shared.noise < each.noise).all()


def test_merges_do_not_depend_on_the_order_of_releases(quick_noise, rng):
    model, points = made("poisson", 900, rng)
    merged, releases = all_rounds(model, np.split(points, 3), db.Privacy(3.0, 1e-6))
    again = db.private_merge(model.structure, releases[::-1])
    assert again.posterior == merged.posterior


def test_what_was_promised_and_what_it_cost_are_remarks(quick_noise, rng):
    model, points = made("logistic", 200, rng)
    merged, _ = all_rounds(model, [points], db.Privacy(0.5, 1e-6, rows_per_person=2))
    kinds = [remark.kind for remark in merged.posterior.remarks]
    assert kinds == ["differential privacy", "much noise"]
    assert "ε = 0.5, δ = 1e-06 per person of up to 2 rows" in str(merged.posterior.remarks[0])


@pytest.mark.parametrize("dispersion", [np.inf, 0.5, 8.0])
def test_moments_of_clipped_counts_are_sums_over_all_counts(dispersion):
    scores, counts = CountScores(3.0, dispersion), np.arange(4000)
    for mean in (0.01, 0.7, 3.0, 40.0):
        density = poisson(mean) if np.isinf(dispersion) else nbinom(dispersion, dispersion / (dispersion + mean))
        chance = density.pmf(counts)
        low, high = max(mean - 3.3, 0.0), mean + 4.4
        clipped = counts.clip(low, high)
        expected = chance @ clipped
        found = scores.clipped_moments(np.array([mean]), np.array([low]), np.array([high]))
        assert found[0][0] == pytest.approx(expected, rel=1e-9, abs=1e-12)
        assert found[1][0] == pytest.approx(chance @ (clipped * (counts - mean)), rel=1e-7, abs=1e-9)


def test_the_variance_behind_clipped_squares_is_found_again(rng):
    draws = 0.6 * rng.normal(size=400_000)
    scores, deviation = RealScores(), 0.4
    squares = (draws / (scores.reach * deviation)).clip(-1, 1) ** 2
    assert scores.variance(float(squares.mean()), deviation) == pytest.approx(0.36, rel=0.02)
    assert clipped_square(1e-3) == pytest.approx(1.0, abs=1e-3)


def test_persons_with_more_rows_than_promised_are_refused(rng):
    model, points = made("logistic", 4, rng)
    prior = db.Posterior.of_prior(model.structure)
    privacy = db.Privacy(1.0, 1e-6, rows_per_person=2)
    with pytest.raises(db.errors.InvalidData, match="A person has 3 rows, and rows_per_person is 2"):
        model.release(prior, points, privacy, ledger=Open(), persons=["a", "a", "b", "a"])


def test_anchors_that_depend_on_data_are_refused(rng):
    model, points = made("logistic", 50, rng)
    privacy = db.Privacy(1.0, 1e-6)
    with pytest.raises(NotPrivate, match="holds what data have contributed"):
        model.release(model.fit(points).posterior, points, privacy, ledger=Open())
    with pytest.raises(NotPrivate, match="must be the prior of this model"):
        model.release(None, points, privacy, ledger=Open())


def test_releases_that_do_not_belong_together_are_refused(quick_noise, rng):
    model, points = made("logistic", 60, rng)
    privacy = db.Privacy(8.0, 1e-6)
    merged, releases = all_rounds(model, np.split(points, 2), privacy)
    with pytest.raises(NotPrivate, match="All 5 rounds are done"):
        model.release(merged, points, privacy, ledger=Open())
    with pytest.raises(NotPrivate, match="Every site takes part in every round"):
        db.private_merge(model.structure, releases[:-1])
    with pytest.raises(NotPrivate, match="has two releases of one site"):
        db.private_merge(model.structure, [*releases[:2], releases[0], releases[1]])
    prior = db.Posterior.of_prior(model.structure)
    others = [model.release(prior, points, privacy, ledger=Open(), site=name) for name in "01"]
    with pytest.raises(NotPrivate, match="at an anchor that those of earlier rounds do not imply"):
        db.private_merge(model.structure, [*others, *releases[2:]])
    with pytest.raises(NotPrivate, match="promise"):
        model.release(db.private_merge(model.structure, releases[:2]), points, db.Privacy(9.0, 1e-6), ledger=Open())
    with pytest.raises(NotPrivate, match="no releases"):
        db.private_merge(model.structure, [])


def test_shares_of_a_noise_are_neither_merged_nor_written(tmp_path, rng):
    model, points = made("logistic", 60, rng)
    privacy = db.Privacy(1.0, 1e-6, noise="shared", sites=3)
    share = model.release(db.Posterior.of_prior(model.structure), points, privacy, ledger=Open())
    with pytest.raises(NotPrivate, match="protects nobody by itself"):
        db.private_merge(model.structure, [share])
    with pytest.raises(NotPrivate, match="protects nobody by itself"):
        db.privacy.save_release(share, tmp_path / "a.release")


def test_files_hold_releases_to_the_bit_and_nothing_else_that_depends_on_data(tmp_path, rng):
    model, points = made("poisson", 123, rng)
    release = model.release(
        db.Posterior.of_prior(model.structure), points, db.Privacy(1.0, 1e-6), ledger=Open(), site="north"
    )
    path = tmp_path / "a.release"
    db.privacy.save_release(release, path)
    read = db.privacy.load_release(path)
    assert (read.values == release.values).all()
    assert (read.anchor == release.anchor).all()
    assert read.facts == release.facts
    assert b"123" not in path.read_bytes().replace(str(release.values.tolist()).replace(" ", "").encode(), b"").replace(
        release.ids[0].encode(), b""
    ).replace(str(release.variance).encode(), b"").replace(model.structure.fingerprint.encode(), b"")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("values", [0.5]),
        ("values", [2**60]),
        ("variance", "-3"),
        ("round", True),
        ("ids", []),
        ("privacy", {}),
        ("site", 1),
    ],
)
def test_releases_of_strangers_are_checked(name, value, tmp_path, rng):
    from decbayes import files

    model, points = made("logistic", 10, rng)
    prior = db.Posterior.of_prior(model.structure)
    release = model.release(prior, points, db.Privacy(1.0, 1e-6), ledger=Open())
    note = release.facts | {"anchor": release.anchor.tolist(), "values": release.values.tolist(), name: value}
    files.save(prior, tmp_path / "bad.release", note={"release": note})
    with pytest.raises(InvalidFile, match="cannot be read"):
        db.privacy.load_release(tmp_path / "bad.release")


def test_plans_are_refused_where_noise_drowns_everything():
    model = made("logistic", 2, np.random.default_rng(0))[0]
    privacy = db.Privacy(1.0, 1e-6)
    with pytest.raises(NotPrivate, match=r"Useless here: Q = 3\.7.* 536 rows per site would do, 2,678 would do well"):
        db.private_plan(model, sites=3, rows=200, privacy=privacy)
    doubtful = db.private_plan(model, sites=3, rows=2_677, privacy=privacy)
    fine = db.private_plan(model, sites=3, rows=2_678, privacy=privacy)
    assert [len(plan.remarks) for plan in (doubtful, fine)] == [1, 0]
    shared = db.Privacy(1.0, 1e-6, noise="shared", sites=11)
    assert db.private_plan(model, sites=11, rows=2_678, privacy=shared).quality == pytest.approx(10 * fine.quality)


@pytest.mark.parametrize("dispersion", [np.inf, 0.5, 8.0])
def test_slopes_of_counts_are_those_of_their_likelihood_less_what_clips_take(dispersion):
    """The derivative by log μ is (y − μ) / (1 + μ / d): over all counts its clipped version has mean 0, and its
    covariance with the derivative is the weight."""
    scores, counts = CountScores(3.0, dispersion), np.arange(3000)
    for mean in (0.5, 2.0, 3.5):
        density = poisson(mean) if np.isinf(dispersion) else nbinom(dispersion, dispersion / (dispersion + mean))
        chance, derivative = density.pmf(counts), (counts - mean) / (1.0 + mean / dispersion)
        found = scores.slopes(counts.astype(float), np.full(3000, np.log(mean)), np.arange(3000), 1.0)
        most = 2.0 * np.sqrt(3.0 / (1.0 + 3.0 / dispersion))
        clipped = derivative.clip(-most, most)
        clipped = np.maximum(clipped, -mean / (1.0 + mean / dispersion))
        np.testing.assert_allclose(found[0], clipped - chance @ clipped, atol=1e-6)
        np.testing.assert_allclose(found[1], chance @ (clipped * derivative), rtol=1e-6)
