"""What a fitted detector shows of itself."""

from __future__ import annotations

import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar
from weakref import WeakSet

import numpy as np

from newnormal.acceptance import TimedAcceptance
from newnormal.acceptance.changes import open_changes
from newnormal.alarms import AlarmRate, AlarmThreshold, open_alarm
from newnormal.alarms.moving import threshold_of
from newnormal.alarms.silence import silence_alarm
from newnormal.alarms.words import in_zone
from newnormal.core.state import COUNTS, Fitted, StreamState, nbytes
from newnormal.errors import NewnormalError, NotFittedError
from newnormal.kernels.step import PENDING
from newnormal.models.base import Model
from newnormal.types import PENDING as PENDING_CHANGE
from newnormal.types import Alarm, Change, Floats
from newnormal.types.zones import output_zone

_Method = TypeVar("_Method", bound=Callable[..., Any])


def add_lock(detector: Views) -> None:
    """Give a detector the lock that makes calls on it take turns."""
    detector._lock = threading.RLock()
    _LOCKED.add(detector)


# A process that forks waits a moment until a detector is not in use, so that the child has it as it
# is between two calls. One that stays in use cannot be used in the child.
_LOCKED: WeakSet[Views] = WeakSet()
_MOMENT_S = 0.5
_forking = threading.local()  # what the thread that forks has taken


class _InUse:
    """The lock, in a forked child, of a detector that another thread was using."""

    def __enter__(self) -> None:
        raise NewnormalError(
            "this detector was in use by another thread when the process was forked",
            hint="fork between two calls, or load the detector in the child",
        )

    def __exit__(self, *error: object) -> None: ...


def _take_locks() -> None:
    deadline = time.monotonic() + _MOMENT_S
    _forking.taken = taken = []
    for detector in list(_LOCKED):
        left = max(deadline - time.monotonic(), 0.0)
        taken.append((detector, detector._lock.acquire(timeout=left)))


def _release_locks() -> None:
    for detector, is_taken in _forking.taken:
        if is_taken:
            detector._lock.release()
    _forking.taken = []


def _after_in_child() -> None:
    for detector, is_taken in _forking.taken:
        if not is_taken:
            detector._lock = _InUse()
    _release_locks()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_take_locks, after_in_parent=_release_locks, after_in_child=_after_in_child
    )


def in_turn(method: _Method) -> _Method:
    """Make calls on one detector wait for each other: one thread at a time uses it."""

    @wraps(method)
    def call(self: Views, /, *args: Any, **kwargs: Any) -> Any:
        with self._lock:
            return method(self, *args, **kwargs)

    return call  # type: ignore[return-value]


