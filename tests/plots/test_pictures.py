"""Pictures are written, whatever the verdicts, and nothing is lost on the way to the pixels."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import newnormal
from newnormal import plots
from newnormal.datasets import Dataset
from newnormal.errors import InputError, MissingExtraError
from newnormal.plots.stack import Ruler
from newnormal.plots.thinning import bin_starts, middle, outline, peaks, stretches
from newnormal.types import Floats, Ints, Observed, Times, Verdicts
from tests.errors import raised
from tests.present import present

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIGNATURES = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}


def judged(
    samples: int = 300,
    channels: int = 2,
    *,
    threshold: float = 4.0,
    times: Times | None = None,
    explained: bool = True,
) -> tuple[Floats, Verdicts, Ints]:
    """Return a series, verdicts on it and its labels."""
    values = np.random.default_rng(samples + channels).normal(size=(samples, channels))
    values[samples // 2 : samples // 2 + 5] += 6
    labels = np.zeros(samples, dtype=np.int64)
    labels[samples // 2 : samples // 2 + 10] = 1
    squares = values**2
    scores = squares.mean(axis=1)
    verdicts = Verdicts(
        scores=scores,
        thresholds=np.full(samples, threshold),
        anomalous=scores >= threshold,
        expected=np.zeros_like(values) if explained else None,
        shares=(squares / squares.sum(axis=1, keepdims=True)).astype(np.float32)
        if explained
        else None,
        times=times,
        channels=tuple(f"c{channel}" for channel in range(channels)),
    )
    return values, verdicts, labels


def minutes(count: int) -> Times:
    return np.datetime64("2026-01-01", "ns") + np.arange(count) * np.timedelta64(1, "m")


def names(figure: Figure) -> list[str]:
    return [name for axes in figure.axes if (name := axes.get_title(loc="left"))]


def drawn(values: Floats, verdicts: Verdicts, labels: Any = None, **options: Any) -> Figure:
    known = replace(verdicts, observed=Observed(values, np.full(values.shape[1], 2.0)))
    figure: Figure = newnormal.plot(known, labels=labels, **options)
    return figure


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf", ".PNG"])
def test_the_suffix_decides_the_format(tmp_path: Path, suffix: str) -> None:
    values, verdicts, labels = judged()
    path = plots.save(drawn(values, verdicts, labels), tmp_path / f"x{suffix}")
    assert path == tmp_path / f"x{suffix}"
    assert path.read_bytes().startswith(SIGNATURES[suffix.lower()])


def test_the_same_picture_is_the_same_file(tmp_path: Path) -> None:
    values, verdicts, labels = judged()
    once, again = (
        plots.save(drawn(values, verdicts, labels), tmp_path / name)
        for name in ("once.png", "again.png")
    )
    assert once.read_bytes() == again.read_bytes()


@pytest.mark.parametrize("samples", [1, 5_000])
@pytest.mark.parametrize("channels", [1, 100])
@pytest.mark.parametrize("timed", [False, True])
def test_any_size_can_be_drawn(tmp_path: Path, samples: int, channels: int, timed: bool) -> None:
    values, verdicts, labels = judged(samples, channels, times=minutes(samples) if timed else None)
    figure = drawn(values, verdicts, labels)
    assert len([name for name in names(figure) if name.startswith("c")]) == min(channels, 4)
    assert plots.save(figure, tmp_path / "x.png").stat().st_size > 5_000


@pytest.mark.parametrize("seconds", [0.001, 0.1, 7, 600, 20_000, 1e6])
def test_times_of_any_period_can_be_drawn(tmp_path: Path, seconds: float) -> None:
    period = np.timedelta64(round(seconds * 1e9), "ns")
    values, verdicts, labels = judged(times=np.datetime64("2026-01-01") + np.arange(300) * period)
    plots.save(drawn(values, verdicts, labels), tmp_path / "x.png")


@pytest.mark.parametrize("threshold", [np.inf, -np.inf, 0.0, 1e-30, 1e30])
def test_any_threshold_can_be_drawn(tmp_path: Path, threshold: float) -> None:
    values, verdicts, labels = judged(threshold=threshold)
    plots.save(drawn(values, verdicts, labels), tmp_path / "x.png")


@pytest.mark.parametrize("scores", [np.nan, 0.0, 1.0])
def test_scores_missing_zero_or_constant_can_be_drawn(tmp_path: Path, scores: float) -> None:
    values, verdicts, labels = judged()
    verdicts.scores[:] = scores
    verdicts.anomalous[:] = False
    present(verdicts.shares)[:] = np.nan
    plots.save(drawn(values, verdicts, labels), tmp_path / "x.png")


def test_missing_and_constant_values_can_be_drawn(tmp_path: Path) -> None:
    values, verdicts, labels = judged(channels=3)
    values[:, 0] = np.nan
    values[:, 1] = 5.0
    values[:100, 2] = np.nan
    plots.save(drawn(values, verdicts, labels), tmp_path / "x.png")


def test_a_model_that_explains_nothing_can_be_drawn(tmp_path: Path) -> None:
    values, verdicts, labels = judged(explained=False)
    figure = drawn(values, verdicts, labels)
    plots.save(figure, tmp_path / "x.png")
    assert "expected" not in [text.get_text() for text in figure.legends[0].get_texts()]


def test_the_channels_shown_are_those_behind_the_alarms() -> None:
    values, verdicts, labels = judged(channels=10)
    assert verdicts.shares is not None
    verdicts.shares[:] = 0
    verdicts.shares[:, 9] = 1  # most of what is no alarm
    verdicts.shares[verdicts.anomalous] = np.eye(10)[4]
    assert verdicts.anomalous.sum() < 150
    assert names(drawn(values, verdicts, labels, channels=1)) == ["c4", "ratio"]
    verdicts.anomalous[:] = False
    assert names(drawn(values, verdicts, labels, channels=1)) == ["c9", "ratio"]


def test_a_long_name_is_cut_and_dollars_are_not_mathematics(tmp_path: Path) -> None:
    values, verdicts, labels = judged()
    long = "plant." + "boiler." * 9 + "temperature"
    figure = drawn(values, replace(verdicts, channels=(long, "$\\bad{$")), labels)
    plots.save(figure, tmp_path / "x.png")
    cut = "plant.boiler.boiler.boiler.boi…iler.boiler.boiler.temperature"
    assert set(names(figure)[:2]) == {cut, "$\\bad{$"}


def test_times_are_used_unless_one_is_missing() -> None:
    _, verdicts, _ = judged(times=minutes(300))
    assert Ruler.of(verdicts).dates
    present(verdicts.times)[3] = np.datetime64("NaT")
    np.testing.assert_array_equal(Ruler.of(verdicts).x, np.arange(300))


def test_a_comparison_names_every_change_and_every_detector(tmp_path: Path) -> None:
    values, verdicts, labels = judged()
    data = Dataset("x", values, values, labels, ("a", "b"), np.timedelta64(1, "m"), shifts=(50, 90))
    runs = [plots.DetectorRun("One", "good", verdicts), plots.DetectorRun("Two", "", verdicts)]
    figure = plots.compare(
        data,
        runs,
        channels=("b",),
        trend=np.zeros_like(values),
        changes=("up", "faster"),
        days=True,
    )
    plots.save(figure, tmp_path / "x.png")
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["x", "One", "", "Two", ""]
    assert [text.get_text() for text in figure.axes[0].texts] == ["up", "faster"]
    assert figure.axes[1].get_ylim() == figure.axes[3].get_ylim()
    assert figure.axes[-1].get_xlim()[1] == pytest.approx(299 / 1440)
    apart = [runs[0], runs[1]._replace(verdicts=replace(verdicts, scores=10 * verdicts.scores))]
    plain = plots.compare(data, apart, channels=("a", "b"), heading="Two", comparable=False)
    assert [axes.get_ylabel() for axes in plain.axes[:2]] == ["a", "b"]
    assert plain.axes[2].get_ylim() != plain.axes[4].get_ylim()
    assert (plain.axes[0].get_title(loc="left"), plain.axes[-1].get_xlim()) == ("Two", (0, 299))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "x.jpg",
            "expected a picture ending in .pdf, .png, .svg, found '.jpg'\nhint: for example x.png",
        ),
        ("x", "expected a picture ending in .pdf, .png, .svg, found 'no ending'"),
        ("no/x.png", "expected an existing folder, found none at "),
    ],
)
def test_a_target_that_cannot_work_is_refused(tmp_path: Path, name: str, message: str) -> None:
    assert message in str(raised(InputError, lambda: plots.check_target(tmp_path / name)))


def test_without_matplotlib_the_error_says_what_to_install(
    without: Callable[..., None], tmp_path: Path
) -> None:
    without("matplotlib")
    values, verdicts, labels = judged()
    for call in (
        lambda: plots.check_target(tmp_path / "x.png"),
        lambda: drawn(values, verdicts, labels),
    ):
        assert str(raised(MissingExtraError, call)) == (
            "matplotlib is needed for this and is not installed\n"
            'hint: pip install "newnormal[plot]"'
        )


def test_pyplot_is_never_loaded_and_matplotlib_only_when_drawing(tmp_path: Path) -> None:
    script = f"""
