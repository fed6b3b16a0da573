"""The order beside a slow and obvious twin, and what it promises."""

import json
from functools import partial
from typing import Any

import numpy as np
import pytest

from newnormal.arrivals.arrival import Arrival
from newnormal.arrivals.order import Order, Steps
from newnormal.types import Bools
from tests.naive_order import NaiveOrder
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


def complete(order: Order, needed: list[str] | None) -> Bools | None:
    return None if needed is None else np.array([name in needed for name in order.channels])


class Sender:
    """Sends the samples of one stream as people's senders do: well, late, twice, apart, ahead."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.period = int(rng.choice([1, 7, 60])) * SECOND
        self.jitter = float(rng.choice([0.0, 0.0, 0.1, 0.6]))
        self.disorder = float(rng.choice([0.0, 0.1, 0.5]))
        self.apart = bool(rng.random() < 0.5)
        self.wrong = float(rng.choice([0.0, 0.02, 0.2]))  # how often a clock is
        self.gaps = float(rng.choice([0.0, 0.02, 0.1]))
        self.known = list(NAMES[: rng.integers(1, 4)])
        self.at = 0

    def next(self) -> Arrival:
        rng = self.rng
        if rng.random() < 0.02:
            other = str(rng.choice(NAMES))
            self.known = [name for name in self.known if name != other] or ["a"]
        if rng.random() < 0.02:
            self.known.append(next((n for n in NAMES if n not in self.known), self.known.pop()))
        if rng.random() < self.gaps:
            self.at += self.far() // self.period
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
        if rng.random() < self.wrong:
            times[rng.integers(size) :][: rng.integers(1, 4)] += self.far()
        if rng.random() < self.disorder:
            times = times[rng.permutation(size)]
        values = rng.integers(0, 100, (size, len(channels))).astype(float)
        values[rng.random(values.shape) < 0.1] = np.nan
        return arrival(times, values, channels)

    def far(self) -> int:
        return int(self.period * 10 ** self.rng.uniform(1.5, 4.5))


@pytest.mark.cases(150, 5000)
def test_an_order_closes_as_its_twin(cases: range) -> None:
    each_seed(cases, compare)


def compare(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sender = Sender(rng)
    period = sender.period if rng.random() < 0.4 else None
    lateness = int(rng.integers(0, 4)) * sender.period if rng.random() < 0.4 else None
    own, twin = Order(period, lateness), NaiveOrder(period, lateness)
    live, at = False, 0
    for _ in range(60):
        live = live or bool(rng.random() < 0.05)
        needed = [name for name in own.channels if rng.random() < 0.9] if live else None
        given = sender.next()

        steps = own.take(given, partial(complete, own, needed))
        twin.take(given, needed)
        if rng.random() < (0.03 if own.held is None else 0.1):
            until = (own.newest if own.held is None else own.held) + 1
            more = own.close(until)
            twin.close(until)
            found = closed(steps, own.channels) + closed(more, own.channels)
        else:
            found = closed(steps, own.channels)
        assert found == twin.steps[at:]
        at = len(twin.steps)
        assert own.counts == twin.counts
        assert (own.newest, own.closed, own.waiting) == (twin.newest, twin.closed, len(twin.open))
        assert own.held == min((each.time for each in twin.held), default=None)
        if rng.random() < 0.1:
            own = Order.from_json(json.loads(json.dumps(own.to_json())))
    times = [time for time, _ in twin.steps]
    assert times == sorted(set(times))


def test_channels_that_come_apart_share_a_step() -> None:
    order = Order(period=10 * SECOND)
    found = []
    for at in range(8):
        for shift, channel in ((0, "a"), (2, "b"), (3, "c")):
            time = START + (10 * at + shift) * SECOND
            steps = order.take(arrival([time], [[at]], (channel,)))
            found += closed(steps, order.channels)
    first, second, *others = [row for _, row in found]
    assert (first, second) == ({"a": 0.0}, {"b": 0.0, "c": 0.0})  # nobody knew of "b" then
    assert others == [{"a": k, "b": k, "c": k} for k in range(1, 5)]


@pytest.mark.parametrize("seed", range(20))
def test_connections_that_are_far_apart_lose_nothing(seed: int) -> None:
    """Each channel comes in order, one may be hundreds of steps behind another."""
    rng = np.random.default_rng(seed)
    order = Order(period=15 * SECOND)
    count, next_of = 900, dict.fromkeys(NAMES, 0)
    found: list[tuple[int, dict[str, float]]] = []

    def send(name: str, until: int) -> None:
        at = np.arange(next_of[name], min(until, count))
        next_of[name] = max(next_of[name], min(until, count))
        if len(at):
            given = arrival(START + at * 15 * SECOND, at, (name,))
            found.extend(closed(order.take(given), order.channels))

    for name in NAMES:  # so that all are known
        send(name, 1)
    while min(next_of.values()) < count:
        name = str(rng.choice(NAMES, p=[0.4, 0.3, 0.2, 0.1]))
        send(name, next_of[name] + int(rng.integers(1, 60)))
    found += closed(order.close(order.newest + 1), order.channels)
    assert order.counts["late"] == 0
    assert [row for _, row in found[1:]] == [dict.fromkeys(NAMES, k) for k in range(1, count)]


def test_steps_do_not_wait_for_ever_for_a_channel_that_ended() -> None:
    order = Order(period=SECOND)
    for at in range(3):
        for name in ("a", "b"):
            order.take(arrival([START + at * SECOND], [[at]], (name,)))
    waiting = []
    for at in range(3, 3000):
        order.take(arrival([START + at * SECOND], [[at]], ("a",)))
        waiting.append(order.waiting)
    assert max(waiting) == 1000
    assert waiting[-1] == 3  # after five steps without "b" none waits for it


def test_a_channel_that_comes_again_is_waited_for_again() -> None:
    order = Order(period=10 * SECOND)
    found: list[tuple[int, dict[str, float]]] = []
    for at in range(40):
        for shift, name in ((0, "a"), (4, "b")):
            if name == "b" and 10 <= at < 20:
                continue
            time = START + (10 * at + shift) * SECOND
            steps = order.take(arrival([time], [[at]], (name,)), lambda: np.ones(2, bool))
            found += closed(steps, order.channels)
        if at == 17:  # by the clock
            found += closed(order.close(START + 150 * SECOND), order.channels)
    both = [row["a"] for _, row in found if len(row) == 2]
    assert both == [*range(1, 10), *range(22, 40)]
    assert order.counts["late"] == 2  # the first ones that came again


def test_steps_do_not_wait_for_a_channel_that_comes_seldom() -> None:
    order = Order(period=SECOND)
    waiting = []
    for at in range(600):
        order.take(arrival([START + at * SECOND], [[at]], ("a",)), lambda: np.ones(2, bool))
        if at % 60 == 0:
            time = START + at * SECOND + SECOND // 2
            order.take(arrival([time], [[at]], ("b",)), lambda: np.ones(2, bool))
        if at == 100:
            order.close(START + 100 * SECOND)  # by the clock
        waiting.append(order.waiting)
    assert max(waiting[110:]) == 1  # the step that "b" began, until "a" comes


# ------------------------------------------------------------------ times that are far ahead

HOUR = 3600 * SECOND
MINUTE = 60 * SECOND


def take(order: Order, minutes: Any, channels: tuple[str, ...] = ("a",)) -> list[float]:
    """Give an order samples of some minutes; return the minutes of the steps that close."""
    times = START + np.round(np.asarray(minutes, float) * MINUTE).astype(np.int64)
    values = np.ones((len(times), len(channels)))
    return in_minutes(order.take(arrival(times, values, channels)))


def in_minutes(steps: Steps) -> list[float]:
    return [(time - START) / MINUTE for time in steps.times.tolist()]


def begun(count: int = 20, **given: Any) -> Order:
    """Return the order of a stream that has sent a sample each minute."""
    order = Order(**given)
    for at in range(count):
        assert len(take(order, [at])) == (1 if order.lateness is None else at > 1)
    return order


@pytest.mark.parametrize("known", [True, False], ids=["period", "first steps"])
@pytest.mark.parametrize("lateness", [None, 2 * MINUTE])
def test_one_sample_far_ahead_makes_no_other_one_late(known: bool, lateness: int | None) -> None:
    order = begun(period=MINUTE if known else None, lateness=lateness)
    assert take(order, [1220]) == []
    held = Order.from_json(json.loads(json.dumps(order.to_json())))
    for each in (order, held):
        found = [minute for at in range(20, 30) for minute in take(each, [at])]
        assert found == [*range(20 if lateness is None else 18, 30 if lateness is None else 28)]
        assert each.counts == {"late": 0, "duplicate": 0, "out_of_order": 0, "jumped": 1}
        assert each.held is None


def test_history_in_one_arrival_loses_nothing_at_its_gaps() -> None:
    minutes = [*range(20), 200, *range(1000, 1020), 5000, 5001]
    order = Order()
    assert take(order, minutes) == minutes[:-2]
    assert in_minutes(order.close(START + 5001 * MINUTE + 1)) == minutes[-2:]
    assert not any(order.counts.values())


def test_a_long_gap_lets_no_wrong_time_through_and_short_ones_become_ordinary() -> None:
    order = begun()
    take(order, [1500, 1501, 1502])
    assert take(order, [1502 + 1200]) == []
    assert take(order, [1503]) == [1503]

    fast = Order(period=SECOND)
    take(fast, [0, 1, 2])
    assert take(fast, [10]) == []
    assert take(fast, [20]) == []
    assert take(fast, [30]) == [10, 20, 30]
    assert take(fast, [40]) == [40]


def test_the_same_time_again_confirms_nothing() -> None:
    order = begun()
    assert [take(order, [1220]) for _ in range(40)] == [[]] * 40
    assert take(order, [20]) == [20]
    assert (order.counts["jumped"], order.counts["late"]) == (40, 0)


def test_a_wrong_time_of_each_channel_that_comes_apart_is_dropped() -> None:
    order = Order(period=MINUTE)
    rows = []
    for at in range(60):
        for shift, name in ((0.0, "a"), (0.1, "b"), (0.2, "c")):
            minute = at + shift + (1200 if at == 30 else 0)
            rows += take(order, [minute], (name,))
    assert max(rows) < 60 and len(rows) == 57  # the first step is two, the newest ones wait
    assert (order.counts["late"], order.counts["jumped"]) == (0, 3)


def test_one_connection_is_back_where_another_still_brings_what_was_before() -> None:
    order = Order(period=MINUTE)
    found: list[tuple[int, dict[str, float]]] = []

    def send(name: str, at: int) -> None:
        steps = order.take(arrival([START + at * MINUTE], [[at]], (name,)))
        found.extend(closed(steps, order.channels))

    for at in range(10):
        send("a", at)
        send("b", at)
    for at in range(240):  # of a every second minute: b catches up
        if at % 2 == 0:
            send("a", 130 + at // 2)
        send("b", 10 + at)
    found += closed(order.close(order.newest + 1), order.channels)
    assert (order.counts["late"], order.counts["jumped"]) == (0, 0)
    values = [row[name] for name in ("a", "b") for _, row in found if name in row]
    assert values == [*range(10), *range(130, 250), *range(1, 250)]  # the first had no "b"


def test_a_slow_channel_is_taken_when_another_has_confirmed_the_gap() -> None:
    order = Order(period=MINUTE)
    for at in range(20):
        take(order, [at], ("a",))
        if at % 10 == 0:
            take(order, [at + 0.2], ("slow",))
    take(order, [500], ("a",))
    take(order, [500.2], ("slow",))
    take(order, [501], ("a",))
    before = order.held
    take(order, [502], ("a",))
    assert (before, order.held) == (START + 500 * MINUTE, None)
    assert (order.counts["late"], order.counts["jumped"]) == (0, 0)


def test_a_period_that_becomes_known_counts_from_then_on() -> None:
    order = begun()
    assert take(order, [119]) == [119]
    order.period = SECOND
    assert take(order, [122]) == []


def test_another_period_loses_nothing_of_channels_that_come_apart() -> None:
    order = Order(10 * SECOND)
    taken: list[float] = []
    for at in range(40):
        period = 10 if at < 20 else 20
        if at == 20:
            order.follow(20 * SECOND)
        begin = START + (at * 10 if at < 20 else 200 + (at - 20) * 20) * SECOND
        for place, channel in enumerate("ab"):
            time = np.array([begin + place * period * SECOND // 4])
            given = Arrival("m", (channel,), time, np.array([[2.0 * at + place]]))
            taken += order.take(given).values.ravel().tolist()
    taken += order.close(order.newest + 1).values.ravel().tolist()
    assert [each for each in taken if each == each] == list(range(80))
    assert not any(order.counts.values())
