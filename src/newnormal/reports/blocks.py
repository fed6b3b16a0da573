"""The numbers of a stream at several levels of detail, as many as there is room for.

The first levels cover everything, from coarse to fine; blocks of every sample around alarms and
changes follow, where the finest level is not that already. A point of a level stands for a bucket
of consecutive samples and lies at the first of them. It has the extremes of each channel, and score
and threshold of the sample that is worst, so that neither a spike nor a crossing is lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from newnormal.plots.thinning import excess, extremes, means
from newnormal.reports.axis import Axis
from newnormal.reports.packing import Packer, base_of, packed
from newnormal.reports.thinning import bucket_starts, worst
from newnormal.types import Floats, Timeline

__all__ = ["COARSEST", "Blocks", "pack_blocks"]

COARSEST = 2_000  # points of the first level: what fills a screen
_FEWEST = 200  # points, below which channels are left out instead
_FINER = 8  # how much finer the next level is
_DETAILS = 0.35  # of the room that levels leave for blocks of every sample
_AROUND = 150  # samples on both sides of an alarm
_LONGEST = 2_000  # samples of an alarm of which every one is kept

_Columns = dict[str, tuple[NDArray[Any], float]]


class Blocks:
    """What the blocks of a stream are cut from.

    Parameters
    ----------
    axis
        Of the stream.
    channels
        How many channels are shown, those concerned first.
    """

    def __init__(self, axis: Axis, channels: int) -> None:
        self.axis = axis
        self.timeline: Timeline = axis.timeline
        self.order = self.timeline.order[:channels].tolist()

    @cached_property
    def _badness(self) -> Floats:
        verdicts = self.timeline.verdicts
        return excess(verdicts.scores, verdicts.thresholds)

    @cached_property
    def _bases(self) -> list[float]:
        return [base_of(self.timeline.values[:, channel]) for channel in self.order]

    def margin(self, channel: int) -> float | None:
        """Return how far from what is expected nearly all values lie; None if that is not known."""
        margins = self.timeline.observed.margins
        found = None if margins is None else float(margins[channel])
        return found if found is not None and np.isfinite(found) else None

    def bytes_a_point(self, per: int) -> int:
        """Return how many bytes a point has, before they are deflated."""
        expects = 1 if self.timeline.verdicts.expected is not None else 0
        ranges = expects * (self.timeline.observed.margins is not None)
        return 16 + 4 * len(self.order) * ((1 if per == 1 else 2) + expects + 2 * ranges)

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
        starts = bucket_starts(len(x), per)
        yield "x", (x[starts].astype("<f8"), 0.0)
        at = worst(self._badness[rows], per)
        for name, column in (("score", verdicts.scores), ("threshold", verdicts.thresholds)):
            yield name, (packed(column[rows][at], 0.0), 0.0)
        for number, channel in enumerate(self.order):
            base = self._bases[number]

            def kept(numbers: Floats, base: float = base) -> tuple[NDArray[Any], float]:
                return packed(numbers, base), base

            own = values[rows, channel]
            if per == 1:
                yield f"low:{number}", kept(own)
            else:
                low, high = extremes(own, starts)
                yield f"low:{number}", kept(low)
                yield f"high:{number}", kept(high)
            if verdicts.expected is None:
                continue
            expected = verdicts.expected[rows, channel]
            yield f"expected:{number}", kept(means(expected, starts) if per > 1 else expected)
            margin = self.margin(channel)
            if margin is not None:
                least, most = extremes(expected, starts)
                yield f"least:{number}", kept(least - margin)
                yield f"most:{number}", kept(most + margin)


def pack_blocks(axis: Axis, room: float) -> tuple[Packer, int]:
    """Return the blocks of a stream that there is room for, and how many channels they show.

    Where many channels would leave room for few points, those that are concerned least are left
    out: the coarsest level has at least 200 points, unless there are fewer samples.

    Parameters
    ----------
    axis
        Of the stream.
    room
        Bytes of the page.
    """
    channels = len(axis.timeline.channels)
    while True:
        packer = Packer(room)
        blocks = Blocks(axis, channels)
        if not len(axis.timeline) or _add_levels(packer, blocks):
            if packer.blocks and packer.blocks[-1]["per"] > 1:
                _add_details(packer, blocks)
            return packer, channels
        if channels <= 1:
            return packer, 0
        channels //= 2


def _add_levels(packer: Packer, blocks: Blocks) -> bool:
    """Add levels that cover everything, coarse to fine; return whether the first one had room."""
    length = len(blocks.timeline)
    points = min(COARSEST, length)
    while not _level(packer, blocks, points):
        if points <= min(_FEWEST, length):
            return False
        points = max(points * 2 // 3, min(_FEWEST, length))
    reserve = packer.left * _DETAILS
    while points < length:
        wanted = points * _FINER if points * _FINER < length else length
        most = packer.left / (packer.ratio * 4 / 3 * blocks.bytes_a_point(wanted // length))
        if wanted == length and most > 0.7 * length and _level(packer, blocks, length):
            return True  # every sample: there are no details then
        spared = int((packer.left - reserve) / packer.left * most * 0.9) if packer.left > 0 else 0
        finer = min(wanted, spared)
        if finer < 2 * points or not _level(packer, blocks, finer):
            return True
        points = finer
        if finer < wanted:
            return True
    return True


def _level(packer: Packer, blocks: Blocks, points: int) -> bool:
    length = len(blocks.timeline)
    per = -(-length // points)
    return packer.add(*blocks.cut(slice(0, length), per, detail=False))


def _add_details(packer: Packer, blocks: Blocks) -> None:
    """Add every sample around alarms and changes, in the order of `_places`, while room lasts."""
    first, length = blocks.timeline.first, len(blocks.timeline)
    done: list[slice] = []
    for start, stop in _places(blocks.timeline):
        rows = slice(max(start - first - _AROUND, 0), min(stop - first + _AROUND, length))
        if rows.start >= rows.stop:
            continue
        if any(each.start <= rows.start and rows.stop <= each.stop for each in done):
            continue
        if not packer.add(*blocks.cut(rows, 1, detail=True)):
            return
        done.append(rows)


def _places(timeline: Timeline) -> list[tuple[int, int]]:
    """Return where every sample matters: open alarms first, then the largest; also changes.

    Of a long alarm, its start and its peak.
    """
    found: list[tuple[bool, float, int, tuple[int, int]]] = []
    for alarm in timeline.alarms:
        rank = (not alarm.open, -alarm.peak.ratio)
        stop = min(alarm.end + 1, alarm.start + _LONGEST)
        found.append((*rank, -alarm.number, (alarm.start, stop)))
        if alarm.peak.sample >= stop:
            found.append((*rank, -alarm.number, (alarm.peak.sample, alarm.peak.sample + 1)))
    for span in timeline.changes:
        rank = (not span.change.open, -span.change.distance)
        for sample, _ in span.steps:
            found.append((*rank, -span.change.number, (sample, sample + 1)))
    return [each[-1] for each in sorted(found)]
