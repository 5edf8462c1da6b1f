"""The notebooks of the documentation run, and what they say in words is so."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

import decbayes as db

pytest.importorskip("matplotlib", reason="needs the plot extra")
DOCS = Path(__file__).parents[1] / "docs"
specification = importlib.util.spec_from_file_location("executed", DOCS / "executed.py")
executed = importlib.util.module_from_spec(specification)
specification.loader.exec_module(executed)

NOTEBOOKS = sorted(path.stem for path in (DOCS / "notebooks").glob("*.py"))


def archives(names):
    scores = names["scores"]
    assert scores["merged"] > scores["naive merge"] + 0.2
    assert scores["merged"] > scores["port alone"] + 1.0
    assert scores["merged"] == pytest.approx(scores["all letters in one place"], abs=0.1)
    # Each theme is one topic: its words have most of what is not said everywhere.
    shares = names["merged"].mean("topics")[:, :70].reshape(7, 7, 10).sum(axis=2)
    assert sorted(shares.argmax(axis=1)) == list(range(7))


def hospitals(names):
    assert [name for site, name in enumerate(names["posteriors"]) if names["influence"].flags(site)] == ["hill"]
    assert not any(db.merging.influence(names["corrected"]).flags(site) for site in range(5))
    assert names["difference"] < 1e-9
    scores = names["scores"]
    assert scores["lake alone"] < scores["merged"] == pytest.approx(scores["all rows in one place"], abs=0.02)


def sensors(names):
    alone, *_, last = names["history"]
    assert np.ptp(last) == 0.0
    assert last[0] > max(alone) + 0.2
    assert last[0] == pytest.approx(names["batch"], abs=0.03)
    assert np.isnan(names["history"][8][5])
    assert len({posterior.digest for posterior in names["posteriors"]}) == 1


CLAIMS = {"archives": archives, "hospitals": hospitals, "sensors": sensors}


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs_and_does_what_it_says(name):
    if name == "sensors":
        pytest.importorskip("cryptography", reason="needs the net extra")
    notebook = executed.run(DOCS / "notebooks" / f"{name}.py")
    CLAIMS[name](notebook.names)
    page = "\n\n".join(executed.as_markdown(notebook, name))
    assert page.startswith("# ")
    drawn = [number for number, cell in enumerate(notebook.cells) if cell.picture]
    assert drawn
    assert all(f"({name}-{number}.png)" in page for number in drawn)
    stored = json.loads(json.dumps(executed.as_ipynb(notebook)))
    assert [cell["source"] for cell in stored["cells"]] == [cell.source for cell in notebook.cells]
    assert sum("image/png" in str(cell.get("outputs")) for cell in stored["cells"]) == len(drawn)


def test_notebooks_are_in_the_navigation():
    configuration = (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8")
    assert not [name for name in NOTEBOOKS if f"notebooks/{name}.md" not in configuration]


def test_cells_are_words_or_code_and_show_what_their_last_line_is_worth(tmp_path):
    source = tmp_path / "small.py"
    source.write_text("# %% [markdown]\n# # Title\n#\n# Words.\n\n# %%\nx = 2\nprint('told')\nx + 1\n\n# %%\nx;\n")
    words, shown, silent = executed.run(source).cells
    assert (words.words, words.source) == (True, "# Title\n\nWords.")
    assert shown.printed == "told\n3\n"
    assert silent.printed == ""
