"""`newnormal watch` of a fleet: what comes out, what survives, feedback, and zones of its times."""

import json
import shutil
import signal

import pytest

from newnormal import Fleet, load
from newnormal.engine.log.sqlite_log import ask
from newnormal.io.sinks.lines import JsonLinesSink
from newnormal.tabular import read_tables
from newnormal.types.arrays import time_of_text, zone_of_text
from tests.cli.conftest import Command, Plant, Running
from tests.cli.fleets import FAULT, HISTORY, HOSTS, LIVE, LONG, Site, host_lines, long_lines
from tests.waiting import until


def expected_lines(site: Site, lines: list[str]) -> list[str]:
    """What each stream's own detector makes of its lines, in their order."""
    fleet = Fleet.load(site.fleet)
    tables = read_tables(site.write(lines, "expected.csv"), by="host")
    found = {
        name: iter(fleet[name].run(table, flush=False).json_lines())
        for name, table in tables.tables.items()
    }
    names = [line.split(",")[1] for line in lines]
    return [f'{{"stream": "{name}", {next(found[name])[1:]}' for name in names]


def test_watch_prints_what_each_detector_says_in_line_order(site: Site, newnormal: Command) -> None:
    expected = expected_lines(site, site.lines)
    done = newnormal("watch", site.fleet, site.live, "--by", "host", status=0)
    assert done.stdout.splitlines() == expected
    assert "watching" in done.stderr
    assert "live.csv: 4 streams" in done.stderr
    assert f"judged {LIVE * 4} samples" in done.stderr


@pytest.mark.parametrize("cut", [0, 1, 5, 250, 479])
def test_a_file_that_grows_is_resumed_exactly(site: Site, newnormal: Command, cut: int) -> None:
    expected = expected_lines(site, site.lines)
    files = {path: path.read_bytes() for path in site.fleet.iterdir()}
    site.write(site.lines[:cut])
    before = newnormal(*site.watch)
    site.write(site.lines)
    after = newnormal(*site.watch)
    assert (before.stdout + after.stdout).splitlines() == expected
    assert f"resuming at line {cut + 2}" in after.stderr
    assert newnormal(*site.watch).stdout == ""
    assert {path: path.read_bytes() for path in site.fleet.iterdir()} == files, "MODEL is read"


def test_alarms_only_prints_events_with_their_stream(site: Site, newnormal: Command) -> None:
    done = newnormal("watch", site.fleet, site.live, "--by", "host", "--alarms-only")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert all(next(iter(event)) == "stream" for event in events)
    opened = [event for event in events if event["event"] == "opened"]
    assert {event["stream"] for event in opened} == set(HOSTS)
    assert {event["sample"] for event in opened} == {FAULT.start - HISTORY}
    (incident,) = (event for event in events if event["event"] == "incident")
    assert incident["stream"] is None
    assert set(incident["incident"]["streams"]) == set(HOSTS)
    assert ", 4 alarms, " in done.stderr
    assert "1 incident" in done.stderr


def test_unknown_streams_are_named_once_and_counted(site: Site, newnormal: Command) -> None:
    site.write(host_lines(10, HISTORY, (*HOSTS, "new", "newer")))
    done = newnormal("watch", site.fleet, site.live, "--by", "host", status=0)
    assert len(done.stdout.splitlines()) == 40
    assert done.stderr.count("stream 'new' is not in the fleet: its samples are skipped") == 1
    assert "20 samples of 2 unknown streams skipped" in done.stderr


BAD_LINES = {
    "x": "line 21: expected 4 cells, found 1",
    "2026-01-01T00:00:00,db,1,2": "line 21: stream 'db': expected a time after "
    "2026-01-01T08:23:00, found 2026-01-01T00:00:00",
    "2026-01-01T08:25:30,,1,2": "line 21: column 'host': expected the name of a stream, found none",
    "\udcff": "line 21: expected UTF-8 text, found byte 0xff",
}


