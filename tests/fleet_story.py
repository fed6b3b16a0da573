"""A fleet and lone detectors that are given the same samples, and compared bit for bit."""

import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

from newnormal import M2N2, Detector, Fleet, NewnormalWarning
from newnormal.base import BaseDetector
from newnormal.errors import FeedbackError, InputError
from newnormal.fleet import FleetVerdicts
from newnormal.kernels.decision import AGE
from newnormal.tabular import Table
from newnormal.types import Event, Floats, Times, Verdict, Verdicts
from newnormal.types.verdict_lines import VerdictColumns
from tests.strangers.threshold import Trailing

CHANNELS = ("a", "b", "c", "d", "e", "f", "g")
FIRST = np.datetime64("2026-03-01", "ns")
HISTORY = 700
ZONE = "Europe/Berlin"


def daily(rng: np.random.Generator, start: int, count: int, channels: int) -> Floats:
    """Return what follows the hours of the day, at a sample each half hour."""
    angle = (start + np.arange(count)) * (2 * np.pi / 48)
    wave = np.sin(angle)[:, None] * np.arange(1, channels + 1)
    return np.asarray(wave + rng.normal(0, 0.2, (count, channels)))


def mixed(rng: np.random.Generator, start: int, count: int, channels: int) -> Floats:
    """Return channels that an autoencoder learns something of."""
    at = start + np.arange(count)
    base = np.stack([np.sin(at / 9), np.sin(at / 4.1)], axis=1)
    ways = np.random.default_rng(1).normal(size=(2, channels))
    return np.asarray(np.tanh(2 * base @ ways) + rng.normal(0, 0.05, (count, channels)))


# By name: the detector, the number of channels, minutes between samples (0: no times), and what
# normal is.
Fit = tuple[BaseDetector, int, int, Callable[[np.random.Generator, int, int, int], Floats]]
FITS: dict[str, Fit] = {
    "daily": (Detector(alarms_per_day=0.5, epochs=1, accept_after=200), 3, 30, daily),
    "counted": (Detector(threshold=0.99, epochs=1, accept_after=200), 2, 0, daily),
    "risky": (Detector(risk=0.01, epochs=20, accept_after=200), 3, 0, mixed),
    "learning": (Detector(alarms_per_day=2, epochs=20, accept_after=200), 3, 1, mixed),
    "never": (Detector(alarms_per_day=2, epochs=20, accept_after="never"), 2, 1, mixed),
    "single": (Detector(alarms_per_day=2, epochs=5, accept_after=200), 1, 1, mixed),
    "broad": (Detector(alarms_per_day=2, epochs=5, accept_after="3h"), 7, 1, mixed),
    "short": (Detector(epochs=1, accept_after=200), 2, 1, mixed),
    "moving": (Detector(epochs=1, threshold=Trailing()), 2, 1, mixed),
    "paper": (M2N2(window=6, epochs=1), 2, 0, daily),
    "strides": (M2N2(window=6, stride=2, epochs=1, accept_after=200), 3, 1, mixed),
}
COMPILED = [kind for kind in FITS if kind not in ("moving", "paper", "strides")]


@cache
def _fitted(kind: str) -> BaseDetector:
    detector, channels, minutes, normal = FITS[kind]
    length = 60 if kind == "short" else HISTORY
    values = normal(np.random.default_rng(7), HISTORY - length, length, channels)
    times = FIRST + np.arange(length) * np.timedelta64(minutes, "m") if minutes else None
    history = Table(values, CHANNELS[:channels], times, zone=ZONE if minutes else None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NewnormalWarning)
        return detector.unfitted().fit(history).track_alarms()


def fitted(kind: str) -> BaseDetector:
    """Return a detector at the start of a stream; those of one kind share what was fitted."""
    detector = _fitted(kind)
    return detector.unfitted().with_parts(detector.to_parts())


