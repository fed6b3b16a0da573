"""The detector that chooses for itself against one autoencoder."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from importlib import import_module
from unittest.mock import patch

from benchmarks.report import Row, Section, Target
from benchmarks.series import correlated
from benchmarks.timing import Task, in_turns
from newnormal import M2N2, Detector
from newnormal.base import BaseDetector
from newnormal.types import Floats

HISTORY = (20_000, 38)

NOTES = (
    "`Detector()`, which tests its settings on history and then runs a committee of two "
    "autoencoders and members of five other kinds, with a verdict for each sample at once, beside "
    "one autoencoder, adapting, with a verdict every five samples: `M2N2(window=5)`. It also "
    "turns its verdicts into alarms and changes.",
    "“Outside kernels” is what `step` takes besides the compiled functions it calls, entering them "
    "included: checking the sample, making room for the verdicts, and the loop itself.",
    "Processor time of one thread.",
)

# The compiled functions that a step calls, where they are called from.
KERNELS = (
    ("newnormal.models.committee", "advance"),
    ("newnormal.acceptance.policy", "advance"),
    ("newnormal.kernels.alarm", "advance"),
    ("newnormal.kernels.alarm", "p_values"),
)


def measure(quick: bool) -> Section:
    """Time fitting, running and stepping."""
    rounds = 5 if quick else 50
    rows = []
    for channels in (38, 5, 1):
        series = correlated(6_500, channels)
        history, live = series[:6_000], series[6_000:]
        chosen, single = Detector(epochs=2).fit(history), M2N2(window=5).fit(history)
        figures: dict[str, float] = {}
        for verb, work in (("run", _run), ("step", _step)):
            go = partial(work, live)
            ours, one = in_turns(
                rounds, Task(chosen.reset, go, len(live)), Task(single.reset, go, len(live))
            )
            figures |= {
                f"{verb}, µs a sample": ours.best * 1e6,
                f"{verb}, one autoencoder's": one.best * 1e6,
                f"{verb}, times": one.times_faster_than(ours),
            }
        figures["step outside kernels, µs"] = _outside(chosen, live) * 1e6
        target = Target("run, times", 20) if channels == 38 else None
        rows.append(Row(f"{channels} channels", figures, target))
        if channels == 38:
            step = {"step, times": figures["step, times"]}
            rows.append(Row("38 channels, a sample at a time", step, Target("step, times", 6)))
    rows.append(_fit(quick))
    return Section("Choosing for itself", NOTES, "stream", rows)


def _outside(detector: Detector, live: Floats, rounds: int = 10) -> float:
    """Return the seconds a step takes outside compiled functions."""
    inside = 0.0
    clock = time.perf_counter

    def timed(kernel: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object) -> object:
            nonlocal inside
            begin = clock()
            found = kernel(*args)
            inside += clock() - begin
            return found

        return call

    found = []
    with ExitStack() as patches:
        for module, name in KERNELS:
            kernel = getattr(import_module(module), name)
            patches.enter_context(patch(f"{module}.{name}", timed(kernel)))
        for _ in range(rounds):
            detector.reset()
            inside, begin = 0.0, clock()
            _step(live, detector)
            found.append((clock() - begin - inside) / len(live))
    return min(found)


def _fit(quick: bool) -> Row:
    history = correlated(*HISTORY)
    (fitting,) = in_turns(1 if quick else 3, Task(Detector, lambda detector: detector.fit(history)))
    name = f"fit on {HISTORY[0]:,} × {HISTORY[1]}"
    return Row(name, {"fit, s": fitting.best}, Target("fit, s", 30))


def _run(live: Floats, detector: BaseDetector) -> None:
    detector.run(live)


def _step(live: Floats, detector: BaseDetector) -> None:
    for sample in live:
        detector.step(sample)
