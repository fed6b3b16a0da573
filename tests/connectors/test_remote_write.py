"""Prometheus' remote write: its bodies beside a slow twin, its answers, and a real Prometheus."""

import base64
import json
import math
import random
import struct
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from newnormal.arrivals.arrival import Arrival
from newnormal.arrivals.order import Order
from newnormal.errors import InputError, StateError
from newnormal.io import remote_write
from newnormal.io.decoders import remote_write as module
from newnormal.io.decoders.base import QUERY, DecoderLimits, Refusal, TooManyError, UnknownFormError
from newnormal.io.decoders.remote_write import RemoteWriteDecoder
from newnormal.service.config import TokenConfig, hash_token
from newnormal.service.limits import LimitError, ServiceBusy
from newnormal.service.service import Service
from newnormal.testing import check_decoder
from tests.connectors.naive_series import RemoteWrite, Row, odd
from tests.counts import count
from tests.service.asgi import API, Client
from tests.service.plant import plant
from tests.service.running import logged
from tests.service.seeds import each_seed

BEGIN = 1_767_225_600_000  # ms
HEADERS = {each.lower(): value for each, value in remote_write.HEADERS.items()}
NODE = {"job": "node", "instance": "db1:9100"}
STALE = struct.unpack("<d", struct.pack("<Q", remote_write.STALE))[0]

Series = tuple[str, Mapping[str, str], Sequence[tuple[float, float]]]


def plain(*series: Series) -> bytes:
    """Return a request; times in seconds since BEGIN."""
    request = remote_write.request_kind()()
    for name, labels, samples in series:
        each = request.timeseries.add()
        for key, value in sorted({"__name__": name, **labels}.items()):
            each.labels.add(name=key, value=value)
        for second, number in samples:
            each.samples.add(value=number, timestamp=BEGIN + round(second * 1000))
    return bytes(request.SerializeToString())


def packed(request: bytes) -> bytes:
    return bytes(remote_write._snappy().compress_raw(request))


def body(*series: Series) -> bytes:
    return packed(plain(*series))


class Reading(RemoteWriteDecoder):
    """Reads bodies as they were sent."""

    def decode(self, body: bytes, headers: Mapping[str, str]) -> Sequence[Arrival]:
        return super().decode(self.unpack(body, headers), headers)


def decoder(**limits: int) -> RemoteWriteDecoder:
    return Reading(DecoderLimits(**limits), lambda: BEGIN * 10**6)


def send(
    to: RemoteWriteDecoder, *series: Series, query: str = "", durable: bool = True
) -> list[Row]:
    arrivals = to.decode(body(*series), {**HEADERS, QUERY: query})
    if durable:
        to.response(arrivals, 1)
    return rows(arrivals)


def rows(arrivals: Sequence[Arrival]) -> list[Row]:
    found: list[Row] = []
    for arrival in arrivals:
        assert arrival.times.dtype == np.int64 and arrival.values.dtype == np.float64
        assert arrival.values.shape == (len(arrival.times), len(arrival.channels))
        for moment, values in zip(arrival.times.tolist(), arrival.values.tolist(), strict=True):
            cells = zip(arrival.channels, values, strict=True)
            named = sorted((key, None if math.isnan(value) else value) for key, value in cells)
            found.append((arrival.stream, moment, tuple(named)))
    return found


def at(second: float) -> int:
    return (BEGIN + round(second * 1000)) * 10**6


# --- what becomes of series


