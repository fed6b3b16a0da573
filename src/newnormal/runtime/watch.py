"""Watching an input: samples in, verdicts out, and what was learned kept where there is a folder.

With a folder, samples are logged with the position in the input behind them, before they are
judged, and the next ones only once the output was written. So a kill loses nothing: at the next
start the output of the last batch alone may come again, byte for byte.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from newnormal.alarms.words import Note, event_note, incident_event_note
from newnormal.base import BaseDetector
from newnormal.engine.folder import Output, SingleEngine, incident_line
from newnormal.engine.log.entries import StepsTaken
from newnormal.engine.steps import judge_steps
from newnormal.errors import InputError, NewnormalError, ParameterError
from newnormal.fleet import Fleet, FleetEvent, FleetVerdicts
from newnormal.io.sinks.base import Sink, SinkOptions
from newnormal.io.sinks.lines import JsonLinesSink
from newnormal.io.sinks.text import TextSink
from newnormal.io.sources.base import Source
from newnormal.runtime.bad_lines import BadLineReporter
from newnormal.runtime.feedback import decision_text
from newnormal.runtime.inputs import InOrder, SourceInput, WatchInput
from newnormal.runtime.interruption import Interruption
from newnormal.runtime.silent_source import SilentSource
from newnormal.tabular import Problem, Reading
from newnormal.types import CHANGED, NO_TIME, OPENED, IncidentEvent, time_text

_LINES = 1 << 16  # asked for at once
_LOOK_S = 0.1  # between two looks for decisions that other processes left
_NOTHING = np.empty(0, np.int64)
_MOST_NAME = 24  # characters: a longer name of a stream is not what others are aligned to


class FleetSink(Protocol):
    """What a watch of a fleet writes to."""

    def write_fleet_verdicts(self, verdicts: FleetVerdicts) -> None:
        """Write verdicts."""

    def write_fleet_events(
        self, events: Sequence[FleetEvent], incidents: Sequence[IncidentEvent]
    ) -> None:
        """Write events of streams, and then those of the fleet."""

    def write_left(self, verdicts: Sequence[str], events: Sequence[str]) -> None:
        """Write lines that a killed watch did not, where the output is lines of JSON."""

    def flush(self) -> None:
        """Return once everything written so far would survive the end of this process."""


class OneStreamSink:
    """A sink of one stream as one of a fleet that has no other."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def write_fleet_verdicts(self, verdicts: FleetVerdicts) -> None:
        """Write the verdicts of the stream."""
        if "" in verdicts:
            self._sink.write_verdicts(verdicts[""])

    def write_fleet_events(
        self, events: Sequence[FleetEvent], incidents: Sequence[IncidentEvent]
    ) -> None:
        """Write the events of the stream; one stream has no incidents."""
        del incidents
        if events:
            self._sink.write_events([event.event for event in events])

    def write_left(self, verdicts: Sequence[str], events: Sequence[str]) -> None:
        """Write lines that a killed watch did not."""
        if isinstance(self._sink, JsonLinesSink):
            self._sink.write_lines(events if self._sink.options.alarms_only else verdicts)

    def flush(self) -> None:
        """Hand everything on."""
        self._sink.flush()


class FleetJsonSink(JsonLinesSink):
    """One JSON line a verdict, or one an event where only events are wanted."""

    def write_fleet_verdicts(self, verdicts: FleetVerdicts) -> None:
        """Write a line a verdict, unless only events are wanted."""
        if not self.options.alarms_only:
            self.write_lines(verdicts.json_lines())

    def write_left(self, verdicts: Sequence[str], events: Sequence[str]) -> None:
        """Write lines that a killed watch did not."""
        self.write_lines(events if self.options.alarms_only else verdicts)

    def write_fleet_events(
        self, events: Sequence[FleetEvent], incidents: Sequence[IncidentEvent]
    ) -> None:
        """Write a line an event, if only events are wanted."""
        if self.options.alarms_only:
            self.write_lines([event.to_json() for event in events])
            self.write_lines([incident_line(event) for event in incidents])


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

    def write_left(self, verdicts: Sequence[str], events: Sequence[str]) -> None:
        """Write nothing: `newnormal alarms` lists what was left, in words."""

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


class BadRecordError(InputError):
    """A record is bad, and `strict` was asked for."""


