"""`newnormal feedback`: given to a state file, or to a watch that runs."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from newnormal import FeedbackError, load
from newnormal.io import SourceOptions
from newnormal.io.sources.file import FileSource
from newnormal.runtime.checkpoint import stream_of
from newnormal.runtime.feedback import Act, Feedback, Queue, apply, start_of
from newnormal.runtime.lock import Lock, Progress
from tests.cli.conftest import CHANGE, Command, Plant, cut, lines

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture
def plant(moved: Plant) -> Plant:
    return moved


def queue(state: Path) -> Queue:
    return Queue(state, pytest.fail)


def reasons(printed: str) -> list[str]:
    events = [json.loads(line) for line in printed.splitlines()]
    return [event["alarm"]["reason"] for event in events if event["event"] == "closed"]


def watched(plant: Plant, newnormal: Command) -> str:
    state = plant.folder / "plant.state"
    done = newnormal("watch", plant.model, plant.live, "--state", state, "--alarms-only")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_without_feedback_a_change_is_accepted_in_its_time(
    plant: Plant, newnormal: Command
) -> None:
    assert "new normal accepted" in reasons(watched(plant, newnormal))


def test_rejected_in_a_file_it_is_never_accepted(plant: Plant, newnormal: Command) -> None:
    state = plant.folder / "plant.state"
    watched(cut(plant, CHANGE + 100), newnormal)
    done = newnormal("feedback", state, "reject")
    assert done.returncode == 0
    assert done.stderr == (
        "alarm 1 rejected: nothing is learned until the stream is back to normal\n"
    )
    assert json.loads(newnormal("inspect", state, "--json").stdout)["status"] == "rejected"
    rest = watched(cut(plant, len(plant.lines)), newnormal)
    assert "new normal accepted" not in reasons(rest)
    first = json.loads(rest.splitlines()[0])
    assert (first["event"], first["alarm"]["state"]) == ("updated", "rejected")
    assert json.loads(newnormal("inspect", state, "--json").stdout)["status"] == "rejected"
    assert sorted(path.name for path in plant.folder.iterdir()) == [
        "live.csv",
        "plant.nn",
        "plant.state",
    ], "and nothing is left lying about"


def test_accepted_in_a_file_it_is_over_and_rollback_brings_it_back(
    plant: Plant, newnormal: Command
) -> None:
    state = plant.folder / "plant.state"
    watched(cut(plant, CHANGE + 100), newnormal)
    done = newnormal("feedback", state, "accept", "--alarm", "1")
    assert done.stderr == "alarm 1 accepted: what it reported is normal from now on\n"
    assert json.loads(newnormal("inspect", state, "--json").stdout)["status"] == "normal"
    done = newnormal("feedback", state, "rollback")
    assert done.stderr == (
        "rolled back: normal is again what it was before the newest acceptance; "
        "if an alarm opens now, reject it, or the change is accepted again\n"
    )
    assert reasons(watched(cut(plant, CHANGE + 110), newnormal))[0] == "new normal accepted"
    assert json.loads(newnormal("inspect", state, "--json").stdout)["status"] == "in alarm"


def test_feedback_that_cannot_be_applied_changes_nothing(plant: Plant, newnormal: Command) -> None:
    state = plant.folder / "plant.state"
    watched(cut(plant, CHANGE + 100), newnormal)
    before = state.read_bytes()
    done = newnormal("feedback", state, "accept", "--alarm", "7")
    assert done.returncode == 1
    assert done.stderr == (
        "error: expected the open alarm, which is 1, found alarm 7\n"
        "hint: leave the number out to mean the open one\n"
    )
    done = newnormal("feedback", state, "rollback", "--alarm", "1")
    assert done.stderr == (
        "error: --alarm: expected none with rollback, found 1\n"
        "hint: rollback undoes the newest acceptance\n"
    )
    assert newnormal("feedback", state, "ignore").returncode == 2
    assert newnormal("feedback", plant.folder / "no.state", "accept").returncode == 1
    assert state.read_bytes() == before


@pytest.mark.external
def test_running_watch_applies_feedback_before_its_next_samples(
    plant: Plant, newnormal: Command
) -> None:
    state = plant.folder / "plant.state"
    watch = subprocess.Popen(
        [
            *(sys.executable, "-m", "newnormal", "watch", str(plant.model), "-"),
            *("--state", str(state), "--alarms-only", "--every", "1"),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert watch.stdin is not None
    assert watch.stdout is not None
    watch.stdin.write("\n".join(plant.lines[: CHANGE + 100]) + "\n")
    watch.stdin.flush()
    assert json.loads(watch.stdout.readline())["event"] == "opened"
    done = newnormal("feedback", state, "reject")
    assert done.stderr == (
        f"{state} is in use by `newnormal watch`: applied there before the next samples\n"
    )
    second = newnormal("watch", plant.model, plant.live, "--state", state)
    assert second.returncode == 1
    assert second.stderr.startswith(f"error: {state} is in use by another `newnormal watch`\n")
    out, err = watch.communicate("\n".join(plant.lines[CHANGE + 100 :]) + "\n", timeout=60)
    assert "feedback: alarm 1 rejected" in err
    assert "new normal accepted" not in reasons(out)
    assert load(state).status_ == "rejected"
    assert queue(state).empty


def test_feedback_left_for_a_watch_that_ended_is_applied_once(
    plant: Plant, newnormal: Command
) -> None:
    state = plant.folder / "plant.state"
    watched(cut(plant, CHANGE + 100), newnormal)
    left = Feedback.of(Act.accept, None)
    queue(state).enqueue(left)
    cut(plant, CHANGE + 130)
    done = newnormal("watch", plant.model, plant.live, "--state", state, "--alarms-only")
    assert "feedback: alarm 1 accepted" in done.stderr
    assert queue(state).empty
    queue(state).enqueue(left)  # as if the watch had been killed before it removed it
    cut(plant, CHANGE + 160)
    done = newnormal("watch", plant.model, plant.live, "--state", state, "--alarms-only")
    assert "feedback: " not in done.stderr
    assert queue(state).empty


def test_feedback_that_a_watch_cannot_apply_does_not_stop_it(
    plant: Plant, newnormal: Command
) -> None:
    state = plant.folder / "plant.state"
    watched(cut(plant, 100), newnormal)
    queue(state).enqueue(Feedback.of(Act.reject, 3))
    cut(plant, 200)
    done = newnormal("watch", plant.model, plant.live, "--state", state)
    assert done.returncode == 0
    assert (
        "feedback not applied: expected the open alarm, which is none, found alarm 3\n"
        in done.stderr
    )


DAMAGE = {
    b'{"act": "acce': "1 of 2 lines are unreadable",  # cut short
    b"\xff\xfe": "1 of 2 lines are unreadable",
    b"[" * 5000: "1 of 2 lines are unreadable",
    b'{"act": "accept", "alarm": "1", "key": "k"}': "1 of 2 lines are unreadable",
    b'{"act": "accept", "alarm": true, "key": "k"}': "1 of 2 lines are unreadable",
    b"x" * (1 << 20): "it has more than 1,048,576 bytes",
}


@pytest.mark.parametrize("damage", DAMAGE, ids=range(len(DAMAGE)))
@pytest.mark.parametrize("name", ["plant.state.feedback", ".plant.state.feedback.taken"])
def test_damaged_queue_is_reported_and_set_aside_and_the_rest_is_applied(
    plant: Plant, newnormal: Command, name: str, damage: bytes
) -> None:
    state = plant.folder / "plant.state"
    watched(cut(plant, CHANGE + 100), newnormal)
    path = plant.folder / name
    good = b'{"act": "reject", "alarm": 1, "key": "a", "sample": 1}\n'
    path.write_bytes(damage + b"\n" + good)
    cut(plant, CHANGE + 110)
    arguments = ("watch", plant.model, plant.live, "--state", state)
    done = newnormal(*arguments)
    assert done.returncode == 0, done.stderr
    reported = f"{path} is damaged ({DAMAGE[damage]}): set aside as {name}.damaged\n"
    assert reported in done.stderr
    assert ("feedback: alarm 1 rejected" in done.stderr) == (len(damage) < 1 << 20)
    assert (plant.folder / f"{name}.damaged").read_bytes() == damage + b"\n" + good
    assert "is damaged" not in newnormal(*arguments).stderr
    path.mkdir()
    assert f"set aside as {name}.damaged-2\n" in newnormal(*arguments).stderr


def test_feedback_after_a_line_that_was_cut_short_is_not_lost(plant: Plant) -> None:
    state = plant.folder / "plant.state"
    (plant.folder / "plant.state.feedback").write_bytes(b'{"act": "acce')
    reports: list[str] = []
    inbox = Queue(state, reports.append)
    inbox.enqueue(Feedback.of(Act.reject, 2))
    inbox.dequeue(lambda each: each)
    assert [each.alarm for each in inbox.journal] == [2]
    assert len(reports) == 1


def test_feedback_given_before_the_first_checkpoint_is_left_all_the_same(
    plant: Plant, newnormal: Command
) -> None:
    state = plant.folder / "plant.state"
    with Lock(state) as lock:
        assert lock.held
        done = newnormal("feedback", state, "reject")
    assert done.returncode == 0
    assert not queue(state).empty


def test_feedback_names_the_alarm_and_the_sample_where_the_watch_is(
    plant: Plant, newnormal: Command
) -> None:
    state = plant.folder / "plant.state"
    with Lock(state) as lock:
        lock.write(Progress(123, 4, "stream"))
        assert newnormal("feedback", state, "reject").returncode == 0
        assert newnormal("feedback", state, "accept", "--alarm", 4).returncode == 0
        done = newnormal("feedback", state, "accept", "--alarm", 3)
        assert done.stderr == (
            "error: expected the open alarm, which is 4, found alarm 3\n"
            "hint: leave the number out to mean the open one\n"
        )
        lock.write(Progress(150, None, "stream"))
        done = newnormal("feedback", state, "accept")
        assert done.stderr == (
            "error: expected the open alarm, which is none, found none named\n"
            "hint: `rollback` undoes the newest acceptance\n"
        )
        assert newnormal("feedback", state, "rollback").returncode == 0
    inbox = queue(state)
    inbox.dequeue(lambda each: each)
    assert [(each.act, each.alarm, each.sample, each.stream) for each in inbox.journal] == [
        (Act.reject, 4, 123, "stream"),
        (Act.accept, 4, 123, "stream"),
        (Act.rollback, None, 150, "stream"),
    ]


def test_without_progress_an_alarm_that_the_checkpoint_shows_as_over_is_refused(
    plant: Plant, newnormal: Command
) -> None:
    state = plant.folder / "plant.state"
    watched(cut(plant, CHANGE + 100), newnormal)
    newnormal("feedback", state, "accept")
    later = [*plant.lines[: CHANGE + 101], *lines(1_900 + CHANGE, 60, 19.0)]
    plant.live.write_text("\n".join(later) + "\n")
    watched(plant, newnormal)
    assert json.loads(newnormal("inspect", state, "--json").stdout)["open alarm"][0] == "2"
    with Lock(state):
        done = newnormal("feedback", state, "accept", "--alarm", 1)
        assert "expected the open alarm, which is 2, found alarm 1" in done.stderr
        assert newnormal("feedback", state, "accept", "--alarm", 3).returncode == 0, "may be open"
        assert newnormal("feedback", state, "accept").returncode == 0
    inbox = queue(state)
    inbox.dequeue(lambda each: each)
    assert [each.alarm for each in inbox.journal] == [3, 2]


@pytest.mark.external
def test_watch_that_waits_for_samples_applies_feedback_without_them(
    plant: Plant, newnormal: Command
) -> None:
    state = plant.folder / "plant.state"
    cut(plant, CHANGE + 100)
    watch = subprocess.Popen(
        [
            *(sys.executable, "-m", "newnormal", "watch", str(plant.model), str(plant.live)),
            *("--state", str(state), "--alarms-only", "--follow"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert watch.stdout is not None
    assert json.loads(watch.stdout.readline())["event"] == "opened"
    deadline = time.monotonic() + 60
    while newnormal("feedback", state, "reject").returncode:  # the alarm may not be known yet
        assert time.monotonic() < deadline
    events: list[dict[str, Any]] = []
    while not events or events[-1]["alarm"]["state"] != "rejected":
        events.append(json.loads(watch.stdout.readline()))
    watch.terminate()
    _, err = watch.communicate(timeout=60)
    assert "feedback: alarm 1 rejected" in err
    assert queue(state).empty


def test_feedback_after_a_kill_waits_for_the_sample_that_was_reached(
    plant: Plant, newnormal: Command
) -> None:
    state = plant.folder / "plant.state"
    watched(cut(plant, CHANGE + 100), newnormal)
    source = FileSource(str(plant.live), SourceOptions(("a", "b")))
    stream = stream_of(load(state), source)
    source.close()
    with Lock(state) as lock:  # a watch that was killed 50 samples after its checkpoint
        lock.write(Progress(CHANGE + 150, 1, stream))
        lock.keep = True
    done = newnormal("feedback", state, "accept")
    assert done.stderr == (
        f"the last `newnormal watch` of {state} was killed at sample {CHANGE + 150}: "
        "this is applied when the next one has reached that sample again\n"
    )
    done = newnormal("feedback", state, "accept", "--alarm", 2)
    assert "expected the open alarm, which is 1, found alarm 2" in done.stderr
    cut(plant, CHANGE + 120)
    done = newnormal("watch", plant.model, plant.live, "--state", state, "--alarms-only")
    assert f"feedback waits for sample {CHANGE + 150}, where it was given\n" in done.stderr
    done = newnormal("feedback", state, "rollback")
    assert "is applied when the next one has reached that sample again" in done.stderr
    cut(plant, CHANGE + 200)
    done = newnormal("watch", plant.model, plant.live, "--state", state, "--alarms-only")
    accepted, *_ = [json.loads(line) for line in done.stdout.splitlines()]
    assert accepted["alarm"]["reason"] == "new normal accepted"
    assert accepted["sample"] in range(CHANGE + 144, CHANGE + 150)  # the newest judged
    reports = [line for line in done.stderr.splitlines() if line.startswith("feedback: ")]
    assert [line.split(" ")[1] for line in reports] == ["alarm", "rolled"]
    assert queue(state).empty
    assert not (plant.folder / ".plant.state.lock").exists()


def test_feedback_for_another_input_is_refused(plant: Plant, newnormal: Command) -> None:
    state = plant.folder / "plant.state"
    watched(cut(plant, CHANGE + 100), newnormal)
    queue(state).enqueue(Feedback.of(Act.accept, 1, 5_000, "another"))
    cut(plant, CHANGE + 110)
    done = newnormal("watch", plant.model, plant.live, "--state", state)
    assert (
        "feedback not applied: accept of alarm 1 was given at sample 5000 "
        "of another input or another fit\n"
    ) in done.stderr
    assert queue(state).empty


def test_feedback_is_applied_before_what_has_arrived_since(
    plant: Plant, newnormal: Command
) -> None:
    state = plant.folder / "plant.state"
    watched(cut(plant, CHANGE + 100), newnormal)
    queue(state).enqueue(Feedback.of(Act.accept, None))
    # By the end of what arrives, the alarm that was meant would be over, and another open.
    later = plant.lines[: CHANGE + 101] + lines(1_500 + CHANGE + 100, 400, 0.0)
    plant.live.write_text("\n".join(later + lines(1_900 + CHANGE + 100, 50, 9.0)) + "\n")
    done = newnormal("watch", plant.model, plant.live, "--state", state, "--alarms-only")
    assert "feedback: alarm 1 accepted" in done.stderr


def test_newer_feedback_comes_after_what_was_left(plant: Plant, newnormal: Command) -> None:
    state = plant.folder / "plant.state"
    watched(cut(plant, CHANGE + 100), newnormal)
    queue(state).enqueue(Feedback.of(Act.accept, None))
    done = newnormal("feedback", state, "rollback")
    assert done.stderr.splitlines() == [
        "feedback: alarm 1 accepted: what it reported is normal from now on",
        "rolled back: normal is again what it was before the newest acceptance; "
        "if an alarm opens now, reject it, or the change is accepted again",
    ]
    assert queue(state).empty


def test_feedback_that_a_killed_watch_applied_is_not_applied_by_the_next_command(
    plant: Plant, newnormal: Command
) -> None:
    state = plant.folder / "plant.state"
    watched(cut(plant, CHANGE + 100), newnormal)
    left = Feedback.of(Act.accept, None)
    queue(state).enqueue(left)
    watched(cut(plant, CHANGE + 110), newnormal)
    queue(state).enqueue(left)  # it was killed between its checkpoint and removing the feedback
    done = newnormal("feedback", state, "rollback")
    assert done.stderr.startswith("rolled back")


def test_file_system_without_locks_does_not_hang(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(handle: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    with Lock(plant.folder / "plant.state") as lock:
        assert lock.held


def test_link_to_a_state_file_stays_a_link(plant: Plant, newnormal: Command) -> None:
    state = plant.folder / "plant.state"
    watched(cut(plant, CHANGE + 100), newnormal)
    link = plant.folder / "link.state"
    link.symlink_to(state)
    newnormal("feedback", link, "reject")
    assert link.is_symlink()
    assert load(state).status_ == "rejected"


def test_feedback_on_an_alarm_that_began_elsewhere_is_refused() -> None:
    """An input that does not come again after a kill may open another alarm of that number."""
    detector = load(GOLDEN / "runs" / "alarm-budget.nn")
    alarm = detector.alarm_
    assert alarm is not None
    other = Feedback.of(Act.accept, alarm.number, 1, None, "sample 7")
    with pytest.raises(FeedbackError) as caught:
        apply(detector, other)
    assert str(caught.value) == (
        f"expected alarm {alarm.number}, which began at sample 7, found one that began at "
        f"{start_of(alarm)}\n"
        "hint: the input has changed since: look at the open alarm, and give feedback on it"
    )
    same = Feedback.of(Act.accept, alarm.number, 1, None, start_of(alarm))
    assert apply(detector, same).startswith(f"alarm {alarm.number} accepted")
