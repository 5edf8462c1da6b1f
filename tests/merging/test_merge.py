"""Merging is Bayes' rule, and a pure function of a set of posteriors."""

import os
import subprocess
import sys
from functools import partial
from itertools import permutations

import numpy as np
import pytest
from draws import ONE_SIDED
from hypothesis import given, settings
from hypothesis import strategies as st
from structures import draw, everything, mixture, relabel, single, topics

import decbayes as db
from decbayes.errors import InvalidStructure, NothingToMerge, OutOfDomain, StructureMismatch, TooManyRelabellings
from decbayes.extending import CoupledSet
from decbayes.families import Dirichlet, IsotropicGaussian, Weights

QUICK = db.Ascent(60, 1e-4, restarts=3)
SOLVERS = [
    db.solvers.Grouping(),
    db.solvers.Matching(),
    db.solvers.Matching(restarts=0),
    db.solvers.Swaps(),
    db.solvers.Exhaustive(),
    db.solvers.Hierarchical(fan_in=2),
]


def same_up_to_slot_order(first, second):
    """Whether one common relabelling of each coupled set makes two posteriors equal, bit for bit."""
    for coupled in first.structure.symmetry:
        ours = sorted(
            tuple(np.concatenate([first.natural[n][k] for n in coupled.factors])) for k in slots(first, coupled)
        )
        theirs = sorted(
            tuple(np.concatenate([second.natural[n][k] for n in coupled.factors])) for k in slots(second, coupled)
        )
        if ours != theirs:
            return False
    return True


def slots(posterior, coupled):
    return range(posterior.structure.components(coupled))


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
@settings(max_examples=4)
@given(seed=st.integers(0, 10**6))
def test_order_does_not_change_a_bit_and_labels_only_the_order_of_slots(solver, seed):
    rng = np.random.default_rng(seed)
    posteriors = [draw(everything(), rng) for _ in range(4)]
    shuffled = [posteriors[i] for i in rng.permutation(4)]
    merged = db.merge(posteriors, solver=solver)
    assert db.merge(shuffled, solver=solver) == merged
    assert db.merging.product(posteriors) == db.merging.product(shuffled)
    relabelled = [relabel(posterior, rng) for posterior in posteriors]
    assert same_up_to_slot_order(db.merge(relabelled, solver=solver), merged)


@given(seed=st.integers(0, 10**6))
def test_one_posterior_is_its_own_merge(seed):
    posterior = draw(everything(), np.random.default_rng(seed))
    assert db.merge([posterior]) == posterior
    assert db.merging.product([posterior]) == posterior
    informed = everything().with_prior(posterior.natural)
    other = db.Posterior(informed, draw(everything(), np.random.default_rng(seed + 1)).contribution)
    assert db.merge([other]) == other


@pytest.mark.parametrize("name", ONE_SIDED)
def test_copies_that_differ_only_in_labels_add_up(name, rng):
    structure = single(name, 3, 2)
    posterior = draw(structure, rng)
    merged = db.merge([posterior, relabel(posterior, rng), relabel(posterior, rng)], duplicates="allow")
    tripled = db.Posterior(structure, {"factor": 3 * posterior.contribution["factor"]})
    np.testing.assert_allclose(
        np.sort(merged.natural["factor"], axis=0), np.sort(tripled.natural["factor"], axis=0), rtol=1e-12, atol=1e-12
    )


def test_copies_that_differ_only_in_labels_may_come_in_any_order(rng):
    posterior = draw(everything(), rng)
    copies = [posterior, relabel(posterior, rng), relabel(posterior, rng)]
    results = {db.merge(order) for order in permutations(copies)}
    assert len(results) == 1


