"""What only a clock can decide: that a time step is over, that a stream is silent.

Nothing here changes a stream. What is decided is handed to the log as entries.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import cache

import numpy as np

from newnormal.alarms.silence import longest_silence
from newnormal.service.engine.items import SILENT
from newnormal.service.engine.streams import KeptStream, KeptStreams
from newnormal.service.log.entries import Closed, Silent

__all__ = ["StreamClock"]

_LEAST_S = 1.0  # that open steps wait by the clock
_PERIODS = 3  # that they wait, where no lateness is given


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
        for stream in streams:
            quiet = now - self._heard.get(stream.id, self._began)
            aligner = stream.aligner
            if aligner.waiting and quiet > _patience(stream):
                self._heard[stream.id] = now
                yield Closed(stream.id, aligner.newest + 1)
            elif stream.is_live and aligner.period and quiet > _longest(aligner.period):
                known = any(each.kind == SILENT for each in list(stream.items.values()))
                if not known and self._told.get(stream.id) != aligner.closed:
                    self._told[stream.id] = aligner.closed
                    yield Silent(stream.id, aligner.closed, self._now())


def _patience(stream: KeptStream) -> float:
    """Return for how many seconds an open step waits."""
    aligner = stream.aligner
    if aligner.lateness is not None:
        return max(aligner.lateness / 1e9, _LEAST_S)
    return max(_PERIODS * (aligner.period or 0) / 1e9, _LEAST_S)


@cache
def _longest(period: int) -> float:
    return longest_silence(np.timedelta64(period, "ns"))[1]
