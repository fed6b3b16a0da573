"""`newnormal alarms`: what is open and what was, in words and for programs."""

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import CHANGE, Command, Plant, cut
from tests.cli.fleets import Site

PENDING = CHANGE + 130  # samples after which the alarm is over and the change waits


def watched(plant: Plant, newnormal: Command) -> Path:
    assert newnormal(*plant.watch).returncode == 0
    return plant.state


@pytest.fixture
def pending(moved: Plant, newnormal: Command) -> Path:
    """A state in which a change is pending, and an alarm is over."""
    return watched(cut(moved, PENDING), newnormal)


def test_open_ones_come_first_with_their_commands(pending: Path, newnormal: Command) -> None:
    text = newnormal("alarms", pending, status=0).stdout
    assert text.startswith(f"{pending}\nwritten ")
    assert ": change pending\n\n1 change open\n2026-01-02 06:00:00  CHANGE 1 pending: " in text
    assert "CHANGE 1 pending: b and a moved 2.1 h ago, with alarm 1\n" in text
    assert re.search(r"\n    a +from -?0\.\d+ to [45]\.\d+\n", text)
    assert f"    if normal   newnormal accept {pending} --change 1\n" in text
    assert f"    if a fault  newnormal reject {pending} --change 1\n" in text
    opened, past = text.split(" past\n")
    assert opened.endswith("\n\n1 alarm")
    assert past.startswith("2026-01-02 06:00:00  alarm 1: b unusual for ")
    assert "; back to normal\n    b  5.92, expected " in past
    assert "An alarm that is over" not in past  # it is decided about with its change


def test_every_command_that_is_shown_works(pending: Path, newnormal: Command) -> None:
    text = newnormal("alarms", pending).stdout
    commands = re.findall(r"newnormal ((?:accept|reject) .*)", text)
    assert len(commands) == 2
    for command in commands:
        copy = pending.with_name(f"{shlex.split(command)[0]}.state")
        shutil.copytree(pending, copy)
        newnormal(*shlex.split(command.replace(str(pending), str(copy))), status=0)
    rejected = newnormal("alarms", pending.with_name("reject.state")).stdout
    assert "CHANGE 1 rejected: " in rejected
    assert "    It is a fault until the stream is back; nothing is learned meanwhile.\n" in rejected
    assert len(re.findall("newnormal accept|newnormal reject", rejected)) == 1


def test_an_open_alarm_is_decided_with_its_change(moved: Plant, newnormal: Command) -> None:
    text = newnormal("alarms", watched(cut(moved, CHANGE + 60), newnormal)).stdout
    assert "ALARM 1 open" in text and "CHANGE 1 pending" in text
    assert re.findall(r"newnormal (\w+) \S+ (--\w+)", text) == [
        *(("accept", "--change"), ("reject", "--change"))
    ]


def test_where_nothing_is_to_accept_no_command_is(plant: Plant, newnormal: Command) -> None:
    newnormal(*plant.watch, "--alarms-only")
    for more in ((), (1,)):
        text = newnormal("alarms", plant.state, *more).stdout
        assert "alarm 1: " in newnormal("alarms", plant.state, "-n", 100).stdout
        assert "newnormal accept" not in text


def test_an_alarm_that_is_over_can_be_accepted(moved: Plant, newnormal: Command) -> None:
    state = watched(moved, newnormal)
    *_, line, command = newnormal("alarms", state).stdout.splitlines()
    assert line == "An alarm that is over can be accepted as normal, too (3, 2):"
    assert command == f"    newnormal accept {state} --alarm 3"
    assert command.strip() in newnormal("alarms", state, 3).stdout
    assert newnormal(*shlex.split(command)[1:]).returncode == 0
    assert "newnormal accept" not in newnormal("alarms", state, 1).stdout  # its change was accepted


def test_what_became_of_a_change_is_shown(moved: Plant, newnormal: Command) -> None:
    text = newnormal("alarms", watched(moved, newnormal)).stdout
    assert "nothing is open" in text
    assert "change 1: b and a moved, with alarm 1; it became normal\n" in text


