"""A merge as one page that opens in any browser, and the display of values in notebooks."""

from decbayes.reporting.reports import report

__all__ = ["report"]
