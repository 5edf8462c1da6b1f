"""How values are displayed when printed and in notebooks; higher rooms draw them, loaded on demand."""

from importlib import import_module
from typing import Any


class Displayed:
    """A value that notebooks show as a small table instead of its `repr`."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        html: str = import_module("decbayes.reporting.notebooks").html_of(self)
        return html


def text_of(posterior: Any) -> str:
    """A posterior as a few lines of text."""
    text: str = import_module("decbayes.views.text_summary").text_of(posterior)
    return text
