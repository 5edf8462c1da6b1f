"""Compiled searches over short rows find what the plain ones find."""

from dataclasses import replace
from math import fsum

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

import decbayes as db
from decbayes.errors import InvalidPosterior
from decbayes.families import FAMILIES, Beta, DiagonalGaussian, IsotropicGaussian, NormalGamma, NormalWishart, Weights
from decbayes.families.rows import DenseRows
from decbayes.kernels.row_terms import KINDS, OUTSIDE, row_term
from decbayes.kernels.short_rows import best_assignment, forbid_undefined
from decbayes.merging.base.problem import Factor, Problem
from decbayes.merging.matching import placement as short_rows
from decbayes.merging.matching.placement import Placement, ShortRows, placed

COMPILED = [family for family in FAMILIES.values() if family.term is not None]
SETS = [
    (IsotropicGaussian(), Weights()),
    (DiagonalGaussian(), Weights()),
    (NormalGamma(), Weights()),
    (NormalWishart(), Weights()),
    (IsotropicGaussian(), Beta()),
]


def drawn_problem(families, rng, *, sites=7, components=5, dimension=3, noise=0.3):
    """Sites that have about the same contributions, in orders of their own."""
    factors, truth = [], []
    for family in families:
        prior = np.repeat(family.example(1, dimension, rng), components, axis=0)
        factors.append(Factor(family, prior))
        # From the apex on, the domain is a cone.
        truth.append(3.0 * (family.example(components, dimension, rng) - family.apex(prior.shape[1])))
    contents = []
    for _ in range(sites):
        order, share = rng.permutation(components), rng.uniform(1.0 - noise, 1.0 + noise, size=(components, 1))
        contents.append(tuple(DenseRows((share * rows)[order]) for rows in truth))
    return Problem(tuple(factors), tuple(contents))


def searched(placement):
    placement.fold(range(placement.problem.sites))
    placement.refresh()
    trace = [placement.objective()]
    while placement.rematch_all():
        placement.refresh()
        trace.append(placement.objective())
    return named_by_the_first(placement.assignments), trace


def named_by_the_first(assignments):
    """With one prior for all components rounding decides into which slots the first site goes."""
    return assignments[:, np.argsort(assignments[0])]


@pytest.mark.parametrize("families", SETS, ids=lambda families: families[0].name + families[1].name)
@pytest.mark.parametrize("seed", range(3))
def test_a_compiled_search_takes_the_same_steps(families, seed):
    problem = drawn_problem(families, np.random.default_rng(seed), noise=0.9)
    there, here = searched(ShortRows(problem)), searched(Placement(problem))
    np.testing.assert_array_equal(there[0], here[0])
    np.testing.assert_allclose(there[1], here[1], rtol=1e-12)


def test_sites_that_are_placed_already_are_matched_again(rng):
    problem = drawn_problem(SETS[0], rng)
    given = np.array([rng.permutation(problem.components) for _ in range(problem.sites)])
    found = []
    for state in (ShortRows(problem, given), Placement(problem, given)):
        while state.rematch_all():
            state.refresh()
        found.append(named_by_the_first(state.assignments))
    np.testing.assert_array_equal(*found)


def test_large_problems_and_other_families_are_searched_step_by_step(rng, monkeypatch):
    short, other = drawn_problem(SETS[2], rng), drawn_problem((FAMILIES["FullGaussian"], Weights()), rng)
    assert isinstance(placed(short), ShortRows)
    assert isinstance(placed(other), Placement)
    monkeypatch.setattr(short_rows, "MOST_NUMBERS", 1)
    assert isinstance(placed(short), Placement)


def test_what_would_leave_the_domain_is_avoided():
    """A contribution may be negative: here one that only its own partner can bear."""
    family = IsotropicGaussian()
    prior = family.natural(mean=np.zeros((2, 1)), variance=1.0)
    rich, poor = [[5.0, -4.0], [0.0, -0.1]], [[0.0, 0.2], [-1.0, 2.0]]
    problem = Problem((Factor(family, prior),), tuple((DenseRows(np.array(rows)),) for rows in (rich, poor)))
    there, here = searched(ShortRows(problem)), searched(Placement(problem))
    np.testing.assert_array_equal(there[0], here[0])
    assert there[1] == pytest.approx(here[1])
    assert np.isfinite(there[1][-1])


