"""A watch killed at each point between a decision and a checkpoint: nothing is lost or repeated."""

import json
from pathlib import Path

import pytest

from newnormal import Fleet
from newnormal.engine.folder import look
from tests.cli.conftest import CHANGE, Plant, cut
from tests.cli.fleets import HOSTS, Site
from tests.cli.kills import POINTS
from tests.fleet_story import assert_same_state
from tests.processes import python


def check_kills(folder: Path, report: str, order: dict[str, object]) -> None:
    """Run `kills.py`, and compare what processes that were killed printed with one that was not."""
    folder.mkdir()
    given = {"folder": str(folder), "points": POINTS, **order}
    done = python(Path(__file__).with_name("kills.py"), json.dumps(given))
    assert done.returncode == 0, done.stderr
    expected = (folder / "none" / "first.out").read_text()
    assert (folder / "none" / "first.err").read_text().count(report) == 1
    whole = Fleet.load(folder / "none" / "state")
    for point in POINTS:
        here = folder / point
        first, second = ((here / name).read_text() for name in ("first.out", "second.out"))
        messages = (here / "second.err").read_text()
        assert "Traceback" not in messages, (point, messages)
        assert expected.startswith(first), point
        assert expected.endswith(second), point
        assert len(first) + len(second) >= len(expected), point
        assert look(here / "state").waiting == 0
        found = Fleet.load(here / "state")
        assert found.incidents_ == whole.incidents_
        for name in whole:
            assert_same_state(found[name], whole[name])


@pytest.mark.parametrize(
    ("pipe", "verb", "options"),
    [(False, "accept", []), (True, "reject", ["--alarms-only"])],
    ids=["file", "pipe"],
)
def test_kills_of_a_watch_of_one_stream_change_no_byte(
    moved: Plant, pipe: bool, verb: str, options: list[str]
) -> None:
    cut(moved, CHANGE + 150)
    order = {
        "watch": ["watch", str(moved.model), *options],
        "live": str(moved.live),
        "pipe": pipe,
        "decision": {"stream": "", "verb": verb, "alarm": None, "change": 1},
        "at": CHANGE + 100,
    }
    check_kills(moved.folder / "killed", f"feedback: change 1 {verb}ed", order)


@pytest.mark.parametrize("pipe", [False, True], ids=["file", "pipe"])
def test_kills_of_a_watch_of_a_fleet_change_no_byte(site: Site, pipe: bool) -> None:
    site.write(site.lines[: 80 * len(HOSTS)])
    order = {
        "watch": ["watch", str(site.fleet), "--by", "host"],
        "live": str(site.live),
        "pipe": pipe,
        "decision": {"stream": "web-1", "verb": "accept", "alarm": 1, "change": None},
        "at": 66 * len(HOSTS),
    }
    check_kills(site.folder / "killed", "feedback: web-1: alarm 1 accepted", order)
