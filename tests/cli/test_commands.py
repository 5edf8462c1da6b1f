"""Fit, merge, show and score as a user types them: results, exit codes, and errors in one line."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

import decbayes as db
from decbayes.cli.shared.model_options import about, command_name
from decbayes.merging.base.compatibility import same_columns
from decbayes.models.core.ascent import Fit, FitInterrupted
from decbayes.models.core.registry import MODELS, SHIPPED


@pytest.fixture
def sites(tmp_path, rng):
    """Two sites with the same two clusters, and held-out points."""
    centres = np.array([[0.0, 0.0], [10.0, 5.0]])
    for name in ("a", "b", "held"):
        points = centres[rng.integers(2, size=60)] + rng.normal(size=(60, 2))
        lines = ["x,y,note", *(f"{x},{y},ok" for x, y in points)]
        (tmp_path / f"{name}.csv").write_text("\n".join(lines), encoding="utf-8")
    return tmp_path


def test_a_wider_merge_gives_what_one_site_found_a_slot_of_its_own(run, sites):
    for name, kind, count in (("a", "a", 2), ("b", "b", 3)):
        line = f"fit mixture {name}.csv --components {count} --columns x,y -o {kind}.posterior"
        assert run(line)[0] == 0
    posteriors = [db.load(sites / f"{name}.posterior") for name in "ab"]
    status, explained, _ = run(
        "merge a.posterior b.posterior --components 5 --explain --no-confidence -o wide.posterior"
    )
    assert (status, db.load(sites / "wide.posterior") == db.merge(posteriors, components=5)) == (0, True)
    assert "Close calls (under 3): " in explained
    status, _, errors = run("merge a.posterior b.posterior --components 2 -o narrow.posterior")
    assert (status, "narrow.posterior: 2 posteriors, 120 observations, 2 components" in errors) == (0, True)
    assert db.load(sites / "narrow.posterior") == db.merge(posteriors, components=2)
    status, _, errors = run("merge a.posterior b.posterior --components 2 --solver matching -o no.posterior")
    assert (status, "at least 3 slots are needed" in errors) == (1, True)
    assert not (sites / "no.posterior").exists()


def test_a_merge_says_who_has_what_and_keeps_names(run, sites):
    for name in "ab":
        assert run(f"fit mixture {name}.csv --components 3 --columns x,y -o {name}.posterior")[0] == 0
    assert run("merge a.posterior -o monday.posterior --components auto")[0] == 0
    line = "merge a.posterior b.posterior --since monday.posterior -o tuesday.posterior --json --tree tree.svg"
    status, shown, errors = run(line)
    rows = [json.loads(row) for row in shown.splitlines()]
    assert (status, "components kept their ids" in errors) == (0, True)
    monday, tuesday = (db.load(sites / f"{day}.posterior") for day in ("monday", "tuesday"))
    assert tuple(row["id"] for row in rows) == tuesday.ids
    assert {site["site"] for row in rows for site in row["sites"]} == {"a", "b"}
    assert sum(row["observations"] for row in rows) == pytest.approx(120.0)
    assert tuesday == db.merging.follow(monday, tuesday).posterior
    assert (sites / "tree.svg").stat().st_size > 1000


def test_a_merged_file_says_which_sites_have_what(run, sites):
    assert run("fit mixture a.csv --components 2 --columns x,y -o a.posterior")[0] == 0
    far = "\n".join(["x,y", *(f"{-20 + 0.1 * row},{row % 7}" for row in range(40))])
    (sites / "far.csv").write_text(far, encoding="utf-8")
    assert run("fit mixture far.csv --components 1 --like a.posterior -o far.posterior")[0] == 0
    assert run("merge a.posterior far.posterior --components 3 -o m.posterior")[0] == 0
    assert run("merge far.posterior a.posterior --components 3 -o other.posterior")[0] == 0
    assert (sites / "m.posterior").read_bytes() == (sites / "other.posterior").read_bytes()
    shown = run("show m.posterior")[1]
    assert "which sites have it" in shown
    assert (shown.count("1 of 2"), shown.count("far 40")) == (3, 1)
    assert sum(int(count) for count in re.findall(r"\ba (\d+)", shown)) == 60
    assert "which sites" not in run("show a.posterior")[1]


@pytest.mark.parametrize("told", [7, {"sites": 2}, {"sites": 2, "slots": [[{}, {}]]}, {"sites": "two", "slots": [[]]}])
def test_a_note_that_makes_no_sense_is_not_shown(run, sites, told):
    run("fit mixture a.csv --components 2 --columns x,y -o a.posterior")
    db.save(db.load(sites / "a.posterior"), sites / "odd.posterior", note={"found by": told})
    status, shown, _ = run("show odd.posterior")
    assert (status, "which sites" in shown, "mean (x, y)" in shown) == (0, False, True)


def test_a_merge_that_forces_unlike_things_together_says_so(run, sites):
    for name in "ab":
        run(f"fit mixture {name}.csv --components 2 --columns x,y -o {name}.posterior")
    assert (
        "Slot 0 holds components that differ: with more than 1 slot the merge would probably predict better."
        in run("merge a.posterior b.posterior --components 1 -o m.posterior")[2]
    )
    assert "differ" not in run("merge a.posterior b.posterior --components 2 -o m.posterior")[2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--naive --explain", "--naive skips the alignment"),
        ("--robust --naive", "--robust does not go with --naive"),
        ("--restarts 3", "--restarts is for --solver matching"),
        ("--since nothing.posterior", "nothing.posterior"),
        ("--components some", "--components"),
        ("--tree a.posterior", "a.posterior"),
    ],
)
def test_options_that_make_no_sense_are_refused(run, sites, options, message):
    run("fit mixture a.csv --components 2 --columns x,y -o a.posterior")
    status, _, errors = run(f"merge a.posterior -o m.posterior {options}")
    assert status > 0
    assert message in errors
    assert not (sites / "m.posterior").exists()


def test_a_merge_keeps_the_weights_of_one_site_to_predict_there(run, sites):
    for name in "ab":
        assert run(f"fit mixture {name}.csv --components 2 --columns x,y -o {name}.posterior")[0] == 0
    assert run("merge a.posterior b.posterior -o there.posterior --weights-of b.posterior")[0] == 0
    alignment = db.align([db.load(sites / f"{name}.posterior") for name in "ab"])
    there = db.load(sites / "there.posterior")
    assert there == alignment.at_site(1)
    assert there != alignment.merged()
    for options, message in (
        ("--weights-of c.posterior", "not among them"),
        ("--weights-of b.posterior --robust", "--robust"),
    ):
        status, _, errors = run(f"merge a.posterior b.posterior -o no.posterior {options}")
        assert (status > 0, message in errors) == (True, True)
    assert not (sites / "no.posterior").exists()


def test_two_sites_fit_merge_show_and_score(run, sites):
    fit = "--columns x,y -o"
    assert run(f"fit mixture a.csv --components 2 {fit} a.posterior")[0] == 0
    status, _, errors = run(f"fit mixture b.csv --like a.posterior --seed 5 {fit} b.posterior")
    assert (status, "60 observations" in errors, "converged" in errors) == (0, True, True)
    status, explained, errors = run(
        "merge a.posterior b.posterior -o m.posterior --explain --no-confidence --picture m.png"
    )
    assert (status, "m.posterior: 2 posteriors, 120 observations, 2 components" in errors) == (0, True)
    assert "weights + components" in explained
    assert "Close calls (under 3): 0 of 4 matches" in explained
    assert "do sites differ?" in explained
    assert (sites / "m.png").read_bytes()[:4] == b"\x89PNG"
    expected = db.merge([db.load(sites / "a.posterior"), db.load(sites / "b.posterior")])
    assert db.load(sites / "m.posterior") == expected
    status, shown, _ = run("show m.posterior --picture clusters.svg")
    assert (status, "mean (x, y)" in shown, (sites / "clusters.svg").stat().st_size > 1000) == (0, True, True)
    status, scored, _ = run("score held.csv a.posterior m.posterior")
    points = np.loadtxt(sites / "held.csv", delimiter=",", skiprows=1, usecols=(0, 1))
    value = db.model_for(expected.structure).log_predictive(expected, points).mean()
    assert status == 0
    assert f"{value:.4f}" in scored


def test_sites_find_how_many_clusters_there_are_and_merge(run, sites):
    status, _, errors = run("fit mixture a.csv --components auto --columns x,y -o a.posterior")
    assert (status, "60 observations, 2 components, bound" in errors) == (0, True)
    assert run("fit mixture b.csv --components auto --like a.posterior --seed 5 -o b.posterior")[0] == 0
    assert run("fit mixture b.csv --components 3 --like a.posterior -o three.posterior")[0] == 0
    a, b, three = (db.load(sites / f"{name}.posterior") for name in ("a", "b", "three"))
    assert (a.structure == b.structure, three.structure) == (True, a.structure.with_components(3))
    assert run("merge a.posterior b.posterior three.posterior -o m.posterior")[0] == 0
    assert db.load(sites / "m.posterior") == db.merge([a, b, three])
    assert run("score held.csv m.posterior")[0] == 0


def test_the_naive_merge_adds_components_as_they_are_labelled(run, sites):
    run("fit mixture a.csv --components 2 --columns x,y -o a.posterior")
    run("fit mixture b.csv --components 2 --columns x,y -o b.posterior")
    assert run("merge a.posterior b.posterior --naive -o n.posterior")[0] == 0
    loaded = [db.load(sites / f"{name}.posterior") for name in "ab"]
    assert db.load(sites / "n.posterior") == db.merging.product(loaded)


ODD_SITES = {
    "units": "units disagrees clearly with most sites in 100% of its evidence and is left out. Ask how its data",
    "random": "random disagrees clearly with most sites in 100% of its evidence and is left out. Ask how its data",
    "copy": "copy repeats a and is not counted again. Ask whether both are fits of the same data, and merge only one",
}


def test_a_robust_merge_says_in_three_lines_who_does_not_count_and_why(run, tmp_path, rng):
    """Of six files: as the others, in units ten times smaller, with other clusters, or one that is there twice."""
    for name in ("a", "b", "c", "d", "e", "like", "units", "random"):
        unit, centres = (10.0 if name == "units" else 1.0), [-1.0, 19.0] if name == "random" else [-6.0, 6.0]
        rows = unit * (np.repeat(centres, 30) + rng.normal(size=60))
        (tmp_path / f"{name}.csv").write_text("\n".join(["x", *map(str, rows)]), encoding="utf-8")
        assert (
            run(f"fit mixture {name}.csv --components 2 --variance 1 --prior-variance 50 -o {name}.posterior")[0] == 0
        )
    (tmp_path / "copy.posterior").write_bytes((tmp_path / "a.posterior").read_bytes())
    honest = " ".join(f"{name}.posterior" for name in "abcde")
    expected = db.merge([db.load(tmp_path / f"{name}.posterior") for name in "abcde"])
    for name, remark in ODD_SITES.items():
        status, shown, said = run(f"merge {honest} {name}.posterior --robust --explain -o m.posterior")
        drafts, counted, slots, why = said.splitlines()
        assert (status, drafts) == (0, "Drafts, not released yet: 6 of 6 files.")
        assert slots.startswith("2 slots")
        assert counted == "m.posterior: 5 of 6 posteriors, 300 observations, 2 components"
        assert why.startswith(remark)
        assert " e " in shown
        assert "from 300 observations" in run("show m.posterior")[1]
        np.testing.assert_allclose(db.load(tmp_path / "m.posterior").mean("components"), expected.mean("components"))
    said = run(f"merge {honest} like.posterior --robust -o m.posterior")[2]
    assert "m.posterior: 6 posteriors, 360 observations, 2 components\n2 slots" in said
    assert "like " not in said


def test_merge_and_show_say_how_many_observations_of_a_robust_merge_count(run, tmp_path, rng):
    """The sum over sites of their rows times the share that counts."""
    rows = {"a": 40, "b": 50, "c": 60, "large": 900}
    for name, count in rows.items():
        text = "\n".join(["x", *map(str, rng.normal(0.2 * (name == "large"), 1.0, count))])
        (tmp_path / f"{name}.csv").write_text(text, encoding="utf-8")
        assert run(f"fit mean {name}.csv --variance 1 --prior-variance 50 -o {name}.posterior")[0] == 0
    files = [f"{name}.posterior" for name in rows]
    standings = db.merging.robust_merge([db.load(tmp_path / name) for name in files]).sites
    counting = round(sum(count * site.counts for count, site in zip(rows.values(), standings, strict=True)))
    assert 200 < counting < 900
    records = f"1,050 observations, of which {counting} count"
    assert f"m.posterior: 4 posteriors, {records}" in run(f"merge {' '.join(files)} --robust -o m.posterior")[2]
    assert f"from {records};" in run("show m.posterior")[1]
    assert run("report m.posterior -o m.html")[0] == 0
    assert f"This rests on {records}, at 4 sites;" in (tmp_path / "m.html").read_text(encoding="utf-8")
    assert "1,050 observations;" in run(f"merge {' '.join(files)} -o p.posterior")[1] + run("show p.posterior")[1]


def test_topics_of_texts(run, tmp_path, rng):
    fruit, tools = ["apple", "pear", "plum", "grape"], ["hammer", "saw", "drill", "file"]
    for name in ("a", "b", "held"):
        texts = [" ".join(rng.choice(words, size=20)) for words in (fruit, tools) * 15]
        texts[0] += " kiwi" * (name == "held")
        lines = [json.dumps({"text": text}) for text in texts]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    assert run("fit topics a.jsonl --topics 2 -o a.posterior")[0] == 0
    assert run("fit topics b.jsonl --like a.posterior --seed 1 -o b.posterior")[0] == 0
    status, _, errors = run("fit topics a.jsonl --topics auto --like a.posterior -o auto.posterior")
    assert (status, " 2 topics, bound" in errors, "rounds" in errors) == (0, True, True)
    assert db.load(tmp_path / "auto.posterior").structure == db.load(tmp_path / "a.posterior").structure
    assert run("merge a.posterior b.posterior -o m.posterior")[0] == 0
    shown = run("show m.posterior --top 4 --picture topics.png")[1].split("which sites have it")[0]
    lines = [set(line.split()[2:]) for line in shown.splitlines() if line.strip()[:2] in ("0 ", "1 ")]
    assert sorted(sorted(word.strip(",") for word in line) for line in lines) == sorted([sorted(fruit), sorted(tools)])
    status, scored, said = run("score held.jsonl a.posterior m.posterior")
    assert said.count("not in the vocabulary") == 1  # not once per posterior
    # Four equally frequent words: log ¼ = −1.386 at best.
    assert (status, -1.45 < float(scored.split()[-1]) < -1.35) == (0, True)


def test_a_table_without_a_column_text_lists_its_columns(run, tmp_path):
    rows = ["id,group,body", *(f"{row},a,the cat sat on the mat" for row in range(9))]
    (tmp_path / "letters.csv").write_text("\n".join(rows), encoding="utf-8")
    status, _, said = run("fit topics letters.csv -o a.posterior")
    assert status == 1
    assert "the columns are id, group, body. --columns names" in said
    assert "cat" not in said


@pytest.fixture
def texts(tmp_path, rng):
    """Two sites with texts about fruit and tools, and files with the words in two orders."""
    words = ["apple", "pear", "plum", "hammer", "saw", "drill"]
    for name in "ab":
        lines = [json.dumps({"text": " ".join(rng.choice(theme, 20))}) for theme in (words[:3], words[3:]) * 10]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "words.txt").write_text("\n".join(words), encoding="utf-8")
    (tmp_path / "reversed.txt").write_text("\n".join(words[::-1]), encoding="utf-8")
    (tmp_path / "fewer.txt").write_text("\n".join(words[:4]), encoding="utf-8")
    return tmp_path


def test_words_in_another_order_are_merged_and_scored_by_name(run, texts):
    for words in ("words", "reversed"):
        for name in "ab":
            line = f"fit topics {name}.jsonl --topics 2 --vocabulary {words}.txt -o {name}-{words}.posterior"
            assert run(line)[0] == 0
    assert run("merge a-words.posterior b-reversed.posterior -o m.posterior")[0] == 0
    first, second, merged = (db.load(texts / f"{name}.posterior") for name in ("a-words", "b-reversed", "m"))
    total = sum(posterior.contribution["topics"].sum() for posterior in (first, second))
    assert merged.contribution["topics"].sum() == pytest.approx(total)
    tops = {frozenset(row["words"]) for row in db.model_for(merged.structure).describe(merged, top=3)}
    assert tops == {frozenset(("apple", "pear", "plum")), frozenset(("hammer", "saw", "drill"))}
    line = "merge a-words.posterior --since b-reversed.posterior -o n.posterior"
    assert "ids" in run(line)[2]
    db.save(same_columns([first, second])[0], texts / "moved.posterior")
    scores = run("score b.jsonl a-words.posterior moved.posterior b-reversed.posterior")
    assert scores[0] == 0
    values = [line.split()[-1] for line in scores[1].splitlines()[1:]]
    assert values[0] == values[1] != values[2]


def test_scores_say_what_they_are_about(run, texts):
    for words in ("words", "fewer"):
        run(f"fit topics a.jsonl --topics 2 --vocabulary {words}.txt -o {words}.posterior")
    status, _, errors = run("score b.jsonl words.posterior fewer.posterior")
    assert (status, "scores cannot be compared" in errors) == (0, True)
    words = [
        word
        for line in (texts / "b.jsonl").read_text("utf-8").splitlines()
        for word in json.loads(line)["text"].split()
    ]
    dropped = sum(word in ("saw", "drill") for word in words)
    share = f"{dropped} of {len(words)} occurrences of words ({dropped / len(words):.0%}) are ignored"
    assert f"{share}: these words are not in the vocabulary" in errors
    assert "Hardly any words are known" not in errors


def test_a_fit_says_how_many_documents_have_no_known_word(run, texts):
    """Fruit is known, tools are another language: half of the documents have no known word."""
    assert "documents have no known word" not in run("fit topics a.jsonl --vocabulary words.txt -o a.posterior")[2]
    (texts / "fruit.txt").write_text("apple\npear\nplum", encoding="utf-8")
    errors = run("fit topics a.jsonl --topics 2 --vocabulary fruit.txt -o a.posterior")[2]
    assert "10 of 20 documents have no known word: they are counted, but say nothing about topics." in errors
    assert "200 of 400 occurrences of words (50%) are ignored" in errors
    assert "Hardly any words are known" not in errors
    foreign = "\n".join(json.dumps({"text": f"{'apfel ' * 9}apple"}) for _ in range(20))
    (texts / "c.jsonl").write_text(foreign, encoding="utf-8")
    errors = run("fit topics c.jsonl --like a.posterior -o c.posterior")[2]
    assert "180 of 200 occurrences of words (90%) are ignored" in errors
    assert "Hardly any words are known: is the vocabulary short, are these texts in another language" in errors


def test_settings_beside_like_are_refused(run, texts):
    run("fit topics a.jsonl --topics 2 --vocabulary words.txt -o a.posterior")
    for option in ("--topic-prior 0.5", "--document-prior 0.5", "--vocabulary words.txt"):
        status, _, errors = run(f"fit topics b.jsonl --like a.posterior {option} -o b.posterior")
        assert (status, f"{option.split()[0]} and --like a.posterior exclude each other" in errors) == (2, True)
    assert not (texts / "b.posterior").exists()


def test_a_fit_without_one_word_of_the_vocabulary_writes_nothing(run, texts):
    (texts / "other.txt").write_text("zebra\nlion\n", encoding="utf-8")
    status, _, errors = run("fit topics a.jsonl --topics 2 --vocabulary other.txt -o a.posterior")
    assert (status, "no word of its vocabulary" in errors, (texts / "a.posterior").exists()) == (1, True, False)


def test_further_starts_are_those_of_the_model(run, texts):
    line = "fit topics a.jsonl --topics 2 --vocabulary words.txt --seed 4"
    run(f"{line} --restarts 3 -o a.posterior")
    words = tuple((texts / "words.txt").read_text("utf-8").split())
    model = db.LatentDirichletAllocation(2, words)
    model = replace(model, ascent=replace(model.ascent, restarts=3))
    counts = model.read(texts / "a.jsonl")
    found = model.fit(counts, rng=np.random.default_rng(4)).posterior
    assert db.load(texts / "a.posterior") == found


def test_empty_slots_are_not_listed_and_are_nobodys_duplicates(run, texts):
    for name in "ab":
        run(f"fit topics {name}.jsonl --topics 2 --vocabulary words.txt -o {name}.posterior")
    errors = run("merge a.posterior b.posterior --components 9 -o m.posterior")[2]
    empty = db.load(texts / "m.posterior").untouched(db.extending.CoupledSet(("topics",)))
    shown = run("show m.posterior")[1].split("which sites have it")[0]
    assert [*map(int, re.findall(r"^ (\d) ", shown, re.MULTILINE))] == np.flatnonzero(~empty).tolist()
    assert f"and {empty.sum()} empty slot" in shown
    assert empty.any()
    named = [set(map(int, pair.split(" and "))) for pair in re.findall(r"\d+ and \d+", errors)]
    assert not set(np.flatnonzero(empty)) & set().union(*named)


def test_features_of_images_are_shown_as_images(run, tmp_path, rng):
    bars = np.zeros((2, 4, 4))
    bars[0, 0], bars[1, :, 3] = 1.0, 1.0
    chosen = rng.integers(2, size=(80, 2))
    np.save(tmp_path / "a.npy", np.tensordot(chosen, bars, 1) + 0.1 * rng.normal(size=(80, 4, 4)))
    assert run("fit features a.npy --features 2 --variance 0.01 -o a.posterior")[0] == 0
    status, shown, _ = run("show a.posterior --picture features.png")
    assert (status, "████████" in shown, (tmp_path / "features.png").exists()) == (0, True, True)
    assert run("score a.npy a.posterior")[0] == 0


@pytest.mark.parametrize("kind", ["features", "mixture"])
def test_images_that_are_not_square_are_drawn_in_the_shape_that_is_told(kind, run, tmp_path, rng):
    bars = np.zeros((2, 3, 6))
    bars[0, 0], bars[1, :, 4] = 1.0, 1.0
    chosen = rng.integers(2, size=(80, 2)) if kind == "features" else np.eye(2)[rng.integers(2, size=80)]
    np.save(tmp_path / "a.npy", chosen @ bars.reshape(2, 18) + 0.02 * rng.normal(size=(80, 18)))
    options = "--features 2 --variance 0.01" if kind == "features" else "--components 2 --variance 0.01"
    assert run(f"fit {kind} a.npy {options} -o a.posterior")[0] == 0
    status, shown, _ = run("show a.posterior --shape 3 6 --picture a.png")
    assert (status, "████████████" in shown, (tmp_path / "a.png").stat().st_size > 1000) == (0, True, True)
    status, _, errors = run("show a.posterior --shape 3 5")
    assert (status, "18 numbers per image, but 3 × 5 pixels (height × width) are 15" in errors) == (1, True)
    if kind == "features":
        status, _, errors = run("show a.posterior --picture b.png")
        assert (status, "--shape HEIGHT WIDTH" in errors, (tmp_path / "b.png").exists()) == (1, True, False)


def test_means_merge_exactly(run, tmp_path, rng):
    points = rng.normal(size=20)
    np.savetxt(tmp_path / "a.csv", points[:10])
    np.savetxt(tmp_path / "b.csv", points[10:])
    np.savetxt(tmp_path / "all.csv", points)
    for name in ("a", "b", "all"):
        assert run(f"fit mean {name}.csv --variance 2 --prior-variance 9 -o {name}.posterior")[0] == 0
    run("merge a.posterior b.posterior -o m.posterior")
    merged, batch = (db.load(tmp_path / f"{name}.posterior").natural["mean"] for name in ("m", "all"))
    np.testing.assert_allclose(merged, batch, rtol=1e-12)
    assert "mean" in run("show m.posterior")[1]


def test_what_others_wrote_into_a_file_cannot_steer_the_terminal(run, tmp_path):
    words = ("\x1b[2Jgone", "[red]", "[/]", "plum")
    posterior = db.Posterior(db.LatentDirichletAllocation(2, words).structure, {"topics": [[3, 2, 1, 0]] * 2})
    db.save(posterior, tmp_path / "a.posterior")
    for line in ("show a.posterior", "merge a.posterior a.posterior -o m.posterior --explain --duplicates allow"):
        status, shown, _ = run(line)
        assert (status, "\x1b" in shown, "[red]" in shown) == (0, False, True)


def test_a_posterior_of_an_unknown_model_is_shown_and_merged_all_the_same(run, tmp_path):
    for model in ({"name": "GaussianMixture"}, {"name": ["no", "name"]}, {}):
        prior = {"rate": [[0.5, -1.0], [0.5, -1.0]]}
        own = db.extending.Structure(
            {"rate": db.families.Gamma()}, prior, (db.extending.CoupledSet(("rate",)),), model=model
        )
        db.save(db.Posterior(own, {"rate": [[3.0, -1.0], [9.0, -1.0]]}), tmp_path / "a.posterior")
        assert run("merge a.posterior a.posterior -o m.posterior --explain --duplicates allow")[0] == 0
        status, shown, _ = run("show m.posterior")
        assert (status, "rate" in shown) == (0, True)
        status, _, errors = run("score a.csv m.posterior")
        assert (status, errors.startswith("decbayes: ")) == (1, True)


def test_json_lines_are_the_summary(run, sites):
    run("fit mixture a.csv --components 2 --columns x,y -o a.posterior")
    rows = [json.loads(line) for line in run("show a.posterior --json")[1].splitlines()]
    assert rows == db.load(sites / "a.posterior").summary(top=10)


ERRORS = {
    "show missing.posterior": "No such file",
    "show a.csv": "a.csv is data, not a posterior: run `decbayes fit` first.",
    "fit mixture a.csv -o a.posterior": "column 'note' is not a number in observation 0",
    "fit mixture a.csv --columns x,z -o a.posterior": "there is no column z",
    "fit features a.csv --columns x --like first.posterior -o a.posterior": "GaussianMixture, not of LatentFeatures",
    "fit mixture a.csv --columns y,x --like first.posterior -o a.posterior": "the model has x, y",
    "merge first.posterior other.posterior -o m.posterior": "other.posterior does not fit first.posterior: the columns",
    "show first.posterior --picture a.docx": "docx",
    "show first.posterior --shape 2 2": "2 numbers per image",
    "show topics.posterior --shape 2 1": "--shape is for features and for mixtures of images",
    "score a.csv first.posterior --columns x": "a.csv has the columns x; the model has x, y",
    "score missing.csv first.posterior": "No such file",
    "fit mixture empty.csv -o a.posterior": "empty.csv holds no observations",
    "fit mixture a.csv --columns x -o nowhere/a.posterior": "nowhere is not a folder",
    "fit mixture a.csv --columns x -o folder": "folder is a folder, a device or a pipe",
    "fit mixture a.csv --columns x -o a.csv": "a.csv is an input of this command and would be lost",
    "fit topics a.csv --vocabulary words.txt -o words.txt": "words.txt is an input",
    "words texts.txt -o texts.txt": "texts.txt is an input",
    "merge first.posterior other.posterior -o folder/../first.posterior": "first.posterior is an input",
    "merge first.posterior -o m.posterior --picture nowhere/m.png": "nowhere is not a folder",
    "show first.posterior --picture first.posterior": "first.posterior is an input",
    "simulate --picture nowhere/s.png": "nowhere is not a folder",
    "fit mixture twice.csv -o a.posterior": "twice.csv: two of its columns have the same name",
    "fit mixture twice.csv --columns x -o a.posterior": "two of its columns have the same name",
    "fit mixture unnamed.csv -o a.posterior": "unnamed.csv: column 1 has no name and may hold row numbers",
    "fit classes unnamed.csv -o a.posterior": "column 1 has no name and may hold row numbers",
    "columns unnamed.csv -o a.columns": "column 1 has no name and may hold row numbers",
    "fit mixture objects.npy -o a.posterior": "it holds Python objects",
    "fit mixture unclosed.npy -o a.posterior": "its header does not describe an array",
    "fit mixture folder -o a.posterior": "folder is a folder; name one file",
    "merge first.posterior -o m.posterior --picture m.docx": "pictures are written as .png, .svg or .pdf",
    "merge first.posterior -o m.posterior --tree m": "pictures are written as .png, .svg or .pdf",
    "export first.posterior -o m.xml": ".csv, .csv.gz, .parquet or .json",
    "fit mixture a.csv --like first.posterior --columns v,w -o b.posterior": "there are no columns v, w",
}


@pytest.mark.parametrize("line", ERRORS)
def test_what_goes_wrong_is_told_in_one_line_with_status_1(line, run, sites):
    models = {
        "first": db.GaussianMixture(2, 2, covariance="full", columns=("x", "y")),
        "other": db.GaussianMixture(3, 2, covariance="full"),
        "topics": db.LatentDirichletAllocation(2, ("pear", "plum")),
    }
    (sites / "empty.csv").write_text("x,y\n", encoding="utf-8")
    (sites / "twice.csv").write_text("x,x,y\n1,2,3\n", encoding="utf-8")
    (sites / "unnamed.csv").write_text(",x,y\n0,2,3\n1,5,4\n", encoding="utf-8")
    np.save(sites / "objects.npy", np.array([{}]), allow_pickle=True)
    np.save(sites / "unclosed.npy", np.ones(3))
    (sites / "unclosed.npy").write_bytes((sites / "unclosed.npy").read_bytes().replace(b"}", b"{"))
    (sites / "words.txt").write_text("apple\n", encoding="utf-8")
    (sites / "texts.txt").write_text("apple pear\n", encoding="utf-8")
    (sites / "folder").mkdir()
    for name, model in models.items():
        db.save(db.Posterior.of_prior(model.structure), f"{name}.posterior")
    (sites / "a.posterior").write_text("an older result", encoding="utf-8")
    before = contents(sites)
    status, _, errors = run(line)
    assert (status, errors.startswith("decbayes: "), ERRORS[line] in errors) == (1, True, True), errors
    assert "Traceback" not in errors
    assert contents(sites) == before


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


WRONG = [
    "merge -o m.posterior",
    "fit mixture",
    "show",
    "fit nonsense",
    "show a --top many",
    "show a --top 0",
    "merge a b -o m.posterior --restarts -1",
    "merge a b -o m.posterior --components 0",
    "simulate --agents 0",
    "simulate --picture s.png --histories 2",
    "simulate mixture --components auto",
    "simulate classes --components 2",
    "simulate counts",
    "simulate nonsense",
    "simulate --steps -1",
    "simulate --pause -1",
    "simulate --histories -1",
    "words a.txt -o a.words --most-share 2",
    "words a.txt -o a.words --least-documents 0",
    "fit mean a.csv -o a.posterior --seed -1",
    "fit mixture a.csv -o a.posterior --components 0",
    "fit mixture a.csv -o a.posterior --variance 0",
    "fit mixture a.csv -o a.posterior --prior-scale nan",
    "fit topics a.txt -o a.posterior --topics 0",
    "fit topics a.txt -o a.posterior --topic-prior -1",
    "fit features a.csv -o a.posterior --features -3",
    "score a.csv a.posterior --seed -1",
    "fit topics a.csv --document-prior 3 --like first.posterior -o a.posterior",
]


PLAINLY = {
    "fit mixture": "decbayes fit mixture needs DATA. Try `decbayes fit mixture --help`.",
    "fit mixture a.csv -o": "-o needs a value.",
    "show a --shape 3": "--shape needs 2 values.",
    "show a b": "Too many arguments: b.",
    "show a --top many": '--top must be an integer, not "many".',
    "fit mixture a.csv -o b --components many": "--components must be an integer, 'auto' or 'wide', not \"many\".",
    "simulate --topology star": 'Choose from: "changing", "clique"',
    "simulate nonsense": 'Unknown command "nonsense". Available commands: categories, classes',
    "fit mixture a.csv --compnents 3 -o b": "Did you mean --components?",
}


@pytest.mark.parametrize("line", PLAINLY)
def test_a_wrong_argument_is_explained_in_one_plain_line(line, run):
    status, shown, errors = run(line)
    assert (status, shown, errors.count("\n"), PLAINLY[line] in errors) == (2, "", 1, True), errors


@pytest.mark.parametrize("line", WRONG)
def test_wrong_arguments_end_with_status_2(line, run, tmp_path):
    (tmp_path / "a.csv").write_text("x\n1\n2\n", encoding="utf-8")
    assert run(line)[0] == 2


def test_later_sites_need_not_name_the_columns_again(run, sites):
    """They are taken from the first site's posterior by name; files that name none are taken as they are."""
    run("fit mixture a.csv --columns x,y --components 2 -o a.posterior")
    run("fit mixture b.csv --columns x,y --like a.posterior -o named.posterior")
    assert run("fit mixture b.csv --like a.posterior -o b.posterior")[0] == 0
    assert db.load(sites / "b.posterior") == db.load(sites / "named.posterior")
    points = np.loadtxt(sites / "b.csv", delimiter=",", skiprows=1, usecols=(0, 1))
    np.save(sites / "b.npy", points)
    np.savetxt(sites / "bare.csv", points, delimiter=",", fmt="%.17g")
    for name in ("b.npy", "bare.csv"):
        assert run(f"fit mixture {name} --like a.posterior -o bare.posterior")[0] == 0
        assert db.load(sites / "bare.posterior") == db.load(sites / "b.posterior")
        assert run(f"score {name} a.posterior")[1] == run("score b.csv a.posterior")[1]


