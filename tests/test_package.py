"""What pyproject.toml promises about the package."""

import subprocess
import sys
import tomllib
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import decbayes
from decbayes.base.extras import EXTRAS

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


def test_every_version_number_is_the_packages():
    """A release names one version: the package's, the citation's and the conda recipe's."""
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    recipe = (ROOT / "recipe" / "recipe.yaml").read_text(encoding="utf-8")
    assert f"\nversion: {decbayes.__version__}\n" in citation
    assert f'  version: "{decbayes.__version__}"\n' in recipe


def test_the_conda_recipe_requires_what_the_package_does():
    recipe = (ROOT / "recipe" / "recipe.yaml").read_text(encoding="utf-8")
    run = recipe.split("  run:\n")[1].split("\n\n")[0]
    listed = {line.strip().removeprefix("- ").replace(" ", "") for line in run.splitlines()}
    assert listed == {*PROJECT["dependencies"], f"python{PROJECT['requires-python']}"}


def test_the_demo_installs_nothing_for_developers():
    """`make demo` is what a stranger tries first: it waits for the extra `demo` alone."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "\ndemo: $(DEMO_STAMP)\n" in makefile
    recipe = makefile.split("$(DEMO_STAMP): ")[1].split("\n\n")[0]
    assert '$(INSTALL) ".[demo]"\n' in recipe
    assert recipe.count("pip install") + recipe.count("$(INSTALL)") == 1
