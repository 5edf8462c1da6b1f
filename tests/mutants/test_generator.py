"""The generator of mutants itself: what it makes are other programs, the same ones for the same seed."""

import ast
import os
import select
import signal
import sys
import threading
import time
import warnings
from collections import defaultdict

import numpy as np
import pytest
from boundaries import Apart
from children import forked, in_parallel
from equivalents import KNOWN, meant
from generator import APART, KINDS, SOURCE, Mutant, changes, files, heading, mutants, sample
from immaterial import reason
from passed import Passed

EVERY_KIND = '''
LIMIT = 20

def f(values, weight, scale=0.5, *, names=()):
    """A docstring with 1 + 1."""
    total = weight * values.sum() + 1e-9
    if weight < 0 or not names:
        raise ValueError(f"{weight + 1} is below {0}")
    names.append(g(values, weight, size=3))
    total -= max(0.0, scale - 1)
    return [value for value in values if value > total]
'''


def made_of(text):
    tree = ast.parse(text)
    original = ast.dump(tree)
    for change in changes(tree):
        change.make()
        yield change, ast.unparse(tree)
        change.undo()
        assert ast.dump(tree) == original


def test_each_kind_of_change_makes_another_program_that_compiles():
    kinds = set()
    for change, text in made_of(EVERY_KIND):
        compile(text, "changed", "exec")
        assert text != ast.unparse(ast.parse(EVERY_KIND))
        kinds.add(change.kind)
    assert kinds == set(KINDS)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("total = weight * values.sum() + 1e-09", "total = weight / values.sum() + 1e-09"),
        ("total = weight * values.sum() + 1e-09", "total = weight * values.sum() - 1e-09"),
        ("total = weight * values.sum() + 1e-09", "total = weight * values.sum()"),
        ("total = weight * values.sum() + 1e-09", "total = values.sum() + 1e-09"),
        ("LIMIT = 20", "LIMIT = 10"),
        ("LIMIT = 20", "LIMIT = 21"),
        ("LIMIT = 20", "LIMIT = 40"),
        ("if weight < 0 or not names:", "pass"),
        ("if weight < 0 or not names:", "if weight <= 0 or not names:"),
        ("if weight < 0 or not names:", "if weight < 0 or names:"),
        ("if weight < 0 or not names:", "if not (weight < 0 or not names):"),
        ("names.append(g(values, weight, size=3))", "pass"),
        ("names.append(g(values, weight, size=3))", "names.append(g(weight, values, size=3))"),
        ("names.append(g(values, weight, size=3))", "names.append(g(values, weight))"),
        ("total -= max(0.0, scale - 1)", "total -= scale - 1"),
        ("total -= max(0.0, scale - 1)", "total += max(0.0, scale - 1)"),
        (
            "return [value for value in values if value > total]",
            "return [value for value in values if not value > total]",
        ),
        (
            "def f(values, weight, scale=0.5, *, names=()):",
            "def f(values, weight, scale=0.25, *, names=()):",
        ),
    ],
)
def test_slips_of_the_hand_are_among_them(old, new):
    assert (old, new) in {change.texts() for change in changes(ast.parse(EVERY_KIND))}


def test_messages_and_docstrings_are_left_alone():
    for change, _ in made_of(EVERY_KIND):
        assert "docstring" not in heading(change.statement)
        assert not isinstance(change.statement, ast.Raise)


@pytest.mark.parametrize(
    ("text", "noticeable"),
    [
        ("BLOCK = 1 << 20", set()),
        ("FEW, BLOCK = 3, 1 << 20", {"FEW, BLOCK = (4, 1 << 20)"}),
        ("MOST_STEPS = 40", {"MOST_STEPS = 20"}),
        ("CANDIDATES = 10", {"CANDIDATES = 5"}),
        ("FEW = 40", {"FEW = 20", "FEW = 41", "FEW = 80"}),
        ("SAME = 1e-06", {"SAME = 0.001"}),
        ("f(progress=True, n_jobs=4)", {"pass"}),
        ("f(cost=3 * (1 + 1))", {"pass"}),
        ("problem.announce()", set()),
        ("progress: F | None = field(default=None, compare=False)", set()),
        (
            "if gain <= TOLERANCE * (1.0 + kept):\n    x",
            {
                "if gain < TOLERANCE * (1.0 + kept):",
                "if gain <= TOLERANCE * (1.0 - kept):",
                "if gain <= TOLERANCE / (1.0 + kept):",
                "if gain <= 1.0 + kept:",
                "if not gain <= TOLERANCE * (1.0 + kept):",
            },
        ),
        ("np.where(known, slots, -1)", {"pass", "np.where(slots, known, -1)"}),
        ("slots[-1]", {"slots[-2]"}),
        ("np.argsort(loss, kind='stable')", {"pass"}),
        ("T = TypeVar('T', bound=int)", set()),
    ],
)
def test_changes_of_time_memory_and_last_digits_are_left_out(text, noticeable):
    found = [change for change in changes(ast.parse(text)) if not reason(change)]
    assert {change.texts()[1] for change in found} == noticeable


def test_a_watched_comparison_is_that_of_the_source_until_two_reals_are_equal(monkeypatch):
    ended = []
    monkeypatch.setattr(os, "_exit", ended.append)
    for operator in ("<", "<=", ">", ">="):
        tree = ast.parse(f"result = left {operator} right")
        next(change for change in changes(tree) if change.boundary).watch()
        code = compile(ast.fix_missing_locations(tree), "watched", "exec")
        for left, right in ((1.0, 2.0), (2.0, 1.0), (np.array([1.0, 3.0]), 2)):
            space = {APART: Apart, "left": left, "right": right}
            exec(code, space)
            assert np.array_equal(space["result"], eval(f"left {operator} right", space))
    assert not ended
    for left, right in ((1.0, 1.0), (1, 2), (np.array([1.0, 2.0]), 2), ("a", "b")):
        Apart(left, right)
    assert len(ended) == 4