@pytest.mark.parametrize("family", COMPILED, ids=lambda family: family.name)
def test_terms_are_those_of_the_family(family, rng):
    width = family.example(1, 3, rng).shape[1]
    rows = family.example(200, 3, rng) + rng.choice([0.0, 3.0], size=(200, 1)) * rng.normal(size=(200, width))
    inside = family.contains_rows(rows)
    terms = np.array([row_term(KINDS[family.term], row, np.empty(len(row))) for row in rows])
    np.testing.assert_array_equal(terms == OUTSIDE, ~inside)
    np.testing.assert_allclose(terms[inside], family.row_terms(rows[inside]), rtol=1e-12, atol=1e-10)
    assert 20 < inside.sum() < 200


@pytest.mark.parametrize("values", [None, 2, 4], ids=["any", "two values", "four values"])
def test_assignments_are_those_of_scipy_ties_too(values, rng):
    for size in (1, 2, 3, 7, 20):
        for _ in range(20):
            gain = rng.normal(size=(size, size)) if values is None else rng.integers(values, size=(size, size)) * 1.0
            np.testing.assert_array_equal(best_assignment(gain), linear_sum_assignment(gain, maximize=True)[1])


def test_merges_in_memory_and_from_files_have_the_same_bits(tmp_path, rng):
    model = db.GaussianMixture(components=3, dimension=2, covariance="diagonal")
    shards = [rng.normal(size=(60, 2)) + 4.0 * rng.integers(3, size=(60, 1)) for _ in range(5)]
    posteriors = [model.fit(shard, rng=rng).posterior for shard in shards]
    paths = [tmp_path / f"{site}.posterior" for site in range(5)]
    for posterior, path in zip(posteriors, paths, strict=True):
        db.save(posterior, path)
    for solver in (db.solvers.Matching(), db.solvers.Hierarchical(fan_in=2)):
        assert db.merge(db.merging.Library(paths), solver=solver) == db.merge(posteriors, solver=solver)


def test_gains_that_are_no_numbers_end_no_search():
    """Huge numbers are forbidden places, or an error: never a search without an end."""
    for gain in ([[-np.inf, -np.inf], [0.0, 1.0]], [[np.nan, 0.0], [np.nan, 1.0]]):
        with pytest.raises(ValueError, match="too large"):
            best_assignment(np.array(gain))
        forbid_undefined(allowed := np.array(gain))
        assert np.isfinite(allowed).all()
        assert sorted(best_assignment(allowed)) == [0, 1]


def test_huge_posteriors_merge_or_are_refused():
    family = DiagonalGaussian()
    prior = np.repeat(family.natural(mean=np.zeros((1, 1)), variance=np.ones((1, 1))), 2, axis=0)
    structure = db.extending.Structure({"m": family}, {"m": prior}, (db.extending.CoupledSet(("m",)),))
    rows = [[[1.7e308, -58.4], [-1.02, -1e200]], [[-1e308, -1e154], [3.0, -2.0]], [[9e307, -1.0], [-9e307, -1e200]]]
    with np.errstate(all="ignore"):
        merged = db.merge(
            [db.Posterior(structure, {"m": np.array(each)}) for each in rows], solver=db.solvers.Matching()
        )
    expected = [fsum(value) for value in np.reshape(rows, (6, 2)).T]
    np.testing.assert_allclose(merged.contribution["m"].sum(axis=0), expected, rtol=1e-12)
    largest = db.Posterior(structure, {"m": np.array([[1.7e308, -2.0], [1.7e308, -2.0]])})
    with np.errstate(all="ignore"), pytest.raises(InvalidPosterior, match="infinite"):
        db.merge([largest, largest], solver=db.solvers.Matching(), duplicates="allow")


def test_a_family_made_from_another_is_not_taken_for_it(rng):
    class Tempered(Beta):
        def row_terms(self, natural):
            return 3.0 * super().row_terms(natural)

    problem = drawn_problem((Beta(),), rng)
    (factor,) = problem.factors
    assert isinstance(placed(problem), ShortRows)
    assert isinstance(placed(replace(problem, factors=(replace(factor, family=Tempered()),))), Placement)
