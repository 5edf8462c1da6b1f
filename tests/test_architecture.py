"""Which folder may import which, and what the package promises as a whole."""

import ast
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import decbayes

SOURCE = Path(decbayes.__file__).parent

# Each part may import itself and what is listed; only the demonstration and the command line know everything.
FOUNDATION = {
    "base",
    "errors",
    "kernels",
    "families",
    "structure",
    "calibrated",
    "contents",
    "posterior",
    "remarks",
}
ALLOWED = {
    "errors": set(),
    "base": {"errors"},
    "kernels": set(),
    "devices": {"base", "errors", "kernels"},
    "families": {"base", "devices", "kernels"},
    "structure": {"base", "errors", "families"},
    "calibrated": {"base", "errors", "families"},
    "posterior": {"base", "calibrated", "errors", "families", "remarks", "structure"},
    "contents": {"families", "posterior", "structure"},
    "remarks": {"errors"},
    "files": FOUNDATION,
    "merging": FOUNDATION | {"devices", "files"},
    "inputs": {"base", "errors"},
    "columns": {"base", "errors"},
    "privacy": FOUNDATION | {"files"},
    "secure": FOUNDATION | {"disclosure", "files", "merging", "models", "privacy", "updates"},
    "models": FOUNDATION | {"columns", "devices", "inputs", "privacy"},
    "updates": FOUNDATION | {"devices", "files", "merging", "models"},
    "streams": FOUNDATION | {"inputs", "merging", "models", "updates"},
    "calibration": FOUNDATION | {"files", "merging", "models", "streams", "updates"},
    "disclosure": FOUNDATION | {"columns", "decbayes", "files", "inputs", "merging", "models", "privacy"},
    "network": FOUNDATION
    | {
        "calibration",
        "devices",
        "disclosure",
        "files",
        "inputs",
        "merging",
        "models",
        "page",
        "privacy",
        "secure",
        "updates",
    },
    "study": FOUNDATION | {"columns", "disclosure", "files", "inputs", "models", "updates"},
    "interop": FOUNDATION | {"columns", "files", "merging", "models"},
    "sklearn": FOUNDATION | {"columns", "merging", "models", "streams", "updates"},
    "views": FOUNDATION | {"calibration", "columns", "merging", "models"},
    "page": FOUNDATION | {"merging", "models", "views"},
    "plot": FOUNDATION | {"calibration", "merging", "models", "views"},
    "solvers": {"merging"},
    "checking": {"calibration", "models", "remarks"},
    "texts": {"inputs", "models", "views"},
    "extending": {"base", "merging", "models", "structure"},
    "reporting": FOUNDATION | {"decbayes", "disclosure", "files", "merging", "models", "streams", "views"},
}

