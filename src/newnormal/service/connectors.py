"""Sinks and sources of the configuration as objects, with their secrets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from newnormal.io.registry import find_alert_sink, find_pull_source
from newnormal.io.sinks.alerts import AlertSink
from newnormal.io.sources.pull import PullSource
from newnormal.service.config import SinkConfig, SourceConfig
from newnormal.service.secrets import read_secret

__all__ = ["make_sink", "make_source"]


def make_sink(config: SinkConfig, environ: Mapping[str, str] | None = None) -> AlertSink:
    """Return the sink of a table of the configuration; it connects when it is used.

    Raises
    ------
    ParameterError
        If there is no such kind, an option cannot work, or a secret cannot be read.
    """
    kind = find_alert_sink(config.kind)
    where = f"[sinks.{config.name}]"
    return kind(config.name, _with_secrets(kind, config.options, where, environ))


def make_source(config: SourceConfig, environ: Mapping[str, str] | None = None) -> PullSource:
    """Return the source of a table of the configuration; errors as those of `make_sink`."""
    kind = find_pull_source(config.kind)
    where = f"[sources.{config.name}]"
    return kind(config.name, _with_secrets(kind, config.options, where, environ))


def _with_secrets(
    kind: type[AlertSink] | type[PullSource],
    options: Mapping[str, Any],
    where: str,
    environ: Mapping[str, str] | None,
) -> dict[str, Any]:
    """Return options in which each secret stands under its own name."""
    found = dict(options)
    for name in (*kind.secrets, *kind.private):
        if name in kind.private and name in options:
            continue
        secret = read_secret(options, name, where=where, environ=environ)
        found.pop(f"{name}_file", None)
        found.pop(f"{name}_env", None)
        if secret is not None:
            found[name] = secret.reveal()
    return found
