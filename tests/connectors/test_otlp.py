"""OTLP/HTTP metrics: bodies beside a slow twin, answers, and OpenTelemetry's own SDK."""

import gzip
import json
import math
import random
import time
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)

from newnormal.arrivals.arrival import Arrival
from newnormal.errors import InputError
from newnormal.io.decoders.base import QUERY, DecoderLimits, Refusal, TooManyError, UnknownFormError
from newnormal.io.decoders.otlp import OtlpDecoder
from newnormal.service.limits import LimitError, ServiceBusy
from newnormal.service.service import Service
from newnormal.testing import check_decoder
from tests.connectors.naive_series import Otlp, Row, odd
from tests.connectors.test_remote_write import rows
from tests.counts import count
from tests.errors import raised
from tests.service.asgi import Client
from tests.service.running import logged
from tests.service.seeds import each_seed

SECOND = 10**9
BEGIN = 1_767_225_600 * SECOND
PROTOBUF = {"content-type": "application/x-protobuf"}
JSON = {"content-type": "application/json"}
SHOP = {"service.name": "shop", "host.name": "web1"}
DELTA, CUMULATIVE = 1, 2

# As the collector writes it: the example of the protocol's own repository has these parts.
BY_HAND = """{
  "resourceMetrics": [{
    "resource": {"attributes": [
      {"key": "service.name", "value": {"stringValue": "shop"}},
      {"key": "host.name", "value": {"stringValue": "web1"}}
    ]},
    "scopeMetrics": [{
      "scope": {"name": "checkout", "version": "1.0.0", "attributes": []},
      "metrics": [
        {"name": "queue.length", "unit": "1", "description": "waiting", "gauge": {"dataPoints": [
          {"asInt": "7", "timeUnixNano": "1767225600000000000",
           "attributes": [{"key": "queue", "value": {"intValue": "3"}}],
           "exemplars": [{"asDouble": 1, "timeUnixNano": "1767225600000000000",
             "traceId": "5B8EFFF798038103D269B633813FC60C", "spanId": "EEE19B7EC3C1B174"}]}
        ]}},
        {"name": "load", "gauge": {"dataPoints": [
          {"asDouble": 0.5, "timeUnixNano": 1767225600000000000, "notKnownYet": {"a": [1]}}
        ]}},
        {"name": "broken", "gauge": {"dataPoints": [
          {"asDouble": "NaN", "timeUnixNano": "1767225600000000000"}
        ]}}
      ]
    }],
    "schemaUrl": "https://opentelemetry.io/schemas/1.4.0"
  }]
}"""


class Sent:
    """A request, built piece by piece; times in seconds since BEGIN."""

    def __init__(self, **attributes: Any) -> None:
        self.message: Any = ExportMetricsServiceRequest()
        self.resource(attributes or SHOP)

    def resource(self, attributes: Mapping[str, Any], scope: str = "") -> None:
        found = self.message.resource_metrics.add()
        add(found.resource.attributes, attributes)
        self.scope = found.scope_metrics.add()
        self.scope.scope.name = scope

    def gauge(self, name: str, second: float, value: Any, **attributes: Any) -> Any:
        data = self.scope.metrics.add(name=name).gauge
        return point(data, second, attributes, value)

    def sum(
        self,
        name: str,
        second: float,
        value: Any,
        *,
        start: float = -60,
        monotonic: bool = True,
        kind: int = CUMULATIVE,
        **attributes: Any,
    ) -> Any:
        data: Any = self.scope.metrics.add(name=name).sum
        data.is_monotonic, data.aggregation_temporality = monotonic, kind
        made = point(data, second, attributes, value)
        made.start_time_unix_nano = nanos(start)
        return made

    def body(self) -> bytes:
        return bytes(self.message.SerializeToString())

    def json(self) -> str:
        return json_format.MessageToJson(self.message)


def nanos(second: float) -> int:
    return BEGIN + round(second * SECOND)


