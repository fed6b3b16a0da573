"""``python -m benchmarks.service_store``: what the service's log and store cost.

Processor time of `Store.add` and `commit` in the pattern of a service: a sample of each of 1,000
streams of 5 channels a call, a commit after 75 of them. Then what a checkpoint flushes, how long
pictures of a stream of a million samples take, and how long a record of the log takes to be on the
disk.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from newnormal.engine.log.sqlite_log import SqliteLog
from newnormal.engine.store import Store
from newnormal.engine.values import StoredRows

STREAMS, CHANNELS, A_COMMIT, RATE = 1_000, ("a", "b", "c", "d", "e"), 75, 5_000
BEGIN, MINUTE = 1_700_000_000_000_000_000, 60 * 10**9


def rows(first: int, count: int, seed: int = 0) -> StoredRows:
    """Return samples of noise, one a minute."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(count, len(CHANNELS)))
    return StoredRows(
        first,
        CHANNELS,
        BEGIN + np.arange(first, first + count, dtype=np.int64) * MINUTE,
        values,
        rng.random(count),
        np.ones(count),
        rng.random(count),
        np.zeros(count, np.bool_),
        values + rng.normal(size=values.shape),
        *(np.full(values.shape, 0.5),) * 2,
        (rng.random(values.shape).astype(np.float32).view(np.uint32) & 0xFFFFF000).view(np.float32),
    )


def adding(folder: Path) -> None:
    """Print what a sample costs, and a checkpoint."""
    store = Store(folder / "adding.sqlite")
    for stream in range(STREAMS):  # their blocks are not full at the same time
        store.samples.add(stream, rows(0, 1 + stream % 256))
    store.commit()
    added, began = 0, time.process_time()
    for step in range(256):
        for stream in range(STREAMS):
            store.samples.add(stream, rows_at(step, store.samples.count(stream)))
            added += 1
            if added % A_COMMIT == 0:
                store.commit()
    spent = (time.process_time() - began) / added
    print(f"add and commit: {spent * 1e6:.1f} µs a sample, "
          f"{spent * RATE:.1%} of a core at {RATE:,} samples/s")  # fmt: skip
    began, wall = time.process_time(), time.perf_counter()
    store.samples.flush()
    store.commit(sync=True)
    print(f"flush of {STREAMS:,} streams: {time.process_time() - began:.3f} s of a core, "
          f"{time.perf_counter() - wall:.3f} s")  # fmt: skip
    store.close()


_ONE = [rows(0, 1, seed) for seed in range(256)]


def rows_at(step: int, first: int) -> StoredRows:
    """Return one sample; made before, so that making it costs little."""
    found = _ONE[step]
    return replace(found, first=first, times=found.times + first * MINUTE)


def showing(folder: Path, count: int = 1_000_000) -> None:
    """Print how long pictures of one stream take."""
    store = Store(folder / "showing.sqlite")
    for first in range(0, count, 20_000):
        store.samples.add(1, rows(first, 20_000, first))
        store.commit()
    print(f"bytes a sample of {len(CHANNELS)} channels: {store.size / count:.0f}")
    end = BEGIN + count * MINUTE
    for name, minutes in (("a day", 1_440), ("a month", 43_200), ("a year", 525_600)):
        begin = end - minutes * MINUTE
        took = best(lambda begin=begin: store.samples.series(1, begin, end, 800))  # type: ignore[misc]
        print(f"series of {name}: {took * 1e3:.1f} ms")
    print(f"rows, 20,000: {best(lambda: store.samples.rows(1, 0, 19_999)) * 1e3:.1f} ms")
    store.close()


def logging(folder: Path) -> None:
    """Print how long it takes until a record is on the disk."""
    log, record, took = SqliteLog(folder / "log.sqlite"), bytes(6_000), []
    for _ in range(2_000):
        began = time.perf_counter()
        log.append(record)
        took.append((time.perf_counter() - began) * 1e3)
    print(f"append of 6 kB: median {np.median(took):.2f} ms, p99 {np.quantile(took, 0.99):.2f} ms")
    log.close()


def best(run: Callable[[], object]) -> float:
    """Return the shortest of ten runs in seconds."""
    found = []
    for _ in range(10):
        began = time.perf_counter()
        run()
        found.append(time.perf_counter() - began)
    return min(found)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        adding(Path(made))
        showing(Path(made))
        logging(Path(made))
