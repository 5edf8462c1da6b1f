"""Files too large for memory give the numbers that they would give at once, and the same errors."""

import gzip
import json
import signal
import subprocess
import time

import forked
import numpy as np
import pytest
from scipy.io import mmwrite
from scipy.sparse import csc_array, csr_array, csr_matrix, save_npz

import decbayes as db
from decbayes.errors import InvalidData
from decbayes.inputs import chunks, documents, filed, large
from decbayes.inputs.documents import Choice, read_documents
from decbayes.inputs.filed import FileArray, FileMatrix
from decbayes.inputs.large import read_any_table, read_points
from decbayes.inputs.tables import read_table

POINTS = np.random.default_rng(1).normal(size=(23, 3)).round(6)
COUNTS = np.random.default_rng(2).poisson(0.4, size=(23, 6))
COUNTS[[0, 7, 22]] = 0


@pytest.fixture(autouse=True)
def everything_is_large(monkeypatch):
    monkeypatch.setattr(large, "LARGE", -1)
    for module in (large, documents):
        monkeypatch.setattr(module, "ROWS", 5)
    for module in (large, filed):
        monkeypatch.setattr(module, "BLOCK_ENTRIES", 7)


def csv_text(separator=",", header=True):
    lines = [separator.join(map(repr, row)) for row in POINTS.tolist()]
    return "\n".join([separator.join("xyz")] * header + lines) + "\n"


def write_parquet(path):
    pyarrow = pytest.importorskip("pyarrow", reason="needs the parquet extra")
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({name: POINTS[:, place] for place, name in enumerate("xyz")}), path)


DENSE = {
    "a.csv": lambda path: path.write_text(csv_text(), encoding="utf-8"),
    "b.csv": lambda path: path.write_text(csv_text(header=False), encoding="utf-8"),
    "a.tsv": lambda path: path.write_text(csv_text("\t"), encoding="utf-8"),
    "a.csv.gz": lambda path: path.write_bytes(gzip.compress(csv_text().encode())),
    "a.npy": lambda path: np.save(path, POINTS),
    "f.npy": lambda path: np.save(path, np.asfortranarray(POINTS)),
    "a.npz": lambda path: np.savez_compressed(path, POINTS),
    "f.npz": lambda path: np.savez(path, np.asfortranarray(POINTS)),
    "a.parquet": write_parquet,
}


@pytest.mark.parametrize("name", DENSE)
def test_tables_are_what_they_are_at_once(name, tmp_path):
    DENSE[name](tmp_path / name)
    found, expected = read_any_table(tmp_path / name), read_table(tmp_path / name)
    assert isinstance(found.values, FileArray) or name.startswith("f.")
    np.testing.assert_array_equal(np.asarray(found.values), expected.values)
    assert found.columns == expected.columns
    if found.columns:
        np.testing.assert_array_equal(np.asarray(read_any_table(tmp_path / name, ["z", "x"]).values), POINTS[:, [2, 0]])


def test_images_are_rows(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(60.0).reshape(5, 3, 4))
    np.savez(tmp_path / "a.npz", np.arange(60.0).reshape(5, 3, 4))
    for name in ("a.npy", "a.npz"):
        values = read_points(tmp_path / name).values
        assert values.shape == (5, 12)
        np.testing.assert_array_equal(values[1:3], np.arange(60.0).reshape(5, 12)[1:3])


SPARSE = {
    "a.npz": lambda path: save_npz(path, csr_matrix(COUNTS)),
    "a.mtx": lambda path: mmwrite(path, csr_array(COUNTS)),
    "a.mtx.gz": lambda path: path.write_bytes(gzip.compress(market_text(csr_array(COUNTS)))),
    "column_by_column.mtx": lambda path: path.write_bytes(market_text(csc_array(COUNTS))),
    "dense.npy": lambda path: np.save(path, COUNTS),
}


