"""What can be done with a fitted detector: its verbs, all through `newnormal.core.loop`."""

from __future__ import annotations

import logging
import warnings
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self, overload

import numpy as np
from numpy.typing import ArrayLike

from newnormal.acceptance import TimedAcceptance
from newnormal.acceptance.changes import NUMBER, open_slots
from newnormal.alarms import AlarmLog
from newnormal.alarms.feedback_target import feedback_target
from newnormal.alarms.log import forget, margins
from newnormal.alarms.silence import forget_time
from newnormal.alarms.words import ended, in_zone
from newnormal.core import loop
from newnormal.core.stages import NO_ACCEPTANCE
from newnormal.errors import FeedbackError, NewnormalWarning
from newnormal.kernels.step import HELD, PENDING, RESTORED, SEEN
from newnormal.sklearn import figure_of_merit
from newnormal.tabular import Table, parse_time, to_sample, to_table
from newnormal.tabular.zones import zone_of
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
from newnormal.types import (
    PENDING as PENDING_CHANGE,
)
from newnormal.views import Views, add_lock, in_turn

_LOG = logging.getLogger("newnormal")
EVENTS = 1000  # kept until they are taken


class Verbs(Views):
    """The verbs of a fitted detector. Calls on one detector wait for each other."""

    method: ClassVar[str]
    _events: deque[Event]
    _past: deque[Alarm | Change]

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
            if state.model.step.counts[PENDING]:
                return []
            return list(verdicts)

    @in_turn
    def run(self, X: Any, times: Any = None, flush: bool = True) -> Verdicts:
        """Consume a series and return verdicts as columns, one row a sample.

        The same as `step` over each sample and then `flush`, only faster. With ``flush=False``
        the tail stays pending (NaN in its rows), and runs over consecutive stretches equal one
        run: the verdicts of samples left pending come with the next stretch, as its `late`.
        Everything is validated before anything changes.
        """
        state = self._live()
        counts = state.model.step.counts
        table = to_table(X, times=times, channels=self._fitted.channels)
        if table.times is not None and len(table.times):
            state.times.check(table.times[0], int(counts[SEEN]))
        pending, before = int(counts[PENDING]), self.last_judged_time_
        rejected = Observed.rejected_of(self.changes_)
        all_times = state.times.with_pending(table.times, len(table.values), pending)
        state.times.add_all(table.times, len(table.values))
        if table.times is not None and len(table.times):
            self._zone = table.zone
        verdicts, events = self._advance(table.values, all_times, flush, before)
        counts = state.model.step.counts
        if flush and counts[PENDING] and counts[HELD] < self._fitted.config.window:
            warnings.warn(
                f"nothing was judged: {int(counts[HELD])} samples seen, and a window has "
                f"{self._fitted.config.window}",
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
        return replace(verdicts, observed=self._observed(table, events, rejected))

    def _observed(
        self, table: Table, events: Sequence[Event], rejected: frozenset[int]
    ) -> Observed:
        """Return what pictures of a run need besides its verdicts."""
        zone = self.zone_
        return Observed(
            table.values,
            margins(self._fitted),
            tuple(in_zone(event, zone) for event in events),
            (*self.alarms_, *self.changes_),
            None if table.labels is None else table.labels.astype(bool),
            rejected,
        )

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

    def _keep(self, events: list[Event]) -> None:
        """Keep events until they are taken, and the newest alarms and changes as they stand."""
        self._events.extend(events)
        for event in events:
            found: Alarm | Change | None = event.change or event.alarm
            if found is not None:
                keep_newest(self._past, found)

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
        """Judge a series by itself with the present weights and trend, and change nothing.

        With labels `y`, 0 or 1 a sample, it returns the average precision of the scores instead:
        a number, as scikit-learn's `cross_val_score` and `GridSearchCV` expect it.
        """
        table = to_table(X, times=times, channels=self.channels_)
        verdicts = self.frozen_copy().run(table)
        return verdicts if y is None else figure_of_merit(y, verdicts.scores)

    @in_turn
    def frozen_copy(self) -> Self:
        """Return a copy, at the start of a stream, that judges as `score` does and never learns.

        For a series in pieces, or for the events of one. It accepts nothing.
        """
        twin = self._twin()
        twin._fitted = self._fitted.frozen(NO_ACCEPTANCE)
        twin._model.forget_samples(twin._state.model, anew=True)
        twin._state.times.clear()
        forget(twin._state)
        return twin

    @in_turn
    def decision_function(self, X: Any) -> Floats:
        """Return the scores `run` would give; the detector itself does not change."""
        return self._twin().run(X).scores

    @in_turn
    def predict(self, X: Any) -> Ints:
        """Return 1 for the samples `run` would call anomalous, else 0; nothing changes."""
        return self._twin().run(X).anomalous.astype(np.int64)

    @in_turn
    def reset(self) -> Self:
        """Go back to the fitted state: trend, weights, pending samples, sample number, times."""
        self._live()
        self._state = self._fitted.initial()
        self._events.clear()
        self._past.clear()
        return self

    @in_turn
    def restart(self) -> Self:
        """Start on another input: keep what was learned, forget its samples and their times."""
        state = self._live()
        self._model.forget_samples(state.model)
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
        self._live()
        if not self._fitted.alarms.active:
            self._fitted = self._fitted.with_alarms(AlarmLog())
        return self

    @in_turn
    def take_events(self) -> list[Event]:
        """Return what happened to alarms and changes since the last call.

        The newest thousand are kept.
        """
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
        found = feedback_target(self, "accept", alarm, change)
        state, time = self._state, self.last_judged_time_
        if isinstance(found, Alarm):
            events = acceptance.accept_pattern(self._fitted, state, time, found)
        else:
            slot = self._slot("accept", found)
            events = acceptance.accept(self._fitted, state, time, slot)
        self._keep(events)
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
        found = feedback_target(self, "reject", alarm, change)
        state, time = self._state, self.last_judged_time_
        if isinstance(found, Alarm):
            events = acceptance.reject_alarm(self._fitted, state, time, found)
        else:
            slot = self._slot("reject", found)
            events = acceptance.reject(self._fitted, state, time, slot)
        self._keep(events)
        return self

    @in_turn
    def rollback(self) -> Self:
        """Undo the newest acceptance: go back to the normal before it; up to three times.

        If the stream is still where that was, a change opens: reject it, or it is accepted again.
        """
        acceptance = self._acceptance()
        self._keep(acceptance.rollback(self._fitted, self._state, self.last_judged_time_))
        return self

    def _acceptance(self) -> TimedAcceptance:
        """Return the acceptance, if there is one."""
        self._live()
        acceptance = self._fitted.acceptance
        if not isinstance(acceptance, TimedAcceptance):
            raise FeedbackError(
                "expected a detector with acceptance, found one that learns as in the paper, or "
                "that an older newnormal fitted",
                hint='use Detector, or M2N2(accept_after="1d")',
            )
        return acceptance

    def _slot(self, act: str, change: Change) -> int:
        changes = self._state.changes
        assert changes is not None
        if act == "reject" and change.state != PENDING_CHANGE:
            raise FeedbackError(
                f"expected a pending change to reject, found change {change.number}, "
                f"which is {change.state}",
                hint="it stays rejected until the stream is back",
            )
        return next(
            slot for slot in open_slots(changes) if changes.counts[slot, NUMBER] == change.number
        )

    def _twin(self) -> Self:
        """Return a detector with a live state of its own, which leaves this one alone."""
        state = self._live().copy()
        twin = self._shallow()
        twin._state, twin._events = state, deque(maxlen=EVENTS)
        twin._past = self._past.copy()
        return twin

    def _shallow(self) -> Self:
        """Return a detector that shares everything but the lock."""
        twin = object.__new__(type(self))
        vars(twin).update(vars(self))
        add_lock(twin)
        return twin


def keep_newest(past: deque[Alarm | Change], found: Alarm | Change) -> None:
    """Keep an alarm or a change as it stands; the one of its number so far is replaced."""
    for at, kept in enumerate(past):
        if type(kept) is type(found) and kept.number == found.number:
            past[at] = found
            return
    past.append(found)
