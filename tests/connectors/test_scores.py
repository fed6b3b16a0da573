"""Scores from the store to their sinks: places, stretches of time, outages, kills, refusals."""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from newnormal.engine.store import Store
from newnormal.engine.store.retention import apply_retention
from newnormal.engine.values import Item, StoredRows
from newnormal.errors import ParameterError
from newnormal.io.registry import find_score_sink, is_score_sink
from newnormal.io.sinks.alerts import SinkDownError
from newnormal.io.sinks.scores import ScoreBatch, ScoreSink, ScoresRefusedError
from newnormal.service import scores as module
from newnormal.service.config import SinkConfig
from newnormal.service.connectors import alert_sinks, make_any_sink, make_score_sink, make_sink
from newnormal.service.scores import JudgedRange, ScoreSender, thinned
from newnormal.testing import MemoryAlertSink, MemoryScoreSink, check_score_sink
from newnormal.types import Floats, Ints
from tests.clocks import StillClock
from tests.counts import count
from tests.errors import raised
from tests.service.running import (
    HISTORY,
    arrival,
    config_of,
    fits,
    go_live,
    number,
    push,
    running,
    samples,
)
from tests.waiting import until

S = 10**9
BEGIN = 1_800_000_000 * S


class Case:
    """A store with streams, a sink in memory, and a sender between them."""

    def __init__(self, path: Path) -> None:
        self.clock = StillClock(BEGIN)
        self.store = Store(path, clock=self.clock)
        self.sink = MemoryScoreSink("prom")
        self.judged: dict[int, JudgedRange] = {}
        self.reports: list[tuple[str, bool, str]] = []
        self.sender = self.another()

    def another(self) -> ScoreSender:
        """Return a sender as a service that was started again has it."""
        return ScoreSender(
            "prom",
            lambda: self.sink,
            self.store,
            self.judged,
            lambda *report: self.reports.append(report),
            clock=self.clock,
        )

    def add(
        self,
        times: Ints | Sequence[int],
        ratios: Floats | Sequence[float] | None = None,
        stream: int = 1,
        *,
        first: int = 0,
        alarms: tuple[int, tuple[str, ...]] = (0, ()),
    ) -> None:
        """Judge samples of a stream; the ratio of each is its number unless it is given."""
        times = np.asarray(times, np.int64)
        begin, total = self.store.samples.count(stream), len(times)
        scores = (
            np.arange(begin, begin + total, dtype=np.float64)
            if ratios is None
            else np.array(ratios, np.float64)
        )
        self.store.samples.add(
            stream,
            StoredRows(
                begin,
                ("a",),
                times,
                np.zeros((total, 1)),
                2.0 * scores,
                np.full(total, 2.0),
                scores,
                scores >= 1,
                *(np.zeros((total, 1)),) * 4,
            ),
        )
        self.store.commit()
        self.judged[stream] = JudgedRange(f"s{stream}", first, begin + total, alarms)

    def deliver(self) -> list[tuple[str, int]]:
        """Do what is due now, and return streams and times, in s since the beginning."""
        before = len(self.sink.sent)
        while self.sender.deliver() <= self.clock.now:
            pass
        return self.seen(before)

    def seen(self, before: int = 0) -> list[tuple[str, int]]:
        return [
            (name, (time - BEGIN) // S)
            for each in self.sink.sent[before:]
            for name, time in zip(each.streams, each.times.tolist(), strict=True)
        ]

    def later(self, seconds: float = 10.0) -> list[tuple[str, int]]:
        """Deliver some time later."""
        self.clock.now += int(seconds * S)
        return self.deliver()


@pytest.fixture
def case(tmp_path: Path) -> Iterator[Case]:
    case = Case(tmp_path / "store.sqlite")
    yield case
    case.store.close()


def seconds(first: int, after: int) -> Ints:
    return BEGIN + np.arange(first, after, dtype=np.int64) * S


def test_a_new_sink_gets_what_is_judged_from_now_on_and_each_score_once(case: Case) -> None:
    case.add(seconds(-50, 3))
    assert case.later() == [("s1", 0), ("s1", 1), ("s1", 2)]
    assert case.later() == []
    case.add(seconds(3, 5))
    assert case.later() == [("s1", 3), ("s1", 4)]
    batch = case.sink.sent[-1]
    assert batch.ratios.tolist() == [53.0, 54.0]
    assert batch.scores.tolist() == [106.0, 108.0] and batch.thresholds.tolist() == [2.0, 2.0]
    assert batch.anomalous.all() and not batch.alarms.any() and batch.attempt == 1
    assert case.reports == [("sink prom", True, "")]
    assert case.sender.counts() == {"sent": 5, "refused": 0, "left_out": 0, "waiting": 0}


def test_nothing_happens_before_streams_are_known_and_rounds_are_seconds_apart(case: Case) -> None:
    assert case.sender.deliver() == case.clock.now + 5 * S
    case.add(seconds(0, 2))
    case.clock.now += 10 * S
    assert case.sender.deliver() == case.clock.now + 5 * S
    case.add(seconds(2, 4))
    case.clock.now += 5 * S - 1
    assert case.sender.deliver() == case.clock.now + 1
    assert len(case.sink.sent) == 1
    assert case.later(1) == [("s1", 2), ("s1", 3)]


def test_a_clock_that_is_set_back_does_not_stop_it(case: Case) -> None:
    case.add(seconds(0, 2))
    assert len(case.later(3600)) == 2
    case.clock.now -= 3000 * S
    case.add(seconds(2, 4))
    assert len(case.deliver()) == 2


def test_a_score_stands_for_a_stretch_of_time_and_is_its_worst_sample(case: Case) -> None:
    case.sink.every = 10.0
    case.add(seconds(0, 25), [*[0.5] * 12, 3.5, *[0.25] * 12])
    case.clock.now += 24 * S  # the stretch from 20 on is not over
    assert case.deliver() == [("s1", 0), ("s1", 12)]
    assert case.sink.sent[0].ratios.tolist() == [0.5, 3.5]
    assert case.sink.sent[0].anomalous.tolist() == [False, True]
    assert case.later(5) == []
    assert case.later(5) == [("s1", 20)]
    case.add(seconds(25, 27))  # late: the stretch was sent, these are another score
    assert case.later() == [("s1", 26)]


def test_a_sink_may_take_every_sample(case: Case) -> None:
    case.sink.every = 0.0
    times = BEGIN + np.arange(50, dtype=np.int64) * 1_000_000
    case.add(times, np.zeros(50))
    case.later()
    assert case.sink.sent[0].times.tolist() == times.tolist()


def naive_stretches(
    times: list[int], ratios: list[float], every: int
) -> tuple[list[int], list[int]]:
    starts, rows = list[int](), list[int]()
    for at, time in enumerate(times):
        if not every or not at or time // every != times[at - 1] // every:
            starts.append(at)
            rows.append(at)
        elif ratios[at] > ratios[rows[-1]]:
            rows[-1] = at
    return starts, rows


def test_stretches_are_those_of_a_slow_loop() -> None:
    rng = np.random.default_rng(0)
    for _ in range(count(200, 5000)):
        total = int(rng.integers(0, 40))
        times = np.cumsum(rng.integers(1, 12, total)) + int(rng.integers(-50, 50))
        ratios = rng.choice([-np.inf, 0.0, 0.5, 0.5, 1.5, np.inf], total)
        every = int(rng.choice([0, 1, 5, 10, 1000]))
        found = [each.tolist() for each in thinned(times, ratios, every)]
        assert found == list(naive_stretches(times.tolist(), ratios.tolist(), every))


def test_in_whatever_rounds_they_are_read_the_scores_are_the_same(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    for trial in range(count(5, 100)):
        case = Case(tmp_path / f"{trial}.sqlite")
        case.sink.every = float(rng.choice([0.5, 3.0, 20.0]))
        times = BEGIN + np.cumsum(rng.integers(1, 2 * S, 400))
        ratios = rng.random(400)
        at = 0
        while at < len(times):
            after = min(len(times), at + int(rng.integers(1, 60)))
            case.add(times[at:after], ratios[at:after])
            at, case.clock.now = after, int(times[after - 1]) + 1
            case.sender._looked = (0, 0)
            case.deliver()
            if rng.random() < 0.3:
                case.sender = case.another()
        case.later(60)
        every = int(case.sink.every * S)
        _, rows = naive_stretches(times.tolist(), ratios.tolist(), every)
        found = [time for each in case.sink.sent for time in each.times.tolist()]
        assert found == times[rows].tolist()
        case.store.close()


def test_samples_without_a_score_are_left_out_and_infinite_scores_are_sent(case: Case) -> None:
    case.add(seconds(0, 4), [0.5, np.nan, np.inf, 0.25])
    assert case.later() == [("s1", 0), ("s1", 2), ("s1", 3)]
    assert case.sink.sent[0].ratios.tolist() == [0.5, np.inf, 0.25]
    case.add(seconds(4, 6), [np.nan, np.nan])
    assert case.later() == [] and case.sender.counts()["waiting"] == 0


def test_scores_begin_where_the_model_does_and_go_on_with_the_next_one(case: Case) -> None:
    case.add(seconds(0, 10), first=6)
    assert case.later() == [("s1", 6), ("s1", 7), ("s1", 8), ("s1", 9)]
    case.judged[1] = case.judged[1]._replace(first=12)
    case.add(seconds(10, 14), first=12)
    assert case.later() == [("s1", 10), ("s1", 11), ("s1", 12), ("s1", 13)]


def test_alarms_are_those_of_the_inbox(case: Case) -> None:
    def put(item: int, opened: int, ended: int | None) -> None:
        state = "open" if ended is None else "closed"
        end = None if ended is None else BEGIN + ended * S
        known = (f"alarm-1-1-{item}", "alarm", 1, 1, item, state)
        times = (BEGIN + opened * S, BEGIN + opened * S, end)
        case.store.items.put(Item(*known, *times, 1.5, "", {}, 1))
        case.store.commit()

    put(1, 2, 3)
    put(2, 6, None)
    case.add(seconds(0, 8), alarms=(2, ("alarm-1-1-2",)))
    case.later()
    assert case.sink.sent[-1].alarms.nonzero()[0].tolist() == [2, 3, 6, 7]
    put(2, 6, 9)
    case.add(seconds(8, 12), alarms=(2, ()))
    case.later()
    assert case.sink.sent[-1].alarms.tolist() == [True, True, False, False]


def test_batches_are_bounded_and_streams_wait_for_each_other_no_longer_than_a_round(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST", 30)
    case.sink.at_once = 8
    for stream in range(1, 11):
        case.add(seconds(0, 12), stream=stream)
    case.clock.now += 20 * S
    assert case.sender.deliver() == 0  # there is more
    assert {name for name, _ in case.seen()} == {"s1", "s2", "s3"}
    assert max(map(len, case.sink.sent)) == 8
    for stream in range(1, 11):
        case.add(seconds(12, 24), stream=stream)
    case.sender.deliver()
    assert {name for name, _ in case.seen()} == {f"s{each}" for each in range(1, 6)}
    case.later(10)
    found: dict[str, list[int]] = {}
    for name, time in case.seen():
        found.setdefault(name, []).append(time)
    assert found == {f"s{each}": list(range(24)) for each in range(1, 11)}


def test_a_long_stream_is_read_in_rounds(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    from newnormal.service import scores

    monkeypatch.setattr(scores, "_ROWS", 25)
    case.sink.every = 10.0
    case.add(seconds(0, 100), np.zeros(100))
    case.clock.now += 200 * S
    assert [time for _, time in case.deliver()] == [0, 10]
    rest = [time for _ in range(10) for _, time in case.later(5)]
    assert rest == [20, 30, 40, 50, 60, 70, 80, 90]


def test_streams_that_are_removed_are_forgotten(case: Case) -> None:
    case.add(seconds(0, 3), stream=1)
    case.add(seconds(0, 3), stream=2)
    case.later()
    case.store.forget(1)
    case.store.commit()
    case.add(seconds(3, 5), stream=2)
    assert case.later() == [("s2", 3), ("s2", 4)]  # the first one is still in `judged`
    del case.judged[1]
    case.add(seconds(5, 6), stream=2)
    assert case.later() == [("s2", 5)]
    place = case.store.settings.get("scores", "prom")
    assert place is not None and list(place["sent"]) == ["2"]


def test_a_sink_that_is_down_is_tried_later_and_gets_everything_in_order(case: Case) -> None:
    case.add(seconds(0, 3))
    case.sink.fails = OSError("no route")
    waits = []
    case.clock.now += 10 * S
    for _ in range(5):
        due = case.sender.deliver()
        waits.append((due - case.clock.now) // S)
        case.clock.now = due - 1
        assert case.sender.deliver() == due  # not a moment earlier
        case.clock.now = due
        case.add(seconds(3 + len(waits), 4 + len(waits)))
    assert waits == [1, 2, 5, 10, 30]
    assert case.reports == [("sink prom", False, "OSError: no route")]
    case.sink.fails = None
    assert case.deliver() == [("s1", time) for time in (0, 1, 2, 4, 5, 6, 7, 8)]
    assert case.sink.sent[0].attempt == 6
    assert case.reports[-1] == ("sink prom", True, "")


def test_a_receiver_says_when_to_try_again(case: Case) -> None:
    case.add(seconds(0, 3))
    case.sink.fails = SinkDownError("busy", after=42.0)
    case.clock.now += 10 * S
    assert case.sender.deliver() == case.clock.now + 42 * S
    state = case.sender.state()
    assert (state["ok"], state["message"], state["failures"]) == (False, "busy", 1)


def test_after_a_kill_the_same_batches_are_sent_again_and_then_what_came_since(case: Case) -> None:
    case.sink.at_once, case.sink.every = 4, 2.0
    for stream in (1, 2, 3):
        case.add(seconds(0, 9), np.random.default_rng(stream).random(9), stream)
    sent: list[ScoreBatch] = []

    class Killed(BaseException):
        pass

    def send(batch: ScoreBatch) -> None:
        sent.append(batch)
        if len(sent) == 2:
            raise Killed

    case.sink.send = send  # type: ignore[method-assign]
    case.clock.now += 20 * S
    case.sender._calls.call = lambda act: act()  # type: ignore[method-assign]  # in this thread
    with pytest.raises(Killed):
        case.sender.deliver()
    for stream in (1, 2, 3):
        case.add(seconds(20, 25), np.random.default_rng(stream).random(5), stream)
    del case.sink.send
    case.sender = case.another()
    case.later(30)
    for before, after in zip(sent, case.sink.sent, strict=False):
        for each in fields(ScoreBatch):
            if each.name != "attempt":
                assert np.array_equal(getattr(before, each.name), getattr(after, each.name))
    times = case.sink.points
    assert len(times) == len(set(times)) == 3 * (5 + 3)


def test_after_a_kill_stretches_that_a_later_sample_ended_are_sent_unchanged(case: Case) -> None:
    case.add(seconds(100, 104))  # ahead of the clock: the last one may get more samples
    case.sink.fails = OSError("gone")
    case.later()
    assert case.sender.counts()["waiting"] == 4
    case.sink.fails = None
    case.sender = case.another()
    assert case.later() == [("s1", 100), ("s1", 101), ("s1", 102)]
    assert [len(each) for each in case.sink.sent] == [3]
    assert case.later(100) == [("s1", 103)]


def test_after_a_restart_it_goes_on_from_its_place(case: Case) -> None:
    case.add(seconds(0, 5))
    assert len(case.later()) == 5
    case.sender = case.another()
    case.add(seconds(5, 7))
    assert case.later() == [("s1", 5), ("s1", 6)]


def test_what_is_too_old_after_an_outage_is_left_out_and_counted(case: Case) -> None:
    case.sink.keep = 100.0
    case.add(seconds(0, 3))
    assert len(case.later()) == 3
    case.sink.fails = OSError("no route")
    case.add(seconds(3, 10))
    case.later()
    case.add(seconds(10, 2000))
    case.clock.now = BEGIN + 2000 * S
    case.sink.fails = None
    found = case.deliver()  # what waited in memory is too old as well
    found += case.later(5)
    assert found == [("s1", time) for time in range(1905, 2000)] or found[0] == ("s1", 1900)
    assert case.sender.left_out == 2000 - 3 - len(found)
    assert case.reports[-1] == ("sink prom", True, "")


def test_what_retention_has_removed_is_left_out_and_counted(case: Case) -> None:
    case.add(seconds(0, 3))
    case.later()
    case.add(seconds(3, 2000))
    case.store.samples.flush()
    case.store.commit()
    apply_retention(case.store, now=BEGIN + 2000 * S, age_ns={0: 1000 * S})
    kept = case.store.samples.first_kept(1)
    assert 3 < kept < 2000
    case.clock.now = BEGIN + 2000 * S
    assert case.deliver()[0] == ("s1", kept)
    assert case.sender.left_out == kept - 3


def test_scores_that_are_refused_are_counted_and_others_go_on(case: Case) -> None:
    case.sink.at_once = 2
    case.add(seconds(0, 4))
    taken = case.sink.send

    def send(batch: ScoreBatch) -> None:
        if batch.times[0] == BEGIN:
            raise ScoresRefusedError("out of order", count=1, hint="look")
        taken(batch)

    case.sink.send = send  # type: ignore[method-assign]
    assert case.later() == [("s1", 2), ("s1", 3)]
    counts = case.sender.counts()
    assert (counts["sent"], counts["refused"], counts["waiting"]) == (3, 1, 0)
    assert case.reports == [("sink prom", False, "scores are refused: out of order (look)")]
    case.add(seconds(4, 6))
    case.later()
    assert len(case.reports) == 1  # for a minute
    case.later(61)
    assert case.reports[-1] == ("sink prom", True, "")


def test_a_sink_that_hangs_is_given_up_and_made_anew(case: Case) -> None:
    go_on = threading.Event()
    case.sink.timeout = 0.01
    case.sink.send = lambda _: go_on.wait(60)  # type: ignore[method-assign,assignment]
    case.add(seconds(0, 2))
    case.clock.now += 10 * S
    assert case.sender.deliver() == case.clock.now + S
    message = "expected send to return within 0.01 s, found it waiting"
    assert case.reports == [("sink prom", False, message)]
    go_on.set()
    del case.sink.send
    assert len(case.later(1)) == 2


class KeptScores(MemoryScoreSink):
    """Keeps what all sinks of a name got."""

    channels = True
    kept: ClassVar[dict[str, list[ScoreBatch]]] = {}
    down: ClassVar[set[str]] = set()

    def __init__(self, name: str, options: dict[str, Any]) -> None:
        super().__init__(name, options)
        self.every = 0.0
        self.sent = self.kept.setdefault(name, [])

    def send(self, batch: ScoreBatch) -> None:
        if self.name in self.down:
            raise OSError("down")
        super().send(batch)


class KeptAlerts(MemoryAlertSink):
    """Keeps the keys of the alerts."""

    got: ClassVar[list[str]] = []

    def send(self, alert: Any) -> None:
        self.got.append(alert.key)


SCORES = SinkConfig("scores", f"{__name__}:KeptScores")
ALERTS = SinkConfig("alerts", f"{__name__}:KeptAlerts")


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[ScoreBatch]]:
    """What sinks got; samples of the tests are of 2026, and rounds follow each other at once."""
    monkeypatch.setattr(KeptScores, "kept", {})
    monkeypatch.setattr(KeptScores, "down", set())
    monkeypatch.setattr(KeptAlerts, "got", [])
    monkeypatch.setattr(module, "_ROUND", 0)
    made = ScoreSender.__init__

    def since_ever(self: ScoreSender, *given: Any, **more: Any) -> None:
        made(self, *given, **more)
        self._since = 0

    monkeypatch.setattr(ScoreSender, "__init__", since_ever)
    return KeptScores.kept


def test_sinks_are_told_apart_by_their_kind() -> None:
    assert is_score_sink(SCORES.kind) and not is_score_sink(ALERTS.kind)
    assert not is_score_sink("pigeon") and not is_score_sink("no.such.module:Thing")
    sinks = (SCORES, ALERTS, SinkConfig("chat", "webhook"), SinkConfig("prom", "remote_write"))
    assert [each.name for each in alert_sinks(sinks)] == ["alerts", "chat"]
    assert isinstance(make_any_sink(SCORES), KeptScores)
    assert isinstance(make_any_sink(ALERTS), KeptAlerts)
    assert find_score_sink("newnormal.testing:MemoryScoreSink") is MemoryScoreSink
    assert str(raised(ParameterError, lambda: find_score_sink("pigeon"))) == (
        "score sink: expected remote_write or package.module:Class, found 'pigeon'\n"
        "hint: an installed package can add names with entry points of the group "
        "newnormal.score_sinks"
    )
    with pytest.raises(ParameterError, match=r"expected a subclass of newnormal\.io\.ScoreSink"):
        make_score_sink(ALERTS)
    with pytest.raises(ParameterError, match="remote_write takes scores"):
        make_sink(SinkConfig("x", "pigeon"))


def test_the_service_sends_what_it_judges_and_no_alert_waits_for_a_sink_of_scores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: dict[str, list[ScoreBatch]]
) -> None:
    with running(config_of(tmp_path, sinks=(SCORES, ALERTS)), monkeypatch) as service:
        KeptScores.down.add("scores")  # slows nobody
        go_live(service, "m", "n")
        fault = samples(HISTORY, 60)
        fault[20:40] += 30.0
        push(service, arrival(HISTORY, fault, "m"), arrival(HISTORY, samples(HISTORY, 60, 1), "n"))
        until(lambda: KeptAlerts.got, "an alert")
        health = service.health()
        until(lambda: not service.health()["parts"]["sink scores"]["ok"], "a sink that is down")
        assert service.health()["parts"]["sink alerts"]["ok"]
        assert service.health()["status"] == "degraded"
        assert health["parts"]["sink scores"]["sent"] == 0
        KeptScores.down.clear()
        judged = {name: service.store.samples.count(number(service, name)) for name in "mn"}
        total = sum(judged.values()) - 2 * HISTORY
        until(lambda: sum(map(len, kept["scores"])) >= total, "all scores")
        for name in "mn":
            rows = service.store.samples.rows(number(service, name), HISTORY, judged[name] - 1)
            found = [
                (time, ratio, alarm)
                for each in kept["scores"]
                for stream, time, ratio, alarm in zip(
                    each.streams,
                    each.times.tolist(),
                    each.ratios.tolist(),
                    each.alarms.tolist(),
                    strict=True,
                )
                if stream == name
            ]
            assert [(time, ratio) for time, ratio, _ in found] == list(
                zip(rows.times.tolist(), rows.ratios.tolist(), strict=True)
            )
            named = [zip(each.streams, each.channel_values, strict=True) for each in kept["scores"]]
            known = [values for each in named for stream, values in each if stream == name]
            expected, low, high, ratio = np.moveaxis(np.stack(known), 2, 0)
            np.testing.assert_array_equal(expected, rows.expected)
            np.testing.assert_array_equal((rows.values < low) | (rows.values > high), ratio >= 1)
            assert (ratio >= 1).any() == (name == "m")
            assert any(alarm for *_, alarm in found) == (name == "m")
        assert set(service.store.outbox.counts()) == {"alerts"}
        parts = until(
            lambda: service.health()["parts"]["sink scores"]["ok"] and service.health()["parts"],
            "a sink that is well",
        )
        assert parts["sink scores"]["sent"] == total and parts["sink scores"]["refused"] == 0
        service.remove(number(service, "n")).result()
        push(service, arrival(HISTORY + 60, samples(HISTORY + 60, 5), "m"))
        until(lambda: sum(map(len, kept["scores"])) >= total + 4, "more scores")
        place = until(
            lambda: (
                (found := service.store.settings.get("scores", "scores"))
                and len(found["sent"]) == 1
            ),
            "a removed stream to be forgotten",
        )
        assert place


def test_samples_that_came_while_a_model_was_fitted_are_sent_and_a_refit_sends_none_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: dict[str, list[ScoreBatch]]
) -> None:
    with running(config_of(tmp_path, sinks=(SCORES,)), monkeypatch) as service:
        push(service, arrival(0, samples(0, HISTORY)))
        push(service, arrival(HISTORY, samples(HISTORY, 30)))
        assert not kept.get("scores")
        fits(service).fit()

        def times() -> list[int]:
            return [time for each in kept["scores"] for time in each.times.tolist()]

        until(lambda: kept.get("scores") and len(times()) >= 25, "the scores of the catch-up")
        service.refit(number(service), first=0, last=HISTORY - 1).result()
        fits(service).fit()
        push(service, arrival(HISTORY + 30, samples(HISTORY + 30, 20)))
        until(lambda: len(times()) >= 45, "the scores after it")
        assert len(times()) == len(set(times()))


def test_a_sink_that_is_added_while_the_service_runs_knows_all_streams(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: dict[str, list[ScoreBatch]]
) -> None:
    config = config_of(tmp_path)
    with running(config, monkeypatch) as service:
        go_live(service, "m", "n")
        push(service, arrival(HISTORY, samples(HISTORY, 10, 1), "n"))
        service.reload(config_of(tmp_path, sinks=(SCORES,)))
        push(service, arrival(HISTORY, samples(HISTORY, 10)))
        until(
            lambda: {name for each in kept.get("scores", []) for name in each.streams} == {*"mn"},
            "scores of both streams",
        )
        service.reload(config)
        parts = service.health()["parts"]
        assert parts["sink scores"] == {"ok": True, "message": "removed from the configuration"}


def test_the_check_finds_mistakes() -> None:
    class Changes(MemoryScoreSink):
        def send(self, batch: ScoreBatch) -> None:
            batch.ratios[0] = 0.125

    class Forgets(MemoryScoreSink):
        def send(self, batch: ScoreBatch) -> None:
            """Lose it."""

    class Fails(MemoryScoreSink):
        def send(self, batch: ScoreBatch) -> None:
            raise ValueError("no")

    class Says(MemoryScoreSink):
        at_once = 0

    class Twice(MemoryScoreSink):
        def send(self, batch: ScoreBatch) -> None:
            if batch.attempt > 1:
                raise ScoresRefusedError("has them", count=len(batch))
            super().send(batch)

    sink: ScoreSink = Twice()
    check_score_sink(lambda: sink, received=lambda: sink.points)  # type: ignore[attr-defined]
    for wrong, message in (
        (Changes, "expected send to leave one score as it is, found it changed"),
        (Fails, "expected send of one score to work, found ValueError: no"),
        (Says, "expected at_once to be a number of scores, found 0"),
    ):
        with pytest.raises(AssertionError, match=message):
            check_score_sink(wrong)
    with pytest.raises(AssertionError, match="expected one score at the receiver"):
        check_score_sink(Forgets, received=list)
    with pytest.raises(AssertionError, match="the scores would be lost"):
        check_score_sink(MemoryScoreSink, down=MemoryScoreSink)
    refusing = MemoryScoreSink()
    refusing.fails = ScoresRefusedError("no", count=1)
    with pytest.raises(AssertionError, match="expected send to raise SinkDownError"):
        check_score_sink(MemoryScoreSink, down=lambda: refusing)
