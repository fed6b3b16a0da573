"""`newnormal inspect`: how old what it shows is, beside a `watch` and without, and its JSON."""

import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from newnormal.arrivals.arrival import Arrival
from newnormal.engine.folder import SingleEngine
from newnormal.engine.log.entries import StepsTaken
from newnormal.locks import is_held
from tests.cli.conftest import Command, Plant
from tests.cli.fleets import Site

pytestmark = pytest.mark.skipif(os.name == "nt", reason="there are no such locks")


def watched(plant: Plant, newnormal: Command) -> Path:
    assert newnormal(*plant.watch).returncode == 0
    return plant.state


def test_a_checkpoint_shows_its_age_and_no_process(plant: Plant, newnormal: Command) -> None:
    state = watched(plant, newnormal)
    os.utime(state / "fleet" / "manifest.json", (time.time() - 150, time.time() - 150))
    shown = " ".join(newnormal("inspect", state).stdout.split())
    assert "written 2.5 min ago by a process that has ended status" in shown
    facts = json.loads(newnormal("inspect", state, "--json").stdout)
    assert (facts["process"], facts["samples_since"]) == ("ended", 0)
    assert facts["age_seconds"] == pytest.approx(150, abs=30)


def test_it_says_whether_a_process_runs_and_how_far_it_is(plant: Plant, newnormal: Command) -> None:
    state = watched(plant, newnormal)
    empty, later = np.empty(0, np.int64), np.array([10**18, 10**18 + 60 * 10**9])
    engine = SingleEngine(state)
    engine.take(StepsTaken((Arrival("", ("a", "b", "c"), later, np.zeros((2, 3))),), empty))
    facts = json.loads(newnormal("inspect", state, "--json").stdout)
    assert (facts["process"], facts["samples_since"]) == ("running", 2)
    engine.close(save=False)
    for verb in ("inspect", "alarms"):
        shown = " ".join(newnormal(verb, state).stdout.split())
        assert "s ago by a process that was killed; 2 samples since" in shown


def test_a_model_of_fit_has_no_process(plant: Plant, newnormal: Command) -> None:
    assert "by a process" not in newnormal("inspect", plant.model).stdout
    assert json.loads(newnormal("inspect", plant.model, "--json").stdout)["process"] is None


def test_looking_at_a_lock_changes_nothing(plant: Plant, newnormal: Command) -> None:
    state = watched(plant, newnormal)
    lock = state / "lock"
    before = lock.read_bytes()
    assert is_held(lock) is False
    newnormal("inspect", state)
    assert lock.read_bytes() == before
    lock.unlink()
    assert is_held(lock) is False
    assert not lock.exists()


def keys(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [*value, *(key for each in value.values() for key in keys(each))]
    return [key for each in value for key in keys(each)] if isinstance(value, list) else []


def test_json_is_for_programs(moved: Plant, newnormal: Command) -> None:
    facts = json.loads(newnormal("inspect", watched(moved, newnormal), "--json").stdout)
    channels = set(facts["channels"])
    wrong = [key for key in keys(facts) if key != key.lower() or " " in key]
    assert set(wrong) <= channels
    for name in ("threshold", "samples_seen", "alarms", "distance", "age_seconds", "line"):
        assert isinstance(facts[name], int | float), name
    assert facts["past"]["changes"] == {"accepted": 1}
    for name in ("open_alarms", "open_changes", "choice", "options", "rule", "past"):
        facts.pop(name)  # documented forms of their own
    for name, value in facts.items():
        assert not isinstance(value, str) or name == "input" or " " not in value, (name, value)


def test_a_fleet_says_whether_its_process_runs(site: Site, newnormal: Command) -> None:
    assert json.loads(newnormal("inspect", site.fleet, "--json").stdout)["process"] is None
    newnormal(*site.watch)
    shown = " ".join(newnormal("inspect", site.state).stdout.split())
    assert "ago by a process that has ended" in shown
    with SingleEngine(site.state):
        facts = json.loads(newnormal("inspect", site.state, "--json").stdout)
        one = json.loads(newnormal("inspect", site.state, "db", "--json").stdout)
    assert facts["process"] == one["process"] == "running"
    assert not [key for key in facts if " " in key]
