"""Topics, classes and states of new data, and components as tables: what Python finds, in the order of the input."""

import csv
import gzip
import json

import numpy as np
import pytest
from sklearn.decomposition import LatentDirichletAllocation
from sklearn.feature_extraction.text import CountVectorizer

import decbayes as db
from decbayes.cli.commands.everyday import transform as transform_command
from decbayes.cli.shared.outputs import number_lines
from decbayes.models.core import transforms

THEMES = ["vaccine dose ward nurse mask", "anchor mast tide crew quay", "pawn rook bishop clock gambit"]
WORDS = tuple(sorted(" ".join(THEMES).split()))


@pytest.fixture
def topics(tmp_path, rng):
    """A posterior of three topics."""
    model = db.LatentDirichletAllocation(3, WORDS, topic_prior=0.1)
    counts = model.counted([" ".join(rng.choice(THEMES[n % 3].split(), 20)) for n in range(60)])
    posterior = model.fit(counts, rng=rng).posterior
    db.save(posterior, tmp_path / "m.posterior")
    return posterior


def letters(rng, count):
    return [" the ".join(rng.choice(THEMES[rng.integers(3)].split(), 1 + n % 7)) for n in range(count)]


def rows_of(path):
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_topics_of_texts_are_those_of_assign_in_the_order_of_the_input(run, topics, tmp_path, rng, monkeypatch):
    monkeypatch.setattr(transforms, "BLOCK", 7)
    monkeypatch.setattr("decbayes.models.topics.sources.BLOCK", 7)
    texts = [*letters(rng, 30), "nothing known", ""]
    lines = [json.dumps({"text": text}) for text in texts]
    (tmp_path / "a.jsonl").write_text("\n".join([*lines[:5], "damaged", *lines[5:]]), encoding="utf-8")
    status, _, errors = run("transform a.jsonl m.posterior -o topics.csv")
    assert (status, "topics.csv: 32 rows" in errors, "2 of them have nothing" in errors) == (0, True, True)
    assert "1 left out (line 6)" in errors
    rows = rows_of(tmp_path / "topics.csv")
    model = db.model_for(topics.structure)
    shares = model.assign(topics, model.counted(texts))
    assert [row["document"] for row in rows] == [str(n) for n in range(1, 34) if n != 6]
    assert [int(row["words"]) for row in rows] == model.counted(texts).sum(axis=1).tolist()
    found = np.array([[float(row[f"topic_{k}"]) for k in range(3)] for row in rows])
    np.testing.assert_allclose(found, shares, atol=0.51e-4)
    assert [row["topic"] for row in rows] == [*map(str, shares[:-2].argmax(axis=1)), "", ""]
    blocks = list(db.models.transform(topics, tmp_path / "a.jsonl"))
    assert max(len(block.values) for block in blocks) == 7
    np.testing.assert_array_equal(np.concatenate([block.values for block in blocks]), shares)


def test_shares_are_those_of_scikit_learn(topics, rng):
    texts = letters(rng, 40)
    peer: LatentDirichletAllocation = db.interop.to_sklearn(topics)
    peer.set_params(mean_change_tol=1e-9, max_doc_update_iter=1000)
    counts = CountVectorizer(vocabulary=WORDS).transform(texts)
    found = np.concatenate(
        [b.values for b in db.models.transform(topics, db.model_for(topics.structure).counted(texts))]
    )
    np.testing.assert_allclose(found, peer.transform(counts), atol=1e-3)


def test_folders_counts_and_other_outputs(run, topics, tmp_path, rng):
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs the parquet extra")
    (tmp_path / "north, new").mkdir()
    texts = letters(rng, 9)
    for number, text in enumerate(texts):
        (tmp_path / "north, new" / f"{number}.txt").write_text(text, encoding="utf-8")
    model = db.model_for(topics.structure)
    shares = model.assign(topics, model.counted(texts))
    (tmp_path / "north, new").rename(tmp_path / "north,new")
    assert run("transform north,new m.posterior -o topics.csv.gz --digits 6")[0] == 0
    rows = rows_of(tmp_path / "topics.csv.gz")
    assert [row["document"] for row in rows] == [f"north,new/{n}.txt" for n in range(9)]
    np.testing.assert_allclose([float(row["topic_1"]) for row in rows], shares[:, 1], atol=0.51e-6)
    np.savetxt(tmp_path / "counts.csv", model.counted(texts).toarray(), "%d", ",", header=",".join(WORDS), comments="")
    assert run("transform counts.csv m.posterior -o topics.parquet")[0] == 0
    table = parquet.read_table(tmp_path / "topics.parquet")
    np.testing.assert_allclose(table["topic_2"].to_numpy(), shares[:, 2], atol=1e-6)


