"""``python -m benchmarks.fleet``: measure the fleet in one run, write docs/benchmarks-fleet.md."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path

from benchmarks import fleet_fit, fleet_memory, fleet_tick
from benchmarks.fleet_watch import watch_cost
from benchmarks.machine import facts
from benchmarks.report import Row, Section, Target, summary, to_markdown, to_text
from newnormal import Fleet
from newnormal.types import Floats, Times

DOCS = Path(__file__).parents[1] / "docs"
COMMAND = "make bench-fleet"
CAVEATS = (
    "All cores work, and times are by the wall clock: another program on the machine makes every "
    "figure worse. What is compared is measured in turns, within the same seconds.",
    "Streams are copies of one detector with noise of their own, at a sample a minute.",
)


def main() -> int:
    """Measure, print, and write the page and the picture."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fleet", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a fast look: few streams, no page")
    quick = parser.parse_args().quick
    machine = facts() | {"processor": facts()["processor"].replace("one used", "all used")}
    sections = []
    counts = fleet_memory.COUNTS[:3] if quick else fleet_memory.COUNTS
    points = fleet_memory.points(counts=counts)
    parts: list[Callable[[bool], Section]] = [fleet_tick.measure, _disk, _fitting, _watching]
    parts.append(partial(fleet_memory.measure, points))
    for measure in parts:
        sections.append(measure(quick))
        print(f"{to_text(sections[-1])}\n", flush=True)
    print(summary(sections))
    if not quick:
        _write(sections, machine, points)
    return 0


def _fitting(quick: bool) -> Section:
    rows = []
    for streams, samples, channels in fleet_fit.CASES[: 1 if quick else None]:
        one, two = fleet_fit.fitting_ratio(streams, samples, channels)
        rows.append(
            Row(
                f"{streams} streams of {samples:,} samples and {channels} channels",
                {"one process, s": one, "two, s": two, "times faster": one / two},
                Target("times faster", 1.7, at_least=True),
            )
        )
    notes = ("`fit` in two processes beside one, starting the other process included.",)
    return Section("Fitting", notes, "what", rows)


def _disk(quick: bool) -> Section:
    """Measure what log, checkpoints, save and load cost beside a tick."""
    streams, channels = (500, 5) if quick else fleet_tick.CASES[0]
    fleet, _ = fleet_tick.fleet_of(streams, channels, distinct=False)
    samples, times = fleet_tick.live(streams, channels, 120, 0)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plant.fleet"
        began = time.perf_counter()
        fleet.save(path)
        saving = time.perf_counter() - began
        size = sum(each.stat().st_size for each in path.rglob("*") if each.is_file())
        began = time.perf_counter()
        loaded = Fleet.load(path)
        loading = time.perf_counter() - began
        plain = _ticks(loaded, samples, times)
        with Fleet.open(Path(folder) / "plant.state", fleet) as opened:
            logged = _ticks(opened, samples, times)
    name = f"{streams:,} streams of {channels} channels"
    rows.append(Row(f"{name}: a tick in memory", {"ms": 1e3 * plain}))
    rows.append(Row("the same, logged, with its checkpoints", {"ms": 1e3 * logged}))
    rows.append(Row("save", {"ms": 1e3 * saving, "MB": size / 1e6}))
    rows.append(Row("load", {"ms": 1e3 * loading}))
    notes = ("`Fleet.open(folder)` beside `Fleet.load(folder)`, mean of 120 ticks.",)
    return Section("On disk", notes, "what", rows)


def _ticks(fleet: Fleet, samples: Floats, times: Times) -> float:
    began = time.perf_counter()
    for tick, when in zip(samples, times, strict=True):
        fleet.step(tick, when)
    return (time.perf_counter() - began) / len(samples)


def _watching(quick: bool) -> Section:
    found = watch_cost(streams=50, lines=6_000) if quick else watch_cost()
    row = Row(
        f"{found.streams} streams of {found.channels} channels, {found.lines:,} lines",
        {
            "µs a line": found.fleet_us,
            "one stream's": found.one_us,
            "times": found.ratio,
            "MB": found.fleet_mb,
        },
        Target("times", 2.0),
    )
    memory = Row("the same, its memory", {"MB": found.fleet_mb}, Target("MB", 1_000))
    notes = ("`newnormal watch --by` of interleaved lines beside one stream's `watch`.",)
    return Section("Watching", notes, "what", [row, memory])


def _write(
    sections: list[Section], machine: dict[str, str], points: list[fleet_memory.Point]
) -> None:
    page, raw = DOCS / "benchmarks-fleet.md", DOCS / "benchmarks-fleet.json"
    text = to_markdown(sections, machine, CAVEATS, COMMAND, of="the fleet")
    picture = "![cost and memory against streams](img/fleet.png)\n"
    page.write_text(f"{text}\n## Against the number of streams\n\n{picture}", encoding="utf-8")
    figures = {
        "machine": machine,
        "sections": [asdict(section) for section in sections],
        "points": points,
    }
    raw.write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    _draw(points, DOCS / "img" / "fleet.png")
    print(f"wrote {page}, {raw} and the picture", file=sys.stderr)


def _draw(points: list[fleet_memory.Point], path: Path) -> None:
    """Draw the cost of a tick and the memory of the process against the number of streams."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    streams = [point["streams"] for point in points]
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    cost = [1e6 * point["seconds"] / point["streams"] for point in points]
    left.plot(streams, cost, "o-", color="#1f6fb2")
    left.set(xscale="log", yscale="log", xlabel="streams", ylabel="µs a stream")
    left.set_title("A tick: one sample of each stream")
    memory = [point["resident"] / 1e6 for point in points]
    right.plot(streams, memory, "o-", color="#1f6fb2")
    right.set(xscale="log", yscale="log", xlabel="streams", ylabel="MB")
    right.set_title("Memory of the whole process")
    for axes, values, unit in ((left, cost, "µs"), (right, memory, "MB")):
        axes.grid(alpha=0.3, which="both", linewidth=0.5)
        axes.margins(x=0.08, y=0.15)
        for at in (0, -1):
            axes.annotate(
                f"{values[at]:,.3g} {unit}" if values[at] < 1000 else f"{values[at]:,.0f} {unit}",
                (streams[at], values[at]),
                textcoords="offset points",
                xytext=(6, 8) if at == 0 else (-10, 8),
                ha="left" if at == 0 else "right",
            )
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    sys.exit(main())
