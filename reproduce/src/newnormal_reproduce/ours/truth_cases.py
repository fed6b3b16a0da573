"""Plant faults with known truth, and compare what `Detector` reports with it, case by case."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from newnormal import Alarm, Detector, Event
from newnormal.tabular import Table
from newnormal_reproduce.engine.arrays import Floats, Ints, Times
from newnormal_reproduce.ours.obvious import accept_newest
from newnormal_reproduce.ours.truth_streams import (
    DIRECTED,
    QUIET_DAYS,
    SHAPES,
    STUCK,
    Fault,
    Place,
    Stream,
    draw,
    stream_of,
)

_TAIL = 120  # samples that are run after the last fault
_USUAL = 500  # quiet samples over which the usual error is taken
_FAR = 2.0  # deviations from normal, from which on a sample's expectation counts
_CLOSES = 15  # samples after the end of a fault, in which its alarm has to be closed
_SETTLES = 30  # samples after it, in which a change has to be over
_MISSING = 0.2  # share of values
_GAP = 7_200  # seconds without a sample
_STILL = re.compile(r"stand|still|stuck|does not move", re.IGNORECASE)
_LASTED = re.compile(r" for ([\d.]+) (d|h|min|samples?|s)\b")
_SECONDS = {"d": 86_400, "h": 3_600, "min": 60, "s": 1}


class Score(NamedTuple):
    """One figure of one case: 1 or 0 of a share, a size of a median."""

    row: str
    place: Place
    value: float


@dataclass
class Told:
    """Everything a detector reported of a run."""

    events: list[Event]
    expected: Floats
    changes: Ints

    def numbers(self, channel: str, fault: Fault, kinds: tuple[str, ...]) -> list[int]:
        """Return the alarms that events during a fault name a channel for, oldest first."""
        return [
            event.alarm.number
            for event in self.events
            if event.kind in kinds
            and fault.start <= event.sample <= fault.last
            and event.alarm is not None
            and channel in {part.channel for part in event.alarm.evidence}
        ]

    def closing(self, number: int) -> Event | None:
        """Return the event that closed an alarm."""
        events = (event for event in self.events if event.kind == "closed")
        return next((each for each in events if each.alarm and each.alarm.number == number), None)


_Break = Callable[[Detector, list[Event]], Detector]
_NAMING = ("opened", "updated")


def follow(
    detector: Detector, values: Floats, times: Times, breaks: Mapping[int, _Break] | None = None
) -> Told:
    """Run a detector over values, with something done to it before some samples."""
    events: list[Event] = []
    expected, changes, edges = [], [], sorted({0, *(breaks or {}), len(values)})
    for start, stop in zip(edges, edges[1:], strict=False):
        if breaks and start in breaks:
            detector = breaks[start](detector, events)
        verdicts = detector.run(values[start:stop], times=times[start:stop], flush=False)
        assert verdicts.expected is not None and verdicts.changes is not None
        events += detector.take_events()
        expected.append(verdicts.expected)
        changes.append(verdicts.changes)
    return Told(events, np.concatenate(expected), np.concatenate(changes))


@cache
def _stream(place: Place, missing: float = 0.0) -> Stream:
    return stream_of(place, missing=missing)


@cache
def _fitted(place: Place, missing: float = 0.0) -> Detector:
    stream = _stream(place, missing)
    history = Table(stream.history, stream.names, stream.history_times)
    return Detector(seed=place.seed).fit(history)


def forget_fits() -> None:
    """Free the streams and detectors that are kept for further cases of the same place."""
    _stream.cache_clear()
    _fitted.cache_clear()
    _quiet_run.cache_clear()


def scores_of(place: Place, situation: str, draws: int = 1) -> list[Score]:
    """Run a number of cases of a situation at a place, and return the scores of its rows."""
    found: list[Score] = []
    for nth in range(1 if situation == "quiet" else draws):
        seeds = [*place[1:], SITUATIONS.index(situation), nth, len(place.kind)]
        scores = _SCORERS[situation](place, np.random.default_rng(seeds))
        found += [Score(row, place, float(value)) for row, value in scores]
    return found


_Rows = Iterator[tuple[str, float]]


def _run(place: Place, *faults: Fault, tail: int = _TAIL) -> tuple[Floats, Told]:
    stream = _stream(place)
    end = max(fault.last for fault in faults) + 1 + tail
    values = stream.with_faults(*faults)[:end]
    return values, follow(_fitted(place).reset(), values, stream.times[:end])


# ---------------------------------------------------------------------- one fault


def _one(place: Place, rng: np.random.Generator) -> _Rows:
    stream = _stream(place)
    fault = draw(rng, stream, int(rng.integers(600, 1_200)), SHAPES)
    values, told = _run(place, fault)
    name = stream.names[fault.channel]
    numbers = told.numbers(name, fault, _NAMING)
    yield "found", bool(numbers)
    yield from _healthy(stream, told, fault)
    if fault.shape not in DIRECTED:
        return
    after = told.changes[fault.last + _SETTLES]
    yield "change", after in (0, told.changes[fault.start - 1])
    if numbers:
        yield from _evidence(stream, values, told, fault, set(numbers))
        closing = told.closing(numbers[-1])
        yield "closed", _closed(closing, fault.last)
        yield "direction", _directed(closing, name, fault)
        if fault.shape != "ramp":  # nobody sees where one begins
            yield "length", _lasted(closing, fault.length, place.period)


def _healthy(stream: Stream, told: Told, fault: Fault) -> _Rows:
    """Score what is expected of the other channels while one has a fault."""
    others = [nth for nth in range(stream.place.channels) if nth != fault.channel]
    start, stop = fault.start, fault.last + 1
    before = told.expected[start - _USUAL : start] - stream.normal[start - _USUAL : start]
    limits = 3 * np.sqrt((before**2).mean(axis=0))
    quiet = _quiet_run(stream.place).expected
    for row, expected in (("healthy", told.expected), ("healthy unmoved", quiet)):
        within = np.abs(expected[start:stop] - stream.normal[start:stop]) <= limits
        if others:
            yield row, float(within[:, others].mean())


def _evidence(
    stream: Stream, values: Floats, told: Told, fault: Fault, numbers: set[int]
) -> _Rows:
    """Score each number in the evidence of the faulty channel."""
    name, column = stream.names[fault.channel], values[:, fault.channel]
    normal, deviation = stream.normal[:, fault.channel], stream.deviations[fault.channel]
    quiet = _quiet_run(stream.place)
    seen = set()
    for event in told.events:
        alarm = event.alarm
        if alarm is None or alarm.number not in numbers or event.change is not None:
            continue
        for part in alarm.evidence:
            if part.channel != name or part.observed is None or part in seen:
                continue
            seen.add(part)
            distances = np.abs(column[alarm.start : event.sample + 1] - part.observed)
            at = alarm.start + int(np.argmin(distances))
            away = column[at] - normal[at]
            if distances.min() > 1e-3 * deviation or abs(away) < _FAR * deviation:
                continue
            if part.expected is not None:
                yield "expected", abs((part.expected - normal[at]) / away)
                yield "expected unmoved", abs((quiet.expected[at, fault.channel] - normal[at]) / away)
            if part.low is not None and part.high is not None:
                yield "range", part.low <= normal[at] <= part.high


@cache
def _quiet_run(place: Place) -> Told:
    """Return what is reported of the stream without a fault."""
    stream = _stream(place)
    days = QUIET_DAYS * stream.samples_per_day
    detector, told = _fitted(place).reset(), []
    for start in range(0, len(stream.normal), 2_000):  # the detector keeps 1000 events
        stop = start + 2_000
        told.append(follow(detector, stream.normal[start:stop], stream.times[start:stop]))
    return Told(
        [event for part in told for event in part.events if event.sample < days],
        np.concatenate([part.expected for part in told]),
        np.concatenate([part.changes for part in told]),
    )


def _closed(closing: Event | None, last: int) -> bool:
    if closing is None or closing.alarm is None:
        return False
    return closing.sample <= last + _CLOSES and closing.alarm.end >= last - 2


def _directed(closing: Event | None, name: str, fault: Fault) -> bool:
    if closing is None or closing.alarm is None:
        return False
    directions = {part.channel: part.direction for part in closing.alarm.evidence}
    word = fault.direction
    return directions.get(name) == word and word in closing.alarm.sentence.split()


def _lasted(closing: Event | None, length: int, period: int) -> bool:
    if closing is None or closing.alarm is None:
        return False
    alarm = closing.alarm
    lengths = [float(alarm.end - alarm.start + 1), *_written(alarm, period)]
    return all(abs(each - length) <= max(5, 0.2 * length) for each in lengths)


def _written(alarm: Alarm, period: int) -> list[float]:
    """Return the duration in an alarm's sentence, in samples."""
    return [
        float(count) if unit.startswith("sample") else float(count) * _SECONDS[unit] / period
        for count, unit in _LASTED.findall(alarm.sentence)
    ]