def test_clusters_states_and_predictions(run, tmp_path, rng):
    points = rng.normal(np.where(rng.random(40) < 0.5, 0.0, 9.0))[:, None]
    model = db.GaussianMixture(components=2, dimension=1, columns=("x",), variance=1.0)
    clusters = model.fit(points, rng=rng).posterior
    db.save(clusters, tmp_path / "clusters.posterior")
    lines = ["x,walk,y", *(f"{x},{'ab'[n % 2]},{2 * x}" for n, x in enumerate(points[:, 0]))]
    (tmp_path / "a.csv").write_text("\n".join(lines), encoding="utf-8")
    assert run("transform a.csv clusters.posterior -o c.csv")[0] == 0
    rows = rows_of(tmp_path / "c.csv")
    assert [row["row"] for row in rows] == [str(n) for n in range(1, 41)]
    np.testing.assert_allclose([float(r["component_1"]) for r in rows], model.assign(clusters, points)[:, 1], atol=1e-4)

    assert run("fit states a.csv --columns x --sequences walk -o s.posterior")[0] == 0
    assert run("transform a.csv s.posterior --columns walk -o s.csv")[0] == 0
    states = db.load(tmp_path / "s.posterior")
    walks = db.model_for(states.structure)
    expected = np.empty((40, 2))
    expected[0::2], expected[1::2] = (walks.assign(states, [part]) for part in (points[0::2], points[1::2]))
    found = [[float(row["state_0"]), float(row["state_1"])] for row in rows_of(tmp_path / "s.csv")]
    np.testing.assert_allclose(found, expected, atol=1e-4)

    assert run("fit classes a.csv --columns x,walk --components 2 -o k.posterior")[0] == 0
    assert run("transform a.csv k.posterior -o k.csv")[0] == 0
    classes = rows_of(tmp_path / "k.csv")
    assert [row["class"] for row in classes] == [str(int(float(row["class_1"]) > 0.5)) for row in classes]

    assert run("fit linear-regression a.csv --formula y~x -o r.posterior")[0] == 0
    (tmp_path / "new.csv").write_text("x\n1.5\nNA\n-2\n", encoding="utf-8")
    status, _, errors = run("transform new.csv r.posterior -o r.csv")
    assert (status, "1 of 3 rows have missing values" in errors) == (0, True)
    predicted = rows_of(tmp_path / "r.csv")
    assert predicted[1]["mean"] == ""
    np.testing.assert_allclose([float(predicted[n]["mean"]) for n in (0, 2)], [3.0, -4.0], atol=0.1)
    assert float(predicted[0]["low"]) < 3.0 < float(predicted[0]["high"])


def test_numbers_are_written_as_python_writes_them(rng):
    values = np.vstack([rng.dirichlet(np.full(4, 0.1), 50), [[0.0, 1.0, 0.5, 0.99996]]])
    lines = ["".join(f",{np.rint(x * 1e4) / 1e4:.4f}" for x in row) + "\n" for row in values]
    assert number_lines(values, 4) == lines
    assert number_lines(np.array([[np.nan, -1.5]]), 4) == [",,-1.5\n"]


