"""Pictures show what they say: the numbers on the axes are those of the posterior."""

import numpy as np
import pytest

import decbayes as db
from decbayes.errors import InvalidData, StructureMismatch

pytest.importorskip("matplotlib", reason="needs the plot extra")
STRUCTURE = db.GaussianMixture(3, 2, covariance="diagonal", columns=("width", "height")).structure


@pytest.fixture
def sites(rng):
    model = db.GaussianMixture(3, 2, covariance="diagonal", columns=("width", "height"))
    centres = 8 * np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    return [model.fit(np.repeat(centres, 20, axis=0) + rng.normal(size=(60, 2)), rng=rng).posterior for _ in range(4)]


def drawn(axes, tmp_path):
    """The size of the picture as a file: it can be drawn at all, and something is on it."""
    figure = getattr(axes, "figure", axes)
    figure.savefig(tmp_path / "picture.png")
    return (tmp_path / "picture.png").stat().st_size


def test_an_alignment_shows_each_component_in_its_slot_and_the_margins_as_colours(sites, tmp_path):
    found = db.align(sites)
    axes = db.plot.alignment(found, names=["a", "b", "c", "d"])
    (coupled,) = STRUCTURE.symmetry
    cells = {(int(text.get_position()[1]), int(text.get_position()[0])): text.get_text() for text in axes.texts}
    for agent, permutation in enumerate(found.permutations):
        assert [cells[agent, slot] for slot in range(3)] == [str(component) for component in permutation[coupled]]
    colours = axes.images[0].get_array()
    np.testing.assert_allclose(colours, [margin[coupled] for margin in found.margins()])
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b", "c", "d"]
    assert drawn(axes, tmp_path) > 1000


def test_components_without_rivals_can_be_drawn(tmp_path):
    structure = db.GaussianMixture(1, 1, variance=1.0).structure
    axes = db.plot.alignment(db.align([db.Posterior.of_prior(structure)] * 2))
    assert drawn(axes, tmp_path) > 1000


def test_nothing_aligned_is_nothing_to_draw():
    with pytest.raises(StructureMismatch, match="no coupled sets"):
        db.plot.alignment(db.align([db.Posterior.of_prior(db.GaussianMean().structure)]))


@pytest.mark.parametrize("covariance", ["spherical", "diagonal", "full", None])
def test_a_mixture_is_drawn_with_two_standard_deviations(covariance, rng, tmp_path):
    settings = {"variance": 2.25} if covariance is None else {"covariance": covariance}
    model = db.GaussianMixture(1, 2, prior_strength=1e-6, prior_scale=2.25, prior_variance=1e6, **settings)
    points = np.array([3.0, -4.0]) + 1.5 * rng.normal(size=(4000, 2))
    axes = db.plot.mixture(model.fit(points, rng=rng).posterior, points)
    outline = axes.lines[0].get_xydata()
    # 4,000 points: mean and deviation are good to about 1.5 / √4000 = 0.024.
    np.testing.assert_allclose(outline.max(axis=0), [6.0, -1.0], atol=0.15)
    np.testing.assert_allclose(outline.min(axis=0), [0.0, -7.0], atol=0.15)
    assert drawn(axes, tmp_path) > 1000


def test_names_of_dimensions_are_on_the_axes(sites):
    axes = db.plot.mixture(sites[0], dimensions=(1, 0))
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("height", "width")


def test_a_mixture_in_one_dimension_is_its_predictive_density(rng, tmp_path):
    model = db.GaussianMixture(2, 1, variance=1.0)
    axes = db.plot.mixture(model.fit(rng.normal(size=50), rng=rng).posterior, rng.normal(size=50))
    line, density = axes.lines[0].get_data()
    assert np.sum(density) * (line[1] - line[0]) == pytest.approx(1.0, abs=0.01)
    assert drawn(axes, tmp_path) > 1000


def test_topics_show_their_most_probable_words(tmp_path):
    model = db.LatentDirichletAllocation(2, ("apple", "pear", "plum"))
    figure = db.plot.topics(db.Posterior(model.structure, {"topics": [[9.0, 0.0, 5.0], [0.0, 7.0, 0.0]]}), top=2)
    words = [[label.get_text() for label in axes.get_yticklabels()][::-1] for axes in figure.axes]
    assert (words[0], words[1][0]) == (["apple", "plum"], "pear")
    assert drawn(figure, tmp_path) > 1000


def test_features_are_images(rng, tmp_path):
    posterior = db.Posterior.of_prior(db.LatentFeatures(3, 6).structure)
    figure = db.plot.features(posterior, (2, 3))
    assert [axes.images[0].get_array().shape for axes in figure.axes] == [(2, 3)] * 3
    assert drawn(figure, tmp_path) > 1000
    with pytest.raises(InvalidData, match="6 numbers"):
        db.plot.features(posterior, (2, 2))


def test_corners_of_the_simplex_are_certainties(tmp_path):
    axes = db.plot.simplex(np.eye(3), labels=("a", "b", "c"))
    corners = axes.collections[0].get_offsets()
    distances = np.linalg.norm(corners[:, None] - corners[None], axis=2)
    np.testing.assert_allclose(distances, 1.0 - np.eye(3), atol=1e-12)
    assert drawn(axes, tmp_path) > 1000
    with pytest.raises(InvalidData, match=r"\(2, 4\)"):
        db.plot.simplex(np.ones((2, 4)))


def test_a_network_has_a_dot_for_every_agent_and_a_line_for_every_link(tmp_path):
    axes = db.plot.network([("a", "b"), ("b", "c")], values={"a": 1.0, "d": 2.0})
    assert sorted(text.get_text() for text in axes.texts) == ["a", "b", "c", "d"]
    assert (len(axes.collections[0].get_offsets()), len(axes.lines)) == (4, 2)
    assert all(abs(np.array(text.xy)).max() < axes.get_xlim()[1] for text in axes.texts)
    assert drawn(axes, tmp_path) > 1000
