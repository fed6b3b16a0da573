"""Prometheus' remote write 1.0: what Prometheus and programs that are like it send."""

import json
import sys
import threading
from collections.abc import Mapping, Sequence
from itertools import islice
from math import isfinite, nan
from typing import Any, ClassVar
from weakref import WeakValueDictionary

from newnormal.arrivals.arrival import Arrival
from newnormal.arrivals.naming import digest_of, rate_name
from newnormal.errors import MissingExtraError
from newnormal.io.decoders.base import Reply, UnknownFormError, message_weight
from newnormal.io.decoders.series import (
    Decoded,
    MissingLibraryError,
    QueryOptions,
    SeriesDecoder,
    SeriesValues,
    check_labels,
    options_of,
)
from newnormal.io.remote_write import decompress, named_kind, parse, raw_kind

_EXAMPLE = "/api/v1/write?by=instance&without=replica"
_FORMS = ("application/x-protobuf", "application/protobuf", "application/octet-stream", "")
_SECOND_VERSION = "io.prometheus.write.v2.request"
_PLAIN = ("gzip", "x-gzip", "identity")  # undone by the service, or none
_LATEST = 9_223_372_036_000  # ms: later times cannot be ns in 64 bits
_MOST_SERIES = 200_000  # whose names are remembered
_COUNT, _SUM = 1, 2
_PATIENCE = 30_000  # ms in which the other one of a count and a sum must come


class _Family:
    """The series of a stream whose names are one but for ``_count`` and ``_sum`` at the end."""

    __slots__ = ("__weakref__", "parts")

    def __init__(self) -> None:
        self.parts = 0  # which of the two there are


class _SentSeries:
    """What is known of a series by its labels.

    `key`: tells it from others. `channel`, `rate`: the names of its channel, and of that of its
    rate. `family`: what a count and a sum share; None: it is neither. `first`: the time in ms of
    its first sample; None: there was none.
    """

    __slots__ = ("channel", "counter", "family", "first", "key", "rate", "stream")

    def __init__(
        self, key: bytes, stream: str, channel: str, counter: bool, family: _Family | None
    ) -> None:
        self.key, self.stream, self.channel = key, stream, channel
        self.rate = rate_name(channel) if counter or family else ""
        self.counter, self.family = counter, family
        self.first: int | None = None

    def waits(self, time: int) -> bool:
        """Whether the other one of a pair may still come."""
        if self.first is None:
            self.first = time
        return time < self.first + _PATIENCE


