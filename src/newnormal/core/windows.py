"""Where windows lie in a series."""

from __future__ import annotations

import numpy as np

from newnormal.types import Floats, Ints


def starts(length: int, window: int, stride: int) -> Ints:
    """Return where windows start: every `stride` samples, and one at the very end.

    Every sample is covered where ``stride <= window``. At least one window must fit.

    >>> starts(11, 4, 4).tolist()
    [0, 4, 7]
    """
    regular = np.arange(0, length - window + 1, stride, dtype=np.int64)
    last = length - window
    return regular if regular[-1] == last else np.append(regular, last)


def threshold_scores(scores: Floats, last_window: Floats, stride: int) -> Floats:
    """Return the history scores a threshold is taken from.

    `scores` has one score for each of history's samples, judged at `stride`; `last_window` has
    the final window's. Where the history does not end with a full stride, that final window
    repeats samples judged before: their second scores are included, and as many of the smallest
    scores are left out.

    The paper's thresholds come out of exactly this, repeats and all: with the plain scores, its
    SMAP T-3 row is not reproduced, where history scores jump fifteenfold between Q95 and Q96.
    """
    if tail := (len(scores) - len(last_window)) % stride:
        repeats = stride - tail
        scores = np.concatenate([scores[: len(scores) - tail], last_window[-stride:]])
    else:
        repeats = 0
    scores = np.sort(scores[~np.isnan(scores)])
    return scores[min(repeats, max(len(scores) - 1, 0)) :]
