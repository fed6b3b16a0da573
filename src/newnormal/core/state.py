"""A fitted detector and a live stream as values: arrays of fixed shape.

`Fitted` does not change. `StreamState` is what every sample touches; given channels, window and
latent its arrays have a fixed shape, so that streams of one shape can be stacked along a new first
axis, and a copy is a checkpoint. A `Shadow` and up to three `Baseline`s to go back to are there
only sometimes.

Shapes: L window length, C channels, P weights, N scores and K positions that a shadow keeps.
"""

from __future__ import annotations

import copy as copying
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from newnormal.config import Config
from newnormal.core.stages import Acceptance, Alarms, Scorer
from newnormal.core.times import SampleTimes
from newnormal.kernels.alarm import AlarmParams, AlarmState
from newnormal.kernels.drift import DriftParams, DriftState
from newnormal.kernels.step import (
    AGE,
    CYCLE,
    HELD,
    LEARNED,
    PENDING,
    RESTORED,
    SEEN,
    StepParams,
    StepState,
)
from newnormal.types import NO_TIME, Bools, Floats, Floats32, Ints, Times

_Part = TypeVar("_Part")
_Number = TypeVar("_Number", bound=np.generic)

# The counters of StepState.counts by name, as they stand in a state file.
COUNTS = {
    "seen": SEEN,
    "held": HELD,
    "pending": PENDING,
    "cycle": CYCLE,
    "age": AGE,
    "learned": LEARNED,
    "restored": RESTORED,
}


CHANGES = 8  # open at a time; one more joins the newest


class ModelState(NamedTuple):
    """What a model changes while a stream runs."""

    step: StepState
    own: Any = None  # a committee's CommitteeState, or the objects of a model that holds its own


class LogState(NamedTuple):
    """The newest alarm by the score; see `newnormal.alarms.log` for the positions."""

    counts: Ints  # (5,)
    levels: Floats  # (4,)
    times: Ints  # (3,) start, end and peak in nanoseconds; the least number for none
    channels: Ints  # (5,) the channels of the peak, the largest share first; -1 for none
    shares: Floats  # (5,)
    evidence: Floats  # (4, 5) observed, expected, low and high of these; NaN where not known
    votes: Floats  # (V,) the highest vote of each member; none for a model without members

    @classmethod
    def initial(cls, votes: int = 0) -> LogState:
        """Return the log before the first alarm."""
        return cls(
            np.zeros(5, np.int64),
            np.zeros(4),
            np.full(3, NO_TIME),
            np.full(5, -1),
            np.zeros(5),
            np.full((4, 5), np.nan),
            np.zeros(votes),
        )


class SilenceState(NamedTuple):
    """The open alarm by silence; see `newnormal.alarms.silence` for the positions."""

    counts: Ints  # (4,)
    times: Ints  # (2,) of its start, and of the newest sample; the least number for none
    missing: Ints  # (C,) samples for which a channel has been missing
    channels: Ints  # (5,) the channels that were missing when it opened; -1 for none

    @classmethod
    def initial(cls, channels: int) -> SilenceState:
        """Return the state before the first sample."""
        least = NO_TIME
        missing = np.zeros(channels, np.int64)
        return cls(np.zeros(4, np.int64), np.full(2, least), missing, np.full(5, -1))


class ReviewState(NamedTuple):
    """What acceptance keeps of a stream; see `newnormal.acceptance.changes` for the positions."""

    counts: Ints  # (4,)
    levels: Floats  # (2,)


class ChangeState(NamedTuple):
    """The open changes, a row each; see `newnormal.acceptance.changes` for the positions."""

    counts: Ints  # (M, 7)
    times: Ints  # (M,) of its start in nanoseconds; the least number for none
    distances: Floats  # (M,) when last reviewed
    channels: Ints  # (M, C) 1 for the channels it is about
    before: Floats  # (M, C) levels when last normal, in history's standard deviations
    after: Floats  # (M, C) levels now
    farthest: Floats  # (M, C) levels when they were farthest from `before`

    @classmethod
    def initial(cls, channels: int) -> ChangeState:
        """Return the state without a change."""
        return cls(
            np.zeros((CHANGES, 7), np.int64),
            np.full(CHANGES, NO_TIME),
            np.zeros(CHANGES),
            np.zeros((CHANGES, channels), np.int64),
            np.zeros((CHANGES, channels)),
            np.zeros((CHANGES, channels)),
            np.zeros((CHANGES, channels)),
        )


class Baseline(NamedTuple):
    """What was normal at some time: enough to go back to it."""

    weights: Floats32  # (P,)
    trend: Floats  # (C,), or (J, C) for a committee
    lows: Floats  # (4 C,) the range accepted as normal
    highs: Floats  # (4 C,)
    tail_levels: Floats  # as AlarmState
    tail_excess: Floats
    levels: Floats  # (5,) start location, location, height, start height; weights moved
    accepted: Any = None  # what the model accepted besides: its `AcceptedState`, or None


class Shadow(NamedTuple):
    """What is kept of a pending change: a model that learns it, and where the stream was."""

    model: ModelState  # learns what the running model does not
    scores: Floats  # (N,) its newest scores, in a ring
    positions: Floats  # (K, 4 C) of the stream, one a review, the newest last
    counts: Ints  # (4,) see `newnormal.acceptance.shadow`


