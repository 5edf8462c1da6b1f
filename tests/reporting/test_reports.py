"""A report says what the alignment says, whoever wrote the labels, and needs nothing but itself."""

import html
import io
import re
import subprocess
import sys
from base64 import b64decode
from html.parser import HTMLParser

import numpy as np
import pytest

import decbayes as db
from decbayes.merging.reading import DISAGREES, Curve, Reliability
from decbayes.reporting.markup import Markup, concat, coordinate, image, left_out, tag
from decbayes.reporting.reports import page
from decbayes.views.values import DIVIDED

HOSTILE = '<script>alert("1")</script>', "\"><img src=x onerror='alert(1)'>", "a&b;\u202egnp.exe", "</style><b>"
NAMES = ["north", "south", "west"]
LOADING = {"src", "href", "srcset", "data", "action", "poster", "background"}
VOID = {"br", "col", "hr", "img", "meta"}


class Seen(HTMLParser):
    """Everything in a page: elements, attributes, and text by the element it is in."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.texts, self.open = [], [], [], []
        self.feed(text)
        assert not self.open, "every element that was opened is closed"

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append((self.open[-1] if self.open else "", data))

    def text(self, *tags):
        return [data for tag, data in self.texts if tag in tags]


def topics(counts, words=("apple", "pear", "plum")):
    model = db.LatentDirichletAllocation(len(counts), words, topic_prior=1.0)
    return db.Posterior(model.structure, {"topics": counts})


@pytest.fixture
def orchards():
    """Three sites that agree on two topics, each in an order of its own."""
    return [
        topics([[90.0, 10.0, 0.0], [0.0, 5.0, 50.0]]),
        topics([[0.0, 5.0, 45.0], [80.0, 10.0, 0.0]]),
        topics([[70.0, 9.0, 0.0], [0.0, 4.0, 60.0]]),
    ]


@pytest.fixture
def wards(rng):
    """Four sites of one table; the last has patients who are forty years older."""
    columns = {"age": db.columns.Gaussian(50, 20), "ward": db.columns.Categorical("heart", "skin")}
    model = db.LatentClasses(2, columns=columns)

    def fitted(shift):
        kind = rng.integers(2, size=120)
        return model.fit(np.column_stack([rng.normal(30 + 40 * kind + shift, 4), kind]), rng=rng).posterior

    return [fitted(shift) for shift in (0, 0, 0, 40)]


def test_labels_of_others_stay_text(tmp_path):
    posteriors = [topics([[9.0, 5.0, 1.0, 1.0]], HOSTILE), topics([[8.0, 5.0, 2.0, 1.0]], HOSTILE)]
    text = page(db.align(posteriors), names=HOSTILE[:2], title=HOSTILE[3])
    seen = Seen(text)
    assert not {"script", "b2", "iframe", "object", "link", "base", "form"} & set(seen.tags)
    assert not [name for name, _ in seen.attributes if name.startswith("on")]
    assert not [value for _, value in seen.attributes if value and value.strip().startswith("javascript:")]
    # What a reader sees is the label itself, letter by letter; what could not be seen is spelled out.
    assert {HOSTILE[0], HOSTILE[1], HOSTILE[3]} <= set(seen.text("span", "th", "h1"))
    assert "\u202e" not in text
    assert "a&b;\\u202egnp.exe" in seen.text("span")
    assert seen.tags.count("style") == 1


def test_a_file_loads_nothing_and_runs_nothing(orchards, tmp_path):
    db.report(db.align(orchards), tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    seen = Seen(text)
    addresses = [value for name, value in seen.attributes if name in LOADING]
    assert addresses
    assert all(value.startswith(("#", "data:image/png;base64,")) for value in addresses)
    assert not re.search(r"https?://|url\(|@import", text)
    assert ("content", "default-src 'none'; style-src 'unsafe-inline'; img-src data:") in seen.attributes


def test_links_lead_to_sections(orchards):
    seen = Seen(page(db.align(orchards)))
    targets = {value for name, value in seen.attributes if name == "id"}
    assert {value[1:] for name, value in seen.attributes if name == "href"} <= targets
    assert len(targets) == len([name for name, _ in seen.attributes if name == "id"])


def test_the_same_set_gives_the_same_bytes_in_any_order(orchards):
    first = page(db.align(orchards), names=NAMES)
    order = [2, 0, 1]
    again = page(db.align([orchards[k] for k in order]), names=[NAMES[k] for k in order])
    assert first == again
    assert page(db.align(orchards), names=["north", "south", "wést"]) != first


def test_so_it_is_where_counts_are_divided_among_components(orchards):
    """The last site's first topic is half of each; its shares must stay with it in another order."""
    held, order = [*orchards[:2], topics([[40.0, 8.0, 35.0], [0.0, 3.0, 50.0]])], [2, 0, 1]
    found = db.align(held)
    assert found.divisions
    again = db.align([held[k] for k in order])
    assert page(found, names=NAMES) == page(again, names=[NAMES[k] for k in order])
    assert DIVIDED in html.unescape(page(found, names=NAMES)), "sums of sites differ from those of the merge"
    assert DIVIDED not in html.unescape(page(db.align(orchards), names=NAMES))


