"""Small parts of models, each against its definition: starts, joins, prevalence, gaps in sequences, chunks."""

from contextlib import nullcontext

import numpy as np
import pytest
from scipy.stats import norm, t
from zoo import ZOO

import decbayes as db
from decbayes.base.display import digits
from decbayes.errors import InvalidData
from decbayes.models.core.counts import as_counts
from decbayes.models.core.information import Tally
from decbayes.models.core.persons import number_of
from decbayes.models.core.points import MOST_ROUNDING, check_rare_values
from decbayes.models.core.settings import plain
from decbayes.models.features._starts import CONTRASTS, RECOMBINATIONS, split_levels, two_levels
from decbayes.models.features._state import annealed, converge, infer, row_bounds
from decbayes.models.likelihoods.real import real_likelihood
from decbayes.models.mixtures.moves import evidence, join_gains, joined, prior_of
from decbayes.models.regressions.messages.doubts import of_values
from decbayes.models.regressions.regression_mixture import quantile
from decbayes.models.regressions.survival import INTERVALS, LEAST, cuts_between
from decbayes.models.topics._fitting import random_first, seeded_words
from decbayes.models.topics.finding import find
from decbayes.models.topics.shares_by_period import Group, counted, interval


@pytest.mark.parametrize("contrast", CONTRASTS)
def test_contrasts_come_with_their_slopes(contrast):
    u, step = np.linspace(-3, 3, 13), 1e-6
    high, low = contrast(u + step)[0], contrast(u - step)[0]
    np.testing.assert_allclose(contrast(u)[1], (high - low) / (2 * step), atol=1e-6)


@pytest.mark.parametrize(("combine", "truth"), list(zip(RECOMBINATIONS, ("0111", "0010", "0001", "0110"), strict=True)))
def test_features_are_rebuilt_by_or_and_not_and_and_either(combine, truth):
    """Where assignments are certain; and what lies between stays a probability."""
    found = [combine(float(one), float(other)) for one in (0, 1) for other in (0, 1)]
    assert found == [float(value) for value in truth]
    grid = np.linspace(0, 1, 11)
    between = combine(grid[:, None], grid)
    assert ((between >= 0.0) & (between <= 1.0)).all()


def test_two_levels_of_a_column_are_its_two_means(rng):
    """Four columns of different shares and levels, each with noise; and complements where an offset must vanish."""
    upper = rng.random((60, 4)) < [0.2, 0.5, 0.8, 0.4]
    upper[:2] = [[False] * 4, [True] * 4]
    columns = np.where(upper, [5.0, 1.0, -2.0, 40.0], [1.0, -3.0, -9.0, 20.0]) + 0.1 * rng.normal(size=(60, 4))
    found, low, high = split_levels(columns)
    np.testing.assert_array_equal(found, upper)
    for column in range(4):
        assert low[column] == pytest.approx(columns[~upper[:, column], column].mean())
        assert high[column] == pytest.approx(columns[upper[:, column], column].mean())
    features = 3.0 * rng.normal(size=(4, 6))
    data = upper @ features
    signs = np.array([1.0, -1.0, 1.0, -1.0])
    components, loadings = signs * (upper - upper.mean(axis=0)), signs[:, None] * features
    np.testing.assert_array_equal(two_levels(components, loadings, data.mean(axis=0)), upper.T)


