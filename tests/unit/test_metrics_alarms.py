"""The operator's table: events found, openings true and false, samples in alarm and pending."""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from newnormal.errors import InputError, ParameterError
from newnormal.metrics import AlarmCounts, count_alarms, trace_alarms
from newnormal.metrics.alarms import AFTER, BEFORE, find_events
from newnormal.metrics.evaluation import summary
from tests import naive_metrics


@dataclass(frozen=True)
class Numbered:
    number: int


@dataclass(frozen=True)
class Event:
    kind: str
    sample: int
    alarm: Numbered | None = None
    change: Numbered | None = None


def labelled(samples: int, *events: tuple[int, int]) -> Any:
    labels = np.zeros(samples, dtype=int)
    for first, last in events:
        labels[first : last + 1] = 1
    return labels


@pytest.mark.parametrize(
    ("opening", "found", "delay"),
    [(94, 0, None), (95, 1, 0), (100, 1, 0), (103, 1, 3), (119, 1, 19), (120, 0, None)],
)
def test_an_event_is_found_a_little_around_it(opening: int, found: int, delay: int | None) -> None:
    counts = count_alarms(labelled(1000, (100, 109)), [opening])
    assert counts.found == counts.true == found
    assert counts.false == 1 - found
    assert counts.delays == (() if delay is None else (delay,))


def test_every_opening_near_an_event_is_true_and_the_first_gives_the_delay() -> None:
    counts = count_alarms(labelled(1000, (100, 200)), [500, 150, 120, 205])
    assert (counts.events, counts.found, counts.openings, counts.true) == (1, 1, 4, 3)
    assert counts.delays == (20,)


def test_one_opening_may_find_two_events_and_is_counted_once() -> None:
    counts = count_alarms(labelled(1000, (100, 101), (105, 106)), [102])
    assert (counts.found, counts.openings, counts.true) == (2, 1, 1)
    assert counts.delays == (2, 0)


def test_days_are_those_of_normal_samples() -> None:
    counts = count_alarms(labelled(2000, (0, 999)), [1500, 1600], samples_per_day=500)
    assert counts.normal == 1000
    assert counts.days == 2.0
    assert counts.false_per_day == 1.0


def test_shares_are_of_normal_samples() -> None:
    labels = labelled(10, (0, 4))
    counts = count_alarms(labels, [], in_alarm=[1] * 6 + [0] * 4, pending=[0] * 8 + [1] * 2)
    assert counts.in_alarm_share == 0.2
    assert counts.pending_share == 0.4


def test_pooling_adds_counts_and_days_and_keeps_every_delay() -> None:
    one = count_alarms(labelled(500, (100, 109)), [102, 300], samples_per_day=100)
    other = count_alarms(labelled(300, (50, 59), (90, 99)), [50, 55], samples_per_day=50)
    both = one + other
    assert AlarmCounts.pooled([one, other]) == both
    assert (both.events, both.found, both.openings, both.true) == (3, 2, 4, 3)
    assert both.days == 490 / 100 + 280 / 50
    assert both.delays == (2, 0)
    assert both.mean_delay == both.median_delay == 1
    assert both.found_share == 2 / 3
    assert both.true_share == 0.75
    assert AlarmCounts.pooled([]) == AlarmCounts()


def test_with_nothing_to_divide_by_a_share_is_0_and_a_delay_is_nan() -> None:
    counts = count_alarms([1, 1], [])
    assert counts.false_per_day == counts.in_alarm_share == counts.pending_share == 0
    assert counts.found_share == counts.true_share == 0
    assert count_alarms([0, 0], []).found_share == 0
    assert math.isnan(counts.mean_delay)
    assert math.isnan(counts.median_delay)


def test_what_cannot_be_counted_is_refused() -> None:
    with pytest.raises(InputError, match="openings: expected samples from 0 to 1, found 2"):
        count_alarms([0, 1], [0, 2])
    with pytest.raises(InputError, match="openings: expected samples from 0 to 1, found -1"):
        count_alarms([0, 1], [-1])
    with pytest.raises(InputError, match="must cover the same samples, found 2 and 1"):
        count_alarms([0, 1], [], pending=[0])
    with pytest.raises(ParameterError, match="samples_per_day: expected more than 0, found 0"):
        count_alarms([0, 1], [], samples_per_day=0)


@given(data=st.data(), samples=st.integers(1, 120))
def test_counts_equal_those_of_the_slow_twin(data: st.DataObject, samples: int) -> None:
    flags = st.lists(st.booleans(), min_size=samples, max_size=samples).map(np.array)
    labels, in_alarm, pending = (data.draw(flags) for _ in range(3))
    openings = data.draw(st.lists(st.integers(0, samples - 1), max_size=10))
    comp = count_alarms(labels, openings, in_alarm=in_alarm, pending=pending, samples_per_day=10)
    ref = naive_metrics.alarm_counts(labels, openings, in_alarm, pending)
    found = asdict(comp)
    assert found.pop("days") == pytest.approx(comp.normal / 10)
    assert found == ref


# ---------------------------------------------------------------------- events


