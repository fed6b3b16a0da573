"""`Fleet`: many streams behind the verbs of one detector."""

from __future__ import annotations

import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from newnormal.alarms.words import in_zone
from newnormal.base import BaseDetector
from newnormal.detector import Detector
from newnormal.errors import InputError, NewnormalError, NewnormalWarning, ParameterError
from newnormal.fleet.fitting import Progress, fit_streams
from newnormal.fleet.folder.journal import Journal
from newnormal.fleet.incidents import IncidentTracker, Opening
from newnormal.fleet.observed import FleetObserved
from newnormal.fleet.options import limit_of, names_columns
from newnormal.fleet.results import FleetEvent, FleetVerdicts, Part
from newnormal.fleet.saved import Saved
from newnormal.fleet.streams import Streams
from newnormal.fleet.views import StreamViews
from newnormal.fleet.work import Gathered, gather_array, gather_samples, gather_tables, zone_of_step
from newnormal.tabular import Long, StreamTables, Table, to_table, to_tables
from newnormal.types import (
    NO_TIME,
    OPENED,
    Alarm,
    Change,
    Event,
    IncidentEvent,
    ns_of_time,
)
from newnormal.types.frames import kind_of_rows

EVENTS = 10_000  # kept until they are taken


class Fleet(StreamViews, Saved):
    """Many streams in one process: each has a detector of its own, judged by one compiled call.

    Parameters
    ----------
    detector
        What each stream gets: a `Detector` or an `M2N2` with its options, not fitted. None: a
        `Detector` with the `options`.
    fleet_alarms_per_day
        A limit on false alarms a day for all streams together: each stream's is this divided by
        the streams at `fit`. `add` and `remove` change no other's until `refit`.
    workers
        Processes that fit. None: as many as there are processors.
    options
        Of the detector.

    Examples
    --------
    >>> import numpy as np
    >>> from newnormal import Fleet
    >>> rng = np.random.default_rng(0)
    >>> histories = {name: rng.normal(size=(400, 2)) for name in ("web-1", "web-2", "web-3")}
    >>> fleet = Fleet(alarms_per_day=0.2, epochs=1).fit(histories)
    >>> seen = fleet.run({name: history[:50] for name, history in histories.items()})
    >>> verdicts = fleet.step({"web-1": [0.1, 0.2], "web-3": [9.0, 9.0]})
    >>> verdicts.streams.tolist(), verdicts.anomalous.tolist()
    (['web-1', 'web-3'], [False, True])
    >>> [(event.stream, event.event.kind) for event in verdicts.events]
    [('web-3', 'opened')]
    """

    def __init__(
        self,
        detector: BaseDetector | None = None,
        *,
        fleet_alarms_per_day: float | None = None,
        workers: int | None = None,
        **options: Any,
    ) -> None:
        if detector is None:
            self.detector: BaseDetector = Detector(**options)
        elif isinstance(detector, BaseDetector):
            self.detector = detector.unfitted(**options)
        else:
            raise ParameterError(
                f"detector: expected a Detector or an M2N2, found {type(detector).__name__}",
                hint="Fleet(M2N2(window=12)), or Fleet(alarms_per_day=0.2)",
            )
        if workers is not None and workers < 1:
            raise ParameterError(f"workers: expected at least 1, found {workers}")
        self.fleet_alarms_per_day = limit_of(fleet_alarms_per_day, self.detector)
        self.workers = workers
        self.failures_: dict[str, NewnormalError] = {}
        self._streams = Streams()
        self._tracker, self._ticks = IncidentTracker(None), 0
        self._reading: dict[str, Any] = {}  # how `fit` read its data: `run` reads alike
        self._events: deque[FleetEvent] = deque(maxlen=EVENTS)
        self._journal: Journal | None = None  # of the folder that it is open on
        self._position, self._noted = 0, (None, 0)
        self._lock = threading.RLock()

    # ------------------------------------------------------------------ streams

    def __len__(self) -> int:
        return len(self._streams)

    def __iter__(self) -> Iterator[str]:
        return iter(self._streams.names)

    def __contains__(self, name: object) -> bool:
        return name in self._streams

    def __getitem__(self, name: str) -> BaseDetector:
        """Return a copy of one stream's detector, which goes on by itself."""
        with self._lock:
            return self._streams[name].detector()

    # ------------------------------------------------------------------ fit

    def fit(
        self,
        X: Any,
        by: str | Sequence[str] | None = None,
        *,
        times: Any = None,
        long: bool | Long | None = None,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> Self:
        """Learn what normal is of each stream from its history; any streams before are forgotten.

        Parameters
        ----------
        X
            A frame with a column that names the stream (`by`), or a mapping from names to
            histories, or a folder with a file for each stream.
        by
            The column, or columns, that name the stream.
        times
            The column of times, where there are several.
        long
            Whether a row is (time, tag, value) instead of one column a channel; or which columns
            these are.
        on_progress
            Called with a `Progress` after each stream.

        A stream that cannot be fitted is left out, with a warning: `failures_` has the errors.
        """
        tables = to_tables(X, by=by, times=times, long=long)
        with self._lock:
            found = None if tables.found is None else tables.found.reading
            self._reading = {"by": by, "times": times, "long": long, "file": found}
            streams = Streams()
            self.failures_ = {}
            fitted = self._fitted(tables, len(tables.tables) + len(tables.errors), on_progress)
            for name, detector in fitted.items():
                streams.add(name, detector)
            self._report_failures(len(fitted))
            self._streams = streams
            self._tracker = IncidentTracker(streams.period)
            self._ticks = 0
            self._events.clear()
            self._restructured()
        return self

    def _restructured(self) -> None:
        """Have other streams, or other fits, on the disk before the call returns."""
        if self._journal is not None:
            self._journal.structure()

    def _fitted(
        self,
        tables: StreamTables,
        count: int,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> dict[str, BaseDetector]:
        """Fit detectors; each stream's limit is the fleet's divided by `count`."""
        shell = self.detector
        if self.fleet_alarms_per_day is not None:
            shell = shell.unfitted(alarms_per_day=self.fleet_alarms_per_day / max(count, 1))
        self.failures_ |= tables.errors
        detectors = dict.fromkeys(tables.tables, shell)
        # How a file was read is remembered once, by the fleet.
        histories = {name: replace(each, found=None) for name, each in tables.tables.items()}
        found: dict[str, BaseDetector] = {}
        for name, result in fit_streams(
            detectors, histories, workers=self.workers, on_progress=on_progress
        ):
            if isinstance(result, BaseDetector):
                found[name] = result.track_alarms()
            else:
                self.failures_[name] = result
        return {name: found[name] for name in tables.tables if name in found}

    def _report_failures(self, fitted: int) -> None:
        if not self.failures_:
            return
        name, error = next(iter(self.failures_.items()))
        count = f"{len(self.failures_)} of {fitted + len(self.failures_)} streams"
        if not fitted:
            raise InputError(f"no stream could be fitted; {name}: {error.message}", hint=error.hint)
        warnings.warn(
            f"{count} could not be fitted and are left out: {name}: {error.message}\n"
            "hint: `failures_` has every error by stream",
            NewnormalWarning,
            stacklevel=3,
        )

    def add(self, name: str, X: Any, times: Any = None) -> Self:
        """Add a stream: its history, or a fitted detector, which goes on from where it is."""
        with self._lock:
            if name in self._streams:
                raise ParameterError(
                    f"name: expected a new stream, found {name!r}, which there is",
                    hint="refit learns it anew, remove takes it out",
                )
            if isinstance(X, BaseDetector):
                self._streams.add(name, X)
            else:
                self.failures_.pop(name, None)
                tables = StreamTables({name: to_table(X, times=times)}, None, {})
                found = self._fitted(tables, len(self) + 1)
                if name not in found:
                    raise self.failures_.pop(name)
                self._streams.add(name, found[name])
            self._restructured()
        return self

    def remove(self, name: str) -> BaseDetector:
        """Take a stream out; return its detector."""
        with self._lock:
            detector = self._streams[name].detector()
            self._streams.remove(name)
            self._tracker.forget(name)
            self._restructured()
        return detector

    def refit(self, X: Any, by: str | Sequence[str] | None = None, *, times: Any = None) -> Self:
        """Learn some streams anew from other history, given as for `fit`; the others stay.

        A stream that cannot be fitted stays as it is: `failures_` has the error.
        """
        with self._lock:
            tables = to_tables(X, **self._read_as(X, by, times))
            for name in tables.tables:
                self._streams[name]  # raises where there is none
            self.failures_ = {}
            found = self._fitted(tables, len(self))
            for name, detector in found.items():
                self._streams.replace(name, detector)
                self._tracker.forget(name)
            self._restructured()
            self._report_failures(len(found))
        return self

    # ------------------------------------------------------------------ live

    def run(
        self,
        X: Any,
        by: str | Sequence[str] | None = None,
        *,
        times: Any = None,
        long: bool | Long | None = None,
        flush: bool = True,
    ) -> FleetVerdicts:
        """Consume series of many streams, given as for `fit`; return verdicts as columns.

        If samples of a stream cannot be taken, nothing of it changes, and `errors` has the reason.
        """
        with self._lock:
            tables = to_tables(X, channels=self.channels_, **self._read_as(X, by, times, long))
            gathered = gather_tables(self._streams, tables)
            self._see_zones(tables)
            before = self.opened(tables.tables) if flush else {}
            found = self._advance(gathered, flush)
            found.frame = None if isinstance(X, Mapping) else kind_of_rows(X, times)
            if flush:  # the series are over; `watch`, which goes on, has no use for pictures
                now = self.opened(tables.tables)
                found.observed = FleetObserved.of(gathered, tables, before, now)
            return found

    def _read_as(self, X: Any, by: Any, times: Any, long: Any = None) -> dict[str, Any]:
        """Return how to read data: as given, and else the columns that `fit` was given."""
        own = {name: self._reading.get(name) for name in ("by", "times", "long")}
        kept = {name: each for name, each in own.items() if names_columns(each)}
        if isinstance(X, Mapping):
            kept.pop("by", None)
        given = {"by": by, "times": times, "long": long}
        return {**kept, **{name: each for name, each in given.items() if each is not None}}

    def step(
        self, samples: Mapping[str, ArrayLike | Mapping[str, float]] | ArrayLike, times: Any = None
    ) -> FleetVerdicts:
        """Consume one sample of each of many streams, and return what became final.

        Parameters
        ----------
        samples
            A mapping from names to samples as `Detector.step` takes them, of any of the streams;
            or an array (S, C), a row for every stream in the fleet's order.
        times
            One time for all, or one each: in the order of the samples, or by name.
        """
        with self._lock:
            if isinstance(samples, Mapping):
                gathered = gather_samples(self._streams, samples, times)
            else:
                gathered = gather_array(self._streams, samples, times)
            if times is not None:
                self.see_zone(zone_of_step(times))
            return self._advance(gathered, False)

    def consume(self, tables: Mapping[str, Table]) -> FleetVerdicts:
        """Consume samples that are in order already, for a caller that calls often.

        Parameters
        ----------
        tables
            By the name of the stream: its channels in their order, times that increase.
        """
        with self._lock:
            return self._advance(gather_tables(self._streams, StreamTables(dict(tables))), False)

    def flush(self) -> FleetVerdicts:
        """Judge what is pending of every stream, as `Detector.flush` does."""
        with self._lock:
            nothing = {
                stream.name: Table(np.empty((0, len(stream.fitted.channels))), None, None)
                for stream in self._streams
            }
            return self._advance(gather_tables(self._streams, StreamTables(nothing)), True)

    def _advance(self, gathered: Gathered, flush: bool) -> FleetVerdicts:
        if self._journal is not None:
            self._journal.samples(gathered, flush)
        parts: list[Part] = []
        events: list[tuple[int, FleetEvent]] = []
        opened: list[tuple[str, Event, int]] = []  # stream, event, number of the sample in the call
        newest = NO_TIME
        length = 0
        for group, rows, origin in gathered.work:
            before = group.seen.copy()
            judged = group.advance(rows, flush)
            length = max(length, int((rows.last - rows.first).max(initial=0)))
            newest = max(newest, int(rows.times.max(initial=NO_TIME)))
            latest: dict[int, int] = {}  # a stream's events stay in order, also without times
            for at, event in judged.events:
                stream = group.streams[at]
                moment = number = self._ticks + event.sample - int(before[at])
                if event.time is not None:
                    moment = ns_of_time(event.time)
                latest[at] = moment = max(moment, latest.get(at, moment))
                found = event.change or event.alarm
                if found is not None:
                    stream.remember([found])
                events.append((moment, FleetEvent(stream.name, in_zone(event, stream.zone))))
                if event.kind == OPENED and event.alarm is not None:
                    opened.append((stream.name, event, number))
            parts.append(Part.of(group.streams, judged, origin))
        self._ticks += length
        events.sort(key=lambda each: each[0])
        ordered = tuple(event for _, event in events)
        self._events.extend(ordered)
        incidents = self._track(opened, newest)
        return FleetVerdicts(tuple(parts), tuple(gathered.errors), ordered, tuple(incidents))

    def _track(self, opened: list[tuple[str, Event, int]], newest: int) -> list[IncidentEvent]:
        """Return what alarms that opened, and the time that passed, mean for incidents.

        By times where streams have them: alarms of one without have no part then. Else by the
        number of samples that the fleet has consumed.
        """
        tracker = self._tracker
        if opened:
            timed = any(event.time is not None for _, event, _ in opened)
            tracker.follow(self._streams.period if timed else None)
        is_timed = tracker.period is not None
        openings = []
        for name, event, number in opened:
            assert event.alarm is not None
            if not is_timed:
                openings.append(Opening(name, event.alarm.number, number))
            elif event.time is not None:
                moment = ns_of_time(event.time)
                openings.append(Opening(name, event.alarm.number, moment, event.time))
        found = tracker.update(openings, len(self))
        now = newest if is_timed else self._ticks - 1
        found += tracker.advance(now) if now != NO_TIME else []
        return [replace(each, incident=self._zoned(each.incident)) for each in found]

    # ------------------------------------------------------------------ alarms and changes

    def accept(
        self,
        name: str,
        alarm: Alarm | Change | int | None = None,
        *,
        change: Change | int | None = None,
    ) -> Self:
        """Accept a change of a stream, or what an alarm is about, as `Detector.accept` does."""
        return self._act(name, "accept", alarm, change)

    def reject(
        self,
        name: str,
        alarm: Alarm | Change | int | None = None,
        *,
        change: Change | int | None = None,
    ) -> Self:
        """Reject a change of a stream, as `Detector.reject` does."""
        return self._act(name, "reject", alarm, change)

    def rollback(self, name: str) -> Self:
        """Undo the newest acceptance of a stream, as `Detector.rollback` does."""
        return self._act(name, "rollback")

    def _act(self, name: str, verb: str, alarm: Any = None, change: Any = None) -> Self:
        """Do what a person says about a stream; nothing changes if that raises."""
        with self._lock:
            group, at = self._streams.where(name)
            if isinstance(alarm, Change):
                alarm, change = None, alarm
            named = [getattr(each, "number", each) for each in (alarm, change)]
            if self._journal is not None:
                self._journal.act(self._streams, name, verb, *named)
            events = group.streams[at].act(verb, *named)
            group.refresh(at)
            zone = group.streams[at].zone
            self._events.extend(FleetEvent(name, in_zone(event, zone)) for event in events)
        return self

    def take_events(self) -> list[FleetEvent]:
        """Return what happened to alarms and changes since the last call; the newest are kept."""
        with self._lock:
            events = list(self._events)
            self._events.clear()
        return events
