"""Feedback to a stream of a fleet: at once, by a running watch, or after a kill."""

import json
import shutil
import signal

import pytest

from newnormal import Fleet
from newnormal.runtime.feedback import FeedbackAct, FeedbackRequest, Queue
from tests.cli.conftest import Command, Running
from tests.cli.fleets import Site

IN_FAULT = 4 * 65  # lines: in the middle of the fault


@pytest.fixture
def alarmed(site: Site, newnormal: Command) -> Site:
    """A site whose streams are in alarm."""
    site.write(site.lines[:IN_FAULT])
    newnormal("watch", site.fleet, site.live, "--by", "host")
    return site


def test_feedback_is_applied_at_once_where_no_watch_runs(alarmed: Site, newnormal: Command) -> None:
    done = newnormal("accept", alarmed.fleet, "web-1")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ("web-1: alarm 1 accepted: samples like these are normal from now on\n")
    assert set(Fleet.load(alarmed.fleet).alarms_) == {"web-2", "web-3", "db"}
    again = newnormal("accept", alarmed.fleet, "web-1")
    assert again.returncode == 1
    assert "error: expected an open change or alarm to accept, found none" in again.stderr


def test_feedback_needs_a_stream_of_the_fleet(alarmed: Site, newnormal: Command) -> None:
    done = newnormal("accept", alarmed.fleet)
    assert done.returncode == 1
    assert done.stderr == (
        f"error: {alarmed.fleet} is a fleet: expected a stream after it, found none\n"
        f"hint: newnormal accept {alarmed.fleet} STREAM\n"
    )
    done = newnormal("accept", alarmed.fleet, "web-9")
    assert "error: expected one of the 4 streams of this fleet, found 'web-9'" in done.stderr
    model = alarmed.folder / "db.nn"
    newnormal("fleet", "extract", alarmed.fleet, "db", "-o", model)
    done = newnormal("accept", model, "db")
    assert "error: expected no stream with a detector of one stream, found db" in done.stderr
    assert newnormal("accept", alarmed.fleet, "db", "web-1").returncode == 2


def test_feedback_that_waits_comes_before_new_samples(alarmed: Site, newnormal: Command) -> None:
    Queue(alarmed.fleet, print).enqueue(FeedbackRequest(FeedbackAct.accept, stream="web-2"))
    Queue(alarmed.fleet, print).enqueue(FeedbackRequest(FeedbackAct.accept, stream="web-9"))
    assert "waits for `newnormal watch`" in newnormal("inspect", alarmed.fleet).stdout
    alarmed.write(alarmed.lines)
    done = newnormal("watch", alarmed.fleet, alarmed.live, "--by", "host", "--alarms-only")
    assert "feedback: web-2: alarm 1 accepted" in done.stderr
    assert "feedback not applied: web-9: expected one of the 4 streams" in done.stderr
    first = json.loads(done.stdout.splitlines()[0])
    assert (first["stream"], first["event"], first["sample"]) == ("web-2", "closed", 64)
    assert Queue(alarmed.fleet, print).empty


def test_a_running_watch_applies_feedback_once_in_all(alarmed: Site, newnormal: Command) -> None:
    twin = alarmed.folder / "twin.fleet"
    shutil.copytree(alarmed.fleet, twin)
    watch = Running(
        *("watch", alarmed.fleet, alarmed.live, "--by", "host", "--follow", "--alarms-only")
    )
    resuming, watching = watch.messages(2)
    assert "resuming" in resuming
    assert "watching" in watching
    done = newnormal("reject", alarmed.fleet, "web-1")
    assert done.stderr == (
        f"{alarmed.fleet} is in use by `newnormal watch`: applied there before the next samples\n"
    )
    assert "feedback: web-1: alarm 1 rejected" in watch.messages(1)[0]
    newnormal("accept", alarmed.fleet, "web-2")
    assert "feedback: web-2: alarm 1 accepted" in watch.messages(1)[0]
    event = json.loads(watch.read(1)[0])
    assert (event["stream"], event["event"]) == ("web-2", "closed")
    watch.end(signal.SIGKILL)
    left = newnormal("accept", alarmed.fleet, "web-3")
    assert "was killed: applied when the next starts" in left.stderr
    alarmed.write(alarmed.lines)
    after = newnormal("watch", alarmed.fleet, alarmed.live, "--by", "host", "--alarms-only")
    assert "web-1" not in after.stderr
    assert "feedback: web-3: alarm 1 accepted" in after.stderr
    events = [json.loads(line) for line in after.stdout.splitlines()]
    repeated = [each for each in events if (each.get("alarm") or {}).get("reason") == "accepted"]
    assert [each["stream"] for each in repeated] == ["web-2", "web-3"]
    assert repeated[0] == event, "the event of the last feedback comes again"
    for stream, act in (("web-1", "reject"), ("web-2", "accept"), ("web-3", "accept")):
        newnormal(act, twin, stream)
    newnormal("watch", twin, alarmed.live, "--by", "host")
    found, expected = Fleet.load(alarmed.fleet), Fleet.load(twin)
    for stream in found:
        one, other = found[stream].to_state().tensors, expected[stream].to_state().tensors
        assert all((one[name].tobytes() == other[name].tobytes()) for name in one)
