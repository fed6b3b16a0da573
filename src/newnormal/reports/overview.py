"""The data of a fleet's page: every stream in brief, those that need attention in full."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from newnormal.metrics.events import runs
from newnormal.plots.attention import needs_attention
from newnormal.plots.thinning import bin_starts, ratios_of
from newnormal.reports.axis import Axis, seconds_of
from newnormal.reports.blocks import pack_blocks
from newnormal.reports.packing import text_of
from newnormal.reports.stream import brief_data, channels_data, number, stream_data
from newnormal.types import Incident, IncidentEvent, Timeline

_POINTS = 120  # of a sparkline, and fewer where there are many streams
_FEWEST_POINTS = 16
_BYTES_A_POINT = 5
_SPARKLINES = 0.3  # of the budget
_LEAST_ROOM = 40_000  # bytes, below which a picture of a stream shows nothing of use
_FACTS = 0.3  # of the room of a stream: alarms and changes
_URGENT = 4  # how much more room a stream gets that needs attention
_NAMED = 200  # streams of an incident that are named
_INCIDENTS = 100  # that are listed


def one_stream(axis: Axis, room: float) -> tuple[dict[str, Any], str]:
    """Return a stream with its alarms, and its numbers as text, in no more than `room` bytes."""
    data = stream_data(axis, room * _FACTS)
    packer, shown = pack_blocks(axis, room - len(text_of(data).encode()))
    channels = len(axis.timeline.channels)
    if shown < channels:
        data["channels"] = channels_data(axis.timeline, shown)
        data["more"]["channels"] = channels - shown
    data["blocks"] = packer.blocks
    return data, packer.text()


def fleet_streams(axes: Sequence[Axis], room: float) -> tuple[list[dict[str, Any]], list[str]]:
    """Return as many streams as there is room for, and their numbers as text, "" where none.

    Parameters
    ----------
    axes
        Of the streams, those that need attention first: they get their pictures first.
    room
        Bytes of the page.
    """
    points = int(room * _SPARKLINES / (max(len(axes), 1) * _BYTES_A_POINT))
    points = min(max(points, _FEWEST_POINTS), _POINTS)
    streams: list[dict[str, Any]] = []
    for axis in axes:
        data = {**brief_data(axis), "sparkline": sparkline(axis.timeline, points)}
        size = len(text_of(data).encode()) + 1
        if size > room:
            break
        room -= size
        streams.append(data)
    texts = [""] * len(streams)
    for row, axis in enumerate(axes[: len(streams)]):
        left = len(streams) - row
        share = room / left * (_URGENT if needs_attention(axis.timeline) else 1)
        share = min(max(share, _LEAST_ROOM), room)
        if share < _LEAST_ROOM:
            break
        brief = len(text_of(streams[row]).encode())
        data, text = one_stream(axis, share)
        if not data["blocks"]:
            continue
        data["sparkline"] = streams[row]["sparkline"]
        room -= len(text_of(data).encode()) - brief + len(text) + 60
        streams[row], texts[row] = data, text
    return streams, texts


def sparkline(timeline: Timeline, points: int) -> dict[str, Any]:
    """Return how bad a stream was, in a few points: the worst ratio of each, and the alarms.

    An alarm is as long as on the page of its stream: until its last sample that was not quiet.
    Where alarms are not tracked, the anomalous samples take their place. Alarms by silence count.
    """
    verdicts = timeline.verdicts
    length = len(timeline)
    if not length:
        return {"ratio": [], "alarms": []}
    starts = bin_starts(length, points)
    worst = np.fmax.reduceat(ratios_of(verdicts), starts)
    tracked = verdicts.alarms is not None
    flags = np.zeros(length, dtype=bool) if tracked else verdicts.anomalous.copy()
    for alarm in timeline.alarms:
        flags[max(alarm.start - timeline.first, 0) : alarm.end - timeline.first + 1] = True
    first, after = runs(np.logical_or.reduceat(flags, starts))
    return {
        "ratio": [_short(ratio) for ratio in np.clip(worst, -999, 999).tolist()],
        "alarms": [[a, b - 1] for a, b in zip(first.tolist(), after.tolist(), strict=True)],
    }


def _short(value: float) -> float | None:
    """Return a number of two significant digits, as JSON has it in the fewest characters."""
    if number(value) is None:
        return None
    short = float(f"{value:.2g}")
    return int(short) if short.is_integer() else short


def incidents_data(events: Iterable[IncidentEvent]) -> list[dict[str, Any]]:
    """Return incidents as they were last reported, open ones and then the newest; a hundred."""
    newest: dict[int, Incident] = {event.incident.number: event.incident for event in events}
    ordered = sorted(newest.values(), key=lambda incident: (not incident.open, -incident.number))
    return [_incident(incident) for incident in ordered[:_INCIDENTS]]


def _incident(incident: Incident) -> dict[str, Any]:
    times = (incident.start_time, incident.end_time)
    start, end = (
        seconds_of(time) if time is not None else sample
        for time, sample in zip(times, (incident.start, incident.end), strict=True)
    )
    return {
        "number": incident.number,
        "sentence": incident.sentence,
        "open": incident.open,
        "start": start,
        "end": end,
        "count": len(incident.streams),
        "streams": dict(list(incident.streams.items())[:_NAMED]),
    }
