"""MQTT in and out with mosquitto: versions, passwords, TLS, retained and repeated messages."""

import json
import subprocess
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trustme

from newnormal.io.mqtt import BrokerError
from newnormal.io.sinks.mqtt import MqttSink
from newnormal.io.sources.mqtt import MqttSource
from newnormal.testing import check_alert_sink, check_source
from newnormal.testing.service_sinks import _alerts
from tests.connectors.mqtt_peers import Received, Sender, plain, receiving
from tests.connectors.programs import Mosquitto, Newnormal, found, free_port
from tests.errors import raised
from tests.waiting import until

pytest.importorskip("paho.mqtt")

VERSIONS = (5, "3.1.1")
ALERT = _alerts()["an alarm that fired"]

_LISTENERS = """
per_listener_settings true
allow_anonymous true
max_queued_messages 100000
log_type error

listener {password} 127.0.0.1
password_file {folder}/passwords
acl_file {folder}/acl
allow_anonymous false

listener {tls} 127.0.0.1
cafile {folder}/ca.pem
certfile {folder}/server.pem
keyfile {folder}/server.key
allow_anonymous true

listener {certificates} 127.0.0.1
cafile {folder}/ca.pem
certfile {folder}/server.pem
keyfile {folder}/server.key
require_certificate true
allow_anonymous true

listener {web} 127.0.0.1
protocol websockets
allow_anonymous true

listener {low} 127.0.0.1
max_qos 0
allow_anonymous true
"""


