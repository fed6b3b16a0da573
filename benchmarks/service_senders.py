"""``python -m benchmarks.service_senders``: senders of samples in a process of their own.

Each sends a batch at a time over one connection, at moments that do not wait for answers: what is
late is late in the figures. Writes the figures as JSON.
"""

from __future__ import annotations

import argparse
import http.client
import json
import sys
import threading
import time
from urllib.parse import urlsplit

from benchmarks.service_folder import CHANNELS, CYCLE, PERIOD, START, samples, stream_name

BATCH = 100
_AGAIN_S = 0.2  # before a batch that was refused is sent again
_FAULTY = 50  # every so manyth stream has a fault in each cycle
_FAULT = range(300, 312)


class Sender(threading.Thread):
    """Sends the samples of some streams, one of each a tick, in batches."""

    def __init__(self, url: str, streams: range, first: int, tick: float, ticks: int) -> None:
        super().__init__()
        self._url, self._streams = url, streams
        self._first, self._tick, self._ticks = first, tick, ticks
        self._texts = [_texts(stream) for stream in streams]
        self._moment = threading.Event()  # never set: for the moments at which batches are due
        self.began = 0.0
        self.waits: list[float] = []  # s from the moment it was due to its acknowledgement
        self.answers: list[float] = []  # s from sending to acknowledgement
        self.refused = 0

    def run(self) -> None:
        """Send all of it."""
        parts = urlsplit(self._url)
        assert parts.hostname is not None
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)
        for number in range(self._ticks):
            due = self.began + number * self._tick
            self._moment.wait(max(0.0, due - time.perf_counter()))
            for begin in range(0, len(self._streams), BATCH):
                self._send(connection, self._body(begin, self._first + number), due)
        connection.close()

    def _body(self, begin: int, number: int) -> bytes:
        at = number % CYCLE
        moment = (START + number * PERIOD) / 1e9
        lines = [
            f'{{"stream":"{stream_name(stream)}","time":{moment:.1f},"values":{texts[at]}}}'
            for stream, texts in zip(
                self._streams[begin : begin + BATCH],
                self._texts[begin : begin + BATCH],
                strict=True,
            )
        ]
        return f"[{','.join(lines)}]".encode()

    def _send(self, connection: http.client.HTTPConnection, body: bytes, due: float) -> None:
        while True:
            began = time.perf_counter()
            headers = {"Content-Type": "application/json"}
            connection.request("POST", "/api/v1/samples", body, headers)
            answer = connection.getresponse()
            text = answer.read()
            if answer.status == 200:
                break
            if answer.status not in (429, 503):
                raise SystemExit(f"status {answer.status}: {text.decode()}")
            self.refused += 1
            self._moment.wait(_AGAIN_S)
        now = time.perf_counter()
        self.answers.append(now - began)
        self.waits.append(now - due)


def _texts(stream: int) -> list[str]:
    values = samples(stream, 0, CYCLE)
    if stream % _FAULTY == 0:
        values[list(_FAULT), stream % len(CHANNELS)] += 6.0
    return [json.dumps(dict(zip(CHANNELS, row, strict=True))) for row in values.tolist()]


def main() -> int:
    """Send, and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.service_senders")
    parser.add_argument("url")
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--first", type=int, required=True, help="the number of the next sample")
    parser.add_argument("--rate", type=float, default=5200.0, help="samples a second")
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--senders", type=int, default=5)
    options = parser.parse_args()
    tick = options.streams / options.rate
    ticks = round(options.seconds / tick)
    size = -(-options.streams // options.senders)
    senders = [
        Sender(options.url, range(at, min(at + size, options.streams)), options.first, tick, ticks)
        for at in range(0, options.streams, size)
    ]
    print("ready", flush=True)
    sys.stdin.readline()
    began = time.perf_counter() + 0.1
    for at, sender in enumerate(senders):
        sender.began = began + at * tick / len(senders)
        sender.start()
    for sender in senders:
        sender.join()
    took = time.perf_counter() - began
    figures = {
        "samples": ticks * options.streams,
        "seconds": took,
        "answers": sorted(wait for sender in senders for wait in sender.answers),
        "waits": sorted(wait for sender in senders for wait in sender.waits),
        "refused": sum(sender.refused for sender in senders),
    }
    print(json.dumps(figures), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