def market_text(matrix):
    entries = matrix.tocoo()
    lines = [f"{r + 1} {c + 1} {v}" for r, c, v in zip(*entries.coords, entries.data, strict=True)]
    size = f"{matrix.shape[0]} {matrix.shape[1]} {matrix.nnz}"
    return "\n".join(["%%MatrixMarket matrix coordinate integer general", "% ours", size, *lines, ""]).encode()


@pytest.mark.parametrize("name", SPARSE)
def test_counts_are_what_they_are_at_once(name, tmp_path):
    SPARSE[name](tmp_path / name)
    counts = read_documents(tmp_path / name).counts
    assert isinstance(counts, FileMatrix) or name.startswith("column")
    assert counts.shape == COUNTS.shape
    rows = [counts] if not isinstance(counts, FileMatrix) else counts
    np.testing.assert_array_equal(np.concatenate([part.toarray() for part in rows]), COUNTS)


def test_columns_go_where_the_vocabulary_has_them(tmp_path):
    words = list("abcdef")
    np.savez(tmp_path / "a.npz", **parts(csr_array(COUNTS)), vocab=np.array(words))
    found = read_documents(tmp_path / "a.npz", ["f", "new", "a"])
    values = np.concatenate([part.toarray() for part in found.counts])
    np.testing.assert_array_equal(values, np.column_stack([COUNTS[:, 5], np.zeros(23), COUNTS[:, 0]]))
    assert found.unknown == COUNTS[:, 1:5].sum()


def parts(matrix):
    return {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr, "shape": np.array(matrix.shape)}


TEXTS = [f"{'apple ' * (n % 3)}banana word{chr(97 + n % 7)} {'rare' + 'x' * n}" for n in range(40)]


def write_texts_in_parquet(path):
    pyarrow = pytest.importorskip("pyarrow", reason="needs the parquet extra")
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"id": list(range(40)), "text": TEXTS}), path)


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.parquet"])
@pytest.mark.parametrize("vocabulary", [(), ("banana", "apple")])
def test_texts_are_counted_as_they_are_at_once(name, vocabulary, tmp_path, monkeypatch):
    if name == "a.parquet":
        write_texts_in_parquet(tmp_path / name)
    else:
        lines = TEXTS if name == "a.txt" else [json.dumps({"text": text}) for text in TEXTS]
        (tmp_path / name).write_text("\n".join(lines), encoding="utf-8")
    found = read_documents(tmp_path / name, vocabulary, choice=Choice(least_documents=2))
    monkeypatch.setattr(large, "LARGE", 1 << 40)
    expected = read_documents(tmp_path / name, vocabulary, choice=Choice(least_documents=2))
    assert (found.vocabulary, found.unknown) == (expected.vocabulary, expected.unknown)
    assert isinstance(found.counts, FileMatrix)
    np.testing.assert_array_equal(np.concatenate([p.toarray() for p in found.counts]), expected.counts.toarray())


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.csv", csv_text() + "1,2\n", "row 25 has 2 columns"),
        ("a.csv", csv_text() + "1,2,secret\n", "'z' is not a number in observation 23"),
        ("a.mtx", market_text(csr_array(COUNTS))[:-9].decode(), "promise|not a readable"),
        ("a.mtx", market_text(csr_array(COUNTS)).decode().replace("23 6 ", "20 6 "), "outside the matrix"),
        ("a.mtx", "nonsense\n1 2 3", "not a readable"),
        ("a.npz", "nonsense", "not a readable"),
        ("a.npy", "nonsense", "not a readable"),
        ("a.csv", "\n\n", "blank lines"),
        ("a.jsonl", "", "no documents"),
    ],
)
def test_what_is_wrong_is_told_without_quoting_it(name, content, reason, tmp_path):
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(InvalidData, match=reason) as told:
        read_documents(tmp_path / name)
    assert "secret" not in str(told.value)
    assert str(tmp_path / name) in str(told.value)


