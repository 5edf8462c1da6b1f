"""Whatever else is written for others obeys the same rules: tables, reports, scores, overlaps, sums, counts."""

import json
from pathlib import Path

import numpy as np
import pytest
from patients import patients, write_csv

import decbayes as db
from decbayes.checking import Information
from decbayes.files import load, save

MODEL = db.GaussianMixture(3, 1, variance=1.0, prior_variance=1000.0)


@pytest.fixture
def points(rng):
    """Two large groups, and three records that are far from both."""
    groups = [rng.normal(size=(60, 1)), 20.0 + rng.normal(size=(40, 1)), 70.0 + rng.normal(size=(3, 1))]
    return np.concatenate(groups)


@pytest.fixture
def files(points):
    """A file made without rules, one made with them, and the data of both."""
    posterior = MODEL.fit(points, rng=1).posterior
    save(posterior, "bare.posterior")
    db.save(posterior, "safe.posterior", data=points, site="north")
    np.save("a.npy", points)
    return posterior


def test_tables_leave_out_components_that_few_have(run, files):
    assert run("export bare.posterior -o a.json")[0] == 0
    told = json.loads(Path("a.json").read_text(encoding="utf-8"))["parameters"]
    assert max(row["mean"] for row in told if row["factor"] == "components") < 25.0
    assert "Left out: 1 component of fewer than 5 persons." in run("export bare.posterior -o a.csv")[2]
    assert run("export bare.posterior -o a.json --rules none")[0] == 0
    told = json.loads(Path("a.json").read_text(encoding="utf-8"))["parameters"]
    assert max(row["mean"] for row in told if row["factor"] == "components") > 60.0


def test_a_table_without_any_component_that_enough_have_is_its_header(run):
    points = np.repeat([[-50.0], [0.0], [50.0]], 2, axis=0)
    save(MODEL.fit(points, rng=1).posterior, "few.posterior")
    status, written, errors = run("export few.posterior -o -")
    assert (status, written.splitlines()) == (0, [run("export few.posterior -o - --rules none")[1].splitlines()[0]])
    assert "Left out: 3 components of fewer than 5 persons." in errors


def test_tables_and_reports_of_files_that_break_the_rules_asked_for_are_refused(run, files):
    for command in ("export bare.posterior -o a.csv", "report bare.posterior -o a.html"):
        status, _, errors = run(f"{command} --rules usual")
        assert status == 1
        assert "does not say which disclosure rules it obeys" in errors


def test_reports_count_rows_as_the_files_say(run, tmp_path, rng):
    for name in ("a", "b"):
        write_csv(tmp_path / f"{name}.csv", patients(rng))
        asked = ["--formula", "died ~ age + sex"] if name == "a" else ["--like", "a.posterior"]
        line = ["fit", "logistic-regression", f"{name}.csv", *asked, "--site", name, "-o", f"{name}.posterior"]
        assert run(line)[0] == 0
    assert run("report a.posterior b.posterior -o a.html")[0] == 0
    assert "400 observations at 2 sites" in (tmp_path / "a.html").read_text()
    shown = run("show a.posterior")[1]
    assert "200 observations; a, " in shown
    assert "a draft" in shown


def test_reports_show_no_component_under_the_least_cell(run, files, tmp_path):
    (tmp_path / "rules.toml").write_text("least_cell = 50\nleast_observations = 50\nleast_outcome = 2\n")
    assert run("report bare.posterior -o usual.html")[0] == 0
    assert "70." not in (tmp_path / "usual.html").read_text().split("How to reproduce")[0].replace("70.0%", "")


@pytest.mark.parametrize(("rows", "status"), [(19, 1), (20, 0)])
def test_scores_for_others_are_of_enough_records(run, files, points, rows, status):
    np.save("held.npy", points[:rows])
    assert run("validate held.npy bare.posterior -o a.scores")[0] == status
    assert run("validate held.npy bare.posterior")[0] == 0  # for the site itself


def test_scores_of_more_posteriors_than_records_do_not_leave(run, files, points):
    np.save("held.npy", points[:20])
    names = [f"copy{number}.posterior" for number in range(21)]
    for name in names:
        save(files, name)
    status, _, errors = run(["validate", "held.npy", *names, "-o", "a.scores"])
    assert status == 1
    assert "Score fewer" in errors


