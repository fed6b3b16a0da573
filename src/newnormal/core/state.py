"""A fitted detector and a live stream as values: arrays of fixed shape.

`Fitted` does not change. `StreamState` is what every sample touches; given channels, window and
latent its arrays have a fixed shape, so that streams of one shape can be stacked along a new first
axis, and a copy is a checkpoint. A `Shadow` and up to three `Baseline`s to go back to are there
only sometimes.

Shapes: L window length, C channels, P weights, N scores and K positions that a shadow keeps.
"""

from __future__ import annotations

import copy as copying
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from newnormal.config import Config
from newnormal.core.stages import Acceptance, Alarms, Scorer
from newnormal.core.times import SampleTimes
from newnormal.kernels.alarm import AlarmParams, AlarmState
from newnormal.kernels.channels import (
    HIDDEN,
    STEADY,
    UNKNOWN,
    ChannelOut,
    ChannelParams,
    ChannelState,
    HomeState,
)
from newnormal.kernels.channels import judge as judge_by_channel
from newnormal.kernels.channels import rank as write_ranks
from newnormal.kernels.committee import ObservedState
from newnormal.kernels.compiled import Entries
from newnormal.kernels.drift import DriftParams, DriftState
from newnormal.kernels.step import PENDING, SEEN, StepOut, StepParams
from newnormal.kernels.stream import (
    Baseline,
    ChangeState,
    LogState,
    ModelState,
    ReviewState,
    Shadow,
    SilenceState,
)
from newnormal.types import NO_TIME, Bools, Floats, Floats32, Times, Verdicts
from newnormal.types.tables import ANY, KNOWN, Array, first, flatten

_Part = TypeVar("_Part")
_Number = TypeVar("_Number", bound=np.generic)
_NO_TIME, _NO_PHASE = np.full(1, NO_TIME), np.full(1, np.nan)  # of a step; nobody writes to them


@dataclass(slots=True, eq=False)
class StreamState:
    """One live stream."""

    model: ModelState
    times: SampleTimes
    learn_threshold: Annotated[Floats, Array(1, range=KNOWN)]  # what scores less is learned from
    alarm: AlarmState
    log: LogState
    silence: SilenceState
    channel: ChannelState | None = None
    observed: ObservedState | None = None
    drift: DriftState | None = None
    review: ReviewState | None = None
    changes: ChangeState | None = None
    last_quiet: Baseline | None = None  # normal at the newest review without alarm or change
    accepted: Baseline | None = None  # normal as last accepted; None: as fitted
    undo: tuple[Baseline, ...] = ()  # what acceptances replaced, at most three, the oldest first
    shadow: Shadow | None = None
    # Of a threshold that moves by a rule of its own.
    moving: Annotated[Floats, Array("S", range=ANY)] | None = None

    def copy(self) -> StreamState:
        """Return a copy that shares nothing."""
        return StreamState(**{name: copied(getattr(self, name)) for name in self.__slots__})

    def forget_past(self) -> None:
        """Forget the newest values of the channels, and the stream as observed: levels stay."""
        if self.channel is not None and self.observed is not None:
            self.observed.left[:] = 0
            self.channel.past[:] = 0
            self.channel.counts[:, HIDDEN] = UNKNOWN
            self.channel.counts[:, STEADY] = 0
            self.channel.time[:] = NO_TIME

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
    tail_chances: Floats  # (KNOTS,) the chance to reach each of AlarmState.tail_levels; then 0
    alarm_start: AlarmState  # as fitting left it
    alarms: Alarms
    acceptance: Acceptance
    channel: ChannelParams | None = None  # None where channels are not judged by themselves
    drift: DriftParams | None = None
    baseline: Baseline | None = None  # normal as fitted
    peaks: Any = None  # of history's scores, for another limit on alarms; None without a limit
    rule: Any = None  # of a threshold that moves by itself; None for all others
    moving_start: Floats | None = None  # the rule's state before the first sample
    spread: Floats | None = None  # (C,) usual distance from what is expected, in the user's units
    never_missing: Bools | None = None  # (C,) the channels that history never misses
    rhythm: Any = None  # what to expect at a time of day; None where history shows none
    choice: Any = None  # what a Detector chose; None for M2N2
    losses: tuple[float, ...] = field(default=())
    zone: str | None = None  # of history's times; None: they had none, or there were no times
    reading: dict[str, Any] | None = None  # how history was read from a file, as JSON values
    units: Mapping[str, str] = field(default_factory=dict)  # of channels, where they are known
    kernels: Entries = field(default_factory=Entries, init=False, repr=False)

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
        rhythm = self.rhythm
        phases: Floats | None = None if rhythm is None else rhythm.phases(times, first, count)
        return phases

    def verdicts(self, state: StreamState, out: StepOut, times: Times | None) -> Verdicts:
        """Return verdicts from the next one on: what a model writes to `out`, and room beside."""
        rows, C = out.expected.shape
        ranges: tuple[Any, ...] = (None, None, None)
        if self.channel is not None:
            ranges = (np.empty((rows, C)), np.empty((rows, C)), np.empty((rows, C), np.float32))
        thresholds = np.empty(rows)
        thresholds.fill(state.learn_threshold[0])
        return Verdicts(
            out.scores,
            thresholds,
            out.anomalous,
            out.expected if self.model.reconstructs else None,
            out.shares if self.model.reconstructs else None,
            times,
            self.channels,
            state.judged,
            None,
            *self.alarms.columns(rows),
            *self.acceptance.columns(rows),
            *ranges,
        )

    def votes(self, rows: int) -> Floats32 | None:
        """Return room for the votes of the model's members, (rows, V); None without any."""
        count = self.model.vote_count
        return np.empty((rows, count), np.float32) if count else None

    def initial(self) -> StreamState:
        """Return the state before the first sample."""
        model = self.model.initial(self.step.fitted)
        state = StreamState(
            model,
            first(SampleTimes, {"L": len(model.step.samples)}),
            np.array([self.step.learn_threshold]),
            copied(self.alarm_start),
            first(LogState, {"V": self.model.vote_count, "C": len(self.channels)}),
            first(SilenceState, {"C": len(self.channels)}),
            moving=copied(self.moving_start),
        )
        if self.channel is not None:
            sizes = {"C": len(self.channels)}
            state.channel = first(ChannelState, sizes, normal=self.initial_normal())
            state.observed = first(ObservedState, self.model.sizes)
        self.acceptance.begin(self, state)
        return state

    def initial_normal(self) -> HomeState | None:
        """Return what is normal of the channels as fitted; None where they are not judged."""
        if self.channel is None:
            return None
        lows, highs = self.channel.lows.copy(), self.channel.highs.copy()
        return first(HomeState, {"C": len(lows)}, lows=lows, highs=highs)

    def with_alarms(self, alarms: Alarms) -> Fitted:
        """Return the same with this alarm stage."""
        return replace(self, alarms=alarms)

    def frozen(self, acceptance: Acceptance) -> Fitted:
        """Return the same with trend and weights frozen, and `acceptance` instead of its own."""
        return replace(self, step=frozen(self.step), acceptance=acceptance)


