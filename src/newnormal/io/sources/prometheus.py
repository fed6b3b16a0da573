"""Samples of any number of streams by queries to Prometheus."""

import hashlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from newnormal.arrivals.arrival import Arrival
from newnormal.arrivals.naming import Naming, fitting_name, series_name
from newnormal.errors import InputError, ParameterError
from newnormal.io.http import authorization, checked_headers
from newnormal.io.options import Options
from newnormal.io.sources.base import Source
from newnormal.io.sources.prometheus_api import PrometheusApi, QueryGrid, RangeError, RangeSeries
from newnormal.io.sources.prometheus_steps import Gaps, RangeSamples, StreamChannels, longest_range
from newnormal.texts import counted

_MILLISECOND = 1_000_000
_HISTORY = 1000  # times: by default, the service fits a stream when it has so many samples
_SECOND = 1_000_000_000
_MOST_SIZE = 11_000  # that Prometheus evaluates in one query
_FIRST_SIZE = 60  # of the first range: nobody knows how many series there are
_VALUES = 200_000  # of a range, about: as JSON and as objects they take 150 bytes each
_GROWTH = 4  # times the steps of the last range, at most
_WAIT_S = 1.0  # at most, for the next time
_MEET_S = 60.0  # without an answer, after which the server's time is asked for
_SCRAPED = "max(timestamp(up))"  # the time of the newest scrape of any target
_GAP_S = 90.0  # without a scrape, at least, from which on values are repeated ones
_GAP_STEPS = 2.5  # the same in times of the grid: `every` may be shorter than a scrape's interval
_SHOWN = 80  # characters of labels that a message has
_NAMELESS = fitting_name("")  # of a series without a label
_TRY_IT = "try the query on Prometheus' own page"


class PrometheusOptions(NamedTuple):
    """The options, checked; durations in ns."""

    url: str
    queries: dict[str, str]  # by channel; or one alone, whose series are channels
    is_one: bool  # whether it is one alone
    by: tuple[str, ...]
    naming: Naming  # tells stream and channel of a series
    prefix: str
    every: int
    start: int  # how long ago
    delay: int
    connection: dict[str, Any]  # arguments of `PrometheusApi`


def _checked(name: str, options: Options) -> PrometheusOptions:
    """Return the options of a table of the configuration."""
    where = options.where
    url: str = options.private("url")
    queries = _queries(options)
    by: tuple[str, ...] = options.texts("by", ())
    without: tuple[str, ...] = options.texts("without", ())
    every = options.duration("every", "1m")
    checked = PrometheusOptions(
        url=url,
        queries=queries,
        is_one=options.text("query", None) is not None,
        by=by,
        naming=_naming(where, by, without, name),
        prefix=options.text("prefix", ""),
        every=every,
        start=options.duration("start", f"{_HISTORY * every}ns"),
        delay=options.duration("delay", "5s"),
        connection={
            "authorization": authorization(options),
            "timeout": options.seconds("timeout", "30s", least="100ms"),
            "ca_file": options.text("ca_file", None),
            "headers": checked_headers(where, options.table("headers", {})),
            "parameters": options.table("parameters", {}),
        },
    )
    options.end()
    if checked.every % _MILLISECOND:
        raise ParameterError(
            f"{where}: every: expected whole milliseconds, found {every:,} ns",
            hint="set the scrape_interval of prometheus.yml",
        )
    return checked


def _queries(options: Options) -> dict[str, str]:
    query: str | None = options.text("query", None)
    channels: dict[str, str] | None = options.table("channels", None)
    if (query is None) == (channels is None):
        found = "none" if query is None else "both"
        raise ParameterError(
            f"{options.where}: expected query or channels, found {found}",
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
            f"{options.where}: channels: expected a query for each channel, found none{which}",
            hint='such as load = "node_load1"',
        )
    return channels


def _naming(where: str, by: Sequence[str], without: Sequence[str], name: str) -> Naming:
    try:
        return Naming(by, without, fallback=name)
    except ParameterError as error:
        raise ParameterError(f"{where}: {error.message}", hint=error.hint) from None


