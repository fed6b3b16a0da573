"""Checks for what others write for newnormal, and an input and an output in memory.

A check takes a model or a threshold, or a function that makes a source or a sink, and raises an
`AssertionError` with what was expected and what was found. Call it from a test of your own.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from newnormal.testing.alerts import MemoryAlertSink, check_alert_sink
    from newnormal.testing.decoders import check_decoder
    from newnormal.testing.models import check_model
    from newnormal.testing.pulling import MemoryPullSource, check_pull_source
    from newnormal.testing.scores import MemoryScoreSink, check_score_sink
    from newnormal.testing.sinks import MemorySink, check_sink
    from newnormal.testing.sources import MemorySource, check_source
    from newnormal.testing.thresholds import check_threshold

__all__ = [
    "MemoryAlertSink",
    "MemoryPullSource",
    "MemoryScoreSink",
    "MemorySink",
    "MemorySource",
    "check_alert_sink",
    "check_decoder",
    "check_model",
    "check_pull_source",
    "check_score_sink",
    "check_sink",
    "check_source",
    "check_threshold",
]

_MODULES = {
    "MemoryAlertSink": "newnormal.testing.alerts",
    "MemoryPullSource": "newnormal.testing.pulling",
    "check_alert_sink": "newnormal.testing.alerts",
    "check_decoder": "newnormal.testing.decoders",
    "check_pull_source": "newnormal.testing.pulling",
    "MemoryScoreSink": "newnormal.testing.scores",
    "check_score_sink": "newnormal.testing.scores",
    "MemorySink": "newnormal.testing.sinks",
    "MemorySource": "newnormal.testing.sources",
    "check_model": "newnormal.testing.models",
    "check_sink": "newnormal.testing.sinks",
    "check_source": "newnormal.testing.sources",
    "check_threshold": "newnormal.testing.thresholds",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
