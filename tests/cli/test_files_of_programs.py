"""Files as programs and benchmarks have them, through readers and commands, without an edit."""

import csv
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from newnormal import Detector
from newnormal.tabular import Table, read, read_tables
from newnormal.types import Times, time_text
from tests.cli.conftest import Command, Done
from tests.data_as_people_have_it import FILES, LENGTH, Written, fault_at
from tests.present import present

HISTORY = fault_at() - 100
_M2N2 = ("--method", "m2n2", "--window", "4", "--epochs", "2", "--fit-stride", "1")


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Written]:
    folder = tmp_path_factory.mktemp("files")
    return {name: make(folder) for name, make in FILES.items()}


def table_of(written: Written) -> Table:
    if not written.long:
        return read(written.path, **written.options)
    (table,) = read_tables(written.path, long=True, **written.options).tables.values()
    return table


def check_table(table: Table, written: Written) -> None:
    assert table.channels == written.channels
    np.testing.assert_array_equal(table.values, written.values)
    assert table.times is not None
    np.testing.assert_array_equal(table.times, written.times)
    assert table.zone == written.zone


def arguments(written: Written) -> list[str]:
    """Return the options that a user must give."""
    found = ["--long"] if written.long else []
    for name, value in written.options.items():
        found += [f"--{name.replace('_', '-')}", ",".join(value)]
    return found


def lines_of(done: Done) -> list[dict[str, Any]]:
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def check_verdicts(found: list[dict[str, Any]], written: Written, start: int) -> None:
    """Check that verdicts are those of the samples from `start`, and that the fault is seen."""
    times: Times = written.times[start:]
    assert [each["time"] for each in found] == [time_text(each, written.zone) for each in times]
    assert tuple(found[0]["expected"]) == written.channels
    anomalous = np.array([each["anomalous"] for each in found])
    fault = fault_at() - start
    assert anomalous[fault : fault + 20].mean() > 0.5
    assert anomalous[:fault].mean() < 0.1


@contextmanager
def fifo_of(path: Path, folder: Path) -> Iterator[Path]:
    """A FIFO that a file is written to."""
    fifo = folder / f"fifo-{path.name}"
    os.mkfifo(fifo)
    writer = threading.Thread(target=lambda: fifo.write_bytes(path.read_bytes()))
    writer.start()
    try:
        yield fifo
    finally:
        writer.join(10)
    assert not writer.is_alive()


# In Python


@pytest.mark.parametrize("name", FILES)
def test_a_reader_gives_exactly_what_the_file_holds(name: str, files: dict[str, Written]) -> None:
    written = files[name]
    check_table(table_of(written), written)
    if written.by is not None:
        streams = read_tables(written.path, by=written.by, **written.options).tables
        assert list(streams) == list(written.streams)
        for stream, table in streams.items():
            check_table(table, written.streams[stream])


# One stream, by the commands


@pytest.mark.parametrize("name", FILES)
def test_every_command_reads_it(
    name: str, files: dict[str, Written], newnormal: Command, tmp_path: Path
) -> None:
    written = files[name]
    given, model = arguments(written), tmp_path / "plant.nn"

    found = json.loads(newnormal("check", written.path, "--json", *given, status=0).stdout)
    assert found["facts"]["samples"] == LENGTH
    assert tuple(found["plan"]["channels"]) == written.channels
    assert [each["code"] for each in found["findings"] if each["level"] != "note"] == ["faults"]

    fitted = newnormal("fit", written.path, "-o", model, "--rows", f"0:{HISTORY}", *_M2N2, *given)
    assert fitted.returncode == 0, fitted.stderr
    assert f"fitting on {HISTORY} samples of {len(written.channels)} channels" in fitted.stderr

    # What the file is like is remembered: watch and score need it no more.
    long = ["--long"] if written.long else []
    rest = newnormal("watch", model, written.path, "--flush", "--rows", f"{HISTORY}:", *long)
    check_verdicts(lines_of(rest), written, HISTORY)

    scored = newnormal("score", model, written.path, "--rows", f"{HISTORY}:", *long)
    assert scored.stdout == rest.stdout

    first = time_text(written.times[HISTORY], written.zone)
    with fifo_of(written.path, tmp_path) as fifo:
        piped = newnormal("watch", model, fifo, "--flush", "--from", first, *long)
    assert piped.stdout == rest.stdout
    assert piped.stderr.count("\n") < 5


