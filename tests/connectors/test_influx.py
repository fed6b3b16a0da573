"""InfluxDB's line protocol: the grammar beside a slow twin, answers, and InfluxDB's own client."""

import gzip
import json
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from newnormal.arrivals.arrival import Arrival
from newnormal.client import Client as ServiceClient
from newnormal.errors import InputError
from newnormal.io.decoders.base import QUERY, Decoder, DecoderLimits, Refusal, TooManyError
from newnormal.io.decoders.influx import InfluxDecoder
from newnormal.service.limits import LimitError
from newnormal.service.service import Service
from newnormal.testing import check_decoder
from tests.connectors.naive_line_protocol import Values, naive_points, naive_values
from tests.connectors.programs import Newnormal
from tests.errors import raised
from tests.service.asgi import Client
from tests.service.running import logged
from tests.service.seeds import each_seed
from tests.waiting import until

SECOND = 10**9
NOW = 1_767_225_600 * SECOND
AT = b" 1767225600000000000\n"
MANY = [b"%d" % number for number in range(100_000)]


def decoder(**limits: int) -> InfluxDecoder:
    return InfluxDecoder(DecoderLimits(**limits), lambda: NOW)


def decoded(body: bytes, query: str = "") -> Sequence[Arrival]:
    return decoder().decode(body, {QUERY: query})


def values_of(arrivals: Sequence[Arrival]) -> Values:
    return {
        (each.stream, channel, time): value
        for each in arrivals
        for time, row in zip(each.times.tolist(), each.values.tolist(), strict=True)
        for channel, value in zip(each.channels, row, strict=True)
    }


def answer(found: Decoder, arrivals: Sequence[Arrival], refused: Sequence[Refusal] = ()) -> Any:
    reply = found.response(arrivals, 1, refused)
    return (reply.status, json.loads(reply.body)) if reply.body else (reply.status, None)


def error(body: bytes, query: str = "") -> str:
    found = decoder()
    status, said = answer(found, found.decode(body, {QUERY: query}))
    assert status == 400 and said["error"] == said["message"] and said["code"] == "invalid"
    return str(said["error"])


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"cpu", "expected a field as name=value, found ''"),
        (b"cpu ", "expected a field as name=value, found ''"),
        (b"cpu,host=a 1767225600", "expected a field as name=value, found '1767225600'"),
        (b",host=a v=1", "expected a measurement, found ',host=a'"),
        (b"cpu,host v=1", "expected a tag as name=value, found 'host'"),
        (b"cpu,host= v=1", "expected a tag as name=value, found 'host='"),
        (b"cpu,=a v=1", "expected a tag as name=value, found '=a'"),
        (b"cpu, v=1", "expected a tag as name=value, found ''"),
        (b"cpu,host=a=b v=1", "expected a tag as name=value, found 'host=a=b'"),
        (b"cpu,host=a,host=b v=1", "expected each tag once, found 'host' twice"),
        (b"cpu v=", "field v: expected a number, true, false or a text in quotes, found ''"),
        (b"cpu v=abc", "field v: expected a number, true, false or a text in quotes, found 'abc'"),
        (b"cpu v=1_0", "field v: expected a number, true, false or a text in quotes, found '1_0'"),
        (
            b"cpu v=1.5i",
            "field v: expected a number, true, false or a text in quotes, found '1.5i'",
        ),
        (b"cpu v=-1u", "field v: expected a number, true, false or a text in quotes, found '-1u'"),
        (b"cpu v=1,", "expected a field as name=value, found ''"),
        (b'cpu v="abc', "field v: expected the end of a text, found none"),
        (b'cpu v="a"b 1', "field v: expected a comma or a space after a text, found 'b 1'"),
        (b"cpu v=1 12.5", "expected a time as a whole number, found '12.5'"),
        (b"cpu v=1 yesterday", "expected a time as a whole number, found 'yesterday'"),
        (b"cpu v=1 1 2", "expected a time as a whole number, found '1 2'"),
        (b"cpu v=1 9223372036854775807", "expected a time between the years 1677 and 2262, found"),
        (b"cpu v" + b"=1,v".join(MANY[:501]) + b"=1", "expected at most 500 fields, found 501"),
        (b"cpu,t" + b"=1,t".join(MANY[:1001]) + b"=1 v=1", "expected at most 1,000 tags"),
        (b"cpu,host=\xff v=1", "expected UTF-8 text, found the byte 0xff behind 'cpu,host='"),
    ],
)
def test_a_bad_line_is_named_and_the_others_are_taken(line: bytes, said: str) -> None:
    assert error(line).startswith(f"unable to parse: line 1: {said}")
    body = b"ok,host=a v=1\n# comment\n" + line + b"\nok,host=a v=2 1767225601000000000\n"
    assert error(body).startswith(f"partial write: line 3: {said}")
    assert error(body).endswith("; dropped=1")
    assert values_of(decoded(body)) == {("a", "ok_v", NOW): 1, ("a", "ok_v", NOW + SECOND): 2}


