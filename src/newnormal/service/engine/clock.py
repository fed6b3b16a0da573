"""What only a clock can decide: that a time step is over, that a stream is silent.

Nothing here changes a stream. What is decided is handed to the log as entries.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import cache

import numpy as np

from newnormal.alarms.silence import longest_silence
from newnormal.service.engine.items import SILENT
from newnormal.service.engine.streams import KeptStream, KeptStreams
from newnormal.service.log.entries import Closed, Silent

__all__ = ["StreamClock"]

_LEAST_S = 1.0  # that open steps wait by the clock


class StreamClock:
    """Watches when streams last sent something.

    Parameters
    ----------
    now
        Gives the time in ns.
    elapsed
        Gives seconds of a clock that never goes back.
    """

    def __init__(
        self, now: Callable[[], int] = time.time_ns, elapsed: Callable[[], float] = time.monotonic
    ) -> None:
        self._now, self._elapsed = now, elapsed
        self._began = elapsed()
        self._heard: dict[int, float] = {}
        self._told: dict[int, int] = {}  # streams whose silence was handed in, and since when
        # By stream with open steps: its newest time in ns, and in which second it was found.
        self._newest: dict[int, deque[tuple[float, int]]] = {}

    def heard(self, streams: dict[int, KeptStream]) -> None:
        """Take note that streams sent something."""
        now = self._elapsed()
        for number in streams:
            self._heard[number] = now

    def decide(self, streams: KeptStreams) -> Iterator[Closed | Silent]:
        """Give what is to be decided now."""
        now = self._elapsed()
        for number in [each for each in list(self._heard) if streams.get(each) is None]:
            self._heard.pop(number, None)  # it was removed
            self._told.pop(number, None)
            self._newest.pop(number, None)
        for stream in streams:
            quiet = now - self._heard.get(stream.id, self._began)
            aligner = stream.aligner
            until = self._waited_for(stream, now)
            if until is not None:
                yield Closed(stream.id, until)
            elif stream.is_live and aligner.period and quiet > _longest(aligner.period):
                known = any(each.kind == SILENT for each in list(stream.items.values()))
                if not known and self._told.get(stream.id) != aligner.closed:
                    self._told[stream.id] = aligner.closed
                    yield Silent(stream.id, aligner.closed, self._now())

    def _waited_for(self, stream: KeptStream, now: float) -> int | None:
        """Return the time before which open steps have waited long enough, or None."""
        aligner = stream.aligner
        wait = aligner.wait
        if not aligner.waiting or wait is None:
            self._newest.pop(stream.id, None)
            return None
        newest = self._newest.setdefault(stream.id, deque())
        if not newest or newest[-1][1] != aligner.newest:
            newest.append((now, aligner.newest))
        until = None
        while newest and now - newest[0][0] > max(wait / 1e9, _LEAST_S):
            until = newest.popleft()[1] + 1
        return until if until is not None and aligner.oldest < until else None


@cache
def _longest(period: int) -> float:
    return longest_silence(np.timedelta64(period, "ns"))[1]
