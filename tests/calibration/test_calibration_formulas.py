"""Calibration by the formulas that it states: tails, pooled tables, shares of topics, groups of risk, scores."""

import json
from dataclasses import replace
from math import exp, inf, log, nan, sqrt

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.stats import genpareto, norm

import decbayes as db
from decbayes.calibration import validation
from decbayes.calibration.accuracy import EDGES, Accuracy, joined_groups, pairs
from decbayes.calibration.sites import Information, total
from decbayes.calibration.tails import FAIR, LEAST_DRAWS, left_out, pareto_shape, tail_of, tail_size
from decbayes.calibration.validation import Scores, checked, is_count
from decbayes.errors import InvalidData, InvalidFile, NotCalibrated, StructureMismatch
from decbayes.models.core.evaluation import Risks
from decbayes.models.topics.corpus_shares import TopicShares, topic_shares

# ---- tails


def pareto_by_hand(sample):
    """Zhang and Stephens (2009), number by number; then ten draws at a shape of one half."""
    n = len(sample)
    m = 30 + int(sqrt(n))
    quarter = sample[int(n / 4 + 0.5) - 1]
    grid = [1 / sample[-1] + (1 - sqrt(m / (j - 0.5))) / (3 * quarter) for j in range(1, m + 1)]
    shapes = [sum(log(1 - b * x) for x in sample) / n for b in grid]
    heights = [n * (log(-b / k) - k - 1) for b, k in zip(grid, shapes, strict=True)]
    weights = [1 / sum(exp(other - height) for other in heights) for height in heights]
    b = sum(w * each for w, each in zip(weights, grid, strict=True))
    shape = sum(log(1 - b * x) for x in sample) / n
    return (n * shape + 10 * 0.5) / (n + 10), -shape / b


@pytest.mark.parametrize("shape", [-0.3, 0.1, 0.6, 1.5])
def test_the_shape_of_a_tail_is_zhangs_and_stephens(shape):
    sample = np.sort(genpareto(shape, scale=2.0).rvs(120, random_state=4))
    assert tail_of(sample) == pytest.approx(pareto_by_hand(sample.tolist()), rel=1e-9)
    assert tail_of(np.r_[np.zeros(60), sample[:60]]) == (inf, 0.0), "a few draws have all the weight"


@pytest.mark.parametrize(("draws", "size"), [(100, 20), (200, 40), (225, 45), (226, 45), (1000, 94), (10_000, 300)])
def test_a_tail_is_a_fifth_or_three_roots_of_the_draws(draws, size):
    assert tail_size(draws) == size


def test_the_tail_of_ratios_is_relative_to_the_next_smaller_one(rng):
    ratios = rng.standard_t(3, size=400)
    rising = sorted(np.exp(ratios - ratios.max()))
    beyond = [each - rising[-61] for each in rising[-60:]]
    assert pareto_shape(ratios) == pytest.approx(pareto_by_hand(beyond)[0], rel=1e-9)
    assert pareto_shape(ratios + 50.0) == pytest.approx(pareto_shape(ratios), rel=1e-9)
    assert pareto_shape(np.full(400, 3.0)) == -inf
    assert pareto_shape(np.r_[np.zeros(399), -1e-7]) == -inf, "equal but for rounding"
    assert pareto_shape(np.r_[np.zeros(399), inf]) == inf
    assert (FAIR, LEAST_DRAWS) == (0.7, 100)


@pytest.mark.parametrize("spread", [0.2, 1.0])
def test_an_observation_left_out_is_an_average_with_smoothed_ratios(spread, rng):
    """Σ r p / Σ r with the largest r replaced by quantiles of their Pareto distribution, and none above the largest."""
    likelihoods = -2.0 + spread * rng.normal(size=500)
    ratios = np.exp(likelihoods.min() - likelihoods)
    order = np.argsort(ratios)
    size = tail_size(500)
    cutoff, tail = ratios[order[-size - 1]], order[-size:]
    shape, scale = pareto_by_hand((ratios[tail] - cutoff).tolist())
    for rank, place in enumerate(tail):
        chance = (rank + 0.5) / size
        ratios[place] = min(cutoff + genpareto(shape, scale=scale).ppf(chance), 1.0)
    expected = log((ratios * np.exp(likelihoods)).sum() / ratios.sum())
    assert left_out(likelihoods.copy()) == pytest.approx((expected, shape), rel=1e-9)


