"""The usual rules hold here, as they do for users."""

import numpy as np
import pytest

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


def patients(rng, rows=200):
    """A table of patients, one of whom has a disease that nobody else has."""
    age = rng.integers(20, 90, rows)
    disease = rng.choice(["flu", "asthma", "copd", "gout"], rows, p=[0.4, 0.3, 0.2, 0.1]).astype(object)
    disease[17] = "porphyria"
    return {
        "age": age,
        "sex": rng.choice(["f", "m"], rows),
        "bmi": rng.normal(26, 4, rows).round(1),
        "smoker": rng.choice(["yes", "no"], rows),
        "disease": disease,
        "cost": (1000 + 20 * age + rng.normal(0, 300, rows)).round(2),
        "died": np.where(rng.random(rows) < 0.3, "yes", "no"),
    }


@pytest.fixture
def table(rng):
    return patients(rng)


def write_csv(path, table):
    rows = zip(*table.values(), strict=True)
    lines = [",".join(table), *(",".join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def csv(tmp_path, table):
    return write_csv(tmp_path / "patients.csv", table)
