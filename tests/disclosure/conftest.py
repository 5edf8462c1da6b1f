"""The usual rules hold here, as they do for users."""

import pytest
from patients import patients, write_csv

from decbayes.cli import main


@pytest.fixture(autouse=True)
def _usual_rules(monkeypatch, tmp_path):
    monkeypatch.delenv("DECBAYES_RULES", raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def run(capsys):
    """Run a command line; its status, standard output and standard error."""

    def call(line):
        words = line if isinstance(line, list) else line.split()
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(words)
        shown = capsys.readouterr()
        code = ended.value.code
        errors = shown.err + (f"{code}\n" if isinstance(code, str) else "")
        return (code if isinstance(code, int) else 1), shown.out, errors

    return call


@pytest.fixture
def table(rng):
    return patients(rng)


@pytest.fixture
def csv(tmp_path, table):
    return write_csv(tmp_path / "patients.csv", table)
