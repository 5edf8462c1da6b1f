"""Shared fixtures: seeded generators, and where the data sets are."""

import ast
import gc
import os
import warnings
from collections import Counter
from functools import partial
from inspect import signature
from pathlib import Path

# Workers of the tests share the cores among them; threads of their own would only wait for each other.
os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")

import numpy as np
import own_family  # noqa: F401  registers a family before anybody asks which there are
import pytest
from hypothesis import settings

settings.register_profile("decbayes", deadline=None, derandomize=True, max_examples=20)
settings.load_profile("decbayes")
# Most tests are about a few made-up observations. Those of disclosure, and all pages, run under the usual rules.
os.environ.setdefault("DECBAYES_RULES", "none")

# What is imported and collected stays to the end: looking through it for garbage takes a twentieth of the time.
gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()
    gc.set_threshold(20_000, 20, 20)


# Files of three seconds of processor time and more, the longest first; `--durations=0` says which they are.
LONG = """
test_docs.py test_summing.py test_recorded.py test_estimators.py test_examples.py test_topics_on_gpu.py
test_commands.py test_heterogeneity.py test_robust.py test_model_laws.py test_notebooks.py test_merge.py
test_reports.py test_components_found.py test_figures.py test_simulation.py test_scale.py test_grouping_on_gpu.py
test_study.py test_varying.py test_own_model.py test_terminal.py test_secure_command.py test_types.py
test_regression_commands.py test_mutants.py test_linear_response.py test_one_broadcast.py test_modules_entered.py
test_large_files.py test_sklearn_lda.py test_platforms.py test_large.py test_gensim.py test_shared_folder.py
test_solvers.py test_plot.py test_persons.py test_bad_input.py test_wide.py test_broken_sums.py test_docs_shape.py
test_features.py test_random_numbers.py
"""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """What takes long starts first, so that no worker is left with it: groups, long files, files of many tests."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return
    tests, place = Counter(item.path for item in items), {name: place for place, name in enumerate(LONG.split())}

    def turn(item):
        grouped = item.get_closest_marker("xdist_group") is not None
        return not grouped, place.get(item.path.name, len(place)), -tests[item.path], str(item.path)

    items.sort(key=turn)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Tests of one file run in one worker, which makes their fixtures only once.

    Pages have nothing in common and take long: each runs where there is room, so that no worker has all of them.
    """
    from xdist.scheduler import LoadGroupScheduling

    class ByFile(LoadGroupScheduling):
        def _split_scope(self, nodeid):
            scope = super()._split_scope(nodeid)
            return scope if "test_docs.py" in scope else scope.split("::")[0]

    config.option.loadscopereorder = False  # the order above, in place of one by numbers of tests alone
    return ByFile(config, log) if config.getoption("dist") == "loadgroup" else None


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20140723)


def set_simulations(brief):
    """How many worlds, halves and rounds are computed and how many persons left out, where users have not said it."""
    from decbayes.calibration import differences, matches, worlds
    from decbayes.disclosure import _exposure
    from decbayes.merging.reading import _halves

    differences.WORLDS, differences.TIMES_MORE = (2, 1) if brief else (8, 5)
    _halves.FEWEST_HALVES, _halves.MOST_HALVES = (1, 1) if brief else (3, 8)
    worlds.ROUNDS = 2 if brief else 12
    matches.MOST_WORLDS, matches.LEAST_MATCHES = (2, 4) if brief else (12, 30)
    _exposure.MOST_LEFT_OUT = 20 if brief else 200
    matches.learned.cache_clear()


@pytest.fixture(scope="session", autouse=True)
def brief_simulations():
    """What commands, reports and pages say of simulations is seen in two worlds; `as_shipped` is about the answers."""
    set_simulations(brief=True)


@pytest.fixture(scope="session", autouse=True)
def commands_read_once():
    """What a command takes is the same each time: cyclopts reads it once, not for each command line."""
    from cyclopts import App, ArgumentCollection

    read, known = App.assemble_argument_collection, {}
    if "reset_tokens" not in signature(ArgumentCollection.copy).parameters:  # versions before 5
        yield
        return

    def assembled(app, **options):
        if options:
            return read(app, **options)
        key = id(app), app.default_command
        if key not in known:
            known[key] = app, read(app)
        return fresh(known[key][1])

    App.assemble_argument_collection = assembled
    yield
    App.assemble_argument_collection = read


def fresh(arguments):
    """The same arguments, before any word was given to them: those of a data class have some within."""
    copies = arguments.copy(reset_tokens=True)
    twins = {id(argument): twin for argument, twin in zip(arguments, copies, strict=True)}
    for twin in copies:
        twin.children = type(arguments)(twins[id(child)] for child in twin.children)
    return copies


@pytest.fixture(scope="session", autouse=True)
def remarks_of_one_merge():
    """In each test the first merge of each model finds its remarks; others only if somebody waits for them.

    Parameters of a test count as one test.
    """
    from decbayes.errors import MergeWarning
    from decbayes.merging import _merge
    from decbayes.merging.alignment import quick_remarks
    from decbayes.remarks import Later

    at_once, merged = _merge.remarks_in_time, set()

    def in_time(alignment):
        test = os.environ.get("PYTEST_CURRENT_TEST", "").split("[")[0].split(" ")[0]
        merge = test, alignment.structure.model.get("name")
        ignored = next(rule[0] for rule in warnings.filters if issubclass(MergeWarning, rule[2])) == "ignore"
        if ignored and merge in merged:
            return Later(partial(quick_remarks, alignment)), ()
        merged.add(merge)
        return at_once(alignment)

    _merge.remarks_in_time = in_time
    yield
    _merge.remarks_in_time = at_once


@pytest.fixture
def as_shipped():
    set_simulations(brief=False)
    yield
    set_simulations(brief=True)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder with real data: DECBAYES_DATA, or shared/data beside the checkout."""
    candidates = [os.environ.get("DECBAYES_DATA"), Path(__file__).parents[2] / "shared" / "data"]
    for candidate in candidates:
        if candidate and Path(candidate).is_dir():
            return Path(candidate)
    pytest.skip("no data: set DECBAYES_DATA, or put it into ../shared/data")


def _parse_undisturbed(*words, parse=ast.parse, **options):
    """Hypothesis watches garbage collection, which CPython 3.11 mistakes for a broken tree while it parses."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        return parse(*words, **options)
    finally:
        if collecting:
            gc.enable()


ast.parse = _parse_undisturbed
