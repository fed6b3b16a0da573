"""Samples by MQTT beside a broker that answers as a test wants; options of source and sink."""

import json
import random
import re
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from newnormal.errors import NewnormalError, ParameterError
from newnormal.io.mqtt import BrokerError, ClosedError
from newnormal.io.sources import mqtt
from newnormal.io.sources.mqtt import WINDOW, Delivered, MqttSource, Tries, Unread
from newnormal.io.topics import TopicPattern
from tests.clocks import StillClock
from tests.connectors.mqtt_peers import (
    CONNECT,
    DISCONNECT,
    PUBACK,
    SUBSCRIBE,
    UNSUBACK,
    UNSUBSCRIBE,
    FakeBroker,
    packet,
    publish,
)
from tests.counts import count
from tests.waiting import until

pytest.importorskip("paho.mqtt")

TOPICS = ["plant/{stream}/{channel}"]


@pytest.fixture(autouse=True)
def _waits_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("newnormal.io.sources.mqtt._IDLE", 0.05)


def source_of(broker: FakeBroker, **options: Any) -> MqttSource:
    given = {"host": "127.0.0.1", "port": broker.port, "topics": TOPICS, **options}
    given = {name: value for name, value in given.items() if value is not None}
    return broker.closing(MqttSource("bus", given, clock=broker.clock))


def well(broker: FakeBroker, **options: Any) -> MqttSource:
    """Return a source that has its subscriptions."""
    source = source_of(broker, **options)
    read_until(source, lambda: source._was_well, "subscriptions")
    return source


def read(source: MqttSource, limit: int = 5000) -> list[tuple[str, str, float]]:
    """Return the values of a batch."""
    return [
        (each.stream, channel, float(value))
        for each in source.next_batch(limit)
        for row in each.values
        for channel, value in zip(each.channels, row, strict=True)
        if not np.isnan(value)
    ]


def temp(number: float) -> tuple[str, str, float]:
    return ("press", "temp", number)


@pytest.mark.parametrize(
    ("options", "address"),
    [
        ({"host": "a"}, "a:1883"),
        ({"host": "a", "tls": True}, "a:8883"),
        ({"host": "::1"}, "[::1]:1883"),
        ({"url": "mqtt://a"}, "a:1883"),
        ({"url": "mqtts://a"}, "a:8883"),
        ({"url": "mqtts://a:1"}, "a:1"),
        ({"url": "wss://a/path"}, "a:443"),
        ({"url": "ws://a"}, "a:80"),
    ],
)
def test_ports_that_are_not_given_are_the_usual_ones(options: dict[str, Any], address: str) -> None:
    assert MqttSource("bus", {"topics": TOPICS, **options}).snapshot()["broker"] == address


def connect_packet(broker: FakeBroker) -> bytes:
    (found,) = [each.body for each in broker.packets if each.kind == CONNECT]
    return found


def test_by_version_5_the_session_is_kept_and_messages_are_limited(broker: FakeBroker) -> None:
    assert read(source_of(broker, keep="1h", client_id="me", user="u", password="swordfish")) == []
    found = connect_packet(broker)
    assert found[:7] == b"\0\4MQTT\5"
    assert found[7] == 0b11000000  # user and password, and no clean start
    assert b"\x11" + struct.pack("!I", 3600) in found  # the session's expiry
    assert b"\x21" + struct.pack("!H", WINDOW) in found  # messages before an acknowledgement
    assert found.endswith(b"\0\2me\0\1u\0\x09swordfish")


def test_by_version_3_1_1_the_session_is_kept(broker: FakeBroker) -> None:
    assert read(source_of(broker, version="3.1.1")) == []
    found = connect_packet(broker)
    assert (found[:7], found[7]) == (b"\0\4MQTT\4", 0)


