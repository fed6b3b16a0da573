"""`newnormal accept`, `reject` and `undo`: given to a state file, or to a watch that runs."""

import errno
import json
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from newnormal import FeedbackError, load
from newnormal.io import SourceOptions
from newnormal.io.sources.file import FileSource
from newnormal.runtime.checkpoint import stream_of
from newnormal.runtime.feedback import FeedbackAct, FeedbackRequest, Queue, apply, start_of
from newnormal.runtime.lock import Lock, WatchProgress
from tests.cli.conftest import CHANGE, Command, Plant, Running, cut, lines
from tests.errors import raised
from tests.present import present


@pytest.fixture
def plant(moved: Plant) -> Plant:
    return moved


@pytest.fixture
def state(plant: Plant) -> Path:
    return plant.state


@pytest.fixture
def pending(plant: Plant, state: Path, newnormal: Command) -> Path:
    """A state file in which change 1 is pending."""
    watched(cut(plant, CHANGE + 100), newnormal)
    return state


def queue(state: Path) -> Queue:
    return Queue(state, pytest.fail)


def kinds(lines: list[str]) -> list[str]:
    return [json.loads(line)["event"] for line in lines]


def facts(newnormal: Command, state: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(newnormal("inspect", state, "--json").stdout)
    return found


REJECTED = "change 1 rejected: nothing is learned until the stream is back to normal"
ACCEPTED = "change 1 accepted: normal from now on, and so is what was normal before"
ROLLED_BACK = (
    "undone: normal is again what it was before the newest acceptance; "
    "if a change opens now, reject it, or it is accepted again"
)


def watched(plant: Plant, newnormal: Command) -> str:
    done = newnormal("watch", plant.model, plant.live, "--state", plant.state, "--alarms-only")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_without_feedback_a_change_is_accepted_in_time(plant: Plant, newnormal: Command) -> None:
    found = kinds(watched(plant, newnormal).splitlines())
    assert found.index("changed") < found.index("accepted")


def test_rejected_in_a_file_it_stays_so(plant: Plant, pending: Path, newnormal: Command) -> None:
    assert newnormal("reject", pending, status=0).stderr == f"{REJECTED}\n"
    (change,) = facts(newnormal, pending)["open_changes"]
    assert (change["number"], change["state"]) == (1, "rejected")
    rest = watched(cut(plant, len(plant.lines)), newnormal)
    assert "accepted" not in kinds(rest.splitlines())
    first = json.loads(rest.splitlines()[0])
    assert (first["event"], first["alarm"], first["change"]["state"]) == (
        *("rejected", None),
        "rejected",
    )
    (change,) = facts(newnormal, pending)["open_changes"]
    assert (change["number"], change["state"]) == (1, "rejected")
    assert sorted(path.name for path in plant.folder.iterdir()) == [
        "live.csv",
        "plant.nn",
        "plant.state",
    ], "and nothing is left lying about"


def test_undo_takes_an_acceptance_back(plant: Plant, pending: Path, newnormal: Command) -> None:
    done = newnormal("accept", pending, "--alarm", "1")
    assert done.stderr == f"{ACCEPTED}\n", "the change that began with that alarm"
    assert facts(newnormal, pending)["status"] == "normal"
    assert newnormal("undo", pending).stderr == f"{ROLLED_BACK}\n"
    found = kinds(watched(cut(plant, CHANGE + 150), newnormal).splitlines())
    assert found[:3] == ["closed", "accepted", "rolled_back"]
    assert "changed" in found[3:]
    assert [each["number"] for each in facts(newnormal, pending)["open_changes"]] == [2]


def test_refused_feedback_changes_nothing(plant: Plant, pending: Path, newnormal: Command) -> None:
    before = pending.read_bytes()
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
    assert newnormal("accept", plant.folder / "no.state").returncode == 1
    assert pending.read_bytes() == before


def test_a_running_watch_applies_feedback(plant: Plant, state: Path, newnormal: Command) -> None:
    watch = Running(*("watch", plant.model, "-", "--state", state, "--alarms-only", "--every", 1))
    watch.send(plant.lines[: CHANGE + 100])
    assert kinds(watch.read(2)) == ["opened", "changed"]
    assert newnormal("reject", state).stderr == (
        f"{state} is in use by `newnormal watch`: applied there before the next samples\n"
    )
    second = newnormal("watch", plant.model, plant.live, "--state", state, status=1)
    assert second.stderr.startswith(f"error: {state} is in use by another `newnormal watch`\n")
    watch.send(plant.lines[CHANGE + 100 :])
    done = watch.end()
    assert f"feedback: {REJECTED}\n" in done.stderr
    assert "accepted" not in kinds(done.stdout.splitlines())
    assert [change.state for change in load(state).changes_] == ["rejected"]
    assert queue(state).empty


def test_feedback_left_is_applied_once(plant: Plant, pending: Path, newnormal: Command) -> None:
    left = FeedbackRequest(FeedbackAct.accept, None)
    queue(pending).enqueue(left)
    cut(plant, CHANGE + 130)
    done = newnormal("watch", plant.model, plant.live, "--state", pending, "--alarms-only")
    assert f"feedback: {ACCEPTED}\n" in done.stderr
    assert queue(pending).empty
    queue(pending).enqueue(left)  # as if the watch had been killed before it removed it
    cut(plant, CHANGE + 160)
    done = newnormal("watch", plant.model, plant.live, "--state", pending, "--alarms-only")
    assert "feedback: " not in done.stderr
    assert queue(pending).empty


def test_refused_feedback_does_not_stop_it(plant: Plant, state: Path, newnormal: Command) -> None:
    watched(cut(plant, 100), newnormal)
    queue(state).enqueue(FeedbackRequest(FeedbackAct.reject, 3))
    cut(plant, 200)
    done = newnormal("watch", plant.model, plant.live, "--state", state, status=0)
    assert (
        "feedback not applied: expected the number of one of the last 100 alarms, found 3\n"
        in done.stderr
    )


UNREADABLE = (
    b'{"act": "acce',  # cut short
    b"\xff\xfe",
    b"[" * 5000,
    b'{"act": "accept", "alarm": "1", "key": "k"}',
    b'{"act": "accept", "alarm": true, "key": "k"}',
    b'{"act": "accept", "alarm": null, "key": "k", "change": 1.5}',
    b'{"act": "accept", "alarm": null}',
    b'{"act": "forget", "alarm": null, "key": "k"}',
)
GOOD = b'{"act": "reject", "alarm": 1, "key": "a", "sample": 1}'
FILES = ("plant.state.feedback", ".plant.state.feedback.taken")


@pytest.mark.parametrize("name", FILES)
def test_unreadable_lines_are_set_aside_and_the_others_stay(state: Path, name: str) -> None:
    for damage in UNREADABLE:
        path = state.with_name(name)
        path.write_bytes(damage + b"\n" + GOOD + b"\n")
        reports: list[str] = []
        inbox = Queue(state, reports.append)
        inbox.load()
        inbox.dequeue(lambda request: request)
        assert [(request.act, request.alarm) for request in inbox.journal] == [("reject", 1)]
        (aside,) = state.parent.glob(f"{name}.damaged*")
        assert reports == [
            f"{path} is damaged (1 of 2 lines are unreadable): set aside as {aside.name}"
        ]
        aside.unlink()
        inbox.remove(inbox.journal)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", [UNREADABLE[0], b"x" * (1 << 20)], ids=["cut short", "too long"])
def test_damaged_queue_is_reported_and_set_aside_and_the_rest_is_applied(
    plant: Plant, pending: Path, newnormal: Command, name: str, damage: bytes
) -> None:
    path = plant.folder / name
    content = damage + b"\n" + GOOD + b"\n"
    path.write_bytes(content)
    cut(plant, CHANGE + 110)
    arguments = ("watch", plant.model, plant.live, "--state", pending)
    done = newnormal(*arguments, status=0)
    is_long = len(damage) >= 1 << 20
    why = "it has more than 1,048,576 bytes" if is_long else "1 of 2 lines are unreadable"
    assert f"{path} is damaged ({why}): set aside as {name}.damaged\n" in done.stderr
    assert (f"feedback: {REJECTED}" in done.stderr) == (not is_long)
    assert (plant.folder / f"{name}.damaged").read_bytes() == content
    assert "is damaged" not in newnormal(*arguments).stderr
    path.mkdir()
    assert f"set aside as {name}.damaged-2\n" in newnormal(*arguments).stderr


def test_feedback_after_a_line_that_was_cut_short_is_not_lost(plant: Plant, state: Path) -> None:
    (plant.folder / "plant.state.feedback").write_bytes(b'{"act": "acce')
    reports: list[str] = []
    inbox = Queue(state, reports.append)
    inbox.enqueue(FeedbackRequest(FeedbackAct.reject, 2))
    inbox.dequeue(lambda each: each)
    assert [each.alarm for each in inbox.journal] == [2]
    assert len(reports) == 1


def test_feedback_before_checkpoints_is_kept(plant: Plant, state: Path, newnormal: Command) -> None:
    with Lock(state) as lock:
        assert lock.held
        done = newnormal("reject", state)
    assert done.returncode == 0
    assert not queue(state).empty


def test_feedback_names_the_alarm_or_change_and_the_sample_where_the_watch_is(
    plant: Plant, state: Path, newnormal: Command
) -> None:
    with Lock(state) as lock:
        lock.write(WatchProgress(123, 4, "stream", "sample 120", None, (2,), 4))
        assert newnormal("reject", state).returncode == 0
        assert newnormal("accept", state, "--change", 2).returncode == 0
        assert newnormal("accept", state, "--alarm", 3).returncode == 0, "it is over"
        assert newnormal("accept", state, "--alarm", 5).stderr == (
            "error: expected an alarm up to number 4, found alarm 5\n"
            "hint: alarms so far: 1 to 4; leave the number out to mean the newest that is open\n"
        )
        assert newnormal("reject", state, "--change", 1).stderr == (
            "error: expected an open change to reject, which is 2, found change 1\n"
            "hint: `newnormal undo` (undo()) undoes the newest acceptance\n"
        )
        lock.write(WatchProgress(130, None, "stream", "sample 90", 7, (2, 7), 4))
        assert newnormal("accept", state).returncode == 0
        lock.write(WatchProgress(150, None, "stream", None, None, (), 4))
        assert newnormal("accept", state).stderr == (
            "error: expected an open change or alarm to accept, found none\n"
            "hint: name an alarm that is over, such as --alarm 4 (alarm=4); `newnormal undo` "
            "(undo()) undoes the newest acceptance\n"
        )
        assert newnormal("undo", state).returncode == 0
    inbox = queue(state)
    inbox.dequeue(lambda each: each)
    assert [
        (each.act, each.alarm, each.change, each.sample, each.start) for each in inbox.journal
    ] == [
        (FeedbackAct.reject, 4, None, 123, "sample 120"),
        (FeedbackAct.accept, None, 2, 123, None),
        (FeedbackAct.accept, 3, None, 123, None),
        (FeedbackAct.accept, None, 7, 130, "sample 90"),
        (FeedbackAct.undo, None, None, 150, None),
    ]
    assert {each.stream for each in inbox.journal} == {"stream"}


def test_without_progress_a_change_that_the_checkpoint_shows_as_over_is_refused(
    plant: Plant, pending: Path, newnormal: Command
) -> None:
    newnormal("accept", pending)
    plant.write([*plant.lines[: CHANGE + 101], *lines(1_900 + CHANGE, 60, 19.0)])
    watched(plant, newnormal)
    assert [each["number"] for each in facts(newnormal, pending)["open_changes"]] == [2]
    with Lock(pending):
        done = newnormal("accept", pending, "--change", 1)
        assert "expected an open change to accept, which is 2, found change 1" in done.stderr
        assert newnormal("accept", pending, "--change", 3).returncode == 0, "may be open"
        assert newnormal("accept", pending).returncode == 0
    inbox = queue(pending)
    inbox.dequeue(lambda each: each)
    assert [each.change for each in inbox.journal] == [3, 2]


def test_a_past_alarm_is_accepted_by_number(plant: Plant, state: Path, newnormal: Command) -> None:
    spike = lines(1_500 + CHANGE - 1, 1, 4.0)
    plant.write([*plant.lines[:CHANGE], *spike, *lines(1_500 + CHANGE, 100)])
    printed = watched(plant, newnormal).splitlines()
    events = [json.loads(line) for line in printed]
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


def test_an_alarm_never_opened_is_refused(plant: Plant, pending: Path, newnormal: Command) -> None:
    """Also beside a running watch, before that has written how far it is, and after a kill."""
    seen = load(pending).counters["seen"]
    refused = newnormal("accept", pending, "--alarm", 99)
    assert (refused.returncode, "found 99" in refused.stderr) == (1, True)
    with Lock(pending) as lock:
        for progress in (None, WatchProgress(seen + 50, 1, "s", None, None, (1,), 1)):
            if progress is not None:
                lock.write(progress)
            refused = newnormal("accept", pending, "--alarm", 99, status=1)
            assert "expected an alarm up to number 1, found alarm 99" in refused.stderr
            assert "hint: alarms so far: 1 to 1; leave the number out" in refused.stderr
        lock.keep = True
    killed = newnormal("accept", pending, "--alarm", 99, status=1)
    assert "expected an alarm up to number 1, found alarm 99" in killed.stderr
    assert queue(pending).empty


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


def test_a_waiting_watch_applies_feedback(plant: Plant, state: Path, newnormal: Command) -> None:
    cut(plant, CHANGE + 100)
    watch = Running(
        *("watch", plant.model, plant.live, "--state", state, "--alarms-only", "--follow")
    )
    assert kinds(watch.read(2)) == ["opened", "changed"]
    deadline = time.monotonic() + 60
    while newnormal("reject", state, "--change", 1).returncode:  # not known yet
        assert time.monotonic() < deadline
    while kinds(watch.read(1)) != ["rejected"]:
        pass
    assert f"feedback: {REJECTED}" in watch.end(signal.SIGTERM).stderr
    assert queue(state).empty


def test_feedback_after_a_kill_waits(plant: Plant, pending: Path, newnormal: Command) -> None:
    source = FileSource(str(plant.live), SourceOptions(("a", "b")))
    stream = stream_of(load(pending), source)
    source.close()
    with Lock(pending) as lock:  # a watch that was killed 50 samples after its checkpoint
        lock.write(WatchProgress(CHANGE + 150, None, stream, None, 1, (1,), 1))
        lock.keep = True
    assert newnormal("accept", pending).stderr == (
        f"the last `newnormal watch` of {pending} was killed at sample {CHANGE + 150}: "
        "this is applied when the next one has reached that sample again\n"
    )
    done = newnormal("accept", pending, "--change", 2)
    assert "expected an open change to accept, which is 1, found change 2" in done.stderr
    cut(plant, CHANGE + 120)
    done = newnormal("watch", plant.model, plant.live, "--state", pending, "--alarms-only")
    assert f"feedback waits for sample {CHANGE + 150}, where it was given\n" in done.stderr
    done = newnormal("undo", pending)
    assert "is applied when the next one has reached that sample again" in done.stderr
    cut(plant, CHANGE + 200)
    done = newnormal("watch", plant.model, plant.live, "--state", pending, "--alarms-only")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    accepted = next(event for event in events if event["event"] == "accepted")
    assert accepted["change"]["number"] == 1
    assert accepted["sample"] in range(CHANGE + 144, CHANGE + 150)  # the newest judged
    reports = [line for line in done.stderr.splitlines() if line.startswith("feedback: ")]
    assert [line.split(" ")[1] for line in reports] == ["change", "undone:"]
    assert queue(pending).empty
    assert not (plant.folder / ".plant.state.lock").exists()


def test_feedback_for_others_is_refused(plant: Plant, pending: Path, newnormal: Command) -> None:
    queue(pending).enqueue(FeedbackRequest(FeedbackAct.accept, 1, 5_000, "another"))
    cut(plant, CHANGE + 110)
    done = newnormal("watch", plant.model, plant.live, "--state", pending)
    assert (
        "feedback not applied: accept of alarm 1 was given at sample 5000 "
        "of another input or another fit\n"
    ) in done.stderr
    assert queue(pending).empty


def test_feedback_comes_before_arrivals(plant: Plant, pending: Path, newnormal: Command) -> None:
    queue(pending).enqueue(FeedbackRequest(FeedbackAct.accept, None))
    # By the end of what arrives, the alarm that was meant would be over, and another open.
    later = plant.lines[: CHANGE + 101] + lines(1_500 + CHANGE + 100, 400, 0.0)
    plant.write(later + lines(1_900 + CHANGE + 100, 50, 9.0))
    done = newnormal("watch", plant.model, plant.live, "--state", pending, "--alarms-only")
    assert f"feedback: {ACCEPTED}" in done.stderr


def test_newer_feedback_comes_after_older(plant: Plant, pending: Path, newnormal: Command) -> None:
    queue(pending).enqueue(FeedbackRequest(FeedbackAct.accept, None))
    assert newnormal("undo", pending).stderr.splitlines() == [f"feedback: {ACCEPTED}", ROLLED_BACK]
    assert queue(pending).empty


def test_feedback_that_a_killed_watch_applied_is_not_applied_by_the_next_command(
    plant: Plant, pending: Path, newnormal: Command
) -> None:
    left = FeedbackRequest(FeedbackAct.accept, None)
    queue(pending).enqueue(left)
    watched(cut(plant, CHANGE + 110), newnormal)
    queue(pending).enqueue(left)  # it was killed between its checkpoint and removing the feedback
    assert newnormal("undo", pending).stderr.startswith("undone")


def test_a_disk_without_locks_does_not_hang(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(handle: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    with Lock(plant.folder / "plant.state") as lock:
        assert lock.held


def test_link_to_a_state_file_stays_a_link(plant: Plant, pending: Path, newnormal: Command) -> None:
    link = plant.folder / "link.state"
    link.symlink_to(pending)
    newnormal("reject", link)
    assert link.is_symlink()
    assert [change.state for change in load(pending).changes_] == ["rejected"]


def test_feedback_on_another_is_refused(plant: Plant, pending: Path, newnormal: Command) -> None:
    """An input that does not come again after a kill may open another one of that number."""
    detector = load(pending)
    change = present(detector.change_)
    for kind in ("alarm", "change"):
        other = replace(FeedbackRequest(FeedbackAct.accept, start="sample 7"), **{kind: 1})  # type: ignore[arg-type]
        assert str(raised(FeedbackError, apply, detector, other)) == (
            f"expected {kind} 1, which began at sample 7, found one that began at "
            f"{start_of(change)}\n"
            "hint: the input has changed since: `newnormal inspect` shows what is open now"
        )
    same = FeedbackRequest(FeedbackAct.accept, change=1, start=start_of(change))
    assert apply(detector, same) == ACCEPTED


def test_open_alarms_precede_rejected_ones(plant: Plant, pending: Path, newnormal: Command) -> None:
    """What was rejected weeks ago is not accepted by mistake when something else happens."""
    assert newnormal("reject", pending).returncode == 0
    plant.write([*plant.lines[: CHANGE + 400], *lines(1_900 + CHANGE, 5, 40.0)])
    watched(plant, newnormal)
    alarm = present(load(pending).alarm_)
    assert newnormal("accept", pending).stderr.startswith(f"alarm {alarm.number} accepted")
