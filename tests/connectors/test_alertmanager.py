"""Alerts at Alertmanager: what is posted, and that it fires, stays and resolves at a real one."""

import base64
import json
import re
import shutil
import subprocess
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from newnormal.engine.alert_bodies import alerts_of
from newnormal.engine.store import Store
from newnormal.engine.values import EventRow, Item, StreamView
from newnormal.errors import ParameterError
from newnormal.io.sinks.alertmanager import AlertmanagerSink
from newnormal.io.sinks.alerts import AlertRefusedError, SinkDownError
from newnormal.service.config import SinkConfig
from newnormal.service.sinks import Sinks
from newnormal.testing import check_alert_sink
from tests.connectors import alerting
from tests.connectors.alerting import FIRED, alert_of
from tests.connectors.programs import Alertmanager, Newnormal, found, free_port
from tests.errors import raised
from tests.http_server import Listener, Request
from tests.waiting import until

NOW = 1_800_000_000  # 2027-01-15T08:00:00Z
RESOLVED = {**alerting.RESOLVED, "ended": "2027-01-15T07:59:30.5Z", "ratio": 3.1}


def sink_for(*listeners: Listener, path: str = "", **options: Any) -> AlertmanagerSink:
    urls = [each.url + path for each in listeners]
    where = {"url": urls[0]} if len(urls) == 1 else {"urls": urls}
    sink = AlertmanagerSink("am", {**where, **options}, clock=lambda: NOW)
    return listeners[-1].closing(sink)


def posted(listener: Listener, body: dict[str, Any]) -> Any:
    sink_for(listener).send(alert_of(body))
    [alert] = listener.heard[-1].json
    return alert


def test_an_alert_that_fired_is_posted_until_it_expires(listener: Listener) -> None:
    sink_for(listener, path="/am/", labels={"team": "plant"}).send(alert_of(FIRED))
    [request] = listener.heard
    assert (request.method, request.path) == ("POST", "/am/api/v2/alerts")
    assert request.headers["content-type"] == "application/json"
    assert request.json == [
        {
            "labels": {
                "alertname": "NewnormalAlarm",
                "item": "alarm-12-1-3",
                "kind": "alarm",
                "severity": "warning",
                "stream": "press-1",
                "team": "plant",
            },
            "annotations": {
                "summary": "press-1: temperature 90.5, expected 60 to 75; high",
                "description": "temperature: 90.5, expected 70.2 (60 to 75)\n"
                "kind: alarm, open\nstream: press-1\nsince: 2027-01-15 07:57:00 UTC",
                "link": "https://watch.example.org/#/item/alarm-12-1-3",
            },
            "startsAt": "2027-01-15T07:57:00.000Z",
            "endsAt": "2027-01-15T08:10:00.000Z",
            "generatorURL": "https://watch.example.org/#/item/alarm-12-1-3",
        }
    ]


def test_what_resolves_has_the_labels_of_what_fired_and_the_end(listener: Listener) -> None:
    fired, resolved = (posted(listener, each) for each in (FIRED, RESOLVED))
    assert fired["labels"] == resolved["labels"]
    assert resolved["startsAt"] == "2027-01-15T07:57:00.000Z"
    assert resolved["endsAt"] == "2027-01-15T07:59:30.500Z"
    assert resolved["annotations"]["summary"].startswith("press-1: temperature 93, expected")


def test_an_incident_has_no_label_of_streams_as_they_become_more(listener: Listener) -> None:
    body = {**FIRED, "kind": "incident", "item": "incident-1", "stream": None, "evidence": []}
    first = posted(listener, {**body, "streams": ["a", "b"]})
    later = posted(listener, {**body, "streams": ["a", "b", "c"], "status": "resolved"})
    assert first["labels"] == later["labels"]
    assert "stream" not in first["labels"]
    assert "streams: a, b and c" in later["annotations"]["description"]


