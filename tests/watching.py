"""A watch of one stream in this process, of a source and a sink that tests have made."""

from collections.abc import Callable
from typing import Any

from newnormal.base import BaseDetector
from newnormal.fleet import Fleet
from newnormal.io import Sink, Source
from newnormal.io.sources.arriving import ArrivingSource
from newnormal.runtime.inputs import OneStream
from newnormal.runtime.watch import InMemory, OneStreamSink, Watch


def watch_of(
    detector: BaseDetector,
    source: Source,
    sink: Sink,
    report: Callable[[str], None] = lambda _: None,
    **options: Any,
) -> Watch:
    """Return a watch that keeps nothing; `options` are those of `Watch`."""
    fleet = Fleet(detector).add("", detector)
    arriving = ArrivingSource(source, False, fleet.period_)
    lines = OneStream(arriving, goes_back=bool(options.get("strict")))
    return Watch(InMemory(fleet), lines, OneStreamSink(sink), report=report, **options)
