"""A disk that is full or gone: refused with a sentence, and nothing is lost once it is back."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from newnormal.errors import StateError
from newnormal.fleet import Fleet
from newnormal.service import service as module
from newnormal.service.database import Database
from newnormal.service.engine import running as running_module
from newnormal.service.service import Service
from tests.service.killing import assert_same, contents, replayed
from tests.service.running import (
    HISTORY,
    Start,
    arrival,
    fits,
    go_live,
    number,
    push,
    samples,
    settle,
    state,
)
from tests.waiting import until


def pages(database: Database, most: int | None) -> None:
    """Give a database no more room than it has, or as much as it wants."""
    with database._lock:
        (now,) = database._writer.execute("PRAGMA page_count").fetchone()
        most = now if most is None else most
        database._writer.execute(f"PRAGMA max_page_count={most}").fetchone()


def store_part(service: Service) -> Any:
    return service.health()["parts"]["store"]


def test_a_full_disk_refuses_samples_and_takes_them_once_there_is_room(service: Service) -> None:
    push(service, arrival(0, samples(0, 10)))
    pages(service.log._database, None)
    first, refused = 10, None
    while refused is None:
        try:
            service.push([arrival(first, samples(first, 100))]).result()
            first += 100
        except StateError as error:
            refused = error
    assert "the disk is full" in refused.message
    health = service.health()
    assert health["status"] == "degraded" and not health["parts"]["log"]["ok"]
    assert service.lag == 0 or until(lambda: service.lag == 0, "what was taken")
    pages(service.log._database, 2**30)
    push(service, arrival(first, samples(first, 100)))
    assert service.health()["parts"]["log"]["ok"]
    settle(service)
    assert service.store.samples.count(number(service)) == first + 100


def test_room_is_found_when_nobody_sends(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_TICK_S", 0.01)
    monkeypatch.setattr(running_module, "_AGAIN_S", 0.01)
    append, full = service.log.append, [True]

    def append_if_room(record: bytes) -> int:
        if full:
            raise StateError("cannot write: the disk is full")
        return append(record)

    push(service, arrival(0, samples(0, 10)))
    monkeypatch.setattr(service.log, "append", append_if_room)
    with pytest.raises(StateError, match="the disk is full"):
        service.push([arrival(10, samples(10, 1))]).result()
    assert (service.ready, service.writable) == (True, False)
    full.clear()
    until(lambda: service.writable, "a log that can be written")
    settle(service)
    assert service.store.samples.count(number(service)) == 10
    push(service, arrival(10, samples(10, 1)))
    assert service.store.samples.count(number(service)) == 11


def test_its_own_entries_wait_for_room(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    push(service, arrival(0, samples(0, HISTORY)))
    append, full = service.log.append, [True]

    def append_if_room(record: bytes) -> int:
        if full:
            raise StateError("cannot write: the disk is full")
        return append(record)

    monkeypatch.setattr(service.log, "append", append_if_room)
    fits(service).fit()
    until(lambda: not service.health()["parts"]["log"]["ok"], "the full disk")
    with pytest.raises(StateError, match="the disk is full"):
        service.push([arrival(HISTORY, samples(HISTORY, 1))]).result()
    full.clear()
    until(lambda: state(service) == "live", "the model")


def test_a_store_that_is_full_is_reported_and_caught_up_with(tmp_path: Path, start: Start) -> None:
    with start() as service:
        go_live(service)
        pages(service.store.connection.database, None)
        first = HISTORY
        while (health := service.health())["parts"]["store"]["ok"]:
            values = samples(first, 500)
            values[::50] += 20.0  # alarms need room
            service.push([arrival(first, values)]).result()  # it is in the log
            first += 500
        assert "the disk is full" in health["parts"]["store"]["message"]
        assert health["status"] == "degraded"
        pages(service.store.connection.database, 2**30)
        until(lambda: store_part(service)["ok"], "the store")
        settle(service)
        assert service.store.samples.count(number(service)) == first
        rows = service.store.samples.rows(number(service), HISTORY, first - 1)
        assert not np.isnan(rows.scores).any()
        found = contents(service.applier)
    again = tmp_path / "again"
    again.mkdir()
    data = tmp_path / "data"
    assert_same(found, replayed(data / "log.sqlite", data / "models", again, ()))


def test_a_checkpoint_that_cannot_be_written_is_tried_again_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: Start
) -> None:
    with start() as service:
        go_live(service)
        tried = []

        def fails(self: Fleet, position: int | None = None) -> None:
            tried.append(position)
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr(Fleet, "checkpoint", fails)
            service._checkpoint_at = 0.0
            push(service, arrival(HISTORY, samples(HISTORY, 20)))
            until(lambda: tried, "a checkpoint")
            push(service, arrival(HISTORY + 20, samples(HISTORY + 20, 20)))
            assert len(tried) == 1
        service._checkpoint_at = 0.0
        push(service, arrival(HISTORY + 40, samples(HISTORY + 40, 20)))
        until(lambda: service._saved, "a checkpoint")
        settle(service)
        found = contents(service.applier)
    again = tmp_path / "again"
    again.mkdir()
    data = tmp_path / "data"
    assert_same(found, replayed(data / "log.sqlite", data / "models", again, ()))
