"""`Fleet`: many streams behind the verbs of one detector.

One module because it is one class: fitting, the verbs, what it shows of its streams, and its folder
(save, load, and open with a log of what changes it).
"""

from __future__ import annotations

import json
import os
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from newnormal import hooks
from newnormal.alarms.words import in_zone
from newnormal.base import BaseDetector
from newnormal.detector import Detector
from newnormal.errors import (
    InputError,
    NewnormalError,
    NewnormalWarning,
    ParameterError,
    StateError,
)
from newnormal.fleet.fitting import Progress, fit_streams, with_units
from newnormal.fleet.folder.checkpoints import FleetCheckpoints
from newnormal.fleet.folder.lock import FolderLock
from newnormal.fleet.folder.manifest import Manifest
from newnormal.fleet.folder.names import MANIFEST, files_of
from newnormal.fleet.folder.recovery import Read, consistent, read_streams
from newnormal.fleet.folder.writer import FleetContents, FolderWriter
from newnormal.fleet.incidents import IncidentTracker, Opening
from newnormal.fleet.results import FleetEvent, FleetObserved, FleetVerdicts, Part
from newnormal.fleet.stream import Stream
from newnormal.fleet.streams import FleetStreams
from newnormal.fleet.work import Gathered, gather_array, gather_samples, gather_tables, zone_of_step
from newnormal.tabular import Long, StreamTables, Table, to_table, to_tables
from newnormal.types import (
    NO_TIME,
    OPENED,
    Alarm,
    Change,
    Event,
    Incident,
    IncidentEvent,
    ns_of_time,
)
from newnormal.types.frames import kind_of_rows
from newnormal.types.zones import common_zone

EVENTS = 10_000  # kept until they are taken
_Path: TypeAlias = str | os.PathLike[str]
_Items: TypeAlias = tuple[Alarm | Change, ...]
_Target: TypeAlias = Alarm | Change | int | None


