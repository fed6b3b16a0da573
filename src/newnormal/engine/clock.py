"""What only a clock can decide: that a time step is over, that streams are silent.

Nothing here changes a stream. What is decided is handed to the log as entries.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import cache

from newnormal.engine.log.entries import Closed, Silent
from newnormal.engine.outages import RETURNED, longest_quiet, may_meet
from newnormal.engine.streams import StreamRecord, StreamRecords

_LEAST_S = 10.0  # that open steps wait by the clock: connections are made anew within it
_START_S = 30.0  # that they wait after a start: senders that were refused come back one by one
_UNKNOWN_S = 300.0  # that a stream may be quiet whose usual step is not known


class StreamClock:
    """Watches when streams last sent something.

    `now` gives the time in ns, `elapsed` seconds of a clock that never goes back.
    """

    def __init__(
        self, now: Callable[[], int] = time.time_ns, elapsed: Callable[[], float] = time.monotonic
    ) -> None:
        self._now, self._elapsed = now, elapsed
        self._began = elapsed()
        self._active: dict[int, float] = {}  # when each stream last went on
        # By stream: its newest and its closed time when it last went on, and whether it was live.
        self._progress: dict[int, tuple[int, int, bool]] = {}
        # Streams whose silence was handed in: since when, and which outage they were in.
        self._reported: dict[int, tuple[int, str]] = {}
        self._returned: dict[str, float] = {}  # outages in which streams send again, and since when
        # By stream with open steps: its newest time in ns, and in which second it was found.
        self._newest: dict[int, deque[tuple[float, int]]] = {}
        # By stream with held samples: since when the first of them and its newest time are these.
        self._held: dict[int, tuple[float, tuple[int, int]]] = {}

    def mark_active(self, streams: dict[int, StreamRecord]) -> None:
        """Take note that streams may have sent something.

        One that has not gone on sent nothing new: late samples, or the same ones again.
        """
        now = self._elapsed()
        for number, stream in streams.items():
            order = stream.order
            progress = order.newest, order.closed, stream.is_live
            if self._progress.get(number) != progress:
                self._progress[number] = progress
                self._active[number] = now

    def decide(self, streams: StreamRecords) -> Iterator[Closed | Silent]:
        """Give what is to be decided now."""
        now = self._elapsed()
        tables = (self._active, self._reported, self._progress, self._newest, self._held)
        for number in [number for number in list(self._active) if streams.get(number) is None]:
            for table in tables:  # it was removed
                table.pop(number, None)
        outages = [stream.outage for stream in streams]  # which another thread may end now
        opened = {outage.key for outage in outages if outage is not None}
        self._returned = {key: since for key, since in self._returned.items() if key in opened}
        silent = []
        for stream in streams:
            until = self._waited_for(stream, now)
            if until is None:
                until = self._held_for_long(stream, now)
            if until is not None:
                yield Closed(stream.id, until)
            elif self._is_silent(stream, now, 1.0):
                silent.append(stream)
        yield from self._silences(silent, streams, now)

    def _waited_for(self, stream: StreamRecord, now: float) -> int | None:
        """Return the time before which open steps have waited long enough, or None."""
        order = stream.order
        wait = order.wait
        if not order.waiting or wait is None:
            self._newest.pop(stream.id, None)
            return None
        newest = self._newest.setdefault(stream.id, deque())
        if not newest or newest[-1][1] != order.newest:
            newest.append((now, order.newest))
        until = None
        if now - self._began <= _START_S:
            return None
        while newest and now - newest[0][0] > max(wait / 1e9, _LEAST_S):
            until = newest.popleft()[1] + 1
        return until if until is not None and order.oldest < until else None

    def _held_for_long(self, stream: StreamRecord, now: float) -> int | None:
        """Return the time before which samples were held for long enough, or None.

        They are taken though nothing confirmed them: soon where their time is about now, else once
        the stream has been quiet for as long as it may be. What is ahead of this machine's clock
        stays held: by the time that the clock is there, the stream has refuted it or reached it.
        """
        order = stream.order
        first, wait = order.held, order.wait
        if first is None or wait is None:
            self._held.pop(stream.id, None)
            return None
        times = first, order.newest
        since, before = self._held.get(stream.id, (now, None))
        if before != times:
            self._held[stream.id] = now, times
            return None
        step = order.usual_step
        quiet = _UNKNOWN_S if step is None else _longest(step)
        age = (self._now() - first) / 1e9
        enough = max(wait / 1e9, _LEAST_S, quiet if age > quiet else 0.0)
        if age < 0 or now - since <= enough or now - self._began <= _START_S:
            return None
        self._held[stream.id] = now, times  # asked again where that is not applied by then
        return first + 1

    # ------------------------------------------------------------------ silence

    def _is_silent(self, stream: StreamRecord, now: float, part: float) -> bool:
        """Whether a stream has been silent for a part of what is allowed, and is not reported."""
        if not stream.is_live or not stream.order.period or not stream.count:
            return False
        if now - self._since(stream, now) <= part * _longest(stream.order.period):
            return False
        if self._reported.get(stream.id) == _silence(stream):
            return False
        outage = stream.outage
        return stream.silence is None or (outage is not None and outage.key in self._returned)

    def _since(self, stream: StreamRecord, now: float) -> float:
        """Return since when a stream is silent: not from before others of its outage returned."""
        since = self._active.get(stream.id, self._began)
        outage = stream.outage
        if outage is None or outage.body[RETURNED] is None:
            return since
        return max(since, self._returned.setdefault(outage.key, now))

    def _silences(
        self, silent: list[StreamRecord], streams: StreamRecords, now: float
    ) -> Iterator[Silent]:
        """Give the silences, those of streams that stopped at the same moment together."""
        for stream in silent:
            if self._reported.get(stream.id) == _silence(stream):
                continue  # with one before it
            together = [
                other
                for other in streams
                if other is not stream and self._is_silent(other, now, 0.5)
                if self._stopped_together(stream, other, now)
            ]
            self._reported |= {each.id: _silence(each) for each in (stream, *together)}
            others = tuple((other.id, other.order.closed) for other in together)
            yield Silent(stream.id, stream.order.closed, self._now(), others)

    def _stopped_together(self, one: StreamRecord, other: StreamRecord, now: float) -> bool:
        assert one.order.period and other.order.period
        return one.source == other.source and may_meet(
            self._since(one, now),
            _longest(one.order.period),
            self._since(other, now),
            _longest(other.order.period),
        )


def _silence(stream: StreamRecord) -> tuple[int, str]:
    """Return what distinguishes a silence from others of its stream."""
    outage = stream.outage
    return stream.order.closed, "" if outage is None else outage.key


_longest = cache(longest_quiet)
