"""What pyproject.toml promises about the package."""

import subprocess
import sys
import tomllib
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from decbayes.extras import EXTRAS

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def numbers(text):
    return [int(part) for part in text.split(".")[:3] if part.isdigit()]


def test_every_requirement_has_a_lower_bound_that_is_met_here():
    """What `make minimum` installs; where it runs this, the versions are equal."""
    script = [sys.executable, str(ROOT / ".ci" / "lower_bounds.py")]
    bounds = subprocess.run(script, capture_output=True, text=True, check=True).stdout.split()
    assert len(bounds) > len(PROJECT["dependencies"])
    for name, bound in (line.split("==") for line in bounds):
        with suppress(PackageNotFoundError):  # ray, and NumPyro before `make test`, are too large to ask for
            assert numbers(version(name)) >= numbers(bound), name


def test_extras_that_messages_name_exist_and_bring_as_much_as_is_asked_for():
    for extra, modules in EXTRAS.items():
        asked = PROJECT["optional-dependencies"][extra]
        nested = [name for each in asked if each.startswith("decbayes[") for name in each[9:-1].split(",")]
        brought = [each for each in asked if not each.startswith("decbayes[")]
        brought += [each for name in nested for each in PROJECT["optional-dependencies"][name]]
        assert len(brought) == len(modules), extra
