"""Another configuration while the service runs: all of it is taken over, or nothing."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from newnormal.errors import NewnormalError
from newnormal.io import Arrival
from newnormal.service.config import Limits, Override, SinkConfig, SourceConfig
from newnormal.service.connectors import check_connections
from newnormal.service.service import Service
from newnormal.testing import MemorySource
from tests.service import running
from tests.service.killing import assert_same, contents, replayed
from tests.service.running import START, Start, config_of, fits, number, push, settle
from tests.waiting import until

PLANT = SourceConfig("plant", "tests.service.test_reload:Plant", {})


class Plant(MemorySource):
    """A source that gives one sample, and tells how many were made and not closed."""

    open: ClassVar[list[str]] = []

    def __init__(self, name: str, options: Mapping[str, Any]) -> None:
        sample = Arrival("m", ("a",), np.array([START], np.int64), np.ones((1, 1)))
        super().__init__([sample], name, options)
        self.open.append(name)

    def next_batch(self, limit: int) -> Sequence[Arrival]:
        return super().next_batch(limit) or ()

    def close(self) -> None:
        if self.name in self.open:
            self.open.remove(self.name)


class Unreachable(MemorySource):
    """A source of somebody who connects when it is made."""

    def __init__(self, name: str, options: Mapping[str, Any]) -> None:
        super().__init__([], name, options)
        raise ConnectionRefusedError("nobody listens")


UP = {"url": "http://127.0.0.1:9/", "query": "up"}
WRONG = [
    {"sources": (PLANT, SourceConfig("hosts", "prometheus", {**UP, "every": "5 parsecs"}))},
    {"sources": (SourceConfig("bus", "mqtt", {"topics": ["a/{channel}"], "tpoics": 1}),)},
    {"sources": (SourceConfig("plant", "tests.service.test_reload:Absent", {}),)},
    {"sources": (SourceConfig("lines", "files", {"paths": "*.csv", "start": "middle"}),)},
    {"sinks": (SinkConfig("chat", "webhook", {"url": "http://127.0.0.1:9/", "timout": 3}),)},
    {"sinks": (SinkConfig("chat", "webhook", {"url": "http://127.0.0.1:9/", "secret_env": "NO"}),)},
]


@pytest.mark.parametrize("wrong", WRONG)
def test_an_error_in_a_source_or_a_sink_leaves_everything_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: dict[str, Any], start: Start
) -> None:
    monkeypatch.delenv("NO", raising=False)
    with start(sources=(PLANT,)) as service:
        until(lambda: service.stream_named("m"), "the sample of the source")
        before, names = service.config, service.sinks.names
        with pytest.raises(NewnormalError):
            service.reload(config_of(tmp_path, limits=Limits(streams=7), **wrong))
        assert service.config is before
        assert service.sinks.names == names
        assert list(service.sources.states()) == ["plant"]
        assert service.health()["parts"]["source plant"]["ok"]
        assert Plant.open == ["plant"]  # what was made to check the configuration is closed
    assert not Plant.open


def test_a_configuration_that_works_is_taken_over(service: Service, tmp_path: Path) -> None:
    new = config_of(tmp_path, sources=(PLANT,))
    service.reload(new)
    assert service.config is new
    until(lambda: service.stream_named("m"), "the sample of the source")


def test_live_streams_take_another_limit_on_alarms_at_once(tmp_path: Path, start: Start) -> None:
    def limits(service: Service) -> list[float]:
        settle(service)
        blocks = service.applier.fleet.blocks()
        return [block.template.get_params()["alarms_per_day"] for block in blocks]

    few, data = Override("m*", {"alarms_per_day": 0.5}), tmp_path / "data"
    many = {"streams": {"alarms_per_day": 50.0}}
    with start(**many) as service:
        running.go_live(service, "m", "n")
        service.refit(number(service)).result()  # begins with the limit of before
        service.reload(config_of(tmp_path, overrides=(few,), **many))
        noise = running.samples(running.HISTORY, 200)
        push(service, *(running.arrival(running.HISTORY, noise, name) for name in "mn"))
        assert limits(service) == [0.5, 50.0]
        counts = [view.counts["alarms"] for view in service.streams()]
        assert counts[0] < counts[1]
        fits(service).fit()
        assert limits(service)[-1] == 0.5  # it comes behind the others now
        service.restore_model(number(service), 1).result()
        assert limits(service) == [50.0, 0.5]
        ref = replayed(data / "log.sqlite", data / "models", tmp_path / "again", ())
        assert_same(contents(service.applier), ref)
        service.reload(config_of(tmp_path, service_alarms_per_day=1.0))
        assert limits(service) == [50.0, 0.5]  # those of their fits


def test_a_source_that_connects_when_it_is_made_may_be_unreachable(tmp_path: Path) -> None:
    kind = "tests.service.test_reload:Unreachable"
    check_connections(config_of(tmp_path, sources=(SourceConfig("far", kind, {}),)))
