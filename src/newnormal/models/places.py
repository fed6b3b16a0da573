"""Places that a committee judges a stream from, and patterns it accepts: see kernels.accepted."""

from __future__ import annotations

import numpy as np

from newnormal.kernels.accepted import (
    GROWING,
    GROWS,
    NEXT_PATTERN,
    NEXT_PLACE,
    PATTERNS,
    PLACES,
    AcceptedState,
)
from newnormal.kernels.committee import CommitteeParams, CommitteeState
from newnormal.kernels.members import HEAD, LONG, SPAN
from newnormal.types import Bools, Floats, Ints

_NEWS = 0.25  # of history's standard deviations: a shift that moved less is left as it is
_QUIET = 1.5  # a vote that counts as quiet for every pattern
_OPEN = PLACES // 2  # places of open changes; the others are accepted


def set_place(
    own: CommitteeState, params: CommitteeParams, slot: int, shift: Floats, age: int
) -> None:
    """Judge a stream that moved by `shift` (C,) `age` samples ago from where it is.

    What the members remember of it is moved back as well.
    """
    accepted = own.accepted
    before = accepted.shifts[slot] * accepted.used[slot]
    further = shift - before
    if accepted.used[slot] and np.abs(further).max(initial=0.0) < _NEWS:
        return
    is_new = not accepted.used[slot]
    accepted.shifts[slot], accepted.used[slot] = shift, 1
    if is_new:
        accepted.at[slot] = 1
    if accepted.at[slot] and age > 0:
        _move(own, params, further, age)


def accept_place(own: CommitteeState, slot: int, *, stays: bool = True) -> None:
    """Accept the place of an open change, which may be over; the oldest accepted makes room."""
    accepted = own.accepted
    if not accepted.used[slot]:
        return
    row = _OPEN + int(accepted.counts[NEXT_PLACE]) % (PLACES - _OPEN)
    if accepted.used[row] and accepted.at[row]:  # the stream stands there: that stays
        accepted.shifts[slot] += accepted.shifts[row]
    accepted.counts[NEXT_PLACE] += 1
    accepted.shifts[row] = accepted.shifts[slot]
    accepted.used[row], accepted.at[row] = 1, accepted.at[slot] * stays
    accepted.shifts[slot] = 0
    accepted.used[slot] = accepted.at[slot] = 0


def newest_accepted(own: CommitteeState) -> Floats | None:
    """Return by how much the place moved that was accepted last; None if the stream left it."""
    accepted = own.accepted
    row = _OPEN + (int(accepted.counts[NEXT_PLACE]) - 1) % (PLACES - _OPEN)
    return accepted.shifts[row].copy() if accepted.used[row] and accepted.at[row] else None


def drop_place(own: CommitteeState, params: CommitteeParams, slot: int) -> None:
    """Forget the place of an open change."""
    accepted = own.accepted
    if accepted.used[slot] and accepted.at[slot]:
        _move(own, params, -accepted.shifts[slot], LONG + SPAN)
    accepted.shifts[slot] = 0
    accepted.used[slot] = accepted.at[slot] = 0


def seen_levels(seen: CommitteeState, ages: Ints, block: int) -> Floats:
    """Return the mean of each channel in its newest samples, so many or LONG; NaN of few."""
    means, accepted = np.roll(seen.members.means, -int(seen.members.counts[HEAD]), 0), seen.accepted
    here = (accepted.shifts * (accepted.used * accepted.at)[:, None]).sum(axis=0)
    rows = np.maximum(ages - block + 1, 1)  # each is a mean of `block`
    levels = np.array([means[-count:, c].mean() for c, count in enumerate(rows)], np.float64)
    return np.where(rows < block, np.nan, levels + here)


def recall(
    own: CommitteeState,
    seen: CommitteeState,
    params: CommitteeParams,
    channels: Bools,
    shift: Floats,
    age: int,
) -> None:
    """Remember what was seen of channels that moved by `shift` (C,) `age` samples ago, moved back.

    It was hidden, and what was expected stands in its place.
    """
    for name in ("levels", "past_trends", "residuals"):
        getattr(own, name)[..., channels] = getattr(seen, name)[..., channels]
    own.members.recent[:, channels] = seen.members.recent[:, channels]
    own.members.means[:, channels] = seen.members.means[:, channels]
    own.members.filled[channels] = seen.members.filled[channels]
    _move(own, params, np.where(channels, shift, 0.0), age)


def accept_pattern(
    own: CommitteeState, votes: Floats, channels: Bools, *, grows: bool = False
) -> None:
    """Accept samples that no member finds worse than these votes, in these channels.

    A pattern that grows is not over: what follows belongs to it.
    """
    accepted = own.accepted
    if len(votes) != accepted.peaks.shape[1]:
        return
    row = int(accepted.counts[NEXT_PATTERN]) % PATTERNS
    accepted.peaks[row] = np.where(np.isneginf(votes), np.inf, np.maximum(votes, _QUIET))
    accepted.channels[row] = channels
    accepted.counts[NEXT_PATTERN] += 1
    accepted.counts[GROWS] = GROWING if grows else 0
    if grows:  # the votes of its samples are not smoothed into those that follow
        own.smooth[:] = 0


def restore(own: CommitteeState, kept: AcceptedState) -> None:
    """Restore what was accepted; places of open changes stay."""
    accepted = own.accepted
    for part in ("shifts", "used", "at"):
        getattr(accepted, part)[_OPEN:] = getattr(kept, part)[_OPEN:]
    for part in ("peaks", "channels", "counts"):
        getattr(accepted, part)[:] = getattr(kept, part)


def _move(own: CommitteeState, params: CommitteeParams, shift: Floats, age: int) -> None:
    """Move back what is remembered of the last `age` samples."""
    followed = (1 - params.decays[:, None] ** age) * shift  # what the trends have followed of it
    own.levels[:] -= followed
    own.past_trends[:] -= followed[:, None]
    own.residuals[:] -= (shift - followed)[:, None]
    members = own.members
    members.recent[SPAN - min(age, SPAN) :] -= shift.astype(np.float32)
    newest = int(members.counts[HEAD])
    for back in range(min(age, LONG)):
        share = min(1.0, (age - back) / params.members.block)
        members.means[(newest - 1 - back) % LONG] -= np.float32(share) * shift
