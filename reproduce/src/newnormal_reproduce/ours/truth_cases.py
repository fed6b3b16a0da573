"""Faults planted in generated streams, and what `Detector` reports of them beside the truth.

The values without a fault are known, and so is every sample of a fault.
"""

import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.signal import lfilter

from newnormal import Detector, Event
from newnormal_reproduce.engine.arrays import Bools, Floats, Ints, Times
from newnormal_reproduce.ours.obvious import accept_newest
from newnormal_reproduce.ours.today import bands, limits

KINDS = ("flat", "daily", "load", "walk", "bursty", "weekly")
WIDTHS = (1, 3, 6, 12)
PERIODS = (2, 15, 60, 300)  # seconds

_PERIODS_OF = {"daily": PERIODS[2:], "weekly": PERIODS[3:]}  # history has to hold the cycle
# Faults with a direction; noise has none, and is for finding alone.
_DIRECTED = ("step", "spikes", "ramp")
_HISTORY = 10_080  # samples: a week at one a minute
_LIVE = 1_600  # samples at least; three days where that is more
_QUIET_DAYS = 3
_STUCK = 240  # samples: four hours at one a minute
_EVERY = 3  # samples from one spike to the next
# Of the channels: requests, load in percent, seconds, bytes and so on.
_LEVELS = (850.0, 40.0, 0.07, 1e10, 12.0, 6e9, 310.0, 1.01e5, 0.0033, 5.0, 2400.0, 1.7e6)
_TAIL = 120  # samples that are run after the last fault
_USUAL = 500  # quiet samples over which the usual error is taken
_FAR = 2.0  # deviations from normal, from which on a sample's evidence is judged
_CLOSES = 15  # samples after the end of a fault, in which its alarm has to be closed
_SETTLES = 30  # samples after it, in which a change has to be over
_MISSING = 0.2  # share of values
_GAP = 7_200  # seconds without a sample
_PAUSE = 10  # samples that close an alarm
_STRETCH = 2_000  # samples of one call: the detector keeps 1000 events
_STILL = re.compile(r"stand|still|stuck|does not move", re.IGNORECASE)
_LASTED = re.compile(r" for ([\d.]+) (d|h|min|samples?|s)\b")
_SECONDS = {"d": 86_400, "h": 3_600, "min": 60, "s": 1}


class Place(NamedTuple):
    """What a stream is like: its kind, channels, seconds between samples, and seed."""

    kind: str
    channels: int
    period: int
    seed: int

    @property
    def is_bursty(self) -> bool:
        """Whether its values are log-normal."""
        return self.kind == "bursty"

    def __str__(self) -> str:
        return f"{self.kind}-{self.channels}, every {self.period} s, seed {self.seed}"


class Score(NamedTuple):
    """One figure of one case: 1 or 0 of a share, a size of a median."""

    row: str
    place: Place
    value: float


class PlantedFault(NamedTuple):
    """A fault in one channel; its size is in standard deviations, negative for downwards."""

    shape: str
    channel: int
    start: int
    length: int
    size: float

    @property
    def last(self) -> int:
        """Its last sample."""
        return self.start + self.length - 1


