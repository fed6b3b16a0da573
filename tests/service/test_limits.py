"""What samples must keep to before they are taken in."""

from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from newnormal.arrivals.arrival import Arrival
from newnormal.arrivals.order import Order
from newnormal.engine.streams import (
    StreamRecord,
    StreamRecords,
    size_of_names,
    stream_from_json,
    stream_to_json,
)
from newnormal.io.decoders.base import TooManyError
from newnormal.service.config import Limits
from newnormal.service.limits import Arriving, LimitError, ServiceBusy, SharedLimit, check_limits

NOW = 1_800_000_000 * 10**9
DAY = 86_400 * 10**9


def arrival(stream: str, time: int = NOW, channels: tuple[str, ...] = ("a",)) -> Arrival:
    return Arrival(stream, channels, np.array([time]), np.ones((1, len(channels))))


def known(*names: str) -> StreamRecords:
    streams = StreamRecords()
    for number, name in enumerate(names, 1):
        order = Order()
        order.take(arrival(name, 1, ("a", "b")))
        streams.add(StreamRecord(number, name, order))
    return streams


def test_a_time_far_ahead_is_refused_and_one_of_the_past_is_taken() -> None:
    limits = Limits()
    check_limits([arrival("x", NOW + DAY), arrival("x", 0)], known(), limits, NOW)
    with pytest.raises(LimitError, match=r"expected times up to 2027-01-16.*found 2027-01-17"):
        check_limits([arrival("x", NOW + 2 * DAY)], known(), limits, NOW)


def test_channels_count_with_those_that_the_stream_has() -> None:
    limits = Limits(channels=3)
    check_limits([arrival("x", channels=("a", "b", "c"))], known("x"), limits, NOW)
    with pytest.raises(LimitError, match="at most 3 channels, found 4"):
        check_limits([arrival("x", channels=("c", "d"))], known("x"), limits, NOW)


def test_new_streams_count_once_however_often_they_come() -> None:
    limits = Limits(streams=2)
    check_limits([arrival("x"), arrival("y"), arrival("y")], known("x"), limits, NOW)
    with pytest.raises(LimitError, match="at most 2 streams, found 3"):
        check_limits([arrival("y"), arrival("z")], known("x"), limits, NOW)


# --- what requests share


def test_large_requests_have_half_a_budget_and_a_writer_half_of_that() -> None:
    budget = SharedLimit("bytes", small=10)
    first, second, third = (budget.lease(name, 400) for name in ("one", "one", "two"))
    first.take(90)
    with pytest.raises(ServiceBusy, match="at most 100 bytes at once of one, found 110"):
        second.take(20)
    third.take(100)
    with pytest.raises(ServiceBusy, match="at most 200 bytes at once, found 201"):
        budget.lease("three", 400).take(11)
    assert (budget.taken, budget.refused) == (190, 2)


def test_small_requests_have_the_other_half() -> None:
    budget = SharedLimit("bytes", small=10)
    budget.lease("one", 80).take(40)
    small = [budget.lease("one", 80) for _ in range(3)]
    small[0].take(10)
    small[1].take(10)
    with pytest.raises(ServiceBusy, match="at most 20 bytes at once of one, found 30"):
        small[2].take(10)
    small[0].close()
    small[2].take(10)
    assert budget.taken == 60


def test_a_request_that_grows_is_a_larger_one_and_gives_all_back() -> None:
    budget = SharedLimit("bytes", small=10)
    with budget.lease("one", 80) as lease:
        lease.take(8)
        lease.take(8)
        with budget.lease("one", 80) as other, pytest.raises(ServiceBusy):
            other.take(11)
        budget.lease("one", 80).take(10)  # small ones have as much as if it were not there
        assert (lease.amount, budget.taken) == (16, 26)
    assert (budget.taken, budget.freed) == (10, 16)


def test_a_request_alone_may_take_all_that_it_needs_up_to_its_longest() -> None:
    budget = SharedLimit("bytes", small=1)
    budget.lease("one", 80).take(500)
    lease = SharedLimit("bytes", small=1).lease("one", 80, 60)
    lease.take(60)
    with pytest.raises(TooManyError, match="at most 60 bytes, found one that takes more"):
        lease.take(1)


def test_what_random_requests_take_is_what_they_hold() -> None:
    rng = np.random.default_rng(3)
    budget, held = SharedLimit("bytes", small=20), list[Any]()
    for _ in range(3_000):
        if held and rng.random() < 0.4:
            held.pop(int(rng.integers(len(held)))).close()
        else:
            held.append(budget.lease(str(rng.integers(3)), 400))
        if held:
            with suppress(ServiceBusy):
                held[int(rng.integers(len(held)))].take(int(rng.integers(40)))
        for small in (True, False):
            mine = [each for each in held if (each.amount <= 20) == small]
            of_writers = [sum(e.amount for e in mine if e.writer == name) for name in "012"]
            several = [sum(1 for e in mine if e.writer == name and e.amount) > 1 for name in "012"]
            assert all(size <= 100 for size, two in zip(of_writers, several, strict=True) if two)
        assert budget.taken == sum(each.amount for each in held)


# --- what names take


def wide(stream: str, channels: int) -> Arrival:
    return arrival(stream, channels=tuple(f"c{k}" for k in range(channels)))


def test_new_names_of_a_writer_have_a_limit_in_bytes_also_before_they_are_applied() -> None:
    arriving, streams, limits = Arriving(), known(), Limits(names=100_000)
    applied = arriving.admit([wide("x", 30)], streams, limits, NOW, "one")
    with pytest.raises(LimitError, match=r"channels of one that take at most 50,000 bytes"):
        arriving.admit([wide("y", 30)], streams, limits, NOW, "one")
    other = arriving.admit([wide("y", 30)], streams, limits, NOW, "two")
    with pytest.raises(LimitError, match=r"channels that take at most 100,000 bytes"):
        arriving.admit([wide("z", 30)], streams, limits, NOW, "three")
    arriving.admit([wide("x", 30)], streams, limits, NOW, "one")  # the same names
    assert applied is not None and other is not None
    applied()
    other()
    arriving.admit([wide("y", 30)], streams, limits, NOW, "one")


def test_names_that_were_applied_count_until_their_stream_is_removed() -> None:
    arriving, streams, limits = Arriving(), known("x"), Limits(names=100_000)
    x = streams.named("x")
    assert x is not None
    x.order.take(wide("x", 30))
    streams.count_names(x, "one")
    streams.count_names(x, "two")  # nothing is new
    assert streams.names == {"one": size_of_names("x", x.order.channels)}
    with pytest.raises(LimitError, match="of one"):
        arriving.admit([wide("y", 30)], streams, limits, NOW, "one")
    copied = StreamRecords()
    copied.add(stream_from_json(stream_to_json(x)))
    assert copied.names == streams.names
    streams.remove(x)
    assert not streams.names
    arriving.admit([wide("y", 30)], streams, limits, NOW, "one")