def add(to: Any, attributes: Mapping[str, Any]) -> None:
    for key, value in attributes.items():
        made = to.add(key=key).value
        kinds = {bool: "bool_value", int: "int_value", float: "double_value", str: "string_value"}
        setattr(made, kinds[type(value)], value)


def point(data: Any, second: float, attributes: Mapping[str, Any], value: Any = None) -> Any:
    made = data.data_points.add(time_unix_nano=nanos(second))
    add(made.attributes, attributes)
    if isinstance(value, int):
        made.as_int = value
    elif value is not None:
        made.as_double = value
    return made


def decoder(**limits: int) -> OtlpDecoder:
    return OtlpDecoder(DecoderLimits(**limits), lambda: BEGIN)


def send(to: OtlpDecoder, sent: Sent, query: str = "", durable: bool = True) -> list[Row]:
    arrivals = to.decode(sent.body(), {**PROTOBUF, QUERY: query})
    if durable:
        to.response(arrivals, 1)
    return rows(arrivals)


def cells(to: OtlpDecoder, sent: Sent, query: str = "") -> dict[str, float | None]:
    """Return the values of a request that has one sample."""
    ((_, _, found),) = send(to, sent, query)
    return dict(found)


# --- what becomes of metrics


def test_json_is_read_as_a_collector_writes_it() -> None:
    (found,) = rows(decoder().decode(BY_HAND.encode(), JSON))
    assert found == (
        "shop/web1",
        BEGIN,
        (("broken", None), ("load", 0.5), ('queue.length{queue="3"}', 7.0)),
    )


def test_a_stream_is_an_instance_of_a_service() -> None:
    drawn = str(uuid.UUID(int=random.Random(1).getrandbits(128), version=4))
    known: list[tuple[dict[str, Any], str]] = [
        (SHOP, "shop/web1"),
        ({**SHOP, "service.namespace": "eu", "process.pid": 7}, "eu/shop/web1"),
        ({**SHOP, "service.instance.id": "shop-0"}, "shop/shop-0"),
        ({**SHOP, "service.instance.id": drawn}, "shop/web1"),  # another one at each start
        ({"service.name": "shop", "service.instance.id": drawn}, f"shop/{drawn}"),
        ({"host.name": "web1"}, "web1"),
        ({"process.pid": 7}, "other"),
    ]
    for attributes, stream in known:
        sent = Sent(**attributes)
        sent.gauge("load", 0, 1.0)
        assert send(decoder(), sent) == [(stream, BEGIN, (("load", 1.0),))]


@pytest.mark.parametrize(
    ("query", "stream", "channel"),
    [
        ("by=host.name", "inner", 'x{pool="a"}'),  # that of the point is the nearer one
        ("by=service.name,pool", "shop/a", 'x{host.name="inner"}'),
        ("without=pool", "shop/web1", 'x{host.name="inner"}'),
    ],
)
def test_the_address_says_what_a_stream_is(query: str, stream: str, channel: str) -> None:
    sent = Sent()
    sent.gauge("x", 0, 1.0, **{"pool": "a", "host.name": "inner"})
    (found,) = send(decoder(), sent, query)
    assert found == (stream, BEGIN, ((channel, 1.0),))


def test_attributes_are_shown_whatever_they_are() -> None:
    sent = Sent()
    made = sent.gauge("x", 0, 1, on=True, size=3, share=0.25, empty="")
    inner = made.attributes.add(key="list").value.array_value.values
    inner.add().int_value = 1
    inner.add().bytes_value = b"\xff"
    pairs = made.attributes.add(key="map").value.kvlist_value.values
    pairs.add(key="k").value.bool_value = False
    made.attributes.add(key="none")
    assert cells(decoder(), sent) == {
        'x{list="[1,ff]",map="{k:false}",on="true",share="0.25",size="3"}': 1.0
    }


def test_rates_can_be_left_out() -> None:
    sent = Sent()
    sent.sum("hits", 0, 10)
    sent.sum("added", 0, 20, kind=DELTA)
    assert cells(decoder(), sent, "rates=no") == {"hits": 10.0, "added": 20.0}


