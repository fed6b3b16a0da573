"""``python -m benchmarks.reporting``: how long a report takes to make, its size, and to open.

Verdicts are those of a detector's run, and of a fleet whose streams share one fit; the time that
judging takes is shown, and no part of making the page.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import facts
from benchmarks.opening import opened
from benchmarks.report import (
    NotMeasured,
    Row,
    Section,
    Target,
    summary,
    to_markdown,
    to_text,
)
from newnormal import Detector, Fleet, NewnormalWarning, report
from newnormal.tabular import Table
from newnormal.types import Floats

DOCS = Path(__file__).parents[1] / "docs"
COMMAND = "make bench-report"
HISTORY = 2_000
_ABOUT = "How long a report takes to make, and to open."
CAVEATS = (
    "A page is opened in Debian's Chromium without a display and without a GPU, so that the "
    "browser draws with the processor; each figure is the least of five rounds.",
    "Times need no more than this machine; what else runs on it makes them longer.",
)
_LARGEST, _OPENED = 10.0, 2.0  # MB and seconds
_MADE = (
    "One HTML file with all it needs: thinned by extremes, so that no spike is lost, and every "
    "sample around alarms and changes."
)
_SEEN = (
    "From the request until the headline is there, and until the picture shows samples. Then the "
    "longest time for which the page does not react: by its own drawing, and by anything, which "
    "is mostly the browser that parses the file and draws. Last, its own drawing while zooming."
)


def main() -> int:
    """Measure, print, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reporting", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a fast look: short series, no page")
    quick = parser.parse_args().quick
    length, streams = (20_000, 200) if quick else (1_000_000, 10_000)
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore", NewnormalWarning)
        runs = {
            f"{length:,} samples of 5 channels": partial(_stream, length, 5),
            f"{length:,} samples of 38 channels": partial(_stream, length, 38),
            f"{streams:,} streams of 200 samples, 4 channels": partial(_fleet, streams, 200, 4),
        }
        path = Path(name, "report.html")
        rows = [_rows(title, judge, path) for title, judge in runs.items()]
    sections = [
        Section("Making", (_MADE,), "what", [made for made, _ in rows]),
        Section("Opening", (_SEEN,), "what", [seen for _, seen in rows]),
    ]
    print("\n\n".join(to_text(each) for each in sections), summary(sections), sep="\n")
    if not quick:
        text = to_markdown(sections, facts(), CAVEATS, COMMAND, of="reports", about=_ABOUT)
        page = DOCS / "benchmarks-report.md"
        page.write_text(text, encoding="utf-8")
        print(f"wrote {page}", file=sys.stderr)
    return 0


def _rows(title: str, judge: Any, path: Path) -> tuple[Row, Row]:
    began = time.perf_counter()
    verdicts = judge()
    judged = time.perf_counter() - began
    began = time.perf_counter()
    report(verdicts, path, name=title)
    made = time.perf_counter() - began
    size = path.stat().st_size / 1e6
    figures = {"judging, s": judged, "making, s": made, "MB": size}
    target = Target("picture, s", _OPENED)
    try:
        seen = Row(title, opened(path), target)
    except NotMeasured as error:
        seen = Row(title, {}, target, str(error))
    return Row(title, figures, Target("MB", _LARGEST)), seen


def _series(length: int, channels: int, seed: int) -> Floats:
    rng = np.random.default_rng(seed)
    waves = np.sin(np.arange(length)[:, None] / np.linspace(50, 500, channels))
    return np.asarray(waves + rng.normal(0, 0.1, (length, channels)))


def _detector(channels: int) -> Detector:
    return Detector(epochs=1, alarms_per_day=0.5).fit(
        _series(HISTORY, channels, 0), times=_times(HISTORY, 0)
    )


def _times(length: int, first: int) -> Any:
    return np.datetime64("2024-01-01", "s") + 60 * np.arange(first, first + length)


def _stream(length: int, channels: int) -> Any:
    """Judge a long series with a spike, some faults and a new level."""
    live = _series(length, channels, 1)
    live[length // 3, 0] += 30.0
    for start in range(length // 20, length, length // 20):
        live[start : start + 15, start % channels] += 4.0
    live[-length // 50 :, 1] += 2.0
    return _detector(channels).run(Table(live, None, _times(length, HISTORY)))


def _fleet(streams: int, length: int, channels: int) -> Any:
    """Judge many streams: a fault in every tenth, and in every hundredth until the end."""
    fitted = _detector(channels)
    fleet = Fleet()
    tables = {}
    for nth in range(streams):
        name = f"machine-{nth:05}"
        fleet.add(name, fitted)
        live = _series(length, channels, nth)
        if nth % 10 == 0:
            live[120:130, nth // 10 % channels] += 5.0
        if nth % 100 == 7:
            live[-5:] += 8.0
        tables[name] = Table(live, None, _times(length, HISTORY))
    return fleet.run(tables)


if __name__ == "__main__":
    sys.exit(main())
