"""Applies the entries of the log, in their order: the one place where streams change.

The same entries give the same streams, verdicts, alarms and events, whenever they are applied:
nothing here looks at a clock or at what the store has beyond them. Everything that is stored has
a name that follows from the log, so that applying an entry again changes nothing.
"""

import logging
from base64 import b64decode
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from newnormal.arrivals.arrival import Arrival
from newnormal.arrivals.order import Order, Steps
from newnormal.engine import items
from newnormal.engine.channels import compare_channels
from newnormal.engine.judging import LiveBatch, judge, report_events
from newnormal.engine.log import entries as log
from newnormal.engine.modelling import (
    begin_fit,
    begin_generations,
    fail_fit,
    follow_limits,
    put_model,
    restore_model,
    take_fit,
)
from newnormal.engine.outages import Outages, come_back, fall_silent, leave
from newnormal.engine.reporting import Reporter
from newnormal.engine.steps import judge_steps
from newnormal.engine.store import Store
from newnormal.engine.streams import (
    StreamRecord,
    StreamRecords,
    check_without_model,
)
from newnormal.engine.values import Item, StoredRows
from newnormal.errors import InputError, NewnormalError, StateError
from newnormal.fleet import Fleet, FleetEvent, FleetVerdicts
from newnormal.types import NO_TIME, Bools

_LOG = logging.getLogger("newnormal")
STEPS = "steps"  # names the position of the input that `StepsTaken` came of
_ALL = 1 << 40
_LOST = "the log has lost what came after it"
Outcome = Item | NewnormalError | None
_ROWS = 2_048  # that are kept at once: a row has five numbers a value
_NEVER = 1 << 62  # ns: behind every sample


