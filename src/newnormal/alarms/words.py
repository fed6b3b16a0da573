"""Alarms, changes, incidents and timelines in words for the person who must decide.

One sentence each, kept with the alarm or the change; a `Note` for one event, or for an alarm or a
change as it stands (a heading, lines below it and the commands that decide: colour and width are
left to what shows it); a headline for a timeline.

One module because all of them write the same numbers, durations, moments and channels.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from newnormal.texts import between_text, counted, number_text, number_texts, seconds_text
from newnormal.types import (
    ACCEPTED,
    BACK_TO_NORMAL,
    BECAME_CHANGE,
    CHANGED,
    CLOSED,
    END_OF_STREAM,
    INCIDENT,
    OPENED,
    PENDING,
    REJECTED,
    REVERTED,
    SAMPLES_AGAIN,
    SCORE,
    SILENCE,
    UNDONE,
    UPDATED,
    WEIGHTS,
    Alarm,
    Change,
    Event,
    Evidence,
    Incident,
    IncidentEvent,
    Timeline,
    time_text,
)

# How much a note matters: something is wrong, waits for a decision, is over, or none of these.
BAD = "bad"
WAITS = "waits"
GOOD = "good"
PLAIN = "plain"


_FASTER, _SLOWER, _STILL = 2.0, 0.5, 0.05  # times its usual steps: fast, slow and still
_NAMED = 3  # channels in a heading
_SENTENCE_MOVES = 5  # channels of a change in its sentence
_MOVED = 8  # channels of a change, a line each: more would push an alarm off the screen
_STREAMS = 12  # of an incident, by name
_CLOSED = {
    BACK_TO_NORMAL: "back to normal",
    SAMPLES_AGAIN: "values come again",
    END_OF_STREAM: "the input ended",
    ACCEPTED: "accepted as normal",
    BECAME_CHANGE: "it goes on as a change",
}
_STATES = {
    PENDING: "it waits for a decision",
    REJECTED: "it is a fault until the stream is back; nothing is learned meanwhile",
    ACCEPTED: "it became normal",
}

_Item = TypeVar("_Item", bound=Alarm | Change | Event)


def duration_text(samples: int, seconds: float | None) -> str:
    """Return a length of time, or as many samples where times are not known.

    >>> duration_text(12, 720.0), duration_text(3, None), duration_text(1, None)
    ('12 min', '3 samples', '1 sample')
    """
    if seconds is None or not seconds > 0:
        return f"{samples} sample{'' if samples == 1 else 's'}"
    return seconds_text(seconds)


def length_text(alarm: Alarm) -> str:
    """Return how long an alarm lasted, from its first sample to its last."""
    samples = alarm.end - alarm.start + 1
    seconds = seconds_between(alarm.start_time, alarm.end_time)
    if seconds is not None and samples > 1 and alarm.cause != SILENCE:
        seconds *= samples / (samples - 1)  # the last sample lasts as long as the others
    return duration_text(samples, seconds)


def ended(alarm: Alarm, reason: str, at_this_hour: bool = False) -> Alarm:
    """Return the alarm closed for `reason`; its sentence includes the duration."""
    length = length_text(alarm)
    if alarm.cause == SILENCE:
        sentence = missing_sentence([part.channel for part in alarm.evidence], length)
    else:
        sentence = alarm_sentence(alarm, length, at_this_hour)
    return replace(alarm, reason=reason, sentence=sentence)


def alarm_sentence(alarm: Alarm, length: str | None, at_this_hour: bool) -> str:
    """Return what the channels of an alarm show, and for how long; no length while it is open."""
    evidence = alarm.evidence
    lasted = "" if length is None else f" for {length}"
    if not evidence:
        return f"unusual{lasted}"
    first, *others = evidence
    if length is not None and first.start is not None and first.end is not None:
        lasted = f" for {_own_length(alarm, first.end - first.start + 1)}"
    if first.comes_and_goes:
        lasted = f" and comes and goes{lasted}"
    text = f"{first.channel} {first.text}"
    if at_this_hour and first.expected is not None:
        text += " at this hour"
    if _in_range(first) and first.unusual:
        text += f", but {first.unusual}{lasted}"
    elif first.direction != "missing" or lasted:
        text += f"; {'unusual' if first.direction == 'within' else first.direction}{lasted}"
    # What is unusual about the first one may name others.
    names = [part.channel for part in others if not first.unusual.endswith(f" {part.channel}")]
    if names and " together with " not in first.unusual:
        text += f"; also {channels_text(names)}"
    return text


def _own_length(alarm: Alarm, samples: int) -> str:
    """Return how long so many samples of an alarm are."""
    seconds = seconds_between(alarm.start_time, alarm.end_time)
    if seconds is not None and alarm.end > alarm.start:
        return duration_text(samples, seconds / (alarm.end - alarm.start) * samples)
    return duration_text(samples, None)


def pace_text(pace: float | None) -> str:
    """Return how fast a channel changes, in times its usual steps; empty where that is usual.

    >>> pace_text(6.04), pace_text(0.01), pace_text(1.2)
    ('changes 6 times as fast as usual', 'stands still', '')
    >>> pace_text(0.3)
    'changes only 0.3 times as fast as usual'
    """
    if pace is None or _SLOWER < pace < _FASTER:
        return ""
    if pace <= _STILL:
        return "stands still"
    often = "" if pace >= _FASTER else "only "
    return f"changes {often}{number_text(pace, digits=2)} times as fast as usual"


def _in_range(evidence: Evidence) -> bool:
    """Whether a value lies in the range that is known of its channel."""
    return evidence.direction == "within" and None not in (evidence.low, evidence.high)


def missing_sentence(channels: Sequence[str], length: str | None = None) -> str:
    """Return which channels have no values, and for how long; no length while that goes on."""
    return f"{', '.join(channels)} missing{'' if length is None else f' for {length}'}"


def silence_sentence(
    channels: Sequence[str], samples: int, seconds: float | None, period: float | None
) -> str:
    """Return what was silent, and for how long; no channels: there were no samples."""
    if channels:
        return missing_sentence(channels, duration_text(samples, seconds))
    return f"no sample for {duration_text(samples, seconds)}{_usual(period)}"


def quiet_sentence(period: float | None) -> str:
    """Return that no samples come, while that lasts; `period` in s.

    >>> quiet_sentence(60.0)
    'no samples, expected one every 60 s'
    """
    return f"no samples{_usual(period)}"


def _usual(period: float | None) -> str:
    return "" if period is None else f", expected one every {duration_text(1, period)}"


def change_sentence(
    change: Change, of: int = 0, ends: Mapping[str, tuple[str, float] | None] | None = None
) -> str:
    """Return what moved, from where to where, and since when; the stream has `of` channels.

    `ends` has for each channel beyond all of history how it is, and beyond which value.
    """
    since = f"sample {change.start}"
    if change.start_time is not None:
        since = time_text(change.start_time, change.zone)
    if not change.channels:
        return f"the model's weights have moved far from the accepted ones since {since}"
    if change.kind == "still":
        names = change.channels
        if len(names) > 1 and len(names) == of:
            return f"all {of} channels stand still since {since}"
        level = f" {_level_text(change, names[0])}" if len(names) == 1 else ""
        return f"{channels_text(names)} {'stands' if level else 'stand'} still{level} since {since}"
    moves = [
        f"{name} {_level_text(change, name, (ends or {}).get(name))}"
        for name in change.channels[:_SENTENCE_MOVES]
    ]
    if more := len(change.channels) - len(moves):
        moves.append(f"{more} more")
    if change.kind == "never":
        return f"{'; '.join(moves)}, since {since}"
    return f"{', '.join(moves)} since {since}"


def _level_text(change: Change, name: str, end: tuple[str, float] | None = None) -> str:
    """Return where a channel of a change was and is, and beyond which value of history."""
    unit, levels = change.units.get(name, ""), [change.before[name], change.after[name]]
    if change.kind == "still":
        return f"at {number_text(levels[1], unit)}"
    is_never = change.kind == "never"
    ends = [end[1]] if is_never and end is not None else []
    *texts, last = number_texts(*levels, *ends, unit=unit)
    if not is_never:
        return f"from {between_text([*texts, last])}"
    beyond = "where history never was" if end is None else end[0].format(last)
    return f"from {between_text(texts if ends else [*texts, last])}, {beyond}"


def seconds_between(start: np.datetime64 | None, end: np.datetime64 | None) -> float | None:
    """Return the seconds from one time to another, or None where either is not known."""
    if start is None or end is None:
        return None
    return float((end - start) / np.timedelta64(1, "s"))


def in_zone(item: _Item, zone: str | None) -> _Item:
    """Return an alarm, a change or an event whose times are given out in a zone.

    Only the sentence of a change has a time in it: it is written anew.

    >>> when = np.datetime64("2026-07-01T10:00", "ns")
    >>> event = Event("undone", 7, when)
    >>> in_zone(event, "Europe/Berlin").as_dict()["time"]
    '2026-07-01T12:00:00+02:00'
    """
    if item.zone == zone:
        return item
    changes: dict[str, Any] = {"zone": zone}
    if isinstance(item, Event):
        for name in ("alarm", "change"):
            part = getattr(item, name)
            changes[name] = None if part is None else in_zone(part, zone)
    elif isinstance(item, Change) and item.start_time is not None and item.sentence:
        before, after = (time_text(item.start_time, name) for name in (item.zone, zone))
        changes["sentence"] = item.sentence.replace(before, after)
    return replace(item, **changes)


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

    `when`: the time or the sample at which it was known; empty where that has no place.
    `title`: what it is about: ``"ALARM 1 opened"``.
    `tone`: how much it matters: `BAD`, `WAITS`, `GOOD` or `PLAIN`.
    `text`: the rest of the heading.
    `lines`: lines below it: a label, which is aligned, and a text. An empty label: a sentence.
    `commands`: what can be done: a label and the command as it is typed.
    """

    when: str
    title: str
    tone: str
    text: str = ""
    lines: tuple[tuple[str, str], ...] = ()
    commands: tuple[tuple[str, str], ...] = ()


