"""The slow, obvious twins of the decoders of series: remote write from its bytes, OTLP from JSON.

Neither uses protobuf, nor the names, rates or samples of the library.
"""

import json
import math
import random
import struct
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

TOGETHER = 100_000_000  # ns
PATIENCE = 30_000_000_000  # ns


class Point(NamedTuple):
    """A value as it was sent; None: missing."""

    stream: str
    channel: str
    time: int
    value: float | None


Row = tuple[str, int, tuple[tuple[str, float | None], ...]]


# --- samples


def rows_of(points: Sequence[Point]) -> list[Row]:
    """Return the samples of points: stream, time, and channels with their values."""
    found: list[Row] = []
    for stream in {each.stream for each in points}:
        of_time: dict[int, dict[str, float | None]] = {}
        for point in points:
            if point.stream == stream:  # the last one counts
                of_time.setdefault(point.time, {})[point.channel] = point.value
        begun, sample = min(of_time), dict[str, float | None]()
        for time, cells in [*sorted(of_time.items()), (2**63, {})]:
            if time - begun > TOGETHER or cells.keys() & sample.keys():
                if any(value is not None for value in sample.values()):
                    found.append((stream, begun, tuple(sorted(sample.items()))))
                begun, sample = time, {}
            sample |= cells
    return sorted(found, key=repr)


def named(stream: Sequence[str], name: str, labels: Mapping[str, str]) -> tuple[str, str]:
    parts = [f'{key}="{value}"' for key, value in sorted(labels.items())]
    return "/".join(stream) or "other", name + ("{" + ",".join(parts) + "}" if parts else "")


class Counters:
    """Counters as rates: the last value of each."""

    def __init__(self) -> None:
        self.last: dict[Any, tuple[int, float]] = {}

    def rate(self, key: Any, time: int, value: float) -> float | None:
        if not math.isfinite(value):
            return None
        before = self.last.get(key)
        if before is not None and time <= before[0]:
            return None
        self.last[key] = (time, value)
        if before is None:
            return None
        added = value if value < before[1] else value - before[1]
        return added / ((time - before[0]) / 1e9)


# --- remote write


def fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """Give the fields of a message of protobuf: number and bytes, or an integer."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        number, kind = divmod(varint(), 8)
        if kind == 0:
            yield number, varint()
        else:
            size = {1: 8, 5: 4}.get(kind) or varint() if kind != 2 else varint()
            yield number, message[at : at + size]
            at += size


def odd(draw: random.Random, message: bytes) -> bytes:
    """Return a message with something in it that no sender writes, though protobuf may allow it."""
    tag, piece = bytes([draw.choice((0x0A, 0x12, 0x1A, 0x2A, 0x32, 0x3A))]), b""
    match draw.randrange(3):
        case 0:  # a number that does not end soon
            piece = tag + b"\xff" * draw.choice((1, 5, 9, 10, 1000)) + b"\x01"
        case 1:  # messages within each other
            for _ in range(draw.choice((5, 99, 101, 1000))):
                size = len(piece)
                piece = tag + bytes([size % 128 | 128, size >> 7 & 127 | 128, size >> 14]) + piece
        case 2:  # messages without anything
            piece = (tag + b"\0") * draw.choice((1, 100, 10_000))
    at = draw.choice((0, len(message), draw.randint(0, len(message))))
    return message[:at] + piece + message[at:]


class RemoteWrite:
    """What one sender has sent.

    Parameters
    ----------
    by, without, rates, buckets
        As the address of the decoder has them.
    """

    def __init__(
        self,
        by: Sequence[str] = ("job", "instance"),
        without: Sequence[str] = (),
        *,
        rates: Sequence[str] = (),
        buckets: bool = False,
    ) -> None:
        self.by, self.without, self.patterns = by, without, rates
        self.rates, self.buckets = rates != ("no",), buckets
        self.counters = Counters()
        self.names: set[tuple[str, str]] = set()  # of each stream
        self.first: dict[Any, int] = {}

    def rows(self, request: bytes) -> list[Row]:
        """Return the samples of a request, which is decompressed."""
        series = [self._series(each) for number, each in fields(request) if number == 1]
        self.names |= {(self._stream(labels), labels.get("__name__", "")) for labels, _ in series}
        points: list[Point] = []
        for labels, samples in series:
            points += self._points(labels, samples)
        return rows_of(points)

    def _series(self, message: bytes) -> tuple[dict[str, str], list[tuple[int, float]]]:
        labels, samples = {}, []
        for number, part in fields(message):
            inner = dict(fields(part))
            if number == 1:
                labels[inner.get(1, b"").decode()] = inner.get(2, b"").decode()
            elif number == 2:
                time = inner.get(2, 0)
                time -= 2**64 if time >= 2**63 else 0
                samples.append((time * 10**6, struct.unpack("<d", inner.get(1, bytes(8)))[0]))
        return {key: value for key, value in labels.items() if value}, samples

    def _stream(self, labels: Mapping[str, str]) -> str:
        return named([labels[each] for each in self.by if each in labels], "", {})[0]

    def _points(
        self, labels: Mapping[str, str], samples: Sequence[tuple[int, float]]
    ) -> Iterator[Point]:
        name = labels.get("__name__", "")
        bucket = name.endswith("_bucket") and "le" in labels
        if bucket and not self.buckets:
            return
        own = [labels[each] for each in self.by if each in labels]
        left_out = {*self.by, *self.without, "__name__"}
        rest = {key: value for key, value in labels.items() if key not in left_out}
        stream, channel = named(own, name, rest)
        key = tuple(sorted(labels.items()))
        base = name.removesuffix("_count").removesuffix("_sum")
        pair = base not in ("", name)
        both = {(stream, f"{base}_count"), (stream, f"{base}_sum")} <= self.names
        counter = bucket or name.endswith("_total") or (pair and both)
        counter = counter or any(fnmatchcase(name, each) for each in self.patterns)
        pair = pair and not counter
        for time, sent in samples:
            value: float | None = sent if math.isfinite(sent) else None
            if self.rates and counter:
                yield Point(stream, f"rate({channel})", time, self.counters.rate(key, time, sent))
                continue
            if self.rates and pair and time < self.first.setdefault(key, time) + PATIENCE:
                self.counters.rate(key, time, sent)
                continue
            yield Point(stream, channel, time, value)


# --- OTLP


class Otlp:
    """What one sender has sent as JSON, by default."""

    def __init__(self) -> None:
        self.counters = Counters()

    def rows(self, text: str) -> list[Row]:
        points: list[Point] = []
        for resource in json.loads(text).get("resourceMetrics", []):
            attributes = texts(resource.get("resource", {}).get("attributes", []))
            instance = attributes.get("service.instance.id", "")
            if not instance or (len(instance) == 36 and instance.count("-") == 4):
                instance = attributes.get("host.name", instance)
            own = [attributes.get(f"service.{each}", "") for each in ("namespace", "name")]
            stream = [each for each in (*own, instance) if each]
            for scope in resource.get("scopeMetrics", []):
                key = (json.dumps(attributes), scope.get("scope", {}).get("name", ""))
                for metric in scope.get("metrics", []):
                    points += self._metric(stream, key, metric)
        return rows_of(points)

    def _metric(
        self, stream: Sequence[str], key: Any, metric: Mapping[str, Any]
    ) -> Iterator[Point]:
        for kind in ("gauge", "sum", "histogram", "exponentialHistogram", "summary"):
            data = metric.get(kind, {})
            for point in data.get("dataPoints", []):
                for name, labels, value, adds_up in numbers(metric["name"], kind, data, point):
                    place, channel = named(stream, name, labels)
                    time = int(point["timeUnixNano"])
                    start = int(point.get("startTimeUnixNano", 0))
                    missing = point.get("flags", 0) & 1 or not math.isfinite(value)
                    if not adds_up:
                        yield Point(place, channel, time, None if missing else value)
                        continue
                    sent = math.nan if missing else value
                    rate: float | None
                    if delta(data):
                        known = start and start < time and not missing
                        rate = sent / ((time - start) / 1e9) if known else None
                    else:
                        rate = self.counters.rate((key, place, channel), time, sent)
                    yield Point(place, f"rate({channel})", time, rate)


def delta(data: Mapping[str, Any]) -> bool:
    return data.get("aggregationTemporality") in (1, "AGGREGATION_TEMPORALITY_DELTA")


def numbers(
    name: str, kind: str, data: Mapping[str, Any], point: Mapping[str, Any]
) -> Iterator[tuple[str, dict[str, str], float, bool]]:
    labels = texts(point.get("attributes", []))
    if kind in ("gauge", "sum"):
        value = float(point.get("asDouble", point.get("asInt", "nan")))
        yield name, labels, value, kind == "sum" and (data.get("isMonotonic", False) or delta(data))
        return
    yield f"{name}_count", labels, float(point.get("count", 0)), True
    if "sum" in point or kind == "summary":
        yield f"{name}_sum", labels, float(point.get("sum", 0)), True
    for each in point.get("quantileValues", []):
        own = {**labels, "quantile": f"{each.get('quantile', 0):g}"}
        yield name, own, float(each.get("value", 0)), False


def texts(attributes: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    found = {}
    for each in attributes:
        ((kind, value),) = each["value"].items()
        text = str(value).lower() if kind == "boolValue" else str(value)
        if text:
            found[each["key"]] = text
    return found
