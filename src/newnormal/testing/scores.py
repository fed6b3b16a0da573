"""A sink of scores in memory, and checks for such sinks."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np

from newnormal.io.sinks.scores import ScoreBatch, ScoreSink, ScoresRefusedError

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
            for each in self.batches
            for point in zip(each.streams, each.times.tolist(), strict=True)
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

    Raises
    ------
    AssertionError
        With what was expected and what was found.

    Examples
    --------
    >>> sink = MemoryScoreSink()
    >>> check_score_sink(lambda: sink, received=lambda: sink.points)
    """
    sink = make()
    _expect(
        isinstance(sink, ScoreSink), "a subclass of newnormal.io.ScoreSink", type(sink).__name__
    )
    _check_facts(sink)
    found = _call("check", sink.check)
    _expect(
        isinstance(found, str) and found != "", "check to return a sentence, or to raise", found
    )
    begin = clock() // _SECOND * _SECOND - 60 * _SECOND
    for what, batch in _batches(begin):
        kept = {each.name: np.array(getattr(batch, each.name)) for each in fields(batch)}
        returned = _call(f"send of {what}", sink.send, batch)
        _expect(returned is None, "send to return None", repr(returned))
        if received is not None:
            there = set(received())
            missing = set(zip(batch.streams, batch.times.tolist(), strict=True)) - there
            _expect(not missing, f"{what} at the receiver when send returns", f"{missing} not")
        try:  # the answer to the first may be lost
            _call(f"send of {what} for a second time", sink.send, replace(batch, attempt=2))
        except AssertionError as error:
            if not isinstance(error.__cause__, ScoresRefusedError):  # it has them already
                raise
        same = all(np.array_equal(kept[name], getattr(batch, name)) for name in kept)
        _expect(same, f"send to leave {what} as it is", "it changed")
    sink.close()
    sink.close()  # a second time does no harm
    if down is not None:
        _check_down(down(), begin)


def _check_facts(sink: ScoreSink) -> None:
    for name in ("secrets", "private"):
        found = getattr(sink, name)
        good = isinstance(found, tuple) and all(isinstance(each, str) for each in found)
        _expect(good, f"{name} to be a tuple of names of options", repr(found))
    _expect(_number(sink.timeout) and sink.timeout > 0, "timeout in seconds", repr(sink.timeout))
    _expect(_number(sink.every) and sink.every >= 0, "every to be seconds or 0", repr(sink.every))
    keep = sink.keep
    _expect(keep is None or (_number(keep) and keep > 0), "keep to be None or seconds", repr(keep))
    most: Any = sink.at_once
    whole = isinstance(most, int) and not isinstance(most, bool) and most > 0
    _expect(whole, "at_once to be a number of scores", repr(sink.at_once))


def _number(found: Any) -> bool:
    return isinstance(found, int | float) and not isinstance(found, bool)


def _check_down(sink: ScoreSink, begin: int) -> None:
    _, batch = next(_batches(begin))
    try:
        sink.send(batch)
    except ScoresRefusedError as error:
        raise AssertionError(
            "expected send to raise SinkDownError if the receiver is not there, found "
            f"ScoresRefusedError: the scores would be lost: {error}"
        ) from error
    except Exception:  # noqa: BLE001 - any other will do
        sink.close()
        return
    raise AssertionError(
        "expected send to raise an error if the receiver is not there, found that it returned: "
        "the scores would be lost"
    )


def _call(what: str, method: Callable[..., Any], *arguments: object) -> Any:
    try:
        return method(*arguments)
    except Exception as error:
        raise AssertionError(
            f"expected {what} to work, found {type(error).__name__}: {error}"
        ) from error


def _batches(begin: int) -> Iterator[tuple[str, ScoreBatch]]:
    """Give batches of every kind, later times later."""

    def batch(second: int, ratios: list[float], *streams: str) -> ScoreBatch:
        count = len(streams)
        own = [streams[:at].count(name) for at, name in enumerate(streams)]
        found = np.array(ratios)
        return ScoreBatch(
            streams,
            begin + (second + np.array(own, np.int64)) * _SECOND,
            2.0 * found,
            np.full(count, 2.0),
            found,
            found >= 1.0,
            found >= 1.0,
        )

    yield "one score", batch(0, [0.5], "press-1")
    yield "scores of one stream", batch(10, [0.25, 0.5, 3.5], *["press-1"] * 3)
    yield (
        "scores of many streams",
        batch(20, [0.5, 1.5, 0.0], "press-1", 'température "1"/\\', "oven/3 <b>"),
    )
    yield "an infinite score", batch(30, [float("inf"), 1e300], "press-1", "press-2")


def _expect(holds: bool, expected: str, found: object) -> None:
    if not holds:
        raise AssertionError(f"expected {expected}, found {found}")
