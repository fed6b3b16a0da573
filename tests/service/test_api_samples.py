"""Routes that take samples and history."""

import gzip
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from newnormal.arrivals.arrival import Arrival
from newnormal.errors import StateError
from newnormal.io.decoders.base import QUERY, Decoder
from newnormal.io.registry import DECODERS
from newnormal.service.limits import LimitError, ServiceBusy
from newnormal.service.service import Service
from tests.service.asgi import API, Client
from tests.service.plant import ALARMED, plant, stream_name
from tests.service.running import logged

SAMPLE = {"stream": "press-1", "time": "2026-01-01T06:00:00Z", "values": {"temperature": 21.5}}


@pytest.fixture
def service() -> Iterator[Service]:
    with plant(empty=True) as made:
        yield made


def test_a_sample_is_acknowledged_when_it_is_durable(client: Client, service: Service) -> None:
    found = client.post(f"{API}/samples", json=SAMPLE).json()
    assert (found["samples"], found["streams"]) == (1, 1)
    (entry,) = logged(service, found["position"] - 1)
    (arrival,) = entry.arrivals
    assert (arrival.stream, arrival.channels) == ("press-1", ("temperature",))
    assert not entry.history and entry.writer == "127.0.0.1"
    assert arrival.values.tolist() == [[21.5]] and arrival.times.tolist() == [1767247200 * 10**9]


def test_nothing_is_acknowledged_before_the_log_has_it(
    client: Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    future: Future[int] = Future()

    async def both() -> int:
        import asyncio

        pushed = asyncio.Event()

        def push(arrivals: object, **_: object) -> Future[int]:
            pushed.set()
            return future

        monkeypatch.setattr(service, "push", push)
        asked = asyncio.ensure_future(client.client.post(f"{API}/samples", json=SAMPLE))
        await pushed.wait()
        assert not asked.done()
        future.set_result(77)
        return int((await asked).json()["position"])

    assert client.runner.run(both()) == 77


def test_a_large_body_is_decoded_in_another_thread(client: Client, service: Service) -> None:
    body = [{**SAMPLE, "time": at} for at in range(2_000)]
    text = json.dumps(body).encode()
    assert len(text) > 1 << 15
    sent = client.post(
        f"{API}/samples", content=gzip.compress(text, mtime=0), headers={"content-encoding": "gzip"}
    )
    assert sent.json()["samples"] == 2_000
    assert len(logged(service)[0].arrivals[0].times) == 2_000


def test_the_stream_can_be_named_in_the_address(client: Client, service: Service) -> None:
    found = client.post(f"{API}/samples?stream=oven%201", content=b"time,load\n0,1\n1,2\n")
    assert found.json()["samples"] == 2 and logged(service)[0].arrivals[0].stream == "oven 1"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ServiceBusy("expected less, found more", hint="send again"), 503),
        (StateError("expected room on the disk, found none", hint="make room"), 503),
        (LimitError("expected at most 3 streams, found 4", hint="limits.streams"), 400),
    ],
)
def test_a_busy_service_a_full_disk_and_a_limit_are_said_in_a_sentence(
    client: Client, service: Service, monkeypatch: pytest.MonkeyPatch, error: Any, status: int
) -> None:
    def push(arrivals: object, **_: object) -> Future[int]:
        raise error

    monkeypatch.setattr(service, "push", push)
    found = client.post(f"{API}/samples", json=SAMPLE)
    assert found.status_code == status
    assert found.json() == {"error": error.message, "hint": error.hint}
    assert ("retry-after" in found.headers) == (status == 503)


