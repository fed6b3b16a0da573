"""The aligner beside a slow and obvious twin, and what it promises."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from newnormal.io.arrivals import Arrival
from newnormal.service.engine.aligning import Aligner, Steps
from newnormal.types import Bools
from tests.service.naive_aligner import NaiveAligner
from tests.service.seeds import each_seed

SECOND = 10**9
START = 1_767_225_600 * SECOND
NAMES = ("a", "b", "c", "d")


def arrival(times: Any, values: Any, channels: tuple[str, ...] = ("a", "b")) -> Arrival:
    values = np.asarray(values, np.float64).reshape(len(times), len(channels))
    return Arrival("m", channels, np.asarray(times, np.int64), values)


def closed(steps: Steps, channels: tuple[str, ...]) -> list[tuple[int, dict[str, float]]]:
    return [
        (time, {name: value for name, value in zip(channels, row, strict=False) if value == value})
        for time, row in zip(steps.times.tolist(), steps.values.tolist(), strict=True)
    ]


def complete(aligner: Aligner, needed: list[str] | None) -> Bools | None:
    return None if needed is None else np.array([name in needed for name in aligner.channels])


class Sender:
    """Sends the samples of one stream as people's senders do: well, late, twice, apart."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.period = int(rng.choice([1, 7, 60])) * SECOND
        self.jitter = float(rng.choice([0.0, 0.0, 0.1, 0.6]))
        self.disorder = float(rng.choice([0.0, 0.1, 0.5]))
        self.apart = bool(rng.random() < 0.5)
        self.known = list(NAMES[: rng.integers(1, 4)])
        self.at = 0

    def next(self) -> Arrival:
        rng = self.rng
        if rng.random() < 0.02:
            other = str(rng.choice(NAMES))
            self.known = [name for name in self.known if name != other] or ["a"]
        if rng.random() < 0.02:
            self.known.append(next((n for n in NAMES if n not in self.known), self.known.pop()))
        size = int(rng.integers(1, 6))
        back = int(rng.integers(0, 8)) if rng.random() < self.disorder else 0
        at = max(0, self.at - back) + np.arange(size)
        self.at = max(self.at, int(at[-1]) + 1)
        channels = tuple(self.known)
        if self.apart:
            channels = (str(rng.choice(channels)),)
        elif rng.random() < 0.3:
            channels = tuple(rng.permutation(channels).tolist())
        phase = NAMES.index(channels[0]) * self.period // 7 if self.apart else 0
        noise = rng.normal(0, self.jitter, size) * self.period
        times = START + at * self.period + phase + noise.astype(np.int64)
        if rng.random() < self.disorder:
            times = times[rng.permutation(size)]
        values = rng.integers(0, 100, (size, len(channels))).astype(float)
        values[rng.random(values.shape) < 0.1] = np.nan
        return arrival(times, values, channels)


@pytest.mark.slow
def test_the_aligner_closes_what_its_twin_closes_after_every_arrival(
    record_property: Callable[[str, object], None],
) -> None:
    each_seed(150, 5000, compare, record_property)