def test_without_a_link_there_is_none(listener: Listener) -> None:
    alert = posted(listener, {**FIRED, "link": None})
    assert "generatorURL" not in alert
    assert "link" not in alert["annotations"]


@cache
def unconnected() -> AlertmanagerSink:
    return AlertmanagerSink("am", {"url": "http://127.0.0.1:9"})


TIMES = st.integers(-3 * 10**18, 9 * 10**18).map(lambda ns: f"{np.datetime64(ns, 'ns')}Z")


@given(opened=TIMES, ended=st.none() | TIMES, resolved=st.booleans())
def test_alertmanager_takes_any_times(opened: str, ended: str | None, resolved: bool) -> None:
    """An end in the past means that it is resolved; a start after the end is refused."""
    status = "resolved" if resolved else "fired"
    body = {**FIRED, "opened": opened, "ended": ended, "status": status}
    [found] = unconnected()._posted(alert_of(body), NOW)
    starts, ends = (np.datetime64(found[each][:-1]) for each in ("startsAt", "endsAt"))
    now = np.datetime64(NOW, "s")
    assert starts <= now
    assert starts <= ends
    assert ends <= now if resolved else ends == now + np.timedelta64(600, "s")


def test_severity_is_by_kind_and_can_be_set(listener: Listener) -> None:
    def severity(kind: str, **options: Any) -> str:
        sink_for(listener, **options).send(alert_of({**FIRED, "kind": kind}))
        return str(listener.heard[-1].json[0]["labels"]["severity"])

    assert severity("incident") == "critical"
    assert severity("alarm") == "warning"
    assert severity("change") == "info"
    assert severity("alarm", severity="page") == "page"
    assert severity("alarm", severity={"alarm": "critical"}) == "critical"
    assert severity("change", severity={"alarm": "critical"}) == "info"


def test_severity_of_an_alarm_is_its_own_when_it_fired_or_rose(listener: Listener) -> None:
    sink, labels = sink_for(listener), []
    steps = ((FIRED, "low"), (FIRED, "high"), (RESOLVED, "critical"), (FIRED, "critical"))
    for body, word in steps:
        sink.send(alert_of({**FIRED, **body, "severity_word": word}))
        labels.append([each["labels"]["severity"] for each in listener.heard[-1].json])
    assert labels == [["info"], ["info", "warning"], ["warning"], ["critical"]]
    over, risen = listener.heard[1].json
    assert over["endsAt"] < risen["endsAt"] and over["startsAt"] == risen["startsAt"]


def test_many_alerts_go_in_one_request(listener: Listener) -> None:
    alerts = [alert_of({**FIRED, "item": f"alarm-{number}-1-1"}) for number in range(100)]
    sink = sink_for(listener)
    sink.send_many(alerts)
    [request] = listener.heard
    assert [each["labels"]["item"] for each in request.json] == [each.item for each in alerts]
    assert sink.at_once == 100


def test_names_that_no_text_can_hold_are_sent_all_the_same(listener: Listener) -> None:
    alert = posted(listener, {**FIRED, "stream": "a\udc80\n", "streams": ["a\udc80\n"]})
    assert alert["labels"]["stream"] == "a\udc80\n"
    assert alert["annotations"]["summary"].startswith(r"a\udc80\n: temperature")


def test_an_alert_that_is_not_valid_is_refused_with_the_reason(listener: Listener) -> None:
    listener.answer = lambda _: (400, {}, '"start time must be before end time"')
    assert raised(AlertRefusedError, lambda: sink_for(listener).send(alert_of(FIRED))).message == (
        f"{listener.url.removeprefix('http://')}: expected a status 2xx, found 400 Bad Request: "
        '"start time must be before end time"'
    )