class Applier:
    """The streams of the service, and what entries do to them.

    Attributes
    ----------
    models
        The folder of fitted models.
    """

    def __init__(self, store: Store, fleet: Fleet, models: Path, report: Reporter) -> None:
        self.store, self.fleet, self.models, self.report = store, fleet, models, report
        self.position = 0  # of the last record that was applied
        self.streams = StreamRecords()
        self.outages = Outages()  # streams that are silent together
        # the newest snapshot of each source
        self.input_positions: dict[str, Mapping[str, Any]] = {}
        self.patterns: tuple[Any, ...] = ()
        self.touched: dict[int, StreamRecord] = {}  # streams that the last record concerned
        # streams whose fits have begun, and were not handed to a worker yet
        self.started: list[StreamRecord] = []
        self.samples = 0  # how many closed samples there were in all
        self.removed: Counter[str] = Counter()  # the counts of streams that were removed
        # What the last record gave that is not kept: verdicts on its steps, events of decisions.
        self.verdicts: list[FleetVerdicts] = []
        self.decided: list[FleetEvent] = []
        self.judge_steps = judge_steps
        self._batch = LiveBatch()
        self._handlers: dict[type, Callable[[Any], Outcome]] = {
            log.SamplesArrived: self._arrived,
            log.Closed: self._closed,
            log.Configured: self._configured,
            log.FitBegan: self._fit_began,
            log.FitTaken: self._fit_taken,
            log.FitFailed: self._fit_failed,
            log.FeedbackGiven: self._feedback,
            log.PositionsLost: self._lost,
            log.Silent: self._silent,
            log.Removed: self._removed,
            log.Restored: self._restored,
            log.ModelPut: self._model_put,
            log.Started: self._started,
            log.StepsTaken: self._steps_taken,
        }

    def apply(self, position: int, entries: Sequence[log.Entry]) -> list[Outcome]:
        """Apply the entries of one record; return the result of each.

        Samples of entries that follow each other are judged in one call; anything else waits for
        the samples before it.
        """
        self.position = self.store.connection.position = position
        self.touched, self.verdicts, self.decided = {}, [], []
        self.report.begin(position)
        outcomes: list[Outcome] = []
        for entry in entries:
            if self._batch and not isinstance(entry, log.SamplesArrived | log.Closed):
                self._outcome(self._judge)
            outcomes.append(self._outcome(partial(self._handlers[type(entry)], entry)))
        self._outcome(self._judge)
        for stream in self.touched.values():
            stream.version += 1
        return outcomes

    def _outcome(self, act: Callable[[], Outcome]) -> Outcome:
        """Do one thing; an error of it is its outcome, and what follows goes on.

        An error of the store is raised: nothing can be kept then.
        """
        try:
            return act()
        except StateError:
            raise
        except NewnormalError as error:
            return error
        except Exception as error:  # noqa: BLE001  (the log goes on; it fails alike every time)
            _LOG.exception("position %d could not be applied", self.position)
            return NewnormalError(f"{type(error).__name__}: {error}")

    # ------------------------------------------------------------------ samples

    def _arrived(self, entry: log.SamplesArrived) -> None:
        if entry.history:  # nothing of it is taken where a stream is fitted meanwhile
            check_without_model(self.streams, (arrival.stream for arrival in entry.arrivals))
        for arrival in entry.arrivals:
            if not len(arrival.times):
                continue
            stream = self.streams.named(arrival.stream) or self.appear(
                arrival.stream, int(arrival.times.max())
            )
            stream.source = entry.source
            if entry.past:
                stream.past = max(stream.past, int(arrival.times.max()))
            if entry.history:
                self._history(stream, arrival)
            else:
                self._take(stream, stream.order.take(arrival, stream.needed_channels))
            self.streams.count_names(stream, entry.writer)
        if entry.source and entry.input_position is not None:
            self.input_positions[entry.source] = entry.input_position

    def _closed(self, entry: log.Closed) -> None:
        stream = self.streams.get(entry.stream)
        if stream is not None:
            self._take(stream, stream.order.close(entry.until))

    def appear(self, name: str, now: int) -> StreamRecord:
        """Begin a stream that was not known."""
        period, lateness, _ = self.configured(name)
        number = self.streams.next_id
        self.store.samples.truncate(number, 0)
        stream = StreamRecord(number, name, Order(period, lateness))
        stream.period_given = period is not None
        self.streams.add(stream)
        self.report.state_of(stream, now)
        return stream

    def configured(self, name: str) -> list[Any]:
        """Return period, lateness and limit on alarms that the settings have for a stream."""
        values: list[Any] = [None, None, None]
        for pattern, *given in self.patterns:
            if fnmatchcase(name, pattern):
                pairs = zip(given, values, strict=True)
                values = [old if new is None else new for new, old in pairs]
        return values

    def _take(self, stream: StreamRecord, steps: Steps) -> None:
        """Take closed time steps: judged if the stream is live, kept as history if not."""
        self.touched[stream.id] = stream
        count = len(steps.times)
        if not count:
            return
        self.samples += count
        silent = stream.silence
        if silent is not None:
            now = int(steps.times[0])
            if stream.excused_after is None:
                stream.excused_after = now - 1
            if silent is stream.outage:
                come_back(self, stream, now)
            else:
                over = items.silence_over(stream, silent, now, self.position)
                self.report.item("samples_again", stream, over, now)
        stream.note_gap(steps.times)
        if silent is not None and steps.times[-1] < silent.body["noticed"]:
            # Samples from before it was noticed: the gap that it is about comes with the next.
            stream.excused_after = int(steps.times[-1])
        if stream.is_live:
            self._batch.add(stream, steps)
        else:
            channels = stream.order.channels
            for first in range(0, count, _ROWS):
                part = slice(first, first + _ROWS)
                number = stream.count + first
                times, values = steps.times[part], steps.values[part]
                rows = StoredRows.of_samples(number, channels, times, values)
                self.store.samples.add(stream.id, rows)
        stream.count += count

    def _steps_taken(self, entry: log.StepsTaken) -> None:
        """Judge samples that are in order, and keep nothing but what happened."""
        for name in entry.anew:
            if (stream := self.streams.named(name)) is not None:
                order = stream.order
                stream.order = Order(order.period, order.lateness, channels=order.channels)
                stream.order.counts = order.counts
        for verdicts in self.judge_steps(self.fleet, entry, self._select):
            self._judged(verdicts)
        if entry.input_position is not None:
            self.input_positions[STEPS] = entry.input_position

    def _select(self, arrival: Arrival) -> Bools | None:
        """Return which samples come after those that came by another way; None: all."""
        stream = self.streams.named(arrival.stream)
        assert stream is not None
        self.touched[stream.id] = stream
        order, times = stream.order, arrival.times
        if times[0] == NO_TIME:
            stream.unkept += len(times)
            return None
        later = None if times[0] > order.closed else times > order.closed
        if later is not None:
            order.counts["late"] += int((~later).sum())
        stream.unkept += len(times) if later is None else int(later.sum())
        order.begin(arrival.channels, int(times[-1]))
        return later

    def _judged(self, verdicts: FleetVerdicts) -> None:
        for part in verdicts.parts:
            columns = part.judged.columns
            for at, span in part.spans.items():
                stream = self.streams.named(part.streams[at].name)
                assert stream is not None
                last = span.stop - 1
                stream.ratio = float(columns.ratios[last])
                stream.distance = float(columns.distances[last])
        report_events(self, verdicts, alert=False)
        self.verdicts.append(verdicts)

    def _judge(self) -> None:
        """Judge the samples of live streams that were taken."""
        batch, self._batch = self._batch, LiveBatch()
        if batch:
            judge(self, batch)
            for stream, steps in batch.taken():
                compare_channels(self, stream, steps)
                self.report.report_past(stream)

    def _history(self, stream: StreamRecord, arrival: Arrival) -> None:
        """Take uploaded samples as the history of a stream, before those that it has."""
        self._take(stream, stream.order.close(_NEVER))  # also what is held: it is sifted anew
        kept: StoredRows | None = None
        first_kept = self.store.samples.first_kept(
            stream.id
        )  # retention may have removed those before
        if first_kept < stream.count:
            kept = self.store.samples.rows(stream.id, first_kept, stream.count - 1)
        self.samples -= stream.count
        by_time = np.argsort(arrival.times, kind="stable")
        times, values = arrival.times[by_time], arrival.values[by_time]
        first = np.append(True, np.diff(times) > 0)
        times, values = times[first], values[first]
        order = stream.order
        stream.order = fresh = Order(order.period, order.lateness)
        fresh.counts = order.counts
        fresh.counts["duplicate"] += len(arrival.times) - len(times)
        stream.count = 0
        self.store.samples.truncate(stream.id, 0)
        steps = fresh.take(Arrival(stream.name, arrival.channels, times, values))
        self._take(stream, steps)
        self._take(stream, fresh.close(int(times[-1]) + 1))
        last = stream.count - 1
        if kept is not None:
            later = kept.times > times[-1]
            stream.counts["replaced"] += int((~later).sum())
            rest = Arrival(stream.name, kept.channels, kept.times[later], kept.values[later])
            if later.any():
                self._take(stream, fresh.take(rest))
        self._fit_began(log.FitBegan(stream.id, 0, last, "uploaded"))

    # ------------------------------------------------------------------ models

    def _fit_began(self, entry: log.FitBegan) -> None:
        begin_fit(self, self._stream(entry.stream), entry)

    def _fit_taken(self, entry: log.FitTaken) -> None:
        take_fit(self, self._stream(entry.stream), entry)

    def _fit_failed(self, entry: log.FitFailed) -> None:
        fail_fit(self, self._stream(entry.stream), entry)

    def _restored(self, entry: log.Restored) -> None:
        restore_model(self, self._stream(entry.stream), entry.generation)

    def _model_put(self, entry: log.ModelPut) -> None:
        stream = self.streams.named(entry.stream)
        if stream is None:
            stream = self.appear(entry.stream, entry.now)
        elif stream.fit is not None:
            raise InputError(
                f"expected no fit of {stream.name!r} under way, found one",
                hint="wait until it has finished",
            )
        self._take(stream, stream.order.close(_NEVER))
        self._judge()
        self.touched[stream.id] = stream
        put_model(self, stream, b64decode(entry.model), entry.now)
        self.streams.count_names(stream, entry.writer)

    # ------------------------------------------------------------------ people and the clock

    def _feedback(self, entry: log.FeedbackGiven) -> Item | None:
        stream = self._stream(entry.stream)
        if entry.verb == items.UNDO:
            self._live(stream)
            self.fleet.undo(stream.name)
            self.decided += (events := self.fleet.take_events())
            self.report.events(stream, events)
            self.report.feedback(stream, entry, None)
            return None
        key = items.key_of(entry.item or "")
        if key.generation != stream.generation:
            raise InputError(
                f"expected an item of the model that {stream.name!r} has now, found one of an "
                f"earlier model",
                hint="what the new model finds has an item of its own",
            )
        if key.kind == items.CHANNELS:
            item: Item | None = self._decide_channels(stream, entry)
        elif key.kind == items.SILENT:
            raise InputError(
                "expected an alarm or a change, found a silence",
                hint="it ends when samples come again; remove the stream if it never will",
            )
        else:
            self._live(stream)
            act = self.fleet.accept if entry.verb == items.ACCEPT else self.fleet.reject
            if key.kind == items.ALARM:
                act(stream.name, key.number)
            else:
                act(stream.name, change=key.number)
            self.decided += (events := self.fleet.take_events())
            concerned = self.report.events(stream, events)
            item = concerned.get(key.text) or self.store.items.get(key.text)
        self.report.feedback(stream, entry, item)
        return item

    def _decide_channels(self, stream: StreamRecord, entry: log.FeedbackGiven) -> Item:
        pending = stream.items.get(entry.item or "")
        if pending is None or stream.model is None:
            raise InputError(
                f"expected a pending change of channels of {stream.name!r}, found none",
                hint="it was decided, or the channels are those of the model again",
            )
        new, gone = (list(pending.body[name]) for name in ("new", "gone"))
        now = stream.now
        if entry.verb == items.ACCEPT:
            kept = [name for name in stream.model.channels if name not in gone]
            first = max((stream.since.get(name, 0) for name in new), default=0)
            stream.wanted = (*kept, *new), first
        else:
            stream.ignored = tuple({*stream.ignored, *new, *gone})
        state = "accepted" if entry.verb == items.ACCEPT else "rejected"
        item = items.ended(pending, state, now, self.position)
        stream.items.pop(pending.key, None)
        self.report.item(state, stream, item, now, keep=False)
        self.touched[stream.id] = stream
        return item

    def _silent(self, entry: log.Silent) -> None:
        fall_silent(self, ((entry.stream, entry.since), *entry.others), entry.now)

    def _removed(self, entry: log.Removed) -> None:
        stream = self._stream(entry.stream)
        if stream.name in self.fleet:
            self.fleet.remove(stream.name)
        now = stream.now
        leave(self, stream, now, "stream removed")
        for item in list(stream.items.values()):
            ended = items.ended(item, "closed", now, self.position, reason="stream removed")
            self.report.item("closed", stream, ended, now)
        self.streams.remove(stream)
        self.removed.update(stream.shown().counts)
        self.touched.pop(stream.id, None)
        self.store.forget(stream.id)
        self.report.removed(stream)

    def _started(self, entry: log.Started) -> None:
        """Take note that a gap before the next sample may be the service's own."""
        del entry
        for stream in self.streams:
            stream.excused_after = stream.order.newest

    def _configured(self, entry: log.Configured) -> None:
        self.patterns = entry.patterns
        for stream in self.streams:
            period, *_ = self.configured(stream.name)
            stream.period_given = period is not None
            if period is not None and period != stream.order.period:
                stream.order.follow(period)
                self.touched[stream.id] = stream
        follow_limits(self)

    def _lost(self, entry: log.PositionsLost) -> None:
        """Give no name out twice, and end what is open because of records that are lost."""
        for item in self.store.items.page(open_only=True, limit=_ALL).items:
            stream = None if item.stream is None else self.streams.get(item.stream)
            known = item.key in (self.outages.open if stream is None else stream.items)
            if item.position >= entry.first and not known:
                state = "closed" if item.kind not in (items.CHANGE, items.CHANNELS) else "reverted"
                over = items.ended(item, state, item.updated, self.position, reason=_LOST)
                self.report.of_many("closed", over)
        for stream in self.streams:
            begin_generations(self, stream, entry.numbers)
        for number in range(self.streams.next_id, entry.streams + 1):
            self.store.forget(number)
        self.streams.next_id = max(self.streams.next_id, entry.streams + 1)
        self.outages.count = self.report.lost_begun = entry.numbers

    def _stream(self, number: int) -> StreamRecord:
        stream = self.streams.get(number)
        if stream is None:
            raise InputError(f"expected a stream, found none of number {number}")
        self.touched[stream.id] = stream
        return stream

    def _live(self, stream: StreamRecord) -> None:
        if stream.name not in self.fleet:
            raise InputError(
                f"expected a live stream, found {stream.name!r}, which is {stream.state}",
                hint="wait until its model is fitted",
            )
