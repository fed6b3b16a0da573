"""Alarms, changes and incidents in words, as a list has them: what is open, and what was."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import numpy as np

from newnormal.alarms.sentences import duration_text, length_text, number_text, seconds_between
from newnormal.alarms.texts import (
    BAD,
    PLAIN,
    WAITS,
    Deciding,
    Note,
    closed_text,
    evidence_lines,
    is_gap,
    moment_text,
    move_lines,
    moved_text,
    streams_text,
    unusual_text,
)
from newnormal.texts import counted
from newnormal.types import (
    ACCEPTED,
    PENDING,
    REJECTED,
    SCORE,
    SILENCE,
    Alarm,
    Change,
    Incident,
)

_STATES = {
    PENDING: "it waits for a decision",
    REJECTED: "it is a fault until the stream is back; nothing is learned meanwhile",
    ACCEPTED: "it became normal",
}


def alarm_note(alarm: Alarm, deciding: Deciding, changes: Collection[Change] = ()) -> Note:
    """Return an alarm as it stands, open or over, and how a person decides about it.

    One that an open change of `changes` began with is decided about with that change.
    """
    when = moment_text(alarm.start_time, alarm.start, alarm.zone)
    lines = evidence_lines(alarm.evidence)
    if not alarm.open:
        return Note(when, f"alarm {alarm.number}", PLAIN, closed_text(alarm), lines)
    text = unusual_text(alarm)
    if not is_gap(alarm):
        text += f" for {length_text(alarm)}"
    began = any(change.alarm == alarm.number for change in changes)
    commands = () if began else deciding.about_alarm(alarm)
    return Note(when, f"ALARM {alarm.number} open", BAD, text, lines, commands)


def change_note(
    change: Change,
    deciding: Deciding,
    newest: np.datetime64 | None = None,
    full: bool = False,
) -> Note:
    """Return a change as it stands; `newest` is the time of the newest sample.

    Of many channels the first are shown, or all if `full`.
    """
    when = moment_text(change.start_time, change.start, change.zone)
    text = f"{moved_text(change)} moved"
    seconds = seconds_between(change.start_time, newest)
    if change.open and seconds is not None and seconds > 0:
        text += f" {duration_text(0, seconds)} ago"
    if change.alarm is not None:
        text += f", with alarm {change.alarm}"
    lines = list(move_lines(change, None) if full else move_lines(change))
    if change.open:
        lines.append(("", _sentence(change, deciding)))
    title = f"CHANGE {change.number} {change.state}" if change.open else f"change {change.number}"
    if not change.open:
        text += f"; {_STATES.get(change.state, 'the stream came back by itself')}"
    tone = WAITS if change.open else PLAIN
    commands = deciding.about_change(change) if change.open else ()
    return Note(when, title, tone, text, tuple(lines), commands)


def _sentence(change: Change, deciding: Deciding) -> str:
    if change.state == REJECTED:
        text = _STATES[REJECTED]
        return f"{text[0].upper()}{text[1:]}."
    return deciding.sentence()


def incident_note(incident: Incident, most: int = 12) -> Note:
    """Return an incident as it stands, with at most so many of its streams."""
    when = moment_text(incident.start_time, incident.start, incident.zone)
    line = ("", streams_text(incident, most))
    if incident.open:
        return Note(when, f"INCIDENT {incident.number} open", BAD, incident.sentence, (line,))
    return Note(when, f"incident {incident.number}", PLAIN, incident.sentence, (line,))


def counts_text(found: Collection[Alarm | Change]) -> str:
    """Return how many alarms and changes there are; empty where none is."""
    alarms = sum(isinstance(each, Alarm) for each in found)
    parts = [(alarms, "alarm"), (len(found) - alarms, "change")]
    return ", ".join(counted(count, what) for count, what in parts if count)


def acceptable(past: Sequence[Alarm | Change], changes: Collection[Change]) -> list[int]:
    """Return the numbers of the alarms that are over and can still be accepted as normal.

    An alarm that a change began with is decided about with that change.
    """
    began = {each.alarm for each in (*past, *changes) if isinstance(each, Change)}
    return [
        each.number
        for each in past
        if isinstance(each, Alarm)
        and not each.open
        and each.cause == SCORE
        and each.reason != ACCEPTED
        and each.number not in began
    ]


def full_lines(alarm: Alarm, members: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return what else is known of an alarm: where, its worst sample, shares and votes.

    `members` names the votes of the committee; empty where the model is none.
    """
    peak, zone = alarm.peak, alarm.zone
    begin = moment_text(alarm.start_time, alarm.start, zone)
    end = moment_text(alarm.end_time, alarm.end, zone)
    lines = [("first sample", _place(begin, alarm.start)), ("last sample", _place(end, alarm.end))]
    if alarm.cause == SILENCE:
        return tuple(lines)
    # It may be after the last sample that was not quiet, and below the threshold that rose with it.
    place = _place(moment_text(peak.time, peak.sample, zone), peak.sample)
    lines.append(("highest score", place))
    score = f"{number_text(peak.score)}, {number_text(peak.ratio)} times the threshold of then"
    if peak.p_value < 1 and not math.isnan(peak.p_value):
        score += f", p-value {number_text(peak.p_value)}"
    lines.append(("score", score))
    shares = [f"{name} {share:.0%}" for name, share in peak.channels.items()]
    if shares:
        lines.append(("share of the score", ", ".join(shares)))
    if members and len(members) == len(alarm.votes):
        lines.append(("", "Highest vote of each member; 0 is usual in history:"))
        lines += [
            (name, number_text(vote) if math.isfinite(vote) else "none")
            for name, vote in zip(members, alarm.votes, strict=True)
        ]
    return tuple(lines)


def _place(moment: str, sample: int) -> str:
    return moment if moment.startswith("sample") else f"{moment}, sample {sample:,}"


def urgency(alarms: Sequence[Alarm], changes: Sequence[Change]) -> tuple[int, float]:
    """Return what streams are sorted by, the most urgent first: what is open, and how bad it is.

    An open alarm comes before a pending change, and that before a rejected one: 0, 1 and 2.
    """
    if alarms:
        return 0, -max(each.peak.ratio for each in alarms)
    pending = [each.distance for each in changes if each.state == PENDING]
    if pending:
        return 1, -max(pending)
    return 2, -max((each.distance for each in changes), default=0.0)