class Deciding(NamedTuple):
    """How a person decides about a stream.

    `state`: the state file or the fleet's folder, as it is typed; None: there is none. `stream`:
    the stream of a fleet; None for a detector of one stream. `accept_after`: how long a change must
    be stable to be accepted without a person, in words; None: never.
    """

    state: str | None = None
    stream: str | None = None
    accept_after: str | None = None

    def command(self, verb: str, option: str = "", number: int | None = None) -> str:
        """Return the command of a verb, as it is typed into a shell.

        >>> Deciding("my plant.state").command("accept", "change", 3)
        "newnormal accept 'my plant.state' --change 3"
        """
        words = [self.state or "STATE", *([] if self.stream is None else [self.stream])]
        options = [] if number is None else [f"--{option}", str(number)]
        return typed(verb, words, options)

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
    joint = [part for part in alarm.evidence if " together with " in part.unusual]
    is_all = len(joint) == len(alarm.evidence)
    by_way: dict[str, list[str]] = {}
    for part in alarm.evidence:
        way = (part.unusual or "unusual") if part.direction == "within" else part.direction
        if part in joint and alarm.evidence[0].unusual.endswith(f" follow {part.channel}"):
            continue  # it is named already
        if part in joint and len(joint) > 1:
            way = "are not usual together" if is_all else "unusual"
        by_way.setdefault(way, []).append(part.channel)
    text = ", ".join(f"{channels_text(names)} {way}" for way, names in by_way.items())
    if not all(part.comes_and_goes for part in alarm.evidence):
        return text
    return f"{text} and {'comes and goes' if len(alarm.evidence) == 1 else 'come and go'}"


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
    return tuple(
        (part.channel, _evidence_text(part))
        for part in evidence
        if part.observed is not None or part.expected is not None
    )