def test_overlaps_are_of_enough_records_and_of_no_small_component(run, files, points):
    status, _, errors = run("overlap a.npy bare.posterior safe.posterior -o a.overlaps")
    assert status == 1
    assert "components of too few persons" in errors
    assert run("overlap a.npy safe.posterior bare.posterior -o a.overlaps")[0] == 0
    np.save("few.npy", points[:9])
    assert "at least 20" in run("overlap few.npy safe.posterior bare.posterior -o b.overlaps")[2]


def test_sums_for_calibrations_say_nothing_of_components_that_few_have(run, files, points):
    assert run("calibrate bare.posterior a.npy -o a.information")[0] == 0
    part, whole = Information.from_bytes(Path("a.information").read_bytes()), Information.of(MODEL, points, files)
    small = int(np.asarray(files.contribution["weights"])[:, 0].argmin())
    assert np.count_nonzero(part.contribution == 0.0) == 3
    assert np.count_nonzero(whole.contribution == 0.0) == 0
    width = np.asarray(files.contribution["components"]).shape[1]
    first = small * width
    assert not part.matrix[first : first + width].any()
    kept = np.flatnonzero(part.contribution)
    np.testing.assert_array_equal(part.matrix[np.ix_(kept, kept)], whole.matrix[np.ix_(kept, kept)])


def test_sums_over_fewer_records_than_parameters_do_not_leave(run, rng):
    points = rng.normal(size=(30, 20))
    save(db.GaussianMixture(2, 20, variance=1.0).fit(points, rng=1).posterior, "m.posterior")
    np.save("a.npy", points)
    status, _, errors = run("calibrate m.posterior a.npy -o a.information")
    assert status == 1
    assert "would reveal single ones" in errors
    assert run("calibrate m.posterior a.npy -o a.information --rules none")[0] == 0


def test_counts_of_words_are_of_enough_documents(run, rng):
    from scipy.sparse import csr_array, save_npz

    counts = csr_array(rng.poisson(0.4, size=(40, 12)))
    save_npz("a.npz", counts)
    save_npz("few.npz", counts[:10])
    save(db.LatentDirichletAllocation(2, [f"w{n}" for n in range(12)]).fit(counts, rng=1).posterior, "t.posterior")
    assert "--least is 2" in run("quality t.posterior --data a.npz -o a.counts --least 2")[2]
    assert "at least 20" in run("quality t.posterior --data few.npz -o a.counts")[2]
    assert run("quality t.posterior --data a.npz -o a.counts")[0] == 0
    together = np.array(json.loads(Path("a.counts").read_text(encoding="utf-8"))["counts"])
    assert together[together > 0].min() >= 5


def test_lists_of_words_and_sketches_are_of_enough_documents_and_a_refusal_leaves_no_key(run, tmp_path):
    for count in (19, 20):
        (tmp_path / "a.jsonl").write_text(
            "".join(json.dumps({"text": f"mast tide w{n % 2}"}) + "\n" for n in range(count))
        )
        for line in ("words a.jsonl --most-share 1 -o a.words", "sketch a.jsonl --key group.key -o a.sketch"):
            assert (run(line)[0] == 0) == (count == 20)
            assert list(tmp_path.glob("*.key")) + list(tmp_path.glob("a.[ws]*")) == [] or count == 20


def test_rows_per_observation_are_not_for_others(run, files):
    assert "keep them on this site" in run("transform a.npy safe.posterior -o a.csv")[2]


def test_a_merge_of_files_counts_rows(run, files):
    assert run("merge safe.posterior -o m.posterior")[0] == 0
    assert "103 observations" in run("show m.posterior")[1]
    assert load("m.posterior").structure == load("safe.posterior").structure


def test_sums_for_calibrations_say_nothing_of_the_few_who_are_between_components(run, rng):
    model = db.GaussianMixture(3, 1, variance=1.0, prior_variance=400.0)
    many = np.concatenate([rng.normal(0, 1, 200), rng.normal(3, 1, 200), rng.normal(20, 1, 200), [11.49, 11.51]])
    posterior = model.fit(many[:, None], rng=1).posterior
    save(posterior, "m.posterior")
    np.save("a.npy", many[:, None])
    assert run("calibrate m.posterior a.npy -o a.information")[0] == 0
    matrix = Information.from_bytes(Path("a.information").read_bytes()).matrix
    shares = model.assign(posterior, many[:, None])
    order = np.argsort(posterior.mean("components")[:, 0])
    low, middle, far = order
    assert shares[-2:, far].min() > 0.1  # two persons are torn between the clusters
    width = posterior.structure.prior["components"].shape[1]
    statistics = [np.array([x, -0.5][:width]) if width == 2 else np.array([x]) for x in many]
    block = {
        (k, m): matrix[k * width : (k + 1) * width, m * width : (m + 1) * width] for k in range(3) for m in range(3)
    }
    assert not block[middle, far].any()
    assert not block[low, far].any()
    weights = shares[:, low] * shares[:, middle]
    expected = -sum(w * np.outer(s, s) for w, s in zip(weights, statistics, strict=True))
    np.testing.assert_allclose(block[low, middle], expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())
    np.testing.assert_allclose(block[middle, middle], -block[middle, low], atol=2e-5 * np.abs(matrix).max())
    assert np.abs(block[far, far]).max() < 1e-5 * np.abs(matrix).max()


