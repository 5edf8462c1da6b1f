"""Bootstrap, jackknife, shares of topics, and what a calibrated posterior is in files, merges and other libraries."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from damage import unhashed
from scipy.sparse import csr_array

import decbayes as db
from decbayes.base.tensors import write_arrays
from decbayes.calibrated import Calibration
from decbayes.calibration import TopicShares, intervals, jackknifed, topic_shares
from decbayes.errors import InvalidFile, InvalidPosterior, NotCalibrated
from decbayes.files import from_bytes, to_bytes
from decbayes.updates.update import shift

TOPICS = db.LatentDirichletAllocation(2, tuple("abcdef"), 0.3, 0.5, ascent=db.Ascent(passes=400, tolerance=1e-7))
MEAN = db.models.GaussianMean(variance=1.0, prior_variance=1e6, dimension=1)


def documents(rng, count):
    topics = rng.dirichlet(np.full(6, 0.5), size=2)
    shares = rng.dirichlet([0.3, 0.3], size=count)
    return csr_array(rng.multinomial(20, shares @ topics).astype(float))


def wide(posterior, times, method="hand"):
    found = {}
    for name, family in posterior.structure.families.items():
        parts = family.quantities(family.deviation(posterior.natural[name]))
        found[name] = {quantity: times * part for quantity, part in parts.items()}
    return replace(posterior, calibration=Calibration(method, found))


@pytest.fixture
def mixture(rng):
    points = np.where(rng.random((80, 1)) < 0.3, -2.0, 1.0) + 0.5 * rng.standard_normal((80, 1))
    return db.GaussianMixture(2, 1, covariance="diagonal", prior_strength=0.05).fit(points, rng=rng).posterior


def test_a_bootstrap_of_an_exact_model_finds_the_deviation_of_a_mean(rng):
    points = 2.0 * rng.standard_normal((60, 1))
    posterior = MEAN.fit(points).posterior
    shards = [points[:20], points[20:]]

    def found(replicas, seed=0):
        return db.calibrate(MEAN, shards, posterior, method="bootstrap", replicas=replicas, seed=seed)

    # The data vary more than the model thinks; 200 replicas are good to 1/√400, three and a half times.
    assert found(200).deviation("mean") == pytest.approx(points.std() / np.sqrt(60), rel=0.18)
    assert found(4).uncertainty == "calibrated by bootstrap, 4 replicas, 2 sites"
    assert found(4) == found(4)
    assert found(4) != found(4, seed=1)


def test_topics_are_calibrated_by_a_bootstrap_of_documents(rng):
    counts = documents(rng, 40)
    posterior = TOPICS.fit(counts, rng=rng).posterior
    found = db.calibrate(TOPICS, [counts[:15], counts[15:]], posterior)
    assert found.uncertainty.startswith("calibrated by bootstrap, 15 replicas, 2 sites")
    assert (found.deviation("topics") >= posterior.deviation("topics")).all()
    assert (found.deviation("topics") > 1.05 * posterior.deviation("topics")).mean() > 0.3
    lower, upper = found.interval("topics")
    assert ((lower >= 0) & (upper <= 1)).all()


def test_replicas_of_a_bootstrap_have_converged(rng):
    points = rng.normal([[0.0], [2.0]] * 60)
    shards, model = np.array_split(points, 2), db.GaussianMixture(2, variance=1.0, prior_variance=4.0)
    posterior = model.fit(points, rng=0).posterior
    reached = intervals.replica(model, shards, posterior, 1, 0)
    drawn = [intervals.resampled(model, shard, 1, 0, site) for site, shard in enumerate(shards)]
    assert shift(reached, intervals.one_more_pass(model, drawn, reached)) < 0.02


def test_a_bootstrap_needs_rows(rng):
    posterior = MEAN.fit(np.zeros((3, 1))).posterior
    with pytest.raises(NotCalibrated, match="rows can be repeated"):
        db.calibrate(MEAN, [None], posterior, method="bootstrap")
    with pytest.raises(ValueError, match="method is"):
        db.calibrate(MEAN, [np.zeros((3, 1))], posterior, method="guess")


def test_where_a_model_has_no_formula_many_parameters_are_refused_in_one_line(rng):
    model = db.HiddenMarkov(states=23, columns={"a": "yes/no"})
    with pytest.raises(NotCalibrated, match=r"598 parameters are more than the 512 .* method='bootstrap'"):
        model.information(db.Posterior.of_prior(model.structure), None)


@pytest.mark.parametrize("prior", [0.1, "learn"])
def test_linear_response_is_refused_where_contributions_are_no_slope_of_a_bound(rng, prior):
    """∂c/∂E[T] is symmetric if c is a slope. α as one value does not."""
    model = db.LatentDirichletAllocation(2, tuple("abcdef"), prior)
    counts = rng.multinomial(30, [[0.4, 0.3, 0.2, 0.1, 0, 0], [0, 0.05, 0.05, 0.2, 0.3, 0.4]] * 10)
    posterior = model.fit(counts, rng=0).posterior
    if prior == "learn":
        with pytest.raises(NotCalibrated, match=r"maximises one bound .* method='bootstrap'"):
            model.information(posterior, counts)
    else:
        matrix = model.information(posterior, counts)
        assert np.array_equal(matrix, matrix.T)


def test_a_jackknife_of_equal_sites_is_the_spread_of_their_means(rng):
    """With a flat prior leaving out a site is leaving out its points: the textbook's standard error."""
    shards = [2.0 * rng.standard_normal((10, 1)) for _ in range(12)]
    found = jackknifed(db.align([MEAN.fit(shard).posterior for shard in shards]))
    expected = np.std([shard.mean() for shard in shards], ddof=1) / np.sqrt(12)
    assert found.deviation("mean") == pytest.approx(expected, rel=1e-3)
    assert found.uncertainty == "calibrated by jackknife over 12 sites"