# ---- Rubin's rules, shares of topics, groups of risk


def test_the_missing_information_is_rubins():
    """(r + 2 / (ν + 3)) / (r + 1) with r the variance between tables over that within."""
    pooled = db.checking.pool([1.0, 2.0, 4.0, 3.0], [0.5, 0.7, 0.6, 0.4], degrees=30)
    within, between = 0.55, 1.25 * np.var([1, 2, 4, 3], ddof=1)
    r = between / within
    assert pooled.missing == pytest.approx((r + 2 / (pooled.degrees + 3)) / (r + 1), rel=1e-12)
    assert pooled.error == pytest.approx(sqrt(within + between), rel=1e-12)
    both = db.checking.pool([[1.0, 9.0], [2.0, 7.0]], [[0.5, 4.0], [0.7, 6.0]])
    for column, (estimates, variances) in enumerate((([1.0, 2.0], [0.5, 0.7]), ([9.0, 7.0], [4.0, 6.0]))):
        alone = db.checking.pool(estimates, variances)
        for part in ("estimate", "error", "degrees", "missing"):
            assert getattr(both, part)[column] == pytest.approx(float(getattr(alone, part)))
    same = db.checking.pool([1.0, 1.0], [0.5, 0.7])
    assert same.degrees > 1e12, "no table differs: nothing is missing"
    assert same.missing < 1e-6
    narrow, usual = pooled.interval(0.5), pooled.interval()
    assert usual[0] < narrow[0] < narrow[1] < usual[1]
    for bad in ((0.0, 0.6), (1.0, 0.7)):
        with pytest.raises(ValueError, match="level"):
            pooled.interval(bad[0])
    with pytest.raises(InvalidData):
        db.checking.pool([1.0, 2.0], [1.0, inf])


def test_shares_of_topics_are_ratios_over_documents(rng):
    """s_k = Σ n_dk / Σ n_d, with documents as units; sums of sites are those of all their documents."""
    topics = np.array([[0.7, 0.2, 0.05, 0.05], [0.05, 0.05, 0.2, 0.7]])
    model = db.LatentDirichletAllocation(2, tuple("abcd"), topic_prior=0.5)
    documents = [
        csr_array(np.array([rng.multinomial(n, topics[n % 2]) for n in sizes])) for sizes in ((5, 9, 30), (12, 7))
    ]
    posterior = model.fit(documents[0], rng=0).posterior
    found = topic_shares(model, documents, posterior)
    rows = np.concatenate([part.toarray() for part in documents])
    lengths = rows.sum(axis=1).astype(float)
    words = lengths[:, None] * np.concatenate([model.assign(posterior, part) for part in documents])
    share = words.sum(axis=0) / lengths.sum()
    np.testing.assert_allclose(found.mean, share)
    squares = [sum((words[d, k] - share[k] * lengths[d]) ** 2 for d in range(5)) for k in range(2)]
    np.testing.assert_allclose(found.deviation, np.sqrt(squares) / lengths.sum(), rtol=1e-9)
    low, high = found.interval(0.8)
    np.testing.assert_allclose(low, np.maximum(share - norm.ppf(0.9) * found.deviation, 0.0))
    np.testing.assert_allclose(high, np.minimum(share + norm.ppf(0.9) * found.deviation, 1.0))
    wide = found.interval(0.9999999)
    assert wide[0].min() == 0.0
    assert wide[1].max() == 1.0
    with pytest.raises(ValueError, match="level"):
        found.interval(1.0)
    usual = found.interval()
    assert (usual[0] < low).all()
    certain = TopicShares(np.array([3.0]), np.array([9.0]), np.array([9.0]), 3.0, 9.0 - 1e-12)
    assert certain.deviation.tolist() == [0.0], "rounding makes no variance negative"


