"""Any component into any slot: what is maximised, and that it is, against sums written down plainly."""

from dataclasses import replace
from itertools import combinations, product
from types import NoneType, SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from scipy.special import xlogy
from structures import mixture, topics

import decbayes as db
from decbayes.families.joining import Joined
from decbayes.merging.aligning import Task, solve_canonically
from decbayes.merging.base import division
from decbayes.merging.base.canonical import canonical_order
from decbayes.merging.base.components import Components, bases, chunks, prior_components
from decbayes.merging.base.coupled import coupled_problem
from decbayes.merging.grouping import _escapes as escapes_module
from decbayes.merging.grouping import grouping
from decbayes.merging.grouping import joins as joins_module
from decbayes.merging.grouping import search as search_module
from decbayes.merging.grouping._escapes import bayes_factors, escape, loss_per_pair, proposals, vacate, weight_gain
from decbayes.merging.grouping.joins import greedy_joins, grown_labels, tree_ends
from decbayes.merging.grouping.search import SlotSearch

WORDS = 24
TRUTH = np.kron(np.eye(4), np.array([4.0, 3.0, 2.0, 1.0, 1.0, 1.0])) / 12.0  # four topics of six words each


def known(counts):
    """F of topics: Σ_w y log y − N log N, of each group's counts."""
    return float(xlogy(counts, counts).sum() - xlogy(counts.sum(axis=1), counts.sum(axis=1)).sum())


def value(matrix, labels, count):
    return known(np.array([matrix[labels == slot].sum(axis=0) for slot in range(count)]))


def problem_of(matrix, slots=2):
    structure = topics(slots, matrix.shape[1])
    posteriors = [db.Posterior(topics(1, matrix.shape[1]), {"topics": row[None]}) for row in matrix]
    return coupled_problem(posteriors, structure.symmetry[0], structure)


def components_of(matrix, slots):
    """Topics of one site each, as the searches take them."""
    problem = problem_of(matrix, slots)
    components = Components.of(problem.factors, problem.contents)
    return components, bases(components.factors, float(components.evidence.sum()), slots)


def noisy(rng, labels, tokens=60):
    """Counts of the true topics, as often as the labels say."""
    return np.array([rng.multinomial(tokens, TRUTH[label]) for label in labels], dtype=float)


def same_groups(first, second):
    first, second = np.asarray(first), np.asarray(second)
    return ((first[:, None] == first) == (second[:, None] == second)).all()


