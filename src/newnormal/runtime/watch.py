"""Watching an input: batches in, verdicts out, and a checkpoint that survives a kill.

The promise: a checkpoint is written only after the verdicts before it were flushed out, and it
holds the position in the input that belongs to them. So after a clean stop nothing repeats and
nothing is missing; after a kill, the verdicts since the last checkpoint come again, byte for byte.
The same holds for feedback: the sample at which it is applied is written down first (`feedback`).
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from newnormal.base import BaseDetector
from newnormal.core.times import is_late
from newnormal.errors import FeedbackError, InputError
from newnormal.io.registry import kind_of
from newnormal.io.sinks.base import Sink
from newnormal.io.sources.arriving import ArrivingSource
from newnormal.io.sources.base import Batch, Source, check_batch
from newnormal.io.sources.lines import ColumnLayoutError
from newnormal.runtime import checkpoint
from newnormal.runtime.bad_lines import BadLineReporter
from newnormal.runtime.feedback import (
    FeedbackAct,
    FeedbackRequest,
    Queue,
    apply_all,
    progress_of,
    with_target,
)
from newnormal.runtime.interruption import Interruption
from newnormal.runtime.lock import Lock
from newnormal.runtime.silent_source import SilentSource
from newnormal.tabular import Problem, Table
from newnormal.types import CHANGED, OPENED, Verdicts, time_text

_BATCH = 1 << 16  # samples asked for at once where no checkpoint is due
_KEYS = 100  # of applied feedback, that a checkpoint remembers


class BadRecordError(InputError):
    """A record is bad, and `strict` was asked for."""


class NothingReadError(InputError):
    """An input ended of which every record is bad."""

    @classmethod
    def of(cls, source: Source, bad: int, first: Problem) -> "NothingReadError":
        """Return the error of a source with so many bad records."""
        what = source.record if bad == 1 else f"{source.record}s"
        return cls(
            f"{source.name}: expected samples, found {bad} {what} that hold none, the first: "
            f"{source.record} {first.number}: {first.error.message}",
            hint=first.error.hint or "`newnormal check` shows how the input is read",
        )


def _ignore(text: str) -> None:
    del text


class Watch:
    """One input watched by one detector.

    Parameters
    ----------
    resumed
        The detector and its source, as `checkpoint.resume` returns them.
    sink
        Where verdicts and events go.
    state
        The state file to write checkpoints to, with the lock of it; None writes none.
    every
        Samples between two checkpoints.
    track_alarms
        Turn samples into alarms also where the detector does not by itself.
    flush
        The input is finished when it ends: judge the tail, too, and close the open alarms.
    strict
        Stop at a bad record.
    report
        Called with a line for the user.
    """

    def __init__(
        self,
        resumed: checkpoint.Resumed,
        sink: Sink,
        *,
        state: tuple[Path, Lock] | None = None,
        every: int = 1000,
        track_alarms: bool = False,
        flush: bool = False,
        strict: bool = False,
        report: Callable[[str], None] = _ignore,
    ) -> None:
        self.detector: BaseDetector = resumed.detector
        # verdicts so far, and anomalous ones among them; alarms opened, and changes reported;
        # records that held no sample that can be taken
        self.judged = self.anomalous = self.alarms = self.changes = self.bad = 0
        source, keep = resumed.source, state is not None and not flush
        if not isinstance(source, ArrivingSource):
            source = ArrivingSource(source, keep, self.detector.period_)
        self._source = source
        self._kind = kind_of(resumed.source)
        self._sink = sink
        self._every = every
        self._flush = flush
        self._strict = strict
        self._report = report
        self._interruption = Interruption()
        self._bad_lines = BadLineReporter(report)
        self._silence = SilentSource(self._source.name, self.detector.period_, report)
        self._since = 0  # samples since the last checkpoint
        self._is_due = False  # whether something happened that a checkpoint must have
        self._taken = 0  # samples so far
        self._is_new = self._source.repeats or not resumed.continues
        self._first_bad: Problem | None = None
        self._resent = False  # whether pending samples may be sent again
        self._elsewhere = not resumed.continues  # whether samples so far were another input's
        self._applied = list(resumed.applied)  # keys of feedback
        self._state: Path | None = None if state is None else state[0]
        self._lock: Lock | None = None if state is None else state[1]
        self._reached = 0  # how far a watch that was killed had come
        self._stream = ""
        self._replaced = resumed.replaced
        self._queue: Queue | None = None
        self._position: dict[str, Any] | None = None  # before a batch that is not consumed yet
        if track_alarms:
            self.detector.track_alarms()
        if self._state is not None:
            self._open_queue(self._state)
        if resumed.continues and self._source.repeats:
            self._resume_repeating()
        elif resumed.continues:
            self._report(f"resuming{self._where()}")

    @property
    def skipped(self) -> int:
        """How many samples had a verdict before."""
        return self._source.repeated

    def run(self) -> None:
        """Watch until the input ends or the user stops it; then write the checkpoint."""
        with self._interruption.installed():
            try:
                self._read()
            except ColumnLayoutError:
                raise  # nothing was learned, and there is no position to go on from
            except InputError:
                self._save(self._position or self._source.snapshot())
                raise
            self._handle_feedback(self._source.snapshot())
            self._save(self._source.snapshot())
        for request in self._queue.journal if self._queue is not None else ():
            self._report(f"feedback waits for sample {request.sample}, where it was given")

    def _read(self) -> None:
        stopped = False
        while True:
            if self._interruption.asked and not stopped:
                stopped = True
                if not self._source.stop():
                    return
            before = self._source.snapshot() if self._state is not None else {}
            self._handle_feedback(before)
            limit = self._limit()
            if (batch := self._source.next_batch(limit)) is None:
                if self._flush and not stopped:
                    channels = self.detector.channels_
                    nothing = Table(np.empty((0, len(channels))), channels, None)
                    late = self.detector.run(nothing, flush=True).late
                    self.detector.close_alarms()
                    self._emit(late, None)
                # At the end it is an error if all that there was is bad.
                if self._first_bad is not None and not self._taken and self._is_new:
                    raise NothingReadError.of(self._source, self.bad, self._first_bad)
                return
            self._position = before
            check_batch(self._source, batch, len(self.detector.channels_), limit)
            # Feedback given while the source waited comes before the samples that ended the wait.
            self._handle_feedback(before, coming=len(batch))
            self._judge(batch, before)
            self._silence.received(len(batch))
            self._position = None
            if self._since >= self._every or self._is_due:
                self._save(self._source.snapshot())

    def _limit(self) -> int:
        """Return how many samples may come before a checkpoint or feedback is due."""
        if self._queue is None:
            return _BATCH
        seen = self.detector.counters["seen"]
        dues = [self._reached, *(request.sample or 0 for request in self._queue.journal)]
        return min([self._every - self._since, *(due - seen for due in dues if due > seen)])

    # ------------------------------------------------------------------ samples

    def _judge(self, batch: Batch, before: dict[str, Any]) -> None:
        """Judge a batch and write its verdicts; in strict mode, only up to a bad record."""
        if self._strict and batch.problems:
            first = batch.problems[0]
            self.bad += 1
            self._consume(batch, first.before)
            self._rewind(before, first.before)
            self._position = None
            raise BadRecordError(self._named(first), hint=first.error.hint)
        for problem in batch.problems:
            self.bad += 1
            self._bad_lines.bad(problem.number, self._named(problem), problem.error.hint)
        if batch.problems and self._first_bad is None:
            self._first_bad = batch.problems[0]
        self._taken += len(batch)
        self._consume(batch, len(batch))

    def _consume(self, batch: Batch, count: int) -> None:
        """Judge the first samples of a batch."""
        if not count:
            return
        times = None if batch.times is None else batch.times[:count]
        if times is not None and (self._resent or self._elsewhere):
            self._begin(times[0])
        channels = self.detector.channels_
        series = Table(batch.values[:count], channels, times, zone=batch.zone)
        verdicts = self.detector.run(series, flush=False)
        self._since += count
        self._emit(verdicts.late, verdicts)

    def _begin(self, first: np.datetime64) -> None:
        """Prepare the model for the first sample of an input that is new, or begins anew."""
        newest = self.detector.last_time_
        if newest is not None and is_late(first, newest):
            if self._resent:  # it was pending: forget it, and take it again
                self.detector.drop_pending(since=first)
            else:
                self._report(
                    f"the model has seen samples up to {self._text(newest)}: "
                    "it keeps only what it learned"
                )
                self.detector.restart()
        self._resent = self._elsewhere = False

    def _rewind(self, before: dict[str, Any], count: int) -> None:
        """Put the source before the bad record that follows `count` samples of the last batch."""
        if self._state is None or self._source.repeats or not self._source.resume(before):
            return
        taken, position = 0, before
        while (batch := self._source.next_batch(1)) is not None:
            if batch.problems or taken + len(batch) > count:
                break
            taken += len(batch)
            position = self._source.snapshot()
        self._source.resume(position)

    def _named(self, problem: Problem) -> str:
        return f"{self._source.record} {problem.number}: {problem.error.message}"

    # ------------------------------------------------------------------ times

    def _where(self) -> str:
        line = self._source.snapshot().get("line")
        return f" at line {line + 1}" if isinstance(line, int) else ""

    def _resume_repeating(self) -> None:
        judged = self.detector.last_judged_time_
        self._resent = self.detector.last_time_ is not None
        self._source.go_back(judged)
        if judged is not None:
            until = self._text(judged)
            self._report(f"resuming: samples up to {until} were judged and are skipped")
        elif not self._resent:
            what = self._source.record
            self._report(f"resuming: the samples have no times, so the next {what} is taken as new")

    def _text(self, time: np.datetime64) -> str:
        return time_text(time, self.detector.zone_)

    # ------------------------------------------------------------------ out

    def _emit(self, late: Verdicts | None, verdicts: Verdicts | None) -> None:
        """Write the verdicts that became final and the events, and flush them out."""
        self._write_progress()
        if self._lock is not None:
            self._lock.keep = True
        for part in (late, verdicts):
            if part is None:
                continue
            final = len(part)
            if part is verdicts:
                final -= min(int(self.detector.counters["pending"]), final)
            done = part if final == len(part) else part.rows(slice(0, final))
            self.judged += final
            self.anomalous += int(done.anomalous.sum())
            if final:
                self._sink.write_verdicts(done)
        events = self.detector.take_events()
        self.alarms += sum(event.kind == OPENED for event in events)
        self.changes += sum(event.kind == CHANGED for event in events)
        if events:
            self._sink.write_events(events)
            self._is_due = True
        self._sink.flush()

    def _write_progress(self) -> None:
        """Write down how far the output goes before it does."""
        if self._lock is None:
            return
        if self.detector.counters["seen"] >= self._reached:
            self._lock.write(progress_of(self.detector, self._stream))

    def _save(self, snapshot: dict[str, Any]) -> None:
        """Write the checkpoint; the verdicts before it are already out."""
        if self._state is None:
            return
        remembered = set(self._applied[-_KEYS:])
        if self._queue is not None:
            remembered |= {request.key for request in self._queue.journal}
        self._applied = [key for key in self._applied if key in remembered]
        checkpoint.save(self._state, self.detector, self._kind, snapshot, self._applied)
        self._since, self._is_due = 0, False
        if self._lock is not None:
            self._lock.keep = self.detector.counters["seen"] < self._reached

    # ------------------------------------------------------------------ feedback

    def _open_queue(self, state: Path) -> None:
        """Find out how far a watch that was killed had come, and what it had dequeued."""
        self._stream = checkpoint.stream_of(self.detector, self._source)
        seen = self.detector.counters["seen"]
        progress = self._lock.read() if self._lock is not None else None
        if progress is not None and progress.stream == self._stream and not self._replaced:
            self._reached = max(seen, progress.seen)
        self._queue = Queue(state, self._report)
        journal = self._queue.load()
        done = [request for request in journal if request.key in self._applied]
        lost = [
            request
            for request in journal
            if request not in done and not self._can_wait(request, seen)
        ]
        for request in lost:
            self._refuse(request)
        if done or lost:
            self._queue.remove([*done, *lost])
        self._write_progress()

    def _handle_feedback(self, snapshot: dict[str, Any], coming: int = 0) -> None:
        """Dequeue feedback, and apply what is due at this sample.

        `snapshot` is the position before the samples that the source has given out, of which
        `coming` have not been consumed.
        """
        queue = self._queue
        if queue is None:
            return
        seen = self.detector.counters["seen"]
        queue.dequeue(lambda request: self._scheduled(request, seen, coming))
        due = [request for request in queue.journal if (request.sample or 0) <= seen]
        if not due:
            return
        apply_all(self.detector, due, self._applied, self._report)
        self._emit(None, None)
        self._save(snapshot)
        queue.remove(due)

    def _scheduled(
        self, request: FeedbackRequest, seen: int, coming: int
    ) -> FeedbackRequest | None:
        """Return feedback with the alarm and the sample at which it is applied; None: refused.

        Where a killed watch had printed more than the checkpoint has, it is applied behind that.
        """
        if request.key in self._applied:
            return None
        if not self._can_wait(request, seen):
            self._refuse(request)
            return None
        sample = max(seen, self._reached, request.sample or 0)
        if sample > seen:
            sample = max(sample, seen + coming)
        request = replace(request, sample=sample, stream=self._stream)
        if request.act is FeedbackAct.undo or sample > seen:
            return request
        try:
            return with_target(request, self.detector)
        except FeedbackError:  # reported when it is applied
            return request

    def _can_wait(self, request: FeedbackRequest, seen: int) -> bool:
        """Whether the sample it was given at has been, or comes again in this stream."""
        again = request.stream in (None, self._stream) and not self._replaced
        return again or (request.sample or 0) <= seen

    def _refuse(self, request: FeedbackRequest) -> None:
        self._report(
            f"feedback not applied: {request} was given at sample {request.sample} "
            "of another input or another fit"
        )