@pytest.mark.parametrize("less", [-0.3, -0.03])
def test_doubt_under_a_prior_that_tells_components_apart_may_come_in_any_order(less):
    """A component may be less certain than its own prior allows others to be; such pairs must not decide the order."""
    gaussian = IsotropicGaussian().natural(mean=[[0.0], [3.0], [9.0]], variance=[0.1, 1.0, 100.0])
    topics = Dirichlet().natural(alpha=[[5.0, 5.0], [0.05, 5.0], [0.01, 0.01]])
    families = {"means": IsotropicGaussian(), "topics": Dirichlet()}
    sets = CoupledSet(("means",)), CoupledSet(("topics",))
    structure = db.extending.Structure(families, {"means": gaussian, "topics": topics}, sets)
    posteriors = [
        db.Posterior(
            structure,
            {
                "means": [[0.1 * i, 1.0 - 0.1 * i], [0.1, -0.1 - 0.2 * i], [0.3 * i, less]],
                "topics": [[i + less, less], [0.7, i + less], [i, 0.3]],
            },
        )
        for i in range(3)
    ]
    results = {db.merge(order) for order in permutations(posteriors)}
    assert len(results) == 1


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_evidence_beyond_all_bounds_may_come_in_any_order(rng):
    structure = topics(3, 6)
    posteriors = [db.Posterior(structure, {"topics": 1e306 * rng.random((3, 6))}) for _ in range(3)]
    assert len({db.merge(order) for order in permutations(posteriors)}) == 1


def test_the_seed_of_string_hashes_changes_nothing():
    """Two machines agree on the order of posteriors that bring equally much evidence."""
    program = """
from decbayes import Posterior
from decbayes.extending import Structure
from decbayes.families import IsotropicGaussian
from decbayes.merging.base.canonical import canonical_readings
family, names = IsotropicGaussian(), "abcdef"
prior = family.natural(mean=[[0.0]], variance=1.0)
structure = Structure({name: family for name in names}, {name: prior for name in names})
print(canonical_readings([Posterior(structure, {name: [[index, -1.0]] for index, name in enumerate(names)})])[0].rank)
"""
    run = partial(subprocess.run, [sys.executable, "-c", program], capture_output=True, check=True, timeout=60)
    first, second = (run(env={**os.environ, "PYTHONHASHSEED": seed}).stdout for seed in ("1", "2"))
    assert first == second


def test_any_iterable_of_posteriors_merges_alike(rng):
    posteriors = [draw(everything(), rng) for _ in range(3)]
    named = dict(zip("abc", posteriors, strict=True))
    assert db.merge(named.values()) == db.merge(iter(posteriors)) == db.merge(posteriors)
    assert db.merging.product(named.values()) == db.merging.product(tuple(posteriors))


def test_factors_without_symmetry_merge_as_they_are(rng):
    posteriors = [draw(everything(), rng) for _ in range(3)]
    total = sum(posterior.contribution["offset"] for posterior in posteriors)
    np.testing.assert_allclose(db.merge(posteriors).contribution["offset"], total, rtol=1e-14)


def test_the_conjugate_gaussian_equals_batch():
    """Figure 1: μ = 1, σ² = 1, prior N(0, 2), ten agents with ten points each."""
    model = db.models.GaussianMean(variance=1.0, prior_mean=0.0, prior_variance=2.0, dimension=1)
    points = np.random.default_rng(1).normal(1.0, 1.0, size=(10, 10))
    merged = db.merge([model.fit(shard).posterior for shard in points])
    precision = 1 / 2 + 100 / 1
    assert merged.mean("mean")[0, 0] == pytest.approx(points.sum() / precision, rel=1e-12)
    assert merged.parameters("mean")["variance"][0] == pytest.approx(1 / precision, rel=1e-12)
    batch = model.fit(points.ravel()).posterior
    np.testing.assert_allclose(merged.natural["mean"], batch.natural["mean"], rtol=1e-12)


def test_the_mixture_of_the_paper_is_merged_almost_as_well_as_fitted():
    """Section 2.2 and 3.1: ten agents with three points each, against one that has all thirty."""
    model = db.GaussianMixture(
        3, dimension=1, variance=0.09, prior_mean=0.0, prior_variance=2.0, weight_prior=1.0, ascent=QUICK
    )
    scores = {"batch": [], "amps": [], "naive": []}
    for seed in range(6):
        rng = np.random.default_rng(seed)
        component = rng.choice(3, size=1030, p=[0.6, 0.3, 0.1])
        points = rng.normal(np.array([1.0, -1.0, 3.0])[component], 0.3)
        train, held_out = points[:30], points[30:]
        posteriors = [model.fit(shard, rng=rng).posterior for shard in train.reshape(10, 3)]
        merged = {
            "batch": model.fit(train, rng=rng).posterior,
            "amps": db.merge(posteriors, components=3),
            "naive": db.merging.product(posteriors),
        }
        for method, posterior in merged.items():
            scores[method].append(model.log_predictive(posterior, held_out).mean())
    batch, amps, naive = (np.mean(scores[method]) for method in ("batch", "amps", "naive"))
    assert amps > batch - 0.06
    assert naive < batch - 2.0


