"""`newnormal demo`: a table in the operator's words, what is reported, and the page."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from newnormal import Detector, Event, datasets
from newnormal.alarms.words import Deciding, event_note
from newnormal.cli import demo as command
from newnormal.cli.demo import FROZEN, OURS, story
from newnormal.io.sinks.base import SinkOptions
from newnormal.io.sinks.text import TextSink
from newnormal.metrics import trace_alarms
from newnormal.runtime.judging import judge_series
from newnormal.tabular import Table

DATA = datasets.plant()


class Demo(NamedTuple):
    """What a run of the command leaves."""

    out: str
    err: str
    page: Path


@pytest.fixture
def demo(
    without: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Demo:
    """Run it after a plain install, in a terminal of the usual width."""
    without("sklearn", "scipy", "matplotlib", "pandas", "polars")
    monkeypatch.setenv("COLUMNS", "80")
    command.demo(seed=0, output=tmp_path / "demo.html")
    return Demo(*capsys.readouterr(), tmp_path / "demo.html")


@pytest.fixture(scope="module")
def events() -> list[Event]:
    """What `Detector()` reports of the same plant."""
    assert DATA.train_times is not None and DATA.test_times is not None
    history = Table(DATA.train, DATA.channels, DATA.train_times.astype("M8[ns]"))
    live = Table(DATA.test, DATA.channels, DATA.test_times.astype("M8[ns]"))
    return judge_series(Detector(seed=0).fit(history), live).events


def test_after_a_plain_install_there_are_a_table_the_words_of_watch_and_a_page(
    demo: Demo, events: list[Event], tmp_path: Path
) -> None:
    counts = trace_alarms(events, len(DATA.test)).count(DATA.labels)
    (row,) = [line for line in demo.out.splitlines() if line.startswith(f"{OURS}  ")]
    assert re.split(r" {2,}", row)[1:3] == [
        f"{counts.found} of {counts.events}",
        f"{counts.false_per_day:.1f}",
    ]
    assert "…" not in demo.out
    assert max(map(len, demo.out.splitlines())) <= 80
    sink = TextSink(str(tmp_path / "watch.txt"), SinkOptions(alarms_only=True))
    sink.deciding = Deciding(accept_after="24 h")
    sink.write_events(list(story(events)))
    sink.close()
    words = (tmp_path / "watch.txt").read_text().split()  # a file has no width
    assert " ".join(words) in " ".join(demo.out.split())
    assert "a generated plant judged by Detector()" in demo.page.read_text(encoding="utf-8")
    opened = sum(event.kind == "opened" for event in events)
    assert f"wrote {demo.page}: {opened} alarms, " in demo.err


def test_the_untuned_detector_finds_what_the_frozen_one_drowns(demo: Demo) -> None:
    def figures(name: str) -> list[float]:
        (row,) = [line for line in demo.out.splitlines() if line.startswith(f"{name}  ")]
        found, _, _, in_alarm, _ = re.split(r" {2,}", row)[1:]
        return [float(found.split()[0]), float(in_alarm.split()[0])]

    frozen, ours = figures(FROZEN), figures(OURS)
    assert ours[0] > 40 > 10 > frozen[0]
    assert ours[1] < 10 < 80 < frozen[1]


def test_the_story_is_the_first_alarm_and_what_became_normal_with_its_alarm(
    events: list[Event],
) -> None:
    told = list(story(events))
    accepted = [event.change for event in events if event.change and event.kind == "accepted"]
    numbers = {event.alarm.number for event in told if event.alarm is not None}
    assert accepted and numbers == {1, *(change.alarm for change in accepted)}
    changes = {event.change.number for event in told if event.change is not None}
    assert changes == {change.number for change in accepted}
    assert [event.sample for event in told] == sorted(event.sample for event in told)
    assert event_note(told[-1]).text == "it is normal from now on"
    assert list(story([])) == []


def test_a_wrong_target_is_an_error_before_anything_is_computed(tmp_path: Path) -> None:
    from newnormal.errors import NewnormalError

    with pytest.raises(NewnormalError, match="html"):
        command.demo(seed=0, output=tmp_path / "demo.png")