def test_words_that_most_documents_have_are_left_out(run, tmp_path):
    texts = [f"the and {theme} {theme}" for theme in ("apple", "violin", "harbour", "pawn") * 10]
    (tmp_path / "a.txt").write_text("\n".join(texts), encoding="utf-8")
    run("fit topics a.txt --topics 2 -o a.posterior")
    assert db.load(tmp_path / "a.posterior").structure.labels["topics"] == ("apple", "harbour", "pawn", "violin")
    run("fit topics a.txt --topics 2 --most-share 1 -o all.posterior")
    assert len(db.load(tmp_path / "all.posterior").structure.labels["topics"]) == 6
    status, _, errors = run("fit topics a.txt --topics 2 --most-share 0.1 -o none.posterior")
    assert (status, "raise --most-share" in errors) == (1, True)


def test_words_of_several_sites_make_a_vocabulary(run, tmp_path):
    for name, themes in (("a", ("apple", "violin", "harbour")), ("b", ("pawn", "violin", "Äpfel"))):
        texts = [f"the and {theme} {theme}" for theme in themes * 10]
        (tmp_path / f"{name}.txt").write_text("\n".join(texts), encoding="utf-8")
        assert run(f"words {name}.txt -o {name}.words")[0] == 0
    lists = [(tmp_path / f"{name}.words").read_text(encoding="utf-8").splitlines() for name in "ab"]
    common = ["# decbayes documents 30", "# decbayes common and\t30", "# decbayes common the\t30"]
    assert lists == [
        [*common, "apple\t10", "harbour\t10", "violin\t10"],
        [*common, "pawn\t10", "violin\t10", "äpfel\t10"],
    ]
    together = ["apple", "harbour", "pawn", "violin", "äpfel"]
    (tmp_path / "words.txt").write_text("\n".join(together), encoding="utf-8")
    for name in "ab":
        assert run(f"fit topics {name}.txt --topics 5 --vocabulary words.txt -o {name}.posterior")[0] == 0
    assert run("merge a.posterior b.posterior -o m.posterior")[0] == 0
    assert db.load(tmp_path / "m.posterior").structure.labels["topics"] == tuple(together)
    assert run("words a.npy -o a.words")[0] == 1


