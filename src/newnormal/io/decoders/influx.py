"""The bodies that Telegraf and InfluxDB's clients send: line protocol."""

import json
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import ClassVar, NamedTuple
from urllib.parse import parse_qsl

import numpy as np

from newnormal.arrivals import pivot
from newnormal.arrivals.arrival import Arrival
from newnormal.arrivals.counters import CounterRates, RateConversion
from newnormal.arrivals.naming import Naming, fitting_name, rate_name
from newnormal.errors import InputError
from newnormal.io.decoders.base import (
    QUERY,
    Decoder,
    DecoderLimits,
    Refusal,
    Reply,
    too_many_samples,
)
from newnormal.io.decoders.line_protocol import (
    LineGroup,
    Parsed,
    Scale,
    auto_time,
    parse,
    read_series,
    scaled,
)
from newnormal.io.decoders.series import options_of

_BY = ("host",)  # the tag that Telegraf adds
_EXAMPLE = "/write?by=host,region&rates=net_bytes_*"
_NS = 1
_US, _MS, _S = 10**3, 10**6, 10**9
_UNITS = {
    **dict.fromkeys(("n", "ns", "nanosecond"), _NS),
    **dict.fromkeys(("u", "us", "µ", "µs", "μ", "μs", "microsecond"), _US),
    **dict.fromkeys(("ms", "millisecond"), _MS),
    **dict.fromkeys(("s", "second"), _S),
    "m": 60 * _S,
    "h": 3600 * _S,
}
_MOST_LAYOUTS = 20_000  # whose names are remembered
_MOST_FIELDS, _LONGEST_NAMES = 100, 10_000  # of such a layout: fields, and characters


class _InfluxLayout(NamedTuple):
    """Where the values of lines go that begin alike and have the same fields."""

    stream: str
    channels: tuple[str, ...]
    columns: tuple[int, ...] | None  # of the values; None: all
    counters: tuple[str, ...]  # channels that become rates


def _layout(naming: Naming, head: str, fields: tuple[str, ...]) -> _InfluxLayout:
    series = read_series(head)
    columns: dict[str, int] = {}
    counters = []
    stream, behind = naming.parts(series.tags, series.measurement)
    for at, field in enumerate(fields):
        name = f"{series.measurement}_{field}"
        channel = fitting_name(f"{name}{behind}")
        if naming.is_rate(name):
            channel = rate_name(channel)
            counters.append(channel)
        columns.pop(channel, None)  # the last counts
        columns[channel] = at
    numbers = tuple(columns.values())
    all_columns = numbers == tuple(range(len(fields)))
    return _InfluxLayout(stream, tuple(columns), None if all_columns else numbers, tuple(counters))


class _InfluxSamples(list[Arrival]):
    """The samples of a body, with what its answer needs."""

    def __init__(self, parsed: Parsed, conversion: RateConversion) -> None:
        super().__init__()
        self.parsed = parsed
        self.conversion = conversion


