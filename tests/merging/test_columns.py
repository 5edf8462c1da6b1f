"""The same words in another order are the same words."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

import decbayes as db
from decbayes.errors import StructureMismatch
from decbayes.merging.base.compatibility import same_columns
from decbayes.remarks import Remark

WORDS = ("apple", "pear", "plum", "saw")
PRIOR = np.array([0.1, 0.2, 0.3, 0.4])


def topics(words, counts):
    """A posterior whose columns are in the order of `words`; counts and prior are given in that of WORDS."""
    order = [WORDS.index(word) for word in words]
    model = db.LatentDirichletAllocation(2, tuple(words), topic_prior=PRIOR[order])
    return db.Posterior(model.structure, {"topics": np.asarray(counts, dtype=float)[:, order]})


def by_word(posterior):
    """Each topic as {word: α}, in no order."""
    words, alpha = posterior.structure.labels["topics"], posterior.parameters("topics")["alpha"]
    return sorted(sorted(zip(words, row, strict=True)) for row in alpha.tolist())


FOUND = [[[9, 5, 2, 0], [0, 0, 1, 7]], [[0, 1, 0, 8], [6, 6, 1, 0]], [[7, 7, 0, 0], [0, 0, 0, 3]]]
ORDERS = [WORDS, WORDS[::-1], ("plum", "apple", "saw", "pear")]


@pytest.mark.parametrize("combine", [db.merge, db.merging.product])
def test_sites_that_list_the_same_words_in_another_order_merge(combine):
    sites = [topics(words, counts) for words, counts in zip(ORDERS, FOUND, strict=True)]
    agreed = [topics(WORDS, counts) for counts in FOUND]
    assert by_word(combine(sites)) == by_word(combine(agreed))
    assert len({combine(order) for order in permutations(sites)}) == 1
    assert combine(tuple(sites)) == combine(iter(sites)) == combine(sites)


def with_everything_said(posterior):
    """With all that a posterior carries beside its value."""
    remark = Remark("a kind", "Something to know.", "Do something.")
    return replace(
        posterior, ids=("x", "y"), names=("one", "two"), remarks=(remark,), merged_from=("0" * 64,), halves=(0.1, 0.2)
    )


def said(posterior):
    return posterior.ids, posterior.names, posterior.remarks, posterior.merged_from, posterior.halves


def test_what_a_posterior_carries_beside_its_value_and_what_is_in_order_already_stay():
    """Whose data it holds, too: else they would count twice without a warning."""
    first, second = topics(WORDS, FOUND[0]), with_everything_said(topics(WORDS[::-1], FOUND[1]))
    same = same_columns([first, second])
    assert same[0] is first
    assert (said(same[1]), by_word(same[1])) == (said(second), by_word(second))
    assert same[1].structure == first.structure
    assert "site 1: Something to know." in [remark.what for remark in db.merge([first, second]).remarks]
    (moved,) = db.texts.with_priors([second], topic_prior=0.3)
    assert said(moved) == said(second)
    assert said(db.merging.pad(second, 3))[2:] == said(second)[2:]


def test_other_words_are_refused_and_a_library_is_told_the_remedy(tmp_path):
    first, second = topics(WORDS, FOUND[0]), topics(WORDS[::-1], FOUND[1])
    other = db.LatentDirichletAllocation(2, ("apple", "pear", "plum", "drill"), topic_prior=PRIOR)
    with pytest.raises(StructureMismatch, match="different names; column 3 is 'saw' in one and 'drill'"):
        db.merge([first, db.Posterior.of_prior(other.structure)])
    paths = tmp_path / "a.posterior", tmp_path / "b.posterior"
    db.save(first, paths[0])
    db.save(second, paths[1])
    with pytest.raises(StructureMismatch, match="same names in another order; pass a list: `merge`"):
        db.merge(db.merging.Library(paths))
    assert db.merge(list(db.merging.Library(paths))) == db.merge([first, second])


def test_gaussians_with_columns_in_another_order_are_told_to_be_fitted_in_one():
    sites = [db.GaussianMixture(2, 2, variance=1.0, columns=columns).structure for columns in (("x", "y"), ("y", "x"))]
    with pytest.raises(StructureMismatch, match="fit with the columns in one order"):
        db.merge(map(db.Posterior.of_prior, sites))


@pytest.mark.parametrize(
    ("second", "reason"),
    [
        (["age,sex,ward", "real categorical:f,m categorical:a,b"], "only one of them has the column 'ward'"),
        (["age,sex", "count categorical:f,m"], "column 'age' is real in one and count in the other"),
        (["age,sex", "real categorical:f,m,other"], "only one of them has the category 'other' in column 'sex'"),
        (["age,sex", "real categorical:m,f"], "the categories of column 'sex' are in another order"),
        (["age,sex", "real=5 categorical:f,m"], "the agreed centre, scale or mean of column 'age' differs"),
    ],
)
def test_tables_that_differ_are_compared_by_their_columns(second, reason):
    def classes(names, kinds):
        made = {}
        for name, kind in zip(names.split(","), kinds.split(), strict=True):
            word, _, details = kind.partition(":")
            made[name] = (
                db.columns.Categorical(*details.split(","))
                if details
                else {"real": db.columns.Gaussian(), "real=5": db.columns.Gaussian(5), "count": db.columns.Poisson()}[
                    word
                ]
            )
        return db.Posterior.of_prior(db.LatentClasses(2, columns=made).structure)

    with pytest.raises(StructureMismatch, match=reason):
        db.merge([classes("age,sex", "real categorical:f,m"), classes(*second)])


def test_formulas_that_differ_are_compared_by_their_terms():
    columns = {"y": db.columns.Gaussian(), "x": db.columns.Gaussian(), "z": db.columns.Gaussian()}
    posteriors = [
        db.Posterior.of_prior(db.LinearRegression(target=target, terms=terms, columns=columns).structure)
        for target, terms in (("y", ["x"]), ("y", ["x", "z"]), ("x", ["y"]))
    ]
    with pytest.raises(StructureMismatch, match="only one of them has the term 'z'"):
        db.merge(posteriors[:2])
    with pytest.raises(StructureMismatch, match="one predicts 'y', the other 'x'"):
        db.merge(posteriors[::2])
