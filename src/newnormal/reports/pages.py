"""The page that a report's data are put into: a template, styles and scripts, in one file."""

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from importlib.resources import files

# In the order in which they are joined, without a build step.
STYLES = ("vendor/uplot/uPlot.min.css", "reports/page/report.css")
SCRIPTS = (
    "vendor/uplot/uPlot.iife.min.js",
    *(
        f"reports/page/{name}.js"
        for name in (
            *("decode", "format", "events", "panels", "gestures", "picture", "lists", "overview"),
            "main",
        )
    ),
)
_PLACE = re.compile(r"\{\{(\w+)\}\}")


def filled(title: str, report: str, data: Sequence[str]) -> str:
    """Return the page with its title and its data.

    `title`: plain text. `report`: the description of the data, as `text_of` writes JSON. `data`:
    the numbers of each stream as base64, "" for one that has none.
    """
    elements = [
        f'<script type="text/plain" id="data-{number}">{text}</script>'
        for number, text in enumerate(data)
        if text
    ]
    return _put(
        {
            "title": escape(title.encode("utf-8", "backslashreplace").decode()),
            "style": _joined(STYLES),
            "script": _joined(SCRIPTS),
            "digest": _digest(),
            "report": report,
            "data": "\n".join(elements),
        }
    )


@cache
def shell_size() -> int:
    """Return how many bytes the page has before any data."""
    return len(filled("", "", []).encode())


def _put(parts: Mapping[str, str]) -> str:
    """Fill each place of the template once; what is put there is not looked at again."""
    return _PLACE.sub(lambda match: parts[match[1]], _read("reports/page/template.html"))


@cache
def _digest() -> str:
    """Return what a browser compares the page's script with: it runs this one and no other."""
    return base64.b64encode(hashlib.sha256(_joined(SCRIPTS).encode()).digest()).decode()


@cache
def _joined(paths: tuple[str, ...]) -> str:
    return "\n".join(_read(path) for path in paths)


@cache
def _read(path: str) -> str:
    return files("newnormal").joinpath(path).read_text(encoding="utf-8")