WINDING = b'''
class Sums:
    def of(self, values):
        """Some of them."""
        total = 0

        def add(value):
            nonlocal total
            if value > 5:
                raise ValueError
            elif value > 3:
                total -= value
            else:
                total += value

        for value in values:
            try:
                add(value)
            except ValueError:
                total = 0
            finally:
                total += 1
        while total > 9:
            total -= 10
        match total:
            case 3:
                return 0
            case _:
                return total
'''


def test_statements_that_set_a_byte_are_those_that_a_trace_passes():
    passed, traced = Passed(), set()
    plain, watched = {}, {}
    exec(compile(WINDING, "winding", "exec"), plain)
    exec(compile(passed.tree("winding.py", WINDING), "winding", "exec"), watched)
    statements = {node.lineno for node in ast.walk(ast.parse(WINDING)) if isinstance(node, ast.stmt)}
    unseen = {number for number, line in enumerate(WINDING.split(b"\n"), 1) if b"nonlocal" in line or b"try:" in line}

    def trace(frame, event, argument):
        if frame.f_code.co_filename == "winding" and event == "line":
            traced.add(frame.f_lineno)
        return trace

    for values in ((), (1, 2), (4,), (7, 3), (5, 1, 9), (8, 3, 12, 3)):
        passed.clear()
        traced.clear()
        before = sys.gettrace()
        sys.settrace(trace)
        result = plain["Sums"]().of(values)
        sys.settrace(before)
        assert watched["Sums"]().of(values) == result
        ((function, mask),) = passed.reach(passed.seen)["winding.py"].items()
        assert function == "Sums.of"
        found = {line for line in range(40) if int(mask, 16) >> line & 1}
        assert found - unseen == (traced & statements) - unseen
    assert watched["Sums"].of.__doc__ == "Some of them."


@pytest.fixture(scope="module")
def everything():
    return {file: mutants(file) for file in files("families/dirichlets/d")}


def test_mutants_of_our_files_compile_and_differ_from_the_source(everything):
    for mutant in sample(everything, 10, seed=2):
        tree = mutant.tree()
        assert ast.dump(tree) != ast.dump(ast.parse(mutant.path.read_bytes()))
        compile(tree, mutant.file, "exec")


def test_no_two_mutants_of_a_file_have_the_same_name(everything):
    for of_file in everything.values():
        assert len({mutant.key for mutant in of_file}) == len(of_file)


def test_a_sample_is_the_same_for_the_same_seed_and_has_some_of_each_file(everything):
    one, same, other = (sample(everything, 100, seed=seed) for seed in (1, 1, 2))
    assert one == same != other
    assert {mutant.file for mutant in one} == {file for file, of_file in everything.items() if of_file}
    assert len(set(one)) == len(one) >= 100


def test_known_equivalents_are_still_in_the_source_and_have_reasons():
    functions = defaultdict(set)
    for entry in KNOWN:
        functions[entry["file"]].add(entry.get("function", ""))
    made = {file: mutants(file, inside) for file, inside in functions.items()}
    for entry in KNOWN:
        assert (SOURCE / entry["file"]).is_file()
        assert len(entry["reason"]) > 20
        assert meant(entry, made[entry["file"]]), entry


def test_an_equivalent_stays_known_when_locals_are_renamed_unless_it_could_be_two():
    def sums(one, two, function="f", called="total"):
        old, new = (f"return {called}({one} {sign} {two}.size, axis={one})" for sign in "+-")
        return Mutant("f.py", function, "operator", old, new, 0, 1, (1,), 0, change=f"{one} → {two}")

    known = sums("own", "found")
    entry = {name: getattr(known, name) for name in ("file", "function", "old")}
    renamed, again = sums("shard", "merged"), sums("rows", "slots")
    others = [sums("own", "own"), sums("own", "found", "g"), sums("own", "found", called="mean")]
    assert meant(entry, [renamed, known, *others]) == [known]
    assert meant(entry, [renamed, *others]) == [renamed]
    assert meant(entry, [renamed, again, *others]) == []


@pytest.mark.parametrize("silent", [True, False])
def test_an_interruption_ends_all_children_also_those_that_catch_it(silent):
    """Started in the background, where interruptions are ignored. The pipe ends once nobody holds it.

    Another thread may take the signal, also between a fork and the note of its child. A sleeper does not wake then, so
    naps are short.
    """
    reading, writing = os.pipe()

    def test():
        os.write(writing, b".")
        while True:
            try:
                time.sleep(0.1)
            except KeyboardInterrupt:
                if not silent:
                    raise

    def tool():
        os.close(reading)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        warnings.simplefilter("ignore")  # that a process with threads forks
        fork = os.fork
        os.fork = lambda: (fork(), time.sleep(0.1))[0]
        in_parallel([test, test], silent=silent)

    child = forked(tool)
    os.close(writing)
    heard = b""
    while len(heard) < 2:
        assert select.select([reading], [], [], 30)[0]
        heard += os.read(reading, 1)
    os.kill(child, signal.SIGINT)
    ended = select.select([reading], [], [], 30)[0]
    os.close(reading)
    if not ended:
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert ended, "they still run"