def _evidence_text(evidence: Evidence) -> str:
    texts = evidence.texts
    if "low" not in texts or "high" not in texts or "expected" not in texts:
        return evidence.text
    reach = between_text([texts["low"], texts["high"]])
    return f"{texts.get('observed', 'missing')}, expected {texts['expected']} ({reach})"


def move_lines(change: Change, most: int | None = _MOVED) -> tuple[tuple[str, str], ...]:
    """Return a line a channel: its level when last normal, and now; of many, the first `most`."""
    if not change.channels:
        return (("", "The model's weights have moved far from the accepted ones."),)
    levels = [(name, _level_text(change, name)) for name in change.channels[:most]]
    lines = [(name, text.partition(", ")[0]) for name, text in levels]
    if more := len(change.channels) - len(lines):
        lines.append(("", f"and {counted(more, 'channel')} more"))
    return tuple(lines)


def closed_text(alarm: Alarm) -> str:
    """Return what an alarm was about, how long it lasted, and why it was closed."""
    about = unusual_text(alarm)
    if about != alarm.sentence:
        about += f" for {length_text(alarm)}"
    change = alarm.sentence.rpartition("; goes on as ")[2]
    if alarm.reason == BECAME_CHANGE and change != alarm.sentence:
        return f"{about}; it goes on as {change}"
    return f"{about}; {_CLOSED.get(alarm.reason or '', alarm.reason)}"