def test_an_interrupted_fit_leaves_its_best_state(run, sites, monkeypatch):
    posterior = db.Posterior.of_prior(db.GaussianMixture(2, 2, covariance="full").structure)

    def interrupted(*_, **__):
        raise FitInterrupted(Fit(posterior, (0.0,), converged=False))

    monkeypatch.setattr(db.GaussianMixture, "fit", interrupted)
    status, _, errors = run("fit mixture a.csv --columns x,y -o a.posterior")
    assert (status, "best state so far is in a.posterior" in errors, "Traceback" in errors) == (130, True, False)
    status, _, errors = run("fit mixture a.csv --columns x,y -o a.posterior --debug")
    assert (status, "FitInterrupted" in errors, "Traceback" in errors) == (130, True, True)
    assert db.load(sites / "a.posterior") == posterior
    # Whoever is about to release or merge it is told, and what is kept to go on is nobody else's.
    assert "The fit was interrupted" in run("show a.posterior")[1]
    assert "The fit was interrupted" in run("merge a.posterior -o m.posterior")[2]
    assert (sites / "a.posterior.unfinished").stat().st_mode & 0o077 == 0


def test_commands_of_models_are_known_without_loading_these():
    assert {name: command for name, (_, command) in SHIPPED.items()} == {
        name: command_name(MODELS[name]) for name in SHIPPED
    }
    assert SHIPPED.keys() == MODELS.shipped.keys()


def test_help_on_fit_describes_every_model(run):
    listing = " ".join(run("fit --help")[1].split())
    for name, (_, command) in SHIPPED.items():
        assert f"│ {command} {' '.join(about(MODELS[name]).split()[:2])}" in listing