class Fleet:
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
        self.fleet_alarms_per_day = _limit_of(fleet_alarms_per_day, self.detector)
        self.workers = workers
        self.failures_: dict[str, NewnormalError] = {}
        self._streams = FleetStreams()
        self._tracker, self._ticks = IncidentTracker(None), 0
        self._reading: dict[str, Any] = {}  # how `fit` read its data: `run` reads alike
        self._events: deque[FleetEvent] = deque(maxlen=EVENTS)
        self._checkpoints: FleetCheckpoints | None = None  # of the folder that it is attached to
        self._position = 0  # of the folder it was read from
        self._live_zone: str | None = None  # that all streams were given at last; "": each its own
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
            The column, or columns, that name the stream; an index by (host, time) needs none.
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
            reading = None if tables.profile is None else tables.profile.reading
            self._reading = {"by": by, "times": times, "long": long, "file": reading}
            streams = FleetStreams()
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
        """Take note of other streams, or other fits."""
        if self._checkpoints is not None:
            self._checkpoints.structure()

    def _fitted(
        self,
        tables: StreamTables,
        count: int,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> dict[str, BaseDetector]:
        """Fit detectors; each stream's limit is the fleet's divided by `count`."""
        template = self.detector
        if self.fleet_alarms_per_day is not None:
            template = template.unfitted(alarms_per_day=self.fleet_alarms_per_day / max(count, 1))
        self.failures_ |= tables.errors
        detectors = with_units(template, tables)
        # How a file was read is remembered once, by the fleet.
        histories = {name: replace(table, profile=None) for name, table in tables.tables.items()}
        fitted: dict[str, BaseDetector] = {}
        for name, result in fit_streams(
            detectors, histories, workers=self.workers, on_progress=on_progress
        ):
            if isinstance(result, BaseDetector):
                fitted[name] = result.track_alarms()
            else:
                self.failures_[name] = result
        return {name: fitted[name] for name in tables.tables if name in fitted}

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
                fitted = self._fitted(tables, len(self) + 1)
                if name not in fitted:
                    raise self.failures_.pop(name)
                self._streams.add(name, fitted[name])
            self._restructured()
        return self

    def adopt(self, other: Fleet) -> Self:
        """Take the streams of another fleet instead of those there are, and how it was made."""
        with self._lock, other._lock:
            for name in self._streams.names:
                self._streams.remove(name)
            self.detector, self.fleet_alarms_per_day = other.detector, other.fleet_alarms_per_day
            self._reading, self._ticks = dict(other._reading), other._ticks
            self._tracker = IncidentTracker.of_file(other._tracker.to_json(), "fleet")
            for stream in other._streams:
                self._streams.take(stream)
            self._events = deque(other._events, maxlen=EVENTS)
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
            fitted = self._fitted(tables, len(self))
            for name, detector in fitted.items():
                self._streams.replace(name, detector)
                self._tracker.forget(name)
            self._restructured()
            self._report_failures(len(fitted))
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
            before = self.opened(tables.tables, past=True) if flush else {}
            verdicts = self._advance(gathered, flush)
            verdicts.frame = None if isinstance(X, Mapping) else kind_of_rows(X, times)
            if flush:  # the series are over; `watch`, which goes on, has no use for pictures
                samples = tuple(rows.samples for _, rows, _ in gathered.work)
                labels = {
                    name: table.labels.astype(bool)
                    for name, table in tables.tables.items()
                    if table.labels is not None
                }
                now = self.opened(tables.tables)
                verdicts.observed = FleetObserved(samples, now, labels, before)
            return verdicts

    def _read_as(self, X: Any, by: Any, times: Any, long: Any = None) -> dict[str, Any]:
        """Return how to read data: as given, and else the columns that `fit` was given."""
        given = {"by": by, "times": times, "long": long}
        fitted = {name: self._reading.get(name) for name in given}
        kept = {name: columns for name, columns in fitted.items() if _names_columns(columns)}
        if isinstance(X, Mapping):
            kept.pop("by", None)
        return kept | {name: columns for name, columns in given.items() if columns is not None}

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

    def consume(
        self, tables: Mapping[str, Table] | StreamTables, *, flush: bool = False
    ) -> FleetVerdicts:
        """Consume samples that are in order already, for a caller that calls often.

        Parameters
        ----------
        tables
            By the name of the stream: its channels in their order, times that increase. With
            `StreamTables` the zones of their times are noted, too.
        flush
            Judge also what is pending of these streams.
        """
        streams = tables if isinstance(tables, StreamTables) else StreamTables(dict(tables))
        with self._lock:
            if tables is streams:
                self._see_zones(streams)
            return self._advance(gather_tables(self._streams, streams), flush)

    def flush(self) -> FleetVerdicts:
        """Judge what is pending of every stream, as `Detector.flush` does."""
        with self._lock:
            nothing = {
                stream.name: Table(np.empty((0, len(stream.fitted.channels))), None, None)
                for stream in self._streams
            }
            return self._advance(gather_tables(self._streams, StreamTables(nothing)), True)

    def close_alarms(self) -> FleetVerdicts:
        """Close the open alarms of all streams, because they have ended; changes stay."""
        with self._lock:
            before, self._events = self._events, deque(maxlen=EVENTS)
            for name in self._opened("alarms_"):
                self._act(name, "close_alarms")
            closed = tuple(self._events)
            self._events = before
            self._events.extend(closed)
        return FleetVerdicts((), events=closed)

    def _advance(self, gathered: Gathered, flush: bool) -> FleetVerdicts:
        if self._checkpoints is not None:
            self._checkpoints.samples(gathered)
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
                concerned = event.change or event.alarm
                if concerned is not None:
                    stream.remember([concerned])
                events.append((moment, FleetEvent(stream.name, in_zone(event, stream.zone))))
                if event.kind == OPENED and event.alarm is not None:
                    opened.append((stream.name, event, number))
            parts.append(Part.of(group.streams, judged, origin))
        self._ticks += length
        events.sort(key=lambda pair: pair[0])
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
        events = tracker.update(openings, len(self))
        now = newest if is_timed else self._ticks - 1
        events += tracker.advance(now) if now != NO_TIME else []
        return [self._zoned_event(event) for event in events]

    # ------------------------------------------------------------------ alarms and changes

    def accept(
        self, name: str, alarm: _Target = None, *, change: Change | int | None = None
    ) -> Self:
        """Accept a change of a stream, or what an alarm is about, as `Detector.accept` does."""
        return self._act(name, "accept", alarm, change)

    def reject(
        self, name: str, alarm: _Target = None, *, change: Change | int | None = None
    ) -> Self:
        """Reject a change of a stream, as `Detector.reject` does."""
        return self._act(name, "reject", alarm, change)

    def undo(self, name: str) -> Self:
        """Undo the newest acceptance of a stream, as `Detector.undo` does."""
        return self._act(name, "undo")

    def _act(self, name: str, verb: str, alarm: Any = None, change: Any = None) -> Self:
        """Do what a person says about a stream; nothing changes if that raises."""
        with self._lock:
            group, at = self._streams.where(name)
            if isinstance(alarm, Change):
                alarm, change = None, alarm
            named = [getattr(target, "number", target) for target in (alarm, change)]
            if self._checkpoints is not None:
                self._checkpoints.act(self._streams, name)
            events = group.streams[at].act(verb, *named)
            group.refresh(at)
            zone = group.streams[at].zone
            self._events.extend(FleetEvent(name, in_zone(event, zone)) for event in events)
        return self

    def set_options(self, names: str | Iterable[str] | None = None, **options: Any) -> Self:
        """Change the limit on alarms of live streams, as `Detector.set_options` does.

        None: of all streams, and of those that are added or fitted anew later. If a stream cannot
        have it, nothing changes.
        """
        with self._lock:
            named = [names] if isinstance(names, str) else list(self if names is None else names)
            self._streams.set_options(dict.fromkeys(named), options)
            if names is None:
                self.detector.set_params(**{"alarms_per_day": None, "risk": None, **options})
                self.fleet_alarms_per_day = None
            self._restructured()
        return self

    def take_events(self) -> list[FleetEvent]:
        """Return what happened to alarms and changes since the last call; the newest are kept."""
        with self._lock:
            events = list(self._events)
            self._events.clear()
        return events

    # ------------------------------------------------------------------ what it shows

    def __repr__(self) -> str:
        count = len(self._streams)
        return f"Fleet({count:,} stream{'' if count == 1 else 's'}, {self.detector!r})"

    _repr_html_ = hooks.html

    @property
    def streams_(self) -> tuple[str, ...]:
        """The names of the streams, in the fleet's order."""
        return self._streams.names

    @property
    def nbytes_(self) -> int:
        """How many bytes the arrays of all streams take."""
        return self._streams.nbytes

    def blocks(self) -> Iterator[Stream]:
        """Give each stream as it lies in memory, in the fleet's order: to look at."""
        return iter(self._streams)

    def block(self, name: str) -> Stream:
        """Return a stream as it lies in memory: to look at."""
        return self._streams[name]

    @property
    def channels_(self) -> dict[str, tuple[str, ...]]:
        """The channels of each stream."""
        return {stream.name: stream.fitted.channels for stream in self._streams}

    @property
    def reading_(self) -> dict[str, Any] | None:
        """How history was read from a file, as JSON values; None if it was not."""
        return self._reading.get("file")

    @property
    def period_(self) -> np.timedelta64 | None:
        """The median of the streams' times between samples; None where none has one."""
        return self._streams.period

    @property
    def last_times_(self) -> dict[str, np.datetime64]:
        """The newest time of each stream that has one."""
        places = {name: self._streams.where(name) for name in self._streams.names}
        newest = {name: int(group.newest[at]) for name, (group, at) in places.items()}
        return {name: np.datetime64(ns, "ns") for name, ns in newest.items() if ns != NO_TIME}

    @property
    def incidents_(self) -> list[Incident]:
        """The newest incidents, open ones last."""
        return [self._zoned(incident) for incident in self._tracker.incidents]

    @property
    def zones_(self) -> dict[str, str]:
        """The zone that times are given out in, of each stream that has one."""
        return {stream.name: zone for stream in self._streams if (zone := stream.zone) is not None}

    def see_zone(self, zone: str | None) -> None:
        """Take note of the zone of an input that all streams are in."""
        if zone != self._live_zone:
            for stream in self._streams:
                stream.live_zone = zone
        self._live_zone = zone

    def _see_zones(self, tables: StreamTables) -> None:
        """Take note of the zone of each stream's times."""
        for name, table in tables.tables.items():
            if table.times is not None and name in self._streams:
                self._streams[name].live_zone = table.zone
        self._live_zone = ""

    def _zoned_event(self, event: IncidentEvent) -> IncidentEvent:
        return replace(event, incident=self._zoned(event.incident))

    def _zoned(self, incident: Incident) -> Incident:
        """Return an incident in the zone that its streams have in common."""
        here = [name for name in incident.streams if name in self._streams]
        zone = common_zone({self._streams[name].zone for name in here})
        return incident if zone is None else replace(incident, zone=zone)

    @property
    def alarms_(self) -> dict[str, list[Alarm]]:
        """The open alarms of each stream that has any."""
        return self._opened("alarms_")

    @property
    def changes_(self) -> dict[str, list[Change]]:
        """The open changes of each stream that has any."""
        return self._opened("changes_")

    @property
    def past_(self) -> dict[str, list[Alarm | Change]]:
        """The last hundred alarms and changes of each stream that had any, the oldest first."""
        return self._opened("past_")

    def opened(self, names: Iterable[str], *, past: bool = False) -> Mapping[str, _Items]:
        """Return the open alarms and changes of some streams, or their `past` ones, if any."""
        streams = [self._streams[name] for name in names if name in self._streams]
        opened: dict[str, _Items] = {}
        for stream in streams:
            if stream.past:  # without any event nothing was ever opened
                live = stream.live()
                opened[stream.name] = (*live.past_,) if past else (*live.alarms_, *live.changes_)
        return {name: items for name, items in opened.items() if items}

    def _opened(self, attribute: str) -> dict[str, list[Any]]:
        with self._lock:
            opened = {
                stream.name: list(getattr(stream.live(), attribute))
                for stream in self._streams
                if stream.past  # without any event nothing was ever opened
            }
        return {name: items for name, items in opened.items() if items}

    # ------------------------------------------------------------------ save and load

    def save(self, folder: _Path) -> None:
        """Write the whole fleet to a folder, atomically; an older fleet there is replaced.

        Parameters
        ----------
        folder
            Made if there is none. `Fleet.load` reads it.
        """
        path = Path(folder)
        with self._lock:
            if not len(self._streams):
                raise StateError("expected a fleet with streams, found none", hint="fit it first")
            _make(path)
            lock = FolderLock(path).acquire()
            try:
                writer = FolderWriter(path)
                writer.arrange(self._streams)
                writer.write_changed()
                writer.publish(self._contents(), 0)
            finally:
                lock.release()

    @classmethod
    def load(
        cls,
        folder: _Path,
        *,
        skip_damaged: bool = False,
        model: object = None,
        threshold: object = None,
    ) -> Self:
        """Return the fleet of a folder as it is now, in memory; the folder is not changed.

        Another process may have it open.

        Parameters
        ----------
        folder
            Of `save`, or that of an engine, as of its last checkpoint.
        skip_damaged
            Leave out streams that are damaged, with a warning, instead of an error.
        model, threshold
            The class of a model and of a threshold that are not built in, as for `newnormal.load`.
        """
        path = files_of(Path(folder))

        def read(manifest: Manifest) -> Any:
            streams = read_streams(path, manifest, model, threshold, skip_damaged=skip_damaged)
            return cls._of(path, streams, model, threshold)

        loaded: Self = consistent(path, read)
        return loaded

    @classmethod
    def open(
        cls,
        folder: _Path,
        streams: Fleet | None = None,
        *,
        on_replay: Callable[[FleetVerdicts], None] | None = None,
        sync: bool = False,
        model: object = None,
        threshold: object = None,
    ) -> Fleet:
        """Return the fleet of an engine's folder, which goes on there: a kill loses nothing.

        Every call is logged before it changes the fleet. No other process can use the folder until
        `close`; use it as a context. `newnormal watch` and `newnormal serve` go on with it.

        Parameters
        ----------
        folder
            Made if there is none.
        streams
            The streams that a new folder begins with.
        on_replay
            Called with the verdicts of the last call before a kill: the caller may not have seen
            them.
        sync
            Whether each call is on the disk before it acts: then a loss of power loses nothing
            either.
        model, threshold
            As for `load`.
        """
        opened: Fleet = hooks.open_fleet(folder, streams, on_replay, sync, (model, threshold))
        return opened

    @classmethod
    def attach(cls, folder: _Path, *, model: object = None, threshold: object = None) -> Self:
        """Return the fleet of a folder for an engine, which keeps the log; an empty one without.

        Nothing is written but by ``checkpoint(position)``. After a kill, `attach` gives the fleet
        as it was at `position`, and the caller applies what it logged after that.
        """
        path = Path(folder)
        _make(path)
        lock = FolderLock(path).acquire()
        try:
            writer = FolderWriter(path)
            if (path / MANIFEST).exists():
                files = consistent(
                    path, lambda manifest: read_streams(path, manifest, model, threshold)
                )
                fleet = cls._of(path, files, model, threshold)
                writer.adopt(files.manifest, files.shards)
            else:
                fleet = cls()
            fleet._checkpoints = FleetCheckpoints(writer, lock, fleet._contents, fleet._position)
        except BaseException:
            lock.release()
            raise
        return fleet

    @classmethod
    def _of(cls, folder: Path, files: Read, model: object, threshold: object) -> Self:
        """Return the fleet of what was read."""
        manifest, origin = files.manifest, str(folder / MANIFEST)
        fleet = cls(BaseDetector.from_options(manifest.detector, origin, model, threshold))
        fleet.fleet_alarms_per_day = manifest.limit
        fleet._streams = files.streams
        fleet._tracker = IncidentTracker.of_file(manifest.incidents, origin)
        fleet._ticks, fleet._reading = manifest.ticks, manifest.reading
        fleet._events.extend(files.events)
        fleet._position = manifest.position
        if files.lost_names:
            names = ", ".join(map(repr, files.lost_names[:5]))
            warnings.warn(
                f"{len(files.lost_names)} streams of {folder} are damaged and left out: {names}"
                f"{' and more' if len(files.lost_names) > 5 else ''}",
                NewnormalWarning,
                stacklevel=5,
            )
        return fleet

    def _contents(self) -> FleetContents:
        """Return what a folder holds of the fleet."""
        reading = {}
        for name, value in self._reading.items():
            try:
                if json.loads(json.dumps(value)) in (value, list(value or ())):
                    reading[name] = value
            except (TypeError, ValueError):  # a frame of times, say: it is given again
                continue
        return FleetContents(
            self.detector.options_as_json(),
            self.fleet_alarms_per_day,
            reading,
            self._ticks,
            self._tracker.to_json(),
            self._streams,
            self._events,
        )

    def close(self, *, save: bool = True) -> None:
        """Save everything and let go of the folder, if it is open on one; go on in memory.

        Without `save` the folder is as a kill would leave it.
        """
        del save

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # ------------------------------------------------------------------ for an engine

    @property
    def position(self) -> int:
        """The position of the log up to which the folder has everything."""
        return self._position if self._checkpoints is None else self._checkpoints.position

    def checkpoint(self, position: int) -> None:
        """Save all streams, as of a position of the engine's log."""
        with self._lock:
            if self._checkpoints is None:
                raise StateError(
                    "expected a fleet that an engine has attached, found one in memory",
                    hint="use fleet.save(folder)",
                )
            self._checkpoints.save(position)

    def detach(self) -> None:
        """Let go of the folder as it is; the fleet goes on in memory."""
        with self._lock:
            checkpoints, self._checkpoints = self._checkpoints, None
            if checkpoints is not None:
                self._position = checkpoints.position
                checkpoints.release()

    def take_out(self, name: str, path: _Path) -> None:
        """Write one stream as an ordinary state file, which `newnormal.load` reads.

        ``fleet.add(name, newnormal.load(path))`` puts it into a fleet.
        """
        with self._lock:
            detector = self._streams[name].detector()
        detector.save(path)


def _make(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StateError(
            f"cannot write {path}: {error.strerror}",
            hint="give a folder, or a name that nothing has",
        ) from error


def _names_columns(columns: Any) -> bool:
    """Whether an option names columns; an array is one value a row, of that data alone."""
    texts = isinstance(columns, list | tuple) and all(isinstance(name, str) for name in columns)
    return texts or isinstance(columns, str | bool | Long)


def _limit_of(limit: float | None, detector: BaseDetector) -> float | None:
    """Return the limit on the alarms of all streams, if it can be one."""
    if limit is None:
        return None
    if not limit > 0:
        raise ParameterError(f"fleet_alarms_per_day: expected more than 0, found {limit}")
    for name in ("alarms_per_day", "risk", "threshold"):
        if detector.get_params()[name] is not None:
            raise ParameterError(
                f"fleet_alarms_per_day and {name}: expected one of them, found both",
                hint="fleet_alarms_per_day is divided among the streams, alarms_per_day is of each",
            )
    return float(limit)


def load_one_stream(folder: _Path, model: object, threshold: object) -> BaseDetector:
    """Return the detector of a folder that has one stream."""
    fleet = Fleet.load(folder, model=model, threshold=threshold)
    if fleet.streams_ != ("",):
        raise StateError(
            f"{folder}: expected a detector of one stream, found a fleet of {len(fleet)}",
            hint="Fleet.load(folder)[stream]",
        )
    return fleet[""]