# ---------------------------------------------------------------------------- events


def event_note(event: Event, deciding: Deciding | None = None) -> Note:
    """Return an event in words.

    >>> event_note(Event(UNDONE, 7, np.datetime64("2026-01-01T00:07", "ns"))).title
    'acceptance undone'
    """
    when = moment_text(event.time, event.sample, event.zone)
    if event.kind == UNDONE and event.change is None:
        return Note(when, "acceptance undone", PLAIN, "normal is what it was before it")
    if event.alarm is not None and event.kind in (OPENED, UPDATED, CLOSED):
        return _alarm_event_note(event.kind, event.alarm, when)
    if event.change is not None and event.kind in (CHANGED, ACCEPTED, REJECTED, REVERTED, UNDONE):
        return _change_event_note(event.kind, event.change, when, deciding or Deciding())
    about = event.change or event.alarm
    return Note(when, event.kind.replace("_", " "), PLAIN, "" if about is None else about.sentence)


def _alarm_event_note(kind: str, alarm: Alarm, when: str) -> Note:
    if kind == CLOSED:
        return Note(when, f"alarm {alarm.number} closed", GOOD, closed_text(alarm))
    text, since = unusual_text(alarm), _start_text(alarm)
    if not is_gap(alarm):
        if kind == UPDATED:
            text += f" since {clock_text(since, when)}, for {length_text(alarm)}"
        elif since != when:
            text += f" since {clock_text(since, when)}"
    title = f"ALARM {alarm.number} {'opened' if kind == OPENED else 'worse'}"
    return Note(when, title, BAD, text, evidence_lines(alarm.evidence))


def _change_event_note(kind: str, change: Change, when: str, deciding: Deciding) -> Note:
    title = f"change {change.number} {kind}"
    if kind == ACCEPTED:
        undo = () if deciding.state is None else (("to undo", deciding.command("undo")),)
        return Note(when, title, GOOD, "it is normal from now on", move_lines(change), undo)
    if kind == REJECTED:
        text = "it stays a fault; nothing is learned until the stream is back"
        return Note(when, title, WAITS, text)
    if kind == REVERTED:
        text = f"{channels_text(change.channels) if change.channels else WEIGHTS} back to normal"
        return Note(when, f"change {change.number} over", GOOD, text)
    text = f"{moved_text(change)} since {clock_text(_start_text(change), when)}"
    if change.alarm is not None:
        text += f", with alarm {change.alarm}"
    lines = (*move_lines(change), ("", deciding.sentence()))
    state = f"{change.state} again" if kind == UNDONE else change.state
    title = f"CHANGE {change.number} {state}"
    return Note(when, title, WAITS, text, lines, deciding.about_change(change))


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


def moved_text(change: Change) -> str:
    """Return what a change is about: its channels; and what they do, where that is no move."""
    if change.kind != "level":
        return change_text(change)
    return channels_text(change.channels) if change.channels else WEIGHTS


def _start_text(item: Alarm | Change | Incident) -> str:
    return moment_text(item.start_time, item.start, item.zone)


