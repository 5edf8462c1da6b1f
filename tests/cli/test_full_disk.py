"""A disk that is full before a command is noticed at once; one that fills up meanwhile costs no result."""

import errno
import os
import re
import resource
import tempfile
from pathlib import Path

import numpy as np
import pytest

import decbayes as db
from decbayes.cli.shared import running
from decbayes.cli.shared.unfinished import Unfinished

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
FITS = [f"fit mixture {name}.csv --components 2 --restarts 1 -o {name}.posterior" for name in "ab"]
LATE = [
    "fit mixture a.csv --components 2 --restarts 1 -o late.posterior",
    "refine a.csv --own a.posterior --others b.posterior -o late.posterior",
    "merge a.posterior b.posterior -o late.posterior",
    "calibrate a.posterior a.csv -o late.information",
    "validate a.csv a.posterior --leave-one-out -o late.scores",
    "report a.posterior -o late.html",
]


@pytest.fixture
def places(tmp_path, monkeypatch):
    """Where results go that do not fit where they belong."""
    found = [tmp_path / "temporary", tmp_path / "home"]
    for place in found:
        place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(found[0]))
    monkeypatch.setenv("HOME", str(found[1]))
    return found


@pytest.fixture
def sites(tmp_path, rng):
    for name in "ab":
        rows = rng.choice([-5.0, 5.0], size=(60, 1)) + rng.normal(size=(60, 2))
        np.savetxt(tmp_path / f"{name}.csv", rows, delimiter=",", header="x,y", comments="")
    return tmp_path


def fails(_descriptor):
    raise FULL


def kept_in(said: str) -> Path:
    assert said.count("\n") == 0
    return Path(re.search(r"No space left on device\. The result is kept in (\S+): make room, and move it", said)[1])


@pytest.mark.parametrize("line", LATE)
def test_a_disk_that_fills_up_during_a_command_costs_no_result(line, run, sites, places, monkeypatch):
    for fit in FITS:
        assert run(fit)[0] == 0
    target = sites / line.split()[-1]
    assert run(line)[0] == 0
    expected = target.read_bytes()
    target.unlink()
    with monkeypatch.context() as disk:
        disk.setattr("decbayes.base.writing.os.fsync", fails)
        status, _, said = run(line)
    assert status == 1
    kept = kept_in(said.splitlines()[-1])
    assert kept.parent.stat().st_mode & 0o077 == 0
    assert kept.read_bytes() == expected
    assert not target.exists()
    assert not [*sites.glob(".late*")]


def test_where_the_first_place_is_full_as_well_there_is_another(run, sites, places, monkeypatch):
    places[0].rmdir()
    monkeypatch.setattr("decbayes.base.writing.os.fsync", fails)
    kept = kept_in(run(FITS[0])[2].splitlines()[-1])
    assert kept.is_relative_to(places[1])
    assert db.load(kept).structure.families
    places[1].rename(sites / "elsewhere")
    assert run(FITS[0])[2].splitlines()[-1].endswith("No space left on device. Make room, and run the command again.")


def test_private_content_is_kept_nowhere(run, places, monkeypatch):
    monkeypatch.setattr("decbayes.base.writing.os.fsync", fails)
    with pytest.raises(OSError, match="No space") as failed:
        db.files.write_whole(places[0] / "group.key", b"secret", private=True)
    assert failed.value.content is None


def test_the_state_of_an_interrupted_fit_is_no_result_to_be_kept(places, monkeypatch):
    """No disclosure rules are applied to it."""
    posterior = db.GaussianMixture(2, 1).fit([[0.0], [1.0], [5.0]], rng=0).posterior
    monkeypatch.setattr("decbayes.base.writing.os.fsync", fails)
    with pytest.raises(OSError, match="No space") as failed:
        Unfinished(posterior, 1, 0).save(places[0] / "a.posterior", "fit", posterior)
    assert failed.value.content is None


def test_a_missing_folder_is_what_python_calls_it_and_needs_no_room(tmp_path):
    posterior = db.GaussianMixture(2, 1).fit([[0.0], [1.0], [5.0]], rng=0).posterior
    with pytest.raises(FileNotFoundError) as failed:
        db.save(posterior, tmp_path / "none" / "a.posterior")
    assert "room" not in running.save_elsewhere(failed.value, b"content")


@pytest.mark.parametrize("line", LATE)
def test_a_disk_that_is_full_already_is_noticed_before_the_work(line, run, sites, monkeypatch):
    for fit in FITS:
        assert run(fit)[0] == 0
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    monkeypatch.setattr(running, "save_elsewhere", None)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, before[1]))
    try:
        status, _, said = run(line)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (status, said.count("\n")) == (1, 0)
    assert re.fullmatch(r"decbayes: late\.\w+ cannot be written: File too large\. Make room there, .*", said)


def test_a_name_that_is_too_long_for_the_file_beside_it_is_noticed_before_the_work(run, sites):
    name = f"{'n' * 240}.posterior"
    status, _, said = run(f"fit mixture a.csv --components 2 -o {name}")
    assert (status, said.count("\n")) == (1, 0)
    assert said.endswith("File name too long. Choose another name or folder.")


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet"])
def test_rows_that_do_not_fit_leave_half_a_file_nowhere_and_say_which_file_it_was(ending, run, sites):
    assert run(FITS[0])[0] == 0
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (60, before[1]))
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("decbayes.base.writing.PROBE", 1)
            status, _, said = run(f"transform a.csv a.posterior -o late.{ending}")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert status == 1
    assert said.splitlines()[-1].startswith(f"decbayes: late.{ending} cannot be written: ")
    assert not [*sites.glob("*late*")]
