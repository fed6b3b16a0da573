"""What the experts of a committee are fitted with: trends, subspaces, neutral parameters."""

from __future__ import annotations

import numpy as np

from newnormal.kernels.committee import detrend
from newnormal.kernels.step import StepParams
from newnormal.types import Floats, Floats32

_LEFT = 1e-4  # of history's variance stays outside a linear subspace, at least


def decay_of(half_life: float) -> float:
    """Return the share kept at each sample; all of it where the half-life is infinite."""
    return float(0.5 ** (1 / half_life))


def rest_of(history: Floats, memory: float) -> Floats:
    """Return scaled history (T, C) minus the trend of a memory."""
    rest, trail = np.empty_like(history), np.empty_like(history)
    scaled = np.ascontiguousarray(history)
    detrend(scaled, decay_of(memory), False, np.zeros(history.shape[1]), trail, rest)
    return rest


def basis_of(rest: Floats, rank: int) -> Floats:
    """Return the directions of largest variance, (rank, C), but for those that leave nothing.

    A subspace that held all of history would have no scale for what lies outside of it, and would
    score the smallest residual as high as any other.
    """
    filled = np.where(np.isnan(rest), 0, rest)
    values, vectors = np.linalg.eigh(filled.T @ filled / len(filled))
    held = np.cumsum(np.maximum(values[::-1], 0))
    basis = np.ascontiguousarray(vectors[:, ::-1][:, :rank].T)
    basis[held[-1] - held[:rank] <= _LEFT * held[-1]] = 0
    return basis


def neutral_params(channels: int, fitted: Floats32, learning: bool = False) -> StepParams:
    """Return parameters for samples that are scaled already, none of them anomalous."""
    zeros, ones = np.zeros(channels), np.ones(channels)
    return StepParams(zeros, ones, fitted, 1, np.inf, np.inf, 0.0, np.float32(learning))