def test_small_groups_are_joined_until_enough_persons_are_together(rng):
    """The first group that is too small goes to the next one that has anybody, the last to the one before."""
    for _ in range(200):
        sizes, least = rng.integers(0, 7, size=rng.integers(1, 8)), int(rng.integers(1, 9))
        group = np.repeat(np.arange(len(sizes)), sizes)
        blocks = [([label], size) for label, size in enumerate(sizes.tolist()) if size]
        while len(blocks) > 1 and any(size < least for _, size in blocks):
            place = next(n for n, (_, size) in enumerate(blocks) if size < least)
            labels, size = blocks.pop(place)
            target = min(place, len(blocks) - 1)
            into, there = blocks[target]
            blocks[target] = ([*labels, *into], size + there)
        expected = {label: labels[-1] for labels, _ in blocks for label in labels}
        if len(group):
            found = joined_groups(group, lambda rows: rows.sum(keepdims=True), [least])
            assert found.tolist() == [expected[label] for label in group.tolist()]


def test_pairs_are_counted_block_by_block(rng, monkeypatch):
    size = 23
    risks = Risks(
        risk=rng.integers(0, 4, size).astype(float), time=rng.integers(1, 9, size).astype(float),
        event=rng.random(size) < 0.6, entry=rng.integers(0, 3, size).astype(float),
        observed=np.zeros(size), expected=np.zeros(size),
    )  # fmt: skip
    concordant = comparable = 0.0
    for i in range(size):
        for j in range(size):
            if risks.event[i] and risks.time[i] < risks.time[j] and risks.entry[j] < risks.time[i]:
                comparable += 1
                concordant += 1.0 if risks.risk[i] > risks.risk[j] else 0.5 if risks.risk[i] == risks.risk[j] else 0.0
    assert pairs(risks) == (concordant, comparable)
    monkeypatch.setattr("decbayes.calibration.accuracy.BLOCK", 5)
    assert pairs(risks) == (concordant, comparable)


ONE = Accuracy("digest", 3.0, 4.0, (1.0, 0.0, 2.0, 0.0, 0.0, 3.0), (2.0, 0.0, 1.0, 0.0, 0.0, 4.0), (5, 0, 6, 0, 0, 7))


def test_groups_are_named_by_their_ends_and_add_up():
    assert EDGES == (-1.0, -0.5, 0.0, 0.5, 1.0)
    assert [row["risk"] for row in ONE.groups] == ["below -1", "-1 to 0", "from 0"], "small groups are in the next one"
    assert [row["ratio"] for row in ONE.groups] == [0.5, 2.0, 0.75]
    assert ONE.groups[1] == {"risk": "-1 to 0", "persons": 6, "observed": 2.0, "expected": 1.0, "ratio": 2.0}
    both = ONE + replace(ONE, concordant=1.0, persons=(1,) * 6)
    assert (both.concordant, both.comparable, both.persons) == (4.0, 8.0, (6, 1, 7, 1, 1, 8))
    assert both.observed == (2.0, 0.0, 4.0, 0.0, 0.0, 6.0)
    assert both.expected[0] == 4.0
    assert both.concordance == 0.5
    assert np.isnan(replace(ONE, comparable=0.0).concordance)


@pytest.mark.parametrize(
    "change",
    [{"at": 3}, {"observed": [1.0]}, {"persons": [1] * 7}, {"expected": "x"}, {"concordant": None}, {"more": 1}],
)
def test_files_of_accuracy_are_checked_part_by_part(change):
    assert Accuracy.from_json(ONE.to_json()) == ONE
    with pytest.raises(InvalidFile):
        Accuracy.from_json(json.dumps(json.loads(ONE.to_json()) | change))


# ---- scores


def scores_of(columns, names=("a", "b", "c"), **changed):
    columns = np.asarray(columns, dtype=float)
    usual = {"digests": tuple(f"d{name}" for name in names), "observations": len(columns)}
    return Scores(tuple(names), sums=columns.sum(axis=0), products=columns.T @ columns, **{**usual, **changed})


def test_scores_are_ratios_and_so_are_their_errors(rng):
    """Documents of unequal length: R = Σ s / Σ u, and its error from the residuals s − R u; n / (n − 1)."""
    units = rng.integers(1, 20, 30).astype(float)
    densities = -units[:, None] * [2.0, 2.1, 2.6] + rng.normal(size=(30, 3))
    scores = scores_of(np.column_stack([units, densities]))
    for place, name in enumerate("abc"):
        ratio = densities[:, place].sum() / units.sum()
        assert scores.score(name) == pytest.approx(ratio, rel=1e-12)
        away = densities[:, place] - ratio * units
        assert scores.error(name) == pytest.approx(sqrt(30 / 29 * (away**2).sum()) / units.sum(), rel=1e-9)
    apart = densities[:, 0] - densities[:, 2]
    away = apart - apart.sum() / units.sum() * units
    assert scores.error("a", "c") == pytest.approx(sqrt(30 / 29 * (away**2).sum()) / units.sum(), rel=1e-6)
    assert scores.best == "abc"[int(np.argmax(densities.sum(axis=0)))]
    with pytest.raises(KeyError, match="no score of 'x'"):
        scores.score("x")
    single = scores_of([[1.0, -1.0, -2.0, -3.0]])
    assert single.error("a") == inf
    assert single.smallest == "a"


