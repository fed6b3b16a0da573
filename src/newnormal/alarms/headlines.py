"""What happened over a stretch of a stream, in words: a headline, and the counts below it."""

from __future__ import annotations

import numpy as np

from newnormal.texts import counted
from newnormal.types import ACCEPTED, PENDING, REJECTED, Alarm, Change, Timeline, time_text


def headline(timeline: Timeline) -> str:
    """Return in a sentence what happened, where and since when: what is open first."""
    status = timeline.status
    alarms = most_important(timeline)
    if status == "in alarm" and alarms and alarms[0].open:
        first = alarms[0]
        return f"In alarm since {since_text(first)}: {first.sentence}"
    opened = [span.change for span in timeline.changes if span.change.open]
    if opened and status in ("change pending", "change rejected"):
        states = [each for each in opened if each.state == status.removeprefix("change ")]
        return _change(status.capitalize(), (states or opened)[-1])
    if alarms:
        many = f"{len(alarms)} alarms, all over by now; the highest"
        what = many if len(alarms) > 1 else "One alarm, over by now"
        return f"{what}: {since_text(alarms[0])}: {alarms[0].sentence}"
    if timeline.accepted:
        return _change("No alarms; a change was accepted", timeline.accepted[-1].change)
    anomalous = int(timeline.verdicts.anomalous.sum())
    size = counted(len(timeline), "sample")
    return f"{anomalous:,} of {size} anomalous" if anomalous else f"Nothing unusual in {size}"


def most_important(timeline: Timeline) -> list[Alarm]:
    """Return the alarms, the most important first: those that are open, then by their peak."""
    return sorted(timeline.alarms, key=lambda each: (not each.open, -each.peak.ratio, each.number))


def counts_text(timeline: Timeline) -> str:
    """Return how many alarms and changes there were."""
    parts = []
    if timeline.verdicts.alarms is not None or timeline.alarms:
        parts.append(counted(len(timeline.alarms), "alarm") if timeline.alarms else "no alarms")
    if timeline.changes:
        states = [span.change.state for span in timeline.changes]
        known = (PENDING, ACCEPTED, REJECTED, "reverted")
        each = [f"{states.count(state)} {state}" for state in known if state in states]
        parts.append(f"{counted(len(states), 'change')} ({', '.join(each)})")
    return ", ".join(parts)


def range_text(timeline: Timeline) -> str:
    """Return from when to when, how many samples and how many channels."""
    size = f"{counted(len(timeline), 'sample')} of {counted(len(timeline.channels), 'channel')}"
    times = timeline.times
    if times is None or not len(times):
        return size
    zone = timeline.verdicts.zone
    first, last = (short_moment_text(each, 0, zone) for each in (times[0], times[-1]))
    same = last.startswith(first[:10]) and " " in last
    return f"{first} to {last[11:] if same else last}, {size}"


def short_moment_text(time: np.datetime64 | None, sample: int, zone: str | None = None) -> str:
    """Return a time as `moment_text` does, with seconds only where there are any, and no offset.

    Examples
    --------
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


def _change(what: str, change: Change) -> str:
    """Return what happened to a change, and since when: a sentence has that at its end."""
    return f"{what}, since {since_text(change)}: {change_text(change)}"


def change_text(change: Change) -> str:
    """Return what moved, from where to where: the sentence without its time, for use beside one."""
    moved, since, _ = change.sentence.rpartition(" since ")
    return moved if since else change.sentence


def since_text(found: Alarm | Change) -> str:
    """Return when an alarm or a change began."""
    return short_moment_text(found.start_time, found.start, found.zone)
