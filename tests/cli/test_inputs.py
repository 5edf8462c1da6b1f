"""Every format gives the same numbers, and every damaged file a plain word on what is wrong."""

import gzip
import io
import json

import numpy as np
import pytest
from scipy.io import mmwrite
from scipy.sparse import csr_array, csr_matrix, save_npz

from decbayes.errors import InvalidData
from decbayes.inputs.documents import Choice, read_documents
from decbayes.inputs.tables import has_names, read_table
from decbayes.inputs.texts import Texts
from decbayes.inputs.word_lists import read_vocabulary

POINTS = np.array([[1.5, 2.0], [-3.25, 4e3]])
COUNTS = np.array([[0, 2, 1], [3, 0, 0]])


def write_csv(path):
    path.write_text("x,y\n1.5,2\n-3.25,4e3\n", encoding="utf-8")


def write_tsv(path):
    path.write_text("x\ty\n1.5\t2\n-3.25\t4e3\n", encoding="utf-8")


def write_packed(path):
    path.write_bytes(gzip.compress(b"x,y\r\n1.5,2\r\n-3.25,4e3\r\n"))


def write_parquet(path):
    pyarrow = pytest.importorskip("pyarrow", reason="needs the parquet extra")
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"x": POINTS[:, 0], "y": POINTS[:, 1]}), path)


@pytest.mark.parametrize(
    ("name", "write"),
    [("a.csv", write_csv), ("a.tsv", write_tsv), ("a.csv.gz", write_packed), ("a.parquet", write_parquet)],
)
def test_tables_with_names(name, write, tmp_path):
    path = tmp_path / name
    write(path)
    table = read_table(path)
    np.testing.assert_array_equal(table.values, POINTS)
    assert table.columns == ("x", "y")
    swapped = read_table(path, ["y", "x"])
    np.testing.assert_array_equal(swapped.values, POINTS[:, ::-1])
    assert swapped.columns == ("y", "x")
    with pytest.raises(InvalidData, match="there is no column z; the columns are x, y"):
        read_table(path, ["x", "z"])


def test_a_table_without_a_header_has_no_names(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("1,2\n3,4\n", encoding="utf-8")
    table = read_table(path)
    assert (table.values.tolist(), table.columns) == ([[1.0, 2.0], [3.0, 4.0]], ())


@pytest.mark.parametrize(
    "text", ["1,2\n3,4\n", "1\t2\n3\t4\n", '"1","2"\n"3","4"\n', "\n1,2\n3,4\n", "x,y\n1,2\n", "x\ty\n"]
)
@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.csv.gz"])
def test_whether_there_are_names_does_not_depend_on_who_asks(name, text, tmp_path):
    (tmp_path / name).write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
    assert has_names(tmp_path / name) == bool(read_table(tmp_path / name).columns) == ("x" in text)


def test_arrays(tmp_path):
    np.save(tmp_path / "a.npy", POINTS)
    np.savez(tmp_path / "a.npz", values=POINTS)
    for name in ("a.npy", "a.npz"):
        np.testing.assert_array_equal(read_table(tmp_path / name).values, POINTS)
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress((tmp_path / name).read_bytes()))
        with pytest.raises(InvalidData, match="decompress it with gunzip"):
            read_table(tmp_path / f"{name}.gz")


def write_scipy(path):
    save_npz(path, csr_matrix(COUNTS))


def write_parts(path):
    counts = csr_array(COUNTS)
    parts = {"data": counts.data, "indices": counts.indices, "indptr": counts.indptr, "shape": counts.shape}
    np.savez(path, vocab=np.array(["apple", "pear", "plum"]), label=np.arange(2), **parts)


def write_market(path):
    mmwrite(path, csr_array(COUNTS))