def test_a_table_of_counts_names_no_word_that_few_documents_have(run, rng, tmp_path):
    counts = rng.poisson(1.0, size=(60, 12))
    counts[:, 11] = 3 * (np.arange(60) == 7)
    words = [*(f"word{number}" for number in range(11)), "porphyria"]
    lines = [",".join(words), *(",".join(map(str, row)) for row in counts)]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    np.savez(tmp_path / "a.npz", counts=counts, vocab=words)
    for name in ("a.csv", "a.npz"):
        status, _, errors = run(["fit", "topics", name, "--topics", "2", "-o", "a"])
        assert status == 0, errors
        assert b"porphyria" not in (tmp_path / "a").read_bytes()
        assert len(load("a").structure.labels["topics"]) == 11
        assert run(f"preview a --data {name}")[0] == 0


@pytest.fixture
def ward(rng, tmp_path):
    """A site where one person of 200 has a category that others have agreed on, and a merge that knows them all."""
    disease = np.where(rng.random(200) < 0.5, "flu", "asthma").astype(object)
    disease[17] = "gout"
    table = {"disease": disease, "age": rng.integers(20, 80, 200), "ill": rng.choice(["no", "yes"], 200)}
    write_csv(tmp_path / "a.csv", table)
    columns = {
        "disease": db.columns.Categorical("asthma", "flu", "gout", "other"),
        "age": db.columns.Gaussian(50, 20),
        "ill": db.columns.YesNo(),
    }
    model = db.LogisticRegression("ill", columns=columns)
    others = table | {"disease": rng.choice(["asthma", "flu", "gout", "other"], 200)}
    save(model.fit(others).posterior, "m.posterior")
    return model


def test_sums_for_calibrations_say_nothing_of_a_category_that_few_have(run, ward):
    assert run("calibrate m.posterior a.csv -o a.information --robust")[0] == 0
    contribution = Information.from_bytes(Path("a.information").read_bytes()).contribution
    labels = list(ward.structure.labels["coefficients"])
    squares = contribution[len(labels) :].reshape(len(labels), len(labels))
    gout, other = labels.index("disease=gout"), labels.index("disease=other")
    assert not squares[gout].any()
    # Everybody who may be told from the rest is one of many: weights of a row are at most a quarter, halved here.
    assert squares[other, other] < -1.0


def test_regressions_have_no_overlaps(run, ward):
    assert "has no components" in run("overlap a.csv m.posterior m.posterior -o a.overlaps")[2]


def test_scores_do_not_tell_which_rare_category_somebody_has(run, ward, tmp_path):
    """Posteriors that differ in one term would otherwise tell the outcome of the one person who has it."""
    (tmp_path / "b.csv").write_text((tmp_path / "a.csv").read_text().replace("gout", "other"))
    for extra in ("", " --held-back 0.5", " --leave-one-out"):
        for name in "ab":
            assert run(f"validate {name}.csv m.posterior -o {name}.scores{extra}")[0] == 0
        assert Path("a.scores").read_text() == Path("b.scores").read_text()


def test_lists_of_columns_are_of_enough_persons(run, tmp_path, rng):
    table = patients(rng, 20)
    write_csv(tmp_path / "a.csv", table)
    write_csv(tmp_path / "b.csv", {name: values[:19] for name, values in table.items()})
    assert run("columns a.csv --columns age,sex -o a.columns")[0] == 0
    status, _, errors = run("columns b.csv --columns age,sex -o b.columns")
    assert (status, "19 persons; a file needs at least 20" in errors) == (1, True)
    assert not (tmp_path / "b.columns").exists()
