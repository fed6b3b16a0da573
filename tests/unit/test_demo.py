"""The demo tells its story: the frozen detector never recovers, the adapting one does."""

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from newnormal import plots
from newnormal.cli import demo as command
from newnormal.cli.demo import table
from newnormal.runtime import demo as experiment
from newnormal.runtime.demo import PlantDemo, picture, run_demo


@pytest.fixture(scope="module")
def spoken() -> list[str]:
    return []


@pytest.fixture(scope="module")
def demo(spoken: list[str]) -> PlantDemo:
    return run_demo(seed=0, say=spoken.append)


def test_the_frozen_detector_never_recovers_and_the_adapting_one_does(demo: PlantDemo) -> None:
    frozen, adapting = demo.frozen, demo.adapting
    assert frozen.false_alarm_share > 0.95
    assert frozen.quiet_after is None
    assert frozen.f1 < 0.2
    assert adapting.false_alarm_share < 0.04
    assert adapting.quiet_after is not None
    assert np.timedelta64(1, "h") < adapting.quiet_after < np.timedelta64(6, "h")
    assert adapting.f1 > 0.7


def test_adapting_still_catches_what_is_labelled(demo: PlantDemo) -> None:
    assert demo.adapting.recall > 0.8
    assert demo.adapting.precision > 0.6
    assert demo.adapting.auroc > demo.frozen.auroc + 0.2
    assert demo.adapting.auprc > demo.frozen.auprc + 0.2


def test_before_the_shift_both_are_quiet(demo: PlantDemo) -> None:
    before = np.flatnonzero(demo.data.labels[: demo.data.shifts[0]] == 0)
    for row in (demo.frozen, demo.adapting):
        assert row.verdicts.anomalous[before].mean() < 0.02


def test_the_rows_count_what_they_say(demo: PlantDemo) -> None:
    after = np.arange(len(demo.data.test)) >= demo.data.shifts[0]
    normal = demo.data.labels == 0
    for row in (demo.frozen, demo.adapting):
        false = row.verdicts.anomalous & normal & after
        assert row.false_alarms == false.sum()
        assert row.false_alarm_share == false.sum() / (normal & after).sum()
        assert row.samples_per_second > 0


def test_the_settings_are_stated_and_differ_in_learning_alone(demo: PlantDemo) -> None:
    assert demo.frozen.settings == ("M2N2(fit_stride=1, detrend=False, adapt=False, threshold=1.0)")
    assert demo.adapting.settings == ("M2N2(fit_stride=1, half_life='1h', lr=0.03, threshold=1.0)")
    np.testing.assert_array_equal(
        demo.frozen.verdicts.thresholds, demo.adapting.verdicts.thresholds
    )


def test_the_trend_follows_the_level_shift(demo: PlantDemo) -> None:
    assert demo.trend.shape == demo.data.test.shape
    first, second = demo.data.shifts
    temperature = demo.trend[:, 0] / demo.data.train[:, 0].std()
    assert temperature[first + 1440 : second].mean() - temperature[:first].mean() > 2


def test_the_table_has_the_promised_columns_and_fits_a_terminal(demo: PlantDemo) -> None:
    sheet = table(demo)
    headings = [str(column.header).replace("\n", " ") for column in sheet.columns]
    assert headings == [
        "",
        "precision",
        "recall",
        "F1",
        "AUROC",
        "AUPRC",
        "false alarms after the shift",
        "samples a second",
    ]
    paper = io.StringIO()
    Console(width=80, file=paper).print(sheet)
    text = paper.getvalue()
    assert "…" not in text
    for row in (demo.frozen, demo.adapting):
        assert f"{row.f1:.2f}" in text
        assert f"{row.false_alarms:,} (" in text
        assert row.settings in text


def test_the_picture_is_small_enough_to_open_a_readme_with(demo: PlantDemo, tmp_path: Path) -> None:
    path = plots.save(picture(demo), tmp_path / "demo.png")
    assert 50_000 < path.stat().st_size < 400_000


def test_it_says_what_it_is_doing(demo: PlantDemo, spoken: list[str]) -> None:
    assert [line.split(":")[0] for line in spoken[1:]] == ["frozen"] * 2 + ["adapting"] * 2


@pytest.mark.parametrize(
    ("false", "hours"),
    [
        ([], 0.0),
        ([0, 1, 2], 3 / 60),
        ([0, 60], 61 / 60),  # 59 minutes between: not an hour
        ([0, 61], 1 / 60),
        ([200], 0.0),
        (range(200), None),
    ],
)
def test_quiet_is_an_hour_without_a_false_alarm(false: list[int], hours: float | None) -> None:
    flags = np.zeros(201, dtype=bool)
    flags[list(false)] = True
    quiet = experiment._quiet_after(flags, np.timedelta64(1, "m"))
    assert (None if quiet is None else quiet / np.timedelta64(1, "h")) == hours


def test_a_share_is_100_per_cent_only_where_it_is_all() -> None:
    assert experiment.percent(1.0) == "100 %"
    assert experiment.percent(0.99999) == "99.9 %"
    assert experiment.percent(0.0206) == "2.1 %"


def test_it_works_after_a_plain_install(
    without: Callable[..., None], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    without("sklearn", "scipy", "matplotlib")
    command.demo(seed=0, output=tmp_path / "x.png")
    out, err = capsys.readouterr()
    assert "AUPRC" in out
    first, *_, last = err.splitlines()
    assert first == (
        "no picture: matplotlib is needed for this and is not installed; "
        'pip install "newnormal[plot]"'
    )
    assert last == "next: newnormal fit HISTORY.csv -o plant.nn"
    assert not (tmp_path / "x.png").exists()
