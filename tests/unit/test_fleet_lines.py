"""Verdicts of a fleet as lines: those of each stream's own detector, with its name first."""

from __future__ import annotations

import json

import numpy as np
import pytest

from newnormal import M2N2, Detector, Fleet
from newnormal.base import BaseDetector
from newnormal.tabular import Table


def series(seed: int, count: int, channels: tuple[str, ...], start: int = 0) -> Table:
    rng = np.random.default_rng(seed)
    at = np.arange(start, start + count)
    values = np.sin(at[:, None] / [7, 11]) + rng.normal(0, 0.1, (count, 2))
    values[values > 1.2] = np.nan
    times = np.datetime64("2026-01-01", "ns") + at * np.timedelta64(60, "s")
    return Table(values, channels, times.astype("datetime64[ns]"))


@pytest.mark.parametrize(
    "detector",
    [Detector(epochs=1), M2N2(window=6, stride=3, epochs=1)],
    ids=["compiled", "one by one"],
)
def test_a_line_is_that_of_the_streams_own_detector_with_its_name_first(
    detector: BaseDetector,
) -> None:
    channels = {'we"b': ("a", "b"), "db": ("ä%", "d")}
    histories = {name: series(at, 300, own) for at, (name, own) in enumerate(channels.items())}
    fleet = Fleet(detector, workers=1).fit(histories)
    twins = {name: fleet[name] for name in fleet}
    live = {name: series(at + 7, 41, own, 300) for at, (name, own) in enumerate(channels.items())}
    lines = fleet.run(live, flush=False).json_lines()
    expected = []
    for name, table in live.items():
        verdicts = twins[name].run(table, flush=False)
        final = len(verdicts) - twins[name].counters["pending"]
        start = f'{{"stream": {json.dumps(name)}, '
        expected += [start + line[1:] for line in verdicts.json_lines(0, final)]
    assert lines == expected
    assert next(iter(json.loads(lines[0]))) == "stream"


def test_a_sample_that_is_not_taken_is_a_line_with_its_error() -> None:
    channels = ("a", "b")
    fleet = Fleet(epochs=1, workers=1).fit({name: series(1, 300, channels) for name in ("x", "y")})
    lines = fleet.step({"x": [0.1, np.inf], "y": [0.1, 0.2]}).json_lines()
    first, second = map(json.loads, lines)
    assert list(first) == ["stream", "error", "hint"]
    assert first["error"] == "sample 0: channel 'b' is infinite"
    assert (second["stream"], second["sample"]) == ("y", 0)
