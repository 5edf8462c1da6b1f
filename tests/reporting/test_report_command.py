"""`decbayes report`: files in, one page out."""

import contextlib
import io
import re

import numpy as np
import pytest

import decbayes as db
from decbayes.cli import main
from decbayes.cli.commands.everyday.report import distinct_names
from decbayes.page.describing import described


@pytest.fixture
def folder(tmp_path, monkeypatch, rng):
    monkeypatch.chdir(tmp_path)
    model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=100.0)
    for name in ("a", "b"):
        points = np.concatenate([rng.normal(-9, 1, 10), rng.normal(9, 1, 30)])
        db.save(model.fit(points, rng=rng).posterior, f"{name}.posterior")
    return tmp_path


def called(*words):
    with pytest.raises(SystemExit) as end, contextlib.redirect_stderr(io.StringIO()) as told:
        main(["report", *words])
    return end.value.code, told.getvalue()


def test_a_report_names_files_and_says_how_to_get_the_same(folder):
    code, told = called("b.posterior", "a.posterior", "-o", "report.html", "--components", "2", "--title", "Two labs")
    assert not code
    assert "report.html: 2 posteriors" in told
    text = (folder / "report.html").read_text()
    assert "<h1>Two labs</h1>" in text
    assert "decbayes merge a.posterior b.posterior --components 2 -o merged.posterior" in text
    # The command that the page names gives the posterior that it names.
    with pytest.raises(SystemExit), contextlib.redirect_stderr(io.StringIO()):
        main(["merge", "a.posterior", "b.posterior", "--components", "2", "-o", "merged.posterior"])
    assert db.load("merged.posterior").digest in text


def test_the_order_of_files_does_not_matter(folder):
    assert not called("a.posterior", "b.posterior", "-o", "one.html")[0]
    assert not called("b.posterior", "a.posterior", "-o", "two.html")[0]
    assert (folder / "one.html").read_bytes() == (folder / "two.html").read_bytes()


def test_matches_have_probabilities_where_simulations_are_quick(folder):
    assert not called("a.posterior", "b.posterior", "-o", "sure.html")[0]
    assert not called("a.posterior", "b.posterior", "-o", "margins.html", "--no-confidence")[0]
    assert ", probability " in (folder / "sure.html").read_text()
    assert ", margin " in (folder / "margins.html").read_text()


def test_a_report_since_an_earlier_merge_says_what_became_of_it(folder):
    db.save(db.load("a.posterior"), "earlier.posterior")
    assert not called("a.posterior", "b.posterior", "--since", "earlier.posterior", "-o", "report.html")[0]
    assert "2 components kept their ids since the earlier merge." in (folder / "report.html").read_text()


def test_an_input_is_never_overwritten(folder):
    before = (folder / "a.posterior").read_bytes()
    (folder / "a.html").write_bytes(before)
    code, _ = called("a.html", "b.posterior", "-o", "a.html")
    assert "is an input of this command" in code
    assert (folder / "a.html").read_bytes() == before
    assert "not a folder" in called("a.posterior", "-o", "nowhere/report.html")[0]


def test_files_of_one_name_are_distinct_names(tmp_path):
    paths = [tmp_path / "x" / "a.posterior", tmp_path / "y" / "a.posterior", tmp_path / "b.posterior"]
    assert distinct_names(paths) == ["x/a.posterior", "y/a.posterior", "b.posterior"]
    assert distinct_names([paths[2], paths[2]]) == [
        f"{paths[2].parent.name}/b.posterior",
        f"{paths[2].parent.name}/b (2).posterior",
    ]


def test_sites_are_called_what_they_call_themselves_and_ratios_keep_the_digits_of_their_intervals(folder, rng):
    age = rng.normal(60, 10, 400).round()
    stay = rng.poisson(np.exp(1.0 + 0.03 * (age - 60)))
    for site, like in (("north", []), ("south", ["--like", "north.1.posterior"])):
        rows = slice(0, 200) if site == "north" else slice(200, 400)
        lines = [f"{years},{days}" for years, days in zip(age[rows], stay[rows], strict=True)]
        (folder / f"{site}.csv").write_text("\n".join(["age,stay", *lines]))
        wanted = like or ["--formula", "stay ~ age"]
        words = ["fit", "poisson-regression", f"{site}.csv", *wanted, "--site", site, "-o", f"{site}.1.posterior"]
        with pytest.raises(SystemExit), contextlib.redirect_stderr(io.StringIO()):
            main(words)
    assert not called("north.1.posterior", "south.1.posterior", "-o", "report.html")[0]
    text = (folder / "report.html").read_text()
    assert ">north<" in text
    assert ">north.1<" not in text
    ratios = re.findall(r"<td[^>]*>1\.0\d+ \((1\.0\d+) to (1\.0\d+)\)", text)
    assert ratios
    assert all(low < high for low, high in ratios)


def test_a_slot_that_stays_empty_is_counted_and_not_shown(tmp_path, monkeypatch, rng, capsys):
    """One is added where most slots rest on one site; what nobody found is no component."""
    monkeypatch.chdir(tmp_path)
    model = db.GaussianMixture(1, 1, variance=1.0, prior_variance=1000.0)
    posteriors = [model.fit(rng.normal(place, 1, 20), rng=rng).posterior for place in (-50, 0, 50)]
    for name, posterior in zip("abc", posteriors, strict=True):
        db.save(posterior, f"{name}.posterior")
    alignment = db.align(posteriors)
    merged = alignment.merged()
    assert merged.mean("weights").size == 4
    (empty,) = np.flatnonzero(merged.contribution["weights"].ravel() == 0.0)
    kept = [slot for slot in range(4) if slot != empty]

    names = ["a.posterior", "b.posterior", "c.posterior"]
    with pytest.raises(SystemExit):
        main(["merge", *names, "-o", "merged", "--explain"])
    explained, told = capsys.readouterr()
    assert "3 posteriors, 3 components, 1 empty slot\n" in told
    with pytest.raises(SystemExit):
        main(["show", "merged"])
    shown = capsys.readouterr().out
    assert "and 1 empty slot, which no site has filled" in shown
    for text, tables in ((explained, 2), (shown, 2), (str(merged), 1)):
        assert [int(slot) for slot in re.findall(r"^ ?(\d)  ", text, re.MULTILINE)] == kept * tables
    assert re.findall(r"<t[hd][^>]*>(\d)<", merged._repr_html_()) == [str(slot) for slot in kept]

    called(*names, "-o", "report.html")
    page = (tmp_path / "report.html").read_text()
    assert re.findall(r'id="component-(\d)"', page) == [str(slot) for slot in kept]
    assert re.findall(r'<th scope="col" title="(\d)"', page) == [str(slot) for slot in kept]
    assert "3 clusters, and 1 empty slot." in page
    assert "Predictive density of" in page
    assert f"cluster {empty}" not in page.lower()
    assert "nan%" not in page
    on_page = described(model, merged, alignment, names).posterior["components"]
    assert [component["slot"] for component in on_page] == kept
    alone = described(model, merged, None, ()).posterior["components"]
    assert [component["slot"] for component in alone] == kept