def test_sites_too_small_to_fit_alone_are_found_out(rng):
    model = db.GaussianMixture(2, dimension=1, variance=0.25, prior_variance=4.0)
    points = rng.normal(np.array([-0.7, 0.7])[rng.integers(2, size=(200, 1))], 0.5)
    for sites, thin in ((2, False), (25, True), (1, False)):
        found = db.align([model.fit(part, rng=rng).posterior for part in np.array_split(points, sites)])
        assert (db.merging.thin(found, *found.structure.symmetry) is not None) == thin


def test_a_jackknife_of_few_or_tiny_sites_is_refused(rng):
    model = db.GaussianMixture(2, 1, variance=0.25, prior_variance=4.0, ascent=db.Ascent(restarts=0))
    points = np.where(rng.random((200, 1)) < 0.5, -1.5, 1.5) + 0.5 * rng.standard_normal((200, 1))
    with pytest.raises(NotCalibrated, match="5 sites or more"):
        jackknifed(db.align([model.fit(shard, rng=rng).posterior for shard in np.array_split(points, 3)]))
    with pytest.raises(NotCalibrated, match="Refine first"):
        jackknifed(db.align([model.fit(shard, rng=rng).posterior for shard in np.array_split(points, 50)]))
    assert jackknifed(db.align([model.fit(shard, rng=rng).posterior for shard in np.array_split(points, 8)]))


def test_shares_of_topics_count_documents_and_add_up(rng):
    counts = documents(rng, 30)
    posterior = TOPICS.fit(counts, rng=rng).posterior
    found = topic_shares(TOPICS, [counts[:7], counts[7:]], posterior)
    lengths = np.asarray(counts.sum(axis=1)).ravel()
    own = lengths[:, None] * TOPICS.assign(posterior, counts)
    share = own.sum(axis=0) / lengths.sum()
    np.testing.assert_allclose(found.mean, share)
    expected = np.sqrt(((own - share * lengths[:, None]) ** 2).sum(axis=0)) / lengths.sum()
    np.testing.assert_allclose(found.deviation, expected, rtol=1e-6)
    lower, upper = found.interval(0.9)
    np.testing.assert_allclose(upper - lower, 2 * 1.6448536 * expected, rtol=1e-6)
    whole = TopicShares.of(TOPICS, counts, posterior)
    np.testing.assert_allclose(whole.deviation, found.deviation, rtol=1e-6)


