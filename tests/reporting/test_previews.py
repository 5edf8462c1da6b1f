"""The page of a preview says what the preview says, marks what breaks a rule, and loads nothing."""

from html.parser import HTMLParser

import numpy as np
import pytest

import decbayes as db
from decbayes.disclosure import Manifest, Rules
from decbayes.disclosure.previewing import Preview
from decbayes.disclosure.rarities import Statement
from decbayes.reporting.previews import preview_page


class Words(HTMLParser):
    """The text of a page, its marks, and whatever it would load."""

    def __init__(self, page):
        super().__init__()
        self.text, self.marks, self.loaded = "", [], []
        self.feed(page)

    def handle_starttag(self, name, attributes):
        given = dict(attributes)
        self.loaded += [given[key] for key in ("src", "href") if key in given] + [name] * (name == "script")
        self.marks += [word for word in given.get("class", "").split()[1:] if given["class"].startswith("mark ")]

    def handle_data(self, data):
        self.text += data


def page_of(*severities, **more):
    statements = tuple(Statement(f"topic {n}", f"text <{n}>", severity) for n, severity in enumerate(severities))
    return Words(preview_page(Preview("a file", statements, **more)))


@pytest.mark.parametrize("severities", [("fine",), ("fine", "look"), ("look", "stop", "fine")])
def test_marks_are_those_of_the_statements_the_worst_first(severities):
    order = ["stop", "look", "fine"]
    marks = page_of(*severities).marks
    assert marks[1:] == sorted(severities, key=order.index)
    assert marks[0] == marks[1]


def test_everything_is_said_and_nothing_is_loaded():
    page = page_of(
        "fine",
        "stop",
        private=("column 'a': '<b>' in 2 rows",),
        membership=0.83,
        sizes=np.array([40.0, 3.0]),
        deviations=np.array([2.5, 0.1]),
        facts=(("site", "north"),),
    )
    for words in ("text <0>", "must not leave", "'<b>' in 2 rows", "83%", "north", "For you only", "40", "2.5"):
        assert words in page.text
    assert page.loaded == []


def test_a_preview_of_a_file_states_its_manifest(rng):
    points = np.concatenate([rng.normal(size=(60, 1)), 9.0 + rng.normal(size=(40, 1))])
    posterior = db.GaussianMixture(2, 1, variance=1.0, prior_variance=100.0).fit(points, rng=1).posterior
    manifest = Manifest(
        posterior.digest, "GaussianMixture", Rules(), site="north", rows=100, left_out={"missing values": 7}
    )
    seen = db.disclosure.preview(posterior, points, manifest=manifest)
    text = Words(preview_page(seen)).text
    assert ("model", "mixture") in seen.facts
    for words in ("north", "7 (missing values)", "fewer than 5 persons", "draft"):
        assert words in text
        assert words in str(seen)


def test_a_page_without_data_does_not_say_that_the_file_may_leave():
    assert "once approved" in page_of("fine").text
    unchecked = page_of("look", checked=False).text
    assert "once approved" not in unchecked
    assert "the data were not checked" in unchecked


def test_titles_say_what_was_fitted_in_words():
    model = db.LogisticRegression("died", columns={"died": "yes/no", "old": "yes/no"})
    rows = model.points({"died": [True, False] * 20, "old": [True, True, False, False] * 10})
    assert db.disclosure.preview(model.fit(rows).posterior, rows).title.startswith("Logistic regression")