def test_an_archive_that_ends_too_early_is_told(tmp_path):
    short = parts(csr_array(COUNTS)) | {"data": csr_array(COUNTS).data[:-3]}
    np.savez(tmp_path / "a.npz", **short)
    with pytest.raises(InvalidData, match="ends too early"):
        read_documents(tmp_path / "a.npz")


def test_commands_give_the_same_posterior_of_a_large_file(run, tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("\n".join(TEXTS), encoding="utf-8")
    np.save(tmp_path / "a.npy", POINTS)
    posteriors = []
    for size in (-1, 1 << 40):
        monkeypatch.setattr(large, "LARGE", size)
        for line in ("topics a.txt --topics 2 --least-documents 2 --most-share 1.0", "mixture a.npy --components 2"):
            status, _, errors = run(f"fit {line} -o a.posterior")
            assert status == 0, errors
            posteriors.append(db.load(tmp_path / "a.posterior").digest)
            assert run(f"score {line.split()[1]} a.posterior")[0] == 0
    assert posteriors[:2] == posteriors[2:]


def test_so_many_at_a_time():
    assert list(chunks.in_batches(range(5), 2)) == [[0, 1], [2, 3], [4]]


INTERRUPTED = [
    ("topics a.npz --topics 5 --passes 14", 4, 0),
    ("topics a.npz --topics 5 --passes 14", 12, 0),
    ("topics a.npz --topics 5 --passes 13 --restarts 2", 3, 2),
    ("topics a.npz --topics 4 --passes 12 --document-prior learn", 11, 0),
    ("topics a.npz --topics 4 --passes 12 --batch 100", 5, 0),
    ("mixture a.npy --components 3 --restarts 4", 1, 2),
]


class TestUnfinished:
    def write(self, folder, documents=120):
        rng = np.random.default_rng(0)
        save_npz(folder / "a.npz", csr_matrix(rng.poisson(0.3, size=(documents, 200))))

    @pytest.mark.parametrize("filed", [False, True], ids=["in memory", "in files"])
    @pytest.mark.parametrize(("line", "number", "restart"), INTERRUPTED)
    def test_the_same_command_goes_on_to_the_same_bits(self, line, number, restart, filed, run, tmp_path, monkeypatch):
        self.write(tmp_path)
        np.save(tmp_path / "a.npy", POINTS)
        if not filed:
            monkeypatch.undo()
            monkeypatch.chdir(tmp_path)
        assert run(f"fit {line} -o whole.posterior")[0] == 0
        with monkeypatch.context() as patch:
            stop_after(patch, number, restart)
            status, _, errors = run(f"fit {line} -o a.posterior")
        assert (status, "The same command continues" in errors) == (130, True)
        assert (tmp_path / "a.posterior.unfinished").is_dir()
        status, _, errors = run(f"fit {line} -o a.posterior")
        assert (status, f"Continuing from pass {number}" in errors) == (0, True), errors
        assert not (tmp_path / "a.posterior.unfinished").exists()
        whole, found = (db.load(tmp_path / f"{name}.posterior") for name in ("whole", "a"))
        assert found.digest == whole.digest
        assert "Continuing" not in run(f"fit {line} -o a.posterior")[2]

    def test_a_model_that_does_not_tell_its_state_goes_on_from_its_posterior(self, run, tmp_path, monkeypatch):
        np.save(tmp_path / "a.npy", POINTS)
        line = "fit features a.npy --features 2 --variance 1 --restarts 3 -o a.posterior"
        with monkeypatch.context() as patch:
            stop_after(patch, 1, restart=2)
            assert run(line)[0] == 130
        starts, original = [], db.LatentFeatures.fit

        def watched(self, *words, **options):
            starts.append(self.ascent.restarts)
            return original(self, *words, **options)

        monkeypatch.setattr(db.LatentFeatures, "fit", watched)
        status, _, errors = run(line)
        assert (status, "Continuing from pass 1" in errors) == (0, True)
        assert starts[:2] == [3, 0]  # then come fits of halves of the rows

    def test_a_signal_to_a_real_process(self, tmp_path, monkeypatch):
        """Ctrl-C, whenever it comes: the second run of the command ends with the bits of an uninterrupted one."""
        monkeypatch.undo()
        monkeypatch.chdir(tmp_path)
        self.write(tmp_path, 3000)
        line = "fit topics a.npz --topics 20 --passes 40 --seed 3 -o"
        log = tmp_path / "log"

        def interrupted(seconds, name):
            """The exit status after Ctrl-C at a time, and the seconds it took in all."""
            begin = time.monotonic()
            with log.open("wb") as output:
                process = forked.start([*line.split(), name], output=output)
            try:
                process.wait(seconds)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGINT)
            try:
                return process.wait(120), time.monotonic() - begin
            finally:
                process.kill()
                process.stdin.close()

        status, seconds = interrupted(120, "whole.posterior")
        assert status == 0
        for _ in range(15):
            status, taken = interrupted(0.85 * seconds, "a.posterior")
            if "The same command continues" in log.read_text():
                break
            seconds = 0.9 * taken if status == 0 else 1.2 * seconds  # too late, or too early, while it was loading
        assert status == 130
        status, _ = interrupted(120, "a.posterior")
        assert (status, "Continuing" in log.read_text()) == (0, True)
        whole, found = (db.load(tmp_path / f"{name}.posterior") for name in ("whole", "a"))
        assert found.digest == whole.digest

    @pytest.mark.parametrize("change", ["--seed 1", "data", "posterior"])
    def test_anything_else_begins_anew(self, change, run, tmp_path, monkeypatch):
        self.write(tmp_path)
        line = "fit topics a.npz --topics 5 --passes 6 -o a.posterior"
        stop_after(monkeypatch, 2)
        assert run(line)[0] == 130
        monkeypatch.undo()
        monkeypatch.chdir(tmp_path)
        if change == "data":
            save_npz(tmp_path / "a.npz", csr_matrix(np.ones((10, 200))))
        elif change == "posterior":
            other = db.LatentDirichletAllocation(5, tuple(map(str, range(200))))
            db.save(db.Posterior.of_prior(other.structure), tmp_path / "a.posterior")
        status, _, errors = run(f"{line} {change if change.startswith('--') else ''}")
        assert (status, "Continuing" in errors) == (0, False)


