"""A merge as one page that anybody can open, and values as notebooks show them."""

from decbayes.reporting.reports import report

__all__ = ["report"]