@pytest.mark.parametrize(
    ("status", "hint"),
    [
        (401, "check user and password, or the token"),
        (404, "check the address: that of Alertmanager's page, without /api"),
        (500, None),
        (503, None),
    ],
)
def test_a_broken_one_takes_nothing(listener: Listener, status: int, hint: str | None) -> None:
    listener.answer = lambda _: (status, {"Retry-After": "20"}, "not now")
    with pytest.raises(SinkDownError, match=f"found {status} .*: not now") as caught:
        sink_for(listener).send(alert_of(FIRED))
    assert caught.value.hint == hint
    assert caught.value.after == 20.0


def test_user_and_password_or_a_token_are_sent_and_never_shown(listener: Listener) -> None:
    def echo(heard: Request) -> tuple[int, dict[str, str], str]:
        return 403, {}, f"not with {heard.headers['authorization']}"

    listener.answer = echo
    pair = base64.b64encode(b"kim:swordfish").decode()
    for options in ({"user": "kim", "password": "swordfish"}, {"token": "nn_swordfish"}):
        with pytest.raises(SinkDownError, match="not with …") as caught:
            sink_for(listener, **options).send(alert_of(FIRED))
        assert "swordfish" not in str(caught.value)
        assert pair not in str(caught.value)
    sent = [each.headers["authorization"] for each in listener.heard]
    assert sent == [f"Basic {pair}", "Bearer nn_swordfish"]


def test_all_of_several_are_sent_and_one_that_takes_it_is_enough(listener: Listener) -> None:
    with Listener() as other:
        sink = sink_for(listener, other)
        sink.send(alert_of(FIRED))
        assert listener.heard[0].json == other.heard[0].json
        assert sink.notice() == ""
        other.answer = lambda _: (503, {}, "starting")
        sink.send(alert_of(FIRED))
        assert len(listener.heard) == len(other.heard) == 2
        where = other.url.removeprefix("http://")
        assert sink.notice() == (
            f"1 of 2 addresses took nothing: {where}: expected a status 2xx, "
            "found 503 Service Unavailable: starting"
        )


def test_one_of_several_that_is_down_is_left_alone_for_a_while(listener: Listener) -> None:
    now = [NOW]
    with Listener() as other:
        options = {"urls": [listener.url, other.url]}
        sink = listener.closing(AlertmanagerSink("am", options, clock=lambda: now[0]))
        other.answer = lambda _: (503, {}, "")
        for _ in range(5):
            sink.send(alert_of(FIRED))
        assert (len(listener.heard), len(other.heard)) == (5, 1)
        other.answer = lambda _: (200, {}, "")
        now[0] += 30
        sink.send(alert_of(FIRED))
        assert len(other.heard) == 2
        assert sink.notice() == ""
        # The one that is left alone is tried where no other takes the alert.
        other.answer = lambda _: (503, {}, "")
        sink.send(alert_of(FIRED))
        other.answer = lambda _: (200, {}, "")
        listener.answer = lambda _: (500, {}, "")
        sink.send(alert_of(FIRED))
        assert len(other.heard) == 4


def test_if_none_of_several_takes_it_the_message_names_all(listener: Listener) -> None:
    with Listener() as other:
        for each in (listener, other):
            each.answer = lambda _: (503, {"Retry-After": "9"}, "")
        error = raised(SinkDownError, lambda: sink_for(listener, other).send(alert_of(FIRED)))
        for each in (listener, other):
            assert f"{each.url.removeprefix('http://')}: expected" in error.message
        assert error.hint == "none of 2 addresses takes alerts"
        assert error.after == 9.0
        other.answer = lambda _: (400, {}, "bad label")
        with pytest.raises(AlertRefusedError, match="bad label"):
            sink_for(listener, other).send(alert_of(FIRED))


def test_the_check_names_versions_and_the_cluster(listener: Listener) -> None:
    status = {
        "versionInfo": {"version": "0.27.0"},
        "cluster": {"status": "ready", "peers": [{}, {}]},
        "config": {"original": "x" * 100_000},
    }
    listener.answer = lambda _: (200, {}, json.dumps(status))
    where = listener.url.removeprefix("http://")
    assert sink_for(listener).check() == (
        f"Alertmanager 0.27.0 at {where}, cluster ready with 2 members"
    )
    assert [(each.method, each.path) for each in listener.heard] == [("GET", "/api/v2/status")]


