"""Pictures show what they say: the numbers on the axes are those of the posterior."""

import re
from importlib.resources import files
from itertools import combinations, pairwise

import numpy as np
import pytest

import decbayes as db
from decbayes.errors import InvalidData, StructureMismatch
from decbayes.merging.base.products import weighted_rows
from decbayes.merging.reading import CLOSE
from decbayes.plot.style import AMPS, BATCH, COLOURS, NAIVE, SHADES, SITES

pytest.importorskip("matplotlib", reason="needs the plot extra")
STRUCTURE = db.GaussianMixture(3, 2, covariance="diagonal", columns=("width", "height")).structure


@pytest.fixture(scope="module")
def sites():
    rng = np.random.default_rng(20140723)
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
    in_slots = [m[coupled][p[coupled]] for m, p in zip(db.merging.margins(found), found.permutations, strict=True)]
    np.testing.assert_allclose(colours, in_slots)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b", "c", "d"]
    assert drawn(axes, tmp_path) > 1000


def test_a_site_with_nothing_in_a_slot_has_a_blank_there_and_slots_that_nobody_fills_are_left_out(sites):
    (coupled,) = STRUCTURE.symmetry
    fewer = db.Posterior(
        sites[0].structure,
        {name: weighted_rows(part, np.array([1.0, 1.0, 0.0])) for name, part in sites[0].contribution.items()},
    )
    found = db.align([fewer, *sites[1:]], components=5, solver=db.solvers.Matching())
    axes, support = db.plot.alignment(found), db.merging.support(found, coupled)
    filled = np.flatnonzero(support.sum(axis=0))
    assert [label.get_text() for label in axes.get_xticklabels()] == [*map(str, filled)]
    assert len(filled) == 3
    blank = np.array([text.get_text() == "" for text in axes.texts]).reshape(4, 3)
    np.testing.assert_array_equal(blank, support[:, filled] == 0)
    assert blank.sum() == 1
    np.testing.assert_array_equal(np.ma.getmaskarray(axes.images[0].get_array()), blank)


def test_topics_are_drawn_by_name_without_slots_that_nobody_has_filled():
    model = db.LatentDirichletAllocation(4, ("pawn", "rook", "tide", "mast"))
    rows = np.array([[9.0, 8.0, 0.0, 0.0], [0.0, 0.0, 9.0, 8.0], [0.0] * 4, [0.0] * 4])
    found = db.align([db.Posterior(model.structure, {"topics": rows})])
    named = ["pawn, rook", "tide, mast"]
    assert [axes.get_title().split(", ")[0] for axes in db.plot.topics(found.merged()).axes] == ["pawn", "tide"]
    drawn_slots = [label.get_text() for label in db.plot.alignment(found).get_xticklabels()]
    assert [name[:10] for name in drawn_slots] == named
    html = found._repr_html_()
    assert re.findall("<th[^>]*>([^<]*?)(?:, mast|, tide|, pawn|, rook)*</th>", html) == ["site", "pawn", "tide"]


def test_components_that_share_a_slot_share_a_cell(sites):
    (coupled,) = STRUCTURE.symmetry
    found = db.align(sites, components=2)
    cells = [text.get_text() for text in db.plot.alignment(found).texts]
    expected = [
        "+".join(str(own) for own, slot in enumerate(slots[coupled]) if slot == column)
        for slots in found.assignments
        for column in range(2)
    ]
    assert cells == expected
    assert any("+" in cell for cell in cells)


def test_a_tree_has_a_leaf_for_each_component_in_the_colour_of_its_site(sites, tmp_path):
    axes = db.plot.tree(db.merging.tree(sites), names=["a", "b", "c", "d"])
    (feet,) = [drawn for drawn in axes.collections if len(drawn.get_offsets()) > 1]
    colours = [tuple(colour) for colour in feet.get_facecolors()]
    assert sorted(colours.count(colour) for colour in set(colours)) == [3, 3, 3, 3]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["a", "b", "c", "d", "several"]
    assert drawn(axes, tmp_path) > 1000


def test_coupled_sets_stand_side_by_side_each_with_its_own_slots():
    prior = {"first": np.tile([1.0, -1.0], (2, 1)), "second": np.tile([1.0, -1.0], (3, 1))}
    families = dict.fromkeys(prior, db.families.Gamma())
    structure = db.extending.Structure(families, prior, tuple(db.extending.CoupledSet((factor,)) for factor in prior))
    axes = db.plot.alignment(db.align([db.Posterior.of_prior(structure)] * 2))
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0", "1", "0", "1", "2"]
    assert [line.get_xdata()[0] for line in axes.lines] == [1.5]


