"""Every benchmark of the repository parses, has a quick form, and names what the library has."""

import ast
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
BENCHMARKS = sorted((ROOT / "benchmarks").glob("[!_]*.py"))
SCRIPTS = [*(ROOT / "benchmarks").glob("*.py"), *(ROOT / "docs").glob("*.py")]
OURS = ("decbayes", "paper")


def test_every_benchmark_of_the_repository_parses_its_arguments():
    for path in BENCHMARKS:
        assert "--quick" in path.read_text(), path
        assert path.stem == "run_all" or "indent=" not in path.read_text(), f"{path}: the last line is one JSON object"
        compile(path.read_text(), str(path), "exec")


def imported(tree):
    """(module, name) for all that a script takes from the library; the name is None for a module as a whole."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names if alias.name.split(".")[0] in OURS)
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in OURS:
            yield from ((node.module, alias.name) for alias in node.names)


def dotted(node):
    """`db.merging.align` as ["db", "merging", "align"], or nothing for other expressions."""
    if isinstance(node, ast.Name):
        return [node.id]
    return [*dotted(node.value), node.attr] if isinstance(node, ast.Attribute) and dotted(node.value) else []


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_what_a_script_takes_from_the_library_is_there(path):
    tree, known = ast.parse(path.read_text()), {"db": import_module("decbayes")}
    for module, name in imported(tree):
        if name is not None:
            owner = import_module(module)
            known[name] = getattr(owner, name) if hasattr(owner, name) else import_module(f"{module}.{name}")
    for first, *names in filter(None, map(dotted, ast.walk(tree))):
        thing = known.get(first)
        for name in names:
            if isinstance(thing, ModuleType | type):
                assert hasattr(thing, name), ".".join([first, *names])
                thing = getattr(thing, name)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_what_a_script_names_by_text_is_there(path):
    """As in "decbayes.merging.aligning:solve_canonically", which is timed."""
    for module, names in re.findall(r'"(decbayes[\w.]*):([\w.]+)"', path.read_text()):
        thing = import_module(module)
        for name in names.split("."):
            thing = getattr(thing, name)


def test_membership_is_measured_of_every_model_that_is_attacked():
    from planted import ATTACKS

    text = (ROOT / "benchmarks" / "disclosure.py").read_text()
    measured = re.findall(r'^    "(\w+)": lambda', text, re.MULTILINE)
    assert set(measured) == set(ATTACKS) - {"LatentDirichletAllocation"}