@pytest.mark.parametrize("text", ["<html>", "{}", "[]", "3", '{"versionInfo": 3}'])
def test_the_check_tells_if_it_is_no_alertmanager(listener: Listener, text: str) -> None:
    listener.answer = lambda _: (200, {}, text)
    with pytest.raises(SinkDownError, match="expected the status of Alertmanager") as caught:
        sink_for(listener).check()
    assert "check the address" in str(caught.value.hint)


def test_the_check_fails_if_one_of_several_does_not_answer(listener: Listener) -> None:
    with Listener() as gone:
        pass
    with pytest.raises(SinkDownError, match=gone.address):
        sink_for(gone, listener).check()


GUIDE = (Path(__file__).parents[2] / "docs/guides/alertmanager.md").read_text()


def test_the_guide_has_all_options() -> None:
    options = re.findall(r"^\| (`.*?) \|", GUIDE, re.MULTILINE)[:10]
    named = set(re.findall(r"`(\w+)`", " ".join(options)))
    error = raised(ParameterError, lambda: AlertmanagerSink("am", {"url": "http://h", "other": 1}))
    known = {*str(error).partition("known are ")[2].split(", ")} - {"password", "token"}
    secrets = {f"{name}_{way}" for name in ("url", "password", "token") for way in ("file", "env")}
    assert named == known | secrets


def test_alertmanager_takes_the_configuration_of_the_guide(tmp_path: Path) -> None:
    [block] = re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL)
    (tmp_path / "alertmanager.yml").write_text(block)
    subprocess.run([found("amtool"), "check-config", tmp_path / "alertmanager.yml"], check=True)


class Case:
    """A store with items whose alerts are delivered to an Alertmanager."""

    def __init__(self, folder: Path, url: str) -> None:
        self.store = Store(folder / "store.sqlite")
        self.delivery = Sinks([], self.store, lambda *_: None)
        self.url = url
        options = {"url": url, "repeat_every": "1s", "expires_after": "3s", "timeout": "5s"}
        self.delivery.start([SinkConfig("am", "alertmanager", options)])

    def put(self, number: int, *, ended: int | None = None, opened: int = 0) -> None:
        """Open an item, or end it."""
        state = "open" if ended is None else "closed"
        key = f"alarm-{number}-1-1"
        moments = (opened, opened if ended is None else ended, ended)
        item = Item(key, "alarm", number, 1, 1, state, *moments, 2.5, "hot", {}, 1)
        event = EventRow(1, 0, "opened" if ended is None else "closed", 0, number, key, {})
        view = StreamView(number, f"press-{number}", "live")
        self.store.items.put(item)
        for name, body in alerts_of(event, item, view, "http://127.0.0.1:8765"):
            self.store.outbox.put(name, "am", body)
        self.store.commit()
        self.delivery.wake()

    def settle(self) -> None:
        def settled() -> bool:
            counts = self.store.outbox.counts()["am"]
            return counts["waiting"] == 0 and counts["unsent"] == 0

        until(settled, "all alerts at Alertmanager")

    def active(self) -> set[str]:
        found = httpx.get(f"{self.url}/api/v2/alerts").json()
        return {each["labels"]["stream"] for each in found}

    def close(self) -> None:
        self.delivery.stop()
        self.store.close()