class Feed:
    """The samples of one stream: normal, and much that is not.

    Parameters
    ----------
    kind
        One of `FITS`.
    seed
        What happens depends on it.
    count
        Samples.
    calm
        Whether all of it is normal.
    """

    def __init__(self, kind: str, seed: int, count: int, *, calm: bool = False) -> None:
        _, channels, minutes, normal = FITS[kind]
        rng = np.random.default_rng([seed, sum(map(ord, kind))])
        self.values = normal(rng, HISTORY, count, channels)
        self.at = 0
        steps = np.ones(count, np.int64)
        if not calm:
            self._disturb(rng, count, channels)
            steps[rng.integers(0, count, 3)] = rng.integers(2, 30, 3)
        first = FIRST + HISTORY * np.timedelta64(minutes, "m")
        self.times: Times | None = None
        if minutes:
            self.times = first + np.cumsum(steps) * np.timedelta64(minutes, "m")

    def _disturb(self, rng: np.random.Generator, count: int, channels: int) -> None:
        values = self.values
        for size, length in ((4.0, 450), (-3.0, 60), (6.0, 25), (2.5, 130)):
            start = int(rng.integers(100, max(101, count - 100)))
            moved = rng.permutation(channels)[: rng.integers(1, channels + 1)]
            values[start : start + length, moved] += size
        for _ in range(8):  # spikes
            values[rng.integers(count), rng.integers(channels)] += rng.choice([-1, 1]) * 10.0
        values[rng.integers(count), 0] = 1e12
        for _ in range(4):  # a channel is silent
            start = int(rng.integers(count))
            values[start : start + int(rng.integers(3, 40)), rng.integers(channels)] = np.nan
        for _ in range(3):  # all of them are
            start = int(rng.integers(count))
            values[start : start + int(rng.integers(1, 12))] = np.nan
        values[rng.random(values.shape) < 0.01] = np.nan

    @property
    def left(self) -> int:
        """How many samples are left."""
        return len(self.values) - self.at

    def take(self, count: int) -> Table:
        """Return the next samples."""
        own = slice(self.at, self.at + count)
        self.at = min(self.at + count, len(self.values))
        channels = CHANNELS[: self.values.shape[1]]
        return Table(self.values[own], channels, None if self.times is None else self.times[own])


def rows_of(verdicts: Iterable[Verdict]) -> list[tuple[Any, ...]]:
    """Return all columns as rows of bytes, so that NaN equals NaN and 0 is not -0."""
    rows = []
    for each in verdicts:
        columns = (getattr(each._columns, name) for name in VerdictColumns._fields[2:])
        cells = (None if column is None else column[each._row].tobytes() for column in columns)
        rows.append((each.sample, each.time, *cells))
    return rows


def assert_same_state(comp: BaseDetector, ref: BaseDetector) -> None:
    """Assert that two detectors are the same, bit for bit."""
    one, other = comp.to_state(), ref.to_state()
    assert one.facts == other.facts
    assert set(one.tensors) == set(other.tensors)
    for name, array in other.tensors.items():
        assert one.tensors[name].dtype == array.dtype, name
        assert one.tensors[name].tobytes() == array.tobytes(), name