def test_components_without_rivals_can_be_drawn(tmp_path):
    model = db.GaussianMixture(1, 1, variance=1.0)
    fitted = model.fit(np.ones(5), rng=np.random.default_rng(0)).posterior
    axes = db.plot.alignment(db.align([fitted, db.Posterior.of_prior(model.structure)]))
    assert drawn(axes, tmp_path) > 1000


def test_nothing_aligned_is_nothing_to_draw():
    with pytest.raises(StructureMismatch, match="no coupled sets"):
        db.plot.alignment(db.align([db.Posterior.of_prior(db.models.GaussianMean(dimension=1).structure)]))


@pytest.mark.parametrize("covariance", ["spherical", "diagonal", "full", None])
def test_a_mixture_is_drawn_with_two_standard_deviations(covariance, rng, tmp_path):
    weak = {"prior_strength": 1e-6, "prior_scale": 2.25}
    settings = {"variance": 2.25, "prior_variance": 1e6} if covariance is None else {"covariance": covariance, **weak}
    model = db.GaussianMixture(1, 2, **settings)
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


def test_all_of_a_density_is_drawn_where_nothing_has_been_seen():
    """The prior's own variance is a hundred times that of a component."""
    model = db.GaussianMixture(2, 1, variance=0.01, prior_variance=1.0)
    line, density = db.plot.mixture(db.Posterior.of_prior(model.structure)).lines[0].get_data()
    assert np.sum(density) * (line[1] - line[0]) == pytest.approx(1.0, abs=0.01)


def test_topics_show_their_most_probable_words(tmp_path):
    model = db.LatentDirichletAllocation(2, ("apple", "pear", "plum"), topic_prior=1.0)
    figure = db.plot.topics(db.Posterior(model.structure, {"topics": [[9.0, 0.0, 5.0], [0.0, 7.0, 0.0]]}), top=2)
    words = [[label.get_text() for label in axes.get_yticklabels()] for axes in figure.axes]
    assert all(axes.yaxis_inverted() for axes in figure.axes)  # the first word is at the top
    assert (words[0], words[1][0]) == (["apple", "plum"], "pear")
    lengths = [bar.get_width() for bar in figure.axes[0].patches]
    # Nine and five counts on top of one each, of 17 in all.
    np.testing.assert_allclose(lengths, [10 / 17, 6 / 17])
    assert figure.axes[0].get_xlim() == figure.axes[1].get_xlim()
    assert drawn(figure, tmp_path) > 1000


def test_features_are_images(tmp_path):
    posterior = db.Posterior.of_prior(db.LatentFeatures(3, 6).structure)
    figure = db.plot.features(posterior, (2, 3))
    assert [axes.images[0].get_array().shape for axes in figure.axes] == [(2, 3)] * 3
    assert [axes.get_title() for axes in figure.axes] == ["0", "1", "2"]
    assert drawn(figure, tmp_path) > 1000


@pytest.mark.parametrize("shape", [(2, 2), (-2, -3), (6, 0)])
def test_a_shape_that_does_not_fit_is_refused(shape):
    posterior = db.Posterior.of_prior(db.LatentFeatures(3, 6).structure)
    with pytest.raises(InvalidData, match="6 numbers"):
        db.plot.features(posterior, shape)


@pytest.mark.parametrize("settings", [{"variance": 1.0}, {"covariance": "diagonal"}])
def test_means_of_a_mixture_can_be_images(settings, rng):
    model = db.GaussianMixture(2, 6, **settings)
    posterior = model.fit(np.arange(6.0) + rng.normal(size=(20, 6)), rng=rng).posterior
    means = posterior.mean("components")
    figure = db.plot.features(posterior, (2, 3))
    for axes, mean in zip(figure.axes, means, strict=True):
        np.testing.assert_array_equal(axes.images[0].get_array(), mean.reshape(2, 3))


def test_rows_of_images_are_named_and_each_image_is_in_its_place(tmp_path):
    rows = {"first": np.arange(12.0).reshape(2, 6), "second": np.arange(18.0).reshape(3, 6)}
    axes = db.plot.images(rows, (2, 3))
    assert [label.get_text() for label in axes.get_yticklabels()] == ["first", "second"]
    left, _, _, top = np.array([image.get_extent() for image in axes.images]).T
    np.testing.assert_array_equal(top[:2] < top[2:4], True)
    np.testing.assert_array_equal(np.diff(left[2:]) > 3, True)
    np.testing.assert_array_equal(axes.images[1].get_array(), [[6, 7, 8], [9, 10, 11]])
    assert all(abs(tick - middle) < 1 for tick, middle in zip(axes.get_yticks(), top[[0, 2]] + 1, strict=True))
    assert drawn(axes, tmp_path) > 1000


