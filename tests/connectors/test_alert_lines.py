"""Alerts as JSON lines: rotation, kills, full disks, and the real service."""

import errno
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from newnormal.errors import ParameterError
from newnormal.io.sinks.alert_lines import AlertLinesSink
from newnormal.io.sinks.alerts import Alert, SinkDownError
from newnormal.testing import check_alert_sink
from tests.connectors.programs import Newnormal
from tests.errors import raised
from tests.waiting import until


def sink(path: Path) -> AlertLinesSink:
    return AlertLinesSink("log", {"path": str(path)})


def alert(number: int, **more: Any) -> Alert:
    key = f"alarm-1-1-{number}:fired"
    return Alert(key, {"key": key, "status": "fired", "item": key[:-6], **more})


def keys(path: Path) -> list[str]:
    """Return the keys of the lines that are whole."""
    lines = path.read_text(errors="replace").split("\n")
    return [str(json.loads(line).get("key")) for line in lines if line.endswith("}")]


def numbers(path: Path) -> list[int]:
    return [int(each[:-6].rpartition("-")[2]) for each in keys(path) if each != "None"]


def test_each_alert_is_a_line(tmp_path: Path) -> None:
    path = tmp_path / "alerts.jsonl"
    made = sink(path)
    made.send(alert(1, sentence='Wärme "hoch"\nseit heute', ratio=None))
    made.send(alert(2))
    first, second = path.read_text(encoding="utf-8").splitlines()
    assert json.loads(first)["sentence"] == 'Wärme "hoch"\nseit heute' and "Wärme" in first
    assert json.loads(second) == {
        "key": "alarm-1-1-2:fired",
        "status": "fired",
        "item": "alarm-1-1-2",
    }
    made.close()


def test_a_line_is_on_disk_when_it_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "alerts.jsonl"
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(os.fstat(handle).st_size))
    made = sink(path)
    made.send(alert(1))
    assert synced[-1] == path.stat().st_size and len(synced) == 2  # the folder, and the file
    made.send(alert(2))
    assert synced[-1] == path.stat().st_size and len(synced) == 3
    made.close()


def test_a_file_that_is_rotated_away_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "alerts.jsonl"
    made = sink(path)
    made.send(alert(1))
    path.rename(tmp_path / "alerts.jsonl.1")
    made.send(alert(2))
    path.unlink()
    made.send(alert(3))
    os.truncate(path, 0)  # copied and cut short
    made.send(alert(4))
    assert numbers(tmp_path / "alerts.jsonl.1") == [1] and numbers(path) == [4]
    made.close()


def test_an_alert_that_is_sent_again_is_written_once(tmp_path: Path) -> None:
    path = tmp_path / "alerts.jsonl"
    for _ in range(3):  # killed before the outbox had noted it
        made = sink(path)
        made.send(alert(1))
        made.send(alert(1)._replace(attempt=2))
        made.close()
    assert numbers(path) == [1]


def test_a_line_that_a_kill_cut_short_is_written_again(tmp_path: Path) -> None:
    path = tmp_path / "alerts.jsonl"
    path.write_text('{"key": "alarm-1-1-1:fired"}\n{"key": "alarm-1-1-2:fi')
    made = sink(path)
    made.send(alert(2))
    assert path.read_text().count("\n") == 3 and numbers(path) == [1, 2]
    path.write_bytes(b"\xff\xfe[1]\nnull\n{}\n5")  # not ours
    made.close()
    made.send(alert(2))
    made.send(alert(3))
    assert numbers(path) == [3]
    made.close()


def test_a_full_disk_leaves_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "alerts.jsonl"
    made = sink(path)
    write = os.write

    def full(handle: int, text: bytes) -> int:
        if len(text) > 10:
            return write(handle, text[:10])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    error = raised(SinkDownError, lambda: made.send(alert(1)))
    expected = f"{path}: expected a file that can be written, found: No space left on device"
    assert error.message == expected
    monkeypatch.setattr(os, "write", write)
    made.send(alert(1))
    made.send(alert(2))
    assert numbers(path) == [1, 2]
    made.close()


def test_it_keeps_what_alert_sinks_promise(tmp_path: Path) -> None:
    path = tmp_path / "alerts.jsonl"
    check_alert_sink(
        lambda: sink(path),
        received=lambda: keys(path),
        down=lambda: sink(tmp_path / "no" / "such" / "alerts.jsonl"),
    )


def test_check_says_whether_it_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / "alerts.jsonl"
    assert sink(path).check() == f"{path} can be written; it is made with the first alert"
    assert not path.exists()
    path.write_text("{}\n")
    assert sink(path).check() == f"{path} can be written; it has 3 bytes"
    assert raised(SinkDownError, sink(tmp_path / "none" / "alerts.jsonl").check).message == (
        f"cannot write {tmp_path}/none/alerts.jsonl: found no folder {tmp_path}/none"
    )
    error = raised(SinkDownError, sink(tmp_path).check)
    assert error.message == f"cannot write {tmp_path}: expected a file, found a folder"
    with pytest.raises(SinkDownError, match="found: a folder"):
        sink(tmp_path).send(alert(1))
    with pytest.raises(ParameterError, match="file: expected an option, found an unknown one"):
        AlertLinesSink("log", {"path": "x", "file": "y"})


def test_files_in_and_lines_out_until_an_alarm_is_written(tmp_path: Path) -> None:
    """A file that grows, the real service, and the alarm as a line of another file."""
    logs, alerts = tmp_path / "logs", tmp_path / "alerts.jsonl"
    logs.mkdir()
    rng = np.random.default_rng(0)
    values = 20 + 5 * np.sin(np.arange(320) / 9) + rng.normal(0, 0.3, 320)
    values[290:] += 40
    written = [f"{1_767_225_600 + 60 * at},{value:.3f},OK\n" for at, value in enumerate(values)]
    (logs / "press-1.csv").write_text("time,temperature,state\n" + "".join(written[:250]))
    tables = f"""
[streams]
history = 200
[sources.logs]
kind = "files"
paths = ["{logs}"]
[sinks.log]
kind = "jsonl"
path = "{alerts}"
"""
    service = Newnormal(tmp_path / "service", tables)
    said = service.check().stdout
    size = (logs / "press-1.csv").stat().st_size
    assert f"ok      source logs: 1 file of 1 streams, {size:,} bytes; the columns are" in said
    assert f"ok      sink log: {alerts} can be written; it is made with the first alert" in said
    with service, service.client() as client:
        until(lambda: [each["state"] for each in client.streams()] == ["live"], "a fit")
        (logs / "press-1.csv").rename(logs / "press-1.csv.1")
        (logs / "press-1.csv").write_text("time,temperature,state\n" + "".join(written[250:]))
        until(alerts.exists, "an alert")
        found = json.loads(until(alerts.read_text, "a line").splitlines()[0])
        assert (found["kind"], found["status"], found["stream"]) == ("alarm", "fired", "press-1")
        assert found["channels"] == ["temperature"]
