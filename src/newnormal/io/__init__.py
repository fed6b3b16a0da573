"""Where samples come from and where verdicts go: sources, sinks, and how both are found by name.

`Source` and `Sink` are the classes to derive from, for the service also `AlertSink` and
`ScoreSink`; `newnormal.testing` checks what was derived.
"""

from typing import TYPE_CHECKING

from newnormal.lazy import lazy_names

if TYPE_CHECKING:
    from newnormal.arrivals.arrival import Arrival
    from newnormal.io.decoders.base import Decoder, DecoderLimits, Refusal, Reply
    from newnormal.io.options import Connector, Options
    from newnormal.io.registry import (
        find_alert_sink,
        find_decoder,
        find_score_sink,
        find_sink,
        find_source,
        name_of,
    )
    from newnormal.io.sinks.alerts import Alert, AlertRefusedError, AlertSink, SinkDownError
    from newnormal.io.sinks.base import Sink, SinkOptions
    from newnormal.io.sinks.scores import ScoreBatch, ScoreSink, ScoresRefusedError
    from newnormal.io.sources.base import Source

__all__ = [
    "Alert",
    "AlertRefusedError",
    "AlertSink",
    "Arrival",
    "Connector",
    "Decoder",
    "DecoderLimits",
    "Options",
    "Refusal",
    "Reply",
    "ScoreBatch",
    "ScoreSink",
    "ScoresRefusedError",
    "Sink",
    "SinkDownError",
    "SinkOptions",
    "Source",
    "find_alert_sink",
    "find_decoder",
    "find_score_sink",
    "find_sink",
    "find_source",
    "name_of",
]

__getattr__, __dir__ = lazy_names(__name__, __all__)