def test_withdrawal_is_the_merge_of_the_others(rng):
    posteriors = [draw(mixture(3), rng) for _ in range(5)]
    everyone = db.merge(posteriors)
    without = db.merge(posteriors[:2] + posteriors[3:])
    assert without != everyone
    assert without == db.merge([posteriors[i] for i in (4, 0, 3, 1)])


def loss_elsewhere(alignment, agent, slot, places):
    """What J loses at least, by enumeration, when the component in that slot must go to none of these places."""
    (coupled,) = alignment.posteriors[0].structure.symmetry
    component, others = alignment.permutations[agent][coupled][slot], []
    for order in permutations(range(len(alignment.permutations[agent][coupled]))):
        if order[component] not in places:
            changed = list(alignment.assignments)
            changed[agent] = {coupled: np.array(order)}
            others.append(db.merging.objective(alignment.posteriors, changed))
    return alignment.objective[-1] - max(others)


class TestMargins:
    def test_a_margin_is_what_the_next_best_assignment_loses(self, rng):
        structure = mixture(4)
        posteriors = [draw(structure, rng) for _ in range(3)]
        alignment = db.align(posteriors, solver=db.solvers.Exhaustive())
        (coupled,) = structure.symmetry
        for agent, margins in enumerate(db.merging.margins(alignment)):
            for slot, component in enumerate(alignment.permutations[agent][coupled]):
                expected = loss_elsewhere(alignment, agent, slot, [slot])
                assert margins[coupled][component] == pytest.approx(expected, abs=1e-9)

    def test_slots_that_nobody_else_fills_are_one_place(self):
        """Four slots for two topics a site, one of them shared: to sit alone in one or in another is no difference."""
        shared, left, right = np.eye(3) * 9.0
        nothing = np.zeros(3)
        sites = (shared, left, nothing, nothing), (nothing, right, nothing, shared), (nothing, nothing, shared, nothing)
        posteriors = [db.Posterior(topics(4, 3), {"topics": np.array(rows)}) for rows in sites]
        alignment = db.align(posteriors, solver=db.solvers.Exhaustive())
        (coupled,) = alignment.posteriors[0].structure.symmetry
        filled, margins = db.merging.support(alignment, coupled) > 0, db.merging.margins(alignment)
        for agent, relabelling in enumerate(alignment.permutations):
            np.testing.assert_array_equal(filled[agent], np.any(sites[agent], axis=1)[relabelling[coupled]])
        assert sorted(filled.sum(axis=0)) == [0, 1, 1, 3], "two topics are alone"
        for agent, slot in np.argwhere(filled):
            vacant = ~np.delete(filled, agent, axis=0).any(axis=0)
            expected = loss_elsewhere(alignment, agent, slot, np.flatnonzero(vacant) if vacant[slot] else [slot])
            component = alignment.permutations[agent][coupled][slot]
            assert margins[agent][coupled][component] == pytest.approx(expected, abs=1e-9)
            assert expected > 1e-3

    def test_where_the_prior_tells_slots_apart_empty_ones_are_different_places(self, rng):
        uneven = topics(3, 4).with_prior({"topics": np.linspace(0.1, 2.0, 12).reshape(3, 4)})
        alignment = db.align([draw(uneven, rng), db.Posterior.of_prior(uneven)], solver=db.solvers.Exhaustive())
        (coupled,) = uneven.symmetry
        expected = [loss_elsewhere(alignment, 0, slot, [slot]) for slot in range(3)]
        np.testing.assert_allclose(
            db.merging.margins(alignment)[0][coupled][alignment.permutations[0][coupled]], expected, atol=1e-9
        )

    def test_an_assignment_that_is_not_optimal_has_negative_margins(self, rng):
        structure = mixture(3)
        posteriors = [draw(structure, rng) for _ in range(2)]
        best = db.align(posteriors, solver=db.solvers.Matching())
        (coupled,) = structure.symmetry
        wrong = [best.assignments[0], {coupled: np.roll(best.assignments[1][coupled], 1)}]
        worse = db.merging.Alignment(
            tuple(wrong), (db.merging.objective(posteriors, wrong),), tuple(posteriors), (0, 1), structure
        )
        gap = best.objective[-1] - worse.objective[-1]
        np.testing.assert_allclose(db.merging.margins(worse)[1][coupled], -gap, rtol=1e-9)

    def test_a_single_component_has_no_alternative(self, rng):
        posteriors = [draw(mixture(1), rng) for _ in range(2)]
        (margin,) = db.merging.margins(db.align(posteriors))[0].values()
        assert margin.tolist() == [np.inf]

    def test_twins_are_matched_by_a_hair(self):
        structure = topics(3, 6)
        twins = np.array([[9.0, 1, 0, 0, 0, 0], [9.0, 1, 0, 0, 0, 0], [0, 0, 0, 0, 5, 5]])
        alignment = db.align([db.Posterior(structure, {"topics": twins})] * 2)
        (margin,) = db.merging.margins(alignment)[0].values()
        np.testing.assert_allclose(margin[:2], 0.0, atol=1e-9)
        assert margin[2] > 5


