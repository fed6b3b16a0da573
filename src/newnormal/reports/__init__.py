"""Pages to look at: reports of a stream or a fleet, and what a notebook shows."""

from newnormal.reports.notebook import html
from newnormal.reports.writing import page_of, report

__all__ = ["html", "page_of", "report"]