def test_an_error_of_the_log_itself_is_a_503(
    client: Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    future: Future[int] = Future()
    future.set_exception(StateError("expected room, found none"))
    monkeypatch.setattr(service, "push", lambda arrivals, **_: future)
    assert client.post(f"{API}/samples", json=SAMPLE).status_code == 503


class Words(Decoder):
    """A stranger's decoder: a word a sample, of its own path and answer."""

    path: ClassVar[str] = "/words"
    status: ClassVar[int] = 204
    encodings: ClassVar[tuple[str, ...]] = ("snappy",)
    seen: ClassVar[list[Mapping[str, str]]] = []

    def decode(self, body: bytes, headers: Mapping[str, str]) -> Sequence[Arrival]:
        self.seen.append(headers)
        if body == b"fail":
            raise KeyError("word")
        return [
            Arrival(each.decode(), ("x",), np.array([0]), np.array([[1.0]]))
            for each in body.split()
        ]


@pytest.fixture
def words(monkeypatch: pytest.MonkeyPatch, service: Service) -> Iterator[Client]:
    monkeypatch.setitem(DECODERS, "words", f"{__name__}:Words")
    monkeypatch.setattr(Words, "seen", [])
    import sys

    monkeypatch.setitem(sys.modules, __name__, sys.modules.get(__name__) or _this())
    with Client(service) as made:
        yield made


def _this() -> Any:
    from types import SimpleNamespace

    return SimpleNamespace(Words=Words)


def test_a_strangers_decoder_has_its_own_answer(words: Client, service: Service) -> None:
    found = words.post("/words?db=a", content=b"one two", headers={"content-encoding": "snappy"})
    assert (found.status_code, found.content) == (204, b"")
    assert [each.stream for each in logged(service)[0].arrivals] == ["one", "two"]
    assert Words.seen[0][QUERY] == "db=a" and Words.seen[0]["content-encoding"] == "snappy"
    assert words.post("/words", content=b"").status_code == 204
    assert len(logged(service)) == 1


def test_what_a_strangers_decoder_fails_on_is_refused(words: Client, caplog: Any) -> None:
    found = words.post("/words", content=b"fail")
    assert found.status_code == 400 and "the decoder words" in found.json()["error"]
    assert "KeyError" in caplog.text


# --- history


def upload(client: Client, body: bytes, query: str = "stream=oven", **headers: str) -> Any:
    return client.post(f"{API}/streams/history?{query}", content=body, headers=headers)


@pytest.mark.parametrize(
    "body",
    [
        b"time,load\n2024-12-31T00:00:00Z,0.5\n2025-01-01T00:00:00Z,0.75\n",
        "time;load\n31.12.2024;0,5\n01.01.2025;0,75\n".encode("utf-16"),
        b'{"time": "2024-12-31", "load": 0.5}\n{"time": "2025-01-01", "load": 0.75}\n',
        gzip.compress(b"time\tload\n2024-12-31\t0.5\n2025-01-01\t0.75\n", mtime=0),
    ],
)
def test_history_is_taken_in_any_form(client: Client, service: Service, body: bytes) -> None:
    found = upload(client, body)
    assert found.status_code == 200, found.text
    assert (found.json()["samples"], found.json()["streams"]) == (2, 1)
    (entry,) = logged(service)
    (arrival,) = entry.arrivals
    assert entry.history and arrival.stream == "oven" and arrival.channels == ("load",)
    assert arrival.values.tolist() == [[0.5], [0.75]]
    assert arrival.times.tolist() == [1735603200 * 10**9, 1735689600 * 10**9]


def test_history_of_several_streams_has_columns(client: Client, service: Service) -> None:
    body = b"host,time,load\na,2024-01-01,1\nb,2024-01-01,2\na,2025-01-01,3\n"
    assert upload(client, body, "by=host").json()["streams"] == 2
    long = b"host,time,tag,value\nc,2026-01-01,x,1\nc,2026-01-01,y,2\nd,2026-01-01,x,3\n"
    assert upload(client, long, "by=host&long=true").json()["samples"] == 2
    assert logged(service)[1].arrivals[0].channels == ("x", "y")


@pytest.mark.parametrize(
    ("body", "query", "status", "message"),
    [
        (b"a,b\n1,2\n", "", 422, "expected stream or by, found neither"),
        (b"a,b\n1,2\n", "stream=a&by=b", 422, "expected stream or by, found both"),
        (b"a,b\n1,2\n", "stream=%00", 400, "expected a name of 1 to 200 printable"),
        (b"a,b\n1,2\n3,4\n", "stream=a", 400, "expected a column of times, found none"),
        (b"", "stream=a", 400, "the file: "),
        (b"PAR1 and more", "stream=a", 415, "expected CSV or JSON lines, found Parquet"),
        (b"PK\x03\x04 and more", "stream=a", 415, "found Excel or zip"),
        (b"\x28\xb5\x2f\xfd and more", "stream=a", 415, "found zstd"),
        (b"\x00\x01\x02\xff" * 9, "stream=a", 400, "the file: expected text"),
        (gzip.compress(bytes(70 << 20), mtime=0), "stream=a", 413, "once it is decompressed"),
        (b"time,load\nx,y\n", "stream=a&zone=Mars", 400, "time zone"),
        (b"time,load\n2026-01-01,1\n", "by=host", 400, "host"),
    ],
)
def test_history_that_cannot_be_read_is_refused_with_the_reason(
    client: Client, service: Service, body: bytes, query: str, status: int, message: str
) -> None:
    found = upload(client, body, query)
    assert found.status_code == status, found.text
    assert message in found.json()["error"] and "newnormal-history" not in found.text
    assert logged(service) == []


def test_history_of_a_live_stream_is_refused() -> None:
    with plant() as service, Client(service) as client:
        before = service.log.last
        found = upload(client, b"time,load\n2026-01-01,1\n", f"stream={stream_name(ALARMED)}")
        assert found.status_code == 409
        assert f"found {stream_name(ALARMED)!r}, which is live" in found.json()["error"]
        assert logged(service, before) == []


def test_no_file_is_left_behind(client: Client, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    upload(client, b"time,load\n2026-01-01,1\n")
    upload(client, b"\x00\x00\x00\x00\x00")
    assert list(tmp_path.iterdir()) == []
