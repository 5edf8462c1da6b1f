"""What notebooks show of values: small, escaped, and true."""

import re

import numpy as np
import pytest

import decbayes as db


@pytest.fixture
def sites(rng):
    model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=100.0)
    shards = [np.concatenate([rng.normal(-9, 1, 10), rng.normal(9, 1, 30)]) for _ in range(3)]
    return model, shards, [model.fit(shard, rng=rng).posterior for shard in shards]


def test_a_posterior_shows_each_component_with_its_share(sites):
    posterior = sites[2][0]
    shown = posterior._repr_html_()
    assert posterior.digest[:12] in shown
    assert re.findall(r">([\d.]+)%<", shown) == [f"{100 * share:.1f}" for share in posterior.mean("weights")]


def test_an_alignment_shows_which_component_went_where(sites):
    found = db.align(sites[2])
    (coupled,) = found.structure.symmetry
    cells = re.findall(r"text-align:center[^>]*>(\d)<", found._repr_html_())
    assert cells == [str(cell[0]) for row in db.merging.fillings(found, coupled) for cell in row]


def test_a_tree_shows_what_is_lost(sites):
    grown = db.merging.tree(sites[2])
    assert f"{grown.losses()[0]:,.0f}" in grown._repr_html_() or f"{grown.losses()[0]:.3g}" in grown._repr_html_()


def test_a_refinement_says_whether_it_has_converged(sites, rng):
    model, shards, posteriors = sites
    assert "not converged" in db.refine(model, shards, posteriors, rounds=1, tolerance=0.0, rng=rng)._repr_html_()
    done = db.refine(model, shards, posteriors, rng=rng)
    assert "not converged" not in done._repr_html_()
    assert done.merged.digest[:12] in done._repr_html_()


def test_labels_of_others_stay_text_and_long_lists_end():
    words = tuple(f"<script>{number}" for number in range(30))
    model = db.LatentDirichletAllocation(30, words)
    shown = db.Posterior(model.structure, {"topics": 50 * np.eye(30)})._repr_html_()
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown
    assert "10 components more" in shown


def test_a_model_that_nobody_knows_is_shown_by_its_factors():
    structure = db.extending.Structure({"rate": db.families.Gamma()}, {"rate": [[1.0, -1.0]]})
    shown = db.Posterior.of_prior(structure)._repr_html_()
    assert "a model without a name" in shown
    assert "rate" in shown
