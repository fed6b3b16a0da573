"""Ten million samples: whether memory stays flat and cost linear."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

from benchmarks.report import NotMeasured, Row, Section, Target
from benchmarks.series import correlated
from benchmarks.timing import Task, in_turns
from newnormal import M2N2
from newnormal.types import Floats

WINDOW, CHANNELS, LATENT = 5, 4, 2
CHUNK = 100_000  # samples handed to `run` at once
FLAT = 1.0  # MB
LINEAR = 1.25

NOTES = (
    f"An adapting detector at (window, channels, latent) = ({WINDOW}, {CHANNELS}, {LATENT}).",
    f"Memory: resident memory of the process after a warm-up of a tenth, and the most above that "
    f"while the rest streams through: `run(flush=False)` in stretches of {CHUNK:,} samples, then "
    f"`step`.",
    "Cost: a million samples, handed to `run` in stretches of growing length. Linear means that a "
    "sample of a long one costs no more than one of a short one.",
)


def measure(quick: bool) -> Section:
    """Stream through `run` and `step`, then time growing series."""
    share = 100 if quick else 1
    series = correlated(1_000_000, CHANNELS)
    detector = M2N2(window=WINDOW, latent=LATENT).fit(series[:CHUNK])
    rows = [
        *_memory(detector, series, "run", 10_000_000 // share),
        *_memory(detector, series, "step", 500_000 // share),
        *_cost(detector, series, rounds=3 if quick else 15),
    ]
    return Section("Long streams", NOTES, "samples", rows)


def _memory(detector: M2N2, series: Floats, verb: str, samples: int) -> list[Row]:
    name = f"{samples:,} through {verb}"
    chunk = min(CHUNK, samples // 10)
    detector.reset()
    warm, growth, done = 0, 0, 0
    try:
        while done < samples:
            at = done % (len(series) - chunk + 1)
            _feed(detector, series[at : at + chunk], verb)
            done += chunk
            if done <= samples // 10:
                gc.collect()
                warm = resident_bytes()
            growth = max(growth, resident_bytes() - warm)
    except NotMeasured as reason:
        return [Row(name, skipped=str(reason))]
    figures = {"resident, MB": warm / 1e6, "grew by, MB": growth / 1e6}
    return [Row(name, figures, Target("grew by, MB", FLAT))]


def _feed(detector: M2N2, samples: Floats, verb: str) -> None:
    if verb == "run":
        detector.run(samples, flush=False)
    else:
        for sample in samples:
            detector.step(sample)


def _cost(detector: M2N2, series: Floats, rounds: int) -> list[Row]:
    lengths = (10_000, 100_000, len(series))
    times = in_turns(rounds, *(_in_stretches(detector, series, length) for length in lengths))
    grows = f"of the cost at {lengths[0]:,}"
    return [
        Row(
            f"{length:,} at once",
            {"ns a sample": taken.best * 1e9, grows: taken.best / times[0].best},
            Target(grows, LINEAR) if length > lengths[0] else None,
        )
        for length, taken in zip(lengths, times, strict=True)
    ]


def _in_stretches(detector: M2N2, series: Floats, length: int) -> Task:
    def work(fresh: M2N2) -> None:
        for at in range(0, len(series), length):
            fresh.run(series[at : at + length], flush=False)

    return Task(detector.reset, work, len(series))


def resident_bytes() -> int:
    """Return how much memory this process has resident, where the system says."""
    status = Path("/proc/self/statm")
    if not status.exists():
        raise NotMeasured(f"resident memory is read from /proc, which {sys.platform} has not")
    import resource

    return int(status.read_text().split()[1]) * resource.getpagesize()
