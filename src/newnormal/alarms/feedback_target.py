"""The alarm or change that feedback is about, and the message where there is none."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Protocol

from newnormal.errors import FeedbackError
from newnormal.types import PENDING, SCORE, Alarm, Change

PAST = 100  # alarms and changes kept
UNDO = "`newnormal undo` (undo()) undoes the newest acceptance"
_SHOWN = 5  # numbers in a hint


class HasAlarms(Protocol):
    """What a detector shows of its alarms and changes."""

    @property
    def alarms_(self) -> Sequence[Alarm]:
        """The open alarms."""

    @property
    def changes_(self) -> Sequence[Change]:
        """The open changes."""

    @property
    def past_(self) -> Sequence[Alarm | Change]:
        """The newest of all."""


def feedback_target(
    detector: HasAlarms, act: str, alarm: Alarm | Change | int | None, change: Change | int | None
) -> Alarm | Change:
    """Return the alarm or the change that a person means by an act; the arguments are `accept`'s.

    The change that began with the alarm, if that is open. None: the `default_target`.
    """
    if isinstance(alarm, Change):
        alarm, change = None, alarm
    opened = detector.changes_
    alarms = [item for item in detector.alarms_ if item.cause == SCORE]
    if change is not None:
        number = change.number if isinstance(change, Change) else change
        for candidate in opened:
            if candidate.number == number:
                return candidate
        raise FeedbackError(
            f"expected an open change to {act}, which is {_numbers(opened)}, found change {number}",
            hint=f"{_open_text(alarms, opened)}; {UNDO}",
        )
    if alarm is None:
        if (target := default_target(detector)) is None:
            raise FeedbackError(
                f"expected an open change or alarm to {act}, found none",
                hint=nothing_open(max(_named(detector), default=0)),
            )
        return target
    number = alarm.number if isinstance(alarm, Alarm) else alarm
    for candidate in opened:
        if candidate.alarm == number:
            return candidate
    past = [item for item in detector.past_ if isinstance(item, Alarm)]
    for named in (*alarms, *past):
        if named.number == number and named.cause == SCORE:
            return named
    if any(item.number == number for item in past):
        raise FeedbackError(
            f"expected an alarm by the score to {act}, found alarm {number}, which is about "
            "missing samples or values",
            hint="it closes when they are back",
        )
    raise FeedbackError(
        f"expected the number of one of the last {PAST} alarms, found {number}",
        hint=f"{_open_text(alarms, opened)}; {_known_text(_named(detector))}",
    )


def keep_newest(past: deque[Alarm | Change], newest: Alarm | Change) -> None:
    """Keep an alarm or a change as it stands; the one of its number so far is replaced."""
    for row, kept in enumerate(past):
        if type(kept) is type(newest) and kept.number == newest.number:
            past[row] = newest
            return
    past.append(newest)


def default_target(detector: HasAlarms) -> Alarm | Change | None:
    """Return what feedback without a number is about, or None where nothing is open.

    The newest pending change, or else the newest open alarm by the score, or else the newest
    rejected change. The change that began with the alarm, if that is open.
    """
    opened = detector.changes_
    if pending := [change for change in opened if change.state == PENDING]:
        return pending[-1]
    alarms = [alarm for alarm in detector.alarms_ if alarm.cause == SCORE]
    if not alarms:
        return opened[-1] if opened else None
    return next((change for change in opened if change.alarm == alarms[-1].number), alarms[-1])


def nothing_open(newest: int) -> str:
    """Return what can be done where nothing is open, given the newest alarm that is over, or 0."""
    if not newest:
        return f"no alarm has opened so far; {UNDO}"
    return f"name an alarm that is over, such as --alarm {newest} (alarm={newest}); {UNDO}"


def _named(detector: HasAlarms) -> list[int]:
    """Return the numbers of the alarms that can be named."""
    past = [item for item in detector.past_ if isinstance(item, Alarm)]
    return [item.number for item in (*past, *detector.alarms_) if item.cause == SCORE]


def _known_text(numbers: Sequence[int]) -> str:
    if not (newest := sorted(set(numbers), reverse=True)):
        return "no alarm has opened so far"
    shown = ", ".join(map(str, newest[:_SHOWN]))
    return f"the newest alarms are {shown}" if len(newest) > 1 else f"the only alarm is {shown}"


def _open_text(alarms: Sequence[Alarm], changes: Sequence[Change]) -> str:
    parts = [f"change {change.number}" for change in changes]
    parts += [f"alarm {alarm.number}" for alarm in alarms]
    return f"open now: {', '.join(parts)}" if parts else "nothing is open now"


def _numbers(changes: Sequence[Change]) -> str:
    return " or ".join(str(change.number) for change in changes) or "none"