@pytest.mark.parametrize("version", [5, "3.1.1"])
def test_without_keep_a_session_is_new_each_time(broker: FakeBroker, version: object) -> None:
    read(source_of(broker, keep="none", version=version))
    found = connect_packet(broker)
    assert found[7] == 2  # clean
    assert b"\x11" + struct.pack("!I", 0) not in found


def failure(source: MqttSource) -> str:
    """Return the error that a source comes to."""

    def tried() -> str:
        try:
            source.next_batch(100)
        except BrokerError as error:
            return str(error)
        return ""

    return until(tried, "an error")


def read_until(source: MqttSource, condition: Callable[[], object], what: str) -> None:
    """Read batches in which no samples are until a condition holds."""

    def tried() -> bool:
        assert read(source) == []
        return bool(condition())

    until(tried, what)


@pytest.mark.parametrize(
    ("reason", "found", "hint"),
    [
        (134, "Bad user name or password", "user, and password_file or password_env, set them"),
        (
            135,
            "Not authorized",
            "check user and password, and what the broker allows this user to do",
        ),
        (132, "Unsupported protocol version", 'version = "3.1.1" and version = 5 set the version'),
        (133, "Client identifier not valid", "client_id sets another one"),
        (137, "Server busy", None),
    ],
)
def test_brokers_say_why_not(broker: FakeBroker, reason: int, found: str, hint: str | None) -> None:
    broker.reason = reason
    message = f"127.0.0.1:{broker.port}: expected to be accepted, found the broker's answer {found}"
    shown = failure(source_of(broker, user="me", password="swordfish"))
    assert shown == (message if hint is None else f"{message}\nhint: {hint}")


def test_a_broker_of_3_1_1_says_it_with_other_numbers(broker: FakeBroker) -> None:
    broker.reason = 4
    assert "found the broker's answer Bad user name or password" in failure(
        source_of(broker, version="3.1.1")
    )


def test_what_does_not_answer_is_not_waited_for_without_end(broker: FakeBroker) -> None:
    broker.is_silent = True
    assert failure(source_of(broker, timeout="200ms")) == (
        f"127.0.0.1:{broker.port}: expected an answer to CONNECT within 0.2 s, found none"
    )


def test_what_hangs_up_at_once_may_be_something_else(broker: FakeBroker) -> None:
    broker.is_silent = broker.closes = True
    assert failure(source_of(broker)) == (
        f"127.0.0.1:{broker.port}: expected an answer to CONNECT, found the connection closed\n"
        "hint: this port may not speak MQTT, with or without TLS, may want a certificate "
        '(cert_file), or may not speak this version (version = "3.1.1")'
    )


def test_where_nobody_listens_the_message_says_so(broker: FakeBroker) -> None:
    source = source_of(broker)
    broker.close()
    assert failure(source) == (
        f"{source.snapshot()['broker']}: expected a broker, found none\n"
        "hint: it is not running, or listens on another address or port"
    )


def test_a_host_without_an_address_is_named(broker: FakeBroker) -> None:
    assert failure(source_of(broker, host="no-such-host.invalid", port=1883)) == (
        "no-such-host.invalid:1883: expected a host that is known, found none of this name"
    )


def test_a_port_that_does_not_speak_tls_is_named(broker: FakeBroker) -> None:
    broker.is_silent = broker.closes = True
    found = failure(source_of(broker, tls=True))
    assert found.startswith(f"127.0.0.1:{broker.port}: expected TLS, found ")
    assert found.endswith("hint: this port may not speak TLS")


@pytest.mark.parametrize(
    ("version", "reason", "found"),
    [(5, 135, "Not authorized"), ("3.1.1", 128, "Unspecified error")],
)
def test_a_subscription_that_is_refused_is_an_error(
    broker: FakeBroker, version: object, reason: int, found: str
) -> None:
    broker.granted = reason
    message = (
        f"127.0.0.1:{broker.port}: expected to be allowed to subscribe to 'plant/+/+', "
        f"found the broker's answer {found}\n"
        "hint: check what the broker allows this user to read"
    )
    assert failure(source_of(broker, version=version)) == message
    with pytest.raises(BrokerError, match="expected to be allowed to subscribe"):
        source_of(broker, version=version).check()