def test_a_calibrated_posterior_is_a_value_that_files_and_processes_keep(mixture):
    found = wide(mixture, 1.5)
    for copy in (from_bytes(to_bytes(found)), pickle.loads(pickle.dumps(found))):
        assert copy == found
        np.testing.assert_array_equal(copy.deviation("components"), found.deviation("components"))
        assert copy.uncertainty == "calibrated by hand"
    assert found != mixture
    assert found != wide(mixture, 1.6)
    assert found != wide(mixture, 1.5, "another hand")
    assert found.structure.fingerprint == mixture.structure.fingerprint
    np.testing.assert_allclose(found.deviation("weights"), 1.5 * mixture.deviation("weights"))
    narrow, broad = (np.subtract(*p.interval("components")) for p in (mixture, found))
    np.testing.assert_allclose(broad, 1.5 * narrow)


def test_a_merge_of_calibrated_posteriors_is_not_calibrated(mixture):
    merged = db.merge([wide(mixture, 1.5), wide(mixture, 2.0)], duplicates="allow")
    assert merged.uncertainty == "mean-field, not calibrated"
    assert merged == db.merge([mixture, mixture], duplicates="allow")


def test_deviations_that_do_not_fit_are_refused(mixture):
    found = wide(mixture, 1.5).calibration
    for change in (
        {"components": {"mean": np.ones((2, 1))}},
        {"components": {"mean": np.ones((3, 1)), "precision": np.ones((2, 1))}},
        {"components": {"mean": -np.ones((2, 1)), "precision": np.ones((2, 1))}},
        {"components": {"mean": np.full((2, 1), np.nan), "precision": np.ones((2, 1))}},
        {"others": {"value": np.ones(2)}},
    ):
        with pytest.raises(InvalidPosterior, match="calibration"):
            replace(mixture, calibration=Calibration("hand", {**found.deviations, **change}))
    for method in ("", "two\nlines", "x" * 300, None):
        with pytest.raises(InvalidPosterior, match="line of text"):
            Calibration(method, found.deviations)
    content = unhashed(to_bytes(mixture))
    with pytest.raises(InvalidFile):
        from_bytes(content.replace(b'"fingerprint', b'"calibration\\":\\"x\\",\\"fingerprint', 1))
    with pytest.raises(InvalidFile):
        from_bytes(write_arrays({"calibration/components/mean": np.ones(2)}))


def test_draws_for_arviz_have_the_calibrated_intervals(mixture, rng):
    pytest.importorskip("arviz_base", reason="needs the interop extra")
    from decbayes.interop import to_arviz

    found = wide(mixture, 1.6)
    group = to_arviz(found, draws=20_000, rng=rng)["posterior"]
    assert group.attrs["uncertainty"] == "calibrated by hand"
    for name, (lower, upper) in {
        "components_mean": found.interval("components"),
        "components_precision": found.interval("components", quantity="precision"),
        "weights": found.interval("weights"),
    }.items():
        values = group[name].values[0]
        # 20,000 draws: the share of a tail is good to 0.0015, six times; the map is linear between 61 quantiles.
        np.testing.assert_allclose((values < lower).mean(axis=0), 0.05, atol=0.01)
        np.testing.assert_allclose((values > upper).mean(axis=0), 0.05, atol=0.01)
    assert ((group["weights"].values > 0) & (group["weights"].values < 1)).all()
    assert (group["components_precision"].values > 0).all()