def test_zero_is_black_or_where_there_are_negative_numbers_mid_grey():
    positive, signed = np.full((1, 4), 3.0), np.array([[-2.0, 0.0, 0.0, 1.0]])
    assert [image.get_clim()[0] for image in db.plot.images({"": positive}, (2, 2)).images] == [0.0]
    lowest, highest = db.plot.images({"": np.vstack([positive, signed])}, (2, 2)).images[1].get_clim()
    assert lowest == -highest < -1.5
    assert db.plot.images({"": signed}, (2, 2), limits=(0, 16)).images[0].get_clim() == (0, 16)


def test_corners_of_the_simplex_are_certainties(tmp_path):
    axes = db.plot.simplex(np.eye(3), labels=("a", "b", "c"))
    corners = axes.collections[0].get_offsets()
    distances = np.linalg.norm(corners[:, None] - corners[None], axis=2)
    np.testing.assert_allclose(distances, 1.0 - np.eye(3), atol=1e-12)
    assert drawn(axes, tmp_path) > 1000
    with pytest.raises(InvalidData, match=r"\(2, 4\)"):
        db.plot.simplex(np.ones((2, 4)))


def test_points_of_the_simplex_have_their_colours_and_corners_need_no_names():
    colours = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    axes = db.plot.simplex([[1.0, 0.0, 0.0], [0.2, 0.3, 0.5]], colours=colours, labels=(), dot=0.8)
    np.testing.assert_array_equal(axes.collections[0].get_facecolors()[:, :3], colours)
    # Barycentric coordinates: 0.3 along the base and half of 0.5, and 0.5 of the height.
    np.testing.assert_allclose(axes.collections[0].get_offsets()[1], [0.55, 0.5 * np.sqrt(0.75)])
    assert (len(axes.texts), axes.collections[0].get_sizes()) == (0, 0.8)


def test_a_network_has_a_dot_for_every_agent_and_a_line_for_every_link(tmp_path):
    axes = db.plot.network([("a", "b"), ("b", "c")], values={"a": 1.0, "d": 2.0}, label="score")
    assert sorted(text.get_text() for text in axes.texts) == ["a", "b", "c", "d"]
    dots = axes.collections[0]
    places = {text.get_text(): text.xy for text in axes.texts}
    np.testing.assert_array_equal(dots.get_offsets(), [places[agent] for agent in "abcd"])
    for line, pair in zip(axes.lines, ("ab", "bc"), strict=True):
        np.testing.assert_array_equal(line.get_xydata(), [places[agent] for agent in pair])
    np.testing.assert_array_equal(np.ma.filled(dots.get_array(), np.nan), [1.0, np.nan, np.nan, 2.0])
    assert dots.colorbar.ax.get_ylabel() == "score"
    assert drawn(axes, tmp_path) > 1000


def test_agents_of_a_network_stand_in_the_order_of_their_numbers():
    axes = db.plot.network([("site-10", "site-2"), ("site-2", "base")])
    assert [text.get_text() for text in axes.texts] == ["base", "site-2", "site-10"]
    assert axes.collections[0].colorbar is None


def test_a_network_whose_agents_are_all_down_is_drawn(tmp_path):
    assert drawn(db.plot.network([("a", "b")], values={"a": float("nan"), "b": float("nan")}), tmp_path) > 1000


def test_networks_can_share_a_scale():
    axes = db.plot.network([("a", "b")], values={"a": 3.0, "b": float("nan")}, limits=(0, 9), scale=False)
    dots = axes.collections[0]
    assert (dots.get_clim(), dots.colorbar) == ((0, 9), None)
    first, second = dots.to_rgba(dots.get_array())
    assert np.ptp(first[:3]) > 0.1
    assert np.ptp(second[:3]) == 0  # grey


def test_a_picture_has_the_style_and_leaves_that_of_others_alone():
    from matplotlib import rc_context, rcParams

    with rc_context({"axes.labelsize": 20, "axes.spines.top": True}):
        axes = db.plot.mixture(db.Posterior.of_prior(STRUCTURE))
        assert (rcParams["axes.labelsize"], rcParams["axes.spines.top"]) == (20, True)
    assert (axes.xaxis.label.get_size(), axes.spines["top"].get_visible()) == (8, False)


