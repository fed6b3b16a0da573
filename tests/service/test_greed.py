"""A writer that takes what it can get: others are served, and memory stays below 1 GB.

It has no token of its own: the service cannot tell it from the honest ones.
"""

import gzip
import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import numpy as np
import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")

from benchmarks.service import resident, serving
from tests.waiting import until

_START = 1_767_225_600
_MOST = 1000.0  # MB
_PATIENCE = 2.0  # s, for 99 of 100 requests
_STREAMS, _EACH = 50, 10  # of a sender, requests a second
_GZIP = {"Content-Encoding": "gzip"}
_JSON = {"Content-Type": "application/json", **_GZIP}
_PROTOBUF = {"Content-Type": "application/x-protobuf", **_GZIP}


def matrix() -> bytes:
    """Return a request of 60,000 samples of 500 zeros, compressed."""
    names = ",".join(f'"c{k}"' for k in range(500))
    rows = ",".join(["[" + "0," * 499 + "0]"] * 60_000)
    times = ",".join(str(_START + k) for k in range(60_000))
    text = f'{{"stream":"greedy","channels":[{names}],"times":[{times}],"values":[{rows}]}}'
    return gzip.compress(text.encode(), 9)


def names_of(number: int) -> bytes:
    """Return a request of 50 new streams with 500 channels, with names of 200 characters."""
    channels = {f"{k:03}{'x' * 197}": 1 for k in range(500)}
    samples = [{"stream": f"{number}-{k}", "time": _START, "values": channels} for k in range(50)]
    return gzip.compress(json.dumps(samples).encode())


class Greedy:
    """Sends what takes much and costs little."""

    def __init__(self, url: str) -> None:
        self.url, self.answers = url, Counter[str]()
        self._host = urlsplit(url)
        self._matrix = matrix()
        self._members = gzip.compress(b"", mtime=0) * 838_000
        self._number = 0
        self._held: list[socket.socket] = []
        self.ways: list[Callable[[], None]] = [
            self.unfinished, self.one, self.six, self.members, self.too_large, self.too_long,
            self.many_names, self.messages, self.texts,
        ]  # fmt: skip

    def post(self, content: object, headers: dict[str, str], path: str = "/api/v1/samples") -> int:
        """Post a body; what is refused is answered, however large it is."""
        answer = httpx.post(self.url + path, content=content, headers=headers, timeout=60.0)  # type: ignore[arg-type]
        self.answers[f"{answer.status_code}"] += 1
        assert answer.status_code in (200, 204, 400, 413, 429, 503), answer.text
        return answer.status_code

    def unfinished(self) -> None:
        head = b"POST /api/v1/samples HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Encoding: gzip\r\n"
        head += b"Content-Type: application/json\r\nContent-Length: 100000\r\n\r\n"
        zeros = gzip.compress(bytes(64 << 20), 9)[:65_536]
        self.close()
        for _ in range(60):
            with suppress(OSError):
                each = socket.create_connection((self._host.hostname, self._host.port))
                each.sendall(head + zeros)
                self._held.append(each)

    def close(self) -> None:
        """Let go what is unfinished."""
        while self._held:
            self._held.pop().close()

    def one(self) -> None:
        assert self.post(self._matrix, _JSON) in (413, 429, 503)

    def six(self) -> None:
        with ThreadPoolExecutor(6) as threads:
            list(threads.map(lambda _: self.one(), range(6)))

    def members(self) -> None:
        assert self.post(self._members, _JSON) in (413, 429, 503)

    def too_large(self) -> None:
        assert self.post(b"0" * (20 << 20), {}) in (413, 429)

    def too_long(self) -> None:
        piece = b" " * (1 << 20)
        assert self.post((piece for _ in range(40)), {}) in (413, 429)

    def many_names(self) -> None:
        self._number += 1
        self.post(names_of(self._number), _JSON)

    def messages(self) -> None:
        nested = b""
        for _ in range(2000):
            nested = b"\x0a" + _varint(len(nested)) + nested
        giant = b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
        for body in (
            nested,
            giant * 100_000,
            b"\x0a\x00" * (4 << 20),
            b"\x10" + b"\xff" * (1 << 20),
        ):
            for path in ("/api/v1/write", "/v1/metrics"):
                self.post(gzip.compress(body), _PROTOBUF, path)

    def texts(self) -> None:
        for text in (
            b"[" * (8 << 20),
            b'{"a":' * (1 << 20),
            b"a" + b"," * (15 << 20),
            b"a\n" * (7 << 20),
        ):
            self.post(
                text, {"Content-Type": "text/csv" if text[:1] == b"a" else "application/json"}
            )


def _samples(url: str, name: str) -> int:
    found = httpx.get(f"{url}/api/v1/streams", params={"search": name}).json()
    return sum(each["samples"] for each in found["items"])


def _varint(number: int) -> bytes:
    made = b""
    while number > 127:
        made += bytes([number & 127 | 128])
        number >>= 7
    return made + bytes([number])


class Honest(threading.Thread):
    """Sends 500 samples a second, each until it is acknowledged."""

    def __init__(self, url: str, number: int) -> None:
        super().__init__(daemon=True)
        self._url, self.number = url, number
        self.ended = threading.Event()
        self.waits: list[float] = []
        self.sent = 0

    def run(self) -> None:
        rng = np.random.default_rng(self.number)
        with httpx.Client(base_url=self._url, timeout=60.0) as client:
            begun = time.monotonic()
            while not self.ended.wait(max(0.0, begun + self.sent / _EACH - time.monotonic())):
                values = rng.normal(size=(_STREAMS, 5)).round(4).tolist()
                samples = [
                    {
                        "stream": f"honest-{self.number}-{k}",
                        "time": _START + self.sent,
                        "values": dict(zip("abcde", row, strict=True)),
                    }
                    for k, row in enumerate(values)
                ]
                began = time.monotonic()
                while (answer := client.post("/api/v1/samples", json=samples)).status_code != 200:
                    assert answer.status_code in (429, 503), answer.text
                    self.ended.wait(0.1)
                self.waits.append(time.monotonic() - began)
                self.sent += 1


@pytest.mark.cases(9, 300, whole=True)
def test_a_greedy_writer_takes_nothing_from_others(
    tmp_path: Path, cases: range, record_property: Callable[[str, object], None]
) -> None:
    """A case is one way to be greedy; in full, figures are taken of how long others wait."""
    is_long = len(cases) > 100
    with serving(tmp_path / "data") as (url, pid):
        senders = [Honest(url, number) for number in range(4)]
        for each in senders:
            each.start()
        greedy, memory = Greedy(url), [resident(pid)]
        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(0.02):
                memory.append(resident(pid))

        watching = threading.Thread(target=watch, daemon=True)
        watching.start()
        for _, act in zip(cases, cycle(greedy.ways), strict=False):
            act()
        greedy.close()
        for each in senders:
            each.ended.set()
        for each in senders:
            each.join()
        ended.set()
        watching.join()
        for each in senders:
            name = f"honest-{each.number}-7"
            until(lambda: _samples(url, name) == each.sent, "all samples to be judged")  # noqa: B023
    waits = np.concatenate([each.waits for each in senders])
    late = float(np.quantile(waits, 0.99))
    record_property(
        "found",
        f"{waits.size:,} honest requests, 99 of 100 within {late:.2f} s; "
        f"{memory[0]:.0f} MB at first, at most {max(memory):.0f}; "
        f"answers {dict(sorted(greedy.answers.items()))}",
    )
    assert max(memory) < _MOST, max(memory)
    if is_long:
        assert late < _PATIENCE, late
