"""A command from outside the package, in one file and with one entry point: the example of the documentation."""

import re
import sys
import tomllib
from pathlib import Path

import pytest

import decbayes as db
from decbayes.cli import app, main

PAGE = (Path(__file__).parents[2] / "docs" / "your-own-command.md").read_text(encoding="utf-8")
GROUPS = {"models", "solvers", "columns", "commands"}


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """The page's package as pip installs it, in a folder with the page's posterior."""
    project = tomllib.loads(blocks("toml")[0])["project"]
    folder = tmp_path / "site-packages"
    metadata = folder / f"{project['name']}-{project['version']}.dist-info"
    metadata.mkdir(parents=True)
    source, data = blocks("python")
    (folder / "largest.py").write_text(source, encoding="utf-8")
    named = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (metadata / "METADATA").write_text(named, encoding="utf-8")
    lines = [
        line
        for group, names in project["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {place}" for name, place in names.items()))
    ]
    (metadata / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.chdir(tmp_path)
    exec(data, {"db": db})
    yield
    del app["largest"]
    sys.modules.pop("largest", None)


def call(line, capsys):
    with pytest.raises(SystemExit) as ended:
        main(line.split())
    captured = capsys.readouterr()
    told = isinstance(ended.value.code, str)
    return (1 if told else ended.value.code), captured.out, captured.err + (ended.value.code if told else "")


def test_the_page_shows_what_the_command_prints(installed, capsys):
    line, answer = blocks("console")[0].removeprefix("$ decbayes ").split("\n", 1)
    assert call(line, capsys) == (0, answer, "")
    status, shown, _ = call("largest --help", capsys)
    assert (status, "Number of components to print." in shown) == (0, True)
    assert "Print the components with the largest weights." in call("--help", capsys)[1]


def test_its_errors_are_one_line_like_all_others(installed, capsys):
    db.save(db.Posterior.of_prior(db.models.GaussianMean(dimension=1).structure), "mean.posterior")
    status, _, errors = call("largest mean.posterior", capsys)
    assert (status, errors) == (
        1,
        "decbayes: mean.posterior has no weights. Give the posterior of a mixture or of classes.",
    )
    assert call("largest nothing.posterior", capsys)[::2] == (
        1,
        "decbayes: nothing.posterior: No such file or directory",
    )
    assert call("largest visits.posterior --top many", capsys)[0] == 2


def test_the_page_names_every_group_of_entry_points_and_a_test_of_each_extension():
    sources = [path.read_text(encoding="utf-8") for path in Path(db.__file__).parent.rglob("*.py")]
    groups = {group for text in sources for group in re.findall(r'= "decbayes\.(\w+)"', text)}
    assert groups >= GROUPS
    assert not [group for group in GROUPS if f"`decbayes.{group}`" not in PAGE]
    tests = {path.name for path in Path(__file__).parent.glob("test_own_*.py")}
    assert tests == set(re.findall(r"`tests/extension/(\w+\.py)`", PAGE))
