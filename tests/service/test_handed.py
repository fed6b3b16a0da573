"""The folder of a watch, or of a program's fleet, in a service, and back."""

from pathlib import Path

import pytest

from newnormal import Detector, Fleet, StateError
from newnormal.engine.log.sqlite_log import ask
from newnormal.runtime.feedback import decide
from newnormal.tabular import Table
from newnormal.types import Floats
from tests.present import present
from tests.service.running import HISTORY, Start, arrival, push, samples, settle
from tests.service.test_models_put import table
from tests.waiting import until


def moved(first: int, count: int) -> Floats:
    return samples(first, count) + 20.0


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with one stream, which has an open change."""
    detector = Detector(alarms_per_day=3).fit(table(0, HISTORY))
    with Fleet.open(tmp_path / "data", Fleet().add("", detector)) as fleet:
        series = Table(moved(HISTORY, 100), ("a", "b"), table(HISTORY, 100).times)
        fleet.run({"": series}, flush=False)
        assert fleet.changes_[""]
    return tmp_path / "data"


def test_a_service_goes_on_with_it_and_it_goes_back(start: Start, data: Path) -> None:
    with start() as service:
        view, fleet = present(service.stream_named("")), service.applier.fleet
        assert (view.state, view.samples, view.generation) == ("live", 100, 1)
        assert fleet[""].get_params()["alarms_per_day"] == 3  # as it was fitted
        (change,) = fleet.changes_[""]
        assert (
            f"change-{view.id}-1-{change.number}"
            in present(service.applier.streams.named("")).items
        )
        push(service, arrival(HISTORY + 100, moved(HISTORY + 100, 5), ""))
        ask(data / "log.sqlite", "no JSON")  # refused, and stops nothing
        reports: list[str] = []
        decide(data, "", "reject", None, change.number, reports.append)
        assert reports == [f"{data} is in use: applied there before the next samples"]
        until(lambda: not service.log.requests(), "the decision")
        settle(service)
        assert [item.state for item in fleet.changes_[""]] == ["rejected"]
    with Fleet.open(data) as back:
        assert back[""].counters["seen"] == 105
        assert [item.state for item in back.changes_[""]] == ["rejected"]


def test_streams_that_collect_are_not_taken_from_a_service(start: Start, tmp_path: Path) -> None:
    with start() as service:
        push(service, arrival(0, samples(0, 5)))
    with pytest.raises(StateError, match="expected streams with models, found 1 without"):
        Fleet.open(tmp_path / "data", Fleet().add("", Detector(epochs=1).fit(table(0, HISTORY))))
