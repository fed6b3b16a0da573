"""From the outbox to sinks: order, waits, maintenance, sinks that are down, refuse or hang."""

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from newnormal.engine.store import Store
from newnormal.engine.values import Item
from newnormal.io.sinks.alerts import Alert, AlertRefusedError, SinkDownError
from newnormal.service.alerts import (
    GIVEN_UP,
    SUPPRESSED,
    Sender,
    add_window,
    end_window,
)
from newnormal.service.config import SinkConfig
from newnormal.service.sinks import Sinks
from newnormal.testing import MemoryAlertSink
from tests.clocks import StillClock

S = 10**9
DAY = 86_400 * S
BEGIN = 1_800_000_000 * S


class Case:
    """A store, a sink in memory and a sender between them."""

    def __init__(self, path: Path) -> None:
        self.clock = StillClock(BEGIN)
        self.store = Store(path, clock=self.clock)
        self.sink = MemoryAlertSink("chat")
        self.reports: list[tuple[str, bool, str]] = []
        self.sender = self.another()

    def another(self) -> Sender:
        """Return a sender as a service that was started again has it."""
        return Sender(
            "chat",
            lambda: self.sink,
            self.store,
            lambda *report: self.reports.append(report),
            clock=self.clock,
            keep=7 * DAY,
        )

    def put(
        self,
        *keys: str,
        stream: str = "press-1",
        opened: str = "2027-01-15T08:00:00Z",
        updated: str = "",
    ) -> None:
        for key in keys:
            item, _, status = key.rpartition(":")
            body = {
                "key": key,
                "item": item,
                "status": status,
                "streams": [stream],
                "opened": opened,
                "updated": updated or opened,
            }
            self.store.outbox.put(key, "chat", body)
        self.store.commit()

    def deliver(self) -> list[str]:
        """Do what is due now, and return the keys that were taken."""
        before = len(self.sink.sent)
        while self.sender.deliver() <= self.clock.now:
            pass
        return self.sink.keys[before:]

    def later(self, seconds: int = 1) -> list[str]:
        """Do what is due some time later."""
        self.clock.now += seconds * S
        return self.deliver()

    def row(self, key: str) -> Any:
        found = self.store.outbox.get(key, "chat")
        assert found is not None
        return found


@pytest.fixture
def case(tmp_path: Path) -> Iterator[Case]:
    case = Case(tmp_path / "store.sqlite")
    yield case
    case.store.close()


def test_alerts_are_sent_in_the_order_in_which_they_were_made(case: Case) -> None:
    keys = ["a:fired", "b:fired", "a:resolved"]
    case.put(*keys)
    assert sorted(case.deliver()) == sorted(keys)
    assert case.sink.keys.index("a:fired") < case.sink.keys.index("a:resolved")
    assert case.deliver() == []
    assert case.reports == [("sink chat", True, "")]
    assert case.store.outbox.counts()["chat"]["delivered"] == 3


def test_an_alert_that_was_delivered_is_not_sent_again_when_replayed(case: Case) -> None:
    case.put("a:fired")
    assert case.deliver() == ["a:fired"]
    case.put("a:fired")
    assert case.deliver() == []


