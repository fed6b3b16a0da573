"""What it takes to kill the service and to say that nothing is lost.

`contents` is all that follows from a log, `replayed` the same log applied without interruption.
"""

import json
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from newnormal.core.state import arrays
from newnormal.engine.applying import Applier
from newnormal.engine.checkpoints import recover
from newnormal.engine.hub import Hub
from newnormal.engine.log.sqlite_log import SqliteLog
from newnormal.engine.reporting import Reporter
from newnormal.engine.store import Store
from newnormal.engine.streams import stream_to_json
from newnormal.engine.values import StoredRows
from newnormal.fleet import Fleet

SINK = "hook"
URL = "http://127.0.0.1:8765"
_FOREVER = 2**62


@contextmanager
def opened(folder: Path, log: SqliteLog, sinks: tuple[str, ...] = (SINK,)) -> Iterator[Applier]:
    """Give what the data folder of a service and its log come to; at the end as after a kill."""
    with closing(Store(folder / "store.sqlite")) as store:
        report = Reporter(store, Hub(), lambda: sinks, lambda: URL)
        applier = recover(folder, log, store, report, lambda *_: None)
        try:
            yield applier
        finally:
            applier.fleet.detach()


def replayed(log: Path, models: Path, folder: Path, sinks: tuple[str, ...] = (SINK,)) -> Any:
    """Return the contents of a log that is applied from its beginning, in a new folder."""
    shutil.copytree(models, folder / "models")
    with closing(SqliteLog(log)) as kept:
        assert kept.first == 1, "the log was trimmed: set retention.log"
        with opened(folder, kept, sinks) as applier:
            return contents(applier)


def contents(applier: Applier) -> dict[str, Any]:
    """Return all that follows from the log, in a form that can be compared."""
    store = applier.store
    return {
        "position": applier.position,
        "samples": applier.samples,
        "input_positions": {key: dict(at) for key, at in applier.input_positions.items()},
        "patterns": applier.patterns,
        "next stream": applier.streams.next_id,
        "streams": {each.name: _plain(stream_to_json(each)) for each in applier.streams},
        "rows": {each.name: _rows(store, each.id, each.count) for each in applier.streams},
        "levels": {each.name: _series(store, each.id) for each in applier.streams},
        "items": {each.key: vars(each) for each in _items(store)},
        "events": [tuple(each) for each in store.events.read(limit=10**9)],
        "alerts": {(each.key, each.sink): dict(each.body) for each in store.outbox.all()},
        "detectors": detectors(applier.fleet),
        "incidents": applier.fleet._tracker.to_json(),
    }


def detectors(fleet: Fleet) -> dict[str, Any]:
    """Return every array of every detector as bytes, and its alarms and changes."""
    return {
        name: (
            [(x.dtype.str, x.shape, x.tobytes()) for x in arrays(fleet._streams[name].open())],
            list(fleet._streams[name].past or ()),
        )
        for name in fleet.streams_
    }


def assert_same(comp: dict[str, Any], ref: dict[str, Any]) -> None:
    """Check that two contents are the same, and name what is not."""
    assert comp.keys() == ref.keys()
    for part, b in ref.items():
        a = comp[part]
        if isinstance(b, dict) and isinstance(a, dict):
            assert sorted(map(str, a)) == sorted(map(str, b)), part
            for name in b:
                assert a[name] == b[name], (part, name)
        elif isinstance(b, list):
            for at, (one, other) in enumerate(zip(a, b, strict=False)):
                assert one == other, (part, at)
            assert len(a) == len(b), part
        else:
            assert a == b, part


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(value))


def _rows(store: Store, stream: int, count: int) -> Any:
    first = store.samples.first_kept(stream)
    if first >= count:
        return first, count
    return first, count, _bytes(store.samples.rows(stream, first, count - 1))


def _bytes(rows: StoredRows) -> Any:
    found = {each.name: getattr(rows, each.name) for each in fields(StoredRows)}
    return {
        name: value.tobytes() if isinstance(value, np.ndarray) else value
        for name, value in found.items()
    }


def _series(store: Store, stream: int) -> Any:
    series = store.samples.series(stream, 0, _FOREVER, 40)
    return series.per, series.channels, series.times.tobytes(), series.high.tobytes()


def _items(store: Store) -> Iterator[Any]:
    cursor = None
    while True:
        page = store.items.page(cursor=cursor, limit=500)
        yield from page.items
        cursor = page.cursor
        if cursor is None:
            return
