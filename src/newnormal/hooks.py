"""What values of the lowest layer show of themselves by code of a higher one.

Imports go one way: a `Verdicts` cannot import what draws it. The package's ``__init__`` names here
where that is; it is imported when first used.
"""

from html import escape
from importlib import import_module
from typing import Any

_FUNCTIONS: dict[str, str] = {}


def show_with(**functions: str) -> None:
    """Name the functions that show values, as "package.module:function".

    `functions`: ``plot`` draws verdicts; ``html`` returns what a notebook shows of any of our
    values; ``one_stream`` reads a detector from the folder of a watch; ``open_fleet`` opens a
    fleet on the folder of an engine.
    """
    _FUNCTIONS.update(functions)


def plot(verdicts: Any, **options: Any) -> Any:
    """Draw verdicts, as `newnormal.plot`."""
    return _function("plot")(verdicts, **options)


def html(value: Any) -> str:
    """Return a value as HTML for a notebook; whatever goes wrong, at least its repr."""
    try:
        text: str = _function("html")(value)
    except Exception:  # noqa: BLE001 - a cell that has done its work must not end in an error
        text = f"<pre>{escape(repr(value))}</pre>"
    return text


def one_stream(folder: Any, model: Any, threshold: Any) -> Any:
    """Return the detector of the folder of a watch of one stream."""
    return _function("one_stream")(folder, model, threshold)


def open_fleet(*arguments: Any) -> Any:
    """Return the fleet of an engine's folder."""
    return _function("open_fleet")(*arguments)


def _function(name: str) -> Any:
    module, _, function = _FUNCTIONS[name].partition(":")
    return getattr(import_module(module), function)