@dataclass(slots=True, eq=False)
class StreamState:
    """One live stream."""

    model: ModelState
    times: SampleTimes
    learn_threshold: Floats  # (1,) samples that score less are learned from
    alarm: AlarmState
    log: LogState
    silence: SilenceState
    drift: DriftState | None = None
    review: ReviewState | None = None
    changes: ChangeState | None = None
    last_quiet: Baseline | None = None  # normal at the newest review without alarm or change
    accepted: Baseline | None = None  # normal as last accepted; None: as fitted
    undo: tuple[Baseline, ...] = ()  # what acceptances replaced, at most three, the oldest first
    shadow: Shadow | None = None
    moving: Floats | None = None  # of a threshold that moves by a rule of its own

    def copy(self) -> StreamState:
        """Return a copy that shares nothing."""
        return StreamState(**{name: copied(getattr(self, name)) for name in self.__slots__})

    @property
    def judged(self) -> int:
        """How many samples have a verdict."""
        counts = self.model.step.counts
        return int(counts[SEEN] - counts[PENDING])


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted detector: everything that stays as `fit` left it."""

    config: Config
    channels: tuple[str, ...]
    period: np.timedelta64 | None
    model: Scorer
    step: StepParams
    alarm: AlarmParams
    tail_chances: Floats  # (KNOTS,) the chance to reach each of AlarmState.tail_levels
    tail_knots: int  # how many of them are known
    alarm_start: AlarmState  # as fitting left it
    alarms: Alarms
    acceptance: Acceptance
    drift: DriftParams | None = None
    baseline: Baseline | None = None  # normal as fitted
    rule: Any = None  # of a threshold that moves by itself; None for all others
    moving_start: Floats | None = None  # the rule's state before the first sample
    spread: Floats | None = None  # (C,) usual distance from what is expected, in the user's units
    never_missing: Bools | None = None  # (C,) the channels that history never misses
    rhythm: Any = None  # what to expect at a time of day; None where history shows none
    choice: Any = None  # what a Detector chose; None for M2N2
    losses: tuple[float, ...] = field(default=())
    zone: str | None = None  # of history's times; None: they had none, or there were no times
    reading: dict[str, Any] | None = None  # how history was read from a file, as JSON values

    @property
    def has_rhythm(self) -> bool:
        """Whether what is expected depends on the time of day."""
        return self.rhythm is not None

    def params(self, threshold: float, is_frozen: bool) -> StepParams:
        """Return the model's parameters with the present threshold; it learns nothing if frozen."""
        if not is_frozen and threshold == self.step.learn_threshold:
            return self.step
        lr = np.float32(0) if is_frozen else self.step.lr
        return self.step._replace(alarm_threshold=threshold, learn_threshold=threshold, lr=lr)

    def phases(self, times: Times | None, first: int, count: int) -> Floats | None:
        """Return where in its rhythm each of `count` samples is; None without a rhythm."""
        found: Floats | None = None
        if self.rhythm is not None:
            found = self.rhythm.phases(times, first, count)
        return found

    def votes(self, rows: int) -> Floats32 | None:
        """Return room for the votes of the model's members, (rows, V); None without any."""
        count = self.model.vote_count
        return np.empty((rows, count), np.float32) if count else None

    def initial(self) -> StreamState:
        """Return the state before the first sample."""
        model = self.model.initial(self.step.fitted)
        state = StreamState(
            model,
            SampleTimes.initial(len(model.step.samples)),
            np.array([self.step.learn_threshold]),
            copied(self.alarm_start),
            LogState.initial(self.model.vote_count),
            SilenceState.initial(len(self.channels)),
            moving=copied(self.moving_start),
        )
        self.acceptance.begin(self, state)
        return state

    def with_alarms(self, alarms: Alarms) -> Fitted:
        """Return the same with this alarm stage."""
        return replace(self, alarms=alarms)

    def frozen(self, acceptance: Acceptance) -> Fitted:
        """Return the same with trend and weights frozen, and `acceptance` instead of its own."""
        return replace(self, step=frozen(self.step), acceptance=acceptance)


def frozen(params: StepParams) -> StepParams:
    """Return parameters with which neither trend nor weights change."""
    return params._replace(decay=1.0, lr=np.float32(0))


def aligned(array: NDArray[_Number]) -> NDArray[_Number]:
    """Return a contiguous copy that begins at a cache line and can be written to.

    NumPy's own begin at any 16 bytes, and a step on rows that straddle cache lines takes a sixth
    longer.
    """
    room = np.empty(array.nbytes + 64, dtype=np.uint8)
    start = -room.ctypes.data % 64
    copy = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def copied(part: _Part) -> _Part:
    """Return a copy of a part of a state that shares nothing."""
    if part is None:
        return part
    if isinstance(part, np.ndarray):
        return aligned(part)  # type: ignore[return-value]
    if isinstance(part, tuple):
        parts = map(copied, part)
        return part._make(parts) if hasattr(part, "_make") else tuple(parts)  # type: ignore[return-value]
    return copying.deepcopy(part)


def arrays(part: object) -> Iterator[NDArray[Any]]:
    """Give the arrays of a state or a part of one."""
    if isinstance(part, np.ndarray):
        yield part
    elif isinstance(part, tuple):
        for each in part:
            yield from arrays(each)
    elif isinstance(part, StreamState):
        for name in part.__slots__:
            yield from arrays(getattr(part, name))


def nbytes(part: object) -> int:
    """Return how many bytes the arrays of a state or a part of one hold."""
    return sum(array.nbytes for array in arrays(part))
