"""What an analyst does with topics: find, name, drop, join, split, compare; ids through transform; seeds."""

import csv
import json
from dataclasses import replace

import numpy as np
import pytest

import decbayes as db
from decbayes.cli.shared.sharing import manifest_of
from decbayes.errors import InvalidData, StructureMismatch

THEMES = {
    "health": "nurse ward dose fever mask",
    "sea": "anchor mast tide quay crew",
    "chess": "pawn rook clock check mate",
}


def letters(rng, themes, count):
    return [" ".join(rng.choice(THEMES[themes[n % len(themes)]].split(), 12)) for n in range(count)]


@pytest.fixture(scope="module")
def offices(tmp_path_factory, run_in):
    folder = tmp_path_factory.mktemp("offices")
    rng = np.random.default_rng(0)
    words = sorted(word for theme in THEMES.values() for word in theme.split())
    (folder / "words.txt").write_text("\n".join(words))
    for office, themes in {"a": ["health", "sea"], "b": ["sea", "chess"], "c": ["health", "chess"]}.items():
        lines = [json.dumps({"id": 100 + n, "text": text}) for n, text in enumerate(letters(rng, themes, 40))]
        (folder / f"{office}.jsonl").write_text("\n".join(lines))
        fit = f"fit topics {office}.jsonl --vocabulary words.txt --topics 2 --topic-prior 0.1 -o {office}.posterior"
        run_in(folder, fit)
    run_in(folder, "merge a.posterior b.posterior c.posterior --components 3 -o m.posterior")
    return folder


@pytest.fixture
def here(offices, run, tmp_path):
    for path in offices.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


def topic_of(posterior, word):
    place = posterior.structure.labels["topics"].index(word)
    return int(posterior.mean("topics")[:, place].argmax())


def rows(out):
    return [json.loads(line) for line in out.splitlines()]


def test_topics_are_found_by_words_by_likeness_and_by_document(run, here):
    merged = db.load(here / "m.posterior")
    sea = topic_of(merged, "tide")
    (here / "letter.txt").write_text("The crew and the mast, the tide.")
    assert rows(run("find m.posterior tide anchor --json")[1])[0]["topic"] == sea
    found = rows(run("find m.posterior --document letter.txt --json")[1])
    assert (found[0]["topic"], found[0]["score"] > 0.9) == (sea, True)
    like = rows(run(f"find m.posterior --like {sea} --json")[1])
    assert (sea not in [row["topic"] for row in like], len(like)) == (True, 2)
    # p(k | w), from the counts themselves
    counts = merged.contribution["topics"].toarray()[:, merged.structure.labels["topics"].index("tide")]
    score = rows(run("find m.posterior Tide --json")[1])[0]["score"]
    assert score == pytest.approx(counts.max() / counts.sum(), abs=0.02)
    assert "score: share of the words' occurrences" in run("find m.posterior tide")[1]
    refused = {
        "find m.posterior": "one of the three",
        "find m.posterior zebra": "not in the vocabulary",
        "find m.posterior tide --like 1": "one of the three",
        "find m.posterior --like 9": "a number from 0 to 2",
    }
    for line, reason in refused.items():
        status, _, errors = run(line)
        assert (status in (1, 2), reason in errors) == (True, True), (line, errors)


def test_a_name_stays_with_its_topic(run, here):
    merged = db.load(here / "m.posterior")
    sea = topic_of(merged, "tide")
    assert run(f"name m.posterior {sea} Harbour")[0] == 0
    assert db.load(here / "m.posterior").contribution["topics"].sum() == merged.contribution["topics"].sum()
    assert "Harbour" in run("show m.posterior")[1]
    assert run("find m.posterior --like harbour --json")[0] == 0
    # Later, without one site and in another order, the topic is found again, and keeps its name.
    assert run("merge c.posterior b.posterior --components 3 --since m.posterior -o later.posterior")[0] == 0
    later = db.load(here / "later.posterior")
    assert later.names[topic_of(later, "tide")] == "Harbour"
    assert run("name later.posterior Harbour Port -o other.posterior --json")[0] == 0
    assert db.load(here / "later.posterior").names != db.load(here / "other.posterior").names
    status, _, errors = run("name m.posterior nothing Else")
    assert (status, "no component has it" in errors) == (2, True)