class InfluxDecoder(Decoder):
    r"""Reads InfluxDB's line protocol, as Telegraf and InfluxDB's clients post it.

    A channel is called ``measurement_field``, with the tags behind it; the stream is the tag
    ``host``, or the tags that ``?by=`` names. Booleans are 1 and 0, texts are left out. With
    ``?rates=net_bytes_*`` counters become rates, in channels ``rate(NAME)``. Senders that cannot
    set these in the address send the header ``X-Newnormal-Options``. Lines that cannot be read are
    left out and named in the answer, which then is 400; all others are taken.

    >>> decoder = InfluxDecoder()
    >>> body = b'cpu,host=web-1,cpu=cpu0 user=1.5,ok=t,text="a b" 1767225600000000000\n'
    >>> for arrival in decoder.decode(body, {}):
    ...     print(arrival.stream, arrival.channels, arrival.values.tolist())
    web-1 ('cpu_user{cpu="cpu0"}', 'cpu_ok{cpu="cpu0"}') [[1.5, 1.0]]
    """

    path: ClassVar[str] = "/write"
    aliases: ClassVar[tuple[str, ...]] = ("/api/v2/write", "/api/v3/write_lp")
    status: ClassVar[int] = 204
    partial: ClassVar[bool] = True

    def __init__(
        self,
        limits: DecoderLimits = DecoderLimits(),  # noqa: B008 - it is frozen
        clock: Callable[[], int] | None = None,
    ) -> None:
        super().__init__(limits, *(() if clock is None else (clock,)))
        self._rates = CounterRates()
        self._layouts: dict[Hashable, _InfluxLayout] = {}
        self._lock = threading.Lock()

    def decode(self, body: bytes, headers: Mapping[str, str]) -> Sequence[Arrival]:
        """Return the samples of a body, and keep for `response` which lines were bad."""
        naming = options_of(headers, _BY, _EXAMPLE).naming
        others = dict(parse_qsl(headers.get(QUERY, ""), errors="replace"))
        scale = _scale(others.get("precision", ""))
        text = body.decode("utf-8", "surrogateescape")
        parsed = parse(text, scale, self.limits.samples, self.limits.channels)
        if parsed is None:
            raise too_many_samples(self.limits)
        if others.get("accept_partial", "").lower() == "false" and parsed.dropped:
            raise InputError(f"line {parsed.line}: {parsed.error}", hint="nothing was taken")
        taken = _InfluxSamples(parsed, self._rates.begin())
        now = self.clock()
        streams: dict[str, list[tuple[_InfluxLayout, LineGroup]]] = {}
        for key, group in parsed.groups.items():
            layout = self._layout(naming, *key)
            streams.setdefault(layout.stream, []).append((layout, group))
        for stream, parts in streams.items():
            taken += _of_stream(stream, parts, now, taken.conversion)
        return taken

    def response(
        self, arrivals: Sequence[Arrival], position: int, refused: Sequence[Refusal] = ()
    ) -> Reply:
        """Return the answer: nothing, or what was not taken, as all versions of InfluxDB say it."""
        del position
        assert isinstance(arrivals, _InfluxSamples)
        arrivals.conversion.keep()
        parsed = arrivals.parsed
        dropped = parsed.dropped + sum(len(each.arrival.times) for each in refused)
        if not dropped:
            return Reply()
        why = f"line {parsed.line}: {parsed.error}" if parsed.dropped else refused[0].why
        some = any(len(arrival.times) for arrival in arrivals) and len(refused) < len(arrivals)
        begun = "partial write" if some else "unable to parse" if parsed.dropped else "refused"
        message = f"{begun}: {why}; dropped={dropped}"
        # `error` is what 1.x and 3.x have, `code` and `message` what 2.x has.
        body: dict[str, object] = {"error": message, "code": "invalid", "message": message}
        if parsed.dropped:
            body["line"] = parsed.line
        return Reply(json.dumps(body).encode(), "application/json", 400)

    def _layout(self, naming: Naming, head: str, fields: tuple[str, ...]) -> _InfluxLayout:
        """Return where the values of lines go: naming takes longer than reading them."""
        key = naming.options, head, fields
        layout = self._layouts.get(key)
        if layout is None:
            layout = _layout(naming, head, fields)
            long = len(head) + sum(map(len, fields)) > _LONGEST_NAMES
            if len(fields) <= _MOST_FIELDS and not long:
                with self._lock:
                    while len(self._layouts) >= _MOST_LAYOUTS:
                        del self._layouts[next(iter(self._layouts))]
                    self._layouts[key] = layout
        return layout


def _scale(precision: str) -> Scale:
    if precision in ("", "auto"):
        return auto_time
    unit = _UNITS.get(precision)
    if unit is None:
        shown = ascii(precision)[:40]
        raise InputError(
            f"precision: expected ns, us, ms, s, m, h or auto, found {shown}",
            hint="it is the unit of the lines' times",
        )
    return scaled(unit)


def _of_stream(
    stream: str, parts: list[tuple[_InfluxLayout, LineGroup]], now: int, conversion: RateConversion
) -> list[Arrival]:
    """Return the points of a stream: those of one time are one sample.

    A value that is missing would say that the channel has none. It may come with the next request,
    since senders cut what they send into pieces.
    """
    column_of: dict[str, int] = {}
    counters: set[str] = set()
    times, columns, values = [], [], []
    for layout, group in parts:
        moments = np.array([now if time is None else time for time in group.times], np.int64)
        table = np.array(group.values, np.float64).reshape(len(moments), -1)
        if layout.columns is not None:
            table = table[:, layout.columns]
        counters.update(layout.counters)
        of_part = [column_of.setdefault(name, len(column_of)) for name in layout.channels]
        times.append(np.repeat(moments, len(of_part)))
        columns.append(np.tile(of_part, len(moments)))
        values.append(table.ravel())
    arrivals = pivot.arrivals(
        stream, [*column_of], np.concatenate(times), np.concatenate(columns), np.concatenate(values)
    )
    for arrival in arrivals if counters else ():
        for column, channel in enumerate(arrival.channels):
            if channel in counters:
                counts = arrival.values[:, column]
                counts[:] = conversion.convert((stream, channel), arrival.times, counts)
    return arrivals