def test_topics_are_shown_with_their_words_and_probabilities(orchards):
    found = db.align(orchards)
    shares = found.merged().mean("topics")
    seen = Seen(page(found, names=NAMES))
    order = [["apple", "pear", "plum"][word] for row in shares for word in np.argsort(-row)]
    listed = [text for text in seen.text("span") if text in ("apple", "pear", "plum")]
    assert listed[-len(order) :] == order, "on the cards, after the map"
    assert seen.text("em") == [f"{share:.1%}" for row in shares for share in sorted(row)[::-1]]


def test_the_matrix_says_which_component_went_where(orchards):
    found = db.align(orchards)
    (coupled,) = found.structure.symmetry
    text = page(found, names=NAMES)
    rows = re.search(r'class="matrix named">.*?<tbody>(.*?)</tbody>', text)[1].split("</tr>")[:-1]
    shown = [re.findall(r"<td[^>]*>(\d*)", row) for row in rows]
    assert shown == [[str(cell[0]) for cell in row] for row in db.merging.fillings(found, coupled)]
    assert [re.search(r'scope="row">(.*?)<', row)[1] for row in rows] == NAMES


def test_matches_have_the_probabilities_that_were_learned(orchards):
    found = db.align(orchards)
    curve = Curve(0.5, (0.0, 0.0, 0.0))
    taught = Reliability(curve, Curve(0.5, (0.0,) * 4), 100, 0.9, 0.5)
    text = page(found, names=NAMES, reliability=taught)
    shown = [float(value) / 100.0 for value in re.findall(r'title="[^"]*, probability ([0-9.]+)%"', text)]
    assert len(shown) == 6
    np.testing.assert_allclose(shown, 1.0 / (1.0 + np.exp(-0.5)), atol=0.01)
    assert "Close calls (probability under 0.8)" in text
    assert ", margin " not in text
    assert ", margin " in page(found, names=NAMES, reliability=False)


def test_a_site_that_disagrees_is_named_with_what_it_says(wards):
    found = db.align(wards, solver=db.solvers.Matching())
    assert db.merging.influence(found).disagreeing.tolist() == [False, False, False, True]
    text = page(found, names=[*NAMES, "odd"])
    assert re.search(r'class="serious"><b>odd disagrees with the others in 100% of its evidence', text)
    (apart,) = db.checking.heterogeneity(found).values()
    assert f"Sites differ by more than chance in 2 classes: 0 ({apart.ratio[0]:.3g} × chance)" in text
    section = text.split('id="where-sites-disagree"')[1].split("</section>")[0]
    assert set(re.findall(r'<th scope="row">(\w+)<', section)) == {"odd"}
    factors = db.merging.influence(found).log_bayes_factor[3]
    assert len(re.findall(r'<th scope="row">', section)) == (factors < DISAGREES).sum()
    # Its patients are forty years older than everybody else's.
    ages = [float(age) for age in re.findall(r"age (\d+)", section)]
    assert sorted(round(age, -1) for age in ages) == [30, 70, 70, 110]


