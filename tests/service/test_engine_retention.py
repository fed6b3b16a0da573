"""What the service removes by itself, and that it goes on afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from newnormal.service.engine.fitting import FitJob
from newnormal.service.engine.modelling import remove_models
from newnormal.service.log.entries import FitTaken, pack
from newnormal.service.log.sqlite_log import SqliteLog
from newnormal.service.service import Service
from tests.service.killing import opened
from tests.service.running import (
    HISTORY,
    arrival,
    config_of,
    fits,
    go_live,
    number,
    push,
    running,
    samples,
    settle,
)
from tests.waiting import until


def retain(service: Service) -> None:
    """Let the service do what it does every ten minutes."""
    service._retention_at = 0.0
    until(lambda: service._retention_at > 0.0, "the next retention")
    settle(service)


# ------------------------------------------------------------------ models


def refit(service: Service) -> None:
    service.refit(number(service)).result()
    fits(service).fit()
    settle(service)


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


def test_a_model_on_the_disk_that_is_not_yet_taken_over_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    log = SqliteLog(data / "log.sqlite")
    try:
        with opened(data, log, ()) as applier:
            log.append(pack([FitTaken(job.stream, job.began, job.path.name)]))
            remove_models(applier)  # the record is behind the checkpoint, and not applied
        with opened(data, log, ()) as applier:
            assert [stream.generation for stream in applier.streams] == [2]
    finally:
        log.close()
