"""The options of the source that asks Prometheus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from newnormal.config import duration
from newnormal.errors import ParameterError
from newnormal.io.http import authorization, checked_headers
from newnormal.io.labels import Naming
from newnormal.io.options import Options

_MILLISECOND = 1_000_000
_HISTORY = 1000  # times: by default, the service fits a stream when it has so many samples


class PrometheusOptions(NamedTuple):
    """The options, checked; durations in ns.

    Attributes
    ----------
    queries
        By channel; or one alone, whose series are channels.
    is_one
        Whether it is one alone.
    naming
        Tells stream and channel of a series.
    connection
        Arguments of `PrometheusApi`.
    """

    url: str
    queries: dict[str, str]
    is_one: bool
    by: tuple[str, ...]
    naming: Naming
    prefix: str
    every: int
    history: int
    delay: int
    connection: dict[str, Any]


def read_options(name: str, options: Mapping[str, Any]) -> PrometheusOptions:
    """Return the options of a table of the configuration.

    Raises
    ------
    ParameterError
        If one cannot work.
    """
    where = f"source {name}"
    given = Options(where, options)
    url: str = given.text("url")
    queries = _queries(given)
    by: tuple[str, ...] = given.texts("by", ())
    without: tuple[str, ...] = given.texts("without", ())
    every = _span(given, "every", "1m")
    found = PrometheusOptions(
        url=url,
        queries=queries,
        is_one="query" in options,
        by=by,
        naming=_naming(where, by, without, name),
        prefix=given.text("prefix", ""),
        every=every,
        history=_span(given, "history", f"{_HISTORY * every}ns"),
        delay=_span(given, "delay", "5s"),
        connection={
            "authorization": authorization(given),
            "timeout": given.number("timeout", 30.0, least=0.1),
            "ca_file": given.text("ca_file", None),
            "headers": checked_headers(where, given.table("headers", {})),
            "parameters": given.table("parameters", {}),
        },
    )
    given.end()
    if found.every % _MILLISECOND:
        raise ParameterError(
            f"{where}: every: expected whole milliseconds, found {options['every']!r}",
            hint="set the scrape_interval of prometheus.yml",
        )
    return found


def _queries(given: Options) -> dict[str, str]:
    """Return the queries by name."""
    query: str | None = given.text("query", None)
    channels: dict[str, str] | None = given.table("channels", None)
    if (query is None) == (channels is None):
        found = "none" if query is None else "both"
        raise ParameterError(
            f"{given.where}: expected query or channels, found {found}",
            hint="query has one query, whose series are channels; [sources.NAME.channels] has a "
            "query for each channel",
        )
    if query is not None:
        return {"query": query}
    assert channels is not None
    empty = [name for name, each in channels.items() if not name.strip() or not each.strip()]
    if empty or not channels:
        which = f" {empty[0]!r}" if empty else ""
        raise ParameterError(
            f"{given.where}: channels: expected a query for each channel, found none{which}",
            hint='such as load = "node_load1"',
        )
    return channels


def _naming(where: str, by: Sequence[str], without: Sequence[str], name: str) -> Naming:
    try:
        return Naming(by, without, fallback=name)
    except ParameterError as error:
        raise ParameterError(f"{where}: {error.message}", hint=error.hint) from None


def _span(given: Options, name: str, default: str) -> int:
    """Return a duration in ns."""
    found = duration(given.text(name, default), f"{given.where}: {name}")
    return int(found.astype(np.int64))