# Within a part, each room may import itself and what is listed; the part's own files may import all of its rooms.
# A file that several rooms share counts as a room of its own, and `room.*` means all rooms inside a room.
ROOMS = {
    "merging.base": set(),
    "merging.grouping": {"merging.base"},
    "merging.matching": {"merging.base"},
    "merging.remarking": {"merging.base", "merging.grouping"},
    "merging.alignment": {"merging.base", "merging.grouping", "merging.remarking"},
    "merging.aligning": {"merging.alignment", "merging.base", "merging.grouping", "merging.matching"},
    "merging.reading": {
        "merging.aligning",
        "merging.alignment",
        "merging.base",
        "merging.grouping",
        "merging.matching",
        "merging.remarking",
        "merging.robust",
    },
    "merging.robust": {"merging.aligning", "merging.alignment", "merging.base", "merging.grouping"},
    "models.core": set(),
    "models.likelihoods": {"models.core"},
    "models.mixtures": {"models.core", "models.likelihoods"},
    "models.tables": {"models.core", "models.likelihoods", "models.mixtures"},
    "models.sequences": {"models.core", "models.likelihoods", "models.tables"},
    "models.regressions": {"models.core", "models.likelihoods", "models.mixtures", "models.tables"},
    "models.topics": {"models.core"},
    "models.covariates": {"models.core", "models.regressions", "models.topics"},
    "models.features": {"models.core"},
    "network.protocol.limits": set(),
    "network.protocol.group": {"network.protocol.limits"},
    "network.protocol.sums": {"network.protocol.group"},
    "network.protocol.records": {"network.protocol.group", "network.protocol.sums"},
    "network.protocol.effects": {"network.protocol.group", "network.protocol.records", "network.protocol.sums"},
    "network.protocol.site": {
        "network.protocol.effects",
        "network.protocol.group",
        "network.protocol.records",
        "network.protocol.sums",
    },
    "network.protocol.talk": {
        "network.protocol.effects",
        "network.protocol.group",
        "network.protocol.records",
        "network.protocol.sums",
    },
    "network.protocol": {"network.protocol.*"},
    "network.simulation": {"network.protocol", "network.protocol.*"},
    "network.runtime.queues": {"network.protocol.talk"},
    "network.runtime.reports": {"network.protocol", "network.protocol.*", "network.runtime.queues"},
    "network.runtime.links": {"network.protocol.*", "network.runtime.queues", "network.runtime.reports"},
    "network.runtime.store": {"network.protocol.*", "network.runtime.reports"},
    "network.runtime": {"network.protocol", "network.protocol.*", "network.runtime.*"},
    "cli.shared": set(),
    "cli.commands": {"cli.shared"},
}
# What one room of a part needs of the other parts, where that is less than the part may.
OUTSIDE = {
    "network.protocol.limits": set(),
    "network.protocol.group": ALLOWED["network"] - {"calibration", "devices", "inputs", "page"},
    "network.protocol.sums": {"errors", "posterior", "privacy", "secure"},
    "network.protocol.records": ALLOWED["network"] - {"inputs", "page", "privacy"},
    "network.protocol.effects": set(),
    "network.protocol.site": {
        "devices",
        "disclosure",
        "errors",
        "inputs",
        "merging",
        "models",
        "posterior",
        "secure",
        "updates",
    },
    "network.protocol.talk": {"errors"},
    "network.protocol": {"disclosure", "errors", "secure"},
    "network.simulation": {"errors", "families", "models", "posterior"},
    "network.runtime.queues": set(),
    "network.runtime.reports": {"errors", "merging", "models", "page", "posterior"},
    "network.runtime.links": {"base", "errors", "files", "merging", "posterior"},
    "network.runtime.store": {"base", "disclosure", "errors", "posterior", "privacy"},
    "network.runtime": {"disclosure", "errors", "files", "secure"},
}
# The protocol does no input or output, has one thread and reads no clock; only charters and keys know their own files.
INPUT_AND_OUTPUT = {"asyncio", "http", "queue", "socket", "sqlite3", "subprocess", "threading", "time", "zenoh"}
FILES = {"os", "pathlib", "shutil", "tempfile"}
MOST_FILES = 16


@cache
def used_in(path):
    """What a file imports, the names that it calls, and those of its classes."""
    imported, called, classes = set(), set(), []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            imported |= {f"{node.module}.{a.name}" if is_file(node.module, a.name) else node.module for a in node.names}
        elif isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            called.add(node.func.id)
        elif isinstance(node, ast.ClassDef):
            classes.append(node.name)
    return imported, called, classes


def is_file(module, name):
    """Whether a name that is imported from a room is one of its files or rooms."""
    if not module.startswith("decbayes"):
        return False
    inside = SOURCE.parent.joinpath(*module.split("."), name)
    return inside.is_dir() or inside.with_suffix(".py").exists()


def imports(path):
    return (name for name in used_in(path)[0] if name.split(".")[0] == "decbayes")


def imported_parts(path):
    return {name.split(".")[1] if "." in name else "decbayes" for name in imports(path)}


def room_of(module):
    """The innermost room of a module, or its part."""
    parts = module.split(".")[1:]
    rooms = [".".join(parts[:depth]) for depth in range(len(parts), 0, -1)]
    return next((room for room in rooms if room in ROOMS), parts[0] if parts else "decbayes")