class PrometheusSource(Source):
    """Asks Prometheus, or what has its API, for the values of queries at a grid of times.

    All values come by range queries: the history at the first start, what was missed in an outage,
    and each new time. Each time of the grid, a multiple of `every`, is asked for once, when it is
    `delay` old. What an answer does not have at a time is missing.

    Options: `url`; `query`, whose series are channels by their labels, or the table `channels`, a
    query for each; `by`, labels that make streams; `without`, labels that are left out of the names
    of channels; `prefix` of the streams' names; `every` (1m); `start`, how far back the
    first start reads (1,000 times that); `delay` (5s); `user` and `password`, or `token`;
    `ca_file`; `timeout` (30s); the tables `headers` and `parameters`, sent with every query.

    `clock` gives the time in ns.
    """

    def __init__(
        self, name: str, options: Mapping[str, Any], *, clock: Callable[[], int] = time.time_ns
    ) -> None:
        super().__init__(name, options)
        self._where = self.options.where
        self._chosen = chosen = _checked(name, self.options)
        self._every = chosen.every
        self._api = PrometheusApi(self._where, chosen.url, clock=clock, **chosen.connection)
        # An address may be a secret, and a position is shown to those who look into the log.
        self._input = {
            "server": hashlib.sha256(chosen.url.encode()).hexdigest()[:16],
            "by": list(chosen.by),
        }
        self._closed = threading.Event()
        self._channels = StreamChannels()
        self._steps: RangeSamples | None = None  # a range that is not all given out
        self._size = _FIRST_SIZE  # times of the next range
        # The position: all was given out up to a time, and of the next one up to a stream.
        self._time = self._newest() - chosen.start // self._every * self._every
        self._stream: str | None = None
        self._began: int | None = None  # the newest time at the first start: before it is the past
        self._absent: dict[str, list[str]] = {}
        self._resumed = False  # and nothing was fetched since
        self._troubles: list[str] = []
        self._ranges = {each: longest_range(query) for each, query in chosen.queries.items()}
        self._longest_range = max(self._ranges.values())
        self._gaps = Gaps()

    def next_batch(self, limit: int) -> Sequence[Arrival]:
        """Return the samples of the next times, as soon as these are `delay` old."""
        if self._steps is None:
            grid = self._due()
            self._steps = None if grid is None else self._tried(grid)
        steps = self._steps
        if steps is None:
            return ()
        batch = [] if steps.is_done else steps.take(limit)
        self.past = self._began is not None and steps.grid.last <= self._began
        self._absent = steps.absent()
        if steps.is_done:
            self._time, self._stream, self._steps = steps.grid.last, None, None
        else:
            self._time = self._time if steps.given is None else steps.given
            self._stream = steps.part
        return batch

    def _due(self) -> QueryGrid | None:
        """Return the times to ask for; None after a wait, where there is none yet."""
        if self._api.idle > _MEET_S or self._api.ahead:
            self._api.version()  # its answer has the server's time: nothing is asked before
        if self._began is None:
            self._began = self._newest()
        newest = self._newest() if self._time >= self._began else self._began
        left = (newest - self._time) // self._every
        if left < 1:
            wait = self._time + self._every + self._chosen.delay - self._api.now()
            self._closed.wait(min(wait / _SECOND, _WAIT_S))
            return None
        count = min(left, self._size)
        if self._resumed:  # with the time before, which shows what channels the streams have
            return QueryGrid(self._time, count + 1, self._every)
        return QueryGrid(self._time + self._every, count, self._every)

    def _newest(self) -> int:
        """Return the newest time that can be asked for."""
        return (self._api.now() - self._chosen.delay) // self._every * self._every

    def _tried(self, grid: QueryGrid) -> RangeSamples | None:
        """Return the values of all queries; None: the next range is another, or shorter."""
        try:
            steps = self._fetch(grid)
        except RangeError as error:
            if grid.size == 1 or self._closed.is_set():
                raise
            if grid.size - self._resumed > 1:
                self._size = (grid.size - self._resumed) // 2
            else:
                self._resumed = False
            self._troubles = [f"asked again for fewer times: {error.message}"]
            return None
        if grid.last > self._newest():  # the clock was wrong
            return None
        if self._resumed:
            self._channels.restore(self._absent)
        steps.finish(self._channels, given=int(self._resumed), after=self._stream)
        self._resumed = False
        most = _VALUES // max(steps.series, 1)
        self._size = max(1, min(most, _GROWTH * grid.size, _MOST_SIZE))
        return steps

    def _fetch(self, grid: QueryGrid) -> RangeSamples:
        """Return the values of all queries at some times."""
        steps = RangeSamples(grid)
        gaps = self._gaps_of(grid)
        nothing = int(gaps.missing.sum())
        troubles = [f"Prometheus scraped nothing at {nothing:,} times"] if nothing else []
        for name, query in self._chosen.queries.items():
            try:
                answer = self._api.query_range(name, query, grid)
            except RangeError as error:
                if grid.size > 1 or not error.by_values:
                    raise
                troubles.append(f"left out at one time: {error.message}")
                continue
            reached = gaps.reached(grid, self._ranges[name])
            left_out = gaps.missing | reached
            shared = [
                each
                for each in answer.series
                if steps.add(
                    *self._named(name, each.labels), np.where(left_out, np.nan, each.values)
                )
            ]
            if reached.any():
                troubles.append(
                    f"{name}: left out at {reached.sum():,} times, as its range reaches back to "
                    "when Prometheus scraped nothing"
                )
            troubles += [f"{name}: {warning}" for warning in answer.warnings[:1]]
            if shared:
                troubles.append(self._about_shared(name, shared))
        if self._api.ahead:
            way = "ahead of" if self._api.ahead > 0 else "behind"
            troubles.append(
                f"the clock of this machine is {abs(self._api.ahead):.0f} s {way} that of "
                f"{self._api.host}, which counts"
            )
        self._troubles, self._gaps = troubles, gaps
        return steps

    def _gaps_of(self, grid: QueryGrid) -> Gaps:
        """Return at which times Prometheus did not run: it repeats the last values there.

        When it ends it does not mark its series as ended, so that they go on for 5 minutes. What is
        asked for as soon as it is due needs no such answer: who answers runs.
        """
        longest = max(_GAP_S, _GAP_STEPS * self._every / _SECOND)
        known = self._gaps.later_than(grid.first - self._longest_range)
        more = min(
            (self._newest() - grid.last) // self._every, int(longest * _SECOND / self._every)
        )
        if grid.size == 1 and more <= 0 and known.last and not known.lasts:
            return known.unasked(grid)
        # The first range may begin soon after a gap.
        before = 0 if known.last else -(-self._longest_range // self._every)
        before = min(before, _MOST_SIZE - grid.size)
        size = min(before + grid.size + max(more, 0), _MOST_SIZE)
        asked = QueryGrid(grid.first - before * self._every, size, self._every)
        try:
            series = self._api.query_range("up", _SCRAPED, asked).series
        except InputError:  # what people asked for themselves says what is wrong
            return known.unasked(grid)
        newest = series[0].values if series else np.full(asked.size, np.nan)
        return known.next(grid, asked, newest, longest)

    def _named(self, name: str, labels: Mapping[str, str]) -> tuple[str, str]:
        own = dict(labels)
        metric = own.pop("__name__", "")
        stream, channel = self._chosen.naming(metric, own)
        if self._chosen.prefix:
            stream = fitting_name(f"{self._chosen.prefix}{stream}")
        if not self._chosen.is_one:
            return stream, name
        return stream, "value" if channel == _NAMELESS and not metric else channel

    def _about_shared(self, name: str, shared: Sequence[RangeSeries]) -> str:
        labels = shared[0].labels
        stream, channel = self._named(name, labels)
        return (
            f"{name}: {len(shared):,} series counts for another, as both are the channel {channel} "
            f"of the stream {stream}: {series_name('', labels):.{_SHOWN}} ({self._one_each()})"
        )

    def _one_each(self) -> str:
        """Return what to do where several series are one channel."""
        if self._chosen.is_one:
            return "leave fewer labels out by without"
        labels = ", ".join(self._chosen.by)
        return f"aggregate them, such as avg by ({labels}) (…)" if labels else "set by"

    def snapshot(self) -> dict[str, Any]:
        """Return the time up to which all was given out."""
        snapshot: dict[str, Any] = {**self._input, "time": self._time}
        if self._began is not None and self._time < self._began:
            snapshot["began"] = self._began
        if self._stream is not None:
            snapshot["stream"] = self._stream
        if self._absent:
            snapshot["absent"] = self._absent
        return snapshot

    def resume(self, snapshot: Mapping[str, Any]) -> bool:
        """Go on after a time, unless it was another server or the streams were others."""
        at = snapshot.get("time")
        same = all(snapshot.get(key) == value for key, value in self._input.items())
        if not same or not isinstance(at, int):
            return False
        self._time = at // self._every * self._every
        self._began = snapshot.get("began", at) // self._every * self._every
        self._stream = snapshot.get("stream")
        self._absent = dict(snapshot.get("absent", {}))
        self._resumed = True
        return True

    def notice(self) -> str:
        """Return what was wrong with the last answers."""
        return "; ".join(self._troubles)

    def check(self) -> str:
        """Ask each query for the newest time, and return what there is."""
        version = self._api.version()
        known = f"Prometheus {version} at {self._api.host}" if version else self._api.host
        streams: set[str] = set()
        total, notes = 0, []
        for name, query in self._chosen.queries.items():
            grid = QueryGrid(self._newest(), 1, self._every)
            series = self._api.query_range(name, query, grid).series
            total += len(series)
            streams.update(self._named(name, each.labels)[0] for each in series)
            notes += self._checked(name, series)
        if not total:
            raise InputError(f"{self._where}: expected series, found none at {known}", hint=_TRY_IT)
        counts = f"{total:,} series of {counted(len(streams), 'stream')}"
        return "; ".join([f"{known}: {counts}", *notes])

    def _checked(self, name: str, series: Sequence[RangeSeries]) -> list[str]:
        """Return what people should know about the series of a query; raise an error if need be."""
        if not series:
            return [f"warning: {name} gives none"]
        names = Counter(self._named(name, each.labels) for each in series)
        ((stream, channel), count), *_ = names.most_common(1)
        by = " or ".join(self._chosen.by)
        labels = sorted({*series[0].labels} - {"__name__"})
        lacks = by and not any(label in each.labels for each in series for label in self._chosen.by)
        if count > 1 and lacks:
            raise InputError(
                f"{self._where}, {name}: expected series with the label {by}, found "
                f"{', '.join(labels) or 'no label'}",
                hint="set by to labels that the series have, or keep them in the query",
            )
        if count > 1:
            raise InputError(
                f"{self._where}, {name}: expected one series for a channel of a stream, found "
                f"{count} for {channel} of {stream}",
                hint=self._one_each(),
            )
        return [f"{name} has no label {by}: its stream is {stream}"] if lacks else []

    def close(self) -> None:
        """Close the connections, and end a wait."""
        self._closed.set()
        self._api.close()
