"""Decoders: samples as JSON, JSON lines and CSV, beside a slow twin."""

import json
import random
import tracemalloc
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from newnormal.arrivals.arrival import Arrival
from newnormal.errors import InputError, NewnormalError, ParameterError
from newnormal.io.decoders.base import (
    QUERY,
    Decoder,
    DecoderLimits,
    Reply,
    TooManyError,
    UnknownFormError,
)
from newnormal.io.decoders.samples import SamplesDecoder, from_long
from newnormal.io.registry import decoder_names, find_decoder
from newnormal.testing import check_decoder
from tests.errors import raised
from tests.service.naive_decoder import NOW, Cell, RefusedError, cells_of

SECOND = 10**9


def decoder(**limits: int) -> SamplesDecoder:
    return SamplesDecoder(DecoderLimits(**limits), lambda: NOW)


def decoded(body: Any, kind: str = "", query: str = "") -> Sequence[Arrival]:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return decoder().decode(text, {"content-type": kind, QUERY: query})


def cells(arrivals: Sequence[Arrival]) -> list[Cell]:
    found = []
    for arrival in arrivals:
        assert arrival.times.dtype == np.int64 and arrival.values.dtype == np.float64
        assert arrival.values.shape == (len(arrival.times), len(arrival.channels))
        for time, row in zip(arrival.times.tolist(), arrival.values.tolist(), strict=True):
            for channel, value in zip(arrival.channels, row, strict=True):
                if value == value:
                    found.append((arrival.stream, time, channel, value))
    return sorted(found)


SAMPLES = [
    {"stream": "a", "time": 10, "values": {"x": 1.5, "y": None}},
    {"stream": "b", "time": "1970-01-01T00:00:10Z", "values": {"x": 2}},
    {"stream": "a", "time": 20, "values": {"x": "2.5", "y": float("nan")}},
]
CELLS = [("a", 10 * SECOND, "x", 1.5), ("a", 20 * SECOND, "x", 2.5), ("b", 10 * SECOND, "x", 2.0)]


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (json.dumps(SAMPLES).encode(), "application/json"),
        (json.dumps(SAMPLES, indent=2).encode(), "application/json; charset=utf-8"),
        (b"\xef\xbb\xbf" + json.dumps(SAMPLES).encode(), ""),
        ("\n".join(map(json.dumps, SAMPLES)).encode(), "application/x-ndjson"),
        ("\r\n\r\n".join(map(json.dumps, SAMPLES)).encode(), "application/json"),
        ("\n".join(map(json.dumps, SAMPLES)).encode(), "text/plain"),
        (b"stream,time,x,y\na,10,1.5,\nb,10,2,\na,20,2.5,NaN\n", "text/csv"),
        (b"time;y;x;stream\r\n10;;1.5;a\r\n10;na;2;b\r\n20;null;2.5;a", ""),
        (b"ts\tstream\tx\n10\ta\t1.5\n\n10\tb\t2\n20\ta\t2.5\n", "text/tab-separated-values"),
        (b"stream,time,channel,value\na,10,x,1.5\nb,10,x,2\na,20,x,2.5\n", ""),
        (b"value,channel,time,stream\n1.5,x,10,a\n2,x,10,b\n2.5,x,20,a\n", "text/csv"),
        (b'stream,"time",x\n"a","10","1.5"\nb,10,2\na,20,2.5\n', "application/octet-stream"),
    ],
)
def test_samples_are_the_same_in_every_form(body: bytes, kind: str) -> None:
    assert cells(decoded(body, kind)) == CELLS


def test_a_line_of_json_ends_where_a_line_ends_and_not_inside_of_a_name() -> None:
    lines = [{"stream": "a", "time": at, "values": {"x": at}} for at in (1, 2)]
    body = "\n".join(json.dumps(each, ensure_ascii=False) for each in lines)
    with pytest.raises(InputError, match="line 1: expected JSON"):
        decoded(body.replace("\n", "\u2028").encode(), "application/x-ndjson")
    assert len(cells(decoded(body.encode(), "application/x-ndjson"))) == 2


