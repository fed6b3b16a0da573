"""Checks for what others write for newnormal, and an input and an output in memory.

A check takes a model or a threshold, or a function that makes a source or a sink, and raises an
`AssertionError` with what was expected and what was found. Call it from a test of your own.
"""

from typing import TYPE_CHECKING

from newnormal.lazy import lazy_names

if TYPE_CHECKING:
    from newnormal.testing.decoders import check_decoder as check_decoder
    from newnormal.testing.models import check_model as check_model
    from newnormal.testing.service_sinks import MemoryAlertSink as MemoryAlertSink
    from newnormal.testing.service_sinks import MemoryScoreSink as MemoryScoreSink
    from newnormal.testing.service_sinks import check_alert_sink as check_alert_sink
    from newnormal.testing.service_sinks import check_score_sink as check_score_sink
    from newnormal.testing.sinks import MemorySink as MemorySink
    from newnormal.testing.sinks import check_sink as check_sink
    from newnormal.testing.sources import MemorySource as MemorySource
    from newnormal.testing.sources import check_source as check_source
    from newnormal.testing.thresholds import check_threshold as check_threshold

__getattr__, __dir__ = lazy_names(__name__)