def alarm_note(alarm: Alarm, deciding: Deciding, changes: Collection[Change] = ()) -> Note:
    """Return an alarm as it stands, open or over, and how a person decides about it.

    One that an open change of `changes` began with is decided about with that change.
    """
    when = _start_text(alarm)
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
    change: Change, deciding: Deciding, newest: np.datetime64 | None = None, full: bool = False
) -> Note:
    """Return a change as it stands; `newest` is the time of the newest sample.

    Of many channels the first are shown, or all if `full`.
    """
    when = _start_text(change)
    is_level = change.kind == "level"
    text = f"{moved_text(change)}{' moved' if is_level else ''}"
    seconds = seconds_between(change.start_time, newest)
    if change.open and seconds is not None and seconds > 0:
        length = duration_text(0, seconds)
        text += f" {length} ago" if is_level else f" for {length}"
    if change.alarm is not None:
        text += f", with alarm {change.alarm}"
    lines = list(move_lines(change, None) if full else move_lines(change))
    state = _STATES.get(change.state, "the stream came back by itself")
    if not change.open:
        return Note(when, f"change {change.number}", PLAIN, f"{text}; {state}", tuple(lines))
    rejected = f"{state[0].upper()}{state[1:]}."
    lines.append(("", rejected if change.state == REJECTED else deciding.sentence()))
    title = f"CHANGE {change.number} {change.state}"
    return Note(when, title, WAITS, text, tuple(lines), deciding.about_change(change))


def incident_note(incident: Incident, most: int = 12) -> Note:
    """Return an incident as it stands, with at most so many of its streams."""
    when = _start_text(incident)
    title, tone = f"incident {incident.number}", PLAIN
    if incident.open:
        title, tone = f"INCIDENT {incident.number} open", BAD
    return Note(when, title, tone, incident.sentence, (("", streams_text(incident, most)),))


def counts_text(items: Collection[Alarm | Change]) -> str:
    """Return how many alarms and changes there are; empty where none is."""
    alarms = sum(isinstance(item, Alarm) for item in items)
    parts = [(alarms, "alarm"), (len(items) - alarms, "change")]
    return ", ".join(counted(count, what) for count, what in parts if count)


def acceptable(past: Sequence[Alarm | Change], changes: Collection[Change]) -> list[int]:
    """Return the numbers of the alarms that are over and can still be accepted as normal.

    An alarm that a change began with is decided about with that change.
    """
    began = {item.alarm for item in (*past, *changes) if isinstance(item, Change)}
    return [
        item.number
        for item in past
        if isinstance(item, Alarm)
        and not item.open
        and item.cause == SCORE
        and item.reason != ACCEPTED
        and item.number not in began
    ]


