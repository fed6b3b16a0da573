"""Which alarms, changes and incidents have alerts, and that each ends what it began."""

from collections.abc import Iterator

import numpy as np
import pytest

from newnormal.engine.log import entries as log
from newnormal.engine.outages import longest_quiet
from newnormal.service.config import SinkConfig
from newnormal.service.service import Service
from newnormal.types import Floats
from tests.present import present
from tests.service.running import (
    HISTORY,
    SECOND,
    Start,
    arrival,
    fit_next,
    fits,
    number,
    push,
    settle,
)

SINKS = (SinkConfig("lines", "newnormal.testing:MemoryAlertSink"),)
NAMES = ("m", "n", "o")
N = HISTORY + 10  # the next sample


@pytest.fixture
def started(start: Start) -> Start:
    return lambda: start(sinks=SINKS, streams={"accept_after": "never"})


@pytest.fixture
def service(started: Start) -> Iterator[Service]:
    with started() as made:
        yield made


def calm(first: int, count: int) -> Floats:
    """Return samples without a course, so that a gap changes nothing for the ones behind it."""
    found: Floats = np.random.default_rng(1).normal(0, 0.1, (2000, 2))[first : first + count]
    return found


def go_live(service: Service, *names: str) -> None:
    """Bring streams to life, each with ten samples behind its history."""
    for name in names or ("m",):
        send(service, 0, calm(0, HISTORY), name)
        fits(service).fit()
        send(service, HISTORY, calm(HISTORY, 10), name)


def send(service: Service, first: int, values: Floats, *names: str) -> None:
    push(service, *(arrival(first, values, name) for name in names or ("m",)))


def alerts(service: Service, begin: str = "", about: str = "") -> list[str]:
    """Return the keys of alerts that begin so and are about something, in their order."""
    found = service.store.outbox.all()
    return [
        each.key for each in found if each.key.startswith(begin) and about in each.body["sentence"]
    ]


def items(service: Service, *kinds: str, open_only: bool = True) -> list[tuple[str, str]]:
    found = service.store.items.page(kinds=kinds or None, open_only=open_only, limit=500).items
    return sorted((each.key, each.state) for each in found)


def fall_silent(service: Service, seconds: int = 400) -> None:
    stream = present(service.applier.streams.named("m"))
    since = stream.order.closed
    entry = log.Silent(stream.id, since, since + seconds * SECOND)
    service._engine.submit(entry, internal=True).applied.result()


def without_b(first: int, count: int, since: int) -> Floats:
    """Return samples whose second channel is missing from a row on."""
    values = calm(first, count)
    values[since:, 1] = np.nan
    return values


def test_a_gap_of_the_services_own_has_no_alert(started: Start) -> None:
    with started() as service:
        go_live(service)
    with started() as service:
        send(service, N + 30, calm(N + 30, 5))
        assert items(service, "alarm", open_only=False) == [("alarm-1-1-1", "closed")]
        assert alerts(service) == []
        send(service, N + 65, calm(N + 65, 5))  # a gap that is the sender's
        assert alerts(service) == ["alarm-1-1-2:fired", "alarm-1-1-2:resolved"]


def test_what_else_happens_in_the_first_samples_after_a_restart_is_told(started: Start) -> None:
    with started() as service:
        go_live(service, *NAMES)
    with started() as service:
        send(service, N + 30, without_b(N + 30, 60, 20))
        assert items(service, "alarm", open_only=False)[0] == ("alarm-1-1-1", "closed")  # the gap
        assert alerts(service, about="b missing") == ["alarm-1-1-2:fired"]
        values = np.concatenate([calm(N + 30, 10), calm(N + 60, 5)])
        times = arrival(0, calm(0, 1)).times[0] + 60 * SECOND * np.r_[180:190, 210:215]
        push(service, arrival(0, values, "n")._replace(times=times.astype(np.int64)))
        # The gap before the first sample is known, the one among them is not.
        assert alerts(service, "alarm-2", "no sample") == [
            "alarm-2-1-2:fired",
            "alarm-2-1-2:resolved",
        ]