@pytest.mark.parametrize(("name", "write"), [("a.npz", write_scipy), ("b.npz", write_parts), ("a.mtx", write_market)])
def test_counts(name, write, tmp_path):
    path = tmp_path / name
    write(path)
    documents = read_documents(path)
    np.testing.assert_array_equal(documents.counts.toarray(), COUNTS)
    assert documents.vocabulary == (("apple", "pear", "plum") if write is write_parts else ("0", "1", "2"))


@pytest.mark.parametrize("packed", [False, True])
def test_texts_are_counted_over_a_vocabulary(packed, tmp_path):
    lines = [{"text": "Pear, pear & plum 7"}, {"text": "Apple apple apple kiwi"}]
    content = "\n".join([*(json.dumps(line) for line in lines), ""]).encode()
    path = tmp_path / ("a.jsonl.gz" if packed else "a.jsonl")
    path.write_bytes(gzip.compress(content) if packed else content)
    documents = read_documents(path, ("apple", "pear", "plum"))
    np.testing.assert_array_equal(documents.counts.toarray(), COUNTS)
    assert documents.unknown == 1
    assert read_documents(path).vocabulary == ("apple", "kiwi", "pear", "plum")
    with pytest.raises(InvalidData, match="lower --least-documents"):
        read_documents(path, choice=Choice(least_documents=2))


def packed(values):
    buffer = io.BytesIO()
    np.savez(buffer, values=values)
    return buffer.getvalue()