@pytest.mark.parametrize("name", ["known variance", "yes or no", "counts", "classes", "features"])
def test_what_is_to_be_predicted_is_there_and_not_told(name, rng):
    model, size = ZOO[name]
    data = np.asarray(db.simulate(model, size, rng=rng).data, dtype=float)
    posterior, nothing = db.Posterior.of_prior(model.structure), np.full(data.shape, np.nan)
    for given, held, wrong in (
        (data, nothing, "No value is held out"), (data, data, "both observed and held out"),
        (nothing, data[:1], "shape"),
    ):  # fmt: skip
        with pytest.raises(InvalidData, match=wrong):
            model.log_predictive(posterior, given, held)


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({}, ""), ({"totals": 100.5}, "hold 100.5, not the 100"), ({"totals": 100.5, "slack": 1.0}, ""),
        ({"totals": 98.0, "slack": 1.0}, "hold 98"), ({"observed": 99.0}, "of 99 observations, not the 100"),
        ({"parts": np.array([110.0, -10.0])}, "a part of it holds -10"),
        ({"differences": {"a": np.array([2.0])}}, "'a' holds"),
        ({"within": {"a": np.array([[61.0], [40.0]])}}, "1 more in a component"),
        ({"within": {"a": np.array([[60.0], [40.0]])}}, ""),
        ({"within": {"a": np.array([[60.0], [-1.0]])}}, "'a' holds -1"),
        ({"within": {"a": np.array([[61.0], [41.0]])}, "loose": 0.01}, ""),
        ({"within": {"a": np.array([[62.0], [40.0]])}, "loose": 0.01}, "1 more in a component"),
        ({"parts": np.empty(0), "within": {"a": np.array([[100.0, 0.0]])}}, ""),
        ({"parts": np.empty(0), "within": {"a": np.array([[101.0, 0.0]])}}, "1 more in a component"),
    ],
)  # fmt: skip
def test_contributions_contradict_what_they_cannot_hold(change, wrong):
    """A hundred units in two components of sixty and forty."""
    tally = Tally(**{"totals": 100.0, "parts": np.array([60.0, 40.0])} | change)
    found = tally.contradiction(100.0)
    assert found is None if not wrong else wrong in found
    counted = Tally(**{"totals": 100.0, "parts": np.array([60.0, 40.0]), "observed": 30.0} | change)
    if not wrong and "observed" not in change:
        within = counted.contradiction(100.0, 30.0)
        assert (within is None) == (not (change.get("loose") and "within" in change))


@pytest.mark.parametrize("name", ["known variance", "diagonal", "counts", "classes", "groups of regressions"])
def test_joining_components_gains_what_the_bound_does(name):
    """Σ A over all factors of the joined state and of a prior with one component less, by the families themselves."""
    model, size = ZOO[name]
    rng = np.random.default_rng(2)
    posterior = model.fit(db.simulate(model, size, rng=rng).data, rng=rng).posterior
    state, structure = dict(posterior.natural), model.structure
    count = len(state["weights"])
    np.testing.assert_allclose(evidence(structure, state).sum(), size, rtol=1e-6)

    def height(state):
        before = prior_of(structure, len(state["weights"]))
        return sum(
            family.log_partition(state[name]) - family.log_partition(before[name])
            for name, family in structure.families.items()
        )

    gains = join_gains(structure, state)
    for first in range(count):
        for second in range(first + 1, count):
            expected = height(joined(structure, state, first, second)) - height(state)
            assert gains[first, second] == gains[second, first] == pytest.approx(expected)
    assert join_gains(structure, prior_of(structure, 1)).shape == (1, 1)


@pytest.mark.parametrize("count", [2, 5, 40])
def test_intervals_of_prevalence_are_those_of_a_mean_and_half_a_document_each_way(count):
    shares = np.random.default_rng(1).dirichlet([1.0, 2.0, 0.5], size=count)
    group = Group(count, shares.sum(axis=0), (shares**2).sum(axis=0))
    mean, low, high = interval(group, 0.8)
    error = np.sqrt((shares.var(axis=0, ddof=1) + 0.25 / count) / count)
    np.testing.assert_allclose(mean, shares.mean(axis=0))
    np.testing.assert_allclose(low, np.maximum(mean - norm.ppf(0.9) * error, 0.0))
    np.testing.assert_allclose(high, np.minimum(mean + norm.ppf(0.9) * error, 1.0))


