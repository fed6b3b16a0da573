"""Checks for what others write for newnormal.

Each check raises an `AssertionError` that says what was expected and what was found. Call it from a
test of your own.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from newnormal.testing.models import check_model
    from newnormal.testing.thresholds import check_threshold

__all__ = [
    "check_model",
    "check_threshold",
]

_MODULES = {
    "check_model": "newnormal.testing.models",
    "check_threshold": "newnormal.testing.thresholds",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