def test_what_stands_out_is_said_and_nothing_else(orchards):
    calm = page(db.align(orchards), names=NAMES)
    assert "Nothing stands out." in calm
    twice = page(db.align([*orchards[:2], orchards[0]]), names=NAMES)
    assert "The same data seem to count more than once: they are at north, west." in twice
    idle = page(db.align([*orchards, topics(np.zeros((2, 3)))]), names=[*NAMES, "idle"])
    assert "No data: idle." in idle
    few = page(db.align([topics([[90.0, 10.0, 0.0], [0.0, 0.0, 3.0]]), orchards[0]]), names=NAMES[:2])
    assert "with fewer than 5" not in few
    few = page(db.align([topics([[90.0, 10.0, 0.0], [0.0, 0.0, 3.0]])]), names=["alone"])
    assert "1 topic with fewer than 5 occurrences: 1." in few


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_what_rests_on_few_observations_is_counted_and_not_shown(dimension, rng):
    """Two points far away are a cluster of their own, whose mean is all but the points."""
    model = db.GaussianMixture(2, dimension, variance=1.0, prior_variance=1e6)
    points = np.concatenate([rng.normal(0, 1, (40, dimension)), np.full((2, dimension), 777.0)])
    found = db.align([model.fit(points, rng=rng).posterior])
    assert sorted(np.round(np.ravel(found.merged().mean("components")[:, 0]))) == [0, 777]
    hidden, shown = page(found), page(found, least=0.0)
    assert "1 cluster with fewer than 5 observations" in hidden
    assert "777" not in hidden
    assert "777" in shown


def test_a_site_is_not_quoted_on_what_few_of_its_observations_say(wards):
    """Each class of the odd site holds about sixty patients: with `least` above that nothing of it is quoted."""
    found = db.align(wards, solver=db.solvers.Matching())

    def quoted(least):
        text = page(found, names=[*NAMES, "odd"], least=least)
        return re.findall(r"<td>([^<]*)</td>", text.split('id="where-sites-disagree"')[1].split("</section>")[0])

    assert quoted(100.0)[2::4] == ["–", "–"]
    assert all("age" in text for text in quoted(5.0)[2::4] + quoted(100.0)[3::4])


def test_every_kind_of_model_is_drawn(rng):
    frame = {"age": rng.normal(50, 9, 60), "visits": rng.poisson(3, 60), "smoker": rng.random(60) < 0.5}
    table = frame | {"cost": 3 * frame["age"] + rng.normal(size=60)}
    models = {
        "coefficients": (db.LinearRegression.from_frame(table, target="cost"), table),
        "states": (db.HiddenMarkov(2, columns={"pulse": db.columns.Gaussian(0, 1)}), [rng.normal(size=(20, 1))] * 3),
        "ellipses": (
            db.GaussianMixture(2, 2, variance=1.0),
            rng.normal(np.repeat([[-4.0], [4.0]], 15, axis=0), 1.0, (30, 2)),
        ),
        "density": (db.GaussianMixture(2, 1, variance=1.0), rng.normal(size=30)),
        "panels": (db.GaussianMixture(2, 3, variance=1.0), rng.normal(size=(30, 3))),
        "images": (
            db.LatentFeatures(2, 16, variance=1.0),
            3 * rng.integers(2, size=(30, 2)) @ np.eye(2).repeat(8, axis=1),
        ),
        "rates": (db.PoissonMixture(2, 2), rng.poisson(3, size=(30, 2))),
        "number": (db.models.GaussianMean(dimension=1), rng.normal(size=30)),
    }
    marks = {
        "coefficients": 'class="range"',
        "states": "How often each state is followed",
        "ellipses": 'class="outline c1"',
        "density": 'class="curve"',
        "panels": "one standard deviation",
        "images": "data:image/png",
        "rates": 'id="component-1"',
        "number": "standard deviation",
    }
    for name, (model, data) in models.items():
        fitted = [model.fit(data, rng=rng).posterior for _ in range(2)]
        text = page(db.align(fitted), reliability=False)
        assert marks[name] in text, name
        assert "svg" in Seen(text).tags or name in ("images", "rates", "number")


def test_observations_are_counted_in_observations(rng):
    """Features with little noise: their precision says 25 times as much as was seen."""
    model = db.LatentFeatures(2, 16, variance=0.04)
    drawn = np.repeat(np.eye(2), 8, axis=1)
    shards = [rng.integers(2, size=(60, 2)) @ drawn + rng.normal(0, 0.2, (60, 16)) for _ in range(2)]
    found = db.align([model.fit(shard, rng=rng).posterior for shard in shards])
    text = page(found)
    assert "<b>120</b><span>observations</span>" in text
    told = [float(count) for count in re.findall(r"2 of 2 sites · ([\d.]+) observations", text)]
    np.testing.assert_allclose(told, 120 * found.merged().mean("inclusion"), atol=1.0)


