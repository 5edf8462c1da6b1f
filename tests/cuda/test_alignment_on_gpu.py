"""Alignments of topics on a GPU against those on the processor."""

import numpy as np
import pytest
from scipy.sparse import csr_array

import decbayes as db
from decbayes.families import Dirichlet
from decbayes.families.dirichlets import _cuda, dirichlet
from decbayes.families.totals import DirichletTotals

TOPICS, WORDS = 5, 300


@pytest.fixture
def structure():
    prior = Dirichlet().natural(alpha=np.full((TOPICS, WORDS), 0.05))
    return db.extending.Structure(
        {"topics": Dirichlet()}, {"topics": prior}, (db.extending.CoupledSet(("topics",)),), sparse={"topics"}
    )


def contribution(rng, *, lowest=0.0):
    values = rng.gamma(0.3, 10.0, (TOPICS, WORDS)) * (rng.random((TOPICS, WORDS)) < 0.3)
    return csr_array(np.where(values > 0, values + lowest, 0.0))


@pytest.mark.parametrize("lowest", [0.0, -3.0])
def test_totals_gain_what_they_gain_on_the_processor(gpu, structure, rng, lowest):
    """With negative entries some sums are outside the domain, before or after a component has come or gone."""
    prior, everyone = structure.prior["topics"], np.arange(TOPICS)
    ours, theirs = _cuda.GpuDirichletTotals(gpu, prior), DirichletTotals(prior)
    sites = [Dirichlet().rows(contribution(rng, lowest=lowest)) for _ in range(3)]
    placed = [np.full(TOPICS, -1) for _ in sites]
    undefined = 0
    for turn in range(9):
        site = turn % 3
        slots = np.sort(rng.permutation(TOPICS)[:4])
        found, expected = (totals.gains(sites[site], slots, placed[site][slots]) for totals in (ours, theirs))
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-8)
        undefined += np.isnan(expected).sum()
        chosen = rng.permutation(TOPICS)
        for totals in (ours, theirs):
            totals.move(sites[site], everyone, placed[site], chosen)
        placed[site] = chosen
        assert ours.objective() == pytest.approx(theirs.objective(), rel=1e-12)
    assert bool(undefined) == (lowest < 0)


def test_an_alignment_finds_what_it_finds_on_the_processor(gpu, structure, rng, monkeypatch):
    truth = rng.dirichlet(np.full(WORDS, 0.05), size=TOPICS)
    posteriors = [
        db.Posterior(structure, {"topics": csr_array(rng.poisson(300 * truth)[rng.permutation(TOPICS)].astype(float))})
        for _ in range(6)
    ]
    expected = db.align(posteriors, solver=db.solvers.Matching(restarts=1))
    monkeypatch.setattr(dirichlet, "LARGE", 0)
    launched = []
    launch = gpu.launch
    monkeypatch.setattr(gpu, "launch", lambda *words, **options: (launched.append(words[1]), launch(*words, **options)))
    with db.devices.use_device("cuda"):
        found = db.align(posteriors, solver=db.solvers.Matching(restarts=1))
    assert "place_gains" in launched
    assert found.merged().digest == expected.merged().digest
    np.testing.assert_allclose(found.objective[-1], expected.objective[-1], rtol=1e-12)
