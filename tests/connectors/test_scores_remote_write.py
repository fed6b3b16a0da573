"""Scores by remote write: what is posted, what answers mean, options, and a real Prometheus."""

import base64
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from newnormal.engine.store import Store
from newnormal.io.remote_write import unpack
from newnormal.io.sinks.alerts import SinkDownError
from newnormal.io.sinks.remote_write import RemoteWriteSink
from newnormal.io.sinks.scores import ScoreBatch, ScoresRefusedError
from newnormal.service.config import SinkConfig
from newnormal.service.connectors import make_score_sink
from newnormal.testing import check_score_sink
from tests.connectors.feeding import Plant
from tests.connectors.programs import Newnormal, Prometheus, free_port
from tests.errors import raised
from tests.http_server import Listener, Request
from tests.waiting import until

pytest.importorskip("cramjam")
pytest.importorskip("google.protobuf")

S = 10**9
BEGIN = 1_800_000_000 * S

Found = dict[tuple[tuple[str, str], ...], list[tuple[int, float]]]


def batch_of(*streams: str, ratios: list[float] | None = None) -> ScoreBatch:
    """Return scores; those of a stream follow each other, a second apart."""
    own = [streams[:at].count(name) for at, name in enumerate(streams)]
    found = np.array(ratios if ratios is not None else np.arange(len(streams)) / 4, np.float64)
    return ScoreBatch(
        streams,
        BEGIN + np.array(own, np.int64) * S + 1_234_567,
        found,
        np.ones(len(streams)),
        found,
        found >= 1,
        found >= 1,
    )


def sink_of(listener: Listener, **options: Any) -> RemoteWriteSink:
    return RemoteWriteSink("prom", {"url": f"{listener.url}/api/v1/write", **options})


def series_of(heard: Request) -> Found:
    """Return the samples of a request by their labels, as they stand there."""
    return {
        tuple((label.name, label.value) for label in each.labels): [
            (sample.timestamp, sample.value) for sample in each.samples
        ]
        for each in unpack(heard.body, 1 << 20).timeseries
    }


