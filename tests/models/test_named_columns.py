"""Frames are read by the names of their columns, whatever their order; what has no names is read by position."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_array, dok_array

import decbayes as db
from decbayes.errors import InvalidData

WORDS = tuple(f"word{number}" for number in range(8))
FORMS = {
    "pandas": lambda values, names: pd.DataFrame(values, columns=list(names)),
    "polars": lambda values, names: pl.DataFrame(values, schema=list(names)),
    "mapping": lambda values, names: dict(zip(names, values.T, strict=True)),
}


@pytest.fixture
def clusters(rng):
    model = db.GaussianMixture(2, columns=("x", "y"))
    return model, np.concatenate([rng.normal([0, 40], 1, (40, 2)), rng.normal([9, 60], 1, (40, 2))])


@pytest.mark.parametrize("form", FORMS)
def test_clusters_of_named_columns_do_not_depend_on_their_order(clusters, form):
    model, points = clusters
    posterior = model.fit(points, rng=0).posterior
    turned = FORMS[form](points[:, ::-1].copy(), ("y", "x"))
    wider = FORMS[form](np.column_stack([points[:, 1], np.arange(80.0), points[:, 0]]), ("y", "number", "x"))
    for frame in (turned, wider):
        assert model.fit(frame, rng=0).posterior == posterior
        np.testing.assert_array_equal(model.log_predictive(posterior, frame), model.log_predictive(posterior, points))
        np.testing.assert_array_equal(model.assign(posterior, frame), model.assign(posterior, points))
    with pytest.raises(InvalidData, match="lack 1 of the model's 2 columns: x"):
        model.fit(FORMS[form](points, ("y", "z")), rng=0)


@pytest.mark.parametrize("form", FORMS)
def test_parts_of_a_frame_keep_the_order_of_the_model(clusters, form):
    model, points = clusters
    frame = FORMS[form](points[:, ::-1].copy(), ("y", "x"))
    alignment = db.align([model.fit(half, rng=0).posterior for half in (points[::2], points[1::2])])
    questions = (
        lambda data: db.checking.overlap(model, alignment, 0, data),
        lambda data: db.checking.hold_back(model, data, share=0.2)[1],
        lambda data: model.joined([data, data]),
        lambda data: model.pooled(data, 5, 5, agreed=False)[1],
        model.count,
    )
    for question in questions:
        np.testing.assert_array_equal(question(frame), question(points))


@pytest.mark.parametrize("form", FORMS)
def test_counts_of_topics_are_read_by_the_names_of_words(form, rng):
    counts = rng.poisson(5.0, (2, 8))
    frame = FORMS[form](counts[:, ::-1].copy(), WORDS[::-1])
    expected = db.interop.from_topic_counts(counts, vocabulary=WORDS)
    assert db.interop.from_topic_counts(frame, vocabulary=WORDS) == expected
    assert db.interop.from_topic_counts(frame).structure.labels["topics"] == WORDS[::-1]


@pytest.mark.parametrize("form", FORMS)
def test_topics_of_named_words_do_not_depend_on_their_order(form, rng):
    model = db.LatentDirichletAllocation(2, WORDS)
    counts = rng.poisson(1.0, (30, 8))
    posterior = model.fit(counts, rng=0).posterior
    frame = FORMS[form](counts[:, ::-1].copy(), WORDS[::-1])
    assert model.fit(frame, rng=0).posterior == posterior
    for question in (model.assign, model.log_predictive, lambda of, data: model.transform(of).of(data)):
        np.testing.assert_array_equal(question(posterior, frame), question(posterior, counts))
    np.testing.assert_array_equal(model.units(frame), counts.sum(axis=1))
    held = FORMS[form](np.ones((30, 8), dtype=int), WORDS[::-1])
    np.testing.assert_array_equal(
        model.log_predictive(posterior, frame, held), model.log_predictive(posterior, counts, np.ones((30, 8), int))
    )


def test_columns_without_names_are_read_by_position(clusters, rng):
    model, points = clusters
    assert model.fit(pd.DataFrame(points), rng=0).posterior == model.fit(points, rng=0).posterior
    nameless = db.GaussianMixture(2, 2)
    frame = pd.DataFrame(points, columns=["y", "x"])
    assert nameless.fit(frame, rng=0).posterior == nameless.fit(points, rng=0).posterior
    topics, counts = db.LatentDirichletAllocation(2, WORDS), rng.poisson(1.0, (30, 8))
    fits = [topics.fit(each, rng=0).posterior for each in (counts, csr_array(counts), dok_array(counts))]
    assert fits[0] == fits[1] == fits[2]
