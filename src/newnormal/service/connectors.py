"""Sinks and sources of the configuration as objects."""

from collections.abc import Iterable

from newnormal.io.registry import find_alert_sink, find_score_sink, find_source, is_score_sink
from newnormal.io.sinks.alerts import AlertSink
from newnormal.io.sinks.scores import ScoreSink
from newnormal.io.sources.base import Source
from newnormal.service.config import ServiceConfig, SinkConfig, SourceConfig


def alert_sinks(sinks: Iterable[SinkConfig]) -> tuple[SinkConfig, ...]:
    """Return those that alerts are for; also those of an unknown kind, which `make_sink` names."""
    return tuple(sink for sink in sinks if not is_score_sink(sink.kind))


def make_sink(config: SinkConfig) -> AlertSink:
    """Return the sink of alerts of a table of the configuration; it connects when it is used.

    An unknown kind, an option that cannot work or a secret that cannot be read is a ParameterError.
    """
    return find_alert_sink(config.kind)(config.name, config.options)


def make_score_sink(config: SinkConfig) -> ScoreSink:
    """Return the sink of scores of a table of the configuration; errors as those of `make_sink`."""
    return find_score_sink(config.kind)(config.name, config.options)


def make_any_sink(config: SinkConfig) -> AlertSink | ScoreSink:
    """Return the sink of a table of the configuration, of whatever it takes."""
    return make_score_sink(config) if is_score_sink(config.kind) else make_sink(config)


def make_source(config: SourceConfig) -> Source:
    """Return the source of a table of the configuration; errors as those of `make_sink`."""
    return find_source(config.kind)(config.name, config.options)


def check_connections(config: ServiceConfig) -> None:
    """Raise an error if a sink or source cannot work, as `make_sink` does, without connecting."""
    for sink in config.sinks:
        make_any_sink(sink).close()
    for source in config.sources:
        try:
            make_source(source).close()
        except OSError:  # somebody else's that connects when it is made: it is tried again
            continue