def test_bad_cells_and_columns_new_or_gone_are_told_once(site: Site, newnormal: Command) -> None:
    lines = [line.rsplit(",", 1)[0] + ",7" for line in site.lines]
    lines[8] = lines[8].replace(",", ",web-1,", 1).rsplit(",", 3)[0] + ",two,7"
    site.write(lines, header="time,host,cpu,new")
    done = newnormal("watch", site.fleet, site.live, "--by", "host", status=0)
    assert done.stderr.count("column 'new' is no channel") == 1
    assert done.stderr.count("channel 'mem' of stream 'web-1' is no column: missing") == 1
    assert "line 10: column 'cpu': expected a number, found 'two'" in done.stderr
    assert f"judged {LIVE * 4} samples" in done.stderr


@pytest.mark.parametrize("bad", BAD_LINES)
def test_a_bad_line_is_skipped_but_strict_stops(site: Site, newnormal: Command, bad: str) -> None:
    expected = expected_lines(site, site.lines)
    site.write([*site.lines[:19], bad, *site.lines[19:]])
    strict = newnormal(*site.watch, "--strict", status=3)
    assert f"error: {BAD_LINES[bad]}" in strict.stderr
    assert strict.stdout.splitlines() == expected[:19]
    done = newnormal(*site.watch, status=0)
    assert f"{BAD_LINES[bad]}; skipped" in done.stderr
    assert "1 bad line skipped" in done.stderr
    assert (strict.stdout + done.stdout).splitlines() == expected


def test_long_lines_are_judged_as_wide_ones(site: Site, newnormal: Command) -> None:
    expected = expected_lines(site, site.lines)
    long = site.write(long_lines(site.lines), "long.csv", LONG)
    part = site.write(long_lines(site.lines)[:301], "long.csv", LONG)
    arguments = ("watch", site.fleet, long, "--by", "host", "--long", "--state", site.state)
    before = newnormal(*arguments)
    assert "not complete yet" in before.stderr
    assert part == long
    site.write(long_lines(site.lines), "long.csv", LONG)
    after = newnormal(*arguments, "--flush")
    assert sorted((before.stdout + after.stdout).splitlines()) == sorted(expected)


def test_long_lines_of_one_stream_have_an_ordinary_state(site: Site, newnormal: Command) -> None:
    one = host_lines(HISTORY, 0, ("db",))
    history = site.write(
        [line.replace(",db,", ",") for line in long_lines(one)], "h.csv", "time,tag,value"
    )
    model, state = site.folder / "db.nn", site.folder / "db.state"
    assert newnormal("fit", history, "--long", "-o", model, "--epochs", 1).returncode == 0
    rows = [line.replace(",db,", ",") for line in host_lines(40, HISTORY, ("db",))]
    wide = site.write(rows, "wide.csv", "time,cpu,mem")
    expected = newnormal("watch", model, wide).stdout
    texts = [line.replace(",db,", ",") for line in long_lines(host_lines(40, HISTORY, ("db",)))]
    arguments = ("watch", model, site.folder / "long.csv", "--long", "--state", state)
    site.write(texts[:33], "long.csv", "time,tag,value")
    before = newnormal(*arguments)
    site.write(texts, "long.csv", "time,tag,value")
    assert before.stdout + newnormal(*arguments, "--flush").stdout == expected
    assert newnormal("score", model, site.folder / "long.csv", "--long").stdout == expected
    assert load(state).counters["seen"] == 40


@pytest.mark.parametrize("lines", [1, 200])
def test_after_a_kill_nothing_is_lost_and_what_repeats_is_byte_for_byte_the_same(
    site: Site, newnormal: Command, lines: int
) -> None:
    expected = expected_lines(site, site.lines)
    watch = Running(*site.watch, "--follow")
    seen = watch.read(lines) + watch.end(signal.SIGKILL).stdout.split("\n")[:-1]
    assert seen == expected[: len(seen)]
    again = newnormal(*site.watch).stdout.splitlines()
    assert again == expected[len(expected) - len(again) :]
    assert len(seen) + len(again) >= len(expected)
    assert newnormal(*site.watch).stdout == ""


