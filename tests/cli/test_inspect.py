"""`newnormal inspect`: how old what it shows is, beside a `watch` and without, and its JSON."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from newnormal.locks import is_held
from newnormal.runtime.lock import Lock, WatchProgress
from tests.cli.conftest import Command, Plant
from tests.cli.fleets import Site

pytestmark = pytest.mark.skipif(os.name == "nt", reason="there are no such locks")


def watched(plant: Plant, newnormal: Command) -> Path:
    assert newnormal("watch", plant.model, plant.live, "--state", plant.state).returncode == 0
    return plant.state


def test_a_checkpoint_shows_its_age_and_no_watch(plant: Plant, newnormal: Command) -> None:
    state = watched(plant, newnormal)
    os.utime(state, (time.time() - 150, time.time() - 150))
    shown = " ".join(newnormal("inspect", state).stdout.split())
    assert "written 2.5 min ago by a `newnormal watch` that has ended status" in shown
    facts = json.loads(newnormal("inspect", state, "--json").stdout)
    assert facts["watch"] == "ended"
    assert facts["age_seconds"] == pytest.approx(150, abs=30)


def test_beside_a_running_watch_it_says_how_far_that_is(plant: Plant, newnormal: Command) -> None:
    state = watched(plant, newnormal)
    with Lock(state) as lock:
        lock.write(WatchProgress(seen=700, alarm=None, stream="x"))
        shown = " ".join(newnormal("inspect", state).stdout.split())
        facts = json.loads(newnormal("inspect", state, "--json").stdout)
        lock.keep = True
    assert "s ago by a `newnormal watch` that is running; 300 samples since" in shown
    assert (facts["watch"], facts["samples_since"]) == ("running", 300)
    facts = json.loads(newnormal("inspect", state, "--json").stdout)
    assert (facts["watch"], facts["samples_since"]) == ("killed", 300)


def test_before_a_checkpoint_it_says_so_and_what_to_do(plant: Plant, newnormal: Command) -> None:
    with Lock(plant.state) as lock:
        lock.write(WatchProgress(seen=70, alarm=None, stream="x"))
        done = newnormal("inspect", plant.state)
        lock.keep = True
    assert done.returncode == 1
    assert done.stderr.splitlines()[0] == (
        f"error: {plant.state}: a `newnormal watch` is running, 70 samples so far, "
        "and has not written it yet"
    )
    assert "until then inspect the detector it was started with" in done.stderr
    done = newnormal("inspect", plant.state)
    assert f"{plant.state}: the `newnormal watch` of it was killed at sample 70" in done.stderr
    (plant.folder / ".plant.state.lock").unlink()
    assert "watch" not in newnormal("inspect", plant.state).stderr.splitlines()[0]


def test_a_model_that_no_watch_has_written_is_named_so(plant: Plant, newnormal: Command) -> None:
    assert "by a `newnormal watch`" not in newnormal("inspect", plant.model).stdout
    with Lock(plant.model):
        shown = newnormal("inspect", plant.model).stdout
    assert "a `newnormal watch` is running and has not written to it yet" in " ".join(shown.split())


def test_looking_at_a_lock_changes_nothing(plant: Plant, newnormal: Command) -> None:
    lock = plant.folder / ".plant.nn.lock"
    assert is_held(lock) is False
    newnormal("inspect", plant.model)
    assert not lock.exists()
    lock.write_bytes(b"")
    assert is_held(lock) is False
    with Lock(plant.model) as held:
        assert held.held
        assert is_held(lock) is True


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


def test_a_fleet_says_whether_its_watch_runs(site: Site, newnormal: Command) -> None:
    from newnormal.fleet.folder.lock import FolderLock

    assert json.loads(newnormal("inspect", site.fleet, "--json").stdout)["watch"] is None
    newnormal("watch", site.fleet, site.live, "--by", "host")
    shown = " ".join(newnormal("inspect", site.fleet).stdout.split())
    assert "ago by a `newnormal watch` that has ended" in shown
    lock = FolderLock(site.fleet).acquire()
    facts = json.loads(newnormal("inspect", site.fleet, "--json").stdout)
    one = json.loads(newnormal("inspect", site.fleet, "db", "--json").stdout)
    lock.release()
    assert facts["watch"] == one["watch"] == "running"
    assert not [key for key in facts if " " in key]
