"""How values are displayed when printed and in notebooks, digits of numbers, and what views add to a merge's remarks.

Higher rooms do both; they are loaded on demand.
"""

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any


class Displayed:
    """A value that notebooks show as a small table instead of its `repr`."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        html: str = import_module("decbayes.reporting.notebooks").html_of(self)
        return html


def advice_on(alignment: Any, names: Sequence[str]) -> Iterator[Any]:
    """What stands out in a merge of such a model, and what to do about it, as remarks."""
    view = import_module("decbayes.views.view").view_of(alignment.structure)
    advice: Iterator[Any] = view.advice(alignment, names)
    return advice


def estimates_of(posterior: Any) -> Sequence[Any]:
    """The coefficients of a posterior as they are shown, in the units of the data; empty for models without any."""
    estimates: Sequence[Any] = import_module("decbayes.views.view").view_of(posterior.structure).estimates(posterior)
    return estimates


def text_of(posterior: Any) -> str:
    """A posterior as a few lines of text."""
    text: str = import_module("decbayes.views.text_summary").text_of(posterior)
    return text


def digits(value: float, count: int) -> str:
    """This many significant digits; all digits before the point, with separators, if these are more.

    "g" alone writes 999.6 as 1e+03.
    """
    large = abs(float(f"{value:.{count}g}")) >= 10**count
    return f"{value:,.0f}" if large else f"{value:.{count}g}"
