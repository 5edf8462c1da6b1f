"""What a page shows is what the merge says, and nothing of single observations."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import decbayes as db
from decbayes.columns import Categorical, Gaussian, Poisson, YesNo
from decbayes.merging.reading import CLOSE
from decbayes.page.describing import described, drawings
from decbayes.views import view_of
from decbayes.views.findings import LEAST

VOCABULARY = tuple(f"word{number}" for number in range(12))
COLUMNS = {"sex": Categorical("f", "m"), "ill": YesNo(), "age": Gaussian(50, 20), "visits": Poisson(2.0)}


def texts(rng, size):
    topics = rng.dirichlet(np.full(12, 0.2), size=3)
    return csr_matrix([rng.multinomial(30, rng.dirichlet(np.full(3, 0.3)) @ topics) for _ in range(size)], dtype=float)


def table(rng, size):
    columns = [rng.integers(2, size=size), rng.integers(2, size=size), rng.normal(50, 20, size), rng.poisson(2, size)]
    return np.column_stack(columns).astype(float)


def ages(rng, size):
    return rng.normal(50.0 + 40.0 * (np.arange(size) % 20 > 10), 5.0)[:, None]


def points(dimension):
    return lambda rng, size: rng.normal(5.0 * rng.integers(3, size=(size, 1)), 1.0, size=(size, dimension))


MODELS = {
    "points": (db.GaussianMixture(3, 2, covariance="full"), points(2), "point"),
    "line": (db.GaussianMixture(3, 1, variance=1.0), points(1), "point"),
    "images": (db.GaussianMixture(3, 64, variance=1.0), points(64), "image"),
    "features": (db.LatentFeatures(3, 16, variance=1.0), points(16), "image"),
    "numbers": (db.LatentFeatures(3, 6, variance=1.0), points(6), "numbers"),
    "words": (db.LatentDirichletAllocation(3, VOCABULARY), texts, "words"),
    "classes": (db.LatentClasses(3, columns=COLUMNS), table, "profile"),
    "states": (db.HiddenMarkov(2, columns={"age": Gaussian(50, 20)}), ages, "profile"),
    "counts": (db.PoissonMixture(2, 3), lambda rng, size: rng.poisson(4.0, size=(size, 3)).astype(float), "table"),
}


@pytest.mark.parametrize("name", MODELS)
def test_every_model_is_drawn_in_plain_values(name, rng):
    model, draw, kind = MODELS[name]
    once = replace(model, ascent=replace(model.ascent, restarts=0))
    alignment = db.align([once.fit(draw(rng, 40), rng=rng).posterior for _ in range(3)])
    shown = described(model, alignment.merged(), alignment, ["a", "b", "c"], observations=120)
    json.dumps([shown.posterior, shown.details], allow_nan=False)
    kinds = {component["drawing"]["kind"] for component in shown.posterior["components"]}
    assert kind in kinds
    assert kinds <= {kind, "hidden"}
    # Evidence is all accounted for: per component, and in all.
    total = alignment.shared()[alignment.structure.symmetry[0]].evidence.sum()
    few = sum(each["evidence"] is None for each in shown.posterior["components"])
    shown_total = sum(each["evidence"] or 0.0 for each in shown.posterior["components"])
    assert shown_total == pytest.approx(total, rel=1e-2, abs=few * LEAST)
    assert sum(each["share"] for each in shown.posterior["components"]) == pytest.approx(1.0, rel=1e-2)
    for component in shown.posterior["components"]:
        few = sum(cell["evidence"] is None for cell in component["cells"])
        cells = sum(cell["evidence"] or 0.0 for cell in component["cells"])
        assert cells == pytest.approx(component["evidence"] or 0.0, abs=0.6 + few * LEAST)
        assert shown.details.keys() >= {str(component["slot"])}


def test_words_are_the_leading_ones_with_their_probabilities(rng):
    model, draw, _ = MODELS["words"]
    posterior = model.fit(draw(rng, 40), rng=rng).posterior
    for topic, drawing in enumerate(drawings(view_of(model), posterior)):
        probabilities = dict(zip(VOCABULARY, posterior.mean("topics")[topic], strict=True))
        listed = [word for word, _ in drawing["words"]]
        assert listed == [VOCABULARY[place] for place in posterior.leading("topics", 10)[topic]]
        shown = [share for _, share in drawing["words"]]
        assert shown == pytest.approx([probabilities[word] for word in listed], rel=1e-3)


def test_what_stands_for_a_few_observations_is_counted_and_not_drawn(rng):
    """One point far from all others makes a component whose mean is that very point."""
    model = db.GaussianMixture(3, 2, variance=1.0, prior_variance=1e4)
    secret = 123.456
    crowd = [rng.normal(0.0, 1.0, size=(40, 2)), rng.normal(20.0, 1.0, size=(40, 2))]
    shards = [np.concatenate([*crowd, np.full((few, 2), secret)]) for few in (1, 0, 0)]
    fits = [model.fit(shard, rng=rng).posterior for shard in shards]
    alignment = db.align(fits)
    shown = described(model, alignment.merged(), alignment, ["a", "b", "c"])
    small = [each for each in shown.posterior["components"] if each["evidence"] is None]
    assert [each["drawing"]["kind"] for each in small] == ["hidden"], "no number stands beside what is not shown"
    assert all(each["evidence"] >= LEAST for each in shown.posterior["components"] if each not in small)
    assert "123" not in json.dumps([shown.posterior, shown.details])


def test_a_component_that_one_site_has_and_a_close_call_are_told(rng):
    model = db.GaussianMixture(3, 1, variance=1.0, prior_variance=100.0)
    both, own = [[0.0], [8.0]], [[0.0], [8.0], [30.0]]
    shards = [np.concatenate([rng.normal(c, 1.0, size=(30, 1)) for c in centres]) for centres in (both, own)]
    alignment = db.align([model.fit(shard, rng=rng).posterior for shard in shards])
    shown = described(model, alignment.merged(), alignment, ["a", "b"])
    alone = [each for each in shown.posterior["components"] if len(each["cells"]) == 1]
    assert [each["cells"][0]["site"] for each in alone] == [1]
    assert alone[0]["drawing"]["mean"] == [pytest.approx(30.0, abs=1.0)]
    coupled = alignment.structure.symmetry[0]
    assert alone[0]["cells"][0]["match"] is None, "with nothing to match"
    for each in (each for each in shown.posterior["components"] if len(each["cells"]) > 1):
        for cell in each["cells"]:
            margins = db.merging.margins(alignment)[cell["site"]][coupled][cell["components"]]
            assert cell["match"] == pytest.approx(min(margins), rel=1e-3)
            assert cell["close"] == (min(margins) < CLOSE)


def test_a_model_without_components_is_a_table(rng):
    model = db.models.GaussianMean(1.0, dimension=2)
    fits = [model.fit(rng.normal(3.0, 1.0, size=(20, 2))).posterior for _ in range(2)]
    shown = described(model, db.merge(fits), db.align(fits), ["a", "b"], observations=40)
    assert shown.posterior["components"] == []
    assert dict(shown.posterior["rows"][0]).keys() == {"mean", "standard deviation"}
    nothing = described(model, db.Posterior.of_prior(model.structure), None, [])
    assert nothing.posterior["rows"] == []


def test_what_only_sums_have_opened_is_drawn_without_sites(rng):
    """Nobody knows what single sites have, so there are no cells, no versions on a click, and no objective."""
    model = db.GaussianMixture(4, 2, variance=1.0, prior_variance=100.0)
    few = np.concatenate([rng.normal(centre, 1.0, size=(20, 2)) for centre in (-9.0, 9.0)] + [np.full((3, 2), 40.0)])
    posterior = model.fit(few, rng=rng).posterior
    alone, known = (described(model, posterior, found, [*names], observations=43, set="a") for found, names in (
        (None, ""), (db.align([posterior]), "x")
    ))  # fmt: skip
    assert (alone.details, alone.posterior["sites"], alone.posterior["objective"]) == ({}, [], None)
    drawn = [{**component, "cells": []} for component in known.posterior["components"]]
    assert alone.posterior["components"] == drawn
    assert sorted(component["evidence"] or 0 for component in drawn) == pytest.approx([0, 20, 20], abs=0.1)
    assert [component["drawing"]["kind"] for component in drawn].count("hidden") == 1, (
        "of three points nothing is shown"
    )
    assert (alone.posterior["observations"], alone.posterior["noun"]) == (43, "cluster")
    mean = db.models.GaussianMean(1.0, dimension=1)
    summed = described(mean, mean.fit(np.full((5, 1), 2.0)).posterior, None, [])
    assert len(summed.posterior["rows"]) == 1, "also without components"