def test_long_data_is_checked_by_columns(files: dict[str, Written], newnormal: Command) -> None:
    path = files["historian_long"].path
    found = json.loads(newnormal("check", path, "--long", "--na", "Bad,No Data", "--json").stdout)
    assert found["name"] == str(path)
    assert found["plan"]["time"] == ["Timestamp"]
    assert found["plan"]["left_out"] == []
    warning, fault = (each for each in found["findings"] if each["level"] == "warning")
    assert fault["code"] == "faults" and warning["channel"] == "Value"
    assert warning["option"] == "--na='I/O Timeout'"
    wide = newnormal("check", path).stdout.replace("\n  ", " ")
    assert "of the channel that 'Tag' names: read it with --long" in wide


@pytest.fixture(scope="session")
def detector(files: dict[str, Written], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A detector of the plant, fitted on the file of this project's own guides."""
    written = files["plain_csv"]
    path = tmp_path_factory.mktemp("detector") / "plant.nn"
    Detector(epochs=1).fit(read(written.path, rows=(0, HISTORY))).save(path)
    return path


@pytest.mark.parametrize("name", ["excel_xlsx", "grafana_rows"])
def test_an_alarm_names_its_channels_whatever_the_program(
    name: str, files: dict[str, Written], detector: Path, newnormal: Command
) -> None:
    found = lines_of(newnormal("watch", detector, files[name].path, "--flush", "--alarms-only"))
    opened = [each for each in found if each["event"] == "opened"]
    assert opened[0]["sample"] == fault_at()
    alarm = opened[0]["alarm"]
    assert {each["channel"] for each in alarm["evidence"]} == {"temperature", "flow"}
    assert alarm["sentence"].startswith("flow 63") and "; also temperature" in alarm["sentence"]


# With labels


def labelled(written: Written, folder: Path) -> Path:
    """The same file with a column of labels, written as the program would."""
    path = folder / written.path.name
    encoding, delimiter = ("cp1252", ";") if b";" in written.path.read_bytes() else ("utf-8", ",")
    with written.path.open(encoding=encoding, newline="") as file:
        rows = list(csv.reader(file, delimiter=delimiter))
    head = len(rows) - LENGTH
    for at, row in enumerate(rows):
        row.append(str(int(at - head >= fault_at())) if at >= head else ("fault", "")[min(at, 1)])
    with path.open("w", encoding=encoding, newline="") as file:
        csv.writer(file, delimiter=delimiter).writerows(rows)
    return path


@pytest.mark.parametrize("name", ["excel_csv_german", "excel_csv_us", "grafana_joined"])
def test_labels_are_graded(
    name: str, files: dict[str, Written], newnormal: Command, tmp_path: Path
) -> None:
    path, model = labelled(files[name], tmp_path), tmp_path / "plant.nn"
    found = json.loads(newnormal("check", path, "--json").stdout)
    assert [each["channel"] for each in found["findings"] if each["code"] == "label_like"] == [
        "fault"
    ]
    given = ("--label", "fault", "--rows", f"0:{HISTORY}")
    newnormal("fit", path, "-o", model, *given, *_M2N2, status=0)
    graded = newnormal("evaluate", model, path, "--rows", f"{HISTORY}:", "--json", status=0)
    figures = json.loads(graded.stdout)
    assert figures["alarms"]["found"] == figures["alarms"]["events"] == 1
    assert "1 of 1" in newnormal("evaluate", model, path, "--rows", f"{HISTORY}:", status=0).stdout


# Fleets


def fleet_of(written: Written, folder: Path, by: str) -> Written:
    """Two plants in one file, as the program would write them: the rows of one behind the other's.

    The plants are the same file twice, with a column in front that names them.
    """
    path = folder / written.path.name
    encoding, delimiter = ("cp1252", ";") if b";" in written.path.read_bytes() else ("utf-8", ",")
    with written.path.open(encoding=encoding, newline="") as file:
        header, *rows = csv.reader(file, delimiter=delimiter)
    units = [] if rows[0][0] else [["", *rows.pop(0)]]
    named = [[name, *row] for row in rows for name in ("p1", "p2")]
    with path.open("w", encoding=encoding, newline="") as file:
        csv.writer(file, delimiter=delimiter).writerows([[by, *header], *units, *named])
    return replace(written, path=path, by=by, streams={"p1": written, "p2": written})


def fleet_files(files: dict[str, Written], folder: Path) -> dict[str, Written]:
    wide = ("excel_csv_german", "excel_csv_us", "grafana_joined", "historian_long_comma")
    found = {name: fleet_of(files[name], folder, "Anlage") for name in wide}
    return {**found, "prometheus_two": files["prometheus_two"]}


@pytest.mark.parametrize(
    "name",
    [
        "excel_csv_german",
        "excel_csv_us",
        "grafana_joined",
        "historian_long_comma",
        "prometheus_two",
    ],
)
def test_every_command_reads_a_fleet(
    name: str, files: dict[str, Written], newnormal: Command, tmp_path: Path
) -> None:
    written = fleet_files(files, tmp_path)[name]
    by = str(written.by)
    long = ["--long"] if written.long else []
    streams = read_tables(
        written.path, by=by, long=written.long or None, rows=(0, HISTORY), **written.options
    )
    for stream, table in streams.tables.items():
        own = written.streams[stream]
        check_table(table, replace(own, values=own.values[:HISTORY], times=own.times[:HISTORY]))

    checked = newnormal("check", written.path, "--by", by, "--json", *arguments(written), status=0)
    assert set(json.loads(checked.stdout)["streams"]) == set(written.streams)

    model = tmp_path / "plant.fleet"
    given = ("--by", by, *arguments(written), "--rows", f"0:{HISTORY}", "--workers", "1")
    newnormal("fit", written.path, "-o", model, *given, *_M2N2, status=0)

    rows = ("--by", by, "--rows", f"{HISTORY}:", *long)
    scored = lines_of(newnormal("score", model, written.path, *rows))
    watched = lines_of(newnormal("watch", model, written.path, "--flush", *rows))
    for stream, own in written.streams.items():
        verdicts = [each for each in watched if each["stream"] == stream]
        check_verdicts(verdicts, own, HISTORY)
        assert [each for each in scored if each["stream"] == stream] == verdicts


FAULT = range(573, 974)  # of SKAB's valve1/0.csv, by its labels


def test_three_commands_take_skab_from_the_file_to_the_alarm(
    data_root: Path, newnormal: Command, tmp_path: Path
) -> None:
    path, model = data_root / "SKAB" / "valve1" / "0.csv", tmp_path / "valve.nn"
    if not path.exists():
        pytest.skip("SKAB is not under NEWNORMAL_DATA")

    text = " ".join(newnormal("check", path, status=0).stdout.split())
    assert "'anomaly' looks like a label (0 or 1, 35 % of it 1): --label anomaly" in text
    assert "'changepoint' looks like a label" in text
    assert "--drop changepoint" in text

    options = ("--label", "anomaly", "--drop", "changepoint", "--rows", "0:400")
    fitted = newnormal("fit", path, "-o", model, *options, status=0)
    assert "time: 'datetime'; 8 channels: " in fitted.stderr
    assert "fitting on 400 samples of 8 channels" in fitted.stderr

    watched = newnormal("watch", model, path, "--alarms-only", status=0)
    found = [json.loads(line) for line in watched.stdout.splitlines()]
    opened = [each["alarm"] for each in found if each["event"] == "opened"]
    assert opened[0]["start"] in FAULT[:10]  # the valve closes
    assert opened[0]["evidence"][0]["channel"] == "Volume Flow RateRMS"
    for alarm in opened:  # the last ones are of a temperature that is low still
        channel = alarm["evidence"][0]["channel"]
        assert channel in ("Volume Flow RateRMS", "Thermocouple", "Temperature")
        assert alarm["sentence"].startswith(f"{channel} ") and "; low" in alarm["sentence"]
    assert len(opened) <= 3
    assert "bad line" not in watched.stderr


def test_nab_is_read_checked_watched(data_root: Path, newnormal: Command, tmp_path: Path) -> None:
    paths = sorted((data_root / "NAB" / "data").glob("*/*.csv"))
    if not paths:
        pytest.skip("NAB is not under NEWNORMAL_DATA")
    duplicates = late = 0
    for path in paths:
        lines = path.read_text().splitlines()[1:]
        times = np.array([line.split(",")[0] for line in lines], "datetime64[s]")
        table = read(path)
        assert table.channels == ("value",)
        assert table.times is not None and table.profile is not None
        np.testing.assert_array_equal(table.times, np.unique(times))
        assert table.profile.duplicates == len(times) - len(np.unique(times))
        duplicates += table.profile.duplicates
        late += table.profile.out_of_order
        checked = newnormal("check", path, "--json", status=0)
        assert json.loads(checked.stdout)["facts"]["duplicate_times"] == table.profile.duplicates
    assert duplicates > 0
    assert late > 0
    profiles = {path: present(read(path).profile) for path in paths}
    disordered = max(
        paths, key=lambda path: profiles[path].duplicates + profiles[path].out_of_order
    )
    model = tmp_path / "one.nn"
    fit = ("--method", "m2n2", "--epochs", "1", "--rows", "0:500")
    newnormal("fit", disordered, "-o", model, *fit, status=0)
    for command in ("watch", "score"):
        assert len(newnormal(command, model, disordered, status=0).stdout.splitlines()) > 500