class Views:
    """The attributes of a fitted detector."""

    _lock: threading.RLock
    _fitted: Fitted
    _state: StreamState
    _past: deque[Alarm | Change]
    _zone: str | None = None  # of the times of the input now

    def _live(self) -> StreamState:
        try:
            return self._state
        except AttributeError:
            raise NotFittedError(
                "this detector has not been fitted",
                hint="call detector.fit(history) first, or newnormal.load(path)",
            ) from None

    def _threshold(self) -> AlarmThreshold:
        return AlarmThreshold.of_stream(self._fitted, self._live().alarm)

    @property
    def channels_(self) -> tuple[str, ...]:
        """The channels' names."""
        self._live()
        return self._fitted.channels

    @property
    def n_features_in_(self) -> int:
        """How many channels there are."""
        return len(self.channels_)

    @property
    def period_(self) -> np.timedelta64 | None:
        """The time between samples, or None."""
        self._live()
        return self._fitted.period

    @property
    def reading_(self) -> dict[str, Any] | None:
        """How history was read from a file, as JSON values; None if it was not."""
        self._live()
        return self._fitted.reading

    @property
    def window_(self) -> int:
        """Samples judged together."""
        self._live()
        return self._fitted.config.window

    @property
    def latent_(self) -> int:
        """Width of the autoencoder's bottleneck."""
        self._live()
        return self._fitted.config.latent

    @property
    def decay_(self) -> float:
        """Share of the trend that a window keeps, γ; of the reported expert for a committee."""
        self._live()
        fitted = self._fitted
        if fitted.choice is None:
            return fitted.config.decay_per_window(fitted.period)
        plan = fitted.choice.plan
        return float(0.5 ** (fitted.config.window / plan.memories[plan.reported_expert]))

    @property
    def losses_(self) -> list[float]:
        """The mean training loss of each epoch."""
        self._live()
        return list(self._fitted.losses)

    @property
    def threshold_(self) -> float:
        """The score below which samples are learned from: τ, as fitted or last accepted."""
        return float(self._live().learn_threshold[0])

    @property
    def alarm_threshold_(self) -> float:
        """What the next score is compared with.

        It differs from `threshold_` where a limit on alarms or a rule of its own moves it.
        """
        state = self._live()
        if state.moving is not None:
            return threshold_of(self._fitted.rule, state.moving)
        return self._threshold().threshold_score

    @property
    def alarms_(self) -> list[Alarm]:
        """The open alarms, the oldest first: one by the score and one by silence at most."""
        state, fitted = self._live(), self._fitted
        with self._lock:
            newest = state.judged - 1
            found = [
                open_alarm(state.log, fitted.channels, fitted.has_rhythm),
                silence_alarm(fitted, state.silence, newest, self.last_judged_time_),
            ]
            opened = sorted((each for each in found if each), key=lambda alarm: alarm.number)
            return [in_zone(each, self.zone_) for each in opened]

    @property
    def alarm_(self) -> Alarm | None:
        """The newest open alarm, or None."""
        return next(reversed(self.alarms_), None)

    @property
    def changes_(self) -> list[Change]:
        """The open changes, pending or rejected, the oldest first."""
        state = self._live()
        with self._lock:
            return [in_zone(each, self.zone_) for each in open_changes(self._fitted, state)]

    @property
    def change_(self) -> Change | None:
        """The newest open change, or None."""
        return next(reversed(self.changes_), None)

    @property
    def past_(self) -> list[Alarm | Change]:
        """The last hundred alarms and changes as they were last reported, the oldest first."""
        self._live()
        with self._lock:
            return [in_zone(each, self.zone_) for each in self._past]

    @property
    def alarm_rate_(self) -> AlarmRate:
        """How many alarms there were, and how many a day, beside the limit."""
        return self._threshold().alarm_rate

    @property
    def status_(self) -> str:
        """``"in alarm"``, ``"change pending"``, ``"change rejected"`` or ``"normal"``."""
        if self.alarms_:
            return "in alarm"
        states = {change.state for change in self.changes_}
        if PENDING_CHANGE in states:
            return "change pending"
        return "change rejected" if states else "normal"

    @property
    def distance_(self) -> float:
        """How far the stream is from its accepted normal: past 1 is a change, however slow.

        NaN where there is no acceptance.
        """
        state = self._live()
        acceptance = self._fitted.acceptance
        if not isinstance(acceptance, TimedAcceptance):
            return math.nan
        return acceptance.distance(self._fitted, state)

    @property
    def counters(self) -> dict[str, int]:
        """Samples seen and pending, learning steps taken, and times the guard stepped in."""
        counts = self._live().model.step.counts
        return {
            name: int(counts[COUNTS[name]]) for name in ("seen", "pending", "learned", "restored")
        }

    @property
    def trend_(self) -> Floats:
        """The trend as it stands, in the user's units, one value a channel."""
        state, step = self._live(), self._fitted.step
        return (state.model.step.trend + self._model.center) * step.scale + step.mean

    @property
    def parameters_(self) -> int:
        """How many parameters the model has."""
        self._live()
        return self._model.parameters

    @property
    def adaptable_(self) -> tuple[str, ...]:
        """The names of the parameters that may change at test time; none if `adapt` is off."""
        self._live()
        return self._model.adaptable if self._fitted.step.lr != 0 else ()

    @property
    def zone_(self) -> str | None:
        """The zone that times are given out in: of the input now, or of history; None: neither.

        An IANA name, or an offset such as "+02:00". Times themselves are UTC.
        """
        return output_zone(self._zone, self._fitted.zone)

    @property
    def last_time_(self) -> np.datetime64 | None:
        """The time of the newest sample consumed, or None."""
        last: np.datetime64 = self._live().times.last[0]
        return None if np.isnat(last) else last

    @property
    def last_judged_time_(self) -> np.datetime64 | None:
        """The time of the newest sample that has a verdict, or None."""
        state = self._live()
        return state.times.before(int(state.model.step.counts[PENDING]))

    @property
    def nbytes_(self) -> dict[str, int]:
        """How many bytes the arrays hold: those of this stream, and those that `fit` left."""
        state, fitted = self._live(), self._fitted
        kept: list[Any] = [fitted.step, fitted.tail_chances, fitted.alarm_start, fitted.drift]
        if fitted.baseline is not None:
            kept.append(fitted.baseline._replace(weights=fitted.step.fitted[:0]))
        kept.append(getattr(self._model, "params", None))
        return {"stream": nbytes(state), "fitted": nbytes(tuple(kept))}

    @property
    def _model(self) -> Model:
        model = self._fitted.model
        assert isinstance(model, Model)
        return model
