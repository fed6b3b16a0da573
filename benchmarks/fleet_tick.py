"""A tick of many streams beside one long run of one, and beside what memory alone would take."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from benchmarks.report import Row, Section, Target
from benchmarks.series import correlated
from newnormal import Detector, Fleet
from newnormal.base import BaseDetector
from newnormal.core.state import StreamState
from newnormal.detector import from_state
from newnormal.fleet.processors import cores
from newnormal.kernels.committee import CommitteeParams, CommitteeState
from newnormal.kernels.stream import FitArrays
from newnormal.models.committee import Committee
from newnormal.types import Floats, Times
from newnormal.types.tables import Array, declared

CASES = ((10_000, 5), (1_000, 38))  # streams and channels of each
TIMES_THE_BOUND = 1.3
HISTORY = 3_000
LEAD = 300  # samples before the clock starts, so that no review is the first
_STEP = np.timedelta64(60, "s")
_BEGIN = np.datetime64("2026-01-01", "ns")

_STATE = declared(StreamState) | declared(CommitteeState, "model.own.")
_FIT = declared(FitArrays) | declared(CommitteeParams, "model.")
_WINDOW = 5
_REVIEW = 60


class Tick(NamedTuple):
    """What was measured of one case, in µs a stream and sample."""

    tick: float
    run: float  # one long run of one stream, divided by the cores
    memory: float  # the bytes that must be read and written, by the copy bandwidth of all cores
    sixty: float  # 60 samples of each stream in a call
    quiet_bytes: int  # of a quiet stream, its fit included


def tick_bytes(fleet: Fleet) -> float:
    """Return the bytes that one tick must read and write of a stream, on average."""
    stream = next(iter(fleet.blocks()))
    state = {field.name: field.nbytes for field in stream.shape.layout.fields}
    fitted = {field.name: field.nbytes for field in stream.fit.layout.fields}
    weights = state["model.step.weights"]
    # Half of the units are at zero, and their weights are not read: of all layers but the first.
    model = stream.fitted.model
    assert isinstance(model, Committee)
    first = 4 * len(model.plan.memories) * int(model.network.padded[0] * model.network.padded[1])
    found = (weights + first) / 2 + 2 * (_often(_STATE, state) - weights) + _often(_FIT, fitted)
    learning = weights / _WINDOW
    quiet = sum(size for name, size in state.items() if name.startswith("last_quiet."))
    review = (2 * weights + fitted["step.fitted"] + quiet) / _REVIEW
    return found + learning + review


def _often(table: dict[str, Array], sizes: dict[str, int]) -> int:
    """Return the bytes of the arrays that most samples of a quiet stream touch."""
    hidden = "observed.", "last_quiet."
    return sum(
        size
        for name, size in sizes.items()
        if name in table and not table[name].seldom and not name.startswith(hidden)
    )


def fleet_of(streams: int, channels: int, *, distinct: bool = True) -> tuple[Fleet, BaseDetector]:
    """Return a fleet, and the detector that its streams are copies of.

    Each stream has a fit of its own in memory if `distinct`, as streams have that were fitted.
    """
    history = correlated(HISTORY, channels)
    times = _BEGIN + np.arange(HISTORY) * _STEP
    detector = Detector(alarms_per_day=0.2).fit(history, times=times)
    state = detector.to_state()
    fleet = Fleet(alarms_per_day=0.2)
    for at in range(streams):
        fleet.add(f"stream-{at}", from_state(state) if distinct else detector)
    return fleet, detector


def live(streams: int, channels: int, ticks: int, first: int) -> tuple[Floats, Times]:
    """Return ticks (T, S, C) that go on from history, and their times."""
    rng = np.random.default_rng(first)
    one = correlated(HISTORY + first + ticks, channels)[HISTORY + first :]
    noise = rng.normal(0, 0.05, (ticks, streams, channels))
    return one[:, None] + noise, _BEGIN + (HISTORY + first + np.arange(ticks)) * _STEP


def copy_bandwidth(megabytes: int = 256) -> float:
    """Return the bytes a second that all cores together read and write when they copy."""
    count = cores()
    size = megabytes * 1_000_000 // 8
    pairs = [(np.ones(size), np.ones(size)) for _ in range(count)]
    best = 0.0
    with ThreadPoolExecutor(count) as pool:
        for _ in range(4):
            began = time.perf_counter()
            list(pool.map(lambda pair: np.copyto(*pair), pairs))
            best = max(best, 2 * 8 * size * count / (time.perf_counter() - began))
    return best


def measure_case(streams: int, channels: int, rounds: int) -> Tick:
    """Measure one case: the tick, the run and the copy in turns, within the same seconds."""
    fleet, detector = fleet_of(streams, channels)
    lone = from_state(detector.to_state())
    lead, lead_times = live(1, channels, LEAD, 0)
    lone.run(lead[:, 0], times=lead_times)
    fleet.run(dict.fromkeys(fleet, lead[:, 0]), times=lead_times)  # every stream alike
    quiet = fleet.nbytes_ // streams
    touched = tick_bytes(fleet)
    ticks, runs, copies, sixties = [], [], [], []
    at = alone = LEAD
    for _ in range(rounds):
        samples, times = live(streams, channels, _REVIEW, at)
        began = time.perf_counter()
        for tick, when in zip(samples, times, strict=True):
            fleet.step(tick, when)
        ticks.append((time.perf_counter() - began) / streams / _REVIEW)
        at += _REVIEW
        samples, times = live(1, channels, 3_000, alone)
        alone += 3_000
        began = time.perf_counter()
        lone.run(samples[:, 0], times=times)
        runs.append((time.perf_counter() - began) / 3_000 / cores())
        copies.append(touched / copy_bandwidth())
        samples, times = live(streams, channels, _REVIEW, at)
        series = {name: np.ascontiguousarray(samples[:, k]) for k, name in enumerate(fleet)}
        began = time.perf_counter()
        fleet.run(series, times=times)
        sixties.append((time.perf_counter() - began) / streams / _REVIEW)
        at += _REVIEW
    best = [1e6 * min(each) for each in (ticks, runs, copies, sixties)]
    return Tick(best[0], best[1], best[2], best[3], quiet)


def measure(quick: bool) -> Section:
    """Measure all cases."""
    rows = []
    for streams, channels in CASES:
        count = streams // 20 if quick else streams
        found = measure_case(count, channels, 2 if quick else 5)
        bound = max(found.run, found.memory)
        rows.append(
            Row(
                f"{count:,} streams of {channels} channels, a tick",
                {
                    "µs a stream": found.tick,
                    "run, by the cores": found.run,
                    "memory alone": found.memory,
                    "times the larger": found.tick / bound,
                },
                Target("times the larger", TIMES_THE_BOUND),
            )
        )
        rows.append(
            Row(
                "the same, 60 samples in a call",
                {
                    "µs a stream": found.sixty,
                    "run, by the cores": found.run,
                    "times the larger": found.sixty / found.run,
                },
                Target("times the larger", TIMES_THE_BOUND),
            )
        )
    return Section("A tick", _NOTES, "what", rows)


_NOTES = (
    "`fleet.step(array, times)` on all cores, the columns of the result included, without log and "
    "checkpoints. Each stream has a fit of its own in memory.",
    "It is held against the larger of two: one long `run` of one stream, divided by the cores; and "
    "the bytes that a tick must read and write of a stream, divided by the bandwidth of a copy on "
    "all cores, measured in the same seconds. The best of the rounds counts.",
)