def test_an_alarm_is_open_from_its_opening_until_it_is_closed() -> None:
    one = Numbered(1)
    events = [Event("opened", 2, one), Event("updated", 3, one), Event("closed", 5, one)]
    trace = trace_alarms(events, 8)
    assert trace.openings.tolist() == [2]
    assert np.flatnonzero(trace.in_alarm).tolist() == [2, 3, 4]
    assert not trace.pending.any()


def test_alarms_that_overlap_are_open_until_the_last_is_closed() -> None:
    one, two = Numbered(1), Numbered(2)
    events = [
        Event("opened", 1, one),
        Event("opened", 3, two),
        Event("closed", 4, one),
        Event("closed", 6, two),
    ]
    trace = trace_alarms(events, 8)
    assert trace.openings.tolist() == [1, 3]
    assert np.flatnonzero(trace.in_alarm).tolist() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("end", ["accepted", "rejected", "reverted"])
def test_a_change_is_pending_until_it_is_accepted_rejected_or_reverted(end: str) -> None:
    change = Numbered(1)
    trace = trace_alarms([Event("changed", 2, None, change), Event(end, 6, None, change)], 9)
    assert trace.openings.tolist() == [2]
    assert np.flatnonzero(trace.pending).tolist() == [2, 3, 4, 5]
    assert not trace.in_alarm.any()


def test_a_change_that_began_with_an_alarm_is_one_opening_with_it() -> None:
    alarm, change = Numbered(7), Numbered(1)
    events = [
        Event("opened", 2, alarm),
        Event("changed", 4, alarm, change),
        Event("closed", 5, alarm),
        Event("changed", 6, None, Numbered(2)),
    ]
    trace = trace_alarms(events, 9)
    assert trace.openings.tolist() == [2, 6]
    assert np.flatnonzero(trace.in_alarm).tolist() == [2, 3, 4]
    assert np.flatnonzero(trace.pending).tolist() == [4, 5, 6, 7, 8]


def test_what_is_open_at_an_edge_is_open_up_to_it() -> None:
    events = [
        Event("closed", 12, Numbered(1)),
        Event("opened", 17, Numbered(2)),
        Event("rolled_back", 18, None, Numbered(1)),
    ]
    trace = trace_alarms(events, 10, first=10)
    assert np.flatnonzero(trace.in_alarm).tolist() == [0, 1, 7, 8, 9]
    assert trace.openings.tolist() == [7]


def test_openings_before_the_first_sample_are_not_counted_but_their_alarm_is_open() -> None:
    trace = trace_alarms(
        [Event("opened", 5, Numbered(1)), Event("closed", 12, Numbered(1))], 4, first=10
    )
    assert trace.openings.tolist() == []
    assert trace.in_alarm.tolist() == [True, True, False, False]


def test_a_trace_counts_itself() -> None:
    trace = trace_alarms(
        [Event("opened", 102, Numbered(1)), Event("closed", 120, Numbered(1))], 200
    )
    counts = trace.count(labelled(200, (100, 109)), samples_per_day=190)
    assert (counts.found, counts.false, counts.in_alarm, counts.days) == (1, 0, 10, 1.0)


@pytest.mark.parametrize(
    ("counts", "seconds", "lines"),
    [
        (
            AlarmCounts(4, 5, 3, 7200, 5.0, 72, 720, (0, 0, 12)),
            60.0,
            [
                "3 of 4 events found; median delay none, longest 12m",
                "0.4 false alarms a day: 2 in 5 days of normal samples",
                "1 % of normal samples in alarm, 10 % with a change pending",
            ],
        ),
        (
            AlarmCounts(1, 1, 1, 1440, 1.0, 0, 1440, (3,)),
            np.nan,
            [
                "1 of 1 event found, 3 samples after it began",
                "no false alarm in 1 day of normal samples",
                "0 % of normal samples in alarm, 100 % with a change pending",
            ],
        ),
        (
            AlarmCounts(0, 2, 0, 1440, 1.0, 1, 0),
            np.nan,
            [
                "no event is labelled: there was nothing to find",
                "2 false alarms a day of 1,440 samples: 2 in 1 day of normal samples",
                "under 0.1 % of normal samples in alarm, 0 % with a change pending",
            ],
        ),
        (AlarmCounts(2, 0, 0, 10, 1.0), 1.0, ["0 of 2 events found"]),
    ],
)
def test_the_summary_has_three_lines(counts: AlarmCounts, seconds: float, lines: list[str]) -> None:
    found = summary(counts, seconds)
    assert len(found) == 3
    assert found[: len(lines)] == lines
    assert max(map(len, found)) <= 80


@given(
    labels=st.lists(st.booleans(), min_size=1, max_size=200),
    places=st.lists(st.integers(0, 199), max_size=20),
)
def test_openings_that_find_an_event_are_counted(labels: list[bool], places: list[int]) -> None:
    openings = sorted(at for at in places if at < len(labels))
    found = find_events(labels, openings)
    near = [any(labels[max(at - AFTER, 0) : at + BEFORE + 1]) for at in openings]
    assert found.tolist() == near
    assert count_alarms(labels, openings).true == sum(near)
