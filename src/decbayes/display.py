"""How values show themselves in a notebook: drawn by a room above all others, which is loaded when somebody looks."""

from importlib import import_module


class Displayed:
    """A value that notebooks show as a small table instead of its `repr`."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        html: str = import_module("decbayes.reporting.notebooks").html_of(self)
        return html
