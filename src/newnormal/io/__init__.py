"""Where samples come from and where verdicts go: sources, sinks, and how both are found by name.

`Source` and `Sink` are the classes to derive from, for the service `PullSource`, `AlertSink` and
`ScoreSink`; `newnormal.testing` checks what was derived.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from newnormal.io.arrivals import Arrival
    from newnormal.io.decoders.base import Decoder, DecoderLimits, Refusal, Reply
    from newnormal.io.options import Options
    from newnormal.io.registry import (
        find_alert_sink,
        find_decoder,
        find_pull_source,
        find_score_sink,
        find_sink,
        find_source,
        name_of,
    )
    from newnormal.io.sinks.alerts import Alert, AlertRefusedError, AlertSink, SinkDownError
    from newnormal.io.sinks.base import Sink, SinkOptions
    from newnormal.io.sinks.scores import ScoreBatch, ScoreSink, ScoresRefusedError
    from newnormal.io.sources.base import Batch, Source, SourceOptions
    from newnormal.io.sources.pull import PullSource
    from newnormal.tabular import Problem

__all__ = [
    "Alert",
    "AlertRefusedError",
    "AlertSink",
    "Arrival",
    "Batch",
    "Decoder",
    "DecoderLimits",
    "Options",
    "Problem",
    "PullSource",
    "Refusal",
    "Reply",
    "ScoreBatch",
    "ScoreSink",
    "ScoresRefusedError",
    "Sink",
    "SinkDownError",
    "SinkOptions",
    "Source",
    "SourceOptions",
    "find_alert_sink",
    "find_decoder",
    "find_pull_source",
    "find_score_sink",
    "find_sink",
    "find_source",
    "name_of",
]

_MODULES = {
    "Alert": "newnormal.io.sinks.alerts",
    "AlertRefusedError": "newnormal.io.sinks.alerts",
    "AlertSink": "newnormal.io.sinks.alerts",
    "Arrival": "newnormal.io.arrivals",
    "Decoder": "newnormal.io.decoders.base",
    "DecoderLimits": "newnormal.io.decoders.base",
    "Options": "newnormal.io.options",
    "PullSource": "newnormal.io.sources.pull",
    "Refusal": "newnormal.io.decoders.base",
    "Reply": "newnormal.io.decoders.base",
    "SinkDownError": "newnormal.io.sinks.alerts",
    "find_alert_sink": "newnormal.io.registry",
    "find_decoder": "newnormal.io.registry",
    "find_pull_source": "newnormal.io.registry",
    "find_score_sink": "newnormal.io.registry",
    "ScoreBatch": "newnormal.io.sinks.scores",
    "ScoreSink": "newnormal.io.sinks.scores",
    "ScoresRefusedError": "newnormal.io.sinks.scores",
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