def files_of(room):
    """The files of a room, without those of rooms within it."""
    for path in sorted((SOURCE / room.split(".")[0]).rglob("*.py")):
        if room_of(".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)) == room:
            yield path


def allowed_in(room):
    """The rooms of the same part that a room may import."""
    inner = {name for rule in ROOMS[room] if rule.endswith(".*") for name in ROOMS if name.startswith(rule[:-1])}
    return ROOMS[room] | inner | {room}


@pytest.mark.parametrize("part", sorted(ALLOWED))
def test_imports_go_only_downward(part):
    files = [SOURCE / f"{part}.py"] if (SOURCE / f"{part}.py").exists() else sorted((SOURCE / part).rglob("*.py"))
    for path in files:
        unexpected = set(imported_parts(path)) - ALLOWED[part] - {part}
        assert not unexpected, f"{path.relative_to(SOURCE)} imports {unexpected}"


@pytest.mark.parametrize("room", sorted(ROOMS))
def test_rooms_of_a_part_import_only_downward(room):
    part, files = room.split(".")[0], list(files_of(room))
    assert files, f"{room} is empty"
    for path in files:
        unexpected = {name for name in map(room_of, imports(path)) if name.split(".")[0] == part} - allowed_in(room)
        unexpected |= imported_parts(path) - OUTSIDE.get(room, imported_parts(path)) - {part}
        assert not unexpected, f"{path.relative_to(SOURCE)} imports {unexpected}"


def test_the_protocol_does_no_input_or_output():
    for path in sorted((SOURCE / "network" / "protocol").rglob("*.py")):
        imported, called, _ = used_in(path)
        forbidden = INPUT_AND_OUTPUT if path.parent.name == "group" else INPUT_AND_OUTPUT | FILES
        reached = {name.split(".")[0] for name in imported} & forbidden | called & {"open", "print", "input"}
        assert not reached, f"{path.relative_to(SOURCE)} uses {reached}"


def test_every_folder_is_a_room_with_a_rule_and_has_few_files():
    for folder in {path.parent for path in SOURCE.rglob("*.py")} - {SOURCE}:
        name = ".".join(folder.relative_to(SOURCE).parts)
        parts = name.split(".")
        for outer in (parts[:depth] for depth in range(1, len(parts))):
            divided = any(room.startswith(".".join(outer) + ".") for room in ROOMS)
            assert not divided or ".".join(parts[: len(outer) + 1]) in ROOMS, f"{name} has no rule"
        assert len([*folder.glob("*.py")]) <= MOST_FILES, name


def test_every_part_has_a_rule():
    parts = {path.stem for path in SOURCE.glob("*.py")} | {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert parts - {"__init__"} <= ALLOWED.keys() | {"cli", "demo", "__main__"}


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_the_files_that_a_page_for_developers_names_are_there(page):
    top = SOURCE.parents[1]
    named = set(re.findall(r"`([\w./-]+/[\w.-]+\.(?:py|md|toml))`", (top / page).read_text(encoding="utf-8")))
    known = {
        path.relative_to(top).as_posix()
        for folder in ("src", "tests", "docs", ".ci")
        for path in (top / folder).rglob("*")
    }
    assert len(named) > 2
    assert not [name for name in named if not any(f"/{path}".endswith(f"/{name}") for path in known)]


def test_public_names_are_what_all_says():
    assert decbayes.__all__ == sorted(decbayes.__all__)
    for name in decbayes.__all__:
        assert getattr(decbayes, name) is not None
    assert set(decbayes.__all__) <= set(dir(decbayes))
    assert len(decbayes.__all__) <= 40  # what people type in their first week; all else is in the rooms
    with pytest.raises(AttributeError, match="has no 'nonsense'"):
        _ = decbayes.nonsense


def test_rooms_show_and_export_their_public_names():
    """Also those that are not loaded yet, and nothing that they import."""
    unlisted = ("devices", "errors", "extending", "families", "interop", "models", "privacy", "study", "texts")
    rooms = [import_module(f"decbayes.{name}") for name in (*unlisted, "sklearn")]
    rooms += [room for name in decbayes.__all__ if isinstance(room := getattr(decbayes, name), ModuleType)]
    for room in rooms:
        assert set(room.__all__) <= set(dir(room)), room
        assert not {"exported", "np", "os", "TYPE_CHECKING"} & {*room.__all__}, room


def test_importing_loads_nothing_heavy():
    heavy = {"numba", "sklearn", "matplotlib", "zenoh", "scipy.optimize", "joblib", "pandas", "rich", "cyclopts"}
    code = f"import sys, decbayes; print(sorted({heavy!r} & set(sys.modules)))"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )


def test_an_agent_loads_no_calibration_before_it_is_asked_for():
    code = "import sys, decbayes.network.runtime.service; print('decbayes.calibration' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


def test_importing_takes_a_small_part_of_what_numpy_takes():
    """A few milliseconds where NumPy takes a tenth of a second: compared in the same run, since machines differ."""
    code = "import time; s = time.perf_counter(); import {}; print(time.perf_counter() - s)"

    def seconds(module):
        run = [sys.executable, "-c", code.format(module)]
        return min(float(subprocess.run(run, capture_output=True, text=True, check=True).stdout) for _ in range(5))

    assert seconds("decbayes") < 0.5 * seconds("numpy")


def test_no_class_name_has_three_meanings():
    """Twice may be: a model and its scikit-learn estimator, a value and its view."""
    classes = [name for path in SOURCE.rglob("*.py") for name in used_in(path)[2]]
    assert {name for name, times in Counter(classes).items() if times > 2} == set()


def test_nothing_can_execute_what_it_reads():
    for path in sorted(SOURCE.rglob("*.py")):
        imported, called, _ = used_in(path)
        assert not imported & {"pickle", "marshal", "shelve", "dill", "cloudpickle"}, path
        assert not called & {"eval", "exec"}, path


def test_no_module_is_shadowed_by_a_name_of_its_package():
    """`import decbayes.merging.x` must give a module, not a function of that name."""
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        if path.stem.startswith("__") or len(parts) < 3:
            continue
        package = import_module(".".join(parts[:-1]))
        assert isinstance(getattr(package, path.stem, sys), ModuleType), path
