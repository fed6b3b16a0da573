"""`newnormal accept`, `reject` and `undo`: applied to a folder, or left for a watch that runs."""

import json
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from newnormal import Fleet, load
from newnormal.arrivals.arrival import Arrival
from newnormal.engine.folder import SingleEngine
from newnormal.engine.log.entries import StepsTaken
from newnormal.engine.log.sqlite_log import ask
from newnormal.tabular import read
from tests.cli.conftest import CHANGE, Command, Plant, Running, cut, lines
from tests.present import present
from tests.waiting import until


@pytest.fixture
def plant(moved: Plant) -> Plant:
    return moved


@pytest.fixture
def state(plant: Plant) -> Path:
    return plant.state


@pytest.fixture
def pending(plant: Plant, state: Path, newnormal: Command) -> Path:
    """The folder of a watch in which change 1 is pending."""
    watched(cut(plant, CHANGE + 100), newnormal)
    return state


def kinds(lines: list[str]) -> list[str]:
    return [json.loads(line)["event"] for line in lines]


def facts(newnormal: Command, state: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(newnormal("inspect", state, "--json").stdout)
    return found


REJECTED = "change 1 rejected: nothing is learned until the stream is back to normal"
ACCEPTED = "change 1 accepted: normal from now on, and so is what was normal before"
UNDONE = (
    "undone: normal is again what it was before the newest acceptance; "
    "a change that it had accepted is open: reject it, or it is accepted again"
)


def watched(plant: Plant, newnormal: Command) -> list[str]:
    """Return the events of a watch of the file."""
    done = newnormal(*plant.watch, "--alarms-only")
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def left(state: Path, verb: str, **number: int) -> None:
    """Leave a decision for the next process that uses the folder."""
    ask(state / "log.sqlite", json.dumps({"stream": "", "verb": verb, **number}))


def test_rejected_it_stays_so(plant: Plant, pending: Path, newnormal: Command) -> None:
    before = sorted(path.name for path in pending.iterdir())
    assert newnormal("reject", pending, status=0).stderr == f"{REJECTED}\n"
    (change,) = facts(newnormal, pending)["open_changes"]
    assert (change["number"], change["state"]) == (1, "rejected")
    rest = watched(cut(plant, len(plant.lines)), newnormal)
    assert "accepted" not in kinds(rest)
    first = json.loads(rest[0])
    assert (first["event"], first["alarm"]) == ("rejected", None), "the next watch writes it"
    assert first["change"]["state"] == "rejected"
    (change,) = facts(newnormal, pending)["open_changes"]
    assert (change["number"], change["state"]) == (1, "rejected")
    assert watched(plant, newnormal) == [], "once"
    assert sorted(path.name for path in pending.iterdir()) == before
    assert sorted(path.name for path in plant.folder.iterdir()) == [
        *("live.csv", "plant.nn", "plant.state")
    ]


def test_undo_takes_an_acceptance_back(plant: Plant, pending: Path, newnormal: Command) -> None:
    done = newnormal("accept", pending, "--alarm", "1")
    assert done.stderr == f"{ACCEPTED}\n", "the change that began with that alarm"
    assert facts(newnormal, pending)["status"] == "normal"
    assert newnormal("undo", pending).stderr == f"{UNDONE}\n"
    found = kinds(watched(cut(plant, CHANGE + 150), newnormal))
    assert found[:3] == ["closed", "accepted", "undone"]
    assert found[3:] == [], "the change is open again, and not new"
    (change,) = facts(newnormal, pending)["open_changes"]
    assert (change["number"], change["state"]) == (1, "pending")


def test_refused_feedback_changes_nothing(plant: Plant, pending: Path, newnormal: Command) -> None:
    before = facts(newnormal, pending)
    assert newnormal("accept", pending, "--alarm", "7", status=1).stderr == (
        "error: expected the number of one of the last 100 alarms, found 7\n"
        "hint: open now: change 1, alarm 1; the only alarm is 1\n"
    )
    assert newnormal("accept", pending, "--change", "7").stderr == (
        "error: expected an open change to accept, which is 1, found change 7\n"
        "hint: open now: change 1, alarm 1; `newnormal undo` (undo()) undoes "
        "the newest acceptance\n"
    )
    assert newnormal("accept", pending, "--alarm", "1", "--change", "1").stderr == (
        "error: expected --alarm or --change, found --alarm 1 and --change 1\n"
        "hint: an alarm that a change began with means that change\n"
    )
    assert newnormal("undo", pending, "--alarm", "1").returncode == 2
    assert "expected no stream" in newnormal("accept", pending, "web-1", status=1).stderr
    after = facts(newnormal, pending)
    assert {**after, "age_seconds": 0} == {**before, "age_seconds": 0}


@pytest.mark.parametrize("name", ["plant.nn", "live.csv", ".", "no.state"])
def test_only_a_folder_of_a_watch_takes_feedback(
    plant: Plant, newnormal: Command, name: str
) -> None:
    path = plant.folder / name
    none, how = "", f"{path} INPUT --state FOLDER"
    if name == "no.state":
        none, how = "no folder ", f"MODEL INPUT --state {path}"
    assert newnormal("accept", path, status=1).stderr == (
        f"error: expected the folder of a `watch` or of a service, found {none}{path}\n"
        f"hint: newnormal watch {how} makes one\n"
    )


def test_undo_of_nothing_names_what_the_shell_has(pending: Path, newnormal: Command) -> None:
    assert newnormal("undo", pending, status=1).stderr == (
        "error: expected an accepted new normal to go back from, found none since `fit`\n"
        "hint: `newnormal watch` with a new --state folder (reset()) goes back to what `fit` left\n"
    )


def test_a_running_watch_applies_feedback(plant: Plant, state: Path, newnormal: Command) -> None:
    watch = Running(*("watch", plant.model, "-", "--state", state, "--alarms-only"))
    watch.send(plant.lines[: CHANGE + 100])
    assert kinds(watch.read(2)) == ["opened", "changed"]
    assert newnormal("reject", state).stderr == (
        f"{state} is in use: applied there before the next samples\n"
    )
    second = newnormal("watch", plant.model, plant.live, "--state", state, status=1)
    assert second.stderr.startswith(f"error: {state} is in use by process {watch.process.pid}")
    watch.send(plant.lines[CHANGE + 100 :])
    done = watch.end()
    assert f"feedback: {REJECTED}\n" in done.stderr
    assert "accepted" not in kinds(done.stdout.splitlines())
    assert [change.state for change in load(state).changes_] == ["rejected"]
    assert not facts(newnormal, state)["feedback_waiting"]


def test_a_waiting_watch_applies_feedback(plant: Plant, state: Path, newnormal: Command) -> None:
    cut(plant, CHANGE + 100)
    watch = Running(
        *("watch", plant.model, plant.live, "--state", state, "--alarms-only", "--follow")
    )
    assert kinds(watch.read(2)) == ["opened", "changed"]
    assert newnormal("reject", state, "--change", 1).returncode == 0
    while kinds(watch.read(1)) != ["rejected"]:
        pass
    refused = newnormal("accept", state, "--alarm", 99, status=1)
    assert "expected the number of one of the last 100 alarms, found 99" in refused.stderr
    assert f"feedback: {REJECTED}" in watch.end(signal.SIGTERM).stderr


def test_feedback_after_a_kill_is_applied_at_once(
    plant: Plant, state: Path, newnormal: Command
) -> None:
    cut(plant, CHANGE + 100)
    watch = Running("watch", plant.model, plant.live, "--state", state, "--follow")
    watch.read(CHANGE + 90)
    until(lambda: facts(newnormal, state)["open_changes"], "the checkpoint")
    watch.end(signal.SIGKILL)
    assert newnormal("accept", state).stderr == f"{ACCEPTED}\n"
    assert facts(newnormal, state)["status"] == "normal"
    assert kinds(watched(plant, newnormal))[-2:] == ["closed", "accepted"]
    assert watched(plant, newnormal) == []


def test_feedback_that_was_left_is_applied_once_and_before_samples(
    plant: Plant, pending: Path, newnormal: Command
) -> None:
    left(pending, "reject", alarm=3)
    left(pending, "accept", change=1)
    assert facts(newnormal, pending)["feedback_waiting"]
    # By the end of what arrives, the change that was meant would be over, and another open.
    later = plant.lines[: CHANGE + 101] + lines(1_500 + CHANGE + 100, 400, 0.0)
    plant.write(later + lines(1_900 + CHANGE + 100, 50, 9.0))
    done = newnormal("watch", plant.model, plant.live, "--state", pending, "--alarms-only")
    refused = "feedback not applied: expected the number of one of the last 100 alarms, found 3\n"
    assert refused in done.stderr
    assert f"feedback: {ACCEPTED}\n" in done.stderr
    assert kinds(done.stdout.splitlines())[:2] == ["closed", "accepted"]
    assert not facts(newnormal, pending)["feedback_waiting"], "once"


def test_a_past_alarm_is_accepted_by_number(plant: Plant, state: Path, newnormal: Command) -> None:
    spike = lines(1_500 + CHANGE - 1, 1, 4.0)
    plant.write([*plant.lines[:CHANGE], *spike, *lines(1_500 + CHANGE, 100)])
    events = [json.loads(line) for line in watched(plant, newnormal)]
    over = [event["alarm"] for event in events if event["event"] == "closed"]
    assert over
    assert facts(newnormal, state)["status"] == "normal"
    shown = newnormal("inspect", state).stdout
    assert f"{len(over)} alarm" in shown
    done = newnormal("accept", state)
    assert "expected an open change or alarm to accept, found none" in done.stderr
    assert f"such as --alarm {over[-1]['number']} (alarm=" in done.stderr
    number = over[0]["number"]
    done = newnormal("accept", state, "--alarm", number)
    assert done.stderr == (f"alarm {number} accepted: samples like these are normal from now on\n")


def test_a_hint_says_what_can_be_done(plant: Plant, state: Path, newnormal: Command) -> None:
    watched(cut(plant, 50), newnormal)
    assert newnormal("accept", state).stderr == (
        "error: expected an open change or alarm to accept, found none\n"
        "hint: no alarm has opened so far; `newnormal undo` (undo()) undoes "
        "the newest acceptance\n"
    )
    done = newnormal("accept", state, "--alarm", 3)
    assert "hint: nothing is open now; no alarm has opened so far\n" in done.stderr


def test_an_alarm_is_rejected_first(plant: Plant, state: Path, newnormal: Command) -> None:
    watched(cut(plant, CHANGE + 5), newnormal)
    done = newnormal("reject", state)
    assert done.stderr == ("alarm 1 rejected: a change that begins with it is rejected as well\n")
    watched(cut(plant, CHANGE + 100), newnormal)
    (change,) = facts(newnormal, state)["open_changes"]
    assert (change["alarm"], change["state"]) == (1, "rejected")


def test_inspect_shows_what_is_open(plant: Plant, pending: Path, newnormal: Command) -> None:
    detector = load(pending)
    found = facts(newnormal, pending)
    assert found["open_alarms"] == [alarm.as_dict() for alarm in detector.alarms_]
    assert found["open_changes"] == [change.as_dict() for change in detector.changes_]
    shown = " ".join(newnormal("inspect", pending).stdout.split())
    assert "alarm 1 open since 2026-01-02 06:00:00: " in shown
    assert "change 1 pending since 2026-01-02 06:00:00: " in shown
    assert f"bytes of the stream {found['stream_bytes']:,} " in shown
    assert f"distance from normal {found['distance']:.3g} × the limit" in shown


def test_open_alarms_precede_rejected_ones(plant: Plant, pending: Path, newnormal: Command) -> None:
    """What was rejected weeks ago is not accepted by mistake when something else happens."""
    assert newnormal("reject", pending).returncode == 0
    plant.write([*plant.lines[: CHANGE + 400], *lines(1_900 + CHANGE, 5, 40.0)])
    watched(plant, newnormal)
    alarm = present(load(pending).alarm_)
    assert newnormal("accept", pending).stderr.startswith(f"alarm {alarm.number} accepted")


def test_a_decision_after_a_kill_hides_no_event(
    plant: Plant, state: Path, newnormal: Command
) -> None:
    cut(plant, CHANGE + 100)
    table = read(str(plant.live))
    assert table.times is not None and table.channels is not None
    times = table.times.astype("datetime64[ns]").view(np.int64)
    engine = SingleEngine(state)
    engine.begin(Fleet().add("", load(plant.model)))
    arrival = Arrival("", table.channels, times, table.values)
    engine.take(StepsTaken((arrival,), np.empty(0, np.int64)))
    engine.close(save=False)  # before its output was written
    assert newnormal("reject", state).stderr == f"{REJECTED}\n"
    watching = ("watch", plant.model, plant.live, "--state", state, "--format", "text")
    said = newnormal(*watching, status=0).stdout
    assert "CHANGE 1 pending" in said and "rejected" in said
    assert newnormal(*watching, status=0).stdout == ""
