"""The live loop against the plainest eager-PyTorch loop of the same algorithm."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks import eager
from benchmarks.report import NotMeasured, Row, Section, Target
from benchmarks.series import correlated
from benchmarks.timing import Task, Times, in_turns
from newnormal import M2N2
from newnormal.models.mlp import MLP
from newnormal.types import Floats


class Size(NamedTuple):
    """A model's size, and what is expected of the loop at it."""

    window: int
    channels: int
    latent: int
    floor: float  # times faster than PyTorch, adapting, at least
    windows: int  # in a round of ours: about as long as one of PyTorch's


SIZES = (
    Size(12, 55, 128, floor=8, windows=300),
    Size(5, 55, 16, floor=30, windows=1_500),
    Size(5, 38, 16, floor=40, windows=2_500),
    Size(5, 1, 2, floor=1_000, windows=50_000),
)
LR = 1e-3
HISTORY = 6_000  # samples
CHECKED = 300  # windows whose scores are compared
TIMED = 50  # of PyTorch's windows in a round: short rounds find an undisturbed moment
EQUAL = 1e-3  # relative
RATIO = "times faster"

NOTES = (
    "`M2N2.run`, whole: validation, verdicts, expected values and shares included, with "
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
    rounds = 20 if quick else 120
    rows = [row for size in SIZES for row in _rows(size, rounds)]
    rows.sort(key=lambda row: row.target is None)  # the adapting ones first
    return Section("The live loop", NOTES, "window, channels, latent", rows)


def _rows(size: Size, rounds: int) -> list[Row]:
    window, channels, latent, floor, windows = size
    series = correlated(HISTORY + windows * window, channels)
    history, live = series[:HISTORY], series[HISTORY:]
    detector = M2N2(window=window, latent=latent, lr=LR, epochs=5).fit(history)
    tau = detector.threshold_
    state = detector.to_state().tensors
    model = MLP(window, channels, latent)
    scaled = torch.tensor(
        (live - state["fitted.step.mean"]) / state["fitted.step.scale"], dtype=torch.float32
    )

    def network() -> nn.Sequential:
        return eager.network(model, state["fitted.step.fitted"])

    def adapting(net: nn.Sequential, count: int) -> Tensor:
        part = scaled[: count * window]
        return eager.adapting(net, part, window, detector.decay_, LR, tau)

    def frozen(net: nn.Sequential, count: int) -> Tensor:
        return eager.frozen(net, scaled[: count * window], window)

    checked = live[: CHECKED * window]
    apart = largest_difference(detector.run(checked).scores, adapting(network(), CHECKED).numpy())
    apart_frozen = largest_difference(
        detector.reset().score_frozen(checked).scores, frozen(network(), CHECKED).numpy()
    )
    ours, theirs, ours_frozen, theirs_frozen = in_turns(
        rounds,
        Task(detector.reset, lambda fresh: fresh.run(live), windows),
        Task(network, lambda net: adapting(net, TIMED), TIMED),
        Task(detector.reset, lambda fresh: fresh.score_frozen(live), windows),
        Task(network, lambda net: frozen(net, TIMED), TIMED),
    )
    name = f"{window}, {channels}, {latent}"
    target = Target(RATIO, floor, at_least=True)
    return [
        Row(name, _figures(ours, theirs, apart), target),
        Row(f"{name}, frozen", _figures(ours_frozen, theirs_frozen, apart_frozen)),
    ]


def _figures(ours: Times, theirs: Times, apart: float) -> dict[str, float]:
    return {
        "PyTorch, µs a window": theirs.best * 1e6,
        "newnormal, µs a window": ours.best * 1e6,
        RATIO: ours.times_faster_than(theirs),
        "typically": ours.typically_faster_than(theirs),
        "scores differ by": apart,
    }


def largest_difference(ours: Floats, theirs: Floats) -> float:
    """Return the largest relative difference of two loops' scores, if they are the same loop."""
    difference = float(np.max(np.abs(ours - theirs) / np.abs(theirs)))
    if not difference < EQUAL:
        raise NotMeasured(f"the two loops' scores differ by {difference:.1e}, above {EQUAL:g}")
    return difference
