"""A hyphen is standard input, and after -o standard output: the same bytes as with files."""

import gzip
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import decbayes as db
from decbayes.cli import main


@pytest.fixture
def feed(monkeypatch):
    def put(content):
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(content)))

    return put


@pytest.fixture
def site(tmp_path, rng):
    """A table of points, a posterior of it, and one of topics."""
    points = np.array([[0.0, 0.0], [9.0, 5.0]])[rng.integers(2, size=40)] + rng.normal(size=(40, 2))
    lines = ["x,y", *(f"{x},{y}" for x, y in points)]
    (tmp_path / "a.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    model = db.GaussianMixture(2, 2, covariance="diagonal", columns=("x", "y"), ascent=db.Ascent(restarts=0))
    for name, part in (("a", points), ("b", points[:25])):
        db.save(model.fit(part, rng=rng).posterior, tmp_path / f"{name}.posterior")
    texts = [f"{word} {word} plum" for word in ("pear", "apple", "quince") * 5]
    (tmp_path / "t.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    topics = db.LatentDirichletAllocation(2, ("apple", "pear", "plum"))
    db.save(db.Posterior.of_prior(topics.structure), tmp_path / "t.posterior")
    return tmp_path


def as_json_lines(path):
    names, *rows = [line.split(",") for line in path.read_text().splitlines()]
    return "\n".join(json.dumps(dict(zip(names, map(float, row), strict=True))) for row in rows).encode()


def as_npy(path):
    content = io.BytesIO()
    np.save(content, np.loadtxt(path, delimiter=",", skiprows=1))
    return content.getvalue()


@pytest.mark.parametrize(
    ("line", "content"),
    [
        ("fit mixture {} --components 2 --restarts 0 -o p", lambda path: path.read_bytes()),
        ("fit mixture {} --components 2 --restarts 0 -o p", as_json_lines),
        ("fit mixture {} --components 2 --restarts 0 -o p", lambda path: gzip.compress(path.read_bytes())),
        ("fit mixture {} --like a.posterior --restarts 0 -o p", as_npy),
        ("fit mixture {} --columns y --components 2 --restarts 0 -o p", lambda path: path.read_bytes()),
        ("score {} a.posterior b.posterior", lambda path: path.read_bytes()),
        ("columns {}", lambda path: path.read_bytes()),
        ("transform {} a.posterior -o p.csv", lambda path: path.read_bytes()),
        ("overlap {} a.posterior b.posterior -o p", lambda path: path.read_bytes()),
        ("calibrate a.posterior {} -o p.information", lambda path: path.read_bytes()),
        ("validate {} a.posterior --leave-one-out -o p.scores", lambda path: path.read_bytes()),
        ("validate {} b.posterior -o p.scores", lambda path: path.read_bytes()),
    ],
)
def test_a_table_from_standard_input_gives_what_its_file_gives(line, content, run, site, feed):
    def outcome(data):
        status, shown, _ = run(line.format(data))
        written = {path.name: path.read_bytes() for path in site.glob("p*")}
        for path in site.glob("p*"):
            path.unlink()
        return status, shown, written

    expected = outcome("a.csv")
    feed(content(site / "a.csv"))
    assert outcome("-") == expected
    assert expected[0] == 0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "standard input is empty"),
        (b'{"x": 1}\n[2, 3]\n', "standard input: each line of JSON must be one object"),
        (b"x,y\n1,secret\n", "standard input: column 'y' is not a number in observation 0"),
    ],
)
def test_a_fault_in_standard_input_is_one_line_that_names_it(content, message, run, site, feed):
    feed(content)
    status, _, errors = run("fit mixture - --components 2 -o p.posterior")
    assert (status, errors.startswith(f"decbayes: {message}"), "secret" in errors) == (1, True, False), errors
    assert errors.count("\n") == 0


