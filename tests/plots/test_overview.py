"""The picture of a fleet: what needs attention first, as many streams as can be read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import newnormal
from newnormal import Event, Fleet, InputError, ParameterError, plots
from newnormal.plots.canvas import LIGHT
from tests.errors import raised
from tests.plots.runs import alarm, change, over, run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

pytest.importorskip("matplotlib", reason="needs the extra plot")


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.texts]


STREAMS = {
    "calm": run(),
    "was-in-alarm": run(events=over(alarm(1, 20, 30))),
    "waits": run(remaining=(change(1, 100),)),
    "in-alarm": run(remaining=(alarm(1, 280, 299, reason=None),)),
}


def test_those_that_need_attention_come_first() -> None:
    found = texts(newnormal.plot(STREAMS, name="plant"))
    assert found[0] == "plant: 4 streams: 1 in alarm, 1 change pending, 2 normal"
    names = [text for text in found if text in STREAMS]
    assert names == ["in-alarm", "waits", "was-in-alarm", "calm"]
    assert "Nothing unusual in 300 samples" in found
    assert found[2].startswith("In alarm since 2026-03-09 14:40: c1 71, expected 20 to 30; high")


def test_changes_have_the_colour_and_hatch_of_their_state() -> None:
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import to_hex

    back = (Event("reverted", 200, None, change=change(1, 100, "reverted")),)
    figure = newnormal.plot({"back": run(events=back), "waits": STREAMS["waits"]})
    bars = {
        to_hex(np.asarray(each.get_facecolor())[0]): each.get_hatch()
        for each in figure.axes[0].collections
        if isinstance(each, PolyCollection)
    }
    assert bars[LIGHT.reverted] is None
    assert bars[LIGHT.pending] == LIGHT.hatch("pending") != ""
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names[-2:] == ["change pending", "change reverted"]


def test_only_so_many_streams_are_drawn() -> None:
    many = {f"s{at:03}": run(30) for at in range(200)} | {"z": STREAMS["in-alarm"]}
    figure = newnormal.plot(many)
    assert "z" in texts(figure)
    assert "and 171 more streams, of less concern" in texts(figure)
    assert len(figure.axes) == 1
    two = texts(newnormal.plot(many, channels=["s003", "z"]))
    assert [text for text in two if text in many] == ["s003", "z"]
    with pytest.raises(ParameterError, match="channels: expected names of streams, found 'nobody'"):
        newnormal.plot(many, channels=["nobody"])


def test_labels_belong_to_one_stream() -> None:
    assert str(raised(InputError, lambda: newnormal.plot(STREAMS, labels=[0, 1]))) == (
        "labels: expected those of one stream, found a fleet's verdicts\n"
        "hint: draw one stream: newnormal.plot(verdicts[stream], labels=labels)"
    )


def test_streams_without_times_and_without_samples_can_be_drawn(tmp_path: Path) -> None:
    mixed = {"a": run(timed=False), "b": run(), "c": run(0), "d": run(1)}
    figure = newnormal.plot(mixed, dark=True)
    assert figure.axes[0].get_xlabel() == "sample"
    plots.save(figure, tmp_path / "x.png")
    plots.save(newnormal.plot({}), tmp_path / "x.png")
    plots.save(newnormal.plot({"c": run(0)}), tmp_path / "x.png")


def test_the_verdicts_of_a_fleet_can_be_drawn(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    histories = {name: rng.normal(size=(400, 2)) for name in ("web-1", "web-2", "web-3")}
    fleet = Fleet(alarms_per_day=0.2, epochs=1, workers=1).fit(histories)
    live = {name: history[:60].copy() for name, history in histories.items()}
    live["web-3"][50:] += 9
    found = fleet.run(live)
    figure = found.plot()
    assert texts(figure)[0] == "3 streams: 1 in alarm, 2 normal"
    assert next(text for text in texts(figure) if text in histories) == "web-3"
    plots.save(figure, tmp_path / "x.png")
    assert "<b>3 streams: 1 in alarm, 2 normal</b>" in found._repr_html_()
    assert repr(fleet) == "Fleet(3 streams, Detector(alarms_per_day=0.2, epochs=1))"
    shown = fleet._repr_html_()
    assert "web-3" in shown
    assert "web-1" not in shown