def test_channels_whose_clocks_were_read_one_after_the_other_are_one_sample() -> None:
    sent = Sent()
    for number in range(5):
        sent.gauge(f"m{number}", number / 1000, 1.0)
    ((stream, moment, found),) = send(decoder(), sent)
    assert (stream, moment, len(found)) == ("shop/web1", BEGIN, 5)


def test_counters_of_two_resources_or_scopes_are_two() -> None:
    to = decoder()
    for second in (0, 10):
        sent = Sent(**SHOP, pid=1)
        sent.sum("hits", second, 100 + second)
        sent.resource({**SHOP, "pid": 2})
        sent.sum("hits", second + 1, 2 * second)
        sent.resource({**SHOP, "pid": 1}, scope="inner")
        sent.sum("hits", second + 2, 3 * second)
        found = send(to, sent)
    assert [each[2] for each in found] == [(("rate(hits)", rate),) for rate in (1.0, 2.0, 3.0)]


def test_a_scope_named_like_a_piece_of_a_resource_has_counters_of_its_own() -> None:
    to, process = decoder(), Sent(**SHOP, pid=1)
    whole = process.message.resource_metrics[0].resource.SerializeToString()
    piece = whole[len(Sent().message.resource_metrics[0].resource.SerializeToString()) :]
    forged = Sent()
    forged.scope.scope.name = piece.decode()
    process.sum("hits", 0, 10)
    forged.sum("hits", 5, 1_000_000)
    assert send(to, process) == send(to, forged) == []
    process = Sent(**SHOP, pid=1)
    process.sum("hits", 10, 30)
    assert cells(to, process) == {"rate(hits)": 2.0}


def test_a_request_that_is_sent_again_before_it_was_durable_is_the_same() -> None:
    to = decoder()
    first, second = Sent(), Sent()
    first.sum("hits", 0, 10)
    second.sum("hits", 10, 30)
    send(to, first)
    assert send(to, second, durable=False) == send(to, second) != []
    assert send(to, second) == []


# --- beside the twin


