"""Libraries that few tests need: each worker collects all tests, and loads them only if it runs these."""

import os
import warnings
from importlib import import_module
from importlib.util import find_spec

import pytest


class OnUse:
    """A module that is loaded when a test first uses something of it; the file's tests are skipped if there is none."""

    def __init__(self, name):
        if find_spec(name.split(".")[0]) is None:
            pytest.skip(f"needs {name}", allow_module_level=True)
        self._name = name

    def __getattr__(self, attribute):
        if "PYTEST_CURRENT_TEST" not in os.environ:  # pytest asks every name of a file whether it is a test
            raise AttributeError(attribute)
        with warnings.catch_warnings():  # as `pytest.importorskip` does: warnings of an import are no failures
            warnings.simplefilter("ignore")
            return getattr(import_module(self._name), attribute)
