"""OTLP/HTTP metrics: what OpenTelemetry's collector and SDKs send, as protobuf or JSON."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isfinite, nan
from typing import Any, ClassVar, NamedTuple

import numpy as np

from newnormal.arrivals.arrival import Arrival
from newnormal.arrivals.counters import RateConversion
from newnormal.arrivals.naming import digest_of, fitting_name, rate_name
from newnormal.errors import InputError, MissingExtraError
from newnormal.io.decoders.base import Reply, UnknownFormError, message_weight, text_weight
from newnormal.io.decoders.series import (
    Decoded,
    MissingLibraryError,
    QueryOptions,
    SeriesDecoder,
    SeriesValues,
    check_labels,
    options_of,
)

_EXAMPLE = "/v1/metrics?by=service.name,host.name"
_PROTOBUF = ("application/x-protobuf", "application/protobuf")
_JSON = "application/json"
_INSTANCE = "\0instance"  # no attribute is called so
_DEFAULT = ("service.namespace", "service.name", _INSTANCE)
_DRAWN = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_LATEST = 2**63 - 1  # ns
_NO_VALUE = 1  # the bit of flags
_DELTA = 1
_LONGEST = 100  # values of a list that a name shows, and quantiles of a summary
_LONGEST_NAME = 1_000
_DEEPEST = 4  # values within each other that a name shows
_POINTS_DEPTH = 4  # objects of JSON that data points are within
_SUMMED = ("histogram", "exponential_histogram", "summary")
_TEXTS: dict[str | None, Callable[[Any], str]] = {
    "string_value": str,
    "bool_value": lambda value: "true" if value else "false",
    "int_value": str,
    "double_value": str,
    "bytes_value": lambda value: str(value.hex()),
}


class _PointValue(NamedTuple):
    """One value of a data point."""

    name: str  # of the metric, with an ending where a point has several
    labels: Mapping[str, str]
    number: float
    adds_up: bool = False  # a counter, or what was added since the point's start


class OtlpDecoder(SeriesDecoder):
    """Reads the metrics of OpenTelemetry: OTLP/HTTP, as protobuf or JSON.

    A stream is a resource: the values of ``service.namespace``, ``service.name`` and of what
    tells instances apart: ``service.instance.id``, but ``host.name`` where that id is a UUID,
    which most SDKs draw anew at each start. A channel is a metric with the attributes of a point.
    In the address behind a question mark, or in the header ``X-Newnormal-Options``:

    - ``by=ATTRIBUTE,ATTRIBUTE``: the attributes that make a stream instead;
    - ``without=ATTRIBUTE,ATTRIBUTE``: attributes that are left out of the names of channels;
    - ``rates=no``: sums stay as they are. Otherwise those that only grow, and what was added in an
      interval, become rates per second, in channels ``rate(NAME)``;
    - ``rates=PATTERN,PATTERN``: other counters, by their names.

    Histograms and summaries give the rates of their counts and sums, summaries their quantiles,
    too. Points without a recorded value, NaN and infinite values are missing values.
    """

    path: ClassVar[str] = "/v1/metrics"

    def weight(self, body: bytes, headers: Mapping[str, str]) -> int:
        """Return about how many bytes of memory `decode` takes at most."""
        is_json = headers.get("content-type", "").lower().startswith(_JSON)
        return text_weight(body) if is_json else message_weight(body)

    def decode(self, body: bytes, headers: Mapping[str, str]) -> Sequence[Arrival]:
        """Return the samples of a body."""
        form = headers.get("content-type", "").partition(";")[0].strip().lower()
        options = options_of(headers, _DEFAULT, _EXAMPLE, "")
        points = SeriesValues(self.limits)
        if form == _JSON:
            request = _from_json(body, points)
        elif form in _PROTOBUF:
            request = _from_protobuf(body, points)
        else:
            raise UnknownFormError(
                f"Content-Type: expected application/x-protobuf or application/json, "
                f"found {form[:60]!a}",
                hint="this address takes OTLP/HTTP; OTLP over gRPC is not taken",
            )
        sent = _counted(request, points)
        conversion = self._rates.begin()
        for resource in request.resource_metrics:
            _Resource(resource, options, points, conversion).read()
        return points.decoded(conversion, sent, form)

    def _answer(self, decoded: Decoded, refused: int, why: str) -> Reply:
        if decoded.form == _JSON:
            success = {"rejectedDataPoints": str(refused), "errorMessage": why}
            body = {"partialSuccess": success} if refused else {}
            return Reply(json.dumps(body).encode(), _JSON)
        answer = _messages().ExportMetricsServiceResponse()
        if refused:
            answer.partial_success.rejected_data_points = refused
            answer.partial_success.error_message = why
        return Reply(answer.SerializeToString(), _PROTOBUF[0])


class _Resource:
    """The metrics of one resource."""

    def __init__(
        self, sent: Any, options: QueryOptions, points: SeriesValues, conversion: RateConversion
    ) -> None:
        self._sent, self._options = sent, options
        self._points, self._conversion = points, conversion
        attributes = _labels(sent.resource.attributes)
        named = attributes.get("service.instance.id", "")
        if not named or _DRAWN.fullmatch(named):
            named = attributes.get("host.name") or named
        attributes[_INSTANCE] = named
        self._own = {
            name: _short(attributes[name]) for name in options.naming.by if name in attributes
        }
        # Counters of two resources are two, also where both are one stream.
        self._key = digest_of(options.text, sent.resource.SerializeToString())

    def read(self) -> None:
        for scope in self._sent.scope_metrics:
            key = digest_of(self._key, scope.scope.name)
            for metric in scope.metrics:
                kind = metric.WhichOneof("data")
                if kind is None:
                    continue
                name, data = _short(metric.name), getattr(metric, kind)
                for point in data.data_points:
                    self._point(name, kind, data, point, key)

    def _point(self, name: str, kind: str, data: Any, point: Any, key: bytes) -> None:
        time = point.time_unix_nano
        if not 0 < time <= _LATEST:
            self._points.refuse(f"metric {name[:60]!a}: expected a time, found {time}")
            return
        delta = getattr(data, "aggregation_temporality", 0) == _DELTA
        missing = bool(point.flags & _NO_VALUE)
        for value in _values(name, kind, data, point):
            naming = self._options.naming
            adds_up = value.adds_up or (delta and kind == "sum") or naming.is_rate(value.name)
            adds_up &= naming.converts
            stream, channel = naming(value.name, {**self._own, **value.labels})
            number = nan if missing or not isfinite(value.number) else value.number
            if adds_up:
                channel = rate_name(channel)
                if delta:
                    number = _per_second(number, time - point.start_time_unix_nano, time)
                else:
                    number = self._conversion.rate(digest_of(key, stream, channel), time, number)
            channels, times, values = self._points.of(stream)
            channels.append(channel)
            times.append(time)
            values.append(number)


def _short(name: str) -> str:
    """Return a name that is part of many others: a long one would be read anew for each point."""
    return fitting_name(name) if len(name) > _LONGEST_NAME else name


def _values(name: str, kind: str, data: Any, point: Any) -> Iterator[_PointValue]:
    labels = _labels(point.attributes)
    if kind in _SUMMED:
        yield _PointValue(f"{name}_count", labels, float(point.count), adds_up=True)
        if kind == "summary" or point.HasField("sum"):
            yield _PointValue(f"{name}_sum", labels, point.sum, adds_up=True)
        if kind == "summary":
            for value in point.quantile_values[:_LONGEST]:
                yield _PointValue(name, {**labels, "quantile": f"{value.quantile:g}"}, value.value)
        return
    field = point.WhichOneof("value")
    number = nan if field is None else float(getattr(point, field))
    yield _PointValue(name, labels, number, adds_up=kind == "sum" and data.is_monotonic)


def _per_second(number: float, interval: int, time: int) -> float:
    """Return what was added in an interval per second; NaN where the interval is not known."""
    if not 0 < interval < time:
        return nan
    rate = number / (interval / 1e9)
    return rate if isfinite(rate) else nan


def _labels(attributes: Any) -> dict[str, str]:
    check_labels(len(attributes))
    return {attribute.key: text for attribute in attributes if (text := _text(attribute.value))}


def _text(value: Any, depth: int = 0) -> str:
    kind = value.WhichOneof("value")
    plain = _TEXTS.get(kind)
    if plain is not None:
        return plain(getattr(value, kind))
    if kind is None or depth == _DEEPEST:
        return ""
    several = getattr(getattr(value, kind), "values", ())[:_LONGEST]
    if kind == "array_value":
        return f"[{','.join(_text(each, depth + 1) for each in several)}]"
    return f"{{{','.join(f'{each.key}:{_text(each.value, depth + 1)}' for each in several)}}}"


def _messages() -> Any:
    try:
        from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2
    except ImportError:
        error = MissingExtraError.of("otlp", "opentelemetry-proto")
        raise MissingLibraryError(error.message, hint=error.hint) from None
    return metrics_service_pb2


def _counted(request: Any, points: SeriesValues) -> int:
    """Return how many data points there are; a TooManyError if these, or others, are too many."""
    scopes = metrics = count = 0
    points.count(len(request.resource_metrics))
    for resource in request.resource_metrics:
        scopes += len(resource.scope_metrics)
        points.count(scopes)
        for scope in resource.scope_metrics:
            metrics += len(scope.metrics)
            points.count(metrics)
            for metric in scope.metrics:
                kind = metric.WhichOneof("data")
                count += 0 if kind is None else len(getattr(metric, kind).data_points)
                points.count(count)
    return count


def _from_protobuf(body: bytes, points: SeriesValues) -> Any:
    request = _messages().ExportMetricsServiceRequest()
    # Bytes that may be the tag of a part: the wire type is 2.
    points.check_parts(int(np.count_nonzero((np.frombuffer(body, np.uint8) & 0x87) == 2)))
    from google.protobuf.message import DecodeError

    try:
        request.ParseFromString(body)
    except (DecodeError, UnicodeDecodeError) as error:
        raise InputError(
            f"expected metrics of OTLP as protobuf, found {error}",
            hint="Content-Type: application/json is for JSON",
        ) from None
    return request


def _from_json(body: bytes, points: SeriesValues) -> Any:
    kind = _messages().ExportMetricsServiceRequest
    from google.protobuf import json_format

    try:
        content = json.loads(body)
        if not isinstance(content, dict):
            raise TypeError("no object")
        points.count(_most_points(content))  # before the slow part
        return json_format.ParseDict(content, kind(), ignore_unknown_fields=True)
    except InputError:
        raise
    except (json_format.ParseError, ValueError, TypeError, RecursionError, OverflowError) as error:
        raise InputError(
            f"expected metrics of OTLP as JSON, found something else: {str(error)[:150]}",
            hint='such as {"resourceMetrics": [...]}',
        ) from None


def _most_points(content: Any, depth: int = 0) -> int:
    """Return how many data points JSON has; other values may have some that count, too."""
    if isinstance(content, list):
        return sum(_most_points(each, depth) for each in content)
    if not isinstance(content, dict) or depth > _POINTS_DEPTH:
        return 0
    return sum(
        len(each)
        if key in ("dataPoints", "data_points") and isinstance(each, list)
        else _most_points(each, depth + 1)
        for key, each in content.items()
    )
