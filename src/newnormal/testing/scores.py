"""A sink of scores in memory, and checks for such sinks."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np

from newnormal.io.sinks.scores import ScoreBatch, ScoreSink, ScoresRefusedError
from newnormal.testing.expecting import (
    call,
    call_for_none,
    check_connector,
    check_down,
    expect,
    is_number,
)

_SECOND = 1_000_000_000


class MemoryScoreSink(ScoreSink):
    """Keeps the scores that it is given.

    Attributes
    ----------
    batches
        What was sent, in order.
    fails
        What `send` raises instead; None: it takes scores.
    """

    def __init__(self, name: str = "memory", options: Mapping[str, Any] | None = None) -> None:
        super().__init__(name, options or {})
        self.batches: list[ScoreBatch] = []
        self.fails: Exception | None = None

    def send(self, batch: ScoreBatch) -> None:
        """Keep a batch."""
        if self.fails is not None:
            raise self.fails
        self.batches.append(batch)

    def check(self) -> str:
        """Return that there is nothing to try."""
        return "in memory"

    @property
    def points(self) -> list[tuple[str, int]]:
        """The stream and the time in ns of each score, in order."""
        return [
            point
            for batch in self.batches
            for point in zip(batch.streams, batch.times.tolist(), strict=True)
        ]


def check_score_sink(
    make: Callable[[], ScoreSink],
    *,
    received: Callable[[], Collection[tuple[str, int]]] | None = None,
    down: Callable[[], ScoreSink] | None = None,
    clock: Callable[[], int] = time.time_ns,
) -> None:
    """Check that a sink keeps what `newnormal.io.ScoreSink` promises.

    Parameters
    ----------
    make
        Makes the sink. Its receiver is there and takes every score.
    received
        Returns stream and time in ns of the scores that the receiver has; times are whole seconds.
    down
        Makes a sink whose receiver is not there.
    clock
        The time in ns; scores are of the last minute.

    Examples
    --------
    >>> sink = MemoryScoreSink()
    >>> check_score_sink(lambda: sink, received=lambda: sink.points)
    """
    sink = make()
    check_connector(sink, ScoreSink)
    _check_facts(sink)
    begin = clock() // _SECOND * _SECOND - 60 * _SECOND
    for what, batch in _batches(begin):
        kept = {each.name: np.array(getattr(batch, each.name)) for each in fields(batch)}
        call_for_none("send", f"send of {what} to work", sink.send, batch)
        if received is not None:
            there = set(received())
            missing = set(zip(batch.streams, batch.times.tolist(), strict=True)) - there
            expect(not missing, f"{what} at the receiver when send returns", f"{missing} not")
        try:  # the answer to the first may be lost
            expected = f"send of {what} for a second time to work"
            call(expected, sink.send, replace(batch, attempt=2))
        except AssertionError as error:
            if not isinstance(error.__cause__, ScoresRefusedError):  # it has them already
                raise
        same = all(np.array_equal(kept[name], getattr(batch, name)) for name in kept)
        expect(same, f"send to leave {what} as it is", "it changed")
    sink.close()
    sink.close()  # a second time does no harm
    if down is not None:
        sink = down()
        check_down(sink.send, next(_batches(begin))[1], "scores", ScoresRefusedError)
        sink.close()


def _check_facts(sink: ScoreSink) -> None:
    timeout, every, keep = sink.timeout, sink.every, sink.keep
    most: Any = sink.at_once
    expect(is_number(timeout) and timeout > 0, "timeout in seconds", repr(timeout))
    expect(is_number(every) and every >= 0, "every to be seconds or 0", repr(every))
    good = keep is None or (is_number(keep) and keep > 0)
    expect(good, "keep to be None or seconds", repr(keep))
    whole = isinstance(most, int) and is_number(most) and most > 0
    expect(whole, "at_once to be a number of scores", repr(most))


def _batches(begin: int) -> Iterator[tuple[str, ScoreBatch]]:
    """Give batches of every kind, later times later."""

    def batch(second: int, ratios: list[float], *streams: str) -> ScoreBatch:
        earlier = [streams[:row].count(name) for row, name in enumerate(streams)]
        times = begin + (second + np.array(earlier, np.int64)) * _SECOND
        scores, thresholds = 2.0 * np.array(ratios), np.full(len(streams), 2.0)
        high = scores >= thresholds
        channels = (("load", 'température "1"'),) * len(streams)
        known = (np.array([[1.0, 0.5, 1.5, 3.0], [1e9, -np.inf, np.inf, 0.0]]),) * len(streams)
        numbers = scores, thresholds, np.array(ratios), high, high
        return ScoreBatch(streams, times, *numbers, channels, known)

    yield "one score", batch(0, [0.5], "press-1")
    yield "scores of one stream", batch(10, [0.25, 0.5, 3.5], *["press-1"] * 3)
    yield (
        "scores of many streams",
        batch(20, [0.5, 1.5, 0.0], "press-1", 'température "1"/\\', "oven/3 <b>"),
    )
    yield "an infinite score", batch(30, [float("inf"), 1e300], "press-1", "press-2")