DAMAGED = {
    "a.csv": (b"x,y\n1,2\n3\n", "row 3 has 1 columns, the first has 2"),
    "b.csv": (b"x,kind\n1,long\n", "column 'kind' is not a number in observation 0.*--columns"),
    "f.csv": (b"x,crp\n1,\n2,\n3, \n", "column 'crp' is empty in observations 0 to 2. Leave it out at all sites"),
    "g.csv": (b"x,crp\n1,\n2,4\n", "column 'crp' is not a number in observation 0"),
    "c.csv": (b"", "is empty"),
    "d.csv": (b"\xff\xfe\x00", "not UTF-8"),
    "a.npy": (b"not an array", "not a readable .npy file"),
    "a.npz": (b"PK nothing", "not a readable .npz file"),
    "a.mtx": (b"%%Nothing\n1 2\n", "not a readable .mtx file"),
    "e.csv": (b"\n\n", "only blank lines"),
    "a.csv.gz": (b"x,y\n1,2\n", "a.csv.gz: not a readable .csv file"),
    "b.csv.gz": (gzip.compress(b"x,y\n1,2\n" * 99)[:-12], "b.csv.gz: not a readable"),
    "b.npz": (packed(POINTS)[:-30], "not a readable .npz file"),
    "c.npz": (packed(POINTS).replace(POINTS.tobytes(), bytes(POINTS.nbytes)), "not a readable .npz file"),
    "a.mtx.gz": (b"%%MatrixMarket", "a.mtx.gz: not a readable .mtx file"),
    "c.csv.gz": (gzip.compress(b"x,y\n1,2\n" * 99)[:-12], "not a complete .gz file. It may have been cut off"),
    "a.csv.zst": (b"", r"\.zst files are not read. Unpack it first \(zstd -d\)"),
    "a.tar.gz": (b"", r"\.tar files are not read. Unpack it first \(tar -xf\)"),
    "a.xlsx": (b"PK", "files that end in .xlsx are not supported; supported are .csv"),
    "a": (b"1,2", "files without an ending are not supported; supported are .csv"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_tables_are_refused_with_the_reason(name, tmp_path):
    content, reason = DAMAGED[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidData, match=reason):
        read_table(tmp_path / name)


@pytest.mark.parametrize("format", ["", "jsonl"])
def test_packed_texts_are_refused_with_what_unpacks_them(format, tmp_path):
    (tmp_path / "a.jsonl.zst").write_bytes(b"(\xb5/\xfd")
    with pytest.raises(InvalidData, match=r"Unpack it first \(zstd -d\); .gz, .bz2 and .xz are read"):
        read_documents(Texts((tmp_path / "a.jsonl.zst",), format=format))


def test_nothing_is_unpickled(tmp_path):
    np.save(tmp_path / "a.npy", np.array([{"evil": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(InvalidData, match=r"holds Python objects, which are not read\.$"):
        read_table(tmp_path / "a.npy")


@pytest.mark.parametrize("line", ['{"body": "no text"}', '{"text": 5}', "null", "[1]", "[" * 100_000])
def test_a_line_that_is_no_text_is_left_out_or_refused(line, tmp_path):
    (tmp_path / "a.jsonl").write_text(f'"one"\n{line}\n', encoding="utf-8")
    with pytest.raises(InvalidData, match=r"a.jsonl: line 2: neither a string nor an object with a string"):
        read_documents(Texts((tmp_path / "a.jsonl",), strict=True))
    found = read_documents(tmp_path / "a.jsonl")
    assert found.vocabulary == ("one",)
    assert "1 left out (line 2): neither a string" in next(iter(found.left_out))


def test_a_byte_order_mark_is_no_letter(tmp_path):
    mark = b"\xef\xbb\xbf"
    (tmp_path / "a.csv").write_bytes(mark + b"x,y\r\n1.5,2\r\n-3.25,4e3\r\n")
    assert read_table(tmp_path / "a.csv").columns == ("x", "y")
    (tmp_path / "words.txt").write_bytes(mark + b"apple\r\npear\r\n")
    assert read_vocabulary(tmp_path / "words.txt").words == ("apple", "pear")
    (tmp_path / "a.jsonl").write_bytes(mark + b'"apple pear"\r\n')
    assert read_documents(tmp_path / "a.jsonl").vocabulary == ("apple", "pear")


def test_texts_and_vocabularies_that_are_none(tmp_path):
    texts, words = tmp_path / "a.jsonl", tmp_path / "words.txt"
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b'"apple"\n' * 99)[:-12])
    with pytest.raises(InvalidData, match=r"a\.jsonl\.gz: not a readable text file"):
        read_documents(tmp_path / "a.jsonl.gz")
    words.write_text("\n", encoding="utf-8")
    with pytest.raises(InvalidData, match="holds no words"):
        read_vocabulary(words)
    texts.write_text("\n", encoding="utf-8")
    with pytest.raises(InvalidData, match="holds no documents"):
        read_documents(texts)
    words.write_text("pear\napple\npear\n", encoding="utf-8")
    with pytest.raises(InvalidData, match="1 words are listed more than once"):
        read_vocabulary(words)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("b.csv", "x,y\n1,secret\n"),
        ("c.csv", "x,y\n1,2,secret\n"),
        ("a.mtx", "%%MatrixMarket matrix coordinate integer general\n2 2 1\nsecret 1 1\n"),
        ("a.jsonl", '{"body": "secret"}\n'),
        ("a.txt", "\n"),
    ],
)
def test_no_message_quotes_data(name, content, tmp_path):
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(InvalidData) as caught:
        read_documents(tmp_path / name)
    assert "secret" not in str(caught.value)


def test_texts_in_a_table_are_told_where_texts_are_read_from(tmp_path):
    path = tmp_path / "letters.csv"
    path.write_text("body\n" + "word " * 1000, encoding="utf-8")
    with pytest.raises(InvalidData, match=r"the columns are body\. --columns names those with the texts"):
        read_documents(path)


def test_counts_of_the_same_words_in_another_order_are_put_in_order(tmp_path):
    path = tmp_path / "counts.csv"
    path.write_text("pear,fig,apple\n1,2,3\n0,4,0\n", encoding="utf-8")
    documents = read_documents(path, ("apple", "pear", "plum"))
    assert documents.counts.toarray().tolist() == [[3, 1, 0], [0, 0, 0]]
    assert (documents.vocabulary, documents.unknown) == (("apple", "pear", "plum"), 6)
