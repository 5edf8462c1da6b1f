"""Each experiment from end to end, small: a table, two pictures, claims with numbers."""

import xml.etree.ElementTree as ET
from html import escape
from itertools import permutations

import numpy as np
import pytest
from paper_tiny import corpus, experiments
from PIL import Image

from decbayes.plot.style import styled
from paper import mixture_example as mixture
from paper.corpora import split_by_group
from paper.experiment import redraw, run
from paper.features_common import estimated_prior_variance
from paper.features_faces import unexplained
from paper.features_synthetic import feature_error
from paper.mixture_naive import MixtureNaive
from paper.mixture_restarts import main_ordering
from paper.report import write_report
from paper.simplex import colours, simplex_grid
from paper.style import save

# Each of these does what another one does, too, with one method or one split more.
SLOW = {"mixture-symmetrized", "mixture-restarts", "mixture-naive", "lda-by-group", "sda"}


@pytest.mark.parametrize(
    "experiment",
    [pytest.param(each, marks=[pytest.mark.slow] * (each.name in SLOW), id=each.name) for each in experiments()],
)
def test_an_experiment_runs_from_data_to_report(experiment, tmp_path):
    table = run(experiment, tmp_path)
    assert np.isfinite(table.values()).all()
    assert (table.seconds() >= 0).all()
    claims = experiment.claims(table)
    assert claims
    assert all(str(claim).endswith(("holds", "does NOT hold")) for claim in claims)
    with styled():
        picture, drawing = save(experiment.draw(redraw(experiment, tmp_path)), tmp_path, experiment.name)
    assert min(Image.open(picture).size) > 300
    ET.parse(drawing)
    page = write_report([experiment], tmp_path).read_text()
    assert all(escape(str(claim)) in page for claim in claims)
    assert "<svg" in page
    assert 'src="' not in page.replace('src="data:', "")


@pytest.mark.parametrize("experiment", [MixtureNaive(trials=1, draws=10), experiments()[8]], ids=str)
def test_the_same_seed_gives_the_same_values(experiment, tmp_path):
    first, second = (run(experiment, tmp_path / folder) for folder in "ab")
    kept = [row.measure != "alignment seconds" for row in first.rows]
    np.testing.assert_array_equal(first.values()[kept], second.values()[kept])


def test_all_mixture_figures_show_the_same_observations():
    first, second = mixture.example(0, 0), mixture.example(0, 0)
    np.testing.assert_array_equal(first.points, second.points)
    np.testing.assert_array_equal(np.concatenate(first.shards), first.points)
    # The pictures' data set was chosen for its proportions.
    counts = np.bincount(np.abs(first.points[:, None] - mixture.MEANS).argmin(axis=1), minlength=3)
    assert counts.tolist() == [18, 9, 3]


def test_orderings_are_counted_by_the_means():
    means = np.array([[1.0, 2.0, 3.0], [0.1, 0.2, 0.3], [3.0, 2.0, 1.0]])
    shares = mixture.ordering_shares(mixture.Draws(np.full((3, 3), 1 / 3), means))
    np.testing.assert_allclose(shares, [2 / 3, 1 / 3, 0, 0, 0, 0])


def test_an_ordering_has_one_number():
    draws = [mixture.Draws(np.full((2, 3), 1 / 3), np.tile(means, (2, 1))) for means in permutations([-1.0, 1.0, 3.0])]
    assert sorted(map(main_ordering, draws)) == [0, 1, 2, 3, 4, 5]


def test_energy_distance_is_that_of_scipy_in_one_dimension(rng):
    from scipy.stats import energy_distance

    first, second = rng.normal(size=(300, 1)), rng.normal(1.0, 2.0, size=(300, 1))
    x, y = (mixture.Draws(np.empty((300, 0)), sample) for sample in (first, second))
    # SciPy's is the root of ours with a half of it, and counts each point's distance to itself: 1 / 300 of a spread.
    scale = second.std()
    expected = energy_distance(first.ravel() / scale, second.ravel() / scale) ** 2
    assert mixture.energy_distance(x, y, y) == pytest.approx(expected, abs=0.02)


def test_a_panel_of_the_simplex_has_the_draws_in_the_colours_of_their_means(rng):
    draws = mixture.Draws(rng.dirichlet(np.ones(3), size=5), rng.normal(size=(5, 3)))
    figure = simplex_grid([[("first", draws), ("second", draws)]], width=5.0)
    for title, axes in zip(("first", "second"), figure.axes, strict=True):
        assert (axes.get_title(), len(axes.texts)) == (title, 3)
        np.testing.assert_allclose(axes.collections[0].get_facecolors()[:, :3], colours(draws.means))
        up = axes.collections[0].get_offsets()[:, 1]
        np.testing.assert_allclose(up, draws.weights[:, 2] * np.sqrt(0.75))


def test_colours_are_the_means():
    np.testing.assert_allclose(colours(np.array([[-1.8, 3.8, 1.0], [-9.0, 9.0, 1.0]])), [[0, 1, 0.5], [0, 1, 0.5]])


@pytest.mark.parametrize("agents", [1, 2, 3, 4, 9])
def test_a_split_by_group_deals_out_each_document_once(agents, rng):
    groups = corpus().groups
    parts = split_by_group(groups, agents, rng)
    assert len(parts) == agents
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(groups)))
    assert all(len(np.unique(groups[part])) <= max(1, -(-4 // agents)) for part in parts)


def test_feature_error_does_not_depend_on_order(rng):
    truth = rng.integers(2, size=(4, 9)).astype(float)
    moved = truth[[2, 0, 3, 1]] + 0.1
    assert feature_error(moved, truth) == pytest.approx(0.1 * np.sqrt(36))


def test_the_prior_variance_is_recovered_from_data_of_the_model(rng):
    variances = []
    for _ in range(200):
        features = rng.normal(scale=1.5, size=(5, 10))
        points = (rng.uniform(size=(200, 5)) < 0.5) @ features + rng.normal(scale=0.2, size=(200, 10))
        variances.append(estimated_prior_variance(points, 5, 0.04))
    assert np.mean(variances) == pytest.approx(1.5**2, rel=0.05)


def test_directions_explain_all_that_lies_in_them(rng):
    points = rng.normal(size=(50, 3)) @ rng.normal(size=(3, 20))
    assert unexplained(points, 3) == pytest.approx(0.0, abs=1e-12)
    assert unexplained(points, 0) == pytest.approx(np.mean(points**2))
