"""Shares of topics per site and over time: they add up, their intervals cover, and small groups stay hidden."""

import json

import numpy as np
import pytest
from scipy.sparse import csr_array

import decbayes as db
from decbayes.errors import InvalidData, StructureMismatch
from decbayes.models.core.persons import Persons
from decbayes.models.topics.shares_by_period import Prevalence

WORDS, TOPICS = 40, 4


def planted():
    """Topics that share some words, as a posterior that is sure of them."""
    rng = np.random.default_rng(0)
    shares = 0.8 * np.kron(np.eye(TOPICS), np.full((1, WORDS // TOPICS), TOPICS / WORDS)) + 0.2 / WORDS
    shares *= rng.uniform(0.5, 1.5, shares.shape)
    shares /= shares.sum(axis=1, keepdims=True)
    model = db.LatentDirichletAllocation(TOPICS, [f"w{n}" for n in range(WORDS)], document_prior=0.1)
    return shares, db.Posterior(model.structure, {"topics": 1e5 * shares})


def documents(rng, shares, alpha, count, length=60):
    return csr_array(rng.multinomial(length, rng.dirichlet(alpha, size=count) @ shares))


def test_intervals_cover_what_a_site_writes_about():
    """90 % intervals of the mean share of each topic, over simulated sites whose prevalence is not the prior's."""
    shares, posterior = planted()
    rng = np.random.default_rng(1)
    inside = []
    for _ in range(60):
        alpha = np.array([0.6, 0.3, 0.1, 0.05]) * rng.uniform(0.5, 2.0)
        found = db.texts.prevalence(posterior, documents(rng, shares, alpha, 80)).rows(posterior)
        truth = alpha / alpha.sum()
        inside += [row["low"] <= truth[row["topic"]] <= row["high"] for row in found]
    assert 0.84 <= np.mean(inside) <= 0.97


def test_levels_are_between_none_and_all():
    _, posterior = planted()
    counted = db.texts.prevalence(posterior, csr_array(np.ones((20, WORDS), dtype=int)))
    for level in (-0.1, 0.0, 1.0, 1.5, np.nan):
        with pytest.raises((ValueError, TypeError), match="level"):
            counted.rows(posterior, level=level)


def test_sites_add_up_to_all_documents():
    shares, posterior = planted()
    rng = np.random.default_rng(2)
    north, south = (documents(rng, shares, alpha, 50) for alpha in ([1, 0.1, 0.1, 0.1], [0.1, 0.1, 0.1, 1]))
    months = ["2024-01"] * 25 + ["2024-02"] * 25
    apart = [
        db.texts.prevalence(posterior, data, site=name, periods=months)
        for name, data in (("north", north), ("south", south))
    ]
    together = db.texts.prevalence(
        posterior, csr_array(np.vstack([north.toarray(), south.toarray()])), periods=months * 2
    )
    whole, both = together.group(), (apart[0] + apart[1]).group()
    assert (whole.documents, both.documents) == (100, 100)
    np.testing.assert_allclose(whole.sums, both.sums)
    np.testing.assert_allclose(whole.squares, both.squares)
    np.testing.assert_allclose(both.sums.sum(), 100.0, atol=1e-6)
    rows = (apart[0] + apart[1]).rows(posterior)
    by_site = {(row["site"], row["topic"]): row["share"] for row in rows if row["period"] == "all"}
    assert by_site["north", 0] > 0.6
    assert by_site["south", 0] < 0.2
    again = Prevalence.of_plain(json.loads(json.dumps(apart[0].plain())))
    np.testing.assert_allclose(again.group().sums, apart[0].group().sums, atol=1e-4)
    with pytest.raises(StructureMismatch, match="given twice"):
        apart[0] + again
    with pytest.raises(StructureMismatch, match="other topics"):
        apart[0].rows(db.merging.drop(posterior, 1).posterior)


def test_small_groups_and_rare_topics_say_nothing():
    shares, posterior = planted()
    rng = np.random.default_rng(3)
    data = documents(rng, shares, [50, 0.001, 0.001, 0.001], 33)
    lone = documents(rng, shares, [0.001, 0.001, 0.001, 50], 1)
    data = csr_array(np.vstack([data.toarray(), lone.toarray()]))
    periods = ["2024-01"] * 30 + ["2024-02"] * 3 + ["2024-01"]
    shown = db.texts.prevalence(posterior, data, periods=periods, least=5)
    assert shown.periods == ["2024-01"]
    assert shown.group().sums[3] == 0.0, "one document has the topic"
    assert db.texts.prevalence(posterior, data, periods=periods).group().sums[3] > 0.9
    spread = db.texts.prevalence(posterior, documents(rng, shares, [50, 1, 1, 1], 40), least=5)
    assert (spread.group().sums > 0.0).all(), "a little of a topic in many documents is no secret"
    one_author = Persons(np.array([0] * 34))
    assert db.texts.prevalence(posterior, data, least=5, persons=one_author).groups == {}


@pytest.mark.parametrize(
    "change",
    [
        {"documents": 0},
        {"documents": 2.5},
        {"sums": [9.0, 0.0]},
        {"squares": [1.0]},
        {"site": 3},
        {"sums": [-1.0, 0.1]},
        {"squares": [-0.1, 1.5]},
        {"squares": [1.1, 1.5]},
        {"squares": [0.5, float("nan")]},
        {"sums": [float("inf"), 2.0]},
        {"period": 2024},
        {"documents": True},
        {"sums": [[1.0, 2.0]], "squares": [[0.5, 1.5]]},
    ],
)
def test_files_that_make_no_sense_are_refused(change):
    group = {"site": "a", "period": "", "documents": 4, "sums": [1.0, 2.0], "squares": [0.5, 1.5]}
    for proper in (group, group | {"sums": [4.0, 0.0], "squares": [4.0, 0.0]}):
        Prevalence.of_plain({"format": "decbayes prevalence 1", "posterior": "x", "groups": [proper]})
    with pytest.raises(InvalidData, match="shares of topics"):
        Prevalence.of_plain({"format": "decbayes prevalence 1", "posterior": "x", "groups": [{**group, **change}]})
