"""`decbayes quality` and what `show` says of topics."""

import json
from dataclasses import replace

import numpy as np
import pytest

import decbayes as db
from decbayes.errors import StructureMismatch

THEMES = ["vaccine dose ward nurse", "anchor mast tide crew"]


@pytest.fixture
def offices(tmp_path, rng):
    """Two offices, and a posterior of two topics."""
    model = db.LatentDirichletAllocation(2, tuple(sorted(" ".join(THEMES).split())), topic_prior=0.1)
    for name in "ab":
        texts = [" ".join(rng.choice(THEMES[n % 2].split(), 6)) for n in range(30)]
        (tmp_path / f"{name}.txt").write_text("\n".join(texts), encoding="utf-8")
    counts = model.read([tmp_path / "a.txt", tmp_path / "b.txt"])
    posterior = model.fit(counts, rng=rng).posterior
    db.save(posterior, tmp_path / "m.posterior")
    return posterior, counts


def test_counts_of_offices_add_up_to_the_coherence_on_all_documents(run, offices, tmp_path):
    posterior, counts = offices
    for name in "ab":
        assert run(f"quality m.posterior --data {name}.txt --top 4 --least 0 -o {name}.quality")[0] == 0
    assert "a.quality is given twice" in run("quality m.posterior --counts a.quality a.quality --top 4")[2]
    status, shown, _ = run("quality m.posterior --counts a.quality b.quality --top 4 --json")
    found = db.texts.Quality(posterior, top=4)
    expected = found.co_occurrence([counts]).coherence()
    rows = [json.loads(line) for line in shown.splitlines()]
    assert status == 0
    np.testing.assert_allclose([row["coherence"] for row in rows], expected)
    assert [tuple(row["telling"]) for row in rows] == list(found.telling)
    status, shown, _ = run("quality m.posterior --data a.txt b.txt --top 4")
    assert (status, f"coherence (NPMI) {expected.mean():.3f} on 60 documents" in shown) == (0, True)
    stored = json.loads((tmp_path / "a.quality").read_text(encoding="utf-8"))
    assert set(stored) == {"format", "documents", "words", "counts", "hidden"}, "all that leaves an office"
    assert run("quality m.posterior --data a.txt --top 4 --least 8 -o few.quality")[0] == 0
    few = np.array(json.loads((tmp_path / "few.quality").read_text(encoding="utf-8"))["counts"])
    assert ((few == 0) | (few >= 8)).all()


def test_what_small_counts_leave_open_is_said(run, offices, tmp_path):
    for name in "ab":
        assert run(f"quality m.posterior --data {name}.txt --top 4 --least 13 -o {name}.quality")[0] == 0
    status, shown, errors = run("quality m.posterior --counts a.quality b.quality --top 4")
    told = " ".join(shown.split())
    assert status == 0, errors
    assert "coherence (NPMI) not known on 60 documents; sites hide counts of 12 of 12 pairs of words; too many" in told
    assert told.count("not known") == 3, "two topics, and all"
    rows = [
        json.loads(line)
        for line in run("quality m.posterior --counts a.quality b.quality --top 4 --json")[1].splitlines()
    ]
    assert [row["coherence"] for row in rows] == [None, None]
    assert "; by topic: " in run("show m.posterior --counts a.quality b.quality")[1]
    assert run("report m.posterior -o r.html --counts a.quality b.quality")[0] == 0
    assert "coherence not known" in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_show_and_explain_say_how_different_topics_are(run, offices, tmp_path):
    posterior, _ = offices
    assert "diversity 1.00" in run("show m.posterior --top 4")[1]
    double = db.Posterior(posterior.structure, {"topics": np.tile(posterior.mean("topics")[:1] * 90, (2, 1))})
    db.save(double, tmp_path / "double.posterior")
    shown = run("show double.posterior --top 4")[1]
    assert "diversity 0.50" in shown
    assert "Nearly the same: topics 0 (" in shown
    assert "diversity" in run("merge m.posterior double.posterior -o x.posterior --explain")[1]


def test_show_and_merge_say_what_tells_topics_apart_and_how_coherent_they_are(run, offices, tmp_path):
    posterior, counts = offices
    found = db.texts.Quality(posterior, top=4)
    expected = found.co_occurrence([counts]).coherence()
    for name in "ab":
        run(f"quality m.posterior --data {name}.txt --top 4 --least 0 -o {name}.quality")
    status, shown, _ = run("show m.posterior --counts a.quality b.quality")
    told = " ".join(shown.split())
    assert status == 0
    named = [", ".join(words[:3]) for words in found.telling]
    assert f"coherence (NPMI) {expected.mean():.3f} on 60 documents; by topic: {named[0]} {expected[0]:.3f}" in told
    shown = run("merge m.posterior m.posterior -o x.posterior --explain --duplicates allow")[1]
    assert all(name in " ".join(shown.split()) for name in named)
    printed = run("merge m.posterior m.posterior -o x.posterior --json --duplicates allow")[1]
    rows = [json.loads(line) for line in printed.splitlines()]
    assert [tuple(row["telling"][:4]) for row in rows] == list(found.telling)
    assert {json.loads(line)["diversity"] for line in run("quality m.posterior --top 4 --json")[1].splitlines()} == {
        1.0
    }


def test_a_report_has_the_quality_of_topics(run, offices, tmp_path):
    posterior, counts = offices
    found = db.texts.Quality(posterior, top=4)
    expected = found.co_occurrence([counts]).coherence()
    for name in "ab":
        run(f"quality m.posterior --data {name}.txt --top 4 --least 0 -o {name}.quality")
    assert run("report m.posterior -o r.html --counts a.quality b.quality")[0] == 0
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert (
        "Diversity 1.00: the share of different words among the top 4 of all topics; "
        f"coherence (NPMI) {expected.mean():.3f}" in page
    )
    for topic, words in enumerate(found.telling):
        assert f"distinctive words: {', '.join(words)}" in page
        assert f"coherence {expected[topic]:.3g}" in page
    wrong = replace(found.co_occurrence([counts]), words=tuple(words[::-1] for words in found.words))
    with pytest.raises(StructureMismatch, match="count again for this merge"):
        db.report(db.align([posterior]), tmp_path / "no.html", counts=wrong)
    assert run("report m.posterior -o plain.html")[0] == 0
    assert "distinctive words" in (tmp_path / "plain.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("show m.posterior --counts m.posterior", "does not hold counts of words"),
        ("report m.posterior -o no.html --counts m.posterior", "does not hold counts of words"),
        ("quality m.posterior -o no", "name them with --data"),
        ("quality m.posterior --data a.txt --counts a.txt", "either --data"),
        ("quality m.posterior --counts a.txt", "a.txt does not hold counts"),
        ("quality m.posterior --counts wrong.quality", "counts other words"),
        ("quality points.posterior", "Only topics have words"),
        ("quality m.posterior --data nosuch", "nosuch: No such file"),
        ("sketch nosuch --key k -o no", "nosuch: No such file"),
    ],
)
def test_bad_input_is_refused(run, offices, tmp_path, line, reason):
    assert run("quality m.posterior --data a.txt --top 2 -o wrong.quality")[0] == 0
    db.save(db.Posterior.of_prior(db.models.GaussianMean(dimension=1).structure), tmp_path / "points.posterior")
    status, _, errors = run(line)
    assert (status in (1, 2), reason in errors) == (True, True), errors
    assert not (tmp_path / "no").exists()
