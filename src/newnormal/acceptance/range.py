"""The range that was accepted as normal, and how far a stream is from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from newnormal.core.scaling import Scaler
from newnormal.kernels.drift import (
    EVERY,
    KEEP,
    LEAST_STEP,
    LINEAR,
    MARK,
    MOST,
    NEAR,
    SEEN,
    TENFOLD,
    WARM,
    DriftOut,
    DriftParams,
    DriftState,
    advance,
    lag_index,
    measure,
    trace,
)
from newnormal.types import Floats
from newnormal.types.tables import first

# Of a level's variance, this share is never held to be explained by the other channels.
_UNEXPLAINED = 0.1
# A channel's level is taken to vary by a tenth of its standard deviation, at least.
_STILL = 0.01
# Beyond history's range a position may go as far as that range is wide, or up to twice as far where
# history itself was full of surprises: where a quarter of it goes far beyond the others. And as far
# as this at least: a standard deviation of a level, a factor e² of roughness and of standing still.
# On twenty real streams with the labelled anomalies removed, 157 days at a sample a minute, that
# opened eight alarms, most of them where the live part is plainly elsewhere than history.
_STEADY = 1.0
_SURPRISED = 5.0
_WIDE = 2.0
_LEAST = (1.0, 1.0, 2.0, 2.0)
_NO_STEPS = np.log(2 * LEAST_STEP)
_LAGS = 24  # rows of `max_drift`: lags up to 67 million samples
# From where it was, a position may go a quarter farther than history's ever went in as long a time.
_WANDER = 1.25
SURELY = 10  # samples, before which a jump's end is not extrapolated
_FAR = 0.5  # of the limit: a channel that far outside of normal has moved
_NONE_HIDDEN = np.zeros((0, 0)), np.zeros((0, 0), np.int64)


class NormalRange(NamedTuple):
    """The range of positions accepted as normal; measures how far the stream is from it.

    It learns nothing by itself, so no drift is too slow for it.

    >>> rng = np.random.default_rng(0)
    >>> normal = NormalRange.fit(rng.normal(size=(2000, 3)))
    >>> normal.measure(rng.normal(size=(500, 3))).crossings.any()
    np.False_
    >>> out = normal.measure(rng.normal(size=(500, 3)) + [0, 5, 0])
    >>> out.crossings.any(), normal.state.crossing.argmax(), normal.distance > 1
    (np.True_, np.int64(1), True)

    With P the inverse of the correlations between the channels' levels on history, a share of
    the identity added, (P u)_c / P_cc is what the other channels leave unexplained of level c.
    The range of normal is that of history's positions, and of each half of history's as the other
    half would have compared them.
    """

    params: DriftParams
    state: DriftState

    @classmethod
    def fit(cls, history: Floats) -> NormalRange:
        """Return the range of history (T, C), in the user's units; it may miss values."""
        C = history.shape[1]
        scaler = Scaler.fit(history)
        ones = np.ones(4 * C)
        plain = DriftParams(scaler.mean, scaler.scale, np.zeros(C), np.eye(C), ones, ones[None])
        traced = np.empty((len(history), 4 * C))
        start = initial(np.zeros(4 * C), np.zeros(4 * C))
        trace(np.ascontiguousarray(history, np.float64), _NONE_HIDDEN[1], start, plain, traced)
        traced = traced[min(WARM, len(history) // 2) :: EVERY]
        levels, others = traced[:, C : 2 * C], traced[:, 2 * C :]

        centre, blend = _blend(levels)
        half = len(levels) // 2
        unexplained = (levels - centre) @ blend.T
        crossed = [unexplained]
        for mine, other in ((levels[:half], levels[half:]), (levels[half:], levels[:half])):
            if len(mine):
                its_centre, its_blend = _blend(mine)
                crossed.append((other - its_centre) @ its_blend.T)
        ranges = [np.concatenate(crossed), levels - centre, others]
        lows = np.concatenate([each.min(axis=0) for each in ranges])
        highs = np.concatenate([each.max(axis=0) for each in ranges])
        # What never moved in history has no roughness: when it moves, its level shows it.
        rough = slice(2 * C, 3 * C)
        highs[rough] = np.where(highs[rough] <= _NO_STEPS, np.inf, highs[rough])
        least = np.repeat(_LEAST, C)
        positions = np.concatenate([unexplained, levels - centre, others], axis=1)
        wide = np.minimum(_STEADY + _SURPRISED * _surprise(positions), _WIDE)
        extent = np.where(np.isinf(highs), 0.0, highs - lows)
        margins = np.maximum(wide * extent, least)
        max_drift = _WANDER * np.maximum(_farthest(positions), least / 2)
        max_drift[:, 3 * C :] = np.inf  # what moves at all stops standing still at once
        max_drift = pad_lags(max_drift)
        params = DriftParams(scaler.mean, scaler.scale, centre, blend, margins, max_drift)
        return cls(params, initial(lows, highs))

    @property
    def distance(self) -> float:
        """How far the stream is from its accepted normal: 0 within it, 1 at the limit."""
        return float(self.state.distances.max())

    @property
    def outside(self) -> NDArray[np.bool_]:
        """Which channels are outside of normal, or farther from the mark than normal ones go."""
        state = self.state
        outside: NDArray[np.bool_] = (state.distances > NEAR) | (
            (state.jumps > 1) & (state.distances > 0)
        )
        return outside

    @property
    def moved(self) -> NDArray[np.bool_]:
        """Which channels' own level or roughness is far outside of normal, or far from the mark.

        What others leave unexplained of a channel has no part in it: where one moves, that moves
        for all.
        """
        state, C = self.state, len(self.params.mean)
        own = slice(C, 4 * C)
        position = state.position[own]
        beyond = np.maximum(state.lows[own] - position, position - state.highs[own])
        moved: NDArray[np.bool_] = np.asarray(beyond / self.params.margins[own] > _FAR)
        if state.counts[MARK] >= 0:
            lag = lag_index(state.counts[SEEN] - state.counts[MARK], len(self.params.max_drift))
            moved |= np.abs(position - state.start[own]) > self.params.max_drift[lag, own]
        return np.asarray(moved.reshape(3, C).any(axis=0))

    def measure(self, samples: Floats) -> DriftOut:
        """Consume samples (T, C) in the user's units."""
        out = DriftOut(np.zeros(len(samples)), np.zeros(len(samples), np.bool_))
        samples = np.ascontiguousarray(samples, np.float64)
        done = 0
        while done < len(samples):
            part = DriftOut(out.distances[done:], out.crossings[done:])
            done += advance(samples[done:], *_NONE_HIDDEN, self.state, self.params, part)
        return out

    def extrapolated(self, age: int) -> Floats:
        """Return where the stream will be, if it jumped from the mark `age` samples ago.

        Levels are slow: soon after a jump they are still on their way.
        """
        position = self.state.position.copy()
        if self.state.counts[MARK] < 0:
            return position
        levels = slice(0, 2 * len(self.params.mean))
        gone = 1 - KEEP ** max(age, SURELY)
        start = self.state.start
        position[levels] = start[levels] + (position - start)[levels] / gone
        return position

    def level(self, position: Floats) -> Floats:
        """Return the level at a position, in the user's units, (C,)."""
        params, C = self.params, len(self.params.mean)
        level: Floats = (position[C : 2 * C] + params.centre) * params.scale + params.mean
        return level

    def mark(self) -> None:
        """Keep the present position, to compare later ones with it."""
        if self.state.counts[SEEN] >= WARM:
            self.state.start[:] = self.state.position
            self.state.jumps[:] = 0
            self.state.counts[MARK] = self.state.counts[SEEN]

    def jumped(self, one: Floats, other: Floats, lag: int) -> bool:
        """Whether two positions are plainly farther apart than normal ones `lag` samples apart."""
        wander = self.params.max_drift[lag_index(lag, len(self.params.max_drift))]
        normal = np.maximum(wander, self.params.margins / 2)
        return bool((self._apart(one, other) > normal).any())

    def _apart(self, one: Floats, other: Floats) -> Floats:
        """Return how far two positions are apart, (4 C,), as far as they can be compared."""
        apart: Floats = np.abs(one - other)
        C, far = len(self.params.mean), self.beyond(one) | self.beyond(other)
        if far.any():  # what is not measured in full explains no other; its steps seem small
            apart[:C] = 0
            apart[2 * C : 3 * C][far] = 0
        return apart

    def beyond(self, position: Floats) -> NDArray[np.bool_]:
        """Return which channels' levels are too far out to be measured in full, (C,)."""
        C = len(self.params.mean)
        far: NDArray[np.bool_] = np.abs(position[C : 2 * C] + self.params.centre) > 0.95 * LINEAR
        return far

    def widen(
        self,
        positions: Sequence[Floats],
        kept: NDArray[np.bool_] | None = None,
        explained: Floats | float = 0.0,
    ) -> None:
        """Include these positions, and what is near; a channel that stood still may always do so.

        The range of channels that are `kept` (C,) grows by what the accepted change explains of
        them alone (C,).
        """
        room = self.params.margins / 2  # a new normal will be as wide as the first was
        lowest, highest = np.min(positions, axis=0), np.max(positions, axis=0)
        lows = np.minimum(self.state.lows, lowest - room)
        highs = np.maximum(self.state.highs, highest + room)
        C = len(self.params.mean)
        far = self.beyond(lowest) | self.beyond(highest)
        lows[2 * C : 3 * C][far] = np.log(LEAST_STEP)  # not measured in full: its steps seem small
        still = slice(3 * C, None)
        highs[still][highest[still] > self.state.highs[still]] = np.inf
        if kept is not None:
            same = np.tile(kept, 4)
            lows[same], highs[same] = self.state.lows[same], self.state.highs[same]
            lows[:C] += np.where(kept, np.minimum(explained, 0.0), 0.0)
            highs[:C] += np.where(kept, np.maximum(explained, 0.0), 0.0)
        self.move(lows, highs)

    def move(self, lows: Floats, highs: Floats) -> None:
        """Accept this range as normal, and measure again."""
        self.state.lows[:], self.state.highs[:] = lows, highs
        if self.state.counts[SEEN] >= WARM:
            measure(self.state, self.params)


def squeezed(levels: Floats) -> Floats:
    """Return levels as they are measured: far out, a tenfold one counts a little more.

    >>> squeezed(np.array([-7.0, 20.0, 200.0, 1e30]))
    array([-7., 20., 24., 40.])
    """
    size = np.abs(levels)
    far = LINEAR + TENFOLD * np.log10(np.maximum(size, LINEAR) / LINEAR)
    return np.where(size > LINEAR, np.copysign(np.minimum(far, MOST), levels), levels)


def unsqueezed(levels: Floats) -> Floats:
    """Return what `squeezed` was made from, within ±2e6.

    >>> unsqueezed(np.array([-7.0, 20.0, 24.0, -45.0])).round(9)
    array([-7.e+00,  2.e+01,  2.e+02, -2.e+06])
    """
    size = np.minimum(np.abs(levels), MOST)
    far = LINEAR * 10 ** ((np.maximum(size, LINEAR) - LINEAR) / TENFOLD)
    return np.where(size > LINEAR, np.copysign(far, levels), levels)


def initial(lows: Floats, highs: Floats) -> DriftState:
    """Return the state before the first sample, with this range as normal."""
    state = first(DriftState, {"C": len(lows) // 4}, lows=lows.copy(), highs=highs.copy())
    state.counts[MARK] = -1
    return state


def pad_lags(max_drift: Floats) -> Floats:
    """Return the distances at a fixed number of lags: beyond history's length the last holds."""
    padded: Floats = max_drift[np.minimum(np.arange(_LAGS), len(max_drift) - 1)]
    return padded


def _surprise(positions: Floats) -> Floats:
    """Return how far a quarter of history goes beyond the others' range, in that range's width."""
    if len(positions) < 4:
        return np.full(positions.shape[1], np.inf)
    quarters = np.array_split(positions, 4)
    worst = np.zeros(positions.shape[1])
    for k, quarter in enumerate(quarters):
        others = np.concatenate(quarters[:k] + quarters[k + 1 :])
        low, high = others.min(axis=0), others.max(axis=0)
        beyond = np.maximum(low - quarter.min(axis=0), quarter.max(axis=0) - high)
        with np.errstate(divide="ignore", invalid="ignore"):  # a range of nothing
            worst = np.maximum(worst, np.where(beyond > 0, beyond / (high - low), 0.0))
    return worst


def _farthest(positions: Floats) -> Floats:
    """Return the farthest that positions (T, 4 C) go in 1, 2, 4, ... of their steps, (K, 4 C)."""
    distances = [np.zeros(positions.shape[1])]
    lag = 1
    while lag < len(positions):
        moves = np.abs(positions[lag:] - positions[:-lag])
        distances.append(np.maximum(distances[-1], moves.max(axis=0)))
        lag *= 2
    return np.array(distances[1:] or distances)


def _blend(levels: Floats) -> tuple[Floats, Floats]:
    """Return the usual level, and the matrix to what other channels leave unexplained of levels."""
    centre = levels.mean(axis=0)
    rest = levels - centre
    covariance = rest.T @ rest / len(rest)
    size = np.sqrt(np.maximum(np.diag(covariance), _STILL))
    correlation = covariance / np.outer(size, size)
    inverse = np.linalg.inv(correlation + _UNEXPLAINED * np.eye(len(size)))
    blend = inverse / np.diag(inverse)[:, None] * np.outer(size, 1 / size)
    return centre, np.ascontiguousarray(blend)
