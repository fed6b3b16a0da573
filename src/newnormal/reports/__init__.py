"""Pages to look at: reports of a stream or a fleet, and what a notebook shows."""

from newnormal.reports.notebook import html
from newnormal.reports.writing import report

__all__ = ["html", "report"]
