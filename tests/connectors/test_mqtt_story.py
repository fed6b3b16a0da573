"""A plant that publishes to mosquitto: to an alarm and its end, and through kills of both."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")
pytest.importorskip("paho.mqtt")

from newnormal.client import Client
from tests.connectors import stories
from tests.connectors.mqtt_peers import Sender, Tap, receiving
from tests.connectors.programs import Mosquitto, Newnormal
from tests.waiting import until

BROKER = "allow_anonymous true\nmax_queued_messages 0\nlog_type error\n"


def source(name: str, port: int, topics: list[str], **options: object) -> str:
    lines = [f"[sources.{name}]", 'kind = "mqtt"', 'host = "127.0.0.1"', f"port = {port}"]
    lines += [f"topics = {json.dumps(topics)}"]
    lines += [f"{option} = {json.dumps(value)}" for option, value in options.items()]
    return "\n".join(lines) + "\n"


def messages(number: int) -> list[tuple[str, bytes]]:
    """Return three messages: by both versions without a time, and one with its time."""
    dated = json.dumps({"ts": stories.START + number, "n": number}).encode()
    return [
        (f"five/m{number % 7}/n", b"%d" % number),
        (f"three/m{number % 7}/n", b"%d" % number),
        (f"dated/m{number % 7}", dated),
    ]


def test_a_service_that_is_killed_has_each_message_in_its_log_once(tmp_path: Path) -> None:
    """Killed after messages are in the log and before the broker has their acknowledgements."""
    with Mosquitto(tmp_path / "broker", BROKER) as broker:
        five, three = Tap(broker.port), Tap(broker.port)
        service = Newnormal(
            tmp_path / "service",
            source("five", five.port, ["five/{stream}/{channel}", "dated/{stream}"])
            + source("three", three.port, ["three/{stream}/{channel}"], version="3.1.1")
            + stories.NO_FITS,
        )
        sender = Sender(broker.port, "plant", window=100)
        plant = stories.Numbers(
            lambda numbers: sender.send([m for n in numbers for m in messages(n)])
        )
        with service, service.client() as client:
            until(lambda: {"source five", "source three"} <= parts(client), "the subscriptions")
            plant.start()
            for _ in range(3):
                mark = len(five.acknowledged)
                plant.most += 600
                until(lambda mark=mark: len(five.acknowledged) > mark + 300, "messages")  # type: ignore[misc]
                for tap in (five, three):
                    tap.holds, tap.held = True, 0
                plant.most += 100
                until(lambda: min(five.held, three.held) > 0, "acknowledgements")
                service.kill()
                five.holds = three.holds = False
                service.start()
            plant.end()
            data = tmp_path / "service" / "data"
            until(lambda: len(stories.logged(data)) >= 3 * plant.count, "all messages in the log")
            service.stop()
        five.close()
        three.close()
    assert not sender.repeated
    entries = [(each.source, each.time, each.value) for each in stories.logged(data)]
    found = Counter((name, value) for name, _, value in entries if name == "three")
    assert found == Counter(("three", float(each)) for each in range(plant.count))
    dated = Counter(moment for _, moment, _ in entries if moment < (stories.START + 10**7) * 10**9)
    assert dated == Counter((stories.START + each) * 10**9 for each in range(plant.count))
    plain = Counter(
        value
        for name, moment, value in entries
        if name == "five" and moment >= (stories.START + 10**7) * 10**9
    )
    assert plain == Counter(float(each) for each in range(plant.count))


def parts(client: Client) -> set[str]:
    return set(client.health()["parts"])


def test_after_a_broker_is_killed_nothing_acknowledged_is_lost_or_doubled(tmp_path: Path) -> None:
    broker = Mosquitto(tmp_path / "broker", f"{BROKER}autosave_interval 0\n")
    tap = Tap(broker.port)
    service = Newnormal(
        tmp_path / "service",
        source("plant", tap.port, ["five/{stream}/{channel}"]) + stories.NO_FITS,
    )
    sender = Sender(broker.port, "plant", window=100)
    plant = stories.Numbers(lambda numbers: sender.send([("five/m/n", b"%d" % n) for n in numbers]))
    with broker, service, service.client() as client:
        until(lambda: tap.clients == 1, "the subscription")
        plant.start()
        for kill in range(3):
            mark = len(tap.acknowledged)
            plant.most += 1000
            until(lambda mark=mark: len(tap.acknowledged) > mark + 400, "messages")  # type: ignore[misc]
            tap.holds, tap.held = True, 0
            plant.most += 100
            until(lambda: tap.held > 0, "acknowledgements")
            broker.save()  # without it, it forgets acknowledgements since it last did by itself
            broker.kill()
            tap.holds = False
            if kill == 0:
                until(
                    lambda: not stories.source_health(client, "plant")["ok"],
                    "the source to be down",
                )
                assert "expected a" in stories.source_health(client, "plant")["message"]
            broker.start()
        plant.end()
        until(lambda: stories.source_health(client, "plant")["ok"], "the source to be well")
        first = plant.count
        plant.send(200)
        until(lambda: b"%d" % (plant.count - 1) in tap.acknowledged, "the last message")
        service.stop()
    tap.close()
    found = Counter(int(each.value) for each in stories.logged(tmp_path / "service" / "data"))
    assert {int(each) for each in tap.acknowledged} <= set(found)
    sent = Counter(range(plant.count)) + Counter(
        {int(each): times for each, times in sender.repeated.items()}
    )
    assert not found - sent, "more often in the log than it was sent"
    assert all(found[each] == 1 for each in range(first, plant.count))


def published(first: int, count: int, fault: float = 0.0) -> list[tuple[str, bytes]]:
    """Return what three machines publish: of the presses number by number, of the oven JSON."""
    found = []
    for step, number, temp, load in stories.readings(first, count, fault):
        machine, moment = stories.MACHINES[number], stories.START + step * stories.PERIOD
        if machine == "oven":
            body = {"ts": moment, "inside": {"temp": temp}, "load": load, "state": "on"}
            found.append((f"zigbee2mqtt/{machine}", json.dumps(body).encode()))
            found.append(("plant/press-1/state", b"online"))
            continue
        for channel, value in (("temp", temp), ("load", load)):
            body = {"value": round(value, 3), "ts": moment}
            found.append((f"plant/{machine}/{channel}", json.dumps(body).encode()))
    return found


def test_from_topics_of_a_plant_to_an_alarm_on_a_topic_and_its_end(tmp_path: Path) -> None:
    with Mosquitto(tmp_path / "broker", BROKER) as broker:
        service = Newnormal(
            tmp_path / "service",
            source("presses", broker.port, ["plant/{stream}/{channel}"], value="value")
            + source("homes", broker.port, ["zigbee2mqtt/{stream}"], version="3.1.1")
            + f'[sinks.bus]\nkind = "mqtt"\nhost = "127.0.0.1"\nport = {broker.port}\n'
            + 'topic = "newnormal/{kind}/{stream}"\nretain = true\n'
            + f"[streams]\nhistory = {stories.HISTORY}\n",
        )
        checked = service.check()
        assert checked.stdout.count("speaks MQTT") == 3, checked.stdout + checked.stderr
        sender = Sender(broker.port)
        with service, service.client() as client, receiving(broker.port, "newnormal/#") as alerts:
            until(lambda: {"source presses", "source homes"} <= parts(client), "the subscriptions")
            sender.send(published(0, stories.HISTORY + 5))
            stories.until_live(client)
            assert {each: sorted(client.stream(each)["channels"]) for each in stories.MACHINES} == {
                "oven": ["inside.temp", "load"],
                "press-1": ["load", "temp"],
                "press-2": ["load", "temp"],
            }
            sender.send(published(stories.HISTORY + 5, 100))
            sender.send(published(stories.HISTORY + 105, 30, fault=25.0))
            (alarm,) = until(lambda: list(client.items(kind="alarm", open=True)), "an alarm")
            assert alarm["stream"] == client.stream("press-2")["id"]
            until(lambda: statuses(alerts, alarm["key"]) == ["fired"], "it on the topic")
            assert alerts[0].topic == "newnormal/alarm/press-2"
            body = json.loads(alerts[0].payload)
            assert body["sentence"] == client.item(alarm["key"])["sentence"]
            assert "temp" in body["channels"]
            with receiving(broker.port, "newnormal/#") as later:
                until(lambda: statuses(later, alarm["key"]) == ["fired"], "it for who comes later")
                assert later[0].retained
            sender.send(published(stories.HISTORY + 135, 150))
            until(lambda: not client.item(alarm["key"])["open"], "the end of the alarm")
            until(lambda: statuses(alerts, alarm["key"]) == ["fired", "resolved"], "its end")
            assert all(each["ok"] for each in client.health()["parts"].values())


def statuses(alerts: list[Any], item: str) -> list[str]:
    found = [json.loads(each.payload) for each in list(alerts)]
    return [each["status"] for each in found if each["item"] == item]
