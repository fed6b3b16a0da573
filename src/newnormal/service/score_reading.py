"""Scores of samples as the store has them, thinned for a sink."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from newnormal.engine.items import ALARM
from newnormal.engine.store import Store
from newnormal.engine.values import StoredRows
from newnormal.errors import StateError
from newnormal.io.sinks.scores import ScoreBatch
from newnormal.types import Bools, Floats, Ints

_ROWS, _WIDE_ROWS = 10_000, 1_000  # samples of a stream that are read at once; with channels
_ALARMS = 100  # of a stream, the newest, that are looked at
_LAST = 2**63 - 1  # ns


class JudgedRange(NamedTuple):
    """How far a live stream is judged."""

    name: str
    first: int  # the number of the first sample that its model has judged
    end: int  # the number of its next sample
    alarms: tuple[int, tuple[str, ...]]  # is another one when an alarm has opened or ended


def thinned(times: Ints, ratios: Floats, every: int) -> tuple[Ints, Ints]:
    """Return where each stretch of `every` ns begins, and the row with its highest ratio.

    Stretches begin at multiples of `every` since 1970; 0: every row is one.

    >>> times, ratios = np.array([0, 4, 10, 11, 19]), np.array([0.1, 0.2, 0.9, 0.3, 0.4])
    >>> [each.tolist() for each in thinned(times, ratios, 10)]
    [[0, 2], [1, 2]]
    """
    if not every or not len(times):
        rows = np.arange(len(times))
        return rows, rows
    number = times // every
    starts = np.flatnonzero(np.diff(number, prepend=number[0] - 1))
    if len(starts) == len(times):
        return starts, starts
    order = np.lexsort((-ratios, number))  # of equal ones the first
    return starts, order[starts]


class ScorePoints(NamedTuple):
    """Scores of one stream."""

    name: str
    times: Ints
    scores: Floats
    thresholds: Floats
    ratios: Floats
    anomalous: Bools
    alarms: Bools
    channels: tuple[str, ...]
    channel_values: Floats  # (N, C, 4)

    @property
    def size(self) -> int:
        """How many scores, and channels of them, there are."""
        return len(self.times) * (1 + len(self.channels))


class ScoreReader:
    """Reads the scores of streams from the store, for one sink."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._alarms: dict[int, tuple[Any, list[tuple[int, int]]]] = {}

    def forget(self, number: int) -> None:
        """Forget a stream that was removed."""
        self._alarms.pop(number, None)

    def read(
        self,
        number: int,
        judged: JudgedRange,
        first: int,
        upto: int,
        *,
        oldest: int,
        every: int,
        over: int | None,
        wide: bool,
    ) -> tuple[ScorePoints, int, int]:
        """Return scores of a stream, and from which sample up to which one they go.

        `first`, `upto`: from which sample up to which one, which is not included. `oldest`: the
        time in ns of the oldest sample to take. `every`: ns that a score stands for; 0: one sample.
        `over`: stretches of time that end after this time may get more samples, and are left for
        later; None: none will. `wide`: whether to read what is known of each channel.
        """
        rows = self._rows(number, first, upto, oldest, wide)
        end = rows.first + len(rows)
        ratios = np.where(np.isnan(rows.ratios), -np.inf, rows.ratios)
        starts, worst = thinned(rows.times, ratios, every)
        if every and over is not None and len(starts):
            grows = (int(rows.times[-1]) // every + 1) * every > over
            if (end == upto and grows) or (end < upto and len(starts) > 1):
                end = rows.first + int(starts[-1])
                starts, worst = starts[:-1], worst[:-1]
        anomalous = np.logical_or.reduceat(rows.anomalous[: end - rows.first], starts)
        # Samples before the model, and missing ones, have no score.
        scored = ratios[worst] > -np.inf
        worst, anomalous = worst[scored], anomalous[scored]
        times, expected = rows.times[worst], rows.expected[worst]
        low, high = expected - rows.below[worst], expected + rows.above[worst]
        points = ScorePoints(
            judged.name,
            times,
            rows.scores[worst],
            rows.thresholds[worst],
            ratios[worst],
            anomalous,
            self._in_alarm(number, judged, times),
            rows.channels,
            np.stack([expected, low, high, rows.channel_ratios[worst]], axis=2),
        )
        return points, rows.first, end

    def _rows(self, number: int, first: int, upto: int, oldest: int, wide: bool) -> StoredRows:
        """Return samples from `first` on that are kept and not too old, at most so many."""
        most = _WIDE_ROWS if wide else _ROWS

        def rows(begin: int, end: int) -> StoredRows:
            return self._store.samples.rows(number, begin, end - 1, None if wide else ())

        try:
            samples = rows(first, min(upto, first + most))
        except StateError:
            kept = self._store.samples.first_kept(number)
            if kept <= first:
                raise
            first = min(kept, upto)
            samples = rows(first, min(upto, first + most))
        if not len(samples) or samples.times[0] >= oldest:
            return samples
        low, high = first + 1, upto
        while low < high:
            middle = (low + high) // 2
            if rows(middle, middle + 1).times[0] < oldest:
                low = middle + 1
            else:
                high = middle
        return rows(low, min(upto, low + most))

    def _in_alarm(self, number: int, judged: JudgedRange, times: Ints) -> Bools:
        """Return at which of the times an alarm was open."""
        in_alarm = np.zeros(len(times), np.bool_)
        if not judged.alarms[0]:
            return in_alarm
        cached = self._alarms.get(number)
        if cached is None or cached[0] != judged.alarms:
            items = self._store.items.page(kinds=(ALARM,), stream=number, limit=_ALARMS).items
            spans = [(item.opened, _LAST if item.ended is None else item.ended) for item in items]
            self._alarms[number] = cached = judged.alarms, spans
        for opened, ended in cached[1]:
            in_alarm |= (opened <= times) & (times <= ended)
        return in_alarm


def batches_of(several: list[ScorePoints], most: int) -> Iterator[ScoreBatch]:
    """Give the scores of streams in batches of at most so many."""
    names = tuple(points.name for points in several for _ in points.times)
    columns: list[Any] = [  # of those of one value a score
        np.concatenate(arrays) for arrays in zip(*(points[1:-2] for points in several), strict=True)
    ]
    channels = tuple(points.channels for points in several for _ in points.times)
    values = tuple(row for points in several for row in points.channel_values)
    whole = replace(ScoreBatch(names, *columns), channels=channels, channel_values=values)
    for begin in range(0, len(whole), max(most, 1)):
        yield whole.part(begin, begin + max(most, 1))
