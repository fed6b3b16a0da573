"""`newnormal serve` as a program of its own, people and machines that use it, and kills."""

import json
import threading
from contextlib import suppress
from pathlib import Path

import httpx
import numpy as np

from newnormal.client import Client, ServiceError
from newnormal.types import Floats
from tests.connectors.programs import Newnormal
from tests.service.killing import SINK, URL

START = 1_700_000_000  # s: behind every clock
CHANNELS = ("a", "b", "c")

_TABLES = """
public_url = "{url}"
[streams]
history = 100
accept_after = "10m"
[retention]
samples = "36500d"
thinned = "36500d"
items = "36500d"
log = "1d"
[limits]
requests_per_second = 100000
[sinks.{sink}]
kind = "webhook"
url = "{hook}"
"""


def serving(folder: Path, hook: str) -> Newnormal:
    """Return the program, with a webhook and all that follows from its log kept."""
    return Newnormal(folder, _TABLES.format(url=URL, sink=SINK, hook=hook))


def sample_values(stream: int, first: int, count: int) -> Floats:
    """Return samples of a stream: faults and new normals now and then, the same every time."""
    at = np.arange(first, first + count)
    noise = np.random.default_rng((stream, first)).normal(0, 0.1, (count, len(CHANNELS)))
    found: Floats = np.sin(at[:, None] / 9 + np.arange(len(CHANNELS)) + stream) + noise
    found[(at > 200) & (at % 150 < 12), stream % len(CHANNELS)] += 7.0
    found += 2.0 * (at[:, None] // 700 % 2)
    return np.round(found, 6)


class Machine(threading.Thread):
    """Sends the samples of some streams, each batch until it is acknowledged."""

    def __init__(self, url: str, streams: range, pause: float, history: int = 0) -> None:
        super().__init__(daemon=True)
        self._url, self._streams, self._pause = url, streams, pause
        self._rng = np.random.default_rng(streams.start)
        self._ended = threading.Event()
        # samples of each stream, from the first on
        self.acknowledged = dict.fromkeys(streams, history)
        begun = [(0, history)] if history else []
        self.sent: dict[int, list[tuple[int, int]]] = {each: [*begun] for each in streams}
        self.refused = 0

    def run(self) -> None:
        with httpx.Client(base_url=self._url, timeout=20.0) as client:
            while not self._ended.wait(self._pause):
                stream = int(self._rng.choice(self._streams))
                first, count = self.acknowledged[stream], int(self._rng.integers(1, 30))
                body = _lines(stream, first, count)
                while not self._ended.is_set():
                    if self._is_taken(client, body):
                        self.acknowledged[stream] = first + count
                        self.sent[stream].append((first, count))
                        break
                    self._ended.wait(0.02)

    def _is_taken(self, client: httpx.Client, body: str) -> bool:
        try:
            answer = client.post(
                "/api/v1/samples", content=body, headers={"Content-Type": "application/x-ndjson"}
            )
        except httpx.HTTPError:
            return False
        if answer.status_code == 200:
            return True
        assert answer.status_code == 503, answer.text
        self.refused += 1
        return False

    def end(self) -> None:
        self._ended.set()
        self.join()


def stream_name(stream: int) -> str:
    return f"machine/{stream}"


def _lines(stream: int, first: int, count: int) -> str:
    values = sample_values(stream, first, count).tolist()
    return "\n".join(
        json.dumps(
            {
                "stream": stream_name(stream),
                "time": START + first + at,
                "values": dict(zip(CHANNELS, row, strict=True)),
            }
        )
        for at, row in enumerate(values)
    )


class Person(threading.Thread):
    """Accepts, rejects, rolls back and asks for fits, as it comes."""

    def __init__(self, url: str, streams: int) -> None:
        super().__init__(daemon=True)
        self._url, self._streams = url, streams
        self._rng = np.random.default_rng(99)
        self._ended = threading.Event()
        self.decided = 0

    def run(self) -> None:
        with Client(self._url, timeout=5.0) as client:
            while not self._ended.wait(0.3):
                with suppress(ServiceError):
                    self._act(client)
                    self.decided += 1

    def _act(self, client: Client) -> None:
        chance = self._rng.random()
        name = stream_name(int(self._rng.integers(self._streams)))
        if chance < 0.25:
            client.refit(name)
        elif chance < 0.3:
            client.undo(name)
        else:
            open_items = list(client.items(open="true", limit=20))
            if open_items:
                item = open_items[self._rng.integers(len(open_items))]
                verb = client.accept if self._rng.random() < 0.5 else client.reject
                verb(item["key"], "because")

    def end(self) -> None:
        self._ended.set()
        self.join()
