"""Rules count persons: somebody with many rows, sequences or documents is still one."""

import json
from dataclasses import replace

import numpy as np
import pytest
from patients import write_csv
from planted import ATTACKS

import decbayes as db
from decbayes.disclosure import Persons, Rules, guarded, prepared
from decbayes.disclosure.latent_sums import persons_between
from decbayes.disclosure.manifest import manifest_in
from decbayes.errors import InvalidData, NotDisclosed
from decbayes.files import load, load_note

RULES = Rules()
TIMES = 6


def scaled(posterior, share):
    return replace(posterior, contribution={name: share * part for name, part in posterior.contribution.items()})


@pytest.mark.parametrize("name", ATTACKS)
def test_what_one_person_has_six_times_is_hidden_if_persons_are_named(name):
    attack = ATTACKS[name]
    model, once, planted = attack.draw(np.random.default_rng(0), 60, True)
    model = replace(model, ascent=replace(model.ascent, restarts=min(model.ascent.restarts, 1)))
    data, persons = model.joined([once] * TIMES), np.tile(np.arange(model.count(once)), TIMES)

    def left(given):
        safe = prepared(model, data, RULES, persons=given)
        db.save(safe.model.fit(safe.data, rng=0).posterior, "a", data=safe.data, persons=given)
        return attack.read(scaled(load("a"), 1 / TIMES))

    assert left(None) == pytest.approx(planted, rel=0.02, abs=0.02)
    assert not abs(left(persons) - planted) < 0.05 * planted
    assert manifest_in(load_note("a")).persons == model.count(once)


def test_persons_are_counted_as_sets_are(rng):
    labels = rng.integers(5, size=40)
    persons, rows = Persons.of([f"p{label}" for label in labels]), rng.random(40) < 0.3
    assert persons.among(rows) == len(set(labels[rows]))
    assert persons.total(40) == len(set(labels))
    assert [labels[group].tolist() for group in persons.rows(40)] == [
        [label] * int((labels == label).sum()) for label in dict.fromkeys(labels.tolist())
    ]
    shares = rng.random((40, 3))
    by_hand = [sum(min(1.0, shares[labels == label, k].sum()) for label in set(labels)) for k in range(3)]
    np.testing.assert_allclose(persons.present(shares), by_hand)
    with pytest.raises(InvalidData, match="2 of 3 observations lack a person"):
        Persons.of(["a", None, float("nan")])
    with pytest.raises(InvalidData, match="persons for 40"):
        persons.checked(41)


def test_sums_between_components_rest_on_persons(rng):
    model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=9.0)
    once = rng.normal(size=(30, 1)) * 2
    posterior, persons = model.fit(once, rng=0).posterior, Persons.of(np.tile(np.arange(30), 4))
    sums, behind = persons_between(model, posterior, np.tile(once, (4, 1)), persons)
    alone_sums, alone_behind = persons_between(model, posterior, once)
    np.testing.assert_allclose(sums, 4 * alone_sums)
    np.testing.assert_allclose(behind, alone_behind)


def visits(rng, patients=40, each=6):
    """Visits of patients; all six in 'burns' are of one patient."""
    patient = np.repeat([f"Q{number:04d}" for number in range(patients)], each)
    ward = rng.choice(["heart", "bone"], patients * each).astype(object)
    ward[patient == "Q0003"] = "burns"
    return {
        "patient": patient,
        "ward": ward,
        "age": np.repeat(rng.integers(20, 90, patients), each),
        "cost": rng.normal(1000, 200, patients * each).round(1),
        "died": rng.choice(["yes", "no"], patients * each),
    }


FITS = {
    "classes": ["classes", "--components", "2"],
    "linear": ["linear-regression", "--formula", "cost ~ ward + age"],
    "logistic": ["logistic-regression", "--formula", "died ~ ward + age"],
    "target": ["linear-regression", "--target", "cost"],
    "varying": ["linear-regression", "--formula", "cost ~ age + (1 | ward)"],
}


@pytest.mark.parametrize("name", FITS)
def test_a_category_of_one_patient_is_not_named_and_the_column_stays_at_home(run, rng, tmp_path, name):
    write_csv(tmp_path / "visits.csv", visits(rng))
    status, _, errors = run(["fit", *FITS[name], "--person", "patient", "-o", "a", "visits.csv"])
    assert status == 0, errors
    content = (tmp_path / "a").read_bytes()
    assert b"Q00" not in content
    assert b"burns" not in content
    manifest = manifest_in(load_note("a"))
    assert (manifest.rows, manifest.persons, manifest.person) == (240, 40, "patient")
    status, shown, errors = run("preview a --data visits.csv")
    assert status == 0, errors
    assert "240 of 40 persons, identified by column 'patient'" in shown
    assert "they match the sums in the file" in shown
    assert "from 240 observations of 40 persons" in run("show a")[1]
    assert run("release a --approve Kim --data visits.csv")[0] == 0
    status, _, errors = run(["fit", *FITS[name], "visits.csv", "--person", "pat", "-o", "b"])
    assert status == 1
    assert "there is no column pat" in errors