@pytest.mark.parametrize(("call", "zone"), [(1, ""), (3, ""), (1, "+05:30")])
@pytest.mark.parametrize("flag", [(), ("--alarms-only",)], ids=["verdicts", "events"])
def test_output_that_could_not_be_written_comes_at_the_next_start_in_the_same_zone(
    site: Site,
    newnormal: Command,
    monkeypatch: pytest.MonkeyPatch,
    call: int,
    zone: str,
    flag: tuple[str, ...],
) -> None:
    live = site.write(with_offset(site.lines, zone)) if zone else site.live
    monkeypatch.setattr("newnormal.tabular.text.raw_bytes.READ_BYTES", 5_000)
    arguments = ("watch", site.fleet, live, "--by", "host", *flag)
    expected = newnormal(*arguments).stdout
    arguments = (*arguments, "--state", site.state)
    for found in map(json.loads, expected.splitlines() if zone else ()):
        time = found["time"] if "time" in found else found["incident"]["start_time"]
        assert zone_of_text(time) == zone
    write_lines, calls = JsonLinesSink.write_lines, iter(range(1, 1_000))

    def fail(sink: JsonLinesSink, lines: list[str]) -> None:
        if lines and next(calls) == call:
            raise BrokenPipeError
        write_lines(sink, lines)

    with monkeypatch.context() as patch:
        patch.setattr(JsonLinesSink, "write_lines", fail)
        before = newnormal(*arguments, status=1)
    missing = newnormal("watch", site.fleet, site.folder / "no.csv", *arguments[3:])
    assert missing.returncode == 1, "a start that fails loses nothing, either"
    assert before.stdout + newnormal(*arguments).stdout == expected


def test_a_pipe_is_judged_as_it_comes_and_not_repeated(site: Site, newnormal: Command) -> None:
    expected = expected_lines(site, site.lines)
    arguments = ("watch", site.fleet, "-", *site.watch[3:])
    text = "\n".join(["time,host,cpu,mem", *site.lines[:100]]) + "\n"
    before = newnormal(*arguments, stdin=text)
    text = "\n".join(["time,host,cpu,mem", *site.lines]) + "\n"
    after = newnormal(*arguments, stdin=text)
    assert (before.stdout + after.stdout).splitlines() == expected
    assert "100 judged before" in after.stderr


def test_a_signal_stops_it_and_a_second_watch_is_refused(site: Site, newnormal: Command) -> None:
    watch = Running("watch", site.fleet, "-", *site.watch[3:])
    watch.send(["time,host,cpu,mem", *site.lines[:8]])
    watch.read(8)
    second = newnormal(*site.watch, status=1)
    assert f"error: {site.state} is in use by process {watch.process.pid}" in second.stderr
    done = watch.end(signal.SIGTERM)
    assert done.returncode == 0, done.stderr
    assert "judged 8 samples" in done.stderr


def test_another_file_is_read_from_the_start(site: Site, newnormal: Command) -> None:
    newnormal(*site.watch)
    other = site.write(host_lines(5, HISTORY + LIVE), "other.csv")
    done = newnormal("watch", site.state, other, "--state", site.state, status=0)
    assert len(done.stdout.splitlines()) == 20
    assert f"{site.state} was saved for another file ({site.live.resolve()})" in done.stderr
    again = newnormal(*site.watch)
    assert again.stderr.count(": it keeps only what it learned") == len(HOSTS)
    assert json.loads(again.stdout.splitlines()[0])["sample"] == LIVE + 5


WRONG = [
    (
        ("--by", "hots"),
        "error: {live}: by names column 'hots', found only 'time', 'host', 'cpu', 'mem'\n"
        "hint: the header names the columns: name that of the streams with --by\n",
    ),
    (
        ("--by", "host", "--state", "{fleet}"),
        "error: cannot write {fleet}: expected a new folder or that of a `watch` or a service, "
        "found a folder with other files\nhint: choose another name\n",
    ),
    (
        ("--by", "host", "--tag", "tag"),
        "error: --tag: expected only with --long, found it without\nhint: add --long\n",
    ),
    (
        ("--by", "host", "--long"),
        "error: {live}: expected a column of the tag, called tag or metric or name or channel or "
        "variable or sensor, found only 'time', 'host', 'cpu', 'mem'\n"
        'hint: name it with --tag NAME (from Python long=Long(tag="...")); '
        "or leave --long (long=) out where each channel has its own column\n",
    ),
]


