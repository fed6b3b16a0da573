"""Where the channels of a change are, and when the stream is judged from there."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from newnormal.acceptance.range import SURELY, squeezed, unsqueezed
from newnormal.acceptance.reviewed import Reviewed
from newnormal.kernels.drift import KEEP, SETTLING, lag_index
from newnormal.kernels.stream import (
    CHANGE_ALARM,
    CHANGE_PLACED,
    CHANGE_START,
    CHANGE_STATE,
    IS_REJECTED,
)
from newnormal.types import Floats

# Reviews from the start of a change on, after which the stream is judged from where it is. Sooner,
# its scores would fall while the alarm is young; on 36 real streams the average precision of SMD
# falls by .02 without it. An alarm that stands does not hide another meanwhile.
_STANDS = 4
_BEYOND = 2.0  # of history's standard deviations: how far beyond the newest value a jump may end


class Levels(Reviewed):
    """The levels of changed channels."""

    def _level(self, slot: int, beyond: float = _BEYOND) -> Floats:
        """Return the level that each channel moves to: at once where the change began so.

        It may be this far `beyond` what was seen, in history's standard deviations.
        """
        before, levels = squeezed(self.changes.before[slot]), self.drift.levels
        age = max(self.judged - int(self.changes.counts[slot, CHANGE_START]), SURELY)
        if not self.changes.counts[slot, CHANGE_ALARM]:  # it came slowly
            return unsqueezed(levels)
        found = before + (levels - before) / (1 - KEEP**age)
        newest = np.where(np.isnan(self.drift.last), levels, self.drift.last)
        low, high = np.minimum(levels, newest), np.maximum(levels, newest)
        return unsqueezed(found.clip(low - beyond, high + beyond))

    def _follow(self, slot: int) -> None:
        """Bring `after` and the distance of a change up to date."""
        changes, channels = self.changes, self.changes.channels[slot] != 0
        if not channels.any():
            return
        if self._moves_on(slot, channels):
            changes.after[slot] = self._level(slot)
            before, farthest = changes.before[slot], changes.farthest[slot]
            level = self._level(slot, 0.0)
            is_farther = np.abs(level - before) > np.abs(farthest - before)
            farthest[is_farther] = level[is_farther]
            changes.counts[slot, CHANGE_PLACED] = self.judged
        changes.distances[slot] = self.drift.distances[channels].max()

    def _stands(self, slot: int) -> bool:
        """Whether a change has lasted, or was rejected: the stream is judged from where it is."""
        start, state = self.changes.counts[slot, [CHANGE_START, CHANGE_STATE]].tolist()
        lasts = self.judged - start >= _STANDS * self.timing.review_length
        return bool(lasts or state == IS_REJECTED)

    def _place(self, slot: int, *, whole: bool = False) -> None:
        """Judge the stream from where the channels of a change are.

        What is farther out than can be measured in full stays in the scores, in part, until it is
        accepted: then the `whole` shift counts.
        """
        changes, channels = self.changes, self.changes.channels[slot] != 0
        if not channels.any():
            return
        before, after = changes.before[slot], changes.after[slot]
        moved = after - before if whole else squeezed(after) - squeezed(before)
        shift = np.where(channels, moved, 0.0)
        age = self.judged - int(changes.counts[slot, CHANGE_START])
        for model in self._models:
            self.fitted.model.translate(model, slot, shift, age)

    def _moves_on(self, slot: int, channels: NDArray[np.bool_]) -> bool:
        """Whether a change is not where it was: still settling, or farther off than normal goes."""
        changes = self.changes
        start, placed = changes.counts[slot, [CHANGE_START, CHANGE_PLACED]].tolist()
        if placed < start + SETTLING:
            return True
        C = len(channels)
        lag = lag_index(self.judged - placed, len(self.range.params.wanders))
        wander = self.range.params.wanders[lag, C : 2 * C]
        away = np.abs(self.drift.levels - squeezed(changes.after[slot]))
        back = np.abs(self.drift.levels - squeezed(changes.before[slot])) < away
        return bool((channels & ~back & (away > wander)).any())