class RemoteWriteDecoder(SeriesDecoder):
    """Reads what Prometheus, agents of Grafana and VictoriaMetrics, and OpenTelemetry's send.

    The body is a `WriteRequest` of remote write 1.0, compressed by snappy. A series becomes a
    channel, and series with the same job and instance a stream. In the address:

    - ``by=LABEL,LABEL``: the labels that make a stream instead of ``job,instance``;
    - ``without=LABEL,LABEL``: labels that are left out of the names of channels;
    - ``rates=no``: counters stay as they are. Otherwise they become rates per second, in channels
      ``rate(NAME)``. A counter is a series whose name ends in ``_total``, or in ``_count`` or
      ``_sum`` where there are both of them;
    - ``rates=PATTERN,PATTERN``: other counters, by their names, such as ``node_netstat_*``;
    - ``buckets=yes``: buckets of histograms are taken, too.

    NaN, infinite values and the marks of series that ended are missing values. Metadata,
    exemplars and native histograms are ignored.
    """

    path: ClassVar[str] = "write"
    encodings: ClassVar[tuple[str, ...]] = ("snappy",)
    status: ClassVar[int] = 204

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._lock = threading.Lock()
        self._series: dict[bytes, _SentSeries | None] = {}  # None: left out
        # By options, stream and name: what one sender has decides nothing about another's series.
        self._families: WeakValueDictionary[bytes, _Family] = WeakValueDictionary()

    def unpack(self, body: bytes, headers: Mapping[str, str]) -> bytes:
        """Return a body without snappy."""
        _check_form(headers.get("content-type", ""))
        if headers.get("content-encoding", "").strip().lower() in _PLAIN:
            return body
        try:
            return decompress(body, self.limits.decompressed)
        except MissingExtraError as error:
            raise MissingLibraryError(error.message, hint=error.hint) from None

    def weight(self, body: bytes, headers: Mapping[str, str]) -> int:  # noqa: ARG002 - one form
        """Return about how many bytes of memory `decode` takes at most."""
        return message_weight(body)

    def decode(self, body: bytes, headers: Mapping[str, str]) -> Sequence[Arrival]:
        """Return the samples of a body."""
        options = options_of(headers, ("job", "instance"), _EXAMPLE, "buckets")
        points = SeriesValues(self.limits)
        points.check_parts(body.count(b"\x0a") + body.count(b"\x12"))  # tags of its parts
        try:
            request = parse(body, raw_kind())
        except MissingExtraError as error:
            raise MissingLibraryError(error.message, hint=error.hint) from None
        points.count(len(request.timeseries))
        sent = sum(len(series.samples) for series in request.timeseries)
        points.count(sent)
        conversion = self._rates.begin()
        for known, series in zip(
            self._named(request, body, options), request.timeseries, strict=True
        ):
            if known is None:
                continue
            counter, family = known.counter, known.family
            if family is not None:
                counter = family.parts == _COUNT | _SUM
            name = known.rate if counter else known.channel
            channels, times, values = points.of(known.stream)
            for sample in series.samples:
                time, value = sample.timestamp, sample.value
                if not -_LATEST < time < _LATEST:
                    points.refuse(f"expected times in ms since 1970, found {time}")
                    continue
                alone = family is not None and not counter and known.waits(time)
                time *= 1_000_000
                if counter or alone:
                    value = conversion.rate(known.key, time, value)
                elif not isfinite(value):
                    value = nan
                if not alone:
                    channels.append(name)
                    times.append(time)
                    values.append(value)
        return points.decoded(conversion, sent)

    def _answer(self, decoded: Decoded, refused: int, why: str) -> Reply:
        """Return nothing, or with 400 what was refused, which Prometheus logs."""
        if not refused:
            return Reply()
        text = f"{refused:,} of {decoded.sent:,} values were refused: {why}"
        return Reply(json.dumps({"error": text}).encode(), "application/json", 400)

    def _named(self, request: Any, plain: bytes, options: QueryOptions) -> list[_SentSeries | None]:
        named: list[_SentSeries | None] = []
        read: Any = None  # with its labels, where one is new
        for at, sent in enumerate(request.timeseries):
            key = digest_of(options.text, *sent.labels)
            try:
                known = self._series[key]
            except KeyError:
                if read is None:
                    read = parse(plain, named_kind()).timeseries
                known = self._read(read[at].labels, key, options)
            named.append(known)
        if len(self._series) > _MOST_SERIES:
            with self._lock:
                for key in list(islice(self._series, len(self._series) - _MOST_SERIES * 7 // 8)):
                    del self._series[key]
        return named

    def _read(self, sent: Any, key: bytes, options: QueryOptions) -> _SentSeries | None:
        """Return what is known of a series that was not seen before, and remember it."""
        check_labels(len(sent))
        labels = {each.name: each.value for each in sent if each.value}  # an empty one is none
        name = labels.pop("__name__", "")
        made = self._made(name, labels, key, options)
        with self._lock:
            self._series[key] = made
        return made

    def _made(
        self, name: str, labels: Mapping[str, str], key: bytes, options: QueryOptions
    ) -> _SentSeries | None:
        bucket = name.endswith("_bucket") and "le" in labels
        if bucket and not options.buckets:
            return None
        stream, channel = options.naming(name, labels)
        counter, family = False, None
        if options.naming.converts:
            base, _, end = name.rpartition("_")
            if bucket or end == "total" or options.naming.is_rate(name):
                counter = True
            elif end in ("count", "sum") and base:
                part = _COUNT if end == "count" else _SUM
                family = self._family(digest_of(options.text, stream, base), part)
        return _SentSeries(key, sys.intern(stream), channel, counter, family)

    def _family(self, key: bytes, part: int) -> _Family:
        """Return a family, and take note that it has a count or a sum."""
        with self._lock:
            family = self._families.setdefault(key, _Family())
            family.parts |= part
        return family


def _check_form(header: str) -> None:
    kind, _, parameters = header.lower().partition(";")
    if _SECOND_VERSION in parameters:
        raise UnknownFormError(
            "Content-Type: expected remote write 1.0, found 2.0",
            hint="set protobuf_message: prometheus.WriteRequest in the sender's remote_write",
        )
    if kind.strip() not in _FORMS:
        raise UnknownFormError(
            f"Content-Type: expected application/x-protobuf, found {kind.strip()[:60]!a}",
            hint="this address takes Prometheus' remote write 1.0",
        )