import sys
import numpy as np
import newnormal
from newnormal import plots
from newnormal.types import Observed, Verdicts
assert "matplotlib" not in sys.modules
ones = np.ones(50)
seen = Observed(ones[:, None])
verdicts = Verdicts(ones, 2 * ones, ones > 2, None, None, None, ("a",), observed=seen)
figure = newnormal.plot(verdicts, labels=ones)
for suffix in (".png", ".svg", ".pdf"):
    plots.save(figure, {str(tmp_path / "x")!r} + suffix)
assert "matplotlib" in sys.modules
assert "matplotlib.pyplot" not in sys.modules
"""
    subprocess.run([sys.executable, "-W", "error", "-c", script], check=True)


def test_figures_can_be_drawn_in_threads(tmp_path: Path) -> None:
    values, verdicts, labels = judged()

    def draw(number: int) -> bytes:
        figure = drawn(values, verdicts, labels)
        return plots.save(figure, tmp_path / f"{number}.png").read_bytes()

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(draw, range(4)))) == 1


@given(st.integers(1, 500), st.integers(1, 50), st.integers(0, 2**32 - 1))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_thinning_loses_no_extreme_no_flag_and_no_mean(samples: int, bins: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = np.arange(samples, dtype=np.float64)
    y = np.where(rng.random(samples) < 0.2, np.nan, rng.normal(size=samples))
    flags = rng.random(samples) < 0.1

    starts = bin_starts(samples, bins)
    assert len(starts) == min(samples, bins)
    assert starts[0] == 0
    assert (np.diff(starts) >= 1).all()

    _, line = outline(x, y, bins)
    assert len(line) <= max(2 * bins, 1)
    np.testing.assert_array_equal(
        np.nan_to_num([np.fmin.reduce(line), np.fmax.reduce(line)]),
        np.nan_to_num([np.fmin.reduce(y), np.fmax.reduce(y)]),
    )

    _, centre = middle(x, y, bins)
    pieces = np.split(y, starts[1:])
    np.testing.assert_array_equal(np.isnan(centre), [np.isnan(piece).all() for piece in pieces])

    _, tops = peaks(x, y, flags, bins)
    assert len(tops) == sum(
        not np.isnan(piece[flag]).all()
        for piece, flag in zip(pieces, np.split(flags, starts[1:]), strict=True)
        if flag.any()
    )

    spans = stretches(x, flags, bins)
    for at in np.flatnonzero(flags):
        assert any(start <= at <= start + width for start, width in spans)
    if samples <= bins:
        assert sum(width for _, width in spans) == flags[:-1].sum()