def test_streams_that_fail_together_after_a_restart_are_one_incident(started: Start) -> None:
    with started() as service:
        go_live(service, *NAMES)
    with started() as service:
        send(service, N, calm(N, 4) + 8, *NAMES)
        assert alerts(service, "incident") == ["incident-1:fired"]


def test_streams_that_come_back_one_after_the_other_are_no_incident(started: Start) -> None:
    with started() as service:
        go_live(service, *NAMES)
    with started() as service:
        for name in NAMES:  # in records of their own
            send(service, N + 30, calm(N + 30, 5), name)
        assert items(service, "incident") == [("incident-1", "open")]
        send(service, N + 35, calm(N + 35, 20), *NAMES)
        assert alerts(service) == []


def test_what_ends_in_the_first_samples_after_a_restart_is_resolved(started: Start) -> None:
    with started() as service:
        go_live(service)
        send(service, N, without_b(N, 20, 0))
    with started() as service:
        send(service, N + 20, calm(N + 20, 10))
        assert alerts(service, about="b missing") == ["alarm-1-1-1:fired", "alarm-1-1-1:resolved"]


def test_a_gap_that_was_told_is_not_told_again_by_the_next_model(service: Service) -> None:
    go_live(service)
    send(service, N, calm(N, 200))
    service.refit(number(service)).result()
    send(service, N + 200, calm(N + 200, 5))
    fall_silent(service)
    send(service, N + 230, calm(N + 230, 5))
    told = ["silence-1-1-1:fired", "silence-1-1-1:resolved"]
    assert alerts(service, about="no sample") == told
    fit_next(service)
    found = service.store.items.page(kinds=["alarm"], limit=500).items
    again = {each.key: each.state for each in found if "no sample" in each.sentence}
    assert again["alarm-1-2-1"] == "closed"
    assert alerts(service, about="no sample") == told


def test_a_restart_during_the_first_fit_has_no_alert(started: Start) -> None:
    with started() as service:
        send(service, 0, calm(0, HISTORY))
        send(service, HISTORY, calm(HISTORY, 10))
    with started() as service:
        send(service, N + 30, calm(N + 30, 5))
        fit_next(service)
        assert items(service, "alarm", open_only=False) == [("alarm-1-1-1", "closed")]
        assert alerts(service) == []


def test_an_incident_that_had_ended_and_goes_on_is_told_again(service: Service) -> None:
    late = ("p", "q", "r")
    go_live(service, *NAMES, *late)
    send(service, N, calm(N, 2) + 8, *NAMES)
    send(service, N + 2, calm(N + 2, 6), *NAMES)
    assert alerts(service, "incident") == ["incident-1:fired", "incident-1:resolved"]
    values = calm(N, 7)
    values[4:] += 8
    send(service, N, values, *late)
    assert items(service, "incident") == [("incident-1-2", "open")]
    assert alerts(service, "incident")[2:] == ["incident-1-2:fired"]
    send(service, N + 8, calm(N + 8, 12), *NAMES, *late)
    assert items(service, "incident") == []
    assert alerts(service, "incident")[3:] == ["incident-1-2:resolved"]


def test_a_restored_model_reports_what_it_has_open(service: Service) -> None:
    go_live(service)
    fault = np.array([5.0, 0.0])
    for first in range(N, N + 140, 20):
        send(service, first, calm(first, 20) + fault)
    known = items(service)
    assert ("change-1-1-1", "pending") in known
    service.refit(number(service)).result()
    fit_next(service)
    assert items(service) == []
    service.restore_model(number(service), 1).result()
    settle(service)
    restored = [(key.replace("-1-1-", "-1-3-"), state) for key, state in known]
    assert items(service) == restored
    fired = [f"{key}:fired" for key, _ in restored]
    assert alerts(service)[-len(fired) :] == fired
    assert service.decide("change-1-3-1", "accept").result() is not None
    settle(service)
    assert items(service) == []
    assert {f"{key}:resolved" for key, _ in restored} <= set(alerts(service))


def test_a_restored_model_knows_that_samples_came_meanwhile(service: Service) -> None:
    go_live(service)
    service.refit(number(service)).result()
    fit_next(service)
    for first in range(N, N + 600, 50):
        send(service, first, calm(first, 50))
    known = items(service, open_only=False)
    service.restore_model(number(service), 1).result()
    send(service, N + 600, calm(N + 600, 50))
    assert items(service, open_only=False) == known


