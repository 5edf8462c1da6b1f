"""What people and programs see of an agent: log, status, metrics and page."""

from decbayes.network.runtime.reports.description import Answer
from decbayes.network.runtime.reports.log import Log

__all__ = ["Answer", "Log"]