# ---------------------------------------------------------------------- two faults


def _again(place: Place, rng: np.random.Generator) -> _Rows:
    stream = _stream(place)
    first = draw(rng, stream, int(rng.integers(500, 1_100)), DIRECTED)
    second = draw(rng, stream, first.last + 1 + int(rng.integers(10, 61)), DIRECTED)
    second = second._replace(channel=first.channel)
    _, told = _run(place, first, second)
    name = stream.names[first.channel]
    opened = {
        event.alarm.number
        for event in told.events
        if event.kind == "opened" and event.alarm and second.start <= event.sample <= second.last
    }
    yield "again", bool(opened & set(told.numbers(name, second, _NAMING)))


def _beside(place: Place, rng: np.random.Generator, *, pending: bool) -> _Rows:
    """Score a fault of another channel during an alarm, or during a change that is pending."""
    stream = _stream(place)
    if place.channels == 1:
        return
    first = draw(rng, stream, int(rng.integers(500, 900)), DIRECTED)
    start = first.start + int(rng.integers(1, first.length))
    if pending:
        first = first._replace(shape="step", length=500)
        start = first.start + int(rng.integers(60, 200))
    second = draw(rng, stream, start, DIRECTED)
    other = (first.channel + int(rng.integers(1, place.channels))) % place.channels
    second = second._replace(channel=other)
    _, told = _run(place, first, second, tail=0)
    opens = [event.sample for event in told.events if event.kind == "opened"]
    if pending and not told.changes[start - 1]:
        return  # no change is pending: another situation
    if not pending and not any(first.start <= sample < start for sample in opens):
        return  # no alarm is open
    found = bool(told.numbers(stream.names[other], second, _NAMING))
    yield "while pending" if pending else "while open", found