class Story:
    """A fleet, and beside it a detector alone for each stream.

    Attributes
    ----------
    fleet, alone
        Both are given the same, and compared after each call.
    kinds
        Of events that there were.
    hidden
        For each call to a stream whose channels are judged by themselves, whether one was hidden.
    """

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.fleet = Fleet()
        self.alone: dict[str, BaseDetector] = {}
        self.feeds: dict[str, Feed] = {}
        self.kinds: set[str] = set()
        self.hidden: list[bool] = []

    def add(self, name: str, kind: str, feed: Feed) -> None:
        """Add a stream."""
        self.fleet.add(name, fitted(kind))
        self.alone[name], self.feeds[name] = fitted(kind), feed

    def some(self) -> list[str]:
        """Return some streams that have samples left, in any order."""
        names = [name for name in self.fleet if self.feeds[name].left]
        return [str(each) for each in self.rng.permutation(names)[: self.rng.integers(1, 99)]]

    def step(self, names: Sequence[str]) -> FleetVerdicts:
        """Give a sample to each of these streams."""
        given = {name: self._take(name, 1) for name in names}
        samples = {name: _sample(table, self.rng) for name, table in given.items()}
        times = {name: each.times[0] for name, each in given.items() if each.times is not None}
        found = self.fleet.step(samples, times)
        assert found.errors == ()
        self.compare(found, {name: self._alone(name, each) for name, each in given.items()})
        return found

    def run(self, names: Sequence[str], longest: int, *, flush: bool = False) -> FleetVerdicts:
        """Give a series to each of these streams."""
        given = {name: self._take(name, int(self.rng.integers(0, longest + 1))) for name in names}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NewnormalWarning)
            found = self.fleet.run(given, flush=flush)
            ref = {name: self._alone(name, table) for name, table in given.items()}
            if flush:
                for name in names:
                    ref[name] += rows_of(self.alone[name].flush())
        assert found.errors == ()
        self.compare(found, ref)
        return found

    def flush(self) -> None:
        """Judge what is pending."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NewnormalWarning)
            found = self.fleet.flush()
            ref = {name: rows_of(alone.flush()) for name, alone in self.alone.items()}
        self.compare(found, ref)

    def _take(self, name: str, count: int) -> Table:
        """Return the next samples of a stream; their times are missing now and then."""
        table = self.feeds[name].take(count)
        if self.rng.random() < 0.03:
            return Table(table.values, table.channels, None)
        return table

    def _alone(self, name: str, table: Table) -> list[tuple[Any, ...]]:
        """Give samples to a detector alone: at once, or one by one."""
        alone = self.alone[name]
        if (channel := alone._state.channel) is not None:
            self.hidden.append(bool(channel.counts[:, AGE].any()))
        if isinstance(alone, Detector) and self.rng.random() < 0.7:
            return rows_of(alone.run(table, flush=False))
        rows: list[tuple[Any, ...]] = []
        for row, sample in enumerate(table.values):
            rows += rows_of(alone.step(sample, None if table.times is None else table.times[row]))
        return rows

    def compare(self, found: FleetVerdicts, ref: dict[str, list[tuple[Any, ...]]]) -> None:
        """Assert that each stream's verdicts and events are those of the detector alone."""
        for name, rows in ref.items():
            assert rows_of(_of(found, name)) == rows, name
        self.compare_events(found.events)

    def compare_events(self, found: Sequence[Any]) -> None:
        """Assert that each stream's events are those of the detector alone."""
        taken = self.fleet.take_events()
        assert list(found) == taken
        events: dict[str, list[Event]] = {name: [] for name in self.alone}
        for each in taken:
            events[each.stream].append(each.event)
        for name, alone in self.alone.items():
            ref = alone.take_events()
            assert list(map(repr, events[name])) == list(map(repr, ref)), name
            self.kinds |= {event.kind for event in ref}

    def fail(self, name: str) -> None:
        """Give a sample that cannot be taken, with one of the others that can."""
        feed, alone = self.feeds[name], self.alone[name]
        channels = feed.values.shape[1]
        wrong = np.zeros(channels)
        time = alone.last_time_
        if time is None or self.rng.random() < 0.5:
            wrong[self.rng.integers(channels)] = self.rng.choice([np.inf, -np.inf])
            time = None
        beside = [each for each in self.some() if each != name][:1]
        given = {each: self.feeds[each].take(1) for each in beside}
        samples = {each: table.values[0] for each, table in given.items()} | {name: wrong}
        times = {each: table.times[0] for each, table in given.items() if table.times is not None}
        found = self.fleet.step(samples, times | ({} if time is None else {name: time}))
        with pytest.raises(InputError) as caught:
            alone.step(wrong, time)
        errors = [(each.stream, str(each.error)) for each in found.errors]
        assert errors == [(name, str(caught.value))]
        assert found.streams.tolist()[-1] == name and found.samples[-1] == -1
        self.compare(found, {each: self._alone(each, table) for each, table in given.items()})
        assert_same_state(self.fleet[name], alone)

    def rename(self, name: str, other: str) -> None:
        """Take a stream out and add it under another name, in the middle of all."""
        if self.rng.random() < 0.5:
            detector = self.fleet.remove(name)
        else:
            detector = self.fleet[name]
            self.fleet.remove(name)
        if self.rng.random() < 0.5:
            rule = Trailing if isinstance(detector.threshold, Trailing) else None
            detector = type(detector).from_state(detector.to_state(), threshold=rule)
        self.fleet.add(other, detector)
        self.alone[other], self.feeds[other] = self.alone.pop(name), self.feeds.pop(name)

    def act(self, name: str, act: str) -> bool:
        """Accept, reject, roll back, or set another limit; return whether that was possible."""
        comp = ref = ""
        limit = {"alarms_per_day": self.rng.integers(1, 40)} if act == "set_options" else {}
        try:
            getattr(self.fleet, act)(name, **limit)
        except FeedbackError as error:
            comp = str(error)
        try:
            getattr(self.alone[name], act)(**limit)
        except FeedbackError as error:
            ref = str(error)
        assert comp == ref
        self.compare_events(self.fleet._events.copy())
        return not comp

    def end(self) -> None:
        """Compare everything."""
        alarms, changes = self.fleet.alarms_, self.fleet.changes_
        for name, alone in self.alone.items():
            assert_same_state(self.fleet[name], alone)
            assert repr(alarms.get(name, [])) == repr(alone.alarms_), name
            assert repr(changes.get(name, [])) == repr(alone.changes_), name
            assert repr(self.fleet[name].past_) == repr(alone.past_), name


def _of(found: FleetVerdicts, name: str) -> Verdicts | list[Verdict]:
    try:
        return found[name]
    except KeyError:
        return []


def _sample(table: Table, rng: np.random.Generator) -> Any:
    """Return a sample in one of the forms that `step` takes."""
    assert table.channels is not None
    row = table.values[0]
    if rng.random() < 0.3:
        return dict(zip(table.channels, row.tolist(), strict=True))
    return row.tolist() if rng.random() < 0.3 else row
