"""`decbayes bench` runs a checkout's benchmarks, and says where they are when they are not there."""

from pathlib import Path

import pytest

from decbayes.cli import main


def test_without_a_checkout_it_says_what_to_do(tmp_path):
    with pytest.raises(SystemExit) as end:
        main(["bench", "--checkout", str(tmp_path)])
    assert "clone" in str(end.value.code)


def test_its_words_reach_the_runner_and_its_status_comes_back(tmp_path):
    (tmp_path / "benchmarks").mkdir()
    runner = "import pathlib, sys; pathlib.Path('words').write_text(' '.join(sys.argv[1:])); sys.exit(3)"
    (tmp_path / "benchmarks" / "run_all.py").write_text(runner)
    with pytest.raises(SystemExit) as end:
        main(["bench", "--quick", "--only", "lda", "--checkout", str(tmp_path)])
    assert end.value.code == 3
    assert (tmp_path / "words").read_text() == "--quick --only lda"


def test_every_benchmark_of_the_repository_parses_its_arguments():
    for path in sorted((Path(__file__).parents[2] / "benchmarks").glob("[!_]*.py")):
        assert "--quick" in path.read_text(), path
        compile(path.read_text(), str(path), "exec")