@pytest.mark.parametrize(("options", "text"), WRONG, ids=[str(each[0]) for each in WRONG])
def test_wrong_options_say_what_to_do(
    site: Site, newnormal: Command, options: tuple[str, ...], text: str
) -> None:
    options = tuple(option.format(fleet=site.fleet) for option in options)
    done = newnormal("watch", site.fleet, site.live, *options, "-q", status=1)
    assert done.stderr == text.format(fleet=site.fleet, live=site.live)


def test_the_column_of_names_is_remembered(site: Site, newnormal: Command) -> None:
    done = newnormal("watch", site.fleet, site.live, "-q")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith('{"stream": "web-1"')


def test_no_fleet_and_a_detector_with_by_are_refused(site: Site, newnormal: Command) -> None:
    empty = site.folder / "empty"
    empty.mkdir()
    done = newnormal("watch", empty, site.live, "--by", "host", status=1)
    assert f"error: {empty}" in done.stderr
    model = site.folder / "db.nn"
    newnormal("fleet", "extract", site.fleet, "db", "-o", model)
    done = newnormal("watch", model, site.live, "--by", "host", status=1)
    assert done.stderr.startswith(
        f"error: --by: expected the folder of a fleet, found {model}, which is none\n"
        "hint: `newnormal fit HISTORY --by COLUMN -o FOLDER` makes one; "
    )


# --- decisions about a stream: at once, by a running watch, or after a kill


IN_FAULT = 4 * 65  # lines: in the middle of the fault


@pytest.fixture
def alarmed(site: Site, newnormal: Command) -> Site:
    """A site whose streams are in alarm."""
    site.write(site.lines[:IN_FAULT])
    newnormal(*site.watch, status=0)
    return site


def test_feedback_is_applied_at_once_where_no_watch_runs(alarmed: Site, newnormal: Command) -> None:
    done = newnormal("accept", alarmed.state, "web-1", status=0)
    assert done.stderr == ("web-1: alarm 1 accepted: samples like these are normal from now on\n")
    assert set(Fleet.load(alarmed.state).alarms_) == {"web-2", "web-3", "db"}
    again = newnormal("accept", alarmed.state, "web-1", status=1)
    assert "error: expected an open change or alarm to accept, found none" in again.stderr


def test_feedback_needs_a_stream_of_a_watch(alarmed: Site, newnormal: Command) -> None:
    assert newnormal("accept", alarmed.state, status=1).stderr == (
        f"error: {alarmed.state} has many streams: expected a stream after it, found none\n"
        f"hint: newnormal accept {alarmed.state} STREAM\n"
    )
    done = newnormal("accept", alarmed.state, "web-9", status=1)
    assert "error: expected one of the 4 streams of this fleet, found 'web-9'" in done.stderr
    assert newnormal("accept", alarmed.fleet, "db", status=1).stderr == (
        f"error: expected the folder of a `watch` or of a service, found {alarmed.fleet}\n"
        f"hint: newnormal watch {alarmed.fleet} INPUT --state FOLDER makes one\n"
    )
    assert newnormal("accept", alarmed.state, "db", "web-1").returncode == 2


def test_feedback_that_waits_comes_before_new_samples(alarmed: Site, newnormal: Command) -> None:
    for stream in ("web-2", "web-9"):
        request = {"stream": stream, "verb": "accept", "alarm": 1}
        ask(alarmed.state / "log.sqlite", json.dumps(request))
    assert "waits for `newnormal watch`" in newnormal("inspect", alarmed.state).stdout
    alarmed.write(alarmed.lines)
    done = newnormal(*alarmed.watch, "--alarms-only")
    assert "feedback: web-2: alarm 1 accepted" in done.stderr
    assert "feedback not applied: web-9: " in done.stderr
    first = json.loads(done.stdout.splitlines()[0])
    assert (first["stream"], first["event"], first["sample"]) == ("web-2", "closed", 64)
    assert not json.loads(newnormal("inspect", alarmed.state, "--json").stdout)["feedback_waiting"]


