"""The data of a fleet's page: every stream in brief, those that need attention in full.

The numbers of a stream have several levels of detail, as many as there is room for. The first
blocks are levels that cover everything, from coarse to fine; blocks of every sample around alarms
and changes follow, where the finest level is not that already. A point of a level stands for a bin
of consecutive samples and lies at the first of them. It has the extremes of each channel and of its
range, and the highest ratios, so that neither a spike nor a crossing is lost.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from newnormal.metrics.inputs import runs
from newnormal.plots.overview import needs_attention
from newnormal.plots.thinning import bin_starts, extremes, means, ratios_of, starts_every
from newnormal.reports.packing import Packer, base_of, packed, text_of
from newnormal.reports.stream import (
    Axis,
    brief_data,
    channels_data,
    number,
    seconds_of,
    stream_data,
)
from newnormal.types import Floats, Incident, IncidentEvent, Timeline

COARSEST = 2_000  # points of the first level: what fills a screen
_FEWEST = 200  # points, below which channels are left out instead
_FINER = 8  # how much finer the next level is
_NEAR = 4  # samples a point, below which a level is not worth its bytes beside every sample
_DETAILS = 0.4  # of the room that coarse levels leave: for blocks of every sample, at most
_WORTH = 1.5  # how much finer the last level is at least
_AROUND = 150  # samples on both sides of an alarm
_LONGEST = 2_000  # samples of an alarm of which every one is kept

_Columns = dict[str, tuple[NDArray[Any], float]]


class Blocks:
    """What the blocks of a stream are cut from.

    `axis`: of the stream. `channels`: how many channels are shown, those concerned first.
    """

    def __init__(self, axis: Axis, channels: int) -> None:
        self.axis = axis
        self.timeline: Timeline = axis.timeline
        self.order = self.timeline.order[:channels].tolist()

    @cached_property
    def _ratios(self) -> Floats:
        return ratios_of(self.timeline.verdicts)

    @cached_property
    def _bases(self) -> list[float]:
        return [base_of(self.timeline.values[:, channel]) for channel in self.order]

    def bytes_a_point(self, per: int) -> int:
        """Return how many bytes a point has, before they are deflated.

        Of single samples those of columns that hardly deflate: how far a range reaches is mostly
        the same, and few are beyond their limits.
        """
        verdicts = self.timeline.verdicts
        expects, judged = verdicts.expected is not None, verdicts.channel_ratios is not None
        ranges = self.timeline.ranges is not None
        columns = 1 + expects if per == 1 else 2 + expects + judged + 2 * ranges
        return 12 + 4 * len(self.order) * columns

    def cut(self, rows: slice, per: int, *, detail: bool) -> tuple[dict[str, Any], _Columns]:
        """Return some rows as a block: its description without columns, and the columns."""
        x = self.axis.x[rows]
        block = {
            "per": per,
            "start": self.axis.at(self.timeline.first + rows.start),
            "end": self.axis.at(self.timeline.first + rows.stop - 1),
            "points": -(-len(x) // per),
            "detail": detail,
        }
        return block, dict(self._columns(rows, per, x))

    def _columns(
        self, rows: slice, per: int, x: Floats
    ) -> Iterator[tuple[str, tuple[NDArray[Any], float]]]:
        verdicts, values = self.timeline.verdicts, self.timeline.values
        starts = starts_every(len(x), per)
        yield "x", (x[starts].astype("<f8"), 0.0)

        def highest(numbers: Any) -> tuple[NDArray[Any], float]:
            return packed(extremes(numbers, starts)[1], 0.0), 0.0

        yield "ratio", highest(self._ratios[rows])
        for nth, channel in enumerate(self.order):
            base = self._bases[nth]

            def kept(numbers: Floats, base: float = base) -> tuple[NDArray[Any], float]:
                return packed(numbers, base), base

            samples = values[rows, channel]
            if per == 1:
                yield f"low:{nth}", kept(samples)
            else:
                low, high = extremes(samples, starts)
                yield f"low:{nth}", kept(low)
                yield f"high:{nth}", kept(high)
            if verdicts.expected is None:
                continue
            expected = verdicts.expected[rows, channel]
            yield f"expected:{nth}", kept(means(expected, starts) if per > 1 else expected)
            if verdicts.channel_ratios is not None:
                ratios = verdicts.channel_ratios[rows, channel]
                yield f"ratio:{nth}", highest(np.where(ratios >= 1, ratios, 0))
            if self.timeline.ranges is None:
                continue
            lows, highs = (edge[rows, channel] for edge in self.timeline.ranges)
            if per > 1:
                yield f"least:{nth}", kept(extremes(lows, starts)[0])
                yield f"most:{nth}", kept(extremes(highs, starts)[1])
            else:
                yield f"below:{nth}", (packed(expected - lows, 0.0), 0.0)
                yield f"above:{nth}", (packed(highs - expected, 0.0), 0.0)


def pack_blocks(axis: Axis, room: float) -> tuple[Packer, int]:
    """Return the blocks of a stream that there is room for, and how many channels they show.

    Where many channels would leave room for few points, those that are concerned least are left
    out: the coarsest level has at least 200 points, unless there are fewer samples.

    `axis`: of the stream. `room`: bytes of the page.
    """
    length = len(axis.timeline)
    channels = len(axis.timeline.channels)
    if not length:
        return Packer(room), channels
    blocks = Blocks(axis, channels)
    fewest = min(_FEWEST, length)
    while channels and _most_points(blocks, room, fewest) < fewest:
        channels -= max(channels // 8, 1)
        blocks = Blocks(axis, channels)
    packer = Packer(room)
    if channels and _add_coarsest(packer, blocks) and not _add_levels(packer, blocks):
        ratio = packer.ratio
        places = _add_details(packer, blocks, _places(axis.timeline), packer.left * (1 - _DETAILS))
        packer.ratio = ratio  # of a level, as the last one is
        _add_last(packer, blocks)
        _add_details(packer, blocks, places, 0.0)
    packer.blocks.sort(key=lambda block: block["detail"])
    return packer, channels if packer.blocks else 0


def _most_points(blocks: Blocks, room: float, fewest: int) -> int:
    """Return how many points a level may have, if nothing became smaller by deflating."""
    per = -(-len(blocks.timeline) // fewest)
    described = 40 * (3 + 5 * len(blocks.order)) + 100
    return int((room - described) * 3 / 4 / blocks.bytes_a_point(per))


def _add_coarsest(packer: Packer, blocks: Blocks) -> bool:
    """Add the coarsest level, with fewer points where room is short; return whether it had room."""
    length = len(blocks.timeline)
    fewest = min(_FEWEST, length)
    points = min(COARSEST, length, max(_most_points(blocks, packer.left, COARSEST), fewest))
    while not _level(packer, blocks, points):
        if points <= fewest:
            return False
        points = max(points * 2 // 3, fewest)
    return True


def _add_levels(packer: Packer, blocks: Blocks) -> bool:
    """Add finer levels, each by the same factor; return whether one of every sample had room."""
    while (per := packer.blocks[-1]["per"]) > 1:
        finer = _next(packer, blocks, per)
        points = -(-len(blocks.timeline) // finer)
        # A finer level deflates as the one before it, or better.
        spared = 0.0 if finer == 1 else packer.left * _DETAILS
        if 0.8 * points > _room_for(packer, blocks, finer, spared):
            return False
        if not _level(packer, blocks, points, spared):
            return False
    return True


def _next(packer: Packer, blocks: Blocks, per: int) -> int:
    """Return the samples a point of the next level: each by itself, if that is not far and fits."""
    if per <= _FINER * _NEAR and len(blocks.timeline) < _room_for(packer, blocks, 1, 0.0):
        return 1
    return max(per // _FINER, 1)


def _add_last(packer: Packer, blocks: Blocks) -> None:
    """Add one more level, as fine as there is room for, if that is worth it."""
    length = len(blocks.timeline)
    coarse = min(block["per"] for block in packer.blocks if not block["detail"])
    points = int(0.95 * _room_for(packer, blocks, coarse, 0.0))
    if points >= _WORTH * -(-length // coarse):
        _level(packer, blocks, min(points, length))


def _room_for(packer: Packer, blocks: Blocks, per: int, spared: float) -> float:
    """Return how many points there is room for, if they deflate as the newest block did."""
    size = packer.ratio * 4 / 3 * blocks.bytes_a_point(per)
    return (packer.left - spared) / size


def _level(packer: Packer, blocks: Blocks, points: int, spare: float = 0.0) -> bool:
    length = len(blocks.timeline)
    per = -(-length // points)
    return packer.add(*blocks.cut(slice(0, length), per, detail=False), spare)


def _add_details(packer: Packer, blocks: Blocks, places: list[slice], spare: float) -> list[slice]:
    """Add every sample of some places while room lasts; return the places that are left."""
    for done, rows in enumerate(places):
        if not packer.add(*blocks.cut(rows, 1, detail=True), spare):
            return places[done:]
    return []


def _places(timeline: Timeline) -> list[slice]:
    """Return where every sample matters: around open alarms first, then the largest; also changes.

    Of a long alarm, around its start and its peak.
    """
    ranked: list[tuple[bool, float, int, int, int]] = []
    for alarm in timeline.alarms:
        rank = (not alarm.open, -alarm.peak.ratio, -alarm.number)
        stop = min(alarm.end + 1, alarm.start + _LONGEST)
        ranked.append((*rank, alarm.start, stop))
        if alarm.peak.sample >= stop:
            ranked.append((*rank, alarm.peak.sample, alarm.peak.sample + 1))
    for span in timeline.changes:
        rank = (not span.change.open, -span.change.distance, -span.change.number)
        ranked += [(*rank, sample, sample + 1) for sample, _ in span.steps]
    places: list[slice] = []
    for *_, start, stop in sorted(ranked):
        first = max(start - timeline.first - _AROUND, 0)
        last = min(stop - timeline.first + _AROUND, len(timeline))
        inside = any(place.start <= first and last <= place.stop for place in places)
        if first < last and not inside:
            places.append(slice(first, last))
    return places


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

    `axes`: of the streams, those that need attention first: they get their pictures first. `room`:
    bytes of the page.
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
    if not (length := len(timeline)):
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
