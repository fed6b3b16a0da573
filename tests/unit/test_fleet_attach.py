"""A fleet whose caller keeps the log: checkpoints at a position, and nothing else on the disk."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from newnormal import Detector, Fleet
from newnormal.errors import ParameterError, StateError
from newnormal.tabular import Table

BEGIN = np.datetime64("2026-01-01", "ns")
MINUTE = np.timedelta64(1, "m")


@pytest.fixture(scope="module")
def detector() -> Detector:
    rng = np.random.default_rng(0)
    return Detector(epochs=1).fit(rng.normal(size=(300, 2)))


def samples(first: int, count: int, names: list[str]) -> dict[str, Table]:
    rng = np.random.default_rng(first)
    times = BEGIN + np.arange(first, first + count) * MINUTE
    return {name: Table(rng.normal(size=(count, 2)), ("0", "1"), times) for name in names}


def test_a_folder_that_is_not_there_is_an_empty_fleet(tmp_path: Path) -> None:
    with Fleet.attach(tmp_path / "fleet") as fleet:
        assert len(fleet) == 0
        assert fleet.position == 0


def test_it_goes_on_from_the_position_of_the_last_checkpoint(
    tmp_path: Path, detector: Detector
) -> None:
    names = ["one", "two"]
    fleet = Fleet.attach(tmp_path)
    for name in names:
        fleet.add(name, detector)
    fleet.consume(samples(0, 30, names))
    fleet.checkpoint(7)
    later = fleet.consume(samples(30, 30, names))
    fleet.close(save=False)  # as a kill would
    again = Fleet.attach(tmp_path)
    assert again.position == 7
    comp = again.consume(samples(30, 30, names))
    np.testing.assert_array_equal(comp.scores, later.scores)
    np.testing.assert_array_equal(comp.thresholds, later.thresholds)
    again.close(save=False)


def test_streams_that_were_added_and_removed_are_saved_with_the_checkpoint(
    tmp_path: Path, detector: Detector
) -> None:
    fleet = Fleet.attach(tmp_path)
    for name in ("one", "two"):
        fleet.add(name, detector)
    fleet.checkpoint(1)
    fleet.remove("one")
    fleet.add("three", detector)
    fleet.consume(samples(0, 5, ["two", "three"]))
    fleet.close(save=False)
    fleet = Fleet.attach(tmp_path)
    assert list(fleet) == ["one", "two"]
    fleet.remove("one")
    fleet.remove("two")
    fleet.checkpoint(2)
    fleet.close(save=False)
    with Fleet.attach(tmp_path) as empty:
        assert (len(empty), empty.position) == (0, 2)


def test_consuming_equals_running(detector: Detector) -> None:
    names = ["one", "two"]
    one, other = Fleet(), Fleet()
    for name in names:
        one.add(name, detector)
        other.add(name, detector)
    ref = one.run(samples(0, 40, names), flush=False)
    for first in range(0, 40, 8):
        comp = other.consume(
            {
                name: Table(
                    each.values[first : first + 8], each.channels, each.times[first : first + 8]
                )
                for name, each in samples(0, 40, names).items()
                if each.times is not None
            }
        )
        for name in names:
            np.testing.assert_array_equal(comp[name].scores, ref[name].scores[first : first + 8])


def test_a_fleet_with_a_log_of_its_own_is_refused(tmp_path: Path, detector: Detector) -> None:
    fleet = Fleet()
    fleet.add("one", detector)
    fleet.save(tmp_path)
    with pytest.raises(StateError, match="expected a fleet whose caller keeps the log"):
        Fleet.attach(tmp_path)
    with Fleet.open(tmp_path) as own, pytest.raises(ParameterError, match="keeps its log itself"):
        own.checkpoint(3)


def test_a_fleet_whose_caller_keeps_the_log_is_not_opened(
    tmp_path: Path, detector: Detector
) -> None:
    with Fleet.attach(tmp_path) as fleet:
        fleet.add("one", detector)
        fleet.checkpoint(7)
    with pytest.raises(StateError, match="found one whose caller does") as caught:
        Fleet.open(tmp_path)
    assert caught.value.hint == "use Fleet.attach(folder)"
    assert Fleet.load(tmp_path).position == 7


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    with Fleet.attach(tmp_path), pytest.raises(StateError, match="in use by this process"):
        Fleet.attach(tmp_path)


def test_markers_belong_to_the_callers_log(tmp_path: Path) -> None:
    with Fleet.attach(tmp_path) as fleet, pytest.raises(StateError, match="whose caller does"):
        fleet.mark(b"here")
