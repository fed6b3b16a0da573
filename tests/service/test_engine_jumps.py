"""Wrong clocks, gaps and repeated samples, through the whole service."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from newnormal.arrivals.arrival import Arrival
from newnormal.engine.clock import StreamClock
from newnormal.engine.log import entries as log
from newnormal.engine.streams import StreamRecord
from newnormal.engine.values import StreamView
from newnormal.service.service import Service
from tests.present import present
from tests.service.running import (
    HISTORY,
    PERIOD,
    SECOND,
    START,
    Start,
    arrival,
    config_of,
    fit_next,
    go_live,
    push,
    running,
    samples,
    settle,
)

HOURS_20 = 1200  # samples
LAST = START + (HISTORY - 1) * PERIOD


class Clock:
    """The clock of a service, which a test sets: nothing else decides by it."""

    def __init__(self, service: Service, patch: pytest.MonkeyPatch) -> None:
        self.service = service
        self.elapsed = 0.0
        self.ahead = 0  # of the time that is right for the history, in ns
        patch.setattr(service, "_decide", lambda: None)
        patch.setattr(service, "_clock", StreamClock(self.now, lambda: self.elapsed))
        mark_active = service._clock.mark_active
        mark_active({each.id: each for each in service.applier.streams})

    def now(self) -> int:
        return LAST + self.ahead + round(self.elapsed * 1e9)

    def decide(self, seconds: float) -> list[log.Entry]:
        """Decide some seconds later, and apply it; return what was decided."""
        self.elapsed += seconds
        found: list[log.Entry] = list(self.service._clock.decide(self.service.applier.streams))
        for entry in found:
            self.service._engine.submit(entry, internal=True).applied.result()
        return found


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    with running(config_of(tmp_path), monkeypatch) as found:
        go_live(found)
        yield found


def shown(service: Service) -> StreamView:
    return present(service.stream_named("m"))


def kept(service: Service) -> StreamRecord:
    return present(service.applier.streams.named("m"))


def send(service: Service, *places: int, fault: float = 0.0) -> None:
    """Push samples one by one."""
    for at in places:
        push(service, arrival(at, samples(at, 1) + fault))


def test_after_one_sample_20_hours_ahead_faults_are_judged_and_alarm(service: Service) -> None:
    send(service, HISTORY + HOURS_20)
    assert shown(service).samples == HISTORY
    for first in range(HISTORY, HISTORY + 60, 20):
        push(service, arrival(first, samples(first, 20) + 20))
    view = shown(service)
    assert (view.samples, view.newest) == (HISTORY + 60, LAST + 60 * PERIOD)
    assert (view.counts["jumped"], view.counts["late"]) == (1, 0)
    assert view.counts["alarms"] == 1
    assert service.store.items.page(kinds=["alarm"], limit=500).items


def test_a_stream_without_a_model_is_not_blinded_either(start: Start) -> None:
    with start() as service:
        send(service, *range(12), 12 + HOURS_20, *range(12, 20))
        view = shown(service)
        assert (view.samples, view.counts["jumped"], view.counts["late"]) == (20, 1, 0)


def test_after_a_gap_of_a_day_nothing_is_lost(service: Service) -> None:
    first = HISTORY + 1440
    send(service, first, first + 1)
    assert shown(service).samples == HISTORY
    send(service, first + 2)
    assert shown(service).samples == HISTORY + 3
    rows = service.store.samples.rows(1, HISTORY, HISTORY + 2)
    assert ((rows.times - START) // PERIOD).tolist() == [first, first + 1, first + 2]
    assert shown(service).counts["jumped"] == 0


def test_a_gap_in_a_longer_arrival_is_taken_at_once(service: Service) -> None:
    push(service, arrival(HISTORY + 1440, samples(HISTORY + 1440, 3)))
    assert shown(service).samples == HISTORY + 3


def test_the_clock_takes_a_last_sample(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(service, monkeypatch)
    clock.elapsed = 100_000.0
    at = HISTORY + 1664  # about now
    send(service, at)
    assert [type(each) for each in clock.decide(0.0)] == [log.Silent]
    assert clock.decide(10.0) == []
    assert clock.decide(1.0) == [log.Closed(1, START + at * PERIOD + 1)]
    assert shown(service).samples == HISTORY + 1
    assert shown(service).attention == ""  # the silence is over
    assert clock.decide(50.0) == []


def test_an_old_sample_is_taken_once_the_stream_was_quiet_for_as_long_as_it_may_be(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(service, monkeypatch)
    clock.ahead = 10_000 * PERIOD
    send(service, HISTORY + 500)
    assert clock.decide(100.0) == []
    assert not any(isinstance(each, log.Closed) for each in clock.decide(300.0))
    assert clock.decide(1.0) == [log.Closed(1, START + (HISTORY + 500) * PERIOD + 1)]
    assert shown(service).samples == HISTORY + 1


def test_what_is_ahead_is_not_taken_yet(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(service, monkeypatch)
    send(service, HISTORY + HOURS_20)
    assert clock.decide(0.0) == []
    assert [type(each) for each in clock.decide(3600.0)] == [log.Silent]
    assert clock.decide(3600.0) == []
    send(service, HISTORY)
    assert shown(service).samples == HISTORY + 1


def test_the_clock_begins_anew_meanwhile(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that catches up slowly is not cut off by a sample of now."""
    clock = Clock(service, monkeypatch)
    clock.elapsed = 100_000.0
    for at in range(HISTORY, HISTORY + 5):
        send(service, HISTORY + 1664, at)
        assert not any(isinstance(each, log.Closed) for each in clock.decide(9.0))
    assert shown(service).samples == HISTORY + 5


