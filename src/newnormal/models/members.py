"""Fits the members of a committee that have no trend: `newnormal.kernels.members` runs them."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from newnormal.core.period import find_cycle
from newnormal.core.rhythm import Rhythm
from newnormal.kernels.members import BLOCKS, FAR, LONG, PAST, SPAN, SPANS, MembersParams
from newnormal.models.blas import one_thread
from newnormal.types import Floats, Floats32
from newnormal.types.tables import first

_RIDGE = 1e-3  # of the mean diagonal of the forecast's normal equations
_NEWEST = 40_000  # samples that the forecast is fitted on, the newest
_LEAST_EIGENVALUE = 0.05  # of the mean one, in the inverse covariance of `level`
_VARIANCE = 0.9  # that the subspace of `windows` holds
_RANK = 16  # of it, at most
_FITTED_WINDOWS = 6000  # at most
_CLUSTERED = 4000  # shapes at most that are clustered
_SWEEPS = 20  # of k-means at most
_MOST_SHAPES = 64
_FEWER_SHAPES = 32  # 64 shapes of 38 channels take 97 kB, and find no more
_MANY_CHANNELS = 16
_FEWEST = 2  # samples of a shape's mean, at least
MOST_BINS = 4096  # of a rhythm
_SPANS_OF_HISTORY = 3  # times a member's own samples, below which it is not fitted


def members_sizes(channels: int) -> dict[str, int]:
    """Return the rank of the windows' subspace and the number of shapes, by their letters."""
    shapes = _MOST_SHAPES if channels <= _MANY_CHANNELS else _FEWER_SHAPES
    return {"D": min(_RANK, BLOCKS * channels // 2), "H": shapes}


def blank_members(
    channels: int, votes: int, bins: int = 1, shape_length: int = LONG
) -> MembersParams:
    """Return the parameters before history is known, in their shapes."""
    sizes = {"C": channels, "V": votes, "B": bins, **members_sizes(channels)}
    return first(MembersParams, sizes, block=shape_length // BLOCKS)


def length_of_shapes(history: Floats) -> int:
    """Return how many samples a shape has, given scaled history (T, C).

    It is a third of a cycle of the channels, and LONG where they have none, or a longer one.
    """
    cycle = find_cycle(history, 2 * LONG)
    return LONG if cycle is None else BLOCKS * max(round(cycle / 3 / BLOCKS), _FEWEST)


def fittable(samples: int, rhythm: bool) -> tuple[bool, ...]:
    """Whether history has enough samples for each member."""
    enough = [samples >= _SPANS_OF_HISTORY * span for span in SPANS[:-1]]
    return (*enough, rhythm)


def fit_members(
    history: Floats,
    votes: int,
    seed: int,
    rhythm: Rhythm | None = None,
    shape_length: int = LONG,
) -> MembersParams:
    """Fit the members on scaled history (T, C), NaN where missing."""
    C = history.shape[1]
    filled = _filled(history)
    bins = 1 if rhythm is None else len(rhythm.levels)
    params = blank_members(C, votes, bins, shape_length)
    enough = fittable(len(history), rhythm is not None)
    with one_thread():
        if enough[0]:
            matrix, intercept = _forecast(filled)
            params = params._replace(forecast=matrix, intercept=intercept)
        mean, inverse = _level(filled)
        params = params._replace(level_mean=mean, level_inverse=inverse)
        if enough[2]:
            mean, basis = _windows(filled, len(params.windows_basis))
            params = params._replace(windows_mean=mean, windows_basis=basis)
        if enough[3]:
            shapes = _shapes(filled, shape_length, len(params.shapes), seed)
            params = params._replace(shapes=shapes)
    if rhythm is not None:
        params = params._replace(
            rhythm_levels=np.ascontiguousarray(rhythm.levels, dtype=np.float32),
            rhythm_spreads=np.ascontiguousarray(rhythm.spreads, dtype=np.float32),
        )
    return params


def usual_votes(votes: Floats, phases: Floats, bins: int) -> Floats32:
    """Return what each vote (V, T) usually is at each phase, (B, V), at least 0.

    It is the median over cycles of the largest vote within one bin of the phase. With fewer than
    two cycles nothing is usual.
    """
    V = len(votes)
    usual = np.zeros((bins, V), np.float32)
    known = np.flatnonzero(~np.isnan(phases))
    if len(known) == 0:
        return usual
    bin_of = phases[known].astype(np.int64) % bins
    begins = np.diff(phases[known]) < 0  # a phase that falls begins a cycle
    cycle = np.concatenate([[0], np.cumsum(begins)])
    cycles = int(cycle[-1]) + 1
    if cycles < 2:
        return usual
    for v in range(V):
        highest = np.full(cycles * bins, -np.inf)
        there = ~np.isnan(votes[v, known])
        np.maximum.at(highest, (cycle * bins + bin_of)[there], votes[v, known][there])
        around = np.pad(highest, 1, constant_values=-np.inf)
        around = np.maximum(np.maximum(around[:-2], around[1:-1]), around[2:])
        table = around.reshape(cycles, bins)
        table = np.where(np.isinf(table), np.nan, table)
        seen = ~np.isnan(table).all(axis=0)
        usual[seen, v] = np.maximum(np.nanmedian(table[:, seen], axis=0), 0)
    return usual


def _filled(history: Floats) -> Floats:
    """Return history with each missing value replaced by the last observed one, 0 before any."""
    rows = np.where(np.isnan(history), -1, np.arange(len(history))[:, None])
    np.maximum.accumulate(rows, axis=0, out=rows)
    values = np.take_along_axis(history, np.maximum(rows, 0), axis=0)
    return np.clip(np.where(rows < 0, 0.0, values), -FAR, FAR)


def _forecast(filled: Floats) -> tuple[Floats32, Floats32]:
    """Return the ridge regression of a sample on the PAST before it, and its intercept."""
    C = filled.shape[1]
    z = filled[-_NEWEST:]
    past = sliding_window_view(z, PAST, axis=0)[:-1].transpose(0, 2, 1).reshape(-1, PAST * C)
    X = np.concatenate([past, np.ones((len(past), 1))], axis=1)
    gram = X.T @ X
    gram[np.diag_indices(len(gram))] += _RIDGE * np.trace(gram) / len(gram)
    matrix = np.linalg.solve(gram, X.T @ z[PAST:])
    return np.ascontiguousarray(matrix[:-1].T, np.float32), matrix[-1].astype(np.float32)


def _level(filled: Floats) -> tuple[Floats32, Floats32]:
    """Return the mean, and the inverse covariance with its small eigenvalues raised."""
    mean = filled.mean(axis=0)
    away = filled - mean
    values, vectors = np.linalg.eigh(away.T @ away / len(away))
    values = np.maximum(values, _LEAST_EIGENVALUE * max(values.mean(), 1e-9))
    inverse = (vectors / values) @ vectors.T
    return mean.astype(np.float32), np.ascontiguousarray(inverse, np.float32)


def _blocks(filled: Floats, span: int, most: int) -> Floats:
    """Return at most so many windows as means of blocks, (N, BLOCKS, C), the oldest first."""
    length = span // BLOCKS
    sums = np.cumsum(np.concatenate([np.zeros((1, filled.shape[1])), filled]), axis=0)
    means = (sums[length:] - sums[:-length]) / length  # of the samples from each on
    count = len(filled) - span + 1
    starts = np.arange(0, count, max(1, count // most))
    return np.asarray(means[starts[:, None] + length * np.arange(BLOCKS)])


def _windows(filled: Floats, rows: int) -> tuple[Floats32, Floats32]:
    """Return the mean window, and the directions that hold most of the variance around it."""
    X = _blocks(filled, SPAN, _FITTED_WINDOWS).reshape(-1, BLOCKS * filled.shape[1])
    mean = X.mean(axis=0)
    X = X - mean
    n = X.shape[1]
    if n <= len(X):
        values, vectors = np.linalg.eigh(X.T @ X)
    else:  # as many directions as windows at most
        values, left = np.linalg.eigh(X @ X.T)
        lengths = np.sqrt(np.maximum(values, 0))
        vectors = (X.T @ left) / np.where(lengths > 0, lengths, 1)
    values, vectors = np.maximum(values[::-1], 0), vectors[:, ::-1]
    held = np.cumsum(values)
    basis = np.zeros((rows, n), np.float32)
    if held[-1] > 0:
        rank = min(int(np.searchsorted(held, _VARIANCE * held[-1])) + 1, rows)
        basis[:rank] = vectors[:, :rank].T
    return mean.astype(np.float32), basis


def _shapes(filled: Floats, length: int, most: int, seed: int) -> Floats32:
    """Return the centres of clusters of centred windows, the newest block first.

    Where history is too short for so many, the first one is repeated.
    """
    X = _blocks(filled, length, _CLUSTERED)[:, ::-1]
    centred = X - X.mean(axis=1, keepdims=True)
    points = np.array(centred.reshape(len(X), -1), dtype=np.float32)
    centres = _k_means(points, min(most, max(len(points) // 4, 1)), np.random.default_rng(seed))
    return np.concatenate([centres, np.repeat(centres[:1], most - len(centres), axis=0)])


def _k_means(points: Floats32, count: int, rng: np.random.Generator) -> Floats32:
    """Return the centres of `count` clusters of points (N, n), by Lloyd's algorithm.

    The first centres are drawn by k-means++ (Arthur and Vassilvitskii, 2007).
    """
    chosen = [int(rng.integers(len(points)))]
    far = ((points - points[chosen[0]]) ** 2).sum(axis=1, dtype=np.float64)
    while len(chosen) < count:
        total = np.cumsum(far)
        if total[-1] == 0:  # fewer different points than clusters
            chosen.append(chosen[0])
            continue
        chosen.append(min(int(np.searchsorted(total, rng.random() * total[-1])), len(points) - 1))
        away = ((points - points[chosen[-1]]) ** 2).sum(axis=1, dtype=np.float64)
        far = np.minimum(far, away)
    centres = points[chosen].copy()
    nearest = np.full(len(points), -1)
    for _ in range(_SWEEPS):
        before = nearest
        nearest = np.argmin((centres**2).sum(axis=1) - 2 * points @ centres.T, axis=1)
        if np.array_equal(nearest, before):
            break
        for k in range(count):
            own = nearest == k
            if own.any():  # the centre of an empty cluster stays
                centres[k] = points[own].mean(axis=0)
    return centres
