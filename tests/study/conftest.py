"""Studies in folders of their own."""

from contextlib import chdir

import numpy as np
import pytest
from tables_of_patients import patients, write_table

from decbayes.cli import main


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run a command in a folder of its own; returns exit status, standard output and standard error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DECBAYES_RULES", raising=False)
    monkeypatch.delenv("DECBAYES_PRIVATE", raising=False)
    monkeypatch.setenv("COLUMNS", "200")

    def call(*words):
        with pytest.raises(SystemExit) as ended:
            main(list(words))
        captured = capsys.readouterr()
        told = isinstance(ended.value.code, str)
        return (1 if told else ended.value.code), captured.out, captured.err + (ended.value.code if told else "")

    return call


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """A study of two hospitals from its protocol to its report, and their tables."""
    folder, rng = tmp_path_factory.mktemp("finished"), np.random.default_rng(4)
    tables = {site: patients(rng, size) for site, size in (("north", 80), ("south", 60))}
    for site, table in tables.items():
        write_table(folder / f"{site}.csv", table)
    lines = [
        ["new", "stay", "--model", "linear-regression", "--formula", "days ~ age + ward", "--sites", "north,south"]
    ]
    lines[0] += [
        "--question",
        "Who stays long?",
        "--approve",
        "north=Dr Kim",
        "--units",
        "age=years",
        "--rules",
        "usual",
    ]
    lines += [["check", f"{site}.csv", "--site", site] for site in tables]
    for site in tables:
        lines += [["fit", "--site", site], ["release", "--site", site, "--approve", "Dr Kim"]]
    for line in [*lines, ["report"]]:
        with chdir(folder), pytest.raises(SystemExit) as ended:
            main(["study", *line])
        assert not ended.value.code, line
    return folder, tables
