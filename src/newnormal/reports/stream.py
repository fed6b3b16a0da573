"""A stream as a page's data describe it: its channels, alarms, changes and labels."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from newnormal.alarms.words import change_text, length_text, moment_text
from newnormal.core.history import median_period
from newnormal.metrics.alarms import trace_alarms, true_alarms
from newnormal.metrics.inputs import runs
from newnormal.plots.thinning import stretches
from newnormal.reports.packing import text_of
from newnormal.types import Alarm, Bools, ChangeSpan, Floats, Timeline


def seconds_of(time: np.datetime64) -> float:
    """Return a time as seconds since 1970, UTC.

    >>> seconds_of(np.datetime64("1970-01-01T00:01:00.5"))
    60.5
    """
    return float(time.astype("datetime64[ns]").astype(np.int64)) / 1e9


@dataclass(frozen=True, eq=False)
class Axis:
    """The axis of a stream."""

    timeline: Timeline
    timed: bool  # whether it is one of time; it must not be where the stream has none

    @classmethod
    def of(cls, timeline: Timeline) -> "Axis":
        """Return the axis that suits a stream: of time, where every sample has one."""
        return cls(timeline, timeline.times is not None)

    @cached_property
    def x(self) -> Floats:
        """Where each sample is, shape (T,)."""
        times = self.timeline.times
        if self.timed and times is not None:
            return times.astype("datetime64[ns]").astype(np.int64) / 1e9
        return self.timeline.verdicts.samples.astype(np.float64)

    @cached_property
    def met(self) -> Mapping[int, bool]:
        """Whether each alarm finds a labelled event, by its number; none without labels."""
        timeline, labels = self.timeline, self.timeline.labels
        if labels is None:
            return {}
        return true_alarms(timeline.observed.events, labels, first=timeline.first)

    def at(self, sample: int, time: np.datetime64 | None = None) -> float | None:
        """Return where a sample is, by its time if that is known; it may be before the first.

        A sample of unknown time that is not in the timeline lies at the timeline's end nearest to
        it; None in an empty one.
        """
        if not self.timed:
            return _short(float(sample))
        if time is not None:
            return _short(seconds_of(time))
        if not len(self.timeline):
            return None
        row = min(max(sample - self.timeline.first, 0), len(self.timeline) - 1)
        return _short(float(self.x[row]))

    def text(self, sample: int, time: np.datetime64 | None) -> str:
        """Return when a sample was, in words: its time in the stream's zone, or its number.

        Seconds are there where they are not 0.
        """
        timed = self.timed and time is not None
        text = moment_text(time if timed else None, sample, self.timeline.verdicts.zone)
        whole = timed and text[16:19] == ":00" and text[19:20] != "."
        return text[:16] + text[19:] if whole else text

    @property
    def ends(self) -> tuple[float | None, float | None]:
        """Where the first and the last sample are; None without any."""
        if not len(self.timeline):
            return None, None
        return _short(float(self.x[0])), _short(float(self.x[-1]))


def _short(x: float) -> float:
    """Return a place as JSON has it in the fewest digits: a whole number without a point."""
    return int(x) if x.is_integer() else round(x, 6)


_STRETCHES = 2_000  # of labels, before neighbours are joined


def number(value: Any) -> Any:
    """Return a number as JSON has it: None for what is not finite.

    >>> number(np.float64(0.5)), number(np.nan), number(None)
    (0.5, None, None)
    """
    return None if value is None or not math.isfinite(value) else float(value)


def stream_data(axis: Axis, room: float) -> dict[str, Any]:
    """Return all there is of a stream, but its numbers: alarms and changes while room lasts.

    The worst alarms, and those that are open, come first; `more` counts what is left out.
    """
    timeline = axis.timeline
    alarms = sorted(timeline.alarms, key=lambda alarm: (not alarm.open, -alarm.peak.ratio))
    changes = sorted(
        timeline.changes, key=lambda span: (not span.change.open, -span.change.distance)
    )
    taken: tuple[list[Any], list[Any]] = ([], [])
    for data, items in zip(
        taken,
        ([alarm_data(axis, alarm) for alarm in alarms], [change_data(axis, c) for c in changes]),
        strict=True,
    ):
        for item in items:
            room -= len(text_of(item).encode()) + 1
            if room < 0:
                break
            data.append(item)
        data.sort(key=lambda item: item["number"])
    stream = _described(axis, *taken, len(timeline.channels))
    stream["decisions"] = _decisions(axis)
    if timeline.labels is not None:
        stream["found"] = _found(timeline, timeline.labels)
        stream["labels"] = _labelled(axis, timeline.labels)
    return stream


def brief_data(axis: Axis) -> dict[str, Any]:
    """Return what an overview shows of a stream: its newest alarm and change, without evidence."""
    timeline = axis.timeline
    alarms = [{**alarm_data(axis, alarm), "evidence": []} for alarm in timeline.alarms[-1:]]
    return _described(axis, alarms, [change_data(axis, c) for c in timeline.changes[-1:]], 0)


def _described(axis: Axis, alarms: list[Any], changes: list[Any], channels: int) -> dict[str, Any]:
    """Return a stream with these alarms and changes and so many channels; without the rest."""
    timeline = axis.timeline
    return {
        **_facts(axis),
        "channels": channels_data(timeline, channels),
        "alarms": alarms,
        "changes": changes,
        "decisions": [],
        "more": {
            "alarms": len(timeline.alarms) - len(alarms),
            "changes": len(timeline.changes) - len(changes),
            "channels": len(timeline.channels) - channels,
        },
        **dict.fromkeys(("found", "labels", "sparkline", "blocks")),
    }


def channels_data(timeline: Timeline, shown: int) -> list[dict[str, Any]]:
    """Return the channels that are shown, those concerned first."""
    return [
        {"name": timeline.channels[channel], "concern": round(float(timeline.concern[channel]), 6)}
        for channel in timeline.order[:shown].tolist()
    ]


def alarm_data(axis: Axis, alarm: Alarm) -> dict[str, Any]:
    """Return an alarm as the page's data have it."""
    samples = alarm.end - alarm.start + 1
    return {
        "number": alarm.number,
        "cause": alarm.cause,
        "open": alarm.open,
        "reason": alarm.reason,
        "sentence": alarm.sentence,
        "start": axis.at(alarm.start, alarm.start_time),
        "end": axis.at(alarm.end, alarm.end_time),
        "peak": axis.at(alarm.peak.sample, alarm.peak.time),
        "ratio": number(alarm.peak.ratio),
        "severity": alarm.severity,
        "word": alarm.severity_word,
        "labelled": axis.met.get(alarm.number),
        "samples": samples,
        "since": axis.text(alarm.start, alarm.start_time),
        "until": axis.text(alarm.end, alarm.end_time),
        "lasted": length_text(alarm),
        "evidence": [_evidence(part.as_dict()) for part in alarm.evidence],
        "shares": _finite(alarm.channels),
    }


