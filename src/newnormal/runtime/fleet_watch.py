"""Watching an input of many streams: batches in, verdicts out, a fleet that survives a kill.

A fleet that is open on its folder logs each call before it acts, together with a marker: the
position in the input behind its samples. So after a kill, the fleet and the position belong
together, and nothing is lost. The output of the last call may not have been written: it comes
again, byte for byte. After a clean stop nothing repeats.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from newnormal.alarms.words import Note, event_note, incident_event_note
from newnormal.errors import InputError
from newnormal.fleet import Fleet, FleetEvent, FleetVerdicts
from newnormal.io.sinks.base import SinkOptions
from newnormal.io.sinks.lines import JsonLinesSink
from newnormal.io.sinks.text import TextSink
from newnormal.io.sources.lines import ColumnLayoutError
from newnormal.io.sources.streams import StreamInput, UnknownColumns
from newnormal.runtime.bad_lines import BadLineReporter
from newnormal.runtime.fleet_order import FleetOrder
from newnormal.runtime.fleet_resume import InputPosition
from newnormal.runtime.interruption import Interruption
from newnormal.runtime.silent_source import SilentSource
from newnormal.runtime.watch import BadRecordError, NothingReadError
from newnormal.tabular import Problem, StreamBatch, StreamTables, Table
from newnormal.tabular.ordering.live import OrderedSamples
from newnormal.types import CHANGED, OPENED, Floats, IncidentEvent, Ints, Times

_MOST_NAME = 24  # characters: a longer name of a stream is not what others are aligned to


class FleetSink(Protocol):
    """What a watch of a fleet writes to."""

    def write_fleet_verdicts(self, verdicts: FleetVerdicts) -> None:
        """Write verdicts."""

    def write_fleet_events(
        self, events: Sequence[FleetEvent], incidents: Sequence[IncidentEvent]
    ) -> None:
        """Write events of streams, and then those of the fleet."""

    def flush(self) -> None:
        """Return once everything written so far would survive the end of this process."""


class FleetJsonSink(JsonLinesSink):
    """One JSON line a verdict, or one an event where only events are wanted."""

    def write_fleet_verdicts(self, verdicts: FleetVerdicts) -> None:
        """Write a line a verdict, unless only events are wanted."""
        if not self.options.alarms_only:
            self.write_lines(verdicts.json_lines())

    def write_fleet_events(
        self, events: Sequence[FleetEvent], incidents: Sequence[IncidentEvent]
    ) -> None:
        """Write a line an event, if only events are wanted."""
        if self.options.alarms_only:
            self.write_lines([event.to_json() for event in events])
            self.write_lines(['{"stream": null, ' + event.to_json()[1:] for event in incidents])


class FleetTextSink(TextSink):
    """A block of text an event, with the name of its stream first."""

    def __init__(self, target: str, options: SinkOptions) -> None:
        super().__init__(target, options)
        self.name_width = 0  # the width that the names of streams are given

    def align(self, names: Sequence[str]) -> None:
        """Give names the width of the longest."""
        self.name_width = min(max(map(len, names), default=0), _MOST_NAME)

    def write_fleet_verdicts(self, verdicts: FleetVerdicts) -> None:
        """Show on the screen, if there is one, how far it is."""
        if self.screen is not None and len(verdicts):
            times = verdicts.times
            timed = None if times is None else times[~np.isnat(times)]
            newest = None if timed is None or not len(timed) else timed.max()
            self.screen.count(len(verdicts), newest, verdicts.zone)

    def write_fleet_events(
        self, events: Sequence[FleetEvent], incidents: Sequence[IncidentEvent]
    ) -> None:
        """Write what happened in streams and to the fleet, by time where all of it has times.

        Without times the incidents follow. Of a whole file they would be hours after their alarms.
        """
        notes: list[tuple[Note, str | None]] = []
        for row in events:
            if self.screen is not None:
                self.screen.note(row.stream, row.event)
            deciding = self.deciding._replace(stream=row.stream)
            notes.append((event_note(row.event, deciding), row.stream))
        notes += [(incident_event_note(event), "") for event in incidents]
        times = [row.event.time for row in events]
        times += [event.incident.end_time for event in incidents]
        if incidents and all(time is not None for time in times):
            order = np.argsort(np.array(times, dtype="datetime64[ns]"), kind="stable")
            notes = [notes[position] for position in order.tolist()]
        self.write_notes(notes, self.name_width)


_LINES = 1 << 16  # asked for at once
_KEY = "order"  # of a snapshot: the samples that are held back


class FleetWatch:
    """One input of many streams, watched by a fleet that is open on its folder.

    Parameters
    ----------
    fleet
        The fleet.
    source
        The input, at the position to go on from.
    sink
        Where verdicts and events go.
    position
        Where the input is.
    continues
        Whether it goes on from an earlier start.
    feedback
        Applies the feedback that waits.
    every
        Samples of a stream, on average, between two checkpoints.
    flush
        The input is finished when it ends: judge what is pending.
    strict
        Stop at a bad line.
    report
        Called with a line for the user.
    """

    def __init__(
        self,
        fleet: Fleet,
        source: StreamInput,
        sink: FleetSink,
        position: InputPosition,
        *,
        continues: bool = False,
        feedback: "Callable[[FleetWatch], None] | None" = None,
        every: int = 1000,
        flush: bool = False,
        strict: bool = False,
        report: Callable[[str], None],
    ) -> None:
        self.fleet, self.source, self.position = fleet, source, position
        # judged, anomalous, alarms, changes, incidents: verdicts, anomalous ones, and what opened
        self.judged = self.anomalous = self.alarms = self.changes = self.incidents = 0
        # bad, skipped: lines that held no sample, and samples that were judged before
        self.bad = self.skipped = 0
        self.unknown: dict[str, int] = {}  # lines of each stream that is not in the fleet
        self._sink = sink
        self._most = every * len(fleet)  # samples between two checkpoints
        self._since = 0
        self._flush, self._strict, self._report = flush, strict, report
        self._feedback = feedback
        self._channels = fleet.channels_
        newest, repeats = fleet.last_times_, source.source.repeats
        reading = source.source.options.reading
        self._columns = UnknownColumns(reading.ignore_extra, report)
        self._order = FleetOrder(
            reading, self._channels, fleet.period_, newest, continues=continues, repeats=repeats
        )
        if continues and _KEY in position.snapshot:
            self._order.restore(position.snapshot[_KEY])
        # Where a line may end the input, the position before it is needed.
        self._goes_back = strict or reading.on_duplicate == "error"
        self._marks: dict[str, dict[str, Any]] = {}  # of streams, before a batch
        self._is_new = repeats or not continues
        self._taken = 0  # samples so far
        self._first_bad: Problem | None = None
        self._interruption = Interruption()
        self._bad_lines = BadLineReporter(report)
        self._silence = SilentSource(source.source.name, fleet.period_, report)

    def run(self) -> None:
        """Watch until the input ends or the user stops it; then note that all was written."""
        with self._interruption.installed():
            try:
                self._read()
                self._handle_feedback()
                self._end(self._here())
            except ColumnLayoutError:
                raise  # nothing was learned, and there is no position to go on from
            except InputError:
                self._end(self.position.snapshot)
                raise

    def emit(self, verdicts: FleetVerdicts) -> None:
        """Write verdicts and events, and flush them out."""
        self.judged += len(verdicts)
        self.anomalous += int(verdicts.anomalous.sum())
        self._sink.write_fleet_verdicts(verdicts)
        self.emit_events(verdicts.events, verdicts.incidents)

    def emit_events(
        self, events: Iterable[FleetEvent], incidents: Iterable[IncidentEvent] = ()
    ) -> None:
        """Write events of streams, and then those of the fleet, and flush them out."""
        of_streams, of_fleet = list(events), list(incidents)
        self.alarms += sum(row.event.kind == OPENED for row in of_streams)
        self.changes += sum(row.event.kind == CHANGED for row in of_streams)
        self.incidents += sum(event.incident.open for event in of_fleet)
        self._sink.write_fleet_events(of_streams, of_fleet)
        self._sink.flush()

    def mark(self, **changes: Any) -> None:
        """Have the next call to the fleet logged together with a position."""
        self.position = replace(self.position, **{"stream": None, "clean": False, **changes})
        self.fleet.mark(self.position.to_bytes(), with_next=True)

    def _end(self, snapshot: dict[str, Any]) -> None:
        self.position = replace(self.position, snapshot=snapshot, stream=None, clean=True)
        self.fleet.mark(self.position.to_bytes())

    def _read(self) -> None:
        stopped = False
        while True:
            if self._interruption.asked and not stopped:
                stopped = True
                if not self.source.source.stop():
                    return
            self._handle_feedback()
            before = self.source.snapshot() if self._goes_back else {}
            if (batch := self.source.next_batch(_LINES)) is None:
                if not stopped:
                    self._finish()
                return
            if len(batch) or batch.problems:
                self._handle_feedback()  # given while the source waited
                self._judge(batch, before)
            self._silence.received(len(batch))

    def _here(self) -> dict[str, Any]:
        """Return the position behind the last batch, and what is held back."""
        return self._with_held(self.source.snapshot())

    def _with_held(self, snapshot: dict[str, Any]) -> dict[str, Any]:
        held = self._order.facts()
        return {**snapshot, **({_KEY: held} if held else {})}

    def _finish(self) -> None:
        """Handle the end of the input."""
        if not self._taken and self._is_new:
            left = self.source.undecided()
            bad = self.bad + len(left.problems)
            if bad and not len(left):
                first = self._first_bad or left.problems[0]
                raise NothingReadError.of(self.source.source, bad, first)
        if not self._flush:
            if self._order.far:
                self._report(
                    f"{self._order.far} streams have times that are far ahead: held back "
                    "until more samples come"
                )
            return
        tables = StreamTables({}, {})
        problems: list[Problem] = []
        for name, arrived in self._order.flush():
            problems += self._take_arrived(tables, name, arrived, {})
        self._report_bad(problems)
        self._consume(tables, self._here())
        self.mark(snapshot=self._here())
        self.emit(self.fleet.flush())

    def _handle_feedback(self) -> None:
        if self._feedback is not None:
            self._feedback(self)

    # ------------------------------------------------------------------ samples

    def _judge(self, batch: StreamBatch, before: dict[str, Any]) -> None:
        self._marks = {}
        tables, problems, ends = self._tables(batch)
        if ends or (self._strict and problems):
            first = min(ends or problems, key=lambda problem: problem.number)
            self.bad += 1
            self._order.go_back(self._marks)
            tables = self._tables(_up_to(batch, first.number))[0]
            self._consume(tables, self._with_held(self._position_of(before, first.number)))
            kind = InputError if ends else BadRecordError
            raise kind(self._named(first), hint=first.error.hint)
        self._report_bad(problems)
        self._count_unknown(batch)
        self._taken += len(batch)
        self._consume(tables, self._here())

    def _report_bad(self, problems: list[Problem]) -> None:
        for problem in problems:
            self.bad += 1
            self._first_bad = self._first_bad or problem
            self._bad_lines.bad(problem.number, self._named(problem), problem.error.hint)

    def _consume(self, tables: StreamTables, snapshot: dict[str, Any]) -> None:
        if not tables.tables:
            self.position = replace(self.position, snapshot=snapshot)
            return
        self.mark(snapshot=snapshot, zone=self.source.zone)
        verdicts = self.fleet.run(tables, flush=False)
        self.emit(verdicts)
        self.fleet.take_events()  # they were written
        self._since += len(verdicts)
        if self._since >= self._most:
            self.fleet.checkpoint()
            self._since = 0

    def _tables(self, batch: StreamBatch) -> tuple[StreamTables, list[Problem], list[Problem]]:
        """Return the samples of each stream that can be taken, and what is wrong with others.

        Also those at which the input ends.
        """
        tables = StreamTables({}, {})
        self._order.zone = self.source.zone
        problems: list[Problem] = list(batch.problems)
        ends: list[Problem] = []
        for name, part in batch.select(self._channels, lenient=True).items():
            if part.unknown or part.absent:
                self._columns.note(part, name)
            problems += [_of_stream(name, problem) for problem in part.problems]
            times = None if batch.times is None else batch.times[part.rows]
            numbers = batch.numbers[part.rows]
            if self._goes_back:
                self._marks[name] = self._order.mark(name)
            arrived = self._order.push(name, part.values, times, numbers)
            if arrived.values is part.values:
                self._add(tables, name, part.rows, part.values, times)
                continue
            if arrived.error is not None:
                ends.append(_of_stream(name, arrived.error))
            lines = dict(zip(numbers.tolist(), part.rows.tolist(), strict=True))
            problems += self._take_arrived(tables, name, arrived, lines)
        problems.sort(key=lambda problem: problem.number)
        return tables, problems, ends

    def _take_arrived(
        self, tables: StreamTables, name: str, arrived: OrderedSamples, lines: dict[int, int]
    ) -> list[Problem]:
        """Take samples that were put in order; `lines` has the rows of the batch by number."""
        for text in arrived.notes:
            self._report(f"stream {name!r}: {text}")
        self.skipped += arrived.again
        # Verdicts are written in the order of the rows: that of a stream stays as it is.
        rows = np.array([lines.get(number, 0) for number in arrived.numbers], dtype=np.int64)
        self._add(tables, name, np.maximum.accumulate(rows), arrived.values, arrived.times)
        return [_of_stream(name, problem) for problem in arrived.problems]

    def _add(
        self, tables: StreamTables, name: str, rows: Ints, values: Floats, times: Times | None
    ) -> None:
        if len(rows):
            assert tables.rows is not None
            tables.tables[name] = Table(values, self._channels[name], times, zone=self.source.zone)
            tables.rows[name] = rows

    def _count_unknown(self, batch: StreamBatch) -> None:
        codes, counts = np.unique(batch.codes, return_counts=True)
        for code, count in zip(codes.tolist(), counts.tolist(), strict=True):
            name = batch.names[code]
            if name in self._channels:
                continue
            if name not in self.unknown:
                self._report(f"stream {name!r} is not in the fleet: its samples are skipped")
            self.unknown[name] = self.unknown.get(name, 0) + count

    def _position_of(self, before: dict[str, Any], number: int) -> dict[str, Any]:
        """Return the position in the input before a line, which came after `before`."""
        source = self.source
        if source.source.repeats or not source.resume(before):
            return source.snapshot()
        while (missing := number - 1 - int((position := source.snapshot())["line"])) > 0:
            if source.next_batch(missing) is None:
                break
        return position

    def _named(self, problem: Problem) -> str:
        return f"{self.source.source.record} {problem.number}: {problem.error.message}"


def _of_stream(name: str, problem: Problem) -> Problem:
    error = problem.error
    message = f"stream {name!r}: {error.message}"
    return Problem(InputError(message, hint=error.hint), problem.number, problem.before)


def _up_to(batch: StreamBatch, number: int) -> StreamBatch:
    """Return the samples of a batch from lines before a number."""
    keep = batch.numbers < number
    return replace(
        batch,
        codes=batch.codes[keep],
        values=batch.values[keep],
        times=None if batch.times is None else batch.times[keep],
        numbers=batch.numbers[keep],
        problems=(),
    )
