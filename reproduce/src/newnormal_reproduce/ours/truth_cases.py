"""Plant faults with known truth, and compare what `Detector` reports with it, case by case."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from newnormal import Detector, Event
from newnormal_reproduce.engine.arrays import Floats, Ints, Times
from newnormal_reproduce.ours.obvious import accept_newest
from newnormal_reproduce.ours.truth_streams import (
    DIRECTED,
    QUIET_DAYS,
    SHAPES,
    STUCK,
    Place,
    PlantedFault,
    TruthStream,
    draw,
    stream_of,
)

_TAIL = 120  # samples that are run after the last fault
_USUAL = 500  # quiet samples over which the usual error is taken
_FAR = 2.0  # deviations from normal, from which on a sample's evidence is judged
_CLOSES = 15  # samples after the end of a fault, in which its alarm has to be closed
_SETTLES = 30  # samples after it, in which a change has to be over
_MISSING = 0.2  # share of values
_GAP = 7_200  # seconds without a sample
_STRETCH = 2_000  # samples of one call: the detector keeps 1000 events
_STILL = re.compile(r"stand|still|stuck|does not move", re.IGNORECASE)
_LASTED = re.compile(r" for ([\d.]+) (d|h|min|samples?|s)\b")
_SECONDS = {"d": 86_400, "h": 3_600, "min": 60, "s": 1}


class Score(NamedTuple):
    """One figure of one case: 1 or 0 of a share, a size of a median."""

    row: str
    place: Place
    value: float


class Ending(NamedTuple):
    """What is right in the event that closed the alarm of a fault."""

    closed: bool = False
    direction: bool = False
    length: bool = False


class Told(NamedTuple):
    """Everything that a detector reported of a run."""

    events: list[Event]
    expected: Floats
    changes: Ints

    def naming(
        self, fault: PlantedFault, kinds: tuple[str, ...] = ("opened", "updated")
    ) -> list[int]:
        """Return the alarms that events during a fault name its channel for, oldest first."""
        return [
            event.alarm.number
            for event in self.events
            if event.kind in kinds
            and fault.start <= event.sample <= fault.last
            and event.alarm is not None
            and str(fault.channel) in {part.channel for part in event.alarm.evidence}
        ]

    def ending(self, fault: PlantedFault, last: int, period: int) -> Ending:
        """Judge the end of the newest alarm of a fault; `last` is its last sample with a value."""
        numbers = self.naming(fault)[-1:]
        for event in self.events:
            alarm = event.alarm
            if event.kind != "closed" or alarm is None or alarm.number not in numbers:
                continue
            directions = {part.channel: part.direction for part in alarm.evidence}
            lengths = [float(alarm.end - alarm.start + 1)]
            for count, unit in _LASTED.findall(alarm.sentence):
                lengths.append(float(count) * _SECONDS.get(unit, period) / period)
            return Ending(
                event.sample <= last + _CLOSES and alarm.end >= last - 2,
                directions.get(str(fault.channel)) == fault.direction
                and fault.direction in alarm.sentence.split(),
                all(abs(each - fault.length) <= max(5, 0.2 * fault.length) for each in lengths),
            )
        return Ending()


_Break = Callable[[Detector, list[Event]], Detector]
_Rows = Iterator[tuple[str, float]]


def follow(
    detector: Detector, values: Floats, times: Times, breaks: Mapping[int, _Break] | None = None
) -> Told:
    """Run a detector over values, with something done to it before some samples."""
    events: list[Event] = []
    expected, changes, breaks = [], [], breaks or {}
    edges = sorted({*range(0, len(values), _STRETCH), *breaks, len(values)})
    for start, stop in pairwise(edges):
        if start in breaks:
            detector = breaks[start](detector, events)
        verdicts = detector.run(values[start:stop], times=times[start:stop], flush=False)
        assert verdicts.expected is not None and verdicts.changes is not None
        events += detector.take_events()
        expected.append(verdicts.expected)
        changes.append(verdicts.changes)
    return Told(events, np.concatenate(expected), np.concatenate(changes))


def scores_of(place: Place, situation: str, draws: int = 1) -> list[Score]:
    """Run a number of cases of a situation at a place, and return the scores of its rows."""
    found: list[Score] = []
    for nth in range(1 if situation == "quiet" else draws):
        seeds = [*place[1:], len(place.kind), SITUATIONS.index(situation), nth]
        rows = _SCORERS[situation](place, np.random.default_rng(seeds))
        found += [Score(row, place, float(value)) for row, value in rows]
    return found


# What the cases of a place share is kept, until there are cases of another one.
@lru_cache(maxsize=2)
def _stream(place: Place, missing: float = 0.0) -> TruthStream:
    return stream_of(place, missing=missing)


@lru_cache(maxsize=2)
def _fitted(place: Place, missing: float = 0.0) -> Detector:
    stream = _stream(place, missing)
    return Detector(seed=place.seed).fit(stream.history, times=stream.history_times)


@lru_cache(maxsize=1)
def _quiet_run(place: Place) -> Told:
    """Return what is reported of the stream without a fault."""
    stream = _stream(place)
    return follow(_fitted(place).reset(), stream.normal, stream.times)


def _run(place: Place, *faults: PlantedFault) -> tuple[Floats, Told]:
    stream, end = _stream(place), max(fault.last for fault in faults) + 1 + _TAIL
    values = stream.with_faults(*faults)[:end]
    return values, follow(_fitted(place).reset(), values, stream.times[:end])


# ---------------------------------------------------------------------- one fault


def _one(place: Place, rng: np.random.Generator) -> _Rows:
    stream = _stream(place)
    fault = draw(rng, stream, int(rng.integers(600, 1_200)), SHAPES)
    values, told = _run(place, fault)
    found = bool(told.naming(fault))
    yield "found", found
    if place.channels > 1:
        yield from _healthy(stream, told, fault)
    if fault.shape not in DIRECTED:
        return
    after = told.changes[fault.last + _SETTLES]
    yield "change", after in (0, told.changes[fault.start - 1])
    if found:
        yield from _evidence(stream, values, told, fault)
        ending = told.ending(fault, fault.last, place.period)
        yield "closed", ending.closed
        yield "direction", ending.direction
        if fault.shape != "ramp":  # nobody sees where one begins
            yield "length", ending.length


def _healthy(stream: TruthStream, told: Told, fault: PlantedFault) -> _Rows:
    """Score what is expected of the other channels while one has a fault."""
    start, stop = fault.start, fault.last + 1
    before = told.expected[start - _USUAL : start] - stream.normal[start - _USUAL : start]
    limits = 3 * np.sqrt((before**2).mean(axis=0))
    quiet = _quiet_run(stream.place)
    for row, run in (("healthy", told), ("healthy unmoved", quiet)):
        within = np.abs(run.expected[start:stop] - stream.normal[start:stop]) <= limits
        yield row, float(np.delete(within, fault.channel, axis=1).mean())


def _evidence(stream: TruthStream, values: Floats, told: Told, fault: PlantedFault) -> _Rows:
    """Score the numbers in every evidence of the faulty channel."""
    column, normal = values[:, fault.channel], stream.normal[:, fault.channel]
    deviation, quiet = stream.deviations[fault.channel], _quiet_run(stream.place)
    numbers, seen = told.naming(fault), set()
    for event in told.events:
        alarm = event.alarm
        if alarm is None or alarm.number not in numbers:
            continue
        for part in alarm.evidence:
            if part.channel != str(fault.channel) or part.observed is None or part in seen:
                continue
            seen.add(part)
            distances = np.abs(column[alarm.start : event.sample + 1] - part.observed)
            at = alarm.start + int(np.argmin(distances))  # the sample that it is of
            away = column[at] - normal[at]
            if distances.min() > 1e-3 * deviation or abs(away) < _FAR * deviation:
                continue
            if part.expected is not None:
                yield "expected", abs((part.expected - normal[at]) / away)
                yield (
                    "expected unmoved",
                    abs((quiet.expected[at, fault.channel] - normal[at]) / away),
                )
            if part.low is not None and part.high is not None:
                yield "range", part.low <= normal[at] <= part.high


# ---------------------------------------------------------------------- two faults


def _again(place: Place, rng: np.random.Generator) -> _Rows:
    stream = _stream(place)
    first = draw(rng, stream, int(rng.integers(500, 1_100)), DIRECTED)
    second = draw(rng, stream, first.last + 1 + int(rng.integers(10, 61)), DIRECTED)
    second = second._replace(channel=first.channel)
    _, told = _run(place, first, second)
    opened = {
        event.alarm.number
        for event in told.events
        if event.kind == "opened" and event.alarm and second.start <= event.sample <= second.last
    }
    yield "again", bool(opened & set(told.naming(second)))


def _beside(place: Place, rng: np.random.Generator, *, pending: bool) -> _Rows:
    """Score a fault of another channel during an alarm, or while a change is pending."""
    stream = _stream(place)
    if place.channels == 1:
        return
    first = draw(rng, stream, int(rng.integers(500, 900)), DIRECTED)
    start = first.start + int(rng.integers(1, first.length))
    if pending:
        first = first._replace(shape="step", length=500)
        start = first.start + int(rng.integers(60, 200))
    other = (first.channel + int(rng.integers(1, place.channels))) % place.channels
    second = draw(rng, stream, start, DIRECTED)._replace(channel=other)
    _, told = _run(place, first, second)
    opens = [event.sample for event in told.events if event.kind == "opened"]
    if pending and told.changes[start - 1]:
        yield "while pending", bool(told.naming(second))
    elif not pending and any(first.start <= sample < start for sample in opens):
        yield "while open", bool(told.naming(second))


# ---------------------------------------------------------------------- other situations


def _stuck(place: Place, rng: np.random.Generator) -> _Rows:
    start, channel = int(rng.integers(500, 1_000)), int(rng.integers(place.channels))
    _, told = _run(place, PlantedFault("stuck", channel, start, STUCK, 0.0))
    items: list[tuple[str, Sequence[str]]] = []
    for event in told.events:
        if event.alarm is not None and event.sample >= start:
            items.append((event.alarm.sentence, [part.channel for part in event.alarm.evidence]))
        if event.change is not None and event.sample >= start:
            items.append((event.change.sentence, event.change.channels))
    yield "stuck", any(str(channel) in names and _STILL.search(text) for text, names in items)


def _quiet(place: Place, rng: np.random.Generator) -> _Rows:
    del rng
    days = QUIET_DAYS * 86_400 // place.period
    events = _quiet_run(place).events
    yield "false", sum(each.kind == "opened" for each in events if each.sample < days) / QUIET_DAYS


def _right(place: Place, rng: np.random.Generator, *, row: str) -> _Rows:
    """Score whether a fault is found, its alarm closed in time, and its direction right."""
    missing = _MISSING if row == "missing" else 0.0
    stream, start = _stream(place, missing), int(rng.integers(650, 1_000))
    normal, times, done = stream.normal, stream.times, [True]
    breaks: dict[int, _Break] = {}
    before = start - int(rng.integers(5, 61))
    if row == "first hour":
        start = int(rng.integers(3, min(60, 3_600 // place.period) + 1))
    elif row == "gap":
        kept = np.r_[:before, before + _GAP // place.period : len(normal)]
        normal, times = normal[kept], times[kept]
    elif row == "saved":
        breaks[before] = _reload
    elif row == "accepted":
        shift = draw(rng, stream, start - 220, ("step",))._replace(length=len(normal))
        normal = stream.with_faults(shift)

        def accept(detector: Detector, events: list[Event]) -> Detector:
            done[0] = accept_newest(detector, events)
            return detector

        breaks[before - 60] = accept
    fault = draw(rng, stream, start, DIRECTED)
    end = fault.last + 1 + _TAIL
    values = stream.with_faults(fault, normal=normal)[:end]
    told = follow(_fitted(place, missing).reset(), values, times[:end], breaks)
    observed = np.flatnonzero(~np.isnan(values[: fault.last + 1, fault.channel]))
    ending = told.ending(fault, int(observed[-1]), place.period)
    if done[0]:  # nothing was reported that could be accepted: another situation
        yield row, ending.closed and ending.direction


def _reload(detector: Detector, events: list[Event]) -> Detector:
    del events
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "detector.nn"
        detector.save(path)
        return Detector.load(path)


_SCORERS: Mapping[str, Callable[[Place, np.random.Generator], _Rows]] = {
    "one": _one,
    "again": _again,
    "while open": partial(_beside, pending=False),
    "while pending": partial(_beside, pending=True),
    "stuck": _stuck,
    "quiet": _quiet,
    **{
        row: partial(_right, row=row)
        for row in ("usual", "first hour", "gap", "saved", "accepted", "missing")
    },
}
SITUATIONS = tuple(_SCORERS)
