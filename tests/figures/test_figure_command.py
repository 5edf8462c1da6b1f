"""`python -m paper` writes what it says and fails when it should."""

import pytest

from paper import catalogue
from paper.catalogue import NAMES, NoSuchOption, build
from paper.command import main
from paper.gaussian import Gaussian


def status(*words):
    with pytest.raises(SystemExit) as ended:
        main([*map(str, words)])
    return ended.value.code


def test_a_figure_leaves_a_table_and_two_pictures(tmp_path, capsys):
    assert status("gaussian", "--trials", 2, "--out", tmp_path, "--strict") == 0
    assert {path.name for path in tmp_path.iterdir()} >= {"gaussian.csv", "gaussian.png", "gaussian.svg"}
    assert "batch posterior" in capsys.readouterr().out


def test_strict_fails_when_a_claim_does(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("paper.gaussian.ROUNDING", -1.0)
    assert status("gaussian", "--trials", 1, "--out", tmp_path, "--strict") == 1
    assert "does NOT hold" in capsys.readouterr().out


def test_few_trials_are_said_to_be_few(tmp_path, capsys):
    assert status("gaussian", "--trials", 2, "--out", tmp_path) == 0
    assert "too few to judge" in capsys.readouterr().out


def test_ctrl_c_says_how_to_go_on(tmp_path, monkeypatch, capsys):
    def interrupted(self, trial):
        raise KeyboardInterrupt

    monkeypatch.setattr(Gaussian, "_trial", interrupted)
    assert status("gaussian", "--out", tmp_path) == 130
    assert "the same command goes on" in capsys.readouterr().out


@pytest.mark.slow
def test_all_figures_end_in_a_report(tmp_path, monkeypatch):
    two = {name: catalogue.HOMES[name] for name in ("gaussian", "mixture-naive")}
    monkeypatch.setattr(catalogue, "HOMES", two)
    monkeypatch.setattr("paper.command.NAMES", tuple(two))
    assert status("all", "--trials", 1, "--out", tmp_path) == 0
    page = (tmp_path / "report.html").read_text()
    assert page.count("<h2>") == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["no-such-figure"], "There is no figure 'no-such-figure'"),
        (["gaussian", "--split", "by-group"], "has no option --split"),
        (["gaussian", "--redraw"], "Run the experiment first"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(words, said, tmp_path, capsys):
    assert said in str(status(*words, "--out", tmp_path))


def test_every_name_builds_its_own_experiment():
    built = [build(name, {"trials": 2, "data": None}).name for name in NAMES]
    assert built == list(NAMES)


def test_options_of_one_figure_reach_it_in_a_run_of_all():
    assert build("lda", {"split": "by-group", "agents": (3,)}).name == "lda-by-group"
    assert build("gaussian", {"agents": (3,)}, strictly=False).name == "gaussian"
    with pytest.raises(NoSuchOption):
        build("gaussian", {"agents": (3,)})
