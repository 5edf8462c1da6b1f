"""Print the oldest versions that pyproject.toml allows, one `name==version` a line: constraints for pip.

`make minimum` installs these and runs the tests. Dependency groups are left out: nobody who uses the library
meets the bounds of tools for developers and for the documentation.
"""

import re
import tomllib
from itertools import chain
from pathlib import Path


def lower_bounds(project: dict) -> dict[str, str]:
    """The lowest version of each requirement, by its name; our own extras, which name one another, have none."""
    bounds: dict[str, str] = {}
    for requirement in chain(project["dependencies"], *project["optional-dependencies"].values()):
        name = re.split(r"[\[<>=!~; ]", requirement, maxsplit=1)[0]
        if name == project["name"]:
            continue
        bound = re.search(r">=\s*([\w.]+)", requirement)
        if bound is None:
            raise SystemExit(f"pyproject.toml: {requirement!r} has no lower bound.")
        if bounds.setdefault(name, bound[1]) != bound[1]:
            raise SystemExit(f"pyproject.toml: {name} has two lower bounds, {bounds[name]} and {bound[1]}.")
    return bounds


if __name__ == "__main__":
    project = tomllib.loads(Path(__file__).parents[1].joinpath("pyproject.toml").read_text(encoding="utf-8"))["project"]
    for name, version in lower_bounds(project).items():
        print(f"{name}=={version}")