def test_a_running_watch_applies_feedback_once_in_all(alarmed: Site, newnormal: Command) -> None:
    twin = alarmed.folder / "twin.state"
    shutil.copytree(alarmed.state, twin)
    watch = Running(*alarmed.watch, "--follow", "--alarms-only")
    resuming, watching = watch.messages(2)
    assert "resuming" in resuming
    assert "watching" in watching
    assert newnormal("reject", alarmed.state, "web-1").stderr == (
        f"{alarmed.state} is in use: applied there before the next samples\n"
    )
    assert "feedback: web-1: alarm 1 rejected" in watch.messages(1)[0]
    newnormal("accept", alarmed.state, "web-2")
    assert "feedback: web-2: alarm 1 accepted" in watch.messages(1)[0]
    event = json.loads(watch.read(1)[0])
    assert (event["stream"], event["event"]) == ("web-2", "closed")
    # The checkpoint follows the note that this was written.
    until(lambda: "web-2" not in Fleet.load(alarmed.state).alarms_, "the checkpoint")
    watch.end(signal.SIGKILL)
    left = newnormal("accept", alarmed.state, "web-3")
    assert "web-3: alarm 1 accepted" in left.stderr
    alarmed.write(alarmed.lines)
    after = newnormal(*alarmed.watch, "--alarms-only")
    assert "feedback:" not in after.stderr
    events = [json.loads(line) for line in after.stdout.splitlines()]
    accepted = [each for each in events if (each.get("alarm") or {}).get("reason") == "accepted"]
    assert [each["stream"] for each in accepted] == ["web-3"], "that of web-2 was written"
    for stream, act in (("web-1", "reject"), ("web-2", "accept"), ("web-3", "accept")):
        newnormal(act, twin, stream)
    newnormal(*alarmed.watch[:-1], twin)
    same_streams(Fleet.load(alarmed.state), Fleet.load(twin))


def same_streams(found: Fleet, expected: Fleet) -> None:
    for stream in found:
        one, other = found[stream].to_state().tensors, expected[stream].to_state().tensors
        assert all((one[name].tobytes() == other[name].tobytes()) for name in one)


def with_offset(lines: list[str], offset: str) -> list[str]:
    """Return CSV lines whose times have an offset; the local times stay as they are."""
    return [
        line if line.startswith("time") else line.replace(",", f"{offset},", 1) for line in lines
    ]


def test_watch_and_score_give_the_offset_of_the_input(newnormal: Command, plant: Plant) -> None:
    plant.write(with_offset(plant.lines, "-03:30"))
    given = [line.partition(",")[0] + "-03:30" for line in plant.lines[1:]]
    watched = newnormal(*plant.watch, "--flush")
    for done in (watched, newnormal("score", plant.model, plant.live)):
        assert done.returncode == 0, done.stderr
        assert [json.loads(line)["time"] for line in done.stdout.splitlines()] == given
    # The history had no zone, and a state file keeps that of history alone.
    shown = json.loads(newnormal("inspect", plant.state, "--json").stdout)
    last = next(value for name, value in shown.items() if name in ("last time", "last_time"))
    assert time_of_text(last) == time_of_text(given[-1])


def test_a_detector_shows_the_zone_of_its_history(newnormal: Command, plant: Plant) -> None:
    history = plant.folder / "history.csv"
    history.write_text("\n".join(with_offset(plant.lines, "Z")) + "\n")
    model = plant.folder / "zoned.nn"
    fit = ("--method", "m2n2", "--epochs", "1")
    assert newnormal("fit", history, "-o", model, *fit).returncode == 0
    done = newnormal("watch", model, plant.live)  # the same times, without a zone
    assert json.loads(done.stdout.splitlines()[0])["time"] == plant.lines[1].partition(",")[0] + "Z"
    state = plant.folder / "zoned.state"
    newnormal("watch", model, plant.live, "--state", state)
    newest = plant.lines[-1].partition(",")[0].replace("T", " ") + "Z"
    assert newest in newnormal("inspect", state).stdout