def test_topics_are_dropped_joined_and_split_by_hand(run, here):
    merged = db.load(here / "m.posterior")
    sea, chess = topic_of(merged, "tide"), topic_of(merged, "rook")
    counts = merged.contribution["topics"].toarray()
    names = db.texts.Quality(merged).names
    status, _, said = run(f"drop m.posterior {sea} -o d.posterior")
    assert (status, said) == (0, f"d.posterior: “{names[sea]}” gone\n")
    dropped = db.load(here / "d.posterior")
    np.testing.assert_array_equal(dropped.contribution["topics"].toarray(), np.delete(counts, sea, axis=0))
    status, out, _ = run(f"join m.posterior {sea} {chess} -o j.posterior --json")
    joined = db.load(here / "j.posterior").contribution["topics"].toarray()
    assert (status, len(joined)) == (0, 2)
    np.testing.assert_allclose(joined[topic_of(db.load(here / "j.posterior"), "tide")], counts[sea] + counts[chess])
    (event,) = [row for row in rows(out) if row["kind"] == "joined"]
    assert event["share"] == pytest.approx(counts[chess].sum() / counts[[sea, chess]].sum())
    # A merge into two has put two themes into one slot; by hand they come apart again.
    assert run("merge a.posterior b.posterior c.posterior --components 2 -o two.posterior")[0] == 0
    two = db.load(here / "two.posterior")
    mixed = int(np.argmax(two.contribution["topics"].sum(axis=1)))
    assert run(f"split two.posterior {mixed} a.posterior b.posterior c.posterior -o s.posterior")[0] == 0
    three = db.load(here / "s.posterior")
    assert three.contribution["topics"].sum() == pytest.approx(two.contribution["topics"].sum())
    assert {topic_of(three, word) for word in ("tide", "rook", "nurse")} == {0, 1, 2}
    shown = run("show s.posterior --remarks")[1]
    assert "Changed by hand" in shown
    assert "split off" in shown
    refused = {
        "drop m.posterior 0 1 2 -o no": "at least one must be left",
        "join m.posterior 1 -o no": "at least two components",
        "drop m.posterior 7 -o no": "a number from 0 to 2",
    }
    for line, reason in refused.items():
        status, _, errors = run(line)
        assert (status in (1, 2), reason in errors) == (True, True), (line, errors)
    assert not (here / "no").exists()


def test_mixtures_are_edited_like_topics_and_states_are_not(rng):
    model = db.GaussianMixture(3, 1, variance=1.0, prior_variance=100.0)
    points = np.concatenate([rng.normal(c, 1.0, (20, 1)) for c in (-20.0, 0.0, 20.0)])
    posterior = model.fit(points, rng=rng).posterior
    middle = int(np.abs(posterior.mean("components")[:, 0]).argmin())
    edited = db.merging.drop(db.merging.name(posterior, {middle: "middle"}), (middle + 1) % 3).posterior
    assert sorted(edited.names) == ["", "middle"]
    assert edited.contribution["weights"].sum() == pytest.approx(40.0, abs=0.01)
    chain = db.HiddenMarkov(2, columns={"x": "real"})
    with pytest.raises(StructureMismatch, match="Only topics, clusters and classes"):
        db.merging.drop(db.Posterior.of_prior(chain.structure), 0)


def test_what_changed_between_two_merges(run, here):
    assert run("merge a.posterior b.posterior -o m1.posterior --components 3")[0] == 0
    first, second = db.load(here / "m1.posterior"), db.load(here / "m.posterior")
    changes = db.texts.compare(first, second)
    assert sum(change.share_after for change in changes) == pytest.approx(1.0)
    assert sum(change.share_before for change in changes) == pytest.approx(1.0)
    assert {change.fate for change in db.texts.compare(second, second)} == {"same"}
    less = db.merging.drop(second, topic_of(second, "tide")).posterior
    (gone,) = [change for change in db.texts.compare(second, less) if change.fate == "vanished"]
    assert "tide" in second.structure.labels["topics"]
    assert (gone.before, gone.after) == (topic_of(second, "tide"), None)
    (born,) = [change for change in db.texts.compare(less, second) if change.fate == "appeared"]
    assert born.after is not None
    status, out, _ = run("compare m1.posterior m.posterior --picture changes.png")
    assert (status, "same;" in out, (here / "changes.png").stat().st_size > 1000) == (0, True, True)
    assert len(rows(run("compare m1.posterior m.posterior --json")[1])) == len(changes)


def test_a_comparison_says_how_many_words_both_merges_count(run, here):
    """Topics of other words have vanished for that reason alone."""
    (here / "d.txt").write_text("pawn rook\nhorse cart\n" * 20)
    (here / "other.txt").write_text("pawn\nrook\nhorse\ncart")
    assert run("fit topics d.txt --vocabulary other.txt --topics 2 --topic-prior 0.1 -o d.posterior")[0] == 0
    status, out, _ = run("compare m.posterior d.posterior")
    assert (status, "They count different words: 2 in both, 13 before, 2 after." in out) == (0, True), out
    assert "different words" not in run("compare m.posterior m.posterior")[1]