def test_how_many_are_listed(plant: Plant, newnormal: Command) -> None:
    newnormal(*plant.watch, "--alarms-only")
    found = json.loads(newnormal("alarms", plant.state, "--json").stdout)
    count = len(found["past_alarms"])
    assert count > 2
    text = newnormal("alarms", plant.state, "-n", 2).stdout
    assert len(re.findall(r"  alarm \d+: ", text)) == 2
    assert f"\n{count - 2} more: --last {count}\n" in text
    numbers = [each["number"] for each in found["past_alarms"]]
    assert numbers == sorted(numbers, reverse=True)
    few = json.loads(newnormal("alarms", plant.state, "--json", "--last", 1).stdout)
    assert [each["number"] for each in few["past_alarms"]] == numbers[:1]
    assert "past" not in newnormal("alarms", plant.state, "--open").stdout
    some = json.loads(newnormal("alarms", plant.state, "--json", "--open").stdout)
    assert some["past_alarms"] == some["past_changes"] == []


def test_one_number_in_full(pending: Path, newnormal: Command) -> None:
    text = newnormal("alarms", pending, 1).stdout
    assert "CHANGE 1 pending" in text
    assert "\n    first sample        2026-01-02 06:00:00, sample 300\n" in text
    assert re.search(r"\n    score +\S+, \S+ times the threshold", text)
    assert "member" not in text  # it is no committee
    change, alarm = json.loads(newnormal("alarms", pending, 1, "--json").stdout)
    assert change["change"]["state"] == "pending"
    assert (alarm["alarm"]["number"], alarm["alarm"]["votes"]) == (1, {})
    assert newnormal("alarms", pending, 7, status=1).stderr == (
        f"error: {pending}: expected an alarm or a change of the last 100, 1 to 1, found 7\n"
        f"hint: newnormal alarms {pending}\n"
    )


def test_json_has_the_form_in_which_watch_prints_them(moved: Plant, newnormal: Command) -> None:
    cut(moved, PENDING)
    done = newnormal("watch", moved.model, moved.live, "--alarms-only")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    found = json.loads(newnormal("alarms", watched(moved, newnormal), "--json").stdout)
    assert set(found) == {
        *("written", "age_seconds", "process", "samples_since", "status", "samples_seen"),
        *("last_time", "open_alarms", "open_changes", "past_alarms", "past_changes"),
    }
    assert found["status"] == "change pending"
    assert found["past_alarms"] == [e["alarm"] for e in events if e["event"] == "closed"]
    (change,) = found["open_changes"]
    assert set(change) == set(next(e["change"] for e in events if e["event"] == "changed"))


@pytest.mark.parametrize("name", ["live.csv", "none.state"])
def test_other_files_are_refused_as_by_inspect(name: str, moved: Plant, newnormal: Command) -> None:
    listed, inspected = (newnormal(verb, moved.folder / name) for verb in ("alarms", "inspect"))
    assert listed.returncode == inspected.returncode == 1
    assert listed.stderr == inspected.stderr


def test_wrong_words_are_refused(pending: Path, newnormal: Command) -> None:
    for words in (("web-1",), ("1", "2")):
        assert newnormal("alarms", pending, *words, status=1).stderr == (
            f"error: {pending}: expected one NUMBER of an alarm or a change after it, "
            f"found {' '.join(words)}\nhint: newnormal alarms {pending}\n"
        )


def test_a_detector_that_has_seen_nothing(moved: Plant, newnormal: Command) -> None:
    text = newnormal("alarms", moved.model).stdout
    assert "\n0 samples: normal\n\nnothing is open\n\nnothing is past\n" in text


