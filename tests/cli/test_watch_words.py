"""`newnormal watch --format text`: alarms in words, on a terminal, in a pipe and in a file."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from newnormal.cli.watch import _in_words
from tests.cli.conftest import CHANGE, Command, Plant, cut
from tests.cli.fleets import HOSTS, Site

if os.name == "nt":
    pytest.skip("there are no such terminals", allow_module_level=True)

from tests.cli.terminals import on_terminal, on_terminal_that_closes, plain

CHANGED = CHANGE + 60  # samples until which the change is known
# --format, --sink and --output, where they are given
FORMS = (
    *((None, None, None), ("text", None, None), ("json", None, None)),
    *((None, "jsonl", None), (None, None, "-")),
)


def events_of(newnormal: Command, *arguments: object) -> list[dict[str, object]]:
    done = newnormal("watch", *arguments, "--alarms-only", "--format", "json")
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_text_is_what_happened_to_alarms_and_changes(newnormal: Command, moved: Plant) -> None:
    events = events_of(newnormal, moved.model, moved.live)
    done = newnormal("watch", moved.model, moved.live, "--format", "text", status=0)
    headings = [line for line in done.stdout.splitlines() if not line.startswith(" ")]
    assert len(headings) == len(events)
    assert [line[:19].replace(" ", "T") for line in headings] == [e["time"] for e in events]
    assert "ALARM 1 opened: " in headings[0]
    assert (
        "It becomes normal by itself once it has been stable for 3.3 h. To decide, start watch "
        "with --state." in " ".join(done.stdout.split())
    )
    assert "newnormal accept" not in done.stdout
    assert "\x1b" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) > 80  # no sentence is broken
    assert "alarm" in done.stderr.splitlines()[-1]


def test_alarms_only_changes_nothing_in_text(newnormal: Command, moved: Plant) -> None:
    arguments = ("watch", moved.model, moved.live, "--format", "text")
    assert newnormal(*arguments, "--alarms-only").stdout == newnormal(*arguments).stdout


def test_a_change_names_commands_that_decide_and_work(newnormal: Command, moved: Plant) -> None:
    cut(moved, CHANGED)
    state = moved.folder / "my plant.state"
    done = newnormal("watch", moved.model, moved.live, "--state", state, "--format", "text")
    accept, reject = re.findall(r"newnormal (\w+) '(.*)' --change (\d+)", done.stdout)
    assert (accept, reject) == (("accept", str(state), "1"), ("reject", str(state), "1"))
    for arguments in (("accept", state, "--change", 1), ("undo", state)) * 2:
        newnormal(*arguments, status=0)  # what is undone is open again
    newnormal("accept", state, "--change", 1, status=0)
    newnormal("accept", state, "--change", 1, status=1)


def test_text_goes_to_a_file(newnormal: Command, moved: Plant) -> None:
    expected = newnormal("watch", moved.model, moved.live, "--format", "text").stdout
    target = moved.folder / "alarms.txt"
    done = newnormal("watch", moved.model, moved.live, "--format", "text", "-o", target)
    assert (done.stdout, target.read_text()) == ("", expected)


def test_what_format_may_be(newnormal: Command, plant: Plant) -> None:
    cut(plant, 40)
    expected = newnormal("watch", plant.model, plant.live).stdout
    assert json.loads(expected.splitlines()[0])["sample"] == 0
    for more in (("--format", "json"), ("--input-format", "csv", "--format", "json")):
        assert newnormal("watch", plant.model, plant.live, *more).stdout == expected, more
    for word in ("xml", "csv"):  # nor the format of the input
        wrong = newnormal("watch", plant.model, plant.live, "--format", word, status=2)
        assert f"'{word}' is not one of 'text', 'json'" in wrong.stderr
    wrong = newnormal("watch", plant.model, plant.live, "--format", "text", "--sink", "jsonl")
    assert wrong.returncode == 1
    assert wrong.stderr.startswith("error: --format text: expected no --sink, found jsonl\nhint: ")
    wrong = newnormal("watch", plant.model, plant.live, "--input-format", "jsonl")
    assert "error" in wrong.stderr  # CSV read as JSON lines


def test_a_fleet_names_its_streams_first(newnormal: Command, site: Site) -> None:
    events = events_of(newnormal, site.fleet, site.live, "--by", "host")
    done = newnormal("watch", site.fleet, site.live, "--by", "host", "--format", "text", status=0)
    headings = re.findall(r"^.{5}  2026-.*", done.stdout, re.MULTILINE)
    assert len(headings) == len(events)
    assert [line[28:38] for line in headings if line.startswith(" ")] == [
        "INCIDENT 1",
        "incident 1",
    ]
    times = [line[7:26] for line in headings]
    assert times == sorted(times)  # an incident is not after all else that a file holds
    width = max(map(len, HOSTS))
    own = [event for event in events if event["stream"] is not None]
    streams = [line for line in headings if not line.startswith(" ")]
    for line, event in zip(streams, own, strict=True):
        assert line.startswith(f"{event['stream']:{width}}  {str(event['time'])[:10]} ")


def test_a_terminal_gets_text_in_colour_and_nothing_of_how_far_it_is(
    newnormal: Command, moved: Plant
) -> None:
    expected = newnormal("watch", moved.model, moved.live, "--format", "text").stdout
    done = on_terminal("watch", moved.model, moved.live)
    assert done.returncode == 0
    assert "\x1b[1;31mALARM 1 opened\x1b[0m" in done.stdout
    lines = plain(done.stdout).splitlines()
    assert lines[0].startswith("watching ")
    assert lines[-1].startswith("judged 1,800 samples")
    assert " ".join(lines[1:-1]).split() == expected.split()
    assert "open, 1,800 samples, last " in done.stdout
    assert "samples, last" not in plain(done.stdout)
    assert "\r\x1b[Kjudged 1,800 samples, " in done.stdout
    dumb = on_terminal("watch", moved.model, moved.live, environment={"TERM": "dumb"})
    assert "\x1b" not in dumb.stdout
    assert dumb.stdout == plain(done.stdout)
    quiet = on_terminal("watch", moved.model, moved.live, "-q").stdout
    assert "judged" not in quiet
    assert "\r" not in quiet


def test_a_terminal_gets_json_where_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = [_in_words(*given) for given in FORMS]
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert [_in_words(*given) for given in FORMS] == [True, True, False, False, False]
    assert pipe == [False, True, False, False, False]


def test_messages_make_room_for_themselves(moved: Plant) -> None:
    text = moved.live.read_text().splitlines()
    moved.write([*text[:1200], "nonsense", *text[1200:]])
    arguments = moved.watch
    done = on_terminal(*arguments)
    assert "\nline 1201: expected 3 cells, found 1; skipped\n" in plain(done.stdout)
    shutil.rmtree(moved.state)
    apart = on_terminal(*arguments, stderr=subprocess.PIPE)
    assert "line 1201: expected 3 cells" in apart.stderr
    assert "\x1b" not in apart.stderr


def test_no_color_and_the_width_of_the_terminal_are_respected(moved: Plant) -> None:
    done = on_terminal("watch", moved.model, moved.live, width=60, environment={"NO_COLOR": "1"})
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", done.stdout)
    lines = plain(done.stdout).splitlines()
    assert all(len(line) <= 60 for line in lines[1:-1] if "newnormal " not in line)
    wide = plain(on_terminal("watch", moved.model, moved.live, width=200).stdout).splitlines()
    assert len(wide) < len(lines)


def test_a_fleet_on_a_terminal(site: Site, newnormal: Command) -> None:
    arguments = ("watch", site.fleet, site.live, "--by", "host")
    expected = newnormal(*arguments, "--format", "text").stdout
    done = on_terminal(*arguments, "-q")
    assert done.returncode == 0
    assert plain(done.stdout).split() == expected.split()


def test_a_terminal_that_is_gone_is_an_error_not_a_loss(moved: Plant, newnormal: Command) -> None:
    expected = newnormal("watch", moved.model, moved.live, "--format", "text").stdout
    arguments = (*moved.watch, "--format", "text")
    done = on_terminal_that_closes(*arguments, ignore_hangup=True)
    assert done.returncode == 1
    assert "error: cannot write to standard output: " in done.stderr
    assert "Traceback" not in done.stderr
    assert len(newnormal(*arguments).stdout.splitlines()) >= len(expected.splitlines())


def test_text_of_a_watch_that_resumes_goes_on(newnormal: Command, moved: Plant) -> None:
    arguments = (*moved.watch, "--format", "text")
    whole = newnormal(*arguments).stdout
    shutil.rmtree(moved.state)
    text = Path(moved.live).read_text()
    cut(moved, CHANGED)
    first = newnormal(*arguments).stdout
    moved.live.write_text(text)
    assert first + newnormal(*arguments).stdout == whole
