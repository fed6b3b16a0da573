"""The loop of `newnormal.kernels.step` in Python, for models that are not compiled.

The same order and the same counting; what scores and learns is handed in. Where nothing is learned
between windows, many are judged at once.

Shapes: B windows judged at once, L window length, C channels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from newnormal.core.scaling import Scaler
from newnormal.kernels.decision import decide
from newnormal.kernels.step import CYCLE, HELD, PENDING, SEEN, StepOut, StepParams
from newnormal.kernels.stream import ModelState
from newnormal.models.base import Block
from newnormal.types import Floats, Ints

if TYPE_CHECKING:
    from newnormal.models.base import Model


def advance(
    model: Model, samples: Floats, flush: bool, state: ModelState, params: StepParams, out: StepOut
) -> None:
    """Consume samples (T, C) and write the verdicts that became final."""
    step = state.step
    L = len(step.samples)
    out.scores[:] = out.expected[:] = out.shares[:] = np.nan
    out.anomalous[:] = False
    series = np.concatenate([step.samples, samples])
    points = _points(len(samples), flush, L, params.stride, step.counts)
    scaled = Scaler(params.mean, params.scale).apply(series)
    windows = sliding_window_view(scaled, L, axis=0).transpose(0, 2, 1)  # (T + 1, L, C)
    at = row = 0
    while at < len(points):
        until = _until(points, at, model.at_once, learning=params.lr != 0)
        z = windows[[point.consumed for point in points[at:until]]]  # (B, L, C)
        offsets = np.empty((until - at, 1, z.shape[2]))
        for k, point in enumerate(points[at:until]):
            if point.ends_cycle:
                _update_trend(step.trend, z[k], params.decay, model.center)
            offsets[k, 0] = step.trend
        missing = np.isnan(z)
        newest = np.array([point.newest for point in points[at:until]], dtype=np.int64)
        block = Block(np.where(missing, 0, z - offsets), ~missing, newest)
        scores, reconstruction = model.score_block(block, state, params)
        for k in range(until - at):
            _report(block, k, scores, reconstruction, offsets, params, out, row)
            row += int(newest[k])
        if params.lr != 0 and points[at].ends_cycle:
            threshold = params.learn_threshold
            learnable = np.array([decide(score, threshold, threshold)[1] for score in scores[0]])
            model.learn_block(block, learnable, state, params)
        at = until
    step.samples[:] = series[-L:]


class _Point(NamedTuple):
    """A moment at which a window is judged."""

    consumed: int  # of the samples handed in
    newest: int  # samples that get their verdict
    ends_cycle: bool


def _points(arriving: int, flush: bool, window: int, stride: int, counts: Ints) -> list[_Point]:
    """Count samples in, as `kernels.step.advance` does, and return when windows are judged."""
    points = []
    for t in range(arriving + 1):
        if t < arriving:
            counts[SEEN] += 1
            counts[HELD] = min(counts[HELD] + 1, window)
            counts[PENDING] += 1
            counts[CYCLE] = 1 if counts[CYCLE] == window else counts[CYCLE] + 1
            due = counts[HELD] == window and counts[PENDING] >= stride
            ends_cycle = bool(counts[CYCLE] == window)
        else:
            due = flush and counts[HELD] == window and counts[PENDING] > 0
            ends_cycle = True
        if due:
            points.append(_Point(min(t + 1, arriving), int(counts[PENDING]), ends_cycle))
            counts[PENDING] = 0
            if ends_cycle:
                counts[CYCLE] = window
    return points


def _until(points: list[_Point], at: int, most: int, learning: bool) -> int:
    """Return where the block that begins `at` ends: a window that is learned from is alone."""
    if not learning:
        return min(len(points), at + most)
    until = at + 1
    while (
        not points[at].ends_cycle
        and until < min(len(points), at + most)
        and not points[until].ends_cycle
    ):
        until += 1
    return until


def _update_trend(trend: Floats, scaled: Floats, decay: float, center: Floats) -> None:
    """μ ← γ·μ + (1 - γ)·mean(window), where μ counts from history's mean."""
    there = ~np.isnan(scaled)
    seen = there.any(axis=0)
    means = np.where(there, scaled, 0).sum(axis=0)[seen] / there.sum(axis=0)[seen]
    trend[seen] = decay * trend[seen] + (1 - decay) * (means - center[seen])


def _report(
    block: Block,
    k: int,
    scores: Floats,
    reconstruction: Floats | None,
    offsets: Floats,
    params: StepParams,
    out: StepOut,
    row: int,
) -> None:
    """Write the verdicts of a window's newest samples, from `row` on."""
    newest = int(block.newest[k])
    rows = slice(row, row + newest)
    new = slice(block.windows.shape[1] - newest, None)
    threshold = params.alarm_threshold
    out.scores[rows] = scores[k, new]
    out.anomalous[rows] = [decide(score, threshold, threshold)[0] for score in scores[k, new]]
    if reconstruction is not None:
        made = reconstruction[k, new]
        out.expected[rows] = (made + offsets[k]) * params.scale + params.mean
        given = block.windows[k, new].astype(np.float32)
        squares = block.there[k, new] * (made - given) ** 2
        total = squares.sum(axis=1, keepdims=True)
        shares = squares / np.where(total > 0, total, 1)
        out.shares[rows] = np.where(np.isnan(scores[k, new])[:, None], np.nan, shares)
