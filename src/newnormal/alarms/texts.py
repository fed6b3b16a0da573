"""What happened to alarms, changes and incidents, in words for the person who must decide.

A `Note` shows one event, or one alarm or change as it stands: a heading, lines below it, and the
commands that decide. Colour and width are left to what shows it.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from newnormal.alarms.sentences import in_range, length_text, number_texts
from newnormal.texts import counted
from newnormal.types import (
    ACCEPTED,
    BACK_TO_NORMAL,
    CHANGED,
    CLOSED,
    END_OF_STREAM,
    INCIDENT,
    OPENED,
    REJECTED,
    REVERTED,
    ROLLED_BACK,
    SAMPLES_AGAIN,
    SILENCE,
    UPDATED,
    WEIGHTS,
    Alarm,
    Change,
    Event,
    Evidence,
    Incident,
    IncidentEvent,
    time_text,
)

# How much a note matters: something is wrong, waits for a decision, is over, or none of these.
BAD = "bad"
WAITS = "waits"
GOOD = "good"
PLAIN = "plain"

_NAMED = 3  # channels in a heading
_MOVED = 8  # channels of a change, a line each: more would push an alarm off the screen
_STREAMS = 12  # of an incident, by name
_CLOSED = {
    BACK_TO_NORMAL: "score back to normal",
    SAMPLES_AGAIN: "values come again",
    END_OF_STREAM: "the input ended",
    ACCEPTED: "accepted as normal",
}


def typed(command: str, words: Sequence[str], options: Sequence[str] = ()) -> str:
    """Return a command of ours as it is typed into a shell; a name may begin with a dash.

    >>> typed("alarms", ["my plant.fleet", "web-1"]), typed("alarms", ["a.fleet", "-x"], ["--open"])
    ("newnormal alarms 'my plant.fleet' web-1", 'newnormal alarms --open -- a.fleet -x')
    """
    if any(word.startswith("-") for word in words):
        return shlex.join(["newnormal", command, *options, "--", *words])
    return shlex.join(["newnormal", command, *words, *options])


class Note(NamedTuple):
    """One thing to show.

    Attributes
    ----------
    when
        The time or the sample at which it was known; empty where that has no place.
    title
        What it is about: ``"ALARM 1 opened"``.
    tone
        How much it matters: `BAD`, `WAITS`, `GOOD` or `PLAIN`.
    text
        The rest of the heading.
    lines
        Lines below it: a label, which is aligned, and a text. An empty label: a sentence.
    commands
        What can be done: a label and the command as it is typed.
    """

    when: str
    title: str
    tone: str
    text: str = ""
    lines: tuple[tuple[str, str], ...] = ()
    commands: tuple[tuple[str, str], ...] = ()


class Deciding(NamedTuple):
    """How a person decides about a stream.

    Attributes
    ----------
    state
        The state file or the fleet's folder, as it is typed; None: there is none.
    stream
        The stream of a fleet; None for a detector of one stream.
    accept_after
        How long a change must be stable to be accepted without a person, in words; None: never.
    """

    state: str | None = None
    stream: str | None = None
    accept_after: str | None = None

    def command(self, act: str, option: str = "", number: int | None = None) -> str:
        """Return the command of an act, as it is typed into a shell.

        >>> Deciding("my plant.state").command("accept", "change", 3)
        "newnormal feedback 'my plant.state' accept --change 3"
        """
        words = [self.state or "STATE", *([] if self.stream is None else [self.stream]), act]
        options = [] if number is None else [f"--{option}", str(number)]
        return typed("feedback", words, options)

    def about_change(self, change: Change) -> tuple[tuple[str, str], ...]:
        """Return the commands that decide about an open change."""
        if self.state is None:
            return ()
        accept = ("if normal", self.command("accept", "change", change.number))
        if change.state == REJECTED:
            return (accept,)
        return accept, ("if a fault", self.command("reject", "change", change.number))

    def about_alarm(self, alarm: Alarm) -> tuple[tuple[str, str], ...]:
        """Return the commands that decide about an alarm, open or over."""
        if self.state is None or alarm.cause == SILENCE:
            return ()
        accept = ("if normal", self.command("accept", "alarm", alarm.number))
        if not alarm.open:
            return (accept,)
        return accept, ("if a fault", self.command("reject", "alarm", alarm.number))

    def sentence(self) -> str:
        """Return what becomes of a pending change that nobody decides about."""
        if self.accept_after is None:
            text = "It stays pending until the stream is back or you decide."
        else:
            text = f"It becomes normal by itself once it has been stable for {self.accept_after}."
        return text if self.state is not None else f"{text} To decide, start watch with --state."


def moment_text(time: np.datetime64 | None, sample: int, zone: str | None = None) -> str:
    """Return a time as a clock in its zone shows it, or the sample where there are no times.

    >>> moment_text(np.datetime64("2026-07-01T10:00", "ns"), 7, "Europe/Berlin")
    '2026-07-01 12:00:00+02:00'
    >>> moment_text(None, 1234)
    'sample 1,234'
    """
    return f"sample {sample:,}" if time is None else time_text(time, zone).replace("T", " ")


def clock_text(moment: str, beside: str) -> str:
    """Return a moment beside a later one: without its date where they have it in common.

    >>> clock_text("2026-07-01 12:00:00+02:00", "2026-07-01 13:05:00+02:00")
    '12:00:00'
    >>> clock_text("2026-07-01 23:00:00", "2026-07-02 01:00:00"), clock_text("sample 3", "sample 9")
    ('2026-07-01 23:00:00', 'sample 3')
    """
    if moment[:11] != beside[:11] or moment.startswith("sample"):
        return moment
    return moment[11:].removesuffix(beside[19:]) if beside[19:] else moment[11:]


def is_gap(alarm: Alarm) -> bool:
    """Whether an alarm is about samples that did not come: its sentence has its length."""
    return alarm.cause == SILENCE and not alarm.evidence


def unusual_text(alarm: Alarm) -> str:
    """Return which channels an alarm is about, and how: the heading of it."""
    if alarm.cause == SILENCE or not alarm.evidence:
        return alarm.sentence
    by_way: dict[str, list[str]] = {}
    for each in alarm.evidence:
        way = "unusual" if each.direction == "within" else each.direction
        if in_range(each):
            way = "with an unusual course"
        by_way.setdefault(way, []).append(each.channel)
    parts = [f"{channels_text(names)} {way}" for way, names in by_way.items()]
    return ", ".join(parts)


def channels_text(names: Sequence[str], most: int = _NAMED) -> str:
    """Return the names of channels in a row; of many, the first.

    >>> channels_text(["a"]), channels_text(["a", "b"]), channels_text(list("abcdef"))
    ('a', 'a and b', 'a, b, c and 3 more')
    """
    if len(names) == 1:
        return names[0]
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most:,} more"
    return f"{', '.join(names[:-1])} and {names[-1]}"


def evidence_lines(evidence: Sequence[Evidence]) -> tuple[tuple[str, str], ...]:
    """Return a line a channel: observed, expected, and the range in which nearly all values lie."""
    return tuple((each.channel, _values(each)) for each in evidence if _known(each))


def _known(evidence: Evidence) -> bool:
    return evidence.observed is not None or evidence.expected is not None


def _values(evidence: Evidence) -> str:
    found = (evidence.observed, evidence.expected, evidence.low, evidence.high)
    known = [value for value in found if value is not None]
    texts = dict(zip(known, number_texts(*known), strict=True))
    text = "missing" if evidence.observed is None else texts[evidence.observed]
    if evidence.expected is not None:
        text += f", expected {texts[evidence.expected]}"
    if evidence.low is not None and evidence.high is not None:
        reach = f"{texts[evidence.low]} to {texts[evidence.high]}"
        text += f" ({reach})" if evidence.expected is not None else f", expected {reach}"
    return text


def move_lines(change: Change, most: int | None = _MOVED) -> tuple[tuple[str, str], ...]:
    """Return a line a channel: its level when last normal, and now; of many, the first `most`."""
    if not change.channels:
        return (("", "The model's weights have moved far from the accepted ones."),)
    lines = [
        (name, f"from {' to '.join(number_texts(change.before[name], change.after[name]))}")
        for name in change.channels[:most]
    ]
    more = len(change.channels) - len(lines)
    if more:
        lines.append(("", f"and {counted(more, 'channel')} more"))
    return tuple(lines)


def closed_text(alarm: Alarm) -> str:
    """Return what an alarm was about, how long it lasted, and why it was closed."""
    about = unusual_text(alarm)
    if about != alarm.sentence:
        about += f" for {length_text(alarm)}"
    return f"{about}; {_CLOSED.get(alarm.reason or '', alarm.reason)}"


# ---------------------------------------------------------------------------- events


def event_note(event: Event, deciding: Deciding | None = None) -> Note:
    """Return an event in words.

    >>> import numpy as np
    >>> event_note(Event(ROLLED_BACK, 7, np.datetime64("2026-01-01T00:07", "ns"))).title
    'acceptance undone'
    """
    write = _EVENTS.get(event.kind, _other)
    return write(event, moment_text(event.time, event.sample, event.zone), deciding or Deciding())


def _opened(event: Event, when: str, deciding: Deciding) -> Note:
    del deciding
    alarm = _alarm(event)
    text = unusual_text(alarm)
    since = _start(alarm)
    if since != when and not is_gap(alarm):
        text += f" since {clock_text(since, when)}"
    return Note(when, f"ALARM {alarm.number} opened", BAD, text, evidence_lines(alarm.evidence))


def _updated(event: Event, when: str, deciding: Deciding) -> Note:
    del deciding
    alarm = _alarm(event)
    text = unusual_text(alarm)
    if not is_gap(alarm):
        text += f" since {clock_text(_start(alarm), when)}, for {length_text(alarm)}"
    return Note(when, f"ALARM {alarm.number} worse", BAD, text, evidence_lines(alarm.evidence))


def _closed(event: Event, when: str, deciding: Deciding) -> Note:
    del deciding
    alarm = _alarm(event)
    return Note(when, f"alarm {alarm.number} closed", GOOD, closed_text(alarm))


def _changed(event: Event, when: str, deciding: Deciding) -> Note:
    change = _change(event)
    text = f"{moved_text(change)} since {clock_text(_start(change), when)}"
    if change.alarm is not None:
        text += f", with alarm {change.alarm}"
    lines = (*move_lines(change), ("", deciding.sentence()))
    title = f"CHANGE {change.number} {change.state}"
    return Note(when, title, WAITS, text, lines, deciding.about_change(change))


def _accepted(event: Event, when: str, deciding: Deciding) -> Note:
    change = _change(event)
    undo = () if deciding.state is None else (("to undo", deciding.command("rollback")),)
    title, text = f"change {change.number} accepted", "it is normal from now on"
    return Note(when, title, GOOD, text, move_lines(change), undo)


def _rejected(event: Event, when: str, deciding: Deciding) -> Note:
    del deciding
    change = _change(event)
    text = "it stays a fault; nothing is learned until the stream is back"
    return Note(when, f"change {change.number} rejected", WAITS, text)


def _reverted(event: Event, when: str, deciding: Deciding) -> Note:
    del deciding
    change = _change(event)
    return Note(when, f"change {change.number} over", GOOD, f"{moved_text(change)} back to normal")


def _rolled_back(event: Event, when: str, deciding: Deciding) -> Note:
    del event, deciding
    return Note(when, "acceptance undone", PLAIN, "normal is what it was before it")


def _other(event: Event, when: str, deciding: Deciding) -> Note:
    del deciding
    about = event.change or event.alarm
    return Note(when, event.kind.replace("_", " "), PLAIN, "" if about is None else about.sentence)


_EVENTS: dict[str, Callable[[Event, str, Deciding], Note]] = {
    OPENED: _opened,
    UPDATED: _updated,
    CLOSED: _closed,
    CHANGED: _changed,
    ACCEPTED: _accepted,
    REJECTED: _rejected,
    REVERTED: _reverted,
    ROLLED_BACK: _rolled_back,
}


def incident_event_note(event: IncidentEvent) -> Note:
    """Return that an incident began or ended, in words.

    >>> incident = Incident(1, 7, None, 8, None, {"web-1": 3, "db": 2}, sentence="Alarms opened.")
    >>> note = incident_event_note(IncidentEvent(INCIDENT, incident))
    >>> note.title, note.text, note.lines
    ('INCIDENT 1', 'Alarms opened.', (('', 'web-1 alarm 3, db alarm 2'),))
    """
    incident = event.incident
    when = moment_text(incident.end_time, incident.end, incident.zone)
    if event.kind != INCIDENT:
        streams = len(incident.streams)
        text = f"no further alarm opened; it has alarms of {streams:,} streams"
        return Note(when, f"incident {incident.number} ended", GOOD, text)
    line = ("", streams_text(incident))
    return Note(when, f"INCIDENT {incident.number}", BAD, incident.sentence, (line,))


def streams_text(incident: Incident, most: int = _STREAMS) -> str:
    """Return the streams of an incident, with the number of the first alarm of each."""
    named = [f"{name} alarm {number}" for name, number in incident.streams.items()]
    more = f" and {len(named) - most:,} more" if len(named) > most else ""
    return ", ".join(named[:most]) + more


def _alarm(event: Event) -> Alarm:
    assert event.alarm is not None
    return event.alarm


def _change(event: Event) -> Change:
    assert event.change is not None
    return event.change


def moved_text(change: Change) -> str:
    """Return what a change is about: its channels."""
    return channels_text(change.channels) if change.channels else WEIGHTS


def _start(found: Alarm | Change) -> str:
    return moment_text(found.start_time, found.start, found.zone)
