"""The picture of a run says what happened, where and since when, whatever happened."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import newnormal
from newnormal import InputError, ParameterError, plots
from newnormal.plots.canvas import DARK, LIGHT
from newnormal.types import Event, Floats, Timeline, Verdicts
from tests.errors import raised
from tests.plots.runs import alarm, change, over, run
from tests.present import present

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import Collection
    from matplotlib.figure import Figure

pytest.importorskip("matplotlib", reason="needs the extra plot")


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.texts]


def titles(figure: Figure) -> dict[str, str]:
    return {
        name: axes.get_title(loc="right")
        for axes in figure.axes
        if (name := axes.get_title(loc="left"))
    }


def lane(figure: Figure, name: str) -> Axes:
    (found,) = [axes for axes in figure.axes if name in (t.get_text() for t in axes.texts)]
    return found


def written(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.texts[1:]]


def marks(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def corners(found: Collection) -> list[Floats]:
    """Return the corners of each shape of a collection, (N, 2)."""
    return [np.asarray(path.vertices) for path in found.get_paths()]


def colours(axes: Axes) -> set[str]:
    from matplotlib.colors import to_hex

    found: list[Any] = [each.get_facecolor() for each in axes.collections]
    return {to_hex(colour).lower() for part in found for colour in part}


def test_an_open_alarm_is_the_headline() -> None:
    events = over(alarm(1, 20, 30, ratio=99.0))
    figure = newnormal.plot(run(events=events, remaining=(alarm(2, 280, 299, reason=None),)))
    assert texts(figure)[0] == ("In alarm since 2026-03-09 14:40: c1 71, expected 20 to 30; high")
    assert texts(figure)[1] == ("2026-03-09 10:00 to 14:59, 300 samples of 3 channels · 2 alarms")
    assert texts(figure)[2:] == [
        "2   2026-03-09 14:40: c1 71, expected 20 to 30; high, still open",
        "1   2026-03-09 10:20: c1 71, expected 20 to 30; high for 11 min",
    ]


@pytest.mark.parametrize(
    ("made", "headline"),
    [
        ({}, "Nothing unusual in 300 samples"),
        (
            {"events": over(alarm(1, 20, 30))},
            "One alarm, over by now: 2026-03-09 10:20: c1 71, expected 20 to 30; high for 11 min",
        ),
        (
            {"events": over(alarm(1, 20, 30), alarm(2, 50, 51, ratio=5.0))},
            "2 alarms, all over by now; the highest: 2026-03-09 10:50: c1 71, expected 20 to 30; "
            "high for 2 min",
        ),
        (
            {"remaining": (change(3, 100),)},
            "Change pending, since 2026-03-09 11:40: c0 from 1 to 2",
        ),
        (
            {"remaining": (change(3, 100, "rejected"),)},
            "Change rejected, since 2026-03-09 11:40: c0 from 1 to 2",
        ),
        (
            {"events": (Event("accepted", 200, None, change=change(3, 100, "accepted")),)},
            "No alarms; a change was accepted, since 2026-03-09 11:40: c0 from 1 to 2",
        ),
    ],
    ids=["nothing", "one", "two", "pending", "rejected", "accepted"],
)
def test_the_headline_says_what_happened_and_since_when(made: Any, headline: str) -> None:
    assert headline in " ".join(texts(newnormal.plot(run(**made)))[:2])


def test_without_times_there_are_sample_numbers() -> None:
    figure = newnormal.plot(
        run(timed=False, first=1_000, remaining=(alarm(1, 1_280, 1_299, reason=None, timed=False),))
    )
    assert texts(figure)[0].startswith("In alarm since sample 1,280: ")
    assert figure.axes[-1].get_xlabel() == "sample"
    assert figure.axes[-1].get_xlim() == (1_000, 1_299)


def test_times_are_those_of_the_zone() -> None:
    verdicts = run(zone="Europe/Berlin", remaining=())
    figure = newnormal.plot(verdicts)
    assert texts(figure)[1].startswith("2026-03-09 11:00 to 15:59")
    figure.canvas.draw()
    assert "12:00" in [label.get_text() for label in figure.axes[-1].get_xticklabels()]
    assert figure.axes[-1].get_xlabel() == "Europe/Berlin"
    newnormal.plot(replace(verdicts, zone="+05:30")).canvas.draw()


def test_names_are_not_mathematics(tmp_path: Path) -> None:
    odd = "$\\bad{$"
    verdicts = replace(
        run(remaining=(alarm(1, 280, 299, reason=None, channel=odd),)), channels=(odd, "b", "c")
    )
    plots.save(newnormal.plot(verdicts, name=odd), tmp_path / "x.png")


def test_channels_concerned_come_first_and_say_by_what() -> None:
    events = over(alarm(1, 20, 30, channel="c30"), alarm(2, 60, 61, channel="c30"))
    figure = newnormal.plot(run(channels=38, events=events, remaining=(change(1, 90),)))
    assert titles(figure) == {
        "c0": "change 1 pending",
        "c30": "alarms 1 and 2",
        "c1": "",
        "c2": "",
        "ratio": "",
    }
    written = " · ".join(texts(figure))
    assert "300 samples of 38 channels · 2 alarms, 1 change (1 pending)" in written
    assert "4 of 38 channels shown, those concerned" in written


def test_channels_can_be_chosen_by_number_and_by_name() -> None:
    verdicts = run(channels=6)
    assert list(titles(verdicts.plot(channels=1))) == ["c0", "ratio"]
    assert list(titles(verdicts.plot(channels=["c5", "c2"]))) == ["c5", "c2", "ratio"]
    assert list(titles(verdicts.plot(channels="c4"))) == ["c4", "ratio"]
    assert str(raised(ParameterError, lambda: verdicts.plot(channels=["c9"]))) == (
        "channels: expected names of channels, found 'c9'\n"
        "hint: the channels are c0, c1, c2, c3, c4, c5"
    )
    with pytest.raises(ParameterError, match="channels: expected at least 1, found 0"):
        verdicts.plot(channels=0)


def test_a_channel_has_its_value_what_was_expected_the_range_and_what_is_beyond() -> None:
    verdicts = run(channels=1)
    (panel,) = [axes for axes in verdicts.plot().axes if axes.get_title(loc="left") == "c0"]
    expected, values = panel.lines
    np.testing.assert_array_equal(values.get_ydata(), present(verdicts.observed).values[:, 0])
    np.testing.assert_array_equal(expected.get_ydata(), np.full(300, 25.0))
    edges = corners(panel.collections[0])[0][:, 1]
    assert (edges.min(), edges.max()) == (20.0, 30.0)
    assert {"value", "expected", "expected range"} <= set(marks(verdicts.plot()))
    ratios = np.zeros((300, 1), np.float32)
    ratios[[70, 71, 90]] = 1.5
    own = np.linspace(20, 24, 300)[:, None]
    figure = replace(verdicts, lows=own, highs=own + 9, channel_ratios=ratios).plot()
    panel, ratio = figure.axes[1:]
    edges = corners(panel.collections[0])[0][:, 1]
    assert (edges.min(), edges.max()) == (20, 33)
    assert np.flatnonzero(~np.isnan(panel.lines[-1].get_ydata())).tolist() == [70, 71, 90]
    assert marks(figure)[2:6] == ["expected range", "beyond it", "ratio", "limit"]
    assert set(ratio.lines[-1].get_ydata()) == {1.0}


def test_alarms_have_their_numbers_and_stretches() -> None:
    axes = lane(newnormal.plot(run(events=over(alarm(7, 20, 30), alarm(8, 200, 220)))), "alarms")
    assert written(axes) == ["7", "8"]
    (bars,) = axes.collections
    spans = [each[:, 0] for each in corners(bars)]
    minutes = [(each.max() - each.min()) * 1440 for each in spans]
    np.testing.assert_allclose(minutes, [10, 20], atol=1e-3)


def test_many_alarms_have_as_many_numbers_as_there_is_room_for() -> None:
    found = [alarm(at + 1, 5 * at, 5 * at + 1, ratio=2.0 + (at == 30)) for at in range(52)]
    figure = newnormal.plot(run(events=over(*found)))
    numbers = written(lane(figure, "alarms"))
    assert numbers[0] == "31"  # the highest has its number first
    assert 20 < len(numbers) < 52
    assert "and 47 more of lower peaks" in texts(figure)
    assert len(texts(figure)) < 12


def test_changes_are_bands_in_the_colour_of_their_state() -> None:
    events = (
        Event("changed", 100, None, change=change(1, 90)),
        Event("accepted", 150, None, change=change(1, 90, "accepted")),
    )
    waiting = change(2, 120, channels=("c2",))
    figure = newnormal.plot(run(events=events, remaining=(waiting,)))
    axes = lane(figure, "changes")
    assert sorted(written(axes)) == ["1 accepted", "2 pending"]
    assert LIGHT.pending.lower() in colours(axes)
    shapes = [shape for each in axes.collections for shape in corners(each)]
    heights = {round(float(shape[:, 1].min()), 3) for shape in shapes}
    assert len(heights) == 2  # they overlap: each has a row
    assert {"change pending", "change accepted"} <= set(marks(figure))


def test_alarms_are_true_or_false_only_where_there_are_labels_from_their_beginning() -> None:
    labels = np.zeros(300, dtype=np.int64)
    labels[15:40] = 1
    figure = newnormal.plot(run(events=over(alarm(1, 20, 30), alarm(2, 200, 220))), labels=labels)
    assert colours(lane(figure, "alarms")) == {LIGHT.alarm.lower(), LIGHT.true.lower()}
    assert {"labelled", "true alarm", "false alarm"} <= set(marks(figure))
    assert lane(figure, "labels").collections
    figure = newnormal.plot(run(events=over(alarm(1, 20, 30))))
    words = " ".join([*texts(figure), *marks(figure)])
    assert "false" not in words
    assert "true" not in words
    assert "alarm" in marks(figure)
    assert colours(lane(figure, "alarms")) == {LIGHT.alarm.lower()}
    events = (Event("closed", 121, None, alarm(1, 80, 120)),)
    figure = newnormal.plot(run(first=100, events=events), labels=np.zeros(300))
    assert colours(lane(figure, "alarms")) == {LIGHT.line.lower()}


@pytest.mark.parametrize("samples", [1, 2, 40])
@pytest.mark.parametrize("timed", [False, True])
def test_a_few_samples_can_be_drawn(tmp_path: Path, samples: int, timed: bool) -> None:
    opened = alarm(1, 0, samples - 1, reason=None, timed=timed)
    figure = newnormal.plot(run(samples, timed=timed, remaining=(opened, change(1, 0))))
    assert plots.save(figure, tmp_path / "x.png").stat().st_size > 5_000


def test_one_sample_and_values_between_missing_ones_are_dots() -> None:
    figure = newnormal.plot(run(1, remaining=(alarm(1, 0, 0, reason=None),)))
    (bar,) = corners(lane(figure, "alarms").collections[0])
    low, high = figure.axes[0].get_xlim()
    assert low < bar[:, 0].min() < bar[:, 0].max() < high
    (panel,) = [axes for axes in figure.axes if axes.get_title(loc="left") == "c1"]
    assert "." in {line.get_marker() for line in panel.lines}
    verdicts = run(channels=1)
    assert verdicts.observed is not None
    verdicts.observed.values[1::2] = np.nan
    (panel,) = [axes for axes in verdicts.plot().axes if axes.get_title(loc="left") == "c0"]
    (dots,) = [line for line in panel.lines if line.get_marker() == "."]
    np.testing.assert_array_equal(dots.get_ydata(), verdicts.observed.values[::2, 0])


def test_a_spike_does_not_flatten_the_rest() -> None:
    verdicts = run(channels=1)
    present(verdicts.observed).values[100] = 1e6
    (panel,) = [axes for axes in verdicts.plot().axes if axes.get_title(loc="left") == "c0"]
    assert panel.get_ylim()[1] < 60
    assert np.nanmax(np.asarray(panel.lines[-1].get_ydata())) == 1e6  # it leaves the panel


def test_no_samples_is_a_picture_that_says_so(tmp_path: Path) -> None:
    figure = newnormal.plot(run(0), name="live.csv")
    assert texts(figure) == ["live.csv: no samples"]
    plots.save(figure, tmp_path / "x.png")


def test_missing_values_and_a_gap_in_time_are_gaps_in_the_line(tmp_path: Path) -> None:
    verdicts = run()
    assert verdicts.observed is not None
    verdicts.observed.values[50:100] = np.nan
    verdicts.observed.values[:, 1] = np.nan
    verdicts.scores[50:100] = np.nan
    plots.save(verdicts.plot(), tmp_path / "x.png")
    verdicts = run()
    present(verdicts.times)[200:] += np.timedelta64(1, "D")
    panels = verdicts.plot(channels=1).axes
    (panel,) = [axes for axes in panels if axes.get_title(loc="left") == "c0"]
    assert np.flatnonzero(np.isnan(np.asarray(panel.lines[-1].get_ydata()))).tolist() == [200]


def test_a_model_without_alarms_shows_its_anomalous_samples() -> None:
    verdicts = replace(run(), ratios=None, p_values=None, alarms=None, distances=None, changes=None)
    verdicts.scores[30:32] = 9.0
    verdicts.anomalous[30:32] = True
    figure = newnormal.plot(verdicts)
    assert texts(figure)[0] == "2 of 300 samples anomalous"
    assert lane(figure, "anomalous").collections
    assert titles(figure)["ratio"] == "2 anomalous"


def test_a_million_samples_are_few_points_and_few_seconds() -> None:
    verdicts = run(1_000_000, 2, remaining=(alarm(1, 999_000, 999_999, reason=None),))
    present(verdicts.observed).values[123_456, 0] = 1e6
    started = time.perf_counter()
    figure = newnormal.plot(verdicts, channels=["c0"])
    assert time.perf_counter() - started < 10  # about one
    lines = [np.asarray(line.get_ydata()) for axes in figure.axes for line in axes.lines]
    assert max(map(len, lines)) < 5_000
    assert max(np.nanmax(line) for line in lines) == 1e6


def test_dark_paper_is_dark() -> None:
    from matplotlib.colors import to_hex

    figure = newnormal.plot(run(events=over(alarm(1, 20, 30))), dark=True)
    assert to_hex(figure.get_facecolor()) == DARK.paper
    assert {to_hex(axes.get_facecolor()) for axes in figure.axes} <= {DARK.paper, DARK.ground}
    assert {text.get_color() for text in figure.texts} <= {DARK.ink, DARK.quiet}
    assert colours(lane(figure, "alarms")) == {DARK.alarm.lower()}


def test_a_notebook_shows_the_figure_without_pyplot() -> None:
    data, size = newnormal.plot(run())._repr_png_()  # type: ignore[attr-defined]
    assert data.startswith(b"\x89PNG")
    assert 500 < size["width"] < 1_000


def test_verdicts_and_timelines_are_drawn_alike(tmp_path: Path) -> None:
    verdicts = run(events=over(alarm(1, 20, 30)))
    one = plots.save(verdicts.plot(name="live"), tmp_path / "1.png")
    two = plots.save(newnormal.plot(Timeline.of(verdicts, "live")), tmp_path / "2.png")
    assert one.read_bytes() == two.read_bytes()


def test_what_cannot_be_drawn_and_labels_of_another_length_are_refused() -> None:
    assert str(raised(InputError, lambda: newnormal.plot(np.ones(3)))) == (
        "expected verdicts to draw, found ndarray\n"
        "hint: pass what detector.run(series), detector.score(series) or fleet.run(...) returns"
    )
    ones = np.ones(3)
    with pytest.raises(InputError, match="expected verdicts that know the samples they are about"):
        newnormal.plot(Verdicts(ones, ones, ones > 1, None, None, None, ("a",)))
    assert str(raised(InputError, lambda: run().plot(labels=[0, 1]))) == (
        "labels: expected one for each of 300 samples, found shape (2,)\n"
        "hint: pass 0 or 1 a sample, in the order of the series"
    )