def test_a_rejected_item_about_channels_has_ended(service: Service) -> None:
    go_live(service)
    send(service, N, np.column_stack([calm(N, 40), np.ones(40)]))
    assert items(service) == [("channels-1-1-1", "pending")]
    service.decide("channels-1-1-1", "reject").result()
    settle(service)
    assert items(service) == []
    assert alerts(service) == ["channels-1-1-1:fired", "channels-1-1-1:resolved"]


def test_accepted_channels_are_not_forgotten_by_another_fit(service: Service) -> None:
    def wide(first: int, count: int) -> Floats:
        return np.column_stack([calm(first, count), np.sin(np.arange(first, first + count) / 5)])

    go_live(service)
    send(service, N, wide(N, 40))
    service.decide("channels-1-1-1", "accept").result()
    service.refit(number(service)).result()
    fits(service).fit()
    for first in range(N + 40, N + 440, 40):
        send(service, first, wide(first, 40))
    fit_next(service)
    found = service.stream_named("m")
    assert found is not None and found.channels == ("a", "b", "c")
    assert items(service, "channels", open_only=False) == [("channels-1-1-1", "accepted")]


@pytest.mark.parametrize(("first", "minutes"), [(N + 1, 7), (N + 20, 21)])
def test_a_silence_lasted_until_it_was_seen(service: Service, first: int, minutes: int) -> None:
    go_live(service)
    fall_silent(service, 420)
    send(service, first, calm(first, 1))
    (item,) = service.store.items.page(kinds=["silence"], limit=9).items
    assert (item.state, present(item.ended) - item.opened) == ("closed", minutes * 60 * SECOND)
    assert item.sentence == f"no sample for {minutes} min, expected one every 60 s"


@pytest.mark.parametrize("batches", [[500], [149, 351], [400, 100], [150, 350]])
def test_the_first_fit_takes_the_same_samples_always(service: Service, batches: list[int]) -> None:
    values = calm(0, 500)
    values[300:310] += 9.0
    first = 0
    for count in batches:
        send(service, first, values[first : first + count])
        first += count
    fit_next(service)
    stream = service.applier.streams.named("m")
    assert stream is not None and stream.model is not None
    assert (stream.model.first, stream.model.last) == (0, HISTORY - 1)
    found = service.store.items.page(kinds=["alarm"], limit=500).items
    assert 300 in [each.body["start"] + HISTORY for each in found]


def every_ten_minutes(service: Service, first: int, count: int) -> None:
    """Send samples ten minutes apart, with the silences that the clock finds between them."""
    stream = present(service.applier.streams.named("m"))
    for at in range(first, first + count):
        quiet = longest_quiet(stream.order.period or 0)
        if quiet < 600:
            fall_silent(service, round(quiet) + 1)
        given = arrival(0, calm(at, 1))
        push(service, given._replace(times=given.times + (N + 10 * at) * 60 * SECOND))


def test_a_stream_that_sends_less_often_is_followed_by_the_next_model(service: Service) -> None:
    go_live(service)
    every_ten_minutes(service, 1, 3)
    assert len(alerts(service, "silence")) == 2 * 3
    for at in range(4, HISTORY + 200, 20):
        given = arrival(0, calm(at, 20))
        times = given.times[0] + (N + 10 * np.arange(at, at + 20)) * 60 * SECOND
        push(service, given._replace(times=times.astype(np.int64)))
    service.refit(number(service)).result()
    fit_next(service)
    stream = service.applier.streams.named("m")
    assert stream is not None and stream.order.period == 600 * SECOND
    before = alerts(service)
    every_ten_minutes(service, HISTORY + 214, 5)
    assert alerts(service) == before


def test_a_period_that_is_set_later_holds_for_the_streams_that_are_there(service: Service) -> None:
    go_live(service)
    stream = service.applier.streams.named("m")
    assert stream is not None and stream.order.period == 60 * SECOND
    for patterns, period in (((("m*", 600 * SECOND, None, None),), 600), ((), 600)):
        service._engine.submit(log.Configured(patterns), internal=True).applied.result()
        assert stream.order.period == period * SECOND
        assert stream.period_given == bool(patterns)
