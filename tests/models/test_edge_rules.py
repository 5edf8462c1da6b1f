"""Rules at their edges: the last number that is allowed, the first that is not, and the least there can be."""

import ast

import numpy as np
import pytest

import decbayes as db
from decbayes.errors import InvalidCharter, InvalidData, InvalidStructure
from decbayes.families import Gamma
from decbayes.families.dirichlets.relevance import relevance
from decbayes.families.registry import name_of
from decbayes.merging.base.problem import Factor
from decbayes.merging.reading._parties import usual_groups
from decbayes.merging.robust.votes import coefficients
from decbayes.models.core.persons import Persons
from decbayes.models.likelihoods.real import real_likelihood
from decbayes.models.regressions.formulas.expressions import combined
from decbayes.models.regressions.poisson import quantile
from decbayes.models.tables.tabular import columns_text
from decbayes.network.protocol.group._charter_file import beside


def test_a_person_may_have_as_many_rows_as_was_promised():
    persons = Persons.of(["Kim", "Lee", "Kim"])
    persons.check_most(3, 2)
    with pytest.raises(InvalidData, match="has 2 rows"):
        persons.check_most(3, 1)


@pytest.mark.parametrize("covariance", ["diagonal", "full"])
def test_infinite_values_are_outside_whatever_the_covariance(covariance):
    points = np.array([[1.0, np.inf], [2.0, 3.0], [np.nan, np.nan], [1e200, 0.0]])
    outside = real_likelihood(covariance).outside(points)
    np.testing.assert_array_equal(outside.any(axis=1), [True, False, False, True])


def test_a_power_of_zero_is_one_at_most():
    assert combined(ast.Pow, (-2.0, 3.0), (0.0, 0.0))[1] == 1.0


@pytest.mark.parametrize("variance", [0.5, 9.0, 36.0])
def test_counts_of_any_variance_have_their_share_below_the_quantile(variance, rng):
    mean = np.array([0.3])
    found = quantile(mean, np.array([variance]), 0.98)[0]
    rates = np.exp(mean + np.sqrt(variance) * rng.standard_normal(200_000))
    drawn = rng.poisson(np.minimum(rates, 1e15))
    assert np.mean(drawn <= found) == pytest.approx(0.98, abs=0.004)


def test_a_list_of_columns_names_each_under_what_it_holds():
    columns = {"age": db.columns.Gaussian(50, 10), "ill": db.columns.YesNo(), "old": db.columns.YesNo()}
    assert columns_text(columns) == "yes/no: ill, old; real: age"


@pytest.mark.parametrize(("sites", "group"), [(9, (0, 4, 8)), (6, (1, 2)), (5, (4,))])
def test_usual_groups_are_as_large_and_share_no_site(sites, group):
    found = usual_groups(range(sites), group)
    assert len(found) > 1
    assert all(len(other) == len(group) and not {*other} & {*group} for other in found)


@pytest.mark.parametrize("side", [1, 2, 3])
def test_vectors_of_two_coefficients_or_more_are_compared_one_by_one(side, rng):
    model = db.LinearRegression("y", columns={"y": "real", **{f"x{k}": "real" for k in range(side - 1)}})
    rows = rng.normal(size=(30, side))
    posterior = model.fit(rows, rng=1).posterior
    (name,) = posterior.structure.families
    factor = Factor(posterior.structure.families[name], posterior.structure.prior[name])
    assert (coefficients(factor, posterior.contribution[name]) is None) == (side == 1)


def test_rows_of_evidence_below_one_count_by_their_shares(rng):
    shares = rng.dirichlet(np.ones(4), 2)
    expected = np.log(shares) - 0.2 * np.log(np.array([0.25, 0.75]) @ shares)
    np.testing.assert_allclose(relevance(shares, np.array([0.1, 0.3]), 0.2), expected)


def test_families_are_registered_as_what_they_are():
    assert name_of(Gamma()) == "Gamma"
    with pytest.raises(TypeError, match="takes a family"):
        name_of(Gamma)


def test_methods_of_a_posterior_take_nothing_else():
    with pytest.raises(TypeError, match="posterior"):
        db.LinearRegression("y", columns={"y": "real"}).coefficients({"y": 1.0})


def test_a_formula_may_have_a_power_of_one(rng):
    frame = {name: rng.normal(size=9) for name in "xyz"}
    assert db.LinearRegression.from_frame(frame, "y ~ (x + z)^1").terms == ("x", "z")
    with pytest.raises(InvalidStructure, match="from 1 to 9"):
        db.LinearRegression.from_frame(frame, "y ~ (x + z)^0")


def test_documents_of_a_single_word_have_shares():
    words = ("ball", "goal", "vote", "law")
    counts = np.array([[5, 4, 0, 0], [0, 0, 4, 5]] * 9 + [[1, 0, 0, 0], [0, 0, 0, 0]])
    posterior = db.LatentDirichletAllocation(2, words).fit(counts, rng=0).posterior
    assert db.texts.prevalence(posterior, counts).group().documents == 19


@pytest.mark.parametrize("name", ["../words.txt", "/words.txt", "folder/words.txt"])
def test_charters_name_files_beside_them(name, tmp_path):
    (tmp_path / "words.txt").write_text("a\n")
    assert beside(tmp_path / "charter.toml", "words.txt") == tmp_path / "words.txt"
    with pytest.raises(InvalidCharter, match="not beside it"):
        beside(tmp_path / "charter.toml", name)


def test_a_site_of_few_rows_is_drawn_with_groups_inside_it():
    model = db.LinearRegression(
        "y", columns={"y": "real"}, varying=("intercept",), by="site", varying_within=("intercept",), within="ward"
    )
    assert len(db.simulate(model, 6, rng=1, rows=2).data) == 6