def test_a_fleet_lists_incidents_and_then_streams(site: Site, newnormal: Command) -> None:
    lines = [line for line in site.lines if line < "2026-01-01T09:25"]
    site.write(lines)
    newnormal(*site.watch)
    text = newnormal("alarms", site.state).stdout
    assert text.startswith(f"{site.state}\nwritten ")
    incidents, streams = text.split("\n4 of 4 streams with something open\n")
    assert (
        "\n1 incident open, 0 incidents past\n2026-01-01 09:20:00  INCIDENT 1 open: " in incidents
    )
    assert "web-1 alarm 1, web-2 alarm 1" in incidents
    headings = re.findall(r"^(\S+) +2026-01-01 09:20:00  ALARM 1 open: cpu high", streams, re.M)
    assert sorted(headings) == ["db", "web-1", "web-2", "web-3"]
    found = json.loads(newnormal("alarms", site.state, "--json").stdout)
    assert list(found["open_alarms"]) == headings
    ratios = [found["open_alarms"][name][0]["peak"]["ratio"] for name in headings]
    assert ratios == sorted(ratios, reverse=True)
    assert found["incidents"][0]["open"] is True
    few = newnormal("alarms", site.state, "-n", 1).stdout
    assert "\n3 more streams: --last 4\n" in few
    assert few.count("ALARM 1 open") == 1


def test_a_fleet_lists_what_is_past_in_all_of_its_streams(site: Site, newnormal: Command) -> None:
    newnormal(*site.watch)
    _, past = newnormal("alarms", site.state).stdout.split("\n4 alarms past, in 4 streams\n")
    names = re.findall(r"^(\S+) +2026-01-01 09:20:00  alarm 1: cpu high for ", past, re.M)
    assert sorted(names) == ["db", "web-1", "web-2", "web-3"]
    assert past.count("    cpu  ") == 4  # the evidence of each
    few = newnormal("alarms", site.state, "--last", 1).stdout
    assert few.count("alarm 1: cpu high") == 1
    assert "\n3 more: --last 4\n" in few
    only_open = newnormal("alarms", site.state, "--open").stdout
    assert "\n0 incidents open\n\n0 of 4 streams with something open\n" in only_open
    assert "past" not in only_open
    found = json.loads(newnormal("alarms", site.state, "--json").stdout)
    assert {name: len(each) for name, each in found["past_alarms"].items()} == dict.fromkeys(
        names, 1
    )
    assert found["past_changes"] == {}
    for more, streams in (("--open", 0), ("--last=1", 1)):
        some = json.loads(newnormal("alarms", site.state, "--json", more).stdout)
        assert len(some["past_alarms"]) == streams


def test_the_past_of_a_fleet_is_sorted_by_time(site: Site, newnormal: Command) -> None:
    early = "2026-01-01T08:40"
    lines = [line.replace(f"{early}:00,db,", f"{early}:00,db,9") for line in site.lines]
    site.write(lines)
    newnormal(*site.watch)
    past = newnormal("alarms", site.state).stdout.split(" past, in ")[1]
    times = re.findall(r"^\S+ +(2026-01-01 \S+)  alarm ", past, re.M)
    assert times[-1] == "2026-01-01 08:40:00"
    assert len(times) == 5
    assert times == sorted(times, reverse=True)


def test_one_stream_of_a_fleet(site: Site, newnormal: Command) -> None:
    newnormal(*site.watch)
    text = newnormal("alarms", site.state, "db").stdout
    assert text.startswith(f"{site.state}: db\nwritten ")
    assert "\n1 alarm past\n2026-01-01 09:20:00  alarm 1: cpu high for " in text
    command = text.splitlines()[-1].strip()
    assert command == f"newnormal accept {site.state} db --alarm 1"
    full = newnormal("alarms", site.state, "db", 1).stdout
    assert "\n    Highest vote of each member; 0 is usual in history:\n" in full
    assert re.search(r"\n    forecast +\d", full)
    (alarm,) = json.loads(newnormal("alarms", site.state, "db", 1, "--json").stdout)
    assert alarm["alarm"]["votes"]["forecast"] > 0
    assert newnormal(*shlex.split(command)[1:]).returncode == 0
    assert "dc" in newnormal("alarms", site.state, "dc", status=1).stderr
    wrong = newnormal("alarms", site.state, "db", "x")
    assert "expected [STREAM] [NUMBER] after it, found db x\n" in wrong.stderr