def test_a_sink_that_is_down_is_tried_after_longer_and_longer_waits(case: Case) -> None:
    case.put("a:fired")
    case.sink.fails = OSError("no route")
    waits = []
    for _ in range(10):
        due = case.sender.deliver()
        waits.append((due - case.clock.now) // S)
        case.clock.now = due - 1
        assert case.sender.deliver() == due  # not a moment earlier
        case.clock.now = due
    assert waits == [1, 2, 5, 10, 30, 60, 120, 300, 300, 300]
    assert case.row("a:fired").attempts == 10
    assert case.reports == [("sink chat", False, "OSError: no route")]
    assert case.sender.state() == {
        "ok": False,
        "message": "OSError: no route",
        "failures": 10,
        "next_try": case.clock.now,
    }


def test_what_was_missed_while_a_sink_was_down_is_caught_up(case: Case) -> None:
    case.sink.fails = SinkDownError("expected an answer, found none", hint="start it")
    keys = [f"{item}:{status}" for item in range(150) for status in ("fired", "resolved")]
    case.put(*keys)
    assert case.deliver() == []
    assert case.reports[-1] == ("sink chat", False, "expected an answer, found none (start it)")
    case.sink.fails = None
    assert sorted(case.later()) == sorted(keys)
    assert case.reports[-1] == ("sink chat", True, "")
    assert case.sender.state()["failures"] == 0


def test_a_receiver_that_asks_for_a_wait_gets_it(case: Case) -> None:
    case.put("a:fired")
    case.sink.fails = SinkDownError("too many requests", after=90.0)
    assert case.sender.deliver() == case.clock.now + 90 * S


def test_a_clock_that_is_set_back_does_not_make_a_pause_longer(case: Case) -> None:
    case.put("a:fired")
    case.sink.fails = OSError("no route")
    case.sender.deliver()
    case.clock.now -= 3600 * S
    case.put("b:fired")
    case.sink.fails = None
    assert sorted(case.deliver()) == ["a:fired", "b:fired"]


def test_an_alert_that_is_refused_waits_alone(case: Case) -> None:
    class Picky(MemoryAlertSink):
        picky = True

        def send(self, alert: Alert) -> None:
            if self.picky and alert.item == "a":
                raise AlertRefusedError("expected a status 2xx, found 422")
            super().send(alert)

    case.sink = sink = Picky("chat")
    case.put("a:fired", "b:fired", "a:resolved", "b:resolved")
    assert case.deliver() == ["b:fired", "b:resolved"]
    assert case.row("a:fired").error == "expected a status 2xx, found 422"
    assert case.row("a:resolved").attempts == 0
    assert case.reports[-1] == (
        "sink chat",
        False,
        "1 alert refused, such as a:fired: expected a status 2xx, found 422",
    )
    sink.picky = False
    assert case.later() == ["a:fired", "a:resolved"]
    assert case.reports[-1] == ("sink chat", True, "")


def test_an_alert_that_a_sink_fails_on_does_not_stop_the_others(case: Case) -> None:
    class Broken(MemoryAlertSink):
        def send(self, alert: Alert) -> None:
            if alert.item == "a":
                raise KeyError("colour")
            super().send(alert)

    case.sink = Broken("chat")
    case.put("a:fired", "b:fired", "c:fired")
    case.deliver()
    case.later()
    assert sorted(case.sink.keys) == ["b:fired", "c:fired"]
    assert "KeyError: 'colour'" in case.row("a:fired").error


def test_after_a_kill_before_the_mark_an_alert_is_sent_again_under_the_same_key(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def killed(*_: Any, **__: Any) -> None:
        raise Killed

    case.put("a:fired", "a:resolved")
    with monkeypatch.context() as patch:
        patch.setattr(case.store.outbox, "mark", killed)
        with pytest.raises(Killed):
            case.sender.deliver()
    case.sender = case.another()
    case.deliver()
    assert case.sink.keys == ["a:fired", "a:fired", "a:resolved"]


def test_waits_outlive_the_service(case: Case) -> None:
    case.put("a:fired")
    case.sink.fails = AlertRefusedError("no")
    case.deliver()
    case.sink.fails = None
    case.sender = case.another()
    assert case.deliver() == []
    assert case.later() == ["a:fired"]
    assert case.sink.sent[0].attempt == 2


def test_an_alert_is_given_up_after_a_week_and_the_outbox_has_the_reason(case: Case) -> None:
    case.put("a:fired", "a:resolved")
    case.sink.fails = AlertRefusedError("expected a status 2xx, found 422")
    case.deliver()
    case.clock.now += 7 * DAY + S
    case.sink.fails = None
    case.put("b:fired")
    assert case.deliver() == ["b:fired"]
    for key in ("a:fired", "a:resolved"):
        assert case.row(key).error == f"{GIVEN_UP}expected a status 2xx, found 422"
        assert case.row(key).delivered == case.clock.now
    assert case.store.outbox.counts()["chat"]["unsent"] == 2


def test_what_waits_for_a_sink_that_was_removed_is_given_up_when_it_is_too_old(case: Case) -> None:
    case.put("a:fired")
    delivery = Sinks([], case.store, lambda *_: None, case.clock)
    delivery.start([])
    assert case.row("a:fired").delivered is None
    case.clock.now += 8 * DAY
    delivery.start([])
    assert case.row("a:fired").error == f"{GIVEN_UP}the sink was removed from the configuration"


def test_what_opened_and_ended_in_a_maintenance_window_is_marked_and_not_sent(case: Case) -> None:
    # 2027-01-15T08:00:00Z is BEGIN
    window = add_window(case.store.settings, BEGIN - S, BEGIN + S, "press-*", reason="new bearings")
    case.put("a:fired", "a:resolved")
    case.put("b:fired", "b:resolved", stream="oven")
    case.put("c:fired", opened="2027-01-15T08:00:01Z")
    assert sorted(case.deliver()) == ["b:fired", "b:resolved", "c:fired"]
    for key in ("a:fired", "a:resolved"):
        assert case.row(key).error == f"{SUPPRESSED}maintenance window {window.id}: new bearings"
        assert case.row(key).attempts == 0
    assert case.store.outbox.counts()["chat"] == {
        "waiting": 0,
        "delivered": 3,
        "failing": 0,
        "held": 0,
        "unsent": 2,
        "oldest": 0,
    }


def test_what_fired_before_a_window_was_made_is_resolved_all_the_same(case: Case) -> None:
    case.put("a:fired")
    case.deliver()
    add_window(case.store.settings, BEGIN - S, BEGIN + S)
    case.put("a:resolved")
    assert case.deliver() == ["a:resolved"]


def test_what_is_open_still_when_the_window_ends_is_told(case: Case) -> None:
    window = add_window(case.store.settings, BEGIN - S, BEGIN + 600 * S, reason="new bearings")
    case.put("a:fired", "b:fired")
    for _ in range(10):
        assert case.deliver() == []
        assert case.row("a:fired").error == f"held: maintenance window {window.id}: new bearings"
        assert case.row("a:fired").attempts == 0
        counts = case.store.outbox.counts()["chat"]
        ended = case.clock.now > BEGIN + 300 * S
        assert (counts["held"], counts["unsent"]) == ((1, 2) if ended else (2, 0))
        assert (counts["waiting"], counts["oldest"]) == (0, 0)
        case.clock.now += 60 * S
        if case.clock.now == BEGIN + 360 * S:
            case.put("b:resolved")
    assert case.deliver() == ["a:fired"]
    assert case.row("b:fired").error.startswith(SUPPRESSED)
    case.put("a:resolved")
    assert case.deliver() == ["a:resolved"]


def test_what_is_held_is_sent_within_a_minute_after_its_window_is_removed(case: Case) -> None:
    window = add_window(case.store.settings, BEGIN - S, BEGIN + 9000 * S)
    case.put("a:fired")
    case.deliver()
    end_window(case.store.settings, window.id)
    assert case.later(60) == ["a:fired"]


def test_what_is_held_for_longer_than_alerts_are_kept_is_not_given_up(case: Case) -> None:
    add_window(case.store.settings, BEGIN - S, BEGIN + 30 * DAY)
    case.put("a:fired")
    case.deliver()
    case.clock.now += 30 * DAY - S
    assert case.deliver() == []
    assert case.later() == ["a:fired"]


def test_what_is_judged_after_its_window_has_a_minute_to_end(case: Case) -> None:
    add_window(case.store.settings, BEGIN - S, BEGIN + S)
    case.clock.now += 3600 * S
    case.put("a:fired", "b:fired")
    assert case.deliver() == []
    case.put("a:resolved")
    assert case.later(60) == ["b:fired"]
    assert case.row("a:resolved").error.startswith(SUPPRESSED)


def test_a_silence_that_was_noticed_in_a_window_is_in_it(case: Case) -> None:
    # The last sample came before somebody made the window and switched the machine off.
    add_window(case.store.settings, BEGIN + 20 * S, BEGIN + 600 * S)
    case.put("a:fired", updated="2027-01-15T08:05:00Z")
    case.put("b:fired", updated="2027-01-15T08:00:19Z")
    assert case.deliver() == ["b:fired"]


def test_what_was_suppressed_is_not_resolved_after_the_window_is_removed(case: Case) -> None:
    window = add_window(case.store.settings, BEGIN - S, BEGIN + S)
    case.put("a:fired", "a:resolved")
    case.deliver()
    assert end_window(case.store.settings, window.id)
    case.put("a:resolved")
    assert case.later(60) == []
    assert case.row("a:resolved").error.startswith(SUPPRESSED)


def test_a_sink_that_did_not_get_what_fired_gets_none_that_resolves_it(case: Case) -> None:
    case.put("a:resolved")
    assert case.deliver() == []
    assert case.row("a:resolved").error == f"{SUPPRESSED}it did not fire here"


def put_item(store: Store, key: str, *, state: str = "open") -> None:
    store.items.put(Item(key, "alarm", 1, 1, 1, state, BEGIN, BEGIN, None, 2.0, "", {}, 1))
    store.commit()


def test_a_sink_whose_receiver_forgets_is_sent_open_alerts_again(case: Case) -> None:
    case.sink.repeat_every = 60.0
    put_item(case.store, "a")
    put_item(case.store, "b")
    case.put("a:fired", "b:fired", "b:resolved")
    case.deliver()
    case.sink.sent.clear()
    put_item(case.store, "b", state="closed")
    assert case.later(59) == []
    assert case.later() == ["a:fired"]
    assert case.deliver() == []


def test_a_repetition_that_fails_is_made_when_the_sink_is_there_again(case: Case) -> None:
    case.sink.repeat_every = 60.0
    put_item(case.store, "a")
    case.put("a:fired")
    case.deliver()
    case.clock.now += 60 * S
    case.sink.fails = OSError("no route")
    assert case.deliver() == []
    assert case.sender.state()["ok"] is False
    case.sink.fails = None
    assert case.later() == ["a:fired"]
    assert case.sender.state()["ok"] is True


class Batching(MemoryAlertSink):
    """Takes several alerts in one call, and keeps how many."""

    at_once = 100
    repeat_every = 60.0

    def __init__(self) -> None:
        super().__init__("chat")
        self.batches: list[int] = []

    def send_many(self, alerts: Sequence[Alert]) -> None:
        self.batches.append(len(alerts))
        super().send_many(alerts)


def test_a_thousand_open_alerts_are_sent_again_in_a_few_calls(case: Case) -> None:
    case.sink = sink = Batching()
    keys = [f"{number:04}" for number in range(1001)]
    for key in keys:
        item = Item(key, "alarm", 1, 1, 1, "open", BEGIN, BEGIN, None, 2.0, "", {}, 1)
        case.store.items.put(item)
    case.put(*(f"{key}:fired" for key in keys))
    case.deliver()
    sink.sent.clear()
    sink.batches.clear()
    assert sorted(case.later(60)) == [f"{key}:fired" for key in keys]
    assert sink.batches == [100] * 10  # and one alone, by `send`


def test_a_batch_that_is_refused_does_not_stop_the_others(case: Case) -> None:
    class Picky(Batching):
        at_once = 2

        def send_many(self, alerts: Sequence[Alert]) -> None:
            super().send_many(alerts)
            if "a" in [each.item for each in alerts]:
                raise AlertRefusedError("expected a status 2xx, found 400")

    case.sink = Picky()
    for key in "abcd":
        put_item(case.store, key)
    case.put(*(f"{key}:fired" for key in "abcd"))
    case.deliver()
    case.sink.sent.clear()
    assert sorted(case.later(60)) == ["a:fired", "b:fired", "c:fired", "d:fired"]
    assert case.sender.state()["ok"] is True


def test_a_receiver_that_forgets_is_not_left_alone_for_longer_than_it_remembers(case: Case) -> None:
    case.sink.repeat_every = 60.0
    put_item(case.store, "a")
    case.put("a:fired")
    case.deliver()
    case.put("b:fired")
    case.sink.fails = OSError("no route")
    waits = []
    for _ in range(9):
        due = case.sender.deliver()
        waits.append((due - case.clock.now) // S)
        case.clock.now = due
    assert waits == [1, 2, 5, 10, 30, 60, 60, 60, 60]
    case.sink.fails = None
    assert sorted(case.deliver()) == ["a:fired", "b:fired"]


def test_what_a_sink_notices_is_reported_though_it_delivers(case: Case) -> None:
    class Half(MemoryAlertSink):
        said = "1 of 2 addresses takes no alerts"

        def notice(self) -> str:
            return self.said

    case.sink = sink = Half("chat")
    case.put("a:fired")
    assert case.deliver() == ["a:fired"]
    assert case.reports == [("sink chat", False, "1 of 2 addresses takes no alerts")]
    sink.said = ""
    case.deliver()
    assert case.reports[-1] == ("sink chat", True, "")


class Hanging(MemoryAlertSink):
    """Does not return until it is released."""

    timeout = 0.02

    def __init__(self, release: threading.Event) -> None:
        super().__init__("chat")
        self._release = release
        self.closed = threading.Event()

    def send(self, alert: Alert) -> None:
        self._release.wait(60)

    def close(self) -> None:
        self.closed.set()


def test_a_sink_that_hangs_is_given_up_closed_and_made_anew(case: Case) -> None:
    release = threading.Event()
    hanging = Hanging(release)
    healthy = case.sink
    case.sink = hanging
    case.put("a:fired")
    case.deliver()
    assert case.reports[-1] == (
        "sink chat",
        False,
        "expected send to return within 0.02 s, found it waiting",
    )
    assert hanging.closed.wait(10)
    case.sink = healthy
    assert case.later() == ["a:fired"]
    release.set()


def test_calls_that_never_return_do_not_pile_up(case: Case) -> None:
    release = threading.Event()
    case.sink = Hanging(release)
    case.put("a:fired")
    for _ in range(5):
        case.deliver()
        case.clock.now += 300 * S
    hung = [each for each in threading.enumerate() if each.name == "sink chat: send"]
    assert len(hung) == 3
    assert case.reports[-1][2] == "expected send to return, found 3 calls that have not"
    release.set()
    for each in hung:
        each.join(10)


def test_a_sink_that_cannot_be_made_is_reported_and_tried_again(case: Case) -> None:
    made: list[MemoryAlertSink] = []

    def make() -> MemoryAlertSink:
        if not made:
            made.append(case.sink)
            raise SinkDownError("expected a secret, found none")
        return case.sink

    case.sender = Sender(
        "chat",
        make,
        case.store,
        lambda *report: case.reports.append(report),
        clock=case.clock,
        keep=DAY,
    )
    case.put("a:fired")
    assert case.deliver() == []
    assert case.reports == [("sink chat", False, "expected a secret, found none")]
    assert case.later() == ["a:fired"]


class Signalling(MemoryAlertSink):
    """A sink that tests can wait for; all of its name share what they have got."""

    taken: ClassVar[dict[str, list[str]]] = {}
    changed = threading.Condition()
    hold = threading.Event()

    def send(self, alert: Alert) -> None:
        if self.options.flag("hangs"):
            self.hold.wait(60)
        with self.changed:
            self.taken.setdefault(self.name, []).append(alert.key)
            self.changed.notify_all()

    @classmethod
    def wait_for(cls, name: str, count: int) -> list[str]:
        with cls.changed:
            assert cls.changed.wait_for(lambda: len(cls.taken.get(name, ())) >= count, 30)
            return list(cls.taken[name])


def test_a_sink_that_hangs_does_not_slow_another(tmp_path: Path) -> None:
    Signalling.taken.clear()
    Signalling.hold.clear()
    kind = f"{__name__}:Signalling"
    store = Store(tmp_path / "store.sqlite")
    reports: dict[str, tuple[bool, str]] = {}
    delivery = Sinks([], store, lambda part, ok, text: reports.update({part: (ok, text)}))
    try:
        delivery.start([SinkConfig("slow", kind, {"hangs": True}), SinkConfig("fast", kind)])
        assert set(delivery.states()) == {"slow", "fast"}
        for number in range(5):
            for sink in ("slow", "fast"):
                body = {
                    "item": str(number),
                    "status": "fired",
                    "streams": ["s"],
                    "opened": "2027-01-15T08:00:00Z",
                }
                store.outbox.put(f"{number}:fired", sink, body)
            store.commit()
            delivery.wake()
        assert Signalling.wait_for("fast", 5) == [f"{number}:fired" for number in range(5)]
        assert "slow" not in Signalling.taken
        Signalling.hold.set()
        assert len(Signalling.wait_for("slow", 5)) == 5
        delivery.start([SinkConfig("fast", kind)])
        assert reports["sink slow"] == (True, "removed from the configuration")
        assert set(delivery.states()) == {"fast"}
    finally:
        Signalling.hold.set()
        delivery.stop()
        store.close()
    assert not [each for each in threading.enumerate() if each.name in ("sink slow", "sink fast")]
