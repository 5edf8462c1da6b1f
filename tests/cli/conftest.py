"""A command line in a folder of its own."""

from contextlib import chdir

import pytest

from decbayes.cli import main


@pytest.fixture(scope="session")
def run_in():
    """Run command lines in a folder whose files several tests share."""

    def call(folder, *lines):
        for line in lines:
            with chdir(folder), pytest.raises(SystemExit) as ended:
                main(line.split())
            assert not ended.value.code, line

    return call


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run a command line in a folder of its own; returns exit status, standard output and standard error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def call(line):
        with pytest.raises(SystemExit) as ended:
            main(line.split())
        captured = capsys.readouterr()
        # An exit "status" that is a text is printed by the interpreter, after which the status is 1.
        told = isinstance(ended.value.code, str)
        return (1 if told else ended.value.code), captured.out, captured.err + (ended.value.code if told else "")

    return call