class TestSearch:
    @pytest.mark.parametrize("seed", range(4))
    def test_moves_end_where_no_single_move_gains(self, seed):
        rng = np.random.default_rng(seed)
        matrix = rng.poisson(rng.gamma(0.3, 3.0, size=(14, 8))).astype(float) + 0.1
        components, base = components_of(matrix, 3)
        search = SlotSearch(components, rng.integers(0, 3, 14), base, 3)
        before = value(matrix, search.labels, 3)
        assert search.value() == pytest.approx(before)
        after = search.moves()
        assert after == pytest.approx(value(matrix, search.labels, 3))
        assert after > before
        margins = search.margins()
        for component in range(14):
            elsewhere = []
            for slot in set(range(3)) - {search.labels[component]}:
                labels = search.labels.copy()
                labels[component] = slot
                elsewhere.append(value(matrix, labels, 3))
            assert max(elsewhere) <= after + 1e-6
            assert margins[component] == pytest.approx(after - max(elsewhere), abs=1e-6)

    def test_an_empty_slot_is_no_next_best_one(self, rng):
        """Three slots of which one is empty: margins are those of two slots, and not zero; alone nothing is lost."""
        matrix = noisy(rng, [0, 0, 0, 1, 1, 1])
        components, base = components_of(matrix, 2)
        labels = np.array([0, 0, 0, 2, 2, 2])
        with_empty = SlotSearch(components, labels, base, 3).margins()
        np.testing.assert_allclose(with_empty, SlotSearch(components, labels // 2, base, 2).margins())
        assert with_empty.min() > 10.0
        assert np.isinf(SlotSearch(components, np.zeros(6, dtype=int), base, 3).margins()).all()

    def test_a_slot_with_half_a_word_is_not_empty(self, rng):
        matrix = noisy(rng, [0, 0, 1])
        matrix[2] *= 0.5 / matrix[2].sum()
        components, base = components_of(matrix, 2)
        search = SlotSearch(components, np.array([0, 0, 1]), base, 2)
        elsewhere = [value(matrix, np.array(labels), 2) for labels in ([1, 0, 1], [0, 1, 1], [0, 0, 0])]
        np.testing.assert_allclose(search.margins(), value(matrix, search.labels, 2) - np.array(elsewhere))

    def test_where_nothing_is_known_it_does_not_matter_where_components_were(self, rng):
        matrix = noisy(rng, [0, 1, 2, 0, 1, 2])
        components, base = components_of(matrix, 3)
        ends = []
        for labels in ([0] * 6, [2, 1, 0, 2, 1, 0], [1, 1, 1, 2, 2, 2]):
            search = SlotSearch(components, np.array(labels), base, 3)
            search_module.start_empty_slots(search, np.zeros(3), np.array([0, 0, 0, 1, 1, 1]))
            ends.append(search.labels.tolist())
        assert ends[0] == ends[1] == ends[2]
        assert same_groups(ends[0], [0, 1, 2, 0, 1, 2])

    def test_gains_that_are_kept_are_those_computed_anew(self, rng):
        matrix = rng.poisson(2.0, size=(9, 8)).astype(float)
        components, base = components_of(matrix, 4)
        search, everyone = SlotSearch(components, rng.integers(0, 4, 9), base, 4), np.arange(9)
        for _ in range(12):
            search.gains(rng.permutation(9)[:5])
            search.move(int(rng.integers(9)), int(rng.integers(4)))
        fresh = SlotSearch(components, search.labels, base, 4)
        np.testing.assert_allclose(search.gains(everyone), fresh.gains(everyone), atol=1e-8)
        losses = search.join_losses()
        assert np.isinf(np.diag(losses)).all()
        before = search.value()
        search.join(1, 2)
        assert search.count == 3
        assert before - search.value() == pytest.approx(losses[1, 2])
        fresh = SlotSearch(components, search.labels, base, 3)
        np.testing.assert_allclose(search.gains(everyone), fresh.gains(everyone), atol=1e-8)

    @pytest.mark.parametrize(("kept", "absorbed"), [(0, 1), (1, 2), (0, 3), (2, 3)])
    def test_after_a_join_gains_are_those_of_the_slots_as_they_stand(self, kept, absorbed, rng):
        components, base = components_of(rng.poisson(2.0, size=(9, 8)).astype(float), 4)
        search, everyone = SlotSearch(components, np.arange(9) % 4, base, 4), np.arange(9)
        search.gains(everyone)
        search.join(kept, absorbed)
        fresh = SlotSearch(components, search.labels, base, 3)
        np.testing.assert_allclose(search.gains(everyone), fresh.gains(everyone), atol=1e-8)
        assert search.value() == pytest.approx(fresh.value())

    def test_large_components_choose_first(self):
        components, _ = components_of(np.diag([3.0, 9.0, 1.0, 9.0]), 2)
        np.testing.assert_array_equal(components.order, [1, 3, 0, 2])

    def test_anchors_stay_and_count(self, rng):
        """What a prior knows of a slot is one more component of it."""
        structure = topics(2, 4).with_prior({"topics": np.array([[8.0, 8, 0, 0], [0, 0, 8.0, 8]])})
        posterior = db.Posterior(structure, {"topics": np.array([[0, 0, 5.0, 1], [6.0, 0, 0, 0]])})
        problem = coupled_problem([posterior], structure.symmetry[0], structure)
        components, anchors = Components.of(problem.factors, problem.contents), prior_components(problem.factors)
        np.testing.assert_allclose(anchors.evidence, [20.0, 20.0])
        search = SlotSearch(components, np.array([1, 0]), [np.zeros(4)], 2, anchors)
        total = structure.prior["topics"] + 1.0 + np.array([[6.0, 0, 0, 0], [0, 0, 5.0, 1]])
        assert search.value() == pytest.approx(known(total))


class TestTree:
    def test_the_cheapest_join_comes_first_as_plain_enumeration_has_it(self, rng):
        matrix = rng.poisson(rng.gamma(0.4, 4.0, size=(8, 6))).astype(float) + 0.5
        components, base = components_of(matrix, 2)
        joined, groups = greedy_joins(components, base), [[k] for k in range(8)]
        for kept, absorbed, loss in zip(joined.kept, joined.absorbed, joined.loss, strict=True):
            costs = {
                (first, second): known(matrix[groups[first]].sum(axis=0)[None])
                + known(matrix[groups[second]].sum(axis=0)[None])
                - known(matrix[groups[first] + groups[second]].sum(axis=0)[None])
                for first, second in combinations(range(len(groups)), 2)
            }
            (first, second), least = min(costs.items(), key=lambda item: item[1])
            assert loss == pytest.approx(least)
            assert {groups[first][0], groups[second][0]} == {kept, absorbed}
            groups[first] = sorted(groups[first] + groups.pop(second))
        assert len(groups) == 1

    def test_groups_are_those_that_the_first_joins_have_made(self):
        joined = Joined(5, np.array([1, 0, 0]), np.array([4, 2, 1]), np.zeros(3))
        for count, expected in ((5, [0, 1, 2, 3, 4]), (4, [0, 1, 2, 3, 1]), (3, [0, 1, 0, 2, 1]), (2, [0, 0, 0, 1, 0])):
            np.testing.assert_array_equal(joined.labels(count), expected)

    @pytest.mark.parametrize(("count", "most"), [(1, 200), (50, 200), (60, 240)])
    def test_one_tree_has_all_that_cost_little_and_further_ones_equal_parts(self, count, most):
        np.testing.assert_array_equal(tree_ends(most, count), [0, most])
        for size in (most + 1, 10 * most, 10 * most + 3):
            parts = np.diff(tree_ends(size, count))
            assert parts.sum() == size
            assert len(parts) > 1
            assert np.ptp(parts) <= 1
            assert count < parts.min() <= most // 2

    def test_trees_of_trees_find_what_is_plain_to_see(self, rng, monkeypatch):
        monkeypatch.setattr("decbayes.merging.grouping.joins.GROUP", 10)
        labels = rng.integers(0, 4, 90)
        components, base = components_of(noisy(rng, labels), 4)
        assert same_groups(grown_labels(components, base, 4), labels)


class TestEscapes:
    def test_a_slot_of_two_things_is_split_and_one_thing_in_two_slots_is_joined(self, rng):
        truth = np.repeat([0, 1, 2], 12)
        components, base = components_of(noisy(rng, truth, 200), 3)
        # Topics 0 and 1 share a slot, topic 2 has two: no single component gains by moving.
        begin = np.where(truth < 2, 0, 1 + np.arange(36) % 2)
        search = SlotSearch(components, begin, base, 3)
        stuck = search.moves()
        assert not same_groups(search.labels, truth)
        escape(search, 0)
        assert search.value() == stuck
        escape(search, 20)
        assert same_groups(search.labels, truth)
        assert search.value() == pytest.approx(value(np.vstack([r.written_out() for r in components.rows]), truth, 3))

    def test_what_is_proposed_gains_before_anything_else_has_moved(self):
        """One slot in two, two others in one: by plain sums, for whatever groups there are."""
        proposed = 0
        for seed in range(40):
            rng = np.random.default_rng(seed)
            matrix = noisy(rng, rng.integers(0, 4, 14), 20) + rng.poisson(0.3, size=(14, WORDS))
            components, base = components_of(matrix, 4)
            search = SlotSearch(components, rng.integers(0, 4, 14), base, 4)
            before = value(matrix, search.labels, 4)
            for labels in proposals(search, {}, 0.0):
                proposed += 1
                assert value(matrix, labels, 4) > before
                assert len({(old, new) for old, new in zip(search.labels, labels, strict=True)}) == 5
        assert proposed > 40

    @pytest.mark.parametrize(("gain", "taken"), [(0.0, False), (5e-10, False), (2e-9, True)])
    def test_an_escape_is_worth_more_than_rounding(self, gain, taken, monkeypatch):
        """A search that ends as much higher as is said, with a hundred observations, from whatever is proposed."""
        state = SimpleNamespace(labels=np.zeros(2, dtype=int), components=SimpleNamespace(evidence=np.full(2, 50.0)))
        state.restart = lambda labels: setattr(state, "labels", labels)
        state.value = state.moves = lambda: 7.0 + 100.0 * gain * state.labels.any()
        proposed = iter([[np.array([0, 1])], []])
        monkeypatch.setattr(escapes_module, "proposals", lambda *given: next(proposed))
        escape(state, 2)
        np.testing.assert_array_equal(state.labels, [0, int(taken)])

    def test_an_escape_that_gains_nothing_leaves_everything_as_it_was(self, rng):
        truth = np.repeat([0, 1, 2], 5)
        components, base = components_of(noisy(rng, truth, 300), 3)
        search = SlotSearch(components, truth, base, 3)
        before = search.value()
        escape(search, 20)
        np.testing.assert_array_equal(search.labels, truth)
        assert search.value() == before

    @pytest.mark.parametrize(("apart", "left"), [(0.0, 2), (0.02, 2), (6.0, 3)])
    def test_slots_that_evidence_does_not_part_are_joined(self, apart, left, rng):
        """Three groups of points, two of them as far apart as said, with a deviation of 0.3."""
        posteriors, search, _ = clusters(rng, [-20.0, 0.0, apart])
        vacate(search)
        assert len(set(search.labels)) == left
        merged = db.merge(posteriors, components=3)
        assert (merged.contribution["weights"][:, 0] > 0).sum() == left

    @pytest.mark.parametrize(("odds", "left"), [(0.5, 1), (0.65, 2)])
    def test_what_differs_by_more_than_noise_stays_apart_whatever_its_price(self, odds, left, rng):
        """Of 200 yes-or-no columns a Bayes factor would join the two groups."""
        model = db.BernoulliMixture(1, 200)
        share = np.where(np.arange(200) % 2 == 0, odds, 1.0 - odds)
        groups = [rng.random((12, 200)) < (share if site > 2 else 0.5) for site in range(6)]
        merged = db.merge([model.fit(1.0 * group, rng=rng).posterior for group in groups], components=2)
        assert (merged.contribution["weights"][:, 0] > 0).sum() == left

    def test_the_bayes_factor_is_that_of_the_points(self, rng):
        """log p(both) − log p(one) − log p(other) by SciPy, and what one weight in the place of two is worth."""
        _, search, points = clusters(rng, [-20.0, 0.0, 0.3])
        sizes = np.array([len(each) for each in points], dtype=float)
        pairs = np.array([0, 0, 1]), np.array([1, 2, 2])
        weights = weight_gain(search, sizes, *pairs)
        factors = bayes_factors(search)
        for first, second, weight in zip(*pairs, weights, strict=True):
            together = log_evidence(np.append(points[first], points[second]))
            expected = together - log_evidence(points[first]) - log_evidence(points[second]) + weight
            assert factors[first, second] == pytest.approx(expected, rel=1e-6, abs=1e-3)
        assert np.isinf(factors[np.tril_indices(3)]).all()
        means = np.array([each.mean() for each in points])
        bhattacharyya = (means[pairs[0]] - means[pairs[1]]) ** 2 / (8 * 0.09)
        np.testing.assert_allclose(0.5 * loss_per_pair(search, sizes, *pairs), bhattacharyya, rtol=1e-2, atol=1e-3)
        halves = 480.0 * np.log(2.0)
        overlap = np.log1p(np.exp(-bhattacharyya[2]))
        np.testing.assert_allclose(weights, [halves, halves, halves - 480.0 * overlap], rtol=1e-2)

    @pytest.mark.parametrize("covariance", ["spherical", "diagonal", "full"])
    def test_a_variance_of_their_own_is_no_reason_to_join_slots(self, covariance, rng):
        """Three rows close together are far from all others by their own variance; weights alone would join them."""
        model = db.GaussianMixture(1, 2, covariance=covariance)
        rows = [rng.normal(size=(15, 2)), 1.5 + 0.01 * rng.normal(size=(3, 2))]
        posteriors = [model.fit(each, rng=rng).posterior for each in rows]
        merged = db.align(posteriors, components=2)
        (coupled,) = merged.structure.symmetry
        problem = coupled_problem(posteriors, coupled, merged.structure)
        components = Components.of(problem.factors, problem.contents)
        search = SlotSearch(components, np.arange(2), bases(components.factors, 18.0, 2), 2)
        assert weight_gain(search, np.array([15.0, 3.0]), np.array([0]), np.array([1])) == pytest.approx(
            [0.0], abs=1e-9
        )
        parts = [model.fit(each, rng=rng).posterior.log_partition() for each in (np.concatenate(rows), *rows)]
        nothing = db.Posterior.of_prior(model.for_data(rows[0]).structure).log_partition()
        assert bayes_factors(search)[0, 1] == pytest.approx(parts[0] - parts[1] - parts[2] + nothing, rel=1e-9)


def clusters(rng, centres):
    """Six sites of forty points for each centre; who belongs together is known to the search."""
    model, structure = db.GaussianMixture(1, dimension=1, variance=0.09, prior_variance=2.0), mixture(len(centres))
    points = [rng.normal(centre, 0.3, size=(6, 40)) for centre in centres]
    sites = [model.fit(shard, rng=rng).posterior for each in points for shard in each]
    parts = [{"means": site.contribution["components"], "weights": site.contribution["weights"]} for site in sites]
    posteriors = [db.Posterior(mixture(1), part) for part in parts]
    problem = coupled_problem(posteriors, structure.symmetry[0], structure)
    components = Components.of(problem.factors, problem.contents)
    base = bases(components.factors, float(components.evidence.sum()), len(centres))
    search = SlotSearch(components, np.repeat(np.arange(len(centres)), 6), base, len(centres))
    return posteriors, search, [each.ravel() for each in points]


def log_evidence(points):
    """log p(points), the mean integrated out, less log p(points | mean 0): Σx ~ N(0, n σ² + n² τ) tells both apart."""
    count, total = len(points), points.sum()
    spread = stats.norm(0.0, np.sqrt(count * 0.09 + count**2 * 2.0)), stats.norm(0.0, np.sqrt(count * 0.09))
    return spread[0].logpdf(total) - spread[1].logpdf(total)


def shared_topics(rng, sites=6, topics_each=3, tokens=600):
    """Sites that have found three of the four topics each, two of them one in two halves; truth of each component."""
    posteriors, truths = [], []
    for site in range(sites):
        own = rng.permutation(4)[:topics_each]
        own = np.append(own, own[0]) if site < 2 else own
        counts = noisy(rng, own, tokens)
        posteriors.append(db.Posterior(topics(len(own), WORDS), {"topics": counts}))
        truths.append(own)
    return posteriors, truths


class TestGrouping:
    @pytest.mark.parametrize("seed", range(3))
    def test_components_meet_in_the_slot_of_their_topic(self, seed):
        posteriors, truths = shared_topics(np.random.default_rng(seed))
        alignment = db.align(posteriors, components=4)
        (coupled,) = alignment.structure.symmetry
        slots = np.concatenate([assignment[coupled] for assignment in alignment.assignments])
        assert same_groups(slots, np.concatenate(truths))
        merged = alignment.merged().contribution["topics"].toarray()
        expected = sum(p.contribution["topics"].toarray().sum(axis=0) for p in posteriors)
        np.testing.assert_allclose(merged.sum(axis=0), expected)
        assert alignment.optimality == "none"

    @pytest.mark.parametrize("kept", [0, 1 << 22])
    def test_more_sites_than_memory_holds_are_grouped_alike(self, rng, monkeypatch, kept):
        posteriors, truths = shared_topics(rng, sites=25)
        monkeypatch.setattr(grouping, "MOST_LOADED", 0)
        monkeypatch.setattr(grouping, "MOST_KEPT", kept)
        monkeypatch.setattr(grouping, "SAMPLED", 20)
        monkeypatch.setattr(grouping, "SITES_AT_A_TIME", 4)
        alignment = db.align(posteriors, components=4)
        (coupled,) = alignment.structure.symmetry
        slots = np.concatenate([assignment[coupled] for assignment in alignment.assignments])
        assert same_groups(slots, np.concatenate(truths))

    @pytest.mark.parametrize("kept", [0, 1 << 22])
    def test_of_more_sites_than_memory_holds_no_component_would_gain_elsewhere(self, rng, monkeypatch, kept):
        """Overlapping topics, of which a sample alone has most components in no slot."""
        truth = 0.25 * TRUTH + 0.75 / WORDS
        matrix = np.array([rng.multinomial(60, truth[number % 4]) for number in range(48)], dtype=float)
        for name, size in (("SITES_AT_A_TIME", 6), ("SAMPLED", 12), ("MOST_KEPT", kept), ("ROUNDS", 20)):
            monkeypatch.setattr(grouping, name, size)
        structure = topics(4, WORDS)
        posteriors = [db.Posterior(topics(1, WORDS), {"topics": row[None]}) for row in matrix]
        problem = coupled_problem(posteriors, structure.symmetry[0], structure)
        labels, best = grouping.Grouping()._sample_labels(problem, None), -np.inf
        for component in range(48):
            for slot in range(4):
                moved = np.where(np.arange(48) == component, slot, labels)
                best = max(best, value(matrix, moved, 4))
        assert value(matrix, labels, 4) == pytest.approx(best, rel=1e-9)

    @pytest.mark.parametrize("homes", [False, True])
    def test_compiled_visits_and_trees_decide_as_those_in_python(self, rng, monkeypatch, homes):
        """The same labels, cached gains and joins, whoever makes the loop."""
        matrix = np.array([rng.multinomial(60, 0.2 * TRUTH[number % 4] + 0.8 / WORDS) for number in range(40)])
        structure = topics(4, WORDS)
        posteriors = [db.Posterior(topics(1, WORDS), {"topics": row[None].astype(float)}) for row in matrix]
        problem = coupled_problem(posteriors, structure.symmetry[0], structure)
        components = Components.of(problem.factors, [*problem.contents])
        base, ends = bases(components.factors, 2400.0, 4), []
        for compiled in (True, False):
            if not compiled:
                monkeypatch.setattr(search_module, "Visiting", NoneType)
                monkeypatch.setattr(joins_module, "Growing", NoneType)
            home = np.arange(40) % 5 - 1 if homes else None
            search = SlotSearch(components, np.arange(40) % 4, base, 4, homes=home)
            tree = joins_module.greedy_joins(components, base, 3)
            ends.append((search.moves(), search.labels, search._gains, search._versions, tree.kept, tree.absorbed))
        for ours, plain in zip(*ends, strict=True):
            np.testing.assert_allclose(ours, plain, rtol=1e-12)
        assert ends[0][3].sum() > 4

    def test_a_sample_is_spread_over_the_larger_half(self, rng, monkeypatch):
        sizes = rng.permutation(40) + 1.0
        posteriors = [db.Posterior(topics(1, WORDS), {"topics": np.eye(1, WORDS) * size}) for size in sizes]
        structure = topics(4, WORDS)
        problem = coupled_problem(posteriors, structure.symmetry[0], structure)
        monkeypatch.setattr(grouping, "SITES_AT_A_TIME", 7)
        monkeypatch.setattr(grouping, "SAMPLED", 4)
        sample, places = grouping.sampled(problem, sizes)
        np.testing.assert_array_equal(sample.evidence, sizes[places])
        assert (np.diff(places) > 0).all()
        assert sorted(sample.evidence) == [21.0, 28.0, 34.0, 40.0]

    def test_blocks_are_searched_in_four_rounds_and_whoever_waits_sees_each(self, rng, monkeypatch):
        """Seven sites, two at a time: four blocks for the sample, one sweep of it, four blocks in each round."""
        posteriors, _ = shared_topics(rng, sites=7)
        for name, size in (("MOST_LOADED", 0), ("MOST_KEPT", 0), ("SITES_AT_A_TIME", 2)):
            monkeypatch.setattr(grouping, name, size)
        seen = []
        db.align(posteriors, components=4, progress=lambda: seen.append(1))
        assert len(seen) == 4 + 1 + 4 * 4

    @pytest.mark.parametrize(("typical", "least"), [(1000.0, 0.5), (10.0, 0.1), (1.0, 0.01)])
    def test_components_of_next_to_no_evidence_are_placed_last(self, typical, least):
        """Less than half an observation, and less than one in a hundred of a component's in the middle."""
        evidence = np.array([0.0, 0.0, 0.0, 0.9 * least, typical, typical, typical])
        assert grouping.least_evidence(evidence) == pytest.approx(least)

    def test_blocks_of_components_stand_where_they_belong(self, rng):
        posteriors, _ = shared_topics(rng, sites=7)
        structure = topics(4, WORDS)
        problem = coupled_problem(posteriors, structure.symmetry[0], structure)
        whole = Components.of(problem.factors, problem.contents)
        spans = []
        for span, part in chunks(problem, 3):
            spans += range(span.start, span.stop)
            np.testing.assert_array_equal(part.evidence, whole.evidence[span])
            np.testing.assert_array_equal(part.rows[0].written_out(), whole.rows[0].written_out()[span])
        assert spans == list(range(len(whole)))

    def test_where_there_is_room_every_component_keeps_a_slot_of_its_own(self, rng):
        matrix = noisy(rng, [0, 1, 2])
        posteriors = [db.Posterior(topics(1, WORDS), {"topics": row[None]}) for row in matrix]
        merged = db.merge(posteriors, components=3).contribution["topics"].toarray()
        assert sorted(map(tuple, merged)) == sorted(map(tuple, matrix))

    def test_what_says_next_to_nothing_follows_the_others(self, rng):
        """Seven sites with two topics and a trace of one: the trace takes no slot from what is real."""
        sites = []
        for site in range(7):
            rows = np.vstack([noisy(rng, [0, 1], 400), 1e-4 * TRUTH[site % 2][None]])
            sites.append(db.Posterior(topics(3, WORDS), {"topics": rows}))
        alignment = db.align(sites, components=2, solver=db.solvers.Grouping(passes=0))
        (coupled,) = alignment.structure.symmetry
        for site, assignment in enumerate(alignment.assignments):
            slots = assignment[coupled]
            assert slots[0] != slots[1]
            assert slots[2] == slots[site % 2]

    def test_too_many_are_searched_in_parts_unless_it_is_known_where_they_belong(self, monkeypatch):
        problem = problem_of(np.ones((4, 3)))
        assert not grouping.is_large(problem)
        monkeypatch.setattr(grouping, "MOST_SEARCHED", 3)
        assert grouping.is_large(problem)
        assert not grouping.is_large(replace(problem, since=problem.contents[0]))

    def test_bad_settings_are_refused(self):
        for wrong in ({"escapes": -1}, {"passes": -1}, {"passes": 1.5}):
            with pytest.raises((TypeError, ValueError)):
                db.solvers.Grouping(**wrong)
        for solver in (db.solvers.Matching, db.solvers.Quadratic):
            for wrong in ({"seed": -1}, {"seed": 0.5}, {"restarts": -1}):
                with pytest.raises((TypeError, ValueError)):
                    solver(**wrong)

    def test_a_prior_that_tells_slots_apart_keeps_them_in_their_places(self, rng):
        informed = topics(4, WORDS).with_prior({"topics": 30.0 * TRUTH - 1.0 + 0.05})
        sites = [db.Posterior(informed, {"topics": noisy(rng, order, 40)}) for order in ([2, 0, 2, 1], [3, 3, 1, 0])]
        alignment = db.align(sites)
        (coupled,) = informed.symmetry
        np.testing.assert_array_equal([each[coupled] for each in alignment.assignments], [[2, 0, 2, 1], [3, 3, 1, 0]])


def reference_division(matrix, labels, slots, prior, passes):
    """Expectation maximisation from its definition, every count's parts stored, with momentum from pass 2 on."""
    total = np.array([matrix[labels == slot].sum(axis=0) for slot in range(slots)])
    points = [(0.1 * np.eye(slots)[labels] + 0.9 / slots, rowwise(total + prior))]
    shares, profiles = points[0]
    for step in range(passes):
        parts = shares[:, :, None] * profiles[None]
        parts = parts / parts.sum(axis=1, keepdims=True) * matrix[:, None, :]
        points.append((rowwise(parts.sum(axis=2)), rowwise(parts.sum(axis=0) + prior)))
        pairs = zip(points[-1], points[-2], strict=True)
        shares, profiles = points[-1] if step == 0 else [rowwise(new * (new / old) ** 0.875) for new, old in pairs]
    shares, profiles = points[-1]
    return rowwise(np.where(shares < 1e-3, 0.0, shares)), profiles


def rowwise(values):
    return values / values.sum(axis=1, keepdims=True)


def explained(matrix, shares, profiles):
    return float((matrix * np.log(shares @ profiles)).sum())


def impure(rng):
    """Two sites that tell two topics apart, and one that has them both in one, four words to one."""
    apart = [noisy(rng, [0, 1], 300) for _ in range(2)]
    both = noisy(rng, [0], 160) + noisy(rng, [1], 40)
    return [db.Posterior(topics(len(rows), WORDS), {"topics": rows}) for rows in (*apart, both)]


class TestDivision:
    def test_it_is_expectation_maximisation(self, rng):
        posteriors = impure(rng)
        structure = topics(2, WORDS)
        problem = coupled_problem(posteriors, structure.symmetry[0], structure)
        labels = (np.array([0, 1]), np.array([0, 1]), np.array([1]))
        matrix = np.vstack([p.contribution["topics"].toarray() for p in posteriors])
        shares, profiles = reference_division(matrix, np.concatenate(labels), 2, 0.05, 7)
        for at_once in (1, 2, 3):
            found = division.divided(problem, labels, 7, at_once)
            np.testing.assert_allclose(np.vstack(found.shares), shares, rtol=1e-9)
            np.testing.assert_allclose(found.profiles.T, profiles, rtol=1e-9)

    def test_its_passes_go_farther_than_twice_as_many_plain_ones(self, rng):
        """Plain expectation maximisation is that of one pass, again and again."""
        matrix = rng.poisson(rng.dirichlet(np.full(40, 0.2), size=30) @ rng.gamma(0.3, 20.0, size=(40, 60)))
        structure, labels = topics(40, 60), (rng.integers(6, size=30),)
        problem = coupled_problem([db.Posterior(topics(30, 60), {"topics": matrix})], structure.symmetry[0], structure)
        start = np.full((30, 6), 0.9 / 6) + 0.1 * np.eye(6)[labels[0]]
        total = np.array([matrix[labels[0] == slot].sum(axis=0) for slot in range(6)]).T + 0.05
        blocks, prior = division.blocks_of_columns(problem, 1), np.full((60, 6), 0.05)
        plain = fast = (start, total / total.sum(axis=0))
        for _ in range(24):
            plain = division.climbed(blocks, prior, plain, 1)
        fast = division.climbed(blocks, prior, fast, 12)
        assert explained(matrix, fast[0], fast[1].T) > explained(matrix, plain[0], plain[1].T)

    def test_an_impure_topic_goes_to_both_and_every_count_stays(self, rng):
        posteriors = impure(rng)
        alignment = db.align(posteriors)
        merged = alignment.merged().contribution["topics"].toarray()
        total = sum(p.contribution["topics"].toarray().sum(axis=0) for p in posteriors)
        np.testing.assert_allclose(merged.sum(axis=0), total)
        first, second = merged[np.argsort(-merged[:, 0])]
        assert first[6:12].sum() < 0.01 * first.sum()
        assert second[:6].sum() < 0.01 * second.sum()
        (share,) = alignment.divisions[topics(2, WORDS).symmetry[0]].shares[2]
        np.testing.assert_allclose(np.sort(share), [0.2, 0.8], atol=0.05)
        assert not alignment.one_to_one
        whole = db.merge(posteriors, solver=db.solvers.Grouping(passes=0)).contribution["topics"].toarray()
        assert whole[np.argmax(whole[:, 0]), 6:12].sum() == 40.0
        slots = [alignment.in_slots(site).contribution["topics"].toarray() for site in range(3)]
        np.testing.assert_allclose(sum(slots), merged)

    def test_labels_and_order_change_nothing_but_the_order_of_slots(self, rng):
        posteriors = impure(rng)
        flipped = [
            db.Posterior(p.structure, {"topics": p.contribution["topics"].toarray()[::-1]}) for p in posteriors[::-1]
        ]
        ours, theirs = (db.merge(each).contribution["topics"].toarray() for each in (posteriors, flipped))
        assert sorted(map(tuple, ours)) == sorted(map(tuple, theirs))

    @pytest.mark.parametrize(("words", "enough"), [(16, True), (15, False)])
    def test_a_mixture_of_two_slots_is_known_from_sixteen_words_on(self, words, enough):
        """Of which it has any number, however little it gains."""
        rows = next(division.sparse_contents(problem_of(np.ones((1, words)))))
        same = np.full((1, 2), 0.5), np.full((words, 2), 1.0 / words)
        assert division.well_determined(rows, same, same).tolist() == [enough]

    def test_copies_have_nothing_to_be_divided(self, rng):
        posterior = db.Posterior(topics(2, WORDS), {"topics": noisy(rng, [0, 1])})
        alignment = db.align([posterior, posterior])
        assert not alignment.divisions
        assert alignment.one_to_one

    @pytest.mark.parametrize(("words", "divided"), [(25, False), (400, True)])
    def test_what_has_few_words_is_divided_only_if_it_gains_much(self, words, divided, rng):
        """Topics that overlap, of which each site has a noisy mixture: many words say what it is mixed of."""
        truth = rng.dirichlet(np.full(words, 0.3), size=4)
        mixed = [(0.8 * np.eye(4) + 0.2 * rng.dirichlet(np.ones(4), size=4)) @ truth for _ in range(6)]
        rows = [rng.multinomial(8 * words, each).astype(float) for each in mixed]
        sites = [db.Posterior(topics(4, words), {"topics": counts}) for counts in rows]
        assert bool(db.align(sites).divisions) == divided

    def test_counts_below_zero_are_not_divided(self, rng):
        rows = noisy(rng, [0, 1], 300)
        rows[0, 20] = -0.01
        posteriors = [*impure(rng)[:2], db.Posterior(topics(2, WORDS), {"topics": rows})]
        assert not db.align(posteriors).divisions


def exhaustive_value(matrix, slots):
    return max(value(matrix, np.array(labels), slots) for labels in product(range(slots), repeat=len(matrix)))


@pytest.mark.parametrize("seed", range(6))
def test_grouping_mostly_finds_the_best_of_all_groupings(seed):
    rng = np.random.default_rng(seed)
    matrix = rng.poisson(rng.gamma(0.3, 5.0, size=(8, 5))).astype(float) + 0.5
    posteriors = [db.Posterior(topics(1, 5), {"topics": row[None]}) for row in matrix]
    structure = topics(3, 5)
    task = Task(posteriors, *canonical_order(posteriors), db.solvers.Grouping(passes=0), None, None)
    solution = solve_canonically(task, structure.symmetry[0], structure)
    found = value(matrix, np.concatenate(solution.slots), 3)
    best = exhaustive_value(matrix, 3)
    assert found <= best + 1e-9
    assert found >= best - 0.01 * abs(best)