def test_a_subscription_without_an_answer_is_an_error(broker: FakeBroker) -> None:
    broker.granted = None
    source = source_of(broker, timeout="3s")
    assert read(source) == []
    broker.clock.now += 3.1
    assert failure(source) == (
        f"127.0.0.1:{broker.port}: expected an answer to the subscription to 'plant/+/+', "
        "found none"
    )


@pytest.mark.parametrize(("retained", "handling"), [("take", 1), ("ignore", 2)])
def test_by_version_5_the_broker_is_told_which_retained_messages_to_send(
    broker: FakeBroker, retained: str, handling: int
) -> None:
    well(broker, retained=retained)
    (body,) = [each.body for each in broker.packets if each.kind == SUBSCRIBE]
    assert body[-1] == handling << 4 | 1  # and QoS 1


def test_a_broker_without_qos_1_is_reported(broker: FakeBroker) -> None:
    broker.granted = 0
    source = source_of(broker)
    read_until(source, source.notice, "a notice")
    assert source.notice() == (
        "the broker grants QoS 0 for 'plant/+/+': messages that come while the service is down "
        "are lost"
    )


def test_filters_that_overlap_need_a_broker_that_tells_them_apart(broker: FakeBroker) -> None:
    broker.limits = b"\x29\0"  # no identifiers of subscriptions
    with pytest.raises(ParameterError, match="the broker would send a message twice"):
        read(source_of(broker, topics=["a/{stream}", "{stream}/b"]))
    assert read(source_of(broker, topics=["a/{stream}", "a/#"])) == []


def test_a_message_that_two_subscriptions_bring_is_taken_once(broker: FakeBroker) -> None:
    source = well(broker, topics=["a/{stream}", "{stream}/b"])
    until(lambda: len(broker.numbers(SUBSCRIBE)) == 2, "subscriptions")
    one, other = (
        each.body[4 : 4 + each.body[2] - 1] for each in broker.packets if each.kind == SUBSCRIBE
    )
    broker.send(
        publish("a/b", b"1", 1, properties=b"\x0b" + one),
        publish("a/b", b"1", 2, properties=b"\x0b" + other),
        publish("a/c", b"2", 3, properties=b"\x0b" + one),
        publish("c/b", b"3", 4, properties=b"\x0b" + other),
        publish("a/b", b"4", 5, properties=b"\x0b" + other + b"\x0b" + one),
        publish("a/b", b"5", 6, properties=b"\x0b\x01"),  # of a subscription that is no more
    )
    assert read(source) == [
        ("b", "value", 1.0),
        ("b", "value", 4.0),
        ("b", "value", 5.0),
        ("c", "value", 2.0),
        ("c", "value", 3.0),
    ]
    source.acknowledge()
    until(lambda: broker.numbers(PUBACK) == [1, 2, 3, 4, 5, 6], "all acknowledged")


def test_topics_that_are_no_more_wanted_are_left(broker: FakeBroker) -> None:
    former = well(broker, topics=["plant/#", "old/{stream}"])
    place = former.snapshot()
    former.close()
    source = source_of(broker, topics=["new/{stream}", "plant/#"])
    assert source.resume(place)
    broker.packets.clear()
    read(source)
    (left,) = [each.body for each in broker.packets if each.kind == UNSUBSCRIBE]
    assert left.endswith(b"\0\5old/+")
    assert source.snapshot()["filters"] == ["plant/#", "new/+"]


def test_messages_are_acknowledged_in_order_once_they_are_durable(broker: FakeBroker) -> None:
    source = well(broker)
    broker.send(*(publish("plant/press/temp", b"%d" % each, each) for each in range(1, 6)))
    assert read(source) == [temp(each) for each in range(1, 6)]
    read(source)  # although nothing is durable
    assert broker.numbers(PUBACK) == []
    source.acknowledge()
    until(lambda: broker.numbers(PUBACK) == [1, 2, 3, 4, 5], "acknowledgements")


