"""What the two detectors share: all but their options and how they are fitted.

One module because it is one class: fitting, the verbs, which all go through `newnormal.core.loop`,
the attributes, and the way to a state file and back.
"""

from __future__ import annotations

import inspect
import logging
import math
import os
import threading
import warnings
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, Self, overload

import numpy as np
from numpy.typing import ArrayLike

from newnormal import fitting, hooks, thresholds
from newnormal import state as state_file
from newnormal.acceptance import TimedAcceptance
from newnormal.acceptance.changes import open_changes, slot_of
from newnormal.alarms import AlarmLog, AlarmRate, AlarmThreshold, open_alarm
from newnormal.alarms.feedback_target import PAST, feedback_target, keep_newest
from newnormal.alarms.log import forget, margins
from newnormal.alarms.silence import forget_time, silence_alarm
from newnormal.alarms.threshold import threshold_of
from newnormal.alarms.words import ended, in_zone
from newnormal.config import Config, duration, option_as_json
from newnormal.core import loop
from newnormal.core.history import channel_units, check_history, median_period
from newnormal.core.stages import NO_ACCEPTANCE
from newnormal.core.state import Fitted, StreamState, nbytes
from newnormal.errors import (
    FeedbackError,
    NewnormalWarning,
    NotFittedError,
    ParameterError,
    StateError,
)
from newnormal.fitting import HistoryScores, ThresholdSpec, refit_threshold, writable
from newnormal.kernels.step import HELD, PENDING, RESTORED, SEEN, STEP_COUNTS
from newnormal.metrics.ranking import precision_of_fold
from newnormal.models.base import Model, OnEpoch, OnPhase
from newnormal.models.blas import one_thread
from newnormal.models.registry import path_of
from newnormal.packing import pack, unpack, write_checked
from newnormal.state import State
from newnormal.state.facts import AGAIN
from newnormal.tabular import Table, default_channels, parse_time, to_sample, to_table
from newnormal.tabular.times import zone_of
from newnormal.thresholds import Fixed, MovingThreshold, Quantile, Threshold
from newnormal.turns import add_lock, in_turn
from newnormal.types import (
    CLOSED,
    END_OF_STREAM,
    Alarm,
    Change,
    Event,
    Floats,
    Ints,
    Observed,
    Times,
    Verdict,
    Verdicts,
)
from newnormal.types import PENDING as PENDING_CHANGE
from newnormal.types.zones import output_zone

EVENTS = 1000  # kept until they are taken
_LOG = logging.getLogger("newnormal")
_TRAINED = "window", "stride", "fit_stride", "latent", "model", "epochs", "batch", "period", "seed"


class Parts(NamedTuple):
    """A fitted detector taken apart."""

    fitted: Fitted
    state: StreamState
    past: tuple[Alarm | Change, ...] = ()
    zone: str | None = None  # of the times of the input now


