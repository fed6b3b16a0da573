"""The live loop against the plainest eager-PyTorch loop of the same algorithm."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks import eager
from benchmarks.report import NotMeasured, Row, Section, Target
from benchmarks.series import correlated
from benchmarks.timing import Task, in_turns
from newnormal import Detector
from newnormal.models.mlp import MLP
from newnormal.types import Floats

__all__ = ["FLOORS", "largest_difference", "measure"]

# (window, channels, latent): how many times faster the adapting loop must be at least.
FLOORS = {(12, 55, 128): 8, (5, 55, 16): 30, (5, 38, 16): 40, (5, 1, 2): 1000}

HISTORY = 6_000  # samples
EAGER_WINDOWS = 250
EQUAL = 1e-3  # relative

NOTES = (
    "`Detector.run`, whole: validation, verdicts, expected values and shares included, with "
    "detrending and adaptation on, the threshold at history's 0.99 quantile and the weights "
    "fitted on a synthetic series of correlated channels. Against it `benchmarks/eager.py`: "
    "`nn.Sequential`, `torch.optim.SGD`, one window at a time, scores alone.",
    "Both start from the same weights, and their scores on the windows that both judge are "
    f"checked to be equal (relative difference below {EQUAL:g}) before anything is timed.",
    "“Times faster” is the ratio of the best rounds, “typically” the median of the ratios within "
    "a round. The frozen rows, where nothing adapts, are for information.",
)


def measure(quick: bool) -> Section:
    """Time both loops, adapting and frozen, at each size."""
    torch.set_num_threads(1)
    rounds = 5 if quick else 30
    rows = [row for size in FLOORS for row in _rows(*size, rounds=rounds)]
    rows.sort(key=lambda row: row.target is None)  # the adapting ones first
    return Section("The live loop", NOTES, "window, channels, latent", rows)


def _rows(window: int, channels: int, latent: int, rounds: int) -> list[Row]:
    windows = 50_000 if channels == 1 else 1_000
    series = correlated(HISTORY + windows * window, channels)
    history, live = series[:HISTORY], series[HISTORY:]
    detector = Detector(window=window, latent=latent, epochs=5).fit(history)
    state = detector.to_state().tensors
    model = MLP(window, channels, latent)
    scaled = (live[: EAGER_WINDOWS * window] - state["mean"]) / state["scale"]
    part = torch.tensor(scaled, dtype=torch.float32)

    def new_network() -> nn.Sequential:
        return eager.network(model, state["fitted"])

    def adapting(net: nn.Sequential) -> Tensor:
        return eager.adapting(net, part, window, detector.decay, detector.lr, detector.threshold_)

    def frozen(net: nn.Sequential) -> Tensor:
        return eager.frozen(net, part, window)

    difference = largest_difference(
        detector.run(live[: len(part)]).scores, adapting(new_network()).numpy()
    )
    difference_frozen = largest_difference(
        detector.reset().score(live[: len(part)]).scores, frozen(new_network()).numpy()
    )
    ours, theirs, ours_frozen, theirs_frozen = in_turns(
        rounds,
        Task(detector.reset, lambda fresh: fresh.run(live), windows),
        Task(new_network, adapting, EAGER_WINDOWS),
        Task(detector.reset, lambda fresh: fresh.score(live), windows),
        Task(new_network, frozen, EAGER_WINDOWS),
    )
    size = f"{window}, {channels}, {latent}"
    floor = Target("times faster", FLOORS[window, channels, latent], at_least=True)
    return [
        Row(
            size if target else f"{size}, frozen",
            {
                "PyTorch, µs a window": them.best * 1e6,
                "newnormal, µs a window": us.best * 1e6,
                "times faster": us.times_faster_than(them),
                "typically": us.typically_faster_than(them),
                "scores differ by": apart,
            },
            target,
        )
        for us, them, apart, target in (
            (ours, theirs, difference, floor),
            (ours_frozen, theirs_frozen, difference_frozen, None),
        )
    ]


def largest_difference(ours: Floats, theirs: Floats) -> float:
    """Return the largest relative difference of two loops' scores, if they are the same loop."""
    difference = float(np.max(np.abs(ours - theirs) / np.abs(theirs)))
    if not difference < EQUAL:
        raise NotMeasured(f"the two loops' scores differ by {difference:.1e}, above {EQUAL:g}")
    return difference
