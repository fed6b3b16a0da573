"""Streams that are silent together: one incident, one alert, and none hidden by the others."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from newnormal.engine.clock import StreamClock
from newnormal.engine.log import entries as log
from newnormal.engine.streams import StreamRecord
from newnormal.engine.values import Item
from newnormal.service import service as module
from newnormal.service.config import SinkConfig
from newnormal.service.service import Service
from tests.service.running import (
    HISTORY,
    PERIOD,
    START,
    arrival,
    config_of,
    go_live,
    push,
    running,
    samples,
)

NAMES = ("m", "n", "o")
LAST = START + (HISTORY - 1) * PERIOD
LONGEST = 300.0  # s that streams of a minute may be silent


class Clock:
    """A clock that a test sets, and what it decides."""

    def __init__(self, service: Service) -> None:
        self.at = 0.0
        self.service = service
        self.clock = StreamClock(lambda: LAST + round(self.at * 1e9), lambda: self.at)

    def mark_active(self, at: float, *names: str) -> None:
        self.at = at
        streams = {each.id: each for each in map(self.stream, names)}
        for each in streams.values():
            each.order.newest += 1  # as with a sample
        self.clock.mark_active(streams)

    def stream(self, name: str) -> StreamRecord:
        found = self.service.applier.streams.named(name)
        assert found is not None
        return found

    def decide(self, at: float) -> list[list[str]]:
        """Decide and apply; return the names of the streams of each silence that was found."""
        self.at = at
        found = []
        for entry in list(self.clock.decide(self.service.applier.streams)):
            assert isinstance(entry, log.Silent)
            self.service._engine.submit(entry, internal=True).applied.result()
            numbers = [entry.stream, *(number for number, _ in entry.others)]
            streams = map(self.service.applier.streams.get, numbers)
            found.append([each.name for each in streams if each is not None])
        return found


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    sinks = (SinkConfig("lines", "newnormal.testing:MemoryAlertSink"),)
    with running(config_of(tmp_path, sinks=sinks), monkeypatch) as found:
        go_live(found, *NAMES)
        yield found


def items(service: Service, kind: str) -> list[Item]:
    return list(service.store.items.page(kinds=[kind], limit=500).items)


def alerts(service: Service) -> list[tuple[str, str, list[str]]]:
    found = service.store.outbox.all()
    return [(each.body["kind"], each.body["status"], each.body["streams"]) for each in found]


def attention(service: Service) -> list[str]:
    return [each.attention for each in service.streams()]


def send(service: Service, first: int, *names: str) -> None:
    push(service, *(arrival(first, samples(first, 3), name) for name in names))


def test_streams_that_stop_together_are_one_incident_with_one_alert(service: Service) -> None:
    clock = Clock(service)
    clock.mark_active(0.0, "m")
    clock.mark_active(29.0, "n")
    clock.mark_active(58.0, "o")
    assert clock.decide(LONGEST) == []
    assert clock.decide(LONGEST + 1) == [["m", "n", "o"]]
    assert clock.decide(LONGEST + 100) == []
    (item,) = items(service, "incident")
    assert (item.key, item.state, item.opened) == ("incident-silence-1", "open", LAST)
    assert item.sentence == "no samples of 3 streams: m, n and o"
    assert items(service, "silence") == []
    assert attention(service) == ["silence"] * 3
    shown = service.stream_named("n")
    assert shown is not None and (shown.item, shown.sentence) == (item.key, item.sentence)
    assert alerts(service) == [("incident", "fired", ["m", "n", "o"])]

    send(service, HISTORY + 20, "m")
    assert [each.state for each in items(service, "incident")] == ["open"]
    assert attention(service) == ["", "silence", "silence"]
    send(service, HISTORY + 20, "n", "o")
    ended = next(each for each in items(service, "incident") if each.key == item.key)
    assert (ended.state, ended.body["reason"]) == ("closed", "samples again")
    assert ended.ended == START + (HISTORY + 20) * PERIOD
    assert alerts(service) == [
        ("incident", "fired", ["m", "n", "o"]),
        ("incident", "resolved", ["m", "n", "o"]),
    ]


def test_a_stream_that_stops_alone_has_a_silence_of_its_own(service: Service) -> None:
    clock = Clock(service)
    clock.mark_active(0.0, "m")
    clock.mark_active(160.0, "n")
    clock.mark_active(290.0, "o")
    assert clock.decide(LONGEST + 1) == [["m"]]
    assert alerts(service) == [("silence", "fired", ["m"])]
    assert attention(service) == ["silence", "", ""]
    # The others stop at another moment: it is not theirs.
    clock.mark_active(310.0, "n", "o")
    assert clock.decide(311.0 + LONGEST) == [["n", "o"]]
    assert alerts(service)[1:] == [("incident", "fired", ["n", "o"])]


def test_a_stream_that_stays_silent_when_others_are_back_is_reported_anew(service: Service) -> None:
    clock = Clock(service)
    clock.mark_active(0.0, *NAMES)
    clock.decide(LONGEST + 1)
    send(service, HISTORY + 20, "m", "n")
    clock.mark_active(1000.0, "m", "n")
    assert clock.decide(1000.0) == []
    clock.mark_active(1290.0, "m", "n")
    assert clock.decide(1000.0 + LONGEST) == []
    assert clock.decide(1001.0 + LONGEST) == [["o"]]
    assert clock.decide(1002.0 + LONGEST) == []
    assert alerts(service)[1:] == [
        ("incident", "resolved", ["m", "n", "o"]),
        ("silence", "fired", ["o"]),
    ]
    (incident,) = [each for each in items(service, "incident") if "silence" in each.key]
    assert incident.body["reason"] == "those that are still silent are reported anew"
    assert clock.stream("o").silence is not None and clock.stream("o").outage is None
    send(service, HISTORY + 40, "o")
    assert alerts(service)[3:] == [("silence", "resolved", ["o"])]


def test_several_that_stay_silent_are_one_incident_again(service: Service) -> None:
    clock = Clock(service)
    clock.mark_active(0.0, *NAMES)
    clock.decide(LONGEST + 1)
    send(service, HISTORY + 20, "m")
    clock.mark_active(1000.0, "m")
    clock.decide(1000.0)
    clock.mark_active(1290.0, "m")
    assert clock.decide(1001.0 + LONGEST) == [["n", "o"]]
    assert [each.key for each in items(service, "incident") if each.open] == ["incident-silence-2"]
    assert alerts(service)[1:] == [
        ("incident", "resolved", ["m", "n", "o"]),
        ("incident", "fired", ["n", "o"]),
    ]


def test_a_stream_whose_silence_is_found_later_joins_without_an_alert(service: Service) -> None:
    clock = Clock(service)
    clock.mark_active(0.0, "m", "n")
    clock.mark_active(100.0, "o")
    now = LAST + 301 * 10**9
    entry = log.Silent(1, LAST, now, ((2, LAST),))
    service._engine.submit(entry, internal=True).applied.result()
    assert clock.decide(101.0 + LONGEST) == [["o"]]
    (item,) = items(service, "incident")
    assert list(item.body["streams"]) == ["m", "n", "o"]
    assert alerts(service) == [("incident", "fired", ["m", "n"])]
    assert attention(service) == ["silence"] * 3


def test_what_sent_meanwhile_is_not_silent(service: Service) -> None:
    send(service, HISTORY, "n")
    entry = log.Silent(1, LAST, LAST + 400 * 10**9, ((2, LAST), (77, LAST)))
    service._engine.submit(entry, internal=True).applied.result()
    assert alerts(service) == [("silence", "fired", ["m"])]
    assert attention(service) == ["silence", "", ""]


def test_it_ends_with_the_last_of_its_streams_that_is_removed(service: Service) -> None:
    clock = Clock(service)
    clock.mark_active(0.0, *NAMES)
    clock.decide(LONGEST + 1)
    for number in (1, 2, 3):
        assert [each.open for each in items(service, "incident")] == [True]
        service.remove(number).result()
    (item,) = items(service, "incident")
    assert (item.state, item.body["reason"]) == ("closed", "stream removed")


def test_streams_of_a_source_are_apart_from_others_and_it_is_named(service: Service) -> None:
    given = [arrival(HISTORY, samples(HISTORY, 3), name) for name in ("m", "n")]
    service.push(given, source="plant", input_position={"at": 1}).result()
    send(service, HISTORY, "o")
    clock = Clock(service)
    clock.mark_active(0.0, *NAMES)
    assert clock.decide(LONGEST + 1) == [["m", "n"], ["o"]]
    (item,) = items(service, "incident")
    assert item.sentence == "no samples of 2 streams of source plant: m and n"
    assert [each[0] for each in alerts(service)] == ["incident", "silence"]


@pytest.mark.parametrize("by_checkpoint", [True, False], ids=["checkpoint", "log"])
def test_it_is_there_after_a_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_checkpoint: bool
) -> None:
    config = config_of(tmp_path)
    with monkeypatch.context() as patch, running(config, patch) as service:
        go_live(service, *NAMES)
        if not by_checkpoint:
            patch.setattr(module, "save_checkpoint", lambda applier: applier.position)
        clock = Clock(service)
        clock.mark_active(0.0, *NAMES)
        clock.decide(LONGEST + 1)
        send(service, HISTORY + 20, "m")
        before = service.applier.outages.to_json()
        assert before["open"]
    with running(config, monkeypatch) as service:
        assert service.applier.outages.to_json() == before
        clock = Clock(service)
        clock.mark_active(2.0, "m")
        assert clock.decide(3.0) == []
        clock.mark_active(290.0, "m")
        assert clock.decide(4.0 + LONGEST) == [["n", "o"]]
        send(service, HISTORY + 40, "n", "o")
        assert not service.applier.outages.open
        assert all(each.silence is None for each in service.applier.streams)
