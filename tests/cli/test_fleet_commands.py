"""The other commands on a fleet: what they print, what they refuse, and in which words."""

import json

import pytest

from newnormal import Fleet, load
from newnormal.cli.bars import progress_text, stream_progress
from newnormal.fleet.fitting import Progress
from newnormal.tabular import read_tables
from tests.cli.conftest import Command
from tests.cli.fleets import HISTORY, HOSTS, LIVE, LONG, Site, host_lines, long_lines

QUICK = ("--epochs", 1, "--workers", 1)


def test_fit_writes_the_fleet_that_python_would(site: Site, newnormal: Command) -> None:
    history = site.write(host_lines(300), "history.csv")
    fleet = site.folder / "mine.fleet"
    done = newnormal("fit", history, "--by", "host", "-o", fleet, *QUICK, status=0)
    assert done.stdout == ""
    assert "fitting 4 streams on 1,200 samples ..." in done.stderr
    assert f"wrote {fleet}: 4 of 4 streams\nnext: newnormal watch" in done.stderr
    twin = Fleet(epochs=1, workers=1).fit(read_tables(history, by="host"))
    found = Fleet.load(fleet)
    assert found.streams_ == twin.streams_ == HOSTS
    live = read_tables(site.live, by="host")
    assert found.run(live).json_lines() == twin.run(live).json_lines()


def test_a_stream_that_cannot_be_fitted_is_named_not_saved(site: Site, newnormal: Command) -> None:
    lines = [*host_lines(300), "never,bad,1,2", "2026-01-01T00:00:00,short,1,2"]
    history = site.write(lines, "history.csv")
    fleet = site.folder / "mine.fleet"
    done = newnormal("fit", history, "--by", "host", "-o", fleet, *QUICK, status=1)
    assert "error: stream 'bad': line 1202: column 'time': expected a time" in done.stderr
    assert "error: stream 'short': " in done.stderr
    assert f"wrote {fleet}: 4 of 6 streams; 2 could not be fitted\n" in done.stderr
    assert "warning:" not in done.stderr
    assert Fleet.load(fleet).streams_ == HOSTS
    history = site.write(lines[-1:], "history.csv")
    fleet = site.folder / "none.fleet"
    done = newnormal("fit", history, "--by", "host", "-o", fleet, *QUICK, status=1)
    assert "error: stream 'short': " in done.stderr
    assert "error: no stream could be fitted; short: " in done.stderr
    assert not fleet.exists()


def test_a_folder_of_files_and_long_lines_make_fleets(site: Site, newnormal: Command) -> None:
    folder = site.folder / "hosts"
    folder.mkdir()
    history = host_lines(300, 0, HOSTS[:2])
    for host in HOSTS[:2]:
        lines = [line.replace(f",{host},", ",") for line in history if f",{host}," in line]
        (folder / f"{host}.csv").write_text("\n".join(["time,cpu,mem", *lines]) + "\n")
    files, long = site.folder / "files.fleet", site.folder / "long.fleet"
    assert newnormal("fit", folder, "-o", files, *QUICK).returncode == 0
    table = site.write(long_lines(history), "history.csv", LONG)
    assert newnormal("fit", table, "--by", "host", "--long", "-o", long, *QUICK).returncode == 0
    live = site.write(host_lines(20, HISTORY, HOSTS[:2]))
    first, second = (
        newnormal("score", fleet, live, "--by", "host").stdout for fleet in (files, long)
    )
    assert first == second
    assert len(first.splitlines()) == 40


