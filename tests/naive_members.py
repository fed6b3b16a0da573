"""The members of a committee without a trend, slowly and obviously: twins of kernels.members.

Everything is float64, from all samples seen so far. A missing value is the channel's last one. With
eight or more of them in a row, a window is none of this channel.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass
class NaiveMembers:
    """All samples so far, and the squared residuals of the newest by each member."""

    params: Any  # MembersParams: what was fitted
    samples: list[Array] = field(default_factory=list)  # missing values filled
    missing: list[Array] = field(default_factory=list)

    def see(self, scaled: Array) -> None:
        before = self.samples[-1] if self.samples else np.zeros(len(scaled))
        self.samples.append(np.where(np.isnan(scaled), before, np.clip(scaled, -1e3, 1e3)))
        self.missing.append(np.isnan(scaled))

    def squares(self, kind: str, scaled: Array, phase: float) -> Array | None:
        """Return each channel's square, NaN where it does not count; None without a vote."""
        found = getattr(self, kind)(phase) if kind != "level" else self.level(scaled)
        span = {"windows": 20, "shapes": 10 * self.params.block}.get(kind, 0)
        out = np.array([self.since_filled(c) < span for c in range(len(scaled))])
        return None if found is None else np.where(np.isnan(scaled) | out, np.nan, found)

    def since_filled(self, c: int) -> int:
        """Return how many values came since eight in a row were missing; 100 at most."""
        since, row = 100, 0
        for missing in self.missing:
            if missing[c]:
                row += since == 100
            else:
                since, row = 0 if row >= 8 else min(since + 1, 100), 0
        return since

    def forecast(self, phase: float) -> Array | None:
        if len(self.samples) < 6:
            return None
        past = np.concatenate(self.samples[-6:-1])
        return np.asarray(
            (self.samples[-1] - self.params.forecast @ past - self.params.intercept) ** 2
        )

    def level(self, scaled: Array) -> Array:
        away = self.samples[-1] - self.params.level_mean
        parts = away * (self.params.level_inverse.astype(np.float64) @ away)
        parts = np.where(np.isnan(scaled), 0.0, parts)
        above = np.maximum(parts, 0)
        if above.sum() == 0:
            return above
        return np.asarray(above / above.sum() * max(parts.sum(), 0))

    def windows(self, phase: float) -> Array | None:
        if len(self.samples) < 20:
            return None
        blocks = np.array(self.samples[-20:]).reshape(10, 2, -1).mean(axis=1)
        rest = blocks.reshape(-1) - self.params.windows_mean
        for row in self.params.windows_basis.astype(np.float64):
            if row.any():
                rest = rest - (rest @ row) * row
        return np.asarray((rest.reshape(blocks.shape) ** 2).mean(axis=0))

    def shapes(self, phase: float) -> Array | None:
        length = 10 * self.params.block
        if len(self.samples) < length:
            return None
        newest = np.array(self.samples[-length:])
        blocks = newest.reshape(10, -1, newest.shape[1]).mean(axis=1)
        window = (blocks - blocks.mean(axis=0))[::-1]
        shapes = self.params.shapes.astype(np.float64).reshape(-1, *window.shape)
        distances = [((window - shape) ** 2).sum() for shape in shapes]
        nearest = shapes[int(np.argmin(distances))]
        return np.asarray(((window - nearest) ** 2).mean(axis=0))

    def rhythm(self, phase: float) -> Array | None:
        if np.isnan(phase):
            return None
        levels, spreads = self.params.rhythm_levels, self.params.rhythm_spreads
        at = np.arange(len(levels) + 1)
        expected, spread = (
            np.array([np.interp(phase, at, np.append(each, each[0])) for each in table.T])
            for table in (levels, spreads)
        )
        return np.asarray(((self.samples[-1] - expected) / spread) ** 2)
