"""Where samples come from and where verdicts go: sources, sinks, and how both are found by name.

`Source` and `Sink` are the classes to derive from; `newnormal.testing` checks what was derived.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from newnormal.io.registry import find_sink, find_source, name_of
    from newnormal.io.sinks.base import Sink, SinkOptions
    from newnormal.io.sources.base import Batch, Problem, Source, SourceOptions

__all__ = [
    "Batch",
    "Problem",
    "Sink",
    "SinkOptions",
    "Source",
    "SourceOptions",
    "find_sink",
    "find_source",
    "name_of",
]

_MODULES = {
    "Sink": "newnormal.io.sinks.base",
    "SinkOptions": "newnormal.io.sinks.base",
    "find_sink": "newnormal.io.registry",
    "find_source": "newnormal.io.registry",
    "name_of": "newnormal.io.registry",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES.get(name, "newnormal.io.sources.base")), name)


def __dir__() -> list[str]:
    return sorted(__all__)
