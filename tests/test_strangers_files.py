"""Files from strangers: small ones that claim much, numbers that no data gives, and text that steers a terminal."""

import gzip
import json
import tracemalloc
import zipfile
from contextlib import contextmanager

import numpy as np
import pytest
from damage import unhashed
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

import decbayes as db
from decbayes.cli import main
from decbayes.errors import DecbayesError, InvalidData, InvalidFile, printable
from decbayes.files import KEY, LARGEST, from_bytes, to_bytes
from decbayes.inputs.large import read_any_table
from decbayes.inputs.mixed_tables import read_frame
from decbayes.inputs.tables import places
from decbayes.inputs.texts import LeftOut, Texts
from decbayes.inputs.word_lists import read_vocabulary
from decbayes.merging.base.compatibility import model_differences

MODEL = db.GaussianMixture(2, 2, covariance="diagonal")
MOST_GROWTH = 200 << 20


def posterior(seed=0):
    rng = np.random.default_rng(seed)
    return MODEL.fit(rng.normal(size=(40, 2)) + 4 * rng.integers(2, size=(40, 1)), rng=rng).posterior


def header_of(content):
    length = int.from_bytes(content[:8], "little")
    return json.loads(json.loads(content[8 : 8 + length])["__metadata__"][KEY])


def with_numbers(content, change):
    """The same file with other numbers in one of its arrays."""
    arrays = {name: array.copy() for name, array in load_arrays(content).items()}
    change(arrays)
    return save_arrays(arrays, metadata={KEY: json.dumps(header_of(content))})


def run(*words, capsys):
    with pytest.raises(SystemExit) as end:
        main([str(word) for word in words])
    said = capsys.readouterr()
    status = end.value.code
    return (1, str(status)) if isinstance(status, str) else (status, said.out + said.err)


@contextmanager
def little_memory():
    """At most 200 MB more than before, as NumPy and Python ask for it."""
    tracemalloc.start()
    try:
        yield
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < MOST_GROWTH


@pytest.mark.parametrize("number", [1e308, 1e31])
@pytest.mark.parametrize("command", ["show", "merge", "score"])
def test_numbers_that_no_data_gives_are_refused_in_one_line(tmp_path, capsys, number, command):
    """Counts of 1e308 ended `merge` with a traceback; `show` and `score` took them."""
    good, bad = tmp_path / "good.posterior", tmp_path / "bad.posterior"
    good.write_bytes(to_bytes(posterior()))
    bad.write_bytes(
        with_numbers(to_bytes(posterior(1)), lambda arrays: arrays["contribution/weights/data"].fill(number))
    )
    np.save(tmp_path / "data.npy", np.zeros((3, 2)))
    words = {
        "show": ("show", bad),
        "merge": ("merge", good, bad, "-o", tmp_path / "merged.posterior"),
        "score": ("score", tmp_path / "data.npy", bad),
    }[command]
    status, said = run(*words, capsys=capsys)
    assert status == 1
    assert "no data can produce" in said
    assert said.count("\n") <= 1


def test_files_and_records_bound_numbers_alike():
    """A record's limit is the stricter one: whatever a group accepts can be written to a file."""
    from decbayes.network import Limits

    assert Limits().magnitude <= LARGEST
    fits = with_numbers(to_bytes(posterior()), lambda arrays: arrays["contribution/weights/data"].fill(1e15))
    assert from_bytes(fits).contribution["weights"].max() == 1e15


def test_a_small_file_that_claims_a_large_prior_is_refused_before_there_is_memory_for_it(tmp_path):
    """1,388 bytes once took 954 MB and twelve seconds."""
    structure = db.LatentDirichletAllocation(2, tuple("abc")).structure
    content = to_bytes(db.Posterior.of_prior(structure))
    header, arrays = header_of(content), load_arrays(content)
    header["structure"]["shapes"]["topics"] = [100, 1_200_000]
    bomb = save_arrays(arrays, metadata={KEY: json.dumps(header)})
    assert len(bomb) < 2000
    with little_memory(), pytest.raises(InvalidFile, match=r"claims 960[0-9,]* bytes"):
        from_bytes(bomb)


