"""Feedback as it is given: applied to a state file at once, or left for a running `watch`."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from newnormal import state as state_file
from newnormal.alarms.feedback_target import UNDO, feedback_target, nothing_open
from newnormal.errors import FeedbackError
from newnormal.runtime.checkpoint import input_position
from newnormal.runtime.feedback import (
    FeedbackAct,
    FeedbackRequest,
    Queue,
    apply,
    apply_all,
    progress_of,
)
from newnormal.runtime.lock import Lock, WatchProgress
from newnormal.state import State
from newnormal.types import Change

_Load = Callable[[State, str], Any]


@dataclass(frozen=True)
class _StreamStatus:
    """A stream when feedback is given, by its lock and its checkpoint."""

    progress: WatchProgress | None = None
    live: bool = False  # whether that is of now, not of the last checkpoint
    newest_change: int = 0
    checkpoint: Any = None  # the detector of the last checkpoint

    @classmethod
    def of(cls, progress: WatchProgress | None, state: Path, load: _Load) -> "_StreamStatus":
        """Return what the progress in a lock file and a state file say."""
        detector = load(state_file.read(state), str(state)) if state.exists() else None
        if progress is not None:
            return cls(progress, live=True, checkpoint=detector)
        if detector is None:
            return cls()
        changes = [item.number for item in detector.past_ if isinstance(item, Change)]
        newest = max(changes, default=0)
        return cls(progress_of(detector, ""), newest_change=newest, checkpoint=detector)

    def check(self, act: FeedbackAct, alarm: int | None, change: int | None) -> None:
        """Raise a FeedbackError if what is named, or the default, is surely not open."""
        progress = self.progress
        if progress is None:
            return
        if change is not None:
            changes, is_over = progress.changes, self.live or change <= self.newest_change
            if changes is not None and change not in changes and is_over:
                open_now = " or ".join(map(str, changes)) or "none"
                raise FeedbackError(
                    f"expected an open change to {act}, which is {open_now}, found change {change}",
                    hint=UNDO,
                )
        elif alarm is not None:
            self._check_alarm(progress.newest, act, alarm)
        elif self.live and progress.alarm is None and progress.change is None:
            raise FeedbackError(
                f"expected an open change or alarm to {act}, found none",
                hint=nothing_open(progress.newest or 0),
            )

    def _check_alarm(self, newest: int | None, act: FeedbackAct, alarm: int) -> None:
        """Refuse one that has not opened yet, and one that the checkpoint knows to be of no use."""
        if newest is not None and alarm > newest:
            so_far = f"alarms so far: 1 to {newest}" if newest else "none has opened"
            raise FeedbackError(
                f"expected an alarm up to number {newest}, found alarm {alarm}",
                hint=f"{so_far}; leave the number out to mean the newest that is open",
            )
        if self.checkpoint is not None and alarm <= self.checkpoint.alarm_rate_.alarms:
            feedback_target(self.checkpoint, act, alarm, None)

    def request(self, act: FeedbackAct, alarm: int | None, change: int | None) -> FeedbackRequest:
        """Return feedback for the `watch` that applies it."""
        progress = self.progress
        if progress is None:
            return FeedbackRequest(act, alarm, change=change)
        stream = progress.stream if self.live else None
        if act is FeedbackAct.undo:
            return FeedbackRequest(act, None, progress.seen, stream)
        self.check(act, alarm, change)
        default = progress.alarm, progress.change
        if alarm is None and change is None:
            alarm, change = default
        start = progress.start if self.live and (alarm, change) == default else None
        return FeedbackRequest(act, alarm, progress.seen, stream, start, change)


def submit(
    state: Path,
    act: FeedbackAct,
    alarm: int | None,
    report: Callable[[str], None],
    load: _Load,
    change: int | None = None,
) -> None:
    """Apply feedback to a state file, or leave it for the `watch` that uses it.

    `state`: the state file. `act`, `alarm`, `change`: what to do, and about which alarm or change;
    both None: the newest pending change, or else the newest open alarm. `report`: called with what
    was done. `load` makes a detector from a state and the name of its file.

    Raises
    ------
    FeedbackError
        If it is not open, as far as can be known here.
    """
    state_file.remove_stale(state)
    queue = Queue(state, report)
    with Lock(state) as lock:
        progress = lock.read()
        if not lock.held:
            queue.enqueue(_StreamStatus.of(progress, state, load).request(act, alarm, change))
            report(f"{state} is in use by `newnormal watch`: applied there before the next samples")
            return
        samples = [request.sample or 0 for request in queue.load()]
        reached = max([progress.seen if progress else 0, *samples])
        if reached and not state.exists():
            seen = 0
        else:
            saved = state_file.read(state)
            detector = load(saved, str(state))
            seen = detector.counters["seen"]
        if reached > seen:
            lock.keep = True
            queue.enqueue(_StreamStatus.of(progress, state, load).request(act, alarm, change))
            report(
                f"the last `newnormal watch` of {state} was killed at sample {reached}: "
                "this is applied when the next one has reached that sample again"
            )
            return
        position = input_position(saved, state)
        applied = list(position["feedback"]) if position else []
        queue.dequeue(lambda request: request)  # left for a watch that has ended: it comes first
        apply_all(detector, queue.journal, applied, report)
        refused: FeedbackError | None = None
        try:
            done = apply(detector, FeedbackRequest(act, alarm, change=change))
        except FeedbackError as error:
            if not queue.journal:
                raise
            done, refused = "", error
        kept = {"place": {**position, "feedback": applied}} if position else {}
        detector.write(state, **kept)
        queue.remove(queue.journal)
        if refused is not None:
            raise refused
        report(done)
