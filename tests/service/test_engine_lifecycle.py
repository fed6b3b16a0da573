"""Streams by themselves: from the first sample to a model, and from one model to the next."""

import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from newnormal.arrivals.arrival import Arrival
from newnormal.engine.clock import StreamClock
from newnormal.engine.hub import Resync, Tick
from newnormal.engine.log import entries as log
from newnormal.engine.log.sqlite_log import SqliteLog
from newnormal.engine.streams import HasModelError
from newnormal.engine.values import Item
from newnormal.errors import FeedbackError, InputError, NewnormalError
from newnormal.service.api.pictures import picture_json
from newnormal.service.config import Limits, SinkConfig
from newnormal.service.limits import ServiceBusy
from newnormal.service.metrics import exposition
from newnormal.service.service import Service
from tests.present import present
from tests.service.running import (
    HISTORY,
    PERIOD,
    SECOND,
    START,
    Start,
    arrival,
    fit_next,
    fits,
    go_live,
    number,
    push,
    samples,
    settle,
    state,
)
from tests.waiting import until


def items(service: Service, kind: str) -> list[Item]:
    return list(service.store.items.page(kinds=[kind], limit=500).items)


def test_a_stream_collects_then_waits_for_its_fit_then_is_live(service: Service) -> None:
    push(service, arrival(0, samples(0, HISTORY - 1)))
    assert state(service) == "collecting"
    push(service, arrival(HISTORY - 1, samples(HISTORY - 1, 1)))
    until(lambda: state(service) == "fitting", "a fit that begins")
    fit_next(service)
    assert state(service) == "live"
    shown = present(service.stream_named("m"))
    assert (shown.generation, shown.samples, shown.period) == (1, HISTORY, PERIOD)
    states = [each.body["state"] for each in service.store.events.read() if each.kind == "stream"]
    assert states == ["collecting", "fitting", "live"]


def test_a_stream_goes_live_right_after_its_history_however_long_its_fit(service: Service) -> None:
    push(service, arrival(0, samples(0, HISTORY)))
    until(lambda: state(service) == "fitting", "a fit that begins")
    for first in range(HISTORY, HISTORY + 300, 50):
        push(service, arrival(first, samples(first, 50)))
    assert state(service) == "fitting"
    fit_next(service)
    assert state(service) == "live"
    rows = service.store.samples.rows(number(service), 0, HISTORY + 299)
    assert np.isnan(rows.scores[:HISTORY]).all()
    assert not np.isnan(rows.scores[HISTORY:]).any()
    assert service.models(number(service))[0]["last"] == HISTORY - 1


def test_a_fit_that_failed_is_made_again_with_twice_the_samples(service: Service) -> None:
    push(service, arrival(0, samples(0, HISTORY)))
    fits(service).fail("too little varies")
    until(lambda: state(service) == "failed", "the failure")
    shown = present(service.stream_named("m"))
    assert (shown.problem, shown.attention) == ("too little varies; more of it", "failed")
    push(service, arrival(HISTORY, samples(HISTORY, HISTORY - 1)))
    assert (state(service), fits(service).jobs) == ("failed", [])
    push(service, arrival(2 * HISTORY - 1, samples(2 * HISTORY - 1, 1)))
    fit_next(service)
    assert state(service) == "live"
    assert present(service.stream_named("m")).problem == ""