# Machado, Oliveira and Fernandes (2009): how colours look without one of the three kinds of cones, in linear light.
EYES = {
    "all cones": np.eye(3),
    "no long": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "no middle": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "no short": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


def linear(colour):
    values = np.array([int(colour[place : place + 2], 16) for place in (1, 3, 5)]) / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def lightness(light):
    """CIE L*a*b*, in which distances are about those that people see; 2.3 is just noticed."""
    white = np.array(
        [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.072175], [0.0193339, 0.119192, 0.9503041]]
    )
    x, y, z = np.cbrt(np.maximum(white @ light / [0.95047, 1.0, 1.08883], 0.008856))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("eyes", EYES)
def test_colours_are_told_apart_by_eyes_of_every_kind(eyes):
    for colours, least in ((COLOURS, 14.0), ((AMPS, BATCH, NAIVE, SITES), 22.0)):
        seen = [lightness(np.clip(EYES[eyes] @ linear(colour), 0, 1)) for colour in colours]
        apart = [np.linalg.norm(first - second) for first, second in combinations(seen, 2)]
        assert min(apart) > least


def test_the_more_the_darker():
    light = [lightness(linear(shade))[0] for shade in SHADES]
    assert all(first > second + 10 for first, second in pairwise(light))


def test_reports_have_the_colours_of_pictures():
    style = files("decbayes.reporting").joinpath("page.css").read_text(encoding="utf-8")
    for number, colour in enumerate(COLOURS):
        assert style.count(f"--c{number}: {colour};") == 2  # on screen, and on paper


def test_close_calls_are_framed(sites, rng):
    """A point between two clusters may belong to either; slots that stay empty make no match a close call."""
    (coupled,) = STRUCTURE.symmetry
    between = db.model_for(STRUCTURE).fit(np.array([[4.0, 0.0]]), rng=rng).posterior
    for given, count, framed in ((sites, 2, 0), (sites, 4, 0), ([*sites[:-1], between], 3, 1)):
        found = db.align(given, components=count)
        seen = db.merging.reading.seen(found, coupled)
        margins = [own[coupled][there] for own, there in zip(db.merging.margins(found), seen, strict=True)]
        assert sum(int((own < CLOSE).sum()) for own in margins) == framed
        assert len(db.plot.alignment(found).patches) == framed


def test_pictures_are_large_enough_to_print(sites, tmp_path):
    pillow = pytest.importorskip("PIL.Image")
    db.plot.alignment(db.align(sites)).figure.savefig(tmp_path / "picture.png")
    assert min(pillow.open(tmp_path / "picture.png").size) >= 350


def test_long_words_and_names_leave_room_for_what_is_drawn(rng):
    """One long word had taken the room of all panels, and a topic of that name was called only … in a legend."""
    long = "Donaudampfschifffahrtsgesellschaftskapitän"
    counts = np.kron(np.eye(2, dtype=int), np.full((20, 3), 5))
    posterior = db.LatentDirichletAllocation(2, [long, "b", "c", "d", "e", "f"]).fit(counts, rng=rng).posterior
    labels = [label.get_text() for axes in db.plot.topics(posterior).axes for label in axes.get_yticklabels()]
    assert max(map(len, labels)) == 18
    assert any(label.startswith("Donaudampf") for label in labels)
    sites = [f"University Hospital of {town}" for town in ("Aachen", "Bern")]
    named = db.merging.name(posterior, dict.fromkeys(range(2), long))
    shares = db.texts.prevalence(named, counts[:30], site=sites[0]) + db.texts.prevalence(
        named, counts[10:], site=sites[1]
    )
    axes = db.plot.prevalence(shares.rows(named))
    assert [label.get_text() for label in axes.get_xticklabels()] == ["…Aachen", "…Bern"]
    assert all(text.get_text().startswith("Donaudampf") for text in axes.get_legend().get_texts())


@pytest.mark.parametrize(
    ("rule", "title"), [("best", "best: 6 slots"), ("smallest", "best: 6 slots; 4 within its error")]
)
def test_a_curve_says_which_number_of_slots_topics_take(rule, title):
    """Of a hundred observations: 4 slots are as good but for chance, 2 are not."""
    each = np.column_stack(
        [np.ones(100), -3.0 * np.ones(100), -2.0 + 0.1 * (-1.0) ** np.arange(100), np.full(100, -1.99)]
    )
    scores = db.checking.Scores(
        names=("2", "4", "6"),
        digests=("a", "b", "c"),
        observations=100,
        sums=each.sum(axis=0),
        products=each.T @ each,
        unit="word",
        rule=rule,
    )
    assert db.plot.slots(scores).get_title() == title