class TestPadding:
    def test_padding_adds_components_that_saw_nothing(self, rng):
        small, large = mixture(2), mixture(4)
        posterior = draw(small, rng)
        padded = db.merging.pad(posterior, large)
        np.testing.assert_array_equal(padded.natural["means"][:2], posterior.natural["means"])
        np.testing.assert_array_equal(padded.natural["means"][2:], large.prior["means"][2:])
        assert padded.structure == large
        assert db.merge([padded, draw(large, rng)]).structure == large

    def test_sparse_factors_stay_sparse(self, rng):
        padded = db.merging.pad(draw(topics(2, 8), rng), topics(5, 8))
        assert padded.contribution["topics"].shape == (5, 8)
        assert padded.contribution["topics"].nnz == padded.contribution["topics"][:2].nnz

    def test_a_number_of_components_is_enough_where_they_share_a_prior(self, rng):
        posterior = draw(topics(2, 8), rng)
        assert db.merging.pad(posterior, 5) == db.merging.pad(posterior, topics(5, 8))
        assert db.merging.pad(posterior, np.int64(2)) == posterior
        np.testing.assert_array_equal(
            db.merging.pad(posterior, 4).untouched(CoupledSet(("topics",))), [False] * 2 + [True] * 2
        )

    def test_wider_merges_keep_apart_what_only_one_site_has_found(self):
        """Two sites share one topic; three slots hold the three different topics whole, two cannot."""
        shared, left, right = np.eye(3) * 90.0
        sites = [db.Posterior(topics(2, 3), {"topics": np.array(rows)}) for rows in ((shared, left), (right, shared))]
        wide = db.merge(db.merging.pad(site, 3) for site in sites).contribution["topics"].toarray()
        assert sorted(map(tuple, wide)) == sorted(map(tuple, (2 * shared, left, right)))
        assert db.merge(sites).contribution["topics"].toarray().max(axis=1).sum() < wide.max(axis=1).sum()

    def test_a_slot_to_spare_repairs_matching_of_sites_that_split_a_cluster(self):
        """The paper's mixture, ten points a site: many have not seen the rare cluster and split a common one.

        The default solver needs no slot to spare: what a site has split, it puts together again.
        """
        model = db.GaussianMixture(components=3, dimension=1, variance=0.09, prior_variance=2.0, ascent=QUICK)
        losses = {3: [], 4: [], "grouped": []}
        for seed in range(4, 16):
            rng = np.random.default_rng(seed)
            points = rng.normal(rng.choice([1.0, -1.0, 3.0], size=600, p=[0.6, 0.3, 0.1]), 0.3)
            data, new = points[:100], points[100:]
            sites = [model.fit(shard, rng=rng).posterior for shard in np.split(data, 10)]
            batch = model.log_predictive(model.fit(data, rng=rng).posterior, new).mean()
            for slots, lost in losses.items():
                if slots == "grouped":
                    merged = db.merge(sites)
                else:
                    merged = db.merge(sites, components=slots, solver=db.solvers.Matching())
                lost.append(batch - db.model_for(merged.structure).log_predictive(merged, new).mean())
        assert np.mean(losses["grouped"]) < 0.01
        assert max(losses["grouped"]) < 0.1
        assert max(losses[3]) > 0.2
        assert max(losses[4]) < 0.1
        assert np.mean(losses[4]) < np.mean(losses[3]) / 3

    def test_components_with_priors_of_their_own_cannot_be_multiplied(self, rng):
        uneven = topics(2, 8).with_prior({"topics": np.linspace(0.1, 1.0, 16).reshape(2, 8)})
        for structure in (uneven, everything()):
            with pytest.raises(InvalidStructure, match="Build the structure"):
                db.merging.pad(draw(structure, rng), 9)
        with pytest.raises(StructureMismatch, match="the larger one must be the target"):
            db.merging.pad(draw(topics(2, 8), rng), 1)

    @pytest.mark.parametrize(
        "target", [mixture(2), topics(5, 8), single("Beta", 4, 2)], ids=["smaller", "other", "another"]
    )
    def test_only_the_number_of_components_may_differ(self, target, rng):
        with pytest.raises(StructureMismatch, match="padded"):
            db.merging.pad(draw(mixture(3), rng), target)

    def test_factors_that_are_not_relabelled_together_elsewhere_are_no_padding(self, rng):
        """Rows of one factor cannot be cut without those of the other."""
        coupled, free = mixture(3), mixture(2)
        prior = {"means": free.prior["means"], "weights": coupled.prior["weights"]}
        loose = db.extending.Structure(coupled.families, prior, (), model=dict(coupled.model))
        for call in (
            lambda: db.merging.pad(draw(loose, rng), coupled),
            lambda: db.merge([draw(coupled, rng), draw(loose, rng)]),
        ):
            with pytest.raises(StructureMismatch):
                call()

    def test_numbers_of_components_may_differ_but_nothing_else(self, rng):
        posteriors = [draw(mixture(3), rng), draw(mixture(4), rng)]
        for solver in (None, db.solvers.Matching()):
            assert db.merge(posteriors, solver=solver).structure == mixture(4)
            assert db.merge(posteriors, components=6, solver=solver).structure == mixture(6)
        assert db.merge(posteriors, components=2).structure == mixture(2)
        with pytest.raises(StructureMismatch, match="at least 4 slots are needed"):
            db.merge(posteriors, components=3, solver=db.solvers.Matching())
        with pytest.raises(StructureMismatch, match="3 × 2 in one and 4 × 2 in the other"):
            db.merging.product(posteriors)
        other = topics(4, 9).with_prior({"topics": topics(4, 9).prior["topics"] + 1.0})
        with pytest.raises(StructureMismatch, match=r"other\. Posteriors merge only"):
            db.merge([draw(topics(3, 8), rng), draw(other, rng)])