def test_intervals_of_a_regression_are_those_of_the_model(rng):
    age = rng.normal(50, 9, 80)
    frame = {"age": age, "cost": 3 * age + rng.normal(size=80)}
    model = db.LinearRegression.from_frame(frame, target="cost")
    found = db.align([model.fit(frame, rng=rng).posterior])
    (slope,) = [row for row in model.coefficients(found.merged(), level=0.9) if row["term"] == "age"]
    cells = re.search(r'<th scope="row">age</th>(.*?)</tr>', page(found))[1]
    shown = [float(text) for text in re.findall(r"[\d.]+(?=[ <])", cells)]
    np.testing.assert_allclose(shown, [slope[key] for key in ("mean", "low", "high")], rtol=5e-3)


def test_many_components_stay_readable_and_small(rng):
    """Of 120 components the smallest have no card; what is left out is said."""
    words = tuple(f"word{number}" for number in range(240))
    base = np.kron(np.eye(120), np.ones((1, 2))) * 50.0
    found = db.align([topics(base * rng.poisson(5, size=base.shape), words) for _ in range(3)])
    text, counts = page(found), found.merged().contribution["topics"].sum(axis=1)
    shown = [int(slot) for slot in re.findall(r'class="card" id="component-(\d+)"', text)]
    assert shown == sorted(np.argsort(-counts, kind="stable")[:100])
    assert "The other 20 topics, which have less evidence" in text
    assert "3 sites from top to bottom, by name, 120 topics from left to right" in text
    assert Seen(text).tags.count("img") == 1
    assert len(text) < 400_000


def test_many_sites_stay_readable_and_small(rng):
    """Sites that stand out are listed first; the others are counted."""
    counts = np.array([[90.0, 10.0, 0.0], [0.0, 5.0, 50.0]])
    honest = [topics(np.round(counts * rng.uniform(0.8, 1.2, size=counts.shape), 1)) for _ in range(109)]
    text = page(db.align([*honest, topics(20 * counts)]), names=[*map(str, range(109)), "zz"], reliability=False)
    section = text.split('id="what-was-merged"')[1].split("</section>")[0]
    assert section.count("<tr>") == 101
    assert "10 further sites not standing out are left out." in section
    assert re.search(r">zz</th>.*?has \d+% of all evidence", section)
    assert "110 sites from top to bottom" in text
    assert len(text) < 200_000


def test_names_must_tell_sites_apart(orchards, tmp_path):
    for names in (["a", "b"], ["a", "b", "a"]):
        with pytest.raises(ValueError, match="distinct, one for each of the 3"):
            db.report(db.align(orchards), tmp_path / "report.html", names=names)
    with pytest.raises(TypeError, match="alignment"):
        db.report(orchards, tmp_path / "report.html")
    assert not list(tmp_path.iterdir())


def test_no_extra_is_needed():
    code = (
        "import sys, numpy as np, decbayes as db\n"
        "m = db.GaussianMixture(2, 2, variance=1.0)\n"
        "p = [m.fit(np.arange(6.0).reshape(3, 2), rng=np.random.default_rng(0)).posterior] * 2\n"
        "from decbayes.reporting.reports import page\n"
        "page(db.align(p), reliability=False); p[0]._repr_html_()\n"
        "print(sorted({'matplotlib', 'rich', 'cyclopts', 'pandas'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_children_are_escaped_unless_they_are_markup():
    assert tag("p", "<", Markup("<br>"), ["&", 1.5], None, title='"<') == '<p title="&quot;&lt;">&lt;<br>&amp;1.5</p>'
    assert tag("img", src="x", alt=None) == '<img src="x">'
    assert tag("g", class_="a", stroke_width=1.25) == '<g class="a" stroke-width="1.2"></g>'
    assert concat("a\nb") == "a\\nb"
    assert left_out(1, "site", " with less") == '<p class="note">1 further site with less is left out.</p>'
    assert "1,200 further values are left out." in left_out(1200, "value")
    assert left_out(0, "value") is None
    assert [coordinate(value) for value in (-0.01, 2.0, -3.14)] == ["0", "2", "-3.1"]


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_images_hold_their_pixels(channels, rng):
    pillow = pytest.importorskip("PIL.Image", reason="comes with the plot extra")
    pixels = rng.integers(256, size=(5, 7, channels)).astype(np.uint8)
    opened = pillow.open(io.BytesIO(b64decode(image(pixels).split(",")[1])))
    np.testing.assert_array_equal(np.asarray(opened).reshape(pixels.shape), pixels)
