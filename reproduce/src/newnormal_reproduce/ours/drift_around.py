"""Normal samples in alarm around the changes of generated streams."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from newnormal_reproduce.engine.arrays import Bools, Ints
from newnormal_reproduce.engine.published import Figure

LATER = 1000  # samples after a change, by which a detector should have adapted to it


class Shares(NamedTuple):
    """The share of normal samples in alarm around a change; NaN if there are none."""

    before: float
    after: float
    later: float


class Around(NamedTuple):
    """The same as figures over streams and seeds."""

    before: Figure
    after: Figure
    later: Figure


def shares(in_alarm: Bools, labels: Ints, shifts: Sequence[int]) -> list[Shares]:
    """Return the shares around each of the samples at which normal changed.

    Before is since the previous change. After is until the next. Later is the same without its
    first `LATER` samples.
    """
    ends = [*shifts[1:], len(labels)]

    def share(start: int, stop: int) -> float:
        normal = labels[start:stop] == 0
        return float(in_alarm[start:stop][normal].mean()) if normal.any() else math.nan

    return [
        Shares(share(since, at), share(at, end), share(at + LATER, end))
        for since, at, end in zip([0, *shifts], shifts, ends, strict=False)
    ]