@pytest.mark.parametrize(
    ("line", "file"),
    [
        ("export a.posterior -o {}", "p.csv"),
        ("transform a.csv a.posterior -o {}", "p.csv"),
        ("words t.txt --least-documents 1 --most-share 1 -o {}", "p.words"),
        ("columns a.csv -o {}", "p.columns"),
        ("report a.posterior b.posterior --no-confidence -o {}", "p.html"),
        ("overlap a.csv a.posterior b.posterior -o {}", "p.overlap"),
        ("quality t.posterior --data t.txt -o {}", "p.counts"),
    ],
)
def test_text_goes_to_standard_output_with_the_bytes_of_its_file(line, file, run, site):
    assert run(line.format(file))[0] == 0
    for hyphen in ("-", "/dev/stdout"):
        status, shown, _ = run(line.format(hyphen))
        assert (status, shown) == (0, (site / file).read_text(encoding="utf-8"))
    assert run(line.format("-").replace("-o -", "--output=-"))[1] == shown


def test_the_same_json_as_in_a_file(run, site):
    assert run("export a.posterior -o p.json")[0] == 0
    assert json.loads(run("export a.posterior -o - --json")[1]) == json.loads((site / "p.json").read_text())


@pytest.mark.parametrize(
    "line",
    ["fit mixture a.csv --components 2 -o -", "merge a.posterior b.posterior -o -", "export a.posterior -o p.xml"],
)
def test_what_is_no_text_needs_a_file(line, run, site):
    status, shown, errors = run(line)
    assert (status, shown, errors.count("\n")) == (1, "", 0)
    assert {path.name for path in site.glob("*stdin*")} == set()


@pytest.mark.parametrize(
    ("line", "closed", "status", "message"),
    [
        ("fit mean a.csv -o a.posterior", "stdout", 0, ""),
        ("", "stdout", 0, ""),
        ("export p.posterior -o -", "stdout", 1, "Standard output is closed. Give the name of a file after -o."),
        ("fit mean - -o a.posterior", "stdin", 1, "standard input is closed."),
    ],
)
def test_a_closed_stream_is_no_traceback(line, closed, status, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text("x\n" + "1\n2\n" * 20)
    db.save(db.Posterior.of_prior(db.models.GaussianMean(dimension=1).structure), "p.posterior")
    monkeypatch.setattr(f"sys.{closed}", None)
    with pytest.raises(SystemExit) as ended:
        main(line.split())
    code = ended.value.code
    assert (1 if isinstance(code, str) else code, message in str(code)) == (status, True)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limits on the sizes of files")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_rows_that_do_not_fit_into_a_file_are_an_error(unbuffered, tmp_path):
    """Without buffering a write takes what there is room for, and says how much."""
    model = db.models.GaussianMean(dimension=3000)
    db.save(db.Posterior.of_prior(model.structure), tmp_path / "p.posterior")
    environment = os.environ | {"PYTHONPATH": str(Path(db.__file__).parents[1]), "PYTHONUNBUFFERED": unbuffered}
    line = "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
    line += "resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000)); "
    line += "from decbayes.cli import main; main(['export', 'p.posterior', '-o', '-'])"
    with (tmp_path / "rows.csv").open("wb") as rows:
        command = [sys.executable, "-c", line]
        ended = subprocess.run(command, stdout=rows, stderr=subprocess.PIPE, env=environment, cwd=tmp_path, check=False)
    assert (ended.returncode, ended.stderr) == (1, b"decbayes: File too large\n")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_and_a_reader_that_leaves_are_no_tracebacks(unbuffered):
    """At the help, too, which is not printed by a command."""
    environment = os.environ | {"PYTHONPATH": str(Path(db.__file__).parents[1]), "PYTHONUNBUFFERED": unbuffered}
    command = [sys.executable, "-m", "decbayes", "--help"]
    reading, writing = os.pipe()
    os.close(reading)
    left = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, env=environment, check=False)
    os.close(writing)
    assert (left.returncode, left.stderr) == (141, b"")
    if Path("/dev/full").exists():
        with Path("/dev/full").open("wb") as full:
            ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, env=environment, check=False)
        assert (ended.returncode, ended.stderr) == (1, b"decbayes: No space left on device\n")