def test_columns_count_patients_and_sequences(run, rng, tmp_path):
    write_csv(tmp_path / "visits.csv", visits(rng))
    assert run("columns visits.csv --columns ward,age --person patient -o a.columns")[0] == 0
    assert "burns" not in (tmp_path / "a.columns").read_text()
    assert run("columns visits.csv --sequences patient -o b.columns")[0] == 0
    assert "burns" not in (tmp_path / "b.columns").read_text()
    assert "patient" not in (tmp_path / "b.columns").read_text()


def test_several_sequences_of_one_patient_are_one_person(run, rng, tmp_path):
    walks = 60
    table = {
        "patient": np.repeat([f"Q{number // 2:04d}" for number in range(walks)], 8),
        "walk": np.repeat(np.arange(walks), 8),
        "speed": (rng.normal(size=8 * walks) + 9 * (np.arange(8 * walks) // 4 % 2)).round(3),
        "shoe": rng.choice(["flat", "boot"], 8 * walks).astype(object),
    }
    table["shoe"][table["walk"] < 6] = "clog"  # six walks, three patients
    write_csv(tmp_path / "walks.csv", table)
    line = ["fit", "states", "walks.csv", "--states", "2", "--sequences", "walk", "-o"]
    assert run([*line, "a"])[0] == 1  # by walk alone the patient is a column of record numbers
    assert "--person patient" in run([*line, "a", "--columns", "speed,shoe"])[2]
    assert run([*line, "a", "--columns", "speed,shoe", "--person", "none"])[0] == 0
    assert b"clog" in (tmp_path / "a").read_bytes()
    assert run([*line, "b", "--person", "patient"])[0] == 0
    assert b"clog" not in (tmp_path / "b").read_bytes()
    manifest = manifest_in(load_note("b"))
    assert (manifest.rows, manifest.persons) == (60, 30)
    assert run("preview b --data walks.csv")[0] == 0


def test_words_of_one_author_are_as_rare_as_the_author(run, rng, tmp_path):
    common = [f"word{number}" for number in range(40)]
    lines = []
    for document in range(80):
        author = f"Q{document // 2:04d}" if document >= 8 else "Q9999"
        words = list(rng.choice(common, 20)) + (["zebra"] if author == "Q9999" else [])
        lines.append(json.dumps({"author": author, "text": " ".join(words)}))
    (tmp_path / "texts.jsonl").write_text("\n".join(lines) + "\n")
    assert run("words texts.jsonl -o a.words")[0] == 0
    assert "zebra" in (tmp_path / "a.words").read_text()
    assert run("words texts.jsonl --person author -o b.words")[0] == 0
    assert "zebra" not in (tmp_path / "b.words").read_text()
    assert "give --vocabulary" in run("fit topics texts.jsonl --topics 2 --person author --seed 1 -o a")[2]
    (tmp_path / "c.words").write_text("".join(f"{word}\n" for word in [*common, "zebra", "gnu", "emu", "yak", "ibex"]))
    fit = "fit topics texts.jsonl --topics 2 --vocabulary c.words"
    assert run(f"{fit} -o a")[0] == 0
    assert np.asarray(load("a").contribution["topics"].sum(axis=0)).ravel()[40] == pytest.approx(8)
    assert run(f"{fit} --person author -o b")[0] == 0
    rare = np.asarray(load("b").contribution["topics"].sum(axis=0)).ravel()[40:]
    assert np.ptp(rare) == pytest.approx(0.0, abs=1e-9)
    assert b"Q9999" not in (tmp_path / "b").read_bytes()
    (tmp_path / "plain.txt").write_text("a text\n" * 30)
    assert "Plain texts have no column" in run("fit topics plain.txt --vocabulary c.words --person author -o d")[2]


def test_two_releases_are_compared_person_by_person(run, rng, tmp_path):
    table = visits(rng)
    write_csv(tmp_path / "a.csv", table)
    last = table["patient"] != "Q0039"  # six rows less, one patient
    write_csv(tmp_path / "b.csv", {name: values[last] for name, values in table.items()})
    for name in "ab":
        assert run(["fit", *FITS["linear"], f"{name}.csv", "--person", "patient", "-o", name])[0] == 0
    assert run("release a --approve Kim --data a.csv")[0] == 0
    status, _, errors = run("release b --approve Kim --data b.csv")
    assert status == 1
    assert "differs by 1 person" in errors


def test_persons_must_be_as_many_as_observations(rng):
    points = rng.normal(size=(60, 1))
    model = db.models.GaussianMean(variance=1.0)
    with pytest.raises(InvalidData, match="persons for 59"):
        prepared(model, points, RULES, persons=range(59))
    with pytest.raises(NotDisclosed, match="There are 10 persons"):
        db.save(model.fit(points).posterior, "a", data=points, persons=np.arange(60) % 10)


def test_scores_overlaps_and_sums_for_calibrations_count_persons(run, rng, tmp_path):
    table = visits(rng)
    write_csv(tmp_path / "all.csv", table)
    write_csv(tmp_path / "new.csv", visits(rng))  # scores are of rows that no fit holds
    few = np.isin(table["patient"], [f"Q{number:04d}" for number in range(15)])
    write_csv(tmp_path / "few.csv", {name: values[few] for name, values in table.items()})
    for name, seed in (("a", "1"), ("b", "2")):
        like = ["--like", "a"] if name == "b" else [*FITS["classes"][1:], "--columns", "age,cost"]
        status, _, errors = run(["fit", "classes", "all.csv", "--person", "patient", *like, "--seed", seed, "-o", name])
        assert status == 0, errors
    for line in (
        "overlap few.csv a b -o x.overlaps",
        "validate few.csv a b -o x.scores",
        "calibrate a few.csv -o x.information",
    ):
        assert "There are 15 persons" in run(f"{line} --person patient")[2]
        assert line.startswith("overlap") or "--person patient" in run(line)[2]
        status, _, errors = run(f"{line} --person none")
        assert status == 0 or line.startswith("overlap"), errors  # overlaps are of the data behind a file
        enough = "new" if line.startswith("validate") else "all"
        assert run(line.replace("few", enough) + " --person patient")[0] == 0


def test_counts_of_words_for_others_are_of_persons(run, rng, tmp_path):
    """Kim wrote ten of sixty documents, and nobody else uses two of the words."""
    words = ("anchor", "crew", "mast", "secret", "tide", "whisper")
    texts = [" ".join(rng.choice(["anchor", "crew", "mast", "tide"], 6)) for _ in range(50)] + ["secret whisper"] * 10
    names = [f"P{place % 25}" for place in range(50)] + ["Kim"] * 10
    lines = [json.dumps({"text": text, "author": name}) for text, name in zip(texts, names, strict=True)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    model = db.LatentDirichletAllocation(2, words)
    db.save(model.fit(model.counted(texts), rng=0).posterior, "m.posterior")
    counted = {}
    for option in ("", " --person author"):
        status, _, errors = run(f"quality m.posterior --data a.jsonl --top 6{option} -o counts")
        assert status == 0, errors
        stored = json.loads((tmp_path / "counts").read_text())
        listed, size = stored["words"][0], len(words)
        corner = np.triu_indices(size)
        pairs = np.zeros((size, size), dtype=int)
        pairs[corner] = stored["counts"][0]
        place = listed.index("secret")
        counted[option] = stored["documents"], pairs[place, place]
    assert counted == {"": (60, 10), " --person author": (26, 0)}


def test_persons_are_told_apart_as_at_the_first_site(run, rng, tmp_path):
    """With --like, the column that tells persons apart is taken over; a site without it is told so."""
    points = rng.normal(size=(120, 2)).round(3)
    for name, people in (("a", np.arange(120) // 4), ("b", np.arange(120) // 3)):
        write_csv(tmp_path / f"{name}.csv", {"person": people, "x": points[:, 0], "y": points[:, 1]})
    write_csv(tmp_path / "c.csv", {"x": points[:, 0], "y": points[:, 1]})
    assert run("fit mixture a.csv --components 2 --columns x,y --person person -o a")[0] == 0
    status, _, errors = run("fit mixture b.csv --like a -o b")
    assert (status, "Persons are told apart by column 'person', as in a." in errors) == (0, True), errors
    assert manifest_in(load_note("b")).persons == 40
    assert "a counts persons; here each row or document counts as one." in run("fit mixture c.csv --like a -o c")[2]
    assert "240 observations of 70 persons" in run("merge a b -o m --duplicates allow")[2]
    assert "360 observations of" not in run("merge a b c -o m --duplicates allow")[2]


def test_a_merge_warns_of_what_the_rules_changed_at_many_sites(run, rng, tmp_path):
    """A handful of rare persons at each site is most of them at all sites together."""
    for name in "abc":
        rare = np.where(np.arange(60) < 3, "yes", "no")
        write_csv(tmp_path / f"{name}.csv", {"age": rng.normal(50, 9, 60).round(1), "rare": rare})
    assert run("fit classes a.csv --components 1 -o a")[0] == 0
    for name in "bc":
        assert run(f"fit classes {name}.csv --like a -o {name}")[0] == 0
    run("merge a b c -o m")
    (remark,) = [one for one in load("m").remarks if one.kind == "disclosure rules"]
    assert remark.is_warning
    assert remark.what.startswith(
        "a, b, c: Changed by the disclosure rules: Column 'rare': fewer than 5 persons are 'yes'"
    )


@pytest.mark.parametrize(("far", "severity"), [(3.0, "note"), (60.0, "warning")])
def test_a_component_that_takes_in_a_rare_one_far_away_carries_a_warning(far, severity, rng):
    points = np.append(rng.normal(size=100), [far, far + 1.0])[:, None]
    model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=1000.0)
    start = model.from_assignments(points, np.append(np.zeros(100, dtype=int), [1, 1]))
    safe = guarded(model, start, points, RULES)
    assert [(remark.kind, remark.severity) for remark in safe.remarks] == [("disclosure rules", severity)]
