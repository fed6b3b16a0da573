"""The loop of `newnormal.kernels.step` in Python, for models that are not compiled.

The same order and the same counting; what scores and learns is handed in. Where nothing is learned
between windows, many are judged at once.

Shapes: B windows judged at once, L window length, C channels.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from newnormal.core.scaling import Scaler
from newnormal.kernels.decision import is_anomalous
from newnormal.kernels.step import CYCLE, HELD, PENDING, SEEN, Rules, Sheet, Stream
from newnormal.types import Bools, Floats, Ints

__all__ = ["Block", "Looped", "advance"]


class Block(NamedTuple):
    """Windows judged at once: scaled, the trend subtracted, 0 where missing."""

    windows: Floats  # (B, L, C)
    there: Bools  # (B, L, C) whether observed
    newest: Ints  # (B,) how many of a window's last samples get their verdict


class Looped(Protocol):
    """What the loop needs of a model."""

    center: Floats  # (C,) history's mean, scaled as the model has it
    at_once: int  # windows judged at once, at most

    def scored(self, block: Block, stream: Stream, rules: Rules) -> tuple[Floats, Floats | None]:
        """Return scores (B, L), NaN where nothing was observed, and a reconstruction (B, L, C)."""
        ...

    def learn(self, block: Block, scores: Floats, stream: Stream, rules: Rules) -> None:
        """Take one step on the learnable samples of the block's only window."""
        ...


def advance(
    model: Looped, samples: Floats, flush: bool, stream: Stream, rules: Rules, sheet: Sheet
) -> None:
    """Consume samples (T, C) and write the verdicts that became final."""
    L = len(stream.samples)
    sheet.scores[:] = sheet.expected[:] = sheet.shares[:] = np.nan
    sheet.anomalous[:] = False
    series = np.concatenate([stream.samples, samples])
    points = _points(len(samples), flush, L, rules.stride, stream.counts)
    scaled = Scaler(rules.mean, rules.scale).apply(series)
    windows = sliding_window_view(scaled, L, axis=0).transpose(0, 2, 1)  # (T + 1, L, C)
    at = row = 0
    while at < len(points):
        until = _until(points, at, model.at_once, learning=rules.lr != 0)
        z = windows[[point.consumed for point in points[at:until]]]  # (B, L, C)
        offsets = np.empty((until - at, 1, z.shape[2]))
        for k, point in enumerate(points[at:until]):
            if point.ends_cycle:
                _update_trend(stream.trend, z[k], rules.decay, model.center)
            offsets[k, 0] = stream.trend
        missing = np.isnan(z)
        newest = np.array([point.newest for point in points[at:until]], dtype=np.int64)
        block = Block(np.where(missing, 0, z - offsets), ~missing, newest)
        scores, reconstruction = model.scored(block, stream, rules)
        for k in range(until - at):
            _report(block, k, scores, reconstruction, offsets, rules, sheet, row)
            row += int(newest[k])
        if rules.lr != 0 and points[at].ends_cycle:
            model.learn(block, scores[0], stream, rules)
        at = until
    stream.samples[:] = series[-L:]


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
    rules: Rules,
    sheet: Sheet,
    row: int,
) -> None:
    """Write the verdicts of a window's newest samples, from `row` on."""
    newest = int(block.newest[k])
    out = slice(row, row + newest)
    new = slice(block.windows.shape[1] - newest, None)
    sheet.scores[out] = scores[k, new]
    sheet.anomalous[out] = [is_anomalous(score, rules.threshold) for score in scores[k, new]]
    if reconstruction is not None:
        made = reconstruction[k, new]
        sheet.expected[out] = (made + offsets[k]) * rules.scale + rules.mean
        given = block.windows[k, new].astype(np.float32)
        squares = block.there[k, new] * (made - given) ** 2
        total = squares.sum(axis=1, keepdims=True)
        shares = squares / np.where(total > 0, total, 1)
        sheet.shares[out] = np.where(np.isnan(scores[k, new])[:, None], np.nan, shares)