def test_a_large_vocabulary_is_no_claim_that_is_refused():
    words = tuple(f"word{number}" for number in range(9_000))
    content = to_bytes(db.Posterior.of_prior(db.LatentDirichletAllocation(1000, words).structure))
    assert from_bytes(content).structure.prior["topics"].shape == (1000, 9_000)


def npy_bomb(path):
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": (10**11,)})
        file.write(bytes(80))


def npz_bomb(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("x.npy", "w") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": (12 << 20,)})
        for _ in range(96):
            file.write(bytes(1 << 20))


def npz_lie(path):
    with zipfile.ZipFile(path, "w") as archive, archive.open("x.npy", "w") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": (10**11,)})
        file.write(bytes(80))


def npz_riddle(path):
    """Packed by method 97, which NumPy never uses."""
    np.savez(path, x=np.ones(3))
    content = bytearray(path.read_bytes())
    place = content.index(b"PK\x01\x02")
    content[place + 10 : place + 12] = (97).to_bytes(2, "little")
    path.write_bytes(content)


def npz_of_the_future(path):
    """Of a version of the format that is not known yet."""
    np.savez(path, x=np.ones(3))
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\x01\x02") + 6] = 255
    path.write_bytes(content)


def npz_secret(path):
    np.savez(path, x=np.ones(3))
    content = bytearray(path.read_bytes())
    for mark, flags in ((b"PK\x01\x02", 8), (b"PK\x03\x04", 6)):
        content[content.index(mark) + flags] |= 1
    path.write_bytes(content)


def sparse_lie(path):
    parts = {"data": np.ones(1), "indices": np.zeros(1, dtype=np.int32), "indptr": np.array([0, 1])}
    np.savez(path, **parts, shape=np.array([10**10, 10**10]), format=np.array(b"csr"))


def csv_bomb(path):
    with gzip.open(path, "wb") as file:
        file.write(b"a,b\n")
        for _ in range(20):
            file.write(b"0,0\n" * (1 << 18))


def market_lie(path):
    path.write_text("%%MatrixMarket matrix coordinate real general\n1000 1000 4000000000\n1 1 1.0\n")


def market_rows_lie(path):
    path.write_text("%%MatrixMarket matrix coordinate real general\n4000000000 5 1\n1 1 1.0\n")


def market_dense_lie(path):
    path.write_text("%%MatrixMarket matrix array real general\n100000 100000\n1.0\n")


def parquet_bomb(path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    column = arrow.chunked_array([arrow.array(np.zeros(1 << 20))] * 8)
    parquet.write_table(arrow.table({"a": column, "b": column}), path)


BOMBS = {
    "x.npy": npy_bomb,
    "x.npz": npz_bomb,
    "lie.npz": npz_lie,
    "riddle.npz": npz_riddle,
    "secret.npz": npz_secret,
    "future.npz": npz_of_the_future,
    "sparse.npz": sparse_lie,
    "x.csv.gz": csv_bomb,
    "x.mtx": market_lie,
    "rows.mtx": market_rows_lie,
    "dense.mtx": market_dense_lie,
    "x.parquet": parquet_bomb,
}


@pytest.mark.parametrize("name", BOMBS)
def test_small_data_files_cannot_make_themselves_large(name, tmp_path):
    """A megabyte of .npz or .csv.gz once became two gigabytes."""
    path = tmp_path / name
    BOMBS[name](path)
    assert path.stat().st_size < 1 << 20
    with little_memory(), pytest.raises(InvalidData, match=name):
        read_any_table(path)


@pytest.mark.parametrize(
    "read",
    [read_frame, read_vocabulary, lambda path: list(Texts((path,), format="txt").read(LeftOut()))],
    ids=["table", "words", "texts"],
)
def test_every_reader_of_compressed_text_is_bounded(read, tmp_path):
    path = tmp_path / "x.csv.gz"
    csv_bomb(path)
    with little_memory(), pytest.raises(InvalidData, match="unpack it first"):
        read(path)


def test_honest_compressed_files_are_read(tmp_path):
    rows = np.random.default_rng(0).normal(size=(500, 3)).round(3)
    for name in ("a.csv.gz", "a.csv.bz2", "a.csv.xz"):
        np.savetxt(tmp_path / name, rows, delimiter=",")
        np.testing.assert_allclose(read_any_table(tmp_path / name).values, rows)
    from scipy.io import mmwrite
    from scipy.sparse import coo_array

    mmwrite(tmp_path / "a.mtx", coo_array(np.eye(4)))
    (tmp_path / "a.mtx.gz").write_bytes(gzip.compress((tmp_path / "a.mtx").read_bytes()))
    for name in ("a.mtx", "a.mtx.gz"):
        np.testing.assert_array_equal(read_any_table(tmp_path / name).values.toarray(), np.eye(4))


def test_text_of_strangers_cannot_steer_the_terminal(tmp_path, capsys):
    """The dtype of an array in a safetensors file once reached the terminal as it was."""
    content = unhashed(to_bytes(posterior()))
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    name = next(name for name in header if name.startswith("prior"))
    header[f"{name}\x1b[31m"] = header.pop(name) | {"dtype": "I64"}
    text, rest = json.dumps(header).encode(), content[8 + int.from_bytes(content[:8], "little") :]
    with pytest.raises(InvalidFile, match=r"components\\x1b\[31m") as error:
        from_bytes(len(text).to_bytes(8, "little") + text + rest)
    assert str(error.value).isprintable()
    changed = content.replace(b'"dtype":"F64"', b'"dtype":"I64"', 1)
    path = tmp_path / "a\x1b[31m.posterior"
    path.write_bytes(changed)
    for words in (("show", path), ("show", tmp_path / "no\x1b[31mne"), ("merge", path, path, "-o", tmp_path / "m")):
        status, said = run(*words, capsys=capsys)
        assert status == 1
        assert "\x1b" not in said
        assert r"\x1b[31m" in said


def test_errors_are_printable_whatever_they_quote():
    assert str(InvalidFile("a\x1b[31m\n\u202eb\ud800é")) == r"a\x1b[31m\n\u202eb\ud800é"
    assert printable("β ± 1") == "β ± 1"


def test_cells_that_a_spreadsheet_would_run_are_text_in_exports(tmp_path, capsys):
    words = ("=1+1", "+cmd", "-x", "@sum", "-1.5", "plain")
    model = db.LatentDirichletAllocation(2, words)
    db.save(model.fit(np.full((30, 6), 3), rng=0).posterior, tmp_path / "a.posterior")
    entries = {}
    for option in ((), ("--formulas",)):
        path = tmp_path / "out.csv"
        assert run("export", tmp_path / "a.posterior", "-o", path, "--rules", "none", *option, capsys=capsys)[0] == 0
        rows = [line.split(",") for line in path.read_text().splitlines()]
        entries[option] = [row[rows[0].index("entry")] for row in rows[1:] if row[0] == "topics"][:6]
    assert set(entries[()]) == {"'=1+1", "'+cmd", "'-x", "'@sum", "-1.5", "plain"}
    assert set(entries["--formulas",]) == set(words)


@pytest.mark.parametrize("terms", [1e308, 2**63, None, {"a": 1}])
def test_a_list_that_is_none_is_a_difference_and_no_defect(terms):
    """A stranger's description said so, and `merge` ended in a traceback as it explained what differs."""
    model = {"name": "LinearRegression", "target": "y", "terms": ["a"]}
    assert "'a'" in " ".join(model_differences(model, {**model, "terms": terms}))


def test_a_table_without_names_is_refused_and_no_row_of_it_is_quoted(tmp_path):
    table = tmp_path / "patients.csv"
    for first in ("67,Meyer,2", "67,Meyer", "3.5,Meyer", "1,67,Meyer", "67,65,63.5,Meyer"):
        table.write_text(f"{first}\n{first}\n")
        with pytest.raises(InvalidData, match="begins with the names of its columns") as refused:
            read_frame(table)
        assert "Meyer" not in str(refused.value)
    for first in ("label,0,1,2", "1,2,label", "place,2010,2015,2020", "label,1"):
        table.write_text(f"{first}\n" + ",".join(["7"] * len(first.split(","))) + "\n")
        assert [*read_frame(table)] == first.split(",")
    for ask in (
        lambda: places(["1st", "Meyer"], ["age"]),
        lambda: db.LinearRegression.from_frame({"1st": [1.0, 2.0]}, "y ~ x"),
    ):
        with pytest.raises(DecbayesError, match="not listed here") as refused:
            ask()
        assert "Meyer" not in str(refused.value)
        assert "1st" not in str(refused.value)
