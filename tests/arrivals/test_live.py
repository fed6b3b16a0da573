"""Live samples in order: equal to a slow twin after every step, and to the finished series."""

import json
import time
from typing import Any

import numpy as np
import pytest

from newnormal.errors import InputError, StateError
from newnormal.tabular import Problem, Reading, Table
from newnormal.tabular.ordering.arranging import arranged
from newnormal.tabular.ordering.live import LiveOrder, OrderedSamples
from newnormal.types import Floats, Times
from tests.naive_order import NaiveLive
from tests.present import present

MINUTE = np.timedelta64(60, "s")
START = np.datetime64("2026-01-01", "ns")
OPTIONS: list[dict[str, Any]] = [
    {},
    {"lateness": "3min"},
    {"on_duplicate": "last"},
    {"on_duplicate": "mean"},
    {"lateness": "4min", "on_duplicate": "mean"},
    {"rates": "a"},
    {"resample": "5min"},
    {"resample": "40s", "rates": ["a", "b"], "lateness": "2min", "on_duplicate": "last"},
]


def times_of(rng: np.random.Generator, count: int) -> Times:
    """Return times with disorder, duplicates, gaps, and ones far ahead."""
    minutes = np.cumsum(rng.choice([1, 1, 1, 1, 2, 7], count)).astype(float)
    minutes += np.cumsum(rng.random(count) < 0.02) * rng.choice([90, 300, 2000, 70000])
    minutes -= rng.choice([0, 0, 0, 0, 0, 1, 1.5, 4], count)
    far = rng.random(count) < 0.03
    minutes[far] += rng.choice([5000, 80_000_000], int(far.sum()))
    return START + (minutes * 60).astype(np.int64) * np.timedelta64(1, "s")


def values_of(rng: np.random.Generator, count: int) -> Floats:
    values = np.cumsum(rng.random((count, 2)), axis=0)
    values[rng.random((count, 2)) < 0.1] = np.nan
    return values


def listed(arrived: OrderedSamples) -> list[Any]:
    """Return samples and refused numbers in the order in which they came out."""
    found: list[Any] = []
    problems = list(arrived.problems)
    for at, (when, row) in enumerate(
        zip(present(arrived.times).astype(np.int64).tolist(), arrived.values.tolist(), strict=True)
    ):
        while problems and problems[0].before <= at:
            found.append(("refused", problems.pop(0).number))
        found.append(("sample", when, row))
    return [*found, *(("refused", each.number) for each in problems)]


def restarted(arrival: LiveOrder, reading: Reading) -> LiveOrder:
    other = LiveOrder(reading, ("a", "b"), MINUTE)
    other.restore(json.loads(json.dumps(arrival.facts(), allow_nan=False)))
    return other


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("seed", range(12))
def test_it_is_equal_to_its_twin_after_every_piece(options: dict[str, Any], seed: int) -> None:
    rng = np.random.default_rng(seed)
    reading = Reading.of(options)
    count = 400
    times, values = times_of(rng, count), values_of(rng, count)
    period = int(MINUTE / np.timedelta64(1, "ns"))
    twin = NaiveLive(reading, [("a", "b").index(each) for each in reading.rates], period)
    arrival = LiveOrder(reading, ("a", "b"), MINUTE)
    found: list[Any] = []
    at = 0
    while at < count:
        end = min(count, at + int(rng.choice([1, 2, 7, 60])))
        found += listed(arrival.push(values[at:end], times[at:end], list(range(at, end))))
        for row in range(at, end):
            when = int(times[row].astype(np.int64))
            twin.push(when, row, values[row].tolist())
        assert repr(found) == repr(twin.out)  # repr: NaN is equal to NaN
        if rng.random() < 0.3:
            arrival = restarted(arrival, reading)
        at = end
    found += listed(arrival.flush())
    twin.flush()
    assert repr(found) == repr(twin.out)
    assert any(kind == "refused" for kind, *_ in found)