def test_messages_without_values_are_acknowledged_at_once_or_in_order(broker: FakeBroker) -> None:
    source = well(broker)
    broker.send(
        publish("plant/press/state", b"online", 1),
        publish("plant/press/state", b"{", 2),
        publish(b"plant/\xff/temp", b"1", 3),
        publish("other/press/temp", b"1", 4),
        publish("plant/press/temp", b"1", 5, retained=True),
        publish("plant/press/temp", b"x" * (1 << 20) + b"x", 6),
    )
    assert read(source) == []
    until(lambda: broker.numbers(PUBACK) == [1, 2, 3, 4, 5, 6], "acknowledgements")
    broker.send(
        publish("plant/press/state", b"online", 7),
        publish("plant/press/temp", b"1", 8),
        publish("plant/press/state", b"offline", 9),
        publish("plant/press/temp", b"2"),  # of QoS 0
    )
    assert read(source) == [temp(1), temp(2)]
    assert broker.numbers(PUBACK)[6:] == []
    source.acknowledge()
    until(lambda: broker.numbers(PUBACK)[6:] == [7, 8, 9], "acknowledgements")


def test_no_more_is_taken_than_what_may_be_unacknowledged(broker: FakeBroker) -> None:
    source = well(broker, version="3.1.1")
    numbers = range(1, 2 * WINDOW + 1)
    broker.send(*(publish("plant/a/b", b"1", each, version=4) for each in numbers))
    assert len(read(source)) == WINDOW
    source.acknowledge()
    assert len(read(source)) == WINDOW
    until(lambda: len(broker.numbers(PUBACK)) == WINDOW, "acknowledgements")


def test_no_more_bytes_are_taken_than_fit_into_the_memory(broker: FakeBroker) -> None:
    source = well(broker)
    large = json.dumps({"a": 1, "text": "x" * 900_000}).encode()
    sender = threading.Thread(
        target=lambda: broker.send(*(publish("plant/a/b", large, each) for each in range(1, 15)))
    )
    sender.start()
    batches: list[int] = []
    while sum(batches) < 14:
        batches.append(len(read(source)))
        source.acknowledge()
    sender.join()
    assert max(batches) <= 10


def test_a_message_with_more_samples_than_a_batch_is_given_in_parts(broker: FakeBroker) -> None:
    source = well(broker)
    many = json.dumps([{"ts": 60 + each, "a": each, "b": -each} for each in range(10)]).encode()
    broker.send(publish("plant/press/temp", many, 1), publish("plant/press/temp", b"7", 2))
    found: list[tuple[str, str, float]] = []
    delivered = []
    for _ in range(4):
        found += (part := read(source, 3))
        assert len(part) in (1, 2, 6)
        delivered.append(source.snapshot()["delivered"])
        assert broker.numbers(PUBACK) == []
        source.acknowledge()
    assert len(found) == 20
    until(lambda: broker.numbers(PUBACK) == [1], "an acknowledgement")
    assert [bool(each) for each in delivered] == [False, False, False, True]
    assert read(source, 3) == [temp(7)]