def test_a_single_sample_without_a_time_gets_that_at_which_it_came() -> None:
    (arrival,) = decoded({"stream": "a", "values": {"x": 1}})
    assert arrival.times.tolist() == [NOW]
    assert decoded({"stream": "a", "ts": 5, "values": {"x": 1}})[0].times.tolist() == [5 * SECOND]
    found = decoded(b"stream,x\na,1\nb,2\n")
    assert [each.times.tolist() for each in found] == [[NOW], [NOW]]
    found = decoded(b"stream,channel,value\na,x,1\na,y,2\n")
    assert [each.times.tolist() for each in found] == [[NOW]]


def test_the_stream_is_named_by_the_address_where_the_body_does_not() -> None:
    assert decoded({"time": 0, "values": {"x": 1}}, query="stream=oven")[0].stream == "oven"
    assert decoded(b"time,x\n0,1\n", query="a=b&stream=oven%20%C3%A9")[0].stream == "oven \xe9"
    assert decoded(b"time,channel,value\n0,x,1\n", query="stream=oven")[0].stream == "oven"
    assert (
        decoded({"stream": "a", "time": 0, "values": {"x": 1}}, query="stream=b")[0].stream == "a"
    )


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "expected samples, found an empty body"),
        (b"  \n", "expected samples, found an empty body"),
        (b"[]", "expected samples, found none"),
        (b"{", "the body: expected JSON, found something else"),
        (b'{"a": 1}\n{"a"', "line 2: expected JSON"),
        (b"[" * 100_000, "the body: expected JSON"),
        (b"\xff\xfe", "expected UTF-8 text, found the byte 0xff at 0"),
        (b"[5]", "sample 0: expected stream, time and values, or times, channels and values"),
        (b'{"stream": "a"}', "sample 0: expected stream, time and values"),
        (b'{"values": {"x": 1}}', "sample 0: stream: expected a name of 1 to 200 printable"),
        (b'{"stream": 5, "values": {"x": 1}}', "found 5"),
        (b'{"stream": ["a"], "values": {"x": 1}}', "found ['a']"),
        (b'{"stream": "\\u0007", "values": {"x": 1}}', r"found '\x07'"),
        (b'{"stream": "\\ud800", "values": {"x": 1}}', r"found '\ud800'"),
        (b'{"stream": " ", "values": {"x": 1}}', "found ' '"),
        (b'{"stream": "a", "values": {}}', "sample 0: expected the value of a channel"),
        (b'{"stream": "a", "values": {"": 1}}', "sample 0: channel: expected a name"),
        (
            b'[{"stream": "a", "time": 0, "values": {"x": 1}}, '
            b'{"stream": "a", "time": 1, "values": {"x": "high"}}]',
            "sample 1: channel 'x' of 'a': expected a number, found 'high'",
        ),
        (b'{"stream": "a", "values": {"x": [1]}}', "expected a number, found [1]"),
        (b'{"stream": "a", "values": {"x": ' + b"9" * 5000 + b"}}", "the body: expected JSON"),
        (b'{"stream": "a", "time": "noon", "values": {"x": 1}}', "sample 0: time: expected a time"),
        (b'{"stream": "a", "time": true, "values": {"x": 1}}', "sample 0: time: expected a time"),
        (b'{"stream": "a", "time": 1e300, "values": {"x": 1}}', "sample 0: time: expected a time"),
        (b'{"stream": "a", "time": ' + b"9" * 99 + b', "values": {"x": 1}}', "expected a time"),
        (
            b'[{"stream": "a", "values": {"x": 1}}, {"stream": "a", "values": {"y": 1}}]',
            "sample 1: expected a time, since there are several samples of 'a', found none",
        ),
        (b'{"stream": "a", "times": [0], "channels": ["x"]}', "expected stream, time and values"),
        (
            b'{"stream": "a", "times": [0], "channels": ["x"], "values": [[1], [2]]}',
            "sample 0: values: expected a list for each of 1 times, found 2",
        ),
        (
            b'{"stream": "a", "times": [0], "channels": ["x"], "values": [[1, 2]]}',
            "sample 0: values: expected 1 values for each time, found 2 in row 0",
        ),
        (
            b'{"stream": "a", "times": [0], "channels": ["x", "x"], "values": [[1, 2]]}',
            "expected each channel once, found 'x' twice",
        ),
        (b'{"stream": "a", "times": [0], "channels": [1], "values": [[1]]}', "channel: expected"),
        (
            b'{"stream": "a", "times": [0, 1], "channels": ["x"], "values": [[1], ["b"]]}',
            "sample 0, time 1: channel 'x' of 'a': expected a number, found 'b'",
        ),
        (
            b'{"stream": "a", "times": [0, null], "values": {"x": [1, 2]}}',
            "sample 0, time 1: time: expected a time, found None",
        ),
        (b"stream,time\na,1\n", "expected at least one channel, found none among the columns"),
        (b"stream,time,x\na,1\n", "line 2: expected 3 cells, found 2"),
        (b"stream,time,x\na,1,2\na,2,high\n", "line 3: column 'x': expected a number"),
        (b"stream,time,x\na,1,1_000\n", "line 2: column 'x': expected a number"),
        (b"stream,time,x\na,noon,1\n", "line 2: column 'time': expected a time"),
        (b"stream,time,x,x\na,1,1,2\n", "line 1: expected columns of different names, found 'x'"),
        (b"time,x\n1,1\n", "line 2: stream: expected a name"),
        (b"time,channel,value\n1,x,1\n", "line 2: stream: expected a name"),
        (b"stream,time,channel,value\na,1,x,y\n", "line 2: column 'value': expected a number"),
        (b"stream,time,channel,value\na,1,x,1\na,,x,2\n", "line 3: column 'time': expected a time"),
        (b'stream,time,x\na,1,"2\n', "line 2: expected cells with matched quotes"),
        (b"stream,time,x\n", "expected samples, found none"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(body: bytes, message: str) -> None:
    assert message in raised(InputError, lambda: decoded(body)).message
    if body[:1] in (b"[", b"{"):
        with pytest.raises(RefusedError):
            cells_of(body)


@pytest.mark.parametrize("body", ['"time": %s, "values": {"x": 1}', '"values": {"x": %s}'])
def test_values_within_each_other_are_refused_however_deep(body: str) -> None:
    for deep in range(900, 1_000):  # those that are hardly read cannot be shown in an error
        with pytest.raises(InputError):
            decoded(b'{"stream": "a", %s}' % (body % ('{"a":' * deep + "1" + "}" * deep)).encode())


@pytest.mark.parametrize(
    "kind", ["image/png", "multipart/form-data; boundary=x", "application/xml"]
)
def test_another_kind_of_body_is_refused(kind: str) -> None:
    with pytest.raises(UnknownFormError, match="Content-Type: expected application/json") as caught:
        decoded(SAMPLES, kind)
    assert caught.value.status == 415


def test_more_samples_or_channels_than_allowed_are_refused() -> None:
    limited = decoder(samples=2, channels=2)
    times = b"[0, 1, 2]"
    for body in (
        json.dumps(SAMPLES).encode(),
        b'{"stream": "a", "times": ' + times + b', "values": {"x": [1, 2, 3]}}',
        b"stream,time,x\na,0,1\na,1,1\na,2,1\n",
        b"stream,time,channel,value\na,0,x,1\na,1,x,1\na,2,x,1\n",
    ):
        with pytest.raises(TooManyError, match="expected at most 2 samples, found more"):
            limited.decode(body, {})
    for body in (
        b'{"stream": "a", "values": {"x": 1, "y": 1, "z": 1}}',
        b"stream,time,x,y,z\na,0,1,2,3\n",
        b'{"stream": "a", "times": [0], "channels": ["x", "y", "z"], "values": [[1, 2, 3]]}',
    ):
        with pytest.raises(TooManyError, match="expected at most 2 channels, found 3"):
            limited.decode(body, {})


# --- beside the twin

NUMBERS: list[Any] = [0, 1, -2.5, 1e300, 3.25, None, float("nan"), "4.5", " 6 ", "", "NaN", 10**18]
NUMBERS += [True, "false", float("inf"), 10**400, "inf"]
BAD: list[Any] = ["x", [], {}, "1_0", "\u0663"]
TIMES: list[Any] = [0, 10, 20, 1_769_860_800, 1_769_860_800.25, "2026-01-31T12:00:00Z", "30"]
TIMES += ["2026-01-31T12:00:00.5", "2026-01-31 13:00:00+01:00", 1_769_860_800_123]
BAD_TIMES: list[Any] = ["noon", True, [], 1e300, "2026-02-30", "2026-13-01T00:00:00Z", ""]


class Made:
    """Bodies of random samples, some of them wrong."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.wrong = 0.02 if seed % 3 == 0 else 0.0

    def number(self) -> Any:
        return self.draw.choice(BAD if self.draw.random() < self.wrong else NUMBERS)

    def time(self) -> Any:
        if self.draw.random() < self.wrong:
            return self.draw.choice([*BAD_TIMES, None])
        return self.draw.choice(TIMES)

    def names(self) -> list[str]:
        return self.draw.sample(["x", "y", "z \xe9", "w,1"], self.draw.randint(1, 4))

    def stream(self) -> str:
        return self.draw.choice(["a", "b", "c/d", "\u6e29"])

    def sample(self) -> dict[str, Any]:
        draw = self.draw
        names = self.names()
        if draw.random() < 0.3:
            count = draw.randint(1, 4)
            rows = [[self.number() for _ in names] for _ in range(count)]
            found: dict[str, Any] = {"stream": self.stream()}
            found["times"] = [self.time() for _ in range(count)]
            if draw.random() < 0.5:
                return {**found, "channels": names, "values": rows}
            columns = zip(*rows, strict=True)
            return {**found, "values": dict(zip(names, map(list, columns), strict=True))}
        values = {name: self.number() for name in names}
        return {"stream": self.stream(), "time": self.time(), "values": values}

    def json(self) -> tuple[bytes, str]:
        samples = [self.sample() for _ in range(self.draw.randint(1, 6))]
        if self.draw.random() < 0.5:
            return json.dumps(samples).encode(), self.draw.choice(["", "application/json"])
        lines = "\n".join(json.dumps(each) for each in samples)
        return lines.encode(), self.draw.choice(["", "application/x-ndjson"])


@pytest.mark.parametrize("seed", range(400))
def test_any_body_is_read_as_its_twin_reads_it(seed: int) -> None:
    made = Made(seed)
    body, kind = made.json()
    try:
        expected = cells_of(body, kind)
    except RefusedError:
        with pytest.raises(InputError):
            decoded(body, kind)
        return
    assert cells(decoded(body, kind)) == expected


def test_the_random_bodies_are_read_and_refused_both_often() -> None:
    found = {"read": 0, "refused": 0, "values": 0}
    for seed in range(400):
        made = Made(seed)
        try:
            found["values"] += len(cells_of(*made.json()))
            found["read"] += 1
        except RefusedError:
            found["refused"] += 1
    assert found["read"] > 200 and found["refused"] > 30 and found["values"] > 1000


@pytest.mark.parametrize("seed", range(50))
def test_values_one_by_one_become_the_same_cells(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 40))
    streams = [f"s{k}" for k in rng.integers(0, 3, count)]
    channels = [f"c{k}" for k in rng.integers(0, 3, count)]
    times, values = rng.integers(0, 30, count) * SECOND, rng.normal(size=count)
    found = from_long(streams, channels, times, values, DecoderLimits())
    keys = zip(streams, times.tolist(), channels, strict=True)
    last = dict(zip(keys, values.tolist(), strict=True))
    assert cells(found) == sorted((*key, value) for key, value in last.items())


# --- the registry


def test_decoders_are_found_by_name_and_by_path() -> None:
    assert find_decoder("samples") is SamplesDecoder and "samples" in decoder_names()
    path = "newnormal.io.decoders.samples:SamplesDecoder"
    assert find_decoder(path) is SamplesDecoder
    with pytest.raises(
        ParameterError, match=r"decoder: expected influx, .* or package\.module:Class"
    ):
        find_decoder("graphite")
    with pytest.raises(ParameterError, match=r"expected a subclass of newnormal\.io\.Decoder"):
        find_decoder("builtins:dict")


def test_a_decoder_answers_in_json_unless_it_has_its_own_answer() -> None:
    class Silent(Decoder):
        path = "silent"
        status = 204

        def decode(self, body: bytes, headers: Mapping[str, str]) -> Sequence[Arrival]:
            return []

    arrivals = decoded(SAMPLES)
    text, kind, status = decoder().response(arrivals, 7)
    assert status is None
    assert json.loads(text) == {"samples": 3, "streams": 2, "position": 7}
    assert kind == "application/json"
    assert Silent().response([], 0) == Reply()


def test_the_decoder_of_samples_keeps_what_decoders_promise() -> None:
    lines = "\n".join(map(json.dumps, SAMPLES)).encode()
    block = b'{"stream": "a", "times": [0, 1], "values": {"x": [1, 2]}}'
    long = b"stream,time,channel,value\na,0,x,1\na,1,x,2\n"
    check_decoder(SamplesDecoder, [json.dumps(SAMPLES).encode(), lines, block, long])


class Careless(SamplesDecoder):
    """Breaks one promise, whichever is asked for."""

    broken = ""

    def decode(self, body: bytes, headers: Mapping[str, str]) -> Sequence[Arrival]:
        found = super().decode(body, headers)
        first = found[0]
        if self.broken == "times":
            return [first._replace(times=first.times.astype(np.float64))]
        if self.broken == "infinite":
            return [first._replace(values=first.values * np.inf)]
        return [first._replace(stream="a\n")]


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ("times", "expected times of int64, found float64"),
        ("infinite", "expected finite values"),
        ("name", "expected names of 1 to 200 printable characters"),
    ],
)
def test_a_careless_decoder_is_found_out(
    broken: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Careless, "broken", broken)
    with pytest.raises(AssertionError, match=message):
        check_decoder(Careless, [b"stream,time,x\na,0,1\na,1,2\n"])


def test_a_decoder_that_fails_in_another_way_than_it_should_is_found_out() -> None:
    class Failing(SamplesDecoder):
        def decode(self, body: bytes, headers: Mapping[str, str]) -> Sequence[Arrival]:
            body.decode()
            return super().decode(body, headers)

    with pytest.raises(AssertionError, match="expected an InputError, found UnicodeDecodeError"):
        check_decoder(Failing, [b"stream,time,x\na,0,1\na,1,2\n"])


def _bodies() -> dict[str, tuple[bytes, str, str]]:
    """Return bodies that take much memory for their size, with decoder and content type."""
    names = ",".join(f'"c{k}"' for k in range(400))
    rows = ",".join(["[" + "0," * 399 + "0]"] * 500)
    times = ",".join(map(str, range(500)))
    matrix = f'{{"stream":"s","channels":[{names}],"times":[{times}],"values":[{rows}]}}'
    one = ",".join(f'{{"stream":"s{k}","time":9,"values":{{"x":{k}}}}}' for k in range(4_000))
    wide = "m " + ",".join(f"f{k:x}=1" for k in range(30_000))
    return {
        "matrix": (matrix.encode(), "samples", "application/json"),
        "lists": (b"[" + b"[]," * 60_000 + b"[]]", "samples", "application/json"),
        "objects": (b"[" + b'{"":0},' * 30_000 + b"{}]", "samples", "application/json"),
        "nested": (b"[" + b'{"a":{"b":{}}},' * 20_000 + b"{}]", "samples", "application/json"),
        "samples": (f"[{one}]".encode(), "samples", "application/json"),
        "lines": (b'{"stream":"s","time":9,"values":{"x":1}}\n' * 4_000, "samples", ""),
        "csv": (b"stream,time" + b",a" * 498 + b"\n" + (b"s,9" + b",12" * 498 + b"\n") * 200,
                "samples", "text/csv"),
        "short": (b"a\n" * 90_000, "samples", "text/csv"),
        "fields": (wide.encode(), "influx", ""),
        "points": (b"m,host=a v=1 9\n" * 20_000, "influx", ""),
        "series": (b"\x0a\x00" * 90_000, "remote_write", "application/x-protobuf"),
        "resources": (b"\x0a\x00" * 90_000, "otlp", "application/x-protobuf"),
    }  # fmt: skip


@pytest.mark.parametrize("name", _bodies())
def test_a_body_takes_no_more_memory_than_its_weight(name: str) -> None:
    body, kind, form = _bodies()[name]
    decoder = find_decoder(kind)(DecoderLimits())
    headers = {"content-type": form, "content-encoding": "identity"}
    weight = decoder.weight(body, headers)
    tracemalloc.start()
    try:
        with suppress(NewnormalError):
            decoder.decode(body, headers)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most <= weight, (most / len(body), weight / len(body))
    assert weight <= max(20 * most, 64 * len(body)), (most / len(body), weight / len(body))
