"""Alerts by MQTT beside a broker that answers as a test wants."""

import json
import struct
from typing import Any

import pytest

from newnormal.errors import NewnormalError
from newnormal.io.mqtt import BrokerError
from newnormal.io.sinks.alerts import Alert, AlertRefusedError
from newnormal.io.sinks.mqtt import MqttSink
from newnormal.testing.service_sinks import _alerts
from tests.connectors.mqtt_peers import PUBLISH, FakeBroker
from tests.errors import raised

pytest.importorskip("paho.mqtt")


def sink_of(broker: FakeBroker, **options: Any) -> MqttSink:
    given = {"host": "127.0.0.1", "port": broker.port, **options}
    return broker.closing(MqttSink("bus", given, clock=broker.clock))


ALERTS = _alerts()
ALERT = ALERTS["an alarm that fired"]


def published(broker: FakeBroker) -> list[tuple[str, bytes, bool]]:
    """Return topic, payload and retain of messages that a sink of 3.1.1 sent."""
    found = []
    for each in list(broker.packets):
        if each.kind == PUBLISH:
            end = 2 + struct.unpack_from("!H", each.body)[0]
            found.append((each.body[2:end].decode(), each.body[end + 2 :], bool(each.flags & 1)))
    return found


def test_an_alert_is_its_body_on_the_topic_of_its_stream(broker: FakeBroker) -> None:
    sink = sink_of(broker, version="3.1.1")
    sink.send(ALERT)
    ((topic, body, retained),) = published(broker)
    assert (topic, json.loads(body), retained) == (
        "newnormal/alerts/press-1",
        dict(ALERT.body),
        False,
    )
    sink.send(ALERTS["an incident, which has no stream"])
    assert published(broker)[1][0] == "newnormal/alerts/incidents"
    assert broker.clients == 1, "one connection"


def test_by_version_5_a_message_says_that_it_is_json(broker: FakeBroker) -> None:
    sink_of(broker).send(ALERT)
    (found,) = [each for each in broker.packets if each.kind == PUBLISH]
    assert b"\x01\x01" in found.body and b"\x03\0\x10application/json" in found.body


def test_with_retain_the_newest_alert_of_a_topic_stays(broker: FakeBroker) -> None:
    sink = sink_of(broker, version="3.1.1", retain=True)
    for what in ("an alarm that fired", "an alarm that is resolved"):
        sink.send(ALERTS[what])
    assert [(json.loads(body)["status"], kept) for _, body, kept in published(broker)] == [
        ("fired", True),
        ("resolved", True),
    ]


def test_with_retain_and_item_what_is_resolved_is_removed(broker: FakeBroker) -> None:
    sink = sink_of(broker, version="3.1.1", retain=True, topic="open/{kind}/{item}")
    for what in ("an alarm that fired", "an alarm that is resolved"):
        sink.send(ALERTS[what])
    fired, resolved, removed = published(broker)
    assert fired[0] == resolved[0] == removed[0] == "open/alarm/alarm-1-1-1"
    assert (fired[2], resolved[2], removed[1:]) == (True, False, (b"", True))


def test_names_that_a_topic_cannot_have_are_written_otherwise(broker: FakeBroker) -> None:
    body = {**ALERT.body, "stream": "hall/press+#1"}
    sink_of(broker, version="3.1.1").send(Alert(ALERT.key, body))
    assert published(broker)[0][0] == "newnormal/alerts/hall/press%2B%231"


@pytest.mark.parametrize(
    ("reason", "kind", "found"),
    [
        (135, BrokerError, "Not authorized"),
        (151, BrokerError, "Quota exceeded"),
        (153, AlertRefusedError, "Payload format invalid"),
        (144, AlertRefusedError, "Topic name invalid"),
    ],
)
def test_an_alert_that_the_broker_refuses_is_not_delivered(
    broker: FakeBroker, reason: int, kind: type[NewnormalError], found: str
) -> None:
    broker.taken = reason
    error = raised(kind, lambda: sink_of(broker).send(ALERT))
    assert str(error).startswith(
        f"127.0.0.1:{broker.port}: expected 'newnormal/alerts/press-1' to be taken, found {found}"
    )


def test_that_nobody_subscribes_is_no_error(broker: FakeBroker) -> None:
    broker.taken = 16
    sink_of(broker).send(ALERT)


def test_an_alert_that_is_too_large_for_the_broker_is_refused(broker: FakeBroker) -> None:
    broker.limits = b"\x27" + struct.pack("!I", 200)
    with pytest.raises(AlertRefusedError, match="expected a message of at most 200 bytes, found"):
        sink_of(broker).send(ALERT)
    assert published(broker) == []


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (b"\x24\0", "expected a broker that takes messages of QoS 1, found QoS 0 alone"),
        (b"\x25\0", "expected a broker that retains messages, found one that does not"),
    ],
)
def test_a_broker_that_cannot_is_named(broker: FakeBroker, limits: bytes, message: str) -> None:
    broker.limits = limits
    for call in (
        sink_of(broker, retain=True).check,
        lambda: sink_of(broker, retain=True).send(ALERT),
    ):
        assert raised(BrokerError, call).message == f"127.0.0.1:{broker.port}: {message}"


def test_a_connection_that_was_idle_is_made_anew(broker: FakeBroker) -> None:
    sink = sink_of(broker)
    sink.send(ALERT)
    broker.clock.now += 31.0
    sink.send(ALERT)
    assert broker.clients == 2


def test_a_connection_that_is_gone_is_an_error_and_the_next_is_new(broker: FakeBroker) -> None:
    sink = sink_of(broker)
    sink.send(ALERT)
    broker.drop()
    with pytest.raises(BrokerError):
        sink.send(ALERT)
    sink.send(ALERT)
    assert broker.clients == 2


def test_the_check_of_a_sink_sends_nothing(broker: FakeBroker) -> None:
    assert sink_of(broker, retain=True, version="3.1.1").check() == (
        f"127.0.0.1:{broker.port} speaks MQTT 3.1.1; alerts go to newnormal/alerts/{{stream}}, "
        "and are retained"
    )
    assert published(broker) == []


def test_where_nobody_listens_the_message_says_so(broker: FakeBroker) -> None:
    sink, port = sink_of(broker), broker.port
    broker.close()
    for call in (lambda: sink.send(ALERT), sink.check):
        assert str(raised(BrokerError, call)) == (
            f"127.0.0.1:{port}: expected a broker, found none\n"
            "hint: it is not running, or listens on another address or port"
        )


def test_no_message_of_a_sink_shows_the_password(broker: FakeBroker) -> None:
    broker.reason = 135
    error = raised(BrokerError, sink_of(broker, user="me", password="swordfish").check)
    assert "swordfish" not in str(error)
