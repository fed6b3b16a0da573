"""Feedback as it is given: applied to a state file at once, or left for a running `watch`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from newnormal import state as state_file
from newnormal.errors import FeedbackError
from newnormal.runtime.checkpoint import place_of
from newnormal.runtime.feedback import Act, Feedback, Queue, apply, apply_all
from newnormal.runtime.lock import Lock, Progress
from newnormal.state import State

__all__ = ["submit"]


@dataclass(frozen=True)
class _Known:
    """What is known of a stream when feedback is given: from its lock, or from its checkpoint."""

    alarm: int | None = None
    sample: int | None = None
    stream: str | None = None
    start: str | None = None
    live: bool = False  # whether it is how things are now, not at the last checkpoint

    def refuses(self, number: int | None) -> bool:
        """Whether the alarm named, None for the open one, is surely not open."""
        if self.live:
            return self.alarm is None or number not in (None, self.alarm)
        return self.alarm is not None and number is not None and number < self.alarm


def submit(
    state: Path,
    act: Act,
    alarm: int | None,
    report: Callable[[str], None],
    load: Callable[[State, str], Any],
) -> None:
    """Apply feedback to a state file, or leave it for the `watch` that uses it.

    Parameters
    ----------
    state
        The state file.
    act, alarm
        What to do, and about which alarm; None is the open one.
    report
        Called with what was done.
    load
        Makes a detector from a state and the name of its file.

    Raises
    ------
    FeedbackError
        If the alarm is not open, as far as can be known here.
    """
    state_file.remove_stale(state)
    queue = Queue(state, report)
    with Lock(state) as lock:
        progress = lock.read()
        if not lock.held:
            _leave(queue, act, alarm, _known(progress, state, load))
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
            _leave(queue, act, alarm, known)
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
            done = apply(detector, Feedback.of(act, alarm))
        except FeedbackError as error:
            if not queue.journal:
                raise
            done, refused = "", error
        data = detector.to_state()
        kept = {"place": {**place, "feedback": applied}} if place else {}
        state_file.write(state, State({**data.facts, **kept}, data.tensors))
        queue.remove(queue.journal)
        if refused is not None:
            raise refused
        report(done)


def _known(progress: Progress | None, state: Path, load: Callable[[State, str], Any]) -> _Known:
    if progress is not None:
        return _Known(progress.alarm, progress.seen, progress.stream, progress.start, live=True)
    if not state.exists():
        return _Known()
    detector = load(state_file.read(state), str(state))
    found = detector.alarm_
    return _Known(None if found is None else found.number, detector.counters["seen"])


def _leave(queue: Queue, act: Act, alarm: int | None, known: _Known) -> None:
    if act is Act.rollback:
        queue.enqueue(Feedback.of(act, None, known.sample, known.stream))
        return
    if known.refuses(alarm):
        which = "none" if known.alarm is None else known.alarm
        raise FeedbackError(
            f"expected the open alarm, which is {which}, found "
            f"{'none named' if alarm is None else f'alarm {alarm}'}",
            hint="`rollback` undoes the newest acceptance"
            if known.alarm is None
            else "leave the number out to mean the open one",
        )
    number = known.alarm if alarm is None else alarm
    start = known.start if number == known.alarm else None
    queue.enqueue(Feedback.of(act, number, known.sample, known.stream, start))
