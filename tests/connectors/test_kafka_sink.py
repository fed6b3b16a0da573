"""Kafka as a sink of alerts, and the options that say how a cluster is reached."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("confluent_kafka", reason="needs the extra kafka")

import confluent_kafka
from confluent_kafka import KafkaError

from newnormal.errors import InputError, ParameterError
from newnormal.io.kafka import KafkaCluster, KafkaTroubles
from newnormal.io.options import Options
from newnormal.io.sinks.alerts import Alert, AlertRefusedError, SinkDownError
from newnormal.io.sinks.kafka import KafkaSink
from newnormal.io.sources.kafka import KafkaSource
from newnormal.service.config_file import load_config
from newnormal.service.connectors import make_sink, make_source
from newnormal.testing import check_alert_sink
from tests.connectors.kafka_mock import Kafka, Relay
from tests.connectors.programs import free_port
from tests.errors import raised
from tests.waiting import until

PRODUCE, INIT_PRODUCER = 0, 22  # kinds of requests
SECRET = "swordfish-9"


@pytest.fixture
def kafka() -> Iterator[Kafka]:
    with Kafka() as found:
        found.topic("alarms", 3)
        yield found


def sink_of(kafka: Kafka, **options: Any) -> KafkaSink:
    given = {"servers": [kafka.server], "topic": "alarms", "timeout": "5s", **options}
    return kafka.closing(KafkaSink("topic", given))


def alert(number: int = 1, status: str = "fired", **more: Any) -> Alert:
    item = f"alarm-1-1-{number}"
    body = {"key": f"{item}:{status}", "item": item, "status": status, "streams": ["température"]}
    return Alert(body["key"], {**body, **more})  # type: ignore[arg-type]


# ------------------------------------------------------------------ alerts


def test_the_sink_keeps_what_an_alert_sink_promises(kafka: Kafka) -> None:
    check_alert_sink(
        lambda: sink_of(kafka),
        received=lambda: [each.value["key"] for each in kafka.messages("alarms")],
        down=lambda: sink_of(kafka, servers=[f"127.0.0.1:{free_port()}"], timeout="1s"),
    )


def test_an_alert_is_a_message_with_its_keys(kafka: Kafka) -> None:
    sink = sink_of(kafka)
    for number in range(8):
        sink.send(alert(number))
        sink.send(alert(number, "resolved"))
    found = kafka.messages("alarms")
    assert len(found) == 16
    for each in found:
        assert each.key == each.value["item"]
        expected = {"newnormal-key": each.value["key"], "content-type": "application/json"}
        assert each.headers == expected
    assert found[0].value["streams"] == ["température"]
    by_partition = [[each for each in found if each.partition == at] for at in range(3)]
    assert all(by_partition)
    for part in by_partition:  # both of an item in one partition, in their order
        keys = [each.value["key"] for each in part]
        items = {each.key for each in part}
        assert sorted(keys) == sorted(f"{item}:{status}" for item in items for status in STATUSES)
        for item in items:
            assert keys.index(f"{item}:fired") < keys.index(f"{item}:resolved")


STATUSES = ("fired", "resolved")


def test_an_alert_that_is_too_large_is_refused_and_others_go_on(kafka: Kafka) -> None:
    sink = sink_of(kafka)
    with pytest.raises(AlertRefusedError, match="Message size too large") as caught:
        sink.send(alert(1, note="x" * 1_100_000))
    assert "max.message.bytes" in str(caught.value.hint)
    kafka.fail(PRODUCE, KafkaError.MSG_SIZE_TOO_LARGE)  # by a topic's own limit
    with pytest.raises(AlertRefusedError, match="Message size too large"):
        sink.send(alert(2))
    sink.send(alert(3))
    assert [each.key for each in kafka.messages("alarms")] == ["alarm-1-1-3"]


def test_brokers_that_are_down_are_named_and_alerts_go_on_when_they_are_back(kafka: Kafka) -> None:
    with Relay(kafka.port) as relay:
        sink = sink_of(kafka, servers=[relay.server], timeout="1s")
        sink.send(alert(1))
        relay.cut()
        began = time.monotonic()
        error = raised(SinkDownError, lambda: sink.send(alert(2)))
        assert time.monotonic() - began < sink.timeout
        assert error.message.startswith(
            f"{relay.server}: expected the topic alarms to take the message, found "
        )
        assert "Connection refused" in error.message
        relay.restore()

        def is_sent() -> bool:
            with suppress(SinkDownError):
                sink.send(alert(3))
                return True
            return False

        until(is_sent, "the brokers to be back")
    keys = [each.key for each in kafka.messages("alarms")]
    assert keys.count("alarm-1-1-1") == 1 and "alarm-1-1-3" in keys


def test_a_topic_that_is_not_there_is_not_made(kafka: Kafka) -> None:
    sink = sink_of(kafka, topic="absent", timeout="1s")
    with pytest.raises(InputError, match="expected the topic absent, found none") as caught:
        sink.check()
    assert caught.value.hint == (
        f"make it: kafka-topics.sh --create --topic absent --bootstrap-server {kafka.server}"
    )
    with pytest.raises(SinkDownError, match="expected the topic absent to take the message"):
        sink.send(alert())
    with pytest.raises(InputError, match="expected the topic absent, found none"):
        sink.check()


def test_check_says_what_is_there(kafka: Kafka) -> None:
    found = sink_of(kafka).check()
    assert found.startswith("cluster mockCluster")
    assert found.endswith(
        f" at {kafka.server} (no TLS, no user); topic alarms, 3 partitions, 1 brokers"
    )
    nobody = f"127.0.0.1:{free_port()}"
    with pytest.raises(InputError, match=f"{nobody}: expected a broker to answer, found .*refused"):
        sink_of(kafka, servers=[nobody], timeout="1s").check()


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "the user must be allowed to write the topic"),
        (KafkaError.CLUSTER_AUTHORIZATION_FAILED, 'options = {"enable.idempotence" = false}'),
    ],
)
def test_a_refusal_says_what_to_mend(kafka: Kafka, error: int, hint: str) -> None:
    sink = sink_of(kafka, timeout="2s")
    kafka.fail(PRODUCE, error)
    assert hint in str(raised(SinkDownError, lambda: sink.send(alert())).hint)
    sink.send(alert())  # once it is mended, also after an error that ends the producer
    assert [each.key for each in kafka.messages("alarms")] == ["alarm-1-1-1"]


def test_a_sink_can_be_closed_while_it_sends(kafka: Kafka) -> None:
    sink = sink_of(kafka, servers=[f"127.0.0.1:{free_port()}"], timeout="1m")
    errors: list[BaseException] = []

    def send() -> None:
        try:
            sink.send(alert())
        except SinkDownError as error:
            errors.append(error)

    thread = threading.Thread(target=send)
    thread.start()
    began = time.monotonic()
    sink.close()
    thread.join(20.0)
    assert not thread.is_alive() and time.monotonic() - began < 20.0
    assert len(errors) == 1
    with pytest.raises(SinkDownError, match="expected an open sink, found it closed"):
        sink.send(alert())


# ------------------------------------------------------------------ options


def settings_of(monkeypatch: pytest.MonkeyPatch, **options: Any) -> dict[str, Any]:
    """Return the settings that the library gets."""
    found: dict[str, Any] = {}

    class Recorder:
        def __init__(self, settings: dict[str, Any], **_: Any) -> None:
            found.update(settings)

    monkeypatch.setattr(confluent_kafka, "Consumer", Recorder)
    KafkaSource("bus", {"servers": ["k1:9093", "k2:9093"], "topics": ["metrics"], **options})
    return found


def test_the_settings_of_a_plain_source(monkeypatch: pytest.MonkeyPatch) -> None:
    found = settings_of(monkeypatch)
    assert found["bootstrap.servers"] == "k1:9093,k2:9093"
    assert found["security.protocol"] == "PLAINTEXT"
    assert found["group.id"] == "newnormal"
    assert found["enable.auto.commit"] is False
    assert found["auto.offset.reset"] == "error"
    assert found["isolation.level"] == "read_committed"
    assert found["queued.max.messages.kbytes"] <= 65_536
    assert not [name for name in found if name.startswith(("sasl", "ssl"))]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_user_and_encryption(monkeypatch: pytest.MonkeyPatch, mechanism: str) -> None:
    found = settings_of(
        monkeypatch,
        user="nn",
        password=SECRET,
        sasl=mechanism,
        tls=True,
        ca_file="ca.pem",
        cert_file="cert.pem",
        key_file="key.pem",
        key_password="other",
    )
    assert found["security.protocol"] == "SASL_SSL"
    assert found["sasl.mechanisms"] == mechanism
    assert (found["sasl.username"], found["sasl.password"]) == ("nn", SECRET)
    assert found["ssl.ca.location"] == "ca.pem"
    assert found["ssl.certificate.location"] == "cert.pem"
    assert found["ssl.key.location"] == "key.pem"
    assert found["ssl.key.password"] == "other"


def test_a_user_without_encryption_and_one_with_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    assert settings_of(monkeypatch, user="nn", password=SECRET)["security.protocol"] == (
        "SASL_PLAINTEXT"
    )
    assert settings_of(monkeypatch, ca_file="ca.pem")["security.protocol"] == "SSL"
    assert settings_of(monkeypatch, servers="k1:9093, k2:1")["bootstrap.servers"] == "k1:9093,k2:1"


def test_other_settings_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"client": {"rack": "az-1"}, "session.timeout.ms": 6000, "check.crcs": True}
    found = settings_of(monkeypatch, options=options)
    assert found["client.rack"] == "az-1"
    assert found["session.timeout.ms"] == "6000"
    assert found["check.crcs"] == "true"


def test_secrets_of_files_are_never_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", SECRET)
    (tmp_path / "password").write_text(f"{SECRET}\n")
    nobody = f"127.0.0.1:{free_port()}"
    shared = f'kind = "kafka"\nservers = ["{nobody}"]\nuser = "nn"\n'
    (tmp_path / "service.toml").write_text(
        f'[sources.bus]\n{shared}password_file = "password"\ntopics = ["metrics"]\n'
        f'[sinks.topic]\n{shared}password_env = "KAFKA_PASSWORD"\ntopic = "alarms"\n'
        'timeout = "1s"\n'
    )
    config = load_config(tmp_path / "service.toml")
    monkeypatch.setattr("newnormal.io.sources.kafka_group.FIRST_ANSWER", 0.5)
    source, sink = make_source(config.sources[0]), make_sink(config.sinks[0])
    for each in (source, sink):
        with pytest.raises(InputError, match="expected a broker to answer") as caught:
            each.check()
        assert SECRET not in str(caught.value) + repr(each) + repr(vars(each)["_cluster"])
        each.close()
    (tmp_path / "bad.toml").write_text(
        f'[sources.bus]\n{shared}password = "{SECRET}"\ntopics = ["metrics"]\n'
    )
    with pytest.raises(ParameterError, match="expected no secret in the configuration"):
        load_config(tmp_path / "bad.toml")


def test_what_the_library_reports_is_put_into_words() -> None:
    troubles = KafkaTroubles("k1:9092")
    text = "k1:9092/1: Connect failed: Connection refused (after 3ms in state CONNECT, 7 more)"
    troubles(KafkaError(KafkaError._TRANSPORT, text))
    assert troubles.last == "k1:9092/1: Connect failed: Connection refused"
    troubles(KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))
    assert (troubles.last[-7:], troubles.down) == ("refused", True)
    troubles.check()
    troubles.over()
    assert (troubles.last, troubles.down) == ("", False)
    for code, hint in (
        (KafkaError._AUTHENTICATION, "check user, password and sasl"),
        (KafkaError.UNSUPPORTED_SASL_MECHANISM, "check sasl"),
        (KafkaError._SSL, "check tls, ca_file, cert_file and key_file"),
    ):
        troubles(KafkaError(code, "refused by the broker"))
        with pytest.raises(InputError, match="k1:9092: expected the brokers to take") as caught:
            troubles.check()
        assert caught.value.hint == hint
        troubles.check()  # once


def test_what_is_shown_of_a_cluster_has_no_secret() -> None:
    given = {"servers": "k:1", "user": "nn", "password": SECRET}
    cluster = KafkaCluster(Options("sink topic", given))
    assert cluster.protection == "no TLS, user nn"
    assert SECRET not in json.dumps([cluster.servers, cluster.protection, repr(cluster)])
