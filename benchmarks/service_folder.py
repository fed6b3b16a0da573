"""A data folder of the service with many live streams, without the hours of fitting them all."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from newnormal import Detector
from newnormal.arrivals.arrival import Arrival
from newnormal.engine.applying import Applier
from newnormal.engine.checkpoints import recover, save_checkpoint
from newnormal.engine.hub import Hub
from newnormal.engine.log import entries as log
from newnormal.engine.log.sqlite_log import SqliteLog
from newnormal.engine.modelling import history_of
from newnormal.engine.reporting import Reporter
from newnormal.engine.store import Store
from newnormal.types import Floats, Ints

CHANNELS = ("temperature", "pressure", "vibration", "current", "flow")
HISTORY = 600
MODELS = 4  # that are fitted; streams share them
CYCLE = 720  # samples
PERIOD = 200_000_000  # ns: five samples a second
START = 1_700_000_000 * 10**9  # behind every clock


def stream_name(number: int) -> str:
    """Return the name of a stream."""
    return f"plant-{number // 100}/machine-{number:04d}"


def times(first: int, count: int) -> Ints:
    """Return the times of samples, in ns."""
    return START + np.arange(first, first + count, dtype=np.int64) * PERIOD


def samples(stream: int, first: int, count: int) -> Floats:
    """Return samples of a stream: rhythms and noise, which come again after a cycle."""
    rng = np.random.default_rng(stream)
    at = np.arange(CYCLE)[:, None]
    phase = 0.7 * np.arange(len(CHANNELS)) + stream
    cycle = np.sin(at * (2 * np.pi / 240) + phase) + rng.normal(0.0, 0.2, (CYCLE, len(CHANNELS)))
    found: Floats = np.round(cycle[(first + np.arange(count)) % CYCLE], 4)
    return found


def history(stream: int) -> Arrival:
    """Return the first samples of a stream."""
    return Arrival(stream_name(stream), CHANNELS, times(0, HISTORY), samples(stream, 0, HISTORY))


def prepare(folder: Path, streams: int, history: Callable[[int], Arrival] = history) -> int:
    """Make the folder; return the number of the next sample of every stream."""
    folder.mkdir(parents=True)
    kept = SqliteLog(folder / "log.sqlite", sync=False)
    store = Store(folder / "store.sqlite")
    report = Reporter(store, Hub(), tuple, lambda: None)
    applier = recover(folder, kept, store, report, lambda *_: None)
    for begin in range(0, streams, 100):
        numbers = range(begin, min(begin + 100, streams))
        arrived = tuple(map(history, numbers))
        count = len(arrived[0].times)
        _apply(applier, kept, [log.SamplesArrived(arrived)])
        ids = [_id(applier, each.stream) for each in arrived]
        _apply(applier, kept, [log.FitBegan(each, 0, count - 1, "history") for each in ids])
        began = applier.position
        for k in range(MODELS if begin == 0 else 0):
            _fit(applier, ids[k], f"{k}.nn")
        taken = [log.FitTaken(each, began, f"{each % MODELS}.nn") for each in ids]
        _apply(applier, kept, taken)
    save_checkpoint(applier)
    applier.fleet.detach()
    store.close()
    kept.close()
    return count


def _id(applier: Applier, name: str) -> int:
    found = applier.streams.named(name)
    assert found is not None
    return found.id


def _fit(applier: Applier, stream: int, file: str) -> None:
    kept = applier.streams.get(stream)
    assert kept is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        Detector(alarms_per_day=1.0).fit(history_of(applier, kept)).save(applier.models / file)


def _apply(applier: Applier, kept: SqliteLog, entries: Sequence[log.Entry]) -> None:
    outcomes = applier.apply(kept.append(log.pack(entries)), entries)
    applier.store.commit()
    failed = [each for each in outcomes if isinstance(each, Exception)]
    assert not failed, failed[0]