class NothingReadError(InputError):
    """An input ended of which every record is bad."""

    @classmethod
    def of(cls, source: WatchInput, bad: int, first: Problem) -> NothingReadError:
        """Return the error of a source with so many bad records."""
        what = source.record if bad == 1 else f"{source.record}s"
        return cls(
            f"{source.name}: expected samples, found {bad} {what} that hold none, the first: "
            f"{source.record} {first.number}: {first.error.message}",
            hint=first.error.hint or "`newnormal check` shows how the input is read",
        )


class InMemory:
    """A fleet whose state is not kept."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet

    def take(self, entry: StepsTaken) -> Output:
        """Judge samples."""
        verdicts = judge_steps(self.fleet, entry, lambda _: None)
        self.fleet.take_events()  # they are in the verdicts
        return Output(tuple(verdicts))


class Watch:
    """One input, of one stream or many, judged as it comes.

    Parameters
    ----------
    judge
        Judges samples; with an engine they are logged first, and decisions of people are applied.
    source
        The input, at the position to go on from.
    sink
        Where verdicts and events go.
    continues
        Whether the input goes on from an earlier start.
    elsewhere
        Whether it may begin before what the models have seen: they keep only what they learned.
    flush
        The input is finished when it ends: judge what is pending, close the open alarms.
    strict
        Stop at a bad record.
    report
        Called with a line for the user.
    """

    def __init__(
        self,
        judge: SingleEngine | InMemory,
        source: WatchInput,
        sink: FleetSink,
        *,
        continues: bool = False,
        elsewhere: bool = True,
        flush: bool = False,
        strict: bool = False,
        report: Callable[[str], None],
    ) -> None:
        self.judge, self.source, self._sink = judge, source, sink
        self.engine = judge if isinstance(judge, SingleEngine) else None
        # judged, anomalous, alarms, changes, incidents: verdicts, anomalous ones, and what opened
        self.judged = self.anomalous = self.alarms = self.changes = self.incidents = 0
        self.bad = 0  # records that held no sample
        self._flush, self._strict, self._report = flush, strict, report
        self._interruption = Interruption()
        self._bad_lines = BadLineReporter(report)
        self._silence = SilentSource(source.name, judge.fleet.period_, report)
        self._is_new = source.repeats or not continues
        # Newest times of streams that another input may begin before.
        self._elsewhere = dict(judge.fleet.last_times_) if elsewhere and not continues else {}
        self._taken = 0  # samples so far
        self._first_bad: Problem | None = None
        self._looked = -_LOOK_S  # when it looked for decisions last
        newest = judge.fleet.last_times_
        source.begin(newest, continues=continues)

    def run(self) -> None:
        """Watch until the input ends or the user stops it."""
        with self._interruption.installed():
            if self.engine is not None:
                self._emit(*self.engine.left)
            self._read()
            self._decide(0.0)
            self._take((), self.source.snapshot())

    def _read(self) -> None:
        stopped = False
        while True:
            if self._interruption.asked and not stopped:
                stopped = True
                if not self.source.stop():
                    return
            self._decide(_LOOK_S)
            batch = self.source.next_batch(_LINES)
            if batch is None:
                if not stopped:
                    self._finish()
                return
            if batch.records or batch.problems:
                self._decide(0.0)  # what was decided while the source waited comes first
                self._judge(batch)
            self._silence.received(batch.records)
            if self.engine is not None:
                self.engine.checkpoint_if_due()

    def _finish(self) -> None:
        """Handle the end of the input."""
        if not self._taken and self._is_new:
            left = self.source.undecided()
            bad = self.bad + len(left)
            first = self._first_bad or next(iter(left), None)
            if first is not None:  # at the end it is an error if all that there was is bad
                raise NothingReadError.of(self.source, bad, first)
        if self._flush:
            self._take((), self.source.snapshot(), flush=True, close_alarms=True)
        elif far := self.source.far:
            self._report(far)

    # ------------------------------------------------------------------ samples

    def _judge(self, batch: InOrder) -> None:
        """Judge a batch; where the input ends at a bad record, only up to that."""
        first = batch.end
        if first is None and self._strict and batch.problems:
            first = batch.problems[0]
        if first is not None:
            self.bad += 1
            part, position = self.source.until(first)
            self._take(part.arrivals, position, part)
            if batch.end is None:
                raise BadRecordError(self._named(first), hint=first.error.hint)
            where = f"{self.source.name}: {self._named(first)}"
            raise InputError(where, hint=first.error.hint)
        self._report_bad(batch.problems)
        self._taken += batch.records
        self._take(batch.arrivals, self.source.snapshot(), batch)

    def _report_bad(self, problems: Iterable[Problem]) -> None:
        for problem in problems:
            self.bad += 1
            self._first_bad = self._first_bad or problem
            self._bad_lines.bad(problem.number, self._named(problem), problem.error.hint)

    def _take(
        self,
        arrivals: tuple[Any, ...],
        snapshot: Mapping[str, Any],
        batch: InOrder | None = None,
        **ending: bool,
    ) -> None:
        """Have samples judged and write the verdicts; with none, take note of the position."""
        if reserved := {"kind", "zone"} & snapshot.keys():
            raise ParameterError(
                f"source: expected a snapshot without {min(reserved)!r}, found {snapshot!r}",
                hint="kind and zone are reserved: choose another key",
            )
        position = {**snapshot, "kind": self.source.kind, "zone": self.source.zone}
        here = None if self.engine is None else self.engine.input_position
        if not arrivals and not ending and (self.engine is None or position == here):
            return
        anew = self._begun_anew(arrivals) if self._elsewhere else ()
        rows = _NOTHING if batch is None else batch.rows
        self._emit(self.judge.take(StepsTaken(arrivals, rows, position, anew, **ending)))

    def _begun_anew(self, arrivals: Iterable[Any]) -> tuple[str, ...]:
        """Return the streams whose samples begin before the newest that their model has seen."""
        anew = []
        for name, _, times, _ in arrivals:
            newest = self._elsewhere.pop(name, None)
            if newest is not None and times[0] != NO_TIME and times[0] <= newest.astype(np.int64):
                of_stream = f"stream {name!r}: " if name else ""
                zone = self.source.zone
                self._report(
                    f"{of_stream}the model has seen samples up to {time_text(newest, zone)}: "
                    "it keeps only what it learned"
                )
                anew.append(name)
        return tuple(anew)

    def _named(self, problem: Problem) -> str:
        return f"{self.source.record} {problem.number}: {problem.error.message}"

    # ------------------------------------------------------------------ out

    def _emit(self, *outputs: Output) -> None:
        """Write verdicts and events, and flush them out."""
        for output in outputs:
            self._sink.write_left(output.lines, output.event_lines)
            for verdicts in output.verdicts:
                self._write(verdicts)
            self._write_events(output.decided)
        self._sink.flush()
        if self.engine is not None:
            self.engine.written()

    def _write(self, verdicts: FleetVerdicts) -> None:
        self.judged += len(verdicts)
        self.anomalous += int(verdicts.anomalous.sum())
        self._sink.write_fleet_verdicts(verdicts)
        self._write_events(verdicts.events, verdicts.incidents)

    def _write_events(
        self, events: Iterable[FleetEvent], incidents: Iterable[IncidentEvent] = ()
    ) -> None:
        of_streams, of_fleet = list(events), list(incidents)
        self.alarms += sum(row.event.kind == OPENED for row in of_streams)
        self.changes += sum(row.event.kind == CHANGED for row in of_streams)
        self.incidents += sum(event.incident.open for event in of_fleet)
        self._sink.write_fleet_events(of_streams, of_fleet)

    # ------------------------------------------------------------------ decisions

    def _decide(self, wait: float) -> None:
        """Apply the decisions that other processes left, if the last look was `wait` s ago."""
        if self.engine is None or (now := time.monotonic()) < self._looked + wait:
            return
        self._looked = now
        for number, request in self.engine.requests():
            try:
                output = self.engine.decide(**request, request=number)
            except NewnormalError as error:
                of_stream = f"{request['stream']}: " if request["stream"] else ""
                self._report(f"feedback not applied: {of_stream}{error}")
                continue
            self._report(f"feedback: {decision_text(**request)}")
            self._emit(output)


def watch_of(
    detector: BaseDetector,
    source: Source,
    sink: Sink,
    report: Callable[[str], None] = lambda _: None,
    **options: Any,
) -> Watch:
    """Return a watch of one stream that keeps nothing; `options` are those of `Watch`."""
    fleet = Fleet(detector).add("", detector)
    samples = WatchInput(
        SourceInput(source, is_one=True, report=report),
        Reading(),
        fleet.channels_,
        fleet.period_,
        strict=bool(options.get("strict")),
        keep=False,
        report=report,
    )
    return Watch(InMemory(fleet), samples, OneStreamSink(sink), report=report, **options)