def _decisions(axis: Axis) -> list[dict[str, Any]]:
    """Return what was decided before, the newest first, but what this run shows as well."""
    shown = {("change", span.change.state, span.change.start) for span in axis.timeline.changes}
    decisions = []
    for item in reversed(axis.timeline.observed.decided):
        if isinstance(item, Alarm):
            kind, state, sentence = "alarm", item.reason, item.sentence
        else:
            kind, state, sentence = "change", item.state, change_text(item)
        if (kind, state, item.start) not in shown:
            since = axis.text(item.start, item.start_time)
            decisions.append({"kind": kind, "state": state, "sentence": sentence, "since": since})
    return decisions


def _found(timeline: Timeline, labels: Bools) -> dict[str, int]:
    """Return what was found, as `newnormal.metrics.evaluate` counts it."""
    trace = trace_alarms(timeline.observed.events, len(timeline), first=timeline.first)
    counts = trace.count(labels)
    return {"events": counts.events, "found": counts.found, "false": counts.false}


def change_data(axis: Axis, span: ChangeSpan) -> dict[str, Any]:
    """Return a change as the page's data have it."""
    change = span.change
    return {
        "number": change.number,
        "state": change.state,
        "sentence": change_text(change),
        "channels": list(change.channels),
        "before": _finite(change.before),
        "after": _finite(change.after),
        "units": dict(change.units),
        "since": axis.text(change.start, change.start_time),
        "alarm": change.alarm,
        "steps": [[axis.at(sample), state] for sample, state in _timed_steps(axis, span)],
        "end": axis.at(span.end),
    }


def _timed_steps(axis: Axis, span: ChangeSpan) -> Sequence[tuple[int, str]]:
    """Return the steps inside the timeline; one before it counts from its first sample."""
    first = axis.timeline.first
    return [(max(sample, first), state) for sample, state in span.steps]


def _facts(axis: Axis) -> dict[str, Any]:
    timeline = axis.timeline
    start, end = axis.ends
    period = median_period(timeline.times) if axis.timed and timeline.times is not None else None
    return {
        "name": timeline.name,
        "status": timeline.status,
        "samples": len(timeline),
        "anomalous": int(timeline.verdicts.anomalous.sum()),
        "missing": int(np.isnan(timeline.values).sum()),
        "start": start,
        "end": end,
        "period": None if period is None else number(period / np.timedelta64(1, "s")),
        "first": timeline.first,
    }


def _labelled(axis: Axis, labels: Bools) -> list[list[Any]]:
    if not len(labels):
        return []
    first = axis.timeline.first
    starts, after = runs(labels)
    if len(starts) > _STRETCHES:
        spans = stretches(axis.x, labels, _STRETCHES)
        return [[start, start + width] for start, width in spans]
    return [
        [axis.at(first + begin), axis.at(first + stop - 1)]
        for begin, stop in zip(starts.tolist(), after.tolist(), strict=True)
    ]


def _evidence(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the page shows of a channel of an alarm."""
    shown = ("channel", "observed", "expected", "low", "high", "direction", "unit")
    return _finite({name: facts[name] for name in shown})


def _finite(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return a mapping whose numbers JSON can hold; other values stay."""
    return {
        name: number(value) if isinstance(value, float) else value for name, value in facts.items()
    }
