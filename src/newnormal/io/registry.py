"""Sources and sinks by name: built in, by import path, or by entry point.

A name is one of

- a built-in, such as ``kafka`` for sources, ``jsonl`` for sinks, ``alertmanager`` for alert sinks,
  ``remote_write`` for score sinks and ``otlp`` for decoders: the tables below have all of them;
- an import path, ``package.module:Class``;
- the name of an installed entry point of the group ``newnormal.sources``, ``newnormal.sinks``,
  ``newnormal.alert_sinks``, ``newnormal.score_sinks`` or ``newnormal.decoders``.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, TypeVar

from newnormal.errors import ParameterError

if TYPE_CHECKING:
    from newnormal.io.decoders.base import Decoder
    from newnormal.io.sinks.alerts import AlertSink
    from newnormal.io.sinks.base import Sink
    from newnormal.io.sinks.scores import ScoreSink
    from newnormal.io.sources.base import Source

T = TypeVar("T")

SINKS = {"jsonl": "newnormal.io.sinks.lines:JsonLinesSink"}
SOURCES = {
    "files": "newnormal.io.sources.files:FilesSource",
    "kafka": "newnormal.io.sources.kafka:KafkaSource",
    "mqtt": "newnormal.io.sources.mqtt:MqttSource",
    "prometheus": "newnormal.io.sources.prometheus:PrometheusSource",
}
ALERT_SINKS = {
    "alertmanager": "newnormal.io.sinks.alertmanager:AlertmanagerSink",
    "jsonl": "newnormal.io.sinks.alert_lines:AlertLinesSink",
    "kafka": "newnormal.io.sinks.kafka:KafkaSink",
    "mail": "newnormal.io.sinks.mail:MailSink",
    "mqtt": "newnormal.io.sinks.mqtt:MqttSink",
    "slack": "newnormal.io.sinks.slack:SlackSink",
    "webhook": "newnormal.io.sinks.webhook:WebhookSink",
}
SCORE_SINKS = {"remote_write": "newnormal.io.sinks.remote_write:RemoteWriteSink"}
DECODERS = {
    "influx": "newnormal.io.decoders.influx:InfluxDecoder",
    "otlp": "newnormal.io.decoders.otlp:OtlpDecoder",
    "remote_write": "newnormal.io.decoders.remote_write:RemoteWriteDecoder",
    "samples": "newnormal.io.decoders.samples:SamplesDecoder",
}


def find_source(name: str) -> type[Source]:
    """Return the source called `name`.

    >>> find_source("files").__name__
    'FilesSource'
    >>> find_source("pigeon")
    Traceback (most recent call last):
    ...
    newnormal.errors.ParameterError: source: expected files, kafka, mqtt, prometheus or package.module:Class, found 'pigeon'
    hint: an installed package can add names with entry points of the group newnormal.sources
    """  # noqa: E501 - the message is one line
    from newnormal.io.sources.base import Source

    return _find("source", name, SOURCES, Source)


def find_sink(name: str) -> type[Sink]:
    """Return the sink called `name`.

    >>> find_sink("jsonl").__name__
    'JsonLinesSink'
    """
    from newnormal.io.sinks.base import Sink

    return _find("sink", name, SINKS, Sink)


def find_alert_sink(name: str) -> type[AlertSink]:
    """Return the sink of alerts called `name`.

    >>> find_alert_sink("webhook").__name__
    'WebhookSink'
    """
    from newnormal.io.sinks.alerts import AlertSink

    also = f"; {', '.join(SCORE_SINKS)} takes scores"
    return _find("alert_sink", name, ALERT_SINKS, AlertSink, also)


def find_score_sink(name: str) -> type[ScoreSink]:
    """Return the sink of scores called `name`.

    >>> find_score_sink("remote_write").__name__
    'RemoteWriteSink'
    """
    from newnormal.io.sinks.scores import ScoreSink

    return _find("score_sink", name, SCORE_SINKS, ScoreSink)


def is_score_sink(name: str) -> bool:
    """Whether `name` is that of a sink of scores; False for one of alerts, and for an unknown one.

    >>> is_score_sink("remote_write"), is_score_sink("webhook")
    (True, False)
    """
    from newnormal.io.sinks.scores import ScoreSink

    if name in SCORE_SINKS or name in ALERT_SINKS:
        return name in SCORE_SINKS
    if ":" not in name:
        return name in {each.name for each in entry_points(group="newnormal.score_sinks")}
    try:
        kind = _imported("score sink", name)
    except ParameterError:
        return False
    return isinstance(kind, type) and issubclass(kind, ScoreSink)


def find_decoder(name: str) -> type[Decoder]:
    """Return the decoder of pushed bodies called `name`.

    >>> find_decoder("samples").path
    'samples'
    """
    from newnormal.io.decoders.base import Decoder

    return _find("decoder", name, DECODERS, Decoder)


def decoder_names() -> list[str]:
    """Return the names of all decoders that are known: those that the service mounts.

    >>> "samples" in decoder_names()
    True
    """
    installed = {each.name for each in entry_points(group="newnormal.decoders")}
    return sorted({*DECODERS, *installed})


def name_of(kind: type) -> str:
    """Return the name by which a class is found: a built-in's, or its import path.

    >>> name_of(find_source("files")), name_of(dict)
    ('files', 'builtins:dict')
    """
    path = f"{kind.__module__}:{kind.__qualname__}"
    built_in = {where: name for name, where in (SOURCES | SINKS).items()}
    return built_in.get(path, path)


def _find(
    role: str, name: str, built_in: dict[str, str], kind: Callable[..., T], also: str = ""
) -> type[T]:
    base: Any = kind
    path = built_in.get(name, name)
    group, check, role = f"newnormal.{role}s", f"check_{role}", role.replace("_", " ")
    if ":" in path:
        imported = _imported(role, path)
    else:
        installed = {each.name: each for each in entry_points(group=group)}
        if name not in installed:
            names = "".join(f"{each}, " for each in sorted({*built_in, *installed}))
            names = names.removesuffix(", ") + " or " if names else ""
            raise ParameterError(
                f"{role}: expected {names}package.module:Class, found {name!r}",
                hint="an installed package can add names with entry points of the group "
                f"{group}{also}",
            )
        imported = _imported(role, installed[name].value)
    if not (isinstance(imported, type) and issubclass(imported, base)):
        what = "the class" if isinstance(imported, type) else f"a {type(imported).__name__},"
        raise ParameterError(
            f"{role}: expected a subclass of newnormal.io.{base.__name__}, "
            f"found {what} {getattr(imported, '__name__', imported)!s}",
            hint=f"derive it: class Mine(newnormal.io.{base.__name__})",
        )
    if missing := sorted(getattr(imported, "__abstractmethods__", ())):
        raise ParameterError(
            f"{role}: expected {imported.__name__} to define {' and '.join(missing)}, found none",
            hint=f"newnormal.testing.{check} checks the rest",
        )
    return imported


def _imported(role: str, path: str) -> Any:
    module_name, _, attribute = path.partition(":")
    try:
        imported: Any = import_module(module_name)
    except (ImportError, ValueError) as error:  # a name with an empty part is a ValueError
        raise ParameterError(
            f"{role}: expected a module that can be imported, found {module_name!r}: {error}",
            hint="run in the folder of the module, or add that to PYTHONPATH",
        ) from error
    for part in attribute.split("."):
        if not hasattr(imported, part):
            offered = [name for name in vars(imported) if not name.startswith("_")]
            raise ParameterError(
                f"{role}: expected a class {attribute!r} in {module_name}, found none",
                hint=f"it has {', '.join(sorted(offered)) or 'no public names'}",
            )
        imported = getattr(imported, part)
    return imported
