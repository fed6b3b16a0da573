"""Delivery of scores: a thread for each sink, which reads what was judged from the store."""

import logging
import threading
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from newnormal.engine.items import ALARM
from newnormal.engine.running import Report
from newnormal.engine.store import Store
from newnormal.engine.values import StoredRows
from newnormal.errors import StateError
from newnormal.io.sinks.scores import ScoreBatch, ScoreSink, ScoresRefusedError
from newnormal.service.retry import SECOND, SinkCalls, one_line
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


_SPACE = "scores"  # of the settings: how far each sink is
_ROUND = 5 * SECOND  # how often scores are read
_MOST = 20_000  # scores, and channels of them, of a round
_REFUSING = 60 * SECOND  # how long it is reported that scores were refused

_log = logging.getLogger(__name__)


class ScoreSender:
    """Sends scores to one sink. Used by one thread.

    In each round it reads what was judged since the last one, at most `_MOST` scores, and sends it
    in batches. Before, it writes from where to where the round goes; so after a kill the same
    batches are sent again, and a receiver that has them already loses nothing of others.

    `name`, `make`, `report`, `clock`: as those of `SinkCalls`. `store`: has the samples, and how
    far the sink is. `judged`: the live streams by number.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[], ScoreSink],
        store: Store,
        judged: Mapping[int, JudgedRange],
        report: Report,
        *,
        clock: Callable[[], int],
    ) -> None:
        self.name = name
        self._store, self._judged, self._clock = store, judged, clock
        self._calls = SinkCalls(name, make, report, clock, ScoresRefusedError)
        saved = store.settings.get(_SPACE, name) or {"since": clock(), "sent": {}, "sending": {}}
        self._since: int = saved["since"]
        # Numbers of samples by stream: the next one, and that after the round which is sent now.
        self._next, self._sending = (
            {int(stream): number for stream, number in saved[name].items()}
            for name in ("sent", "sending")
        )
        self._again = bool(self._sending)
        self._waiting: deque[ScoreBatch] = deque()
        self._reader = ScoreReader(store)
        self._looked = (0, 0)  # from when to when no other round is begun
        self._last = 0  # the stream that the last round ended with
        self._refused_at: int | None = None
        self._refusal = ""
        self._unreadable: set[int] = set()
        self._stopping = threading.Event()
        self.sent = self.refused = self.left_out = 0

    def deliver(self) -> int:
        """Send what there is; return when to look again, in ns."""
        now = self._clock()
        paused = self._calls.paused_until(now)
        if paused is not None:
            return paused
        begin, end = self._looked
        if not self._waiting and begin <= now < end:
            return end
        if not self._judged:  # nothing is live, or the log is not yet applied
            return now + _ROUND
        try:
            sink = self._calls.sink
            if not self._waiting:
                self._looked = now, now + _ROUND
                self._plan(sink, now)
            while self._waiting:
                if self._stopping.is_set():
                    return now
                self._send(sink)
            self._end_round()
            self._report(now)
        except Exception as error:  # noqa: BLE001 - a sink that others wrote may raise anything
            return self._calls.pause(error)
        return self._looked[1]

    def step(self) -> float:
        """Send what there is; return how long to wait in s."""
        return (self.deliver() - self._clock()) / SECOND

    def stop(self) -> None:
        """Send no more; from any thread."""
        self._stopping.set()

    def close(self) -> None:
        """Close the sink; does not wait for it."""
        self._calls.close()

    def _plan(self, sink: ScoreSink, now: int) -> None:
        """Read what is to be sent, and write from where to where it goes."""
        keep = sink.keep
        oldest = self._since if keep is None else max(self._since, now - int(keep * SECOND))
        every = int(sink.every * SECOND)
        over = None if self._again else now
        read: list[ScorePoints] = []
        total, until = 0, dict[int, int]()
        for number, judged, upto in list(self._due()):
            if total >= _MOST:
                self._looked = 0, 0  # there is more: no wait
                break
            first = self._next.get(number, judged.first)
            try:
                points, begin, end = self._reader.read(
                    number,
                    judged,
                    first,
                    upto,
                    oldest=oldest,
                    every=every,
                    over=over,
                    wide=sink.channels,
                )
            except StateError as error:
                self._not_read(number, judged.name, error)
                continue
            self._last = number
            if number in self._next:  # else nothing was sent before
                self.left_out += begin - first
            if end > first:
                until[number] = end
            if len(points.times):
                read.append(points)
                total += points.size
        if self._again:
            self._looked = 0, 0  # then follows what came since
        self._sending, self._again = until, False
        if read:
            self._save()
            self._waiting.extend(batches_of(read, sink.at_once))

    def _due(self) -> Iterator[tuple[int, JudgedRange, int]]:
        """Give streams that have something to send, and up to which sample."""
        if self._again:  # what a round before a kill had
            for number, end in self._sending.items():
                judged = self._judged.get(number)
                if judged is not None:
                    yield number, judged, end
            return
        numbers = sorted(self._judged)
        start = bisect_right(numbers, self._last)
        for number in (*numbers[start:], *numbers[:start]):
            judged = self._judged.get(number)
            if judged is not None and judged.end > self._next.get(number, judged.first):
                yield number, judged, judged.end

    def _not_read(self, number: int, name: str, error: StateError) -> None:
        """Go on with other streams: it is removed just now, or its samples are damaged."""
        if number not in self._unreadable:
            self._unreadable.add(number)
            _log.info("sink %s: scores of %s were not read: %s", self.name, name, one_line(error))

    def _send(self, sink: ScoreSink) -> None:
        """Send the next batch, or leave it out if it waited for too long."""
        batch = self._waiting[0]
        keep = sink.keep
        if keep is not None and int(batch.times.max()) < self._clock() - int(keep * SECOND):
            self.left_out += len(batch)
        else:
            self._waiting[0] = replace(batch, attempt=batch.attempt + 1)  # the next time
            try:
                self._calls.call(lambda: sink.send(batch))
                self.sent += len(batch)
            except ScoresRefusedError as error:
                count = min(max(error.count, 0), len(batch))
                self.refused += count
                self.sent += len(batch) - count
                self._refused_at, self._refusal = self._clock(), one_line(error)
        self._waiting.popleft()

    def _end_round(self) -> None:
        """Take note that all of a round was sent."""
        if not self._sending:
            return
        self._next.update(self._sending)
        self._sending = {}
        self._save()

    def _save(self) -> None:
        """Write how far the sink is. A power failure may undo it: then scores are sent again."""
        for number in set(self._next) - set(self._judged):  # removed streams
            del self._next[number]
            self._reader.forget(number)
        value = {"since": self._since, "sent": self._next, "sending": self._sending}
        self._store.settings.put(_SPACE, self.name, value, sync=False)

    def _report(self, now: int) -> None:
        if self._calls.failures:
            return  # nothing was sent: it is not known whether it is up again
        since = self._refused_at
        if since is not None and 0 <= now - since < _REFUSING:
            self._calls.report(False, f"scores are refused: {self._refusal}")
        else:
            self._calls.report(True, "")

    def state(self) -> dict[str, Any]:
        """Return how it is, as `SinkCalls.state`, and how many scores were sent, refused, ..."""
        return {**self._calls.state(), **self.counts()}

    def counts(self) -> dict[str, int]:
        """Return how many scores were `sent`, `refused`, `left_out` as too old, and are `waiting`.

        What waits is counted in samples.
        """
        waiting = sum(
            max(0, judged.end - self._next.get(number, judged.first))
            for number, judged in list(self._judged.items())
        )
        return {
            "sent": self.sent,
            "refused": self.refused,
            "left_out": self.left_out,
            "waiting": waiting,
        }