def test_components_are_exported_with_probabilities_and_intervals(run, topics, tmp_path):
    assert run("export m.posterior -o all.csv")[0] == 0
    rows = rows_of(tmp_path / "all.csv")
    assert len(rows) == 45
    lower, upper = topics.interval("topics")
    for row in rows:
        place = int(row["component"]), WORDS.index(row["entry"])
        assert float(row["mean"]) == pytest.approx(topics.mean("topics")[place])
        assert (float(row["lower"]), float(row["upper"])) == pytest.approx((lower[place], upper[place]))
    assert run("export m.posterior -o top.json --top 2 --level 0.5")[0] == 0
    stored = json.loads((tmp_path / "top.json").read_text(encoding="utf-8"))
    assert (len(stored["parameters"]), stored["level"], stored["model"]) == (6, 0.5, dict(topics.structure.model))
    first = stored["parameters"][0]
    assert first["mean"] == topics.mean("topics")[0].max()
    assert first["lower"] < first["mean"] < first["upper"]
    db.save(db.merging.follow(topics, topics).posterior, tmp_path / "named.posterior")
    assert run("export named.posterior -o named.csv --top 1")[0] == 0
    assert [row["id"] for row in rows_of(tmp_path / "named.csv")] == list(db.load(tmp_path / "named.posterior").ids)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("transform a.txt m.posterior -o topics.xlsx", "rows are written as .csv, .csv.gz or .parquet"),
        ("transform none.mtx m.posterior -o topics.parquet", "none.mtx holds no observations"),
        ("transform m.posterior -o topics.csv", "Give the data, then the posterior"),
        ("transform a.txt nothing.posterior -o topics.csv", "nothing.posterior"),
        ("transform nothing.txt m.posterior -o topics.csv", "nothing.txt: No such file"),
        ("transform a.txt m.posterior -o a.txt", "is an input of this command"),
        ("transform a.txt m.posterior --columns text --format csv -o topics.csv", "there is no column text"),
        ("transform p.csv p.csv p.posterior -o topics.csv", "reads one file, not 2"),
        ("export m.posterior -o topics.xlsx", "rows are written as"),
        ("export a.txt -o topics.csv", "a.txt is data, not a posterior: run `decbayes fit` first."),
    ],
)
def test_what_cannot_be_done_is_told_and_nothing_is_written(run, topics, tmp_path, line, reason):
    (tmp_path / "a.txt").write_text("a pawn\n", encoding="utf-8")
    (tmp_path / "p.csv").write_text("x\n1\n", encoding="utf-8")
    nothing = f"%%MatrixMarket matrix coordinate integer general\n0 {len(WORDS)} 0\n"
    (tmp_path / "none.mtx").write_text(nothing, encoding="utf-8")
    db.save(db.Posterior.of_prior(db.models.GaussianMean(dimension=1).structure), tmp_path / "p.posterior")
    status, _, errors = run(line)
    assert (status, reason in errors) == (1, True), errors
    assert not [path for path in tmp_path.iterdir() if "topics" in path.name]
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "a pawn\n"


@pytest.mark.parametrize("name", ["topics.csv", "topics.csv.gz", "topics.parquet"])
@pytest.mark.parametrize("where", ["before", "after"])
def test_an_interrupted_command_goes_on_where_it_was(run, topics, tmp_path, rng, monkeypatch, name, where):
    """Interrupted before a block is written, or right after it: each row is there once in the end."""
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow", reason="needs the parquet extra")
    monkeypatch.setattr("decbayes.models.topics.sources.BLOCK", 7)
    (tmp_path / "a.txt").write_text("\n".join(letters(rng, 40)), encoding="utf-8")
    assert run(f"transform a.txt m.posterior -o whole-{name}")[0] == 0
    calls, columns, after = [], transform_command.first_columns, transform_command.Written.after

    def interrupted(call):
        def told(*words):
            calls.append(words)
            if len(calls) == 4:
                raise KeyboardInterrupt
            return call(*words)

        return told

    if where == "before":
        monkeypatch.setattr(transform_command, "first_columns", interrupted(columns))
    else:
        monkeypatch.setattr(transform_command.Written, "after", interrupted(after))
    status, _, errors = run(f"transform a.txt m.posterior -o {name}")
    assert (status, "Interrupted after 21 rows" in errors, (tmp_path / name).exists()) == (130, True, False)
    assert len(calls) == 4
    status, _, errors = run(f"transform a.txt m.posterior -o {name}")
    assert (status, "Continuing after 21 rows" in errors, f"{name}: 40 rows" in errors) == (0, True, True)
    assert len(calls) == 7  # six blocks in all: those that were written are not found again
    read = (lambda path: path.read_bytes()) if name == "topics.csv" else table_of
    assert read(tmp_path / name) == read(tmp_path / f"whole-{name}")
    assert not [*tmp_path.glob("*.part"), *tmp_path.glob("*.json"), *tmp_path.glob(".topics*")]


def table_of(path):
    if path.suffix == ".gz":
        return rows_of(path)
    return pytest.importorskip("pyarrow.parquet").read_table(path).to_pydict()


def test_an_interrupted_command_on_other_data_begins_again(run, topics, tmp_path, rng, monkeypatch):
    monkeypatch.setattr("decbayes.models.topics.sources.BLOCK", 7)
    (tmp_path / "a.txt").write_text("\n".join(letters(rng, 20)), encoding="utf-8")
    (tmp_path / "topics.csv.part").write_text("left over\n", encoding="utf-8")
    (tmp_path / "topics.csv.part.json").write_text('{"command": "another", "blocks": 2, "size": 9}')
    status, _, errors = run("transform a.txt m.posterior -o topics.csv")
    assert (status, "Continuing" in errors, len(rows_of(tmp_path / "topics.csv"))) == (0, False, 20)