def test_messages_without_times_differ(broker: FakeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("newnormal.io.mqtt.time.time_ns", lambda: 5000)
    source = well(broker)
    broker.send(*(publish("plant/press/temp", b"1", each) for each in range(1, 4)))
    (arrival,) = source.next_batch(100)
    assert arrival.times.tolist() == [5000, 5001, 5002]


def test_what_is_logged_and_sent_again_is_acknowledged_and_not_taken(broker: FakeBroker) -> None:
    """As after a kill between the log and the acknowledgement."""
    before = well(broker)
    broker.send(
        publish("plant/press/temp", b"1", 1),
        publish("plant/press/temp", b"1", 2),
        publish("plant/oven/temp", b"1", 3),
    )
    assert len(read(before)) == 3
    place = json.loads(json.dumps(before.snapshot()))
    before.close()
    broker.resumed = True
    broker.then = [
        publish("plant/press/temp", b"1", 1, again=True),
        publish("plant/press/temp", b"1", 2, again=True),
        publish("plant/oven/temp", b"1", 3, again=True),
        publish("plant/press/temp", b"1", 4, again=True),  # sent, but not in the log
        publish("plant/press/temp", b"2", 3, again=True),  # another one with that number
        publish("plant/press/temp", b"1", 1),  # a new one with that number
    ]
    source = source_of(broker)
    assert source.resume(place)
    assert read(source) == [temp(1), temp(2), temp(1)]
    assert broker.numbers(PUBACK) == []
    source.acknowledge()
    until(lambda: broker.numbers(PUBACK) == [1, 2, 3, 4, 3, 1], "acknowledgements")


def test_after_a_lost_session_nothing_is_taken_for_what_was_sent_before(broker: FakeBroker) -> None:
    before = well(broker)
    broker.send(publish("plant/press/temp", b"1", 1))
    read(before)
    place = before.snapshot()
    before.close()
    broker.resumed = False
    broker.then = [publish("plant/press/temp", b"1", 1, again=True)]
    source = source_of(broker)
    assert source.resume(place)
    assert read(source) == [temp(1)]


def test_what_the_broker_has_acknowledged_is_forgotten(broker: FakeBroker) -> None:
    source = well(broker)
    broker.confirms = False
    broker.send(publish("plant/press/temp", b"1", 1))
    read(source)
    source.acknowledge()
    (asked,) = until(lambda: broker.numbers(UNSUBSCRIBE), "a question behind the acknowledgement")
    kinds = [each.kind for each in broker.packets]
    assert kinds.index(PUBACK) < kinds.index(UNSUBSCRIBE)
    read(source)
    assert source.snapshot()["delivered"] != ""
    broker.send(publish("plant/press/temp", b"2", 2))
    read(source)
    both = source.snapshot()["delivered"]
    source.acknowledge()
    assert len(broker.numbers(UNSUBSCRIBE)) == 1, "one question at a time"
    broker.send(packet(UNSUBACK, struct.pack("!H", asked) + b"\0\x11"))
    read(source)
    assert 0 < len(source.snapshot()["delivered"]) < len(both)
    broker.confirms = True
    broker.send(publish("plant/press/temp", b"3", 3))
    read(source)
    source.acknowledge()
    read_until(source, lambda: not source.snapshot()["delivered"], "the broker's answer")


def test_nothing_is_forgotten_before_all_that_is_sent_again_has_come(broker: FakeBroker) -> None:
    before = well(broker)
    broker.send(*(publish("plant/press/temp", b"1", each) for each in (1, 2)))
    read(before)
    place = before.snapshot()
    before.close()
    broker.resumed = True
    broker.then = [publish("plant/press/temp", b"1", 1, again=True)]
    source = source_of(broker)
    source.resume(place)
    assert read(source) == []
    broker.send(publish("plant/press/temp", b"5", 3, again=True))
    assert read(source) == [temp(5)]
    source.acknowledge()
    broker.send(publish("plant/press/temp", b"1", 2, again=True))
    assert read(source) == []
    assert broker.numbers(UNSUBSCRIBE) == []
    broker.send(publish("plant/press/temp", b"6", 4))
    assert read(source) == [temp(6)]
    source.acknowledge()
    read_until(source, lambda: not source.snapshot()["delivered"], "the broker's answer")


@pytest.mark.parametrize(
    ("numbers", "taken"),
    [([1, 2, 3], 0), ([65_534, 65_535, 1], 0), ([5, 9, 100], 0), ([1, 1, 1], 1), ([3, 2, 1], 1)],
)
def test_what_a_killed_broker_sends_again_is_known_if_it_does_not_use_numbers_again(
    broker: FakeBroker, numbers: list[int], taken: int
) -> None:
    """A broker that starts from an old file has forgotten that messages were acknowledged."""
    source = well(broker)
    for number in numbers:
        broker.send(publish("plant/press/temp", b"7", number))
        assert read(source) == [temp(7)]
        source.acknowledge()
        read_until(source, lambda: not source.snapshot()["delivered"], "the broker's answer")
    broker.resumed = True
    broker.then = [publish("plant/press/temp", b"7", numbers[0], again=True)]
    broker.drop()
    assert read(source) == []
    assert read(source) == [temp(7)] * taken


def test_digests_are_bounded_and_the_oldest_go_first() -> None:
    kept = Delivered(3)
    digests = [b"%08d" % each for each in range(10)]
    kept.add(digests)
    assert [each in kept for each in digests] == [False] * 7 + [True] * 3
    other = Delivered(3)
    other.read(kept.text([b"00000010"]))
    assert [each in other for each in (*digests, b"00000010")] == [False] * 8 + [True] * 3
    kept.confirm(0)
    assert len(kept) == 3
    kept.confirm(10)
    assert len(kept) == 0


def test_a_place_of_another_broker_is_not_taken_but_its_client_id_is(broker: FakeBroker) -> None:
    place = {
        "broker": "elsewhere:1883",
        "client_id": "newnormal-bus-1",
        "filters": ["old/#"],
        "delivered": "AAAAAAAAAAA=",
    }
    source = source_of(broker)
    assert not source.resume(place)
    assert source.snapshot() == {
        "broker": f"127.0.0.1:{broker.port}",
        "client_id": "newnormal-bus-1",
        "filters": ["plant/+/+"],
        "delivered": "",
    }


def test_the_client_id_is_the_same_each_time_and_a_given_one_is_first(broker: FakeBroker) -> None:
    place = source_of(broker).snapshot()
    assert source_of(broker).snapshot()["client_id"] == place["client_id"]
    assert place["client_id"].startswith("newnormal-bus-")
    given = source_of(broker, client_id="mine")
    assert given.resume(place)
    assert given.snapshot()["client_id"] == "mine"


def test_a_connection_that_ends_is_made_again_and_messages_go_on(broker: FakeBroker) -> None:
    source = well(broker)
    broker.send(publish("plant/press/temp", b"1", 1))
    assert read(source) == [temp(1)]
    broker.drop()
    source.acknowledge()
    assert read(source) == []
    broker.resumed = True
    broker.then = [
        publish("plant/press/temp", b"1", 1, again=True),
        publish("plant/press/temp", b"2", 2),
    ]
    assert read(source) == [temp(2)]
    assert source.notice() == ""


def test_a_broker_that_goes_away_is_tried_after_longer_and_longer_waits(broker: FakeBroker) -> None:
    source = well(broker)
    broker.reason = 136
    broker.send(packet(DISCONNECT, b"\x8b"))
    read_until(source, source.notice, "a notice")
    assert source.notice() == (
        f"127.0.0.1:{broker.port}: expected the connection to stay, "
        "found the broker ended it: Server shutting down"
    )
    for wait in (1.0, 2.0, 5.0, 10.0, 30.0, 30.0):
        clients = broker.clients
        broker.clock.now += wait - 0.1
        assert read(source) == []
        assert broker.clients == clients
        broker.clock.now += 0.2
        read(source)
        assert broker.clients == clients + 1
        assert source.notice().endswith(
            "expected to be accepted, found the broker's answer Server unavailable"
        )
    broker.reason = 0
    broker.then = [publish("plant/press/temp", b"1", 1)]
    broker.clock.now += 30.1
    assert read(source) == [temp(1)]
    source.acknowledge()
    read_until(source, lambda: not source.notice(), "the source to be well")
    broker.send(packet(DISCONNECT, b"\x8b"))
    read_until(source, source.notice, "a notice")
    broker.clock.now += 1.1
    assert read(source) == [temp(1)], "the waits begin anew"


def test_what_came_before_a_connection_ends_is_taken(broker: FakeBroker) -> None:
    source = well(broker)
    broker.send(publish("plant/press/temp", b"1", 1), publish("plant/press/temp", b"2"))
    broker.drop()
    assert read(source) == [temp(1), temp(2)]
    source.acknowledge()
    broker.resumed = True
    broker.then = [publish("plant/press/temp", b"1", 1, again=True)]
    assert read(source) == []
    assert read(source) == []
    until(lambda: broker.numbers(PUBACK) == [1], "an acknowledgement")


def test_a_session_that_another_client_takes_is_left_to_it_for_a_minute(broker: FakeBroker) -> None:
    source = well(broker, client_id="me")
    broker.send(packet(DISCONNECT, b"\x8e"))
    said = (
        "another client with the client id 'me' has taken the session over, and messages may have "
        "gone to it: set another client_id here or there"
    )
    for moment in (0.0, 59.0):
        assert read(source) == []
        assert source.notice() == said
        assert broker.clients == 1
        broker.clock.now += moment
    broker.clock.now += 2.0
    read(source)
    assert broker.clients == 2
    assert source.notice() == said
    broker.clock.now += 600.0
    assert source.notice() == ""


def test_so_is_one_of_a_broker_that_ends_connections_again_and_again(broker: FakeBroker) -> None:
    source = source_of(broker, client_id="me", version="3.1.1")
    for clients in (1, 2, 3):
        read(source)
        assert (broker.clients, source.notice()) == (clients, "")
        broker.drop()
        read(source)
    assert "another client with the client id 'me'" in source.notice()
    assert read(source) == []
    assert broker.clients == 3


def test_connections_of_a_broker_that_was_away_are_not_taken_for_another_client() -> None:
    clock = StillClock(1000.0)
    tries = Tries(clock)
    for _ in range(10):
        tries.failed(ClosedError("closed"), "me")
        assert tries.is_due()
        tries.failed(BrokerError("none", hint="start it"), "me")
        assert not tries.is_due()
        assert tries.report() == "none (start it)"
        clock.now += 2.0
        tries.succeeded()
        assert tries.report() == ""


def test_a_waiting_source_is_closed(broker: FakeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    source = well(broker)
    monkeypatch.setattr("newnormal.io.sources.mqtt._IDLE", 0.5)
    waiting = threading.Thread(target=lambda: source.next_batch(10))
    waiting.start()
    source.close()
    source.close()
    waiting.join(20.0)
    assert not waiting.is_alive()


# The library leaves the socket to the garbage collector, which warns.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_host_that_does_not_speak_websockets_is_named(broker: FakeBroker) -> None:
    broker.closes = True
    found = failure(
        source_of(broker, host=None, port=None, url=f"ws://127.0.0.1:{broker.port}/mqtt")
    )
    assert found.startswith(f"127.0.0.1:{broker.port}: expected a connection, found ")


@pytest.mark.parametrize("seed", range(count(40, 5000)))
def test_any_bytes_of_a_broker_give_samples_or_our_error(broker: FakeBroker, seed: int) -> None:
    chance = random.Random(seed)
    sent = bytearray(publish("plant/press/temp", b'{"a": 1}', 7) * 3)
    for _ in range(chance.randrange(1, 8)):
        sent[chance.randrange(len(sent))] = chance.randrange(256)
    if seed % 3 == 0:
        sent = bytearray(chance.randbytes(60))
    broker.then = [bytes(sent), packet(DISCONNECT, b"\x8b")]
    source = source_of(broker, timeout="500ms", keep="none")
    try:
        for _ in range(3):
            for each in source.next_batch(100):
                assert np.isfinite(each.values).any()
    except NewnormalError:
        pass


def test_messages_that_cannot_be_read_are_reported_for_ten_minutes(broker: FakeBroker) -> None:
    source = well(broker)
    broker.send(
        publish("plant/press/temp", b"1", 1),
        publish("plant/press/temp", b'{"a": ', 2),
        publish("plant/press/temp", b"x" * ((1 << 20) + 1), 3),
    )
    assert read(source) == [temp(1)]
    assert source.notice() == (
        "2 messages could not be read, lastly plant/press/temp: "
        "expected at most 1,048,576 bytes, found 1,048,577"
    )
    broker.clock.now += 601.0
    assert source.notice() == ""


def test_objects_without_the_field_that_is_wanted_are_reported(broker: FakeBroker) -> None:
    source = well(broker, topics=["plant/{stream}/{channel}", "rooms/{stream}"], value="value")
    broker.send(
        publish("plant/press/temp", b'{"value": 1}', 1),
        publish("plant/press/temp", b'{"state": "idle"}', 2),
        publish("rooms/kitchen", b'{"value": null}', 3),
        publish("rooms/kitchen", b'{"temperature": 21.5, "humidity": 40}', 4),
        publish("rooms/hall", b'{"temperature": 20.5, "humidity": 41}', 5),
    )
    assert read(source) == [temp(1)]
    assert source.notice() == (
        "no message of rooms/{stream} has a number, 2 messages so far, lastly rooms/hall: "
        'expected a field value, found \'{"temperature": 20.5, "humidity": 41}\''
    )
    broker.send(publish("rooms/hall", b'{"value": 2}', 6))
    read(source)
    broker.clock.now += 61.0
    assert source.notice() == ""


def test_texts_are_reported_only_where_no_message_has_a_number() -> None:
    clock = StillClock(1000.0)
    unread = Unread(["a/{stream}", "b/{stream}"], clock)
    unread.has_none(0, "a/x", "expected a number, found 'online'")
    unread.has_none(1, "b/x", "expected a number, found '21,5'")
    unread.is_read(0)
    assert unread.report() == (
        "no message of b/{stream} has a number, 1 message so far, lastly "
        "b/x: expected a number, found '21,5'"
    )
    unread.has_none(1, "b/y", "expected a number, found '22,5'")
    assert "1 message so far" in unread.report(), "it changes once a minute"
    clock.now += 61.0
    assert "2 messages so far, lastly b/y" in unread.report()
    clock.now += 61.0
    unread.is_read(1)
    assert unread.report() == ""


def test_no_message_shows_the_password(broker: FakeBroker) -> None:
    broker.reason = 135
    assert "swordfish" not in failure(source_of(broker, user="me", password="swordfish"))


GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "mqtt.md").read_text()


def test_the_topics_of_the_guide_are_named_as_it_says() -> None:
    rows = re.findall(
        r"^\| `([^`]+)` \| `([^`]+)` \| `([^`]+)` \| `([^`]+)` \|$", GUIDE, re.MULTILINE
    )
    assert len(rows) == 7
    for pattern, topic, stream, channel in rows:
        found = TopicPattern("guide", pattern).match(topic)
        assert found is not None
        assert (found[0], found[1] or "value") == (stream, channel)


def test_the_limits_of_the_guide_are_those_of_the_code() -> None:
    assert f"at most {mqtt.WINDOW:,} that are not acknowledged" in GUIDE
    assert f"{mqtt.WINDOW:,} or {mqtt._MOST_BYTES >> 20} MB" in GUIDE
    assert f"its last {mqtt._RECENT:,} messages" in GUIDE
    assert mqtt._LARGEST == 1 << 20 and "above 1 MB they are left out" in GUIDE
    assert f'`"{mqtt._KEEP}"`, or `"none"`' in GUIDE
    assert "after 1, 2, 5, 10 and then 30 s" in " ".join(GUIDE.split())
