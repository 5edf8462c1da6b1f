"""Libraries that only some tasks need: imported on demand, with an error that says how to install them."""

import os
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from decbayes.errors import MissingExtra

# The packages that each extra installs, by import name.
EXTRAS = {
    "net": ("zenoh", "cryptography"),
    "page": ("starlette", "uvicorn"),
    "plot": ("matplotlib",),
    "demo": ("zenoh", "cryptography", "matplotlib", "sklearn"),
    "paper": ("matplotlib", "sklearn", "Stemmer"),
    "interop": ("sklearn", "arviz_base", "pandas"),
    "parquet": ("pyarrow",),
    "texts": ("bm25s",),
    "gpu": ("cupy",),
}

EXTENSIONS = "DECBAYES_EXTENSIONS"
"""The environment variable with the modules, separated by commas, in which a user registers models."""


def load_extensions() -> None:
    """Import the modules that the user names for the command line, as `python -m` would."""
    for module in filter(None, map(str.strip, os.environ.get(EXTENSIONS, "").split(","))):
        try:
            import_module(module)
        except ModuleNotFoundError as error:
            if error.name != module:
                raise
            raise MissingExtra(
                f"{EXTENSIONS} names the module {module}, which Python does not find. Is its folder on PYTHONPATH?"
            ) from None


def require(module: str, *, extra: str, task: str) -> Any:
    """The module, or an error that says what to install."""
    try:
        return import_module(module)
    except ImportError as error:
        if error.name is not None and error.name.split(".")[0] != module.split(".")[0]:
            raise  # the library is there, but one of its dependencies is broken
        raise missing(task, [module.split(".")[0]], [extra]) from None


def require_extra(*extras: str, task: str) -> None:
    """Check that everything in these extras is installed, and name all that is missing at once."""
    lacking = {extra: [module for module in EXTRAS[extra] if find_spec(module) is None] for extra in extras}
    modules = [module for of_one in lacking.values() for module in of_one]
    if modules:
        raise missing(task, modules, [extra for extra in extras if lacking[extra]])


def missing(task: str, modules: list[str], extras: list[str]) -> MissingExtra:
    wanted, named = ",".join(extras), " and ".join(filter(None, [", ".join(modules[:-1]), modules[-1]]))
    return MissingExtra(
        f"{task} needs {named}, not installed yet: pip install 'decbayes[{wanted}]' "
        f"(in a clone: pip install '.[{wanted}]')"
    )