class BaseDetector:
    """What the two detectors share. Calls on one detector wait for each other."""

    method: ClassVar[str]
    kinds: ClassVar[dict[str, type[BaseDetector]]] = {}  # by their `method`
    _estimator_type = "outlier_detector"  # scikit-learn's word for it

    threshold: float | str | Threshold | MovingThreshold | None
    _lock: threading.RLock
    _fitted: Fitted
    _scores: HistoryScores | None  # None after `load`
    _state: StreamState
    _events: deque[Event]
    _past: deque[Alarm | Change]
    _zone: str | None = None  # of the times of the input now

    def __init_subclass__(cls) -> None:
        cls.kinds[cls.method] = cls

    def explain(self) -> str:
        """Return what was chosen from history, and why."""
        raise NotImplementedError

    def _settings(self) -> tuple[Config, ThresholdSpec]:
        raise NotImplementedError

    def _fit(
        self, config: Config, spec: ThresholdSpec, history: Table, *args: Any
    ) -> tuple[Fitted, HistoryScores]:
        raise NotImplementedError

    def _live(self) -> StreamState:
        try:
            return self._state
        except AttributeError:
            raise NotFittedError(
                "this detector has not been fitted",
                hint="call detector.fit(history) first, or newnormal.load(path)",
            ) from None

    def _trained(self) -> Fitted:
        self._live()
        return self._fitted

    @property
    def _model(self) -> Model:
        model = self._trained().model
        assert isinstance(model, Model)
        return model

    # ------------------------------------------------------------------ fit

    @in_turn
    def fit(
        self,
        X: Any,
        y: object = None,
        *,
        times: Any = None,
        on_epoch: OnEpoch | None = None,
        on_phase: OnPhase | None = None,
    ) -> Self:
        """Learn what normal is from history: an array, pandas or polars frame, (T, C).

        History may miss values (NaN). `y` is there for scikit-learn and not used. `on_epoch` is
        called with the epochs done and the mean loss of the last one; `on_phase`, for a bar of
        progress, with what is done now and the share of the fit so far, from 0 to 1.
        """
        del y
        config, spec = self._settings()
        table = to_table(X, times=times)
        channels = table.channels or default_channels(table.values.shape[1])
        check_history(table.values, channels, config.window)
        written = {} if table.profile is None else table.profile.channel_units
        units = channel_units(config.units, written, channels)
        period = median_period(table.times)
        if config.period is not None:
            period = duration(config.period, "period")
        with one_thread():  # the same bits whatever the number of threads is
            fitted, scores = self._fit(config, spec, table, channels, period, on_epoch, on_phase)
        if on_phase is not None:
            on_phase("done", 1.0)
        reading = None if table.profile is None else table.profile.reading
        self._begin(replace(fitted, zone=table.zone, reading=reading, units=units), scores)
        return self

    def _begin(
        self, fitted: Fitted, scores: HistoryScores | None, state: StreamState | None = None
    ) -> None:
        self._fitted, self._scores = fitted, scores
        self._state = fitted.initial() if state is None else state
        self._events = deque(maxlen=EVENTS)
        self._past = deque(maxlen=PAST)
        self._zone = None

    @in_turn
    def with_options(self, *, scores: Floats | None = None, **options: Any) -> Self:
        """Return a copy with the same fit and other options, at the start of a stream.

        Options are those that need no training: threshold, alarms_per_day, risk and accept_after;
        for M2N2 also decay, half_life, lr, detrend and adapt. A quantile, and a limit where there
        was none, is taken from history's `scores`; None: those of `fit`.
        """
        fitted = self._trained()
        for name in options:
            if name in _TRAINED:
                raise ParameterError(
                    f"{name}: expected an option that needs no training, found {name}",
                    hint="fit a new detector with it",
                )
        twin = self._shallow().set_params(**options)
        config, spec = twin._settings()
        history = self._scores if scores is None else HistoryScores(scores, scores)
        before, anew = self._settings()[1], scores is not None
        twin._begin(refit_threshold(fitted, config, spec, before, history, anew=anew), history)
        return twin

    def with_limit(self, **options: Any) -> tuple[Self, Fitted]:
        """Return a detector with the options of `set_options`, not fitted, and the fit of it."""
        fitted, before = self._trained(), self._settings()[1]
        fitting.check_live(before, options)
        template = self.unfitted(**{"alarms_per_day": None, "risk": None, **options})
        return template, refit_threshold(fitted, *template._settings(), before, None)

    @in_turn
    def set_options(self, **options: Any) -> Self:
        """Change the limit on alarms of a live stream: `alarms_per_day`, or `risk` instead.

        From the next sample on it has the limits that a fit with this option gives. By how much
        alarms have raised them stays. `undo` and `reset` keep the option; nothing is trained.
        """
        template, fitted = self.with_limit(**options)
        fitting.move_limits(self._state, self._fitted, fitted)
        self._fitted = fitted
        return self.set_params(**template.get_params())

    # ------------------------------------------------------------------ live

    def step(self, sample: ArrayLike | Mapping[str, float], time: object = None) -> list[Verdict]:
        """Consume one sample and return the verdicts that became final.

        `Detector` judges each sample at once. `M2N2` gives none while a window fills, then `stride`
        of them at a time; the first full window gives a verdict for each of its samples. A sample
        is a row of values, or a mapping by channel.
        """
        with self._lock:  # not `in_turn`, which costs half a microsecond
            state = self._live()
            counts = state.model.step.counts
            pending, seen = int(counts[PENDING]), int(counts[SEEN])
            values = to_sample(sample, self._fitted.channels, seen)
            when = None
            if time is not None:
                when = parse_time(time)
                state.times.check(when, seen)
                self._zone = None if type(time) is np.datetime64 else zone_of(time)
            before = state.times.before(pending)
            state.times.add(when)
            verdicts, _ = self._advance(values, state.times.newest(pending + 1), False, before)
            return [] if state.model.step.counts[PENDING] else list(verdicts)

    @in_turn
    def run(self, X: Any, times: Any = None, flush: bool = True) -> Verdicts:
        """Consume a series and return verdicts as columns, one row a sample.

        The same as `step` over each sample and then `flush`, only faster. With ``flush=False``
        the tail stays pending (NaN in its rows), and runs over consecutive stretches equal one
        run: the verdicts of samples left pending come with the next stretch, as its `late`.
        Everything is validated before anything changes.
        """
        state, window = self._live(), self._fitted.config.window
        counts = state.model.step.counts
        table = to_table(X, times=times, channels=self._fitted.channels)
        if table.times is not None and len(table.times):
            state.times.check(table.times[0], int(counts[SEEN]))
        pending, before = int(counts[PENDING]), self.last_judged_time_
        rejected, decided = Observed.rejected_of(self.changes_), Observed.decided_of(self._past)
        all_times = state.times.with_pending(table.times, len(table.values), pending)
        state.times.add_all(table.times, len(table.values))
        if table.times is not None and len(table.times):
            self._zone = table.zone
        verdicts, events = self._advance(table.values, all_times, flush, before)
        counts = state.model.step.counts
        if flush and counts[PENDING] and counts[HELD] < window:
            warnings.warn(
                f"nothing was judged: {int(counts[HELD])} samples seen, and a window has {window}",
                NewnormalWarning,
                stacklevel=3,
            )
        if table.frame is not None:
            first = verdicts.first + pending
            verdicts = replace(verdicts, frame=replace(table.frame, first=first))
        if pending:
            late = verdicts.rows(slice(None, pending))
            judged = counts[PENDING] < pending + len(table.values)
            verdicts = verdicts.rows(slice(pending, None), late if judged else None)
        observed = Observed(
            table.values,
            margins(self._fitted),
            tuple(in_zone(event, self.zone_) for event in events),
            (*self.alarms_, *self.changes_),
            None if table.labels is None else table.labels.astype(bool),
            rejected,
            decided,
        )
        return replace(verdicts, observed=observed)

    def _advance(
        self, values: Floats, times: Times | None, flush: bool, before: np.datetime64 | None
    ) -> tuple[Verdicts, list[Event]]:
        state = self._state
        restored = state.model.step.counts[RESTORED]
        verdicts, events = loop.advance(self._fitted, state, values, times, flush, before)
        zone = self.zone_
        if zone is not None:
            verdicts.__dict__["zone"] = zone  # `replace` takes 2 µs
        if events:
            self._keep(events)
        again = state.model.step.counts[RESTORED] - restored
        if again > 0:
            lr = self._fitted.config.lr
            remedy = f"; a smaller lr would avoid it (now {lr:g})" if self.method == "m2n2" else ""
            _LOG.warning(
                "learning diverged by sample %d: the weights went back to a good copy, "
                "%d time(s)%s",
                int(state.model.step.counts[SEEN]),
                again,
                remedy,
            )
        return verdicts, events

    def flush(self) -> list[Verdict]:
        """Judge the pending samples in one last window made of the newest `window` samples.

        With fewer than `window` samples seen in all, nothing is judged, and there is a warning.
        """
        late = self.run(np.empty((0, len(self.channels_))), flush=True).late
        return [] if late is None else list(late)

    @overload
    def score(self, X: Any, y: None = None, *, times: Any = None) -> Verdicts: ...
    @overload
    def score(self, X: Any, y: Any, *, times: Any = None) -> Any: ...

    @in_turn
    def score(self, X: Any, y: Any = None, *, times: Any = None) -> Any:
        """Return the verdicts that `run` would give; the detector itself does not change.

        With labels `y`, 0 or 1 a sample, it returns the average precision of `decision_function`
        instead: a number, as scikit-learn's `cross_val_score` and `GridSearchCV` expect it.
        """
        verdicts = self._twin().run(X, times)
        return verdicts if y is None else precision_of_fold(y, verdicts.scores)

    @in_turn
    def score_frozen(self, X: Any, times: Any = None) -> Verdicts:
        """Judge a series by itself with the present weights and trend, and change nothing."""
        return self.frozen_copy().run(X, times)

    @in_turn
    def frozen_copy(self) -> Self:
        """Return a copy at the start of a stream, which judges and never learns."""
        twin = self._twin()
        twin._fitted = self._fitted.frozen(NO_ACCEPTANCE)
        twin._model.forget_samples(twin._state.model, anew=True)
        twin._state.forget_past()
        twin._state.times.clear()
        forget(twin._state)
        return twin

    def decision_function(self, X: Any) -> Floats:
        """Return the scores `run` would give; the detector itself does not change."""
        return self.score(X).scores

    def predict(self, X: Any) -> Ints:
        """Return 1 for the samples `run` would call anomalous, else 0; nothing changes."""
        return self.score(X).anomalous.astype(np.int64)

    @in_turn
    def reset(self) -> Self:
        """Go back to the fitted state: trend, weights, pending samples, sample number, times."""
        self._state = self._trained().initial()
        self._events.clear()
        self._past.clear()
        return self

    @in_turn
    def restart(self) -> Self:
        """Start on another input: keep what was learned, forget its samples and their times."""
        state = self._live()
        self._model.forget_samples(state.model)
        state.forget_past()
        if state.shadow is not None:
            self._model.forget_samples(state.shadow.model)
        state.times.clear()
        forget_time(state.silence)
        return self

    @in_turn
    def drop_pending(self, since: object = None) -> int:
        """Forget pending samples, those not before the time `since` or all; return how many.

        For a source that sends again what has no verdict yet.
        """
        state = self._live()
        count = pending = int(state.model.step.counts[PENDING])
        if since is not None:
            newest = state.times.newest(pending)
            count = 0 if newest is None else int((newest >= parse_time(since)).sum())
        self._model.drop_pending(state.model, count)
        if state.shadow is not None:
            waiting = int(state.shadow.model.step.counts[PENDING])
            self._model.drop_pending(state.shadow.model, min(count, waiting))
        state.times.drop(count)
        return count

    # ------------------------------------------------------------------ alarms

    @in_turn
    def track_alarms(self) -> Self:
        """Turn samples into alarms from here on; `Detector`, and a limit, do so anyway."""
        if not self._trained().alarms.active:
            self._fitted = self._fitted.with_alarms(AlarmLog())
        return self

    @in_turn
    def take_events(self) -> list[Event]:
        """Return the events of alarms and changes since the last call, the newest thousand."""
        self._live()
        events = [in_zone(event, self.zone_) for event in self._events]
        self._events.clear()
        return events

    @in_turn
    def close_alarms(self) -> Self:
        """Close the open alarms, because the stream has ended; changes stay as they are."""
        state = self._live()
        sample, time = state.judged - 1, self.last_judged_time_
        for alarm in self.alarms_:
            closed = ended(alarm, END_OF_STREAM, self._fitted.has_rhythm)
            self._keep([Event(CLOSED, sample, time, closed)])
        forget(state)
        return self

    @in_turn
    def accept(
        self, alarm: Alarm | Change | int | None = None, *, change: Change | int | None = None
    ) -> Self:
        """Accept a change, or what an alarm is about, as normal from now on.

        Name an alarm, or its number, or a change by ``change=`` its number. None: the newest open
        change, or else the newest open alarm. An alarm that no change began with may be closed
        already, if it is one of the last hundred: then samples like those are normal.
        """
        acceptance = self._acceptance()
        target = feedback_target(self, "accept", alarm, change)
        stream = self._fitted, self._state, self.last_judged_time_
        if isinstance(target, Alarm):
            self._keep(acceptance.accept_pattern(*stream, target))
        else:
            self._keep(acceptance.accept(*stream, self._slot(target)))
        return self

    @in_turn
    def reject(
        self, alarm: Alarm | Change | int | None = None, *, change: Change | int | None = None
    ) -> Self:
        """Reject a change: forget what was learned of it, and learn nothing until it is over.

        Named as for `accept`. An alarm that no change began with yet is rejected as soon as one
        does.
        """
        acceptance = self._acceptance()
        target = feedback_target(self, "reject", alarm, change)
        stream = self._fitted, self._state, self.last_judged_time_
        if isinstance(target, Alarm):
            self._keep(acceptance.reject_alarm(*stream, target))
        elif target.state != PENDING_CHANGE:
            raise FeedbackError(
                f"expected a pending change to reject, found change {target.number}, "
                f"which is {target.state}",
                hint="it stays rejected until the stream is back",
            )
        else:
            self._keep(acceptance.reject(*stream, self._slot(target)))
        return self

    @in_turn
    def undo(self) -> Self:
        """Undo the newest acceptance: go back to the normal before it; up to three times.

        An accepted change is open again, as it was: reject it, or it is accepted again.
        """
        acceptance = self._acceptance()
        past = {item.number: item for item in self._past if isinstance(item, Change)}
        time = self.last_judged_time_
        self._keep(acceptance.undo(self._fitted, self._state, time, past))
        return self

    def _acceptance(self) -> TimedAcceptance:
        acceptance = self._trained().acceptance
        if not isinstance(acceptance, TimedAcceptance):
            raise FeedbackError(
                "expected a detector with acceptance, found one that learns as in the paper, or "
                "that an older newnormal fitted",
                hint='use Detector, or M2N2(accept_after="1d")',
            )
        return acceptance

    def _slot(self, change: Change) -> int:
        assert self._state.changes is not None
        return slot_of(self._state.changes, change.number)

    def _keep(self, events: list[Event]) -> None:
        """Keep events until they are taken, and the newest alarms and changes as they stand."""
        self._events.extend(events)
        for event in events:
            concerned: Alarm | Change | None = event.change or event.alarm
            if concerned is not None:
                keep_newest(self._past, concerned)

    # ------------------------------------------------------------------ what was fitted

    @property
    def channels_(self) -> tuple[str, ...]:
        """The channels' names."""
        return self._trained().channels

    @property
    def n_features_in_(self) -> int:
        """How many channels there are."""
        return len(self.channels_)

    @property
    def period_(self) -> np.timedelta64 | None:
        """The time between samples, or None."""
        return self._trained().period

    @property
    def reading_(self) -> dict[str, Any] | None:
        """How history was read from a file, as JSON values; None if it was not."""
        return self._trained().reading

    @property
    def window_(self) -> int:
        """Samples judged together."""
        return self._trained().config.window

    @property
    def latent_(self) -> int:
        """Width of the autoencoder's bottleneck."""
        return self._trained().config.latent

    @property
    def decay_(self) -> float:
        """Share of the trend that a window keeps, γ; of the reported expert for a committee."""
        fitted = self._trained()
        if fitted.choice is None:
            return fitted.config.decay_per_window(fitted.period)
        plan = fitted.choice.plan
        return float(0.5 ** (fitted.config.window / plan.memories[plan.reported_expert]))

    @property
    def losses_(self) -> list[float]:
        """The mean training loss of each epoch."""
        return list(self._trained().losses)

    @property
    def history_scores_(self) -> Floats | None:
        """History's scores as a quantile takes them, those of M2N2 sorted; None after `load`."""
        self._live()
        return None if self._scores is None else self._scores.for_rule

    @property
    def ordered_scores_(self) -> Floats | None:
        """History's scores in the order of time; None after `load`."""
        self._live()
        return None if self._scores is None else self._scores.ordered

    @property
    def parameters_(self) -> int:
        """How many parameters the model has."""
        return self._model.parameters

    @property
    def adaptable_(self) -> tuple[str, ...]:
        """The names of the parameters that may change at test time; none if `adapt` is off."""
        return self._model.adaptable if self._fitted.step.lr != 0 else ()

    # ------------------------------------------------------------------ the stream now

    @property
    def threshold_(self) -> float:
        """The score below which samples are learned from: τ, as fitted or last accepted."""
        return float(self._live().learn_threshold[0])

    @property
    def alarm_threshold_(self) -> float:
        """What the next score is compared with: `threshold_`, unless a limit or a rule moves it."""
        state = self._live()
        if state.moving is not None:
            return threshold_of(self._fitted.rule, state.moving)
        return AlarmThreshold.of_stream(self._fitted, state.alarm).threshold_score

    @property
    def alarms_(self) -> list[Alarm]:
        """The open alarms, the oldest first: one by the score and one by silence at most."""
        state, fitted = self._live(), self._fitted
        with self._lock:
            newest = state.judged - 1, self.last_judged_time_
            alarms = open_alarm(fitted, state.log), silence_alarm(fitted, state.silence, *newest)
            opened = [in_zone(alarm, self.zone_) for alarm in alarms if alarm]
            return sorted(opened, key=lambda alarm: alarm.number)

    @property
    def alarm_(self) -> Alarm | None:
        """The newest open alarm, or None."""
        return next(reversed(self.alarms_), None)

    @property
    def changes_(self) -> list[Change]:
        """The open changes, pending or rejected, the oldest first."""
        state = self._live()
        with self._lock:
            return [in_zone(change, self.zone_) for change in open_changes(self._fitted, state)]

    @property
    def change_(self) -> Change | None:
        """The newest open change, or None."""
        return next(reversed(self.changes_), None)

    @property
    def past_(self) -> list[Alarm | Change]:
        """The last hundred alarms and changes as they were last reported, the oldest first."""
        self._live()
        with self._lock:
            return [in_zone(reported, self.zone_) for reported in self._past]

    @property
    def alarm_rate_(self) -> AlarmRate:
        """How many alarms there were, and how many a day, beside the limit."""
        return AlarmThreshold.of_stream(self._trained(), self._state.alarm).alarm_rate

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
        acceptance = self._trained().acceptance
        if not isinstance(acceptance, TimedAcceptance):
            return math.nan
        return acceptance.distance(self._fitted, self._state)

    @property
    def counters(self) -> dict[str, int]:
        """Samples seen and pending, learning steps taken, and times the guard stepped in."""
        counts = self._live().model.step.counts
        names = ("seen", "pending", "learned", "restored")
        return {name: int(counts[STEP_COUNTS.counters[name].position]) for name in names}

    @property
    def trend_(self) -> Floats:
        """The trend as it stands, in the user's units, one value a channel."""
        state, step = self._live(), self._fitted.step
        return (state.model.step.trend + self._model.center) * step.scale + step.mean

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

    # ------------------------------------------------------------------ options

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        parameters = inspect.signature(cls.__init__).parameters.values()
        return {option.name: option.default for option in parameters if option.kind == 3}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's parameters as they were given."""
        del deep  # there are no estimators inside
        return {name: getattr(self, name) for name in self._defaults()}

    def set_params(self, **params: Any) -> Self:
        """Set constructor parameters; they take effect at the next `fit`."""
        before = self.get_params()
        if unknown := sorted(set(params) - set(before)):
            raise ParameterError(
                f"unknown parameter {', '.join(map(repr, unknown))}",
                hint=f"the parameters are {', '.join(before)}",
            )
        vars(self).update(params)
        try:
            self._settings()
        except ParameterError:
            vars(self).update(before)
            raise
        return self

    def settings(self) -> tuple[Config, ThresholdSpec]:
        """Return the options as `fit` uses them, checked, and what the threshold is to be."""
        return self._settings()

    def unfitted(self, **options: Any) -> Self:
        """Return a detector with the same options, but for these, that is not fitted."""
        return type(self)(**{**self.get_params(), **options})

    def __repr__(self) -> str:
        defaults = self._defaults()
        chosen = [
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if value is not defaults[name] and value != defaults[name]
        ]
        return f"{type(self).__name__}({', '.join(chosen)})"

    _repr_html_ = hooks.html

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_fitted")

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(
            estimator_type="outlier_detector",
            target_tags=TargetTags(required=False),
            input_tags=InputTags(allow_nan=True),
        )

    # ------------------------------------------------------------------ copies

    def _twin(self) -> Self:
        """Return a detector with a live state of its own, which leaves this one alone."""
        state = self._live().copy()
        twin = self._shallow()
        twin._state, twin._events, twin._past = state, deque(maxlen=EVENTS), self._past.copy()
        return twin

    def _shallow(self) -> Self:
        """Return a detector that shares everything but the lock."""
        twin = object.__new__(type(self))
        vars(twin).update(vars(self))
        add_lock(twin)
        return twin

    @in_turn
    def to_parts(self) -> Parts:
        """Return what was fitted, and copies of the live state and of the newest alarms."""
        return Parts(self._trained(), self._state.copy(), tuple(self._past), self._zone)

    def with_parts(self, parts: Parts) -> Self:
        """Return a detector with these options that goes on from `parts`, which it shares."""
        twin = self._shallow()
        twin._begin(parts.fitted, None, parts.state)
        twin._past.extend(parts.past)
        twin._zone = parts.zone
        return twin

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            members = {**vars(self)}
            if "_state" in members:
                members["_state"] = self._state.copy()
                members["_events"] = self._events.copy()
                members["_past"] = self._past.copy()
        del members["_lock"]
        return members

    def __setstate__(self, members: dict[str, Any]) -> None:
        vars(self).update(members)
        add_lock(self)
        if "_state" in members:  # arrays may be read-only maps of a file, as joblib's are
            self._fitted, self._state = writable(self._fitted), self._state.copy()

    # ------------------------------------------------------------------ state

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything, live state included, to one file, atomically.

        What it wrote can be loaded: that is tried before an older file is replaced.
        """
        rule = self._settings()[1].rule
        kind = None if isinstance(rule, Quantile | Fixed) else type(rule)
        write_checked(path, self.to_state(), getattr(self, "model", None), kind)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], model: object = None, threshold: object = None
    ) -> Self:
        """Read a detector back, exactly as it was; options as for `newnormal.load`."""
        return cls.from_state(state_file.read(path), str(path), model, threshold)

    @in_turn
    def to_state(self) -> State:
        """Return the detector as data."""
        state = self._live()
        self._model.check_savable()
        method, options, rule = self.options_as_json().values()
        return pack(method, options, rule, self._fitted, state, self._events, self._past)

    @classmethod
    def from_state(
        cls,
        state: State,
        origin: str = "this",
        model: object = None,
        threshold: object = None,
        scores: HistoryScores | None = None,
    ) -> Self:
        """Return the detector that `to_state` was called on; `origin` is for errors.

        `scores` are history's, which a state does not have: `with_options` uses them.
        """
        unpacked = unpack(state, origin, model, threshold)
        kind = cls.kinds[unpacked.method]
        if not issubclass(kind, cls):
            raise StateError(
                f"{origin} is a {kind.__name__}, expected a {cls.__name__}",
                hint=f"newnormal.load returns either; {kind.__name__}.load this one",
            )
        detector = _made(kind, unpacked.options, unpacked.threshold, origin, model)
        detector._begin(unpacked.fitted, scores, unpacked.state)
        detector._events.extend(unpacked.events)
        detector._past.extend(unpacked.past)
        assert isinstance(detector, cls)
        return detector

    def options_as_json(self) -> dict[str, Any]:
        """Return `method`, `options` and `threshold` as a state file has them."""
        options = {
            name: path_of(value) if name == "model" else option_as_json(value)
            for name, value in self.get_params().items()
            if name not in ("threshold", "units")
        }
        units = self._fitted.units if self.__sklearn_is_fitted__() else self.get_params()["units"]
        options |= {"units": dict(units)} if units else {}
        rule = None if self.threshold is None else thresholds.to_json(self._settings()[1].rule)
        return {"method": self.method, "options": options, "threshold": rule}

    @classmethod
    def from_options(
        cls,
        facts: Mapping[str, Any],
        origin: str = "this",
        model: object = None,
        threshold: object = None,
    ) -> BaseDetector:
        """Return what `options_as_json` was called on, not fitted; `origin` is for errors."""
        try:
            kind, options, rule = cls.kinds[facts["method"]], facts["options"], facts["threshold"]
            if rule is not None:
                rule = thresholds.from_json(rule, thresholds.for_file(threshold))
            if "model" not in options:
                model = None
            return _made(kind, options, rule, origin, model)
        except (AttributeError, KeyError, TypeError, ParameterError) as error:
            raise StateError(
                f"{origin} has options that this newnormal does not understand: {error}", hint=AGAIN
            ) from error


def _made(
    kind: type[BaseDetector], options: Mapping[str, Any], rule: Any, origin: str, model: object
) -> BaseDetector:
    """Return a detector with these options, not fitted."""
    threshold = rule.q if isinstance(rule, Quantile) else rule
    named = {} if model is None else {"model": model}
    try:
        return kind(**{**options, **named, "threshold": threshold})
    except (ParameterError, StateError, TypeError, KeyError, ValueError) as error:
        raise StateError(
            f"{origin} is not a state this newnormal understands: {error}", hint=AGAIN
        ) from error
