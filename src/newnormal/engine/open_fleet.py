"""A fleet whose calls an engine logs before they change it."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np

from newnormal.alarms.feedback_target import feedback_target
from newnormal.arrivals.arrival import Arrival
from newnormal.engine.folder import SingleEngine
from newnormal.engine.log.entries import StepsTaken
from newnormal.engine.steps import judge_steps
from newnormal.errors import StateError
from newnormal.fleet import Fleet, FleetEvent, FleetVerdicts
from newnormal.fleet.work import Gathered
from newnormal.types import Alarm, Bools


class OpenFleet(Fleet):
    """A fleet on the folder of an engine; `Fleet.open` makes one.

    Its verbs hand entries to the engine, which logs them and calls the verbs again to apply them.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._engine: SingleEngine | None = None
        self._inside = True  # whether the engine calls, as it does while it recovers
        self._gathered: Gathered | None = None  # what is judged
        self._fresh: deque[FleetEvent] = deque()  # events of decisions that are applied

    def _use(self, engine: SingleEngine) -> None:
        """Have all that changes the fleet logged from here on."""
        engine.applier.judge_steps = self._judge_logged
        self._engine, self._inside = engine, False

    @contextmanager
    def _applying(self) -> Iterator[SingleEngine]:
        assert self._engine is not None
        self._inside = True
        try:
            yield self._engine
        finally:
            self._inside = False

    def _advance(self, gathered: Gathered, flush: bool) -> FleetVerdicts:
        if self._engine is None or self._inside:
            return super()._advance(gathered, flush)
        entry = _entry_of(gathered, flush)
        self._gathered = gathered
        with self._applying() as engine:
            engine.written()  # the caller has done with the last verdicts what it wanted
            (verdicts,) = engine.take(entry).verdicts
        engine.checkpoint_if_due()
        return verdicts

    def _judge_logged(
        self, fleet: Fleet, entry: StepsTaken, select: Callable[[Arrival], Bools | None]
    ) -> list[FleetVerdicts]:
        gathered, self._gathered = self._gathered, None
        if gathered is None:
            return judge_steps(fleet, entry, select)
        for arrival in entry.arrivals:
            select(arrival)
        return [super()._advance(gathered, entry.flush)]

    def _act(self, name: str, verb: str, alarm: Any = None, change: Any = None) -> Self:
        if self._inside:
            before, self._events = self._events, deque(maxlen=self._events.maxlen)
            try:
                super()._act(name, verb, alarm, change)
            finally:
                self._fresh.extend(self._events)
                before.extend(self._events)
                self._events = before
            return self
        if self._engine is None:
            return super()._act(name, verb, alarm, change)
        number: dict[str, int] = {}
        if verb != "undo":
            target = feedback_target(self[name], verb, alarm, change)
            number["alarm" if isinstance(target, Alarm) else "change"] = target.number
        with self._applying() as engine:
            engine.decide(name, verb, **number)
        return self

    def close_alarms(self) -> FleetVerdicts:
        """Close the open alarms of all streams, because they have ended; changes stay."""
        if self._engine is None or self._inside:
            return super().close_alarms()
        with self._applying() as engine:
            nothing = np.empty(0, np.int64)
            (verdicts,) = engine.take(StepsTaken((), nothing, close_alarms=True)).verdicts
        return verdicts

    def take_events(self) -> list[FleetEvent]:
        """Return what happened to alarms and changes since the last call; the newest are kept."""
        if not self._inside:
            return super().take_events()
        fresh = list(self._fresh)
        self._fresh.clear()
        return fresh

    def _restructured(self) -> None:
        super()._restructured()
        if self._engine is not None and not self._inside:
            with self._applying() as engine:
                engine.take_streams()

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Save everything; to another folder, write the whole fleet as files."""
        engine = self._engine
        if engine is not None and Path(folder).resolve() == engine.folder.resolve():
            with self._lock:
                engine.checkpoint()
            return
        super().save(folder)

    def close(self, *, save: bool = True) -> None:
        """Save everything and let go of the folder, if it is open on one; go on in memory."""
        with self._lock:
            engine, self._engine = self._engine, None
            if engine is not None:
                engine.close(save=save)


def open_fleet(
    folder: str | os.PathLike[str],
    streams: Fleet | None,
    on_replay: Callable[[FleetVerdicts], None] | None,
    sync: bool,
    classes: tuple[object, object],
) -> OpenFleet:
    """Return the fleet of an engine's folder: `Fleet.open`."""
    engine = SingleEngine(Path(folder), kind=OpenFleet, sync=sync, classes=classes)
    fleet = engine.fleet
    assert isinstance(fleet, OpenFleet)
    try:
        if not len(fleet):
            if streams is None:
                raise StateError(
                    f"{folder}: expected the folder of an engine, found no streams in it",
                    hint="Fleet.open(folder, fleet) begins one with the streams of a fleet",
                )
            engine.begin(streams)
        if on_replay is not None:
            for output in engine.left:
                for verdicts in output.verdicts:
                    on_replay(verdicts)
    except BaseException:
        engine.close(save=False)
        raise
    fleet._use(engine)
    return fleet


def _entry_of(gathered: Gathered, flush: bool) -> StepsTaken:
    """Return what a call hands to the fleet as an entry of the log."""
    arrivals: list[Arrival] = []
    counts, origins = [], []
    for group, taken, origin in gathered.work:
        streams, times, samples = group.streams, taken.times, taken.samples
        for at, first, last in zip(*(column.tolist() for column in taken[:3]), strict=True):
            if first < last:
                stream, span = streams[at], slice(first, last)
                channels = stream.fitted.channels
                arrivals.append(Arrival(stream.name, channels, times[span], samples[span]))
                counts.append(last - first)
        origins.append(origin)
    rows = np.empty(0, np.int64)
    if len(arrivals) > 1:
        order = np.argsort(np.concatenate(origins), kind="stable")
        rows = np.repeat(np.arange(len(arrivals)), counts)[order]
    return StepsTaken(tuple(arrivals), rows, flush=flush)
