"""Libraries that only some tasks need: imported when the task is asked for, or a plain word on how to get them."""

from importlib import import_module
from typing import Any

from decbayes.errors import MissingExtra


def require(module: str, *, extra: str, task: str) -> Any:
    """The module, or an error that says what to install."""
    try:
        return import_module(module)
    except ImportError as error:
        if error.name is not None and error.name.split(".")[0] != module.split(".")[0]:
            raise  # the library is there, but something that it needs is broken
        package = module.split(".")[0]
        raise MissingExtra(f"{task} needs {package}, which is not installed: pip install 'decbayes[{extra}]'") from None