def test_one_document_alone_has_a_wide_interval():
    mean, low, high = interval(Group(1, np.array([0.7]), np.array([0.49])), 0.8)
    assert (mean[0], high[0]) == (0.7, 1.0)
    assert low[0] == pytest.approx(0.7 - norm.ppf(0.9) * 0.5)


def test_what_follows_a_sequence_is_not_what_it_lacks(rng):
    """Gaps in the last row are filled by `fill`, not by `next_rows`; one step after the end is the first."""
    model, _ = ZOO["states"]
    data = db.simulate(model, 3, rng=rng, length=12).data
    posterior = model.fit(data, rng=rng).posterior
    gaps = [sequence.copy() for sequence in data]
    gaps[1][-1, 0] = np.nan
    rows = model.next_rows(posterior, gaps)
    assert {(row["sequence"], row["step"]) for row in rows} == {(0, 1), (1, 1), (2, 1)}
    assert {row["step"] for row in model.next_rows(posterior, gaps, steps=2)} == {1, 2}
    with pytest.raises(ValueError, match="steps"):
        model.next_rows(posterior, gaps, steps=0)


def test_chunks_are_divided_one_by_one_without_loss():
    chunks = db.streams.Chunks(lambda: (np.arange(10.0 * n, 10.0 * n + 10)[:, None] for n in range(3)))
    kept, held = db.checking.hold_back(db.models.GaussianMean(variance=1.0), chunks, share=0.2)
    first, second = (np.concatenate([*part])[:, 0] for part in (kept, held))
    assert (len(first), len(second)) == (24, 6)
    np.testing.assert_array_equal(np.sort(np.concatenate([first, second])), np.arange(30.0))
    assert {int(value) // 10 for value in second} == {0, 1, 2}


def test_names_of_persons_are_numbers_that_no_nameless_row_has():
    numbers = {number_of(f"person {place}") for place in range(2000)}
    assert len(numbers) == 2000
    assert all(2**61 <= number < 2**62 for number in numbers)


def test_topics_are_found_by_the_share_of_words_that_they_own():
    """Of each word's occurrences the part in each topic, averaged over the words; by hand."""
    model = db.LatentDirichletAllocation(3, ("a", "b", "c", "d"), topic_prior=0.01)
    counts = np.array([[30.0, 10.0, 0.0, 5.0], [10.0, 30.0, 0.0, 5.0], [0.0, 0.0, 60.0, 5.0]])
    posterior = db.Posterior(model.structure, {"topics": counts})
    found = {row["topic"]: row["score"] for row in find(posterior, ["a", "d", "unknown"])}
    assert found[0] == pytest.approx((30 / 40 + 5 / 15) / 2, abs=0.01)
    assert found[1] == pytest.approx((10 / 40 + 5 / 15) / 2, abs=0.01)
    assert found[2] == pytest.approx((0 + 5 / 15) / 2, abs=0.01)
    assert [row["topic"] for row in find(posterior, ["a", "d"], most=2)] == [0, 1]
    assert [row["topic"] for row in find(posterior, like=0)] == [1, 2]


@pytest.mark.parametrize(("seeds", "wrong"), [("a, b; c", ""), ("a; b; c; d", "for 4 topics"), ("a; x, y", "x, y")])
def test_seeds_are_words_of_the_vocabulary(seeds, wrong):
    if not wrong:
        assert db.LatentDirichletAllocation(3, ("a", "b", "c", "d"), seeds=seeds).seeds == seeds
        return
    with pytest.raises(ValueError, match=wrong):
        db.LatentDirichletAllocation(3, ("a", "b", "c", "d"), seeds=seeds)


def test_features_refuse_data_whose_squares_drown_in_rounding(rng):
    """½ x² / σ² times the rounding of a double is what is lost; as much as is allowed, and twice that."""
    model = db.LatentFeatures(2, 3, variance=0.5)
    most = np.sqrt(MOST_ROUNDING / np.finfo(float).eps)
    points = np.zeros((4, 3))
    points[0, 0] = 0.99 * most
    model.log_predictive(db.Posterior.of_prior(model.structure), points)
    points[0, 0] = 1.5 * most
    with pytest.raises(InvalidData, match="lost in rounding"):
        model.fit(points, rng=rng)


def test_groups_of_regressions_are_profiled_by_their_lines(rng):
    model, size = ZOO["groups of regressions"]
    posterior = model.fit(db.simulate(model, size, rng=rng).data, rng=rng).posterior
    shown = model.profile(posterior)
    lines = {(row["component"], row["term"]): row["mean"] for row in model.lines(posterior)}
    for component, text in enumerate(shown["coefficients"]):
        assert text == ", ".join(f"{term} {digits(lines[component, term], 3)}" for term in ("intercept", "a"))


@pytest.mark.parametrize("kind", [{"covariance": "diagonal"}, {"covariance": "full"}, {"variance": 0.3}])
def test_a_new_value_of_a_column_has_the_quantiles_of_draws(kind, rng):
    """Parameters and values drawn together, against the t distribution that `marginal` names."""
    likelihood = real_likelihood(**kind)
    prior = likelihood.prior(2, strength=0.5, degrees=9.0, scale=0.7)
    (mean,), (scale,), (freedom,) = likelihood.marginal(prior)
    drawn = likelihood.family.sample(prior, 60_000, rng)
    parameters = type(drawn)(*(part[:, 0] for part in drawn)) if isinstance(drawn, tuple) else drawn[:, 0]
    values = likelihood.draw(parameters, np.arange(60_000), rng)
    for column in range(2):
        for share in (0.1, 0.5, 0.8):
            expected = t.ppf(share, freedom[column], mean[column], scale[column])
            assert np.mean(values[:, column] <= expected) == pytest.approx(share, abs=0.01)


@pytest.mark.parametrize(("differing", "refused"), [(0, False), (1, True), (4, True), (5, False), (30, False)])
def test_rare_values_in_files_are_refused_whatever_block_they_are_in(differing, refused):
    rows = np.zeros((100, 2))
    rows[np.arange(differing) * 3, 1] = 1.0
    with pytest.raises(InvalidData, match="fewer than 5 rows") if refused else nullcontext():
        check_rare_values(np.split(rows, 4), 5)


def test_transformed_blocks_are_numbered_on_and_can_be_skipped(rng):
    points = rng.normal(size=(5000, 1))
    model = db.GaussianMixture(2, variance=1.0)
    posterior = model.fit(points[:50], rng=rng).posterior
    blocks = list(db.models.transform(posterior, points))
    assert len(blocks) == 3
    np.testing.assert_allclose(np.concatenate([block.values for block in blocks]), model.assign(posterior, points))
    assert [place for block in blocks for place in block.places] == [str(number) for number in range(1, 5001)]
    left = list(db.models.transform(posterior, points, skip=2))
    assert [block.places[0] for block in left] == [blocks[2].places[0]]
    assert not blocks[0].unknown.any()
    assert blocks[0].adds_up


def test_entropies_and_agreement_of_groupings_by_hand():
    assert db.checking.relative_entropy([[0.8, 0.2], [0.5, 0.5]]) == pytest.approx(
        1 - (0.5004024235 + np.log(2)) / (2 * np.log(2))
    )
    assert db.checking.relative_entropy([[1.0]]) == 1.0
    with pytest.raises(InvalidData, match="matrix"):
        db.checking.relative_entropy([0.5, 0.5])
    assert db.checking.adjusted_rand([0, 0, 0, 1, 1], [0, 0, 1, 1, 1]) == pytest.approx((2 - 1.6) / (4 - 1.6))
    assert db.checking.adjusted_rand([0, 0], [1, 1]) == 1.0
    with pytest.raises(InvalidData, match="2 labels and 3"):
        db.checking.adjusted_rand([0, 1], [0, 1, 1])


def test_a_mean_field_is_the_best_of_what_four_starts_reach(rng):
    """Features that compete and help each other: for each start there are observations for which it alone is best."""
    alone, overlap = rng.normal(scale=3.0, size=(5, 1500)), rng.normal(scale=4.0, size=(5, 5))
    overlap = np.where(np.eye(5, dtype=bool), 0.0, overlap + overlap.T)[:, :, None]
    starts = [annealed(alone, overlap), *(np.full(alone.shape, level) for level in (0.0, 0.5, 1.0))]
    for start in starts:
        converge(alone, overlap, start)
    reached = np.array([row_bounds(alone, overlap, start) for start in starts])
    np.testing.assert_allclose(row_bounds(alone, overlap, infer(alone, overlap)), reached.max(axis=0), atol=1e-9)
    for place in range(4):
        assert (reached[place] > np.delete(reached, place, axis=0).max(axis=0) + 1e-3).any()


def test_vectors_are_refused_by_the_longest_not_by_their_sum():
    """Half the square of each, over the variance, may be as large as rounding allows, whatever their number."""
    length = np.sqrt(2.0 * 0.9 * MOST_ROUNDING / np.finfo(float).eps)
    model = db.LatentFeatures(1, 2, variance=1.0)
    assert model.count(model._points(np.full((50, 2), length / np.sqrt(2.0)))) == 50
    with pytest.raises(InvalidData, match="rounding"):
        model._points(np.array([[0.0, 0.0], [1.2 * length, 0.0]]))


def test_cuts_part_events_evenly_into_at_most_ten_and_none_of_fewer_than_five():
    many = cuts_between(np.linspace(1.0, 99.0, 2000))
    assert len(many) == INTERVALS - 1
    assert np.ptp(np.histogram(np.linspace(1.0, 99.0, 2000), [0.0, *many, 100.0])[0]) < 30
    for events in range(40):
        times = np.linspace(1.0, 2.0, events) ** 4
        cuts = cuts_between(times)
        assert len(cuts) <= max(events // LEAST - 1, 0)
        assert not cuts or np.histogram(times, [0.0, *cuts, 99.0])[0].min() >= LEAST


def test_seeds_are_the_columns_of_their_words_and_unknown_words_are_left_out():
    assert seeded_words("nurse, moon, ward; mast", ("mast", "ward", "nurse", "sea")) == ((2, 1), (0,))
    assert seeded_words("", ("mast",)) == ()


def test_a_topic_that_rests_on_too_few_documents_counts_as_none():
    """Five documents with equal shares are five; one that has nearly all is little more than one."""
    shares = np.array([[0.4, 0.6, 0.0]] * 5 + [[0.02, 0.0, 0.98]])
    group = counted(shares, 5)
    np.testing.assert_allclose(group.sums, [2.02, 3.0, 0.0])
    np.testing.assert_allclose(group.squares, [5 * 0.16 + 0.0004, 5 * 0.36, 0.0])
    assert group.documents == 6
    np.testing.assert_allclose(counted(shares, 0).sums, shares.sum(axis=0))


def test_quantiles_of_mixtures_have_their_share_below_them_in_every_row(rng):
    """Rows far apart: each is searched between its own components."""
    mean, scale = rng.normal(size=(4, 3)) * 3.0 + np.array([[0.0], [50.0], [-9.0], [1e3]]), 0.5 + rng.random((4, 3))
    degrees, weights = np.array([3.0, 8.0, 30.0]), np.array([0.2, 0.5, 0.3])
    for share in (0.05, 0.5, 0.9):
        found = quantile(mean, scale, degrees, weights, share)
        below = t.cdf(found[:, None], degrees, loc=mean, scale=scale) @ weights
        np.testing.assert_allclose(below, share, atol=1e-6)


def test_settings_in_files_are_numbers_of_python_and_whole_ones_have_no_fraction():
    given = {"a": np.float64(2.0), "b": 2.5, "c": [np.float32(0.5), np.int64(3)], "d": np.bool_(True), "e": None}
    found = plain("setting", given)
    assert repr(found) == "{'a': 2, 'b': 2.5, 'c': [0.5, 3], 'd': True, 'e': None}"


def test_topics_of_several_sites_are_those_of_each_alone(rng):
    words = tuple("abcdefgh")
    model = db.LatentDirichletAllocation(2, words, ascent=db.Ascent(passes=5, restarts=0))
    shards = [rng.poisson(1.0, (9, 8)) for _ in range(2)]
    fits = model.fit_many(shards, rng=3)
    for fit, shard in zip(fits, shards, strict=True):
        total = fit.posterior.contribution["topics"]
        np.testing.assert_allclose(np.asarray(total.sum(axis=0)).ravel(), shard.sum(axis=0), atol=1e-2)
        np.testing.assert_array_equal(np.diff(fit.bound) >= -1e-9, True)


@pytest.mark.parametrize(
    ("agreed", "centre", "times", "doubted"),
    [(50, 50, 1, False), (50, 150, 3, False), (50, 500, 10, True), (50, 5, 0.1, True), (10, 1, 0.1, False)],
)
def test_a_column_in_another_unit_is_one_whose_centre_lies_far_away_on_its_scale(agreed, centre, times, doubted):
    """Agreed with a deviation of 10. A tenth of 10 is still among the agreed values; a tenth of 50 is not."""
    values = centre + 10.0 * times * np.linspace(-1.7, 1.7, 30)[:, None]
    assert bool([*of_values({"x": db.columns.Gaussian(agreed, 10.0)}, values)]) == doubted


def test_topics_become_those_of_their_seeds(rng):
    """Documents are about a to d or about e to h; an unknown word, and the order within a topic, change nothing."""
    documents = rng.multinomial(20, np.kron([[1.0, 0.0], [0.0, 1.0]] * 10, np.full(4, 0.25)))
    for seeds, first in (("e, g; a", 1), ("a; zebra, h, e", 0), ("f; c", 1), ("b", 0), ("h", 1)):
        model = db.LatentDirichletAllocation(2, tuple("abcdefgh"), seeds=seeds, ascent=db.Ascent(passes=3, restarts=0))
        topics = model.fit(documents, rng=1).posterior.mean("topics")
        assert topics[0, 4 * first : 4 * first + 4].sum() > 0.9, seeds


def test_seeds_take_the_place_of_a_document_in_their_topics_alone(rng):
    """As much of them as there is in a topic on average; topics without seeds, or without words at hand, stay."""
    counts = as_counts(rng.poisson([2.0] * 6 + [0.0] * 2, (9, 8)), 8)
    before = random_first(counts, 4, np.random.default_rng(5))
    after = before.seeded(((3, 0), (), (7,), (2,)), counts)

    def tables(first):
        words, topics, numbers = first.added
        table = np.zeros((4, 8))
        np.add.at(table, (topics, counts.words[words]), numbers)
        return table

    each = counts.tokens / 4
    found, usual = tables(after), tables(before)
    np.testing.assert_array_equal(found[[1, 2]], usual[[1, 2]])
    np.testing.assert_allclose(found[0], each / 2 * np.isin(np.arange(8), (0, 3)))
    np.testing.assert_allclose(found[3], each * (np.arange(8) == 2))
    assert before.seeded((), counts) is before


@pytest.mark.parametrize("batch", [0, -3, 2.5, True])
def test_documents_of_a_step_are_a_whole_number_of_at_least_one(batch):
    assert db.Ascent(batch=1).batch == 1
    with pytest.raises(ValueError, match="batch must be an integer of at least 1"):
        db.Ascent(batch=batch)
