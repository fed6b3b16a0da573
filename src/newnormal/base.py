"""What the two detectors share: fitting, and the state file."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from newnormal import hooks, thresholds
from newnormal import state as state_file
from newnormal.alarms.feedback_target import PAST
from newnormal.config import Config, duration, option_as_json
from newnormal.core.history import check_history, median_period
from newnormal.core.state import Fitted, StreamState
from newnormal.errors import ParameterError, StateError
from newnormal.fitting import Goal, HistoryScores, refit_threshold, writable
from newnormal.models.base import OnEpoch, OnPhase
from newnormal.models.blas import one_thread
from newnormal.models.registry import path_of
from newnormal.packing import pack, unpack, write_checked
from newnormal.sklearn import Parameters
from newnormal.state import State
from newnormal.state.schema import AGAIN
from newnormal.tabular import Table, default_channels, to_table
from newnormal.thresholds import Fixed, MovingThreshold, Quantile, Threshold
from newnormal.types import Alarm, Change, Floats
from newnormal.verbs import EVENTS, Verbs
from newnormal.views import add_lock, in_turn

_TRAINING = (
    "window",
    "stride",
    "fit_stride",
    "latent",
    "model",
    "epochs",
    "batch",
    "period",
    "seed",
)


class Parts(NamedTuple):
    """A fitted detector taken apart."""

    fitted: Fitted
    state: StreamState
    past: tuple[Alarm | Change, ...] = ()
    zone: str | None = None  # of the times of the input now


class BaseDetector(Parameters, Verbs):
    """What the two detectors share."""

    threshold: float | str | Threshold | MovingThreshold | None
    kinds: ClassVar[dict[str, type[BaseDetector]]] = {}  # by their `method`
    _known: HistoryScores | None  # None after `load`

    def __init_subclass__(cls) -> None:
        cls.kinds[cls.method] = cls

    def explain(self) -> str:
        """Return what was chosen from history, and why."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        """Return it as a notebook shows it."""
        return hooks.html(self)

    def settings(self) -> tuple[Config, Goal]:
        """Return the options as `fit` uses them, and the goal of the threshold."""
        return self._validate()

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
        config, goal = self._validate()
        table = to_table(X, times=times)
        channels = table.channels or default_channels(table.values.shape[1])
        check_history(table.values, channels, config.window)
        period = median_period(table.times)
        if config.period is not None:
            period = duration(config.period, "period")
        with one_thread():  # the same bits whatever the number of threads is
            fitted, known = self._fit(config, goal, table, channels, period, on_epoch, on_phase)
        if on_phase is not None:
            on_phase("done", 1.0)
        reading = None if table.found is None else table.found.reading
        self._begin(replace(fitted, zone=table.zone, reading=reading), known)
        return self

    @property
    def history_scores_(self) -> Floats | None:
        """History's scores as a quantile takes them; None after `load`.

        Those of M2N2 are sorted: a limit on alarms, which needs their order, cannot use them.
        """
        self._live()
        return None if self._known is None else self._known.for_rule

    @property
    def ordered_scores_(self) -> Floats | None:
        """History's scores in the order of time; None after `load`."""
        self._live()
        return None if self._known is None else self._known.ordered

    def _fit(
        self,
        config: Config,
        goal: Goal,
        history: Table,
        channels: tuple[str, ...],
        period: np.timedelta64 | None,
        on_epoch: OnEpoch | None,
        on_phase: OnPhase | None,
    ) -> tuple[Fitted, HistoryScores]:
        raise NotImplementedError

    def _begin(self, fitted: Fitted, known: HistoryScores | None) -> None:
        self._fitted, self._known = fitted, known
        self._state = fitted.initial()
        self._events = deque(maxlen=EVENTS)
        self._past = deque(maxlen=PAST)
        self._zone = None

    @in_turn
    def with_options(self, *, scores: Floats | None = None, **options: Any) -> Self:
        """Return a copy with the same fit and other options, at the start of a stream.

        Options are those that need no training: threshold, alarms_per_day, risk and accept_after;
        for M2N2 also decay, half_life, lr, detrend and adapt. A quantile and a limit on alarms are
        taken from history's `scores`; None: those of `fit`.
        """
        self._live()
        for name in options:
            if name in _TRAINING:
                raise ParameterError(
                    f"{name}: expected an option that needs no training, found {name}",
                    hint="fit a new detector with it",
                )
        twin = self._shallow().set_params(**options)
        config, goal = twin._validate()
        known = self._known if scores is None else HistoryScores(scores, scores)
        before = self._validate()[1]
        anew = scores is not None
        twin._begin(refit_threshold(self._fitted, config, goal, before, known, anew=anew), known)
        return twin

    # ------------------------------------------------------------------ parts

    def unfitted(self, **options: Any) -> Self:
        """Return a detector with the same options, but for these, that is not fitted."""
        return type(self)(**{**self.get_params(), **options})

    @in_turn
    def to_parts(self) -> Parts:
        """Return what was fitted, and copies of the live state and of the newest alarms."""
        state = self._live().copy()
        return Parts(self._fitted, state, tuple(self._past), self._zone)

    def with_parts(self, parts: Parts) -> Self:
        """Return a detector with these options that goes on from `parts`, which it shares."""
        twin = self._shallow()
        twin._begin(parts.fitted, None)
        twin._state = parts.state
        twin._past.extend(parts.past)
        twin._zone = parts.zone
        return twin

    # ------------------------------------------------------------------ state

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything, live state included, to one file, atomically.

        What it wrote can be loaded: that is tried before an older file is replaced.
        """
        self.write(path)

    def write(self, path: str | os.PathLike[str], **facts: Any) -> None:
        """Write the state with more facts, such as a place in the input; see `save`."""
        state = self.to_state()
        rule = self._validate()[1].rule
        write_checked(
            path,
            State({**state.facts, **facts}, state.tensors),
            getattr(self, "model", None),
            None if isinstance(rule, Quantile | Fixed) else type(rule),
        )

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
        given = self.options_as_json()
        return pack(
            self.method,
            given["options"],
            given["threshold"],
            self._fitted,
            state,
            self._events,
            self._past,
        )

    def options_as_json(self) -> dict[str, Any]:
        """Return `method`, `options` and `threshold` as a state file has them."""
        options = {
            name: path_of(value) if name == "model" else option_as_json(value)
            for name, value in self.get_params().items()
            if name != "threshold"
        }
        rule = None if self.threshold is None else thresholds.to_json(self._validate()[1].rule)
        return {"method": self.method, "options": options, "threshold": rule}

    @classmethod
    def from_options(
        cls,
        found: Mapping[str, Any],
        origin: str = "this",
        model: object = None,
        threshold: object = None,
    ) -> BaseDetector:
        """Return what `options_as_json` was called on, not fitted; `origin` is for errors."""
        try:
            kind, options, rule = cls.kinds[found["method"]], found["options"], found["threshold"]
            if rule is not None:
                rule = thresholds.from_json(rule, thresholds.for_file(threshold))
            if "model" not in options:
                model = None
            return _made(kind, {**options}, rule, origin, model)
        except (AttributeError, KeyError, TypeError, ParameterError) as error:
            raise StateError(
                f"{origin} has options that this newnormal does not understand: {error}", hint=AGAIN
            ) from error

    @classmethod
    def from_state(
        cls,
        state: State,
        origin: str = "this",
        model: object = None,
        threshold: object = None,
        known: HistoryScores | None = None,
    ) -> Self:
        """Return the detector that `to_state` was called on; `origin` is for errors.

        `known` are history's scores, which a state does not have: `with_options` uses them.
        """
        found = unpack(state, origin, model, threshold)
        kind = cls.kinds[found.method]
        if not issubclass(kind, cls):
            raise StateError(
                f"{origin} is a {kind.__name__}, expected a {cls.__name__}",
                hint=f"newnormal.load returns either; {kind.__name__}.load this one",
            )
        detector = _made(kind, found.options, found.threshold, origin, model)
        detector._begin(found.fitted, known)
        detector._state = found.state
        detector._events.extend(found.events)
        detector._past.extend(found.past)
        assert isinstance(detector, cls)
        return detector

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            found = {**vars(self)}
            if "_state" in found:
                found["_state"] = self._state.copy()
                found["_events"] = self._events.copy()
                found["_past"] = self._past.copy()
        del found["_lock"]
        return found

    def __setstate__(self, found: dict[str, Any]) -> None:
        vars(self).update(found)
        add_lock(self)
        if "_state" in found:  # arrays may be read-only maps of a file, as joblib's are
            self._fitted, self._state = writable(self._fitted), self._state.copy()

    def _validate(self) -> tuple[Config, Goal]:
        raise NotImplementedError


def _made(
    kind: type[BaseDetector], options: Mapping[str, Any], rule: Any, origin: str, model: object
) -> BaseDetector:
    """Return a detector with these options, not fitted."""
    given = dict(options)
    if model is not None:
        given["model"] = model
    threshold = rule.q if isinstance(rule, thresholds.Quantile) else rule
    try:
        return kind(**{**given, "threshold": threshold})
    except (ParameterError, StateError, TypeError, KeyError, ValueError) as error:
        raise StateError(
            f"{origin} is not a state this newnormal understands: {error}",
            hint=AGAIN,
        ) from error
