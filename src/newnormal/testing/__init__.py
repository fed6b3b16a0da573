"""Checks for what others write for newnormal, and an input and an output in memory.

A check takes a model or a threshold, or a function that makes a source or a sink, and raises an
`AssertionError` with what was expected and what was found. Call it from a test of your own.
"""

from typing import TYPE_CHECKING

from newnormal.lazy import lazy_names

if TYPE_CHECKING:
    from newnormal.testing.decoders import check_decoder
    from newnormal.testing.models import check_model
    from newnormal.testing.service_sinks import (
        MemoryAlertSink,
        MemoryScoreSink,
        check_alert_sink,
        check_score_sink,
    )
    from newnormal.testing.sinks import MemorySink, check_sink
    from newnormal.testing.sources import MemorySource, check_source
    from newnormal.testing.thresholds import check_threshold

__all__ = [
    "MemoryAlertSink",
    "MemoryScoreSink",
    "MemorySink",
    "MemorySource",
    "check_alert_sink",
    "check_decoder",
    "check_model",
    "check_score_sink",
    "check_sink",
    "check_source",
    "check_threshold",
]

__getattr__, __dir__ = lazy_names(__name__, __all__)