class TestSymmetrized:
    def test_density_is_the_mean_over_all_relabellings(self, rng):
        posterior = draw(everything(), rng)
        draws = posterior.sample(4, rng)
        expected = np.full(4, -np.inf)
        for first in permutations(range(3)):
            for second in permutations(range(4)):
                rows = {"means": list(first), "weights": list(first), "topics": list(second), "offset": [0]}
                density = sum(
                    family.log_density(posterior.natural[name][rows[name]], draws[name])
                    for name, family in posterior.structure.families.items()
                )
                expected = np.logaddexp(expected, density - np.log(6 * 24))
        np.testing.assert_allclose(db.merging.symmetrize(posterior).log_density(draws), expected, rtol=1e-9)

    @pytest.mark.parametrize("structure", [everything(), single("NormalWishart", 3, 2), single("NormalGamma", 3, 2)])
    def test_samples_treat_all_components_alike(self, structure, rng):
        posterior = draw(structure, rng)
        for coupled in structure.symmetry:
            name = coupled.factors[0]
            family = structure.families[name]
            draws = family.statistics(db.merging.symmetrize(posterior).sample(20_000, rng)[name])
            overall = family.expected_statistics(posterior.natural[name]).mean(axis=0)
            error = draws.std(axis=0) / np.sqrt(len(draws))
            assert (np.abs(draws.mean(axis=0) - overall) < 5 * error).all()

    def test_sampling_keeps_coupled_factors_together(self, rng):
        structure = mixture(3)
        far = {
            "means": IsotropicGaussian().natural(mean=[[-50.0], [0.0], [50.0]], variance=1e-4),
            "weights": Weights().natural(alpha=[1e6, 1e7, 1e8]),
        }
        draws = db.merging.symmetrize(db.Posterior.from_natural(structure, far)).sample(50, rng)
        order = np.argsort(draws["means"][:, :, 0], axis=1)
        np.testing.assert_array_equal(order, np.argsort(draws["weights"], axis=1))
        assert len({tuple(row) for row in order}) == 6

    def test_many_components_have_samples_but_no_density(self, rng):
        symmetric = db.merging.symmetrize(draw(mixture(30), rng))
        draws = symmetric.sample(2, rng)
        with pytest.raises(TooManyRelabellings, match="30!"):
            symmetric.log_density(draws)


