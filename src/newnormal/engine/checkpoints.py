"""Checkpoints: all state at one position of the log, and the way back to it.

The store has the state of the service at a position, the fleet's folder that of the detectors. The
store is written first: the position that counts is the fleet's, whose state the store still has.
"""

import json
import time
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from newnormal.engine.applying import Applier, Outcome
from newnormal.engine.log.entries import Entry, unpack
from newnormal.engine.log.sqlite_log import SqliteLog
from newnormal.engine.outages import Outages
from newnormal.engine.reporting import Reporter
from newnormal.engine.store import Store
from newnormal.engine.store.checking import FLEET
from newnormal.engine.streams import stream_from_json, stream_to_json
from newnormal.errors import StateError
from newnormal.fleet import Fleet

_VERSION = 1
_EVERY_S = 20.0  # between two checkpoints of a recovery


def save_checkpoint(applier: Applier) -> int:
    """Save everything as it is after the last record; return its position."""
    state = {
        "version": _VERSION,
        "next_id": applier.streams.next_id,
        "streams": [stream_to_json(stream) for stream in applier.streams],
        "outages": applier.outages.to_json(),
        "unreported": sorted(applier.report.unreported),
        "begun": applier.report.begun,
        "lost_begun": applier.report.lost_begun,
        "input_positions": {
            name: dict(position) for name, position in applier.input_positions.items()
        },
        "patterns": applier.patterns,
        "samples": applier.samples,
        "removed": applier.removed,
    }
    body = zlib.compress(json.dumps(state, separators=(",", ":")).encode(), 1)
    applier.store.samples.flush()
    applier.store.save_checkpoint(applier.position, body)
    applier.store.commit(sync=True)
    applier.fleet.checkpoint(applier.position)
    return applier.position


def recover(
    folder: Path,
    log: SqliteLog,
    store: Store,
    report: Reporter,
    applied: Callable[[Applier, Sequence[Entry], list[Outcome]], None],
    classes: tuple[object, object] = (None, None),
    kind: type[Fleet] = Fleet,
) -> Applier:
    """Return the applier at the end of the log: from the last checkpoint, and the records since.

    `folder` has the fleet's folder and the models; `applied` is called with the entries and the
    outcomes of each record. `classes` are those of a model and of a threshold that are not built
    in, `kind` is the class of the fleet.
    """
    models = folder / "models"
    models.mkdir(parents=True, exist_ok=True)
    model, threshold = classes
    fleet = kind.attach(folder / FLEET, model=model, threshold=threshold)
    for private in (models, folder / FLEET):  # others may read the folder around them
        with suppress(OSError):
            private.chmod(0o700)
    applier = Applier(store, fleet, models, report)
    try:
        _restore(applier, folder)
        known = max(applier.position, log.marked, store.connection.position)
        if log.last < known:  # it would give positions out twice, and lose what was acknowledged
            raise StateError(
                f"{folder}: expected the log up to position {known}, found it up to {log.last}: "
                "what was acknowledged is missing",
                hint="restore a backup; newnormal serve verify --repair goes on without it",
            )
        saved = time.monotonic()
        for position, record in log.read(applier.position):
            entries = unpack(record)
            outcomes = applier.apply(position, entries)
            store.commit()
            report.drop()
            applied(applier, entries, outcomes)
            if time.monotonic() >= saved + _EVERY_S:  # another kill costs no more than that
                save_checkpoint(applier)
                saved = time.monotonic()
    except BaseException:
        fleet.detach()
        raise
    return applier


def _restore(applier: Applier, folder: Path) -> None:
    """Give an applier the state of the checkpoint that its fleet is at."""
    position = applier.fleet.position
    saved = applier.store.checkpoint(position)
    if saved is None:
        if position or len(applier.fleet):
            raise StateError(
                f"{folder}: expected the state of the service at position {position}, where its "
                "detectors are, found none",
                hint="newnormal serve verify names what is damaged; restore a backup",
            )
        applier.store.return_to(0, {})
        return
    _, body = saved
    state = read_state(body, folder, position)
    try:
        for facts in state["streams"]:
            stream = applier.streams.add(stream_from_json(facts))
            if stream.fit is not None:
                applier.started.append(stream)
        applier.streams.next_id = state["next_id"]
        applier.outages = Outages.from_json(state["outages"], applier.streams)
        applier.report.unreported = set(state["unreported"])
        applier.report.begun = dict(state["begun"])
        applier.report.lost_begun = state["lost_begun"]
        applier.input_positions, applier.samples = state["input_positions"], state["samples"]
        applier.removed = Counter(state["removed"])
        applier.patterns = tuple(map(tuple, state["patterns"]))
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise _damaged(folder, position, error) from error
    applier.position = position
    applier.store.return_to(position, {stream.id: stream.count for stream in applier.streams})


def read_state(body: bytes, folder: Path, position: int) -> dict[str, Any]:
    """Return the state that `save_checkpoint` saved at a position, as JSON values."""
    try:
        state: dict[str, Any] = json.loads(zlib.decompress(body))
        is_newer = state["version"] > _VERSION
    except (LookupError, TypeError, ValueError, zlib.error) as error:
        raise _damaged(folder, position, error) from error
    if is_newer:
        raise StateError(
            f"{folder} was written by a newer newnormal", hint="pip install --upgrade newnormal"
        )
    return state


def _damaged(folder: Path, position: int, error: Exception) -> StateError:
    return StateError(
        f"{folder}: the state of the service at position {position} is damaged: {error}",
        hint="restore a backup",
    )