def test_a_scrape_is_a_sample_of_each_target() -> None:
    other = {**NODE, "instance": "db2:9100"}
    found = send(
        decoder(),
        ("node_load1", NODE, [(0, 0.5)]),
        ("node_cpu", {**NODE, "cpu": "0", "mode": "idle"}, [(0, 7.0)]),
        ("node_load1", other, [(0, 1.5)]),
    )
    assert found == [
        ("node/db1:9100", at(0), (('node_cpu{cpu="0",mode="idle"}', 7.0), ("node_load1", 0.5))),
        ("node/db2:9100", at(0), (("node_load1", 1.5),)),
    ]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (
            "job=node",
            "address: expected by, without, rates or buckets behind the question mark, found 'job'",
        ),
        ("by=", "address: by: expected names with commas between them, found ''"),
        ("by=job,,instance", "by: expected names with commas between them, found 'job,,instance'"),
        ("by=" + ",".join("a" * 101), "address: expected at most 100 names"),
        ("buckets=1", "address: buckets: expected yes or no, found '1'"),
        ("by=a&without=a", "address: expected a label in by or in without, found a in both"),
        ("%ff" * 90 + "=1", "found '" + "\\ufffd" * 9),
    ],
)
def test_an_address_that_is_not_known_is_refused(query: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        send(decoder(), ("x", NODE, [(0, 1.0)]), query=query)
    assert message in caught.value.message and len(caught.value.message) < 200


def test_a_request_that_is_sent_again_before_it_was_durable_is_the_same() -> None:
    to = decoder()
    send(to, ("hits_total", NODE, [(0, 10.0)]))
    again = ("hits_total", NODE, [(10, 30.0), (20, 40.0)])
    assert send(to, again, durable=False) == send(to, again) != []
    assert send(to, again) == []  # it was durable: there is nothing to add


def test_senders_with_other_addresses_have_counters_of_their_own() -> None:
    to = decoder()
    for query in ("", "by=instance"):
        send(to, ("hits_total", NODE, [(0, 10.0)]), query=query)
    for query in ("", "by=instance"):
        ((_, _, cells),) = send(to, ("hits_total", NODE, [(10, 30.0)]), query=query)
        assert [value for _, value in cells] == [2.0]


def test_replicas_that_share_a_channel_have_counters_of_their_own() -> None:
    to = decoder()
    one, two = ({**NODE, "replica": name} for name in "ab")
    query = "without=replica"
    send(to, ("hits_total", one, [(0, 10.0)]), ("hits_total", two, [(5, 1000.0)]), query=query)
    found = send(
        to, ("hits_total", one, [(10, 30.0)]), ("hits_total", two, [(15, 1020.0)]), query=query
    )
    assert [cells for _, _, cells in found] == [(("rate(hits_total)", 2.0),)] * 2


def test_a_count_waits_for_a_sum_that_comes_in_the_next_request() -> None:
    to = decoder()
    for second in (0, 15):
        first = [
            send(to, ("wait_count", NODE, [(second, 3.0 * second)])) for _ in range(2)
        ]  # the request is repeated
        then = send(to, ("wait_sum", NODE, [(second, 6.0 * second)]))
        if not second:
            assert first == [[], []] and then == []
    assert first[0] == [("node/db1:9100", at(15), (("rate(wait_count)", 3.0),))]
    assert then == [("node/db1:9100", at(15), (("rate(wait_sum)", 6.0),))]


def test_a_count_of_one_host_decides_nothing_about_the_sum_of_another() -> None:
    to, other = decoder(), {**NODE, "instance": "db2:9100"}
    assert send(to, ("queue_sum", NODE, [(0, 5.0)])) == []  # a count may come
    for second in (40, 80):
        found = send(to, ("queue_sum", NODE, [(second, 5.0)]))
        assert found == [("node/db1:9100", at(second), (("queue_sum", 5.0),))]
        send(to, ("queue_count", other, []), ("queue_sum", other, [(0, 1.0)]))


def test_labels_in_one_piece_do_not_stand_for_another_host_s_labels() -> None:
    """All labels as one: protobuf takes the last name and value of it alone."""
    to, series = decoder(), ("load", NODE, [(0, 1.0)])
    forged = raw(plain(series))
    joined = b"".join(forged.timeseries[0].labels)
    del forged.timeseries[0].labels[:], forged.timeseries[0].samples[:]
    forged.timeseries[0].labels.append(joined)
    to.response(to.decode(remote_write.pack(forged), HEADERS), 1)
    assert (
        send(to, series) == send(decoder(), series) == [("node/db1:9100", at(0), (("load", 1.0),))]
    )


def raw(request: bytes) -> Any:
    """Return a request whose labels are bytes."""
    return remote_write.parse(request, remote_write.raw_kind())


@settings(max_examples=count(50, 2000), deadline=None)
@given(st.data())
def test_what_was_sent_before_changes_no_series_with_other_labels(data: st.DataObject) -> None:
    """The same bytes of labels, cut into labels at two sets of places."""
    text = st.sampled_from(["", "a", "b", "le", "job", "instance", "__name__", "x_sum"])
    sent: Series = ("x", data.draw(st.dictionaries(text, text, max_size=4)), [(40, 1.0)])
    both = [raw(plain(sent)) for _ in range(2)]
    pieces = list(both[0].timeseries[0].labels)
    ends = st.lists(st.booleans(), min_size=len(pieces), max_size=len(pieces))
    for request in both:
        labels = [b""]
        for piece, ends_here in zip(pieces, data.draw(ends), strict=True):
            labels[-1] += piece
            labels += [b""] * ends_here
        del request.timeseries[0].labels[:]
        request.timeseries[0].labels.extend(filter(None, labels))
    bodies = [remote_write.pack(request) for request in both]
    to = decoder()
    to.decode(bodies[0], HEADERS)
    assert rows(to.decode(bodies[1], HEADERS)) == rows(decoder().decode(bodies[1], HEADERS))


def test_a_sample_has_the_channels_that_were_sent_for_it() -> None:
    """Else a scrape that two requests share would look complete in the first one."""
    to = decoder()
    arrivals = to.decode(
        body(
            ("a", NODE, [(10, 1.0), (20, 2.0), (30, 3.0)]),
            ("b", NODE, [(0, 1.0), (10, 2.0), (20, 3.0)]),
        ),
        HEADERS,
    )
    assert [(each.channels, len(each.times)) for each in arrivals] == [
        (("b",), 1),
        (("a", "b"), 2),
        (("a",), 1),
    ]


def test_times_that_hardly_differ_are_one_sample() -> None:
    found = send(
        decoder(), ("a", NODE, [(0.0, 1.0), (0.5, 2.0)]), ("b", NODE, [(0.1, 3.0), (0.601, 4.0)])
    )
    assert found == [
        ("node/db1:9100", at(0), (("a", 1.0), ("b", 3.0))),
        ("node/db1:9100", at(0.5), (("a", 2.0),)),
        ("node/db1:9100", at(0.601), (("b", 4.0),)),
    ]


def test_metadata_exemplars_and_native_histograms_are_ignored() -> None:
    request = remote_write.request_kind()()
    request.metadata.add(type=1, family="a")
    request.ParseFromString(request.SerializeToString() + plain(("a", NODE, [(0, 1.0)])))
    series = request.timeseries[0].SerializeToString()
    series += b"\x1a\x04\x09abc" + b"\x22\x02\x08\x07"  # fields 3 and 4
    found = decoder().decode(packed(b"\x0a" + bytes([len(series)]) + series), HEADERS)
    assert rows(found) == [("node/db1:9100", at(0), (("a", 1.0),))]
    metadata = remote_write.request_kind()()
    metadata.metadata.add(type=1, family="a")
    assert list(decoder().decode(remote_write.pack(metadata), HEADERS)) == []


# --- beside the twin

NAMES = ["up", "load", "hits_total", "wait_count", "wait_sum", "n_count", "w_bucket", "vm_in"]
VALUES = [0.0, 1.5, -3.0, 1e300, math.nan, math.inf, STALE, 7.0, 8.0, 9.0]


class Sender:
    """Requests of random series, each with a few samples in their order, or not."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.second = 0.0

    def request(self) -> bytes:
        draw = self.draw
        self.second += draw.choice([0, 1, 15, 40])
        series: list[Series] = []
        for _ in range(draw.randint(1, 12)):
            labels = {"job": draw.choice("ab"), "instance": draw.choice(["x:1", ""])}
            if draw.random() < 0.5:
                labels["le"] = draw.choice(["0.5", "+Inf"])
            if draw.random() < 0.3:
                labels["replica"] = draw.choice("12")
            steps = [draw.choice([0, 0.05, 1, 1, 15]) for _ in range(draw.randint(0, 4))]
            times = [self.second + sum(steps[:k]) for k in range(len(steps))]
            if draw.random() < 0.1:
                draw.shuffle(times)
            samples = [(each, draw.choice(VALUES)) for each in times]
            series.append((draw.choice(NAMES), labels, samples))
        return plain(*series)


QUERIES: list[tuple[str, dict[str, Any]]] = [
    ("", {}),
    ("by=job&without=replica", {"by": ("job",), "without": ("replica",)}),
    ("rates=no&buckets=yes", {"rates": ("no",), "buckets": True}),
    ("buckets=yes&rates=vm_*", {"buckets": True, "rates": ("vm_*",)}),
]


@pytest.mark.cases(60, 2000)
def test_any_request_is_read_as_its_twin_reads_it(cases: range) -> None:
    cells: list[tuple[str, float | None]] = []

    def case(seed: int) -> None:
        query, options = QUERIES[seed % len(QUERIES)]
        sender, to, twin = Sender(seed), decoder(), RemoteWrite(**options)
        for _ in range(6):
            request = sender.request()
            arrivals = to.decode(packed(request), {**HEADERS, QUERY: query})
            expected = twin.rows(request)
            assert sorted(rows(arrivals), key=repr) == expected
            to.response(arrivals, 1)
            cells.extend(cell for _, _, found in expected for cell in found)

    each_seed(cases, case)
    assert sum(name.startswith("rate(") for name, _ in cells) > 500
    assert sum(value is None for _, value in cells) > 200


# --- what is refused


@pytest.mark.parametrize(
    ("kind", "message", "hint"),
    [
        (
            "application/x-protobuf;proto=io.prometheus.write.v2.Request",
            "Content-Type: expected remote write 1.0, found 2.0",
            "set protobuf_message: prometheus.WriteRequest in the sender's remote_write",
        ),
        (
            "text/plain",
            "Content-Type: expected application/x-protobuf, found 'text/plain'",
            "this address takes Prometheus' remote write 1.0",
        ),
    ],
)
def test_other_forms_are_refused(kind: str, message: str, hint: str) -> None:
    with pytest.raises(UnknownFormError) as caught:
        decoder().decode(body(("a", NODE, [(0, 1.0)])), {**HEADERS, "content-type": kind})
    assert (caught.value.message, caught.value.hint, caught.value.status) == (message, hint, 415)
    first = {**HEADERS, "content-type": "application/x-protobuf;proto=prometheus.WriteRequest"}
    assert decoder().decode(body(("a", NODE, [(0, 1.0)])), first)


def test_a_body_without_snappy_is_read_where_its_header_says_so() -> None:
    request = plain(("a", NODE, [(0, 1.0)]))
    for encoding in ("gzip", "identity"):  # the service has undone gzip
        assert decoder().decode(request, {**HEADERS, "content-encoding": encoding})
    with pytest.raises(InputError, match="expected a body of snappy"):
        decoder().decode(request, HEADERS)


def test_more_samples_than_allowed_are_refused() -> None:
    with pytest.raises(TooManyError, match="expected at most 2 samples, found more"):
        send(decoder(samples=2), ("a", NODE, [(0, 1.0), (1, 1.0)]), ("w_bucket", NODE, [(0, 1.0)]))


def test_a_body_that_says_it_is_too_large_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    large = packed(bytes(2_000_000))
    with pytest.raises(TooManyError, match="at most 1,000 bytes once it is decompressed, found 2,"):
        decoder(decompressed=1000).decode(large, HEADERS)
    with pytest.raises(InputError, match="found one that cannot become 50,000,000 bytes"):
        decoder().decode(b"\x80\xe1\xeb\x17" + bytes(100), HEADERS)

    class Snappy:
        def decompress_raw(self, sent: bytes) -> bytes:
            raise AssertionError("it was decompressed")

    monkeypatch.setattr(remote_write, "_snappy", Snappy)
    with pytest.raises(TooManyError):
        decoder(decompressed=1000).decode(large, HEADERS)


def test_a_small_body_never_becomes_many_objects() -> None:
    """A part of two bytes takes 20 and more once it is read, and time of the service."""
    inner = b"\x0a\x00" * 4_000_000
    length = b"\x80\xa4\xe8\x03"
    for request in (inner, b"\x0a" + length + inner, b"\x0a" + length + b"\x12\x00" * 4_000_000):
        with pytest.raises(TooManyError, match="found one of more than 64 parts for each"):
            decoder(samples=10_000).decode(packed(request), HEADERS)
    with pytest.raises(TooManyError, match="expected at most 100 samples, found more"):
        decoder(samples=100).decode(packed(b"\x0a\x00" * 101), HEADERS)
    many = {f"l{number}": "x" for number in range(1001)}
    with pytest.raises(InputError, match="at most 1,000 labels of a series, found 1,002"):
        send(decoder(), ("a", many, [(0, 1.0)]))


def test_as_much_as_snappy_can_gain_is_read() -> None:
    empty = packed(bytes(60 << 20))
    assert len(empty) * 22 > 60 << 20
    with pytest.raises(InputError, match="expected a write request of Prometheus"):
        decoder().decode(empty, HEADERS)


def test_a_stream_with_too_many_channels_is_refused_alone() -> None:
    to = decoder(channels=2)
    other = {**NODE, "instance": "db2:9100"}
    many: list[Series] = [(name, NODE, [(0, 1.0), (10, 1.0)]) for name in "abc"]
    arrivals = to.decode(body(*many, ("a", other, [(0, 1.0)])), HEADERS)
    assert [each.stream for each in arrivals] == ["node/db2:9100"]
    reply = to.response(arrivals, 7)
    assert reply.status == 400 and reply.media == "application/json"
    assert json.loads(reply.body) == {
        "error": "6 of 7 values were refused: stream 'node/db1:9100': expected at most 2 channels, "
        "found 3; have the sender leave some out, or raise limits.channels"
    }


def test_times_that_cannot_be_are_refused_alone() -> None:
    to = decoder()
    request = remote_write.request_kind()()
    for name, moment in (("a", 2**62), ("b", -(2**63)), ("c", BEGIN)):
        series = request.timeseries.add()
        series.labels.add(name="__name__", value=name)
        series.samples.add(value=1.0, timestamp=moment)
    arrivals = to.decode(remote_write.pack(request), HEADERS)
    assert [each.channels for each in arrivals] == [("c",)]
    assert "2 of 3 values were refused: expected times in ms since 1970, found 46116860184" in (
        to.response(arrivals, 1).body.decode()
    )


def test_what_the_service_refuses_is_counted_in_values() -> None:
    to = decoder()
    arrivals = to.decode(body(("a", NODE, [(0, 1.0), (9, 2.0)]), ("b", {}, [(0, 1.0)])), HEADERS)
    reply = to.response(arrivals, 1, [Refusal(arrivals[0], "too many streams\nhint: fewer")])
    assert reply.status == 400
    error = "2 of 3 values were refused: too many streams; hint: fewer"
    assert json.loads(reply.body) == {"error": error}


def test_labels_that_are_no_text_are_refused() -> None:
    request = plain(("a", NODE, [(0, 1.0)])).replace(b"db1", b"d\xff1")
    with pytest.raises(InputError, match="expected a write request of Prometheus, found"):
        decoder().decode(packed(request), HEADERS)


def test_any_bytes_are_read_or_refused() -> None:
    draw = random.Random(1)
    to = decoder(samples=50, decompressed=100_000)
    sender = Sender(3)
    for _ in range(count(1500, 50_000)):
        request = bytearray(sender.request())
        for _ in range(draw.randint(0, 4)):
            request[draw.randrange(len(request))] = draw.randrange(256)
        cut = request[: draw.randint(0, len(request))] if draw.random() < 0.3 else request
        cut = bytearray(odd(draw, bytes(cut))) if draw.random() < 0.2 else cut
        sent = bytearray(packed(bytes(cut)))
        if draw.random() < 0.3:
            sent[draw.randrange(len(sent))] = draw.randrange(256)
        if draw.random() < 0.1:
            sent = bytearray(draw.randbytes(draw.randint(0, 60)))
        try:
            arrivals = to.decode(bytes(sent), HEADERS)
        except InputError:
            continue
        for _, _, cells in rows(arrivals):
            assert all(value is None or math.isfinite(value) for _, value in cells)


def test_it_keeps_what_a_decoder_promises() -> None:
    sender = Sender(8)
    bodies = [packed(sender.request() + sender.request()) for _ in range(3)]
    bodies.append(body(("a", NODE, [(0, 1.0), (10, 2.0)]), ("b_total", NODE, [(0, 1.0)])))
    check_decoder(RemoteWriteDecoder, bodies, HEADERS)


# --- what it costs


def scrape(hosts: int, metrics: int, second: float) -> bytes:
    series: list[Series] = [
        (
            f"node_metric_{metric}_total" if metric % 2 else f"node_metric_{metric}",
            {"job": "node", "instance": f"host{host}:9100", "cpu": str(metric), "env": "prod"},
            [(second, metric + second)],
        )
        for host in range(hosts)
        for metric in range(metrics)
    ]
    return body(*series)


def test_names_are_remembered_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_SERIES", 80)
    to = decoder()
    for number in range(50):
        labels = {"instance": f"host{number}"}
        series: list[Series] = [(f"m{each}", labels, [(0, 1.0)]) for each in range(10)]
        assert len(send(to, *series)) == 1
        assert len(to._series) <= 80
    assert len(send(to, ("m0", {"instance": "host0"}, [(0, 1.0)]))) == 1


def test_ten_thousand_series_are_read_in_a_fraction_of_a_second() -> None:
    to = decoder()
    to.response(to.decode(scrape(500, 20, 0), HEADERS), 1)
    sent, took = scrape(500, 20, 15), []
    for _ in range(3):
        began = time.process_time()
        arrivals = to.decode(sent, HEADERS)
        took.append(time.process_time() - began)
    assert len(arrivals) == 500 and all(len(each.channels) == 20 for each in arrivals)
    assert min(took) < 0.2  # 0.04 s on the machine of the figures


# --- with the order: a scrape that comes in several requests


def split(request: bytes, size: int) -> list[bytes]:
    """Return the series of a request in several, as Prometheus does."""
    whole = remote_write.parse(request, remote_write.request_kind())
    parts = []
    for first in range(0, len(whole.timeseries), size):
        part = remote_write.request_kind()()
        part.timeseries.extend(whole.timeseries[first : first + size])
        parts.append(bytes(part.SerializeToString()))
    return parts


@pytest.mark.parametrize("live", [False, True])
@pytest.mark.parametrize("size", [3, 7, 25])
def test_a_scrape_that_comes_in_several_requests_is_one_sample(size: int, live: bool) -> None:
    """Requests have a fixed number of series, so that a target's are cut elsewhere each time."""
    to, order = decoder(), Order()
    closed: dict[int, int] = {}
    values: list[list[float]] = []
    every: list[Series] = []
    names = [f"m{number}" for number in range(10)]
    for step in range(40):
        every += [(name, NODE, [(step * 15, step + 0.5)]) for name in names]
    full = plain(*every)

    def complete() -> Any:
        return np.ones(len(order.channels), bool) if live else None

    for part in split(full, size):
        for arrival in to.decode(packed(part), HEADERS):
            found = order.take(arrival, complete)
            values += [row + [math.nan] * (10 - len(row)) for row in found.values.tolist()]
    values += order.close(order.newest + 1).values.tolist()
    closed = {index: sum(not math.isnan(each) for each in row) for index, row in enumerate(values)}
    assert [row[0] for row in values if row[0] == row[0]] == [step + 0.5 for step in range(40)]
    assert all(each == 10 for index, each in closed.items() if index), closed
    assert len(values) == 40 and order.counts["late"] == 0


# --- through the service's interface


def post(client: Client, sent: bytes, query: str = "", **headers: str) -> Any:
    path = f"{API}/write{'?' if query else ''}{query}"
    return client.post(path, content=sent, headers={**remote_write.HEADERS, **headers})


def test_samples_are_answered_with_204_once_kept(client: Client, service: Service) -> None:
    found = post(client, body(("a", NODE, [(0, 1.0)])), "by=instance")
    assert (found.status_code, found.content) == (204, b"")
    ((arrival,),) = (each.arrivals for each in logged(service))
    assert (arrival.stream, arrival.channels) == ("db1:9100", ('a{job="node"}',))
    assert post(client, body()).status_code == 204 and len(logged(service)) == 1


def test_what_is_good_is_durable_where_a_stream_is_refused(
    client: Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[str] = []

    def push(arrivals: Sequence[Arrival], **_: object) -> Future[int]:
        if any(each.stream == "node/db1:9100" for each in arrivals):
            raise LimitError("expected at most 9 streams, found 10", hint="limits.streams")
        taken.extend(each.stream for each in arrivals)
        done: Future[int] = Future()
        done.set_result(5)
        return done

    monkeypatch.setattr(service, "push", push)
    other = {**NODE, "instance": "db2:9100"}
    found = post(client, body(("a", NODE, [(0, 1.0)]), ("a", other, [(0, 1.0)])))
    assert taken == ["node/db2:9100"] and found.status_code == 400
    assert found.json() == {
        "error": "1 of 2 values were refused: expected at most 9 streams, found 10; "
        "hint: limits.streams"
    }


@pytest.mark.parametrize("error", [ServiceBusy("behind"), StateError("the disk is full")])
def test_a_service_that_cannot_take_samples_now_has_them_sent_again(
    client: Client, service: Service, monkeypatch: pytest.MonkeyPatch, error: StateError
) -> None:
    def push(arrivals: object, **_: object) -> Future[int]:
        raise error

    counter: Series = ("a_total", NODE, [(0, 1.0)])
    assert post(client, body(counter)).status_code == 204
    with monkeypatch.context() as patched:
        patched.setattr(service, "push", push)
        found = post(client, body(("a_total", NODE, [(10, 21.0)])))
        assert found.status_code == 503 and found.headers["retry-after"] == "1"
    assert post(client, body(("a_total", NODE, [(10, 21.0)]))).status_code == 204
    (arrival,) = logged(service)[-1].arrivals
    assert arrival.values.tolist() == [[2.0]]  # no counter was kept of what failed


def test_victoriametrics_is_answered_so_that_its_agent_uses_snappy(client: Client) -> None:
    found = post(client, b"\x28\xb5\x2f\xfd", **{"Content-Encoding": "zstd"})
    assert found.status_code == 415
    assert found.json()["error"] == "Content-Encoding: expected gzip, snappy or none, found 'zstd'"


@pytest.mark.parametrize(
    "header",
    [
        "Bearer nn_write",
        "Token nn_write",
        "Basic " + base64.b64encode(b"prometheus:nn_write").decode(),
        "Basic " + base64.b64encode(b":nn_write").decode(),
    ],
)
def test_a_token_is_sent_as_programs_can(header: str) -> None:
    tokens = (TokenConfig("a", "write", hash_token("nn_write")),)
    sent = body(("a", NODE, [(0, 1.0)]))
    with (
        plant(empty=True, now=None, tokens=tokens, host="0.0.0.0") as service,
        Client(service) as client,
    ):
        assert post(client, sent, Authorization=header).status_code == 204
        wrong = header[:-2] + "00"
        assert post(client, sent, Authorization=wrong).status_code == 401
        assert post(client, sent, Authorization="Basic !").status_code == 401
        assert post(client, sent).status_code == 401
