"""The service with Kafka: from topics to an alarm and its end, and through kills and cuts."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")
pytest.importorskip("confluent_kafka", reason="needs the extra kafka")

from tests.connectors import stories
from tests.connectors.kafka_mock import Kafka, Relay
from tests.connectors.programs import Newnormal
from tests.waiting import until

PARTITIONS = 3

# The cluster waits for a second less than the session before a group that had members is balanced.
QUICK = 'options = {"session.timeout.ms" = 1100, "heartbeat.interval.ms" = 300}\n'


def source(server: str, more: str = "") -> str:
    return (
        f'[sources.bus]\nkind = "kafka"\nservers = ["{server}"]\ntopics = ["metrics"]\n'
        f'stream = "host"\n{QUICK}{more}'
    )


HOSTS = 7


def sending(kafka: Kafka) -> stories.Numbers:
    """Return what sends messages of a host into one partition, and of one stream into all."""

    def send(numbers: Sequence[int]) -> None:
        for number in numbers:
            host = number % HOSTS
            body = {"host": f"host-{host}", "ts": stories.START + number, "n": number}
            kafka.produce("metrics", body, partition=host % PARTITIONS)
            body = {"host": "spread", "ts": stories.START + number, "n": number}
            kafka.produce("metrics", body, partition=number % PARTITIONS)
        kafka.flush()

    return stories.Numbers(send)


@pytest.mark.cases(4, 60)
def test_each_message_is_logged_once_despite_kills(tmp_path: Path, cases: range) -> None:
    size = min(600, 40_000 // len(cases))  # the cluster keeps 5 MB of a partition
    with Kafka() as kafka, Relay(kafka.port) as relay:
        kafka.topic("metrics", PARTITIONS)
        service = Newnormal(tmp_path, source(relay.server) + stories.NO_FITS)
        plant = sending(kafka)
        with service, service.client() as client:
            plant.start()
            for each in cases:
                mark = client.health()["position"]
                plant.most += size
                until(
                    lambda mark=mark: client.health()["position"] > mark,  # type: ignore[misc]
                    "messages in the log",
                )
                if each % 4 == 0:
                    service.kill()
                elif each % 4 == 1:
                    relay.cut()
                    until(
                        lambda: not stories.source_health(client, "bus")["ok"],
                        "the source to be cut off",
                    )
                    assert (
                        "expected a broker to answer"
                        in stories.source_health(client, "bus")["message"]
                    )
                elif each % 4 == 2:
                    relay.cut()
                    service.kill()
                else:
                    service.stop()
                until(lambda: plant.count >= plant.most, "messages while it is gone")
                if each % 2 == 0:
                    relay.cut()
                    relay.restore()
                    service.start()
                elif each % 4 == 1:
                    relay.restore()
                else:
                    service.start()
            plant.end()
            data = tmp_path / "data"
            until(lambda: len(stories.logged(data)) >= 2 * plant.count, "all messages in the log")
            until(lambda: stories.source_health(client, "bus")["ok"], "the source to be well")
            until(lambda: client.health()["lag_entries"] == 0, "the store")
            for host in range(HOSTS):
                (numbers,) = stories.stored(service, f"host-{host}").values()
                assert numbers == [float(n) for n in range(plant.count) if n % HOSTS == host]
                counts = client.stream(f"host-{host}")["counts"]
                assert counts["duplicate"] == counts["late"] == 0
            service.stop()
    assert "Traceback" not in service.output, service.output[-3000:]
    found = Counter(
        (each.time // 10**9 - stories.START, each.value) for each in stories.logged(data)
    )
    assert found == Counter({(n, float(n)): 2 for n in range(plant.count)})
    print(f"{len(cases)} kills and cuts, {2 * plant.count:,} messages")


def produce(kafka: Kafka, first: int, steps: int, *, fault: float = 0.0, keys: bool = True) -> None:
    """Send what three machines measure; without keys, each step goes to the next partition."""
    for step, number, temperature, load in stories.readings(first, steps, fault):
        moment = stories.START + step * stories.PERIOD
        body = {
            "host": stories.MACHINES[number],
            "@timestamp": f"{np.datetime64(moment, 's')}Z",
            "motor": {"load": round(load, 3)},
            "temperature": round(temperature, 3),
            "state": "running",
        }
        partition = number if keys else step % PARTITIONS
        key, time = stories.MACHINES[number], moment * 1000
        kafka.produce("metrics", body, key=key, partition=partition, time=time)
    kafka.flush()


def statuses(kafka: Kafka, item: str) -> list[str]:
    return [each.value["status"] for each in kafka.messages("alarms") if each.key == item]


def test_from_a_topic_with_history_to_an_alarm_on_a_topic_and_its_end(tmp_path: Path) -> None:
    with Kafka() as kafka:
        kafka.topic("metrics", PARTITIONS)
        kafka.topic("alarms", 2)
        service = Newnormal(
            tmp_path,
            source(kafka.server)
            + f'[sinks.out]\nkind = "kafka"\nservers = "{kafka.server}"\ntopic = "alarms"\n'
            + f"[streams]\nhistory = {stories.HISTORY}\n",
        )
        checked = service.check()
        assert "source bus: cluster mockCluster" in checked.stdout, checked.stdout + checked.stderr
        assert "topics metrics, 3 partitions" in checked.stdout
        assert "topic alarms, 2 partitions, 1 brokers" in checked.stdout
        produce(kafka, 0, stories.HISTORY + 5, keys=False)
        with service, service.client() as client:
            stories.until_live(client)
            for machine in stories.MACHINES:
                found = client.stream(machine)
                assert sorted(found["channels"]) == ["motor.load", "temperature"]
                assert found["samples"] == stories.HISTORY + 5
                assert found["counts"]["late"] == found["counts"]["duplicate"] == 0
            produce(kafka, stories.HISTORY + 5, 100)
            produce(kafka, stories.HISTORY + 105, 30, fault=25.0)
            (alarm,) = until(lambda: list(client.items(kind="alarm", open=True)), "an alarm")
            assert alarm["stream"] == client.stream("press-2")["id"]
            until(lambda: statuses(kafka, alarm["key"]) == ["fired"], "it on the topic")
            (message,) = [each for each in kafka.messages("alarms") if each.key == alarm["key"]]
            assert message.value["sentence"] == client.item(alarm["key"])["sentence"]
            assert "temperature" in message.value["channels"]
            assert message.headers["newnormal-key"] == f"{alarm['key']}:fired"
            produce(kafka, stories.HISTORY + 135, 150)
            until(lambda: not client.item(alarm["key"])["open"], "the end of the alarm")
            until(lambda: statuses(kafka, alarm["key"]) == ["fired", "resolved"], "its end")
            until(lambda: all(each["ok"] for each in client.health()["parts"].values()), "health")
            until(lambda: kafka.committed("newnormal", "metrics") > 0, "the group's lag")
    assert "Traceback" not in service.output