def stop_after(monkeypatch, number, restart=0):
    """Ctrl-C after so many passes."""
    from decbayes.cli.shared.terminal import FitBar

    def report(self, reached):
        if (reached.restart, reached.number) == (restart, number):
            raise KeyboardInterrupt

    monkeypatch.setattr(FitBar, "__call__", report)


def test_a_missing_gpu_is_told_in_one_line(run, tmp_path, monkeypatch):
    from decbayes import devices
    from decbayes.errors import MissingDevice

    def missing():
        raise MissingDevice("CuPy finds no GPU.")

    monkeypatch.setattr(devices, "gpu", missing)
    save_npz(tmp_path / "a.npz", csr_matrix(COUNTS))
    line = "fit topics a.npz --topics 2 --passes 2 -o a.posterior --device"
    status, _, errors = run(f"{line} auto")
    assert (status, errors.splitlines()[0]) == (0, "The processor is used. CuPy finds no GPU.")
    assert (run(f"{line} cuda")[0], run(f"{line} tpu")[0]) == (1, 2)
    assert run("fit mixture a.npz -o b.posterior --device cpu")[0] == 2
    run("fit topics a.npz --like a.posterior --seed 1 --passes 2 -o b.posterior")
    for line in (
        "merge a.posterior b.posterior -o m.posterior",
        "refine a.npz --own a.posterior --others b.posterior -o r.posterior",
        "transform a.npz a.posterior -o a.csv",
        "score a.npz a.posterior",
    ):
        status, _, errors = run(f"{line} --device auto")
        assert (status, errors.count("The processor is used")) == (0, 1), line
        assert run(f"{line} --device cuda")[0] == 1