def judge_channels(
    fitted: Fitted,
    state: StreamState,
    samples: Floats,
    phases: Floats | None,
    verdicts: Verdicts,
    rows: slice,
) -> ChannelOut | None:
    """Judge each channel of samples (T, C) by itself, in these rows; None where it is not done."""
    if fitted.channel is None or state.channel is None:
        return None
    T, C = samples.shape
    times = _NO_TIME if T == 1 else np.full(T, NO_TIME)
    if verdicts.times is not None:
        times = verdicts.times[rows].view(np.int64)
    judged: Any = verdicts.expected, verdicts.lows, verdicts.highs, verdicts.channel_ratios
    columns: list[Any] = [column[rows] for column in judged]
    columns += np.empty((T, C)), np.empty((T, C), np.int64), np.empty((T, C), np.float32)
    columns += np.empty(T, np.int64), np.empty(T)
    out = ChannelOut(*columns)
    arguments = samples, times, known_phases(phases, T), state.channel, fitted.channel
    scaling = fitted.step.mean, fitted.step.scale, fitted.model.rhythm_levels
    fitted.kernels.call(judge_by_channel, *arguments, *scaling, out)
    return out


def rows_of(channels: ChannelOut | None, rows: slice) -> ChannelOut | None:
    """Return some rows of what is known of channels."""
    if channels is None or (rows.start == 0 and rows.stop == len(channels.open)):
        return channels
    return ChannelOut._make([column[rows] for column in channels])


def rank(
    fitted: Fitted, state: StreamState, observed: Floats, channels: ChannelOut, scores: Floats
) -> None:
    """Write the scores of rows: what ranks them, from what they score as `observed`."""
    assert state.channel is not None
    fitted.kernels.call(write_ranks, observed, channels.ranks, state.channel.smooth, scores)


def known_phases(phases: Floats | None, count: int) -> Floats:
    """Return the phases of so many samples, NaN where there are none."""
    if phases is not None:
        return np.ascontiguousarray(phases)
    return _NO_PHASE if count == 1 else np.full(count, np.nan)


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
    return (array for _, array in flatten(part))


def nbytes(part: object) -> int:
    """Return how many bytes the arrays of a state or a part of one hold."""
    return sum(array.nbytes for array in arrays(part))
