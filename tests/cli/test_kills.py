"""A watch killed at every point between feedback and checkpoint: nothing is lost or repeated."""

import json
from pathlib import Path

import pytest

from newnormal import state
from tests.cli.conftest import CHANGE, Plant, cut
from tests.cli.kills import POINTS
from tests.processes import python

AT = CHANGE + 100
EVERY = 250  # checkpoints at 250, 500, ...: the one before the feedback is 150 samples older


@pytest.fixture
def plant(moved: Plant) -> Plant:
    return moved


def killed(
    plant: Plant, pipe: bool, act: str, *options: str, points: tuple[str, ...] = POINTS[:-1]
) -> Path:
    """Run `kills.py`, and return the folder with what each process printed."""
    folder = plant.folder / "killed"
    folder.mkdir()
    order = {
        "model": str(plant.model),
        "live": str(plant.live),
        "folder": str(folder),
        "pipe": pipe,
        "act": act,
        "at": AT,
        "options": ["--every", str(EVERY), *options],
        "points": points,
    }
    done = python(Path(__file__).with_name("kills.py"), json.dumps(order))
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize(
    ("pipe", "act", "options"),
    [
        (False, "accept", ()),
        (False, "reject", ("--alarms-only",)),
        (True, "accept", ("--alarms-only",)),
        (True, "reject", ()),
    ],
    ids=["file-accept", "file-reject", "pipe-accept", "pipe-reject"],
)
def test_kill_between_feedback_and_checkpoint_changes_no_byte_of_the_output(
    plant: Plant, pipe: bool, act: str, options: tuple[str, ...]
) -> None:
    folder = killed(cut(plant, CHANGE + 400), pipe, act, *options)
    expected = (folder / "none" / "first.out").read_text()
    report = f"feedback: change 1 {act}ed"
    assert (folder / "none" / "first.err").read_text().count(report) == 1
    for point in POINTS[1:-1]:
        here = folder / point.replace(" ", "-")
        first, second = ((here / name).read_text() for name in ("first.out", "second.out"))
        said = (here / "second.err").read_text()
        assert "Traceback" not in said, (point, said)
        assert expected.startswith(first), point
        assert expected.endswith(second), point
        assert len(first) + len(second) >= len(expected), point
        applied = report in (here / "first.err").read_text(), report in said
        again = point not in ("before the journal is removed", "after the journal is removed")
        assert applied[1] == again, (point, said)
        left = {path.name for path in here.iterdir()}
        if not hasattr(state, "remove_stale"):
            left = {name for name in left if not name.endswith(".tmp")}
        assert left == {*("first.err", "first.out", "plant.state", "second.err", "second.out")}, (
            point
        )


@pytest.mark.parametrize("pipe", [False, True], ids=["file", "pipe"])
def test_feedback_no_watch_dequeued_is_applied_at_the_kill(plant: Plant, pipe: bool) -> None:
    folder = killed(cut(plant, CHANGE + 400), pipe, "reject", points=POINTS[-1:])
    folder /= POINTS[-1].replace(" ", "-")
    first, second = ((folder / name).read_text() for name in ("first.out", "second.out"))
    assert "feedback: change 1 rejected" in (folder / "second.err").read_text()
    again = second.splitlines(keepends=True)
    start = json.loads(again[0])["sample"]
    printed = first.splitlines(keepends=True)[start:]
    assert len(printed) > 10, "what came since the last event, before the kill, comes again"
    assert again[: len(printed)] == printed
    assert {json.loads(line)["change"] for line in again[len(printed) :]} == {1}