def test_a_topic_that_moved_has_changed(rng):
    words = tuple("abcdefgh")
    model = db.LatentDirichletAllocation(2, words)
    counts = np.zeros((2, 8))
    counts[0, :4], counts[1, 4:] = 100.0, 100.0
    before = db.Posterior(model.structure, {"topics": counts})
    counts[0, :4] = [10.0, 200.0, 180.0, 10.0]
    after = replace(before, contribution={"topics": counts})
    fates = {change.before: change for change in db.texts.compare(before, after, top=2)}
    assert (fates[0].fate, fates[1].fate) == ("changed", "same")
    assert (fates[0].gained, fates[0].lost) == (("c",), ("a",))


def test_ids_of_documents_go_through_transform(run, here):
    assert run("transform a.jsonl m.posterior --ids id -o t.csv")[0] == 0
    with (here / "t.csv").open(encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    assert [row["id"] for row in table] == [str(100 + n) for n in range(40)]
    names = db.texts.Quality(db.load(here / "m.posterior")).names
    assert {row["name"] for row in table} <= set(names)
    assert all(names[int(row["topic"])] == row["name"] for row in table)
    (here / "plain.txt").write_text("anchor mast\ntide crew\n")
    status, _, errors = run("transform plain.txt m.posterior --ids id -o no.csv")
    assert (status, "Plain texts have no column 'id'" in errors) == (1, True)


def test_seeds_are_where_topics_start(run, here):
    rng = np.random.default_rng(5)
    themes = list(THEMES)
    texts = letters(rng, themes, 60)
    vocabulary = sorted({word for text in texts for word in text.split()})
    model = db.LatentDirichletAllocation(3, vocabulary, seeds="rook, pawn; nurse")
    counts = model.counted(texts)
    for seed in range(5):
        fitted = model.fit(counts, rng=seed).posterior
        assert (topic_of(fitted, "rook"), topic_of(fitted, "nurse"), topic_of(fitted, "tide")) == (0, 1, 2)
    assert fitted.structure == replace(model, seeds="").structure
    with pytest.raises(ValueError, match="seeds are for 4 topics, and there are 3"):
        replace(model, seeds="rook; pawn; tide; mask")
    with pytest.raises(ValueError, match="None of the seeds zebra"):
        replace(model, seeds="zebra")
    line = ["fit", "topics", "a.jsonl", "--like", "b.posterior", "--seeds", "nurse;tide", "-o", "x.posterior"]
    assert run(" ".join(line))[0] == 0
    assert topic_of(db.load(here / "x.posterior"), "nurse") == 0
    with pytest.raises(InvalidData, match="one of the three"):
        db.texts.find(fitted)


def test_a_released_file_that_is_edited_is_a_draft_again(run, here):
    assert run("release a.posterior --approve Kim --data a.jsonl")[0] == 0
    assert manifest_of(here / "a.posterior").released
    assert run("drop a.posterior 0 -o less.posterior")[0] == 0
    edited = manifest_of(here / "less.posterior")
    assert not edited.released
    assert edited.signature == edited.key == ""
    assert edited.posterior == db.load(here / "less.posterior").digest


def test_a_named_file_has_a_manifest_of_what_it_holds_and_is_a_draft_only_if_that_has_changed(run, here):
    """The first name gives components ids, which are part of a posterior; a second one changes nothing of it."""
    assert run("release a.posterior --approve Kim --data a.jsonl")[0] == 0
    status, _, said = run("name a.posterior 0 first -o named.posterior")
    assert (status, "it is a draft again" in said) == (0, True)
    named = manifest_of(here / "named.posterior")
    assert (named.released, named.posterior) == (False, db.load(here / "named.posterior").digest)
    assert run("release named.posterior --approve Kim --data a.jsonl")[0] == 0
    status, _, said = run("name named.posterior 0 second")
    assert (status, "draft" in said) == (0, False)
    again = manifest_of(here / "named.posterior")
    assert (again.released, again.posterior) == (True, db.load(here / "named.posterior").digest)


def test_where_counts_were_divided_the_tables_say_so(run, here):
    """The topic of the last office is four parts of one and one part of the other."""
    first, second = np.kron(np.eye(2), np.full(6, 40.0))
    words = tuple(f"w{number}" for number in range(12))
    for name, counts in {"x": [first, second], "y": [second, first], "z": [0.8 * first + 0.2 * second]}.items():
        model = db.LatentDirichletAllocation(len(counts), words, topic_prior=0.1)
        db.save(db.Posterior(model.structure, {"topics": np.array(counts)}), here / f"{name}.posterior")
    said = "A site's topics count whole here."
    assert said in run("merge x.posterior y.posterior z.posterior -o divided.posterior --explain")[1]
    assert said in run("show divided.posterior")[1]
    assert said not in run("merge x.posterior y.posterior --duplicates allow -o whole.posterior --explain")[1]
    assert said not in run("show whole.posterior")[1]
