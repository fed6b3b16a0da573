"""The disk: full or gone, and nothing is lost; and what the service removes from it by itself."""

import shutil
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from newnormal.arrivals.arrival import Arrival
from newnormal.engine import running as running_module
from newnormal.engine.database import Database
from newnormal.engine.fitting import FitJob
from newnormal.engine.log.entries import FitTaken, pack
from newnormal.engine.log.sqlite_log import SqliteLog
from newnormal.engine.modelling import remove_models
from newnormal.engine.store.checking import check
from newnormal.errors import StateError
from newnormal.fleet import Fleet
from newnormal.service import service as module
from newnormal.service.config import Retention
from newnormal.service.service import Service
from tests.service.killing import assert_same, contents, opened, replayed
from tests.service.running import (
    DAY,
    HISTORY,
    Start,
    arrival,
    config_of,
    fit_next,
    fits,
    go_live,
    number,
    push,
    running,
    samples,
    settle,
    state,
)
from tests.service.test_store_samples import assert_same_rows
from tests.waiting import until


def pages(database: Database, most: int | None) -> None:
    """Give a database no more room than it has, or as much as it wants."""
    with database._lock:
        (now,) = database._writer.execute("PRAGMA page_count").fetchone()
        most = now if most is None else most
        database._writer.execute(f"PRAGMA max_page_count={most}").fetchone()


def fill_disk(service: Service, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Let no entry be logged until the list that is returned is empty."""
    append, full = service.log.append, [True]

    def append_if_room(record: bytes, requests: Sequence[int] = ()) -> int:
        if full:
            raise StateError("cannot write: the disk is full")
        return append(record, requests)

    monkeypatch.setattr(service.log, "append", append_if_room)
    return full


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
    push(service, arrival(0, samples(0, 10)))
    full = fill_disk(service, monkeypatch)
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
    full = fill_disk(service, monkeypatch)
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
            until(lambda: service.lag == 0 or not store_part(service)["ok"], "what was taken")
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


# --- what is removed


def retain(service: Service) -> None:
    """Let the service do what it does every ten minutes."""
    service._retention_at = 0.0
    until(lambda: service._retention_at > 0.0, "the next retention")
    settle(service)


def old(given: Arrival) -> Arrival:
    """Return samples with the times of three years before."""
    return given._replace(times=given.times - 3 * 365 * DAY)


def levels(service: Service) -> dict[int, int]:
    """Return how many blocks the store has of each level."""
    with service.store.connection.database.reading() as reader:
        return dict(reader.execute("SELECT level, count(*) FROM blocks GROUP BY level").fetchall())


@pytest.mark.parametrize("kept", [Retention(size=100_000, log=DAY), Retention(log=DAY)])
@pytest.mark.parametrize("is_live", [False, True])
def test_a_fit_is_taken_over_after_retention_and_after_a_kill_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: Retention, is_live: bool
) -> None:
    settings = {"history": 1_000, "max_history": 2_500}
    config = config_of(tmp_path, retention=kept, streams=settings)
    with running(config, monkeypatch) as service:
        push(service, old(arrival(0, samples(0, 1_000))))
        if is_live:
            fits(service).fit()
        push(service, old(arrival(1_000, samples(1_000, 9_000))))
        if is_live:
            service.refit(number(service), first=6_500, last=8_500).result()
        retain(service)
        # Samples that the fit under way needs, or all; the points of these.
        assert levels(service) == {0: 15 if is_live else 40, 1: 2 if is_live else 5, 2: 1}
        fit_next(service)
        push(service, old(arrival(10_000, samples(10_000, 300))))
        found = service.stream_named("m")
        assert found is not None
        assert (found.state, found.samples, found.generation) == ("live", 10_300, 1 + is_live)
        assert service.health()["status"] == "ok"
        monkeypatch.setattr(service, "checkpoint", lambda: None)  # as after a kill
    monkeypatch.undo()
    assert_same(*recovered(config.data, tmp_path / "again"))
    assert check(config.data).problems == []
    with running(config, monkeypatch) as service:
        push(service, old(arrival(10_300, samples(10_300, 300))))
        assert service.health()["status"] == "ok"
        assert service.store.samples.count(number(service)) == 10_600


def recovered(data: Path, again: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what a folder comes to, and its log from the beginning; samples that both keep."""
    with closing(SqliteLog(data / "log.sqlite")) as log:
        with opened(data, log, ()) as applier:
            comp = contents(applier)
            first = {
                each.name: applier.store.samples.first_kept(each.id) for each in applier.streams
            }
            rows = {
                each.name: applier.store.samples.rows(each.id, first[each.name], each.count - 1)
                for each in applier.streams
            }
        again.mkdir()
        shutil.copytree(data / "models", again / "models")
        with opened(again, log, ()) as applier:
            ref = contents(applier)
            for each in applier.streams:
                other = applier.store.samples.rows(each.id, first[each.name], each.count - 1)
                assert_same_rows(rows[each.name], other)
    for part in ("rows", "levels"):
        del comp[part], ref[part]
    return comp, ref


def test_a_closed_alarm_of_samples_of_three_years_ago_stays_in_the_inbox(start: Start) -> None:
    with start(retention=Retention()) as service:
        push(service, old(arrival(0, samples(0, HISTORY))))
        fit_next(service)
        values = samples(HISTORY, 60)
        values[20:24] += 8
        push(service, old(arrival(HISTORY, values)))
        items, events = service.store.items.page().items, service.store.events.read()
        assert [(each.kind, each.open) for each in items] == [("alarm", False)]
        retain(service)
        assert service.store.items.page().items == items
        assert service.store.events.read() == events


def refit(service: Service) -> None:
    service.refit(number(service)).result()
    fit_next(service)


def files(service: Service) -> set[str]:
    return {path.name for path in (service.config.data / "models").iterdir()}


def named(service: Service) -> set[str]:
    return {model["file"] for model in service.models(number(service))}


def test_models_that_no_stream_names_are_deleted_and_earlier_ones_can_be_restored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_of(tmp_path)
    with running(config, monkeypatch) as service:
        go_live(service)
        for at in range(HISTORY, HISTORY + 150, 50):
            push(service, arrival(at, samples(at, 50)))
            refit(service)
        other = config.data / "models" / "12-of-a-person.nn"
        other.write_bytes(b"")
        assert len(files(service)) == 8
        retain(service)
        assert files(service) == {*named(service), other.name}
        assert len(named(service)) == 4
        other.unlink()
        service.restore_model(number(service), 2).result()
        retain(service)
        refit(service)
    with running(config, monkeypatch) as service:
        assert service.health()["status"] == "ok"
        service.restore_model(number(service), 5).result()
        assert [each["generation"] for each in service.models(number(service))] == [*range(1, 8)]
        retain(service)
        assert files(service) == named(service)


def test_a_model_not_yet_taken_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = config_of(tmp_path)
    with running(config, monkeypatch) as service:
        go_live(service)
        service.refit(number(service)).result()
        held = fits(service)
        job = until(lambda: held.jobs and held.jobs.pop(0), "a fit that has begun")
        assert isinstance(job, FitJob)
        job.detector.fit(job.history).save(job.path)
        retain(service)
        assert files(service) == {*named(service), job.path.name}
    data = config.data
    with closing(SqliteLog(data / "log.sqlite")) as log:
        with opened(data, log, ()) as applier:
            log.append(pack([FitTaken(job.stream, job.began, job.path.name)]))
            remove_models(applier)  # the record is behind the checkpoint, and not applied
        with opened(data, log, ()) as applier:
            assert [stream.generation for stream in applier.streams] == [2]
