"""SKAB and NAB as they are, where the benchmark data is: no edit, no option that is not shown."""

import json
from pathlib import Path

import numpy as np
import pytest

from newnormal.tabular import read
from tests.cli.conftest import Command
from tests.present import present

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