class Sender:
    """Requests of random metrics."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.second = 0.0

    def request(self) -> Sent:
        draw = self.draw
        self.second += draw.choice([0, 1, 10, 60])
        sent = Sent(**self.resource())
        for _ in range(draw.randint(1, 10)):
            if draw.random() < 0.2:
                sent.resource(self.resource(), draw.choice(["", "lib"]))
            self.metric(sent)
        return sent

    def resource(self) -> dict[str, Any]:
        known = {
            "service.name": "shop",
            "service.namespace": "eu",
            "host.name": "web1",
            "service.instance.id": self.draw.choice(["shop-1", str(uuid.UUID(int=5))]),
            "process.pid": 7,
        }
        return {key: value for key, value in known.items() if self.draw.random() < 0.6} or {"a": 1}

    def metric(self, sent: Sent) -> None:
        draw = self.draw
        kind = draw.choice(["gauge", "sum", "histogram", "exponential_histogram", "summary"])
        metric = sent.scope.metrics.add(name=draw.choice(["a", "b.c"]) + kind)
        data = getattr(metric, kind)
        data.SetInParent()
        if kind not in ("gauge", "summary"):
            data.aggregation_temporality = draw.choice([DELTA, CUMULATIVE])
        if kind == "sum":
            data.is_monotonic = draw.random() < 0.7
        for _ in range(draw.randint(0, 3)):
            attributes = {"on": draw.random() < 0.5} if draw.random() < 0.5 else {}
            second = self.second + draw.choice([0, 0, 0.02, 1])
            made = point(data, second, attributes)
            made.start_time_unix_nano = draw.choice([0, nanos(-60), nanos(second - 10)])
            made.flags = int(draw.random() < 0.1)
            self.fill(kind, made)

    def fill(self, kind: str, made: Any) -> None:
        draw = self.draw
        number = draw.choice([0.0, 1.5, 7.0, 20.0, math.nan, math.inf])
        if kind in ("gauge", "sum"):
            if draw.random() < 0.5:
                made.as_int = draw.randint(0, 50)
            elif draw.random() < 0.9:
                made.as_double = number
            return
        made.count = draw.randint(0, 50)
        if draw.random() < 0.7:
            made.sum = number
        if kind == "summary":
            made.quantile_values.add(quantile=0.5, value=number)


@pytest.mark.cases(60, 2000)
def test_any_request_is_read_as_its_twin_reads_it_in_both_forms(cases: range) -> None:
    cells: list[tuple[str, float | None]] = []

    def case(seed: int) -> None:
        sender, twin = Sender(seed), Otlp()
        binary, text = decoder(), decoder()
        for _ in range(5):
            sent = sender.request()
            expected = twin.rows(sent.json())
            cells.extend(cell for _, _, found in expected for cell in found)
            for to, body, headers in (
                (binary, sent.body(), PROTOBUF),
                (text, sent.json().encode(), JSON),
            ):
                arrivals = to.decode(body, headers)
                assert sorted(rows(arrivals), key=repr) == expected
                to.response(arrivals, 1)

    each_seed(cases, case)
    rates = [value for name, value in cells if name.startswith("rate(")]
    assert sum(value is not None for value in rates) > 300
    assert sum(value is None for _, value in cells) > 200


# --- answers


@pytest.mark.parametrize("headers", [PROTOBUF, JSON])
def test_the_answer_has_the_form_of_the_request(headers: dict[str, str]) -> None:
    sent = Sent()
    sent.gauge("a", 0, 1.0)
    sent.gauge("b", 0, 1.0)
    sent.gauge("c", 0, 1.0).time_unix_nano = 0
    to = decoder()
    body = sent.json().encode() if headers is JSON else sent.body()
    arrivals = to.decode(body, headers)
    reply = to.response(arrivals, 1, [Refusal(arrivals[0], "later\nhint: wait")])
    assert (reply.media, reply.status) == (headers["content-type"], None)
    answer = ExportMetricsServiceResponse()
    if headers is JSON:
        json_format.Parse(reply.body, answer)
    else:
        answer.ParseFromString(reply.body)
    assert answer.partial_success.rejected_data_points == 3
    assert answer.partial_success.error_message == "metric 'c': expected a time, found 0"
    good = to.decode(b"{}" if headers is JSON else b"", headers)  # nothing was measured
    assert to.response(good, 1).body == (b"{}" if headers is JSON else b"")


def test_times_beyond_what_can_be_are_refused() -> None:
    sent = Sent()
    sent.gauge("a", 0, 1.0).time_unix_nano = 2**64 - 1
    to = decoder()
    arrivals = to.decode(sent.body(), PROTOBUF)
    assert list(arrivals) == []
    answer = ExportMetricsServiceResponse.FromString(to.response(arrivals, 1).body)
    assert answer.partial_success.error_message == (
        "metric 'a': expected a time, found 18446744073709551615"
    )


# --- what is refused


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "expected metrics of OTLP as JSON, found something else: Expecting value"),
        (b"[]", "expected metrics of OTLP as JSON, found something else: no object"),
        (b"7", "expected metrics of OTLP as JSON"),
        (b'{"resourceMetrics": {"a": 1}}', "expected metrics of OTLP as JSON"),
        (b'{"resourceMetrics": [7]}', "expected metrics of OTLP as JSON"),
        (b"\xff\xfe", "expected metrics of OTLP as JSON"),
        (b"[" * 100_000, "expected metrics of OTLP as JSON"),
        (BY_HAND.replace('"7"', '"seven"').encode(), "expected metrics of OTLP as JSON"),
        (BY_HAND.replace('"7"', "9" * 400).encode(), "expected metrics of OTLP as JSON"),
        (BY_HAND.replace('"7"', "9" * 5000).encode(), "expected metrics of OTLP as JSON"),
    ],
)
def test_what_is_no_json_of_metrics_is_refused(body: bytes, message: str) -> None:
    error = raised(InputError, lambda: decoder().decode(body, JSON))
    assert error.message.startswith(message)
    assert error.hint == 'such as {"resourceMetrics": [...]}'


def test_values_within_each_other_are_refused_or_cut() -> None:
    inner: Any = {"intValue": "1"}
    for _ in range(60):
        inner = {"arrayValue": {"values": [inner]}}
    given = json.loads(BY_HAND)
    given["resourceMetrics"][0]["resource"]["attributes"].append({"key": "deep", "value": inner})
    with pytest.raises(InputError, match="expected metrics of OTLP as JSON"):
        decoder().decode(json.dumps(given).encode(), JSON)


def test_a_name_that_many_points_have_takes_no_longer_where_it_is_long() -> None:
    sent = Sent(**{"service.name": "s" * 1_000_000})
    for name in ("a", "b"):
        data = sent.scope.metrics.add(name=name * 1_000_000).gauge
        for second in range(500):
            point(data, second, {}, 1.0)
    began = time.process_time()
    (found,) = decoder().decode(sent.body(), PROTOBUF)
    assert time.process_time() - began < 2.0  # s; otherwise 10
    assert len(found.channels) == 2 and max(map(len, (found.stream, *found.channels))) == 200


def test_other_forms_are_refused() -> None:
    with pytest.raises(UnknownFormError) as caught:
        decoder().decode(b"", {"content-type": "application/grpc"})
    assert caught.value.message == (
        "Content-Type: expected application/x-protobuf or application/json, "
        "found 'application/grpc'"
    )
    assert caught.value.hint == "this address takes OTLP/HTTP; OTLP over gRPC is not taken"
    with pytest.raises(InputError, match="expected metrics of OTLP as protobuf, found") as other:
        decoder().decode(BY_HAND.encode(), PROTOBUF)
    assert other.value.hint == "Content-Type: application/json is for JSON"


def test_more_points_than_allowed_are_refused() -> None:
    sent = Sent()
    for second in range(3):
        sent.gauge("a", second, 1.0)
    for body, headers in ((sent.body(), PROTOBUF), (sent.json().encode(), JSON)):
        with pytest.raises(TooManyError, match="expected at most 2 samples, found more"):
            decoder(samples=2).decode(body, headers)
        assert decoder(samples=3).decode(body, headers)


def test_points_of_json_are_counted_before_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def parse(*_: object, **__: object) -> None:
        raise AssertionError("they were read")

    monkeypatch.setattr(json_format, "ParseDict", parse)
    with pytest.raises(TooManyError):
        decoder(samples=2).decode(BY_HAND.encode(), JSON)


def test_a_small_body_never_becomes_many_objects() -> None:
    """A part of two bytes takes 30 and more once it is read, and time of the service."""
    with pytest.raises(TooManyError, match="found one of more than 64 parts for each"):
        decoder(samples=10_000).decode(b"\x0a\x00" * 4_000_000, PROTOBUF)
    sent = Sent()
    made = sent.gauge("a", 0, 1.0)
    add(made.attributes, {f"a{number}": 1 for number in range(1001)})
    with pytest.raises(InputError, match="at most 1,000 labels of a series, found 1,001"):
        decoder().decode(sent.body(), PROTOBUF)
    for level in ("resource", "scope", "metric"):
        many = Sent()
        for _ in range(11):
            if level == "resource":
                many.message.resource_metrics.add()
            elif level == "scope":
                many.message.resource_metrics[0].scope_metrics.add()
            else:
                many.scope.metrics.add(name="a")
        with pytest.raises(TooManyError, match="expected at most 10 samples, found more"):
            decoder(samples=10).decode(many.body(), PROTOBUF)
    long = Sent()
    brief = point(long.scope.metrics.add(name="old").summary, 0, {})
    for number in range(500):
        brief.quantile_values.add(quantile=number / 500, value=1.0)
    values = brief.attributes.add(key="list").value.array_value.values
    for _ in range(500):
        values.add().int_value = 1
    assert len(cells(decoder(), long)) == 102


def test_a_stream_with_too_many_channels_is_refused_alone() -> None:
    sent = Sent()
    for name in "abc":
        sent.gauge(name, 0, 1.0)
    sent.resource({"service.name": "other"})
    sent.gauge("a", 0, 1.0)
    to = decoder(channels=2)
    arrivals = to.decode(sent.body(), PROTOBUF)
    assert [each.stream for each in arrivals] == ["other"]
    answer = ExportMetricsServiceResponse.FromString(to.response(arrivals, 1).body)
    assert answer.partial_success.rejected_data_points == 3
    assert answer.partial_success.error_message.startswith("stream 'shop/web1': expected at most 2")


def test_any_bytes_are_read_or_refused() -> None:
    draw = random.Random(2)
    to, sender = decoder(samples=100), Sender(4)
    for _ in range(count(800, 30_000)):
        sent = sender.request()
        as_json = draw.random() < 0.5
        body = bytearray(sent.json().encode() if as_json else sent.body())
        for _ in range(draw.randint(0, 4)):
            spot = draw.randrange(len(body))
            body[spot] = draw.choice(b'0{}[]":,\xffn') if as_json else draw.randrange(256)
        if not as_json and draw.random() < 0.3:
            body = bytearray(odd(draw, bytes(body)))
        if draw.random() < 0.2:
            body = body[: draw.randint(0, len(body))]
        if draw.random() < 0.1:
            body = bytearray(draw.randbytes(draw.randint(0, 60)))
        try:
            arrivals = to.decode(bytes(body), JSON if as_json else PROTOBUF)
        except InputError:
            continue
        for _, _, found in rows(arrivals):
            assert all(value is None or math.isfinite(value) for _, value in found)


def test_it_keeps_what_a_decoder_promises() -> None:
    sent = Sent()
    for second in (0, 10):
        sent.gauge("a", second, 1.0)
        sent.sum("b", second, second)
    check_decoder(OtlpDecoder, [sent.body()], PROTOBUF)
    check_decoder(OtlpDecoder, [sent.json().encode(), BY_HAND.encode()], JSON)


# --- through the service's interface


def test_metrics_are_answered_once_they_are_durable(client: Client, service: Service) -> None:
    sent = Sent()
    sent.gauge("a", 0, 1.0)
    found = client.post("/v1/metrics", content=sent.body(), headers=PROTOBUF)
    assert (found.status_code, found.content) == (200, b"")
    assert found.headers["content-type"] == "application/x-protobuf"
    packed = gzip.compress(BY_HAND.encode())
    found = client.post("/v1/metrics", content=packed, headers={**JSON, "content-encoding": "gzip"})
    assert (found.status_code, found.json()) == (200, {})
    assert found.headers["content-type"] == "application/json"
    assert [each.arrivals[0].stream for each in logged(service)] == ["shop/web1"] * 2


def test_what_is_good_is_durable_where_a_stream_is_refused(
    client: Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def push(arrivals: Sequence[Arrival], **_: object) -> Future[int]:
        if any(each.stream == "shop/web1" for each in arrivals):
            raise LimitError("expected at most 9 streams, found 10")
        done: Future[int] = Future()
        done.set_result(5)
        return done

    monkeypatch.setattr(service, "push", push)
    sent = Sent()
    sent.gauge("a", 0, 1.0)
    sent.resource({"service.name": "other"})
    sent.gauge("a", 0, 1.0)
    found = client.post("/v1/metrics", content=sent.json(), headers=JSON)
    assert found.status_code == 200
    assert found.json() == {
        "partialSuccess": {
            "rejectedDataPoints": "1",
            "errorMessage": "expected at most 9 streams, found 10",
        }
    }


def test_a_service_that_is_behind_has_metrics_sent_again(
    client: Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def push(arrivals: object, **_: object) -> Future[int]:
        raise ServiceBusy("behind")

    monkeypatch.setattr(service, "push", push)
    found = client.post("/v1/metrics", content=BY_HAND, headers=JSON)
    assert found.status_code == 503 and found.headers["retry-after"] == "1"
