"""Every benchmark of the repository parses, and has a quick form."""

from pathlib import Path


def test_every_benchmark_of_the_repository_parses_its_arguments():
    for path in sorted((Path(__file__).parents[1] / "benchmarks").glob("[!_]*.py")):
        assert "--quick" in path.read_text(), path
        assert path.stem == "run_all" or "indent=" not in path.read_text(), f"{path}: the last line is one JSON object"
        compile(path.read_text(), str(path), "exec")