class Brokers:
    """One mosquitto with a port for each way to log in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        names = ("password", "tls", "certificates", "web", "low")
        self.ports = {name: free_port() for name in names}
        self.program = Mosquitto(folder, _LISTENERS.format(folder=folder, **self.ports))
        (folder / "passwords").touch()
        subprocess.run(
            [found("mosquitto_passwd"), "-b", "passwords", "me", "swordfish"],
            cwd=folder,
            check=True,
            capture_output=True,
        )
        (folder / "acl").write_text("user me\ntopic read plant/#\ntopic write allowed/#\n")
        authority = trustme.CA()
        authority.cert_pem.write_to_path(str(folder / "ca.pem"))
        for name, identity in (("server", "127.0.0.1"), ("client", "me@example.org")):
            made = authority.issue_cert(identity)
            made.cert_chain_pems[0].write_to_path(str(folder / f"{name}.pem"))
            made.private_key_pem.write_to_path(str(folder / f"{name}.key"))
        trustme.CA().cert_pem.write_to_path(str(folder / "other-ca.pem"))

    @property
    def port(self) -> int:
        return self.program.port

    def options(self, listener: str = "", **given: Any) -> dict[str, Any]:
        port = self.ports.get(listener, self.port)
        return {"host": "127.0.0.1", "port": port, "topics": ["plant/{stream}/{channel}"], **given}

    def sink_options(self, listener: str = "", **given: Any) -> dict[str, Any]:
        return {"host": "127.0.0.1", "port": self.ports.get(listener, self.port), **given}


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    made = Brokers(tmp_path_factory.mktemp("mosquitto"))
    with made.program:
        yield made


@pytest.fixture(autouse=True)
def _waits_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("newnormal.io.sources.mqtt._IDLE", 0.1)
    monkeypatch.setattr("newnormal.io.sources.mqtt._TRIED", 0.3)


@pytest.fixture
def made() -> Iterator[list[MqttSource | MqttSink]]:
    """Sources and sinks to close."""
    found: list[MqttSource | MqttSink] = []
    yield found
    for each in found:
        each.close()


Made = list[MqttSource | MqttSink]


def subscribed(made: Made, options: dict[str, Any], name: str = "bus") -> MqttSource:
    """Return a source that the broker has the subscriptions of."""
    source = MqttSource(name, options)
    made.append(source)
    source.next_batch(1)
    until(lambda: source.next_batch(1) == () and not source._asked, "the subscriptions")
    return source


def values(source: MqttSource) -> list[tuple[str, str, float]]:
    return [
        (each.stream, channel, float(value))
        for each in source.next_batch(5000)
        for row in each.values
        for channel, value in zip(each.channels, row, strict=True)
        if not np.isnan(value)
    ]


def read(source: MqttSource, count: int) -> list[tuple[str, str, float]]:
    """Return so many values, and check that no more come."""
    found: list[tuple[str, str, float]] = []

    def come() -> bool:
        found.extend(values(source))
        source.acknowledge()
        return len(found) >= count

    until(come, f"{count} values")
    found += values(source)
    return sorted(found)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_source_keeps_its_promises(brokers: Brokers, made: Made, version: object) -> None:
    times = [{"ts": 1767225600 + each, "temp": each} for each in range(5)]
    messages = [("plant/press/motor", json.dumps(each).encode()) for each in times]
    options = brokers.options(version=version, client_id=f"contract-{version}")

    def make(host: str = "127.0.0.1") -> MqttSource:
        forget = MqttSource("bus", {**options, "keep": "none"})  # the session
        forget.next_batch(1)
        forget.close()
        subscribed(made, options).close()
        Sender(brokers.port).send(messages)
        return MqttSource("bus", {**options, "host": host})

    check_source(make, other=lambda: make("localhost"))


class Keys(Collection[str]):
    """The keys of alerts that came; whether one did is waited for."""

    def __init__(self, received: list[Received]) -> None:
        self._received = received

    def __iter__(self) -> Iterator[str]:
        return (json.loads(each.payload)["key"] for each in list(self._received))

    def __len__(self) -> int:
        return len(self._received)

    def __contains__(self, key: object) -> bool:
        return until(lambda: key in list(self), f"the alert {key}")


@pytest.mark.parametrize("version", VERSIONS)
def test_the_sink_keeps_its_promises(brokers: Brokers, version: object) -> None:
    options = brokers.sink_options(version=version, topic="contract/{kind}/{stream}")
    with receiving(brokers.port, "contract/#") as received:
        check_alert_sink(
            lambda: MqttSink("bus", options),
            received=lambda: Keys(received),
            down=lambda: MqttSink("bus", {**options, "port": free_port()}),
        )
    assert {each.topic for each in received} == {
        "contract/alarm/press-1",
        "contract/change/press-1",
        "contract/incident/incidents",
        "contract/silence/press-1",
        "contract/channels/press-1",
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_wildcards_take_each_message_once(brokers: Brokers, made: Made, version: object) -> None:
    topics = ["plant/{stream}/{channel}", "zigbee/{stream}", "plant/#", "factory/+/#"]
    if version == 5:
        topics += ["both/{stream}/x", "both/a/{stream}"]
    source = subscribed(
        made, brokers.options(version=version, topics=topics, client_id=f"wild-{version}")
    )
    Sender(brokers.port).send(
        [
            ("plant/press/temp", b"1"),
            ("plant/press", b"2"),
            ("plant/a/b/c", b"3"),
            ("zigbee/kitchen", b'{"temperature": 21.5, "battery": 98, "state": "ON"}'),
            ("zigbee/kitchen/availability", b"1"),
            ("factory/line/x/y", b"4"),
            ("elsewhere/a", b"5"),
            *((("both/a/x", b"6"),) if version == 5 else ()),
        ]
    )
    expected = [
        ("factory/line/x/y", "value", 4.0),
        ("kitchen", "battery", 98.0),
        ("kitchen", "temperature", 21.5),
        ("plant/a/b/c", "value", 3.0),
        ("plant/press", "value", 2.0),
        ("press", "temp", 1.0),
    ]
    if version == 5:
        expected.append(("a", "value", 6.0))
    assert read(source, len(expected)) == sorted(expected)


@pytest.mark.parametrize("version", VERSIONS)
def test_retained_messages_are_left_or_taken(brokers: Brokers, made: Made, version: object) -> None:
    topics = [f"kept-{version}/{{stream}}"]
    sender = Sender(brokers.port)
    sender.send([(f"kept-{version}/press", b"1")], retain=True)
    ignoring = brokers.options(version=version, topics=topics, client_id=f"ignoring-{version}")
    taking = {**ignoring, "retained": "take", "client_id": f"taking-{version}"}
    ignores, takes = MqttSource("bus", ignoring), MqttSource("bus", taking)
    made += [ignores, takes]
    assert read(takes, 1) == [("press", "value", 1.0)]
    assert values(ignores) == []
    sender.send([(f"kept-{version}/press", b"2")], retain=True)  # to who is there, it is new
    assert read(ignores, 1) == [("press", "value", 2.0)]
    assert read(takes, 1) == [("press", "value", 2.0)]


@pytest.mark.parametrize("version", VERSIONS)
def test_messages_for_nobody_are_kept(brokers: Brokers, made: Made, version: object) -> None:
    options = brokers.options(version=version, client_id=f"away-{version}")
    subscribed(made, options).close()
    Sender(brokers.port).send(plain(range(2500)))
    source = MqttSource("bus", options)
    made.append(source)
    assert len(read(source, 2500)) == 2500


@pytest.mark.parametrize("version", VERSIONS)
def test_what_was_logged_is_not_taken_twice(brokers: Brokers, made: Made, version: object) -> None:
    """As after a kill: the times are those at which messages come, and all are alike."""
    options = brokers.options(version=version, client_id=f"again-{version}")
    source = subscribed(made, options)
    sender = Sender(brokers.port)
    logged = 0
    for _ in range(4):
        sender.send(plain([7.0] * 50))
        batch = until(lambda source=source: source.next_batch(30), "a batch")  # type: ignore[misc]
        logged += sum(len(each.times) for each in batch)
        place = source.snapshot()
        source.close()  # without an acknowledgement
        source = MqttSource("bus", options)
        made.append(source)
        assert source.resume(place)
    assert logged + len(read(source, 200 - logged)) == 200


def test_two_clients_with_the_same_id_are_told_of(brokers: Brokers, made: Made) -> None:
    options = brokers.options(client_id="twin", topics=["twins/{stream}"])
    one, other = MqttSource("bus", options), MqttSource("bus", options)
    made += [one, other]

    def are_told() -> str:
        one.next_batch(1)
        other.next_batch(1)
        return one.notice() or other.notice()

    assert "another client with the client id 'twin' has taken the session over" in until(
        are_told, "a notice"
    )


def test_what_a_source_is_told_at_the_check(brokers: Brokers, made: Made) -> None:
    source = MqttSource("bus", brokers.options(retained="take", topics=["checked/{stream}"]))
    shown = f"127.0.0.1:{brokers.port} speaks MQTT 5; subscribed to checked/+; "
    assert source.check() == f"{shown}0 messages within 0.3 s, 0 channels of 0 streams"
    Sender(brokers.port).send(
        [("checked/a", b'{"x": 1, "y": 2}'), ("checked/b", b"1")], retain=True
    )
    assert source.check() == f"{shown}2 messages within 0.3 s, 3 channels of 2 streams"


def refused(options: dict[str, Any]) -> str:
    error = raised(BrokerError, MqttSource("bus", options).check)
    assert "swordfish" not in str(error)
    return str(error).partition(": ")[2]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_password_is_needed_and_works(brokers: Brokers, made: Made, version: object) -> None:
    options = brokers.options("password", version=version, client_id=f"password-{version}")
    message = (
        "expected to be accepted, found the broker's answer Not authorized\n"
        "hint: check user and password, and what the broker allows this user to do"
    )
    assert refused(options) == message
    assert refused({**options, "user": "me", "password": "swordfishes"}) == message
    source = subscribed(made, {**options, "user": "me", "password": "swordfish"})
    Sender(brokers.port).send(plain([1.0]))
    assert read(source, 1) == [("press", "temp", 1.0)]


def test_alerts_that_the_broker_does_not_allow_are_told(brokers: Brokers, made: Made) -> None:
    login = {"user": "me", "password": "swordfish"}
    sink = MqttSink("bus", brokers.sink_options("password", **login))
    made.append(sink)
    assert str(raised(BrokerError, lambda: sink.send(ALERT))) == (
        f"127.0.0.1:{brokers.ports['password']}: expected 'newnormal/alerts/press-1' to be taken, "
        "found Not authorized\nhint: check what the broker allows this user to write"
    )
    allowed = MqttSink("bus", brokers.sink_options("password", topic="allowed/x", **login))
    made.append(allowed)
    allowed.send(ALERT)


def test_tls_is_spoken_and_certificates_are_checked(brokers: Brokers, made: Made) -> None:
    folder = brokers.folder
    trusted = {"ca_file": f"{folder}/ca.pem"}
    unknown = refused(brokers.options("tls", tls=True))
    assert unknown.startswith("expected a certificate that can be trusted, found self")
    assert unknown.endswith("ca_file names the certificate of the authority that signed it")
    assert "expected a certificate that can be trusted" in refused(
        brokers.options("tls", ca_file=f"{folder}/other-ca.pem")
    )
    assert "found the connection closed" in refused(brokers.options("tls"))
    assert "TLS" in refused(brokers.options(tls=True))
    source = subscribed(made, brokers.options("tls", client_id="tls", **trusted))
    Sender(brokers.port).send(plain(range(3000)))
    assert len(read(source, 3000)) == 3000
    wants = brokers.options("certificates", client_id="certificates", **trusted)
    assert "expected an answer to CONNECT" in refused(wants)
    own = {"cert_file": f"{folder}/client.pem", "key_file": f"{folder}/client.key"}
    assert "speaks MQTT 5" in MqttSource("bus", {**wants, **own}).check()
    sink = MqttSink("bus", brokers.sink_options("certificates", **trusted, **own))
    made.append(sink)
    sink.send(ALERT)


def test_websockets_are_spoken(brokers: Brokers, made: Made) -> None:
    url = f"ws://127.0.0.1:{brokers.ports['web']}/mqtt"
    options = {"url": url, "topics": ["plant/{stream}/{channel}"], "client_id": "web"}
    source = subscribed(made, options)
    Sender(brokers.port).send(plain(range(300)))
    assert len(read(source, 300)) == 300
    sink = MqttSink("bus", {"url": url})
    made.append(sink)
    sink.send(ALERT)


def test_a_broker_without_qos_1_is_told_of(brokers: Brokers, made: Made) -> None:
    source = subscribed(made, brokers.options("low", client_id="low"))
    assert "the broker grants QoS 0 for 'plant/+/+'" in source.notice()
    Sender(brokers.port).send(plain([1.0]))
    assert read(source, 1) == [("press", "temp", 1.0)]
    with pytest.raises(BrokerError, match="expected a broker that takes messages of QoS 1"):
        MqttSink("bus", brokers.sink_options("low")).check()


def test_who_subscribes_later_finds_open_items_alone(brokers: Brokers, made: Made) -> None:
    sink = MqttSink("bus", brokers.sink_options(retain=True, topic="open/{stream}/{item}"))
    made.append(sink)
    alerts = _alerts()
    fired, resolved = alerts["an alarm that fired"], alerts["an alarm that is resolved"]
    for alert in (fired, alerts["a change"]):
        sink.send(alert)
    topics = {"open/press-1/alarm-1-1-1", "open/press-1/change-1-1-1"}
    with receiving(brokers.port, "open/#") as received:
        until(lambda: len(received) == 2, "the open items")
        assert {each.topic for each in received if each.retained} == topics
        sink.send(resolved)
        until(lambda: len(received) == 4, "the end of one")
        assert [json.loads(each.payload)["status"] for each in received[2:3]] == ["resolved"]
        assert received[3].payload == b""
    with receiving(brokers.port, "open/#", "marker") as received:
        Sender(brokers.port).send([("marker", b"1")])
        until(lambda: any(each.topic == "marker" for each in received), "all that is kept")
    assert [each.topic for each in received] == ["open/press-1/change-1-1-1", "marker"]


def test_the_service_checks_both(brokers: Brokers, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("swordfish\n")
    (tmp_path / "secret").chmod(0o600)
    login = f'user = "me"\npassword_file = "{tmp_path}/secret"'
    service = Newnormal(
        tmp_path / "service",
        f"""
[sources.plant]
kind = "mqtt"
host = "127.0.0.1"
port = {brokers.ports["password"]}
{login}
topics = ["plant/{{stream}}/{{channel}}"]
[sinks.bus]
kind = "mqtt"
url = "mqtt://127.0.0.1:{brokers.port}"
version = "3.1.1"
""",
    )
    began = time.monotonic()
    answer = service.check()
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert (
        f"ok      source plant: 127.0.0.1:{brokers.ports['password']} speaks MQTT 5; "
        "subscribed to plant/+/+; 0 messages within 2 s, 0 channels of 0 streams" in answer.stdout
    )
    assert (
        f"ok      sink bus: 127.0.0.1:{brokers.port} speaks MQTT 3.1.1; "
        "alerts go to newnormal/alerts/{stream}" in answer.stdout
    )
    assert "swordfish" not in answer.stdout + answer.stderr
    assert time.monotonic() - began < 30
