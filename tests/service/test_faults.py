"""Faults that an operator meets: files that are gone, clocks that are set, limits in a burst."""

import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from newnormal.engine.applying import Outcome
from newnormal.engine.log.entries import Entry
from newnormal.engine.store import Store
from newnormal.engine.store.retention import apply_retention
from newnormal.errors import StateError
from newnormal.locks import LockFile
from newnormal.service.api.access import TOKENS, Access
from newnormal.service.api.app import make_app
from newnormal.service.api.threads import ReadingThreads
from newnormal.service.config import Limits, ServiceConfig, hash_token
from newnormal.service.limits import LimitError
from newnormal.service.service import Service
from tests.fuzz.requests import Request, ask
from tests.service.asgi import run_apart
from tests.service.running import (
    HISTORY,
    PERIOD,
    SECOND,
    START,
    Start,
    arrival,
    config_of,
    go_live,
    number,
    push,
    running,
    samples,
    settle,
)
from tests.waiting import until

_HOST = (b"host", b"127.0.0.1")


def asked(service: Service, request: Request) -> tuple[int, dict[str, str], bytes]:
    app = make_app(service)
    try:
        return run_apart(ask(app, request))
    finally:
        app.state.reading.close()


def test_a_log_that_was_removed_is_an_error_and_not_the_beginning_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_of(tmp_path)
    with running(config, monkeypatch) as service:
        go_live(service)
    for path in config.data.glob("log.sqlite*"):
        path.unlink()
    with pytest.raises(StateError, match=r"expected the log up to position \d+, found it up to 0"):
        Service(config).start()


@pytest.mark.parametrize("name", ["log.sqlite", "store.sqlite"])
def test_nothing_is_acknowledged_or_kept_in_a_file_that_was_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    config = config_of(tmp_path)
    with running(config, monkeypatch) as service:
        push(service, arrival(0, samples(0, 10)))
        path = config.data / name
        path.rename(path.with_suffix(".away"))
        write: Callable[[], Any] = partial(service.store.settings.put, "settings", "x", 1)
        if name == "log.sqlite":
            write = service.push([arrival(10, samples(10, 10))]).result
        with pytest.raises(StateError, match=r"found it removed or replaced"):
            write()
        path.with_suffix(".away").rename(path)
        push(service, arrival(10, samples(10, 10)))
        assert service.store.samples.count(number(service)) == 20


def test_history_is_taken_where_retention_removed_samples_and_after_a_kill(start: Start) -> None:
    with start(streams={"history": 10**6}) as service:
        push(service, arrival(0, samples(0, 2000)))
        service.checkpoint()
        end = START + 10_000 * PERIOD
        apply_retention(service.store, now=end, age_ns={0: 1}, size=None, needed=300)
        first = service.store.samples.first_kept(number(service))
        assert first > 0
        service.push([arrival(-500, samples(0, 400))], history=True).result()
        settle(service)
        assert service.health()["status"] == "ok"
        found = service.stream_named("m")
        assert found is not None and found.samples == 400 + 2000 - first


def test_an_unwritable_folder_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: LockFile) -> bool:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(LockFile, "acquire", fail)
    with pytest.raises(StateError, match="Read-only file system") as found:
        Service(config_of(tmp_path)).start()
    assert found.value.hint == "make it writable for this user, or give another folder"


def test_models_of_a_removed_stream_go_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = config_of(tmp_path)
    with running(config, monkeypatch) as service:
        go_live(service, "m", "n")
        kept = f"{number(service, 'n')}-"
        service.remove(number(service)).result()
        assert len(list((config.data / "models").iterdir())) == 2
        service._retention_at = 0.0
        models = config.data / "models"
        until(lambda: len(list(models.iterdir())) == 1, "the model to be deleted")
        assert next(models.iterdir()).name.startswith(kept)
    with running(config, monkeypatch) as service:
        assert [each.name for each in service.streams()] == ["n"]


def test_nobody_else_reads_a_given_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = config_of(tmp_path)
    config.data.mkdir(mode=0o755)
    with running(config, monkeypatch) as service:
        go_live(service)
    open_to_others = {each.name for each in config.data.iterdir() if each.stat().st_mode & 0o077}
    assert open_to_others <= {"lock"}  # has the number of the process