def points_of(heard: Request) -> list[tuple[str, int]]:
    """Return stream and place of the scores of a request."""
    return [
        (dict(labels)["stream"], (time - BEGIN // 10**6) // 1000)
        for labels, found in series_of(heard).items()
        for time, _ in found
        if dict(labels)["__name__"] == "newnormal_sample_ratio"
    ]


def test_a_request_has_two_series_a_stream_with_labels_and_times_sorted(listener: Listener) -> None:
    sink = sink_of(listener, labels={"site": "north", "Zone": "2"})
    sink.send(batch_of("press-1", "press-1", "oven", ratios=[0.5, float("inf"), 0.25]))
    sink.close()
    [heard] = listener.heard
    ms = BEGIN // 10**6 + 1
    assert (heard.method, heard.path) == ("POST", "/api/v1/write")
    assert heard.headers["content-encoding"] == "snappy"
    assert heard.headers["content-type"] == "application/x-protobuf"
    assert heard.headers["x-prometheus-remote-write-version"] == "0.1.0"
    assert heard.headers["user-agent"] == "newnormal"

    def labels(name: str, stream: str) -> tuple[tuple[str, str], ...]:
        own = ("__name__", name), ("site", "north"), ("stream", stream)
        return (("Zone", "2"), *own)

    assert series_of(heard) == {
        labels("newnormal_sample_ratio", "press-1"): [(ms, 0.5), (ms + 1000, float("inf"))],
        labels("newnormal_sample_alarm", "press-1"): [(ms, 0.0), (ms + 1000, 1.0)],
        labels("newnormal_sample_ratio", "oven"): [(ms, 0.25)],
        labels("newnormal_sample_alarm", "oven"): [(ms, 0.0)],
    }


def test_channels_have_series_of_their_own_in_requests_of_bounded_size(listener: Listener) -> None:
    names = tuple(f"c{k}" for k in range(9999))
    known = np.full((9999, 4), np.nan)  # of a channel that is missing nothing is known
    known[7] = [20.5, 19.0, 22.0, 3.5]
    sink = sink_of(listener)
    sink.send(replace(batch_of("a", "a"), channels=(names,) * 2, channel_values=(known,) * 2))
    sink.close()
    for second, found in enumerate(map(series_of, listener.heard)):
        ms = BEGIN // 10**6 + 1 + 1000 * second
        for kind, value in zip(("expected", "low", "high", "ratio"), known[7], strict=True):
            name = ("__name__", f"newnormal_channel_{kind}")
            assert found[name, ("channel", "c7"), ("stream", "a")] == [(ms, value)]
        assert len(found) == 6
    assert sink.channels and not sink_of(listener, channels=False).channels
    assert len(listener.heard) == 2


@pytest.mark.parametrize(
    ("options", "header"),
    [
        ({}, None),
        ({"token": "nn_1"}, "Bearer nn_1"),
        (
            {"user": "me", "password": "schlüssel"},
            "Basic " + base64.b64encode("me:schlüssel".encode()).decode(),
        ),
    ],
)
def test_who_writes_is_named_in_a_header(
    listener: Listener, options: dict[str, str], header: str | None
) -> None:
    sink = sink_of(listener, **options, headers={"X-Scope-OrgID": "plant"})
    sink.send(batch_of("m"))
    assert listener.heard[0].headers.get("authorization") == header
    assert listener.heard[0].headers["x-scope-orgid"] == "plant"
    sink.close()


def test_one_bad_score_is_found_and_all_others_are_taken_in_order(listener: Listener) -> None:
    streams = [name for name in ("a", "b", "c", "d") for _ in range(25)]
    taken: list[tuple[str, int]] = []

    def answer(heard: Request) -> tuple[int, dict[str, str], str]:
        points = points_of(heard)
        if ("c", 7) in points:
            return 400, {}, "out of order sample\n"
        taken.extend(points)
        return 204, {}, ""

    listener.answer = answer
    sink = sink_of(listener)
    error = raised(ScoresRefusedError, lambda: sink.send(batch_of(*streams)))
    assert error.count == 1
    assert error.message.endswith("found 400 Bad Request: out of order sample")
    assert error.hint is not None and "left out" in error.hint
    expected = [(name, streams[:at].count(name)) for at, name in enumerate(streams)]
    expected.remove(("c", 7))
    assert taken == expected
    assert len(listener.heard) < 20
    sink.close()


def test_where_everything_is_refused_the_requests_are_bounded(listener: Listener) -> None:
    listener.answer = lambda _: (400, {}, "too old sample")
    sink = sink_of(listener)
    assert raised(ScoresRefusedError, lambda: sink.send(batch_of(*["m"] * 1000))).count == 1000
    assert len(listener.heard) == 2 * 32 + 1
    sink.close()


def test_a_receiver_that_fails_while_parts_are_sent_is_down(listener: Listener) -> None:
    answers = iter([(400, {}, "no"), (204, {}, ""), (503, {"Retry-After": "7"}, "")])
    listener.answer = lambda _: next(answers)
    sink = sink_of(listener)
    assert raised(SinkDownError, lambda: sink.send(batch_of("a", "b"))).after == 7.0
    sink.close()


@pytest.mark.parametrize(
    ("status", "headers", "after", "hint"),
    [
        (500, {}, None, None),
        (503, {"Retry-After": "30"}, 30.0, None),
        (429, {"Retry-After": "5"}, 5.0, None),
        (401, {}, None, "check the token, or user and password"),
        (403, {}, None, "check the token, or user and password"),
        (404, {}, None, "--web.enable-remote-write-receiver"),
        (302, {"Location": "/x"}, None, "redirections are not followed"),
    ],
)
def test_answers_about_the_receiver_mean_that_it_is_down(
    listener: Listener, status: int, headers: dict[str, str], after: float | None, hint: str | None
) -> None:
    listener.answer = lambda _: (status, headers, "")
    sink = sink_of(listener)
    for attempt in (lambda: sink.send(batch_of("m")), sink.check):
        error = raised(SinkDownError, attempt)
        assert (
            f"127.0.0.1:{listener.url.rpartition(':')[2]}: expected a status 2xx, found {status}"
            in error.message
        )
        assert error.after == after
        assert hint is None or hint in (error.hint or "")
    assert sink.channels and len(listener.heard) == 2
    assert not sink_of(listener, channels=False).channels
    sink.close()


def test_check_writes_a_request_without_samples(listener: Listener) -> None:
    listener.answer = lambda _: (204, {}, "")
    sink = sink_of(listener)
    port = listener.url.rpartition(":")[2]
    assert sink.check() == f"127.0.0.1:{port} takes remote write (status 204)"
    assert series_of(listener.heard[0]) == {}
    listener.answer = lambda _: (400, {}, "snappy: corrupt input")
    with pytest.raises(SinkDownError, match="400 Bad Request: snappy: corrupt input"):
        sink.check()
    sink.close()


def test_it_keeps_what_a_sink_of_scores_promises(listener: Listener) -> None:
    def received() -> list[tuple[str, int]]:
        return [
            (dict(labels)["stream"], time * 10**6)
            for heard in listener.heard
            for labels, found in series_of(heard).items()
            for time, _ in found
        ]

    with Listener() as gone:
        pass
    check_score_sink(
        lambda: sink_of(listener), received=received, down=lambda: sink_of(gone, timeout="1s")
    )


def test_options_have_defaults_that_prometheus_takes(listener: Listener) -> None:
    sink = sink_of(listener)
    assert (sink.every, sink.keep, sink.at_once) == (1.0, 3000.0, 1000)
    sink.close()
    sink = sink_of(listener, every="250ms", keep="1m")
    assert (sink.every, sink.keep) == (0.25, 60.0)
    sink.close()
    sink = sink_of(listener, every="12500us")  # times are in ms, and so are stretches
    assert sink.every == 0.013
    sink.close()


def test_secrets_come_from_files_and_are_never_shown(
    listener: Listener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WRITE_URL", f"{listener.url}/key-in-the-address")
    (tmp_path / "password").write_text("swordfish\n")
    options = {"url_env": "WRITE_URL", "user": "me", "password_file": str(tmp_path / "password")}
    config = SinkConfig("prom", "remote_write", options)
    sink = make_score_sink(config)
    basic = base64.b64encode(b"me:swordfish").decode()
    listener.answer = lambda heard: (
        400,
        {},
        f"{heard.headers['authorization']} {heard.path} swordfish",
    )
    error = raised(ScoresRefusedError, lambda: sink.send(batch_of("m")))
    assert listener.heard[0].headers["authorization"] == f"Basic {basic}"
    for secret in ("swordfish", basic, "key-in-the-address"):
        assert secret not in str(error)
    sink.close()


def test_a_batch_is_sent_as_it_is_whatever_the_attempt(listener: Listener) -> None:
    sink = sink_of(listener)
    batch = batch_of("a", "a", "b")
    sink.send(batch)
    sink.send(replace(batch, attempt=2))
    assert listener.heard[0].body == listener.heard[1].body
    sink.close()


CONFIG = "global: {scrape_interval: 15s}\n"
RECEIVES = "--web.enable-remote-write-receiver"


def samples_of(prometheus: Prometheus, name: str) -> dict[str, dict[int, float]]:
    """Return what Prometheus has of the last minutes: by stream, values by times in ms."""
    answer = httpx.get(f"{prometheus.url}/api/v1/query", params={"query": f"{name}[30m]"})
    found: dict[str, Any] = answer.raise_for_status().json()["data"]
    return {
        each["metric"]["stream"]: {
            round(float(at) * 1000): float(value) for at, value in each["values"]
        }
        for each in found["result"]
    }


def test_prometheus_takes_scores_and_refuses_in_words(tmp_path: Path) -> None:
    with Prometheus(tmp_path, CONFIG, RECEIVES) as prometheus:
        write = {"url": f"{prometheus.url}/api/v1/write"}

        def received() -> list[tuple[str, int]]:
            found = samples_of(prometheus, "newnormal_sample_ratio")
            return [(stream, at * 10**6) for stream, own in found.items() for at in own]

        check_score_sink(
            lambda: RemoteWriteSink("prom", write),
            received=received,
            down=lambda: RemoteWriteSink("prom", {"url": f"http://127.0.0.1:{free_port()}/"}),
        )
        ratios = samples_of(prometheus, "newnormal_sample_ratio")
        alarms = samples_of(prometheus, "newnormal_sample_alarm")
        assert sorted(ratios) == ["oven/3 <b>", "press-1", "press-2", 'température "1"/\\']
        assert list(ratios["press-1"].values()) == [0.5, 0.25, 0.5, 3.5, 0.5, math.inf]
        assert list(alarms["press-1"].values()) == [0.0, 0.0, 0.0, 1.0, 0.0, 1.0]


def test_a_prometheus_that_takes_no_remote_write_is_named_with_what_to_do(tmp_path: Path) -> None:
    with Prometheus(tmp_path, CONFIG) as prometheus:
        sink = RemoteWriteSink("prom", {"url": f"{prometheus.url}/api/v1/write"})
        with pytest.raises(SinkDownError) as caught:
            sink.check()
        sink.close()
        assert f"127.0.0.1:{prometheus.port}: expected a status 2xx, found 404" in str(caught.value)
        assert "--web.enable-remote-write-receiver" in (caught.value.hint or "")


def test_no_score_is_lost_when_prometheus_or_the_service_is_killed(tmp_path: Path) -> None:
    with (
        Listener() as chat,
        Prometheus(tmp_path / "prometheus", CONFIG, RECEIVES) as prometheus,
        Newnormal(
            tmp_path / "newnormal",
            f"""
[streams]
history = 150
period = "200ms"
lateness = "200ms"

[sinks.prom]
kind = "remote_write"
url = "{prometheus.url}/api/v1/write"
every = "100ms"
labels = {{site = "north"}}

[sinks.chat]
kind = "webhook"
url = "{chat.url}"
""",
        ) as service,
    ):
        checked = service.check()
        assert checked.returncode == 0, checked.stdout
        assert (
            f"ok      sink prom: 127.0.0.1:{prometheus.port} takes remote write (status 204)"
            in checked.stdout
        )
        plant = Plant(service.url)

        def ratios() -> dict[str, dict[int, float]]:
            return samples_of(prometheus, "newnormal_sample_ratio")

        def sink() -> dict[str, Any]:
            health = httpx.get(f"{service.url}/api/v1/health", timeout=10.0).json()
            found: dict[str, Any] = health["parts"]["sink prom"]
            return found

        def fed(condition: Any, what: str) -> None:
            until(lambda: plant.feed() and condition(), what)

        fed(lambda: len(ratios()) == 2 and len(ratios()["oven"]) > 20, "scores in Prometheus")
        prometheus.kill()
        fed(lambda: not sink()["ok"], "health to report it")
        plant.fault, before = 30.0, len(chat.heard)  # an alert does not wait for Prometheus
        fed(
            lambda: any(each.json["stream"] == "press/1" for each in chat.heard[before:]),
            "an alert",
        )
        assert sink()["waiting"] > 0
        prometheus.start()
        fed(lambda: sink()["ok"], "the sink to be well again")
        service.kill()
        service.launch()
        service.wait_until_ready()
        fed(lambda: sink()["sent"] > 20, "more scores")
        until(lambda: sink()["waiting"] == 0, "all scores to be sent")
        counts = sink()
        service.stop()
        assert counts["left_out"] == 0
        store = Store(tmp_path / "newnormal" / "data" / "store.sqlite")
        alarms = samples_of(prometheus, "newnormal_sample_alarm")
        for number, (stream, found) in enumerate(
            sorted(ratios().items(), key=lambda each: each[0] == "oven"), 1
        ):
            rows = store.samples.rows(number, 0, store.samples.count(number) - 1)
            times, expected = rows.times // 10**6, rows.ratios
            sent = (times >= min(found)) & ~np.isnan(expected)
            assert len(found) > 60
            assert found == pytest.approx(
                dict(zip(times[sent].tolist(), expected[sent].tolist(), strict=True))
            )
            assert list(alarms[stream]) == list(found)
            assert (max(alarms[stream].values()) == 1.0) == (stream == "press/1")
        store.close()
        names = '{site="north",__name__=~"newnormal_sample_ratio|newnormal_channel_low"}'
        labels = httpx.get(f"{prometheus.url}/api/v1/query", params={"query": names})
        assert len(labels.json()["data"]["result"]) == 4  # of each stream, and of its channel
