"""Feedback as it is given: applied to a state file at once, or left for a running `watch`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from newnormal import state as state_file
from newnormal.errors import FeedbackError
from newnormal.runtime.checkpoint import place_of
from newnormal.runtime.feedback import Act, Feedback, Queue, apply, apply_all, progress_of
from newnormal.runtime.lock import Lock, Progress
from newnormal.state import State
from newnormal.types import Change


@dataclass(frozen=True)
class _Known:
    """What is known of a stream when feedback is given: from its lock, and from its checkpoint."""

    progress: Progress | None = None
    live: bool = False  # whether it is how things are now, not at the last checkpoint
    newest_change: int = 0
    checkpoint: Any = None  # the detector of the last checkpoint

    def check(self, act: Act, alarm: int | None, change: int | None) -> None:
        """Raise a FeedbackError if what is named, or the default, is surely not open."""
        if self.progress is None:
            return
        if change is not None:
            self._check_change(self.progress, act, change)
        elif alarm is not None:
            self._check_alarm(self.progress, act, alarm)
        elif self.live and self.progress.alarm is None and self.progress.change is None:
            from newnormal.alarms.feedback_target import nothing_open

            raise FeedbackError(
                f"expected an open change or alarm to {act}, found none",
                hint=nothing_open(self.progress.newest or 0),
            )

    def _check_change(self, known: Progress, act: Act, change: int) -> None:
        changes, is_over = known.changes, self.live or change <= self.newest_change
        if changes is not None and change not in changes and is_over:
            from newnormal.alarms.feedback_target import ROLLBACK

            open_now = " or ".join(map(str, changes)) or "none"
            raise FeedbackError(
                f"expected an open change to {act}, which is {open_now}, found change {change}",
                hint=ROLLBACK,
            )

    def _check_alarm(self, known: Progress, act: Act, alarm: int) -> None:
        """Refuse one that has not opened yet, and one that the checkpoint knows to be of no use."""
        if known.newest is not None and alarm > known.newest:
            so_far = f"alarms so far: 1 to {known.newest}" if known.newest else "none has opened"
            raise FeedbackError(
                f"expected an alarm up to number {known.newest}, found alarm {alarm}",
                hint=f"{so_far}; leave the number out to mean the newest that is open",
            )
        if self.checkpoint is not None and alarm <= self.checkpoint.alarm_rate_.alarms:
            from newnormal.alarms.feedback_target import feedback_target

            feedback_target(self.checkpoint, act, alarm, None)


def submit(
    state: Path,
    act: Act,
    alarm: int | None,
    report: Callable[[str], None],
    load: Callable[[State, str], Any],
    change: int | None = None,
) -> None:
    """Apply feedback to a state file, or leave it for the `watch` that uses it.

    Parameters
    ----------
    state
        The state file.
    act, alarm, change
        What to do, and about which alarm or change; both None: the newest pending change, or else
        the newest open alarm.
    report
        Called with what was done.
    load
        Makes a detector from a state and the name of its file.

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
            _leave(queue, act, alarm, change, _known(progress, state, load))
            report(f"{state} is in use by `newnormal watch`: applied there before the next samples")
            return
        journal = queue.load()
        reached = max([0, *(each.sample or 0 for each in journal)])
        reached = max(reached, progress.seen if progress else 0)
        if reached and not state.exists():
            seen = 0
        else:
            found = state_file.read(state)
            detector = load(found, str(state))
            seen = detector.counters["seen"]
        if reached > seen:
            lock.keep = True
            known = _known(progress, state, load)
            _leave(queue, act, alarm, change, known)
            report(
                f"the last `newnormal watch` of {state} was killed at sample {reached}: "
                "this is applied when the next one has reached that sample again"
            )
            return
        place = place_of(found, state)
        applied = list(place["feedback"]) if place else []
        queue.dequeue(lambda each: each)  # left for a watch that has ended: it comes first
        apply_all(detector, queue.journal, applied, report)
        refused: FeedbackError | None = None
        try:
            done = apply(detector, Feedback.of(act, alarm, change=change))
        except FeedbackError as error:
            if not queue.journal:
                raise
            done, refused = "", error
        kept = {"place": {**place, "feedback": applied}} if place else {}
        detector.write(state, **kept)
        queue.remove(queue.journal)
        if refused is not None:
            raise refused
        report(done)


def _known(progress: Progress | None, state: Path, load: Callable[[State, str], Any]) -> _Known:
    detector = load(state_file.read(state), str(state)) if state.exists() else None
    if progress is not None:
        return _Known(progress, live=True, checkpoint=detector)
    if detector is None:
        return _Known()
    changes = [each.number for each in detector.past_ if isinstance(each, Change)]
    newest = max(changes, default=0)
    return _Known(progress_of(detector, ""), newest_change=newest, checkpoint=detector)


def _leave(queue: Queue, act: Act, alarm: int | None, change: int | None, known: _Known) -> None:
    progress = known.progress
    sample = None if progress is None else progress.seen
    stream = progress.stream if progress is not None and known.live else None
    if act is Act.rollback:
        queue.enqueue(Feedback.of(act, None, sample, stream))
        return
    known.check(act, alarm, change)
    start = None
    if progress is not None and alarm is None and change is None:
        alarm, change = progress.alarm, progress.change
    if progress is not None and known.live and (alarm, change) == (progress.alarm, progress.change):
        start = progress.start
    queue.enqueue(Feedback.of(act, alarm, sample, stream, start, change))