def full_lines(alarm: Alarm, members: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return what else is known of an alarm: where, its worst sample, shares and votes.

    `members` names the votes of the committee; empty where the model is none.
    """
    peak, zone = alarm.peak, alarm.zone
    lines = [
        ("first sample", _sample_text(alarm.start_time, alarm.start, zone)),
        ("last sample", _sample_text(alarm.end_time, alarm.end, zone)),
    ]
    if alarm.cause == SILENCE:
        return tuple(lines)
    # It may be after the last sample that was not quiet, and below the threshold that rose with it.
    lines.append(("highest score", _sample_text(peak.time, peak.sample, zone)))
    score = f"{number_text(peak.score)}, {number_text(peak.ratio)} times the threshold of then"
    if peak.p_value < 1 and not math.isnan(peak.p_value):
        score += f", p-value {number_text(peak.p_value)}"
    lines.append(("score", score))
    if shares := [f"{name} {share:.0%}" for name, share in peak.channels.items()]:
        lines.append(("share of the score", ", ".join(shares)))
    if members and len(members) == len(alarm.votes):
        lines.append(("", "Highest vote of each member; 0 is usual in history:"))
        lines += [
            (name, number_text(vote) if math.isfinite(vote) else "none")
            for name, vote in zip(members, alarm.votes, strict=True)
        ]
    return tuple(lines)


def _sample_text(time: np.datetime64 | None, sample: int, zone: str | None) -> str:
    text = f"sample {sample:,}"
    return text if time is None else f"{moment_text(time, sample, zone)}, {text}"


def urgency(alarms: Sequence[Alarm], changes: Sequence[Change]) -> tuple[int, float]:
    """Return what streams are sorted by, the most urgent first: what is open, and how bad it is.

    An open alarm comes before a pending change, and that before a rejected one: 0, 1 and 2.
    """
    if alarms:
        return 0, -max(alarm.peak.ratio for alarm in alarms)
    if pending := [change.distance for change in changes if change.state == PENDING]:
        return 1, -max(pending)
    return 2, -max((change.distance for change in changes), default=0.0)


def headline(timeline: Timeline) -> str:
    """Return in a sentence what happened, where and since when: what is open first."""
    status = timeline.status
    alarms = most_important(timeline)
    if status == "in alarm" and alarms and alarms[0].open:
        first = alarms[0]
        return f"In alarm since {since_text(first)}: {first.sentence}"
    opened = [span.change for span in timeline.changes if span.change.open]
    if opened and status in ("change pending", "change rejected"):
        alike = [change for change in opened if change.state == status.removeprefix("change ")]
        return _change_headline(status.capitalize(), (alike or opened)[-1])
    if alarms:
        many = f"{len(alarms)} alarms, all over by now; the highest"
        what = many if len(alarms) > 1 else "One alarm, over by now"
        return f"{what}: {since_text(alarms[0])}: {alarms[0].sentence}"
    if timeline.accepted:
        return _change_headline("No alarms; a change was accepted", timeline.accepted[-1].change)
    anomalous = int(timeline.verdicts.anomalous.sum())
    size = counted(len(timeline), "sample")
    return f"{anomalous:,} of {size} anomalous" if anomalous else f"Nothing unusual in {size}"


def most_important(timeline: Timeline) -> list[Alarm]:
    """Return the alarms, the most important first: those that are open, then by their peak."""
    return sorted(
        timeline.alarms, key=lambda alarm: (not alarm.open, -alarm.peak.ratio, alarm.number)
    )


def timeline_counts_text(timeline: Timeline) -> str:
    """Return how many alarms and changes a timeline has, and the states of the changes."""
    parts = []
    if timeline.verdicts.alarms is not None or timeline.alarms:
        parts.append(counted(len(timeline.alarms), "alarm") if timeline.alarms else "no alarms")
    if timeline.changes:
        states = [span.change.state for span in timeline.changes]
        order = (PENDING, ACCEPTED, REJECTED, REVERTED)
        counts = [f"{states.count(state)} {state}" for state in order if state in states]
        parts.append(f"{counted(len(states), 'change')} ({', '.join(counts)})")
    return ", ".join(parts)


def range_text(timeline: Timeline) -> str:
    """Return from when to when, how many samples and how many channels."""
    size = f"{counted(len(timeline), 'sample')} of {counted(len(timeline.channels), 'channel')}"
    times = timeline.times
    if times is None or not len(times):
        return size
    zone = timeline.verdicts.zone
    first, last = (short_moment_text(time, 0, zone) for time in (times[0], times[-1]))
    same = last.startswith(first[:10]) and " " in last
    return f"{first} to {last[11:] if same else last}, {size}"


def short_moment_text(time: np.datetime64 | None, sample: int, zone: str | None = None) -> str:
    """Return a time as `moment_text` does, with seconds only where there are any, and no offset.

    >>> short_moment_text(np.datetime64("2026-03-09T10:14"), 7, "Europe/Berlin")
    '2026-03-09 11:14'
    >>> short_moment_text(np.datetime64("2026-03-09T10:14:30.25"), 7), short_moment_text(None, 1234)
    ('2026-03-09 10:14:30.25', 'sample 1,234')
    """
    if time is None:
        return f"sample {sample:,}"
    text = time_text(time, zone).replace("T", " ")
    day, clock = text[:10], text[11:]
    clock = clock.split("+")[0].split("-")[0].rstrip("Z")
    return f"{day} {clock.removesuffix(':00') if len(clock) == 8 else clock}"


def _change_headline(what: str, change: Change) -> str:
    """Return what happened to a change, and since when: a sentence has that at its end."""
    return f"{what}, since {since_text(change)}: {change_text(change)}"


def change_text(change: Change) -> str:
    """Return what moved, from where to where: the sentence without its time, for use beside one."""
    moved, since, _ = change.sentence.rpartition(" since ")
    return moved.rstrip(",") if since else change.sentence


def standing_text(item: Alarm | Change) -> str:
    """Return the state of an alarm or a change, since when, and what it is about."""
    if isinstance(item, Alarm):
        return f"open since {_start_text(item)}: {item.sentence}"
    return f"{item.state} since {_start_text(item)}: {change_text(item)}"


def since_text(item: Alarm | Change) -> str:
    """Return when an alarm or a change began."""
    return short_moment_text(item.start_time, item.start, item.zone)
