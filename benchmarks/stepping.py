"""Sample by sample against whole stretches."""

from __future__ import annotations

from benchmarks.report import Row, Section, Target
from benchmarks.series import correlated
from benchmarks.timing import Task, in_turns
from newnormal import M2N2
from newnormal.types import Floats

NOTES = (
    "The same adapting loop fed by `step`, a sample a call, and by `run`, at once. The difference "
    "is what a call from Python costs: checking the sample, entering the compiled code, making "
    "the verdicts.",
)


def measure(quick: bool) -> Section:
    """Time `step` and `run` over the same samples."""
    rounds = 20 if quick else 200
    series = correlated(6_500, 38)  # short rounds find an undisturbed moment
    history, live = series[:6_000], series[6_000:]
    rows = []
    for stride, target in ((5, Target("step costs more, µs", 15)), (1, None)):
        detector = M2N2(window=5, latent=16, stride=stride).fit(history)
        stepping, running = in_turns(
            rounds,
            Task(detector.reset, lambda fresh: _step_through(fresh, live), len(live)),
            Task(detector.reset, lambda fresh: fresh.run(live), len(live)),
        )
        figures = {
            "run, µs a sample": running.best * 1e6,
            "step, µs a sample": stepping.best * 1e6,
            "step costs more, µs": (stepping.best - running.best) * 1e6,
        }
        rows.append(Row(f"5, 38, 16, stride {stride}", figures, target))
    return Section("One sample at a time", NOTES, "window, channels, latent", rows)


def _step_through(detector: M2N2, live: Floats) -> None:
    for sample in live:
        detector.step(sample)