def test_an_unreadable_store_is_a_503(monkeypatch: pytest.MonkeyPatch, start: Start) -> None:
    def fail(*_: Any) -> None:
        raise StateError("store.sqlite: expected a database, found damage", hint="restore a backup")

    with start() as service:
        monkeypatch.setattr(service.store.settings, "all", fail)
        status, headers, body = asked(
            service, Request("GET", b"/api/v1/streams", b"", [_HOST], [b""])
        )
    assert status == 503 and headers["retry-after"] == "1" and b"found damage" in body


def test_health_is_told_by_the_tokens_of_before_where_the_store_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    kept: dict[str, Any] = {"me": {"hash": hash_token("secret"), "role": "read"}}

    def read(space: str) -> Any:
        if now[0]:
            raise StateError("store.sqlite: found damage")
        return kept if space == TOKENS else {}

    store = SimpleNamespace(settings=SimpleNamespace(all=read))
    service: Any = SimpleNamespace(config=ServiceConfig(), store=store)
    access = Access(service, ReadingThreads())
    for at in (0.0, 10.0):
        now[0] = at
        assert not access.open
        assert access._token("secret") == ("me", "read", hash_token("secret"))
        assert access._token("other") is None
    with pytest.raises(StateError):  # nobody knows whether there are tokens
        _ = Access(service, ReadingThreads()).open


def test_no_room_for_an_upload_is_a_503(monkeypatch: pytest.MonkeyPatch, start: Start) -> None:
    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with start() as service:
        monkeypatch.setattr(tempfile, "mkdtemp", fail)
        path, body = b"/api/v1/streams/history", b"time,a\n2026-01-01,1\n"
        status, headers, text = asked(service, Request("POST", path, b"stream=x", [_HOST], [body]))
    assert status == 503 and "retry-after" in headers and b"No space left" in text


def test_a_history_without_any_value_is_a_failed_fit_in_words(start: Start) -> None:
    with start() as service:
        push(service, arrival(0, samples(0, HISTORY) * np.nan))
        settle(service)
        found = service.stream_named("m")
    assert found is not None and found.state == "failed"
    assert found.problem.startswith("expected values in the history, found only missing ones")


def test_streams_and_channels_that_are_not_applied_yet_count_for_the_limits(
    monkeypatch: pytest.MonkeyPatch, start: Start
) -> None:
    with start(limits=Limits(streams=10, channels=4)) as service:
        applier, goes_on = service.applier, threading.Event()
        apply = applier.apply

        def held(position: int, entries: Sequence[Entry]) -> list[Outcome]:
            goes_on.wait()
            return apply(position, entries)

        monkeypatch.setattr(applier, "apply", held)
        try:
            for at in range(10):
                service.push([arrival(0, samples(0, 1), f"s{at}")]).result()
            with pytest.raises(LimitError, match="at most 10 streams, found 11"):
                service.push([arrival(0, samples(0, 1), "other")])
            service.push([arrival(1, samples(0, 1), "s1", ("c", "d"))]).result()
            with pytest.raises(LimitError, match="'s1': expected at most 4 channels, found 5"):
                service.push([arrival(2, samples(0, 1, width=1), "s1", ("e",))])
        finally:
            goes_on.set()
        settle(service)
        assert len(service.streams()) == 10
        service.remove(number(service, "s3")).result()
        push(service, arrival(0, samples(0, 1), "other"))
        assert service._arriving._channels == {}


def test_an_alert_is_tried_again_after_the_clock_was_set_back(tmp_path: Path) -> None:
    store = Store(tmp_path / "store.sqlite")
    store.outbox.put("alarm-1-1-1:fired", "hook", {"status": "fired"})
    store.commit()
    now = START + HISTORY * PERIOD
    store.outbox.mark("alarm-1-1-1:fired", "hook", attempts=8, next_try=now + 300 * SECOND)
    assert store.outbox.due("hook", now, 10) == []
    assert len(store.outbox.due("hook", now + 300 * SECOND, 10)) == 1
    assert len(store.outbox.due("hook", now - 5 * 3600 * SECOND, 10)) == 1
    store.close()