def test_a_fit_whose_process_ended_is_made_again_soon(service: Service) -> None:
    push(service, arrival(0, samples(0, HISTORY)))
    fits(service).fail("its process ended by SIGKILL", NewnormalError)
    until(lambda: state(service) == "failed", "the failure")
    push(service, arrival(HISTORY, samples(HISTORY, HISTORY // 10)))
    fit_next(service)
    assert state(service) == "live"


def test_a_stream_of_one_sample_a_day_goes_live_with_the_settings_of_all(service: Service) -> None:
    daily = arrival(0, samples(0, HISTORY))
    days = START - 86_400 * 10**9 * np.arange(HISTORY, 0, -1)
    push(service, daily._replace(times=days))
    fit_next(service)
    assert state(service) == "live"


def test_other_streams_go_on_while_one_is_fitted(service: Service) -> None:
    go_live(service, "one")
    push(service, arrival(0, samples(0, HISTORY), "two"))
    until(lambda: state(service, "two") == "fitting", "a fit that begins")
    push(service, arrival(HISTORY, samples(HISTORY, 20), "one"))
    rows = service.store.samples.rows(number(service, "one"), HISTORY, HISTORY + 19)
    assert not np.isnan(rows.scores).any()


def test_an_uploaded_history_is_fitted_at_once_before_what_was_pushed(service: Service) -> None:
    push(service, arrival(300, samples(300, 7)))
    push(service, arrival(100, samples(100, 203)), history=True)
    settle(service)
    fit_next(service)
    assert state(service) == "live"
    shown = service.stream_named("m")
    assert shown is not None and shown.samples == 207  # 300 to 302 are in both
    rows = service.store.samples.rows(shown.id, 0, 206)
    assert rows.times.tolist() == [START + k * PERIOD for k in range(100, 307)]
    np.testing.assert_array_equal(rows.values, samples(100, 207))
    assert np.isnan(rows.scores[:203]).all() and not np.isnan(rows.scores[203:]).any()
    with pytest.raises(InputError, match="expected a stream without a model, found 'm', which is"):
        service.push([arrival(0, samples(0, 50))], history=True)


def test_of_two_histories_at_once_one_is_taken_and_the_other_refused_as_a_whole(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, apply = threading.Event(), service.applier.apply

    def apply_later(*record: Any) -> Any:
        assert go_on.wait(30)
        return apply(*record)

    monkeypatch.setattr(service.applier, "apply", apply_later)
    first = service.push([arrival(0, samples(0, HISTORY))], history=True)
    others = [arrival(0, samples(0, 200), name) for name in ("other", "m")]
    second = service.push(others, history=True)
    go_on.set()
    assert first.result() > 0
    with pytest.raises(HasModelError, match="found 'm', which is fitting") as caught:
        second.result()
    assert caught.value.status == 409
    assert [each.name for each in service.streams()] == ["m"]
    assert service.streams()[0].samples == HISTORY


def test_every_sample_is_taken_or_dropped_for_a_reason_that_metrics_count(start: Start) -> None:
    def counted(service: Service) -> dict[str, float]:
        text = exposition(service)[0].decode()
        dropped = r'samples_dropped_total\{reason="(\w+)"\} (\S+)'
        pairs = re.findall(rf"^newnormal_{dropped}", text, re.M)
        pairs += re.findall(r"^newnormal_samples_(out_of_order)_total (\S+)", text, re.M)
        return {name: float(value) for name, value in pairs}

    with start(streams={"lateness": 2 * PERIOD}) as service:
        push(service, arrival(300, samples(300, 7)))  # of which the history has three
        push(service, arrival(100, samples(100, 203)), history=True)
        push(service, arrival(309, samples(309, 1)), arrival(307, samples(307, 1)))
        push(service, arrival(308, samples(308, 1)), arrival(308, samples(308, 1) + 1))
        push(service, arrival(120, samples(120, 5)))
        push(service, arrival(310 + 1440, samples(0, 1)), arrival(310, samples(310, 3)))
        sent, taken = 7 + 203 + 4 + 5 + 4, 203 + 4 + 3 + 3
        truth = {"late": 5.0, "duplicate": 1.0, "jumped": 1.0, "replaced": 3.0, "out_of_order": 2.0}
        assert counted(service) == truth
        assert sum(truth.values()) - truth["out_of_order"] == sent - taken
        assert present(service.stream_named("m")).samples == taken - 2  # they wait for late ones
        service.remove(number(service)).result()
        assert counted(service) == truth
    with start() as service:
        assert counted(service) == truth


def test_a_refit_keeps_the_old_model_which_can_be_restored(service: Service) -> None:
    go_live(service)
    push(service, arrival(HISTORY, samples(HISTORY, 60)))
    service.refit(number(service)).result()
    assert state(service) == "live"  # the old one judges meanwhile
    push(service, arrival(HISTORY + 60, samples(HISTORY + 60, 10)))
    fits(service).fit()
    until(lambda: len(service.models(number(service))) == 2, "the second model")
    old, new = service.models(number(service))
    assert (old["last"], new["last"], new["reason"]) == (149, 209, "request")
    service.restore_model(number(service), 1).result()
    push(service, arrival(HISTORY + 70, samples(HISTORY + 70, 10)))
    restored = service.models(number(service))[-1]
    assert (restored["generation"], restored["reason"], restored["last"]) == (3, "restored", 149)
    with pytest.raises(InputError, match="expected an earlier model of 'm', found 9"):
        service.restore_model(number(service), 9).result()


def test_a_model_of_a_damaged_file_cannot_be_restored(service: Service, tmp_path: Path) -> None:
    go_live(service)
    service.refit(number(service)).result()
    fits(service).fit()
    until(lambda: len(service.models(number(service))) == 2, "the second model")
    old = service.models(number(service))[0]
    (tmp_path / "data" / "models" / old["file"]).write_bytes(b"other bytes")
    with pytest.raises(InputError):
        service.restore_model(number(service), 1).result()
    push(service, arrival(HISTORY, samples(HISTORY, 10)))
    assert service.health()["status"] == "ok"


def test_a_fit_on_a_schedule_that_fails_waits_before_it_is_made_again(start: Start) -> None:
    with start(streams={"refit_every": 50 * PERIOD}) as service:
        go_live(service)
        push(service, arrival(HISTORY, samples(HISTORY, 49)))
        assert not fits(service).jobs
        push(service, arrival(HISTORY + 49, samples(HISTORY + 49, 1)))
        fits(service).fail("no")
        until(lambda: service.stream_named("m").problem, "the failure")  # type: ignore[union-attr]
        push(service, arrival(HISTORY + 50, samples(HISTORY + 50, 50)))
        assert not fits(service).jobs
        push(service, arrival(HISTORY + 100, samples(HISTORY + 100, 100)))
        fits(service).fit()
        until(lambda: len(service.models(number(service))) == 2, "the second model")
        assert service.models(number(service))[1]["reason"] == "schedule"


def test_a_removed_stream_is_gone_and_its_name_begins_anew(service: Service) -> None:
    go_live(service)
    old = number(service)
    service.remove(old).result()
    assert service.stream(old) is None and service.streams() == []
    push(service, arrival(0, samples(0, 10)))
    assert (state(service), number(service)) == ("collecting", old + 1)
    with pytest.raises(InputError, match="expected a stream, found none of number 1"):
        service.remove(old)


def test_channels_not_sent_any_more_are_missing_until_accepted(service: Service) -> None:
    go_live(service, width=3)
    at = HISTORY
    for _ in range(30):
        push(service, arrival(at, samples(at, 4, width=3)[:, :2], "m", ("a", "b")))
        at += 4
    (item,) = items(service, "channels")
    assert (item.state, item.body["gone"], item.body["new"]) == ("pending", ["c"], [])
    assert item.sentence == "1 channel without values: c"
    decided = service.decide(item.key, "accept", who="me").result()
    assert decided is not None and decided.state == "accepted"
    while not fits(service).jobs:
        push(service, arrival(at, samples(at, 4, width=3)[:, :2], "m", ("a", "b")))
        at += 4
    fits(service).fit()
    until(lambda: len(service.models(number(service))) == 2, "the second model")
    model = service.models(number(service))[1]
    assert (model["channels"], model["reason"]) == (("a", "b"), "channels")


def test_new_channels_are_kept_and_leave_the_inbox_when_rejected(service: Service) -> None:
    go_live(service)
    for first in range(HISTORY, HISTORY + 40, 4):
        push(service, arrival(first, samples(first, 4, width=3)))
    (item,) = items(service, "channels")
    assert (item.state, item.sentence) == ("pending", "1 new channel: c")
    rows = service.store.samples.rows(number(service), HISTORY, HISTORY + 39, ["c"])
    assert not np.isnan(rows.values).any()
    decided = service.decide(item.key, "reject", who="me").result()
    assert decided is not None and decided.state == "rejected"
    push(service, arrival(HISTORY + 40, samples(HISTORY + 40, 40, width=3)))
    assert len(items(service, "channels")) == 1
    with pytest.raises(InputError, match="expected a pending change of channels"):
        service.decide(item.key, "accept", who="me").result()


def test_a_new_channel_that_some_samples_lack_is_one_item_until_gone(service: Service) -> None:
    go_live(service)
    for at in range(HISTORY, HISTORY + 60):
        push(service, arrival(at, samples(at, 1, width=2 if at % 7 in (0, 1) else 3)))
    assert [each.state for each in items(service, "channels")] == ["pending"]
    for at in range(HISTORY + 60, HISTORY + 130, 10):
        push(service, arrival(at, samples(at, 10)))
    assert [each.state for each in items(service, "channels")] == ["reverted"]


def test_a_channel_that_comes_back_ends_the_item_about_it(service: Service) -> None:
    go_live(service)
    for first in range(HISTORY, HISTORY + 70, 10):
        push(service, arrival(first, samples(first, 10)[:, :1]))
    assert [each.state for each in items(service, "channels")] == ["pending"]
    for first in range(HISTORY + 70, HISTORY + 80, 5):
        push(service, arrival(first, samples(first, 5)))
    assert [each.state for each in items(service, "channels")] == ["reverted"]


def test_a_stream_silent_by_the_clock_has_an_item_until_samples_come(service: Service) -> None:
    now = 0.0
    go_live(service)
    streams = service.applier.streams
    clock = StreamClock(lambda: START + round(now * 1e9), lambda: now)
    clock.mark_active({each.id: each for each in streams})
    now = 119.0
    assert list(clock.decide(streams)) == []
    now = 100_000.0
    (entry,) = clock.decide(streams)
    assert isinstance(entry, log.Silent)
    assert list(clock.decide(streams)) == []  # once
    service._engine.submit(entry, internal=True).applied.result()
    (item,) = items(service, "silence")
    assert (item.state, item.opened) == ("open", START + (HISTORY - 1) * PERIOD)
    with pytest.raises(InputError, match="expected an alarm or a change, found a silence"):
        service.decide(item.key, "accept", who="me").result()
    first = HISTORY + 2000
    push(service, arrival(first, samples(first, 3)))
    (item,) = items(service, "silence")
    assert (item.state, item.ended) == ("closed", START + first * PERIOD)
    assert not service.applier.streams.get(1).items  # type: ignore[union-attr]


def test_a_gap_whose_silence_was_reported_makes_no_second_alert(start: Start) -> None:
    names = ("m", "n", "o")
    with start(sinks=(SinkConfig("lines", "newnormal.testing:MemoryAlertSink"),)) as service:
        go_live(service, *names)
        noticed = START + (HISTORY + 50) * PERIOD
        for each in list(service.applier.streams):
            entry = log.Silent(each.id, each.order.closed, noticed)
            service._engine.submit(entry, internal=True).applied.result()
        # A source catches up: what it had before the gap, which ends the silence, then the rest.
        for first in (HISTORY, HISTORY + 60, HISTORY + 66):
            push(service, *(arrival(first, samples(first, 6), name=each) for each in names))
        assert len(items(service, "alarm")) == 3 and len(items(service, "incident")) == 1
        fired = [each.body for each in service.store.outbox.all() if each.body["status"] == "fired"]
        assert [each["kind"] for each in fired] == ["silence"] * 3


def test_an_open_step_is_closed_by_the_clock(start: Start) -> None:
    now = 0.0
    with start(streams={"lateness": 90 * 10**9}) as service:
        settle(service)
        push(service, arrival(0, samples(0, 1)))
        streams = service.applier.streams
        clock = StreamClock(lambda: 0, lambda: now)
        assert list(clock.decide(streams)) == []
        now = 90.0
        assert list(clock.decide(streams)) == []
        now = 91.0
        assert list(clock.decide(streams)) == [log.Closed(1, START + 1)]
        service._engine.submit(log.Closed(1, START + 1), internal=True).applied.result()
        assert service.store.samples.count(1) == 1


def test_an_open_step_is_closed_by_the_clock_though_other_channels_go_on(start: Start) -> None:
    """Channel b stops: steps wait for it three periods each, and after five for it no more."""
    now = 0.0
    with start(streams={"period": 10 * SECOND}) as service:
        settle(service)
        streams = service.applier.streams
        clock = StreamClock(lambda: 0, lambda: now)
        found = []
        for at in range(30):
            now = 10.0 * at
            time = START + at * 10 * SECOND
            for channel in ("a", "b") if at < 10 else ("a",):
                push(service, Arrival("m", (channel,), np.array([time]), np.array([[1.0]])))
            for entry in clock.decide(streams):
                assert isinstance(entry, log.Closed)
                found.append((at, (entry.until - START) // (10 * SECOND)))
                service._engine.submit(entry, internal=True).applied.result()
        assert found == [(at, at - 4) for at in range(14, 19)]
        assert service.store.samples.count(1) == 27
        assert streams.get(1).order.counts["late"] == 0  # type: ignore[union-attr]


def test_the_clock_waits_for_the_period_of_channels_that_come_apart(service: Service) -> None:
    """Three sensors, each every ten seconds at a moment of its own, are one stream of steps."""
    now = 0.0
    settle(service)
    streams = service.applier.streams
    clock = StreamClock(lambda: 0, lambda: now)
    for second in range(300):
        now = float(second)
        for shift, channel in ((0, "a"), (2, "b"), (5, "c")):
            if second % 10 == shift:
                time = np.array([START + second * SECOND])
                push(service, Arrival("m", (channel,), time, np.array([[1.0]])))
        for entry in clock.decide(streams):
            service._engine.submit(entry, internal=True).applied.result()
    order = streams.get(1).order  # type: ignore[union-attr]
    assert (order.period, order.counts["late"]) == (10 * SECOND, 0)
    rows = service.store.samples.rows(
        1, 2, service.store.samples.count(1) - 1
    )  # after those of the start
    assert len(rows.times) >= 25 and not np.isnan(rows.values).any()


def test_the_clock_decides_nothing_while_samples_wait_that_would_decide_otherwise(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(service)
    asked: list[object] = []

    def decide(self: StreamClock, streams: object) -> tuple[()]:
        asked.append(streams)
        return ()

    monkeypatch.setattr(StreamClock, "decide", decide)
    service._decide()
    assert asked
    with monkeypatch.context() as patched:
        behind = property(lambda self: service.applier.position + 101)
        patched.setattr(SqliteLog, "last", behind)
        asked.clear()
        service._decide()
        assert not asked


def test_an_alarm_is_accepted_by_its_key_and_an_acceptance_undone(service: Service) -> None:
    go_live(service)
    shifted = samples(HISTORY, 60) + 5.0
    push(service, arrival(HISTORY, shifted))
    (alarm,) = [each for each in items(service, "alarm") if each.open]
    decided = service.decide(alarm.key, "accept", who="me", comment="new part").result()
    assert decided is not None and decided.key == alarm.key
    until(lambda: service.store.items.comments(alarm.key), "the comment")
    (alarm,) = items(service, "alarm")
    assert (alarm.state, alarm.body["reason"]) == ("closed", "accepted")
    service.decide(None, "undo", stream=number(service), who="me").result()
    assert service.store.events.read(limit=1000)[-1].body["verb"] == "undo"
    push(service, arrival(HISTORY + 60, samples(HISTORY + 60, 60) + 5.0))
    (change,) = items(service, "change")
    assert (change.state, change.open, change.body["alarm"]) == ("pending", True, 1)


@pytest.mark.parametrize(
    ("key", "error", "match"),
    [
        ("alarm-1-1-99", FeedbackError, "99"),
        ("change-1-1-1", FeedbackError, "1"),
        ("alarm-1-2-1", InputError, "expected an item of the model that 'm' has now"),
        ("alarm-7-1-1", InputError, "expected a stream, found none of number 7"),
        ("incident-1", InputError, "expected an alarm or a change of a stream, found 'incident-1'"),
        ("alarm-x-1-1", InputError, "found 'alarm-x-1-1'"),
        ("", InputError, "found ''"),
    ],
)
def test_a_key_that_names_nothing_is_an_error_in_words(
    key: str, error: type[Exception], match: str, service: Service
) -> None:
    go_live(service)
    with pytest.raises(error, match=match):
        service.decide(key, "accept", who="me").result()
    assert service.health()["status"] == "ok"


class Holding:
    """Applies nothing until it may."""

    def __init__(self, apply: Callable[..., Any]) -> None:
        self._apply, self.go_on = apply, threading.Event()

    def __call__(self, *given: Any) -> Any:
        assert self.go_on.wait(60.0)
        return self._apply(*given)


def test_values_that_wait_to_be_judged_have_a_limit_and_wide_samples_count_more(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    with start(limits=Limits(lag=1_000_000)) as service:
        monkeypatch.setattr(service.applier, "apply", holding := Holding(service.applier.apply))
        service.push([arrival(0, np.zeros((100_000, 2)), "first")], writer="one").result()
        with pytest.raises(ServiceBusy, match=r"at most 250,000 values that wait .* of one, found"):
            service.push([arrival(0, np.zeros((10_000, 8)), "wide")], writer="one")
        service.push([arrival(0, np.zeros((10_000, 4)), "small")], writer="one")
        service.push([arrival(0, np.zeros((10_000, 8)), "wide")], writer="two")
        holding.go_on.set()
        settle(service)
        service.push([arrival(100_000, np.zeros((100_000, 2)), "first")], writer="one").result()
        settle(service)
        assert service.waiting.taken == 0


def test_who_brought_names_is_known_after_a_start(start: Start) -> None:
    with start() as service:
        service.push([arrival(0, samples(0, 2), "one")], writer="web").result()
        settle(service)
        taken = dict(service.applier.streams.names)
        assert set(taken) == {"web"} and taken["web"] > 1_000
        shown = service.health()["memory"]["names"]
        assert shown == {"bytes": taken["web"], "limit": 256 << 20, "writers": taken}
        text = exposition(service)[0].decode()
        assert f'newnormal_memory_bytes{{what="names"}} {float(taken["web"])}' in text
        assert "newnormal_requests_refused_total 0.0" in text
    with start() as service:
        assert service.applier.streams.names == taken
        service.remove(1).result()
        assert not service.applier.streams.names


def test_a_caller_who_goes_away_stops_nothing(service: Service) -> None:
    assert not service.push([arrival(0, samples(0, 2))]).cancel()
    push(service, arrival(2, samples(2, 2)))
    assert service.store.samples.count(1) == 4


def test_a_service_that_has_stopped_takes_nothing_in(start: Start) -> None:
    with start() as service:
        pass
    with pytest.raises(ServiceBusy, match="expected a service that runs"):
        service.push([arrival(0, samples(0, 2))])


def test_what_fails_to_apply_is_retried(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    go_live(service)
    follower = service.hub.subscribe()
    commit, failed = service.store.commit, list[bool]()

    def fails_once(*, sync: bool = False) -> None:
        if not failed:
            failed.append(True)
            raise OSError("the disk is gone")
        commit(sync=sync)

    monkeypatch.setattr(service.store, "commit", fails_once)
    push(service, arrival(HISTORY, samples(HISTORY, 20)))
    until(lambda: service.health()["status"] == "ok", "the store")
    assert not np.isnan(service.store.samples.rows(1, HISTORY, HISTORY + 19).scores).any()
    seen = []
    while (message := follower.get()) is not None:
        seen.append(type(message))
    assert Resync in seen and set(seen) <= {Resync, Tick}


def test_a_change_that_a_new_model_ended_is_shown_in_the_picture(service: Service) -> None:
    go_live(service)
    push(service, arrival(HISTORY, samples(HISTORY, 150) + 9.0))
    (change,) = service.store.items.page(kinds=["change"]).items
    service.refit(number(service)).result()
    fit_next(service)
    ended = present(service.store.items.get(change.key))
    assert ended.body["reason"] == "a new model took over"
    view = present(service.stream_named("m"))
    (shown,) = picture_json(service, view, None, None)["stream"]["changes"]
    assert (shown["key"], shown["state"]) == (change.key, "reverted")
