"""Runs keep what is finished, go on where they were stopped, and never mix settings."""

from dataclasses import dataclass
from functools import partial

import pytest
from paper_tiny import row, table

from decbayes.errors import InvalidFile
from paper.claims import Claim
from paper.experiment import NotRunYet, OtherSettings, Task, redraw, run, settings_of
from paper.table import COLUMNS, Measurement, read_table, write_table


@dataclass(frozen=True)
class Counting:
    """An experiment that notes its work, and is interrupted at one trial."""

    worked: list
    trials: int = 3
    seed: int = 0
    interrupted_at: int = -1
    name = "counting"
    label = caption = ""

    def settings(self):
        return settings_of(self, "worked", "interrupted_at")

    def tasks(self):
        return [Task(f"trial {trial}", trial, partial(self.work, trial)) for trial in range(self.trials)]

    def work(self, trial):
        if trial == self.interrupted_at:
            raise KeyboardInterrupt
        self.worked.append(trial)
        return [Measurement("method", "measure", trial / 7, 0.5)]

    def claims(self, found):
        return [Claim("All is well", len(found.rows) == self.trials)]


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path):
    worked = []
    with pytest.raises(KeyboardInterrupt):
        run(Counting(worked, interrupted_at=2), tmp_path)
    assert read_table(tmp_path / "counting.csv").distinct("trial") == [0, 1]
    found = run(Counting(worked), tmp_path)
    assert worked == [0, 1, 2]
    assert found.values().tolist() == [0 / 7, 1 / 7, 2 / 7]


def test_more_trials_continue_and_fewer_are_a_part(tmp_path):
    worked = []
    run(Counting(worked, trials=2), tmp_path)
    assert len(run(Counting(worked, trials=4), tmp_path).rows) == 4
    assert worked == [0, 1, 2, 3]
    assert run(Counting(worked, trials=1), tmp_path).distinct("trial") == [0]


def test_other_settings_are_refused_with_both_values(tmp_path):
    run(Counting([]), tmp_path)
    with pytest.raises(OtherSettings, match=r"seed 0 there, 8 here.*--out"):
        run(Counting([], seed=8), tmp_path)


def test_redraw_computes_nothing(tmp_path):
    worked = []
    with pytest.raises(NotRunYet, match="Run the experiment first"):
        redraw(Counting(worked), tmp_path)
    made = run(Counting(worked), tmp_path)
    assert redraw(Counting(worked), tmp_path) == made
    assert worked == [0, 1, 2]


def test_progress_names_each_task_as_it_begins(tmp_path):
    seen = []
    run(Counting([], trials=2), tmp_path, lambda *at: seen.append(at))
    assert seen == [(0, 2, "trial 0"), (1, 2, "trial 1")]


def test_a_table_survives_its_file_bit_for_bit(tmp_path):
    written = table(row("AMPS, weak start", "log π", 1 / 3), row("naïve", "x", -7.5e-300, member=9, trial=2))
    write_table(written, tmp_path / "t.csv")
    assert read_table(tmp_path / "t.csv") == written
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


@pytest.mark.parametrize(
    "text", ["", "a,b\n", ",".join(COLUMNS) + "\n1,2\n", ",".join(COLUMNS) + "\n" + "x," * 9 + "\n"]
)
def test_what_is_no_table_is_refused(tmp_path, text):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(InvalidFile):
        read_table(tmp_path / "t.csv")


def test_a_median_of_nothing_is_not_a_number():
    assert table().median(method="AMPS") != table().median(method="AMPS")
