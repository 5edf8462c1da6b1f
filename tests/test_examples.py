"""Every public callable has an example in its docstring, and the examples run."""

import doctest
import inspect
import re
from importlib.util import find_spec

import numpy as np
import pytest

import decbayes as db
from decbayes import network, views

ROOMS = [
    db.checking,
    db.columns,
    db.disclosure,
    db.extending,
    db.families,
    db.interop,
    db.merging,
    db.models,
    db.solvers,
    db.streams,
    db.study,
    db.texts,
]
ROOMS += [db.secure] if find_spec("cryptography") else []
ROOMS += [db.sklearn] if find_spec("sklearn") else []
ROOMS += [db.plot] if find_spec("matplotlib") else []


def public():
    """Public callables by the name that people type."""
    names = {f"db.{name}": getattr(db, name) for name in db.__all__} | {"db.devices.use_device": db.devices.use_device}
    for room in ROOMS:
        names |= {f"db.{room.__name__.split('.', 1)[1]}.{name}": getattr(room, name) for name in room.__all__}
    names |= {f"decbayes.views.{name}": getattr(views, name) for name in ("View", "register", "view_of")}
    if find_spec("zenoh") and find_spec("cryptography"):
        # Aliases of built-in types have no docstring of their own.
        names |= {
            f"decbayes.network.{name}": getattr(network, name) for name in {*network.__all__} - {"AgentId", "Peer"}
        }
    return {name: value for name, value in names.items() if inspect.isclass(value) or inspect.isfunction(value)}


CALLABLES = public()


BEGINNINGS = dict.fromkeys(["db.merging.", "db.solvers.", "db.extending."], db.merging) | {"decbayes.network.": network}


def begin(package, names):
    """The lines that all examples of a package go on from, as its own documentation shows them."""
    lines = doctest.DocTestParser().get_examples(inspect.getdoc(package) or "")
    assert lines
    for line in lines:
        exec(line.source, names)


@pytest.mark.parametrize("name", sorted(CALLABLES))
def test_an_example_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = inspect.getdoc(CALLABLES[name]) or ""
    names = {"db": db, "np": np}
    for start, package in BEGINNINGS.items():
        if name.startswith(start):
            begin(package, names)
    test = doctest.DocTestParser().get_doctest(text, names, name, None, 0)
    assert test.examples, f"{name} has no example"
    for library in re.findall(r"^(?:import|from) (\w+)", "".join(example.source for example in test.examples), re.M):
        pytest.importorskip(library)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    printed: list[str] = []
    runner.run(test, out=printed.append)
    assert not runner.failures, "".join(printed)
