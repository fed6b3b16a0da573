"""Places of a committee, slowly and obviously: the twin of `kernels.accepted.move_back`."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class NaivePlaces:
    """Shifts that a stream may stand at, and at which of them it stands."""

    def __init__(
        self, shifts: Array, used: list[bool], at: list[bool], mean: Array, inverse: Array
    ) -> None:
        self.shifts, self.used, self.at = shifts, used, list(at)
        self.mean, self.inverse = mean, inverse

    def total(self, at: list[bool]) -> Array:
        chosen = [u and a for u, a in zip(self.used, at, strict=True)]
        return np.asarray(self.shifts[chosen].sum(axis=0))

    def distance(self, sample: Array, moved: Array) -> float:
        away = np.where(np.isnan(sample), 0.0, sample - moved - self.mean)
        return float(away @ self.inverse @ away)

    def way(self, sample: Array, moved: Array, shift: Array) -> tuple[float, float]:
        """Return how far along a shift a sample is, 1 at its end, and the T² of the shift."""
        known = ~np.isnan(sample)
        own = np.where(known, shift, 0.0)
        away = np.where(known, sample - moved - self.mean, 0.0)
        length = float(own @ self.inverse @ own)
        return (float(own @ self.inverse @ away) / length, length) if length > 0 else (0.0, 0.0)

    def with_place(self, k: int, there: bool) -> list[bool]:
        return [there if i == k else each for i, each in enumerate(self.at)]

    def move_back(self, sample: Array, limit: float) -> Array:
        """Return by how much a sample is moved back."""
        moved = self.total(self.at)
        if self.distance(sample, moved) > limit:
            moved = self.searched(sample, moved, limit)
        return self.blended(sample, moved, limit)

    def searched(self, sample: Array, moved: Array, limit: float) -> Array:
        """Toggle places, each time the one that brings the sample nearest, from here and none."""
        found = [self.at]
        for at in (self.at, [False] * len(self.at)):
            now = list(at)
            while True:
                found.append(now)
                options = [
                    [each != (i == k) for i, each in enumerate(now)]
                    for k in range(len(now))
                    if self.used[k]
                ]
                best = min(options, key=lambda each: self.distance(sample, self.total(each)))
                if self.distance(sample, self.total(best)) >= self.distance(
                    sample, self.total(now)
                ):
                    break
                now = best
        best = min(found, key=lambda each: self.distance(sample, self.total(each)))
        if self.distance(sample, self.total(best)) <= limit:
            self.at = list(best)
            return self.total(best)
        return moved

    def blended(self, sample: Array, moved: Array, limit: float) -> Array:
        """Between two accepted levels the part of the shift grows along the way."""
        best = moved
        for k in range(len(self.used) // 2, len(self.used)):
            if not self.used[k]:
                continue
            base = self.total(self.with_place(k, False))
            way, length = self.way(sample, base, self.shifts[k])
            if length == 0:
                continue
            near = min(0.25, np.sqrt(limit / length) / 2)
            part = min(max((way - near) / (1 - 2 * near), 0.0), 1.0)
            option = base + part * self.shifts[k]
            if self.distance(sample, option) < self.distance(sample, best):
                best = option
        return best
