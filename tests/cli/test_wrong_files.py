"""Every command, given a file that is missing, empty, a folder or of another kind: one line, and nothing is quoted."""

from pathlib import Path

import numpy as np
import pytest
from groups import gaussian_charter, identities

import decbayes as db
from decbayes.network import SqliteStore

SECRET = "SECRET"
POSTERIORS = {
    "missing.posterior": "No such file",
    "empty.posterior": "is empty",
    "folder.posterior": "is a folder",
    "junk.posterior": "is damaged, or another kind of file",
    "secret.csv": "is data, not a posterior: run `decbayes fit` first",
    "group.toml": "is a charter",
    "a.key": "is a private key",
    "a.store": "is an agent's store",
}
DATA = {
    "missing.csv": "No such file",
    "empty.csv": "is empty",
    "folder": "folder",
    "junk.csv": "not UTF-8 text",
    "secret.csv": "is not a number",
    "a.posterior": "is a posterior, but data are expected here",
    "group.toml": "files that end in .toml",
}
CHARTERS = {
    "missing.toml": "No such file",
    "empty.csv": "is not a charter",
    "folder": "directory",
    "secret.csv": "is not a charter",
    "a.posterior": "is not a charter",
    "a.key": "is not a charter",
}
WITH_POSTERIOR = (
    "merge {} -o out",
    "merge a.posterior {} -o out",
    "merge a.posterior b.posterior --since {} -o out",
    "show {}",
    "export {} -o out.csv",
    "transform a.csv {} -o out.csv",
    "score a.csv {}",
    "validate a.csv {}",
    "calibrate {} a.csv -o out.information",
    "overlap a.csv a.posterior {} -o out",
    "quality {}",
    "report a.posterior {} -o out.html",
    "refine a.csv --own {} --others b.posterior -o out",
    "plan mixture --sites 2 --observations 5 --like {}",
    "fit mixture a.csv --like {} -o out",
    "fit mixture a.csv --prior {} -o out",
)
WITH_DATA = (
    "fit mixture {} --components 2 -o out",
    "fit mean {} -o out",
    "fit features {} --features 2 -o out",
    "score {} a.posterior",
    "transform {} a.posterior -o out.csv",
    "validate {} a.posterior",
    "calibrate a.posterior {} -o out.information",
    "overlap {} a.posterior b.posterior -o out",
    "refine {} --own a.posterior --others b.posterior -o out",
)
WITH_CHARTER = (
    "charter show {}",
    "charter add {} --member z=" + "ab" * 32,
    "charter export {} --store a.store -o out",
    "charter remove {} a",
    "posterior {} --store a.store",
    "status {} 127.0.0.1:1",
    "agent {} --key a.key --store a.store",
)
OTHER = {
    "agent group.toml --key secret.csv --store a.store": "is not a private key",
    "keygen out --after empty.csv": "is not a private key",
    "certificate show secret.csv": "is not a certificate",
    "certificate sign secret.csv --authority a.key -o out": "is not a certificate",
    "posterior group.toml --store secret.csv": "not a decbayes store",
    "tell retract secret.csv --for-good --wait 0": "not a decbayes store",
    "quality t.posterior --counts secret.csv": "does not hold counts of words",
    "merge a.posterior b.posterior --overlap secret.csv -o out": "is not a file that `decbayes overlap` writes",
    "calibrate a.posterior secret.information -o out": "is damaged, or another kind of file",
    "validate secret.scores": "secret.scores",
    "columns folder": "a .csv, .tsv or .parquet file",
    "words secret.csv -o out": "only texts have words",
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("wrong"), np.random.default_rng(3)
    points = rng.normal(size=(20, 2))
    np.savetxt(folder / "a.csv", points, delimiter=",", header="x,y", comments="")
    model = db.GaussianMixture(2, 2, covariance="diagonal", columns=("x", "y"), ascent=db.Ascent(restarts=0))
    for name, part in (("a", points), ("b", points[5:])):
        db.save(model.fit(part, rng=rng).posterior, folder / f"{name}.posterior")
    db.save(db.Posterior.of_prior(db.LatentDirichletAllocation(2, ("apple", "pear")).structure), folder / "t.posterior")
    members = identities(1)
    charter = gaussian_charter(members)
    charter.save(folder / "group.toml")
    members[0].save(folder / "a.key")
    SqliteStore(folder / "a.store", charter).close()
    for name in ("empty.csv", "empty.posterior"):
        (folder / name).touch()
    for name in ("folder", "folder.posterior"):
        (folder / name).mkdir()
    for name in ("junk.csv", "junk.posterior"):
        (folder / name).write_bytes(bytes(range(256)))
    for name in ("secret.csv", "secret.scores", "secret.information"):
        (folder / name).write_text(f"x,y\n{SECRET},1\n2,{SECRET}\n", encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("lines", "wrong"),
    [(WITH_POSTERIOR, POSTERIORS), (WITH_DATA, DATA), (WITH_CHARTER, CHARTERS)],
    ids=["posteriors", "data", "charters"],
)
def test_a_file_of_another_kind_is_one_line_that_names_it(lines, wrong, run, files, monkeypatch):
    monkeypatch.chdir(files)
    for line in lines:
        for name, message in wrong.items():
            check(run, files, line.format(name), message, name)


@pytest.mark.parametrize("line", OTHER)
def test_so_is_any_other_file(line, run, files, monkeypatch):
    monkeypatch.chdir(files)
    check(run, files, line, OTHER[line], "")


def check(run, folder, line, message, name):
    status, shown, errors = run(line)
    *_, last = errors.strip().splitlines()
    assert status in (1, 2), line
    assert shown == "", line
    assert last.startswith("decbayes: "), line
    assert message in last, (line, last)
    assert name in last, (line, last)
    assert SECRET not in errors
    assert "Traceback" not in errors
    assert not [*folder.glob("out*")], line


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("name", ["a.txt", "a.csv", "a.jsonl"])
def test_a_text_in_utf_16_without_its_mark_is_to_be_saved_as_utf_8(name, encoding, run):
    lines = {"a.txt": "sea tide", "a.csv": "text", "a.jsonl": '{"text": "sea tide"}'}
    Path(name).write_bytes("\n".join([lines[name], *["sea mast"] * 30]).encode(encoding))
    status, _, said = run(f"fit topics {name} --topics 2 -o p.posterior")
    assert status == 1
    assert "probably UTF-16 or UTF-32; save it as UTF-8" in said
    assert len(said.splitlines()) == 1
    if name == "a.csv":
        assert "save it as UTF-8" in run("fit mixture a.csv --components 2 -o p.posterior")[2]