class TestBadInput:
    def test_a_posterior_that_is_given_twice_is_named(self, rng):
        model = db.models.GaussianMean(variance=1.0)
        first, second = (model.fit(rng.normal(size=(5, 1))).posterior for _ in range(2))
        with pytest.raises(StructureMismatch, match="posterior 2 is the same posterior as posterior 0"):
            db.merge([first, second, first])
        twice = db.merge([first, second, first], duplicates="allow")
        np.testing.assert_allclose(
            twice.contribution["mean"], 2 * first.contribution["mean"] + second.contribution["mean"]
        )
        nothing = db.Posterior.of_prior(first.structure)
        assert db.merge([first, nothing, nothing]) == first

    def test_nothing_to_merge(self):
        for merge in (db.merge, db.merging.product, db.align):
            with pytest.raises(NothingToMerge, match="no posteriors"):
                merge([])

    def test_a_merge_that_leaves_the_domain_names_the_guilty(self, rng):
        structure = topics(2, 4)
        doubtful = db.Posterior(structure, {"topics": np.full((2, 4), -0.03)})
        honest = db.Posterior(structure, {"topics": np.full((2, 4), 0.01)})
        with pytest.raises(OutOfDomain, match=r"'topics', component 0: posterior 1, 2 is less certain"):
            db.merge([honest, doubtful, doubtful], duplicates="allow")
        with pytest.raises(OutOfDomain, match="posterior 1, 2"):
            db.merging.product([honest, doubtful, doubtful])

    def test_a_doubtful_component_goes_where_evidence_outweighs_it(self):
        structure = topics(2, 2)
        doubtful = db.Posterior(structure, {"topics": np.array([[-0.04, 3.0], [3.0, 0.0]])})
        sure = db.Posterior(structure, {"topics": np.array([[0.0, 5.0], [5.0, 0.0]])})
        merged = db.merge([doubtful, doubtful, sure], duplicates="allow")
        assert (merged.parameters("topics")["alpha"] > 0).all()

    @pytest.mark.parametrize(
        ("other", "reason"),
        [
            (single("Beta", 3, 2), "factor"),
            (
                db.GaussianMixture(components=3, dimension=1, variance=0.1).structure,
                "different models, .* and GaussianMixture",
            ),
        ],
    )
    def test_other_structures_are_refused(self, other, reason, rng):
        with pytest.raises(StructureMismatch, match=reason):
            db.merge([draw(mixture(3), rng), draw(other, rng)])

    def test_different_known_variances_are_refused(self, rng):
        first, second = (db.GaussianMixture(components=2, dimension=1, variance=v) for v in (0.09, 1.0))
        posteriors = [model.fit([0.0, 1.0], rng=rng).posterior for model in (first, second)]
        with pytest.raises(StructureMismatch, match=r"variance is 0.09 in one and 1.0"):
            db.merge(posteriors)

    def test_different_vocabularies_are_refused(self, rng):
        other = db.extending.Structure(
            topics(2, 8).families, topics(2, 8).prior, topics(2, 8).symmetry, {"topics": tuple("abcdefgh")}, {"topics"}
        )
        with pytest.raises(StructureMismatch, match="column 0 is 'word0' in one and 'a' in the other"):
            db.merge([draw(topics(2, 8), rng), draw(other, rng)])

    def test_wrong_permutations_are_refused(self, rng):
        posteriors = [draw(mixture(3), rng) for _ in range(2)]
        (coupled,) = mixture(3).symmetry
        with pytest.raises(StructureMismatch, match="from 0 to 2"):
            db.merging.objective(posteriors, [{coupled: np.arange(3)}, {coupled: np.arange(1, 4)}])
        with pytest.raises(StructureMismatch, match="2 posteriors and 1"):
            db.merging.objective(posteriors, [{coupled: np.arange(3)}])
