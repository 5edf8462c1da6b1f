"""Every Python block of every page runs, in order, and says what the page says."""

import contextlib
import importlib
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
OPTIONAL = ("gensim", "tomotopy", "numpyro")
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True, scope="module")
def optional_libraries():
    """Imported beforehand: some warn on import, which would be an error here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in OPTIONAL:
            with contextlib.suppress(ModuleNotFoundError):
                importlib.import_module(name)


def executed(page):
    """The names that a page's blocks leave behind, run one after another as a reader would."""
    names = {"__name__": "__page__"}
    for block in BLOCK.finditer(page.read_text(encoding="utf-8")):
        line = page.read_text(encoding="utf-8")[: block.start(1)].count("\n")
        try:
            exec(compile("\n" * line + block[1], str(page), "exec"), names)
        except ModuleNotFoundError as error:
            # A block about a library that is not installed is left out, and only that block.
            if error.name not in OPTIONAL:
                raise
    return names


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.name != "your-own-model.md"], ids=lambda page: page.name
)
def test_the_blocks_of_a_page_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    executed(page)


def test_your_own_model_merges_as_its_page_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = executed(next(page for page in PAGES if page.name == "your-own-model.md"))
    scores = names["scores"]
    assert scores["merged"] > scores["naive"] + 0.1
    assert scores["merged"] == pytest.approx(scores["all data at once"], abs=0.01)
    # Rates of 4, 40 and 100 from hundreds of counts, and one more shop that had 44 in the middle.
    np.testing.assert_allclose(np.sort(names["merged"].mean("rates")[:, 0]), [4.0, 40.0, 100.0], rtol=0.1)
    tastes = names["together"].mean("tastes").reshape(3, 3, 2).sum(axis=2)
    assert sorted(tastes.argmax(axis=1)) == [0, 1, 2]
    assert tastes.max(axis=1).min() > 0.95