def test_a_limit_on_the_alarms_of_all_streams_is_divided(site: Site, newnormal: Command) -> None:
    history = site.write(host_lines(300), "history.csv")
    fleet = site.folder / "mine.fleet"
    options = ("--by", "host", "-o", fleet, "--fleet-alarms-per-day", 2, *QUICK)
    assert newnormal("fit", history, *options).returncode == 0
    assert Fleet.load(fleet)["db"].alarm_rate_.limit_per_day == 0.5


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            ("--workers", 2),
            "error: --workers: expected only with many streams, found one\n"
            "hint: add --by COLUMN, or give a folder with a file for each stream\n",
        ),
        (
            ("--by", "host", "--alarms-per-day", 1, "--fleet-alarms-per-day", 1),
            "error: expected one of --threshold, --fixed-threshold, --alarms-per-day, --risk, "
            "--fleet-alarms-per-day, found --alarms-per-day and --fleet-alarms-per-day\n"
            "hint: a threshold stays where it is put; a limit on alarms moves it\n",
        ),
        (
            ("--by", "hots"),
            "error: {live}: by names column 'hots', found only 'time', 'host', 'cpu', 'mem'\n"
            "hint: the header names the columns: name that of the streams with --by\n",
        ),
    ],
)
def test_fit_refuses_wrong_options(
    site: Site, newnormal: Command, options: tuple[object, ...], text: str
) -> None:
    done = newnormal("fit", site.live, "-o", site.folder / "mine", *options, status=1)
    assert done.stderr == text.format(live=site.live)


def test_fit_draws_streams_and_the_time_left_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with stream_progress() as nothing:
        assert nothing is None, "no terminal, no bar"
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with stream_progress() as on_progress:
        assert on_progress is not None
        on_progress(Progress(3, 1200, 1, 3725.0))
    assert "3 of 1,200 streams, 1 failed, 1:02:05 left" in capsys.readouterr().err
    assert progress_text(Progress(0, 5, 0, None)) == "0 of 5 streams"


def test_score_prints_what_watch_does_and_writes_nothing(site: Site, newnormal: Command) -> None:
    before = {path.name: path.read_bytes() for path in site.fleet.iterdir()}
    scored = newnormal("score", site.fleet, site.live, "--by", "host")
    frozen = newnormal("score", site.fleet, site.live, "--by", "host", "--frozen")
    assert {path.name: path.read_bytes() for path in site.fleet.iterdir()} == before
    assert newnormal("watch", site.fleet, site.live, "--by", "host").stdout == scored.stdout
    assert f"judged {LIVE * 4} samples" in scored.stderr
    heads = [
        [(each["stream"], each["sample"]) for each in map(json.loads, text.splitlines())]
        for text in (scored.stdout, frozen.stdout)
    ]
    assert heads[0] == heads[1]
    assert scored.stdout != frozen.stdout


def test_score_names_streams_that_it_leaves_out(site: Site, newnormal: Command) -> None:
    site.write([*host_lines(5, HISTORY, (*HOSTS, "web-9")), *["never,db,1,2"] * 6])
    done = newnormal("score", site.fleet, site.live, "--by", "host", status=1)
    assert len(done.stdout.splitlines()) == 15
    assert "error: stream 'web-9': expected one of the 4 streams" in done.stderr
    assert "error: stream 'db': line 27: column 'time': expected a time" in done.stderr


def test_evaluate_prints_each_stream_and_the_total(site: Site, newnormal: Command) -> None:
    arguments = ("evaluate", site.fleet, site.labelled(), "--by", "host", "--label", "truth")
    found = json.loads(newnormal(*arguments, "--json").stdout)
    assert set(found["streams"]) == set(HOSTS)
    streams, total = found["streams"].values(), found["total"]
    assert total["samples"] == sum(each["samples"] for each in streams) == LIVE * 4
    for group, names in {"alarms": ("events", "opened", "false"), "verdicts": ("tp", "fp")}.items():
        for name in names:
            assert total[group][name] == sum(each[group][name] for each in streams)
    assert total["alarms"]["found"] == 4
    verdicts = total["verdicts"]
    precision = verdicts["tp"] / (verdicts["tp"] + verdicts["fp"])
    assert verdicts["precision"] == pytest.approx(precision)
    model = site.folder / "db.nn"
    newnormal("fleet", "extract", site.fleet, "db", "-o", model)
    own = [
        line.replace(",db,", ",")
        for line in site.labelled().read_text().splitlines()
        if ",db," in line
    ]
    one = site.write(own, "one.csv", "time,cpu,mem,truth")
    alone = json.loads(newnormal("evaluate", model, one, "--label", "truth", "--json").stdout)
    assert found["streams"]["db"] == alone
    table = newnormal(*arguments).stdout
    assert "web-1" in table
    assert "all 4" in table
    done = newnormal("evaluate", site.fleet, site.live, *arguments[3:], status=1)
    assert "error: no stream can be judged; web-1: column 'truth': expected labels" in done.stderr