# ---------------------------------------------------------------------- other situations


def _stuck(place: Place, rng: np.random.Generator) -> _Rows:
    stream = _stream(place)
    start, channel = int(rng.integers(500, 1_000)), int(rng.integers(place.channels))
    _, told = _run(place, Fault("stuck", channel, start, STUCK, 0.0))
    sentences = [
        item.sentence
        for event in told.events
        for item in (event.alarm, event.change)
        if item is not None and event.sample >= start
    ]
    name = stream.names[channel]
    yield "stuck", any(name in text and _STILL.search(text) for text in sentences)


def _quiet(place: Place, rng: np.random.Generator) -> _Rows:
    del rng
    events = _quiet_run(place).events
    yield "false", sum(event.kind == "opened" for event in events) / QUIET_DAYS


def _right(
    stream: Stream, values: Floats, told: Told, fault: Fault, row: str
) -> _Rows:
    """Score whether a fault is found, its alarm is closed in time, and its direction is right."""
    name = stream.names[fault.channel]
    numbers = told.numbers(name, fault, _NAMING)
    closing = told.closing(numbers[-1]) if numbers else None
    faulty = np.flatnonzero(~np.isnan(values[: fault.last + 1, fault.channel]))
    yield row, _closed(closing, int(faulty[-1])) and _directed(closing, name, fault)


def _early(place: Place, rng: np.random.Generator) -> _Rows:
    stream = _stream(place)
    fault = draw(rng, stream, int(rng.integers(3, min(60, 3_600 // place.period) + 1)), DIRECTED)
    yield from _right(stream, *_run(place, fault), fault, "first hour")


def _gap(place: Place, rng: np.random.Generator) -> _Rows:
    stream = _stream(place)
    gap, left = int(rng.integers(500, 800)), _GAP // place.period
    fault = draw(rng, stream, gap + int(rng.integers(5, 61)), DIRECTED)
    end = fault.last + 1 + _TAIL
    kept = np.r_[:gap, gap + left : end + left]
    values, times = stream.normal[kept].copy(), stream.times[kept]
    stream.plant(values, fault)
    yield from _right(stream, values, follow(_fitted(place).reset(), values, times), fault, "gap")


def _saved(place: Place, rng: np.random.Generator) -> _Rows:
    stream = _stream(place)
    fault = draw(rng, stream, int(rng.integers(500, 1_000)), DIRECTED)
    end = fault.last + 1 + _TAIL
    values, times = stream.with_faults(fault)[:end], stream.times[:end]
    breaks = {fault.start - int(rng.integers(1, 31)): _reload}
    told = follow(_fitted(place).reset(), values, times, breaks)
    yield from _right(stream, values, told, fault, "saved")


def _reload(detector: Detector, events: list[Event]) -> Detector:
    del events
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "detector.nn"
        detector.save(path)
        return Detector.load(path)


def _accepted(place: Place, rng: np.random.Generator) -> _Rows:
    stream = _stream(place)
    shift = draw(rng, stream, int(rng.integers(400, 700)), ("step",))._replace(length=1_000)
    accepted = shift.start + 120
    fault = draw(rng, stream, accepted + int(rng.integers(60, 151)), DIRECTED)
    end, done = fault.last + 1 + _TAIL, list[bool]()

    def accept(detector: Detector, events: list[Event]) -> Detector:
        done.append(accept_newest(detector, events))
        return detector

    values, times = stream.with_faults(shift, fault)[:end], stream.times[:end]
    told = follow(_fitted(place).reset(), values, times, {accepted: accept})
    if done == [True]:
        yield from _right(stream, values, told, fault, "accepted")


def _sparse(place: Place, rng: np.random.Generator) -> _Rows:
    stream = _stream(place, _MISSING)
    fault = draw(rng, stream, int(rng.integers(500, 1_000)), DIRECTED)
    end = fault.last + 1 + _TAIL
    values, times = stream.with_faults(fault)[:end], stream.times[:end]
    told = follow(_fitted(place, _MISSING).reset(), values, times)
    yield from _right(stream, values, told, fault, "missing")


_SCORERS: Mapping[str, Callable[[Place, np.random.Generator], _Rows]] = {
    "one": _one,
    "again": _again,
    "while open": partial(_beside, pending=False),
    "while pending": partial(_beside, pending=True),
    "stuck": _stuck,
    "quiet": _quiet,
    "first hour": _early,
    "gap": _gap,
    "saved": _saved,
    "accepted": _accepted,
    "missing": _sparse,
}
SITUATIONS = tuple(_SCORERS)
