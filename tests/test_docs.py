"""Every Python block and every command of every page runs, in order, and does what the page says."""

import contextlib
import importlib
import warnings
from pathlib import Path

import numpy as np
import pytest
from pages import OPTIONAL, Reader

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.fixture(autouse=True, scope="module")
def optional_libraries():
    """Imported beforehand: some warn on import, which would be an error here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in OPTIONAL:
            with contextlib.suppress(ModuleNotFoundError):
                importlib.import_module(name)


@pytest.fixture
def follow(tmp_path, monkeypatch):
    """A function that follows a page in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def followed(name):
        reader = Reader()
        reader.follow(next(page for page in PAGES if page.name == name))
        return reader

    return followed


def claims_your_own_model(names):
    scores = names["scores"]
    assert scores["merged"] > scores["naive"] + 0.1
    assert scores["merged"] == pytest.approx(scores["all data at once"], abs=0.01)
    # Rates of 4, 40 and 100 from hundreds of counts, and one more shop that had 44 in the middle.
    np.testing.assert_allclose(np.sort(names["merged"].mean("rates")[:, 0]), [4.0, 40.0, 100.0], rtol=0.1)
    tastes = names["together"].mean("tastes").reshape(3, 3, 2).sum(axis=2)
    assert sorted(tastes.argmax(axis=1)) == [0, 1, 2]
    assert tastes.max(axis=1).min() > 0.95


CLAIMS = {"your-own-model.md": claims_your_own_model}


@pytest.mark.parametrize("name", [page.name for page in PAGES])
def test_a_page_runs_and_does_what_it_says(name, follow):
    reader = follow(name)
    CLAIMS.get(name, lambda names: None)(reader.names)


def test_the_benchmarks_page_names_every_benchmark():
    scripts = {path.name for path in (ROOT / "benchmarks").glob("*.py") if not path.name.startswith("_")}
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert {name for name in scripts if f"`{name}`" not in page} <= {"run_all.py"}


def test_every_page_is_in_the_navigation():
    configuration = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert not [page.name for page in PAGES[1:] if f": {page.name}" not in configuration]