def compare(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sender = Sender(rng)
    period = sender.period if rng.random() < 0.4 else None
    lateness = int(rng.integers(0, 4)) * sender.period if rng.random() < 0.4 else None
    own, twin = Aligner(period, lateness), NaiveAligner(period, lateness)
    live, at = False, 0
    for _ in range(60):
        live = live or bool(rng.random() < 0.05)
        needed = [name for name in own.channels if rng.random() < 0.9] if live else None
        given = sender.next()

        steps = own.take(given, partial(complete, own, needed))
        twin.take(given, needed)
        if rng.random() < 0.03:
            until = own.newest + 1
            more = own.close(until)
            twin.close(until)
            found = closed(steps, own.channels) + closed(more, own.channels)
        else:
            found = closed(steps, own.channels)
        assert found == twin.steps[at:]
        at = len(twin.steps)
        assert own.counts == twin.counts
        assert (own.newest, own.closed, own.waiting) == (twin.newest, twin.closed, len(twin.open))
        if rng.random() < 0.1:
            own = Aligner.from_json(json.loads(json.dumps(own.to_json())))
    times = [time for time, _ in twin.steps]
    assert times == sorted(set(times))


def test_whole_samples_close_at_once_at_their_own_times() -> None:
    aligner = Aligner()
    steps = aligner.take(arrival([5, 9, 12], [[1, 2], [3, 4], [5, 6]]))
    assert steps.times.tolist() == [5, 9, 12]
    assert steps.values.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert aligner.waiting == 0


def test_late_and_duplicate_samples_change_nothing_and_are_counted() -> None:
    aligner = Aligner()
    aligner.take(arrival([10, 20, 30], [[1, 1], [2, 2], [3, 3]]))
    assert len(aligner.take(arrival([30], [[9, 9]])).times) == 0
    assert len(aligner.take(arrival([20], [[9, 9]])).times) == 0
    assert aligner.counts == {"late": 1, "duplicate": 1, "out_of_order": 1}


def test_channels_that_come_apart_share_a_step() -> None:
    aligner = Aligner(period=10 * SECOND)
    found = []
    for at in range(8):
        for shift, channel in ((0, "a"), (2, "b"), (3, "c")):
            time = START + (10 * at + shift) * SECOND
            steps = aligner.take(arrival([time], [[at]], (channel,)))
            found += closed(steps, aligner.channels)
    first, second, *others = [row for _, row in found]
    assert (first, second) == ({"a": 0.0}, {"b": 0.0, "c": 0.0})  # nobody knew of "b" then
    assert others == [{"a": k, "b": k, "c": k} for k in range(1, 5)]


def test_out_of_order_samples_within_the_lateness_are_put_in_order() -> None:
    aligner = Aligner(lateness=30)
    found = []
    for time in (10, 30, 20, 50, 40, 90):
        found += aligner.take(arrival([time], [[time, time]])).times.tolist()
    assert found == [10, 20, 30, 40, 50]
    assert aligner.counts == {"late": 0, "duplicate": 0, "out_of_order": 2}


def test_steps_never_begin_before_a_sample_that_is_closed() -> None:
    aligner = Aligner(period=60)
    aligner.take(arrival([600], [[1, 1]]))
    for time in (610, 670, 730, 850, 910, 970):
        steps = aligner.take(arrival([time], [[1]], ("a",)))
        assert (steps.times > 600).all()
    assert aligner.counts["late"] == 0


@pytest.mark.parametrize("seed", range(20))
def test_connections_that_are_far_apart_lose_nothing(seed: int) -> None:
    """Each channel comes in order, one may be hundreds of steps behind another."""
    rng = np.random.default_rng(seed)
    aligner = Aligner(period=15 * SECOND)
    count, next_of = 900, dict.fromkeys(NAMES, 0)
    found: list[tuple[int, dict[str, float]]] = []

    def send(name: str, until: int) -> None:
        at = np.arange(next_of[name], min(until, count))
        next_of[name] = max(next_of[name], min(until, count))
        if len(at):
            given = arrival(START + at * 15 * SECOND, at, (name,))
            found.extend(closed(aligner.take(given), aligner.channels))

    for name in NAMES:  # so that all are known
        send(name, 1)
    while min(next_of.values()) < count:
        name = str(rng.choice(NAMES, p=[0.4, 0.3, 0.2, 0.1]))
        send(name, next_of[name] + int(rng.integers(1, 60)))
    found += closed(aligner.close(aligner.newest + 1), aligner.channels)
    assert aligner.counts["late"] == 0
    assert [row for _, row in found[1:]] == [dict.fromkeys(NAMES, k) for k in range(1, count)]


def test_steps_do_not_wait_for_ever_for_a_channel_that_ended() -> None:
    aligner = Aligner(period=SECOND)
    for at in range(3):
        for name in ("a", "b"):
            aligner.take(arrival([START + at * SECOND], [[at]], (name,)))
    waiting = []
    for at in range(3, 3000):
        aligner.take(arrival([START + at * SECOND], [[at]], ("a",)))
        waiting.append(aligner.waiting)
    assert max(waiting) == 1000
    assert waiting[-1] == 3  # after five steps without "b" none waits for it


def test_a_channel_that_comes_again_is_waited_for_again() -> None:
    aligner = Aligner(period=10 * SECOND)
    found: list[tuple[int, dict[str, float]]] = []
    for at in range(40):
        for shift, name in ((0, "a"), (4, "b")):
            if name == "b" and 10 <= at < 20:
                continue
            time = START + (10 * at + shift) * SECOND
            steps = aligner.take(arrival([time], [[at]], (name,)), lambda: np.ones(2, bool))
            found += closed(steps, aligner.channels)
        if at == 17:  # by the clock
            found += closed(aligner.close(START + 150 * SECOND), aligner.channels)
    both = [row["a"] for _, row in found if len(row) == 2]
    assert both == [*range(1, 10), *range(22, 40)]
    assert aligner.counts["late"] == 2  # the first ones that came again


def test_steps_do_not_wait_for_a_channel_that_comes_seldom() -> None:
    aligner = Aligner(period=SECOND)
    waiting = []
    for at in range(600):
        aligner.take(arrival([START + at * SECOND], [[at]], ("a",)), lambda: np.ones(2, bool))
        if at % 60 == 0:
            time = START + at * SECOND + SECOND // 2
            aligner.take(arrival([time], [[at]], ("b",)), lambda: np.ones(2, bool))
        if at == 100:
            aligner.close(START + 100 * SECOND)  # by the clock
        waiting.append(aligner.waiting)
    assert max(waiting[110:]) == 1  # the step that "b" began, until "a" comes