@pytest.mark.parametrize("options", [{"rates": "a"}, {"resample": "5min"}, OPTIONS[-1]], ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_pieces_are_equal_to_the_finished_series(options: dict[str, Any], seed: int) -> None:
    rng = np.random.default_rng(seed)
    reading = Reading.of(options)
    count = 3000
    steps = rng.choice([0.5, 1, 1, 3, 80, 500], count, p=[0.3, 0.3, 0.3, 0.09, 0.008, 0.002])
    times = START + (np.cumsum(steps) * 60).astype(np.int64) * np.timedelta64(1, "s")
    values = values_of(rng, count)
    whole = arranged(Table(values, ("a", "b"), times), reading)
    arrival = LiveOrder(reading, ("a", "b"), MINUTE)
    parts, at = [], 0
    while at < count:
        end = at + int(rng.choice([1, 5, 200]))
        parts.append(arrival.push(values[at:end], times[at:end]))
        arrival = restarted(arrival, reading)
        at = end
    parts.append(arrival.flush())
    np.testing.assert_array_equal(np.concatenate([each.values for each in parts]), whole.values)
    moments = np.concatenate([each.times for each in parts if each.times is not None])
    np.testing.assert_array_equal(moments, present(whole.times))


def pushed(minutes: list[float], **options: Any) -> tuple[LiveOrder, OrderedSamples]:
    arrival = LiveOrder(Reading.of(options), ("a", "b"), MINUTE)
    count = len(minutes)
    times = START + (np.array(minutes) * 60).astype(np.int64) * np.timedelta64(1, "s")
    values = np.arange(2.0 * count).reshape(count, 2)
    return arrival, arrival.push(values, times, list(range(2, count + 2)))


def test_samples_in_order_go_through_as_they_are() -> None:
    arrival = LiveOrder(Reading(), ("a", "b"), MINUTE)
    count = 1000  # of which the last is far ahead of the first
    values, times = np.zeros((count, 2)), START + np.arange(count) * MINUTE
    numbers = list(range(2, count + 2))
    arrival.push(values[:1], times[:1] - MINUTE, [1])
    arrived = arrival.push(values, times, numbers)
    assert arrived.values is values and arrived.times is times and arrived.numbers is numbers


def test_a_gap_is_confirmed_by_two_further_samples() -> None:
    arrival, arrived = pushed([0, 1, 4321, 4322])
    assert len(arrived.values) == 2 and arrival.held == 2
    times = START + np.array([4323]) * MINUTE
    arrived = arrival.push(np.zeros((1, 2)), times, [6])
    assert len(arrived.values) == 3 and not arrived.problems
    assert arrived.notes == ("line 4: a gap of 3 d, confirmed",)
    again = arrival.push(np.zeros((1, 2)), times + 4320 * MINUTE, [7])
    assert not len(again.values), "a gap over an hour is confirmed each time"


def test_another_pace_is_no_wrong_clock() -> None:
    _, arrived = pushed([0, 1, 2, *range(1000, 10000, 1000)])
    assert len(arrived.values) == 12 and not arrived.problems


def test_a_wrong_clock_beside_a_gap() -> None:
    _, arrived = pushed([0, 1, 5000, 90_000_000, 5001, 5002, 5003])
    assert [each.number for each in arrived.problems] == [5]
    assert len(arrived.values) == 6


def test_at_the_end_what_is_far_ahead_is_refused() -> None:
    arrival, arrived = pushed([0, 1, 90_000_000])
    assert len(arrived.values) == 2
    waiting = arrival.waiting()
    assert waiting is not None and "far ahead of 2026-01-01T00:01:00: held back" in waiting
    assert [each.number for each in arrival.flush().problems] == [4]
    assert arrival.waiting() is None


def test_where_the_period_is_not_known_a_jump_is_longer_than_a_day() -> None:
    arrival = LiveOrder(Reading(), ("a",))
    times = START + np.array([0, 1440, 2881]) * MINUTE
    assert len(arrival.push(np.zeros((3, 1)), times).values) == 2


def test_problems_keep_their_places() -> None:
    from newnormal.tabular import Problem

    arrival = LiveOrder(Reading.of(on_duplicate="last"), ("a",), MINUTE)
    bad = Problem(InputError("no sample"), 4, 2)
    arrived = arrival.push(np.zeros((3, 1)), START + np.arange(3) * MINUTE, [2, 3, 5], [bad])
    assert [(each.number, each.before) for each in arrived.problems] == [(4, 1)]
    assert arrived.numbers == [2, 3]


def test_a_time_that_is_there_twice_can_end_the_stream() -> None:
    _, arrived = pushed([0, 1, 1, 2], on_duplicate="error")
    assert len(arrived.values) == 2 and arrived.error is not None
    assert arrived.error.number == 4
    assert arrived.error.error.message == (
        "expected each time once, found 2026-01-01T00:01:00 again, as in line 3"
    )


def test_samples_that_are_sent_again_are_left_out() -> None:
    reading = Reading.of(lateness="2min")
    arrival, first = pushed([0, 1, 2, 3, 4], lateness="2min")
    other = LiveOrder(reading, ("a", "b"), MINUTE)
    other.restore(arrival.facts(), again=True)
    times = START + np.arange(1, 8) * MINUTE
    arrived = other.push(np.arange(14.0).reshape(7, 2) + 2, times)
    assert not arrived.problems
    found = np.concatenate([first.values, arrived.values, other.flush().values])
    np.testing.assert_array_equal(found, np.arange(16.0).reshape(8, 2))


def test_options_that_are_gone_lose_nothing() -> None:
    arrival, first = pushed([0, 1, 1, 2, 4, 3], lateness="2min", on_duplicate="mean")
    other = restarted(arrival, Reading())
    arrived = other.push(np.zeros((1, 2)), START + np.array([5]) * MINUTE)
    minutes = (np.concatenate([present(first.times), present(arrived.times)]) - START) / MINUTE
    assert minutes.tolist() == [0, 1, 2, 3, 4, 5]
    assert other.plain


def test_without_times_some_options_are_errors() -> None:
    arrival = LiveOrder(Reading.of(resample="1min"), ("a",))
    with pytest.raises(InputError, match="expected samples with times"):
        arrival.push(np.zeros((1, 1)), None)
    rates = LiveOrder(Reading.of(rates="a"), ("a",))
    assert rates.push(np.array([[1.0], [3.0]]), None).values[1, 0] == 2


@pytest.mark.parametrize("facts", [{}, {"newest": 1, "limit": "x"}, {"newest": 1, "limit": None}])
def test_facts_of_something_else_are_a_state_error(facts: dict[str, Any]) -> None:
    with pytest.raises(StateError, match="expected the samples that are held back"):
        LiveOrder(Reading(), ("a",)).restore(facts)


def test_wrong_clocks_take_linear_time() -> None:
    count = 60_000
    minutes = np.arange(count, dtype=np.int64)
    minutes[1::2] += 50_000_000
    arrival = LiveOrder(Reading(), ("a",), MINUTE)
    begin = time.perf_counter()
    arrived = arrival.push(np.zeros((count, 1)), START + minutes * MINUTE)
    assert time.perf_counter() - begin < 10  # 1.5 s on a quiet machine
    assert len(arrived.values) == count // 2


@pytest.mark.parametrize(
    "options",
    [
        {"rows": "3:40"},
        {"rows": "17:", "rates": "a"},
        {"from_": START + 20 * MINUTE, "until": START + 45 * MINUTE},
        {"rows": ":50", "resample": "5min", "from_": START + 20 * MINUTE},
    ],
)
def test_part_of_the_samples_is_taken_in_pieces_as_at_once(options: dict[str, Any]) -> None:
    reading = Reading.of(options)
    values = values_of(np.random.default_rng(0), 60)
    times = START + np.arange(60) * MINUTE
    expected = arranged(Table(values, ("a", "b"), times), reading)
    arrival, found = LiveOrder(reading, ("a", "b"), MINUTE), []
    for at in range(0, 60, 7):
        arrival = restarted(arrival, reading)
        found.append(arrival.push(values[at : at + 7], times[at : at + 7]))
    found.append(arrival.flush())
    np.testing.assert_array_equal(np.concatenate([each.values for each in found]), expected.values)
    taken = [each.times for each in found if each.times is not None]
    np.testing.assert_array_equal(np.concatenate(taken), expected.times)


def test_part_of_samples_without_times_is_taken() -> None:
    arrival = LiveOrder(Reading.of(rows="2:5"), ("a",))
    problems = [Problem(InputError("bad"), 13, 1), Problem(InputError("bad"), 16, 3)]
    first = arrival.push(np.arange(4.0)[:, None], None, [11, 12, 14, 15], problems)
    assert first.values[:, 0].tolist() == [2, 3]
    assert first.numbers == [14, 15]
    assert [each.before for each in first.problems] == [0, 1]
    assert arrival.push(np.arange(4.0, 8)[:, None], None).values[:, 0].tolist() == [4]
    assert not len(arrival.push(np.ones((3, 1)), None).values)