def test_inspect_shows_the_fleet_and_one_stream(site: Site, newnormal: Command) -> None:
    site.write(site.lines[: 4 * 65])  # in the middle of the fault
    newnormal(*site.watch, status=0)
    shown = newnormal("inspect", site.state).stdout
    words = " ".join(shown.split())
    assert "streams 4 normal 0 streams open alarms 4 of 4 streams pending changes " in words
    assert "Alarms opened in 4 of 4 streams" in shown
    facts = json.loads(newnormal("inspect", site.state, "--json").stdout)
    assert facts["streams"] == 4
    assert facts["states"]["in_alarm"] == 4
    assert facts["states"]["normal"] == 0
    assert set(facts["open_alarms"]) == set(HOSTS)
    assert facts["open_incidents"][0]["number"] == 1
    assert facts["line"] == 4 * 65 + 1
    assert facts["process"] == "ended"
    one = json.loads(newnormal("inspect", site.state, "db", "--json").stdout)
    assert one["samples_seen"] == 65
    assert one["status"] == "in alarm"


def test_inspect_refuses_a_stream_of_none(site: Site, newnormal: Command) -> None:
    done = newnormal("inspect", site.fleet, "web-9", status=1)
    assert "error: expected one of the 4 streams of this fleet, found 'web-9'" in done.stderr
    model = site.folder / "db.nn"
    newnormal("fleet", "extract", site.fleet, "db", "-o", model)
    done = newnormal("inspect", model, "db")
    assert "error: STREAM: expected only with the folder of a fleet, found db" in done.stderr


def test_a_stream_goes_out_and_in_again_unchanged(site: Site, newnormal: Command) -> None:
    newnormal(*site.watch, status=0)
    model = site.folder / "db.nn"
    assert newnormal("fleet", "extract", site.state, "db", "-o", model).returncode == 0
    assert load(model).counters["seen"] == LIVE
    for folder in (model, site.state):
        refused = newnormal("fleet", "remove", folder, "db", status=1)
        assert f"error: {folder}: expected the folder of a fleet, found none" in refused.stderr
    assert "removed db" in newnormal("fleet", "remove", site.fleet, "db").stderr
    assert Fleet.load(site.fleet).streams_ == HOSTS[:-1]
    done = newnormal("fleet", "insert", site.fleet, "db-2", model)
    assert done.stderr == f"added db-2 to {site.fleet}: 4 streams\n"
    fleet = Fleet.load(site.fleet)
    assert fleet.streams_ == (*HOSTS[:-1], "db-2")
    assert fleet["db-2"].counters["seen"] == LIVE
    again = newnormal("fleet", "insert", site.fleet, "db-2", model, status=1)
    assert "error: name: expected a new stream, found 'db-2', which there is" in again.stderr


def test_check_verifies_and_repairs(site: Site, newnormal: Command) -> None:
    done = newnormal("fleet", "check", site.fleet, status=0)
    assert done.stdout == f"{site.fleet}: 4 streams\nno problem found\n"
    (shard,) = site.fleet.glob("live-*.bin")
    content = bytearray(shard.read_bytes())
    content[100] ^= 1
    shard.write_bytes(content)
    assert "repair: " in newnormal("fleet", "check", site.fleet, status=1).stdout
    assert "repaired: " in newnormal("fleet", "check", site.fleet, "--repair", status=0).stdout
    assert newnormal("fleet", "check", site.fleet).returncode == 0
    newnormal(*site.watch, status=0)
    done = newnormal("fleet", "check", site.state, status=0)
    assert done.stdout == f"{site.state / 'fleet'}: 4 streams\nno problem found\n"
    found = newnormal("serve", "verify", site.state, status=0).stdout
    assert found.startswith(f"{site.state}: 4 streams, 0 samples, ")
