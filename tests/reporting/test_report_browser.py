"""A report in a real browser, opened from disk: nothing runs, nothing is fetched, and everybody can read it."""

from pathlib import Path

import numpy as np
import pytest
from browser import CHROMIUM, HOW_TO, Browser
from test_sentences import CASES, SITES

import decbayes as db

pytestmark = [pytest.mark.timeout(180), pytest.mark.skipif(CHROMIUM is None, reason=HOW_TO)]

AXE = Path(__import__("axe_core_python").__file__).parent / "axe.min.js"
HOSTILE = "<script>document.title = 'taken'</script>"


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Tables of three sites, with a column and a site of a hostile name, one of which disagrees."""
    rng, target = np.random.default_rng(0), tmp_path_factory.mktemp("report") / "report.html"
    columns = {"age": db.columns.Gaussian(50, 20), HOSTILE: db.columns.Categorical("<img onerror=x src=y>", "skin")}
    model = db.LatentClasses(2, columns=columns)
    posteriors = []
    for shift in (0, 0, 30):
        kind = rng.integers(2, size=120)
        rows = np.column_stack([rng.normal(30 + 40 * kind + shift, 4), kind])
        posteriors.append(model.fit(rows, rng=rng).posterior)
    db.report(db.align(posteriors), target, names=["north", "south", HOSTILE], title="Three wards")
    return target


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


@pytest.mark.parametrize(("width", "dark"), [(1400, False), (400, True)])
def test_a_report_is_readable_by_everybody_and_asks_nobody(browser, written, width, dark):
    tab = browser.page(written.as_uri(), width=width, dark=dark)
    assert tab.run("document.title") == "Three wards"
    assert tab.run("document.scripts.length + document.images.length") == 0
    assert tab.errors == []
    assert tab.requests == [written.as_uri()]
    assert tab.run("document.documentElement.scrollWidth") <= width
    tab.run(AXE.read_text(encoding="utf-8"))
    assert tab.run("axe.run().then(r => r.violations.map(v => [v.id, v.nodes[0].html]))") == []


def regression(rng):
    model = db.LogisticRegression("died", columns={"age": db.columns.Gaussian(60, 10), "died": "yes/no"})
    age = rng.normal(60, 10, (3, 80))
    return model, [np.column_stack([row, rng.random(80) < 1 / (1 + np.exp(6 - 0.1 * row))]) for row in age]


def topics(rng):
    model = db.LatentDirichletAllocation(2, ["mast", "tide", "pawn", "rook"])
    return model, [rng.poisson(5.0 * rng.permuted([[1, 1, 0, 0]] * 30, axis=0)) for _ in range(2)]


def states(rng):
    model = db.HiddenMarkov(2, columns={"load": db.columns.Gaussian(50, 30)})
    return model, [[rng.normal(20 + 60 * rng.integers(2, size=(40, 1)), 4) for _ in range(5)] for _ in range(2)]


def faults(tab):
    """What axe-core finds, on a phone, in light and in dark."""
    tab.run("document.querySelectorAll('details').forEach(part => part.open = true)")
    tab.run(AXE.read_text(encoding="utf-8"))
    found = []
    for dark in (False, True):
        tab.look(width=390, height=900, dark=dark)
        found += tab.run("axe.run().then(r => r.violations.map(v => [v.id, v.nodes[0].html]))")
    assert tab.run("document.documentElement.scrollWidth") <= 390
    return found


@pytest.mark.parametrize("world", [regression, topics, states])
def test_every_kind_of_drawing_can_be_read_by_everybody_with_all_details_open(browser, world, tmp_path):
    rng = np.random.default_rng(0)
    model, shards = world(rng)
    db.report(db.align([model.fit(shard, rng=rng).posterior for shard in shards]), tmp_path / "report.html")
    assert faults(browser.page((tmp_path / "report.html").as_uri())) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_every_models_report_can_be_read_by_everybody(browser, name, tmp_path):
    db.report(db.align(CASES[name][0]()), tmp_path / "report.html", names=SITES)
    assert faults(browser.page((tmp_path / "report.html").as_uri())) == []