class TruthStream(NamedTuple):
    """History, the live values without a fault, and their times."""

    place: Place
    history: Floats
    normal: Floats
    history_times: Times
    times: Times
    deviations: Floats  # of each channel's history

    def with_faults(self, *faults: PlantedFault, normal: Floats | None = None) -> Floats:
        """Return the live values, or `normal` ones like these, with some faults."""
        values = (self.normal if normal is None else normal).copy()
        for fault in faults:
            column = values[fault.start : fault.last + 1, fault.channel]
            size, count = fault.size * self.deviations[fault.channel], len(column)
            if fault.shape == "stuck":
                column[:] = values[fault.start - 1, fault.channel]
            elif fault.shape == "spikes":
                column[::_EVERY] += size
            elif fault.shape == "ramp":
                column += size * np.arange(1, count + 1) / count
            elif fault.shape == "noise":
                rng = np.random.default_rng([fault.start, count])
                column += size * rng.choice([-1.0, 1.0], count) * rng.uniform(0.5, 1, count)
            else:
                column += size
        return values

    def draw(
        self, rng: np.random.Generator, start: int, shapes: tuple[str, ...] = _DIRECTED
    ) -> PlantedFault:
        """Draw a fault of 12 to 45 samples and of 4 to 9 deviations, in any channel.

        In a stream of positive values with bursts it is upwards: downwards would be below zero.
        """
        shape, kind = shapes[int(rng.integers(len(shapes)))], self.place.kind
        length = int(rng.integers(12, 46))
        if shape == "spikes":
            length = 13 + _EVERY * (min(length - 12, 32) // _EVERY)  # the last is a spike
        size = float(rng.uniform(4, 9))
        downwards = shape in ("step", "ramp") and kind != "bursty" and rng.random() < 0.5
        channel = int(rng.integers(self.place.channels))
        return PlantedFault(shape, channel, start, length, -size if downwards else size)


def places(seed: int) -> list[Place]:
    """Return the places of a seed: every kind with every width; periods differ from seed to seed.

    >>> len(places(2021)), str(places(2021)[0])
    (24, 'flat-1, every 15 s, seed 2021')
    """
    found = []
    for row, kind in enumerate(KINDS):
        periods = _PERIODS_OF.get(kind, PERIODS)
        for nth, width in enumerate(WIDTHS):
            found.append(Place(kind, width, periods[(row + nth + seed) % len(periods)], seed))
    return found


# What the cases of a place share is kept, until there are cases of another one.
@lru_cache(maxsize=2)
def _stream(place: Place, missing: float = 0.0) -> TruthStream:
    """Generate the stream of a place, with a share of missing values."""
    rng = np.random.default_rng([place.seed, KINDS.index(place.kind), place.channels, place.period])
    seconds = np.arange(_HISTORY + max(_LIVE, _QUIET_DAYS * 86_400 // place.period)) * place.period
    values = np.array(_LEVELS[: place.channels]) * _shape(place, seconds / 86_400, rng)
    if missing:
        values[rng.random(values.shape) < missing] = np.nan
    times = np.datetime64("2024-01-01", "ns") + seconds * np.timedelta64(1, "s")
    history, before = values[:_HISTORY], times[:_HISTORY]
    deviations = np.asarray(np.nanstd(history, axis=0))
    return TruthStream(place, history, values[_HISTORY:], before, times[_HISTORY:], deviations)


def _shape(place: Place, days: Floats, rng: np.random.Generator) -> Floats:
    """Return the values of all channels relative to their levels."""
    count, width = len(days), place.channels
    noise = _wander(rng, rng.uniform(0.3, 0.9, width), count)
    cycles = 2 * np.pi * (days[:, None] + rng.uniform(0, 0.2, width))
    if place.kind == "bursty":
        return np.asarray(np.exp(0.5 * noise))
    shape = noise
    if place.kind == "daily":
        shape = np.sin(cycles) + 0.3 * np.sin(2 * cycles) + 0.25 * noise
    elif place.kind == "weekly":
        weekend = (days[:, None] % 7 >= 5) * 1.0
        shape = (np.sin(cycles) + 1) * (1 - 0.6 * weekend) + 0.2 * noise
    elif place.kind == "load":
        load = 0.5 * _wander(rng, np.array([0.995]), count)
        if place.period >= 60:
            load = load + np.sin(2 * np.pi * days[:, None])
        shape = load + rng.uniform(0, 0.2, width) * load**2 + 0.2 * noise
    elif place.kind == "walk":
        shape = _wander(rng, np.full(width, 0.998), count) + 0.1 * noise
    return np.asarray(1 + shape / 14)


def _wander(rng: np.random.Generator, keeps: Floats, count: int) -> Floats:
    """Return columns of noise of deviation 1, each sample keeping a share of the one before."""
    warm = 3_000
    noise = rng.normal(size=(count + warm, len(keeps))) * np.sqrt(1 - keeps**2)
    columns = [lfilter([1.0], [1.0, -keep], noise[:, nth]) for nth, keep in enumerate(keeps)]
    return np.stack(columns, axis=1)[warm:]


class Told(NamedTuple):
    """Everything that a detector reported of a run."""

    events: list[Event]
    expected: Floats
    changes: Ints

    def naming(self, fault: PlantedFault) -> list[int]:
        """Return the alarms that events during a fault name its channel for, oldest first."""
        return [
            event.alarm.number
            for event in self.events
            if event.kind in ("opened", "updated")
            and fault.start <= event.sample <= fault.last
            and event.alarm is not None
            and str(fault.channel) in {part.channel for part in event.alarm.evidence}
        ]

    def ending(self, fault: PlantedFault, last: int, period: int) -> tuple[bool, bool, bool]:
        """Return whether the newest alarm of a fault has the right end, direction and length.

        `last` is the fault's last sample with a value.
        """
        numbers, word = self.naming(fault)[-1:], "high" if fault.size > 0 else "low"
        for event in self.events:
            alarm = event.alarm
            if event.kind != "closed" or alarm is None or alarm.number not in numbers:
                continue
            directions = {part.channel: part.direction for part in alarm.evidence}
            lengths = [float(alarm.end - alarm.start + 1)]
            for count, unit in _LASTED.findall(alarm.sentence):
                lengths.append(float(count) * _SECONDS.get(unit, period) / period)
            return (
                event.sample <= last + _CLOSES and alarm.end >= last - 2,
                directions.get(str(fault.channel)) == word and word in alarm.sentence.split(),
                all(abs(each - fault.length) <= max(5, 0.2 * fault.length) for each in lengths),
            )
        return False, False, False


_Break = Callable[[Detector, list[Event]], Detector]
_Rows = Iterator[tuple[str, float]]


def _follow(detector: Detector, values: Floats, times: Times, breaks: Mapping[int, _Break]) -> Told:
    """Run a detector over values, with something done to it before some samples."""
    events: list[Event] = []
    expected, changes = [], []
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


@lru_cache(maxsize=2)
def _fitted(place: Place, missing: float = 0.0) -> Detector:
    stream = _stream(place, missing)
    return Detector(seed=place.seed).fit(stream.history, times=stream.history_times)


@lru_cache(maxsize=1)
def _quiet_run(place: Place) -> Told:
    """Return what is reported of the stream without a fault."""
    stream = _stream(place)
    return _follow(_fitted(place).reset(), stream.normal, stream.times, {})


def _run(place: Place, *faults: PlantedFault) -> tuple[Floats, Told]:
    stream, end = _stream(place), max(fault.last for fault in faults) + 1 + _TAIL
    values = stream.with_faults(*faults)[:end]
    return values, _follow(_fitted(place).reset(), values, stream.times[:end], {})


def _one(place: Place, rng: np.random.Generator) -> _Rows:
    stream = _stream(place)
    fault = stream.draw(rng, int(rng.integers(600, 1_200)), (*_DIRECTED, "noise"))
    values, told = _run(place, fault)
    found = bool(told.naming(fault))
    yield "found", found
    for rule, beyond in _simple(stream, values):
        yield f"{rule} found", bool(beyond[fault.start : fault.last + 1, fault.channel].any())
    if place.channels > 1:
        yield from _healthy(stream, told, fault)
    if fault.shape not in _DIRECTED:
        return
    after = told.changes[fault.last + _SETTLES]
    yield "change", after in (0, told.changes[fault.start - 1])
    if found:
        yield from _evidence(stream, values, told, fault)
        rows = ("closed", "direction", "length")
        right = zip(rows, told.ending(fault, fault.last, place.period), strict=True)
        # Nobody sees where a ramp begins.
        yield from (each for each in right if each[0] != "length" or fault.shape != "ramp")


def _healthy(stream: TruthStream, told: Told, fault: PlantedFault) -> _Rows:
    """Score what is expected of the other channels while one has a fault."""
    start, stop = fault.start, fault.last + 1
    before = told.expected[start - _USUAL : start] - stream.normal[start - _USUAL : start]
    limits = 3 * np.sqrt((before**2).mean(axis=0))
    for row, run in (("healthy", told), ("healthy unmoved", _quiet_run(stream.place))):
        within = np.abs(run.expected[start:stop] - stream.normal[start:stop]) <= limits
        yield row, float(np.delete(within, fault.channel, axis=1).mean())


def _evidence(stream: TruthStream, values: Floats, told: Told, fault: PlantedFault) -> _Rows:
    """Score the numbers in every evidence of the faulty channel."""
    column, normal = values[:, fault.channel], stream.normal[:, fault.channel]
    deviation = stream.deviations[fault.channel]
    unmoved = _quiet_run(stream.place).expected[:, fault.channel]
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
                yield "expected unmoved", abs((unmoved[at] - normal[at]) / away)
            if part.low is not None and part.high is not None:
                yield "range", part.low <= normal[at] <= part.high


def _again(place: Place, rng: np.random.Generator) -> _Rows:
    stream = _stream(place)
    first = stream.draw(rng, int(rng.integers(500, 1_100)))
    second = stream.draw(rng, first.last + 1 + int(rng.integers(10, 61)))
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
    first = stream.draw(rng, int(rng.integers(500, 900)))
    start = first.start + int(rng.integers(1, first.length))
    if pending:
        first = first._replace(shape="step", length=500)
        start = first.start + int(rng.integers(60, 200))
    other = (first.channel + int(rng.integers(1, place.channels))) % place.channels
    second = stream.draw(rng, start)._replace(channel=other)
    _, told = _run(place, first, second)
    opens = [event.sample for event in told.events if event.kind == "opened"]
    if pending and told.changes[start - 1]:
        yield "while pending", bool(told.naming(second))
    elif not pending and any(first.start <= sample < start for sample in opens):
        yield "while open", bool(told.naming(second))


def _stuck(place: Place, rng: np.random.Generator) -> _Rows:
    start, channel = int(rng.integers(500, 1_000)), int(rng.integers(place.channels))
    _, told = _run(place, PlantedFault("stuck", channel, start, _STUCK, 0.0))
    found = False
    for event in told.events:
        for item, names in (
            (event.alarm, [part.channel for part in event.alarm.evidence] if event.alarm else ()),
            (event.change, event.change.channels if event.change else ()),
        ):
            if item is not None and event.sample >= start and str(channel) in names:
                found |= _STILL.search(item.sentence) is not None
    yield "stuck", found


def _quiet(place: Place, _rng: np.random.Generator) -> _Rows:
    end = _QUIET_DAYS * 86_400 // place.period
    opens = [event.sample for event in _quiet_run(place).events if event.kind == "opened"]
    yield "false", sum(sample < end for sample in opens) / _QUIET_DAYS
    stream = _stream(place)
    for rule, beyond in _simple(stream, stream.normal[:end]):
        at = np.flatnonzero(beyond.any(axis=1))
        yield f"{rule} false", (int(len(at) > 0) + int((np.diff(at) > _PAUSE).sum())) / _QUIET_DAYS


def _simple(stream: TruthStream, values: Floats) -> Iterator[tuple[str, Bools]]:
    """Yield the rules that people have today, and which values (T, C) are beyond them."""
    now, then = (
        times.astype("M8[h]").astype(np.int64) % 24
        for times in (stream.times[: len(values)], stream.history_times)
    )
    low, high = limits(stream.history)
    yield "limit", (values < low) | (values > high)
    low, high = bands(stream.history, then)[:, now]
    yield "band", (values < low) | (values > high)


def _right(place: Place, rng: np.random.Generator, *, row: str) -> _Rows:
    """Score whether a fault is found, its alarm closed in time, and its direction right."""
    missing = _MISSING if row == "missing" else 0.0
    stream, start = _stream(place, missing), int(rng.integers(650, 1_000))
    normal, times, done = stream.normal, stream.times, [True]
    breaks: dict[int, _Break] = {}
    shift: PlantedFault | None = None
    before = start - int(rng.integers(5, 61))
    if row == "first hour":
        start = int(rng.integers(3, min(60, 3_600 // place.period) + 1))
    elif row == "gap":
        kept = np.r_[:before, before + _GAP // place.period : len(normal)]
        normal, times = normal[kept], times[kept]
    elif row == "saved":
        breaks[before] = _reload
    elif row == "accepted":
        shift = stream.draw(rng, start - 220, ("step",))._replace(length=len(normal))
        normal = stream.with_faults(shift)

        def accept(detector: Detector, events: list[Event]) -> Detector:
            done[0] = accept_newest(detector, events)
            return detector

        breaks[before - 60] = accept
    fault = stream.draw(rng, start)
    if (
        shift is not None and shift.channel == fault.channel
    ):  # away from the level that it left, which stays normal
        fault = fault._replace(size=np.copysign(fault.size, shift.size))
    end = fault.last + 1 + _TAIL
    values = stream.with_faults(fault, normal=normal)[:end]
    told = _follow(_fitted(place, missing).reset(), values, times[:end], breaks)
    moved = np.abs(values - normal[:end])[: fault.last + 1, fault.channel]
    last = int(np.flatnonzero(moved > 0)[-1])  # of its samples with a value
    closed, direction, _ = told.ending(fault, last, place.period)
    if done[0]:  # nothing was reported that could be accepted: another situation
        yield row, closed and direction


def _reload(detector: Detector, _events: list[Event]) -> Detector:
    with tempfile.TemporaryDirectory() as folder:
        detector.save(path := Path(folder) / "detector.nn")
        return Detector.load(path)


_SITUATIONS: Mapping[str, Callable[[Place, np.random.Generator], _Rows]] = {
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


def scores_of(place: Place, draws: int) -> Iterator[Score]:
    """Run a number of cases of each situation at a place, and yield the scores of its rows."""
    for number, (situation, score) in enumerate(_SITUATIONS.items()):
        for nth in range(1 if situation == "quiet" else draws):
            seeds = [*place[1:], len(place.kind), number, nth]
            for row, value in score(place, np.random.default_rng(seeds)):
                yield Score(row, place, float(value))
