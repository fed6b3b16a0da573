"""A data folder of the service with live streams of hosts, which goes on from a time."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

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

MODELS = 4  # that are fitted; streams share them
_AT_ONCE = 100  # streams


def prepare(
    folder: Path,
    streams: int,
    history: Callable[[int], Arrival],
    source: str,
    place: Mapping[str, Any],
) -> None:
    """Make the folder.

    Parameters
    ----------
    streams
        How many there are.
    history
        Gives the samples of a stream, by its number, that its model is fitted on.
    source, place
        The name of a source, and where it goes on.
    """
    folder.mkdir(parents=True)
    kept = SqliteLog(folder / "log.sqlite", sync=False)
    store = Store(folder / "store.sqlite")
    report = Reporter(store, Hub(), tuple, lambda: None)
    applier = recover(folder, kept, store, report, lambda *_: None)
    for begin in range(0, streams, _AT_ONCE):
        arrived = tuple(history(each) for each in range(begin, min(begin + _AT_ONCE, streams)))
        _apply(applier, kept, [log.SamplesArrived(arrived)])
        ids = [_id(applier, each.stream) for each in arrived]
        last = len(arrived[0].times) - 1
        _apply(applier, kept, [log.FitBegan(each, 0, last, "history") for each in ids])
        began = applier.position
        if begin == 0:
            for each in ids[:MODELS]:
                _fit(applier, each)
        _apply(
            applier,
            kept,
            [log.FitTaken(each, began, _model(ids[0] + at)) for at, each in enumerate(ids)],
        )
    _apply(applier, kept, [log.SamplesArrived((), source, place)])
    save_checkpoint(applier)
    applier.fleet.detach()
    store.close()
    kept.close()


def _id(applier: Applier, name: str) -> int:
    found = applier.streams.named(name)
    assert found is not None
    return found.id


def _model(stream: int) -> str:
    return f"{stream % MODELS}.nn"


def _fit(applier: Applier, stream: int) -> None:
    kept = applier.streams.get(stream)
    assert kept is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = Detector(alarms_per_day=1.0).fit(history_of(applier, kept))
    fitted.save(applier.models / _model(stream))


def _apply(applier: Applier, kept: SqliteLog, entries: Sequence[log.Entry]) -> None:
    outcomes = applier.apply(kept.append(log.pack(entries)), entries)
    applier.store.commit()
    failed = [each for each in outcomes if isinstance(each, Exception)]
    assert not failed, failed[0]