def test_the_smallest_is_the_first_within_one_error_of_the_best():
    """Ten observations each; the best is the last, and the errors of differences are known."""
    rows = np.column_stack([np.ones(10), np.tile([-1.5, -1.0], 5), np.tile([-1.2, -1.0], 5), np.full(10, -1.0)])
    scores = scores_of(rows)
    for name in "ab":
        behind = scores.score("c") - scores.score(name)
        assert behind > scores.error("c", name), "clearly behind"
    assert scores.smallest == "c"
    near = scores_of(np.column_stack([np.ones(10), np.tile([-1.5, -0.52], 5), rows[:, 2], rows[:, 3]]))
    assert near.smallest == "a"
    assert near.choice("smallest").name == "a"
    assert near.choice().name == "c"
    assert not near.choice().at_end, "these are no numbers of components"
    assert "as you can afford" not in str(near.choice())
    tried = replace(near, names=(2, 3, 4))
    assert tried.choice().at_end
    assert not tried.choice("smallest").at_end
    assert not scores_of(rows[:, :2], (2,)).choice().at_end, "there is only one"
    with pytest.raises(ValueError, match="rule is 'best' or 'smallest'"):
        near.choice("first")
    with pytest.raises(StructureMismatch, match="different posteriors under the name 'b'"):
        scores_of(rows, digests=("x", "", "y")).choice()
    for nothing in (np.zeros((0, 4)), [[0.0, -1.0, -1.0, -1.0]]):
        with pytest.raises(InvalidData, match="Nothing was held back"):
            _ = scores_of(nothing).best


def test_scores_of_unlike_kinds_do_not_add_up():
    rows = np.ones((3, 4))
    one = scores_of(rows, unreliable=(1, 0, 2))
    assert (one + one).unreliable == (2, 0, 4)
    assert (one + one).observations == 6
    assert (one + scores_of(rows, unreliable=(0, 0, 0), digests=("da", "other", "dc"))).digests == ("da", "", "dc")
    assert sum([one]) is one
    for other in ({"unit": "word"}, {"rule": "smallest"}, {"unreliable": None}, {"names": ("a", "b", "x")}):
        with pytest.raises(StructureMismatch, match="add up"):
            one + scores_of(rows, **{"unreliable": (0, 0, 0), **other})
    with pytest.raises(TypeError):
        one + 1
    with pytest.raises(TypeError):
        1 + one


def test_a_site_without_held_back_data_adds_nothing():
    model = db.models.GaussianMean(variance=1.0)
    posterior = model.fit(np.zeros((3, 1))).posterior
    nothing = db.validate(model, {"a": posterior, 7: posterior}, np.zeros((0, 1)))
    assert (nothing.sums.tolist(), nothing.products.tolist()) == ([0.0] * 3, [[0.0] * 3] * 3)
    assert (nothing.observations, nothing.names, nothing.unreliable) == (0, ("a", 7), None)
    assert db.validate(model, [posterior], np.zeros((0, 1)), leave_one_out=True).unreliable == (0,)
    with pytest.raises(InvalidData, match="no posterior to score"):
        db.validate(model, [], np.zeros((3, 1)))


def test_the_model_of_a_posterior_keeps_its_settings_if_it_has_as_many_components():
    model = db.GaussianMixture(2, 1, variance=1.0, ascent=db.Ascent(7))
    same, other = (db.Posterior.of_prior(replace(model, components=number).structure) for number in (2, 3))
    assert validation.model_of(model, same).ascent == db.Ascent(7)
    assert validation.model_of(model, other).components == 3
    with pytest.raises(StructureMismatch, match="belongs to GaussianMean, not to GaussianMixture"):
        validation.model_of(model, db.models.GaussianMean(dimension=1).fit(np.ones((3, 1))).posterior)


