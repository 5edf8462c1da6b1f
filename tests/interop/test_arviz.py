"""Samples as a DataTree, and summaries as plain rows."""

import numpy as np
import pytest
from on_use import OnUse

import decbayes as db
from decbayes.interop import to_arviz

OnUse("arviz_base")


@pytest.fixture
def mixture(rng):
    model = db.GaussianMixture(2, 2, covariance="full", columns=("x", "y"))
    return model.fit(rng.normal(size=(40, 2)), rng=rng).posterior


def test_a_tree_holds_every_factor_with_its_dimensions(mixture, rng):
    tree = to_arviz(mixture, draws=4000, rng=rng)
    group = tree["posterior"]
    assert group["components_mean"].dims == ("chain", "draw", "components_component", "components_column_0")
    assert group["components_precision"].shape == (1, 4000, 2, 2, 2)
    assert list(group["components_column_0"].values) == ["x", "y"]
    assert group.attrs["uncertainty"] == "mean-field, not calibrated"
    mean = group["weights"].mean(("chain", "draw")).values
    # 4,000 draws of a share: the mean is good to 0.5 / √4000 = 0.008 at worst.
    np.testing.assert_allclose(mean, mixture.mean("weights"), atol=0.03)


def test_words_are_the_labels_of_topics(rng):
    model = db.LatentDirichletAllocation(2, ("apple", "pear", "plum"))
    tree = to_arviz(db.Posterior.of_prior(model.structure), draws=5, rng=rng)
    assert list(tree["posterior"]["topics_column_0"].values) == ["apple", "pear", "plum"]


def test_a_summary_has_one_row_for_each_parameter(mixture):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(mixture.summary())
    assert list(frame.columns) == [
        "factor",
        "component",
        "quantity",
        "entry",
        "mean",
        "deviation",
        "lower",
        "upper",
        "uncertainty",
    ]
    assert len(frame) == 2 + 2 * 2 + 2 * 4
    row = frame.query("factor == 'components' and component == 1 and quantity == 'mean' and entry == 'y'")
    assert row["mean"].item() == mixture.mean("components")[1, 1]
    assert "x, y" in set(frame["entry"])
    narrow = "mean-field, not calibrated; too narrow to be used until calibrated"
    precisions = frame["quantity"].str.contains("precision|covariance")
    assert set(frame["uncertainty"][~precisions]) == {"mean-field, not calibrated"}
    assert set(frame["uncertainty"][precisions]) == {narrow}
    assert ((frame["lower"] < frame["mean"]) & (frame["mean"] < frame["upper"])).all()


def test_only_the_largest_entries_of_wide_components_are_listed(rng):
    words = tuple(f"word{number}" for number in range(50))
    model = db.LatentDirichletAllocation(2, words)
    counts = np.zeros((2, 50))
    counts[0, 7], counts[0, 3], counts[1, 9] = 5.0, 9.0, 2.0
    rows = db.Posterior(model.structure, {"topics": counts}).summary(top=2)
    assert [row["entry"] for row in rows] == ["word3", "word7", "word9", "word0"]