def test_alarms_fire_and_resolve_and_notify_once_each(tmp_path: Path, listener: Listener) -> None:
    config = (
        "route: {receiver: team, group_by: [item], group_wait: 0s, group_interval: 1s}\n"
        "receivers: [{name: team, webhook_configs: [{url: 'URL'}]}]\n"
    )
    amtool = found("amtool")
    with Alertmanager(tmp_path / "am", config.replace("URL", listener.url)) as manager:
        with closing(Case(tmp_path, manager.url)) as case:
            now = int(np.datetime64("now", "ns").astype(np.int64))
            year = 365 * 86_400 * 10**9
            case.put(1, opened=now)
            case.put(2, opened=now - 20 * year)  # samples of long ago
            case.put(3, opened=now + year)  # and of a clock that is wrong
            case.settle()
            streams = {"press-1", "press-2", "press-3"}
            assert case.active() == streams

            def sent_again() -> bool:
                """Whether all are there, and none by what was posted when it fired."""
                alerts = httpx.get(f"{manager.url}/api/v2/alerts").json()
                assert {each["labels"]["stream"] for each in alerts} == streams
                ends = min(np.datetime64(each["endsAt"].rstrip("Z"), "ns") for each in alerts)
                return bool(ends > np.datetime64(now, "ns") + np.timedelta64(6, "s"))

            until(sent_again, "alerts that outlive what was posted first")
            shown = subprocess.run(
                [
                    amtool,
                    f"--alertmanager.url={manager.url}",
                    *("alert", "query", "--output=json", "alertname=NewnormalAlarm"),
                    *("stream=press-1", "severity=warning", "kind=alarm", "item=alarm-1-1-1"),
                ],
                capture_output=True,
                text=True,
                check=True,
            )
            [alert] = json.loads(shown.stdout)
            assert alert["annotations"]["summary"] == "press-1: hot"
            assert alert["generatorURL"] == "http://127.0.0.1:8765/#/item/alarm-1-1-1"

            case.put(1, opened=now, ended=now + 10**9)
            case.put(2, opened=now - 20 * year, ended=now - 19 * year)
            case.put(3, opened=now + year, ended=now + 2 * year)
            case.settle()
            until(lambda: not case.active(), "alerts that are resolved")

            def notified() -> bool:
                told = [each.json for each in listener.heard]
                return [each["status"] for each in told].count("resolved") >= 3

            until(notified, "notifications")
            told = sorted(
                (alert["labels"]["stream"], alert["status"])
                for each in listener.heard
                for alert in each.json["alerts"]
            )
            assert told == [
                (each, how) for each in sorted(streams) for how in ("firing", "resolved")
            ]

        def received() -> set[str]:
            """Return keys: an alarm that is not there any more was resolved."""
            alerts = httpx.get(f"{manager.url}/api/v2/alerts").json()
            items = {each["labels"]["item"] for each in alerts}
            keys = {f"{each}:fired" for each in items}
            return keys if "alarm-1-1-1" in items else {*keys, "alarm-1-1-1:resolved"}

        check_alert_sink(
            lambda: AlertmanagerSink("am", {"url": manager.url}),
            received=received,
            down=lambda: AlertmanagerSink("am", {"url": f"http://127.0.0.1:{free_port()}"}),
        )
        service = Newnormal(
            tmp_path / "service", f'[sinks.am]\nkind = "alertmanager"\nurl = "{manager.url}"'
        )
        output = service.check().stdout
        assert f"ok      sink am: Alertmanager 0.25.0 at 127.0.0.1:{manager.port}, " in output


def test_nothing_is_lost_when_alertmanager_is_killed_under_load(tmp_path: Path) -> None:
    with Alertmanager(tmp_path / "am") as manager, closing(Case(tmp_path, manager.url)) as case:
        for number in range(50):
            case.put(number)
        until(lambda: len(case.active()) > 10, "alerts that fire")
        manager.kill()
        for number in range(50, 100):
            case.put(number)
        for number in range(0, 100, 2):  # some of what it had, and some that it never saw
            case.put(number, ended=10**9)
        manager.start()
        expected = {f"press-{number}" for number in range(1, 100, 2)}
        until(lambda: case.active() == expected, "what is open, and nothing else")
        case.settle()

        manager.kill()
        shutil.rmtree(manager.folder / "data", ignore_errors=True)
        manager.start()
        until(lambda: case.active() == expected, "what is open, after all was lost")