PLAIN = {
    "format": validation.FORMAT, "names": ["a", 2], "posteriors": ["x", "y"], "observations": 3, "unit": "word",
    "rule": "best", "sums": [1.0, 2.0, 3.0], "products": np.eye(3).tolist(), "unreliable": [0, 3],
}  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        {"format": "x"}, {"names": []}, {"names": ["a", "a"]}, {"names": ["a"]}, {"posteriors": ["x"]},
        {"posteriors": ["x", 3]}, {"sums": [1.0, 2.0]}, {"products": np.eye(2).tolist()}, {"sums": [1.0, inf, 2.0]},
        {"products": [[nan] * 3] * 3},
        {"observations": 10**12 + 1}, {"observations": True}, {"observations": 2.0}, {"unit": 3}, {"rule": "x"},
        {"posteriors": ["x", "\n"]}, {"names": ["a", "\n"]}, {"unreliable": [0]}, {"unreliable": [0, 4]},
    ],
    ids=str,
)  # fmt: skip
def test_files_of_scores_are_checked_part_by_part(change):
    read = checked(PLAIN)
    assert (read.names, read.digests, read.unit, read.rule, read.unreliable) == (
        ("a", 2),
        ("x", "y"),
        "word",
        "best",
        (0, 3),
    )
    assert checked(PLAIN | {"observations": 10**12}).observations == 10**12
    assert checked({name: value for name, value in PLAIN.items() if name != "unreliable"}).unreliable is None
    with pytest.raises(ValueError, match=r"its|it holds|do not match"):
        checked(PLAIN | change)
    with pytest.raises(ValueError, match="format"):
        checked([])


def test_counts_are_whole_and_bounded(monkeypatch):
    assert [is_count(value, 3) for value in (0, 3, 4, -1, True, 2.0, "1")] == [
        True,
        True,
        False,
        False,
        False,
        False,
        False,
    ]
    monkeypatch.setattr(validation, "MOST_CANDIDATES", 3)
    checked(PLAIN)
    monkeypatch.setattr(validation, "MOST_CANDIDATES", 2)
    with pytest.raises(ValueError, match="do not match"):
        checked(PLAIN)


# ---- information of sites


def test_information_adds_up_part_by_part():
    one = Information("d", 1, np.array([1.0, 2.0]), np.eye(2), 3, np.ones((1, 2)))
    both = total([one, one, replace(one, clusters=4)])
    assert (both.at, both.sites, both.clusters) == ("d", 3, 10)
    assert both.contribution.tolist() == [3.0, 6.0]
    assert both.matrix.tolist() == [[3.0, 0.0], [0.0, 3.0]]
    assert both.grid.tolist() == [[3.0, 3.0]]
    back = Information.from_bytes(both.to_bytes())
    assert (back.sites, back.clusters, back.at) == (3, 10, "d")
    assert back.grid.tolist() == both.grid.tolist()
    plain = Information("d", 1, np.ones(2), np.eye(2))
    assert (plain.clusters, plain.grid.shape) == (0, (0, 0))
    for other, why in (
        (plain, "robust errors"), (replace(one, grid=np.ones((1, 3))), "different posteriors"),
        (replace(one, at="e"), "different"),
        (replace(one, matrix=np.eye(3)), "different posteriors"),
    ):  # fmt: skip
        with pytest.raises(NotCalibrated, match=why):
            one + other
    scanned = replace(plain, grid=np.ones((3, 4)))
    assert (scanned + scanned).grid.tolist() == (2 * scanned.grid).tolist()
    named = replace(one, clustered=True)
    assert Information.from_bytes((named + named).to_bytes()).clustered
    assert not back.clustered
    with pytest.raises(NotCalibrated, match="some for single rows"):
        named + one
    assert (scanned + plain).grid.shape == (plain + scanned).grid.shape == (0, 0), "only if all have them"
    with pytest.raises(NotCalibrated, match="at least one site"):
        total([])
    mean = db.models.GaussianMean(dimension=1)
    data = np.ones((3, 1))
    with pytest.raises(NotCalibrated, match="Only regressions have standard deviations"):
        Information.half_cauchy(mean, data, mean.fit(data).posterior)
    with pytest.raises(NotCalibrated, match="Robust errors are for regressions, not for GaussianMean"):
        Information.robust(mean, data, mean.fit(data).posterior)