def test_an_unfinished_text_does_not_swallow_the_lines_behind_it() -> None:
    body = b'a,host=x t="open 1\nb,host=x v=1,t="closed" 2\nc,host=x v=2,t="open\n'
    assert error(body) == (
        "partial write: line 1: field t: expected a comma or a space after a text, "
        "found 'closed\" 2'; dropped=2"
    )
    assert [channel for _, channel, _ in values_of(decoded(body))] == ["b_v"]


@pytest.mark.parametrize(
    ("precision", "written"),
    [
        *((unit, NOW) for unit in ("", "auto", "ns", "n", "nanosecond")),
        *((unit, NOW // 1000) for unit in ("auto", "u", "us", "%C2%B5", "microsecond")),
        *((unit, NOW // 10**6) for unit in ("", "ms", "millisecond")),
        *((unit, NOW // SECOND) for unit in ("", "s", "second")),
        ("m", NOW // (60 * SECOND)),
        ("h", NOW // (3600 * SECOND)),
    ],
)
def test_times_have_the_unit_of_the_address(precision: str, written: int) -> None:
    query = f"db=plant&precision={precision}&u=x&p=y&rp=week&consistency=any&other=1"
    (arrival,) = decoded(b"cpu v=1 %d\n" % written, query)
    assert arrival.times.tolist() == [NOW]


def test_long_lines_are_not_remembered() -> None:
    to = decoder()
    body = b"cpu,host=%s v=1\ncpu %s=1\ncpu v=1\n" % (b"a" * 10_000, b"f" * 10_000)
    assert len(to.decode(body, {})) == 2 and len(to._layouts) == 1


def test_an_unknown_precision_is_refused() -> None:
    error = raised(InputError, lambda: decoded(b"cpu v=1\n", "precision=weeks"))
    assert error.message == "precision: expected ns, us, ms, s, m, h or auto, found 'weeks'"


def test_the_address_says_which_tags_name_the_stream() -> None:
    body = b"cpu,host=a,region=eu,pid=7 v=1" + AT
    for both in ("by=region&by=host", "by=region,host", "by=region,%20host"):
        assert list(values_of(decoded(body, f"{both}&without=pid"))) == [("eu/a", "cpu_v", NOW)]
    assert list(values_of(decoded(body, "by=rack"))) == [
        ("cpu", 'cpu_v{host="a",pid="7",region="eu"}', NOW)
    ]
    headers = {"x-newnormal-options": "by=region, host&without=pid", QUERY: "db=plant"}
    assert list(values_of(decoder().decode(body, headers))) == [("eu/a", "cpu_v", NOW)]
    headers[QUERY] = "by=host&without=region"  # the address counts
    assert list(values_of(decoder().decode(body, headers))) == [("a", 'cpu_v{pid="7"}', NOW)]
    rates = "&".join(f"rates=m{at}_*" for at in range(101))
    many = raised(InputError, lambda: decoded(body, rates))
    assert "at most 100 names behind the question mark, found 101" in many.message
    assert raised(InputError, lambda: decoded(body, "by=host&without=host")).message == (
        "address: expected a label in by or in without, found host in both"
    )


def test_values_of_one_time_are_one_sample_and_none_is_missing() -> None:
    lines = [b"cpu,host=a v=%d %d" % (at, NOW + at * SECOND) for at in (2, 0, 1)] + [
        b"mem,host=a w=%d %d" % (at, NOW + at * SECOND) for at in (0, 1)
    ]
    both, last = decoded(b"\n".join(lines))
    assert (both.channels, both.times.tolist()) == (("cpu_v", "mem_w"), [NOW, NOW + SECOND])
    assert both.values.tolist() == [[0, 0], [1, 1]]
    # What is missing may come with the next request.
    assert (last.channels, last.times.tolist()) == (("cpu_v",), [NOW + 2 * SECOND])


def test_samples_of_a_stream_come_in_the_order_of_their_times() -> None:
    lines = [b"cpu,host=a v=1 %d" % (NOW + at) for at in range(5)]
    lines += [b"mem,host=a w=1 %d" % (NOW + at) for at in (1, 2, 4)]
    found = decoded(b"\n".join(lines))
    assert [each.times.tolist() for each in found] == [
        [NOW],
        [NOW + 1, NOW + 2],
        [NOW + 3],
        [NOW + 4],
    ]


def test_of_values_with_the_same_time_the_last_counts() -> None:
    body = (
        b'cpu,host=a v=1,w=1 5\ncpu,host=a v=2,w=2 5\ncpu,host=a w=3 5\ncpu v=4,w=1,w=2,v="t" 5\n'
    )
    assert {key[:2]: value for key, value in values_of(decoded(body)).items()} == {
        ("a", "cpu_v"): 2,
        ("a", "cpu_w"): 3,
        ("cpu", "cpu_w"): 2,
    }


def test_more_points_than_the_limit_are_refused() -> None:
    body = b"".join(b"cpu v=%d,w=2 %d\n" % (at, at) for at in range(10))
    assert len(values_of(decoder(samples=10).decode(body, {}))) == 20
    with pytest.raises(TooManyError):
        decoder(samples=9).decode(body, {})


PIECES = [
    *("cpu", "mem", "host", "region", "value", "a", "b", "ü", "\\", '"', " ", ",", "=", "\n", "#"),
    *("\r\n", "1", "-2i", "3u", "t", "false", "1.5", ".5", "1e3", "1e999", "nan", "\t", "\\ "),
    *(
        *("\\,", "\\=", '\\"', '"text"', '"a\nb"', " 1767225600", " 1767225600000000000", " -5"),
        "\udcff",
    ),
]


def random_line(rng: random.Random) -> str:
    names = ["cpu", "mem", r"my\ disk", "a=b", r"x\,y"]
    tags = ["host=a", "host=b", "region=eu", "path=C:\\", r"t\ ag=v\,w", 'q="x"', "ü=ß"]
    fields = ["v=1", "w=2.5", "n=3i", "m=4u", "on=t", 'text="a b,c=d"', 't="x\ny"', r"a\ b=-1e-3"]
    head = ",".join([rng.choice(names), *rng.sample(tags, rng.randrange(4))])
    body = ",".join(rng.sample(fields, rng.randrange(1, 4)))
    time = rng.choice(["", f" {NOW + rng.randrange(5) * SECOND}", f" {rng.randrange(10)}"])
    return f"{head} {body}{time}"


def random_body(rng: random.Random) -> bytes:
    text = ""
    for _ in range(rng.randrange(12)):
        line = random_line(rng) if rng.random() < 0.7 else "".join(rng.choices(PIECES, k=12))
        if rng.random() < 0.3:  # spoil it
            at = rng.randrange(len(line) + 1)
            line = line[:at] + rng.choice(PIECES) + line[at + rng.randrange(2) :]
        text += line + rng.choice(["\n", "\n", "\r\n"])
    return text.encode("utf-8", "surrogateescape")


@pytest.mark.cases(1500, 100_000)
def test_every_body_is_read_as_by_the_slow_twin(cases: range) -> None:
    read = dropped = 0

    def case(seed: int) -> None:
        nonlocal read, dropped
        rng = random.Random(seed)
        body = random_body(rng)
        query, unit = rng.choice([("", None), ("precision=s", SECOND), ("precision=ns", 1)])
        found = decoder()
        arrivals = found.decode(body, {QUERY: query})
        points, bad = naive_points(body, unit)
        assert (answer(found, arrivals)[1] or {"error": "=0"})["error"].endswith(f"={bad}")
        assert arrivals.parsed.points == len(points)  # type: ignore[attr-defined]
        comp, ref = values_of(arrivals), naive_values(points, NOW)
        assert comp.keys() == ref.keys()
        for key, value in comp.items():
            # Lines that differ in the order of their tags may name one channel twice.
            named = [ref[key], *(naive_values([each], NOW).get(key, 0) for each in points)]
            assert value in named or np.isnan([value, *named]).sum() > 1, key
        for each in arrivals:
            assert (np.diff(each.times) > 0).all() and not np.isinf(each.values).any()
        read, dropped = read + len(points), dropped + bad

    each_seed(cases, case)
    assert read > 3000 and dropped > 1000


@pytest.mark.cases(500, 100_000)
def test_arbitrary_bytes_are_refused_and_nothing_else_happens(cases: range) -> None:
    found = decoder()

    def case(seed: int) -> None:
        rng = random.Random(seed)
        body = rng.randbytes(rng.randrange(200))
        answer(found, found.decode(body, {}))

    each_seed(cases, case)


@pytest.mark.parametrize(
    "body",
    [
        *(b'a t="' * 100_000, b'a t="\n' * 100_000, b"a v=" + b"9" * 1_000_000),
        *(b"a v=1," * 100_000, b"a,b=c" * 100_000, b"\\" * 1_000_000, b" " * 1_000_000),
        *(b"a " + b"b=1," * 200_000 + b"b=x", b"\xff" * 1_000_000, b"a v=1 " + b"5" * 1_000_000),
        *(b'a t="' + b"\\" * 1_000_000, b"a\\ " * 300_000),
        b"a,t" + b"=1,t".join(MANY) + b"=1 v=1",
        b"a,t" + b"=1,t".join(MANY[:999]) + b"=1 v" + b"=1,v".join(MANY) + b"=1",
    ],
    ids=lambda body: repr(body[:8]),
)
def test_a_large_odd_body_takes_no_longer_than_a_plain_one(body: bytes) -> None:
    began = time.process_time()
    answer(found := decoder(samples=10**7), found.decode(body, {}))
    assert time.process_time() - began < 10.0  # s; a search that begins anew each time takes hours


def test_it_keeps_what_decoders_promise() -> None:
    bodies = [
        b"cpu,host=a v=1 1\ncpu,host=a v=2 2\n",
        b'cpu,host=a v=1,t="a b" 1\nmem,host=b w=2i,ok=t\n# end\n',
    ]
    check_decoder(InfluxDecoder, bodies)


@pytest.mark.parametrize(
    "path",
    ["/write?db=plant", "/api/v2/write?org=me&bucket=plant&precision=ns", "/api/v3/write_lp?db=p"],
)
def test_each_version_has_its_address(client: Client, service: Service, path: str) -> None:
    sent = client.post(path, content=b"cpu,host=a v=1" + AT)
    assert (sent.status_code, sent.content) == (204, b"")
    text = gzip.compress(b"cpu,host=b v=1" + AT, mtime=0)
    assert client.post(path, content=text, headers={"content-encoding": "gzip"}).status_code == 204
    assert [each.arrivals[0].stream for each in logged(service)] == ["a", "b"]
    assert client.post(path, content=b"").status_code == 204  # as Home Assistant tries it


def test_a_bad_line_is_answered_with_400(client: Client, service: Service) -> None:
    sent = client.post("/write", content=b"cpu,host=a v=1\nbad\n")
    assert sent.status_code == 400 and sent.headers["content-type"] == "application/json"
    said = "partial write: line 2: expected a field as name=value, found ''; dropped=1"
    assert sent.json() == {"error": said, "code": "invalid", "message": said, "line": 2}
    assert len(logged(service)) == 1
    sent = client.post("/api/v3/write_lp?accept_partial=false", content=b"cpu v=1\nbad\n")
    assert sent.status_code == 400 and len(logged(service)) == 1
    assert sent.json()["error"] == "line 2: expected a field as name=value, found ''"


def test_streams_that_are_refused_are_named(
    client: Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    push = service.push

    def refusing(arrivals: Sequence[Arrival], **options: Any) -> Any:
        if any(each.stream == "b" for each in arrivals):
            raise LimitError("expected at most 5 streams, found 6")
        return push(arrivals, **options)

    monkeypatch.setattr(service, "push", refusing)
    sent = client.post("/write", content=b"cpu,host=a v=1\ncpu,host=b v=1\n")
    said = "partial write: expected at most 5 streams, found 6; dropped=1"
    assert (sent.status_code, sent.json()["error"]) == (400, said)
    assert [each.arrivals[0].stream for each in logged(service)] == ["a"]
    sent = client.post("/write", content=b"cpu,host=b v=1\n")
    assert sent.json()["error"] == "refused: expected at most 5 streams, found 6; dropped=1"


TOKEN = "swordfish-of-telegraf"
TABLES = """
[streams]
history = 200
[[token]]
name = "telegraf"
role = "write"
token_env = "INFLUX_TOKEN"
[[token]]
name = "people"
role = "operate"
token_env = "PEOPLE_TOKEN"
"""


def plant_points(influx: Any, first: int, last: int, begin: int, fault: int) -> list[Any]:
    rng = np.random.default_rng(first)
    points = []
    for at in range(first, last):
        for host in ("web-1", "web-2"):
            load = 20 + 5 * np.sin(at / 9) + rng.normal(0, 0.3)
            if at >= fault and host == "web-2":
                load += 40
            point = influx.Point("cpu").tag("host", host).tag("cpu", "cpu total")
            point = point.field("usage", float(load)).field("cores", 4).field("ok", True)
            point = point.field("note", 'a "text", with\nlines')
            points.append(point.time(begin + at * 10 * SECOND))
    return points


def test_influxdbs_client_writes_until_an_alarm_opens(tmp_path: Path) -> None:
    library: Any = pytest.importorskip("influxdb_client")
    synchronous = library.client.write_api.SYNCHRONOUS
    secrets = {"INFLUX_TOKEN": TOKEN, "PEOPLE_TOKEN": "people"}
    failed: list[Any] = []
    begin = time.time_ns() // SECOND * SECOND - 300 * 10 * SECOND
    with Newnormal(tmp_path, TABLES, secrets) as service:
        with (
            library.InfluxDBClient(service.url, TOKEN, org="plant", enable_gzip=True) as influx,
            influx.write_api(
                library.WriteOptions(batch_size=100, flush_interval=200, retry_interval=200),
                error_callback=lambda *given: failed.append(given),
            ) as batching,
        ):
            batching.write("telegraf", record=plant_points(library, 0, 230, begin, 10**9))
            batching.write("telegraf", record="cpu,host=web-1 usage=high")
        ((_, data, wrong),) = failed  # the client tells what the service answered
        assert wrong.status == 400 and "usage=high" in str(data)
        said = json.loads(wrong.body)
        assert said["message"].endswith("; dropped=1"), said
        assert "field usage: expected a number" in said["message"]
        with library.InfluxDBClient(service.url, "wrong", org="plant") as influx:
            writing = influx.write_api(synchronous)
            with pytest.raises(library.rest.ApiException) as refused:
                writing.write("telegraf", record="cpu v=1")
            assert refused.value.status == 401
        with ServiceClient(service.url, "people") as people:
            until(lambda: people.stream("web-2")["state"] == "live", "a fit")
            found = people.stream("web-1")
            channels = ['cpu_cores{cpu="cpu total"}', 'cpu_ok{cpu="cpu total"}']
            assert found["channels"] == [*channels, 'cpu_usage{cpu="cpu total"}']
            with (
                library.InfluxDBClient(service.url, TOKEN, org="plant") as influx,
                influx.write_api(
                    library.WriteOptions(batch_size=20, flush_interval=100)
                ) as batching,
            ):
                batching.write("telegraf", record=plant_points(library, 230, 290, begin, 260))
            alarm = until(lambda: list(people.items(kind="alarm")), "an alarm")[0]
            assert alarm["stream"] == "web-2" or "web-2" in str(alarm)
            assert "cpu_usage" in alarm["sentence"]