def test_a_stream_that_repeats_is_silent(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(service, monkeypatch)
    found: list[log.Entry] = []
    for _ in range(10):
        send(service, HISTORY - 1)
        found += clock.decide(60.0)
    assert [type(each) for each in found] == [log.Silent]
    assert (shown(service).attention, shown(service).counts["duplicate"]) == ("silence", 10)
    send(service, HISTORY)
    assert shown(service).attention == ""


def test_a_stream_that_is_late_is_silent(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(service, monkeypatch)
    send(service, HISTORY + 90)  # no jump: less than a hundred periods
    found: list[log.Entry] = []
    for at in range(HISTORY, HISTORY + 10):
        send(service, at)
        found += clock.decide(60.0)
    assert [type(each) for each in found] == [log.Silent]
    assert (shown(service).attention, shown(service).counts["late"]) == ("silence", 10)


def test_a_stream_going_on_is_not_silent(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(service, monkeypatch)
    for at in range(HISTORY, HISTORY + 10):
        send(service, at)
        assert clock.decide(60.0) == []


@pytest.mark.parametrize("by_checkpoint", [True, False], ids=["checkpoint", "log"])
def test_what_is_held_is_there_after_a_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_checkpoint: bool
) -> None:
    config = config_of(tmp_path)
    first = HISTORY + 1440
    with monkeypatch.context() as patch, running(config, patch) as service:
        go_live(service)
        if not by_checkpoint:
            save = "newnormal.service.service.save_checkpoint"
            patch.setattr(save, lambda applier: applier.position)
        send(service, HISTORY + HOURS_20, HISTORY, first, first + 1)
        before = kept(service).order.to_json()
        assert kept(service).order.held == START + first * PERIOD
    with running(config, monkeypatch) as service:
        assert kept(service).order.to_json() == before
        send(service, first + 2)
        assert (shown(service).samples, shown(service).counts["jumped"]) == (HISTORY + 4, 1)


def test_what_is_held_when_history_is_uploaded_is_not_lost(start: Start) -> None:
    with start() as service:
        send(service, *range(HISTORY, HISTORY + 12), HISTORY + 1440)
        past = arrival(0, samples(0, HISTORY))
        service.push([past], history=True).result()
        settle(service)
        fit_next(service)
        assert shown(service).samples == HISTORY + 12
        send(service, HISTORY + 1441, HISTORY + 1442)
        assert shown(service).samples == HISTORY + 15


def test_channels_at_several_connections_come_back_after_a_gap(start: Start) -> None:
    with start(streams={"period": 10 * SECOND}) as service:
        for at in [*range(20), *range(2000, 2020)]:
            for shift, channel in enumerate(("a", "b", "c")):
                time = np.array([START + at * 10 * SECOND + shift * SECOND])
                push(service, Arrival("m", (channel,), time, np.array([[1.0]])))
        counts = shown(service).counts
        assert (counts["late"], counts["jumped"]) == (0, 0)
        rows = service.store.samples.rows(
            1, 2, shown(service).samples - 1
        )  # after those of the start
        assert not np.isnan(rows.values).any()
        assert shown(service).samples >= 37
