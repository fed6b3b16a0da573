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
from newnormal.types import Floats, Floats32, Ints

__all__ = [
    "COUNTS",
    "Baseline",
    "Fitted",
    "LogState",
    "ModelState",
    "ReviewState",
    "Shadow",
    "StreamState",
    "aligned",
    "arrays",
    "copied",
    "frozen",
    "nbytes",
]

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


class ModelState(NamedTuple):
    """What a model changes while a stream runs."""

    step: StepState
    own: Any = None  # a committee's CommitteeState, or the objects of a model that holds its own


class LogState(NamedTuple):
    """The open alarm; see `newnormal.alarms.log` for the positions."""

    counts: Ints  # (6,)
    levels: Floats  # (4,)
    times: Ints  # (3,) start, end and peak in nanoseconds; the least number for none
    channels: Ints  # (5,) the channels of the peak, the largest share first; -1 for none
    shares: Floats  # (5,)

    @classmethod
    def initial(cls) -> LogState:
        """Return the log before the first alarm."""
        times = np.full(3, np.iinfo(np.int64).min)
        return cls(np.zeros(6, np.int64), np.zeros(4), times, np.full(5, -1), np.zeros(5))


class ReviewState(NamedTuple):
    """What acceptance keeps of a stream; see `newnormal.acceptance.review` for the positions."""

    counts: Ints  # (4,)
    levels: Floats  # (2,)


class Baseline(NamedTuple):
    """What was normal at some time: enough to go back to it."""

    weights: Floats32  # (P,)
    trend: Floats  # (C,), or (J, C) for a committee
    lows: Floats  # (4 C,) the range accepted as normal
    highs: Floats  # (4 C,)
    tail_levels: Floats  # as AlarmState
    tail_excess: Floats
    levels: Floats  # (4,) location, height and start height of the alarm threshold; weights moved


class Shadow(NamedTuple):
    """What is kept of an alarm that lasts: a model that learns it, and where the stream was."""

    model: ModelState  # learns what the running model does not
    scores: Floats  # (N,) its newest scores, in a ring
    positions: Floats  # (K, 4 C) of the stream, one a review, the newest last
    counts: Ints  # (4,) see `newnormal.acceptance.review`


@dataclass(slots=True, eq=False)
class StreamState:
    """One live stream."""

    model: ModelState
    times: SampleTimes
    learn_threshold: Floats  # (1,) samples that score less are learned from
    alarm: AlarmState
    log: LogState
    drift: DriftState | None = None
    review: ReviewState | None = None
    last_quiet: Baseline | None = None  # normal at the newest review without an alarm
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
    choice: Any = None  # what a Detector chose; None for M2N2
    losses: tuple[float, ...] = field(default=())
    zone: str | None = None  # of history's times; None: they had none, or there were no times

    def initial(self) -> StreamState:
        """Return the state before the first sample."""
        model = self.model.initial(self.step.fitted)
        state = StreamState(
            model,
            SampleTimes.initial(len(model.step.samples)),
            np.array([self.step.learn_threshold]),
            copied(self.alarm_start),
            LogState.initial(),
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
